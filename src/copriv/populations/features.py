"""The law of features, given public rows: a bootstrap, smoothed where rows are few.

`copriv.populations.law.Law` draws worlds from it, with targets of `copriv.populations.targets`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int

from copriv.populations.targets import levels_of, varied
from copriv.types import Array

INTENSITIES = np.geomspace(1e-4, 0.9, 40)
"""Grid of shrinkage intensities of the correlations."""


@dataclass(frozen=True, eq=False)
class FeatureLaw:
    """The law of features given rows x, unseen levels included."""

    x: Array
    """Features of the distinct public rows."""
    unseen: Int[np.ndarray, " levels"]
    """Columns that are 0 in every row, beside columns of zeros and ones: levels that may occur in the pool.

    Without such neighbours a column of zeros counts as constant.
    """

    @classmethod
    def of(cls, x: Array, modelled: bool) -> "FeatureLaw":
        """modelled: whether there is a model for the targets of unseen levels; without one there are none."""
        unseen = ~x.any(axis=0) & (modelled and levels_of(x).any())
        return cls(x, np.flatnonzero(unseen))

    def with_unseen(self, rng: np.random.Generator) -> Array:
        """The rows, followed by one row for each unseen level (the rule of succession).

        An added row is a copy of a random row with the level set; where each row has exactly one level, that one is unset.
        """
        x = self.x
        if not len(self.unseen):
            return x
        more, levels = x[rng.integers(0, len(x), size=len(self.unseen))].copy(), levels_of(x)
        if (x[:, levels].sum(axis=1) == 1.0).all():
            more[:, levels] = 0.0
        more[np.arange(len(more)), self.unseen] = 1.0
        return np.vstack([x, more])

    def drawn(self, rng: np.random.Generator, number: int, law: Array, records: float = np.inf) -> Array:
        """Draw `number` smoothed rows by the weights `law`; column means vary as those of `records` rows do.

        In columns of numbers a row x is moved towards another row x′: m + √(1 − s²)(x − m) + s(x′ − m), s = 0.3, m the mean.
        Variances and correlations are unchanged, and rows are distinct as in the pool: equal rows with different targets
        would overstate the noise.

        A share b of the entries is replaced by draws from their column: marginal laws stay, and correlations fall by
        (1 − b)² = 1 − `intensity`.
        """
        x, law = self.with_unseen(rng), law / law.sum()
        chosen, b = x[rng.choice(len(x), size=number, p=law)], 1.0 - np.sqrt(1.0 - self.intensity)
        numbers = _numbers(x)
        towards, mean = x[rng.choice(len(x), size=number, p=law)], law @ x
        moved = mean + np.sqrt(1.0 - 0.3**2) * (chosen - mean) + 0.3 * (towards - mean)
        chosen = np.where(numbers, moved, chosen)
        other = np.take_along_axis(x, rng.choice(len(x), size=chosen.shape, p=law), axis=0)
        made = np.where(rng.random(chosen.shape) < b, other, chosen)
        error = np.where(numbers, (1.0 - np.sqrt(number / max(records, number))) * (made.mean(axis=0) - mean), 0.0)
        return made - error + self._towards_zero(rng, numbers, mean)

    def _towards_zero(self, rng: np.random.Generator, numbers: Bool[np.ndarray, " p"], mean: Array) -> Array:
        """Shift that shrinks the column means towards 0 (empirical Bayes), by column.

        The means of n rows have a total squared error of p/n in units of the spread, and redrawn rows twice that: a model
        without an intercept would find one in them. Under a prior N(0, v) of each, means are N(0, v + a/n) along an
        eigenvector of the correlations of eigenvalue a. v, in units of the squared spread, is drawn from its likelihood on a
        grid, and the share v/(v + a/n) of each observed mean is kept.
        """
        x = self.x
        at, spread, n = x.mean(axis=0), x.std(axis=0), len(x)
        # A column with mean 0 was centred on these rows, so that its mean in the pool is unknown.
        told = numbers & varied(x) & (np.abs(at) > 1e-9 * spread)
        shift = np.zeros(x.shape[1])
        if told.sum() < 2:
            return shift
        z = (x[:, told] - at[told]) / spread[told]
        a, U = np.linalg.eigh((1.0 - self.intensity) * z.T @ z / n + self.intensity * np.eye(z.shape[1]))
        seen, drawn = U.T @ (at[told] / spread[told]), U.T @ (mean[told] / spread[told])
        error = np.maximum(a, 1e-12) / n
        grid = np.geomspace(1e-5, 1e5, 41)
        off = grid[:, None] + error
        log = -0.5 * (np.log(off) + np.square(seen) / off).sum(axis=1)
        likely = np.exp(log - log.max())
        v = float(rng.choice(grid, p=likely / likely.sum()))
        kept = v / (v + error)
        shift[told] = spread[told] * (U @ (kept * seen + np.sqrt(kept) * (drawn - seen) - drawn))
        return shift

    def perturbed(self, rng: np.random.Generator, x: Array) -> Array:
        """Add to each row a small multiple of another, centred row, which preserves correlations; less for an outlier."""
        rows, numbers = self.x, _numbers(self.x)
        away = rows - rows.mean(axis=0)
        spread = np.maximum(away.std(axis=0), 1e-300)[numbers]
        length = np.sqrt(np.sum(np.square(away[:, numbers] / spread), axis=1))
        # 20 times the spacing of rows on a line; at most a tenth, as classes may depend on small differences.
        by = min(20.0 / len(rows), 0.1) * np.minimum(1.0, np.median(length) / np.maximum(length, 1e-300))
        towards = rng.integers(0, len(rows), size=len(x))
        return np.where(numbers, x + (by[:, None] * away)[towards], x)

    @cached_property
    def intensity(self) -> float:
        """Shrinkage intensity α of the correlations R, (1 − α)R + αI, by the leave-one-out normal likelihood.

        The cost of an unknown parameter depends on directions of small variance, to which the likelihood is sensitive. The
        least squared error (Ledoit and Wolf 2004) is not, and inflates them tenfold.
        With G = (1 − α)·R·n/(n − 1) + αI, β = (1 − α)·n/(n − 1)² and r = zᵀG⁻¹z the others of a row have, about their own
        mean, log det = log det G + log(1 − βr), and the row is off it by n/(n − 1)·z, a square of (n/(n − 1))²·r/(1 − βr).
        """
        some, n = varied(self.x), len(self.x)
        if some.sum() < 2 or n < 3:
            return 0.0
        z = self.x[:, some] / self.x.std(axis=0)[some]
        z = z - z.mean(axis=0)
        a, U = np.linalg.eigh(z.T @ z / n)
        squares, found = np.square(z @ U), []
        for α in INTENSITIES:
            G = (1.0 - α) * n / (n - 1) * np.maximum(a, 0.0) + α
            r = squares @ (1.0 / G)
            left = np.maximum(1.0 - (1.0 - α) * n / (n - 1) ** 2 * r, 1e-12)
            found.append(float(np.log(G).sum() + np.mean(np.log(left) + (n / (n - 1)) ** 2 * r / left)))
        return float(INTENSITIES[int(np.argmin(found))])


def _numbers(x: Array) -> Bool[np.ndarray, " p"]:
    """Columns with mostly distinct values."""
    return np.array([2 * len(np.unique(column)) > len(column) for column in x.T], dtype=bool)
