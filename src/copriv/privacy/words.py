"""Whole numbers modulo 2⁶⁴, in which sums are masked, and how they are held where float64 numbers are."""

from typing import Any

import numpy as np
from jaxtyping import Float, UInt64

from copriv.types import Array

Words = np.ndarray[Any, np.dtype[np.uint64]]
"""Numbers modulo 2⁶⁴."""


def as_numbers(words: UInt64[Words, " length"]) -> Float[Array, " halves"]:
    """Words as float64 numbers, exactly: two for each, of 32 bits, the lower first. Owners' answers and ledgers have these."""
    return np.ascontiguousarray(words, dtype="<u8").view("<u4").astype(np.float64)


def as_words(numbers: Float[Array, " halves"]) -> UInt64[Words, " length"]:
    """The words of `as_numbers`."""
    return np.ascontiguousarray(numbers).astype("<u4").view("<u8").astype(np.uint64, copy=False)
