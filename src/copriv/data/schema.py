"""The schema of a table: its columns and target, declared before anybody looks at the records.

A schema is public, and part of the agreement. It encodes each row without any other row: bounds, levels and scales are
declared, never measured, so an encoding reveals nothing about private records. The kinds of columns are in `columns`.

`scaling = "none"` encodes as the papers did (A, §V-A; S, §IV-A): numbers in their own units, levels 0, 1, 2, ....
Columns of dollars then outweigh all others in a dictionary; "declared" gives models that predict far better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from copriv.data.cells import Fault, persons, shortened
from copriv.data.columns import Boolean as Boolean
from copriv.data.columns import Category as Category
from copriv.data.columns import Column as Column
from copriv.data.columns import Date as Date
from copriv.data.columns import Number as Number
from copriv.data.columns import OnViolation as OnViolation
from copriv.data.columns import Scaling as Scaling
from copriv.data.columns import Target
from copriv.data.columns import TwoClasses as TwoClasses
from copriv.data.tables import Table, read_table
from copriv.errors import DataError
from copriv.formatting.cards import Shown
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class EncodedTable(Shown):
    """A table as numbers; row r of each part is row r of the table.

    >>> import pandas
    >>> from copriv.data import Number, Schema
    >>> schema = Schema((Number("age", 0, 100),), Number("rate", 0, 10))
    >>> encoded = schema.encode(pandas.DataFrame({"age": [20, 50], "rate": [3.0, 4.0]}))
    >>> encoded.features.tolist(), encoded.target.tolist()
    ([[0.2], [0.5]], [3.0, 4.0])
    """

    features: Float[Array, "records columns"]
    """As the schema's scaling says."""
    target: Float[Array, " records"]
    unit: Int[np.ndarray, " records"] | None
    """Which person a row belongs to, numbered in order of first appearance; None: each row is its own unit."""
    moved: Mapping[str, int] = field(default_factory=dict)
    """Column → number of its cells that were out of bounds and counted as a bound. Private: for the owner only."""

    def __len__(self) -> int:
        return len(self.target)

    def at(self, rows: Int[np.ndarray, "_"]) -> "EncodedTable":
        """Select rows, in this order."""
        return EncodedTable(self.features[rows], self.target[rows], None if self.unit is None else self.unit[rows])


@dataclass(frozen=True)
class Schema(Shown):
    """Declared columns, target and, where persons are the privacy unit, the column that names them.

    >>> from copriv.data import Category, Number, Schema
    >>> schema = Schema((Number("amount", 0, 5e4), Category("purpose", ("car", "house"))), Number("rate", 0, 30))
    >>> schema.names, schema.feature_names, schema.target_bound
    (('amount', 'purpose', 'rate'), ('amount', 'purpose=car', 'purpose=house'), 30)
    """

    columns: tuple[Column, ...]
    target: Target
    unit: str | None = None
    scaling: Scaling = "declared"

    def __post_init__(self) -> None:
        if not self.columns:
            raise DataError("schema: declare at least one feature column")
        for name in self.names:
            if self.names.count(name) > 1:
                raise DataError(f"{name}: declared twice; declare each column once")

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that a table must have."""
        unit = () if self.unit is None else (self.unit,)
        return (*(column.name for column in self.columns), self.target.name, *unit)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded features, in order: one or more for each column."""
        return tuple(name for column in self.columns for name in column.feature_names(self.scaling))

    @property
    def target_bound(self) -> float:
        """Declared bound on |y|."""
        return max(abs(self.target.low), abs(self.target.high)) if isinstance(self.target, Number) else 1.0

    def encode(self, table: object, on_violation: OnViolation = "refuse") -> EncodedTable:
        """Encode a table as numbers, each row from itself alone.

        Raises DataError naming column and row: a missing column, a wrong type, NaN, an unknown category, a value
        outside its bounds. With `on_violation = "clamp"` a finite number outside its bounds moves to the nearest bound;
        the other faults are refused all the same.
        """
        encoded, problems = self.checked(read_table(table, self.names), on_violation)
        if encoded is None:
            more = f" ({len(problems) - 1} more: `copriv data check` lists them)" * (len(problems) > 1)
            raise DataError(f"{problems[0]}{more}")
        return encoded

    def problems(self, table: object, on_violation: OnViolation = "refuse") -> list[str]:
        """List the faults of a table: one line for each kind of fault of each column."""
        return [str(one) for one in self.checked(read_table(table, self.names), on_violation)[1]]

    def checked(self, table: Table, on_violation: OnViolation = "refuse") -> tuple[EncodedTable | None, list[Fault]]:
        """Encode a table as far as it has no faults; None where it has some."""
        have = table.columns
        problems = lacking(self.names, have)
        if len(table) == 0:
            return None, [*problems, Fault("table", "rows", "has no rows; give at least one record")]
        read = {
            column.name: column.encode(table.get_column(column.name), self.scaling, on_violation)
            for column in self.columns
            if column.name in have
        }
        if self.target.name in have:
            read[self.target.name] = self.target.read(table.get_column(self.target.name), on_violation)
        problems += [problem for cells in read.values() for problem in cells.problems]
        unit = None
        if self.unit is not None and self.unit in have:
            labels, place = persons(table[self.unit])
            numbers = {label: k for k, label in enumerate(dict.fromkeys(labels))}
            unit = np.array([numbers[label] for label in labels])[place]
            if None in numbers:
                what = "is missing, or neither text nor a number that is exact; every record must say whose it is"
                what += ": fill it in, or leave the row out"
                problems.append(Fault.of(self.unit, "missing", unit == numbers[None], what))
        if problems:
            return None, problems
        features = _beside([read[column.name].values for column in self.columns])
        moved = {name: cells.moved for name, cells in read.items() if cells.moved}
        return EncodedTable(features, read[self.target.name].values, unit, moved), []


def _beside(parts: list[Array]) -> Array:
    """Put matrices of the same rows side by side, a few rows at a time: as np.hstack, in less time for many rows."""
    whole = np.empty((len(parts[0]), sum(part.shape[1] for part in parts)))
    for begin in range(0, len(whole), 2048):  # rows that stay in the processor's cache
        rows = slice(begin, begin + 2048)
        np.concatenate([part[rows] for part in parts], axis=1, out=whole[rows])
    return whole


def lacking(names: Sequence[str], have: Sequence[str]) -> list[Fault]:
    """List the missing ones of these columns. have: the columns of the table."""
    present = shortened([name for name in names if name in have]) or "none"
    advice = "add it, or correct the schema or the column's name"
    return [
        Fault(name, "column", f"the table has no such column (of those declared it has {present}); {advice}")
        for name in names
        if name not in have
    ]


def check_table(source: object, schema: Schema, on_violation: OnViolation = "refuse") -> list[str]:
    """List the problems of a file or frame, one line each; an unreadable file is one problem.

    >>> import pandas
    >>> from copriv.data import Number, Schema, check_table
    >>> schema = Schema((Number("age", 0, 100),), Number("rate", 0, 10))
    >>> check_table(pandas.DataFrame({"age": [20, 200], "rate": [3.0, 4.0]}), schema)
    ['age, row 2: ...']
    """
    try:
        return schema.problems(source, on_violation)
    except DataError as error:
        return [str(error)]
