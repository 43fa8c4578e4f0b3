"""The moments in L2: how far two rows can be apart, and what an answer without noise leads to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from copriv.losses import Squared
from copriv.mechanisms.moments import WEIGHT, BoundedMoments
from copriv.model.records import Records
from copriv.privacy.clipping import unpack
from copriv.rules import PLAIN, SolveStatistics


def apart(at: np.ndarray, weight: float) -> float:
    """Distance of two rows of three columns with slopes at ±1, everything drawn into the ball, by full matrices."""
    (x, s), (z, t) = ((row[:3] / max(1.0, float(np.linalg.norm(row[:3]))), np.tanh(row[3])) for row in at.reshape(2, 4))
    second = np.outer(x, x) - np.outer(z, z)
    return float(np.sqrt(np.square(s * x - t * z).sum() + weight * np.square(second).sum()))


def furthest(weight: float) -> float:
    rng = np.random.default_rng(0)
    found = (minimize(lambda v: -apart(v, weight), rng.normal(size=8), method="Nelder-Mead") for _ in range(30))
    return max(-one.fun for one in found)


def test_two_rows_are_never_further_apart_than_two() -> None:
    assert 1.98 < furthest(WEIGHT) <= 2.0 + 1e-9


def test_a_larger_weight_is_not_free() -> None:
    assert furthest(1.0) == pytest.approx(np.sqrt(4.5), abs=0.02)


@pytest.mark.parametrize("intercept", [False, True])
def test_what_leaves_is_the_gradient_and_second_moments_of_rows_that_count_less_when_long(intercept: bool) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 3))
    if intercept:
        x[:, -1] = 1.0
    y, θ, r = rng.uniform(-1, 1, 50), rng.normal(size=3) / 10, 1.5
    got = BoundedMoments(1e3, r, intercept, 3).of(Squared(), Records.of(x, y), θ)
    w = np.minimum(1.0, r / np.linalg.norm(x, axis=1)) ** 2
    np.testing.assert_allclose(got[:3], (w * 2 * (x @ θ - y)) @ x / 50)
    np.testing.assert_allclose(unpack(got[3:], 3), (w[:, None] * x).T @ x / 50)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_scale_of_columns_is_as_if_they_came_in_that_unit(intercept: bool) -> None:
    rng, r, Ξ, c = np.random.default_rng(2), 1.5, 0.7, 8.0
    x, u = 0.1 * rng.normal(size=(50, 3)), np.full(3, c)
    if intercept:
        x[:, -1], u[-1] = 1.0, 1.0
    y, θ = rng.uniform(-1, 1, 50), rng.normal(size=3) / 10
    plain, scaled = (BoundedMoments(Ξ, r, intercept, 3, factors) for factors in (1.0, u))
    np.testing.assert_allclose(
        scaled.of(Squared(), Records.of(x, y), θ) / scaled.unit,
        plain.of(Squared(), Records.of(u * x, y), θ / u) / plain.unit,
    )


def test_the_learner_solves_in_the_unit_in_which_noise_is_alike() -> None:
    rng, c = np.random.default_rng(3), 8.0
    x, y = 0.1 * rng.normal(size=(50, 2)), rng.uniform(-1, 1, 50)
    noise, models = rng.normal(size=5) / 50, []
    for scale in (1.0, c):
        moments = BoundedMoments(0.7, 1.5, False, 2, np.full(2, scale))
        rows = Records.of(x if scale == c else c * x, y)
        answer = moments.of(Squared(), rows, np.zeros(2)) + noise * moments.unit
        rule = SolveStatistics(PLAIN, np.ones(1), np.array([0.02 * moments.second]), 0, 1.0, moments.factors)
        models.append(rule.model(rule.step(rule.start(np.zeros((1, 2))), np.array([0]), answer[None]))[0])
    np.testing.assert_allclose(models[1], c * models[0])


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=2, max_size=2), st.floats(0.01, 100))
def test_no_unit_moves_scaled_moments_further_than_two(rows: list[list[float]], scale: float) -> None:
    moments = BoundedMoments(0.7, 1.5, True, 3, np.array([scale, 1.0, 1.0]))
    one, other = (moments.of(Squared(), Records.of([[a, b, 1.0]], [y]), np.zeros(3)) / moments.unit for a, b, y in rows)
    assert np.linalg.norm(one - other) <= 2.0 + 1e-9
