"""The state of a run as a fold over the lines of its store, and the path of its model.

The learner's process updates a `Run` with every line that it writes, and rebuilds it from the store to resume; `verify`
updates one with the lines that it checks; the record in a model's file is its summary (`Run.record`). Decisions are
made in `run_state`, checks in `verify_lines`.

A run under an agreement with a pilot has two phases in one file. Each begins with its own line, in which the learner signs the
terms that were chosen for it. The attributes of a `Run` are then those of the present phase, and `before` is the finished
pilot.

`NoiseCheck` tells whether owners add the noise that they should, as far as answers tell, for a run in which all answer at one
θ. In one round, let c be the median of the other owners' answers, in each coordinate, and a the owner's own. Then a − c is the
owner's noise and a difference that does not depend on it, and is in distribution at least as large in absolute value as the
noise by itself (Anderson 1955). The sum of |a − c|/b over all coordinates and rounds (of its square, with normal noise) is
therefore at most as likely to be below a number as the same sum of agreed noise: whatever the owners' records are, and
whatever the others answer without knowing this answer. An owner whose sum is improbably small has left noise out, or copied.
"""

import hashlib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammainc

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants, agreed_rule
from copriv.errors import AgreementError, InvalidInput
from copriv.network.messages import MAX_FRAME, SumQuery
from copriv.network.store import START, Event, RunStore, StoreFailed
from copriv.network.sum_messages import attempt_of
from copriv.privacy.mask_shares import sum_of
from copriv.privacy.noise import Law
from copriv.privacy.shared_noise import SharedNoise, as_words, sum_modulo
from copriv.protocol import Answer, Query
from copriv.rules import Aggregation, named
from copriv.rules.graph import OnGraph
from copriv.rules.robust import RobustAggregation
from copriv.types import Array


class NoiseCheck:
    """Sums over rounds of the owners' distances from the others' medians, in units of their noise."""

    def __init__(self, law: Law, scales: Float[Array, " owners"]) -> None:
        self._law, self._scale = law, scales
        self._total, self._numbers = np.zeros(len(scales)), 0

    def take(self, answers: Float[Array, "owners p"]) -> None:
        """Add a round."""
        others = [np.median(np.delete(answers, i, axis=0), axis=0) for i in range(len(answers))]
        distance = np.abs(answers - np.array(others)) / self._scale[:, None]
        power = {Law.LAPLACE: 1, Law.NORMAL: 2}[self._law]
        self._total += (np.minimum(distance, 1e9) ** power).sum(axis=1)
        self._numbers += answers.shape[1]

    def probabilities(self) -> Float[Array, " owners"]:
        """Probability that agreed noise alone gives a sum as small as each owner's; 1 before any round."""
        if self._numbers == 0:
            return np.ones(len(self._total))
        # The distribution functions of a gamma and a chi-squared law.
        of = {Law.LAPLACE: 1.0, Law.NORMAL: 2.0}[self._law]
        return np.asarray(gammainc(self._numbers / of, self._total / of))

    def too_little(self) -> list[bool]:
        """Whether each owner's noise is improbably small: 1e-6 over all owners of a run, where all add the agreed noise."""
        return [bool(p < 1e-6 / len(self._total)) for p in self.probabilities()]


_MOST = 1e100
"""Largest absolute value of an answer: beyond any noise that can be agreed on, and its square does not overflow."""


@dataclass(eq=False, slots=True)
class Turn:
    """A participant that was asked at one θ: its owners that have yet to answer, and the answers so far."""

    number: int
    participant: int
    theta: Array
    waiting: dict[str, Query] = field(default_factory=dict)
    answers: dict[str, Array] = field(default_factory=dict)
    opened: float = 0.0
    late: bool = False
    round: int = 1
    """k of its step."""
    names: tuple[str, ...] = ()
    """Owners whose keys are in the set of a sum, once it is known; only where owners may be missing."""
    survivors: tuple[str, ...] = ()
    """Owners whose vectors are in the sum."""
    parts: dict[str, Array] = field(default_factory=dict)
    """Owners' parts of the mask of the survivors' sum."""


@dataclass(eq=False, slots=True)
class Asked:
    """A query of the run, with its answer or refusal."""

    turn: int
    query: Query
    answer: Answer | None = None
    refused: bool = False
    lost: bool = False
    """Whether it was refused as charged and never answered: its owner may be asked again, under another identity."""


@dataclass(eq=False, slots=True)
class Party:
    """State of one owner, as the learner knows it."""

    there: bool = False
    asked: int = 0
    """Number of query identities used."""
    late: bool = False
    """Whether its last turn was abandoned; others are then asked first."""
    lost: int = 0
    """Number of answers that it charged for and lost in a crash."""
    answered: int = 0
    """Number of its answers by its own count, which it sends with each answer and at the end."""
    counts: set[int] = field(default_factory=set)
    """Numbers that it gave to the answers that arrived."""
    chain_head: str = ""
    out: str = ""
    """Why it will not answer again in this run; "" while it may."""
    certificate: str = ""
    """PEM, by which its answers' signatures are checked."""
    refusals: int = 0
    barred: bool = False
    """Whether it is excluded for the rest of the run, also after it connects again."""
    closed: str = ""
    """The hash of the line after which it signed its final count of answers; "" while it did not since its last query."""

    @classmethod
    def after(cls, before: "Party | None") -> "Party":
        """The same owner at the beginning of the next phase."""
        if before is None:
            return cls()
        out = before.out if before.barred else ""  # who gave all its answers has others now
        return cls(
            before.there, chain_head=before.chain_head, out=out, certificate=before.certificate, barred=before.barred
        )

    @property
    def missing(self) -> int:
        """Number of answers that it counted and that did not arrive."""
        return self.answered - len(self.counts)


def query_identity(fingerprint: str, run: str, owner: str, sequence: int) -> str:
    """The identity of a query, determined by these four values alone."""
    text = "\0".join((fingerprint, run, owner, str(sequence)))
    return hashlib.sha256(text.encode()).hexdigest()


class Run:
    """State of the run in a store, after the lines that were passed to `take`."""

    def __init__(self, store: RunStore) -> None:
        self.agreed = store.agreement
        """The agreement that all parties signed; `agreement` has the terms of the present phase."""
        self.name, self._p = store.run, store.n_parameters
        self.head, self.talk, self.dictionary = START, "", ""
        self.began, self.ended = 0.0, 0.0
        """Times at which it last began or resumed, and last ended, in seconds since 1970."""
        self.status: str | None = None
        """"finished" (see `complete`) or "stopped"; None while it is not over."""
        self.outcome: str | None = None
        """Why it ended."""
        self.kept = ""
        """Why the rest of the budget was kept after the pilot; "" where it was not."""
        self.known: dict[str, Any] = {}
        """Results of the pilot, as the learner states them (`Decision.said`); empty before that."""
        self.before: Run | None = None
        """The phase before this one, as it ended."""
        self.parties: dict[str, Party] = {}
        self.opened = 0
        """Number of turns that were opened, in all phases."""
        self._enter(1, self.agreed.phases[0])

    def _enter(self, phase: int, agreement: Agreement) -> None:
        """Begin a phase: its terms, and the state of a run without a line of it."""
        self.phase, self.agreement = phase, agreement
        self.chosen: dict[str, Any] = {}
        """The terms of the phase that were not agreed before the pilot, and below the learner's signature of all of them."""
        self.signature = ""
        self._fingerprint, names = agreement.fingerprint, agreement.owner_names
        self.members = tuple(tuple(names[i] for i in group) for group in Participants.of(agreement).members)
        """The owners of each participant."""
        self.participant_of = {name: j for j, members in enumerate(self.members) for name in members}
        self.several_at_once = agreement.one_answer or named(agreement.agreement.rule).several_at_once
        self.window = 1
        if self.several_at_once and not agreement.one_answer:
            self.window = agreement.agreement.window
        self.parties = {name: Party.after(self.parties.get(name)) for name in names}
        self.asked: dict[tuple[str, str], Asked] = {}
        """Every query of the run by its owner and identity."""
        self.open: dict[int, Turn] = {}
        """The open turn of each participant that was asked, in the order in which they were opened."""
        self.stepped = 0
        """Number of turns that moved the model."""
        self.moved_by: tuple[str, ...] = ()
        """The owners whose answers moved it last."""
        self.unused_sums: list[int] = []
        """Turns that were abandoned with as many answers as a sum takes that owners may be missing from."""
        self.answered_since_step: set[int] = set()
        """Participants that answered since the model last moved (A2 with a window)."""
        self._trajectory: Trajectory | None = None

    @classmethod
    def of(cls, store: RunStore) -> "Run":
        """The run in a store. Raises StoreFailed where its points θ do not follow from its answers by the rule."""
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
    def phases(self) -> "list[Run]":
        """This and the phase before it, in order."""
        return [self] if self.before is None else [*self.before.phases, self]

    @property
    def awaits_decision(self) -> bool:
        """Whether the pilot is finished and the run after it is not decided yet."""
        return self.agreed.has_pilot and self.phase == 1 and self.status == "finished" and not self.kept

    @property
    def decided(self) -> bool:
        """Whether something has followed the pilot: the run after it, or that the rest of the budget is kept."""
        return bool(self.before or self.kept)

    @property
    def only_answers(self) -> Float[Array, "seen answer"]:
        """The answer of every owner, in the agreement's order, of a phase in which each has given one; or only the mean of
        those of `whose_answers`.
        """
        if self.agreement.summed:
            return self.trajectory.vector[None, :]
        given = {one.query.owner: one.answer.gradient for one in self.asked.values() if one.answer is not None}
        return np.array([given[name] for name in self.parties])

    @property
    def whose_answers(self) -> tuple[str, ...]:
        """The owners that `only_answers` are of: all, but for those that a sum is without."""
        return self.moved_by if self.agreement.summed else tuple(self.parties)

    def in_phases(self, owner: str) -> list[Party]:
        """The state of an owner in each phase."""
        return [phase.parties[owner] for phase in self.phases]

    def answered(self, owner: str) -> int:
        """Number of an owner's answers in all phases, by its own count."""
        return sum(party.answered for party in self.in_phases(owner))

    def may_have_given(self, owner: str, before: int) -> bool:
        """Whether an owner can have given so many answers before the present phase."""
        pilot = self.before
        if pilot is None:
            return before == 0
        return pilot.parties[owner].answered <= before <= pilot.agreement.answers

    @property
    def begun(self) -> bool:
        """Whether it has a first line."""
        return self._trajectory is not None

    @property
    def trajectory(self) -> "Trajectory":
        """The path of the model. Raises StoreFailed before the first line."""
        if self._trajectory is None:
            raise StoreFailed("the run has not begun")
        return self._trajectory

    @property
    def complete(self) -> bool:
        """Whether all agreed queries moved the model, or every owner gave its m answers (without lost ones), each seen."""
        given, m = (len(party.counts) for party in self.parties.values()), self.agreement.answers
        if self.stepped >= self.agreement.queries:
            return True
        # Answers to abandoned sums did not move the model.
        return not self.agreement.summed and self.stepped > 0 and all(n >= m for n in given)

    def query(self, turn: Turn, owner: str, sequence: int, head: str, signature: str = "") -> Query:
        """The query of an owner in a turn. In a sum all owners' have the identity of the attempt, which is the turn's."""
        if not self.agreement.summed:
            identity = query_identity(self._fingerprint, self.name, owner, sequence)
            θ = self.trajectory.asks(owner, turn.theta)
            return Query(identity, self._fingerprint, owner, θ, head, signature)
        query = SumQuery("", self._fingerprint, owner, turn.theta, head, signature, turn.round, turn.number)
        return replace(query, identity=attempt_of(query, self.name).identity)

    def turn_of(self, owner: str) -> Turn | None:
        """The open turn that waits for an owner."""
        turn = self.open.get(self.participant_of[owner])
        if turn is None or owner not in turn.waiting:
            return None
        return turn

    def turn_numbered(self, number: int) -> Turn:
        """The open turn of this number. Raises ValueError where it is not open."""
        (turn,) = [turn for turn in self.open.values() if turn.number == number]
        return turn

    def take(self, line: Event) -> None:
        """Update the state by the next line; lines of other kinds than these change nothing."""
        said = line.data
        match line.kind:
            case "begun" | "continued":
                if line.kind == "begun":
                    if said.get("phase", 1) > 1:
                        self.before, self.known = copy(self), said["known"]
                        self._enter(said["phase"], self.agreed.chosen_run(said["chosen"]))
                    if self.agreed.has_pilot:
                        self.chosen, self.signature = said["chosen"], said["signature"]
                    self._trajectory = Trajectory(self.agreement, self._p, said["talk"])
                    self.dictionary = said["dictionary"]
                self.talk, self.began, self.status, self.outcome = said["talk"], line.time, None, None
            case "certified":
                self.parties[said["owner"]].certificate = said["certificate"]
            case "asked":
                self.opened = said["turn"]
                self.open[said["participant"]] = Turn(
                    said["turn"], said["participant"], line.numbers, round=self.stepped + 1
                )
            case "query":
                owner, identity = said["owner"], said["identity"]
                party, turn = self.parties[owner], self.open[self.participant_of[owner]]
                party.asked, party.closed = said["sequence"], ""
                # θ is shared, not copied: a small file may hold a long θ and a hundred thousand queries at it.
                query = self.query(turn, owner, said["sequence"], self.head, said["signature"])
                self.asked[owner, identity], turn.waiting[owner] = Asked(said["turn"], query), query
            case "answer":
                self._answered(line)
            case "survivors":
                turn = self.turn_numbered(said["turn"])
                turn.names, turn.survivors = tuple(said["names"]), tuple(said["owners"])
            case "opened":
                self.turn_numbered(said["turn"]).parts[said["owner"]] = line.numbers
            case "stepped":
                turn = self.open.pop(said["participant"])
                given = {name: turn.answers[name] for name in said["owners"]}
                self.trajectory.step(turn.participant, given, turn.parts, turn.names)
                self.stepped, self.moved_by = self.stepped + 1, tuple(said["owners"])
                self.answered_since_step.add(turn.participant)
                if self.stepped % self.window == 0:
                    self.answered_since_step.clear()
            case "abandoned":
                turn = self.open.pop(self.turn_numbered(said["turn"]).participant)
                least = len(self.members[turn.participant]) - self.agreement.dropouts
                if self.agreement.dropouts and len(turn.answers) >= least:
                    self.unused_sums.append(turn.number)
            case "refused":
                party = self.parties[said["owner"]]
                party.refusals += 1
                party.lost += said["code"] == "lost"
                asked = self.asked.get((said["owner"], said["identity"]))
                if said["code"] == "lost" and asked is not None:
                    asked.lost = True
            case "contradicted" | "failed":
                party = self.parties[said["owner"]]
                party.barred, party.out = True, "what it sent before"
            case "closed":
                party = self.parties[said["owner"]]
                party.answered, party.closed = max(party.answered, said["answered"]), said["head"]
                if self.before is not None:
                    self.before.parties[said["owner"]].answered = said.get("before", 0)
            case "kept":
                self.kept, self.known = said["reason"], said["known"]
                self.outcome, self.ended = said["reason"], line.time
            case "finished" | "stopped":
                self.status, self.outcome, self.ended = line.kind, said["reason"], line.time
        self.head = line.hash

    def _answered(self, line: Event) -> None:
        said, owner, gradient = line.data, line.data["owner"], line.numbers
        asked, party, n = self.asked[owner, said["identity"]], self.parties[owner], said["answered"]
        head, signature = said["chain_head"], said["signature"]
        asked.answer = Answer(said["identity"], self._fingerprint, owner, gradient, n, head, signature)
        party.answered, party.chain_head = max(party.answered, n), head
        party.counts.add(n)
        turn = self.open.get(self.participant_of[owner])
        if turn is not None and turn.number == asked.turn:
            # The first answer counts; one under another identity, to the same turn, came too late.
            turn.answers.setdefault(owner, gradient)
            turn.waiting.pop(owner, None)

    @property
    def totals(self) -> dict[str, Any]:
        """`run_totals` of this phase."""
        return run_totals(self.agreement, [party.answered for party in self.parties.values()], self.stepped)

    def record(self, public: Any = None, forecast: Any = None) -> dict[str, Any]:
        """Summary of the run for the file of a model that is made after its newest line.

        public: the model's fitness on the learner's public rows. forecast: the forecast of the run. Both are claims of the
        learner, which do not follow from the run.
        """
        agreement, seconds, phases = self.agreement, round(self.ended - self.began, 3), self.phases
        each = [phase.totals for phase in phases]
        totals = each[-1]
        owners = [
            {
                "name": terms.name,
                "records": terms.records,
                "epsilon": terms.epsilon,
                "delta": terms.delta,
                "answers": self.answered(terms.name),
                "most_answers": sum(phase.agreement.answers for phase in phases),
                "lost": sum(min(one.lost, one.missing) for one in self.in_phases(terms.name)),  # as its counts confirm
                "spent": sum(one["epsilon"][terms.name] for one in each),
                "spent_delta": sum(one["delta"][terms.name] for one in each),
                "noise_scale": totals["noise_scale"][terms.name],
            }
            for terms in self.agreed.owner
        ]
        if self._trajectory is not None and (noise := self._trajectory.noise_check) is not None:
            owners = [owner | {"too_little_noise": few} for owner, few in zip(owners, noise.too_little(), strict=True)]
        if self._trajectory is not None and (models := self._trajectory.models) is not None:
            owners = [owner | {"model": θ.tolist()} for owner, θ in zip(owners, models, strict=True)]
        seen: dict[str, Any] = {"aggregation": "sum", "colluding": agreement.colluding} if agreement.summed else {}
        seen |= {"dropouts": agreement.dropouts} if agreement.dropouts else {}
        if self.agreed.has_pilot:
            seen["phases"] = [
                {"phase": one.phase, "mechanism": one.agreement.agreement.mechanism,
                 "fingerprint": one.agreement.fingerprint, "most_answers": one.agreement.answers, **of_it}
                for one, of_it in zip(phases, each, strict=True)
            ]  # fmt: skip
            seen |= {"agreed": self.agreed.fingerprint, "known": self.known, "kept": self.kept}
        return {
            "run": self.name,
            "head": self.head,
            "rule": agreement.agreement.rule,
            "mechanism": agreement.agreement.mechanism,
            **seen,
            "talk": self.talk,
            "status": self.status,
            "outcome": self.outcome,
            "queries": self.stepped,
            "agreed_queries": agreement.queries,
            "seconds": seconds,
            "finished_at": datetime.fromtimestamp(self.ended, UTC).isoformat(timespec="seconds"),
            "owners": owners,
            "realised": {**totals, "seconds": seconds, "public": public},
            "forecast": forecast,
        }


def run_totals(agreement: Agreement, answers: Sequence[int], queries: int) -> dict[str, Any]:
    """The number of queries, and by owner its answers, the ε and δ that they spent, and the scale of its noise."""
    mechanism, names = agreement.mechanism, agreement.owner_names
    spent = [mechanism.spent_after(agreement, owner, m) for owner, m in zip(agreement.owner, answers, strict=True)]
    return {
        "queries": queries,
        "answers": dict(zip(names, answers, strict=True)),
        "epsilon": {name: float(ε) for name, (ε, _) in zip(names, spent, strict=True)},
        "delta": {name: float(δ) for name, (_, δ) in zip(names, spent, strict=True)},
        "noise_scale": dict(zip(names, agreement.noise_scales().tolist(), strict=True)),
    }


class Trajectory:
    """The path of the model from the agreed start: the agreement's rule and its state, which answers update.

    talk: as in `Conduct`; owners take turns equally often under "choose", and by their clocks' rates otherwise.
    Raises AgreementError for terms that are still "auto", or do not fit p parameters.
    """

    def __init__(self, agreement: Agreement, n_parameters: int, talk: str) -> None:
        if agreement.agreement.rule == "auto":
            raise AgreementError('agreement.rule: still "auto"; plan it first (copriv forecast --out DIR)')
        agreement.mechanism.check_delta(agreement)
        p, start, matrix = n_parameters, agreement.agreement.start, agreement.agreement.preconditioner
        self.length = agreement.mechanism.length(agreement, p)
        """Number of entries of an answer; of one that is masked, two for each number (`copriv.privacy.shared_noise`).

        Where owners may be missing, that is the length of a part of a sum's mask, and an answer has it 1 + d times.
        """
        self._dropouts = agreement.dropouts
        self._rule = agreed_rule(agreement, Participants.of(agreement), p, shares_by_rate=talk != "choose")
        self._weights = dict(zip(agreement.owner_names, agreement.weights, strict=True))
        θ = np.array(start or [0.0] * p)
        if len(θ) != p:
            raise AgreementError(f"agreement.start: {len(θ)} numbers for {p} parameters")
        if matrix is not None and np.shape(matrix) != (p, p):
            raise AgreementError(f"agreement.preconditioner: needs {p} rows of {p} numbers")
        self._state = self._rule.start(θ[None, :])
        self.vector: Float[Array, " answer"] = np.zeros(0)
        """The answer, or mean of answers, of the newest step."""
        self._sums: list[tuple[tuple[str, ...], SharedNoise]] = []
        """Each participant's owners and their noise, where only sums of their answers are seen."""
        if agreement.summed:
            self.length *= 2
            for group in agreement.members:
                names = tuple(agreement.owner_names[i] for i in group)
                self._sums.append((names, agreement.mechanism.in_sum(agreement, group, p)))
            if 8 * self.length * (1 + self._dropouts) > MAX_FRAME - 2**16:
                raise AgreementError(
                    f"agreement.dropouts: a masked answer of {self.length // 2} numbers for {self._dropouts} owners that may "
                    f"be missing is longer than a message ({MAX_FRAME} bytes); allow fewer, or choose fewer components"
                )
        self.noise_check: NoiseCheck | None = None
        """Check of the owners' noise, where the agreement is robust against owners that lie; else None."""
        if agreement.agreement.robust is not None:
            law, scales = agreement.mechanism.law(agreement), agreement.noise_scales()
            self.noise_check = NoiseCheck(law, scales)
            self._robust = RobustAggregation(agreement.agreement, law, scales)

    @property
    def model(self) -> Float[Array, " p"]:
        """The present θ, which is the result of the run if it ends here; on a graph the mean of the owners' models."""
        θ: Array = self._rule.model(self._state)[0]
        return θ.copy()

    @property
    def models(self) -> Float[Array, "owners p"] | None:
        """Each owner's present model, on a graph; else None."""
        if not isinstance(self._rule, OnGraph):
            return None
        return np.array(self._rule.models(self._state)[0])

    def asks(self, owner: str, theta: Float[Array, " stacked"]) -> Float[Array, " p"]:
        """The part of a turn's θ at which this owner is asked: on a graph its own, else all of it."""
        if not isinstance(self._rule, OnGraph):
            return theta
        part: Array = theta.reshape(len(self._weights), -1)[[*self._weights].index(owner)]
        return part

    def unfit(self, answer: Float[Array, " answer"], opened: bool = False) -> str:
        """Why a vector is refused as an answer, or as a part of a sum's mask: its length, or its entries; "" if it is not."""
        length = self.length * (1 if opened else 1 + self._dropouts)
        if answer.shape != (length,) or not np.isfinite(answer).all() or np.abs(answer).max(initial=0.0) > _MOST:
            return f"it must be {length} finite numbers of at most {_MOST:g}"
        if self._sums and not ((answer >= 0) & (answer < 2**32) & (answer == np.floor(answer))).all():
            return "it must be halves of masked words, which are whole numbers below 2³²"
        return ""

    def query(self, participant: int) -> Float[Array, " p"]:
        """θ at which a participant is to be asked now."""
        θ: Array = self._rule.query(self._state, np.array([participant]))[0]
        return θ.copy()

    def step(
        self,
        participant: int,
        answers: Mapping[str, Array],
        opened: Mapping[str, Array] | None = None,
        names: tuple[str, ...] = (),
    ) -> None:
        """One step of the rule with Σ (n_i/n_G) Q̄_i over the owners that answered (A, Remark 2), or their robust mean.

        Of masked answers it is their sum, in the unit of an answer; on a graph one step of each owner, with its own answer.
        opened: parts of the sum's mask, by owner, where owners may be missing; names: owners of the set of keys.
        Raises InvalidInput where that needs the answers of more owners.
        """
        given = np.array(list(answers.values())).reshape(len(answers), -1)
        if self._sums:
            answer = self._unmasked(participant, answers, opened or {}, names)
        elif isinstance(self._rule, OnGraph) and [*answers] == [*self._weights]:
            answer = given.reshape(-1)
        elif self.noise_check is None and not isinstance(self._rule, OnGraph):
            answer = Aggregation(np.array([self._weights[name] for name in answers])).vector(given)
        elif self.noise_check is not None and [*answers] == [*self._weights]:
            answer = self._robust.vector(given[None])[0]
            self.noise_check.take(given)
        else:
            raise InvalidInput(
                "robust means of running means and steps on a graph need the answers of all owners, in their order, each round"
            )
        self._state, self.vector = self._rule.step(self._state, np.array([participant]), answer[None, :]), answer

    def _unmasked(
        self, participant: int, answers: Mapping[str, Array], opened: Mapping[str, Array], names: tuple[str, ...]
    ) -> Float[Array, " answer"]:
        """The weighted mean of masked answers, with the noise that their owners share."""
        owners, noise = self._sums[participant]
        words = {name: as_words(answer) for name, answer in answers.items()}
        if not self._dropouts:
            if tuple(answers) != owners:
                raise InvalidInput("a sum has the answers of all owners that answer together, in their order")
            return noise.vector(sum_modulo(np.array([*words.values()]), noise.modulus))
        least = len(owners) - self._dropouts
        if min(len(answers), len(opened)) < least:
            raise InvalidInput(f"a sum has the answers of {least} owners or more, and as many parts of its mask")
        shares = {name: one.reshape(1 + self._dropouts, -1) for name, one in words.items()}
        weight = sum(part.weight for name, part in zip(owners, noise.parts, strict=True) if name in answers)
        return noise.vector(
            sum_of(shares, {name: as_words(one) for name, one in opened.items()}, names, least), Fraction(weight)
        )
