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

The noise takes no seed and no generator: it cannot be repeated, nor chosen by whoever asks. `DrawnAhead` draws it while
the owner waits for a query, so that the answer does not wait for the noise.
"""

import os
import time
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import opendp.prelude as dp
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.privacy.noise import CLIP_SLACK, GRID, check_value
from copriv.types import Array
from copriv.validation import count, positive

SCALE_SLACK = 1e-12
LASTS = 1.0
"""Seconds for which noise that is drawn ahead may wait."""
_CELL = 2.0**GRID
_MOST = 2.0**52 * _CELL
"""The clamp of noise that is drawn ahead: 4096 in the gradient's unit."""


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

    @cached_property
    def _calibrated(self) -> tuple[float, Any]:
        dp.enable_features("contrib")
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=self.length)
        sensitivity, ε = self.sensitivity * (1 + CLIP_SLACK), float(self.epsilon)
        least = scale = sensitivity / ε * (1 + SCALE_SLACK)
        while scale <= 1.01 * least:  # what is above 1 pays for the grid
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

    def release(self, value: Float[Array, " length"]) -> Float[Array, " length"]:
        """`value` with fresh noise. Raises InvalidInput on a wrong shape, NaN or infinity: nothing is drawn then."""
        check_value(value, self.length)
        return np.array(self._calibrated[1](value.tolist()), dtype=np.float64)


class DrawnAhead:
    """`mechanism` for values of size at most `largest`, with at most one draw of its noise in waiting.

    Where values and noise do not stay clear of the clamp (by 40 scales: less than once in 10¹⁷ numbers), nothing is
    drawn ahead.

    Formal guarantee: `release` keeps the ε that its `LaplaceAnswer` certifies. The noise Z that OpenDP draws is
    independent of everything else, so it may be drawn before the query is known. What leaves, counted in cells of 2^GRID, is

        clamp(round(clamp(v)) + Z),    clamp to ±2⁵²

    The inner clamp brings no two values further apart; rounding does, by at most one cell a coordinate, which the
    certificate counts already; adding Z is the certified mechanism; and what is done after that costs nothing. The outer
    clamp makes this hold in floating point as well: OpenDP gives Z as a float, exact up to 2⁵³, and where Z is larger, the
    sum with a v of at most 2⁵² is beyond the clamp whatever the lost digits were.

    The same Z under two answers would show the difference of their gradients. So it is used by one answer, of the process
    that drew it, within `LASTS` seconds, and an owner drops it when its connection ends (`Owner.drop_noise`). What this does
    not stop: a machine whose memory is set back to a moment between draw and query, facing a learner that kept its own end of
    the connection as it was then. So it is for owners who ask for it (docs/decisions/0003).
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
        """Draw the next answer's noise now, unless there is some in waiting."""
        waiting = self._take()
        if waiting is None and self._possible:
            waiting = os.getpid(), time.monotonic(), self._mechanism.release(np.zeros(self._mechanism.length))
        self._waiting[:] = [] if waiting is None else [waiting]

    def drop(self) -> None:
        """Forget the noise in waiting."""
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
        """The draw in waiting, if it may still be used; it is nobody else's from here on."""
        try:
            process, drawn, _ = waiting = self._waiting.pop()  # one step: two callers never get the same noise
        except IndexError:
            return None
        return waiting if process == os.getpid() and 0 <= time.monotonic() - drawn <= LASTS else None
