"""What an owner's mechanism is to the owner: records and a query's θ in, numbers that may leave out.

One class a mechanism keeps this seam; which one, an agreement says (`copriv.answering`).

| mechanism        | class                         | guarantee            | leaves                                   |
| ---------------- | ----------------------------- | -------------------- | ---------------------------------------- |
| laplace          | (the owner's own few lines)   | ε                    | clipped mean gradient + Laplace noise    |
| laplace-composed | `ClippedGradient`             | (ε, δ) over the run  | the same, less noise                     |
| gaussian         | `ClippedGradient`             | (ε, δ) over the run  | mean gradient clipped in L2 + normal     |
| statistics       | `StatisticsAnswer`            | ε                    | gradient at θ and second moments, once   |
| objective        | `ObjectiveAnswer`             | ε, or (ε, δ)         | the minimiser of a tilted fitness, once  |
"""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Float

from copriv.privacy.clipping import clipped_mean_gradient
from copriv.records import InBlocks, Records
from copriv.types import Array, Loss


@runtime_checkable
class Releases(Protocol):
    """Adds fresh noise to a vector whose sensitivity it was made for."""

    @property
    def scale(self) -> float:
        """Of the noise on each coordinate: b of a Laplace draw, the standard deviation of a normal one."""
        ...

    def release(self, value: Float[Array, " length"]) -> Float[Array, " length"]:
        """`value` with fresh noise. Raises InvalidInput on a wrong shape, NaN or infinity: nothing is drawn then."""
        ...


@runtime_checkable
class PrivateAnswer(Protocol):
    """A mechanism with everything agreed already inside it; `answer` may be called once the ledger is charged."""

    def answer(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """What leaves the owner. Fresh noise each time."""
        ...


@dataclass(frozen=True)
class ClippedGradient:
    """The mean of gradients clipped to norm `bound` (in L1 or L2), and the noise that was made for it."""

    noise: Releases
    bound: float
    order: Literal[1, 2]

    def answer(self, loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        return self.noise.release(clipped_mean_gradient(loss, records, theta, self.bound, self.order))
