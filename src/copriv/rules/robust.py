"""Robust aggregation: the owners' answers as one vector that a few lying owners move little (`agreement.robust`).

All owners answer each round at one θ. The noise of an owner's answers averages out over rounds, and a lie that is repeated does
not. What is aggregated is therefore each owner's running mean: with S_i,k the sum of owner i's answers in rounds 1 … k and R a
robust mean of N vectors,

    G_k = k R(S_1,k/k, …, S_N,k/k) − (k−1) R(S_1,k−1/(k−1), …, S_N,k−1/(k−1)),

so that Σ_{j ≤ k} G_j is k times a robust mean. Where R is the mean, G_k is that of the answers of round k. Where owners agree
and nobody adds noise, it is their answer, whatever R is.

R is the **filtered mean** where the agreement names no other (`agreement.robust_by`). The law of each owner's noise is known,
so that it is known how far the mean of some owners may be from that of the others. The set of at most f owners that is
farthest in these units is left out where noise alone would hardly ever reach so far, and the search goes on among the others
(filters of robust statistics; Diakonikolas et al. 2019; for private answers Allouah et al. 2025, CafCor). Distances are those
of all p numbers, and those along the mean answer, against which a lie does most harm. Owners that are nearer to each other
than their noise allows, as copies are, count as one together. Owners with more noise than the median count less, by inverse
variance.

The **trimmed mean** (Yin et al. 2018) and the **geometric median** (Pillutla et al. 2022) know nothing of the noise.
Neighbours are mixed before them: each vector is replaced by the mean of the N − f nearest to it, itself among them (Allouah
et al. 2023, "Fixing by mixing"), and every owner counts once. **CAF**, the covariance filter of CafCor (Allouah et al. 2025),
knows nothing of it either: vectors count less, the farther they are along the direction in which all vary most.

No owner counts more than once, as numbers of records are the owners' own word. Fewer than half of the owners may lie.
"""

from collections.abc import Callable
from functools import lru_cache
from math import comb

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import gammaincinv

from copriv.privacy.noise import Law
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
    distance = _distances(apart)
    share = np.zeros_like(distance)
    np.put_along_axis(share, np.argsort(distance, axis=2, kind="stable")[:, :, :kept], 1.0 / kept, axis=2)
    return np.asarray(share @ vectors)


def caf(vectors: Vectors, liars: int) -> Means:
    """Weighted mean whose vectors vary least: the covariance bound-agnostic filter of CafCor.

    Weights begin at 1. While their sum is above N − 2f, each falls by its vector's squared distance from the mean along the
    first principal direction, as a share of the largest, which falls to 0. Of the means on the way, returns the one with the
    least variance along that direction.

    >>> import numpy as np
    >>> caf(np.array([[[1.0], [2.0], [3.0], [1e9]]]), 1)
    array([[2.]])
    """
    runs, N, p = vectors.shape
    weight, least, best = np.ones((runs, N)), np.full(runs, np.inf), np.zeros((runs, p))
    left = np.arange(runs)
    while len(left):
        share = weight[left] / weight[left].sum(axis=1, keepdims=True)
        mean = (share[:, None] @ vectors[left])[:, 0]
        apart = vectors[left] - mean[:, None]
        root = np.sqrt(share)[:, :, None] * apart
        # The Gram matrix of N vectors has the eigenvalues of their covariance, and N is usually below p.
        values, combined = np.linalg.eigh(root @ root.transpose(0, 2, 1))
        variance, direction = values[:, -1], (combined[:, None, :, -1] @ root)[:, 0]
        direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-290)
        better = variance < least[left]
        least[left[better]], best[left[better]] = variance[better], mean[better]
        distance = np.where(weight[left] > 0.0, np.square(apart @ direction[:, :, None])[:, :, 0], 0.0)
        farthest = distance.max(axis=1, keepdims=True)
        weight[left] *= 1.0 - distance / np.maximum(farthest, 1e-290)
        left = left[(weight[left].sum(axis=1) > N - 2 * liars) & (farthest[:, 0] > 0.0)]
    return best


CHANCE = 0.03
"""Probability, at most, that noise alone makes the filter count two owners as one in a round, or leave some out altogether."""
DOUBT = 0.7
"""From this share of the squared distance at which owners are left out, they count less. With both constants so, no lie on the
usual list costs more than 1.5 times on the three tables that they were chosen on, and 1.7 times on six others; honesty costs at
most 1.2 times (`tests/rules/test_robust.py`)."""
Weights = Float[Array, "runs owners"]


def filtered_mean(vectors: Vectors, liars: int, variance: Float[Array, " owners"], excess: float = 0.0) -> Means:
    """Mean without the at most f owners that are farther from the others than the law of the noise explains.

    variance, excess: of each number of an owner's noise, its variance and its excess kurtosis.

    >>> import numpy as np
    >>> filtered_mean(np.array([[[1.0], [2.0], [3.0], [1e9]]]), 1, np.ones(4))
    array([[2.]])
    """
    centre = np.median(vectors, axis=1, keepdims=True)
    apart = vectors - centre
    p = vectors.shape[2]
    near = _distances(apart) < (variance[:, None] + variance) * _square(p, excess / 2, CHANCE / comb(len(variance), 2))
    copies = np.maximum(near.sum(axis=2), 1)
    weight = np.minimum(1.0, np.median(variance) / variance) / copies
    mean = centre[:, 0] + (weight[:, None] @ apart)[:, 0] / weight.sum(axis=1, keepdims=True)
    along = apart @ (mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-290))[:, :, None]
    # Owners whose records differ are farther apart than their noise. The median of the distances has it.
    differ = np.median(np.square(apart).sum(axis=2) / variance, axis=1) / _square(p, excess, 0.5)
    noise = weight**2 * variance * copies * np.maximum(differ, 1.0)[:, None]
    left = np.arange(len(vectors))
    while len(left):
        w, v = weight[left], noise[left]
        whole, some = _farthest(apart[left], w, v, liars, excess, CHANCE)
        one, others = _farthest(along[left], w, v, liars, excess, CHANCE)
        distance = np.maximum(one, whole)
        out = np.where((one > whole)[:, None], others, some)
        weight[left] = np.where(out, w * np.clip((1.0 - distance) / (1.0 - DOUBT), 0.0, 1.0)[:, None], w)
        left = left[distance >= 1.0]
    inner = np.where((weight > 0.0)[:, :, None], apart, 0.0)
    return np.asarray(centre[:, 0] + (weight[:, None] @ inner)[:, 0] / weight.sum(axis=1, keepdims=True))


def _farthest(
    apart: Vectors, weight: Weights, noise: Weights, liars: int, excess: float, chance: float
) -> tuple[Float[Array, " runs"], Bool[Array, "runs owners"]]:
    """The set of owners whose mean is farthest from the others', as a multiple of the squared distance that noise allows.

    weight: 0 for owners that are left out already. noise: variance of each owner's part of a weighted sum.
    """
    (runs, N, p), row = apart.shape, np.arange(len(apart))
    there = weight > 0.0
    total, most = weight.sum(axis=1)[:, None], liars - (~there).sum(axis=1)
    apart = np.where(there[:, :, None], apart - (weight[:, None] @ apart) / total[:, :, None], 0.0)
    all_noise = (noise * there).sum(axis=1)[:, None]
    farthest, members = np.zeros(runs), np.zeros((runs, N), dtype=bool)
    directions = apart
    for _ in range(2):  # the owners farthest in the direction of each owner, and then in those of the sets' own means
        reach = np.where(there[:, None], directions @ apart.transpose(0, 2, 1), -np.inf)
        order = np.argsort(-reach, axis=2, kind="stable")
        sum_, share, variance = np.zeros((runs, N, p)), np.zeros((runs, N)), np.zeros((runs, N))
        ratio, size, directions = np.full((runs, N), -1.0), np.zeros((runs, N), dtype=int), np.zeros((runs, N, p))
        for s in range(1, int(most.max(initial=0)) + 1):
            i = order[:, :, s - 1]
            w = weight[row[:, None], i]
            sum_ += w[:, :, None] * apart[row[:, None], i]
            share, variance = share + w, variance + noise[row[:, None], i] * (w > 0.0)
            others = np.maximum(total - share, 1e-290)
            between = sum_ * (1.0 / np.maximum(share, 1e-290) + 1.0 / others)[:, :, None]
            allowed = variance / np.maximum(share, 1e-290) ** 2 + np.maximum(all_noise - variance, 0.0) / others**2
            allowed *= _square(p, excess / s, 1.0 - chance / comb(N, s))
            found = np.where((s <= most)[:, None], np.square(between).sum(axis=2) / np.maximum(allowed, 1e-290), -1.0)
            better = found > ratio
            ratio, size = np.where(better, found, ratio), np.where(better, s, size)
            directions = np.where(better[:, :, None], between, directions)
        best = ratio.argmax(axis=1)
        rank = np.argsort(order[row, best], axis=1)
        better = ratio[row, best] > farthest
        farthest = np.where(better, ratio[row, best], farthest)
        members = np.where(better[:, None], rank < size[row, best][:, None], members)
    return farthest, members


@lru_cache(maxsize=10_000)
def _square(p: int, excess: float, probability: float) -> float:
    """Quantile of the sum of p squares of independent numbers of variance 1: the gamma law of its mean and variance."""
    spread = 2.0 + excess
    return float(spread * gammaincinv(p / spread, probability))


def _distances(apart: Vectors) -> Float[Array, "runs owners owners"]:
    """Squared distances between owners."""
    squares = np.square(apart).sum(axis=2)
    return np.asarray(squares[:, :, None] + squares[:, None, :] - 2.0 * apart @ apart.transpose(0, 2, 1))


MEANS: dict[str, Callable[[Vectors, int], Means]] = {
    "trimmed-mean": lambda vectors, liars: trimmed_mean(mixed(vectors, liars), liars),
    "geometric-median": lambda vectors, liars: geometric_median(mixed(vectors, liars), liars),
    "caf": caf,
}
"""Robust means that know nothing of the noise, by their value of `agreement.robust_by`."""


class RobustAggregation:
    """The vector of each round from the answers of all owners, for many runs at once.

    law, scales: of the noise of each owner's answers.

    >>> import numpy as np
    >>> from copriv.privacy.noise import Law
    >>> from copriv.terms import Terms
    >>> together = RobustAggregation(Terms(rule="S2", horizon=9, robust=1), Law.LAPLACE, np.full(4, 0.1))
    >>> together.vector(np.array([[[1.0], [1.0], [1.0], [-1e6]]]))
    array([[1.]])
    """

    def __init__(self, terms: Terms, law: Law, scales: Float[Array, " owners"]) -> None:
        assert terms.robust is not None
        self._liars, self._mean = terms.robust, MEANS.get(terms.robust_by or "filter")
        self._variance, self._excess = np.maximum(law.variance * scales**2, 1e-200), law.excess
        self._rounds = 0
        self._sums: Array | float = 0.0
        self._before: Array | float = 0.0

    def vector(self, answers: Vectors) -> Means:
        """G_k, from one answer of each owner to the query of round k."""
        self._rounds += 1
        self._sums = self._sums + answers
        k, means = self._rounds, self._sums / self._rounds
        if self._mean is None:
            total = k * filtered_mean(means, self._liars, self._variance / k, self._excess / k)
        else:
            total = k * self._mean(means, self._liars)
        vector, self._before = total - self._before, total
        return np.asarray(vector)
