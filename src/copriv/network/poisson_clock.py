"""An owner's Poisson clock (A, §3): when it says that it is ready. It depends on nothing private."""

import asyncio
import random

from copriv.errors import Unreachable
from copriv.network.messages import Ready, Welcome, encode
from copriv.network.transport import Link

_CHANCE = random.SystemRandom()


class Clock:
    """Ticks on one link, at the owner's agreed rate and the learner's pace."""

    def __init__(self, link: Link, welcome: Welcome, rate: float) -> None:
        self._link, self._request, self._mean = link, welcome.talk == "request", max(welcome.pace, 0.0) / rate
        self._timer: asyncio.TimerHandle | None = None
        self._due: int | None = None
        """What the next message is to say."""
        self._sending: asyncio.Future[None] | None = None
        self.served()

    def offered(self, number: int) -> None:
        """A query was offered: reply when the clock ticks."""
        self._start(number)

    def served(self) -> None:
        """A query was answered, or turned away: ask for another when the clock ticks."""
        if self._request:
            self._start(0)

    def stop(self) -> None:
        """No more ticks."""
        if self._timer is not None:
            self._timer.cancel()

    def _start(self, number: int) -> None:
        self.stop()
        wait = _CHANCE.expovariate(1.0) * self._mean
        self._timer = asyncio.get_running_loop().call_later(wait, self._tick, number)

    def _tick(self, number: int) -> None:
        # Only the wait can be called off: a message that is cancelled half-way takes its whole stream with it. One waits at
        # most: a learner that offers without end and takes nothing would have this side keep a reply to each.
        self._due = number
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        while self._due is not None:
            number, self._due = self._due, None
            try:
                await self._link.send(encode(Ready(number)))
            except Unreachable:
                return  # whoever receives on the link learns the same
