"""An owner's process: it dials the learner, identifies itself, and answers queries until the run ends.

    dial → hello → welcome (check: certificate, run, ledger) → [terms of a phase →] query → answer → query → …

The learner is not trusted here. Its messages are decoded strictly, and an `Owner` decides about each query: it is
charged before a record is read, or refused with a reason. A broken connection is dialled again after random waiting
times that double, so that owners do not all return at once.

Under an agreement with a pilot the learner says which phase begins, and the terms that were chosen for it. They are signed,
must be within what was agreed (`Agreement.chosen_run`), and a phase keeps those that it began with; only then does the phase's
own `Owner` answer, with that phase's budget.

The learner sends back the newest head of this owner's ledger that it has seen. If the ledger never had that head, it is
an older copy, and this process answers nothing.
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
from copriv.agreement.sums import check_keys_named
from copriv.errors import AgreementError, BudgetRefused, CoprivError, NotCertified, QueryRefused, Unreachable
from copriv.formatting.sanitize import printable
from copriv.model.records import InBlocks, Records
from copriv.network.keys import Keys, KeysRefused
from copriv.network.messages import (
    Busy,
    Closing,
    Finished,
    Hello,
    Malformed,
    Members,
    Message,
    Offer,
    PhaseTerms,
    PublicKeys,
    Refusal,
    SetSigned,
    SumQuery,
    Survivors,
    Welcome,
    closing_content,
    decode,
    encode,
    phase_content,
    query_content,
    signed_answer,
    welcome_content,
)
from copriv.network.policy import Policy
from copriv.network.sum_messages import OwnersPart
from copriv.network.transport import CHANCE, Clock, Dialer, Link
from copriv.owner import Owner
from copriv.privacy.ledger import AnswerLost, Ledger, LedgerDamaged, LedgerFailed, PhaseBudget
from copriv.privacy.ledger.phase import PhaseLedger
from copriv.privacy.release_time import ReleaseTime
from copriv.protocol import Answer, Query
from copriv.types import Loss

_LONGEST_PACE, _LONGEST_REASON = 86_400.0, 500
"""Largest pace that a welcome may name (a day, in seconds), and the largest number of characters of a logged reason."""


_Asked = Query | PublicKeys | SetSigned | Survivors


@runtime_checkable
class Ledgers(Protocol):
    """An owner's budget for its data over all runs, such as `LedgerFile`."""

    def run(self, fingerprint: str, run: str, epsilon: Fraction, answers: int, delta: Fraction = Fraction(0)) -> Ledger:
        """The ledger of one run. Raises BudgetRefused where the lifetime budget is too small for it."""

    def holds(self, head: str) -> bool:
        """Whether the ledger ever had this head."""


@dataclass(frozen=True)
class Patience:
    """Waiting times between attempts to dial, in seconds."""

    first: float = 0.2
    longest: float = 15.0
    give_up: float = 600.0
    """Time without contact to the learner after which the agent gives up."""

    def delay(self, failures: int) -> float:
        """A random time between one half and all of an interval that doubles with each failure, up to `longest`."""
        return min(self.longest, self.first * 2.0 ** min(failures, 30)) * CHANCE.uniform(0.5, 1.0)


class LearnerRefused(Unreachable):
    """The learner refuses this owner, or this owner the learner; dialling again would not change that."""

    exit_code = 3


class RefusedByLearner(LearnerRefused):
    """The learner refuses this owner before a run, for example because it has another agreement."""


class TermsRefused(LearnerRefused):
    """The learner began a phase on terms that were not agreed, or on others than before."""


class OwnerAgent:
    """One owner's side of the network, for one agreement.

    noise_ahead: draw the noise of the next answer while waiting for its query (`copriv.privacy.laplace`). With slots that
    `times` measures it brings no answer forward, since they have room for a draw.
    times: slots at the end of which answers are sent (`copriv.privacy.release_time`); measured on this machine when None.
    Raises what `Owner` and `Policy.check` raise, before the learner is dialled.
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
        if agreement.summed:
            check_keys_named(agreement)
        keys.check_agreed(agreement.owner_keys.get(name))
        self._phases = agreement.phases_in_numbers()
        # Raises now whatever can be refused without a query.
        self._checked = [Owner(phase, name, records, loss) for phase in self._phases]
        self._policy.check(agreement, name, columns)
        self._agreement, self._name, self._terms = agreement, name, agreement.terms_of(name)
        self._parameters, self._noise_ahead = records.n_parameters, noise_ahead
        self._ledgers, self._dialer, self._keys, self._dictionary = ledgers, dialer, keys, dictionary
        self._patience, self._log = patience or Patience(), log
        self._times = times or ReleaseTime(max(phase.release_time().slot for phase in self._checked))
        self._current: tuple[str, Ledger] | None = None
        """The name of the newest run, and its ledger."""
        self._owner: Owner | None = None
        """The owner under the terms of the present phase; None before they are known."""
        self._begun: dict[tuple[str, int], Agreement] = {}
        """The terms of each run and phase that the learner signed."""
        self._sums: OwnersPart | None = None
        """Its part in the sums of that run, where answers are seen in sums only."""
        self._parts: dict[tuple[str, str], OwnersPart] = {}
        """Such a part by run and phase, however often the learner changes between them."""
        self._runs = 0
        self._logged_kinds: set[type[CoprivError]] = set()
        """Types of the errors that were logged as reasons of a refusal."""
        self._heads: dict[str, str] = {}
        """Head of the learner's record of the run by the identity of each answered query."""
        self.connected, self.answers, self.refusals = False, 0, 0
        """Whether a session with the learner is open, and the numbers of answers and refusals since this object was made."""
        self._last_contact = self._last_answer = 0.0
        self._made = time.monotonic()
        self._count_signed = False
        """Whether the owner signed its number of answers, after which it gives none."""

    @property
    def slot(self) -> float:
        """Seconds after which an answer leaves, whatever the records."""
        return self._times.slot

    @property
    def idle(self) -> float:
        """Seconds since the last answer, or since this object was made if there is none."""
        return time.monotonic() - (self._last_answer or self._made)

    async def serve(self) -> str:
        """Answer until the learner ends the run; returns the learner's reason.

        Raises Unreachable after `patience.give_up` without contact, LearnerRefused where either party refuses the other,
        LedgerDamaged or LedgerFailed where the ledger cannot be relied on.
        """
        failures, self._last_contact, self._count_signed = 0, time.monotonic(), False
        while True:
            begun = time.monotonic()
            try:
                if not self._policy.open_at(datetime.now()):
                    self._log(f"the policy's hours are {self._policy.hours}; waiting")
                while not self._policy.open_at(datetime.now()):
                    self._last_contact = time.monotonic()
                    await asyncio.sleep(1.0)
                return await self._session(await self._dialer.dial())
            except LearnerRefused:
                raise
            except Unreachable as error:
                # Dialling again would let the learner ask for more answers than it has a signed count of.
                if self._count_signed:
                    return "the learner took the count of answers, and closed the connection without a word"
                # A session of a minute counts as successful, as does one in which a query is answered.
                if self._last_answer >= begun or time.monotonic() - begun >= 60.0:
                    failures = 0
                failures += 1
                if time.monotonic() - self._last_contact > self._patience.give_up:
                    raise Unreachable(
                        f"{self._name}: no learner for {self._patience.give_up:g} s: {error}; start the learner, or "
                        "correct its address or these keys"
                    ) from None
                wait = self._patience.delay(failures)
                self._log(f"{error}; dialling again in {wait:.1f} s")
                await asyncio.sleep(wait)

    async def _session(self, link: Link) -> str:
        try:
            ledger, welcome = await self._handshake(link)
            self._last_contact = time.monotonic()
            most = sum(phase.answers for phase in self._phases)
            self._log(
                f"in run {welcome.run[:8]}: {ledger.answers} of {most} answers given; each takes {self.slot:.3g} s, "
                "whatever the records"
            )
            clock = Clock(link, welcome, self._terms.rate)
            try:
                self.connected = True
                return await self._answering(link, welcome, clock)
            finally:
                self.connected = False
                self._last_contact = time.monotonic()  # the learner was connected until now
                clock.stop()
                if self._owner is not None:
                    self._owner.drop_noise()
        finally:
            await link.close()

    async def _handshake(self, link: Link) -> tuple[Ledger, Welcome]:
        nonce, certificate = secrets.token_hex(16), self._keys.certificate.decode()
        fingerprint = self._agreement.fingerprint
        hello = Hello(self._name, fingerprint, self._dictionary, self._parameters, nonce, certificate, self.slot)
        left = self._last_contact + self._patience.give_up - time.monotonic()
        # Four times the wait that the learner's rate limit imposes on frequent connections; at least a second, also where the
        # time to give up is near.
        patience = min(20.0, self._patience.give_up, max(left, 1.0))
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
            raise RefusedByLearner(f"the learner refused {self._name}: {printable(welcome.reason)}")
        if not isinstance(welcome, Welcome):
            raise Unreachable(f"the learner began with {type(welcome).__name__}, not with a welcome")
        for valid, problem in (
            (re.fullmatch(r"[\w.-]{1,64}", welcome.run, re.ASCII), "a run's name has 1 to 64 letters, digits, - or ."),
            (welcome.talk in ("choose", "broadcast", "request"), "no such way to talk"),
            (0.0 <= welcome.pace <= _LONGEST_PACE, f"a pace of {welcome.pace:g} s"),
        ):
            if not valid:
                raise Unreachable(f"the learner's welcome is none: {problem}")
        try:
            self._check_certificate(hello, welcome)
            self._check_still_valid(welcome)
            if welcome.chain_head and not self._ledgers.holds(welcome.chain_head):
                raise LedgerDamaged(
                    f"{self._name}: the learner has seen {welcome.answered} answers and a ledger head that this ledger "
                    "never had: it is an older copy, or not the one that this run began with. Restore the newest one; "
                    "until then nothing is answered"
                )
            return self._ledger_of(welcome.run), welcome
        except CoprivError as error:
            code, told = refusal_of(error)
            if code == "lost":  # a streamed table is read again for every run that the learner names
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
        """Check that both certificates are still valid, which TLS did only when the connection was made.

        Raises Unreachable for the learner's, so that it is dialled again, and KeysRefused for this owner's own, whose
        signatures nobody would accept. Called before a charge.
        """
        now = datetime.now(UTC)
        if not self._keys.certified(welcome.certificate).valid_at(now):
            raise Unreachable("the learner's certificate is not valid any more; it needs a new one")
        if not self._keys.party.valid_at(now):
            raise KeysRefused(
                f"the certificate of {self._name} is not valid any more; ask the coordinator for a new one"
            )

    def _ledger_of(self, run: str) -> Ledger:
        """Return the ledger of a run, which becomes the present one; without a pilot, the owner answers in it from now on."""
        if self._current is None or self._current[0] != run:
            self._runs += 1
            if self._runs > self._policy.most_runs:
                raise LearnerRefused(
                    f"policy.most_runs: the learner came with more than {self._policy.most_runs} runs since this command "
                    "was started; an honest one needs one, or a few. Ask it why, and start this command again"
                )
            ε, δ, m = Fraction(self._terms.epsilon), Fraction(self._terms.delta), sum(p.answers for p in self._phases)
            ledger = self._ledgers.run(self._agreement.fingerprint, run, ε, m, δ)
            self._current, self._owner = (run, ledger), None
            if not self._agreement.has_pilot:
                self._answer_as(self._checked[0].charging(ledger, self._times), self._agreement, run)
        return self._current[1]

    def _answer_as(self, owner: Owner, agreed: Agreement, run: str) -> None:
        """Answer in this run, or this phase of it, from here on; what it signed there in an attempt at a sum stays known."""
        self._owner, self._sums = owner, None
        if agreed.summed:
            self._sums = self._parts.setdefault((run, agreed.fingerprint), OwnersPart(agreed, run, self._keys, owner))
            self._sums.answer_by(owner)

    def _begin(self, message: PhaseTerms, welcome: Welcome) -> None:
        """Begin a phase on the terms that the learner chose, and answer in it from now on.

        Raises TermsRefused for terms that are outside the agreed ranges, not signed, or different from those signed before.
        """
        k, agreed = message.phase, self._agreement
        if not self._agreement.has_pilot or not 1 <= k <= len(self._phases):
            raise TermsRefused(f"the learner began phase {k}, and {len(self._phases)} were agreed")
        try:
            terms = agreed.phases[0] if k == 1 else agreed.chosen_run(message.terms)
            if k == 1 and message.terms:
                raise TermsRefused("the learner chose terms of the pilot, all of which were agreed")
        except (AgreementError, Malformed) as error:
            raise TermsRefused(f"the terms of phase {k} are not those that were agreed: {error}") from None
        content = phase_content(welcome.run, agreed.fingerprint, k, terms.fingerprint)
        if not self._keys.certified(welcome.certificate).signed(message.signature, content):
            raise TermsRefused(f"the learner did not sign the terms of phase {k}")
        if self._begun.setdefault((welcome.run, k), terms).fingerprint != terms.fingerprint:
            raise TermsRefused(f"the learner signed other terms of phase {k} before: it began on those, or not at all")
        if self._owner is not None and self._owner.fingerprint == terms.fingerprint:
            return  # a repetition during the phase: the state of the present attempt at a sum is kept
        own, ledger = terms.terms_of(self._name), self._ledger_of(welcome.run)
        budget = PhaseBudget(k, Fraction(own.epsilon), terms.answers, Fraction(own.delta), terms.fingerprint)
        part = PhaseLedger(ledger, budget, agreed.fingerprint, Fraction(self._terms.delta), agreed.dropouts > 0)
        self._answer_as(self._checked[k - 1].charging(part, self._times, terms), terms, welcome.run)
        given = f"{part.answers} of {terms.answers} answers given"
        self._log(f"phase {k} of {len(self._phases)}: {terms.mechanism.promise(terms, own)}; {given}")

    def _signed_reply(self, owner: Owner, asked: _Asked, welcome: Welcome) -> tuple[Message, CoprivError | None]:
        """Check the learner's signature of a query, reply to it or to a later message of its sum, and sign an answer."""
        sums = self._sums
        if isinstance(asked, Query):
            learner = self._keys.certified(welcome.certificate)
            if not learner.signed(asked.signature, query_content(welcome.run, asked, self._dictionary)):
                return _refusal(asked, "query", "the learner did not sign it as a query of this run"), None
            # An answer signed for two histories of the run would let the learner choose between them.
            if self._heads.get(asked.identity, asked.head) != asked.head:
                return _refusal(asked, "query", "it was asked before, from another record of the run"), None
        if not isinstance(asked, SumQuery | PublicKeys | SetSigned | Survivors):
            reply, failure = respond(owner, asked, self._log_refusal)
        elif sums is None:
            return _refusal(asked, "query", "no sums were agreed on"), None
        else:
            reply, failure = _reply(lambda: sums.reply(asked), asked, self._log_refusal)
        self.answers += isinstance(reply, Answer)
        self.refusals += isinstance(reply, Refusal)
        if isinstance(reply, Answer):
            query = asked if isinstance(asked, Query) else sums and sums.query
            assert query, "an answer to a sum follows its query"
            self._last_answer, self._heads[query.identity] = time.monotonic(), query.head
            reply = signed_answer(self._keys, welcome.run, query, reply, self._dictionary)
        return reply, failure

    def _log_refusal(self, error: CoprivError) -> None:
        """Log the reason of a refusal, once for each type of error, so that repeated queries cannot fill the disk."""
        if type(error) not in self._logged_kinds:
            self._logged_kinds.add(type(error))
            self._log(f"refused: {printable(str(error), _LONGEST_REASON)}")

    async def _answering(self, link: Link, welcome: Welcome, clock: Clock) -> str:
        while True:
            owner = self._owner
            try:
                message = decode(await link.receive())
            except Malformed as error:
                await link.send(encode(Refusal("", "malformed", str(error)[:500])))
                continue
            match message:
                case Query() | PublicKeys() | SetSigned() | Survivors() if self._count_signed:
                    end = _refusal(message, "query", "it signed how many answers it gave; that was the end")
                    await link.send(encode(end))
                case Query() | Closing() if owner is None:
                    why = "the terms of its phase were not said"
                    await link.send(encode(Refusal(getattr(message, "identity", "")[:200], "query", why)))
                case PhaseTerms():
                    try:
                        self._begin(message, welcome)
                    except CoprivError as error:
                        await link.send(encode(Refusal("", *refusal_of(error))))
                        raise
                case Query() | PublicKeys() | SetSigned() | Survivors() if owner is not None:
                    await self._answer(link, owner, message, welcome)
                    clock.served()
                case Members() if self._sums is not None:
                    try:
                        self._sums.meet(message)
                    except KeysRefused as error:
                        await link.send(encode(Refusal("", *refusal_of(error))))
                        raise
                case Offer():
                    clock.offered(message.number)
                case Busy():
                    clock.served()
                case Closing() if owner is not None:
                    own, whole = owner.ledger.answers, self._ledger_of(welcome.run).answers
                    self._count_signed, count = True, Closing(message.head, own, before=whole - own)
                    content = closing_content(welcome.run, self._name, owner.fingerprint, count)
                    await link.send(encode(replace(count, signature=self._keys.sign(content))))
                case Finished():
                    return printable(message.reason)
                case _:
                    why = f"a {type(message).__name__} is not for an owner in a run"
                    await link.send(encode(Refusal("", "malformed", why)))

    async def _answer(self, link: Link, owner: Owner, query: _Asked, welcome: Welcome) -> None:
        """Reply to one query, or to a message of its sum.

        Raises Unreachable outside the policy's hours, and the error that ends this process.
        """
        if not self._policy.open_at(datetime.now()):
            raise Unreachable(f"{self._name} answers in the hours {self._policy.hours} only")
        self._check_still_valid(welcome)
        late = self._times.late
        reply, failure = self._signed_reply(owner, query, welcome)
        if self._times.late > late:
            self._log("an answer was late: the machine is busy, and the learner can see it")
        drawing: asyncio.Handle | None = None
        if self._noise_ahead and failure is None:
            # As soon as the reply is sent, while the learner computes.
            drawing = asyncio.get_running_loop().call_soon(owner.draw_ahead)
        try:
            await link.send(encode(reply))
        except BaseException:
            if drawing is not None:
                drawing.cancel()
            raise
        if failure is not None:
            raise failure


_REFUSALS: tuple[tuple[type[CoprivError], str, str], ...] = (
    (LedgerDamaged, "ledger", "its ledger is not whole, or not the newest copy; it answers nothing from it"),
    (LedgerFailed, "ledger", "its ledger cannot be read or written"),
    (BudgetRefused, "budget", "its budget does not reach for it"),
    (AnswerLost, "lost", "it was charged and never answered"),
    (QueryRefused, "query", "it is not a query that may be answered under the agreement, or not this one any more"),
    (
        KeysRefused,
        "policy",
        "the learner did not sign with a certificate that this owner takes, or its own is not valid",
    ),
    (TermsRefused, "policy", "the terms of the phase are not within what was agreed, or not those that it began with"),
    (Unreachable, "policy", "its policy does not take this learner, or so many runs"),
    # The errors below occur after the charge.
    (NotCertified, "lost", "its fit did not come to an end"),
    (CoprivError, "lost", "its records cannot be read as they were agreed"),
)


def refusal_of(error: CoprivError) -> tuple[str, str]:
    """The code and the fixed sentence that the learner is sent for an error.

    The error's own text may quote a path, the ledger or the table, and is for the owner only.
    """
    return next((code, sentence) for kind, code, sentence in _REFUSALS if isinstance(error, kind))


def respond(
    owner: Owner, query: Query, log: Callable[[CoprivError], None] = lambda _: None
) -> tuple[Message, CoprivError | None]:
    """The answer to a query or its refusal (`refusal_of`), and the error if it has to end this process.

    log: is called with the reason of a refusal.
    """
    return _reply(lambda: owner.answer(query), query, log)


def _reply(
    reply: Callable[[], Message], query: _Asked, log: Callable[[CoprivError], object]
) -> tuple[Message, CoprivError | None]:
    try:
        return reply(), None
    except CoprivError as error:
        log(error)
        refusal = _refusal(query, *refusal_of(error))
        if isinstance(error, LedgerDamaged) or not isinstance(error, BudgetRefused | QueryRefused | NotCertified):
            return refusal, error
        return refusal, None


def _refusal(query: _Asked, code: str, why: str) -> Refusal:
    return Refusal(query.identity[:200], code, why)
