"""A data set's name, and what an agreement says beside it, made into a table and its schema."""

from dataclasses import replace
from pathlib import Path

from copriv.data import datasets
from copriv.data.schema import Scaling, Schema
from copriv.data.source import Source, Wanted
from copriv.errors import DataError


def open_dataset(
    dataset: str,
    *,
    path: str | Path | None = None,
    schema: Schema | None = None,
    unit: str | None = None,
    seed: int = 0,
    rows: int = 200_000,
    scaling: Scaling | None = None,
) -> Source:
    """The table and schema behind a data set's name: `.table` and `.schema` go to `check_table` and `prepare_owner`.

    dataset, path, schema, unit, scaling: as for `load_consortium`; an owner gives the path of its own table.
    seed, rows: of a simulated table. Raises DataError where there is no such data set or file.

    >>> from copriv.data import open_dataset
    >>> source = open_dataset("lending-embedded")
    >>> set(source.schema.names) <= set(source.table.columns)
    True
    """
    kind = datasets.named(dataset)
    if schema is not None and not kind.own_columns:
        raise DataError(f'data.dataset: {dataset!r} brings its own schema; declare columns with dataset = "table"')
    source = kind.open(Wanted(None if path is None else Path(path), schema, unit, seed, rows))
    # An owner's own table must become the numbers that the public sample became, so its schema is scaled alike.
    agreed = replace(source.schema, scaling=scaling or source.schema.scaling, unit=unit or source.schema.unit)
    return replace(source, schema=agreed)
