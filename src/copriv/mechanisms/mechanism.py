"""What a mechanism is: all that anybody needs to know of how owners answer, behind one seam.

`GradientNoise` (many answers) and `OneAnswer` (a single one) say more of the two kinds, and fill in what each shares.
A mechanism takes terms and gives numbers, words or the owner's own answers; it never draws a simulation's noise.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import sqrt

import numpy as np
from jaxtyping import Bool, Float

from copriv.errors import AgreementError
from copriv.formatting.numbers import counted
from copriv.privacy.noise import Law, Order, PrivateAnswer, epsilon_per_answer
from copriv.privacy.shared_noise import Part, Share, SharedNoise
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss, Whole


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

    def order(self, agreed: AgreedTerms) -> Order:
        """1 or 2: the norm in which gradients are clipped to Ξ; by default that of the noise's law."""
        return self.law(agreed).order

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
        if group:
            index = [agreed.owner[i].name for i in group].index(owner.name)
            private = self.summand(agreed, Share(self.in_sum(agreed, group, n_parameters), index), n_parameters)
        return Phase(private, self.cost(agreed, owner), agreed.answers, at)

    def multiplier(self, answers: int, epsilon: float, delta: float) -> float:
        """Scale of additive noise over sensitivity, so that m answers together keep (ε, δ). Both are already over κ."""
        raise AgreementError(f'agreement.mechanism: "{self.name}" has no additive noise: {self.why_not_summed}')

    def in_sum(self, agreed: AgreedTerms, members: Sequence[int], n_parameters: int) -> SharedNoise:
        """The noise that these owners share in a sum of their answers, in earnest.

        Raises AgreementError as `check_delta` does and where `why_not_summed` says why not, InvalidInput where the sum does not
        fit into 64 bits.
        """
        raise AgreementError(f'agreement.mechanism: "{self.name}" has no sum: {self.why_not_summed}')

    def summand(self, agreed: AgreedTerms, share: Share, n_parameters: int) -> PrivateAnswer:
        """An owner's part in a sum, with its share of the noise. Raises AgreementError as `in_sum` does."""
        raise AgreementError(f'agreement.mechanism: "{self.name}" has no sum: {self.why_not_summed}')

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
        if δ == 0:
            return ε * answers, δ
        if answers == 0:
            return Fraction(0), Fraction(0)
        return ε, δ

    def promise(self, agreed: AgreedTerms, owner: OwnerTerms) -> str:
        """All that will ever leave an owner, in words: how many of what, with which noise, at what price."""
        what, noise = self.leaves(agreed, owner)
        return f"{what}, with {noise}: {budget_in_words(owner)} over the run{self.promise_in_sums(agreed, owner)}"

    def promise_in_sums(self, agreed: AgreedTerms, owner: OwnerTerms) -> str:
        """Against whom an owner's ε holds, and what remains against all others; "" where answers are seen by themselves."""
        if not agreed.summed:
            return ""
        said = f", against {against(agreed.colluding)}, if the others add their shares{but_for(agreed.dropouts)}"
        if owner.floor is not None:
            return f"{said}; epsilon {owner.floor:g} if all the others work together, by noise of its own"
        remains = self.remaining(agreed, owner)
        if remains is None:
            return f"{said}; if all the others work together, a share hides little (an owner's floor prevents that)"
        return f"{said}; epsilon {remains:.3g} at this delta if all the others work together"

    def remaining(self, agreed: AgreedTerms, owner: OwnerTerms) -> float | None:
        """ε that remains of an owner's share in a sum at its δ if all other owners work together.

        None with Laplace noise, where it is a number of the grid (`SharedNoise.alone`).
        """
        if self.law(agreed) is Law.LAPLACE:
            return None
        from copriv.privacy.approximate import gaussian_epsilon

        shares = agreed.n_owners - agreed.uncounted  # as many as there may be in one sum
        multiplier = self.multiplier(agreed.answers, *owner.budget) / sqrt(shares)
        return owner.overlap * gaussian_epsilon(agreed.answers, multiplier, owner.budget[1])

    @abstractmethod
    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        """What leaves an owner, and with which noise, in words."""

    def noise_told(self, agreed: AgreedTerms, owner: OwnerTerms) -> str:
        """The noise of an owner's answer, in words; of a sum, all of it."""
        if not agreed.summed:
            return noise_in_words(self.law(agreed), self.scale(agreed, owner))
        alone = agreed.by_owner([self.scale(agreed, one) for one in agreed.owner_tables])
        law = noise_in_words(self.law(agreed), float((agreed.weights * alone).max()))
        return f"a share of noise, of which a weighted sum of all owners has {law} or more"


def measured_over(agreed: AgreedTerms, owner: OwnerTerms, order: Order) -> tuple[str, str]:
    """ "120 records" and "each clipped to 2 in L1": what an owner's means are of."""
    return f"{owner.records} {owner.counted}", f"each clipped to {agreed.gradient_bound:g} in L{order}"


def shared_noise(
    mechanism: Mechanism, agreed: AgreedTerms, members: Sequence[int], moved: Sequence[float], bound: float, unit: Array
) -> SharedNoise:
    """The noise that owners share in a sum of their answers.

    moved: sensitivity of each owner's answer to one unit replaced, once each number is divided by its `unit`.
    bound: largest absolute value of such a number. Raises as `Mechanism.in_sum` does.
    """
    mechanism.check_delta(agreed)
    owners = [agreed.owner[i] for i in members]
    weights = [Fraction(owner.records if owner.weight is None else owner.weight) for owner in owners]

    def exact(owner: OwnerTerms, epsilon: float) -> Fraction:
        if mechanism.guarantee is Guarantee.PURE:
            return 1 / epsilon_per_answer(epsilon, agreed.answers, owner.overlap)
        return Fraction(mechanism.multiplier(agreed.answers, epsilon / owner.overlap, owner.budget[1]))

    parts = [
        Part(
            weight / sum(weights), sensitivity, exact(owner, owner.epsilon),
            None if owner.floor is None else exact(owner, owner.floor),
        )
        for owner, weight, sensitivity in zip(owners, weights, moved, strict=True)
    ]  # fmt: skip
    return SharedNoise(mechanism.law(agreed), parts, agreed.colluding, len(unit), bound, unit, agreed.dropouts)


def budget_in_words(owner: OwnerTerms) -> str:
    """ "epsilon 1, delta 1e-06"; δ only where there is one."""
    if owner.delta == 0:
        return f"epsilon {owner.epsilon:g}"
    return f"epsilon {owner.epsilon:g}, delta {owner.delta:g}"


def against(colluding: int) -> str:
    """Against whom an owner's ε holds in a sum, in words."""
    alone = "everybody outside and the learner"
    return f"{alone} with any {counted(colluding, 'other owner')}" if colluding else alone


def but_for(dropouts: int) -> str:
    """ ", but for 2 owners that may be missing": those on whose shares a sum does not rely, in words; "" for none."""
    return f", but for {counted(dropouts, 'owner')} that may be missing" if dropouts else ""


def noise_in_words(law: Law, scale: float) -> str:
    """ "Laplace noise of scale 0.08"."""
    words = {Law.LAPLACE: "Laplace noise of scale", Law.NORMAL: "normal noise of standard deviation"}
    return f"{words[law]} {scale:.3g}"


def start_of(agreed: AgreedTerms, n_parameters: int) -> Float[Array, " p"]:
    """θ₀: the agreed start, or 0."""
    start = agreed.agreement.start
    return np.zeros(n_parameters) if start is None else np.array(start)


def of_numbers(agreed: AgreedTerms, columns: int) -> Bool[Whole, " columns"]:
    """Which of so many columns are of numbers or dates, whose ranges may be far too wide; all, where none is declared so."""
    data, found = agreed.data, list[bool]()
    for name in data.features or ():
        levels = (data.categories or {}).get(name, ())
        one_each = len(levels) if name not in (data.ordered or ()) and data.scaling != "none" else 0
        found += [False] * one_each or [name in (data.bounds or {}) or name in (data.dates or {})]
    whole = np.array(found, dtype=bool)
    return whole if len(whole) == columns and whole.any() else np.ones(columns, dtype=bool)


def column_factors(agreed: AgreedTerms, n_parameters: int) -> Float[Array, " p"]:
    """What each feature is multiplied by: columns of numbers by `column_scale`, all others and an intercept by 1."""
    times, own = np.ones(n_parameters), n_parameters - agreed.model.intercept
    times[:own][of_numbers(agreed, own)] = agreed.agreement.column_scale or 1.0
    return times


def scaled_told(agreed: AgreedTerms) -> str:
    """Words that follow what is released, where columns are multiplied first."""
    scale = agreed.agreement.column_scale or 1.0
    return "" if scale == 1.0 else f", columns of numbers multiplied by {scale:g} first"


def step_of(agreed: AgreedTerms) -> float:
    """The agreed step of owners that answer once; while it is "auto", the whole way to where the answers point."""
    step = agreed.agreement.step
    if isinstance(step, float):
        return step
    return 1.0
