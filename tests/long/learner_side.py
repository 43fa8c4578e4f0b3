"""A real learner with a real store, and three owners that say whatever they are given: one's session may end, the run may not.

Each owner has its own certificate, and signs what it says where the input asks for it. What may come into the store is
said here a second time, in `_may_be_taken`.
"""

import asyncio
import shutil
import tempfile
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from copriv.errors import Unreachable
from copriv.network.grpc_transport import GrpcDialer, GrpcListener
from copriv.network.learner import Learner
from copriv.network.messages import Hello, Message, Refusal, Welcome, decode, encode
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.transport import Link
from copriv.network.turns import Conduct
from copriv.network.verify import verify_run
from copriv.protocol import Answer, Query
from long.owner_side import _content, _message, _sha256, _verified
from long.parties import NAMES, Finding, agreed, certified, fast_folder, loop
from long.said import FIRST, LATER, PARAMETERS, SIGNED, WHO, spoken
from memory_network import MemoryNetwork

MOST = 400
"""Inputs for one run."""
CONDUCTS = (
    Conduct(begin="any", deadline=30.0, patience=1e9),
    Conduct(begin="any", talk="broadcast", deadline=30.0, patience=1e9),
    Conduct(begin="any", talk="request", deadline=30.0, patience=1e9),
    Conduct(begin="any", stragglers="drop", deadline=30.0, patience=1e9),
)
RULES = (("A2", 12), ("A1", 12), ("A1", 12), ("S2", 4))
HONEST = encode(Answer("@query", "@fingerprint", "@name", np.array([0.1, -0.2, 0.3]), 1, "0" * 64))


class Watched(Learner):
    """A learner that tells when it has handled something."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.handled = dict.fromkeys((*NAMES, ""), 0)
        self.something = asyncio.Event()

    async def _receive_one(self, owner: str, link: Link) -> None:
        await super()._receive_one(owner, link)  # where that raises, the session ends, and counts
        self._count(owner)

    async def _session(self, link: Link) -> None:
        try:
            await super()._session(link)
        finally:
            self._count(link.peer)

    def _count(self, owner: str) -> None:
        self.handled[owner] += 1
        self.something.set()


class Clock:
    """The learner's time, which goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class LearnerSide:
    """One learner. `take` gives it an input of one owner, and raises Finding where it does what it must not."""

    def __init__(self, kind: str = "memory") -> None:
        self._kind, self._loop, self._runs = kind, loop(kind), 0
        self.taken = self.answered = self.finished = 0
        self._ended, self._clock = True, Clock()
        self._patch = mock.patch("copriv.network.learner.time", self._clock)
        self._patch.start()

    def take(self, data: bytes) -> None:
        """One input; the run is begun anew where it ended."""
        self._loop.run_until_complete(asyncio.wait_for(self._take(data or b"\0"), 60))
        self.taken += 1

    def close(self) -> None:
        """Let go of everything."""
        try:
            self._loop.run_until_complete(self._end())
        finally:  # a finding at the end must not leave this clock to whoever comes next
            self._loop.close()
            self._patch.stop()

    # The parties --------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=fast_folder()))
        which = self._runs % len(CONDUCTS)
        rule, horizon = RULES[which]
        self._agreed = agreed(rule, horizon, 4 if rule == "S2" else 6)
        self._runs, self._inputs, self._ended = self._runs + 1, 0, False
        self._fingerprint = self._agreed.fingerprint
        self.log = deque[bytes](maxlen=MOST)
        self._links: dict[str, Link] = {}
        self._hearing: dict[str, asyncio.Future[None]] = {}
        self._asked: dict[str, Query] = {}
        self._open: dict[str, Query] = {}
        self._taken: set[str] = set()
        self._nonce = "0" * 32
        self._store = RunStore.create(self._folder / "run.db", self._agreed, PARAMETERS)
        self._conductor = Conductor(self._store, CONDUCTS[which], self._clock.now, certified()["learner"])
        self._memory, address = MemoryNetwork(), asyncio.get_running_loop().create_future()
        keys = certified()["learner"]
        listener: Any = self._memory if self._kind == "memory" else GrpcListener("127.0.0.1:0", keys)
        self._learner = Watched(self._conductor, listener, keys=keys, on_listening=address.set_result, pace=0.0)
        self._running = asyncio.ensure_future(self._learner.run())
        self._address = await address

    async def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        for hearing in self._hearing.values():
            hearing.cancel()
        self._running.cancel()
        await asyncio.gather(self._running, *self._hearing.values(), return_exceptions=True)
        for link in self._links.values():
            await link.close()
        model, held = self._conductor.model.tobytes(), len(list(self._store.events("answer")))
        self.answered += held
        outcome = self._conductor.outcome
        self.finished += outcome is not None and outcome.status == "finished"
        self._store.close()
        again = RunStore.resume(self._folder / "run.db", self._agreed)
        replayed = Conductor(again, None, 0.0, certified()["learner"]).model.tobytes()
        again.close()
        if replayed != model:
            raise Finding("the store does not replay to the model that the run had")
        verdict = verify_run(self._folder / "run.db")
        if verdict.problems:
            raise Finding(f"an honest learner's run does not verify: {verdict.problems[0]}")
        size = sum(path.stat().st_size for path in self._folder.iterdir())
        if size > 3_000_000:
            raise Finding(f"the store grew to {size} bytes")
        shutil.rmtree(self._folder)

    async def _dialled(self, name: str) -> Link:
        link: Link
        if self._kind == "memory":
            link = self._memory.connect(name)
        else:
            link = await GrpcDialer(self._address, certified()[name]).dial()
        self._clock.now += 6.0  # an owner that comes often waits for as long
        return link

    def _receive_one(self, name: str, link: Link) -> None:
        async def hearing() -> None:
            try:
                while True:
                    said = decode(await link.receive())
                    if isinstance(said, Query):
                        self._asked[said.identity] = self._open[name] = said
                    elif isinstance(said, Hello | Answer):
                        raise Finding(f"a learner says {said}")
            except Unreachable:
                return

        self._hearing[name] = asyncio.ensure_future(hearing())

    async def _let_in(self, name: str) -> Link | None:
        """The owner's link, as an honest one comes to it; None for one that is out of the run."""
        link = self._links.get(name)
        if link is not None and name in self._learner._links and not self._hearing[name].done():
            return link
        if link is not None:
            await self._left(name, link)
        link = await self._dialled(name)
        hello = Hello(name, self._fingerprint, "", PARAMETERS, self._nonce, certified()[name].certificate.decode())
        await link.send(encode(hello))
        welcome = decode(await link.receive())
        if isinstance(welcome, Refusal) and self._conductor.parties[name].barred:
            await link.close()
            return None
        if not isinstance(welcome, Welcome):
            raise Finding(f"an honest owner is not let in: {welcome}")
        self._links[name] = link
        self._receive_one(name, link)
        return link

    async def _left(self, name: str, link: Link) -> None:
        del self._links[name]
        self._hearing.pop(name).cancel()
        await link.close()

    # One input ----------------------------------------------------------------------------------------------------

    async def _take(self, data: bytes) -> None:
        if self._ended or self._inputs >= MOST or self._conductor.outcome is not None:
            await self._end()
            await self._begin()
        self._inputs += 1
        if self._inputs % 8 == 0:  # so that runs go on
            data = bytes([SIGNED | self._inputs // 8 % len(NAMES)]) + HONEST
        self.log.append(data)
        name = NAMES[(data[0] & WHO) % len(NAMES)]
        self._clock.now += 40.0 if data[0] & LATER else 0.02
        first = bool(data[0] & FIRST)
        before = set(self._learner._links)
        link = await (self._dialled(name) if first else self._let_in(name))
        if link is None:
            self._inputs += 20  # whoever is out says nothing more: a new run soon
            return
        frame = spoken(data, self._stands_for(name), lambda message: self._sign(name, message))
        await self._say(name, link, frame, first)
        self._judge(name, frame, first)
        ended = before - {name} - set(self._learner._links)
        if ended and self._conductor.outcome is None:
            raise Finding(f"{ended}: their sessions ended by what {name} said")

    async def _say(self, name: str, link: Link, frame: bytes, first: bool) -> None:
        learner = self._learner
        count = learner.handled[name]
        self._charged = len(self._taken)
        try:
            await link.send(frame)
        except Unreachable:
            return
        if first:
            reply = await self._reply(link)
            if isinstance(reply, Welcome):  # then it is this owner's link from here on
                if not isinstance(_message(frame), Hello):
                    raise Finding(f"{_message(frame)} was greeted")
                if old := self._links.get(name):
                    await self._left(name, old)
                self._links[name] = link
                self._receive_one(name, link)
            else:
                await link.close()
            return
        async with asyncio.timeout(20):
            while learner.handled[name] == count and not self._running.done():
                learner.something.clear()
                waiting = asyncio.ensure_future(learner.something.wait())
                await asyncio.wait({waiting, self._running}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
        if self._clock.now:
            self._conductor.tick(self._clock.now)
            await learner._flush(None)
        for _ in range(3):
            await asyncio.sleep(0)

    async def _reply(self, link: Link) -> Message | None:
        try:
            return decode(await asyncio.wait_for(link.receive(), 20))
        except Unreachable:
            return None

    def _stands_for(self, name: str) -> dict[str, str]:
        newest, older = self._open.get(name), next(iter(self._asked), "none")
        return {
            "@query": newest.identity if newest else "none", "@older": older, "@name": name, "@other": NAMES[1],
            "@fingerprint": self._fingerprint, "@head": newest.head if newest else "", "@run": self._store.run,
            "@certificate": certified()[name].certificate.decode(), "@signature": "",
            "@learner": certified()["learner"].certificate.decode(),
        }  # fmt: skip

    def _sign(self, name: str, message: Message) -> Message:
        if not isinstance(message, Answer):
            return message
        if message.answered == 1:  # stands for the right number, which differs from answer to answer
            message = replace(message, answered=len(self._counts(name)) + 1)
        query = self._asked.get(message.identity)
        if query is None:
            return replace(message, signature=certified()[name].sign(b"nothing"))
        return replace(message, signature=certified()[name].sign(self._content(query, message)))

    def _content(self, query: Query, answer: Answer) -> bytes:
        asked = _sha256(_content(self._store.run, query))
        return b"copriv answer\0" + asked + encode(replace(answer, signature=""))

    # The oracle ---------------------------------------------------------------------------------------------------

    def _judge(self, name: str, frame: bytes, first: bool) -> None:
        if self._learner._failure is not None:
            raise Finding(f"the learner ended with {self._learner._failure!r}")
        if self._running.done() and self._conductor.outcome is None:
            raise Finding("the learner's process ended before the run")
        failed = next(self._store.events("failed"), None)
        if failed is not None:
            raise Finding(f"a defect was met: {failed.data}")
        if not np.isfinite(self._conductor.model).all():
            raise Finding("the model is not finite any more")
        message, held = _message(frame), {line.data["identity"] for line in self._store.events("answer")}
        if held - self._taken:
            if first or not isinstance(message, Answer) or held - self._taken != {message.identity}:
                raise Finding(f"{held - self._taken} were answered by {message}")
            if not self._may_be_taken(name, message):
                raise Finding(f"{message} was taken")
        elif isinstance(message, Answer) and not first and message.identity not in self._taken:
            barred, going = self._conductor.parties[name].barred, self._conductor.outcome is None
            if self._may_be_taken(name, message) and not barred and going and not self._refused(message.identity):
                raise Finding(f"the honest answer {message} was not taken")
        self._taken = held

    def _counts(self, name: str) -> set[int]:
        """What the owner counted its answers as, before this input."""
        before = (line.data for line in self._store.events("answer") if line.data["identity"] in self._taken)
        return {said["answered"] for said in before if said["owner"] == name}

    def _refused(self, identity: str) -> bool:
        return any(event.data["identity"] == identity for event in self._store.events("refused"))

    def _may_be_taken(self, name: str, answer: Answer) -> bool:
        query = self._asked.get(answer.identity)
        if query is None or (query.owner, answer.owner, answer.fingerprint) != (name, name, self._fingerprint):
            return False
        if answer.identity in self._taken or not 1 <= answer.answered <= self._agreed.answers:
            return False
        if answer.answered in self._counts(name):
            return False
        if answer.chain_head and (len(answer.chain_head) != 64 or set(answer.chain_head) - set("0123456789abcdef")):
            return False
        if answer.gradient.shape != (PARAMETERS,) or not all(abs(number) <= 1e100 for number in answer.gradient):
            return False
        return _verified(certified()[name].certificate, answer.signature, self._content(query, answer))
