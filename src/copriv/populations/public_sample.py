"""Estimates of the fitness, its optimum and curvature from the public sample, and their sampling error.

The learner's n₀ public records and the owners' n records are modelled as draws from one population. With ∇ℓ at θ* of
covariance S and A = ∇²f, an optimum over n records has the asymptotic law

    θ* ~ N(θ_population, A⁻¹ S A⁻¹ / n),      so  E f(θ) − f(θ*) = ½ tr(S A⁻¹)·(1/n₁ + 1/n₂) = κ·(1/n₁ + 1/n₂)

for two independent samples, on which `alone` and `public_only` rest (κ is `information`). Where one sample is part of
the other, as an owner's is of the pool, the factor is 1/n_i − 1/n. For a loss with a kink, A is that of a smoothed f.

`PilotAnswers` are what a pilot's answers tell of the common model and of each owner's, in coordinates of the public curvature:
θ = θ₀ + Vd, with θ₀ the public model, VᵀAV = 1 for the public curvature A, and V such that coordinates have independent noise
(`copriv.forecast.after_pilot` makes these numbers). The weighted mean of the owners' d_i is the d of the common model.

`PublicMix` tests whether the public rows are a random sample of all owners' records, as a forecast assumes. Two statements
allow a test: `data.mix`, the shares of all records that owners state for the levels of a column, and strata, whose owners hold
agreed numbers of records. Where worlds are drawn by owner (`by_owner`), the shares of strata in the public rows have no
influence, and only `data.mix` is tested.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import chdtrc

from copriv.errors import InvalidInput, NotCertified
from copriv.formatting.cards import Shown
from copriv.mechanisms.pilot import EDGES, PilotNumbers
from copriv.model.fitness import Optimum
from copriv.model.records import Records
from copriv.populations.law import EXACTLY, Law
from copriv.populations.world import World, curvature_of, in_every_place, weighted, with_best_model
from copriv.problem import Problem
from copriv.types import Array

SURELY = 5.0
"""Standard deviations of noise at which a count of records that are longer than any public row is not that noise."""


@dataclass(frozen=True, eq=False)
class Lengths:
    """Shares of all owners' records by their L1 length, with a pilot's noise, in bins of `copriv.mechanisms.pilot.EDGES`."""

    shares: Float[Array, " bins"]
    variance: float
    """Variance of the noise in each share."""

    def log_ratio(self, share: float, lengths: Float[Array, " kinds"], longest: float) -> Float[Array, " kinds"]:
        """Log likelihood of each length as that of the longest records, over that of none beyond the longest public row.

        It is 0 where public rows are as long. Its own bin has this share of all records; each bin between it and the public
        rows has that or none, with equal probability. lengths, longest: in the unit of the bins.
        """
        each = share * (self.shares - 0.5 * share) / self.variance
        either = np.where(np.append(0.0, EDGES) > longest, np.logaddexp(0.0, each) - np.log(2.0), 0.0)
        below = np.append(0.0, np.cumsum(either)[:-1])
        return np.where(beyond(lengths, longest), (each + below)[_bin(lengths)], 0.0)

    def surely_beyond(self, longest: float, expected: float) -> float | None:
        """Share of records in bins beyond that of the longest public row; None where noise may have made more than expected."""
        some = np.append(0.0, EDGES) > longest
        found = float(self.shares[some].sum())
        return min(found, 1.0) if found - SURELY * np.sqrt(some.sum() * self.variance) > expected else None


def _bin(lengths: Float[Array, " kinds"]) -> Any:
    return np.searchsorted(EDGES, lengths, side="right")


def beyond(lengths: Float[Array, " kinds"], longest: float) -> Any:
    """Whether each length is in a bin beyond that of the longest public row."""
    return np.append(0.0, EDGES)[_bin(lengths)] > longest


@dataclass(frozen=True, eq=False)
class PilotAnswers:
    """Posterior of the common model, and evidence of each owner's deviation from it, where each answer was seen."""

    public: Float[Array, " p"]
    """θ₀, wherever the pilot was asked."""
    basis: Float[Array, "p p"]
    """V."""
    mean: Float[Array, " p"]
    """Posterior mean of the common model's d."""
    root: Float[Array, "p p"]
    """R, with RRᵀ its covariance."""
    pull: Float[Array, "owners p"]
    """−(d_i − d), with noise; of no owner, where only the sum of answers was seen."""
    noise: Float[Array, "owners p"]
    """Variance of that noise."""
    asked: PilotNumbers
    lengths: Lengths | None
    """None where they were not asked."""

    @property
    def by_owner(self) -> bool:
        """Whether they tell owners apart."""
        return len(self.pull) > 0

    @property
    def centre(self) -> Float[Array, " p"]:
        """Posterior mean of the common model."""
        return self.public + self.basis @ self.mean

    def common(self, rng: np.random.Generator) -> Float[Array, " p"]:
        """Draw the common model."""
        return np.asarray(self.centre + self.basis @ (self.root @ rng.normal(size=len(self.mean))))


@dataclass(frozen=True, eq=False)
class PublicSample:
    """The fitness over the public records: its optimum, curvature, and the covariance of optima.

    Where rows are few for the parameters they are smoothed first (`Law.smoothed`), so that the public model is that of the
    posterior mean and does not interpolate the rows.
    """

    problem: Problem
    """Problem with the public sample in every owner's place."""
    pilot: PilotAnswers | None = None
    """Estimates from a pilot's answers, given which worlds are drawn; None without a pilot."""
    planned: float = 0.0
    """E ψ of the plan that was made before the pilot; 0 where there was none."""
    _made: "dict[tuple[int, int], tuple[World, ...]]" = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, problem: Problem) -> "PublicSample":
        """Raises DataError where the problem has no public records."""
        return cls(problem if problem.stand_in else problem.on_public())

    @classmethod
    def of_everybody(cls, problem: Problem) -> "PublicSample":
        """Make the sample with each stratum weighted by the records of its owners, where each owner has a stratum.

        The weights add up to the effective number of rows (Kish, Survey Sampling, 1965, §11.2), so that sampling errors follow.
        """
        made = cls.of(problem).problem
        if (strata := made.strata) is None or None in (whose := made.stratum_of_owner) or not made.strata_name_owners:
            return cls(made)
        rows = made.unbounded[0]
        held = np.bincount(np.array(whose, dtype=np.int64), made.terms.records, len(made.strata_names))
        weight = rows.weight * (held / np.bincount(strata, rows.weight, len(held)))[strata]
        everybody = weighted(rows, weight * weight.sum() / (weight @ weight))
        return cls(in_every_place(made, everybody, strata=None, strata_names=()))

    @property
    def declared(self) -> bool:
        """Whether no rows are public, and declared columns are all that is known."""
        return False

    def for_nothing(self, world: World) -> float:
        """ψ in a world of the public model, projected to Θ, which costs nobody any privacy."""
        return float(world.on_all(self.problem.feasible_set.project(self.optimum.theta)))

    def hessian_in(self, world: World) -> Float[Array, "p p"]:
        """Curvature that is the metric of differences between owners in a world."""
        return self.hessian

    @cached_property
    def law(self) -> Law:
        """The posterior of the law of all records."""
        return Law(self.problem)

    @cached_property
    def smooth(self) -> Problem:
        """The problem on the rows for a plan (`Law.smoothed`)."""
        law = self.law
        if law.plenty and not law.few_events and not law.unseen:
            return self.problem
        return in_every_place(self.problem, law.smoothed)

    @property
    def records(self) -> Records:
        """The public records."""
        return self.smooth.owners[0]

    @property
    def optimum(self) -> Optimum:
        """θ* of the public sample."""
        return self.smooth.optimum

    @cached_property
    def hessian(self) -> Float[Array, "p p"]:
        """A = ∇²f at the optimum; for a loss with a kink, of a smoothed f.

        Eigenvalues are at least 1e-7 of the largest, so that A can be inverted.
        """
        f = self.smooth.fitness
        A = curvature_of(f, self.optimum.theta)
        a, U = np.linalg.eigh(A)
        least = 1e-7 * max(float(a[-1]), 1e-300)
        if a[0] >= least:
            return A
        return np.asarray((U * np.maximum(a, least)) @ U.T)

    @cached_property
    def metric(self) -> Float[Array, "p p"]:
        """A without the eigenvalue floor of `hessian` where it is well conditioned but for the columns' units."""
        A = curvature_of(self.smooth.fitness, self.optimum.theta)
        unit = np.sqrt(np.diag(A))
        if (unit > 0).all():
            a = np.linalg.eigvalsh(A / np.outer(unit, unit))
            if a[0] >= 1e-7 * a[-1]:
                return A
        return self.hessian

    @cached_property
    def spread(self) -> Float[Array, "p p"]:
        """A⁻¹ S A⁻¹: the covariance of an optimum over n records, times n."""
        f, r = self.smooth.fitness, self.records
        g = f.loss.gradients(self.optimum.theta, r.features, r.target)
        share = r.weight / r.weight.sum()
        g = g - share @ g
        S = (g * share[:, None]).T @ g
        inverse = np.linalg.pinv(self.hessian, rcond=1e-12, hermitian=True)
        return np.asarray(inverse @ S @ inverse)

    @cached_property
    def information(self) -> float:
        """κ = ½ tr(A·A⁻¹SA⁻¹), in the unit of f: estimating θ from n records costs κ/n."""
        return 0.5 * float(np.sum(self.hessian * self.spread))

    @property
    def centre(self) -> Float[Array, " p"]:
        """Posterior mean of the owners' θ*: the public model or, after a pilot, what its answers say too."""
        return self.optimum.theta if self.pilot is None else self.pilot.centre

    @cached_property
    def longest_row(self) -> float:
        """L1 length of the longest public row, without intercept."""
        return float(np.abs(self.problem.unbounded[0].features).sum(axis=1).max())

    @property
    def allowed_longer(self) -> float | None:
        """Share of all records that are longer than all of n₀ random rows with a probability of e⁻¹⁰.

        None where public rows are not such a sample: rows of strata, owners with weights that are not their records, or fewer
        than ten rows a parameter, to which a dictionary may be fitted.
        """
        problem, rows = self.problem, self.problem.unbounded[0]
        shares = problem.terms.records / problem.terms.records.sum()
        if problem.strata is not None or not np.allclose(problem.terms.weights, shares):
            return None
        if rows.units < 10 * problem.n_parameters:
            return None
        return float(-np.expm1(-10.0 / rows.units))

    @cached_property
    def longer(self) -> float | None:
        """Share of all records that a pilot counted as longer than any public row; None where public rows allow for it."""
        if self.pilot is None or self.pilot.lengths is None or (allowed := self.allowed_longer) is None:
            return None
        return self.pilot.lengths.surely_beyond(self.longest_row / self.pilot.asked.feature_bound, allowed)

    def variance_along(self, directions: Float[Array, "p directions"]) -> Float[Array, " directions"]:
        """Posterior variance of the owners' θ* along each direction."""
        if self.pilot is not None:
            return np.asarray(np.square((self.pilot.basis @ self.pilot.root).T @ directions).sum(axis=0))
        n, n0 = float(self.problem.terms.records.sum()), self.problem.unbounded[0].units
        return np.asarray(np.diag(directions.T @ self.spread @ directions) * (1.0 / n + 1.0 / n0))

    def alone(self, records: float, total: float) -> float:
        """E ψ, on all `total` records, of the non-private model of an owner that holds `records` of them."""
        return self.information * (1.0 / records - 1.0 / total) / self.optimum.value

    def public_only(self, total: float) -> float:
        """E ψ, on `total` records of the owners, of the model fitted on the public sample alone."""
        return self.information * (1.0 / self.problem.unbounded[0].units + 1.0 / total) / self.optimum.value

    def worlds(self, number: int, seed: int = 0) -> "tuple[Problem, ...]":
        """The pools of `drawn`, each in every owner's place."""
        return tuple(world.pool for world in self.drawn(number, seed))

    def drawn(self, number: int, seed: int = 0) -> "tuple[World, ...]":
        """Draw worlds with their optimum; equal arguments give the same worlds, for every rule that is tried in them.

        Raises InvalidInput where most have no best fitness above 0, so that ψ is undefined, and where a single public row
        leaves the noise of numeric targets unknown.
        """
        if self.law.modelled and not self.law.labels and self.law.observations < 2:
            raise InvalidInput(
                "forecast: one public row does not tell how far targets lie from a model of them: bring two or more, and "
                "ten for each parameter where there are as many"
            )
        if (number, seed) in self._made:
            return self._made[number, seed]
        n, p = int(self.problem.terms.records.sum()), self.problem.n_parameters
        what = f"{n} records of the owners for {p} parameters"
        return self._made.setdefault((number, seed), kept(self._draw, number, seed, 2, what))

    def _draw(self, seed: tuple[int, ...]) -> World | None:
        world = self.law.draw(seed)
        with suppress(NotCertified):
            optimum = world.pool.fitness.minimum(self.optimum.theta)
            if self.pilot is not None:  # its best model is a draw of the common model given the pilot's answers
                rows, rng = world.pool.unbounded[0], np.random.default_rng([*seed, 28])
                moved = with_best_model(world.pool, rows, optimum.theta, self.pilot.common(rng) - optimum.theta)
                if (moved.weight != np.rint(moved.weight)).any():
                    moved = weighted(moved, rng.multinomial(round(rows.total), moved.weight / moved.total))
                world = replace(world, pool=in_every_place(world.pool, moved))
                optimum = world.pool.fitness.minimum(optimum.theta)
            if optimum.value > nothing_left(world.pool):
                return replace(world, pool=replace(world.pool, known_optimum=optimum))
        return None

    @cached_property
    def wobble(self) -> float:
        """Relative standard error of the curvature in a direction: √(E‖A^(−½) A_b A^(−½) − I‖²_F / p)."""
        a, U = np.linalg.eigh(self.hessian)
        root = U / np.sqrt(np.maximum(a, 1e-12 * a[-1]))
        pools = [self.law.draw((0, 3, i)).pool for i in range(20)]
        off = [root.T @ curvature_of(pool.fitness, self.optimum.theta) @ root - np.eye(len(a)) for pool in pools]
        return float(np.sqrt(np.mean([np.minimum(np.square(d).sum() / len(a), 4.0) for d in off])))

    @cached_property
    def unexplained(self) -> float:
        """f of the best model over f of the best constant: 1 − R² for the squared loss; at most 1."""
        problem = self.smooth
        r = problem.unbounded[0]
        ones = np.full((len(r), 1), float(problem.terms.model.intercept))
        try:
            constant = problem.fitness_of(Records(ones, r.target, r.weight)).minimum(np.zeros(1), 1e-5).value
        except NotCertified:
            return 1.0
        if not constant > self.optimum.value:
            return 1.0
        return self.optimum.value / constant


def kept(
    draw: Callable[[tuple[int, ...]], World | None], number: int, seed: int, stream: int, what: str
) -> tuple[World, ...]:
    """Draw worlds until `number` are accepted. Raises InvalidInput where three of four are rejected, for an optimum of 0."""
    drawn = (draw((seed, stream, attempt)) for attempt in range(4 * number))
    made = tuple(islice((world for world in drawn if world is not None), number))
    if len(made) < number:
        raise InvalidInput(
            f"forecast: {what} can most likely be fitted exactly, and ψ is relative to a best fitness above 0: "
            "set model.regularization above 0 (1e-3, say), or bring more records"
        )
    return made


def nothing_left(pool: Problem) -> float:
    """Largest best fitness that counts as 0: 1e-12, or for the squared loss `EXACTLY` of f(0) where that is less."""
    if pool.fitness.quadratic is None:
        return 1e-12
    return min(1e-12, EXACTLY * float(pool.fitness.value(np.zeros(pool.n_parameters))))


@dataclass(frozen=True)
class PublicMix(Shown):
    """The levels of one column: number of public rows, and share of the owners' records."""

    column: str
    rows: Mapping[str, int]
    records: Mapping[str, float]
    """Shares, which add up to 1 within rounding."""

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of the public rows and of the records, by decreasing difference of their shares."""
        every = sorted({*self.rows, *self.records})
        return tuple(sorted(every, key=lambda one: -round(abs(self.public(one) - self.records.get(one, 0.0)), 9)))

    def public(self, level: str) -> float:
        """Share of the public rows with this level."""
        return self.rows.get(level, 0) / sum(self.rows.values())

    @property
    def distance(self) -> float:
        """Total variation distance of the shares: half the sum of their absolute differences."""
        return 0.5 * sum(abs(self.public(level) - self.records.get(level, 0.0)) for level in self.levels)

    @property
    def differs(self) -> bool:
        """Whether Pearson's chi-square test at level 0.001 rejects that the public rows are a random sample of the records."""
        found = np.array([self.rows.get(level, 0) for level in self.levels], dtype=np.float64)
        share = np.array([self.records.get(level, 0.0) for level in self.levels])
        # At least half a row is expected of every level, so that a single row of an unstated level is not significant.
        expected = np.maximum(share / share.sum() * found.sum(), 0.5)
        return bool(chdtrc(max(len(found) - 1, 1), np.sum((found - expected) ** 2 / expected)) < 1e-3)

    def to_dict(self) -> dict[str, object]:
        """For JSON, level by level."""
        shares = {
            level: {"public": self.public(level), "records": self.records.get(level, 0.0)} for level in self.levels
        }
        return {"column": self.column, "levels": shares, "distance": self.distance, "differs": self.differs}


def public_mixes(problem: Problem, by_owner: bool) -> tuple[PublicMix, ...]:
    """The columns whose levels are known in the public rows and the records; by_owner: whether worlds are drawn by owner."""
    stated = problem.terms.data.mix or {}
    found = [PublicMix(column, rows, stated[column]) for column, rows in problem.public_levels.items()]
    if problem.strata is None or by_owner:
        return tuple(found)
    names = problem.strata_names
    of_owner = [place for place in problem.stratum_of_owner if place is not None]
    if len(of_owner) < problem.terms.n_owners:
        return tuple(found)  # the strata of the other owners' records are unknown
    counts = np.bincount(problem.strata, minlength=len(names))
    records = np.zeros(len(names))
    np.add.at(records, of_owner, problem.terms.records)
    rows = dict(zip(names, counts.tolist(), strict=True))
    shares = dict(zip(names, (records / records.sum()).tolist(), strict=True))
    return (*found, PublicMix(problem.terms.data.strata or "strata", rows, shares))
