"""Masks that hide each owner's vector and cancel in the sum of all: 64-bit words, added modulo 2⁶⁴.

Every two owners i < j of an attempt agree on a secret stream of words s_ij. Owner i adds it to its vector and owner j subtracts
it, so that the sum of all masked vectors is the sum of the vectors, and any fewer of them are uniform words:

    masked_i = noisy_i + Σ_{j > i} s_ij − Σ_{j < i} s_ji  mod 2⁶⁴

(Bonawitz et al., Practical secure aggregation, CCS 2017, §4.1). A stream is ChaCha20 (RFC 8439) under a key of 256 bits that
HKDF-SHA256 (RFC 5869) derives from the X25519 agreement (RFC 7748) of both owners' ephemeral keys and from the attempt and all
keys in it, so that no two attempts, rounds, phases, runs, agreements or sets of owners share a stream.

Formal guarantee: docs/proofs/masks.md. It needs keys that are their owners', which signatures of `network/masked_sum.py`
ensure, and that an owner masks one vector in one attempt, with noise that it uses for no other.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jaxtyping import Float, UInt64

from copriv.errors import QueryRefused
from copriv.privacy.shared_noise import Words
from copriv.types import Array

_FIRST_BLOCK = bytes(16)
"""Counter and nonce of a stream's first block: 0, since no key is used for two streams."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at the sum of one round, to which keys, masks, signatures and charges are bound."""

    fingerprint: str
    """Fingerprint of the agreement."""
    run: str
    phase: int
    round: int
    attempt: int
    """Number of this attempt within the round. A new one is a new answer, with fresh noise and a charge of its own."""
    point: str
    """SHA-256 of θ (`point_digest`)."""

    def content(self, what: str, *more: Any) -> bytes:
        """Bytes of this attempt and `more` that no other attempt, purpose or `more` has."""
        return json.dumps([f"copriv {what}", *astuple(self), *more], sort_keys=True).encode()

    @property
    def identity(self) -> str:
        """Identity of an owner's answer in this attempt, under which its ledger is charged."""
        return hashlib.sha256(self.content("attempt")).hexdigest()


def point_digest(theta: Float[Array, " p"]) -> str:
    """SHA-256 of a point's float64 numbers, hex."""
    return hashlib.sha256(np.ascontiguousarray(theta, dtype="<f8").tobytes()).hexdigest()


def set_digest(attempt: Attempt, keys: Mapping[str, bytes]) -> bytes:
    """SHA-256 of an attempt and of the owners' public keys in it."""
    return hashlib.sha256(attempt.content("keys", {name: key.hex() for name, key in keys.items()})).digest()


def is_key(public: bytes) -> bool:
    """Whether these bytes are a public key: of its length, and none with which every secret is 0."""
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return False
    return True


class EphemeralKey:
    """One owner's X25519 key for one attempt. It masks one vector and is then dropped."""

    def __init__(self) -> None:
        self._private: X25519PrivateKey | None = X25519PrivateKey.generate()
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def secrets(self, owner: str, keys: Mapping[str, bytes]) -> dict[str, bytes]:
        """The secret that this owner shares with each other one, by name; the key is then dropped.

        keys: public keys of all owners of the attempt, this one's included, by name.
        Raises QueryRefused where this key was used before, is not this owner's in `keys`, or where another one is no key.
        """
        private, self._private = self._private, None
        if private is None or keys.get(owner) != self.public:
            raise QueryRefused(f"{owner} refused: its key of this attempt is used up, or is not the one in the set")
        shared = {}
        for other in keys.keys() - {owner}:
            try:
                shared[other] = private.exchange(X25519PublicKey.from_public_bytes(keys[other]))
            except ValueError:  # of another length, or a point with which every secret is 0
                raise QueryRefused(f"{owner} refused: what {other} gave is not a key") from None
        return shared

    def masked(
        self, words: UInt64[Words, " length"], owner: str, attempt: Attempt, keys: Mapping[str, bytes]
    ) -> UInt64[Words, " length"]:
        """`words` under the masks that this owner shares with each other one. Raises QueryRefused as `secrets` does."""
        digest, hidden = set_digest(attempt, keys), np.array(words, dtype=np.uint64)
        for other, secret in self.secrets(owner, keys).items():
            stream = _stream(secret, digest, min(owner, other), max(owner, other), len(words))
            hidden = hidden + stream if owner < other else hidden - stream
        return hidden


def _stream(secret: bytes, digest: bytes, first: str, second: str, length: int) -> UInt64[Words, " length"]:
    """The words that two owners share in an attempt: both compute the same, and nobody else can."""
    info = json.dumps(["copriv mask", digest.hex(), first, second]).encode()
    key = HKDF(SHA256(), length=32, salt=None, info=info).derive(secret)
    cipher = Cipher(algorithms.ChaCha20(key, _FIRST_BLOCK), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * length)), dtype="<u8").astype(np.uint64, copy=False)
