"""An owner's side of a sum of answers, of which the learner sees only the sum; without I/O.

    learner              each owner
    attempt and θ     →
                      ←  an ephemeral key, signed                     MaskedAnswers.key
    the keys          →
                      ←  a signature of the set of keys               MaskedAnswers.sign
    the signatures    →  charges its ledger, draws noise, masks
                      ←  masked words                                 MaskedAnswers.masked
    adds up

Where up to d owners may be missing, the set has the keys of N − d owners or more, and each step needs N − d messages:

    the survivors     →
                      ←  a signature of the set of survivors          MaskedAnswers.survivors
    the signatures    →
                      ←  its part of the mask of their sum, signed    MaskedAnswers.opened
    takes the mask off

`sum_attempt` is the learner's side. `sum_messages` carries this over a network, where each owner signs its masked words as any
other answer, with the query.

An owner masks only in a set that enough others signed, and once in an attempt: its ledger is charged under the attempt's
identity before noise is drawn, and a repeated request gets the masked words in the ledger. It signs one set of survivors in
an attempt, and opens no other; since N > t + 2d, no two sets are each signed by N − d owners. Where more owners drop
out, the learner begins another attempt, which is another answer: masking the same noisy vector once more would let it subtract
two sums.

Neither side trusts the other. A lying learner gets uniform words in place of a sum, or nothing; a lying owner changes its own
summand, as it could anyway, or there is no sum. The proof is docs/proofs/masks.md.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.sums import check_keys_named
from copriv.errors import QueryRefused
from copriv.network.keys import Certified, Keys, KeysRefused
from copriv.privacy.ledger import Ledger
from copriv.privacy.mask_shares import MaskShares
from copriv.privacy.masks import Attempt, EphemeralKey, is_key, point_digest, set_digest
from copriv.privacy.shared_noise import Words, as_numbers, as_words
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
    """Owner → learner → owners: the owner has seen these keys, and no others, in this attempt."""

    owner: str
    signature: str


@dataclass(frozen=True)
class SignedSurvivors:
    """Owner → learner → owners: of this set of keys the owner opens the masks of these owners' sum, and of no other."""

    owner: str
    signature: str


@dataclass(frozen=True, eq=False)
class OpenedMask:
    """Owner → learner: its part of the mask of the survivors' sum."""

    owner: str
    words: Words
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
    """Protocol of an owner's part in a sum, which `copriv.Owner` implements."""

    ledger: Ledger

    def answer(self, query: Query, hide: Callable[[Float[Array, " halves"]], Float[Array, " halves"]]) -> Answer:
        """Charge the ledger, compute the answer with fresh noise, pass it through `hide`, record and return the result.

        For an identity with a recorded answer, that answer is returned and `hide` is not called.
        Raises QueryRefused or BudgetRefused.
        """


class MaskedAnswers:
    """An owner's side in one run: its part in each sum, at most once in each attempt.

    owners: all owners whose answers are added up (`members`). dropouts: d, the number of them that may be missing.
    """

    def __init__(
        self,
        fingerprint: str,
        run: str,
        keys: Keys,
        owners: Mapping[str, Certified],
        summand: Summand,
        dropouts: int = 0,
    ) -> None:
        self._agreed, self._name, self._keys, self._owners = (fingerprint, run), keys.name, keys, owners
        self.summand, self._dropouts, self._least = summand, dropouts, len(owners) - dropouts
        self._open: _Open | None = None
        """The newest attempt, while it is open."""
        self._replaced = set[str]()
        """Identities of attempts that another one replaced."""

    def key(self, attempt: Attempt, theta: Float[Array, " p"]) -> SignedKey | Answer:
        """Take part in an attempt, which replaces an open one; returns a new key, or the answer already masked in it.

        Raises QueryRefused for an attempt of another run or point, or one that was replaced, and AnswerLost for one that was
        charged and not answered.
        """
        if (attempt.fingerprint, attempt.run) != self._agreed or attempt.point != point_digest(theta):
            raise self._refused(attempt, "it is of another agreement, run or point")
        ledger = self.summand.ledger
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
        """Sign the set of owners' keys of the open attempt, and no other set of it afterwards. Raises QueryRefused."""
        opened, given = self._opened(attempt), list(keys)
        by_owner = {one.owner: one.key for one in given}
        named = {name: by_owner[name] for name in self._owners if name in by_owner}
        if not len(named) == len(given) >= self._least or self._name not in named:
            raise self._refused(attempt, f"its keys are not one of each owner of the sum{self._but}")
        if len({*named.values()}) != len(named) or named[self._name] != opened.key.public:
            raise self._refused(attempt, f"two of its keys are the same, or that of {self._name} is another one")
        for one in given:
            if not self._owners[one.owner].signed(one.signature, _key_content(attempt, one.owner, one.key)):
                raise self._refused(attempt, f"{one.owner} did not sign its key for it")
            if not is_key(one.key):  # found out later, it would have cost every owner an answer
                raise self._refused(attempt, f"what {one.owner} gave is not a key")
        if opened.keys is not None and opened.keys != named:
            raise self._refused(attempt, "another set of keys was signed in it")
        if opened.keys is None and self._dropouts:
            opened.shares = MaskShares(opened.key, self._name, attempt, named, self._least)
        opened.keys = named
        return SignedSet(self._name, self._keys.sign(_set_content(attempt, named)))

    def masked(self, attempt: Attempt, signatures: Iterable[SignedSet]) -> Answer:
        """This owner's vector, with noise and masks, once the owners have signed the set that this one signed.

        Its numbers are words (`copriv.privacy.shared_noise.as_words`). Where owners may be missing, they are those of
        `MaskShares.masked`, padded with zeros to 1 + d vectors.

        Raises QueryRefused, or BudgetRefused where the ledger refuses the charge: nothing leaves then.
        """
        opened = self._opened(attempt)
        if opened.keys is None:
            raise self._refused(attempt, "not every owner has signed its keys")
        self._check_signed(attempt, signatures, opened.keys, _set_content(attempt, opened.keys), "keys")
        self._open, keys = opened if self._dropouts else None, opened.keys

        def hide(noisy: Float[Array, " halves"]) -> Float[Array, " masked"]:
            words = as_words(noisy)
            if opened.shares is None:
                return as_numbers(opened.key.masked(words, self._name, attempt, keys))
            shares = opened.shares.masked(words).reshape(-1)
            return as_numbers(np.append(shares, np.zeros((1 + self._dropouts) * len(words) - len(shares), np.uint64)))

        return self.summand.answer(Query(attempt.identity, attempt.fingerprint, self._name, opened.theta), hide)

    def survivors(self, attempt: Attempt, names: Sequence[str]) -> SignedSurvivors:
        """Sign the set of owners whose vectors arrived, and no other set afterwards. Raises QueryRefused."""
        opened, chosen = self._opened(attempt), tuple(names)
        if opened.keys is None or chosen != tuple(name for name in opened.keys if name in chosen):
            raise self._refused(attempt, "its survivors are not owners of its keys, in their order")
        if not self._dropouts or len(chosen) < self._least:
            raise self._refused(attempt, f"its survivors are not the owners of the sum{self._but}")
        if opened.survivors not in ((), chosen):
            raise self._refused(attempt, "other survivors were signed in it")
        opened.survivors = chosen
        return SignedSurvivors(self._name, self._keys.sign(_survivors_content(attempt, opened.keys, chosen)))

    def opened(self, attempt: Attempt, signatures: Iterable[SignedSurvivors]) -> OpenedMask:
        """This owner's part of the mask of the survivors' sum, once N − d owners have signed the survivors that it signed.

        Raises QueryRefused.
        """
        opened = self._opened(attempt)
        if opened.keys is None or opened.shares is None or not opened.survivors:
            raise self._refused(attempt, "it has signed no survivors")
        content = _survivors_content(attempt, opened.keys, opened.survivors)
        self._check_signed(attempt, signatures, opened.keys, content, "survivors")
        if opened.part is None:
            words = opened.shares.opened(opened.survivors)
            signed = opened_content(attempt, self._name, tuple(opened.keys), opened.survivors, words)
            opened.part = OpenedMask(self._name, words, self._keys.sign(signed))
        return opened.part

    def _check_signed(
        self,
        attempt: Attempt,
        signatures: Iterable[SignedSet | SignedSurvivors],
        keys: Mapping[str, bytes],
        content: bytes,
        what: str,
    ) -> None:
        """Raise QueryRefused unless enough owners of the keys signed the content, and none signed anything else."""
        given = {one.owner: one.signature for one in signatures}
        if not given.keys() <= keys.keys() or len(given) < self._least:
            raise self._refused(attempt, f"not every owner has signed its {what}{self._but}")
        for owner, signature in given.items():
            if not self._owners[owner].signed(signature, content):
                raise self._refused(attempt, f"{owner} did not sign the same {what}")

    @property
    def _but(self) -> str:
        return f", but for {self._dropouts}" if self._dropouts else ""

    def _opened(self, attempt: Attempt) -> "_Open":
        if self._open is None or self._open.attempt != attempt:
            raise self._refused(attempt, "it is not the one that is open")
        return self._open

    def _refused(self, attempt: Attempt, why: str) -> QueryRefused:
        return QueryRefused(f"{self._name} refused attempt {attempt.attempt} at round {attempt.round}: {why}")


@dataclass
class _Open:
    """An attempt that an owner takes part in."""

    attempt: Attempt
    theta: Float[Array, " p"]
    key: EphemeralKey
    keys: dict[str, bytes] | None = None
    """Public keys by owner, in the owners' order, once this owner signed them."""
    shares: MaskShares | None = None
    """Its mask, where owners may be missing."""
    survivors: tuple[str, ...] = ()
    """The owners whose sum it opens, once it signed them."""
    part: OpenedMask | None = None


def _key_content(attempt: Attempt, owner: str, key: bytes) -> bytes:
    """Content that an owner signs with its key of an attempt."""
    return attempt.content("key", owner, key.hex())


def _set_content(attempt: Attempt, keys: Mapping[str, bytes]) -> bytes:
    """Content that every owner signs of an attempt's keys."""
    return attempt.content("set", set_digest(attempt, keys).hex())


def _survivors_content(attempt: Attempt, keys: Mapping[str, bytes], names: Sequence[str]) -> bytes:
    """Content that owners sign of the survivors of a set of keys."""
    return attempt.content("survivors", set_digest(attempt, keys).hex(), list(names))


def opened_content(attempt: Attempt, owner: str, names: Sequence[str], survivors: Sequence[str], words: Words) -> bytes:
    """Content that an owner signs with its part of a sum's mask. names: the owners of the keys."""
    return attempt.content("opened", owner, list(names), list(survivors), hashlib.sha256(words.tobytes()).hexdigest())
