"""The squared loss: for numbers; the one with closed forms."""

import numpy as np
from jaxtyping import Float

from copriv.losses.loss import OfPrediction
from copriv.types import Array


class Squared(OfPrediction):
    """(z − y)²; slope 2(z − y).

    >>> import numpy as np
    >>> from copriv.losses import Squared
    >>> loss, z, y = Squared(), np.array([1.0, 3.0]), np.array([0.0, 3.0])
    >>> loss.value(z, y).tolist(), loss.slope(z, y).tolist()
    ([1.0, 0.0], [2.0, 0.0])
    """

    name = "squared"
    smooth = True
    curvature = 2.0

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return np.square(prediction - target)

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return 2.0 * (prediction - target)

    def bend(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        """φ″."""
        return np.full_like(prediction, 2.0)

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        return 2.0 * (prediction_bound + target_bound)
