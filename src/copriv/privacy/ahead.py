"""Laplace noise that is drawn while the owner waits for a query, so that the answer does not wait for the noise.

Formal guarantee: `DrawnAhead.release` keeps the ε that its `LaplaceAnswer` certifies. The noise Z that OpenDP draws is
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

import os
import time

import numpy as np
from jaxtyping import Float

from copriv.privacy.laplace import LaplaceAnswer, check_value
from copriv.privacy.noise import GRID
from copriv.types import Array

LASTS = 1.0
"""Seconds for which noise may wait."""
_CELL = 2.0**GRID
_MOST = 2.0**52 * _CELL
"""The clamp: 4096 in the gradient's unit."""


class DrawnAhead:
    """`mechanism` for values of size at most `largest`, with at most one draw of its noise in waiting.

    Where values and noise do not stay clear of the clamp (by 40 scales: less than once in 10¹⁷ numbers), nothing is
    drawn ahead.
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
