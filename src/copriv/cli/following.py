"""Progress on the screen: the answers of each owner in a learner's run, and an owner's answers and spent budget."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.table import Table
from rich.text import Text

from copriv.agreement import Agreement
from copriv.cli.console import aside, log, plain_table
from copriv.display.ledger import spent
from copriv.privacy.ledger.lines import Totals

if TYPE_CHECKING:
    from copriv.network.run_state import Conductor
    from copriv.network.store import Event


class Following:
    """Writes events as JSON lines to a file, and shows a table of the owners' answers on a terminal.

    An error of the file or the terminal is logged and ends that output; the run continues.
    """

    def __init__(self, conductor: "Conductor", events: Path | None) -> None:
        self._conductor, self._path = conductor, events
        self._live: Live | None = None
        self._stream: Any = None

    def __enter__(self) -> None:
        if self._path is not None:
            # - is the usual name of a stream where a file is expected.
            self._stream = sys.stderr if str(self._path) == "-" else self._path.open("a", encoding="utf-8")
        if sys.stderr.isatty() and self._stream is not sys.stderr:
            self._live = Live(self._table(), console=aside(soft_wrap=False), refresh_per_second=8, transient=True)
            self._live.start()
        self._conductor.store.on_event = self._event

    def __exit__(self, *_: object) -> None:
        self._conductor.store.on_event = None
        self._give_up_the_table()
        self._give_up_the_file()

    def _event(self, event: "Event") -> None:
        try:
            if self._stream is not None:
                self._stream.write(event.to_json() + "\n")
                self._stream.flush()
        except (OSError, ValueError) as error:
            log(f"events are not written any more: {error}")
            self._give_up_the_file()
        try:
            if self._live is not None:
                self._live.update(self._table())
        except Exception as error:  # whatever a terminal does, or rich makes of it
            self._give_up_the_table()
            log(f"the run is not shown any more: {error!r}")

    def _give_up_the_file(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None and stream is not sys.stderr:
            with suppress(OSError):  # closing fails where writing failed
                stream.close()

    def _give_up_the_table(self) -> None:
        live, self._live = self._live, None
        with suppress(Exception):
            if live is not None:
                live.stop()

    def _table(self) -> Table:
        conductor = self._conductor
        queries = f"{conductor.stepped} of {conductor.agreement.queries}"
        phase = "pilot: " if conductor.store.agreement.has_pilot and conductor.run.phase == 1 else ""
        if conductor.run.awaits_decision:
            phase = "the pilot is read; "
        table = plain_table("owner", f"{phase}answers ({queries} queries)", "", left=1)
        for name, party in conductor.parties.items():
            state = party.out or ("here" if party.there else "away")
            table.add_row(name, f"{party.answered} of {conductor.agreement.answers}", state)
        return table


_LOOK = 0.5
"""Seconds between two looks at a ledger's sums, which are in memory."""

_LOGGED = 10.0
"""Seconds between two lines of a log, at least."""


def owner_line(name: str, agreement: Agreement, totals: Totals, before: frozenset[str], idle: float) -> str:
    """Format the answers of the newest run, the budget spent over all runs, and the time since the last answer.

    before: runs in the ledger when the process began. idle: seconds since the last answer.
    """
    runs = [run for key, run in totals.runs.items() if key not in before] or list(totals.runs.values())[-1:]
    answered = runs[-1].answered if runs else 0
    most = runs[-1].cap if runs else sum(phase.answers for phase in agreement.phases)
    waiting = "" if idle < 2 * _LOOK else f"; waiting for {idle:.0f} s"
    return f"{name}: {answered} of {most} answers, {spent(totals)}{waiting}"


async def beside(work: Awaitable[Any], name: str, agreement: Agreement, totals: Callable[[], Totals]) -> Any:
    """Run an owner's work to its result, showing `owner_line` meanwhile; an error of the display does not end the work."""

    def count() -> int:
        return sum(run.charged + run.answered for run in totals().runs.values())

    async def look() -> None:
        before, changed, logged = frozenset(totals().runs), time.monotonic(), time.monotonic()
        seen = said = count()
        live = Live(console=aside(soft_wrap=False), refresh_per_second=4, transient=True)
        with live if live.console.is_terminal else nullcontext():
            while True:
                await asyncio.sleep(_LOOK)
                now = time.monotonic()
                if count() != seen:
                    seen, changed = count(), now
                told = owner_line(name, agreement, totals(), before, now - changed)
                if live.console.is_terminal:
                    live.update(Text(told, style="dim"))
                elif seen != said and now - logged >= _LOGGED:
                    said, logged = seen, now
                    log(told)

    looking = asyncio.ensure_future(look())
    try:
        return await work
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await looking
