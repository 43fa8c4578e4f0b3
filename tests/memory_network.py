"""A network inside one event loop, for tests: what `copriv.network.grpc_transport` is between machines."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from copriv.errors import Unreachable
from copriv.network.messages import MAX_FRAME, Malformed
from copriv.network.transport import Link, Serve


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
