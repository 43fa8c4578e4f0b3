"""Robust aggregation: the owners' answers as one vector that a few lying owners move little (`agreement.robust`).

All owners answer each round at one θ. The noise of an owner's answers averages out over rounds, and a lie that is repeated does
not. What is aggregated is therefore each owner's running mean: with S_i,k the sum of owner i's answers in rounds 1 … k and R a
robust mean of N vectors,

    G_k = k R(S_1,k/k, …, S_N,k/k) − (k−1) R(S_1,k−1/(k−1), …, S_N,k−1/(k−1)),

so that Σ_{j ≤ k} G_j is k times a robust mean. Where R is the mean, G_k is that of the answers of round k. Where owners agree
and nobody adds noise, it is their answer, whatever R is.

R mixes neighbours first: each vector is replaced by the mean of the N − f nearest to it, itself among them (Allouah et al.
2023, "Fixing by mixing"). Then follows the trimmed mean (Yin et al. 2018) or the geometric median (Pillutla et al. 2022).
Every owner counts once, as numbers of records are the owners' own word. Fewer than half of the owners may lie.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from copriv.terms import Terms
from copriv.types import Array

Vectors = Float[Array, "runs owners p"]
Means = Float[Array, "runs p"]


def trimmed_mean(vectors: Vectors, liars: int) -> Means:
    """Mean in each coordinate without its f smallest and f largest values.

    >>> import numpy as np
    >>> trimmed_mean(np.array([[[1.0], [2.0], [4.0], [1e9]]]), 1)
    array([[3.]])
    """
    inner = np.sort(vectors, axis=1)[:, liars : vectors.shape[1] - liars]
    return np.asarray(inner.mean(axis=1))


def geometric_median(vectors: Vectors, liars: int = 0) -> Means:
    """The point with the least sum of distances to the vectors, by Weiszfeld's algorithm.

    >>> import numpy as np
    >>> geometric_median(np.array([[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [9.0, 9.0]]])).round(6)
    array([[0., 0.]])
    """
    point: Array = np.median(vectors, axis=1)
    for _ in range(50):  # of mixed vectors, the median is then reached to 1e-6 of their distances
        distance = np.linalg.norm(vectors - point[:, None], axis=2)
        # A vector at the point itself gets a finite weight; its size is one that few vectors cannot decide.
        least = 1e-9 * np.median(distance, axis=1, keepdims=True)
        weight = 1.0 / np.maximum(distance, np.maximum(least, 1e-290))
        point = (weight[:, None, :] @ vectors)[:, 0] / weight.sum(axis=1, keepdims=True)
    return point


def mixed(vectors: Vectors, liars: int) -> Vectors:
    """Each vector replaced by the mean of the N − f nearest to it, itself among them.

    >>> import numpy as np
    >>> mixed(np.array([[[0.0], [1.0], [1e9]]]), 1)[0, :2, 0].tolist()
    [0.5, 0.5]
    """
    kept = vectors.shape[1] - liars
    apart = vectors - np.median(vectors, axis=1, keepdims=True)
    squares = np.square(apart).sum(axis=2)
    distance = squares[:, :, None] + squares[:, None, :] - 2.0 * apart @ apart.transpose(0, 2, 1)
    share = np.zeros_like(distance)
    np.put_along_axis(share, np.argsort(distance, axis=2, kind="stable")[:, :, :kept], 1.0 / kept, axis=2)
    return np.asarray(share @ vectors)


MEANS: dict[str, Callable[[Vectors, int], Means]] = {
    "trimmed-mean": trimmed_mean,
    "geometric-median": geometric_median,
}
"""Robust means by their value of `agreement.robust_by`."""


class RobustAggregation:
    """The vector of each round from the answers of all owners, for many runs at once.

    >>> import numpy as np
    >>> from copriv.terms import Terms
    >>> together = RobustAggregation(Terms(rule="S2", horizon=9, robust=1))
    >>> together.vector(np.array([[[1.0], [1.0], [1.0], [-1e6]]]))
    array([[1.]])
    """

    def __init__(self, terms: Terms) -> None:
        assert terms.robust is not None
        self._liars, self._mean = terms.robust, MEANS[terms.robust_by or "trimmed-mean"]
        self._rounds = 0
        self._sums: Array | float = 0.0
        self._before: Array | float = 0.0

    def vector(self, answers: Vectors) -> Means:
        """G_k, from one answer of each owner to the query of round k."""
        self._rounds += 1
        self._sums = self._sums + answers
        total = self._rounds * self._mean(mixed(self._sums / self._rounds, self._liars), self._liars)
        vector, self._before = total - self._before, total
        return np.asarray(vector)
