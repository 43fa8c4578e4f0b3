"""The mean gradient of records whose gradients are clipped, one by one, to L1 norm Ξ.

Formal guarantee: for any two sets of records of the same total weight n that differ in one unit (one record, or one
person whose rows' weights add up to 1), at any θ,

    ‖clipped_mean(D, θ) − clipped_mean(D′, θ)‖₁ ≤ 2Ξ/n        (A, Appendix A; S, Appendix A)

because the unit contributes a weighted sum of vectors of L1 norm at most Ξ with weights that add up to 1. Clipped to
Ξ in L2 (`order = 2`, for normal noise) the same holds with L2 norms. It needs
a loss that looks at one row at a time: row r of its gradients depends on θ and on record r alone.

Floating point adds to that: the two sums are rounded differently, by an amount that grows with the sum (nΞ) and not
with the difference (2Ξ). `mean_sensitivity` is 2Ξ/n with that included. A dot product of k terms is wrong by at most
k·2⁻⁵³ of the sum of their sizes in whatever order it adds them up; blocks have k = BLOCK, and `fsum` adds up the blocks
with one rounding.

| edge case                                   | what happens                                                   |
| ------------------------------------------- | -------------------------------------------------------------- |
| a gradient of L1 norm exactly Ξ             | unchanged                                                      |
| a gradient of 0                             | unchanged (no division)                                        |
| a gradient with an infinite or NaN entry    | contributes 0: a constant, so the guarantee stays              |
| a gradient above 1e307 times Ξ              | contributes 0: the factor would be too small to be accurate    |
| gradients of another shape than the records | InvalidInput                                                   |
| `bound` is inf                              | nothing is clipped; only for a bound that is proved elsewhere  |
"""

import math
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from copriv.errors import DataError, InvalidInput
from copriv.model.records import BLOCK as BLOCK
from copriv.model.records import InBlocks, Records
from copriv.types import Array, Loss, is_linear

ROUNDING = (BLOCK + 128) * 2.0**-53
"""Rounding error of a mean, as a share of Ξ: a block's sum, and 128 for the weights, their sum and the division."""
SMALLEST_FACTOR = float(np.finfo(np.float64).tiny)
"""Below it a float has fewer digits, and bound/‖row‖₁ times the row could be longer than the bound."""


def mean_sensitivity(bound: float, units: int) -> float:
    """How far one unit replaced can move `clipped_mean_gradient` in L1, in floating point: 2Ξ/n and its rounding."""
    Ξ, n = bound, units
    return 2.0 * Ξ / n + 2.0 * Ξ * ROUNDING


def row_norms(rows: Float[Array, "records p"], order: Literal[1, 2] = 1) -> Float[Array, " records"]:
    """‖row‖₁ or ‖row‖₂."""
    return np.asarray(np.abs(rows).sum(axis=1) if order == 1 else np.hypot.reduce(rows, axis=1))


def clip_rows(
    gradients: Float[Array, "records p"], bound: float, order: Literal[1, 2] = 1
) -> Float[Array, "records p"]:
    """Each row scaled by min(1, bound/‖row‖); a row that is not finite becomes 0."""
    finite = np.asarray(np.isfinite(gradients).all(axis=1))
    if not finite.all():
        gradients = np.where(finite[:, None], gradients, 0.0)
    norms = row_norms(gradients, order)
    factor: Array = np.ones_like(norms)
    np.divide(bound, norms, out=factor, where=norms > bound)
    factor[factor < SMALLEST_FACTOR] = 0.0
    return gradients * factor[:, None]


def clipped_mean_gradient(
    loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"], bound: float, order: Literal[1, 2] = 1
) -> Float[Array, " p"]:
    """Σ w clip(∇ℓ, Ξ)/n at one θ: what an owner computes for one answer, one pass in blocks.

    It does not depend on whether the blocks are in memory: their sums are the same, and are added up exactly.
    """
    sums, weights = [], []
    for block in records.blocks():
        if len(block) > BLOCK:
            raise DataError(f"records: a block of {len(block)} rows; the noise covers the rounding of at most {BLOCK}")
        sums.append(_clipped_sum(loss, block, theta, bound, order))
        weights.append(block.total)
    if not isinstance(records, Records) and abs(math.fsum(weights) - records.units) > 1e-6:
        raise DataError(f"records: stand for {math.fsum(weights):g} units, and {records.units} were agreed")
    return np.asarray(exact_sum(sums) / math.fsum(weights))


def exact_sum(parts: list[Array]) -> Array:
    """Σ of vectors, with one rounding a coordinate however many there are."""
    if len(parts) == 1:
        return parts[0]
    return np.array([math.fsum(coordinate) for coordinate in np.stack(parts, axis=1).tolist()])


def _clipped_sum(
    loss: Loss, block: Records, theta: Float[Array, " p"], bound: float, order: Literal[1, 2]
) -> Float[Array, " p"]:
    """For a linear loss the gradient is φ′·x, and clipping it is clipping φ′ to ±Ξ/‖x‖₁."""
    x, y, w = block.features, block.target, block.weight
    if not is_linear(loss):
        return np.asarray(w @ clip_rows(_shaped(loss, loss.gradients(theta, x, y), x.shape), bound, order))
    limit = block.clipping_limits.get((bound, order))
    if limit is None:
        limit = block.clipping_limits[bound, order] = _limits(block, bound, order)
    # Not x @ theta: its last bits depend on where in the block a row stands. A person with one row more would
    # move all the others, and at the hinge's kink a last bit is a whole gradient.
    predictions = np.einsum("ij,j->i", x, theta)
    slope = _shaped(loss, loss.slope(predictions, y), y.shape)
    if not np.isfinite(slope).all():
        slope = np.nan_to_num(slope, nan=0.0, posinf=0.0, neginf=0.0)
    return np.asarray((w * np.minimum(np.maximum(slope, -limit), limit)) @ x)


def _limits(block: Records, bound: float, order: Literal[1, 2]) -> Float[Array, " records"]:
    norms = block.lengths if order == 1 else row_norms(block.features, order)
    limit: Array = np.divide(bound, norms, out=np.full_like(norms, np.inf), where=norms > 0)
    limit[limit < SMALLEST_FACTOR] = 0.0
    limit.flags.writeable = False  # it is kept, and nothing else enforces the bound
    return limit


def _shaped(loss: Loss, values: Any, shape: tuple[int, ...]) -> Array:
    # A column that is broadcast over p coordinates is p times as long in L1, and 32 bits clip to within 1e-7 only.
    if np.shape(values) != shape:
        raise InvalidInput(
            f"loss {loss.name!r}: gave shape {np.shape(values)} where {shape} is needed: one for each record"
        )
    return np.asarray(values, dtype=np.float64)
