"""What an owner can have without joining, in each world, and the probability that joining beats it.

In each world the public model has one ψ, an owner's own model another, and the runs of the consortium theirs. Joining pays
in a run that is below both; the share of such runs over all worlds is the probability of a verdict.

Where public rows say whose they are, an owner's own model is fitted to its records in every world. Elsewhere it is found from
its number of records and from the heterogeneity of each kind of owner that it may be of.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.forecast.assessment import Assessment
from copriv.forecast.quantiles import quantiles
from copriv.populations.public_sample import PublicSample
from copriv.populations.world import HOPELESS, World, psi
from copriv.problem.verdict import Asked, Model, OwnerVerdict, verdict_of
from copriv.types import Array


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
    alone_band: tuple[float, float]
    """Where 90 % of worlds are; of the other two, 90 % of runs."""
    together_band: tuple[float, float]
    personalized_band: tuple[float, float]


def close_call(probability: float, *typically: bool) -> bool:
    """Whether a verdict is a close call: its probability is between 1/3 and 2/3, or the medians shown contradict it."""
    return 1.0 / 3.0 < probability < 2.0 / 3.0 or any(better is not (probability > 0.5) for better in typically)


@dataclass(frozen=True, eq=False)
class WithoutJoining:
    """What owners can have without joining, in each world."""

    public: Float[Array, " worlds"]
    """ψ of the public model."""
    records: tuple[int, ...]
    """Of each owner."""
    sizes: Float[Array, " sizes"]
    """Numbers of records that own models are fitted to, owners being alike."""
    own: Float[Array, "worlds models"]
    """ψ of an own model of each size, or of each owner, on its own population, above the best there."""
    apart: Float[Array, "worlds kinds"]
    """Heterogeneity of each kind of owner; 0 where owners are alike. An owner may be of any kind."""
    known: tuple[World, ...] = ()
    """The worlds, where public rows say how each owner differs."""
    everybody: Float[Array, "worlds owners"] | None = None
    """ψ on everybody's records of each owner's own model, in the same case."""
    public_on_own: Float[Array, "worlds owners"] | None = None
    """ψ of the public model on each owner's own population, in the same case."""

    @classmethod
    def of(cls, sample: PublicSample, records: Sequence[int], worlds: Sequence[World]) -> "WithoutJoining":
        """For owners of these sizes, whose records are part of the pool of each world."""
        model = sample.problem.feasible_set.project(sample.optimum.theta)
        if worlds[0].laws:
            return cls.of_known(model, worlds)
        sizes = np.unique(np.asarray(records, dtype=np.float64))
        if len(sizes) > 4:  # between four sizes ψ is interpolated
            sizes = np.unique(np.round(np.geomspace(sizes[0], sizes[-1], 4)))
        public = np.array([world.on_all(model) for world in worlds])
        own = np.array([[_own(world, int(n)) for n in sizes] for world in worlds])
        apart = np.array([np.zeros(1) if world.apart is None else world.apart for world in worlds])
        return cls(public, tuple(map(int, records)), sizes, own, apart)

    @classmethod
    def of_known(cls, public_model: Float[Array, " p"], worlds: Sequence[World]) -> "WithoutJoining":
        """For the owners of worlds that know how each one differs. public_model: that of the public rows, inside Θ."""
        N = len(worlds[0].held)
        everybody = np.full((len(worlds), N), HOPELESS)
        own = everybody.copy()
        for w, world in enumerate(worlds):
            for i, records in enumerate(world.held):
                found = world.pool.optimum_of(records, world.pool.optimum.theta)
                if found is not None:
                    everybody[w, i], own[w, i] = world.on_all(found.theta), world.on_own(i, found.theta[None])[0]
        public = np.array([world.on_all(public_model) for world in worlds])
        on_own = np.array([[world.on_own(i, public_model[None])[0] for i in range(N)] for world in worlds])
        return cls(public, (), np.zeros(0), own, np.zeros((len(worlds), 1)), tuple(worlds), everybody, on_own)

    def alone(self, i: int) -> Float[Array, "worlds kinds"]:
        """ψ on everybody's records of owner i's own model, in each world and for each kind that it may be of."""
        if self.everybody is not None:
            return self.everybody[:, i : i + 1]
        return self._of_size(i)[:, None] + self.apart

    def _of_size(self, i: int) -> Float[Array, " worlds"]:
        """ψ in each world of the own model of an owner of this size that does not differ."""
        if len(self.sizes) == 1:
            return self.own[:, 0]
        x, at = np.log(self.records[i]), np.log(self.sizes)
        return np.array([np.exp(np.interp(x, at, np.log(np.maximum(row, 1e-12)))) for row in self.own])

    def on_own(self, together: Assessment, i: int) -> tuple[Array, Array, Array]:
        """Costs on owner i's own population, above the best model there: of its own model, the public and the common one.

        Where it is known how the owner differs, the models that runs ended with are tried there; elsewhere its heterogeneity
        adds to what the public and the common model cost, and to nothing of its own model's.
        """
        if self.public_on_own is not None:
            t = [world.on_own(i, models) for world, models in zip(self.known, together.models, strict=True)]
            return self.own[:, i : i + 1], self.public_on_own[:, i : i + 1], np.array(t)
        apart = self.apart[:, None, :]
        public, common = self.public[:, None, None], together.draws[:, :, None]
        return self._of_size(i)[:, None, None], apart + public, apart + common

    def without_joining(self, i: int) -> Float[Array, "worlds kinds"]:
        """ψ in each world of the better of its own model and the public one."""
        return np.minimum(self.alone(i), self.public[:, None])

    def verdict_on_own(self, together: Assessment, i: int, asked: Asked) -> OwnerVerdict:
        """Whether joining pays on the owner's own records."""
        own, public, common = np.broadcast_arrays(*self.on_own(together, i))
        gives: dict[Model, Array] = {"common": common, "personalized": personalized_cost(own, common)}
        return verdict_of(np.minimum(own, public), gives, asked)

    def verdict_on_all(self, together: Assessment, i: int, asked: Asked) -> OwnerVerdict:
        """Whether joining pays on everybody's records."""
        without, common = np.broadcast_arrays(self.without_joining(i)[:, None, :], together.draws[:, :, None])
        return verdict_of(without, {"common": common}, asked)

    def enough_on_own(self, together: Assessment, i: int, worthwhile: float) -> float:
        """The largest ψ of the common model, on everybody's records, with which joining typically pays on owner i's own."""
        own, public, common = (float(np.median(cost)) for cost in self.on_own(together, i))
        return enough(own, public, worthwhile) - (common - together.relative_fitness.end["median"])

    def on_own_records(self, together: Assessment, i: int) -> OwnRecords:
        """Which model serves the owner's own records, from the same runs."""
        a, _, t = np.broadcast_arrays(*self.on_own(together, i))
        both = personalized_cost(a, t)
        pays, personalizing = float(np.mean(t < a)), float(np.mean(both < a))
        alone, common, personalized = (float(np.median(each)) for each in (a, t, both))
        bands = (quantiles(each.reshape(len(each), -1)) for each in (a, t, both))
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
            *((float(low), float(high)) for low, high in bands),
        )


def personalized_cost(own: Array, common: Array) -> Array:
    """Cost of the model personalized at home, from those of the owner's own model and of the common one.

    With costs a and t of the two, the best mix of them costs at/(a + t), and a little for estimating its weights.
    """
    return own * common / np.maximum(own + common, 1e-300) + 0.05 * np.minimum(own, common)


def enough(own: float, public: float, worthwhile: float) -> float:
    """The largest cost of the common model on an owner's own records with which joining pays, from costs there; 0 if none."""
    wanted = min(own, public) - worthwhile * (1.0 + min(own, public))
    costs = np.geomspace(1e-9, 1e6, 601)
    paying = costs[np.minimum(costs, personalized_cost(np.asarray(own), costs)) <= wanted]
    return float(paying[-1]) if len(paying) else 0.0


def _own(world: World, records: int) -> float:
    """ψ of a model fitted to so many records of the pool."""
    hand = world.hand(records)
    if hand is None:
        return 0.0
    return psi(world.pool, world.pool.optimum_of(hand, world.pool.optimum.theta))
