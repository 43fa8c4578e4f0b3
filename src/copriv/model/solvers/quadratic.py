"""θ* of the squared loss: one linear system, or bounded least squares where Θ holds it back."""

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from copriv.model.solvers.task import Optimum, QuadraticForm, Task, certified
from copriv.types import Array

ROUNDED = 1e-13
"""A fitness below this share of f(0) is 0 up to rounding."""
FLAT = 1e-13
"""A curvature below this share of the largest is 0 up to rounding."""
LOST = 1e-10
"""A gradient below this share of c in flat directions is rounding, since ∇f lies in the range of A."""


def quadratic_minimum(task: Task) -> Optimum:
    """θ*, of the least norm where records do not determine it, and its gap: ½vᵀA⁺v, exactly, where θ is inside Θ."""
    f = task.objective.quadratic
    assert f is not None
    A, c = f.hessian, f.c
    unit = 1.0 / np.sqrt(np.maximum(np.diag(A), 1e-300 + FLAT**2 * float(np.diag(A).max(initial=0.0))))
    a, U = np.linalg.eigh(A * unit * unit[:, None])
    far = a > FLAT * max(float(a[-1]), 1e-300)
    theta = np.zeros(len(c))
    if far.any():
        back = U[:, far] / a[far] @ U[:, far].T
        for _ in range(3):  # a step more mends what rounding left
            theta = theta - unit * (back @ (unit * f.gradient(theta)))
    if not np.isfinite(theta).all() or not task.inside(theta):
        return certified(task, _on_the_box(f, task))
    v = U.T @ (unit * f.gradient(theta))
    whole = far.all() or np.abs(v[~far]).max() <= LOST * float(np.abs(unit * 2.0 * c).max(initial=0.0))
    gap = 0.5 * float(np.sum(v[far] ** 2 / a[far])) if whole else np.inf
    best = certified(task, theta, gap)
    if best.value <= ROUNDED * float(f.value(np.zeros(len(c)))):
        return replace(best, value=0.0, gap=0.0)  # records that are fitted exactly
    return best


def _on_the_box(f: QuadraticForm, task: Task) -> Array:
    theta = np.asarray(np.linalg.lstsq(f.hessian, 2.0 * f.c, rcond=None)[0], dtype=np.float64)
    bounds = [(-task.theta_max, task.theta_max)] * len(theta)
    start = task.project(theta)
    scale = max(float(np.linalg.eigvalsh(f.hessian)[-1]), np.finfo(float).tiny)
    found = minimize(
        lambda t: (float(f.value(t)) / scale, f.gradient(t) / scale),
        start,
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"ftol": 0.0, "gtol": 1e-15, "maxiter": 20_000, "maxfun": 40_000, "maxcor": 30},
    )
    # L-BFGS-B finds which coordinates sit on the box; the others then solve a linear system exactly.
    theta = found.x
    for _ in range(len(theta)):
        v = f.gradient(theta)
        held = (np.abs(theta) >= task.theta_max) & (v * theta <= 0)
        free = ~held
        if not free.any():
            break
        rest = 2.0 * f.c[free] - f.hessian[np.ix_(free, held)] @ theta[held]
        candidate = theta.copy()
        candidate[free] = np.linalg.lstsq(f.hessian[np.ix_(free, free)], rest, rcond=None)[0]
        inside = task.inside(candidate)
        theta = task.project(candidate)
        if inside:
            break
    return theta
