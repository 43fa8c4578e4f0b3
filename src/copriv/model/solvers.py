"""Solvers of the certified optimum.

A smooth loss is minimised by one linear system where it is squared, by Newton's method where φ″ is known, which has a line
search and whose Hessian proves a bound on the gap, and otherwise by L-BFGS-B. A regularised hinge is minimised by Newton's
method on a smoothed hinge, one without regulariser by the dual linear programme, and either by an interior point where these
are not accurate; any other loss with kinks by a bundle method. SciPy and Clarabel are imported where they are needed.

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

from typing import Any

import numpy as np
from jaxtyping import Bool

from copriv.errors import InvalidInput
from copriv.losses import Huber, Logistic, SmoothedHinge
from copriv.model.newton import FLAT, Penalized, newton, positive_zero
from copriv.model.objective import ACCURACY, FeasibleSet, Objective, Optimum, Quadratic, Regularizer
from copriv.model.records import Records
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
        from scipy.optimize import lsq_linear

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


def smooth_minimum(f: Objective, near: Array) -> Optimum:
    """Minimise by Newton's method where φ″ is known and θ* is inside Θ, otherwise by L-BFGS-B."""
    if not isinstance(f.loss, Curved):
        return quasi_newton_minimum(f, near)
    gap, theta = newton_minimum(f, f.loss, near)
    if not f.feasible_set.contains(theta):
        return quasi_newton_minimum(f, f.feasible_set.project(theta))
    return f.certified(theta, gap)


def newton_minimum(f: Objective, loss: Curved, near: Array) -> tuple[float, Array]:
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

    u, _ = newton(scaled, near / unit, done, steep=None if isinstance(loss, Logistic) else steep)
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


def quasi_newton_minimum(f: Objective, near: Array) -> Optimum:
    """Minimise by L-BFGS-B in units of 1/std of each feature, where only slopes are known or Θ is active."""
    r, box = f.records, f.feasible_set
    scale = 1.0 / np.sqrt(f.share @ np.square(r.features) + f.regularizer.strength + np.finfo(float).tiny)
    f0 = max(abs(float(f.value(np.zeros(r.n_parameters)))), 1e-300)

    def objective(u: Array) -> tuple[float, Array]:
        return float(f.value(u * scale)) / f0, f.gradient(u * scale) * scale / f0

    from scipy.optimize import minimize

    found = minimize(
        objective,
        near / scale,
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
    slack = 1.0 - signed @ (width * newton_minimum(slight, rounded, np.zeros(p))[1])
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
    from scipy.optimize import linprog

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
    import clarabel

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
    from scipy import sparse as sp

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


def rounded_minimum(f: Objective, near: Array, accuracy: float) -> Optimum:
    """Minimise a regularised hinge problem by Newton's method, its kinks smoothed over a width h that goes to 0.

    max(s, 0), s = 1 − y xᵀθ, becomes αs − hα²/2 with α = min(max(s/h, 0), 1). Those α are feasible in the dual, so

        Σ w α/n − ‖Σ w α y x/n‖² / (2c)  ≤  f(θ*)

    whatever θ they come from; at a minimum of the smoothed f the gap is at most h/4, from the few records in a kink.
    A step costs n·p, p² for each record in a kink, and n for each evaluation along its line.
    """
    r, c, share = f.records, f.regularizer.strength, f.share
    signed = r.features * r.target[:, None]
    theta = near
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
    """Minimise the smoothed f along a line."""

    def derivative(length: float) -> float:
        return slope + bend * length + float(share @ (np.clip((slack + length * change) / h, 0.0, 1.0) * change))

    return positive_zero(derivative)


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
    from scipy import sparse as sp

    P = sp.diags(np.append(np.full(p, f.regularizer.strength + weight), 0.0), format="csc")
    A = [np.hstack([V, -np.ones((len(V), 1))])]
    b = [-np.array(offsets)]
    if np.isfinite(theta_max):
        side = np.hstack([np.eye(p), np.zeros((p, 1))])
        A += [side, -side]
        b += [np.full(p, theta_max)] * 2
    found = _solved(P, np.append(-weight * centre, 1.0), sp.csc_matrix(np.vstack(A)), np.concatenate(b), 1e-12)
    return f.feasible_set.project(np.asarray(found.x[:p])), float(found.obj_val_dual)
