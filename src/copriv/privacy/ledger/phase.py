"""One phase's part of a run's ledger, for the owner that answers in it.

A charge counts in the phase and in the run. A later phase begins only after a charge of the phase before it, because it is
planned from the answers of that phase.
"""

from dataclasses import dataclass
from fractions import Fraction

from jaxtyping import Float

from copriv.errors import BudgetRefused
from copriv.privacy.ledger import Ledger, PhaseBudget
from copriv.types import Array


@dataclass(frozen=True)
class PhaseLedger:
    """The part of a run's `ledger` that belongs to `phase`; fingerprint, delta: those of the whole agreement."""

    ledger: Ledger
    phase: PhaseBudget
    fingerprint: str
    delta: Fraction

    def open_for(self, fingerprint: str, delta: Fraction) -> None:
        self.ledger.open_for(self.fingerprint, self.delta)

    def released(self, identity: str, theta: Float[Array, " p"]) -> Float[Array, " answer"] | None:
        return self.ledger.released(identity, theta)

    def charge(
        self,
        identity: str,
        theta: Float[Array, " p"],
        epsilon: Fraction,
        delta: Fraction = Fraction(0),
        phase: PhaseBudget | None = None,
    ) -> None:
        before = self.phase.number - 1
        if before and self.ledger.in_phase(before)[2] == 0:
            raise BudgetRefused(
                f"phase {self.phase.number} was asked for before an answer of phase {before}; phases follow each other, as "
                "was agreed"
            )
        self.ledger.charge(identity, theta, epsilon, delta, self.phase)

    def record(self, identity: str, gradient: Float[Array, " p"]) -> None:
        self.ledger.record(identity, gradient)

    def in_phase(self, number: int) -> tuple[Fraction, Fraction, int]:
        return self.ledger.in_phase(number)

    @property
    def spent(self) -> Fraction:
        return self.in_phase(self.phase.number)[0]

    @property
    def spent_delta(self) -> Fraction:
        return self.in_phase(self.phase.number)[1]

    @property
    def answers(self) -> int:
        return self.in_phase(self.phase.number)[2]

    @property
    def head(self) -> str:
        return self.ledger.head
