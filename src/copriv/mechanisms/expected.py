"""Expected cost of a mechanism before any row is seen: over tables such as there are, from declared ranges alone.

In the eigenbasis of the fitness a table is its curvatures h_j and how the gain over the constant model falls on them, s_j
(Σs = 1). A model that is tied to 0 with firmness λ, and whose gradient has noise of variance v a coordinate, leaves

    Σ_j s_j (λ/(h_j + λ))²  +  v/(2·gain)·Σ_j h_j/(h_j + λ)²

of the gain: 0 is the optimum without noise, 1 the constant model. Where long rows count for less, h_j is less, but in the
numerator. What is compared is the mean over `Tables`: of lengths that rows may have, or that they were measured to have
(`copriv.mechanisms.lengths`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from copriv.losses import OfMargin
from copriv.privacy.noise import Order
from copriv.types import Array, LinearLoss

DECAYS = (0.0, 1.0, 2.0, 4.0)
"""Eigenvalues of the features fall as j^−decay: features that are independent, and such that one direction holds them."""
SPREADS = (0.3, 0.1, 0.02)
"""Mean ‖x‖₂² over its declared bound: of tables scaled by their longest row, and of ranges declared too wide."""
GAINS, GAINS_OF_CLASSES = (0.4, 0.15, 0.05), (0.7, 0.3, 0.1)
"""Share of the loss of a model of 0 (for numbers, at the end of the target's range) that the best model takes away."""
GAINS_OF_MEASURED = (0.9, 0.5, 0.2)
"""The same share where the mean loss of 0 was measured."""
CONSTANTS = (0.5, 0.1)
"""Share of the gain that the intercept has."""
ROUNDED = 1 + 1e-9
"""Room for floating-point rounding of a bound that rows may reach."""
FIRMNESSES = 2.0 ** np.arange(-40, 17, 1.5)
"""Candidates for λ. A grid that no budget moves: what is feasible at ε is feasible, and costs less, at more."""
LENGTHS = (0.4, 0.8, 1.8)
"""‖x‖₂² of a third of the rows each, over its mean."""
WITHIN = 0.72
"""Length of a row within its bin, over the bin's upper end: halfway, by squares or logarithms."""
TIGHTER = (1.0, 0.6, 0.35, 0.2, 0.12)
"""Candidates for the bounds on rows, over those declared: longer rows count for less, all others have less noise."""
SCALES = (3.0, 1.0, 0.2, 0.04)
"""Candidates for the unit of columns beside an intercept of 1."""
SLOPES = ((1.0, 0.0), (0.75, 0.002), (0.6, 0.026), (0.5, 0.08))
"""Candidates for the bound on slopes of the logistic loss, the last what they are at 0, each with the share of the gain that
the model without noise then misses: scores grow by up to two fifths, and keep their order. By quadrature over normal scores
of standard deviation 1.5."""
OFF_CENTRE = 1 / 3
"""Root mean square of a target's mean, from the middle of its range, over half of the range (`benchmarks.published`)."""


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
    size: float | None = None
    """Mean y² over its largest; None where unknown, and of classes."""
    classes: bool = False
    """Whether targets are labels, −1 and 1, whatever the loss that is asked for."""

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

    def averaged(self, scales: Mapping[tuple[int, float, float], float]) -> float:
        """Variance of the owners' mean by records, of numbers with these deviations at owners of each kind."""
        n = sum(records for records, _, _ in self.owners)
        return sum((owner[0] / n * scales[owner]) ** 2 for owner in self.owners)

    @property
    def gains(self) -> Float[Array, " gains"]:
        """Share of the loss of 0 that the best model may take away."""
        if self.classes:
            return np.array(GAINS_OF_CLASSES)
        return np.array(GAINS) if self.size is None else self.size * np.array(GAINS_OF_MEASURED)

    def constant(self, variance: float) -> tuple[float, float]:
        """Expected gap of a constant, a mean released with noise of this variance, and the step η that it is multiplied by."""
        η = OFF_CENTRE**2 / (OFF_CENTRE**2 + variance)
        held = np.outer(1.0 / self.gains, np.ones(len(CONSTANTS))) * (η**2 * variance) / self.whole
        return float(np.mean(held + 1.0 - np.array(CONSTANTS) * (1.0 - (1.0 - η) ** 2))), float(η)

    def tables(self, curvature: float) -> "Tables":
        """Tables of these ranges, c = sup φ″: one for each decay, lengths of rows, gain and constant."""
        decayed = np.arange(1.0, self.columns + 1.0) ** -np.array(DECAYS)[:, None]
        falls, held = (each / each.sum(axis=1, keepdims=True) for each in (decayed, np.sqrt(decayed)))
        widest = (self.row_norm / self.tightness) ** 2
        squares, rows = self._rows
        sizes = rows * squares * widest
        # In L1 an intercept is no part of the bound that a long row is held to.
        beside = self.intercept * (self.order == 2)
        counts = np.minimum(1.0, (self.row_norm**2 + beside) / (squares * widest + beside))
        counted = (counts * sizes).sum(axis=1) / sizes.sum(axis=1)
        gains, constants = self.gains, np.array(CONSTANTS) if self.intercept else np.zeros(1)
        shape = len(falls), len(sizes), len(gains), len(constants)
        decay, lengths, gain, constant = (index.ravel() for index in np.indices(shape))
        h = sizes.sum(axis=1)[lengths, None] * falls[decay]
        share = (1.0 - constants[constant, None]) * held[decay]
        if self.intercept:
            h, share = np.column_stack([h, np.ones(len(h))]), np.column_stack([share, constants[constant]])
        return Tables(curvature * h, counted[lengths, None], share, gains[gain] * self.whole)

    @property
    def _rows(self) -> tuple[Float[Array, "kinds bins"], Float[Array, "kinds bins"]]:
        """What rows may be: (‖x‖₂ over its largest)² by bin, and the share of the rows in it."""
        if self.measured:
            return np.square(WITHIN * 0.5 ** np.arange(len(self.measured)))[None], np.array([self.measured])
        squares = np.outer(SPREADS, LENGTHS)
        return squares, np.full(squares.shape, 1.0 / len(LENGTHS))


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of p parameters, with equal weight."""

    curvature: Float[Array, "tables p"]
    """h."""
    counted: Float[Array, "tables 1"]
    """What rows that count for less leave of h."""
    share: Float[Array, "tables p"]
    """s."""
    gain: Float[Array, " tables"]

    @property
    def biased(self) -> Float[Array, " tables"]:
        """What is left for rows that count for less."""
        # 0.15 where they count for so little that no curvature is left, in proportion before that.
        return np.asarray(0.15 * (1.0 - self.counted[:, 0]))

    def tied(self, firmness: float) -> tuple[float, float]:
        """Expected gap of a model tied to 0 with firmness λ, and what a variance of 1 of its gradient's noise adds to it."""
        h, λ = self.curvature * self.counted, firmness
        off = (self.share * (λ / (h + λ)) ** 2).sum(axis=1) + self.biased
        return float(np.mean(off)), float(np.mean((self.curvature / (h + λ) ** 2).sum(axis=1) / (2.0 * self.gain)))

    def solved(self, floor: float, variance: float, spread: float) -> float:
        """Expected gap of a model solved from noisy moments, no eigenvalue of whose curvature is below `floor`.

        variance, spread: of the noise on each number of the gradient, and on entries of the curvature off the diagonal.
        """
        h = self.curvature * self.counted
        held = np.maximum(h, floor)
        size = (2.0 * self.gain[:, None] * self.share * self.curvature / np.square(held)).sum(
            axis=1
        )  # ‖θ‖² that is found
        noise = variance + spread * size
        off = (self.share * (1.0 - h / held) ** 2).sum(axis=1) + self.biased
        return float(np.mean(off + noise * (self.curvature / held**2).sum(axis=1) / (2.0 * self.gain)))
