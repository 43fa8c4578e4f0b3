"""Bounds beside measurements: the papers' theorems for a rule, and the law fitted to what was measured.

The theorems stand with their rules (`copriv.rules`), what they share in `rules.bounds`.
"""

import math
from dataclasses import dataclass

import numpy as np

from copriv.agreement.participants import Participants
from copriv.errors import InvalidInput
from copriv.problem import Problem
from copriv.rules.async_copies import a_as_printed, a_theorem_2
from copriv.rules.bounds import Bound, Setting, on_parameters
from copriv.rules.sync_averaged import s_theorem_3
from copriv.rules.sync_decay import s_theorem_2
from copriv.simulation.engine import noise_scales
from copriv.types import Array
from copriv.validation import finite_array

__all__ = [
    "Bound",
    "Fit",
    "Setting",
    "a_as_printed",
    "a_theorem_2",
    "fit_inverse_square",
    "on_parameters",
    "s_theorem_2",
    "s_theorem_3",
    "setting_of",
]


def setting_of(problem: Problem) -> Setting:
    """What the theorems need of an agreement, with the noise that its mechanism makes, and what their proofs assume.

    Every number and every gradient is checked for these terms; L and λ are those of the records in the problem.
    """
    agreement = problem.agreement
    f, p, terms = problem.fitness, problem.n_parameters, agreement.agreement
    n, mechanism, participants = float(agreement.records.sum()), agreement.mechanism, Participants.of(agreement)
    scales = noise_scales(agreement, problem.feature_bound)
    moments = p * mechanism.law(agreement).variance * (agreement.weights * scales) ** 2
    # A record with κ holders is answered for as if ε were ε/κ; a group is one participant whose members' noise adds up.
    inverse = (agreement.overlaps / agreement.epsilons) ** 2
    if agreement.synchronous:
        members: tuple[tuple[int, ...], ...] = tuple((i,) for i in range(agreement.n_owners))
    else:
        members = participants.members
    scaling, plain = _multiple(problem.preconditioner)
    Ξ, proved = agreement.gradient_bound, problem.proved_gradient_bound
    rates = participants.rates
    equally = agreement.synchronous or terms.schedule == "uniform" or min(rates) == max(rates)
    return Setting(
        gradient_bound=Ξ,
        regularizer_bound=f.regularizer.bound(f.feasible_set.theta_max, p),
        n_parameters=p,
        total_records=n,
        epsilon=np.array([inverse[list(group)].sum() for group in members]) ** -0.5,
        horizon=terms.horizon,
        step=agreement.step * scaling,
        strong_convexity=f.strong_convexity(),
        smoothness=f.smoothness(),
        regularization=f.regularizer.strength,
        diameter=f.feasible_set.diameter(p),
        answers=agreement.answers,
        noise=np.array([moments[list(group)].sum() for group in members]),
        moves=agreement.queries if agreement.synchronous else None,
        assumed=(
            (
                proved <= Ξ * (1.0 + 1e-9),
                f"no gradient ever clipped: Ξ = {Ξ:.4g} at least their proved bound {proved:.4g}",
            ),
            (bool(np.allclose(agreement.weights, agreement.records / n)), "owners weigh n_i/n"),
            (plain, "no preconditioner but a multiple of the identity"),
            (bool(np.all(np.abs(problem.start) <= f.feasible_set.theta_max)), "the start in Θ"),
            (equally, "owners answer equally often"),
        ),
    )


def _multiple(preconditioner: Array | None) -> tuple[float, bool]:
    """c where the preconditioner is c > 0 times the identity, or none; else 1 and False."""
    if preconditioner is None:
        return 1.0, True
    c = float(preconditioner[0, 0])
    if c > 0 and np.array_equal(preconditioner, c * np.eye(len(preconditioner))):
        return c, True
    return 1.0, False


@dataclass(frozen=True)
class Fit:
    """ψ = constant/(nε)² fitted to measurements, and how well that law does.

    `slope` is the exponent of nε with ± one standard error where it is free (the law says −2); `residual` is the root
    mean square of ln ψ around the law with slope −2.
    """

    constant: float
    slope: float
    slope_error: float
    residual: float

    def predict(self, n: float, epsilon: float) -> float:
        """ψ by the law with slope −2."""
        return self.constant / (n * epsilon) ** 2


def fit_inverse_square(n: object, epsilon: object, psi: object) -> Fit:
    """Fit c/(n²ε²) to measured ψ by least squares in logarithms; n and ε may be one number for all.

    What the papers draw as "the bound in Theorem 2" is this fit (erratum 9). Raises InvalidInput on fewer than 3
    points, a ψ that is not above 0, or points that all have the same nε.
    """
    ψ = finite_array("psi", psi, 1)
    n_, ε = (np.broadcast_to(np.asarray(v, dtype=np.float64), ψ.shape) for v in (n, epsilon))
    x = finite_array("n * epsilon", n_ * ε, 1)
    if len(ψ) < 3 or not (ψ > 0).all() or not (x > 0).all() or not np.ptp(x) > 1e-9 * x.max():
        raise InvalidInput(
            "fit: needs 3 or more points with psi, n and epsilon above 0, at two or more different n * epsilon"
        )
    u, v = np.log(x), np.log(ψ)
    away = u - u.mean()
    slope = float(away @ v / (away @ away))
    left = v - v.mean() - slope * away
    error = math.sqrt(float(left @ left) / (len(v) - 2) / float(away @ away))
    level = float((v + 2.0 * u).mean())
    return Fit(math.exp(level), slope, error, float(np.sqrt(np.mean((v + 2.0 * u - level) ** 2))))
