"""Models that an owner has without joining, in each world, and the probability that joining beats them.

In each world there is one ψ of the public model, one of the owner's own model, one of the public model personalized at home,
and one of each run of the consortium. Joining pays in a run whose ψ is below all of these; the share of such runs over all
worlds is the probability of a verdict.

Where public rows have strata, an owner's own model is fitted to its records in every world. Otherwise its ψ follows from the
number of its records and from the heterogeneity of each kind of owner.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.forecast.assessment import Assessment, quantiles
from copriv.populations.public_sample import PublicSample
from copriv.populations.world import HOPELESS, World, psi
from copriv.problem import Problem
from copriv.problem.verdict import Asked, Model, OwnerVerdict, just_worthwhile, verdict_of
from copriv.types import Array


@dataclass(frozen=True)
class OwnRecords:
    """Median ψ of each model on an owner's own records, relative to the best model of its own population."""

    alone: float
    together: float
    personalized: float
    """The common model, personalized at home (`copriv.personalize`)."""
    joining_pays: bool
    """Whether the common model is better than the owner's own with probability above one half."""
    personalizing_pays: bool
    """Whether the personalized model is better than the owner's own with probability above one half."""
    joining_pays_probability: float
    personalizing_pays_probability: float
    joining_close: bool
    """See `close_call`."""
    personalizing_close: bool
    alone_band: tuple[float, float]
    """Range of 90 % of worlds; for the other two models, of 90 % of runs."""
    together_band: tuple[float, float]
    personalized_band: tuple[float, float]
    together_with_intercept: float | None
    """Median ψ of the common model with the owner's best intercept; None without an intercept."""
    public_personalized: float
    """The public model, or without public rows a constant, personalized at home: for this nobody has to join."""
    public_personalized_band: tuple[float, float]


def close_call(probability: float, *typically: bool) -> bool:
    """Whether a verdict is a close call: its probability is between 1/3 and 2/3, or the medians contradict it."""
    return 1.0 / 3.0 < probability < 2.0 / 3.0 or any(better is not (probability > 0.5) for better in typically)


@dataclass(frozen=True, eq=False)
class WithoutJoining:
    """ψ of the models that owners have without joining, in each world."""

    public: Float[Array, " worlds"]
    """ψ of the public model."""
    own: Float[Array, "worlds owners"]
    """ψ of each owner's own model, relative to the best model of its population."""
    apart: Float[Array, "worlds kinds"]
    """Heterogeneity of each kind of owner; 0 where owners are alike. An owner may be of any kind."""
    known: tuple[World, ...] = ()
    """The worlds, where strata of the public rows tell how each owner differs."""
    everybody: Float[Array, "worlds owners"] | None = None
    """ψ of each owner's own model on everybody's records, in that case."""
    public_on_own: Float[Array, "worlds owners"] | None = None
    """ψ of the public model on each owner's population, in that case."""
    apart_with_intercept: Float[Array, "worlds kinds"] | None = None
    """`apart` where each kind has its own best intercept; None where the model has no intercept beside other parameters."""
    public_with_intercept: Float[Array, "worlds owners"] | None = None
    """`public_on_own` with each owner's best intercept, likewise."""

    @classmethod
    def of(cls, sample: PublicSample, records: Sequence[int], worlds: Sequence[World]) -> "WithoutJoining":
        """Fit own models: of each owner where its law is known, else of at most four sizes, with ψ interpolated in between.

        records: number of records of each owner, which are part of the pool of each world.
        """
        if worlds[0].owners:
            return cls.of_known(sample.problem.feasible_set.project(sample.optimum.theta), worlds)
        sizes = np.unique(np.asarray(records, dtype=np.float64))
        if len(sizes) > 4:
            sizes = np.unique(np.round(np.geomspace(sizes[0], sizes[-1], 4)))
        public = np.array([sample.for_nothing(world) for world in worlds])
        own = np.zeros((len(worlds), len(sizes)))  # of a model of all records
        for w, s in np.ndindex(own.shape):
            if (drawn := worlds[w].some_of(int(sizes[s]))) is not None:
                pool = worlds[w].pool
                own[w, s] = psi(pool, pool.optimum_of(drawn, pool.optimum.theta))
        if len(sizes) > 1:
            x, at, ψ = np.log(records), np.log(sizes), np.log(np.maximum(own, 1e-12))
            own = np.exp([np.interp(x, at, row) for row in ψ])
        nothing, with_intercept = np.zeros(1), None
        apart = np.array([nothing if world.apart is None else world.apart for world in worlds])
        if _has_intercept(sample.problem):
            left = (world.apart_with_intercept for world in worlds)
            with_intercept = np.array([nothing if one is None else one for one in left])
        own = np.broadcast_to(own, (len(worlds), len(records)))
        return cls(public, own, apart, apart_with_intercept=with_intercept)

    @classmethod
    def of_known(cls, public_model: Float[Array, " p"], worlds: Sequence[World]) -> "WithoutJoining":
        """Fit own models in worlds with a law of each owner. public_model: that of the public rows, inside Θ."""
        N = len(worlds[0].owners)
        everybody = np.full((len(worlds), N), HOPELESS)
        own = everybody.copy()
        for w, world in enumerate(worlds):
            for i, owner in enumerate(world.owners):
                found = world.pool.optimum_of(owner.records, world.pool.optimum.theta)
                if found is not None:
                    everybody[w, i], own[w, i] = world.on_all(found.theta), world.on_own(i, found.theta[None])[0]
        public = np.array([world.on_all(public_model) for world in worlds])
        on_own = np.array([[world.on_own(i, public_model[None])[0] for i in range(N)] for world in worlds])
        nothing = np.zeros((len(worlds), 1))
        if not _has_intercept(worlds[0].pool):
            return cls(public, own, nothing, tuple(worlds), everybody, on_own)
        left = [[world.on_own_with_intercept(i, public_model[None])[0] for i in range(N)] for world in worlds]
        return cls(public, own, nothing, tuple(worlds), everybody, on_own, nothing, np.array(left))

    def assessed_as(self, records: Sequence[int]) -> list[int]:
        """The first owner of those that share an assessment with each owner, by their numbers of records.

        What an owner has without joining depends on its size alone, unless its law is known. Of more than 256 owners those
        whose records differ by 1 % or less share one.
        """
        kinds: Sequence[int] = records if len(records) <= 256 else [round(100.0 * np.log(n)) for n in records]
        first: dict[int, int] = {}
        return [i if self.known else first.setdefault(kind, i) for i, kind in enumerate(kinds)]

    def alone(self, i: int) -> Float[Array, "worlds kinds"]:
        """ψ of owner i's own model on everybody's records, in each world and for each kind that the owner may be of."""
        if self.everybody is not None:
            return self.everybody[:, i : i + 1]
        return self.own[:, i : i + 1] + self.apart

    def on_own(self, together: Assessment, i: int) -> "CostsOnOwn":
        """ψ of each model on owner i's records, relative to the best model of its population.

        Where the owner's law is known, the last models of the runs are evaluated on it. Otherwise the owner's heterogeneity is
        added to ψ of the public and of the common model; of the latter's ψ, the intercept is taken to be one of p equal parts.
        """
        own, p, with_intercept, left = self.own[:, i : i + 1], together.models.shape[-1], None, None
        if self.public_on_own is not None:
            runs = list(zip(self.known, together.models, strict=True))
            common = np.array([world.on_own(i, models) for world, models in runs])
            if self.public_with_intercept is not None:
                with_intercept = np.array([world.on_own_with_intercept(i, models) for world, models in runs])
                left = self.public_with_intercept[:, i : i + 1]
            return CostsOnOwn(own, self.public_on_own[:, i : i + 1], common, with_intercept, p, left)
        apart, common, public = self.apart[:, None, :], together.draws[:, :, None], self.public[:, None, None]
        if self.apart_with_intercept is not None:
            with_intercept, left = (
                self.apart_with_intercept[:, None, :] + model * (p - 1) / p for model in (common, public)
            )
        return CostsOnOwn(own[:, :, None], apart + public, apart + common, with_intercept, p, left)

    @property
    def public_serves_all(self) -> bool:
        """Whether the public model is typically as good as every owner's own model, on the owner's own records."""
        public = self.public_on_own
        if public is None:
            public = (self.apart + self.public[:, None]).reshape(-1, 1)  # any owner may be of any kind
        return bool(np.all(np.median(public, axis=0) <= np.median(self.own, axis=0)))

    def without_joining(self, i: int) -> Float[Array, "worlds kinds"]:
        """ψ of the better of owner i's own model and the public one, in each world."""
        return np.minimum(self.alone(i), self.public[:, None])

    def heterogeneity_and_pays(
        self, together: Assessment, i: int, asked: Asked, worlds: Sequence[World]
    ) -> tuple[Array, Array, Array]:
        """Owner i's heterogeneity, that of all owners, and the share of runs in which joining pays, in each world and for each
        kind that the owner may be of.

        On the records that the question is about, by the model of the verdict.
        """
        u = self.apart
        if self.known:
            u = np.array([world.apart[i : i + 1] for world in self.known if world.apart is not None])
        if asked.goal == "own":
            costs = self.on_own(together, i)
            said, without = costs.verdict(asked), costs.without
            joined = {"common": costs.common, "personalized": costs.personalized}[said.by]
        else:
            without, joined = self.without_joining(i)[:, None, :], together.draws[:, :, None]
        gain = (without - joined) / (1.0 + without)
        if gain.ndim == 2:  # of a known owner: worlds and runs
            gain = gain[:, :, None]
        pays = np.mean(gain >= asked.worthwhile, axis=1)
        mean = np.array([world.heterogeneity for world in worlds])[:, None]
        return np.ravel(u), np.ravel(np.broadcast_to(mean, u.shape)), np.ravel(np.broadcast_to(pays, u.shape))

    def verdict_on_all(self, together: Assessment, i: int, asked: Asked) -> OwnerVerdict:
        """Whether joining pays on everybody's records."""
        without, common = np.broadcast_arrays(self.without_joining(i)[:, None, :], together.draws[:, :, None])
        return verdict_of(without, {"common": common}, asked)


@dataclass(frozen=True, eq=False)
class CostsOnOwn:
    """ψ of models on one owner's own records, in each world, run and kind that it may be of."""

    own: Array
    public: Array
    common: Array
    with_intercept: Array | None
    """ψ of the common model with the owner's best intercept; None without an intercept."""
    n_parameters: int
    public_with_intercept: Array | None = None
    """ψ of the public model with the owner's best intercept; None without an intercept."""

    @property
    def personalized(self) -> Array:
        """ψ of the common model personalized at home."""
        return personalized_cost(self.own, self.common, self.with_intercept, self.n_parameters)

    @property
    def public_personalized(self) -> Array:
        """ψ of the public model personalized at home, which takes nobody's answers."""
        return personalized_cost(self.own, self.public, self.public_with_intercept, self.n_parameters)

    @property
    def without(self) -> Array:
        """ψ of the best that the owner has without joining."""
        return np.minimum(np.minimum(self.own, self.public), self.public_personalized)

    def verdict(self, asked: Asked) -> OwnerVerdict:
        """Whether joining pays."""
        gives: dict[Model, Array] = {"common": self.common, "personalized": self.personalized}
        without, *costs = np.broadcast_arrays(self.without, *gives.values())
        return verdict_of(without, dict(zip(gives, costs, strict=True)), asked)

    def enough(self, together: float, worthwhile: float) -> float:
        """The largest ψ of the common model on everybody's records with which joining typically pays; it is now `together`."""
        costs = (self.own, self.public, self.public_personalized, self.common)
        own, *others, common = (float(np.median(cost)) for cost in costs)
        left = None
        if self.with_intercept is not None:
            left = float(np.median(self.with_intercept)) - together * (1.0 - 1.0 / self.n_parameters)
        return enough(own, min(own, *others), worthwhile, common - together, left, self.n_parameters)

    def summary(self) -> OwnRecords:
        """Compare the models."""
        a, t, both, home = np.broadcast_arrays(self.own, self.common, self.personalized, self.public_personalized)
        pays, personalizing = float(np.mean(t < a)), float(np.mean(both < a))
        alone, common, personalized = (float(np.median(each)) for each in (a, t, both))
        bands = [quantiles(each.reshape(len(each), -1)) for each in (a, t, both, home)]
        alone_band, common_band, personalized_band, home_band = ((float(low), float(high)) for low, high in bands)
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
            alone_band,
            common_band,
            personalized_band,
            None if self.with_intercept is None else float(np.median(self.with_intercept)),
            float(np.median(home)),
            home_band,
        )


def personalized_cost(own: Array, common: Array, with_intercept: Array | None = None, p: int = 1) -> Array:
    """Cost of the model personalized at home, from the costs of the owner's own model and of the common one.

    With costs a and t, the best mixture of the two costs at/(a + t); 5 % of the smaller is added for estimating its weights.
    with_intercept: cost of the common model with the best intercept for this owner. Personalizing may leave the intercept
    to the owner, whose estimate costs a/p as that of any of the p parameters; the others are then mixed.
    """
    cost = np.asarray(own * common / np.maximum(own + common, 1e-300) + 0.05 * np.minimum(own, common))
    if with_intercept is None:
        return cost
    others = personalized_cost(np.asarray(own * (p - 1) / p), with_intercept)
    return np.asarray(np.minimum(cost, own / p + others))


def enough(
    own: float, without: float, worthwhile: float, apart: float, with_intercept: float | None = None, p: int = 1
) -> float:
    """The largest ψ of the common model on everybody's records with which joining pays on an owner's own; 0 if none.

    own: cost of its own model on its own records. without: of the best that it has without joining.
    apart: by how much more the common model costs there. with_intercept: the same
    with the best intercept for this owner, without which ψ is (p − 1)/p of itself.
    """
    wanted = just_worthwhile(without, worthwhile)
    costs = np.geomspace(1e-9, 1e6, 601)
    left = None if with_intercept is None else np.maximum(with_intercept + costs * (1.0 - 1.0 / p), 0.0)
    common = np.maximum(apart + costs, 0.0)
    paying = costs[np.minimum(common, personalized_cost(np.asarray(own), common, left, p)) <= wanted]
    return float(paying.max(initial=0.0))


def _has_intercept(problem: Problem) -> bool:
    """Whether the model has an intercept beside other parameters."""
    return problem.terms.model.intercept and problem.n_parameters > 1
