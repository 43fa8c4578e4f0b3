"""The learner's side of one attempt at a sum: what it hears and passes on, and when it goes on to the next step.

A step is over once every expected owner has sent its part. Expected are all owners, and after the step of keys those whose keys
are in the set, in both cases without lost owners. Up to d owners may be lost; with more the attempt is `broken`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from copriv.errors import QueryRefused
from copriv.network.keys import Certified
from copriv.network.masked_sum import (
    OpenedMask,
    SignedKey,
    SignedSet,
    SignedSurvivors,
    _key_content,
    _set_content,
    _survivors_content,
    opened_content,
)
from copriv.network.messages import MaskOpened, PublicKeys, SetSigned, SumQuery, Survivors
from copriv.privacy.masks import Attempt, is_key
from copriv.privacy.shared_noise import as_words

Part: TypeAlias = SignedKey | SignedSet | SignedSurvivors | OpenedMask
KEY, SET, MASKED, SURVIVORS, OPENED, OVER = range(6)
STEP_OF: Final[dict[type, int]] = {SignedKey: KEY, SignedSet: SET, SignedSurvivors: SURVIVORS, OpenedMask: OPENED}
Asked: TypeAlias = SumQuery | PublicKeys | SetSigned | Survivors
"""A message from the learner in an attempt."""
Said: TypeAlias = PublicKeys | SetSigned | Survivors | MaskOpened
"""A message from an owner in an attempt, other than its answer."""


class AnotherKey(QueryRefused):
    """An owner sent a second key for an attempt, because it was restarted: it cannot take part any more."""


class SumAttempt:
    """One attempt; the owners' messages may arrive in any order.

    owners: all owners whose answers are added up. dropouts: d. lost: owners that are not asked.
    """

    def __init__(
        self, attempt: Attempt, owners: Mapping[str, Certified], dropouts: int = 0, lost: Iterable[str] = ()
    ) -> None:
        self._attempt, self._owners, self._dropouts = attempt, owners, dropouts
        self._given: list[dict[str, Any]] = [{} for _ in range(OVER)]
        self._lost = set(lost)
        self.step = KEY
        """The step that owners are at."""

    def take(self, message: Part) -> None:
        """Accept an owner's part of the present step; parts of earlier steps are only checked.

        Raises AnotherKey for a second, different key of an owner, and QueryRefused for a part of a later step, or one that its
        owner did not sign for this attempt.
        """
        step, owner = STEP_OF[type(message)], self._owners.get(message.owner)
        if step > self.step:
            raise self._refused(message, "not every owner has said what comes before")
        if owner is None or not owner.signed(message.signature, self._content(message)):
            raise self._refused(message, "it did not sign this for this attempt")
        if isinstance(message, SignedKey) and not is_key(message.key):
            raise self._refused(message, "what it gave is not a key")
        before = self._given[step].get(message.owner)
        if isinstance(message, SignedKey) and before is not None and before.key != message.key:
            raise AnotherKey(self._refused(message, "it gave another key before").args[0])
        if before is None and step == self.step and message.owner in self.expected:
            self._given[step][message.owner] = message
            self._go_on()

    def hear(self, owner: str, message: Said) -> Asked | None:
        """Accept an owner's message; returns the message to send it again if the step of its message was over already.

        An owner repeats its message after its connection broke, and then needs the message that the others got meanwhile.
        """
        part: Part
        match message:
            case PublicKeys():
                part = SignedKey(owner, bytes_of(_only(message.keys)), _only(message.signatures))
            case SetSigned():
                part = SignedSet(owner, _only(message.signatures))
            case Survivors():
                part = SignedSurvivors(owner, _only(message.signatures))
            case _:
                part = OpenedMask(owner, as_words(message.words), message.signature)
        step = self.step
        self.take(part)
        again = STEP_OF[type(part)] < step and owner in self.expected
        return self.passed_on(STEP_OF[type(part)]) if again else None

    def passed_on(self, step: int) -> Asked | None:
        """The message to all owners once this step is over; None after the others."""
        identity = self._attempt.identity
        match step:
            case 0:  # KEY
                return PublicKeys(identity, self._texts(KEY, lambda one: one.key.hex()), self._texts(KEY))
            case 1:  # SET
                return SetSigned(identity, self._texts(SET))
            case 2:  # MASKED
                return Survivors(identity, self.survivors, ())
            case 3:  # SURVIVORS
                return Survivors(identity, self.survivors, self._texts(SURVIVORS))
        return None

    def _texts(self, step: int, of: Callable[[Any], str] = lambda part: str(part.signature)) -> tuple[str, ...]:
        """One text for each owner, in the agreement's order; "" for an owner without a part."""
        said = {part.owner: of(part) for part in self.said(step)}
        return tuple(said.get(name, "") for name in self._owners)

    def masked(self, owner: str) -> None:
        """Note that an owner's vector arrived."""
        if self.step == MASKED and owner in self.expected:
            self._given[MASKED][owner] = owner
            self._go_on()

    def lose(self, owners: Iterable[str]) -> None:
        """Go on without these owners."""
        self._lost |= set(owners)
        if not self.broken:
            self._go_on()

    @property
    def least(self) -> int:
        """τ: owners that every step needs."""
        return len(self._owners) - self._dropouts

    @property
    def expected(self) -> tuple[str, ...]:
        """Owners that take part, in their order."""
        return tuple(name for name in (self.names if self.step > KEY else self._owners) if name not in self._lost)

    @property
    def silent(self) -> tuple[str, ...]:
        """Expected owners whose part of the present step is missing."""
        return () if self.step == OVER else tuple(name for name in self.expected if name not in self._given[self.step])

    @property
    def broken(self) -> bool:
        """Whether more owners than agreed are lost."""
        return len(self.expected) < self.least

    @property
    def lacks_keys(self) -> bool:
        """Whether some owners, but not all, sent their keys."""
        return self.step == KEY and bool(self._given[KEY])

    @property
    def names(self) -> tuple[str, ...]:
        """Owners whose keys are in the set, in their order; empty until it is made."""
        return self._ordered(KEY) if self.step > KEY else ()

    @property
    def survivors(self) -> tuple[str, ...]:
        """Owners whose vectors are in the sum; empty until that is known."""
        return self._ordered(MASKED) if self.step > MASKED else ()

    def said(self, step: int) -> tuple[Any, ...]:
        """The parts of a step that is over, in the owners' order; empty before."""
        return tuple(self._given[step][name] for name in self._ordered(step)) if step < self.step else ()

    def _ordered(self, step: int) -> tuple[str, ...]:
        return tuple(name for name in self._owners if name in self._given[step])

    def _go_on(self) -> None:
        while self.step < OVER and not self.silent and len(self._given[self.step]) >= self.least:
            self.step += 1

    def _content(self, message: Part) -> bytes:
        """Content that the owner of this part signs."""
        keys = {one.owner: one.key for one in self.said(KEY)}
        match message:
            case SignedKey():
                return _key_content(self._attempt, message.owner, message.key)
            case SignedSet():
                return _set_content(self._attempt, keys)
            case SignedSurvivors():
                return _survivors_content(self._attempt, keys, self.survivors)
        return opened_content(self._attempt, message.owner, self.names, self.survivors, message.words)

    def _refused(self, message: Part, why: str) -> QueryRefused:
        attempt = self._attempt
        return QueryRefused(
            f"{message.owner} is not heard in attempt {attempt.attempt} at round {attempt.round}: {why}"
        )


def _only(texts: tuple[str, ...]) -> str:
    return texts[0] if len(texts) == 1 else ""


def bytes_of(key: str) -> bytes:
    """Bytes of a key in hex; empty for other text, which no owner signed."""
    try:
        return bytes.fromhex(key)
    except ValueError:
        return b""
