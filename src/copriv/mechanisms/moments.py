"""One answer with normal noise: the mean gradient of the squared loss at the agreed start, and second moments, in L2.

Formal guarantee. A row that is longer than r in L2 (with its intercept) has its features and its slope at θ₀ multiplied by
ω = r/‖x‖₂, so that its loss counts ω² times; slopes are clipped to ±Ξ/r. So a unit adds over n, x and φ′ these,

    u = (φ′x/Ξ, √½·m(x)/r²),      m(x) = (x₁², …, x_p²; √2·x₁x₂, √2·x₁x₃, …),      ‖m(x) − m(x′)‖₂ = ‖xxᵀ − x′x′ᵀ‖_F.

For x = r·a·e and x′ = r·b·e′ with unit vectors e, e′, |eᵀe′| = ρ and a, b ≤ 1, replacing one by the other moves n·u by at most

    a² + b² + 2abρ + ½(a⁴ + b⁴ − 2a²b²ρ²)  ≤  2 + 2ρ + (1 − ρ²)  =  4 − (1 − ρ)²  ≤  4

in squared L2 norm: it rises in a and in b. That is what the gradient moves by alone (x = x′, slopes turned round), so **second
moments of weight ½ cost nothing**. The answer has normal noise of deviation 2/n times that of the (ε, δ) agreed
(`copriv.privacy.approximate`). A person's rows have weights that add up to 1: convex combinations are no further apart.

Undone, with s that deviation, the noise is sΞ on the gradient, √2·s·r² on the mean of x_j², s·r² on that of x_jx_k.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from copriv.errors import CoprivError
from copriv.losses import Squared
from copriv.mechanisms.expected import Declared
from copriv.mechanisms.mechanism import Guarantee, column_factors, measured_over, scaled_told, step_of
from copriv.mechanisms.one_answer import Setting, feature_bound_of, in_memory
from copriv.mechanisms.statistics import OfSquaredLoss, answers_told
from copriv.model.records import BLOCK, InBlocks, Records
from copriv.privacy.clipping import ROUNDING, exact_sum, multiplicity, slope_limits
from copriv.privacy.noise import Law, Releases
from copriv.rules.one_answer import SolveStatistics
from copriv.rules.rule import Descent, UpdateRule
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss, is_linear
from copriv.validation import count

WEIGHT = 0.5
"""Of second moments beside the gradient: the most that costs nothing."""


@dataclass(frozen=True)
class BoundedMoments:
    """What is released: the mean gradient (p), then the upper triangle of second moments, products not doubled."""

    bound: float
    """Ξ, in L2, of a unit's gradient."""
    reach: float
    """r, in L2, of a row with its intercept."""
    intercept: bool
    n_parameters: int
    factors: Float[Array, " p"] | float = 1.0
    """What each feature is multiplied by: Ξ and r are in that unit, and so is the noise."""

    @classmethod
    def agreed(cls, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> "BoundedMoments":
        """r is the agreed reach, or what follows from B."""
        intercept, reach = agreed.model.intercept, agreed.agreement.reach
        if reach is None:
            reach = float(np.hypot(feature_bound_of(agreed, feature_bound), intercept))
        return cls(agreed.gradient_bound, reach, intercept, n_parameters, column_factors(agreed, n_parameters))

    @property
    def bounds(self) -> dict[str, float]:
        return {"gradient_bound": self.bound, "reach": self.reach}

    @cached_property
    def unit(self) -> Float[Array, " answer"]:
        """Divisor of each number before noise, by which a unit replaced moves the mean by at most 2/n in L2."""
        row, column = np.triu_indices(self.n_parameters)
        u = self.factors * np.ones(self.n_parameters)
        second = self.reach**2 / np.sqrt(WEIGHT * multiplicity(self.n_parameters))
        return np.concatenate([self.bound / u, second / (u[row] * u[column])])

    @property
    def second(self) -> float:
        """Divisor of a second moment that is on the diagonal, in the unit of the scaled columns."""
        return float(self.reach**2 / np.sqrt(WEIGHT))

    def shares(self, features: Float[Array, "records p"]) -> Float[Array, " records"]:
        """ω of each row, whose intercept is 1 whatever is in it: such that ω‖x‖₂ ≤ r."""
        with np.errstate(over="ignore", under="ignore"):  # a row whose square overflows has ω = 0
            own = features[:, : self.n_parameters - self.intercept]
            if np.ndim(self.factors):
                own = own * np.asarray(self.factors)[: own.shape[1]]
            lengths = np.sqrt(np.einsum("ij,ij->i", own, own) + float(self.intercept))
        return np.asarray(np.minimum(1.0, slope_limits(lengths, self.reach * (1 - 1e-12))))

    def of(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The numbers themselves. Private."""
        assert is_linear(loss)
        row, column = np.triu_indices(self.n_parameters)
        own, limit, sums = self.n_parameters - self.intercept, self.bound / self.reach, []
        shortened = np.empty(
            (BLOCK, self.n_parameters)
        )  # one for all blocks: new memory takes longer than the products
        for rows in records.blocks():
            y, w, share = rows.target, rows.weight, self.shares(rows.features)
            predictions = np.zeros(len(y))
            if theta.any():  # not x @ theta: see `clipped_mean_gradient`
                predictions = np.einsum("ij,j->i", rows.features[:, :own], theta[:own]) + theta[own:].sum()
            slope = share * loss.slope(predictions, y)
            slope = np.clip(np.where(np.isnan(slope), 0.0, slope), -limit, limit)
            x = rows.features
            if not (share == 1.0).all() or (self.intercept and not (x[:, -1] == 1.0).all()):
                x = np.multiply(share[:, None], x, out=shortened[: len(y)])
                if self.intercept:
                    x[:, -1] = share
            weighted = x if rows.plain else w[:, None] * x  # of one array, its own product costs half
            sums.append(np.concatenate([(w * slope) @ x, (weighted.T @ x)[row, column]]))
        return np.asarray(exact_sum(sums) / records.weight.sum())


@dataclass(frozen=True)
class MomentsAnswer:
    """The whole (ε, δ) of a run in one answer. Raises InvalidInput where the noise cannot be certified."""

    moments: BoundedMoments
    multiplier: float
    units: int

    ahead = None

    def __post_init__(self) -> None:
        count("records", self.units)
        _ = self._noise.scale

    @property
    def scale(self) -> float:
        """Deviation of the noise on each coordinate of the gradient."""
        return float(self._noise.scale * self.moments.bound)

    @cached_property
    def _noise(self) -> Releases:
        from copriv.privacy.approximate import GaussianAnswer  # imports OpenDP, which a simulation never needs

        # ‖u‖ ≤ √1.5 < 2, of which rounding is a share.
        return GaussianAnswer(2.0 / self.units + 4.0 * ROUNDING, self.multiplier, len(self.moments.unit))

    def answer(self, loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The noisy moments."""
        exact, unit = self.moments.of(loss, in_memory(records), theta), self.moments.unit
        return self._noise.release(exact / unit) * unit


class MomentsInL2(OfSquaredLoss):
    """(ε, δ), one answer: the squared loss's gradient and second moments, rows bounded in L2."""

    name = "moments"
    guarantee = Guarantee.APPROXIMATE
    terms = ("reach", "column_scale")
    label = "moments"
    phrase = "moments with normal noise"

    def law(self, agreed: AgreedTerms) -> Law:
        return Law.NORMAL

    def numbers(self, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> BoundedMoments:
        return BoundedMoments.agreed(agreed, n_parameters, feature_bound)

    def multiplier(self, answers: int, epsilon: float, delta: float) -> float:
        from copriv.privacy.approximate import gaussian_multiplier

        return gaussian_multiplier(answers, epsilon, delta)

    def deviation(self, agreed: AgreedTerms, owner: OwnerTerms) -> float:
        return 2.0 / owner.records * self.multiplier(agreed.answers, *owner.budget)

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        return agreed.gradient_bound * self.deviation(agreed, owner)

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return n_parameters + n_parameters * (n_parameters + 1) // 2

    def in_earnest(self, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int, loss: Loss) -> MomentsAnswer:
        multiplier = self.deviation(agreed, owner) * owner.records / 2.0
        return MomentsAnswer(BoundedMoments.agreed(agreed, n_parameters), multiplier, owner.records)

    def rule(
        self, agreed: AgreedTerms, descent: Descent, weights: Float[Array, " owners"], n_parameters: int,
        feature_bound: float | None = None,
    ) -> UpdateRule:  # fmt: skip
        """Solves for the model; as with "statistics", entries off the diagonal have half the variance of those on it."""
        moments = BoundedMoments.agreed(agreed, n_parameters, feature_bound)
        return SolveStatistics(
            descent, weights, moments.second * self.deviations(agreed), agreed.data.public_count, step_of(agreed),
            moments.factors,
        )  # fmt: skip

    def expected(self, declared: Declared) -> Iterator[tuple[float, Setting]]:
        """The one setting there is, where owners have a δ (and its accounting is installed)."""
        if declared.order == 1:
            return
        try:
            variance = declared.averaged(lambda n, ε, δ: 2.0 / n * self.multiplier(declared.answers, ε, δ))
        except CoprivError:
            return
        Ξ, r, p = declared.gradient_bound, declared.longest, declared.n_parameters
        entry = 2.0 * np.sqrt(variance) * r**2  # of 2H, off the diagonal
        tables = declared.tables(Squared.curvature)
        # Of targets that are clipped to an interval the mean is another one (`Declared.at_bounds`).
        off = declared.slopes()[0][-1] * declared.whole * declared.counted / tables.gain
        gap = float(tables.expected(off + tables.solved(2.0 * np.sqrt(p) * entry, variance * Ξ**2, entry**2)))
        yield gap, Setting(Ξ, (1.0,), {"reach": r})

    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        units, clipped = measured_over(agreed, owner, 2)
        what = f"a mean gradient of the squared loss and second moments over {units}, {clipped}{scaled_told(agreed)}"
        return f"{answers_told(agreed)}: {what}", f"{self.noise_told(agreed, owner)} on the gradient"
