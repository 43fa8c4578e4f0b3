"""The cost of outliers that are too rare to be among the public rows, in one scenario.

A forecast's band is of records like the public rows, with extrapolated tails (`data.extreme_values`). Real tables contain
larger outliers: one loan in ten thousand has an income six times the next. Records with a frequency of one in RARER·n₀ are
absent from n₀ public rows with probability 0.8. The fitness counts such records in full, while every private answer bounds
their influence. Their cost therefore hardly depends on ε, and a forecast far below it holds only without them.

The size of such outliers is unknown. In the scenario, one record in RARER·n₀ is three times as long as the longest public
row and has the target of a record of usual length. It enters no band and no verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.model.records import Records
from copriv.plan.outliers import RARER
from copriv.problem import Problem
from copriv.types import Array


@dataclass(frozen=True)
class Unseen:
    """One scenario of outliers that are absent from the public rows."""

    one_in: int
    """One in so many of the owners' records is an outlier."""
    times_as_long: float
    """Length of an outlier over that of the longest public row."""
    relative_fitness: float
    """Median ψ of the terms, noise included, over worlds and runs with these outliers."""

    @classmethod
    def of(
        cls, rows: Records, pools: Sequence[Problem], models: Float[Array, "worlds runs p"], records: int
    ) -> "Unseen | None":
        """Evaluate the scenario; None where the owners' `records` are most likely too few to contain one.

        rows: the public rows. pools, models: all records of each world, and the last θ of each run there.
        """
        number = round(records / (RARER * rows.units))
        if number < 1:
            return None
        longer = 3.0  # in real tables the longest record is 1 to 10 times as long as that of a sample of 1,000
        length, found = longer * float(np.abs(rows.features).sum(axis=1).max()), []
        for i, (pool, ended) in enumerate(zip(pools[:8], models, strict=False)):
            whole, rng = pool.unbounded[0], np.random.default_rng([i, 13])
            # Copies of a record in the direction of one of the longest 1 %, with the target of any record.
            lengths = np.abs(whole.features).sum(axis=1)
            longest = np.argsort(lengths)[-max(len(whole) // 100, 1) :]
            one = longest[-1]
            if lengths[one] > 0:
                one = rng.choice(longest[lengths[longest] > 0])
            x = whole.features[one] * length / max(float(lengths[one]), 1e-300)
            target = whole.target[rng.integers(len(whole), size=1)]
            among = Records.concatenate([whole, Records(x[None], target, np.array([float(number)]))])
            best = pool.optimum_of(among, pool.optimum.theta)
            if best is not None and best.value > 0:
                fitness = pool.fitness_of(pool.as_agreed(among))
                found.append(np.clip(fitness.value(ended) / best.value - 1.0, 0.0, None))
        if not found:
            return None
        return cls(round(records / number), longer, float(np.median(found)))
