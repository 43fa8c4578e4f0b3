"""Worlds: posterior draws of all owners' records, and of their allocation to the owners, given the public rows.

`copriv.populations.law` draws all records and, where owners differ, `copriv.populations.dealt` their allocation.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit

from copriv.agreement import Agreement
from copriv.agreement.participants import bundles_of
from copriv.losses import Huber, Logistic, Squared
from copriv.model.fitness import Fitness, Optimum
from copriv.model.records import Records
from copriv.problem import Problem
from copriv.types import Array, Whole, is_linear

HOPELESS = 1e6
"""The largest ψ, and ψ where there is no finite optimum."""


@dataclass(frozen=True, eq=False)
class OwnerDraw:
    """A draw of one owner's law, and of its records."""

    law: Records
    """Weighted rows."""
    records: Records
    """Its n_i records, drawn from the law."""
    best: Optimum | None
    """The optimum of the law; None where it is not finite."""


@dataclass(frozen=True, eq=False)
class World:
    """A draw of all records, and of those of each owner or kind of owner."""

    pool: Problem
    """A problem with all records in every owner's place, and a known optimum."""
    seed: tuple[int, ...] = ()
    parts: tuple[Records, ...] = ()
    """Records of each kind of owner, of each owner or of each bundle, without the intercept; () where all hold the pool."""
    bundle: Int[np.ndarray, " owners"] | None = None
    """Bundle of each owner (`copriv.agreement.participants`); bundle i holds part i modulo the number of parts."""
    apart: Float[Array, " kinds"] | None = None
    """Heterogeneity of each kind or owner: ψ of its law's best model on all records. None where owners are alike."""
    heterogeneity: float = 0.0
    """Mean over kinds or owners, weighted by records."""
    owners: tuple[OwnerDraw, ...] = ()
    """Each owner, where public rows tell of each; else ()."""
    apart_with_intercept: Float[Array, " kinds"] | None = None
    """`apart` where each kind has its own best intercept; None where owners are alike, or each is known."""

    def problem(self, agreement: Agreement) -> Problem:
        """The problem of an agreement of the owners, or of their bundles, in this world."""
        problem = self.pool.under(agreement)
        if self.bundle is None:
            return problem
        bundles = range(agreement.n_owners)
        if agreement.n_owners == len(self.bundle):
            bundles = self.bundle.tolist()
        owners = tuple(self.parts[i % len(self.parts)] for i in bundles)
        return replace(problem, unbounded=owners, pooled=self.pool.unbounded[0])

    def without_others(self, agreement: Agreement, stay: Int[np.ndarray, " stay"]) -> "World | None":
        """The same world with the owners of `agreement` only, whose indices are `stay`; None where their optimum is not finite.

        ψ is on their records.
        """
        if self.bundle is None:  # every owner holds the pool
            return replace(self, pool=self.pool.under(agreement))
        bundles, records = bundles_of(agreement), np.asarray(agreement.records, dtype=np.float64)
        members = [np.flatnonzero(bundles.of_owner == k) for k in range(bundles.number)]
        if self.owners:
            parts = [Records.concatenate([self.owners[stay[i]].records for i in one]) for one in members]
        else:
            parts = [self.parts[self.bundle[stay[one[0]]] % len(self.parts)] for one in members]
        shares = [records[one].sum() / part.total for one, part in zip(members, parts, strict=True)]
        whole = Records.concatenate(
            [replace(part, weight=t * part.weight) for t, part in zip(shares, parts, strict=True)]
        )
        pool = in_every_place(self.pool.under(agreement), whole)
        optimum = pool.optimum_of(whole, self.pool.optimum.theta, 1e-8)
        if optimum is None or optimum.value <= 0:
            return None
        pool = replace(pool, known_optimum=optimum)
        return World(pool, self.seed, tuple(parts), bundles.of_owner, self.apart, self.heterogeneity)

    def dealt(self) -> "World":
        """The same pool, allocated to the owners at random without replacement."""
        pool, parts = self.pool.unbounded[0], []
        rng, left = np.random.default_rng([*self.seed, 7]), _counts(pool)
        for owner in self.pool.terms.owner:
            drawn = draw_without_replacement(rng, left, owner.records)
            left = left - drawn
            parts.append(weighted(pool, drawn))
        return replace(self, parts=tuple(parts), bundle=np.arange(len(parts)))

    def some_of(self, records: int) -> Records | None:
        """A draw of records of the pool without replacement; None where the pool has no more than these."""
        pool = self.pool.unbounded[0]
        counts = _counts(pool)
        if records >= counts.sum():
            return None
        return weighted(pool, draw_without_replacement(np.random.default_rng([*self.seed, records]), counts, records))

    def on_own(self, i: int, models: Float[Array, "models p"]) -> Float[Array, " models"]:
        """ψ of models on owner i's law; HOPELESS where its optimum is not finite."""
        owner = self.owners[i]
        if owner.best is None:
            return np.full(len(models), HOPELESS)
        return _above(self.pool.fitness_of(self.pool.as_agreed(owner.law)), owner.best, models)

    def on_own_with_intercept(self, i: int, models: Float[Array, "models p"]) -> Float[Array, " models"]:
        """The same with the best intercept for owner i in place of each model's.

        Exact for the squared loss, else by the curvature H at the law's best model: of ½δᵀHδ, the best intercept leaves
        ½δᵀHδ − (Hδ)₀²/2H₀₀, with 0 the intercept's place and δ the difference from that model.
        """
        owner, cost = self.owners[i], self.on_own(i, models)
        if owner.best is None:
            return cost
        H = curvature_of(self.pool.fitness_of(self.pool.as_agreed(owner.law)), owner.best.theta)
        away = models - owner.best.theta
        pull = away @ H
        saved = pull[:, -1] ** 2 / np.maximum(H[-1, -1] * np.sum(away * pull, axis=1), 1e-300)
        return np.asarray(cost * (1.0 - np.clip(saved, 0.0, 1.0)))

    def on_all(self, models: Float[Array, "*models p"]) -> Float[Array, "*models"]:
        """ψ of models on all records."""
        return _above(self.pool.fitness, self.pool.optimum, models)


def in_every_place(problem: Problem, records: Records, **changes: Any) -> Problem:
    """The problem with these records in every owner's place; its optimum is not known."""
    everybody = (records,) * problem.terms.n_owners
    return replace(problem, unbounded=everybody, stand_in=True, known_optimum=None, **changes)


def with_best_model(
    problem: Problem,
    law: Records,
    common: Float[Array, " p"],
    deviation: Float[Array, " p"],
    theirs: Float[Array, " rows"] | float = 0.0,
) -> Records:
    """Adjust the targets of a law (logistic losses: the weights of classes) so that common + deviation is its best model.

    theirs: xᵀd of each row, for rows whose own best model is common + d. Shifting each row from there to this model keeps
    differences between owners from adding noise. A fit then corrects the remaining difference. Other losses are not adjusted.
    """
    x, y, whole = law.features, law.target, problem.as_agreed(law).features
    if isinstance(problem.loss, Squared | Huber):
        y = y + whole @ deviation - theirs
        now = problem.optimum_of(replace(law, target=y), common + deviation)
        if now is not None:
            y = y + whole @ (common + deviation - now.theta)
        return replace(law, target=y)
    if not isinstance(problem.loss, Logistic):
        return law
    z = y * (whole @ common)
    weight = law.weight * expit(z + y * (whole @ deviation)) / expit(z + y * theirs)
    now = problem.optimum_of(Records(x, y, weight), common + deviation)
    if now is not None:
        weight = weight * expit(z + y * (whole @ deviation)) / np.maximum(expit(y * (whole @ now.theta)), 1e-6)
    return Records(x, y, weight)


def curvature_of(f: Fitness, theta: Float[Array, " p"]) -> Float[Array, "p p"]:
    """∇²f at θ: exact for the squared loss, else by finite differences, across a tenth of the predictions' range at a kink."""
    if f.quadratic is not None:
        return f.quadratic.hessian
    r = f.records
    loss, share = f.loss, r.weight / r.weight.sum()
    c = f.regularizer.strength * np.eye(len(theta))
    if is_linear(loss):
        z = r.features @ theta
        wide = max(float(np.ptp(z)), 1e-6)
        # A lower limit, since the difference across a kink would be unbounded for nearly constant predictions.
        if not loss.smooth:
            wide = max(wide, 0.5 * float(np.ptp(r.target)))
        h = (1e-4 if loss.smooth else 0.1) * wide
        bend = (loss.slope(z + h, r.target) - loss.slope(z - h, r.target)) / (2.0 * h)
        return np.asarray((r.features * (share * np.abs(bend))[:, None]).T @ r.features + c)
    h = 1e-4 * max(float(np.abs(theta).max()), 1.0)
    columns = [(f.gradient(theta + h * e) - f.gradient(theta - h * e)) / (2.0 * h) for e in np.eye(len(theta))]
    rough = np.array(columns)
    return np.asarray(0.5 * (rough + rough.T))


def _counts(records: Records) -> Int[Whole, " rows"]:
    return np.rint(records.weight).astype(np.int64)


def weighted(rows: Records, weight: Float[Array, " rows"] | Int[Whole, " rows"]) -> Records:
    """The rows of positive weight, with these weights."""
    some = weight > 0
    return Records(rows.features[some], rows.target[some], weight[some].astype(np.float64))


def draw_without_replacement(rng: np.random.Generator, counts: Int[Whole, " rows"], number: int) -> Int[Whole, " rows"]:
    """Draw `number` units without replacement, or all, from rows that represent `counts` units each."""
    if number >= counts.sum():
        return counts.copy()
    if counts.sum() < 10**9:  # the most that numpy's exact law can count
        return np.asarray(rng.multivariate_hypergeometric(counts, number, method="marginals"))
    # Row by row, by the normal approximation of each conditional hypergeometric law.
    drawn, left = np.zeros_like(counts), int(counts.sum())
    for row, count in enumerate(counts.tolist()):
        share = count / max(left, 1)
        spread = np.sqrt(number * share * (1.0 - share) * (left - number) / max(left - 1, 1))
        wanted = round(number * share + float(spread) * float(rng.standard_normal()))
        drawn[row] = min(max(wanted, number - (left - count), 0), count, number)
        number, left = number - int(drawn[row]), left - count
    return drawn


def psi(pool: Problem, own: Optimum | None) -> float:
    """ψ of a model, fitted to some records of a world, on all of them; HOPELESS where there is no model."""
    if own is None:
        return HOPELESS
    return float(_above(pool.fitness, pool.optimum, own.theta))


def _above(fitness: Fitness, optimum: Optimum, models: Float[Array, "*models p"]) -> Float[Array, "*models"]:
    """ψ of models relative to an optimum, between 0 and HOPELESS."""
    return np.asarray(np.clip(fitness.value(models) / optimum.value - 1.0, 0.0, HOPELESS))
