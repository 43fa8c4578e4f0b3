"""A run is a fold over its lines: where it stands, and where its model is, follow from them alone.

The learner's process moves a `Run` with every line that it writes and takes it up again from its store, `verify` moves one
with the lines that it checks, and the record in a model's file is what it comes to. Nothing here decides or checks.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants, agreed_rule
from copriv.errors import AgreementError
from copriv.network.store import START, Event, RunStore, StoreFailed
from copriv.protocol import Answer, Query
from copriv.rules import Aggregation, named
from copriv.types import Array

_MOST = 1e100
"""No noise that was ever agreed on gives such a number, and its square is still one."""


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
    answer: Answer | None = None
    refused: bool = False
    lost: bool = False
    """It was refused as charged and never answered: it may be asked anew, and no answer to it can come."""


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

    @property
    def missing(self) -> int:
        """Answers that it counted and that did not come."""
        return self.answered - len(self.counts)


def query_identity(fingerprint: str, run: str, owner: str, sequence: int) -> str:
    """The name of a learner's query for ever: it follows from these four and nothing else."""
    text = "\0".join((fingerprint, run, owner, str(sequence)))
    return hashlib.sha256(text.encode()).hexdigest()


class Run:
    """Where the run in a store stands after the lines that it was given."""

    def __init__(self, store: RunStore) -> None:
        agreement = store.agreement
        self.agreement, self.name, self._p = agreement, store.run, store.n_parameters
        self._fingerprint, names = agreement.fingerprint, agreement.owner_names
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
        self.head, self.talk, self.dictionary = START, "", ""
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
        run = cls(store)
        for line in store.events():
            try:
                θ, asked = line.numbers.tobytes(), line.kind == "asked"
                follows = not asked or run.trajectory.query(line.data["participant"]).tobytes() == θ
                run.take(line)
            except (KeyError, TypeError, IndexError):
                follows = False
            if not follows:
                raise StoreFailed(
                    f"run: line {line.number} ({line.kind}) does not follow from the lines before it; the file is damaged, "
                    "or was begun by another version of copriv"
                )
        return run

    @property
    def begun(self) -> bool:
        """Whether it has a first line."""
        return self._trajectory is not None

    @property
    def trajectory(self) -> "Trajectory":
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
        if turn is None or owner not in turn.waiting:
            return None
        return turn

    def take(self, line: Event) -> None:
        """The next line. Lines of other kinds than these change nothing."""
        said = line.data
        match line.kind:
            case "begun" | "continued":
                if line.kind == "begun":
                    self._trajectory = Trajectory(self.agreement, self._p, said["talk"])
                    self.dictionary = said["dictionary"]
                self.talk, self.began, self.status, self.outcome = said["talk"], line.time, None, None
            case "certified":
                self.parties[said["owner"]].certificate = said["certificate"]
            case "asked":
                self.opened = said["turn"]
                self.open[said["participant"]] = Turn(said["turn"], said["participant"], line.numbers)
            case "query":
                owner, identity = said["owner"], said["identity"]
                party, turn = self.parties[owner], self.open[self.participant_of[owner]]
                party.asked, party.closed = said["sequence"], ""
                # θ is shared, not copied: a small file may have a long one and a hundred thousand queries there.
                query = Query(identity, self._fingerprint, owner, turn.theta, self.head, said["signature"])
                self.asked[identity], turn.waiting[owner] = Asked(said["turn"], query), query
            case "answer":
                self._answered(line)
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
                asked = self.asked.get(said["identity"])
                if said["code"] == "lost" and asked is not None and asked.query.owner == said["owner"]:
                    asked.lost = True
            case "contradicted" | "failed":
                party = self.parties[said["owner"]]
                party.barred, party.out = True, "what it sent before"
            case "closed":
                party = self.parties[said["owner"]]
                party.answered, party.closed = max(party.answered, said["answered"]), said["head"]
            case "finished" | "stopped":
                self.status, self.outcome, self.ended = line.kind, said["reason"], line.time
        self.head = line.hash

    def _answered(self, line: Event) -> None:
        said, owner, gradient = line.data, line.data["owner"], line.numbers
        asked, party, n = self.asked[said["identity"]], self.parties[owner], said["answered"]
        head, signature = said["chain_head"], said["signature"]
        asked.answer = Answer(said["identity"], self._fingerprint, owner, gradient, n, head, signature)
        party.answered, party.chain_head = max(party.answered, n), head
        party.counts.add(n)
        turn = self.open.get(self.participant_of[owner])
        if turn is not None and turn.number == asked.turn:
            # The first one counts; one under another name, to the same turn, came too late.
            turn.answers.setdefault(owner, gradient)
            turn.waiting.pop(owner, None)

    def record(self, public: Any = None, forecast: Any = None) -> dict[str, Any]:
        """How the run went: the record of a model that is made after its newest line.

        public: what the learner's public rows say of the model. forecast: what was expected of the run. Both do not follow
        from the run: whoever reads them has them on the learner's word.
        """
        agreement, seconds = self.agreement, round(self.ended - self.began, 3)
        come = counted(agreement, [party.answered for party in self.parties.values()], self.stepped)
        owners = [
            {
                "name": terms.name,
                "records": terms.records,
                "epsilon": terms.epsilon,
                "delta": terms.delta,
                "answers": come["answers"][terms.name],
                "most_answers": agreement.answers,
                "lost": min(
                    self.parties[terms.name].lost, self.parties[terms.name].missing
                ),  # as its own counts bear out
                "spent": come["epsilon"][terms.name],
                "spent_delta": come["delta"][terms.name],
                "noise_scale": come["noise_scale"][terms.name],
            }
            for terms in agreement.owner
        ]
        return {
            "run": self.name,
            "head": self.head,
            "rule": agreement.agreement.rule,
            "mechanism": agreement.agreement.mechanism,
            "talk": self.talk,
            "status": self.status,
            "outcome": self.outcome,
            "queries": self.stepped,
            "agreed_queries": agreement.queries,
            "seconds": seconds,
            "finished_at": datetime.fromtimestamp(self.ended, UTC).isoformat(timespec="seconds"),
            "owners": owners,
            "realised": {**come, "seconds": seconds, "public": public},
            "forecast": forecast,
        }


def counted(agreement: Agreement, answers: Sequence[int], queries: int) -> dict[str, Any]:
    """What so many answers of each owner, and so many queries, come to, by owner."""
    mechanism, names = agreement.mechanism, agreement.owner_names
    spent = [mechanism.spent_after(agreement, owner, m) for owner, m in zip(agreement.owner, answers, strict=True)]
    return {
        "queries": queries,
        "answers": dict(zip(names, answers, strict=True)),
        "epsilon": {name: float(ε) for name, (ε, _) in zip(names, spent, strict=True)},
        "delta": {name: float(δ) for name, (_, δ) in zip(names, spent, strict=True)},
        "noise_scale": {owner.name: mechanism.scale(agreement, owner) for owner in agreement.owner},
    }


class Trajectory:
    """How the model moves from the agreed start on: the agreement's rule and its state, fed with what owners answered.

    talk: how owners come to their turns; where the learner chooses, they talk evenly, else by their clocks' rates.
    Raises AgreementError for terms that are still "auto", or do not fit p parameters.
    """

    def __init__(self, agreement: Agreement, n_parameters: int, talk: str) -> None:
        if agreement.agreement.rule == "auto":
            raise AgreementError('agreement.rule: still "auto"; plan it first (copriv forecast)')
        agreement.mechanism.check_delta(agreement)
        p, start, matrix = n_parameters, agreement.agreement.start, agreement.agreement.preconditioner
        self.length = agreement.mechanism.length(agreement, p)
        """How many numbers an answer has."""
        self._rule = agreed_rule(agreement, Participants.of(agreement), p, shares_by_rate=talk != "choose")
        self._weights = dict(zip(agreement.owner_names, agreement.weights, strict=True))
        θ = np.array(start or [0.0] * p)
        if len(θ) != p:
            raise AgreementError(f"agreement.start: {len(θ)} numbers for {p} parameters")
        if matrix is not None and np.shape(matrix) != (p, p):
            raise AgreementError(f"agreement.preconditioner: needs {p} rows of {p} numbers")
        self._state = self._rule.start(θ[None, :])

    @property
    def model(self) -> Float[Array, " p"]:
        """θ as it stands, which is what the run gives if it ends here."""
        θ: Array = self._rule.model(self._state)[0]
        return θ.copy()

    def unfit(self, answer: Float[Array, " answer"]) -> str:
        """Why these numbers cannot be an answer; "" where they can. Noise has no bound, arithmetic does."""
        if answer.shape != (self.length,) or not np.isfinite(answer).all() or np.abs(answer).max(initial=0.0) > _MOST:
            return f"it must be {self.length} finite numbers of at most {_MOST:g}"
        return ""

    def query(self, participant: int) -> Float[Array, " p"]:
        """Where a participant is to be asked now."""
        θ: Array = self._rule.query(self._state, np.array([participant]))[0]
        return θ.copy()

    def step(self, participant: int, answers: Mapping[str, Array]) -> None:
        """One step of the rule with Σ (n_i/n_G) Q̄_i over the owners that answered (A, Remark 2)."""
        given = np.array(list(answers.values())).reshape(len(answers), self.length)
        answer = Aggregation(np.array([self._weights[name] for name in answers])).vector(given)
        self._state = self._rule.step(self._state, np.array([participant]), answer[None, :])
