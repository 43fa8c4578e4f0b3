"""Release times of answers that do not depend on the records or on the noise.

The time of computing an answer is itself a side channel: a solver's number of passes depends on the records, and the time
of an exact sampler on the size of its noise (Spearman's rank correlation is 0.4 for OpenDP 0.15 on an idle machine). An
owner that answers over a network therefore holds each answer, and each failure, until a whole number of slots after it
began. A slot is SAFETY times as long as answers take, measured on made-up rows without private data (`measured_seconds`), so
that this number is 1.

Limits: an answer that takes longer than its slot is released at the end of the next one, which reveals that it was late.
The solver's number of passes has a proved bound, which the slot allows for; the sampler's time has exponential tails; the
other cause is a machine that is busy with other work. `late` counts these answers, and the owner's log reports them.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from copriv.model.records import BLOCK, InBlocks, Records
from copriv.privacy.noise import PrivateAnswer
from copriv.types import Array, Loss

SAFETY = 1.5
"""Length of a slot as a multiple of an answer's measured time (`python -m benchmarks.release_time`)."""
STEP = 1.1
"""Ratio of one length of a slot to the one before it."""
SHORTEST = 1e-3
"""Length of the shortest slot, in seconds."""


class ReleaseTime:
    """Slots of `slot` seconds. Tests replace the system's `now` and `sleep`."""

    def __init__(
        self, slot: float, now: Callable[[], float] = time.perf_counter, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.slot, self.late = slot, 0
        self._now, self._sleep = now, sleep

    def at_least(self, slot: float) -> None:
        """Lengthen slots to at least this many seconds from now on."""
        self.slot = max(self.slot, slot)

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
    """The slot for work of this measured time: SAFETY times it, rounded up to SHORTEST times a power of STEP."""
    power = math.ceil(math.log(max(SAFETY * seconds, SHORTEST) / SHORTEST) / math.log(STEP) - 1e-9)
    return SHORTEST * STEP**power


def coarse_slot(seconds: float) -> float:
    """As `rounded_slot`, for a time that depends on private rows: rounded up to 1, 2 or 5 times a power of ten."""
    least = max(SAFETY * seconds, SHORTEST)
    power = 10.0 ** math.floor(math.log10(least) + 1e-9)
    return next(digit * power for digit in (1.0, 2.0, 5.0, 10.0) if digit * power >= least * (1 - 1e-9))


@runtime_checkable
class ManyPasses(Protocol):
    """A mechanism whose number of passes over the records depends on them."""

    def seconds(self, records: Records) -> float:
        """Seconds for the largest number of passes that any records need, from the time of one pass over these."""


@runtime_checkable
class KeepsOfRecords(Protocol):
    """A mechanism whose first answer computes a result that later answers reuse."""

    def keep(self, loss: Loss, records: Records) -> None:
        """Compute that result now, so that the first answer takes as long as the others."""


def measured_seconds(
    answer: PrivateAnswer,
    loss: Loss,
    rows: int,
    theta: Float[Array, " p"],
    made_up: Callable[[int], AbstractContextManager[InBlocks]] | None = None,
) -> float:
    """Seconds that an answer at θ on this number of rows takes at most, measured on this machine.

    made_up: makes a table of this many rows, which is read again for each answer; None: the rows are in memory.
    """
    few, rng = min(rows, 8 * BLOCK), np.random.default_rng(0)
    if made_up is not None:
        with made_up(few) as table:
            return _of_more(timed(lambda: answer.answer(loss, table, theta)), rows / few)
    x = rng.uniform(-1.0, 1.0, (few, len(theta))) / len(theta)
    held = Records.of(x, rng.choice([-1.0, 1.0], few))  # targets that every loss takes
    if isinstance(answer, ManyPasses):
        return answer.seconds(held) * rows / few  # thousands of passes take close to their mean time
    return _of_more(timed(lambda: answer.answer(loss, held, theta)), rows / few)


def _of_more(seconds: list[float], times: float) -> float:
    """Estimate the longest time of an answer on `times` as many rows as took `seconds`; delays of its parts average out.

    The longest measured time is left out, because a single interruption is caused by other work of the machine.
    """
    steady = sorted(seconds)[:-1]
    median = steady[len(steady) // 2]
    return times * median + math.sqrt(times) * (steady[-1] - median)


def timed(work: Callable[[], object], times: int = 16) -> list[float]:
    """Seconds of each of `times` calls, after one that imports modules and fills caches."""
    work()
    begun = [time.perf_counter()]
    for _ in range(times):
        work()
        begun.append(time.perf_counter())
    return np.diff(begun).tolist()
