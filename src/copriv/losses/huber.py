"""The Huber loss: for numbers with outliers."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.losses.loss import OfPrediction
from copriv.types import Array
from copriv.validation import positive


@dataclass(frozen=True)
class Huber(OfPrediction):
    """(z − y)² up to a residual of `threshold` (in the target's unit), linear beyond; slope at most 2·threshold.

    >>> import numpy as np
    >>> from copriv.losses import Huber
    >>> loss, z, y = Huber(1.0), np.array([0.5, 3.0]), np.array([0.0, 0.0])
    >>> loss.value(z, y).tolist(), loss.slope(z, y).tolist()
    ([0.25, 5.0], [1.0, 2.0])
    """

    threshold: float = 1.0
    name = "huber"
    smooth = True
    curvature = 2.0

    def __post_init__(self) -> None:
        positive("threshold", self.threshold)

    @classmethod
    def agreed(cls, threshold: float) -> "Huber":
        return cls(threshold)

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        h, r = self.threshold, np.abs(prediction - target)
        return np.where(r <= h, r * r, (2.0 * r - h) * h)

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return 2.0 * np.clip(prediction - target, -self.threshold, self.threshold)

    def bend(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        """φ″; at a kink of the slope, that of one side."""
        return np.where(np.abs(prediction - target) <= self.threshold, 2.0, 0.0)

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        return 2.0 * min(self.threshold, prediction_bound + target_bound)
