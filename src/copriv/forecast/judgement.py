"""What an owner could have without joining, world by world, and how likely joining beats it.

In each world the public model has one ψ, an owner's own model another, and the runs of the consortium theirs. Joining pays
in a run that is below both; the share of worlds and runs in which it is, is the probability that a verdict carries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.errors import NotCertified
from copriv.problem import Problem
from copriv.public_sample import PublicSample
from copriv.records import Records
from copriv.types import Array
from copriv.worlds import World, some_of

SIZES = 4
"""Owners' own models are fitted for so many sizes in a world; between them ψ is interpolated."""
HOPELESS = 1e6
"""ψ of an own model that has no finite optimum: it counts as this."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """ψ in each world of the public model, and of own models by how many records they are fitted to."""

    public: Float[Array, " worlds"]
    sizes: Float[Array, " sizes"]
    own: Float[Array, "worlds sizes"]

    @classmethod
    def of(cls, sample: PublicSample, records: Sequence[int], worlds: Sequence[World]) -> "Judgement":
        """For owners of these sizes. Their own models are of their own records, which are part of the pool."""
        sizes = np.unique(np.asarray(records, dtype=np.float64))
        if len(sizes) > SIZES:
            sizes = np.unique(np.round(np.geomspace(sizes[0], sizes[-1], SIZES)))
        model = sample.problem.box.project(sample.optimum.theta)
        public = np.array([_psi(world.pool, model) for world in worlds])
        own = np.array([[_own(world, int(n), sample) for n in sizes] for world in worlds])
        return cls(public, sizes, own)

    def alone(self, records: float) -> Float[Array, " worlds"]:
        """ψ in each world of the own model of an owner of this size."""
        if len(self.sizes) == 1:
            return self.own[:, 0]
        x, at = np.log(records), np.log(self.sizes)
        return np.array([np.exp(np.interp(x, at, np.log(np.maximum(row, 1e-12)))) for row in self.own])

    def without_joining(self, records: float) -> Float[Array, " worlds"]:
        """ψ in each world of the better of the two that need nobody."""
        return np.minimum(self.alone(records), self.public)

    def pays(self, together: Float[Array, "worlds runs"], records: float) -> float:
        """The probability that a run of the consortium is better than both."""
        return float(np.mean(together < self.without_joining(records)[:, None]))


def _psi(problem: Problem, theta: Array) -> float:
    return max(float(problem.fitness.value(theta)) / problem.optimum.value - 1.0, 0.0)


def _own(world: World, records: int, sample: PublicSample) -> float:
    raw = world.pool.unbounded[0]
    counts = np.rint(raw.weight).astype(np.int64)
    if records >= counts.sum():
        return 0.0
    hand = some_of(np.random.default_rng([*world.seed, records]), counts, records)
    some = hand > 0
    rows = Records(raw.features[some], raw.target[some], hand[some].astype(np.float64))
    problem = sample.problem
    rows = rows.with_intercept() if problem.terms.model.intercept else rows
    try:
        return min(_psi(world.pool, problem.fitness_of(rows).minimum(world.pool.optimum.theta, 1e-5).theta), HOPELESS)
    except NotCertified:
        return HOPELESS
