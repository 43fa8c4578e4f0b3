"""A ledger in a file: the budget that an owner has spent on its data, over all runs and agreements.

    create_ledger("loans.ledger", "bank-1", keys="keys/bank-1")                   # once (`create`)
    file = LedgerFile.open("loans.ledger", "bank-1", lifetime=Fraction(2), keys="keys/bank-1")
    ledger = file.run(agreement.fingerprint, run_id, Fraction(1), answers=8)      # a Ledger, for Owner

The ledger is a single text file to which lines are appended (`lines`), so that it can be moved or mounted into a container
as a whole. When `charge` returns, the charge is on the disk, and so is the record of its witness in another folder
(`witness`). The line of an answer is written before the answer is released, and flushed with the next charge: a crash of the
process does not lose it; a power failure can lose the answer, but not its charge.

| event                                            | reaction of the owner                                                |
| ------------------------------------------------ | -------------------------------------------------------------------- |
| it is not there                                  | refuses; `create_ledger` makes one, and not where there was one      |
| it is empty, or another one                      | refuses: the book of the keys says which it was (`book`)             |
| it is an older copy                              | refuses: the witness says how far the ledger was                     |
| it is moved, replaced or gets a second name      | the next charge is refused                                           |
| another process has it open, by whatever name    | refuses (`lock`: the lock is the file's own)                         |
| another process has a copy of it open            | refuses: copies have one witness, which has a lock as well           |
| a line is changed, removed or put in             | refuses: the chain of hashes breaks                                  |
| a crash while a line was written                 | cuts off what the witness never saw, which was never paid with       |

Waiting for the disk takes most of an answer's time. With `ahead` = B above 0, up to B answers of a run are paid for with
the answer before them and need not wait, while their budget is still on the disk before a record is read. The cost is
over-counting: answers that are paid for ahead and never asked for stay paid for, and after a crash, when it is unknown how
many of them were released (their lines may not have reached the disk), all count as given, as a line `lost` records.
"""

import os
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float

from copriv.errors import BudgetRefused, QueryRefused
from copriv.privacy.ledger import (
    AnswerLost,
    Cost,
    LedgerDamaged,
    LedgerFailed,
    PhaseBudget,
    RunTotals,
    Sums,
    largest_within,
    refuse_overspending,
)
from copriv.privacy.ledger.book import Book, home
from copriv.privacy.ledger.chain import Chain
from copriv.privacy.ledger.disk import BINARY, close, lock
from copriv.privacy.ledger.lines import ZERO, Charged, Entry, digest
from copriv.privacy.ledger.read import first_hash
from copriv.privacy.ledger.witness import Witness
from copriv.types import Array
from copriv.validation import count


class LedgerFile(Chain):
    """An owner's ledger file, open for writing by this process alone. Close it, or use it with `with`."""

    @classmethod
    def open(
        cls,
        path: str | Path,
        owner: str,
        lifetime: Fraction,
        lifetime_delta: Fraction = ZERO,
        ahead: int = 0,
        witness: str | Path | None = None,
        keys: str | Path | None = None,
    ) -> "LedgerFile":
        """Open the file, check every line of it, and compare it with its witness.

        lifetime, lifetime_delta: the most ε, and the most δ, that the owner ever spends on this data. They may differ
        from what was said before, by a line of their own; they may not fall below what is spent.
        ahead: largest number of answers of a run that are paid for before they are asked for (see above).
        keys: the folder of the owner's keys, whose list names the folder of the witness; `witness`, or else the folder of the
        ledger, when None.
        witness: where the keys are given too, the folder in which the witness has to be.
        Raises InUse while another process has it, LedgerDamaged for a file that is not the whole ledger that was last
        used, BudgetRefused for a lifetime that is not above 0 or already overspent.
        """
        path = Path(path).resolve()
        book = Book(keys or witness or path.parent)
        count("ahead", ahead, least=0)
        if not lifetime > 0 or not 0 <= lifetime_delta < 1:
            raise BudgetRefused(
                f"{owner}: a lifetime budget must be above 0 (and its delta at least 0 and below 1), not {lifetime} "
                f"(and {lifetime_delta})"
            )
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | BINARY)
        except FileNotFoundError:
            used = book.named(book.counting())
            was = f"the one that was last used is {used}: give it, or" if used else "if there never was one,"
            raise LedgerDamaged(f"{path}: there is no ledger; {was} make one (copriv ledger create)") from None
        except OSError as error:
            raise LedgerFailed(f"{path}: cannot be used as a ledger ({error.strerror}); give the path of one") from None
        let_go: Callable[[], None] = partial(close, descriptor)
        try:
            lock(descriptor, path, "ledger")
            identity = first_hash(path, descriptor)
            booked = book.booked().get(identity)
            if booked is None:
                raise LedgerDamaged(book.unknown(path))
            if keys and witness and home(witness) != book.place(booked):
                raise LedgerDamaged(
                    f"{path}: these keys have its witness in {book.place(booked)}, not in {witness}: there is one place for "
                    "it, or each could have a lifetime budget of its own. Give that (--witness), or move the witness and "
                    "say so with copriv ledger adopt"
                )
            kept = Witness.open(book.place(booked), identity)
            if kept is None:
                raise LedgerDamaged(book.missing(path, booked))
            file = cls(path, descriptor, kept, ahead)
            let_go = file.close
            if booked not in book.counting():  # it cannot be replaced while its witness is locked
                raise LedgerDamaged(book.unknown(path))
            book.settle()
            file.load(owner)
            file._say_lifetime(lifetime, lifetime_delta)
        except BaseException as error:
            let_go()
            if isinstance(error, OSError):  # a disk error while the file is read or repaired
                raise LedgerFailed(f"{path.name}: cannot be read or written ({error}); nothing was answered") from None
            raise
        return file

    def run(self, fingerprint: str, run: str, epsilon: Fraction, answers: int, delta: Fraction = ZERO) -> "RunLedger":
        """The ledger of one run under one agreement: at most `epsilon` and `delta`, and at most `answers` answers.

        A new run needs as much of the lifetime budget left as it may spend; its line is written with its first charge.
        A run that is known continues.
        """
        count("answers", answers)
        totals = self.totals
        if not epsilon > 0 or not 0 <= delta < 1 or not run or len(run) > 200:
            raise BudgetRefused(f"{totals.owner}: a run needs a name and a budget above 0, not {run!r}, {epsilon}")
        if run not in totals.runs:
            left = totals.lifetime - totals.committed
            if epsilon > left:
                # In full: with fewer digits, what was asked for and what is left may look the same.
                rest = largest_within(left)
                most = f", an epsilon of at most {rest!r}" * (rest > 0)
                raise BudgetRefused(
                    f"{totals.owner} refused run {run!r}: it may spend {float(epsilon)!r}, and "
                    f"{rest!r} is left of the lifetime budget of {float(totals.lifetime)!r}. "
                    "Continue the earlier run (copriv learner --resume). If it cannot go on, sign a new agreement for what is "
                    f"left{most}; lifetime_epsilon in the policy must allow it and what is spent."
                )
            if delta > totals.lifetime_delta - totals.spent_delta:
                raise BudgetRefused(
                    f"{totals.owner} refused run {run!r}: it may spend a delta of {float(delta):g}, and "
                    f"{float(totals.lifetime_delta - totals.spent_delta):g} is left of the lifetime's "
                    f"{float(totals.lifetime_delta):g}. Raise lifetime_delta in the policy, or agree on pure epsilon."
                )
        ledger = RunLedger(self, run, RunTotals(fingerprint, epsilon, answers, delta))
        ledger.check_terms()
        return ledger

    def __enter__(self) -> "LedgerFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _say_lifetime(self, lifetime: Fraction, delta: Fraction) -> None:
        owner, totals = self.totals.owner, self.totals
        for what, said, gone in (("budget", lifetime, totals.committed), ("delta", delta, totals.spent_delta)):
            if said < gone:
                raise BudgetRefused(
                    f"{owner}: a lifetime {what} of {float(said):g} is less than the {float(gone):g} that are spent; spent "
                    "budget never comes back"
                )
        if (totals.lifetime, totals.lifetime_delta) != (lifetime, delta):
            self.append(Entry("lifetime", identity=owner, epsilon=lifetime, delta=delta))


class RunLedger:
    """One run's part of an owner's file. A run that was never charged leaves no line."""

    def __init__(self, file: Chain, run: str, terms: RunTotals) -> None:
        self.file, self._run, self._terms = file, run, terms

    @property
    def _totals(self) -> RunTotals:
        return self.file.totals.runs.get(self._run, self._terms)

    def check_terms(self) -> None:
        """Raise QueryRefused where the run began under other terms."""
        terms = [(one.fingerprint, one.epsilon, one.cap, one.delta) for one in (self._totals, self._terms)]
        if terms[0] != terms[1]:
            raise QueryRefused(
                f"{self.file.totals.owner} refused: run {self._run!r} began under another agreement; begin a new run"
            )

    def open_for(self, fingerprint: str, delta: Fraction) -> None:
        run = self._totals
        if (run.fingerprint, run.delta > 0) != (fingerprint, delta > 0):
            raise BudgetRefused(
                f"{self.file.totals.owner} refused: run {self._run!r} counts for another agreement; begin a new run"
            )

    def released(self, identity: str, theta: Float[Array, " p"]) -> Float[Array, " answer"] | None:
        owner, file = self.file.totals.owner, self.file
        with file.one_at_a_time:
            known = file.known(identity)
        if known is None:
            return None
        if known.run != self._run:
            raise QueryRefused(f"{owner} refused: query {identity} was asked in another run; ask under a new identity")
        if known.theta != digest(theta):
            raise QueryRefused(
                f"{owner} refused: query {identity} was asked before at another theta; ask under a new identity"
            )
        if known.answer is None:
            raise AnswerLost(
                f"{owner} refused: query {identity} was charged and never answered; ask under a new identity"
            )
        return np.frombuffer(known.answer, dtype="<f8").astype(np.float64)

    def charge(
        self,
        identity: str,
        theta: Float[Array, " p"],
        epsilon: Fraction,
        delta: Fraction = ZERO,
        phase: PhaseBudget | None = None,
    ) -> None:
        with self.file.one_at_a_time:
            (ε, δ), run = self._checked(identity, (epsilon, delta), phase), self._totals
            charge = Entry("charge", run.fingerprint, self._run, identity, ε, δ, digest(theta))
            if self._is_paid_for(ε, phase):
                self.file.pending[identity] = charge
                return
            self.check_terms()
            begun = Entry("run", run.fingerprint, self._run, "", run.epsilon, run.delta, str(run.cap))
            first = [] if self._run in self.file.totals.runs else [begun]
            # Charges that are paid for ahead come first; otherwise this one would use up their payment.
            self.file.append(*first, *self.file.pending.values(), *self._begun(phase), charge)
            self.file.pending.clear()

    def _begun(self, phase: PhaseBudget | None) -> list[Entry]:
        """The line of a phase, with its first charge."""
        run = self._totals
        if phase is None or phase == run.phase:
            return []
        number, content = str(phase.number), f"{phase.answers} {phase.terms}".rstrip()
        return [Entry("phase", run.fingerprint, self._run, number, phase.epsilon, phase.delta, content)]

    def _is_paid_for(self, epsilon: Fraction, phase: PhaseBudget | None) -> bool:
        run = self._totals
        return phase == run.phase and run.ahead > len(self._pending) and epsilon == run.each

    def _checked(self, identity: str, asked: Cost, phase: PhaseBudget | None) -> Cost:
        """The cost of a charge. Raises BudgetRefused, or QueryRefused for an identity that is charged already."""
        file, totals, run = self.file, self.file.totals, self._totals
        if file.known(identity) is not None:
            raise QueryRefused(f"{totals.owner} refused: query {identity} is already charged")
        if self._is_paid_for(asked[0], phase) and asked[1] == 0:
            return asked
        cost = run.to_pay(totals.owner, asked, phase)
        run.refuse_overspending(totals.owner, cost)
        refuse_overspending(
            totals.owner, cost, (totals.lifetime, totals.lifetime_delta), (totals.committed, totals.spent_delta), run.left,
            " This is the lifetime budget, over all runs on this data.",
        )  # fmt: skip
        return cost

    def record(self, identity: str, gradient: Float[Array, " p"]) -> None:
        file = self.file
        content = np.ascontiguousarray(gradient, dtype="<f8").tobytes().hex()
        with file.one_at_a_time:
            known = file.known(identity)
            if known is None or known.run != self._run or known.answer is not None:
                raise QueryRefused(f"{file.totals.owner}: query {identity} has no charge that waits for an answer")
            paid = [file.pending[identity]] if identity in file.pending else []
            answer = Entry("answer", self._totals.fingerprint, self._run, identity, content=content)
            ahead = self._next(len(paid), known)
            file.append(*paid, answer, *ahead, at_once=bool(ahead))
            file.pending.pop(identity, None)

    def _next(self, paid: int, answered: Charged) -> list[Entry]:
        """The line that pays for the next answers of a phase, once the last one that was paid for ahead is given; else none."""
        if self.file.ahead < 1:
            return []
        totals, run, each = self.file.totals, self._totals, answered.epsilon
        spent, spent_delta, answers = run.paid
        if not each or spent_delta > 0 or run.ahead > paid or answered.phase != run.phase:
            return []
        room = min(run.budget.answers - answers, run.left)
        left = min(run.budget.epsilon - spent, run.epsilon - run.committed, totals.lifetime - totals.committed)
        number = min(self.file.ahead, room, left // each)
        if number < 1:
            return []
        return [Entry("ahead", run.fingerprint, self._run, epsilon=number * each, content=str(number))]

    @property
    def _pending(self) -> list[Entry]:
        return [entry for entry in self.file.pending.values() if entry.run == self._run]

    def in_phase(self, number: int) -> Sums:
        return self._totals.in_phase(number, (self.spent, self.spent_delta, self.answers))

    @property
    def answers(self) -> int:
        return self._totals.charged + len(self._pending)

    @property
    def spent(self) -> Fraction:
        return self._totals.spent + sum((entry.epsilon or ZERO for entry in self._pending), ZERO)

    @property
    def spent_delta(self) -> Fraction:
        return self._totals.spent_delta

    @property
    def head(self) -> str:
        """The hash of the newest line on the disk, over all runs; the learner keeps it to detect an older copy."""
        return self.file.head
