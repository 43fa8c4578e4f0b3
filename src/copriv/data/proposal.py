"""Propose columns, types, levels and ranges for an agreement's [data] from a table of public rows, for people to correct.

Ranges are rounded outward: numbers to one digit of their range, days to whole years. Values outside count as the nearest
bound (`clamp`), since private rows may lie beyond public ones. Only public rows may be read here: the least and the largest
of private rows are private values, even rounded, and so are levels. Of a private table only its column names
(`tables.column_names`) may be known.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np

from copriv.data.cells import EPOCH, absent, days, distinct, numbers, reading
from copriv.data.columns import TRUTHS
from copriv.data.tables import Table
from copriv.errors import DataError
from copriv.formatting.cards import Shown
from copriv.types import Array

Kind: TypeAlias = Literal["bounds", "categories", "booleans", "dates"]
"""The key of [data] that declares a column."""

LARGEST = 1e30
"""Largest bound that an agreement accepts (`terms.values.Number`)."""
_LADDERS = (
    ("low", "medium", "high"),
    ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"),
    tuple("ABCDEFGHIJ"),
)
_REST = ("other", "unknown", "missing", "none")
"""Levels that a missing value counts as, where a column has one of them."""


@dataclass(frozen=True)
class Proposal(Shown):
    """A proposed declaration of one column."""

    name: str
    kind: Kind | None = None
    """None: it cannot be a feature."""
    value: tuple[Any, ...] = ()
    """Two bounds or days, or the levels."""
    ordered: bool = False
    clamp: bool = False
    """Whether values out of bounds count as the nearest bound."""
    missing: Any = None
    """What a missing value counts as; None: no value is missing."""
    classes: tuple[str, ...] = ()
    """The two classes, where it can be a target with two classes."""
    why_not: str = ""
    """Why it cannot be a feature."""

    @property
    def predictable(self) -> bool:
        """Whether it can be the target: a number or two classes, without missing values."""
        return self.missing is None and (self.kind == "bounds" or bool(self.classes))


def proposals(table: Table) -> tuple[Proposal, ...]:
    """Propose a declaration of each column, from all rows."""
    return tuple(_column(table[name]) for name in table.columns)


def as_declared(columns: Sequence[Proposal], target: str) -> dict[str, Any]:
    """Write the keys of [data] that declare these columns: `target` is to be predicted, the others are features."""
    keys: dict[str, Any] = {"features": [one.name for one in columns if one.name != target], "target": target}
    for one in columns:
        kind, value = one.kind, one.value
        if one.name == target and one.classes:
            kind, value = "categories", one.classes
        if kind == "booleans":
            keys.setdefault(kind, []).append(one.name)
        elif kind is not None:
            keys.setdefault(kind, {})[one.name] = value
        if one.clamp and kind in ("bounds", "dates"):
            keys.setdefault("clamp", []).append(one.name)
        if one.ordered and one.name != target:
            keys.setdefault("ordered", []).append(one.name)
        if one.missing is not None and one.name != target:
            keys.setdefault("missing", {})[one.name] = one.missing
    return keys


def _column(series: nw.Series[Any]) -> Proposal:
    if not series.name.strip():
        return Proposal(series.name, why_not="has no name")
    try:
        cells, place = distinct(series)
    except DataError as error:
        return Proposal(series.name, why_not=str(error).removeprefix(f"{series.name}: "))
    known: Counter[str] = Counter()
    for cell, rows in zip(cells, np.bincount(place, minlength=len(cells)).tolist(), strict=True):
        if not absent(cell) and rows:
            known[str(cell).strip()] += rows
    if not known:
        return Proposal(series.name, why_not="holds nothing")
    if len({reading(text) for text in known}) == 1:
        return Proposal(series.name, why_not="is the same in every row")
    proposal = _of_cells(series, known)
    if sum(known.values()) < len(place):
        return replace(proposal, classes=())
    return replace(proposal, missing=None)


def _of_cells(series: nw.Series[Any], known: Mapping[str, int]) -> Proposal:
    """Propose numbers, days or texts, as if some values were missing. known: text → number of rows."""
    values, wrong = numbers(series)
    if wrong is None and not any(
        re.match(r"[+-]?0\d", text) for text in known
    ):  # a code begins with 0, a number does not
        return _number(series.name, values[~np.isnan(values)])
    found, wrong = days(series)
    if wrong is None:
        first, middle, last = (
            date.fromordinal(EPOCH + int(statistic(found))) for statistic in (np.nanmin, np.nanmedian, np.nanmax)
        )
        years = (f"{first.year:04}-01-01", f"{last.year:04}-12-31")
        return Proposal(series.name, "dates", years, clamp=True, missing=middle.isoformat())
    return _text(series.name, known)


def _number(name: str, values: Array) -> Proposal:
    low, high = float(values.min()), float(values.max())
    if not -LARGEST / 10 < low < high < LARGEST / 10:
        return Proposal(name, why_not="holds numbers too large to be bounded")
    distinct_values, count = sorted(set(values.tolist())), len(values)
    if count > 2 and high - low == count - 1 and len(distinct_values) == count and not np.any(values % 1):
        return Proposal(name, why_not="numbers its rows")
    classes: tuple[str, ...] = ()
    if len(distinct_values) == 2:
        classes = tuple(str(reading(value)) for value in distinct_values)
    bounds = outward(low, high)
    middle = min(max(float(f"{np.median(values):.3g}"), bounds[0]), bounds[1])
    return Proposal(name, "bounds", bounds, clamp=True, missing=middle, classes=classes)


def outward(low: float, high: float) -> tuple[float, float]:
    """Round the ends of a range outward, to one digit of its length.

    >>> outward(18, 87), outward(0.021, 0.97), outward(3_211, 612_000)
    ((10.0, 90.0), (0.0, 1.0), (0.0, 700000.0))
    """
    digit = math.floor(math.log10(high - low))
    step = 10.0**digit
    ends = round(math.floor(low / step) * step, -digit), round(math.ceil(high / step) * step, -digit)
    # Where the range is far smaller than its ends, floats do not keep the digits of a step.
    return min(float(ends[0]), low) + 0.0, max(float(ends[1]), high) + 0.0


def _text(name: str, known: Mapping[str, int]) -> Proposal:
    most_frequent = max(known, key=lambda level: known[level])
    classes: tuple[str, ...] = ()
    if len(known) == 2:
        classes = tuple(sorted(known))
    if {TRUTHS.get(level.lower()) for level in known} == {0.0, 1.0}:
        return Proposal(name, "booleans", missing=TRUTHS[most_frequent.lower()] == 1.0, classes=classes)
    if len(known) > 40:  # as names and addresses, which identify rows, have
        return Proposal(name, why_not=f"has {len(known):,} different texts: it names things, not kinds of things")
    levels, ordered = tuple(sorted(known)), False
    for ladder in _LADDERS:
        if set(known) == set(ladder[: len(known)]):
            levels, ordered = ladder[: len(known)], len(known) > 2
    rest = next((level for level in levels if level.lower() in _REST), most_frequent)
    return Proposal(name, "categories", levels, ordered, missing=rest, classes=classes)
