"""Noise as it is stated: the law of a draw and its scale, and the seam behind which it is added in earnest.

A mechanism states law and scale. An owner adds the noise by a vetted sampler (`Releases`); a simulation draws it from
a generator (`simulated_noise`), which nothing that serves real answers can reach.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Float

from copriv.types import Array

Order = Literal[1, 2]
"""The order of a norm, L1 or L2."""
GRID = -40
"""OpenDP's draws are multiples of 2^GRID, in the unit of the released number."""
CLIP_SLACK = 1e-9
"""Share by which a sensitivity is raised: it covers the rounding of one clipped vector of up to 1e6 coordinates."""


class Law(Enum):
    """A distribution of noise; the value is the variance at scale 1."""

    LAPLACE = 2.0
    NORMAL = 1.0

    @property
    def variance(self) -> float:
        """Variance of a draw of scale 1."""
        return self.value


@dataclass(frozen=True, eq=False)
class Noise:
    """Independent draws of one law, with a scale for each number."""

    law: Law
    scale: Float[Array, " length"]


@runtime_checkable
class Releases(Protocol):
    """Adds fresh noise to a vector whose sensitivity it was made for."""

    @property
    def scale(self) -> float:
        """Scale of the noise on each coordinate: b of a Laplace draw, the standard deviation of a normal one."""
        ...

    def release(self, value: Float[Array, " length"]) -> Float[Array, " length"]:
        """`value` with fresh noise. Raises InvalidInput on a wrong shape, NaN or infinity: nothing is drawn then."""
        ...


@runtime_checkable
class Waits(Protocol):
    """Noise that may be drawn before the query that it is for (`copriv.privacy.ahead`)."""

    def draw(self) -> None:
        """Draw the next answer's noise now, unless there is some in waiting."""
        ...

    def drop(self) -> None:
        """Forget the noise in waiting."""
        ...
