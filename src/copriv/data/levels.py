"""What a column's cells gave, and which of its declared levels each cell of a category holds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from jaxtyping import Float

from copriv.data.cells import at, distinct_labels, shortened, told
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Cells:
    """What a column's cells gave."""

    values: Array
    problems: list[str]
    """One line for each kind of fault."""
    moved: int = 0
    """How many numbers were outside their bounds and counted as a bound."""


def _as_typed(codes: Mapping[str, float]) -> dict[str, float]:
    """Levels as they read once a file's reader took them for numbers or truth values: 01 as 1, true as True."""
    typed = [_typed(level) for level in codes]
    return {read: code for read, code in zip(typed, codes.values(), strict=True) if typed.count(read) == 1}


def _typed(level: str) -> str:
    if level.lower() in ("true", "false"):
        return level.capitalize()
    try:
        number = float(level)
    except ValueError:
        return level
    return str(int(number)) if number.is_integer() else str(number)


def levels_of(
    name: str, series: nw.Series[Any], codes: Mapping[str, float], missing: str | None, capitals: bool = True
) -> Cells:
    """One number a row, by its level."""
    labels, place = distinct_labels(series)
    written = codes if series.dtype.is_numeric() is False and series.dtype != nw.Boolean else _as_typed(codes)
    known = {**written, **codes, **({} if missing is None else {"": codes[missing]})}
    read = labels if capitals else [label.lower() for label in labels]
    values: Float[Array, " records"] = np.array([known.get(label, math.nan) for label in read])[place]
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
        problems.append(at(name, strange, f"is {told(label)}, not one of {declared}; {advice}"))
    return Cells(values, problems)
