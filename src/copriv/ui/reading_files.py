"""A ledger or a run for the reading page: what was spent or answered, what is wrong, and every line."""

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.errors import CoprivError, InvalidInput
from copriv.network.store import Event, RunStore
from copriv.network.verify import verify_run
from copriv.privacy.ledger.lines import Line, Totals
from copriv.privacy.ledger.read import read_lines, verify

_SHOWN = ("turn", "owner", "reason", "error", "answered", "sequence", "talk", "k")
"""Of a line: who and which question; never a certificate, a signature or a number of θ."""
MOST_LINES = 200_000
"""Lines that are handed to the browser; sums and verdict are of all of them."""
MOST_POINTS = 800
"""Of a timeline."""


def ledger(path: Path, head: str | None = None) -> dict[str, Any]:
    """Every line that can be read, and the verdict on all of them together. Raises InvalidInput for what is no ledger."""
    lines: list[dict[str, Any]] = []
    spent: list[tuple[float, float]] = []
    problems: list[dict[str, Any]] = []
    totals, sound, last = Totals(), True, 0
    try:
        for line in read_lines(path):
            try:
                totals.add(line)
            except CoprivError as error:
                if sound:
                    problems.append({"line": line.number, "what": without(str(error), path)})
                sound = False
            last = line.number
            if len(lines) < MOST_LINES:
                lines.append(_told(line))
            if (at := _seconds(line.time)) is not None:
                spent.append((at, bounded(totals.committed)))
    except (CoprivError, ValueError) as error:
        if sound:
            problems.append({"line": last + 1 if last else None, "what": without(str(error), path)})
    if not lines:
        why = problems[0]["what"] if problems else "it is empty"
        raise InvalidInput(f"this is no ledger, no run and no model: {why}")
    if not problems:
        try:
            verify(path, head)
        except CoprivError as error:
            problems = [{"line": None, "what": without(str(error), path)}]
    return {
        "kind": "ledger", "problems": problems, "owner": totals.owner, "remark": totals.remark, "head": totals.head,
        "held_against_head": head is not None, "lines": lines, "all_lines": last, "timeline": thinned(spent),
        "lifetime": bounded(totals.lifetime), "lifetime_delta": bounded(totals.lifetime_delta),
        "spent": bounded(totals.spent), "spent_delta": bounded(totals.spent_delta), "ahead": bounded(totals.ahead),
        "before": bounded(totals.before),
        "runs": [{"name": run, "epsilon": bounded(one.epsilon), "delta": bounded(one.delta), "spent": bounded(one.committed),
                  "spent_delta": bounded(one.spent_delta), "answers": one.answered, "most": one.cap,
                  "fingerprint": one.fingerprint} for run, one in totals.runs.items()],
    }  # fmt: skip


def _told(line: Line) -> dict[str, Any]:
    """One line, without answers, nonces and hashes."""
    more = line.content if line.kind == "ahead" else ""
    return {"number": line.number, "time": line.time, "kind": line.kind, "run": line.run[:8], "number_of": more[:12],
            "identity": line.identity[:40] if line.kind in ("ledger", "lifetime") else line.identity[:12],
            "epsilon": None if line.epsilon is None else bounded(line.epsilon), "delta": bounded(line.delta)}  # fmt: skip


def _seconds(time: str) -> float | None:
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return None


def run(
    path: Path,
    agreement: Agreement | None = None,
    authority: bytes | None = None,
    model: Path | None = None,
    head: str | None = None,
) -> dict[str, Any]:
    """A run's file held against what the reader has. Raises InvalidInput for what is no run."""
    try:
        verdict = verify_run(path, agreement, authority, model, head)
        with closing(RunStore.read(path)) as store:
            events = list(_readable(store))
    except (CoprivError, sqlite3.Error, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"this is no run that can be read: {without(str(error), path)}") from None
    agreed = verdict.agreement
    told = teller(agreed)
    year_10000 = 253_402_300_800.0  # seconds from 1970: what a file says of a time beyond is drawn nowhere
    stepped = [
        (event.time, bounded(event.data["k"]))
        for event in events
        if event.kind == "stepped" and type(event.data.get("k")) is int and 0 <= event.time < year_10000
    ]
    owners = []
    for terms in agreed.owner:
        # By its signed answers, and those that it counted beside them.
        answers, missing = verdict.answers.get(terms.name, 0), verdict.missing.get(terms.name, 0)
        ε, δ = agreed.mechanism.spent_after(agreed, terms, min(answers + missing, agreed.answers))
        owners.append({"name": terms.name, "answers": answers, "missing": missing, "most": agreed.answers,
                       "epsilon": terms.epsilon, "delta": terms.delta, "spent": float(ε), "spent_delta": float(δ)})  # fmt: skip
    last = next((event for event in reversed(events) if event.kind in ("finished", "stopped")), None)
    return {
        "kind": "run", "problems": [{"line": one.line, "what": one.what} for one in verdict.problems],
        "run": verdict.run, "rule": agreed.agreement.rule, "agreement": agreed.agreement.name,
        "fingerprint": agreed.fingerprint, "status": verdict.outcome or "open",
        "outcome": "" if last is None else str(last.data.get("reason", "")),
        "queries": verdict.stepped, "agreed_queries": agreed.queries, "head": verdict.head,
        "authority": verdict.authority, "rounding": verdict.rounding,
        "from_elsewhere": {"agreement": agreement is not None, "authority": authority is not None,
                           "model": model is not None, "head": head is not None},
        "runs": owners,
        "lines": [told(event) for event in events[:MOST_LINES]], "all_lines": len(events), "timeline": thinned(stepped),
    }  # fmt: skip


def _readable(store: RunStore) -> Iterator[Event]:
    """Lines up to the first that is none."""
    for number, at, kind, data, head, _ in store.lines():
        try:
            said = json.loads(data)
        except (ValueError, RecursionError):
            return
        if not isinstance(said, dict) or type(number) is not int or type(at) is not float:
            return
        yield Event(number, at, kind, said, head)


def teller(agreement: Agreement) -> Callable[[Event], dict[str, Any]]:
    """A function from a line to what is shown of it; `owners` of a question are those that are asked.

    A file may say anything: numbers and texts come out, whatever went in.
    """
    members = [[agreement.owner_names[i] for i in group] for group in Participants.of(agreement).members]

    def told(event: Event) -> dict[str, Any]:
        said: dict[str, Any] = {key: _plain(event.data[key]) for key in _SHOWN if key in event.data}
        for key in ("owners", "dropped"):
            if isinstance(names := event.data.get(key), list):
                said[key] = [str(name)[:400] for name in names[:1000]]
        participant = event.data.get("participant")
        if event.kind == "asked" and type(participant) is int and 0 <= participant < len(members):
            said["owners"] = members[participant]
        return {"number": event.number, "time": event.time, "kind": str(event.kind), **said}

    return told


def _plain(value: Any) -> int | float | str:
    return value if isinstance(value, int | float) else str(value)[:400]


def thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Evenly spread ones, the first and the last among them, where there are more than a drawing can show."""
    step = max(1, -(-len(points) // MOST_POINTS))
    kept = points[::step]
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]


def bounded(value: Fraction | int) -> float:
    """A float; the largest one where the value is beyond them all, which a broken file can say."""
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def without(message: str, path: Path) -> str:
    """An error's text for a person who gave a file, and knows nothing of where it is kept."""
    return message.replace(str(path), "the file")
