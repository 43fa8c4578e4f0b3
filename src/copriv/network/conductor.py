"""Whom to ask next, and what to do with what comes back: the learner's side of a run without I/O and without a clock.

Things that happen go in as calls (`joined`, `answered`, `refused`, `ready`, `left`, `tick`); messages to send come out
through `take_outbox`, and only after they are in the store. The rules are those of a simulation, with one run.

A *turn* asks one talker at one θ: an owner (A1, A2), a group of owners, or all of them (S1, S2). What happens when an
owner is late or gone follows from the rule's own meaning:

| rule   | turns at once | an owner is late                              | its answer comes after all                  |
| ------ | ------------- | --------------------------------------------- | ------------------------------------------- |
| S1, S2 | 1             | wait for it, or step with the others ("drop") | kept, not used                              |
| A1     | 1             | its turn is given up, another owner is asked  | kept, not used: θ_L has moved on from it    |
| A2     | several       | the others go on                              | used: an answer at an older θ is still good |

With a window ("A2 in rounds"), who was not yet heard at the present θ is asked first, and who was heard is asked again
only for answers that the window would otherwise lack: somebody is away, or late. Where owners answer once
all are asked at once, whatever the rule, and it is as for A2.

Three ways to come to a turn (A, §3): "choose" (the learner asks owners that are free), "broadcast" (it offers, and
the first owner to reply is asked), "request" (an owner asks to be asked, and is turned away while another is served).
"""

import hashlib
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError
from copriv.network.messages import Busy, Message, Offer, Refusal
from copriv.network.store import RunStore, StoreFailed
from copriv.protocol import Answer, Query
from copriv.talkers import Talkers, agreed_rule
from copriv.types import Array
from copriv.validation import count, positive

Talk = Literal["choose", "broadcast", "request"]


@dataclass(frozen=True)
class Conduct:
    """How a run is conducted, where the agreement leaves it to the learner."""

    talk: Talk = "choose"
    at_once: int | None = None
    """A2: how many talkers may be at work at once; None: all."""
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


@dataclass(frozen=True)
class Outcome:
    """How a run ended: "finished", or "stopped" for a named reason."""

    status: Literal["finished", "stopped"]
    reason: str


@dataclass(eq=False, slots=True)
class _Turn:
    number: int
    talker: int
    theta: Array
    waiting: dict[str, Query] = field(default_factory=dict)
    answers: dict[str, Array] = field(default_factory=dict)
    opened: float = 0.0
    late: bool = False


@dataclass(eq=False, slots=True)
class _Asked:
    """A query that was made, ever."""

    turn: int
    owner: str
    answer: bytes | None = None


@dataclass(eq=False, slots=True)
class _Party:
    """What the learner knows of one owner."""

    index: int
    there: bool = False
    asked: int = 0
    """Identities used."""
    late: bool = False
    """Its last turn was given up: others are asked before it."""
    lost: int = 0
    """Answers that it charged for and lost in a crash."""
    answered: int = 0
    """As the owner itself counts."""
    chain_head: str = ""
    out: str = ""
    """Why it will not answer again in this run; "" while it may."""


def query_identity(fingerprint: str, run: str, owner: str, sequence: int) -> str:
    """The name of a learner's query for ever: it follows from these four and nothing else."""
    text = "\0".join((fingerprint, run, owner, str(sequence)))
    return hashlib.sha256(text.encode()).hexdigest()


class Conductor:
    """One run of an agreement, from a store that is new or holds its beginning.

    Raises AgreementError for terms that are still "auto", StoreFailed for a store that does not replay to itself.
    """

    def __init__(self, store: RunStore, conduct: Conduct | None = None, now: float = 0.0) -> None:
        agreement = store.agreement
        if agreement.agreement.rule == "auto":
            raise AgreementError('agreement.rule: still "auto"; plan it first (copriv forecast)')
        agreement.mechanism.check_delta(agreement)
        self.agreement, self.store, self.conduct = agreement, store, conduct or Conduct()
        # Looked at for every answer, and worked out anew by the agreement each time it is asked.
        self._fingerprint, self._m, self._all = agreement.fingerprint, agreement.answers, agreement.queries
        self._weights = agreement.weights
        self._p, self._length = store.n_parameters, agreement.mechanism.length(agreement, store.n_parameters)
        self._several_at_once = agreement.one_answer or agreement.agreement.rule == "A2"
        self._rounds = agreement.synchronous and not agreement.one_answer
        self._window = agreement.agreement.window if self._several_at_once and not agreement.one_answer else 1
        talkers, names = Talkers.of(agreement), agreement.owner_names
        self.talkers = tuple(tuple(names[i] for i in group) for group in talkers.members)
        self._talker_of = {name: j for j, members in enumerate(self.talkers) for name in members}
        # Owners whose clocks differ talk in proportion to their rates; a learner that chooses does so evenly.
        self._rule = agreed_rule(
            agreement,
            talkers,
            self._p,
            shares_by_rate=self.conduct.talk != "choose",
        )
        self.parties = {name: _Party(i) for i, name in enumerate(agreement.owner_names)}
        self.outcome: Outcome | None = None
        """None while the run goes on."""
        self.stepped = 0
        """Queries (A1, A2) or rounds (S1, S2) that moved the model."""
        self._turns: dict[int, _Turn] = {}
        """The open turn of each talker that is at work, in the order in which they were opened."""
        self._asked: dict[str, _Asked] = {}
        self._outbox: list[tuple[str, Message]] = []
        self._n_turns, self._now, self._progress = 0, now, now
        self._heard: set[int] = set()
        """Talkers that answered since the model last moved (A2 with a window)."""
        self._offered: set[str] = set()
        """Who has the offer of the next turn."""
        start = agreement.agreement.start
        θ = np.zeros(self._p) if start is None else np.array(start)
        if len(θ) != self._p:
            raise AgreementError(f"agreement.start: {len(θ)} numbers for {self._p} parameters")
        matrix = agreement.agreement.preconditioner
        if matrix is not None and np.shape(matrix) != (self._p, self._p):
            raise AgreementError(f"agreement.preconditioner: needs {self._p} rows of {self._p} numbers")
        self._state = self._rule.start(θ[None, :])
        self._replay()

    @property
    def model(self) -> Float[Array, " p"]:
        """θ as it stands."""
        θ: Array = self._rule.model(self._state)[0]
        return θ.copy()

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Owners whose answer, or presence, the run waits for now."""
        asked = sorted({owner for turn in self._turns.values() for owner in turn.waiting})
        return tuple(asked) or tuple(name for name, party in self.parties.items() if not party.there)

    def take_outbox(self) -> list[tuple[str, Message]]:
        """(owner, message) to send now, in order; what led to them is durable when this returns."""
        self.store.commit()
        outbox, self._outbox = self._outbox, []
        return outbox

    # What happens ---------------------------------------------------------------------------------------------------

    def joined(self, owner: str, now: float) -> None:
        """An owner is there: what it was asked before and has not answered, it is asked again, word for word."""
        self._now = now
        self.parties[owner].there = True
        self.store.event("joined", owner=owner)
        for turn in self._turns.values():
            if owner in turn.waiting:
                self._outbox.append((owner, turn.waiting[owner]))
                turn.opened, turn.late = now, False
        self._offered.discard(owner)
        # Whatever it refused for may have been put right since: a policy, a ledger that was brought back.
        self.parties[owner].late, self.parties[owner].out = False, ""
        self._go_on()

    def left(self, owner: str, now: float) -> None:
        """An owner is gone; it may come back."""
        self._now = now
        self.parties[owner].there = False
        self.store.event("left", owner=owner)
        for turn in self._turns.values():
            if owner in turn.waiting and self._several_at_once and len(self._members(turn)) == 1:
                turn.late = True
        self._go_on()

    def answered(self, answer: Answer, now: float) -> None:
        """An answer came. One that was not asked for, or that differs from what it was before, is not taken."""
        if self.outcome is not None:
            return
        self._now = now
        asked = self._asked.get(answer.identity)
        if asked is not None and asked.answer is not None:
            if asked.answer != answer.gradient.tobytes():
                self._end("stopped", f"{answer.owner} gave two different answers to query {answer.identity}")
            return
        wrong = self._wrong(answer, asked)
        if asked is None or wrong:
            self.refused(answer.owner, Refusal(answer.identity, "query", f"its answer is not valid: {wrong}"), now)
            return
        asked.answer, self._progress = answer.gradient.tobytes(), now
        party = self.parties[answer.owner]
        party.late = False
        party.answered, party.chain_head = max(party.answered, answer.answered), answer.chain_head
        self.store.answer(answer)
        turn = self._turn_of(answer.owner)
        if turn is None or turn.number != asked.turn:
            self.store.event("late", owner=answer.owner, identity=answer.identity, turn=asked.turn)
        else:
            turn.waiting.pop(answer.owner)
            turn.answers[answer.owner] = answer.gradient
            if not turn.waiting:
                self._step(turn)
        self._go_on()

    def refused(self, owner: str, refusal: Refusal, now: float) -> None:
        """An owner said no. An answer that was lost in its crash is asked for under a new identity; else it is out."""
        if self.outcome is not None:
            return
        self._now, party = now, self.parties[owner]
        self.store.event("refused", owner=owner, identity=refusal.identity, code=refusal.code, reason=refusal.reason)
        turn = self._turn_of(owner)
        if refusal.code == "lost" and party.lost < self._m:
            party.lost += 1
            if turn is not None and turn.waiting[owner].identity == refusal.identity:
                self._ask(turn, owner)
        else:
            party.out = refusal.reason
            if turn is not None:
                turn.waiting.pop(owner)
                self._settle(turn)
        self._go_on()

    def ready(self, owner: str, number: int, now: float) -> None:
        """An owner replies to an offer, or asks to be asked: the first one gets the turn."""
        self._now, talk = now, self.conduct.talk
        wanted = talk == "request" or (talk == "broadcast" and number == self._n_turns + 1)
        talker = self._talker_of[owner]
        wanted = wanted and self._may_ask(talker) and self._is_due(talker)
        if self.outcome is None and not self._turns and wanted and self._left() > 0:
            self._open(talker)
        elif talk == "request":
            self._outbox.append((owner, Busy(number)))

    def tick(self, now: float) -> None:
        """Time has passed: see who is late."""
        self._now = now
        for turn in list(self._turns.values()):
            if now - turn.opened >= self.conduct.deadline and not turn.late:
                self._overdue(turn)
        self._go_on()
        if self.outcome is None and now - self._progress >= self.conduct.patience:
            waited = f"no answer for {self.conduct.patience:g} s"
            self._end("stopped", f"{waited}: waiting for {', '.join(self.waiting_for)}; resume when they are back")

    def next_deadline(self) -> float:
        """When `tick` has something to do, if nothing happens before."""
        turns = [turn.opened + self.conduct.deadline for turn in self._turns.values() if not turn.late]
        if self.conduct.stragglers == "drop" and self._progress + self.conduct.deadline > self._now:
            turns.append(self._progress + self.conduct.deadline)
        return min([self._progress + self.conduct.patience, *turns])

    # Turns ----------------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Open the turns that can be opened; end the run where there is nothing more to come."""
        if self.outcome is not None:
            return
        if self.stepped >= self._all:
            self._end("finished", f"all {self.stepped} queries are answered")
        elif not self._turns and not any(self._may_open(j) for j in range(len(self.talkers))):
            out = "; ".join(f"{name}: {party.out}" for name, party in self.parties.items() if party.out)
            if self.stepped and not self._rounds:
                self._end("finished", f"no owner answers any more, after {self.stepped} queries ({out})")
            else:
                self._end("stopped", f"no round can be completed any more ({out})")
        elif self.conduct.talk == "choose":
            for j in self._free():
                self._open(j)
        elif self.conduct.talk == "broadcast" and not self._turns:
            new = (name for name in self.parties if name not in self._offered)
            due = {j for j in range(len(self.talkers)) if self._may_ask(j) and self._is_due(j)}
            offered = {name for name in new if self._talker_of[name] in due}
            self._offered |= offered
            self._outbox += [(name, Offer(self._n_turns + 1)) for name in sorted(offered)]

    def _left(self) -> int:
        """Turns that may still be opened."""
        return self._all - self.stepped - sum(not turn.late for turn in self._turns.values())

    def _may_open(self, talker: int) -> bool:
        """Whether a talker can still be asked in this run, now or when its owners are back."""
        able = [self._can_answer(name) for name in self.talkers[talker]]
        return any(able) if self.conduct.stragglers == "drop" else all(able)

    def _can_answer(self, owner: str) -> bool:
        party = self.parties[owner]
        if not party.out and party.answered >= self._m and self._turn_of(owner) is None:
            party.out = f"all {self._m} answers given"
        return not party.out

    def _may_ask(self, talker: int) -> bool:
        """Whether a talker can be asked right now."""
        if talker in self._turns or not self._begun():
            return False
        members = self.talkers[talker]
        able = [name for name in members if self._can_answer(name)]
        there = sum(self.parties[name].there for name in able)
        if there == len(members):
            return True
        drop = self.conduct.stragglers == "drop"
        waited = drop and self._now - self._progress >= self.conduct.deadline
        return there > 0 and (there == len(able) or waited) and (drop or len(able) == len(members))

    def _begun(self) -> bool:
        """Whether the first turn may be opened, or has been."""
        if self._n_turns > 0 or self.conduct.begin == "any":
            return True
        return all(party.there or party.out for party in self.parties.values())

    def _members(self, turn: _Turn) -> tuple[str, ...]:
        return self.talkers[turn.talker]

    def _turn_of(self, owner: str) -> _Turn | None:
        """The open turn that waits for an owner."""
        turn = self._turns.get(self._talker_of[owner])
        return turn if turn is not None and owner in turn.waiting else None

    def _free(self) -> Iterable[int]:
        """Talkers to ask now, in an order that is random and follows from the run's name alone."""
        one_only = not self._several_at_once
        most = 1 if one_only else self.conduct.at_once or len(self.talkers)
        room = min(most - sum(not turn.late for turn in self._turns.values()), self._left())
        if room <= 0 or (one_only and self._turns) or not self._begun():
            return []
        free = [j for j in range(len(self.talkers)) if self._may_ask(j)]
        if len(free) > 1:
            quick = [j for j in free if not any(self.parties[name].late for name in self.talkers[j])]
            free = quick or free
            random.Random(f"{self.store.run} {self._n_turns}").shuffle(free)
        if self._window == 1:
            return free[:room]
        fresh = [j for j in free if j not in self._heard][:room]
        again = [j for j in free if j in self._heard]
        return fresh + again[: max(min(self._lacking() - len(fresh), room - len(fresh)), 0)]

    def _lacking(self) -> int:
        """Answers that this window lacks, but for those that are on their way."""
        return self._window - self.stepped % self._window - sum(not turn.late for turn in self._turns.values())

    def _is_due(self, talker: int) -> bool:
        """Whether to offer a talker the next turn: not one that was heard, while others can complete the window."""
        if self._window == 1 or talker not in self._heard:
            return True
        return not any(self._may_ask(j) for j in range(len(self.talkers)) if j not in self._heard)

    def _open(self, talker: int) -> None:
        self._n_turns += 1
        self._offered.clear()
        θ = self._rule.query(self._state, np.array([talker]))[0].copy()
        turn = self._turns[talker] = _Turn(self._n_turns, talker, θ, opened=self._now)
        self.store.turn(turn.number, talker, θ)
        for name in self.talkers[talker]:
            if self._can_answer(name) and self.parties[name].there:
                self._ask(turn, name)

    def _ask(self, turn: _Turn, owner: str) -> None:
        party = self.parties[owner]
        party.asked += 1
        identity = query_identity(self._fingerprint, self.store.run, owner, party.asked)
        query = turn.waiting[owner] = Query(identity, self._fingerprint, owner, turn.theta)
        self._asked[identity] = _Asked(turn.number, owner)
        self.store.query(identity, turn.number, owner, party.asked)
        self._outbox.append((owner, query))

    def _settle(self, turn: _Turn) -> None:
        """A turn that lost an owner: step with those that answered, if that is agreed, or give it up."""
        if turn.waiting:
            return
        if turn.answers and (self.conduct.stragglers == "drop" or len(self._members(turn)) == 1):
            self._step(turn)
        else:
            self._abandon(turn)

    def _overdue(self, turn: _Turn) -> None:
        group = len(self._members(turn)) > 1
        if group and (self.conduct.stragglers == "wait" or not turn.answers):
            turn.opened = self._now
        elif group:
            self._step(turn)
        elif self._several_at_once:
            turn.late = True
            self.store.event("overdue", turn=turn.number, owners=sorted(turn.waiting))
        elif any(self._may_ask(j) for j in range(len(self.talkers))):
            self._abandon(turn)
        else:
            turn.opened = self._now

    def _abandon(self, turn: _Turn) -> None:
        del self._turns[turn.talker]
        for name in turn.waiting:
            self.parties[name].late = True
        self.store.event("abandoned", turn=turn.number, owners=sorted(turn.waiting))

    def _step(self, turn: _Turn) -> None:
        del self._turns[turn.talker]
        used = [name for name in self._members(turn) if name in turn.answers]
        self._move(turn.talker, used, turn.answers)
        data = {"turn": turn.number, "k": self.stepped, "talker": turn.talker, "owners": used}
        if turn.waiting:
            data["dropped"] = sorted(turn.waiting)
        self.store.event("stepped", **data)

    def _move(self, talker: int, used: list[str], answers: dict[str, Array]) -> None:
        """One step of the rule with Σ (n_i/n_G) Q̄_i over the owners that answered (A, Remark 2)."""
        w = self._weights[[self.parties[name].index for name in used]]
        if len(used) == 1 and w[0] > 0:
            answer = answers[used[0]]
        else:
            share = w / w.sum() if w.sum() > 0 else w
            answer = sum((s * answers[name] for s, name in zip(share, used, strict=True)), np.zeros(self._length))
        self._state = self._rule.step(self._state, np.array([talker]), answer[None, :])
        self.stepped += 1
        self._heard.add(talker)
        if self.stepped % self._window == 0:
            self._heard.clear()

    def _wrong(self, answer: Answer, asked: _Asked | None) -> str:
        if asked is None or asked.owner != answer.owner:
            return "it was never asked for"
        if answer.fingerprint != self._fingerprint:
            return "it belongs to another agreement"
        if answer.gradient.shape != (self._length,) or not np.isfinite(answer.gradient).all():
            return f"it must be {self._length} finite numbers"
        return ""

    def _end(self, status: Literal["finished", "stopped"], reason: str) -> None:
        self.outcome = Outcome(status, reason)
        self.store.event(status, reason=reason)
        self.store.commit()

    # From the store -------------------------------------------------------------------------------------------------

    def _replay(self) -> None:
        """Everything as it was when the store was last committed: the same rule, the same answers, the same order."""
        turns, given = self.store.turns(), dict[int, dict[str, Array]]()
        newest: dict[int, dict[str, Query]] = {}
        for number, sequence, query in self.store.queries():
            self._asked[query.identity] = _Asked(number, query.owner)
            self.parties[query.owner].asked = max(self.parties[query.owner].asked, sequence)
            newest.setdefault(number, {})[query.owner] = query
        for answer in self.store.answers():
            asked, party = self._asked[answer.identity], self.parties[answer.owner]
            asked.answer = answer.gradient.tobytes()
            party.answered, party.chain_head = max(party.answered, answer.answered), answer.chain_head
            # The first one was used; one under another name, to the same turn, came too late.
            given.setdefault(asked.turn, {}).setdefault(answer.owner, answer.gradient)
        for event in self.store.events("asked", "stepped", "abandoned"):
            number = int(event.data["turn"])
            if event.kind == "asked":
                talker, θ = turns[number]
                if self._rule.query(self._state, np.array([talker]))[0].tobytes() != θ.tobytes():
                    raise StoreFailed(
                        f"run: turn {number} does not follow from the turns before it; the file is damaged, or was begun "
                        "by another version of copriv"
                    )
                self._turns[talker], self._n_turns = _Turn(number, talker, np.array(θ), opened=self._now), number
            else:
                turn = self._turns.pop(turns[number][0])
                if event.kind == "stepped":
                    self._move(turn.talker, event.data["owners"], given[number])
        for turn in self._turns.values():
            turn.answers = given.get(turn.number, {})
            turn.waiting = {o: q for o, q in newest[turn.number].items() if o not in turn.answers}
