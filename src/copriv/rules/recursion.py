"""A rule as a linear recursion, where it is one: what an exact forecast needs to know of it.

Without clipping and box, and with the squared loss, every rule here is linear in its state and in the noise. Three
shapes are known to `exact`: all answer in each round, the learner keeps a copy of θ for each owner, or it
keeps the newest answer of each. A rule hands over its shape with its own steps in it.
"""

from dataclasses import dataclass

from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class InRounds:
    """θ[k+1] = θ[k] − steps[k](∇g + Σ ω_i Q̄_i); where `average` is given, θ̄[k+1] = θ̄[k] + average[k](θ[k] − θ̄[k])
    is the model.
    """

    steps: Float[Array, " updates"]
    average: Float[Array, " updates"] | None = None


@dataclass(frozen=True)
class WithCopies:
    """With m = (θ_L + x_i)/2:  x_i ← m − (Nα/σ)(∇g(m)/(2N) + ω_i Q̄_i(m)),  θ_L ← m − (cα/σ)∇g(m)."""

    step: float
    """α."""
    learner_step: float
    """c."""

    def require(self, sigma: float) -> None:
        """Raises InvalidInput without a regulariser: the step is divided by its strength σ."""
        if not sigma > 0:
            raise InvalidInput(
                "regularization: rule A1 steps by rho/(T^2 sigma), so it needs a regularization above 0; set one, or "
                "use A2"
            )


@dataclass(frozen=True)
class WithMemory:
    """x_i ← Q̄_i(θ),  θ ← θ − α/(1 + k/N) · (∇g(θ) + Σ_heard ω_j x_j / Σ_heard ω_j)."""

    step: float
    """α."""

    def require(self, sigma: float) -> None:
        """Accepts every regulariser."""


Recursion = InRounds | WithCopies | WithMemory
