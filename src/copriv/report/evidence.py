"""Read and check the evidence of a report: a ledger with its lines, and runs' files with the verdict of `verify_run`.

`not_covered` lists what that evidence, or any ledger, run or proof, does not cover.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    """A run's file, and the file of its model, where there is one."""

    path: Path
    model: Path | None = None

    @classmethod
    def at(cls, path: Path) -> "RunFile":
        """The run's file at a path, with the model file of the same name beside it."""
        model = path.with_suffix(".json")
        return cls(path, model if model.is_file() else None)


@dataclass
class Paid:
    """The ledger's lines of one run, apart from their sums: times, queries and answers."""

    began: str = ""
    first: str = ""
    last: str = ""
    """UTC, of the first and the last charge."""
    queries: dict[str, str] = field(default_factory=dict)
    """SHA-256 of θ, by the query's identity."""
    answers: dict[str, bytes] = field(default_factory=dict)
    """Bytes of the answer's float64 numbers, by the query's identity."""

    def note(self, line: Line) -> None:
        """Add one line of the run."""
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
    """A ledger, up to the first line that does not follow from those before it; `problem` says which, or is empty."""

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
    """Check and read a ledger, a damaged one up to the damage.

    Raises LedgerFailed for a file that cannot be read, LedgerDamaged for one without a valid line.
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
    first, last = next(iter(times), ""), next(reversed(times), "")
    return LedgerRead(
        path.name, totals, runs, frozenset(heads), first, last, problem, witness is not None, head is not None
    )


Certificate = dict[str, str]
"""`name` of its owner, `sha256`, and validity, `from` and `until`, UTC."""


@dataclass(frozen=True, eq=False)
class RunRead:
    """A run's file with the verdict on it, one owner's answers in it, and who asked."""

    name: str
    verdict: Verdict
    askers: tuple[Certificate, ...]
    """Certificates with which queries were signed."""
    own: Certificate | None
    """The owner's certificate, with which its answers were checked."""
    answers: dict[str, tuple[bytes, str]]
    """The owner's answers, by the query's identity: bytes of the numbers, and the ledger's head that came with them."""
    points: dict[str, str]
    """SHA-256 of θ, by the query's identity."""


def read_run(file: RunFile, owner: str, authority: bytes | None) -> RunRead:
    """Read and check a run's file. Raises StoreFailed or InvalidInput for another kind of file."""
    verdict = verify_run(file.path, None, authority, file.model)
    askers: dict[str, Certificate] = {}
    own: list[Certificate | None] = [None]
    try:
        with closing(RunStore.read(file.path)) as store:
            trusted = authority or b""
            if not trusted and (begun := next(iter(store.events("begun")), None)) is not None:
                trusted = str(begun.data.get("authority", "")).encode()
            for event in store.events("begun", "continued"):
                if (asker := _named(trusted, event.data.get("learner"))) is not None:
                    askers[asker["sha256"]] = asker
            own += [
                _named(trusted, e.data["certificate"]) for e in store.events("certified") if e.data["owner"] == owner
            ]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, sqlite3.Error):
        if verdict.ok:
            raise
        return RunRead(file.path.name, verdict, (), None, {}, {})  # the verdict lists the problems of the file
    asked = [one for phase in verdict.run_state.phases for one in phase.asked.values() if one.query.owner == owner]
    given = [one.answer for one in asked if one.answer is not None]
    answers = {answer.identity: (answer.gradient.tobytes(), answer.chain_head) for answer in given}
    points = {one.query.identity: digest(one.query.theta) for one in asked}
    return RunRead(file.path.name, verdict, tuple(askers.values()), own[-1], answers, points)


def _named(authority: bytes, certificate: object) -> Certificate | None:
    """Describe a certificate; None where it is not of this authority, which `verify_run` reports."""
    if not isinstance(certificate, str) or not certificate or not authority:
        return None
    try:
        party = Certified.by(authority, certificate)
    except (KeysRefused, InvalidInput, ValueError):
        return None
    first, last = (when.isoformat(timespec="seconds") for when in party.valid)
    return {"name": printable(party.name), "sha256": party.fingerprint, "from": first, "until": last}


ALWAYS = (
    (
        "How many",
        "How many records or persons there are, which columns were used, their bounds and who took part are public.",
    ),
    (
        "Other ways out",
        "Only what copriv released is counted. A table, a report or a model that the same organisation gave out by other "
        "means adds to it, and so do other owners' answers about the same people, beyond what the agreement takes for "
        "shared.",
    ),
    (
        "Who is in the table",
        "A ledger is tied to an owner's keys and does not know who is in a table. A second ledger about the same people, "
        "under other keys, would not be noticed.",
    ),
    (
        "People who are alike",
        "The guarantee is for one record or one person. What follows from a whole group, such as a family or the staff of "
        "one company, may still be learned, also about somebody who is in no table.",
    ),
    (
        "The machine",
        "Whoever can read the owner's memory, disk or keys can read its records. Nothing here says anything about that.",
    ),
    (
        "Time",
        "Answers leave at times that are fixed beforehand. One that was late because the machine was busy was seen to be late.",
    ),
    (
        "What is not released",
        "A model that the owner personalized at home is made from its records, has no guarantee, and is not counted: it must "
        "not leave.",
    ),
    (
        "The quality of the model",
        "The guarantee does not rest on the learner, the usefulness of the model does. Nothing here says that any owner's "
        "records are what it says they are.",
    ),
)


def not_covered(held: LedgerRead, runs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """List what is not covered, each with a title: first what this report could not check."""
    read = [run for run in runs if run["file"] is not None]
    agreed = [run for run in runs if run["agreement"] is not None]
    without_file = _names(run for run in runs if run["file"] is None)
    without_agreement = _names(run for run in runs if run["agreement"] is None)
    theirs = _names(run for run in agreed if not run["agreement"]["own_copy"])
    summed = _names(run for run in agreed if run["agreement"].get("colluding") is not None)
    certified = _names(run for run in agreed if run["file"] is not None and not run["agreement"]["keys_named"])
    unchecked = (
        (
            not held.against_witness and not held.against_head,
            "An older copy",
            "The ledger was held against nothing from elsewhere (the keys' folder, or a head that was written down), so "
            "this report cannot tell whether it is the newest copy.",
        ),
        (
            held.against_witness and not held.against_head,
            "Ledger and keys set back together",
            "The ledger agrees with its witness beside the keys. A copy of both, put back together, would agree too.",
        ),
        (
            without_file,
            "Who asked",
            f"Of {without_file} the run's file was not given. The ledger does not say who asked, only what was paid and at "
            "which points.",
        ),
        (
            without_agreement,
            "What was promised",
            f"Of {without_agreement} no agreement was given. The ledger says what was paid, not for one record or for one "
            "person, and not with which noise.",
        ),
        (
            theirs,
            "The agreement's text",
            f"The agreement of {theirs} is the one in the run's file. It has the fingerprint that the ledger was charged for, "
            "so it is the one that the owner answered under.",
        ),
        (
            certified,
            "Who the other owners are",
            f"The agreement of {certified} does not name every owner's key. Whoever has its authority's key can have answered "
            "in the name of an owner whose key it does not name.",
        ),
        (
            summed,
            "Owners that work together",
            f"Of {summed} only sums were seen. The guarantee holds against the learner and as many other owners as the "
            "agreement says, if all the others added their shares of the noise. Nobody can check that they did.",
        ),
        (
            read,
            "Answers that are missing",
            "An answer that the owner paid for and the run does not have was lost on its way, or left out by the learner. "
            "What the learner wrote after the last signed answer rests on its word, and so does the error of the model.",
        ),
    )
    listed = (*((title, what) for holds, title, what in unchecked if holds), *ALWAYS)
    return [{"title": title, "what": what} for title, what in listed]


def _names(runs: Iterable[dict[str, Any]]) -> str:
    """List runs, as "run a" or "runs a, b"; "" where there are none."""
    names = [run["run"][:8] for run in runs]
    if not names:
        return ""
    return "run" + "s" * (len(names) > 1) + f" {', '.join(names)}"
