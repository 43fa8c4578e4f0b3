"""Laplace noise on the mean of gradients clipped in L1, composed: (ε, δ) over the run, with less of it than pure ε needs.

The privacy losses of m answers are added up as a distribution in place of their worst cases (`privacy.approximate`).
"""

from fractions import Fraction

from copriv.mechanisms.gradients import GradientNoise
from copriv.mechanisms.mechanism import Guarantee
from copriv.privacy.noise import GRID, Law, Releases
from copriv.terms import AgreedTerms, OwnerTerms

BUDGETS = 4
"""Most distinct (ε, δ) among the owners for which a plan considers it: accounting takes a second each."""


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
        budgets = {(o.epsilon / o.overlap, o.delta / o.overlap) for o in agreed.owner_tables}
        return super().weighed(agreed) and len(budgets) <= BUDGETS

    def releases(self, sensitivity: float, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int) -> Releases:
        from copriv.privacy.ahead import DrawnAhead
        from copriv.privacy.laplace import LaplaceAnswer

        κ = owner.overlap
        β = self.multiplier(agreed.answers, owner.epsilon / κ, owner.delta / κ)
        # A draw on the grid of step g is as private as one on the line that moves g²/(4b) further (docs/proofs).
        further = n_parameters * 2.0 ** (2 * GRID) / (4 * β * sensitivity)
        answer = LaplaceAnswer(sensitivity + further, Fraction(1 / β), n_parameters)
        return DrawnAhead(answer, largest=agreed.gradient_bound)
