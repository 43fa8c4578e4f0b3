"""The learner's process: it listens for owners, carries the conductor's messages, and keeps the time.

Every link is one owner's. Who it is comes from its certificate, what it signed up to from the agreement's fingerprint;
one that does not fit is told why and let go. All sessions and the clock run in one event loop, so nothing here needs a
lock, and a message leaves only after `Conductor.take_outbox` has made durable what led to it.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from copriv.errors import InvalidInput, Unreachable
from copriv.network.keys import Keys, KeysRefused
from copriv.network.messages import (
    Closing,
    Finished,
    Hello,
    Message,
    Ready,
    Refusal,
    Welcome,
    decode,
    encode,
    welcome_content,
)
from copriv.network.run_state import Conductor, Outcome
from copriv.network.store import StoreFailed
from copriv.network.transport import Allowance, CertifiedLink, Link, Listener
from copriv.protocol import Answer

HELLO_SECONDS = 10.0
"""How long a link may take to say who it is."""
STOPPED = "stopped: "
"""How the reason begins by which owners hear that a run was stopped, and may be resumed."""
GOODBYE_SECONDS = 2.0
"""How long owners have to hear that the run is over."""
_MESSAGES = (400.0, 200.0)
"""What an owner may send without being asked: so many at once, and so many a second."""
_COMINGS = (20.0, 0.2)
"""How often an owner may come: so many times, and one every five seconds after that."""
_MOST_SESSIONS = 3
"""Of one owner, that wait to be let in."""


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
    ) -> None:
        keys.check_agreed(conductor.agreement.agreement.learner_key)
        self._conductor, self._listener, self._keys = conductor, listener, keys
        self._pace, self._on_listening = pace, on_listening
        self._links: dict[str, Link] = {}
        names, self._fingerprint = conductor.agreement.owner_names, conductor.agreement.fingerprint
        self._messages = {name: Allowance(*_MESSAGES) for name in names}
        self._comings = {name: Allowance(*_COMINGS) for name in names}
        self._at_the_door = dict.fromkeys(names, 0)
        self._sending: set[asyncio.Future[None]] = set()
        self._over = asyncio.Event()
        self._failure: BaseException | None = None

    async def run(self) -> Outcome:
        """Conduct the run to its end; what it ended with. Raises StoreFailed where the store cannot be written."""
        conductor = self._conductor
        conductor.tick(time.monotonic())
        async with self._listener.listening(self._session) as address:
            if self._on_listening is not None:
                self._on_listening(address)
            while conductor.outcome is None and self._failure is None:
                # The clock only matters for those who are late; an eighth of the deadline is near enough.
                pause = min(conductor.next_deadline() - time.monotonic(), conductor.conduct.deadline / 8, 1.0)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), max(pause, 0.01))
                if self._failure is None:
                    conductor.tick(time.monotonic())
                    await self._flush(None)
            await self._say_goodbye()
        if self._failure is not None:
            raise self._failure
        if conductor.outcome is None:
            raise Unreachable("the run was left before it ended")
        return conductor.outcome

    async def _session(self, link: Link) -> None:
        owner = ""
        try:
            hello = await self._hello(link)
            if hello is None:
                return
            owner, old = hello.owner, self._links.pop(hello.owner, None)
            if old is not None:  # the owner dialled again before this side noticed that the old link is dead
                await old.close()
            self._links[owner] = link
            self._conductor.joined(owner, time.monotonic(), hello.certificate)
            await self._flush(link)
            while self._conductor.outcome is None:
                await self._hear(owner, link)
            self._over.set()
            while not self._conductor.has_closed(owner):
                await self._hear(owner, link)
            await link.receive()  # until the owner has heard that the run is over, and leaves
        except StoreFailed as error:
            self._failure = error  # nothing more may leave
            self._over.set()
        except (Unreachable, InvalidInput):
            return
        finally:
            if owner and self._links.get(owner) is link:
                del self._links[owner]
                if self._conductor.outcome is None and self._failure is None:
                    self._conductor.left(owner, time.monotonic())
                    await asyncio.shield(self._flush(None))

    async def _hear(self, owner: str, link: Link) -> None:
        """One message of an owner, and what follows from it."""
        message = decode(await link.receive())
        try:
            expected = self._take(owner, message)
        except (StoreFailed, Unreachable, InvalidInput):
            raise
        except Exception as error:  # a defect, which must not let one owner end the run of all
            self._conductor.failed(owner, error, time.monotonic())
            await self._flush(None)
            raise Unreachable(f"{owner} sent what could not be handled") from None
        await self._flush(link)
        if self._conductor.parties[owner].barred:
            raise Unreachable(f"{owner} is out of the run")
        if not expected:
            await asyncio.sleep(self._messages[owner].take(time.monotonic()))

    async def _hello(self, link: Link) -> Hello | None:
        try:
            hello = decode(await asyncio.wait_for(link.receive(), HELLO_SECONDS))
        except (InvalidInput, TimeoutError) as error:
            await link.send(encode(Refusal("", "connection", f"no hello: {error}"[:500])))
            return None
        why = self._unfit(hello, link)
        if why or not isinstance(hello, Hello):
            await link.send(encode(Refusal("", "connection", why)))
            return None
        if not await self._let_in(hello.owner):
            return None
        party = self._conductor.parties[hello.owner]
        run, talk = self._conductor.store.run, self._conductor.conduct.talk
        certificate, signature = self._keys.certificate.decode(), self._keys.sign(welcome_content(hello, run))
        welcome = Welcome(run, talk, self._pace, party.answered, party.chain_head, certificate, signature)
        await link.send(encode(welcome))
        return hello

    async def _let_in(self, owner: str) -> bool:
        """Wait until this owner may come again; whether it may at all."""
        if self._at_the_door[owner] >= _MOST_SESSIONS:
            return False
        self._at_the_door[owner] += 1
        try:
            await asyncio.sleep(self._comings[owner].take(time.monotonic()))
        finally:
            self._at_the_door[owner] -= 1
        return True

    def _unfit(self, hello: Message, link: Link) -> str:
        agreement = self._conductor.agreement
        if not isinstance(hello, Hello):
            return f"the first message must be a hello, not a {type(hello).__name__}"
        if hello.owner not in agreement.owner_names:
            return f"{hello.owner!r} is not an owner in the agreement"
        if hello.owner != link.peer:
            return f"the certificate is that of {link.peer!r}, not of {hello.owner!r}"
        if not self._is_that_of(hello, link):
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

    def _is_that_of(self, hello: Hello, link: Link) -> bool:
        """Whether a hello has a certificate of its owner, for the key that dialled and that was agreed on."""
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
        """Tell the conductor; whether it was waiting for this."""
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
            case Closing():
                return self._conductor.closed(owner, message)
        raise Unreachable(f"{owner} sent a {type(message).__name__}")

    async def _flush(self, mine: Link | None) -> None:
        """Send what the conductor has to say; other links do not hold up this one."""
        for owner, message in self._conductor.take_outbox():
            link = self._links.get(owner)
            if link is not None and link is mine:
                await link.send(encode(message))
            elif link is not None:
                sending = asyncio.ensure_future(_posted(link, encode(message)))
                self._sending.add(sending)
                sending.add_done_callback(self._sending.discard)
        if self._conductor.outcome is not None:
            self._over.set()

    async def _say_goodbye(self) -> None:
        outcome, closing = self._conductor.outcome, self._conductor.closing
        if outcome is not None and closing is not None:
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
        saying = [asyncio.ensure_future(_posted(link, encode(message))) for link in self._links.values()]
        if saying:  # an owner that takes nothing any more does not keep the others from the end
            _, deaf = await asyncio.wait(saying, timeout=GOODBYE_SECONDS)
            for one in deaf:
                one.cancel()


async def _posted(link: Link, frame: bytes) -> None:
    try:
        await link.send(frame)
    except Unreachable:
        return  # its own session notices, and asks again when the owner is back
