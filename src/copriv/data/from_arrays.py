"""Records that are given in Python: arrays by position, data frames by the names of their columns.

Two frames of one consortium must speak of the same columns. Names are checked, and columns put into one order: that of the
agreement's data.features where it lists them, else that of the first frame.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from copriv.data.cells import numbers
from copriv.errors import DataError
from copriv.formatting.numbers import listed
from copriv.model.records import Records


def by_owner(data: Any, names: Sequence[str]) -> list[Any]:
    """One table an owner, in the agreement's order; a mapping gives them by the owners' names."""
    if isinstance(data, Mapping):
        lacking, strange = [n for n in names if n not in data], [n for n in data if n not in names]
        if lacking or strange:
            if lacking:
                what = f"lacks {listed([*map(repr, lacking)], 8)}"
            else:
                what = f"has {listed([*map(repr, strange)], 8)}, who are not in the agreement"
            raise DataError(f"data: the mapping {what}; give one table for each owner, by its name")
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
    """Each table, under what messages call it, as records.

    parts: (X, y) or Records; X is anything that numpy reads, or a frame. features: their names, where they are agreed.
    Raises DataError where columns differ, or where only some tables have names.
    """
    columns = {name: None if isinstance(part, Records) else _columns(name, part) for name, part in parts.items()}
    named = {name: have for name, have in columns.items() if have is not None}
    if not named:
        return {name: _records(part, None) for name, part in parts.items()}
    first = next(iter(named))
    order = list(features) if features is not None and set(features) == set(named[first]) else named[first]
    for name, have in columns.items():
        if have is None:
            raise DataError(
                f"{name}: has no column names, and {first} has; give frames for all or arrays for all, so that columns can "
                "be told apart"
            )
        lacking, strange = [c for c in order if c not in have], [c for c in have if c not in order]
        if lacking or strange:
            what = f"lacks {listed([*map(repr, lacking)], 8)}" if lacking else f"has {listed([*map(repr, strange)], 8)}"
            raise DataError(
                f"{name}: {what}, other than {first}, which has {listed([*map(repr, order)], 8)}; all need the same columns"
            )
    return {name: _records(part, order) for name, part in parts.items()}


def _columns(name: str, part: Any) -> list[str] | None:
    """The columns of a frame; None for an array."""
    if not isinstance(part, tuple | list) or len(part) not in (2, 3):
        raise DataError(f"{name}: give (X, y), its features and its targets, not {_shown(part)}")
    try:
        have = nw.from_native(part[0], eager_only=True).columns
    except TypeError:
        return None
    if not all(isinstance(c, str) for c in have):
        return None  # numbered by the library, not named by anybody
    if len(set(have)) < len(have):
        twice = next(c for c in have if list(have).count(c) > 1)
        raise DataError(f"{name}: the column {twice!r} stands twice; name each column once")
    return list(have)


def _records(part: Any, order: Sequence[str] | None) -> Records:
    if isinstance(part, Records):
        return part
    X, *rest = part
    if order is None:
        return Records.of(X, *rest)
    frame = nw.from_native(X, eager_only=True)
    columns = []
    for c in order:
        cells = frame[c]
        if not (cells.dtype.is_numeric() or cells.dtype == nw.Boolean):
            raise DataError(
                f"{c}: is not a column of numbers ({cells.dtype}); encode it first, or declare the columns in the "
                "agreement's [data] and give tables as files"
            )
        columns.append(numbers(cells.cast(nw.Int8) if cells.dtype == nw.Boolean else cells)[0])
    return Records.of(np.column_stack(columns), *rest)


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return f"a {type(value).__name__}, {text if len(text) <= 40 else text[:37] + '...'}"
