"""Tests of randomness on words of 64 bits, each a p-value: those of NIST SP 800-22 rev. 1a that take long sequences.

Section numbers are that publication's. Bits are taken from each word, the lowest first.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import gammaincc
from scipy.stats import chi2, norm

from copriv.privacy.shared_noise import Words

RANKS = (0.2887880951, 0.5775761902, 0.1336357147)
"""Probabilities that a random square matrix of bits has full rank, one less, or fewer still."""


def bits(words: Words) -> np.ndarray:
    return np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")


def frequency(words: Words) -> float:
    """2.1."""
    n = 64 * len(words)
    ones = int(np.bitwise_count(words).sum(dtype=np.int64))
    return float(2 * norm.sf(abs(2 * ones - n) / np.sqrt(n)))


def block_frequency(words: Words) -> float:
    """2.2, in blocks of 64 bits."""
    share = np.bitwise_count(words) / 64
    return float(chi2.sf(4 * 64 * np.sum((share - 0.5) ** 2), len(words)))


def runs(words: Words) -> float:
    """2.3."""
    n = 64 * len(words)
    π = int(np.bitwise_count(words).sum(dtype=np.int64)) / n
    inside = words ^ (words >> np.uint64(1) | np.roll(words, -1) << np.uint64(63))
    changes = int(np.bitwise_count(inside).sum(dtype=np.int64)) + 1 - int(inside[-1] >> np.uint64(63))
    return float(2 * norm.sf(abs(changes - 2 * n * π * (1 - π)) / (2 * np.sqrt(n) * π * (1 - π))))


def rank(words: Words) -> float:
    """2.5, of matrices of 64 × 64 bits."""
    matrices = words[: len(words) // 64 * 64].reshape(-1, 64)[:20_000].copy()
    each, ranks = np.arange(len(matrices)), np.zeros(len(matrices), dtype=int)
    for bit in range(64):
        has = (matrices >> np.uint64(bit)) & np.uint64(1)
        has[np.arange(64)[None, :] < ranks[:, None]] = 0  # rows that are pivots already
        found = has.any(axis=1)
        pivot = np.where(found, has.argmax(axis=1), 0)
        row = np.where(found, matrices[each, pivot], np.uint64(0))
        at = np.where(found, ranks, 0)
        swapped = matrices[each, at]
        matrices[each[found], pivot[found]] = swapped[found]
        matrices[each[found], at[found]] = row[found]
        has = ((matrices >> np.uint64(bit)) & np.uint64(1)).astype(bool)
        has &= np.arange(64)[None, :] > np.where(found, ranks, 64)[:, None]
        matrices ^= np.where(has, row[:, None], np.uint64(0))
        ranks += found
    counts = np.array([(ranks == 64).sum(), (ranks == 63).sum(), (ranks < 63).sum()])
    expected = len(matrices) * np.array(RANKS)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 2))


def spectrum(words: Words) -> float:
    """2.6, on the first 2²⁰ bits, with the variance of Kim, Umeno and Hasegawa (2004)."""
    b = bits(words[: 1 << 14]).astype(np.float64) * 2 - 1
    n = len(b)
    peaks = np.abs(np.fft.rfft(b)[: n // 2])
    below = np.count_nonzero(peaks < np.sqrt(n * np.log(1 / 0.05)))
    return float(2 * norm.sf(abs(below - 0.95 * n / 2) / np.sqrt(n * 0.95 * 0.05 / 4)))


def serial(words: Words) -> float:
    """2.11, first p-value, of 8 bits that may overlap."""
    following, counts = np.roll(words, -1), np.zeros(256, dtype=np.int64)
    for i in range(64):
        pattern = words >> np.uint64(i) | (following << np.uint64(64 - i) if i > 56 else np.uint64(0))
        counts += np.bincount(pattern.astype(np.uint8), minlength=256)

    def psi(counts: np.ndarray) -> float:
        return float(len(counts) / (64 * len(words)) * (counts.astype(np.float64) ** 2).sum() - 64 * len(words))

    return float(gammaincc(2 ** (8 - 2), (psi(counts) - psi(counts[:128] + counts[128:])) / 2))


def sums(words: Words) -> float:
    """2.13, forward."""
    walk = np.cumsum(
        np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little") * 2.0 - 1, axis=1
    )
    steps = words.astype("<u8").view(np.uint8)
    ends = np.cumsum(walk[steps, -1])
    begins = ends - walk[steps, -1]
    furthest = max((begins + walk.max(axis=1)[steps]).max(), -(begins + walk.min(axis=1)[steps]).min())
    z, k = furthest / np.sqrt(64 * len(words)), np.arange(-50, 51)
    below = norm.cdf((4 * k + 1) * z) - norm.cdf((4 * k - 1) * z)
    above = norm.cdf((4 * k + 3) * z) - norm.cdf((4 * k + 1) * z)
    return float(np.clip(1 - below.sum() + above.sum(), 0, 1))


def each_bit(words: Words) -> float:
    """2.1 of each of a word's 64 bits."""
    ones = np.array([np.count_nonzero(words >> np.uint64(i) & np.uint64(1)) for i in range(64)])
    n = len(words)
    return float(chi2.sf(((2 * ones - n) ** 2 / n).sum(), 64))


def byte_pairs(words: Words) -> float:
    """χ² of pairs of bytes that do not overlap (Knuth, vol. 2, 3.3.2 B)."""
    pairs = words.astype("<u8").view("<u2")
    expected = len(pairs) / 65536
    counts = np.bincount(pairs, minlength=65536)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 65535))


BATTERY: dict[str, Callable[[Words], float]] = {
    one.__name__: one for one in (frequency, block_frequency, runs, rank, spectrum, serial, sums, each_bit, byte_pairs)
}


def worst(words: Words) -> float:
    """The least p-value; 0 where words repeat each other."""
    again = np.count_nonzero(np.diff(np.sort(words)) == 0)
    return 0.0 if again > 1 + len(words) ** 2 / 2**60 else min(one(words) for one in BATTERY.values())
