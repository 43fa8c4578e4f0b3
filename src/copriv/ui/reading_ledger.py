"""An owner's ledger for the reading page: the verdict on its chain, what was spent by run, and every line."""

import sys
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from copriv.errors import CoprivError, InvalidInput
from copriv.privacy.ledger.lines import Line, Totals
from copriv.privacy.ledger.read import read_lines, verify

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
        problems = _verdict(path, head)
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


def _verdict(path: Path, head: str | None) -> list[dict[str, Any]]:
    """What `copriv ledger verify` says."""
    try:
        verify(path, head)
    except CoprivError as error:
        return [{"line": None, "what": without(str(error), path)}]
    return []


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
