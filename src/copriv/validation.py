"""Checks on single values. Each returns what it was given, or raises with the name, the rule and the value.

NaN fails every check: each condition is stated as what must hold, and a comparison with NaN never holds.
"""

import math
from typing import Any

import numpy as np

from copriv.errors import InvalidInput
from copriv.types import Array


def positive(name: str, value: float) -> float:
    """A finite number above 0."""
    if not (0 < value < math.inf):
        raise InvalidInput(f"{name}: must be a finite number above 0, not {value!r}")
    return float(value)


def non_negative(name: str, value: float) -> float:
    """A finite number, 0 or more."""
    if not (0 <= value < math.inf):
        raise InvalidInput(f"{name}: must be a finite number, 0 or more, not {value!r}")
    return float(value)


def count(name: str, value: int, least: int = 1) -> int:
    """A whole number of at least `least`; True and 3.0 are not whole numbers here."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"{name}: must be a whole number of at least {least}, not {value!r}")
    return int(value)


def finite_array(name: str, value: Any, ndim: int) -> Array:
    """A float64 array with `ndim` axes and no NaN or infinity; the message names the first bad entry."""
    try:
        if np.asarray(value).dtype.kind in "mM":  # float64 of a date is a count of days or of nanoseconds, by its dtype
            raise TypeError("not days or durations")
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{name}: must be numbers ({error})") from None
    if array.ndim != ndim:
        raise InvalidInput(f"{name}: must have {ndim} axes, not {array.ndim} (shape {array.shape})")
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise InvalidInput(f"{name}: entry {list(where)} is {array[where]}; every entry must be finite")
    return array
