"""The losses that an agreement can name, on one list; their slopes, and the constants that bounds need.

A linear loss is a convex function φ of the prediction z = xᵀθ and the target y. Its gradient is φ′(z, y)·x, so

    ‖∇ℓ‖₁ = |φ′(z, y)| · ‖x‖₁      and, with ‖x‖₁ ≤ B and ‖θ‖_∞ ≤ θ_max, |z| ≤ B·θ_max,

which proves Ξ = B · sup |φ′| (A, Assumption 2; S, Assumption 3). The mean of ℓ over records is λ-smooth with
λ = sup φ″ · B₂², B₂ ≥ ‖x‖₂. Its strong convexity depends on the spread of the records, which is not known in advance, so
only that of the regulariser can be promised.

| loss     | φ(z, y)                          | y        | sup φ″ |
| -------- | -------------------------------- | -------- | ------ |
| squared  | (z − y)²                         | any      | 2      |
| logistic | log(1 + exp(−yz))                | −1 or 1  | 1/4    |
| hinge    | max(0, 1 − yz)                   | −1 or 1  | ∞      |
| huber    | (z−y)² if |z−y| ≤ h, else 2h|z−y| − h² | any | 2     |

A loss is one file and one entry in `ALL`: a class with a `name` that inherits `OfPrediction` (or `OfMargin` for labels
−1 and 1) and says `value`, `slope`, `slope_bound`, `smooth` and `curvature`.
"""

from typing import Protocol, runtime_checkable

from copriv.errors import AgreementError
from copriv.losses.hinge import Hinge as Hinge
from copriv.losses.hinge import SmoothedHinge as SmoothedHinge
from copriv.losses.huber import Huber as Huber
from copriv.losses.logistic import Logistic as Logistic
from copriv.losses.loss import Custom as Custom
from copriv.losses.loss import CustomLinear as CustomLinear
from copriv.losses.loss import OfMargin as OfMargin
from copriv.losses.loss import OfPrediction as OfPrediction
from copriv.losses.squared import Squared as Squared
from copriv.types import LinearLoss
from copriv.types import Loss as Loss


@runtime_checkable
class Kind(Protocol):
    """A loss that an agreement can name, before its constants are known."""

    name: str

    def agreed(self, threshold: float) -> LinearLoss:
        """Make the loss with the agreed threshold, which only the Huber loss has."""
        ...


ALL: tuple[Kind, ...] = (Squared, Logistic, Hinge, Huber)
"""All losses, in the order in which messages list them."""


def known(name: str) -> Kind:
    """Return the kind of loss with this name. Raises AgreementError, listing the known names."""
    for kind in ALL:
        if kind.name == name:
            return kind
    raise AgreementError(f"{name!r} is not a loss that is known; use one of {', '.join(kind.name for kind in ALL)}")


def named(name: str, threshold: float = 1.0) -> LinearLoss:
    """Make the loss with this name; `threshold` is for the Huber loss. Raises AgreementError as `known` does."""
    return known(name).agreed(threshold)


by_name = named
"""The former name of `named`."""
