"""Folds, searches and clones spend, and it is all counted where the caller looks."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from joblib import parallel_backend
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from copriv import BudgetRefused
from copriv.estimators import PrivateRegressor, SharedLedger, SpendingWarning

X = np.random.default_rng(0).uniform(0, 1, (200, 2))
Y = X @ [1.0, 2.0]
DECLARED = {"bounds": (0, 1), "target_bounds": (0, 3)}


@pytest.mark.parametrize("given", [True, False])
def test_five_folds_at_one_read_five(given: bool) -> None:
    ledger = SharedLedger() if given else None
    model = PrivateRegressor(epsilon=1.0, ledger=ledger, **DECLARED)
    with pytest.warns(SpendingWarning, match="scores.*not private"):
        cross_val_score(model, X, Y, cv=5)
    assert model.shared_ledger.spent == 5.0
    assert model.shared_ledger.fits == 5
    assert not given or model.shared_ledger is ledger


def test_a_search_counts_every_candidate_and_the_last_fit() -> None:
    ledger = SharedLedger()
    search = GridSearchCV(
        PrivateRegressor(epsilon=0.5, ledger=ledger, **DECLARED), {"regularization": [1e-5, 1e-2]}, cv=3
    )
    with pytest.warns(SpendingWarning):
        search.fit(X, Y)
    assert ledger.spent == 0.5 * (2 * 3 + 1)
    assert search.best_estimator_.privacy_spent_.epsilon == 0.5


@pytest.mark.filterwarnings("ignore::copriv.estimators.SpendingWarning")
def test_threads_count_in_the_same_ledger() -> None:
    model = PrivateRegressor(epsilon=1.0, **DECLARED)
    with parallel_backend("threading", n_jobs=2):
        cross_val_score(model, X, Y, cv=4)
    assert model.shared_ledger.spent == 4.0


@pytest.mark.parametrize("ledger", [SharedLedger(), None])
def test_another_process_cannot_spend_out_of_sight(ledger) -> None:
    model = PrivateRegressor(epsilon=1.0, ledger=ledger, **DECLARED)
    away = pickle.loads(pickle.dumps(clone(model)))
    with pytest.raises(BudgetRefused, match="n_jobs=1"):
        away.fit(X, Y)
    assert away.shared_ledger.spent == model.shared_ledger.spent == 0.0
    away.set_params(ledger=SharedLedger()).fit(X, Y)
    assert away.shared_ledger.spent == 1.0


def test_the_limit_holds_for_each_owner_alone() -> None:
    ledger = SharedLedger(epsilon=2.0)
    ledger.pay("north", (Fraction(2), Fraction(0)))
    with pytest.raises(BudgetRefused):
        ledger.pay("north", (Fraction(1, 10**9), Fraction(0)))
    ledger.pay("south", (Fraction(1), Fraction(0)))
    assert ledger.spent == 2.0
    assert ledger.by_owner["south"] == (1.0, 0.0)
    assert repr(ledger) == "<SharedLedger: epsilon 2 of 2 spent in 0 fits>"


@pytest.mark.filterwarnings("ignore::copriv.estimators.SpendingWarning")
def test_the_limit_ends_a_cross_validation() -> None:
    ledger = SharedLedger(epsilon=3.0)
    model = PrivateRegressor(epsilon=1.0, ledger=ledger, **DECLARED)
    with pytest.raises(BudgetRefused):
        cross_val_score(model, X, Y, cv=5, error_score="raise")
    assert ledger.spent == 3.0


def test_delta_is_charged_once_a_fit() -> None:
    ledger = SharedLedger(delta=1e-6)
    model = PrivateRegressor(epsilon=1.0, delta=6e-7, ledger=ledger, **DECLARED).fit(X, Y)
    assert ledger.spent_delta == pytest.approx(6e-7)
    with pytest.warns(SpendingWarning), pytest.raises(BudgetRefused, match="delta"):
        model.fit(X, Y)
