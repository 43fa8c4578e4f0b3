"""Convert an agreement's [data] to the specification and the schema of `copriv.data`.

    features = ["age", "smoker", "stage", "county", "admitted"]
    target = "days"
    bounds = {age = [0, 110], days = [0, 120]}      numbers
    booleans = ["smoker"]                           true or false
    categories = {stage = ["I", "II", "III"], county = ["Kent", "Surrey"]}
    ordered = ["stage"]                             levels that stand in order; the others are one feature a level
    dates = {admitted = ["2020-01-01", "2024-12-31"]}
    missing = {stage = "I", age = 50}               what a missing value counts as
    scales = {age = "centred"}                      "size", "centred" or "log"
    clamp = ["days"]                                out of bounds counts as the nearest bound

Two levels of a target's category are its classes: the first becomes −1, the second +1.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from copriv.agreement import Agreement
from copriv.data import datasets
from copriv.data.columns import TRUTHS, Boolean, Category, Column, Date, Number, TwoClasses
from copriv.data.dictionary import PublicDictionary
from copriv.data.schema import Schema
from copriv.data.specification import DataSpecification, open_dataset
from copriv.data.sql import is_sql, read_sql, stream_sql
from copriv.data.stream import table_chunks
from copriv.errors import AgreementError, DataError
from copriv.formatting.sanitize import reason
from copriv.model.records import BLOCK

KINDS = {
    "bounds": "[low, high]",
    "categories": "two or more levels",
    "booleans": "its name",
    "dates": "the first and the last day, such as 2020-01-01",
}
"""Keys that declare columns, one for each column, and the value that each key takes."""
SUBSTITUTES = {
    "bounds": "give a number within the column's bounds",
    "categories": "give one of its levels, or declare that level too (data.categories)",
    "booleans": "give true or false",
    "dates": "give a day within the column's dates",
}
"""What a missing value may count as, by the key that declares the column."""


def data_specification(agreement: Agreement) -> DataSpecification:
    """Convert [data] to a specification, without the intercept, which the fitness adds.

    Raises AgreementError where the agreement names no data, or a dictionary that cannot be read.
    """
    data, first = agreement.data, agreement.owner_tables[0]
    return DataSpecification(
        dataset=data.named,
        path=data.path,
        schema=schema_of(agreement, unit=None),
        unit=first.unit,
        unit_records=first.unit_records,
        scaling=data.scaling,
        seed=agreement.agreement.seed,
        public=data.public,
        public_rows=data.public_rows,
        components=data.components,
        dictionary=_dictionary(agreement),
        mean_square=data.mean_square,
        fourier_features=data.fourier_features,
        fourier_width=data.fourier_width or "auto",
        feature_bound=data.feature_bound,
    )


def schema_of(agreement: Agreement, unit: str | None) -> Schema | None:
    """Make the schema that [data] declares, with this unit; None where the data set has its own columns."""
    data = agreement.data
    if data.features is None and data.target is None:
        return None
    declared = declared_schema(data.model_dump())
    return replace(declared, unit=unit, scaling=data.scaling or declared.scaling)


def own_table(agreement: Agreement, source: object, unit: str | None, query: str = "") -> tuple[Any, Schema]:
    """Return a party's own table, and the schema that it must match.

    source: the path of a file, or a frame or a data base's address where the columns are declared. query: the rows to read from
    a data base. Raises DataError for a table that cannot be read.
    """
    kind = datasets.named(agreement.data.named)
    declared = schema_of(agreement, unit)
    if isinstance(source, str) and is_sql(source):
        own_order = unit is not None and any(owner.unit_records is not None for owner in agreement.owner_tables)
        source = read_sql(source, query, declared.names if declared else None, own_order)
    if declared is not None and kind.own_columns:
        return source, declared
    if not isinstance(source, str | Path):
        raise DataError('data.dataset: records from a data base need declared columns; use dataset = "table"')
    opened = open_dataset(kind.read_from, path=source, schema=declared, unit=unit, scaling=agreement.data.scaling)
    return opened.table, opened.schema


def own_pieces(
    agreement: Agreement, source: object, unit: str | None, query: str, rows: int | None = None
) -> tuple[Callable[[], Iterator[pa.Table]], Schema] | None:
    """Return a function that reads a party's own table in pieces of about `rows` rows, and the schema that it must match.

    rows: None: a million cells. Returns None for a table that must be held in memory: a frame, one without declared columns,
    and one in which persons are the units, whose rows may be in several pieces. Raises as `own_table`.
    """
    schema = schema_of(agreement, unit)
    if schema is None or unit is not None or not datasets.named(agreement.data.named).own_columns:
        return None
    if not isinstance(source, str | Path):
        return None
    rows = rows or max(BLOCK, 2**20 // len(schema.names))
    if is_sql(str(source)):
        return stream_sql(str(source), query, schema.names, rows), schema
    return table_chunks(source, schema, rows), schema


def as_agreed(agreement: Agreement, dictionary: PublicDictionary) -> PublicDictionary:
    """Return a dictionary read from a file. Raises AgreementError where its number of waves is not the agreed one."""
    agreed, waves = agreement.data.fourier_features, getattr(dictionary.waves, "features", None)
    if agreed != waves:
        raise AgreementError(
            f"data.fourier_features: {agreed or 'none'} agreed, the dictionary has {waves or 'none'}; "
            "make the file again (copriv init --network) or correct the agreement"
        )
    return dictionary


def _dictionary(agreement: Agreement) -> PublicDictionary | None:
    path = agreement.data.dictionary
    if path is None or not agreement.data.mapped:
        return None
    try:
        return as_agreed(agreement, PublicDictionary.from_json(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise AgreementError(
            f"data.dictionary: {path} cannot be read ({reason(error)}); run in the folder that the path starts from, or leave "
            "the key out to fit one on the public rows"
        ) from None


def declared_schema(data: Mapping[str, Any]) -> Schema:
    """Make the schema that [data] declares. Raises AgreementError with all problems, each with its field path."""
    features, target = data.get("features"), data.get("target")
    if not features or isinstance(features, str):
        raise AgreementError('data.features: a table needs a list of feature columns; write features = ["age", ...]')
    if not isinstance(target, str):
        raise AgreementError('data.target: a table needs a target column; write target = "name"')
    if target in features:
        raise AgreementError(f"data.features: the target {target!r} is among the features; take it out")
    keys = {key: data.get(key) or {} for key in (*KINDS, "missing", "ordered", "scales", "clamp")}
    problems = [
        f"data.{key}.{name}: neither a feature nor the target, {target}; add it to data.features, or correct its name"
        for key, names in keys.items()
        for name in names
        if name not in (target, *features)
    ]
    twice = {name for name in features if list(features).count(name) > 1}
    problems += [f"data.features: {name!r} stands twice; name each column once" for name in sorted(twice)]
    columns: dict[str, Any] = {}
    for name in dict.fromkeys((*features, target)):
        try:
            columns[name] = _column(name, keys, name == target)
        except AgreementError as error:
            problems.append(str(error))
    if problems:
        raise AgreementError.of(problems)
    about = columns.pop(target)
    return Schema(tuple(columns.values()), about, data.get("unit"))


def _column(name: str, keys: Mapping[str, Any], target: bool) -> Column:
    """Make one declared column. Raises AgreementError unless one key declares it, and the other keys fit that one."""
    kinds = [key for key in KINDS if name in keys[key]]
    if not kinds:
        have = "neither bounds nor categories (nor booleans, nor dates)"
        what = "the column to predict (data.target)" if target else "the column"
        raise AgreementError(f"data.bounds.{name}: {what} has {have}; declare exactly one of them, or correct the name")
    kind = kinds[0]
    if len(kinds) > 1:
        raise AgreementError(
            f"data.{kind}.{name}: the column has both {kind} and {kinds[1]}; declare exactly one of them"
        )
    for key, fitting in (("ordered", ("categories",)), ("scales", ("bounds",)), ("clamp", ("bounds", "dates"))):
        if name in keys[key] and kind not in fitting:
            raise AgreementError(f"data.{key}.{name}: the column is declared by {kind}; {key} goes with {fitting[0]}")
    if target:
        for key in ("missing", "ordered", "scales"):
            if name in keys[key]:
                raise AgreementError(f"data.{key}.{name}: the target is taken as it is; leave it out of {key}")
        if kind not in ("bounds", "categories"):
            raise AgreementError(
                f"data.{kind}.{name}: a target is a number (bounds) or one of two classes (categories)"
            )
    try:
        return _made(name, kind, keys, target)
    except (DataError, TypeError, ValueError) as error:
        reason = str(error).removeprefix(f"{name}: ")
        if reason.startswith("missing counts as"):
            raise AgreementError(f"data.missing.{name}: {reason}; {SUBSTITUTES[kind]}") from None
        raise AgreementError(f"data.{kind}.{name}: {reason}; declare {KINDS[kind]}") from None


def _made(name: str, kind: str, keys: Mapping[str, Any], target: bool) -> Column:
    missing, clamp = keys["missing"].get(name), name in keys["clamp"]
    if kind == "bounds":
        low, high = map(float, keys["bounds"][name])
        try:
            counts_as = None if missing is None else float(missing)
        except ValueError:
            raise DataError(f"missing counts as {missing!r}, which is no number") from None
        return Number(name, low, high, counts_as, clamp=clamp, by=keys["scales"].get(name, "size"))
    if kind == "booleans":
        if missing is not None and str(missing).lower() not in TRUTHS:
            raise DataError(f"missing counts as {str(missing)!r}, which is neither true nor false")
        return Boolean(name, None if missing is None else TRUTHS[str(missing).lower()] == 1.0)
    if kind == "dates":
        first, last = (_day(day) for day in keys["dates"][name])
        return Date(name, first, last, None if missing is None else _day(missing), clamp=clamp)
    levels = tuple(str(level) for level in keys["categories"][name])
    if not target:
        return Category(name, levels, missing, ordered=name in keys["ordered"])
    if len(levels) != 2:
        raise DataError(f"a target takes two classes, not {len(levels)}")
    return TwoClasses(name, *levels)


def _day(written: object) -> date:
    """Parse a declared day. Raises DataError."""
    try:
        return date.fromisoformat(str(written))
    except ValueError:
        raise DataError(f"{str(written)!r} is not a day") from None
