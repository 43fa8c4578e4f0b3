"""Laws and scales of noise, the budget of an answer, and the protocols of mechanisms that release private answers.

A mechanism states the law and scale of its noise. An owner draws it by a vetted sampler (`Releases`), a simulation from a
generator (`simulated_noise`), which no module that serves real answers imports.

Sequential composition: m answers that are each (ε/m)-private are together ε-private, also if the queries are chosen
adaptively (A, Thm 1; S, Thm 1). The papers take m = T; an owner that refuses answer m + 1 needs only its own m (erratum 8).
The composition of m answers with δ is in `copriv.privacy.approximate`.
"""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.model.records import InBlocks, Records
from copriv.types import Array, Loss
from copriv.validation import count, positive

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

    @property
    def order(self) -> Order:
        """1 or 2: the norm of the sensitivity that its scale is a multiple of."""
        return 1 if self is Law.LAPLACE else 2

    @property
    def excess(self) -> float:
        """Excess kurtosis."""
        return 3.0 if self is Law.LAPLACE else 0.0


@dataclass(frozen=True, eq=False)
class Noise:
    """Independent draws of one law, with a scale for each number."""

    law: Law
    scale: Float[Array, " length"]


def laplace_scale(gradient_bound: float, answers: int, records: int, epsilon: float, overlap: int = 1) -> float:
    """b = 2 Ξ m κ / (n ε), the scale of the noise on each coordinate of each answer.

    Replacing one of n records moves the mean of gradients of L1 norm at most Ξ by at most 2Ξ/n in L1, and each of m
    answers may spend ε/m; a record that κ owners hold is answered for κ times (A, Thm 1; S, Thm 1 and Assumption 1).
    Raises InvalidInput on anything that is not positive.
    """
    Ξ, ε = positive("gradient_bound", gradient_bound), positive("epsilon", epsilon)
    m, n, κ = count("answers", answers), count("records", records), count("overlap", overlap)
    return 2.0 * Ξ * m * κ / (n * ε)


def epsilon_per_answer(epsilon: float, answers: int, overlap: int = 1) -> Fraction:
    """ε/(mκ), exactly: the charge of one answer."""
    return Fraction(positive("epsilon", epsilon)) / (count("answers", answers) * count("overlap", overlap))


def check_value(value: Array, length: int) -> None:
    """Raise InvalidInput unless `value` is a vector of `length` finite numbers."""
    if value.shape != (length,):
        raise InvalidInput(f"release: expected {length} numbers, not shape {value.shape}")
    if not np.isfinite(value).all():
        raise InvalidInput("release: every entry must be finite; a NaN would be answered as 0")


def normal_draws(number: Any, length: int, scale: float, **grid: int) -> Any:
    """OpenDP's measurement that adds independent normal draws to a vector of numbers of a domain."""
    from opendp.domains import vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return make_gaussian(vector_domain(number, size=length), l2_distance(T=float), scale=scale, **grid)


@runtime_checkable
class Releases(Protocol):
    """Adds fresh noise to vectors of the sensitivity that it was calibrated for."""

    @property
    def scale(self) -> float:
        """Scale of the noise on each coordinate: b of a Laplace draw, the standard deviation of a normal one."""

    def release(self, value: Float[Array, " length"]) -> Float[Array, " length"]:
        """`value` with fresh noise. Raises InvalidInput on a wrong shape, NaN or infinity: nothing is drawn then."""


@runtime_checkable
class Waits(Protocol):
    """Noise that is drawn before the query that it is used for (`copriv.privacy.laplace.DrawnAhead`)."""

    def draw(self) -> None:
        """Draw the next answer's noise now, unless a draw is stored."""

    def drop(self) -> None:
        """Discard the stored noise."""


@runtime_checkable
class PrivateAnswer(Protocol):
    """A mechanism with all agreed parameters; `answer` may be called after the ledger is charged."""

    @property
    def ahead(self) -> Waits | None:
        """The noise that may be drawn before a query; None where the mechanism does not allow it."""

    def answer(self, loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The private answer at θ, with fresh noise at each call."""
