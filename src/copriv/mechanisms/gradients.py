"""Mechanisms by which an owner answers many queries: the mean of clipped gradients, with fresh noise each time.

| mechanism        | noise                                                                                       |
| ---------------- | ------------------------------------------------------------------------------------------- |
| laplace          | Laplace, gradients clipped in L1, pure ε: each of m answers spends ε/m                      |
| laplace-composed | Laplace, gradients clipped in L1, (ε, δ) over the run, with less of it than pure ε needs    |
| gaussian         | normal, gradients clipped in L2, (ε, δ) over the run, accounted for exactly                 |

Replacing one of n records moves the mean by at most 2Ξ/n in the norm that gradients are clipped in, so Laplace noise of
scale 2Ξm/(nε) on each coordinate makes an answer (ε/m)-private, whatever was asked before it (A, Thm 1; S, Thm 1). With δ,
the privacy losses of m answers are added up as a distribution in place of their worst cases (`copriv.privacy.approximate`).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from copriv.formatting.numbers import counted
from copriv.mechanisms.mechanism import Guarantee, Mechanism, measured_over, shared_noise
from copriv.model.records import InBlocks, Records
from copriv.privacy.clipping import clipped_mean_gradient, kept_limits, mean_sensitivity
from copriv.privacy.noise import GRID, Law, Order, Releases, Waits, laplace_scale
from copriv.privacy.shared_noise import Share, SharedNoise
from copriv.rules.rule import SharedSum
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss, is_linear


@dataclass(frozen=True, eq=False)
class ClippedGradient:
    """The mean of gradients clipped to norm `bound` (in L1 or L2), and the noise that was made for it."""

    noise: Releases
    bound: float
    order: Order

    @property
    def ahead(self) -> Waits | None:
        return self.noise if isinstance(self.noise, Waits) else None

    def answer(self, loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        return self.noise.release(clipped_mean_gradient(loss, records, theta, self.bound, self.order))

    def keep(self, loss: Loss, records: Records) -> None:
        """Compute how far each row is clipped, which all answers use."""
        if is_linear(loss):
            for block in records.blocks():
                kept_limits(block, self.bound, self.order)


class GradientNoise(Mechanism):
    """A law, the norm that Ξ is in, and how much noise m answers need together; the rest follows."""

    one_answer = False
    noise: Law
    norm: Order

    @abstractmethod
    def multiplier(self, answers: int, epsilon: float, delta: float) -> float: ...

    @abstractmethod
    def releases(self, sensitivity: float, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int) -> Releases:
        """The noise of one of the agreed answers, in earnest; `sensitivity` is in `norm`, for one unit replaced."""

    def law(self, agreed: AgreedTerms) -> Law:
        return self.noise

    def order(self, agreed: AgreedTerms) -> Order:
        return self.norm

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        self.check_delta(agreed)
        return 2.0 * agreed.gradient_bound / owner.records * self.multiplier(agreed.answers, *owner.budget)

    def variance(self, agreed: AgreedTerms, answers: int, groups: Sequence[tuple[int, ...]] = ()) -> float:
        """v(m): the variance of noise in one coordinate of Σ w_i Q̄_i, for Ξ = 1 and m answers of each owner.

        groups: owners that are seen as a sum only, by their indices; none where each answer is seen.
        """
        w, alone = agreed.weights, self._scales(agreed, answers, [owner.epsilon for owner in agreed.owner_tables])
        if not groups:
            return self.noise.variance * float(np.sum((w * alone) ** 2))
        floors, total = self._scales(agreed, answers, [owner.floor for owner in agreed.owner_tables]), 0.0
        for members in map(list, groups):
            summed = SharedSum(w[members], agreed.uncounted, floors[members])
            total += float(np.sum((w[members].sum() * summed.noise(alone[members])) ** 2))
        return self.noise.variance * total

    def _scales(self, agreed: AgreedTerms, answers: int, budgets: Sequence[float | None]) -> Array:
        """Scale of noise on each owner's answers for Ξ = 1 that keeps these ε, one a table; 0 for None."""
        return agreed.by_owner(
            [
                0.0 if ε is None else 2.0 / one.records * self.multiplier(answers, ε / one.overlap, one.budget[1])
                for one, ε in zip(agreed.owner_tables, budgets, strict=True)
            ]
        )

    def in_sum(self, agreed: AgreedTerms, members: Sequence[int], n_parameters: int) -> SharedNoise:
        moved = [mean_sensitivity(agreed.gradient_bound, agreed.owner[i].records) for i in members]
        return shared_noise(self, agreed, members, moved, agreed.gradient_bound, np.ones(n_parameters))

    def summand(self, agreed: AgreedTerms, share: Share, n_parameters: int) -> ClippedGradient:
        return ClippedGradient(share, agreed.gradient_bound, self.norm)

    def weighed(self, agreed: AgreedTerms) -> bool:
        """Whether a plan for owners that fix no mechanism looks at this one: with δ, where every owner states one."""
        return self.guarantee is Guarantee.PURE or all(owner.delta > 0 for owner in agreed.owner_tables)

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return n_parameters

    def in_earnest(self, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int, loss: Loss) -> ClippedGradient:
        sensitivity = mean_sensitivity(agreed.gradient_bound, owner.records)
        noise = self.releases(sensitivity, agreed, owner, n_parameters)
        return ClippedGradient(noise, agreed.gradient_bound, self.norm)

    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        units, clipped = measured_over(agreed, owner, self.norm)
        gradients = counted(agreed.answers, "mean gradient")
        what = f"at most {gradients} of the {agreed.model.loss} loss over {units}, {clipped}"
        return what + ", seen in sums only" * agreed.summed, self.noise_told(agreed, owner)


class Laplace(GradientNoise):
    """Pure ε, many answers. This is what an agreement that names no mechanism gets."""

    name = "laplace"
    guarantee = Guarantee.PURE
    noise = Law.LAPLACE
    norm = 1

    def multiplier(self, answers: int, epsilon: float, delta: float) -> float:
        return answers / epsilon

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        self.check_delta(agreed)
        return laplace_scale(agreed.gradient_bound, agreed.answers, owner.records, owner.epsilon, owner.overlap)

    def variance(self, agreed: AgreedTerms, answers: int, groups: Sequence[tuple[int, ...]] = ()) -> float:
        return super().variance(agreed, answers, groups) if groups else 8.0 * answers**2 * noise_of(agreed)

    def releases(self, sensitivity: float, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int) -> Releases:
        from copriv.privacy.laplace import DrawnAhead, LaplaceAnswer  # OpenDP, which a simulation never needs, is slow

        each, _ = self.cost(agreed, owner)
        return DrawnAhead(LaplaceAnswer(sensitivity, each, n_parameters), largest=agreed.gradient_bound)


class LaplaceComposed(GradientNoise):
    """(ε, δ), many answers, Ξ in L1."""

    name = "laplace-composed"
    guarantee = Guarantee.APPROXIMATE
    noise = Law.LAPLACE
    norm = 1
    phrase = "composed Laplace noise"

    def multiplier(self, answers: int, epsilon: float, delta: float) -> float:
        from copriv.privacy.approximate import laplace_multiplier

        return laplace_multiplier(answers, epsilon, delta)

    def weighed(self, agreed: AgreedTerms) -> bool:
        budgets = {owner.budget for owner in agreed.owner_tables}
        return super().weighed(agreed) and len(budgets) <= 4  # accounting takes a second each

    def releases(self, sensitivity: float, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int) -> Releases:
        from copriv.privacy.laplace import DrawnAhead, LaplaceAnswer

        β = self.multiplier(agreed.answers, *owner.budget)
        # A draw on the grid of step g is as private as one on the line that moves g²/(4b) further (docs/proofs).
        further = n_parameters * 2.0 ** (2 * GRID) / (4 * β * sensitivity)
        answer = LaplaceAnswer(sensitivity + further, Fraction(1 / β), n_parameters)
        return DrawnAhead(answer, largest=agreed.gradient_bound)


class Gaussian(GradientNoise):
    """(ε, δ), many answers, Ξ in L2."""

    name = "gaussian"
    guarantee = Guarantee.APPROXIMATE
    noise = Law.NORMAL
    norm = 2
    phrase = "normal noise"

    def multiplier(self, answers: int, epsilon: float, delta: float) -> float:
        from copriv.privacy.approximate import gaussian_multiplier

        return gaussian_multiplier(answers, epsilon, delta)

    def releases(self, sensitivity: float, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int) -> Releases:
        from copriv.privacy.approximate import GaussianAnswer

        return GaussianAnswer(sensitivity, self.multiplier(agreed.answers, *owner.budget), n_parameters)


def noise_of(agreed: AgreedTerms, weights: Array | None = None) -> float:
    """ν = Σ w_i² κ_i²/(n_i ε_i)²: one answer's noise in the owners' average is 8ν for Ξ = 1.

    Where only sums are seen, that of one sum of all owners.
    """
    if agreed.summed:
        return Laplace().variance(agreed, 1, [tuple(range(agreed.n_owners))]) / 8.0
    w = agreed.weights if weights is None else weights
    return float(np.sum((w * agreed.overlaps / (agreed.records * agreed.epsilons)) ** 2))
