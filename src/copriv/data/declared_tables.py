"""Tables such as the declared columns allow: what is assumed of records where no rows are public.

A table is drawn in three steps. Its columns follow latent normal scores, whose correlations have eigenvalues that fall as
j^−decay; a row's scores are scaled together, so that some rows are longer. A score becomes a cell by its rank: a column uses a
part of its declared range, which may be far too wide, and may lie towards either end of it. The target follows the columns, in
the direction in which these follow a combination of the scores: a number with a share R² explained, or one of two classes by
a logit. All of these are drawn, widely, for each table.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int
from scipy.special import expit, ndtr

from copriv.data.columns import Date, Number, TwoClasses
from copriv.data.schema import Schema
from copriv.model.records import Records
from copriv.types import Array, Whole

CELLS = 4000
"""Cells of each column, evenly spread over what is declared, that tables are made of."""
DECAYS = (0.0, 2.0)
"""Range of the decay of eigenvalues."""
LENGTHS = (0.4, 0.8, 1.8)
"""Mean squares of the scores of a third of the rows each."""
WIDTHS = (0.05, 1.0)
"""Range (of the logarithm) of the share of a declared range that a table uses; 1 is all of it, evenly."""
EXPLAINED = (0.05, 100.0)
"""Range (of the logarithm) of R²/(1 − R²) of numbers."""
FACTORS = (2.0**-9, 4.0)
"""Range of what columns are multiplied by, so that rows are as long as was measured."""
GRID = 24
"""Points at which the likelihood of what was measured is computed."""
LOGITS, EVENTS = (0.3, 40.0), 1.5
"""Range (of the logarithm) of the deviation of logits, and deviation of their mean."""


@dataclass(frozen=True, eq=False)
class NoisyShares:
    """Noisy shares of a table's rows (`copriv.mechanisms.lengths`)."""

    lengths: Float[Array, " bins"]
    """By ‖x‖₂, in bins that halve from the longest possible row on."""
    targets: Float[Array, " targets"]
    """By target, in the bins between `edges`; empty of classes."""
    edges: Float[Array, " edges"]
    """In the unit of the target."""
    deviation: float
    """Of the noise in each share."""

    def likely(self, shares: Float[Array, "*laws bins"], noisy: Float[Array, " bins"]) -> Float[Array, "*laws"]:
        """Relative likelihood of laws with these shares, by normal noise."""
        log = -0.5 * np.square((shares - noisy) / self.deviation).sum(axis=-1)
        return np.asarray(np.exp(log - log.max()))

    def target(self, low: float, high: float) -> tuple[Array, Array, Array]:
        """Middles and deviations of targets with this range, and the probability of each given the shares.

        Targets are taken to be about normal.
        """
        half = 0.5 * (high - low)
        spread, middle = np.meshgrid(
            0.5 * half * np.geomspace(0.25 * WIDTHS[0], WIDTHS[1], GRID),
            np.linspace(low, high, 4 * GRID),
        )
        below = ndtr((self.edges - middle[..., None]) / spread[..., None])
        weight = self.likely(np.diff(below, axis=-1, prepend=0.0, append=1.0), self.targets)
        return middle.ravel(), spread.ravel(), (weight / weight.sum()).ravel()


@dataclass(frozen=True, eq=False)
class DeclaredTables:
    """The law of tables of a schema."""

    schema: Schema
    measured: NoisyShares | None = None
    """What has been measured of the one that there is, where anything was."""

    def draw(self, rng: np.random.Generator, rows: int, typical: bool = False) -> Records:
        """Draw a table and so many rows of it. typical: with the middle of each range above."""
        q = 0.5 if typical else None
        number = len(self.schema.columns)
        decay = _within(rng, DECAYS, q)
        root = np.sqrt(np.arange(1.0, number + 1.0) ** -decay)
        axes = np.linalg.qr(rng.normal(size=(number, number)))[0]
        size = np.sqrt(rng.choice(LENGTHS, rows))[:, None]
        parts = size * rng.normal(size=(rows, number))
        scores = parts * root @ axes.T
        scores /= np.sqrt((np.square(root * axes)).sum(axis=1))
        width = np.exp(_within(rng, np.log(WIDTHS), q))
        features = []
        for score, cells in zip(scores.T, self._cells, strict=True):
            each = width if typical else min(width * np.exp(rng.normal(0.0, 0.5)), 1.5)
            middle = 0.0 if typical else rng.normal()  # where in its range a column lies, in normal scores of the range
            ordered = cells[_order(cells, rng)]
            features.append(ordered[np.minimum((ndtr(middle + each * score) * CELLS).astype(np.int64), CELLS - 1)])
        x = np.hstack(features)
        if self.measured is not None:
            x = self._as_long(x, self.measured, rng)
        told = x @ np.linalg.lstsq(x - x.mean(axis=0), parts @ (np.sqrt(root) * rng.normal(size=number)), rcond=1e-9)[0]
        target = self._target(rng, (told - told.mean()) / max(float(told.std()), 1e-300), width, q)
        return Records.of(x, target)

    def _target(self, rng: np.random.Generator, told: Array, width: float, q: float | None) -> Array:
        target = self.schema.target
        if isinstance(target, TwoClasses):
            logits = np.exp(_within(rng, np.log(LOGITS), q)) * told + (0.0 if q else rng.normal(0.0, EVENTS))
            return np.where(rng.random(len(told)) < expit(logits), 1.0, -1.0)
        told_by, half = np.exp(_within(rng, np.log(EXPLAINED), q)), 0.5 * (target.high - target.low)
        if self.measured is not None and len(self.measured.targets):
            middles, spreads, probability = self._targets
            k = rng.choice(len(middles), p=probability)
            middle, spread = float(middles[k]), float(spreads[k])
        else:
            spread = 0.5 * half * (width if q else np.exp(_within(rng, np.log(WIDTHS), None)))
            room = max(half - 2.0 * spread, 0.0)
            middle = 0.5 * (target.low + target.high) + (0.0 if q else room * rng.uniform(-1.0, 1.0))
        noisy = (np.sqrt(told_by) * told + rng.normal(size=len(told))) / np.sqrt(1.0 + told_by)
        return np.asarray(np.clip(middle + spread * noisy, target.low, target.high))

    def _as_long(self, x: Array, known: NoisyShares, rng: np.random.Generator) -> Array:
        """Columns of numbers, multiplied by one factor, drawn given how long rows were measured to be."""
        cells = np.hstack(self._cells)
        low, high = cells.min(axis=0), cells.max(axis=0)
        kinds = [isinstance(one, Number | Date) for one in self.schema.columns]
        number = np.repeat(kinds, [each.shape[1] for each in self._cells])
        if not number.any():
            return x
        longest, halves = float(np.sqrt(sum(kinds))), 0.5 ** np.arange(len(known.lengths) - 1, 0, -1)
        factors, shares = np.geomspace(*FACTORS, 2 * GRID), []
        for factor in factors:
            scaled = np.where(number, np.clip(factor * x, low, high), x)
            place = np.searchsorted(halves, np.linalg.norm(scaled[:, number], axis=1) / longest)
            shares.append(np.bincount(place, minlength=len(known.lengths))[::-1] / len(x))
        weight = known.likely(np.array(shares), known.lengths)
        return np.where(number, np.clip(rng.choice(factors, p=weight / weight.sum()) * x, low, high), x)

    @property
    def mean(self) -> float:
        """Of targets, by what was measured of them."""
        middles, _, probability = self._targets
        return float(probability @ middles)

    @cached_property
    def _targets(self) -> tuple[Array, Array, Array]:
        assert self.measured is not None
        assert isinstance(self.schema.target, Number)
        return self.measured.target(self.schema.target.low, self.schema.target.high)

    @cached_property
    def _cells(self) -> list[Array]:
        """Encoded cells of each column."""
        rng = np.random.default_rng(0)
        made = {one.name: one.made_up(rng, CELLS) for one in (*self.schema.columns, self.schema.target)}
        encoded = self.schema.encode(pa.table(made)).features
        ends = np.cumsum([len(one.feature_names(self.schema.scaling)) for one in self.schema.columns])
        return np.split(encoded, ends[:-1], axis=1)


def _order(cells: Array, rng: np.random.Generator) -> Int[Whole, " cells"]:
    """Order of cells: of numbers as they are, of levels at random."""
    if cells.shape[1] == 1:
        return np.argsort(cells[:, 0])
    return np.argsort(rng.permutation(cells.shape[1])[cells.argmax(axis=1)])


def _within(rng: np.random.Generator, ends: Array | tuple[float, float], quantile: float | None) -> float:
    low, high = ends
    return float(low + (high - low) * (rng.random() if quantile is None else quantile))
