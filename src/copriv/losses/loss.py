"""Base classes of losses of the prediction z = xᵀθ, given by value φ and slope φ′, and losses that users define in Python."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.errors import DataError
from copriv.types import Array, Features, PerRecord, Theta


class OfPrediction:
    """A loss φ(z, y) of the prediction; subclasses define `value`, `slope`, `slope_bound`."""

    name: str
    smooth: bool
    curvature: float

    @classmethod
    def agreed(cls, threshold: float) -> "OfPrediction":
        """Make the loss with the agreed threshold, which most losses ignore."""
        return cls()

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        raise NotImplementedError

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        raise NotImplementedError

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        raise NotImplementedError

    def values(self, theta: Theta, features: Features, target: PerRecord) -> PerRecord:
        return self.value(features @ theta, target)

    def gradients(self, theta: Theta, features: Features, target: PerRecord) -> Features:
        return self.slope(features @ theta, target)[:, None] * features

    def gradient_bound(self, feature_bound: float, target_bound: float, theta_max: float) -> float:
        return feature_bound * self.slope_bound(feature_bound * theta_max, target_bound)

    def check_target(self, target: PerRecord) -> None:
        if not np.isfinite(target).all():
            raise DataError(
                f"target: row {int(np.argmax(~np.isfinite(target)))} is not a finite number (rows count from 0)"
            )


class OfMargin(OfPrediction):
    """A classification loss: it depends on y·z, and y is −1 or 1."""

    def check_target(self, target: PerRecord) -> None:
        bad = ~((target == 1) | (target == -1))
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                f"target: record {row + 1}, counted from 1, is {target[row]:g}; the {self.name} loss needs labels −1 and 1 "
                '(declare two classes in data.categories, or map the classes to −1 and 1, or agree on model.loss = "squared")'
            )


@dataclass(frozen=True)
class CustomLinear(OfPrediction):
    """A user's own loss of the prediction: `phi(z, y)` and its (sub)derivative `dphi(z, y)`, vectorised.

    `largest_slope` is sup |dphi| if there is one: it proves Ξ = B · largest_slope. Convexity in z is the user's promise.

    >>> import numpy as np
    >>> from copriv.losses import CustomLinear
    >>> loss = CustomLinear("quartic", lambda z, y: (z - y) ** 4, lambda z, y: 4 * (z - y) ** 3)
    >>> loss.value(np.array([2.0]), np.array([0.0])), loss.slope(np.array([2.0]), np.array([0.0]))
    (array([16.]), array([32.]))
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

    Its gradient has no known bound, so Ξ is enforced by clipping unless the user gives a proved one: `bound`, a function of
    (feature_bound, target_bound, theta_max).
    """

    name: str
    value: Callable[[Array, Array, Array], Array]
    gradient: Callable[[Array, Array, Array], Array]
    smooth: bool = True
    bound: Callable[[float, float, float], float] | None = None

    def values(self, theta: Theta, features: Features, target: PerRecord) -> PerRecord:
        return self.value(theta, features, target)

    def gradients(self, theta: Theta, features: Features, target: PerRecord) -> Features:
        return self.gradient(theta, features, target)

    def gradient_bound(self, feature_bound: float, target_bound: float, theta_max: float) -> float:
        return math.inf if self.bound is None else self.bound(feature_bound, target_bound, theta_max)

    def check_target(self, target: PerRecord) -> None:
        if not np.isfinite(target).all():
            raise DataError(
                f"target: row {int(np.argmax(~np.isfinite(target)))} is not a finite number (rows count from 0)"
            )
