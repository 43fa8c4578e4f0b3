"""The learner's schedule: which participants may be asked now, given the open turns and the owners that are connected.

A *turn* asks one participant at one θ: an owner (A1, A2), a group of owners, or all of them (S1, S2). Sending, storing
and moving the model is the conductor's.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.network.run import Run
from copriv.validation import count, positive

Talk = Literal["choose", "broadcast", "request"]


@dataclass(frozen=True)
class Conduct:
    """Settings of a run that the agreement leaves to the learner."""

    talk: Talk | None = None
    """How participants get their turns; None: as agreed, and "choose" where the agreement does not say."""
    at_once: int | None = None
    """A2: largest number of participants that are asked at the same time; None: all."""
    deadline: float = 30.0
    """Seconds beyond three of its slots after which an owner that was asked is late."""
    begin: Literal["all", "any"] = "all"
    """Begin when every owner is connected, or with the first: then owners that connect early spend their answers first."""
    stragglers: Literal["wait", "drop"] = "wait"
    """S1, S2 and groups: wait for late owners, or step without them."""
    patience: float = 300.0
    """Seconds beyond three of the longest slot without any answer after which the run stops; it can be resumed."""

    def __post_init__(self) -> None:
        positive("deadline", self.deadline)
        positive("patience", self.patience)
        if self.at_once is not None:
            count("at_once", self.at_once)

    def under(self, agreement: Agreement) -> "Conduct":
        """A copy with `talk` set. Raises AgreementError where these settings contradict the agreement."""
        agreed = agreement.agreement.agreed_talk
        if agreed is not None and self.talk not in (None, agreed):
            raise AgreementError(f'agreement.schedule: is "{agreed}", and the learner was told "{self.talk}" (--talk)')
        for key in ("robust", "graph"):
            if getattr(agreement.agreement, key) is not None and self.stragglers == "drop":
                raise AgreementError(
                    f"agreement.{key}: needs the answers of all owners each round; wait for late ones (--stragglers wait)"
                )
        if agreement.summed and self.stragglers == "drop":
            raise AgreementError(
                'agreement.aggregation: a "sum" goes on without as many owners as dropouts says, and waits for all others '
                "(--stragglers wait)"
            )
        return replace(self, talk=cast(Talk, agreed or self.talk or "choose"))


class Turns:
    """Selects the participants of a run to ask next."""

    def __init__(self, run: Run, conduct: Conduct, now: float, slots: Mapping[str, float]) -> None:
        self._conduct, self._run, self._slots = conduct, run, slots
        # Read for every answer; the agreement computes them at each access.
        self._m, self._queries = run.agreement.answers, run.agreement.queries
        self.offered: set[str] = set()
        """Owners that were offered the next turn."""
        self.now, self.progress = now, now
        """The present and the time of the last answer, in seconds of the learner's clock."""
        for turn in run.open.values():
            turn.opened = now

    def slots(self, owners: Iterable[str]) -> float:
        """Longest time of an answer of these owners, in seconds: three of the longest slot that they stated.

        One for a table's reading for a new run, one for the answer, and one more where that is late.
        """
        return 3 * max((self._slots.get(owner, 0.0) for owner in owners), default=0.0)

    def left(self) -> int:
        """Number of turns that may still be opened."""
        return self._queries - self._run.stepped - self._pending()

    def _pending(self) -> int:
        """Number of open turns that are not late."""
        return sum(not turn.late for turn in self._run.open.values())

    def may_open(self, participant: int) -> bool:
        """Whether a participant can still be asked in this run, now or once its owners are connected."""
        return sum(map(self.can_answer, self._run.members[participant])) >= self._fewest(participant)

    def _fewest(self, participant: int) -> int:
        """Owners of a participant that are enough for a step of the model."""
        members, dropouts = len(self._run.members[participant]), self._run.agreement.dropouts
        return 1 if self._conduct.stragglers == "drop" else members - dropouts

    def can_answer(self, owner: str) -> bool:
        """Whether an owner may give another answer in this run; marks it as out where all its answers are given."""
        party = self._run.parties[owner]
        if not party.out and party.answered >= self._m and self._run.turn_of(owner) is None:
            party.out = "its answer is given" if self._m == 1 else f"all {self._m} answers given"
        return not party.out

    def may_ask(self, participant: int) -> bool:
        """Whether a participant can be asked now."""
        if participant in self._run.open or not self._begun():
            return False
        members = self._run.members[participant]
        able = [self._run.parties[name] for name in members if self.can_answer(name)]
        there = sum(party.there for party in able)
        if there == len(members):
            return True
        waited = self.now - self.progress >= self._conduct.deadline + self.slots(self._run.parties)
        gone = self._run.agreement.dropouts and all(party.there or party.late for party in able)
        return there >= self._fewest(participant) and (there == len(able) or waited or bool(gone))

    def _begun(self) -> bool:
        """Whether the first turn may be opened, or has been."""
        # The certificates of all owners are needed, also of those that may be missing from a sum.
        if self._run.opened > 0 or (self._conduct.begin == "any" and not self._run.agreement.dropouts):
            return True
        return all(party.there or party.out for party in self._run.parties.values())

    def free(self) -> Iterable[int]:
        """Participants to ask now, in a random order that is determined by the run's name and its number of turns."""
        run, most = self._run, 1
        if run.several_at_once:
            most = self._conduct.at_once or len(run.members)
        room = min(most - self._pending(), self.left())
        if room <= 0 or (run.open and not run.several_at_once) or not self._begun():
            return []
        free = [j for j in range(len(run.members)) if self.may_ask(j)]
        if len(free) > 1:
            in_time = [j for j in free if not any(run.parties[name].late for name in run.members[j])]
            free = in_time or free
            random.Random(f"{run.name} {run.opened}").shuffle(free)
        if run.window == 1:
            return free[:room]
        new = [j for j in free if j not in run.answered_since_step][:room]
        again = [j for j in free if j in run.answered_since_step]
        # Answers that this window still needs, without those that were asked for already.
        missing = run.window - run.stepped % run.window - self._pending()
        return new + again[: max(min(missing, room) - len(new), 0)]

    def is_due(self, participant: int) -> bool:
        """Whether to offer a participant the next turn: not a second time in a window that others can complete."""
        if self._run.window == 1 or participant not in self._run.answered_since_step:
            return True
        return not any(self.may_ask(j) for j in range(len(self._run.members)) if j not in self._run.answered_since_step)
