"""The mechanism's refusals and what it certifies; `statistical/` tests its noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from copriv.errors import InvalidInput
from copriv.privacy.clipping import mean_sensitivity
from copriv.privacy.laplace import LaplaceAnswer
from copriv.privacy.noise import GRID, epsilon_per_answer, laplace_scale

MECHANISM = LaplaceAnswer(0.01, Fraction(1, 3), 4)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("at", [0, 3])
def test_what_is_not_finite_is_refused(bad: float, at: int) -> None:
    value = np.zeros(4)
    value[at] = bad
    with pytest.raises(InvalidInput, match="finite"):
        MECHANISM.release(value)


@pytest.mark.parametrize("shape", [(3,), (5,), (0,), (1, 4), (4, 1), ()])
def test_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    # The runtime checker of shapes sees some of these before the mechanism does; without it, the mechanism must.
    release = getattr(LaplaceAnswer.release, "__wrapped__", LaplaceAnswer.release)
    with pytest.raises(InvalidInput, match="expected 4 numbers"):
        release(MECHANISM, np.zeros(shape))


@given(
    bound=st.floats(1e-3, 1e4),
    n=st.integers(1, 10**7),
    epsilon=st.floats(1e-3, 100),
    m=st.integers(1, 2000),
    overlap=st.integers(1, 5),
    p=st.integers(1, 200),
)
def test_the_certificate_holds_and_the_scale_is_never_below_the_formula(
    bound: float, n: int, epsilon: float, m: int, overlap: int, p: int
) -> None:
    per_answer, sensitivity = epsilon_per_answer(epsilon, m, overlap), mean_sensitivity(bound, n)
    assume(sensitivity > 200 * p * 2.0**GRID)
    mechanism = LaplaceAnswer(sensitivity, per_answer, p)
    assert Fraction(mechanism._calibrated[1].map(mechanism.sensitivity)) <= per_answer
    least = 2 * Fraction(bound) * m * overlap / (n * Fraction(epsilon))
    assert least <= Fraction(mechanism.scale) <= least * Fraction(102, 100)
    assert mechanism.scale == pytest.approx(laplace_scale(bound, m, n, epsilon, overlap), rel=0.02)


def test_many_records_do_not_meet_the_grid() -> None:
    """A million records, Ξ = 1 and p = 100: 2Ξ/n is still two million grid steps, and must not be refused."""
    mechanism = LaplaceAnswer(mean_sensitivity(1.0, 10**6), Fraction(1, 8), 100)
    assert Fraction(mechanism._calibrated[1].map(mechanism.sensitivity)) <= Fraction(1, 8)
    assert mechanism.scale == pytest.approx(1.6e-5, rel=1e-3)


def test_a_sensitivity_near_the_grid_is_refused_when_the_mechanism_is_made() -> None:
    with pytest.raises(InvalidInput, match=r"too close to the grid.*smaller units"):
        LaplaceAnswer(2.0**GRID, Fraction(1), 1)


def test_draws_are_on_the_grid() -> None:
    """The low-order bits of what is released are those of the grid, and not of the value."""
    value = np.array([1 / 3, math.pi / 10, 1e-17, 0.0])
    for _ in range(50):
        steps = MECHANISM.release(value) * 2.0**-GRID
        assert (steps == np.round(steps)).all()


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_the_sensitivity_is_positive(bad: float) -> None:
    with pytest.raises(InvalidInput, match="sensitivity"):
        LaplaceAnswer(bad, Fraction(1), 1)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1, 3)])
def test_epsilon_is_positive(bad: Fraction) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        LaplaceAnswer(1.0, bad, 1)


@pytest.mark.parametrize("bad", [0, -2, True])
def test_there_is_something_to_release(bad: int) -> None:
    with pytest.raises(InvalidInput, match="length"):
        LaplaceAnswer(1.0, Fraction(1), bad)


def test_two_releases_of_one_value_differ() -> None:
    draws = {MECHANISM.release(np.zeros(4)).tobytes() for _ in range(100)}
    assert len(draws) == 100
