"""Runs in which the learner sees sums only: over memory and gRPC, with owners that die, a learner that lies or is killed."""

import asyncio
import contextlib
import json
import math
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.display.run import verified
from copriv.errors import AgreementError, CoprivError, QueryRefused
from copriv.losses import Squared
from copriv.network.agent import OwnerAgent, refusal_of
from copriv.network.grpc_transport import GrpcDialer, GrpcListener
from copriv.network.keys import Keys, KeysRefused
from copriv.network.messages import (
    Closing,
    Hello,
    MaskOpened,
    Members,
    PublicKeys,
    Refusal,
    SetSigned,
    SumQuery,
    Survivors,
    closing_content,
    decode,
    encode,
    query_content,
    signed_answer,
    signed_query,
)
from copriv.network.run_state import Conductor
from copriv.network.store import START, RunStore, line_hash
from copriv.network.sum_messages import OwnersPart, attempt_of
from copriv.network.turns import Conduct
from copriv.network.verify import verify_run
from copriv.owner import Owner
from copriv.privacy.ledger import MemoryLedger
from copriv.privacy.release_time import ReleaseTime
from copriv.privacy.shared_noise import SharedNoise
from copriv.protocol import Answer, Query
from ledger_files import opened
from memory_network import MemoryNetwork
from network_parties import QUICK, Consortium, MemoryLedgers, finished, keys, records, welcome
from network_replay import assert_same_model
from unsigned import unsigned

Held = dict[str, Keys]
NAMES = ("bank-1", "bank-2", "bank-3", "bank-4")
UNITS = dict(zip(NAMES, (150, 200, 250, 300), strict=True))
ROUNDS, ANSWERS = 3, 5
RECORDS = {name: records(i, n) for i, (name, n) in enumerate(UNITS.items())}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    return keys(tmp_path_factory.mktemp("keys"), NAMES)


def agreed_by(held: Held, *, attempts: int = 2, **terms: Any) -> Agreement:
    learning = {
        "rule": "S2", "horizon": 8, "answers": ROUNDS + attempts, "attempts": attempts, "step": 0.3, "iterate": "last",
        "aggregation": "sum",
    }  # fmt: skip
    owners = [
        {"name": name, "records": UNITS[name], "epsilon": 1.0, "key": held[name].party.key_fingerprint}
        for name in NAMES
    ]
    return Agreement.of(
        {
            "agreement": learning | terms,
            "model": {"loss": "squared", "regularization": 0.1, "theta_max": 10.0, "gradient_bound": 2.0},
            "data": {"components": 3, "feature_bound": 0.0},
            "owner": owners,
        }
    )


@pytest.fixture
def agreed(held: Held) -> Agreement:
    return agreed_by(held)


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Every owner's noise in whole cells, as it was drawn."""
    drawn: list[list[int]] = []
    draws = SharedNoise._draws

    def seen(self: SharedNoise, *given: Any) -> list[int]:
        drawn.append(draws(self, *given))
        return drawn[-1]

    monkeypatch.setattr(SharedNoise, "_draws", seen)
    return drawn


def expected(agreed: Agreement, noise: list[list[int]]) -> Any:
    """S2 on the sums of the owners' clipped gradients and of that noise, four draws a round: the system in plain loops."""
    cell = 2.0 ** agreed.mechanism.in_sum(agreed, range(4), 3).exponent  # type: ignore[attr-defined]
    total, θ = sum(UNITS.values()), np.zeros(3)
    for k in range(1, len(noise) // 4 + 1):
        cells = np.sum(noise[4 * (k - 1) : 4 * k], axis=0).astype(np.float64)
        for name, held in RECORDS.items():
            mean = np.zeros(3)
            for x, y in zip(held.features, held.target, strict=True):
                gradient = 2 * (x @ θ - y) * x
                mean += gradient * min(1.0, 2.0 / max(np.abs(gradient).sum(), 1e-300)) / UNITS[name]
            cells += np.round(mean * UNITS[name] / total / cell)
        θ = np.clip(θ - 0.3 / math.sqrt(k) * (0.1 * θ + cells * cell), -10.0, 10.0)
    return θ


class Killed(Exception):
    """The process of an owner is killed."""


class Struck(MemoryLedger):
    """A ledger that outlives its owner's process, which may be killed at a call."""

    strike = ""

    def charge(self, *given: Any) -> None:
        super().charge(*given)
        self._kill("after the charge")

    def record(self, *given: Any) -> None:
        super().record(*given)
        self._kill("after the record")

    def _kill(self, now: str) -> None:
        if self.strike == now:
            self.strike = ""
            raise Killed


class Table:
    """Owners and a conductor at one table: every message is encoded, signed and decoded, in one order."""

    def __init__(self, agreed: Agreement, held: Held, path: str | Path = ":memory:") -> None:
        self.agreed, self.held, self.path = agreed, held, path
        self.ledgers = {name: Struck(name, Fraction(1), agreed.answers) for name in NAMES}
        self.inbox = deque[tuple[str, bytes]]()
        self.parts: dict[str, OwnersPart] = {}
        self.said: list[Any] = []
        """All that owners said, but for what was lost."""
        self.lost: Callable[[str, Any], bool] = lambda owner, message: False
        """Whether a message to an owner is lost, and the owner killed."""
        self.store = RunStore.create(path, agreed, 3)
        self.begin()
        for name in NAMES:
            self.start(name)

    def begin(self) -> None:
        self.conductor = Conductor(self.store, Conduct(), 0.0, self.held["learner"])

    def start(self, name: str) -> None:
        """A new process of an owner, with its ledger, which dials."""
        owner = Owner(self.agreed, name, RECORDS[name], Squared(), self.ledgers[name])
        self.parts[name] = OwnersPart(self.agreed, self.store.run, self.held[name], owner)
        self.dial(name)

    def dial(self, name: str) -> None:
        self.conductor.joined(name, 0.0, self.held[name].certificate.decode())

    def die(self, name: str) -> None:
        self.inbox = deque(one for one in self.inbox if one[0] != name)
        self.conductor.left(name, 0.0)
        self.start(name)

    def kill_learner(self) -> None:
        """What is not on the disk is gone, as are all messages on their way."""
        self.store.roll_back()
        self.store.close()
        self.inbox.clear()
        self.store = RunStore.resume(self.path, self.agreed)
        self.begin()
        for name in NAMES:
            self.dial(name)

    def reply(self, name: str, message: Any) -> Any:
        part = self.parts[name]
        if isinstance(message, Members):
            part.meet(message)
            return None
        try:
            given = part.reply(message)
        except CoprivError as error:
            return Refusal(message.identity, *refusal_of(error))
        if isinstance(given, Answer):
            assert part.query is not None
            assert given.identity in self.ledgers[name]._charged, "a vector left uncharged"
            given = signed_answer(self.held[name], self.store.run, part.query, given)
        return given

    def say(self, name: str, message: Any) -> None:
        self.said.append(message)
        match decode(encode(message)):
            case Answer() as answer:
                self.conductor.answered(answer, 0.0)
            case PublicKeys() | SetSigned() | Survivors() | MaskOpened() as one:
                self.conductor.relayed(name, one, 0.0)
            case Refusal() as refusal:
                self.conductor.refused(name, refusal, 0.0)

    def step(self) -> bool:
        """Carry one message to an owner, and its reply back; returns whether there was one."""
        self.inbox += [(owner, encode(message)) for owner, message in self.conductor.take_outbox()]
        if not self.inbox:
            return False
        name, frame = self.inbox.popleft()
        message = decode(frame)
        if self.lost(name, message):
            self.die(name)
            return True
        try:
            reply = self.reply(name, message)
        except Killed:
            self.die(name)
        else:
            if reply is not None:
                self.say(name, reply)
        return True

    def play(self) -> Conductor:
        while self.step():
            pass
        return self.conductor

    def close(self) -> None:
        """Counts, a signed model, and the end of the file."""
        assert self.conductor.closing is not None
        for name in NAMES:
            count = Closing(self.conductor.closing.head, self.ledgers[name].answers)
            content = closing_content(self.store.run, name, self.agreed.fingerprint, count)
            self.conductor.closed(name, Closing(count.head, count.answered, self.held[name].sign(content)))
        model = self.conductor.signed_model(None)
        if self.path != ":memory:":
            Path(self.path).with_suffix(".json").write_text(model.to_json())
        self.store.close()

    @property
    def charged(self) -> list[int]:
        return [ledger.answers for ledger in self.ledgers.values()]


# Honest runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_the_model_is_the_rules_on_the_sums(
    tmp_path: Path, held: Held, agreed: Agreement, noise: list[list[int]], kind: str
) -> None:
    consortium = Consortium(tmp_path, agreed, kind, held)
    own = consortium.own
    consortium.own = lambda i: own(i, records=RECORDS[NAMES[i]])  # type: ignore[method-assign]
    conductor = asyncio.run(consortium.run(Conduct(deadline=100.0, patience=100.0)))
    assert finished(conductor)
    assert len(noise) == 4 * ROUNDS
    assert_same_model(conductor.model, expected(agreed, noise))
    store = RunStore.resume(tmp_path / "run.db", agreed)
    assert len(list(store.events("answer"))) == 4 * ROUNDS
    store.close()
    assert verify_run(tmp_path / "run.db", agreed, held["learner"].authority).problems == ()
    for name in NAMES:
        with opened(tmp_path / f"{name}.ledger", name, Fraction(1)) as file:
            assert file.totals.spent == Fraction(ROUNDS, ANSWERS)


def once(held: Held, attempts: int = 1, **terms: Any) -> Agreement:
    """Owners that give their statistics, at the start, in one sum."""
    document = agreed_by(held).to_dict()
    document["agreement"] |= {
        "mechanism": "statistics", "moments_share": 0.4, "answers": 1 + attempts, "attempts": attempts, "step": 1.0,
    } | terms  # fmt: skip
    del document["agreement"]["iterate"]
    document["data"] = {"feature_bound": 1.0}
    return Agreement.of(document)


def solved(agreed: Agreement, noise: list[list[int]]) -> Any:
    """The ridge regression of the sum of all owners' statistics and of that noise, its curvature raised to the noise's edge."""
    shared = agreed.mechanism.in_sum(agreed, range(4), 3)
    unit, total, cell = shared.unit, sum(UNITS.values()), 2.0**shared.exponent
    assert unit is not None
    cells = np.sum(noise, axis=0).astype(np.float64)
    for name, held in RECORDS.items():
        mean = np.zeros(9)
        for x, y in zip(held.features, held.target, strict=True):
            gradient = -2 * y * x
            gradient *= min(1.0, 2.0 / max(np.abs(gradient).sum(), 1e-300))
            x = x * min(1.0, 1.0 / np.abs(x).sum())
            mean += np.concatenate([gradient, np.outer(x, x)[np.triu_indices(3)]]) / UNITS[name]
        cells += np.round(mean / unit * UNITS[name] / total / cell)
    sums, H = cells * cell * unit, np.zeros((3, 3))
    H[np.triu_indices(3)] = sums[3:]
    values, vectors = np.linalg.eigh(2 * (H + H.T - np.diag(np.diag(H))) + 0.1 * np.eye(3))
    # Four owners' shares are 4/3 of Laplace noise that hides a record, 2/1.0 of it in each of two answers. Scale b on a mean
    # of x_j² is variance 2b² on an entry of 2H, but for the grid.
    b = 2 * 2 / total * unit[3] * math.sqrt(4 / 3)
    curvatures = np.maximum(values, 2 * math.sqrt(3) * math.sqrt(2) * b)
    return np.clip(-vectors @ (vectors.T @ sums[:3] / curvatures), -10.0, 10.0)


@pytest.mark.parametrize("kind", ["memory", "grpc"])
def test_statistics_of_all_owners_are_seen_as_one_sum(
    tmp_path: Path, held: Held, noise: list[list[int]], kind: str
) -> None:
    agreed = once(held)
    consortium = Consortium(tmp_path, agreed, kind, held)
    own = consortium.own
    consortium.own = lambda i: own(i, records=RECORDS[NAMES[i]])  # type: ignore[method-assign]
    conductor = asyncio.run(consortium.run(Conduct(deadline=100.0, patience=100.0)))
    assert finished(conductor)
    assert len(noise) == 4
    assert_same_model(conductor.model, solved(agreed, noise))
    assert verify_run(tmp_path / "run.db", agreed, held["learner"].authority).problems == ()
    for name in NAMES:
        with opened(tmp_path / f"{name}.ledger", name, Fraction(1)) as file:
            assert file.totals.spent == Fraction(1, 2)


@pytest.mark.parametrize("attempts", [0, 1])
def test_an_owner_that_dies_costs_a_sum_of_statistics_an_attempt(
    tmp_path: Path, held: Held, noise: list[list[int]], attempts: int
) -> None:
    table = Table(once(held, attempts), held, tmp_path / "run.db")
    left = [1]

    def lost(owner: str, message: Any) -> bool:
        return owner == "bank-4" and isinstance(message, SetSigned) and bool(left) and bool(left.pop())

    table.lost = lost
    conductor = table.play()
    assert conductor.outcome is not None
    assert finished(conductor) == (attempts == 1)
    assert table.charged == [1 + attempts] * 3 + [attempts]
    assert len({tuple(one) for one in noise}) == len(noise) == sum(table.charged), "noise of its own for each attempt"
    if attempts:
        assert_same_model(conductor.model, solved(table.agreed, noise[3:]))
    table.close()
    verdict = verify_run(table.path, table.agreed, held["learner"].authority)
    assert (verdict.problems, verdict.outcome) == ((), "finished" if attempts else "stopped")


def test_single_answers_in_the_learners_file_say_nothing(held: Held, agreed: Agreement) -> None:
    """Each masked answer is far outside the range of what it hides; only their sum is inside it."""
    table = Table(agreed, held)
    table.play()
    sums = [line.numbers for line in table.store.events("answer")]
    noise = agreed.mechanism.in_sum(agreed, range(4), 3)  # type: ignore[attr-defined]
    single = [noise.vector(np.asarray(one).astype("<u4").view("<u8").astype(np.uint64)) for one in sums]
    # A uniform word is as close to 0 as 1e-9 of the range with a probability of 2e-9.
    assert np.abs(single).min() > 1e-9 * 2.0 ** (63 + noise.exponent) > 100.0
    assert np.abs(table.conductor.model).max() < 10.0 + 1e-9


def test_groups_that_answer_in_turn_give_sums_of_their_own(held: Held) -> None:
    agreed = agreed_by(held, rule="A2", horizon=6, attempts=0, colluding=0, group_size=2)
    table = Table(agreed, held)
    conductor = table.play()
    assert finished(conductor)
    assert conductor.stepped == agreed.queries == 6
    assert table.charged == [3, 3, 3, 3]


def test_the_file_and_its_model_say_that_only_sums_were_seen(tmp_path: Path, held: Held, agreed: Agreement) -> None:
    table = Table(agreed, held, tmp_path / "run.db")
    table.play()
    table.close()
    verdict = verify_run(table.path, agreed, held["learner"].authority, tmp_path / "run.json")
    assert verdict.problems == ()
    assert (verdict.record["aggregation"], verdict.record["colluding"]) == ("sum", 1)
    scales = [owner["noise_scale"] for owner in verdict.record["owners"]]
    assert scales == pytest.approx(agreed.noise_scales().tolist())
    told = " ".join(
        str(one) for one in verified(verdict, tmp_path / "run.json", {"agreement": True, "authority": True})
    )
    assert "The learner saw sums" in told
    assert "any 1 other owner" in told


# Owners that die --------------------------------------------------------------------------------------------------------


def dies_once(table: Table, name: str, kind: type[Any]) -> None:
    """The owner is killed when the second round's message of this kind comes to it."""
    state = {"left": 1}

    def lost(owner: str, message: Any) -> bool:
        hit = owner == name and isinstance(message, kind) and table.conductor.stepped == 1 and state["left"] > 0
        state["left"] -= hit
        return hit

    table.lost = lost


@pytest.mark.parametrize(("kind", "charged"), [(SumQuery, 0), (PublicKeys, 0), (SetSigned, 1)])
@pytest.mark.parametrize("name", ["bank-1", "bank-4"])
def test_an_owner_that_dies_ends_the_attempt_and_the_next_one_is_another_answer(
    held: Held, agreed: Agreement, noise: list[list[int]], kind: type[Any], charged: int, name: str
) -> None:
    table = Table(agreed, held)
    dies_once(table, name, kind)
    conductor = table.play()
    assert finished(conductor)
    assert table.charged == [ROUNDS + charged * (one != name) for one in NAMES]
    assert len({tuple(one) for one in noise}) == len(noise) == sum(table.charged), "noise of its own for each answer"
    turns = [line.data for line in table.store.events("asked")]
    assert len(turns) == ROUNDS + (kind is not SumQuery)
    assert [one.data["k"] for one in table.store.events("stepped")] == [1, 2, 3]
    words = [line.numbers.tobytes() for line in table.store.events("answer")]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize(("strike", "again"), [("after the charge", 1), ("after the record", 0)])
def test_an_owner_killed_after_its_charge_gives_what_it_wrote_down_or_nothing(
    held: Held, agreed: Agreement, noise: list[list[int]], strike: str, again: int
) -> None:
    table = Table(agreed, held)
    table.ledgers["bank-2"].strike = strike
    conductor = table.play()
    assert finished(conductor)
    assert table.charged == [ROUNDS + again] * 4
    # Where the charge came first, noise was drawn by the three others alone.
    assert len(noise) == 4 * ROUNDS + 3 * again
    lost = conductor.parties["bank-2"].lost
    assert lost == again


def test_a_killed_agent_with_its_ledger_in_a_file_is_charged_and_masks_anew(
    tmp_path: Path, held: Held, agreed: Agreement, noise: list[list[int]]
) -> None:
    """The agents are the ones that `copriv owner serve` runs; bank-3 is killed between its charge and its answer."""
    consortium, killed = Consortium(tmp_path, agreed, "memory", held), list[str]()
    own = consortium.own

    class Kills:
        def __init__(self, file: Any) -> None:
            self.file = file

        def holds(self, head: str) -> bool:
            return bool(self.file.holds(head))

        def run(self, *given: Any) -> Any:
            ledger = self.file.run(*given)
            record = ledger.record

            def dies(*given: Any) -> None:
                if not killed:
                    killed.append("bank-3")
                    raise Killed
                record(*given)

            ledger.record = dies
            return ledger

    async def owner(i: int) -> str:
        if i != 2:
            return await own(i, records=RECORDS[NAMES[i]])
        with opened(tmp_path / "bank-3.ledger", "bank-3", Fraction(1)) as file:
            agent = OwnerAgent(
                agreed, "bank-3", RECORDS["bank-3"], Squared(), Kills(file), consortium.dialer("bank-3"),
                keys=held["bank-3"], patience=QUICK, times=ReleaseTime(1e-3),
            )  # fmt: skip
            with pytest.raises(Killed):
                await agent.serve()
        return await own(i, records=RECORDS["bank-3"])

    consortium.own = owner  # type: ignore[method-assign]
    conductor = asyncio.run(consortium.run(Conduct(deadline=100.0, patience=100.0)))
    assert killed == ["bank-3"]
    assert finished(conductor)
    for name in NAMES:
        with opened(tmp_path / f"{name}.ledger", name, Fraction(1)) as file:
            assert file.totals.spent == Fraction(ROUNDS + 1, ANSWERS)
    assert len({tuple(one) for one in noise}) == len(noise)
    assert verify_run(tmp_path / "run.db", agreed, held["learner"].authority).problems == ()


def test_when_the_attempts_are_used_up_the_run_ends_unfinished(tmp_path: Path, held: Held, agreed: Agreement) -> None:
    table = Table(agreed, held, tmp_path / "run.db")
    # It dies when the others have masked: each time it costs them an answer.
    table.lost = lambda owner, message: owner == "bank-4" and isinstance(message, SetSigned)
    conductor = table.play()
    assert conductor.outcome is not None
    assert (conductor.outcome.status, conductor.stepped) == ("stopped", 0)
    assert table.charged == [ANSWERS, ANSWERS, ANSWERS, 0]
    assert "further attempts at a sum are used up" in conductor.outcome.reason
    table.close()
    verdict = verify_run(table.path, agreed, held["learner"].authority)
    assert verdict.problems == ()
    assert verdict.outcome == "stopped"


# A learner that is killed -----------------------------------------------------------------------------------------------


def test_a_learner_killed_at_any_message_goes_on_or_stops_and_forgets_no_charge(
    tmp_path: Path, held: Held, agreed: Agreement, noise: list[list[int]]
) -> None:
    number, most = 0, 0
    while True:
        noise.clear()
        table = Table(agreed, held, tmp_path / f"run-{number}.db")
        steps = 0
        while steps < number and table.step():
            steps += 1
        if steps < number:
            break
        table.kill_learner()
        conductor = table.play()
        assert conductor.outcome is not None
        assert finished(conductor), "an owner that is still there goes on, or two attempts are enough"
        assert max(table.charged) <= ROUNDS + 1
        most = max(most, *table.charged)
        assert len({tuple(one) for one in noise}) == len(noise) == sum(table.charged)
        table.close()
        assert verify_run(table.path, agreed, held["learner"].authority).problems == ()
        number += 5
    assert number > 30
    assert most == ROUNDS + 1, "a kill between the masks costs an answer"


# What is refused --------------------------------------------------------------------------------------------------------


def test_a_run_of_sums_needs_every_owners_key_and_every_owner(held: Held, agreed: Agreement) -> None:
    document = agreed.to_dict()
    del document["owner"][3]["key"]
    without = Agreement.of(document)
    with pytest.raises(AgreementError, match=r"owner\.key: the agreement names no key of bank-4"):
        RunStore.create(":memory:", without, 3)
    dialer = MemoryNetwork().dialer("bank-1")
    with pytest.raises(AgreementError, match=r"owner\.key: the agreement names no key of bank-4"):
        OwnerAgent(
            without, "bank-1", RECORDS["bank-1"], Squared(), MemoryLedgers("bank-1"), dialer, keys=held["bank-1"]
        )
    with pytest.raises(AgreementError, match="--stragglers wait"):
        Conductor(RunStore.create(":memory:", agreed, 3), Conduct(stragglers="drop"), 0.0, held["learner"])


def test_what_is_no_masked_answer_is_refused(held: Held, agreed: Agreement) -> None:
    trajectory = Table(agreed, held).conductor.run.trajectory
    for wrong in (np.zeros(3), np.full(6, 0.5), np.full(6, -1.0), np.full(6, 2.0**32), np.full(6, np.nan)):
        assert "it must be" in trajectory.unfit(wrong)
    assert trajectory.unfit(np.full(6, 2.0**32 - 1)) == ""


@pytest.mark.parametrize("what", ["key", "set", "no hex"])
def test_an_owner_that_signs_something_else_is_out_and_nobody_is_charged(
    held: Held, agreed: Agreement, what: str
) -> None:
    table = Table(agreed, held)
    reply = table.reply

    def lies(name: str, message: Any) -> Any:
        given = reply(name, message)
        if name == "bank-2" and isinstance(given, PublicKeys) and what in ("key", "no hex"):
            return PublicKeys(given.identity, ("zz" if what == "no hex" else "00" * 32,), given.signatures)
        if name == "bank-2" and isinstance(given, SetSigned) and what == "set":
            return SetSigned(given.identity, (held["bank-2"].sign(b"another set"),))
        return given

    table.reply = lies  # type: ignore[method-assign]
    conductor = table.play()
    assert conductor.outcome is not None
    assert conductor.outcome.status == "stopped"
    assert "bank-2 cannot take part in this run again, and resuming does not change that" in conductor.outcome.reason
    assert "to go on, sign a new agreement for what every owner has left" in conductor.outcome.reason
    assert table.charged == [0, 0, 0, 0]
    assert conductor.parties["bank-2"].barred


class Liar:
    """A learner that says to live owners what a test says, over links in memory or over gRPC with TLS."""

    patience = 100.0

    def __init__(self, agreed: Agreement, held: Held, folder: Path, kind: str) -> None:
        self.agreed, self.held, self.folder, self.run = agreed, held, folder, "run"
        self.memory = MemoryNetwork() if kind == "memory" else None
        self.links: dict[str, Any] = {}
        self.there = asyncio.Event()
        self.over = asyncio.Event()

    async def serve(self, link: Any) -> None:
        hello = decode(await link.receive())
        assert isinstance(hello, Hello)
        await link.send(encode(welcome(self.held["learner"], hello, self.run)))
        self.links[hello.owner] = link
        if len(self.links) == len(NAMES):
            self.there.set()
        await self.over.wait()

    def query(self, name: str, theta: Any, attempt: int, **other: Any) -> SumQuery:
        plain = SumQuery("", self.agreed.fingerprint, name, np.array(theta), "", "", attempt, attempt)
        named = {"identity": attempt_of(plain, self.run).identity} | other
        said = SumQuery(**(vars(plain) | named))
        return signed_query(self.held["learner"], self.run, said)  # type: ignore[return-value]

    async def asks(self, name: str, message: Any) -> Any:
        await self.links[name].send(encode(message))
        return decode(await self.links[name].receive())

    async def tells(self, name: str, message: Any) -> None:
        await self.links[name].send(encode(message))

    async def introduce(self) -> None:
        for name in NAMES:
            await self.tells(name, Members(tuple(self.held[one].certificate.decode() for one in NAMES)))

    async def keys(self, theta: Any, attempt: int) -> list[PublicKeys]:
        given = [await self.asks(name, self.query(name, theta, attempt)) for name in NAMES]
        assert all(isinstance(one, PublicKeys) for one in given)
        return given

    def together(self, given: list[Any]) -> Any:
        signatures = tuple(one.signatures[0] for one in given)
        if isinstance(given[0], PublicKeys):
            return PublicKeys(given[0].identity, tuple(one.keys[0] for one in given), signatures)
        return SetSigned(given[0].identity, signatures)

    def lie(self, scenario: Callable[["Liar"], Any]) -> dict[str, int]:
        """Play it with four live owners; returns how many answers each was charged for."""

        async def played() -> None:
            memory = self.memory
            network = memory or GrpcListener("127.0.0.1:0", self.held["learner"])
            async with network.listening(self.serve) as address:
                with contextlib.ExitStack() as files:
                    owners = []
                    for name in NAMES:
                        file = files.enter_context(opened(self.folder / f"{name}.ledger", name, Fraction(1)))
                        dialer = memory.dialer(name) if memory else GrpcDialer(address, self.held[name])
                        agent = OwnerAgent(
                            self.agreed, name, RECORDS[name], Squared(), file, dialer,
                            keys=self.held[name], patience=QUICK, times=ReleaseTime(1e-3),
                        )  # fmt: skip
                        owners.append(asyncio.ensure_future(agent.serve()))
                    try:
                        await asyncio.wait_for(self.there.wait(), 100)
                        await asyncio.wait_for(scenario(self), self.patience)
                    finally:
                        for one in owners:
                            one.cancel()
                        self.ended = await asyncio.gather(*owners, return_exceptions=True)
                        self.over.set()

        asyncio.run(played())
        charged = {}
        for name in NAMES:
            with opened(self.folder / f"{name}.ledger", name, Fraction(1)) as file:
                charged[name] = round(file.totals.spent * ANSWERS)
        return charged


@pytest.fixture(params=["memory", "grpc"])
def liar(agreed: Agreement, held: Held, tmp_path: Path, request: pytest.FixtureRequest) -> Liar:
    return Liar(agreed, held, tmp_path, request.param)


ZERO, NOBODY = np.zeros(3), dict.fromkeys(NAMES, 0)


def refused(reply: Any) -> None:
    assert isinstance(reply, Refusal)
    assert reply.code == "query"


def test_a_learner_that_shows_owners_different_sets_gets_nothing(liar: Liar) -> None:
    """bank-4 is on its side, and gives the others different keys of its own."""

    async def scenario(liar: Liar) -> None:
        await liar.introduce()
        given = await liar.keys(ZERO, 1)
        # Its own second key: another process of bank-4 would make one.
        part = OwnersPart(
            liar.agreed, liar.run, liar.held["bank-4"], Owner(liar.agreed, "bank-4", RECORDS["bank-4"], Squared())
        )
        part.meet(Members(tuple(liar.held[one].certificate.decode() for one in NAMES)))
        other = part.reply(liar.query("bank-4", ZERO, 1))
        one, two = liar.together(given), liar.together([*given[:3], other])
        assert one.keys != two.keys
        signed = [await liar.asks(name, one) for name in ("bank-1", "bank-2")]
        signed.append(await liar.asks("bank-3", two))
        assert all(isinstance(sign, SetSigned) for sign in signed)
        mine = [(await liar.asks("bank-4", one)).signatures[0], part.reply(two).signatures[0]]  # type: ignore[union-attr]
        for name, own in zip(NAMES[:3], (mine[0], mine[0], mine[1]), strict=True):
            texts = (*(sign.signatures[0] for sign in signed), own)
            refused(await liar.asks(name, SetSigned(one.identity, texts)))
        # bank-1 does not sign a second set of the attempt either.
        refused(await liar.asks("bank-1", two))

    assert liar.lie(scenario) == NOBODY


def test_a_learner_that_shows_a_set_of_one_or_its_own_keys_gets_nothing(liar: Liar) -> None:
    async def scenario(liar: Liar) -> None:
        await liar.introduce()
        given = await liar.keys(ZERO, 1)
        own = given[0]
        made = liar.together(given)
        forged = tuple(liar.held["learner"].sign(key.encode()) for key in made.keys)
        for keys_, signatures in (
            (own.keys, own.signatures),
            (own.keys * 4, own.signatures * 4),
            ((), ()),
            (made.keys[:3], made.signatures[:3]),
            (made.keys, forged),
            (made.keys[::-1], made.signatures[::-1]),
            ((made.keys[0], *made.keys[2:], made.keys[1]), made.signatures),
        ):
            refused(await liar.asks("bank-1", PublicKeys(made.identity, keys_, signatures)))
        signed = await liar.asks("bank-1", made)
        assert isinstance(signed, SetSigned)
        for signatures in (signed.signatures, signed.signatures * 4, (), ("",) * 4):
            refused(await liar.asks("bank-1", SetSigned(made.identity, signatures)))

    assert liar.lie(scenario) == NOBODY


def test_a_learner_that_replays_an_old_round_gets_what_it_has(liar: Liar) -> None:
    async def scenario(liar: Liar) -> None:
        await liar.introduce()
        first = liar.together(await liar.keys(ZERO, 1))
        signed = liar.together([await liar.asks(name, first) for name in NAMES])
        answers = [await liar.asks(name, signed) for name in NAMES]
        assert all(isinstance(one, Answer) for one in answers)
        # The round is over; the next one is open, at another point.
        second = await liar.keys(ZERO + 0.5, 2)
        for message in (
            first, signed, PublicKeys(second[0].identity, first.keys, first.signatures),
            SetSigned(second[0].identity, signed.signatures),
        ):  # fmt: skip
            refused(await liar.asks("bank-1", message))
        again = await liar.asks("bank-1", liar.query("bank-1", ZERO, 1))
        assert again.gradient.tobytes() == answers[0].gradient.tobytes(), "the same words, and no others"
        refused(await liar.asks("bank-1", first))
        # The old identity at another point, or a new one for the old numbers.
        refused(await liar.asks("bank-1", liar.query("bank-1", ZERO + 0.5, 3, identity=first.identity)))
        refused(await liar.asks("bank-1", liar.query("bank-1", ZERO, 1, identity="0" * 64)))

    assert liar.lie(scenario) == dict.fromkeys(NAMES, 1)


def test_a_learner_that_changes_the_set_after_masks_gets_the_same_words(liar: Liar) -> None:
    """bank-4 is on its side: signatures of another set, by everybody that it can move, come after the words of the first."""

    async def scenario(liar: Liar) -> None:
        await liar.introduce()
        first = liar.together(await liar.keys(ZERO, 1))
        signed = liar.together([await liar.asks(name, first) for name in NAMES])
        given = await liar.asks("bank-1", signed)
        assert isinstance(given, Answer)
        part = OwnersPart(
            liar.agreed, liar.run, liar.held["bank-4"], Owner(liar.agreed, "bank-4", RECORDS["bank-4"], Squared())
        )
        part.meet(Members(tuple(liar.held[one].certificate.decode() for one in NAMES)))
        fresh = part.reply(liar.query("bank-4", ZERO, 1))
        assert isinstance(fresh, PublicKeys)
        other = PublicKeys(first.identity, (*first.keys[:3], *fresh.keys), (*first.signatures[:3], *fresh.signatures))
        mine = part.reply(other)
        assert isinstance(mine, SetSigned)
        changed = SetSigned(signed.identity, (*signed.signatures[:3], *mine.signatures))
        for name in NAMES[:3]:  # bank-1 has masked already, the others have signed the first set
            refused(await liar.asks(name, other))
            refused(await liar.asks(name, changed))
        again = await liar.asks("bank-1", liar.query("bank-1", ZERO, 1))
        assert again.gradient.tobytes() == given.gradient.tobytes(), "the words under the first set's masks"

    assert liar.lie(scenario) == NOBODY | {"bank-1": 1}


def test_an_answer_leaves_under_masks_or_not_at_all(liar: Liar) -> None:
    async def scenario(liar: Liar) -> None:
        query = liar.query("bank-1", ZERO, 1)
        refused(await liar.asks("bank-1", query))  # before it knows the others
        await liar.introduce()
        plain = Query("one", liar.agreed.fingerprint, "bank-1", ZERO)
        refused(await liar.asks("bank-1", signed_query(liar.held["learner"], liar.run, plain)))
        refused(await liar.asks("bank-1", SumQuery(**(vars(query) | {"signature": "00"}))))
        assert isinstance(await liar.asks("bank-1", query), PublicKeys)

    assert liar.lie(scenario) == NOBODY


def test_an_owner_that_is_shown_other_owners_than_agreed_leaves(liar: Liar, tmp_path: Path) -> None:
    strangers = keys(tmp_path / "strangers", NAMES)

    async def scenario(liar: Liar) -> None:
        shown = [liar.held[name].certificate.decode() for name in NAMES]
        await liar.tells("bank-1", Members((*shown[:3], strangers["bank-4"].certificate.decode())))
        reply = decode(await liar.links["bank-1"].receive())
        assert isinstance(reply, Refusal)
        await liar.tells("bank-2", Members(tuple(shown[:2])))
        assert isinstance(decode(await liar.links["bank-2"].receive()), Refusal)

    assert liar.lie(scenario) == NOBODY
    assert [isinstance(one, KeysRefused) for one in liar.ended] == [True, True, False, False]


def test_sums_that_were_not_agreed_on_are_refused(held: Held) -> None:
    agreed = agreed_by(held).each_seen()
    conductor = Conductor(RunStore.create(":memory:", agreed, 3), None, 0.0, unsigned())
    for name in NAMES:
        conductor.joined(name, 0.0, name)
    assert all(type(message) is Query for _, message in conductor.take_outbox())


# Verification -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(held: Held, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run's file, of which one attempt did not come about."""
    table = Table(agreed_by(held), held, tmp_path_factory.mktemp("whole") / "run.db")
    dies_once(table, "bank-4", SetSigned)
    assert finished(table.play())
    table.close()
    return Path(table.path)


def lines_of(path: Path) -> list[list[Any]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [
            list(row)
            for row in connection.execute("SELECT number, time, kind, data, numbers FROM events ORDER BY number")
        ]


def written(path: Path, lines: list[list[Any]], to: Path, held: Held, agreed: Agreement) -> Path:
    """The file of a learner that changed lines, and made every hash and every query's signature anew."""
    to.write_bytes(path.read_bytes())
    head, turns, stepped = START, dict[int, tuple[Any, int]](), 0
    with contextlib.closing(sqlite3.connect(to)) as connection:
        run = connection.execute("SELECT name FROM run").fetchone()[0]
        connection.execute("DELETE FROM events")
        for number, (_, at, kind, text, numbers) in enumerate(lines, start=1):
            said = json.loads(text)
            stepped += kind == "stepped"
            if kind == "asked":
                turns[said["turn"]] = np.frombuffer(numbers), stepped + 1
            if kind == "query" and said["turn"] in turns:
                point, k = turns[said["turn"]]
                query = SumQuery(said["identity"], agreed.fingerprint, said["owner"], point, head, "", k, said["turn"])
                text = json.dumps(said | {"signature": held["learner"].sign(query_content(run, query))})
            head = line_hash(head, number, at, kind, text)
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (number, at, kind, text, head, numbers))
        connection.commit()
    return to


def changed(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case list():
            return value[:-1] or ["bank-1"]
        case str() if value in NAMES:
            return NAMES[(NAMES.index(value) + 1) % 4]
    return value[:-1] + ("0" if value[-1:] != "0" else "1")


def forgeries(lines: list[list[Any]]) -> Iterator[tuple[str, list[list[Any]]]]:
    """One change each: of a field or number of the last line of each kind."""
    kinds = {line[2] for line in lines}
    known = {"begun", "asked", "query", "answer", "survivors", "opened", "stepped", "certified", "closed", "model"}
    for kind in sorted(kinds & known):
        at = [i for i, line in enumerate(lines) if line[2] == kind]
        i = at[-1]
        number, time, _, text, numbers = lines[i]
        said = json.loads(text)
        for key in said:
            if kind == "query" and key == "signature":
                continue  # made anew
            other = [number, time, kind, json.dumps(said | {key: changed(said[key])}), numbers]
            yield f"{kind}.{key} of line {number}", [*lines[:i], other, *lines[i + 1 :]]
        if numbers:
            moved = np.frombuffer(numbers).copy()
            moved[0] += 1.0
            other = [number, time, kind, text, moved.tobytes()]
            yield f"numbers of line {number} ({kind})", [*lines[:i], other, *lines[i + 1 :]]
        yield f"{kind}: line {number} left out", [*lines[:i], *lines[i + 1 :]]


def test_every_changed_field_of_a_run_of_sums_is_found(whole: Path, held: Held, tmp_path: Path) -> None:
    agreed, lines = agreed_by(held), lines_of(whole)
    authority, model = held["learner"].authority, whole.with_suffix(".json")
    assert verify_run(whole, agreed, authority, model).problems == ()
    missed = []
    for what, forged in forgeries(lines):
        path = written(whole, forged, tmp_path / "forged.db", held, agreed)
        if verify_run(path, agreed, authority, model).ok:
            missed.append(what)
    assert missed == []


def test_a_step_with_a_part_of_the_owners_is_no_sum(whole: Path, held: Held, tmp_path: Path) -> None:
    lines, agreed = lines_of(whole), agreed_by(held)
    abandoned = next(i for i, line in enumerate(lines) if line[2] == "abandoned")
    said = json.loads(lines[abandoned][3])
    step = {"turn": said["turn"], "k": 2, "participant": 0, "owners": [n for n in NAMES if n not in said["owners"]]}
    lines[abandoned][2:4] = "stepped", json.dumps(step)
    path = written(whole, lines[: abandoned + 1], tmp_path / "forged.db", held, agreed)
    found = [str(one) for one in verify_run(path, agreed, held["learner"].authority).problems]
    assert any("is no sum of all owners" in one for one in found)


def test_an_owners_ledger_and_the_run_have_the_same_identities(held: Held, agreed: Agreement) -> None:
    table = Table(agreed, held)
    table.play()
    identities = {line.data["identity"] for line in table.store.events("query")}
    assert len(identities) == ROUNDS
    assert all(set(ledger._charged) == identities for ledger in table.ledgers.values())
    with pytest.raises(QueryRefused):
        table.ledgers["bank-1"].charge(next(iter(identities)), ZERO, Fraction(1, 5))
