"""The fitness with its certified optimum θ*, and relative fitness ψ, which is relative to it.

The reference optimum decides what every ψ means: it is solved by a method made for the loss, and certified (`solvers`).
"""

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.model import solvers
from copriv.model.objective import ACCURACY, Objective
from copriv.model.objective import FeasibleSet as FeasibleSet
from copriv.model.objective import Optimum as Optimum
from copriv.model.objective import Quadratic as Quadratic
from copriv.model.objective import Regularizer as Regularizer
from copriv.types import Array, Loss
from copriv.validation import non_negative, positive


class Fitness(Objective):
    """f over `records` (weights and all), with its gradient and its certified minimum over Θ."""

    def minimum(self, near: Float[Array, " p"] | None = None, accuracy: float = ACCURACY) -> Optimum:
        """θ* to `accuracy` of f. `near` is where to look first: it saves time and changes nothing else.

        Raises NotCertified when no proof of that accuracy was reached, or where records that can be separated have no
        finite θ*; DataError when the loss cannot take the targets.
        """
        self.loss.check_target(self.records.target)
        return solvers.minimum(self, near, accuracy)


def relative_fitness(fitness: Float[Array, "*batch"], optimum: Optimum) -> Float[Array, "*batch"]:
    """ψ = f/f(θ*) − 1, at least 0; lower is better (S, eq. (13); A, §V). Raises InvalidInput where f(θ*) is 0."""
    if not optimum.value > 0:
        raise InvalidInput(
            f"relative fitness: f(θ*) is {optimum.value:g}, for these records can be fitted exactly; ψ is relative to f(θ*) "
            "and needs one above 0: set model.regularization above 0, or bring more records than there are parameters"
        )
    return np.asarray(fitness / optimum.value - 1.0)


def gradient_bound_over(loss: Loss, feature_bound: float, target_bound: float, feasible_set: FeasibleSet) -> float:
    """Ξ proved from declared bounds: ‖x‖₁ ≤ feature_bound, |y| ≤ target_bound, θ in Θ. Raises where there is none."""
    positive("feature_bound", feature_bound)
    bound = loss.gradient_bound(feature_bound, non_negative("target bound", target_bound), feasible_set.theta_max)
    if not np.isfinite(bound):
        raise InvalidInput(
            f"gradient_bound: the {loss.name} loss has no proved bound over these features and theta_max; "
            "give a number and it is enforced by clipping"
        )
    return bound
