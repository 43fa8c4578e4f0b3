"""The fitness f(θ) = g(θ) + (1/n) Σ w ℓ(θ; x, y) over the feasible set Θ, with bounds on its minimum from convexity.

The regulariser g and Θ are public and need no records.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.losses import Squared
from copriv.model.records import Records
from copriv.types import Array, Loss, is_linear
from copriv.validation import non_negative

ACCURACY = 1e-8
"""Default accuracy of a certified optimum: (f(θ) − f(θ*)) / |f(θ*)|."""


@dataclass(frozen=True)
class Regularizer:
    """g(θ) = (c/2) θᵀθ, which is c-strongly convex and c-smooth."""

    strength: float = 0.0

    def __post_init__(self) -> None:
        non_negative("regularization", self.strength)

    def value(self, theta: Float[Array, "*batch p"]) -> Float[Array, "*batch"]:
        """g at each θ."""
        return np.asarray(0.5 * self.strength * np.square(theta).sum(axis=-1))

    def gradient(self, theta: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
        """∇g at each θ."""
        return self.strength * theta

    def bound(self, theta_max: float, n_parameters: int) -> float:
        """Ξ_g = sup over Θ of ‖∇g‖₁ = c·p·θ_max (A, Assumption 2)."""
        return self.strength * n_parameters * theta_max


@dataclass(frozen=True)
class FeasibleSet:
    """Θ = {θ : ‖θ‖_∞ ≤ theta_max}; `inf` leaves θ free."""

    theta_max: float = np.inf

    def __post_init__(self) -> None:
        if not self.theta_max > 0:
            raise InvalidInput(f"theta_max: must be above 0, not {self.theta_max!r}")

    def project(self, theta: Float[Array, "*batch p"]) -> Float[Array, "*batch p"]:
        """Π_Θ: each coordinate clipped."""
        return np.clip(theta, -self.theta_max, self.theta_max)

    def contains(self, theta: Float[Array, "*batch p"]) -> bool:
        """Whether every θ lies in Θ; NaN does not."""
        return bool((np.abs(theta) <= self.theta_max).all())

    def diameter(self, n_parameters: int) -> float:
        """D = 2 θ_max √p, in the Euclidean norm."""
        return 2.0 * self.theta_max * float(np.sqrt(n_parameters))


@dataclass(frozen=True, eq=False)
class Quadratic:
    """f(θ) = θᵀHθ − 2cᵀθ + s + (σ/2)θᵀθ: the squared loss of all records in p² + p + 1 numbers.

    H = Σ w x xᵀ/n, c = Σ w x y/n, s = Σ w y²/n. Exact for any number of records after one pass over them.
    """

    H: Float[Array, "p p"]
    c: Float[Array, " p"]
    s: float
    regularizer: Regularizer

    @classmethod
    def of(cls, records: Records, regularizer: Regularizer) -> "Quadratic":
        """Sum over the records in one pass, in blocks that fit in the cache."""
        p = records.n_parameters
        H, c, s = np.zeros((p, p)), np.zeros(p), 0.0
        for start in range(0, len(records), 8192):
            rows = slice(start, start + 8192)
            x, y, w = records.features[rows], records.target[rows], records.weight[rows]
            wx, wy = x, y
            if not records.plain:
                wx, wy = w[:, None] * x, w * y
            H += wx.T @ x
            c += x.T @ wy
            s += float(wy @ y)
        return cls(H / records.total, c / records.total, s / records.total, regularizer)

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
        """argmin f over R^p, with the least norm where it is not unique."""
        from scipy.linalg import cho_factor, cho_solve

        try:
            return np.asarray(cho_solve(cho_factor(self.hessian), 2.0 * self.c))
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.lstsq(self.hessian, 2.0 * self.c, rcond=None)[0], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Optimum:
    """A minimiser over Θ, f there, and a proved bound on its distance from the minimum of f."""

    theta: Float[Array, " p"]
    value: float
    gap: float

    def accurate(self, accuracy: float) -> bool:
        """Whether the gap is at most `accuracy` times |f|, up to rounding."""
        return self.gap <= accuracy * abs(self.value) + 1e-12


@dataclass(frozen=True, eq=False)
class Objective:
    """f over weighted `records`, with its gradient, which solvers minimise over Θ."""

    loss: Loss
    regularizer: Regularizer
    feasible_set: FeasibleSet
    records: Records

    @cached_property
    def share(self) -> Float[Array, " records"]:
        """w/Σw."""
        return np.asarray(self.records.weight / self.records.total)

    @cached_property
    def quadratic(self) -> Quadratic | None:
        """f as a quadratic function, for the squared loss; None for others."""
        if not isinstance(self.loss, Squared):
            return None
        return Quadratic.of(self.records, self.regularizer)

    def value(self, theta: Float[Array, "*batch p"], block: int = 2048) -> Float[Array, "*batch"]:
        """f at each θ, in one pass over the records in blocks."""
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
        mean = (total / self.records.total).reshape(theta.shape[:-1])
        return np.asarray(mean + self.regularizer.value(theta))

    def gradient(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        """A subgradient of f at one θ."""
        r = self.records
        if is_linear(self.loss):
            mean = (r.weight * self.loss.slope(r.features @ theta, r.target)) @ r.features
        else:
            mean = r.weight @ self.loss.gradients(theta, r.features, r.target)
        return np.asarray(mean / r.total + self.regularizer.gradient(theta))

    def smoothness(self, metric: Float[Array, "p p"] | None = None) -> float:
        """λ, the Lipschitz constant of ∇f, or of P∇f for a metric P; `inf` where the loss has a kink or no known curvature."""
        if not is_linear(self.loss) or not np.isfinite(self.loss.curvature):
            return np.inf
        H = self.loss.curvature * Quadratic.of(self.records, Regularizer(0.0)).H
        H = H + self.regularizer.strength * np.eye(len(H))
        return float(np.linalg.eigvals(H if metric is None else metric @ H).real.max())

    def strong_convexity(self) -> float:
        """L, the strong convexity of f: from the records for the squared loss, otherwise from the regulariser alone."""
        least = self.regularizer.strength
        if self.quadratic is None:
            return least
        return max(float(np.linalg.eigvalsh(self.quadratic.hessian)[0]), least)

    def certified(self, theta: Float[Array, " p"], gap: float = np.inf) -> Optimum:
        """Return θ with the smallest proved gap: `gap`, or a bound by convexity over Θ."""
        v, bound = self.gradient(theta), self.feasible_set.theta_max
        if np.isfinite(bound):
            gap = min(gap, float(v @ theta + bound * np.abs(v).sum()))
        L = self.strong_convexity()
        if L > 0:
            # f(u) ≥ f(θ) + vᵀ(u−θ) + (L/2)‖u−θ‖², minimised over Θ by coordinate.
            step = self.feasible_set.project(theta - v / L) - theta
            gap = min(gap, float(-(v @ step + 0.5 * L * step @ step)))
        if not np.isfinite(gap) and not np.linalg.norm(v) > 1e-10 * np.sqrt(len(theta)):
            gap = 0.0  # the gradient is 0 up to rounding, and no bound holds over an unbounded Θ
        return Optimum(theta, float(self.value(theta)), max(gap, 0.0))
