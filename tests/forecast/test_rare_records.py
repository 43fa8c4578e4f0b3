"""Is it said what records could cost that public rows cannot show, and only where that is above the band?"""

from dataclasses import replace

import numpy as np
import pytest

import copriv
from copriv.forecast.rare_records import RARER, Unseen
from copriv.model.records import Records
from copriv.problem import Problem

RNG = np.random.default_rng(8)
SLOPES = np.array([1.0, -0.5])


def table(rows, rng=RNG):
    x = rng.normal(size=(rows, 2))
    return x, x @ SLOPES + 0.3 * rng.normal(size=rows)


def agreed(records=5000, epsilon=10.0):
    return copriv.Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 100},
            "model": {"loss": "squared", "regularization": 1e-6},
            "data": {"heterogeneity": 0.0},
            "owner": [{"name": name, "records": records, "epsilon": epsilon} for name in ("one", "two", "three")],
        }
    )


def test_the_scenario_is_that_of_least_squares():
    """By numpy alone: one direction, so that the rare record can lie in no other."""
    x, y = RNG.normal(size=400), RNG.normal(size=400)
    rows = Records.of(x[:, None], y)
    terms = agreed().replace(model={"regularization": 0.0})
    pool = Problem.forecasting(terms, (x[:, None], y))
    pool = replace(pool, unbounded=(rows,) * 3, known_optimum=None)
    theta, far = np.array([0.2]), 3.0 * np.abs(x).max()

    found = Unseen.of(rows, [pool], np.array([[theta]]), 2 * RARER * 400)

    assert found is not None
    assert found.one_in == RARER * 400

    def psi(sign, target):
        weight = np.append(np.ones(400), 2.0)
        X, Y = np.append(x, sign * far), np.append(y, target)
        best = np.sum(weight * X * Y) / np.sum(weight * X * X)
        return np.sum(weight * (Y - 0.2 * X) ** 2) / np.sum(weight * (Y - best * X) ** 2) - 1.0

    assert any(
        found.relative_fitness == pytest.approx(psi(sign, target), rel=1e-6) for sign in (-1.0, 1.0) for target in y
    )


def test_owners_with_few_records_have_none_of_a_rare_kind():
    rows = Records.of(*table(400))
    assert Unseen.of(rows, [], np.empty((0, 1, 2)), 600) is None


@pytest.mark.slow
def test_where_the_pool_holds_such_records_the_band_is_wrong_and_the_caution_is_there():
    """The assumption fails: one record in 5,000 is four times as long as any public row, with a target of its own."""
    told = copriv.forecast(agreed(), public=table(1000), runs=32)
    owners = [table(5000) for _ in range(3)]
    longest = np.abs(table(1000)[0]).sum(axis=1).max()
    for x, y in owners:
        x[0], y[0] = 4.0 * longest * np.array([0.7, 0.3]), 0.0
    measured = copriv.simulate(
        told.recommended.agreement, data=owners, public=table(1000), runs=10, alone=False
    ).relative_fitness.final["median"]
    band = told.recommended.relative_fitness

    assert measured > 2.0 * band.high[-1]
    assert told.unseen is not None
    assert measured < 10 * told.unseen.relative_fitness
    assert told.caution is not None
    assert (
        "If one record in 5,000 is an outlier, 3 times as large as any public row, the cost would be about "
        in told.caution
    )
    assert "Narrower ranges of columns" in told.caution, "what can be done about it"
    assert told.caution in told.verdict
    assert told.to_dict()["unseen"]["one_in"] == 5000


def test_nothing_is_said_where_privacy_costs_more():
    told = copriv.forecast(agreed(epsilon=0.02), public=table(1000), runs=32)
    assert told.unseen is not None
    assert "public rows cannot show" not in (told.caution or "")
    far = replace(told, unseen=Unseen(1000, 3.0, 2500.0))
    assert "about 250,000 %," in (far.caution or ""), "however large, without a power of ten"
