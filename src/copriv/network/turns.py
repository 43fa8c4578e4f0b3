"""Whom the learner may ask now: the owners as it knows them, the turns that are open, and what a window still lacks.

A *turn* asks one participant at one θ: an owner (A1, A2), a group of owners, or all of them (S1, S2). Nothing here sends,
stores or moves the model; the conductor does.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from copriv.network.run import Run
from copriv.validation import count, positive

Talk = Literal["choose", "broadcast", "request"]


@dataclass(frozen=True)
class Conduct:
    """How a run is conducted, where the agreement leaves it to the learner."""

    talk: Talk = "choose"
    at_once: int | None = None
    """A2: how many participants may be at work at once; None: all."""
    deadline: float = 30.0
    """Seconds after which an owner that was asked is late."""
    begin: Literal["all", "any"] = "all"
    """Ask nobody before every owner has come, or ask whoever is there: who comes first spends its answers first."""
    stragglers: Literal["wait", "drop"] = "wait"
    """S1, S2 and groups: wait for late owners, or step without them."""
    patience: float = 300.0
    """Seconds without any answer after which the run stops; it can be resumed."""

    def __post_init__(self) -> None:
        positive("deadline", self.deadline)
        positive("patience", self.patience)
        if self.at_once is not None:
            count("at_once", self.at_once)


class Turns:
    """Whom to ask next in a run; its name orders them."""

    def __init__(self, run: Run, conduct: Conduct, now: float) -> None:
        self._conduct, self._run = conduct, run
        # Looked at for every answer, and worked out anew by the agreement each time it is asked.
        self._m, self._queries = run.agreement.answers, run.agreement.queries
        self.offered: set[str] = set()
        """Who has the offer of the next turn."""
        self.now, self.progress = now, now
        """Seconds, on the learner's clock: the present, and the last answer."""
        for turn in run.open.values():
            turn.opened = now

    def left(self) -> int:
        """Turns that may still be opened."""
        return self._queries - self._run.stepped - self._at_work()

    def _at_work(self) -> int:
        return sum(not turn.late for turn in self._run.open.values())

    def may_open(self, participant: int) -> bool:
        """Whether a participant can still be asked in this run, now or when its owners are back."""
        enough = {"drop": any, "wait": all}[self._conduct.stragglers]
        return enough([self.can_answer(name) for name in self._run.members[participant]])

    def can_answer(self, owner: str) -> bool:
        party = self._run.parties[owner]
        if not party.out and party.answered >= self._m and self._run.turn_of(owner) is None:
            party.out = f"all {self._m} answers given"
        return not party.out

    def may_ask(self, participant: int) -> bool:
        """Whether a participant can be asked right now."""
        if participant in self._run.open or not self._begun():
            return False
        members = self._run.members[participant]
        able = [name for name in members if self.can_answer(name)]
        there = sum(self._run.parties[name].there for name in able)
        if there == len(members):
            return True
        drop = self._conduct.stragglers == "drop"
        waited = drop and self.now - self.progress >= self._conduct.deadline
        return there > 0 and (there == len(able) or waited) and (drop or len(able) == len(members))

    def _begun(self) -> bool:
        """Whether the first turn may be opened, or has been."""
        if self._run.opened > 0 or self._conduct.begin == "any":
            return True
        return all(party.there or party.out for party in self._run.parties.values())

    def free(self) -> Iterable[int]:
        """Participants to ask now, in an order that is random and follows from the run's name alone."""
        one_only, most = not self._run.several_at_once, self._conduct.at_once or len(self._run.members)
        if one_only:
            most = 1
        room = min(most - self._at_work(), self.left())
        if room <= 0 or (one_only and self._run.open) or not self._begun():
            return []
        free = [j for j in range(len(self._run.members)) if self.may_ask(j)]
        if len(free) > 1:
            quick = [j for j in free if not any(self._run.parties[name].late for name in self._run.members[j])]
            free = quick or free
            random.Random(f"{self._run.name} {self._run.opened}").shuffle(free)
        if self._run.window == 1:
            return free[:room]
        fresh = [j for j in free if j not in self._run.heard][:room]
        again = [j for j in free if j in self._run.heard]
        # Answers that this window lacks, but for those that are on their way.
        lacking = self._run.window - self._run.stepped % self._run.window - self._at_work()
        return fresh + again[: max(min(lacking, room) - len(fresh), 0)]

    def is_due(self, participant: int) -> bool:
        """Whether to offer a participant the next turn: not one that was heard, while others can complete the window."""
        if self._run.window == 1 or participant not in self._run.heard:
            return True
        return not any(self.may_ask(j) for j in range(len(self._run.members)) if j not in self._run.heard)
