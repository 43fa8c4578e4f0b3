"""What given terms are expected to cost: on the public rows, exactly where that can be, else by runs.

What private data could tell is replaced by the public sample and by how wrong it may be: runs are made in bootstrap
worlds of it (`PublicSample.worlds`), and the band covers both noise and worlds. Where nothing is clipped and the loss is
squared, the mean comes from the exact recursion of the rule instead, where it has one, and is called exact.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.errors import CoprivError
from copriv.forecast.exact.moments import OwnerKinds
from copriv.forecast.exact.recursion import moments_of
from copriv.mechanisms import GradientNoise, Guarantee
from copriv.privacy.noise import Law
from copriv.problem import Problem
from copriv.public_sample import PublicSample
from copriv.rules import named
from copriv.simulation import simulate
from copriv.simulation.engine import noise_scales
from copriv.types import Array

WORLDS = 10
RUNS = 100
EXACT_EVENTS = 20_000
"""Queries beyond which the exact recursion is not tried."""


@dataclass(frozen=True, eq=False)
class Band:
    """ψ expected after k queries (or in round k): mean, median, and where 90 % of runs are."""

    k: Int[np.ndarray, " recorded"]
    mean: Float[Array, " recorded"]
    median: Float[Array, " recorded"]
    low: Float[Array, " recorded"]
    """5 % of runs are below."""
    high: Float[Array, " recorded"]
    """5 % of runs are above."""


@dataclass(frozen=True, eq=False)
class Assessment:
    """One set of terms and what it is expected to cost."""

    agreement: Agreement
    kind: Literal["exact", "simulated"]
    relative_fitness: Band
    private: bool
    words: str

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract, with the curve added."""
        ψ, terms = self.relative_fitness, self.agreement.agreement
        return {
            "rule": terms.rule,
            "answers": self.agreement.answers,
            "step": self.agreement.step,
            "kind": self.kind,
            "relative_fitness": {
                "mean": float(ψ.mean[-1]),
                "low": float(ψ.low[-1]),
                "high": float(ψ.high[-1]),
                "median": float(ψ.median[-1]),
            },
            "horizon": terms.horizon,
            "gradient_bound": self.agreement.gradient_bound,
            "feature_bound": self.agreement.data.feature_bound,
            "private": self.private,
            "words": self.words,
            "curve": {name: getattr(ψ, name).tolist() for name in ("k", "mean", "median", "low", "high")},
        }


def assess(problem: Problem, words: str, runs: int = RUNS, seed: int = 0) -> Assessment:
    """Terms without "auto", on the public rows: exact where that can be, else simulated in bootstrap worlds."""
    sample = PublicSample.of(problem)
    each = -(-runs // WORLDS)
    simulated = [
        simulate(world, runs=each, seed=seed, first_run=i * each, alone=False, workers=1)
        for i, world in enumerate(sample.worlds(WORLDS, seed))
    ]
    k = simulated[0].relative_fitness.k
    ψ = np.concatenate([one.relative_fitness.runs for one in simulated])
    low, median, high = np.quantile(ψ, [0.05, 0.5, 0.95], axis=0)
    mean, kind = ψ.mean(axis=0), "simulated"
    if all(one.clipped == 0 for one in simulated):
        exact = _exact_mean(problem, sample)
        if exact is not None:
            mean, kind = exact[k - k[0]], "exact"
    private = not problem.agreement.model.gradient_bound_assumed
    return Assessment(problem.agreement, kind, Band(k, mean, median, low, high), private, words)  # type: ignore[arg-type]


def _exact_mean(problem: Problem, sample: PublicSample) -> Array | None:
    """E ψ after every query, over noise, schedule and what the public sample cannot know; None where out of reach.

    The owners' optimum is off the public one by d of known covariance; cost is quadratic in the start, so the mean over
    d is the mean over ±√(variance) in each eigenvector.
    """
    quadratic, terms = problem.fitness.quadratic, problem.agreement.agreement
    if quadratic is None or problem.preconditioner is not None or problem.agreement.queries > EXACT_EVENTS:
        return None
    if any(owner.group for owner in problem.agreement.owner) or terms.schedule in ("poisson", "rounds"):
        return None
    agreement, mechanism = problem.agreement, problem.agreement.mechanism
    # The recursions are those of Laplace noise, as much of it in every answer.
    pure = isinstance(mechanism, GradientNoise) and mechanism.guarantee is Guarantee.PURE
    recursion = named(terms.rule).recursion(agreement)
    if recursion is None or not pure or mechanism.law(agreement) is not Law.LAPLACE:
        return None
    capped = None if agreement.answers >= terms.horizon else np.full(agreement.n_owners, float(agreement.answers))
    owners = OwnerKinds.of(agreement.records, noise_scales(agreement), answers=capped)
    if not np.allclose(owners.weights, agreement.weights):
        return None
    _, U = np.linalg.eigh(quadratic.hessian)
    n = 1.0 / float(agreement.records.sum()) + 1.0 / sample.records.units
    off = U @ np.sqrt(np.maximum(np.diag(U.T @ sample.spread @ U) * n, 0.0))
    order: Any = "random order" if terms.schedule == "random-order" else "uniform"
    try:
        both = [
            moments_of(recursion, quadratic, owners, terms.horizon, problem.start + sign * off, order)
            for sign in (1.0, -1.0)
        ]
    except CoprivError:
        return None  # the exact recursion is out of reach here, and says so
    if any(found.kind != "exact" for found in both):
        return None
    cost = 0.5 * (both[0].mean + both[1].mean)
    return np.asarray(cost / sample.optimum.value)
