"""What answers say of the owners: held against owners whose heterogeneity is known, and against public rows drawn elsewhere."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.display.run import compared
from copriv.model.records import Records
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.populations.diagnosis import HeterogeneityDiagnosis, _distance, diagnose
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.report.public_rows import PublicRows
from copriv.terms.heterogeneity import Heterogeneity
from network_parties import NAMES, Consortium, MemoryLedgers

P, OWNERS = 3, 5
TRUTH = np.array([1.0, -1.0, 0.5])


def _terms(owners: int = OWNERS, epsilon: float = 20.0, records: int = 4000, **data: object) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "S1", "horizon": 4, "step": 0.2},
            "model": {"loss": "squared", "regularization": 1e-3, "gradient_bound": 40.0},
            "data": {"feature_bound": 0, **data},
            "owner": [{"name": f"o{i}", "records": records, "epsilon": epsilon} for i in range(owners)],
        }
    )


def _rows(rng: np.random.Generator, n: int, away: np.ndarray) -> Records:
    X = rng.normal(size=(n, P))
    return Records.of(X, X @ (TRUTH + away) + rng.normal(size=n))


def _heard(
    seed: int, away: np.ndarray, moved: float = 0.0, **terms: object
) -> tuple[HeterogeneityDiagnosis, float, float]:
    """Answers with real noise at points on a path; the truth of u and of the distance by definition."""
    rng, agreed = np.random.default_rng(seed), _terms(**terms)  # type: ignore[arg-type]
    n = int(agreed.records[0])
    owners = [_rows(rng, n, one) for one in away]
    public = Records.concatenate([_rows(rng, 80, one + np.array([moved, 0.0, 0.0])) for one in away])
    sample = PublicSample.of(Problem.forecasting(agreed, public))
    b = [agreed.mechanism.scale(agreed, owner) for owner in agreed.owner]
    told = []
    pool = Problem.of(agreed, owners, public)
    model = pool.optimum.theta
    for θ in (np.zeros(P), model / 2, model):
        for owner, r, scale in zip(agreed.owner, owners, b, strict=True):
            exact = 2.0 * r.features.T @ (r.features @ θ - r.target) / n
            told.append((owner.name, θ, exact + rng.laplace(scale=scale, size=P)))
    found = diagnose(agreed, sample, Heterogeneity.stated((0.0, 0.05)), model, told)
    assert found is not None
    best = [np.linalg.lstsq(r.features, r.target, rcond=None)[0] for r in owners]
    u = np.mean([pool.fitness.value(θ) for θ in best]) / pool.optimum.value - 1.0
    far = float(pool.fitness.value(sample.optimum.theta)) / pool.optimum.value - 1.0
    return found, float(u), far


@pytest.mark.parametrize("away", [0.0, 0.1, 0.5])
def test_heterogeneity_and_distance_are_found_with_their_error(away: float) -> None:
    held, far, u = [], [], []
    for seed in range(16):
        found, truth, distance = _heard(seed, away * np.random.default_rng(seed + 99).normal(size=(OWNERS, P)))
        held.append(
            found.heterogeneity.low <= truth <= found.heterogeneity.high or (away == 0 and found.heterogeneity.low == 0)
        )
        far.append(found.distance.low <= distance <= found.distance.high)
        u.append((found.heterogeneity.value, truth))
    assert np.mean(held) >= 0.7
    # Of 16, seeds fixed: at 90 % fewer than 11 would have a chance of 2e-3.
    assert np.mean(far) >= 0.7
    if away:
        said, true = np.array(u).T
        assert np.mean(said) == pytest.approx(np.mean(true), rel=0.25)


def test_public_rows_of_elsewhere_are_noticed_and_random_ones_are_not() -> None:
    alike = np.zeros((OWNERS, P))
    elsewhere = [_heard(seed, alike, moved=0.5)[0] for seed in range(6)]
    assert all(not found.distance.as_assumed and "not a random sample" in found.wrong for found in elsewhere)
    assert sum(_heard(seed, alike)[0].distance.as_assumed for seed in range(12)) >= 10


def test_an_assumption_that_was_wrong_is_named_and_one_that_was_not_is_left_alone() -> None:
    far = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0], [0, -1.0, 0], [0, 0, 0.5]])
    found = _heard(1, far)[0]
    assert "more than was assumed" in found.wrong
    assert f"[{found.heterogeneity.low:.2g}, {found.heterogeneity.high:.2g}]" in found.wrong
    assert _heard(2, np.zeros((OWNERS, P)))[0].wrong == ""


def test_much_noise_says_little_and_not_something_wrong() -> None:
    found, truth, _ = _heard(3, np.zeros((OWNERS, P)), epsilon=0.02)
    assert found.wrong == ""
    assert found.heterogeneity.high > 20.0 * truth
    assert found.distance.high > 20.0 * found.distance.expected


def test_a_distance_has_the_range_of_a_noncentral_chi_square() -> None:
    """Drawn: p normal numbers about a known distance; the range holds it in nine of ten."""
    rng, p, noise, true = np.random.default_rng(5), 4, 0.02, 0.05
    held = []
    for _ in range(600):
        z = np.sqrt(true / p) + np.sqrt(noise / p) * rng.normal(size=p)
        found = _distance(float(z @ z), noise, 0.01, p)
        held.append(found.low <= true <= found.high)
    assert np.mean(held) == pytest.approx(0.9, abs=0.04)


def test_answers_that_are_no_gradients_say_nothing() -> None:
    agreed = _terms().replace(
        agreement={"mechanism": "objective", "rule": "A2", "horizon": 5, "answers": 1}, data={"feature_bound": 9.0}
    )
    sample = PublicSample.of(Problem.forecasting(agreed, _rows(np.random.default_rng(0), 200, np.zeros(P))))
    assert diagnose(agreed, sample, Heterogeneity.stated(0.0), TRUTH, []) is None


@pytest.mark.parametrize("unlike", [False, True])
def test_a_real_run_reports_it(tmp_path: Path, unlike: bool) -> None:
    """Three owners with ledgers and noise in earnest, a learner, its store: alike owners as assumed, unlike ones not."""
    rng = np.random.default_rng(8)
    away = np.array([[2.0, 0, 0], [-2.0, 0, 0], [0, 2.0, 0]]) if unlike else np.zeros((3, P))
    parts = {name: _rows(rng, 2000, one) for name, one in zip(NAMES, away, strict=True)}
    agreed = _terms(3, records=2000, heterogeneity=0.02)
    agreed = agreed.replace(owner=[{**o, "name": n} for o, n in zip(agreed.to_dict()["owner"], NAMES, strict=True)])
    public = Records.concatenate([_rows(rng, 150, one) for one in away])
    conductor = asyncio.run(run_of(tmp_path, agreed, parts))
    said = conductor.signed_model(None, PublicRows(agreed, public).said_of(conductor)).record["realised"]
    found = said["public"]["heterogeneity_diagnosis"]
    assert found["answers"] == 9
    assert ("more than was assumed" in found["wrong"]) == unlike
    assert found["public_distance"]["as_assumed"]
    assert said["public"]["low"] <= max(said["public"]["estimate"], 0.0) <= said["public"]["high"]
    record = {"realised": said, "forecast": None}
    assert any("by their answers" in row[-1] for row in compared(record, "mean squared error").rows)


async def run_of(folder: Path, agreed: Agreement, parts: dict[str, Records]) -> Conductor:
    together = Consortium(folder, agreed)
    owners = [
        asyncio.ensure_future(together.own(i, records=parts[name], ledgers=MemoryLedgers(name)))
        for i, name in enumerate(NAMES)
    ]
    conductor = await asyncio.wait_for(together.learn(), 30)
    await asyncio.wait(owners, timeout=3)
    for owner in owners:
        owner.cancel()
    await asyncio.gather(*owners, return_exceptions=True)
    conductor.store = RunStore.resume(folder / "run.db", agreed)
    return conductor
