"""What every rule shares: the seam, and the direction of descent."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from copriv.model.feasible_set import FeasibleSet, Regularizer
from copriv.types import Array

Participant = np.ndarray[Any, np.dtype[np.intp]]
"""Which participant answered, one index a run."""


@runtime_checkable
class UpdateRule(Protocol):
    """An update rule: it makes the point to ask at, takes a private answer, and holds a model.

    >>> import numpy as np
    >>> from copriv.rules import PLAIN, UpdateRule
    >>> from copriv.rules import SyncDecay
    >>> isinstance(SyncDecay(PLAIN, 1.0, 10), UpdateRule)
    True
    """

    def start(self, theta: Float[Array, "runs p"]) -> Any:
        """The state before any answer."""
        ...

    def query(self, state: Any, participant: Int[Participant, " runs"]) -> Float[Array, "runs p"]:
        """Where to ask this participant for the mean gradient of its records."""
        ...

    def step(self, state: Any, participant: Int[Participant, " runs"], answer: Float[Array, "runs p"]) -> Any:
        """The state after the participant's private answer."""
        ...

    def model(self, state: Any) -> Float[Array, "runs p"]:
        """θ as it stands: what would be published now."""
        ...


@dataclass(frozen=True, eq=False)
class Descent:
    """The regulariser, the box, and an optional public preconditioner P: the direction is P(∇g(θ) + gradient).

    P is public (a Hessian of the public sample, inverted), so using it on private answers costs no privacy.

    >>> import numpy as np
    >>> from copriv.model.feasible_set import FeasibleSet, Regularizer
    >>> from copriv.rules import Descent
    >>> Descent(Regularizer(0.5), FeasibleSet()).direction(np.array([[2.0]]), np.array([[1.0]]))
    array([[2.]])
    """

    regularizer: Regularizer
    feasible_set: FeasibleSet
    preconditioner: Float[Array, "p p"] | None = None

    def along(self, gradient: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        """P · gradient."""
        return gradient if self.preconditioner is None else gradient @ self.preconditioner.T

    def direction(self, theta: Float[Array, "runs p"], gradient: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        """P(∇g(θ) + gradient)."""
        return self.along(self.regularizer.gradient(theta) + gradient)


PLAIN = Descent(Regularizer(0.0), FeasibleSet())
"""Without regulariser, box or preconditioner: what a plan's tables run, which count g as part of the fitness."""
