"""θ* of the hinge: Newton on a rounded one where it is regularised, the dual linear programme where it is not."""

from dataclasses import replace

import clarabel
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool
from scipy.optimize import brentq, linprog

from copriv.losses import SmoothedHinge
from copriv.model.records import Records
from copriv.model.solvers.smooth import newton_minimum
from copriv.model.solvers.task import ACCURACY, Optimum, Task
from copriv.types import Array


def hinge_minimum(task: Task, near: Array | None = None, accuracy: float = ACCURACY) -> Optimum:
    """θ* where Θ does not hold it back; else what there is, with the gap that it has."""
    if task.regularization > 0:
        return rounded_minimum(task, near, accuracy)
    return linear_programme_minimum(task)


def linear_programme_minimum(task: Task) -> Optimum:
    """θ* without a regulariser, by the dual: max Σα with 0 ≤ α ≤ w/n and Σ α y x = 0, p equations; θ are its prices.

    Any such α proves f(θ) ≥ Σα − θ_max‖Σ α y x‖₁ for every θ in Θ, whatever the solver's own tolerance. Most α are 0 or
    w/n, by which side of the kink a record is on: those far from it are set so as a slightly regularised hinge has them,
    and the programme is solved for the rest; more and more of them are let go until the proof closes.
    """
    r, share = task.records, task.share
    signed = r.features * r.target[:, None]
    size = np.sqrt(share @ np.square(signed))
    unit = 1.0 / np.where(size > 0, size, 1.0)
    slack = 1.0 - signed @ _rounded(task, 0.05)
    nearest, best, open_ = (
        np.argsort(np.abs(slack)),
        Optimum(np.zeros(task.n_parameters), 1.0, np.inf),
        8 * task.n_parameters,
    )
    while not best.gap <= ACCURACY * best.value:
        free = np.zeros(len(r), dtype=bool)
        free[nearest[:open_]] = True
        found = _priced(task, signed, unit, share, np.where(slack > 0, share, 0.0), free)
        best = min(best, found, key=lambda one: one.gap)
        if open_ >= len(r):
            break
        open_ = min(3 * open_, len(r))
    return best


def _rounded(task: Task, width: float) -> Array:
    """Approximate θ*: that of a slightly regularised hinge, rounded over `width`."""
    r = task.records
    unit = 1.0 / np.maximum(np.sqrt(task.share @ np.square(r.features)), 1e-100)
    x = Records(r.features * unit, r.target, r.weight)
    rounded = replace(task, loss=SmoothedHinge(width), records=x, regularization=1e-6, theta_max=np.inf)
    return np.asarray(unit * newton_minimum(rounded, rounded.loss)[1])  # type: ignore[arg-type]


def _priced(
    task: Task, signed: Array, unit: Array, share: Array, α: Array, free: Bool[np.ndarray, " records"]
) -> Optimum:
    """The programme over the free α, the others held."""
    α, most = np.where(free, 0.0, α), share[free] / share.max()
    found = linprog(
        -np.ones(len(most)),
        A_eq=(signed[free] * unit).T,
        b_eq=-(unit * (signed.T @ α)) / share.max(),
        bounds=np.column_stack([np.zeros(len(most)), most]),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None or found.eqlin is None or found.eqlin.marginals is None:
        return Optimum(np.zeros(task.n_parameters), 1.0, np.inf)
    α[free] = np.clip(found.x, 0.0, most) * share.max()
    kink = np.flatnonzero(free)[(found.x > 1e-9 * most) & (found.x < (1 - 1e-9) * most)]
    for _ in range(2):  # the programme's own tolerance, mended: records in the kink carry what is left of Σ α y x
        α[kink] -= np.linalg.lstsq((signed[kink] * unit).T, unit * (signed.T @ α), rcond=None)[0]
    α = np.clip(α, 0.0, share)
    pull = float(np.abs(signed.T @ α).sum())
    lower = float(α.sum()) - (task.theta_max * pull if np.isfinite(task.theta_max) else 0.0 if pull < 1e-12 else np.inf)
    prices = np.asarray(found.eqlin.marginals) * unit
    theta = min((task.project(prices), task.project(-prices)), key=lambda t: float(task.objective.value(t)))
    value = float(task.objective.value(theta))
    return Optimum(theta, value, max(value - lower, 0.0))


def programme_minimum(task: Task, unit: float) -> Optimum:
    """min (c/2)θᵀθ + Σ w ξ/n with ξ ≥ 0, ξ ≥ 1 − y xᵀθ, θ in Θ: a quadratic programme, by Clarabel's interior point.

    θ is measured in units of 1/std of its feature and the objective in `unit`: 1 = f(0), so that the solver's tolerances
    mean the same for every data set; or near f(θ*), where records that can almost be separated leave little of f(0).
    The gap is Clarabel's own primal − dual, at the θ returned.
    """
    r, c = task.records, task.regularization
    n, p = len(r), r.n_parameters
    scale = 1.0 / np.sqrt(np.square(r.features).mean(axis=0) + np.finfo(float).tiny)
    margin_rows = r.features * (scale * r.target[:, None])
    P = sp.block_diag([sp.diags(c * scale**2 / unit), sp.csc_matrix((n, n))], format="csc")
    q = np.concatenate([np.zeros(p), r.weight / r.weight.sum() / unit])
    eye = sp.identity(n, format="csc")
    rows = [
        sp.hstack([sp.csc_matrix(-margin_rows), -eye]),
        sp.hstack([sp.csc_matrix((n, p)), -eye]),
    ]
    rhs = [-np.ones(n), np.zeros(n)]
    if np.isfinite(task.theta_max):
        side = sp.hstack([sp.identity(p), sp.csc_matrix((p, n))])
        rows += [side, -side]
        rhs += [task.theta_max / scale, task.theta_max / scale]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    settings.max_iter = 200
    b = np.concatenate(rhs)
    A = sp.vstack(rows, format="csc")
    solution = clarabel.DefaultSolver(
        sp.triu(P, format="csc"), q, A, b, [clarabel.NonnegativeConeT(len(b))], settings
    ).solve()
    theta = task.project(np.asarray(solution.x[:p]) * scale)
    value = float(task.objective.value(theta))
    return Optimum(theta, value, max(value - unit * float(solution.obj_val_dual), 0.0))


def rounded_minimum(task: Task, near: Array | None = None, accuracy: float = ACCURACY) -> Optimum:
    """θ* of a regularised hinge problem by Newton's method, its kinks rounded over a width h that goes to 0.

    max(s, 0), s = 1 − y xᵀθ, becomes αs − hα²/2 with α = min(max(s/h, 0), 1). Those α are feasible in the dual, so

        Σ w α/n − ‖Σ w α y x/n‖² / (2c)  ≤  f(θ*)

    whatever θ they come from; at a minimum of the rounded f the gap is h/4 at most, for the few records in a kink only.
    A step costs n·p, p² for each record in a kink, and n for each look along its line.
    """
    r, c = task.records, task.regularization
    signed, share = r.features * r.target[:, None], r.weight / r.weight.sum()
    theta = np.zeros(r.n_parameters) if near is None else near
    slack, lower = 1.0 - signed @ theta, 0.0
    best = Optimum(np.zeros(r.n_parameters), float(share.sum()), np.inf)
    for h in 10.0 ** -np.arange(0.0, 12.0):
        for _ in range(60):
            α = np.clip(slack / h, 0.0, 1.0)
            pull, kink = signed.T @ (share * α), (α > 0) & (α < 1)
            lower = max(lower, float(share @ α - pull @ pull / (2.0 * c)))
            down = pull - c * theta
            if float(down @ down) <= 0.2 * c * accuracy * best.value:
                break  # what is not stationary adds ‖down‖²/(2c) to the gap: a tenth of what it may be
            curvature = c * np.eye(len(theta)) + (signed[kink] * share[kink, None]).T @ signed[kink] / h
            step = np.linalg.solve(curvature, down)
            length = _line_minimum(c * float(theta @ step), c * float(step @ step), slack, -(signed @ step), share, h)
            theta = theta + length * step
            slack = 1.0 - signed @ theta
        value = 0.5 * c * float(theta @ theta) + float(share @ np.maximum(slack, 0.0))
        if value < best.value and task.inside(theta):
            best = Optimum(theta, value, np.inf)
        best = Optimum(best.theta, best.value, max(best.value - lower, 0.0))
        if best.gap <= accuracy * best.value:
            break
    return best


def _line_minimum(slope: float, bend: float, slack: Array, change: Array, share: Array, h: float) -> float:
    """Step length at which the rounded f is least along a line: the zero of its increasing derivative."""

    def derivative(length: float) -> float:
        return slope + bend * length + float(share @ (np.clip((slack + length * change) / h, 0.0, 1.0) * change))

    far = 1.0
    while derivative(far) < 0.0:
        far *= 2.0
    return float(brentq(derivative, 0.0, far, xtol=1e-15, rtol=1e-3)) if derivative(0.0) < 0.0 else 0.0
