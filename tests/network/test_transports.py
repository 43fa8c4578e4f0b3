"""One contract for every transport: what an agent and a learner rely on, in memory and over gRPC with mutual TLS."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from copriv.errors import Unreachable
from copriv.network.transport import Dialer, Link, Listener
from copriv.network.turns import Conduct
from copriv.privacy.ledger.read import verify
from copriv.simulation import simulate
from network_parties import NAMES, Consortium, agreement, finished
from network_replay import assert_same_model, replayed

KINDS = ["memory", "grpc"]


@pytest.fixture(params=KINDS)
def consortium(request: pytest.FixtureRequest, tmp_path: Path) -> Consortium:
    return Consortium(tmp_path, agreement(), request.param)


def together(consortium: Consortium, serve: Callable[[Link], Awaitable[None]], dial: Callable[[Any], Any]) -> Any:
    async def both() -> Any:
        async with consortium.listener().listening(serve) as address:
            consortium.address = address
            return await asyncio.wait_for(dial(consortium.dialer("bank-1")), 20)

    return asyncio.run(both())


async def echo(link: Link) -> None:
    while True:
        await link.send(await link.receive())


def test_they_are_what_the_seam_says(consortium: Consortium) -> None:
    assert isinstance(consortium.listener(), Listener)
    assert isinstance(consortium.dialer("bank-1"), Dialer)


def test_frames_arrive_whole_in_order_and_unchanged(consortium: Consortium) -> None:
    frames = [b"", b"\x00", bytes(range(256)), b"x" * 1_000_000, *(str(k).encode() for k in range(50))]

    async def dial(dialer: Dialer) -> list[bytes]:
        link = await dialer.dial()
        for frame in frames:
            await link.send(frame)
        back = [await link.receive() for _ in frames]
        await link.close()
        return back

    assert together(consortium, echo, dial) == frames


def test_each_side_knows_the_other_by_name(consortium: Consortium) -> None:
    async def tell(link: Link) -> None:
        await link.send(link.peer.encode())

    async def dial(dialer: Dialer) -> tuple[bytes, str]:
        link = await dialer.dial()
        return await link.receive(), link.peer

    assert together(consortium, tell, dial) == (b"bank-1", "learner")


def test_the_end_of_serving_closes_the_link(consortium: Consortium) -> None:
    async def once(link: Link) -> None:
        await link.send(await link.receive())

    async def dial(dialer: Dialer) -> bytes:
        link = await dialer.dial()
        await link.send(b"one")
        first = await link.receive()
        with pytest.raises(Unreachable):
            await link.receive()
        await link.close()
        await link.close()
        with pytest.raises(Unreachable):
            await link.send(b"two")
        return first

    assert together(consortium, once, dial) == b"one"


def test_whoever_serves_notices_that_the_dialler_left(consortium: Consortium) -> None:
    noticed = asyncio.Event()

    async def wait(link: Link) -> None:
        try:
            await link.receive()
        finally:
            noticed.set()

    async def dial(dialer: Dialer) -> None:
        link = await dialer.dial()
        await asyncio.sleep(0.05)
        await link.close()
        await asyncio.wait_for(noticed.wait(), 5)

    together(consortium, wait, dial)


def test_links_do_not_mix(consortium: Consortium) -> None:
    async def dial(dialer: Dialer) -> None:
        links = [await dialer.dial() for _ in range(3)]
        for k, link in enumerate(links):
            await link.send(bytes([k]))
        assert [await link.receive() for link in links] == [b"\x00", b"\x01", b"\x02"]
        for link in links:
            await link.close()

    together(consortium, echo, dial)


def test_nobody_there_is_an_error_and_not_a_wait(consortium: Consortium) -> None:
    consortium.address = "127.0.0.1:9"
    with pytest.raises(Unreachable):
        asyncio.run(asyncio.wait_for(consortium.dialer("bank-1").dial(), 15))


@pytest.mark.slow
def test_a_link_that_is_silent_for_long_is_still_there(tmp_path: Path) -> None:
    """With gRPC's own settings each side takes the other's asking for an attack, and hangs up after 40 s."""

    async def dial(dialer: Dialer) -> bytes:
        link = await dialer.dial()
        await asyncio.sleep(45)
        await link.send(b"still there")
        return await link.receive()

    consortium = Consortium(tmp_path, agreement(), "grpc")

    async def both() -> bytes:
        async with consortium.listener().listening(echo) as address:
            consortium.address = address
            return await dial(consortium.dialer("bank-1"))

    assert asyncio.run(both()) == b"still there"


CONDUCTS = {
    "A2": Conduct(deadline=2.0, patience=5.0),
    "A2 one at a time": Conduct(at_once=1, deadline=2.0, patience=5.0),
    "A2 in rounds": Conduct(deadline=2.0, patience=5.0),
    "A1": Conduct(deadline=2.0, patience=5.0),
    "A1 broadcast": Conduct(talk="broadcast", deadline=2.0, patience=5.0),
    "A1 request": Conduct(talk="request", deadline=2.0, patience=5.0),
    "S1": Conduct(deadline=2.0, patience=5.0),
    "S2": Conduct(stragglers="drop", deadline=2.0, patience=5.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONDUCTS)
def test_a_run_equals_the_simulation_with_its_schedule_and_noise(tmp_path: Path, kind: str, name: str) -> None:
    agreed = agreement(name[:2], horizon=5 if name[0] == "S" else 12, answers=5)
    if "rounds" in name:
        agreed = agreed.replace(agreement={"window": 3, "horizon": 15})
    consortium = Consortium(tmp_path, agreed, kind)
    conductor = asyncio.run(consortium.run(CONDUCTS[name], pace=0.002))
    assert finished(conductor), conductor.outcome
    assert conductor.stepped == agreed.queries
    data, schedule, noise = replayed(agreed, tmp_path / "run.db")
    same = simulate(agreed, data, runs=1, schedule=schedule, noise=noise, alone=False)
    assert_same_model(conductor.model, same.theta[0])
    for owner in NAMES:
        assert verify(tmp_path / f"{owner}.ledger").runs[conductor.store.run].charged <= agreed.answers


@pytest.mark.parametrize("schedule", ["broadcast", "request"])
def test_an_agreed_schedule_gives_answers_by_the_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: str
) -> None:
    """Of rates 4, 1, 1 the first owner gives two thirds of the answers, 80 of 120; where rates were ignored, 40."""
    monkeypatch.setattr("copriv.network.transport.CHANCE", random.Random(0))
    agreed = agreement("A1", horizon=120, answers=120).replace(agreement={"schedule": schedule})
    owners = [{**one, "rate": rate} for one, rate in zip(agreed.to_dict()["owner"], (4.0, 1.0, 1.0), strict=True)]
    consortium = Consortium(tmp_path, agreed.replace(owner=owners), "memory")
    conductor = asyncio.run(consortium.run(Conduct(deadline=2.0, patience=5.0), pace=0.08))
    assert (conductor.talk, conductor.stepped) == (schedule, 120)
    assert 58 < conductor.run.parties["bank-1"].answered < 100
