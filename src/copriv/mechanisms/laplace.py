"""Laplace noise on the mean of gradients clipped in L1, pure ε: each of m answers spends ε/m.

Replacing one of n records moves the mean by at most 2Ξ/n in L1, so noise of scale 2Ξm/(nε) on each coordinate makes an
answer (ε/m)-private, whatever was asked before it (A, Thm 1; S, Thm 1). This is what an agreement that names no
mechanism gets.
"""

import numpy as np

from copriv.mechanisms.gradients import GradientNoise
from copriv.mechanisms.mechanism import Guarantee
from copriv.privacy.accounting import laplace_scale
from copriv.privacy.noise import Law, Releases
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array


class Laplace(GradientNoise):
    """Pure ε, many answers."""

    name = "laplace"
    guarantee = Guarantee.PURE
    noise = Law.LAPLACE
    norm = 1

    def multiplier(self, answers: int, epsilon: float, delta: float) -> float:
        return answers / epsilon

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        self.check_delta(agreed)
        return laplace_scale(agreed.gradient_bound, agreed.answers, owner.records, owner.epsilon, owner.overlap)

    def variance(self, agreed: AgreedTerms, answers: int) -> float:
        return 8.0 * answers**2 * noise_of(agreed)

    def releases(self, sensitivity: float, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int) -> Releases:
        # OpenDP, which a simulation never needs, takes a while to import.
        from copriv.privacy.ahead import DrawnAhead
        from copriv.privacy.laplace import LaplaceAnswer

        each, _ = self.cost(agreed, owner)
        return DrawnAhead(LaplaceAnswer(sensitivity, each, n_parameters), largest=agreed.gradient_bound)


def noise_of(agreed: AgreedTerms, weights: Array | None = None) -> float:
    """ν = Σ w_i² κ_i²/(n_i ε_i)²: one answer's noise in the owners' average is 8ν for Ξ = 1."""
    w = agreed.weights if weights is None else weights
    return float(np.sum((w * agreed.overlaps / (agreed.records * agreed.epsilons)) ** 2))
