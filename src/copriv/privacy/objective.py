"""Objective perturbation: an owner fits its own model once, to a fitness tilted by noise, and releases the model.

With M = λP⁻¹ + σI, P the agreed public preconditioner (I without one), σ the regulariser's strength, θ₀ the agreed
start and b a vector of independent draws, the owner finds

    θ̂ = argmin over all θ of  F(θ) = (1/n) Σ ℓ̃(θ; x, y) + (σ/2)‖θ‖² + (λ/2)(θ − θ₀)ᵀP⁻¹(θ − θ₀) + bᵀθ

and releases θ̂ + v, v a little more noise. ℓ̃ is ωℓ with its slope clipped so that ‖∇ℓ̃‖ ≤ Ξ (still convex: φ′ stays
monotone); ω = min(1, r²/xᵀPx) lets a record beyond `reach` r count less. Source: Chaudhuri, Monteleoni and Sarwate
2011, Algorithm 2; with (ε, δ), Kifer, Smith and Thakurta 2012. Replacing a unit, coordinatewise noise, clipped
slopes, an anchor of any shape, and what the solver leaves are ours. The proof is in docs/explanation/mechanisms.md;
in short, ε = ε₁ + ε₂ + ε₃ where

    ε₁: D and D′ give the same θ̂ for noises that differ by ∇(their losses), at most 2Ξ/n in norm;
        Laplace draws of scale 2Ξ/(nε₁), Ξ in L1: a ratio of at most e^ε₁.
        Normal draws (δ > 0), Ξ in L2: see `objective_deviation`.
    ε₂: the map from b to θ̂ stretches volume differently under D and D′, by det ratio at most 1 + s with
        s = c·r²/(n(λ + σμ)), c = sup φ″ and μ the least eigenvalue of P: ε₂ = log(1 + s), or s where a unit has
            many rows.
    ε₃: the solver stops within a known distance of θ̂; v, Laplace, hides the rest (`REMAINDER` of ε).

Assumed, and checked where it can be: a linear loss with a Lipschitz slope (squared, logistic, huber, smoothed hinge);
F's minimum over all of R^p (the learner projects later); the solver reaches its tolerance (else NotCertified is raised
after the charge and nothing leaves; that it was raised can be seen).

Floating point. b and v are OpenDP's draws, exact and on a grid. θ̂ is a function of b in floating point, whose
low-order bits could give records away as those of textbook Laplace noise do; what leaves is θ̂ + v rounded to v's
grid by OpenDP, and v is sized for any difference below the solver's tolerance, rounding of the solution included.
That covers low-order bits as long as the computed gradient at the solution is right to half of the solver's residual: a
part of that is for rounding of its sum (`clipping.ROUNDING`), the rest for rounding inside predictions and the anchor,
which grows with the model (`Tilted.rounding`). A model that is too large for it is not released.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import expit, ndtri

from copriv.errors import AgreementError, InvalidInput, NotCertified
from copriv.losses import Hinge, Huber, Logistic, SmoothedHinge, Squared
from copriv.privacy.answering import Releases
from copriv.privacy.clipping import BLOCK, SMALLEST_FACTOR, exact_sum, row_norms
from copriv.privacy.statistics import into_reach
from copriv.records import Records
from copriv.types import Array, Loss
from copriv.validation import count, positive

REMAINDER = 0.01
"""The share of ε for what the solver leaves."""
CURVATURE = 0.4
"""Without an agreed anchor, the share of ε that it is chosen to spend on ε₂."""
LARGEST_SPEND = 600.0
"""An ε₂ that an anchor is chosen for is at most this: e^ε₂ stays a number, and the anchor above 0."""
TOLERANCE = 1e-11
"""The solver's residual ‖∇F‖₂ without rounding inside predictions, as a share of Ξ; or a step of the grid."""
GRID = -40
"""Of OpenDP's draws, as in `mechanisms`."""
FAR = 100.0
"""The solver's residual leaves room for the rounding of models of this size, in units of 1, 1/B or the start's largest."""
V_SCALES = 40.0
"""v has room for its own rounding up to so many of its scales, which it passes with a probability of e⁻⁴⁰ a coordinate."""
LARGEST_CONDITION = 1e5
"""Of P. The slack of 1e-9 on eigenvalues, and on xᵀPx, covers the rounding of P⁻¹ up to this."""
LARGEST_DELTA = 0.05
"""The bound on normal draws is proved for δ up to this (and holds up to 0.083)."""

Surface = Squared | Huber | Logistic | SmoothedHinge


def surface_of(loss: Loss, smoothing: float) -> Surface:
    """The loss that an owner minimises: the agreed one, and a rounded hinge for the hinge."""
    if isinstance(loss, Hinge):
        return SmoothedHinge(smoothing)
    if isinstance(loss, Squared | Huber | Logistic):
        return loss
    raise AgreementError(
        f'model.loss: mechanism "objective" needs a bound on the curvature, which {loss.name!r} does not give; '
        "use squared, huber, logistic or hinge"
    )


def bend(loss: Surface, prediction: Array, target: Array) -> Array:
    """φ″, where the slope has one; the right or left derivative elsewhere."""
    match loss:
        case Squared():
            return np.full_like(prediction, 2.0)
        case Huber():
            return np.where(np.abs(prediction - target) <= loss.threshold, 2.0, 0.0)
        case Logistic():
            return np.asarray(expit(prediction) * expit(-prediction))
    return np.where(np.abs(1.0 - target * prediction) <= loss.width, 0.5 / loss.width, 0.0)


@dataclass(frozen=True, eq=False)
class Perturbation:
    """What the parties agreed on, apart from records and ε: the tilted fitness's public parts."""

    surface: Surface
    bound: float
    """Ξ: in L1, or in L2 where δ > 0."""
    order: Literal[1, 2]
    feature_bound: float
    """B, in L1, without the intercept."""
    intercept: bool
    start: Float[Array, " p"]
    """θ₀."""
    regularization: float
    """σ."""
    anchor: float | None = None
    """λ; None: the least with ε₂ = CURVATURE·ε."""
    metric: Float[Array, "p p"] | None = None
    """P, symmetric positive definite; the identity when None."""
    reach: float | None = None
    """r: a record with √(xᵀPx) above it has its loss multiplied by r²/xᵀPx; what follows from B when None."""
    many_rows: bool = False
    """Whether a unit may have several rows."""

    def __post_init__(self) -> None:
        positive("gradient_bound", self.bound)
        positive("feature_bound", self.feature_bound)
        if self.metric is None:
            return
        symmetric = np.isfinite(self.metric).all() and np.allclose(self.metric, self.metric.T, rtol=1e-9, atol=0)
        least, largest = np.linalg.eigvalsh(self.metric)[[0, -1]] if symmetric else (0.0, 0.0)
        if not least > 0:
            raise InvalidInput('preconditioner: mechanism "objective" needs a symmetric positive definite one')
        if largest > LARGEST_CONDITION * least:
            raise AgreementError(
                f'agreement.preconditioner: its eigenvalues span a factor of {largest / least:.1g}; mechanism "objective" '
                f"takes up to {LARGEST_CONDITION:g}, beyond which floats do not have its inverse exactly enough. Add to its "
                "diagonal, or leave it out"
            )

    @cached_property
    def matrix(self) -> Float[Array, "p p"]:
        """P."""
        return np.eye(len(self.start)) if self.metric is None else 0.5 * (self.metric + self.metric.T)

    @cached_property
    def inverse(self) -> Float[Array, "p p"]:
        """P⁻¹."""
        inverse = np.linalg.inv(self.matrix)
        return np.asarray(0.5 * (inverse + inverse.T))

    @cached_property
    def farthest(self) -> float:
        """r: the largest √(ω xᵀPx). Over the ball of B, √(xᵀPx) is largest at a corner."""
        if self.reach is not None:
            return self.reach
        p = len(self.start)
        own = p - int(self.intercept)
        corners = self.feature_bound * np.vstack([np.eye(p)[:own], -np.eye(p)[:own]])
        if self.intercept:
            corners[:, -1] = 1.0
        return float(np.sqrt(np.einsum("cj,jk,ck->c", corners, self.matrix, corners).max()))

    @cached_property
    def _least_eigenvalue(self) -> float:
        return float(np.linalg.eigvalsh(self.matrix)[0]) * (1 - 1e-9)

    def firmness(self, records: int, epsilon: float) -> float:
        """λ, for an owner of n units and ε."""
        if self.anchor is not None:
            return self.anchor
        spend = min(CURVATURE * epsilon, LARGEST_SPEND)
        s = spend if self.many_rows else np.expm1(spend)
        needed = self.surface.curvature * self.farthest**2 / (records * s)
        return max(float(needed) * (1 + 1e-9) - self.regularization * self._least_eigenvalue, 0.0)

    def curvature_cost(self, records: int, epsilon: float) -> float:
        """ε₂: a rank-one change of the Hessian moves its log-determinant by log(1 + s), any other by s at most."""
        M = self.firmness(records, epsilon) + self.regularization * self._least_eigenvalue
        if not M > 0:
            raise AgreementError(
                "agreement.anchor: must be above 0, for without any regularisation no budget is enough"
            )
        s = self.surface.curvature * self.farthest**2 / (records * M)
        return float(s if self.many_rows else np.log1p(s)) * (1 + 1e-9)

    def strength(self, records: int, epsilon: float) -> float:
        """The least eigenvalue of M."""
        λ = self.firmness(records, epsilon)
        return float(np.linalg.eigvalsh(λ * self.inverse)[0]) * (1 - 1e-9) + self.regularization

    def noise_budget(self, records: int, epsilon: float) -> float:
        """ε₁ = ε − ε₂ − ε₃. Raises AgreementError, naming the least anchor, where nothing is left."""
        left = (1 - REMAINDER) * epsilon - self.curvature_cost(records, epsilon)
        if not left > 0:
            least = (
                self.surface.curvature
                * self.farthest**2
                / (records * np.expm1(min((1 - REMAINDER) * epsilon, LARGEST_SPEND)))
            )
            raise AgreementError(
                f"agreement.anchor: {self.anchor:g} leaves nothing of epsilon {epsilon:g} for noise at {records} "
                f"records; it must be well above {least:.3g}, or left out"
            )
        return left

    def noise_scale(self, records: int, epsilon: float, delta: float = 0.0) -> float:
        """Of each coordinate of b: Laplace, or normal where δ > 0. `epsilon` and `delta` are already over κ."""
        ε1 = self.noise_budget(records, epsilon)
        sensitivity = 2.0 * self.bound / records
        return objective_deviation(sensitivity, ε1, delta, self.many_rows) if delta > 0 else sensitivity / ε1

    @cached_property
    def residual(self) -> float:
        """‖∇F‖₂ that the solver may leave, a half of it for rounding.

        A Ξ so small that its share is lost in rounding leaves a step of the grid.
        """
        size = FAR * max(1.0, 1.0 / self.feature_bound, float(np.abs(self.start).max()))
        return max(TOLERANCE * self.bound, 2.0**GRID) + 8.0 * self.rounded_predictions(size)

    def rounded_predictions(self, size: float) -> float:
        """How far rounding inside predictions can move ∇F in L2, at a θ with ‖θ‖_∞ = size.

        A prediction is off by at most (p + 8)·2⁻⁵³·‖x‖₁·size; slopes are c-Lipschitz in it, ω ≤ 1, and ‖x‖₂ ≤ ‖x‖₁ ≤ B,
        and 1 for the intercept.
        """
        longest = self.feature_bound + self.intercept
        return float((len(self.start) + 8) * 2.0**-53 * self.surface.curvature * longest**2 * size)

    def remainder_scale(self, records: int, epsilon: float) -> float:
        """Of each coordinate of v: ‖θ − θ̂‖₁ ≤ √p ‖∇F(θ)‖₂/(least eigenvalue of M), on both sides.

        The proof has b with a density; OpenDP's b is within one step of the grid of such a draw (two geometric draws
        are two exponential ones rounded down), which counts as a part of ∇F.
        """
        p = len(self.start)
        residual = self.residual + np.sqrt(p) * 2.0**GRID
        off = max(
            np.sqrt(p) * residual / self.strength(records, epsilon), 100 * p * 2.0**GRID
        )  # or v is lost in its grid
        return float(2.0 * off / (REMAINDER * epsilon))

    def tied(self, records: int, epsilon: float) -> "Tilted":
        """The solver for one owner's records."""
        return Tilted(self, self.firmness(records, epsilon))


def objective_deviation(sensitivity: float, epsilon: float, delta: float, many_rows: bool = False) -> float:
    """The standard deviation of normal draws b for (ε₁, δ), Δ = 2Ξ/n in L2, one row a unit.

    The noises that give θ̂ under D and D′ differ by w = (s x − s′x′)/n, |s|‖x‖₂ ≤ Ξ, so the log-ratio of their densities
    is at most |bᵀw|/d² + ‖w‖²/(2d²) ≤ (Δ/d)·(|Z| + |Z′|)/2 + Δ²/(2d²): w depends on b, but x and x′ do not, so that
    Z = bᵀx/(d‖x‖) and Z′ are standard normal. P(|Z| + |Z′| > 2u) ≤ 2·P(Z > u) for u ≥ √3 whatever their correlation.
    So with u the upper δ/2 point, d is the root of Δu/d + Δ²/(2d²) = ε₁.
    """
    if many_rows:
        raise AgreementError(
            'owner.delta: mechanism "objective" with delta above 0 is proved for one row a unit only; set delta = 0'
        )
    if not 0 < delta <= LARGEST_DELTA:
        raise InvalidInput(f"delta: must be above 0 and at most {LARGEST_DELTA}, not {delta!r}")
    u = -float(ndtri(delta / 2))
    ratio = np.sqrt(u * u + 2.0 * positive("epsilon", epsilon)) - u
    return float(sensitivity / ratio) * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class Tilted:
    """The tilted fitness over one owner's records; `minimum` is deterministic in the records and b."""

    agreed: Perturbation
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

    def prepared(self, records: Records) -> "Prepared":
        """Rows scaled into the ball of B, how much each counts, and the largest slope that it may have."""
        a = self.agreed
        x = into_reach(records.features, a.feature_bound, a.intercept)
        damp = np.ones(len(x))
        if a.reach is not None:
            length = ((x @ a.matrix) * x).sum(axis=1)
            # The length is computed with rounding, and the bound must hold exactly: what p + 2 roundings of each
            # coordinate may have hidden is added, which matters where P is ill conditioned.
            hidden = 8.0 * (x.shape[1] + 2) * np.finfo(float).eps * np.linalg.eigvalsh(a.matrix)[-1]
            length = length + hidden * np.square(x).sum(axis=1)
            damp = np.minimum(1.0, a.reach**2 * (1 - 1e-9) / np.maximum(length, np.finfo(float).tiny))
        norms = row_norms(x, a.order)
        limit = np.divide(a.bound, norms, out=np.full_like(norms, np.inf), where=norms > 0)
        limit[limit < SMALLEST_FACTOR] = 0.0
        return Prepared(self, x, records.target, records.weight / records.weight.sum(), damp, limit)


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

    def gradient(self, theta: Float[Array, " p"], tilt: Float[Array, " p"]) -> Float[Array, " p"]:
        """∇F."""
        a = self.tilted.agreed
        z = self.features @ theta
        slope = self.share * np.clip(self.damp * a.surface.slope(z, self.target), -self.limit, self.limit)
        # Blocks bound the rounding of the sum (`clipping`).
        blocks = [slope[at : at + BLOCK] @ self.features[at : at + BLOCK] for at in range(0, len(z), BLOCK)]
        return np.asarray(
            exact_sum(blocks) + a.regularization * theta + self.tilted.firmness * (a.inverse @ (theta - a.start)) + tilt
        )

    def hessian(self, theta: Float[Array, " p"]) -> Float[Array, "p p"]:
        """∇²F; at a kink of a slope, that of one side."""
        a = self.tilted.agreed
        z = self.features @ theta
        curved = self.share * self.damp * bend(a.surface, z, self.target)
        curved[np.abs(self.damp * a.surface.slope(z, self.target)) > self.limit] = 0.0
        H = (self.features * curved[:, None]).T @ self.features
        return np.asarray(H + a.regularization * np.eye(len(theta)) + self.tilted.firmness * a.inverse)

    def minimum(self, tilt: Float[Array, " p"], near: Float[Array, " p"] | None = None) -> Float[Array, " p"]:
        """θ with ‖∇F(θ)‖₂ ≤ half of `Perturbation.residual`, the other half being for rounding. Raises NotCertified otherwise.

        Newton steps; where a whole step does not shorten the gradient, the lowest point along it. F is strongly convex
        and its Hessians are bounded on both sides, so that this comes down to the minimum from anywhere.
        """
        theta = (self.tilted.agreed.start if near is None else near).copy()
        goal = 0.5 * self.tilted.agreed.residual
        v = self.gradient(theta, tilt)
        for _ in range(200):
            if np.linalg.norm(v) <= goal:
                return theta
            step: Array = np.asarray(-np.linalg.solve(self.hessian(theta), v), dtype=np.float64)
            candidate = theta + step
            there = self.gradient(candidate, tilt)
            if not np.linalg.norm(there) <= 0.9 * np.linalg.norm(v):
                candidate, there = self._lowest_along(theta, step, tilt)
            theta, v = candidate, there
        raise NotCertified(
            f"objective: the solver stopped at a gradient of {float(np.linalg.norm(v)):.2g}, more than {goal:.2g}; "
            "nothing was released. Agree on a larger anchor or features in smaller units"
        )

    def _lowest_along(self, theta: Array, step: Array, tilt: Array) -> tuple[Array, Array]:
        low, high = 0.0, 1.0
        while float(self.gradient(theta + high * step, tilt) @ step) < 0 and high < 2**40:
            low, high = high, 2.0 * high
        for _ in range(60):
            middle = 0.5 * (low + high)
            if float(self.gradient(theta + middle * step, tilt) @ step) < 0:
                low = middle
            else:
                high = middle
        candidate = theta + 0.5 * (low + high) * step
        return candidate, self.gradient(candidate, tilt)


@dataclass(frozen=True, eq=False)
class ObjectiveAnswer:
    """The whole budget of a run in one answer: the minimiser of the tilted fitness, and what hides the solver's rest.

    Raises AgreementError where the anchor leaves no budget for noise, InvalidInput where noise cannot be certified.
    """

    agreed: Perturbation
    epsilon: Fraction
    delta: float
    units: int

    def __post_init__(self) -> None:
        count("records", self.units)
        _ = self._tilt.scale
        if self._tilted.rounding(self.agreed.start + V_SCALES * self._rest.scale) > self._most_rounding:
            raise AgreementError(
                f'agreement: mechanism "objective" cannot hide its own rounding at {self.units} records and epsilon '
                f"{float(self.epsilon):g}; agree on a larger anchor, smaller features or more smoothing"
            )

    @property
    def _most_rounding(self) -> float:
        """At θ̂ + v, and as much again for v."""
        return self.agreed.residual / 8.0

    @cached_property
    def _tilted(self) -> Tilted:
        return self.agreed.tied(self.units, float(self.epsilon))

    @property
    def scale(self) -> float:
        """Of each coordinate of b."""
        return self._tilt.scale

    @cached_property
    def _tilt(self) -> Releases:
        from copriv.privacy.approximate import GaussianAnswer
        from copriv.privacy.mechanisms import LaplaceAnswer

        n, ε, p = self.units, float(self.epsilon), len(self.agreed.start)
        ε1 = self.agreed.noise_budget(n, ε)
        sensitivity = 2.0 * self.agreed.bound / n
        if self.delta > 0:
            return GaussianAnswer(sensitivity, self.agreed.noise_scale(n, ε, self.delta) / sensitivity, p)
        return LaplaceAnswer(sensitivity, Fraction(ε1), p)

    @cached_property
    def _rest(self) -> Releases:
        from copriv.privacy.mechanisms import LaplaceAnswer

        ε3 = Fraction(REMAINDER) * self.epsilon * Fraction(999_999, 1_000_000)
        return LaplaceAnswer(
            self.agreed.remainder_scale(self.units, float(self.epsilon)) * float(ε3), ε3, len(self.agreed.start)
        )

    def answer(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """θ̂ + v. Raises NotCertified where the solver did not reach its tolerance, or rounding could pass its share.

        The latter is seen by θ̂ + v, and tells no more than θ̂ + v would.
        """
        if not np.array_equal(theta, self.agreed.start):
            raise InvalidInput("objective: asked at another θ than the agreed start")
        tilt = self._tilt.release(np.zeros(len(theta)))
        released = self._rest.release(self._tilted.prepared(records).minimum(tilt))
        if self._tilted.rounding(released) > self._most_rounding:
            raise NotCertified(
                f"objective: the fit went as far as {np.abs(released).max():.3g}, where rounding could tell records; nothing "
                "was released. Agree on a larger anchor or features in larger units"
            )
        return released
