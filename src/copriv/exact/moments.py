"""What a forecast of the squared loss starts from and what it returns.

With the squared loss every update rule is linear in its state and the noise does not depend on the state, so the mean
and the covariance of θ_k obey an exact recursion as long as nothing is clipped or projected, and

    E f(θ_k) − f(θ*) = ½ (μ_k − θ*)ᵀ A (μ_k − θ*) + ½ tr(A Σ_k),     A = 2H + σI.

Everything here works with z = Uᵀ(θ − θ*), U the eigenvectors of A: where the owners' data share one (H, c), the p
directions never meet, and each is a scalar recursion. Owners whose (H, c) differ couple the directions again.

| rule                    | mean                                            | variance of f(θ_k)                     |
| ----------------------- | ----------------------------------------------- | -------------------------------------- |
| S1, S2                  | exact, any owners                               | exact, any owners                      |
| A1                      | exact; grouped beyond 400 different weights     | exact for a few kinds of owners        |
| A2                      | exact for a few kinds; else simulated, by paths | exact for a few owners, or short runs  |
| A1, A2 with caps        | exact for a few owners, or few answers each     | the same, a little sooner out of reach |
| A1, A2, data that differ | exact for a few owners                         | simulated                              |

"Few" is a matter of work: exact up to about 4 s (the variance for more than 10 owners up to 0.7 s), which covers 6
different owners with p = 8 and T = 60 under any rule; a million identical owners up to T = 1,000 for all means and for
A1's variance, T = 70 for A2's. What is out of reach is that of reduced runs (`reduced_runs`), with its standard error.
`Moments.kind` and `Moments.variance_kind` say which it was. Source: algorithms "What can be computed exactly instead".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from copriv.errors import InvalidInput
from copriv.model.fitness import Quadratic
from copriv.types import Array
from copriv.validation import finite_array

Integers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class OwnerKinds:
    """The owners, as kinds of identical ones: a million identical owners are one kind with count 1,000,000.

    `records` n_i and `noise_scale` b_i (of the Laplace draw on each coordinate) are those of one owner of the kind;
    `answers` is the cap m_i that the owner enforces, None where nobody is capped below the horizon; `data`, where the
    owners' records are not alike, holds each kind's own H and c (its regularizer is not used).
    """

    records: Float[Array, " kinds"]
    noise_scale: Float[Array, " kinds"]
    counts: Int[Integers, " kinds"]
    answers: Int[Integers, " kinds"] | None = None
    data: tuple[Quadratic, ...] | None = None

    @classmethod
    def of(
        cls,
        records: object,
        noise_scale: object,
        counts: object = None,
        answers: object = None,
        data: Sequence[Quadratic] | None = None,
    ) -> "OwnerKinds":
        """Check and wrap; `answers` may be one number for all. Raises InvalidInput."""
        n = finite_array("records", records, 1)
        b = finite_array("noise_scale", noise_scale, 1)
        N = _whole("counts", np.ones(len(n)) if counts is None else counts, len(n))
        m = None if answers is None else _whole("answers", np.broadcast_to(np.asarray(answers), n.shape), len(n))
        if len(n) == 0 or len(b) != len(n) or (data is not None and len(data) != len(n)):
            raise InvalidInput(
                f"owners: {len(n)} numbers of records, {len(b)} noise scales"
                + ("" if data is None else f", {len(data)} data summaries")
                + "; each kind of owner needs one of each"
            )
        if not (n > 0).all() or not (b >= 0).all():
            raise InvalidInput("owners: every kind needs more than 0 records and a noise scale of 0 or more")
        return cls(n, b, N, m, None if data is None else tuple(data))

    @property
    def number(self) -> int:
        """N, all owners."""
        return int(self.counts.sum())

    @cached_property
    def weights(self) -> Float[Array, " kinds"]:
        """ω_i = n_i/n of one owner of each kind; Σ counts·ω = 1."""
        return self.records / float(self.counts @ self.records)

    def total_answers(self, horizon: int) -> int:
        """How many answers can be given in `horizon` events before every owner has reached its cap."""
        return horizon if self.answers is None else min(horizon, int(self.counts @ self.answers))

    def caps(self, horizon: int) -> Int[Integers, " kinds"] | None:
        """The caps, or None where no owner can reach its own within `horizon` events."""
        return None if self.answers is None or (self.answers >= horizon).all() else self.answers


def _whole(name: str, value: object, length: int) -> Integers:
    array = finite_array(name, value, 1)
    if len(array) != length or not (array >= 1).all() or not (array == np.round(array)).all():
        raise InvalidInput(f"{name}: need {length} whole numbers of at least 1, not {array.tolist()!r}")
    return array.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Moments:
    """E f(θ_k) − f(θ*) and Var f(θ_k), in the unit of f and its square, entry k after k updates.

    S1 and S2 make T − 1 updates, so entry k is θ[k+1] and there are T entries; A1 and A2 have T + 1.
    `kind`: "exact" (to rounding), "grouped" (owners of nearly equal weight taken as equal; `mean_error` is the change
    from half as many groups, an estimate) or "simulated" (`mean_error` is one standard error). `variance_kind` and
    `variance_error` say the same of the variance: "exact" (for A1 and A2 to about 1e-13 of the mean's square),
    "simulated", or "none" (NaN) where no runs were asked for.
    """

    kind: Literal["exact", "grouped", "simulated"]
    mean: Float[Array, " k"]
    mean_error: Float[Array, " k"]
    variance_kind: Literal["exact", "simulated", "none"]
    variance: Float[Array, " k"]
    variance_error: Float[Array, " k"]


@dataclass(frozen=True, eq=False)
class Directions:
    """The problem in z = Uᵀ(θ − θ*): cost ½ Σ a_j z_j², starting at `start`.

    An owner's answer without noise is Γz + γ. Where all owners share the data, Γ = a − σ and γ = −σt are numbers in
    each direction (`slope` and `offset` have one entry, for all kinds); else Γ is a matrix and γ a vector a kind.
    """

    curvature: Float[Array, " p"]
    rotation: Float[Array, "p p"]
    optimum: Float[Array, " p"]
    start: Float[Array, " p"]
    sigma: float
    slope: Float[Array, "owners directions q q"]
    offset: Float[Array, "owners directions q"]

    @classmethod
    def of(cls, quadratic: Quadratic, owners: OwnerKinds, start: object) -> "Directions":
        """Diagonalise once. Raises InvalidInput on a start of the wrong length or data that do not add up to f."""
        p, σ = len(quadratic.c), quadratic.regularizer.strength
        θ0 = finite_array("start", start, 1)
        if len(θ0) != p:
            raise InvalidInput(f"start: needs {p} numbers, not {len(θ0)}")
        a, U = np.linalg.eigh(quadratic.hessian)
        θstar = quadratic.free_minimum()
        t = U.T @ θstar
        if owners.data is None:
            slope, offset = (a - σ)[None, :, None, None], (-σ * t)[None, :, None]
        else:
            _same_fitness(quadratic, owners, owners.data)
            slope = np.array([[U.T @ (2.0 * d.H) @ U] for d in owners.data])
            offset = np.array([[U.T @ (2.0 * (d.H @ θstar - d.c))] for d in owners.data])
        return cls(a, U, t, U.T @ (θ0 - θstar), σ, slope, offset)

    @property
    def shared(self) -> bool:
        """Whether all owners' data share one H and c, so that the directions never meet."""
        return self.slope.shape[-1] == 1 and len(self.slope) == 1

    def cost(self, z: Float[Array, "*batch p"]) -> Float[Array, "*batch"]:
        """f(θ) − f(θ*) of each z."""
        return 0.5 * np.square(z) @ self.curvature


def _same_fitness(quadratic: Quadratic, owners: OwnerKinds, data: tuple[Quadratic, ...]) -> None:
    share = owners.counts * owners.weights
    H = sum(w * d.H for w, d in zip(share, data, strict=True))
    c = sum(w * d.c for w, d in zip(share, data, strict=True))
    if not (np.allclose(H, quadratic.H, rtol=1e-6, atol=1e-9) and np.allclose(c, quadratic.c, rtol=1e-6, atol=1e-9)):
        raise InvalidInput(
            "owners.data: the owners' H and c, weighted by their records, are not those of the fitness; "
            "pass the pooled Quadratic of the same records"
        )
