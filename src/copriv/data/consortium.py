"""From a table to a consortium: each owner's records, the learner's own public sample, and how they were made.

What is public and what is private is decided by position alone. The last `public_rows` rows of a table are the learner's
own sample (in the papers: the last 10,000 or 50,000 rows); they are never among an owner's records. The dictionary and
the bound on features are computed from them and from nothing else. Of the other rows the last `held_out` are kept for
testing, and owners get consecutive disjoint slices of the rest, as in the papers. Where the owners' records together are
more than there are rows, each owner's are drawn with replacement instead, from `seed` and its place in the list; then
the description says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from copriv.data import lending
from copriv.data.dictionary import PublicDictionary
from copriv.data.schema import EncodedTable, OnViolation, Schema
from copriv.data.source import Source
from copriv.data.tables import read_table
from copriv.errors import DataError
from copriv.records import Records
from copriv.types import Array
from copriv.validation import count, non_negative

FEATURE_QUANTILE = 0.99
"""feature_bound = "auto": this quantile of ‖x‖₁ over the public rows."""

_SHUFFLE_SEED = 20_151_231
"""Orders the rows of files that come sorted; the same for every run, whatever the run's seed."""

Rows = Int[np.ndarray, " rows"]


@dataclass(frozen=True, eq=False)
class Consortium:
    """Everything that a simulation or a forecast needs to know about the data."""

    owners: tuple[Records, ...]
    """Bounded features, where `feature_bound` is given."""
    public: Records
    """The learner's own sample, bounded in the same way; never among the owners' records."""
    feature_bound: float | None
    """B: the L1 bound that was enforced on features, without the intercept; None: none was."""
    target_bound: float
    """Declared bound on |y|, in the target's unit."""
    feature_names: tuple[str, ...]
    source: Literal["real", "resampled", "simulated"]
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
) -> Consortium:
    """Owners with `records[i]` records each (persons where `unit` is given), cut from one table.

    dataset: "lending", "lending-embedded", "creditcard", "hospital", "hospital-simulated", or "table" with `path` and
        `schema`.
    components: features of the public dictionary; 0: none, the encoded columns over their declared sizes.
    feature_bound: B, the L1 bound on a record's features; "auto": from the public rows; 0: none.
    public_rows: how many rows are the learner's own.
    seed: of the draws with replacement, and of simulated tables; nothing else depends on it.
    intercept: append a feature that is always 1, after bounding.
    unit, unit_records: the column that names the person, and at most how many rows of a person count.
    dictionary: use this one instead of fitting one on the public rows; `components` is then ignored.

    Raises DataError, naming the column and row, or what does not fit the table.
    """
    sizes = [count(f"records[{i}]", n) for i, n in enumerate(records)]
    count("components", components, least=0)
    count("public_rows", public_rows)
    count("held_out", held_out, least=0)
    if not sizes:
        raise DataError("records: a consortium needs at least one owner")
    source = _open(dataset, None if path is None else Path(path), schema, seed)
    schema = source.schema if unit is None else Schema(source.schema.columns, source.schema.target, unit)
    table = schema.encode(source.table, source.on_violation)
    public_at, private_at, held_out_at = _cut(table, source, public_rows, held_out)

    if dictionary is None and components > 0:
        dictionary = PublicDictionary.fit(table.features[public_at], components)
    names = (
        schema.feature_names
        if dictionary is None
        else tuple(f"pc{k + 1}" for k in range(dictionary.components))
    )
    features = _features(table.features, schema, dictionary)
    bound = _bound(features[public_at], feature_bound)

    def made(rows: Rows, times: Float[Array, " rows"] | None = None) -> Records:
        ids = None if table.unit is None else table.unit[rows]
        return _records(features[rows], table.target[rows], ids, unit_records, times, bound, intercept)

    resampled = _units(table, private_at) < sum(sizes)
    if resampled:
        owners = tuple(made(*_drawn(table, private_at, n, i, seed)).distinct() for i, n in enumerate(sizes))
    else:
        owners = tuple(made(rows) for rows in _slices(table, private_at, sizes))
    return Consortium(
        owners=owners,
        public=made(public_at),
        feature_bound=bound,
        target_bound=schema.target_bound,
        feature_names=(*names, "intercept") if intercept else names,
        source="simulated" if source.kind == "simulated" else "resampled" if resampled else "real",
        description=_description(
            source, len(table.target), sizes, len(private_at), public_rows, resampled, seed
        ),
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
    encoded = schema.encode(read_table(table, schema.names), on_violation)
    features = _features(encoded.features, schema, dictionary)
    bound = None if not feature_bound else non_negative("feature_bound", feature_bound)
    made = _records(features, encoded.target, encoded.unit, unit_records, None, bound, intercept)
    if records is not None and made.units != records:
        what = "records" if schema.unit is None else f"different {schema.unit}"
        raise DataError(
            f"records: {records} were agreed, the table holds {made.units} {what}; the noise depends on the number: give the "
            "table that was agreed on, or correct the agreement"
        )
    return made


def _open(dataset: str, path: Path | None, schema: Schema | None, seed: int) -> Source:
    if schema is not None and dataset != "table":
        raise DataError(
            f'data.dataset: {dataset!r} brings its own schema; declare columns with dataset = "table" only'
        )
    match dataset:
        case "lending":
            return lending.load(path)
        case "lending-embedded":
            return lending.load(only_embedded=True)
        case "table":
            if path is None or schema is None:
                raise DataError(
                    'data.path: dataset = "table" needs a path and declared columns (features, target, bounds)'
                )
            return Source(read_table(path, schema.names), schema, f"The table {path.name}")
        case _:
            known = "lending, lending-embedded, creditcard, hospital, hospital-simulated, table"
            raise DataError(f"data.dataset: {dataset!r} is not known; use one of {known}")


def _cut(table: EncodedTable, source: Source, public_rows: int, held_out: int) -> tuple[Rows, Rows, Rows]:
    """Positions of the public rows, of the owners' rows in the order in which they are dealt, and of the rows held out."""
    rows = len(table.target)
    if public_rows + held_out >= rows:
        raise DataError(
            f"data.public_rows: {public_rows} public rows and {held_out} held out leave no records for owners in a table of "
            f"{rows} rows; lower data.public_rows"
        )
    order = np.random.default_rng(_SHUFFLE_SEED).permutation(rows) if source.shuffled else np.arange(rows)
    public, private = order[rows - public_rows :], order[: rows - public_rows]
    if table.unit is not None:
        # A person whom the learner knows is nobody's private record.
        private = private[~np.isin(table.unit[private], table.unit[public])]
    kept, tested = private[: len(private) - held_out], private[len(private) - held_out :]
    if table.unit is not None and held_out:
        kept = kept[~np.isin(table.unit[kept], table.unit[tested])]
    if len(kept) == 0:
        raise DataError("data.public_rows: no records are left for owners; lower data.public_rows")
    return public, kept, tested


def _features(encoded: Array, schema: Schema, dictionary: PublicDictionary | None) -> Array:
    return encoded / schema.sizes if dictionary is None else dictionary.apply(encoded)


def _bound(public: Array, feature_bound: float | Literal["auto"]) -> float | None:
    if feature_bound == "auto":
        return float(np.quantile(np.abs(public).sum(axis=1), FEATURE_QUANTILE))
    return non_negative("feature_bound", feature_bound) or None


def _records(
    features: Array,
    target: Array,
    unit: Rows | None,
    unit_records: int | None,
    times: Array | None,
    bound: float | None,
    intercept: bool,
) -> Records:
    if unit is None:
        made = Records.of(features, target, times)
    else:
        made = Records.of_persons(features, target, unit, unit_records)
    if bound is not None:
        made = made.bounded(bound)
    return made.with_intercept() if intercept else made


def _units(table: EncodedTable, rows: Rows) -> int:
    return len(rows) if table.unit is None else len(np.unique(table.unit[rows]))


def _slices(table: EncodedTable, rows: Rows, sizes: Sequence[int]) -> list[Rows]:
    ends = np.cumsum([0, *sizes])
    return [rows[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]


def _drawn(table: EncodedTable, rows: Rows, n: int, owner: int, seed: int) -> tuple[Rows, Array]:
    """n draws with replacement, as distinct rows and how often each came: the cost does not grow with n."""
    times = np.random.default_rng([seed, owner]).multinomial(n, np.full(len(rows), 1 / len(rows)))
    return rows[times > 0], times[times > 0].astype(np.float64)


def _description(
    source: Source, rows: int, sizes: Sequence[int], private: int, public: int, resampled: bool, seed: int
) -> str:
    n = f"{sum(sizes):,} records of {len(sizes)} {'owner' if len(sizes) == 1 else 'owners'}"
    how = (
        f"{n} drawn with replacement from {private:,} of them with seed {seed}"
        if resampled
        else f"{n} in disjoint slices"
    )
    return f"{source.title}: {rows:,} {source.kind} rows, the last {public:,} public; {how}."
