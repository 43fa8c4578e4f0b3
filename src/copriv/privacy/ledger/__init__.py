"""The ledger of an owner's spent budget, which is charged before a record is read and never refunded.

    charge = ledger.charge(query)          # refuses before any record is read
    ...                                    # compute and add noise
    ledger.record(query, gradient)         # what was released, for ever

A crash between the two costs budget and never privacy.

With pure ε, each answer has a cost, and costs add up. The answers of an (ε, δ) run are private *together*, and a part of them
has no cost that adds up. The first charge of such a run therefore pays for all of them, and later charges cost nothing.

A run may be a sequence of phases (`PhaseBudget`), each with a mechanism, a budget and a number of answers that are fixed
before it begins; what is asked in a phase may follow from all that was released before. Phases add up (adaptive
composition; Dwork and Roth 2014, Thm 3.16 and B.1), so a charge belongs to its phase: what delta pays for is private
together with the answers of that phase alone.
"""

import threading
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, nextafter
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from copriv.errors import BudgetRefused, CoprivError, QueryRefused
from copriv.types import Array

Cost = tuple[Fraction, Fraction]
"""ε and δ."""
Sums = tuple[Fraction, Fraction, int]
"""ε, δ and the number of answers."""
NOTHING: Sums = (Fraction(0), Fraction(0), 0)


class LedgerDamaged(BudgetRefused):
    """The file is not the complete ledger that it was; nothing more is answered from it."""


class LedgerFailed(CoprivError):
    """The file cannot be read or written; nothing was answered."""


class AnswerLost(QueryRefused):
    """A crash came between the charge and the answer: the budget is spent, and the answer will never be known."""


@dataclass(frozen=True)
class PhaseBudget:
    """The most that one phase of a run may spend. Phases follow each other by number, and none begins again."""

    number: int
    """From 1."""
    epsilon: Fraction
    answers: int
    delta: Fraction = Fraction(0)
    terms: str = ""
    """Fingerprint of the agreement of the phase; "" where none is stated."""


Begun = list[tuple[PhaseBudget, Sums]]
"""The phases of a run that have begun, each with the run's sums when it did."""


@runtime_checkable
class Ledger(Protocol):
    """The ledger of an owner; `tests/contracts/` has the tests that every implementation must pass."""

    def open_for(self, fingerprint: str, delta: Fraction) -> None:
        """Set the agreement whose answers are charged from now on. Raises BudgetRefused where δ was paid for another one.

        The answers of an (ε, δ) run are private together, and with nobody else's.
        """

    def released(self, identity: str, theta: Float[Array, " p"]) -> Float[Array, " answer"] | None:
        """The stored answer to this query, None if it was never charged.

        Raises QueryRefused for a known identity with another θ, or one that was charged and never answered.
        """

    def charge(
        self,
        identity: str,
        theta: Float[Array, " p"],
        epsilon: Fraction,
        delta: Fraction = Fraction(0),
        phase: PhaseBudget | None = None,
    ) -> None:
        """Write the charge down durably. Raises BudgetRefused, and writes nothing, where it would overspend.

        With delta above 0, (epsilon, delta) is what all answers of the phase cost together: its first charge pays it.
        phase: the one that the answer belongs to; None where the whole run is one. The first charge of a phase begins it
        and ends the one before, of which nothing comes back.
        Raises QueryRefused for an identity that is charged already. Check and write are one step: callers that
        charge at the same time cannot overspend together.
        """

    def record(self, identity: str, gradient: Float[Array, " p"]) -> None:
        """Store the answer of a charged query. Raises QueryRefused where no charge waits for it.

        Changes of the given array, or of one that `released` returned, do not change the stored answer.
        """

    def in_phase(self, number: int) -> Sums:
        """Sums charged in the phase of this number; 0 before it begins."""

    @property
    def answers(self) -> int:
        """Number of answers that were charged in this run."""

    @property
    def spent(self) -> Fraction:
        """ε charged in this run."""

    @property
    def spent_delta(self) -> Fraction:
        """δ charged in this run."""

    @property
    def head(self) -> str:
        """Hash of the ledger on the disk, by which an older copy can be detected; "" for a ledger without a file.

        It is sent to the learner with every answer, and is indistinguishable from random to whoever has not read the ledger.
        """


@dataclass
class RunTotals:
    """Budget and spending of one run."""

    fingerprint: str
    epsilon: Fraction
    cap: int
    delta: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)
    spent_delta: Fraction = Fraction(0)
    charged: int = 0
    answered: int = 0
    ahead: int = 0
    """Number of answers that are paid for in advance and were not asked for yet."""
    each: Fraction = Fraction(0)
    """ε of one of them."""
    phases: Begun = field(default_factory=list)
    """Phases that have begun; empty for a run of one phase."""

    @property
    def phase(self) -> PhaseBudget | None:
        """The present phase; None for a run of one phase."""
        return self.phases[-1][0] if self.phases else None

    @property
    def before(self) -> Sums:
        """Sums of the run when this phase began."""
        return self.phases[-1][1] if self.phases else NOTHING

    @property
    def committed(self) -> Fraction:
        """ε that is spent or paid for ahead."""
        return self.spent + self.ahead * self.each if self.ahead else self.spent

    @property
    def sums(self) -> Sums:
        """Sums spent or paid for in advance."""
        return self.committed, self.spent_delta, self.charged + self.ahead

    @property
    def budget(self) -> PhaseBudget:
        """Budget of the present phase, or of a run of one phase."""
        return self.phase or PhaseBudget(0, self.epsilon, self.cap, self.delta)

    @property
    def paid(self) -> Sums:
        """Sums spent or paid for in advance since the present phase began."""
        return since(self.before, self.sums) if self.phases else self.sums

    @property
    def left(self) -> int:
        """Number of answers of the run that are not paid for."""
        return self.cap - self.charged - self.ahead

    @property
    def by_phase(self) -> list[Sums]:
        """Sums spent in each phase that has begun, without payment in advance; one entry for a run of one phase."""
        spent = (self.spent, self.spent_delta, self.charged)
        return [self.in_phase(phase.number, spent) for phase, _ in self.phases] or [spent]

    def in_phase(self, number: int, so_far: Sums) -> Sums:
        """Sums charged in the phase of this number; a run of one phase has number 1. so_far: the present sums of the run."""
        if not self.phases:
            return so_far if number == 1 else NOTHING
        for k, (phase, before) in enumerate(self.phases, start=1):
            if phase.number == number:
                return since(before, self.phases[k][1] if k < len(self.phases) else so_far)
        return NOTHING

    def begins(self, owner: str, phase: PhaseBudget | None) -> bool:
        """Whether a charge of this phase begins it. Raises BudgetRefused out of order."""
        current = self.phase
        if phase == current:
            return False
        if (
            phase is None
            or phase.number <= (current.number if current else 0)
            or (not current and self.left < self.cap)
        ):
            now, asked = (f"phase {one.number}" if one else "a run of one phase" for one in (current, phase))
            raise BudgetRefused(
                f"{owner} refused: {asked} was asked for in {now}; phases follow each other, as was agreed"
            )
        return True

    def to_pay(self, owner: str, asked: Cost, phase: PhaseBudget | None) -> Cost:
        """Cost of a charge, given the sums that are paid already.

        Raises BudgetRefused for a charge that is not positive, out of the order of phases, or beyond the budget of its phase.
        """
        epsilon, delta = asked
        spent, spent_delta, answers = NOTHING if self.begins(owner, phase) else self.paid
        if not epsilon > 0 or delta < 0:
            raise BudgetRefused(f"{owner} refused: a charge must be above 0, not {epsilon} (delta {delta})")
        whole = "run" if phase is None else "phase"
        if spent_delta == 0 and delta > 0 and spent > 0:
            raise BudgetRefused(f"{owner} refused: a {whole} of pure epsilon was asked for delta {float(delta):g}")
        if spent_delta > 0 and (epsilon, delta) != (spent, spent_delta):
            raise BudgetRefused(
                f"{owner} refused: the {whole} is paid for with epsilon {float(spent):g} and delta {float(spent_delta):g}, "
                f"and asked for {float(epsilon):g} and {float(delta):g}"
            )
        cost = (Fraction(0), Fraction(0)) if spent_delta > 0 else asked
        if phase is not None:
            budget, left = (phase.epsilon, phase.delta), phase.answers - answers
            refuse_overspending(
                owner, cost, budget, (spent, spent_delta), left, f" This is the budget of phase {phase.number}."
            )
        return cost

    def refuse_overspending(self, owner: str, cost: Cost) -> None:
        """Raise BudgetRefused where the cost exceeds the run's budget that is left, or no answer is left."""
        refuse_overspending(owner, cost, (self.epsilon, self.delta), (self.committed, self.spent_delta), self.left)


class MemoryLedger:
    """A ledger in memory, for a single session; a budget that must outlive the process needs a file."""

    head = ""

    def __init__(self, owner: str, epsilon: Fraction, answers: int, delta: Fraction = Fraction(0)) -> None:
        self._owner, self._run, self._with_delta = owner, RunTotals("", epsilon, answers, delta), False
        self._charged: dict[str, bytes] = {}
        self._answers: dict[str, Array] = {}
        self._one_at_a_time = threading.Lock()

    def open_for(self, fingerprint: str, delta: Fraction) -> None:
        if self._run.fingerprint not in ("", fingerprint) and (self._with_delta or delta > 0):
            raise BudgetRefused(
                f"{self._owner} refused: this ledger counts for another agreement, and what delta pays for is private "
                "together with that one's answers alone; give each agreement a ledger of its own"
            )
        self._run.fingerprint, self._with_delta = fingerprint, delta > 0

    def released(self, identity: str, theta: Float[Array, " p"]) -> Float[Array, " answer"] | None:
        if identity not in self._charged:
            return None
        if self._charged[identity] != theta.tobytes():
            raise QueryRefused(
                f"{self._owner} refused: query {identity} was asked before at another theta; ask under a new identity"
            )
        if identity not in self._answers:
            raise AnswerLost(
                f"{self._owner} refused: query {identity} was charged and never answered; ask under a new identity"
            )
        return self._answers[identity].copy()

    def charge(
        self,
        identity: str,
        theta: Float[Array, " p"],
        epsilon: Fraction,
        delta: Fraction = Fraction(0),
        phase: PhaseBudget | None = None,
    ) -> None:
        with self._one_at_a_time:
            if identity in self._charged:
                raise QueryRefused(f"{self._owner} refused: query {identity} is already charged")
            run = self._run
            cost = run.to_pay(self._owner, (epsilon, delta), phase)
            run.refuse_overspending(self._owner, cost)
            self._charged[identity] = theta.tobytes()
            if phase is not None and phase != run.phase:
                run.phases.append((phase, run.sums))
            run.spent, run.spent_delta, run.charged = run.spent + cost[0], run.spent_delta + cost[1], run.charged + 1

    def in_phase(self, number: int) -> Sums:
        return self._run.in_phase(number, self._run.sums)

    def record(self, identity: str, gradient: Float[Array, " p"]) -> None:
        if identity not in self._charged or identity in self._answers:
            raise QueryRefused(f"{self._owner}: query {identity} has no charge that waits for an answer")
        self._answers[identity] = np.array(gradient)

    @property
    def answers(self) -> int:
        return self._run.charged

    @property
    def spent(self) -> Fraction:
        return self._run.spent

    @property
    def spent_delta(self) -> Fraction:
        return self._run.spent_delta


def since(before: Sums, so_far: Sums) -> Sums:
    """Difference of two sums of a run."""
    return so_far[0] - before[0], so_far[1] - before[1], so_far[2] - before[2]


def refuse_overspending(owner: str, cost: Cost, budget: Cost, spent: Cost, answers_left: int, whose: str = "") -> None:
    """Raise BudgetRefused where the cost exceeds the budget that is left, or no answer is left. `whose` ends the message."""
    (ε, δ), (most, most_delta), (gone, gone_delta) = cost, budget, spent
    if answers_left < 1 or ε > most - gone:
        raise BudgetRefused(overspent(owner, ε, most, gone, answers_left) + whose)
    if δ > most_delta - gone_delta:
        raise BudgetRefused(
            f"{owner} refused: asked for delta {float(δ):g}, spent {float(gone_delta):g} of {float(most_delta):g}. "
            f"Agree on a mechanism of pure epsilon, or raise delta.{whose}"
        )


def largest_within(budget: Fraction) -> float:
    """The largest float that is at most a budget."""
    nearest = float(budget)
    return nearest if Fraction(nearest) <= budget else nextafter(nearest, -inf)


def overspent(owner: str, asked: Fraction, budget: Fraction, spent: Fraction, answers_left: int) -> str:
    """Message of a refused charge."""
    left = budget - spent
    affordable = min(max(answers_left, 0), left // asked) if asked > 0 else 0
    return (
        f"{owner} refused: asked for {float(asked):.3f}, spent {float(spent):.3f} of {float(budget):.3f}, "
        f"{float(left):.3f} left. Agree on at most {affordable} more answers, or raise epsilon."
    )
