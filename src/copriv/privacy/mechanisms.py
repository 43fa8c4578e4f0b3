"""The noise that leaves an owner: OpenDP's Laplace mechanism on vectors, checked on both sides.

Formal guarantee. `LaplaceAnswer` releases a mean gradient whose L1 sensitivity is at most `sensitivity`, with pure
differential privacy at most `epsilon`, in floating point: OpenDP adds noise to the value rounded onto a grid of 2^−40
by exact integer arithmetic, so there are no low-order bits that give the value away (numpy's Laplace has them:
an empirical ε of 1.45 was measured at a claimed 1).

Two slacks turn real-number statements into floating-point ones, both in the direction of more noise: the sensitivity
is raised by 1e-9 of itself, which covers the rounding of a sum of up to 1e6 blocks of floats; and the scale by 1e-12,
after which OpenDP's own privacy map must certify ε.

OpenDP takes NaN for 0 and adds noise to vectors of any length, so both are refused here, before it sees them.

The noise takes no seed and no generator: it cannot be repeated, nor chosen by whoever asks.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import opendp.prelude as dp
from jaxtyping import Float

from copriv.errors import CoprivError, InvalidInput
from copriv.types import Array
from copriv.validation import count, positive

SUM_SLACK = 1e-9
SCALE_SLACK = 1e-12
GRID = -40
"""The noise is a multiple of 2^GRID."""


@dataclass(frozen=True)
class LaplaceAnswer:
    """One private answer: a vector of `length` numbers plus an independent Laplace draw on each.

    `epsilon` is for this one answer; `sensitivity` is in L1 for one unit replaced.
    """

    sensitivity: float
    epsilon: Fraction
    length: int

    def __post_init__(self) -> None:
        positive("sensitivity", self.sensitivity)
        positive("epsilon", float(self.epsilon))
        count("length", self.length)

    @cached_property
    def scale(self) -> float:
        """b: at least sensitivity/ε, in the unit of the gradient."""
        return float(self.sensitivity * (1 + SUM_SLACK) / float(self.epsilon) * (1 + SCALE_SLACK))

    @cached_property
    def _measurement(self) -> Any:
        dp.enable_features("contrib")
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=self.length)
        scale = self.scale
        for _ in range(60):
            measurement = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale, k=GRID)
            # The map also counts the rounding onto the grid; certify the budget in exact arithmetic.
            if Fraction(measurement.map(self.sensitivity * (1 + SUM_SLACK))) <= self.epsilon:
                return measurement
            scale *= 1 + 1e-9
        raise CoprivError(
            f"noise: no scale near {self.scale:g} certifies epsilon {float(self.epsilon):g} for sensitivity "
            f"{self.sensitivity:g}; it is too close to the grid of 2^{GRID}: raise gradient_bound or lower records"
        )

    @property
    def certified_epsilon(self) -> float:
        """What OpenDP's privacy map says that one release spends; never more than `epsilon`."""
        return float(self._measurement.map(self.sensitivity))

    def release(self, value: Float[Array, " length"]) -> Float[Array, " length"]:
        """`value` with fresh noise. Raises InvalidInput on a wrong shape, NaN or infinity: nothing is drawn then."""
        if value.shape != (self.length,):
            raise InvalidInput(f"release: expected {self.length} numbers, not shape {value.shape}")
        if not np.isfinite(value).all():
            raise InvalidInput("release: every entry must be finite; a NaN would be answered as 0")
        return np.array(self._measurement([float(v) for v in value]), dtype=np.float64)
