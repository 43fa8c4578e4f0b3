"""`copriv learner`, at the end of a run: the model is on the disk before anything else is tried."""

import json
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.cli import run
from copriv.data.tables import read_table, write_parquet
from copriv.display.run import promises
from copriv.errors import CoprivError
from copriv.losses import Squared
from copriv.model.records import Records
from copriv.network.agent import respond
from copriv.network.model import Model
from copriv.network.run_state import Conductor, Decision
from copriv.network.setup import digest_of, make_consortium
from copriv.network.store import RunStore
from copriv.network.turns import Conduct
from copriv.owner import Owner
from copriv.privacy.ledger import MemoryLedger
from copriv.protocol import Answer, Query
from copriv.report.public_rows import PublicRows
from network_parties import keys
from phased_parties import conducted, keep, piloted
from unsigned import unsigned

AGREED = Agreement.of(
    {
        "agreement": {"rule": "A2", "horizon": 6, "answers": 3, "step": 0.3},
        "model": {"loss": "squared", "regularization": 0.1, "theta_max": 10.0, "gradient_bound": 2.0},
        "data": {
            "dataset": "table",
            "components": 0,
            "feature_bound": 0.0,
            "features": ["a", "b"],
            "target": "y",
            "bounds": {"a": [-1, 1], "b": [-1, 1], "y": [-4, 4]},
        },
        "owner": [{"name": name, "records": 60, "epsilon": 1.0} for name in ("a", "b")],
    }
)


@pytest.fixture
def over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The command for a run that is over, but for its model; its owners are away, and come back to none of these tests."""
    monkeypatch.setattr("copriv.network.learner.RETURN_SECONDS", 0.05)
    keys(tmp_path / "keys", ["a"])
    (tmp_path / "agreement.toml").write_text(AGREED.to_toml())
    rng, store = np.random.default_rng(0), RunStore.create(tmp_path / "run.db", AGREED, 2)
    x = rng.uniform(-1, 1, (60, 2))
    held = Records.of(x, x @ np.array([1.0, -2.0]))
    owners = {name: Owner(AGREED, name, held, Squared(), MemoryLedger(name, Fraction(1), 3)) for name in ("a", "b")}
    conductor = Conductor(store, Conduct(begin="any"), 0.0, unsigned())
    for name in owners:
        conductor.joined(name, 0.0)
    while asked := [message for _, message in conductor.take_outbox() if isinstance(message, Query)]:
        for query in asked:
            answer, _ = respond(owners[query.owner], query)
            assert isinstance(answer, Answer)
            conductor.answered(answer, 1.0)
    assert conductor.outcome is not None
    store.close()
    said = ["--store", tmp_path / "run.db", "--keys", tmp_path / "keys" / "learner", "--listen", "127.0.0.1:0"]
    return [str(word) for word in ("learner", tmp_path / "agreement.toml", *said, "--resume")]


@pytest.mark.parametrize("option", ["--model", "--skops", "--events"])
@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_written_over_the_run_that_it_is_about(
    over: list[Any], option: str, is_there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Path(over[over.index("--store") + 1])
    kept = store.read_bytes()
    if not is_there:
        store.unlink()
    assert run([*over, option, str(store)]) == 2
    assert "would be overwritten" in capsys.readouterr().err
    assert (store.read_bytes() if store.exists() else None) == (kept if is_there else None)


def test_a_screen_that_breaks_does_not_take_the_model_with_it(
    over: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise RuntimeError("the screen")

    monkeypatch.setattr("copriv.cli.commands.learner.run_tables", breaks)
    with pytest.raises(RuntimeError, match="the screen"):
        run(over)
    assert Model.load(tmp_path / "run.json").record["status"] == "finished"


def test_a_model_that_cannot_be_written_is_not_lost(
    over: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").mkdir()
    assert run(over) == 1
    assert "start this command again with --resume" in capsys.readouterr().err
    (tmp_path / "run.json").rmdir()
    assert run(over) == 0
    assert Model.load(tmp_path / "run.json").record["outcome"] == "all 6 queries are answered"


def held(store: Path) -> list[str]:
    """Every row of a run's file."""
    with closing(sqlite3.connect(store)) as opened:
        return list(opened.iterdump())


def test_resume_never_rewrites_what_is_finished(
    over: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(over) == 0
    before, first = (tmp_path / "run.json").stat(), (tmp_path / "run.json").read_bytes()
    store = held(tmp_path / "run.db")
    capsys.readouterr()
    assert run(over) == 0
    assert "nothing was asked or written" in capsys.readouterr().out
    after = (tmp_path / "run.json").stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert (tmp_path / "run.json").read_bytes() == first
    assert held(tmp_path / "run.db") == store
    (tmp_path / "run.json").unlink()
    assert run(over) == 0, "a model that is not there is written"
    assert Model.load(tmp_path / "run.json").theta.tolist() == Model.from_json(first.decode()).theta.tolist()


def test_the_model_is_written_and_shown_before_its_forecast_which_is_made_on_request(
    over: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    (tmp_path / "rows.csv").write_text("a,b,y\n" + "0.1,0.2,1\n0.3,-0.2,0\n-0.5,0.1,2\n0.9,0.4,1\n" * 5)
    command = [*over, "--public", str(tmp_path / "rows.csv")]
    assert run(command) == 0
    record = Model.load(path).record
    assert record["forecast"] is None
    assert record["realised"]["public"]["rows"] == 20
    capsys.readouterr()
    before: list[str] = []

    def expected(rows: PublicRows, runs: int) -> dict[str, Any]:
        before.append(capsys.readouterr().out)
        assert Model.load(path).record["realised"]["public"] is not None
        return forecast(rows, runs)

    forecast = PublicRows.expected
    monkeypatch.setattr(PublicRows, "expected", expected)
    assert run([*command, "--forecast-runs", "2"]) == 0
    assert "finished: all 6 queries are answered. Wrote" in before[0]
    shown = capsys.readouterr().out
    assert shown.count("above the best model") == 1
    assert "epsilon spent, of all owners" in shown
    assert Model.load(path).record["forecast"]["runs"] == 2
    assert run([*command, "--forecast-runs", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["record"]["forecast"]["runs"] == 2
    assert len(before) == 1, "a forecast that is there is not made again"


@pytest.mark.parametrize("damage", ["forecast", "status", "owners", "realised", "deep"])
def test_resume_writes_a_damaged_model_of_its_run_anew(
    over: list[str], tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Public rows and a forecast are asked for, so the file's own forecast is looked at."""
    path = tmp_path / "run.json"
    (tmp_path / "rows.csv").write_text("a,b,y\n" + "0.1,0.2,1\n0.3,-0.2,0\n-0.5,0.1,2\n0.9,0.4,1\n" * 5)
    command = [*over, "--public", str(tmp_path / "rows.csv"), "--forecast-runs", "2"]
    assert run(command) == 0
    whole = path.read_text()
    document = json.loads(whole)
    if damage == "deep":
        path.write_text(whole.replace('"status": "finished"', f'"status": {"[" * 900}{"]" * 900}'))
    else:
        del document["record"][damage]
        path.write_text(json.dumps(document))
    capsys.readouterr()
    assert run(command) == 0
    assert "nothing was asked or written" not in capsys.readouterr().out
    made = Model.load(path)
    assert made.record.keys() == document["record"].keys() | {damage} - {"deep"}
    assert (made.record["status"], made.theta.tolist()) == ("finished", document["theta"])


def test_the_model_of_another_run_is_not_replaced(
    over: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(over) == 0
    theirs = (tmp_path / "run.json").read_text()
    other = theirs.replace(Model.from_json(theirs).record["run"], "another")
    (tmp_path / "run.json").write_text(other)
    assert run(over) == 2
    assert "holds the model of another run" in capsys.readouterr().err
    (tmp_path / "run.json").write_text("my notes")
    assert run(over) == 2
    assert (tmp_path / "run.json").read_text() == "my notes"


def test_ctrl_c_says_how_to_go_on(
    over: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def pressed(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("copriv.network.learner.Learner.run", pressed)
    assert run(over) == 130
    said = " ".join(capsys.readouterr().err.split())
    assert f"{tmp_path / 'run.db'}: start the same command again with --resume" in said


def test_the_page_beside_a_run_is_given_whose_public_rows_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command hands over, and where it would go on to listen; the run itself is not begun."""
    keys(tmp_path / "keys", ["a"])
    agreed = AGREED.replace(data={"strata": "whose"})
    (tmp_path / "agreement.toml").write_text(agreed.to_toml())
    (tmp_path / "rows.csv").write_text("a,b,y,whose\n0.1,0.2,1,b\n0.3,-0.2,0,a\n-0.5,0.1,2,b\n")
    given: list[Any] = []

    def watched(*handed: Any) -> Any:
        given.append(handed)
        raise CoprivError("enough")

    monkeypatch.setattr("copriv.cli.commands.learner.watched", watched)
    command = [
        "learner",
        "--keys",
        "keys/learner",
        "--store",
        "new.db",
        "--listen",
        "127.0.0.1:0",
        "--public",
        "rows.csv",
    ]
    assert run([*command, "agreement.toml"]) != 0
    ((_, rows, strata, wanted, _),) = given
    assert (len(rows), strata, wanted) == (3, ("b", "a", "b"), False)


def test_the_public_rows_of_a_pilot_are_signed_and_no_others_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drafted = piloted().replace(data={"dataset": "lending-embedded", "public_rows": 50})
    agreed = make_consortium(drafted, tmp_path / "made").agreement
    rows, path = tmp_path / "made" / "learner" / "public.parquet", str(tmp_path / "made" / "agreement.toml")
    signed = agreed.agreement.pilot_terms
    assert signed is not None
    assert signed.public == digest_of(rows)
    assert f"public rows whose SHA-256 is {signed.public}" in promises(agreed, "bank-1")[1]
    command = ["learner", path, "--keys", str(rows.parent), "--store", "new.db", "--listen", "127.0.0.1:0"]
    write_parquet(read_table(rows).to_arrow()[:40], tmp_path / "others.parquet")
    assert run([*command, "--public", str(tmp_path / "others.parquet")]) == 2
    assert "--public: another file of rows than the one that was signed before the pilot" in capsys.readouterr().err
    assert not Path("new.db").exists()


def test_public_rows_are_named_by_the_file_that_was_read_whatever_becomes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read again once the pilot's answers were there: changed meanwhile, it gave the run the hash of other rows."""
    drafted = piloted().replace(data={"dataset": "lending-embedded", "public_rows": 50})
    agreed = make_consortium(drafted, tmp_path / "made").agreement
    keys, given, said = tmp_path / "made" / "learner", list[Any](), list[Any]()
    signed = agreed.agreement.pilot_terms
    assert signed is not None

    def begun(*_: Any, decide: Any, **__: Any) -> Any:
        given.append(decide)
        raise CoprivError("enough")

    def decided(*handed: Any) -> Decision:
        said.append(handed[-1])
        return keep(handed[0])

    monkeypatch.setattr("copriv.network.learner.Learner", begun)
    monkeypatch.setattr("copriv.report.phases.decided", decided)
    path = tmp_path / "made" / "agreement.toml"
    assert run(["learner", str(path), "--keys", str(keys), "--store", str(tmp_path / "new.db")]) != 0
    (keys / "public.parquet").unlink()
    conductor = conducted(tmp_path, piloted(), given[0])
    assert (said, conductor.run.kept) == ([signed.public], "joining pays for nobody")


def test_a_run_that_nobody_joins_is_no_success_and_its_model_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("skops")
    keys(tmp_path / "keys", ["a"])
    (tmp_path / "agreement.toml").write_text(AGREED.to_toml())
    (tmp_path / "rows.csv").write_text("a,b\n0.5,0.5\n")
    model, skops = tmp_path / "run.json", tmp_path / "m.skops"
    given = ["--store", tmp_path / "run.db", "--keys", tmp_path / "keys" / "learner", "--listen", "127.0.0.1:0"]
    given += ["--patience", "0.2", "--skops", skops]
    words = [str(word) for word in ("learner", tmp_path / "agreement.toml", *given)]
    for more in ([], ["--resume"]):
        # A process of its own, as a learner is: gRPC's event loops do not survive what other tests of this process forked.
        main = [sys.executable, "-c", "from copriv.cli import main; main()", *words, *more]
        done = subprocess.run(main, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 5, done.stderr
        assert "the run stopped: no answer for 0.2 s" in done.stderr
        assert Model.load(model, unfinished=True).record["status"] == "stopped"
        assert not skops.exists()
        for use in (["predict", str(model), str(tmp_path / "rows.csv")], ["export", str(model), "--skops", str(skops)]):
            assert run(use) == 3
            assert "did not finish (no answer for 0.2 s" in capsys.readouterr().err
    assert not skops.exists()


def test_a_port_that_is_taken_is_said_in_one_line_without_grpcs_own(over: list[str], tmp_path: Path) -> None:
    (tmp_path / "run.db").unlink()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        words = [listen if word == "127.0.0.1:0" else word for word in over if word != "--resume"]
        command = [sys.executable, "-c", "from copriv.cli import main; main()", *words]
        done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (5, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: cannot listen at {listen}")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder here is closed to everybody")
def test_what_cannot_be_written_at_the_end_is_said_before_the_run(
    over: list[str], capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("copriv.network.store.RunStore.resume", lambda *_: pytest.fail("the run was opened"))
    assert run([*over, "--skops", "/proc/model.skops"]) == 2
    assert "--skops: /proc/model.skops cannot be written here" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert run([*over, "--skops", "model.skops"]) == 1
    assert "skops is not installed" in capsys.readouterr().err
