"""The fitness with its certified optimum θ*, and relative fitness ψ, which is relative to it.

Every ψ is relative to the reference optimum, so it is solved by a method made for the loss, with a proved bound on the
remaining gap. Convexity gives, at any θ in Θ with subgradient v,

    f(θ) − f(θ*) ≤ max_{u in Θ} vᵀ(θ − u)                  (a linear function's maximum over a box)
    f(θ) − f(θ*) ≤ ‖v‖² / (2L)                             (f L-strongly convex, θ inside Θ)
    f(θ) − f(θ*) ≤ ν²·(a constant that `solvers` proves)  (ν² = vᵀH⁻¹v, H = ∇²f known near θ)

and the methods for kinked losses return a dual value. `Optimum.gap` is the smallest of these bounds.

| loss                               | method (`solvers`)                                         |
| ---------------------------------- | ---------------------------------------------------------- |
| squared                            | one linear system                                          |
| logistic, huber, smoothed hinge    | Newton with a line search, the Hessian exact               |
| hinge, regularised                 | Newton on a hinge rounded less and less, with a dual bound |
| hinge, not regularised             | the dual linear programme                                  |
| any of them, where Θ holds it back | L-BFGS-B, or an interior point                             |
| a user's own                       | L-BFGS-B, or a bundle method where it has a kink           |
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput, NotCertified
from copriv.losses import Hinge, Logistic, SmoothedHinge
from copriv.model.objective import ACCURACY, Objective
from copriv.model.objective import FeasibleSet as FeasibleSet
from copriv.model.objective import Optimum as Optimum
from copriv.model.objective import Quadratic as Quadratic
from copriv.model.objective import Regularizer as Regularizer
from copriv.model.solvers import (
    bundle_minimum,
    linear_programme_minimum,
    programme_minimum,
    quadratic_minimum,
    quasi_newton_minimum,
    rounded_minimum,
    smooth_minimum,
)
from copriv.types import Array, Loss
from copriv.validation import non_negative, positive


class Fitness(Objective):
    """f over weighted `records`, with its gradient and its certified minimum over Θ."""

    def minimum(self, near: Float[Array, " p"] | None = None, accuracy: float = ACCURACY) -> Optimum:
        """Minimise f to a relative `accuracy`. near: where to start, which saves time and changes nothing else.

        Raises NotCertified, with the remedy, where no such accuracy could be proved, or where records that can be separated
        have no finite θ*; DataError where the loss does not allow the targets.
        """
        self.loss.check_target(self.records.target)
        start = np.zeros(self.records.n_parameters) if near is None else near
        with one_thread(self.records.features.size):
            if self.quadratic is not None:
                best = quadratic_minimum(self, self.quadratic)
            elif self.loss.smooth:
                best = smooth_minimum(self, start)
                if not best.accurate(accuracy):
                    best = min(best, quasi_newton_minimum(self, best.theta), key=lambda found: found.gap)
            elif isinstance(self.loss, Hinge):
                best = self._hinge_minimum(start, accuracy)
            else:
                best = bundle_minimum(self)
        free, r = self.regularizer.strength == 0, self.records
        if free and isinstance(self.loss, Logistic) and (r.target * (r.features @ best.theta) > 0).all():
            # θ classifies every record correctly, so multiples of θ fit better without end.
            raise NotCertified(
                "optimum: the records' two classes can be separated, so that no finite model is best: set "
                "model.regularization above 0 (1e-3, say)"
            )
        if best.accurate(accuracy):
            return best
        gap = f"the gap left is {best.gap:.2g} at fitness {best.value:.6g}, more than {accuracy:g} of it"
        if free and isinstance(self.loss, Logistic | Hinge | SmoothedHinge):
            raise NotCertified(
                f"optimum: {gap}. The classes can be separated, or nearly, so that no finite model is best: "
                "set model.regularization above 0 (1e-3, say), or leave out features that only one class has"
            )
        raise NotCertified(f"optimum: {gap}; regularise more, scale the features, or lower theta_max")

    def _hinge_minimum(self, near: Array, accuracy: float) -> Optimum:
        """Minimise a hinge problem by the fast method, or by an interior point, tens of times slower, where that fails.

        For ψ = f/f(θ*) − 1 the gap must be small relative to f(θ*), unless that is nearly 0.
        """

        def certified(found: Optimum) -> bool:
            return found.gap <= accuracy * found.value or found.value <= 1e-12

        if self.regularizer.strength > 0:
            best = rounded_minimum(self, near, accuracy)
        else:
            best = linear_programme_minimum(self)
        if not certified(best):
            best = programme_minimum(self, 1.0)
        if not certified(best):
            best = programme_minimum(self, best.value)
        return best


def relative_fitness(fitness: Float[Array, "*batch"], optimum: Optimum) -> Float[Array, "*batch"]:
    """ψ = f/f(θ*) − 1, at least 0; lower is better (S, eq. (13); A, §V). Raises InvalidInput where f(θ*) is 0."""
    if not optimum.value > 0:
        raise InvalidInput(
            f"relative fitness: f(θ*) is {optimum.value:g}, for these records can be fitted exactly; ψ is relative to f(θ*) "
            "and needs one above 0: set model.regularization above 0, or bring more records than there are parameters"
        )
    return np.asarray(fitness / optimum.value - 1.0)


def gradient_bound_over(loss: Loss, feature_bound: float, target_bound: float, feasible_set: FeasibleSet) -> float:
    """Prove Ξ from ‖x‖₁ ≤ feature_bound, |y| ≤ target_bound and θ in Θ. Raises InvalidInput where there is no bound."""
    positive("feature_bound", feature_bound)
    bound = loss.gradient_bound(feature_bound, non_negative("target bound", target_bound), feasible_set.theta_max)
    if not np.isfinite(bound):
        raise InvalidInput(
            f"gradient_bound: the {loss.name} loss has no proved bound over these features and theta_max; "
            "give a number and it is enforced by clipping"
        )
    return bound


@contextmanager
def one_thread(size: int = 0) -> Iterator[None]:
    """Give BLAS one thread within a block or a decorated function, unless the table has 2,000,000 numbers or more.

    Threads wait for each other by spinning: θ* of 5,000 records with 60 features takes 20 times the processor time with two
    threads that it takes with one, and more time by the clock.
    size: numbers in the table.
    """
    if size >= 2_000_000:
        yield
    else:
        with _controller().limit(limits=1, user_api="blas"):
            yield


@cache
def _controller() -> Any:
    # Finding the loaded libraries takes as long as a small simulation, so it is done once, and imported when first needed.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
