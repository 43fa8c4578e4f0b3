"""Pages of a learner and of an owner during a run.

The run and the pages have event loops in different threads. They exchange only snapshots, which are taken in the run's
loop and never changed afterwards, and two requests, to pause and to stop. A page has no access to a conductor, an owner, a
ledger or a record, so that no request to it can become a query or an answer.
"""

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

from copriv.display.run import verdicts
from copriv.report.public_rows import PublicRows
from copriv.ui.reading import run_line
from copriv.ui.server import Place, server
from copriv.ui.shell import json_handler, routes, stream

if TYPE_CHECKING:
    from copriv.model.records import Records
    from copriv.network.run import Run
    from copriv.network.run_state import Conductor
    from copriv.network.store import Event
    from copriv.privacy.ledger.lines import Totals

WINDOW = 200
"""Number of lines of a long list that are sent at once."""
POINTS = 2000
"""Approximate number of points at which the fitness is estimated along a run."""


@dataclass
class Watch:
    """State of a page: the newest snapshot, and lists that only grow."""

    page: str
    head: dict[str, Any] = field(default_factory=dict)
    """A small table, sent as a whole when it changes."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One row for each owner; rows that change are sent."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    """Events or log lines. Only their number is sent; the page requests the lines that it shows."""
    points: list[list[float]] = field(default_factory=list)
    """Pairs [k, ψ] of estimates."""
    band: dict[str, Any] | None = None
    """The forecast's k, low, median and high, once it is made; after a pilot also those "before" it."""
    held: bool = False
    """Whether a user asked to pause the run."""
    listeners: int = 0

    def say(self, kind: str, **data: Any) -> None:
        """Add a line."""
        self.lines.append({"number": len(self.lines) + 1, "time": time.time(), "kind": kind, **data})

    def changes(self, sent: dict[str, Any]) -> dict[str, Any]:
        """The changes since the state `sent` to a listener, which is updated."""
        now = {"head": self.head, "lines": len(self.lines), "band": self.band}
        found = {key: value for key, value in now.items() if sent.get(key) != value}
        before: list[dict[str, Any]] = sent.get("rows", [])
        if rows := {i: row for i, row in enumerate(self.rows) if row not in before[i : i + 1]}:
            found["rows"] = rows
        if points := self.points[sent.get("points", 0) :]:
            found["points"] = points
        sent.update(now, rows=list(self.rows), points=sent.get("points", 0) + len(points))
        return found

    def update(self, head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        """Replace the snapshot."""
        self.head, self.rows = head, rows

    @property
    def seen(self) -> bool:
        """Whether the page has a listener, or had one at the last snapshot."""
        return self.listeners > 0 or bool(self.head.get("seen"))


def application(watch: Watch) -> Starlette:
    """The application of one page."""

    def count(change: int) -> None:
        watch.listeners += change

    async def listen(request: Request) -> Response:
        return stream(watch.changes, count)

    async def window(request: Request) -> Any:
        start = min(max(request.path_params["start"], 0), len(watch.lines))
        return {"start": start, "lines": watch.lines[start : start + WINDOW]}

    async def hold(request: Request) -> Any:
        watch.held = request.path_params["what"] == "pause"
        return {"held": watch.held}

    async def stop(request: Request) -> Any:
        # As by Ctrl-C: files are closed, and the run can be resumed.
        os.kill(os.getpid(), signal.SIGINT)
        return {}

    made = [Route("/api/live", listen), Route("/api/lines/{start:int}", json_handler(window))]
    made.append(Route("/api/stop", json_handler(stop), methods=["POST"]))
    if watch.page == "run":
        made.append(Route("/api/hold/{what}", json_handler(hold), methods=["POST"]))
    return Starlette(routes=[*routes((watch.page,)), *made])


@contextmanager
def page_served(watch: Watch, place: Place, log: Callable[[str], None], linger: float = 4.0) -> Iterator[None]:
    """Serve the page during the block, and after it while the page has listeners, or had one within `linger` seconds."""
    running = server(application(watch), place)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [place.socket]}, daemon=True)
    log(f"open {place.address}")
    thread.start()
    try:
        yield
        last_seen = time.monotonic()
        while watch.listeners > 0 or (watch.head.get("seen") and time.monotonic() - last_seen < linger):
            if watch.listeners > 0:
                last_seen = time.monotonic()
            time.sleep(0.1)
    finally:
        running.should_exit = True
        thread.join(5)


class RunWatch:
    """Takes snapshots of a conductor, in its own loop."""

    def __init__(self, conductor: "Conductor", public: "Records | None", strata: tuple[str, ...] | None = None) -> None:
        self.watch = Watch("run")
        self._conductor, self._public = conductor, None
        if public is not None:
            self._public = PublicRows(conductor.agreement, public, strata)
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
        """Take a snapshot, and pause or resume the run where a user asked for it."""
        conductor, watch = self._conductor, self.watch
        agreement, outcome, run = conductor.agreement, conductor.outcome, conductor.run
        agreed = run.agreed
        if conductor.held != watch.held and outcome is None:
            conductor.held = watch.held
            conductor.store.event("paused" if watch.held else "resumed")
        waiting = set(conductor.waiting_for)
        rows = []
        for terms in agreement.owner:
            party = conductor.parties[terms.name]
            ε, _ = agreed.spent_after(terms.name, [one.answered for one in run.in_phases(terms.name)])
            state = "here"
            if party.out:
                state = "out"
            elif not party.there:
                state = "away"
            elif terms.name in waiting:
                state = "asked"
            rows.append({"name": terms.name, "state": state, "answers": party.answered, "most": agreement.answers,
                         "spent": float(ε), "epsilon": agreed.terms_of(terms.name).epsilon, "out": party.out})  # fmt: skip
        head = {
            "name": agreement.agreement.name, "fingerprint": agreement.fingerprint, "run": conductor.store.run,
            "stepped": conductor.stepped, "queries": agreement.queries, "held": conductor.held,
            "status": None if run.awaits_decision else getattr(outcome, "status", None),
            "reason": getattr(outcome, "reason", ""), "phase": _phase(run),
            "public": getattr(self._public, "rows", None), "seen": watch.seen,
            "colluding": agreement.colluding if agreement.summed else None,
        }  # fmt: skip
        watch.update(head, rows)
        if run.known:
            watch.band = {**run.known["after"]["band"], "before": run.known["before"]["band"]}
        if self._public is None or (agreed.has_pilot and run.phase == 1):  # the model of a pilot is no point of the run
            return
        last, *_ = watch.points[-1:] or [[-float(agreement.queries)]]
        new_queries = conductor.stepped - last[0]
        if new_queries * POINTS >= agreement.queries or (new_queries > 0 and outcome is not None):
            watch.points.append([float(conductor.stepped), self._public.estimate(conductor.model)])


def _phase(run: "Run") -> dict[str, Any] | None:
    """State of a run of two phases, with the results of its pilot; None for a run of one phase."""
    if not run.agreed.has_pilot:
        return None
    told = None
    if run.known:
        told = dict[str, Any](verdicts(run.known["after"]["owners"]))
        for when in ("before", "after"):
            ψ = run.known[when]["relative_fitness"]
            told |= {f"{when}_{key}": ψ[key] for key in ("low", "median", "high")}
    now = "second"
    if run.kept:
        now = "kept"
    elif run.awaits_decision:
        now = "deciding"
    elif run.phase == 1:
        now = "first"
    return {"now": now, "told": told, "gives_model": run.agreement.mechanism.gives_model}


class OwnerWatch:
    """Takes snapshots of one owner's totals and log, which hold no record, no query and no other owner."""

    def __init__(self, name: str, fingerprint: str, learner: str, promise: str) -> None:
        self.watch = Watch("owner")
        self._fixed = {"name": name, "fingerprint": fingerprint, "learner": learner, "promise": promise}
        self.over = ""
        """Why the run ended; "" before it does."""

    def copied(self, log: Callable[[str], None]) -> Callable[[str], None]:
        """A log that also adds its messages to the page."""

        def both(message: str) -> None:
            log(message)
            self.watch.say("said", text=message)

        return both

    def look(self, totals: "Totals") -> None:
        """Take a snapshot of the ledger's totals."""
        self.watch.head = {
            **self._fixed, "lifetime": float(totals.lifetime), "spent": float(totals.spent),
            "ahead": float(totals.ahead), "lines": totals.lines, "ledger_head": totals.head, "over": self.over,
            "seen": self.watch.seen,
        }  # fmt: skip
        self.watch.rows = [
            {"name": run, "epsilon": float(one.epsilon), "spent": float(one.spent), "most": one.cap,
             "answers": one.answered, "fingerprint": one.fingerprint}
            for run, one in totals.runs.items()
        ]  # fmt: skip
