"""Test whether the public rows have the same levels as the owners' records, where the latter are stated.

A forecast assumes that the public rows are a random sample of all owners' records. Two statements allow a test: `data.mix`,
the shares of all records that owners state for the levels of a column, and strata, whose owners hold agreed numbers of
records. Where worlds are drawn by owner (`by_owner`), the shares of strata in the public rows have no influence, and only
`data.mix` is tested.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from copriv.formatting.cards import Shown
from copriv.problem import Problem

CHANCE = 1e-3
"""Level of the test: differences of smaller probability in a random sample are reported."""


@dataclass(frozen=True)
class PublicMix(Shown):
    """The levels of one column: number of public rows, and share of the owners' records."""

    column: str
    rows: Mapping[str, int]
    records: Mapping[str, float]
    """Shares, which add up to 1 within rounding."""

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of the public rows and of the records, by decreasing difference of their shares."""
        difference = {
            level: round(abs(self.public(level) - self.records.get(level, 0.0)), 9)
            for level in sorted({*self.rows, *self.records})
        }
        return tuple(sorted(difference, key=lambda level: -difference[level]))

    def public(self, level: str) -> float:
        """Share of the public rows with this level."""
        return self.rows.get(level, 0) / sum(self.rows.values())

    @property
    def distance(self) -> float:
        """Total variation distance of the shares: half the sum of their absolute differences."""
        return 0.5 * sum(abs(self.public(level) - self.records.get(level, 0.0)) for level in self.levels)

    @property
    def differs(self) -> bool:
        """Whether Pearson's chi-square test rejects that the public rows are a random sample of the records."""
        found = np.array([self.rows.get(level, 0) for level in self.levels], dtype=np.float64)
        share = np.array([self.records.get(level, 0.0) for level in self.levels])
        # At least half a row is expected of every level, so that a single row of an unstated level is not significant.
        expected = np.maximum(share / share.sum() * found.sum(), 0.5)
        return bool(chdtrc(max(len(found) - 1, 1), np.sum((found - expected) ** 2 / expected)) < CHANCE)

    def to_dict(self) -> dict[str, object]:
        """For JSON, level by level."""
        shares = {
            level: {"public": self.public(level), "records": self.records.get(level, 0.0)} for level in self.levels
        }
        return {"column": self.column, "levels": shares, "distance": self.distance, "differs": self.differs}


def public_mixes(problem: Problem, by_owner: bool) -> tuple[PublicMix, ...]:
    """The columns whose levels are known in the public rows and the records; by_owner: whether worlds are drawn by owner."""
    stated = problem.terms.data.mix or {}
    found = [PublicMix(column, rows, stated[column]) for column, rows in problem.public_levels.items()]
    if problem.strata is None or by_owner:
        return tuple(found)
    names = problem.strata_names
    of_owner = [place for place in problem.stratum_of_owner if place is not None]
    if len(of_owner) < problem.terms.n_owners:
        return tuple(found)  # the strata of the other owners' records are unknown
    counts = np.bincount(problem.strata, minlength=len(names))
    records = np.zeros(len(names))
    np.add.at(records, of_owner, problem.terms.records)
    rows = dict(zip(names, counts.tolist(), strict=True))
    shares = dict(zip(names, (records / records.sum()).tolist(), strict=True))
    return (*found, PublicMix(problem.terms.data.strata or "strata", rows, shares))
