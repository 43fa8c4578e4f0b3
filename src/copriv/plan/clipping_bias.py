"""Candidates for the gradient bound Ξ, and how far clipping at each moves the optimum of the public rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.data.extreme_values import Tail
from copriv.mechanisms import GradientNoise
from copriv.populations.public_sample import PublicSample
from copriv.privacy.clipping import row_norms
from copriv.problem import Problem
from copriv.simulation.kernels import Pass
from copriv.types import Array, is_linear

GRADIENT_BOUNDS = 16
"""Candidates for Ξ: from a tenth of the median public gradient to the largest."""
CAUTION = 2.0
"""Factor on the estimated bias when settings are priced: unlike the noise, it is estimated, from few records."""
TAIL = 20
"""Public gradients that the tail of their sizes is estimated from."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """The public problem: its sample, and the bias of each candidate Ξ, in L1 or L2."""

    problem: Problem
    sample: PublicSample
    bounds: dict[int, Float[Array, " bounds"]]
    """By the order of the norm."""
    seen: dict[int, Float[Array, " bounds"]]
    """The bias on the public rows."""
    tail: dict[int, Float[Array, " bounds"]]
    """The same, where few public rows are so large: at least what the tail of their sizes says."""

    def bias(self, order: int) -> Float[Array, " bounds"]:
        """With caution: what each Ξ is priced at."""
        return np.maximum(CAUTION * self.seen[order], self.tail[order])


def bounded(public: Problem, sample: PublicSample, noises: Sequence[GradientNoise]) -> Bounded:
    """Candidates for Ξ in each norm that is looked at, and what each does to the optimum."""
    orders = sorted({*(noise.norm for noise in noises), public.terms.mechanism.order(public.terms)})
    given = public.agreement.model.gradient_bound
    r, theta = sample.records, sample.optimum.theta
    gradients = public.loss.gradients(theta, r.features, r.target)
    candidates: dict[int, Array] = {}
    seen: dict[int, Array] = {}
    tail: dict[int, Array] = {}
    for order in orders:
        norms = row_norms(gradients, order)
        if isinstance(given, float):
            bounds = np.array([given])
        else:
            felt = norms[norms > 0]
            low, high = (0.2 * float(np.median(felt)), 1.5 * float(felt.max())) if len(felt) else (1e-3, 1.0)
            if heavy_tailed(public) and len(felt):
                high = max(high, Tail.of(norms).level(1e-4))
            bounds = np.geomspace(low, max(high, low), GRADIENT_BOUNDS)
        bias = np.array([_bias(public, sample, float(Ξ), order) for Ξ in bounds])
        candidates[order], seen[order] = bounds, bias
        tail[order] = _tail_bias(norms, bounds, bias) if heavy_tailed(public) else bias
    return Bounded(public, sample, candidates, seen, tail)


def heavy_tailed(problem: Problem) -> bool:
    """Whether gradients may have a heavy tail: not where slopes are bounded, as a classifier's are."""
    return not is_linear(problem.loss) or not np.isfinite(problem.loss.slope_bound(np.inf, 1.0))


def _tail_bias(norms: Array, bounds: Array, bias: Array) -> Array:
    """Bias where few public gradients are as large as Ξ: a power law from where there are TAIL of them.

    With a Pareto tail of index h the clipped mass falls as Ξ^(1−h) and its bias as the square; h is Hill's estimate.
    """
    largest = np.sort(norms)[::-1][: TAIL + 1]
    if len(largest) <= TAIL or not largest[-1] > 0:
        return bias
    h = 1.0 / max(float(np.mean(np.log(largest[:-1] / largest[-1]))), 0.05)
    known = float(np.interp(np.log(largest[-1]), np.log(bounds), bias)) if len(bounds) > 1 else float(bias[0])
    law = known * (bounds / largest[-1]) ** (-2.0 * max(h - 1.0, 0.5))
    return np.where(bounds > largest[-1], law, bias)


def _bias(public: Problem, sample: PublicSample, bound: float, order: Literal[1, 2]) -> float:
    """f(θ_Ξ) − f(θ*) on the public rows, θ_Ξ where the clipped gradients balance.

    Descent along the inverse Hessian: a clipped gradient is never steeper than the gradient, so a full step never
    overshoots. Twenty steps leave less of the bias unseen than the public sample leaves anyway.
    """
    one_pass = Pass(public.loss, sample.records, order=order)
    inverse = np.linalg.pinv(sample.hessian, rcond=1e-12, hermitian=True)
    theta, n = sample.optimum.theta, float(sample.records.weight.sum())
    for _ in range(20):
        clipped, _ = one_pass.gradients(theta[None], bound)
        theta = theta - inverse @ (clipped[0] / n + public.regularizer.gradient(theta))
    return max(float(sample.smooth.fitness.value(theta)) - sample.optimum.value, 0.0)
