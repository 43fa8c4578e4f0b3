"""Sums that owners are missing from, whatever owners and learner do: the right sum or nothing, never two sums of one noise.

`World` keeps what left honest owners as linear forms, modulo the prime, in their noisy vectors and in the streams that no liar
knows. What a learner learns of the vectors is what it can combine of these without a stream. That must be, for each set of
keys, at most one sum, over all honest owners of one set of survivors. `HISTORIES=10000 pytest
tests/network/test_missing_owners.py` is the long form, which `make test-long` runs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from copriv.errors import QueryRefused
from copriv.network import masked_sum, sum_attempt
from copriv.network.masked_sum import MaskedAnswers, OpenedMask, SignedKey, SignedSet, SignedSurvivors
from copriv.network.sum_attempt import SumAttempt
from copriv.privacy.mask_shares import MaskShares, sum_of
from copriv.privacy.masks import Attempt, EphemeralKey
from copriv.privacy.shared_noise import PRIME, Words, as_numbers, as_words
from copriv.protocol import Answer
from network import test_masked_sum
from network.test_masked_sum import COST, FIRST, LENGTH, SECOND, STRIKES, Adds, attempts

Form = dict[Any, int]
"""Coefficients, modulo the prime, of streams (by their bytes) and of vectors (by owner and bytes)."""
VECTOR, STREAM = "vector", "stream"


def value_at(x: int, points: dict[int, int]) -> int:
    """The value at x of the polynomial of least degree through these points: Newton's way, a second writing of Lagrange's."""
    total, product, known = 0, 1, list[int]()
    for at, value in points.items():
        through, times = 0, 1
        for i, one in enumerate(known):
            through += one * times
            times = times * (at - list(points)[i]) % PRIME
        known.append((value - through) * pow(times, -1, PRIME) % PRIME)
        total += known[-1] * product
        product = product * (x - at) % PRIME
    return total % PRIME


def learned(rows: Sequence[Form]) -> list[Form]:
    """A basis of the combinations of these forms in which there is no stream."""
    left, found = [dict(row) for row in rows], list[Form]()
    while left:
        row = left.pop()
        pivot = next((key for key in row if key[0] == STREAM), None)
        if pivot is None:
            found.append(row)
            continue
        inverse = pow(row[pivot], -1, PRIME)
        for other in left:
            if factor := other.get(pivot, 0) * inverse % PRIME:
                for key, value in row.items():
                    other[key] = (other.get(key, 0) - factor * value) % PRIME
                    if not other[key]:
                        del other[key]
    return [row for row in found if row]


@dataclass
class Left:
    """What one honest owner sent in one set of keys, as forms."""

    owner: str
    set: bytes
    rows: list[Form] = field(default_factory=list)


class World(test_masked_sum.World):
    """Owners of whom some may be missing."""

    def __init__(self, owners: int = 4, liars: int = 0, answers: int = 4, dropouts: int = 1) -> None:
        self.dropouts, self.colluding = dropouts, liars
        self.forms, self.sent, self.shown = dict[bytes, Left](), dict[bytes, Left](), dict[Any, Any]()
        self.checked = dict[bytes, int]()
        self.noises = dict[tuple[str, str], bytes]()
        super().__init__(owners, liars, answers)

    def start(self, name: str) -> None:
        adds = Adds(name, self.ledgers[name], self.draws)
        self.sides[name] = MaskedAnswers(
            FIRST.fingerprint, FIRST.run, self.keys[name], self.parties, adds, self.dropouts
        )

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Every key, mask and part of a mask is seen while this is open."""
        world = self

        class Key(EphemeralKey):
            def __init__(self) -> None:
                super().__init__()
                world.public.add(self.public)

        class Seen(MaskShares):
            def __init__(self, key: Any, owner: str, attempt: Attempt, keys: Any, least: int) -> None:
                super().__init__(key, owner, attempt, keys, least)
                self.attempt, self.keys = attempt, dict(keys)

            def secret(self, one: str, other: str) -> tuple[Any, int]:
                """A stream's name and first word, without a name where a liar knows it."""
                words, them = self._stream(one, other, LENGTH), {one, other} - {self._owner}
                hidden = all(name in world.honest and self.keys[name] in world.public for name in them)
                return (STREAM, words.tobytes()) if hidden else None, int(words[0])

            def form(self, parts: dict[tuple[str, str], int]) -> tuple[Form, int]:
                form, value = dict[Any, int](), 0
                for (one, other), factor in parts.items():
                    name, word = self.secret(one, other)
                    value += factor * word
                    if name is not None:
                        form[name] = (form.get(name, 0) + factor) % PRIME
                return form, value % PRIME

            def masked(self, words: Words) -> Words:
                sent, names = super().masked(words), [*self.keys]
                base, left = names[: self._least], Left(self._owner, self._digest)
                for row, x in enumerate([0, *range(self._least + 1, len(names) + 1)]):
                    units = [{j + 1: int(name == other) for j, other in enumerate(base)} for name in base]
                    parts = {(self._owner, name): value_at(x, unit) for name, unit in zip(base, units, strict=True)}
                    if row:
                        parts[self._owner, names[x - 1]] = PRIME - 1
                    form, value = self.form(parts)
                    if not row:
                        form[VECTOR, self._owner, words.tobytes()] = 1
                        value += int(words[0])
                    assert int(sent[row][0]) == value % PRIME, "a mask is not Shamir's"
                    left.rows.append(form)
                world.noises[self._owner, self.attempt.identity] = words.tobytes()
                world.forms[sent.tobytes()] = left
                return sent

            def opened(self, survivors: Any) -> Words:
                words = super().opened(survivors)
                form, value = self.form({(name, self._owner): 1 for name in survivors})
                assert int(words[0]) == value
                world.forms[words.tobytes()] = Left(self._owner, self._digest, [form])
                return words

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(masked_sum, "EphemeralKey", Key)
            patch.setattr(masked_sum, "MaskShares", Seen)
            yield

    def took(self, name: str, reply: Any) -> None:
        sent = None
        if isinstance(reply, Answer):
            assert reply.identity in self.ledgers[name]._charged, "a vector left uncharged"
            words = as_words(reply.gradient).tobytes()
            sent = next(one for one in self.forms if words.startswith(one) and not any(words[len(one) :]))
        elif isinstance(reply, OpenedMask):
            sent = reply.words.tobytes()
        if sent is not None and name in self.honest:
            self.sent[sent] = self.forms[sent]

    def check(self) -> None:
        """What the learner has tells it one sum for a set of keys, over all honest owners that enough others signed."""
        vectors = [key for left in self.sent.values() for row in left.rows for key in row if key[0] == VECTOR]
        assert len({noisy for _, _, noisy in vectors}) == len(vectors), "one noise is in two vectors"
        for name in self.honest:
            ledger = self.ledgers[name]
            assert sum(owner == name for _, owner, _ in vectors) <= ledger.answers <= self.answers
            assert ledger.spent == ledger.answers * COST[0]
        of = dict[Any, bytes]()
        for left in self.sent.values():
            for key in {key for row in left.rows for key in row}:
                assert of.setdefault(key, left.set) == left.set, "two sets share a stream or a vector"
        for digest in {left.set for left in self.sent.values()}:
            rows = [row for left in self.sent.values() if left.set == digest for row in left.rows]
            if self.checked.get(digest) == len(rows):
                continue
            self.checked[digest] = len(rows)
            found = learned(rows)
            assert len(found) <= 1, "the learner learns more than one sum"
            for one in found:
                assert len(set(one.values())) == 1, "the learner learns a difference of vectors"
                assert len(one) >= len(self.names) - self.dropouts - self.colluding, "a sum has too little noise"

    def play(self, attempt: Attempt, edits: tuple[tuple[int, str, str], ...] = ()) -> Words | None:
        """One attempt from its keys to its sum. Edits say what is done otherwise: (owner, step, what)."""
        done = {(self.names[owner % len(self.names)], step): what for owner, step, what in edits}
        learner = Learner(attempt, self.parties, self.dropouts)
        self.shown[attempt] = learner
        added = dict[tuple[str, int], int]()
        for number, step in enumerate(("key", "set", "masked", "survivors", "opened")):
            for name in self.names:
                what = done.get((name, step), "")
                if what == "silent" or name not in learner.expected or learner.step != number:
                    continue
                if what == "killed":
                    self.start(name)
                if what in STRIKES:
                    self.ledgers[name].strike = what
                reply = self.reply(name, attempt, learner, number, what)
                self.ledgers[name].strike = ""
                if what == "lies" and name in self.liars:
                    reply, added[name, number] = self.lie(reply, attempt, learner)
                self.heard(learner, reply)
                if what in (*STRIKES, "again"):
                    self.heard(learner, self.ask(name, attempt))
            if learner.step == number:
                learner.lose(learner.silent)
            if learner.broken or learner.step == number:
                break
        self.check()
        if learner.step < sum_attempt.OVER:
            return None
        extra = sum(learner.weight(name, step) * more for (name, step), more in added.items())
        return np.asarray((learner.sum.astype(object) - extra) % PRIME, dtype=np.uint64)

    def reply(self, name: str, attempt: Attempt, learner: "Learner", step: int, what: str) -> Any:
        """What an owner says when a learner asks for a step, or shows something else."""
        if step == sum_attempt.KEY:
            return self.ask(name, attempt)
        if step == sum_attempt.SET:
            shown = self.offered(attempt, learner, what, name)
            return self.say(name, lambda side: side.sign(attempt, shown))
        if step in (sum_attempt.MASKED, sum_attempt.OPENED):
            signed: Any = list(learner.said(step - 1))
            if what == "a set of one":
                signed = [one for one in signed if one.owner == name]
            elif what == "one is missing":
                signed = signed[1:]
            if step == sum_attempt.MASKED:
                return self.say(name, lambda side: side.masked(attempt, signed))
            return self.say(name, lambda side: side.opened(attempt, signed))
        chosen, others = [*learner.survivors], [one for one in learner.names if one not in learner.survivors]
        if what == "a set of one":
            chosen = [name]
        elif what == "one is missing":
            chosen = chosen[1:]
        elif what == "another" and others:
            chosen = [one for one in learner.names if one in [*chosen[1:], *others]]
        elif what == "too few":
            chosen = chosen[: len(self.names) - self.dropouts - 1]
        return self.say(name, lambda side: side.survivors(attempt, chosen))

    def lie(self, reply: Any, attempt: Attempt, learner: "Learner") -> tuple[Any, int]:
        """Another reply of a liar, and what it adds to its part of a sum."""
        match reply:
            case SignedKey():
                return self.own_key(reply.owner, attempt, reply.owner), 0
            case SignedSet() | SignedSurvivors():
                return replace(reply, signature=self.keys[reply.owner].sign(b"another set")), 0
            case Answer():
                words = as_words(reply.gradient)
                words[:LENGTH] = (words[:LENGTH].astype(object) + 2**63) % PRIME
                return replace(reply, gradient=as_numbers(words)), 2**63
            case OpenedMask():
                words = ((reply.words.astype(object) + 5) % PRIME).astype(np.uint64)
                content = masked_sum.opened_content(attempt, reply.owner, learner.names, learner.survivors, words)
                return OpenedMask(reply.owner, words, self.keys[reply.owner].sign(content)), 5
        return reply, 0

    def heard(self, learner: Any, reply: Any) -> None:
        with suppress(QueryRefused):
            if isinstance(reply, Answer):
                learner.vectors.setdefault(reply.owner, as_words(reply.gradient).reshape(-1, LENGTH))
                learner.masked(reply.owner)
            elif reply is not None:
                learner.take(reply)

    def right(self, attempt: Attempt, total: Words) -> bool:
        """Whether it is the sum of the vectors that the survivors masked in this attempt."""
        noisy = [
            np.frombuffer(self.noises[name, attempt.identity], np.uint64) for name in self.shown[attempt].survivors
        ]
        return np.array_equal(total, np.sum([one.astype(object) for one in noisy], axis=0) % PRIME)


class Learner(SumAttempt):
    """The learner's side of an attempt, with the vectors that it is sent."""

    def __init__(self, attempt: Attempt, owners: Any, dropouts: int) -> None:
        super().__init__(attempt, owners, dropouts)
        self.vectors = dict[str, Words]()

    @property
    def keys(self) -> tuple[SignedKey, ...]:
        return self.said(sum_attempt.KEY)

    @property
    def parts(self) -> dict[str, Words]:
        return {one.owner: one.words for one in self.said(sum_attempt.OPENED)}

    @property
    def sum(self) -> Words:
        given = {name: self.vectors[name] for name in self.survivors}
        return sum_of(given, self.parts, self.names, self.least)

    def weight(self, owner: str, step: int) -> int:
        """How often what an owner adds to its vector, or to its part of the mask, is in the sum."""
        if step != sum_attempt.OPENED:
            return int(owner in self.survivors)
        points = [j for j, name in enumerate(self.names, start=1) if name in self.parts][: self.least]
        return -value_at(0, {j: int(self.names[j - 1] == owner) for j in points})


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with made.watched():
        yield made


@pytest.mark.parametrize("step", ["key", "set", "masked", "survivors", "opened", ""])
def test_a_sum_goes_on_without_an_owner_that_drops_out(world: World, step: str) -> None:
    total = world.play(FIRST, ((1, step, "silent"),))
    assert total is not None
    assert world.right(FIRST, total)
    gone = step in ("key", "set", "masked")
    assert ("bank-1" in world.shown[FIRST].survivors) != gone
    assert [world.ledgers[name].answers for name in world.names] == [1, int(not gone), 1, 1]


def test_with_more_owners_missing_than_agreed_there_is_no_sum_and_the_next_attempt_is_another_answer(
    world: World,
) -> None:
    assert world.play(FIRST, ((1, "masked", "silent"), (2, "opened", "silent"))) is None
    assert [world.ledgers[name].answers for name in world.names] == [1, 0, 1, 1]
    total = world.play(SECOND)
    assert total is not None
    assert world.right(SECOND, total)
    assert [world.ledgers[name].answers for name in world.names] == [2, 1, 2, 2]


def test_a_vector_that_arrives_after_the_mask_was_opened_stays_hidden(world: World) -> None:
    """bank-1 is only late: the learner that went on without it has its vector, too, and learns no more than the one sum."""
    assert world.play(FIRST, ((1, "masked", "silent"),)) is not None
    learner, before = world.shown[FIRST], len(world.sent)
    assert isinstance(world.say("bank-1", lambda side: side.masked(FIRST, learner.said(sum_attempt.SET))), Answer)
    assert len(world.sent) == before + 1
    world.check()


def test_a_killed_owner_opens_nothing_of_an_attempt_that_its_process_did_not_see(world: World) -> None:
    total = world.play(FIRST, ((1, "opened", "killed"),))
    assert total is not None
    assert world.right(FIRST, total)
    with pytest.raises(QueryRefused, match="not the one that is open"):
        world.sides["bank-1"].survivors(FIRST, world.names)


def test_two_sums_of_one_noise_would_show_an_owners_vector(world: World) -> None:
    """The trap: survivors mask their noisy vectors again, without an owner of which the learner said that it dropped out."""
    drawn = {name: side.summand.noisy() for name, side in world.sides.items()}  # type: ignore[attr-defined]
    for name, side in world.sides.items():
        side.summand.noisy = lambda name=name: drawn[name]  # type: ignore[attr-defined]
    whole = world.play(FIRST)
    assert whole is not None
    with pytest.raises(AssertionError, match="one noise is in two vectors"):
        world.play(SECOND, ((1, "key", "silent"),))
    without = world.shown[SECOND].sum
    shown = (whole.astype(object) - without.astype(object)) % PRIME
    assert np.array_equal(shown, drawn["bank-1"].astype(object)), "one owner's vector, with a share of the noise"


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (("bank-0", "bank-1"), "not the owners of the sum, but for 1"),
        (("bank-1", "bank-0", "bank-2"), "not owners of its keys, in their order"),
        (("bank-0", "bank-1", "bank-9"), "not owners of its keys"),
        (("bank-0", "bank-0", "bank-1"), "not owners of its keys"),
        (("bank-0", "bank-1", "bank-2"), "other survivors were signed"),
    ],
)
def test_an_owner_signs_no_other_survivors(world: World, what: Sequence[str], why: str) -> None:
    assert world.play(FIRST, ((3, "survivors", "silent"),)) is not None
    side = world.sides["bank-0"]
    with pytest.raises(QueryRefused, match=why):
        side.survivors(FIRST, what)
    signed = list(world.shown[FIRST].said(sum_attempt.SURVIVORS))
    for few in (
        signed[:2],
        [replace(signed[0], signature="00"), *signed[1:]],
        [*signed, SignedSurvivors("nobody", "")],
    ):
        with pytest.raises(QueryRefused, match="survivors"):
            side.opened(FIRST, few)
    assert np.array_equal(side.opened(FIRST, signed).words, side.opened(FIRST, signed).words), (
        "the same when asked again"
    )


def two_sums(world: World, attempt: Attempt, away: int = 1) -> None:
    """A learner asks each owner for two sums of one attempt, and shows each half of the owners one of them first.

    Liars sign whatever it likes, and it claims that one owner was away.
    """
    world.play(attempt, tuple((i, "survivors", "silent") for i in range(len(world.names))))
    learner = world.shown[attempt]
    names = learner.names
    if learner.step < sum_attempt.SURVIVORS:
        return
    keys = {one.owner: one.key for one in learner.keys}
    sums = [names, tuple(name for i, name in enumerate(names) if i != away % len(names))]
    signed: list[list[SignedSurvivors]] = [[], []]
    for i, name in enumerate(names):
        for one in sums if i % 2 else sums[::-1]:
            reply = world.say(name, lambda side, one=one: side.survivors(attempt, one))  # type: ignore[misc]
            signed[sums.index(one)] += [reply] * isinstance(reply, SignedSurvivors)
    for one, given in zip(sums, signed, strict=True):
        content = masked_sum._survivors_content(attempt, keys, one)
        given += [SignedSurvivors(liar, world.keys[liar].sign(content)) for liar in world.liars if liar in names]
        for name in names:
            world.say(name, lambda side, given=given: side.opened(attempt, given))  # type: ignore[misc]
    world.check()


def one_owners_sum(world: World, attempt: Attempt) -> None:
    """A learner asks for the sum of the liars and of one honest owner."""
    world.play(attempt, tuple((i, "survivors", "silent") for i in range(len(world.names))))
    learner = world.shown[attempt]
    few = tuple(name for name in learner.names if name in (*world.liars, world.honest[0]))
    signed = [world.say(name, lambda side: side.survivors(attempt, few)) for name in learner.names]
    for name in learner.names:
        world.say(name, lambda side: side.opened(attempt, [one for one in signed if one is not None]))
    world.check()


# Wrong versions ---------------------------------------------------------------------------------------------------------


def masks_the_survivors_noise_again(world: World, patch: pytest.MonkeyPatch) -> None:
    test_masked_sum.masks_the_survivors_noise_again(world, patch)


def signs_two_sets_of_survivors(world: World, patch: pytest.MonkeyPatch) -> None:
    signs, opens, signed = MaskedAnswers.survivors, MaskedAnswers.opened, dict[str, set[Any]]()

    def survivors(side: Any, attempt: Attempt, names: Any) -> Any:
        signed.setdefault(side._name, set()).add(tuple(names))
        side._open.survivors = ()
        return signs(side, attempt, names)

    def opened(side: Any, attempt: Attempt, signatures: Any) -> Any:
        for chosen in signed[side._name]:
            side._open.survivors, side._open.part, side._open.shares._done = chosen, None, ["mask"]
            with suppress(QueryRefused):
                return opens(side, attempt, signatures)
        raise QueryRefused("")

    patch.setattr(MaskedAnswers, "survivors", survivors)
    patch.setattr(MaskedAnswers, "opened", opened)


def opens_sums_of_few(world: World, patch: pytest.MonkeyPatch) -> None:
    """A set of survivors of any size is signed, such as that of one honest owner."""
    signs = MaskedAnswers.survivors

    def survivors(side: Any, attempt: Attempt, names: Any) -> Any:
        side._least, least = 1, side._least
        try:
            return signs(side, attempt, names)
        finally:
            side._least = least

    patch.setattr(MaskedAnswers, "survivors", survivors)


def masks_with_one_stream(world: World, patch: pytest.MonkeyPatch) -> None:
    """Not a polynomial's value, but the stream of the first owner, which colludes."""

    def masked(shares: Any, words: Words) -> Words:
        shares._once("mask")
        shares._length, stream = len(words), shares._stream(shares._owner, shares._names[0], len(words))
        return np.array([(words.astype(object) + stream) % PRIME, 0 * words], dtype=np.uint64)

    patch.setattr(MaskShares, "masked", masked)


def opens_each_owners_mask(world: World, patch: pytest.MonkeyPatch) -> None:
    """Streams of single owners in place of their sum."""
    opened = MaskedAnswers.opened

    def single(side: Any, attempt: Attempt, signatures: Any) -> Any:
        part = opened(side, attempt, signatures)
        for name in side._open.survivors:
            side._open.shares._done = ["mask"]
            words = side._open.shares.opened([name])
            world.took(side._name, OpenedMask(side._name, words, ""))
        return part

    patch.setattr(MaskedAnswers, "opened", single)


def one_set_of_streams_for_all_attempts(world: World, patch: pytest.MonkeyPatch) -> None:
    stream = MaskShares._stream

    def same(shares: Any, owner: str, member: str, length: int) -> Words:
        shares._digest, shares._secrets = b"one", dict.fromkeys(shares._names, b"one")
        return stream(shares, owner, member, length)

    patch.setattr(MaskShares, "_stream", same)


DEFECTS: dict[Any, Callable[[World], Any]] = {
    masks_the_survivors_noise_again: lambda w: [w.play(FIRST, ((2, "masked", "silent"),)), w.play(SECOND)],
    signs_two_sets_of_survivors: lambda w: two_sums(w, FIRST),
    opens_sums_of_few: lambda w: one_owners_sum(w, FIRST),
    masks_with_one_stream: lambda w: w.play(FIRST),
    opens_each_owners_mask: lambda w: w.play(FIRST),
    one_set_of_streams_for_all_attempts: lambda w: [w.play(FIRST), w.play(SECOND)],
}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: one.__name__)
def test_a_wrong_owner_is_found(defect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (False, True):
        world = World(5, 1, 4, 1)
        with world.watched():
            if not wrong:
                DEFECTS[defect](world)
                continue
            defect(world, monkeypatch)
            with pytest.raises(AssertionError):
                DEFECTS[defect](world)


# Histories --------------------------------------------------------------------------------------------------------------

KEY = ("silent", "killed", "again", "lies")
SHOWN = ("a set of one", "one is missing")
SET = (*KEY, *SHOWN, "a key replaced", "keys replaced", "another of a liar", "an old key", "one twice", "one key twice")
MASKED = ("silent", "killed", "again", "lies", *SHOWN, *STRIKES)
CHOSEN = (*KEY, *SHOWN, "another", "too few")
OPENED = (*KEY, *SHOWN)
edits = st.lists(
    st.one_of(
        *(
            st.tuples(st.integers(0, 7), st.just(step), st.sampled_from(what))
            for step, what in (
                ("key", KEY),
                ("set", SET),
                ("masked", MASKED),
                ("survivors", CHOSEN),
                ("opened", OPENED),
            )
        )
    ),
    max_size=5,
).map(tuple)


class Histories(RuleBasedStateMachine):
    @initialize(liars=st.integers(0, 2), dropouts=st.integers(1, 2), more=st.integers(0, 1), answers=st.integers(1, 5))
    def begin(self, liars: int, dropouts: int, more: int, answers: int) -> None:
        self.world = World(liars + 2 * dropouts + 1 + more, liars, answers, dropouts)
        self.watching = self.world.watched()
        self.watching.__enter__()

    @rule(attempt=attempts, edits=edits)
    def played(self, attempt: Attempt, edits: Any) -> None:
        """An attempt in which anybody may be away, late, killed or lie."""
        total = self.world.play(attempt, edits)
        assert total is None or self.world.right(attempt, total)

    @rule(owner=st.integers(0, 7), attempt=attempts)
    def asked(self, owner: int, attempt: Attempt) -> None:
        """A key by itself, which ends an attempt that is open."""
        self.world.ask(self.world.names[owner % len(self.world.names)], attempt)

    @rule(owner=st.integers(0, 7))
    def killed(self, owner: int) -> None:
        self.world.start(self.world.names[owner % len(self.world.names)])

    @rule(attempt=attempts, away=st.integers(0, 7))
    def asked_for_two_sums(self, attempt: Attempt, away: int) -> None:
        two_sums(self.world, attempt, away)

    @rule(attempt=attempts, owner=st.integers(0, 7))
    def late(self, attempt: Attempt, owner: int) -> None:
        """An owner that was missing masks after all, and what it gives is in no sum."""
        learner, name = self.world.shown.get(attempt), self.world.names[owner % len(self.world.names)]
        if learner is not None:
            signed = learner.said(sum_attempt.SET)
            self.world.say(name, lambda side: side.masked(attempt, signed))
        self.world.check()

    @rule(attempt=attempts, old=attempts, owner=st.integers(0, 7))
    def replayed(self, attempt: Attempt, old: Attempt, owner: int) -> None:
        """All that was said in one attempt is shown in another."""
        learner, name = self.world.shown.get(old), self.world.names[owner % len(self.world.names)]
        if learner is not None:
            keys, signed, chosen = (learner.said(step) for step in (0, 1, 3))
            self.world.say(name, lambda side: side.sign(attempt, keys))
            self.world.say(name, lambda side: side.masked(attempt, signed))
            self.world.say(name, lambda side: side.survivors(attempt, learner.survivors))
            self.world.say(name, lambda side: side.opened(attempt, chosen))
        self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.watching.__exit__(None, None, None)


Histories.TestCase.settings = settings(
    max_examples=int(os.environ.get("HISTORIES", "200")), stateful_step_count=8, deadline=None,
    suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
)  # fmt: skip
TestHistories = pytest.mark.slow(Histories.TestCase)
