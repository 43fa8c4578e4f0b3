"""Weights of rows: what a weighted fit is of, that no weight moves an answer further than a row may, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.estimators import PrivateClassifier, PrivateRegressor, UndeclaredWarning
from copriv.losses import Hinge, Huber, Logistic, Squared
from copriv.mechanisms.expected import Declared, WeightedMean
from copriv.model.records import Records
from copriv.owner import Owner
from copriv.privacy.clipping import clipped_mean_gradient

PLENTY = 1e6
CAP = 4.0


def rows(n: int = 3000):
    """Two kinds of rows of opposite slopes, of which the second weighs a fifth."""
    rng = np.random.default_rng(0)
    x, second = rng.uniform(-1, 1, (n, 2)), np.arange(n) % 2 == 1
    y = x[:, 0] * np.where(second, -2.0, 2.0) + 0.5 + 0.2 * rng.normal(size=n)
    return x, y, np.where(second, 0.8, CAP)


@pytest.mark.parametrize("public", [False, True])
def test_a_weighted_fit_is_weighted_least_squares(public: bool) -> None:
    x, y, w = rows()
    truth = LinearRegression().fit(x, y, sample_weight=w)
    plain = LinearRegression().fit(x, y)
    assert abs(truth.coef_[0] - plain.coef_[0]) > 0.5
    shown = {"public": (x[:200], y[:200])} if public else {}
    model = PrivateRegressor(epsilon=PLENTY, bounds=(-1, 1), target_bounds=(-4, 4), weight_cap=CAP, regularization=1e-6)
    model.fit(x, y, sample_weight=w, **shown)
    assert model.coef_ == pytest.approx(truth.coef_, abs=0.1)
    assert model.intercept_ == pytest.approx(truth.intercept_, abs=0.1)
    more = model.fit(x, y, np.where(w == CAP, 100.0, w), **shown)  # weights above the cap count as it
    assert more.coef_ == pytest.approx(truth.coef_, abs=0.1)
    assert more.privacy_spent_.epsilon == PLENTY


def test_a_weighted_classifier_is_weighted_logistic_regression() -> None:
    x, y, w = rows()
    labels = np.where(y > 0.5, "high", "low")
    truth = LogisticRegression(C=1e6).fit(x, labels, sample_weight=w)
    given = {
        "epsilon": PLENTY,
        "bounds": (-1, 1),
        "classes": ("high", "low"),
        "weight_cap": CAP,
        "regularization": 1e-6,
    }
    model = PrivateClassifier(**given).fit(x, labels, sample_weight=w)
    agree = np.mean(model.predict(x) == truth.predict(x))
    assert agree > 0.95 > np.mean(PrivateClassifier(**given).fit(x, labels).predict(x) == truth.predict(x))


NOTHING = 4.0
"""What a weighted fit may leave of the gap between its best model, 0, and its weighted mean, 1, in the median of 15 fits."""


@pytest.mark.parametrize("delta", [0.0, 1e-7])
@pytest.mark.parametrize(("rare", "rest"), [(1.0, 1.0), (1.0, 0.02)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_weighted_fit_is_hardly_worse_than_the_weighted_mean(rare: float, rest: float, delta: float) -> None:
    """Narrow targets in a wide range, little ε, 20 columns: with an intercept that nobody knew to be one it left 50 to 400."""
    left = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        x, w = rng.uniform(size=(4000, 20)), np.where(rng.uniform(size=4000) < 0.05, rare, rest)
        y = 5 + x @ rng.normal(size=20) / 20**0.5 + 0.4 * rng.normal(size=4000)
        model = PrivateRegressor(epsilon=0.3, delta=delta, bounds=(0, 1), target_bounds=(0, 20), weight_cap=1.0)
        best = LinearRegression().fit(x, y, w).predict(x)
        errors = [
            np.average((y - each) ** 2, weights=w)
            for each in (model.fit(x, y, w).predict(x), best, np.average(y, weights=w))
        ]
        left.append((errors[0] - errors[1]) / (errors[2] - errors[1]))
    assert np.median(left) < NOTHING


def test_where_noise_hides_a_weighted_fit_its_weighted_mean_is_asked_for() -> None:
    x, y, w = rows()
    model = PrivateRegressor(epsilon=0.05, bounds=(-100, 100), target_bounds=(-4, 4), weight_cap=CAP)
    with pytest.warns(RuntimeWarning, match="nearly a constant"):
        model.fit(np.tile(x, 20), y, w)
    assert model.scale_ == 0
    assert not model.coef_.any()


def test_weights_far_below_their_cap_are_told() -> None:
    x, y, _ = rows()
    model = PrivateRegressor(epsilon=1.0, bounds=(-1, 1), target_bounds=(-4, 4), weight_cap=100.0)
    with pytest.warns(RuntimeWarning, match="rows count for .* of weight_cap in the mean"):
        model.fit(x, y, np.full(len(y), 4.0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_weighted_constant_for_two_classes_gives_the_class_rate() -> None:
    x, y = np.random.default_rng(0).uniform(size=(10_000, 60)), np.arange(10_000) % 100 == 0
    model = PrivateClassifier(epsilon=0.02, bounds=(0, 1), classes=(False, True), weight_cap=1.0)
    rates = [model.fit(x, y, np.ones(10_000)).predict_proba(x[:1])[0, 1] for _ in range(9)]
    assert model.scale_ == 0
    assert np.median(rates) < 0.09  # one in 10,000 is above


def test_the_weighted_mean_leaves_what_its_formula_says() -> None:
    """Of an objective tied by λ, with a curvature 2s of the mean share s: no share of the features' gain."""
    declared = Declared(
        loss=Squared(), smoothing=0.1, regularization=0.0, columns=3, intercept=True, feature_bound=3.0, row_norm=1.0,
        tightness=1.0, owners=((1000, 1.0, 0.0),), size=(0.04, 0.1), counted=0.3,
    )  # fmt: skip
    tables = WeightedMean.of(declared, declared.owners).tables(2.0)
    off, noise = tables.tied(0.2)
    for k, explained in enumerate((0.9, 0.5, 0.2)):
        gain, mean = 0.3 * (0.04 + explained * 0.1), 0.04 / (0.04 + explained * 0.1)
        assert off[k] == pytest.approx(1 - mean + mean * (0.2 / (0.6 + 0.2)) ** 2)
        assert noise[k] == pytest.approx(0.6 / 0.8**2 / (2 * gain))


@given(seed=st.integers(0, 10**6), loss=st.sampled_from([Squared(), Huber(1.0), Logistic(), Hinge()]))
def test_a_record_with_its_weight_replaced_moves_an_answer_no_further_than_a_plain_one(seed: int, loss: object) -> None:
    rng, n, bound = np.random.default_rng(seed), 7, 1.5
    x, y, s = 3 * rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n), rng.uniform(size=n) * rng.choice([0, 1, 1], n)
    theta = rng.normal(size=3)

    def answer() -> np.ndarray:
        return clipped_mean_gradient(loss, Records.of_shares(x, y, s), theta, bound)

    before = answer()
    each = [s[k] * clipped_mean_gradient(loss, Records.of(x[[k]], y[[k]]), theta, bound) for k in range(n)]
    assert before == pytest.approx(np.mean(each, axis=0), abs=1e-12), (
        "the mean is over n, whatever the weights add up to"
    )
    x[0], y[0], s[0] = 1e3 * rng.normal(size=3), -y[0], rng.choice([0.0, 0.3, 1.0])
    assert np.abs(answer() - before).sum() <= 2 * bound / n * (1 + 1e-9)


def _agreed(n: int, intercept: bool = False) -> Agreement:
    return Agreement.of({
        "agreement": {"rule": "A2", "horizon": 4, "answers": 4, "step": 0.1},
        "model": {"loss": "squared", "gradient_bound": 1.0, "regularization": 1e-3, "intercept": intercept},
        "owner": [{"name": "a", "records": n, "epsilon": 1.0}],
    })  # fmt: skip


def test_an_owner_takes_shares_of_records_and_nothing_that_only_looks_like_them() -> None:
    x, y, _ = rows(10)
    honest = Records.of_shares(x, y, np.linspace(0, 1, 10))
    assert honest.units == 10
    Owner(_agreed(10), "a", honest, Squared())
    heavy, full = honest.weight.copy(), honest.features.copy()
    heavy[[0, 1, 10, 11]] = 5.0, -4.0, -4.0, 5.0  # they add up to 1, record by record
    full[10:] = 1.0
    for wrong in (
        replace(honest, weight=heavy), replace(honest, features=full), replace(honest, person=None),
        replace(honest, person=np.repeat(np.arange(10), 2)), replace(honest, weight=np.full(20, 0.5), features=full),
        replace(honest, weight=np.concatenate([np.full(10, 0.75), np.full(10, 0.25 + 1e-9)])),
    ):  # fmt: skip
        with pytest.raises(AgreementError, match="weights that no unit proves"):
            Owner(_agreed(10), "a", wrong, Squared())
    with pytest.raises(AgreementError, match="weights that no unit proves"):  # an intercept fills the rows of zeros
        Owner(_agreed(10, intercept=True), "a", honest.with_intercept(), Squared())


def test_whether_a_fit_comes_tells_nothing_of_the_weights() -> None:
    """All of them may be 0: an error would tell at any epsilon whether one is not."""
    x, y, _ = rows(20)
    for last in (0.0, 1e-9):
        model = PrivateRegressor(bounds=(-1, 1), target_bounds=(-4, 4), weight_cap=CAP)
        model.fit(x, y, sample_weight=np.append(np.zeros(19), last))
        assert model.shared_ledger.spent == 1


def test_weights_are_checked_without_a_word_of_their_values() -> None:
    x, y, w = rows(20)
    model = PrivateRegressor(bounds=(-1, 1), target_bounds=(-4, 4), weight_cap=CAP)
    for wrong, why in (
        (w[:-1], "one number for each of the 20 rows"), (np.column_stack([w, w]), "one number for each"),
        (np.where(w > 1, 77.5, -77.5), "finite, and 0 or more"), (np.full(20, np.nan), "finite"), (["77.5x"] * 20, "numbers"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=why) as refused:
            model.fit(x, y, sample_weight=wrong)
        assert "77.5" not in str(refused.value)
    assert model.shared_ledger.spent == 0
    with pytest.raises(ValueError, match="weight_cap: must be"):
        PrivateRegressor(bounds=(-1, 1), target_bounds=(-4, 4), weight_cap=0).fit(x, y, w)
    with pytest.warns(UndeclaredWarning, match="weight_cap: not declared"):
        PrivateRegressor(bounds=(-1, 1), target_bounds=(-4, 4), epsilon=PLENTY).fit(x, y, w)
