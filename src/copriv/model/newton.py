"""Newton's method for a convex loss of linear predictions and a quadratic penalty."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from copriv.types import Array

FLAT = 1e-15
"""Curvatures below this share of the largest count as 0, with features in units of their std: they are rounding errors."""

Rowwise = Callable[[Array], Array]
"""Function of the predictions of all rows, with one value for each row."""


@dataclass(frozen=True, eq=False)
class Penalized:
    """f(θ) = Σ share_i φ_i(x_iᵀθ) + ½ θᵀ metric θ − pullᵀθ, with φ_i convex."""

    features: Float[Array, "records p"]
    share: Float[Array, " records"]
    slope: Rowwise
    """φ′ of each row."""
    bend: Rowwise
    """φ″ of each row."""
    metric: Float[Array, "p p"]
    pull: Float[Array, " p"]

    def gradient(self, theta: Float[Array, " p"], z: Float[Array, " records"]) -> Float[Array, " p"]:
        """∇f at θ. z: the predictions at θ."""
        return np.asarray((self.share * self.slope(z)) @ self.features + self.metric @ theta - self.pull)

    def hessian(self, bend: Float[Array, " records"]) -> Float[Array, "p p"]:
        """∇²f. bend: φ″ of each row."""
        return np.asarray((self.features * (self.share * bend)[:, None]).T @ self.features + self.metric)

    def scaled(self) -> tuple["Penalized", Float[Array, " p"]]:
        """Scale features to a std of 1. Returns the scaled f and the units: θ is unit times the scaled parameters."""
        size = np.sqrt(self.share @ np.square(self.features))
        unit = 1.0 / np.where(size > 0, size, 1.0)
        metric = self.metric * unit * unit[:, None]
        return replace(self, features=self.features * unit, metric=metric, pull=self.pull * unit), unit


def newton(
    f: Penalized,
    theta: Float[Array, " p"],
    done: Callable[[Array, Array, float], bool],
    *,
    steep: Rowwise | None = None,
    steps: int = 200,
) -> tuple[Float[Array, " p"], Float[Array, "p p"]]:
    """Minimise f from θ by Newton's method, each step to the minimum along its line. Returns θ and the last step's Hessian.

    done(θ, z, vᵀH⁻¹v): whether to stop after a step to θ with predictions z.
    steep: an upper bound on φ″, used where the curvature at θ is nearly 0.
    """
    z, H = f.features @ theta, f.metric
    for k in range(steps):
        v, H = f.gradient(theta, z), f.hessian(f.bend(z))
        step = -solved(H, v)
        if steep is not None and float(-v @ step) <= 1e-15 * float(v @ v):
            step = -solved(f.hessian(steep(z)), v)
        down = float(-v @ step)
        if not np.isfinite(down) or not down > 1e-28 * max(1.0, float(np.abs(v).max()) ** 2):
            break
        dz = f.features @ step
        length = _length(f, theta, z, step, dz)
        if length == 0.0:
            break
        theta = theta + length * step
        z = z + length * dz if k % 8 else f.features @ theta
        if done(theta, z, down):
            break
    return theta, H


def solved(H: Float[Array, "p p"], v: Float[Array, " p"]) -> Float[Array, " p"]:
    """H⁺v, with the pseudoinverse."""
    a, U = np.linalg.eigh(H)
    some = a > FLAT * max(float(a[-1]), 1e-300)
    return np.asarray(U[:, some] @ ((U[:, some].T @ v) / a[some]))


def _length(f: Penalized, theta: Array, z: Array, step: Array, dz: Array) -> float:
    """Minimise f along a step; 1 where that reduces the derivative to a quarter, 0 where f does not decrease."""
    along = f.metric @ step
    pull, bend = float(along @ theta - f.pull @ step), float(along @ step)

    def derivative(t: float) -> float:
        return float(f.share @ (f.slope(z + t * dz) * dz)) + pull + t * bend

    first = derivative(0.0)
    if first < 0 and abs(derivative(1.0)) <= 0.25 * abs(first):
        return 1.0
    return positive_zero(derivative)


def positive_zero(derivative: Callable[[float], float]) -> float:
    """Zero, to 0.1 %, of an increasing function; 0 where it is not negative there, and at most about 1e6."""
    if not derivative(0.0) < 0:
        return 0.0
    far = 1.0
    while derivative(far) < 0:
        if far >= 1e6:
            return far
        far *= 2.0
    from scipy.optimize import brentq  # slow to import, and seldom needed

    return float(brentq(derivative, 0.0, far, xtol=1e-30, rtol=1e-3, maxiter=300))
