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

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError, InvalidInput
from copriv.losses import Squared
from copriv.mechanisms.mechanism import Guarantee, measured_over, noise_in_words
from copriv.mechanisms.one_answer import (
    Choosing,
    Common,
    Draft,
    Draw,
    OneAnswer,
    Setting,
    feature_bound_of,
    in_memory,
    public_inverse,
    rows,
)
from copriv.model.records import InBlocks, Records
from copriv.privacy.clipping import ROUNDING, clipped_mean_gradient
from copriv.privacy.moments import bound_on_moments, mean_moments, multiplicity
from copriv.privacy.noise import Law, Noise, Order, Releases
from copriv.rules.descent import Descent, UpdateRule
from copriv.rules.solve_statistics import SolveStatistics
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss
from copriv.validation import count, positive

STEPS = (1.0, 0.6, 0.3)
"""Candidate step sizes from the start to the solution; short ones keep more of a public start and less noise."""
MOST_SHARE = 0.999
"""Largest share of ε for second moments, so that the gradient keeps some whatever the features."""
SUMMED = 16
"""Most Laplace draws for owners that are alike; their scale makes up for the others."""


def statistics_length(n_parameters: int, share: float) -> int:
    """Length of an answer: p, and p(p + 1)/2 more with second moments."""
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

    ahead = None

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
        """Scale of the noise on each coordinate of the gradient."""
        return self._noise.scale * self.bound / (1 - self.share)

    @cached_property
    def _noise(self) -> Releases:
        from copriv.privacy.laplace import LaplaceAnswer  # imports OpenDP, which a simulation never needs

        sensitivity = 2.0 / self.units + 2.0 * ROUNDING
        return LaplaceAnswer(sensitivity, self.epsilon, statistics_length(self.n_parameters, self.share))

    @cached_property
    def _unit(self) -> Float[Array, " answer"]:
        """Divisor of each number before noise, by which one unit's share of the mean has L1 norm at most 1/n."""
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

    def answer(self, loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The noisy statistics."""
        return self._noise.release(self.statistics(loss, in_memory(records), theta) / self._unit) * self._unit


def best_share(
    curvature: Float[Array, "p p"], displacement: Float[Array, "p p"], bound: float, moments_bound: float
) -> float:
    """τ that costs least, from public numbers: ½ tr(A⁻¹·Cov) of the noise's effect on the solution.

    curvature: A = ∇²f. displacement: E (θ* − θ₀)(θ* − θ₀)ᵀ, what the start is expected to be off by.
    bound, moments_bound: Ξ and M. Neither n nor ε matters: both parts scale alike.

    The gradient's noise costs a/(1−τ)², a = ½·2(2Ξ)² tr A⁻¹; that of H, through 2·noise·(θ* − θ₀), b/τ² with b the same
    sum over its entries. The least of a/(1−τ)² + b/τ² is at τ = b^⅓/(a^⅓ + b^⅓), at most MOST_SHARE.
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
    return min(float(b ** (1 / 3) / (a ** (1 / 3) + b ** (1 / 3))), MOST_SHARE)


class Statistics(OneAnswer):
    """Pure ε, one answer: the squared loss's gradient and second moments."""

    name = "statistics"
    guarantee = Guarantee.PURE
    terms = ("moments_share",)
    label = "statistics"
    phrase = "noisy statistics"
    planned = True
    sums_records = True
    bound_quantile = 0.99  # rows beyond it count for less in second moments; a smaller B makes less noise

    def check(self, agreed: AgreedTerms) -> None:
        super().check(agreed)
        if agreed.model.loss != Squared.name:
            raise AgreementError(
                f'model.loss: mechanism "{self.name}" is for the squared loss, not {agreed.model.loss}'
            )

    def suits(self, loss: Loss) -> bool:
        return loss.name == Squared.name

    def law(self, agreed: AgreedTerms) -> Law:
        return Law.LAPLACE

    def order(self, agreed: AgreedTerms) -> Order:
        return 1

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        self.check_delta(agreed)
        share = agreed.agreement.moments_share
        return float(
            statistics_noise(agreed.gradient_bound, 1.0, share, 1, owner.records, owner.epsilon, owner.overlap)[0]
        )

    def scales(
        self, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int, feature_bound: float | None = None
    ) -> Float[Array, " answer"]:
        """Scale of the noise on each number of an answer."""
        M = bound_on_moments(feature_bound_of(agreed, feature_bound), agreed.model.intercept)
        return statistics_noise(
            agreed.gradient_bound, M, agreed.agreement.moments_share, n_parameters, owner.records, owner.epsilon,
            owner.overlap,
        )  # fmt: skip

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return statistics_length(n_parameters, agreed.agreement.moments_share)

    def in_earnest(self, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int, loss: Loss) -> StatisticsAnswer:
        ε, _ = self.cost(agreed, owner)
        return StatisticsAnswer(
            agreed.gradient_bound, feature_bound_of(agreed), agreed.model.intercept, agreed.agreement.moments_share, ε,
            owner.records, n_parameters,
        )  # fmt: skip

    def draft(self, agreed: AgreedTerms, owner: OwnerTerms, records: Records, common: Common) -> Draft:
        B, start = common.feature_bound, agreed.agreement.start
        θ = np.zeros(common.n_parameters) if start is None else np.array(start)
        exact = clipped_mean_gradient(common.loss, records, θ, agreed.gradient_bound)
        if agreed.agreement.moments_share > 0:
            exact = np.concatenate([exact, mean_moments(records, feature_bound_of(agreed, B), agreed.model.intercept)])
        noise = Noise(Law.LAPLACE, self.scales(agreed, owner, common.n_parameters, B))
        return Draft((noise,), lambda drawn: exact + drawn)

    def exact(
        self, agreed: AgreedTerms, owner: OwnerTerms, records: Records, common: Common
    ) -> Float[Array, " answer"]:
        """Nothing is clipped, and no record counts for less: the owner's own gradient and moments as they are."""
        start = agreed.agreement.start
        θ = np.zeros(common.n_parameters) if start is None else np.array(start)
        share, x = records.weight / records.total, records.features
        gradient = share @ common.loss.gradients(θ, x, records.target)
        if agreed.agreement.moments_share == 0:
            return np.asarray(gradient)
        row, column = np.triu_indices(common.n_parameters)
        return np.concatenate([gradient, ((x * share[:, None]).T @ x)[row, column]])

    def rule(
        self, agreed: AgreedTerms, descent: Descent, weights: Float[Array, " owners"], n_parameters: int,
        feature_bound: float | None = None,
    ) -> UpdateRule:  # fmt: skip
        step, p, moments = agreed.agreement.step, n_parameters, None
        if agreed.agreement.moments_share > 0:
            scales = [self.scales(agreed, owner, p, feature_bound)[p] for owner in agreed.owner_tables]
            moments = agreed.by_owner(scales)
        return SolveStatistics(
            descent, weights, moments, agreed.data.public_count, step if isinstance(step, float) else 1.0
        )

    def settings(self, choosing: Choosing) -> Iterator[Setting]:
        P, away, B = public_inverse(choosing), choosing.displacement, choosing.common.feature_bound
        M = bound_on_moments(float(B or 1.0), choosing.base.model.intercept)
        for Ξ in choosing.bounds(1):
            for share in {0.0, round(best_share(choosing.hessian, away.T @ away / len(away), Ξ, M), 3)}:
                yield Setting(Ξ, choosing.steps(STEPS), {"moments_share": share, "preconditioner": rows(P)})

    def tried(
        self, common: Common, records: Records, base: AgreedTerms, setting: Setting, runs: int, draw: Draw
    ) -> tuple[Float[Array, "runs p"], float]:
        """Models that the learner solves for from noisy statistics, with the noise of all owners drawn as one owner's."""
        p, Ξ, τ = common.n_parameters, setting.bound, float(setting.terms["moments_share"])
        B, intercept = feature_bound_of(base, common.feature_bound), base.model.intercept
        start = np.array(base.agreement.start)
        exact = clipped_mean_gradient(common.loss, records, start, Ξ)
        if τ > 0:
            exact = np.concatenate([exact, mean_moments(records, B, intercept)])
        unit = statistics_noise(Ξ, bound_on_moments(B, intercept), τ, p, 1, 1.0)
        each = _few_sums(base)
        noise = np.tensordot(draw(Law.LAPLACE, (runs, len(each), len(unit))), each, axes=(1, 0)) * unit
        together = None if τ == 0 else np.array([float(np.sqrt(np.square(each).sum())) * unit[p]])
        P = setting.terms["preconditioner"]
        descent = Descent(common.regularizer, common.feasible_set, None if P is None else np.array(P))
        rule = SolveStatistics(descent, np.ones(1), together, base.data.public_count)
        state = rule.step(rule.start(np.tile(start, (runs, 1))), np.zeros(runs, dtype=np.intp), exact + noise)
        return rule.model(state), 1.0

    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        units, clipped = measured_over(agreed, owner, 1)
        moments = " and second moments" if agreed.agreement.moments_share > 0 else ""
        loss, noise = agreed.model.loss, noise_in_words(Law.LAPLACE, self.scale(agreed, owner))
        what = f"one answer at the agreed start: a mean gradient of the {loss} loss{moments} over {units}, {clipped}"
        return what, f"{noise} on the gradient"


def _few_sums(base: AgreedTerms) -> Float[Array, " draws"]:
    """w_i κ_i/(n_i ε_i) of every owner; of many that are alike, of SUMMED that make as much noise together."""
    first = np.cumsum(base.counts) - base.counts
    weight = base.weights[first]
    each = []
    for w, table in zip(weight.tolist(), base.owner_tables, strict=True):
        drawn = min(table.number, SUMMED)
        scale = w * table.overlap / (table.records * table.epsilon)
        each += [scale * float(np.sqrt(table.number / drawn))] * drawn
    return np.array(each)
