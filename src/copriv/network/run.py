"""A run is a fold over its lines: where it stands follows from them alone.

The learner's process moves a `Run` with every line that it writes and takes it up again from its store, `verify` moves one
with the lines that it checks, and the record in a model's file is what it comes to. Nothing here decides or checks.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.network.store import RunStore, StoreFailed
from copriv.network.trajectory import Trajectory
from copriv.protocol import Query
from copriv.rules import named
from copriv.types import Array


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
    """As the owner itself counts, with each answer and at the end."""
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
    closed: str = ""
    """The hash of the line at which it counted its answers for the end of the run; "" while it did not after its last query."""


def query_identity(fingerprint: str, run: str, owner: str, sequence: int) -> str:
    """The name of a learner's query for ever: it follows from these four and nothing else."""
    text = "\0".join((fingerprint, run, owner, str(sequence)))
    return hashlib.sha256(text.encode()).hexdigest()


class Tables:
    """What lines speak of: the points, queries and answers in a store's other tables, by number and identity."""

    def __init__(self, store: RunStore) -> None:
        self.points = store.turns()
        self.queries = {query.identity: (turn, sequence, query) for turn, sequence, query in store.queries()}
        self.answers = {answer.identity: answer for answer in store.answers()}

    def of(self, kind: str, said: dict[str, Any]) -> Any:
        """The θ, the query or the answer that a line notes; None for others."""
        match kind:
            case "asked":
                return self.points[said["turn"]][1]
            case "query":
                return self.queries[said["identity"]][2]
            case "answer":
                return self.answers[said["identity"]]
        return None


class Run:
    """Where a run stands after the lines that it was given. `name`: the run's."""

    def __init__(self, agreement: Agreement, name: str, n_parameters: int) -> None:
        self.agreement, self.name, self._p = agreement, name, n_parameters
        names = agreement.owner_names
        self.members = tuple(tuple(names[i] for i in group) for group in Participants.of(agreement).members)
        """The owners of each participant."""
        self.participant_of = {name: j for j, members in enumerate(self.members) for name in members}
        self.several_at_once = agreement.one_answer or named(agreement.agreement.rule).several_at_once
        self.window = agreement.agreement.window if self.several_at_once and not agreement.one_answer else 1
        self.parties = {name: Party() for name in names}
        self.asked: dict[str, Asked] = {}
        """Every query that was made, by its identity."""
        self.open: dict[int, Turn] = {}
        """The open turn of each participant that is at work, in the order in which they were opened."""
        self.opened = 0
        """Turns that were ever opened."""
        self.stepped = 0
        """Turns that moved the model."""
        self.heard: set[int] = set()
        """Participants that answered since the model last moved (A2 with a window)."""
        self.talk, self.dictionary = "", ""
        self.began, self.ended = 0.0, 0.0
        """Seconds since 1970: when it was last begun or taken up again, and when it last ended."""
        self.status: str | None = None
        """"finished" (see `complete`) or "stopped"; None while it goes on."""
        self.outcome: str | None = None
        """Why it ended."""
        self._trajectory: Trajectory | None = None

    @classmethod
    def of(cls, store: RunStore) -> "Run":
        """The run in a store. Raises StoreFailed for one whose points are not those to which its own answers lead."""
        run, tables = cls(store.agreement, store.run, store.n_parameters), Tables(store)
        for event in store.events():
            try:
                what = tables.of(event.kind, event.data)
                follows = (
                    event.kind != "asked" or run.trajectory.query(event.data["participant"]).tobytes() == what.tobytes()
                )
                run.take(event.kind, event.time, event.data, what)
            except (KeyError, TypeError, IndexError):
                follows = False
            if not follows:
                raise StoreFailed(
                    f"run: line {event.number} ({event.kind}) does not follow from the lines before it; the file is damaged, "
                    "or was begun by another version of copriv"
                )
        return run

    @property
    def begun(self) -> bool:
        """Whether it has a first line."""
        return self._trajectory is not None

    @property
    def trajectory(self) -> Trajectory:
        """How the model moves. Raises StoreFailed before the first line."""
        if self._trajectory is None:
            raise StoreFailed("the run has not begun")
        return self._trajectory

    @property
    def complete(self) -> bool:
        """Whether it is at its end by the rules: the agreed queries moved the model, or every owner gave its m answers.

        An answer that was lost was not given.
        """
        given, m = (len(party.counts) for party in self.parties.values()), self.agreement.answers
        return self.stepped >= self.agreement.queries or (self.stepped > 0 and all(n >= m for n in given))

    def turn_of(self, owner: str) -> Turn | None:
        """The open turn that waits for an owner."""
        turn = self.open.get(self.participant_of[owner])
        return turn if turn is not None and owner in turn.waiting else None

    def take(self, kind: str, at: float, said: dict[str, Any], what: Any = None) -> None:
        """The next line, written at this time; what: see `Tables.of`. Lines of other kinds change nothing."""
        match kind:
            case "begun" | "continued":
                if kind == "begun":
                    self._trajectory = Trajectory.of(self.agreement, self._p, said["talk"])
                    self.dictionary = said["dictionary"]
                self.talk, self.began, self.status, self.outcome = said["talk"], at, None, None
            case "certified":
                self.parties[said["owner"]].certificate = said["certificate"]
            case "asked":
                self.opened = said["turn"]
                self.open[said["participant"]] = Turn(said["turn"], said["participant"], np.array(what))
            case "query":
                party = self.parties[said["owner"]]
                party.asked, party.closed = said["sequence"], ""
                self.asked[said["identity"]] = Asked(said["turn"], what)
                self.open[self.participant_of[said["owner"]]].waiting[said["owner"]] = what
            case "answer":
                self._answered(said, what.gradient)
            case "stepped":
                turn = self.open.pop(said["participant"])
                self.trajectory.step(turn.participant, {name: turn.answers[name] for name in said["owners"]})
                self.stepped += 1
                self.heard.add(turn.participant)
                if self.stepped % self.window == 0:
                    self.heard.clear()
            case "abandoned":
                (participant,) = [j for j, turn in self.open.items() if turn.number == said["turn"]]
                del self.open[participant]
            case "refused":
                party = self.parties[said["owner"]]
                party.refusals += 1
                party.lost += said["code"] == "lost"
            case "contradicted" | "failed":
                party = self.parties[said["owner"]]
                party.barred, party.out = True, "what it sent before"
            case "closed":
                party = self.parties[said["owner"]]
                party.answered, party.closed = max(party.answered, said["answered"]), said["head"]
            case "finished" | "stopped":
                self.status, self.outcome, self.ended = kind, said["reason"], at

    def _answered(self, said: dict[str, Any], gradient: Array) -> None:
        asked, party = self.asked[said["identity"]], self.parties[said["owner"]]
        asked.answer = gradient.tobytes()
        party.answered, party.chain_head = max(party.answered, said["answered"]), said["chain_head"]
        party.counts.add(said["answered"])
        turn = self.open.get(self.participant_of[said["owner"]])
        if turn is not None and turn.number == asked.turn:
            # The first one counts; one under another name, to the same turn, came too late.
            turn.answers.setdefault(said["owner"], gradient)
            turn.waiting.pop(said["owner"], None)
