"""Own, common and finished models on an owner's own held-out records: what a simulation reports, against least squares."""

import json

import numpy as np
import pytest

import copriv
from copriv.agreement import Agreement
from copriv.model.records import Records
from copriv.problem import Problem
from copriv.simulation.engine import _a_fifth, on_own_records

P, TRUTH = 3, np.array([1.0, -1.0, 0.5])


def _consortium(away: np.ndarray, n: int = 300) -> tuple[Agreement, list[tuple[np.ndarray, np.ndarray]]]:
    rng, parts = np.random.default_rng(0), []
    for one in away:
        X = rng.normal(size=(n, P))
        parts.append((X, X @ (TRUTH + one) + rng.normal(size=n)))
    terms = {
        "agreement": {"rule": "S1", "horizon": 3, "step": 0.3},
        "model": {"loss": "squared", "gradient_bound": 50.0},
        "data": {"feature_bound": 0},
        "owner": [{"name": f"o{i}", "records": n, "epsilon": 50.0} for i in range(len(away))],
    }
    return Agreement.of(terms), parts


def test_an_owner_is_told_which_model_serves_its_own_records() -> None:
    """Two alike, one far: the common model (given here: their pooled fit) serves the far one badly, finishing mends it."""
    agreed, parts = _consortium(np.array([[0.0, 0, 0], [0.0, 0, 0], [2.0, -2.0, 0]]))
    problem = Problem.of(agreed, parts)
    pooled = np.linalg.lstsq(np.vstack([x for x, _ in parts]), np.concatenate([y for _, y in parts]), rcond=None)[0]
    far = on_own_records(problem, 2, pooled[None], 3)
    assert far is not None
    assert far.held_out == 60
    out = _a_fifth(problem.unbounded[2], np.random.default_rng([3, 2, 17]))
    x, y = parts[2]
    own = np.linalg.lstsq(x[~out], y[~out], rcond=None)[0]
    assert far.alone == pytest.approx(np.mean((x[out] @ own - y[out]) ** 2), rel=1e-4)
    assert far.together == pytest.approx(np.mean((x[out] @ pooled - y[out]) ** 2), rel=1e-9)
    assert far.together > 2.0 * far.alone
    assert far.personalized < 1.1 * far.alone


def test_it_is_reported_where_it_is_asked_for_and_only_there() -> None:
    agreed, parts = _consortium(np.zeros((2, P)), n=40)
    plain = copriv.simulate(agreed, data=parts, runs=2, seed=1)
    told = copriv.simulate(agreed, data=parts, runs=2, seed=1, own_records=True)
    np.testing.assert_array_equal(plain.theta, told.theta)
    assert "own" not in json.loads(plain.to_json())["owners"][0]
    said = json.loads(told.to_json())["owners"][0]["own"]
    assert set(said) == {"alone", "together", "personalized", "held_out"}
    assert all(np.isfinite(value) for value in said.values())
    assert "own" in json.loads(told.merge([told]).to_json())["owners"][0]


def test_a_person_is_held_out_whole_and_few_records_are_not_cut() -> None:
    rng = np.random.default_rng(2)
    persons = np.repeat(np.arange(20), 3)
    raw = Records.of_persons(rng.normal(size=(60, P)), rng.normal(size=60), persons)
    out = _a_fifth(raw, rng)
    assert out.sum() == 12
    assert all(len(set(out[persons == k])) == 1 for k in range(20))
    agreed, parts = _consortium(np.zeros((2, P)), n=4)
    assert on_own_records(Problem.of(agreed, parts), 0, np.zeros((1, P))) is None
