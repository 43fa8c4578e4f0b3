"""The learner's own public rows: their source, and the dictionary and bound that are fitted to them.

Public rows are in a file of their own (`public`). Where there is none they are the last rows of a table that anybody may
read: one inside the package, one that is drawn from a seed, or a published file that is known by its hash. No other table
is opened here, so nothing that is made from a `Sample` has touched a private record.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from copriv.data import datasets
from copriv.data.dealing import Rows, public_rows_of
from copriv.data.preparation import Preparation
from copriv.data.schema import EncodedTable, Schema
from copriv.data.source import DataSet, Source, is_published
from copriv.data.specification import DataSpecification, open_dataset
from copriv.data.tables import Table, column_names, read_table
from copriv.errors import DataError
from copriv.formatting.sanitize import label
from copriv.model.records import Records

PUBLIC_ROWS = 2000
"""How many of a table's last rows are public where nobody says."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The public rows, and the preparation that is fitted to them."""

    table: Table
    """The rows, not encoded."""
    schema: Schema
    preparation: Preparation
    """The dictionary and the bound on features."""
    records: Records
    """Prepared, as an owner's records are."""
    words: str
    """Which rows of which table."""
    strata: tuple[str, ...] | None = None
    """Whose each row is, where a column says it."""


def load_sample(agreed: DataSpecification, *, beside: int = 1, strata: str | None = None) -> Sample:
    """Read and prepare the public rows; no other row is encoded.

    beside: how many private rows a simulated table has besides.
    strata: the column that says whose each public row is.
    Raises DataError as `load_consortium` does, and where public rows would have to be taken from a table that may hold
    private ones: that table is not opened.
    """
    kind, public, path = datasets.named(agreed.dataset), agreed.public, agreed.path
    if public is None and path is not None and not is_published(kind, Path(path)):
        raise DataError(
            f"data.public: which rows are public? {Path(path).name} may hold private records and was not read; give a file "
            'of public rows: public = "public.csv"'
        )
    if public is None and path is None and kind.own_columns:
        raise DataError('data.public: a table of your own needs a file of public rows; write public = "public.csv"')
    if public is None:
        last = agreed.public_rows or PUBLIC_ROWS
        source = agreed.open(last + beside)
    else:
        source = _public_table(kind, agreed)
        last = agreed.public_rows or len(source.table)
    if strata is not None:
        source = _with_strata(source, strata)
    at = public_rows_of(source, last)
    try:
        encoded = source.schema.encode(source.table[at.tolist()])
    except DataError as error:
        raise DataError(f"data.public: {error}" if public is not None else str(error)) from None
    made = sample_of(source, at, encoded, agreed)
    return made if strata is None else replace(made, strata=_labels(made.table, strata))


def _with_strata(source: Source, column: str) -> Source:
    """Add the column of strata to the table, which has the schema's columns only."""
    if column in source.table.columns:
        return source
    if source.file is None or column not in column_names(source.file):
        raise DataError(
            f"data.strata: the public table has no column {column!r}; name the one that says whose each row is"
        )
    return replace(source, table=source.table.with_columns(read_table(source.file, [column])[column]))


def strata_of(source: object, column: str) -> tuple[str, ...] | None:
    """The stratum of each row of a public table, as text; None where the table has no such column.

    Raises DataError where a row has none.
    """
    return _labels(read_table(source, [column]), column) if column in column_names(source) else None


def _labels(table: Table, column: str) -> tuple[str, ...]:
    """The stratum of each row, as text. Raises DataError where a row has none."""
    labels = table[column].to_list()
    silent = [k for k, one in enumerate(labels) if one is None or one != one or one == ""]
    if silent:
        raise DataError(
            f"data.strata: public row {silent[0] + 1} has no {column} ({len(silent)} in all); leave such rows out"
        )
    return tuple(label(one) for one in labels)


def _public_table(kind: DataSet, agreed: DataSpecification) -> Source:
    """Open a table of public rows, which need not have the column that names the person."""
    public, schema, unit, scaling = agreed.public, agreed.schema, agreed.unit, agreed.scaling
    if isinstance(public, str | Path):
        source = open_dataset(kind.read_from, path=public, schema=schema, unit=unit, scaling=scaling)
    elif schema is None:
        raise DataError("data.public: rows of a data set with columns of its own come from a file; give its path")
    else:
        declared = replace(schema, unit=unit, scaling=scaling or schema.scaling)
        source = Source(read_table(public), declared, "public rows given as a frame")
    if source.schema.unit in source.table.columns:
        return source
    return replace(source, schema=replace(source.schema, unit=None))


def sample_of(source: Source, rows: Rows, encoded: EncodedTable, agreed: DataSpecification) -> Sample:
    """The public sample made of these rows of a table. Raises DataError where they are too few for the components."""
    preparation = Preparation.from_public(encoded, agreed)
    records = preparation.records(preparation.mapped(encoded))
    whole = len(source.table)
    which = f"all {whole:,} rows" if len(rows) == whole else f"the last {len(rows):,} of {whole:,} rows"
    words = f"{which} of {source.words}"
    return Sample(source.table[rows.tolist()], source.schema, preparation, records, words)
