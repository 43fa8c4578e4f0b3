"""Columns, types, levels and ranges for an agreement's [data], proposed from a table of public rows, for people to correct.

Ranges are rounded outward: numbers to one digit of their range, days to whole years. Values out of them count as the nearest
bound (`clamp`), for private rows may lie beyond public ones. Only public rows are to be read here: the least and the largest
of private rows are private values, also when they are rounded, and so are levels. Of a private table, `column_names` (of
`tables`) gives what may be known of it.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

MOST_LEVELS = 40
"""A column of text with more different values than this names things rather than kinds of things."""
LARGEST = 1e30
"""Bounds beyond this are none that an agreement takes."""
_LADDERS = (
    ("low", "medium", "high"),
    ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"),
    tuple("ABCDEFGHIJ"),
)
_REST = ("other", "unknown", "missing", "none")
"""Levels that a missing value is taken for, where one of them is there."""


@dataclass(frozen=True)
class Proposal(Shown):
    """What may be declared of one column."""

    name: str
    kind: Kind | None = None
    """None: it can be no feature."""
    value: tuple[Any, ...] = ()
    """Two bounds or days, or the levels."""
    ordered: bool = False
    clamp: bool = False
    """Whether values out of bounds count as the nearest one."""
    missing: Any = None
    """What a missing value counts as; None: none was seen."""
    classes: tuple[str, ...] = ()
    """The two classes, where it can be a target of two."""
    why_not: str = ""
    """Why it can be no feature."""

    @property
    def predictable(self) -> bool:
        """Whether it can be the target: a number or two classes, and none is missing."""
        return self.missing is None and (self.kind == "bounds" or bool(self.classes))


def proposals(table: Table) -> tuple[Proposal, ...]:
    """One for each column, from all rows."""
    return tuple(_column(table[name]) for name in table.columns)


def as_declared(columns: Sequence[Proposal], target: str) -> dict[str, Any]:
    """The keys of [data] that declare these columns, of which `target` is to be predicted and the others are features."""
    said: dict[str, Any] = {"features": [one.name for one in columns if one.name != target], "target": target}
    for one in columns:
        is_target = one.name == target
        kind: Kind | None = "categories" if is_target and one.classes else one.kind
        if kind == "booleans":
            said.setdefault(kind, []).append(one.name)
        elif kind is not None:
            said.setdefault(kind, {})[one.name] = one.classes if is_target and one.classes else one.value
        if one.clamp and kind in ("bounds", "dates"):
            said.setdefault("clamp", []).append(one.name)
        if one.ordered and not is_target:
            said.setdefault("ordered", []).append(one.name)
        if one.missing is not None and not is_target:
            said.setdefault("missing", {})[one.name] = one.missing
    return said


def _column(series: nw.Series[Any]) -> Proposal:
    try:
        cells, place = distinct(series)
    except DataError as error:
        return Proposal(series.name, why_not=str(error).removeprefix(f"{series.name}: "))
    often = dict(zip(range(len(cells)), np.bincount(place, minlength=len(cells)).tolist(), strict=True))
    known: Counter[str] = Counter()
    for k, cell in enumerate(cells):
        if not absent(cell) and often[k]:
            known[str(cell).strip()] += often[k]
    some = sum(known.values()) < len(place)
    if not known:
        return Proposal(series.name, why_not="holds nothing")
    if len({reading(text) for text in known}) == 1:
        return Proposal(series.name, why_not="is the same in every row")
    values, wrong = numbers(series)
    if wrong is None and not any(re.match(r"[+-]?0\d", text) for text in known):  # as codes begin, and no numbers
        return _number(series.name, values, some)
    found, wrong = days(series)
    if wrong is None:
        first, last = (date.fromordinal(EPOCH + int(end(found))) for end in (np.nanmin, np.nanmax))
        middle = date.fromordinal(EPOCH + int(np.nanmedian(found))).isoformat()
        years = (f"{first.year:04}-01-01", f"{last.year:04}-12-31")
        return Proposal(series.name, "dates", years, clamp=True, missing=middle if some else None)
    return _text(series.name, known, some)


def _number(name: str, values: Array, some: bool) -> Proposal:
    there = values[~np.isnan(values)]
    low, high = float(there.min()), float(there.max())
    if not -LARGEST / 10 < low < high < LARGEST / 10:
        return Proposal(name, why_not="holds numbers too large to be bounded")
    count = len(there)
    if count > 2 and high - low == count - 1 and len(np.unique(there)) == count and not np.any(there % 1):
        return Proposal(name, why_not="numbers its rows")
    bounds, two = outward(low, high), sorted(set(there.tolist()))
    classes = tuple(str(reading(value)) for value in two) if len(two) == 2 and not some else ()
    middle = float(f"{np.median(there):.3g}")
    counts_as = min(max(middle, bounds[0]), bounds[1]) if some else None
    return Proposal(name, "bounds", bounds, clamp=True, missing=counts_as, classes=classes)


def outward(low: float, high: float) -> tuple[float, float]:
    """Bounds around a range, rounded outward to one digit of its length.

    >>> outward(18, 87), outward(0.021, 0.97), outward(3_211, 612_000)
    ((10.0, 90.0), (0.0, 1.0), (0.0, 700000.0))
    """
    digit = math.floor(math.log10(high - low))
    step = 10.0**digit
    ends = round(math.floor(low / step) * step, -digit), round(math.ceil(high / step) * step, -digit)
    # A range far smaller than its place has fewer digits than a number keeps.
    return min(float(ends[0]), low) + 0.0, max(float(ends[1]), high) + 0.0


def _text(name: str, known: Mapping[str, int], some: bool) -> Proposal:
    most = max(known, key=lambda level: known[level])
    two = tuple(sorted(known)) if len(known) == 2 and not some else ()
    if {TRUTHS.get(level.lower()) for level in known} == {0.0, 1.0}:
        return Proposal(name, "booleans", missing=TRUTHS[most.lower()] == 1.0 if some else None, classes=two)
    if len(known) > MOST_LEVELS:
        return Proposal(name, why_not=f"has {len(known):,} different texts: it names things, not kinds of things")
    ladder = next((one for one in _LADDERS if set(known) <= set(one) and set(one[: len(known)]) == set(known)), None)
    levels = tuple(sorted(known)) if ladder is None else ladder[: len(known)]
    rest = next((level for level in levels if level.lower() in _REST), most)
    return Proposal(
        name, "categories", levels, ladder is not None and len(known) > 2, missing=rest if some else None, classes=two
    )
