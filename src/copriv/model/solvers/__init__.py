"""θ*, by a method made for each loss, with a proof of how near it is.

Convexity gives, at any θ in Θ with subgradient v,

    f(θ) − f(θ*) ≤ max_{u in Θ} vᵀ(θ − u)                  (a linear function's maximum over a box)
    f(θ) − f(θ*) ≤ ‖v‖² / (2L)                             (f L-strongly convex, θ inside Θ)
    f(θ) − f(θ*) ≤ ν²·(what `smooth` proves)               (ν² = vᵀH⁻¹v, H = ∇²f known near θ)

and the methods for kinked losses return a dual value. `Optimum.gap` is the smallest proof, and `minimum` raises
NotCertified when it exceeds the accuracy asked for.

| loss                                  | method                                                              |
| ------------------------------------- | ------------------------------------------------------------------- |
| squared                               | one linear system (`quadratic`)                                     |
| logistic, huber, smoothed hinge       | Newton with a line search, the Hessian exact (`smooth`)             |
| hinge, regularised                    | Newton on a hinge rounded less and less, with a dual bound (`hinge`)|
| hinge, not regularised                | the dual linear programme (`hinge`)                                 |
| any of them, where Θ holds it back    | L-BFGS-B, or an interior point                                      |
| a user's own                          | L-BFGS-B, or a bundle method where it has a kink (`bundle`)         |
"""

from copriv.errors import NotCertified
from copriv.losses import Hinge, Logistic, SmoothedHinge
from copriv.model.solvers.bundle import bundle_minimum
from copriv.model.solvers.hinge import hinge_minimum, programme_minimum
from copriv.model.solvers.quadratic import quadratic_minimum
from copriv.model.solvers.smooth import quasi_newton_minimum, smooth_minimum
from copriv.model.solvers.task import ACCURACY as ACCURACY
from copriv.model.solvers.task import Optimum as Optimum
from copriv.model.solvers.task import Task as Task
from copriv.model.solvers.task import accurate
from copriv.model.threads import one_thread
from copriv.types import Array


def minimum(task: Task, near: Array | None = None, accuracy: float = ACCURACY) -> Optimum:
    """θ* to `accuracy` of f. Raises NotCertified, with the remedy, where that cannot be proved."""
    with one_thread(task.records.features.size):
        return _minimum(task, near, accuracy)


def _minimum(task: Task, near: Array | None, accuracy: float) -> Optimum:
    loss = task.loss
    if task.objective.quadratic is not None:
        best = quadratic_minimum(task)
    elif loss.smooth:
        best = smooth_minimum(task, near)
        if not accurate(best, accuracy):
            best = min(best, quasi_newton_minimum(task, best.theta), key=lambda found: found.gap)
    elif isinstance(loss, Hinge):
        best = hinge_minimum(task, near, accuracy)
        if not _to_scale(best, accuracy):
            best = programme_minimum(task, 1.0)  # tens of times slower, and sure
            if not _to_scale(best, accuracy):
                best = programme_minimum(task, best.value)
    else:
        best = bundle_minimum(task)
    if task.regularization == 0 and isinstance(loss, Logistic) and _separated(task, best):
        raise NotCertified(
            "optimum: the records' two classes can be separated, so that no finite model is best: set "
            "model.regularization above 0 (1e-3, say)"
        )
    if not accurate(best, accuracy):
        raise NotCertified(_remedy(task, best, accuracy))
    return best


def _to_scale(optimum: Optimum, accuracy: float) -> bool:
    """Accurate for ψ = f/f(θ*) − 1 too, unless f(θ*) is as good as 0."""
    return optimum.gap <= accuracy * optimum.value or optimum.value <= 1e-12


def _separated(task: Task, best: Optimum) -> bool:
    """Whether θ puts every record on its own side: longer and longer multiples of it then fit better and better."""
    return bool((task.records.target * (task.records.features @ best.theta) > 0).all())


def _remedy(task: Task, best: Optimum, accuracy: float) -> str:
    left = f"the gap left is {best.gap:.2g} at fitness {best.value:.6g}, more than {accuracy:g} of it"
    if task.regularization == 0 and isinstance(task.loss, Logistic | Hinge | SmoothedHinge):
        return (
            f"optimum: {left}. The classes can be separated, or nearly, so that no finite model is best: "
            "set model.regularization above 0 (1e-3, say), or leave out features that only one class has"
        )
    return f"optimum: {left}; regularise more, scale the features, or lower theta_max"
