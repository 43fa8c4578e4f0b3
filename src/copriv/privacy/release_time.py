"""Release times of answers that do not depend on the records or on the noise.

The time of computing an answer is itself a side channel: a solver's number of passes depends on the records, and the time
of an exact sampler on the size of its noise (Spearman's rank correlation is 0.4 for OpenDP 0.15 on an idle machine). An
owner that answers over a network therefore holds each answer, and each failure, until a whole number of slots after it
began. A slot is several times as long as an answer takes at most, measured on made-up rows without private data
(`measured_seconds`), so that this number is 1.

Limits: an answer that takes longer than its slot is released at the end of the next one, which reveals that it was late.
The solver's number of passes has a proved bound, which the slot allows for; the sampler's time has exponential tails; the
other cause is a machine that is busy with other work. `late` counts these answers, and the owner's log reports them.
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
"""Length of a slot as a multiple of an answer's measured time."""


class ReleaseTime:
    """Slots of `slot` seconds. Tests replace the system's `now` and `sleep`."""

    def __init__(
        self, slot: float, now: Callable[[], float] = time.perf_counter, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.slot, self.late = slot, 0
        self._now, self._sleep = now, sleep

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay the end of the block until a whole number of slots after its start, also where it raises."""
        begun = self._now()
        try:
            yield
        finally:
            slots = max(1, math.ceil((self._now() - begun) / self.slot))
            self.late += slots > 1
            until = begun + slots * self.slot
            # The last half millisecond is busy waiting, because the delay of waking up depends on the time of sleeping.
            if (rest := until - self._now() - 5e-4) > 0:
                self._sleep(rest)
            while self._now() < until:
                pass


def rounded_slot(seconds: float) -> float:
    """The slot for an answer of this measured time: SAFETY times it, at least 1 ms, rounded up to 1, 2 or 5 times 10^k."""
    least = max(SAFETY * seconds, 1e-3)
    power = 10.0 ** math.floor(math.log10(least) + 1e-9)
    return next(digit * power for digit in (1.0, 2.0, 5.0, 10.0) if digit * power >= least * (1 - 1e-9))


@runtime_checkable
class ManyPasses(Protocol):
    """A mechanism whose number of passes over the records depends on them."""

    def seconds(self, records: Records) -> float:
        """Seconds for the largest number of passes that any records need, from the time of one pass over these."""


def measured_seconds(answer: PrivateAnswer, loss: Loss, rows: int, theta: Float[Array, " p"]) -> float:
    """Seconds that an answer at θ on this number of rows takes at most, measured on this machine."""
    few, rng = min(rows, 8 * BLOCK), np.random.default_rng(0)  # extrapolated linearly to more rows
    x = rng.uniform(-1.0, 1.0, (few, len(theta))) / len(theta)
    made_up = Records.of(x, rng.choice([-1.0, 1.0], few))  # targets that every loss takes
    if isinstance(answer, ManyPasses):
        # Thousands of passes take close to their mean time, so that a factor of 2 is safe.
        return answer.seconds(made_up) * rows / few * (2.0 / SAFETY)
    return max(timed(lambda: answer.answer(loss, made_up, theta))) * rows / few


def timed(work: Callable[[], object], times: int = 8) -> list[float]:
    """Seconds of each of `times` calls, after one that imports modules and fills caches."""
    work()
    begun = [time.perf_counter()]
    for _ in range(times):
        work()
        begun.append(time.perf_counter())
    return np.diff(begun).tolist()
