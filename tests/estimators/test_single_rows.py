"""What one row may not do to a fit: be told by a warning or an error, or end the fit after it was charged."""

import warnings
from typing import Any

import numpy as np
import pytest

from copriv.errors import CoprivError
from copriv.estimators import PrivateClassifier, PrivateRegressor, SharedLedger

ROWS = 1000


def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (ROWS, 2)), rng.uniform(-1, 1, ROWS)


@pytest.mark.parametrize("odd", [1e-310, 5e-324, 1e300, -1e308])
@pytest.mark.parametrize("how", [{}, {"loss": "huber"}, {"delta": 1e-6}])
def test_no_floating_point_warning_follows_from_a_row(odd: float, how: dict[str, Any]) -> None:
    """Where warnings are errors, such a row ended a fit after the charge."""
    X, y = rows()
    X[-1] = [odd, 0.0]
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        model = PrivateRegressor(bounds=(-1, 1), target_bounds=(-1, 1), fit_intercept=False, **how).fit(X, y)
    assert model.privacy_spent_.epsilon == 1.0


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp <= 1024, reason="no longer float than 64 bits here")
def test_a_target_that_only_a_longer_float_holds_is_refused_without_a_warning() -> None:
    """It was finite before it was made a float of 64 bits, whose overflow was warned of, and the fit went on."""
    X, y = rows()
    y = y.astype(np.longdouble)
    y[-1] = np.longdouble("1e400")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="y contains NaN or infinity"):
            PrivateRegressor(bounds=(-1, 1), target_bounds=(-1, 1)).fit(X, y)


def test_no_floating_point_warning_follows_from_a_weight() -> None:
    X, y = rows()
    weights = np.ones(ROWS)
    weights[-1] = 1e300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateRegressor(bounds=(-1, 1), target_bounds=(-1, 1), weight_cap=1e-9).fit(X, y, sample_weight=weights)


SMALL = np.where(np.arange(5000) < 50, "a", "b")


@pytest.mark.parametrize(
    ("model", "owners"),
    [
        (PrivateRegressor(loss="huber", threshold=1e-12), SMALL),
        (PrivateRegressor(loss="huber", threshold=1e30), None),
        (PrivateRegressor(regularization=1e10), None),
        (PrivateClassifier(regularization=1e12, classes=(False, True)), None),
    ],
)
def test_a_fit_is_refused_before_anything_is_spent_or_not_at_all(model: Any, owners: Any) -> None:
    """Terms that nobody can keep were seen after a tenth of ε had been spent on lengths of rows."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (5000, 2)), rng.uniform(-0.1, 0.1, 5000)
    target = y > 0 if isinstance(model, PrivateClassifier) else y
    ranges = {} if isinstance(model, PrivateClassifier) else {"target_bounds": (-1, 1)}
    ledger = SharedLedger(epsilon=1.0)
    model.set_params(bounds=(-1, 1), ledger=ledger, **ranges)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, target, owners=owners)
        except CoprivError:
            assert ledger.spent == 0
        else:
            assert ledger.spent == 1


@pytest.mark.parametrize("cell", [np.inf, -np.inf, "nan", "inf", float("nan")])
def test_a_target_that_is_not_finite_is_refused_whatever_holds_it(cell: Any) -> None:
    X = np.linspace(0, 1, 501)[:, None]
    model = PrivateRegressor(bounds=(0, 1), target_bounds=(0, 1))
    with pytest.raises(ValueError, match=r"NaN|infinity") as refused:
        model.fit(X, [0.5] * 500 + [cell])
    assert "500" not in str(refused.value)


def test_no_context_of_an_error_quotes_a_cell() -> None:
    """A logger may show what an error was raised from, though Python does not."""
    words, ones = [["0.5", "secret of row 1"]] + [["1", "2"]] * 9, np.ones((10, 1))
    model = PrivateRegressor(bounds=(0, 1), target_bounds=(0, 1), weight_cap=1.0)
    for X, weights in ((words, None), (ones, ["secret"] * 10)):
        with pytest.raises(ValueError, match="number") as refused:
            model.fit(X, np.ones(10), sample_weight=weights)
        error: BaseException | None = refused.value
        while error is not None:
            assert "secret" not in str(error)
            error = error.__context__ or error.__cause__
