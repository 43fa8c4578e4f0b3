"""A live owner and a learner that sends anything but honest queries: nothing is charged, dies or grows."""

import asyncio
import random
import struct
import time
from collections.abc import Awaitable, Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.errors import Unreachable
from copriv.losses import Squared
from copriv.network.agent import LearnerRefused, OwnerAgent, Patience
from copriv.network.grpc_transport import GrpcDialer, GrpcListener
from copriv.network.keys import Keys
from copriv.network.messages import (
    MAX_FRAME,
    Busy,
    Finished,
    Hello,
    Offer,
    Ready,
    Refusal,
    Welcome,
    decode,
    encode,
    signed_query,
)
from copriv.network.policy import Policy
from copriv.network.transport import Clock, Link
from copriv.privacy.ledger.read import verify
from copriv.protocol import Answer, Query
from ledger_files import opened
from memory_network import MemoryNetwork
from network_parties import NAMES, QUICK, agreement, keys, records
from network_parties import welcome as signed_welcome
from unsigned import unsigned

AGREED = agreement()
FINGERPRINT = AGREED.fingerprint


def hostile(chance: random.Random, learner: Keys, honest: bytes, number: int) -> bytes:
    """One message that no owner may answer with anything but a refusal, or not at all. The learner signs all it says."""

    def query(theta: Any = (0.1, 0.2, 0.3), identity: str = "", **other: str) -> bytes:
        said = {"identity": identity or f"h{number}", "fingerprint": FINGERPRINT, "owner": NAMES[0]} | other
        return encode(signed_query(learner, "run", Query(**said, theta=np.asarray(theta, dtype=np.float64))))

    def damaged() -> bytes:
        frame = bytearray(honest)
        for _ in range(chance.randint(1, 8)):
            frame[chance.randrange(len(frame))] = chance.randrange(256)
        # Damage that leaves a well-formed query inside the box would be an honest query of another name.
        frame[chance.randrange(8)] ^= 0xFF
        return bytes(frame)

    kinds = [
        lambda: chance.randbytes(chance.randint(0, 300)),
        damaged,
        lambda: honest[: chance.randrange(len(honest))],
        lambda: honest + chance.randbytes(chance.randint(1, 50)),
        lambda: query([]),
        lambda: query(np.zeros(2)),
        lambda: query(np.zeros(4000)),
        lambda: query([0.0, float("nan"), 0.0]),
        lambda: query([float("inf"), 0.0, 0.0]),
        lambda: query([0.0, 0.0, -float("inf")]),
        lambda: query([10.0 + 1e-9, 0.0, 0.0]),
        lambda: query([1e308, -1e308, 1e308]),
        lambda: query(fingerprint="0" * 64),
        lambda: query(fingerprint=""),
        lambda: query(owner=NAMES[1]),
        lambda: query(owner=""),
        lambda: query(identity="x" * 201),
        lambda: query(theta=[0.2, 0.2, 0.2], identity="honest"),  # replayed under another theta
        lambda: query(identity="honest", head="0" * 64),  # and in another history
        lambda: encode(Query(f"h{number}", FINGERPRINT, NAMES[0], np.array([0.1, 0.2, 0.3]))),  # unsigned
        lambda: encode(Query(f"h{number}", FINGERPRINT, NAMES[0], np.array([0.1, 0.2, 0.3]), "", learner.sign(b"x"))),
        lambda: encode(signed_query(learner, "run-2", Query(f"h{number}", FINGERPRINT, NAMES[0], np.zeros(3)))),
        # for another public dictionary than this owner's
        lambda: encode(signed_query(learner, "run", Query(f"h{number}", FINGERPRINT, NAMES[0], np.zeros(3)), "a" * 64)),
        lambda: encode(Answer("honest", FINGERPRINT, NAMES[0], np.zeros(3), 0)),
        lambda: encode(Hello(NAMES[0], FINGERPRINT, "", 3, "")),
        lambda: encode(Welcome("other run", "choose", 0.0, 0, "", "", "")),
        lambda: encode(Ready(1)),
        lambda: encode(Refusal("honest", "budget", "no")),
        lambda: encode(Busy(2**64 - 1)),
        lambda: encode(Offer(chance.randrange(2**64))),
        lambda: struct.pack("<6sBB", b"COPRIV", 2, 3) + struct.pack("<H", 65535) + b"a" * 100,
        lambda: struct.pack("<6sBB", b"COPRIV", 2, 3) + b"\0\0" * 3 + struct.pack("<I", 2**32 - 1),
        lambda: struct.pack("<6sBB", b"COPRIV", 2, 3) + b"\2\0\xff\xfe",
        lambda: struct.pack("<6sBB", b"COPRIV", chance.randrange(3, 256), 3),
        lambda: struct.pack("<6sBB", b"COPRIV", 2, chance.randrange(10, 256)),
    ]
    return chance.choice(kinds)()


def memory() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def attack(folder: Path, messages: int, seed: int) -> dict[str, Any]:
    """One owner, one session, an honest query, `messages` hostile ones, and the honest query once more."""
    chance, held, found = random.Random(seed), keys(folder, NAMES[:1]), dict[str, Any]()
    asked = Query("honest", FINGERPRINT, NAMES[0], np.array([0.1, 0.2, 0.3]))
    honest = encode(signed_query(held["learner"], "run", asked))

    async def learner(link: Link) -> None:
        hello = decode(await link.receive())
        assert isinstance(hello, Hello)
        found["sessions"] = found.get("sessions", 0) + 1
        await link.send(encode(signed_welcome(held["learner"], hello)))
        await link.send(honest)
        first = decode(await link.receive())
        assert isinstance(first, Answer)
        refused: dict[str, int] = {}
        for number in range(messages):
            if number == messages // 10:
                found["before"] = memory()
            frame = hostile(chance, held["learner"], honest, number)
            await link.send(frame)
            try:
                silent = isinstance(decode(frame), Offer | Busy)
            except ValueError:
                silent = False
            while not silent:
                reply = decode(await link.receive())
                if isinstance(reply, Refusal):
                    refused[reply.code] = refused.get(reply.code, 0) + 1
                    assert reply.reason
                    break
                assert isinstance(reply, Ready), f"{frame!r} was answered with {reply}"
        await link.send(honest)
        last = decode(await link.receive())
        while isinstance(last, Ready):
            last = decode(await link.receive())
        assert isinstance(last, Answer)
        found.update(after=memory(), refused=refused, first=first, last=last)
        await link.send(encode(Finished("enough")))
        await link.receive()

    async with GrpcListener("127.0.0.1:0", held["learner"]).listening(learner) as address:
        with opened(folder / "ledger", NAMES[0], Fraction(1)) as file:
            dialer = GrpcDialer(address, held[NAMES[0]])
            agent = OwnerAgent(
                AGREED, NAMES[0], records(0), Squared(), file, dialer, keys=held[NAMES[0]], patience=QUICK
            )
            found["reason"] = await agent.serve()
    return found


def checked(folder: Path, messages: int, seed: int) -> None:
    found = asyncio.run(asyncio.wait_for(attack(folder, messages, seed), 600))
    assert found["reason"] == "enough"
    assert found["sessions"] == 1, "the link held all the time"
    totals = verify(folder / "ledger")
    assert totals.runs["run"].charged == 1, "a refused query was charged"
    assert totals.lines == 5, "ledger, lifetime, run, charge, answer"
    assert found["last"].gradient.tobytes() == found["first"].gradient.tobytes()
    assert set(found["refused"]) == {"malformed", "query"}
    assert sum(found["refused"].values()) > 0.8 * messages
    assert found["after"] - found["before"] < 20e6, "memory grew"


def test_three_hundred_hostile_messages(tmp_path: Path) -> None:
    checked(tmp_path, 300, seed=3)


@pytest.mark.slow
def test_twenty_thousand_hostile_messages(tmp_path: Path) -> None:
    checked(tmp_path, 20_000, seed=4)


def test_a_message_that_is_too_long_ends_the_link_and_not_the_owner(tmp_path: Path) -> None:
    held = keys(tmp_path, NAMES[:1])
    sessions = 0

    async def learner(link: Link) -> None:
        nonlocal sessions
        sessions += 1
        hello = decode(await link.receive())
        assert isinstance(hello, Hello)
        await link.send(encode(signed_welcome(held["learner"], hello)))
        if sessions == 1:
            await link.send(b"\0" * (MAX_FRAME + 100))
        else:
            await link.send(encode(Finished("enough")))
        await link.receive()

    async def both() -> str:
        async with GrpcListener("127.0.0.1:0", held["learner"]).listening(learner) as address:
            with opened(tmp_path / "ledger", NAMES[0], Fraction(1)) as file:
                dialer = GrpcDialer(address, held[NAMES[0]])
                return await OwnerAgent(
                    AGREED, NAMES[0], records(0), Squared(), file, dialer, keys=held[NAMES[0]], patience=QUICK
                ).serve()

    assert asyncio.run(asyncio.wait_for(both(), 30)) == "enough"
    assert sessions == 2


Script = Callable[[Link, Hello, int], Awaitable[None]]


def served_by(script: Script, ledger: Path, policy: Policy | None = None, give_up: float = 20.0) -> str:
    """One owner, and a learner that does what the script says in each session."""
    network, sessions = MemoryNetwork(), 0

    async def learner(link: Link) -> None:
        nonlocal sessions
        hello = decode(await link.receive())
        assert isinstance(hello, Hello)
        sessions += 1
        await script(link, hello, sessions)

    async def both() -> str:
        async with network.listening(learner):
            with opened(ledger, NAMES[0], Fraction(1)) as file:
                patience = Patience(first=0.001, longest=0.002, give_up=give_up)
                dialer = network.dialer(NAMES[0])
                agent = OwnerAgent(
                    AGREED,
                    NAMES[0],
                    records(0),
                    Squared(),
                    file,
                    dialer,
                    keys=unsigned(NAMES[0]),
                    patience=patience,
                    policy=policy,
                )
                return await agent.serve()

    return asyncio.run(asyncio.wait_for(both(), 30))


def welcome(run: str, **other: Any) -> bytes:
    said: dict[str, Any] = {"talk": "choose", "pace": 0.0, "answered": 0, "chain_head": ""} | other
    return encode(Welcome(run, said["talk"], said["pace"], said["answered"], said["chain_head"], "learner", ""))


def test_new_names_of_runs_have_an_end(tmp_path: Path) -> None:
    async def many_runs(link: Link, hello: Hello, session: int) -> None:
        await link.send(welcome(f"{'r' * 50}{session}"))

    with pytest.raises(LearnerRefused, match=r"policy\.most_runs: the learner came with more than 5 runs"):
        served_by(many_runs, tmp_path / "ledger", Policy(most_runs=5))
    totals = verify(tmp_path / "ledger")
    assert len(totals.runs) <= 5
    assert totals.spent == 0


@pytest.mark.parametrize(
    "frame",
    [
        welcome("r" * 65),
        welcome(""),
        welcome("\x1b[2K"),
        welcome("../../run"),
        welcome("run", talk="shout"),
        welcome("run", pace=1e300),
        welcome("run", pace=-1.0),
    ],
)
def test_a_welcome_that_no_learner_says_is_none(tmp_path: Path, frame: bytes) -> None:
    async def odd(link: Link, hello: Hello, session: int) -> None:
        await link.send(frame)

    with pytest.raises(Unreachable, match="welcome is none"):
        served_by(odd, tmp_path / "ledger", give_up=0.05)
    assert verify(tmp_path / "ledger").spent == 0


def test_a_learner_that_never_greets_is_given_up(tmp_path: Path) -> None:
    async def mute(link: Link, hello: Hello, session: int) -> None:
        await asyncio.Event().wait()

    begun = time.monotonic()
    with pytest.raises(Unreachable, match=r"no learner for 0\.2 s: the learner does not greet"):
        served_by(mute, tmp_path / "ledger", give_up=0.2)
    assert time.monotonic() - begun < 10


def test_a_session_without_an_answer_was_not_worth_dialling_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(Patience, "delay", lambda self, failures: waited.append(failures) or 0.0)

    async def greets_and_leaves(link: Link, hello: Hello, session: int) -> None:
        await link.send(welcome("run") if session < 6 else encode(Refusal("", "connection", "enough")))

    with pytest.raises(LearnerRefused, match="enough"):
        served_by(greets_and_leaves, tmp_path / "ledger")
    assert waited == [1, 2, 3, 4, 5], "each time it waits longer"


@pytest.mark.parametrize("last", [Finished, lambda reason: Refusal("", "connection", reason)])
def test_what_a_learner_says_at_the_end_is_shown_on_one_line(tmp_path: Path, last: Callable[[str], Any]) -> None:
    forged = "\x1b[2K\x1b[1A\x1b]0;owned\x07all 8 queries are answered); 0 of 1 spent, in 0 runs\n\x1b[8m"

    async def ends(link: Link, hello: Hello, session: int) -> None:
        if last is Finished:
            await link.send(welcome("run"))
        await link.send(encode(last(forged)))
        await link.receive()

    try:
        said = served_by(ends, tmp_path / "ledger")
    except LearnerRefused as error:
        said = str(error)
    assert "\x1b" not in said
    assert "\n" not in said
    assert "\\x1b[2K" in said


def test_offers_without_end_to_an_owner_that_cannot_reply_make_nothing_grow() -> None:
    """A learner that offers and does not read: a reply to every offer waited in the owner's memory."""

    class Stuck:
        peer, sent = "learner", 0

        async def send(self, frame: bytes) -> None:
            self.sent += 1
            await asyncio.Event().wait()

        async def receive(self) -> bytes:
            raise NotImplementedError

        async def close(self) -> None:
            raise NotImplementedError

    async def offers() -> int:
        link = Stuck()
        clock = Clock(link, Welcome("run", "broadcast", 0.0, 0, "", "", ""), 1.0)
        for number in range(500):
            clock.offered(number)
            await asyncio.sleep(1e-4)
        waiting = len(asyncio.all_tasks()) - 1
        clock.stop()
        assert link.sent >= 1
        return waiting

    assert asyncio.run(offers()) == 1
