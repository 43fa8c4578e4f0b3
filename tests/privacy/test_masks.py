"""Masks cancel in the sum of all and in nothing else, and what one owner sends is uniform words."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from copriv.errors import QueryRefused
from copriv.privacy import mask_shares, masks
from copriv.privacy.masks import Attempt, EphemeralKey, point_digest, set_digest
from copriv.privacy.shared_noise import PRIME, Words, as_numbers, as_words
from uniform_words import BATTERY, worst

ATTEMPT = Attempt("agreement", "run", 1, 1, 1, point_digest(np.zeros(3)))
OTHERS = [
    replace(ATTEMPT, fingerprint="another"), replace(ATTEMPT, run="another"), replace(ATTEMPT, phase=2),
    replace(ATTEMPT, round=2), replace(ATTEMPT, attempt=2), replace(ATTEMPT, point=point_digest(np.ones(3))),
]  # fmt: skip


class SeededKey(EphemeralKey):
    """A key that is the same each time, so that a test is."""

    def __init__(self, seed: int) -> None:
        self._private = X25519PrivateKey.from_private_bytes(np.random.default_rng(seed).bytes(32))
        self.public = self._private.public_key().public_bytes_raw()


def seeded(owners: int) -> dict[str, EphemeralKey]:
    return {f"bank-{i}": SeededKey(i) for i in range(owners)}


def masked(vectors: dict[str, Words], keys: dict[str, EphemeralKey], attempt: Attempt = ATTEMPT) -> dict[str, Words]:
    public = {name: key.public for name, key in keys.items()}
    return {name: keys[name].masked(vector, name, attempt, public) for name, vector in vectors.items()}


@given(
    vectors=st.integers(2, 7).flatmap(
        lambda n: st.integers(0, 40).flatmap(lambda length: arrays.arrays(np.uint64, (n, length)))
    )
)
def test_masks_cancel_exactly_in_the_sum_of_all(vectors: Any) -> None:
    held = {f"bank-{i}": vector for i, vector in enumerate(vectors)}
    hidden = masked(held, {name: EphemeralKey() for name in held})
    assert np.array_equal(np.sum(list(hidden.values()), axis=0, dtype=np.uint64), vectors.sum(axis=0, dtype=np.uint64))


def test_every_smaller_sum_is_uniform_words() -> None:
    vectors = {f"bank-{i}": np.zeros(20_000, dtype=np.uint64) for i in range(4)}
    hidden = masked(vectors, seeded(4))
    for number in (1, 2, 3):
        for some in itertools.combinations(hidden.values(), number):
            assert worst(np.sum(some, axis=0, dtype=np.uint64)) > 1e-9


def test_a_masked_vector_is_uniform_words() -> None:
    assert worst(hidden_bytes(1_000_000, 1_000)) > 1e-6


@pytest.mark.slow
def test_a_hundred_million_masked_bytes_are_uniform_words() -> None:
    assert worst(hidden_bytes(100_000_000, 10_000)) > 1e-6


@pytest.mark.parametrize("number", [1_000_000, pytest.param(100_000_000, marks=pytest.mark.slow)])
def test_what_an_owner_sends_where_others_may_be_missing_is_uniform_words(number: int) -> None:
    """One of four owners, of whom one may be missing; its own stream is from the system's randomness, so this is unseeded."""
    length, sent = min(number // 100, 10_000), []
    for attempt in range(-(-number // (16 * length))):
        keys = {name: SeededKey(4 * attempt + i) for i, name in enumerate("abcd")}
        public = {name: key.public for name, key in keys.items()}
        shares = mask_shares.MaskShares(keys["b"], "b", replace(ATTEMPT, attempt=attempt), public, 3)
        sent.append(shares.masked(np.zeros(length, dtype=np.uint64)).reshape(-1))
    assert worst(np.concatenate(sent)) > 1e-8


def hidden_bytes(number: int, length: int) -> Words:
    """What one of three owners sends in so many attempts that it fills so many bytes; its vectors are all 0."""
    sent = []
    for attempt in range(-(-number // (8 * length))):
        keys = {name: SeededKey(3 * attempt + i) for i, name in enumerate("abc")}
        zeros = {"b": np.zeros(length, dtype=np.uint64)}
        sent.append(masked(zeros, keys, replace(ATTEMPT, attempt=attempt))["b"])
    return np.concatenate(sent)


def counter(n: int) -> Words:
    return np.arange(n, dtype=np.uint64)


def congruential(n: int) -> Words:
    x = np.empty(n, dtype=np.uint64)
    state = 1
    for i in range(n):
        x[i] = state = (6364136223846793005 * state + 1442695040888963407) % 2**64
    return x


def small(n: int) -> Words:
    """Masks of 32 bits in words of 64."""
    return np.random.default_rng(0).integers(0, 2**32, n, dtype=np.uint64)


def biased(n: int) -> Words:
    """One bit in eight words is set that should not be."""
    words = np.random.default_rng(0).integers(0, 2**64, n, dtype=np.uint64)
    words[::8] |= np.uint64(1)
    return words


def floats(n: int) -> Words:
    """Bits of numbers that are uniform as real ones."""
    return np.random.default_rng(0).uniform(size=n).view(np.uint64)


def repeated(n: int) -> Words:
    """Every stream is used twice."""
    words = np.random.default_rng(0).integers(0, 2**64, n // 2, dtype=np.uint64)
    return np.concatenate([words, words])


@pytest.mark.parametrize("broken", [counter, congruential, small, biased, floats, repeated])
def test_the_battery_finds_words_that_are_not_uniform(broken: Callable[[int], Words]) -> None:
    assert worst(broken(125_000)) < 1e-12


@pytest.mark.parametrize("name", sorted(BATTERY))
def test_the_battery_lets_uniform_words_pass(name: str) -> None:
    """Its p-values are uniform themselves: of 200, the least is not below 1e-6 and the median is near 1/2."""
    rng = np.random.default_rng(7)
    values = [BATTERY[name](rng.integers(0, 2**64, 4_000, dtype=np.uint64)) for _ in range(200)]
    assert min(values) > 1e-6
    assert 0.35 < np.median(values) < 0.65


@pytest.mark.parametrize("other", OTHERS, ids=lambda one: str(one)[-60:])
def test_no_other_attempt_shares_a_stream_even_with_the_same_keys(other: Attempt) -> None:
    zeros = {f"bank-{i}": np.zeros(500, dtype=np.uint64) for i in range(3)}
    first, second = masked(zeros, seeded(3)), masked(zeros, seeded(3), other)
    words = np.concatenate([*first.values(), *second.values()])
    assert len(np.unique(words)) == len(words)
    assert worst(first["bank-0"] - second["bank-0"]) > 1e-9
    assert other.identity != ATTEMPT.identity


def test_pairs_and_sets_share_no_stream() -> None:
    zeros = {f"bank-{i}": np.zeros(500, dtype=np.uint64) for i in range(4)}
    three = masked({name: zeros[name] for name in list(zeros)[:3]}, seeded(3))
    four = masked(zeros, seeded(4))
    words = np.concatenate([*three.values(), *four.values()])
    assert len(np.unique(words)) == len(words)


@pytest.mark.parametrize("high_bit", [False, True])
def test_a_key_that_gives_the_same_secret_gives_another_stream(high_bit: bool) -> None:
    """A colluding owner takes the key of an honest one, as it is or with the bit set that X25519 ignores."""
    mine, other = EphemeralKey(), EphemeralKey()
    public = {"a": mine.public, "b": other.public}
    public["c"] = other.public[:31] + bytes([other.public[31] | 128 * high_bit])
    secrets = mine.secrets("a", public)
    assert secrets["b"] == secrets["c"]
    digest = set_digest(ATTEMPT, public)
    streams = [masks._stream(secrets[name], digest, "a", name, 20_000) for name in "bc"]
    assert worst(streams[0] - streams[1]) > 1e-9


class Fixed(np.ndarray[Any, Any]):
    """Words that refuse to become whole numbers of Python's, whose length and time of division tell their size."""

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        assert dtype is not object
        return super().astype(dtype, *args, **options)

    def tolist(self) -> Any:
        raise AssertionError


def test_words_are_added_modulo_the_prime_without_numbers_of_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = [0, 1, 5, 59, 60, 2**63, PRIME - 60, PRIME - 59, PRIME - 1]
    one, other = (
        np.array(rows, dtype=np.uint64) for rows in zip(*itertools.product(edge, [*edge, PRIME]), strict=True)
    )
    summed = [(int(a) + int(b)) % PRIME for a, b in zip(one, other, strict=True)]
    assert mask_shares._added(one[None], other[None])[0].tolist() == summed
    added: list[Any] = []
    monkeypatch.setattr(mask_shares, "_added", lambda *rows: added.append(rows) or rows[0])
    keys = {name: EphemeralKey() for name in "abcd"}
    public = {name: key.public for name, key in keys.items()}
    words = np.array([5, PRIME - 5], dtype=np.uint64).view(Fixed)
    mask_shares.MaskShares(keys["a"], "a", ATTEMPT, public, 3).masked(words)
    assert added[0][1][0].tolist() == [5, PRIME - 5], "the vector is added there, and nowhere else"


def test_a_key_masks_once() -> None:
    key, other = EphemeralKey(), EphemeralKey()
    public, vector = {"a": key.public, "b": other.public}, np.zeros(3, dtype=np.uint64)
    key.masked(vector, "a", ATTEMPT, public)
    with pytest.raises(QueryRefused, match="used up"):
        key.masked(vector, "a", ATTEMPT, public)


@pytest.mark.parametrize("bad", [bytes(32), b"\x01" + bytes(31), b"short", b""])
def test_what_is_no_key_is_refused(bad: bytes) -> None:
    key = EphemeralKey()
    with pytest.raises(QueryRefused, match="not a key"):
        key.masked(np.zeros(3, dtype=np.uint64), "a", ATTEMPT, {"a": key.public, "b": bad})


def test_a_set_with_another_key_of_this_owner_is_refused() -> None:
    key, other = EphemeralKey(), EphemeralKey()
    with pytest.raises(QueryRefused, match="not the one in the set"):
        key.masked(np.zeros(3, dtype=np.uint64), "a", ATTEMPT, {"a": other.public, "b": EphemeralKey().public})


def test_two_owners_compute_the_same_stream_as_the_standards_do() -> None:
    """A second writing: RFC 5869 by hmac, RFC 8439's block function in plain Python."""
    import hashlib
    import hmac
    import json

    keys = seeded(2)
    public = {name: key.public for name, key in keys.items()}
    secret = keys["bank-0"]._private.exchange(keys["bank-1"]._private.public_key())  # type: ignore[union-attr]
    info = json.dumps(["copriv mask", set_digest(ATTEMPT, public).hex(), "bank-0", "bank-1"]).encode()
    extracted = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    key = hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()
    expected = b"".join(_chacha20_block(key, counter) for counter in range(3))
    zeros = {name: np.zeros(24, dtype=np.uint64) for name in keys}
    hidden = masked(zeros, keys)
    assert hidden["bank-0"].astype("<u8").tobytes() == expected
    assert not (hidden["bank-0"] + hidden["bank-1"]).any()


def _chacha20_block(key: bytes, counter: int) -> bytes:
    def turned(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & 0xFFFFFFFF

    def quarter(x: list[int], a: int, b: int, c: int, d: int) -> None:
        for first, second, third, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[first] = (x[first] + x[second]) & 0xFFFFFFFF
            x[third] = turned(x[third] ^ x[first], by)

    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    start += [int.from_bytes(key[i : i + 4], "little") for i in range(0, 32, 4)] + [counter, 0, 0, 0]
    x = list(start)
    for _ in range(10):
        for column in range(4):
            quarter(x, column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            quarter(x, column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return b"".join(((a + b) & 0xFFFFFFFF).to_bytes(4, "little") for a, b in zip(x, start, strict=True))


@given(words=arrays.arrays(np.uint64, st.integers(0, 50)))
def test_words_are_numbers_exactly(words: Any) -> None:
    numbers = as_numbers(words)
    assert numbers.dtype == np.float64
    assert np.isfinite(numbers).all()
    assert np.array_equal(as_words(numbers), words)


def test_the_module_asks_for_no_other_randomness() -> None:
    """A key is the operating system's, and nothing here takes a seed."""
    assert len({EphemeralKey().public for _ in range(50)}) == 50
    assert not hasattr(masks, "random")
