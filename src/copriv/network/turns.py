"""Whom the learner may ask now: the owners as it knows them, the turns that are open, and what a window still lacks.

A *turn* asks one participant at one θ: an owner (A1, A2), a group of owners, or all of them (S1, S2). Nothing here sends,
stores or moves the model; the conductor does, and says here what came of it.
"""

import hashlib
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.protocol import Query
from copriv.rules import named
from copriv.types import Array
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


@dataclass(eq=False, slots=True)
class Turn:
    """A participant that was asked at one θ: who is still to answer, and what came."""

    number: int
    participant: int
    theta: Array
    waiting: dict[str, Query] = field(default_factory=dict)
    answers: dict[str, Array] = field(default_factory=dict)
    opened: float = 0.0
    late: bool = False


@dataclass(eq=False, slots=True)
class Asked:
    """A query that was made, ever."""

    turn: int
    query: Query
    answer: bytes | None = None
    refused: bool = False


@dataclass(eq=False, slots=True)
class Party:
    """What the learner knows of one owner."""

    there: bool = False
    asked: int = 0
    """Identities used."""
    late: bool = False
    """Its last turn was given up: others are asked before it."""
    lost: int = 0
    """Answers that it charged for and lost in a crash."""
    answered: int = 0
    """As the owner itself counts."""
    counts: set[int] = field(default_factory=set)
    """The numbers that it gave to its answers."""
    chain_head: str = ""
    out: str = ""
    """Why it will not answer again in this run; "" while it may."""
    certificate: str = ""
    """PEM, by which its answers' signatures are checked."""
    refusals: int = 0
    barred: bool = False
    """It is out for good, and not heard when it comes back."""
    closed: bool = False
    """It said at the end how many answers it gave."""


def query_identity(fingerprint: str, run: str, owner: str, sequence: int) -> str:
    """The name of a learner's query for ever: it follows from these four and nothing else."""
    text = "\0".join((fingerprint, run, owner, str(sequence)))
    return hashlib.sha256(text.encode()).hexdigest()


class Turns:
    """The owners of an agreement and the turns that are open. `run`: the run's name, which orders whom to ask."""

    def __init__(self, agreement: Agreement, conduct: Conduct, run: str, now: float) -> None:
        self._conduct, self._run = conduct, run
        # Looked at for every answer, and worked out anew by the agreement each time it is asked.
        self._m, self._queries = agreement.answers, agreement.queries
        names = agreement.owner_names
        self.members = tuple(tuple(names[i] for i in group) for group in Participants.of(agreement).members)
        """The owners of each participant."""
        self.participant_of = {name: j for j, members in enumerate(self.members) for name in members}
        self.several_at_once = agreement.one_answer or named(agreement.agreement.rule).several_at_once
        self._window = agreement.agreement.window if self.several_at_once and not agreement.one_answer else 1
        self.parties = {name: Party() for name in names}
        self.open: dict[int, Turn] = {}
        """The open turn of each participant that is at work, in the order in which they were opened."""
        self.opened = 0
        """Turns that were ever opened."""
        self.stepped = 0
        """Turns that moved the model."""
        self.heard: set[int] = set()
        """Participants that answered since the model last moved (A2 with a window)."""
        self.offered: set[str] = set()
        """Who has the offer of the next turn."""
        self.now, self.progress = now, now
        """Seconds, on the learner's clock: the present, and the last answer."""

    def step(self, participant: int) -> None:
        """A turn of this participant moved the model."""
        self.stepped += 1
        self.heard.add(participant)
        if self.stepped % self._window == 0:
            self.heard.clear()

    def left(self) -> int:
        """Turns that may still be opened."""
        return self._queries - self.stepped - sum(not turn.late for turn in self.open.values())

    def may_open(self, participant: int) -> bool:
        """Whether a participant can still be asked in this run, now or when its owners are back."""
        able = [self.can_answer(name) for name in self.members[participant]]
        return any(able) if self._conduct.stragglers == "drop" else all(able)

    def can_answer(self, owner: str) -> bool:
        party = self.parties[owner]
        if not party.out and party.answered >= self._m and self.turn_of(owner) is None:
            party.out = f"all {self._m} answers given"
        return not party.out

    def may_ask(self, participant: int) -> bool:
        """Whether a participant can be asked right now."""
        if participant in self.open or not self._begun():
            return False
        members = self.members[participant]
        able = [name for name in members if self.can_answer(name)]
        there = sum(self.parties[name].there for name in able)
        if there == len(members):
            return True
        drop = self._conduct.stragglers == "drop"
        waited = drop and self.now - self.progress >= self._conduct.deadline
        return there > 0 and (there == len(able) or waited) and (drop or len(able) == len(members))

    def _begun(self) -> bool:
        """Whether the first turn may be opened, or has been."""
        if self.opened > 0 or self._conduct.begin == "any":
            return True
        return all(party.there or party.out for party in self.parties.values())

    def members_of(self, turn: Turn) -> tuple[str, ...]:
        return self.members[turn.participant]

    def turn_of(self, owner: str) -> Turn | None:
        """The open turn that waits for an owner."""
        turn = self.open.get(self.participant_of[owner])
        return turn if turn is not None and owner in turn.waiting else None

    def free(self) -> Iterable[int]:
        """Participants to ask now, in an order that is random and follows from the run's name alone."""
        one_only = not self.several_at_once
        most = 1 if one_only else self._conduct.at_once or len(self.members)
        room = min(most - sum(not turn.late for turn in self.open.values()), self.left())
        if room <= 0 or (one_only and self.open) or not self._begun():
            return []
        free = [j for j in range(len(self.members)) if self.may_ask(j)]
        if len(free) > 1:
            quick = [j for j in free if not any(self.parties[name].late for name in self.members[j])]
            free = quick or free
            random.Random(f"{self._run} {self.opened}").shuffle(free)
        if self._window == 1:
            return free[:room]
        fresh = [j for j in free if j not in self.heard][:room]
        again = [j for j in free if j in self.heard]
        return fresh + again[: max(min(self._lacking() - len(fresh), room - len(fresh)), 0)]

    def _lacking(self) -> int:
        """Answers that this window lacks, but for those that are on their way."""
        return self._window - self.stepped % self._window - sum(not turn.late for turn in self.open.values())

    def is_due(self, participant: int) -> bool:
        """Whether to offer a participant the next turn: not one that was heard, while others can complete the window."""
        if self._window == 1 or participant not in self.heard:
            return True
        return not any(self.may_ask(j) for j in range(len(self.members)) if j not in self.heard)
