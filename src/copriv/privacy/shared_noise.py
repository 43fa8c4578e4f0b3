"""Noise shared by N owners, which protects each of them in a sum whose terms nobody sees.

Each owner rounds its weighted answer to whole cells of a public grid and adds a share of noise, a whole number too; what
leaves it is the result modulo 2⁶⁴, or modulo the prime below it where owners may be missing, which a mask hides. The shares
of any N − t − d owners add up to the noise that the agreed (ε, δ) of each requires, whatever the t others do, and whichever d
are missing: **discrete Laplace** noise exactly, or **discrete normal** noise up to a factor within 10⁻¹⁰⁰⁰ of 1 (Kairouz, Liu
and Steinke 2021). All N shares make N/(N − t − d) times its variance.

Formal guarantee: docs/proofs/sum.md. It holds for the sum alone. A share by itself protects nobody: `alone` bounds the ε that
remains if all other owners work together, unless the owner adds noise of its own (`Part.floor`).

**Shares of discrete Laplace noise** are differences of negative binomial numbers, drawn exactly from the system's randomness.
NB(r, q) has P(k) = (1 − q)^r q^k r(r + 1)…(r + k − 1)/k!, and independent NB(r₁, q) and NB(r₂, q) add up to NB(r₁ + r₂, q). So
differences of pairs of NB(1/n, e^(−1/s)), one from each of n owners, add up to a difference of geometric numbers, which has the
discrete Laplace law P(z) ∝ e^(−|z|/s). Their continuous limit are differences of gamma numbers (Goryczka and Xiong 2015).

**How one is drawn.** With q_l = e^(−2^(L−l)/s) for l = 0 … L, 2^L ≤ s < 2^(L+1), and G_l geometric, P(k) ∝ q_l^k,

    NB(r, q_l) = NB(r, q_(l−1)) + Σ_(j ≤ J) (1 + G_(l−1)),        J ~ NB(r, q_l/(1 + q_l))      (docs/proofs/sum.md)

J and NB(r, q_0) are small numbers: a geometric k is kept with probability Π_(i ≤ k) (i − 1 + r)/i. Every decision compares
whole numbers, e^(−x) is never computed (Canonne, Kamath and Steinke 2020, algorithms 1 and 2), nothing is rounded or cut
off, and nothing takes a seed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from secrets import randbelow
from typing import Any

import numpy as np
from jaxtyping import Float, UInt64

from copriv.errors import InvalidInput
from copriv.privacy.noise import CLIP_SLACK, Law, check_value, normal_draws
from copriv.types import Array

Words = np.ndarray[Any, np.dtype[np.uint64]]
"""Numbers modulo 2⁶⁴, or modulo PRIME."""
PRIME = 2**64 - 59
"""The largest prime below 2⁶⁴: modulo it masks can be shared out (`copriv.privacy.mask_shares`)."""


def sum_modulo(words: UInt64[Words, "owners length"], modulus: int) -> UInt64[Words, " length"]:
    """The sum of fewer than 2³² rows."""
    high, low = ((words >> np.uint64(32)).sum(axis=0), (words & np.uint64(2**32 - 1)).sum(axis=0))
    return np.asarray((high.astype(object) * 2**32 + low.astype(object)) % modulus, dtype=np.uint64)


def as_numbers(words: UInt64[Words, " length"]) -> Float[Array, " halves"]:
    """Words as float64 numbers, exactly: two for each, of 32 bits, the lower first. Owners' answers and ledgers have these."""
    return np.ascontiguousarray(words, dtype="<u8").view("<u4").astype(np.float64)


def as_words(numbers: Float[Array, " halves"]) -> UInt64[Words, " length"]:
    """The words of `as_numbers`."""
    return np.ascontiguousarray(numbers).astype("<u4").view("<u8").astype(np.uint64, copy=False)


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


CELLS = 2.0**20
"""Least number of cells in the noise's scale."""
FINE = 2.0**10
"""Least sensitivity in cells, over the length: rounding raises the noise by a thousandth at most."""


@dataclass(frozen=True)
class Part:
    """An owner's part of a sum."""

    weight: Fraction
    """Weight of its answer in the sum."""
    sensitivity: float
    """Sensitivity of its answer to one unit replaced: in L1 with Laplace noise, in L2 with normal noise."""
    multiplier: Fraction
    """Scale of noise over sensitivity that keeps its (ε, δ)."""
    floor: Fraction | None = None
    """Multiplier of additional noise of its own; None: it adds none."""

    @property
    def moves(self) -> float:
        """Sensitivity of the sum to one of its units replaced."""
        return float(self.weight) * self.sensitivity * (1 + CLIP_SLACK)


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """The noise of a sum of vectors of `length` numbers, each of norm at most `bound`, and who shares it.

    All owners and the learner compute the same grid and scale from public numbers. Raises InvalidInput where an honest sum
    might not fit into 64 bits (with a probability of 2⁻¹⁰⁰ or more).
    """

    law: Law
    parts: Sequence[Part]
    colluding: int
    """t; at most N − 2."""
    length: int
    bound: float
    unit: Float[Array, " length"] | None = None
    """Divisor of each number before it is rounded, under which sensitivities and `bound` are stated; None: 1."""
    dropouts: int = 0
    """d: owners that may be missing from a sum."""

    def __post_init__(self) -> None:
        if not self._largest < 2.0**63 - 60:
            raise InvalidInput(
                f"noise: a sum of {len(self.parts)} owners' answers needs more than 64 bits beside its noise; agree on more "
                "answers, smaller budgets or fewer records"
            )

    @cached_property
    def exponent(self) -> int:
        """The grid's cells are 2^exponent, in the unit of an answer."""
        needs = [float(part.multiplier) * part.moves for part in self.parts]
        strictest = self.parts[int(np.argmax(needs))]
        return math.frexp(min(max(needs) / CELLS, strictest.moves / (FINE * self.length)))[1] - 1

    @cached_property
    def scale(self) -> float:
        """Scale in cells of the noise that any N − t − d owners make together: a whole number s, or a standard deviation."""
        return max(self._scale(part.multiplier, part) for part in self.parts)

    @property
    def shape(self) -> Fraction:
        """1/(N − t − d): the share of an owner in that noise, and of its variance."""
        return Fraction(1, len(self.parts) - self.colluding - self.dropouts)

    @property
    def modulus(self) -> int:
        """Modulus of the words."""
        return PRIME if self.dropouts else 2**64

    def share(self, owner: int, answer: Float[Array, " length"]) -> UInt64[Words, " length"]:
        """The owner's answer on the grid with fresh noise, modulo `modulus`: private only once it is masked and in the sum.

        owner: its index among the parts. Raises InvalidInput on a wrong shape, NaN or infinity: nothing is drawn then.
        """
        check_value(answer, self.length)
        part, cell = self.parts[owner], Fraction(2) ** self.exponent
        given = answer if self.unit is None else answer / self.unit
        cells = [round(Fraction(value) * part.weight / cell) for value in given.tolist()]
        noises = [self._draws(self.shape, self.scale)]
        if part.floor is not None:
            noises.append(self._draws(Fraction(1), self._scale(part.floor, part)))
        return np.array([sum(column) % self.modulus for column in zip(cells, *noises, strict=True)], dtype=np.uint64)

    def vector(self, words: UInt64[Words, " length"], weight: Fraction = Fraction(1)) -> Float[Array, " length"]:
        """The weighted mean of answers with its noise, from the sum of owners' words. weight: total weight of these owners."""
        below = words > np.uint64(self.modulus // 2)
        cells = np.where(below, -(np.uint64(self.modulus % 2**64) - words).astype(np.float64), words.astype(np.float64))
        vector: Array = np.ldexp(cells, self.exponent) / float(weight)
        return vector if self.unit is None else vector * self.unit

    def alone(self, owner: int) -> float:
        """Upper bound on ε of one answer with Laplace noise if all other owners work together.

        The law of one share P falls in |z| and log P is convex on either side of 0, so that a shift of d is seen best at 0,
        and shifts of D in all are seen best where each of p numbers has D/p of them. With r = 1/(N − t − d) and q = e^(−1/s)

            P(0)/P(d) ≤ ₂F₁(r, r; 1; q²) · q^(−d) · Γ(r) Γ(d + 1)/Γ(d + r),

        which grows with the number of cells: it is a number of this grid.
        """
        from scipy.special import gammaln, hyp2f1  # not needed to read an agreement

        part, r, s = self.parts[owner], float(self.shape), self.scale
        if part.floor is not None:
            return float(1 / part.floor)
        d = math.ceil(self._moves(part) / self.length)
        peak = float(np.log(hyp2f1(r, r, 1.0, math.exp(-2.0 / s))))
        return self.length * (peak + d / s + float(gammaln(r) + gammaln(d + 1.0) - gammaln(d + r)))

    def _moves(self, part: Part) -> float:
        """Sensitivity of the rounded answer to one unit replaced, in cells, in the norm of the law."""
        cells = part.moves / 2.0**self.exponent
        if self.law is Law.NORMAL:
            return cells + math.sqrt(self.length)
        return (
            math.ceil(cells) + self.length + 1
        )  # 1: a discrete draw moved by d ≤ a real one moved by d + 1/(4s) a number

    def _scale(self, multiplier: Fraction, part: Part) -> float:
        """Scale in cells of noise with this multiplier."""
        if self.law is Law.NORMAL:
            return math.sqrt((float(multiplier) * self._moves(part)) ** 2 + 3.0) * (1 + CLIP_SLACK)
        return math.ceil(multiplier * int(self._moves(part)))

    def _draws(self, shape: Fraction, scale: float) -> list[int]:
        """`shape` of discrete noise with this scale, on each number."""
        if self.law is Law.LAPLACE:
            return [polya_difference(shape, int(scale)) for _ in range(self.length)]
        from opendp.domains import atom_domain

        deviation = scale * math.sqrt(shape) * (1 + CLIP_SLACK)
        return [int(z) for z in normal_draws(atom_domain(T="i64"), self.length, deviation)([0] * self.length)]

    @property
    def _largest(self) -> float:
        """Bound that an honest sum exceeds with a probability below 2⁻¹⁰⁰, in cells.

        With θ = 1/(2s), E e^(θX) ≤ 2^R for X ~ NB(R, e^(−1/s)); a discrete normal law is sub-Gaussian.
        """
        N, floors = len(self.parts), sum(part.floor is not None for part in self.parts)
        values = self.bound * float(sum(part.weight for part in self.parts)) / 2.0**self.exponent + N
        if self.law is Law.LAPLACE:
            pieces = N * float(self.shape) + floors + math.log2(self.length) + 101
            return values + 2.0 * math.log(2.0) * self.scale * pieces
        variance = self.scale**2 * (N * float(self.shape) + floors)
        return values + math.sqrt(2.0 * variance * math.log(2.0) * (101 + math.log2(self.length)))


@dataclass(frozen=True, eq=False)
class Share:
    """One owner's part in a sum. What it releases must be masked before it leaves the owner's process."""

    noise: SharedNoise
    owner: int
    """Its index among the parts."""

    @property
    def scale(self) -> float:
        """Scale of the noise that any N − t owners make together, in the unit of each number."""
        return math.ldexp(self.noise.scale, self.noise.exponent)

    def release(self, value: Float[Array, " length"]) -> Float[Array, " halves"]:
        """The words of `SharedNoise.share`, as numbers (`copriv.privacy.masks.as_numbers`)."""
        return as_numbers(self.noise.share(self.owner, value))
