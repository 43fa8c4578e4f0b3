"""The learner's process: it listens for owners, transports the conductor's messages, and calls its clock.

Every link belongs to one owner, which is identified by its certificate and must name the agreement's fingerprint; any
other link is refused with a reason and closed. All sessions and the clock run in one event loop, so that no lock is
needed. A message is sent only after `Conductor.take_outbox` has committed the events that led to it.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from copriv.errors import AgreementError, CoprivError, InvalidInput, Unreachable
from copriv.network.keys import Keys, KeysRefused
from copriv.network.messages import (
    STOPPED,
    Closing,
    Finished,
    Hello,
    MaskOpened,
    Message,
    PublicKeys,
    Ready,
    Refusal,
    SetSigned,
    Survivors,
    Welcome,
    decode,
    encode,
    welcome_content,
)
from copriv.network.run import Run
from copriv.network.run_state import Conductor, Decision, Outcome
from copriv.network.store import StoreFailed
from copriv.network.transport import CONNECT_SECONDS, CertifiedLink, Link, Listener, RateLimit
from copriv.protocol import Answer

GOODBYE_SECONDS = 2.0
"""Time limit for owners to acknowledge the end of the run."""
RETURN_SECONDS = 5.0
"""Time limit for owners that have answered and are away at the end of the run to dial again, and to sign their count."""
_MESSAGE_RATE = (400.0, 200.0)
"""Unsolicited messages of an owner: the largest burst, and the number per second."""
_CONNECTION_RATE = (20.0, 0.2)
"""Connections of an owner: the largest burst, and the number per second."""


class Learner:
    """Runs a Conductor over a network. `pace`: seconds, see `Welcome`."""

    def __init__(
        self,
        conductor: Conductor,
        listener: Listener,
        *,
        keys: Keys,
        pace: float = 0.02,
        on_listening: Callable[[str], None] | None = None,
        decide: Callable[[Run], Decision] | None = None,
    ) -> None:
        terms = conductor.store.agreement
        if terms.has_pilot and decide is None:
            raise AgreementError(
                "agreement.pilot: nobody decides what follows it; give the learner's public rows (--public)"
            )
        keys.check_agreed(terms.agreement.learner_key)
        if not terms.mechanism.gives_model:
            raise AgreementError(
                f'agreement.mechanism: no model follows from "{terms.agreement.mechanism}", so a run would spend budgets for '
                "nothing; choose another mechanism"
            )
        self._conductor, self._listener, self._keys = conductor, listener, keys
        self._pace, self._on_listening, self._decide = pace, on_listening, decide
        conductor.offer_interval = pace * (conductor.agreement.agreement.interval or 0.0)
        self._links: dict[str, Link] = {}
        names, self._fingerprint = terms.owner_names, terms.fingerprint
        self._message_limits = {name: RateLimit(*_MESSAGE_RATE) for name in names}
        self._connection_limits = {name: RateLimit(*_CONNECTION_RATE) for name in names}
        self._waiting_sessions = dict.fromkeys(names, 0)
        self._sending: set[asyncio.Future[None]] = set()
        self._over = asyncio.Event()
        self._failure: BaseException | None = None

    async def run(self) -> Outcome:
        """Conduct the run to its end and return its outcome. Raises StoreFailed where the store cannot be written."""
        conductor = self._conductor
        conductor.tick(time.monotonic())
        async with self._listener.listening(self._session) as address:
            if self._on_listening is not None:
                self._on_listening(address)
            await self._until_over()
            if self._failure is None and conductor.run.awaits_decision:
                await self._follow_pilot()
                await self._until_over()
            await self._say_goodbye()
        if self._failure is not None:
            raise self._failure
        if conductor.outcome is None:
            raise Unreachable("the run was left before it ended")
        return conductor.outcome

    async def _until_over(self) -> None:
        conductor = self._conductor
        while conductor.outcome is None and self._failure is None:
            # The clock only serves to detect late owners; an eighth of the deadline is precise enough.
            pause = min(conductor.next_deadline() - time.monotonic(), conductor.conduct.deadline / 8, 1.0)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), max(pause, 0.01))
            if self._failure is None:
                conductor.tick(time.monotonic())
                await self._flush(None)

    async def _follow_pilot(self) -> None:
        """Plan the run after the pilot from its answers, and begin it; owners stay connected meanwhile."""
        conductor, decide = self._conductor, self._decide
        assert decide is not None
        try:
            decision = await asyncio.to_thread(decide, conductor.run)
            self._over.clear()
            conductor.follow(decision, time.monotonic(), self._links.keys())
        except StoreFailed as error:
            self._failure = error  # nothing more may be sent
            return
        except CoprivError as error:
            conductor.end("stopped", f"the run after the pilot is not planned: {error}")
        await self._flush(None)

    async def _session(self, link: Link) -> None:
        owner = ""
        try:
            hello = await self._hello(link)
            if hello is None:
                return
            owner, old = hello.owner, self._links.pop(hello.owner, None)
            if old is not None:  # the owner dialled again before this side detected that the old link is dead
                await old.close()
            self._links[owner] = link
            slot = min(max(hello.slot, 0.0), 3600.0)  # the run waits for no more because its owner tells it
            self._conductor.joined(owner, time.monotonic(), hello.certificate, slot)
            await self._flush(link)
            while self._conductor.outcome is None:
                await self._receive_one(owner, link)
            self._over.set()
            while not self._conductor.has_closed(owner):
                await self._receive_one(owner, link)
            await link.receive()  # until the owner has received the end of the run and closes the link
        except StoreFailed as error:
            self._failure = error  # nothing more may be sent
            self._over.set()
        except (Unreachable, InvalidInput):
            return
        finally:
            if owner and self._links.get(owner) is link:
                del self._links[owner]
                if self._conductor.outcome is None and self._failure is None:
                    self._conductor.left(owner, time.monotonic())
                    await asyncio.shield(self._flush(None))

    async def _receive_one(self, owner: str, link: Link) -> None:
        """Receive and handle one message of an owner."""
        message = decode(await link.receive())
        try:
            expected = self._take(owner, message)
        except (StoreFailed, Unreachable, InvalidInput):
            raise
        except Exception as error:  # a defect here must not let one owner end everybody's run
            self._conductor.failed(owner, error, time.monotonic())
            await self._flush(None)
            raise Unreachable(f"{owner} sent what could not be handled") from None
        await self._flush(link)
        if self._conductor.parties[owner].barred:
            raise Unreachable(f"{owner} is out of the run")
        if not expected:
            await asyncio.sleep(self._message_limits[owner].take(time.monotonic()))

    async def _hello(self, link: Link) -> Hello | None:
        try:
            hello = decode(await asyncio.wait_for(link.receive(), CONNECT_SECONDS))
        except (InvalidInput, TimeoutError) as error:
            await link.send(encode(Refusal("", "connection", f"no hello: {error}"[:500])))
            return None
        why = self._refusal_reason(hello, link)
        if why or not isinstance(hello, Hello):
            await link.send(encode(Refusal("", "connection", why)))
            return None
        if not await self._admit(hello.owner):
            return None
        party = self._conductor.parties[hello.owner]
        run, talk = self._conductor.store.run, self._conductor.talk
        certificate, signature = self._keys.certificate.decode(), self._keys.sign(welcome_content(hello, run))
        welcome = Welcome(run, talk, self._pace, party.answered, party.chain_head, certificate, signature)
        await link.send(encode(welcome))
        return hello

    async def _admit(self, owner: str) -> bool:
        """Wait until the rate limit admits this owner; returns False where three of its sessions wait already."""
        if self._waiting_sessions[owner] >= 3:
            return False
        self._waiting_sessions[owner] += 1
        try:
            await asyncio.sleep(self._connection_limits[owner].take(time.monotonic()))
        finally:
            self._waiting_sessions[owner] -= 1
        return True

    def _refusal_reason(self, hello: Message, link: Link) -> str:
        """Why a session is refused; "" where it is admitted."""
        agreement = self._conductor.agreement
        if not isinstance(hello, Hello):
            return f"the first message must be a hello, not a {type(hello).__name__}"
        if hello.owner not in agreement.owner_names:
            return f"{hello.owner!r} is not an owner in the agreement"
        if hello.owner != link.peer:
            return f"the certificate is that of {link.peer!r}, not of {hello.owner!r}"
        if not self._has_certificate_of(hello, link):
            return f"the certificate in the hello is not that of {hello.owner!r}"
        if hello.fingerprint != self._fingerprint:
            return "the agreements differ (their fingerprints do); exchange the agreement file again"
        if hello.dictionary != self._conductor.dictionary:
            return "the public dictionaries differ; exchange the dictionary file again"
        if self._conductor.parties[hello.owner].barred:
            return f"{hello.owner} is out of this run: {self._conductor.parties[hello.owner].out}"
        if hello.parameters != self._conductor.store.n_parameters:
            return f"its records give {hello.parameters} parameters, the run has {self._conductor.store.n_parameters}"
        return ""

    def _has_certificate_of(self, hello: Hello, link: Link) -> bool:
        """Whether a hello has its owner's certificate, for the key that dialled and that the agreement names."""
        try:
            party = dialled = self._keys.certified(hello.certificate)
            if isinstance(link, CertifiedLink):
                dialled = self._keys.certified(link.certificate)
        except KeysRefused:
            return False
        key = self._conductor.agreement.owner_keys.get(hello.owner, party.key_fingerprint)
        named = (party.name, party.role) == (hello.owner, "owner")
        return named and party.key_fingerprint == dialled.key_fingerprint == key

    def _take(self, owner: str, message: Message) -> bool:
        """Pass a message to the conductor; returns whether the conductor was waiting for it."""
        now = time.monotonic()
        match message:
            case Answer() if message.owner == owner:
                return self._conductor.answered(message, now)
            case Answer():
                raise Unreachable(f"{owner} sent an answer in the name of {message.owner}")
            case Refusal():
                return self._conductor.refused(owner, message, now)
            case Ready():
                return self._conductor.ready(owner, message.number, now)
            case PublicKeys() | SetSigned() | Survivors() | MaskOpened():
                return self._conductor.relayed(owner, message, now)
            case Closing():
                return self._conductor.closed(owner, message)
        raise Unreachable(f"{owner} sent a {type(message).__name__}")

    async def _flush(self, mine: Link | None) -> None:
        """Send the conductor's messages; those for other links than `mine` are not waited for."""
        own: list[tuple[Link, bytes]] = []
        for owner, message in self._conductor.take_outbox():
            link = self._links.get(owner)
            if link is not None and link is mine:
                own.append((link, encode(message)))
            elif link is not None:
                sending = asyncio.ensure_future(_send_if_open(link, encode(message)))
                self._sending.add(sending)
                sending.add_done_callback(self._sending.discard)
        for link, frame in own:  # last: where this one is closed, the others still get their messages
            await link.send(frame)
        if self._conductor.outcome is not None:
            self._over.set()

    async def _say_goodbye(self) -> None:
        """Collect the owners' signed counts of answers, then send them the outcome of the run."""
        outcome, closing = self._conductor.outcome, self._conductor.closing
        if outcome is not None and closing is not None and self._failure is None:
            parties, until = self._conductor.parties, time.monotonic() + RETURN_SECONDS
            answered = {name for name, party in parties.items() if party.answered and not party.out}
            while not answered <= self._links.keys() and time.monotonic() < until:
                await asyncio.sleep(0.005)
            await self._to_all(closing)
            until = time.monotonic() + GOODBYE_SECONDS
            while not all(map(self._conductor.has_closed, self._links)) and time.monotonic() < until:
                await asyncio.sleep(0.005)
            begins = {"stopped": STOPPED, "finished": ""}[outcome.status]
            await self._to_all(Finished(begins + outcome.reason[:500]))
        until = time.monotonic() + GOODBYE_SECONDS
        while self._links and time.monotonic() < until:
            await asyncio.sleep(0.005)

    async def _to_all(self, message: Message) -> None:
        sending = [asyncio.ensure_future(_send_if_open(link, encode(message))) for link in self._links.values()]
        if sending:  # an owner that does not read any more must not delay the others
            _, unsent = await asyncio.wait(sending, timeout=GOODBYE_SECONDS)
            for one in unsent:
                one.cancel()


async def _send_if_open(link: Link, frame: bytes) -> None:
    try:
        await link.send(frame)
    except Unreachable:
        return  # the link's own session detects it, and asks again when the owner is back
