"""The logistic loss: for two classes, smooth."""

import numpy as np
from jaxtyping import Float

from copriv.losses.loss import OfMargin
from copriv.types import Array


class Logistic(OfMargin):
    """log(1 + exp(−yz)); slope −y/(1 + exp(yz)), never more than 1 in size.

    >>> import numpy as np
    >>> from copriv.losses import Logistic
    >>> loss, z, y = Logistic(), np.array([0.0]), np.array([1.0])
    >>> loss.value(z, y).tolist(), loss.slope(z, y).tolist()
    ([0.6931471805599453], [-0.5])
    """

    name = "logistic"
    smooth = True
    curvature = 0.25

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        return np.logaddexp(0.0, -target * prediction)

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        from scipy.special import expit

        return np.asarray(-target * expit(-target * prediction))

    def bend(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        """φ″."""
        from scipy.special import expit

        return np.asarray(expit(prediction) * expit(-prediction))

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        from scipy.special import expit

        return float(expit(prediction_bound))
