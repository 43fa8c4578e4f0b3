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
from typing import Any, ClassVar

import numpy as np

from copriv.errors import CoprivError
from copriv.network.keys import Certified, KeysRefused
from copriv.network.messages import MAX_FRAME, Closing
from copriv.network.record import record_of
from copriv.network.run import Run, Tables, query_identity
from copriv.network.signatures import answer_content, closing_content, model_content, query_content
from copriv.network.store import START, RunStore, digest, line_hash
from copriv.types import Array

ROUNDING = 1e-9
"""How far another machine's arithmetic may be from the learner's, of the largest number in θ; one's own is the same."""
_MOST_PROBLEMS = 50
_SIGNED = ("query", "answer", "certified", "continued", "closed", "model")
"""Lines that say who signed what, and move nothing."""
_NOT_UNDERSTOOD = (
    CoprivError, LookupError, TypeError, ValueError, ArithmeticError, OSError, RecursionError, MemoryError,
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


@dataclass(frozen=True)
class Signed:
    """What the learner signed as the run's model, and what stood there."""

    line: int
    digest: str
    theta: Array
    stepped: int
    record: dict[str, Any]
    """Of a model file, as it follows from the lines."""


class LineCheck:
    """Checks each line against the run as the lines before it leave it, and then moves the run by it.

    model_head: the line that a model's file names, after which the learner is to have signed it.
    """

    def __init__(self, store: RunStore, authority: bytes | None, model_head: object = None) -> None:
        self._store, self._agreement, self.authority = store, store.agreement, authority
        self.run = Run(store.agreement, store.run, store.n_parameters)
        self.problems: list[Problem] = []
        self._model_head = model_head
        self.signed: Signed | None = None
        self.signed_last = 0
        """The line of the last model that the learner signed."""
        self._learner: Certified | None = None
        self._owners: dict[str, Certified | None] = {}
        self._asked_at: dict[str, int] = {}
        """The line of the newest query to each owner."""
        self.rounding, self.hashes = 0.0, {START: 0}
        self.head, self.lines, self._at = START, 0, 0.0

    def to_the_end(self) -> bool:
        """Look at every line, or at those before one that has no continuation; whether it was all."""
        try:
            self._tables = Tables(self._store)
            for line in self._store.lines():
                self.lines = line[0]
                if not self._follow(*line):
                    return False
        except (KeyError, TypeError, ValueError, sqlite3.Error) as error:
            self.wrong(None, f"its tables do not fit together ({error!r:.100})")
            return False
        self._counts_agree()
        return True

    @property
    def answers(self) -> dict[str, int]:
        """See `Verdict`."""
        return {name: len(party.counts) for name, party in self.run.parties.items()}

    @property
    def missing(self) -> dict[str, int]:
        """See `Verdict`."""
        return {name: gap for name, party in self.run.parties.items() if (gap := party.answered - len(party.counts))}

    @property
    def not_closed(self) -> tuple[str, ...]:
        """See `Verdict`."""
        return tuple(name for name, party in self.run.parties.items() if not party.closed)

    def _follow(self, number: int, at: float, kind: str, text: str, said: str) -> bool:
        """One line; whether the next one can be looked at."""
        if number != len(self.hashes):
            self.wrong(number, f"it should be line {len(self.hashes)}: lines are missing, or were put in")
            return False
        if line_hash(self.head, number, at, kind, text) != said:
            self.wrong(number, "it was changed, or the line before it was: its hash does not follow")
            return False
        if number == 1 and kind != "begun":
            self.wrong(number, "a run begins with the line that says under what")
            return False
        self._at, going = at, True
        try:
            data = json.loads(text) | {}  # a line is a table: a TypeError for anything else
            follows, signed = self._checks.get(kind, (None, None))
            if follows is not None:
                follows(self, data)
            self.run.take(kind, at, data, self._tables.of(kind, data))
            if signed is not None:
                signed(self, data)
        except _Broken as broken:
            self.wrong(number, str(broken))
            # What does not replay has no continuation; who signed what can be looked at to the end.
            going = kind in _SIGNED and len(self.problems) < _MOST_PROBLEMS
        except _NOT_UNDERSTOOD as error:
            self.wrong(number, f"it cannot be understood ({error!r:.200})")
            going = False
        self.head = said
        self.hashes[said] = number
        return going

    # What follows from the lines before -------------------------------------------------------------------------------

    def _begun(self, said: dict[str, Any]) -> None:
        if self.head != START:
            raise _Broken("a run begins once")
        if (said["run"], said["fingerprint"]) != (self._store.run, self._agreement.fingerprint):
            raise _Broken("it names another run, or another agreement")
        if said["parameters"] != self._store.n_parameters:
            raise _Broken("it names another number of parameters")
        if not 1 <= said["parameters"] <= MAX_FRAME // 8:
            raise _Broken("it names more parameters than a message holds")
        if not re.fullmatch("([0-9a-f]{64})?", said["dictionary"]):
            raise _Broken("the fingerprint of its public dictionary is none")
        if self.authority is None:
            self.authority = str(said.get("authority", "")).encode() or None

    def _finished(self, said: dict[str, Any]) -> None:
        self._none_is_left(said)
        if not self.run.complete:
            raise _Broken(
                f"it says that the run finished, after {self.run.stepped} of {self._agreement.queries} queries, and not every "
                f"owner gave its {self._agreement.answers} answers"
            )

    def _none_is_left(self, _: dict[str, Any], but: int | None = None) -> None:
        """A turn that all its owners answered is used at once: a learner that looks at answers does not choose among them."""
        for turn in self.run.open.values():
            if turn.number != but and turn.answers.keys() >= set(self.run.members[turn.participant]):
                raise _Broken(f"turn {turn.number} was answered by all that it asked, and its answers were not used")

    def _point(self, said: dict[str, Any]) -> None:
        self._none_is_left(said)
        number, run = said["turn"], self.run
        participant, θ = self._tables.points[number]
        if number != run.opened + 1 or said["participant"] != participant:
            raise _Broken(f"turn {number} is not the next one")
        if participant in run.open or (run.open and not run.several_at_once):
            raise _Broken(f"turn {number} was begun while another was open, which the rule does not do")
        if digest(θ) != said["theta"]:
            raise _Broken(f"the point of turn {number} is not the one that was written down")
        expected = run.trajectory.query(participant)
        largest = max(1.0, float(np.abs(expected).max(initial=0.0)))
        off = float(np.abs(expected - θ).max(initial=0.0)) / largest if θ.shape == expected.shape else np.inf
        if not off <= ROUNDING:
            raise _Broken(
                f"turn {number} asks at a point to which the agreed rule does not lead from the answers before it (off by "
                f"{off:.3g} of its largest number)"
            )
        self.rounding = max(self.rounding, off)

    def _query(self, said: dict[str, Any]) -> None:
        identity, owner, number = said["identity"], said["owner"], said["turn"]
        turn, sequence, query = self._tables.queries[identity]
        self._asked_at[owner] = self.lines
        if (turn, sequence, query.owner, query.signature) != (number, said["sequence"], owner, said["signature"]):
            raise _Broken(f"the query {identity[:12]}… is not the one that was written down")
        asking = self.run.open.get(self.run.participant_of[owner])
        if asking is None or asking.number != number:
            raise _Broken(f"{owner} was asked in turn {number}, which is not open or not its own")
        if sequence != self.run.parties[owner].asked + 1 or identity != query_identity(
            self._agreement.fingerprint, self._store.run, owner, sequence
        ):
            raise _Broken(f"the query {identity[:12]}… has not the name that follows from the run and its number")

    def _answer(self, said: dict[str, Any]) -> None:
        identity, name = said["identity"], said["owner"]
        asked = self.run.asked.get(identity)
        if asked is None or asked.answer is not None:
            raise _Broken(f"{name} answers what it was not asked, or what was answered")
        answer = self._tables.answers[identity]
        written = (digest(answer.gradient), answer.answered, answer.chain_head, answer.signature)
        if asked.query.owner != name or written != tuple(
            said[key] for key in ("gradient", "answered", "chain_head", "signature")
        ):
            raise _Broken(f"the answer of {name} is not the one that was written down")
        unfit = self.run.trajectory.unfit(answer.gradient)
        if unfit:
            raise _Broken(f"the answer of {name} is none: {unfit}")
        n, m = answer.answered, self._agreement.answers
        if not 1 <= n <= m or n in self.run.parties[name].counts:
            raise _Broken(f"{name} counts this answer as number {n} of {m}, which cannot be")

    def _step(self, said: dict[str, Any]) -> None:
        number, turn = said["turn"], self.run.open.get(said["participant"])
        if turn is None or turn.number != number:
            raise _Broken(f"turn {number} is not open")
        self._none_is_left(said, but=number)
        used = [name for name in self.run.members[turn.participant] if name in turn.answers]
        if said["owners"] != used or not used:
            raise _Broken(f"turn {number} was answered by {', '.join(used) or 'nobody'}, and the step says otherwise")
        if said["k"] != self.run.stepped + 1 or said["k"] > self._agreement.queries:
            raise _Broken(f"step {said['k']} is not the next one, or one more than was agreed on")

    def _abandoned(self, said: dict[str, Any]) -> None:
        self._none_is_left(said)
        if said["turn"] not in [turn.number for turn in self.run.open.values()]:
            raise _Broken(f"turn {said['turn']} is not open")

    # Who signed it ------------------------------------------------------------------------------------------------------

    def _by_learner(self, said: dict[str, Any]) -> None:
        self._learner = self._party(said.get("learner", ""), "learner", None)

    def _certified(self, said: dict[str, Any]) -> None:
        self._owners[said["owner"]] = self._party(said["certificate"], "owner", said["owner"])

    def _query_signed(self, said: dict[str, Any]) -> None:
        query = self.run.asked[said["identity"]].query
        if query.head != self.head:
            raise _Broken(f"{query.owner} was told another history than the lines before this one")
        content = query_content(self._store.run, query, self.run.dictionary)
        self._signed(self._learner, "the learner", query.signature, content)

    def _answer_signed(self, said: dict[str, Any]) -> None:
        query, answer = self.run.asked[said["identity"]].query, self._tables.answers[said["identity"]]
        content = answer_content(self._store.run, query, answer, self.run.dictionary)
        self._signed(self._owners.get(answer.owner), answer.owner, answer.signature, content)

    def _closed(self, said: dict[str, Any]) -> None:
        """Before the run takes it: a count that its owner did not sign is none."""
        name, head, n = said["owner"], said["head"], said["answered"]
        if self.hashes.get(head, -1) < self._asked_at.get(name, 0):
            raise _Broken(f"{name} counted its answers before it was asked for the last of them")
        if not self.run.parties[name].answered <= n <= self._agreement.answers:
            raise _Broken(f"{name} counts {n} answers at the end, which cannot be")
        content = closing_content(self._store.run, name, self._agreement.fingerprint, Closing(head, n))
        self._signed(self._owners.get(name), name, said["signature"], content)

    def _model_signed(self, said: dict[str, Any]) -> None:
        if not said["signature"]:
            return  # a learner without a valid certificate: its model is not signed, which is said of the model
        content = model_content(self._store.run, self.head, said["sha256"])
        self._signed(self._learner, "the learner", said["signature"], content)
        self.signed_last = self.lines
        if self.head == self._model_head:
            record, θ = record_of(self.run, self.head), self.run.trajectory.model
            self.signed = Signed(self.lines, said["sha256"], θ, self.run.stepped, record)

    _checks: ClassVar[dict[str, tuple[Callable[..., None] | None, Callable[..., None] | None]]] = {
        "begun": (_begun, _by_learner),
        "continued": (None, _by_learner),
        "certified": (None, _certified),
        "asked": (_point, None),
        "query": (_query, _query_signed),
        "answer": (_answer, _answer_signed),
        "stepped": (_step, None),
        "abandoned": (_abandoned, None),
        "finished": (_finished, None),
        "stopped": (_none_is_left, None),
        "closed": (_closed, None),
        "model": (None, _model_signed),
    }
    """Of each kind of line: whether it follows from those before it, and whether everybody signed their part of it."""

    def _counts_agree(self) -> None:
        if not self.run.begun:
            self.wrong(None, "there is no line in it")
        answered = sum(asked.answer is not None for asked in self.run.asked.values())
        for what, there, noted in (
            ("points", self._tables.points, self.run.opened),
            ("queries", self._tables.queries, len(self.run.asked)),
            ("answers", self._tables.answers, answered),
        ):
            if not self.problems and len(there) != noted:
                self.wrong(None, f"there are {len(there)} {what} in the file, and lines for {noted}")

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
        if party.role != role or (name is not None and party.name != name):
            raise _Broken(f"the certificate of {name or f'the {role}'} is that of {party.name}, a {party.role}")
        agreed = self._agreement.agreement.learner_key if name is None else self._agreement.owner_keys.get(name)
        if agreed not in (None, party.key_fingerprint):
            raise _Broken(
                f"the certificate of {name or f'the {role}'} is for another key than the one that was agreed on"
            )
        return party

    def _signed(self, party: Certified | None, who: str, signature: str, content: bytes) -> None:
        if party is None or not signature:
            raise _Broken(f"{who} did not sign it")
        if not party.signed(signature, content):
            raise _Broken(f"it is not what {who} signed")
        if not party.valid_at(datetime.fromtimestamp(self._at, UTC)):
            raise _Broken(f"the certificate of {who} was not valid at its time")
