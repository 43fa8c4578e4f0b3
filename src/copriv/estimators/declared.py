"""What is declared of columns and target, and the way from their units to [−1, 1] and back. Nothing private is looked at.

A value outside its declared range counts as the nearest end of it. Each row is mapped from itself alone.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.formatting.sanitize import printable
from copriv.types import Array

LARGEST = 1e30
"""Of a bound, in the column's unit."""
STANDARD = (-3.0, 3.0)
"""Taken where nothing is declared and there are no public rows: the range of standardised numbers."""


class UndeclaredWarning(UserWarning):
    """Something that should be declared was not; the message says what was taken in its place.

    >>> import warnings
    >>> from copriv.estimators import UndeclaredWarning
    >>> warnings.simplefilter("error", UndeclaredWarning)  # bounds are then declared, or there is no fit
    >>> warnings.resetwarnings()
    """


@dataclass(frozen=True, eq=False)
class Ranges:
    """From [low, high] to [−1, 1], a column each; without `shift` to [−1, 1] by a factor alone, so that 0 stays 0."""

    low: Float[Array, " columns"]
    high: Float[Array, " columns"]
    shift: bool

    @classmethod
    def declared(cls, name: str, bounds: Any, columns: int, shift: bool) -> "Ranges":
        """bounds: (low, high), each a number or one a column. Raises InvalidInput."""
        try:
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (columns,)) for end in bounds)
        except (TypeError, ValueError):
            raise InvalidInput(
                f'{name}: must be "auto" or (low, high), each a number or {columns} numbers, one for each column'
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
            raise InvalidInput(f"{name}: every low must be finite and at most its high")
        if max(np.abs(low).max(), np.abs(high).max()) > LARGEST:
            raise InvalidInput(f"{name}: must be within ±{LARGEST:g}; measure the column in another unit")
        return cls(low, high, shift)

    @classmethod
    def of_public(cls, values: Float[Array, "rows columns"], shift: bool) -> "Ranges":
        """The range that public rows show."""
        return cls(values.min(axis=0), values.max(axis=0), shift)

    @property
    def centre(self) -> Float[Array, " columns"]:
        return (self.low + self.high) / 2.0 if self.shift else np.zeros_like(self.low)

    @property
    def size(self) -> Float[Array, " columns"]:
        """What is divided by; 0 for a column that says nothing."""
        return (self.high - self.low) / 2.0 if self.shift else np.maximum(np.abs(self.low), np.abs(self.high))

    def inside(self, values: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
        """In [−1, 1]; 0 where the column says nothing."""
        size = np.where(self.size > 0, self.size, 1.0)
        scaled = (np.clip(values, self.low, self.high) - self.centre) / size
        return np.clip(scaled, -1.0, 1.0) * (self.size > 0)

    def coefficients(self, theta: Float[Array, " columns"]) -> tuple[Float[Array, " columns"], float]:
        """(coef, intercept) for columns in their own units, of coefficients for columns in [−1, 1]."""
        coef = np.where(self.size > 0, theta / np.where(self.size > 0, self.size, 1.0), 0.0)
        return coef, float(-coef @ self.centre)


def budget(name: str, value: Any, owner: str) -> float:
    """An owner's part of epsilon or delta, which are one number for all or a mapping by owner. Raises InvalidInput."""
    if not isinstance(value, dict):
        return number(name, value)
    if owner not in value:
        raise InvalidInput(f"{name}: says nothing of owner {owner!r}; give every owner's, or one number for all")
    return number(name, value[owner])


def number(name: str, value: Any) -> float:
    """A parameter as a number: a text is none, and neither is True. Raises InvalidInput."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InvalidInput(f"{name}: must be a number, not {printable(repr(value), 60)}")
    return float(value)
