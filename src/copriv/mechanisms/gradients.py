"""Mechanisms by which an owner answers many queries: the mean of clipped gradients, with fresh noise each time."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.mechanisms.mechanism import Guarantee, Mechanism, measured_over, noise_in_words
from copriv.model.records import InBlocks, Records
from copriv.privacy.clipping import clipped_mean_gradient, mean_sensitivity
from copriv.privacy.noise import Law, Order, Releases, Waits
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss


@dataclass(frozen=True)
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


class GradientNoise(Mechanism):
    """A law, the norm that Ξ is in, and how much noise m answers need together; the rest follows."""

    one_answer = False
    noise: Law
    norm: Order

    @abstractmethod
    def multiplier(self, answers: int, epsilon: float, delta: float) -> float:
        """Scale over sensitivity, so that m answers together keep (ε, δ). Both are already over κ."""

    @abstractmethod
    def releases(self, sensitivity: float, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int) -> Releases:
        """The noise of one of the agreed answers, in earnest; `sensitivity` is in `norm`, for one unit replaced."""

    def law(self, agreed: AgreedTerms) -> Law:
        return self.noise

    def order(self, agreed: AgreedTerms) -> Order:
        return self.norm

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        self.check_delta(agreed)
        κ = owner.overlap
        return (
            2.0 * agreed.gradient_bound / owner.records
            * self.multiplier(agreed.answers, owner.epsilon / κ, owner.delta / κ)
        )  # fmt: skip

    def variance(self, agreed: AgreedTerms, answers: int) -> float:
        """v(m): the variance of noise in one coordinate of Σ w_i Q̄_i, for Ξ = 1 and m answers of each owner."""
        scales = [
            2.0 / o.records * self.multiplier(answers, o.epsilon / o.overlap, o.delta / o.overlap)
            for o in agreed.owner_tables
        ]  # fmt: skip
        return self.noise.variance * float(np.sum((agreed.weights * agreed.by_owner(scales)) ** 2))

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
        what = f"at most {agreed.answers} mean gradients of the {agreed.model.loss} loss over {units}, {clipped}"
        return what, noise_in_words(self.noise, self.scale(agreed, owner))
