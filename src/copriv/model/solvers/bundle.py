"""θ* of a loss with kinks of which nothing but values and subgradients is known."""

import clarabel
import numpy as np
import scipy.sparse as sp

from copriv.errors import InvalidInput
from copriv.model.solvers.task import ACCURACY, Optimum, Task
from copriv.types import Array


def bundle_minimum(task: Task, rounds: int = 400) -> Optimum:
    """Proximal bundle method for a convex f with kinks of which only values and subgradients are known.

    Keeps the cutting planes f(θ_j) + v_jᵀ(θ − θ_j) and minimises their maximum over Θ, which is a lower bound on f(θ*):
    the gap is proved. The regulariser stays exact in the model, so each round's programme is strongly convex if f is.
    """
    c, p = task.regularization, task.n_parameters
    if not np.isfinite(task.theta_max) and c == 0:
        raise InvalidInput(
            "theta_max: a loss with kinks and no regulariser needs a finite theta_max to have a proved optimum"
        )
    planes: list[Array] = []
    offsets: list[float] = []
    best, best_value, lower, weight = np.zeros(p), np.inf, -np.inf, 1.0
    theta = np.zeros(p)
    for _ in range(rounds):
        value = float(task.objective.value(theta))
        v = task.objective.gradient(theta) - c * theta
        planes.append(v)
        offsets.append(value - 0.5 * c * float(theta @ theta) - float(v @ theta))
        if value < best_value:
            weight = max(weight / 2.0, 1e-12)
            best, best_value = theta, value
        else:
            weight = min(weight * 1.2, 1e12)
        _, bound = _model_minimum(planes, offsets, c, task, None, 0.0)
        lower = max(lower, bound)
        if best_value - lower <= 0.5 * ACCURACY * abs(best_value):
            break
        theta, _ = _model_minimum(planes, offsets, c, task, best, weight)
    return Optimum(best, best_value, max(best_value - lower, 0.0))


def _model_minimum(
    planes: list[Array], offsets: list[float], c: float, task: Task, centre: Array | None, weight: float
) -> tuple[Array, float]:
    """min over Θ of (c/2)‖θ‖² + t + (weight/2)‖θ − centre‖² with t above every plane; θ and the dual value."""
    V, p = np.array(planes), len(planes[0])
    pull = np.zeros(p) if centre is None else weight * centre
    P = sp.diags(np.concatenate([np.full(p, c + weight), [0.0]]), format="csc")
    A = [np.hstack([V, -np.ones((len(V), 1))])]
    b = [-np.array(offsets)]
    if np.isfinite(task.theta_max):
        side = np.hstack([np.eye(p), np.zeros((p, 1))])
        A += [side, -side]
        b += [np.full(p, task.theta_max)] * 2
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    rhs = np.concatenate(b)
    solution = clarabel.DefaultSolver(
        P,
        np.concatenate([-pull, [1.0]]),
        sp.csc_matrix(np.vstack(A)),
        rhs,
        [clarabel.NonnegativeConeT(len(rhs))],
        settings,
    ).solve()
    return task.project(np.asarray(solution.x[:p])), float(solution.obj_val_dual)
