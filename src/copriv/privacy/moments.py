"""Second moments of bounded records: their mean, its bound in L1, and how a symmetric matrix is written as numbers."""

from math import fsum

import numpy as np
from jaxtyping import Float

from copriv.model.records import Records
from copriv.privacy.clipping import BLOCK
from copriv.types import Array


def bound_on_moments(feature_bound: float, intercept: bool) -> float:
    """M: bound on the L1 norm of a unit's second moments, without the constant 1 of an intercept."""
    B = feature_bound
    return B * B + 2.0 * B if intercept else B * B


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


def into_reach(features: Float[Array, "records p"], bound: float, intercept: bool) -> Float[Array, "records p"]:
    """Rows scaled to ‖x‖₁ ≤ bound, as the sensitivity assumes, and the intercept set to 1."""
    x = features.copy()
    own = x[:, :-1] if intercept else x
    norms = np.abs(own).sum(axis=1)
    with np.errstate(over="ignore"):
        own *= np.minimum(1.0, bound / np.maximum(norms, np.finfo(float).tiny))[:, None]
    if intercept:
        x[:, -1] = 1.0
    return x


def mean_moments(records: Records, bound: float, intercept: bool) -> Float[Array, " moments"]:
    """The upper triangle of Σ w xxᵀ/n over rows of `into_reach`, blocks added up with one rounding as in `clipping`."""
    row, column = np.triu_indices(records.n_parameters)
    sums = []
    for start in range(0, len(records), BLOCK):
        rows = slice(start, start + BLOCK)
        x = into_reach(records.features[rows], bound, intercept)
        sums.append(((records.weight[rows, None] * x).T @ x)[row, column])
    total = np.array([fsum(entry) for entry in np.stack(sums, axis=1)])
    return np.asarray(total / records.weight.sum())
