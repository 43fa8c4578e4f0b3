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
from copriv.unlike_worlds import UnlikeWorld
from copriv.worlds import World, some_of

SIZES = 4
"""Owners' own models are fitted for so many sizes in a world; between them ψ is interpolated."""
HOME = 0.05
"""What finding out at home how far to trust the common model costs, as a part of the better one's error."""
HOPELESS = 1e6
"""ψ of an own model that has no finite optimum: it counts as this."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """ψ in each world of the public model, and of own models by how many records they are fitted to."""

    public: Float[Array, " worlds"]
    sizes: Float[Array, " sizes"]
    own: Float[Array, "worlds sizes"]
    """What too few records of its own leave unknown: also the excess of an own model on the owner's own population."""
    apart: Float[Array, "worlds kinds"]
    """Each kind of owner's unlikeness; 0 where owners are alike. An owner may be of any kind."""

    @classmethod
    def of(
        cls,
        sample: PublicSample,
        records: Sequence[int],
        worlds: Sequence[World],
        unlike: Sequence[UnlikeWorld] | None = None,
    ) -> "Judgement":
        """For owners of these sizes. Their own models are of their own records, which are part of the pool.

        unlike: the same worlds, where owners differ in them.
        """
        sizes = np.unique(np.asarray(records, dtype=np.float64))
        if len(sizes) > SIZES:
            sizes = np.unique(np.round(np.geomspace(sizes[0], sizes[-1], SIZES)))
        model = sample.problem.box.project(sample.optimum.theta)
        public = np.array([_psi(world.pool, model) for world in worlds])
        own = np.array([[_own(world, int(n), sample) for n in sizes] for world in worlds])
        apart = np.zeros((len(worlds), 1)) if unlike is None else np.array([world.apart for world in unlike])
        return cls(public, sizes, own, apart)

    def alone(self, records: float) -> Float[Array, "worlds kinds"]:
        """ψ in each world, on everybody's records, of the own model of an owner of this size and of each kind."""
        return self.unknown(records)[:, None] + self.apart

    def unknown(self, records: float) -> Float[Array, " worlds"]:
        """ψ in each world of the own model of an owner of this size that is like the others."""
        if len(self.sizes) == 1:
            return self.own[:, 0]
        x, at = np.log(records), np.log(self.sizes)
        return np.array([np.exp(np.interp(x, at, np.log(np.maximum(row, 1e-12)))) for row in self.own])

    def without_joining(self, records: float) -> Float[Array, "worlds kinds"]:
        """ψ in each world of the better of the two that need nobody."""
        return np.minimum(self.alone(records), self.public[:, None])

    def pays(self, together: Float[Array, "worlds runs"], records: float) -> float:
        """The probability that a run of the consortium is better than both."""
        return float(np.mean(together[:, :, None] < self.without_joining(records)[:, None, :]))

    def on_own_records(self, together: Float[Array, "worlds runs"], records: float) -> "OwnRecords":
        """The second question: which model serves the owner's *own* records, from unlikeness and the same runs.

        On its own population, above its own best model there: its own one errs by what its records leave unknown (a);
        the common one by how unlike it is, and by what privacy and everybody's records leave (t). One made of both at
        home weighs them by how sure each is, at/(a + t) in every direction alike, and a little for finding the weight.
        """
        a = self.unknown(records)[:, None, None]
        t = self.apart[:, None, :] + together[:, :, None]
        both = a * t / np.maximum(a + t, 1e-300) + HOME * np.minimum(a, t)
        pays, finishing = float(np.mean(t < a)), float(np.mean(both < a))
        return OwnRecords(
            float(np.median(a)),
            float(np.median(t)),
            float(np.median(both)),
            pays > 0.5,
            finishing > 0.5,
            pays,
            finishing,
        )


@dataclass(frozen=True)
class OwnRecords:
    """What joining means for an owner's own records: ψ there, above the best model of its own population (medians)."""

    alone: float
    together: float
    finished: float
    """The common model, finished at home (`copriv.finish`)."""
    joining_pays: bool
    """The common model as it comes serves the owner's own records better than its own one, more likely than not."""
    finishing_pays: bool
    """The one finished at home does."""
    joining_pays_probability: float
    finishing_pays_probability: float


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
