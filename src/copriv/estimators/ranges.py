"""Declared ranges of columns and target: map values to [−1, 1], and coefficients back to the columns' own units."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from copriv.data.cells import shortened
from copriv.errors import InvalidInput
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
        return cls(low, high, shift)

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
        with np.errstate(all="ignore"):  # a warning would tell of single rows
            scaled = (np.clip(values, self.low, self.high) - self.centre) / size
            return np.clip(scaled, -1.0, 1.0) * (self.size > 0)

    def coefficients(self, theta: Float[Array, " columns"]) -> tuple[Float[Array, " columns"], float]:
        """Convert coefficients for columns in [−1, 1] to (coef, intercept) for columns in their own units."""
        coef = np.where(self.size > 0, theta / np.where(self.size > 0, self.size, 1.0), 0.0)
        return coef, float(-coef @ self.centre)


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
