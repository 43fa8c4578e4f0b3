"""Declared columns, and how the cells of each become numbers.

| column       | cells                            | features                                               |
| ------------ | -------------------------------- | ------------------------------------------------------ |
| `Number`     | numbers within declared bounds   | one: over the larger of |low| and |high|, or `by` else |
| `Date`       | days between two declared ones   | one: 0 on the first day, 1 on the last                 |
| `Boolean`    | true or false, yes or no, 1 or 0 | one: 1 or 0                                            |
| `Category`   | one of K declared levels         | K: 1 for the row's own level and 0 for the others      |
| the same, `ordered` | one of K levels in order  | one: k/K for the k-th                                  |
| `TwoClasses` | a target's two classes           | −1 and +1                                              |

A missing value is refused, unless the column declares as what it counts (`missing`). A number outside its bounds is
refused, unless the column declares `clamp` (it counts as the nearest bound) or `cap` (one above `high` counts as `high`:
incomes have no natural upper bound); the number of cells moved is counted, for the owner alone. Each column reads its own
cells and nothing else: bounds, levels and scales are declared, never measured.

Ordered levels count from 1: in a model without an intercept a first level of 0 would have no effect.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np

from copriv.data.cells import EPOCH, Cells, Fault, day_of, days, levels_of, numbers, quoted
from copriv.errors import DataError
from copriv.formatting.cards import Shown
from copriv.types import Array

OnViolation: TypeAlias = Literal["refuse", "clamp"]
"""What to do with a number outside its bounds: refuse the table, or move that number to the nearest bound."""
Scaling: TypeAlias = Literal["declared", "none"]
"""Numbers over their declared sizes; or, as in the papers, numbers as they are and levels 0, 1, 2, …, ordered or not."""
Scale: TypeAlias = Literal["size", "centred", "log"]
"""Scaling of a number: x/size; (x − middle)/half the range; or log(1 + x − low)/log(1 + high − low)."""


class Column:
    """A declared column: how its cells are read (`read`) and, for a feature, how they are scaled (`encode`)."""

    name: str
    """As in the table."""

    def feature_names(self, scaling: Scaling) -> tuple[str, ...]:
        """Names of its features: its own name, or name=level for each level."""
        return (self.name,)

    def read(self, series: nw.Series[Any], on_violation: OnViolation = "refuse") -> Cells:
        """Read the column in its own unit: numbers, days since 1970, indices of levels, or −1 and +1."""
        raise NotImplementedError

    def encode(self, series: nw.Series[Any], scaling: Scaling, on_violation: OnViolation = "refuse") -> Cells:
        """Make its features, one column each, |x| ≤ 1 unless the scaling is "none"."""
        cells = self.read(series, on_violation)
        values = cells.values
        if scaling != "none":
            values = self._scaled(values)
        return replace(cells, values=values.reshape(len(values), -1))

    def made_up(self, rng: np.random.Generator, rows: int) -> Any:
        """So many cells that the column takes, drawn from what is declared."""
        raise NotImplementedError

    def _scaled(self, values: Array) -> Array:
        return values


@dataclass(frozen=True)
class Number(Column):
    """A column of numbers in [low, high], in the column's own unit.

    >>> from copriv.data import Number
    >>> Number("age", 0, 120, clamp=True).size
    120
    """

    name: str
    low: float
    high: float
    missing: float | None = None
    """What a missing value counts as; None: a missing value is refused."""
    cap: bool = False
    """A value above `high` counts as `high`; one below `low` is refused all the same."""
    scale: float | None = None
    """The feature is the number over this; None: the larger of |low| and |high|, so that |x| ≤ 1."""
    clamp: bool = False
    """A value outside the bounds counts as the nearest one."""
    by: Scale = "size"

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise DataError(
                f"{self.name}: bounds must be two finite numbers, low < high, not [{self.low}, {self.high}]"
            )
        if self.missing is not None and not self.low <= self.missing <= self.high:
            raise DataError(
                f"{self.name}: missing counts as {self.missing}, outside its own bounds [{self.low}, {self.high}]"
            )
        if self.scale is not None and not 0 < self.scale < math.inf:
            raise DataError(f"{self.name}: scale must be a finite number above 0, not {self.scale}")

    @property
    def size(self) -> float:
        """Divisor that makes the feature."""
        return self.scale or max(abs(self.low), abs(self.high))

    def read(self, series: nw.Series[Any], on_violation: OnViolation = "refuse") -> Cells:
        values, wrong = numbers(series)
        if wrong is None:
            return self.within(values, on_violation, "{:.12g}".format)
        row, value = wrong
        advice = "correct it, or declare a category"
        # The usual reason: a table from where the decimal sign is a comma.
        if isinstance(value, str) and value.count(",") == 1 and value.replace(",", "").strip("+-").isdigit():
            advice = "write decimals with a point, and nothing between thousands"
        return Cells(values, [Fault(self.name, "type", f"is {quoted(value)}, not a number; {advice}", row + 1)])

    def within(self, values: Array, on_violation: OnViolation, shown: Callable[[float], str]) -> Cells:
        """Check values against the bounds; NaN is missing. `shown` formats a value for messages."""
        if len(values) and self.low <= values.min() and values.max() <= self.high:  # nearly always, and false with NaN
            return Cells(values, [])
        absent = np.isnan(values)
        problems: list[Fault] = []
        if self.missing is not None:
            values[absent] = self.missing
        elif absent.any():
            advice = "fill it in, leave the row out, or declare what missing counts as: data.missing"
            problems.append(Fault.of(self.name, "missing", absent, f"is missing; {advice}"))
        # Infinity has no nearest bound: it is refused below, as NaN is above.
        low, high = -math.inf, math.inf
        if self.cap:
            high = self.high
        if self.clamp or on_violation == "clamp":
            low, high = self.low, self.high
        kept = values
        if low > -math.inf or high < math.inf:
            kept = np.where(np.isfinite(values), np.clip(values, low, high), values)
        for outside, side, bound in ((kept < self.low, "below", self.low), (kept > self.high, "above", self.high)):
            if outside.any():
                found = f"is {shown(float(kept[int(np.argmax(outside))]))}, {side} its declared bound {shown(bound)}"
                advice = "correct it, declare wider bounds, or clamp"
                problems.append(Fault.of(self.name, side, outside, f"{found}; {advice}"))
        return Cells(kept, problems, moved=0 if kept is values else int((kept != values)[~absent].sum()))

    def made_up(self, rng: np.random.Generator, rows: int) -> Any:
        within = rng.uniform(0.01, 0.99, rows)  # rounding does not leave the bounds
        digits = 8 - math.floor(math.log10(max(abs(self.low), abs(self.high))))
        return np.clip(np.round(self.low + (self.high - self.low) * within, digits), self.low, self.high)

    def _scaled(self, values: Array) -> Array:
        if self.by == "centred":
            return (values - (self.low + self.high) / 2) / ((self.high - self.low) / 2)
        if self.by == "log":
            # Values out of bounds are refused elsewhere; clipped, they cause no warning of the logarithm.
            inside = np.clip(values, self.low, self.high)
            return np.asarray(np.log1p(inside - self.low) / math.log1p(self.high - self.low))
        return values / self.size


@dataclass(frozen=True)
class Date(Column):
    """A column of days from `first` to `last`, as dates or as text such as 2015-12-31; the time of day does not count."""

    name: str
    first: date
    last: date
    missing: date | None = None
    """What a missing day counts as; None: it is refused."""
    clamp: bool = False
    """A day outside counts as the nearest one inside."""

    def __post_init__(self) -> None:
        if not self.first < self.last:
            raise DataError(f"{self.name}: the first day must be before the last, not [{self.first}, {self.last}]")
        if self.missing is not None and not self.first <= self.missing <= self.last:
            raise DataError(f"{self.name}: missing counts as {self.missing}, not between {self.first} and {self.last}")

    @cached_property
    def _days(self) -> Number:
        missing = None if self.missing is None else day_of(self.missing)
        return Number(self.name, day_of(self.first), day_of(self.last), missing, clamp=self.clamp)

    def read(self, series: nw.Series[Any], on_violation: OnViolation = "refuse") -> Cells:
        values, wrong = days(series)
        if wrong is None:
            return self._days.within(values, on_violation, lambda day: date.fromordinal(EPOCH + int(day)).isoformat())
        row, value = wrong
        return Cells(
            values, [Fault(self.name, "type", f"is {quoted(value)}, not a date; write it as 2015-12-31", row + 1)]
        )

    def made_up(self, rng: np.random.Generator, rows: int) -> Any:
        return rng.integers(int(self._days.low), int(self._days.high) + 1, rows).astype("datetime64[D]")

    def _scaled(self, values: Array) -> Array:
        return (values - self._days.low) / (self._days.high - self._days.low)


@dataclass(frozen=True)
class Category(Column, Shown):
    """A column with declared levels.

    >>> from copriv.data import Category
    >>> Category("grade", ("A", "B", "C"), ordered=True).feature_names("declared")
    ('grade',)
    >>> Category("purpose", ("car", "house")).feature_names("declared")
    ('purpose=car', 'purpose=house')
    """

    name: str
    levels: tuple[str, ...]
    missing: str | None = None
    """The level that a missing value counts as; None: a missing value is refused."""
    ordered: bool = False
    """Whether the levels are in a meaningful order, such as grades."""

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels) or len(self.levels) < 2:
            raise DataError(f"{self.name}: declare two or more different levels, not {list(self.levels)}")
        spaced = next((level for level in self.levels if level != level.strip()), None)
        if spaced is not None:
            raise DataError(
                f"{self.name}: the level {spaced!r} begins or ends with a space, which cells are read without"
            )
        if self.missing is not None and self.missing not in self.levels:
            raise DataError(f"{self.name}: missing counts as {self.missing!r}, which is not one of its levels")

    @classmethod
    def coded(cls, name: str, levels: tuple[str, ...], missing: str | None = None) -> "Category":
        """Encode a category as the papers do: by its index among the levels, ordered or not."""
        return cls(name, levels, missing, ordered=True)

    def feature_names(self, scaling: Scaling) -> tuple[str, ...]:
        """Its own name, or name=level for each level."""
        if self.ordered or scaling == "none":
            return (self.name,)
        return tuple(f"{self.name}={level}" for level in self.levels)

    def read(self, series: nw.Series[Any], on_violation: OnViolation = "refuse") -> Cells:
        codes = {level: float(k) for k, level in enumerate(self.levels)}
        return levels_of(self.name, series, codes, self.missing)

    def made_up(self, rng: np.random.Generator, rows: int) -> Any:
        return rng.choice(self.levels, rows)

    def _scaled(self, values: Array) -> Array:
        K = len(self.levels)
        if self.ordered:
            return (values + 1) / K
        return np.asarray(values[:, None] == np.arange(K), dtype=np.float64)


TRUTHS = {**dict.fromkeys(("false", "no", "n", "f", "0"), 0.0), **dict.fromkeys(("true", "yes", "y", "t", "1"), 1.0)}
"""Usual texts for false and true, in lower case, and the feature of each."""


@dataclass(frozen=True)
class Boolean(Column):
    """A column of true or false, as one of the texts in `TRUTHS`; case does not matter."""

    name: str
    missing: bool | None = None
    """What a missing value counts as; None: it is refused."""

    def read(self, series: nw.Series[Any], on_violation: OnViolation = "refuse") -> Cells:
        missing = None if self.missing is None else str(self.missing).lower()
        return levels_of(self.name, series, TRUTHS, missing, str.lower)

    def made_up(self, rng: np.random.Generator, rows: int) -> Any:
        return rng.choice([False, True], rows)


@dataclass(frozen=True)
class TwoClasses(Column):
    """A target with two classes, encoded −1 and +1.

    >>> import pandas
    >>> from copriv.data import Number, Schema, TwoClasses
    >>> schema = Schema((Number("age", 0, 100),), TwoClasses("fraud", "no", "yes"))
    >>> schema.encode(pandas.DataFrame({"age": [20, 50], "fraud": ["yes", "no"]})).target.tolist()
    [1.0, -1.0]
    """

    name: str
    negative: str
    positive: str

    def __post_init__(self) -> None:
        if self.negative == self.positive:
            raise DataError(f"{self.name}: the two classes must differ, not {self.negative!r} twice")

    def read(self, series: nw.Series[Any], on_violation: OnViolation = "refuse") -> Cells:
        return levels_of(self.name, series, {self.negative: -1.0, self.positive: 1.0}, None)

    def made_up(self, rng: np.random.Generator, rows: int) -> Any:
        return rng.choice([self.negative, self.positive], rows)


Target: TypeAlias = Number | TwoClasses
