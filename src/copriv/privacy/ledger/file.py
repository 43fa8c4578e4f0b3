"""A ledger in a file: what an owner has spent on one data set, over every run and agreement, for ever.

    create_ledger("loans.ledger", "bank-1", witness="keys/bank-1")               # once (`create`)
    file = LedgerFile.open("loans.ledger", "bank-1", lifetime=Fraction(2), witness="keys/bank-1")
    ledger = file.run(agreement.fingerprint, run_id, Fraction(1), answers=8)      # a Ledger, for Owner

It is one file of text, to which lines are appended (`lines` says which), and nothing but that file: whoever
moves it, copies it or mounts it into a container has all of it. When `charge` returns, the charge is on the disk, and so
is what the witness in another folder saw of it (`witness`). An answer's own line is written before the answer leaves, and
is on the disk with the next charge: a crash of the process does not lose it, and where the power fails the answer is
lost, but its charge is not.

| what happens to the file                         | what the owner does                                                  |
| ------------------------------------------------ | -------------------------------------------------------------------- |
| it is not there                                  | refuses; `create_ledger` makes one, and not where there was one        |
| it is empty, or another one, or an older copy    | refuses: the witness says which it was, and how far                  |
| it is moved, replaced or gets a second name      | the next charge is refused                                           |
| another process has it open, by whatever name    | refuses (`lock`: the lock is the file's own)                   |
| another process has a copy of it open            | refuses: copies have one witness, which has a lock as well           |
| a line is changed, removed or put in             | refuses: the chain of hashes breaks                                  |
| a crash while a line was written                 | cuts off what the witness never saw, which was never paid with       |

Waiting for the disk takes most of an answer's time. With `ahead` = B above 0, up to B answers of a run are paid for with
the answer before them, and those do not wait: the budget is still on the disk before a record is read. Over-counting is
what it costs. What is paid for ahead and never asked for stays paid for. After a crash nobody knows how many of those
answers left (their lines may not have reached the disk), so all of them count as given: a line `lost` says so.
"""

import os
import threading
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from copriv.errors import BudgetRefused
from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.lines import START, ZERO, Charged, Entry, Line, Totals
from copriv.privacy.ledger.lock import lock
from copriv.privacy.ledger.read import EMPTY, named, parsed, raw_lines, unwitnessed
from copriv.privacy.ledger.run import RunLedger, begin_run
from copriv.privacy.ledger.witness import Witness, flush, witnessed
from copriv.validation import count

BINARY = getattr(os, "O_BINARY", 0)


class LedgerFile:
    """An owner's ledger file, open for writing by this process alone. Close it, or use it with `with`."""

    def __init__(self, path: Path, descriptor: int, witness: Witness, ahead: int = 0) -> None:
        self.path, self.ahead, self.totals = path, ahead, Totals()
        self.one_at_a_time = threading.RLock()
        """Held from a check of the totals to the line that follows from it, should several threads answer."""
        self.pending: dict[str, Entry] = {}
        """Charges that are paid for, by their queries: they are written with their answers."""
        self.charged: dict[str, Charged] = {}
        """All queries that were ever charged."""
        self.head = START
        """Of what is on the disk."""
        self._heads = {START}
        self._sound = False
        """Whether `totals` is what the file says."""
        self._descriptor, self._witness, self._end, self._process = descriptor, witness, 0, os.getpid()

    @classmethod
    def open(
        cls,
        path: str | Path,
        owner: str,
        lifetime: Fraction,
        lifetime_delta: Fraction = ZERO,
        ahead: int = 0,
        witness: str | Path | None = None,
    ) -> "LedgerFile":
        """Open the file, check every line of it, and hold it against its witness.

        lifetime, lifetime_delta: the most ε, and the most δ, that the owner ever spends on this data. They may differ
        from what was said before, by a line of their own; they may not fall below what is spent.
        ahead: how many answers of a run are paid for before they are asked for (see above).
        witness: the folder of the owner's keys, where the witness is; that of the ledger, when None.
        Raises InUse while another process has it, LedgerDamaged for a file that is not the whole ledger that was last
        used, BudgetRefused for a lifetime that is not above 0 or already overspent.
        """
        path = Path(path).resolve()
        folder = path.parent if witness is None else Path(witness).resolve()
        count("ahead", ahead, least=0)
        if not lifetime > 0 or not 0 <= lifetime_delta < 1:
            raise BudgetRefused(
                f"{owner}: a lifetime budget must be above 0 (and its delta at least 0 and below 1), not {lifetime} "
                f"(and {lifetime_delta})"
            )
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | BINARY)
        except FileNotFoundError:
            used = named(witnessed(folder, owner))
            was = f"the one that was last used is {used}: give it, or" if used else "if there never was one,"
            raise LedgerDamaged(f"{path}: there is no ledger; {was} make one (copriv ledger create)") from None
        except OSError as error:
            raise LedgerFailed(f"{path}: cannot be used as a ledger ({error.strerror}); give the path of one") from None
        file: LedgerFile | None = None
        try:
            lock(descriptor, path, "ledger")
            identity = _first_hash(path, descriptor)
            known, kept = witnessed(folder, owner), Witness.open(folder, identity)
            if kept is None:
                raise LedgerDamaged(unwitnessed(path, folder, known))
            file = cls(path, descriptor, kept, ahead)
            if kept.seen.owner == owner and kept.seen not in known:  # another one was made in its place
                raise LedgerDamaged(unwitnessed(path, folder, known))
            file._load(owner)
            file._say_lifetime(lifetime, lifetime_delta)
        except OSError as error:  # a disk that fails while what a crash left is looked at
            os.close(descriptor) if file is None else file.close()
            raise LedgerFailed(f"{path.name}: cannot be read or written ({error}); nothing was answered") from None
        except BaseException:
            os.close(descriptor) if file is None else file.close()
            raise
        return file

    def run(self, fingerprint: str, run: str, epsilon: Fraction, answers: int, delta: Fraction = ZERO) -> RunLedger:
        """The ledger of one run under one agreement: at most `epsilon` and `delta`, and at most `answers` answers.

        A new run needs as much of the lifetime budget left as it may spend; its line is written with its first charge.
        A run that is known continues.
        """
        return begin_run(self, fingerprint, run, epsilon, answers, delta)

    def holds(self, head: str) -> bool:
        """Whether the chain ever had this head. False for a head that was seen: the file is older than it was."""
        return head in self._heads

    def close(self) -> None:
        """Let go of the file, with everything on the disk. A process that was forked lets go of it, and says nothing."""
        if os.getpid() != self._process:
            self._let_go()
            return
        with self.one_at_a_time:
            try:
                if self._sound and self._descriptor >= 0:
                    # What was paid ahead, asked for and not answered is used up; nothing else would tell of it.
                    self._write(self._chained(self.pending.values()), at_once=False)
                    flush(self._descriptor)
                    self._witness.see(self.totals, self.path, closed=True)
            except (OSError, LedgerFailed, LedgerDamaged):
                pass  # what was charged was on the disk when it was; the rest counts as after a crash
            finally:
                self._let_go()

    def _let_go(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._witness.close()

    def __enter__(self) -> "LedgerFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, *entries: Entry, at_once: bool = True) -> None:
        """Write lines, all or none; they count when this returns.

        at_once: then they are on the disk, and their witness is. Without, the next lines take them along: for
        what spends nothing that is not on the disk already.
        """
        self._check_place()
        try:
            self._write(self._chained(entries), at_once)
        except BaseException:
            self._sound = False  # what the file has now is not known; opening it again tells
            self.close()
            raise

    def _chained(self, entries: Iterable[Entry]) -> list[Line]:
        lines, number, head = list[Line](), self.totals.lines, self.totals.head
        for entry in entries:
            lines.append(entry.after(number, head))
            number, head = number + 1, lines[-1].hash
        return lines

    def _write(self, lines: list[Line], at_once: bool = True) -> None:
        for line in lines:
            self._add(line)  # a line that cannot stand must not reach the file
        try:
            content = b"".join(line.to_bytes() for line in lines)
            self._end += len(content)
            while content:
                content = content[os.write(self._descriptor, content) :]
            if os.fstat(self._descriptor).st_size != self._end:
                raise LedgerDamaged(f"{self.path.name}: another process wrote to the file; nothing was charged")
            if at_once:
                flush(self._descriptor)
        except OSError as error:
            raise LedgerFailed(f"{self.path.name}: cannot write ({error}); nothing was answered") from None
        if at_once:
            self.head = self.totals.head
            self._witness.see(self.totals, self.path)

    def _check_place(self) -> None:
        """Whether this is still the file that the path names, and only that; and this the process that opened it."""
        if self._descriptor < 0:
            raise LedgerFailed(f"{self.path.name}: is closed after a failure; nothing was answered")
        if os.getpid() != self._process:
            raise LedgerFailed(f"{self.path.name}: a process that was forked cannot use the ledger that its parent has")
        own = os.fstat(self._descriptor)
        try:
            there = self.path.stat()
        except OSError:
            there = None
        if there is None or not os.path.samestat(own, there):
            raise LedgerDamaged(f"{self.path.name}: the file was moved or replaced while in use; nothing was charged")
        _refuse_names(self.path, own.st_nlink)
        if own.st_size != self._end:
            raise LedgerDamaged(f"{self.path.name}: another process wrote to the file; nothing was charged")

    def _load(self, owner: str) -> None:
        """Read and check every line, and cut off what a crash left."""
        flush(self._descriptor)  # what a process that was killed wrote counts, so it must last
        state, seen = os.fstat(self._descriptor), self._witness.seen
        _refuse_names(self.path, state.st_nlink)
        if hasattr(os, "fchmod"):
            os.fchmod(self._descriptor, 0o600)
        for raw in raw_lines(self.path):
            try:
                line = parsed(self.path, raw, self.totals.lines + 1)
                line.check_chain(self.totals.head)
            except LedgerDamaged:
                if seen.closed or self.totals.lines < seen.lines:
                    raise
                break  # a line that was being written: nothing was answered for it
            self._add(line)
            self._end += len(raw)
            if self.totals.lines == seen.lines and self.totals.head != seen.head:
                raise LedgerDamaged(
                    f"{self.path.name}: line {seen.lines} is not the one that these keys saw: it is another copy of the "
                    "ledger, which went its own way. Restore the one that was last used; nothing is answered from this"
                )
        if self.totals.lines < seen.lines:
            raise LedgerDamaged(
                f"{self.path.name}: has {self.totals.lines} lines, and these keys saw {seen.lines}: it is an older copy. "
                "What it does not show is spent all the same: restore the newest one. If that is lost, carry over what it "
                f"had spent (copriv ledger create --carry {seen.ledger[:16]})"
            )
        if self.totals.owner != owner:
            raise BudgetRefused(
                f"{self.path.name}: is the ledger of {self.totals.owner!r}, not of {owner!r}; give its own file"
            )
        if state.st_size != self._end:
            os.ftruncate(self._descriptor, self._end)
            flush(self._descriptor)
        self.head = self.totals.head
        self._witness.see(self.totals, self.path)
        given = [run for run, totals in self.totals.runs.items() if totals.ahead > 0]
        if given and not (seen.closed and seen.head == self.head):
            self.append(*(Entry("lost", self.totals.runs[run].fingerprint, run) for run in given))
        self._sound = True  # not before: to close it in good order would say that nothing was lost

    def _say_lifetime(self, lifetime: Fraction, delta: Fraction) -> None:
        owner, totals = self.totals.owner, self.totals
        if lifetime < totals.committed:
            raise BudgetRefused(
                f"{owner}: a lifetime budget of {float(lifetime):g} is less than the {float(totals.committed):g} that "
                "are spent; spent budget never comes back"
            )
        if delta < totals.spent_delta:
            raise BudgetRefused(
                f"{owner}: a lifetime delta of {float(delta):g} is less than the {float(totals.spent_delta):g} that are "
                "spent; spent budget never comes back"
            )
        if (totals.lifetime, totals.lifetime_delta) != (lifetime, delta):
            self.append(Entry("lifetime", identity=owner, epsilon=lifetime, delta=delta))

    def _add(self, line: Line) -> None:
        if line.kind == "charge" and line.identity in self.charged:
            raise LedgerDamaged(f"ledger: line {line.number} charges query {line.identity!r} again")
        if line.kind == "answer":
            known = self.charged.get(line.identity)
            if known is None or known.answer is not None or known.run != line.run:
                raise LedgerDamaged(f"ledger: line {line.number} answers a query that waits for none")
        self.totals.add(line)
        self._heads.add(line.hash)
        if line.kind == "charge":
            self.charged[line.identity] = Charged(line.run, line.content, line.epsilon or ZERO)
        elif line.kind == "answer":
            charge = self.charged[line.identity]
            self.charged[line.identity] = replace(charge, answer=bytes.fromhex(line.content))


def _first_hash(path: Path, descriptor: int) -> str:
    if os.fstat(descriptor).st_size == 0:
        raise LedgerDamaged(f"{path}: {EMPTY}")
    return parsed(path, next(raw_lines(path)), 1).hash


def _refuse_names(path: Path, names: int) -> None:
    if names > 1:
        raise LedgerDamaged(
            f"{path.name}: has {names} names (hard links): a copy of one of them could be taken for a ledger of its own. "
            "Remove the others; nothing was charged"
        )
