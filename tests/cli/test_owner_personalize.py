"""`copriv owner personalize`: an own model from a run's model file and the owner's table, and nothing that leaves."""

import json
from pathlib import Path

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.cli import run
from copriv.errors import CoprivError
from copriv.network.model import Model

AGREED = Agreement.of(
    {
        "agreement": {"rule": "A2", "horizon": 6, "answers": 3, "step": 0.3},
        "model": {"loss": "squared", "regularization": 1e-6, "theta_max": 10.0, "gradient_bound": 2.0},
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
RECORD = {"run": "1", "status": "finished"}
OWN = np.array([1.0, -2.0])
"""What the owner's own records say; the common model says something else."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (60, 2))
    lines = [f"{a},{b},{y}" for (a, b), y in zip(x, x @ OWN + 0.01 * rng.normal(size=60), strict=True)]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    (tmp_path / "common.json").write_text(Model(AGREED, np.array([0.5, 0.5]), None, RECORD).to_json())
    return tmp_path


def _finish(home: Path, *more: str) -> int:
    paths = ["--data", str(home / "own.csv"), "--out", str(home / "own.json")]
    return run(["owner", "personalize", str(home / "common.json"), *paths, *more])


def test_it_fits_the_owners_rows_and_says_what_it_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _finish(home) == 0
    said = " ".join(capsys.readouterr().out.split())
    own = Model.load(home / "own.json")
    # Targets are scaled as declared, and so is the model; its predictions are what matters.
    rows = json.loads((home / "own.json").read_text())["record"]["personalized_at_home"]
    assert "no budget was spent" in said
    assert "keep it" in said
    assert rows["private"] is False
    assert "must not leave" in rows["note"]
    assert (home / "own.json").stat().st_mode & 0o077 == 0
    truth = np.loadtxt(home / "own.csv", delimiter=",", skiprows=1)[:, 2]
    mine, common = (np.array(m.predict(str(home / "own.csv"))) for m in (own, Model.load(home / "common.json")))
    assert np.mean((mine - truth) ** 2) < 0.01 * np.mean((common - truth) ** 2)


def test_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _finish(home, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "copriv.personalized/1"
    assert found["rows"] == 60
    assert found["common_share"] < 0.1


@pytest.mark.parametrize("content", ["a,b\n0.1,0.2\n", "a,b,y\n0.1,0.2,9\n", ""])
def test_a_table_that_is_not_as_agreed(home: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (home / "own.csv").write_text(content)
    assert _finish(home) == 3
    assert not (home / "own.json").exists()
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("record", [{"run": "1", "status": "stopped", "outcome": "nobody came"}, {"run": "1"}])
def test_a_model_whose_run_did_not_finish_is_taken_home_by_that_name_only(
    home: Path, capsys: pytest.CaptureFixture[str], record: dict[str, str]
) -> None:
    (home / "common.json").write_text(Model(AGREED, np.array([0.5, 0.5]), None, record).to_json())
    assert _finish(home) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "did not finish" in said
    assert "--unfinished" in said
    assert not (home / "own.json").exists()
    with pytest.raises(CoprivError, match="did not finish"):
        Model.load(home / "common.json")
    assert _finish(home, "--unfinished") == 0
    assert Model.load(home / "own.json", unfinished=True).at_home


def test_what_was_made_at_home_is_no_common_model(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has seen the rows that would be held out, so that they say nothing of it."""
    assert _finish(home) == 0
    (home / "own.json").replace(home / "common.json")
    assert _finish(home) != 0
    assert "give the common model" in capsys.readouterr().err
    assert not (home / "own.json").exists()


@pytest.mark.parametrize("name", ["own.csv", "common.json"])
def test_what_is_read_is_not_written_over(home: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    before = (home / name).read_bytes()
    assert _finish(home, "--out", str(home / name)) == 2
    assert "would be overwritten" in capsys.readouterr().err
    assert (home / name).read_bytes() == before


def test_it_is_not_exported_to_a_server_and_other_formats_are_this_accounts(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("skops")
    assert _finish(home) == 0
    assert run(["export", str(home / "own.json"), "--mlflow", (home / "runs").as_uri()]) == 2
    assert "must not leave" in capsys.readouterr().err
    assert not (home / "runs").exists()
    (home / "own.skops").touch(0o644)
    assert run(["export", str(home / "own.json"), "--skops", str(home / "own.skops")]) == 0
    assert (home / "own.skops").stat().st_mode & 0o077 == 0


def test_it_is_not_logged_from_python_either(home: Path) -> None:
    pytest.importorskip("mlflow")
    from copriv.network.exports import log_to_mlflow

    assert _finish(home) == 0
    with pytest.raises(CoprivError, match="must not leave"):
        log_to_mlflow(Model.load(home / "own.json"), (home / "runs").as_uri(), "x", home / "own.json")


def test_rows_of_a_person_count_as_one_where_persons_are_the_units(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of 60 rows five times, as a person's: the same model's data, and 60 persons. Without the column it is said."""
    agreed = AGREED.replace(owner={"unit": "who", "unit_records": 5})
    (home / "common.json").write_text(Model(agreed, np.array([0.5, 0.5]), None, RECORD).to_json())
    assert _finish(home) == 3
    assert "who" in capsys.readouterr().err
    first, *rows = (home / "own.csv").read_text().split()
    (home / "own.csv").write_text(
        "\n".join([f"{first},who", *(f"{row},p{i}" for i, row in enumerate(rows) for _ in range(5))]) + "\n"
    )
    assert _finish(home) == 0
    assert "your 300 rows of 60 persons" in " ".join(capsys.readouterr().out.split())
    made = json.loads((home / "own.json").read_text())["record"]["personalized_at_home"]
    assert (made["rows"], made["persons"]) == (300, 60)


def test_a_folder_is_no_file(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    assert _finish(home, "--out", ".") == 2
    assert "is a folder" in capsys.readouterr().err
