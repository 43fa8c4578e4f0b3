"""How long an owner's answer may take, measured on made-up rows: nothing private goes into it, so it may be seen."""

import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from copriv.mechanisms.mechanism import PrivateAnswer
from copriv.model.records import BLOCK, Records
from copriv.privacy.release_time import SAFETY
from copriv.types import Array, Loss

TIMES = 8
"""Timed repetitions of an answer; the longest counts."""
LONG_SAFETY = 2.0
"""Factor on the measured time of an answer that takes thousands of passes."""
MOST_ROWS = 8 * BLOCK
"""Most rows that are timed; for more, the time is taken to be proportional."""


@runtime_checkable
class ManyPasses(Protocol):
    """An answer that goes over its records several times, how often depending on them."""

    def seconds(self, records: Records) -> float:
        """Seconds for the most passes that any records need, from the time of one pass over these."""
        ...


def rehearsed(answer: PrivateAnswer, loss: Loss, rows: int, theta: Float[Array, " p"]) -> float:
    """Seconds that an answer at θ over so many rows takes at most, on this machine."""
    few, rng = min(rows, MOST_ROWS), np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (few, len(theta))) / len(theta)
    made_up = Records.of(x, rng.choice([-1.0, 1.0], few))  # targets that every loss takes
    if isinstance(answer, ManyPasses):
        # Thousands of passes take the mean, and no longest one, so that a part of the safety is enough.
        return answer.seconds(made_up) * rows / few * (LONG_SAFETY / SAFETY)
    return longest_of(lambda: answer.answer(loss, made_up, theta)) * rows / few


def longest_of(work: Callable[[], object], times: int = TIMES) -> float:
    """Seconds; the first call, which imports and fills caches, does not count."""
    work()
    return max(_seconds(work) for _ in range(times))


def mean_of(work: Callable[[], object], times: int = TIMES) -> float:
    """Seconds, as `longest_of`."""
    work()
    return _seconds(lambda: [work() for _ in range(times)]) / times


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
