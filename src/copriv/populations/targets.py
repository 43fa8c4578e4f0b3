"""Posterior of targets given features: a linear model of numbers, a logistic one of classes.

The prior is weak and of unknown width, so that few rows of many columns do not imply a perfect model. `Law` (in
`copriv.populations.law`) draws targets from it where public rows are few or a fit interpolates them.
"""

import numpy as np
from jaxtyping import Bool
from scipy.special import expit, log_ndtr, logsumexp

from copriv.data.extreme_values import Tail
from copriv.model.records import Records
from copriv.types import Array, Whole

RATIOS = 1.0 / (1.0 + np.exp(-np.linspace(-5.0, 7.5, 26)))
"""Grid of R² for the prior, uniform in the logit."""
SHARE = np.array([0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818,
                  0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354])  # fmt: skip
STEEP = np.array([1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391,
                  0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306])  # fmt: skip
"""1/(1 + exp(−u)) = Σ share·Φ(steep·u), within 3e-9 (Monahan and Stefanski 1992)."""


class Linear:
    """A linear model of standardized features, with θ ~ N(0, unknown width) and an intercept.

    It always has an intercept: the error of a model without one is bias and not noise.
    """

    def __init__(self, rows: Records) -> None:
        x, self.y = rows.features, rows.target
        self.unit = np.where(varied(x), 1.0 / np.where(varied(x), x.std(axis=0), 1.0), 0.0)
        levels = levels_of(x)
        if levels.any():  # an unseen level has the prior effect of a seen one
            self.unit[~x.any(axis=0)] = np.median(self.unit[levels])
        self.centre = x.mean(axis=0)
        self.z, self.mean = (x - self.centre) * self.unit, np.zeros(x.shape[1] + 1)

    def predicted(self, x: Array, theta: Array) -> Array:
        """Predictions by θ in standardized units, intercept last."""
        steep = self.unit * theta[:-1]
        return np.asarray(x @ steep + (theta[-1] - float(self.centre @ steep)))


class Regression(Linear):
    """y = c + zᵀθ + noise of variance σ²; flat prior on c, σ² unknown; conjugate given the width, which is on a grid."""

    def __init__(self, rows: Records) -> None:
        super().__init__(rows)
        n, p = self.z.shape
        self.constant = float(self.y.mean())
        y = self.y - self.constant
        self.U, self.s, Vt = np.linalg.svd(self.z, full_matrices=False)
        self.V, on = Vt.T, self.U.T @ y
        rest = max(float(y @ y - on @ on), 0.0)
        self.λ = p * (1.0 - RATIOS) / RATIOS  # σ²/τ²
        kept = 1.0 + np.square(self.s) / self.λ[:, None]
        tiny = 1e-12 * max(float(self.y @ self.y), 1e-300)
        self.left = np.square(on) @ (1.0 / kept).T + rest + tiny
        log = -0.5 * np.log(kept).sum(axis=1) - 0.5 * (n - 1) * np.log(self.left)
        self.weight = np.exp(log - log.max())
        self.weight /= self.weight.sum()
        self.means = np.column_stack(
            [(self.s / (np.square(self.s) + self.λ[:, None]) * on) @ self.V.T, np.full(len(self.λ), self.constant)]
        )
        self.mean = self.weight @ self.means
        residual = self.y - self.predicted(rows.features, self.mean)
        scale = float(np.sqrt(np.mean(np.square(residual)))) or 1.0
        self.shape = residual / scale
        self.tail = tail_of(np.abs(self.shape))
        self.noise = float(np.sqrt(self.weight @ self.left / max(n - 1, 1)))

    def expected(self, rng: np.random.Generator | None, x: Array, weight: Array) -> Records:
        """Rows with targets at the posterior mean of θ; with noise, where there is a generator."""
        y = self.predicted(x, self.mean)
        if rng is not None:
            y = y + _rescaled(self.noise * rng.choice(self.shape, size=len(x)), x, np.inf)
        return Records(x, y, weight)

    def told(
        self, rng: np.random.Generator, x: Array, counts: Array, shared: bool = True, records: float = 0.0
    ) -> Records:
        """Rows with targets under one draw of θ and of the noise; a target is common to the row's `counts` records.

        records: number of all records that the rows represent.
        """
        k = rng.choice(len(self.λ), p=self.weight)
        noise = float(np.sqrt(self.left[k] / max(len(self.y) - 1, 1))) * self._noise(rng, len(x))
        g, λ, σ = rng.normal(size=self.z.shape[1]), float(self.λ[k]), float(np.sqrt(np.mean(np.square(noise))))
        inside = self.V.T @ g
        spread = self.V @ (inside / np.sqrt(np.square(self.s) + λ)) + (g - self.V @ inside) / np.sqrt(λ)
        theta = self.means[k] + σ * np.append(spread, rng.normal() / np.sqrt(len(self.y)))
        return Records(x, self.predicted(x, theta) + _rescaled(noise, x, records), counts)

    def _noise(self, rng: np.random.Generator, number: int) -> Array:
        """Noise of variance about 1: residuals under Dirichlet weights, those in the tail drawn from its extrapolation.

        Its variance is as uncertain as an estimate from n residuals: 2/n for normal ones, more for heavy tails.
        """
        law = rng.standard_exponential(len(self.shape))
        law /= law.sum()
        drawn = self.shape[rng.choice(len(law), size=number, p=law)]
        if self.tail is not None:
            tail, long_ = self.tail.drawn_of_few(rng), np.abs(drawn) > self.tail.threshold
            drawn[long_] = np.sign(drawn[long_]) * (tail.threshold + tail.excesses(rng, int(long_.sum())))
        return np.asarray(drawn - law @ self.shape)


def _rescaled(noise: Array, x: Array, records: float) -> Array:
    """Rescale the noise of M rows so that a fit to them overfits as much as a fit to the `records` that they represent.

    A fit of p parameters explains p/M of the noise of M rows, and p/n of that of n records.
    """
    M, p = len(x), x.shape[1] + 1
    if records <= M or p >= M:
        return noise
    U, s, _ = np.linalg.svd(np.column_stack([x, np.ones(M)]), full_matrices=False)
    U = U[:, s > 1e-10 * s[0]]
    fitted = U @ (U.T @ noise)
    return np.asarray(np.sqrt(M / records) * fitted + np.sqrt((1.0 - p / records) / (1.0 - p / M)) * (noise - fitted))


class Classes(Linear):
    """Logistic regression with θ ~ N(0, unknown width): expectation propagation for each width, weighted by its evidence.

    The posterior mode is far from the posterior mass where classes are (nearly) separable: Laplace's approximation there has
    a quarter of the margins, and too little evidence of wide priors. Draws are indistinguishable from those of long chains
    (decision 0021).
    """

    WIDTHS = tuple((4.0 * RATIOS / (1.0 - RATIOS))[::2].tolist())
    """Prior E (zᵀθ)², from hardly any signal to classes that hardly overlap."""

    def __init__(self, rows: Records) -> None:
        super().__init__(rows)
        z, p = np.column_stack([self.z, np.ones(len(self.z))]) * self.y[:, None], self.z.shape[1]
        # From 0 the first step leaves the range of numbers where a class is rare; errors of many rows then add up, too.
        for begin, near in ((0.0, 1e-3), (0.25, 1e-8)):
            sites = Sites(z, begin, near)
            # The log odds' intercept has a prior of precision 0.04.
            with np.errstate(all="ignore"):
                found = [sites.matched(np.append(np.full(p, p / width), 0.04)) for width in self.WIDTHS]
            if all(np.isfinite(evidence) for _, _, evidence in found):
                break
        self.weight = np.exp([evidence - max(e for _, _, e in found) for _, _, evidence in found])
        self.weight /= self.weight.sum()
        self.means = np.array([mean for mean, _, _ in found])
        self.mean = self.weight @ self.means
        a, U = np.linalg.eigh(np.array([precision for _, precision, _ in found]))
        self.roots = U / np.sqrt(a)[:, None, :]

    def logits(self, rng: np.random.Generator, x: Array) -> Array:
        """zᵀθ of rows under one draw of θ."""
        k = rng.choice(len(self.weight), p=self.weight)
        return self.predicted(x, self.means[k] + self.roots[k] @ rng.normal(size=len(self.mean)))

    def told(
        self, rng: np.random.Generator, x: Array, counts: Array, shared: bool = False, records: float = 0.0
    ) -> Records:
        """`counts` records of each row, each with a class of its own unless it is shared, under one draw of θ.

        One class for all records of a row would make a fit overfit as if there were only as many records as rows.
        """
        chance = expit(self.logits(rng, x))
        if shared:
            return Records(x, np.where(rng.random(len(x)) < chance, 1.0, -1.0), counts)
        drawn: Whole = rng.binomial(np.rint(counts).astype(np.int64), chance)
        positive = drawn.astype(np.float64)
        made = with_both_classes(x, positive, counts - positive)
        return made.taken(made.weight > 0)

    def expected(self, rng: np.random.Generator | None, x: Array, weight: Array) -> Records:
        """Each row with both classes, weighted by their probability."""
        chance = np.clip(self.chance(x), 1e-9, 1 - 1e-9)
        return with_both_classes(x, weight * chance, weight * (1.0 - chance))

    def chance(self, x: Array) -> Array:
        """Posterior mean of P(y = 1)."""
        z = np.column_stack([(x - self.centre) * self.unit, np.ones(len(x))])
        each = [
            np.exp(_moments(z @ mean, np.square(z @ root).sum(axis=1))[0])
            for mean, root in zip(self.means, self.roots, strict=True)
        ]
        return np.asarray(self.weight @ np.array(each))


class Sites:
    """Expectation propagation (Minka 2001) for the likelihood Π 1/(1 + exp(−zᵀθ)), rows z times their classes."""

    def __init__(self, z: Array, precision: float = 0.0, near: float = 1e-3) -> None:
        self.z, self.near = z, near
        self.precision, self.pull = np.full(len(z), precision), np.full(len(z), 0.5)

    def matched(self, prior: Array) -> tuple[Array, Array, float]:
        """Mean and precision of θ, and the log evidence, under a normal prior of this diagonal precision."""
        for _ in range(60):
            H = (self.z * self.precision[:, None]).T @ self.z + np.diag(prior)
            inverse, b = np.linalg.inv(H), self.z.T @ self.pull
            mean = inverse @ b
            at, spread = self.z @ mean, ((self.z @ inverse) * self.z).sum(axis=1)
            without = 1.0 / (1.0 / spread - self.precision)  # cavity variance and mean of zᵀθ
            others = without * (at / spread - self.pull)
            log, slope, bend = _moments(others, without)
            off = np.abs(others + without * slope - at).max() / np.sqrt(spread.max())
            if off < self.near:
                break
            kept = 1.0 / (1.0 + without * bend)
            self.precision += 0.7 * (-bend * kept - self.precision)  # damped
            self.pull += 0.7 * ((slope - others * bend) * kept - self.pull)
        both = np.square(others / without + self.pull) / (1.0 / without + self.precision)
        terms = log + 0.5 * np.log1p(self.precision * without) - 0.5 * (both - np.square(others) / without)
        volume = np.log(prior).sum() - np.linalg.slogdet(H)[1]
        return mean, H, float(terms.sum() + 0.5 * volume + 0.5 * b @ mean)


def _moments(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """log E 1/(1 + exp(−u)) for u ~ N(mean, variance), and its first and second derivatives in the mean."""
    s = STEEP / np.sqrt(1.0 + np.square(STEEP) * variance[:, None])
    a = s * mean[:, None]
    log = logsumexp(np.log(SHARE) + log_ndtr(a), axis=1)
    density = SHARE * np.exp(-0.5 * np.square(a) - log[:, None]) / np.sqrt(2.0 * np.pi)
    slope = (density * s).sum(axis=1)
    return log, slope, -(density * np.square(s) * a).sum(axis=1) - np.square(slope)


def tail_of(sizes: Array) -> Tail | None:
    """The tail of `sizes`; None where too few of the largest differ."""
    top = np.sort(sizes)[-max(len(sizes) // 10, 10) :]
    if len(np.unique(top)) <= 0.8 * len(top) or not top[-1] > top[0]:
        return None
    return Tail.of(sizes)


def with_both_classes(x: Array, positive: Array, negative: Array) -> Records:
    """Every row with either class, by these weights."""
    return Records(np.vstack([x, x]), np.repeat([1.0, -1.0], len(x)), np.concatenate([positive, negative]))


def levels_of(x: Array) -> Bool[np.ndarray, " p"]:
    """Columns that hold zeros and ones, and both."""
    return np.asarray(((x == 0.0) | (x == 1.0)).all(axis=0) & (np.ptp(x, axis=0) > 0.0))


def varied(x: Array) -> Bool[np.ndarray, " p"]:
    """Columns that vary by more than rounding: the mean of equal numbers is not always that number."""
    return np.asarray(x.std(axis=0) > 1e-12 * np.abs(x).max(axis=0, initial=0.0))
