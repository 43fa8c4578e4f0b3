"""The public part of the fitness, which needs no records: the box Θ that models are kept in, and the regulariser g."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.types import Array
from copriv.validation import non_negative


@dataclass(frozen=True)
class Regularizer:
    """g(θ) = (c/2) θᵀθ, which is c-strongly convex and c-smooth."""

    strength: float = 0.0

    def __post_init__(self) -> None:
        non_negative("regularization", self.strength)

    def value(self, theta: Float[Array, "*batch p"]) -> Float[Array, "*batch"]:
        """g at each θ."""
        return np.asarray(0.5 * self.strength * np.square(theta).sum(axis=-1))

    def gradient(self, theta: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
        """∇g at each θ."""
        return self.strength * theta

    def bound(self, theta_max: float, n_parameters: int) -> float:
        """Ξ_g = sup over Θ of ‖∇g‖₁ = c·p·θ_max (A, Assumption 2)."""
        return self.strength * n_parameters * theta_max


@dataclass(frozen=True)
class FeasibleSet:
    """Θ = {θ : ‖θ‖_∞ ≤ theta_max}; `inf` leaves θ free."""

    theta_max: float = np.inf

    def __post_init__(self) -> None:
        if not self.theta_max > 0:
            raise InvalidInput(f"theta_max: must be above 0, not {self.theta_max!r}")

    def project(self, theta: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
        """Π_Θ: each coordinate clipped."""
        return np.clip(theta, -self.theta_max, self.theta_max)

    def contains(self, theta: Float[Array, "*batch p"]) -> bool:
        """Whether every θ lies in Θ; NaN does not."""
        return bool((np.abs(theta) <= self.theta_max).all())

    def diameter(self, n_parameters: int) -> float:
        """D = 2 θ_max √p, in the Euclidean norm."""
        return 2.0 * self.theta_max * float(np.sqrt(n_parameters))
