"""Histograms of columns: which interval, what a fit pays for ranges that nobody declares, and which ranges follow."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.estimators import PrivateClassifier, PrivateRegressor, SharedLedger
from copriv.estimators.declared import ranging, terms
from copriv.estimators.inputs import LEAST, LOUDEST, LogScale
from copriv.losses import Squared
from copriv.mechanisms.histograms import BINS, ColumnHistograms
from copriv.model.records import Records

ALL = np.array([True])


def wanted(records: int, epsilon: float):
    return terms(
        columns=2, loss="squared", threshold=1.0, regularization=1e-5, intercept=True, feature_bound="auto",
        owners=[{"name": "a", "records": records, "epsilon": epsilon, "delta": 1e-6}],
    )  # fmt: skip


def unlike_columns(rows: int, rng):
    """Ages, incomes, flags, years and rates, whose sizes have nothing in common; and a target in thousands."""
    X = np.column_stack([
        rng.normal(45, 12, rows), np.exp(rng.normal(10.3, 0.7, rows)), rng.integers(0, 2, rows),
        rng.integers(1960, 2021, rows), rng.exponential(0.002, rows),
    ])  # fmt: skip
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, 3e4 + 1e4 * Z @ [1, 1, 0.5, 1, 0.5] + rng.normal(0, 1e4, rows)


def on_scale(values) -> Records:
    x = LogScale(ALL).inside(np.array(values, dtype=float)[:, None])
    return Records.of(x, np.zeros(len(x)))


def histogram(values):
    return ColumnHistograms(1).of(Squared(), on_scale(values), np.zeros(1))


@pytest.mark.parametrize("intercept", [False, True])
def test_each_row_is_in_one_interval_of_each_column(intercept: bool) -> None:
    column = [-1e300, -1.0, -0.999, -1e-9, 0.0, 0.5, 0.995, 1.0, 7.0]
    x = np.column_stack([column, np.zeros(9), np.ones(9)])[:, : 2 + intercept]
    found = ColumnHistograms(2).of(Squared(), Records.of(x, np.zeros(9)), np.zeros(2 + intercept)) * 9
    assert found.shape == (2 * BINS,)
    first, second = np.split(found, 2)
    by_hand = np.zeros(BINS)
    for value in column:
        by_hand[min(max(int(np.ceil((value + 1) / 2 * BINS)) - 1, 0), BINS - 1)] += 1
    np.testing.assert_allclose(first, by_hand, atol=1e-12)
    np.testing.assert_allclose(second.nonzero()[0], [BINS // 2])
    assert (first.sum(), second.sum()) == pytest.approx((9, 9))


def test_magnitudes_stand_in_half_octaves_on_either_side_of_0() -> None:
    """Every end of an interval, and what is just within it, by whole powers of 2."""
    for k in range(-20, 40):
        for sign in (-1, 1):
            place = BINS // 2 + sign * (2 * (k + 20) + 1)
            assert histogram([sign * 2.0**k]).argmax() == place
            assert histogram([sign * 1.41 * 2.0**k]).argmax() == place
            assert histogram([sign * 1.42 * 2.0**k]).argmax() == place + sign
    assert histogram([0.0, 2.0**LEAST * 0.999, -(2.0**LEAST) * 0.999])[BINS // 2] == pytest.approx(1.0)
    assert histogram([1e300, 2.0**40])[-1] == pytest.approx(1.0)
    assert histogram([-1e300])[0] == 1.0


@pytest.mark.parametrize("shift", [False, True])
def test_ranges_hold_what_noise_does_not_hide(shift: bool) -> None:
    rng = np.random.default_rng(0)
    for values in (
        rng.normal(45, 12, 4000),
        rng.exponential(1e-3, 4000),
        -rng.uniform(1900, 2020, 4000),
        np.full(9, 0.0),
    ):
        found = LogScale.found(histogram(values), 1e-9, shift)
        assert found.low[0] <= values.min()
        assert found.high[0] >= values.max()
        assert found.high[0] - found.low[0] < 4 * np.abs(values).max() + 1e-5
        assert found.shift is shift


def test_noise_alone_widens_a_range_in_one_answer_of_a_hundred() -> None:
    rng, scale, wide = np.random.default_rng(0), 1e-3, 0
    exact = histogram(np.full(10, 100.0))
    alone = LogScale.found(exact, scale, True)
    for _ in range(2000):
        found = LogScale.found(exact + rng.laplace(0, scale, BINS), scale, True)
        wide += bool(found.low != alone.low or found.high != alone.high)
    assert 2 < wide < 45  # 20 expected; beyond these about once in a million


def test_parts_add_up_to_the_budget_exactly_and_the_first_that_is_heard_is_taken() -> None:
    for ε in np.random.default_rng(1).uniform(0.5, 2.0, 100):
        asked, rest, noise = ranging(wanted(50_000, float(ε)), ["bounds"] * 2)
        assert Fraction(asked.owner[0].epsilon) + Fraction(rest["owner"][0]["epsilon"]) == Fraction(float(ε))
        assert (asked.owner[0].delta, rest["owner"][0]["delta"]) == (0, 1e-6)
        assert LogScale.hidden(noise, 2) <= LOUDEST
        assert noise == pytest.approx(2 * 2 / (50_000 * asked.owner[0].epsilon))
    shares = [ranging(wanted(n, 1.0), ["bounds"] * 2)[0].owner[0].epsilon for n in (9000, 5000, 2500)]
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.4])


def test_too_few_rows_are_refused_before_anything_is_spent() -> None:
    rng, ledger = np.random.default_rng(0), SharedLedger()
    X, y = unlike_columns(300, rng)
    model = PrivateRegressor(epsilon=1.0, bounds=None, target_bounds=None, ledger=ledger)
    with pytest.raises(ValueError, match="bounds and target_bounds: None has the ranges of 6 columns measured") as said:
        model.fit(X, y)
    times = float(str(said.value).partition("takes ")[2].split()[0])
    assert ledger.spent == 0
    assert model.set_params(epsilon=times).fit(X, y) is model  # what it takes is what it says
    assert ledger.spent == times


def test_a_huber_loss_needs_the_unit_of_its_threshold() -> None:
    X, y = unlike_columns(50, np.random.default_rng(0))
    with pytest.raises(ValueError, match="target_bounds: None leaves threshold without a unit"):
        PrivateRegressor(loss="huber", bounds=None, target_bounds=None).fit(X, y)


def typical(model, X, y) -> float:
    """Median score of seven fits: noise makes a range far too wide in one of a hundred, and in four of seven never."""
    return float(np.median([model.fit(X, y).score(X, y) for _ in range(7)]))


@pytest.mark.slow
def test_ranges_that_nobody_declares_cost_little_where_rows_are_many() -> None:
    """With (−3, 3), which stands where nothing is declared, nothing of these columns is learnt."""
    rng = np.random.default_rng(0)
    X, y = unlike_columns(20_000, rng)
    model = PrivateRegressor(epsilon=1.0, delta=1e-6, bounds=None, target_bounds=None)
    assert typical(model, X, y) > 0.4
    assert model.privacy_spent_.epsilon == 1.0
    low, high = model.bounds_
    assert (low < np.quantile(X, 0.05, axis=0)).all()
    assert (high > np.quantile(X, 0.95, axis=0)).all()
    assert (np.array(model.target_bounds_) != (-3.0, 3.0)).all()
    labels = PrivateClassifier(epsilon=1.0, bounds=None, classes=(False, True))
    assert typical(labels, X, y > np.median(y)) > 0.65


@pytest.mark.parametrize("given", [{"bounds": None}, {"target_bounds": None}])
def test_one_of_them_may_be_declared(given: dict[str, None]) -> None:
    X, y = unlike_columns(8000, np.random.default_rng(0))
    kept = {"bounds": (X.min(axis=0), X.max(axis=0)), "target_bounds": (0.0, 6e4)} | given
    model = PrivateRegressor(epsilon=2.0, **kept)
    assert typical(model, X, y) > 0.3
    if "bounds" in given:
        assert model.target_bounds_ == (0.0, 6e4)
    else:
        np.testing.assert_array_equal(model.bounds_[0], X.min(axis=0))


def test_owners_categories_weights_and_no_intercept() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X, y = unlike_columns(12_000, rng)
    table = pd.DataFrame(X, columns=list("abcde")).assign(place=rng.choice(["town", "country"], len(X)))
    model = PrivateRegressor(
        epsilon={"north": 2.0, "south": 1.0}, bounds=None, target_bounds=None, weight_cap=2.0,
        categories={"place": ("town", "country")}, fit_intercept=False,
    )  # fmt: skip
    model.fit(table, y, rng.uniform(0, 2, len(X)), owners=np.where(rng.random(len(X)) < 0.5, "north", "south"))
    assert model.privacy_spent_.by_owner == {"north": (2.0, 0.0), "south": (1.0, 0.0)}
    assert model.coef_.shape == (7,)
    assert model.bounds_[0].shape == (5,)
    assert np.isfinite(model.predict(table)).all()


def test_rows_that_are_alike_in_magnitude_are_not_taken_for_the_same_people() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(100, 110, (4000, 1))  # all in one interval of magnitudes
    whose = np.arange(4000) % 2
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        PrivateRegressor(epsilon=10.0, bounds=None, target_bounds=None).fit(X, 3 * X[:, 0], owners=whose)
    assert not any("stand under other labels" in str(one.message) for one in seen)
    both = np.vstack([X[:2000], X[:2000]])
    with pytest.warns(RuntimeWarning, match="stand under other labels"):
        PrivateRegressor(epsilon=10.0, bounds=None, target_bounds=None).fit(
            both, 3 * both[:, 0], owners=np.repeat([0, 1], 2000)
        )


def test_public_rows_tell_ranges_for_nothing() -> None:
    X, y = unlike_columns(600, np.random.default_rng(0))
    none, auto = (
        PrivateRegressor(bounds=way, target_bounds=way).fit(X[200:], y[200:], public=(X[:200], y[:200]))
        for way in (None, "auto")
    )
    np.testing.assert_array_equal(none.bounds_, auto.bounds_)


def test_an_agreement_names_columns_of_numbers() -> None:
    document = {
        "agreement": {"rule": "A2", "horizon": 1, "answers": 1, "step": 1.0, "mechanism": "histograms"},
        "model": {"loss": "squared", "gradient_bound": 1.0, "intercept": False},
        "data": {"features": ["a", "b"], "target": "y", "feature_bound": 2.0, "components": 0},
        "owner": [{"name": "o", "records": 50, "epsilon": 1.0}],
    }
    agreed = Agreement.of(document)
    assert agreed.mechanism.promise(agreed, agreed.owner[0]) == (
        "one answer at the agreed start: shares of 50 records in 241 intervals of each of 2 columns, with Laplace noise of "
        "scale 0.08 on each share: epsilon 1 over the run"
    )
    with pytest.raises(AgreementError, match="2 are agreed, and rows have 3 numbers"):
        agreed.mechanism.numbers(agreed, 3)
    with pytest.raises(AgreementError, match="is of columns of numbers"):
        Agreement.of({**document, "data": {**document["data"], "categories": {"a": ["x", "z"]}}})
