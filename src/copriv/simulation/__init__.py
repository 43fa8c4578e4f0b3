"""Many runs of an agreement at once, on records at hand, with simulated noise: what a collaboration would give.

The rule, the schedule and the clipping are the very ones of a deployment; only the noise comes from a seeded numpy
generator, which is fast and repeatable and must never leave a simulation.

    result = simulate(agreement, runs=100, seed=0)
    result.relative_fitness.median[-1]

Run r depends on (seed, r) alone: batches of runs, in any order and on any machine, give the same numbers.
"""

from copriv.simulation.engine import own_learners, simulate
from copriv.simulation.result import NOT_FOR_RELEASE, NOT_PRIVATE, OwnerOutcome, RelativeFitness, Simulation
from copriv.simulation.runs import NoiseSource

__all__ = [
    "NOT_FOR_RELEASE",
    "NOT_PRIVATE",
    "NoiseSource",
    "OwnerOutcome",
    "RelativeFitness",
    "Simulation",
    "own_learners",
    "simulate",
]
