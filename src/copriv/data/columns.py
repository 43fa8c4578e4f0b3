"""Declared columns, and how the cells of each become numbers.

| column       | cells                            | features                                               |
| ------------ | -------------------------------- | ------------------------------------------------------ |
| `Number`     | numbers within declared bounds   | one: over the larger of |low| and |high|, or `by` else |
| `Date`       | days between two declared ones   | one: 0 on the first day, 1 on the last                 |
| `Boolean`    | true or false, yes or no, 1 or 0 | one: 1 or 0                                            |
| `Category`   | one of K declared levels         | K: 1 for the row's own level and 0 for the others      |
| the same, `ordered` | one of K levels in order  | one: k/K for the k-th                                  |
| `TwoClasses` | a target's two classes           | −1 and +1                                              |

Without `missing` a missing value is refused; with it, it counts as what it says. Each column reads its own cells and
nothing else: bounds, levels and scales are declared, never measured. A number outside its bounds is refused, unless the
column says `clamp` (it counts as the nearest bound) or `cap` (one above `high` counts as `high`: incomes have no natural
upper bound); how many cells were moved is counted, for the owner alone.

Ordered levels count from 1 because models without an intercept need the first level to be a value, not an absence.
"""

import math
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import narwhals.stable.v2 as nw
import numpy as np

from copriv.data.cells import at, days, numbers, told
from copriv.data.levels import Cells, levels_of
from copriv.errors import DataError
from copriv.formatting.cards import Shown
from copriv.types import Array

OnViolation: TypeAlias = Literal["refuse", "clamp"]
"""What to do with a number outside its bounds: refuse the table, or move that number to the nearest bound."""
Scaling: TypeAlias = Literal["declared", "none"]
"""Numbers over their declared sizes; or, as in the papers, numbers as they are and levels 0, 1, 2, …, ordered or not."""
Scale: TypeAlias = Literal["size", "centred", "log"]
"""How a number becomes a feature: x/size; (x − middle)/half the range; or log(1 + x − low)/log(1 + high − low)."""


@runtime_checkable
class Column(Protocol):
    """A declared feature column."""

    @property
    def name(self) -> str:
        """As in the table."""
        ...

    def feature_names(self, scaling: Scaling) -> tuple[str, ...]:
        """What its features are called."""
        ...

    def encode(self, series: nw.Series[Any], scaling: Scaling, on_violation: OnViolation = "refuse") -> Cells:
        """Its features, one column each."""
        ...


@dataclass(frozen=True)
class Number:
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
        """What the number is divided by."""
        return self.scale or max(abs(self.low), abs(self.high))

    def feature_names(self, scaling: Scaling) -> tuple[str, ...]:
        """Its own name."""
        return (self.name,)

    def read(self, series: nw.Series[Any], on_violation: OnViolation = "refuse") -> Cells:
        """The column in its own unit."""
        values, wrong = numbers(series)
        if wrong is not None:
            row, value = wrong
            # The usual reason: a table from where the decimal sign is a comma.
            comma = isinstance(value, str) and value.count(",") == 1 and value.replace(",", "").strip("+-").isdigit()
            advice = (
                "write decimals with a point, and nothing between thousands"
                if comma
                else "correct it, or declare a category"
            )
            return Cells(values, [f"{self.name}, row {row + 1}: is {told(value)}, not a number; {advice}"])
        return self._within(values, on_violation, "{:.12g}".format)

    def _within(self, values: Array, on_violation: OnViolation, shown: Any) -> Cells:
        absent = np.isnan(values)
        problems: list[str] = []
        if absent.any() and self.missing is None:
            problems.append(
                at(self.name, absent, "is missing; fill it in, leave the row out, or declare what missing counts as")
            )
        if self.missing is not None:
            values[absent] = self.missing
        # Infinity is no number that has a nearest bound: it is refused below, as is NaN above.
        low = self.low if on_violation == "clamp" or self.clamp else -math.inf
        high = self.high if on_violation == "clamp" or self.clamp or self.cap else math.inf
        kept = np.where(np.isfinite(values), np.clip(values, low, high), values)
        moved = int((kept[~absent] != values[~absent]).sum())
        advice = "correct it, declare wider bounds, or clamp"
        for outside, side, bound in ((kept < self.low, "below", self.low), (kept > self.high, "above", self.high)):
            if outside.any():
                worst = shown(float(kept[int(np.argmax(outside))]))
                problems.append(
                    at(self.name, outside, f"is {worst}, {side} its declared bound {shown(bound)}; {advice}")
                )
        return Cells(kept, problems, moved)

    def encode(self, series: nw.Series[Any], scaling: Scaling, on_violation: OnViolation = "refuse") -> Cells:
        """One feature, at most 1 in size unless the scaling is "none"."""
        read = self.read(series, on_violation)
        return Cells(
            (read.values if scaling == "none" else self._scaled(read.values))[:, None], read.problems, read.moved
        )

    def _scaled(self, values: Array) -> Array:
        if self.by == "centred":
            return (values - (self.low + self.high) / 2) / ((self.high - self.low) / 2)
        if self.by == "log":
            # What is out of bounds is refused anyway, and need not warn first.
            inside = np.clip(values, self.low, self.high)
            return np.asarray(np.log1p(inside - self.low) / math.log1p(self.high - self.low))
        return values / self.size


@dataclass(frozen=True)
class Date:
    """A column of days from `first` to `last`, as dates or as text such as 2015-12-31; the time of day does not count."""

    name: str
    first: date
    last: date
    missing: date | None = None
    """What a missing day counts as; None: it is refused."""
    clamp: bool = False
    """A day outside counts as the nearest one inside."""

    def __post_init__(self) -> None:
        self._as_number()  # refuses what cannot be

    def feature_names(self, scaling: Scaling) -> tuple[str, ...]:
        """Its own name."""
        return (self.name,)

    def encode(self, series: nw.Series[Any], scaling: Scaling, on_violation: OnViolation = "refuse") -> Cells:
        """One feature: 0 on the first day and 1 on the last, or the days since 1970 where the scaling is "none"."""
        values, wrong = days(series)
        if wrong is not None:
            row, value = wrong
            return Cells(values, [f"{self.name}, row {row + 1}: is {told(value)}, not a date; write it as 2015-12-31"])
        found = self._as_number()._within(values, on_violation, lambda day: _day(day).isoformat())
        if scaling == "none":
            return Cells(found.values[:, None], found.problems, found.moved)
        span = (found.values - _number(self.first)) / (_number(self.last) - _number(self.first))
        return Cells(span[:, None], found.problems, found.moved)

    def _as_number(self) -> Number:
        if not self.first < self.last:
            raise DataError(f"{self.name}: the first day must be before the last, not [{self.first}, {self.last}]")
        if self.missing is not None and not self.first <= self.missing <= self.last:
            raise DataError(f"{self.name}: missing counts as {self.missing}, not between {self.first} and {self.last}")
        missing = None if self.missing is None else _number(self.missing)
        return Number(self.name, _number(self.first), _number(self.last), missing, clamp=self.clamp)


@dataclass(frozen=True)
class Category(Shown):
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
    """The levels stand in an order that means something, such as grades."""

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
        """As the papers encode a category: by its place among the levels, whether they stand in order or not."""
        return cls(name, levels, missing, ordered=True)

    def feature_names(self, scaling: Scaling) -> tuple[str, ...]:
        """Its own name, or name=level for each level."""
        if self.ordered or scaling == "none":
            return (self.name,)
        return tuple(f"{self.name}={level}" for level in self.levels)

    def encode(self, series: nw.Series[Any], scaling: Scaling, on_violation: OnViolation = "refuse") -> Cells:
        """One feature a level, or one where the levels are ordered."""
        K = len(self.levels)
        found = levels_of(self.name, series, {level: float(k) for k, level in enumerate(self.levels)}, self.missing)
        place = found.values[:, None]
        if scaling == "none":
            return Cells(place, found.problems)
        return Cells((place + 1) / K if self.ordered else (place == np.arange(K)).astype(np.float64), found.problems)


_TRUE, _FALSE = ("true", "yes", "y", "t", "1"), ("false", "no", "n", "f", "0")


@dataclass(frozen=True)
class Boolean:
    """A column that says true or false, in one of the usual ways; capitals do not matter."""

    name: str
    missing: bool | None = None
    """What a missing value counts as; None: it is refused."""

    @staticmethod
    def truth(name: str, text: str) -> bool:
        """What a text says. Raises DataError for one that says neither."""
        if text.lower() not in (*_TRUE, *_FALSE):
            raise DataError(f"{name}: missing counts as {text!r}, which is neither true nor false")
        return text.lower() in _TRUE

    def feature_names(self, scaling: Scaling) -> tuple[str, ...]:
        """Its own name."""
        return (self.name,)

    def encode(self, series: nw.Series[Any], scaling: Scaling, on_violation: OnViolation = "refuse") -> Cells:
        """One feature: 1 for true, 0 for false."""
        codes = {**dict.fromkeys(_FALSE, 0.0), **dict.fromkeys(_TRUE, 1.0)}
        missing = None if self.missing is None else _TRUE[0] if self.missing else _FALSE[0]
        found = levels_of(self.name, series, codes, missing, capitals=False)
        return Cells(found.values[:, None], found.problems)


@dataclass(frozen=True)
class TwoClasses:
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
        """−1 or +1 for each row."""
        return levels_of(self.name, series, {self.negative: -1.0, self.positive: 1.0}, None)


Target: TypeAlias = Number | TwoClasses


def _number(day: date) -> float:
    return float((day - date(1970, 1, 1)).days)


def _day(number: float) -> date:
    return date.fromordinal(date(1970, 1, 1).toordinal() + int(number))
