"""The schema: what a table must hold, declared before anybody looks at the records.

A schema is public and part of what the parties agree on. It turns a row into numbers without any other row: bounds,
levels and scales are declared, never measured, so nothing about private records can leak through an encoding.

- `Number(name, low, high)`: a number within declared bounds, divided by the larger of |low| and |high|. `missing` is
  what a missing value counts as; without it a missing value is refused. With `cap`, a value above `high` counts as
  `high` (incomes have no natural upper bound).
- `Category(name, levels)`: one of the declared levels, encoded as its place 1, 2, 3, ... in them, divided by their
  number. So ordered levels should be declared in their order. Places start at 1 because models without an intercept
  need the first level to be a value, not an absence.
- `scaling = "none"` encodes as the papers did (A, §V-A; S, §V-A): numbers in their own units, levels 0, 1, 2, ....
  Columns of dollars then outweigh all others in a dictionary; "declared" gives models that predict far better.
- `TwoClasses(name, negative, positive)`: a target, encoded −1 and +1.

Rows are counted from 1 in messages, and the header of a file is not counted. A message quotes the offending value:
it is for the owner of the table, not for sending on.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from copriv.data.tables import MISSING, Table, read_table
from copriv.errors import AgreementError, DataError
from copriv.types import Array

OnViolation: TypeAlias = Literal["refuse", "clamp"]
"""What to do with a number outside its bounds: refuse the table, or move that number to the nearest bound."""


@dataclass(frozen=True)
class Number:
    """A column of numbers in [low, high], in the column's own unit."""

    name: str
    low: float
    high: float
    missing: float | None = None
    """What a missing value counts as; None: a missing value is refused."""
    cap: bool = False
    """A value above `high` counts as `high`; one below `low` is refused all the same."""
    scale: float | None = None
    """The feature is the number over this; None: the larger of |low| and |high|, so that |x| ≤ 1."""

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise DataError(
                f"{self.name}: bounds must be two finite numbers, low < high, not [{self.low}, {self.high}]"
            )
        if self.missing is not None and not self.low <= self.missing <= self.high:
            raise DataError(
                f"{self.name}: missing counts as {self.missing}, outside its own bounds [{self.low}, {self.high}]"
            )
        if self.scale is not None and not 0 < self.scale < math.inf:
            raise DataError(f"{self.name}: scale must be a finite number above 0, not {self.scale}")

    @property
    def size(self) -> float:
        """What the number is divided by."""
        return self.scale or max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class Category:
    """A column with declared levels, encoded k/K for the k-th of K."""

    name: str
    levels: tuple[str, ...]
    missing: str | None = None
    """The level that a missing value counts as; None: a missing value is refused."""

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels) or len(self.levels) < 2:
            raise DataError(f"{self.name}: declare two or more different levels, not {list(self.levels)}")
        if self.missing is not None and self.missing not in self.levels:
            raise DataError(f"{self.name}: missing counts as {self.missing!r}, which is not one of its levels")


@dataclass(frozen=True)
class TwoClasses:
    """A target with two classes, encoded −1 and +1."""

    name: str
    negative: str
    positive: str

    def __post_init__(self) -> None:
        if self.negative == self.positive:
            raise DataError(f"{self.name}: the two classes must differ, not {self.negative!r} twice")


Column: TypeAlias = Number | Category
Scaling: TypeAlias = Literal["declared", "none"]
"""Numbers over their declared sizes and levels k/K; or numbers as they are and levels 0, 1, 2, …, as in the papers."""


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table as numbers; row r of each part is row r of the table."""

    features: Float[Array, "records columns"]
    """As the schema's scaling says."""
    target: Float[Array, " records"]
    unit: Int[np.ndarray, " records"] | None
    """Which person a row belongs to, numbered in order of first appearance; None: each row is its own unit."""


@dataclass(frozen=True)
class Schema:
    """Declared columns, target and, where persons are the privacy unit, the column that names them."""

    columns: tuple[Column, ...]
    target: Number | TwoClasses
    unit: str | None = None
    scaling: Scaling = "declared"

    def __post_init__(self) -> None:
        names = self.names
        if not self.columns:
            raise DataError("schema: declare at least one feature column")
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{name}: declared twice; declare each column once")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "Schema":
        """A schema from the agreement's [data] table.

        Keys: `features` (names), `target` (a name), `bounds` (name → [low, high]), `categories` (name → levels; two for
        a target: the first becomes −1, the second +1), and optionally `missing` (name → what a missing value counts
        as) and `unit`. Raises AgreementError that starts with the field path.
        """
        features, target = mapping.get("features"), mapping.get("target")
        if not features or isinstance(features, str):
            raise AgreementError(
                'data.features: a table needs a list of feature columns; write features = ["age", ...]'
            )
        if not isinstance(target, str):
            raise AgreementError('data.target: a table needs a target column; write target = "name"')
        if target in features:
            raise AgreementError(f"data.features: the target {target!r} is among the features; take it out")
        bounds, categories = mapping.get("bounds") or {}, mapping.get("categories") or {}
        missing = mapping.get("missing") or {}
        for key, declared in (("bounds", bounds), ("categories", categories), ("missing", missing)):
            for name in declared:
                if name != target and name not in features:
                    raise AgreementError(
                        f"data.{key}.{name}: neither a feature nor the target; add it to data.features"
                    )
        columns = tuple(_declared(name, bounds, categories, missing.get(name)) for name in features)
        goal = _declared(target, bounds, categories, None)
        if isinstance(goal, Category):
            if len(goal.levels) != 2:
                raise AgreementError(f"data.categories.{target}: a target takes two classes, not {len(goal.levels)}")
            return cls(columns, TwoClasses(target, *goal.levels), mapping.get("unit"))
        return cls(columns, goal, mapping.get("unit"))

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that a table must have."""
        unit = () if self.unit is None else (self.unit,)
        return (*(column.name for column in self.columns), self.target.name, *unit)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of the encoded features, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def target_bound(self) -> float:
        """Declared bound on |y|."""
        return max(abs(self.target.low), abs(self.target.high)) if isinstance(self.target, Number) else 1.0

    def encode(self, table: object, on_violation: OnViolation = "refuse") -> EncodedTable:
        """The table as numbers, each row from itself alone.

        Raises DataError naming column and row: a missing column, a wrong type, NaN, an unknown category, a value
        outside its bounds. With `on_violation = "clamp"` a finite number outside its bounds moves to the nearest bound;
        the other faults are refused all the same.
        """
        encoded, problems = self._encode(read_table(table, self.names), on_violation)
        if encoded is None:
            more = f" ({len(problems) - 1} more: `copriv data check` lists them)" if len(problems) > 1 else ""
            raise DataError(problems[0] + more)
        return encoded

    def problems(self, table: object, on_violation: OnViolation = "refuse") -> list[str]:
        """One line for each kind of fault of each column; empty: the table keeps to the schema."""
        return self._encode(read_table(table, self.names), on_violation)[1]

    def _encode(self, table: Table, on_violation: OnViolation) -> tuple[EncodedTable | None, list[str]]:
        have = table.columns
        problems = [
            f"{name}: the table has no such column (of those declared it has {_shortened(have) or 'none'}); add it, or "
            "correct the schema or the column's name"
            for name in self.names
            if name not in have
        ]
        if len(table) == 0:
            return None, [*problems, "table: has no rows; give at least one record"]
        encoded: dict[str, Array] = {}
        for column in (*self.columns, self.target):
            if column.name not in have:
                continue
            series = table[column.name]
            if isinstance(column, Number):
                encoded[column.name], found = _encode_numbers(column, series, on_violation)
            elif isinstance(column, Category):
                first, size = (0, 1) if self.scaling == "none" else (1, len(column.levels))
                codes = {level: (k + first) / size for k, level in enumerate(column.levels)}
                encoded[column.name], found = _encode_levels(column.name, series, codes, column.missing)
            else:
                encoded[column.name], found = _encode_levels(
                    column.name, series, {column.negative: -1.0, column.positive: 1.0}, None
                )
            problems += found
        unit = None
        if self.unit is not None and self.unit in have:
            unit, found = _encode_unit(self.unit, table[self.unit])
            problems += found
        if problems:
            return None, problems
        scaled = self.scaling == "declared"
        sizes = [column.size if scaled and isinstance(column, Number) else 1.0 for column in self.columns]
        features = np.column_stack([encoded[name] / size for name, size in zip(self.feature_names, sizes, strict=True)])
        return EncodedTable(features, encoded[self.target.name], unit), []


def check_table(source: object, schema: Schema, on_violation: OnViolation = "refuse") -> list[str]:
    """Every problem of a file or frame, one line each; an unreadable file is one problem. Empty: all is well."""
    try:
        return schema.problems(source, on_violation)
    except DataError as error:
        return [str(error)]


def _declared(name: str, bounds: Mapping[str, Any], categories: Mapping[str, Any], missing: Any) -> Column:
    if (name in bounds) == (name in categories):
        both = "both bounds and categories" if name in bounds else "neither bounds nor categories"
        raise AgreementError(f"data.bounds.{name}: the column has {both}; declare exactly one of the two")
    try:
        if name in bounds:
            low, high = bounds[name]
            return Number(name, float(low), float(high), missing if missing is None else float(missing))
        return Category(name, tuple(str(level) for level in categories[name]), missing)
    except (DataError, TypeError, ValueError) as error:
        key = "bounds" if name in bounds else "categories"
        raise AgreementError(f"data.{key}.{name}: {error}; declare [low, high] or two or more levels") from None


def _encode_numbers(column: Number, series: nw.Series[Any], on_violation: OnViolation) -> tuple[Array, list[str]]:
    name = column.name
    if not series.dtype.is_numeric():
        values, wrong = _numbers_in_text(series)
        if wrong is not None:
            row, value = wrong
            return values, [f"{name}, row {row + 1}: is {value!r}, not a number; correct it, or declare a category"]
    else:
        # Copied: some libraries hand out read-only views.
        values = np.array(series.cast(nw.Float64).fill_null(math.nan).to_numpy(), dtype=np.float64)
    absent = np.isnan(values)
    problems: list[str] = []
    if absent.any() and column.missing is None:
        problems.append(
            _at(name, absent, "is missing; fill it in, leave the row out, or declare what missing counts as")
        )
    if column.missing is not None:
        values[absent] = column.missing
    if on_violation == "clamp":
        # Infinity is no number that has a nearest bound: it is refused below, as is NaN above.
        values = np.where(np.isfinite(values), np.clip(values, column.low, column.high), values)
    elif column.cap:
        values = np.where(np.isfinite(values), np.minimum(values, column.high), values)
    advice = "correct it, declare wider bounds, or clamp"
    for outside, side, bound in (
        (values < column.low, "below", column.low),
        (values > column.high, "above", column.high),
    ):
        if outside.any():
            worst = values[int(np.argmax(outside))]
            problems.append(_at(name, outside, f"is {worst:.12g}, {side} its declared bound {bound:.12g}; {advice}"))
    return values, problems


def _numbers_in_text(series: nw.Series[Any]) -> tuple[Array, tuple[int, object] | None]:
    """A column that is not of a numeric type: its numbers, or the first row that holds none."""
    values = np.full(len(series), math.nan)
    for row, value in enumerate(series.to_list()):
        if value is None or (isinstance(value, str) and value.strip() in MISSING):
            continue
        if isinstance(value, bool) or not isinstance(value, str | int | float | np.number):
            return values, (row, value)
        try:
            values[row] = float(value)
        except ValueError:
            return values, (row, value)
    return values, None


def _encode_levels(
    name: str, series: nw.Series[Any], codes: Mapping[str, float], missing: str | None
) -> tuple[Array, list[str]]:
    labels, place = _distinct_labels(series)
    known = {**codes, **({} if missing is None else {"": codes[missing]})}
    values = np.array([known.get(label, math.nan) for label in labels])[place]
    unknown = np.isnan(values)
    absent = unknown & np.array([not label for label in labels])[place]
    problems: list[str] = []
    if absent.any():
        advice = "fill it in, leave the row out, or declare the level that missing counts as"
        problems.append(_at(name, absent, f"is missing; {advice}"))
    strange = unknown & ~absent
    if strange.any():
        label = labels[place[int(np.argmax(strange))]]
        declared = _shortened(tuple(codes))
        advice = "correct it, or declare the level"
        problems.append(_at(name, strange, f"is {label!r}, not one of {declared}; {advice}"))
    return values, problems


def _encode_unit(name: str, series: nw.Series[Any]) -> tuple[Int[np.ndarray, " records"], list[str]]:
    labels, place = _distinct_labels(series)
    # Values that read alike name one person, whatever their type in the file.
    numbers: dict[str, int] = {}
    ids = np.array([numbers.setdefault(label, len(numbers)) for label in labels])[place]
    absent = np.array([not label for label in labels])[place]
    if absent.any():
        advice = "every record must say whose it is: fill it in, or leave the row out"
        return ids, [_at(name, absent, f"is missing; {advice}")]
    return ids, []


def _distinct_labels(series: nw.Series[Any]) -> tuple[list[str], Int[np.ndarray, " records"]]:
    """The distinct cells of a column as text, and for each row which of them it holds."""
    try:
        cells = series.to_arrow()
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        coded = cells.dictionary_encode(null_encoding="encode")
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.combine_chunks()
        return [_label(value) for value in coded.dictionary.to_pylist()], coded.indices.to_numpy()
    except (pa.ArrowException, TypeError):
        # Columns of mixed Python objects have no arrow type.
        labels = [_label(value) for value in series.to_list()]
        distinct = {label: k for k, label in enumerate(dict.fromkeys(labels))}
        return list(distinct), np.array([distinct[label] for label in labels])


def _label(value: object) -> str:
    """A cell as the text of a level: surrounding spaces do not count, whole floats read as integers."""
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    text = str(value).strip()
    return "" if text in ("<NA>", "NaT") else text


def _at(name: str, rows: np.ndarray, what: str) -> str:
    """A message about the first of these rows that counts the others."""
    more = int(rows.sum()) - 1
    others = f" (and {more} more {'row' if more == 1 else 'rows'})" if more else ""
    return f"{name}, row {int(np.argmax(rows)) + 1}{others}: {what}"


def _shortened(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown}, and {len(names) - 12} more"
