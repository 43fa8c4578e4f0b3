"""The noise that leaves an owner: OpenDP's Laplace mechanism on vectors, checked on both sides.

Formal guarantee. `LaplaceAnswer` releases a mean gradient whose L1 sensitivity is at most `sensitivity`, with pure
differential privacy at most `epsilon`, in floating point: OpenDP adds noise to the value rounded onto a grid of 2^−40
by exact integer arithmetic, so there are no low-order bits that give the value away (numpy's Laplace has them:
an empirical ε of 1.45 was measured at a claimed 1).

Two slacks turn real-number statements into floating-point ones, both in the direction of more noise: the sensitivity
is raised by 1e-9 of itself, which covers the rounding of one clipped vector of up to 1e6 coordinates (that of the sum
over records is in `clipping.mean_sensitivity`); and the scale by 1e-12, after which OpenDP's own privacy map must
certify ε. The map counts the rounding onto the grid too, up to 2^−40 a coordinate, so the scale is raised by that
share; a sensitivity so small that it would be more than 1 % is refused when the mechanism is made, before any charge.

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

from copriv.errors import InvalidInput
from copriv.privacy.noise import CLIP_SLACK, GRID
from copriv.types import Array
from copriv.validation import count, positive

SCALE_SLACK = 1e-12
MOST_FOR_GRID = 1.01
"""The scale may be at most this many times sensitivity/ε; what is above 1 pays for the grid."""


@dataclass(frozen=True)
class LaplaceAnswer:
    """One private answer: a vector of `length` numbers plus an independent Laplace draw on each.

    `epsilon` is for this one answer; `sensitivity` is in L1 for one unit replaced. Raises InvalidInput where one of
    them is not positive, or where no scale near sensitivity/ε can be certified on the grid.
    """

    sensitivity: float
    epsilon: Fraction
    length: int

    def __post_init__(self) -> None:
        positive("sensitivity", self.sensitivity)
        positive("epsilon", float(self.epsilon))
        count("length", self.length)
        _ = self._calibrated  # what cannot be certified must fail here, not after a charge

    @property
    def scale(self) -> float:
        """b: at least sensitivity/ε, in the unit of the gradient."""
        return self._calibrated[0]

    @property
    def _measurement(self) -> Any:
        return self._calibrated[1]

    @cached_property
    def _calibrated(self) -> tuple[float, Any]:
        dp.enable_features("contrib")
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=self.length)
        sensitivity, ε = self.sensitivity * (1 + CLIP_SLACK), float(self.epsilon)
        least = scale = sensitivity / ε * (1 + SCALE_SLACK)
        while scale <= MOST_FOR_GRID * least:
            measurement: Any = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale, k=GRID)
            # Certify the budget in exact arithmetic; what the grid costs goes down as the scale goes up.
            certified = Fraction(measurement.map(sensitivity))
            if certified <= self.epsilon:
                return scale, measurement
            scale *= max(float(certified / self.epsilon), 1.0) * (1 + SCALE_SLACK)
        raise InvalidInput(
            f"noise: no scale near {least:g} certifies epsilon {ε:g} for {self.length} numbers of sensitivity "
            f"{self.sensitivity:g}; it is too close to the grid of 2^{GRID}: give features and target in smaller units "
            "(so that gradients, and gradient_bound, are larger)"
        )

    @property
    def certified_epsilon(self) -> float:
        """ε that one release spends by OpenDP's privacy map; never more than `epsilon`."""
        return float(self._measurement.map(self.sensitivity))

    def release(self, value: Float[Array, " length"]) -> Float[Array, " length"]:
        """`value` with fresh noise. Raises InvalidInput on a wrong shape, NaN or infinity: nothing is drawn then."""
        check_value(value, self.length)
        return np.array(self._measurement(value.tolist()), dtype=np.float64)


def check_value(value: Array, length: int) -> None:
    """Raises InvalidInput for what is not a vector of finite numbers."""
    if value.shape != (length,):
        raise InvalidInput(f"release: expected {length} numbers, not shape {value.shape}")
    if not np.isfinite(value).all():
        raise InvalidInput("release: every entry must be finite; a NaN would be answered as 0")
