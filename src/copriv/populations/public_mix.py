"""Whether the public rows are of the same kinds as the owners' records, where somebody has said how many are of which.

A forecast takes the public rows for a random sample of all owners' records. Two places can speak against it: `data.mix`,
the shares of all records that owners state for the levels of a column, and strata, whose owners hold agreed numbers of
records. Where worlds are drawn for each owner (`by_owner`), owners' sizes count and not the strata's, so that only
`data.mix` is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from copriv.formatting.cards import Shown
from copriv.problem import Problem

CHANCE = 1e-3
"""How probable a difference as large must be, of a random sample, to be put down to chance."""


@dataclass(frozen=True)
class PublicMix(Shown):
    """The levels of one column: number of public rows, and share of the owners' records."""

    column: str
    rows: Mapping[str, int]
    records: Mapping[str, float]
    """Shares, which add up to 1 within rounding."""

    @property
    def levels(self) -> tuple[str, ...]:
        """Of either, the one first in which they differ most."""
        apart = {
            level: round(abs(self.public(level) - self.records.get(level, 0.0)), 9)
            for level in sorted({*self.rows, *self.records})
        }
        return tuple(sorted(apart, key=lambda level: -apart[level]))

    def public(self, level: str) -> float:
        """Share of the public rows that are of this level."""
        return self.rows.get(level, 0) / sum(self.rows.values())

    @property
    def distance(self) -> float:
        """Share of the public rows that would have to be of another level: half the sum of all differences."""
        return 0.5 * sum(abs(self.public(level) - self.records.get(level, 0.0)) for level in self.levels)

    @property
    def differs(self) -> bool:
        """Whether the public rows are no random sample of such records: Pearson's chi-square test."""
        found = np.array([self.rows.get(level, 0) for level in self.levels], dtype=np.float64)
        share = np.array([self.records.get(level, 0.0) for level in self.levels])
        # Half a row is expected of levels that nobody stated: a single such row is no evidence.
        expected = np.maximum(share / share.sum() * found.sum(), 0.5)
        return bool(chdtrc(max(len(found) - 1, 1), np.sum((found - expected) ** 2 / expected)) < CHANCE)

    def to_dict(self) -> dict[str, object]:
        """For JSON, level by level."""
        shares = {
            level: {"public": self.public(level), "records": self.records.get(level, 0.0)} for level in self.levels
        }
        return {"column": self.column, "levels": shares, "distance": self.distance, "differs": self.differs}


def public_mixes(problem: Problem, by_owner: bool) -> tuple[PublicMix, ...]:
    """Every column of which both mixes are known; by_owner: whether worlds are drawn for each owner."""
    stated = problem.terms.data.mix or {}
    found = [PublicMix(column, rows, stated[column]) for column, rows in problem.public_levels.items()]
    if problem.strata is None or by_owner:
        return tuple(found)
    names = problem.strata_names
    of_owner = [place for place in problem.stratum_of_owner if place is not None]
    if len(of_owner) < problem.terms.n_owners:
        return tuple(found)  # what the others hold is in no stratum
    counts = np.bincount(problem.strata, minlength=len(names))
    records = np.zeros(len(names))
    np.add.at(records, of_owner, problem.terms.records)
    rows = dict(zip(names, counts.tolist(), strict=True))
    shares = dict(zip(names, (records / records.sum()).tolist(), strict=True))
    return (*found, PublicMix(problem.terms.data.strata or "strata", rows, shares))
