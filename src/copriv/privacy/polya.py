"""Shares of discrete Laplace noise: differences of negative binomial numbers, drawn exactly from the system's randomness.

NB(r, q) has P(k) = (1 − q)^r q^k r(r + 1)…(r + k − 1)/k!, and independent NB(r₁, q) and NB(r₂, q) add up to NB(r₁ + r₂, q). So
differences of pairs of NB(1/n, e^(−1/s)), one from each of n owners, add up to a difference of geometric numbers, which has the
discrete Laplace law P(z) ∝ e^(−|z|/s). Their continuous limit are differences of gamma numbers (Goryczka and Xiong 2015).

**How one is drawn.** With q_l = e^(−2^(L−l)/s) for l = 0 … L, 2^L ≤ s < 2^(L+1), and G_l geometric, P(k) ∝ q_l^k,

    NB(r, q_l) = NB(r, q_(l−1)) + Σ_(j ≤ J) (1 + G_(l−1)),        J ~ NB(r, q_l/(1 + q_l))      (docs/proofs/sum.md)

J and NB(r, q_0) are small numbers: a geometric k is kept with probability Π_(i ≤ k) (i − 1 + r)/i. Every decision compares
whole numbers, e^(−x) is never computed (Canonne, Kamath and Steinke 2020, algorithms 1 and 2), nothing is rounded or cut
off, and nothing takes a seed.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from secrets import randbelow


def polya_difference(shape: Fraction, scale: int) -> int:
    """NB(r, e^(−1/s)) − NB(r, e^(−1/s)), r = `shape` ≤ 1 and s = `scale` ≥ 1; a discrete Laplace number where r = 1."""
    return _negative_binomial(shape, scale) - _negative_binomial(shape, scale)


def _negative_binomial(r: Fraction, s: int) -> int:
    rates = [2**level for level in range(s.bit_length())]  # over s
    drawn = _thinned(r, partial(_happens_exp, rates[-1], s))
    for rate in rates[:-1]:
        pieces = _thinned(r, partial(_logistic, rate, s))
        drawn += sum(1 + _geometric(2 * rate, s) for _ in range(pieces))
    return drawn


def _thinned(r: Fraction, goes_on: Callable[[], bool]) -> int:
    """NB(r, a), a the probability of `goes_on`."""
    k = 0
    while goes_on():
        k += 1
        # Kept with probability (k − 1 + r)/k at each step, and begun anew otherwise.
        if randbelow(k * r.denominator) >= (k - 1) * r.denominator + r.numerator:
            k = 0
    return k


def _geometric(rate: int, s: int) -> int:
    """P(k) ∝ e^(−k·rate/s)."""
    while not _happens_exp(u := randbelow(s), s):
        pass
    v = 0
    while _happens_exp(1, 1):
        v += 1
    return (u + s * v) // rate


def _logistic(rate: int, s: int) -> bool:
    """True with probability q/(1 + q), q = e^(−rate/s)."""
    while randbelow(2):
        if _happens_exp(rate, s):
            return True
    return False


def _happens_exp(x: int, s: int) -> bool:
    """True with probability e^(−x/s), 0 ≤ x ≤ s: the first k for which an event of probability x/(sk) fails is odd."""
    k = 1
    while randbelow(s * k) < x:
        k += 1
    return k % 2 == 1
