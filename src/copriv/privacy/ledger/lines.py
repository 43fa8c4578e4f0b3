"""The lines of a ledger: their fields, their chain of hashes, and the totals that follow from them.

| line       | what it says                                                    | epsilon, delta   | content                |
| ---------- | --------------------------------------------------------------- | ---------------- | ---------------------- |
| `ledger`   | the first line: whose ledger this is                            |                  | a remark               |
| `before`   | what another ledger, which this one replaces, had spent         | spent there      | that ledger's identity |
| `lifetime` | the owner's budget for this data, over all runs (may be raised) | the budget       |                        |
| `run`      | a run began under an agreement                                  | the run's budget | its cap                |
| `phase`    | a phase of a run began; its number is the identity              | the phase's      | its cap, its terms     |
| `charge`   | one answer was paid for, before any record was read             | the charge       | SHA-256 of θ           |
| `answer`   | the answer to a charged query                                   |                  | float64 numbers, hex   |
| `ahead`    | so many more answers of a run are paid for, before it is asked  | of all of them   | how many               |
| `lost`     | a crash: what a run had paid ahead counts as given              |                  |                        |

On the disk a line is one JSON object in ASCII, ended by a newline. Its last key is `hash`: the SHA-256 of the hash of the
line before it and of everything before that key. Every line has a `nonce` of 256 random bits, so that its hash does not
reveal its content: the learner, who knows the query, the answer and nearly the time, cannot find the exact time by trying
values.

A run of one phase has no line `phase`. Where there are several, a phase's first charge comes right after its line; what the
phase before had paid ahead counts as given, as after a crash.

Every budget is a fraction of two whole numbers: nothing is rounded, whatever the number of lines.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property

import numpy as np
from jaxtyping import Float

from copriv.privacy.ledger import LedgerDamaged, PhaseBudget, since
from copriv.privacy.ledger import RunTotals as RunTotals
from copriv.types import Array

START = hashlib.sha256(b"copriv ledger 2").hexdigest()
"""The head of a chain without lines."""
ZERO = Fraction(0)

_COMPACT = json.JSONEncoder(separators=(",", ":"))
_TEXTS = ("kind", "time", "fingerprint", "run", "identity", "epsilon", "delta", "content", "nonce", "hash")


@dataclass(frozen=True)
class Entry:
    """Content of a line; `epsilon` is exact, and None for lines that neither spend nor allow a budget."""

    kind: str
    fingerprint: str = ""
    run: str = ""
    identity: str = ""
    epsilon: Fraction | None = None
    delta: Fraction = ZERO
    content: str = ""

    def after(self, lines: int, head: str) -> "Line":
        """The line with this content, after `lines` lines of which the last has the hash `head`."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        line = Line(**vars(self), number=lines + 1, time=now, nonce=secrets.token_hex(32), hash="")
        object.__setattr__(line, "hash", line.chained(head))  # nobody else has the line yet
        return line


def digest(numbers: Float[Array, " n"]) -> str:
    """SHA-256 of θ or of an answer as little-endian float64 numbers, hex, as lines of ledgers and of runs state it."""
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).hexdigest()


def chained(entries: Iterable[Entry], lines: int = 0, head: str = START) -> list["Line"]:
    """The lines with these contents, in a chain that continues `head`."""
    made = list[Line]()
    for entry in entries:
        made.append(entry.after(lines + len(made), made[-1].hash if made else head))
    return made


@dataclass(frozen=True, kw_only=True)
class Line(Entry):
    """A line of the ledger: its content, number, time and hash."""

    number: int
    time: str
    """UTC, to the second, ISO 8601; for information only."""
    nonce: str
    hash: str

    @property
    def entry(self) -> Entry:
        """The content of the line."""
        return Entry(**{field.name: getattr(self, field.name) for field in fields(Entry)})

    def chained(self, head: str) -> str:
        """The hash of this line after a line of hash `head`."""
        return hashlib.sha256(bytes.fromhex(head) + self._body).hexdigest()

    def check_chain(self, head: str) -> None:
        """Raise LedgerDamaged unless this line continues one of hash `head`."""
        if self.hash != self.chained(head):
            raise LedgerDamaged(
                f"ledger: line {self.number} does not continue the chain: it, or a line before it, was changed; restore the "
                "newest copy"
            )

    def to_bytes(self) -> bytes:
        """The line as it is written in the file."""
        return self._body + f',"hash":"{self.hash}"}}\n'.encode("ascii")

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Line":
        """The line of these bytes. Raises ValueError for anything that `to_bytes` does not return."""
        try:
            said = json.loads(raw)
        except (ValueError, RecursionError):
            raise ValueError("it is no JSON") from None
        if not isinstance(said, dict) or list(said) != ["line", *_TEXTS] or type(said["line"]) is not int:
            raise ValueError("not the keys of a line")
        if not all(isinstance(said[key], str) for key in _TEXTS):
            raise ValueError("a value that is no text")
        try:
            ε = _fraction(said["epsilon"]) if said["epsilon"] else None
            δ = _fraction(said["delta"]) if said["delta"] else ZERO
        except ArithmeticError:
            raise ValueError("a fraction with denominator 0, or beyond all numbers") from None
        line = cls(number=said.pop("line"), **said | {"epsilon": ε, "delta": δ})
        if line.to_bytes() != raw:
            raise ValueError("not written as a line is")
        return line

    @cached_property
    def _body(self) -> bytes:
        """The line as it is written, up to its hash; it is read to chain, to check and to write the line."""
        said = {"line": self.number} | {key: getattr(self, key) for key in _TEXTS[:-1]}
        said |= {"epsilon": text_of(self.epsilon), "delta": text_of(self.delta) if self.delta else ""}
        return _COMPACT.encode(said).encode("ascii")[:-1]


@dataclass(frozen=True)
class Charged:
    """A query that was charged."""

    run: str
    theta: str
    """SHA-256, hex."""
    epsilon: Fraction
    phase: PhaseBudget | None = None
    answer: bytes | None = None
    """The answer as float64 numbers; None where none was recorded."""


@dataclass
class Totals:
    """The totals that follow from the lines alone."""

    owner: str = ""
    remark: str = ""
    identity: str = ""
    """The ledger's identity: the hash of its first line."""
    lifetime: Fraction = ZERO
    lifetime_delta: Fraction = ZERO
    spent: Fraction = ZERO
    spent_delta: Fraction = ZERO
    before: Fraction = ZERO
    """The part of `spent` that another ledger says, which this one replaces."""
    ahead: Fraction = ZERO
    """ε that is paid for and was not asked for yet."""
    lines: int = 0
    head: str = START
    runs: dict[str, RunTotals] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Line]) -> "Totals":
        """The totals of these lines. Raises LedgerDamaged."""
        totals = cls()
        for line in lines:
            totals.add(line)
        return totals

    @property
    def committed(self) -> Fraction:
        """ε that is spent or paid for ahead."""
        return self.spent + self.ahead

    def add(self, line: Line) -> None:
        """Add a line to the totals. Raises LedgerDamaged where it breaks the chain or a rule of the ledger."""
        if line.number != self.lines + 1:
            raise LedgerDamaged(f"ledger: line {self.lines + 1} is missing; restore the newest copy of the file")
        line.check_chain(self.head)
        try:
            sound = line.delta >= 0 and self._count(line)
        except ValueError:  # contents that are no numbers
            sound = False
        if not sound:
            raise LedgerDamaged(f"ledger: line {line.number} ({line.kind!r}) makes no sense where it stands")
        self.lines, self.head = line.number, line.hash

    def _count(self, line: Line) -> bool:
        """Add a line to the totals; returns False where its content is not valid after the lines before it."""
        if (line.kind == "ledger") != (self.lines == 0):
            return False
        ε, δ, run = line.epsilon, line.delta, self.runs.get(line.run)
        match line.kind:
            case "ledger":
                self.owner, self.remark, self.identity = line.identity, line.content, line.hash
            case "before" if ε is not None and ε >= 0 and self.lines == 1:
                self.spent, self.spent_delta, self.before = ε, δ, ε
            case "lifetime" if ε is not None and ε > 0 and ε >= self.committed and δ >= self.spent_delta:
                if line.identity != self.owner:
                    return False
                self.lifetime, self.lifetime_delta = ε, δ
            case "run" if ε is not None and run is None:
                self.runs[line.run] = RunTotals(line.fingerprint, ε, int(line.content), δ)
            case "charge" if ε is not None and run is not None:
                _, paid_delta, answers = since(run.before, (run.spent, run.spent_delta, run.charged))
                first = ε > 0 and (δ == 0 or answers == 0)
                # With δ, the first pays for all of the phase, which are private together.
                if not (ε == δ == 0 if paid_delta > 0 else first):
                    return False
                run.spent, run.spent_delta, run.charged = run.spent + ε, run.spent_delta + δ, run.charged + 1
                self.spent, self.spent_delta = self.spent + ε, self.spent_delta + δ
                if run.ahead > 0 and ε == run.each:
                    run.ahead, self.ahead = run.ahead - 1, self.ahead - ε
                self._check(line, run)
            case "ahead" if ε is not None and ε > 0 and run is not None and run.ahead == 0 and int(line.content) > 0:
                run.ahead, run.each, self.ahead = int(line.content), ε / int(line.content), self.ahead + ε
                self._check(line, run)
            case "phase" if ε is not None and ε > 0 and run is not None:
                number, last = int(line.identity), run.phase.number if run.phase else 0
                if number <= last or (run.phase is None and run.charged + run.ahead > 0):
                    return False
                self._lose_ahead(run)
                cap, *terms = line.content.split(" ")
                run.phases.append((PhaseBudget(number, ε, int(cap), δ, *terms[:1]), run.sums))
                return len(terms) <= 1
            case "lost" if run is not None and run.ahead > 0:
                self._lose_ahead(run)
            case "answer" if run is not None and run.answered < run.charged:
                run.answered += 1
            case _:
                return False
        return True

    def _lose_ahead(self, run: RunTotals) -> None:
        """Count answers that are paid for in advance as given."""
        lost = run.ahead * run.each
        self.spent, self.ahead = self.spent + lost, self.ahead - lost
        run.spent, run.charged, run.ahead = run.committed, run.charged + run.ahead, 0

    def _check(self, line: Line, run: RunTotals) -> None:
        whole = PhaseBudget(0, run.epsilon, run.cap, run.delta)
        beyond = any(
            ε > most.epsilon or δ > most.delta or answers > most.answers
            for most, (ε, δ, answers) in ((whole, run.sums), (run.budget, run.paid))
        )
        if beyond or self.committed > self.lifetime or self.spent_delta > self.lifetime_delta:
            raise LedgerDamaged(f"ledger: line {line.number} overspends, which no owner writes")


def _fraction(text: str) -> Fraction:
    """Inverse of `text_of`. Raises ValueError, ZeroDivisionError, or OverflowError for numbers beyond the range of floats."""
    numerator, slash, denominator = text.partition("/")
    if not slash:  # Fraction would also accept 1e999999999, and compute it without end
        raise ValueError("no fraction")
    number = Fraction(int(numerator), int(denominator))
    float(number)
    return number


def text_of(number: Fraction | None) -> str:
    """A fraction as the file has it; "" for None."""
    if number is None:
        return ""
    return f"{number.numerator}/{number.denominator}"
