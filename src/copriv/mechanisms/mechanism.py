"""What a mechanism is: all that anybody needs to know of how owners answer, behind one seam.

`GradientNoise` (many answers) and `OneAnswer` (a single one) say more of the two kinds, and fill in what each shares.
A mechanism takes terms and gives numbers, words or the owner's own answers; it never draws a simulation's noise.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError
from copriv.privacy.noise import Law, Order, PrivateAnswer, epsilon_per_answer
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss


class Guarantee(Enum):
    """Over a whole run, for one unit replaced."""

    PURE = "ε"
    APPROXIMATE = "(ε, δ)"
    EITHER = "ε, or (ε, δ) where owners state a δ"


@dataclass(frozen=True, eq=False)
class Phase:
    """One mechanism at work at one owner: what it gives, what that costs, and what may be asked. A run is one phase."""

    private: PrivateAnswer
    charge: tuple[Fraction, Fraction]
    """ε and δ that the ledger is charged before a record is read (`Mechanism.cost`)."""
    answers: int
    """Most answers; the one after them is refused."""
    at: Float[Array, " p"] | None
    """The one θ that may be asked at; None where any one inside Θ may."""


class Mechanism(ABC):
    """How owners answer. `agreed` is always the terms in which this mechanism is named."""

    name: str
    """Its value of `agreement.mechanism`."""
    guarantee: Guarantee
    one_answer: bool
    """Whether an owner answers one query, at the agreed start, and needs its records in memory for it."""
    gives_model = True
    """Whether a model follows from the answers."""
    terms: tuple[str, ...] = ()
    """Keys of [agreement] that this mechanism alone reads."""
    label: str = ""
    """Name in tables, in place of the rule's; empty where the rule's is shown."""
    phrase: str = ""
    """Name in sentences about a plan; empty for the default mechanism."""
    why_not_summed: str = ""
    """Why owners cannot share this mechanism's noise in a sum; empty where they can."""

    def check(self, agreed: AgreedTerms) -> None:
        """Raises AgreementError, naming the field, for terms that cannot be kept by any owner."""
        deltas = [owner.delta > 0 for owner in agreed.owner_tables]
        if self.guarantee is Guarantee.APPROXIMATE and not all(deltas):
            raise AgreementError(
                f'owner.delta: mechanism "{self.name}" is (epsilon, delta); give every owner a delta above 0, '
                'such as 1e-6, or choose mechanism = "laplace"'
            )
        if self.guarantee is Guarantee.EITHER and any(deltas) and not all(deltas):
            raise AgreementError(
                f'owner.delta: with mechanism "{self.name}" either every owner has a delta above 0, or none'
            )

    def check_delta(self, agreed: AgreedTerms) -> None:
        """Refuse δ > 0 where the mechanism is pure: it would be taken for a promise of less noise.

        A plan may still give such terms another mechanism, so this is for who answers, and who asks.
        """
        if self.guarantee is not Guarantee.PURE or not agreed.offers_delta:
            return
        for owner in agreed.owner_tables:
            if owner.delta > 0:
                raise AgreementError(
                    f'owner.delta: {owner.name} offers delta {owner.delta:g}, but mechanism "{self.name}" is pure epsilon '
                    'and makes no use of it; set delta = 0, choose mechanism = "gaussian", or rule = "auto" to have one '
                    "planned"
                )

    @abstractmethod
    def law(self, agreed: AgreedTerms) -> Law:
        """The law of the noise."""

    @abstractmethod
    def order(self, agreed: AgreedTerms) -> Order:
        """1 or 2: the norm in which gradients are clipped to Ξ."""

    @abstractmethod
    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        """The scale of an owner's noise on each coordinate of a gradient, or of what stands in its place.

        `feature_bound` is B as a number; without it, the agreement's. Raises AgreementError as `check_delta` does.
        """

    @abstractmethod
    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        """Length of an owner's answer."""

    @abstractmethod
    def in_earnest(self, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int, loss: Loss) -> PrivateAnswer:
        """The private answer of an owner, with real noise.

        Raises AgreementError, InvalidInput or CoprivError where it cannot be kept: before anything is spent.
        """

    def phase(
        self, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int, loss: Loss, group: Sequence[int] = ()
    ) -> Phase:
        """This mechanism at work at an owner, with real noise. Raises as `in_earnest` does.

        group: indices of the owners whose answers are seen as a sum only; none where each answer is seen.
        """
        private = self.in_earnest(agreed, owner, n_parameters, loss)
        at = start_of(agreed, n_parameters) if self.one_answer else None
        return Phase(private, self.cost(agreed, owner), agreed.answers, at)

    def cost(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[Fraction, Fraction]:
        """ε and δ that the ledger is charged before a record is read: at every answer, or, with δ, for all at the first.

        See `copriv.privacy.ledger`; the whole is ε/κ and δ/κ.
        """
        each = epsilon_per_answer(owner.epsilon, agreed.answers, owner.overlap)
        if owner.delta == 0:
            return each, Fraction(0)
        return each * agreed.answers, Fraction(owner.delta) / owner.overlap

    def spent_after(self, agreed: AgreedTerms, owner: OwnerTerms, answers: int) -> tuple[Fraction, Fraction]:
        """ε and δ that an owner has spent once so many answers are charged."""
        ε, δ = self.cost(agreed, owner)
        return (ε, δ) if δ > 0 and answers else (ε * answers * (δ == 0), Fraction(0))

    def promise(self, agreed: AgreedTerms, owner: OwnerTerms) -> str:
        """All that will ever leave an owner, in words: how many of what, with which noise, at what price."""
        what, noise = self.leaves(agreed, owner)
        δ = f", delta {owner.delta:g}" if owner.delta > 0 else ""
        return f"{what}, with {noise}: epsilon {owner.epsilon:g}{δ} over the run"

    @abstractmethod
    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        """What leaves an owner, and with which noise, in words."""


def measured_over(agreed: AgreedTerms, owner: OwnerTerms, order: Order) -> tuple[str, str]:
    """ "120 records" and "each clipped to 2 in L1": what an owner's means are of."""
    return f"{owner.records} {owner.counted}", f"each clipped to {agreed.gradient_bound:g} in L{order}"


def noise_in_words(law: Law, scale: float) -> str:
    """ "Laplace noise of scale 0.08"."""
    words = {Law.LAPLACE: "Laplace noise of scale", Law.NORMAL: "normal noise of standard deviation"}
    return f"{words[law]} {scale:.3g}"


def start_of(agreed: AgreedTerms, n_parameters: int) -> Float[Array, " p"]:
    """θ₀: the agreed start, or 0."""
    start = agreed.agreement.start
    return np.zeros(n_parameters) if start is None else np.array(start)


def step_of(agreed: AgreedTerms) -> float:
    """The agreed step of owners that answer once; while it is "auto", the whole way to where the answers point."""
    step = agreed.agreement.step
    if isinstance(step, float):
        return step
    return 1.0
