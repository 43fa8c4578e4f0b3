"""Stated costs of privacy as piecewise functions of ε, on each piece of which the best ε has a closed form."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from copriv.forecast.coalition_value import LEAST_EPSILON
from copriv.formatting.cards import Shown
from copriv.terms import PrivacyCost
from copriv.types import Array

Piece = tuple[float, float, float, float, float]
"""Ends of an interval of ε, and the offset, slope and bend of c(ε) = offset + slope·ε + bend·ε² in it; slope or bend is 0."""


def pieces(cost: PrivacyCost, most: float) -> list[Piece]:
    """The pieces of c up to the ε that the owner spends at most, in order of ε."""
    if cost.table is not None:
        (low, paid), found = (0.0, 0.0), []
        for high, price in cost.table:
            slope = (price - paid) / (high - low)
            found.append((low, high, paid - slope * low, slope, 0.0))
            low, paid = high, price
    elif cost.threshold is not None:
        found = [(0.0, cost.threshold, 0.0, 0.0, 0.0), (cost.threshold, np.inf, cost.above or 0.0, 0.0, 0.0)]
    else:
        found = [(0.0, np.inf, 0.0, cost.linear or 0.0, cost.quadratic or 0.0)]
    return [(low, min(high, most), offset, slope, bend) for low, high, offset, slope, bend in found if low < most]


@dataclass(frozen=True, eq=False)
class PrivacyCosts(Shown):
    """c_i(ε) of all owners, as arrays over all pieces, ordered by owner and then by ε."""

    owner: Int[np.ndarray, " pieces"]
    """Index of the owner that a piece is of."""
    low: Float[Array, " pieces"]
    high: Float[Array, " pieces"]
    offset: Float[Array, " pieces"]
    slope: Float[Array, " pieces"]
    bend: Float[Array, " pieces"]

    @classmethod
    def of(cls, costs: Sequence[PrivacyCost], most: Sequence[float]) -> "PrivacyCosts":
        """The costs of owners that spend at most these ε."""
        each = [pieces(cost, ε) for cost, ε in zip(costs, most, strict=True)]
        owner = np.repeat(np.arange(len(each), dtype=np.int64), [len(found) for found in each])
        return cls(owner, *np.array([piece for found in each for piece in found]).T)

    @property
    def _starts(self) -> Int[np.ndarray, " owners"]:
        return np.flatnonzero(np.diff(self.owner, prepend=-1))

    def at(self, epsilon: Float[Array, "*many owners"]) -> Float[Array, "*many owners"]:
        """c_i(ε_i) in money: 0 at ε = 0, infinite beyond what the owner spends at most."""
        ε = np.asarray(epsilon, dtype=np.float64)[..., self.owner]
        costs = self.offset + self.slope * ε + self.bend * ε**2
        costs = np.where((ε > self.low) & (ε <= self.high), costs, np.where(ε > 0, np.inf, 0.0))
        return np.asarray(np.minimum.reduceat(costs, self._starts, axis=-1))

    def least(
        self, pull: Float[Array, "*many owners"]
    ) -> tuple[Float[Array, "*many owners"], Float[Array, "*many owners"]]:
        """The minimum over ε_i, not below 1e-4, of pull_i/ε² + c_i(ε), in money, and the ε_i where it is."""
        a = np.asarray(pull, dtype=np.float64)[..., self.owner]
        ε = np.broadcast_to(self.high, a.shape).copy()
        rising, bent = self.slope > 0, self.bend > 0
        ε[..., rising] = np.cbrt(2.0 * a[..., rising] / self.slope[rising])
        ε[..., bent] = (a[..., bent] / self.bend[bent]) ** 0.25
        ε = np.clip(ε, np.minimum(np.maximum(self.low, LEAST_EPSILON), self.high), self.high)
        value = a / (ε * ε) + self.offset + (self.slope + self.bend * ε) * ε
        least = np.minimum.reduceat(value, self._starts, axis=-1)
        there = np.where(value <= least[..., self.owner], ε, 0.0)
        return least, np.maximum.reduceat(there, self._starts, axis=-1)
