"""θ* of a smooth loss: Newton with the loss's own second derivative, a line search, and a proof from the same Hessian.

Let ν² = vᵀH⁻¹v at θ, v = ∇f, H = ∇²f, and R_i² = x_iᵀH⁻¹x_i, so that |x_iᵀ(u − θ)| ≤ R_i‖u − θ‖_H.

*Logistic.* |φ‴| ≤ φ″, so along a line φ″ falls at most by e^(−|change of prediction|) (Bach 2010, "Self-concordant analysis
for logistic regression"). Hence for ‖u − θ‖_H = r and S = r·max R_i

    f(u) ≥ f(θ) − νr + r²·(e^(−S) + S − 1)/S².

If ν·max R_i ≤ ½, then at r = 4ν, S ≤ 2, the right side is f(θ) + ν²(−4 + 16·0.2838) > f(θ): the minimum is nearer, and
there the right side is at least f(θ) − ν²/(4·0.2838) ≥ f(θ) − 0.9ν². The regulariser only adds curvature.

*Huber, smoothed hinge.* Quadratic in pieces. With H that of the records alone that stay in their piece for
‖u − θ‖_H ≤ r = 2ν (R_i·2ν ≤ how far its kink is), f(u) ≥ f(θ) − νr + r²/2 = f(θ) there, so the minimum is nearer, and the
gap at most ν²/2. Directions in which no record differs count for nothing: v and H are 0 there.
"""

import numpy as np
from scipy.optimize import minimize

from copriv.losses import Huber, Logistic, SmoothedHinge
from copriv.model.newton import FLAT, Penalized, newton
from copriv.model.solvers.task import Optimum, Task, certified
from copriv.types import Array, LinearLoss, is_linear

Curved = Logistic | Huber | SmoothedHinge
"""Losses whose second derivative is known."""


def smooth_minimum(task: Task, near: Array | None = None) -> Optimum:
    """θ* by Newton's method where the loss has a known second derivative and Θ does not hold θ back; else L-BFGS-B."""
    loss = task.loss
    if not isinstance(loss, Curved):
        return quasi_newton_minimum(task, near)
    gap, theta = newton_minimum(task, loss, near)
    if not task.inside(theta):
        return quasi_newton_minimum(task, task.project(theta))
    return certified(task, theta, gap)


def newton_minimum(task: Task, loss: Curved, near: Array | None = None) -> tuple[float, Array]:
    """A proved gap, or infinity, and θ: descent over all of R^p, until it leaves Θ or rounding stops it."""
    y, share, p = task.records.target, task.share, task.n_parameters
    f, unit = Penalized(
        task.records.features,
        share,
        lambda z: loss.slope(z, y),
        lambda z: loss.bend(z, y),
        task.regularization * np.eye(p),
        np.zeros(p),
    ).scaled()

    def done(u: Array, z: Array, down: float) -> bool:
        small = down < 1e-26 * max(float(share @ loss.value(z, y)), 1e-30)
        return small or bool(np.abs(u * unit).max() > task.theta_max)

    steep = None if isinstance(loss, Logistic) else lambda z: _steepest(loss, z, y)
    u, _ = newton(f, np.zeros(p) if near is None else near / unit, done, steep=steep)
    return _gap(loss, f, y, u), u * unit


def _steepest(loss: Curved, z: Array, y: Array) -> Array:
    """Upper bound on φ″, for a step where few records have curvature."""
    if isinstance(loss, Huber):
        return np.asarray(2.0 * np.minimum(1.0, loss.threshold / np.maximum(np.abs(z - y), loss.threshold)))
    return np.full_like(z, loss.curvature)


def _gap(loss: Curved, f: Penalized, y: Array, u: Array) -> float:
    """The gap at u that the module's docstring proves, or infinity."""
    x, z = f.features, f.features @ u
    v, curved = f.gradient(u, z), f.bend(z)
    room = np.full(len(y), np.inf)
    if isinstance(loss, Huber):
        room = np.maximum(loss.threshold - np.abs(z - y), 0.0)
    if isinstance(loss, SmoothedHinge):
        room = np.maximum(loss.width - np.abs(1.0 - y * z), 0.0)
    for _ in range(5):
        a, U = np.linalg.eigh(f.hessian(curved))
        some = a > FLAT * max(float(a[-1]), 1e-300)
        if not some.any():
            return np.inf
        root = U[:, some] / np.sqrt(a[some])
        ν2, lost = float(np.square(root.T @ v).sum()), U[:, ~some].T @ v
        if lost.size and np.abs(lost).max() > 1e-14:
            return np.inf
        reach = np.sqrt(np.square(x @ root).sum(axis=1))
        if isinstance(loss, Logistic):
            return 0.9 * ν2 if np.sqrt(ν2) * float(reach.max()) <= 0.5 else np.inf
        gone = (curved > 0) & (reach * 2.0 * np.sqrt(ν2) > room)
        if not gone.any():
            return 0.5 * ν2
        curved = np.where(gone, 0.0, curved)
    return np.inf


def quasi_newton_minimum(task: Task, near: Array | None = None) -> Optimum:
    """L-BFGS-B in units of 1/std of each feature: for a loss of which only slopes are known, and where Θ holds θ back."""
    r, fitness = task.records, task.objective
    scale = 1.0 / np.sqrt(task.share @ np.square(r.features) + task.regularization + np.finfo(float).tiny)
    f0 = max(abs(float(fitness.value(np.zeros(r.n_parameters)))), 1e-300)

    def objective(u: Array) -> tuple[float, Array]:
        theta = u * scale
        return float(fitness.value(theta)) / f0, fitness.gradient(theta) * scale / f0

    found = minimize(
        objective,
        np.zeros(r.n_parameters) if near is None else near / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-task.theta_max / s, task.theta_max / s) for s in scale],
        options={"ftol": 0.0, "gtol": 1e-13, "maxiter": 5000, "maxfun": 10_000, "maxcor": 40},
    )
    theta: Array = task.project(found.x * scale)
    if is_linear(task.loss):
        theta = _polished(task, task.loss, theta)
    return certified(task, theta)


def _polished(task: Task, loss: LinearLoss, theta: Array) -> Array:
    """Newton steps to rounding, in the coordinates that Θ does not hold."""
    r, fitness = task.records, task.objective
    for _ in range(30):
        v = fitness.gradient(theta)
        z = r.features @ theta
        h = 1e-5 * np.maximum(1.0, np.abs(z))
        bend = (loss.slope(z + h, r.target) - loss.slope(z - h, r.target)) / (2.0 * h)
        A = (r.features * (r.weight * bend)[:, None]).T @ r.features / r.weight.sum()
        A += task.regularization * np.eye(len(theta))
        free = ~((np.abs(theta) >= task.theta_max) & (v * theta < 0))
        step = np.zeros_like(theta)
        step[free] = -np.linalg.lstsq(A[np.ix_(free, free)], v[free], rcond=None)[0]
        here, length = float(fitness.value(theta)), 1.0
        while length > 1e-6:
            candidate = task.project(theta + length * step)
            if float(fitness.value(candidate)) <= here and (
                np.linalg.norm(fitness.gradient(candidate)[free]) < np.linalg.norm(v[free])
            ):
                break
            length /= 2.0
        else:
            return theta
        theta = candidate
    return theta
