"""Are plans insured against records that public rows cannot show, and only where that is cheap?"""

import numpy as np
import pytest

import copriv
from copriv.plan import outliers, plan
from copriv.plan.outliers import LENGTHS, RARER, with_outliers
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem

SLOPES = np.array([1.0, -0.5])


def table(rows, seed, kind=np.random.Generator.normal):
    rng = np.random.default_rng(seed)
    x = kind(rng, size=(rows, 2))
    return x, x @ SLOPES + 0.3 * rng.normal(size=rows)


def agreed(records=30_000, epsilon=20.0):
    return copriv.Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 100},
            "model": {"loss": "squared", "regularization": 0.0},
            "data": {"heterogeneity": 0.0, "feature_bound": 0.0},
            "owner": [{"name": name, "records": records, "epsilon": epsilon} for name in ("one", "two", "three")],
        }
    )


def sample_of(terms, public):
    return PublicSample(Problem.forecasting(terms, public))


def test_the_best_model_misses_an_outlier_by_the_root_mean_square_residual():
    """By numpy alone, fitted to all records of each world."""
    x, y = table(500, 1)
    worlds = with_outliers(sample := sample_of(agreed(), (x, y)), 0)
    assert len(worlds) == len(LENGTHS)
    for world, times, plain in zip(worlds, LENGTHS, sample.drawn(6, 0), strict=True):
        records, before = world.pool.unbounded[0], plain.pool.unbounded[0]
        assert records.weight[-1] == pytest.approx(90_000 / (RARER * 500))
        assert np.abs(records.features[-1]).max() == pytest.approx(times * np.abs(x).sum(axis=1).max())

        root = np.sqrt(records.weight)
        best = np.linalg.lstsq(root[:, None] * records.features, root * records.target, rcond=None)[0]
        without = np.linalg.lstsq(
            np.sqrt(before.weight)[:, None] * before.features, np.sqrt(before.weight) * before.target, rcond=None
        )[0]
        off = np.sqrt(np.average(np.square(before.target - before.features @ without), weights=before.weight))
        assert abs(records.target[-1] - records.features[-1] @ best) == pytest.approx(off, rel=1e-6)
        assert world.pool.optimum.theta == pytest.approx(best, rel=1e-5)


def test_no_outliers_where_none_is_likely_or_none_can_be():
    few = sample_of(agreed(records=400), table(500, 1))
    assert with_outliers(few, 0) == ()

    def signs(rng, size):
        return np.sign(rng.normal(size=size))

    levels = sample_of(agreed(), table(500, 1, signs))
    assert with_outliers(levels, 0) == ()


def test_where_noise_is_small_a_plan_counts_outliers_and_where_it_is_not_it_does_not(monkeypatch):
    public, owners = table(500, 1), [table(30_000, 2 + i) for i in range(3)]
    longest = np.abs(public[0]).sum(axis=1).max()
    for x, y in owners:  # one record in 10,000 is five times as long as any public row
        x[:3], y[:3] = [5.0 * longest, 0.0], 5.0 * longest + 0.5

    def planned(epsilon, probability):
        monkeypatch.setattr(outliers, "PROBABILITY", probability)
        return plan(Problem.forecasting(agreed(epsilon=epsilon), public), one_answer=False, runs=6).choice

    def measured(choice):
        return copriv.simulate(
            choice.agreement, data=owners, public=public, runs=10, alone=False
        ).relative_fitness.final["median"]

    insured, not_ = planned(20.0, 0.2), planned(20.0, 0.0)
    assert insured.agreement.gradient_bound > 1.9 * not_.agreement.gradient_bound
    assert measured(insured) < 0.2 * measured(not_)
    assert insured.outliers > 0.0 == not_.outliers
    assert planned(0.02, 0.2).agreement.gradient_bound < 1.5 * planned(0.02, 0.0).agreement.gradient_bound
