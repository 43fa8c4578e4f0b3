"""The hinge, for two classes, and the smoothed hinge, which the mechanism "objective" minimises in its place."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.losses.loss import OfMargin
from copriv.types import Array
from copriv.validation import positive


class Hinge(OfMargin):
    """max(0, 1 − yz); the subgradient −yx where yz < 1 and 0 elsewhere (0 is a subgradient at the kink).

    >>> import numpy as np
    >>> from copriv.losses import Hinge
    >>> loss, z, y = Hinge(), np.array([0.5, 2.0]), np.array([1.0, 1.0])
    >>> loss.value(z, y).tolist(), loss.slope(z, y).tolist()
    ([0.5, 0.0], [-1.0, -0.0])
    """

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
class SmoothedHinge(OfMargin):
    """The hinge, smoothed over |1 − yz| ≤ `width` (Chaudhuri, Monteleoni and Sarwate 2011, Corollary 21).

    With t = 1 + width − yz: 0 for t ≤ 0, t²/(4·width) for t ≤ 2·width, else 1 − yz. At most width/4 above the hinge.

    >>> import numpy as np
    >>> from copriv.losses import SmoothedHinge
    >>> loss, z, y = SmoothedHinge(0.5), np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0])
    >>> loss.value(z, y).tolist(), loss.slope(z, y).tolist()
    ([1.0, 0.125, 0.0], [-1.0, -0.5, -0.0])
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

    def bend(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        """φ″; at a kink of the slope, that of one side."""
        return np.where(np.abs(1.0 - target * prediction) <= self.width, 0.5 / self.width, 0.0)

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        return 1.0
