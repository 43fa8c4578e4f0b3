"""Losses of one record, their slopes, and the constants that bounds need.

A linear loss is a convex function φ of the prediction z = xᵀθ and the target y. Its gradient is φ′(z, y)·x, so

    ‖∇ℓ‖₁ = |φ′(z, y)| · ‖x‖₁      and, with ‖x‖₁ ≤ B and ‖θ‖_∞ ≤ θ_max, |z| ≤ B·θ_max,

which proves Ξ = B · sup |φ′| (A, Assumption 2; S, Assumption 2). The mean of ℓ over records is λ-smooth with
λ = sup φ″ · B₂², B₂ ≥ ‖x‖₂; it is strongly convex only as far as the records are spread, which is not known in
advance: the strong convexity that can be promised comes from the regulariser.

| loss     | φ(z, y)                          | y        | sup φ″ |
| -------- | -------------------------------- | -------- | ------ |
| squared  | (z − y)²                         | any      | 2      |
| logistic | log(1 + exp(−yz))                | −1 or 1  | 1/4    |
| hinge    | max(0, 1 − yz)                   | −1 or 1  | ∞      |
| huber    | (z−y)² if |z−y| ≤ h, else 2h|z−y| − h² | any | 2     |
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from copriv.errors import DataError, InvalidInput
from copriv.types import Array, LinearLoss
from copriv.types import Loss as Loss
from copriv.validation import positive


class _OfPrediction:
    """What follows for every linear loss from its value and slope."""

    name: str
    smooth: bool
    curvature: float

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        raise NotImplementedError

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        raise NotImplementedError

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        raise NotImplementedError

    def values(
        self, theta: Float[Array, " p"], features: Float[Array, "records p"], target: Float[Array, " records"]
    ) -> Float[Array, " records"]:
        return self.value(features @ theta, target)

    def gradients(
        self, theta: Float[Array, " p"], features: Float[Array, "records p"], target: Float[Array, " records"]
    ) -> Float[Array, "records p"]:
        return self.slope(features @ theta, target)[:, None] * features

    def gradient_bound(self, feature_bound: float, target_bound: float, theta_max: float) -> float:
        return feature_bound * self.slope_bound(feature_bound * theta_max, target_bound)

    def check_target(self, target: Float[Array, " records"]) -> None:
        if not np.isfinite(target).all():
            raise DataError(f"target: row {int(np.argmax(~np.isfinite(target)))} is not a finite number")


class _OfMargin(_OfPrediction):
    """A classification loss: it depends on y·z, and y is −1 or 1."""

    def check_target(self, target: Float[Array, " records"]) -> None:
        bad = ~((target == 1) | (target == -1))
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                f"target: row {row} is {target[row]:g}; the {self.name} loss needs labels −1 and 1 "
                "(map the classes to −1 and 1, or use loss = 'squared')"
            )


class Squared(_OfPrediction):
    """(z − y)²; slope 2(z − y)."""

    name = "squared"
    smooth = True
    curvature = 2.0

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return np.square(prediction - target)

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return 2.0 * (prediction - target)

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        return 2.0 * (prediction_bound + target_bound)


@dataclass(frozen=True)
class Huber(_OfPrediction):
    """(z − y)² near the target and straight beyond `threshold` (in the target's unit); slope at most 2·threshold."""

    threshold: float = 1.0
    name = "huber"
    smooth = True
    curvature = 2.0

    def __post_init__(self) -> None:
        positive("threshold", self.threshold)

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        h, r = self.threshold, np.abs(prediction - target)
        return np.where(r <= h, r * r, (2.0 * r - h) * h)

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return 2.0 * np.clip(prediction - target, -self.threshold, self.threshold)

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        return 2.0 * min(self.threshold, prediction_bound + target_bound)


class Logistic(_OfMargin):
    """log(1 + exp(−yz)); slope −y/(1 + exp(yz)), never more than 1 in size."""

    name = "logistic"
    smooth = True
    curvature = 0.25

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return np.logaddexp(0.0, -target * prediction)

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return np.asarray(-target * expit(-target * prediction))

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        return float(expit(prediction_bound))


class Hinge(_OfMargin):
    """max(0, 1 − yz); the subgradient −yx where yz < 1 and 0 elsewhere (0 is a subgradient at the kink)."""

    name = "hinge"
    smooth = False
    curvature = math.inf

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return np.maximum(0.0, 1.0 - target * prediction)

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return np.multiply(target * prediction < 1.0, -target)

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        return 1.0


@dataclass(frozen=True)
class SmoothedHinge(_OfMargin):
    """The hinge with its kink rounded over |1 − yz| ≤ `width` (Chaudhuri, Monteleoni and Sarwate 2011, Corollary 21).

    With t = 1 + width − yz: 0 for t ≤ 0, t²/(4·width) for t ≤ 2·width, else 1 − yz. At most width/4 above the hinge.
    """

    width: float = 0.5
    name = "smoothed hinge"
    smooth = True

    def __post_init__(self) -> None:
        positive("smoothing", self.width)

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """1/(2·width)."""
        return 0.5 / self.width

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        margin = target * prediction
        t = np.clip(1.0 + self.width - margin, 0.0, 2.0 * self.width)
        return np.where(margin < 1.0 - self.width, 1.0 - margin, np.square(t) / (4.0 * self.width))

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        t = np.clip(1.0 + self.width - target * prediction, 0.0, 2.0 * self.width)
        return -target * t / (2.0 * self.width)

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        return 1.0


@dataclass(frozen=True)
class CustomLinear(_OfPrediction):
    """A user's own loss of the prediction: `phi(z, y)` and its (sub)derivative `dphi(z, y)`, vectorised.

    `largest_slope` is sup |dphi| if there is one: it proves Ξ = B · largest_slope. Convexity in z is the user's promise.
    """

    name: str
    phi: Callable[[Array, Array], Array]
    dphi: Callable[[Array, Array], Array]
    smooth: bool = True
    curvature: float = math.inf
    largest_slope: float = math.inf

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.phi(prediction, target)

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.dphi(prediction, target)

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        return self.largest_slope


@dataclass(frozen=True)
class Custom:
    """A user's own loss of (θ, X, y): `value` gives one number a record, `gradient` one row a record.

    Nothing is known of its gradient's size, so Ξ is enforced by clipping unless `bound` gives one that the user
    has proved: a function of (feature_bound, target_bound, theta_max).
    """

    name: str
    value: Callable[[Array, Array, Array], Array]
    gradient: Callable[[Array, Array, Array], Array]
    smooth: bool = True
    bound: Callable[[float, float, float], float] | None = None

    def values(
        self, theta: Float[Array, " p"], features: Float[Array, "records p"], target: Float[Array, " records"]
    ) -> Float[Array, " records"]:
        return self.value(theta, features, target)

    def gradients(
        self, theta: Float[Array, " p"], features: Float[Array, "records p"], target: Float[Array, " records"]
    ) -> Float[Array, "records p"]:
        return self.gradient(theta, features, target)

    def gradient_bound(self, feature_bound: float, target_bound: float, theta_max: float) -> float:
        return math.inf if self.bound is None else self.bound(feature_bound, target_bound, theta_max)

    def check_target(self, target: Float[Array, " records"]) -> None:
        if not np.isfinite(target).all():
            raise DataError(f"target: row {int(np.argmax(~np.isfinite(target)))} is not a finite number")


def by_name(name: str, threshold: float = 1.0) -> LinearLoss:
    """The built-in loss that an agreement names; `threshold` is the Huber loss's."""
    match name:
        case "squared":
            return Squared()
        case "logistic":
            return Logistic()
        case "hinge":
            return Hinge()
        case "huber":
            return Huber(threshold)
    raise InvalidInput(f"loss: {name!r} is not squared, logistic, hinge or huber")
