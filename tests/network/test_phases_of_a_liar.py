"""A learner that lies about phases: its owner refuses before it reads a record, or the run's file shows it."""

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.losses import Squared
from copriv.network.agent import OwnerAgent, Patience, TermsRefused
from copriv.network.keys import Keys
from copriv.network.messages import (
    Finished,
    Hello,
    Message,
    PhaseTerms,
    Refusal,
    Welcome,
    decode,
    encode,
    phase_content,
    signed_query,
)
from copriv.network.run_state import Conductor, Decision
from copriv.network.store import START, line_hash
from copriv.network.transport import Link
from copriv.network.verify import verify_run
from copriv.owner import Owner
from copriv.privacy.ledger.read import verify
from copriv.privacy.release_time import ReleaseTime
from copriv.protocol import Answer, Query
from copriv.terms.learning import RANGED, DataTerms, ModelTerms, Terms
from ledger_files import opened
from memory_network import MemoryNetwork
from network_parties import NAMES, keys, records, welcome
from phased_parties import CHOSEN, KNOWN, conducted, goes_on, keep, piloted

AGREED = piloted()
PILOT, RUN = AGREED.phases[0], AGREED.chosen_run(CHOSEN)
OTHER = {**CHOSEN, "step": 0.6}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Keys]:
    return keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def reads() -> Iterator[list[str]]:
    """Every time that records are read for an answer."""
    seen: list[str] = []
    private = Owner._private
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Owner, "_private", lambda owner, θ: (seen.append(owner.name), private(owner, θ))[1])
        yield seen


class Liar:
    """A learner with the right keys that says what a script has it say; what the owner replied is in `replies`."""

    def __init__(self, held: dict[str, Keys]) -> None:
        self.keys, self.link, self.replies = held["learner"], Link, list[Message]()

    def terms(self, phase: int, chosen: dict[str, Any], signed: Any = None, run: str = "run") -> PhaseTerms:
        signed = signed or (PILOT if phase == 1 else AGREED.chosen_run(chosen))
        content = phase_content(run, AGREED.fingerprint, phase, signed.fingerprint)
        return PhaseTerms.of(phase, chosen, self.keys.sign(content))

    def query(self, terms: Any, identity: str, θ: Any) -> Query:
        query = Query(identity, terms.fingerprint, NAMES[0], np.array(θ, dtype=np.float64))
        return signed_query(self.keys, "run", query)

    async def ask(self, *messages: Message) -> Message:
        for message in messages:
            await self.link.send(encode(message))
        self.replies.append(decode(await self.link.receive()))
        return self.replies[-1]


def served(folder: Path, held: dict[str, Keys], script: Callable[[Liar], Any]) -> Liar:
    """One owner and a learner that does what the script says; raises what ends the owner."""
    network, liar = MemoryNetwork(), Liar(held)

    async def learner(link: Link) -> None:
        hello = decode(await link.receive())
        assert isinstance(hello, Hello)
        await link.send(encode(welcome(liar.keys, hello)))
        liar.link = link
        await script(liar)
        await link.send(encode(Finished("enough")))

    async def both() -> None:
        async with network.listening(learner):
            with opened(folder / "ledger", NAMES[0], Fraction(1)) as file:
                agent = OwnerAgent(
                    AGREED, NAMES[0], records(0), Squared(), file, network.dialer(NAMES[0]), keys=held[NAMES[0]],
                    patience=Patience(first=0.001, longest=0.002, give_up=5.0), times=ReleaseTime(1e-3),
                )  # fmt: skip
                await asyncio.wait_for(agent.serve(), 30)

    asyncio.run(both())
    return liar


PILOT_QUESTION = ("pilot", PILOT.agreement.start)


def spent(folder: Path) -> Fraction:
    return verify(folder / "ledger").spent


def values(key: str) -> list[Any]:
    """What a liar may put in the place of a term."""
    other = {
        "step": 11.0,
        "gradient_bound": 0.01,
        "start": [0.0, 1.5, 0.0],
        "preconditioner": np.diag([9, 1, 1]).tolist(),
    }
    kinds = [2, 0.7, "S1", True, [1.0], [[1.0]], {"a": 1}, None]
    sizes = [[0.1] * 7, [[1.0]], np.eye(2).tolist(), np.eye(7).tolist(), [[0.1]] * 3]
    return [other[key], "1.0", float("1e400"), None, *sizes] if key in other else kinds


KEYS = sorted({*Terms.model_fields, *ModelTerms.model_fields, *DataTerms.model_fields, "owner", "epsilon", "records"})


@pytest.mark.parametrize("key", KEYS)
def test_each_term_changed_alone_beyond_what_was_signed_is_refused(key: str, held: dict[str, Keys]) -> None:
    """The check itself, on every key of an agreement; an owner that meets one ends its process (below)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnerAgent, "_ledger_of", lambda *_: pytest.fail("the ledger was asked for"))
        agent = object.__new__(OwnerAgent)
        agent._agreement, agent._phases = AGREED, AGREED.phases_in_numbers()
        for value in values(key):
            chosen = {**CHOSEN, key: value}
            said = PhaseTerms(2, (json.dumps(chosen),), "signed")
            with pytest.raises(TermsRefused, match="not those that were agreed"):
                agent._begin(said, Welcome("run", "choose", 0.0, 0, "", "", ""))


@pytest.mark.parametrize(
    ("phase", "chosen", "signed", "run"),
    [
        (2, {**CHOSEN, "step": 11.0}, RUN, "run"),  # out of its range
        (2, {**CHOSEN, "answers": 30}, RUN, "run"),
        (2, {**CHOSEN, "mechanism": "gaussian"}, RUN, "run"),
        (2, OTHER, RUN, "run"),  # within, and not what the signature is of
        (2, CHOSEN, RUN, "another run"),
        (1, {"gradient_bound": 2.0}, PILOT, "run"),
        (0, {}, PILOT, "run"),
        (3, CHOSEN, RUN, "run"),
    ],
)
def test_terms_that_were_not_signed_end_the_owner_before_a_record_is_read(
    tmp_path: Path, held: dict[str, Keys], reads: list[str], phase: int, chosen: dict[str, Any], signed: Any, run: str
) -> None:
    async def script(liar: Liar) -> None:
        reply = await liar.ask(liar.terms(phase, chosen, signed, run), liar.query(RUN, "q", RUN.agreement.start))
        assert isinstance(reply, Refusal)
        assert reply.code == "policy"

    with pytest.raises(TermsRefused):
        served(tmp_path, held, script)
    assert (reads, spent(tmp_path)) == ([], 0)


def test_a_query_before_the_terms_of_its_phase_is_refused(
    tmp_path: Path, held: dict[str, Keys], reads: list[str]
) -> None:
    async def script(liar: Liar) -> None:
        assert (await liar.ask(liar.query(PILOT, *PILOT_QUESTION))).code == "query"
        assert (await liar.ask(liar.query(AGREED, *PILOT_QUESTION))).code == "query"

    served(tmp_path, held, script)
    assert (reads, spent(tmp_path)) == ([], 0)


def test_a_second_pilot_and_the_same_one_at_another_point(
    tmp_path: Path, held: dict[str, Keys], reads: list[str]
) -> None:
    async def script(liar: Liar) -> None:
        first = await liar.ask(liar.terms(1, {}), liar.query(PILOT, *PILOT_QUESTION))
        assert isinstance(first, Answer)
        assert (await liar.ask(liar.query(PILOT, "again", PILOT.agreement.start))).code == "budget"
        for identity in ("pilot", "again"):
            assert (await liar.ask(liar.query(PILOT, identity, [0.0, 0.0, 0.0]))).code == "query"
        same = await liar.ask(liar.query(PILOT, *PILOT_QUESTION))
        assert same.gradient.tobytes() == first.gradient.tobytes()

    served(tmp_path, held, script)
    assert (len(reads), spent(tmp_path)) == (1, Fraction(1, 4))


def test_the_run_before_the_pilot(tmp_path: Path, held: dict[str, Keys], reads: list[str]) -> None:
    async def script(liar: Liar) -> None:
        assert (await liar.ask(liar.terms(2, CHOSEN), liar.query(RUN, "q", RUN.agreement.start))).code == "budget"
        assert isinstance(await liar.ask(liar.terms(1, {}), liar.query(PILOT, *PILOT_QUESTION)), Answer)

    served(tmp_path, held, script)
    assert (len(reads), spent(tmp_path)) == (1, Fraction(1, 4))


def test_no_phase_begins_again_and_a_pilot_query_is_none_of_the_run(
    tmp_path: Path, held: dict[str, Keys], reads: list[str]
) -> None:
    async def script(liar: Liar) -> None:
        await liar.ask(liar.terms(1, {}), liar.query(PILOT, *PILOT_QUESTION))
        assert isinstance(await liar.ask(liar.terms(2, CHOSEN), liar.query(RUN, "q", RUN.agreement.start)), Answer)
        assert (await liar.ask(liar.query(PILOT, "p2", PILOT.agreement.start))).code == "query"
        assert (await liar.ask(liar.terms(1, {}), liar.query(PILOT, "p2", PILOT.agreement.start))).code == "budget"

    served(tmp_path, held, script)
    assert (len(reads), spent(tmp_path)) == (2, Fraction(1, 2))


@pytest.mark.parametrize("restart", [False, True])
def test_terms_signed_twice(tmp_path: Path, held: dict[str, Keys], reads: list[str], restart: bool) -> None:
    """In one process at once, and after a restart by the ledger, whose phase keeps the terms that it began with."""

    async def begins(liar: Liar) -> None:
        await liar.ask(liar.terms(1, {}), liar.query(PILOT, *PILOT_QUESTION))
        await liar.ask(liar.terms(2, CHOSEN), liar.query(RUN, "q", RUN.agreement.start))

    async def lies(liar: Liar) -> None:
        if not restart:
            await begins(liar)
        other = AGREED.chosen_run(OTHER)
        reply = await liar.ask(liar.terms(2, OTHER), liar.query(other, "other", other.agreement.start))
        assert reply.code == ("budget" if restart else "policy")

    if restart:
        served(tmp_path, held, begins)
        served(tmp_path, held, lies)
    else:
        with pytest.raises(TermsRefused):
            served(tmp_path, held, lies)
    assert (len(reads), spent(tmp_path)) == (2, Fraction(1, 2))


# What the run's file shows ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("run")
    conducted(folder, AGREED, goes_on(), "grpc")
    return (folder / "run.db").read_bytes()


def rewritten(path: Path, change: Callable[[int, str, dict[str, Any]], Any]) -> None:
    """Lines changed, and the chain of hashes made anew; a changed line that is None is left out, a list stands for several."""
    with closing(sqlite3.connect(path)) as connection:
        old = connection.execute("SELECT * FROM events ORDER BY number").fetchall()
        connection.execute("DELETE FROM events")
        head, number = START, 0
        for k, at, kind, text, _, raw in old:
            said = change(k, kind, json.loads(text))
            for one in said if isinstance(said, list) else [said]:
                if one is None:
                    continue
                number, text = number + 1, json.dumps(one)
                head = line_hash(head, number, at, kind, text)
                connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (number, at, kind, text, head, raw))
        connection.commit()


def second(said: dict[str, Any]) -> bool:
    return said.get("phase") == 2


LIES: dict[str, tuple[Callable[[int, str, dict[str, Any]], Any], str]] = {
    "terms out of range": (
        lambda _, kind, said: said | {"chosen": {**CHOSEN, "step": 99.0}} if second(said) else said,
        "terms that were not agreed",
    ),
    "terms that were not signed": (
        lambda _, kind, said: said | {"chosen": OTHER} if second(said) else said,
        "not what the learner signed",
    ),
    "nothing of what the pilot told": (
        lambda _, kind, said: said | {"known": {}} if second(said) else said,
        "does not say what the pilot told",
    ),
    "what the pilot told in part": (
        lambda _, kind, said: said | {"known": {"public": ""}} if second(said) else said,
        "does not say what the pilot told",
    ),
    "a phase twice": (lambda _, kind, said: [said, said] if second(said) else said, "a phase begins once"),
    "no pilot": (
        lambda k, kind, said: None if k == 1 else said,
        "begins with its first phase|a run begins with the line",
    ),
    "terms of the pilot": (
        lambda k, kind, said: said | {"chosen": {"step": 1.0}} if k == 1 else said,
        "terms of the pilot are agreed",
    ),
}


def test_an_honest_run_of_two_phases_verifies(honest: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(honest)
    rewritten(path, lambda _, kind, said: said)  # the way to lie changes nothing by itself
    assert verify_run(path, AGREED).ok


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_in_the_file(honest: bytes, tmp_path: Path, lie: str) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(honest)
    change, said = LIES[lie]
    rewritten(path, change)
    verdict = verify_run(path, AGREED)
    assert not verdict.ok
    assert any(re.search(said, one.what) for one in verdict.problems), verdict.problems


def test_a_budget_that_is_kept_for_no_said_reason_does_not_verify(tmp_path: Path) -> None:
    conducted(tmp_path, AGREED, keep, "grpc")
    path = tmp_path / "run.db"
    assert verify_run(path, AGREED).ok
    rewritten(path, lambda _, kind, said: said | {"known": {}} if kind == "kept" else said)
    assert any("does not say what the pilot told" in one.what for one in verify_run(path, AGREED).problems)


def test_public_rows_chosen_after_the_pilot_do_not_verify(tmp_path: Path) -> None:
    """Their hash is signed before it, so that the learner cannot look for rows by which its terms follow."""
    terms = AGREED.agreement.pilot_terms
    assert terms is not None
    agreed = AGREED.replace(agreement={"pilot_terms": {**terms.model_dump(exclude_none=True), "public": "a" * 64}})
    for public, chosen in (("a" * 64, CHOSEN), ("b" * 64, CHOSEN), ("", None)):
        folder = tmp_path / f"by {public[:1]}"
        folder.mkdir()
        conducted(
            folder, agreed, lambda run, to=chosen, by=public: Decision(to, "why", {**KNOWN, "public": by}), "grpc"
        )
        verdict = verify_run(folder / "run.db", agreed)
        assert verdict.ok == (public == "a" * 64)
        assert verdict.ok or "other public rows than those that were signed" in verdict.problems[0].what


def test_other_terms_shown_to_one_owner_do_not_verify(tmp_path: Path) -> None:
    """Its answers are signed with the fingerprint of the terms that it was shown."""
    shown = AGREED.chosen_run(OTHER)
    joined, answered = Conductor.follow, Conductor.answered
    with pytest.MonkeyPatch.context() as patch:

        def follow(self: Conductor, decision: Any, now: float, here: Any) -> None:
            joined(self, decision, now, here)
            content = phase_content(self.store.run, AGREED.fingerprint, 2, shown.fingerprint)
            other = PhaseTerms.of(2, OTHER, self._keys.sign(content))
            for k, (name, message) in enumerate(self._outbox):
                if name == NAMES[0] and isinstance(message, PhaseTerms):
                    self._outbox[k] = (name, other)
                elif name == NAMES[0] and isinstance(message, Query):
                    said = replace(message, fingerprint=shown.fingerprint, signature="")
                    self._outbox[k] = (name, signed_query(self._keys, self.store.run, said))

        def take(self: Conductor, answer: Answer, now: float) -> bool:
            if answer.owner == NAMES[0] and self.run.phase == 2:
                answer = replace(answer, fingerprint=self.agreement.fingerprint)
            return answered(self, answer, now)

        patch.setattr(Conductor, "follow", follow)
        patch.setattr(Conductor, "answered", take)
        patch.setattr(Conductor, "_unsigned", lambda *_: "")
        conducted(tmp_path, AGREED, goes_on(), "grpc")
    verdict = verify_run(tmp_path / "run.db", AGREED)
    assert any("it is not what bank-1 signed" in one.what for one in verdict.problems), verdict.problems


def test_the_check_of_terms_knows_every_key_that_a_plan_may_choose() -> None:
    assert set(RANGED) <= set(KEYS)
