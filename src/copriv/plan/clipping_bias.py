"""Candidates for the gradient bound Ξ, and the bias that clipping at each adds to the optimum of the public rows."""

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
from copriv.simulation.gradients import Pass
from copriv.types import Array, is_linear

GRADIENT_BOUNDS = 16
"""Number of candidates: from a fifth of the median public gradient to 1.5 times the largest, or a tail's 1e-4 quantile.

With 8, the plans of `benchmarks.plan_regret` (18 cells) cost 0.88 to 1.25 times as much, and one of them 68 times.
"""
CAUTION = 2.0
"""Factor on the estimated bias when settings are priced: unlike the noise, it is estimated, from few records.

In 82 cells (those of `benchmarks.plan_regret`, and tables of `benchmarks.unlike` whose rows are dealt at random) plans without
it cost as much in the geometric mean: the same in 53 cells, 0.60 to 2.16 times in the others.
"""


@dataclass(frozen=True, eq=False)
class Bounded:
    """The public problem with the candidates for Ξ and their bias, by the order of the norm (L1, L2)."""

    problem: Problem
    sample: PublicSample
    bounds: dict[int, Float[Array, " bounds"]]
    bias: dict[int, Float[Array, " bounds"]]
    """In the unit of f, times CAUTION; where few public gradients are as large as Ξ, at least the bias of a power law."""


def bounded(public: Problem, sample: PublicSample, noises: Sequence[GradientNoise]) -> Bounded:
    """Candidates for Ξ in each norm that the mechanisms use, with their bias."""
    given, r, theta = public.agreement.model.gradient_bound, sample.records, sample.optimum.theta
    gradients = public.loss.gradients(theta, r.features, r.target)
    # Where slopes are bounded, as a classifier's are, no tail of gradients is heavy.
    heavy = not is_linear(public.loss) or not np.isfinite(public.loss.slope_bound(np.inf, 1.0))
    found = Bounded(public, sample, {}, {})
    for order in {*(noise.norm for noise in noises), public.terms.mechanism.order(public.terms)}:
        norms = row_norms(gradients, order)
        bounds = np.array([given])
        if not isinstance(given, float):
            bounds = _candidates(norms, heavy)
        bias = np.array([_bias(public, sample, float(Ξ), order) for Ξ in bounds])
        priced = CAUTION * bias
        if heavy:
            priced = np.maximum(priced, _tail_bias(norms, bounds, bias))
        found.bounds[order], found.bias[order] = bounds, priced
    return found


def _candidates(norms: Float[Array, " rows"], heavy: bool) -> Float[Array, " bounds"]:
    felt = norms[norms > 0]
    if not len(felt):
        return np.geomspace(1e-3, 1.0, GRADIENT_BOUNDS)
    low, high = 0.2 * float(np.median(felt)), 1.5 * float(felt.max())
    if heavy:
        high = max(high, Tail.of(norms).level(1e-4))
    return np.geomspace(low, high, GRADIENT_BOUNDS)


def _tail_bias(norms: Array, bounds: Array, bias: Array) -> Array:
    """Bias with a power law beyond the 21st largest public gradient.

    With a Pareto tail of index h the clipped mass falls as Ξ^(1−h), and the bias as its square; h is Hill's estimate.
    Without it the plan for 100 owners of the papers' loans at ε = 10 costs 1.5 times as much; 79 of the 82 cells of `CAUTION`
    are the same.
    """
    largest = np.sort(norms)[::-1][:21]
    if len(largest) <= 20 or not largest[-1] > 0:
        return bias
    h = 1.0 / max(float(np.mean(np.log(largest[:-1] / largest[-1]))), 0.05)
    known = float(np.interp(np.log(largest[-1]), np.log(bounds), bias))
    law = known * (bounds / largest[-1]) ** (-2.0 * max(h - 1.0, 0.5))
    return np.where(bounds > largest[-1], law, bias)


def _bias(public: Problem, sample: PublicSample, bound: float, order: Literal[1, 2]) -> float:
    """f(θ_Ξ) − f(θ*) on the public rows, θ_Ξ where the clipped gradients balance.

    Descent along the inverse Hessian does not overshoot, since clipping only shortens gradients. After twenty steps the error
    is below the sampling error of the public rows.
    """
    one_pass = Pass(public.loss, sample.records, order=order)
    inverse = np.linalg.pinv(sample.hessian, rcond=1e-12, hermitian=True)
    theta, n = sample.optimum.theta, float(sample.records.weight.sum())
    for _ in range(20):
        clipped, _ = one_pass.gradients(theta[None], bound)
        theta = theta - inverse @ (clipped[0] / n + public.regularizer.gradient(theta))
    return max(float(sample.smooth.fitness.value(theta)) - sample.optimum.value, 0.0)
