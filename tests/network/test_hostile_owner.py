"""An owner that sends anything but honest answers: its own session ends, and the run of the others goes on to its model."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.network.messages import Finished, Hello, Message, Ready, Refusal, Welcome, decode, encode
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore, StoreFailed
from copriv.network.transport import Link
from copriv.network.turns import Conduct
from copriv.protocol import Answer, Query
from network_parties import NAMES, Consortium, agreement
from unsigned import unsigned

ANY = Conduct(begin="any", deadline=2.0, patience=5.0)
BAD = NAMES[2]


class Session:
    """The hostile owner's end of a link to the learner, after its hello."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def send(self, message: Message) -> None:
        await self._link.send(encode(message))

    async def next(self, kind: type[Any] = Query) -> Any:
        while not isinstance(message := decode(await self._link.receive()), kind):
            pass
        return message

    async def ended(self) -> bool:
        """Whether the learner hangs up, within a while."""
        try:
            async with asyncio.timeout(3):
                while True:
                    await self._link.receive()
        except Exception as error:
            return not isinstance(error, TimeoutError)


async def session(consortium: Consortium) -> Session:
    link = await consortium.dialer(BAD).dial()
    await link.send(encode(Hello(BAD, consortium.agreed.fingerprint, "", 3, "0" * 32, BAD)))
    made = Session(link)
    await made.next(Welcome)
    return made


def attacked(folder: Path, script: Callable[[Session], Awaitable[None]]) -> Conductor:
    """Two honest owners and the script of the third, in a run that the two can bring to its end."""
    consortium = Consortium(folder, agreement(horizon=8, answers=4))

    async def together() -> Conductor:
        learner = asyncio.ensure_future(consortium.learn(ANY, pace=0.0))
        while not consortium.address:
            await asyncio.sleep(0.005)
        hostile = asyncio.ensure_future(script(await session(consortium)))
        owners = [asyncio.ensure_future(consortium.own(i)) for i in (0, 1)]
        try:
            conductor = await asyncio.wait_for(learner, 25)
            await asyncio.wait_for(hostile, 5)
            return conductor
        finally:
            for task in (*owners, hostile, learner):
                task.cancel()
            await asyncio.gather(*owners, hostile, learner, return_exceptions=True)

    conductor = asyncio.run(together())
    assert conductor.outcome is not None
    assert conductor.outcome.status == "finished"
    assert conductor.stepped == 8
    assert np.isfinite(conductor.model).all()
    return conductor


def events(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    store = RunStore.resume(folder / "run.db", agreement(horizon=8, answers=4))
    try:
        return [event.data for event in store.events(*kinds)]
    finally:
        store.close()


def answer(query: Query, gradient: Any = (0.0, 0.0, 0.0), answered: int = 1, head: str = "") -> Answer:
    return Answer(query.identity, query.fingerprint, BAD, np.asarray(gradient, dtype=np.float64), answered, head)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda query: answer(query, answered=2**63),
        lambda query: answer(query, answered=5),
        lambda query: answer(query, head="x" * 4000),
        lambda query: answer(query, (1e300, -1e300, 1e300)),
        lambda query: answer(query, (np.nan, 0.0, 0.0)),
        lambda query: answer(query, np.zeros(40_000)),
    ],
    ids=["a count of 2^63", "a count above the agreed", "a long head", "numbers no noise gives", "nan", "too long"],
)
def test_an_answer_that_cannot_be_ends_nobody_elses_run(tmp_path: Path, wrong: Callable[[Query], Answer]) -> None:
    async def script(bad: Session) -> None:
        await bad.send(wrong(await bad.next()))
        await bad.ended()

    conductor = attacked(tmp_path, script)
    assert "not valid" in conductor.parties[BAD].out
    assert len(events(tmp_path, "refused")) == 1


def test_two_answers_to_one_query_put_their_owner_out_and_the_first_one_counts(tmp_path: Path) -> None:
    async def script(bad: Session) -> None:
        query = await bad.next()
        await bad.send(answer(query, (0.1, 0.0, 0.0)))
        await bad.send(answer(query, (0.2, 0.0, 0.0)))
        assert await bad.ended()

    conductor = attacked(tmp_path, script)
    assert "two different answers" in conductor.parties[BAD].out
    assert [one["owner"] for one in events(tmp_path, "contradicted")] == [BAD]
    taken = [one for one in events(tmp_path, "stepped") if one["owners"] == [BAD]]
    assert len(taken) == 1


@pytest.mark.parametrize(
    "said",
    [
        Refusal("never asked", "query", "no"),
        Answer("never asked", agreement(horizon=8, answers=4).fingerprint, BAD, np.zeros(3), 1),
        Hello(BAD, "", "", 3, ""),
        Welcome("run", "choose", 0.0, 0, "", "", ""),
        Finished("the run is over"),
        Query("q", "f", NAMES[0], np.zeros(3)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_was_not_asked_for_ends_the_session_that_it_came_by(tmp_path: Path, said: Message) -> None:
    async def script(bad: Session) -> None:
        await bad.send(said)
        assert await bad.ended()

    attacked(tmp_path, script)
    assert events(tmp_path, "refused") == []


def test_a_defect_in_the_learner_that_one_owner_finds_ends_that_owners_session_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RunStore.event

    def fails_for_one(self: RunStore, kind: str, *given: Any, **said: Any) -> None:
        original(self, kind, *given, **said)
        if kind == "answer" and said["owner"] == BAD:
            raise ZeroDivisionError("a defect")

    monkeypatch.setattr(RunStore, "event", fails_for_one)

    async def script(bad: Session) -> None:
        await bad.send(answer(await bad.next()))
        assert await bad.ended()

    conductor = attacked(tmp_path, script)
    assert "could not be handled (ZeroDivisionError)" in conductor.parties[BAD].out
    monkeypatch.undo()
    store = RunStore.resume(tmp_path / "run.db", agreement(horizon=8, answers=4))
    assert {line.data["owner"] for line in store.events("answer")} == set(NAMES[:2]), (
        "what was half written is taken back"
    )
    assert Conductor(store, None, 0.0, unsigned()).model.tobytes() == conductor.model.tobytes()
    store.close()


def test_a_store_that_cannot_be_written_still_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = RunStore.event

    def full(self: RunStore, kind: str, *given: Any, **said: Any) -> None:
        if kind == "answer":
            raise StoreFailed("the disk is full")
        original(self, kind, *given, **said)

    monkeypatch.setattr(RunStore, "event", full)
    consortium = Consortium(tmp_path, agreement(horizon=8, answers=4))
    with pytest.raises(StoreFailed, match="the disk is full"):
        asyncio.run(consortium.run(ANY))


def test_a_flood_of_refusals_neither_grows_the_store_nor_slows_the_others(tmp_path: Path) -> None:
    sent = 0

    async def script(bad: Session) -> None:
        nonlocal sent
        query = await bad.next()
        for sent in range(3, 9000, 3):
            await bad.send(Refusal(query.identity, "query", "A" * 3900))
            await bad.send(Refusal("", "ledger", "A" * 3900))
            await bad.send(Ready(sent))
            await asyncio.sleep(0)

    attacked(tmp_path, script)
    assert sent > 2000
    assert len(events(tmp_path, "refused")) <= 2
    assert sum(path.stat().st_size for path in tmp_path.glob("run.db*")) < 300_000


def test_an_owner_that_comes_and_goes_without_end_is_slowed_down(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, agreement(horizon=8, answers=4))
    came = 0

    async def restless() -> None:
        nonlocal came
        while True:
            link = await consortium.dialer(BAD).dial()
            await link.send(encode(Hello(BAD, consortium.agreed.fingerprint, "", 3, "0" * 32, BAD)))
            assert isinstance(decode(await link.receive()), Welcome)
            came += 1
            await link.close()

    async def together() -> None:
        learner = asyncio.ensure_future(consortium.learn(Conduct(patience=60.0)))
        while not consortium.address:
            await asyncio.sleep(0.005)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(restless(), 2.0)
        learner.cancel()
        await asyncio.gather(learner, return_exceptions=True)

    asyncio.run(together())
    assert 10 <= came <= 40
    assert len(events(tmp_path, "joined")) <= 41


def test_an_owner_that_does_not_listen_does_not_keep_the_learner_from_its_end(tmp_path: Path) -> None:
    from copriv.network.learner import Learner

    class Deaf:
        """A link whose other end takes nothing any more."""

        peer = BAD

        async def send(self, frame: bytes) -> None:
            await asyncio.Event().wait()

        async def receive(self) -> bytes:
            await asyncio.Event().wait()
            return b""

        async def close(self) -> None:
            pass

    original = Learner._say_goodbye

    async def with_a_deaf_one(self: Learner) -> None:
        self._links[BAD] = Deaf()
        await original(self)

    consortium = Consortium(tmp_path, agreement(horizon=8, answers=4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("copriv.network.learner.GOODBYE_SECONDS", 0.2)
        patch.setattr(Learner, "_say_goodbye", with_a_deaf_one)
        conductor = asyncio.run(asyncio.wait_for(consortium.run(ANY), 20))
    assert conductor.outcome is not None
