"""Declared columns: numbers within bounds, levels of a category, two classes; and how each becomes numbers.

- `Number(name, low, high)`: a number within declared bounds, divided by the larger of |low| and |high|. `missing` is
  what a missing value counts as; without it a missing value is refused. With `cap`, a value above `high` counts as
  `high` (incomes have no natural upper bound).
- `Category(name, levels)`: one of the declared levels, encoded as its place 1, 2, 3, ... in them, divided by their
  number. So ordered levels should be declared in their order. Places start at 1 because models without an intercept
  need the first level to be a value, not an absence.
- `TwoClasses(name, negative, positive)`: a target, encoded −1 and +1.

Each column reads its own cells and nothing else: bounds, levels and scales are declared, never measured.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np

from copriv.data.cells import at, distinct_labels, numbers, shortened
from copriv.errors import DataError
from copriv.types import Array

OnViolation: TypeAlias = Literal["refuse", "clamp"]
"""What to do with a number outside its bounds: refuse the table, or move that number to the nearest bound."""
Scaling: TypeAlias = Literal["declared", "none"]
"""Numbers over their declared sizes and levels k/K; or numbers as they are and levels 0, 1, 2, …, as in the papers."""


@dataclass(frozen=True)
class Number:
    """A column of numbers in [low, high], in the column's own unit."""

    name: str
    low: float
    high: float
    missing: float | None = None
    """What a missing value counts as; None: a missing value is refused."""
    cap: bool = False
    """A value above `high` counts as `high`; one below `low` is refused all the same."""
    scale: float | None = None
    """The feature is the number over this; None: the larger of |low| and |high|, so that |x| ≤ 1."""

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

    def read(self, series: nw.Series[Any], on_violation: OnViolation = "refuse") -> tuple[Array, list[str]]:
        """The column in its own unit, and one line for each kind of fault."""
        values, wrong = numbers(series)
        if wrong is not None:
            row, value = wrong
            return values, [
                f"{self.name}, row {row + 1}: is {value!r}, not a number; correct it, or declare a category"
            ]
        absent = np.isnan(values)
        problems: list[str] = []
        if absent.any() and self.missing is None:
            problems.append(
                at(self.name, absent, "is missing; fill it in, leave the row out, or declare what missing counts as")
            )
        if self.missing is not None:
            values[absent] = self.missing
        if on_violation == "clamp":
            # Infinity is no number that has a nearest bound: it is refused below, as is NaN above.
            values = np.where(np.isfinite(values), np.clip(values, self.low, self.high), values)
        elif self.cap:
            values = np.where(np.isfinite(values), np.minimum(values, self.high), values)
        advice = "correct it, declare wider bounds, or clamp"
        for outside, side, bound in (
            (values < self.low, "below", self.low),
            (values > self.high, "above", self.high),
        ):
            if outside.any():
                worst = values[int(np.argmax(outside))]
                problems.append(
                    at(self.name, outside, f"is {worst:.12g}, {side} its declared bound {bound:.12g}; {advice}")
                )
        return values, problems

    def encode(
        self, series: nw.Series[Any], scaling: Scaling, on_violation: OnViolation = "refuse"
    ) -> tuple[Array, list[str]]:
        """The column as a feature, and one line for each kind of fault."""
        values, problems = self.read(series, on_violation)
        return (values / self.size if scaling == "declared" else values), problems


@dataclass(frozen=True)
class Category:
    """A column with declared levels, encoded k/K for the k-th of K."""

    name: str
    levels: tuple[str, ...]
    missing: str | None = None
    """The level that a missing value counts as; None: a missing value is refused."""

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels) or len(self.levels) < 2:
            raise DataError(f"{self.name}: declare two or more different levels, not {list(self.levels)}")
        if self.missing is not None and self.missing not in self.levels:
            raise DataError(f"{self.name}: missing counts as {self.missing!r}, which is not one of its levels")

    def encode(
        self, series: nw.Series[Any], scaling: Scaling, on_violation: OnViolation = "refuse"
    ) -> tuple[Array, list[str]]:
        """The column as a feature, and one line for each kind of fault."""
        first, size = (0, 1) if scaling == "none" else (1, len(self.levels))
        codes = {level: (k + first) / size for k, level in enumerate(self.levels)}
        return _encode_levels(self.name, series, codes, self.missing)


@dataclass(frozen=True)
class TwoClasses:
    """A target with two classes, encoded −1 and +1."""

    name: str
    negative: str
    positive: str

    def __post_init__(self) -> None:
        if self.negative == self.positive:
            raise DataError(f"{self.name}: the two classes must differ, not {self.negative!r} twice")

    def read(self, series: nw.Series[Any], on_violation: OnViolation = "refuse") -> tuple[Array, list[str]]:
        """−1 or +1 for each row, and one line for each kind of fault."""
        return _encode_levels(self.name, series, {self.negative: -1.0, self.positive: 1.0}, None)


Column: TypeAlias = Number | Category
Target: TypeAlias = Number | TwoClasses


def _encode_levels(
    name: str, series: nw.Series[Any], codes: Mapping[str, float], missing: str | None
) -> tuple[Array, list[str]]:
    labels, place = distinct_labels(series)
    known = {**codes, **({} if missing is None else {"": codes[missing]})}
    values = np.array([known.get(label, math.nan) for label in labels])[place]
    unknown = np.isnan(values)
    absent = unknown & np.array([not label for label in labels])[place]
    problems: list[str] = []
    if absent.any():
        advice = "fill it in, leave the row out, or declare the level that missing counts as"
        problems.append(at(name, absent, f"is missing; {advice}"))
    strange = unknown & ~absent
    if strange.any():
        label = labels[place[int(np.argmax(strange))]]
        declared = shortened(tuple(codes))
        advice = "correct it, or declare the level"
        problems.append(at(name, strange, f"is {label!r}, not one of {declared}; {advice}"))
    return values, problems
