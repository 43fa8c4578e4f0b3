"""A real owner with a real ledger, and a learner that says whatever it is given: what the owner may answer, and nothing else.

Every reply is held against an oracle of its own: who may be answered is said here a second time, in `_may_be_answered`.
"""

import asyncio
import shutil
import tempfile
from collections import deque
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from copriv.errors import BudgetRefused, QueryRefused, Unreachable
from copriv.losses import Squared
from copriv.network.agent import LearnerRefused, OwnerAgent, Patience
from copriv.network.grpc_transport import GrpcDialer, GrpcListener
from copriv.network.keys import KeysRefused
from copriv.network.messages import (
    Closing,
    Hello,
    Malformed,
    Message,
    Ready,
    Refusal,
    Welcome,
    decode,
    encode,
    welcome_content,
)
from copriv.network.transport import Link
from copriv.privacy.ledger import LedgerDamaged
from copriv.privacy.ledger.read import verify
from copriv.privacy.release_time import ReleaseTime
from copriv.protocol import Answer, Query
from ledger_files import opened
from long.parties import NAMES, Finding, agreed, certified, fast_folder, loop, records
from long.said import FIRST, PARAMETERS, spoken
from memory_network import MemoryNetwork

NAME = NAMES[0]
MAY_END_WITH = (LearnerRefused, KeysRefused, LedgerDamaged, BudgetRefused, QueryRefused)
MOST = 2000
"""Inputs for one ledger."""
RESTARTS = 12


class OwnerSide:
    """One owner. `take` gives it an input, and raises Finding where it does what it must not."""

    def __init__(self, kind: str = "memory") -> None:
        self._kind, self._loop = kind, loop(kind)
        self.taken = self.answered = 0
        self._ended, self._fingerprint = True, agreed().fingerprint

    def take(self, data: bytes) -> None:
        """One input; the parties are made anew where the last one ended them."""
        self._loop.run_until_complete(asyncio.wait_for(self._take(data or b"\0"), 60))
        self.taken += 1

    def close(self) -> None:
        """Let go of everything."""
        self._loop.run_until_complete(self._end())
        self._loop.close()

    # The parties --------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=fast_folder()))
        self._file = opened(self._folder / "ledger", NAME, Fraction(2))
        self._links: asyncio.Queue[Link] = asyncio.Queue()
        self._link: Link | None = None
        self._hello: Hello | None = None
        self._run, self.log, self._given, self._inputs, self._ended = "run", deque[bytes](maxlen=MOST), {}, 0, False
        self._asked_from: dict[str, str] = {}
        self._number = 0
        address = asyncio.get_running_loop().create_future()

        async def serve(link: Link) -> None:
            self._links.put_nowait(link)
            await asyncio.Event().wait()

        memory = MemoryNetwork()
        listener: Any = memory if self._kind == "memory" else GrpcListener("127.0.0.1:0", certified()["learner"])

        async def listening() -> None:
            async with listener.listening(serve) as at:
                address.set_result(at)
                await asyncio.Event().wait()

        self._listening = asyncio.ensure_future(listening())
        at = await address
        self._dialer: Any = memory.dialer(NAME) if self._kind == "memory" else GrpcDialer(at, certified()[NAME])
        self._restarts = 0
        self._serving = asyncio.ensure_future(self._agent().serve())

    def _agent(self) -> OwnerAgent:
        """What a command that is started makes: an agent answers nothing more once it signed how many answers it gave."""
        return OwnerAgent(
            agreed(), NAME, records(0, 60), Squared(), self._file, self._dialer, keys=certified()[NAME],
            patience=Patience(first=1e-4, longest=1e-4, give_up=1e9), times=ReleaseTime(1e-9),
        )  # fmt: skip

    async def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._serving.cancel()
        self._listening.cancel()
        await asyncio.gather(self._serving, self._listening, return_exceptions=True)
        self._file.close()
        totals = verify(self._folder / "ledger", witness=self._folder)
        if totals.committed > 2 or any(run.charged > agreed().answers for run in totals.runs.values()):
            raise Finding("the ledger overspent")
        self.answered += sum(run.answered for run in totals.runs.values())
        shutil.rmtree(self._folder)

    async def _greeted(self) -> None:
        """A session in which the owner was greeted as an honest learner does."""
        while self._link is None:
            if self._ended:
                await self._begin()
            self._link = await self._dialled_or_ended()
            if self._link is None:  # it ends with its count, and is started again
                continue
            self._run = "run"
            await self._link.send(encode(self._welcome(self._run)))

    async def _dialled(self) -> Link:
        link = await self._links.get()
        said = decode(await link.receive())
        if not isinstance(said, Hello):
            raise Finding(f"the owner began with {said}")
        self._hello, self._counted = said, False
        return link

    def _welcome(self, run: str) -> Welcome:
        assert self._hello is not None
        learner = certified()["learner"]
        signature = learner.sign(welcome_content(self._hello, run))
        return Welcome(run, "choose", 0.0, 0, "", learner.certificate.decode(), signature)

    # One input ----------------------------------------------------------------------------------------------------

    async def _take(self, data: bytes) -> None:
        if self._ended or self._inputs >= MOST:
            await self._end()
            await self._begin()
        self._inputs += 1
        self.log.append(data)
        if data[0] & FIRST:
            if self._link is not None:
                await self._link.close()
            self._link = await self._dialled_or_ended()
            if self._link is None:
                return
        else:
            await self._greeted()
        assert self._link is not None
        frame = spoken(data, self._stands_for(), self._sign)
        replies = await self._replies(frame, first=bool(data[0] & FIRST))
        self._judge(frame, replies, first=bool(data[0] & FIRST))
        if self._serving.done():
            await self._again()

    async def _again(self) -> None:
        """Serve once more, as a person would start the command again; or end it all, after a few times."""
        self._check_end()
        self._restarts += 1
        if self._link is not None:
            await self._link.close()
            self._link = None
        # A process that begins anew does not know at which head an answer was given, as the page on security says.
        self._given = {identity: (*known[:3], None) for identity, known in self._given.items()}
        if self._restarts > RESTARTS:
            await self._end()
        else:
            self._serving = asyncio.ensure_future(self._agent().serve())

    async def _dialled_or_ended(self) -> Link | None:
        dialled = asyncio.ensure_future(self._dialled())
        await asyncio.wait({dialled, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        if dialled.done():
            return dialled.result()
        dialled.cancel()
        await asyncio.gather(dialled, return_exceptions=True)
        await self._again()
        return None

    async def _replies(self, frame: bytes, first: bool) -> list[Message]:
        """What the owner says to this frame, without its clock's messages."""
        link, said = self._link, list[Message]()
        assert link is not None
        self._charged = self._file.totals.spent
        try:
            await link.send(frame)
            if first:
                welcome = _message(frame)
                if isinstance(welcome, Welcome) and await self._took(welcome, link, said):
                    self._run = welcome.run
                else:
                    await self._hung_up(link, said)
                    return said
            mark, refused = _mark(frame)
            await link.send(mark)
            while True:
                reply = decode(await link.receive())
                if isinstance(reply, Refusal) and reply.reason == refused:
                    return said
                if not isinstance(reply, Ready):
                    said.append(reply)
        except Unreachable:
            await link.close()
            self._link = None
            return said

    async def _took(self, welcome: Welcome, link: Link, said: list[Message]) -> bool:
        """Whether the owner goes on after this welcome: it says so by refusing a mark."""
        mark, refused = _mark(encode(welcome))
        await link.send(mark)
        try:
            while isinstance(reply := decode(await link.receive()), Ready):
                pass
        except Unreachable:
            self._link = None
            return False
        if isinstance(reply, Refusal) and reply.reason == refused:
            return True
        said.append(reply)
        return False

    async def _hung_up(self, link: Link, said: list[Message]) -> None:
        self._link = None
        try:
            while True:
                said.append(decode(await asyncio.wait_for(link.receive(), 20)))
        except Unreachable:
            pass
        except TimeoutError:
            raise Finding("the owner neither greets back nor hangs up") from None
        await link.close()

    def _stands_for(self) -> dict[str, str]:
        learner = certified()["learner"]
        self._number += 1
        older = next(iter(self._given), "q-none")
        return {
            "@query": f"q{self._number}", "@older": older, "@fingerprint": self._fingerprint, "@name": NAME,
            "@other": NAMES[1], "@head": "a" * 64, "@run": "run", "@learner": learner.certificate.decode(),
            "@certificate": certified()[NAME].certificate.decode(),
        }  # fmt: skip

    def _sign(self, message: Message) -> Message:
        learner = certified()["learner"]
        if isinstance(message, Query):
            return replace(message, signature=learner.sign(_content(self._run, message)))
        if isinstance(message, Welcome) and self._hello is not None:
            return replace(message, signature=learner.sign(welcome_content(self._hello, message.run)))
        return message

    # The oracle ---------------------------------------------------------------------------------------------------

    def _judge(self, frame: bytes, replies: list[Message], first: bool) -> None:
        message, spent = _message(frame), self._file.totals.spent - self._charged
        answers = [one for one in replies if isinstance(one, Answer)]
        if len(replies) > 1:
            raise Finding(f"{len(replies)} replies to one message: {replies}")
        if isinstance(message, Closing) and not first:
            self._judge_closing(message, replies)
            self._counted = True
            return
        if any(not isinstance(one, Answer | Refusal) for one in replies):
            raise Finding(f"an owner says {replies[0]}")
        if not answers:
            if spent:
                raise Finding(f"{spent} was charged for {message}, and nothing was answered")
            if isinstance(message, Query) and not first and self._may_be_answered(message, known_too=False):
                raise Finding(f"an honest query was not answered: {message}: {replies}")
            return
        if not isinstance(message, Query) or first or not self._may_be_answered(message, known_too=True):
            raise Finding(f"{message} was answered")
        self._judge_answer(message, answers[0], spent)

    def _judge_closing(self, asked: Closing, replies: list[Message]) -> None:
        run = self._file.totals.runs.get(self._run)
        count = Closing(asked.head, 0 if run is None else run.charged)
        content = f"copriv closing\0{self._run}\0{NAME}\0{self._fingerprint}\0".encode() + encode(count)
        for one in replies:
            if not isinstance(one, Closing) or replace(one, signature="") != count:
                raise Finding(f"the owner counts {count.answered} answers and says {one}")
            if not _verified(certified()[NAME].certificate, one.signature, content):
                raise Finding("the owner's signature under its count does not hold")

    def _judge_answer(self, query: Query, answer: Answer, spent: Fraction) -> None:
        known = self._given.get(query.identity)
        if spent != (0 if known else Fraction(1, agreed().answers)):
            raise Finding(f"{spent} was charged for {query}")
        asked = b"copriv answer\0" + _sha256(_content(self._run, query)) + encode(replace(answer, signature=""))
        if not _verified(certified()[NAME].certificate, answer.signature, asked):
            raise Finding("the owner's signature does not hold")
        said = query.theta.tobytes(), answer.gradient.tobytes(), self._run, query.head
        if known is not None and known not in (said, (*said[:3], None)):
            raise Finding(f"another answer to {query}")
        if (answer.identity, answer.owner) != (query.identity, NAME) or not np.isfinite(answer.gradient).all():
            raise Finding(f"the answer {answer} is to another query")
        self._given[query.identity] = said

    def _may_be_answered(self, query: Query, known_too: bool) -> bool:
        if (
            self._counted
            or (query.owner, query.fingerprint) != (NAME, self._fingerprint)
            or not 1 <= len(query.identity) <= 200
        ):
            return False
        θ = query.theta
        if θ.shape != (PARAMETERS,) or not all(-10.0 <= number <= 10.0 for number in θ):
            return False
        if not _verified(certified()["learner"].certificate, query.signature, _content(self._run, query)):
            return False
        known = self._given.get(query.identity)
        if known is not None:
            return known_too and (known[0], known[2]) == (θ.tobytes(), self._run) and known[3] in (query.head, None)
        run = self._file.totals.runs.get(self._run)
        charged = 0 if run is None else run.charged
        return charged < agreed().answers or (known_too and charged == agreed().answers)

    def _check_end(self) -> None:
        error = None if self._serving.cancelled() else self._serving.exception()
        if error is not None and not isinstance(error, MAY_END_WITH):
            raise Finding(f"the owner's process ended with {error!r}") from error


def _mark(frame: bytes) -> tuple[bytes, str]:
    """What is no message, unlike this frame, and how it is refused: then all before it was handled."""
    kind = 253 if frame[7:8] == b"\xfe" else 254
    return b"COPRIV\x02" + bytes([kind]), f"message: no message has the number {kind}"


def _message(frame: bytes) -> Message | None:
    try:
        return decode(frame)
    except Malformed:
        return None


def _content(run: str, query: Query) -> bytes:
    return b"copriv query\0" + run.encode() + b"\0\0" + encode(replace(query, signature=""))  # no dictionary


def _sha256(content: bytes) -> bytes:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(content)
    return digest.finalize()


def _verified(certificate: bytes, signature: str, content: bytes) -> bool:
    key = x509.load_pem_x509_certificate(certificate).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    try:
        key.verify(bytes.fromhex(signature), content, ec.ECDSA(hashes.SHA256()))
    except (ValueError, InvalidSignature):
        return False
    return True
