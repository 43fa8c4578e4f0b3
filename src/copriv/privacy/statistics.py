"""One answer that the squared loss needs no second of: the gradient at a public point, and second moments, both noisy.

Formal guarantee. Let g be the mean over n units of gradients at θ₀ clipped to ‖·‖₁ ≤ Ξ, and h the mean over units of

    m(x) = (x₁², …, x_p²; 2x₁x₂, 2x₁x₃, …, 2x_{p−1}x_p),      ‖m(x)‖₁ = Σ_jk |x_j||x_k| = ‖x‖₁² ≤ M = B².

With an intercept, x = (x′, 1), the last entry of m is always 1: taken as 0 here, M = (B + 1)² − 1 remains. One unit
adds to u = ((1−τ) g/Ξ, τ h/M) a vector of L1 norm at most (1−τ) + τ = 1 over n, so replacing a unit moves u by at
most 2/n in L1, and u with independent Laplace noise of scale 2/(nε) on each number is ε-differentially private. Both
bounds are enforced here: gradients are clipped, and features are scaled into the ball. The bound is reached: two
units at different corners of the ball with slopes at their limit differ by 2 in u, so no smaller scale is private.

Undone, the noise has scale 2Ξ/(nε(1−τ)) on the gradient, 2M/(nετ) on the mean of x_j², and half of that on the mean
of x_jx_k: a cross term stands twice in xxᵀ, so releasing it doubled costs no sensitivity and halves its noise.

At a θ₀ near the optimum, such as a public model, residuals are small and so is Ξ; the curvature then matters little and
τ = 0 (no second moments; the learner takes the public ones) is often best. `best_share` finds τ from public numbers.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import fsum

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.privacy.answering import Releases
from copriv.privacy.clipping import BLOCK, ROUNDING, clipped_mean_gradient
from copriv.records import Records
from copriv.types import Array, Loss
from copriv.validation import count, positive


def statistics_length(n_parameters: int, share: float) -> int:
    """How many numbers leave: p, and p(p + 1)/2 more where second moments do."""
    p = n_parameters
    return p + (p * (p + 1) // 2 if share > 0 else 0)


def statistics_noise(
    bound: float, moments_bound: float, share: float, n_parameters: int, records: int, epsilon: float, overlap: int = 1
) -> Float[Array, " answer"]:
    """The scale of the noise on each number of an answer, in the unit of that number.

    `bound` is Ξ and `moments_bound` M; the order of the numbers is that of `StatisticsAnswer`.
    """
    Ξ, M, τ, p, n, ε = bound, moments_bound, share, n_parameters, records, epsilon / overlap
    gradient = np.full(p, 2 * Ξ / (n * ε * (1 - τ)))
    if τ == 0:
        return gradient
    return np.concatenate([gradient, 2 * M / (n * ε * τ) / multiplicity(p)])


def bound_on_moments(feature_bound: float, intercept: bool) -> float:
    """M: how much of L1 norm a unit's second moments may have, but for the constant 1 of an intercept."""
    B = feature_bound
    return B * B + 2.0 * B if intercept else B * B


def multiplicity(n_parameters: int) -> Float[Array, " moments"]:
    """How often each entry of the upper triangle stands in a symmetric matrix: 1 on the diagonal, 2 off it."""
    row, column = np.triu_indices(n_parameters)
    return np.where(row == column, 1.0, 2.0)


def unpack(moments: Float[Array, "*batch moments"], n_parameters: int) -> Float[Array, "*batch p p"]:
    """The symmetric matrix of an upper triangle, row by row."""
    row, column = np.triu_indices(n_parameters)
    matrix = np.empty((*moments.shape[:-1], n_parameters, n_parameters))
    matrix[..., row, column] = matrix[..., column, row] = moments
    return matrix


def into_reach(features: Float[Array, "records p"], bound: float, intercept: bool) -> Float[Array, "records p"]:
    """Rows as the sensitivity takes them: ‖x‖₁ ≤ bound, and the intercept 1. Rows that keep to it are unchanged."""
    x = features.copy()
    own = x[:, :-1] if intercept else x
    norms = np.abs(own).sum(axis=1)
    own *= np.minimum(1.0, bound / np.maximum(norms, np.finfo(float).tiny))[:, None]
    if intercept:
        x[:, -1] = 1.0
    return x


def mean_moments(records: Records, bound: float, intercept: bool) -> Float[Array, " moments"]:
    """The upper triangle of Σ w xxᵀ/n over rows of `into_reach`, blocks added up with one rounding as in `clipping`."""
    row, column = np.triu_indices(records.n_parameters)
    sums = []
    for start in range(0, len(records), BLOCK):
        rows = slice(start, start + BLOCK)
        x = into_reach(records.features[rows], bound, intercept)
        sums.append(((records.weight[rows, None] * x).T @ x)[row, column])
    total = np.array([fsum(entry) for entry in np.stack(sums, axis=1)])
    return np.asarray(total / records.weight.sum())


@dataclass(frozen=True)
class StatisticsAnswer:
    """The whole ε of a run in one answer: gradient (p numbers), then, with `share` τ > 0, second moments (p(p+1)/2).

    Entries of the triangle are means of x_jx_k, not doubled. Raises InvalidInput where a bound is not positive, the
    share not in [0, 1), or the noise cannot be certified.
    """

    bound: float
    """Ξ, in L1, of a unit's gradient."""
    feature_bound: float
    """B, in L1, of a record's features without the intercept."""
    intercept: bool
    share: float
    epsilon: Fraction
    units: int
    n_parameters: int

    def __post_init__(self) -> None:
        positive("gradient_bound", self.bound)
        positive("feature_bound", self.feature_bound)
        count("records", self.units)
        if not 0 <= self.share < 1:
            raise InvalidInput(f"moments_share: must be at least 0 and below 1, not {self.share!r}")
        _ = self._noise.scale

    @property
    def moments_bound(self) -> float:
        """M."""
        return bound_on_moments(self.feature_bound, self.intercept)

    @property
    def scale(self) -> float:
        """Of the noise on each coordinate of the gradient."""
        return self._noise.scale * self.bound / (1 - self.share)

    @cached_property
    def _noise(self) -> Releases:
        from copriv.privacy.mechanisms import LaplaceAnswer  # imports OpenDP, which a simulation never needs

        sensitivity = 2.0 / self.units + 2.0 * ROUNDING
        return LaplaceAnswer(sensitivity, self.epsilon, statistics_length(self.n_parameters, self.share))

    @cached_property
    def _unit(self) -> Float[Array, " answer"]:
        """What each number is divided by before noise: then one unit's share of the mean has L1 norm at most 1/n."""
        gradient = np.full(self.n_parameters, self.bound / (1 - self.share))
        if self.share == 0:
            return gradient
        return np.concatenate([gradient, self.moments_bound / self.share / multiplicity(self.n_parameters)])

    def statistics(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The answer before noise. Private."""
        gradient = clipped_mean_gradient(loss, records, theta, self.bound)
        if self.share == 0:
            return gradient
        return np.concatenate([gradient, mean_moments(records, self.feature_bound, self.intercept)])

    def answer(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The noisy statistics."""
        return self._noise.release(self.statistics(loss, records, theta) / self._unit) * self._unit


def best_share(
    curvature: Float[Array, "p p"], displacement: Float[Array, "p p"], bound: float, moments_bound: float
) -> float:
    """τ that costs least, from public numbers: ½ tr(A⁻¹·Cov) of the noise's effect on the solution.

    curvature: A = ∇²f. displacement: E (θ* − θ₀)(θ* − θ₀)ᵀ, what the start is expected to be off by.
    bound, moments_bound: Ξ and M. Neither n nor ε matters: both parts scale alike.

    The gradient's noise costs a/(1−τ)², a = ½·2(2Ξ)² tr A⁻¹; that of H, through 2·noise·(θ* − θ₀), b/τ² with b the same
    sum over its entries. The least of a/(1−τ)² + b/τ² is at τ = b^⅓/(a^⅓ + b^⅓).
    """
    p = len(curvature)
    A = np.linalg.inv(curvature)
    a = np.trace(A) * (2 * bound) ** 2
    b = 0.0
    for (j, k), times in zip(zip(*np.triu_indices(p), strict=True), multiplicity(p), strict=True):
        # 2N(θ* − θ₀) for N with one noisy entry (and its mirror), of scale 2M/times.
        move = A[j, j] * displacement[k, k]
        if j != k:
            move += A[k, k] * displacement[j, j] + 2 * A[j, k] * displacement[j, k]
        b += (2 * 2 * moments_bound / times) ** 2 * move
    return float(b ** (1 / 3) / (a ** (1 / 3) + b ** (1 / 3)))
