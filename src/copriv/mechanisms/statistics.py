"""One answer that the squared loss needs no second of: the gradient at a public point, and second moments, both noisy.

Formal guarantee. Let g be the mean over n units of gradients at θ₀ clipped to ‖·‖₁ ≤ Ξ, and h the mean over units of

    m(x) = (x₁², …, x_p²; 2x₁x₂, 2x₁x₃, …, 2x_{p−1}x_p),      ‖m(x)‖₁ = Σ_jk |x_j||x_k| = ‖x‖₁² ≤ M = B².

With an intercept, x = (x′, 1), the last entry of m is always 1: taken as 0 here, M = (B + 1)² − 1 remains. One unit
adds to u = ((1−τ) g/Ξ, τ h/M) a vector of L1 norm at most (1−τ) + τ = 1 over n, so replacing a unit moves u by at
most 2/n in L1, and u with independent Laplace noise of scale 2/(nε) on each number is ε-differentially private. Both
bounds are enforced here: gradients are clipped, and features are scaled into the ball (docs/proofs/statistics.md).

Undone, the noise has scale 2Ξ/(nε(1−τ)) on the gradient, 2M/(nετ) on the mean of x_j², and half of that on the mean
of x_jx_k: a cross term stands twice in xxᵀ, so releasing it doubled costs no sensitivity and halves its noise.

At a θ₀ near the optimum, such as a public model, residuals are small and so is Ξ; the curvature then matters little and
τ = 0 (no second moments; the learner takes the public ones) is often best. `best_share` finds τ from public numbers.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError, InvalidInput
from copriv.losses import Squared
from copriv.mechanisms.expected import Declared
from copriv.mechanisms.mechanism import Guarantee, measured_over, shared_noise, start_of, step_of
from copriv.mechanisms.one_answer import (
    STEPS,
    Choosing,
    Common,
    Draft,
    Draw,
    OneAnswer,
    Setting,
    feature_bound_of,
    in_memory,
)
from copriv.model.records import InBlocks, Records
from copriv.privacy.clipping import ROUNDING, bound_on_moments, clipped_mean_gradient, mean_moments, multiplicity
from copriv.privacy.noise import Law, Noise, PrivateAnswer, Releases
from copriv.privacy.shared_noise import Share, SharedNoise
from copriv.rules.one_answer import SolveStatistics, Unmoved
from copriv.rules.rule import Descent, SharedSum, UpdateRule
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss
from copriv.validation import count, positive


@runtime_checkable
class Numbers(Protocol):
    """Means over an owner's units, released with noise."""

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds that are enforced on a unit, each above 0, by their names in an agreement."""

    @property
    def unit(self) -> Float[Array, " answer"]:
        """Divisor of each number before noise, by which a unit replaced moves the mean by at most 2/n, in L1 or L2."""

    def of(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The numbers themselves. Private."""


@dataclass(frozen=True)
class Moments:
    """What is released of an owner's records: their mean gradient and, with `share` τ > 0, their second moments.

    Numbers are in the order gradient (p), upper triangle of the second moments (p(p + 1)/2); its entries are means of
    x_jx_k, not doubled. Neither the θ that is asked at nor the law of the noise is a part of it.
    """

    bound: float
    """Ξ, in L1, of a unit's gradient."""
    feature_bound: float
    """B, in L1, of a record's features without the intercept."""
    intercept: bool
    share: float
    n_parameters: int

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise InvalidInput(f"moments_share: must be at least 0 and below 1, not {self.share!r}")

    @classmethod
    def agreed(cls, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> "Moments":
        """Those of an agreement; `feature_bound` is B as a number, where that is planned."""
        B, terms = feature_bound_of(agreed, feature_bound), agreed.agreement
        return cls(agreed.gradient_bound, B, agreed.model.intercept, terms.moments_share, n_parameters)

    @property
    def bounds(self) -> dict[str, float]:
        return {"gradient_bound": self.bound, "feature_bound": self.feature_bound}

    @cached_property
    def unit(self) -> Float[Array, " answer"]:
        """Divisor of each number before noise, by which one unit's share of the mean has L1 norm at most 1/n."""
        gradient = np.full(self.n_parameters, self.bound / (1 - self.share))
        if self.share == 0:
            return gradient
        M = bound_on_moments(self.feature_bound, self.intercept)
        return np.concatenate([gradient, M / self.share / multiplicity(self.n_parameters)])

    def of(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The numbers themselves. Private."""
        gradient = clipped_mean_gradient(loss, records, theta, self.bound)
        if self.share == 0:
            return gradient
        return np.concatenate([gradient, mean_moments(records, self.feature_bound, self.intercept)])


@dataclass(frozen=True)
class StatisticsAnswer:
    """The whole ε of a run in one answer: numbers with Laplace noise.

    Raises InvalidInput where a bound is not positive, or the noise cannot be certified.
    """

    moments: Numbers
    epsilon: Fraction
    units: int

    ahead = None

    def __post_init__(self) -> None:
        for name, bound in self.moments.bounds.items():
            positive(name, bound)
        count("records", self.units)
        _ = self._noise.scale

    @property
    def scale(self) -> float:
        """Scale of the noise on the first number, such as each coordinate of the gradient."""
        return float(self._noise.scale * self.moments.unit[0])

    @cached_property
    def _noise(self) -> Releases:
        from copriv.privacy.laplace import LaplaceAnswer  # imports OpenDP, which a simulation never needs

        # ‖u‖₁ ≤ 2 for a unit of every mechanism, of which rounding is a share.
        return LaplaceAnswer(2.0 / self.units + 4.0 * ROUNDING, self.epsilon, len(self.moments.unit))

    def answer(self, loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The noisy numbers."""
        exact, unit = self.moments.of(loss, in_memory(records), theta), self.moments.unit
        return self._noise.release(exact / unit) * unit


@dataclass(frozen=True)
class NumbersInSum:
    """Numbers as an owner's part in a sum, with its share of the noise."""

    moments: Numbers
    share: Share

    ahead = None

    def answer(self, loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"]) -> Float[Array, " halves"]:
        """Words, which masks are to hide."""
        return self.share.release(self.moments.of(loss, in_memory(records), theta))


def best_share(
    curvature: Float[Array, "p p"], displacement: Float[Array, "p p"], bound: float, moments_bound: float
) -> float:
    """τ that costs least, from public numbers: ½ tr(A⁻¹·Cov) of the noise's effect on the solution.

    curvature: A = ∇²f. displacement: E (θ* − θ₀)(θ* − θ₀)ᵀ, what the start is expected to be off by.
    bound, moments_bound: Ξ and M. Neither n nor ε matters: both parts scale alike.

    The gradient's noise costs a/(1−τ)², a = ½·2(2Ξ)² tr A⁻¹; that of H, through 2·noise·(θ* − θ₀), b/τ² with b the same
    sum over its entries. The least of a/(1−τ)² + b/τ² is at τ = b^⅓/(a^⅓ + b^⅓), at most 0.999, so that
    the gradient keeps some of ε whatever the features.
    """
    A, D = np.linalg.inv(curvature), displacement
    a = np.trace(A) * (2 * bound) ** 2
    j, k = np.triu_indices(len(A))
    # 2N(θ* − θ₀) for N with one noisy entry (and its mirror), of scale 2M/times.
    mirrored = A[k, k] * D[j, j] + 2 * A[j, k] * D[j, k]
    move = A[j, j] * D[k, k] + np.where(j == k, 0.0, mirrored)
    b = float(np.sum((4 * moments_bound / multiplicity(len(A))) ** 2 * move))
    return min(float(b ** (1 / 3) / (a ** (1 / 3) + b ** (1 / 3))), 0.999)


class OfNumbers(OneAnswer):
    """One answer: means over an owner's units (`Numbers`), each with noise in its own unit; Laplace noise by default."""

    sums_records = True
    why_not_summed = ""

    @abstractmethod
    def numbers(self, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> Any:
        """What is released; `feature_bound` is B as a number, where that is planned."""

    def law(self, agreed: AgreedTerms) -> Law:
        return Law.LAPLACE

    def multiplier(self, answers: int, epsilon: float, delta: float) -> float:
        return answers / epsilon

    def deviation(self, agreed: AgreedTerms, owner: OwnerTerms) -> float:
        """The scale of the noise that an owner's answer needs by itself, in the unit of each number."""
        return 2.0 * agreed.answers / (owner.records * owner.budget[0])

    def deviations(self, agreed: AgreedTerms) -> Array:
        """The scale of the noise in each participant's vector, in the unit of each number: one, where that is their sum."""
        if agreed.summed:
            return np.array([np.sqrt(np.sum(_noise_of_sum(self, agreed) ** 2))])
        return agreed.by_owner([self.deviation(agreed, one) for one in agreed.owner_tables])

    def in_sum(self, agreed: AgreedTerms, members: Sequence[int], n_parameters: int) -> SharedNoise:
        unit = self.numbers(agreed, n_parameters).unit
        # ‖u‖ ≤ 2 for a unit of every mechanism, of which rounding is a share.
        moved = [2.0 / agreed.owner[i].records + 4.0 * ROUNDING for i in members]
        return shared_noise(self, agreed, members, moved, 2.0, unit)

    def summand(self, agreed: AgreedTerms, share: Share, n_parameters: int) -> NumbersInSum:
        return NumbersInSum(self.numbers(agreed, n_parameters), share)

    def in_earnest(self, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int, loss: Loss) -> PrivateAnswer:
        return StatisticsAnswer(self.numbers(agreed, n_parameters), self.cost(agreed, owner)[0], owner.records)

    def draft(self, agreed: AgreedTerms, owner: OwnerTerms, records: Records, common: Common) -> Draft:
        numbers = self.numbers(agreed, common.n_parameters, common.feature_bound)
        exact = numbers.of(common.loss, records, start_of(agreed, common.n_parameters))
        noise = Noise(self.law(agreed), self.deviation(agreed, owner) * numbers.unit)
        return Draft((noise,), lambda drawn: exact + drawn)


class OfShares(OfNumbers):
    """Pure ε: shares of an owner's units in bins, over J histograms of them. No model follows, and it stays at the start."""

    guarantee = Guarantee.PURE
    gives_model = False

    @abstractmethod
    def histograms(self, agreed: AgreedTerms) -> int:
        """J, by which each share is divided before noise."""

    @abstractmethod
    def bins(self, agreed: AgreedTerms) -> str:
        """The bins, in words that follow "shares of 100 records"."""

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        """Scale of the noise on each share."""
        self.check_delta(agreed)
        return self.deviation(agreed, owner) * self.histograms(agreed)

    def rule(
        self, agreed: AgreedTerms, descent: Descent, weights: Float[Array, " owners"], n_parameters: int,
        feature_bound: float | None = None,
    ) -> UpdateRule:  # fmt: skip
        return Unmoved(descent, weights, self.length(agreed, n_parameters))

    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        what = f"shares of {owner.records} {owner.counted} {self.bins(agreed)}"
        return f"{answers_told(agreed)}: {what}", f"{self.noise_told(agreed, owner)} on each share"


class OfSquaredLoss(OfNumbers):
    """A gradient and second moments, from which the squared loss follows and no other."""

    def check(self, agreed: AgreedTerms) -> None:
        super().check(agreed)
        if agreed.model.loss != Squared.name:
            raise AgreementError(
                f'model.loss: mechanism "{self.name}" is for the squared loss, not {agreed.model.loss}'
            )

    def suits(self, loss: Loss) -> bool:
        return loss.name == Squared.name


class Statistics(OfSquaredLoss):
    """Pure ε, one answer: the squared loss's gradient and second moments."""

    name = "statistics"
    guarantee = Guarantee.PURE
    terms = ("moments_share",)
    label = "statistics"
    phrase = "noisy statistics"
    planned = True
    bound_quantile = 0.99  # rows beyond it count for less in second moments; a smaller B makes less noise

    def numbers(self, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> Moments:
        return Moments.agreed(agreed, n_parameters, feature_bound)

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        self.check_delta(agreed)
        gradient = Moments(agreed.gradient_bound, 1.0, False, agreed.agreement.moments_share, 1)
        return float(self.deviation(agreed, owner) * gradient.unit[0])

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        second = n_parameters * (n_parameters + 1) // 2
        return n_parameters + second * (agreed.agreement.moments_share > 0)

    def exact(
        self, agreed: AgreedTerms, owner: OwnerTerms, records: Records, common: Common
    ) -> Float[Array, " answer"]:
        """Nothing is clipped, and no record counts for less: the owner's own gradient and moments as they are."""
        moments = replace(
            Moments.agreed(agreed, common.n_parameters, common.feature_bound), bound=inf, feature_bound=inf
        )
        return moments.of(common.loss, records, start_of(agreed, common.n_parameters))

    def rule(
        self, agreed: AgreedTerms, descent: Descent, weights: Float[Array, " owners"], n_parameters: int,
        feature_bound: float | None = None,
    ) -> UpdateRule:  # fmt: skip
        p, scales = n_parameters, None
        if agreed.agreement.moments_share > 0:
            scales = self.deviations(agreed) * Moments.agreed(agreed, p, feature_bound).unit[p]
        return SolveStatistics(descent, weights, scales, agreed.data.public_count, step_of(agreed))

    def settings(self, choosing: Choosing) -> Iterator[Setting]:
        away, B = choosing.displacement, choosing.common.feature_bound
        M, second = bound_on_moments(float(B or 1.0), choosing.base.model.intercept), away.T @ away / len(away)
        for Ξ in choosing.bounds(1):
            for share in {0.0, round(best_share(choosing.hessian, second, Ξ, M), 3)}:
                terms = {"moments_share": share, "preconditioner": choosing.inverse.tolist()}
                yield Setting(Ξ, choosing.steps(STEPS), terms)

    def constant(self, declared: Declared) -> Iterator[tuple[float, Setting]]:
        """The target's mean, drawn to the middle of its range by what noise is expected to take."""
        if declared.order == 1:
            Ξ, c = declared.gradient_bound, Squared.curvature + declared.regularization
            variance = declared.averaged(lambda n, ε, _: 2.0 * Ξ * declared.answers / (c * n * ε))
            gap, step = declared.constant(Law.LAPLACE.variance * variance)
            yield gap, Setting(Ξ, (step,), {"moments_share": 0.0, "preconditioner": [[1.0 / c]]})

    def tried(
        self, common: Common, records: Records, base: AgreedTerms, setting: Setting, runs: int, draw: Draw
    ) -> tuple[Float[Array, "runs p"], float]:
        """Models that the learner solves for from noisy statistics, with the noise of all owners drawn as one owner's."""
        p, B = common.n_parameters, feature_bound_of(base, common.feature_bound)
        moments = Moments(setting.bound, B, base.model.intercept, float(setting.terms["moments_share"]), p)
        start, unit = np.array(base.agreement.start), 2.0 * moments.unit
        each = 0.5 * _noise_of_sum(self, base) if base.summed else _few_sums(base)
        noise = np.tensordot(draw(self.law(base), (runs, len(each), len(unit))), each, axes=(1, 0)) * unit
        together = float(np.sqrt(np.square(each).sum())) * unit[p : p + 1] if moments.share > 0 else None
        descent = Descent(common.regularizer, common.feasible_set, setting.preconditioner)
        rule = SolveStatistics(descent, np.ones(1), together, base.data.public_count)
        answers = moments.of(common.loss, records, start) + noise
        state = rule.step(rule.start(np.tile(start, (runs, 1))), np.zeros(runs, dtype=np.intp), answers)
        return rule.model(state), 1.0

    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        units, clipped = measured_over(agreed, owner, 1)
        moments = " and second moments" if agreed.agreement.moments_share > 0 else ""
        what = f"a mean gradient of the {agreed.model.loss} loss{moments} over {units}, {clipped}"
        return f"{answers_told(agreed)}: {what}", f"{self.noise_told(agreed, owner)} on the gradient"


def answers_told(agreed: AgreedTerms) -> str:
    """How often and where owners answer, in words."""
    if not agreed.summed:
        return "one answer at the agreed start"
    times = "one answer" if agreed.answers == 1 else f"at most {agreed.answers} answers (one, and further attempts)"
    return f"{times} at the agreed start, seen in a sum only"


@lru_cache(maxsize=4)
def _few_sums(base: AgreedTerms) -> Float[Array, " draws"]:
    """w_i κ_i/(n_i ε_i) of every owner; of more than 16 that are alike, of 16 that make as much noise together."""
    first = np.cumsum(base.counts) - base.counts
    each = []
    for w, table in zip(base.weights[first].tolist(), base.owner_tables, strict=True):
        drawn = min(table.number, 16)
        scale = w * table.overlap / (table.records * table.epsilon)
        each += [scale * float(np.sqrt(table.number / drawn))] * drawn
    return np.array(each)


@lru_cache(maxsize=4)
def _noise_of_sum(mechanism: OfNumbers, agreed: AgreedTerms) -> Float[Array, " draws"]:
    """Scale of each draw in a sum, in the unit of each number: that of the shares of all, and the owners' own.

    Kept for the worlds of a plan; terms are frozen, so nothing has to be forgotten.
    """
    alone = [mechanism.deviation(agreed, one) for one in agreed.owner_tables]
    own = [one.at_floor for one in agreed.owner_tables]
    floors = [0.0 if one is None else mechanism.deviation(agreed, one) for one in own]
    together = SharedSum(agreed.weights, agreed.uncounted, agreed.by_owner(floors))
    return together.noise(agreed.by_owner(alone))
