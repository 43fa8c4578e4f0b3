"""Worlds in which public rows say whose they are: each owner's records are drawn from its own rows and from everybody's.

Where strata of the public rows are the owners (by name, or by `owner.stratum`), a world need not guess who is unlike whom.
An owner's law is taken as a draw from a Dirichlet process about everybody's, P_i ~ DP(α_i, P): α_i is how many of
everybody's rows its own population is worth knowing by. Given its own public rows that is again one,

    P_i | rows  ~  DP(α_i + n_i⁰,  (α_i P + Σ own rows) / (α_i + n_i⁰)),

so that few rows of its own leave an owner near everybody, and many make it itself: partial pooling, with its uncertainty.

What α_i is. Features say it by themselves, the same for all owners: the means of owners' rows spread by 1/α + 1/n_i⁰ in the
direction in which they differ most. (On average over directions would be less: owners sorted by one feature of twelve would
be given everybody's rows, and these would hold an owner's own model in a place where it has no rows.)

How far its best model is from the common one its own rows say, and the other owners' (`copriv.populations.owner_posterior`).

A mixture of rows has the best model of nobody: everybody's rows hold it back where an owner's own do not reach. So a law's
targets are bent until its best model is a draw of θ* + d, d of all owners' rows together being nothing: each row is moved
from its own owner's model to this one's, and θ* itself is drawn from rows that are moved to it. Where a loss does
not say how (the hinge, a user's own), α_i = κ/(u_i f(θ*)) instead: an optimum over α rows is off by κ/α (`public_sample`).
Classes that a logistic model's fit has few rows a parameter of are those of a law, θ* + d with θ* drawn from the posterior:
what rows have of them, a fit would follow (decision 0015).

From P_i come the owner's n_i records, from them its own model, from all of them the pool and θ*: ψ, own losses, verdicts and
runs are then of one and the same world. The hierarchical Dirichlet process is Teh et al. (2006); with a posterior that only
draws weights of rows seen it is the Bayesian bootstrap (Rubin 1981), owner by owner.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit

from copriv.agreement import Agreement
from copriv.agreement.equivalent_owners import bundles_of
from copriv.errors import InvalidInput, NotCertified
from copriv.losses import Huber, Logistic, Squared
from copriv.model.fitness import Optimum
from copriv.model.records import Records
from copriv.populations.law import CLASSES
from copriv.populations.owner_posterior import posterior
from copriv.populations.public_sample import TRIED, PublicSample, nothing_left
from copriv.problem import Problem
from copriv.terms.heterogeneity import Heterogeneity
from copriv.types import Array

LEAST_ROWS = 3
"""A population is worth at least so many rows a parameter: fewer would be fitted by its model, and be nobody's."""
LONG = 3.0
"""Of a feature's length, in spreads, what counts for how owners differ: a few very long rows are nobody's law."""
MOST_ROWS = 1e4
"""Of everybody's for an owner's features: as good as alike."""
MOST_OWNERS = 200
"""Beyond, public rows tell how unlike owners are, and not which: an own model an owner and world takes too long."""
HOPELESS = 1e6
"""ψ of a model that has no finite optimum: it counts as this."""


@dataclass(frozen=True, eq=False)
class OwnerWorld:
    """Everybody's records, and whose they are: a draw from what strata of public rows allow."""

    pool: Problem
    """All records together, in every owner's place; its optimum is known."""
    held: tuple[Records, ...]
    """Each owner's records, before the intercept."""
    laws: tuple[Records, ...]
    """Each owner's own population: the law its records are drawn from."""
    apart: Float[Array, " owners"]
    """Each owner's heterogeneity: ψ of its own population's best model on everybody's records."""
    heterogeneity: float
    """Of all, by records."""
    best: tuple[Optimum | None, ...]
    """Each population's own best model; None where it has no finite one."""
    bundle: Int[np.ndarray, " owners"]
    """Of each owner (`copriv.agreement.equivalent_owners`): a run of many is one of their bundles."""

    def problem(self, agreement: Agreement) -> Problem:
        """The owners of `agreement` in this world, in its order, or their bundles."""
        parts = self._shared
        place = self.bundle.tolist() if agreement.n_owners == len(self.held) else range(agreement.n_owners)
        owners = tuple(parts[i % len(parts)] for i in place)
        return replace(self.pool.under(agreement), unbounded=owners, pooled=self.pool.unbounded[0])

    def on_own(self, i: int, models: Float[Array, "models p"]) -> Float[Array, " models"]:
        """ψ of models on owner i's own population, above the best there; HOPELESS where it has no best one."""
        best, law = self.best[i], self.laws[i]
        if best is None:
            return np.full(len(models), HOPELESS)
        return np.clip(self.pool.fitness_of(self.pool.as_agreed(law)).value(models) / best.value - 1.0, 0.0, HOPELESS)

    @cached_property
    def _shared(self) -> tuple[Records, ...]:
        """Each owner's records; of many owners those of a bundle together."""
        if len(np.unique(self.bundle)) == len(self.held):
            return self.held
        members = [np.flatnonzero(self.bundle == k) for k in range(int(self.bundle.max()) + 1)]
        return tuple(Records.concatenate([self.held[i] for i in one]) for one in members)


def knows_owners(problem: Problem) -> bool:
    """Whether public rows say for two owners or more which of them are theirs, and owners are not too many to be told apart."""
    if problem.strata is None or not 2 <= problem.terms.n_owners <= MOST_OWNERS:
        return False
    if any(table.count is not None for table in problem.terms.owner_tables):
        return False
    known = [s for s in problem.stratum_of_owner if s is not None]
    return len(set(known)) >= 2 and problem.terms.data.heterogeneity is None


@dataclass(frozen=True, eq=False)
class OwnerLaws:
    """What public rows with strata say of each owner's law."""

    sample: PublicSample

    @cached_property
    def _rows(self) -> tuple[tuple[int, ...], ...]:
        """Each owner's own public rows."""
        problem = self.sample.problem
        assert problem.strata is not None
        return tuple(
            () if s is None else tuple(np.flatnonzero(problem.strata == s).tolist()) for s in problem.stratum_of_owner
        )

    @cached_property
    def usable(self) -> bool:
        """Whether worlds are drawings of public rows, one row an observation: else strata cannot be followed into them."""
        law = self.sample.law
        told = law.plenty and (not law.few_events or self._classes_of_a_law)
        return told and len(law.rows) == len(law.raw)

    @cached_property
    def _classes_of_a_law(self) -> bool:
        """Whether rows say enough of what features are like, and too little of classes to be taken as they are."""
        law, p = self.sample.law, self.sample.problem.n_parameters
        return isinstance(self.sample.problem.loss, Logistic) and law.plenty and law.events < CLASSES * p

    @property
    def _bends(self) -> bool:
        return isinstance(self.sample.problem.loss, Squared | Huber | Logistic)

    @cached_property
    def _of_features(self) -> float:
        """α of the features alone, the same for all owners.

        In the direction in which owners lie furthest apart their means spread by 1/α, in units of all rows', and by what
        chance adds there: the largest eigenvalue of N means' noise, (1 + √(q/N))²/n_i⁰ of q directions (Marchenko and Pastur
        1967). Directions are those of features and of how long each is: owners may differ in width alone.
        """
        x = _uncorrelated(self.sample.problem.unbounded[0].features)
        z = _uncorrelated(np.column_stack([x, np.minimum(np.abs(x), LONG)]))
        rows = [list(mine) for mine in self._rows if mine]
        n = np.array([len(mine) for mine in rows], dtype=np.float64)
        means, weight = np.array([z[mine].mean(axis=0) for mine in rows]), n / n.sum()
        chance = float(weight @ ((1.0 - n / len(z)) / n)) * (1.0 + np.sqrt(z.shape[1] / len(n))) ** 2
        widest = float(np.linalg.eigvalsh((means * weight[:, None]).T @ means)[-1]) if z.size else 0.0
        return float(1.0 / max(widest - chance, 1.0 / MOST_ROWS))

    @cached_property
    def _posterior(self) -> tuple[Float[Array, "draws owners"], Float[Array, "draws groups p"]]:
        return posterior(self.sample, self._rows)

    @cached_property
    def heterogeneity(self) -> Heterogeneity:
        """u of all owners by records: median and 90 % of its posterior."""
        away, weights = self._posterior[1][:, :-1], self.sample.problem.terms.records
        apart = 0.5 * np.sum((away @ self.sample.metric) * away, axis=2) / self.sample.optimum.value
        low, value, high = (float(q) for q in np.quantile(apart @ (weights / weights.sum()), [0.05, 0.5, 0.95]))
        return Heterogeneity(value, low, high, "strata")

    def drawn(self, number: int, seed: int) -> tuple[OwnerWorld, ...]:
        """Worlds. Raises InvalidInput where most have no best fitness above 0, so that ψ would mean nothing."""
        made: list[OwnerWorld] = []
        for attempt in range((TRIED + 1) * number):
            world = self._draw(np.random.default_rng([seed, 8, attempt]))
            if world is not None:
                made.append(world)
            if len(made) == number:
                return tuple(made)
        raise InvalidInput(
            "forecast: the owners' records can most likely be fitted exactly, and ψ is relative to a best fitness above 0: "
            "set model.regularization above 0 (1e-3, say), or bring more records"
        )

    def _draw(self, rng: np.random.Generator) -> OwnerWorld | None:
        sample, law = self.sample, self.sample.law
        problem, rows = sample.problem, law.rows
        n = problem.terms.records.astype(np.int64)
        base = rng.standard_exponential(len(rows)) * rows.weight
        base /= base.sum()
        t = int(rng.integers(len(self._posterior[0])))
        u, away = (part[t] for part in self._posterior)
        κ, p = sample.information / sample.optimum.value, problem.n_parameters
        own = np.array([len(mine) for mine in self._rows])
        # Bent laws need everybody's rows for what features look like; others for what their best model is, too.
        α = np.full(len(n), self._of_features) if self._bends else κ / u
        α = np.maximum(α, np.maximum(LEAST_ROWS * p - own, 1e-3))
        shape = α[:, None] * base
        for i, place in enumerate(map(list, self._rows)):
            shape[i, place] += rows.weight[place]
        laws = rng.standard_gamma(shape)
        laws /= laws.sum(axis=1, keepdims=True)
        # First to see which rows are in the tail of so large a pool, then those that are dealt.
        counts = rng.multinomial(n, laws).sum(axis=0)
        kept = np.flatnonzero(counts)
        table, at = law.with_tails(rng, rows.features[kept], law.targets[kept], counts[kept])
        row = kept[at]
        laws = laws[:, row] / np.bincount(row, minlength=len(rows))[row]
        near = sample.optimum.theta
        if self._classes_of_a_law:
            z = law.logits(rng, table.features)
            populations = tuple(
                _of_odds(table.features, size * one / one.sum(), z + problem.as_agreed(table).features @ far)
                for one, far, size in zip(laws, away[:-1], n, strict=True)
            )
        else:
            common = best_on(problem, self._less(away, base), near)
            if common is None:
                return None
            near, theirs = common.theta, self._said(away, table, row)
            populations = tuple(
                self._bent(Records(table.features, table.target, one), near, far, theirs, float(size))
                for one, far, size in zip(laws, away[:-1], n, strict=True)
            )
        held = tuple(
            _part(law_i, rng.multinomial(size, law_i.weight / law_i.weight.sum()).astype(np.float64))
            for law_i, size in zip(populations, n, strict=True)
        )
        whole = Records.concatenate(held)
        pool = replace(
            problem, unbounded=(whole,) * problem.terms.n_owners, stand_in=True, known_optimum=None, strata=None,
            strata_names=(),
        )  # fmt: skip
        optimum = best_on(pool, whole, near, 1e-8)
        if optimum is None or optimum.value <= nothing_left(pool):
            return None
        pool = replace(pool, known_optimum=optimum)
        best = tuple(best_on(pool, one, optimum.theta) for one in populations)
        apart = np.array([HOPELESS if one is None else psi(pool, one.theta) for one in best])
        bundle = bundles_of(problem.terms).of_owner
        return OwnerWorld(pool, held, populations, apart, float(n @ apart / n.sum()), best, bundle)

    @cached_property
    def _whose(self) -> Int[np.ndarray, " rows"]:
        """The first owner that each public row is of; the last place is nobody's."""
        whose = np.full(len(self.sample.problem.unbounded[0]), len(self._rows))
        for i in reversed(range(len(self._rows))):
            whose[list(self._rows[i])] = i
        return whose

    def _said(self, away: Float[Array, "owners p"], table: Records, row: Int[np.ndarray, " made"]) -> Array:
        """What the model of each row's own owner says of it beyond the common one; row: which public row it is made of."""
        return np.asarray(np.sum(self.sample.problem.as_agreed(table).features * away[self._whose[row]], axis=1))

    def _less(self, away: Float[Array, "owners p"], weight: Float[Array, " rows"]) -> Records:
        """Everybody's rows as they would be if all owners had the common model, which they say alone.

        Else what owners differ by would count as noise of the common model, and once more where laws of owners are drawn.
        """
        problem, rows, targets = self.sample.problem, self.sample.law.rows, self.sample.law.targets
        theirs = self._said(away, rows, np.arange(len(rows)))
        if isinstance(problem.loss, Squared | Huber):
            return Records(rows.features, targets - theirs, weight)
        if isinstance(problem.loss, Logistic):
            z = targets * (problem.as_agreed(rows).features @ self.sample.optimum.theta)
            weight = weight * expit(z) / expit(z + targets * theirs)
        return Records(rows.features, targets, weight)

    def _bent(
        self, law: Records, common: Float[Array, " p"], away: Float[Array, " p"], theirs: Array, size: float
    ) -> Records:
        """An owner's law, its targets (or how often each class is) such that its best model is common + away.

        Each row is moved from its own owner's model (which says `theirs` more than the common one) to this one's, its own
        rows by what is left: what other owners differ by is no noise of this one's records.
        """
        problem, some = self.sample.problem, law.weight > 1e-9 * law.weight.max()
        x, y, weight, theirs = law.features[some], law.target[some], law.weight[some], theirs[some]
        weight = size * weight / weight.sum()
        whole = problem.as_agreed(law).features[some]
        if isinstance(problem.loss, Squared | Huber):
            y = y + whole @ away - theirs
            now = best_on(problem, Records(x, y, weight), common + away)
            return Records(x, y if now is None else y + whole @ (common + away - now.theta), weight)
        if not isinstance(problem.loss, Logistic):
            return Records(x, y, weight)
        z = y * (whole @ common)
        weight = weight * expit(z + y * (whole @ away)) / expit(z + y * theirs)
        now = best_on(problem, Records(x, y, weight), common + away)
        if now is not None:
            weight = weight * expit(z + y * (whole @ away)) / np.maximum(expit(y * (whole @ now.theta)), 1e-6)
        return Records(x, y, size * weight / weight.sum())


def _of_odds(x: Array, weight: Array, z: Array) -> Records:
    """Rows as both classes, as often as these log odds have it."""
    often = np.concatenate([weight * expit(z), weight * expit(-z)])
    both = Records(np.vstack([x, x]), np.repeat([1.0, -1.0], len(x)), often)
    return _part(both, np.where(often > 1e-9 * weight.max(), often, 0.0))


def _uncorrelated(x: Float[Array, "rows columns"]) -> Float[Array, "rows directions"]:
    """Rows less their mean in coordinates that are uncorrelated and of variance 1; what does not vary is left out."""
    spread = x.std(axis=0)
    varied = spread > 1e-12 * np.abs(x).max(axis=0, initial=0.0)
    x = x[:, varied] / spread[varied]  # which directions vary is no question of columns' units
    if not x.shape[1]:
        return x
    a, U = np.linalg.eigh(np.cov(x.T, bias=True).reshape(x.shape[1], -1))
    kept = a > 1e-9 * max(float(a[-1]), 1e-300)
    return np.asarray((x - x.mean(axis=0)) @ U[:, kept] / np.sqrt(a[kept]))


def _part(table: Records, weight: Float[Array, " rows"]) -> Records:
    some = weight > 0
    return Records(table.features[some], table.target[some], weight[some])


def best_on(problem: Problem, records: Records, near: Float[Array, " p"], accuracy: float = 1e-5) -> Optimum | None:
    """The best model of records without the intercept's column, as the problem fits models; None: there is no finite one."""
    try:
        return problem.fitness_of(problem.as_agreed(records)).minimum(near, accuracy)
    except NotCertified:
        return None


def psi(pool: Problem, theta: Float[Array, " p"]) -> float:
    """ψ on everybody's records of a world; no more than HOPELESS."""
    return float(np.clip(float(pool.fitness.value(theta)) / pool.optimum.value - 1.0, 0.0, HOPELESS))
