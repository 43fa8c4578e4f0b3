"""The best split of a record's budget among the owners that hold it, in place of ε_i/κ each.

A record that κ owners hold is answered for by all of them, and what they spend on it adds up (S, after Assumption 1). With
ε_i/κ each, a person whose record stands with owners S loses at most (1/κ) Σ_S ε_i ≤ max_S ε_i: the largest promise among
those who hold it. Any ε′ keeps the same promise where, for every set S of owners that may hold one record, |S| ≤ min_S κ_i,

    Σ_S ε′_i ≤ max_S ε_i,    that is, with one κ, for every i:  ε′_i + (the κ−1 largest ε′_j of others with ε_j ≤ ε_i) ≤ ε_i,

so the split is chosen that makes the noise least: min Σ_i a_i/ε′_i², a_i = (w_i/n_i)². Equal budgets and weights n_i/n
leave nothing to gain; an owner with a small ε among owners with large ones hardly has to divide. The minimum is a convex
program. Constraints that a solution violates are added until it violates none, and the last solution is scaled to satisfy
all of them exactly.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.plan.plan_result import NoiseCurve
from copriv.types import Array, Whole

MOST_OWNERS = 100
"""Most owners for whom the split is optimised; for more, it is ε_i/κ_i."""


@dataclass(frozen=True, eq=False)
class Split:
    """The budget of each owner for a record, and the noise that follows."""

    epsilon: Float[Array, " owners"]
    """ε′_i: over the holders of one record they add up to at most the largest of their ε_i."""
    noise: float
    """Σ a_i/ε′_i² relative to that of ε_i/κ_i; at most 1."""


def best_split(
    price: Float[Array, " owners"], epsilon: Float[Array, " owners"], overlap: Int[Whole, " owners"]
) -> Split:
    """The split of least Σ price_i/ε′_i². price: (w_i/n_i)²; epsilon: ε_i; overlap: κ_i, the most holders of a record."""
    from scipy.optimize import minimize  # slow to import, and needed for shared records only

    a, ε, κ = price, epsilon, overlap
    plain = ε / κ
    best = float(np.sum(a / plain**2))
    if len(ε) > MOST_OWNERS or (κ <= 1).all():
        return Split(plain, 1.0)
    A, b, x = np.eye(len(ε)), ε, plain
    for _ in range(50):
        # In units of ε_i/κ_i and of its noise: the solver needs numbers near 1.
        found = minimize(
            lambda u: float(np.sum(a / (plain * u) ** 2)) / best,
            x / plain,
            jac=lambda u: -2.0 * a / plain**2 / u**3 / best,
            bounds=[(1e-3, None)] * len(ε),
            constraints={
                "type": "ineq",
                "fun": lambda u, A=A, b=b: b - A @ (plain * u),
                "jac": lambda u, A=A: -A * plain,
            },
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-14},
        )
        x = np.maximum(plain * found.x, 1e-3 * plain)
        sets = np.array([_holders(x, ε, κ, i) for i in range(len(ε))])
        broken = sets @ x > ε * (1.0 + 1e-9)
        if not broken.any():
            break
        A, b = np.vstack([A, sets[broken]]), np.append(b, ε[broken])
    x = x / max(1.0, max(float(_holders(x, ε, κ, i) @ x / ε[i]) for i in range(len(ε))))
    noise = float(np.sum(a / x**2)) / best
    if noise >= 1.0:
        return Split(plain, 1.0)
    return Split(x, noise)


def split_of(agreement: Agreement, curve: NoiseCurve) -> dict[str, Any] | None:
    """The best split and its noise and ψ, for the JSON; None where no record has two holders, or owners are too many."""
    κ = agreement.overlaps.astype(np.int64)
    if (κ <= 1).all() or len(κ) > MOST_OWNERS or agreement.summed:
        return None
    price = (agreement.weights / agreement.records) ** 2
    found, ν = best_split(price, agreement.epsilons, κ), float(np.sum(price * (κ / agreement.epsilons) ** 2))
    return {
        "epsilon": found.epsilon.tolist(),
        "noise": found.noise,
        "relative_fitness": float(curve.at(ν * found.noise)),
        "relative_fitness_as_agreed": float(curve.at(ν)),
    }


def _holders(
    x: Float[Array, " owners"], ε: Float[Array, " owners"], κ: Int[Whole, " owners"], i: int
) -> Float[Array, " owners"]:
    """Indicator of the set that spends most among those in which owner i has the largest ε."""
    below = sorted((j for j in range(len(ε)) if (ε[j], j) < (ε[i], i)), key=lambda j: -x[j])
    # An owner is in no set larger than the number of holders that its records may have.
    sets = [[i, *[j for j in below if κ[j] >= size][: size - 1]] for size in range(1, int(κ[i]) + 1)]
    return np.isin(np.arange(len(ε)), max(sets, key=lambda one: float(np.sum(x[one])))).astype(np.float64)
