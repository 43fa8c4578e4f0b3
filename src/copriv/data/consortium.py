"""The one way for data: a table becomes owners' records and the learner's public sample.

    source       a table, its schema and how its rows are dealt     open_dataset   (datasets)
    encoded      rows as numbers, by what is declared               Schema.encode  (schema, columns)
    deal         which rows are public and which are whose          deal           (dealing)
    preparation  the dictionary and the bound, from public rows     Preparation    (preparation, dictionary)
    records      each owner's rows, mapped and bounded              Preparation.records

Each step is a function of the ones before it. An owner in earnest takes the first, second and last with its own table
(`prepare_owner`), and a forecast takes them with the public rows only (`load_sample`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from copriv.data import datasets
from copriv.data.dealing import Deal, Hand, deal, public_rows_of
from copriv.data.dictionary import PublicDictionary
from copriv.data.preparation import Preparation
from copriv.data.schema import EncodedTable, OnViolation, Scaling, Schema
from copriv.data.source import Source, Wanted
from copriv.data.tables import Table, read_table
from copriv.errors import DataError
from copriv.records import Records
from copriv.validation import count, non_negative


@dataclass(frozen=True, eq=False)
class Consortium:
    """Everything that a simulation or a forecast needs to know about the data."""

    owners: tuple[Records, ...]
    """Bounded features, where `feature_bound` is given."""
    public: Records
    """The learner's own sample, bounded in the same way; never among the owners' records."""
    public_table: Table
    """The same rows as they stand in the table."""
    feature_bound: float | None
    """B: the L1 bound that was enforced on features, without the intercept; None: none was."""
    target_bound: float
    """Declared bound on |y|, in the target's unit."""
    feature_names: tuple[str, ...]
    source: Literal["real", "resampled", "simulated"]
    """Simulated stays "simulated" when it is resampled as well."""
    description: str
    """One sentence: which table, how many rows, resampled or not."""
    dictionary: PublicDictionary | None
    held_out: Records | None
    """Rows that no owner holds and that are not public; None where none were asked for."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The learner's own rows of a table, and what they decide for everybody."""

    table: Table
    """As they stand in the table."""
    schema: Schema
    preparation: Preparation
    records: Records
    """Bounded as agreed."""


def load_consortium(
    dataset: str,
    records: Sequence[int],
    *,
    components: int = 10,
    feature_bound: float | Literal["auto"] = "auto",
    public_rows: int = 2000,
    seed: int = 0,
    path: str | Path | None = None,
    intercept: bool = False,
    unit: str | None = None,
    unit_records: int | None = None,
    held_out: int = 0,
    schema: Schema | None = None,
    dictionary: PublicDictionary | None = None,
    scaling: Scaling | None = None,
) -> Consortium:
    """Owners with `records[i]` records each (persons where `unit` is given), cut from one table.

    dataset: one of `datasets.names()`; "table" needs `path` and `schema`.
    components: features of the public dictionary; 0: none, the encoded columns themselves.
    feature_bound: B, the L1 bound on a record's features; "auto": from the public rows; 0: none.
    public_rows: how many rows are the learner's own.
    seed: of the draws with replacement, and of simulated tables; nothing else depends on it.
    intercept: append a feature that is always 1, after bounding.
    unit, unit_records: the column that names the person, and how many rows of a person count at most. A person who has
        a public row, or one held out, is left out of the owners' records.
    scaling: of the encoded columns; None: the data set's own ("none" for lending and hospitals, as in the papers).
    dictionary: use this one instead of fitting one on the public rows; `components` is then ignored.

    Raises DataError, naming the column and row, or what does not fit the table.
    """
    sizes = _checked(records, components, public_rows, held_out, unit_records)
    rows = public_rows + held_out + sum(sizes)
    source = open_dataset(dataset, path=path, schema=schema, unit=unit, seed=seed, rows=rows, scaling=scaling)
    encoded = source.schema.encode(source.table)
    dealt = deal(source, encoded.unit, sizes, public_rows, held_out, seed)
    preparation = Preparation.from_public(
        encoded.at(dealt.public), components, feature_bound, dictionary, intercept, unit_records
    )
    mapped = preparation.mapped(encoded)
    return Consortium(
        owners=tuple(_hand(preparation, mapped, hand) for hand in dealt.hands),
        public=preparation.records(mapped.at(dealt.public)),
        public_table=source.table[dealt.public.tolist()],
        feature_bound=preparation.feature_bound,
        target_bound=source.schema.target_bound,
        feature_names=_names(source.schema, preparation),
        source="simulated" if source.kind == "simulated" else "resampled" if dealt.resampled else "real",
        description=_description(source, dealt, sizes, public_rows, seed),
        dictionary=preparation.dictionary,
        held_out=preparation.records(mapped.at(dealt.held_out)) if held_out else None,
    )


def load_sample(
    dataset: str,
    *,
    components: int = 10,
    feature_bound: float | Literal["auto"] = "auto",
    public_rows: int = 2000,
    seed: int = 0,
    path: str | Path | None = None,
    unit: str | None = None,
    unit_records: int | None = None,
    schema: Schema | None = None,
    dictionary: PublicDictionary | None = None,
    scaling: Scaling | None = None,
    beside: int = 1,
) -> Sample:
    """The public rows of `load_consortium` alone, and what follows from them: no other row is encoded.

    beside: how many private rows a simulated table has besides. Raises DataError as `load_consortium` does.
    """
    _checked([beside], components, public_rows, 0, unit_records)
    rows = public_rows + beside
    source = open_dataset(dataset, path=path, schema=schema, unit=unit, seed=seed, rows=rows, scaling=scaling)
    table = source.table[public_rows_of(source, public_rows).tolist()]
    return sample_of(table, source.schema, components, feature_bound, dictionary, unit_records)


def sample_of(
    table: object,
    schema: Schema,
    components: int,
    feature_bound: float | Literal["auto"],
    dictionary: PublicDictionary | None = None,
    unit_records: int | None = None,
) -> Sample:
    """A table of public rows and what follows from them. Raises DataError, naming column and row."""
    rows = read_table(table, schema.names)
    encoded = schema.encode(rows)
    preparation = Preparation.from_public(encoded, components, feature_bound, dictionary, unit_records=unit_records)
    return Sample(rows, schema, preparation, preparation.records(preparation.mapped(encoded)))


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
    Each row is encoded, mapped and bounded from itself alone. Raises DataError.
    """
    bound = None if feature_bound is None else non_negative("feature_bound", feature_bound) or None
    preparation = Preparation(dictionary, bound, intercept, unit_records)
    made = preparation.records(preparation.mapped(schema.encode(table, on_violation)))
    if records is not None and made.units != records:
        what = "records" if schema.unit is None else f"different {schema.unit}"
        raise DataError(
            f"records: {records} were agreed, the table holds {made.units} {what}; the noise depends on the number: "
            "give the table that was agreed on, or correct the agreement"
        )
    return made


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
    """
    kind = datasets.named(dataset)
    if schema is not None and not kind.own_columns:
        raise DataError(f'data.dataset: {dataset!r} brings its own schema; declare columns with dataset = "table"')
    source = kind.open(Wanted(None if path is None else Path(path), schema, unit, seed, rows))
    # An owner's own table must become the numbers that the public sample became, so its schema is scaled alike.
    agreed = replace(source.schema, scaling=scaling or source.schema.scaling, unit=unit or source.schema.unit)
    return replace(source, schema=agreed)


def _checked(
    records: Sequence[int], components: int, public_rows: int, held_out: int, unit_records: int | None
) -> list[int]:
    sizes = [count(f"records[{i}]", n) for i, n in enumerate(records)]
    count("data.components", components, least=0)
    count("data.public_rows", public_rows)
    count("held_out", held_out, least=0)
    if unit_records is not None:
        count("unit_records", unit_records)
    if not sizes:
        raise DataError("records: a consortium needs at least one owner")
    return sizes


def _hand(preparation: Preparation, mapped: EncodedTable, hand: Hand) -> Records:
    """An owner's records; distinct rows are weighted by how often each was drawn."""
    if hand.times is None:
        return preparation.records(mapped.at(hand.rows))
    often = np.unique(hand.times)
    parts = [preparation.records(mapped.at(hand.rows[hand.times == times])) for times in often]
    return Records.concatenate(parts, often.astype(np.float64)).distinct()


def _names(schema: Schema, preparation: Preparation) -> tuple[str, ...]:
    names = schema.feature_names if preparation.dictionary is None else preparation.dictionary.names
    return (*names, "intercept") if preparation.intercept else names


def _description(source: Source, dealt: Deal, sizes: Sequence[int], public_rows: int, seed: int) -> str:
    what = "records" if source.schema.unit is None else "persons"
    owners = f"{len(sizes)} {'owner' if len(sizes) == 1 else 'owners'}"
    if dealt.resampled:
        how = f"resampled: drawn with replacement from {dealt.units:,} {source.kind} ones, seed {seed}"
    else:
        how = "in disjoint slices, not resampled"
    rows = f"{len(source.table):,} {source.kind} rows{', shuffled once' if source.shuffled else ''}"
    return f"{source.title}: {rows}, the last {public_rows:,} public; {sum(sizes):,} {what} of {owners}, {how}."
