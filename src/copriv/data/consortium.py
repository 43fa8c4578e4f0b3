"""From a table to a consortium: each owner's records, the learner's own public sample, and how they were made.

What is public and what is private is decided by position alone. The last `public_rows` rows of a table are the
learner's own sample (in the papers: the last 10,000 or 50,000 rows); they are never among an owner's records. The
dictionary and the bound on features are computed from them and from nothing else. Of the other rows the last `held_out`
are kept for testing, and owners get consecutive disjoint slices of the rest, as in the papers. Where there are fewer
rows than the owners' records together, each owner's are drawn with replacement instead, from `seed` and its place in
the list; then the description says so.

No value of a private row decides anything about another row. (Which organisation or person a row belongs to does: rows
of one person stay together, and hospitals' rows are sorted by hospital.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Int

from copriv.data import creditcard, hospital, lending
from copriv.data.dictionary import PublicDictionary
from copriv.data.schema import EncodedTable, OnViolation, Scaling, Schema
from copriv.data.source import Source
from copriv.data.tables import Table, read_table
from copriv.errors import DataError
from copriv.records import Records
from copriv.types import Array
from copriv.validation import count, non_negative

DATASETS = ("lending", "lending-embedded", "creditcard", "hospital", "hospital-simulated", "table")

FEATURE_QUANTILE = 0.99
"""feature_bound = "auto": this quantile of ‖x‖₁ over the public rows."""

_SHUFFLE_SEED = 20_151_231
"""Orders the rows of files that come sorted; the same for every run, whatever the run's seed."""

_SIMULATED_ROWS = 200_000
"""A simulated table has no more rows than this; larger owners are drawn from it with replacement."""

Rows: TypeAlias = Int[np.ndarray, "_"]


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

    dataset: one of DATASETS; "table" needs `path` and `schema`.
    components: features of the public dictionary; 0: none, the encoded columns themselves.
    feature_bound: B, the L1 bound on a record's features; "auto": from the public rows; 0: none.
    public_rows: how many rows are the learner's own.
    seed: of the draws with replacement, and of simulated tables; nothing else depends on it.
    intercept: append a feature that is always 1, after bounding.
    unit, unit_records: the column that names the person, and how many rows of a person count at most. A person who has
        a public row, or one held out, is left out of the owners' records.
    scaling: of the encoded columns; None: "none" for lending and hospitals, as in the papers, else "declared".
    dictionary: use this one instead of fitting one on the public rows; `components` is then ignored.

    Raises DataError, naming the column and row, or what does not fit the table.
    """
    sizes = [count(f"records[{i}]", n) for i, n in enumerate(records)]
    count("data.components", components, least=0)
    count("data.public_rows", public_rows)
    count("held_out", held_out, least=0)
    if unit_records is not None:
        count("unit_records", unit_records)
    if not sizes:
        raise DataError("records: a consortium needs at least one owner")
    needed = public_rows + held_out + sum(sizes)
    source = open_dataset(dataset, path=path, schema=schema, unit=unit, seed=seed, rows=needed)
    schema = source.schema if scaling is None else replace(source.schema, scaling=scaling)
    table = schema.encode(source.table)
    public_at, private_at, held_out_at = _cut(table, source, public_rows, held_out)

    if dictionary is None and components > 0:
        dictionary = PublicDictionary.fit(table.features[public_at], components)
    features = table.features if dictionary is None else dictionary.apply(table.features)
    names = schema.feature_names if dictionary is None else dictionary.names
    bound = _bound(features[public_at], feature_bound)

    def made(rows: Rows) -> Records:
        ids = None if table.unit is None else table.unit[rows]
        return _records(features[rows], table.target[rows], ids, unit_records, bound, intercept)

    resampled = sum(sizes) > _units(table, private_at)
    if resampled:
        drawn = _drawn(table, source, private_at, sizes, seed)
        owners = tuple(_repeated(made, rows, times) for rows, times in drawn)
    else:
        owners = tuple(made(rows) for rows in _slices(table, source, private_at, sizes))
    return Consortium(
        owners=owners,
        public=made(public_at),
        public_table=source.table[public_at.tolist()],
        feature_bound=bound,
        target_bound=schema.target_bound,
        feature_names=(*names, "intercept") if intercept else names,
        source="simulated" if source.kind == "simulated" else "resampled" if resampled else "real",
        description=_description(source, table, sizes, private_at, public_rows, seed if resampled else None),
        dictionary=dictionary,
        held_out=made(held_out_at) if held_out else None,
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
    Each row is encoded, mapped and bounded from itself alone. Raises DataError.
    """
    encoded = schema.encode(table, on_violation)
    features = encoded.features if dictionary is None else dictionary.apply(encoded.features)
    bound = None if feature_bound is None else non_negative("feature_bound", feature_bound) or None
    made = _records(features, encoded.target, encoded.unit, unit_records, bound, intercept)
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
    rows: int = _SIMULATED_ROWS,
) -> Source:
    """The table and schema behind a data set's name: `.table` and `.schema` go to `check_table` and `prepare_owner`.

    dataset, path, schema, unit: as for `load_consortium`; an owner gives the path of its own table.
    seed, rows: of a simulated table. Raises DataError where there is no such data set or file.
    """
    path = None if path is None else Path(path)
    if schema is not None and dataset != "table":
        raise DataError(f'data.dataset: {dataset!r} brings its own schema; declare columns with dataset = "table"')
    if path is not None and dataset in ("lending-embedded", "hospital-simulated"):
        raise DataError(f"data.path: {dataset!r} reads no file; drop the path, or name another data set")
    source = _source(dataset, path, schema, unit, seed, min(rows, _SIMULATED_ROWS))
    # An owner's own table must become the numbers that the public sample became, so its schema is scaled alike.
    scaled = replace(source.schema, scaling=_usual_scaling(dataset), unit=unit or source.schema.unit)
    return replace(source, schema=scaled)


def _source(dataset: str, path: Path | None, schema: Schema | None, unit: str | None, seed: int, rows: int) -> Source:
    match dataset:
        case "lending":
            return lending.load(path)
        case "lending-embedded":
            return lending.load(only_embedded=True)
        case "creditcard":
            return creditcard.load(path)
        case "hospital":
            return hospital.load(path)
        case "hospital-simulated":
            return hospital.load_simulated(rows, seed)
        case "table":
            if path is None or schema is None:
                raise DataError(
                    'data.path: dataset = "table" needs a path and declared columns (features, target, bounds)'
                )
            names = schema.names if unit is None else (*schema.names, unit)
            return Source(read_table(path, names), schema, f"The table {path.name}")
        case _:
            raise DataError(f"data.dataset: {dataset!r} is not known; use one of {', '.join(DATASETS)}")


def _usual_scaling(dataset: str) -> Scaling:
    return "none" if dataset.startswith(("lending", "hospital")) else "declared"


def _cut(table: EncodedTable, source: Source, public_rows: int, held_out: int) -> tuple[Rows, Rows, Rows]:
    """Positions of the public rows, of the owners' rows in the order in which they are dealt, and of rows held out."""
    rows = len(table.target)
    order = np.random.default_rng(_SHUFFLE_SEED).permutation(rows) if source.shuffled else np.arange(rows)
    public, private = order[max(rows - public_rows, 0) :], order[: max(rows - public_rows, 0)]
    if table.unit is not None:
        # A person whom the learner knows is nobody's private record.
        private = private[~np.isin(table.unit[private], table.unit[public])]
    if source.group is not None:
        group = source.group[private]
        private = private[np.bincount(group)[group] >= source.least_group]
    kept, tested = private[: max(len(private) - held_out, 0)], private[max(len(private) - held_out, 0) :]
    if table.unit is not None:
        kept = kept[~np.isin(table.unit[kept], table.unit[tested])]
    if source.group is not None:
        kept = kept[np.argsort(source.group[kept], kind="stable")]
    if len(kept) == 0:
        raise DataError(
            f"data.public_rows: {public_rows} public rows and {held_out} held out leave no records for owners in a "
            f"table of {rows} rows; lower data.public_rows"
        )
    return public, kept, tested


def _bound(public: Array, feature_bound: float | Literal["auto"]) -> float | None:
    if feature_bound == "auto":
        return float(np.quantile(np.abs(public).sum(axis=1), FEATURE_QUANTILE))
    return non_negative("data.feature_bound", feature_bound) or None


def _records(
    features: Array, target: Array, unit: Rows | None, unit_records: int | None, bound: float | None, intercept: bool
) -> Records:
    made = Records.of(features, target) if unit is None else Records.of_persons(features, target, unit, unit_records)
    if bound is not None:
        made = made.bounded(bound)
    return made.with_intercept() if intercept else made


def _units(table: EncodedTable, rows: Rows) -> int:
    """How many records, or persons, these rows are of."""
    return len(rows) if table.unit is None else len(np.unique(table.unit[rows]))


def _places(table: EncodedTable, rows: Rows) -> Rows:
    """The place of each row's unit among the units, in the order of their first rows: units are dealt, not rows."""
    if table.unit is None:
        return np.arange(len(rows))
    _, first, index = np.unique(table.unit[rows], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[index.reshape(-1)]


def _shares(source: Source, units: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """From which of the units, [from, to), each owner's come."""
    ends = np.cumsum([0, *sizes])
    if source.group is None:
        return list(pairwise(ends.tolist())) if ends[-1] <= units else [(0, units)] * len(sizes)
    # Rows sorted by group: shares in proportion to the owners' sizes, so that owners cover all groups and differ.
    if ends[-1] <= units:
        return list(pairwise((ends * units // ends[-1]).tolist()))
    if units < len(sizes):
        raise DataError(f"records: {len(sizes)} owners cannot differ with {units} private units; name fewer owners")
    return list(pairwise((ends * (units - len(sizes)) // ends[-1] + np.arange(len(ends))).tolist()))


def _slices(table: EncodedTable, source: Source, rows: Rows, sizes: Sequence[int]) -> list[Rows]:
    """Disjoint slices of `sizes` consecutive units."""
    place = _places(table, rows)
    starts = [a for a, _ in _shares(source, _units(table, rows), sizes)]
    return [rows[(place >= a) & (place < a + n)] for a, n in zip(starts, sizes, strict=True)]


def _drawn(table: EncodedTable, source: Source, rows: Rows, sizes: Sequence[int], seed: int) -> list[tuple[Rows, Rows]]:
    """For each owner, distinct rows and how often each was drawn: units uniformly, with replacement."""
    place, units = _places(table, rows), _units(table, rows)
    shares = _shares(source, units, sizes)
    drawn: list[tuple[Rows, Rows]] = []
    for owner, (n, (a, b)) in enumerate(zip(sizes, shares, strict=True)):
        # One multinomial draw in place of n draws: the cost does not grow with n.
        times = np.zeros(units, dtype=np.int64)
        times[a:b] = np.random.default_rng([seed, owner]).multinomial(n, np.full(b - a, 1 / (b - a)))
        some = times[place] > 0
        drawn.append((rows[some], times[place][some]))
    return drawn


def _repeated(made: Callable[[Rows], Records], rows: Rows, times: Rows) -> Records:
    """Records of distinct rows, weighted by how often each was drawn."""
    often = np.unique(times)
    return Records.concatenate([made(rows[times == t]) for t in often], often.astype(np.float64)).distinct()


def _description(
    source: Source, table: EncodedTable, sizes: Sequence[int], private: Rows, public_rows: int, seed: int | None
) -> str:
    what = "records" if table.unit is None else "persons"
    owners = f"{len(sizes)} {'owner' if len(sizes) == 1 else 'owners'}"
    if seed is None:
        how = "in disjoint slices, not resampled"
    else:
        how = f"resampled: drawn with replacement from {_units(table, private):,} {source.kind} ones, seed {seed}"
    rows = f"{len(table.target):,} {source.kind} rows{', shuffled once' if source.shuffled else ''}"
    return f"{source.title}: {rows}, the last {public_rows:,} public; {sum(sizes):,} {what} of {owners}, {how}."
