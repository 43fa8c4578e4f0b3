"""The count of what an owner has spent: charged before a record is read, and never given back.

    charge = ledger.charge(query)          # refuses before any record is read
    ...                                    # compute and add noise
    ledger.record(query, gradient)         # what was released, for ever

A crash between the two costs budget and never privacy.
"""

import threading
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from copriv.errors import BudgetRefused, QueryRefused
from copriv.types import Array


@runtime_checkable
class Ledger(Protocol):
    """What an owner needs of a ledger; `tests/contracts/` holds what every implementation must keep."""

    def released(self, identity: str, theta: Float[Array, " p"]) -> Float[Array, " answer"] | None:
        """The stored answer to this query, None if it was never charged.

        Raises QueryRefused for a known identity with another θ, or one that was charged and never answered.
        """
        ...

    def charge(self, identity: str, theta: Float[Array, " p"], epsilon: Fraction) -> None:
        """Write the charge down durably. Raises BudgetRefused, and writes nothing, where it would overspend.

        Raises QueryRefused for an identity that is charged already. Check and write are one step: callers that
        charge at the same time cannot overspend together.
        """
        ...

    def record(self, identity: str, gradient: Float[Array, " p"]) -> None:
        """Store the answer of a charged query. Raises QueryRefused where no charge waits for it.

        What is stored never changes: neither with the array that was given, nor with one that `released` returned.
        """
        ...

    @property
    def answers(self) -> int:
        """How many answers were charged in this run."""
        ...

    @property
    def spent(self) -> Fraction:
        """ε charged in this run."""
        ...

    @property
    def head(self) -> str:
        """A name for all that was ever written, by which an older copy can be told; "" where there is none."""
        ...


class MemoryLedger:
    """A ledger that lives as long as the process. For a single session: a budget that must outlive it needs a file."""

    def __init__(self, owner: str, epsilon: Fraction, answers: int) -> None:
        self._owner, self._epsilon, self._cap = owner, epsilon, answers
        self._charged: dict[str, bytes] = {}
        self._spent = Fraction(0)
        self._answers: dict[str, Array] = {}
        self._one_at_a_time = threading.Lock()

    def released(self, identity: str, theta: Float[Array, " p"]) -> Float[Array, " answer"] | None:
        if identity not in self._charged:
            return None
        if self._charged[identity] != theta.tobytes():
            raise QueryRefused(
                f"{self._owner} refused: query {identity} was asked before at another theta; ask under a new identity"
            )
        if identity not in self._answers:
            raise QueryRefused(
                f"{self._owner} refused: query {identity} was charged and never answered; ask under a new identity"
            )
        return self._answers[identity].copy()

    def charge(self, identity: str, theta: Float[Array, " p"], epsilon: Fraction) -> None:
        if not epsilon > 0:
            raise BudgetRefused(f"{self._owner} refused: a charge must be above 0, not {epsilon}")
        with self._one_at_a_time:
            if identity in self._charged:
                raise QueryRefused(f"{self._owner} refused: query {identity} is already charged")
            left = self._epsilon - self._spent
            if self.answers >= self._cap or epsilon > left:
                message = overspent(self._owner, epsilon, self._epsilon, self._spent, self._cap - self.answers)
                raise BudgetRefused(message)
            self._charged[identity] = theta.tobytes()
            self._spent += epsilon

    def record(self, identity: str, gradient: Float[Array, " p"]) -> None:
        if identity not in self._charged or identity in self._answers:
            raise QueryRefused(f"{self._owner}: query {identity} has no charge that waits for an answer")
        self._answers[identity] = np.array(gradient)

    @property
    def answers(self) -> int:
        return len(self._charged)

    @property
    def spent(self) -> Fraction:
        return self._spent

    @property
    def head(self) -> str:
        return ""


def overspent(owner: str, asked: Fraction, budget: Fraction, spent: Fraction, answers_left: int) -> str:
    """The one sentence that a refused charge gives."""
    left = budget - spent
    affordable = min(max(answers_left, 0), left // asked) if asked > 0 else 0
    return (
        f"{owner} refused: asked for {float(asked):.3f}, spent {float(spent):.3f} of {float(budget):.3f}, "
        f"{float(left):.3f} left. Agree on at most {affordable} more answers, or raise epsilon."
    )
