"""Prediction quantiles of a run in a new world, from a few runs in each of a few worlds.

Where the outcome of a run depends on its world and not on the noise, W worlds are W draws, whatever the number of runs in
each. A new draw is below the i-th smallest of W with probability i/(W + 1), not i/W.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from copriv.types import Array

BAND = (0.05, 0.95)
"""Probabilities of a band, which contains 90 % of runs."""


def quantiles(
    draws: Float[Array, "worlds runs *rest"], probabilities: Sequence[float] = BAND
) -> Float[Array, "probabilities *rest"]:
    """Prediction quantiles of a run in a new world, within the range of the runs drawn.

    With n independent draws (`independent`), probability p is at the fraction (p (n + 1) − ½)/n of the runs drawn: 5 % is at
    3.6 % for n = 32. A draw is the mean of the neighbouring runs that it represents.
    """
    worlds, runs, *rest = draws.shape
    p = np.asarray(probabilities, dtype=np.float64)
    columns, each = draws.reshape(worlds * runs, -1), np.atleast_1d(independent(draws)).ravel()
    near = np.linspace(-0.5, 0.5, runs)
    found = []
    for column, n in zip(columns.T, each, strict=True):
        at = (p[:, None] * (n + 1.0) - 0.5) / n + near * (1.0 / n - 1.0 / len(column))
        found.append(np.quantile(column, np.clip(at, 0.0, 1.0), method="hazen").mean(axis=1))
    return np.array(found).T.reshape(len(p), *rest)


def independent(draws: Float[Array, "worlds runs *rest"]) -> Float[Array, " *rest"]:
    """The effective number of independent draws, between the number of worlds and that of all runs.

    It follows from the intraclass correlation of ranks (one-way analysis of variance), which is invariant to units and
    robust to long tails.
    """
    worlds, runs, *rest = draws.shape
    rank = np.array([_ranks(column) for column in draws.reshape(worlds * runs, -1).T]).T.reshape(worlds, runs, -1)
    means = rank.mean(axis=1)
    between = runs * means.var(axis=0, ddof=1)
    within = ((rank - means[:, None]) ** 2).sum(axis=(0, 1)) / max(worlds * (runs - 1), 1)
    every = between + (runs - 1) * within
    alike = np.divide(between - within, every, out=np.zeros_like(every), where=every > 0)
    n = worlds * runs / (1.0 + (runs - 1) * np.clip(alike, 0.0, 1.0))
    return np.asarray(n.reshape(rest))


def _ranks(values: Float[Array, " n"]) -> Float[Array, " n"]:
    """Ranks; ties get their mean rank."""
    ordered = np.sort(values)
    first, last = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return np.asarray(0.5 * (first + last))
