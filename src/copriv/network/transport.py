"""The seam between a party and the network: a link that carries frames, two ways to come by one, and how fast both sides go.

An owner dials; the learner listens, and serves every link that comes. That is all a transport does: it neither knows
what a frame says nor waits on anyone's behalf. `grpc_transport` is the real one, and tests/memory_network.py one inside a
process; both keep what tests/network/test_transports.py says.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias, runtime_checkable

from copriv.errors import Unreachable
from copriv.network.messages import Ready, Welcome, encode

CHANCE = random.SystemRandom()
"""Of waiting times, which nobody foresees."""


@runtime_checkable
class Link(Protocol):
    """One end of an open connection."""

    @property
    def peer(self) -> str:
        """The name of the other party that the transport vouches for; "" where it vouches for none."""

    async def send(self, frame: bytes) -> None:
        """Hand over one frame; frames arrive whole and in order. Raises Unreachable if the link is closed."""

    async def receive(self) -> bytes:
        """The next frame. Raises Unreachable once the other end has closed or is gone."""

    async def close(self) -> None:
        """Close both ways; the other end's `receive` raises. Closing twice is fine."""


@runtime_checkable
class CertifiedLink(Link, Protocol):
    """A link whose transport knows the other party by a certificate."""

    @property
    def certificate(self) -> str:
        """PEM; "" at the end that dialled, which looks at a name only."""


Serve: TypeAlias = Callable[[Link], Awaitable[None]]
"""What a listener does with a link; the link is closed when it returns."""


@runtime_checkable
class Listener(Protocol):
    """The learner's side."""

    def listening(self, serve: Serve) -> AbstractAsyncContextManager[str]:
        """Serve every link that comes while inside; gives the address to dial."""


@runtime_checkable
class Dialer(Protocol):
    """An owner's side."""

    async def dial(self) -> Link:
        """A fresh link to the learner. Raises Unreachable, saying why."""


class Clock:
    """An owner's Poisson clock on one link (A, §3): when it says that it is ready. It depends on nothing private.

    rate: the owner's agreed one, at the learner's pace.
    """

    def __init__(self, link: Link, welcome: Welcome, rate: float) -> None:
        self._link, self._request, self._mean = link, welcome.talk == "request", max(welcome.pace, 0.0) / rate
        self._timer: asyncio.TimerHandle | None = None
        self._due: int | None = None
        """What the next message is to say."""
        self._sending: asyncio.Future[None] | None = None
        self.served()

    def offered(self, number: int) -> None:
        """A query was offered: reply when the clock ticks."""
        self.stop()
        wait = CHANCE.expovariate(1.0) * self._mean
        self._timer = asyncio.get_running_loop().call_later(wait, self._tick, number)

    def served(self) -> None:
        """A query was answered, or turned away: ask for another when the clock ticks."""
        if self._request:
            self.offered(0)

    def stop(self) -> None:
        """No more ticks."""
        if self._timer is not None:
            self._timer.cancel()

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


class Allowance:
    """How much the learner takes of an owner without having asked: so much at once, and so much a second after that.

    Nobody is let go for being quick. A session whose allowance is used up is read more slowly, and the network makes its
    peer wait; the others do not notice.
    """

    def __init__(self, at_once: float, per_second: float) -> None:
        self._most, self._rate, self._left, self._then = at_once, per_second, at_once, 0.0

    def take(self, now: float) -> float:
        """Use one; how many seconds to wait before going on."""
        self._left = min(self._most, self._left + max(now - self._then, 0.0) * self._rate) - 1.0
        self._then = now
        return max(-self._left / self._rate, 0.0)
