"""The moments in L2: how far two rows can be apart, and what an answer without noise leads to."""

import numpy as np
import pytest
from scipy.optimize import minimize

from copriv.losses import Squared
from copriv.mechanisms.moments import WEIGHT, BoundedMoments
from copriv.model.records import Records
from copriv.privacy.clipping import unpack


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
