"""Messages of a sum, and an owner's replies to them in one run; `sum_attempt` has the learner's side.

    learner                          owner
    Members                       →                       once on a connection
    SumQuery, signed              →
                                  ←  PublicKeys: its own
    PublicKeys: everybody's       →
                                  ←  SetSigned: its own
    SetSigned: everybody's        →
                                  ←  Answer: masked words, signed with the query

and where owners may be missing

    Survivors: whose sum          →
                                  ←  Survivors: with its signature
    Survivors: all signatures     →
                                  ←  MaskOpened

The protocol is that of `masked_sum`. An owner that has answered the query already sends the answer in its ledger at once.
Keys and signatures stand in the agreement's order of owners; for one that is missing, there is "".
"""

from collections.abc import Iterable

from copriv.agreement import Agreement
from copriv.errors import QueryRefused
from copriv.network.keys import Keys
from copriv.network.masked_sum import MaskedAnswers, SignedKey, SignedSet, SignedSurvivors, Summand, members
from copriv.network.messages import MaskOpened, Members, PublicKeys, SetSigned, SumQuery, Survivors
from copriv.network.sum_attempt import Asked, Said, bytes_of
from copriv.privacy.masks import Attempt, point_digest
from copriv.privacy.shared_noise import as_numbers
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
        """The newest query that the learner signed."""

    def answer_by(self, summand: Summand) -> None:
        """Answer by this one from here on."""
        self._summand = summand
        if self._masked is not None:
            self._masked.summand = summand

    def meet(self, message: Members) -> None:
        """Learn who the other owners are. Raises KeysRefused where they are not those that the agreement names.

        Later ones change nothing in a run: the agreement names the owners' keys, whatever their certificates are.
        """
        agreed = self._agreement
        owners = members(agreed, self._keys.name, self._keys, message.certificates)
        if self._masked is None:
            self._owners = tuple(owners)
            self._masked = MaskedAnswers(
                agreed.fingerprint, self._run, self._keys, owners, self._summand, agreed.dropouts
            )

    def reply(self, message: Asked) -> Said | Answer:
        """The reply to a message; the answer is not signed yet."""
        if isinstance(message, SumQuery):
            self.query = message
        query, masked = self.query, self._masked
        if query is None or masked is None or message.identity != query.identity:
            raise self._refused(message, "it is of no attempt that is open, or the other owners are not known")
        attempt, identity = attempt_of(query, self._run), query.identity
        if attempt.identity != identity:
            raise self._refused(message, "it has not the name that follows from the attempt")
        match message:
            case SumQuery():
                given = masked.key(attempt, query.theta)
                if isinstance(given, Answer):
                    return given
                return PublicKeys(identity, (given.key.hex(),), (given.signature,))
            case PublicKeys():
                if len(message.keys) != len(message.signatures):
                    raise self._refused(message, "it has not a signature of each key")
                signed = dict(self._by_owner(message, message.signatures))
                keys = [
                    SignedKey(name, bytes_of(key), signed[name]) for name, key in self._by_owner(message, message.keys)
                ]
                return SetSigned(identity, (masked.sign(attempt, keys).signature,))
            case SetSigned():
                return masked.masked(attempt, [SignedSet(*one) for one in self._by_owner(message, message.signatures)])
        if not message.signatures:
            signature = masked.survivors(attempt, message.owners).signature
            return Survivors(identity, message.owners, (signature,))
        part = masked.opened(attempt, [SignedSurvivors(*one) for one in self._by_owner(message, message.signatures)])
        return MaskOpened(identity, as_numbers(part.words), part.signature)

    def _by_owner(self, message: Asked, texts: tuple[str, ...]) -> Iterable[tuple[str, str]]:
        """Pairs (owner, text), without owners that are missing."""
        if len(texts) != len(self._owners):
            raise self._refused(message, "it has not a place for each owner")
        return [(name, text) for name, text in zip(self._owners, texts, strict=True) if text]

    def _refused(self, message: Asked, why: str) -> QueryRefused:
        return QueryRefused(f"{self._keys.name} refused a message of query {message.identity[:200]!r}: {why}")
