"""Owners that hold one class only, a constant feature, or fewer records than parameters: an answer or a clear error."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

import copriv
from copriv.agreement import Agreement
from copriv.errors import CoprivError
from copriv.forecast.standalone_models import WithoutJoining
from copriv.model.records import Records
from copriv.plan.minimax_regret import _regret
from copriv.populations.dealt import OwnerLaws
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from network_parties import NAMES, Consortium, MemoryLedgers

P = 3
Rows = tuple[np.ndarray, np.ndarray]
ODD = ["one class", "constant feature", "few records", "one record"]


def _rows(rng: np.random.Generator, n: int, loss: str) -> Rows:
    X = rng.normal(size=(n, P))
    y = X @ np.array([1.0, -1.0, 0.5]) + rng.normal(size=n)
    return X, (y if loss == "squared" else np.where(y > 0, 1.0, -1.0))


def _odd(rng: np.random.Generator, kind: str, loss: str, n: int = 60) -> Rows:
    X, y = _rows(rng, {"few records": 2, "one record": 1}.get(kind, n), loss)
    if kind == "one class":
        y = np.full(len(y), 1.0)
    if kind == "constant feature":
        X[:, 1] = 0.7
    return X, y


def _terms(parts: list[Rows], loss: str, regularization: float) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "S1", "horizon": 4, "step": 0.2},
            "model": {"loss": loss, "regularization": regularization, "gradient_bound": 5.0},
            "data": {"feature_bound": 0},
            "owner": [{"name": n, "records": len(y), "epsilon": 5.0} for n, (_, y) in zip(NAMES, parts, strict=True)],
        }
    )


@pytest.mark.parametrize("regularization", [0.0, 1e-3])
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("kind", ODD)
def test_a_simulation_gives_an_answer(kind: str, loss: str, regularization: float) -> None:
    rng = np.random.default_rng(0)
    parts = [_odd(rng, kind, loss), _rows(rng, 80, loss), _rows(rng, 90, loss)]
    found = copriv.simulate(_terms(parts, loss, regularization), data=parts, runs=2, seed=1)
    assert np.isfinite(found.relative_fitness.runs).all()
    alone = found.owners[0].alone
    assert alone is None or (np.isfinite(alone) and alone >= 0)
    assert all(owner.alone is not None for owner in found.owners[1:])
    own = copriv.personalize(_terms(parts, loss, regularization), found.theta[0], parts[0])
    assert np.isfinite(own).all()


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("kind", ODD)
def test_a_stratum_of_the_public_rows_may_be_odd(kind: str, loss: str) -> None:
    """What a forecast makes of them, owner by owner: evidence, worlds, own models and verdicts, all of them numbers."""
    rng = np.random.default_rng(1)
    parts = [_odd(rng, kind, loss), _rows(rng, 80, loss), _rows(rng, 90, loss)]
    public = (np.vstack([x for x, _ in parts]), np.concatenate([y for _, y in parts]))
    labels = np.repeat(NAMES, [len(y) for _, y in parts])
    problem = Problem.forecasting(_terms(parts, loss, 1e-3), public, strata=labels)
    laws = OwnerLaws(PublicSample.of(problem))
    worlds = laws.drawn(3, 0)
    judged = WithoutJoining.of_known(laws.sample.optimum.theta, worlds)
    assert np.isfinite([laws.heterogeneity.low, laws.heterogeneity.value, laws.heterogeneity.high]).all()
    assert np.isfinite(judged.everybody).all()
    assert np.isfinite(judged.own).all()
    assert np.isfinite([world.on_own(0, world.pool.optimum.theta[None])[0] for world in worlds]).all()


@pytest.mark.parametrize("kind", ["one class", "constant feature"])
def test_public_rows_that_are_odd_are_forecast_or_refused_in_words(kind: str) -> None:
    rng = np.random.default_rng(2)
    parts = [_rows(rng, 60, "logistic")] * 3
    public = _odd(rng, kind, "logistic", 100)
    words = ""
    try:
        sample = PublicSample.of(Problem.forecasting(_terms(parts, "logistic", 1e-3), public))
        worlds = sample.worlds(2)
    except CoprivError as error:
        words = str(error)
    assert len(words) > 30 if words else np.isfinite([world.optimum.value for world in worlds]).all()


@pytest.mark.parametrize("kind", ["one class", "few records"])
def test_a_run_goes_through(tmp_path: Path, kind: str) -> None:
    rng, loss = np.random.default_rng(3), "logistic"
    parts = [_odd(rng, kind, loss), _rows(rng, 80, loss), _rows(rng, 90, loss)]
    agreed = _terms(parts, loss, 1e-3)

    async def run() -> np.ndarray:
        together = Consortium(tmp_path, agreed)
        owners = [
            asyncio.ensure_future(together.own(i, records=Records.of(*part), ledgers=MemoryLedgers(NAMES[i])))
            for i, part in enumerate(parts)
        ]
        conductor = await asyncio.wait_for(together.learn(), 30)
        await asyncio.wait(owners, timeout=3)
        for owner in owners:
            owner.cancel()
        await asyncio.gather(*owners, return_exceptions=True)
        assert conductor.outcome is not None
        assert conductor.outcome.status == "finished"
        return conductor.model

    assert np.isfinite(asyncio.run(run())).all()


@pytest.mark.filterwarnings("error")
def test_tables_that_say_nothing_get_an_answer_or_an_error_in_words() -> None:
    rng = np.random.default_rng(5)
    (X, y), labels = _rows(rng, 120, "squared"), np.repeat(NAMES, 40)
    terms = _terms([(X[:40], y[:40])] * 3, "squared", 1e-4)
    for strata in (labels, None):
        with pytest.raises(CoprivError, match=r"set model\.regularization above 0"):
            copriv.forecast(terms, (X, 0.0 * y), runs=4, strata=strata)
    laws = OwnerLaws(PublicSample.of(Problem.forecasting(terms, (0.0 * X, y), strata=labels)))
    assert np.isfinite(WithoutJoining.of_known(laws.sample.optimum.theta, laws.drawn(2, 0)).everybody).all()
    found = copriv.simulate(terms, data=[(0.0 * X[:40], y[:40])] * 3, runs=2)
    assert np.isfinite(found.relative_fitness.runs).all()


def test_settings_that_all_reach_the_best_model_are_all_as_good() -> None:
    """In a box whose corner is the best model ψ is 0 for all, and 0 over 0 chose none."""
    cost = np.array([[0.0, 0.2], [0.0, 0.1], [1e-6, 0.1]])
    np.testing.assert_allclose(_regret(cost), [[1.0, 2.0], [1.0, 1.0], [1e6, 1.0]])
