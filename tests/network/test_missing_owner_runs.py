"""Runs of sums that owners may be missing from: owners that die, are slow or stay away, a learner that is killed or lies."""

import asyncio
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.display.run import verdict_fields, verified
from copriv.errors import AgreementError, Unreachable
from copriv.losses import Squared
from copriv.network.agent import OwnerAgent
from copriv.network.learner import Learner
from copriv.network.messages import Finished, MaskOpened, PublicKeys, Refusal, SetSigned, SumQuery, Survivors, encode
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore, StoreFailed
from copriv.network.turns import Conduct
from copriv.network.verify import verify_run
from copriv.privacy.release_time import ReleaseTime
from copriv.privacy.shared_noise import SharedNoise
from copriv.protocol import Answer
from ledger_files import opened
from memory_network import MemoryNetwork
from network.test_sum_runs import (
    ANSWERS,
    NAMES,
    RECORDS,
    ROUNDS,
    UNITS,
    ZERO,
    Held,
    Liar,
    Table,
    agreed_by,
    forgeries,
    held,
    lines_of,
    once,
    refused,
    written,
)
from network_parties import QUICK, Consortium, finished
from network_replay import assert_same_model

__all__ = ["held"]
LATE = 1000.0
"""Seconds after which an owner that has said nothing is late."""


@pytest.fixture
def agreed(held: Held) -> Agreement:
    return agreed_by(held, dropouts=1)


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[int]]]:
    """Every owner's noise in whole cells, as it was drawn, with its name."""
    drawn: list[tuple[str, list[int]]] = []
    share, draws = SharedNoise.share, SharedNoise._draws

    def shared(self: SharedNoise, owner: int, answer: Any) -> Any:
        def seen(self: SharedNoise, *given: Any) -> list[int]:
            drawn.append((NAMES[owner], draws(self, *given)))
            return drawn[-1][1]

        monkeypatch.setattr(SharedNoise, "_draws", seen)
        return share(self, owner, answer)

    monkeypatch.setattr(SharedNoise, "share", shared)
    return drawn


def expected(agreed: Agreement, noise: list[tuple[str, list[int]]], sums: list[list[str]]) -> Any:
    """S2 on the means over the owners of each sum, of clipped gradients and of their noise: the system in plain loops.

    A share of the noise is that of its owner's next answer.
    """
    cell = 2.0 ** agreed.mechanism.in_sum(agreed, range(4), 3).exponent
    total, θ, drawn = sum(UNITS.values()), np.zeros(3), list(noise)
    for k, names in enumerate(sums, start=1):
        cells = np.zeros(3)
        for name in names:
            own = next(i for i, (owner, _) in enumerate(drawn) if owner == name)
            cells += drawn.pop(own)[1]
            mean = np.zeros(3)
            for x, y in zip(RECORDS[name].features, RECORDS[name].target, strict=True):
                gradient = 2 * (x @ θ - y) * x
                mean += gradient * min(1.0, 2.0 / max(np.abs(gradient).sum(), 1e-300)) / UNITS[name]
            cells += np.round(mean * UNITS[name] / total / cell)
        there = sum(UNITS[name] for name in names) / total
        θ = np.clip(θ - 0.3 / np.sqrt(k) * (0.1 * θ + cells * cell / there), -10.0, 10.0)
    return θ


@pytest.mark.parametrize("lies", [False, True])
def test_a_sum_that_the_learner_may_have_seen_and_not_used_is_named(tmp_path: Path, held: Held, lies: bool) -> None:
    """It keeps its file as it was before the sum, and asks for another one."""
    agreed = agreed_by(held, attempts=1, dropouts=1)
    consortium, event, patient = (
        Consortium(tmp_path, agreed, "memory", held),
        RunStore.event,
        Conduct(deadline=1.0, patience=20.0),
    )

    def forgets(store: RunStore, named: str, *numbers: Any, **said: Any) -> None:
        if named == "survivors":
            store.commit()
        event(store, named, *numbers, **said)
        if named == "stepped":
            store.roll_back()
            raise store._failed(sqlite3.OperationalError("a sum that the learner does not like"))

    async def whole() -> Conductor:
        owners = [asyncio.ensure_future(consortium.own(i, records=RECORDS[NAMES[i]])) for i in range(4)]
        if lies:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(RunStore, "event", forgets)
                with pytest.raises(StoreFailed, match="does not like"):
                    await consortium.learn(patient)
        conductor = await consortium.learn(patient, resume=lies)
        await asyncio.wait(owners, timeout=5)
        return conductor

    conductor = asyncio.run(asyncio.wait_for(whole(), 60))
    assert finished(conductor), conductor.outcome
    verdict = verify_run(tmp_path / "run.db", agreed, held["learner"].authority)
    assert (verdict.problems, verdict.missing, verdict.unused_sums) == ((), {}, (1,) * lies)
    assert verdict_fields(verdict)["unused_sums"] == [1] * lies
    told = " ".join(map(str, verified(verdict, None, {"agreement": True, "authority": True})))
    assert ("Given up with all answers that a sum takes: turn 1." in told) == lies


class Late(Table):
    """A table at which time passes where nobody says anything."""

    now = 0.0

    def play(self) -> Any:
        while True:
            super().play()
            before = len(self.said)
            self.now += LATE
            self.conductor.conduct = Conduct(deadline=10.0, patience=1e9)
            self.conductor._turns._conduct = self.conductor.conduct
            self.conductor.tick(self.now)
            while self.step():
                pass
            if self.conductor.outcome is not None or len(self.said) == before:
                return self.conductor

    def dies_for_good(self, name: str, kind: type[Any]) -> None:
        """The owner is not heard of any more once a message of this kind came to it in the second round."""
        state = {"dead": False}

        def lost(owner: str, message: Any) -> bool:
            state["dead"] |= owner == name and isinstance(message, kind) and self.conductor.stepped == 1
            return state["dead"] and owner == name

        self.lost = lost
        self.die = self.leaves  # type: ignore[method-assign]

    def leaves(self, name: str) -> None:
        self.conductor.left(name, self.now)
        self.conductor.parties[name].there = False


def sums_of(table: Table) -> list[list[str]]:
    return [line.data["owners"] for line in table.store.events("stepped")]


# Owners that are missing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_a_run_that_nobody_is_missing_from_is_the_rule_on_the_sums(
    tmp_path: Path, held: Held, agreed: Agreement, noise: list[Any], kind: str
) -> None:
    consortium = Consortium(tmp_path, agreed, kind, held)
    own = consortium.own
    consortium.own = lambda i: own(i, records=RECORDS[NAMES[i]])  # type: ignore[method-assign]
    conductor = asyncio.run(consortium.run(Conduct(deadline=100.0, patience=100.0)))
    assert finished(conductor)
    assert_same_model(conductor.model, expected(agreed, noise, [[*NAMES]] * ROUNDS))
    assert verify_run(tmp_path / "run.db", agreed, held["learner"].authority).problems == ()
    for name in NAMES:
        with opened(tmp_path / f"{name}.ledger", name, Fraction(1)) as file:
            assert file.totals.spent == Fraction(ROUNDS, ANSWERS)


@pytest.mark.parametrize("kind", [SumQuery, PublicKeys, SetSigned, Survivors])
@pytest.mark.parametrize("name", ["bank-1", "bank-4"])
def test_a_run_goes_on_without_an_owner_that_stays_away(
    tmp_path: Path, held: Held, agreed: Agreement, noise: list[Any], kind: type[Any], name: str
) -> None:
    table = Late(agreed, held, tmp_path / "run.db")
    table.dies_for_good(name, kind)
    assert finished(table.play())
    others = [one for one in NAMES if one != name]
    sums = [[*NAMES], [*NAMES] if kind is Survivors else others, others]
    assert sums_of(table) == sums
    assert table.charged == [ROUNDS if one != name else 1 + (kind is Survivors) for one in NAMES]
    assert_same_model(table.conductor.model, expected(agreed, noise, sums))
    assert len(list(table.store.events("abandoned"))) == 0, "no attempt is lost"
    table.close()
    verdict = verify_run(table.path, agreed, held["learner"].authority, tmp_path / "run.json")
    assert verdict.problems == ()
    told = " ".join(
        str(one) for one in verified(verdict, tmp_path / "run.json", {"agreement": True, "authority": True})
    )
    assert "but for 1 owner that may be missing" in told


@pytest.mark.parametrize("kind", [SumQuery, PublicKeys, SetSigned, Survivors])
@pytest.mark.parametrize("name", ["bank-1", "bank-4"])
def test_an_owner_that_was_killed_is_back_in_the_next_sum(
    held: Held, agreed: Agreement, noise: list[Any], kind: type[Any], name: str
) -> None:
    table, left = Late(agreed, held), [1]
    table.lost = lambda owner, message: (
        owner == name and isinstance(message, kind) and table.conductor.stepped == 1 and bool(left) and bool(left.pop())
    )
    assert finished(table.play())
    others = [one for one in NAMES if one != name]
    sums = [[*NAMES], [*NAMES] if kind in (Survivors, SumQuery) else others, [*NAMES]]
    assert sums_of(table) == sums
    assert table.charged == [ROUNDS - (one == name and sums[1] == others) for one in NAMES]
    assert_same_model(table.conductor.model, expected(agreed, noise, sums))


@pytest.mark.parametrize("strike", ["after the charge", "after the record"])
def test_an_owner_killed_after_its_charge_is_missing_from_the_sum_or_gives_what_it_wrote_down(
    held: Held, agreed: Agreement, strike: str
) -> None:
    table = Late(agreed, held)
    table.ledgers["bank-2"].strike = strike
    assert finished(table.play())
    assert table.charged == [ROUNDS] * 4
    assert sums_of(table)[0] == [one for one in NAMES if one != "bank-2" or strike == "after the record"]


def test_with_two_owners_missing_there_is_no_sum_and_another_attempt_is_charged(
    tmp_path: Path, held: Held, agreed: Agreement
) -> None:
    table, left = Late(agreed, held, tmp_path / "run.db"), ["bank-3", "bank-2"]
    table.lost = lambda owner, message: (
        isinstance(message, Survivors) and bool(left) and owner == left[-1] and bool(left.pop())
    )
    assert finished(table.play())
    assert table.charged == [ROUNDS + 1] * 4
    assert sums_of(table) == [[*NAMES]] * ROUNDS
    assert len(list(table.store.events("abandoned"))) == 1
    table.close()
    assert verify_run(table.path, agreed, held["learner"].authority).problems == ()


def test_an_owner_that_signs_something_else_is_out_and_the_others_go_on(held: Held, agreed: Agreement) -> None:
    for kind in (PublicKeys, SetSigned, Survivors, MaskOpened):
        table = Late(agreed, held)
        reply = table.reply

        def lies(name: str, message: Any, kind: Any = kind, reply: Any = reply, table: Any = table) -> Any:
            given = reply(name, message)
            if name == "bank-2" and isinstance(given, kind):
                wrong = "00" if isinstance(given, MaskOpened) else ("00",)
                given = type(given)(**(vars(given) | {("signature" if wrong == "00" else "signatures"): wrong}))
            return given

        table.reply = lies  # type: ignore[method-assign]
        assert finished(table.play())
        assert table.conductor.parties["bank-2"].barred
        others = [one for one in NAMES if one != "bank-2"]
        assert sums_of(table) == [[*NAMES] if kind in (Survivors, MaskOpened) else others, others, others]


def test_a_sum_of_statistics_goes_on_without_an_owner(tmp_path: Path, held: Held) -> None:
    table = Late(once(held, 0, dropouts=1), held, tmp_path / "run.db")
    table.lost = lambda owner, message: owner == "bank-4" and isinstance(message, SetSigned)
    table.die = table.leaves  # type: ignore[method-assign]
    assert finished(table.play())
    assert table.charged == [1, 1, 1, 0]
    assert sums_of(table) == [[*NAMES[:3]]]
    table.close()
    assert verify_run(table.path, table.agreed, held["learner"].authority).problems == ()


def test_over_grpc_a_run_goes_on_without_an_owner_that_leaves(tmp_path: Path, held: Held, agreed: Agreement) -> None:
    """bank-3 is never heard of again after its first answer; the others wait for it once, for the deadline."""
    consortium = Consortium(tmp_path, agreed, "grpc", held)
    own = consortium.own

    async def leaves(i: int) -> str:
        if i != 2:
            return await own(i, records=RECORDS[NAMES[i]])
        while not consortium.address:
            await asyncio.sleep(1e-3)
        with opened(tmp_path / "bank-3.ledger", "bank-3", Fraction(1)) as file:
            agent = OwnerAgent(
                agreed, "bank-3", RECORDS["bank-3"], Squared(), file, consortium.dialer("bank-3"),
                keys=held["bank-3"], patience=QUICK, times=ReleaseTime(1e-3),
            )  # fmt: skip
            serving = asyncio.ensure_future(agent.serve())
            while agent.answers == 0:
                await asyncio.sleep(1e-3)
            serving.cancel()
        return "left"

    consortium.own = leaves  # type: ignore[method-assign]
    conductor = asyncio.run(consortium.run(Conduct(deadline=5.0, patience=60.0)))
    assert finished(conductor)
    assert verify_run(tmp_path / "run.db", agreed, held["learner"].authority).problems == ()
    last = [line.data["owners"] for line in RunStore.read(tmp_path / "run.db").events("stepped")][-1]
    assert last == ["bank-1", "bank-2", "bank-4"]


def test_a_closed_link_loses_no_message_to_other_owners(held: Held, agreed: Agreement) -> None:
    """bank-3's answer was the last one that an attempt waited for, and bank-3 is gone before it is told so."""
    conductor = Conductor(RunStore.create(":memory:", agreed, 3), Conduct(), 0.0, held["learner"])
    learner, heard = Learner(conductor, MemoryNetwork(), keys=held["learner"]), list[bytes]()

    class Closed:
        async def send(self, frame: bytes) -> None:
            raise Unreachable("closed")

    class Open:
        async def send(self, frame: bytes) -> None:
            heard.append(frame)

    async def flushed() -> None:
        learner._links = {"bank-3": Closed(), "bank-4": Open()}  # type: ignore[dict-item]
        conductor._outbox = [("bank-3", Finished("a")), ("bank-4", Finished("b"))]
        with pytest.raises(Unreachable):
            await learner._flush(learner._links["bank-3"])
        await asyncio.sleep(0)

    asyncio.run(flushed())
    assert heard == [encode(Finished("b"))]


# A learner that is killed -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_learner_killed_at_any_message_begins_another_attempt_and_forgets_no_charge(
    tmp_path: Path, held: Held, agreed: Agreement
) -> None:
    number = 0
    while True:
        table, steps = Late(agreed, held, tmp_path / f"run-{number}.db"), 0
        while steps < number and table.step():
            steps += 1
        if steps < number:
            break
        table.kill_learner()
        assert finished(table.play())
        assert max(table.charged) <= ROUNDS + 1
        table.close()
        assert verify_run(table.path, agreed, held["learner"].authority).problems == ()
        number += 7
    assert number > 50


# What is refused --------------------------------------------------------------------------------------------------------


def test_an_answer_that_no_message_holds_is_refused(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("copriv.network.run.MAX_FRAME", 2**16 + 90)
    with pytest.raises(AgreementError, match=r"dropouts: a masked answer of 3 numbers for 1 owners.*longer than a"):
        Table(agreed_by(held, dropouts=1), held)
    Table(agreed_by(held), held)


@pytest.fixture(params=["memory", "grpc"])
def liar(agreed: Agreement, held: Held, tmp_path: Path, request: pytest.FixtureRequest) -> Liar:
    return Liar(agreed, held, tmp_path, request.param)


async def masked(liar: Liar) -> tuple[PublicKeys, list[Any]]:
    """All owners' keys, and their answers."""
    await liar.introduce()
    first = liar.together(await liar.keys(ZERO, 1))
    signed = liar.together([await liar.asks(name, first) for name in NAMES])
    return first, [await liar.asks(name, signed) for name in NAMES]


def test_a_learner_that_shows_owners_different_survivors_gets_one_sum_or_none(liar: Liar) -> None:
    """Half of the owners are told that bank-3 dropped out, half that bank-4 did; bank-4 is on its side, and signs both."""

    async def scenario(liar: Liar) -> None:
        first, answers = await masked(liar)
        assert all(isinstance(one, Answer) for one in answers)
        sums = [("bank-1", "bank-2", "bank-4"), ("bank-1", "bank-2", "bank-3")]
        signed: list[dict[str, str]] = [{}, {}]
        for i, name in enumerate(NAMES):
            for which in (i % 2, 1 - i % 2):
                reply = await liar.asks(name, Survivors(first.identity, sums[which], ()))
                if isinstance(reply, Survivors):
                    signed[which][name] = reply.signatures[0]
                else:
                    refused(reply)
        assert [sorted(one) for one in signed] == [["bank-1", "bank-3"], ["bank-2", "bank-4"]]
        for names, given in zip(sums, signed, strict=True):
            texts = tuple(given.get(name, "") for name in NAMES)
            for name in NAMES:
                refused(await liar.asks(name, Survivors(first.identity, names, texts)))
                # Signatures of one set do not open the other.
                mixed = tuple((signed[0] | signed[1])[one] for one in NAMES)
                refused(await liar.asks(name, Survivors(first.identity, names, mixed)))

    assert liar.lie(scenario) == dict.fromkeys(NAMES, 1)


def test_a_learner_that_asks_for_the_sum_of_few_gets_nothing(liar: Liar) -> None:
    async def scenario(liar: Liar) -> None:
        first, _ = await masked(liar)
        for names in (
            ("bank-1",),
            ("bank-1", "bank-2"),
            (),
            ("bank-1",) * 3,
            ("bank-2", "bank-1", "bank-3"),
            ("x",) * 3,
        ):
            refused(await liar.asks("bank-1", Survivors(first.identity, names, ())))
        names = ("bank-1", "bank-2", "bank-3")
        mine = await liar.asks("bank-1", Survivors(first.identity, names, ()))
        assert isinstance(mine, Survivors)
        for texts in ((), mine.signatures, mine.signatures * 4, (*mine.signatures, "", "", ""), ("00",) * 4):
            reply = await liar.asks("bank-1", Survivors(first.identity, names, texts))
            assert isinstance(reply, Survivors if not texts else Refusal), "it signs the same again, and opens nothing"

    assert liar.lie(scenario) == dict.fromkeys(NAMES, 1)


def test_a_learner_that_replays_an_old_sum_gets_what_it_has(liar: Liar) -> None:
    async def scenario(liar: Liar) -> None:
        first, answers = await masked(liar)
        ask = Survivors(first.identity, NAMES, ())
        signed = liar.together_survivors([await liar.asks(name, ask) for name in NAMES])  # type: ignore[attr-defined]
        parts = [await liar.asks(name, signed) for name in NAMES]
        assert all(isinstance(one, MaskOpened) for one in parts)
        again = await liar.asks("bank-1", signed)
        assert again.words.tobytes() == parts[0].words.tobytes(), "the same part, and no other"
        less = Survivors(first.identity, NAMES[:3], ())
        refused(await liar.asks("bank-1", less))
        second = await liar.keys(ZERO + 0.5, 2)
        for message in (ask, less, signed, Survivors(second[0].identity, NAMES, signed.signatures)):
            refused(await liar.asks("bank-1", message))
        given = await liar.asks("bank-1", liar.query("bank-1", ZERO, 1))
        assert given.gradient.tobytes() == answers[0].gradient.tobytes()

    liar.together_survivors = lambda given: Survivors(  # type: ignore[attr-defined]
        given[0].identity, given[0].owners, tuple(one.signatures[0] for one in given)
    )
    assert liar.lie(scenario) == dict.fromkeys(NAMES, 1)


# Verification -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(held: Held, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run's file, in which an owner is missing from the second sum."""
    table, left = Late(agreed_by(held, dropouts=1), held, tmp_path_factory.mktemp("whole") / "run.db"), [1]
    table.lost = lambda owner, message: (
        owner == "bank-3"
        and isinstance(message, SetSigned)
        and table.conductor.stepped == 1
        and bool(left and left.pop())
    )
    assert finished(table.play())
    table.close()
    return Path(table.path)


def test_every_changed_field_of_a_run_with_missing_owners_is_found(whole: Path, held: Held, tmp_path: Path) -> None:
    agreed, lines = agreed_by(held, dropouts=1), lines_of(whole)
    authority, model = held["learner"].authority, whole.with_suffix(".json")
    assert verify_run(whole, agreed, authority, model).problems == ()
    missed = []
    for what, forged in forgeries(lines):
        path = written(whole, forged, tmp_path / "forged.db", held, agreed)
        if verify_run(path, agreed, authority, model).ok:
            missed.append(what)
    assert missed == []
