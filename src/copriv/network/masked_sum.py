"""The sum of all owners' answers in one round, of which the learner sees nothing else: both sides, without I/O.

    learner              each owner
    attempt and θ     →
                      ←  an ephemeral key, signed                     MaskedAnswers.key
    all keys          →
                      ←  a signature of the set of all keys           MaskedAnswers.sign
    all signatures    →  charges its ledger, draws noise, masks
                      ←  masked words                                 MaskedAnswers.masked
    adds up

`sum_messages` carries this over a network, where each owner signs its masked words as any other answer, with the query.

All owners that answer together take part, or there is no sum. An owner masks only in a set that every owner signed, and once
in an attempt: its ledger is charged under the attempt's identity before noise is drawn, and who asks again gets the masked
words that the ledger holds. Where an owner drops out, the learner begins another attempt, which is another answer: masking
the same noisy vector once more would let it subtract two sums.

Neither side trusts the other. A lying learner gets uniform words in place of a sum, or nothing; a lying owner changes its own
summand, as it could anyway, or there is no sum. The proof is docs/proofs/masks.md.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.sums import check_keys_named
from copriv.errors import QueryRefused
from copriv.network.keys import Certified, Keys, KeysRefused
from copriv.privacy.ledger import Ledger
from copriv.privacy.masks import Attempt, EphemeralKey, point_digest, set_digest
from copriv.privacy.shared_noise import as_numbers, as_words
from copriv.protocol import Answer, Query
from copriv.types import Array


@dataclass(frozen=True)
class SignedKey:
    """Owner → learner → owners: the owner's ephemeral public key of an attempt."""

    owner: str
    key: bytes
    signature: str


@dataclass(frozen=True)
class SignedSet:
    """Owner → learner → owners: the owner has seen these keys of all owners, and no others, in this attempt."""

    owner: str
    signature: str


def members(agreement: Agreement, owner: str, keys: Keys, certificates: Iterable[str]) -> dict[str, Certified]:
    """All owners that answer together with `owner`, itself included, by name, from their certificates (PEM).

    Raises AgreementError where the agreement names no key for one, KeysRefused where a certificate is missing or is not of the
    key that is named.
    """
    found = {party.name: party for party in map(keys.certified, certificates) if party.role == "owner"}
    check_keys_named(agreement)
    agreed, names = agreement.owner_keys, [agreement.owner_names[i] for i in agreement.answers_with(owner)]
    for name in names:
        if [agreed.get(other) for other in names].count(agreed[name]) > 1:
            raise KeysRefused(f"owner.key: {name} has the same key as another owner, so that one party would be both")
        if name not in found or found[name].key_fingerprint != agreed[name]:
            raise KeysRefused(f"owner.key: there is no certificate of {name} with the key that the agreement names")
    return {name: found[name] for name in names}


@runtime_checkable
class Summand(Protocol):
    """What an owner does in a sum, such as `copriv.Owner`."""

    ledger: Ledger

    def answer(self, query: Query, hide: Callable[[Float[Array, " halves"]], Float[Array, " halves"]]) -> Answer:
        """Charge the ledger, compute the answer with fresh noise, pass it through `hide`, record and return what came out.

        An identity that is recorded gets what is recorded, and `hide` is not called. Raises QueryRefused or BudgetRefused.
        """


class MaskedAnswers:
    """An owner's side in one run: its part in each sum, at most once in each attempt.

    owners: all owners whose answers are added up (`members`).
    """

    def __init__(
        self, fingerprint: str, run: str, keys: Keys, owners: Mapping[str, Certified], summand: Summand
    ) -> None:
        self._agreed, self._name, self._keys, self._owners = (fingerprint, run), keys.name, keys, owners
        self._summand = summand
        self._open: _Open | None = None
        """The newest attempt, until its vector is masked."""
        self._replaced = set[str]()
        """Identities of attempts in whose place another one was opened."""

    def key(self, attempt: Attempt, theta: Float[Array, " p"]) -> SignedKey | Answer:
        """Take part in an attempt, in place of any that is open: a new key, or what was masked in it already.

        Raises QueryRefused for an attempt of another run or point, or that another took the place of, and AnswerLost for one
        that was charged and not answered.
        """
        if (attempt.fingerprint, attempt.run) != self._agreed or attempt.point != point_digest(theta):
            raise self._refused(attempt, "it is of another agreement, run or point")
        ledger = self._summand.ledger
        given = ledger.released(attempt.identity, theta)
        if given is not None:
            return Answer(
                attempt.identity,
                attempt.fingerprint,
                self._name,
                given,
                answered=ledger.answers,
                chain_head=ledger.head,
            )
        if self._open is None or self._open.attempt != attempt:
            if attempt.identity in self._replaced:
                raise self._refused(attempt, "another attempt was opened after it")
            if self._open is not None:
                self._replaced.add(self._open.attempt.identity)
            self._open = _Open(attempt, np.array(theta), EphemeralKey())
        public = self._open.key.public
        return SignedKey(self._name, public, self._keys.sign(_key_content(attempt, self._name, public)))

    def sign(self, attempt: Attempt, keys: Iterable[SignedKey]) -> SignedSet:
        """Sign the set of all owners' keys of the open attempt, and no other set of it afterwards. Raises QueryRefused."""
        opened, given = self._opened(attempt), list(keys)
        named = {one.owner: one.key for one in given}
        if len(named) != len(given) or named.keys() != self._owners.keys():
            raise self._refused(attempt, "its keys are not one of each owner of the sum")
        if len({*named.values()}) != len(named) or named[self._name] != opened.key.public:
            raise self._refused(attempt, f"two of its keys are the same, or that of {self._name} is another one")
        for one in given:
            if not self._owners[one.owner].signed(one.signature, _key_content(attempt, one.owner, one.key)):
                raise self._refused(attempt, f"{one.owner} did not sign its key for it")
        if opened.keys is not None and opened.keys != named:
            raise self._refused(attempt, "another set of keys was signed in it")
        opened.keys = named
        return SignedSet(self._name, self._keys.sign(_set_content(attempt, named)))

    def masked(self, attempt: Attempt, signatures: Iterable[SignedSet]) -> Answer:
        """This owner's vector, with noise and masks, once every owner has signed the set that this one signed.

        Its numbers are words (`copriv.privacy.shared_noise.as_words`).

        Raises QueryRefused, or BudgetRefused where the ledger refuses the charge: nothing leaves then.
        """
        opened, given = self._opened(attempt), {one.owner: one.signature for one in signatures}
        if opened.keys is None or given.keys() != self._owners.keys():
            raise self._refused(attempt, "not every owner has signed its keys")
        content = _set_content(attempt, opened.keys)
        for owner, signature in given.items():
            if not self._owners[owner].signed(signature, content):
                raise self._refused(attempt, f"{owner} did not sign the same keys")
        self._open, keys = None, opened.keys

        def hide(noisy: Float[Array, " halves"]) -> Float[Array, " halves"]:
            return as_numbers(opened.key.masked(as_words(noisy), self._name, attempt, keys))

        return self._summand.answer(Query(attempt.identity, attempt.fingerprint, self._name, opened.theta), hide)

    def _opened(self, attempt: Attempt) -> "_Open":
        if self._open is None or self._open.attempt != attempt:
            raise self._refused(attempt, "it is not the one that is open")
        return self._open

    def _refused(self, attempt: Attempt, why: str) -> QueryRefused:
        return QueryRefused(f"{self._name} refused attempt {attempt.attempt} at round {attempt.round}: {why}")


@dataclass
class _Open:
    """An attempt in which an owner has not masked yet."""

    attempt: Attempt
    theta: Float[Array, " p"]
    key: EphemeralKey
    keys: dict[str, bytes] | None = None
    """Public keys by owner, once this owner signed them."""


class AnotherKey(QueryRefused):
    """An owner gave a second key of an attempt, as one does that was started again: it cannot take part any more."""


class KeysOfSum:
    """The learner's side of one attempt up to its masks, whatever the order in which the owners' messages arrive.

    Each method raises QueryRefused for what its owner did not sign for this attempt, and for what comes before its time.
    """

    def __init__(self, attempt: Attempt, owners: Mapping[str, Certified]) -> None:
        self._attempt, self._owners = attempt, owners
        self._keys: dict[str, SignedKey] = {}
        self._signatures: dict[str, SignedSet] = {}
        self._set = b""
        """What every owner signs of the keys, once all are there."""

    def key(self, message: SignedKey) -> None:
        """Take an owner's key. Raises AnotherKey where it gave another one before."""
        self._check(message, _key_content(self._attempt, message.owner, message.key))
        if self._keys.setdefault(message.owner, message).key != message.key:
            raise AnotherKey(self._refused(message, "it gave another key before").args[0])
        if self.keys:
            self._set = _set_content(self._attempt, {one.owner: one.key for one in self.keys})

    def sign(self, message: SignedSet) -> None:
        """Take an owner's signature of all keys."""
        if not self._set:
            raise self._refused(message, "not every owner has given a key")
        self._check(message, self._set)
        self._signatures.setdefault(message.owner, message)

    @property
    def begun(self) -> bool:
        """Whether an owner has given a key."""
        return bool(self._keys)

    @property
    def keys(self) -> tuple[SignedKey, ...]:
        """The keys that every owner is to sign, in the owners' order; empty until all are there."""
        return tuple(self._keys[name] for name in self._owners) if self._keys.keys() == self._owners.keys() else ()

    @property
    def signatures(self) -> tuple[SignedSet, ...]:
        """The signatures with which every owner masks, in the owners' order; empty until all are there."""
        if self._signatures.keys() != self._owners.keys():
            return ()
        return tuple(self._signatures[name] for name in self._owners)

    def _check(self, message: SignedKey | SignedSet, content: bytes) -> None:
        owner = self._owners.get(message.owner)
        if owner is None or not owner.signed(message.signature, content):
            raise self._refused(message, "it did not sign this for this attempt")

    def _refused(self, message: SignedKey | SignedSet, why: str) -> QueryRefused:
        attempt = self._attempt
        return QueryRefused(
            f"{message.owner} is not heard in attempt {attempt.attempt} at round {attempt.round}: {why}"
        )


def _key_content(attempt: Attempt, owner: str, key: bytes) -> bytes:
    """Content that an owner signs with its key of an attempt."""
    return attempt.content("key", owner, key.hex())


def _set_content(attempt: Attempt, keys: Mapping[str, bytes]) -> bytes:
    """Content that every owner signs of an attempt's keys."""
    return attempt.content("set", set_digest(attempt, keys).hex())
