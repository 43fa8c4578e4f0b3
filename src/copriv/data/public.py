"""The learner's own rows: where they come from, and what they decide for everybody.

Public rows are in a file of their own (`public`). Where there is none they are the last rows of a table that anybody may
read: one inside the package, one that is drawn from a seed, or a published file that is known by its hash. No other table
is opened here, so nothing that is made from a `Sample` has touched a private record.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from copriv.data import datasets
from copriv.data.dealing import Rows, public_rows_of
from copriv.data.dictionary import PublicDictionary
from copriv.data.opening import open_dataset
from copriv.data.preparation import Preparation
from copriv.data.schema import EncodedTable, Scaling, Schema
from copriv.data.source import DataSet, Source, is_published
from copriv.data.tables import Table, column_names, read_table
from copriv.errors import DataError
from copriv.formatting.sanitize import label
from copriv.model.records import Records
from copriv.validation import count

PUBLIC_ROWS = 2000
"""How many of a table's last rows are public where nobody says."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The learner's own rows, and what they decide."""

    table: Table
    """As they stand in the file."""
    schema: Schema
    preparation: Preparation
    """The dictionary and the bound on features."""
    records: Records
    """Prepared, as an owner's records are."""
    words: str
    """Which rows of which table."""
    strata: tuple[str, ...] | None = None
    """Whose each row is, where a column says it."""


def load_sample(
    dataset: str,
    components: int = 10,
    feature_bound: float | Literal["auto"] = "auto",
    dictionary: PublicDictionary | None = None,
    intercept: bool = False,
    unit_records: int | None = None,
    *,
    public: object = None,
    public_rows: int | None = None,
    seed: int = 0,
    path: str | Path | None = None,
    unit: str | None = None,
    schema: Schema | None = None,
    scaling: Scaling | None = None,
    fourier_features: int | None = None,
    fourier_width: float | Literal["auto"] = "auto",
    mean_square: float | None = None,
    beside: int = 1,
    strata: str | None = None,
) -> Sample:
    """The public rows of `load_consortium`, which says what the arguments mean; no other row is encoded.

    public: a file's path, or a frame where the columns are declared.
    beside: how many private rows a simulated table has besides.
    strata: the column that says whose each public row is.
    Raises DataError as `load_consortium` does, and where public rows would have to be taken from a table that may hold
    private ones: that table is not opened.
    """
    kind = datasets.named(dataset)
    if public is None and path is not None and not is_published(kind, Path(path)):
        raise DataError(
            f"data.public: which rows are public? {Path(path).name} may hold private records and was not read; give a file "
            'of public rows: public = "public.csv"'
        )
    if public is None and path is None and kind.own_columns:
        raise DataError('data.public: a table of your own needs a file of public rows; write public = "public.csv"')
    last = PUBLIC_ROWS if public_rows is None else count("data.public_rows", public_rows)
    if public is None:
        rows = last + beside
        source = open_dataset(dataset, path=path, schema=schema, unit=unit, seed=seed, rows=rows, scaling=scaling)
    else:
        source = _public_table(kind, public, schema, unit, scaling)
        last = public_rows or len(source.table)
    if strata is not None:
        source = _with_strata(source, strata)
    at = public_rows_of(source, last)
    try:
        encoded = source.schema.encode(source.table[at.tolist()])
    except DataError as error:
        raise DataError(f"data.public: {error}" if public is not None else str(error)) from None
    waves = (fourier_features, fourier_width, seed)
    made = sample_of(
        source, at, encoded, components, feature_bound, dictionary, intercept, unit_records, waves, mean_square
    )
    return made if strata is None else replace(made, strata=_labels(made.table, strata))


def _with_strata(source: Source, column: str) -> Source:
    """The table with the column that says whose each row is, which the schema need not have."""
    if column in source.table.columns:
        return source
    if source.file is None or column not in column_names(source.file):
        raise DataError(
            f"data.strata: the public table has no column {column!r}; name the one that says whose each row is"
        )
    return replace(source, table=source.table.with_columns(read_table(source.file, [column])[column]))


def strata_of(source: object, column: str) -> tuple[str, ...] | None:
    """Whose each row of a public table is, as text; None where the table does not have the column.

    Raises DataError where a row does not say.
    """
    return _labels(read_table(source, [column]), column) if column in column_names(source) else None


def _labels(table: Table, column: str) -> tuple[str, ...]:
    """Whose each row is, as text. Raises DataError where a row does not say."""
    labels = table[column].to_list()
    silent = [k for k, one in enumerate(labels) if one is None or one != one or one == ""]
    if silent:
        raise DataError(
            f"data.strata: public row {silent[0] + 1} has no {column} ({len(silent)} in all); leave such rows out"
        )
    return tuple(label(one) for one in labels)


def _public_table(
    kind: DataSet, public: object, schema: Schema | None, unit: str | None, scaling: Scaling | None
) -> Source:
    """A table of public rows; it need not say whose a row is."""
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


def sample_of(
    source: Source,
    rows: Rows,
    encoded: EncodedTable,
    components: int,
    feature_bound: float | Literal["auto"],
    dictionary: PublicDictionary | None = None,
    intercept: bool = False,
    unit_records: int | None = None,
    waves: tuple[int | None, float | Literal["auto"], int] = (None, "auto", 0),
    mean_square: float | None = None,
) -> Sample:
    """What these rows of a table, encoded, decide; `waves` as `Preparation.from_public` takes them.

    Raises DataError where they are too few for the components.
    """
    count("data.components", components, least=0)
    if unit_records is not None:
        count("unit_records", unit_records)
    preparation = Preparation.from_public(
        encoded, components, feature_bound, dictionary, intercept, unit_records, *waves, mean_square
    )
    records = preparation.records(preparation.mapped(encoded))
    whole = len(source.table)
    which = f"all {whole:,} rows" if len(rows) == whole else f"the last {len(rows):,} of {whole:,} rows"
    words = f"{which} of {source.words}"
    return Sample(source.table[rows.tolist()], source.schema, preparation, records, words)
