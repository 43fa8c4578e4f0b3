"""Where runs end in a world that nobody has drawn yet: quantiles of runs in a few worlds, with worlds' own chance in them.

Runs in one world end near one another where worlds decide and noise does not. Then W worlds are W draws, however many runs
each has, and the smallest of W draws is not the end of what there is: a new draw is below the i-th smallest of W with the
probability i/(W + 1), and not i/W.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from copriv.types import Array

BAND = (0.05, 0.95)
"""A band holds 90 % of runs."""


def quantiles(
    draws: Float[Array, "worlds runs *rest"], probabilities: Sequence[float] = BAND
) -> Float[Array, "probabilities *rest"]:
    """What a run in a new world is below with each probability; as far as the drawn ones reach, never beyond.

    With n draws that count (see `independent`) the probability p is that of the fraction (p (n + 1) − ½)/n of all that were
    drawn: for n = 32, 5 % is at 3.6 %. Each of n is the mean of as many neighbours as it stands for, so that a world whose
    runs end together counts as one number.
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
    """How many independent draws they are worth: from as many as worlds, if a world decides, to as many as runs, if noise does.

    By the correlation of ranks within worlds (analysis of variance, one way), which no unit and no long tail moves.
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
    """Where each stands; equal ones at the mean of their places."""
    ordered = np.sort(values)
    first, last = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return np.asarray(0.5 * (first + last))
