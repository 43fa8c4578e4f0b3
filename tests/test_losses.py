"""Losses against finite differences, an independent writing, and random search for a gradient above Ξ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from copriv import losses
from copriv.errors import DataError, InvalidInput

ALL = {
    "squared": (losses.Squared(), "squared"),
    "logistic": (losses.Logistic(), "logistic"),
    "hinge": (losses.Hinge(), "hinge"),
    "huber": (losses.Huber(0.7), ("huber", 0.7)),
}
MARGIN = ("logistic", "hinge")


def sample(name: str, seed: int, n: int = 12, p: int = 4):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, p)), rng.normal(size=n) * 2
    return rng.normal(size=p), X, np.where(y > 0, 1.0, -1.0) if name in MARGIN else y


@pytest.mark.parametrize("name", ALL)
@given(seed=st.integers(0, 10**6))
def test_values_and_gradients_are_the_oracles(name, seed):
    loss, other = ALL[name]
    theta, X, y = sample(name, seed)
    values, gradients = loss.values(theta, X, y), loss.gradients(theta, X, y)
    for i in range(len(y)):
        assert values[i] == pytest.approx(oracle.loss_value(other, theta, X[i], y[i]), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(gradients[i], oracle.loss_gradient(other, theta, X[i], y[i]), atol=1e-12)


@pytest.mark.parametrize("name", ALL)
@given(seed=st.integers(0, 10**6))
def test_slope_is_the_derivative_of_value(name, seed):
    loss, _ = ALL[name]
    theta, X, y = sample(name, seed)
    z, h = X @ theta, 1e-6
    away = (np.abs(y * z - 1) > 1e-4) & (np.abs(np.abs(z - y) - 0.7) > 1e-4)
    numeric = (loss.value(z + h, y) - loss.value(z - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.slope(z, y)[away], numeric[away], atol=1e-6)


@pytest.mark.parametrize("name", ALL)
@given(seed=st.integers(0, 10**6), B=st.floats(0.1, 5), theta_max=st.floats(0.1, 5), bound=st.floats(0.1, 5))
def test_the_proved_bound_holds_and_is_reached(name, seed, B, theta_max, bound):
    """No record in the declared bounds has a larger gradient, and one in the corner comes within 1 % of it."""
    loss, _ = ALL[name]
    rng = np.random.default_rng(seed)
    Y = 1.0 if name in MARGIN else bound
    Ξ = loss.gradient_bound(B, Y, theta_max)
    X = rng.dirichlet(np.ones(3), size=200) * rng.choice([-1, 1], size=(200, 3)) * B
    theta = rng.uniform(-theta_max, theta_max, size=3)
    y = rng.choice([-1.0, 1.0], size=200) * Y
    assert np.abs(loss.gradients(theta, X, y)).sum(axis=1).max() <= Ξ * (1 + 1e-12)
    corner_x, corner_theta = np.array([[B, 0.0, 0.0]]), np.full(3, -theta_max)
    corner = np.abs(loss.gradients(corner_theta, corner_x, np.array([Y]))).sum()
    assert corner >= 0.99 * Ξ


@pytest.mark.parametrize("name", ALL)
@given(seed=st.integers(0, 10**6))
def test_curvature_bounds_the_second_difference(name, seed):
    loss, _ = ALL[name]
    theta, X, y = sample(name, seed)
    if not np.isfinite(loss.curvature):
        return
    z, h = X @ theta, 1e-2
    second = (loss.slope(z + h, y) - loss.slope(z - h, y)) / (2 * h)
    assert (second <= loss.curvature * (1 + 1e-9)).all()
    assert (second >= -1e-12).all()


@pytest.mark.parametrize("name", MARGIN)
def test_labels_must_fit(name):
    with pytest.raises(DataError, match=r"record 2, counted from 1, is 0; the .* loss needs labels"):
        ALL[name][0].check_target(np.array([1.0, 0.0]))


def test_numbers_must_be_finite():
    for name in ("squared", "huber"):
        with pytest.raises(DataError, match="row 1"):
            ALL[name][0].check_target(np.array([1.0, np.nan]))


def test_unknown_loss_is_named():
    with pytest.raises(InvalidInput, match="absolute"):
        losses.by_name("absolute")


def test_extreme_predictions_do_not_overflow():
    z = np.array([-1e6, 1e6])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert np.isfinite(losses.Logistic().value(z, np.ones(2))).all()
        assert np.isfinite(losses.Logistic().slope(z, np.ones(2))).all()
