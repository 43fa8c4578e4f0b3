"""A ledger or a run, afterwards: what a file holds, whether it is whole, and what is wrong where it is not."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from copriv.agreement import Agreement
from copriv.errors import CoprivError, InvalidInput
from copriv.network.store import RunStore
from copriv.privacy.ledger_lines import Totals
from copriv.privacy.ledger_reading import read_lines, verify

MOST_LINES = 200_000
_RUN_FILE = b"SQLite format 3\x00"


def opened(content: bytes) -> dict[str, Any]:
    """What this file is and says. Raises InvalidInput for what is neither a ledger, a run nor a model."""
    with _kept(content) as path:
        if content.startswith(_RUN_FILE):
            return _run(path)
        if content.lstrip()[:1] == b"{" and (model := _model(content)) is not None:
            return model
        return _ledger(path)


@contextmanager
def _kept(content: bytes) -> Iterator[Path]:
    with TemporaryDirectory(prefix="copriv-read-") as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        yield path


def _ledger(path: Path) -> dict[str, Any]:
    """Every line that can be read, and the verdict on all of them together."""
    lines: list[dict[str, Any]] = []
    problem, totals = "", Totals()
    try:
        totals = verify(path)
    except CoprivError as error:
        problem = _without(str(error), path)
    try:
        for line in read_lines(path):
            if problem:
                _try_to_add(totals, line)
            if len(lines) < MOST_LINES:
                lines.append(
                    {"number": line.number, "time": line.time, "kind": line.kind, "run": line.run[:8],
                     "identity": line.identity[:12], "epsilon": None if line.epsilon is None else float(line.epsilon)}
                )  # fmt: skip
    except (CoprivError, ValueError) as error:
        problem = problem or _without(str(error), path)
    if not lines:
        raise InvalidInput(f"this is no ledger, no run and no model: {problem}")
    return {
        "kind": "ledger", "problem": problem, "owner": totals.owner, "head": totals.head, "lines": lines,
        "lifetime": float(totals.lifetime), "spent": float(totals.spent),
        "runs": [{"name": run, "epsilon": float(one.epsilon), "spent": float(one.spent), "answers": one.answered,
                  "most": one.cap, "fingerprint": one.fingerprint} for run, one in totals.runs.items()],
    }  # fmt: skip


def _try_to_add(totals: Totals, line: Any) -> None:
    """Sums as far as the lines still make sense."""
    try:
        totals.add(line)
    except CoprivError:
        return


def _without(message: str, path: Path) -> str:
    return message.replace(str(path), "the file")


def _model(content: bytes) -> dict[str, Any] | None:
    """The record in a model's file; None where this is no such file."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    record = document.get("record") if isinstance(document, dict) else None
    if not isinstance(record, dict) or not isinstance(record.get("owners"), list):
        return None
    keys = ("run", "rule", "status", "outcome", "queries", "agreed_queries", "seconds", "finished_at")
    owners = [
        {"name": str(one.get("name")), "answers": one.get("answers"), "most": one.get("most_answers"),
         "spent": one.get("spent"), "epsilon": one.get("epsilon")}
        for one in record["owners"] if isinstance(one, dict)
    ]  # fmt: skip
    return {"kind": "model", "problem": "", **{key: record.get(key) for key in keys}, "runs": owners, "lines": [],
            "realised": record.get("realised"), "forecast": record.get("forecast")}  # fmt: skip


def _run(path: Path) -> dict[str, Any]:
    """The events of a learner's store, and what each owner answered."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as file:
            document = json.loads(file.execute("SELECT agreement FROM run").fetchone()[0])
        agreement = Agreement.of(document)
        store = RunStore.resume(path, agreement)
    except (sqlite3.Error, ValueError, TypeError, CoprivError) as error:
        raise InvalidInput(f"this is no run that can be read: {_without(str(error), path)}") from None
    with closing(store):
        events = [
            {"number": one.number, "time": one.time, "kind": one.kind, "data": one.data} for one in store.events()
        ]
        answers = dict.fromkeys(agreement.owner_names, 0)
        for answer in store.answers():
            answers[answer.owner] = max(answers[answer.owner], answer.answered)
    owners = [
        {"name": owner.name, "answers": answers[owner.name], "most": agreement.answers, "epsilon": owner.epsilon,
         "spent": float(agreement.mechanism.spent_after(agreement, owner, answers[owner.name])[0])}
        for owner in agreement.owner
    ]  # fmt: skip
    last = events[-1]["kind"] if events else None
    return {"kind": "run", "problem": "", "run": store.run, "rule": agreement.agreement.rule, "status": last,
            "agreed_queries": agreement.queries, "runs": owners, "lines": events[:MOST_LINES],
            "queries": sum(one["kind"] == "stepped" for one in events)}  # fmt: skip
