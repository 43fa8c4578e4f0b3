"""A run while it goes on: what the learner's page and an owner's page may see and do, and nothing more.

The run lives in the event loop of its own thread; the pages in another. Only this passes between them: snapshots, taken in
the run's loop and never changed afterwards, and two wishes, to pause and to stop. A page holds no conductor, no owner, no
ledger and no record, so nothing that it is asked can become a query or an answer.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from copriv.report.public_rows import PublicRows
from copriv.ui.reading import run_line
from copriv.ui.server import Place, server
from copriv.ui.shell import answered, routes, stream

if TYPE_CHECKING:
    from copriv.model.records import Records
    from copriv.network.run_state import Conductor
    from copriv.network.store import Event
    from copriv.privacy.ledger.lines import Totals

LOOK = 0.25
"""Seconds between two snapshots."""
WINDOW = 200
"""Lines of a long list that are given at once."""
POINTS = 2000
"""Of the estimate along a run, about."""
LINGER = 4.0
"""Seconds without a listener, after which the page of a run that is over ends."""


@dataclass
class Watch:
    """What a page sees: the newest snapshot, and lists that only grow."""

    page: str
    head: dict[str, Any] = field(default_factory=dict)
    """Small, and sent whole when it changes."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One for each owner; those that change are sent."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    """Events or log lines: only their number is sent, and the window that is looked at is asked for."""
    points: list[list[float]] = field(default_factory=list)
    """[k, ψ] as estimated."""
    band: dict[str, list[float]] | None = None
    """The forecast's k, low, median and high, once it is made."""
    held: bool = False
    """Whether somebody wishes that nothing more be asked."""
    listeners: int = 0

    def say(self, kind: str, **data: Any) -> None:
        """Add a line."""
        self.lines.append({"number": len(self.lines) + 1, "time": time.time(), "kind": kind, **data})

    def changes(self, mine: dict[str, Any]) -> dict[str, Any]:
        """What a listener has not had, and note that it has it now."""
        now = {"head": self.head, "lines": len(self.lines), "band": self.band}
        found = {key: value for key, value in now.items() if mine.get(key) != value}
        before: list[dict[str, Any]] = mine.get("rows", [])
        rows = {i: row for i, row in enumerate(self.rows) if i >= len(before) or before[i] is not row}
        points = self.points[mine.get("points", 0) :]
        mine.update(now, rows=list(self.rows), points=mine.get("points", 0) + len(points))
        return found | ({"rows": rows} if rows else {}) | ({"points": points} if points else {})

    def update(self, head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        """A new snapshot; rows that did not change stay the same objects."""
        old = self.rows
        self.rows = [old[i] if i < len(old) and old[i] == row else row for i, row in enumerate(rows)]
        if head != self.head:
            self.head = head


def application(watch: Watch) -> Starlette:
    """The page of a run."""

    def counted(by: int) -> None:
        watch.listeners += by

    async def listen(request: Request) -> Response:
        return stream(watch.changes, counted)

    async def window(request: Request) -> Any:
        start = min(max(request.path_params["start"], 0), len(watch.lines))
        return {"start": start, "lines": watch.lines[start : start + WINDOW]}

    async def hold(request: Request) -> Any:
        watch.held = request.path_params["what"] == "pause"
        return {"held": watch.held}

    async def stop(request: Request) -> Any:
        # As Ctrl-C does: files are closed, and the run can be resumed.
        os.kill(os.getpid(), signal.SIGINT)
        return {}

    made = [Route("/api/live", listen), Route("/api/lines/{start:int}", answered(window))]
    made.append(Route("/api/stop", answered(stop), methods=["POST"]))
    if watch.page == "run":
        made.append(Route("/api/hold/{what}", answered(hold), methods=["POST"]))
    return Starlette(routes=[*routes((watch.page,)), *made])


@contextmanager
def shown(watch: Watch, place: Place, log: Callable[[str], None]) -> Iterator[None]:
    """Serve the page beside the run; after the run, until nobody looks any more."""
    running = server(application(watch), place)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [place.socket]}, daemon=True)
    log(f"open {place.address}")
    thread.start()
    try:
        yield
        quiet = time.monotonic()
        while watch.listeners > 0 or (watch.head.get("seen") and time.monotonic() - quiet < LINGER):
            quiet = time.monotonic() if watch.listeners > 0 else quiet
            time.sleep(0.1)
    finally:
        running.should_exit = True
        thread.join(5)


async def beside(work: Any, look: Callable[[], None]) -> Any:
    """Await the work, and look at it now and then, at its beginning and at its end, in the same loop."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            look()
            await asyncio.wait({task}, timeout=LOOK)
        return await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        look()


class RunWatch:
    """Looks at a conductor, in its own loop."""

    def __init__(self, conductor: "Conductor", public: "Records | None") -> None:
        self.watch = Watch("run")
        self._conductor, self._public = conductor, None if public is None else PublicRows(conductor.agreement, public)
        self._shown_line = run_line(conductor.agreement)
        for event in conductor.store.events():
            self._line(event)
        before = conductor.store.on_event

        def both(event: "Event") -> None:
            if before is not None:
                before(event)
            self._line(event)

        conductor.store.on_event = both

    def _line(self, event: "Event") -> None:
        self.watch.lines.append(self._shown_line(event))

    def look(self) -> None:
        """Take a snapshot, and carry out a wish to pause."""
        conductor, watch = self._conductor, self.watch
        agreement = conductor.agreement
        if conductor.held != watch.held and conductor.outcome is None:
            conductor.held = watch.held
            conductor.store.event("paused" if watch.held else "resumed")
        waiting = set(conductor.waiting_for)
        rows = []
        for terms in agreement.owner:
            party = conductor.parties[terms.name]
            ε, _ = agreement.mechanism.spent_after(agreement, terms, party.answered)
            state = "out" if party.out else "away" if not party.there else "asked" if terms.name in waiting else "here"
            rows.append({"name": terms.name, "state": state, "answers": party.answered, "most": agreement.answers,
                         "spent": float(ε), "epsilon": terms.epsilon, "out": party.out})  # fmt: skip
        outcome = conductor.outcome
        head = {
            "name": agreement.agreement.name, "fingerprint": agreement.fingerprint, "run": conductor.store.run,
            "stepped": conductor.stepped, "queries": agreement.queries, "held": conductor.held,
            "status": None if outcome is None else outcome.status, "reason": "" if outcome is None else outcome.reason,
            "public": None if self._public is None else self._public.rows,
            "seen": watch.listeners > 0 or bool(watch.head.get("seen")),
        }  # fmt: skip
        watch.update(head, rows)
        ahead = conductor.stepped - (watch.points[-1][0] if watch.points else -agreement.queries)
        due = ahead * POINTS >= agreement.queries or (ahead > 0 and outcome is not None)
        if self._public is not None and due:
            watch.points.append([float(conductor.stepped), self._public.estimate(conductor.model)])


class OwnerWatch:
    """Looks at one owner's own totals and log, and at nothing else of it: no record, no query, no other owner."""

    def __init__(self, name: str, fingerprint: str, learner: str, promise: str) -> None:
        self.watch = Watch("owner")
        self._fixed = {"name": name, "fingerprint": fingerprint, "learner": learner, "promise": promise}
        self.over = ""
        """How it ended."""

    def heard(self, log: Callable[[str], None]) -> Callable[[str], None]:
        """The same log, heard by the page too."""

        def both(message: str) -> None:
            log(message)
            self.watch.say("said", text=message)

        return both

    def look(self, totals: "Totals") -> None:
        """Take a snapshot of what the ledger adds up to."""
        watch = self.watch
        watch.update(
            {
                **self._fixed, "lifetime": float(totals.lifetime), "spent": float(totals.spent),
                "ahead": float(totals.ahead), "lines": totals.lines, "ledger_head": totals.head, "over": self.over,
                "seen": watch.listeners > 0 or bool(watch.head.get("seen")),
            },
            [
                {"name": run, "epsilon": float(one.epsilon), "spent": float(one.spent), "most": one.cap,
                 "answers": one.answered, "fingerprint": one.fingerprint}
                for run, one in totals.runs.items()
            ],
        )  # fmt: skip
