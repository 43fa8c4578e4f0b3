"""What a report rests on, read and checked: a ledger with its lines, and runs' files with what `verify_run` says of them."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from copriv.agreement import Agreement
from copriv.errors import InvalidInput
from copriv.network.keys import Certified, KeysRefused
from copriv.network.store import RunStore, digest
from copriv.network.verify import Verdict, verify_run
from copriv.privacy.ledger import LedgerDamaged
from copriv.privacy.ledger.lines import START, Totals
from copriv.privacy.ledger.read import read_lines, verify


@dataclass(frozen=True)
class RunFile:
    """A run's file, and the model that was made of it, where there is one."""

    path: Path
    model: Path | None = None

    @classmethod
    def at(cls, path: Path) -> "RunFile":
        """With the model that lies beside it."""
        beside = path.with_suffix(".json")
        return cls(path, beside if beside.is_file() else None)


@dataclass
class Paid:
    """What the ledger's lines say of one run, beside its sums: when, and for which queries."""

    began: str = ""
    first: str = ""
    last: str = ""
    """UTC, of the first and the last charge."""
    queries: dict[str, str] = field(default_factory=dict)
    """SHA-256 of θ, by the query's identity."""
    answers: dict[str, bytes] = field(default_factory=dict)
    """float64 numbers, by the query's identity."""
    charged: Fraction = Fraction(0)


@dataclass(frozen=True)
class LedgerRead:
    """A ledger as far as its lines hold together. `problem` is empty where all of them do."""

    name: str
    totals: Totals
    runs: dict[str, Paid]
    heads: frozenset[str]
    first: str
    last: str
    problem: str
    against_witness: bool
    against_head: bool


def read_ledger(path: Path, head: str | None, witness: Path | None) -> LedgerRead:
    """Check a ledger and read it. Raises LedgerFailed for what is none; a damaged one is read up to the damage."""
    problem = ""
    try:
        verify(path, head, witness)
    except LedgerDamaged as error:
        problem = str(error).replace(str(path), path.name)
    totals, runs, heads, times = Totals(), dict[str, Paid](), {START}, list[str]()
    try:
        for line in read_lines(path):
            totals.add(line)
            heads.add(line.hash)
            times.append(line.time)
            if line.run:
                _note(runs.setdefault(line.run, Paid()), line)
    except LedgerDamaged as error:
        problem = problem or str(error)
    first, last = (times[0], times[-1]) if times else ("", "")
    return LedgerRead(
        path.name, totals, runs, frozenset(heads), first, last, problem, witness is not None, head is not None
    )


def _note(run: Paid, line: Any) -> None:
    match line.kind:
        case "run":
            run.began = line.time
        case "charge":
            run.first, run.last = run.first or line.time, line.time
            run.queries[line.identity] = line.content
            run.charged += line.epsilon
        case "answer":
            run.answers[line.identity] = bytes.fromhex(line.content)


@dataclass(frozen=True, eq=False)
class Asker:
    """Who asked, by the certificate with which queries were signed. `valid` is UTC."""

    name: str
    fingerprint: str
    valid: tuple[datetime, datetime]


@dataclass(frozen=True, eq=False)
class RunRead:
    """A run's file, checked; what one owner gave in it, and who asked."""

    name: str
    verdict: Verdict
    askers: tuple[Asker, ...]
    own: Asker | None
    """The owner's own certificate, by which its answers were checked."""
    answers: dict[str, tuple[bytes, str]]
    """Of the owner: its numbers, and the ledger's head that came with them, by the query's identity."""
    points: dict[str, str]
    """SHA-256 of θ, by the query's identity."""


def read_run(file: RunFile, owner: str, agreement: Agreement | None, authority: bytes | None) -> RunRead:
    """Check a run's file. Raises StoreFailed or InvalidInput for what is none."""
    verdict = verify_run(file.path, agreement, authority, file.model)
    try:
        askers, own, answers, points = _parties(file.path, owner, authority)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, sqlite3.Error):
        if verdict.ok:
            raise
        askers, own, answers, points = (), None, {}, {}  # the check says what is wrong with the file
    return RunRead(file.path.name, verdict, askers, own, answers, points)


def _parties(
    path: Path, owner: str, authority: bytes | None
) -> tuple[tuple[Asker, ...], Asker | None, dict[str, tuple[bytes, str]], dict[str, str]]:
    with closing(RunStore.read(path)) as store:
        begun = next(iter(store.events("begun")), None)
        trusted = authority or ("" if begun is None else str(begun.data.get("authority", ""))).encode()
        askers = {
            asker.fingerprint: asker
            for event in store.events("begun", "continued")
            if (asker := _named(trusted, event.data.get("learner"))) is not None
        }
        own = [_named(trusted, e.data["certificate"]) for e in store.events("certified") if e.data["owner"] == owner]
        answers = {a.identity: (a.gradient.tobytes(), a.chain_head) for a in store.answers() if a.owner == owner}
        points = {query.identity: digest(query.theta) for _, _, query in store.queries() if query.owner == owner}
    return tuple(askers.values()), own[-1] if own else None, answers, points


def _named(authority: bytes, certificate: object) -> Asker | None:
    if not isinstance(certificate, str) or not certificate or not authority:
        return None
    try:
        party = Certified.by(authority, certificate)
    except (KeysRefused, InvalidInput, ValueError):
        return None  # the run's own check says that it is not of this authority
    return Asker(party.name, party.fingerprint, party.valid)
