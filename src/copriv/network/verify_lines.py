"""What each line of a run's file must be, after the lines before it: `verify` goes through them here.

The chain of hashes, the rule, the names of queries and both sides' signatures are looked at line by line. A line that is
wrong is noted with its number; one after which nothing can be replayed ends the check.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from copriv.errors import CoprivError
from copriv.network.keys import Certified, KeysRefused
from copriv.network.messages import MAX_FRAME, Closing
from copriv.network.signatures import answer_content, closing_content, query_content
from copriv.network.store import START, RunStore, digest, line_hash
from copriv.network.trajectory import Trajectory
from copriv.network.turns import Conduct, Turns, query_identity
from copriv.protocol import Answer, Query
from copriv.types import Array

ROUNDING = 1e-9
"""How far another machine's arithmetic may be from the learner's, of the largest number in θ; one's own is the same."""
_MOST_PROBLEMS = 50


@dataclass(frozen=True)
class Problem:
    """Something that is wrong. `line`: where; None where it is about no line."""

    line: int | None
    what: str

    def __str__(self) -> str:
        return self.what if self.line is None else f"line {self.line}: {self.what}"


class _Broken(Exception):
    """A line that is wrong, in words."""


@dataclass
class _Turn:
    participant: int
    theta: Array
    given: dict[str, Array] = field(default_factory=dict)


@dataclass
class _Answered:
    """One owner's answers."""

    counts: set[int] = field(default_factory=set)
    asked: int = 0
    asked_at: int = 0
    """The line of the newest query."""
    counted: int = 0
    """Its signed count at the end."""
    closed: bool = False
    """Whether it signed that count when everything had been asked of it."""
    certificate: Certified | None = None


class LineCheck:
    def __init__(self, store: RunStore, authority: bytes | None) -> None:
        self._store, self._agreement, self.authority = store, store.agreement, authority
        self.problems: list[Problem] = []
        self.trajectory: Trajectory | None = None
        self._turns = Turns(store.agreement, Conduct(), store.run, 0.0)
        self._one_turn = not self._turns.several_at_once
        self._learner: Certified | None = None
        self._open: dict[int, _Turn] = {}
        """Turns by their numbers."""
        self._newest = self.stepped = 0
        self._queries: dict[str, tuple[int, Query]] = {}
        self._taken: set[str] = set()
        self._owners = {name: _Answered() for name in store.agreement.owner_names}
        self.outcome, self.rounding, self.hashes = "", 0.0, {START: 0}
        self.head, self.lines, self._at = START, 0, 0.0

    def to_the_end(self) -> bool:
        """Look at every line, or at those before one that has no continuation; whether it was all."""
        try:
            for line in self._lines():
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
        return {name: len(owner.counts) for name, owner in self._owners.items()}

    @property
    def missing(self) -> dict[str, int]:
        """See `Verdict`."""
        gaps = {name: max(one.counted, *one.counts, 0) - len(one.counts) for name, one in self._owners.items()}
        return {name: gap for name, gap in gaps.items() if gap}

    @property
    def not_closed(self) -> tuple[str, ...]:
        """See `Verdict`."""
        return tuple(name for name, owner in self._owners.items() if not owner.closed)

    def _lines(self) -> Iterator[tuple[int, float, str, str, str]]:
        self._points = self._store.turns()
        self._asked = {query.identity: (turn, sequence, query) for turn, sequence, query in self._store.queries()}
        self._given = {answer.identity: answer for answer in self._store.answers()}
        yield from self._store.lines()

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
        known: dict[str, Callable[[dict[str, Any]], None]] = {
            "begun": self._begun, "continued": self._continued, "certified": self._certified, "asked": self._point,
            "query": self._query, "answer": self._answer, "stepped": self._step, "abandoned": self._abandoned,
            "finished": self._ended, "stopped": self._ended, "closed": self._closed,
        }  # fmt: skip
        self._at, going = at, True
        try:
            known.get(kind, _nothing)(json.loads(text) | {"kind": kind})
        except _Broken as broken:
            self.wrong(number, str(broken))
            # What does not replay has no continuation; who signed what can be looked at to the end.
            going = (
                kind in ("query", "answer", "certified", "continued", "closed") and len(self.problems) < _MOST_PROBLEMS
            )
        except (CoprivError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
            self.wrong(number, f"it cannot be understood ({error!r:.200})")
            going = False
        self.head = said
        self.hashes[said] = number
        return going

    # Lines --------------------------------------------------------------------------------------------------------

    def _begun(self, said: dict[str, Any]) -> None:
        if self.head != START:
            raise _Broken("a run begins once")
        if (said["run"], said["fingerprint"]) != (self._store.run, self._agreement.fingerprint):
            raise _Broken("it names another run, or another agreement")
        if said["parameters"] != self._store.n_parameters:
            raise _Broken("it names another number of parameters")
        if not 1 <= said["parameters"] <= MAX_FRAME // 8:
            raise _Broken("it names more parameters than a message holds")
        self.trajectory = Trajectory.of(self._agreement, self._store.n_parameters, said["talk"])
        if self.authority is None:
            self.authority = str(said.get("authority", "")).encode() or None
        self._continued(said)

    def _continued(self, said: dict[str, Any]) -> None:
        self._learner = self._party(said.get("learner", ""), "learner", None)

    def _certified(self, said: dict[str, Any]) -> None:
        self._owners[said["owner"]].certificate = self._party(said["certificate"], "owner", said["owner"])

    def _none_is_left(self, but: int | None = None) -> None:
        """A turn that all its owners answered is used at once: a learner that looks at answers does not choose among them."""
        for number, turn in self._open.items():
            if number != but and turn.given.keys() >= set(self._turns.members[turn.participant]):
                raise _Broken(f"turn {number} was answered by all that it asked, and its answers were not used")

    def _point(self, said: dict[str, Any]) -> None:
        self._none_is_left()
        number, trajectory = said["turn"], self._running()
        participant, θ = self._points[number]
        if number != self._newest + 1 or said["participant"] != participant:
            raise _Broken(f"turn {number} is not the next one")
        if participant in {turn.participant for turn in self._open.values()} or (self._one_turn and self._open):
            raise _Broken(f"turn {number} was begun while another was open, which the rule does not do")
        if digest(θ) != said["theta"]:
            raise _Broken(f"the point of turn {number} is not the one that was written down")
        expected = trajectory.query(participant)
        largest = max(1.0, float(np.abs(expected).max(initial=0.0)))
        off = float(np.abs(expected - θ).max(initial=0.0)) / largest if θ.shape == expected.shape else np.inf
        if not off <= ROUNDING:
            raise _Broken(
                f"turn {number} asks at a point to which the agreed rule does not lead from the answers before it (off by "
                f"{off:.3g} of its largest number)"
            )
        self.rounding, self._newest = max(self.rounding, off), number
        self._open[number] = _Turn(participant, np.array(θ))

    def _query(self, said: dict[str, Any]) -> None:
        identity, owner, number = said["identity"], said["owner"], said["turn"]
        turn, sequence, query = self._asked[identity]
        self._owners[owner].asked += 1
        self._owners[owner].asked_at, self._owners[owner].closed = len(self.hashes), False
        if (turn, sequence, query.owner, query.signature) != (number, said["sequence"], owner, said["signature"]):
            raise _Broken(f"the query {identity[:12]}… is not the one that was written down")
        if number not in self._open or owner not in self._turns.members[self._open[number].participant]:
            raise _Broken(f"{owner} was asked in turn {number}, which is not open or not its own")
        if sequence != self._owners[owner].asked or identity != query_identity(
            self._agreement.fingerprint, self._store.run, owner, sequence
        ):
            raise _Broken(f"the query {identity[:12]}… has not the name that follows from the run and its number")
        if query.head != self.head:
            raise _Broken(f"{owner} was told another history than the lines before this one")
        self._queries[identity] = number, query
        self._signed(self._learner, "the learner", query.signature, query_content(self._store.run, query))

    def _answer(self, said: dict[str, Any]) -> None:
        identity, name = said["identity"], said["owner"]
        if identity not in self._queries or identity in self._taken:
            raise _Broken(f"{name} answers what it was not asked, or what was answered")
        (number, query), answer, owner = self._queries[identity], self._given[identity], self._owners[name]
        written = (digest(answer.gradient), answer.answered, answer.chain_head, answer.signature)
        if query.owner != name or written != tuple(
            said[key] for key in ("gradient", "answered", "chain_head", "signature")
        ):
            raise _Broken(f"the answer of {name} is not the one that was written down")
        unfit = self._running().unfit(answer.gradient)
        if unfit:
            raise _Broken(f"the answer of {name} is none: {unfit}")
        self._taken.add(identity)
        if number in self._open:
            self._open[number].given.setdefault(name, answer.gradient)
        self._count(name, owner, answer)
        self._signed(owner.certificate, name, answer.signature, answer_content(self._store.run, query, answer))

    def _count(self, name: str, owner: _Answered, answer: Answer) -> None:
        n = answer.answered
        counted = n in owner.counts
        owner.counts.add(n)
        if not 1 <= n <= self._agreement.answers or counted:
            raise _Broken(f"{name} counts this answer as number {n} of {self._agreement.answers}, which cannot be")

    def _closed(self, said: dict[str, Any]) -> None:
        name, head, n = said["owner"], said["head"], said["answered"]
        owner = self._owners[name]
        if self.hashes.get(head, -1) < owner.asked_at:
            raise _Broken(f"{name} counted its answers before it was asked for the last of them")
        if not max(owner.counts, default=0) <= n <= self._agreement.answers:
            raise _Broken(f"{name} counts {n} answers at the end, which cannot be")
        content = closing_content(self._store.run, name, self._agreement.fingerprint, Closing(head, n))
        self._signed(owner.certificate, name, said["signature"], content)
        owner.counted, owner.closed = max(owner.counted, n), True

    def _step(self, said: dict[str, Any]) -> None:
        number = said["turn"]
        if number not in self._open:
            raise _Broken(f"turn {number} is not open")
        self._none_is_left(but=number)
        turn = self._open.pop(number)
        used = [name for name in self._turns.members[turn.participant] if name in turn.given]
        if said["owners"] != used or not used or said["participant"] != turn.participant:
            raise _Broken(f"turn {number} was answered by {', '.join(used) or 'nobody'}, and the step says otherwise")
        if said["k"] != self.stepped + 1 or said["k"] > self._agreement.queries:
            raise _Broken(f"step {said['k']} is not the next one, or one more than was agreed on")
        self._running().step(turn.participant, {name: turn.given[name] for name in used})
        self.stepped += 1

    def _abandoned(self, said: dict[str, Any]) -> None:
        self._none_is_left()
        if self._open.pop(said["turn"], None) is None:
            raise _Broken(f"turn {said['turn']} is not open")

    def _ended(self, said: dict[str, Any]) -> None:
        self.outcome = said["kind"]
        self._none_is_left()

    def _counts_agree(self) -> None:
        if self.trajectory is None:
            self.wrong(None, "there is no line in it")
        for what, there, noted in (
            ("points", self._points, self._newest),
            ("queries", self._asked, len(self._queries)),
            ("answers", self._given, len(self._taken)),
        ):
            if not self.problems and len(there) != noted:
                self.wrong(None, f"there are {len(there)} {what} in the file, and lines for {noted}")

    # Small things -------------------------------------------------------------------------------------------------

    def wrong(self, line: int | None, what: str) -> None:
        self.problems.append(Problem(line, what))

    def _running(self) -> Trajectory:
        if self.trajectory is None:
            raise _Broken("the run has not begun")
        return self.trajectory

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


def _nothing(_: dict[str, Any]) -> None:
    """Lines that change nothing: who came and went, who was late, what was refused."""
