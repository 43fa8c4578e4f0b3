"""What features of the owners' records may be, as far as public rows tell: rows drawn again, made where they are few.

`Law` (in `copriv.populations.law`) draws worlds of them, with targets of `copriv.populations.targets`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int

from copriv.populations.targets import levels_of
from copriv.types import Array

MOVED = 0.3
"""How far a row of few is moved towards another one."""
APART = 20.0
"""How far rows that such a world has many times are moved, each another way: so many times as rows lie apart on a line,"""
FURTHEST = 0.1
"""but no more than this share of their spread: what classes depend on may be a direction that moved rows do not keep."""
INTENSITIES = np.geomspace(1e-4, 0.9, 40)
"""How far correlations of few rows may be shrunk."""
OFF = np.geomspace(1e-5, 1e5, 41)
"""How far means of columns may be off 0 (its square, in units of spread)."""


@dataclass(frozen=True, eq=False)
class FeatureLaw:
    """Of rows x, and of levels that none of them has."""

    x: Array
    """Features of public rows, copies put together."""
    unseen: Int[np.ndarray, " levels"]
    """Columns of zeros beside columns of zeros and ones: levels that no public row has, and that the pool may.

    A column of zeros among numbers is taken for what it is: constant.
    """

    @classmethod
    def of(cls, x: Array, modelled: bool) -> "FeatureLaw":
        """modelled: whether something says what targets of levels are that no row has."""
        some = modelled and levels_of(x).any()
        return cls(x, np.flatnonzero(~x.any(axis=0)) if some else np.zeros(0, dtype=np.int64))

    def with_unseen(self, rng: np.random.Generator) -> Array:
        """Features of the rows, and below them one more row for each level that none has.

        That is the rule of succession: each row, and each level once more, has a share of the law that is exponential.
        Such a row is like another one but for its level; where each row has one level in all, in the other's place.
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
        """Rows drawn by their weights, few of them twice, and some numbers in them taken from other rows.

        They stand for so many `records`, which have means as near to the law's.

        In columns of numbers a row x is moved towards another, x′: m + √(1 − s²)(x − m) + s(x′ − m), s = `MOVED`, m the
        mean. Variances and correlations stay, and a table of few rows has as many different ones as the pool would:
        else targets that differ on equal rows make noise of what a model could fit.

        With a share b of the numbers drawn anew from their column, columns keep their law, binary ones and counts too, and
        correlations fall by (1 − b)², which is 1 − `intensity`.
        """
        x, law = self.with_unseen(rng), law / law.sum()
        chosen, b = x[rng.choice(len(x), size=number, p=law)], 1.0 - np.sqrt(1.0 - self.intensity)
        numbers = np.array([2 * len(np.unique(column)) > len(column) for column in x.T], dtype=bool)
        towards, mean = x[rng.choice(len(x), size=number, p=law)], law @ x
        moved = mean + np.sqrt(1.0 - MOVED**2) * (chosen - mean) + MOVED * (towards - mean)
        chosen = np.where(numbers, moved, chosen)
        other = np.take_along_axis(x, rng.choice(len(x), size=chosen.shape, p=law), axis=0)
        made = np.where(rng.random(chosen.shape) < b, other, chosen)
        by_chance = np.where(numbers, (1.0 - np.sqrt(number / max(records, number))) * (made.mean(axis=0) - mean), 0.0)
        return made - by_chance + self._towards_zero(rng, numbers, mean)

    def _towards_zero(self, rng: np.random.Generator, numbers: Bool[np.ndarray, " p"], mean: Array) -> Array:
        """What to add to columns of numbers, so that many means off 0 by chance are not taken for means that are off 0.

        Means of n rows are off by p/n in all, in units of spread, and drawn again by as much more: a model without a
        constant would find one in them. Under a prior N(0, v) of each, means are N(0, v + a/n) along a direction of
        correlations with spread a, which tells v; the share v/(v + a/n) of what is seen stays.
        """
        x = self.x
        at, spread, n = x.mean(axis=0), x.std(axis=0), len(x)
        # Columns whose mean is 0 were given it, on these rows: where it is in the pool is as unknown as it ever was.
        told = numbers & _varied(x) & (np.abs(at) > 1e-9 * spread)
        shift = np.zeros(x.shape[1])
        if told.sum() < 2:
            return shift
        z = (x[:, told] - at[told]) / spread[told]
        a, U = np.linalg.eigh((1.0 - self.intensity) * z.T @ z / n + self.intensity * np.eye(z.shape[1]))
        seen, drawn = U.T @ (at[told] / spread[told]), U.T @ (mean[told] / spread[told])
        error = np.maximum(a, 1e-12) / n
        off = OFF[:, None] + error
        log = -0.5 * (np.log(off) + np.square(seen) / off).sum(axis=1)
        likely = np.exp(log - log.max())
        v = float(rng.choice(OFF, p=likely / likely.sum()))
        kept = v / (v + error)
        shift[told] = spread[told] * (U @ (kept * seen + np.sqrt(kept) * (drawn - seen) - drawn))
        return shift

    def little_apart(self, rng: np.random.Generator, x: Array) -> Array:
        """The same rows, each moved towards another one, by less where that is far from all: its length is of few rows.

        Along rows, because columns that vary together then still do.
        """
        rows = self.x
        numbers = np.array([2 * len(np.unique(column)) > len(column) for column in rows.T], dtype=bool)
        away = rows - rows.mean(axis=0)
        spread = np.maximum(away.std(axis=0), 1e-300)[numbers]
        length = np.sqrt(np.sum(np.square(away[:, numbers] / spread), axis=1))
        by = min(APART / len(rows), FURTHEST) * np.minimum(1.0, np.median(length) / np.maximum(length, 1e-300))
        towards = rng.integers(0, len(rows), size=len(x))
        return np.where(numbers, x + (by[:, None] * away)[towards], x)

    @cached_property
    def intensity(self) -> float:
        """α: correlations R count as (1 − α)R + αI, as likely as rows left out one by one make it.

        What an unknown parameter costs depends on the directions in which rows hardly vary, and likelihood sees those; the
        least squared error (Ledoit and Wolf) sees the others, and would widen a direction of correlated columns tenfold.
        With G = (1 − α)·R·n/(n − 1) + αI, β = (1 − α)·n/(n − 1)² and r = zᵀG⁻¹z the others of a row have, about their own
        mean, log det = log det G + log(1 − βr), and the row is off it by n/(n − 1)·z, a square of (n/(n − 1))²·r/(1 − βr).
        """
        x = self.x
        some = _varied(x)
        varied = x[:, some] / x.std(axis=0)[some]
        n = len(varied)
        if varied.shape[1] < 2 or n < 3:
            return 0.0
        varied = varied - varied.mean(axis=0)
        a, U = np.linalg.eigh(varied.T @ varied / n)
        squares, found = np.square(varied @ U), []
        for α in INTENSITIES:
            G = (1.0 - α) * n / (n - 1) * np.maximum(a, 0.0) + α
            r = squares @ (1.0 / G)
            left = np.maximum(1.0 - (1.0 - α) * n / (n - 1) ** 2 * r, 1e-12)
            found.append(float(np.log(G).sum() + np.mean(np.log(left) + (n / (n - 1)) ** 2 * r / left)))
        return float(INTENSITIES[int(np.argmin(found))])


def _varied(x: Array) -> Bool[np.ndarray, " p"]:
    """Columns that vary by more than rounding: the mean of equal numbers is not always that number."""
    return np.asarray(x.std(axis=0) > 1e-12 * np.abs(x).max(axis=0, initial=0.0))
