"""E ψ of the squared loss with clipped gradients, approximated from the records; nothing is fitted.

The length of a clipped gradient is Ξ, however far θ is away. This has two effects.

*Bias.* Clipped gradients balance at θ_s and not at θ*, and noise smooths the clips: for θ − θ_s ~ N(0, sI),

    Σ_j share_j x_j E[clip(r_j + √s ‖x_j‖₂ z, Ξ/(2‖x_j‖₁))] + ∇g/2 = 0,      z ~ N(0, 1),  r_j the residual at θ_s.

*Variance.* Only gradients that are not clipped contribute to the curvature,

    H(s) = Σ_j share_j · x_j x_jᵀ · P(|r_j + √s ‖x_j‖₂ z| ≤ Ξ/(2‖x_j‖₁)).

The s that the exact recursion with θ_s and H(s) ends at must be s itself, which decides it. Owners are asked at θ[k], so
that s is that of θ[k] where the model is an average θ̄; with s̄ that of the model,

    E ψ = (f(θ_s) − f(θ*) + ½ s̄ tr A)/f(θ*).

Where s is small nothing is clipped but the longest records, and ψ ∝ 1/(nε)² down to the bias f(θ_s) − f(θ*), which no n or
ε removes; as s grows noise is held back by less and less, and ψ falls more steeply.
An approximation: one s for all directions and for the whole run, and Θ without bounds.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from copriv.exact import OwnerKinds, expected_cost
from copriv.model.fitness import Quadratic
from copriv.problem import Problem
from copriv.rules import named
from copriv.rules.rule import InRounds, Recursion
from copriv.types import Array
from copriv_papers.trials import Trial, loaded

LEAST, MOST = np.log(1e-12), np.log(1e16)
"""Between these is log s."""
NEWTON = 60
"""Steps to where clipped gradients balance, at most."""


@dataclass(frozen=True, eq=False)
class _Clipped:
    """What clipping needs to know of the records, equal ones once."""

    features: Array
    target: Array
    share: Array
    reach: Array
    """Ξ/(2‖x‖₁): the largest residual whose gradient is not clipped."""
    length: Array
    """‖x‖₂."""
    strength: float
    """σ of g."""

    @classmethod
    def of(cls, problem: Problem) -> "_Clipped":
        r = problem.fitness.records
        # Resampled records are the same few many times over; equal ones have equal random projections.
        mixed = np.column_stack([r.features, r.target]) @ np.random.default_rng(0).normal(size=r.n_parameters + 1)
        _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
        x, weight = r.features[first], np.bincount(which, r.weight)
        with np.errstate(divide="ignore"):
            reach = problem.agreement.gradient_bound / (2.0 * np.abs(x).sum(axis=1))
        length = np.sqrt(np.square(x).sum(axis=1))
        return cls(x, r.target[first], weight / weight.sum(), reach, length, problem.regularizer.strength)

    def pull(self, θ: Array, s: float) -> tuple[Array, Array]:
        """Half the expected clipped gradient at θ + N(0, sI), and its slope H(s)."""
        τ = np.maximum(np.sqrt(s) * self.length, 1e-300)
        r = self.features @ θ - self.target
        high, low = (self.reach - r) / τ, (-self.reach - r) / τ
        kept = ndtr(high) - ndtr(low)
        inside = r * kept - τ * (_density(high) - _density(low))
        with np.errstate(invalid="ignore"):
            outside = np.nan_to_num(self.reach * (ndtr(-high) - ndtr(low)))  # a record of zeros is never clipped
        weighted = self.features * self.share[:, None]
        half = weighted.T @ (inside + outside) + 0.5 * self.strength * θ
        return half, (weighted * kept[:, None]).T @ self.features

    def balanced(self, θ: Array, s: float) -> tuple[Array, Array]:
        """θ_s, by Newton's method from θ, and H(s) there."""
        half, H = self.pull(θ, s)
        for _ in range(NEWTON):
            slope = H + (0.5 * self.strength + 1e-9 * np.trace(H)) * np.eye(len(θ))
            step, size = np.linalg.solve(slope, half), 1.0
            while True:
                new, there = self.pull(θ - size * step, s)
                if new @ new <= half @ half or size < 1e-3:
                    break
                size /= 2
            if new @ new > half @ half:
                break
            done = new @ new > (1 - 1e-6) * (half @ half)
            θ, half, H = θ - size * step, new, there
            if done:
                break
        return θ, H


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-0.5 * np.minimum(np.square(z), 1e3)) / np.sqrt(2 * np.pi))


@lru_cache(maxsize=256)
def with_clipping(trial: Trial) -> float:
    """E ψ at the end of a trial; NaN for a loss that is not squared, or a rule without an exact recursion."""
    agreement, problem = trial.agreement, loaded(trial.data).under(trial.agreement)
    q, recursion = problem.fitness.quadratic, named(agreement.agreement.rule).recursion(agreement)
    if q is None or recursion is None:
        return float("nan")
    records, best = _Clipped.of(problem), problem.optimum
    owners, T = OwnerKinds.of(agreement.records, agreement.noise_scales()), agreement.agreement.horizon

    asked_at = replace(recursion, average=None) if isinstance(recursion, InRounds) else recursion

    def cost(of: Recursion, s: float) -> tuple[float, float]:
        """At the end of a run with θ_s and H(s) that is asked at θ + N(0, sI), and the trace of its curvature."""
        θ, H = records.balanced(best.theta, s)
        c = H @ θ + 0.5 * records.strength * θ  # so that θ_s is where it is least
        pull = Quadratic(H, c, q.s, q.regularizer)
        found = expected_cost(of, pull, owners, T, problem.start)
        return float(found[-1]), float(np.trace(pull.hessian))

    def off(log_s: float) -> float:
        end, trace = cost(asked_at, float(np.exp(log_s)))
        return float(np.log(2.0 * end / trace) - log_s)

    s = float(np.exp(brentq(off, LEAST, MOST, xtol=0.01)))
    bias = float(q.value(records.balanced(best.theta, s)[0])) - best.value
    end, trace = cost(recursion, s)
    return (bias + end / trace * float(np.trace(q.hessian))) / best.value
