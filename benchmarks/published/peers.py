"""Peers whose code is short, and what needs no model, written here and not taken from copriv.

Each gives models of many runs, shape (runs, p), or their losses. Rows are within L2 norm 1, |y| at most 1. Neighbours of
AdaSSP and of the release that is named `zeroed` differ in a row that is there or not, which is weaker than a row replaced.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from copriv.types import Array

REPLACED, ZEROED = np.sqrt(4.5), np.sqrt(2.0)
"""The most that one row moves (XᵀX, Xᵀy), L2 of all entries. Replaced: two rows of norm 1 at an angle whose cosine is c move
it by √(4 − 2c² + 2|c|), at most where c = ½."""
FAILS = 0.05
"""Probability that AdaSSP's bound of its own noise may fail; Wang's ρ."""


def normal_delta(epsilon: float, sigma: float) -> float:
    """δ at ε of normal noise of standard deviation `sigma` on what one row moves by 1 (Balle and Wang 2018, Thm 8)."""
    a, b = 0.5 / sigma, epsilon * sigma
    return float(ndtr(a - b) - np.exp(epsilon + log_ndtr(-a - b)))


def normal_sigma(epsilon: float, delta: float) -> float:
    """The least standard deviation that is (ε, δ), where one row moves what is released by 1."""
    return float(brentq(lambda s: normal_delta(epsilon, s) - delta, 1e-6, 1e9, xtol=1e-15, rtol=1e-10))


def adassp_sigma(epsilon: float, delta: float) -> float:
    """Of each of AdaSSP's three releases (Wang 2018, Algorithm 2): √log(6/δ) / (ε/3)."""
    return float(np.sqrt(np.log(6.0 / delta)) / (epsilon / 3.0))


def adassp(x: Array, y: Array, epsilon: float, delta: float, runs: int, rng: np.random.Generator) -> Array:
    """Adaptive sufficient statistics perturbation (Wang 2018, "Revisiting differentially private linear regression")."""
    p, σ = x.shape[1], adassp_sigma(epsilon, delta)
    a, b = x.T @ x, x.T @ y
    least = float(np.linalg.eigvalsh(a)[0])
    models = []
    for _ in range(runs):
        released = max(least + σ * rng.normal() - σ * np.sqrt(np.log(6.0 / delta)), 0.0)
        noise = np.triu(rng.normal(size=(p, p)))
        noise += np.triu(noise, 1).T
        ridge = max(0.0, σ * np.sqrt(p * np.log(2.0 * p**2 / FAILS)) - released)
        models.append(np.linalg.solve(a + σ * noise + ridge * np.eye(p), b + σ * rng.normal(size=p)))
    return np.array(models)


def moments(
    x: Array, y: Array, epsilon: float, delta: float, moved: float, runs: int, rng: np.random.Generator
) -> Array:
    """One normal release of (XᵀX, Xᵀy); eigenvalues raised to the edge of the noise, σ√(2p)."""
    p, σ = x.shape[1], moved * normal_sigma(epsilon, delta)
    a, b = x.T @ x, x.T @ y
    models = []
    for _ in range(runs):
        noise = rng.normal(size=(p, p))
        values, vectors = np.linalg.eigh(a + σ * (noise + noise.T) / 2.0)
        values = np.maximum(values, σ * np.sqrt(2.0 * p))
        models.append(vectors @ ((vectors.T @ (b + σ * rng.normal(size=p))) / values))
    return np.array(models)


def private_means(
    y: Sequence[Array], low: float, high: float, epsilon: float, delta: float, runs: int, rng: np.random.Generator
) -> Array:
    """The mean of y of all owners, each owner's released by itself and the records' weights public: shape (runs,)."""
    n = sum(map(len, y))
    found = np.zeros(runs)
    for own in y:
        moved = (high - low) / len(own)
        noise = rng.laplace(scale=moved / epsilon, size=runs)
        if delta > 0:
            normal = moved * normal_sigma(epsilon, delta)
            if normal < np.sqrt(2.0) * moved / epsilon:
                noise = rng.normal(scale=normal, size=runs)
        found += len(own) / n * (np.clip(own, low, high).mean() + noise)
    return np.clip(found, low, high)


def models_loss(theta: Any, x: Array, y: Array) -> Array:
    """Mean squared error of models without intercept, one a row of theta."""
    a, b = x.T @ x / len(y), x.T @ y / len(y)
    θ = np.atleast_2d(theta)
    return np.asarray(((θ @ a) * θ).sum(axis=1) - 2.0 * θ @ b + np.mean(y**2))
