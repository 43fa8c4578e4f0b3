"""What joining costs an owner on its own records, against models that are made as owners make them."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import copriv
from copriv.forecast.assessment import assess
from copriv.forecast.standalone_models import WithoutJoining, enough, personalized_cost
from copriv.populations.dealt import OwnerLaws, heterogeneous_worlds
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.problem.personalization import personalized
from copriv.problem.verdict import Asked

SLOPES = np.array([0.6, -0.4, 0.3, 0.5, -0.2, 0.1])
LEVELS = np.array([1.0, -1.0, 0.5, -0.5])
RECORDS, PUBLIC, P = 500, 60, 7
NEWTON = np.diag([1.5] * 6 + [0.5]).tolist()
"""Inverse curvature of uniform features and the intercept."""


def terms(loss: str = "squared", **model: Any) -> copriv.Agreement:
    return copriv.Agreement.of(
        {
            "agreement": {"rule": "S2", "horizon": 6, "step": 0.5, "iterate": "last", "preconditioner": NEWTON},
            "model": {"loss": loss, "regularization": 1e-5, "gradient_bound": 30.0, "intercept": True, **model},
            "owner": [{"name": f"o{i}", "records": RECORDS, "epsilon": 300.0} for i in range(4)],
        }
    )


def rows(level: float, n: int, rng: np.random.Generator, loss: str = "squared") -> tuple[np.ndarray, np.ndarray]:
    """Rows of one owner: it differs from the others in its level only."""
    x = rng.uniform(-1, 1, (n, P - 1))
    z = x @ SLOPES + level
    return (x, z + rng.normal(size=n)) if loss == "squared" else (x, np.sign(z + rng.logistic(size=n)))


def known_owners(loss: str = "squared") -> PublicSample:
    rng = np.random.default_rng(1)
    public = [np.concatenate(part) for part in zip(*(rows(v, PUBLIC, rng, loss) for v in LEVELS), strict=True)]
    labels = np.repeat([f"o{i}" for i in range(4)], PUBLIC)
    return PublicSample.of(Problem.forecasting(terms(loss), tuple(public), strata=labels))


def test_an_owner_of_its_own_level_is_forecast_with_its_own_intercept() -> None:
    """The forecast's cost of the personalized model, against models personalized on owners' records after simulated runs."""
    sample = known_owners()
    worlds = OwnerLaws(sample).drawn(12, 0)
    together = assess(sample.problem, "", 24, 0, worlds)
    seen = WithoutJoining.of(sample, [RECORDS] * 4, worlds)
    costs = [seen.on_own(together, i) for i in range(4)]

    rng, true = np.random.default_rng(2), np.append(SLOPES, 0.0)
    measured, alone = [], []
    for seed in range(3):
        data = [rows(level, RECORDS, rng) for level in LEVELS]
        common = copriv.simulate(terms(), data, runs=2, seed=seed, alone=False, own_records=False).theta
        for level, (x, y) in zip(LEVELS, data, strict=True):
            best = true + np.append(np.zeros(P - 1), level)
            home = [personalized(terms(), θ, (x, y)).theta for θ in common]
            own = np.linalg.lstsq(np.column_stack([x, np.ones(len(y))]), y, rcond=None)[0]
            M = np.append(np.full(P - 1, 1 / 3), 1.0)  # of uniform features and the intercept; the noise has variance 1
            measured.append(np.mean([M @ (θ - best) ** 2 for θ in home]))
            alone.append(M @ (own - best) ** 2)
    forecast, before = np.mean([one.personalized for one in costs]), np.mean([one.own for one in costs])
    assert before == pytest.approx(np.mean(alone), rel=0.4)
    assert forecast == pytest.approx(np.mean(measured), rel=0.5)
    assert np.mean(measured) < 0.7 * np.mean(alone), "else this test does not tell the two apart"
    assert forecast < 0.7 * before
    verdicts = [one.verdict(Asked.of("own", 0.0)) for one in costs]  # the public model, personalized, is nearly as good
    assert {one.by for one in verdicts} == {"personalized"}
    assert [one.answer for one in verdicts].count("no") == 0


@pytest.mark.parametrize(("loss", "near"), [("squared", 1e-9), ("logistic", 0.1)])
def test_the_cost_with_the_best_intercept_is_that_of_a_search(loss: str, near: float) -> None:
    world = OwnerLaws(known_owners(loss)).drawn(1, 0)[0]
    models = world.pool.optimum.theta + 0.1 * np.random.default_rng(0).normal(size=(3, P))
    for i in (0, 3):
        fitness = world.pool.fitness_of(world.pool.as_agreed(world.owners[i].law))
        found = world.on_own_with_intercept(i, models)
        best = world.owners[i].best
        assert best is not None
        for model, one in zip(models, found, strict=True):
            searched = minimize_scalar(lambda b, f=fitness, θ=model: float(f.value(np.append(θ[:-1], b)))).fun
            assert one == pytest.approx(searched / best.value - 1.0, rel=near, abs=1e-8)
        assert (found < world.on_own(i, models)).all()


def test_where_strata_tell_nothing_the_best_intercept_takes_its_part_of_what_owners_differ_by() -> None:
    """Kinds' best models, moved to their own best intercept, against the deviation that the world was dealt."""
    rng = np.random.default_rng(3)
    public = rows(0.0, 2000, rng)
    sample = PublicSample.of(Problem.forecasting(terms(), public))
    for world in heterogeneous_worlds(sample, sample.problem.terms, [0.2, 0.2], 0):
        assert world.apart is not None
        assert world.apart_with_intercept is not None
        A = sample.hessian
        for part, u, left in zip(world.parts, world.apart, world.apart_with_intercept, strict=False):
            found = world.pool.optimum_of(part, world.pool.optimum.theta)
            assert found is not None
            d = found.theta - world.pool.optimum.theta
            rest = A - np.outer(A[:, -1], A[-1]) / A[-1, -1]
            # An expansion at the pool's curvature: kinds differ in their features too.
            assert left / u == pytest.approx((d @ rest @ d) / (d @ A @ d), abs=0.15)
            assert 0.0 <= left <= u
    both = personalized_cost(np.array(0.02), np.array(1.0), np.array(0.001), 7)
    assert both == pytest.approx(0.02 / 7 + 0.02 * 6 / 7 * 0.001 / (0.02 * 6 / 7 + 0.001) + 0.05 * 0.001)
    near, own = np.array(0.01), np.array(0.02)
    assert personalized_cost(own, near, np.array(5.0), 7) == personalized_cost(own, near)


def test_the_largest_common_cost_that_pays_is_where_joining_no_longer_does() -> None:
    """By its definition, with and without an intercept of one's own."""
    for left, p in ((None, 1), (0.001, 7)):
        most = enough(0.02, 0.02, 0.005, 0.3, left, p)
        if left is None:
            assert most == 0.0  # a common model that is 0.3 off gives an owner at 0.02 nothing
            continue
        for ψ, pays in ((0.99 * most, True), (1.06 * most, False)):
            home = personalized_cost(np.array(0.02), np.array(0.3 + ψ), np.array(left + ψ * (p - 1) / p), p)
            assert ((0.02 - min(0.3 + ψ, float(home))) / 1.02 >= 0.005) is pays
    assert enough(0.02, 0.5, 0.005, 0.0) > 0.0


def test_owners_of_like_size_share_an_assessment_where_they_are_many() -> None:
    records = np.random.default_rng(0).integers(500, 5000, 5000).tolist()
    judged = WithoutJoining(np.zeros(1), np.zeros((1, 5000)), np.zeros((1, 1)))
    first = judged.assessed_as(records)
    assert len(set(first)) < 250  # as many as steps of 1 % between 500 and 5,000 records
    assert all(abs(np.log(records[i] / n)) < 0.0101 for i, n in zip(first, records, strict=True))
    assert judged.assessed_as([3000, 1000, 3000, 3001]) == [0, 1, 0, 3]
