"""Every owner as its own learner: what is forecast of it is what is then measured, and the command says it."""

import json

import numpy as np
import pytest

from copriv import Agreement, Problem
from copriv.cli import run as copriv
from copriv.cli.console import tell
from copriv.display.forecast import own_learners as told
from copriv.errors import AgreementError
from copriv.forecast.own_learners import forecast_own_learners
from copriv.simulation import own_learners

SIZES = (6_000, 2_000, 300)


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, X @ [0.6, -0.3, 0.2] + 0.4 * rng.uniform(-1, 1, n)


TERMS = {
    "agreement": {"rule": "auto", "horizon": 100},
    "model": {"loss": "squared", "theta_max": 100.0},
    "data": {"heterogeneity": 0},
    "owner": [{"name": f"o{i}", "records": n, "epsilon": 1.0} for i, n in enumerate(SIZES)],
}


ONE_WAY = {"rule": "auto", "horizon": 3, "answers": 1, "mechanism": "statistics"}
"""So that only one mechanism is planned."""


@pytest.fixture(scope="module")
def outlook():
    return forecast_own_learners(Agreement.of(TERMS), rows(400, 9))


def test_measured_lies_in_the_forecast_band(outlook):
    problem = Problem.of(outlook.agreement, [rows(n, i) for i, n in enumerate(SIZES)], rows(400, 9))
    for one, simulated in zip(outlook.learners, own_learners(problem, budget="shared", runs=40), strict=True):
        assert one.learning_low <= simulated.relative_fitness.final["median"] <= one.learning_high


def test_an_owner_of_nearly_everything_has_nearly_no_noise_in_its_model(outlook):
    big, _, small = outlook.learners
    assert big.learning < small.learning
    assert small.learning <= 1.1 * small.together  # it takes its own noise out of the common model, which is little
    assert small.joining_pays
    assert small.alone > 5 * small.learning


def test_owners_of_one_kind_are_forecast_once():
    many = Agreement.of(
        {**TERMS, "agreement": ONE_WAY, "owner": [{"name": f"o{i}", "records": 500, "epsilon": 1.0} for i in range(9)]}
    )
    found = forecast_own_learners(many, rows(100, 9), runs=32)
    assert len({(one.learning, one.alone) for one in found.learners}) == 1


def test_an_absolute_loss_has_no_mechanism_of_one_answer_and_that_is_said():
    with pytest.raises(AgreementError, match="squared, logistic"):
        forecast_own_learners(Agreement.of({**TERMS, "model": {"loss": "absolute", "theta_max": 100.0}}), rows(400, 9))


def test_the_screen(outlook, capsys):
    tell(*told(outlook))
    said = capsys.readouterr().out
    assert "Sharing answers pays for" in said
    assert all(name in said for name in ("o0", "o1", "o2"))


def test_the_command(tmp_path, capsys):
    terms = Agreement.of(
        {**TERMS, "agreement": ONE_WAY, "data": {"dataset": "lending-embedded", "components": 3, "public_rows": 300}}
    )
    (tmp_path / "a.toml").write_text(terms.to_toml())
    assert copriv(["own-learners", str(tmp_path / "a.toml"), "--runs", "32", "--json", "--out", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "copriv.own-learners/1"
    assert (tmp_path / "own-learners.png").read_bytes().startswith(b"\x89PNG")
    assert Agreement.load(tmp_path / "agreement.toml").one_answer
    assert set(document["learners"][0]) >= {"alone", "together", "learning", "joining_pays", "joining_pays_probability"}
