"""How much noise a budget buys, against the formula in exact fractions."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.errors import InvalidInput
from copriv.privacy.noise import epsilon_per_answer, laplace_scale

positive = st.floats(1e-6, 1e6)
counts = st.integers(1, 10**6)


@given(bound=positive, m=counts, n=counts, epsilon=positive, overlap=st.integers(1, 20))
def test_scale_is_the_formula(bound: float, m: int, n: int, epsilon: float, overlap: int) -> None:
    exact = 2 * Fraction(bound) * m * overlap / (n * Fraction(epsilon))
    assert laplace_scale(bound, m, n, epsilon, overlap) == pytest.approx(float(exact), rel=1e-14)


def test_scale_by_hand() -> None:
    assert laplace_scale(5.0, 1000, 10_000, 1.0) == 1.0  # the papers' own setting: m = T = 1,000
    assert laplace_scale(5.0, 8, 10_000, 1.0) == pytest.approx(0.008)  # capped at 8 answers: 125 times less
    assert laplace_scale(5.0, 8, 10_000, 1.0, overlap=3) == pytest.approx(0.024)


@given(epsilon=positive, m=counts, overlap=st.integers(1, 20))
def test_answers_of_all_overlapping_owners_spend_exactly_epsilon(epsilon: float, m: int, overlap: int) -> None:
    one = epsilon_per_answer(epsilon, m, overlap)
    assert isinstance(one, Fraction)
    assert one * m * overlap == Fraction(epsilon)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_what_is_not_positive_and_finite_is_refused(bad: float) -> None:
    with pytest.raises(InvalidInput, match="gradient_bound"):
        laplace_scale(bad, 1, 1, 1.0)
    with pytest.raises(InvalidInput, match="epsilon"):
        laplace_scale(1.0, 1, 1, bad)
    with pytest.raises(InvalidInput, match="epsilon"):
        epsilon_per_answer(bad, 1)


@pytest.mark.parametrize("bad", [0, -1, True])
def test_counts_are_whole_numbers_of_at_least_one(bad: int) -> None:
    for name, arguments in {
        "answers": (1.0, bad, 1, 1.0),
        "records": (1.0, 1, bad, 1.0),
        "overlap": (1.0, 1, 1, 1.0, bad),
    }.items():
        with pytest.raises(InvalidInput, match=name):
            laplace_scale(*arguments)
    with pytest.raises(InvalidInput, match="answers"):
        epsilon_per_answer(1.0, bad)
    with pytest.raises(InvalidInput, match="overlap"):
        epsilon_per_answer(1.0, 1, bad)
