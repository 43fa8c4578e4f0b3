"""Sums over masked vectors, whatever owners and learner do: the right sum or nothing, never two sums of one noise.

`World` keeps what left honest owners as linear forms in their noisy vectors and in the streams that no liar knows. A learner
learns what it can combine of them without a stream; that must be one sum over all honest owners for each attempt that all
answered, and the noise of each such sum must be in no other. `HISTORIES=10000 pytest tests/network/test_masked_sum.py` is the
long form, which `make test-long` runs.
"""

import hashlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from copriv.agreement import Agreement
from copriv.errors import AgreementError, BudgetRefused, CoprivError, QueryRefused
from copriv.network import masked_sum, sum_attempt
from copriv.network.keys import Keys, KeysRefused
from copriv.network.masked_sum import MaskedAnswers, SignedKey, SignedSet, members
from copriv.network.sum_attempt import AnotherKey, SumAttempt
from copriv.privacy import masks
from copriv.privacy.ledger import MemoryLedger
from copriv.privacy.masks import Attempt, EphemeralKey, point_digest
from copriv.privacy.shared_noise import Words, as_numbers, as_words
from copriv.protocol import Answer, Query
from ledger_files import opened
from network_parties import NAMES, agreement
from network_parties import keys as real_keys
from signing_parties import Party, Signs

LENGTH = 2
THETA = np.zeros(3)
FIRST = Attempt("agreement", "run", 1, 1, 1, point_digest(THETA))
SECOND = replace(FIRST, attempt=2)
COST = (Fraction(1, 10), Fraction(0))


class Killed(Exception):
    """The process of an owner is killed."""


class Struck(MemoryLedger):
    """A ledger that outlives its owner's process, which may be killed at a call."""

    strike = ""

    def charge(self, *given: Any) -> None:
        self._kill("before the charge")
        super().charge(*given)
        self._kill("after the charge")

    def record(self, *given: Any) -> None:
        self._kill("before the record")
        super().record(*given)
        self._kill("after the record")

    def _kill(self, now: str) -> None:
        if self.strike == now:
            self.strike = ""
            raise Killed


class Adds:
    """An owner with vectors of two words, each with noise of its own: what `copriv.Owner` does, in a few lines."""

    def __init__(self, name: str, ledger: Any, draws: Iterator[int]) -> None:
        self.name, self.ledger, self.draws = name, ledger, draws

    def noisy(self) -> Words:
        drawn = hashlib.sha512(str(next(self.draws)).encode()).digest()
        return np.frombuffer(drawn[: 8 * LENGTH], dtype=np.uint64)

    def answer(self, query: Query, hide: Callable[[Any], Any]) -> Answer:
        self.ledger.charge(query.identity, query.theta, *COST)
        hidden = hide(as_numbers(self.noisy()))
        self.ledger.record(query.identity, hidden)
        return Answer(query.identity, query.fingerprint, self.name, hidden, 1)


class Learner(SumAttempt):
    """The learner's side of an attempt, and what `copriv.network.run` then adds up."""

    def __init__(self, attempt: Attempt, owners: Any) -> None:
        super().__init__(attempt, owners)
        self.vectors, self._owners = dict[str, Words](), owners

    @property
    def keys(self) -> tuple[SignedKey, ...]:
        return self.said(sum_attempt.KEY)

    @property
    def signatures(self) -> tuple[SignedSet, ...]:
        return self.said(sum_attempt.SET)

    @property
    def sum(self) -> Words | None:
        whole = self.vectors.keys() == self._owners.keys()
        return np.sum([*self.vectors.values()], axis=0, dtype=np.uint64) if whole else None


STRIKES = ("before the charge", "after the charge", "before the record", "after the record")


@dataclass
class Vector:
    """What one owner masked."""

    owner: str
    identity: str
    noisy: bytes
    words: bytes
    sum: tuple[Any, ...]
    """The attempt and the keys in it."""
    streams: dict[bytes, int] = field(default_factory=dict)
    """Sign of each stream that no liar knows."""


class World:
    """Owners, of whom the first `liars` work for the learner, their ledgers, and all that the learner has."""

    def __init__(self, owners: int = 3, liars: int = 0, answers: int = 4) -> None:
        self.names = tuple(f"bank-{i}" for i in range(owners))
        self.liars, self.honest = self.names[:liars], self.names[liars:]
        self.keys = {name: Signs(name) for name in self.names}
        self.parties = {name: Party(name) for name in self.names}
        self.ledgers = {name: Struck(name, COST[0] * answers, answers) for name in self.names}
        self.answers, self.draws, self.streams = answers, itertools.count(), list[tuple[str, str, bytes]]()
        self.public = set[bytes]()
        self.vectors, self.left = dict[bytes, Vector](), set[bytes]()
        self.known = dict[tuple[Attempt, str], list[SignedKey]]()
        self.sides = dict[str, MaskedAnswers]()
        for name in self.names:
            self.start(name)

    def start(self, name: str) -> None:
        """A new process of an owner, with its ledger."""
        self.sides[name] = MaskedAnswers(
            FIRST.fingerprint, FIRST.run, self.keys[name], self.parties, Adds(name, self.ledgers[name], self.draws)
        )

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Every key and every stream is seen while this is open."""
        world, stream = self, masks._stream

        class Seen(EphemeralKey):
            def __init__(self) -> None:
                super().__init__()
                world.public.add(self.public)

            def masked(self, words: Words, owner: str, attempt: Attempt, keys: Any) -> Words:
                world.streams.clear()
                hidden = super().masked(words, owner, attempt, keys)
                of = (attempt, tuple(sorted(keys.items())))
                vector = Vector(owner, attempt.identity, words.tobytes(), hidden.tobytes(), of)
                for first, second, value in world.streams:
                    other = second if first == owner else first
                    if other in world.honest and keys[other] in world.public:
                        vector.streams[value] = 1 if first == owner else -1
                world.vectors[vector.words] = vector
                return hidden

        def seen(secret: bytes, digest: bytes, first: str, second: str, length: int) -> Words:
            words = stream(secret, digest, first, second, length)
            self.streams.append((first, second, words.tobytes()))
            return words

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(masked_sum, "EphemeralKey", Seen)
            patch.setattr(masks, "_stream", seen)
            yield

    def say(self, name: str, what: Callable[[MaskedAnswers], Any]) -> Any:
        """An owner's reply; None where it refuses or is killed, and then a new process of it begins."""
        try:
            reply = what(self.sides[name])
        except Killed:
            self.start(name)
            return None
        except CoprivError:
            return None
        self.took(name, reply)
        return reply

    def took(self, name: str, reply: Any) -> None:
        """Keep what left an owner."""
        if isinstance(reply, Answer):
            words = as_words(reply.gradient).tobytes()
            assert self.vectors[words].identity in self.ledgers[name]._charged, "a vector left uncharged"
            self.left.add(words)

    def ask(self, name: str, attempt: Attempt) -> Any:
        reply = self.say(name, lambda side: side.key(attempt, THETA))
        if isinstance(reply, SignedKey):
            self.known.setdefault((attempt, name), []).append(reply)
        return reply

    def own_key(self, name: str, attempt: Attempt, signer: str) -> SignedKey:
        """A key that a liar makes, in the name of anybody."""
        public = EphemeralKey().public
        return SignedKey(name, public, self.keys[signer].sign(masked_sum._key_content(attempt, name, public)))

    def check(self) -> None:
        """What the learner has tells it sums over all honest owners, each with noise of its own, and nothing else."""
        left = [self.vectors[words] for words in sorted(self.left) if self.vectors[words].owner in self.honest]
        for name in self.honest:
            mine = [vector.identity for vector in left if vector.owner == name]
            assert len(set(mine)) == len(mine) <= self.ledgers[name].answers <= self.answers
            assert self.ledgers[name].spent == self.ledgers[name].answers * COST[0]
        assert len({vector.noisy for vector in left}) == len(left), "one noise is in two vectors"
        columns = {value: i for i, value in enumerate({value for vector in left for value in vector.streams})}
        matrix = np.zeros((len(left), len(columns)))
        for row, vector in enumerate(left):
            for value, sign in vector.streams.items():
                matrix[row, columns[value]] = sign
        sums = [[i for i, vector in enumerate(left) if vector.sum == one] for one in {vector.sum for vector in left}]
        whole = [rows for rows in sums if {left[i].owner for i in rows} == set(self.honest)]
        assert all(not matrix[rows].sum(axis=0).any() for rows in whole), "masks of a whole sum do not cancel"
        found = len(left) - (np.linalg.matrix_rank(matrix) if matrix.size else 0)
        assert found == len(whole), "the learner learns more than the sums over all honest owners"

    def play(self, attempt: Attempt, edits: tuple[tuple[int, str, str], ...] = ()) -> Words | None:
        """One attempt from its keys to its sum. Edits say what is done otherwise: (owner, step, what)."""
        done = {(self.names[owner % len(self.names)], step): what for owner, step, what in edits}
        learner = Learner(attempt, self.parties)
        extra = np.zeros(LENGTH, dtype=np.uint64)
        for name in self.names:
            what = done.get((name, "key"), "")
            if what == "silent":
                continue
            if what == "killed":
                self.start(name)
            reply = self.ask(name, attempt)
            if isinstance(reply, SignedKey) and what == "lies" and name in self.liars:
                reply = self.own_key(name, attempt, name)
            self.heard(learner, reply)
            if what == "again":
                self.heard(learner, self.ask(name, attempt))
        for name in self.names:
            what, offered = (
                done.get((name, "set"), ""),
                self.offered(attempt, learner, done.get((name, "set"), ""), name),
            )
            if what == "silent":
                continue
            if what == "killed":
                self.start(name)
            reply = self.say(name, lambda side, offered=offered: side.sign(attempt, offered))  # type: ignore[misc]
            if what == "lies" and name in self.liars:
                reply = SignedSet(name, self.keys[name].sign(b"another set"))
            self.heard(learner, reply)
        for name in self.names:
            what, signatures = done.get((name, "masked"), ""), list(learner.signatures)
            if what == "silent":
                continue
            if what == "a set of one":
                signatures = [one for one in signatures if one.owner == name]
            elif what == "one is missing":
                signatures = signatures[1:]
            elif what in STRIKES:
                self.ledgers[name].strike = what
            reply = self.say(name, lambda side, given=signatures: side.masked(attempt, given))  # type: ignore[misc]
            self.ledgers[name].strike = ""
            if isinstance(reply, Answer) and what == "lies" and name in self.liars:
                extra += np.uint64(2**63 + 5)
                words = as_words(reply.gradient) + np.uint64(2**63 + 5)
                reply = replace(reply, gradient=as_numbers(words))
            self.heard(learner, reply)
            if what in (*STRIKES, "again"):
                self.heard(learner, self.ask(name, attempt))
        self.check()
        return None if learner.sum is None else learner.sum - extra

    def offered(self, attempt: Attempt, learner: "Learner", what: str, to: str) -> list[SignedKey]:
        """The set that a learner shows an owner: the one that it took, or another."""
        keys = list(learner.keys) or [known[-1] for (of, _), known in self.known.items() if of == attempt]
        others = [i for i, one in enumerate(keys) if one.owner != to]
        if what == "a set of one":
            return [one for one in keys if one.owner == to]
        if not others:
            return keys
        i, liar = others[len(self.left) % len(others)], (self.liars or self.names)[0]
        if what == "one is missing":
            return [one for j, one in enumerate(keys) if j != i]
        if what == "a key replaced":
            keys[i] = self.own_key(keys[i].owner, attempt, liar)
        elif what == "keys replaced":
            keys = [one if one.owner == to else self.own_key(one.owner, attempt, liar) for one in keys]
        elif what == "another of a liar" and self.liars:
            keys = [self.own_key(liar, attempt, liar) if one.owner == liar else one for one in keys]
        elif what == "an old key":
            old = [known[0] for (of, name), known in self.known.items() if name == keys[i].owner and of != attempt]
            keys[i] = old[0] if old else keys[i]
        elif what == "one twice":
            keys[i] = keys[(i + 1) % len(keys)]
        elif what == "one key twice":
            keys[i] = replace(keys[i], key=keys[(i + 1) % len(keys)].key)
        return keys

    def heard(self, learner: "Learner", reply: Any) -> None:
        with suppress(QueryRefused):
            if isinstance(reply, SignedKey | SignedSet):
                learner.take(reply)
            elif isinstance(reply, Answer):
                learner.vectors.setdefault(reply.owner, as_words(reply.gradient))

    def right(self, attempt: Attempt, total: Words) -> bool:
        """Whether it is the sum of one vector of each owner that was masked in this attempt."""
        of = [self.vectors[words] for words in self.left if self.vectors[words].identity == attempt.identity]
        noisy = np.sum([np.frombuffer(one.noisy, dtype=np.uint64) for one in of], axis=0, dtype=np.uint64)
        return sorted(one.owner for one in of) == sorted(self.names) and np.array_equal(total, noisy)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with made.watched():
        yield made


def test_a_sum_of_honest_owners_is_right_and_charged_once(world: World) -> None:
    total = world.play(FIRST)
    assert total is not None
    assert world.right(FIRST, total)
    assert [world.ledgers[name].answers for name in world.names] == [1, 1, 1]
    assert world.play(FIRST) is not None, "what is asked again is what was given"
    assert [world.ledgers[name].answers for name in world.names] == [1, 1, 1]
    assert len(world.left) == 3


def test_an_owner_that_drops_out_leaves_nothing_and_the_next_attempt_is_another_answer(world: World) -> None:
    assert world.play(FIRST, ((2, "masked", "silent"),)) is None
    total = world.play(SECOND)
    assert total is not None
    assert world.right(SECOND, total)
    assert [world.ledgers[name].answers for name in world.names] == [2, 2, 1]
    assert len({vector.noisy for vector in world.vectors.values()}) == 5, "noise of its own in each attempt"


@pytest.mark.parametrize("step", ["key", "set"])
def test_who_drops_out_before_the_masks_costs_nobody_an_answer(world: World, step: str) -> None:
    assert world.play(FIRST, ((1, step, "silent"),)) is None
    assert [world.ledgers[name].answers for name in world.names] == [0, 0, 0]


def test_the_attempts_end_with_the_agreed_answers(world: World) -> None:
    for number in range(1, 5):
        assert (
            world.play(replace(FIRST, attempt=number), ((0, "masked", "silent"),) * (number < 4)) is None or number == 4
        )
    assert world.play(replace(FIRST, attempt=5)) is None
    with pytest.raises(BudgetRefused):
        world.ledgers["bank-1"].charge("more", THETA, *COST)


@pytest.mark.parametrize("what", STRIKES)
def test_a_killed_owner_masks_its_noise_once(world: World, what: str) -> None:
    """Where the vector was written down it is sent again; where only the charge was, it is lost."""
    total = world.play(FIRST, ((1, "masked", what),))
    assert (total is not None) == (what == "after the record")
    charged = [world.ledgers[name].answers for name in world.names]
    assert charged == [1, what != "before the charge", 1]
    if what in ("after the charge", "before the record"):
        with pytest.raises(QueryRefused, match="charged and never answered"):
            world.sides["bank-1"].key(FIRST, THETA)
    assert world.play(SECOND) is not None


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("a set of one", "one of each owner"),
        ("one is missing", "one of each owner"),
        ("one twice", "one of each owner"),
        ("a key replaced", "did not sign its key"),
        ("keys replaced", "did not sign its key"),
        ("one key twice", "are the same|did not sign"),
        ("an old key", "did not sign its key"),
    ],
)
def test_an_owner_signs_no_other_set(world: World, what: str, why: str) -> None:
    assert world.play(FIRST, ((0, "masked", "silent"),)) is None
    learner = Learner(SECOND, world.parties)
    for name in world.names:
        world.heard(learner, world.ask(name, SECOND))
    offered = world.offered(SECOND, learner, what, "bank-0")
    with pytest.raises(QueryRefused, match=why):
        world.sides["bank-0"].sign(SECOND, offered)
    with pytest.raises(QueryRefused, match="not every owner has signed"):
        world.sides["bank-0"].masked(SECOND, [])


@pytest.mark.parametrize(
    "key", [bytes(32), b"short", (1).to_bytes(32, "little")], ids=["zero", "short", "of small order"]
)
def test_what_is_no_key_is_refused_before_anybody_is_charged(world: World, key: bytes) -> None:
    """A lying owner signed it, and every other one was charged before its masks could not be made."""
    attempt = FIRST
    keys = [side.key(attempt, THETA) for side in world.sides.values()]
    liar = keys[-1].owner
    keys[-1] = SignedKey(liar, key, world.keys[liar].sign(masked_sum._key_content(attempt, liar, key)))
    for name, side in world.sides.items():
        if name != liar:
            with pytest.raises(QueryRefused, match="is not a key"):
                side.sign(attempt, keys)
    learner = SumAttempt(attempt, world.parties)
    with pytest.raises(QueryRefused, match="not a key"):
        learner.take(keys[-1])


def test_an_attempt_that_another_took_the_place_of_is_not_opened_again(world: World) -> None:
    one = world.sides["bank-2"]
    one.key(FIRST, THETA)
    one.key(SECOND, THETA)
    one.key(SECOND, THETA)  # the same one, whose message was lost
    with pytest.raises(QueryRefused, match="another attempt was opened after it"):
        one.key(FIRST, THETA)


def test_an_owner_signs_one_set_in_an_attempt() -> None:
    world = World(liars=1)
    with world.watched():
        sets = [[world.ask(name, FIRST) for name in world.names] for _ in range(2)]
        sets[1][0] = world.own_key("bank-0", FIRST, "bank-0")
        world.sides["bank-1"].sign(FIRST, sets[0])
        with pytest.raises(QueryRefused, match="another set of keys was signed"):
            world.sides["bank-1"].sign(FIRST, sets[1])
        # Different sets for different owners: nobody masks.
        signed = [world.sides["bank-2"].sign(FIRST, sets[1]), world.sides["bank-1"].sign(FIRST, sets[0])]
        content = masked_sum._set_content(FIRST, {one.owner: one.key for one in sets[1]})
        signed.append(SignedSet("bank-0", world.keys["bank-0"].sign(content)))
        with pytest.raises(QueryRefused, match="bank-1 did not sign the same keys"):
            world.sides["bank-2"].masked(FIRST, signed)


@pytest.mark.parametrize(
    "other", [replace(FIRST, run="2"), replace(FIRST, fingerprint="2"), replace(FIRST, point=point_digest(np.ones(3)))]
)
def test_an_attempt_of_another_run_agreement_or_point_is_refused(world: World, other: Attempt) -> None:
    with pytest.raises(QueryRefused, match="another agreement, run or point"):
        world.sides["bank-0"].key(other, THETA)


@pytest.mark.parametrize("other", [SECOND, replace(FIRST, round=2), replace(FIRST, phase=2)])
def test_signatures_of_another_attempt_are_refused(world: World, other: Attempt) -> None:
    keys = [world.ask(name, FIRST) for name in world.names]
    signed = [world.sides[name].sign(FIRST, keys) for name in world.names]
    world.ask("bank-0", other)
    with pytest.raises(QueryRefused, match="did not sign its key"):
        world.sides["bank-0"].sign(other, [world.known[other, "bank-0"][0], *keys[1:]])
    with pytest.raises(QueryRefused, match="not the one that is open"):
        world.sides["bank-0"].masked(FIRST, signed)


def test_a_learner_takes_what_is_signed_and_nothing_that_differs(world: World) -> None:
    learner = Learner(FIRST, world.parties)
    key = world.ask("bank-0", FIRST)
    for message in (
        replace(key, signature="00"), replace(key, owner="bank-1"), replace(key, owner="nobody"),
        world.ask("bank-0", SECOND),
    ):  # fmt: skip
        with pytest.raises(QueryRefused, match="did not sign this"):
            learner.take(message)
    learner.take(key)
    with pytest.raises(AnotherKey, match="another key before"):
        learner.take(world.own_key("bank-0", FIRST, "bank-0"))
    with pytest.raises(QueryRefused, match="not every owner has said what comes before"):
        learner.take(SignedSet("bank-0", world.keys["bank-0"].sign(b"")))
    assert (learner.keys, learner.signatures) == ((), ())


# Wrong versions ---------------------------------------------------------------------------------------------------------


def masks_the_survivors_noise_again(world: World, patch: pytest.MonkeyPatch) -> None:
    """The same noisy vector in the next attempt: a learner that says an owner dropped out gets two sums of one noise."""
    for side in world.sides.values():
        drawn = side.summand.noisy()
        patch.setattr(side.summand, "noisy", lambda drawn=drawn: drawn)


def does_not_charge_a_second_attempt(world: World, patch: pytest.MonkeyPatch) -> None:
    for ledger in world.ledgers.values():
        charge = ledger.charge

        def once(*given: Any, ledger: Any = ledger, charge: Any = charge) -> None:
            if ledger.answers == 0:
                charge(*given)

        patch.setattr(ledger, "charge", once)
        patch.setattr(ledger, "record", lambda *given: None)


def signs_any_set(world: World, patch: pytest.MonkeyPatch) -> None:
    def sign(side: Any, attempt: Attempt, keys: Any) -> SignedSet:
        side._open.keys = {one.owner: one.key for one in keys}
        return SignedSet(side._name, side._keys.sign(masked_sum._set_content(attempt, side._open.keys)))

    def masked(side: Any, attempt: Attempt, signatures: Any) -> Answer:
        opened, side._open = side._open, None
        side.summand.ledger.charge(attempt.identity, opened.theta, *COST)
        words = opened.key.masked(side.summand.noisy(), side._name, attempt, opened.keys)
        return Answer(attempt.identity, attempt.fingerprint, side._name, as_numbers(words), 1)

    patch.setattr(MaskedAnswers, "sign", sign)
    patch.setattr(MaskedAnswers, "masked", masked)


def one_set_of_streams_for_all_attempts(world: World, patch: pytest.MonkeyPatch) -> None:
    seen = masks._stream
    patch.setattr(masks, "_stream", lambda _, __, *more: seen(bytes(32), bytes(32), *more))


def takes_keys_that_nobody_signed(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Party, "signed", lambda *given: True)


DEFECTS = {
    masks_the_survivors_noise_again: ((FIRST, ((2, "masked", "silent"),)), (SECOND, ())),
    does_not_charge_a_second_attempt: ((FIRST, ((2, "masked", "silent"),)), (SECOND, ())),
    signs_any_set: ((FIRST, ((0, "set", "a set of one"),)),),
    one_set_of_streams_for_all_attempts: ((FIRST, ((2, "masked", "silent"),)), (SECOND, ((2, "masked", "silent"),))),
    takes_keys_that_nobody_signed: ((FIRST, ((0, "set", "keys replaced"),)),),
}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: one.__name__)
def test_a_wrong_owner_is_found(defect: Any, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for attempt, edits in DEFECTS[defect]:
        world.play(attempt, edits)
    other = World()
    with other.watched():
        defect(other, monkeypatch)
        with pytest.raises(AssertionError):
            deque(itertools.starmap(other.play, DEFECTS[defect]))


# With certificates and ledgers on the disk ------------------------------------------------------------------------------


def keyed(held: dict[str, Keys], *without: str, same: bool = False) -> Agreement:
    """An agreement in rounds that names the owners' keys."""
    agreed = agreement("S1")
    named = {name: held["bank-1" if same else name].party.key_fingerprint for name in NAMES if name not in without}
    owners = [
        one.model_dump(exclude_none=True) | ({"key": named[one.name]} if one.name in named else {})
        for one in agreed.owner
    ]
    parts = {part: getattr(agreed, part).model_dump(exclude_none=True) for part in ("agreement", "model", "data")}
    return Agreement.of(parts | {"owner": owners})


def test_a_sum_of_certified_owners_with_ledgers_in_files(tmp_path: Any) -> None:
    """After the processes of all owners are gone, what was masked is still the same, and is charged once."""
    held = real_keys(tmp_path)
    agreed = keyed(held)
    parties = members(agreed, "bank-1", held["learner"], [held[name].certificate.decode() for name in NAMES])
    attempt, sent = replace(FIRST, fingerprint=agreed.fingerprint), []
    for life in (1, 2):
        learner = Learner(attempt, parties)
        files = [opened(tmp_path / f"{name}.ledger", name, Fraction(1)) for name in NAMES]
        ledgers = [file.run(agreed.fingerprint, "run", Fraction(1), 4) for file in files]
        sides = [
            MaskedAnswers(agreed.fingerprint, "run", held[name], parties, Adds(name, ledger, iter(range(i, 9))))
            for i, (name, ledger) in enumerate(zip(NAMES, ledgers, strict=True))
        ]
        noisy = [Adds(name, None, iter([i])).noisy() for i, name in enumerate(NAMES)]
        try:
            first = [side.key(attempt, THETA) for side in sides]
            if life == 1:
                for key in first:
                    learner.take(key)
                for side in sides:
                    learner.take(side.sign(attempt, learner.keys))
                first = [side.masked(attempt, learner.signatures) for side in sides]
            learner.vectors = {one.owner: as_words(one.gradient) for one in first}
            assert learner.sum is not None
            assert np.array_equal(learner.sum, np.sum(noisy, axis=0, dtype=np.uint64))
            assert [ledger.answers for ledger in ledgers] == [1, 1, 1]
            sent.append([one.gradient.tolist() for one in first])
        finally:
            for file in files:
                file.close()
    assert sent[0] == sent[1]


def test_members_are_owners_with_the_keys_that_the_agreement_names(tmp_path: Any) -> None:
    held, others = real_keys(tmp_path / "one"), real_keys(tmp_path / "other")
    certificates = [held[name].certificate.decode() for name in NAMES]
    assert list(members(keyed(held), "bank-2", held["learner"], certificates)) == list(NAMES)
    for agreed, shown, why in (
        (keyed(held, "bank-3"), certificates, "names no key of bank-3"),
        (keyed(held), certificates[:2], "no certificate of bank-3"),
        (keyed(others), certificates, "no certificate of bank-1 with the key"),
        (keyed(held), [others[name].certificate.decode() for name in NAMES], "not of this consortium's authority"),
        (keyed(held, same=True), certificates, "bank-1 has the same key as another owner"),
    ):
        with pytest.raises((KeysRefused, AgreementError), match=why):
            members(agreed, "bank-1", held["learner"], shown)


# Histories --------------------------------------------------------------------------------------------------------------

KEY = ("silent", "killed", "again", "lies")
SET = (
    "silent", "killed", "lies", "a set of one", "one is missing", "a key replaced", "keys replaced", "another of a liar",
    "an old key", "one twice", "one key twice",
)  # fmt: skip
MASKED = ("silent", "again", "lies", "a set of one", "one is missing", *STRIKES)
edits = st.lists(
    st.one_of(
        *(
            st.tuples(st.integers(0, 5), st.just(step), st.sampled_from(what))
            for step, what in (("key", KEY), ("set", SET), ("masked", MASKED))
        )
    ),
    max_size=4,
).map(tuple)
attempts = st.builds(replace, st.just(FIRST), round=st.integers(1, 2), attempt=st.integers(1, 3))


class Histories(RuleBasedStateMachine):
    @initialize(honest=st.integers(2, 4), liars=st.integers(0, 2), answers=st.integers(1, 5))
    def begin(self, honest: int, liars: int, answers: int) -> None:
        self.world = World(honest + liars, liars, answers)
        self.watching = self.world.watched()
        self.watching.__enter__()

    @rule(attempt=attempts, edits=edits)
    def played(self, attempt: Attempt, edits: Any) -> None:
        """An attempt in which anybody may be away, late, killed or lie."""
        total = self.world.play(attempt, edits)
        assert total is None or self.world.right(attempt, total)

    @rule(owner=st.integers(0, 5), attempt=attempts)
    def asked(self, owner: int, attempt: Attempt) -> None:
        """A key by itself, which ends an attempt that is open."""
        self.world.ask(self.world.names[owner % len(self.world.names)], attempt)

    @rule(owner=st.integers(0, 5))
    def killed(self, owner: int) -> None:
        self.world.start(self.world.names[owner % len(self.world.names)])

    @rule(owner=st.integers(0, 5), attempt=attempts, which=st.lists(st.integers(0, 20), min_size=6, max_size=6))
    def offered(self, owner: int, attempt: Attempt, which: list[int]) -> None:
        """Any keys that were ever given, for an attempt in which some are; signatures of what the owner then signs."""
        world = self.world
        name = world.names[owner % len(world.names)]
        keys = []
        for other, at in zip(world.names, which, strict=False):
            given = [key for (of, who), known in world.known.items() for key in known if who == other]
            now = world.known.get((attempt, other), [])
            keys += [now[-1]] if now and at < 14 else [given[at % len(given)]] if given else []
        signed = world.say(name, lambda side: side.sign(attempt, keys))
        if isinstance(signed, SignedSet):
            content = masked_sum._set_content(attempt, {one.owner: one.key for one in keys})
            more = [SignedSet(liar, world.keys[liar].sign(content)) for liar in world.liars if liar != name]
            more += [one for one in (world.say(o, lambda side: side.sign(attempt, keys)) for o in world.honest) if one]
            world.say(name, lambda side: side.masked(attempt, [signed, *more]))
        world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.watching.__exit__(None, None, None)


Histories.TestCase.settings = settings(
    max_examples=int(os.environ.get("HISTORIES", "200")), stateful_step_count=10, deadline=None,
    suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
)  # fmt: skip
TestHistories = Histories.TestCase
