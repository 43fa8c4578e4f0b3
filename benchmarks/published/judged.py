"""What is asked of all cells together: never worse than nothing, monotone in ε and δ, and medians over tables.

A row is what `cells.measure` found, with its cell's facts. Two tests ask whether a cell is above what it may be: Welch's t
of its mean, and one of ranks (signs; between two cells Mann and Whitney's), because losses under noise have tails so heavy
that t never tells, even where every single fit is above. Family-wise: of m cells each test is at 1 %/(2m) (Bonferroni). A
cell whose mean is above, but not surely, is counted too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import binomtest, mannwhitneyu, ttest_ind

from benchmarks.published.cells import left, nothing_left

Row = dict[str, Any]
LEVEL = 0.01
"""Of the family-wise test."""
EXCESS = 0.01
"""Most that may be left beyond nothing, in units of the gap."""
SLACK = 0.05
"""Most by which more ε or δ may seem to hurt, in units of the gap."""


RUNS = 40
"""Fits of a cell from which "none surely" says something."""


@dataclass(frozen=True)
class Above:
    """By how much a mean is above what it may be, its standard error, and the smaller p of the two tests, doubled."""

    what: str
    excess: float
    error: float
    p: float
    runs: int

    def surely(self, tests: int) -> bool:
        """Whether it is above at the family-wise level."""
        return self.p < LEVEL / tests


def answered(rows: Iterable[Row]) -> list[Row]:
    """Rows with a model."""
    return [row for row in rows if row["losses"]]


def worse_than_nothing(rows: Iterable[Row]) -> list[Above]:
    """What each cell leaves beyond nothing and `EXCESS`, the worst first."""
    found = []
    for row in answered(rows):
        over = left(row) - nothing_left(row) - EXCESS
        p = min(
            _p(over, np.zeros(len(over))),
            float(binomtest(int(np.sum(over > 0)), len(over), alternative="greater").pvalue),
        )
        error = float(over.std(ddof=min(1, len(over) - 1)) / np.sqrt(len(over)))
        found.append(Above(row["cell"], float(over.mean()), error, min(1.0, 2.0 * p), len(over)))
    return sorted(found, key=lambda one: -one.excess)


def steps(rows: Iterable[Row], by: str) -> list[Above]:
    """What is left with more ε (or, by "delta", with δ) beyond what is left with less and `SLACK`, the worst first."""
    alike: dict[tuple[Any, ...], list[Row]] = {}
    for row in answered(rows):
        key = [row[name] for name in ("table", "stated", "owners", "epsilon", "delta") if name != by]
        alike.setdefault(tuple(key), []).append(row)
    found = []
    for group in alike.values():
        ordered = sorted(group, key=lambda row: float(row[by]))
        for less, more in pairwise(ordered):
            before, after = left(less) + SLACK, left(more)
            p = min(
                _p(after, before),
                float(mannwhitneyu(after, before, alternative="greater").pvalue),
            )
            error = float(np.hypot(before.std() / np.sqrt(len(before)), after.std() / np.sqrt(len(after))))
            excess, fits = float(after.mean() - before.mean()), min(len(before), len(after))
            found.append(Above(more["cell"], excess, error, min(1.0, 2.0 * p), fits))
    return sorted(found, key=lambda one: -one.excess)


def summary(found: list[Above]) -> str:
    """How many are above, and how many surely."""
    surely = sum(one.surely(len(found)) for one in found)
    return f"{sum(one.excess > 0 for one in found)} above, {surely} of them surely, of {len(found)}"


def median_left(rows: Iterable[Row], **facts: Any) -> float:
    """Median over tables of the mean share that is left in the cells with these facts; NaN of none."""
    some = [left(row).mean() for row in answered(rows) if _has(row, facts)]
    return float(np.median(some)) if some else float("nan")


def median_peer(rows: Iterable[Row], peer: str, **facts: Any) -> float:
    """The same of a peer."""
    some = [
        (row["peers"][peer] - row["least"]) / (row["constant"] - row["least"])
        for row in rows
        if peer in row["peers"] and _has(row, facts)
    ]
    return float(np.median(some)) if some else float("nan")


def _has(row: Row, facts: dict[str, Any]) -> bool:
    return all(row[name] == value for name, value in facts.items())


def _p(some: Any, others: Any) -> float:
    """p of Welch's t test that the mean of `some` is above that of `others`; 1 where there is no spread to tell by."""
    if len(some) < 2 or np.ptp(some) + np.ptp(others) <= 1e-12:
        return 1.0
    return float(ttest_ind(some, others, equal_var=False, alternative="greater").pvalue)
