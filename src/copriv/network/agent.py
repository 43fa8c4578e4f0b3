"""An owner's process: it dials the learner, says who it is, and answers queries until the agreement is fulfilled.

    dial → hello → welcome (check: certificate, run, ledger) → query → answer → query → …

The learner is not trusted with anything here. What it sends is decoded strictly, and an `Owner` decides about it: a
query is charged before a record is read, or refused with a reason. A connection that breaks is dialled again, with
waiting times that double and are drawn at random, so that owners do not all come back at once.

What the learner remembers of this owner's ledger is held against the ledger: if the learner has seen a head that the
ledger never had, then the ledger is an older copy of itself, and this process answers nothing.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Protocol, runtime_checkable

from copriv.agreement import Agreement
from copriv.errors import BudgetRefused, CoprivError, NotCertified, QueryRefused, Unreachable
from copriv.formatting.sanitize import printable
from copriv.model.records import InBlocks, Records
from copriv.network.keys import Keys, KeysRefused
from copriv.network.messages import (
    Busy,
    Closing,
    Finished,
    Hello,
    Malformed,
    Message,
    Offer,
    Refusal,
    Welcome,
    closing_content,
    decode,
    encode,
    query_content,
    signed_answer,
    welcome_content,
)
from copriv.network.policy import Policy
from copriv.network.transport import CHANCE, Clock, Dialer, Link
from copriv.owner import Owner
from copriv.privacy.ledger import AnswerLost, Ledger, LedgerDamaged, LedgerFailed
from copriv.privacy.release_time import ReleaseTime
from copriv.protocol import Answer, Query
from copriv.types import Loss

WELCOME_SECONDS = 20.0
"""How long the learner may take to greet; it makes an owner that comes very often wait for five."""
_SHORTEST_WAIT = 1.0
"""For a learner to greet, also where the time to give up is near."""
_LONGEST_PACE, _LONGEST_REASON = 86_400.0, 500
_SERVED_SECONDS = 60.0
"""A session that lasts so long, or in which a query is answered, was worth dialling for."""


@runtime_checkable
class Ledgers(Protocol):
    """An owner's budget for its data, over all runs; `LedgerFile` is the one that lasts."""

    def run(self, fingerprint: str, run: str, epsilon: Fraction, answers: int, delta: Fraction = Fraction(0)) -> Ledger:
        """The ledger of one run. Raises BudgetRefused where the lifetime budget does not reach for it."""

    def holds(self, head: str) -> bool:
        """Whether the ledger ever had this head."""


@dataclass(frozen=True)
class Patience:
    """How an agent dials again, in seconds."""

    first: float = 0.2
    longest: float = 15.0
    give_up: float = 600.0
    """After this long without the learner."""

    def delay(self, failures: int) -> float:
        """A random wait, half to all of a span that doubles with each failure."""
        return min(self.longest, self.first * 2.0 ** min(failures, 30)) * CHANCE.uniform(0.5, 1.0)


class LearnerRefused(Unreachable):
    """The learner will not have this owner in its run, or this owner it: dialling again would not help."""

    exit_code = 3


class OwnerAgent:
    """One owner's side of the network, for one agreement.

    noise_ahead: draw the noise of the next answer while waiting for its query (`copriv.privacy.laplace`).
    times: when answers leave; slots that are long enough on this machine, when None (`copriv.privacy.release_time`).
    Raises what `Owner` and `Policy.check` raise, before anything is dialled.
    """

    def __init__(
        self,
        agreement: Agreement,
        name: str,
        records: Records | InBlocks,
        loss: Loss,
        ledgers: Ledgers,
        dialer: Dialer,
        *,
        keys: Keys,
        policy: Policy | None = None,
        dictionary: str = "",
        columns: tuple[str, ...] = (),
        patience: Patience | None = None,
        log: Callable[[str], object] = lambda _: None,
        noise_ahead: bool = False,
        times: ReleaseTime | None = None,
    ) -> None:
        self._policy = policy or Policy()
        keys.check_agreed(agreement.owner_keys.get(name))
        self._checked = Owner(agreement, name, records, loss)  # everything that can be refused is refused now
        self._policy.check(agreement, name, columns)
        self._agreement, self._name, self._terms = agreement, name, agreement.terms_of(name)
        self._parameters, self._noise_ahead = records.n_parameters, noise_ahead
        self._ledgers, self._dialer, self._keys, self._dictionary = ledgers, dialer, keys, dictionary
        self._patience, self._log = patience or Patience(), log
        self._times = times or self._checked.release_time()
        self._owner_of: tuple[str, Owner] | None = None
        """The newest run's name, and what answers in it."""
        self._runs = 0
        self._told: set[type[CoprivError]] = set()
        """Kinds of reasons for which a query was refused."""
        self._heads: dict[str, str] = {}
        """What the learner's record stood at, by the identity of each query that was answered."""
        self._welcomed = self._worth_it = 0.0
        self._counted = False
        """Whether it signed how many answers it gave, after which it gives none."""

    async def serve(self) -> str:
        """Answer until the learner says that the run is over; gives its reason.

        Raises Unreachable after `patience.give_up` without the learner, LearnerRefused if it will not have this owner,
        LedgerDamaged or LedgerFailed if the ledger cannot be relied on.
        """
        failures, self._welcomed = 0, time.monotonic()
        while True:
            begun = time.monotonic()
            try:
                if not self._policy.open_at(datetime.now()):
                    self._log(f"the policy's hours are {self._policy.hours}; waiting")
                while not self._policy.open_at(datetime.now()):
                    self._welcomed = time.monotonic()
                    await asyncio.sleep(1.0)
                return await self._session(await self._dialer.dial())
            except LearnerRefused:
                raise
            except Unreachable as error:
                # To dial again would let the learner ask once more beside the count that it has.
                if self._counted:
                    return "the learner took the count of answers, and closed the connection without a word"
                if self._worth_it >= begun or time.monotonic() - begun >= _SERVED_SECONDS:
                    failures = 0
                failures += 1
                if time.monotonic() - self._welcomed > self._patience.give_up:
                    raise Unreachable(
                        f"{self._name}: no learner for {self._patience.give_up:g} s: {error}; start the learner, or "
                        "correct its address or these keys"
                    ) from None
                wait = self._patience.delay(failures)
                self._log(f"{error}; dialling again in {wait:.1f} s")
                await asyncio.sleep(wait)

    async def _session(self, link: Link) -> str:
        try:
            owner, welcome = await self._handshake(link)
            self._welcomed = time.monotonic()
            self._log(
                f"in run {welcome.run[:8]}: {owner.ledger.answers} of {self._agreement.answers} answers given; "
                f"each takes {self._times.slot:g} s, whatever the records"
            )
            clock = Clock(link, welcome, self._terms.rate)
            try:
                return await self._answering(link, owner, welcome, clock)
            finally:
                self._welcomed = time.monotonic()  # it was there until now, however long that was
                clock.stop()
                owner.drop_noise()
        finally:
            await link.close()

    async def _handshake(self, link: Link) -> tuple[Owner, Welcome]:
        nonce, certificate = secrets.token_hex(16), self._keys.certificate.decode()
        fingerprint = self._agreement.fingerprint
        hello = Hello(self._name, fingerprint, self._dictionary, self._parameters, nonce, certificate)
        left = self._welcomed + self._patience.give_up - time.monotonic()
        patience = min(WELCOME_SECONDS, self._patience.give_up, max(left, _SHORTEST_WAIT))
        try:
            async with asyncio.timeout(patience):
                await link.send(encode(hello))
                frame = await link.receive()
        except TimeoutError:
            raise Unreachable(f"the learner does not greet within {patience:g} s") from None
        try:
            welcome = decode(frame)
        except Malformed as error:
            raise Unreachable(f"what answered is no learner ({error})") from None
        if isinstance(welcome, Refusal):
            raise LearnerRefused(f"the learner refused {self._name}: {printable(welcome.reason)}")
        if not isinstance(welcome, Welcome):
            raise Unreachable(f"the learner began with {type(welcome).__name__}, not with a welcome")
        for said, odd in (
            (re.fullmatch(r"[\w.-]{1,64}", welcome.run, re.ASCII), "a run's name has 1 to 64 letters, digits, - or ."),
            (welcome.talk in ("choose", "broadcast", "request"), "no such way to talk"),
            (0.0 <= welcome.pace <= _LONGEST_PACE, f"a pace of {welcome.pace:g} s"),
        ):
            if not said:
                raise Unreachable(f"the learner's welcome is none: {odd}")
        try:
            self._check_certificate(hello, welcome)
            self._check_still_valid(welcome)
            if welcome.chain_head and not self._ledgers.holds(welcome.chain_head):
                raise LedgerDamaged(
                    f"{self._name}: the learner has seen {welcome.answered} answers and a ledger head that this ledger "
                    "never had: it is an older copy, or not the one that this run began with. Restore the newest one; "
                    "until then nothing is answered"
                )
            return self._owner(welcome.run), welcome
        except CoprivError as error:
            code, told = refusal_of(error)
            if code == "lost":  # a streamed table is read anew for every run that the learner names
                code, told = "policy", "its records do not keep to the agreement"
            await link.send(encode(Refusal("", code, told)))
            raise

    def _check_certificate(self, hello: Hello, welcome: Welcome) -> None:
        try:
            shown = self._keys.certified(welcome.certificate)
        except KeysRefused:
            raise KeysRefused("the learner did not sign this run with a certificate of the consortium") from None
        signed = shown.signed(welcome.signature, welcome_content(hello, welcome.run))
        if not signed or (shown.role, shown.name) != ("learner", self._policy.learner):
            raise KeysRefused(f"{self._policy.learner!r} did not sign this run with a learner's certificate")
        if self._agreement.agreement.learner_key not in (None, shown.key_fingerprint):
            raise KeysRefused(f"{shown.name!r} signed this run with another key than the one that the agreement names")
        if self._policy.certificates and shown.fingerprint not in self._policy.certificates:
            raise LearnerRefused(
                f"policy.certificates: the learner's certificate {shown.fingerprint[:16]}… is not one that {self._name} "
                "answers to"
            )

    def _check_still_valid(self, welcome: Welcome) -> None:
        """A connection may outlive certificates, which the network looks at when it is made. Nothing is charged after that.

        Of the learner: it is dialled again, and let in with a new one. Our own: nobody would take what it signs.
        """
        now = datetime.now(UTC)
        if not self._keys.certified(welcome.certificate).valid_at(now):
            raise Unreachable("the learner's certificate is not valid any more; it needs a new one")
        if not self._keys.party.valid_at(now):
            raise KeysRefused(
                f"the certificate of {self._name} is not valid any more; ask the coordinator for a new one"
            )

    def _owner(self, run: str) -> Owner:
        if self._owner_of is None or self._owner_of[0] != run:
            self._runs += 1
            if self._runs > self._policy.most_runs:
                raise LearnerRefused(
                    f"policy.most_runs: the learner came with more than {self._policy.most_runs} runs since this command "
                    "was started; an honest one needs one, or a few. Ask it why, and start this command again"
                )
            ε, δ, m = Fraction(self._terms.epsilon), Fraction(self._terms.delta), self._agreement.answers
            ledger = self._ledgers.run(self._agreement.fingerprint, run, ε, m, δ)
            self._owner_of = run, self._checked.charging(ledger, self._times)
        return self._owner_of[1]

    def _reply(self, owner: Owner, query: Query, welcome: Welcome) -> tuple[Message, CoprivError | None]:
        """As `respond`, for a query that the learner signed; the answer is signed too."""
        learner = self._keys.certified(welcome.certificate)
        if not learner.signed(query.signature, query_content(welcome.run, query, self._dictionary)):
            return _refusal(query, "query", "the learner did not sign it as a query of this run"), None
        # To sign the same answer for two histories would let the learner choose between them.
        if self._heads.get(query.identity, query.head) != query.head:
            return _refusal(query, "query", "it was asked before, from another record of the run"), None
        reply, failure = respond(owner, query, self._refused)
        if isinstance(reply, Answer):
            self._worth_it, self._heads[query.identity] = time.monotonic(), query.head
            reply = signed_answer(self._keys, welcome.run, query, reply, self._dictionary)
        return reply, failure

    def _refused(self, error: CoprivError) -> None:
        """Say why, once for each kind of reason: whoever asks the same without end does not fill a disk."""
        if type(error) not in self._told:
            self._told.add(type(error))
            self._log(f"refused: {printable(str(error), _LONGEST_REASON)}")

    async def _answering(self, link: Link, owner: Owner, welcome: Welcome, clock: Clock) -> str:
        while True:
            try:
                message = decode(await link.receive())
            except Malformed as error:
                await link.send(encode(Refusal("", "malformed", str(error)[:500])))
                continue
            if isinstance(message, Query) and self._counted:
                end = _refusal(message, "query", "it signed how many answers it gave; that was the end")
                await link.send(encode(end))
            elif isinstance(message, Query):
                if not self._policy.open_at(datetime.now()):
                    raise Unreachable(f"{self._name} answers in the hours {self._policy.hours} only")
                self._check_still_valid(welcome)
                late = self._times.late
                reply, failure = self._reply(owner, message, welcome)
                if self._times.late > late:
                    self._log("an answer was late: the machine is busy, and the learner can see it")
                drawing: asyncio.Handle | None = None
                if self._noise_ahead and failure is None:
                    # As soon as the reply is on its way, while the learner is at work.
                    drawing = asyncio.get_running_loop().call_soon(owner.draw_ahead)
                try:
                    await link.send(encode(reply))
                except BaseException:
                    if drawing is not None:
                        drawing.cancel()
                    raise
                if failure is not None:
                    raise failure
                clock.served()
            elif isinstance(message, Offer):
                clock.offered(message.number)
            elif isinstance(message, Busy):
                clock.served()
            elif isinstance(message, Closing):
                self._counted, count = True, Closing(message.head, owner.ledger.answers)
                content = closing_content(welcome.run, self._name, self._agreement.fingerprint, count)
                await link.send(encode(replace(count, signature=self._keys.sign(content))))
            elif isinstance(message, Finished):
                return printable(message.reason)
            else:
                why = f"a {type(message).__name__} is not for an owner in a run"
                await link.send(encode(Refusal("", "malformed", why)))


_REFUSALS: tuple[tuple[type[CoprivError], str, str], ...] = (
    (LedgerDamaged, "ledger", "its ledger is not whole, or not the newest copy; it answers nothing from it"),
    (LedgerFailed, "ledger", "its ledger cannot be read or written"),
    (BudgetRefused, "budget", "its budget does not reach for it"),
    (AnswerLost, "lost", "it was charged and never answered"),  # and there is no answer
    (QueryRefused, "query", "it is not a query that may be answered under the agreement, or not this one any more"),
    (
        KeysRefused,
        "policy",
        "the learner did not sign with a certificate that this owner takes, or its own is not valid",
    ),
    (Unreachable, "policy", "its policy does not take this learner, or so many runs"),
    # What follows was charged.
    (NotCertified, "lost", "its fit did not come to an end"),
    (CoprivError, "lost", "its records cannot be read as they were agreed"),
)


def refusal_of(error: CoprivError) -> tuple[str, str]:
    """The code and the fixed sentence by which the learner hears of an error.

    The reason itself may quote a path, the ledger or the table: it is for the owner, and not for sending on.
    """
    return next((code, told) for kind, code, told in _REFUSALS if isinstance(error, kind))


def respond(
    owner: Owner, query: Query, log: Callable[[CoprivError], None] = lambda _: None
) -> tuple[Message, CoprivError | None]:
    """The answer to a query, or a refusal in a fixed sentence; and the error that ends this process, if it is one.

    log: is given the reason of a refusal.
    """
    try:
        return owner.answer(query), None
    except CoprivError as error:
        log(error)
        goes_on = isinstance(error, BudgetRefused | QueryRefused | NotCertified) and not isinstance(
            error, LedgerDamaged
        )
        return _refusal(query, *refusal_of(error)), None if goes_on else error


def _refusal(query: Query, code: str, why: str) -> Refusal:
    return Refusal(query.identity[:200], code, why)
