"""θ*, by a method made for each loss, with a proof of how near it is.

Convexity gives, at any θ in Θ with subgradient v,

    f(θ) − f(θ*) ≤ max_{u in Θ} vᵀ(θ − u)                  (a linear function's maximum over a box)
    f(θ) − f(θ*) ≤ ‖v‖² / (2L)                             (f L-strongly convex, θ inside Θ)
    f(θ) − f(θ*) ≤ ν²·(what `smooth` proves)               (ν² = vᵀH⁻¹v, H = ∇²f known near θ)

and the methods for kinked losses return a dual value. `Optimum.gap` is the smallest proof, and `minimum` raises
NotCertified when it exceeds the accuracy asked for.

| loss                                  | method                                                              | in       |
| ------------------------------------- | ------------------------------------------------------------------- | -------- |
| squared                               | one linear system                                                   | `smooth` |
| logistic, huber, smoothed hinge       | Newton with a line search, the Hessian exact                        | `smooth` |
| hinge, regularised                    | Newton on a hinge rounded less and less, with a dual bound          | `kinked` |
| hinge, not regularised                | the dual linear programme                                           | `kinked` |
| any of them, where Θ holds it back    | L-BFGS-B, or an interior point                                      |          |
| a user's own                          | L-BFGS-B, or a bundle method where it has a kink                    | `kinked` |
"""

from copriv.errors import NotCertified
from copriv.losses import Hinge, Logistic, SmoothedHinge
from copriv.model.objective import Objective, Optimum
from copriv.model.solvers.smooth import quadratic_minimum, quasi_newton_minimum, smooth_minimum
from copriv.model.threads import one_thread
from copriv.types import Array


def minimum(f: Objective, near: Array | None, accuracy: float) -> Optimum:
    """θ* to `accuracy` of f. Raises NotCertified, with the remedy, where that cannot be proved."""
    with one_thread(f.records.features.size):
        if f.quadratic is not None:
            best = quadratic_minimum(f, f.quadratic)
        elif f.loss.smooth:
            best = smooth_minimum(f, near)
            if not best.accurate(accuracy):
                best = min(best, quasi_newton_minimum(f, best.theta), key=lambda found: found.gap)
        elif isinstance(f.loss, Hinge):
            best = _hinge_minimum(f, near, accuracy)
        else:
            from copriv.model.solvers.kinked import bundle_minimum  # its libraries are for losses with kinks

            best = bundle_minimum(f)
    free = f.regularizer.strength == 0
    if free and isinstance(f.loss, Logistic) and (f.records.target * (f.records.features @ best.theta) > 0).all():
        # Every record is on its own side of θ: longer and longer multiples of it fit better and better.
        raise NotCertified(
            "optimum: the records' two classes can be separated, so that no finite model is best: set "
            "model.regularization above 0 (1e-3, say)"
        )
    if best.accurate(accuracy):
        return best
    left = f"the gap left is {best.gap:.2g} at fitness {best.value:.6g}, more than {accuracy:g} of it"
    if free and isinstance(f.loss, Logistic | Hinge | SmoothedHinge):
        raise NotCertified(
            f"optimum: {left}. The classes can be separated, or nearly, so that no finite model is best: "
            "set model.regularization above 0 (1e-3, say), or leave out features that only one class has"
        )
    raise NotCertified(f"optimum: {left}; regularise more, scale the features, or lower theta_max")


def _hinge_minimum(f: Objective, near: Array | None, accuracy: float) -> Optimum:
    """The quick way, else an interior point, tens of times slower and sure; accurate for ψ = f/f(θ*) − 1 too.

    ψ needs a gap relative to f(θ*), unless that is as good as 0.
    """

    from copriv.model.solvers.kinked import linear_programme_minimum, programme_minimum, rounded_minimum

    def to_scale(found: Optimum) -> bool:
        return found.gap <= accuracy * found.value or found.value <= 1e-12

    best = rounded_minimum(f, near, accuracy) if f.regularizer.strength > 0 else linear_programme_minimum(f)
    if not to_scale(best):
        best = programme_minimum(f, 1.0)
        if not to_scale(best):
            best = programme_minimum(f, best.value)
    return best
