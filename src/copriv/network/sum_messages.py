"""The messages of a sum: an owner's replies in one run, and what the learner relays in one attempt.

    learner                          owner
    Members                       →                       once on a connection
    SumQuery, signed              →
                                  ←  PublicKeys: its own
    PublicKeys: everybody's       →
                                  ←  SetSigned: its own
    SetSigned: everybody's        →
                                  ←  Answer: masked words, signed with the query

The protocol is that of `masked_sum`. An owner that has answered the query gives its answer at once, as its ledger holds it.
"""

from collections.abc import Iterable, Mapping

from copriv.agreement import Agreement
from copriv.errors import QueryRefused
from copriv.network.keys import Certified, Keys
from copriv.network.masked_sum import KeysOfSum, MaskedAnswers, SignedKey, SignedSet, Summand, members
from copriv.network.messages import Members, PublicKeys, SetSigned, SumQuery
from copriv.privacy.masks import Attempt, point_digest
from copriv.protocol import Answer


def attempt_of(query: SumQuery, run: str) -> Attempt:
    """The attempt that a query begins."""
    return Attempt(query.fingerprint, run, 1, query.round, query.attempt, point_digest(query.theta))


class OwnersPart:
    """An owner's replies to the messages of sums, in one run. Each raises QueryRefused as `MaskedAnswers` does."""

    def __init__(self, agreement: Agreement, run: str, keys: Keys, summand: Summand) -> None:
        self._agreement, self._run, self._keys, self._summand = agreement, run, keys, summand
        self._owners: tuple[str, ...] = ()
        self._masked: MaskedAnswers | None = None
        self.query: SumQuery | None = None
        """The newest one that was signed by the learner."""

    def meet(self, message: Members) -> None:
        """Learn who the other owners are. Raises KeysRefused where they are not those that the agreement names.

        Later ones change nothing in a run: the agreement names the owners' keys, whatever their certificates are.
        """
        owners = members(self._agreement, self._keys.name, self._keys, message.certificates)
        if self._masked is None:
            self._owners = tuple(owners)
            self._masked = MaskedAnswers(self._agreement.fingerprint, self._run, self._keys, owners, self._summand)

    def reply(self, message: SumQuery | PublicKeys | SetSigned) -> PublicKeys | SetSigned | Answer:
        """The reply to a message; the answer is not signed yet."""
        if isinstance(message, SumQuery):
            self.query = message
        query, masked = self.query, self._masked
        if query is None or masked is None or message.identity != query.identity:
            raise self._refused(message, "it is of no attempt that is open, or the other owners are not known")
        attempt = attempt_of(query, self._run)
        if attempt.identity != query.identity:
            raise self._refused(message, "it has not the name that follows from the attempt")
        match message:
            case SumQuery():
                given = masked.key(attempt, query.theta)
                if isinstance(given, Answer):
                    return given
                return PublicKeys(query.identity, (given.key.hex(),), (given.signature,))
            case PublicKeys():
                return SetSigned(query.identity, (masked.sign(attempt, self._keys_in(message)).signature,))
        if len(message.signatures) != len(self._owners):
            raise self._refused(message, "it has not one signature of each owner")
        return masked.masked(attempt, map(SignedSet, self._owners, message.signatures))

    def _keys_in(self, message: PublicKeys) -> Iterable[SignedKey]:
        if not len(message.keys) == len(message.signatures) == len(self._owners):
            raise self._refused(message, "it has not one key of each owner")
        return map(SignedKey, self._owners, map(_bytes_of, message.keys), message.signatures)

    def _refused(self, message: SumQuery | PublicKeys | SetSigned, why: str) -> QueryRefused:
        return QueryRefused(f"{self._keys.name} refused a message of query {message.identity[:200]!r}: {why}")


class Relay:
    """What the learner passes on in one attempt.

    owners: all that answer together, in the agreement's order. Raises QueryRefused as `KeysOfSum` does.
    """

    def __init__(self, query: SumQuery, run: str, owners: Mapping[str, Certified]) -> None:
        self._identity, self._sum = query.identity, KeysOfSum(attempt_of(query, run), owners)

    def take(self, owner: str, message: PublicKeys | SetSigned) -> tuple[PublicKeys | SetSigned | None, bool]:
        """Take an owner's message; returns what is to be passed on now, and whether it goes to all owners or to this one.

        An owner whose connection broke sends again what it sent, and gets again what the others got.
        """
        before = bool(self._sum.keys if isinstance(message, PublicKeys) else self._sum.signatures)
        if isinstance(message, PublicKeys):
            key, signature = _only(message.keys), _only(message.signatures)
            self._sum.key(SignedKey(owner, _bytes_of(key), signature))
            keys = self._sum.keys
            texts = tuple(one.key.hex() for one in keys), tuple(one.signature for one in keys)
            return (PublicKeys(self._identity, *texts) if keys else None), not before
        self._sum.sign(SignedSet(owner, _only(message.signatures)))
        signed = tuple(one.signature for one in self._sum.signatures)
        return (SetSigned(self._identity, signed) if signed else None), not before

    @property
    def lacks_keys(self) -> bool:
        """Whether some owners have given a key, and others not."""
        return self._sum.begun and not self._sum.keys


def _only(texts: tuple[str, ...]) -> str:
    return texts[0] if len(texts) == 1 else ""


def _bytes_of(key: str) -> bytes:
    """A key's bytes; none where it is not hex, which nobody has signed."""
    try:
        return bytes.fromhex(key)
    except ValueError:
        return b""
