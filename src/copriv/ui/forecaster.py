"""Full forecasts in a process of their own, so that pages stay responsive; only the newest request waits.

A forecast takes seconds of arithmetic in one thread, and minutes for a thousand owners, which would block the server. One
that takes long and that no client waits for is cancelled for the next; but not the first one of its data, whose curves
the quick answers need.
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
"""Seconds after which a forecast that no client waits for is cancelled for another one."""

Gone = Callable[[], Awaitable[bool]]
"""Whether the client that asked has disconnected."""


class Superseded(CoprivError):
    """A newer request arrived before this forecast was begun."""


class Forecaster:
    """Makes forecasts in another process, and keeps the newest ones."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._made: OrderedDict[str, Prepared] = OrderedDict()
        self._busy = asyncio.Lock()
        self._newest = 0
        self._current: tuple[Agreement, Gone, float] | None = None
        """The agreement that is being forecast, whether its client is gone, and the time at which it began."""

    def known(self, agreement: Agreement) -> Prepared | None:
        """The forecast of exactly these terms, if it has been made."""
        return self._made.get(agreement.fingerprint)

    def near(self, agreement: Agreement) -> Prepared | None:
        """The newest forecast of the same data and fitness, for any owners, from which quick answers are computed."""
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
        """Cancel the forecast that is being made, if no client waits for it (`LONG`)."""
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
            # Spawned, because a fork would copy the server's sockets and threads.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, _set_up_process, (os.getpid(),))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, prepare, agreement)
        except BrokenProcessPool:
            self._pool = None
            raise CoprivError("the forecast's process ended; change something to try again") from None

    def close(self) -> None:
        """End the process, and with it the forecast that it is making."""
        if self._pool is not None:
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _set_up_process(parent: int) -> None:
    """In the new process: lower its priority, and end it when the server ends, in whatever way."""
    if hasattr(os, "nice"):
        os.nice(5)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
