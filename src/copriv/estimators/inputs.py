"""What a fit is given, as numbers, before an owner has it: X, y and weights by declared ranges and levels, and whose rows.

`Ranges` map the values of columns and target to [−1, 1], and coefficients back to the columns' own units. `LogScale` maps those
of which no range is known, for the answer that finds it. `Columns` make one feature of each declared level of a category, 1 for
the rows that have it and 0 for the others, as `copriv.data.Category` does. What a row becomes depends on that row alone.
No message quotes a private value.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from jaxtyping import Bool, Float
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

from copriv.data.cells import reading, shortened
from copriv.data.columns import Category
from copriv.errors import DataError, InvalidInput
from copriv.formatting.sanitize import label, printable
from copriv.mechanisms.histograms import BINS
from copriv.model.records import BLOCK, labels_of
from copriv.types import Array

STANDARD = (-3.0, 3.0)
"""Range used where nothing is declared and there are no public rows: three standard deviations of standardised columns."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """Map each column from [low, high] to [−1, 1]; without `shift` by a factor only, so that 0 stays 0."""

    low: Float[Array, " columns"]
    high: Float[Array, " columns"]
    shift: bool

    @classmethod
    def declared(cls, name: str, bounds: Any, columns: int, shift: bool, names: Any = None) -> "Ranges":
        """bounds: (low, high), each a number or one a column; a (low, high) for each column; or these by column name.

        names: of the columns, where they have any. Of two columns ([0, 1], [5, 9]) is two lows and two highs. Raises
        InvalidInput.
        """
        if isinstance(bounds, Mapping):
            bounds = tuple(zip(*_in_order(name, bounds, names), strict=True))
        elif _are_pairs(name, bounds, columns):
            bounds = tuple(zip(*bounds, strict=True))
        try:
            if isinstance(bounds, Set):
                raise TypeError("a set has no order")
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (columns,)) for end in bounds)
        except (TypeError, ValueError):
            raise InvalidInput(
                f'{name}: must be "auto" or (low, high), each a number or {columns} numbers, one for each column; or a '
                "(low, high) for each column, in their order or by name"
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
            raise InvalidInput(f"{name}: every low must be finite and at most its high")
        if max(np.abs(low).max(), np.abs(high).max()) > 1e30:
            raise InvalidInput(f"{name}: must be within ±1e+30; measure the column in another unit")
        made = cls(low, high, shift)
        if ((low < high) & (made.size < 1e-30)).any():  # coefficients would not be finite
            raise InvalidInput(
                f"{name}: a range must be at least 1e-30 wide, or of one value; measure the column in another unit"
            )
        return made

    @property
    def centre(self) -> Float[Array, " columns"]:
        return (self.low + self.high) / 2.0 if self.shift else np.zeros_like(self.low)

    @property
    def size(self) -> Float[Array, " columns"]:
        """Divisor of each column; 0 for a constant column."""
        return (self.high - self.low) / 2.0 if self.shift else np.maximum(np.abs(self.low), np.abs(self.high))

    def among(self, features: Bool[np.ndarray, " features"]) -> "Ranges":
        """These ranges for the `features` that are True, and [−1, 1], which keeps 0 and 1, for the others."""
        low, high = np.where(features, 0.0, -1.0), np.ones(len(features))
        low[features], high[features] = self.low, self.high
        return Ranges(low, high, self.shift)

    def inside(self, values: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
        """Values scaled to [−1, 1]; 0 in constant columns."""
        size = np.where(self.size > 0, self.size, 1.0)
        constant, inside = ~(self.size > 0), np.empty(np.shape(values))
        with np.errstate(all="ignore"):  # a warning would tell of single rows
            for at in range(0, len(inside), BLOCK):  # of a large table copies take longer than the arithmetic
                scaled = np.clip(values[at : at + BLOCK], self.low, self.high, out=inside[at : at + BLOCK])
                scaled -= self.centre
                scaled /= size
                np.clip(scaled, -1.0, 1.0, out=scaled)
        inside[:, constant] = 0.0
        return inside

    def coefficients(self, theta: Float[Array, " columns"]) -> tuple[Float[Array, " columns"], float]:
        """Convert coefficients for columns in [−1, 1] to (coef, intercept) for columns in their own units."""
        coef = np.where(self.size > 0, theta / np.where(self.size > 0, self.size, 1.0), 0.0)
        return coef, float(-coef @ self.centre)


LEAST = -20
"""`LogScale` tells magnitudes from 2⁻²⁰ to 2⁴⁰ apart (10⁻⁶ to 10¹²), by two intervals in each octave."""
_SIDE = BINS // 2
LOUDEST = 0.05
"""Least share of a column's rows in an interval that noise may hide, at most, where ranges are measured."""


@dataclass(frozen=True, eq=False)
class LogScale:
    """Map each column of which no range is known to [−1, 1], by sign and logarithm, for `copriv.mechanisms.histograms`."""

    columns: Bool[np.ndarray, " features"]
    """Which features are mapped; the others, of levels, are kept."""

    def among(self, features: Bool[np.ndarray, " features"]) -> "LogScale":
        return LogScale(features)

    def inside(self, values: Float[Array, "rows features"]) -> Float[Array, "rows features"]:
        """Values on the scale; whatever is below the first magnitude is 0, and beyond the last one as that."""
        with np.errstate(all="ignore"):  # a warning would tell of single rows
            step = np.floor(2.0 * (np.log2(np.abs(values)) - LEAST)) + 1.0
        scaled = np.sign(values) * np.clip(step, 0.0, _SIDE) / _SIDE
        return np.where(self.columns, scaled, values)

    @staticmethod
    def hidden(scale: float, columns: int) -> float:
        """Share of a column's rows in an interval that noise of this scale hides; larger ones are noise in 1 % of answers."""
        return scale * float(np.log(50.0 * BINS * columns))

    @staticmethod
    def found(noisy: Float[Array, " answer"], scale: float, shift: bool) -> "Ranges":
        """From the first to the last interval that noise does not hide, and the next one or a quarter of them at either end."""
        powers = 2.0 ** (LEAST + 0.5 * np.arange(_SIDE + 1))
        ends = np.concatenate([-powers[::-1], powers])
        lows, highs = [], []
        for column in noisy.reshape(-1, BINS):
            seen = np.flatnonzero(column >= min(LogScale.hidden(scale, noisy.size // BINS), column.max()))
            first, last = seen[0], seen[-1]
            wider = 0.25 * (ends[last + 1] - ends[first])
            lows.append(min(ends[max(first - 1, 0)], ends[first] - wider))
            highs.append(max(ends[min(last + 2, BINS)], ends[last + 1] + wider))
        return Ranges(np.array(lows), np.array(highs), shift)


def _is_pair(one: Any) -> bool:
    return isinstance(one, tuple | list | np.ndarray) and len(one) == 2 and all(isinstance(end, Real) for end in one)


def _in_order(name: str, bounds: Mapping[Any, Any], names: Any) -> list[Any]:
    """The pair of each column, from pairs by name."""
    if names is None:
        raise InvalidInput(
            f"{name}: is by column name, and the columns of X have no names; give a DataFrame, or a (low, high) for each column"
        )
    known = list(names)
    missing, unknown = [one for one in known if one not in bounds], [one for one in bounds if one not in known]
    if missing or unknown:
        unknown = list(map(str, unknown))
        says = (
            f"says nothing of {shortened(missing)}" if missing else f"X has no {shortened(unknown)} among its numbers"
        )
        raise InvalidInput(f"{name}: {says}; give a (low, high) for every column of numbers, by its name")
    for one in known:
        if not _is_pair(bounds[one]):
            raise InvalidInput(f"{name}: of column {one!r} must be a pair (low, high)")
    return [bounds[one] for one in known]


def _are_pairs(name: str, bounds: Any, columns: int) -> bool:
    """Whether there is a (low, high) for each column. Raises InvalidInput where that is one of two meanings."""
    if not isinstance(bounds, list | tuple | np.ndarray) or len(bounds) != columns or not all(map(_is_pair, bounds)):
        return False
    if columns != 2:
        return True
    (a, b), (c, d) = bounds
    as_pairs = isinstance(bounds, list) and all(isinstance(one, tuple) for one in bounds)
    if as_pairs and b != c and a <= b and c <= d:
        raise InvalidInput(
            f"{name}: a list of two pairs may be (low, high) of each column, or the two lows and the two highs; give a "
            "mapping by column name, or lists (lows, highs) in a tuple"
        )
    return False


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
        known: list[Any] = list(range(columns))
        shown, how = tuple(f"x{j}" for j in known), "position from 0, since the columns of X have no names"
        if names is not None:
            known, shown, how = list(names), tuple(map(str, names)), "name"
        if categories is None:
            return cls(shown, {})
        if not isinstance(categories, Mapping):
            raise InvalidInput('categories: must be a mapping such as {"place": ("town", "country")}')
        if unknown := [str(one) for one in categories if isinstance(one, bool) or one not in known]:
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


DENSE = 2**30
"""Bytes of a sparse table made dense, at most: owners read dense rows, and a fit holds a few copies of them."""

NO_NUMBER = (
    'X or y: a cell cannot be read as a number; declare the levels of a column of texts, such as categories={"place": '
    '("town", "country")} (a value is not quoted here)'
)


def dense(X: Any) -> Any:
    """A table of which all cells are stored. Raises InvalidInput for a sparse one that would take more than `DENSE`."""
    if not issparse(X):
        return X
    rows, columns = X.shape
    if 8 * rows * columns > DENSE:
        raise InvalidInput(
            f"X: a sparse table of {rows:,} rows and {columns:,} columns takes {8 * rows * columns / 2**30:.3g} GiB when all "
            f"its cells are stored, which a private fit needs; at most {DENSE / 2**30:g} GiB is taken. Give fewer columns, or "
            "an array of your own making"
        )
    return X.toarray()


def has_days(given: Any) -> bool:
    """Whether any column is of days or durations. Raises InvalidInput for a name that two columns have."""
    try:
        table = nw.from_native(given, eager_only=True, allow_series=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise InvalidInput("X: two columns have one name; name each column once") from None
    if isinstance(table, nw.DataFrame):
        return any(kind.is_temporal() for kind in table.schema.values())
    with suppress(ValueError):  # rows of several lengths, of which scikit-learn says more
        return np.asarray(given).dtype.kind in "mM"
    return False


def whose_rows(owners: Any, rows: int) -> Mapping[str, Any]:
    """The rows of each owner. Who the owners are, and whose row each one is, is public."""
    if owners is None:
        return {"owner": np.arange(rows)}
    given = labels_of("owners", owners)
    if len(given) != rows:
        raise InvalidInput(f"owners: needs one label for each of the {rows} rows")
    labels = np.array([label(one) for one in given])
    return {str(name): np.flatnonzero(labels == name) for name in np.unique(labels)}


def shares_of(weights: Any, cap: float, rows: int) -> Any:
    """weight/cap of each row, at most 1. Raises InvalidInput, which quotes no weight."""
    given = None
    with suppress(
        ArithmeticError, TypeError, ValueError
    ):  # raised below, so that no context of the error quotes a weight
        given = np.asarray(weights, dtype=np.float64)
    if given is None:
        raise InvalidInput("sample_weight: must be numbers, one for each row")
    if given.shape != (rows,):
        raise InvalidInput(f"sample_weight: needs one number for each of the {rows} rows, not shape {given.shape}")
    if not (np.isfinite(given) & (given >= 0)).all():
        raise InvalidInput("sample_weight: every weight must be finite, and 0 or more")
    with np.errstate(all="ignore"):  # a warning would tell of single rows
        return np.minimum(given / cap, 1.0)


def with_level(x: Any, level: int) -> Any:
    """The rows with `level` columns of ones behind."""
    return np.column_stack([x, np.ones((len(x), level))]) if level else x


def repeated(whose: Mapping[str, Any], rows: Float[np.ndarray, "rows cells"]) -> list[str]:
    """The owners whose every row, as it was given, is also another owner's: clipped or scaled, rows of others are alike."""
    cells = [{row.tobytes() for row in np.ascontiguousarray(rows[mine])} for mine in whose.values()]
    times = Counter(chain.from_iterable(cells))
    return [name for name, mine in zip(whose, cells, strict=True) if all(times[row] > 1 for row in mine)]


def without_values(message: str) -> str:
    """A message of scikit-learn or NumPy without the cells that it quotes."""
    if "Complex data not supported" in message:
        return "Complex data not supported"
    if "could not be promoted" in message:
        return "X: columns of kinds that do not go together, such as days beside numbers; make them numbers before"
    before, quoted, after = message.partition("array=")
    if quoted:  # all of X, where it is of one dimension
        advice = after[after.rindex("Reshape") :] if "Reshape" in after else ""
        return f"{before.strip().rstrip(':')}. {advice}".rstrip()
    for start in ("could not convert", "invalid literal", "Unable to convert"):
        if start in message:
            return NO_NUMBER
    return message
