"""Make records of arrays, whose columns are told by position, and of data frames, whose columns are told by name.

All frames of one consortium must have the same columns. Names are checked, and columns are put in the order of the
agreement's data.features where it lists them, otherwise in that of the first frame.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from copriv.data.cells import numbers
from copriv.errors import DataError
from copriv.formatting.numbers import listed
from copriv.formatting.sanitize import printable
from copriv.model.records import Records
from copriv.types import Array


def by_owner(data: Any, names: Sequence[str]) -> list[Any]:
    """List the tables in the agreement's order of owners. data: a list in that order, or a mapping by the owners' names."""
    if isinstance(data, Mapping):
        if what := _difference(list(data), names):
            raise DataError(f"data: the mapping {what}; give one table for each owner of the agreement, by its name")
        return [data[name] for name in names]
    if isinstance(data, str | Records) or not isinstance(data, Iterable):
        raise DataError(
            f"data: give a list with one (X, y) for each owner, or a mapping by their names, not {_shown(data)}"
        )
    tables = list(data)
    if len(tables) != len(names):
        raise DataError(f"data: {len(tables)} tables for {len(names)} owners; give one for each")
    return tables


def as_records(parts: Mapping[str, Any], features: Sequence[str] | None) -> dict[str, Records]:
    """Convert tables to records. parts: name in messages → table.

    A table is (X, y) or Records; X is anything that numpy reads, or a frame. features: the agreed names of columns.
    Raises DataError where columns differ, or where only some tables have names.
    """
    frames = {name: None if isinstance(part, Records) else _frame(name, part) for name, part in parts.items()}
    named = {name: frame for name, frame in frames.items() if frame is not None}
    if not named:
        return {name: part if isinstance(part, Records) else Records.of(*part) for name, part in parts.items()}
    first = next(iter(named))
    order = named[first].columns
    if features is not None and set(features) == set(order):
        order = list(features)
    for name in parts:
        if name not in named:
            raise DataError(
                f"{name}: has no column names, and {first} has; give frames for all or arrays for all, so that columns can "
                "be told apart"
            )
        if what := _difference(named[name].columns, order):
            has = listed([*map(repr, order)], 8)
            raise DataError(f"{name}: {what}, other than {first}, which has {has}; all need the same columns")
    return {
        name: Records.of(np.column_stack([_column(named[name][c]) for c in order]), *part[1:])
        for name, part in parts.items()
    }


def _difference(have: Sequence[str], wanted: Sequence[str]) -> str:
    """Describe names that are missing or extra; "" where there are none."""
    lacking, strange = [repr(n) for n in wanted if n not in have], [repr(n) for n in have if n not in wanted]
    if lacking:
        return f"lacks {listed(lacking, 8)}"
    if strange:
        return f"has {listed(strange, 8)}"
    return ""


def _frame(name: str, part: Any) -> nw.DataFrame[Any] | None:
    """Return X of (X, y) as a frame; None for an array, or where the library has numbered the columns."""
    if not isinstance(part, tuple | list) or len(part) not in (2, 3):
        raise DataError(f"{name}: give (X, y), its features and its targets, not {_shown(part)}")
    try:
        frame: nw.DataFrame[Any] = nw.from_native(part[0], eager_only=True)
    except TypeError:
        return None
    have = frame.columns
    if not all(isinstance(c, str) for c in have):
        return None
    if len(set(have)) < len(have):
        twice = next(c for c in have if have.count(c) > 1)
        raise DataError(f"{name}: the column {twice!r} stands twice; name each column once")
    return frame


def _column(cells: nw.Series[Any]) -> Array:
    if not (cells.dtype.is_numeric() or cells.dtype == nw.Boolean):
        raise DataError(
            f"{cells.name}: is not a column of numbers ({cells.dtype}); encode it first, or declare the columns in the "
            "agreement's [data] and give tables as files"
        )
    if cells.dtype == nw.Boolean:
        cells = cells.cast(nw.Int8)
    return numbers(cells)[0]


def _shown(value: Any) -> str:
    return f"a {type(value).__name__}, {printable(' '.join(repr(value).split()), 40)}"
