"""Estimate the upper tail of a sample, with its error, to extrapolate to the largest of many more rows.

Beyond a high threshold u the excess of almost any quantity is nearly a generalised Pareto variable (Pickands, Balkema and
de Haan), P(excess > x) = (1 + ξx/σ)^(−1/ξ): bounded for ξ < 0, exponential for ξ = 0, a power law of index 1/ξ for ξ > 0.
σ and ξ are estimated by probability-weighted moments (Hosking and Wallis 1987). Few rows leave the shape uncertain, so it
is combined with a weak prior, ξ ~ N(0.1, 0.3²), by precision.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from copriv.types import Array

STEEPEST, LONGEST = -0.5, 0.9
"""Limits of the shape: below 1 a mean excess exists; above −1/2 a bounded tail reaches beyond the sample's largest row."""


@dataclass(frozen=True, eq=False)
class Tail:
    """A generalised Pareto tail above `threshold`, which a share `share` of all rows exceeds."""

    threshold: float
    share: float
    mean_excess: float
    shape: float
    """ξ."""
    error: float
    """Standard error of ξ."""
    rows: int
    """Number of rows that it was estimated from."""

    @classmethod
    def of(cls, sizes: Float[Array, " rows"]) -> "Tail":
        """Fit the upper tail of a sample: its largest tenth, but at least 10 and at most 100 rows."""
        order = np.sort(np.asarray(sizes, dtype=np.float64))
        k = int(np.clip(len(order) // 10, min(10, max(len(order) // 2, 1)), 100))
        u = float(order[max(len(order) - k - 1, 0)])
        y = order[-k:] - u
        a0 = float(y.mean())
        if not a0 > 0:
            return cls(u, k / len(order), 0.0, 0.0, 0.0, k)
        a1 = float(np.sum((k - np.arange(1.0, k + 1)) / max(k - 1, 1) * y) / k)
        raw = STEEPEST
        if a0 > 2.0 * a1:
            raw = float(np.clip(2.0 - a0 / (a0 - 2.0 * a1), STEEPEST, LONGEST))
        ξ = min(raw, 0.45)  # the formula of the standard error holds for ξ < 1/2
        error = float(np.sqrt((1 - ξ) * (1 - ξ + 2 * ξ**2) * (2 - ξ) ** 2 / ((1 - 2 * ξ) * (3 - 2 * ξ)) / k))
        known, prior = 1.0 / error**2, 1.0 / 0.3**2
        shape = (known * raw + prior * 0.1) / (known + prior)
        return cls(u, k / len(order), a0, float(shape), float(1.0 / np.sqrt(known + prior)), k)

    def level(self, share: float) -> float:
        """Quantile that this share of all rows exceeds."""
        if self.mean_excess == 0 or share >= self.share:
            return self.threshold
        return self.threshold + float(self._excess(np.array(share / self.share)))

    def excesses(self, rng: np.random.Generator, number: int) -> Float[Array, " number"]:
        """Draw excesses over the threshold."""
        return self._excess(1.0 - rng.random(number))

    def drawn(self, rng: np.random.Generator) -> "Tail":
        """Draw a tail whose shape and mean excess vary by their standard errors."""
        tail = self._other_shape(rng)
        return replace(tail, mean_excess=self.mean_excess * float(np.exp(rng.normal() / np.sqrt(max(self.rows, 1)))))

    def drawn_of_few(self, rng: np.random.Generator) -> "Tail":
        """Draw a tail fitted to few rows, whose mean excess is usually far below the true one.

        The mean excess is divided by the mean of as many simulated excesses with that shape and a mean of 1.
        """
        tail = self._other_shape(rng)
        simulated = replace(tail, mean_excess=1.0).excesses(rng, max(self.rows, 1))
        return replace(tail, mean_excess=self.mean_excess / float(simulated.mean()))

    def longer(self) -> "Tail":
        """The tail with its shape increased by one standard error."""
        return replace(self, shape=min(self.shape + self.error, LONGEST))

    def _other_shape(self, rng: np.random.Generator) -> "Tail":
        return replace(self, shape=float(np.clip(self.shape + self.error * rng.normal(), STEEPEST, LONGEST)))

    def _excess(self, share: Array) -> Array:
        """Quantile of the excess that this share of the tail exceeds."""
        ξ, σ = self.shape, self.mean_excess * (1.0 - self.shape)  # E excess = σ/(1 − ξ)
        if abs(ξ) < 1e-6:
            return np.asarray(-σ * np.log(share))
        return np.asarray(σ / ξ * (share**-ξ - 1.0))
