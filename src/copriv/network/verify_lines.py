"""What each line of a run's file must be, after the lines before it: `verify` goes through them here.

The chain of hashes, the rule, the names of queries and both sides' signatures are looked at line by line. A line that is
wrong is noted with its number; one after which nothing can be replayed ends the check.
"""

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, get_args

import numpy as np

from copriv.errors import CoprivError
from copriv.network.keys import Certified, KeysRefused
from copriv.network.messages import MAX_FRAME, Closing, answer_content, closing_content, model_content, query_content
from copriv.network.run import Run, query_identity
from copriv.network.store import START, Event, RunStore, digest, line_hash
from copriv.network.turns import Talk
from copriv.types import Array

ROUNDING = 1e-9
"""How far another machine's arithmetic may be from the learner's, of the largest number in θ; one's own is the same."""
_MOST_PROBLEMS = 50
_SIGNED = ("query", "answer", "certified", "continued", "closed", "model")
"""Lines that say who signed what, and move nothing."""
_NOT_UNDERSTOOD = (
    CoprivError, LookupError, AttributeError, TypeError, ValueError, ArithmeticError, OSError, RecursionError, MemoryError,
)  # fmt: skip
"""What a line that says anything may be met with."""


@dataclass(frozen=True)
class Problem:
    """Something that is wrong. `line`: where; None where it is about no line."""

    line: int | None
    what: str

    def __str__(self) -> str:
        return self.what if self.line is None else f"line {self.line}: {self.what}"


class _Broken(Exception):
    """A line that is wrong, in words."""


def _must(holds: object, otherwise: str) -> None:
    if not holds:
        raise _Broken(otherwise)


@dataclass(frozen=True)
class Signed:
    """What the learner signed as the run's model, and what stood there."""

    line: int
    digest: str
    theta: Array
    record: dict[str, Any]
    """Of a model file, as it follows from the lines."""


class LineCheck:
    """Checks each line against the run as the lines before it leave it, and then moves the run by it.

    model_head: the line that a model's file names, after which the learner is to have signed it.
    """

    def __init__(self, store: RunStore, authority: bytes | None, model_head: object = None) -> None:
        self._store, self._agreement, self.authority, self._model_head = store, store.agreement, authority, model_head
        self.run = Run(store)
        self.problems: list[Problem] = []
        self.signed: Signed | None = None
        self.signed_last = 0
        """The line of the last model that the learner signed."""
        self._learner: Certified | None = None
        self._owners: dict[str, Certified | None] = {}
        self._asked_at: dict[str, int] = {}
        """The line of the newest query to each owner."""
        self.rounding, self.hashes, self.lines = 0.0, {START: 0}, 0

    def to_the_end(self) -> bool:
        """Look at every line, or at those before one that has no continuation; whether it was all."""
        try:
            for line in self._store.lines():
                self.lines = line[0]
                if not self._follow(*line):
                    return False
        except (TypeError, ValueError, sqlite3.Error) as error:
            self.wrong(None, f"its lines cannot be read ({error!r:.100})")
            return False
        if not self.run.begun:
            self.wrong(None, "there is no line in it")
        try:
            self._none_is_left()
        except _Broken as broken:
            self.wrong(None, f"at its end {broken}")
        return True

    def _follow(self, number: int, at: float, kind: str, text: str, said: str, raw: bytes) -> bool:
        """One line; whether the next one can be looked at."""
        if number != len(self.hashes):
            self.wrong(number, f"it should be line {len(self.hashes)}: lines are missing, or were put in")
            return False
        if line_hash(self.run.head, number, at, kind, text) != said:
            self.wrong(number, "it was changed, or the line before it was: its hash does not follow")
            return False
        if number == 1 and kind != "begun":
            self.wrong(number, "a run begins with the line that says under what")
            return False
        going = True
        try:
            # A line is a table: a TypeError for anything else.
            line = Event(number, at, kind, json.loads(text) | {}, said, np.frombuffer(raw))
            if json.dumps(line.data) != text:
                raise _Broken("a name stands twice in it, or it is not written as a learner writes it")
            if raw and kind not in ("asked", "answer"):
                raise _Broken("it has numbers, which no line of its kind has")
            follows, signed = self._checks.get(kind, (None, None))
            if follows is not None:
                follows(self, line)
            self.run.take(line)
            if signed is not None:
                signed(self, line)
        except _Broken as broken:
            self.wrong(number, str(broken))
            # What does not replay has no continuation; who signed what can be looked at to the end.
            going = kind in _SIGNED and len(self.problems) < _MOST_PROBLEMS
        except _NOT_UNDERSTOOD as error:
            self.wrong(number, f"it cannot be understood ({error!r:.200})")
            going = False
        self.run.head = said
        self.hashes[said] = number
        return going

    # What follows from the lines before -------------------------------------------------------------------------------

    def _begun(self, line: Event) -> None:
        said = line.data
        _must(line.number == 1, "a run begins once")
        about = (self._store.run, self._agreement.fingerprint)
        _must((said["run"], said["fingerprint"]) == about, "it names another run, or another agreement")
        _must(said["parameters"] == self._store.n_parameters, "it names another number of parameters")
        _must(1 <= said["parameters"] <= MAX_FRAME // 8, "it names more parameters than a message holds")
        known = re.fullmatch("([0-9a-f]{64})?", said["dictionary"])
        _must(known, "the fingerprint of its public dictionary is none")
        self._going_on(line)
        if self.authority is None:
            self.authority = str(said.get("authority", "")).encode() or None

    def _going_on(self, line: Event) -> None:
        _must(line.data["talk"] in get_args(Talk), "it names a way to talk that there is none of")

    def _stopped(self, line: Event) -> None:
        self._none_is_left(line)
        _must(isinstance(line.data["reason"], str), "its reason is none in words")

    def _finished(self, line: Event) -> None:
        self._stopped(line)
        _must(
            self.run.complete,
            f"it says that the run finished, after {self.run.stepped} of {self._agreement.queries} queries, and not every "
            f"owner gave its {self._agreement.answers} answers",
        )

    def _none_is_left(self, _: Event | None = None, but: int | None = None) -> None:
        """A turn that all its owners answered is used at once: a learner that looks at answers does not choose among them."""
        for turn in self.run.open.values():
            if turn.number != but and turn.answers.keys() >= set(self.run.members[turn.participant]):
                raise _Broken(f"turn {turn.number} was answered by all that it asked, and its answers were not used")

    def _point(self, line: Event) -> None:
        self._none_is_left(line)
        number, participant, θ, run = line.data["turn"], line.data["participant"], line.numbers, self.run
        _must(number == run.opened + 1, f"turn {number} is not the next one")
        alone = participant not in run.open and (not run.open or run.several_at_once)
        _must(alone, f"turn {number} was begun while another was open, which the rule does not do")
        _must(digest(θ) == line.data["theta"], f"the point of turn {number} is not the one that was written down")
        expected = run.trajectory.query(participant)
        largest = max(1.0, float(np.abs(expected).max(initial=0.0)))
        off = np.inf
        if θ.shape == expected.shape:
            off = float(np.abs(expected - θ).max(initial=0.0)) / largest
        _must(
            off <= ROUNDING,
            f"turn {number} asks at a point to which the agreed rule does not lead from the answers before it (off by "
            f"{off:.3g} of its largest number)",
        )
        self.rounding = max(self.rounding, off)

    def _query(self, line: Event) -> None:
        identity, owner, number, sequence = (line.data[key] for key in ("identity", "owner", "turn", "sequence"))
        self._asked_at[owner] = line.number
        asking = self.run.open.get(self.run.participant_of[owner])
        its_own = asking is not None and asking.number == number
        _must(its_own, f"{owner} was asked in turn {number}, which is not open or not its own")
        assert asking is not None
        before = asking.waiting.get(owner)
        again = owner in asking.answers or (before is not None and not self.run.asked[before.identity].lost)
        _must(not again, f"{owner} was asked again in turn {number}: the learner could choose between its answers")
        named = query_identity(self._agreement.fingerprint, self._store.run, owner, sequence)
        follows = sequence == self.run.parties[owner].asked + 1 and identity == named
        _must(follows, f"the query {identity:.12}… has not the name that follows from the run and its number")

    def _answer(self, line: Event) -> None:
        said, name, m = line.data, line.data["owner"], self._agreement.answers
        asked = self.run.asked.get(said["identity"])
        if asked is None or asked.answer is not None:
            raise _Broken(f"{name} answers what it was not asked, or what was answered")
        _must(not asked.lost, f"{name} answers what it had lost: the learner could choose between its answers")
        written = asked.query.owner == name and digest(line.numbers) == said["gradient"]
        _must(written, f"the answer of {name} is not the one that was written down")
        unfit, n = self.run.trajectory.unfit(line.numbers), said["answered"]
        _must(not unfit, f"the answer of {name} is none: {unfit}")
        counts = self.run.parties[name].counts
        can_be = type(n) is int and 1 <= n <= m and n not in counts  # true is signed as 1 is
        _must(can_be, f"{name} counts this answer as number {n} of {m}, which cannot be")

    def _step(self, line: Event) -> None:
        said, number, turn = line.data, line.data["turn"], self.run.open.get(line.data["participant"])
        if turn is None or turn.number != number:
            raise _Broken(f"turn {number} is not open")
        self._none_is_left(line, but=number)
        used = [name for name in self.run.members[turn.participant] if name in turn.answers]
        whom = ", ".join(used) or "nobody"
        _must(used and said["owners"] == used, f"turn {number} was answered by {whom}, and the step says otherwise")
        next_one = said["k"] == self.run.stepped + 1 and said["k"] <= self._agreement.queries
        _must(next_one, f"step {said['k']} is not the next one, or one more than was agreed on")

    def _abandoned(self, line: Event) -> None:
        self._none_is_left(line)
        number = line.data["turn"]
        _must(number in [turn.number for turn in self.run.open.values()], f"turn {number} is not open")

    # Who signed it ------------------------------------------------------------------------------------------------------

    def _by_learner(self, line: Event) -> None:
        self._learner = self._party(line.data.get("learner", ""), "learner", None)

    def _certified(self, line: Event) -> None:
        self._owners[line.data["owner"]] = self._party(line.data["certificate"], "owner", line.data["owner"])

    def _query_signed(self, line: Event) -> None:
        query = self.run.asked[line.data["identity"]].query
        content = query_content(self._store.run, query, self.run.dictionary)
        self._signed(self._learner, "the learner", query.signature, content, line)

    def _answer_signed(self, line: Event) -> None:
        asked = self.run.asked[line.data["identity"]]
        query, answer = asked.query, asked.answer
        assert answer is not None, "the run has taken it"
        content = answer_content(self._store.run, query, answer, self.run.dictionary)
        self._signed(self._owners.get(answer.owner), answer.owner, answer.signature, content, line)

    def _closed(self, line: Event) -> None:
        """Before the run takes it: a count that its owner did not sign is none."""
        name, head, n = line.data["owner"], line.data["head"], line.data["answered"]
        after = self.hashes.get(head, -1) >= self._asked_at.get(name, 0)
        _must(after, f"{name} counted its answers before it was asked for the last of them")
        can_be = not isinstance(n, bool) and self.run.parties[name].answered <= n <= self._agreement.answers
        _must(can_be, f"{name} counts {n} answers at the end, which cannot be")
        content = closing_content(self._store.run, name, self._agreement.fingerprint, Closing(head, n))
        self._signed(self._owners.get(name), name, line.data["signature"], content, line)

    def _model_signed(self, line: Event) -> None:
        """Before the run takes it: the model's record is as of the line before."""
        if not line.data["signature"]:
            return  # a learner without a valid certificate: its model is not signed, which is said of the model
        run, named = self.run, line.data["sha256"]
        content = model_content(self._store.run, run.head, named)
        self._signed(self._learner, "the learner", line.data["signature"], content, line)
        self.signed_last = line.number
        if run.head == self._model_head:
            self.signed = Signed(line.number, named, run.trajectory.model, run.record())

    _checks: ClassVar[dict[str, tuple[Callable[..., None] | None, Callable[..., None] | None]]] = {
        "begun": (_begun, _by_learner),
        "continued": (_going_on, _by_learner),
        "certified": (None, _certified),
        "asked": (_point, None),
        "query": (_query, _query_signed),
        "answer": (_answer, _answer_signed),
        "stepped": (_step, None),
        "abandoned": (_abandoned, None),
        "finished": (_finished, None),
        "stopped": (_stopped, None),
        "closed": (_closed, None),
        "model": (_model_signed, None),
    }
    """Of each kind of line: whether it follows from those before it, and whether everybody signed their part of it."""

    # Small things -------------------------------------------------------------------------------------------------

    def wrong(self, line: int | None, what: str) -> None:
        self.problems.append(Problem(line, what))

    def _party(self, certificate: object, role: str, name: str | None) -> Certified | None:
        if not isinstance(certificate, str):
            raise _Broken(f"the {role}'s certificate is none")
        if not certificate or self.authority is None:
            return None  # then whatever it should have signed is not signed
        try:
            party = Certified.by(self.authority, certificate)
        except KeysRefused:
            raise _Broken(f"the {role}'s certificate is not of this consortium's authority") from None
        whose = f"the certificate of {name or f'the {role}'}"
        right = party.role == role and name in (None, party.name)
        _must(right, f"{whose} is that of {party.name}, a {party.role}")
        agreed = self._agreement.agreement.learner_key
        if name is not None:
            agreed = self._agreement.owner_keys.get(name)
        named = agreed in (None, party.key_fingerprint)
        _must(named, f"{whose} is for another key than the one that was agreed on")
        return party

    def _signed(self, party: Certified | None, who: str, signature: str, content: bytes, line: Event) -> None:
        if party is None or not signature:
            raise _Broken(f"{who} did not sign it")
        _must(party.signed(signature, content), f"it is not what {who} signed")
        valid = party.valid_at(datetime.fromtimestamp(line.time, UTC))
        _must(valid, f"the certificate of {who} was not valid at its time")
