"""Bounds in each of their forms declare the same ranges."""

import numpy as np
import pandas as pd
import pytest

from copriv import InvalidInput
from copriv.estimators import PrivateRegressor
from copriv.estimators.inputs import Ranges

LOWS, HIGHS = [0.0, -5.0, 18.0], [1.0, 5.0, 90.0]
NAMES = ["rate", "gap", "age"]
PAIRS = [(0, 1), (-5, 5), (18, 90)]


@pytest.mark.parametrize(
    "bounds",
    [
        (LOWS, HIGHS), PAIRS, tuple(PAIRS), np.array(PAIRS), [list(one) for one in PAIRS],
        dict(zip(NAMES, PAIRS, strict=True)), dict(reversed(list(zip(NAMES, PAIRS, strict=True)))),
    ],
)  # fmt: skip
def test_every_form_declares_the_same(bounds) -> None:
    ranges = Ranges.declared("bounds", bounds, 3, True, NAMES)
    np.testing.assert_array_equal(ranges.low, LOWS)
    np.testing.assert_array_equal(ranges.high, HIGHS)


def test_one_column_takes_one_pair() -> None:
    for bounds in ((2, 7), [(2, 7)], {"a": (2, 7)}, ([2], [7])):
        ranges = Ranges.declared("bounds", bounds, 1, True, ["a"])
        assert (ranges.low.tolist(), ranges.high.tolist()) == ([2.0], [7.0])


def test_two_lows_and_two_highs_stay_what_they_were_and_what_may_be_either_is_refused() -> None:
    for bounds in (([0, 1], [5, 9]), ((0, 1), (5, 9)), np.array([[0, 1], [5, 9]]), [[0, 1], [5, 9]], [(0, 1), (1, 9)]):
        ranges = Ranges.declared("bounds", bounds, 2, True)
        assert ranges.low.tolist() == [0.0, 1.0]
    with pytest.raises(InvalidInput, match="the two lows and the two highs; give a mapping"):
        Ranges.declared("bounds", [(0, 1), (5, 9)], 2, True)


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ({"rate": (0, 1), "gap": (0, 1)}, "says nothing of age"),
        ({**dict(zip(NAMES, PAIRS, strict=True)), "agee": (0, 1)}, "X has no agee"),
        (dict.fromkeys(NAMES, 3), "of column 'rate' must be a pair"),
        ({"rate": (0, 1), "gap": (0, 1, 2), "age": (0, 1)}, "of column 'gap' must be a pair"),
        ({**dict(zip(NAMES, PAIRS, strict=True)), "age": (90, 18)}, "low must be"),
        ({**dict(zip(NAMES, PAIRS, strict=True)), "age": ("18", "old")}, "of column 'age' must be a pair"),
        ([(0, 1), (0, 1), (0, 1, 2)], "a .low, high. for each column"),
        ([(0, 1)] * 4, "a .low, high. for each column"),
    ],
)
def test_a_wrong_form_is_told(bounds, says: str) -> None:
    with pytest.raises(InvalidInput, match=f"^bounds: .*{says}"):
        Ranges.declared("bounds", bounds, 3, True, NAMES)


def test_a_table_is_fitted_by_names_and_an_array_needs_none() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(LOWS, HIGHS, (400, 3)), columns=NAMES)
    y = X["rate"] + 0.1 * X["gap"] - 0.02 * X["age"]
    by_name = {"age": (18, 90), "gap": (-5, 5), "rate": (0, 1)}
    model = PrivateRegressor(epsilon=1e5, bounds=by_name, target_bounds=(-3, 2)).fit(X, y)
    np.testing.assert_allclose(model.coef_, [1, 0.1, -0.02], atol=0.01)
    with pytest.raises(InvalidInput, match="the columns of X have no names; give a DataFrame"):
        model.fit(X.to_numpy(), y)
    with pytest.raises(InvalidInput, match="target_bounds: is by column name"):
        model.set_params(target_bounds={"y": (0, 1)}).fit(X, y)


@pytest.mark.parametrize("bounds", [(0.0, 5e-324), (-1e-309, 1e-309), (0.0, 1e-31)])
def test_a_range_that_leaves_no_finite_coefficient_is_refused_before_a_charge(bounds) -> None:
    """Coefficients were infinite and predictions no numbers, charged."""
    model = PrivateRegressor(bounds=bounds, target_bounds=(0.0, 1.0))
    with pytest.raises(InvalidInput, match=r"bounds: a range must be at least 1e-30 wide, or of one value"):
        model.fit([[0.0]] * 20, [0.5] * 20)
    assert not hasattr(model, "privacy_spent_")


def test_a_range_of_one_value_is_one() -> None:
    assert Ranges.declared("bounds", (2.0, 2.0), 3, True).size.tolist() == [0.0] * 3
