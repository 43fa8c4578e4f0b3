"""Shapley values: a fair division of what joining is worth.

The worth of a coalition is what its members save, v(C) = Σ_{i in C} max(0, without_i − cost(C)): an owner does not use a
model that is worse than what it has without joining. Single owners are worth 0. The values add up to the savings of all
owners for whom joining pays, and all of them are 0 only where it pays for none.
"""

from math import comb

import numpy as np
from jaxtyping import Bool, Float

from copriv.forecast.coalition_value import EXACT_OWNERS, Consortium, coalitions
from copriv.types import Array


def shapley_values(
    members: Consortium, samples: int = 2000, seed: int = 0
) -> tuple[Float[Array, " owners"], Float[Array, " owners"]]:
    """Shapley values of one owner of each entry, and their standard errors.

    They are exact up to EXACT_OWNERS, and else estimated from `samples` random coalitions or orders of the owners.
    """
    N, kinds = int(members.number.sum()), len(members.records)
    if N <= EXACT_OWNERS:
        values = np.bincount(members.entries, weights=_exact(members.one_by_one(), N), minlength=kinds)
        return values / members.number, np.zeros(kinds)
    if 2 * kinds <= N and kinds <= 64:
        return _by_kind(members, samples, seed)
    return _by_orders(members, samples, seed)


def _exact(members: Consortium, N: int) -> Array:
    every = coalitions(N)
    worth, values = np.concatenate([[0.0], _worth(members, every[1:])]), np.empty(N)
    share = np.array([1.0 / (N * comb(N - 1, int(size))) for size in every.sum(axis=1)[:-1]] + [0.0])
    for i in range(N):
        without = np.flatnonzero(~every[:, i])
        values[i] = float(share[without] @ (worth[without + (1 << i)] - worth[without]))
    return values


def _by_kind(members: Consortium, samples: int, seed: int) -> tuple[Array, Array]:
    """Estimate from the owners present when one more joins at a uniform time t in [0, 1] (Owen 1972).

    Each other owner is present with probability t, so that the number of each kind is binomial. The values add up to the
    worth of all owners; the difference is distributed in proportion to the variances, as in a regression.
    """
    rng, kinds = np.random.default_rng(seed), len(members.records)
    samples = max(samples, 1_000_000 // kinds**2)
    t = (np.arange(samples) + rng.random(samples)) / samples
    found = np.empty((samples, kinds))
    for j in range(kinds):
        one = np.arange(kinds) == j
        there = rng.binomial((members.number - one).astype(np.int64), t[:, None]).astype(np.float64)
        found[:, j] = _worth(members, there + one) - _worth(members, there)
    mean, variance = found.mean(axis=0), found.var(axis=0, ddof=1) / samples
    lacking = float(_worth(members, members.number[None])[0]) - float(members.number @ mean)
    pull = variance * members.number / max(float(members.number**2 @ variance), 1e-300)
    left = np.maximum(variance * (1.0 - members.number * pull), 0.0)
    return mean + pull * lacking, np.sqrt(left)


def _by_orders(members: Consortium, samples: int, seed: int) -> tuple[Array, Array]:
    """Estimate from random orders in which owners join."""
    N, kinds, of, rng = int(members.number.sum()), len(members.records), members.entries, np.random.default_rng(seed)
    has = members.without_joining
    if len(np.unique(has)) > 64:  # rounded to 64 levels
        span = np.log(np.maximum(has, 1e-12))
        step = max(float(np.ptp(span)) / 64, 1e-9)
        has = np.exp(np.round(span / step) * step)
    levels, which = np.unique(has, return_inverse=True)
    gains = np.empty((max(min(samples, 20_000_000 // N), 100), kinds))
    for row in gains:
        order = of[rng.permutation(N)]
        joined = members.priced(*(np.cumsum(each[order]) for each in members.sums))
        there = np.cumsum(which[order][:, None] == np.arange(len(levels)), axis=0)
        worth = (there * np.maximum(levels - joined[:, None], 0.0)).sum(axis=1)
        worth[0] = 0.0
        row[:] = np.bincount(order, np.diff(worth, prepend=0.0), kinds) / members.number
    return gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(len(gains))


def _worth(
    members: Consortium, coalition: Bool[np.ndarray, "many owners"] | Float[Array, "many owners"]
) -> Float[Array, " many"]:
    several = coalition.sum(axis=-1) >= 2
    cost = np.where(several, members.cost(coalition), np.inf)
    each = np.maximum(members.without_joining - cost[:, None], 0.0)
    saved = np.where(coalition > 0, coalition * each, 0.0).sum(axis=-1)
    return np.asarray(np.where(several, saved, 0.0))
