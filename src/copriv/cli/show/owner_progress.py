"""What an owner's process is at: answered, spent, waiting. One line on a terminal, now and then a line in a log."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from rich.live import Live
from rich.text import Text

from copriv.agreement import Agreement
from copriv.cli.show.console import aside, log
from copriv.cli.show.ledger import spent
from copriv.privacy.ledger.lines import Totals

_LOOK = 0.5
"""Seconds between two looks at the ledger's sums, which are in memory."""

_LOGGED = 10.0
"""Seconds between two lines of a log, at least."""


def line(name: str, agreement: Agreement, totals: Totals, before: frozenset[str], idle: float) -> str:
    """Answers of the run that began last, what all runs spent, and how long nothing was asked.

    before: runs that were in the ledger when the process began; idle: seconds since the last answer.
    """
    runs = [run for key, run in totals.runs.items() if key not in before] or list(totals.runs.values())[-1:]
    answered = runs[-1].answered if runs else 0
    waiting = "" if idle < 2 * _LOOK else f"; waiting for {idle:.0f} s"
    return f"{name}: {answered} of {agreement.answers} answers, {spent(totals)}{waiting}"


async def beside(work: Awaitable[Any], name: str, agreement: Agreement, totals: Callable[[], Totals]) -> Any:
    """Does the work, and shows this line while it is done; a line that cannot be shown does not end the work."""
    looking = asyncio.ensure_future(_look(name, agreement, totals))
    try:
        return await work
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await looking


async def _look(name: str, agreement: Agreement, totals: Callable[[], Totals]) -> None:
    before, changed, logged = frozenset(totals().runs), time.monotonic(), time.monotonic()
    console = aside(soft_wrap=False)
    live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
    seen = said = _count(totals())
    try:
        if live is not None:
            live.start()
        while True:
            await asyncio.sleep(_LOOK)
            now, sums = time.monotonic(), totals()
            if _count(sums) != seen:
                seen, changed = _count(sums), now
            told = line(name, agreement, sums, before, now - changed)
            if live is not None:
                live.update(Text(told, style="dim"))
            elif seen != said and now - logged >= _LOGGED:
                said, logged = seen, now
                log(told)
    finally:
        if live is not None:
            live.stop()


def _count(totals: Totals) -> int:
    return sum(run.charged + run.answered for run in totals.runs.values())
