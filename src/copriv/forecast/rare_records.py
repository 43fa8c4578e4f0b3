"""What outliers could cost that are too rare for public rows to show.

A forecast's band is of records like the public rows, with extrapolated tails (`data.extreme_values`). Real tables hold more:
one loan in ten thousand has an income six times the next. A kind of record of which there is one in RARER·n₀ is missing
among n₀ public rows four times out of five. The fitness counts such records in full, while every private answer bounds
their influence; so their cost hardly depends on ε, and a forecast far below it holds only where there are none.

How far off they are is unknown. This is the cost of one scenario: one record in RARER·n₀ is LONGER times as long as the
longest public row, and has the target of a record of usual length. It is in no band and no number of a verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.model.records import Records
from copriv.problem import Problem
from copriv.types import Array

RARER = 5
"""Records of the scenario's kind: one in RARER times the number of public rows."""
LONGER = 3.0
"""Their length over that of the longest public row; in real tables the longest is 1 to 10 times that of a sample of 1,000."""


@dataclass(frozen=True)
class Unseen:
    """One scenario of records that public rows do not show."""

    one_in: int
    """Of the owners' records."""
    times_as_long: float
    """As the longest public row."""
    relative_fitness: float
    """ψ of the terms on records with these among them, the median over worlds and runs; the terms' noise included."""

    @classmethod
    def of(
        cls, rows: Records, pools: Sequence[Problem], models: Float[Array, "worlds runs p"], records: int
    ) -> "Unseen | None":
        """rows: the public ones. pools, models: all records of each world, and what runs of the terms ended with there.

        None where the owners' `records` are so few that they have most likely none either.
        """
        number = round(records / (RARER * rows.units))
        if number < 1:
            return None
        length, found = LONGER * float(np.abs(rows.features).sum(axis=1).max()), []
        for i, (pool, ended) in enumerate(zip(pools[:8], models, strict=False)):
            whole = pool.unbounded[0]
            rare = _lengthened(whole, length, number, np.random.default_rng([i, 13]))
            among = Records.concatenate([whole, rare])
            best = pool.optimum_of(among, pool.optimum.theta)
            if best is not None and best.value > 0:
                fitness = pool.fitness_of(pool.as_agreed(among))
                found.append(np.clip(fitness.value(ended) / best.value - 1.0, 0.0, None))
        return cls(round(records / number), LONGER, float(np.median(found))) if found else None


def _lengthened(rows: Records, length: float, number: int, rng: np.random.Generator) -> Records:
    """`number` records in the direction of one of the longest 1 %, of this length and with the target of any record."""
    lengths = np.abs(rows.features).sum(axis=1)
    far = np.argsort(lengths)[-max(len(rows) // 100, 1) :]
    one = rng.choice(far[lengths[far] > 0]) if (lengths[far] > 0).any() else far[-1]
    x = rows.features[one] * length / max(float(lengths[one]), 1e-300)
    return Records(x[None], rows.target[rng.integers(len(rows), size=1)], np.array([float(number)]))
