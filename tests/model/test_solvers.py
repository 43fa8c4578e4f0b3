"""θ* of tables that solvers find hard, against linear programmes and brute force; and that it is found within a second."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from copriv import losses
from copriv.errors import InvalidInput, NotCertified
from copriv.model.fitness import FeasibleSet, Fitness, Regularizer, relative_fitness
from copriv.model.records import Records

LOSSES = [losses.Squared(), losses.Logistic(), losses.Huber(0.5), losses.Hinge()]
KINDS = ["normal", "scales", "constant", "rare", "heavy", "categories", "correlated"]


def table(seed: int, kind: str, n: int, p: int, labels: bool, signal: float = 1.0) -> Records:
    rng = np.random.default_rng([seed, n, p])
    x = rng.standard_t(3, size=(n, p)) if kind == "heavy" else rng.normal(size=(n, p))
    if kind == "scales":
        x = x * 10.0 ** rng.uniform(-2, 2, size=p)
    if kind == "constant":
        x[:, 0], x[:, 1] = 0.0, 7.0
    if kind == "categories":
        x[:, : p // 2] = np.eye(p // 2)[rng.integers(0, p // 2, n)]
    if kind == "correlated":
        x[:, 1:] = x[:, :1] + 1e-3 * x[:, 1:]
    spread = x.std(axis=0)
    theta = np.where(spread > 0, rng.normal(size=p) / np.where(spread > 0, spread, 1.0), 0.0) / np.sqrt(p)
    z = signal * (x @ theta)
    if labels:
        offset = -3.0 if kind == "rare" else 0.0
        return Records.of(x, np.where(rng.random(n) < 1 / (1 + np.exp(-z - offset)), 1.0, -1.0))
    return Records.of(x, z + rng.normal(size=n))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("c", [0.0, 1e-5, 1e-2])
@pytest.mark.parametrize("kind", KINDS)
def test_any_table_has_its_optimum_certified(loss, c, kind):
    r = table(1, kind, 300, 8, loss.name in ("logistic", "hinge"))
    f = Fitness(loss, Regularizer(c), FeasibleSet(1e5), r)
    best = f.minimum()
    assert best.gap <= 1e-8 * best.value
    rng = np.random.default_rng(0)
    around = best.theta + rng.normal(size=(2000, 8)) * np.geomspace(1e-8, 1, 2000)[:, None] * (1 + np.abs(best.theta))
    rounding = 1e-10 * best.value  # of a value, where features cancel
    assert f.value(around).min() >= best.value - best.gap - rounding


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("kind", ["normal", "scales", "heavy"])
@pytest.mark.parametrize(("c", "signal"), [(0.0, 1.0), (0.0, 30.0), (1e-5, 30.0)])
def test_five_thousand_records_of_sixty_features_take_less_than_a_second(loss, kind, c, signal):
    """Of the processor, all its threads together."""
    f = Fitness(
        loss, Regularizer(c), FeasibleSet(1e5), table(2, kind, 5000, 60, loss.name in ("logistic", "hinge"), signal)
    )
    begun = time.process_time()
    best = f.minimum()
    assert time.process_time() - begun < 1.0
    assert best.gap <= 1e-8 * best.value


@given(seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_a_hinge_without_regulariser_is_its_linear_programme(seed):
    r = table(seed, "scales", 120, 5, True)
    n, p = r.features.shape
    A = np.hstack([-r.features * r.target[:, None], -np.eye(n)])
    cost = np.concatenate([np.zeros(p), np.full(n, 1 / n)])
    theirs = linprog(cost, A, -np.ones(n), bounds=[(-1e5, 1e5)] * p + [(0, None)] * n)
    found = Fitness(losses.Hinge(), Regularizer(0.0), FeasibleSet(1e5), r).minimum()
    assert found.value == pytest.approx(theirs.fun, rel=1e-8, abs=1e-10)


@given(seed=st.integers(0, 10**6), near=st.floats(-3, 3))
@settings(max_examples=4, deadline=None)
def test_where_one_looks_first_changes_nothing(seed, near):
    for loss in (losses.Logistic(), losses.Huber(0.5), losses.Hinge()):
        r = table(seed, "normal", 150, 4, loss.name in ("logistic", "hinge"))
        f = Fitness(loss, Regularizer(1e-3), FeasibleSet(1e5), r)
        assert f.minimum(np.full(4, near)).value == pytest.approx(f.minimum().value, rel=3e-8)


def test_classes_that_only_one_feature_separates_still_have_an_optimum():
    """A level that only one class has: the fitness has an infimum, and ψ is relative to it."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=400), rng.random(400) < 0.05])
    y = np.where(rng.random(400) < 1 / (1 + np.exp(-x[:, 0])), 1.0, -1.0)
    y[x[:, 1] == 1] = 1.0
    f = Fitness(losses.Logistic(), Regularizer(0.0), FeasibleSet(1e5), Records.of(x, y))
    rest = Records.of(x[x[:, 1] == 0, :1], y[x[:, 1] == 0])
    without = Fitness(losses.Logistic(), Regularizer(0.0), FeasibleSet(1e5), rest).minimum()
    assert f.minimum().value == pytest.approx(without.value * len(rest) / 400, rel=1e-8)


def test_classes_that_can_be_separated_have_none_and_the_remedy_is_named():
    x = np.linspace(-1, 1, 50)[:, None]
    r = Records.of(x, np.where(x[:, 0] > 0, 1.0, -1.0))
    with pytest.raises(NotCertified, match=r"separated.*model\.regularization above 0"):
        Fitness(losses.Logistic(), Regularizer(0.0), FeasibleSet(1e5), r).minimum()
    hinge = Fitness(losses.Hinge(), Regularizer(0.0), FeasibleSet(1e5), r).minimum()
    with pytest.raises(InvalidInput, match=r"model\.regularization above 0"):
        relative_fitness(np.array([1.0]), hinge)
    assert Fitness(losses.Logistic(), Regularizer(1e-3), FeasibleSet(1e5), r).minimum().value > 0


def test_records_that_are_fitted_exactly_have_an_optimum_of_zero():
    rng = np.random.default_rng(0)
    found = Fitness(
        losses.Squared(), Regularizer(0.0), FeasibleSet(1e5), Records.of(rng.normal(size=(5, 9)), rng.normal(size=5))
    )
    assert found.minimum().value == 0.0


@pytest.mark.parametrize(
    "loss", [losses.Logistic(), losses.Huber(0.5), losses.SmoothedHinge(0.2)], ids=lambda one: one.name
)
def test_the_proof_from_the_hessian_holds_away_from_the_optimum(loss):
    """Wherever it gives a bound, the bound is above the true gap; and it gives one near the optimum."""
    from copriv.model.newton import Penalized
    from copriv.model.solvers import _gap

    r = table(3, "normal", 200, 3, loss.name != "huber")
    f = Fitness(loss, Regularizer(1e-2), FeasibleSet(1e5), r)
    best, rng, given = f.minimum(), np.random.default_rng(1), 0
    y, share = r.target, r.weight / r.weight.sum()
    g = Penalized(
        r.features, share, lambda z: loss.slope(z, y), lambda z: loss.bend(z, y), 1e-2 * np.eye(3), np.zeros(3)
    )
    for size in np.geomspace(1e-6, 1.0, 60):
        u = best.theta + size * rng.normal(size=3)
        bound = _gap(loss, g, y, u)
        true = float(f.value(u)) - best.value
        assert bound >= true * (1 - 1e-6) - 1e-14
        given += bool(np.isfinite(bound))
    assert given >= 5
    theirs = minimize(lambda t: (float(f.value(t)), f.gradient(t)), np.zeros(3), jac=True, tol=1e-14)
    assert best.value <= theirs.fun + 1e-12
