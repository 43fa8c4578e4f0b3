"""One phase's part of a run's ledger, for the owner that answers in it.

A charge counts in the phase and in the run. A phase after the first begins only once the one before it was charged, so that
what is planned by answers is never asked without them. Where owners may be missing from a sum, an owner may have missed that
phase: it then answers in the next one, and never again in the one that it missed.
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
    may_miss: bool = False
    """Whether the phase before may have gone on without this owner (`dropouts`)."""

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
        if before and not self.may_miss and self.ledger.in_phase(before)[2] == 0:
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
