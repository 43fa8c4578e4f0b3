"""What an owner could have without joining, world by world, and how likely joining beats it.

In each world the public model has one ψ, an owner's own model another, and the runs of the consortium theirs. Joining pays
in a run that is below both; the share of worlds and runs in which it is, is the probability that a verdict carries.

Two ways to the numbers of an owner's own model: `Judgement`, where nobody knows which owner is unlike which, by how many
records it has and how unlike owners are; `OwnJudgement`, where public rows say whose they are, by fitting it in every world.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.forecast.assessment import Assessment
from copriv.model.records import Records
from copriv.populations.by_owner import HOPELESS, OwnerWorld, best_on, psi
from copriv.populations.dealt import UnlikeWorld
from copriv.populations.law import World, some_of
from copriv.populations.public_sample import PublicSample
from copriv.types import Array

SIZES = 4
"""Owners' own models are fitted for so many sizes in a world; between them ψ is interpolated."""
HOME = 0.05
"""What finding out at home how far to trust the common model costs, as a part of the better one's error."""
CLOSE = (1.0 / 3.0, 2.0 / 3.0)
"""A probability between these says that it could as well be either way."""
BETTER = 1.0 - 1e-9
"""ψ below this part of another is better; nearer, the two are one model and what differs is rounding."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """ψ in each world of the public model, and of own models by how many records they are fitted to."""

    public: Float[Array, " worlds"]
    records: tuple[int, ...]
    """Of each owner."""
    sizes: Float[Array, " sizes"]
    own: Float[Array, "worlds sizes"]
    """What too few records of its own leave unknown: also the excess of an own model on the owner's own population."""
    apart: Float[Array, "worlds kinds"]
    """Each kind of owner's heterogeneity; 0 where owners are alike. An owner may be of any kind."""

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
        model = sample.problem.feasible_set.project(sample.optimum.theta)
        public = np.array([psi(world.pool, model) for world in worlds])
        own = np.array([[_own(world, int(n), sample) for n in sizes] for world in worlds])
        apart = np.zeros((len(worlds), 1)) if unlike is None else np.array([world.apart for world in unlike])
        return cls(public, tuple(int(n) for n in records), sizes, own, apart)

    def kind(self, i: int) -> int:
        """Owners of one kind are told the same of their own models."""
        return self.records[i]

    def alone(self, i: int) -> Float[Array, "worlds kinds"]:
        """ψ in each world, on everybody's records, of owner i's own model, were it of each kind."""
        return self._unknown(i)[:, None] + self.apart

    def _unknown(self, i: int) -> Float[Array, " worlds"]:
        """ψ in each world of the own model of an owner of this size that is like the others."""
        if len(self.sizes) == 1:
            return self.own[:, 0]
        x, at = np.log(self.records[i]), np.log(self.sizes)
        return np.array([np.exp(np.interp(x, at, np.log(np.maximum(row, 1e-12)))) for row in self.own])

    def without_joining(self, i: int) -> Float[Array, "worlds kinds"]:
        """ψ in each world of the better of the two that need nobody."""
        return np.minimum(self.alone(i), self.public[:, None])

    def pays(self, together: Float[Array, "worlds runs"], i: int) -> float:
        """The probability that a run of the consortium is better than both."""
        return float(np.mean(together[:, :, None] < BETTER * self.without_joining(i)[:, None, :]))

    def on_own_records(self, together: Assessment, i: int) -> "OwnRecords":
        """The second question: which model serves the owner's *own* records, from heterogeneity and the same runs.

        On its own population, above its own best model there: its own one errs by what its records leave unknown (a);
        the common one by how unlike it is, and by what privacy and everybody's records leave (t). One made of both at
        home weighs them by how sure each is, at/(a + t) in every direction alike, and a little for finding the weight.
        """
        a, t = self._unknown(i)[:, None, None], self.apart[:, None, :] + together.draws[:, :, None]
        return _of_both(a, t, t.shape)


@dataclass(frozen=True, eq=False)
class OwnJudgement:
    """The same from worlds that know the owners: each one's model is fitted to the records that it has in a world."""

    public: Float[Array, " worlds"]
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
        """Every owner is a kind of its own."""
        return i

    def alone(self, i: int) -> Float[Array, "worlds one"]:
        """ψ in each world, on everybody's records, of owner i's own model."""
        return self.everybody[:, i : i + 1]

    def without_joining(self, i: int) -> Float[Array, "worlds one"]:
        """ψ in each world of the better of the two that need nobody."""
        return np.minimum(self.alone(i), self.public[:, None])

    def pays(self, together: Float[Array, "worlds runs"], i: int) -> float:
        """The probability that a run of the consortium is better than both."""
        return float(np.mean(together < BETTER * self.without_joining(i)))

    def on_own_records(self, together: Assessment, i: int) -> "OwnRecords":
        """As `Judgement.on_own_records`, with the models that runs ended with tried on the owner's own population."""
        t = np.array([world.on_own(i, models) for world, models in zip(self.worlds, together.models, strict=True)])
        return _of_both(self.own[:, i : i + 1], t, t.shape)


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
    """What is known does not tell: see `close_call`."""
    personalizing_close: bool


def close_call(probability: float, *typically: bool) -> bool:
    """Whether a verdict by this probability is as good as open: near a half, or the medians shown say otherwise."""
    return CLOSE[0] < probability < CLOSE[1] or any(better is not (probability > 0.5) for better in typically)


def _of_both(a: Array, t: Array, shape: tuple[int, ...]) -> OwnRecords:
    """From draws of what an owner's own model errs by on its own population (a), and the common one (t)."""
    a, t = np.broadcast_to(a, shape), np.broadcast_to(t, shape)
    both = a * t / np.maximum(a + t, 1e-300) + HOME * np.minimum(a, t)
    pays, personalizing = float(np.mean(t < a)), float(np.mean(both < a))
    alone, together, personalized = (float(np.median(each)) for each in (a, t, both))
    return OwnRecords(
        alone,
        together,
        personalized,
        pays > 0.5,
        personalizing > 0.5,
        pays,
        personalizing,
        close_call(pays, together < alone),
        close_call(personalizing, personalized < alone),
    )


def _own(world: World, records: int, sample: PublicSample) -> float:
    raw = world.pool.unbounded[0]
    counts = np.rint(raw.weight).astype(np.int64)
    if records >= counts.sum():
        return 0.0
    hand = some_of(np.random.default_rng([*world.seed, records]), counts, records)
    some = hand > 0
    rows = Records(raw.features[some], raw.target[some], hand[some].astype(np.float64))
    found = best_on(sample.problem, rows, world.pool.optimum.theta)
    return HOPELESS if found is None else psi(world.pool, found.theta)


def judged(
    sample: PublicSample,
    records: Sequence[int],
    worlds: Sequence[World],
    unlike: "Sequence[UnlikeWorld | OwnerWorld] | None",
) -> Judgement | OwnJudgement:
    """By owners where the worlds know them, else by sizes. worlds: alike; unlike: the same where owners differ, or None."""
    known = [world for world in unlike or () if isinstance(world, OwnerWorld)]
    if known:
        return OwnJudgement.within(sample.problem.feasible_set.project(sample.optimum.theta), known)
    guessed = None if unlike is None else [world for world in unlike if isinstance(world, UnlikeWorld)]
    return Judgement.of(sample, records, worlds, guessed)
