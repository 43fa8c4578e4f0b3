"""The messages of a sum: an owner's replies in one run, and what the learner relays in one attempt.

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

The protocol is that of `masked_sum`. An owner that has answered the query gives its answer at once, as its ledger holds it.
Keys and signatures stand in the agreement's order of owners; for one that is missing, there is "".
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from copriv.agreement import Agreement
from copriv.errors import QueryRefused
from copriv.network.keys import Certified, Keys
from copriv.network.masked_sum import (
    MaskedAnswers,
    OpenedMask,
    SignedKey,
    SignedSet,
    SignedSurvivors,
    Summand,
    members,
)
from copriv.network.messages import MaskOpened, Members, PublicKeys, SetSigned, SumQuery, Survivors
from copriv.network.sum_attempt import KEY, SET, STEP_OF, SURVIVORS, Part, SumAttempt
from copriv.privacy.masks import Attempt, point_digest
from copriv.privacy.shared_noise import as_numbers, as_words
from copriv.protocol import Answer

Asked: TypeAlias = SumQuery | PublicKeys | SetSigned | Survivors
"""What a learner asks an owner in an attempt."""
Said: TypeAlias = PublicKeys | SetSigned | Survivors | MaskOpened
"""What an owner says, but for its answer."""


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
                    SignedKey(name, _bytes_of(key), signed[name]) for name, key in self._by_owner(message, message.keys)
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
        """The texts that are not missing, with their owners."""
        if len(texts) != len(self._owners):
            raise self._refused(message, "it has not a place for each owner")
        return [(name, text) for name, text in zip(self._owners, texts, strict=True) if text]

    def _refused(self, message: Asked, why: str) -> QueryRefused:
        return QueryRefused(f"{self._keys.name} refused a message of query {message.identity[:200]!r}: {why}")


class Relay(SumAttempt):
    """What the learner hears and passes on in one attempt. It raises QueryRefused as `SumAttempt` does."""

    def __init__(
        self, query: SumQuery, run: str, owners: Mapping[str, Certified], dropouts: int = 0, lost: Iterable[str] = ()
    ) -> None:
        super().__init__(attempt_of(query, run), owners, dropouts, lost)
        self._identity = query.identity

    def hear(self, owner: str, message: Said) -> Asked | None:
        """Take an owner's message. Returns what the owner is to be sent again, where the step of its message was over before.

        An owner whose connection broke sends again what it sent, and gets again what the others got.
        """
        part, step = _part_of(owner, message), self.step
        self.take(part)
        again = STEP_OF[type(part)] < step and owner in self.expected
        return self.passed_on(STEP_OF[type(part)]) if again else None

    def passed_on(self, step: int) -> Asked | None:
        """What owners are sent once this step is over."""
        match step:
            case 0:  # KEY
                keys = self._texts(KEY, lambda one: one.key.hex())
                return PublicKeys(self._identity, keys, self._texts(KEY))
            case 1:  # SET
                return SetSigned(self._identity, self._texts(SET))
            case 2:  # MASKED
                return Survivors(self._identity, self.survivors, ())
            case 3:  # SURVIVORS
                return Survivors(self._identity, self.survivors, self._texts(SURVIVORS))
        return None

    def _texts(self, step: int, of: Callable[[Any], str] = lambda part: str(part.signature)) -> tuple[str, ...]:
        """A text of each owner in its place."""
        said = {part.owner: of(part) for part in self.said(step)}
        return tuple(said.get(name, "") for name in self._owners)


def _part_of(owner: str, message: Said) -> Part:
    """An owner's part of a step, from its message."""
    match message:
        case PublicKeys():
            return SignedKey(owner, _bytes_of(_only(message.keys)), _only(message.signatures))
        case SetSigned():
            return SignedSet(owner, _only(message.signatures))
        case Survivors():
            return SignedSurvivors(owner, _only(message.signatures))
    return OpenedMask(owner, as_words(message.words), message.signature)


def _only(texts: tuple[str, ...]) -> str:
    return texts[0] if len(texts) == 1 else ""


def _bytes_of(key: str) -> bytes:
    """A key's bytes; none where it is not hex, which nobody has signed."""
    try:
        return bytes.fromhex(key)
    except ValueError:
        return b""
