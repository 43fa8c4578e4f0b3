"""The certified optimum against scipy and scikit-learn, and its certificates against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, lsq_linear, minimize
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import oracle
from copriv import losses
from copriv.errors import InvalidInput
from copriv.model.fitness import FeasibleSet, Fitness, Quadratic, Regularizer, gradient_bound_over, relative_fitness
from copriv.model.records import Records
from copriv.model.solvers import programme_minimum


def records(seed: int, n: int = 300, p: int = 4, labels: bool = False, flip: float = 0.1) -> Records:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.geomspace(1, 0.05, p)
    y = X @ rng.normal(size=p) + 0.3 * rng.normal(size=n)
    if labels:
        y = np.where(rng.random(n) < flip, -1.0, 1.0) * np.sign(y)
    return Records.of(X, y)


def fitness(loss, r, c=1e-3, box=1e5) -> Fitness:
    return Fitness(loss, Regularizer(c), FeasibleSet(box), r)


@given(seed=st.integers(0, 10**6), c=st.floats(1e-6, 1.0))
@settings(max_examples=25)
def test_squared_is_ridge_regression(seed, c):
    r = records(seed)
    best = fitness(losses.Squared(), r, c).minimum()
    ridge = Ridge(alpha=c / 2 * len(r), fit_intercept=False, tol=1e-12).fit(r.features, r.target)
    np.testing.assert_allclose(best.theta, ridge.coef_, rtol=1e-7, atol=1e-9)


@given(seed=st.integers(0, 10**6), box=st.floats(0.05, 0.8))
@settings(max_examples=25)
def test_squared_on_the_box_is_bounded_least_squares(seed, box):
    r = records(seed)
    best = fitness(losses.Squared(), r, 0.0, box).minimum()
    theirs = lsq_linear(r.features, r.target, bounds=(-box, box), tol=1e-14)
    assert best.value == pytest.approx(2 * theirs.cost / len(r), rel=1e-8)


@given(seed=st.integers(0, 10**6), c=st.floats(1e-4, 1.0))
@settings(max_examples=15)
def test_logistic_is_scikit_learns(seed, c):
    r = records(seed, labels=True)
    f = fitness(losses.Logistic(), r, c)
    theirs = LogisticRegression(C=1 / (c * len(r)), fit_intercept=False, tol=1e-12, max_iter=10_000)
    theirs.fit(r.features, r.target)
    assert f.minimum().value <= float(f.value(theirs.coef_[0])) * (1 + 1e-8)
    assert f.minimum().value == pytest.approx(float(f.value(theirs.coef_[0])), rel=1e-8)


@given(seed=st.integers(0, 10**6), c=st.floats(1e-3, 1.0))
@settings(max_examples=15)
def test_hinge_is_scikit_learns(seed, c):
    r = records(seed, labels=True)
    f = fitness(losses.Hinge(), r, c)
    svm = LinearSVC(loss="hinge", C=1 / (c * len(r)), fit_intercept=False, tol=1e-10, max_iter=2_000_000)
    theirs = float(f.value(svm.fit(r.features, r.target).coef_[0]))
    best = f.minimum()
    assert best.value <= theirs * (1 + 1e-8)
    assert best.value == pytest.approx(theirs, rel=1e-6)  # liblinear's own accuracy; ours is proved
    assert best.gap <= 1e-8 * best.value


@pytest.mark.parametrize("box", [1e5, 0.3])
def test_hinge_without_regulariser_is_a_linear_programme(box):
    r = records(5, n=200, labels=True)
    n, p = r.features.shape
    margin = r.features * r.target[:, None]
    A = np.hstack([-margin, -np.eye(n)])
    theirs = linprog(
        np.concatenate([np.zeros(p), np.full(n, 1 / n)]), A, -np.ones(n), bounds=[(-box, box)] * p + [(0, None)] * n
    )
    assert fitness(losses.Hinge(), r, 0.0, box).minimum().value == pytest.approx(theirs.fun, rel=1e-8)


@given(seed=st.integers(0, 10**6), box=st.sampled_from([1e5, 0.4]))
@settings(max_examples=15)
def test_huber_is_scipys(seed, box):
    r = records(seed)
    f = fitness(losses.Huber(0.2), r, 1e-3, box)
    theirs = minimize(
        lambda t: (float(f.value(t)), f.gradient(t)), np.zeros(4), jac=True, method="L-BFGS-B",
        bounds=[(-box, box)] * 4, options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": 10_000},
    )  # fmt: skip
    assert f.minimum().value <= theirs.fun * (1 + 1e-9)
    assert f.minimum().value == pytest.approx(theirs.fun, rel=1e-7)


def test_own_loss_with_a_kink_is_certified():
    r = records(3, n=150)
    absolute = losses.CustomLinear("absolute", lambda z, y: np.abs(z - y), lambda z, y: np.sign(z - y), smooth=False)
    best = fitness(absolute, r, 0.0, 10.0).minimum()
    n, p = r.features.shape
    A = np.block([[r.features, -np.eye(n)], [-r.features, -np.eye(n)]])
    cost = np.concatenate([np.zeros(p), np.full(n, 1 / n)])
    theirs = linprog(cost, A, np.concatenate([r.target, -r.target]), bounds=[(-10, 10)] * p + [(0, None)] * n)
    assert best.value == pytest.approx(theirs.fun, rel=1e-8)


@pytest.mark.parametrize("loss", [losses.Squared(), losses.Hinge(), losses.Logistic(), losses.Huber()])
def test_the_gap_is_a_proof(loss):
    """No point found by search is lower than value − gap."""
    r = records(8, labels=loss.name in ("hinge", "logistic"))
    f = fitness(loss, r, 1e-2, 0.5)
    best = f.minimum()
    rng = np.random.default_rng(0)
    around = np.clip(best.theta + rng.normal(size=(5000, 4)) * np.geomspace(1e-6, 1, 5000)[:, None], -0.5, 0.5)
    assert f.value(around).min() >= best.value - best.gap - 1e-12


def test_value_is_the_oracles_for_weights_and_blocks():
    r = records(2, n=50, labels=True)
    theta = np.random.default_rng(1).normal(size=(3, 4))
    owners = [list(zip(r.features, map(float, r.target), strict=True))]
    for name, loss in (("squared", losses.Squared()), ("hinge", losses.Hinge()), ("logistic", losses.Logistic())):
        f = fitness(loss, r, 0.1)
        expected = [oracle.fitness(name, owners, t, 0.1) for t in theta]
        np.testing.assert_allclose(f.value(theta), expected, rtol=1e-12)
        np.testing.assert_allclose(f.value(theta, block=7), expected, rtol=1e-12)
    twice = Records.of(np.repeat(r.features, 2, axis=0), np.repeat(r.target, 2))
    weighted = Records.of(r.features, r.target, np.full(50, 2.0))
    assert weighted.units == twice.units
    a, b = Quadratic.of(twice, Regularizer(0.1)), Quadratic.of(weighted, Regularizer(0.1))
    np.testing.assert_allclose(a.H, b.H, rtol=1e-12)
    np.testing.assert_allclose(twice.distinct().weight.sum(), 100)


def test_constants():
    r = records(4)
    f = fitness(losses.Squared(), r, 0.2)
    eigenvalues = np.linalg.eigvalsh(2 * r.features.T @ r.features / len(r) + 0.2 * np.eye(4))
    assert f.smoothness() == pytest.approx(eigenvalues[-1])
    assert f.strong_convexity() == pytest.approx(eigenvalues[0])
    assert fitness(losses.Hinge(), records(4, labels=True), 0.2).smoothness() == np.inf
    assert fitness(losses.Hinge(), records(4, labels=True), 0.2).strong_convexity() == 0.2
    assert Regularizer(0.5).bound(2.0, 3) == 3.0
    assert FeasibleSet(2.0).diameter(4) == 8.0


def test_relative_fitness_needs_a_positive_optimum():
    r = Records.of([[1.0]], [1.0])
    exact = fitness(losses.Squared(), r, 0.0).minimum()
    with pytest.raises(InvalidInput, match="f\\(θ\\*\\)"):
        relative_fitness(np.array([1.0]), exact)


def test_bound_that_cannot_be_proved_says_what_to_do():
    custom = losses.Custom("own", lambda t, X, y: y, lambda t, X, y: X)
    with pytest.raises(InvalidInput, match="enforced by clipping"):
        gradient_bound_over(custom, 1.0, 1.0, FeasibleSet(1.0))


@pytest.mark.parametrize("c", [1e-5, 1e-3, 1.0])
@pytest.mark.parametrize("apart", [1.5, 6.0])
def test_a_rounded_hinge_has_the_optimum_of_the_quadratic_programme(c, apart):
    """Of classes that overlap, and of classes that can be separated, where f(θ*) is a millionth of f(0)."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(2000) < 0.05, 1.0, -1.0)
    x = np.column_stack([rng.normal(size=(2000, 3)) + apart * y[:, None], np.ones(2000)])
    f = Fitness(losses.Hinge(), Regularizer(c), FeasibleSet(1e5), Records.of(x, y, rng.uniform(0.5, 2.0, 2000)))
    found = f.minimum()
    whole = programme_minimum(f, found.value)
    assert found.value == pytest.approx(whole.value, rel=1e-7)
    assert found.gap <= 1e-8 * found.value
    assert found.value == pytest.approx(float(f.value(found.theta)), rel=1e-12)


def test_where_the_box_holds_a_hinge_back_the_programme_is_solved():
    r = records(4, labels=True)
    f = Fitness(losses.Hinge(), Regularizer(1e-3), FeasibleSet(0.1), r)
    found = f.minimum()
    assert np.abs(found.theta).max() == pytest.approx(0.1)
    assert found.value == pytest.approx(programme_minimum(f, 1.0).value, rel=1e-7)
