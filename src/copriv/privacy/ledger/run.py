"""One run's part of an owner's ledger file: the Ledger that an Owner charges."""

import hashlib
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from copriv.errors import BudgetRefused, QueryRefused
from copriv.privacy.ledger import AnswerLost, refuse_overspending, to_pay
from copriv.privacy.ledger.chain import Chain
from copriv.privacy.ledger.lines import ZERO, Entry, RunTotals
from copriv.types import Array


class RunLedger:
    """One run's part of an owner's file. A run that was never charged leaves no line."""

    def __init__(self, file: Chain, run: str, terms: RunTotals) -> None:
        self.file, self._run, self._terms = file, run, terms

    @property
    def _totals(self) -> RunTotals:
        return self.file.totals.runs.get(self._run, self._terms)

    def check_terms(self) -> None:
        """Raise QueryRefused where the run began under other terms."""
        known, mine = self._totals, self._terms
        if (known.fingerprint, known.epsilon, known.cap, known.delta) != (
            mine.fingerprint, mine.epsilon, mine.cap, mine.delta
        ):  # fmt: skip
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
            waiting, charged = file.pending.get(identity), file.charged.get(identity)
        if waiting is not None:
            run, digest = waiting.run, waiting.content
        elif charged is not None:
            run, digest = charged.run, charged.theta
        else:
            return None
        if run != self._run:
            raise QueryRefused(f"{owner} refused: query {identity} was asked in another run; ask under a new identity")
        if digest != _digest(theta):
            raise QueryRefused(
                f"{owner} refused: query {identity} was asked before at another theta; ask under a new identity"
            )
        if charged is None or charged.answer is None:
            raise AnswerLost(
                f"{owner} refused: query {identity} was charged and never answered; ask under a new identity"
            )
        return np.frombuffer(charged.answer, dtype="<f8").astype(np.float64)

    def charge(self, identity: str, theta: Float[Array, " p"], epsilon: Fraction, delta: Fraction = ZERO) -> None:
        with self.file.one_at_a_time:
            (ε, δ), run = self._checked(identity, epsilon, delta), self._totals
            charge = Entry("charge", run.fingerprint, self._run, identity, ε, δ, _digest(theta))
            if self._is_paid_for(ε):
                self.file.pending[identity] = charge
            else:
                # Those that are paid for come first, or this one would use up their payment.
                self.file.append(*self._begun(), *self.file.pending.values(), charge)
                self.file.pending.clear()

    def _begun(self) -> list[Entry]:
        """The run's own line, with its first charge."""
        if self._run in self.file.totals.runs:
            self.check_terms()
            return []
        run = self._terms
        return [Entry("run", run.fingerprint, self._run, "", run.epsilon, run.delta, str(run.cap))]

    def _is_paid_for(self, epsilon: Fraction) -> bool:
        run = self._totals
        return run.ahead > len(self._pending) and epsilon == run.each

    def _checked(self, identity: str, epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
        """What a charge costs. Raises BudgetRefused, or QueryRefused for an identity that is charged already."""
        file, totals, run = self.file, self.file.totals, self._totals
        if identity in file.pending or identity in file.charged:
            raise QueryRefused(f"{totals.owner} refused: query {identity} is already charged")
        cost = to_pay(totals.owner, (epsilon, delta), run.paid)
        if self._is_paid_for(cost[0]):
            return cost
        left = run.cap - run.charged - run.ahead
        refuse_overspending(totals.owner, cost, (run.epsilon, run.delta), (run.committed, run.spent_delta), left)
        refuse_overspending(
            totals.owner, cost, (totals.lifetime, totals.lifetime_delta), (totals.committed, totals.spent_delta), left,
            " This is the lifetime budget, over all runs on this data.",
        )  # fmt: skip
        return cost

    def record(self, identity: str, gradient: Float[Array, " p"]) -> None:
        file = self.file
        content = np.ascontiguousarray(gradient, dtype="<f8").tobytes().hex()
        with file.one_at_a_time:
            paid, charged = file.pending.get(identity), file.charged.get(identity)
            run = paid.run if paid is not None else charged.run if charged is not None else None
            if run != self._run or (charged is not None and charged.answer is not None):
                raise QueryRefused(f"{file.totals.owner}: query {identity} has no charge that waits for an answer")
            answer = Entry("answer", self._totals.fingerprint, self._run, identity, content=content)
            each = paid.epsilon if paid is not None else charged.epsilon if charged is not None else None
            ahead = self._next(paid, each)
            file.append(*([] if paid is None else [paid]), answer, *ahead, at_once=bool(ahead))
            file.pending.pop(identity, None)

    def _next(self, paid: Entry | None, each: Fraction | None) -> list[Entry]:
        """Payment for the answers to come, with the last one that is paid for."""
        totals, run = self.file.totals, self._totals
        if not each or run.spent_delta > 0 or run.ahead > int(paid is not None):
            return []
        room = run.cap - run.charged - run.ahead
        left = min(run.epsilon - run.committed, totals.lifetime - totals.committed)
        number = min(self.file.ahead, room, left // each)
        if number < 1:
            return []
        return [Entry("ahead", run.fingerprint, self._run, epsilon=number * each, content=str(number))]

    @property
    def _pending(self) -> list[Entry]:
        return [entry for entry in self.file.pending.values() if entry.run == self._run]

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
        """The hash of the newest line on the disk, over all runs: the learner keeps it, to notice an older ledger."""
        return self.file.head


def _digest(theta: Float[Array, " p"]) -> str:
    return hashlib.sha256(np.ascontiguousarray(theta, dtype="<f8").tobytes()).hexdigest()
