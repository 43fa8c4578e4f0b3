"""Verification of each line of a run's file, given the lines before it, for `verify`.

Checks are the chain of hashes, the rule, the identities of queries, and the signatures of both sides. A wrong line is
reported with its number; one after which the run cannot be replayed ends the verification.
"""

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, cast, get_args

import numpy as np

from copriv.agreement import Agreement
from copriv.errors import AgreementError, CoprivError
from copriv.network.keys import Certified, KeysRefused
from copriv.network.masked_sum import opened_content
from copriv.network.messages import (
    MAX_FRAME,
    Closing,
    SumQuery,
    answer_content,
    closing_content,
    model_content,
    phase_content,
    query_content,
)
from copriv.network.run import Run, Turn
from copriv.network.store import START, Event, RunStore, digest, line_hash
from copriv.network.sum_messages import attempt_of
from copriv.network.turns import Talk
from copriv.privacy.shared_noise import as_words
from copriv.types import Array

ROUNDING = 1e-9
"""Tolerance for another machine's arithmetic (`off_by`); on the same machine the error is 0."""
_SIGNED = ("query", "answer", "opened", "certified", "continued", "closed", "model")
"""Kinds of lines that hold signatures and do not move the model."""
_UNREADABLE = (
    CoprivError, LookupError, AttributeError, TypeError, ValueError, ArithmeticError, OSError, RecursionError, MemoryError,
)  # fmt: skip
"""Errors that reading the content of a line can raise, for content that no learner writes."""


@dataclass(frozen=True)
class Problem:
    """A problem, and the number of its line; None where it concerns no single line."""

    line: int | None
    what: str

    def __str__(self) -> str:
        if self.line is None:
            return self.what
        return f"line {self.line}: {self.what}"


class _LineWrong(Exception):
    """Problem of the line that is checked."""


def _require(holds: object, otherwise: str) -> None:
    if not holds:
        raise _LineWrong(otherwise)


def off_by(found: Array, expected: Array, reached: Array) -> float:
    """Largest difference of two θ in one number, in units of the largest size that it had; infinite for other shapes.

    reached: that size, over the run. Numbers below a thousandth of the largest one count as that: arithmetic mixes them.
    """
    if found.shape != expected.shape:
        return float(np.inf)
    size = np.maximum(reached, np.abs(expected))
    size = np.maximum(size, 1e-3 * size.max(initial=0.0))
    apart = np.abs(found - expected)
    return float(np.divide(apart, size, out=np.where(apart > 0, np.inf, 0.0), where=size > 0).max(initial=0.0))


@dataclass(frozen=True)
class Signed:
    """The run's model at a line by which the learner signed it."""

    line: int
    digest: str
    theta: Array
    record: dict[str, Any]
    """Record of the model's file, as it follows from the lines."""


class LineCheck:
    """Checks each line against the state of the run before it, and then updates the run by it.

    model_head: the head that a model's file names, after which the learner should have signed the model.
    """

    def __init__(self, store: RunStore, authority: bytes | None, model_head: object = None) -> None:
        self._store, self.authority, self._model_head = store, authority, model_head
        self.run = Run(store)
        self.problems: list[Problem] = []
        self.signed: Signed | None = None
        self.signed_last = 0
        """Number of the line by which the learner last signed a model."""
        self._learner: Certified | None = None
        self._owners: dict[str, Certified | None] = {}
        self._asked_at: dict[str, int] = {}
        """Number of the line of the newest query, by owner."""
        self.rounding, self.hashes, self.lines = 0.0, {START: 0}, 0
        self.reached: Array = np.zeros(1)
        """Largest size of each number of θ at which owners were to be asked so far."""

    @property
    def _agreement(self) -> Agreement:
        """The agreement of the present phase."""
        return self.run.agreement

    def to_the_end(self) -> bool:
        """Check the lines up to one after which the run cannot be replayed; returns whether all were checked."""
        try:
            for line in self._store.lines():
                self.lines = line[0]
                if not self._check_line(*line):
                    return False
        except (TypeError, ValueError, sqlite3.Error) as error:
            self.wrong(None, f"its lines cannot be read ({error!r:.100})")
            return False
        if not self.run.begun:
            self.wrong(None, "there is no line in it")
        try:
            self._check_answers_used()
        except _LineWrong as broken:
            self.wrong(None, f"at its end {broken}")
        return True

    def _check_line(self, number: int, at: float, kind: str, text: str, said: str, raw: bytes) -> bool:
        """Check one line; returns whether the next one can be checked."""
        if number != len(self.hashes):
            self.wrong(number, f"it should be line {len(self.hashes)}: lines are missing, or were put in")
            return False
        if line_hash(self.run.head, number, at, kind, text) != said:
            self.wrong(number, "it was changed, or the line before it was: its hash does not follow")
            return False
        if number == 1 and kind != "begun":
            self.wrong(number, "a run begins with the line that says under what")
            return False
        goes_on = True
        try:
            # Anything but a mapping raises a TypeError.
            line = Event(number, at, kind, json.loads(text) | {}, said, np.frombuffer(raw))
            if json.dumps(line.data) != text:
                raise _LineWrong("a name stands twice in it, or it is not written as a learner writes it")
            if raw and kind not in ("asked", "answer", "opened"):
                raise _LineWrong("it has numbers, which no line of its kind has")
            follows, signed = self._checks.get(kind, (None, None))
            if follows is not None:
                follows(self, line)
            self.run.take(line)
            if signed is not None:
                signed(self, line)
        except _LineWrong as broken:
            self.wrong(number, str(broken))
            # A run that cannot be replayed ends here; signatures can be checked to the end, or to the 50th problem.
            goes_on = kind in _SIGNED and len(self.problems) < 50
        except _UNREADABLE as error:
            self.wrong(number, f"it cannot be understood ({error!r:.200})")
            goes_on = False
        self.run.head = said
        self.hashes[said] = number
        return goes_on

    # What must follow from the earlier lines --------------------------------------------------------------------------

    def _begun(self, line: Event) -> None:
        said, run, agreed = line.data, self.run, self.run.agreed
        phase = said.get("phase", 1)
        if line.number == 1:
            _require(phase == 1, "a run begins with its first phase")
        else:
            _require(run.awaits_decision and phase == 2, "a phase begins once, after the one before it is finished")
            _require(said["dictionary"] == run.dictionary, "its public dictionary is another than that of the pilot")
            self._check_known(line)
        _require(("signature" in said) == agreed.has_pilot, "phases are those of an agreement with a pilot, and signed")
        if agreed.has_pilot:
            _require(phase == 2 or said["chosen"] == {}, "the terms of the pilot are agreed, and not chosen")
            try:
                agreed.chosen_run(said["chosen"])
            except AgreementError as error:
                raise _LineWrong(f"phase {phase} has terms that were not agreed: {error}") from None
        about = (self._store.run, agreed.fingerprint)
        _require((said["run"], said["fingerprint"]) == about, "it names another run, or another agreement")
        _require(said["parameters"] == self._store.n_parameters, "it names another number of parameters")
        _require(1 <= said["parameters"] <= MAX_FRAME // 8, "it names more parameters than a message holds")
        known = re.fullmatch("([0-9a-f]{64})?", said["dictionary"])
        _require(known, "the fingerprint of its public dictionary is none")
        self._check_talk(line)
        if self.authority is None:
            self.authority = str(said.get("authority", "")).encode() or None

    def _phase_signed(self, line: Event) -> None:
        self._learner_certified(line)
        if self.run.agreed.has_pilot:
            terms = self._agreement.fingerprint
            content = phase_content(self._store.run, self.run.agreed.fingerprint, self.run.phase, terms)
            self._signed(self._learner, "the learner", line.data["signature"], content, line)

    def _kept(self, line: Event) -> None:
        _require(self.run.awaits_decision, "a budget is kept once a pilot is finished, and nothing follows it")
        _require(isinstance(line.data["reason"], str) and line.data["reason"], "its reason is none in words")
        self._check_known(line)

    def _check_known(self, line: Event) -> None:
        known = line.data["known"]
        said = isinstance(known, dict) and {"public", "before", "after"} <= known.keys()
        _require(said, "it does not say what the pilot told, by which what follows is computed again")
        signed = self.run.agreed.agreement.pilot_terms
        as_signed = signed is None or signed.public in (None, known["public"])
        _require(
            as_signed, "what follows was planned on other public rows than those that were signed before the pilot"
        )

    def _check_talk(self, line: Event) -> None:
        talk, agreed = line.data["talk"], self._agreement.agreement.agreed_talk
        _require(talk in get_args(Talk), "it names a way to talk that there is none of")
        _require(agreed in (None, talk), f"its owners got their turns by {talk!r}, and {agreed!r} is agreed")

    def _stopped(self, line: Event) -> None:
        self._check_answers_used(line)
        _require(isinstance(line.data["reason"], str), "its reason is none in words")

    def _finished(self, line: Event) -> None:
        self._stopped(line)
        _require(
            self.run.complete,
            f"it says that the run finished, after {self.run.stepped} of {self._agreement.queries} queries, and not every "
            f"owner gave its {self._agreement.answers} answers",
        )

    def _check_answers_used(self, _: Event | None = None, but: int | None = None) -> None:
        """A turn that all its owners answered must be used at once, so that the learner cannot choose among answers."""
        for turn in self.run.open.values():
            used_by = turn.answers if not self._agreement.dropouts else turn.parts  # without them the sum is not known
            if turn.number != but and len(used_by) >= self._fewest(turn):
                raise _LineWrong(f"turn {turn.number} was answered by all that it asked, and its answers were not used")

    def _asked(self, line: Event) -> None:
        self._check_answers_used(line)
        number, participant, θ, run = line.data["turn"], line.data["participant"], line.numbers, self.run
        _require(number == run.opened + 1, f"turn {number} is not the next one")
        alone = participant not in run.open and (not run.open or run.several_at_once)
        _require(alone, f"turn {number} was begun while another was open, which the rule does not do")
        _require(digest(θ) == line.data["theta"], f"the point of turn {number} is not the one that was written down")
        expected = run.trajectory.query(participant)
        self.reached = np.maximum(self.reached, np.abs(expected))
        off = off_by(θ, expected, self.reached)
        _require(
            off <= ROUNDING,
            f"turn {number} asks at a point to which the agreed rule does not lead from the answers before it (off by "
            f"{off:.3g} of the largest that its numbers were)",
        )
        self.rounding = max(self.rounding, off)

    def _query(self, line: Event) -> None:
        identity, owner, number, sequence = (line.data[key] for key in ("identity", "owner", "turn", "sequence"))
        self._asked_at[owner] = line.number
        asking = self.run.open.get(self.run.participant_of[owner])
        its_own = asking is not None and asking.number == number
        _require(its_own, f"{owner} was asked in turn {number}, which is not open or not its own")
        assert asking is not None
        before = asking.waiting.get(owner)
        lost = before is not None and not self._agreement.summed and self.run.asked[owner, before.identity].lost
        again = owner in asking.answers or (before is not None and not lost)
        _require(not again, f"{owner} was asked again in turn {number}: the learner could choose between its answers")
        named = self.run.query(asking, owner, sequence, "").identity
        follows = sequence == self.run.parties[owner].asked + 1 and identity == named
        _require(follows, f"the query {identity:.12}… has not the name that follows from the run and its number")

    def _answer(self, line: Event) -> None:
        said, name, m = line.data, line.data["owner"], self._agreement.answers
        asked = self.run.asked.get((name, said["identity"]))
        if asked is None or asked.answer is not None:
            raise _LineWrong(f"{name} answers what it was not asked, or what was answered")
        _require(not asked.lost, f"{name} answers what it had lost: the learner could choose between its answers")
        written = digest(line.numbers) == said["gradient"]
        _require(written, f"the answer of {name} is not the one that was written down")
        unfit, n = self.run.trajectory.unfit(line.numbers), said["answered"]
        _require(not unfit, f"the answer of {name} is none: {unfit}")
        counts = self.run.parties[name].counts
        can_be = type(n) is int and 1 <= n <= m and n not in counts  # True would be signed as 1 is
        _require(can_be, f"{name} counts this answer as number {n} of {m}, which cannot be")

    def _step(self, line: Event) -> None:
        said, number, turn = line.data, line.data["turn"], self.run.open.get(line.data["participant"])
        if turn is None or turn.number != number:
            raise _LineWrong(f"turn {number} is not open")
        self._check_answers_used(line, but=number)
        used = list(turn.survivors) or [name for name in self.run.members[turn.participant] if name in turn.answers]
        whom = ", ".join(used) or "nobody"
        _require(used and said["owners"] == used, f"turn {number} was answered by {whom}, and the step says otherwise")
        whole = not self._agreement.summed or len(used) >= self._fewest(turn)
        _require(whole, f"turn {number} was answered by {whom} alone, which is no sum of all owners")
        next_one = said["k"] == self.run.stepped + 1 and said["k"] <= self._agreement.queries
        _require(next_one, f"step {said['k']} is not the next one, or one more than was agreed on")

    def _fewest(self, turn: Turn) -> int:
        """Least number of owners in a turn's sum, and of owners that open its mask."""
        return len(self.run.members[turn.participant]) - self._agreement.dropouts

    def _survivors(self, line: Event) -> None:
        turn, members = self.run.turn_numbered(line.data["turn"]), self.run.members
        names, owners = line.data["names"], line.data["owners"]
        _require(self._agreement.dropouts and not turn.survivors, f"whose sum turn {turn.number} is was known")
        for few, of in ((owners, names), (names, members[turn.participant])):
            _require(
                few == [name for name in of if name in few], f"turn {turn.number} names owners that are not its own"
            )
            _require(len(few) >= self._fewest(turn), f"turn {turn.number} is the sum of too few owners")
        _require(turn.answers.keys() >= set(owners), f"turn {turn.number} is the sum of owners that gave no answer")

    def _opened(self, line: Event) -> None:
        turn, name, words = self.run.turn_numbered(line.data["turn"]), line.data["owner"], line.numbers
        _require(name in turn.names and name not in turn.parts, f"{name} has no part in the mask, or gave it before")
        _require(digest(words) == line.data["words"], f"the part of {name} is not the one that was written down")
        unfit = self.run.trajectory.unfit(words, opened=True)
        _require(not unfit, f"the part of {name} in the mask is none: {unfit}")

    def _opened_signed(self, line: Event) -> None:
        turn, name = self.run.turn_numbered(line.data["turn"]), line.data["owner"]
        first = next(iter(self.run.members[turn.participant]))
        attempt = attempt_of(cast(SumQuery, self.run.query(turn, first, 0, "")), self._store.run)
        content = opened_content(attempt, name, turn.names, turn.survivors, as_words(line.numbers))
        self._signed(self._owners.get(name), name, line.data["signature"], content, line)

    def _abandoned(self, line: Event) -> None:
        self._check_answers_used(line)
        number = line.data["turn"]
        _require(number in [turn.number for turn in self.run.open.values()], f"turn {number} is not open")

    # Signatures ---------------------------------------------------------------------------------------------------------

    def _learner_certified(self, line: Event) -> None:
        self._learner = self._party(line.data.get("learner", ""), "learner", None)

    def _certified(self, line: Event) -> None:
        self._owners[line.data["owner"]] = self._party(line.data["certificate"], "owner", line.data["owner"])

    def _query_signed(self, line: Event) -> None:
        query = self.run.asked[line.data["owner"], line.data["identity"]].query
        content = query_content(self._store.run, query, self.run.dictionary)
        self._signed(self._learner, "the learner", query.signature, content, line)

    def _answer_signed(self, line: Event) -> None:
        asked = self.run.asked[line.data["owner"], line.data["identity"]]
        query, answer = asked.query, asked.answer
        assert answer is not None, "the run has taken it"
        content = answer_content(self._store.run, query, answer, self.run.dictionary)
        self._signed(self._owners.get(answer.owner), answer.owner, answer.signature, content, line)

    def _closed(self, line: Event) -> None:
        """Checked before the run takes the line, so that only a signed count is taken."""
        name, head, n, before = *(line.data[key] for key in ("owner", "head", "answered")), line.data.get("before", 0)
        after = self.hashes.get(head, -1) >= self._asked_at.get(name, 0)
        _require(after, f"{name} counted its answers before it was asked for the last of them")
        can_be = not isinstance(n, bool) and self.run.parties[name].answered <= n <= self._agreement.answers
        _require(can_be, f"{name} counts {n} answers at the end, which cannot be")
        can_be = not isinstance(before, bool) and self.run.may_have_given(name, before)
        _require(can_be, f"{name} counts {before} answers before this phase, which cannot be")
        closing = Closing(head, n, before=before)
        content = closing_content(self._store.run, name, self._agreement.fingerprint, closing)
        self._signed(self._owners.get(name), name, line.data["signature"], content, line)

    def _model_signed(self, line: Event) -> None:
        """Checked before the run takes the line, since the model's record is as of the line before."""
        if not line.data["signature"]:
            return  # the learner's certificate had expired: `verify` reports that the model is not signed
        run, named = self.run, line.data["sha256"]
        content = model_content(self._store.run, run.head, named)
        self._signed(self._learner, "the learner", line.data["signature"], content, line)
        self.signed_last = line.number
        if run.head == self._model_head:
            self.signed = Signed(line.number, named, run.trajectory.model, run.record())

    _checks: ClassVar[dict[str, tuple[Callable[..., None] | None, Callable[..., None] | None]]] = {
        "begun": (_begun, _phase_signed),
        "kept": (_kept, None),
        "continued": (_check_talk, _learner_certified),
        "certified": (None, _certified),
        "asked": (_asked, None),
        "query": (_query, _query_signed),
        "answer": (_answer, _answer_signed),
        "survivors": (_survivors, None),
        "opened": (_opened, _opened_signed),
        "stepped": (_step, None),
        "abandoned": (_abandoned, None),
        "finished": (_finished, None),
        "stopped": (_stopped, None),
        "closed": (_closed, None),
        "model": (_model_signed, None),
    }
    """Checks of a line before and after the run takes it, by kind of line."""

    def wrong(self, line: int | None, what: str) -> None:
        """Report a problem."""
        self.problems.append(Problem(line, what))

    def _party(self, certificate: object, role: str, name: str | None) -> Certified | None:
        if not isinstance(certificate, str):
            raise _LineWrong(f"the {role}'s certificate is none")
        if not certificate or self.authority is None:
            return None  # everything that it should have signed then counts as not signed
        try:
            party = Certified.by(self.authority, certificate)
        except KeysRefused:
            raise _LineWrong(f"the {role}'s certificate is not of this consortium's authority") from None
        whose = f"the certificate of {name or f'the {role}'}"
        right = party.role == role and name in (None, party.name)
        _require(right, f"{whose} is that of {party.name}, a {party.role}")
        agreed = self._agreement.agreement.learner_key
        if name is not None:
            agreed = self._agreement.owner_keys.get(name)
        named = agreed in (None, party.key_fingerprint)
        _require(named, f"{whose} is for another key than the one that was agreed on")
        return party

    def _signed(self, party: Certified | None, who: str, signature: str, content: bytes, line: Event) -> None:
        if party is None or not signature:
            raise _LineWrong(f"{who} did not sign it")
        _require(party.signed(signature, content), f"it is not what {who} signed")
        valid = party.valid_at(datetime.fromtimestamp(line.time, UTC))
        _require(valid, f"the certificate of {who} was not valid at its time")
