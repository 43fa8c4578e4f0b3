"""Columns of categories: their declared levels, and X as numbers, one feature for each level.

Each level is 1 for the rows that have it and 0 for the others, as `copriv.data.Category` encodes it. Levels are declared,
never read from X, so what a row becomes depends on that row alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from jaxtyping import Bool, Float
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

from copriv.data.cells import reading, shortened
from copriv.data.columns import Category
from copriv.errors import DataError, InvalidInput
from copriv.formatting.sanitize import printable
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of X: which are numbers, and the declared levels of the others."""

    names: tuple[str, ...]
    """x0, x1, ... where X has no names."""
    categories: Mapping[int, Category]
    """Position of a column → its levels."""

    @classmethod
    def declared(cls, categories: Any, names: Any, columns: int) -> "Columns":
        """categories: levels by column name, or by position where `names` is None. Raises InvalidInput."""
        known: list[Any] = list(range(columns) if names is None else names)
        shown = tuple(f"x{j}" if names is None else str(name) for j, name in enumerate(known))
        if categories is None:
            return cls(shown, {})
        if not isinstance(categories, Mapping):
            raise InvalidInput('categories: must be a mapping such as {"place": ("town", "country")}')
        if unknown := [str(one) for one in categories if isinstance(one, bool) or one not in known]:
            how = "position from 0, since the columns of X have no names" if names is None else "name"
            raise InvalidInput(f"categories: X has no column {shortened(unknown)}; give each column by its {how}")
        places = {known.index(one): levels for one, levels in categories.items()}
        return cls(shown, {j: _category(shown[j], levels) for j, levels in places.items()})

    @property
    def numbers(self) -> list[int]:
        """Positions of the columns of numbers."""
        return [j for j in range(len(self.names)) if j not in self.categories]

    @property
    def features(self) -> list[str]:
        """Names of the features: the column's, or column=level for each level."""
        return [
            feature
            for j, name in enumerate(self.names)
            for feature in (self.categories[j].feature_names("declared") if j in self.categories else (name,))
        ]

    @property
    def of_numbers(self) -> Bool[np.ndarray, " features"]:
        """Which features are columns of numbers."""
        widths = [len(self.categories[j].levels) if j in self.categories else 1 for j in range(len(self.names))]
        return np.repeat([j not in self.categories for j in range(len(self.names))], widths)

    def encode(self, X: Any) -> Float[Array, "rows features"]:
        """X: a DataFrame, or an array or nested list of objects, with these columns.

        Raises DataError, which quotes no cell, for a value that is not among the declared levels, and ValueError of
        scikit-learn for a number that is none.
        """
        if issparse(X):
            raise InvalidInput("categories: X is sparse; give a DataFrame or an array")
        table = nw.from_native(X, eager_only=True, pass_through=True)
        if not isinstance(table, nw.DataFrame):
            table = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
            if table.ndim != 2:
                raise DataError("X: must have rows and columns; Reshape your data")
        if len(table) == 0:
            raise DataError("X: has no rows; give at least one")
        blocks = {j: _levels(category, table[:, j]) for j, category in self.categories.items()}
        if self.numbers:
            rest = table[:, self.numbers]
            read = check_array(
                rest.to_native() if isinstance(rest, nw.DataFrame) else rest, dtype=np.float64, input_name="X"
            )
            blocks |= {j: read[:, [k]] for k, j in enumerate(self.numbers)}
        return np.hstack([blocks[j] for j in range(len(self.names))])


def _category(name: str, levels: Any) -> Category:
    whose = printable(repr(name), 60)
    if isinstance(levels, str) or not isinstance(levels, Sequence | np.ndarray):
        raise InvalidInput(f"categories: the levels of column {whose} must be a sequence such as ('a', 'b')")
    texts = [level if isinstance(level, str) else reading(level) for level in levels]
    if None in texts:
        raise InvalidInput(f"categories: a level of column {whose} is neither text nor a number")
    try:
        return Category(name, tuple(str(text) for text in texts))
    except DataError as error:
        raise InvalidInput(f"categories: column {error}") from None


def _levels(category: Category, cells: Any) -> Float[Array, "rows levels"]:
    """One column for each level. Raises DataError, which quotes no cell."""
    try:
        if isinstance(cells, np.ndarray):
            texts = [str(cell) if isinstance(cell, str) else reading(cell) for cell in cells.tolist()]
            cells = nw.new_series(category.name, texts, nw.String, backend="pyarrow")
        read = category.encode(cells, "declared")
    except UnicodeEncodeError:  # half a character, which no level has
        read = None
    if read is None or read.problems:
        raise DataError(
            f"X: column {printable(repr(category.name), 60)} has a value that is missing or is not one of its declared "
            "levels; declare every level there may be, and one for missing values (a value is not quoted here)"
        )
    return read.values
