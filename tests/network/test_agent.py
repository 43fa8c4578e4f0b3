"""An owner's process against what may have happened to its ledger, and against a learner that is not there."""

import asyncio
import shutil
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.errors import BudgetRefused, Unreachable
from copriv.losses import Squared
from copriv.network.agent import OwnerAgent, Patience
from copriv.network.messages import Finished, Welcome, encode
from copriv.network.transport import Link
from copriv.network.turns import Conduct
from copriv.owner import Owner
from copriv.privacy.ledger import LedgerDamaged
from copriv.privacy.ledger.create import adopt
from copriv.privacy.ledger.read import verify
from copriv.privacy.release_time import ReleaseTime
from copriv.protocol import Query
from ledger_files import opened
from memory_network import MemoryNetwork
from network_parties import NAMES, Consortium, MemoryLedgers, agreement, finished, records
from unsigned import unsigned


def test_an_old_copy_of_the_ledger_is_noticed_by_what_the_learner_remembers(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, agreement(horizon=12, answers=4))

    async def half() -> None:
        """Stop the learner when every owner has answered once, at least."""
        learner = asyncio.ensure_future(consortium.learn(Conduct(talk="broadcast"), pace=0.1))
        owners = [asyncio.ensure_future(consortium.own(i)) for i in range(3)]
        ledger = tmp_path / "bank-1.ledger"
        while not (ledger.exists() and ledger.stat().st_size and verify(ledger).lines >= 4):
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        for task in (learner, *owners):
            task.cancel()
        await asyncio.gather(learner, *owners, return_exceptions=True)

    with opened(tmp_path / "bank-1.ledger", "bank-1", Fraction(1)):
        pass
    old = tmp_path / "old"
    shutil.copy(tmp_path / "bank-1.ledger", old)
    asyncio.run(half())
    spent = verify(tmp_path / "bank-1.ledger").spent
    assert spent > 0
    for path in tmp_path.glob("bank-1.ledger*"):
        path.unlink()
    shutil.copy(old, tmp_path / "bank-1.ledger")
    with pytest.raises(LedgerDamaged, match="these keys saw"):
        opened(tmp_path / "bank-1.ledger", "bank-1", Fraction(1))
    for witness in tmp_path.glob("*.witness"):  # an owner that was set back together with what it remembers
        witness.unlink()
    assert adopt(tmp_path / "bank-1.ledger", "bank-1", verify(old).head, tmp_path).spent == 0, "the old copy is whole"

    async def resumed() -> None:
        learner = asyncio.ensure_future(consortium.learn(Conduct(talk="broadcast"), resume=True))
        try:
            await asyncio.wait_for(consortium.own(0), 10)
        finally:
            learner.cancel()
            await asyncio.gather(learner, return_exceptions=True)

    with pytest.raises(LedgerDamaged, match="the learner has seen"):
        asyncio.run(resumed())
    assert verify(tmp_path / "bank-1.ledger").spent == 0, "nothing was answered from it"


@pytest.mark.parametrize("mechanism", ["laplace", "objective"])
def test_over_a_network_every_answer_leaves_at_a_fixed_time(tmp_path: Path, mechanism: str) -> None:
    agreed = agreement(answers=1 if mechanism == "objective" else 4)
    agreed = agreed.replace(agreement={"mechanism": mechanism}, data={"feature_bound": 1.0})
    agent = OwnerAgent(
        agreed, NAMES[0], records(0), Squared(), MemoryLedgers(NAMES[0]), Consortium(tmp_path, agreed).dialer(NAMES[0]),
        keys=unsigned(NAMES[0]),
    )  # fmt: skip
    slot = agent._times.slot
    agent._ledger_of("run")
    owner = agent._owner
    query = Query("q", agreed.fingerprint, NAMES[0], np.zeros(3))
    begun = time.perf_counter()
    owner.answer(query)
    took = time.perf_counter() - begun
    assert took >= slot


def test_the_learner_is_told_the_slot_of_each_owner(tmp_path: Path) -> None:
    """It waits at most an hour more because an owner tells it to."""
    now = iter(range(10**9))
    slots = (ReleaseTime(2e-3), ReleaseTime(3e-3), ReleaseTime(1e9, lambda: 1e9 * next(now), lambda _: None))

    async def run() -> Any:
        consortium = Consortium(tmp_path, agreement())
        owners = [asyncio.ensure_future(consortium.own(i, times=times)) for i, times in enumerate(slots)]
        learned = await asyncio.wait_for(consortium.learn(), 100)
        await asyncio.gather(*owners)
        return learned

    conductor = asyncio.run(run())
    assert finished(conductor)
    assert conductor._slots == dict(zip(NAMES, (2e-3, 3e-3, 3600.0), strict=True))


def test_a_second_run_needs_a_lifetime_budget_for_it(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, agreement())
    assert finished(asyncio.run(consortium.run()))
    (tmp_path / "run.db").unlink()
    consortium.address = ""

    async def again() -> str:
        learner = asyncio.ensure_future(consortium.learn())
        try:
            return await asyncio.wait_for(consortium.own(0), 10)
        finally:
            learner.cancel()
            await asyncio.gather(learner, return_exceptions=True)

    with pytest.raises(BudgetRefused, match="lifetime budget"):
        asyncio.run(again())


def test_without_a_learner_it_dials_again_and_gives_up_with_a_reason(tmp_path: Path) -> None:
    said: list[str] = []
    agent = OwnerAgent(
        agreement(),
        NAMES[0],
        records(0),
        Squared(),
        MemoryLedgers(NAMES[0]),
        Consortium(tmp_path, agreement()).dialer(NAMES[0]),
        keys=unsigned(NAMES[0]),
        patience=Patience(first=0.01, longest=0.05, give_up=0.3),
        log=said.append,
    )
    with pytest.raises(Unreachable, match=r"no learner for 0\.3 s"):
        asyncio.run(agent.serve())
    assert len(said) >= 4
    assert all("dialling again" in line for line in said)


def test_a_learner_that_was_there_for_long_is_waited_for_as_long_as_any_other(tmp_path: Path) -> None:
    """The time to give up counted from the welcome: after ten minutes a connection that broke once ended an owner."""
    network, greeted = MemoryNetwork(), list[int]()

    async def learner(link: Link) -> None:
        await link.receive()
        greeted.append(1)
        await link.send(encode(Welcome("run", "choose", 0.0, 0, "", "learner", "")))
        if len(greeted) == 1:
            await asyncio.sleep(0.5)  # longer than owners wait; then the connection breaks
        else:
            await link.send(encode(Finished("over")))
            await asyncio.sleep(0.2)

    async def session() -> str:
        async with network.listening(learner):
            agent = OwnerAgent(
                agreement(), NAMES[0], records(0), Squared(), MemoryLedgers(NAMES[0]), network.dialer(NAMES[0]),
                keys=unsigned(NAMES[0]), patience=Patience(first=0.01, longest=0.02, give_up=0.3), times=ReleaseTime(1e-3),
            )  # fmt: skip
            return await asyncio.wait_for(agent.serve(), 10)

    assert asyncio.run(session()) == "over"
    assert len(greeted) == 2


def test_waiting_times_double_up_to_a_limit_and_differ() -> None:
    patience = Patience(first=0.2, longest=15.0)
    for failures, span in ((0, 0.2), (3, 1.6), (6, 12.8), (9, 15.0), (10**6, 15.0)):
        waits = [patience.delay(failures) for _ in range(100)]
        assert span / 2 <= min(waits) < max(waits) <= span


def test_no_more_than_the_agreed_answers_leave_whatever_is_asked(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, agreement(horizon=100, answers=3))
    conductor = asyncio.run(consortium.run())
    assert conductor.stepped == 9
    assert [verify(tmp_path / f"{name}.ledger").runs[conductor.store.run].charged for name in NAMES] == [3, 3, 3]


@pytest.mark.parametrize("noise_ahead", [True, False])
def test_noise_is_drawn_ahead_if_asked_for_and_for_one_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise_ahead: bool
) -> None:
    # The learner goes away after an answer, and comes back.
    happened: list[str] = []
    for name in ("drop_noise", "draw_ahead", "answer"):
        original = getattr(Owner, name)

        def noted(self: Owner, *args: Any, name: str = name, original: Any = original) -> Any:
            happened.append(name)
            return original(self, *args)

        monkeypatch.setattr(Owner, name, noted)
    consortium = Consortium(tmp_path, agreement(horizon=600, answers=200))

    async def broken() -> None:
        learner = asyncio.ensure_future(consortium.learn(Conduct(begin="any")))
        owner = asyncio.ensure_future(consortium.own(0, noise_ahead=noise_ahead))
        while happened.count("answer") < 1:
            await asyncio.sleep(0.005)
        learner.cancel()
        await asyncio.gather(learner, return_exceptions=True)
        learner = asyncio.ensure_future(consortium.learn(Conduct(begin="any"), resume=True))
        while happened[-1] != "answer" or "drop_noise" not in happened:
            await asyncio.sleep(0)
        for task in (learner, owner):
            task.cancel()
        await asyncio.gather(learner, owner, return_exceptions=True)

    asyncio.run(asyncio.wait_for(broken(), 30))
    sessions = " ".join(happened).split("drop_noise")
    assert len(sessions) > 2
    assert sessions[-1] == "", "nothing is drawn after a connection has ended"
    assert ("answer draw_ahead" in sessions[0]) == noise_ahead


def test_the_sampler_is_there_before_anybody_is_dialled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from copriv.privacy.laplace import LaplaceAnswer

    drawn: list[int] = []
    original = LaplaceAnswer.release

    def release(self: LaplaceAnswer, exact: Any) -> Any:
        drawn.append(1)
        return original(self, exact)

    class Dialled(Exception):
        pass

    class Nobody:
        async def dial(self) -> Any:
            raise Dialled

    monkeypatch.setattr(LaplaceAnswer, "release", release)
    with opened(tmp_path / "ledger", NAMES[0], Fraction(1)) as file:
        agent = OwnerAgent(agreement(), NAMES[0], records(0), Squared(), file, Nobody(), keys=unsigned(NAMES[0]))
        with pytest.raises(Dialled):
            asyncio.run(agent.serve())
        assert file.totals.spent == 0
    assert drawn, "the first answer would wait for it, and its slot would not be long enough"
