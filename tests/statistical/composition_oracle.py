"""δ(ε) of many answers together, without the accountant.

On the real line: a closed form for normal noise, brute force for Laplace noise. On the integers, which is what OpenDP
draws: the whole distribution of the privacy loss, exact but for the last bits of floats. Shift and scale are in steps there.
"""

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


def delta_of_laplace_on_integers(shifts: tuple[int, ...], scale: float, ε: float, m: int) -> float:
    """δ(ε) of m answers of independent draws with P(z) ∝ e^(−|z|/scale), number j moved by shifts[j].

    A loss is a whole number over the scale, so the distribution of their sum is a convolution without rounding.
    """
    total = np.ones(1)
    for shift in shifts * m:
        lattice = np.arange(-60 * int(scale + 1) - shift, 60 * int(scale + 1) + 2 * shift)
        weight = np.exp(-np.abs(lattice) / scale)
        loss = np.abs(lattice - shift) - np.abs(lattice)
        total = np.convolve(total, np.bincount(loss + shift, weights=weight / weight.sum()))
    most = m * sum(shifts)
    return float((total * np.maximum(0, -np.expm1(ε - (np.arange(len(total)) - most) / scale))).sum())


def delta_of_normal_on_integers(shifts: tuple[int, ...], scale: float, ε: float) -> float:
    """δ(ε) of one answer of one or two independent draws with P(z) ∝ e^(−z²/(2 scale²)), by summing over all points."""
    total, loss = np.ones(()), np.zeros(())
    for shift in shifts:
        lattice = np.arange(-int(12 * scale) - shift, int(12 * scale) + 2 * shift)
        weight = np.exp(-np.square(lattice / scale) / 2)
        total = np.multiply.outer(total, weight / weight.sum())
        loss = np.add.outer(loss, (np.square(lattice - shift) - np.square(lattice)) / (2 * scale**2))
    return float((total * np.maximum(0, -np.expm1(ε - loss))).sum())
