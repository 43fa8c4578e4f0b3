"""Minimise a smooth loss: by one linear system for the squared loss, by Newton's method where φ″ is known.

Newton's method has a line search, and its Hessian proves a bound on the gap.

Let ν² = vᵀH⁻¹v at θ, v = ∇f, H = ∇²f, and R_i² = x_iᵀH⁻¹x_i, so that |x_iᵀ(u − θ)| ≤ R_i‖u − θ‖_H.

*Logistic.* |φ‴| ≤ φ″, so along a line φ″ falls at most by e^(−|change of prediction|) (Bach 2010, "Self-concordant analysis
for logistic regression"). Hence for ‖u − θ‖_H = r and S = r·max R_i

    f(u) ≥ f(θ) − νr + r²·(e^(−S) + S − 1)/S².

If ν·max R_i ≤ ½, then at r = 4ν, S ≤ 2, the right side is f(θ) + ν²(−4 + 16·0.2838) > f(θ): the minimum is nearer, and
there the right side is at least f(θ) − ν²/(4·0.2838) ≥ f(θ) − 0.9ν². The regulariser only adds curvature.

*Huber, smoothed hinge.* Quadratic in pieces. With H that of the records alone that stay in their piece for
‖u − θ‖_H ≤ r = 2ν (R_i·2ν ≤ how far its kink is), f(u) ≥ f(θ) − νr + r²/2 = f(θ) there, so the minimum is nearer, and the
gap at most ν²/2. Directions in which all records are 0 do not count: v and H are 0 there.
"""

import numpy as np

from copriv.losses import Huber, Logistic, SmoothedHinge
from copriv.model.newton import FLAT, Penalized, newton
from copriv.model.objective import Objective, Optimum, Quadratic
from copriv.types import Array, LinearLoss, is_linear

Curved = Logistic | Huber | SmoothedHinge
"""Losses whose second derivative is known."""


def quadratic_minimum(f: Objective, quadratic: Quadratic) -> Optimum:
    """Minimise f, with the least norm where θ* is not unique. The gap is exactly ½vᵀA⁺v where θ is inside Θ.

    A curvature below 1e-13 of the largest is 0 up to rounding. ∇f is in the range of A, so a gradient below 1e-10 of c in flat
    directions is a rounding error.
    """
    A, c, flat = quadratic.hessian, quadratic.c, 1e-13
    unit = 1.0 / np.sqrt(np.maximum(np.diag(A), 1e-300 + flat**2 * float(np.diag(A).max(initial=0.0))))
    a, U = np.linalg.eigh(A * unit * unit[:, None])
    far = a > flat * max(float(a[-1]), 1e-300)
    theta = np.zeros(len(c))
    if far.any():
        back = U[:, far] / a[far] @ U[:, far].T
        for _ in range(3):  # further steps correct rounding errors
            theta = theta - unit * (back @ (unit * quadratic.gradient(theta)))
    if not np.isfinite(theta).all() or not f.feasible_set.contains(theta):
        root, edge = np.sqrt(a[far]), f.feasible_set.theta_max / unit
        goal = U[:, far].T @ (unit * 2.0 * c) / root
        from scipy.optimize import lsq_linear  # slow to import, and seldom needed

        held = lsq_linear(root[:, None] * U[:, far].T, goal, (-edge, edge), method="bvls", tol=1e-15)
        return f.certified(f.feasible_set.project(unit * held.x))
    v = U.T @ (unit * quadratic.gradient(theta))
    gap = np.inf
    if far.all() or np.abs(v[~far]).max() <= 1e-10 * float(np.abs(unit * 2.0 * c).max(initial=0.0)):
        gap = 0.5 * float(np.sum(v[far] ** 2 / a[far]))
    best = f.certified(theta, gap)
    if best.value <= 1e-13 * float(quadratic.value(np.zeros(len(c)))):
        return Optimum(theta, 0.0, 0.0)  # the fit is exact up to rounding
    return best


def smooth_minimum(f: Objective, near: Array | None = None) -> Optimum:
    """Minimise by Newton's method where φ″ is known and θ* is inside Θ, otherwise by L-BFGS-B."""
    if not isinstance(f.loss, Curved):
        return quasi_newton_minimum(f, near)
    gap, theta = newton_minimum(f, f.loss, near)
    if not f.feasible_set.contains(theta):
        return quasi_newton_minimum(f, f.feasible_set.project(theta))
    return f.certified(theta, gap)


def newton_minimum(f: Objective, loss: Curved, near: Array | None = None) -> tuple[float, Array]:
    """Minimise f over R^p until θ leaves Θ or rounding stops the descent. Returns a proved gap, or infinity, and θ."""
    y, share, p = f.records.target, f.share, f.records.n_parameters
    scaled, unit = Penalized(
        f.records.features,
        share,
        lambda z: loss.slope(z, y),
        lambda z: loss.bend(z, y),
        f.regularizer.strength * np.eye(p),
        np.zeros(p),
    ).scaled()

    def done(u: Array, z: Array, down: float) -> bool:
        small = down < 1e-26 * max(float(share @ loss.value(z, y)), 1e-30)
        return small or not f.feasible_set.contains(u * unit)

    def steep(z: Array) -> Array:
        """Upper bound on φ″, for a step where few records have curvature."""
        if isinstance(loss, Huber):
            return np.asarray(2.0 * np.minimum(1.0, loss.threshold / np.maximum(np.abs(z - y), loss.threshold)))
        return np.full_like(z, loss.curvature)

    start = np.zeros(p) if near is None else near / unit
    u, _ = newton(scaled, start, done, steep=None if isinstance(loss, Logistic) else steep)
    return _gap(loss, scaled, y, u), u * unit


def _gap(loss: Curved, f: Penalized, y: Array, u: Array) -> float:
    """Bound the gap at u, as the module's docstring proves; infinity where no bound holds."""
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
        ν2, flat = float(np.square(root.T @ v).sum()), U[:, ~some].T @ v
        if flat.size and np.abs(flat).max() > 1e-14:
            return np.inf
        reach = np.sqrt(np.square(x @ root).sum(axis=1))
        if isinstance(loss, Logistic):
            return 0.9 * ν2 if np.sqrt(ν2) * float(reach.max()) <= 0.5 else np.inf
        leaves_piece = (curved > 0) & (reach * 2.0 * np.sqrt(ν2) > room)
        if not leaves_piece.any():
            return 0.5 * ν2
        curved = np.where(leaves_piece, 0.0, curved)
    return np.inf


def quasi_newton_minimum(f: Objective, near: Array | None = None) -> Optimum:
    """Minimise by L-BFGS-B in units of 1/std of each feature, where only slopes are known or Θ is active."""
    r, box = f.records, f.feasible_set
    scale = 1.0 / np.sqrt(f.share @ np.square(r.features) + f.regularizer.strength + np.finfo(float).tiny)
    f0 = max(abs(float(f.value(np.zeros(r.n_parameters)))), 1e-300)

    def objective(u: Array) -> tuple[float, Array]:
        return float(f.value(u * scale)) / f0, f.gradient(u * scale) * scale / f0

    from scipy.optimize import minimize

    found = minimize(
        objective,
        np.zeros(r.n_parameters) if near is None else near / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-box.theta_max / s, box.theta_max / s) for s in scale],
        options={"ftol": 0.0, "gtol": 1e-13, "maxiter": 5000, "maxfun": 10_000, "maxcor": 40},
    )
    theta: Array = box.project(found.x * scale)
    if is_linear(f.loss):
        theta = _polished(f, f.loss, theta)
    return f.certified(theta)


def _polished(f: Objective, loss: LinearLoss, theta: Array) -> Array:
    """Make Newton steps up to rounding, in the coordinates that are not at a bound of Θ."""
    r, box = f.records, f.feasible_set
    for _ in range(30):
        v, z = f.gradient(theta), r.features @ theta
        h = 1e-5 * np.maximum(1.0, np.abs(z))
        bend = (loss.slope(z + h, r.target) - loss.slope(z - h, r.target)) / (2.0 * h)
        A = (r.features * (r.weight * bend)[:, None]).T @ r.features / r.total
        A += f.regularizer.strength * np.eye(len(theta))
        free = ~((np.abs(theta) >= box.theta_max) & (v * theta < 0))
        step = np.zeros_like(theta)
        step[free] = -np.linalg.lstsq(A[np.ix_(free, free)], v[free], rcond=None)[0]
        here, flat = float(f.value(theta)), np.linalg.norm(v[free])
        for length in 0.5 ** np.arange(20.0):  # down to a millionth of the step
            candidate = box.project(theta + length * step)
            if float(f.value(candidate)) <= here and np.linalg.norm(f.gradient(candidate)[free]) < flat:
                break
        else:
            return theta
        theta = candidate
    return theta
