"""The cost of outliers that are too rare to be among the public rows, against which plans are insured.

A kind of record that one in RARER·n₀ is, is absent from n₀ public rows with probability 0.8. The fitness counts such records in
full, while a private answer bounds their influence: where Ξ is below their gradients they cost the same whatever the budget is,
and where it is not, their curvature needs a shorter step. Where noise is small, a wider Ξ and a shorter step cost little.

In a scenario, an outlier is far out in one column of numbers, by one of LENGTHS times the L1 length of the longest public row,
and the best model, which is fitted to it too, misses its target by the root mean square residual. Labels are any record's.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from copriv.agreement import Agreement
from copriv.model.records import Records
from copriv.plan.aggregated_runs import mean_cost
from copriv.populations.public_sample import PublicSample
from copriv.populations.world import World, curvature_of
from copriv.types import is_linear

RARER = 5
"""Outliers are one in RARER times the number of public rows."""
LENGTHS = (1.25, 1.75, 2.5, 3.5, 5.0, 7.0)
"""In real tables the longest record is 1 to 10 times as long as the longest of 1,000."""
PROBABILITY = 0.2
"""Probability that owners hold such records. Set with LENGTHS, by the loans of `benchmarks.utility`."""
RUNS = 2
"""Runs in each world."""


def cost_of_outliers(sample: PublicSample, agreement: Agreement, without: float, seed: int) -> float:
    """E ψ that outliers add to an agreement without "auto", over whether there are any and how long they are.

    without: E ψ in worlds that have none.
    """
    worlds = with_outliers(sample, seed)
    if not worlds:
        return 0.0
    return PROBABILITY * (mean_cost(worlds, agreement, RUNS, seed) - without)


@lru_cache(maxsize=1)
def with_outliers(sample: PublicSample, seed: int) -> tuple[World, ...]:
    """Draw a world with outliers of each of LENGTHS.

    None where owners most likely hold no such record, and where there are no columns of numbers that could be far out.
    """
    rows, columns, data, made = (
        sample.problem.unbounded[0],
        np.flatnonzero(sample.law.numbers),
        sample.problem.terms.data,
        [],
    )
    number = round(float(sample.problem.terms.records.sum()) / (RARER * rows.units))
    if number < 1 or not len(columns) or not sample.law.modelled or data.fourier_features is not None:
        return ()
    reach = 1.0 if data.bounds and not data.mapped else np.inf  # a column with declared ends is at most 1
    longest = float(np.abs(rows.features[:, columns]).sum(axis=1).max())
    for i, (world, times) in enumerate(zip(sample.drawn(len(LENGTHS), seed), LENGTHS, strict=True)):
        pool, rng = world.pool, np.random.default_rng([i, 13])
        whole, θ = pool.unbounded[0], pool.optimum.theta
        one, (side, off) = rng.integers(len(whole), size=1), rng.choice([-1.0, 1.0], size=2)
        x = whole.features[one]
        x[0, rng.choice(columns)] = side * min(times * longest, reach)
        rare = Records(x, whole.target[one], np.array([float(number)]))
        if is_linear(pool.loss) and not sample.law.labels:
            missed = np.sqrt(
                np.average(np.square(whole.target - pool.as_agreed(whole).features @ θ), weights=whole.weight)
            )
            x = pool.as_agreed(rare).features[0]
            pulled = (
                number
                / whole.total
                * pool.loss.curvature
                * float(x @ np.linalg.pinv(curvature_of(pool.fitness, θ)) @ x)
            )
            rare = replace(rare, target=np.array([x @ θ + off * missed * (1.0 + pulled)]))
        among = Records.concatenate([whole, rare])
        best = pool.optimum_of(among, θ)
        if best is not None and best.value > 0:
            made.append(World(replace(pool, unbounded=(among,) * len(pool.unbounded), known_optimum=best), world.seed))
    return tuple(made)
