"""Own, common and personalized models on an owner's own held-out records: what a simulation reports, against least squares."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import copriv
from copriv.agreement import Agreement
from copriv.display.simulation import details
from copriv.formatting.cards import Table
from copriv.model.records import Records
from copriv.problem import Problem
from copriv.simulation.own_records import on_own_records

P, TRUTH = 3, np.array([1.0, -1.0, 0.5])


def _consortium(away: np.ndarray, n: int = 300, seed: int = 0) -> tuple[Agreement, list[tuple[np.ndarray, np.ndarray]]]:
    rng, parts = np.random.default_rng(seed), []
    for one in away:
        X = rng.normal(size=(n, P))
        parts.append((X, X @ (TRUTH + one) + rng.normal(size=n)))
    terms = {
        "agreement": {"rule": "S1", "horizon": 3, "step": 0.3},
        "model": {"loss": "squared", "gradient_bound": 5000.0},
        "data": {"feature_bound": 0},
        "owner": [{"name": f"o{i}", "records": n, "epsilon": 50.0} for i in range(len(away))],
    }
    return Agreement.of(terms), parts


def _by_fifths(x: np.ndarray, y: np.ndarray, seed: list[int]) -> np.ndarray:
    """Squared errors of least squares on four fifths, each fifth held out in turn, less what a fifth more would make better."""
    part = np.random.default_rng(seed).permutation(len(y)) % 5
    fits = [np.linalg.lstsq(x[part != k], y[part != k], rcond=None)[0] for k in range(5)]
    lost = np.array([(x @ fit - y) ** 2 for fit in [*fits, np.linalg.lstsq(x, y, rcond=None)[0]]])
    return lost[part, np.arange(len(y))] + lost[5] - lost[:5].mean(axis=0)


def _unseen(theta: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]], i: int, seed: list[int]) -> np.ndarray:
    """Squared errors on owner i's records of θ without what each fifth of them had to do with it, owners alike in size."""
    (x, y), lost = parts[i], np.zeros(len(parts[i][1]))
    part = np.random.default_rng(seed).permutation(len(y)) % 5
    whole = sum(one.T @ one for one, _ in parts)
    for k in range(5):
        out = part == k
        rest = whole - x[out].T @ x[out]
        fit = theta + np.linalg.solve(rest, x[out].T @ (x[out] @ theta - y[out]))
        lost[out] = (x[out] @ fit - y[out]) ** 2
    return lost


def test_an_owner_is_told_which_model_serves_its_own_records() -> None:
    """Two alike, one far: the common model (given here: their pooled fit) serves the far one badly, its own mends it."""
    agreed, parts = _consortium(np.array([[0.0, 0, 0], [0.0, 0, 0], [2.0, -2.0, 0]]))
    problem = Problem.of(agreed, parts)
    pooled = np.linalg.lstsq(np.vstack([x for x, _ in parts]), np.concatenate([y for _, y in parts]), rcond=None)[0]
    far = on_own_records(problem, 2, pooled[None], 3)
    assert far is not None
    x, y = parts[2]
    own = _by_fifths(x, y, [3, 2, 17])
    assert far.held_out == 300
    assert far.alone == pytest.approx(own.mean(), rel=1e-4)
    assert far.together == pytest.approx(_unseen(pooled, parts, 2, [3, 2, 17]).mean(), rel=1e-6)
    part = np.random.default_rng([3, 2, 17]).permutation(300) % 5
    others, refitted = [*parts[:2]], np.zeros(300)
    for k in range(5):
        rows = [*others, (x[part != k], y[part != k])]
        fit = np.linalg.lstsq(np.vstack([a for a, _ in rows]), np.concatenate([b for _, b in rows]), rcond=None)[0]
        refitted[part == k] = (x[part == k] @ fit - y[part == k]) ** 2
    assert far.together == pytest.approx(refitted.mean(), rel=1e-6), "the pooled fit, fitted again without each fifth"
    assert far.public is None
    assert far.together > 2.0 * far.alone
    assert far.personalized < 1.1 * far.alone
    assert far.verdict.answer == "no"


def test_a_verdict_is_as_sure_as_the_records_and_the_runs_make_it() -> None:
    """Against the normal law of the mean of paired differences, in each run; half of the runs are of no use."""
    agreed, parts = _consortium(np.zeros((2, P)), n=60)
    problem, (x, y) = Problem.of(agreed, parts), parts[0]
    own, good = _by_fifths(x, y, [0, 0, 17]), _unseen(TRUTH, parts, 0, [0, 0, 17])
    saved = own - good - 0.005 * own
    expected = norm.cdf(saved.mean() / (saved.std() / np.sqrt(60)))
    said = on_own_records(problem, 0, np.tile(TRUTH, (20, 1)))
    assert said is not None
    assert said.verdict.by == "common"
    assert said.verdict.probability == pytest.approx(expected, abs=0.05)
    assert said.verdict.gain == pytest.approx(1.0 - good.mean() / own.mean(), rel=0.2)
    half = on_own_records(problem, 0, np.repeat([TRUTH, TRUTH + 3.0], 10, axis=0))
    assert half is not None
    assert half.together > 5.0 * said.together
    assert half.verdict.by == "personalized" or half.verdict.probability == pytest.approx(expected / 2, abs=0.05)


def test_the_public_rows_are_something_to_do_without_joining() -> None:
    agreed, parts = _consortium(np.zeros((2, P)), n=25)
    problem, (x, y) = Problem.of(agreed, parts), parts[0]
    alone = on_own_records(problem, 0, np.tile(TRUTH, (4, 1)))
    beside = on_own_records(problem, 0, np.tile(TRUTH, (4, 1)), 0, TRUTH)
    assert alone is not None
    assert beside is not None
    assert (alone.public, beside.public) == (None, pytest.approx(np.mean((x @ TRUTH - y) ** 2)))
    assert alone.verdict.gain > 0.01
    # What is left to gain is by personalizing the very model that the public rows give.
    assert beside.verdict.gain <= 1e-9 + max(0.0, 1.1 * (1.0 - beside.personalized / beside.public))
    own = _by_fifths(x, y, [0, 0, 17]).mean()
    assert own > beside.public, "the public model is the better one of the two"


def test_it_is_reported_where_the_goal_asks_for_it_or_somebody_does() -> None:
    agreed, parts = _consortium(np.zeros((2, P)), n=40)
    plain = copriv.simulate(agreed, data=parts, runs=2, seed=1, own_records=False)
    told = copriv.simulate(agreed, data=parts, runs=2, seed=1)
    np.testing.assert_array_equal(plain.theta, told.theta)
    silent, said = (json.loads(one.to_json())["owners"][0] for one in (plain, told))
    assert "own" not in silent
    assert silent["verdict"] is silent["probability"] is silent["on_own"] is None
    assert set(said["own"]) == {"alone", "together", "personalized", "held_out", "public", "public_personalized"}
    assert said["own"]["public"] is said["own"]["public_personalized"] is None
    assert "Loss on own rows: mean squared error." in repr(told)
    assert (said["verdict"], said["probability"]) == (said["on_own"]["answer"], said["on_own"]["probability"])
    assert "own" in json.loads(told.merge([told]).to_json())["owners"][0]
    for_all = agreed.replace(agreement={"goal": "common"})
    common = copriv.simulate(for_all, data=parts, runs=2, seed=1)
    asked = json.loads(common.to_json())
    assert "own" not in asked["owners"][0]
    assert asked["owners"][0]["verdict"] == asked["owners"][0]["on_all"]["answer"]
    assert copriv.simulate(for_all, data=parts, runs=2, seed=1, own_records=True).owners[0].own is not None
    many, tables = _consortium(np.zeros((21, P)), n=6)
    assert copriv.simulate(many, data=tables, runs=1).owners[0].own is None, (
        "each takes a while: only where it is asked for"
    )


@pytest.mark.parametrize("goal", ["own", "common"])
def test_the_screen_names_the_question_and_every_answer(goal: str) -> None:
    agreed, parts = _consortium(np.array([[0.0, 0, 0], [0.0, 0, 0], [2.0, -2.0, 0]]))
    result = copriv.simulate(agreed.replace(agreement={"goal": goal}), data=parts, runs=3, seed=1)
    said = [part for part in details(result) if isinstance(part, str)]
    assert f'Asked (goal = "{goal}")' in said[1]
    assert said[2] == result.verdict
    assert "On everybody's records: " in result.verdict
    table = next((part for part in details(result) if isinstance(part, Table) and "held out" in part.head), None)
    assert (table is not None) is (goal == "own")
    for owner in result.owners:
        verdict = result.joining.owners[owner.name]
        assert verdict == (result.on_own(owner) if goal == "own" else result.on_all(owner))
        if table is not None:
            row = next(row for row in table.rows if row[0] == owner.name)
            assert row[-2] == f"{verdict.answer}, {100 * verdict.probability:.0f} %"
    on_all = [result.on_all(owner) for owner in result.owners]
    ψ = result.relative_fitness.runs[:, -1]
    for owner, one in zip(result.owners, on_all, strict=True):
        assert one is not None
        assert owner.alone is not None
        assert one.probability == np.mean((owner.alone - ψ) / (1.0 + owner.alone) >= 0.005)


def test_a_person_is_held_out_whole_and_few_records_are_not_cut() -> None:
    """Each person's rows are all alike and no other's: a model that saw one of them would know the others."""
    rng = np.random.default_rng(2)
    persons = np.repeat(np.arange(40), 5)
    X, y = rng.normal(size=(40, P))[persons], (10.0 * rng.normal(size=40))[persons]
    agreed, _ = _consortium(np.zeros((1, P)), n=40)
    agreed = agreed.replace(owner={"unit": "id"})
    told = on_own_records(Problem.of(agreed, [Records.of_persons(X, y, persons)]), 0, np.zeros((1, P)))
    assert told is not None
    assert (told.held_out, told.alone > y.var()) == (200, True)
    agreed, parts = _consortium(np.zeros((2, P)), n=4)
    assert on_own_records(Problem.of(agreed, parts), 0, np.zeros((1, P))) is None


def test_public_rows_that_stand_in_judge_nobody() -> None:
    """The public model was fitted to these very rows: records held out of them protect nothing."""
    agreed, parts = _consortium(np.zeros((2, P)), n=40)
    problem = replace(Problem.of(agreed, parts), source="public")
    result = copriv.simulate(problem, runs=2, seed=1)
    assert all(owner.own is None for owner in result.owners)
    assert all(owner["on_own"] is None for owner in json.loads(result.to_json())["owners"])
    assert any("the owners' own tables are not here" in part for part in details(result) if isinstance(part, str))
    with pytest.raises(copriv.errors.UsageError, match="stand in for"):
        copriv.simulate(problem, runs=2, seed=1, own_records=True)


def test_the_common_model_is_judged_as_on_new_records() -> None:
    """It has seen the records it is judged on, which made it better by 2p/n of the loss: over 60 consortia, held against 2,000
    new records of the owner, the gain by joining is neither flattered nor belittled."""
    told, true = [], []
    for seed in range(60):
        agreed, parts = _consortium(np.zeros((3, P)), n=40, seed=seed)
        pooled = np.linalg.lstsq(np.vstack([x for x, _ in parts]), np.concatenate([y for _, y in parts]), rcond=None)[0]
        found = on_own_records(Problem.of(agreed, parts), 0, pooled[None], seed)
        assert found is not None
        rng = np.random.default_rng([seed, 1])
        new = rng.normal(size=(2000, P))
        target = new @ TRUTH + rng.normal(size=2000)
        own = np.linalg.lstsq(*parts[0], rcond=None)[0]
        lost = [np.mean((new @ θ - target) ** 2) for θ in (own, pooled)]
        told.append(1.0 - found.together / found.alone)
        true.append(1.0 - lost[1] / lost[0])
    difference = np.array(told) - np.array(true)
    assert abs(difference.mean()) < 4.0 * difference.std() / np.sqrt(60)
    assert difference.std() / np.sqrt(60) < 0.02, "flattery is 2 * 3 / 120, and a fifth fewer records are as much again"
