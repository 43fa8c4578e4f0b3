"""Read the cells of a column as numbers, days, levels or labels, whatever library made the table; and describe the faults.

A cell's value depends on that cell alone. The type of its column does not: it depends on the other rows, in files whose types
a reader infers and in frames alike. One missing value turns integers into floats, and one word turns numbers into text. So
1, 1.0 and the text 01 are read as equal, a time with a zone counts by its day in UTC whatever the zone of its column, and a
value that a library's conversion made ambiguous is refused.

Rows are counted from 1 in messages, and the header of a file is not counted. A message quotes the offending value:
it is for the owner of the table, not for sending on.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from copriv.errors import DataError
from copriv.formatting.numbers import counted
from copriv.formatting.sanitize import printable
from copriv.types import Array

MISSING = frozenset(("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>", "NaT"))
"""Texts that stand for a missing value; where a category has a level of this name, they are that level."""
_TEXTS = sorted(MISSING)
_ENDS: Array = np.cumsum([0, *map(len, _TEXTS)], dtype=np.int32)
# Made of its buffers: `pa.array`, or a number of Python's, would import pandas, which takes half a second and 40 MB.
_MISSING = pa.Array.from_buffers(
    pa.string(), len(_TEXTS), [None, pa.py_buffer(_ENDS), pa.py_buffer("".join(_TEXTS).encode())]
)
"""The same for arrow."""
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)|nan", re.ASCII | re.IGNORECASE)
"""A number as written in data files: Python would also take 1_000, and digits of every script."""
_WHOLE = re.compile(r"([+-]?)0*(\d+)(\.0*)?", re.ASCII)
EPOCH = date(1970, 1, 1).toordinal()

Wrong: TypeAlias = tuple[int, object]
"""The first row, from 0, that cannot be read, and what it holds."""


@dataclass(frozen=True)
class Fault:
    """A kind of fault of a column: its first row, and how many rows have it. Its text names the first and counts the others."""

    name: str
    kind: str
    what: str
    row: int = 0
    """The first row, from 1; 0: the fault is the whole column's."""
    rows: int = 0
    """Number of rows that have it; 0: they are not counted."""

    @classmethod
    def of(cls, name: str, kind: str, rows: np.ndarray, what: str) -> "Fault":
        """Make the fault of the rows in this mask."""
        return cls(name, kind, what, int(np.argmax(rows)) + 1, int(rows.sum()))

    def __str__(self) -> str:
        where = self.name
        if self.row:
            where += f", row {self.row}"
        if self.rows > 1:
            where += f" (and {counted(self.rows - 1, 'more row')})"
        return f"{where}: {self.what}"


def joined(faults: Iterable[tuple[int, Fault]]) -> list[Fault]:
    """Join the faults of a table's pieces, those of a kind into one. Each comes with the number of rows before its piece."""
    found: dict[tuple[str, str], Fault] = {}
    for before, one in faults:
        first = found.setdefault((one.name, one.kind), replace(one, row=one.row + before * (one.row > 0), rows=0))
        found[one.name, one.kind] = replace(first, rows=first.rows + one.rows)
    return list(found.values())


@dataclass(frozen=True, eq=False)
class Cells:
    """The values read from a column, and its faults."""

    values: Array
    problems: list[Fault]
    """One for each kind of fault."""
    moved: int = 0
    """Number of values outside the bounds that count as a bound."""


def quoted(value: object) -> str:
    """Format a cell for a message: text in quotes, at most 60 characters, without control characters."""
    return printable(repr(value) if isinstance(value, str) else str(value), 60)


def absent(value: object) -> bool:
    """Whether a cell is missing: empty, NaN, or one of the texts in `MISSING`."""
    return value is None or str(value).strip() in MISSING


def distinct(series: nw.Series[Any]) -> tuple[list[Any], Int[np.ndarray, " records"]]:
    """Return the distinct cells of a column (some may repeat), and for each row the index of its cell.

    Raises DataError for a time that Python cannot represent.
    """
    # Arrow converts objects of several types to one type; a categorical column of pandas may hold such objects too.
    if not _of_objects(series) and not (
        series.dtype in (nw.Categorical, nw.Enum) and series.implementation.is_pandas_like()
    ):
        # Types that arrow does not have, and days of the year 0, which Python does not have.
        with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            cells = series.to_arrow()
            if pa.types.is_dictionary(cells.type):
                cells = cells.cast(cells.type.value_type)
            coded = cells.dictionary_encode(null_encoding="encode")
            if isinstance(coded, pa.ChunkedArray):
                coded = coded.combine_chunks()
            return coded.dictionary.to_pylist(), _values(coded.indices)
    try:
        return series.to_list(), np.arange(len(series))
    except (ValueError, OverflowError):
        raise DataError(
            f"{series.name}: holds a time outside the years 1 to 9999; correct it, or leave the row out"
        ) from None


def _values(cells: pa.Array) -> np.ndarray:
    """Return an arrow array without missing values as numpy. `to_numpy` would import pandas, which takes half a second."""
    kind = cells.type.to_pandas_dtype()
    if len(cells) == 0:
        return np.empty(0, kind)
    every: np.ndarray = np.frombuffer(cells.buffers()[1], dtype=kind)
    return every[cells.offset : cells.offset + len(cells)]


def _floats(cells: pa.Array) -> Array:
    """Return an arrow array of float64 numbers as numpy, NaN where missing, and 0 for −0."""
    found: Array = _values(cells) + 0.0
    if cells.null_count:
        found[_values(pc.is_null(cells).cast(pa.uint8())) > 0] = math.nan
    return found


def _of_objects(series: nw.Series[Any]) -> bool:
    """Whether a column holds objects other than text and missing values, which arrow would convert to one type, or crash on.

    For a column of pandas objects narwhals looks at the first hundred only, even where these are missing.
    """
    if series.dtype != nw.String or str(getattr(series.to_native(), "dtype", "")) != "object":
        return series.dtype == nw.Object
    return not all(
        isinstance(cell, str | None) or (type(cell) is float and math.isnan(cell)) for cell in series.to_list()
    )


def numbers(series: nw.Series[Any]) -> tuple[Array, Wrong | None]:
    """Return the numbers of a column, NaN where missing, and the first row that is not a number, or None."""
    if series.dtype.is_numeric() and series.dtype != nw.Decimal:
        # Adding 0 makes a copy, since some libraries return read-only views, and turns −0 into 0, as integers have it.
        # Arrow refuses to convert integers beyond 2⁵³ to floats.
        with suppress(pa.ArrowException):
            found = series.cast(nw.Float64)
            if found.implementation.is_pyarrow():
                return _floats(found.to_native().combine_chunks()), None
            return np.asarray(found.fill_null(math.nan).to_numpy(), dtype=np.float64) + 0.0, None
    if series.dtype == nw.String and not _of_objects(series):
        with suppress(pa.ArrowException, UnicodeEncodeError):  # the latter: half a character
            text = series.to_arrow()
            for with_others in (False, True):
                with suppress(pa.ArrowException):
                    values = _of_texts(text, with_others)
                    # Arrow reads more texts as NaN than `_PLAIN` allows.
                    if not pc.any(pc.is_nan(values)).as_py():
                        return _floats(values), None
    return _cell_by_cell(series, _number)


def _of_texts(text: pa.Array, with_others: bool) -> pa.Array:
    """Return the numbers that texts are. with_others: also where some are missing or have spaces around, which takes longer."""
    if with_others:
        text = pc.utf8_trim_whitespace(text)
        text = pc.if_else(pc.is_in(text, value_set=_MISSING.cast(text.type)), pa.NA, text)
    return text.cast(pa.float64())


def _number(value: Any) -> float:
    """Convert one cell. Raises ValueError, TypeError or OverflowError where it is not a number."""
    if isinstance(value, str) and _PLAIN.fullmatch(value.strip()) is None:
        raise ValueError
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal | np.number):
        raise TypeError
    return float(value) + 0.0


def _cell_by_cell(series: nw.Series[Any], read: Any) -> tuple[Array, Wrong | None]:
    """Read a column cell by cell."""
    cells, place = distinct(series)
    values, wrong = np.full(len(cells), math.nan), np.zeros(len(cells), dtype=bool)
    for k, cell in enumerate(cells):
        if not absent(cell):
            try:
                values[k] = read(cell)
            except (TypeError, ValueError, OverflowError, NotImplementedError):  # the last: days of pandas after 9999
                wrong[k] = True
    rows = np.flatnonzero(wrong[place])
    if not len(rows):
        return values[place], None
    return values[place], (int(rows[0]), cells[place[rows[0]]])


def days(series: nw.Series[Any]) -> tuple[Array, Wrong | None]:
    """Return days since 1970-01-01, NaN where missing, and the first row that is not a day, or None.

    A time with a zone counts by its day in UTC, one without by its own day.
    """
    if series.dtype not in (nw.Date, nw.Datetime):
        return _cell_by_cell(series, day_of)
    cells = series.to_arrow()
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    unit, integer = 1, pa.int32()
    if pa.types.is_timestamp(cells.type):
        unit, integer = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[cells.type.unit], pa.int64()
    found: Int[np.ndarray, " records"] = cells.cast(integer).fill_null(0).to_numpy() // unit
    strange = (found < date.min.toordinal() - EPOCH) | (found > date.max.toordinal() - EPOCH)
    values = np.where(cells.is_null(), math.nan, found)
    if strange.any():
        row = int(np.argmax(strange))
        return values, (row, f"the day {found[row]} from 1970")
    return values, None


def day_of(value: Any) -> float:
    """Convert one cell to days since 1970-01-01. Raises ValueError or OverflowError where it is not a day."""
    if not isinstance(value, date | str):
        value = reading(value) or value
    if not isinstance(value, date):
        value = datetime.fromisoformat(str(value).strip())
    if isinstance(value, datetime) and value.utcoffset() is not None:
        value = value.astimezone(UTC)
    return float(value.toordinal() - EPOCH)


def reading(value: object) -> str | None:
    """Read a cell as a label, whatever the type of its column: true, 01 and 1.0 are all "1". None for cells of other kinds.

    None also for floats of 2⁵³ or more, which several integers round to.
    """
    if isinstance(value, float | np.floating):
        value = float(value)
        if not abs(value) < 2**53:
            return None
    if not isinstance(value, str | int | float | Decimal | np.integer | np.bool_):
        return None
    text = str(value).strip()
    text = {"true": "1", "false": "0"}.get(text.lower(), text)
    if whole := _WHOLE.fullmatch(text):
        return f"-{whole[2]}" if whole[1] == "-" and whole[2] != "0" else whole[2]
    if _PLAIN.fullmatch(text):
        number = float(text)
        if number.is_integer():
            return str(int(number))
        return repr(number)
    return text


def persons(series: nw.Series[Any]) -> tuple[list[str | None], Int[np.ndarray, " records"]]:
    """Return the labels of persons in a column (None: missing), and for each row the index of its label."""
    cells, place = distinct(series)
    return [None if absent(cell) else reading(cell) for cell in cells], place


def levels_of(
    name: str,
    series: nw.Series[Any],
    codes: Mapping[str, float],
    missing: str | None,
    spelling: Callable[[str], str] = str,
) -> Cells:
    """Return the code of each row's level: the level with the same text, else the only one that `reading` makes equal.

    missing: the level that a missing value counts as; None: it is refused. spelling: applied to texts before they are compared.
    """
    cells, place = distinct(series)
    alike: dict[str | None, set[float]] = {}
    for level, code in codes.items():
        alike.setdefault(reading(level), set()).add(code)
    instead = math.nan if missing is None else codes[missing]
    # Where a reader of files converted a column to numbers, a missing value may have been a level's text, such as NA.
    # Polars keeps such a column as text; a column without a type is empty.
    empty_column = series.implementation.is_polars() and series.dtype == nw.Unknown
    ambiguous = not (empty_column or series.dtype in (nw.String, nw.Object, nw.Categorical, nw.Enum)) and any(
        level in MISSING and code != instead for level, code in codes.items()
    )
    if ambiguous:
        instead = math.nan
    found, empty = np.full(len(cells), math.nan), np.zeros(len(cells), dtype=bool)
    for k, cell in enumerate(cells):
        text = spelling(cell.strip()) if isinstance(cell, str) else None
        if text is not None and text in codes:
            found[k] = codes[text]
        elif absent(cell):
            found[k], empty[k] = instead, True
        elif len(read := alike.get(reading(cell), set())) == 1:
            (found[k],) = read
    unknown = np.isnan(found)
    problems: list[Fault] = []
    if (lacking := (unknown & empty)[place]).any():
        advice = "fill it in, leave the row out, or declare the level that missing counts as: data.missing"
        if ambiguous:
            advice = (
                "in a column of numbers, where a level's name may have been taken for missing: give the column as text"
            )
        problems.append(Fault.of(name, "missing", lacking, f"is missing; {advice}"))
    if (strange := (unknown & ~empty)[place]).any():
        cell = cells[place[int(np.argmax(strange))]]
        advice = "correct it, or declare the level: data.categories"
        if reading(cell) in alike:
            advice = "several of them read so: give the column as text"
        found_is = f"is {quoted(cell)}, not one of {shortened(tuple(codes))}; {advice}"
        problems.append(Fault.of(name, "level", strange, found_is))
    return Cells(found[place], problems)


def shortened(names: Sequence[str]) -> str:
    """List the first twelve names, and count the others."""
    shown = [printable(name, 60) for name in names[:12]]
    if len(names) > 12:
        shown.append(f"and {len(names) - 12} more")
    return ", ".join(shown)
