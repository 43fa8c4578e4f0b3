"""When an answer leaves: at a time that is fixed before its records are read, so that the wait for it tells nothing.

How long an answer takes depends on what it is made of. A solver's number of passes depends on the records, and the time of
an exact sampler on the size of the noise that it drew, which is as good as the noise itself to whoever can measure it
(of OpenDP 0.15, Spearman's rank correlation is 0.4 on an idle machine). So an owner that answers over a network holds
each answer, and each failure, until a whole number of slots after it began. The slot is several times what an answer
takes at most, as measured on made-up rows (`copriv.mechanisms.answer_timing`), so that this number is 1.

What is not hidden: an answer that takes longer than its slot leaves with the next one, which shows that it was late.
For the solver a bound on its passes is proved and paid for in the slot; that of the sampler has exponential tails; what
remains is a machine that is busy with other things. `late` counts them, and the owner's log says so.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SAFETY = 4.0
"""Length of a slot, in measured times of an answer."""
SHORTEST = 1e-3
"""Shortest slot, in seconds."""
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
    """The slot for an answer that was measured to take so long: SAFETY times that, rounded up to 1, 2 or 5 times 10^k."""
    least = max(SAFETY * seconds, SHORTEST)
    power = 10.0 ** math.floor(math.log10(least) + 1e-9)
    return next(digit * power for digit in (1.0, 2.0, 5.0, 10.0) if digit * power >= least * (1 - 1e-9))
