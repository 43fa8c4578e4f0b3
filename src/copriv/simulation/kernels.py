"""One pass over records for many θ at once: sums of clipped gradients, in blocks that stay in cache.

A block of rows times all runs' θ gives a matrix of predictions that fits the second-level cache; slope, clip and the
second product work on it there. Threads take whole row ranges (numpy releases the lock; `one_thread` limits BLAS);
the row ranges and their order of summation do not depend on how many threads there are.

What bounds the speed: the two matrix products (2·n·p·runs multiplications each), at a few tens of runs; below that,
reading the records from memory once.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from copriv.model.records import Records
from copriv.privacy.clipping import row_norms
from copriv.types import Array, Loss, is_linear

CELLS = 1 << 16
"""Predictions a block: 512 KiB of float64, to stay in the second-level cache with its temporaries."""
RANGE = 1 << 14
"""Rows a task for a thread."""


@dataclass(frozen=True, eq=False)
class Pass:
    """Passes over one set of records under one loss, by `workers` threads."""

    loss: Loss
    records: Records
    workers: int = 1
    cells: int = CELLS
    order: Literal[1, 2] = 1
    """Order of the norm in which gradients are clipped."""

    @cached_property
    def norms(self) -> Float[Array, " records"]:
        """‖x‖ of each row."""
        return row_norms(self.records.features, self.order)

    def gradients(
        self, theta: Float[Array, "runs p"], bound: float, excess_only: bool = False
    ) -> tuple[Float[Array, "runs p"], float]:
        """Σ w clip(∇ℓ, bound) at each θ, and the weight of the records clipped, summed over θ.

        With `excess_only`, Σ w (clip(∇ℓ, bound) − ∇ℓ): the change that clipping makes.
        """
        if is_linear(self.loss):
            total = self._sum(lambda rows: self._linear(self.loss, rows, theta, bound, excess_only), len(theta))
        else:
            total = self._sum(lambda rows: self._general(rows, theta, bound), len(theta))
        return total[:, :-1], float(total[:, -1].sum())

    def _linear(self, loss: Any, rows: slice, theta: Array, bound: float, excess_only: bool) -> Array:
        x, y, w = self.records.features[rows], self.records.target[rows], self.records.weight[rows]
        out = np.empty((len(theta), theta.shape[1] + 1))
        slope = loss.slope(x @ theta.T, y[:, None])
        counted: float | Array = 0.0
        bound *= 1.0 + 1e-12  # features scaled to the bound exactly miss it by a rounding: that is not clipping
        if self._largest > bound or excess_only:
            norms = self.norms[rows]
            limit = np.divide(bound, norms, out=np.full_like(norms, np.inf), where=norms > bound / np.finfo(float).max)
            if excess_only or float(np.abs(slope).max(initial=0.0)) > limit.min(initial=np.inf):
                clipped = np.clip(slope, -limit[:, None], limit[:, None])
                counted = w @ (clipped != slope).astype(np.float64)
                if excess_only:
                    clipped -= slope
                slope = clipped
        if not self.records.plain:
            slope *= w[:, None]
        # Not matmul(..., out=): into a strided array it does without BLAS.
        out[:, :-1] = slope.T @ x
        out[:, -1] = counted
        return out

    @cached_property
    def _largest(self) -> float:
        """sup ‖∇ℓ‖ over all predictions; where Ξ is above it, clipping is skipped."""
        if not is_linear(self.loss):
            return np.inf
        steepest = self.loss.slope_bound(np.inf, float(np.abs(self.records.target).max(initial=0.0)))
        return steepest * float(self.norms.max(initial=0.0))

    def _general(self, rows: slice, theta: Array, bound: float) -> Array:
        x, y, w = self.records.features[rows], self.records.target[rows], self.records.weight[rows]
        out = np.empty((len(theta), theta.shape[1] + 1))
        for run, t in enumerate(theta):
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
        result: Array = np.sum(totals, axis=0)
        return result
