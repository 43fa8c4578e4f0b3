"""Protocols of the transport (links, dialer, listener), an owner's Poisson clock, and the learner's rate limit.

An owner dials; the learner listens and serves every link that is opened. A transport neither reads frames nor waits for
other parties. `grpc_transport` is used between machines and tests/memory_network.py within a process; both meet the
contract in tests/network/test_transports.py.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias, runtime_checkable

from copriv.errors import Unreachable
from copriv.network.messages import Ready, Welcome, encode

CONNECT_SECONDS = 10.0
"""Time limit of a connection, and of the first message on it."""
CHANCE = random.SystemRandom()
"""Source of waiting times, which other parties must not be able to predict."""


@runtime_checkable
class Link(Protocol):
    """One end of an open connection."""

    @property
    def peer(self) -> str:
        """The name of the other party, if the transport authenticated it; "" otherwise."""

    async def send(self, frame: bytes) -> None:
        """Send one frame; frames arrive whole and in order. Raises Unreachable if the link is closed."""

    async def receive(self) -> bytes:
        """The next frame. Raises Unreachable once the other end has closed or is gone."""

    async def close(self) -> None:
        """Close both directions, after which the other end's `receive` raises. Closing twice has no effect."""


@runtime_checkable
class CertifiedLink(Link, Protocol):
    """A link whose transport authenticated the other party by a certificate."""

    @property
    def certificate(self) -> str:
        """PEM; "" at the end that dialled, which checks the name only."""


Serve: TypeAlias = Callable[[Link], Awaitable[None]]
"""Handler of a listener's link; the link is closed when it returns."""


@runtime_checkable
class Listener(Protocol):
    """The learner's side."""

    def listening(self, serve: Serve) -> AbstractAsyncContextManager[str]:
        """Serve every link that is opened inside the block; yields the address to dial."""


@runtime_checkable
class Dialer(Protocol):
    """An owner's side."""

    async def dial(self) -> Link:
        """A new link to the learner. Raises Unreachable, with the reason."""


class Clock:
    """An owner's Poisson clock on one link (A, §3): at its ticks the owner reports that it is ready. It uses nothing private.

    rate: the owner's agreed rate, in ticks per `welcome.pace` seconds.
    """

    def __init__(self, link: Link, welcome: Welcome, rate: float) -> None:
        self._link, self._request, self._mean = link, welcome.talk == "request", max(welcome.pace, 0.0) / rate
        self._timer: asyncio.TimerHandle | None = None
        self._due: int | None = None
        """The number of the next message to send."""
        self._sending: asyncio.Future[None] | None = None
        self.served()

    def offered(self, number: int) -> None:
        """Reply to an offer of a query at the next tick."""
        self.stop()
        wait = CHANCE.expovariate(1.0) * self._mean
        self._timer = asyncio.get_running_loop().call_later(wait, self._tick, number)

    def served(self) -> None:
        """Request another query at the next tick, after one was answered or refused ("request" only)."""
        if self._request:
            self.offered(0)

    def stop(self) -> None:
        """Cancel the next tick."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self, number: int) -> None:
        # Only the wait is cancelled: cancelling a message half-way would break its stream. At most one message waits to be
        # sent, or a learner that offers without end and reads nothing would make this side store a reply to each offer.
        self._due = number
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        while self._due is not None:
            number, self._due = self._due, None
            try:
                await self._link.send(encode(Ready(number)))
            except Unreachable:
                return  # the reader of the link gets the same error


class RateLimit:
    """Token bucket for unsolicited messages of an owner: `at_once` tokens, refilled at `per_second`.

    A session that exceeds it is not closed but read more slowly, so that flow control slows down that owner alone.
    """

    def __init__(self, at_once: float, per_second: float) -> None:
        self._most, self._rate, self._left, self._then = at_once, per_second, at_once, 0.0

    def take(self, now: float) -> float:
        """Take one token; returns the seconds to wait before reading on."""
        self._left = min(self._most, self._left + max(now - self._then, 0.0) * self._rate) - 1.0
        self._then = now
        return max(-self._left / self._rate, 0.0)
