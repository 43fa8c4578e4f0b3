"""How large the largest of many more rows may be: the tail beyond what a sample shows, with its error.

Beyond a high threshold u the excess of almost any quantity is nearly a generalised Pareto variable (Pickands, Balkema and
de Haan), P(excess > x) = (1 + ξx/σ)^(−1/ξ): ξ < 0 has an end, ξ = 0 is exponential, ξ > 0 a power law of index 1/ξ.
σ and ξ by probability-weighted moments (Hosking and Wallis 1987), which few rows determine badly: the shape is combined
with a weak prior, ξ ~ N(0.1, 0.3²), by their precisions.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from copriv.types import Array

PRIOR_SHAPE, PRIOR_ERROR = 0.1, 0.3
STEEPEST, LONGEST = -0.5, 0.9
"""Shapes are kept between: a mean excess exists, and the end of a short tail is not where the sample's last row is."""


@dataclass(frozen=True, eq=False)
class Tail:
    """Above `threshold` is a share `share` of all rows, with excesses of this scale and shape."""

    threshold: float
    share: float
    mean_excess: float
    shape: float
    """ξ."""
    error: float
    """Standard error of ξ."""
    rows: int
    """The tail was estimated from so many."""

    @classmethod
    def of(cls, sizes: Float[Array, " rows"]) -> "Tail":
        """The upper tail of a sample: of its largest tenth, but at least ten rows and at most a hundred."""
        order = np.sort(np.asarray(sizes, dtype=np.float64))
        k = int(np.clip(len(order) // 10, min(10, max(len(order) // 2, 1)), 100))
        u = float(order[-k - 1]) if len(order) > k else float(order[0])
        y = order[-k:] - u
        a0 = float(y.mean())
        if not a0 > 0:
            return cls(u, k / len(order), 0.0, 0.0, 0.0, k)
        a1 = float(np.sum((k - np.arange(1.0, k + 1)) / max(k - 1, 1) * y) / k)
        raw = 2.0 - a0 / (a0 - 2.0 * a1) if a0 > 2.0 * a1 else STEEPEST
        raw = float(np.clip(raw, STEEPEST, LONGEST))
        ξ = min(raw, 0.45)  # its error is known below a half only
        error = float(np.sqrt((1 - ξ) * (1 - ξ + 2 * ξ**2) * (2 - ξ) ** 2 / ((1 - 2 * ξ) * (3 - 2 * ξ)) / k))
        known, prior = 1.0 / error**2, 1.0 / PRIOR_ERROR**2
        shape = (known * raw + prior * PRIOR_SHAPE) / (known + prior)
        return cls(u, k / len(order), a0, float(shape), float(1.0 / np.sqrt(known + prior)), k)

    @property
    def scale(self) -> float:
        """σ = E excess · (1 − ξ)."""
        return self.mean_excess * (1.0 - self.shape)

    def level(self, share: float) -> float:
        """The level that this share of all rows is above."""
        if self.mean_excess == 0 or share >= self.share:
            return self.threshold
        return self.threshold + float(self._excess(np.array(share / self.share)))

    def excesses(self, rng: np.random.Generator, number: int) -> Float[Array, " number"]:
        """Draws of the excess over the threshold."""
        return self._excess(1.0 - rng.random(number))

    def drawn(self, rng: np.random.Generator) -> "Tail":
        """The tail as it may be: shape and mean excess within their errors."""
        shape = float(np.clip(self.shape + self.error * rng.normal(), STEEPEST, LONGEST))
        mean = self.mean_excess * float(np.exp(rng.normal() / np.sqrt(max(self.rows, 1))))
        return replace(self, shape=shape, mean_excess=mean)

    def drawn_of_few(self, rng: np.random.Generator) -> "Tail":
        """The same where few rows tell: a mean of so many long excesses is most often far below what it is a mean of.

        What is seen is divided by a mean of as many excesses of that shape, about 1: no rule of thumb for its error.
        """
        shape = float(np.clip(self.shape + self.error * rng.normal(), STEEPEST, LONGEST))
        of_one = replace(self, shape=shape, mean_excess=1.0).excesses(rng, max(self.rows, 1))
        return replace(self, shape=shape, mean_excess=self.mean_excess / float(of_one.mean()))

    def longer(self, errors: float = 1.0) -> "Tail":
        """The tail with a shape so many standard errors longer."""
        return replace(self, shape=min(self.shape + errors * self.error, LONGEST))

    def _excess(self, share: Array) -> Array:
        """The excess that a share of the tail is above."""
        ξ, σ = self.shape, self.scale
        if abs(ξ) < 1e-6:
            return np.asarray(-σ * np.log(share))
        return np.asarray(σ / ξ * (share**-ξ - 1.0))
