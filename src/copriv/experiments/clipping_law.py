"""The law that ψ follows where gradients of the squared loss are clipped, from the records and with nothing fitted.

A gradient that is clipped to Ξ is as long however far θ is away: it pushes, and does not pull harder. So of the curvature
that brings θ back after noise only that of records whose gradients are not clipped is left,

    H(s) = Σ_j share_j · x_j x_jᵀ · P(2‖x_j‖₁ |r_j + √s ‖x_j‖₂ z| ≤ Ξ),      z ~ N(0, 1),  r_j the residual at θ*,

for θ − θ* ~ N(0, sI). The s that the exact recursion with H(s) ends at must be s itself, which decides it. Where s is small
nothing is clipped, and ψ ∝ 1/(nε)²; as s grows noise is held back by less and less, and ψ falls more steeply than that.
An approximation: one s for all directions and for the whole run, Θ without bounds, and no bias of clipped gradients.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from copriv.experiments.trials import Trial, loaded
from copriv.fitness import Quadratic
from copriv.forecast.exact.moments import OwnerKinds
from copriv.forecast.exact.recursion import moments_of
from copriv.problem import Problem
from copriv.rules import named
from copriv.simulation.engine import noise_scales
from copriv.types import Array

LEAST, MOST = np.log(1e-12), np.log(1e16)
"""Between these is log s."""


@dataclass(frozen=True, eq=False)
class _Records:
    """What clipping needs to know of each record."""

    features: Array
    share: Array
    residual: Array
    reach: Array
    """Ξ/(2‖x‖₁): the largest residual whose gradient is not clipped."""
    length: Array
    """‖x‖₂."""

    @classmethod
    def of(cls, problem: Problem) -> "_Records":
        r = problem.fitness.records
        x, θ = r.features, problem.optimum.theta
        with np.errstate(divide="ignore"):
            reach = problem.agreement.gradient_bound / (2.0 * np.abs(x).sum(axis=1))
        return cls(x, r.weight / r.weight.sum(), x @ θ - r.target, reach, np.sqrt(np.square(x).sum(axis=1)))

    def curvature(self, s: float) -> Array:
        """H(s)."""
        spread = np.maximum(np.sqrt(s) * self.length, 1e-300)
        kept = ndtr((self.reach - self.residual) / spread) - ndtr((-self.reach - self.residual) / spread)
        return np.asarray((self.features * (self.share * kept)[:, None]).T @ self.features)


def with_clipping(trial: Trial) -> float:
    """E ψ at the end of a trial; NaN for a loss that is not squared, or a rule without an exact recursion."""
    agreement, problem = trial.agreement, loaded(trial.data).under(trial.agreement)
    q, recursion = problem.fitness.quadratic, named(agreement.agreement.rule).recursion(agreement)
    if q is None or recursion is None:
        return float("nan")
    records, θ = _Records.of(problem), problem.optimum.theta
    owners, T = OwnerKinds.of(agreement.records, noise_scales(agreement)), agreement.agreement.horizon

    def ends_at(s: float) -> float:
        """The variance of each direction after a run with H(s)."""
        H = records.curvature(s)
        pull = Quadratic(H, H @ θ, q.s, q.regularizer)
        cost = float(moments_of(recursion, pull, owners, T, problem.start).mean[-1])
        return 2.0 * cost / float(np.trace(pull.hessian))

    def off(log_s: float) -> float:
        return float(np.log(ends_at(float(np.exp(log_s)))) - log_s)

    s = float(np.exp(brentq(off, LEAST, MOST, xtol=0.01)))
    return 0.5 * s * float(np.trace(q.hessian)) / problem.optimum.value
