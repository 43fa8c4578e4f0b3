"""Make owners' records and the learner's public sample of a table.

    source       a table, its schema and how its rows are dealt     open_dataset   (specification, datasets)
    encoded      rows as numbers, by what is declared               Schema.encode  (schema, columns)
    deal         which rows are public and which are whose          deal           (dealing)
    preparation  the dictionary and the bound, from public rows     Preparation    (public, dictionary)
    records      each owner's rows through the dictionary           Preparation.records

Each step is a function of the ones before it. An owner in earnest takes the first, second and last with its own table
(`prepare_owner`). A forecast takes them with public rows only (`copriv.data.public`), and never opens another table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from copriv.data import datasets
from copriv.data.cells import persons
from copriv.data.dealing import Rows, deal
from copriv.data.dictionary import PublicDictionary
from copriv.data.public import PUBLIC_ROWS, Preparation, Sample, load_sample, public_table
from copriv.data.schema import EncodedTable, OnViolation, Schema
from copriv.data.source import Source
from copriv.data.specification import DataSpecification
from copriv.data.tables import Table
from copriv.errors import DataError
from copriv.formatting.cards import Shown
from copriv.formatting.numbers import counted
from copriv.model.records import Records
from copriv.validation import count, non_negative


@dataclass(frozen=True, eq=False)
class Consortium(Shown):
    """The data of a simulation: owners' records and the public sample.

    >>> from copriv.data import load_consortium
    >>> found = load_consortium("lending-embedded", [300, 500], components=3, public_rows=200)
    >>> [owner.units for owner in found.owners], found.public.units, found.feature_names
    ([300, 500], 200, ('pc1', 'pc2', 'pc3'))
    """

    owners: tuple[Records, ...]
    """Bounded features, where `feature_bound` is given."""
    public: Records
    """The learner's own sample, made in the same way; never among the owners' records."""
    public_table: Table
    """The same rows, not encoded."""
    feature_bound: float | None
    """B: the L1 bound that was enforced on features, without the intercept; None: none was."""
    target_bound: float
    """Declared bound on |y|, in the target's unit."""
    feature_names: tuple[str, ...]
    source: Literal["real", "resampled", "simulated", "public"]
    """Simulated stays "simulated" when it is resampled as well."""
    description: str
    """One sentence: which table, how many rows, resampled or not."""
    dictionary: PublicDictionary | None
    held_out: Records | None
    """Rows that no owner holds and that are not public; None where none were asked for."""


@dataclass(frozen=True, eq=False)
class Opened:
    """A table that was read and encoded, to be divided among owners several times."""

    source: Source
    encoded: EncodedTable

    @classmethod
    def of(cls, source: Source) -> "Opened":
        """Encode what `open_dataset` opened. Raises DataError, naming column and row."""
        return cls(source, source.schema.encode(source.table))


def load_consortium(
    dataset: str | DataSpecification,
    records: Sequence[int],
    *,
    held_out: int = 0,
    opened: Opened | None = None,
    **options: Any,
) -> Consortium:
    """Owners with `records[i]` records each (persons where `unit` is given), cut from one table.

    dataset: one of `datasets.names()`, or a whole specification.
    held_out: so many private rows, or persons, are no owner's. A person who has a public row, or one held out, is left
        out of the owners' records.
    opened: the same data set at the same path, where it is at hand: it is not read again.
    A table of one's own of which there are public rows alone is simulated on these: all owners' records are drawn from them.
    options: fields of the specification (`DataSpecification`), such as `components`, `public_rows` and `unit`.

    Raises DataError, naming the column and row, or what does not fit the table.

    >>> from copriv.data import load_consortium
    >>> load_consortium("lending-embedded", [300], components=3, public_rows=200).owners[0].n_parameters
    3
    """
    if isinstance(dataset, str):
        dataset = DataSpecification(dataset)
    agreed = replace(dataset, **options)
    sizes = [count(f"records[{i}]", n) for i, n in enumerate(records)]
    count("held_out", held_out, least=0)
    if not sizes:
        raise DataError("records: a consortium needs at least one owner")
    shown = agreed.public_rows or PUBLIC_ROWS
    if agreed.public is not None:
        shown = 0
    stand_in = agreed.public is not None and agreed.path is None and datasets.named(agreed.dataset).own_columns
    if opened is None and stand_in:
        opened = Opened.of(public_table(agreed))
    elif opened is None:
        opened = Opened.of(agreed.open(shown + held_out + sum(sizes)))
    if agreed.public is None and agreed.public_rows is None and datasets.named(agreed.dataset).own_columns:
        raise DataError(
            'data.public: which rows are public? give a file of them, public = "public.csv", or say how many of the last '
            "rows of the table are: public_rows = 500"
        )
    source, encoded = opened.source, opened.encoded
    if agreed.public is None:
        dealt = deal(source, encoded.unit, sizes, shown, held_out, agreed.seed)
        sample = Sample.of(source, dealt.public, encoded.at(dealt.public), agreed)
        which = f"the last {len(dealt.public):,} public"
    else:
        sample = load_sample(agreed)
        known = None if stand_in else _known(source, sample)
        dealt = deal(source, encoded.unit, sizes, 0, held_out, agreed.seed, known)
        which = f"public are {sample.words}"
    preparation = sample.preparation
    mapped = preparation.mapped(encoded)

    def hand(rows: Rows, times: Rows | None) -> Records:
        if times is None:
            return preparation.records(mapped.at(rows))
        often = np.unique(times)  # distinct rows are weighted by how often each was drawn
        parts = [preparation.records(mapped.at(rows[times == one])) for one in often]
        return Records.concatenate(parts, often.astype(np.float64)).distinct()

    names = source.schema.feature_names
    if preparation.dictionary is not None:
        names = preparation.dictionary.names
    kind: Literal["real", "resampled", "simulated", "public"] = source.kind
    how = "in disjoint slices in the table's order, not resampled"
    if dealt.resampled:
        if kind == "real":
            kind = "resampled"
        how = f"resampled: drawn with replacement from {dealt.units:,} {source.kind} ones, seed {agreed.seed}"
    table = f"{len(source.table):,} {source.kind} rows{', shuffled once' if source.shuffled else ''}"
    what = "records" if source.schema.unit is None else "persons"
    here = ""
    if stand_in:
        kind = "public"
        here = " The owners' own tables are not here: the public rows stand in for them, as if all owners were alike."
    return Consortium(
        owners=tuple(hand(*dealt_to) for dealt_to in dealt.hands),
        public=sample.records,
        public_table=sample.table,
        feature_bound=preparation.feature_bound,
        target_bound=source.schema.target_bound,
        feature_names=names + ("intercept",) * preparation.intercept,
        source=kind,
        description=f"{source.words}: {table}, {which}; {sum(sizes):,} {what} of {counted(len(sizes), 'owner')}, {how}.{here}",
        dictionary=preparation.dictionary,
        held_out=preparation.records(mapped.at(dealt.held_out)) if held_out else None,
    )


def prepare_owner(
    table: object,
    schema: Schema,
    dictionary: PublicDictionary | None,
    feature_bound: float | None,
    *,
    records: int | None = None,
    intercept: bool = False,
    unit_records: int | None = None,
    on_violation: OnViolation = "refuse",
) -> Records:
    """An owner's own table, made into records in exactly the way that the learner's public sample was.

    table: a path or frame that keeps to `schema`; persons are the units where the schema names a unit.
    dictionary, feature_bound, intercept: as agreed and public; a bound of None or 0 bounds nothing.
    records: the n_i that was agreed; refused where the table holds another number.
    Each row is encoded and mapped from itself alone. Raises DataError.

    >>> import pandas
    >>> from copriv.data import Number, Schema, prepare_owner
    >>> schema = Schema((Number("age", 0, 100),), Number("rate", 0, 10))
    >>> table = pandas.DataFrame({"age": [20, 50], "rate": [3.0, 4.0]})
    >>> prepare_owner(table, schema, None, feature_bound=None, records=2).features.tolist()
    [[0.2], [0.5]]
    """
    if feature_bound is not None:
        non_negative("feature_bound", feature_bound)
    preparation = Preparation(dictionary, feature_bound, intercept, unit_records)
    made = preparation.records(preparation.mapped(schema.encode(table, on_violation)))
    if records is not None and made.units != records:
        what = "records" if schema.unit is None else f"different {schema.unit}"
        raise DataError(
            f"records: {records} were agreed, the table holds {made.units} {what}; the noise depends on the number: "
            "give the table that was agreed on, or correct the agreement"
        )
    return made


def _known(source: Source, sample: Sample) -> Any:
    """Mask of the rows whose person has a public row; None where no persons are named."""
    unit = source.schema.unit
    if unit is None or unit not in sample.table.columns:
        return None
    theirs = set(persons(sample.table[unit])[0])
    labels, place = persons(source.table[unit])
    return np.array([label in theirs for label in labels])[place]
