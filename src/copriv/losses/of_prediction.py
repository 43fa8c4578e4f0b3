"""Base classes of losses of the prediction z = xᵀθ, given by their value φ and slope φ′."""

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
                f"target: row {row} is {target[row]:g}; the {self.name} loss needs labels −1 and 1 "
                "(rows count from 0; map the classes to −1 and 1, or use loss = 'squared')"
            )
