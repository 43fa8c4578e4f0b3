"""The seam between a party and the network: a link that carries frames, and two ways to come by one.

An owner dials; the learner listens, and serves every link that comes. That is all a transport does: it neither knows
what a frame says nor waits on anyone's behalf. `MemoryNetwork` is the transport of tests and of demonstrations in one
process; `grpc_transport` is the real one. Both keep what tests/network/test_transports.py says.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeAlias, runtime_checkable

from copriv.errors import Unreachable
from copriv.network.messages import MAX_FRAME, Malformed


@runtime_checkable
class Link(Protocol):
    """One end of an open connection."""

    @property
    def peer(self) -> str:
        """The name of the other party that the transport vouches for; "" where it vouches for none."""
        ...

    async def send(self, frame: bytes) -> None:
        """Hand over one frame; frames arrive whole and in order. Raises Unreachable if the link is closed."""
        ...

    async def receive(self) -> bytes:
        """The next frame. Raises Unreachable once the other end has closed or is gone."""
        ...

    async def close(self) -> None:
        """Close both ways; the other end's `receive` raises. Closing twice is fine."""
        ...


@runtime_checkable
class CertifiedLink(Link, Protocol):
    """A link whose transport knows the other party by a certificate."""

    @property
    def certificate(self) -> str:
        """PEM; "" at the end that dialled, which looks at a name only."""
        ...


Serve: TypeAlias = Callable[[Link], Awaitable[None]]
"""What a listener does with a link; the link is closed when it returns."""


@runtime_checkable
class Listener(Protocol):
    """The learner's side."""

    def listening(self, serve: Serve) -> AbstractAsyncContextManager[str]:
        """Serve every link that comes while inside; gives the address to dial."""
        ...


@runtime_checkable
class Dialer(Protocol):
    """An owner's side."""

    async def dial(self) -> Link:
        """A fresh link to the learner. Raises Unreachable, saying why."""
        ...


class MemoryLink:
    """One end of a link inside this process."""

    def __init__(self, peer: str, inbox: "asyncio.Queue[bytes | None]", outbox: "asyncio.Queue[bytes | None]") -> None:
        self._peer, self._inbox, self._outbox, self._closed = peer, inbox, outbox, False

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, frame: bytes) -> None:
        if self._closed:
            raise Unreachable("the link is closed")
        if len(frame) > MAX_FRAME:
            raise Malformed(f"message: {len(frame)} bytes; at most {MAX_FRAME} are carried")
        self._outbox.put_nowait(frame)

    async def receive(self) -> bytes:
        frame = None if self._closed else await self._inbox.get()
        if frame is None:
            self._closed = True
            raise Unreachable("the other end closed the link")
        return frame

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._outbox.put_nowait(None)
            self._inbox.put_nowait(None)  # wakes this end's own `receive`


class MemoryNetwork:
    """A network inside one event loop: the learner holds it, an owner holds `dialer("bank-1")`."""

    def __init__(self) -> None:
        self._serve: Serve | None = None
        self._served: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self, serve: Serve) -> AsyncIterator[str]:
        self._serve = serve
        try:
            yield "memory"
        finally:
            self._serve = None
            for task in self._served:
                task.cancel()
            await asyncio.gather(*self._served, return_exceptions=True)

    def dialer(self, name: str) -> "MemoryDialer":
        """The dialer of the party called `name`."""
        return MemoryDialer(self, name)

    def connect(self, name: str) -> MemoryLink:
        """A link from `name`, served at once."""
        if self._serve is None:
            raise Unreachable("nobody listens; start the learner")
        up: asyncio.Queue[bytes | None] = asyncio.Queue()
        down: asyncio.Queue[bytes | None] = asyncio.Queue()
        task = asyncio.ensure_future(_serving(self._serve, MemoryLink(name, up, down)))
        self._served.add(task)
        task.add_done_callback(self._served.discard)
        return MemoryLink("learner", down, up)


class MemoryDialer:
    """Dials the learner of a MemoryNetwork."""

    def __init__(self, network: MemoryNetwork, name: str) -> None:
        self._network, self._name = network, name

    async def dial(self) -> Link:
        return self._network.connect(self._name)


async def _serving(serve: Serve, link: Link) -> None:
    try:
        await serve(link)
    finally:
        await link.close()
