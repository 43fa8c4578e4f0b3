"""The solver of objective perturbation: an owner's tilted fitness and its minimum, within a known distance.

    F(θ) = (1/n) Σ ℓ̃(θ; x, y) + (σ/2)‖θ‖² + (λ/2)(θ − θ₀)ᵀP⁻¹(θ − θ₀) + bᵀθ

The notation, and what the distance is for, stand in `objective_noise`.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isqrt
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError, InvalidInput, NotCertified
from copriv.losses import Hinge, Huber, Logistic, SmoothedHinge, Squared
from copriv.model.records import BLOCK, Records
from copriv.privacy.clipping import exact_sum, row_norms, slope_limits
from copriv.privacy.noise import GRID, Order
from copriv.types import Array, Loss
from copriv.validation import positive

FEW = 400
"""Passes over the records that Newton steps may take."""
LINE = 1 + 40 + 60 + 1
"""Passes of one search along a step: one at its start, 40 to find an end, 60 to halve, and 1."""
KEPT = 0.3
"""Most that a step may leave of the gradient for its Hessian to serve again: so many gradients cost less than a new one."""
CELLS = 1 << 22
"""Most slopes, of all models that are solved for at once, but for one: 32 MiB for each array of them."""
CHECK = 16
"""Steps of the sure descent between checks of the gradient at its own iterate."""

SMOOTH = Squared | Huber | Logistic
"""Losses with a bound on their curvature."""
Surface = Squared | Huber | Logistic | SmoothedHinge
Factors = tuple[Array, Any]
"""LU factors of a matrix, and the pivots, which are whole numbers."""


def surface_of(loss: Loss, smoothing: float) -> Surface:
    """The loss that an owner minimises: the agreed one, and a rounded hinge for the hinge."""
    if isinstance(loss, Hinge):
        return SmoothedHinge(smoothing)
    if isinstance(loss, SMOOTH):
        return loss
    raise AgreementError(
        f'model.loss: mechanism "objective" needs a bound on the curvature, which {loss.name!r} does not give; '
        "use squared, huber, logistic or hinge"
    )


def sure_passes(condition: float, size: float, least: float, goal: float) -> int:
    """Steps of Nesterov's descent after which ‖∇F‖₂ ≤ goal, for κ = condition and ‖∇F(θ₀)‖_P = size.

    F is m-strongly convex and L-smooth in the metric of P, κ = L/m. After k steps F − F* is at most (1 − 1/√κ)^k·2(F₀ − F*)
    (Nesterov 2018, Theorem 2.2.3 with the constant momentum), F₀ − F* ≤ size²/(2m), ‖∇F‖²_P ≤ 2L(F − F*), and
    ‖∇F‖₂² ≤ ‖∇F‖²_P/(least eigenvalue of P): together ‖∇F‖₂² ≤ (2κ/least)(1 − 1/√κ)^k·size².
    """
    needed = np.log(max(2.0 * condition / least * (size / goal) ** 2, 1.0))
    return int(np.ceil(np.sqrt(condition) * needed)) + 1


@lru_cache(maxsize=4)
def _eigenvalues(matrix: bytes) -> Float[Array, " p"]:
    """Of a square matrix; a plan weighs hundreds of settings with the same one."""
    values = np.frombuffer(matrix)
    return np.asarray(np.linalg.eigvalsh(values.reshape(isqrt(len(values)), -1)))


@lru_cache(maxsize=4)
def _inverse(matrix: bytes) -> Float[Array, "p p"]:
    """Of a symmetric matrix; once for many settings, too."""
    values = np.frombuffer(matrix)
    inverse = np.linalg.inv(values.reshape(isqrt(len(values)), -1))
    return np.asarray(0.5 * (inverse + inverse.T))


@dataclass(frozen=True, eq=False)
class Sized:
    """Rows in the unit of the terms, with an intercept of 1, and how long each is: the same for every Ξ, r and λ."""

    features: Float[Array, "records p"]
    lengths: Float[Array, " records"]
    """‖x‖₁ without the intercept."""
    norms: Float[Array, " records"]
    """‖x‖₁, or ‖x‖₂ where δ > 0."""
    squares: Float[Array, " records"] | None
    """xᵀPx, and what rounding may have hidden of it; None where the terms have no r."""

    @cached_property
    def single(self) -> Any:
        """The rows in single precision, of which a Hessian takes half the time; None where they are out of its range."""
        largest = float(np.abs(self.features).max())
        return self.features.astype(np.float32) if 1e-15 <= largest <= 1e15 else None

    @cached_property
    def own(self) -> Float[Array, " records"]:
        """‖x‖₂² of each."""
        return np.asarray(np.square(self.features).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Tilt:
    """The tilted fitness but for records, λ and b: what the parties agreed on."""

    surface: Surface
    bound: float
    """Ξ: in L1, or in L2 where δ > 0."""
    order: Order
    feature_bound: float
    """B, in L1, without the intercept."""
    intercept: bool
    start: Float[Array, " p"]
    """θ₀."""
    regularization: float
    """σ."""
    metric: Float[Array, "p p"] | None = None
    """P, symmetric positive definite; the identity when None."""
    reach: float | None = None
    """r: a record with √(xᵀPx) above it has its loss multiplied by r²/xᵀPx; what follows from B when None."""
    factors: Float[Array, " p"] | float = 1.0
    """What each feature is multiplied by: all of these terms are in that unit."""

    def __post_init__(self) -> None:
        positive("gradient_bound", self.bound)
        positive("feature_bound", self.feature_bound)
        if self.metric is None:
            return
        symmetric = np.isfinite(self.metric).all() and np.allclose(self.metric, self.metric.T, rtol=1e-9, atol=0)
        least, largest = self.eigenvalues[[0, -1]] if symmetric else (0.0, 0.0)
        if not least > 0:
            raise InvalidInput('preconditioner: mechanism "objective" needs a symmetric positive definite one')
        condition = 1e5  # up to which the slack of 1e-9 on eigenvalues, and on xᵀPx, covers the rounding of P⁻¹
        if largest > condition * least:
            raise AgreementError(
                f'agreement.preconditioner: its eigenvalues span a factor of {largest / least:.1g}; mechanism "objective" '
                f"takes up to {condition:g}, beyond which floats do not have its inverse exactly enough. Add to its "
                "diagonal, or leave it out"
            )

    @cached_property
    def matrix(self) -> Float[Array, "p p"]:
        """P."""
        return np.eye(len(self.start)) if self.metric is None else 0.5 * (self.metric + self.metric.T)

    @cached_property
    def eigenvalues(self) -> Float[Array, " p"]:
        """Of P, the least first."""
        return np.ones(len(self.start)) if self.metric is None else _eigenvalues(self.matrix.tobytes())

    @cached_property
    def inverse(self) -> Float[Array, "p p"]:
        """P⁻¹."""
        if self.metric is None:
            return self.matrix
        return _inverse(self.matrix.tobytes())

    @cached_property
    def of_rows(self) -> tuple[Any, ...]:
        """All that `sized` depends on, but for the rows."""
        metric = None if self.metric is None else self.matrix.tobytes()
        factors = np.asarray(self.factors, dtype=np.float64).tobytes()
        return metric, self.reach is None, self.order, self.feature_bound, self.intercept, factors

    def sized(self, records: Records) -> Sized:
        """The rows, scaled, and how long they are. Rows so long that their weight would be lost in rounding are 0."""
        with np.errstate(over="ignore", under="ignore"):
            x = records.features * self.factors
        lengths = np.abs(x[:, : x.shape[1] - self.intercept]).sum(axis=1)
        if self.intercept:
            x[:, -1] = 1.0
        x[lengths > 1e100 * self.feature_bound] = 0.0
        squares = None
        if self.reach is not None:
            own = np.square(x).sum(axis=1)
            length = own if self.metric is None else ((x @ self.matrix) * x).sum(axis=1)
            # The length is computed with rounding, and the bound must hold exactly: what p + 2 roundings of each
            # coordinate may have hidden is added, which matters where P is ill conditioned.
            hidden = 8.0 * (x.shape[1] + 2) * np.finfo(float).eps * self.eigenvalues[-1]
            squares = length + hidden * own
        return Sized(x, lengths, row_norms(x, self.order), squares)

    @cached_property
    def residual(self) -> float:
        """‖∇F‖₂ that the solver may leave: 1e-11·Ξ, and as much as rounding inside predictions may be.

        There is room for the rounding of models a hundred times as large as 1, 1/B or the start. A Ξ so small that its share
        is lost in rounding leaves a step of the grid.
        """
        size = 100.0 * max(1.0, 1.0 / self.feature_bound, float(np.abs(self.start).max()))
        return max(1e-11 * self.bound, 2.0**GRID) + 8.0 * self.rounded_predictions(size)

    def rounded_predictions(self, size: float) -> float:
        """How far rounding inside predictions can move ∇F in L2, at a θ with ‖θ‖_∞ = size.

        A prediction is off by at most (p + 8)·2⁻⁵³·‖x‖₁·size, and slopes are ωc-Lipschitz in it. √ω‖x‖₁ ≤ B, and 1 for the
        intercept; √ω‖x‖₂ is at most that, and r/√μ, μ the least eigenvalue of P.
        """
        most = self.feature_bound + self.intercept
        far = np.inf if self.reach is None else self.reach / float(np.sqrt(self.eigenvalues[0])) * (1 + 1e-9)
        return float((len(self.start) + 8) * 2.0**-53 * self.surface.curvature * most * min(most, far) * size)


@dataclass(frozen=True, eq=False)
class Tilted:
    """The tilted fitness over one owner's records; `minimum` is deterministic in the records and b."""

    agreed: Tilt
    firmness: float
    """λ."""

    def rounding(self, theta: Float[Array, " p"]) -> float:
        """How far rounding can move ∇F at θ in L2, but for that of its sum over records.

        A matrix times a vector is off by at most p + 8 roundings of the product of their absolute values.
        """
        a = self.agreed
        pulled = self.firmness * np.abs(a.inverse) @ np.abs(theta - a.start) + a.regularization * np.abs(theta)
        public = (len(theta) + 8) * 2.0**-53 * float(np.linalg.norm(pulled))
        return a.rounded_predictions(float(np.abs(theta).max())) + public

    def prepared(self, records: Records, sized: Sized | None = None) -> "Prepared":
        """The rows, with the weight and the largest slope of each. sized: `Tilt.sized` of them, where a plan has it at hand.

        ω ≤ (B/‖x‖₁)² keeps √ω·x in the ball of B, with an intercept of at most 1: `farthest` and the rounding of
        predictions hold for it as for a row inside. The target is not touched, and neither is the row.
        """
        a = self.agreed
        rows = a.sized(records) if sized is None else sized
        damp = counted_for(rows.lengths, a.feature_bound)
        if a.reach is not None and rows.squares is not None:
            with np.errstate(over="ignore"):
                damp = np.minimum(damp, a.reach**2 * (1 - 1e-9) / np.maximum(rows.squares, np.finfo(float).tiny))
        # Finite, so that no slope beyond all floats is left, which times a feature of 0 would be no number.
        limit = np.minimum(slope_limits(rows.norms, a.bound), np.finfo(float).max)
        share = records.weight / records.weight.sum()
        rough = rows.single if sized is not None and self._bears_single_precision(rows, share) else None
        return Prepared(self, rows.features, records.target, share, damp, limit, rough)

    def _bears_single_precision(self, rows: Sized, share: Array) -> bool:
        """Whether a Newton step by a Hessian of single precision leaves less than KEPT of the gradient by its rounding.

        That is at most eps·c·Σ share·‖x‖² in norm, the trace being no less than the norm, and F is curved by the rest at least.
        """
        a = self.agreed
        least = self.firmness / float(a.eigenvalues[-1]) + a.regularization
        return bool(np.finfo(np.float32).eps * a.surface.curvature * (share @ rows.own) <= KEPT * least)


def counted_for(lengths: Float[Array, " records"], bound: float) -> Float[Array, " records"]:
    """Upper bound on the weight of a record of each length: 1 up to B, (B/‖x‖₁)² beyond it."""
    with np.errstate(over="ignore"):
        weight = np.minimum(1.0, (bound * (1 - 1e-9) / np.maximum(lengths, np.finfo(float).tiny)) ** 2)
    return np.where(lengths <= bound, 1.0, weight)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Private rows, ready for a solve."""

    tilted: Tilted
    features: Float[Array, "records p"]
    target: Float[Array, " records"]
    share: Float[Array, " records"]
    damp: Float[Array, " records"]
    """ω."""
    limit: Float[Array, " records"]
    rough: Any = None
    """The rows in single precision, where Hessians are to be made of these: they change how soon a minimum is found."""

    def gradient(self, theta: Float[Array, "*batch p"], tilt: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
        """∇F at each θ, under its tilt."""
        a, x = self.tilted.agreed, self.features
        slope = np.clip(self.damp * a.surface.slope(theta @ x.T, self.target), -self.limit, self.limit)
        slope[np.isnan(slope)] = 0.0  # a weight of 0 times a slope beyond all floats
        slope *= self.share
        # Blocks bound the rounding of the sum (`clipping`).
        blocks = [slope[..., at : at + BLOCK] @ x[at : at + BLOCK] for at in range(0, len(x), BLOCK)]
        public = a.regularization * theta + self.tilted.firmness * ((theta - a.start) @ a.inverse)
        return np.asarray(exact_sum(blocks) + public + tilt)

    def hessian(self, theta: Float[Array, " p"]) -> Float[Array, "p p"]:
        """∇²F; at a kink of a slope, that of one side."""
        a = self.tilted.agreed
        z = self.features @ theta
        curved = self.share * self.damp * a.surface.bend(z, self.target)
        curved[np.abs(self.damp * a.surface.slope(z, self.target)) > self.limit] = 0.0
        x = self.features if self.rough is None else self.rough
        root = x * np.sqrt(curved).astype(x.dtype)[:, None]  # of a matrix and its own transpose BLAS computes one half
        return np.asarray(root.T @ root + a.regularization * np.eye(len(theta)) + self.tilted.firmness * a.inverse)

    def factored(self, theta: Float[Array, " p"]) -> Factors:
        """LU factors of ∇²F at θ, which `minimum` takes for steps that begin near it. Raises LinAlgError."""
        from scipy.linalg import lu_factor  # here, since every agreement names this mechanism, and few solve it

        factors: Factors = lu_factor(self.hessian(theta))
        if not np.diag(factors[0]).all():
            raise np.linalg.LinAlgError("Singular matrix")
        return factors

    def minimum(
        self, tilt: Float[Array, " p"], near: Float[Array, " p"] | None = None, patient: bool = True,
        factors: Factors | None = None,
    ) -> Float[Array, " p"]:  # fmt: skip
        """θ with ‖∇F(θ)‖₂ ≤ half of `Tilt.residual`, the other half being for rounding. Raises NotCertified otherwise.

        Newton steps, which nearly always need a few passes over the records; where FEW passes are not enough, the way
        that is slow and sure. Together they take at most `most_passes`, whatever the records. patient: whether to go that
        way; where terms are only weighed, those that need it are not worth minutes. factors: `factored` near the minimum,
        where they are at hand; they change how soon it is found, and not when it is.
        """
        agreed = self.tilted.agreed
        goal = 0.5 * agreed.residual
        theta = self._by_newton_steps((agreed.start if near is None else near).copy(), tilt, goal, factors)
        if theta is not None:
            return theta
        if not patient:
            raise NotCertified("objective: these terms need more passes over the records than a plan has time for")
        return self._surely(tilt, goal)

    def minima(
        self, tilts: Float[Array, "runs p"], near: Float[Array, " p"], patient: bool = True
    ) -> Float[Array, "runs p"]:
        """`minimum` for each tilt, from the same place: steps of all at once by its Hessian, until they serve no longer.

        They end where rounding does not let the gradient shrink further, and so at the minimum to all digits.
        """
        from scipy.linalg import lu_solve

        most = max(1, CELLS // len(self.features))
        if len(tilts) > most:
            parts = (tilts[at : at + most] for at in range(0, len(tilts), most))
            return np.concatenate([self.minima(part, near, patient) for part in parts])
        goal, factors = 0.5 * self.tilted.agreed.residual, self.factored(near)
        theta = np.tile(near, (len(tilts), 1))
        v = self.gradient(theta, tilts)
        size = np.linalg.norm(v, axis=1)
        going = np.arange(len(tilts))
        while len(going):
            there = theta[going] - lu_solve(factors, v[going].T).T
            slope = self.gradient(there, tilts[going])
            left = np.linalg.norm(slope, axis=1)
            serves = left < KEPT * size[going]
            going, there, slope, left = (one[serves] for one in (going, there, slope, left))
            theta[going], v[going], size[going] = there, slope, left
        for i in np.flatnonzero(~(size <= goal)):
            theta[i] = self.minimum(tilts[i], theta[i], patient, self.factored(theta[i]))
        return theta

    def _by_newton_steps(self, theta: Array, tilt: Array, goal: float, factors: Factors | None) -> Array | None:
        """Newton's method, with a line search where a whole step does not shorten the gradient; None after FEW passes.

        A Hessian costs as much as many gradients. Where one is at hand, each serves for as long as a step leaves at most KEPT
        of the gradient; without one each step has its own, and the last ends far below the goal.
        """
        from scipy.linalg import lu_solve

        v, passes, serves = self.gradient(theta, tilt), 1, factors is not None
        while not np.linalg.norm(v) <= goal:  # also where it is no number
            if passes > FEW - LINE - 2:
                return None
            old = factors is not None
            if factors is None:
                factors, passes = self.factored(theta), passes + 1
            step: Array = np.asarray(-lu_solve(factors, v), dtype=np.float64)
            there, passes = self.gradient(theta + step, tilt), passes + 1
            size, left = np.linalg.norm(v), np.linalg.norm(there)
            if not (serves and left <= KEPT * size):
                factors = None
            if not left <= 0.9 * size:
                if old:
                    continue  # again from here, with the Hessian of this place
                step = self._lowest_along(theta, step, tilt) * step
                there, passes = self.gradient(theta + step, tilt), passes + LINE
            theta, v = theta + step, there
        return theta

    def _surely(self, tilt: Array, goal: float) -> Array:
        """Nesterov's descent in the metric of P: ‖∇F‖ falls by a factor that is proved (`sure_passes`)."""
        a, λ = self.tilted.agreed, self.tilted.firmness
        root = np.linalg.cholesky(a.matrix)
        spread = root.T @ ((self.features * (self.share * self.damp)[:, None]).T @ self.features) @ root
        scaled = a.eigenvalues[[0, -1]]
        steepest = (a.surface.curvature * float(np.linalg.eigvalsh(spread)[-1]) + λ + a.regularization * scaled[1]) * (
            1 + 1e-9
        )
        flattest = λ + a.regularization * scaled[0]
        ratio = (np.sqrt(steepest) - np.sqrt(flattest)) / (np.sqrt(steepest) + np.sqrt(flattest))
        size = float(np.linalg.norm(root.T @ self.gradient(a.start, tilt)))
        at = ahead = a.start.copy()
        for k in range(sure_passes(steepest / flattest, size, float(scaled[0]), goal)):
            slope = self.gradient(ahead, tilt)
            if np.linalg.norm(slope) <= goal:
                return ahead
            if k % CHECK == 0 and np.linalg.norm(self.gradient(at, tilt)) <= goal:
                return at
            to = ahead - a.matrix @ slope / steepest
            at, ahead = to, to + ratio * (to - at)
        left = float(np.linalg.norm(self.gradient(at, tilt)))
        if left <= goal:
            return at
        raise NotCertified(
            f"objective: the solver stopped at a gradient of {left:.2g}, more than {goal:.2g}: rounding keeps it there; "
            "nothing was released. Agree on a larger anchor or features in smaller units"
        )

    def _lowest_along(self, theta: Array, step: Array, tilt: Array) -> float:
        """How many steps from θ F is least, by halving: to where the slope is a tenth of what it is at θ, or less."""

        def slope(at: float) -> float:
            return float(self.gradient(theta + at * step, tilt) @ step)

        low, high, flat = 0.0, 1.0, 0.1 * abs(slope(0.0))
        while slope(high) < 0 and high < 2.0**40:
            low, high = high, 2.0 * high
        for _ in range(60):
            middle = 0.5 * (low + high)
            found = slope(middle)
            low, high = (middle, high) if found < 0 else (low, middle)
            if abs(found) <= flat:
                return middle
        return 0.5 * (low + high)
