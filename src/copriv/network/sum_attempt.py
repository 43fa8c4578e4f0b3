"""The learner's side of one attempt at a sum: what it takes of the owners, and when it goes on to the next step.

Each step is over once every owner that is expected to has said its part: all owners, or once there is a set of keys, those
whose keys are in it, without those that were lost. Up to d owners may be; with more the attempt is `broken`.
"""

from collections.abc import Iterable, Mapping
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
from copriv.privacy.masks import Attempt, is_key

Part: TypeAlias = SignedKey | SignedSet | SignedSurvivors | OpenedMask
KEY, SET, MASKED, SURVIVORS, OPENED, OVER = range(6)
STEP_OF: Final[dict[type, int]] = {SignedKey: KEY, SignedSet: SET, SignedSurvivors: SURVIVORS, OpenedMask: OPENED}


class AnotherKey(QueryRefused):
    """An owner gave a second key of an attempt, as one does that was started again: it cannot take part any more."""


class SumAttempt:
    """One attempt, whatever the order in which the owners' messages arrive.

    owners: all whose answers are added up. dropouts: d. lost: owners that are not asked.
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
        """Take an owner's part of a step, which is the present one, or was given before.

        Raises AnotherKey where it gave another key before, and QueryRefused for what it did not sign for this attempt, and for
        what comes before its time.
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

    def masked(self, owner: str) -> None:
        """An owner's vector is there."""
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
        """Owners that have not said their part of the present step."""
        return () if self.step == OVER else tuple(name for name in self.expected if name not in self._given[self.step])

    @property
    def broken(self) -> bool:
        """Whether more owners than agreed are lost."""
        return len(self.expected) < self.least

    @property
    def lacks_keys(self) -> bool:
        """Whether some owners have given a key, and others not."""
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
        """What was said in a step that is over, in the owners' order."""
        return tuple(self._given[step][name] for name in self._ordered(step)) if step < self.step else ()

    def _ordered(self, step: int) -> tuple[str, ...]:
        return tuple(name for name in self._owners if name in self._given[step])

    def _go_on(self) -> None:
        while self.step < OVER and not self.silent and len(self._given[self.step]) >= self.least:
            self.step += 1

    def _content(self, message: Part) -> bytes:
        """What the owner of this message signs."""
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
