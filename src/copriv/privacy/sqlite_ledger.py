"""A ledger in a file: what an owner has spent on one data set, over every run and agreement, for ever.

    file = LedgerFile.open("bank-1.ledger", "bank-1", lifetime=Fraction(2))
    ledger = file.run(agreement.fingerprint, run_id, Fraction(1), answers=8)      # a Ledger, for Owner

One SQLite file for one data set, in write-ahead mode with a flush to the disk at every commit: when `charge` returns,
the charge is on the disk. It is append-only. Each line carries the SHA-256 of the line before it and of its own
contents, so a line that was changed, removed or put between breaks the chain; `verify` says where.

| line       | what it says                                                    | epsilon          | content              |
| ---------- | --------------------------------------------------------------- | ---------------- | -------------------- |
| `lifetime` | the owner's budget for this data, over all runs (may be raised) | the budget       | δ                    |
| `run`      | a run began under an agreement                                  | the run's budget | its cap, as text; δ  |
| `charge`   | one answer was paid for, before any record was read             | the charge       | SHA-256 of θ; δ      |
| `answer`   | the answer to a charged query                                   |                  | float64 numbers      |
| `ahead`    | so many more answers of a run are paid for, before it is asked  | of all of them   | how many, as text    |

Every budget is a fraction of two whole numbers: nothing is rounded, whatever the number of lines. δ follows as text
where it is above 0. The first charge of an (ε, δ) run pays for all its answers, so that the others are charged 0
(`copriv.privacy.ledger`); over runs, both ε and δ add up (basic composition, which holds whatever a run asks for).

A flush takes most of an answer's time. With `ahead` = B above 0, up to B answers of a run are paid for with the answer
before them, and a charge that is paid for is written together with its answer: one flush an answer in place of two. The
budget is still on the disk before a record is read, and the answer before it leaves. Over-counting is what it costs: what is
paid for ahead and never asked for stays paid for. Where a crash comes between, nothing has left, and what was paid for ahead
pays for the next answer.

What cannot be detected from the file alone is an older copy of it put back in its place: an older chain is whole too.
Two things notice: the learner, which keeps the head of the chain with every answer and hands it back (`holds`), and the
owner's officer, who keeps a head elsewhere (`copriv ledger verify --head`).
"""

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.errors import BudgetRefused, CoprivError, QueryRefused
from copriv.privacy.ledger import refuse_overspending, to_pay
from copriv.privacy.one_writer import OneWriter
from copriv.types import Array
from copriv.validation import count

START = hashlib.sha256(b"copriv ledger 1").hexdigest()
"""The head of a chain without lines."""

_SCHEMA = """
CREATE TABLE lines (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, time TEXT NOT NULL, fingerprint TEXT NOT NULL, run TEXT NOT NULL,
    identity TEXT NOT NULL, epsilon TEXT NOT NULL, content BLOB NOT NULL, hash TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX once ON lines (identity, kind) WHERE kind IN ('charge', 'answer');
CREATE INDEX by_hash ON lines (hash);
CREATE TRIGGER no_update BEFORE UPDATE ON lines BEGIN SELECT RAISE(ABORT, 'a ledger line never changes'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON lines BEGIN SELECT RAISE(ABORT, 'a ledger line is never removed'); END;
PRAGMA user_version = 1;
"""
_DIGEST = hashlib.sha256().digest_size
_COLUMNS = "number, kind, time, fingerprint, run, identity, epsilon, content, hash"

_FIND = f"SELECT {_COLUMNS} FROM lines WHERE kind IN ('charge', 'answer') AND kind = ? AND identity = ?"
"""Said so that SQLite sees that its index `once` has all such lines; otherwise it would read the whole ledger."""


class LedgerDamaged(BudgetRefused):
    """The file is not the whole, unbroken ledger that it was: nothing more is answered from it."""


class AnswerLost(QueryRefused):
    """A crash came between the charge and the answer: the budget is spent, and the answer will never be known."""


class LedgerFailed(CoprivError):
    """The file cannot be read or written; nothing was answered."""


@dataclass(frozen=True)
class Line:
    """One line of the ledger; `epsilon` is exact, and None where the line spends and allows nothing."""

    number: int
    kind: str
    time: str
    """UTC, ISO 8601. For people: nothing depends on it."""
    fingerprint: str
    run: str
    identity: str
    epsilon: Fraction | None
    content: bytes
    hash: str

    @property
    def delta(self) -> Fraction:
        """δ of a line that spends or allows something."""
        match self.kind:
            case "lifetime":
                text = self.content
            case "run":
                text = self.content.partition(b" ")[2]
            case "charge":
                text = self.content[_DIGEST:]
            case _:
                text = b""
        return Fraction(text.decode()) if text else Fraction(0)

    def chained(self, head: str) -> str:
        """What `hash` must be after a line of hash `head`."""
        digest = hashlib.sha256()
        for part in (
            head, str(self.number), self.kind, self.time, self.fingerprint, self.run, self.identity,
            _text(self.epsilon), self.content,
        ):  # fmt: skip
            raw = part if isinstance(part, bytes) else part.encode()
            digest.update(len(raw).to_bytes(8, "big") + raw)
        return digest.hexdigest()


@dataclass(frozen=True)
class Entry:
    """What a new line is to say."""

    kind: str
    fingerprint: str = ""
    run: str = ""
    identity: str = ""
    epsilon: Fraction | None = None
    content: bytes = b""


@dataclass
class RunTotals:
    """What one run may spend, and has spent."""

    fingerprint: str
    epsilon: Fraction
    cap: int
    delta: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)
    spent_delta: Fraction = Fraction(0)
    charged: int = 0
    answered: int = 0
    ahead: int = 0
    """Answers that are paid for and were not asked for yet."""
    each: Fraction = Fraction(0)
    """ε of one of them."""

    @property
    def committed(self) -> Fraction:
        """ε that is spent or paid for ahead."""
        return self.spent + self.ahead * self.each


@dataclass
class Totals:
    """The sums that follow from the lines, and from nothing else."""

    owner: str = ""
    lifetime: Fraction = Fraction(0)
    lifetime_delta: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)
    spent_delta: Fraction = Fraction(0)
    ahead: Fraction = Fraction(0)
    """ε that is paid for and was not asked for yet."""
    lines: int = 0
    head: str = START
    runs: dict[str, RunTotals] = field(default_factory=dict)

    @property
    def committed(self) -> Fraction:
        """ε that is spent or paid for ahead."""
        return self.spent + self.ahead

    def add(self, line: Line) -> None:
        """Count one more line. Raises LedgerDamaged where it breaks the chain or a rule of the ledger."""
        if line.number != self.lines + 1:
            raise LedgerDamaged(f"ledger: line {self.lines + 1} is missing; restore the newest copy of the file")
        if line.hash != line.chained(self.head):
            raise LedgerDamaged(
                f"ledger: line {line.number} does not continue the chain: it, or a line before it, was changed"
            )
        try:
            sound = self._count(line, line.delta)
        except (ValueError, ZeroDivisionError):  # contents that are no numbers
            sound = False
        if not sound:
            raise LedgerDamaged(f"ledger: line {line.number} ({line.kind!r}) makes no sense where it stands")
        self.lines, self.head = line.number, line.hash

    def _count(self, line: Line, δ: Fraction) -> bool:
        """Add a line to the sums. False where such a line cannot stand."""
        ε, run = line.epsilon, self.runs.get(line.run)
        if δ < 0:
            return False
        match line.kind:
            case "lifetime" if ε is not None and ε >= self.committed and δ >= self.spent_delta:
                if self.owner not in ("", line.identity):
                    return False
                self.owner, self.lifetime, self.lifetime_delta = line.identity, ε, δ
            case "run" if ε is not None and run is None:
                self.runs[line.run] = RunTotals(line.fingerprint, ε, int(line.content.partition(b" ")[0]), δ)
            case "charge" if ε is not None and run is not None:
                free = run.spent_delta > 0  # paid for by the first one
                if not (ε == δ == 0 if free else ε > 0 and (δ == 0 or run.charged == 0)):
                    return False
                run.spent, run.spent_delta, run.charged = run.spent + ε, run.spent_delta + δ, run.charged + 1
                self.spent, self.spent_delta = self.spent + ε, self.spent_delta + δ
                if run.ahead > 0 and ε == run.each:
                    run.ahead, self.ahead = run.ahead - 1, self.ahead - ε
                self._check(line, run)
            case "ahead" if ε is not None and ε > 0 and run is not None and run.ahead == 0 and int(line.content) > 0:
                run.ahead, run.each, self.ahead = int(line.content), ε / int(line.content), self.ahead + ε
                self._check(line, run)
            case "answer" if run is not None and run.answered < run.charged:
                run.answered += 1
            case _:
                return False
        return True

    def _check(self, line: Line, run: RunTotals) -> None:
        beyond = run.committed > run.epsilon or run.spent_delta > run.delta or run.charged + run.ahead > run.cap
        if beyond or self.committed > self.lifetime or self.spent_delta > self.lifetime_delta:
            raise LedgerDamaged(f"ledger: line {line.number} overspends, which no owner writes")


class LedgerFile:
    """An owner's ledger file, open for writing by this process alone. Close it, or use it with `with`."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, writer: OneWriter, totals: Totals, ahead: int = 0
    ) -> None:
        self.path, self.totals = path, totals
        self.one_at_a_time = threading.RLock()
        """Held from a check of the totals to the line that follows from it, should several threads answer."""
        self.ahead = ahead
        self.pending: dict[str, Entry] = {}
        """Charges that are paid for, by their queries: they are written with their answers."""
        self._connection, self._writer, self._inode = connection, writer, path.stat().st_ino

    @classmethod
    def open(
        cls, path: str | Path, owner: str, lifetime: Fraction, lifetime_delta: Fraction = Fraction(0), ahead: int = 0
    ) -> "LedgerFile":
        """Open or create the file, and check every line of it.

        lifetime, lifetime_delta: the most ε, and the most δ, that the owner ever spends on this data. They may differ
        from what was said before, by a line of their own; they may not fall below what is spent.
        ahead: how many answers of a run are paid for before they are asked for (see above).
        Raises InUse while another process has it, LedgerDamaged for a broken chain, BudgetRefused for a lifetime that
        is not above 0 or already overspent.
        """
        path = Path(path).resolve()
        count("ahead", ahead, least=0)
        if not lifetime > 0 or not 0 <= lifetime_delta < 1:
            raise BudgetRefused(
                f"{owner}: a lifetime budget must be above 0 (and its delta at least 0 and below 1), not {lifetime} "
                f"(and {lifetime_delta})"
            )
        writer = OneWriter.claim(path, "ledger")
        try:
            connection = _connect(path)
            totals = Totals()
            for line in _lines(connection):
                totals.add(line)
        except BaseException:
            writer.release()
            raise
        file = cls(path, connection, writer, totals, ahead)
        try:
            if totals.owner not in ("", owner):
                raise BudgetRefused(
                    f"{path.name}: is the ledger of {totals.owner!r}, not of {owner!r}; give its own file"
                )
            if lifetime < totals.committed:
                raise BudgetRefused(
                    f"{owner}: a lifetime budget of {float(lifetime):g} is less than the {float(totals.committed):g} that "
                    "are spent; spent budget never comes back"
                )
            if lifetime_delta < totals.spent_delta:
                raise BudgetRefused(
                    f"{owner}: a lifetime delta of {float(lifetime_delta):g} is less than the "
                    f"{float(totals.spent_delta):g} that are spent; spent budget never comes back"
                )
            if (totals.lifetime, totals.lifetime_delta) != (lifetime, lifetime_delta):
                file.append(Entry("lifetime", identity=owner, epsilon=lifetime, content=_text_of_delta(lifetime_delta)))
        except BaseException:
            file.close()
            raise
        return file

    def run(
        self, fingerprint: str, run: str, epsilon: Fraction, answers: int, delta: Fraction = Fraction(0)
    ) -> "SqliteLedger":
        """The ledger of one run under one agreement: at most `epsilon` and `delta`, and at most `answers` answers.

        A new run needs as much of the lifetime budget left as it may spend. A run that is known continues.
        """
        count("answers", answers)
        if not epsilon > 0 or not 0 <= delta < 1 or not run or len(run) > 200:
            raise BudgetRefused(f"{self.totals.owner}: a run needs a name and a budget above 0, not {run!r}, {epsilon}")
        known = self.totals.runs.get(run)
        if known is None:
            left = self.totals.lifetime - self.totals.committed
            if epsilon > left:
                raise BudgetRefused(
                    f"{self.totals.owner} refused run {run!r}: it may spend {float(epsilon):.3f}, and "
                    f"{float(left):.3f} is left of the lifetime budget of {float(self.totals.lifetime):.3f}. "
                    "Continue the earlier run (copriv learner --resume), or raise the lifetime budget in the policy."
                )
            if delta > self.totals.lifetime_delta - self.totals.spent_delta:
                raise BudgetRefused(
                    f"{self.totals.owner} refused run {run!r}: it may spend a delta of {float(delta):g}, and "
                    f"{float(self.totals.lifetime_delta - self.totals.spent_delta):g} is left of the lifetime's "
                    f"{float(self.totals.lifetime_delta):g}. Raise lifetime_delta in the policy, or agree on pure epsilon."
                )
            content = b" ".join(filter(None, (str(answers).encode(), _text_of_delta(delta))))
            self.append(Entry("run", fingerprint, run, epsilon=epsilon, content=content))
        elif (known.fingerprint, known.epsilon, known.cap, known.delta) != (fingerprint, epsilon, answers, delta):
            raise QueryRefused(
                f"{self.totals.owner} refused: run {run!r} began under another agreement; begin a new run"
            )
        return SqliteLedger(self, run)

    def holds(self, head: str) -> bool:
        """Whether the chain ever had this head. False for a head that was seen: the file is older than it was."""
        return head == START or self._row("SELECT 1 FROM lines WHERE hash = ?", head) is not None

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        self._writer.release()

    def __enter__(self) -> "LedgerFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, kind: str, identity: str) -> Line | None:
        """The charge or the answer of a query."""
        row = self._row(_FIND, kind, identity)
        return None if row is None else _line(row)

    def _row(self, query: str, *values: str) -> Any:
        with self.one_at_a_time:
            try:
                return self._connection.execute(query, values).fetchone()
            except sqlite3.Error as error:
                raise LedgerFailed(f"{self.path.name}: cannot read ({error}); nothing was answered") from None

    def append(self, *entries: Entry) -> None:
        """Write lines and wait until they are on the disk, all or none; only then do they count here."""
        time, head, lines = datetime.now(UTC).isoformat(timespec="milliseconds"), self.totals.head, list[Line]()
        for number, entry in enumerate(entries, start=self.totals.lines + 1):
            line = Line(number, entry.kind, time, entry.fingerprint, entry.run, entry.identity, entry.epsilon,
                        entry.content, "")  # fmt: skip
            head = line.chained(head)
            lines.append(replace(line, hash=head))
        with self._transaction() as connection:
            for x in lines:
                values = (
                    x.number, x.kind, x.time, x.fingerprint, x.run, x.identity, _text(x.epsilon), x.content, x.hash
                )  # fmt: skip
                connection.execute(f"INSERT INTO lines ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            try:
                for line in lines:
                    self.totals.add(line)
            except LedgerDamaged:  # a line that cannot stand must not reach the file
                connection.close()
                raise

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # A lock can be got round (two mounts, a file moved away); what stands in the file cannot.
        if not self.path.exists() or self.path.stat().st_ino != self._inode:
            raise LedgerDamaged(f"{self.path.name}: the file was moved or replaced while in use; nothing was charged")
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            last = self._connection.execute("SELECT hash FROM lines ORDER BY number DESC LIMIT 1").fetchone()
            if (START if last is None else last[0]) != self.totals.head:
                self._connection.execute("ROLLBACK")
                raise LedgerDamaged(f"{self.path.name}: another process wrote to the file; nothing was charged")
            yield self._connection
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            # Whether the line reached the disk is not known: only opening the file again can tell.
            self._connection.close()
            raise LedgerFailed(f"{self.path.name}: cannot write ({error}); nothing was answered") from None


class SqliteLedger:
    """One run's part of an owner's file: the Ledger that an Owner charges."""

    def __init__(self, file: LedgerFile, run: str) -> None:
        self._file, self._run = file, run

    @property
    def _totals(self) -> RunTotals:
        return self._file.totals.runs[self._run]

    def open_for(self, fingerprint: str, delta: Fraction) -> None:
        run = self._totals
        if (run.fingerprint, run.delta > 0) != (fingerprint, delta > 0):
            raise BudgetRefused(
                f"{self._file.totals.owner} refused: run {self._run!r} counts for another agreement; begin a new run"
            )

    def released(self, identity: str, theta: Float[Array, " p"]) -> Float[Array, " answer"] | None:
        owner = self._file.totals.owner
        charge = self._file.pending.get(identity) or self._file.find("charge", identity)
        if charge is None:
            return None
        if charge.content[:_DIGEST] != _digest(theta) or charge.run != self._run:
            raise QueryRefused(
                f"{owner} refused: query {identity} was asked before at another theta; ask under a new identity"
            )
        answer = self._file.find("answer", identity)
        if answer is None:
            raise AnswerLost(
                f"{owner} refused: query {identity} was charged and never answered; ask under a new identity"
            )
        return np.frombuffer(answer.content, dtype="<f8").astype(np.float64)

    def charge(
        self, identity: str, theta: Float[Array, " p"], epsilon: Fraction, delta: Fraction = Fraction(0)
    ) -> None:
        with self._file.one_at_a_time:
            (ε, δ), run = self._checked(identity, epsilon, delta), self._totals
            content = _digest(theta) + _text_of_delta(δ)
            charge = Entry("charge", run.fingerprint, self._run, identity, ε, content)
            if self._is_paid_for(ε):
                self._file.pending[identity] = charge
            else:
                # Those that are paid for come first, or this one would use up their payment.
                self._file.append(*self._file.pending.values(), charge)
                self._file.pending.clear()

    def _is_paid_for(self, epsilon: Fraction) -> bool:
        run = self._totals
        return run.ahead > len(self._pending) and epsilon == run.each

    def _checked(self, identity: str, epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
        """What a charge costs. Raises BudgetRefused, or QueryRefused for an identity that is charged already."""
        file, run = self._file.totals, self._totals
        if identity in self._file.pending or self._file.find("charge", identity) is not None:
            raise QueryRefused(f"{file.owner} refused: query {identity} is already charged")
        cost = to_pay(file.owner, epsilon, delta, run.spent, run.spent_delta)
        if self._is_paid_for(cost[0]):
            return cost
        left = run.cap - run.charged - run.ahead
        refuse_overspending(file.owner, cost, (run.epsilon, run.delta), (run.committed, run.spent_delta), left)
        refuse_overspending(
            file.owner, cost, (file.lifetime, file.lifetime_delta), (file.committed, file.spent_delta), left,
            " This is the lifetime budget, over all runs on this data.",
        )  # fmt: skip
        return cost

    def record(self, identity: str, gradient: Float[Array, " p"]) -> None:
        content = np.ascontiguousarray(gradient, dtype="<f8").tobytes()
        with self._file.one_at_a_time:
            paid = self._file.pending.get(identity)
            charge = paid or self._file.find("charge", identity)
            if charge is None or charge.run != self._run or self._file.find("answer", identity) is not None:
                raise QueryRefused(
                    f"{self._file.totals.owner}: query {identity} has no charge that waits for an answer"
                )
            answer = Entry("answer", self._totals.fingerprint, self._run, identity, content=content)
            self._file.append(*([] if paid is None else [paid]), answer, *self._next(paid, charge.epsilon))
            self._file.pending.pop(identity, None)

    def _next(self, paid: Entry | None, each: Fraction | None) -> list[Entry]:
        """Payment for the answers to come, with the last one that is paid for."""
        file, run = self._file.totals, self._totals
        if not each or run.spent_delta > 0 or run.ahead > int(paid is not None):
            return []
        room = run.cap - run.charged - run.ahead
        left = min(run.epsilon - run.committed, file.lifetime - file.committed)
        number = min(self._file.ahead, room, left // each)
        if number < 1:
            return []
        return [Entry("ahead", run.fingerprint, self._run, epsilon=number * each, content=str(number).encode())]

    @property
    def _pending(self) -> list[Entry]:
        return [entry for entry in self._file.pending.values() if entry.run == self._run]

    @property
    def answers(self) -> int:
        return self._totals.charged + len(self._pending)

    @property
    def spent(self) -> Fraction:
        return self._totals.spent + sum((entry.epsilon or Fraction(0) for entry in self._pending), Fraction(0))

    @property
    def spent_delta(self) -> Fraction:
        return self._totals.spent_delta

    @property
    def head(self) -> str:
        """The hash of the newest line, over all runs: what the learner keeps to notice a ledger that was put back."""
        return self._file.totals.head


def read_lines(path: str | Path) -> Iterator[Line]:
    """The lines of a ledger, without checking them; works while an owner is writing. Raises LedgerFailed."""
    path = Path(path)
    if not path.is_file():
        raise LedgerFailed(f"{path}: there is no such ledger; give the path of an owner's ledger file")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            raise LedgerFailed(f"{path}: holds no ledger; give the path of an owner's ledger file")
        yield from _lines(connection)
    except sqlite3.Error as error:
        raise LedgerFailed(f"{path}: cannot be read as a ledger ({error})") from None
    finally:
        connection.close()


def verify(path: str | Path, head: str | None = None) -> Totals:
    """Check every line of a ledger file, and that it goes on from `head`, a head that was written down elsewhere.

    Raises LedgerDamaged, naming the first line that is wrong, or LedgerFailed for a file that is no ledger.
    """
    totals, heads = Totals(), {START}
    for line in read_lines(path):
        totals.add(line)
        heads.add(line.hash)
    if head is not None and head not in heads:
        raise LedgerDamaged(
            f"{path}: never had the head {head[:16]}…: it is an older copy, or another ledger. What it "
            "does not show is spent all the same: restore the newest copy, and answer nothing until then"
        )
    return totals


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        path.chmod(0o600)
    except (sqlite3.Error, OSError) as error:
        raise LedgerFailed(
            f"{path}: cannot be used as a ledger ({error}); give the path of a ledger or of a new file"
        ) from None
    return connection


def _lines(connection: sqlite3.Connection) -> Iterator[Line]:
    try:
        for row in connection.execute(f"SELECT {_COLUMNS} FROM lines ORDER BY number"):
            yield _line(row)
    except (sqlite3.Error, ValueError, ZeroDivisionError) as error:
        raise LedgerDamaged(f"ledger: cannot be read ({error}); restore the newest copy of the file") from None


def _line(row: tuple[Any, ...]) -> Line:
    number, kind, time, fingerprint, run, identity, epsilon, content, hash_ = row
    exact = Fraction(epsilon) if epsilon else None
    return Line(number, kind, time, fingerprint, run, identity, exact, content, hash_)


def _text(epsilon: Fraction | None) -> str:
    return "" if epsilon is None else f"{epsilon.numerator}/{epsilon.denominator}"


def _text_of_delta(delta: Fraction) -> bytes:
    return _text(delta).encode() if delta > 0 else b""


def _digest(theta: Float[Array, " p"]) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(theta, dtype="<f8").tobytes()).digest()
