"""Folds, searches and clones spend, and it is all counted where the caller looks, whatever owners are called."""

import copy
import os
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import parallel_backend
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor

from copriv import BudgetRefused
from copriv.errors import InvalidInput
from copriv.estimators import PrivateClassifier, PrivateRegressor, SharedLedger, SpendingWarning

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
@pytest.mark.parametrize("way", [clone, copy.copy, copy.deepcopy])
def test_copies_made_before_the_first_fit_count_in_one_ledger(way) -> None:
    first = PrivateRegressor(**DECLARED)
    second, inside = way(first), way([first])[0]
    second.fit(X, Y)
    assert second.shared_ledger is first.shared_ledger is inside.shared_ledger
    assert first.shared_ledger.spent == 1
    assert not hasattr(first, "coef_")


@pytest.mark.parametrize("labels", ["ab", "abc"])
def test_rows_that_stand_under_several_labels_are_told(labels: str) -> None:
    """The ledger reads the dearest owner of a fit, so a person under three labels pays three times what it reads."""
    model = PrivateRegressor(**DECLARED)
    owners = [name for name in labels for _ in Y]
    again = np.vstack([X] * len(labels)), np.tile(Y, len(labels))
    with pytest.warns(RuntimeWarning, match=rf"all rows of {', '.join(labels)} stand under other labels"):
        model.fit(*again, owners=owners)
    moved = again[0].copy()
    moved[:: len(Y)] += 0.001 * np.arange(len(labels))[:, None]  # of each owner one row is its own
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        clone(model).set_params(ledger=SharedLedger()).fit(moved, again[1], owners=owners)


def test_rows_that_are_alike_after_clipping_are_not_told_as_repeated() -> None:
    """A constant has one column of ones, and rows beyond their bounds are at their ends: 60 rows of 60 people were told."""
    X = np.random.default_rng(0).uniform(1, 2, (60, 3))
    model = PrivateClassifier(epsilon=0.1, bounds=(-1, 1), classes=(0, 1))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, (X[:, 0] > 1.5).astype(int), owners=np.repeat(["a", "b"], 30))
    assert model.scale_ == 0
    assert not any("under other labels" in str(one.message) for one in seen)


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


@pytest.mark.parametrize("many", [MultiOutputRegressor, partial(BaggingRegressor, n_estimators=3, bootstrap=False)])
def test_workers_that_clone_an_estimator_of_their_own_cannot_spend_out_of_sight(many) -> None:
    """An estimator that nobody has used yet has its ledger already: what a worker clones is a copy."""
    model = PrivateRegressor(epsilon=1.0, **DECLARED)
    with pytest.raises(BudgetRefused, match="n_jobs=1"):
        many(model, n_jobs=2).fit(X, np.column_stack([Y, Y]) if many is MultiOutputRegressor else Y)
    assert model.shared_ledger.fits == 0


def test_an_estimator_that_is_pickled_before_it_is_used_cannot_spend_out_of_sight() -> None:
    model = PrivateRegressor(epsilon=1.0, **DECLARED)
    with pytest.raises(BudgetRefused, match="n_jobs=1"):
        pickle.loads(pickle.dumps(model)).fit(X, Y)


def test_another_name_is_no_other_budget() -> None:
    ledger = SharedLedger(epsilon=2.0)
    ledger.pay("north", (Fraction(2), Fraction(0)))
    for name in ("north", "south"):
        with pytest.raises(BudgetRefused, match="whatever their owners are called"):
            ledger.pay(name, (Fraction(1, 10**9), Fraction(0)))
    assert ledger.spent == 2.0
    assert ledger.by_owner == {"north": (2.0, 0.0)}
    assert repr(ledger) == "<SharedLedger: epsilon 2 of 2 spent in 0 fits>"


@pytest.mark.filterwarnings("ignore::copriv.estimators.SpendingWarning")
def test_the_same_rows_under_other_owners_pay_again() -> None:
    ledger = SharedLedger(epsilon=1.0)
    model = PrivateRegressor(epsilon=1.0, ledger=ledger, **DECLARED).fit(X, Y)
    for names in (["a", "b"], ["c", "d"], ["owner", "b"]):
        with pytest.raises(BudgetRefused, match="whatever their owners are called"):
            model.fit(X, Y, owners=np.resize(names, len(X)))
    assert ledger.spent == 1.0


def test_in_one_fit_each_row_has_one_owner_and_pays_once() -> None:
    ledger, whose = SharedLedger(epsilon=2.0), np.resize(["north", "south"], len(X))
    model = PrivateRegressor(epsilon={"north": 0.5, "south": 2.0}, ledger=ledger, **DECLARED).fit(X, Y, owners=whose)
    assert ledger.by_owner == model.privacy_spent_.by_owner == {"north": (0.5, 0.0), "south": (2.0, 0.0)}
    assert ledger.spent == 2.0
    with pytest.raises(BudgetRefused), ledger.for_fit({"north": (Fraction(1, 10), Fraction(0))}, 1):
        pass


def test_what_a_fit_may_spend_is_kept_for_it_until_it_ends() -> None:
    ledger, one = SharedLedger(epsilon=1.5), {"owner": (Fraction(1), Fraction(0))}
    with ledger.for_fit(one, 2) as first:
        first["owner"].charge("a", np.zeros(1), Fraction(1, 10))
        with pytest.raises(BudgetRefused, match=r"0\.9 kept for fits under way"), ledger.for_fit(one, 1):
            pass
        first["owner"].charge("b", np.zeros(1), Fraction(3, 10))
    with ledger.for_fit(one, 1) as second:  # the first ended and gives back what it did not spend
        second["owner"].charge("c", np.zeros(1), Fraction(1))
    assert ledger.spent == 1.4


NAMES = st.sampled_from(["owner", "a", "b", "c"])
FITS = st.lists(
    st.tuples(
        st.sets(st.integers(0, 23), min_size=12),  # which people
        st.lists(NAMES, min_size=24, max_size=24),  # whose each one is said to be
        st.fixed_dictionaries({name: st.sampled_from([0.25, 0.5, 1.0, 1.5]) for name in ("owner", "a", "b", "c")}),
        st.sampled_from([0.0, 2e-7, 5e-7]),
        st.sampled_from(["as they are", "reversed", "other targets", "other columns", "nobody's", "in a clone"]),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::copriv.estimators.SpendingWarning")
@settings(max_examples=50, deadline=None)
@given(FITS)
def test_no_person_pays_more_than_the_ledger_reads_whatever_is_fitted(fits) -> None:
    """What each person paid is counted here, by where the person stands, which the ledger cannot see."""
    ledger = SharedLedger(epsilon=3.0, delta=1e-6)
    model = PrivateRegressor(ledger=ledger, **DECLARED)
    paid = np.zeros((24, 2))
    for people, names, budgets, delta, how in fits:
        rows = np.array(sorted(people))[:: -1 if how == "reversed" else 1]
        x = X[rows][:, :1] if how == "other columns" else X[rows]
        y = 3 - Y[rows] if how == "other targets" else Y[rows]
        whose = np.array(["owner"] * 24 if how == "nobody's" else names)[rows]
        fitted = clone(model) if how == "in a clone" else model
        fitted.set_params(epsilon=budgets, delta=delta)
        try:
            fitted.fit(x, y, owners=None if how == "nobody's" else whose)
        except BudgetRefused:
            continue
        paid[rows] += [fitted.privacy_spent_.by_owner[name] for name in whose]
    assert paid[:, 0].max() <= ledger.spent <= 3.0
    assert paid[:, 1].max() <= ledger.spent_delta * (1 + 1e-12)
    assert ledger.spent_delta <= 1e-6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.parametrize("used", [True, False])
def test_a_process_that_is_forked_cannot_spend_out_of_sight(used: bool) -> None:
    model = PrivateRegressor(**DECLARED)
    ledger = model.shared_ledger if used else None
    child = os.fork()
    if child == 0:
        try:
            with (ledger or model.shared_ledger).for_fit({"owner": (Fraction(1), Fraction(0))}, 1):
                pass
        except BudgetRefused:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.filterwarnings("ignore::copriv.estimators.SpendingWarning")
def test_the_limit_ends_a_cross_validation() -> None:
    ledger = SharedLedger(epsilon=3.0)
    model = PrivateRegressor(epsilon=1.0, ledger=ledger, **DECLARED)
    with pytest.raises(BudgetRefused):
        cross_val_score(model, X, Y, cv=5, error_score="raise")
    assert ledger.spent == 3.0


def test_delta_is_charged_once_a_fit() -> None:
    ledger = SharedLedger(delta=1e-6)
    wide = np.random.default_rng(0).uniform(-1, 1, (2000, 20))  # of few columns, pure ε has less noise
    model = PrivateRegressor(epsilon=1.0, delta=6e-7, ledger=ledger, bounds=(-1, 1), target_bounds=(-1, 1))
    model.fit(wide, wide[:, 0])
    assert ledger.spent_delta == pytest.approx(6e-7)
    with pytest.warns(SpendingWarning), pytest.raises(BudgetRefused, match="delta"):
        model.fit(wide, wide[:, 0])


@pytest.mark.filterwarnings("ignore::copriv.estimators.SpendingWarning")
def test_fits_in_threads_together_keep_to_the_limit() -> None:
    ledger = SharedLedger(epsilon=2.0)

    def fit(name: int) -> float:
        model = PrivateRegressor(epsilon=0.5, ledger=ledger, **DECLARED)
        try:
            return model.fit(X, Y, owners=np.resize([f"{name}", f"other {name}"], len(X))).privacy_spent_.epsilon
        except BudgetRefused:
            return 0.0

    with ThreadPoolExecutor(8) as pool:
        assert 0 < sum(pool.map(fit, range(24))) == ledger.spent <= 2.0  # no fit pays a part and is then refused


@pytest.mark.parametrize("limit", [{"epsilon": -1.0}, {"epsilon": float("nan")}, {"delta": -1e-6}])
def test_a_limit_that_is_none_is_refused_when_it_is_given(limit: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(limit))}: must be a finite number, 0 or more"):
        SharedLedger(**limit)
