"""Who is let in, and with what reason everybody else is not."""

import asyncio
import base64
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from copriv.errors import Unreachable
from copriv.losses import Squared
from copriv.network.agent import LearnerRefused, OwnerAgent, Patience
from copriv.network.grpc_transport import METHOD, SERVICE, GrpcDialer, GrpcListener
from copriv.network.keys import Certified, Keys, KeysRefused, issue, make_authority
from copriv.network.messages import Hello, Ready, Refusal, Welcome, decode, encode, signed_query
from copriv.network.policy import Policy, PolicyRefused
from copriv.network.transport import Link
from copriv.privacy.ledger.read import verify
from copriv.privacy.release_time import ReleaseTime
from copriv.protocol import Answer, Query
from ledger_files import opened
from memory_network import MemoryNetwork
from network_parties import QUICK, Consortium, MemoryLedgers, agreement, keys, records, welcome
from unsigned import unsigned


@pytest.fixture
def held(tmp_path: Path) -> dict[str, Keys]:
    return keys(tmp_path)


async def silence(link: Link) -> None:
    await link.receive()


def refusal(learner: Keys, owner: Keys) -> str:
    """Why this owner cannot reach this learner."""

    async def attempt() -> None:
        async with GrpcListener("127.0.0.1:0", learner).listening(silence) as address:
            await (await GrpcDialer(address, owner).dial()).close()

    with pytest.raises((Unreachable, KeysRefused)) as caught:
        asyncio.run(asyncio.wait_for(attempt(), 20))
    return str(caught.value)


def test_the_right_keys_are_let_in(held: dict[str, Keys]) -> None:
    async def attempt() -> str:
        async with GrpcListener("127.0.0.1:0", held["learner"]).listening(silence) as address:
            link = await GrpcDialer(address, held["bank-1"]).dial()
            await link.close()
            return link.peer

    assert asyncio.run(attempt()) == "learner"
    assert (held["learner"].party.role, held["bank-1"].party.role, held["bank-1"].name) == (
        "learner",
        "owner",
        "bank-1",
    )


def test_foreign_keys_are_refused_by_either_side(held: dict[str, Keys], tmp_path: Path) -> None:
    foreign = keys(tmp_path / "elsewhere")
    assert "certificate" in refusal(foreign["learner"], held["bank-1"])
    # An owner that trusts this authority, and shows a certificate of another one.
    mixed = Keys(held["bank-1"].authority, foreign["bank-1"].certificate, foreign["bank-1"].key)
    assert "not of this consortium's authority" in refusal(held["learner"], mixed)


def test_the_learner_itself_refuses_what_an_owner_does_not_check(
    held: dict[str, Keys], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = keys(tmp_path / "elsewhere")
    mixed = Keys(held["bank-1"].authority, foreign["bank-1"].certificate, foreign["bank-1"].key)
    monkeypatch.setattr(Keys, "check", lambda self, now=None: None)
    assert "refused the certificate of bank-1" in refusal(held["learner"], mixed)


def test_expired_and_early_certificates_are_refused_with_their_dates(tmp_path: Path) -> None:
    make_authority(tmp_path / "authority", "test")
    old, early = datetime.now(UTC) - timedelta(days=9), datetime.now(UTC) + timedelta(days=9)
    for name, begins in (("old", old), ("early", early)):
        issue(tmp_path / "authority", tmp_path / name, name, "owner", days=1, begins=begins)
        with pytest.raises(KeysRefused, match="is valid from"):
            Keys.load(tmp_path / name)


def test_an_expired_certificate_is_refused_by_the_other_side(
    held: dict[str, Keys], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = datetime.now(UTC) - timedelta(days=9)
    for name, role in (("learner", "learner"), ("bank-1", "owner")):
        issue(tmp_path / "authority", tmp_path / "old" / name, name, role, days=1, begins=begins)  # type: ignore[arg-type]
    monkeypatch.setattr(Keys, "check", lambda self, now=None: None)
    old = {name: Keys.load(tmp_path / "old" / name) for name in ("learner", "bank-1")}
    assert "expired" in refusal(old["learner"], held["bank-1"])
    assert "refused the certificate of bank-1" in refusal(held["learner"], old["bank-1"])


@pytest.mark.parametrize("whose", ["learner", "bank-1"])
def test_a_certificate_that_expires_while_a_connection_is_open_ends_it_before_a_charge(
    held: dict[str, Keys], tmp_path: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network looks at certificates when a connection is made, and a run may last longer than they do."""
    issue(tmp_path / "authority", tmp_path / "short", whose, "learner" if whose == "learner" else "owner", days=1)
    parties, passed = held | {whose: Keys.load(tmp_path / "short")}, [timedelta(0)]
    agreed, answered = agreement(), list[bool]()

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + passed[0]

    monkeypatch.setattr("copriv.network.agent.datetime", Later)

    async def learner(link: Link) -> None:
        hello = decode(await link.receive())
        assert isinstance(hello, Hello)
        await link.send(encode(welcome(parties["learner"], hello)))
        with suppress(Unreachable):
            for number in range(2):
                query = Query(f"q{number}", agreed.fingerprint, "bank-1", np.zeros(3))
                await link.send(encode(signed_query(parties["learner"], "run", query)))
                while isinstance(reply := decode(await link.receive()), Ready):
                    pass
                answered.append(isinstance(reply, Answer))
                passed[0] = timedelta(days=2)

    async def session() -> None:
        network = MemoryNetwork()
        async with network.listening(learner):
            with opened(tmp_path / "ledger", "bank-1", Fraction(1)) as file:
                agent = OwnerAgent(
                    agreed, "bank-1", records(0), Squared(), file, network.dialer("bank-1"), keys=parties["bank-1"],
                    patience=Patience(first=0.05, longest=0.05, give_up=0.2), times=ReleaseTime(1e-3),
                )  # fmt: skip
                with pytest.raises((Unreachable, KeysRefused), match="valid"):
                    await asyncio.wait_for(agent.serve(), 20)

    asyncio.run(session())
    assert answered[0]
    assert not any(answered[1:])
    assert verify(tmp_path / "ledger").spent == Fraction(1, 4)


def test_an_owners_certificate_cannot_play_the_learner(held: dict[str, Keys], tmp_path: Path) -> None:
    assert "refused" in refusal(held["bank-2"], held["bank-1"])
    issue(tmp_path / "authority", tmp_path / "pretender", "learner", "owner")
    assert "refused" in refusal(Keys.load(tmp_path / "pretender"), held["bank-1"])


def test_plaintext_and_missing_keys_are_refused(held: dict[str, Keys], tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="plaintext is refused"):
        GrpcListener("127.0.0.1:0", None)
    with pytest.raises(Unreachable, match="plaintext is refused"):
        GrpcDialer("127.0.0.1:1", None)
    with pytest.raises(KeysRefused, match="ask the coordinator"):
        Keys.load(tmp_path / "nobody")

    async def plaintext() -> None:
        async with (
            GrpcListener("127.0.0.1:0", held["learner"]).listening(silence) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            stream = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
            await asyncio.wait_for(stream.write(b"x"), 10)

    with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError)):
        asyncio.run(plaintext())


def test_a_key_that_belongs_to_another_certificate_is_refused(held: dict[str, Keys]) -> None:
    swapped = Keys(held["bank-1"].authority, held["bank-1"].certificate, held["bank-2"].key)
    with pytest.raises(KeysRefused, match="does not belong"):
        swapped.check()


def test_an_authority_and_keys_are_never_overwritten(tmp_path: Path, held: dict[str, Keys]) -> None:
    with pytest.raises(KeysRefused, match="already"):
        make_authority(tmp_path / "authority", "test")
    with pytest.raises(KeysRefused, match="already"):
        issue(tmp_path / "authority", tmp_path / "bank-1", "bank-1", "owner")
    assert (tmp_path / "bank-1" / "key.pem").stat().st_mode & 0o077 == 0
    assert (tmp_path / "authority" / "ca-key.pem").stat().st_mode & 0o077 == 0


def test_another_agreement_is_refused_by_its_fingerprint(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, agreement())

    async def both() -> None:
        learner = asyncio.ensure_future(consortium.learn())
        while not consortium.address:
            await asyncio.sleep(0.01)
        consortium.agreed = agreement(epsilon=2.0)
        try:
            await consortium.own(0, ledgers=MemoryLedgers("bank-1"))
        finally:
            learner.cancel()
            await asyncio.gather(learner, return_exceptions=True)

    with pytest.raises(LearnerRefused, match="agreements differ"):
        asyncio.run(both())


def test_a_policy_may_name_the_learners_certificate(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, agreement(), "grpc")
    assert consortium.keys is not None
    right = consortium.keys["learner"].party.fingerprint

    async def both(certificate: str) -> str:
        learner = asyncio.ensure_future(consortium.learn())
        try:
            owner = consortium.own(0, policy=Policy(certificates=(certificate,)))
            return await asyncio.wait_for(owner, 3)
        finally:
            learner.cancel()
            await asyncio.gather(learner, return_exceptions=True)

    with pytest.raises(LearnerRefused, match="certificates"):
        asyncio.run(both("0" * 64))
    (tmp_path / "run.db").unlink()
    consortium.address = ""
    with pytest.raises(TimeoutError):  # let in: it waits for the other owners
        asyncio.run(both(right))


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Policy(losses=("logistic",)), "policy.losses: 'squared' is not allowed"),
        (Policy(rules=("S2",)), "policy.rules: 'A2'"),
        (Policy(features=("age",)), "policy.features: 'income'"),
        (Policy(agreements=("0" * 64,)), "policy.agreements"),
        (Policy(highest_epsilon=0.5), "takes epsilon 1 from bank-1, at most 0.5"),
        (Policy(lifetime_epsilon=0.5), "policy.lifetime_epsilon"),
        (Policy(least_records=1000), "no fewer than 1000"),
        (Policy(mechanisms=("objective",)), "policy.mechanisms: 'laplace'"),
    ],
)
def test_an_owners_policy_goes_before_the_agreement(policy: Policy, said: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyRefused) as caught:
        OwnerAgent(
            agreement(), "bank-1", records(0), Squared(), MemoryLedgers("bank-1"),
            Consortium(tmp_path, agreement()).dialer("bank-1"), keys=unsigned("bank-1"), policy=policy,
            columns=("income",), patience=QUICK,
        )  # fmt: skip
    assert said in str(caught.value)


def test_hours_may_go_over_midnight() -> None:
    def at(hour: int) -> datetime:
        return datetime(2030, 1, 1, hour)

    day, night = Policy(hours="08:00-18:00"), Policy(hours="22:00-06:00")
    assert [day.open_at(at(h)) for h in (7, 8, 17, 18)] == [False, True, True, False]
    assert [night.open_at(at(h)) for h in (21, 22, 5, 6)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a policy file has one table"),
        ("policy = 1", "a policy file has one table"),
        ("[policy]\nhighest_delta = 1", r"policy\.highest_delta: must be less than 1, not 1\.0; give 0"),
        ("[policy]\nhours = '8-18'", r"'8-18' is not from one time to another; write .* such as \"08:00-18:00\""),
        ("[policy]\nhours = '08:00-08:00'", "begins and ends at the same time; leave the key out to answer always"),
        ("[policy]\nhours = '22:00-24:00'", "is not from one time to another"),
        ("[policy]\nhighest_epsilon = nan", "must be a finite number, not nan; it is the most that one run"),
        ("[policy]\nlosss = ['x']", r"policy\.losss: not a key of the policy; did you mean losses\?"),
        ("[policy]\nhourss = 1\nrules = 'A2'", r"policy\.rules: must be a list, .*policy\.hourss: not a key"),
        ("[policy]\nzzzz = 1", "known are learner, certificates, .*, hours$"),
    ],
)
def test_a_policy_that_cannot_be_understood_is_refused_in_words(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(PolicyRefused, match=said) as refused:
        Policy.load(tmp_path / "policy.toml")
    assert "pattern" not in str(refused.value)
    assert "Input should" not in str(refused.value)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Policy(), ""),
        (Policy(highest_delta=1e-6, lifetime_delta=1e-6, highest_epsilon=1.0, lifetime_epsilon=1.0), ""),
        (
            Policy(highest_delta=1e-7),
            r"policy\.highest_delta: the agreement takes delta 1e-06 from bank-1, at most 1e-07",
        ),
        (Policy(lifetime_delta=1e-7), r"policy\.lifetime_delta"),
        # A policy that speaks of ε alone was written for pure ε.
        (Policy(highest_epsilon=1.0), r"policy\.highest_delta"),
        (Policy(lifetime_epsilon=5.0), r"policy\.lifetime_delta"),
    ],
)
def test_delta_is_allowed_by_name_only(policy: Policy, said: str) -> None:
    agreed = agreement(delta=1e-6).replace(agreement={"mechanism": "gaussian"})
    if said:
        with pytest.raises(PolicyRefused, match=said):
            policy.check(agreed, "bank-1", ())
    else:
        policy.check(agreed, "bank-1", ())
        assert policy.lifetime(agreed, "bank-1") == (1.0, 1e-6)


def test_a_learner_that_did_not_sign_is_told_so(held: dict[str, Keys]) -> None:
    """A reason that follows from certificates may be told: the other side has to put it right."""
    told: list[object] = []

    async def unsigned(link: Link) -> None:
        await link.receive()
        await link.send(encode(Welcome("run", "choose", 0.0, 0, "", "", "")))
        told.append(decode(await link.receive()))

    async def session() -> None:
        network = MemoryNetwork()
        async with network.listening(unsigned):
            agent = OwnerAgent(
                agreement(), "bank-1", records(0), Squared(), MemoryLedgers("bank-1"), network.dialer("bank-1"),
                policy=Policy(certificates=("0" * 64,)), keys=held["bank-1"],
            )  # fmt: skip
            with pytest.raises(KeysRefused):
                await asyncio.wait_for(agent.serve(), 5)
            await asyncio.sleep(0.1)

    asyncio.run(session())
    (refused,) = told
    assert isinstance(refused, Refusal)
    assert "did not sign" in refused.reason


@pytest.mark.parametrize("key", ["certificates", "agreements", "rules", "losses", "mechanisms", "features"])
def test_an_empty_list_in_a_policy_is_refused_not_taken_for_anything_goes(tmp_path: Path, key: str) -> None:
    (tmp_path / "policy.toml").write_text(f"[policy]\n{key} = []\n")
    with pytest.raises(PolicyRefused, match="leave the key out"):
        Policy.load(tmp_path / "policy.toml")


def strange(certificate: bytes, what: str) -> str:
    """A certificate that reads as one of ours until its signature, key or version is asked for."""
    raw = base64.b64decode(b"".join(certificate.splitlines()[1:-1]))
    signature, curve = bytes.fromhex("06082a8648ce3d0403"), bytes.fromhex("06082a8648ce3d030107")
    if what == "signed in an unknown way":
        raw = raw.replace(signature + b"\x02", signature + b"\x7f")
    elif what == "a key of an unknown curve":
        raw = raw.replace(curve, curve[:-1] + b"\x7f")
    elif what == "another version":
        raw = raw.replace(bytes.fromhex("a003020102"), bytes.fromhex("a003020107"), 1)
    return ssl.DER_cert_to_PEM_cert(raw)


@pytest.mark.parametrize("what", ["signed in an unknown way", "a key of an unknown curve", "another version"])
def test_a_strange_certificate_of_a_peer_is_refused_like_any_other(held: dict[str, Keys], what: str) -> None:
    """Each of them ended an owner, or `copriv verify`, with a traceback."""
    for name in ("bank-1", "learner"):
        made = strange(held[name].certificate, what)
        assert made != ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(held[name].certificate.decode()))
        with pytest.raises(KeysRefused, match="not of this consortium's authority"):
            Certified.by(held["learner"].authority, made)
        with suppress(KeysRefused):  # an authority that a run's file brings along is another's word too
            Certified.by(strange(held[name].authority, what).encode(), held[name].certificate.decode())
