"""Owners make their own keys: whoever has the authority's key cannot make a run that verifies without them."""

import asyncio
import json
import multiprocessing
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from copriv.agreement import Agreement
from copriv.cli import run as copriv
from copriv.cli.commands.data import _Findings
from copriv.errors import AgreementError
from copriv.losses import Squared
from copriv.network.agent import OwnerAgent
from copriv.network.grpc_transport import GrpcDialer, GrpcListener
from copriv.network.keys import (
    Certified,
    Keys,
    KeysRefused,
    issue,
    key_fingerprint,
    make_authority,
    make_key,
    read_request,
)
from copriv.network.learner import Learner
from copriv.network.messages import Hello, Refusal, Welcome, decode, encode, welcome_content
from copriv.network.run_state import Conductor
from copriv.network.setup import make_consortium, renew_certificates
from copriv.network.store import RunStore
from copriv.network.transport import Link
from copriv.network.verify import Verdict, verify_run
from copriv.privacy.ledger.disk import InUse
from memory_network import MemoryNetwork
from network_parties import NAMES, MemoryLedgers, agreement, records
from signed_run import signed_run

Held = dict[str, Keys]


@pytest.fixture
def parties(tmp_path: Path) -> tuple[Agreement, Held, Path]:
    """An agreement that names the keys which owners made, the parties' keys, and the coordinator's folder."""
    for name in NAMES:
        make_key(tmp_path / name, name)
    draft = agreement("A1", horizon=8, answers=4).replace(data={"dataset": "lending-embedded", "public_rows": 50})
    requests = [tmp_path / name / "request.pem" for name in NAMES]
    made = make_consortium(draft, tmp_path / "made", requests=requests)
    for name in NAMES:
        assert not (tmp_path / "made" / name / "key.pem").exists(), "no secret of an owner is anywhere else"
        shutil.copytree(tmp_path / "made" / name, tmp_path / name, dirs_exist_ok=True)
    held = {name: Keys.load(tmp_path / name) for name in NAMES} | {"learner": Keys.load(tmp_path / "made" / "learner")}
    return made.agreement, held, tmp_path / "made"


def forged(made: Path, held: Held, *names: str) -> Held:
    """What the coordinator can make: certificates of the same authority under these names, for other keys."""
    for name in names:
        issue(made / "authority", made / f"forged {name}", name, "learner" if name == "learner" else "owner")
    return held | {name: Keys.load(made / f"forged {name}") for name in names}


def check(path: Path, agreed: Agreement, held: Held) -> Verdict:
    return verify_run(path, agreed, held["bank-1"].authority)


@pytest.mark.parametrize("name", ["Bank-2", "Authority", "LEARNER", "Agreement.toml", "dictionary.json", "BANK/2"])
def test_owners_whose_folders_would_be_one_where_capitals_do_not_count_are_refused(tmp_path: Path, name: str) -> None:
    """An owner called Authority would be sent the authority's key; one called agreement.toml ended in a traceback."""
    owners = [{"name": one, "records": 50, "epsilon": 1.0} for one in (name, "bank-2")]
    draft = agreement().replace(data={"dataset": "lending-embedded", "public_rows": 50}, owner=owners)
    with pytest.raises(AgreementError, match="give one folder"):
        make_consortium(draft, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_folders_that_a_disk_takes_for_one_are_refused(tmp_path: Path) -> None:
    """In Korean a syllable and its letters are the same text; NFC made these two names one but for their capitals."""
    owners = [{"name": one, "records": 50, "epsilon": 1.0} for one in ("\uac00A", "\u1100\u1161a")]
    draft = agreement().replace(data={"dataset": "lending-embedded", "public_rows": 50}, owner=owners)
    with pytest.raises(AgreementError, match="give one folder"):
        make_consortium(draft, tmp_path / "made")


def test_a_run_of_owners_that_made_their_own_keys_verifies(
    tmp_path: Path, parties: tuple[Agreement, Held, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    agreed, held, made = parties
    path, *_ = signed_run(tmp_path, agreed, held=held)
    assert check(path, agreed, held).problems == ()
    said = ["verify", str(path), "--agreement", str(made / "agreement.toml"), "--keys", str(tmp_path / "bank-1")]
    assert copriv([*said, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["from_elsewhere"] == {"agreement": True, "authority": True, "keys": True}
    assert copriv(said) == 0
    assert "answered in their names" not in capsys.readouterr().out


@pytest.mark.parametrize("names", [NAMES, (*NAMES, "learner"), ("bank-2",), ("learner",)], ids="+".join)
def test_a_coordinator_that_forges_a_run_with_other_keys_is_found_out(
    tmp_path: Path, parties: tuple[Agreement, Held, Path], capsys: pytest.CaptureFixture[str], names: tuple[str, ...]
) -> None:
    agreed, held, made = parties
    path, *_ = signed_run(tmp_path, agreed, held=forged(made, held, *names))
    verdict = check(path, agreed, held)
    found = "; ".join(map(str, verdict.problems))
    # A check ends at the first line if that has no learner to go on with.
    for name in ("the learner",) if "learner" in names else names:
        assert f"the certificate of {name} is for another key" in found
    for reader in ("--keys", "--authority"):  # an owner, or anybody with the agreement and the authority's certificate
        trusted = tmp_path / "bank-1" if reader == "--keys" else tmp_path / "bank-1" / "ca.pem"
        assert copriv(["verify", str(path), "--agreement", str(made / "agreement.toml"), reader, str(trusted)]) == 3
    assert copriv(["verify", str(path), "--agreement", str(made / "agreement.toml")]) == 3
    assert "another key" in capsys.readouterr().out


def test_an_agreement_with_other_keys_is_another_agreement(
    tmp_path: Path, parties: tuple[Agreement, Held, Path]
) -> None:
    agreed, held, made = parties
    others = forged(made, held, *NAMES)
    for key in ("named", "left out"):
        owners = [
            {k: v for k, v in one.model_dump(exclude_none=True).items() if k != "key"}
            | ({"key": others[one.name].party.key_fingerprint} if key == "named" else {})
            for one in agreed.owner
        ]
        changed = agreed.replace(owner=owners)
        folder = tmp_path / key
        folder.mkdir()
        path, *_ = signed_run(folder, changed, held=others)
        assert verify_run(path).ok, "by itself it is whole"
        assert "another agreement than the one given" in str(check(path, agreed, held).problems[0])
        with pytest.raises(KeysRefused, match="names another key" if key == "named" else "does not name the key"):
            owner(changed, held["bank-1"])


def owner(agreed: Agreement, own: Keys) -> OwnerAgent:
    dialer = MemoryNetwork().dialer(own.name)
    return OwnerAgent(agreed, own.name, records(0), Squared(), MemoryLedgers(own.name), dialer, keys=own)


def test_whoever_made_all_keys_can_make_a_run_that_verifies_and_verify_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For trying things out. It is why owners make their own keys, and what the page on security says of it."""
    path, agreed, _ = signed_run(tmp_path)
    assert agreed.owner_keys == {}
    assert verify_run(path, agreed).ok
    (tmp_path / "agreed.toml").write_text(agreed.to_toml())
    said = ["verify", str(path), "--agreement", str(tmp_path / "agreed.toml"), "--keys", str(tmp_path / "bank-1")]
    assert copriv(said) == 0
    assert "does not name the keys of 3 of its owners" in " ".join(capsys.readouterr().out.split())
    assert copriv([*said, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["from_elsewhere"]["keys"] is False


def test_an_owner_answers_no_learner_of_another_key(parties: tuple[Agreement, Held, Path]) -> None:
    agreed, held, made = parties
    agent, hello = owner(agreed, held["bank-1"]), Hello("bank-1", agreed.fingerprint, "", 3, "nonce")
    for learner, why in ((held["learner"], ""), (forged(made, held, "learner")["learner"], "another key")):
        signature = learner.sign(welcome_content(hello, "run"))
        welcome = Welcome("run", "choose", 0.0, 0, "", learner.certificate.decode(), signature)
        if not why:
            agent._check_certificate(hello, welcome)
            continue
        with pytest.raises(KeysRefused, match=why):
            agent._check_certificate(hello, welcome)


@pytest.mark.parametrize("shows", ["its own certificate", "the owner's"])
def test_a_learner_lets_no_owner_of_another_key_in(parties: tuple[Agreement, Held, Path], shows: str) -> None:
    agreed, held, made = parties
    other = forged(made, held, "bank-2")["bank-2"]

    async def said(dials: Keys, certificate: bytes) -> str:
        store, listening = RunStore.create(":memory:", agreed, 3), asyncio.get_running_loop().create_future()
        conductor = Conductor(store, None, asyncio.get_running_loop().time(), held["learner"])
        listener = GrpcListener("127.0.0.1:0", held["learner"])
        learner = Learner(conductor, listener, keys=held["learner"], on_listening=listening.set_result)
        running = asyncio.ensure_future(learner.run())
        link = await GrpcDialer(await listening, dials).dial()
        await link.send(encode(Hello("bank-2", agreed.fingerprint, "", 3, "nonce", certificate.decode())))
        reply = decode(await link.receive())
        await link.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        store.close()
        return reply.reason if isinstance(reply, Refusal) else ""

    assert asyncio.run(said(held["bank-2"], held["bank-2"].certificate)) == ""
    shown = other if shows == "its own certificate" else held["bank-2"]
    assert "is not that of 'bank-2'" in asyncio.run(said(other, shown.certificate))


def test_a_learner_of_another_key_does_not_begin(parties: tuple[Agreement, Held, Path]) -> None:
    agreed, held, made = parties
    store = RunStore.create(":memory:", agreed, 3)
    with pytest.raises(KeysRefused, match="names another key"):
        Learner(
            Conductor(store, None, 0.0, held["learner"]), MemoryNetwork(), keys=forged(made, held, "learner")["learner"]
        )
    store.close()


def test_a_renewed_certificate_of_the_same_key_is_taken(tmp_path: Path, parties: tuple[Agreement, Held, Path]) -> None:
    from copriv.network.keys import certify

    agreed, held, made = parties
    certify(made / "authority", tmp_path / "bank-1", *read_request(tmp_path / "bank-1" / "request.pem"), days=30)
    renewed = Keys.load(tmp_path / "bank-1")
    assert renewed.party.fingerprint != held["bank-1"].party.fingerprint
    path, *_ = signed_run(tmp_path, agreed, held=held | {"bank-1": renewed})
    assert check(path, agreed, held).ok


# Requests ---------------------------------------------------------------------------------------------------------------


def test_a_request_holds_no_secret_and_a_key_is_never_replaced(tmp_path: Path) -> None:
    key = make_key(tmp_path / "bank-1", "bank-1")
    assert (tmp_path / "bank-1" / "key.pem").stat().st_mode & 0o077 == 0
    assert "PRIVATE" not in (tmp_path / "bank-1" / "request.pem").read_text()
    with pytest.raises(KeysRefused, match="already holds a key"):
        make_key(tmp_path / "bank-1", "bank-1")
    assert len(key) == 64


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o666])
def test_a_key_that_other_accounts_can_read_is_refused(parties: tuple[Agreement, Held, Path], mode: int) -> None:
    key = parties[2].parent / "bank-1" / "key.pem"
    key.chmod(mode)
    with pytest.raises(KeysRefused, match=rf"chmod 600 {key}"):
        Keys.load(key.parent)
    key.chmod(0o600)
    Keys.load(key.parent)


def test_a_folder_of_keys_that_everybody_may_write_to_is_refused(parties: tuple[Agreement, Held, Path]) -> None:
    """Who may write to it puts another key there, or takes the list of ledgers away."""
    folder = parties[2].parent / "bank-1"
    mode = folder.stat().st_mode
    folder.chmod(0o777)
    with pytest.raises(KeysRefused, match=rf"chmod o-w {folder}"):
        Keys.load(folder)
    folder.chmod(mode)
    Keys.load(folder)


def test_wherever_making_a_key_is_killed_the_same_command_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the key and its request left a key that no command would take."""

    class Killed(BaseException):
        pass

    def strike(path: Path, *_: object) -> int:
        raise Killed

    for name in ("touch", "write_bytes", "replace"):
        for which in ("key.pem", "own-key.txt", "request.pem"):
            folder, work = tmp_path / f"{name} {which}", getattr(Path, name)

            def struck(path: Path, *given: Any, work: Any = work, which: str = which, **more: Any) -> Any:
                return strike(path) if path.name.startswith(which) else work(path, *given, **more)

            with monkeypatch.context() as patched:
                patched.setattr(Path, name, struck)
                with pytest.raises(Killed):
                    make_key(folder, "bank-1")
            written = [each.read_bytes() for each in folder.glob("key.pem")]
            assert make_key(folder, "bank-1") == key_fingerprint(read_request(folder / "request.pem")[1])
            assert [(folder / "key.pem").read_bytes()][: len(written)] == written, "a key that was made stays"
            assert sorted(each.name for each in folder.iterdir()) == [
                "key.pem",
                "key.pem.lock",
                "own-key.txt",
                "request.pem",
            ]
            assert (folder / "key.pem").stat().st_mode & 0o077 == 0
            with pytest.raises(KeysRefused, match="already holds a key"):
                make_key(folder, "bank-1")


def _makes(folder: Path, begin: Any, said: Any) -> None:
    begin.wait()
    try:
        said.put(make_key(folder, "bank-1"))
    except (KeysRefused, InUse) as refused:
        said.put(type(refused).__name__)


def test_two_who_make_a_key_at_once_make_one(tmp_path: Path) -> None:
    """In 6 of 40 pairs request.pem named a key that the other one had written over."""
    context = multiprocessing.get_context("fork")
    for pair in range(10):
        folder, begin, said = tmp_path / str(pair), context.Barrier(2), context.Queue()
        both = [context.Process(target=_makes, args=(folder, begin, said)) for _ in range(2)]
        for each in both:
            each.start()
        answers = {said.get(timeout=60) for _ in both}
        for each in both:
            each.join(60)
        made = key_fingerprint(read_request(folder / "request.pem")[1])
        key = serialization.load_pem_private_key((folder / "key.pem").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        assert made == key_fingerprint(key)
        assert f"{made}\n" == (folder / "own-key.txt").read_text()
        assert answers - {"KeysRefused", "InUse"} == {made}
        assert len(answers) == 2, "both claim to have made it"


def test_a_key_that_came_with_its_certificate_becomes_nobodys_own(tmp_path: Path) -> None:
    """A request beside it would say that the party had made it."""
    make_consortium(agreement().replace(data={"dataset": "lending-embedded", "public_rows": 50}), tmp_path / "made")
    with pytest.raises(KeysRefused, match="already holds a key"):
        make_key(tmp_path / "made" / "bank-1", "bank-1")
    assert not Keys.load(tmp_path / "made" / "bank-1").own


def test_a_secret_key_that_came_without_a_certificate_becomes_nobodys_own(tmp_path: Path) -> None:
    """It looked as if a kill had left it, and whoever sent it could have signed in the party's name."""
    made_elsewhere = tmp_path / "coordinator"
    make_key(made_elsewhere, "bank-1")
    for mark in (None, b"", b"ab" * 32 + b"\n"):
        folder = tmp_path / f"own {mark!r:.5}"
        folder.mkdir()
        (folder / "key.pem").write_bytes((made_elsewhere / "key.pem").read_bytes())
        if mark is not None:
            (folder / "own-key.txt").write_bytes(mark)
        before = sorted(each.name for each in folder.iterdir())
        with pytest.raises(KeysRefused, match="already holds a key; move it away"):
            make_key(folder, "bank-1")
        assert sorted({each.name for each in folder.iterdir()} - {"key.pem.lock"}) == before


def test_a_request_that_cannot_be_taken_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    draft = agreement().replace(data={"dataset": "lending-embedded", "public_rows": 50})
    make_key(tmp_path / "a", "bank-1")
    make_key(tmp_path / "b", "bank-1")
    make_key(tmp_path / "c", "somebody")
    (tmp_path / "damaged.pem").write_text((tmp_path / "a" / "request.pem").read_text().replace("A", "B"))
    (tmp_path / "none.pem").write_text("no request")
    for files, why in (
        (["a/request.pem", "b/request.pem"], "is a second request of 'bank-1'"),
        (["c/request.pem"], "who is no owner in the agreement"),
        (["damaged.pem"], "is no signing request"),
        (["none.pem"], "is no signing request"),
        (["nowhere.pem"], "cannot be read"),
    ):
        with pytest.raises(KeysRefused, match=why):
            make_consortium(draft, tmp_path / "made", requests=[tmp_path / file for file in files])
        assert not (tmp_path / "made").exists()
    named = draft.replace(owner=[*({**o.model_dump(exclude_none=True), "key": "ab" * 32} for o in draft.owner)])
    with pytest.raises(KeysRefused, match="give the request that was made with it"):
        make_consortium(named, tmp_path / "made", requests=[tmp_path / "a" / "request.pem"])


def test_one_of_many_owners_that_are_alike_may_have_a_key_of_its_own(tmp_path: Path) -> None:
    draft = agreement().replace(
        data={"dataset": "lending-embedded", "public_rows": 50},
        owner=[{"name": "branch", "count": 3, "records": 200, "epsilon": 1.0}],
    )
    key = make_key(tmp_path / "own", "branch 2")
    made = make_consortium(draft, tmp_path / "made", requests=[tmp_path / "own" / "request.pem"])
    assert made.agreement.owner_keys == {"branch 2": key}
    assert made.agreement.owner_names == draft.owner_names
    with pytest.raises(AgreementError, match="is that of one owner"):
        draft.replace(owner={"key": key})


def test_a_learner_may_make_its_key_itself_too(tmp_path: Path) -> None:
    draft = agreement().replace(data={"dataset": "lending-embedded", "public_rows": 50})
    key = make_key(tmp_path / "learner", "learner")
    made = make_consortium(draft, tmp_path / "made", requests=[tmp_path / "learner" / "request.pem"])
    assert (made.agreement.agreement.learner_key, made.agreement.owner_keys) == (key, {})
    assert not (tmp_path / "made" / "learner" / "key.pem").exists()
    shutil.copytree(tmp_path / "made" / "learner", tmp_path / "learner", dirs_exist_ok=True)
    held = Keys.load(tmp_path / "learner")
    assert (held.party.role, held.party.fingerprint in (tmp_path / "made" / "bank-1" / "policy.toml").read_text()) == (
        "learner",
        True,
    )


def test_data_check_says_so_before_the_day_of_the_run(parties: tuple[Agreement, Held, Path]) -> None:
    agreed, _, made = parties
    folder = made.parent / "bank-1"
    named = _Findings(agreed)
    named.check_readiness("bank-1", folder, None, None, None)
    assert named.problems == []
    unnamed = _Findings(
        agreed.replace(owner=[{**one.model_dump(exclude_none=True), "key": None} for one in agreed.owner])
    )
    unnamed.check_readiness("bank-1", folder, None, None, None)
    problem, *_ = unnamed.problems
    assert "the agreement does not name the key that this party made" in problem


def test_a_key_is_its_owners_own_without_its_request(parties: tuple[Agreement, Held, Path]) -> None:
    """The request is sent to the coordinator, and may be moved."""
    agreed, held, made = parties
    own = made.parent / "bank-1"
    (own / "request.pem").unlink()
    unnamed = agreed.replace(owner=[{**one.model_dump(exclude_none=True), "key": None} for one in agreed.owner])
    with pytest.raises(KeysRefused, match="does not name the key that this party made"):
        Keys.load(own).check_agreed(unnamed.owner_keys.get("bank-1"))
    Keys.load(own).check_agreed(agreed.owner_keys["bank-1"])
    forged(made, held, "bank-1")
    for name in ("key.pem", "certificate.pem"):
        shutil.copy(made / "forged bank-1" / name, own / name)
    with pytest.raises(KeysRefused, match="take a secret key from nobody"):
        Keys.load(own)


def test_a_folder_whose_record_of_its_key_is_damaged_is_refused(parties: tuple[Agreement, Held, Path]) -> None:
    own = parties[2].parent / "bank-1"
    for content in (b"", b"none", b"\xff"):
        (own / "own-key.txt").write_bytes(content)
        with pytest.raises(KeysRefused, match="take a secret key from nobody"):
            Keys.load(own)


def test_a_secret_key_that_somebody_else_put_there_is_refused(tmp_path: Path) -> None:
    """The coordinator's folder might hold a key as well, and be copied over the owner's own."""
    agreed, made = agreement(), tmp_path / "made"
    make_key(tmp_path / "bank-1", "bank-1")
    draft = agreed.replace(data={"dataset": "lending-embedded", "public_rows": 50})
    make_consortium(draft, made)
    shutil.copytree(made / "bank-1", tmp_path / "bank-1", dirs_exist_ok=True)
    with pytest.raises(KeysRefused, match="take a secret key from nobody"):
        Keys.load(tmp_path / "bank-1")


def test_the_commands_of_owner_and_coordinator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draft = agreement().replace(data={"dataset": "lending-embedded", "public_rows": 50})
    (tmp_path / "agreed.toml").write_text(draft.to_toml())
    requests = []
    for name in NAMES[:2]:
        assert copriv(["owner", "keys", str(tmp_path / "at" / name), "--name", name, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["schema"], said["name"]) == ("copriv.owner-keys/1", name)
        requests += ["--request", said["request"]]
    assert copriv(["init", "--network", str(tmp_path / "agreed.toml"), str(tmp_path / "made"), *requests]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The agreement names the keys that 2 of 3 owners made" in shown
    assert "The secret keys of 1 owners were made here" in shown
    made = Agreement.load(tmp_path / "made" / "agreement.toml")
    assert made.fingerprint in shown
    assert list(made.owner_keys) == list(NAMES[:2])
    certificate = (tmp_path / "made" / "bank-1" / "certificate.pem").read_text()
    named = Certified.by((tmp_path / "made" / "authority" / "ca.pem").read_bytes(), certificate)
    assert named.key_fingerprint == made.owner_keys["bank-1"]
    assert copriv(["init", str(tmp_path / "other.toml"), "--request", "x"]) == 2


@pytest.mark.parametrize("first", ["bank-1", "learner"])
def test_renewed_certificates_and_the_old_ones_are_valid_at_once(
    tmp_path: Path, parties: tuple[Agreement, Held, Path], first: str
) -> None:
    """Whoever takes the new files first meets parties with the old ones, over TLS and in the run's file."""
    agreed, held, made = parties
    renewed = renew_certificates(made, days=400)
    assert set(renewed) == {"learner", *NAMES}
    folder = made / "learner"
    if first != "learner":
        folder = shutil.copytree(made / first, tmp_path / first, dirs_exist_ok=True)
    new = Keys.load(folder)
    assert new.party.key_fingerprint == held[first].party.key_fingerprint
    assert new.party.fingerprint == renewed[first] != held[first].party.fingerprint
    assert new.ends > held[first].ends
    mixed = held | {first: new}

    async def greet() -> bytes:
        async def serve(link: Link) -> None:
            await link.send(link.peer.encode())
            await link.receive()

        async with GrpcListener("127.0.0.1:0", mixed["learner"]).listening(serve) as address:
            link = await GrpcDialer(address, mixed["bank-1"]).dial()
            try:
                return await link.receive()
            finally:
                await link.close()

    assert asyncio.run(greet()) == b"bank-1"
    path, *_ = signed_run(tmp_path, agreed, held=mixed)
    for one in (held[first], new):
        assert verify_run(path, agreed, one.authority).problems == ()


def test_only_a_consortium_s_own_certificates_are_renewed(
    tmp_path: Path, parties: tuple[Agreement, Held, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    *_, made = parties
    assert copriv(["init", str(made), "--renew", "--days", "30"]) == 0
    assert copriv(["init", str(made), "--renew", "--template"]) == 2
    assert copriv(["init", str(tmp_path), "--renew"]) == 3
    assert "has no authority" in capsys.readouterr().err
    make_authority(tmp_path / "other", "other")
    issue(tmp_path / "other", made / "bank-9", "bank-9", "owner")
    before = (made / "authority" / "ca.pem").read_bytes()
    with pytest.raises(KeysRefused, match="not of this consortium's authority"):
        renew_certificates(made)
    assert (made / "authority" / "ca.pem").read_bytes() == before
