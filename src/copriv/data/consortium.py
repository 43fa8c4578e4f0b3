"""Make owners' records and the learner's public sample of a table; or owners' records of arrays and frames at hand.

    source       a table, its schema and how its rows are dealt     open_dataset   (specification, datasets)
    encoded      rows as numbers, by what is declared               Schema.encode  (schema, columns)
    deal         which rows are public and which are whose          deal           (dealing)
    preparation  the dictionary and the bound, from public rows     Preparation    (public, dictionary)
    records      each owner's rows through the dictionary           Preparation.records

Each step is a function of the ones before it. An owner applies the first, second and last to its own table
(`prepare_owner`). A forecast applies them to public rows only (`copriv.data.public`), and never opens another table.

Columns of arrays are told by position, those of frames by name (`as_records`): all frames of one consortium must have the same
columns, which are put in the order of the agreement's data.features where it lists them, otherwise in that of the first frame.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from copriv.data import datasets
from copriv.data.cells import numbers, persons
from copriv.data.dealing import Rows, deal
from copriv.data.dictionary import PublicDictionary
from copriv.data.public import PUBLIC_ROWS, Preparation, Sample, load_sample, public_table, strata_of
from copriv.data.schema import OnViolation, Schema
from copriv.data.source import Source
from copriv.data.specification import DataSpecification
from copriv.data.tables import Table, check_names
from copriv.errors import DataError
from copriv.formatting.cards import Shown
from copriv.formatting.numbers import counted, listed
from copriv.model.records import Records
from copriv.types import Array
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
    public: Records | None
    """The learner's own sample, prepared in the same way; never among the owners' records. None: no rows are public."""
    public_table: Table | None
    """The same rows, not encoded."""
    feature_bound: float | None
    """B: the L1 bound on features, without the intercept; None: there is none."""
    target_bound: float
    """Declared bound on |y|, in the target's unit."""
    feature_names: tuple[str, ...]
    source: Literal["real", "resampled", "simulated", "public"]
    """Where records come from; simulated records stay "simulated" when they are resampled too."""
    description: str
    """One sentence: which table, how many rows, resampled or not."""
    dictionary: PublicDictionary | None
    held_out: Records | None
    """Rows that no owner holds and that are not public; None where none were asked for."""


def load_consortium(
    dataset: str | DataSpecification,
    records: Sequence[int],
    *,
    held_out: int = 0,
    opened: Source | None = None,
    owner_unit_records: Sequence[int | None] | None = None,
    strata: tuple[str, Sequence[str]] | None = None,
    **options: Any,
) -> Consortium:
    """Cut owners with `records[i]` records each (persons where `unit` is given) from one table.

    dataset: one of `datasets.names()`, or a whole specification.
    held_out: number of private rows, or persons, that no owner gets. Owners get no row of a person who has a public or a
        held-out one.
    opened: the table of this data set, where it was opened before (`open_dataset`).
    owner_unit_records: the most rows of a person that count, of each owner; None: the specification's, for all.
    strata: the column of public rows that says which owner a row is like, and the owners' names.
    Where a table of one's own gives only a file of public rows, all owners' records are drawn from these: those of an owner
        whose name is a stratum from its stratum, those of the others from all.
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
    rows_each = owner_unit_records or [agreed.unit_records] * len(sizes)
    count("held_out", held_out, least=0)
    if not sizes:
        raise DataError("records: a consortium needs at least one owner")
    own_columns = datasets.named(agreed.dataset).own_columns
    public_rows = PUBLIC_ROWS if agreed.public_rows is None else agreed.public_rows
    if agreed.public is not None:
        public_rows = 0
    stand_in = agreed.public is not None and agreed.path is None and own_columns
    if opened is not None:
        source = opened
    elif stand_in:
        source = public_table(agreed)
    else:
        source = agreed.open(public_rows + held_out + sum(sizes))
    encoded, known = source.encoded, None
    if agreed.public is None and agreed.public_rows is None and own_columns:
        raise DataError(
            'data.public: which rows are public? give a file of them, public = "public.csv", or say how many of the last '
            "rows of the table are: public_rows = 500; where none are, public_rows = 0"
        )
    sample = None
    if agreed.public is not None:
        sample = load_sample(agreed)
        which = f"public are {sample.words}"
        if not stand_in:
            known = _known(source, sample)
    dealt = deal(source, encoded.unit, sizes, public_rows, held_out, agreed.seed, known)
    of_stratum = strata_of(agreed.public, strata[0]) if stand_in and strata is not None else None
    if of_stratum is not None and strata is not None:
        labels, hands = np.array(of_stratum, dtype=object), list(dealt.hands)
        labels[dealt.held_out] = None
        for i, (name, n) in enumerate(zip(strata[1], sizes, strict=True)):
            if name in labels:
                hands[i] = deal(source, encoded.unit, [n], 0, 0, agreed.seed + i, labels != name).hands[0]
        dealt = replace(dealt, hands=tuple(hands), resampled=any(times is not None for _, times in hands))
    if agreed.public is None and public_rows > 0:
        sample = Sample.of(source, dealt.public, encoded.at(dealt.public), agreed)
        which = f"the last {len(dealt.public):,} public"
    public = shown = None
    if sample is None:
        which = "none public"
        preparation = Preparation.declared(agreed)
    else:
        preparation, public, shown = sample.preparation, sample.records, sample.table
    mapped = preparation.mapped(encoded)

    def records_at(rows: Rows, times: Rows | None, most: int | None) -> Records:
        own = replace(preparation, unit_records=most)
        if times is None:
            return own.records(mapped.at(rows))
        counts = np.unique(times)  # rows are weighted by how many times they were drawn
        parts = [own.records(mapped.at(rows[times == one])) for one in counts]
        return Records.concatenate(parts, counts.astype(np.float64)).distinct()

    names = source.schema.feature_names
    if preparation.dictionary is not None:
        names = preparation.dictionary.names
    kind: Literal["real", "resampled", "simulated", "public"] = source.kind
    how = "in disjoint slices in the table's order, not resampled"
    if dealt.resampled:
        if kind == "real":
            kind = "resampled"
        how = f"resampled: drawn with replacement from {dealt.units:,} {source.kind} ones, seed {agreed.seed}"
    table = f"{len(source.table):,} {source.kind} rows" + ", shuffled once" * source.shuffled
    what = "records" if source.schema.unit is None else "persons"
    note = ""
    if stand_in:
        kind = "public"
        note = " The owners' own tables are not here: the public rows stand in for them, "
        note += (
            "as if all owners were alike." if of_stratum is None else "each owner's from its stratum where it has one."
        )
    return Consortium(
        owners=tuple(records_at(*hand, most) for hand, most in zip(dealt.hands, rows_each, strict=True)),
        public=public,
        public_table=shown,
        feature_bound=preparation.feature_bound,
        target_bound=source.schema.target_bound,
        feature_names=names + ("intercept",) * preparation.intercept,
        source=kind,
        description=f"{source.words}: {table}, {which}; {sum(sizes):,} {what} of {counted(len(sizes), 'owner')}, {how}.{note}",
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
    """Make an owner's own table into records, in exactly the way of the learner's public sample.

    table: a path or frame that keeps to `schema`; persons are the units where the schema names a unit.
    dictionary, feature_bound, intercept: as agreed, public; a bound of None or 0 bounds nothing.
    records: the agreed n_i; a table with another number is refused.
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
    """Return a mask of the rows whose person has a public row; None where the tables do not name persons."""
    unit = source.schema.unit
    if unit is None or unit not in sample.table.columns:
        return None
    public = set(persons(sample.table[unit])[0])
    labels, place = persons(source.table[unit])
    return np.array([label in public for label in labels])[place]


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
    check_names(name, have)
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
    """Name the type of what may hold private rows; never a value."""
    return f"a {type(value).__name__}"
