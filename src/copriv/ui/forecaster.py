"""Full forecasts in a process of their own, so that pages answer while one is made; only the newest question waits.

A forecast takes seconds of arithmetic in one thread. In the server's own process it would hold up everything else.
"""

import asyncio
import multiprocessing
import os
import threading
import time
from collections import OrderedDict
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from copriv.agreement import Agreement
from copriv.errors import CoprivError
from copriv.ui.views import Prepared, prepare

KEPT = 64
"""Forecasts that are remembered."""


class Superseded(CoprivError):
    """A newer question came before this one was begun."""


class Forecaster:
    """Questions in, prepared forecasts out."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._made: OrderedDict[str, Prepared] = OrderedDict()
        self._busy = asyncio.Lock()
        self._newest = 0

    def known(self, agreement: Agreement) -> Prepared | None:
        """The forecast of exactly these terms, if it has been made."""
        return self._made.get(agreement.fingerprint)

    def near(self, agreement: Agreement) -> Prepared | None:
        """The newest forecast of the same data and fitness, whoever its owners are: what a quick answer rests on."""
        return next((made for made in reversed(self._made.values()) if made.fits(agreement)), None)

    async def forecast(self, agreement: Agreement) -> Prepared:
        """The forecast of these terms. Raises what `copriv.forecast` raises, and Superseded."""
        self._newest += 1
        mine = self._newest
        async with self._busy:
            if (made := self.known(agreement)) is not None:
                return made
            if mine != self._newest:
                raise Superseded("a newer question came first")
            made = await self._run(agreement)
        self._made[agreement.fingerprint] = made
        while len(self._made) > KEPT:
            self._made.popitem(last=False)
        return made

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
