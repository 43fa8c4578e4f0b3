"""The input of an exact forecast: the owners by kind, and the fitness in the eigenvectors of its second derivative."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from copriv.errors import InvalidInput
from copriv.model.objective import Quadratic
from copriv.types import Array
from copriv.validation import finite_array

Integers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Order = Literal["uniform", "random order"]
"""Who talks next: a choice by rates (uniform where they are equal) among owners with answers left, or all Σ m_i answers in one
random order."""


@dataclass(frozen=True, eq=False)
class OwnerKinds:
    """The owners, as kinds of identical ones: a million identical owners are one kind with count 1,000,000.

    Their records are taken to share one H and c.
    """

    records: Float[Array, " kinds"]
    """n_i of one owner of the kind."""
    noise_scale: Float[Array, " kinds"]
    """b_i of the Laplace draw on each coordinate of an answer; a law of variance v is one of scale √(v/2) here."""
    counts: Int[Integers, " kinds"]
    answers: Int[Integers, " kinds"] | None = None
    """The cap m_i that an owner enforces; None where nobody has one."""
    rates: Float[Array, " kinds"] | None = None
    """Rate of one owner's clock; None where all are equal."""

    @classmethod
    def of(
        cls, records: object, noise_scale: object, counts: object = None, answers: object = None, rates: object = None
    ) -> "OwnerKinds":
        """Check and wrap; `answers` may be one number for all. Raises InvalidInput."""
        n = finite_array("records", records, 1)
        b = finite_array("noise_scale", noise_scale, 1)
        N = _whole("counts", np.ones(len(n)) if counts is None else counts, len(n))
        m = None if answers is None else _whole("answers", np.broadcast_to(np.asarray(answers), n.shape), len(n))
        if len(n) == 0 or len(b) != len(n):
            raise InvalidInput(
                f"owners: {len(n)} numbers of records, {len(b)} noise scales; each kind of owner needs one of each"
            )
        if not (n > 0).all() or not (b >= 0).all():
            raise InvalidInput("owners: every kind needs more than 0 records and a noise scale of 0 or more")
        if rates is None:
            return cls(n, b, N, m)
        r = finite_array("rates", rates, 1)
        if len(r) != len(n) or not (r > 0).all():
            raise InvalidInput(f"owners: {len(n)} kinds need as many rates, each above 0")
        return cls(n, b, N, m, r if len(set(r.tolist())) > 1 else None)

    @property
    def number(self) -> int:
        """N, all owners."""
        return int(self.counts.sum())

    @cached_property
    def weights(self) -> Float[Array, " kinds"]:
        """ω_i = n_i/n of one owner of each kind; Σ counts·ω = 1."""
        return self.records / float(self.counts @ self.records)

    @property
    def relative_rates(self) -> Float[Array, " kinds"]:
        """Rate of one owner of each kind over the mean rate of all owners."""
        if self.rates is None:
            return np.ones(len(self.counts))
        return np.asarray(self.rates * self.number / float(self.counts @ self.rates))

    def caps(self, horizon: int, order: Order) -> Int[Integers, " kinds"] | None:
        """The caps that count: None where no owner can reach its own within `horizon` uniform choices.

        Raises InvalidInput for a random order of answers whose number is not given.
        """
        if order == "random order" and self.answers is None:
            raise InvalidInput("order: a random order of all answers needs the number of answers of each owner")
        if order == "random order" or (self.answers is not None and (self.answers < horizon).any()):
            return self.answers
        return None

    def merged(self, caps: Int[Integers, " kinds"] | None = None) -> tuple["OwnerKinds", Integers | None]:
        """Owners of equal weight, rate and cap as one kind of their mean noise variance, which is all that a mean needs."""
        alike = [self.records, self.relative_rates, np.zeros_like(self.counts) if caps is None else caps]
        same, group = np.unique(np.column_stack(alike), axis=0, return_inverse=True)
        sums = [self.counts, self.counts * self.records, self.counts * (self.records * self.noise_scale) ** 2]
        # ω²b² is what the noise adds; its sum over the group is kept.
        number, share, noise = (np.bincount(group.reshape(-1), weights=values) for values in sums)
        records = share / number
        rates = None if self.rates is None else same[:, 1]
        kinds = OwnerKinds(records, np.sqrt(noise / number) / records, number.astype(np.int64), rates=rates)
        return kinds, None if caps is None else same[:, 2].astype(np.int64)


def _whole(name: str, value: object, length: int) -> Integers:
    array = finite_array(name, value, 1)
    if len(array) != length or not (array >= 1).all() or not (array == np.round(array)).all():
        raise InvalidInput(f"{name}: need {length} whole numbers of at least 1, not {array.tolist()!r}")
    return array.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Directions:
    """The fitness in z = Uᵀ(θ − θ*), U the eigenvectors of A: its cost is ½ Σ a_j z_j², and directions never meet.

    An owner's answer without noise is `slope`·z + `offset` in each direction.
    """

    curvature: Float[Array, " p"]
    optimum: Float[Array, " p"]
    """Uᵀθ*."""
    start: Float[Array, " p"]
    sigma: float
    """The regulariser's strength."""

    @classmethod
    def of(cls, quadratic: Quadratic, start: object) -> "Directions":
        """Diagonalise once. Raises InvalidInput on a start of the wrong length."""
        p, θ0 = len(quadratic.c), finite_array("start", start, 1)
        if len(θ0) != p:
            raise InvalidInput(f"start: needs {p} numbers, not {len(θ0)}")
        a, U = np.linalg.eigh(quadratic.hessian)
        θstar = quadratic.free_minimum()
        return cls(a, U.T @ θstar, U.T @ (θ0 - θstar), quadratic.regularizer.strength)

    @property
    def slope(self) -> Float[Array, " p"]:
        return self.curvature - self.sigma

    @property
    def offset(self) -> Float[Array, " p"]:
        return -self.sigma * self.optimum
