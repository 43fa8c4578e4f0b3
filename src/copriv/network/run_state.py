"""State machine of the learner in a run, without I/O and without a clock.

Events are calls (`joined`, `answered`, `refused`, `ready`, `left`, `tick`); messages to send are returned by
`take_outbox`, after they are in the store. The rules are those of a simulation, with one run.

`turns` selects whom to ask, `Trajectory` moves the model. What happens when an owner is late or gone follows from the
rule:

| rule   | turns at once | an owner is late                              | its answer arrives later                    |
| ------ | ------------- | --------------------------------------------- | ------------------------------------------- |
| S1, S2 | 1             | wait for it, or step with the others ("drop") | kept, not used                              |
| A1     | 1             | its turn is abandoned, another owner is asked | kept, not used: θ_L has moved since         |
| A2     | several       | the others go on                              | used: an answer at an older θ is still valid |

With a window ("A2 in rounds"), participants that have not answered at the present θ are asked first; others are asked
again only for answers that the window would otherwise lack, as owners are away or late. Where owners answer once, all
are asked at once under any rule, and late answers are treated as for A2.

Participants get a turn in one of three ways (A, §3): "choose" (the learner asks owners that are free), "broadcast" (it
offers a query, and the first owner to reply is asked), "request" (an owner asks for a query, and is refused while another
is served).

All calls are in one file because they change the same state: their order against the writes to the store keeps a run
consistent when its process is killed.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.data.dictionary import PublicDictionary
from copriv.errors import InvalidInput, QueryRefused
from copriv.formatting.sanitize import printable
from copriv.network.keys import Keys
from copriv.network.messages import (
    Busy,
    Closing,
    MaskOpened,
    Members,
    Message,
    Offer,
    PhaseTerms,
    Refusal,
    SumQuery,
    answer_content,
    closing_content,
    model_content,
    phase_content,
    signed_query,
)
from copriv.network.model import Model
from copriv.network.run import Asked, Run, Turn
from copriv.network.store import RunStore, digest
from copriv.network.sum_attempt import MASKED, OPENED, OVER, AnotherKey, Said, SumAttempt
from copriv.network.sum_messages import attempt_of
from copriv.network.turns import Conduct, Turns
from copriv.privacy.shared_noise import as_numbers
from copriv.protocol import Answer, Query
from copriv.types import Array

_LONGEST_REASON = 300
"""Characters of an owner's reason that are kept."""


@dataclass(frozen=True)
class Decision:
    """The decision after a pilot: the terms of the run, or none."""

    chosen: Mapping[str, Any] | None
    """The terms of the run after it, by key (`Agreement.chosen_run`); None: the rest of the budget is kept."""
    reason: str
    said: Mapping[str, Any]
    """Results of the pilot for the run's file: a claim of the learner, which `copriv verify --public` recomputes."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: "finished" by its rules (`Run.complete`), or "stopped" for a named reason."""

    status: Literal["finished", "stopped"]
    reason: str


class Conductor:
    """One run of an agreement, from a store that is new or holds its beginning.

    keys: the learner's, by which queries are signed; only signed answers are taken.
    dictionary: the fingerprint of the public dictionary; "" without one.
    Raises AgreementError for terms that are still "auto", StoreFailed for a store that does not replay to itself,
    InvalidInput for a dictionary with which the run did not begin.
    """

    def __init__(self, store: RunStore, conduct: Conduct | None, now: float, keys: Keys, dictionary: str = "") -> None:
        store.agreement.phases_in_numbers()  # raises where a term that must be fixed before the first phase is not
        self._keys, self.dictionary, self.store, self._conduct = keys, dictionary, store, conduct or Conduct()
        self.outcome: Outcome | None = None
        """How the run ended; None before."""
        self.closing: Closing | None = None
        """The request for signed counts that owners are sent when the run is over."""
        self.offer_interval = 0.0
        """Seconds between two offers ("broadcast"); 0: an offer is made as soon as the turn before it is over."""
        self._next_offer = self._began = now
        self.held = False
        """Whether the run is paused: no new query is made, answers to earlier ones are still accepted."""
        self._slots = dict[str, float]()
        """Seconds after which an owner's answers leave, of those that have joined this process."""
        self._restore(now)
        if not self.run.begun:
            self._begin(1, self.agreement)
        elif self.run.dictionary != dictionary:
            raise InvalidInput("the run began with another public dictionary; give the file that it began with")
        else:
            store.event("continued", **self._how)
            self._begin_sums_anew()
        store.commit()  # `failed` rolls back to the last commit

    def _restore(self, now: float) -> None:
        """Rebuild the state from the store, as of its last commit."""
        self.run = Run.of(self.store)
        self.store.take = self.run.take
        self._enter(now)

    def _enter(self, now: float) -> None:
        """Take up the run's present phase."""
        self.agreement = self.run.agreement
        self.conduct = self._conduct.under(self.agreement)
        self.talk = self.conduct.talk or "choose"
        # Read for every answer; the agreement computes them at each access.
        agreed = self.agreement
        self._fingerprint, self._m, self._queries = agreed.fingerprint, agreed.answers, agreed.queries
        self.parties = self.run.parties
        self._turns = Turns(self.run, self.conduct, now, self._slots)
        self._outbox: list[tuple[str, Message]] = []
        self._introduced: set[str] = set()
        """Owners that got the certificates of the other owners in their sum on the present connection."""
        self._relays: dict[int, SumAttempt] = {}
        """Attempts by the number of their open turn, where answers are seen in sums only; not stored."""

    def _begin_sums_anew(self) -> None:
        """Abandon open attempts, whose keys an earlier process of the learner received, where owners may be missing."""
        for turn in [*self.run.open.values()] * bool(self.agreement.dropouts):
            self._abandon(turn)

    @property
    def _how(self) -> dict[str, Any]:
        """Conduct of the run and the learner's certificates, for the first line of a phase or of a process."""
        return {
            "talk": self.talk, "stragglers": self.conduct.stragglers,
            "learner": self._keys.certificate.decode(), "authority": self._keys.authority.decode(),
        }  # fmt: skip

    def _begin(self, phase: int, terms: Agreement, **said: Any) -> None:
        """Write the first line of a phase on these terms, signed if the agreement has several phases."""
        agreed, run = self.store.agreement, self.store.run
        if agreed.has_pilot:
            signature = self._keys.sign(phase_content(run, agreed.fingerprint, phase, terms.fingerprint))
            said = {"phase": phase, "chosen": {}, "signature": signature, **said}
        self.store.event(
            "begun", run=run, fingerprint=agreed.fingerprint, dictionary=self.dictionary,
            parameters=self.store.n_parameters, **said, **self._how,
        )  # fmt: skip

    def follow(self, decision: Decision, now: float, here: Collection[str]) -> None:
        """Begin the run after the pilot, or end with the rest of the budget kept. here: owners that are connected.

        Raises AgreementError for terms outside the agreed ranges.
        """
        if decision.chosen is None:
            self.store.event("kept", reason=decision.reason, known=decision.said)
            self.outcome, self.closing = Outcome("finished", decision.reason), Closing(self.store.head, 0)
            self.store.commit()
            return
        terms = self.store.agreement.chosen_run(decision.chosen)
        self._begin(2, terms, chosen=decision.chosen, known=decision.said)
        self.outcome = self.closing = None
        self._enter(now)
        for name, party in self.parties.items():
            party.there = name in here
            if party.there:
                self._outbox.append((name, self._phase_terms))
        self._advance()

    @property
    def _phase_terms(self) -> PhaseTerms:
        return PhaseTerms.of(self.run.phase, self.run.chosen, self.run.signature)

    @property
    def model(self) -> Float[Array, " p"]:
        """The present θ."""
        return self.run.trajectory.model

    @property
    def stepped(self) -> int:
        """Number of queries (A1, A2) or rounds (S1, S2) that moved the model."""
        return self.run.stepped

    def idle(self, now: float) -> float:
        """Seconds since the last answer, or since this process began if there is none."""
        return now - self._turns.progress

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Owners that the run waits for: those with an open query, else those that are not connected."""
        asked = sorted({owner for turn in self.run.open.values() for owner in turn.waiting})
        return tuple(asked) or tuple(name for name, party in self.parties.items() if not party.there)

    def signed_model(self, dictionary: PublicDictionary | None, public: Any = None, forecast: Any = None) -> Model:
        """The present model, after its signature was written to the store; `public` and `forecast` as in `Run.record`.

        The signature is "" where the learner's certificate has expired, which `verify` reports.
        """
        model = Model(self.agreement, self.model, dictionary, self.run.record(public, forecast))
        named, signature = model.digest, ""
        if not self._has_expired():
            signature = self._keys.sign(model_content(self.store.run, self.store.head, named))
        self.store.event("model", sha256=named, signature=signature)
        self.store.commit()
        return model

    def take_outbox(self) -> list[tuple[str, Message]]:
        """Pairs (owner, message) to send now, in order; the events that led to them are on the disk when this returns."""
        self.store.commit()
        outbox, self._outbox = self._outbox, []
        return outbox

    # Events ---------------------------------------------------------------------------------------------------------

    def joined(self, owner: str, now: float, certificate: str = "", slot: float = 0.0) -> None:
        """An owner connected: its unanswered query, if there is one, is sent again unchanged.

        certificate: PEM, issued by the consortium's authority; it verifies the signatures of the owner's answers.
        slot: seconds after which its answers leave, as it says.
        """
        self._turns.now, self._slots[owner] = now, slot
        self.parties[owner].there = True
        if certificate and certificate != self.parties[owner].certificate:
            self.store.event("certified", owner=owner, certificate=certificate)
        self.store.event("joined", owner=owner)
        self._introduced.discard(owner)
        if self.store.agreement.has_pilot:
            self._outbox.append((owner, self._phase_terms))
        for turn in self.run.open.values():
            relay = self._relays.get(turn.number)
            if relay is not None and owner not in relay.expected:
                continue  # its attempt continues without it
            if owner in turn.waiting:
                self._send(turn.waiting[owner])
                turn.opened, turn.late = now, False
            elif relay is not None and (message := relay.passed_on(relay.step - 1)):
                self._outbox.append((owner, message))
        self._turns.offered.discard(owner)
        # The cause of an earlier refusal may have been removed: a policy, a ledger that was restored.
        if not self.parties[owner].barred:
            self.parties[owner].late, self.parties[owner].out = False, ""
        self._advance()

    def left(self, owner: str, now: float) -> None:
        """An owner disconnected; it may connect again."""
        self._turns.now = now
        self.parties[owner].there = False
        self.store.event("left", owner=owner)
        for turn in self.run.open.values():
            if owner in turn.waiting and self.run.several_at_once and len(self.run.members[turn.participant]) == 1:
                turn.late = True
        self._advance()

    def answered(self, answer: Answer, now: float) -> bool:
        """An answer arrived; returns whether it was expected. An owner that answers a query twice differently is barred.

        Raises InvalidInput for an answer to no query of its owner.
        """
        if self.outcome is not None:
            return True
        self._turns.now = now
        asked = self._find_query(answer.owner, answer.identity)
        if asked.lost or asked.answer is not None:
            why = ""
            if asked.answer is None and not self.parties[answer.owner].barred:
                # The owner was asked again: accepting either answer would be a choice between them.
                why = f"answered query {answer.identity}, which it had lost"
            elif asked.answer is not None and asked.answer.gradient.tobytes() != answer.gradient.tobytes():
                # The first answer counts, and no other of this owner is accepted.
                why = f"gave two different answers to query {answer.identity}"
            if why:
                self.store.event("contradicted", owner=answer.owner, identity=answer.identity)
                self._exclude(answer.owner, why, for_good=True)
                self._advance()
            return False
        wrong = self._invalid(answer, asked.query)
        if wrong:
            return self.refused(
                answer.owner, Refusal(answer.identity, "query", f"its answer is not valid: {wrong}"), now
            )
        self._turns.progress, self.parties[answer.owner].late = now, False
        self.store.event(
            "answer", answer.gradient, owner=answer.owner, identity=answer.identity, gradient=digest(answer.gradient),
            answered=answer.answered, chain_head=answer.chain_head, signature=answer.signature,
        )  # fmt: skip
        turn = self.run.open.get(self.run.participant_of[answer.owner])
        if turn is None or turn.answers.get(answer.owner) is not answer.gradient:
            self.store.event("late", owner=answer.owner, identity=answer.identity, turn=asked.turn)
        elif self.agreement.dropouts:
            self._hear(turn, lambda relay: relay.masked(answer.owner))
        elif not turn.waiting:
            self._step(turn)
        else:
            self._abandon_if_broken(turn)
        self._advance()
        return True

    def refused(self, owner: str, refusal: Refusal, now: float) -> bool:
        """An owner refused a query, or the run; returns whether it is the first refusal of that query or of the run.

        After a crash that lost an answer the owner is asked again under a new identity; otherwise it is excluded. Raises
        InvalidInput for a refusal of no query of its owner.
        """
        if self.outcome is not None or self._ends_with_its_certificate():
            return True
        self._turns.now, party, about_all = now, self.parties[owner], not refusal.identity
        if about_all and party.out:
            return False
        if not about_all:
            asked = self._find_query(owner, refusal.identity)
            turn = self.run.open.get(self.run.participant_of[owner])
            if (
                asked.answer is not None
                and turn is not None
                and turn.number == asked.turn
                and self._go_on_without(owner)
            ):
                self._advance()
                return True
            if asked.refused or asked.answer is not None:
                return False
            asked.refused = True
        reason, code = printable(refusal.reason, _LONGEST_REASON), printable(refusal.code, 20)
        self.store.event("refused", owner=owner, identity=refusal.identity, code=code, reason=reason)
        turn = self.run.turn_of(owner)
        open_now = turn is not None and turn.waiting[owner].identity == refusal.identity
        if self.agreement.summed and not (about_all or open_now):
            pass  # an attempt that is over already
        elif code == "lost" and party.lost <= self._m:
            if turn is not None and open_now:
                self._ask_again(turn, owner)
        else:
            # It is asked again each time it connects, and barred after 20 refusals beyond one for each of its answers.
            self._exclude(owner, reason, party.refusals > self._m + 20)
        self._advance()
        return True

    def relayed(self, owner: str, message: Said, now: float) -> bool:
        """An owner's part of a sum, other than its answer, arrived; returns whether it was expected.

        If an owner cannot take part any more, the attempt continues without it where owners may be missing, and is abandoned
        otherwise. An owner that sends an unsigned part is excluded. Raises InvalidInput for a message of no query of its owner.
        """
        asked, turn = self._find_query(owner, message.identity), self.run.open.get(self.run.participant_of[owner])
        if self.outcome is not None or turn is None or turn.number != asked.turn:
            return self.outcome is not None
        if owner not in turn.waiting and not self.agreement.dropouts:
            return False
        self._turns.now = now
        if isinstance(message, MaskOpened) and (wrong := self.run.trajectory.unfit(message.words, opened=True)):
            self._exclude(owner, f"its part of a mask is not valid: {wrong}", for_good=True)
            self._advance()
            return True
        again: list[Any] = []
        try:
            self._hear(turn, lambda relay: again.append(relay.hear(owner, message)))
        except AnotherKey:
            return self.refused(
                owner, Refusal(message.identity, "lost", "it was started again during the attempt"), now
            )
        except QueryRefused as error:
            self._exclude(owner, printable(str(error), _LONGEST_REASON), for_good=True)
        else:
            self._outbox += [(owner, one) for one in again if one is not None]
            self._abandon_if_broken(turn)
        self._advance()
        return True

    def _hear(self, turn: Turn, what: Callable[[SumAttempt], object]) -> None:
        """Apply a change to an attempt, and send the messages of the steps that are then over."""
        relay = self._relay(turn)
        before = relay.step
        what(relay)
        if relay.broken:
            self._abandon(turn)
            return
        for step in range(before, relay.step):
            turn.opened = self._turns.now
            if step == MASKED and self.agreement.dropouts:
                self.store.event("survivors", turn=turn.number, names=relay.names, owners=relay.survivors)
            if (message := relay.passed_on(step)) is not None:
                self._outbox += [(name, message) for name in relay.expected]
        if relay.step == OVER:
            for one in relay.said(OPENED):
                words = as_numbers(one.words)
                self.store.event(
                    "opened", words, turn=turn.number, owner=one.owner, words=digest(words), signature=one.signature
                )
            self._step(turn)

    def _go_on_without(self, *owners: str) -> bool:
        """Continue an open attempt without these owners; returns False without one, or where no owner may be missing."""
        turn = self.run.open.get(self.run.participant_of[owners[0]])
        if turn is None or not self.agreement.dropouts:
            return False
        for name in owners:
            self.parties[name].late = True
        self._hear(turn, lambda relay: relay.lose(owners))
        return True

    def closed(self, owner: str, closing: Closing) -> bool:
        """An owner sent its final count of answers; returns whether it is accepted, as it is if `verify` would accept it."""
        party, asked = self.parties[owner], self.closing
        if asked is None or closing.head != asked.head or self.has_closed(owner):
            return False
        if not (party.answered <= closing.answered <= self._m and self.run.may_have_given(owner, closing.before)):
            return False
        if self._unsigned(owner, closing.signature, closing_content(self.store.run, owner, self._fingerprint, closing)):
            return False
        head, signature = closing.head, closing.signature
        n, before = closing.answered, closing.before
        self.store.event("closed", owner=owner, head=head, answered=n, before=before, signature=signature)
        return True

    def has_closed(self, owner: str) -> bool:
        """Whether an owner sent its final count since the run last ended."""
        return self.closing is not None and self.parties[owner].closed == self.closing.head

    def failed(self, owner: str, error: Exception, now: float) -> None:
        """Handling an owner's message raised an unexpected error: roll back to the last commit and bar the owner."""
        self.store.roll_back()
        out = {name: (party.out, party.barred) for name, party in self.parties.items() if party.out}
        here = [name for name, party in self.parties.items() if party.there]
        self._restore(now)
        self._begin_sums_anew()
        for name in here:
            self.parties[name].there = True
            for turn in self.run.open.values():
                if name in turn.waiting:
                    self._send(turn.waiting[name])
        for name, (reason, barred) in out.items():
            self._exclude(name, reason, barred)
        self.store.event("failed", owner=owner, error=printable(repr(error), _LONGEST_REASON))
        self._exclude(owner, f"what it sent could not be handled ({type(error).__name__})", for_good=True)
        self._advance()

    def ready(self, owner: str, number: int, now: float) -> bool:
        """An owner replied to an offer, or requests a query; returns whether it got the turn, as the first one does."""
        self._turns.now, talk = now, self.talk
        wanted = talk == "request" or (talk == "broadcast" and number == self.run.opened + 1)
        participant = self.run.participant_of[owner]
        wanted = wanted and not self.held and self._turns.may_ask(participant) and self._turns.is_due(participant)
        if self.outcome is None and not self.run.open and wanted and self._turns.left() > 0:
            self._open(participant)
            return True
        if talk == "request":
            self._outbox.append((owner, Busy(number)))
        return False

    def tick(self, now: float) -> None:
        """Handle the owners that are late at this time, and stop the run where no answer came for too long."""
        self._turns.now = now
        for turn in list(self.run.open.values()):
            if now >= self._due(turn) and not turn.late:
                self._overdue(turn)
        self._advance()
        patience = self.conduct.patience + self._turns.slots(self.parties)
        if self.outcome is None and now - self._turns.progress >= patience:
            waited = f"no answer for {patience:.3g} s"
            self.end("stopped", f"{waited}: waiting for {', '.join(self.waiting_for)}; resume when they are back")

    def next_deadline(self) -> float:
        """The time at which `tick` has to be called, if no other event occurs before."""
        turns = [self._due(turn) for turn in self.run.open.values() if not turn.late]
        missed = self._turns.progress + self.conduct.deadline + self._turns.slots(self.parties)
        if (self.conduct.stragglers == "drop" or self.agreement.dropouts) and missed > self._turns.now:
            turns.append(missed)
        if self.talk == "broadcast" and not self.run.open and self._next_offer > self._turns.now:
            turns.append(self._next_offer)
        return min([self._turns.progress + self.conduct.patience + self._turns.slots(self.parties), *turns])

    def _due(self, turn: Turn) -> float:
        """The time at which owners that were asked in a turn are late."""
        return turn.opened + self.conduct.deadline + self._turns.slots(turn.waiting)

    # Turns ----------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Open the turns that can be opened, or end the run where nothing more can be asked."""
        if self.outcome is not None or self._ends_with_its_certificate():
            return
        if self.run.kept:
            self.end("finished", self.run.kept)
        elif self.stepped >= self._queries:
            all_of_them = "the 1 query is" if self.stepped == 1 else f"all {self.stepped} queries are"
            self.end("finished", f"{all_of_them} answered")
        elif not self.run.open and not any(self._turns.may_open(j) for j in range(len(self.run.members))):
            out = "; ".join(f"{name}: {party.out}" for name, party in self.parties.items() if party.out)
            so_far = f"after {self.stepped} of {self._queries} queries ({out})"
            if self.agreement.summed and any(party.answered >= self._m for party in self.parties.values()):
                so_far += "; the answers that were kept for further attempts at a sum are used up"
            if self.run.complete:
                self.end("finished", f"every owner gave all its answers, {so_far}")
            else:
                self.end("stopped", f"no owner can be asked any more, {so_far}{self._what_to_do()}")
        elif self.held:
            self._turns.progress = self._turns.now  # the time of a pause does not count as waiting
        elif self.talk == "choose":
            for j in self._turns.free():
                self._open(j)
        elif self.talk == "broadcast" and not self.run.open and self._turns.now >= self._next_offer:
            new = (name for name in self.parties if name not in self._turns.offered)
            due = {j for j in range(len(self.run.members)) if self._turns.may_ask(j) and self._turns.is_due(j)}
            offered = {name for name in new if self.run.participant_of[name] in due}
            self._turns.offered |= offered
            self._outbox += [(name, Offer(self.run.opened + 1)) for name in sorted(offered)]

    def _what_to_do(self) -> str:
        """Advice where an owner is missing whom resuming cannot bring back: it lost an answer, or is barred; "" otherwise."""
        lost = ", ".join(name for name, party in self.parties.items() if party.lost)
        barred = ", ".join(name for name, party in self.parties.items() if party.barred)
        if not lost and not barred:
            return ""
        in_pilot = self.run.agreed.has_pilot and self.run.phase == 1
        whose = "its one answer of the pilot" if in_pilot else "an answer"
        why = f"{lost} lost {whose} in a crash: it stays paid for, and resuming cannot bring it back"
        if barred:
            why = f"{barred} cannot take part in this run again, and resuming does not change that"
        if not in_pilot:
            return f"; {why}. The model so far is kept; to go on, sign a new agreement for what every owner has left"
        # In full, since 1 - 0.1 as it is written, 0.9, may be more than what the ledger has left.
        tables = zip(self.run.agreed.owner_tables, self.run.agreed.phases[-1].owner_tables, strict=True)
        left = sorted({(whole.epsilon, rest.epsilon) for whole, rest in tables})
        most = ", ".join(f"{rest!r} of {whole:g}" for whole, rest in left[:3]) + ", and so on" * (len(left) > 3)
        return (
            f"; {why}. Sign a new agreement for what every owner has left of its epsilon (at most {most}), without a pilot "
            "(pilot = 0) or with a new one; lifetime_epsilon of each policy must allow what is spent and what that may spend"
        )

    def _ends_with_its_certificate(self) -> bool:
        """Stop the run if the learner's certificate has expired, as later signatures would not verify; returns whether so."""
        if not self._has_expired():
            return False
        self.end("stopped", "the learner's certificate is not valid any more; resume with a new one")
        return True

    def _has_expired(self) -> bool:
        return not self._keys.party.valid_at(datetime.now(UTC))

    def _open(self, participant: int) -> None:
        self._turns.offered.clear()
        if self.offer_interval > 0:
            passed = math.floor((self._turns.now - self._began) / self.offer_interval)
            self._next_offer = self._began + (passed + 1) * self.offer_interval
        θ = self.run.trajectory.query(participant)
        self.store.event("asked", θ, turn=self.run.opened + 1, participant=participant, theta=digest(θ))
        turn = self.run.open[participant]
        turn.opened = self._turns.now
        for name in self.run.members[participant]:
            if self._turns.can_answer(name) and self.parties[name].there:
                self._ask(turn, name)

    def _ask(self, turn: Turn, owner: str) -> None:
        sequence = self.parties[owner].asked + 1
        plain = self.run.query(turn, owner, sequence, self.store.head)
        query = signed_query(self._keys, self.store.run, plain, self.dictionary)
        self.store.event(
            "query",
            turn=turn.number,
            owner=owner,
            sequence=sequence,
            identity=query.identity,
            signature=query.signature,
        )
        self._send(query)

    def _ask_again(self, turn: Turn, owner: str) -> None:
        """Ask again for a lost answer under another identity; a sum needs a new attempt, or continues without the owner."""
        if self.agreement.summed:
            if not self._go_on_without(owner):
                self._abandon(turn)
        else:
            self._ask(turn, owner)

    def _send(self, query: Query) -> None:
        owner = query.owner
        if self.agreement.summed and owner not in self._introduced:
            self._introduced.add(owner)
            together = self.run.members[self.run.participant_of[owner]]
            self._outbox.append((owner, Members(tuple(self.parties[name].certificate for name in together))))
        self._outbox.append((owner, query))

    def _relay(self, turn: Turn) -> SumAttempt:
        if turn.number not in self._relays:
            together = self.run.members[turn.participant]
            query = cast(SumQuery, self.run.query(turn, together[0], 0, ""))
            owners = {name: self._keys.certified(self.parties[name].certificate) for name in together}
            away = [name for name in together if name not in turn.waiting and self.agreement.dropouts]
            attempt = attempt_of(query, self.store.run)
            self._relays[turn.number] = SumAttempt(attempt, owners, self.agreement.dropouts, away)
        return self._relays[turn.number]

    def _abandon_if_broken(self, turn: Turn) -> None:
        """Abandon an attempt that some owners have answered and others begin anew, after this process was started again."""
        if self.agreement.summed and not self.agreement.dropouts and turn.answers and self._relay(turn).lacks_keys:
            self._abandon(turn)

    def _exclude(self, owner: str, reason: str, for_good: bool = False) -> None:
        """Send an owner no more queries, and do not wait for it."""
        party, turn = self.parties[owner], self.run.turn_of(owner)
        party.out, party.barred = reason, party.barred or for_good
        if not self._go_on_without(owner) and turn is not None:
            turn.waiting.pop(owner)
            self._settle(turn)

    def _find_query(self, owner: str, identity: str) -> Asked:
        asked = self.run.asked.get((owner, identity))
        if asked is None:
            raise InvalidInput(f"{owner} speaks of a query that it was never asked")
        return asked

    def _settle(self, turn: Turn) -> None:
        """Close a turn without pending owners: step with the answers so far if `stragglers` allows it, or abandon it.

        A sum without one of its owners is abandoned at once, where none may be missing.
        """
        if self.agreement.summed:
            self._abandon(turn)
        elif turn.waiting:
            return
        elif turn.answers and (self.conduct.stragglers == "drop" or len(self.run.members[turn.participant]) == 1):
            self._step(turn)
        else:
            self._abandon(turn)

    def _overdue(self, turn: Turn) -> None:
        group = len(self.run.members[turn.participant]) > 1
        if self.agreement.dropouts:
            turn.opened, relay = self._turns.now, self._relay(turn)
            if len(relay.expected) - len(relay.silent) >= relay.least:
                self._go_on_without(*relay.silent)
        elif group and (self.conduct.stragglers == "wait" or not turn.answers):
            turn.opened = self._turns.now
        elif group:
            self._step(turn)
        elif self.run.several_at_once:
            turn.late = True
            self.store.event("overdue", turn=turn.number, owners=sorted(turn.waiting))
        elif any(self._turns.may_ask(j) for j in range(len(self.run.members))):
            self._abandon(turn)
        else:
            turn.opened = self._turns.now

    def _abandon(self, turn: Turn) -> None:
        for name in turn.waiting:
            self.parties[name].late = True
        self._relays.pop(turn.number, None)
        self.store.event("abandoned", turn=turn.number, owners=sorted(turn.waiting))

    def _step(self, turn: Turn) -> None:
        self._relays.pop(turn.number, None)
        used = list(turn.survivors) or [name for name in self.run.members[turn.participant] if name in turn.answers]
        data: dict[str, Any] = {
            "turn": turn.number,
            "k": self.stepped + 1,
            "participant": turn.participant,
            "owners": used,
        }
        if turn.waiting:
            data["dropped"] = sorted(turn.waiting)
        self.store.event("stepped", **data)

    def _invalid(self, answer: Answer, query: Query) -> str:
        if answer.fingerprint != self._fingerprint:
            return "it belongs to another agreement"
        # Otherwise an owner could make the run fail its verification by a wrong count.
        if not 1 <= answer.answered <= self._m or answer.answered in self.parties[answer.owner].counts:
            return f"it is said to be number {answer.answered} of {self._m}"
        if answer.chain_head and not re.fullmatch("[0-9a-f]{64}", answer.chain_head):
            return "the head of its ledger is none"
        content = answer_content(self.store.run, query, answer, self.dictionary)
        unsigned = self._unsigned(answer.owner, answer.signature, content)
        return unsigned or self.run.trajectory.unfit(answer.gradient)

    def _unsigned(self, owner: str, signature: str, content: bytes) -> str:
        """Why an owner's signature does not hold; "" where it does."""
        signatory = self._keys.certified(self.parties[owner].certificate)
        if not signatory.signed(signature, content):
            return "its owner did not sign it"
        if not signatory.valid_at(datetime.now(UTC)):
            return "the certificate of its owner is not valid any more"
        return ""

    def end(self, status: Literal["finished", "stopped"], reason: str) -> None:
        """End the run; one that is stopped can be resumed once the reason is removed."""
        self.outcome = Outcome(status, reason)
        self.store.event(status, reason=reason)
        self.closing = Closing(self.store.head, 0)
        self.store.commit()
