"""What a report rests on, read and checked: a ledger with its lines, and runs' files with what `verify_run` says of them."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from copriv.errors import InvalidInput
from copriv.formatting.sanitize import printable
from copriv.network.keys import Certified, KeysRefused
from copriv.network.store import RunStore, digest
from copriv.network.verify import Verdict, verify_run
from copriv.privacy.ledger import LedgerDamaged
from copriv.privacy.ledger.lines import START, Line, Totals
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

    def note(self, line: Line) -> None:
        """Take in one line of the run."""
        match line.kind:
            case "run":
                self.began = line.time
            case "charge":
                self.first, self.last = self.first or line.time, line.time
                self.queries[line.identity] = line.content
            case "answer":
                self.answers[line.identity] = bytes.fromhex(line.content)


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
    """Check a ledger and read it. A damaged one is read up to the damage.

    Raises LedgerFailed for a file that cannot be read, LedgerDamaged for one of which no line is a ledger's.
    """
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
                runs.setdefault(line.run, Paid()).note(line)
    except LedgerDamaged as error:
        if not times:
            raise
        problem = problem or str(error)
    first, last = (times[0], times[-1]) if times else ("", "")
    return LedgerRead(
        path.name, totals, runs, frozenset(heads), first, last, problem, witness is not None, head is not None
    )


Certificate = dict[str, str]
"""Whose it is (`name`), its `sha256`, and `from` when `until` when it is valid, UTC."""


@dataclass(frozen=True, eq=False)
class RunRead:
    """A run's file, checked; what one owner gave in it, and who asked."""

    name: str
    verdict: Verdict
    askers: tuple[Certificate, ...]
    """With which queries were signed."""
    own: Certificate | None
    """The owner's own certificate, by which its answers were checked."""
    answers: dict[str, tuple[bytes, str]]
    """Of the owner: its numbers, and the ledger's head that came with them, by the query's identity."""
    points: dict[str, str]
    """SHA-256 of θ, by the query's identity."""


def read_run(file: RunFile, owner: str, authority: bytes | None) -> RunRead:
    """Check a run's file. Raises StoreFailed or InvalidInput for what is none."""
    verdict = verify_run(file.path, None, authority, file.model)
    askers, own = dict[str, Certificate](), list[Certificate | None]()
    answers, points = dict[str, tuple[bytes, str]](), dict[str, str]()
    try:
        with closing(RunStore.read(file.path)) as store:
            begun = next(iter(store.events("begun")), None)
            trusted = authority or ("" if begun is None else str(begun.data.get("authority", ""))).encode()
            for event in store.events("begun", "continued"):
                if (asker := _named(trusted, event.data.get("learner"))) is not None:
                    askers[asker["sha256"]] = asker
            own = [
                _named(trusted, e.data["certificate"]) for e in store.events("certified") if e.data["owner"] == owner
            ]
            for e in store.events("answer"):
                if e.data["owner"] == owner:
                    answers[e.data["identity"]] = e.numbers.tobytes(), e.data["chain_head"]
            asked = {e.data["turn"]: digest(e.numbers) for e in store.events("asked")}
            points = {
                e.data["identity"]: asked[e.data["turn"]] for e in store.events("query") if e.data["owner"] == owner
            }
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, sqlite3.Error):
        if verdict.ok:
            raise
        return RunRead(file.path.name, verdict, (), None, {}, {})  # the check says what is wrong with the file
    return RunRead(file.path.name, verdict, tuple(askers.values()), own[-1] if own else None, answers, points)


def _named(authority: bytes, certificate: object) -> Certificate | None:
    if not isinstance(certificate, str) or not certificate or not authority:
        return None
    try:
        party = Certified.by(authority, certificate)
    except (KeysRefused, InvalidInput, ValueError):
        return None  # the run's own check says that it is not of this authority
    first, last = (when.isoformat(timespec="seconds") for when in party.valid)
    return {"name": printable(party.name), "sha256": party.fingerprint, "from": first, "until": last}
