"""The minimisation problem that the solvers take, and the certified optimum that they return."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from copriv.model.records import Records
from copriv.types import Array, Loss

ACCURACY = 1e-8
"""Default accuracy of a certified optimum: (f(θ) − f(θ*)) / |f(θ*)|."""


@runtime_checkable
class QuadraticForm(Protocol):
    """f(θ) = ½θᵀAθ − 2cᵀθ + s, in full."""

    @property
    def hessian(self) -> Array:
        """A."""
        ...

    @property
    def c(self) -> Array:
        """c."""
        ...

    def value(self, theta: Array) -> Array:
        """f at each θ."""
        ...

    def gradient(self, theta: Array) -> Array:
        """∇f at each θ."""
        ...


@runtime_checkable
class Objective(Protocol):
    """f and a subgradient."""

    @property
    def quadratic(self) -> QuadraticForm | None:
        """f in a few numbers where it is a quadratic."""
        ...

    def value(self, theta: Array) -> Array:
        """f at each θ."""
        ...

    def gradient(self, theta: Array) -> Array:
        """A subgradient of f at one θ."""
        ...

    def strong_convexity(self) -> float:
        """L."""
        ...


@dataclass(frozen=True, eq=False)
class Task:
    """f(θ) = (c/2)‖θ‖² + Σ w ℓ(θ; x, y)/Σ w over ‖θ‖_∞ ≤ theta_max."""

    objective: Objective
    loss: Loss
    records: Records
    regularization: float
    """c."""
    theta_max: float

    @property
    def share(self) -> Float[Array, " records"]:
        """w/Σw."""
        w = self.records.weight
        return np.asarray(w / w.sum())

    @property
    def n_parameters(self) -> int:
        """p."""
        return self.records.n_parameters

    def inside(self, theta: Array) -> bool:
        """Whether θ is in Θ."""
        return bool((np.abs(theta) <= self.theta_max).all())

    def project(self, theta: Array) -> Array:
        """The nearest point of Θ."""
        return np.clip(theta, -self.theta_max, self.theta_max)


@dataclass(frozen=True, eq=False)
class Optimum:
    """θ* over Θ, f(θ*), and a proved bound on how far f(theta) is above the least value."""

    theta: Float[Array, " p"]
    value: float
    gap: float


def accurate(optimum: Optimum, accuracy: float) -> bool:
    """Whether the gap is proved to be that small a part of f."""
    return optimum.gap <= accuracy * abs(optimum.value) + 1e-12


def certified(task: Task, theta: Array, near_gap: float = np.inf) -> Optimum:
    """θ with the smallest of `near_gap` (a gap proved for θ elsewhere) and what convexity and Θ prove."""
    v, p, bound = task.objective.gradient(theta), len(theta), task.theta_max
    gap = near_gap
    if np.isfinite(bound):
        gap = min(gap, float(v @ theta + bound * np.abs(v).sum()))
    L = task.objective.strong_convexity()
    if L > 0:
        # f(u) ≥ f(θ) + vᵀ(u−θ) + (L/2)‖u−θ‖²; its least value over the box, coordinate by coordinate.
        step = np.clip(theta - v / L, -bound, bound) - theta
        gap = min(gap, float(-(v @ step + 0.5 * L * step @ step)))
    if not np.isfinite(gap) and not np.linalg.norm(v) > 1e-10 * np.sqrt(p):
        gap = 0.0  # flat to rounding, and Θ unbounded: nothing better can be said
    return Optimum(theta, float(task.objective.value(theta)), max(gap, 0.0))
