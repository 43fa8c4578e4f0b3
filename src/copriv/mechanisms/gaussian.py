"""Normal noise on the mean of gradients clipped in L2: (ε, δ) over the run, accounted for exactly (`privacy.approximate`)."""

from copriv.mechanisms.gradients import GradientNoise
from copriv.mechanisms.mechanism import Guarantee
from copriv.privacy.noise import Law, Releases
from copriv.terms import AgreedTerms, OwnerTerms


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

        κ = owner.overlap
        multiplier = self.multiplier(agreed.answers, owner.epsilon / κ, owner.delta / κ)
        return GaussianAnswer(sensitivity, multiplier, n_parameters)
