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

OpenDP takes NaN for 0 and adds noise to vectors of any length, so both are refused here before it is called.

The noise takes no seed and no generator: it can be neither repeated nor chosen. `DrawnAhead` draws it while the owner waits
for a query, so that the answer does not wait for the noise.
"""

import os
import time
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_laplace
from opendp.metrics import l1_distance
from opendp.mod import enable_features

from copriv.errors import InvalidInput
from copriv.privacy.noise import CLIP_SLACK, GRID, check_value
from copriv.types import Array
from copriv.validation import count, positive

SCALE_SLACK = 1e-12
"""Relative increase of the scale, so that OpenDP's certificate is not missed by rounding."""
LASTS = 1.0
"""Seconds after which noise that was drawn ahead is discarded."""
_CELL = 2.0**GRID
_MOST = 2.0**52 * _CELL
"""Clamp of answers with noise drawn ahead: 4096 in the gradient's unit."""


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
        _ = self._calibrated  # raises here, before any charge

    @property
    def scale(self) -> float:
        """b: at least sensitivity/ε, in the unit of the gradient."""
        return self._calibrated[0]

    @cached_property
    def _calibrated(self) -> tuple[float, Any]:
        enable_features("contrib")
        domain = vector_domain(atom_domain(T=float, nan=False), size=self.length)
        sensitivity, ε = self.sensitivity * (1 + CLIP_SLACK), float(self.epsilon)
        least = scale = sensitivity / ε * (1 + SCALE_SLACK)
        while scale <= 1.01 * least:  # the increase pays for the grid
            measurement: Any = make_laplace(domain, l1_distance(T=float), scale=scale, k=GRID)
            # Certify the budget in exact arithmetic; the cost of the grid decreases as the scale increases.
            certified = Fraction(measurement.map(sensitivity))
            if certified <= self.epsilon:
                return scale, measurement
            scale *= max(float(certified / self.epsilon), 1.0) * (1 + SCALE_SLACK)
        raise InvalidInput(
            f"noise: no scale near {least:g} certifies epsilon {ε:g} for {self.length} numbers of sensitivity "
            f"{self.sensitivity:g}; it is too close to the grid of 2^{GRID}: give features and target in smaller units "
            "(so that gradients, and gradient_bound, are larger)"
        )

    def release(self, value: Float[Array, " length"]) -> Float[Array, " length"]:
        """`value` with fresh noise. Raises InvalidInput on a wrong shape, NaN or infinity: nothing is drawn then."""
        check_value(value, self.length)
        return np.array(self._calibrated[1](value.tolist()), dtype=np.float64)


class DrawnAhead:
    """`mechanism` for values of absolute value at most `largest`, with at most one draw of its noise stored.

    No noise is drawn ahead where values come closer to the clamp than 40 scales (which noise exceeds less than once in 10¹⁷
    numbers).

    Formal guarantee: `release` keeps the ε that its `LaplaceAnswer` certifies. The noise Z that OpenDP draws is
    independent of everything else, so it may be drawn before the query is known. What leaves, counted in cells of 2^GRID, is

        clamp(round(clamp(v)) + Z),    clamp to ±2⁵²

    The inner clamp brings no two values further apart; rounding does, by at most one cell a coordinate, which the
    certificate counts already; adding Z is the certified mechanism; and what is done after that costs nothing. The outer
    clamp makes this hold in floating point as well: OpenDP gives Z as a float, exact up to 2⁵³, and where Z is larger, the
    sum with a v of at most 2⁵² is beyond the clamp whatever the lost digits were.

    The same Z in two answers would reveal the difference of their gradients. It is therefore used in one answer, by the
    process that drew it, within `LASTS` seconds, and an owner discards it when its connection ends (`Owner.drop_noise`). This
    does not protect a machine whose memory is restored to a state between draw and query, while the learner keeps its end of
    the connection. Drawing ahead is therefore an option that owners have to ask for (docs/decisions/0003).
    """

    def __init__(self, mechanism: LaplaceAnswer, largest: float) -> None:
        self._mechanism = mechanism
        self._possible = largest + 40.0 * mechanism.scale <= _MOST
        self._waiting: list[tuple[int, float, Array]] = []

    @property
    def scale(self) -> float:
        """b: at least sensitivity/ε, in the unit of the gradient."""
        return self._mechanism.scale

    def draw(self) -> None:
        """Draw the next answer's noise now, unless a draw is stored."""
        waiting = self._take()
        if waiting is None and self._possible:
            waiting = os.getpid(), time.monotonic(), self._mechanism.release(np.zeros(self._mechanism.length))
        if waiting is not None:
            self._waiting[:] = [waiting]

    def drop(self) -> None:
        """Discard the stored noise."""
        self._waiting.clear()

    def release(self, value: Float[Array, " length"]) -> Float[Array, " length"]:
        """`value` with fresh noise. Raises InvalidInput on a wrong shape, NaN or infinity: no noise is used then."""
        check_value(value, self._mechanism.length)
        waiting = self._take()
        if waiting is None:
            return self._mechanism.release(value)
        cells = np.rint(np.clip(value, -_MOST, _MOST) / _CELL) + waiting[2] / _CELL
        return np.clip(cells * _CELL, -_MOST, _MOST) + 0.0  # no zero with a sign

    def _take(self) -> tuple[int, float, Array] | None:
        """Remove the stored draw, and return it if it may still be used."""
        try:
            process, drawn, _ = waiting = self._waiting.pop()  # atomic: two callers never get the same noise
        except IndexError:
            return None
        if process == os.getpid() and 0 <= time.monotonic() - drawn <= LASTS:
            return waiting
        return None
