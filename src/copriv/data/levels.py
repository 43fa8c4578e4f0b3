"""Match the cells of a category with its declared levels."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from copriv.data.cells import MISSING, absent, at, distinct, reading, shortened, told
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Cells:
    """The values read from a column, and its faults."""

    values: Array
    problems: list[str]
    """One line for each kind of fault."""
    moved: int = 0
    """How many numbers were outside their bounds and counted as a bound."""


def levels_of(
    name: str, series: nw.Series[Any], codes: Mapping[str, float], missing: str | None, capitals: bool = True
) -> Cells:
    """The code of each row's level: the level with the same text, else the only one with the same reading (`cells.reading`)."""
    cells, place = distinct(series)
    alike: dict[str | None, set[float]] = {}
    for level, code in codes.items():
        alike.setdefault(reading(level), set()).add(code)
    instead = math.nan if missing is None else codes[missing]
    # What a reader of files found missing in a column that it made numbers of may have been text such as NA.
    # Polars keeps such a column as text, and one that has no type held nothing.
    nothing = series.implementation.is_polars() and series.dtype == nw.Unknown
    unclear = not (nothing or series.dtype in (nw.String, nw.Object, nw.Categorical, nw.Enum)) and any(
        level in MISSING and code != instead for level, code in codes.items()
    )
    if unclear:
        instead = math.nan
    empty = np.zeros(len(cells), dtype=bool)
    found = np.full(len(cells), math.nan)
    for k, cell in enumerate(cells):
        text = cell.strip() if isinstance(cell, str) else None
        if text is not None and not capitals:
            text = text.lower()
        if text is not None and text in codes:
            found[k] = codes[text]
        elif absent(cell):
            found[k], empty[k] = instead, True
        else:
            read = alike.get(reading(cell), set())
            found[k] = max(read) if len(read) == 1 else math.nan
    values, unknown = found[place], np.isnan(found)
    problems: list[str] = []
    if (lacking := (unknown & empty)[place]).any():
        advice = "fill it in, leave the row out, or declare the level that missing counts as"
        if unclear:
            advice = (
                "in a column of numbers, where a level's name may have been taken for missing: give the column as text"
            )
        problems.append(at(name, lacking, f"is missing; {advice}"))
    if (strange := (unknown & ~empty)[place]).any():
        cell = cells[place[int(np.argmax(strange))]]
        advice = "correct it, or declare the level"
        if reading(cell) in alike:
            advice = "several of them read so: give the column as text"
        problems.append(at(name, strange, f"is {told(cell)}, not one of {shortened(tuple(codes))}; {advice}"))
    return Cells(values, problems)
