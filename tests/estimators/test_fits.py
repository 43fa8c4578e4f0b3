"""What estimators fit, held against plain scikit-learn, and what may not reach it."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer

from copriv import BudgetRefused, DataError, Forecast, InvalidInput, losses
from copriv.estimators import PrivateClassifier, PrivateRegressor, UndeclaredWarning, linear
from copriv.estimators.declared import terms, without_data
from copriv.estimators.in_process import answered
from copriv.estimators.inputs import Ranges

PLENTY = 1e5


def table(n: int = 500, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform([-1, 100], [3, 120], (n, 2))
    return X, 5 + 2 * X[:, 0] + 0.3 * (X[:, 1] - 110) + rng.normal(0, 0.5, n)


BOUNDS = ([-1, 100], [3, 120])
WIDE = (0, 10)


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("owners", [None, "three"])
def test_with_plenty_of_epsilon_it_is_least_squares(loss: str, owners: str | None) -> None:
    X, y = table()
    whose = None if owners is None else np.arange(len(y)) % 3
    model = PrivateRegressor(epsilon=PLENTY, loss=loss, threshold=100.0, bounds=BOUNDS, target_bounds=(-5, 15)).fit(
        X, y, owners=whose
    )
    plain = LinearRegression().fit(X, y)
    # Models of three owners are averaged, which is not the model of all rows together.
    slack = 1e-3 if owners is None else 0.02
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=slack)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=30 * slack)


def test_with_plenty_of_epsilon_it_is_logistic_regression() -> None:
    X, z = table()
    y = np.where(z > 5, "yes", "no")
    x = Ranges.declared("bounds", BOUNDS, 2, True).inside(X)
    model = PrivateClassifier(
        epsilon=PLENTY, classes=("no", "yes"), bounds=BOUNDS, regularization=0.01, fit_intercept=True
    ).fit(X, y)
    # scikit-learn's intercept is free, ours is one more coefficient of a column of ones.
    ones = np.column_stack([x, np.ones(len(x))])
    plain = LogisticRegression(C=1 / (len(y) * 0.01), fit_intercept=False, tol=1e-10).fit(ones, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(ones), atol=1e-3)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    assert list(model.classes_) == ["no", "yes"]


def test_the_hinge_tells_classes_apart_and_knows_no_probabilities() -> None:
    X, z = table()
    model = PrivateClassifier(epsilon=PLENTY, loss="hinge", classes=(0, 1), bounds=BOUNDS).fit(X, z > 5)
    assert model.score(X, (z > 5).astype(int)) > 0.9
    assert not hasattr(model, "predict_proba")


def test_without_an_intercept_zero_stays_zero() -> None:
    X, y = table()
    model = PrivateRegressor(epsilon=PLENTY, bounds=BOUNDS, target_bounds=(-5, 15), fit_intercept=False).fit(X, y)
    assert model.intercept_ == 0.0
    np.testing.assert_allclose(model.coef_, LinearRegression(fit_intercept=False).fit(X, y).coef_, atol=5e-3)


def test_noise_is_fresh_and_grows_as_epsilon_falls() -> None:
    X, y = table()
    spread = []
    for ε in (0.5, 50.0):
        fits = [PrivateRegressor(epsilon=ε, bounds=BOUNDS, target_bounds=(-5, 15)).fit(X, y).coef_ for _ in range(8)]
        assert len(np.unique(np.array(fits)[:, 0])) == 8
        spread.append(np.std(fits, axis=0).max())
    assert spread[0] > 3 * spread[1]


@pytest.mark.parametrize("planned", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nothing_agreed_depends_on_private_values(planned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Save by the noisy answer that measures scales, which is charged: both tables are given the same one.
    heard: list[np.ndarray] = []

    def once(*given) -> np.ndarray:
        heard.append(answered(*given))
        return heard[0]

    monkeypatch.setattr(linear, "answered", once)
    X, y = table()
    public = table(60, seed=1) if planned else None
    declared = {} if planned else {"bounds": BOUNDS, "target_bounds": (-5, 15)}
    wild = X.copy()
    wild[0] = (1e9, -1e9)
    agreed = {
        PrivateRegressor(epsilon=9.0, **declared).fit(x, t, public=public).agreement_.fingerprint
        for x, t in ((X, y), (wild, np.where(np.arange(len(y)) == 0, -1e9, y)))
    }
    assert len(agreed) == 1
    assert len(heard) == (0 if planned else 2)


def test_public_rows_declare_and_plan() -> None:
    X, y = table(900)
    public = table(40, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateRegressor(epsilon=20.0).fit(X[:, :1], y, public=(public[0][:, :1], public[1]))
    assert model.agreement_.agreement.start is not None, "planned: from the public model"
    assert model.agreement_.data.public_rows == 40
    assert model.privacy_spent_.epsilon <= 20.0
    assert model.score(X[:, :1], y) > 0.9 * LinearRegression().fit(X[:, :1], y).score(X[:, :1], y)


@pytest.mark.slow
def test_public_rows_say_which_classes_there_are_and_what_to_expect() -> None:
    X, y = table(900)
    public = table(80, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateClassifier(epsilon=20.0).fit(X, y > 5, public=(public[0], public[1] > 5))
    assert list(model.classes_) == [False, True]
    assert model.score(X, y > 5) > 0.85
    outlook = model.forecast_
    assert isinstance(outlook, Forecast)
    assert outlook.agreed.agreement == model.agreement_
    assert model.forecast_ is outlook


def test_one_label_that_is_a_float_moves_no_others() -> None:
    """Beyond 2⁵³ it would make one class of two."""
    X, y = table()
    model, labels = PrivateClassifier(classes=(2**53, 2**53 + 1), bounds=BOUNDS), [2**53 + int(z > 5) for z in y]
    model.fit(X, labels)
    with pytest.raises(DataError, match="none of the two classes, or both"):
        model.fit(X, [*labels[:-1], float(labels[-1])])


def test_what_is_not_declared_is_said() -> None:
    X, y = table()
    with pytest.warns(UndeclaredWarning) as told:
        model = PrivateClassifier(epsilon=1.0, classes="auto").fit(X, y > 5)
    assert {str(one.message).split(":")[0] for one in told} == {"bounds", "classes"}
    with pytest.raises(InvalidInput, match="which labels stand in y is private"):
        PrivateClassifier(bounds=BOUNDS).fit(X, y > 5)
    assert model.forecast_ is None


SECRET = 424242.0


def numbers(X, y):
    return PrivateRegressor(bounds=BOUNDS, target_bounds=(-5, 15)).fit(X, y)


def classes(X, y):
    return PrivateClassifier(bounds=BOUNDS, classes=(0, 1)).fit(X, y)


@pytest.mark.parametrize("kind", [np.array, polars.Series, list])
@pytest.mark.parametrize("cell", ["HIV positive", 10**400, Decimal("sNaN")])
def test_no_message_quotes_a_target(kind, cell) -> None:
    """Texts alone, which NumPy and polars give a type of their own, and numbers that no float is."""
    y = kind(["0.1", cell, "0.3"]) if isinstance(cell, str) else [0.1, cell, 0.3]
    with pytest.raises(ValueError, match=r"^X or y: a cell cannot be read as a number") as refused:
        PrivateRegressor(bounds=(0, 1), target_bounds=(0, 1)).fit([[0.1], [0.2], [0.3]], y)
    assert refused.value.__context__ is None


@pytest.mark.parametrize("fit", [numbers, classes])
@pytest.mark.parametrize("where", ["text", "complex", "label", "infinite", "object", "label text"])
def test_no_message_quotes_a_value(fit, where: str) -> None:
    X, y = table(50)
    y = (y > 5).astype(float)
    x = X.astype(object)
    if where == "text":
        x[3, 0] = f"patient {SECRET}"
    elif where == "complex":
        x = X + SECRET * 1j
    elif where == "infinite":
        x[3, 0], x[4, 0] = np.inf, SECRET
    elif where == "object":
        x[3, 0] = {"name": SECRET}
    elif where == "label":
        y[3], x[3, 0] = SECRET, np.nan if fit is numbers else 0.0
    else:
        y = y.astype(object)
        y[3] = f"patient {SECRET}"
    with pytest.raises((ValueError, TypeError)) as refused:
        fit(x, y)
    assert "4242" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"epsilon": -1.0}, "epsilon"), ({"epsilon": float("nan")}, "epsilon"), ({"epsilon": {"north": 1.0}}, "owner"),
        ({"bounds": (1, 0)}, "bounds"), ({"bounds": (0, [1, 2, 3])}, "bounds"), ({"bounds": "seen"}, "bounds"),
        ({"target_bounds": (1, 1)}, "target_bounds"), ({"loss": "absolute"}, "loss"), ({"ledger": 3}, "ledger"),
        ({"feature_bound": -1.0}, "feature_bound"), ({"delta": 2.0}, "delta"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named_before_anything_is_spent(wrong, says: str) -> None:
    X, y = table(50)
    model = PrivateRegressor(**{"bounds": BOUNDS, "target_bounds": (-5, 15), **wrong})
    with pytest.raises(ValueError, match=says):
        model.fit(X, y)
    assert "ledger" in wrong or model.shared_ledger.spent == 0


@given(
    st.lists(st.tuples(st.floats(-50, 50), st.floats(0.01, 50)), min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 99),
)
def test_coefficients_in_the_columns_own_units_predict_the_same(ends, shift: bool, seed: int) -> None:
    low = np.array([a for a, _ in ends])
    ranges = Ranges.declared("bounds", (low, low + [width for _, width in ends]), len(ends), shift)
    rng = np.random.default_rng(seed)
    X, θ = rng.uniform(ranges.low, ranges.high, (20, len(ends))), rng.normal(size=len(ends))
    coef, intercept = ranges.coefficients(θ)
    inside = ranges.inside(X)
    assert np.abs(inside).max() <= 1
    np.testing.assert_allclose(X @ coef + intercept, inside @ θ, atol=1e-6 * (1 + np.abs(coef).max()))
    assert np.abs(ranges.inside(1e6 * X)).max() <= 1


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber"])
def test_without_data_no_gradient_is_above_the_bound(loss: str, delta: float) -> None:
    owner = {"name": "a", "records": 1000, "epsilon": 1.0, "delta": delta}
    agreement = without_data(
        terms(
            columns=3,
            loss=loss,
            threshold=0.7,
            regularization=1e-5,
            intercept=True,
            feature_bound="auto",
            owners=[owner],
        )
    ).agreement
    rng = np.random.default_rng(0)
    size = agreement.data.feature_bound / 3  # rows that are longer count for less
    x = np.column_stack([size * rng.choice([-1.0, 1.0], (200, 3)), np.ones(200)])
    y = rng.choice([-1.0, 1.0], 200)
    order = agreement.mechanism.order(agreement)
    assert order == 1 or delta
    asked = losses.named(agreement.model.loss, 0.7)
    far = float(asked.name == loss)  # moments of labels are asked for at 0 alone
    norms = [
        np.linalg.norm(asked.gradients(far * rng.normal(0, 100, 4), x, y), ord=order, axis=1).max() for _ in range(20)
    ]
    if loss == "logistic":  # of which slopes may be bounded below their limit, by the owner
        assert agreement.gradient_bound >= 0.499 * max(norms)
        norms = [min(max(norms), agreement.gradient_bound)]
    assert max(norms) <= agreement.gradient_bound
    assert max(norms) > (0.9 if loss != "huber" else 0.5) * agreement.gradient_bound, "no larger than needed"


def test_delta_is_spent_and_shown_where_it_helps() -> None:
    """Of many columns; of two, pure ε has less noise."""
    X = np.random.default_rng(0).uniform(-1, 1, (2000, 20))
    for columns, δ in ((20, 1e-6), (2, 0.0)):
        model = PrivateRegressor(epsilon=1.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-1, 1))
        model.fit(X[:, :columns], X[:, 0])
        assert model.privacy_spent_.epsilon == 1.0
        assert model.privacy_spent_.delta == pytest.approx(δ)


def test_an_owner_with_too_little_left_stops_the_fit_before_it_begins() -> None:
    from copriv.estimators import SharedLedger, SpendingWarning

    X, y = table()
    ledger = SharedLedger(epsilon=1.5)
    model = PrivateRegressor(epsilon=1.0, bounds=BOUNDS, target_bounds=(-5, 15), ledger=ledger).fit(X, y)
    with pytest.warns(SpendingWarning), pytest.raises(BudgetRefused, match=r"spent 1 of 1\.5"):
        model.fit(X, y)
    assert ledger.spent == 1.0


@pytest.mark.parametrize("call", ["fit", "predict"])
def test_no_message_quotes_a_table_of_one_dimension(call: str) -> None:
    """scikit-learn's own message quotes all of it."""
    secret = np.array([0.123456, 1.0, 7.0])
    model = PrivateRegressor(epsilon=PLENTY, bounds=WIDE, target_bounds=(-10, 30))
    if call == "predict":
        model.fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead") as refused:
        model.predict(secret) if call == "predict" else model.fit(secret, secret)
    assert "0.123456" not in str(refused.value)
    assert "7." not in str(refused.value)
    assert "Reshape your data" in str(refused.value)


def test_days_beside_numbers_are_told_in_words() -> None:
    X = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-01-02"]), "age": [1.0, 2.0]})
    with pytest.raises(TypeError, match="days beside numbers"):
        PrivateRegressor(bounds=WIDE, target_bounds=(-10, 30)).fit(X, [1.0, 2.0])


@pytest.mark.parametrize("labels", [[None, "a"], [np.nan, 1.0]])
def test_a_row_that_is_nobodys_is_refused(labels: list[object]) -> None:
    """Else all of them would be one more owner's, with a budget of its own."""
    model = PrivateRegressor(bounds=WIDE, target_bounds=(-10, 30))
    with pytest.raises(ValueError, match="owners: a row has no label"):
        model.fit([[1.0], [2.0]], [1.0, 2.0], owners=labels)
    assert model.shared_ledger.spent == 0


@pytest.mark.parametrize("name", ["epsilon", "delta", "regularization", "threshold"])
@pytest.mark.parametrize("value", ["1", True, None, [1.0]])
def test_a_parameter_that_is_no_number_is_named(name: str, value: object) -> None:
    model = PrivateRegressor(bounds=WIDE, target_bounds=(-10, 30)).set_params(**{name: value})
    with pytest.raises(ValueError, match=f"{name}: must be a number"):
        model.fit([[1.0], [2.0]], [1.0, 2.0])


def test_bounds_that_no_arithmetic_takes_are_refused() -> None:
    with pytest.raises(ValueError, match="another unit"):
        PrivateRegressor(bounds=(-1e308, 1e308), target_bounds=(0, 1)).fit([[1.0], [2.0]], [1.0, 2.0])


def test_the_order_in_which_classes_are_declared_turns_no_score_round() -> None:
    """scikit-learn's scores hold the later label in sorted order for the positive one."""
    X = np.linspace(0, 10, 400)[:, None]
    y = np.where(X[:, 0] > 5, "yes", "no")
    for declared in (("no", "yes"), ("yes", "no")):
        model = PrivateClassifier(epsilon=PLENTY, classes=declared, bounds=(0, 10)).fit(X, y)
        assert model.classes_.tolist() == ["no", "yes"]
        assert (model.predict(X) == y).mean() > 0.9
        assert get_scorer("roc_auc")(model, X, y) > 0.9


def test_one_class_twice_is_said_to_be_one() -> None:
    with pytest.raises(ValueError, match="two classes, not one twice"):
        PrivateClassifier(classes=("a", "a"), bounds=WIDE).fit([[1.0], [2.0]], ["a", "a"])
