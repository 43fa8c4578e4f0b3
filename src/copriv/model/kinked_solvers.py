"""Minimise losses with kinks: the hinge, and any loss of which only values and subgradients are known.

A regularised hinge is minimised by Newton's method on a smoothed hinge, one without regulariser by the dual linear programme,
and either by an interior point where these are not accurate; any other loss by a bundle method.
"""

from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool
from scipy.optimize import brentq, linprog

from copriv.errors import InvalidInput
from copriv.losses import SmoothedHinge
from copriv.model.objective import ACCURACY, FeasibleSet, Objective, Optimum, Regularizer
from copriv.model.records import Records
from copriv.model.smooth_solvers import newton_minimum
from copriv.types import Array


def linear_programme_minimum(f: Objective) -> Optimum:
    """Minimise a hinge without regulariser, by the dual: max Σα with 0 ≤ α ≤ w/n and Σ α y x = 0; θ are its multipliers.

    Any such α proves f(θ) ≥ Σα − θ_max‖Σ α y x‖₁ for every θ in Θ, whatever the solver's tolerance. Most α are 0 or w/n, by
    the side of the kink that a record is on. Those of records far from it are fixed as in a slightly regularised hinge, and
    the programme is solved for the others, whose number grows until the gap is small enough.
    """
    r, p = f.records, f.records.n_parameters
    signed = r.features * r.target[:, None]
    size = np.sqrt(f.share @ np.square(signed))
    unit = 1.0 / np.where(size > 0, size, 1.0)
    # An approximation of θ*: the optimum of a slightly regularised hinge, smoothed over 0.05.
    rounded, width = SmoothedHinge(0.05), 1.0 / np.maximum(size, 1e-100)
    slight = Objective(rounded, Regularizer(1e-6), FeasibleSet(), Records(r.features * width, r.target, r.weight))
    slack = 1.0 - signed @ (width * newton_minimum(slight, rounded)[1])
    nearest, best, n_free = np.argsort(np.abs(slack)), Optimum(np.zeros(p), 1.0, np.inf), 8 * p
    while not best.gap <= ACCURACY * best.value:
        free = np.zeros(len(r), dtype=bool)
        free[nearest[:n_free]] = True
        best = min(
            best, _partial_programme(f, signed, unit, np.where(slack > 0, f.share, 0.0), free), key=lambda one: one.gap
        )
        if n_free >= len(r):
            break
        n_free = min(3 * n_free, len(r))
    return best


def _partial_programme(
    f: Objective, signed: Array, unit: Array, α: Array, free: Bool[np.ndarray, " records"]
) -> Optimum:
    """Solve the dual programme over the free α, with the others fixed."""
    share, theta_max = f.share, f.feasible_set.theta_max
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
        return Optimum(np.zeros(len(unit)), 1.0, np.inf)
    α[free] = np.clip(found.x, 0.0, most) * share.max()
    kink = np.flatnonzero(free)[(found.x > 1e-9 * most) & (found.x < (1 - 1e-9) * most)]
    for _ in range(2):  # corrects the solver's tolerance: α of records in the kink absorb the remainder of Σ α y x
        α[kink] -= np.linalg.lstsq((signed[kink] * unit).T, unit * (signed.T @ α), rcond=None)[0]
    α = np.clip(α, 0.0, share)
    pull = float(np.abs(signed.T @ α).sum())
    lower = float(α.sum())
    if np.isfinite(theta_max) or pull >= 1e-12:
        lower -= theta_max * pull
    multipliers = np.asarray(found.eqlin.marginals) * unit
    return _above(f, min(multipliers, -multipliers, key=lambda t: float(f.value(f.feasible_set.project(t)))), lower)


def _above(f: Objective, theta: Array, lower: float) -> Optimum:
    """Project θ to Θ, and take as its gap the distance of f from a proved lower bound."""
    theta = f.feasible_set.project(theta)
    value = float(f.value(theta))
    return Optimum(theta, value, max(value - lower, 0.0))


def _solved(P: Any, q: Array, A: Any, b: Array, tolerance: float) -> Any:
    """Minimise ½xᵀPx + qᵀx over Ax ≤ b, by Clarabel's interior point; the result has `x` and `obj_val_dual`."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    return clarabel.DefaultSolver(P, q, A, b, [clarabel.NonnegativeConeT(len(b))], settings).solve()


def programme_minimum(f: Objective, unit: float) -> Optimum:
    """Minimise (c/2)θᵀθ + Σ w ξ/n with ξ ≥ 0, ξ ≥ 1 − y xᵀθ, θ in Θ, a quadratic programme, by Clarabel's interior point.

    θ is in units of 1/std of its feature and the objective in `unit`, so that the solver's tolerances mean the same for every
    data set: 1 = f(0), or about f(θ*) where nearly separable records make that far smaller than f(0).
    The gap is f at the θ returned minus Clarabel's dual value.
    """
    r, c, theta_max = f.records, f.regularizer.strength, f.feasible_set.theta_max
    n, p = len(r), r.n_parameters
    scale = 1.0 / np.sqrt(np.square(r.features).mean(axis=0) + np.finfo(float).tiny)
    P = sp.block_diag([sp.diags(c * scale**2 / unit), sp.csc_matrix((n, n))], format="csc")
    eye, margins = sp.identity(n, format="csc"), r.features * (scale * r.target[:, None])
    rows = [sp.hstack([sp.csc_matrix(-margins), -eye]), sp.hstack([sp.csc_matrix((n, p)), -eye])]
    rhs = [-np.ones(n), np.zeros(n)]
    if np.isfinite(theta_max):
        side = sp.hstack([sp.identity(p), sp.csc_matrix((p, n))])
        rows += [side, -side]
        rhs += [theta_max / scale, theta_max / scale]
    found = _solved(
        sp.triu(P, format="csc"),
        np.concatenate([np.zeros(p), f.share / unit]),
        sp.vstack(rows, format="csc"),
        np.concatenate(rhs),
        1e-11,
    )
    return _above(f, np.asarray(found.x[:p]) * scale, unit * float(found.obj_val_dual))


def rounded_minimum(f: Objective, near: Array | None, accuracy: float) -> Optimum:
    """Minimise a regularised hinge problem by Newton's method, its kinks smoothed over a width h that goes to 0.

    max(s, 0), s = 1 − y xᵀθ, becomes αs − hα²/2 with α = min(max(s/h, 0), 1). Those α are feasible in the dual, so

        Σ w α/n − ‖Σ w α y x/n‖² / (2c)  ≤  f(θ*)

    whatever θ they come from; at a minimum of the smoothed f the gap is at most h/4, from the few records in a kink.
    A step costs n·p, p² for each record in a kink, and n for each evaluation along its line.
    """
    r, c, share = f.records, f.regularizer.strength, f.share
    signed = r.features * r.target[:, None]
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
                break  # the gradient that is left adds ‖down‖²/(2c) to the gap, a tenth of the allowed one
            curvature = c * np.eye(len(theta)) + (signed[kink] * share[kink, None]).T @ signed[kink] / h
            step = np.linalg.solve(curvature, down)
            length = _line_minimum(c * float(theta @ step), c * float(step @ step), slack, -(signed @ step), share, h)
            theta = theta + length * step
            slack = 1.0 - signed @ theta
        value = 0.5 * c * float(theta @ theta) + float(share @ np.maximum(slack, 0.0))
        if value < best.value and f.feasible_set.contains(theta):
            best = Optimum(theta, value, np.inf)
        best = Optimum(best.theta, best.value, max(best.value - lower, 0.0))
        if best.gap <= accuracy * best.value:
            break
    return best


def _line_minimum(slope: float, bend: float, slack: Array, change: Array, share: Array, h: float) -> float:
    """Minimise the smoothed f along a line: the zero of its derivative, which increases."""

    def derivative(length: float) -> float:
        return slope + bend * length + float(share @ (np.clip((slack + length * change) / h, 0.0, 1.0) * change))

    if not derivative(0.0) < 0.0:
        return 0.0
    far = 1.0
    while derivative(far) < 0.0:
        far *= 2.0
    return float(brentq(derivative, 0.0, far, xtol=1e-15, rtol=1e-3))


def bundle_minimum(f: Objective) -> Optimum:
    """Minimise a convex f with kinks, of which only values and subgradients are known, by the proximal bundle method.

    Keeps the cutting planes f(θ_j) + v_jᵀ(θ − θ_j) and minimises their maximum over Θ, a lower bound on f(θ*) that proves the
    gap. The regulariser is exact in the model, so each round's programme is strongly convex if f is.
    """
    c, p = f.regularizer.strength, f.records.n_parameters
    if not np.isfinite(f.feasible_set.theta_max) and c == 0:
        raise InvalidInput(
            "theta_max: a loss with kinks and no regulariser needs a finite theta_max to have a proved optimum"
        )
    planes: list[Array] = []
    offsets: list[float] = []
    best, best_value, lower, weight = np.zeros(p), np.inf, -np.inf, 1.0
    theta = np.zeros(p)
    for _ in range(400):
        value = float(f.value(theta))
        v = f.gradient(theta) - c * theta
        planes.append(v)
        offsets.append(value - 0.5 * c * float(theta @ theta) - float(v @ theta))
        if value < best_value:
            weight = max(weight / 2.0, 1e-12)
            best, best_value = theta, value
        else:
            weight = min(weight * 1.2, 1e12)
        lower = max(lower, _model_minimum(f, planes, offsets, best, 0.0)[1])
        if best_value - lower <= 0.5 * ACCURACY * abs(best_value):
            break
        theta, _ = _model_minimum(f, planes, offsets, best, weight)
    return Optimum(best, best_value, max(best_value - lower, 0.0))


def _model_minimum(
    f: Objective, planes: list[Array], offsets: list[float], centre: Array, weight: float
) -> tuple[Array, float]:
    """Minimise (c/2)‖θ‖² + t + (weight/2)‖θ − centre‖² over Θ, with t above every plane. Returns θ and the dual value."""
    V, p, theta_max = np.array(planes), len(centre), f.feasible_set.theta_max
    P = sp.diags(np.append(np.full(p, f.regularizer.strength + weight), 0.0), format="csc")
    A = [np.hstack([V, -np.ones((len(V), 1))])]
    b = [-np.array(offsets)]
    if np.isfinite(theta_max):
        side = np.hstack([np.eye(p), np.zeros((p, 1))])
        A += [side, -side]
        b += [np.full(p, theta_max)] * 2
    found = _solved(P, np.append(-weight * centre, 1.0), sp.csc_matrix(np.vstack(A)), np.concatenate(b), 1e-12)
    return f.feasible_set.project(np.asarray(found.x[:p])), float(found.obj_val_dual)
