"""A ledger in a file: what an owner has spent on one data set, over every run and agreement, for ever.

    create_ledger("loans.ledger", "bank-1", keys="keys/bank-1")                   # once (`create`)
    file = LedgerFile.open("loans.ledger", "bank-1", lifetime=Fraction(2), keys="keys/bank-1")
    ledger = file.run(agreement.fingerprint, run_id, Fraction(1), answers=8)      # a Ledger, for Owner

It is one file of text, to which lines are appended (`lines` says which), and nothing but that file: whoever
moves it, copies it or mounts it into a container has all of it. When `charge` returns, the charge is on the disk, and so
is what the witness in another folder saw of it (`witness`). An answer's own line is written before the answer leaves, and
is on the disk with the next charge: a crash of the process does not lose it, and where the power fails the answer is
lost, but its charge is not.

| what happens to the file                         | what the owner does                                                  |
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
the answer before them, and those do not wait: the budget is still on the disk before a record is read. Over-counting is
what it costs. What is paid for ahead and never asked for stays paid for. After a crash nobody knows how many of those
answers left (their lines may not have reached the disk), so all of them count as given: a line `lost` says so.
"""

import os
from fractions import Fraction
from pathlib import Path

from copriv.errors import BudgetRefused
from copriv.privacy.ledger import LedgerDamaged, LedgerFailed
from copriv.privacy.ledger.book import Book, home
from copriv.privacy.ledger.chain import Chain
from copriv.privacy.ledger.disk import BINARY
from copriv.privacy.ledger.lines import ZERO, Entry, RunTotals
from copriv.privacy.ledger.lock import lock
from copriv.privacy.ledger.read import first_hash
from copriv.privacy.ledger.run import RunLedger
from copriv.privacy.ledger.witness import Witness
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
        """Open the file, check every line of it, and hold it against its witness.

        lifetime, lifetime_delta: the most ε, and the most δ, that the owner ever spends on this data. They may differ
        from what was said before, by a line of their own; they may not fall below what is spent.
        ahead: how many answers of a run are paid for before they are asked for (see above).
        keys: the folder of the owner's keys, whose book says where the witness is; `witness` or else the ledger's, when None.
        witness: where the witness has to be, where the keys are given too; refused in any other place.
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
        file: LedgerFile | None = None
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
            if booked not in book.counting():  # nobody can replace it while its witness is locked
                raise LedgerDamaged(book.unknown(path))
            book.settle()
            file.load(owner)
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
        count("answers", answers)
        totals = self.totals
        if not epsilon > 0 or not 0 <= delta < 1 or not run or len(run) > 200:
            raise BudgetRefused(f"{totals.owner}: a run needs a name and a budget above 0, not {run!r}, {epsilon}")
        known = totals.runs.get(run)
        if known is None:
            left = totals.lifetime - totals.committed
            if epsilon > left:
                raise BudgetRefused(
                    f"{totals.owner} refused run {run!r}: it may spend {float(epsilon):.3f}, and "
                    f"{float(left):.3f} is left of the lifetime budget of {float(totals.lifetime):.3f}. "
                    "Continue the earlier run (copriv learner --resume), or raise the lifetime budget in the policy."
                )
            if delta > totals.lifetime_delta - totals.spent_delta:
                raise BudgetRefused(
                    f"{totals.owner} refused run {run!r}: it may spend a delta of {float(delta):g}, and "
                    f"{float(totals.lifetime_delta - totals.spent_delta):g} is left of the lifetime's "
                    f"{float(totals.lifetime_delta):g}. Raise lifetime_delta in the policy, or agree on pure epsilon."
                )
        terms = RunTotals(fingerprint, epsilon, answers, delta)
        ledger = RunLedger(self, run, terms)
        ledger.check_terms()
        return ledger

    def __enter__(self) -> "LedgerFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
