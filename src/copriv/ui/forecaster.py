"""Full forecasts in a process of their own, so that pages answer while one is made; only the newest question waits.

A forecast takes seconds of arithmetic in one thread, and minutes for a thousand owners. In the server's own process it
would hold up everything else. One that takes long, and that nobody waits for any more, makes room for the next; but not
the first one of its data, whose curves are what quick answers rest on.
"""

import asyncio
import multiprocessing
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from copriv.agreement import Agreement
from copriv.errors import CoprivError
from copriv.ui.views import Prepared, prepare, same_curves

LONG = 5.0
"""Seconds that a forecast may take which nobody waits for, while another one waits for its place."""

Gone = Callable[[], Awaitable[bool]]
"""Whether who asked has turned to something else."""


class Superseded(CoprivError):
    """A newer question came before this one was begun."""


class Forecaster:
    """Questions in, prepared forecasts out."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._made: OrderedDict[str, Prepared] = OrderedDict()
        self._busy = asyncio.Lock()
        self._newest = 0
        self._current: tuple[Agreement, Gone, float] | None = None
        """What is being forecast, for whom, since when."""

    def known(self, agreement: Agreement) -> Prepared | None:
        """The forecast of exactly these terms, if it has been made."""
        return self._made.get(agreement.fingerprint)

    def near(self, agreement: Agreement) -> Prepared | None:
        """The newest forecast of the same data and fitness, whoever its owners are: what a quick answer rests on."""
        return next((made for made in reversed(self._made.values()) if same_curves(made.agreement, agreement)), None)

    async def forecast(self, agreement: Agreement, gone: Gone) -> Prepared:
        """The forecast of these terms. Raises what `copriv.forecast` raises, and Superseded."""
        self._newest += 1
        mine = self._newest
        while self._busy.locked() and mine == self._newest:
            await asyncio.sleep(0.2)
            await self._make_room(agreement)
        async with self._busy:
            if (made := self.known(agreement)) is not None:
                return made
            if mine != self._newest:
                raise Superseded("a newer question came first")
            self._current = agreement, gone, time.monotonic()
            try:
                made = await self._run(agreement)
            finally:
                self._current = None
        self._made[agreement.fingerprint] = made
        while len(self._made) > 64:
            self._made.popitem(last=False)
        return made

    async def _make_room(self, agreement: Agreement) -> None:
        """End the forecast that is being made, if it is for nobody."""
        if self._current is None:
            return
        current, gone, begun = self._current
        needed = self.near(agreement) is None and same_curves(current, agreement)
        if needed or current.fingerprint == agreement.fingerprint or time.monotonic() - begun < LONG:
            return
        if await gone():
            self.close()

    async def _run(self, agreement: Agreement) -> Prepared:
        if self._pool is None:
            # Spawned, for a fork would take the server's sockets and threads with it.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, _stand_back, (os.getpid(),))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, prepare, agreement)
        except BrokenProcessPool:
            self._pool = None
            raise CoprivError("the forecast's process ended; change something to try again") from None

    def close(self) -> None:
        """End the process; what it is working on is given up."""
        if self._pool is not None:
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _stand_back(parent: int) -> None:
    """In the other process: let the pages go first, and end when the server does, however it ends."""
    if hasattr(os, "nice"):
        os.nice(5)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
