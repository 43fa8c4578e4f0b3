"""The chain of lines of an open ledger, in which a line counts once it is on the disk and its witness has recorded it."""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from copriv.errors import BudgetRefused
from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.disk import close, flush, write_all
from copriv.privacy.ledger.lines import START, ZERO, Charged, Entry, Line, Totals, chained
from copriv.privacy.ledger.read import parsed, raw_lines
from copriv.privacy.ledger.witness import Witness


class Chain:
    """The lines of a ledger's file and their totals; `append` adds lines."""

    def __init__(self, path: Path, descriptor: int, witness: Witness, ahead: int = 0) -> None:
        self.path, self.ahead, self.totals = path, ahead, Totals()
        self.one_at_a_time = threading.RLock()
        """Held from a check of the totals to the line that follows from it, in case several threads answer."""
        self.pending: dict[str, Entry] = {}
        """Charges that were paid for ahead, by query identity; they are written with their answers."""
        self.charged: dict[str, Charged] = {}
        """All charged queries, by identity."""
        self.head = START
        """The hash of the newest line that is on the disk."""
        self._heads = {START}
        self._sound = False
        """Whether `totals` agrees with the file."""
        self._descriptor, self._witness, self._end, self._process = descriptor, witness, 0, os.getpid()

    def known(self, identity: str) -> Charged | None:
        """The charge of a query, including one that is paid for in advance and not written yet; None without one."""
        if (paid := self.pending.get(identity)) is not None:
            return Charged(paid.run, paid.content, paid.epsilon or ZERO, self.totals.runs[paid.run].phase)
        return self.charged.get(identity)

    def holds(self, head: str) -> bool:
        """Whether the chain ever had this head; where it did not, and another party saw the head, the file is an older copy."""
        return head in self._heads

    def close(self) -> None:
        """Write pending charges, flush and close the file. A forked process only closes it."""
        if os.getpid() != self._process:
            self._close_files()
            return
        with self.one_at_a_time:
            try:
                if self._sound and self._descriptor >= 0:
                    # Charges that were paid ahead and whose queries were not answered are used up: record them.
                    self._write(self.pending.values(), at_once=False)
                    flush(self._descriptor)
                    self._witness.see(self.totals, self.path, closed=True)
            except (OSError, LedgerFailed, LedgerDamaged):
                pass  # charges were on the disk when they were made; the rest counts as after a crash
            finally:
                self._close_files()

    def _close_files(self) -> None:
        if self._descriptor >= 0:
            close(self._descriptor)
            self._descriptor = -1
            self._witness.close()

    def append(self, *entries: Entry, at_once: bool = True) -> None:
        """Write lines, all or none; they count when this returns.

        at_once: whether to wait until the lines and their witness are on the disk. Otherwise they are flushed with later lines,
        which is allowed for lines that spend nothing beyond the charges on the disk.
        """
        self._check_place()
        try:
            self._write(entries, at_once)
        except BaseException:
            self._sound = False  # the content of the file is not known until it is opened again
            self.close()
            raise

    def _write(self, entries: Iterable[Entry], at_once: bool) -> None:
        lines = chained(entries, self.totals.lines, self.totals.head)
        for line in lines:
            self._add(line)  # raises before an invalid line is written
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
        """Raise where the path names another file, the file has other names, or another process opened or changed it."""
        if self._descriptor < 0:
            raise LedgerFailed(f"{self.path.name}: is closed after a failure; nothing was answered")
        if os.getpid() != self._process:
            raise LedgerFailed(f"{self.path.name}: a process that was forked cannot use the ledger that its parent has")
        try:
            own = os.fstat(self._descriptor)
        except OSError as error:
            raise LedgerFailed(f"{self.path.name}: cannot be read ({error}); nothing was answered") from None
        there = False
        with suppress(OSError):
            there = os.path.samestat(own, self.path.stat())
        if not there:
            raise LedgerDamaged(f"{self.path.name}: the file was moved or replaced while in use; nothing was charged")
        _refuse_names(self.path, own.st_nlink)
        if own.st_size != self._end:
            raise LedgerDamaged(f"{self.path.name}: another process wrote to the file; nothing was charged")

    def load(self, owner: str) -> None:
        """Read and check every line, and cut off an incomplete one that a crash left."""
        flush(self._descriptor)  # lines of a process that was killed count, and must last
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
                break  # an incomplete line, for which nothing was answered
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
        self._sound = True  # only now: closing the file before would record that nothing was lost

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
