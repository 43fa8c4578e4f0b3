"""Clipped mean gradients of every participant, for all runs at once: three exact ways.

| class            | when                                          | cost of a query                                   |
| ---------------- | --------------------------------------------- | ------------------------------------------------- |
| GramGradients    | squared loss, nothing clips                   | p² a run, whatever n is                           |
| ClippedSquared   | squared loss, clipping at Ξ                   | p² a run, and the few records that could clip     |
| RecordGradients  | every other loss, and few queries             | n·p a run                                         |

All three give Σ w clip(∇ℓ(θ), Ξ)/n exactly, and count what was clipped.

How ClippedSquared knows. A record is clipped where |2(xᵀθ − y)|·‖x‖₁ > Ξ. Around a centre c, with M = LLᵀ any metric,

    |xᵀθ − y| ≤ |xᵀc − y| + ‖L⁻¹x‖₂ · ‖Lᵀ(θ − c)‖₂,

so while ‖Lᵀ(θ − c)‖₂ ≤ r, only records with |xᵀc − y| + r‖L⁻¹x‖₂ > Ξ/(2‖x‖₁) can be clipped: the suspects. All others
are in the Gram matrix and nowhere else; the suspects are looked at one by one. When a run leaves the region, the
suspects are found anew, in one pass. M is the second moment of the records, which makes the bound tight.

**One pass over records for many θ at once** (`Pass`) is in blocks that stay in cache. A block of rows times all runs' θ gives
a matrix of predictions that fits the second-level cache; slope, clip and the second product work on it there. Threads take
whole row ranges (numpy releases the lock; `one_thread` limits BLAS); the row ranges and their order of summation do not depend
on how many threads there are.

What bounds the speed: the two matrix products (2·n·p·runs multiplications each), at a few tens of runs; below that,
reading the records from memory once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from copriv.losses import Squared
from copriv.model.objective import Quadratic, Regularizer
from copriv.model.records import Records
from copriv.privacy.clipping import row_norms
from copriv.rules.rule import Participant
from copriv.types import Array, Loss, is_linear

CELLS = 1 << 16
"""Predictions a block: 512 KiB of float64, to stay in the second-level cache with its temporaries."""
RANGE = 1 << 14
"""Rows a task for a thread."""
ROUNDED = 1.0 + 1e-12
"""Features that are scaled to a bound exactly miss it by a rounding: that is not clipping."""


@dataclass(frozen=True, eq=False)
class Pass:
    """Passes over one set of records under one loss, by `workers` threads."""

    loss: Loss
    records: Records
    workers: int = 1
    cells: int = CELLS
    order: Literal[1, 2] = 1
    """Order of the norm in which gradients are clipped."""
    weights: Float[Array, "kinds records"] | None = None
    """Weights of the rows for each kind of θ, in place of the records' own."""

    @cached_property
    def norms(self) -> Float[Array, " records"]:
        """‖x‖ of each row."""
        return self.records.lengths if self.order == 1 else row_norms(self.records.features, self.order)

    def gradients(
        self, theta: Float[Array, "runs p"], bound: float, excess_only: bool = False,
        kind: Int[np.ndarray, " runs"] | None = None,
    ) -> tuple[Float[Array, "runs p"], float]:  # fmt: skip
        """Σ w clip(∇ℓ, bound) at each θ, and the weight of the records clipped, summed over θ.

        With `excess_only`, Σ w (clip(∇ℓ, bound) − ∇ℓ): the change that clipping makes. kind: of each θ, by `weights`.
        """
        if is_linear(self.loss):
            total = self._sum(lambda rows: self._linear(self.loss, rows, theta, bound, excess_only, kind), len(theta))
        else:
            total = self._sum(lambda rows: self._general(rows, theta, bound, kind), len(theta))
        return total[:, :-1], float(total[:, -1].sum())

    def _weight(self, rows: slice, kind: Any) -> Array:
        """Weights of rows, the same for each θ or, where it is of a kind, its own."""
        return self.records.weight[rows] if self.weights is None else self.weights[kind, rows]

    def _linear(self, loss: Any, rows: slice, theta: Array, bound: float, excess_only: bool, kind: Any) -> Array:
        x, y, w = self.records.features[rows], self.records.target[rows], self._weight(rows, kind)
        out = np.empty((len(theta), theta.shape[1] + 1))
        slope = loss.slope(theta @ x.T, y)  # rows of x along the last axis, so that numpy's inner loops are long
        counted: float | Array = 0.0
        if self._largest > bound * ROUNDED or excess_only:
            limit = self._limit(bound * ROUNDED)[rows]
            clipped = np.clip(slope, -limit, limit)
            counted = np.einsum("...n,...n->...", (clipped != slope).astype(np.float64), w)
            if excess_only:
                clipped -= slope
            slope = clipped
        if self.weights is not None or not self.records.plain:
            slope *= w
        # Not matmul(..., out=): into a strided array it does without BLAS.
        out[:, :-1] = slope @ x
        out[:, -1] = counted
        return out

    @cached_property
    def _limit(self) -> Callable[[float], Float[Array, " records"]]:
        """The largest |φ′| of each row under a bound, by the bound that is last asked for."""
        norms = self.norms

        @lru_cache(maxsize=1)
        def limit(bound: float) -> Array:
            least = bound / np.finfo(float).max
            return np.divide(bound, norms, out=np.full_like(norms, np.inf), where=norms > least)

        return limit

    @cached_property
    def _largest(self) -> float:
        """sup ‖∇ℓ‖ over all predictions; where Ξ is above it, clipping is skipped."""
        if not is_linear(self.loss):
            return np.inf
        steepest = self.loss.slope_bound(np.inf, float(np.abs(self.records.target).max(initial=0.0)))
        return steepest * float(self.norms.max(initial=0.0))

    def _general(self, rows: slice, theta: Array, bound: float, kind: Any) -> Array:
        x, y, weight = self.records.features[rows], self.records.target[rows], self._weight(rows, kind)
        out = np.empty((len(theta), theta.shape[1] + 1))
        for run, (t, w) in enumerate(zip(theta, np.broadcast_to(weight, (len(theta), len(y))), strict=True)):
            gradients = self.loss.gradients(t, x, y)
            norms = row_norms(gradients, self.order)
            with np.errstate(over="ignore"):
                factor = np.minimum(1.0, bound / np.maximum(norms, np.finfo(float).tiny))
            out[run, :-1] = (w * factor) @ gradients
            out[run, -1] = w @ (norms > bound)
        return out

    def _sum(self, part: Callable[[slice], Array], runs: int) -> Array:
        n = len(self.records)
        block = max(64, self.cells // max(runs, 1))
        if n <= min(block, RANGE):
            return part(slice(n))

        def over(start: int) -> Array:
            stop = min(start + RANGE, n)
            pieces = (part(slice(at, min(at + block, stop))) for at in range(start, stop, block))
            total = next(pieces)
            for piece in pieces:
                total += piece
            return total

        starts = range(0, n, RANGE)
        if self.workers == 1 or len(starts) == 1:
            totals = [over(start) for start in starts]
        else:
            with ThreadPoolExecutor(self.workers) as pool:
                totals = list(pool.map(over, starts))
        return np.asarray(np.sum(totals, axis=0))


class BatchedGradients:
    """The mean gradients that participants compute before noise; `tests/contracts` holds what every one must keep.

    Participants that hold one and the same Records object (a forecast's public sample) are answered together, and so are those
    that hold the same rows with weights of their own (a world's kinds of owners).
    """

    def __init__(self, participants: tuple[Records, ...]) -> None:
        distinct = {id(records): records for records in participants}
        place = {name: i for i, name in enumerate(distinct)}
        self._index = np.array([place[id(records)] for records in participants])
        self.records = tuple(distinct.values())
        tables = _by_rows(self.records)
        self._table, self._kind = np.empty((2, len(self.records)), dtype=np.intp)
        for t, members in enumerate(tables):
            self._table[members], self._kind[members] = t, np.arange(len(members))
        self._shared = [[self.records[i] for i in members] for members in tables]
        self.units = np.array([records.total for records in self.records])
        self.clipped, self.asked = 0.0, 0.0
        """Units clipped and asked so far, summed over queries and runs."""

    def __call__(self, participant: Int[Participant, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        """Q_i(θ) for run r's participant i and point θ."""
        who = self._index[participant]
        self.asked += float(self.units[who].sum())
        return self._means(who, theta)

    def _means(self, who: Int[Participant, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        raise NotImplementedError


def batched_gradients(
    loss: Loss, participants: tuple[Records, ...], bound: float, workers: int = 1, order: Literal[1, 2] = 1,
    models: float = np.inf,
) -> BatchedGradients:  # fmt: skip
    """The cheapest of the three that is exact. `bound` is Ξ to clip at, in L1 or L2; `inf` clips nothing.

    models: at how many θ each participant is asked, over all runs and queries.
    """
    if isinstance(loss, Squared) and np.isinf(bound):
        return GramGradients(participants)
    few = 32  # models of a table of rows, for which finding the suspects takes as long as to look at every record (p = 10)
    if not isinstance(loss, Squared) or models * len(participants) <= few * len(_by_rows(participants)):
        return RecordGradients(loss, participants, bound, workers, order)
    return ClippedSquared(loss, participants, bound, workers, order)


def _by_rows(records: Sequence[Records]) -> list[list[int]]:
    """Indices of the records of each table of rows, by the arrays themselves."""
    tables: dict[tuple[int, int], list[int]] = {}
    for i, one in enumerate(records):
        tables.setdefault((id(one.features), id(one.target)), []).append(i)
    return list(tables.values())


def _weights(shared: Sequence[Records]) -> Float[Array, "kinds records"] | None:
    """Weights of the rows that records share; None for a single one, whose own they are."""
    return np.stack([one.weight for one in shared]) if len(shared) > 1 else None


class GramGradients(BatchedGradients):
    """2(H_i θ − c_i)."""

    def __init__(self, participants: tuple[Records, ...]) -> None:
        super().__init__(participants)
        plain = [Quadratic.of(records, Regularizer(0.0)) for records in self.records]
        self.H = np.stack([q.H for q in plain])
        self.c = np.stack([q.c for q in plain])

    def _means(self, who: Int[Participant, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        return np.asarray(2.0 * (_products(theta, self.H, who) - self.c[who]))


def _products(
    rows: Float[Array, "runs p"], matrices: Float[Array, "participants p p"], who: Int[Participant, " runs"]
) -> Float[Array, "runs p"]:
    """Each run's row times the matrix of its participant."""
    if len(matrices) == 1:
        return np.asarray(rows @ matrices[0])
    if rows.shape[1] <= 32:
        return np.asarray(np.matmul(rows[:, None, :], matrices[who])[:, 0, :])
    # A copy of a large matrix for each run takes longer than its product.
    order = np.argsort(who, kind="stable")
    rows, names, out = rows[order], who[order], np.empty_like(rows)
    edges = np.flatnonzero(np.diff(names, prepend=-1, append=-1))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        np.matmul(rows[begin:end], matrices[names[begin]], out=out[begin:end])
    product = np.empty_like(out)
    product[order] = out
    return product


class ClippedSquared(GramGradients):
    """Gram matrices for all records, corrected for the suspects that are clipped."""

    def __init__(
        self, loss: Loss, participants: tuple[Records, ...], bound: float, workers: int = 1, order: Literal[1, 2] = 1
    ) -> None:
        super().__init__(participants)
        H = [self.H[self._table == t].mean(axis=0) for t in range(len(self._shared))]
        self._guarded = [
            _Guarded(loss, shared, M, bound, workers, order) for shared, M in zip(self._shared, H, strict=True)
        ]
        self._whiteners = np.stack([one.whitener for one in self._guarded])
        self._centres, self._radii = np.zeros((len(H), len(H[0]))), np.full(len(H), -1.0)
        self._suspected = np.zeros(len(H), dtype=bool)

    def _means(self, who: Int[Participant, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        gradient, table = super()._means(who, theta), self._table[who]
        away = _products(theta - self._centres[table], self._whiteners, table)
        left = ~(np.sqrt(np.square(away).sum(axis=1)) <= self._radii[table])
        for i in np.unique(table[left]):
            one = self._guarded[i]
            one.find(theta[table == i])
            self._centres[i], self._radii[i], self._suspected[i] = one.centre, one.radius, one.suspects is not None
        for i in np.unique(table[self._suspected[table]]):
            mine = np.flatnonzero(table == i)
            excess, clipped = self._guarded[i].excess(theta[mine], self._kind[who[mine]])
            gradient[mine] += excess / self.units[who[mine], None]
            self.clipped += clipped
        return gradient


class _Guarded:
    """Rows that records share, and the suspects among them while θ is within `radius` of `centre`."""

    def __init__(
        self, loss: Loss, shared: Sequence[Records], H: Array, bound: float, workers: int, order: Literal[1, 2]
    ) -> None:
        records, self._weights = shared[0], _weights(shared)
        self._loss, self._records, self._bound, self._workers, self._order = loss, records, bound, workers, order
        scale = float(np.trace(H)) / len(H)
        self.whitener = np.asarray(np.linalg.cholesky(H + (1e-9 * scale or 1.0) * np.eye(len(H))), dtype=np.float64)
        whiten = np.linalg.inv(self.whitener).T
        norms, self._reach = np.empty(len(records)), np.empty(len(records))
        for begin in range(0, len(records), RANGE):  # temporaries as large as all records would be twice the data
            rows = slice(begin, begin + RANGE)
            norms[rows] = row_norms(records.features[rows], order)
            self._reach[rows] = np.sqrt(np.square(records.features[rows] @ whiten).sum(axis=1))
        with np.errstate(over="ignore"):
            self._limit = bound / (2.0 * np.maximum(norms, np.finfo(float).tiny))
        self.centre, self.radius = np.zeros(len(H)), -1.0
        """Centre and radius of the region; the radius is below 0 before there is one."""
        self.suspects: Pass | None = None

    def excess(
        self, theta: Float[Array, "runs p"], kind: Int[np.ndarray, " runs"]
    ) -> tuple[Float[Array, "runs p"], float]:
        """Change that clipping makes to Σ w ∇ℓ at each θ, and the number of units clipped, where there are suspects.

        kind: the records of each θ.
        """
        assert self.suspects is not None
        return self.suspects.gradients(theta, self._bound, True, kind)

    def _distance(self, theta: Array, centre: Array) -> float:
        return float(np.sqrt(np.square((theta - centre) @ self.whitener).sum(axis=1)).max())

    def find(self, theta: Float[Array, "runs p"]) -> None:
        """Move the region to where these runs are, and find its suspects."""
        r, centre = self._records, np.median(theta, axis=0)
        radius = 1.5 * self._distance(theta, centre) + 1e-6 * self._distance(centre[None], np.zeros_like(centre))
        if self.radius >= 0:
            # Widen the region by the last move, so that a run that drifts steadily does not leave it at once.
            radius += self._distance(centre[None], self.centre)
        self.centre, self.radius = centre, radius
        residual = np.abs(r.features @ centre - r.target)
        # The last term covers rounding, so that no record which is clipped is ever missed.
        far = residual + radius * self._reach + 1e-9 * (residual + self._limit) > self._limit
        self.suspects = None
        if far.any():
            chosen = Records(r.features[far], r.target[far], r.weight[far])
            weights = None if self._weights is None else self._weights[:, far]
            self.suspects = Pass(self._loss, chosen, self._workers, order=self._order, weights=weights)


class RecordGradients(BatchedGradients):
    """Every record, in blocks."""

    def __init__(
        self, loss: Loss, participants: tuple[Records, ...], bound: float, workers: int = 1, order: Literal[1, 2] = 1
    ) -> None:
        super().__init__(participants)
        self._bound = bound
        self._passes = [
            Pass(loss, shared[0], workers, order=order, weights=_weights(shared)) for shared in self._shared
        ]

    def _means(self, who: Int[Participant, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        gradient, table = np.empty_like(theta), self._table[who]
        for i in np.unique(table):
            mine = np.flatnonzero(table == i)
            total, clipped = self._passes[i].gradients(theta[mine], self._bound, kind=self._kind[who[mine]])
            gradient[mine] = total / self.units[who[mine], None]
            self.clipped += clipped
        return gradient
