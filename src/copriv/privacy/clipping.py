"""The mean gradient of records whose gradients are clipped, one by one, to L1 norm Ξ.

Formal guarantee: for any two sets of records of the same total weight n that differ in one unit (one record, or one
person whose rows' weights add up to 1), at any θ,

    ‖clipped_mean(D, θ) − clipped_mean(D′, θ)‖₁ ≤ 2Ξ/n        (A, Appendix A; S, Appendix A)

because the unit contributes a weighted sum of vectors of L1 norm at most Ξ with weights that add up to 1.

| edge case                                   | what happens                                                   |
| ------------------------------------------- | -------------------------------------------------------------- |
| a gradient of L1 norm exactly Ξ             | unchanged                                                      |
| a gradient of 0                             | unchanged (no division)                                        |
| a gradient with an infinite or NaN entry    | contributes 0: a constant, so the guarantee stays              |
| `bound` is inf                              | nothing is clipped; only for a bound that is proved elsewhere  |
"""

import numpy as np
from jaxtyping import Float

from copriv.records import Records
from copriv.types import Array, LinearLoss, Loss

BLOCK = 4096
"""Rows a block: their predictions for one θ stay in the nearest cache."""


def clip_l1(gradients: Float[Array, "records p"], bound: float) -> Float[Array, "records p"]:
    """Each row scaled by min(1, bound/‖row‖₁); a row that is not finite becomes 0."""
    finite = np.asarray(np.isfinite(gradients).all(axis=1))
    if not finite.all():
        gradients = np.where(finite[:, None], gradients, 0.0)
    norms = np.abs(gradients).sum(axis=1)
    factor: Array = np.ones_like(norms)
    np.divide(bound, norms, out=factor, where=norms > bound)
    return gradients * factor[:, None]


def clipped_mean_gradient(loss: Loss, records: Records, theta: Float[Array, " p"], bound: float) -> Float[Array, " p"]:
    """Σ w clip(∇ℓ, Ξ)/n at one θ: what an owner computes for one answer, one pass in blocks.

    For a linear loss the gradient is φ′·x, and clipping it is clipping φ′ to ±Ξ/‖x‖₁.
    """
    total = np.zeros_like(theta)
    for start in range(0, len(records), BLOCK):
        rows = slice(start, start + BLOCK)
        x, y, w = records.features[rows], records.target[rows], records.weight[rows]
        if isinstance(loss, LinearLoss):
            norms = np.abs(x).sum(axis=1)
            limit = np.divide(bound, norms, out=np.full_like(norms, np.inf), where=norms > 0)
            slope = np.nan_to_num(loss.slope(x @ theta, y), nan=0.0, posinf=0.0, neginf=0.0)
            total += (w * np.clip(slope, -limit, limit)) @ x
        else:
            total += w @ clip_l1(loss.gradients(theta, x, y), bound)
    mean: Array = total / records.weight.sum()
    return mean
