"""Worlds in which owners differ: by owner where strata of the public rows are owners, else by an unequal allocation.

The public rows are a sample of all owners' records. **Without strata**, a world's pool is drawn as where owners are alike
(`PublicSample.drawn`), and each of its rows is divided among the owners,

    share of owner j in row k  ∝  w_j · exp(c_j + s·t_jk),        Σ_j share_jk = 1,

with t_jk the normal score of row k along a random direction of owner j through features and gradients ∇ℓ at θ*. At s = 0 all
owners have the same law; as s grows they differ in their features and in their best models, while the pool is unchanged. s is
chosen to give the owners a stated heterogeneity (`copriv.terms.heterogeneity`).

Many owners share a few directions (`KINDS`), so that the cost of a run does not grow with their number.

**Strata.** Where strata of the public rows are owners (by name, or by `owner.stratum`), each owner's records are drawn from a
mixture of its own public rows and all public rows. Owner i's law is a draw of a Dirichlet
process centred on the pooled law, P_i ~ DP(α_i, P). Given its n_i⁰ public rows the posterior is again a Dirichlet process,

    P_i | rows  ~  DP(α_i + n_i⁰,  (α_i P + Σ own rows) / (α_i + n_i⁰)),

which is partial pooling: an owner with few public rows is near the pooled law, one with many is near its own rows.

α is common to all owners and estimated from the features: the means of owners' rows have variance 1/α + 1/n_i⁰ in the
direction in which they differ most. (An average over directions would be too small where owners differ in one feature.)
Where a pilot tells of owners that have no public rows, α is drawn as it is in real tables (squared and Huber losses).

How far an owner's best model θ_i is from θ* has a posterior of its own (`copriv.populations.owner_posterior`). A mixture of
rows does not have θ_i as its best model, so targets of the mixture are adjusted until it has: each row is shifted from its
own owner's model to owner i's, by a draw of d_i = θ_i − θ*, and θ* is itself drawn, from rows shifted to it. Logistic losses
reweight the classes instead. Logistic models with few rows per parameter draw classes from the posterior at θ* + d_i, because a
fit would overfit the observed ones (decision 0015). Other losses (the hinge, a user's own) use α_i = κ/(u_i f(θ*)) instead: an
optimum over α rows costs κ/α (`public_sample`).

From P_i come the owner's n_i records and its own model, and from all records the pool and θ*, so that ψ, own losses, verdicts
and runs refer to the same world. The model is a hierarchical Dirichlet process (Teh et al. 2006) with a bootstrap posterior
(Rubin 1981) for each owner.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit, ndtri

from copriv.agreement import Agreement
from copriv.agreement.participants import bundles_of
from copriv.losses import Huber, Logistic, Squared
from copriv.model.records import Records
from copriv.populations.law import CLASSES
from copriv.populations.owner_posterior import posterior
from copriv.populations.public_sample import PublicSample, kept, nothing_left
from copriv.populations.targets import varied, with_both_classes
from copriv.populations.world import OwnerDraw, World, in_every_place, psi, weighted, with_best_model
from copriv.problem import Problem
from copriv.terms.heterogeneity import Heterogeneity, from_answers, from_strata, unknown
from copriv.types import Array, Whole

FEATURES_APART, SPREAD_APART = 0.38, 1.3
"""Squared distance of owners' mean features from everybody's, in standard deviations of whitened features: its median over 22
tables of groups, and the standard deviation of its logarithm (`benchmarks.pilot.features`). A pilot does not tell it."""
MOST_OWNERS = 200
"""Most owners with a law of their own, each of which takes a fit per world; for more, strata give heterogeneity only."""


def knows_owners(sample: PublicSample) -> bool:
    """Whether strata of the public rows, or a pilot, tell of two owners or more, of at most `MOST_OWNERS`."""
    problem = sample.problem
    if not 2 <= problem.terms.n_owners <= MOST_OWNERS or problem.terms.data.heterogeneity is not None:
        return False
    known = problem.strata_name_owners or (sample.pilot is not None and sample.pilot.by_owner)
    return known and not any(table.count is not None for table in problem.terms.owner_tables)


@dataclass(frozen=True, eq=False)
class OwnerLaws:
    """The posterior of each owner's law, given public rows with strata."""

    sample: PublicSample

    @cached_property
    def _rows(self) -> tuple[tuple[int, ...], ...]:
        """Indices of each owner's public rows; () for an owner without a stratum."""
        problem = self.sample.problem
        if problem.strata is None:
            return ((),) * problem.terms.n_owners
        return tuple(tuple(np.flatnonzero(problem.strata == s).tolist()) for s in problem.stratum_of_owner)

    @cached_property
    def models_classes(self) -> bool:
        """Whether rows are too few for classes, which are then drawn from a model, and not for features."""
        law, p = self.sample.law, self.sample.problem.n_parameters
        return isinstance(self.sample.problem.loss, Logistic) and law.plenty and law.events < CLASSES * p

    @cached_property
    def _alpha(self) -> float:
        """α of the features, common to all owners.

        The largest variance of owners' means over directions is 1/α plus sampling noise, in units of the variance of all
        rows; the largest eigenvalue of the noise of N means in q directions is (1 + √(q/N))²/n_i⁰ (Marchenko and Pastur
        1967). Directions include absolute values, as owners may differ in variance alone.
        """
        if not any(self._rows):
            return 1e4  # at which owners hardly differ: nothing tells how their features do
        x = _whitened(self.sample.problem.unbounded[0].features)
        z = _whitened(np.column_stack([x, np.minimum(np.abs(x), 3.0)]))  # the minimum limits the influence of outliers
        rows = [list(mine) for mine in self._rows if mine]
        n = np.array([len(mine) for mine in rows], dtype=np.float64)
        means, weight = np.array([z[mine].mean(axis=0) for mine in rows]), n / n.sum()
        chance = float(weight @ ((1.0 - n / len(z)) / n)) * (1.0 + np.sqrt(z.shape[1] / len(n))) ** 2
        if not z.size:
            return 1e4
        largest = float(np.linalg.eigvalsh((means * weight[:, None]).T @ means)[-1])
        return float(1.0 / max(largest - chance, 1e-4))  # at α = 10,000 owners hardly differ

    @property
    def _features_as_in_tables(self) -> bool:
        """Whether features differ as in real tables, since a pilot tells of owners that have no public rows.

        Not with the logistic loss: few rows of two classes are nearly separable, and their best model is far away.
        """
        return not any(self._rows) and isinstance(self.sample.problem.loss, Squared | Huber)

    def _alpha_of_tables(self, rng: np.random.Generator) -> float:
        """Draw α as it is in real tables: means of α rows of p whitened features have a squared distance of p/α."""
        return float(self.sample.problem.n_parameters / (FEATURES_APART * np.exp(SPREAD_APART * rng.normal())))

    @cached_property
    def _posterior(self) -> tuple[Float[Array, "draws owners"], Float[Array, "draws groups p"]]:
        return posterior(self.sample, self._rows)

    @cached_property
    def heterogeneity(self) -> Heterogeneity:
        """Mean u over owners, weighted by records: posterior median and 90 % interval."""
        deviation, weights = self._posterior[1][:, :-1], self.sample.problem.terms.records
        u = 0.5 * np.sum((deviation @ self.sample.metric) * deviation, axis=2) / self.sample.optimum.value
        low, value, high = (float(q) for q in np.quantile(u @ (weights / weights.sum()), [0.05, 0.5, 0.95]))
        answered = self.sample.pilot is not None and self.sample.pilot.by_owner
        return Heterogeneity(value, low, high, "answers" if answered else "strata")

    def drawn(self, number: int, seed: int) -> tuple[World, ...]:
        """Draw worlds. Raises InvalidInput where most have no best fitness above 0, so that ψ is undefined."""
        return kept(self._draw, number, seed, 8, "the owners' records")

    def _draw(self, seed: tuple[int, ...]) -> World | None:
        problem, law, rng = self.sample.problem, self.sample.law, np.random.default_rng(seed)
        rows, n = law.rows, problem.terms.records.astype(np.int64)
        base = rng.standard_exponential(len(rows)) * rows.weight
        base /= base.sum()
        t = int(rng.integers(len(self._posterior[0])))
        u, deviations = (draws[t] for draws in self._posterior)
        table, row, laws, worth = self._draw_laws(rng, base, u, n)
        near, x = self.sample.optimum.theta, problem.as_agreed(table).features
        if self.models_classes:
            z = law.model.logits(rng, table.features)  # type: ignore[union-attr]
            populations = []
            for one, deviation in zip(laws, deviations[:-1], strict=True):
                odds = z + x @ deviation
                both = with_both_classes(table.features, one * expit(odds), one * expit(-odds))
                populations.append(both.taken(both.weight > 1e-9 * one.max()))
        else:
            common = problem.optimum_of(self._without_deviations(deviations, base), near)
            if common is None:
                return None
            near, theirs = common.theta, self._shift_of(deviations, x, row)
            if self.sample.pilot is not None:  # deviations are then from the common model that the pilot tells
                deviations = deviations + (self.sample.pilot.common(rng) - near)
            populations = []
            for one, deviation, target in zip(
                laws, deviations[:-1], self._targets(table, x @ near, worth), strict=True
            ):
                some = one > 1e-9 * one.max()
                own = Records(table.features, target, one).taken(some)
                populations.append(with_best_model(problem, own, near, deviation, theirs[some]))
        sized = zip(populations, n, strict=True)
        populations = [replace(one, weight=size * one.weight / one.total) for one, size in sized]
        sized = zip(populations, n, strict=True)
        held = tuple(weighted(one, rng.multinomial(size, one.weight / one.weight.sum())) for one, size in sized)
        whole = Records.concatenate(held)
        pool = in_every_place(problem, whole, strata=None, strata_names=())
        optimum = pool.optimum_of(whole, near, 1e-8)
        if optimum is None or optimum.value <= nothing_left(pool):
            return None
        pool = replace(pool, known_optimum=optimum)
        owners = tuple(
            OwnerDraw(one, records, pool.optimum_of(one, optimum.theta))
            for one, records in zip(populations, held, strict=True)
        )
        apart = np.array([psi(pool, one.best) for one in owners])
        bundles, parts = bundles_of(problem.terms), held
        if bundles.number < len(held):
            members = [np.flatnonzero(bundles.of_owner == k) for k in range(bundles.number)]
            parts = tuple(Records.concatenate([held[i] for i in one]) for one in members)
        return World(pool, seed, parts, bundles.of_owner, apart, float(n @ apart / n.sum()), owners)

    def _draw_laws(
        self,
        rng: np.random.Generator,
        base: Float[Array, " rows"],
        u: Float[Array, " owners"],
        n: Int[Whole, " owners"],
    ) -> tuple[Records, Int[Whole, " made"], Float[Array, "owners made"], Float[Array, " owners"]]:
        """Draw the rows of a world and each owner's weights of them.

        Returns the rows, their public rows, the weights, and how many rows each owner's law is worth: α_i + n_i⁰.

        base: weights of the public rows in the pooled law. u, n: heterogeneity and number of records of each owner.
        """
        law, rows = self.sample.law, self.sample.law.rows
        own = np.array([len(mine) for mine in self._rows])
        if isinstance(self.sample.problem.loss, Squared | Huber | Logistic):
            α = np.full(len(n), self._alpha_of_tables(rng) if self._features_as_in_tables else self._alpha)
        else:  # targets cannot be adjusted, so that α determines how far the owners' optima lie from each other
            α = self.sample.information / self.sample.optimum.value / u
        # With fewer than 3 rows per parameter, an owner's model would interpolate its law.
        α = np.maximum(α, np.maximum(3 * self.sample.problem.n_parameters - own, 1e-3))
        shape = α[:, None] * base
        for i, place in enumerate(map(list, self._rows)):
            shape[i, place] += rows.weight[place]
        laws = rng.standard_gamma(shape)
        laws /= laws.sum(axis=1, keepdims=True)
        # A first draw determines the rows of the tail in a pool of this size; records are drawn later.
        counts = rng.multinomial(n, laws).sum(axis=0)
        kept = np.flatnonzero(counts)
        table, at = law.with_tails(rng, rows.features[kept], law.targets[kept], counts[kept])
        row = kept[at]
        return table, row, laws[:, row] / np.bincount(row, minlength=len(rows))[row], α + own

    def _targets(
        self, table: Records, fitted: Float[Array, " made"], worth: Float[Array, " owners"]
    ) -> list[Float[Array, " made"]]:
        """Each owner's targets.

        A fit to a law that is worth w rows leaves 1 − p/(w + 1) of the residuals' variance. Where few rows stand for an owner
        (`_features_as_in_tables`), its residuals are made longer by as much.

        fitted: predictions of the common model. worth: w of each owner.
        """
        if not self._features_as_in_tables:
            return [table.target] * len(worth)
        longer = 1.0 / np.sqrt(1.0 - self.sample.problem.n_parameters / (worth + 1.0))
        return [fitted + one * (table.target - fitted) for one in longer]

    @cached_property
    def _owner_of_row(self) -> Int[Whole, " rows"]:
        """Index of the first owner of each public row; the number of owners for rows without an owner."""
        owner = np.full(len(self.sample.problem.unbounded[0]), len(self._rows))
        for i in reversed(range(len(self._rows))):
            owner[list(self._rows[i])] = i
        return owner

    def _shift_of(
        self, deviations: Float[Array, "owners p"], x: Float[Array, "made p"], row: Int[Whole, " made"]
    ) -> Array:
        """xᵀd of each row, d the deviation of its own owner; row: index of its public row."""
        return np.asarray(np.sum(x * deviations[self._owner_of_row[row]], axis=1))

    def _without_deviations(self, deviations: Float[Array, "owners p"], weight: Float[Array, " rows"]) -> Records:
        """All rows, shifted from their owners' models to the common model.

        Otherwise differences between owners would count as noise of the common model, and again in the owners' laws.
        """
        problem, rows, targets = self.sample.problem, self.sample.law.rows, self.sample.law.targets
        x = problem.as_agreed(rows).features
        theirs = self._shift_of(deviations, x, np.arange(len(rows)))
        if isinstance(problem.loss, Squared | Huber):
            targets = targets - theirs
        elif isinstance(problem.loss, Logistic):
            z = targets * (x @ self.sample.optimum.theta)
            weight = weight * expit(z) / expit(z + targets * theirs)
        return Records(rows.features, targets, weight)


def _whitened(x: Float[Array, "rows columns"]) -> Float[Array, "rows directions"]:
    """Centred, uncorrelated directions of variance 1; constant directions are left out."""
    some = varied(x)
    x = x[:, some] / x.std(axis=0)[some]  # so that the rank does not depend on units
    if not x.shape[1]:
        return x
    a, U = np.linalg.eigh(np.cov(x.T, bias=True).reshape(x.shape[1], -1))
    kept = a > 1e-9 * max(float(a[-1]), 1e-300)
    return np.asarray((x - x.mean(axis=0)) @ U[:, kept] / np.sqrt(a[kept]))


KINDS = 8
"""Number of directions, and of kinds of owners, in one world."""


def heterogeneity_of(sample: PublicSample) -> Heterogeneity:
    """The owners' heterogeneity: stated in the agreement, estimated from a pilot or strata of public rows, or the prior."""
    problem = sample.problem
    if problem.terms.data.heterogeneity is not None:
        return Heterogeneity.stated(problem.terms.data.heterogeneity)
    laws = laws_of(sample)
    if laws is not None and sample.optimum.value > 0:
        return laws.heterogeneity
    if sample.pilot is not None and sample.pilot.by_owner and problem.terms.n_owners > 1:
        told, axes = sample.pilot, np.eye(problem.n_parameters)
        noise = told.noise.mean(axis=1)
        return from_answers(told.pull, problem.terms.weights, noise, axes, sample.optimum.value)
    if problem.strata is None or not problem.strata_name_owners or sample.optimum.value <= 0:
        return unknown(sample.unexplained)
    r = problem.owners[0]
    gradients = problem.fitness.loss.gradients(sample.optimum.theta, r.features, r.target)
    return from_strata(gradients, r.weight / r.total, problem.strata, sample.hessian, sample.optimum.value)


@lru_cache(maxsize=4)
def laws_of(sample: PublicSample) -> OwnerLaws | None:
    """The owners' laws given strata of the public rows; None where strata are not owners, or rows are too few."""
    law, laws = sample.law, OwnerLaws(sample)
    if not knows_owners(sample) or not law.plenty or (law.few_events and not laws.models_classes):
        return None
    return None if law.copied else laws  # each row of a world has a stratum where public rows are distinct


def draw_worlds(
    sample: PublicSample, agreement: Agreement, heterogeneity: Heterogeneity, number: int, seed: int = 0
) -> tuple[World, ...]:
    """Draw worlds: of equal owners where u is 0, by owner where strata are owners, else at quantiles of u."""
    if heterogeneity.alike or agreement.n_owners == 1:
        return sample.drawn(number, seed)
    laws = laws_of(sample)
    if laws is not None:
        return laws.drawn(number, seed)
    order = np.random.default_rng([seed, 6]).permutation(number)
    return heterogeneous_worlds(sample, agreement, [heterogeneity.quantile((i + 0.5) / number) for i in order], seed)


def heterogeneous_worlds(
    sample: PublicSample, agreement: Agreement, levels: Sequence[float], seed: int = 0
) -> tuple[World, ...]:
    """Draw a world for each level of heterogeneity, from the pools of `sample.drawn` in their order.

    A world's heterogeneity is below its level where no allocation of the rows reaches it.
    """
    bundles = bundles_of(agreement)
    n = bundles.total(np.asarray(agreement.records, dtype=np.float64))
    size = np.bincount(np.arange(len(n)) % KINDS, weights=n)
    size, made = size / size.sum(), []
    for i, (world, level) in enumerate(zip(sample.drawn(len(levels), seed), levels, strict=True)):
        deal = _Deal.of(world.pool, sample.hessian_in(world), size, np.random.default_rng([seed, 5, i]))
        shares, rows = deal.shares_at(level), world.pool.unbounded[0]
        u, with_intercept = deal.heterogeneity(shares), deal.heterogeneity_with_intercept(shares)
        parts = tuple(Records(rows.features, rows.target, rows.weight * share) for share in shares)
        world = replace(world, parts=parts, bundle=bundles.of_owner, apart=u, heterogeneity=float(size @ u))
        made.append(replace(world, apart_with_intercept=with_intercept))
    return tuple(made)


@dataclass(frozen=True, eq=False)
class _Deal:
    """Allocation of a pool's rows to kinds of owners, by their normal scores along each kind's direction."""

    scores: Float[Array, "kinds records"]
    weight: Float[Array, " records"]
    size: Float[Array, " kinds"]
    """Share of all records that each kind holds."""
    gradients: Float[Array, "records p"]
    hessian: Float[Array, "p p"]
    optimum: float

    @classmethod
    def of(
        cls, pool: Problem, hessian: Float[Array, "p p"], size: Float[Array, " kinds"], rng: np.random.Generator
    ) -> "_Deal":
        r, best = pool.owners[0], pool.optimum
        x, share = r.features, r.weight / r.weight.sum()
        g = pool.fitness.loss.gradients(best.theta, x, r.target)
        g = g - share @ g
        along = np.zeros((len(x), len(size)))
        for part in (x - share @ x, g):  # whitened, so that features and gradients have equal influence
            a, U = np.linalg.eigh((part * share[:, None]).T @ part)
            scale = np.where(a > 1e-10 * max(a[-1], 1e-300), 1.0 / np.sqrt(np.maximum(a, 1e-300)), 0.0)
            along += part @ (U * scale) @ rng.normal(size=(x.shape[1], len(size)))
        order = np.argsort(along, axis=0, kind="stable").T
        before = np.cumsum(share[order], axis=1) - 0.5 * share[order]
        scores = np.empty(order.shape)
        np.put_along_axis(scores, order, ndtri(np.clip(before, 1e-6, 1.0 - 1e-6)), axis=1)
        return cls(scores, r.weight, size, g, hessian, best.value)

    def shares(self, steepness: float) -> Float[Array, "kinds records"]:
        """Share of each kind in every row at this s; the kinds have the agreed sizes."""
        if steepness == 0:
            return self.size[:, None]
        share, factor = self.weight / self.weight.sum(), self.size.copy()
        along = np.exp(steepness * (self.scores - self.scores.max(axis=0)))
        for _ in range(500):  # convergence is slow at a large s
            held = factor * (along @ (share / (factor @ along)))
            if np.abs(held / self.size - 1.0).max() < 1e-3:
                break
            factor *= self.size / np.maximum(held, 1e-300)
        return np.asarray(factor[:, None] * along / (factor @ along))

    def shares_at(self, heterogeneity: float) -> Float[Array, "kinds records"]:
        """Shares of this heterogeneity, by bisection up to s = 30, where nearly every row belongs to one kind."""
        low, high = 0.0, 30.0
        if heterogeneity <= 0 or len(self.size) < 2:
            return self.shares(low)
        if float(self.size @ self.heterogeneity(self.shares(high))) > heterogeneity:
            for _ in range(14):
                middle = 0.5 * (low + high)
                if float(self.size @ self.heterogeneity(self.shares(middle))) < heterogeneity:
                    low = middle
                else:
                    high = middle
        return self.shares(high)

    def heterogeneity(self, shares: Float[Array, "kinds records"]) -> Float[Array, " kinds"]:
        """u_j = ½ m_jᵀA⁻¹m_j / f(θ*) of each kind."""
        m = self._pull(shares)
        away = np.linalg.lstsq(self.hessian, m.T, rcond=1e-10)[0].T
        return np.asarray(0.5 * np.sum(m * away, axis=1) / self.optimum)

    def heterogeneity_with_intercept(self, shares: Float[Array, "kinds records"]) -> Float[Array, " kinds"]:
        """u_j less (m_j)₀²/2A₀₀f(θ*), what the best intercept for kind j saves; 0 is the intercept's place, the last."""
        saved = 0.5 * self._pull(shares)[:, -1] ** 2 / (self.hessian[-1, -1] * self.optimum)
        return np.asarray(np.maximum(self.heterogeneity(shares) - saved, 0.0))

    def _pull(self, shares: Float[Array, "kinds records"]) -> Float[Array, "kinds p"]:
        """m_j, the mean gradient of each kind's rows at the common optimum."""
        held = shares * self.weight
        return np.asarray((held @ self.gradients) / held.sum(axis=1, keepdims=True))
