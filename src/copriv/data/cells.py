"""What the cells of a column say, as numbers or as labels, whatever library made the table; and how a fault is told.

Rows are counted from 1 in messages, and the header of a file is not counted. A message quotes the offending value:
it is for the owner of the table, not for sending on.
"""

import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Int

from copriv.data.tables import MISSING
from copriv.formatting.sanitize import printable
from copriv.types import Array

_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)|nan", re.ASCII | re.IGNORECASE)
"""A number as data has it: Python would also take 1_000, and digits of every script."""


def told(value: object) -> str:
    """A cell, in a message: text in quotes, other things as they are written; never long, and nothing that moves a cursor."""
    return printable(repr(value) if isinstance(value, str) else str(value), 60)


def numbers(series: nw.Series[Any]) -> tuple[Array, tuple[int, object] | None]:
    """The numbers of a column, NaN where one is missing; or the first row, from 0, that holds none, and what it holds."""
    if not series.dtype.is_numeric():
        return _numbers_in_text(series)
    # Copied: some libraries hand out read-only views.
    return np.array(series.cast(nw.Float64).fill_null(math.nan).to_numpy(), dtype=np.float64), None


def _numbers_in_text(series: nw.Series[Any]) -> tuple[Array, tuple[int, object] | None]:
    """A column that is not of a numeric type: its numbers, or the first row that holds none."""
    values = np.full(len(series), math.nan)
    for row, value in enumerate(_cells(series)):
        if value is None or (isinstance(value, str) and value.strip() in MISSING):
            continue
        if isinstance(value, bool) or not isinstance(value, str | int | float | np.number):
            return values, (row, value)
        if isinstance(value, str) and not _PLAIN.fullmatch(value.strip()):
            return values, (row, value)
        try:
            values[row] = float(value)
        except ValueError:
            return values, (row, value)
    return values, None


def _cells(series: nw.Series[Any]) -> list[Any]:
    """A column's cells; days that Python has no date for (the year 0) as text."""
    try:
        return series.to_list()
    except (ValueError, OverflowError):
        return list(series.to_arrow().cast(pa.string()).to_pylist())


def days(series: nw.Series[Any]) -> tuple[Array, tuple[int, object] | None]:
    """The days of a column since 1970, NaN where one is missing; or the first row, from 0, that holds none, and what."""
    values = np.full(len(series), math.nan)
    for row, value in enumerate(_cells(series)):
        if value is None or str(value).strip() in (*MISSING, "NaT"):
            continue
        try:
            day = value if isinstance(value, date) else datetime.fromisoformat(str(value).strip())
        except ValueError:
            return values, (row, value)
        values[row] = day.toordinal() - date(1970, 1, 1).toordinal()
    return values, None


def distinct_labels(series: nw.Series[Any]) -> tuple[list[str], Int[np.ndarray, " records"]]:
    """The distinct cells of a column as text, and for each row which of them it holds."""
    try:
        cells = series.to_arrow()
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        coded = cells.dictionary_encode(null_encoding="encode")
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.combine_chunks()
        return [_label(value) for value in coded.dictionary.to_pylist()], coded.indices.to_numpy()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Columns of mixed Python objects have no arrow type, and days of the year 0 are none of Python's.
        labels = [_label(value) for value in _cells(series)]
        distinct = {label: k for k, label in enumerate(dict.fromkeys(labels))}
        return list(distinct), np.array([distinct[label] for label in labels])


def _label(value: object) -> str:
    """A cell as the text of a level: surrounding spaces do not count, whole floats read as integers."""
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    text = str(value).strip()
    return "" if text in ("<NA>", "NaT") else text


def at(name: str, rows: np.ndarray, what: str) -> str:
    """A message about the first of these rows that counts the others."""
    more = int(rows.sum()) - 1
    others = f" (and {more} more {'row' if more == 1 else 'rows'})" if more else ""
    return f"{name}, row {int(np.argmax(rows)) + 1}{others}: {what}"


def shortened(names: Sequence[str]) -> str:
    shown = ", ".join(printable(name, 60) for name in names[:12])
    return shown if len(names) <= 12 else f"{shown}, and {len(names) - 12} more"
