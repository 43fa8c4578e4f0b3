"""The fitness f(θ) = g(θ) + (1/n) Σ w ℓ(θ; x, y) over the box Θ, its optimum θ*, and relative fitness ψ.

The reference optimum decides what every ψ means, so it is never a long gradient run: it is solved and *certified*.
Convexity gives, at any θ in Θ with subgradient v,

    f(θ) − f(θ*) ≤ max_{u in Θ} vᵀ(θ − u)                  (a linear function's maximum over a box)
    f(θ) − f(θ*) ≤ ‖v‖² / (2L)                             (f L-strongly convex, θ inside Θ)

and the interior-point solver for kinked losses returns a dual value. `Optimum.gap` is the smaller proof, and
`minimum` raises NotCertified when it exceeds 1e-8 of f.
"""

from dataclasses import dataclass
from functools import cached_property

import clarabel
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from jaxtyping import Float
from scipy.optimize import brentq, minimize

from copriv.box import Box as Box
from copriv.box import Regularizer as Regularizer
from copriv.errors import InvalidInput, NotCertified
from copriv.losses import Hinge, Squared
from copriv.records import Records
from copriv.types import Array, LinearLoss, Loss, is_linear
from copriv.validation import non_negative, positive

ACCURACY = 1e-8
"""What `minimum` guarantees: (f(θ) − f(θ*)) / |f(θ*)|."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """f(θ) = θᵀHθ − 2cᵀθ + s + (σ/2)θᵀθ: the squared loss, whole, in p² + p + 1 numbers.

    H = Σ w x xᵀ/n, c = Σ w x y/n, s = Σ w y²/n. Exact for any number of records after one pass over them.
    """

    H: Float[Array, "p p"]
    c: Float[Array, " p"]
    s: float
    regularizer: Regularizer

    @classmethod
    def of(cls, records: Records, regularizer: Regularizer) -> "Quadratic":
        """One pass, in blocks that stay in cache."""
        p = records.n_parameters
        H, c, s, n = np.zeros((p, p)), np.zeros(p), 0.0, float(records.weight.sum())
        plain = bool((records.weight == 1.0).all())
        for start in range(0, len(records), 8192):
            rows = slice(start, start + 8192)
            x, y, w = records.features[rows], records.target[rows], records.weight[rows]
            wx, wy = (x, y) if plain else (w[:, None] * x, w * y)
            H += wx.T @ x
            c += x.T @ wy
            s += float(wy @ y)
        return cls(H / n, c / n, s / n, regularizer)

    @cached_property
    def hessian(self) -> Float[Array, "p p"]:
        """A = ∇²f = 2H + σI."""
        return 2.0 * self.H + self.regularizer.strength * np.eye(len(self.c))

    def value(self, theta: Float[Array, "*batch p"]) -> Float[Array, "*batch"]:
        """f at each θ."""
        half = 0.5 * ((theta @ self.hessian) * theta).sum(axis=-1)
        return np.asarray(half - 2.0 * (theta @ self.c) + self.s)

    def gradient(self, theta: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
        """∇f at each θ."""
        return np.asarray(theta @ self.hessian - 2.0 * self.c)

    def free_minimum(self) -> Float[Array, " p"]:
        """argmin f over all of R^p; the least-norm one where records do not determine it."""
        try:
            factor = scipy.linalg.cho_factor(self.hessian)
            return np.asarray(scipy.linalg.cho_solve(factor, 2.0 * self.c))
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.lstsq(self.hessian, 2.0 * self.c, rcond=None)[0], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Optimum:
    """θ* over Θ, f(θ*), and a proved bound on how far f(theta) is above the least value."""

    theta: Float[Array, " p"]
    value: float
    gap: float


@dataclass(frozen=True, eq=False)
class Fitness:
    """f over `records` (weights and all), with its gradient and its certified minimum over Θ."""

    loss: Loss
    regularizer: Regularizer
    box: Box
    records: Records

    @cached_property
    def quadratic(self) -> Quadratic | None:
        """The whole of f in a few numbers, for the squared loss; None for the others."""
        return Quadratic.of(self.records, self.regularizer) if isinstance(self.loss, Squared) else None

    def value(self, theta: Float[Array, "*batch p"], block: int = 2048) -> Float[Array, "*batch"]:
        """f at each θ; one pass over the records in blocks, for all θ at once."""
        if self.quadratic is not None:
            return self.quadratic.value(theta)
        thetas = theta.reshape(-1, theta.shape[-1])
        total = np.zeros(len(thetas))
        for start in range(0, len(self.records), block):
            rows = slice(start, start + block)
            x, y, w = self.records.features[rows], self.records.target[rows], self.records.weight[rows]
            if is_linear(self.loss):
                total += w @ self.loss.value(x @ thetas.T, y[:, None])
            else:
                total += np.array([w @ self.loss.values(t, x, y) for t in thetas])
        mean = total / self.records.weight.sum()
        return np.asarray(mean.reshape(theta.shape[:-1]) + self.regularizer.value(theta))

    def gradient(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        """A subgradient of f at one θ."""
        r = self.records
        if is_linear(self.loss):
            mean = (r.weight * self.loss.slope(r.features @ theta, r.target)) @ r.features
        else:
            mean = r.weight @ self.loss.gradients(theta, r.features, r.target)
        return np.asarray(mean / r.weight.sum() + self.regularizer.gradient(theta))

    def smoothness(self) -> float:
        """λ: ∇f is λ-Lipschitz; `inf` where the loss has a kink or is not known."""
        if not is_linear(self.loss) or not np.isfinite(self.loss.curvature):
            return np.inf
        plain = Quadratic.of(self.records, Regularizer(0.0))
        return self.loss.curvature * float(np.linalg.eigvalsh(plain.H)[-1]) + self.regularizer.strength

    def strong_convexity(self) -> float:
        """L: f is L-strongly convex. From the records for the squared loss, else from the regulariser alone."""
        if self.quadratic is not None:
            return max(float(np.linalg.eigvalsh(self.quadratic.hessian)[0]), self.regularizer.strength)
        return self.regularizer.strength

    def minimum(self) -> Optimum:
        """θ* to 1e-8 of f, with its certificate.

        Raises NotCertified when no proof of that accuracy was reached; DataError when the loss cannot take the targets.
        """
        self.loss.check_target(self.records.target)
        if self.quadratic is not None:
            best = self._certified(_quadratic_minimum(self.quadratic, self.box))
        elif self.loss.smooth:
            best = self._certified(_smooth_minimum(self))
        else:
            hinge = isinstance(self.loss, Hinge)
            best = _rounded_hinge_minimum(self) if hinge and self.regularizer.strength > 0 else _bundle_minimum(self)
            if hinge and not _to_scale(best):
                best = _hinge_minimum(self, 1.0)  # tens of times slower, and sure
                if not _to_scale(best):
                    best = _hinge_minimum(self, best.value)
        if not _accurate(best):
            raise NotCertified(
                f"optimum: the gap left is {best.gap:.2g} at fitness {best.value:.6g}, more than {ACCURACY:g} of it; "
                "regularise more, scale the features, or lower theta_max"
            )
        return best

    def _certified(self, theta: Array) -> Optimum:
        v, p, bound = self.gradient(theta), len(theta), self.box.theta_max
        gap = np.inf
        if np.isfinite(bound):
            gap = float(v @ theta + bound * np.abs(v).sum())
        L = self.strong_convexity()
        if L > 0:
            # f(u) ≥ f(θ) + vᵀ(u−θ) + (L/2)‖u−θ‖²; its least value over the box, coordinate by coordinate.
            step = np.clip(theta - v / L, -bound, bound) - theta
            gap = min(gap, float(-(v @ step + 0.5 * L * step @ step)))
        if not np.isfinite(gap) and not np.linalg.norm(v) > 1e-10 * np.sqrt(p):
            gap = 0.0  # flat to rounding, and Θ unbounded: nothing better can be said
        return Optimum(theta, float(self.value(theta)), max(gap, 0.0))


def _accurate(optimum: Optimum) -> bool:
    return optimum.gap <= ACCURACY * abs(optimum.value) + 1e-12


def _to_scale(optimum: Optimum) -> bool:
    """Accurate for ψ = f/f(θ*) − 1 too, unless f(θ*) is as good as 0."""
    return optimum.gap <= ACCURACY * optimum.value or optimum.value <= 1e-12


def relative_fitness(fitness: Float[Array, "*batch"], optimum: Optimum) -> Float[Array, "*batch"]:
    """ψ = f/f(θ*) − 1, at least 0; lower is better (S, eq. (30); A, §V). Raises InvalidInput where f(θ*) is 0."""
    if not optimum.value > 0:
        raise InvalidInput(f"relative fitness: f(θ*) is {optimum.value:g}; ψ needs a fitness above 0 at the optimum")
    return np.asarray(fitness / optimum.value - 1.0)


def _quadratic_minimum(f: Quadratic, box: Box) -> Array:
    theta = f.free_minimum()
    if box.contains(theta):
        return theta
    bounds = [(-box.theta_max, box.theta_max)] * len(theta)
    start = box.project(theta)
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
        held = (np.abs(theta) >= box.theta_max) & (v * theta <= 0)
        free = ~held
        if not free.any():
            break
        rest = 2.0 * f.c[free] - f.hessian[np.ix_(free, held)] @ theta[held]
        candidate = theta.copy()
        candidate[free] = np.linalg.lstsq(f.hessian[np.ix_(free, free)], rest, rcond=None)[0]
        inside = box.contains(candidate)
        theta = box.project(candidate)
        if inside:
            break
    return theta


def _smooth_minimum(fitness: Fitness) -> Array:
    """L-BFGS-B in coordinates where the records' second moments are the identity, then Newton steps to rounding."""
    r, box = fitness.records, fitness.box
    plain = Quadratic.of(r, Regularizer(0.0))
    scale = 1.0 / np.sqrt(np.diag(plain.H) + fitness.regularizer.strength + np.finfo(float).tiny)
    f0 = max(abs(float(fitness.value(np.zeros(r.n_parameters)))), 1e-300)

    def objective(u: Array) -> tuple[float, Array]:
        theta = u * scale
        return float(fitness.value(theta)) / f0, fitness.gradient(theta) * scale / f0

    found = minimize(
        objective,
        np.zeros(r.n_parameters),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-box.theta_max / s, box.theta_max / s) for s in scale],
        options={"ftol": 0.0, "gtol": 1e-13, "maxiter": 5000, "maxfun": 10_000, "maxcor": 40},
    )
    theta: Array = box.project(found.x * scale)
    if is_linear(fitness.loss):
        theta = _newton_polish(fitness, fitness.loss, theta)
    return theta


def _newton_polish(fitness: Fitness, loss: LinearLoss, theta: Array) -> Array:
    r, box = fitness.records, fitness.box
    for _ in range(30):
        v = fitness.gradient(theta)
        z = r.features @ theta
        h = 1e-5 * np.maximum(1.0, np.abs(z))
        bend = (loss.slope(z + h, r.target) - loss.slope(z - h, r.target)) / (2.0 * h)
        A = (r.features * (r.weight * bend)[:, None]).T @ r.features / r.weight.sum()
        A += fitness.regularizer.strength * np.eye(len(theta))
        free = ~((np.abs(theta) >= box.theta_max) & (v * theta < 0))
        step = np.zeros_like(theta)
        step[free] = -np.linalg.lstsq(A[np.ix_(free, free)], v[free], rcond=None)[0]
        here, length = float(fitness.value(theta)), 1.0
        while length > 1e-6:
            candidate = box.project(theta + length * step)
            if float(fitness.value(candidate)) <= here and (
                np.linalg.norm(fitness.gradient(candidate)[free]) < np.linalg.norm(v[free])
            ):
                break
            length /= 2.0
        else:
            return theta
        theta = candidate
    return theta


def _hinge_minimum(fitness: Fitness, unit: float) -> Optimum:
    """min (c/2)θᵀθ + Σ w ξ/n with ξ ≥ 0, ξ ≥ 1 − y xᵀθ, θ in Θ: a quadratic programme, by Clarabel's interior point.

    θ is measured in units of 1/std of its feature and the objective in `unit`: 1 = f(0), so that the solver's tolerances
    mean the same for every data set; or near f(θ*), where records that can almost be separated leave little of f(0).
    The gap is Clarabel's own primal − dual, at the θ returned.
    """
    r, c, box = fitness.records, fitness.regularizer.strength, fitness.box
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
    if np.isfinite(box.theta_max):
        side = sp.hstack([sp.identity(p), sp.csc_matrix((p, n))])
        rows += [side, -side]
        rhs += [box.theta_max / scale, box.theta_max / scale]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    settings.max_iter = 200
    b = np.concatenate(rhs)
    A = sp.vstack(rows, format="csc")
    solution = clarabel.DefaultSolver(
        sp.triu(P, format="csc"), q, A, b, [clarabel.NonnegativeConeT(len(b))], settings
    ).solve()
    theta = box.project(np.asarray(solution.x[:p]) * scale)
    value = float(fitness.value(theta))
    return Optimum(theta, value, max(value - unit * float(solution.obj_val_dual), 0.0))


def _rounded_hinge_minimum(fitness: Fitness) -> Optimum:
    """θ* of a regularised hinge problem by Newton's method, its kinks rounded over a width h that goes to 0.

    max(s, 0), s = 1 − y xᵀθ, becomes αs − hα²/2 with α = min(max(s/h, 0), 1). Those α are feasible in the dual, so

        Σ w α/n − ‖Σ w α y x/n‖² / (2c)  ≤  f(θ*)

    whatever θ they come from; at a minimum of the rounded f the gap is h/4 at most, for the few records in a kink only.
    A step costs n·p, p² for each record in a kink, and n for each look along its line.
    """
    r, c = fitness.records, fitness.regularizer.strength
    signed, share = r.features * r.target[:, None], r.weight / r.weight.sum()
    theta, slack, lower = np.zeros(r.n_parameters), np.ones(len(r)), 0.0
    best = Optimum(theta, float(share.sum()), np.inf)
    for h in 10.0 ** -np.arange(0.0, 12.0):
        for _ in range(60):
            α = np.clip(slack / h, 0.0, 1.0)
            pull, kink = signed.T @ (share * α), (α > 0) & (α < 1)
            lower = max(lower, float(share @ α - pull @ pull / (2.0 * c)))
            down = pull - c * theta
            if float(down @ down) <= 0.2 * c * ACCURACY * best.value:
                break  # what is not stationary adds ‖down‖²/(2c) to the gap: a tenth of what it may be
            curvature = c * np.eye(len(theta)) + (signed[kink] * share[kink, None]).T @ signed[kink] / h
            step = np.linalg.solve(curvature, down)
            length = _line_minimum(c * float(theta @ step), c * float(step @ step), slack, -(signed @ step), share, h)
            theta = theta + length * step
            slack = 1.0 - signed @ theta
        value = 0.5 * c * float(theta @ theta) + float(share @ np.maximum(slack, 0.0))
        if value < best.value and fitness.box.contains(theta):
            best = Optimum(theta, value, np.inf)
        best = Optimum(best.theta, best.value, max(best.value - lower, 0.0))
        if best.gap <= ACCURACY * best.value:
            break
    return best


def _line_minimum(slope: float, bend: float, slack: Array, change: Array, share: Array, h: float) -> float:
    """How far along a line the rounded f is least: where its derivative, which only grows, is 0."""

    def derivative(length: float) -> float:
        return slope + bend * length + float(share @ (np.clip((slack + length * change) / h, 0.0, 1.0) * change))

    far = 1.0
    while derivative(far) < 0.0:
        far *= 2.0
    return float(brentq(derivative, 0.0, far, xtol=1e-15, rtol=1e-3)) if derivative(0.0) < 0.0 else 0.0


def _bundle_minimum(fitness: Fitness, rounds: int = 400) -> Optimum:
    """Proximal bundle method for a convex f with kinks of which only values and subgradients are known.

    Keeps the cutting planes f(θ_j) + v_jᵀ(θ − θ_j) and minimises their maximum over Θ, which is a lower bound on f(θ*):
    the gap is proved. The regulariser stays exact in the model, so each round's programme is strongly convex if f is.
    """
    r, c, box = fitness.records, fitness.regularizer.strength, fitness.box
    p = r.n_parameters
    if not np.isfinite(box.theta_max) and c == 0:
        raise InvalidInput(
            "theta_max: a loss with kinks and no regulariser needs a finite theta_max to have a proved optimum"
        )
    planes: list[Array] = []
    offsets: list[float] = []
    best, best_value, lower, weight = np.zeros(p), np.inf, -np.inf, 1.0
    theta = np.zeros(p)
    for _ in range(rounds):
        value = float(fitness.value(theta))
        v = fitness.gradient(theta) - fitness.regularizer.gradient(theta)
        planes.append(v)
        offsets.append(value - float(fitness.regularizer.value(theta)) - float(v @ theta))
        if value < best_value:
            weight = max(weight / 2.0, 1e-12)
            best, best_value = theta, value
        else:
            weight = min(weight * 1.2, 1e12)
        _, bound = _model_minimum(planes, offsets, c, box, None, 0.0)
        lower = max(lower, bound)
        if best_value - lower <= 0.5 * ACCURACY * abs(best_value):
            break
        theta, _ = _model_minimum(planes, offsets, c, box, best, weight)
    return Optimum(best, best_value, max(best_value - lower, 0.0))


def _model_minimum(
    planes: list[Array], offsets: list[float], c: float, box: Box, centre: Array | None, weight: float
) -> tuple[Array, float]:
    """min over Θ of (c/2)‖θ‖² + t + (weight/2)‖θ − centre‖² with t above every plane; θ and the dual value."""
    V, p = np.array(planes), len(planes[0])
    pull = np.zeros(p) if centre is None else weight * centre
    P = sp.diags(np.concatenate([np.full(p, c + weight), [0.0]]), format="csc")
    A = [np.hstack([V, -np.ones((len(V), 1))])]
    b = [-np.array(offsets)]
    if np.isfinite(box.theta_max):
        side = np.hstack([np.eye(p), np.zeros((p, 1))])
        A += [side, -side]
        b += [np.full(p, box.theta_max)] * 2
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
    return box.project(np.asarray(solution.x[:p])), float(solution.obj_val_dual)


def gradient_bound_over(loss: Loss, feature_bound: float, target_bound: float, box: Box) -> float:
    """Ξ proved from declared bounds: ‖x‖₁ ≤ feature_bound, |y| ≤ target_bound, θ in Θ. Raises where there is none."""
    positive("feature_bound", feature_bound)
    bound = loss.gradient_bound(feature_bound, non_negative("target bound", target_bound), box.theta_max)
    if not np.isfinite(bound):
        raise InvalidInput(
            f"gradient_bound: the {loss.name} loss has no proved bound over these features and theta_max; "
            "give a number and it is enforced by clipping"
        )
    return bound
