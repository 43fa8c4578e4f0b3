"""Contents and problems of ledgers and runs, for the reading page.

A user gives a ledger, a run or a model, and with it the files to compare it with: their own copy of the agreement, the
authority's certificate, the model; with a ledger, the runs that it paid for. The kind of each file is read from its first
bytes. For a ledger there is also the report of `copriv report`.
"""

import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.errors import AgreementError, CoprivError, InvalidInput
from copriv.network.store import Event, RunStore
from copriv.network.verify import verify_run
from copriv.privacy.ledger.lines import Line, Totals
from copriv.privacy.ledger.read import read_lines, verify
from copriv.report import RunFile, document, page

_RUN_FILE = b"SQLite format 3\x00"
_CERTIFICATE, _SECRET = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
_SHOWN = ("turn", "owner", "reason", "error", "answered", "sequence", "talk", "k")
"""Fields of a line that are shown: never a certificate, a signature or an entry of θ."""
MOST_LINES = 200_000
"""Largest number of lines that are sent to the browser; sums and verification are over all lines."""


@dataclass
class Given:
    """The files that were given together, by kind."""

    ledger: list[Path] = field(default_factory=list)
    run: list[Path] = field(default_factory=list)
    model: list[Path] = field(default_factory=list)
    agreement: list[Agreement] = field(default_factory=list)
    authority: list[bytes] = field(default_factory=list)

    def one(self, kind: str) -> Any:
        """The file of this kind, or None. Raises InvalidInput where there are several."""
        found = getattr(self, kind)
        if len(found) > 1:
            raise InvalidInput(f"two files of the same kind ({kind}): choose one of them")
        return next(iter(found), None)

    def runs(self) -> list[RunFile]:
        """All runs, each with the model that names it."""
        models = {str(json.loads(path.read_bytes())["record"].get("run")): path for path in self.model}
        found = []
        for path in self.run:
            with closing(RunStore.read(path)) as store:
                found.append(RunFile(path, models.get(store.run)))
        return found


def opened(contents: Sequence[bytes], head: str | None = None, names: Sequence[str] = ()) -> dict[str, Any]:
    """Contents and problems of these files.

    head: a head of the ledger or run that was kept elsewhere. names: those of the files, for a report.
    Raises InvalidInput where none of them is a ledger, a run or a model.
    """
    with _sorted(contents, names) as given:
        if given.one("ledger") is not None:
            found = ledger(given.ledger[0], head)
            if given.run:
                # Add where the runs contradict the ledger; problems of the ledger itself are there already.
                problems = _document(given, head, unfinished=True)["problems"]
                found["problems"] += [{"line": None, "what": p["what"]} for p in problems if p["where"] != "ledger"]
            return {**found, "beside": len(given.run)}
        if given.one("run") is not None:
            return run(given.run[0], given.one("agreement"), given.one("authority"), given.one("model"), head)
        if given.one("model") is not None:
            return _model(json.loads(given.model[0].read_bytes()))
        raise InvalidInput("this is no ledger, no run and no model: choose one, and beside it what it is held against")


def report(contents: Sequence[bytes], head: str | None = None, names: Sequence[str] = ()) -> str:
    """The HTML page of `copriv report` on these files, one of which has to be a ledger."""
    with _sorted(contents, names) as given:
        if given.one("ledger") is None:
            raise InvalidInput("a report is on an owner's ledger: choose it too")
        return page(_document(given, head))


def _document(given: Given, head: str | None, unfinished: bool = False) -> dict[str, Any]:
    try:
        return document(
            given.ledger[0], given.runs(), given.agreement, authority=given.one("authority"), head=head,
            unfinished=unfinished,
        )  # fmt: skip
    except InvalidInput:
        raise
    except CoprivError as error:
        folder = given.ledger[0].parents[1]
        raise InvalidInput(re.sub(re.escape(str(folder)) + r"/\d+/", "", str(error))) from None


@contextmanager
def _sorted(contents: Sequence[bytes], names: Sequence[str]) -> Iterator[Given]:
    """The files in a temporary folder, by kind. Raises InvalidInput for a secret key or an agreement that is not valid."""
    with TemporaryDirectory(prefix="copriv-read-") as folder:
        given = Given()
        for i, content in enumerate(contents):
            kind, name = _kind(content), "".join(names[i : i + 1])
            # Under its own name as far as that is allowed, because a report lists its files.
            path = Path(folder) / str(i) / (re.sub(r"[^\w.-]", "_", name)[-80:].lstrip(".") or "file")
            path.parent.mkdir()
            path.write_bytes(content)
            value: Any = path
            if kind == "agreement":
                value = _agreement(path)
            elif kind == "authority":
                value = content
            getattr(given, kind).append(value)
        yield given


def _kind(content: bytes) -> str:
    """The field of `Given` for this file; unknown files count as ledgers, whose reader refuses them."""
    if content.startswith(_RUN_FILE):
        return "run"
    if _SECRET in content[:64]:
        raise InvalidInput("a private key is not needed here, and was not kept: keep it where it was")
    if content.lstrip().startswith(_CERTIFICATE):
        return "authority"
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        if isinstance(json.loads(content)["record"]["owners"], list):
            return "model"
    if not content.lstrip().startswith(b"{") and (b"[agreement]" in content or b"[[owner]]" in content):
        return "agreement"
    return "ledger"


def _agreement(path: Path) -> Agreement:
    try:
        return Agreement.load(path)
    except AgreementError as error:
        raise InvalidInput(f"the agreement that was given cannot be used: {without_path(error, path)}") from None


def _model(document: Mapping[str, Any]) -> dict[str, Any]:
    """Summary of the run in a model's file."""
    record = document["record"]
    keys = ("run", "rule", "status", "outcome", "queries", "agreed_queries", "seconds", "finished_at")
    owners = [
        {"name": str(one.get("name")), "answers": one.get("answers"), "most": one.get("most_answers"),
         "spent": one.get("spent"), "epsilon": one.get("epsilon")}
        for one in record["owners"] if isinstance(one, dict)
    ]  # fmt: skip
    return {"kind": "model", "problems": [], **{key: record.get(key) for key in keys}, "runs": owners, "lines": [],
            "realised": record.get("realised"), "forecast": record.get("forecast")}  # fmt: skip


# Contents of one file -------------------------------------------------------------------------------------------------


def ledger(path: Path, head: str | None = None) -> dict[str, Any]:
    """The lines that can be read, and the problems of the whole ledger. Raises InvalidInput for another file."""
    lines: list[dict[str, Any]] = []
    spent: list[tuple[float, float]] = []
    problems: list[dict[str, Any]] = []
    totals, last = Totals(), 0
    try:
        for line in read_lines(path):
            try:
                totals.add(line)
            except CoprivError as error:
                problems.append({"line": line.number, "what": without_path(error, path)})
            last = line.number
            if len(lines) < MOST_LINES:
                lines.append(_ledger_line(line))
            with suppress(ValueError, OverflowError):  # an invalid time is not drawn
                spent.append((datetime.fromisoformat(line.time).timestamp(), finite_float(totals.committed)))
    except (CoprivError, ValueError) as error:
        problems.append({"line": last + 1 if last else None, "what": without_path(error, path)})
    if not lines:
        why = next((problem["what"] for problem in problems), "it is empty")
        raise InvalidInput(f"this is no ledger, no run and no model: {why}")
    del problems[1:]  # the later ones follow from the first
    if not problems:
        try:
            verify(path, head)
        except CoprivError as error:
            problems = [{"line": None, "what": without_path(error, path)}]
    sums = ("lifetime", "lifetime_delta", "spent", "spent_delta", "ahead", "before")
    of_run = {"epsilon": "epsilon", "delta": "delta", "spent": "committed", "spent_delta": "spent_delta"}
    runs = [
        {"name": name, "answers": run.answered, "most": run.cap, "fingerprint": run.fingerprint}
        | {key: finite_float(getattr(run, field)) for key, field in of_run.items()}
        for name, run in totals.runs.items()
    ]
    return {
        "kind": "ledger", "problems": problems, "owner": totals.owner, "remark": totals.remark, "head": totals.head,
        "held_against_head": head is not None, "lines": lines, "all_lines": last, "timeline": thinned(spent),
        **{key: finite_float(getattr(totals, key)) for key in sums}, "runs": runs,
    }  # fmt: skip


def _ledger_line(line: Line) -> dict[str, Any]:
    """The fields of a line that are shown, without answers, nonces and hashes."""
    fields: dict[str, Any] = {
        "number": line.number, "time": line.time, "kind": line.kind, "run": line.run[:8], "number_of": "",
        "identity": line.identity[:12], "epsilon": None, "delta": finite_float(line.delta),
    }  # fmt: skip
    if line.epsilon is not None:
        fields["epsilon"] = finite_float(line.epsilon)
    if line.kind in ("ledger", "lifetime"):
        fields["identity"] = line.identity[:40]
    elif line.kind == "ahead":
        fields["number_of"] = line.content[:12]
    return fields


def run(
    path: Path,
    agreement: Agreement | None = None,
    authority: bytes | None = None,
    model: Path | None = None,
    head: str | None = None,
) -> dict[str, Any]:
    """Contents of a run's file, verified with what the user has. Raises InvalidInput for another file."""
    try:
        verdict = verify_run(path, agreement, authority, model, head)
        with closing(RunStore.read(path)) as store:
            events = list(_readable(store))
    except (CoprivError, sqlite3.Error, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"this is no run that can be read: {without_path(error, path)}") from None
    agreed = verdict.agreement
    shown_line = run_line(agreed)
    year_10000 = 253_402_300_800.0  # seconds from 1970; later times are not drawn
    stepped = [
        (event.time, finite_float(event.data["k"]))
        for event in events
        if event.kind == "stepped" and type(event.data.get("k")) is int and 0 <= event.time < year_10000
    ]
    owners = []
    for terms in agreed.owner:
        # The charge of its signed answers, and of those that it counted besides.
        answers, missing = verdict.answers.get(terms.name, 0), verdict.missing.get(terms.name, 0)
        ε, δ = agreed.mechanism.spent_after(agreed, terms, min(answers + missing, agreed.answers))
        owners.append({"name": terms.name, "answers": answers, "missing": missing, "most": agreed.answers,
                       "epsilon": terms.epsilon, "delta": terms.delta, "spent": float(ε), "spent_delta": float(δ)})  # fmt: skip
    outcomes = [str(event.data.get("reason", "")) for event in events if event.kind in ("finished", "stopped")]
    return {
        "kind": "run", "problems": [{"line": one.line, "what": one.what} for one in verdict.problems],
        "run": verdict.run, "rule": agreed.agreement.rule, "agreement": agreed.agreement.name,
        "fingerprint": agreed.fingerprint, "status": verdict.outcome or "open",
        "outcome": next(reversed(outcomes), ""),
        "queries": verdict.stepped, "agreed_queries": agreed.queries, "head": verdict.head,
        "authority": verdict.authority, "rounding": verdict.rounding,
        "from_elsewhere": {"agreement": agreement is not None, "authority": authority is not None,
                           "model": model is not None, "head": head is not None},
        "runs": owners,
        "lines": [shown_line(event) for event in events[:MOST_LINES]], "all_lines": len(events),
        "timeline": thinned(stepped),
    }  # fmt: skip


def _readable(store: RunStore) -> Iterator[Event]:
    """The lines up to the first one that is not valid."""
    for number, at, kind, data, head, _ in store.lines():
        try:
            said = json.loads(data)
        except (ValueError, RecursionError):
            return
        if not isinstance(said, dict) or type(number) is not int or type(at) is not float:
            return
        yield Event(number, at, kind, said, head)


def run_line(agreement: Agreement) -> Callable[[Event], dict[str, Any]]:
    """A function from a line to its shown fields, which are numbers and texts whatever the file holds.

    The `owners` of a line that asks a participant are the participant's.
    """
    members = [[agreement.owner_names[i] for i in group] for group in Participants.of(agreement).members]

    def shown(event: Event) -> dict[str, Any]:
        fields: dict[str, Any] = {"number": event.number, "time": event.time, "kind": str(event.kind)}
        for key in _SHOWN:
            if key in event.data:
                fields[key] = event.data[key]
                if not isinstance(fields[key], int | float):
                    fields[key] = str(fields[key])[:400]
        for key in ("owners", "dropped"):
            if isinstance(names := event.data.get(key), list):
                fields[key] = [str(name)[:400] for name in names[:1000]]
        participant = event.data.get("participant")
        if event.kind == "asked" and type(participant) is int and 0 <= participant < len(members):
            fields["owners"] = members[participant]
        return fields

    return shown


def thinned(points: list[tuple[float, float]], most: int = 800) -> list[tuple[float, float]]:
    """Evenly spaced points, at most about `most`, with the first and the last."""
    step = max(1, -(-len(points) // most))
    kept = points[::step]
    if kept and kept[-1] != points[-1]:
        kept.append(points[-1])
    return kept


def finite_float(value: Fraction | int) -> float:
    """The nearest finite float; a damaged file can hold a value beyond the largest one."""
    largest = int(sys.float_info.max)
    return float(max(-largest, min(value, largest)))


def without_path(error: Exception, path: Path) -> str:
    """An error's text without the path of the temporary file, which the user does not know."""
    return str(error).replace(str(path), "the file")
