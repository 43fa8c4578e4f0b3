"""What targets of given features may be, as a posterior says it: a linear model of numbers, a logistic one of classes.

Under a weak prior whose width is itself unknown, so that few rows of many columns promise no perfect model. `Law` (in
`copriv.worlds`) draws targets from it where public rows are few, or a fit has made what they are.
"""

import numpy as np
from jaxtyping import Bool
from scipy.special import expit

from copriv.records import Records
from copriv.tails import Tail
from copriv.types import Array

RATIOS = 1.0 / (1.0 + np.exp(-np.linspace(-5.0, 7.5, 26)))
"""The R² that a weak prior thinks possible: even steps of their logit."""


class Linear:
    """Features less their mean, in units of their spread; θ ~ N(0, a width that is unknown), and a constant.

    The law of targets has a constant whether or not the agreed model has one: a model without is then off by what its
    columns can make of it, which is no noise. And a width in units of spread is not used up by columns' means.
    """

    def __init__(self, rows: Records) -> None:
        x, self.y = rows.features, rows.target
        spread = x.std(axis=0)
        varied = spread > 1e-12 * np.abs(x).max(axis=0, initial=0.0)
        self.unit = np.where(varied, 1.0 / np.where(varied, spread, 1.0), 0.0)
        levels = levels_of(x)
        if levels.any():  # a level that no row has does as much as those that some have
            self.unit[~x.any(axis=0)] = np.median(self.unit[levels])
        self.centre = x.mean(axis=0)
        self.z, self.mean = (x - self.centre) * self.unit, np.zeros(x.shape[1] + 1)

    def predicted(self, x: Array, theta: Array) -> Array:
        """Predictions by θ in these units, its constant last."""
        steep = self.unit * theta[:-1]
        return np.asarray(x @ steep + (theta[-1] - float(self.centre @ steep)))


class Regression(Linear):
    """y = c + zᵀθ + noise of variance σ²; c flat, σ² unknown; conjugate given the width, which is on a grid."""

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

    def expected(self, rng: np.random.Generator, x: Array) -> Array:
        """Targets under the posterior's mean."""
        return np.asarray(self.predicted(x, self.mean) + self.noise * rng.choice(self.shape, size=len(x)))

    def drawn(self, rng: np.random.Generator, x: Array) -> Array:
        """Targets under one draw of θ and of the noise."""
        k = rng.choice(len(self.λ), p=self.weight)
        noise = float(np.sqrt(self.left[k] / max(len(self.y) - 1, 1))) * self._noise(rng, len(x))
        g, λ, σ = rng.normal(size=self.z.shape[1]), float(self.λ[k]), float(np.sqrt(np.mean(np.square(noise))))
        inside = self.V.T @ g
        spread = self.V @ (inside / np.sqrt(np.square(self.s) + λ)) + (g - self.V @ inside) / np.sqrt(λ)
        theta = self.means[k] + σ * np.append(spread, rng.normal() / np.sqrt(len(self.y)))
        return np.asarray(self.predicted(x, theta) + noise)

    def _noise(self, rng: np.random.Generator, number: int) -> Array:
        """Noise of variance about 1: residuals under Dirichlet weights, the long ones as long as their tail may have them.

        For normal residuals the variance is then as uncertain as that of so many of them, 2/n; for skewed ones by more, and
        it is what few rows say least of.
        """
        law = rng.standard_exponential(len(self.shape))
        law /= law.sum()
        drawn = self.shape[rng.choice(len(law), size=number, p=law)]
        if self.tail is not None:
            tail, long_ = self.tail.drawn(rng), np.abs(drawn) > self.tail.threshold
            drawn[long_] = np.sign(drawn[long_]) * (tail.threshold + tail.excesses(rng, int(long_.sum())))
        return np.asarray(drawn - law @ self.shape)


class Classes(Linear):
    """P(y = 1) = 1/(1 + exp(−zᵀθ)); Laplace's approximation for each width of the prior, weighed by its evidence."""

    WIDTHS = (0.03, 0.2, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)
    """E (zᵀθ)²: from hardly any signal to classes that hardly overlap."""

    def __init__(self, rows: Records) -> None:
        super().__init__(rows)
        self.z = np.column_stack([self.z, np.ones(len(self.z))])
        p, log, self.modes, self.roots = self.z.shape[1], [], [], []
        theta = np.zeros(p)
        for width in self.WIDTHS:
            precision = np.append(np.full(p - 1, (p - 1) / width), 0.04)
            theta, H = self._mode(theta, precision)
            a, U = np.linalg.eigh(H)
            z = self.z @ theta
            log.append(
                -float(np.logaddexp(0.0, -self.y * z).sum()) - 0.5 * float(precision @ theta**2)
                + 0.5 * float(np.log(precision).sum()) - 0.5 * float(np.log(a).sum())
            )  # fmt: skip
            self.modes.append(theta)
            self.roots.append(U / np.sqrt(a))
        self.weight = np.exp(np.array(log) - max(log))
        self.weight /= self.weight.sum()
        self.mean = self.weight @ np.array(self.modes)

    def _mode(self, theta: Array, precision: Array) -> tuple[Array, Array]:
        for _ in range(50):
            z = self.z @ theta
            slope = self.z.T @ (-self.y * expit(-self.y * z)) + precision * theta
            H = (self.z * (expit(z) * expit(-z))[:, None]).T @ self.z + np.diag(precision)
            step = np.linalg.solve(H, slope)
            longest = float(np.abs(self.z @ step).max())
            theta = theta - step * min(1.0, 2.0 / max(longest, 1e-12))
            if float(slope @ step) < 1e-8:
                break
        return theta, H

    def logits(self, rng: np.random.Generator, x: Array) -> Array:
        """zᵀθ of rows under one draw of θ."""
        k = rng.choice(len(self.weight), p=self.weight)
        return self.predicted(x, self.modes[k] + self.roots[k] @ rng.normal(size=self.z.shape[1]))

    def drawn(self, rng: np.random.Generator, x: Array) -> Array:
        """Classes under one draw of θ."""
        z = self.logits(rng, x)
        return np.where(rng.random(len(x)) < expit(z), 1.0, -1.0)

    def expected(self, rng: np.random.Generator, x: Array) -> Array:
        """Classes under the posterior's mean."""
        return np.where(rng.random(len(x)) < expit(self.predicted(x, self.mean)), 1.0, -1.0)


def tail_of(sizes: Array) -> Tail | None:
    """The tail of sizes, where it is one: of numbers that differ."""
    top = np.sort(sizes)[-max(len(sizes) // 10, 10) :]
    return Tail.of(sizes) if len(np.unique(top)) > 0.8 * len(top) and top[-1] > top[0] else None


def levels_of(x: Array) -> Bool[np.ndarray, " p"]:
    """Columns of zeros and ones, both of them."""
    return np.asarray(((x == 0.0) | (x == 1.0)).all(axis=0) & (np.ptp(x, axis=0) > 0.0))
