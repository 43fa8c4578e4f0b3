"""Expected cost of a mechanism before any row is seen: over tables such as there are, from declared ranges alone.

In the eigenbasis of the fitness a table is its curvatures h_j and how the gain over the constant model falls on them, s_j
(Σs = 1). A model that is tied to 0 with firmness λ, and whose gradient has noise of variance v a coordinate, leaves

    Σ_j s_j (λ/(h_j + λ))²  +  v/(2·gain)·Σ_j h_j/(h_j + λ)²

of the gain: 0 is the optimum without noise, 1 the constant model. Where long rows count for less, h_j is less, but in the
numerator. What is compared is the mean over `Tables`: of lengths that rows may have, or that they were measured to have
(`copriv.mechanisms.lengths`). What leaves more than nothing does in the mean over tables of any one gain is not chosen: nothing
is a model of 0, and with an intercept the target's mean at the same ε.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import cast

import numpy as np
from jaxtyping import Float

from copriv.losses import Logistic, OfMargin, Squared
from copriv.privacy.noise import Order
from copriv.rules.rule import SharedSum
from copriv.types import Array, LinearLoss

DECAYS = (0.0, 1.0, 2.0, 4.0)
"""Eigenvalues of the features fall as j^−decay: features that are independent, and such that one direction holds them."""
SPREADS = (0.3, 0.1, 0.02)
"""Mean ‖x‖₂² over its declared bound: of tables scaled by their longest row, and of ranges declared too wide."""
GAINS, GAINS_OF_CLASSES = (0.4, 0.15, 0.05), (0.7, 0.3, 0.1)
"""Share of the loss of a model of 0 (for numbers, at the end of the target's range) that the best model takes away."""
EXPLAINED = (0.9, 0.5, 0.2)
"""Share of the target's variance (without an intercept, of its mean square) that features explain, where that was measured."""
CONSTANTS = (0.5, 0.1)
"""Share of the gain that the intercept has, where targets were not measured."""
WEAK_GAIN, WEAK_GAIN_OF_NUMBERS, WEAK_EXPLAINED = 0.05, 0.01, 0.1
"""Of features of tables that no choice is made for, but on which none may be worse than nothing: their gain, and the share
that they explain of a target that was measured."""
ROUNDED = 1 + 1e-9
"""Room for floating-point rounding of a bound that rows may reach."""
FIRMNESSES = 2.0 ** np.arange(-40, 17, 1.5)
"""Candidates for λ. A grid that no budget moves: what is feasible at ε is feasible, and costs less, at more."""
LENGTHS = (0.4, 0.8, 1.8)
"""‖x‖₂² of a third of the rows each, over its mean."""
TIGHTER = (1.0, 0.6, 0.35, 0.2, 0.12)
"""Candidates for the bounds on rows, over those declared: longer rows count for less, all others have less noise."""
SCALES = (3.0, 1.0, 0.2, 0.04)
"""Candidates for the unit of columns beside an intercept of 1."""
SLOPES = ((1.0, 0.0), (0.75, 0.002), (0.6, 0.026), (0.5, 0.08))
"""Candidates for the bound on slopes of the logistic loss, the last what they are at 0, each with the share of the gain that
the model without noise then misses: scores grow by up to two fifths, and keep their order. By quadrature over normal scores
of standard deviation 1.5."""
SLOPES_OF_NUMBERS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15)
"""Candidates for the bound on slopes of the squared loss, over the slope at half the target's range: larger residuals count as
by the Huber loss."""
CURVED, MISSED = (1.0, 0.98, 0.9, 0.77, 0.6, 0.4), (0.0, 0.006, 0.012, 0.02, 0.03, 0.06)
"""For each, the share of the curvature that it leaves, and the share of the gain that the model without noise then misses: set
by hand on open tables."""
LEAST_CURVED = 0.05
"""The least share of the curvature that a bound on slopes is taken to leave: set by hand."""
OFF_CENTRE = 1 / 3
"""Root mean square of a target's mean, from the middle of its range, over half of the range (`benchmarks.published`)."""
MIDDLE = 0.2
"""Prior probability that a target's mean is about the middle of its range, and not anywhere: set by hand on open tables, where
no mean is then further off, in the mean, than the noisy one that is only clipped."""
WORTH = 0.985
"""Most that a model may be expected to leave of what a constant without noise leaves: set by hand on open tables."""


def likely_mean(noisy: float, scale: float) -> float:
    """The expected mean of numbers in [−1, 1], of which this was released with Laplace noise of this scale.

    Before it, the mean is normal about 0 with the deviation `OFF_CENTRE`, with probability `MIDDLE`, else the sine of a uniform
    angle: means of skewed targets are near an end of their range.
    """
    angle = np.pi * ((np.arange(2**15) + 0.5) / 2**15 - 0.5)
    mean = np.sin(angle)
    if scale < 1e-3:  # finer than the grid
        return float(np.clip(noisy, mean[0], mean[-1]))
    normal = np.cos(angle) * np.exp(-0.5 * (mean / OFF_CENTRE) ** 2) / (OFF_CENTRE * np.sqrt(2.0 * np.pi))
    off = np.abs(noisy - mean) / scale
    weight = (MIDDLE * normal + (1.0 - MIDDLE) / np.pi) * np.exp(off.min() - off)
    return float(weight @ mean / weight.sum())


@dataclass(frozen=True, eq=False)
class Declared:
    """What is known of a fit without rows: ranges scaled to [−1, 1], and budgets. Nobody starts from a public model."""

    loss: LinearLoss
    smoothing: float
    """Of a hinge."""
    regularization: float
    columns: int
    intercept: bool
    feature_bound: float
    """B, in L1, without the intercept."""
    row_norm: float
    """The largest ‖x‖₂, without the intercept."""
    tightness: float
    """The bounds on rows over those declared."""
    owners: tuple[tuple[int, float, float], ...]
    """Records, ε and δ of each; δ of all is 0, or of none."""
    measured: tuple[float, ...] = ()
    """Share of the rows by (‖x‖₂ over its largest)², in bins that halve the length from 1 on; empty where unknown."""
    size: tuple[float, float] | None = None
    """Squared mean and variance of y over its largest; None where unknown, and of classes."""
    at_bounds: tuple[tuple[float, float], ...] = ()
    """For each of `SLOPES_OF_NUMBERS`: the squared distance of the Huber location of targets from their mean, in units of half
    of their range, and the share of targets within the bound of it; empty where targets were not measured."""
    classes: bool = False
    """Whether targets are labels, −1 and 1, whatever the loss that is asked for."""
    nothing: float = 0.0
    """Variance of what an intercept is compared with: the target's mean, of the whole ε and the range that was declared."""
    answers: int = 1
    """Answers that each budget is for: one, and those that are kept for further attempts at a sum."""
    counted: float = 1.0
    """The mean of the shares for which rows count (`Records.of_shares`)."""
    uncounted: int | None = None
    """Owners on whose shares of the noise a sum does not rely; None where each answer is seen."""
    floors: tuple[float, ...] = ()
    """In a sum, ε of the noise that each owner adds by itself; inf for none."""

    @property
    def n_parameters(self) -> int:
        return self.columns + self.intercept

    @property
    def order(self) -> Order:
        return 2 if self.owners[0][2] > 0 else 1

    @property
    def longest(self) -> float:
        """‖x‖₂ with the intercept, and room for rounding."""
        return float(np.sqrt(self.row_norm**2 + self.intercept)) * ROUNDED

    @property
    def gradient_bound(self) -> float:
        """Ξ that no gradient is above at a prediction within the target's range, or anywhere for classes."""
        slope = (
            self.loss.slope_bound(np.inf, 1.0) if isinstance(self.loss, OfMargin) else self.loss.slope_bound(1.0, 0.0)
        )
        return float(slope * (self.longest if self.order == 2 else self.feature_bound + self.intercept) * ROUNDED)

    @cached_property
    def whole(self) -> float:
        """The loss of the constant 0 at the end of the target's range."""
        return float(self.loss.values(np.zeros(1), np.ones((1, 1)), np.ones(1))[0])

    def averaged(self, scale: Callable[[int, float, float], float]) -> float:
        """Variance of the owners' mean by records, over that of the noise's law at scale 1.

        scale: of the noise that an owner's answer needs by itself, by its records, ε and δ.
        """
        n = sum(records for records, _, _ in self.owners)
        scales = {owner: scale(*owner) for owner in set(self.owners)}
        if self.uncounted is None:
            return sum((owner[0] / n * scales[owner]) ** 2 for owner in self.owners)
        own = {(records, floor, δ) for (records, _, δ), floor in zip(self.owners, self.floors, strict=True)}
        floors = {owner: scale(*owner) if owner[1] < np.inf else 0.0 for owner in own}
        together = SharedSum(
            np.array([records / n for records, _, _ in self.owners]),
            self.uncounted,
            np.array([floors[one, floor, δ] for (one, _, δ), floor in zip(self.owners, self.floors, strict=True)]),
        )
        return float(np.square(together.noise(np.array([scales[owner] for owner in self.owners]))).sum())

    @cached_property
    def gains(self) -> tuple[Float[Array, " gains"], Float[Array, " gains"], Float[Array, " gains"]]:
        """What the best model may take away of the loss of 0, the share of that which the intercept has, and its weight."""
        constants = CONSTANTS if self.intercept else (0.0,)
        if self.size is not None and not self.classes:
            level, variance = self.size if self.intercept else (0.0, sum(self.size))
            features = np.array([*EXPLAINED, WEAK_EXPLAINED]) * variance
            weight = np.array([1.0] * len(EXPLAINED) + [0.0])
            return (level + features) * self.whole * self.counted, level / (level + features), weight
        gains = GAINS_OF_CLASSES if self.classes else GAINS
        found = np.array([(gain, constant, 1.0) for gain in gains for constant in constants])
        weakest = (WEAK_GAIN / (1.0 - max(constants)), max(constants), 0.0)
        if not self.classes and self.intercept:
            # A mean at an end of the range, which a model must not draw to the middle.
            weakest = (1.0, 1.0 - WEAK_GAIN_OF_NUMBERS, 0.0)
        elif not self.classes:
            weakest = (WEAK_GAIN_OF_NUMBERS, 0.0, 0.0)
        found = np.vstack([found, weakest])
        return found[:, 0] * self.whole * self.counted, found[:, 1], found[:, 2]

    def slopes(self) -> list[tuple[float, float, float, float]]:
        """Candidates for the bound on slopes, over the largest one.

        Each with what it leaves of the curvature, the share of the gain that it misses, and its squared distance from the mean.
        """
        if isinstance(self.loss, Logistic):
            return [(bound, 1.0, missed, 0.0) for bound, missed in SLOPES]
        if not isinstance(self.loss, Squared) or self.classes:
            return [(1.0, 1.0, 0.0, 0.0)]
        seen = self.at_bounds or ((0.0, 1.0),) * len(MISSED)
        each = zip(SLOPES_OF_NUMBERS, CURVED, MISSED, seen, strict=True)
        return [
            (bound, min(curved, max(within, LEAST_CURVED)) if bound < 1.0 else 1.0, missed, square)
            for bound, curved, missed, (square, within) in each
        ]

    @property
    def constant_gap(self) -> float:
        """What the best constant leaves without noise; 1 without an intercept."""
        _, constants, weight = self.gains
        return float(np.average(1.0 - constants, weights=weight))

    def of_gain(self, loss: float) -> float:
        """A squared error as a share of the gain."""
        gains, _, weight = self.gains
        return float(np.average(loss * self.whole * self.counted / gains, weights=weight))

    def constant(self, variance: float) -> tuple[float, float]:
        """Expected gap of a constant, a mean released with noise of this variance v, and the step η that it is multiplied by.

        As a step of (1 − v)/(1 + v) or more, so that (1 − η)²m² + η²v ≤ v: no mean m of a target in [−1, 1] is then further off
        for it. (Of the squared loss.)
        """
        η = max(OFF_CENTRE**2 / (OFF_CENTRE**2 + variance), (1.0 - variance) / (1.0 + variance))
        gains, constants, weight = self.gains
        left = η**2 * variance / gains + 1.0 - constants * (1.0 - (1.0 - η) ** 2)
        return float(np.average(left, weights=weight)), float(η)

    def tables(self, curvature: float) -> "Tables":
        """Tables of these ranges, c = sup φ″: one for each decay, lengths of rows, gain and constant."""
        decayed = np.arange(1.0, self.columns + 1.0) ** -np.array(DECAYS)[:, None]
        falls, held = (each / each.sum(axis=1, keepdims=True) for each in (decayed, np.sqrt(decayed)))
        widest = (self.row_norm / self.tightness) ** 2
        # In L1 an intercept is no part of the bound that a long row is held to.
        beside = self.intercept * (self.order == 2)

        def kept(squares: Array, rows: Array) -> tuple[Array, Array]:
            """Mean ‖x‖₂², and what rows that count for less leave of it."""
            sizes = rows * squares * widest
            counts = np.minimum(1.0, (self.row_norm**2 + beside) / (squares * widest + beside))
            return sizes.sum(axis=1), (counts * sizes).sum(axis=1) / sizes.sum(axis=1)

        if self.measured:
            # Rows are as long as 0.72 of the upper end of their bin: halfway, by squares or logarithms.
            ends = 0.5 ** np.arange(len(self.measured))
            size, counted = kept(np.square(0.72 * ends)[None], np.array([self.measured]))
        if self.intercept or not self.measured:
            likely, cut = kept(np.outer(SPREADS, LENGTHS), np.full((len(SPREADS), len(LENGTHS)), 1.0 / len(LENGTHS)))
            # Lengths do not say how far columns vary about their means, but no further than that.
            size, counted = (np.minimum(likely, size), 0.0 * cut + counted) if self.measured else (likely, cut)
        decay, lengths, kind = (index.ravel() for index in np.indices((len(falls), len(size), len(self.gains[0]))))
        gain, constant, weight = (one[kind] for one in self.gains)
        h, share = size[lengths, None] * falls[decay], (1.0 - constant)[:, None] * held[decay]
        # A choice may be expected to leave 1 % of the features' gain more than nothing leaves.
        most = np.full(len(h), 1.01)
        if self.intercept:
            h, share = np.column_stack([h, np.ones(len(h))]), np.column_stack([share, constant])
            most = (1.0 - constant) * most + 0.5 * curvature * self.nothing / gain
        h = curvature * self.counted * h
        return Tables(h, counted[lengths, None], share, gain, weight, most, len(self.gains[0]), self.constant_gap)


@dataclass(frozen=True, eq=False)
class WeightedMean(Declared):
    """The target's mean where rows count for shares, which nobody knows: the coefficient of one column, 1 in every row."""

    fit: Declared | None = None
    """The fit with an intercept that it takes the place of."""

    @classmethod
    def of(cls, fit: Declared, owners: tuple[tuple[int, float, float], ...]) -> "WeightedMean":
        """In the place of a fit with an intercept."""
        known = {one.name: getattr(fit, one.name) for one in fields(fit)}
        alone = {"columns": 1, "intercept": False, "feature_bound": 1.0, "row_norm": 1.0, "tightness": 1.0}
        return cls(**{**known, **alone, "loss": Squared(), "owners": owners, "fit": fit})

    @cached_property
    def gains(self) -> tuple[Float[Array, " gains"], Float[Array, " gains"], Float[Array, " gains"]]:
        """Those of the fit."""
        return replace(cast(Declared, self.fit), loss=Squared()).gains

    def slopes(self) -> list[tuple[float, float, float, float]]:
        """The largest alone: a mean whose slopes are bounded is no mean."""
        return [(1.0, 1.0, 0.0, 0.0)]

    def tables(self, curvature: float) -> "Tables":
        """Two directions: what features would explain, of no curvature, and the mean."""
        gain, constant, weight = self.gains
        h, share = (
            curvature * self.counted * np.tile([0.0, 1.0], (len(gain), 1)),
            np.column_stack([1.0 - constant, constant]),
        )
        return Tables(h, np.ones((len(gain), 1)), share, gain, weight, np.full(len(gain), np.inf), len(gain))


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of p parameters."""

    curvature: Float[Array, "tables p"]
    """h."""
    counted: Float[Array, "tables 1"]
    """What rows that count for less leave of h."""
    share: Float[Array, "tables p"]
    """s."""
    gain: Float[Array, " tables"]
    weight: Float[Array, " tables"]
    """In the mean."""
    most: Float[Array, " tables"]
    """Largest expected gap that is not worse than nothing."""
    kinds: int = 1
    """Of gains and constants, the fastest in the order of tables."""
    constant: float = np.inf
    """What a constant without noise leaves, in the mean."""

    def expected(self, gaps: Float[Array, "*settings tables"]) -> Float[Array, "*settings"]:
        """The mean of what is left; infinite where it is hardly less than a constant leaves, or that of any gain is more."""
        of_gain = gaps.reshape(*gaps.shape[:-1], -1, self.kinds)
        most, weight = (np.reshape(each, (-1, self.kinds)) for each in (self.most, self.weight))
        left = (of_gain * weight).sum(axis=(-2, -1)) / weight.sum()
        worse = (left > WORTH * self.constant) | (of_gain.mean(axis=-2) > most[0]).any(axis=-1)
        return np.where(worse, np.inf, left)

    @property
    def biased(self) -> Float[Array, " tables"]:
        """What is left for rows that count for less."""
        # 0.15 where they count for so little that no curvature is left, in proportion before that.
        return np.asarray(0.15 * (1.0 - self.counted[:, 0]))

    def tied(
        self, firmness: float | Float[Array, " settings"]
    ) -> tuple[Float[Array, "*settings tables"], Float[Array, "*settings tables"]]:
        """Expected gaps of a model tied to 0 with firmness λ, and what a variance of 1 of its gradient's noise adds to them."""
        λ = np.asarray(firmness)[..., None, None]
        h = self.curvature * self.counted + λ
        off = (self.share * (λ / h) ** 2).sum(axis=-1) + self.biased
        return off, (self.curvature / h**2).sum(axis=-1) / (2.0 * self.gain)

    def solved(self, floor: float, variance: float, spread: float) -> Float[Array, " tables"]:
        """Expected gaps of a model solved from noisy moments, no eigenvalue of whose curvature is below `floor`.

        variance, spread: of the noise on each number of the gradient, and on entries of the curvature off the diagonal.
        """
        h = self.curvature * self.counted
        held = np.maximum(h, floor)
        size = (2.0 * self.gain[:, None] * self.share * self.curvature / np.square(held)).sum(
            axis=1
        )  # ‖θ‖² that is found
        noise = variance + spread * size
        off = (self.share * (1.0 - h / held) ** 2).sum(axis=1) + self.biased
        return np.asarray(off + noise * (self.curvature / held**2).sum(axis=1) / (2.0 * self.gain))
