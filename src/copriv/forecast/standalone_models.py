"""What an owner can have without joining, in each world, and the probability that joining beats it.

In each world the public model has one ψ, an owner's own model another, and the runs of the consortium theirs. Joining pays
in a run that is below both; the share of such runs over all worlds is the probability of a verdict.

`Judgement` finds an owner's own model from its number of records and the heterogeneity, where it is not known which owner
differs from which. `OwnJudgement` fits it in every world, where public rows say whose they are.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.forecast.assessment import Assessment
from copriv.model.records import Records
from copriv.populations.by_owner import HOPELESS, OwnerWorld, best_on, psi
from copriv.populations.dealt import HeterogeneousWorld
from copriv.populations.law import World, draw_without_replacement
from copriv.populations.public_sample import PublicSample
from copriv.types import Array

SIZES = 4
"""Numbers of records for which own models are fitted in each world; between them ψ is interpolated."""
HOME = 0.05
"""Cost of estimating at home how much weight the common model gets, as a part of the better model's error."""
CLOSE = (1.0 / 3.0, 2.0 / 3.0)
"""Between these probabilities a verdict is a close call."""
BETTER = 1.0 - 1e-9
"""A ψ below this multiple of another is better; closer ones differ by rounding."""


@dataclass(frozen=True)
class OwnRecords:
    """What joining means for an owner's own records: ψ there, above the best model of its own population (medians)."""

    alone: float
    together: float
    personalized: float
    """The common model, personalized at home (`copriv.personalize`)."""
    joining_pays: bool
    """The common model as it comes serves the owner's own records better than its own one, more likely than not."""
    personalizing_pays: bool
    """The one personalized at home does."""
    joining_pays_probability: float
    personalizing_pays_probability: float
    joining_close: bool
    """See `close_call`."""
    personalizing_close: bool


def close_call(probability: float, *typically: bool) -> bool:
    """Whether a verdict of this probability is a close call: it is near a half, or the medians shown contradict it."""
    return CLOSE[0] < probability < CLOSE[1] or any(better is not (probability > 0.5) for better in typically)


@dataclass(frozen=True, eq=False)
class WithoutJoining(ABC):
    """What owners can have without joining, in each world."""

    public: Float[Array, " worlds"]
    """ψ of the public model."""

    @abstractmethod
    def kind(self, i: int) -> int:
        """Owners of one kind are told the same of their own models."""

    @abstractmethod
    def alone(self, i: int) -> Float[Array, "worlds kinds"]:
        """ψ on everybody's records of owner i's own model, in each world and for each kind that it may be of."""

    @abstractmethod
    def on_own(self, together: Assessment, i: int) -> tuple[Array, Array]:
        """Costs on owner i's own population, above the best model there, of its own model and of the common one."""

    def without_joining(self, i: int) -> Float[Array, "worlds kinds"]:
        """ψ in each world of the better of its own model and the public one."""
        return np.minimum(self.alone(i), self.public[:, None])

    def pays(self, together: Float[Array, "worlds runs"], i: int) -> float:
        """The probability that a run of the consortium is better than both."""
        return float(np.mean(together[:, :, None] < BETTER * self.without_joining(i)[:, None, :]))

    def on_own_records(self, together: Assessment, i: int) -> OwnRecords:
        """Which model serves the owner's own records, from the same runs.

        With costs a of its own model and t of the common one, the personalized model's is at/(a + t) and a little for
        estimating the weights.
        """
        a, t = np.broadcast_arrays(*self.on_own(together, i))
        both = a * t / np.maximum(a + t, 1e-300) + HOME * np.minimum(a, t)
        pays, personalizing = float(np.mean(t < a)), float(np.mean(both < a))
        alone, common, personalized = (float(np.median(each)) for each in (a, t, both))
        return OwnRecords(
            alone,
            common,
            personalized,
            pays > 0.5,
            personalizing > 0.5,
            pays,
            personalizing,
            close_call(pays, common < alone),
            close_call(personalizing, personalized < alone),
        )


@dataclass(frozen=True, eq=False)
class Judgement(WithoutJoining):
    """Of owners of which it is not known how each differs: own models by how many records they are fitted to."""

    records: tuple[int, ...]
    """Of each owner."""
    sizes: Float[Array, " sizes"]
    own: Float[Array, "worlds sizes"]
    """ψ of an own model of each size, owners being alike; also its excess on the owner's own population."""
    apart: Float[Array, "worlds kinds"]
    """Each kind of owner's heterogeneity; 0 where owners are alike. An owner may be of any kind."""

    @classmethod
    def of(
        cls,
        sample: PublicSample,
        records: Sequence[int],
        worlds: Sequence[World],
        unlike: Sequence[HeterogeneousWorld] | None = None,
    ) -> "Judgement":
        """For owners of these sizes, whose records are part of the pool. unlike: the same worlds, where owners differ."""
        sizes = np.unique(np.asarray(records, dtype=np.float64))
        if len(sizes) > SIZES:
            sizes = np.unique(np.round(np.geomspace(sizes[0], sizes[-1], SIZES)))
        model = sample.problem.feasible_set.project(sample.optimum.theta)
        public = np.array([psi(world.pool, model) for world in worlds])
        own = np.array([[_own(world, int(n), sample) for n in sizes] for world in worlds])
        apart = np.zeros((len(worlds), 1)) if unlike is None else np.array([world.apart for world in unlike])
        return cls(public, tuple(int(n) for n in records), sizes, own, apart)

    def kind(self, i: int) -> int:
        return self.records[i]

    def alone(self, i: int) -> Float[Array, "worlds kinds"]:
        return self._unknown(i)[:, None] + self.apart

    def _unknown(self, i: int) -> Float[Array, " worlds"]:
        """ψ in each world of the own model of an owner of this size that does not differ."""
        if len(self.sizes) == 1:
            return self.own[:, 0]
        x, at = np.log(self.records[i]), np.log(self.sizes)
        return np.array([np.exp(np.interp(x, at, np.log(np.maximum(row, 1e-12)))) for row in self.own])

    def on_own(self, together: Assessment, i: int) -> tuple[Array, Array]:
        """The owner's heterogeneity adds to the common model's cost, and to nothing of its own model's."""
        return self._unknown(i)[:, None, None], self.apart[:, None, :] + together.draws[:, :, None]


@dataclass(frozen=True, eq=False)
class OwnJudgement(WithoutJoining):
    """Of owners that have records of their own in each world, to which their models are fitted."""

    worlds: tuple[OwnerWorld, ...]
    everybody: Float[Array, "worlds owners"]
    """ψ of own models on everybody's records."""
    own: Float[Array, "worlds owners"]
    """ψ of own models on their own populations, above the best there."""

    @classmethod
    def within(cls, public_model: Float[Array, " p"], worlds: Sequence[OwnerWorld]) -> "OwnJudgement":
        """public_model: that of the public rows, inside Θ."""
        everybody = np.full((len(worlds), len(worlds[0].held)), HOPELESS)
        own = everybody.copy()
        for w, world in enumerate(worlds):
            for i, records in enumerate(world.held):
                found = best_on(world.pool, records, world.pool.optimum.theta)
                if found is not None:
                    everybody[w, i], own[w, i] = psi(world.pool, found.theta), world.on_own(i, found.theta[None])[0]
        return cls(np.array([psi(world.pool, public_model) for world in worlds]), tuple(worlds), everybody, own)

    def kind(self, i: int) -> int:
        return i

    def alone(self, i: int) -> Float[Array, "worlds one"]:
        return self.everybody[:, i : i + 1]

    def on_own(self, together: Assessment, i: int) -> tuple[Array, Array]:
        """The models that runs ended with are tried on the owner's own population."""
        t = [world.on_own(i, models) for world, models in zip(self.worlds, together.models, strict=True)]
        return self.own[:, i : i + 1], np.array(t)


def _own(world: World, records: int, sample: PublicSample) -> float:
    raw = world.pool.unbounded[0]
    counts = np.rint(raw.weight).astype(np.int64)
    if records >= counts.sum():
        return 0.0
    hand = draw_without_replacement(np.random.default_rng([*world.seed, records]), counts, records)
    some = hand > 0
    rows = Records(raw.features[some], raw.target[some], hand[some].astype(np.float64))
    found = best_on(sample.problem, rows, world.pool.optimum.theta)
    return HOPELESS if found is None else psi(world.pool, found.theta)


def judged(
    sample: PublicSample,
    records: Sequence[int],
    worlds: Sequence[World],
    unlike: "Sequence[HeterogeneousWorld | OwnerWorld] | None",
) -> WithoutJoining:
    """By owners where the worlds know them, else by sizes. worlds: alike; unlike: the same where owners differ, or None."""
    known = [world for world in unlike or () if isinstance(world, OwnerWorld)]
    if known:
        return OwnJudgement.within(sample.problem.feasible_set.project(sample.optimum.theta), known)
    guessed = None if unlike is None else [world for world in unlike if isinstance(world, HeterogeneousWorld)]
    return Judgement.of(sample, records, worlds, guessed)
