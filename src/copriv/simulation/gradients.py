"""Clipped mean gradients of every participant, for all runs at once: three exact ways.

| class            | when                                          | cost of a query                                   |
| ---------------- | --------------------------------------------- | ------------------------------------------------- |
| GramGradients    | squared loss, nothing clips                   | p² a run, whatever n is                           |
| ClippedSquared   | squared loss, clipping at Ξ                   | p² a run, and the few records that could clip     |
| RecordGradients  | every other loss                              | n·p a run                                         |

All three give Σ w clip(∇ℓ(θ), Ξ)/n exactly, and count what was clipped.

How ClippedSquared knows. A record is clipped where |2(xᵀθ − y)|·‖x‖₁ > Ξ. Around a centre c, with M = LLᵀ any metric,

    |xᵀθ − y| ≤ |xᵀc − y| + ‖L⁻¹x‖₂ · ‖Lᵀ(θ − c)‖₂,

so while ‖Lᵀ(θ − c)‖₂ ≤ r, only records with |xᵀc − y| + r‖L⁻¹x‖₂ > Ξ/(2‖x‖₁) can be clipped: the suspects. All others
are in the Gram matrix and nowhere else; the suspects are looked at one by one. When a run leaves the region, the
suspects are found anew, in one pass. M is the second moment of the records, which makes the bound tight.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from copriv.losses import Squared
from copriv.model.fitness import Quadratic, Regularizer
from copriv.model.records import Records
from copriv.privacy.clipping import row_norms
from copriv.rules.descent import Participant
from copriv.simulation.kernels import Pass
from copriv.types import Array, Loss


@runtime_checkable
class BatchedGradients(Protocol):
    """The mean gradients that participants compute before noise; `tests/contracts` holds what every one must keep."""

    @property
    def clipped(self) -> float:
        """Units clipped so far, summed over queries and runs."""
        ...

    @property
    def asked(self) -> float:
        """Units asked so far, summed over queries and runs."""
        ...

    def __call__(self, participant: Int[Participant, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        """Q_i(θ) for run r's participant i and point θ."""
        ...


def batched_gradients(
    loss: Loss, participants: tuple[Records, ...], bound: float, workers: int = 1, order: Literal[1, 2] = 1
) -> BatchedGradients:
    """The cheapest of the three that is exact. `bound` is Ξ to clip at, in L1 or L2; `inf` clips nothing.

    Participants that hold one and the same Records object (a forecast's public sample) are answered together.
    """
    distinct = {id(records): records for records in participants}
    if len(distinct) < len(participants):
        place = {name: i for i, name in enumerate(distinct)}
        index = np.array([place[id(records)] for records in participants])
        return _Shared(batched_gradients(loss, tuple(distinct.values()), bound, workers, order), index)
    if not isinstance(loss, Squared):
        return RecordGradients(loss, participants, bound, workers, order)
    if np.isinf(bound):
        return GramGradients(participants)
    return ClippedSquared(loss, participants, bound, workers, order)


class _Shared:
    """Evaluates participants that hold the same records together."""

    def __init__(self, gradients: BatchedGradients, index: Participant) -> None:
        self._gradients, self._index = gradients, index

    @property
    def clipped(self) -> float:
        return self._gradients.clipped

    @property
    def asked(self) -> float:
        return self._gradients.asked

    def __call__(self, participant: Int[Participant, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        return self._gradients(self._index[participant], theta)


class GramGradients:
    """2(H_i θ − c_i)."""

    def __init__(self, participants: tuple[Records, ...]) -> None:
        plain = [Quadratic.of(records, Regularizer(0.0)) for records in participants]
        self.H = np.stack([q.H for q in plain])
        self.c = np.stack([q.c for q in plain])
        self.units = np.array([records.weight.sum() for records in participants])
        self.clipped, self.asked = 0.0, 0.0

    def __call__(self, participant: Int[Participant, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        self.asked += float(self.units[participant].sum())
        product = theta @ self.H[0] if len(self.H) == 1 else np.matmul(theta[:, None, :], self.H[participant])[:, 0, :]
        gradient: Array = 2.0 * (product - self.c[participant])
        return gradient


@dataclass(eq=False)
class _Region:
    """The θ within `radius` of `centre` in the metric of L, and the records that clipping may affect there."""

    centre: Array
    radius: float
    suspects: Pass | None


@dataclass(eq=False)
class _Guarded:
    """One participant's records, and the suspects among them."""

    loss: Loss
    records: Records
    bound: float
    workers: int
    order: Literal[1, 2]
    whitener: Array = field(init=False)
    limit: Array = field(init=False)
    reach: Array = field(init=False)
    region: _Region | None = None

    def __post_init__(self) -> None:
        x = self.records.features
        H = Quadratic.of(self.records, Regularizer(0.0)).H
        scale = float(np.trace(H)) / len(H)
        self.whitener = np.asarray(np.linalg.cholesky(H + (1e-9 * scale or 1.0) * np.eye(len(H))), dtype=np.float64)
        with np.errstate(over="ignore"):
            self.limit = self.bound / (2.0 * np.maximum(row_norms(x, self.order), np.finfo(float).tiny))
        self.reach = np.sqrt(np.square(np.linalg.solve(self.whitener, x.T)).sum(axis=0))

    def excess(self, theta: Float[Array, "runs p"]) -> tuple[Float[Array, "runs p"], float]:
        """Change that clipping makes to Σ w ∇ℓ at each θ, and the number of units clipped."""
        region = self.region
        if region is None or self._distance(theta, region.centre) > region.radius:
            region = self.region = self._find(theta)
        if region.suspects is None:
            return np.zeros_like(theta), 0.0
        return region.suspects.gradients(theta, self.bound, excess_only=True)

    def _distance(self, theta: Array, centre: Array) -> float:
        return float(np.sqrt(np.square((theta - centre) @ self.whitener).sum(axis=1)).max())

    def _find(self, theta: Array) -> _Region:
        centre = np.median(theta, axis=0)
        radius = 1.5 * self._distance(theta, centre) + 1e-6 * float(np.sqrt(np.square(centre @ self.whitener).sum()))
        if self.region is not None:
            # Widen the region by the last move, so that a run that drifts steadily does not leave it at once.
            radius += self._distance(centre[None], self.region.centre)
        residual = np.abs(self.records.features @ centre - self.records.target)
        # The last term covers rounding, so that no record which is clipped is ever missed.
        far = residual + radius * self.reach + 1e-9 * (residual + self.limit) > self.limit
        if not far.any():
            return _Region(centre, radius, None)
        chosen = Records(self.records.features[far], self.records.target[far], self.records.weight[far])
        return _Region(centre, radius, Pass(self.loss, chosen, self.workers, order=self.order))


class ClippedSquared:
    """Gram matrices for all records, corrected for the suspects that are clipped."""

    def __init__(
        self, loss: Loss, participants: tuple[Records, ...], bound: float, workers: int = 1, order: Literal[1, 2] = 1
    ) -> None:
        self._gram = GramGradients(participants)
        self._guarded = [_Guarded(loss, records, bound, workers, order) for records in participants]
        self.clipped = 0.0

    @property
    def asked(self) -> float:
        return self._gram.asked

    def __call__(self, participant: Int[Participant, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        gradient = self._gram(participant, theta)
        for i in np.unique(participant):
            mine = np.flatnonzero(participant == i)
            excess, clipped = self._guarded[i].excess(theta[mine])
            gradient[mine] += excess / self._gram.units[i]
            self.clipped += clipped
        return gradient


class RecordGradients:
    """Every record, in blocks."""

    def __init__(
        self, loss: Loss, participants: tuple[Records, ...], bound: float, workers: int = 1, order: Literal[1, 2] = 1
    ) -> None:
        self._passes = [Pass(loss, records, workers, order=order) for records in participants]
        self._bound, self.clipped, self.asked = bound, 0.0, 0.0

    def __call__(self, participant: Int[Participant, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        gradient = np.empty_like(theta)
        for i in np.unique(participant):
            mine = np.flatnonzero(participant == i)
            units = float(self._passes[i].records.weight.sum())
            total, clipped = self._passes[i].gradients(theta[mine], self._bound)
            gradient[mine] = total / units
            self.clipped += clipped
            self.asked += units * len(mine)
        return gradient
