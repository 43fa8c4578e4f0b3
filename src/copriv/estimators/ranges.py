"""Declared ranges of columns and target: map values to [−1, 1], and coefficients back to the columns' own units."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

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

    def inside(self, values: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
        """Values scaled to [−1, 1]; 0 in constant columns."""
        size = np.where(self.size > 0, self.size, 1.0)
        scaled = (np.clip(values, self.low, self.high) - self.centre) / size
        return np.clip(scaled, -1.0, 1.0) * (self.size > 0)

    def coefficients(self, theta: Float[Array, " columns"]) -> tuple[Float[Array, " columns"], float]:
        """Convert coefficients for columns in [−1, 1] to (coef, intercept) for columns in their own units."""
        coef = np.where(self.size > 0, theta / np.where(self.size > 0, self.size, 1.0), 0.0)
        return coef, float(-coef @ self.centre)
