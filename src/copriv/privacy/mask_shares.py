"""Masks shared among owners, so that the mask of the sum of the remaining owners can be removed, and no other.

Up to d of N owners may be missing from a sum. All arithmetic is modulo the prime P below 2⁶⁴. The k owners of an attempt have
numbers 1 … k, and τ = N − d. Owner i has, with each owner j, a stream of words s_ij that nobody else knows (`masks`). Its mask
is f_i(0), where f_i is the polynomial of degree τ − 1 with f_i(j) = s_ij for j ≤ τ, in each word by itself. It sends

    y_i = noisy_i + f_i(0)    and    c_ij = f_i(j) − s_ij  for τ < j ≤ k        (`masked`)

Once the set U of owners whose vectors are there is known, owner j sends Σ_{i∈U} s_ij (`opened`). With Σ_{i∈U} c_ij this is its
point of the polynomial Σ_{i∈U} f_i, of which any τ give the value at 0, the mask of the sum (`sum_of`); fewer say nothing.

So masks are Shamir's (1979), shared by pseudo-random secrets (Cramer, Damgård and Ishai, TCC 2005), and only the sum of those
of U is ever found (So et al., LightSecAgg, MLSys 2022): the vector of an owner that is not in U stays hidden, also if it
arrives later. No message contains a secret of a single owner.

Formal guarantee: docs/proofs/masks.md. It requires that owners open one set U in an attempt (`network/masked_sum.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from secrets import token_bytes
from typing import Any

import numpy as np
from jaxtyping import UInt64

from copriv.errors import QueryRefused
from copriv.privacy import masks
from copriv.privacy.masks import Attempt, EphemeralKey, set_digest
from copriv.privacy.shared_noise import PRIME, Words, sum_modulo


class MaskShares:
    """One owner's mask in one set of keys. It masks one vector, and opens the sum of its streams with one set of owners, once.

    key: the owner's, which cannot be used again. keys: those of all owners of the attempt, by name, in their order. least: τ.
    Raises QueryRefused as `EphemeralKey.secrets` does.
    """

    def __init__(self, key: EphemeralKey, owner: str, attempt: Attempt, keys: Mapping[str, bytes], least: int) -> None:
        self._owner, self._names, self._least, self._digest = owner, tuple(keys), least, set_digest(attempt, keys)
        self._secrets = key.secrets(owner, keys) | {owner: token_bytes(32)}
        self._done, self._length = list[str](), 0

    def masked(self, words: UInt64[Words, " length"]) -> UInt64[Words, "shares length"]:
        """y, and c_j of each owner j above τ. words: modulo P."""
        self._once("mask")
        self._length = len(words)
        streams = np.array([self._stream(self._owner, name, len(words)) for name in self._names])
        shares = _product(_weights(tuple(range(1, self._least + 1)), (0, *self._points)), streams[: self._least])
        return _added(shares.astype(np.uint64), np.array([words, *np.uint64(PRIME) - streams[self._least :]]))

    def opened(self, survivors: Iterable[str]) -> UInt64[Words, " length"]:
        """The sum of the streams that this owner has with the survivors, itself included where it is one.

        Raises QueryRefused before it has masked its own vector, and the second time.
        """
        self._once("open")
        return sum_modulo(np.array([self._stream(name, self._owner, self._length) for name in survivors]), PRIME)

    @property
    def _points(self) -> range:
        """Numbers of the owners above τ."""
        return range(self._least + 1, len(self._names) + 1)

    def _once(self, what: str) -> None:
        self._done.append(what)
        if self._done not in (["mask"], ["mask", "open"]):
            raise QueryRefused(f"{self._owner} refused: its key of this attempt is used up, or has masked nothing")

    def _stream(self, owner: str, member: str, length: int) -> UInt64[Words, " length"]:
        """The stream s_ij of an owner i and a member j, one of which is this owner; uniform modulo P."""
        other = member if owner == self._owner else owner
        # 16 words more, for those of P or more are left out, each with a probability of 2⁻⁵⁸.
        words = masks._stream(self._secrets[other], self._digest, owner, member, length + 16)
        return np.asarray(words[words < PRIME][:length])


def sum_of(
    given: Mapping[str, UInt64[Words, "shares length"]],
    opened: Mapping[str, UInt64[Words, " length"]],
    names: Sequence[str],
    least: int,
) -> UInt64[Words, " length"]:
    """The sum of the survivors' vectors modulo P.

    given: the masked vector and shares of each survivor (`MaskShares.masked`). opened: sums of streams (`MaskShares.opened`) of
    `least` owners or more, of which the first `least` are used. names: all owners of the attempt, in their order.
    """
    summed = sum_modulo(np.array([*given.values()]).reshape(len(given), -1), PRIME).reshape(
        -1, len(next(iter(opened.values())))
    )
    who = sorted(names.index(name) + 1 for name in opened)[:least]
    points = np.array([opened[names[j - 1]] for j in who])
    for row, j in enumerate(who):
        if j > least:
            points[row] = sum_modulo(np.array([points[row], summed[j - least]]), PRIME)
    mask = _product(_weights(tuple(who), (0,)), points)[0]
    return np.asarray((summed[0].astype(object) - mask) % PRIME, dtype=np.uint64)


@lru_cache(maxsize=16)
def _weights(at: tuple[int, ...], wanted: tuple[int, ...]) -> Words:
    """Lagrange weights modulo P: for each wanted x, those by which values at the points `at` give the value at x.

    x: not one of the points. Cached, because all owners and attempts of a run use the same weights.
    """
    below = [_multiplied(j - other for other in at if other != j) for j in at]
    rows = []
    for x in wanted:
        above = _multiplied(x - j for j in at)
        rows.append([above * pow((x - j) * b, -1, PRIME) % PRIME for j, b in zip(at, below, strict=True)])
    return np.array(rows, dtype=np.uint64)


def _added(one: UInt64[Words, "rows length"], other: UInt64[Words, "rows length"]) -> UInt64[Words, "rows length"]:
    """Sums modulo P of numbers below P and up to P, in a time that does not depend on them, unlike Python's integers."""
    total = one + other
    return np.where((total < one) | (total >= np.uint64(PRIME)), total - np.uint64(PRIME), total)


def _multiplied(factors: Iterable[int]) -> int:
    return reduce(lambda one, other: one * other % PRIME, factors, 1)


def _product(weights: Words, words: UInt64[Words, "points length"]) -> Any:
    """Weighted sums of rows modulo P, as integers, from pieces of 16 bits, whose products float64 holds exactly."""
    left, right = (
        [(rows >> np.uint64(16 * k) & np.uint64(0xFFFF)).astype(np.float64) for k in range(4)]
        for rows in (weights, words)
    )
    total: Any = 0
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            total = total + (one @ other).astype(np.uint64).astype(object) * 2 ** (16 * (i + j))
    return total % PRIME
