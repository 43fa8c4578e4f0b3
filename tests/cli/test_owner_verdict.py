"""`copriv owner verdict`: asked at home of an owner's table and what is released; nothing of it is for release."""

import json
from pathlib import Path

import numpy as np
import pytest

import copriv
from copriv.agreement import Agreement
from copriv.cli import run
from copriv.forecast.result import check_is_of, terms_told
from copriv.formatting.numbers import percent, plain_number
from copriv.network.model import Model
from copriv.network.setup import make_consortium

AGREED = Agreement.of(
    {
        "agreement": {"rule": "A2", "horizon": 6, "answers": 3, "step": 0.3},
        "model": {"loss": "squared", "regularization": 1e-6, "theta_max": 10.0, "gradient_bound": 2.0},
        "data": {
            "dataset": "table", "components": 0, "feature_bound": 0.0, "features": ["a", "b"], "target": "y",
            "bounds": {"a": [-1, 1], "b": [-1, 1], "y": [-4, 4]},
        },
        "owner": [{"name": name, "records": 60, "epsilon": 1.0} for name in ("a", "b")],
    }
)  # fmt: skip
RECORD = {"run": "1", "status": "finished"}
AHEAD = {
    "optimum": 0.25, "public_only": 0.02, "recommended": {"relative_fitness": {"median": 0.01, "low": 0.005, "high": 0.02}},
    "heterogeneity": {"value": 0.02, "low": 0.0, "high": 1.0, "source": "not stated"},
}  # fmt: skip


def _table(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    y = np.clip(x @ [1.0, -2.0] + 0.5 * rng.normal(size=n), -4, 4)
    path.write_text("\n".join(["a,b,y", *(f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True))]) + "\n")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    _table(tmp_path / "own.csv", 60, 0)
    _table(tmp_path / "public.csv", 50, 1)
    (tmp_path / "agreement.toml").write_text(AGREED.to_toml())
    (tmp_path / "run.json").write_text(Model(AGREED, np.array([-0.5, 0.5]), None, RECORD).to_json())
    (tmp_path / "forecast.json").write_text(json.dumps(AHEAD))
    return tmp_path


def _ask(home: Path, *more: str, name: str = "a") -> int:
    asked = ["owner", "verdict", str(home / "agreement.toml"), "--name", name, "--data", str(home / "own.csv")]
    return run([*asked, *(str(home / one) if (home / one).suffix else one for one in more)])


def test_of_a_run_that_stopped_after_its_pilot_it_says_what_the_model_is(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "run.json"
    path.write_text(path.read_text().replace('"run": "1"', '"run": "1", "kept": "joining pays for nobody"'))
    assert _ask(home, "--model", "run.json") == 0
    assert "The model is of the pilot's answers alone." in " ".join(capsys.readouterr().err.split())


def test_after_a_run_it_judges_the_released_model(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ask(home, "--model", "run.json", "--out", "said.json") == 0
    told = capsys.readouterr()
    said = " ".join(told.out.split())
    assert "Joining does not pay for a" in said
    assert "The common model is the released one." in said
    assert "of your kind mean squared error in y² better than your own by" in said
    assert "Not for release" in said
    assert (home / "said.json").stat().st_mode & 0o077 == 0
    kept = json.loads((home / "said.json").read_text())
    own, common = (kept["errors"][model] for model in ("own", "common"))
    assert common > own, "a worse model is better by less than nothing, as in the forecast"
    assert f"the common model {plain_number(common)} {percent(1.0 - common / own)}" in said
    assert percent(1.0 - common / own).startswith("-")
    assert kept["release"] is False
    assert (kept["schema"], kept["verdict"], kept["after_run"]) == ("copriv.owner-verdict/1", "no", True)
    assert set(kept["errors"]) == {"own", "common", "personalized"}  # there are no public rows
    assert _ask(home, "--model", "run.json", "--public", "public.csv", "--json") == 0
    with_public = json.loads(capsys.readouterr().out)
    assert set(with_public["errors"]) == {"own", "public", "public_personalized", "common", "personalized"}
    assert with_public["errors"]["public"] < with_public["errors"]["common"]


def test_of_a_common_goal_it_says_that_the_answer_is_of_own_records(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "This is of your own records. The agreement's goal is everybody's records"
    assert _ask(home, "--forecast", "forecast.json") == 0
    assert said not in " ".join(capsys.readouterr().out.split())
    (home / "agreement.toml").write_text(AGREED.replace(agreement={"goal": "common"}).to_toml())
    assert _ask(home, "--forecast", "forecast.json") == 0
    assert said in " ".join(capsys.readouterr().out.split())
    assert _ask(home, "--forecast", "forecast.json", "--json") == 0
    assert json.loads(capsys.readouterr().out)["goal"] == "common"


def test_before_a_run_a_forecast_that_was_handed_out_is_enough(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ask(home, "--forecast", "forecast.json", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["after_run"]) == ("open", False)
    assert said["if_alike"]["probability"] > said["if_unlike"]["probability"]


def test_before_a_run_it_forecasts_from_the_public_rows_and_says_what_python_says(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def forecast(terms: Agreement, progress: object = None) -> dict[str, object]:
        asked.append(terms.data.public)
        return AHEAD

    monkeypatch.setattr(copriv, "forecast", forecast)
    assert _ask(home, "--public", "public.csv", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert asked == [str(home / "public.csv")]
    own, public = (np.loadtxt(home / f"{name}.csv", delimiter=",", skiprows=1) for name in ("own", "public"))
    found = copriv.owner_verdict(AGREED, "a", (own[:, :2], own[:, 2]), AHEAD, public=(public[:, :2], public[:, 2]))
    assert found.errors["own"] == pytest.approx(said["errors"]["own"], rel=1e-9)
    assert found.probability == said["probability"]


@pytest.mark.parametrize(
    ("more", "code", "why"),
    [
        ((), 2, "give its JSON (--forecast), or the public rows"),
        (("--model", "run.json", "--forecast", "forecast.json"), 2, "give one of them"),
        (("--forecast", "run.json"), 3, "not the JSON of a forecast"),
        (("--forecast", "owners.json"), 3, "not the JSON of a forecast"),
        (("--forecast", "terms.json"), 3, "not the JSON of a forecast"),
        (("--forecast", "unlike.json"), 3, "not the JSON of a forecast"),
        (("--forecast", "own.csv"), 3, "it is no JSON"),
        (("--model", "other.json"), 3, "the model of another agreement"),
        (("--model", "home.json"), 3, "give the common model"),
        (("--model", "run.json", "--out", "own.csv"), 2, "would be overwritten"),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    home: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], code: int, why: str
) -> None:
    other = AGREED.replace(agreement={"seed": 5})
    (home / "other.json").write_text(Model(other, np.zeros(2), None, RECORD).to_json())
    made = {**RECORD, "personalized_at_home": {"private": False}}
    (home / "home.json").write_text(Model(AGREED, np.zeros(2), None, made).to_json())
    for key, wrong in (("owners", 3), ("terms", {"agreed": 3}), ("heterogeneity", {"value": 1.0})):
        name = {"heterogeneity": "unlike"}.get(key, key)
        (home / f"{name}.json").write_text(json.dumps({**AHEAD, key: wrong}))
    assert _ask(home, *more) == code
    said = capsys.readouterr().err
    assert why in " ".join(said.split())
    assert "Traceback" not in said


def test_nobody_of_that_name(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ask(home, "--model", "run.json", name="nobody") == 3
    assert "nobody" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [59, 61, 1])
def test_a_table_of_another_size_than_agreed_is_not_judged(
    rows: int, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As owners refuse it: it may be somebody else's."""
    _table(home / "own.csv", rows, 0)
    assert _ask(home, "--model", "run.json") == 3
    assert f"the agreement says 60 records, and this table has {rows}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("other", [{"name": "b"}, {"records": 70}, {"epsilon": 2.0}])
def test_a_forecast_of_another_agreement_is_refused(
    other: dict[str, object], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = {"name": "a", "records": 60, "epsilon": 1.0}
    (home / "forecast.json").write_text(json.dumps({**AHEAD, "owners": [mine]}))
    assert _ask(home, "--forecast", "forecast.json") == 0
    (home / "forecast.json").write_text(json.dumps({**AHEAD, "owners": [{**mine, **other}]}))
    capsys.readouterr()
    assert _ask(home, "--forecast", "forecast.json") != 0
    assert "forecast: is of another agreement" in capsys.readouterr().err


OTHER = {
    "data.bounds": {"data": {"bounds": {"a": [-1, 1], "b": [-1, 1], "y": [-9, 9]}}},
    "model.loss": {"model": {"loss": "huber"}},
    "model.regularization": {"model": {"regularization": 1e-3}},
    "agreement.answers": {"agreement": {"answers": 2}},
    "owner": {"owner": [{"name": "a", "records": 60, "epsilon": 1.0}, {"name": "b", "records": 60, "epsilon": 9.0}]},
}


@pytest.mark.parametrize("term", OTHER)
def test_a_forecast_of_other_terms_is_refused_and_they_are_named(
    term: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever is compared by name, records and epsilon alone is answered about another run."""
    told = {name: terms_told(AGREED.replace(**OTHER[term])) for name in ("asked", "agreed", "recommended")}
    (home / "forecast.json").write_text(json.dumps({**AHEAD, "terms": told}))
    assert _ask(home, "--forecast", "forecast.json") != 0
    assert f"forecast: is of another agreement, by {term};" in capsys.readouterr().err
    for known in told:  # any of the three may have been signed
        (home / "forecast.json").write_text(json.dumps({**AHEAD, "terms": {**told, known: terms_told(AGREED)}}))
        assert _ask(home, "--forecast", "forecast.json", "--public", "public.csv") == 0


def test_a_forecast_holds_for_what_init_writes_for_every_party(tmp_path: Path) -> None:
    """Who puts numbers, keys and paths in changes none of the terms that the forecast is about."""
    _table(tmp_path / "public.csv", 50, 1)
    agreed = AGREED.replace(data={"public": str(tmp_path / "public.csv"), "feature_bound": "auto", "components": 1})
    agreed = agreed.replace(owner=[{"name": "a", "records": 60, "epsilon": 1.0, "count": 2}])
    for terms in (agreed, agreed.replace(model={"gradient_bound": "proved"})):
        folder = tmp_path / terms.fingerprint[:8]
        signed = make_consortium(terms, folder).agreement
        assert signed.fingerprint != terms.fingerprint
        check_is_of(signed, {"terms": {"asked": terms_told(terms)}})
        check_is_of(signed.replace(owner=[one.model_dump(exclude_none=True) for one in signed.owner]), {
            "terms": {"asked": terms_told(terms)},
        })  # fmt: skip
