"""The learner's own public rows: where they come from, and the dictionary and bound that are fitted to them.

Public rows are in a file of their own (`public`). Where there is none they are the last rows of a table that anybody may
read: one inside the package, one that is drawn from a seed, or a published file that is known by its hash. No other table
is opened here, so nothing that is made from a `Sample` has touched a private record.

Each row is prepared from itself alone, through the dictionary, so simulations, owners and the learner get the same numbers
for the same row. The bound on features is a public number that some mechanisms need. It changes no record and not the
fitness; in those mechanisms a record beyond it counts for less (docs/decisions/0005-long-records-count-less.md).
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.data import datasets
from copriv.data.cells import absent
from copriv.data.dealing import Rows, public_rows_of
from copriv.data.dictionary import MEAN_SQUARE, PublicDictionary
from copriv.data.extreme_values import Tail
from copriv.data.schema import EncodedTable, Schema
from copriv.data.source import Source, is_published
from copriv.data.specification import DataSpecification
from copriv.data.tables import Table, column_names, read_table, rows_of
from copriv.errors import DataError
from copriv.formatting.sanitize import label, says_nothing
from copriv.model.records import Records
from copriv.types import Array
from copriv.validation import non_negative

PUBLIC_ROWS = 2000
"""Number of a table's last rows that are public where the agreement gives none."""


def public_bound(
    features: Float[Array, "records p"], agreed: float | Literal["auto"], longest: float = np.inf
) -> float | None:
    """Return B, the L1 bound on a record's features: as agreed, or for "auto" from the public rows; None for 0.

    longest: upper limit of "auto", where one follows from how features are made.
    "auto" is the ‖x‖₁ that one record in 10,000 is expected to exceed, by the tail fitted to the public rows. Its shape is
    taken one standard error above the estimate, since the largest of many private rows exceeds that of few public ones.
    """
    if agreed != "auto":
        return non_negative("data.feature_bound", agreed) or None
    lengths = np.abs(features).sum(axis=1)
    return min(max(Tail.of(lengths).longer().level(1e-4), float(lengths.max())), longest) or 1.0


@dataclass(frozen=True)
class Preparation:
    """The public parameters that turn encoded rows into records."""

    dictionary: PublicDictionary | None
    feature_bound: float | None
    """B; None: there is none."""
    intercept: bool = False
    unit_records: int | None = None
    """Most rows of a person that count."""

    @classmethod
    def from_public(cls, public: EncodedTable, agreed: DataSpecification) -> "Preparation":
        """Fit the dictionary, unless it is given, and the bound on features to the public rows.

        Raises DataError where the public rows are too few for the components.
        """
        dictionary, rows = agreed.dictionary, public.features
        if dictionary is None and agreed.components > 0:
            mean_square = agreed.mean_square or MEAN_SQUARE
            dictionary = PublicDictionary.fit(rows, agreed.components, mean_square=mean_square)
        if agreed.fourier_features is not None and (dictionary is None or dictionary.waves is None):
            plain = dictionary or PublicDictionary.identity(rows.shape[1])
            dictionary = plain.with_waves(rows, agreed.fourier_features, agreed.fourier_width, agreed.seed)
        made = cls(dictionary, None, agreed.intercept, agreed.unit_records)
        longest = getattr(dictionary, "longest", np.inf)
        return replace(made, feature_bound=public_bound(made.mapped(public).features, agreed.feature_bound, longest))

    @classmethod
    def declared(cls, agreed: DataSpecification) -> "Preparation":
        """Without public rows: encoded columns are the features. Raises DataError for what only public rows could say."""
        if agreed.feature_bound == "auto" or agreed.components > 0:
            raise DataError(
                "data.public_rows: 0 leaves no rows of which components, or a bound on features, could be made; set "
                "components = 0, and feature_bound to a number"
            )
        return cls(None, agreed.feature_bound or None, agreed.intercept, agreed.unit_records)

    def mapped(self, encoded: EncodedTable) -> EncodedTable:
        """Map the rows by the dictionary."""
        if self.dictionary is None:
            return encoded
        return replace(encoded, features=self.dictionary.apply(encoded.features))

    def records(self, mapped: EncodedTable) -> Records:
        """Make records of mapped rows. The rows of a person share a weight of 1."""
        made = Records.of(mapped.features, mapped.target)
        if mapped.unit is not None:
            made = Records.of_persons(mapped.features, mapped.target, mapped.unit, self.unit_records)
        if self.intercept:
            made = made.with_intercept()
        return made


@dataclass(frozen=True, eq=False)
class Sample:
    """The public rows, and the preparation that is fitted to them."""

    table: Table
    """The rows, not encoded."""
    schema: Schema
    preparation: Preparation
    records: Records
    """Prepared, as an owner's records are."""
    words: str
    """Description: which rows of which table."""
    strata: tuple[str, ...] | None = None
    """Stratum of each row, where a column gives it."""
    levels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Column → level → number of rows, for the columns of data.mix."""

    @classmethod
    def of(cls, source: Source, rows: Rows, encoded: EncodedTable, agreed: DataSpecification) -> "Sample":
        """Prepare these rows of a table. Raises DataError where they are too few for the components."""
        preparation = Preparation.from_public(encoded, agreed)
        records = preparation.records(preparation.mapped(encoded))
        which = f"all {len(rows):,} rows"
        if len(rows) < len(source.table):
            which = f"the last {len(rows):,} of {len(source.table):,} rows"
        return cls(rows_of(source.table, rows), source.schema, preparation, records, f"{which} of {source.words}")


def load_sample(
    agreed: DataSpecification, *, beside: int = 1, strata: str | None = None, mix: Collection[str] = ()
) -> Sample:
    """Read and prepare the public rows; no other row is encoded.

    beside: number of private rows that a simulated table has besides the public ones.
    strata: the column with the stratum of each public row. mix: columns whose levels are counted.
    Raises DataError as `load_consortium` does, and where public rows would have to be taken from a table that may hold
    private ones: that table is not opened.
    """
    if agreed.public is not None:
        source = public_table(agreed)
        last = agreed.public_rows or len(source.table)
    else:
        kind, path = datasets.named(agreed.dataset), agreed.file
        if path is not None and not is_published(kind, path):
            raise DataError(
                f"data.public: which rows are public? {path.name} may hold private records and was not read; give a file "
                'of public rows: public = "public.csv"'
            )
        if path is None and kind.own_columns:
            raise DataError('data.public: a table of your own needs a file of public rows; write public = "public.csv"')
        last = agreed.public_rows or PUBLIC_ROWS
        source = agreed.open(last + beside)
    contents = dict.fromkeys(mix, ("mix", "has these levels"))
    if strata is not None:
        contents[strata] = ("strata", "says whose each row is")
    for column, (key, content) in contents.items():
        if column in source.table.columns:
            continue
        if source.file is None or column not in column_names(source.file):
            raise DataError(f"data.{key}: the public table has no column {column!r}; name the one that {content}")
        source = replace(source, table=source.table.with_columns(read_table(source.file, [column])[column]))
    rows = public_rows_of(source, last)
    try:
        encoded = source.schema.encode(rows_of(source.table, rows))
    except DataError as error:
        if agreed.public is None:
            raise
        raise DataError(f"data.public: {error}") from None
    sample = Sample.of(source, rows, encoded, agreed)
    levels = {
        column: Counter("missing" if absent(cell) else label(cell) for cell in sample.table[column].to_list())
        for column in mix
    }
    if strata is not None:
        sample = replace(sample, strata=strata_of(sample.table, strata))
    return replace(sample, levels=levels)


def strata_of(source: object, column: str) -> tuple[str, ...] | None:
    """Read the stratum of each row of a public table, as text; None where the table has no such column.

    Raises DataError where a row has no stratum.
    """
    if column not in column_names(source):
        return None
    labels = read_table(source, [column])[column].to_list()
    if without := [k for k, one in enumerate(labels) if says_nothing(one)]:
        raise DataError(
            f"data.strata: public row {without[0] + 1} has no {column} ({len(without)} in all); leave such rows out"
        )
    return tuple(label(one) for one in labels)


def public_table(agreed: DataSpecification) -> Source:
    """Open the table of public rows, which need not have the column that names the person.

    Raises DataError where its columns are not known.
    """
    if isinstance(agreed.public, str | Path):
        source = replace(agreed, dataset=datasets.named(agreed.dataset).read_from, path=agreed.public).open(0)
    elif agreed.schema is None:
        raise DataError("data.public: rows of a data set with columns of its own come from a file; give its path")
    else:
        declared = replace(agreed.schema, unit=agreed.unit, scaling=agreed.scaling or agreed.schema.scaling)
        source = Source(read_table(agreed.public), declared, "public rows given as a frame")
    if source.schema.unit in source.table.columns:
        return source
    return replace(source, schema=replace(source.schema, unit=None))
