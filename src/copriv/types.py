"""Protocols of a loss, and the array types of signatures.

Shapes are written in the signatures (jaxtyping) and checked while tests run. The letters, everywhere:
`p` parameters, `records` rows, `runs` independent simulated runs, `owners` data owners.
"""

from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from jaxtyping import Float

Array = np.ndarray[Any, np.dtype[np.float64]]
"""A float64 array; `Float[Array, "runs p"]` adds its shape."""
Whole = np.ndarray[Any, np.dtype[np.integer[Any]]]
"""An array of whole numbers."""
Theta = Float[Array, " p"]
Features = Float[Array, "records p"]
PerRecord = Float[Array, " records"]
"""One number for each record: targets, losses."""


@runtime_checkable
class Loss(Protocol):
    """The loss ℓ(θ; x, y) of one record, convex in θ.

    >>> from copriv.losses import Squared
    >>> isinstance(Squared(), Loss), Squared().gradient_bound(1.0, 2.0, 3.0)
    (True, 10.0)
    """

    name: str
    smooth: bool

    def values(self, theta: Theta, features: Features, target: PerRecord) -> PerRecord:
        """ℓ of each record."""
        ...

    def gradients(self, theta: Theta, features: Features, target: PerRecord) -> Features:
        """One (sub)gradient ∇_θ ℓ of each record."""
        ...

    def gradient_bound(self, feature_bound: float, target_bound: float, theta_max: float) -> float:
        """Ξ ≥ ‖∇ℓ‖₁ for every ‖x‖₁ ≤ feature_bound, |y| ≤ target_bound, ‖θ‖_∞ ≤ theta_max; `inf` if none."""
        ...

    def check_target(self, target: PerRecord) -> None:
        """Raise DataError, naming the row, where this loss does not allow a target."""
        ...


@runtime_checkable
class LinearLoss(Loss, Protocol):
    """A loss that depends on x and θ only through the prediction z = xᵀθ: ℓ(θ; x, y) = φ(z, y).

    Its gradient is φ′(z, y)·x, so the L1 norm is |φ′|·‖x‖₁ and clipping a gradient is clipping a number.
    """

    curvature: float
    """sup φ″ over z and y; `inf` where φ has a kink."""

    def value(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        """φ(z, y), element by element."""
        ...

    def slope(self, prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, "..."]:
        """One (sub)derivative φ′(z, y), element by element."""
        ...

    def slope_bound(self, prediction_bound: float, target_bound: float) -> float:
        """sup |φ′| over |z| ≤ prediction_bound and |y| ≤ target_bound."""
        ...


def is_linear(loss: Loss) -> TypeGuard[LinearLoss]:
    """Whether a loss depends on records through predictions only. (`isinstance` on a protocol is a hundred times slower.)"""
    return hasattr(loss, "slope")
