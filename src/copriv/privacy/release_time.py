"""When an answer leaves: at a time that is fixed before its records are read, so that the wait for it tells nothing.

How long an answer takes depends on what it is made of. A solver's number of passes depends on the records, and the time of
an exact sampler on the size of the noise that it drew, which is as good as the noise itself to whoever can measure it
(of OpenDP 0.15, Spearman's rank correlation is 0.4 on an idle machine). So an owner that answers over a network holds
each answer, and each failure, until a whole number of slots after it began. The slot is several times what an answer
takes at most, as measured on made-up rows (`rehearsed`), into which nothing private goes, so that this number is 1.

What is not hidden: an answer that takes longer than its slot leaves with the next one, which shows that it was late.
For the solver a bound on its passes is proved and paid for in the slot; that of the sampler has exponential tails; what
remains is a machine that is busy with other things. `late` counts them, and the owner's log says so.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from copriv.model.records import BLOCK, Records
from copriv.privacy.noise import PrivateAnswer
from copriv.types import Array, Loss

SAFETY = 4.0
"""Length of a slot, in measured times of an answer."""
_AWAKE = 5e-4
"""Seconds of busy waiting before the end of a slot: how late a sleeper wakes depends on how long it slept."""


class ReleaseTime:
    """Slots of `slot` seconds. `now` and `sleep` are those of the system, but in tests."""

    def __init__(
        self, slot: float, now: Callable[[], float] = time.perf_counter, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.slot, self.late = slot, 0
        self._now, self._sleep = now, sleep

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the block's end until a whole number of slots after its start, also where it raises."""
        begun = self._now()
        try:
            yield
        finally:
            slots = max(1, math.ceil((self._now() - begun) / self.slot))
            self.late += slots > 1
            until = begun + slots * self.slot
            if (rest := until - self._now() - _AWAKE) > 0:
                self._sleep(rest)
            while self._now() < until:
                pass


def rounded_slot(seconds: float) -> float:
    """The slot for an answer that was measured to take so long: SAFETY times that, rounded up to 1, 2 or 5 times 10^k.

    A millisecond at least.
    """
    least = max(SAFETY * seconds, 1e-3)
    power = 10.0 ** math.floor(math.log10(least) + 1e-9)
    return next(digit * power for digit in (1.0, 2.0, 5.0, 10.0) if digit * power >= least * (1 - 1e-9))


@runtime_checkable
class ManyPasses(Protocol):
    """An answer that goes over its records several times, how often depending on them."""

    def seconds(self, records: Records) -> float:
        """Seconds for the most passes that any records need, from the time of one pass over these."""


def rehearsed(answer: PrivateAnswer, loss: Loss, rows: int, theta: Float[Array, " p"]) -> float:
    """Seconds that an answer at θ over so many rows takes at most, on this machine."""
    few, rng = min(rows, 8 * BLOCK), np.random.default_rng(0)  # beyond so many, time is taken to be proportional
    x = rng.uniform(-1.0, 1.0, (few, len(theta))) / len(theta)
    made_up = Records.of(x, rng.choice([-1.0, 1.0], few))  # targets that every loss takes
    if isinstance(answer, ManyPasses):
        # Thousands of passes take the mean, and no longest one, so that a factor of 2 is safe.
        return answer.seconds(made_up) * rows / few * (2.0 / SAFETY)
    return max(timed(lambda: answer.answer(loss, made_up, theta))) * rows / few


def timed(work: Callable[[], object], times: int = 8) -> list[float]:
    """Seconds of each call; a first one, which imports and fills caches, does not count."""
    work()
    begun = [time.perf_counter()]
    for _ in range(times):
        work()
        begun.append(time.perf_counter())
    return np.diff(begun).tolist()
