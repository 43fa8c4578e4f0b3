"""The lines of a ledger that this process has open: each is on the disk, and known to its witness, before it counts."""

import os
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from copriv.errors import BudgetRefused
from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.disk import flush, write_all
from copriv.privacy.ledger.lines import START, ZERO, Charged, Entry, Line, Totals, chained
from copriv.privacy.ledger.read import parsed, raw_lines
from copriv.privacy.ledger.witness import Witness


class Chain:
    """The file's lines, their sums, and the way to add more."""

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

    def known(self, identity: str) -> Charged | None:
        """A query that was charged, or is paid for and not written yet."""
        if (paid := self.pending.get(identity)) is not None:
            return Charged(paid.run, paid.content, paid.epsilon or ZERO, self.totals.runs[paid.run].phase)
        return self.charged.get(identity)

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
                    self._write(self.pending.values(), at_once=False)
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

    def append(self, *entries: Entry, at_once: bool = True) -> None:
        """Write lines, all or none; they count when this returns.

        at_once: then they are on the disk, and their witness is. Without, the next lines take them along: for
        what spends nothing that is not on the disk already.
        """
        self._check_place()
        try:
            self._write(entries, at_once)
        except BaseException:
            self._sound = False  # what the file has now is not known; opening it again tells
            self.close()
            raise

    def _write(self, entries: Iterable[Entry], at_once: bool) -> None:
        lines = chained(entries, self.totals.lines, self.totals.head)
        for line in lines:
            self._add(line)  # a line that cannot stand must not reach the file
        try:
            content = b"".join(line.to_bytes() for line in lines)
            self._end += len(content)
            write_all(self._descriptor, content)
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

    def load(self, owner: str) -> None:
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
                f"{self.path.name}: is the ledger of {self.totals.owner!r}, not of {owner!r}; give its own file. If the "
                "owner was renamed, begin a ledger under the new name with what this one had spent (copriv ledger create "
                f"--carry {seen.ledger[:16]})"
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

    def _add(self, line: Line) -> None:
        known = self.charged.get(line.identity)
        if line.kind == "charge" and known is not None:
            raise LedgerDamaged(f"ledger: line {line.number} charges query {line.identity!r} again")
        if line.kind == "answer" and (known is None or known.answer is not None or known.run != line.run):
            raise LedgerDamaged(f"ledger: line {line.number} answers a query that waits for none")
        self.totals.add(line)
        self._heads.add(line.hash)
        if line.kind == "charge":
            phase = self.totals.runs[line.run].phase
            self.charged[line.identity] = Charged(line.run, line.content, line.epsilon or ZERO, phase)
        elif line.kind == "answer" and known is not None:
            self.charged[line.identity] = replace(known, answer=bytes.fromhex(line.content))


def _refuse_names(path: Path, names: int) -> None:
    if names > 1:
        raise LedgerDamaged(
            f"{path.name}: has {names} names (hard links): a copy of one of them could be taken for a ledger of its own. "
            "Remove the others; nothing was charged"
        )
