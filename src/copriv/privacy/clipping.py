"""Means to which each record contributes a bounded amount: of clipped gradients, and of second moments.

**Gradients**, clipped one by one to L1 norm Ξ. Formal guarantee: for any two sets of records of the same total weight n
that differ in one unit (one record, or one person whose rows' weights add up to 1), at any θ,

    ‖clipped_mean(D, θ) − clipped_mean(D′, θ)‖₁ ≤ 2Ξ/n        (A, Appendix A; S, Appendix A)

because the unit contributes a weighted sum of vectors of L1 norm at most Ξ with weights that add up to 1. Clipped to
Ξ in L2 (`order = 2`, for normal noise) the same holds with L2 norms. It requires that row r of the loss's gradients depends
on θ and record r alone.

In floating point the two sums are also rounded differently, by an amount that grows with the sum (nΞ) and not with the
difference (2Ξ); `mean_sensitivity` includes it. The error of a dot product of k terms is at most k·2⁻⁵³ of the sum of their
absolute values, in any order of summation; blocks have k = BLOCK, and `fsum` sums the blocks with one rounding.

| edge case                                   | what happens                                                   |
| ------------------------------------------- | -------------------------------------------------------------- |
| a gradient of L1 norm exactly Ξ             | unchanged                                                      |
| a gradient of 0                             | unchanged (no division)                                        |
| a gradient with an infinite or NaN entry    | contributes 0: a constant, so the guarantee stays              |
| a gradient above 1e307 times Ξ              | contributes 0: the factor would be too small to be accurate    |
| gradients of another shape than the records | InvalidInput                                                   |
| `bound` is inf                              | nothing is clipped; only for a bound that is proved elsewhere  |

**Second moments** of rows scaled to ‖x‖₁ ≤ B (`mean_moments`): one unit's contribution has an L1 norm of at most
`bound_on_moments`. The guarantee is stated with their mechanism, in `copriv.mechanisms.statistics`.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.errors import DataError, InvalidInput
from copriv.model.records import BLOCK, InBlocks, Records
from copriv.privacy.noise import Order
from copriv.types import Array, Loss, is_linear

ROUNDING = (BLOCK + 128) * 2.0**-53
"""Rounding error of a mean relative to Ξ: that of a block's sum, and 128 for the weights, their sum and the division."""
SMALLEST_FACTOR = float(np.finfo(np.float64).tiny)
"""Smallest normal float. Smaller factors have fewer digits, and the scaled row could be longer than the bound."""


def mean_sensitivity(bound: float, units: int) -> float:
    """L1 sensitivity of `clipped_mean_gradient` to one unit replaced, in floating point: 2Ξ/n and its rounding."""
    return 2.0 * bound / units + 2.0 * bound * ROUNDING


def row_norms(rows: Float[Array, "records p"], order: Order = 1) -> Float[Array, " records"]:
    """‖row‖₁ or ‖row‖₂ of each row."""
    if order == 2:
        return np.asarray(np.hypot.reduce(rows, axis=1))
    return np.asarray(np.abs(rows).sum(axis=1))


def clip_rows(gradients: Float[Array, "records p"], bound: float, order: Order = 1) -> Float[Array, "records p"]:
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
    loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"], bound: float, order: Order = 1
) -> Float[Array, " p"]:
    """Σ w clip(∇ℓ, Ξ)/n at one θ, an owner's answer before noise, in one pass over blocks.

    The result is the same whether or not the blocks are in memory: their sums are equal, and are added exactly.
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
    """Sum of arrays of one shape, with one rounding per number."""
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        with np.errstate(all="ignore"):  # a warning would tell of single rows
            total = np.asarray(parts[0] + parts[1])  # one rounding, too
        if np.isfinite(total).all():
            return total + 0.0  # as of `fsum`, no −0
    numbers = np.stack([part.ravel() for part in parts], axis=1).tolist()
    return np.array([math.fsum(each) for each in numbers]).reshape(parts[0].shape)


def _clipped_sum(loss: Loss, block: Records, theta: Float[Array, " p"], bound: float, order: Order) -> Array:
    """Σ w clip(∇ℓ, Ξ) over a block. For a linear loss the gradient is φ′·x, and is clipped by clipping φ′ to ±Ξ/‖x‖."""
    x, y, w = block.features, block.target, block.weight
    if not is_linear(loss):
        return np.asarray(w @ clip_rows(of_shape(loss, loss.gradients(theta, x, y), x.shape), bound, order))
    limit = kept_limits(block, bound, order)
    # Not x @ theta, whose last bits depend on a row's place in the block: an additional row of one person would change the
    # predictions of others, and at the hinge's kink a last bit changes the whole gradient.
    predictions = np.einsum("ij,j->i", x, theta)
    slope = of_shape(loss, loss.slope(predictions, y), y.shape)
    if not np.isfinite(slope).all():
        slope = np.nan_to_num(slope, nan=0.0, posinf=0.0, neginf=0.0)
    return np.asarray((w * np.minimum(np.maximum(slope, -limit), limit)) @ x)


def kept_limits(block: Records, bound: float, order: Order) -> Float[Array, " records"]:
    """`slope_limits` of a block's rows, computed once."""
    limit = block.clipping_limits.get((bound, order))
    if limit is None:
        norms = block.lengths
        if order == 2:
            norms = row_norms(block.features, order)
        limit = slope_limits(norms, bound)
        limit.flags.writeable = False  # it is cached, and enforces the bound
        block.clipping_limits[bound, order] = limit
    return limit


def slope_limits(norms: Float[Array, " records"], bound: float) -> Float[Array, " records"]:
    """Ξ/‖x‖ of rows of these norms: the slope φ′ at which a linear loss's gradient φ′·x is as long as Ξ.

    0 where that has fewer digits than a float should, and infinite for a row of zeros.
    """
    limit: Array = np.divide(bound, norms, out=np.full_like(norms, np.inf), where=norms > 0)
    limit[limit < SMALLEST_FACTOR] = 0.0
    return limit


def of_shape(loss: Loss, values: Any, shape: tuple[int, ...]) -> Array:
    # A column broadcast over p coordinates would have p times its L1 norm, and 32-bit values would exceed the bound by 1e-7.
    if np.shape(values) != shape:
        raise InvalidInput(
            f"loss {loss.name!r}: gave shape {np.shape(values)} where {shape} is needed: one for each record"
        )
    return np.asarray(values, dtype=np.float64)


def bound_on_moments(feature_bound: float, intercept: bool) -> float:
    """M: bound on the L1 norm of a unit's second moments, without the constant 1 of an intercept."""
    B = feature_bound
    return B * B + 2.0 * B * intercept


def multiplicity(n_parameters: int) -> Float[Array, " moments"]:
    """Number of times that each upper-triangle entry occurs in the symmetric matrix: 1 on the diagonal, 2 off it."""
    row, column = np.triu_indices(n_parameters)
    return np.where(row == column, 1.0, 2.0)


def unpack(moments: Float[Array, "*batch moments"], n_parameters: int) -> Float[Array, "*batch p p"]:
    """The symmetric matrix of an upper triangle, row by row."""
    row, column = np.triu_indices(n_parameters)
    matrix = np.empty((*moments.shape[:-1], n_parameters, n_parameters))
    matrix[..., row, column] = matrix[..., column, row] = moments
    return matrix


def scaled_rows(features: Float[Array, "records p"], bound: float, intercept: bool) -> Float[Array, "records p"]:
    """Rows scaled to ‖x‖₁ ≤ bound without the intercept, as the sensitivity assumes, and the intercept set to 1."""
    x = features.copy()
    own = x[:, : x.shape[1] - intercept]
    norms = np.abs(own).sum(axis=1)
    own *= np.minimum(1.0, slope_limits(norms, bound))[:, None]
    if intercept:
        x[:, -1] = 1.0
    return x


def mean_moments(records: Records, bound: float, intercept: bool) -> Float[Array, " moments"]:
    """The upper triangle of Σ w xxᵀ/n over rows of `into_reach`, blocks added up with one rounding.

    An intercept's own moment is the number 1, not a sum: M has no room for its rounding, which may be more than a small B².
    """
    row, column = np.triu_indices(records.n_parameters)
    sums = []
    for rows in records.blocks():
        x = scaled_rows(rows.features, bound, intercept)
        sums.append(((rows.weight[:, None] * x).T @ x)[row, column])
    moments = exact_sum(sums) / records.weight.sum()
    if intercept:
        moments[-1] = 1.0
    return np.asarray(moments)
