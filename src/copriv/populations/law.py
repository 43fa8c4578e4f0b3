"""Posterior draws ("worlds") of the owners' records, given the learner's public rows, where owners are alike.

A world is drawn in three steps, and a forecast's means, quantiles and shares are over worlds:

1. a population: a draw of the law that public rows and owners' records come from (`Law`);
2. a pool: the n records of all owners, a sample of that law with an optimum of its own (`World.pool`);
3. an allocation of the pool's records to the owners (`World.dealt`; `copriv.populations.dealt` where they differ).

How the law is drawn depends on the number of public rows per parameter:

* Many (`PLENTY` or more): the Bayesian bootstrap (Rubin 1981). Rows get Dirichlet weights. Overfitting of the targets is
  corrected first: residuals of a regression are divided by 1 − leverage. Targets are drawn from the posterior of a model for
  rows of high leverage, for levels that no row has, and for classes with fewer than `CLASSES` rows per parameter (four rows
  count per event of the rarer class). Lengths and residuals in the tail are drawn from an extrapolated tail
  (`copriv.data.extreme_values`), whose shape is drawn within its error. Where only events are few (`few_events`), features
  are still drawn by the bootstrap.
* Few: a bootstrap of a table that a model fits (nearly) exactly would give a best fitness of (nearly) 0. Targets are drawn
  given features, from the posterior of a linear or logistic model under a weak prior whose width is unknown (uniform in the
  logit of R²). Features are drawn from the rows, moved towards one another and with correlations shrunk by leave-one-out
  likelihood, so that there are more directions than rows. The noise is scaled so that a fit to the rows drawn overfits as
  much as a fit to the records that they stand for.

Duplicated public rows count as one observation, and the pool has as many duplicates. `FeatureLaw` is the law of features,
`copriv.populations.targets` has that of targets.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from copriv.data.extreme_values import Tail
from copriv.errors import NotCertified
from copriv.losses import Huber, OfMargin, Squared
from copriv.model.records import Records
from copriv.populations.targets import Classes, Regression, levels_of, tail_of, varied
from copriv.populations.world import World, in_every_place, weighted
from copriv.problem import Problem
from copriv.types import Array, Whole

INTENSITIES = np.geomspace(1e-4, 0.9, 40)
"""Grid of shrinkage intensities of the correlations."""


@dataclass(frozen=True, eq=False)
class FeatureLaw:
    """The law of features given rows x, unseen levels included."""

    x: Array
    """Features of the distinct public rows."""
    unseen: Int[np.ndarray, " levels"]
    """Columns that are 0 in every row, beside columns of zeros and ones: levels that may occur in the pool.

    Without such neighbours a column of zeros counts as constant.
    """

    def with_unseen(self, rng: np.random.Generator) -> Array:
        """The rows, followed by one row for each unseen level (the rule of succession).

        An added row is a copy of a random row with the level set; where each row has exactly one level, that one is unset.
        """
        x = self.x
        if not len(self.unseen):
            return x
        more, levels = x[rng.integers(0, len(x), size=len(self.unseen))].copy(), levels_of(x)
        if (x[:, levels].sum(axis=1) == 1.0).all():
            more[:, levels] = 0.0
        more[np.arange(len(more)), self.unseen] = 1.0
        return np.vstack([x, more])

    def drawn(self, rng: np.random.Generator, number: int, law: Array, records: float = np.inf) -> Array:
        """Draw `number` smoothed rows by the weights `law`; column means vary as those of `records` rows do.

        In columns of numbers a row x is moved towards another row x′: m + √(1 − s²)(x − m) + s(x′ − m), s = 0.3, m the mean.
        Variances and correlations are unchanged, and rows are distinct as in the pool: equal rows with different targets
        would overstate the noise.

        A share b of the entries is replaced by draws from their column: marginal laws stay, and correlations fall by
        (1 − b)² = 1 − `intensity`.
        """
        x, law = self.with_unseen(rng), law / law.sum()
        chosen, b = x[rng.choice(len(x), size=number, p=law)], 1.0 - np.sqrt(1.0 - self.intensity)
        numbers = _numbers(x)
        towards, mean = x[rng.choice(len(x), size=number, p=law)], law @ x
        moved = mean + np.sqrt(1.0 - 0.3**2) * (chosen - mean) + 0.3 * (towards - mean)
        chosen = np.where(numbers, moved, chosen)
        other = np.take_along_axis(x, rng.choice(len(x), size=chosen.shape, p=law), axis=0)
        made = np.where(rng.random(chosen.shape) < b, other, chosen)
        error = np.where(numbers, (1.0 - np.sqrt(number / max(records, number))) * (made.mean(axis=0) - mean), 0.0)
        return made - error + self._towards_zero(rng, numbers, mean)

    def _towards_zero(self, rng: np.random.Generator, numbers: Bool[np.ndarray, " p"], mean: Array) -> Array:
        """Shift that shrinks the column means towards 0 (empirical Bayes), by column.

        The means of n rows have a total squared error of p/n in units of the spread, and redrawn rows twice that: a model
        without an intercept would find one in them. Under a prior N(0, v) of each, means are N(0, v + a/n) along an
        eigenvector of the correlations of eigenvalue a. v, in units of the squared spread, is drawn from its likelihood on a
        grid, and the share v/(v + a/n) of each observed mean is kept.
        """
        x = self.x
        at, spread, n = x.mean(axis=0), x.std(axis=0), len(x)
        # A column with mean 0 was centred on these rows, so that its mean in the pool is unknown.
        told = numbers & varied(x) & (np.abs(at) > 1e-9 * spread)
        shift = np.zeros(x.shape[1])
        if told.sum() < 2:
            return shift
        z = (x[:, told] - at[told]) / spread[told]
        a, U = np.linalg.eigh((1.0 - self.intensity) * z.T @ z / n + self.intensity * np.eye(z.shape[1]))
        seen, drawn = U.T @ (at[told] / spread[told]), U.T @ (mean[told] / spread[told])
        error = np.maximum(a, 1e-12) / n
        grid = np.geomspace(1e-5, 1e5, 41)
        off = grid[:, None] + error
        log = -0.5 * (np.log(off) + np.square(seen) / off).sum(axis=1)
        likely = np.exp(log - log.max())
        v = float(rng.choice(grid, p=likely / likely.sum()))
        kept = v / (v + error)
        shift[told] = spread[told] * (U @ (kept * seen + np.sqrt(kept) * (drawn - seen) - drawn))
        return shift

    def perturbed(self, rng: np.random.Generator, x: Array) -> Array:
        """Add to each row a small multiple of another, centred row, which preserves correlations; less for an outlier."""
        rows, numbers = self.x, _numbers(self.x)
        away = rows - rows.mean(axis=0)
        spread = np.maximum(away.std(axis=0), 1e-300)[numbers]
        length = np.sqrt(np.sum(np.square(away[:, numbers] / spread), axis=1))
        # 20 times the spacing of rows on a line; at most a tenth, as classes may depend on small differences.
        by = min(20.0 / len(rows), 0.1) * np.minimum(1.0, np.median(length) / np.maximum(length, 1e-300))
        towards = rng.integers(0, len(rows), size=len(x))
        return np.where(numbers, x + (by[:, None] * away)[towards], x)

    @cached_property
    def intensity(self) -> float:
        """Shrinkage intensity α of the correlations R, (1 − α)R + αI, by the leave-one-out normal likelihood.

        The cost of an unknown parameter depends on directions of small variance, to which the likelihood is sensitive. The
        least squared error (Ledoit and Wolf 2004) is not, and inflates them tenfold.
        With G = (1 − α)·R·n/(n − 1) + αI, β = (1 − α)·n/(n − 1)² and r = zᵀG⁻¹z the others of a row have, about their own
        mean, log det = log det G + log(1 − βr), and the row is off it by n/(n − 1)·z, a square of (n/(n − 1))²·r/(1 − βr).
        """
        some, n = varied(self.x), len(self.x)
        if some.sum() < 2 or n < 3:
            return 0.0
        z = self.x[:, some] / self.x.std(axis=0)[some]
        z = z - z.mean(axis=0)
        a, U = np.linalg.eigh(z.T @ z / n)
        squares, found = np.square(z @ U), []
        for α in INTENSITIES:
            G = (1.0 - α) * n / (n - 1) * np.maximum(a, 0.0) + α
            r = squares @ (1.0 / G)
            left = np.maximum(1.0 - (1.0 - α) * n / (n - 1) ** 2 * r, 1e-12)
            found.append(float(np.log(G).sum() + np.mean(np.log(left) + (n / (n - 1)) ** 2 * r / left)))
        return float(INTENSITIES[int(np.argmin(found))])


def _numbers(x: Array) -> Bool[np.ndarray, " p"]:
    """Columns with mostly distinct values."""
    return np.array([2 * len(np.unique(column)) > len(column) for column in x.T], dtype=bool)


PLENTY = 10
"""Public rows per parameter from which the bootstrap is used."""
CLASSES = 100
"""Rows per parameter (`Law.events`) from which observed classes are used. Below, they are drawn from a model: a fit to n₀ rows
overfits by κ/n₀, a world's fit to them by as much again, and κ/n₀ is large beside the small f(θ*) of separable classes."""
SYNTHETIC = 1500
"""Least number of rows of a world where public rows are few."""
EXACTLY = 1e-9
"""Share of f(0) below which a best fitness means too few rows, not a perfect model."""


@dataclass(frozen=True, eq=False)
class Law:
    """The posterior of the law of all records, given the public rows."""

    problem: Problem
    """Problem with the public sample in every owner's place."""

    @property
    def raw(self) -> Records:
        """The public rows."""
        return self.problem.unbounded[0]

    @cached_property
    def rows(self) -> Records:
        """The public rows, duplicates merged; `weight` counts them."""
        raw = self.raw
        together = np.column_stack([raw.features, raw.target])
        distinct = len(np.unique(together, axis=0))
        widest = max(len(np.unique(column)) for column in together.T)
        # Rows that agree in one number and therefore in all are copies; rows of few levels agree by chance.
        copied = distinct < 0.99 * len(raw) and widest == distinct and distinct >= max(10, 0.1 * len(raw))
        if copied:
            return raw.distinct()
        return raw

    @property
    def copied(self) -> bool:
        """Whether public rows have duplicates; the pool then has them too."""
        return len(self.rows) < len(self.raw)

    @property
    def observations(self) -> int:
        """Number of distinct public rows."""
        return len(self.rows)

    @cached_property
    def labels(self) -> bool:
        """Whether the target is one of two classes."""
        return isinstance(self.problem.loss, OfMargin)

    @cached_property
    def modelled(self) -> bool:
        """Whether the loss implies a model of the targets; rows are only resampled where it does not."""
        return isinstance(self.problem.loss, Squared | Huber | OfMargin)

    @cached_property
    def plenty(self) -> bool:
        """Whether there are enough rows for the bootstrap (of classes: of their features)."""
        if not self.modelled:
            return True
        if self.observations < PLENTY * self.problem.n_parameters:
            return False
        return self.labels or not self._fitted_exactly

    @property
    def _fitted_exactly(self) -> bool:
        """Whether a model interpolates the rows. Raises NotCertified where there is no finite optimum."""
        nothing = float(self.problem.fitness.value(np.zeros(self.problem.n_parameters)))
        return self.problem.optimum.value <= EXACTLY * nothing

    @cached_property
    def events(self) -> int:
        """Effective number of rows for classes: four per event of the rarer one, at most all rows."""
        rarer = int(min((self.rows.target > 0).sum(), (self.rows.target < 0).sum()))
        return min(self.observations, 4 * rarer)

    @cached_property
    def few_events(self) -> bool:
        """Whether a class has too few events for the bootstrap, or the classes are separable."""
        if not self.labels:
            return False
        if self.events < PLENTY * self.problem.n_parameters:
            return True
        try:
            return self._fitted_exactly
        except NotCertified:
            return True

    @cached_property
    def model(self) -> Regression | Classes:
        """The model of targets given features."""
        return Classes(self.rows) if self.labels else Regression(self.rows)

    @cached_property
    def features(self) -> FeatureLaw:
        """The law of features; without a model for the targets of unseen levels there are none."""
        x = self.rows.features
        return FeatureLaw(x, np.flatnonzero(~x.any(axis=0) & (self.modelled and levels_of(x).any())))

    @property
    def unseen(self) -> int:
        """Number of levels that occur in no public row and may occur in the pool."""
        return len(self.features.unseen)

    @cached_property
    def smoothed(self) -> Records:
        """Rows for a plan: the public rows, or where they are few a table with the posterior mean of the targets.

        One row is added for each level that no public row has: without curvature in that direction, a plan would amplify its
        noise ten thousand times.
        """
        rng, unseen = np.random.default_rng(0), self.unseen
        if not self.plenty:
            M = max(SYNTHETIC, 10 * self.problem.n_parameters)
            x = self.features.drawn(rng, M, np.ones(self.observations + unseen))
            return self.model.expected(rng, x, np.full(M, self.raw.total / M))
        # Rows are not perturbed here, as classes may depend on small differences.
        x = self.features.with_unseen(rng)
        if self.few_events:
            often = np.append(self.rows.weight, np.ones(unseen))
            return self.model.expected(rng, x, often * self.raw.total / often.sum())
        if not unseen:
            return self.raw
        return Records.concatenate([self.raw, self.model.expected(None, x[self.observations :], np.ones(unseen))])

    def draw(self, seed: tuple[int, ...]) -> World:
        """Draw a world; its optimum is not computed yet."""
        rng, n = np.random.default_rng(seed), int(self.problem.terms.records.sum())
        table = self._bootstrap(rng, n) if self.plenty else self._posterior(rng, n)
        return World(in_every_place(self.problem, table), seed)

    def _bootstrap(self, rng: np.random.Generator, n: int) -> Records:
        rows, law = self.rows, rng.standard_exponential(self.observations + self.unseen)
        if not self.copied:
            law[: len(rows)] *= rows.weight
        law /= law.sum()
        if self.copied:  # first the distinct rows of the pool, then the copies of each
            originals = self._originals(n)
            law = rng.multinomial(originals, law) / originals
        counts = np.asarray(rng.multinomial(n, law))
        x, y = self.features.with_unseen(rng), np.append(self.targets, np.ones(self.unseen))
        told, made = (counts > 0) & ~self._anew, (counts > 0) & self._anew
        tables = []
        if told.any():
            tables.append(self.with_tails(rng, x[told], y[told], counts[told])[0])
        if made.any():
            at, weight = self._spread_over(counts[made], max(2 * self._different // int(made.sum()), 2))
            again = Records(x[made][at], y[made][at], weight)
            if self._kinked:
                again = replace(again, features=self.features.perturbed(rng, again.features))
            if self.labels:
                again = self.with_tails(rng, again.features, again.target, weight.astype(np.int64))[0]
            # Duplicates share one class; so do all units of a row where the loss has a kink there.
            shared = self.labels and (self.copied or self._kinked)
            tables.append(self.model.told(rng, again.features, again.weight, shared))
        return Records.concatenate(tables)

    @property
    def _kinked(self) -> bool:
        return self.labels and not self.problem.loss.smooth

    @property
    def _different(self) -> int:
        """Number of distinct synthetic rows of a world; a loss with a kink needs more for a precise optimum."""
        if not self._kinked:
            return SYNTHETIC
        return max(SYNTHETIC, min(40_000 // self.problem.n_parameters, 5000))

    @cached_property
    def _anew(self) -> Bool[np.ndarray, " rows"]:
        """Rows whose targets are redrawn in every world: rows of high leverage, few classes, and unseen levels."""
        own = self.modelled & (self._fit[1] > 0.9)  # the fit interpolates rows of such a leverage
        own |= self.labels and self.events < CLASSES * self.problem.n_parameters
        return np.append(own, np.ones(self.unseen, dtype=bool))

    def _originals(self, n: int) -> int:
        """Number of distinct rows among n, by the share of duplicates among the public rows."""
        if not self.copied:
            return n
        return max(round(n * len(self.rows) / self.raw.total), 1)

    def _spread_over(
        self, counts: Int[Whole, " rows"], copies: Int[Whole, " rows"] | int
    ) -> tuple[Int[Whole, " made"], Array]:
        """Split each row's count over at most `copies` rows. Returns the original row of each, and integer weights.

        Where public rows have duplicates, rows are not split.
        """
        copies = np.minimum(counts, copies)
        if self.copied:
            copies = np.ones_like(counts)
        at = np.repeat(np.arange(len(counts)), copies)
        weight = np.floor(counts[at] / copies[at])
        rest = counts - np.bincount(at, weights=weight, minlength=len(counts))
        weight[np.concatenate([[0], np.cumsum(copies)[:-1]])] += rest
        return at, weight

    @cached_property
    def targets(self) -> Array:
        """Targets of `rows` with leave-one-out residuals, which are residuals divided by 1 − leverage.

        A fit shrinks residuals by √(1 − leverage) on average, and a world's fit to the same rows shrinks them again.
        """
        if self.labels or not self.modelled:
            return self.rows.target
        residual, leverage, fitted = self._fit
        # At most a factor of 2, since larger ones would magnify the noise of rows of high leverage.
        return np.asarray(fitted + residual / np.maximum(1.0 - leverage, 0.5))

    @cached_property
    def _fit(self) -> tuple[Array, Array, Array]:
        """Residuals, leverages and predictions of the least-squares fit to the distinct rows."""
        x = self.problem.as_agreed(self.rows).features
        U, s, _ = np.linalg.svd(x, full_matrices=False)
        U = U[:, s > 1e-10 * max(float(s[0]), 1e-300)]
        fitted = U @ (U.T @ self.rows.target)
        return self.rows.target - fitted, np.square(U).sum(axis=1), fitted

    @cached_property
    def _slopes(self) -> Array:
        """Coefficients of the agreed model's fit, which extrapolate targets to rows longer than any public one.

        Where a column is nearly the sum of others, theirs are anything, and a row that is made longer is no such sum: no such
        direction is extrapolated. Those of `model` are not used: it always has a constant, whose error would grow with the
        length of the rows and appear as a cost of clipping.
        """
        x = self.problem.as_agreed(self.rows).features
        unit = np.maximum(np.linalg.norm(x, axis=0), 1e-300)
        found = np.linalg.lstsq(x / unit, self.rows.target, rcond=1e-3)[0] / unit
        return np.asarray(found[: self.rows.features.shape[1]])

    @cached_property
    def numbers(self) -> Bool[np.ndarray, " p"]:
        """Columns with more than two values, whose range may exceed the public one."""
        return np.array([len(np.unique(column)) > 2 for column in self.rows.features.T], dtype=bool)

    def _lengths(self, x: Array) -> Array:
        return np.asarray(np.abs(x[:, self.numbers]).sum(axis=1))

    @cached_property
    def _tails(self) -> tuple[Tail | None, Tail | None]:
        """The tails of lengths and of residuals."""
        return tail_of(self._lengths(self.rows.features)), None if self.labels else tail_of(np.abs(self._fit[0]))

    def with_tails(
        self, rng: np.random.Generator, x: Array, y: Array, counts: Int[Whole, " rows"]
    ) -> tuple[Records, Int[Whole, " made"]]:
        """Replace each row in a tail by several, with lengths or residuals drawn from the extrapolated tail.

        Returns the table and the index of the original of each of its rows.
        """
        long_ = off = np.zeros(len(x), dtype=bool)
        if self.modelled:
            plain, lengths = self.model.predicted(x, self.model.mean), self._lengths(x)
            residual, tails = y - plain, self._tails
            long_, off = _beyond(tails[0], lengths), _beyond(tails[1], np.abs(residual))
            if self.labels:
                long_ &= y * plain > 0  # longer rows of the less probable class would be rarer as well
        many = long_ | off
        if not many.any():
            return Records(x, y, counts.astype(np.float64)), np.arange(len(x))
        # About 300 rows represent the tail in a world.
        at, weight = self._spread_over(counts, np.where(many, max(300 // int(many.sum()), 2), 1))
        factor, long_, off = np.ones(len(at)), long_[at], off[at]
        if long_.any():
            factor[long_] = _sizes(rng, tails[0], long_) / lengths[at][long_]
        seen, x, y = x[at], np.where(self.numbers, x[at] * factor[:, None], x[at]), y[at]
        if not self.labels:
            r = residual[at]
            if off.any():
                r[off] = np.sign(r[off]) * _sizes(rng, tails[1], off)
            y = plain[at] + (x - seen) @ self._slopes + r
        return Records(x, y, weight), at

    def _posterior(self, rng: np.random.Generator, n: int) -> Records:
        law = rng.standard_exponential(self.observations + self.unseen)
        originals = self._originals(n)
        M = min(originals, max(self._different, 10 * self.problem.n_parameters))
        x = self.features.drawn(rng, M, law, originals)
        often = originals // M + (rng.permutation(M) < originals % M).astype(np.int64)
        made = self.model.told(rng, x, often.astype(np.float64), records=originals)
        if self.copied:
            made = weighted(made, rng.multinomial(n, made.weight / originals))
        return made


def _beyond(tail: Tail | None, sizes: Float[Array, " rows"]) -> Bool[np.ndarray, " rows"]:
    """Whether each size is in the tail."""
    if tail is None:
        return np.zeros(len(sizes), dtype=bool)
    return np.asarray(sizes > tail.threshold)


def _sizes(rng: np.random.Generator, tail: Tail | None, which: Bool[np.ndarray, " rows"]) -> Array:
    """Draw a size in the tail for each of these rows, after drawing the tail's shape."""
    assert tail is not None
    drawn = tail.drawn(rng)
    return np.asarray(drawn.threshold + drawn.excesses(rng, int(which.sum())))
