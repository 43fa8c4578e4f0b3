"""Owners and learner launched by a real Flower: SuperLink and three SuperNodes on loopback, as docs/how-to says.

Flower lives in an environment of its own: COPRIV_FLOWER_PYTHON is an interpreter that has copriv[flower]. The part that
decides what an owner does with a message needs no Flower, and is tested without it.
"""

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from copriv.agreement import Agreement
from copriv.errors import AgreementError, UsageError
from copriv.network.flower_app import _replies, learner_command, owner_command, serve
from copriv.network.keys import make_key
from copriv.network.policy import PolicyRefused
from copriv.network.setup import make_consortium, share_out
from copriv.privacy.ledger.read import verify

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "run-with-flower.md"
PYTHON = os.environ.get("COPRIV_FLOWER_PYTHON") or (sys.executable if importlib.util.find_spec("flwr") else None)
BANKS = ("bank-1", "bank-2", "bank-3")


def lending(answers: int = 4) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 12, "answers": answers, "step": 10000.0},
            "model": {"loss": "squared", "regularization": 1e-5, "theta_max": 1e5, "gradient_bound": 2.0},
            "data": {"dataset": "lending-embedded", "components": 5, "public_rows": 1000},
            "owner": [{"name": name, "records": 2900, "epsilon": 1.0} for name in BANKS],
        }
    )


# What an owner does with a message -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | int | float | bool]:
    folder = tmp_path_factory.mktemp("owner")
    make_consortium(lending(), folder / "consortium")
    return {"agreement": str(folder / "consortium/agreement.toml"), "data": "mine.csv", "ledger": "mine.ledger",
            "keys": "mine", "learner": "learner.example:7443"}  # fmt: skip


def test_an_owners_command_is_made_of_its_own_options_alone(own: dict[str, str | int | float | bool]) -> None:
    _, invitation = learner_command({"agreement": own["agreement"], "listen": "x:1", "address": own["learner"]}, {})
    command = owner_command(invitation, own, {})
    words = command[command.index("owner") :]
    assert words == ["owner", "serve", *(f"--{key}={value}" for key, value in own.items())]
    by_variables = owner_command(
        invitation, {}, {"COPRIV_AGREEMENT": str(own["agreement"]), "COPRIV_LEARNER": str(own["learner"])}
    )
    assert by_variables[-2:] == ["owner", "serve"], "copriv reads its variables itself"


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"learner": "elsewhere.example:7443"}, PolicyRefused, "this owner dials learner.example:7443 only"),
        ({"learner": ""}, PolicyRefused, "this owner dials"),
        ({"fingerprint": "0" * 64}, AgreementError, "the agreements differ"),
        ({"fingerprint": True}, AgreementError, "the agreements differ"),
        ({"ledger": "fresh.ledger"}, PolicyRefused, "and nothing else"),
        ({"data": "all.csv", "policy": "none.toml"}, PolicyRefused, "and nothing else"),
    ],
)
def test_a_message_that_says_anything_else_is_refused(
    own: dict[str, str | int | float | bool], change: dict[str, object], error: type[Exception], said: str
) -> None:
    _, invitation = learner_command({"agreement": own["agreement"], "listen": own["learner"]}, {})
    owner_command(invitation, own, {})
    with pytest.raises(error, match=re.escape(said)):
        owner_command({**invitation, **change}, own, {})


def test_what_the_other_side_says_moves_no_cursor(
    own: dict[str, str | int | float | bool], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It goes to a log: the names in a message to an owner's, how an owner's session ended to the learner's."""
    hostile = "\x1b[2J\nnode 7: its session is over (exit code 0)"
    flower = SimpleNamespace(ConfigRecord=dict, RecordDict=dict, Message=lambda content, reply_to: content)
    monkeypatch.setitem(sys.modules, "flwr", SimpleNamespace(app=flower))
    monkeypatch.setitem(sys.modules, "flwr.app", flower)
    message = SimpleNamespace(content=SimpleNamespace(config_records={"copriv": {hostile: "x"}}))
    assert serve(message, SimpleNamespace(node_config=own)) == {"copriv": {"exit": PolicyRefused.exit_code}}
    about = SimpleNamespace(reply_to_message_id="m", src_node_id=7)
    replies = [
        SimpleNamespace(metadata=about, has_error=lambda: True, error=SimpleNamespace(reason=hostile)),
        SimpleNamespace(metadata=about, has_error=lambda: False, content={"copriv": {"exit": hostile}}),
    ]
    assert _replies(SimpleNamespace(pull_messages=lambda _: replies), {"m"}) == {"m"}
    said = capsys.readouterr()
    lines = [*said.err.splitlines(), *said.out.splitlines()]
    assert len(lines) == 3
    assert all(line.isprintable() and "\\x1b[2J\\x0anode 7" in line for line in lines)


def test_an_empty_message_and_a_node_without_configuration_are_refused(
    own: dict[str, str | int | float | bool],
) -> None:
    with pytest.raises(PolicyRefused, match="the message says nothing"):
        owner_command({}, own, {})
    _, invitation = learner_command({"agreement": own["agreement"], "listen": own["learner"]}, {})
    with pytest.raises(UsageError, match="COPRIV_LEARNER is not set"):
        owner_command(invitation, {"agreement": own["agreement"]}, {})


def test_a_learners_options_become_words(own: dict[str, str | int | float | bool]) -> None:
    options = {"agreement": own["agreement"], "listen": "0.0.0.0:7443", "address": "a:1", "resume": True, "json": False,
               "talk": "", "pace": 0}  # fmt: skip
    command, invitation = learner_command(options, {})
    assert command[command.index("learner") :] == [
        "learner", own["agreement"], "--listen=0.0.0.0:7443", "--resume", "--pace=0",
    ]  # fmt: skip
    assert invitation == {"fingerprint": Agreement.load(str(own["agreement"])).fingerprint, "learner": "a:1"}


# With Flower ---------------------------------------------------------------------------------------------------------


def with_flower(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test that starts a real Flower."""
    skip = pytest.mark.skipif(PYTHON is None, reason="needs copriv[flower]: set COPRIV_FLOWER_PYTHON")
    return pytest.mark.slow(pytest.mark.network(skip(test)))


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def connects(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


class Fleet:
    """A SuperLink and SuperNodes, and whatever Flower starts under them; all of it is ended."""

    def __init__(self, folder: Path, agreed: Agreement) -> None:
        assert PYTHON is not None
        self.folder, self.bin = folder, Path(PYTHON).parent
        self.consortium = folder / "consortium"
        own = [folder / "own" / bank for bank in BANKS] if agreed.summed else []  # who sums under masks names its keys
        for mine in own:
            make_key(mine, mine.name)
        make_consortium(agreed, self.consortium, requests=[mine / "request.pem" for mine in own])
        for mine in own:
            shutil.copytree(mine, self.consortium / mine.name, dirs_exist_ok=True)
        share_out(agreed, self.consortium)
        self.link, self.listen = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("COPRIV_", "FLWR_"))},
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self.started: list[subprocess.Popen[bytes]] = []
        (folder / "flwr").mkdir()
        (folder / "flwr" / "config.toml").write_text(
            f'[superlink.consortium]\naddress = "{self.link}"\ninsecure = true\n'
        )
        (folder / "app").mkdir()
        (folder / "app" / "pyproject.toml").write_text(self.app())

    def begin(self) -> None:
        host, port = self.link.split(":")
        self.start("superlink", "flower-superlink", "--insecure", "--host", host, "--port", port,
                   "--disable-runtime-dependency-installation")  # fmt: skip
        self.until(lambda: connects(self.link), 60)

    def app(self) -> str:
        """The app of the how-to, with this test's paths."""
        text = HOW_TO.read_text().split("```toml\n")[1].split("```")[0]
        at = self.consortium
        for key, value in (("agreement", at / "agreement.toml"), ("store", at / "run.db"), ("keys", at / "learner"),
                           ("listen", self.listen), ("address", self.listen)):  # fmt: skip
            text, changed = re.subn(rf'^{key} = ".*"$', f'{key} = "{value}"', text, flags=re.M)
            assert changed == 1, key
        return text

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(self.bin / command[0]), *command[1:]], env=self.environment, stdout=log, stderr=log,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    def node(self, bank: str, **changes: str) -> subprocess.Popen[bytes]:
        mine = self.consortium / bank
        said = {"agreement": self.consortium / "agreement.toml", "data": mine / "data.parquet",
                "ledger": mine / "data.ledger", "keys": mine, "learner": self.listen, **changes}  # fmt: skip
        return self.start(
            bank, "flower-supernode", "--insecure", "--superlink", self.link, "--port", str(free_port()),
            "--node-config", " ".join([*(f'{key}="{value}"' for key, value in said.items()), "new-ledger=true"]),
        )  # fmt: skip

    def flwr(self, *arguments: str) -> dict[str, object]:
        done = subprocess.run(
            [str(self.bin / "flwr"), *arguments, "--format", "json"],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        document: dict[str, object] = json.loads(done.stdout[done.stdout.index("{") :])
        return document

    def run(self, *options: str) -> str:
        return str(self.flwr("run", "app", "consortium", *options)["run-id"])

    def status(self, run: str) -> str:
        runs = self.flwr("list", "consortium", "--run-id", run)["runs"]
        assert isinstance(runs, list)
        return str(runs[0]["status"])

    def said(self, run: str) -> str:
        """What the ServerApp and the learner below it have said."""
        done = subprocess.run(
            [str(self.bin / "flwr"), "log", run, "consortium", "--show"],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    def until(self, there: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not there():
            assert time.monotonic() < end, self.logs()
            time.sleep(0.2)

    def logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))

    def alive(self) -> dict[int, str]:
        """Every process with this fleet's own FLWR_HOME, whoever started it."""
        mine, found = f"FLWR_HOME={self.folder / 'flwr'}".encode(), {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mine in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return found

    def copriv(self, what: str) -> list[int]:
        return [pid for pid, command in self.alive().items() if "copriv.cli" in command and what in command]

    def end(self) -> dict[int, str]:
        """Ends everything; gives what was left once Flower had been asked to stop."""
        for process in reversed(self.started):
            if process.poll() is None:
                process.terminate()
        for process in self.started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        end = time.monotonic() + 10
        while self.alive() and time.monotonic() < end:
            time.sleep(0.2)
        left = self.alive()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return left


@pytest.fixture
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    made = Fleet(tmp_path, getattr(request, "param", lending()))
    try:
        made.begin()
        yield made
    finally:
        left = made.end()
    assert not left, f"outlived Flower: {left}\n{made.logs()}"


@with_flower
def test_one_message_opens_each_owners_session_and_the_run_is_trained(fleet: Fleet) -> None:
    nodes = [fleet.node(bank) for bank in BANKS]
    begun = time.monotonic()
    run = fleet.run()
    fleet.until(lambda: fleet.status(run).startswith("finished"), 150)
    print(f"{time.monotonic() - begun:.1f} s")
    assert fleet.status(run) == "finished:completed", fleet.logs()
    assert all(node.poll() is None for node in nodes), "a SuperNode outlives the session"

    record = json.loads((fleet.consortium / "run.json").read_text())["record"]
    assert (record["status"], record["queries"]) == ("finished", 12)
    for terms in record["owners"]:
        totals = verify(fleet.consortium / terms["name"] / "data.ledger")
        assert totals.runs[record["run"]].charged == terms["answers"] == 4
        log = (fleet.folder / f"{terms['name']}.log").read_text()
        assert log.count("answers to 'learner'") == 1, "one message, one session"
        assert f"{terms['name']}: the run is over" in log
    said = fleet.said(run)
    assert said.count("its session is over (exit code 0)") == 3, said
    assert "finished: all 12 queries are answered" in said, said


SUMMED = lending().replace(
    agreement={"rule": "S1", "horizon": 4, "answers": 4, "step": 1.0, "aggregation": "sum", "colluding": 1}
)
"""The learner sees the sum of three masked answers, three times."""


@with_flower
@pytest.mark.parametrize("fleet", [SUMMED], indirect=True)
def test_owners_whose_sum_alone_is_seen_are_launched_in_the_same_way(fleet: Fleet) -> None:
    for bank in BANKS:
        fleet.node(bank)
    run = fleet.run()
    fleet.until(lambda: fleet.status(run).startswith("finished"), 150)
    assert fleet.status(run) == "finished:completed", fleet.said(run) + fleet.logs()
    record = json.loads((fleet.consortium / "run.json").read_text())["record"]
    assert (record["status"], record["aggregation"]) == ("finished", "sum")
    for bank in BANKS:
        totals = verify(fleet.consortium / bank / "data.ledger")
        assert totals.runs[record["run"]].charged == 3, "rounds before the last of four"
        assert float(totals.spent) == 0.75


@with_flower
def test_a_node_refuses_another_address_and_a_stopped_run_goes_on_with_resume(fleet: Fleet) -> None:
    nodes = [fleet.node("bank-1"), fleet.node("bank-2"), fleet.node("bank-3", learner="127.0.0.1:9")]
    run = fleet.run()
    fleet.until(lambda: "its session is over (exit code 3)" in fleet.said(run), 90)
    assert "this owner dials 127.0.0.1:9 only" in (fleet.folder / "bank-3.log").read_text()
    assert "127.0.0.1:9 only" not in fleet.said(run), "reasons stay with the owner"
    fleet.until(lambda: len(fleet.copriv("owner serve")) == 2, 30)
    assert not (fleet.consortium / "bank-3" / "data.ledger").exists()

    fleet.flwr("stop", run, "consortium")
    fleet.until(lambda: not fleet.copriv(" learner /"), 60)
    # A SuperNode does not learn that the run was stopped: its owner goes on dialling. Killed, it takes its owner along.
    for node in nodes:
        node.kill()
        node.wait()
    fleet.until(lambda: not fleet.copriv("owner serve"), 30)

    for bank in BANKS:
        fleet.node(bank)
    again = fleet.run("-c", "resume=true")
    fleet.until(lambda: fleet.status(again).startswith("finished"), 150)
    assert fleet.status(again) == "finished:completed", fleet.said(again) + fleet.logs()
    for bank in BANKS:
        (totals,) = verify(fleet.consortium / bank / "data.ledger").runs.values()
        assert totals.charged == 4
