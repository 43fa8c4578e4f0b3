"""Runs in several worlds at once are the runs of each world by itself."""

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.problem import Problem
from copriv.simulation import simulate, worlds
from copriv.simulation.gradients import BatchedGradients
from copriv.simulation.worlds import in_worlds

SIZES = (60, 80, 40)
TERMS = {
    "all in rounds": {"rule": "S1"},
    "one by one": {"rule": "A2", "answers": 6},
    "several at once": {"rule": "A2", "answers": 6, "horizon": 18, "window": 3, "schedule": "rounds"},
    "robust": {"rule": "S2", "robust": 1},
    "on a graph": {"rule": "S2", "graph": "ring", "start": [0.1, 0.2]},
    "models": {"rule": "A2", "mechanism": "objective", "answers": 1, "horizon": 3, "start": [0.1, 0.2]},
    "a sum": {"rule": "S1", "aggregation": "sum"},
    "a sum of statistics": {
        "rule": "A2",
        "mechanism": "statistics",
        "answers": 1,
        "horizon": 3,
        "step": 1.0,
        "aggregation": "sum",
        "start": [0.1, 0.2],
        "preconditioner": [[1.0, 0.0], [0.0, 1.0]],
    },
}


def data(seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    made = []
    for n in SIZES:
        X = rng.normal(size=(n, 2))
        made.append((X, X @ [1.0, seed] + rng.standard_t(2, size=n)))  # of which some are clipped
    return made


def agreed(terms: dict[str, object]) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"horizon": 20, "step": 0.3, **terms},
            "model": {"loss": "squared", "regularization": 0.01, "theta_max": 10.0, "gradient_bound": 4.0},
            "data": {"feature_bound": 5.0},
            "owner": [{"name": f"o{i}", "records": n, "epsilon": 20.0} for i, n in enumerate(SIZES)],
        }
    )


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize("cells", [worlds.CELLS, 800])
def test_a_batch_of_worlds_is_each_world_by_itself(terms, cells, monkeypatch):
    monkeypatch.setattr(worlds, "CELLS", cells)  # 800: two worlds of 360 numbers in the first batch, one in the second
    agreement, runs = agreed(terms), 2
    each = [Problem.of(agreement, data(seed)) for seed in (0, 1, 2)]
    found = in_worlds(iter(each), runs, seed=4, record_at=None)
    for i, problem in enumerate(each):
        alone = simulate(problem, runs=runs, seed=4, first_run=i * runs, alone=False, own_records=False)
        np.testing.assert_array_equal(found.k, alone.relative_fitness.k)
        np.testing.assert_allclose(found.relative_fitness[i], alone.relative_fitness.runs, rtol=1e-9, atol=1e-12)
        theta = alone.theta
        if alone.graph is not None:
            run = np.arange(runs)
            theta = alone.graph.models[run, (i * runs + run) % len(SIZES)]
        np.testing.assert_allclose(found.theta[i], theta, rtol=1e-9)
    assert len(np.unique(found.theta[:, 0].round(6), axis=0)) == len(each)


def test_a_window_is_answered_at_once_for_its_models_do_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = [{"name": f"o{i}", "records": n, "epsilon": 1.0} for i, n in enumerate(SIZES)]
    terms = {"rule": "A2", "schedule": "rounds", "window": 3, "horizon": 18, "answers": 6, "step": 0.1}
    document = {"agreement": terms, "model": {"loss": "squared", "gradient_bound": 2.0}, "owner": owners}
    problem, calls, real = Problem.of(Agreement.of(document), data(1)), [], BatchedGradients.__call__
    monkeypatch.setattr(BatchedGradients, "__call__", lambda *given: calls.append(len(given[1])) or real(*given))
    at_once = simulate(problem, runs=5, seed=1)
    assert calls == 6 * [3 * 5]
    monkeypatch.setattr("copriv.simulation.runs._Ahead.CELLS", 1)
    one_by_one = simulate(problem, runs=5, seed=1)
    assert len(calls) == 6 + 18
    np.testing.assert_allclose(at_once.relative_fitness.runs, one_by_one.relative_fitness.runs, rtol=1e-12)
    assert at_once.clipped == pytest.approx(one_by_one.clipped, rel=1e-12)
