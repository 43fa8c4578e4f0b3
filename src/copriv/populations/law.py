"""Worlds: what the owners' records may be, as far as the learner's public rows can tell.

A *world* is one answer to three questions, drawn together, and everything that a forecast says is a mean, a quantile or a
share over worlds:

1. the population: the law that public rows and owners' records come from (`Law`, one draw of it a world);
2. the pool: the n records of all owners, a sample of that law with an optimum of its own (`World.pool`);
3. the deal: which of them are whose (`World.dealt`).

Public rows decide the law, and how surely depends on how many there are for a parameter:

* *Plenty* (`PLENTY` and more a parameter): the Bayesian bootstrap. Rows get Dirichlet weights, which is the posterior of the
  law under no prior at all. What a fit has made of their targets is undone first: residuals of a regression are divided by
  1 − leverage, and classes (up to `CLASSES` rows a parameter, four to an event of the rarer one), targets of rows that
  stand alone and those of levels that no row has are drawn from the posterior of a model. Lengths and residuals beyond
  those seen are drawn from the extrapolated tail (`tails`), whose shape is drawn within its error. Where events are few
  (`few_events`), features are as plentiful as rows are, and only classes are not.
* *Few*: resampling a table that a model fits (nearly) exactly would say that the best fitness is (nearly) 0. So targets
  are drawn given features, from the posterior of a linear (or logistic) model under a weak prior whose width is itself
  unknown, uniform in the logit of R²; and features from the rows, moved towards one another and smoothed towards
  uncorrelated ones as far as left-out rows make likely, so that there are more directions than rows. Rows made stand
  for more records than there are of them, and leave a fit as much noise to follow as those records would.

Rows that stand several times because somebody copied them are one observation, and the pool is copied alike.

What features are like where rows are few, and levels that none has: `copriv.populations.features`. What targets of
given features are under the posterior: `copriv.populations.targets`.

Worlds in which owners differ are made of these: `copriv.populations.dealt`, `copriv.populations.by_owner`.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int

from copriv.data.extreme_values import Tail
from copriv.errors import NotCertified
from copriv.losses import Huber, OfMargin, Squared
from copriv.model.records import Records
from copriv.populations.features import FeatureLaw
from copriv.populations.targets import Classes, ClassesOfFew, Regression, tail_of
from copriv.problem import Problem
from copriv.types import Array

PLENTY = 10
"""Public rows a parameter from which the bootstrap is used."""
CLASSES = 100
"""Rows a parameter (`Law.events`) from which their classes are taken as they are. A fit to n₀ of them looks κ/n₀ better than it
is, and that of a world to the same ones again; a best fitness is small where classes hardly overlap, and κ/n₀ is much of it."""
SYNTHETIC = 1500
"""Rows of a world where public rows are few."""
KINKS = 40_000
"""Numbers in them of a loss with a kink: it has one at every row, and runs end as far from the best model as rows lie apart."""
MOST_SYNTHETIC = 5000
EXACTLY = 1e-9
"""A best fitness below this share of f(0) says that the rows are too few, not that the model is perfect."""
COPIES = 300
"""Rows that stand for the tail in a world."""
ALONE = 0.9
"""The leverage above which a row is what a fit follows: it says nothing of how far off another like it would be."""
LONGER = 2.0
"""Residuals are made longer so many times at most: of a row that a fit follows halfway, its own noise would be magnified."""


@dataclass(frozen=True, eq=False)
class World:
    """One world: a problem with the pool in every owner's place."""

    pool: Problem
    """Its optimum is known."""
    seed: tuple[int, ...]

    def dealt(self) -> Problem:
        """The same pool, each record one owner's: drawn without replacement, owners alike."""
        raw, terms = self.pool.unbounded[0], self.pool.terms
        rng, left = np.random.default_rng([*self.seed, 7]), np.rint(raw.weight).astype(np.int64)
        hands = []
        for owner in terms.owner:
            hand = some_of(rng, left, min(owner.records, int(left.sum())))
            left = left - hand
            some = hand > 0
            hands.append(Records(raw.features[some], raw.target[some], hand[some].astype(np.float64)))
        return replace(self.pool, unbounded=tuple(hands), stand_in=False, known_optimum=self.pool.optimum)


def some_of(rng: np.random.Generator, counts: Int[np.ndarray, " rows"], number: int) -> Int[np.ndarray, " rows"]:
    """So many of the units that stand `counts` times each, without replacement."""
    if number >= counts.sum():
        return counts.copy()
    if counts.sum() < 10**9:  # the most that numpy's exact law can count
        return np.asarray(rng.multivariate_hypergeometric(counts, number, method="marginals"))
    # Row by row, each hypergeometric law as a normal one.
    drawn, left = np.zeros_like(counts), int(counts.sum())
    for row, count in enumerate(counts.tolist()):
        share = count / left if left else 0.0
        spread = np.sqrt(number * share * (1.0 - share) * (left - number) / max(left - 1, 1))
        wanted = round(number * share + float(spread) * float(rng.standard_normal()))
        drawn[row] = min(max(wanted, number - (left - count), 0), count, number)
        number, left = number - int(drawn[row]), left - count
    return drawn


@dataclass(frozen=True, eq=False)
class Law:
    """What public rows say of the law of all records; `draw` gives a table that may be the pool's, with counts."""

    problem: Problem
    """With the public sample in every owner's place."""

    @property
    def raw(self) -> Records:
        """The public rows."""
        return self.problem.unbounded[0]

    @cached_property
    def rows(self) -> Records:
        """The public rows, copies put together: `weight` is how often each stands."""
        raw = self.raw
        together = np.column_stack([raw.features, raw.target])
        distinct = len(np.unique(together, axis=0))
        widest = max(len(np.unique(column)) for column in together.T)
        # Rows that agree in one number and therefore in all are copies; rows of few levels agree by chance.
        copied = distinct < 0.99 * len(raw) and widest == distinct and distinct >= max(10, 0.1 * len(raw))
        return raw.distinct() if copied else raw

    @property
    def copied(self) -> bool:
        """Whether rows are copies, as those of the pool then are."""
        return len(self.rows) < len(self.raw)

    @property
    def observations(self) -> int:
        """How many rows there are, copies counted once."""
        return len(self.rows)

    @cached_property
    def labels(self) -> bool:
        """Whether the target is one of two classes."""
        return isinstance(self.problem.loss, OfMargin)

    @cached_property
    def modelled(self) -> bool:
        """Whether the loss is one of ours, so that it says what targets are like; else rows are only drawn again."""
        return isinstance(self.problem.loss, Squared | Huber | OfMargin)

    @cached_property
    def plenty(self) -> bool:
        """Whether the rows can speak for themselves: of classes, their features can."""
        if not self.modelled:
            return True
        if self.observations < PLENTY * self.problem.n_parameters:
            return False
        return self.labels or not self._fitted_exactly

    @property
    def _fitted_exactly(self) -> bool:
        """Whether a model fits the rows so well that they are too few. Raises NotCertified where there is no best one."""
        nothing = float(self.problem.fitness.value(np.zeros(self.problem.n_parameters)))
        return self.problem.optimum.value <= EXACTLY * nothing

    @cached_property
    def events(self) -> int:
        """How many rows their classes are worth: four of the rarer one, if it is rare."""
        rarer = int(min((self.rows.target > 0).sum(), (self.rows.target < 0).sum()))
        return min(self.observations, 4 * rarer)

    @cached_property
    def few_events(self) -> bool:
        """Whether there are too few of a class to be taken as they are, or it is apart from the other without a row between."""
        if not self.labels or not self.modelled:
            return False
        if self.events < PLENTY * self.problem.n_parameters:
            return True
        try:
            return self._fitted_exactly
        except NotCertified:
            return True

    @cached_property
    def _model(self) -> "Regression | Classes":
        if not self.labels:
            return Regression(self.rows)
        return (Classes if self.plenty else ClassesOfFew)(self.rows)

    def logits(self, rng: np.random.Generator, x: Array) -> Array:
        """Of classes: log odds of rows under one draw of the posterior of a model of them."""
        assert isinstance(self._model, Classes)
        return self._model.logits(rng, x)

    @cached_property
    def features(self) -> FeatureLaw:
        """What the rows say of features."""
        return FeatureLaw.of(self.rows.features, self.modelled)

    @property
    def unseen(self) -> Int[np.ndarray, " levels"]:
        """Levels that no public row has, and that the pool may."""
        return self.features.unseen

    @cached_property
    def smoothed(self) -> Records:
        """What to plan on: the public rows, or where they are few a table of the posterior's mean, of the same weight.

        With one more row for each level that none of them has: a plan that took its curvature to be nothing would let
        noise through there ten thousand times as loud.
        """
        rng = np.random.default_rng(0)
        if self.plenty and self.few_events:
            assert isinstance(self._model, Classes)
            # Features of the rows as they are: what classes depend on may be a direction that moved rows do not keep.
            x = self.features.with_unseen(rng)
            often = np.append(self.rows.weight, np.ones(len(self.unseen)))
            return _both_classes(x, often * self.raw.total / often.sum(), self._model.chance(x))
        if self.plenty:
            if not len(self.unseen):
                return self.raw
            more = self.features.with_unseen(rng)[self.observations :]
            one, raw = np.ones(len(more)), self.raw
            if isinstance(self._model, Classes):
                made = _both_classes(more, one, self._model.chance(more))
            else:
                made = Records(more, self._model.predicted(more, self._model.mean), one)
            return Records.concatenate([raw, made])
        M = max(SYNTHETIC, 10 * self.problem.n_parameters)
        x, share = self.features.drawn(rng, M, np.ones(self.observations + len(self.unseen))), self.raw.total / M
        if isinstance(self._model, Classes):
            return _both_classes(x, np.full(M, share), self._model.chance(x))
        return Records(x, self._model.expected(rng, x), np.full(M, share))

    def draw(self, seed: tuple[int, ...]) -> World:
        """A world: law, pool and optimum."""
        rng, n = np.random.default_rng(seed), int(self.problem.terms.records.sum())
        table = self._bootstrap(rng, n) if self.plenty else self._posterior(rng, n)
        pool = replace(
            self.problem, unbounded=(table,) * self.problem.terms.n_owners, stand_in=True, known_optimum=None
        )
        return World(pool, seed)

    def _bootstrap(self, rng: np.random.Generator, n: int) -> Records:
        rows, law = self.rows, rng.standard_exponential(self.observations + len(self.unseen))
        law[: len(rows)] *= rows.weight if len(rows) == len(self.raw) else 1.0
        counts = self._counts(rng, n, law / law.sum())
        x, y = self.features.with_unseen(rng), np.append(self.targets, np.ones(len(self.unseen)))
        told, made = (counts > 0) & ~self._anew, (counts > 0) & self._anew
        tables = [self.with_tails(rng, x[told], y[told], counts[told])[0]] if told.any() else []
        if made.any():
            at, weight = self._spread_over(counts[made], max(2 * self._different // int(made.sum()), 2))
            again = Records(x[made][at], y[made][at], weight)
            if self._kinked:
                again = replace(again, features=self.features.little_apart(rng, again.features))
            if self.labels:
                again = self.with_tails(rng, again.features, again.target, weight.astype(np.int64))[0]
            # Of copies each has the class of the one that they are copies of; a kink lies where a row of one class does.
            if isinstance(self._model, Classes) and not self.copied and not self._kinked:
                again = self._model.told(rng, again.features, again.weight)
            else:
                again = Records(again.features, self._model.drawn(rng, again.features), again.weight)
            tables.append(again)
        return Records(*(np.concatenate([getattr(t, of) for t in tables]) for of in ("features", "target", "weight")))

    @property
    def _kinked(self) -> bool:
        return self.labels and not self.problem.loss.smooth

    @property
    def _different(self) -> int:
        """How many rows of a world are made, that nobody has seen."""
        many = min(KINKS // self.problem.n_parameters, MOST_SYNTHETIC) if self._kinked else 0
        return max(SYNTHETIC, many)

    @cached_property
    def _anew(self) -> Bool[np.ndarray, " rows"]:
        """Rows whose targets are drawn in every world: those that a fit follows wherever they are, and levels that none has."""
        own = self._fit[1] > ALONE if self.modelled else np.zeros(self.observations, dtype=bool)
        if self.labels:
            own |= self.modelled and self.events < CLASSES * self.problem.n_parameters
        return np.concatenate([own, np.ones(len(self.unseen), dtype=bool)])

    def _counts(self, rng: np.random.Generator, n: int, law: Array) -> Int[np.ndarray, " rows"]:
        """How often each row is in the pool; where rows are copies of few, as few of them are."""
        if not self.copied:
            return np.asarray(rng.multinomial(n, law))
        originals = max(round(n * len(self.rows) / self.raw.total), 1)
        found = rng.multinomial(originals, law)
        return np.asarray(rng.multinomial(n, found / originals))

    def _spread_over(
        self, counts: Int[np.ndarray, " rows"], copies: Int[np.ndarray, " rows"] | int
    ) -> tuple[Int[np.ndarray, " made"], Array]:
        """Split each row's count over at most `copies` rows: the row that each one repeats, and whole weights.

        Where public rows are copies of few, each row stays one.
        """
        copies = np.ones_like(counts) if self.copied else np.minimum(counts, copies)
        at = np.repeat(np.arange(len(counts)), copies)
        weight = np.floor(counts[at] / copies[at])
        rest = counts - np.bincount(at, weights=weight, minlength=len(counts))
        weight[np.concatenate([[0], np.cumsum(copies)[:-1]])] += rest
        return at, weight

    @cached_property
    def targets(self) -> Array:
        """Targets of `rows` as far from the fit to all others as they are.

        A fit makes residuals shorter by √(1 − leverage), in the mean, and the fit of a world to the same rows does it again.
        """
        if self.labels or not self.modelled:
            return self.rows.target
        residual, leverage, fitted = self._fit
        return np.asarray(fitted + residual * np.minimum(1.0 / np.maximum(1.0 - leverage, 1e-9), LONGER))

    @cached_property
    def _fit(self) -> tuple[Array, Array, Array]:
        """Residuals, leverages and predictions of a least-squares fit to the rows (not to their copies)."""
        x = self.problem.as_agreed(self.rows).features
        U, s, _ = np.linalg.svd(x, full_matrices=False)
        U = U[:, s > 1e-10 * max(float(s[0]), 1e-300)]
        fitted = U @ (U.T @ self.rows.target)
        return self.rows.target - fitted, np.square(U).sum(axis=1), fitted

    @cached_property
    def _slopes(self) -> Array:
        """Of the agreed model's fit, by which targets go on where rows are longer than any that was seen.

        Not those of the law, which has a constant whatever is agreed: beyond the rows it would be off by as much as they
        are longer, and clipping would seem to cost a model what no record does.
        """
        x = self.problem.as_agreed(self.rows).features
        return np.asarray(np.linalg.lstsq(x, self.rows.target, rcond=1e-10)[0][: self.rows.features.shape[1]])

    @cached_property
    def _numbers(self) -> Bool[np.ndarray, " p"]:
        """Columns that can be longer than they were seen: not those of a level, in whatever unit, or of a constant."""
        return np.array([len(np.unique(column)) > 2 for column in self.rows.features.T], dtype=bool)

    def _lengths(self, x: Array) -> Array:
        return np.asarray(np.abs(x[:, self._numbers]).sum(axis=1))

    @cached_property
    def _tail_of_lengths(self) -> Tail | None:
        return tail_of(self._lengths(self.rows.features))

    @cached_property
    def _tail_of_residuals(self) -> Tail | None:
        return None if self.labels else tail_of(np.abs(self._fit[0]))

    def with_tails(
        self, rng: np.random.Generator, x: Array, y: Array, counts: Int[np.ndarray, " rows"]
    ) -> tuple[Records, Int[np.ndarray, " made"]]:
        """The rows, those in a tail in several copies, each as long (or as far off) as the tail may have it.

        And which of the rows given each of those made is.
        """
        same = np.arange(len(x))
        if not self.modelled:
            return Records(x, y, counts.astype(np.float64)), same
        plain = self._model.predicted(x, self._model.mean)
        lengths, residual = self._lengths(x), None if self.labels else y - plain
        tails = self._tail_of_lengths, self._tail_of_residuals
        long_ = np.zeros(len(x), dtype=bool) if tails[0] is None else lengths > tails[0].threshold
        if self.labels:
            long_ &= y * plain > 0  # a longer row of the wrong class would be rarer, not only longer
        off = np.zeros(len(x), dtype=bool)
        if residual is not None and tails[1] is not None:
            off = np.abs(residual) > tails[1].threshold
        many = long_ | off
        if not many.any():
            return Records(x, y, counts.astype(np.float64)), same
        at, weight = self._spread_over(counts, np.where(many, max(COPIES // int(many.sum()), 2), 1))
        factor = np.ones(len(at))
        if tails[0] is not None and long_.any():
            t, which = tails[0].drawn(rng), long_[at]
            factor[which] = (t.threshold + t.excesses(rng, int(which.sum()))) / lengths[at][which]
        seen, x, y = x[at], np.where(self._numbers, x[at] * factor[:, None], x[at]), y[at]
        if residual is not None:
            r = residual[at]
            if tails[1] is not None and off.any():
                t, which = tails[1].drawn(rng), off[at]
                r = r.copy()
                r[which] = np.sign(r[which]) * (t.threshold + t.excesses(rng, int(which.sum())))
            y = plain[at] + (x - seen) @ self._slopes + r
        return Records(x, y, weight), at

    def _posterior(self, rng: np.random.Generator, n: int) -> Records:
        law = rng.standard_exponential(self.observations + len(self.unseen))
        originals = max(round(n * len(self.rows) / self.raw.total), 1) if self.copied else n
        M = min(originals, max(self._different, 10 * self.problem.n_parameters))
        x = self.features.drawn(rng, M, law, originals)
        often = originals // M + (rng.permutation(M) < originals % M).astype(np.int64)
        if isinstance(self._model, Classes):
            made = self._model.told(rng, x, often.astype(np.float64))
        else:
            made = Records(x, self._model.drawn(rng, x, originals), often.astype(np.float64))
        if not self.copied:
            return made
        counts = rng.multinomial(n, made.weight / originals)
        some = counts > 0
        return Records(made.features[some], made.target[some], counts[some].astype(np.float64))


def _both_classes(x: Array, weight: Array, chance: Array) -> Records:
    """Each row as either class, as often as it is."""
    return Records(
        np.vstack([x, x]), np.repeat([1.0, -1.0], len(x)), np.concatenate([weight * chance, weight * (1.0 - chance)])
    )
