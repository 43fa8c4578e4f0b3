"""δ(ε) of many answers together, without the accountant: a closed form for normal noise, brute force for Laplace noise."""

import numpy as np
from scipy.stats import norm


def delta_of_normal(multiplier: float, ε: float) -> float:
    """δ(ε) of one normal draw of standard deviation `multiplier`·Δ (Balle and Wang 2018, Theorem 8)."""
    s = multiplier
    return float(norm.cdf(0.5 / s - ε * s) - np.exp(ε) * norm.cdf(-0.5 / s - ε * s))


def delta_of_laplace(multiplier: float, ε: float, m: int) -> float:
    """δ(ε) of m Laplace draws at shift 1, by convolving the density of one privacy loss on a fine grid from below."""
    step = 1 / multiplier / 200
    x = np.linspace(-30 * multiplier, 30 * multiplier + 1, 400_001)
    density = np.exp(-np.abs(x) / multiplier) / (2 * multiplier) * (x[1] - x[0])
    loss = (np.abs(x - 1) - np.abs(x)) / multiplier
    k = np.floor(loss / step).astype(int) + 200
    one = np.bincount(k, weights=density, minlength=401)
    total = one
    for _ in range(m - 1):
        total = np.convolve(total, one)
    losses = (np.arange(len(total)) - 200 * m) * step
    return float((total * np.maximum(0, 1 - np.exp(ε - losses))).sum())
