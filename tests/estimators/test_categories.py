"""Columns of categories: declared levels, what a row becomes, and what is refused without quoting a cell."""

import pickle

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from copriv import InvalidInput
from copriv.estimators import PrivateClassifier, PrivateRegressor, linear
from copriv.estimators.declared import terms, without_data
from copriv.estimators.inputs import Columns

PLACES = ("town", "country", "sea")
BOUNDS = {"age": (0, 10), "income": (-5, 5)}
DECLARED = {"epsilon": 1e6, "bounds": BOUNDS, "target_bounds": (-20, 40), "categories": {"place": PLACES}}


def table(n: int = 600, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"age": rng.uniform(0, 10, n), "place": rng.choice(PLACES, n), "income": rng.uniform(-5, 5, n)},
    )
    level = X["place"].map({"town": 4.0, "country": -3.0, "sea": 9.0})
    return X, (2 * X["age"] - X["income"] + level).to_numpy()


def encoded(X):
    places = [(X["place"] == place).to_numpy(float) for place in PLACES]
    return np.column_stack([X["age"], *places, X["income"]])


def test_it_fits_what_plain_scikit_learn_fits_to_one_feature_a_level() -> None:
    X, y = table()
    model = PrivateRegressor(**DECLARED).fit(X, y)
    plain = Ridge(1e-3).fit(encoded(X), y)
    np.testing.assert_allclose(model.predict(X), plain.predict(encoded(X)), atol=0.05)
    of = dict(zip(model.coef_names_, model.coef_, strict=True))
    assert model.coef_names_ == ["age", "place=town", "place=country", "place=sea", "income"]
    assert of["place=sea"] - of["place=town"] == pytest.approx(5.0, abs=0.05)
    assert of["age"] == pytest.approx(2.0, abs=0.05)
    assert (list(model.feature_names_in_), model.n_features_in_) == (["age", "place", "income"], 3)


def test_classes_weights_owners_and_public_rows_go_with_categories() -> None:
    X, y = table()
    yes, (some, of_some) = (y > 10).astype(int), table(80, seed=1)
    given = {**DECLARED, "classes": (0, 1)}
    del given["target_bounds"]
    model = PrivateClassifier(**given).fit(X, yes, owners=np.arange(len(y)) % 2)
    assert model.score(X, yes) > 0.9
    weighted = PrivateRegressor(**DECLARED, weight_cap=2.0).fit(X, y, sample_weight=np.ones(len(y)))
    assert weighted.score(X, y) > 0.99
    planned = PrivateRegressor(epsilon=1e6, categories={"place": PLACES}).fit(X, y, public=(some, of_some))
    assert planned.score(X, y) > 0.99


def test_clones_pipelines_and_pickles_keep_the_levels() -> None:
    X, y = table()
    model = PrivateRegressor(**DECLARED)
    assert clone(model).get_params() == model.get_params()
    chain = make_pipeline(FunctionTransformer(), model).fit(X, y)
    assert chain.score(X, y) > 0.99
    again = pickle.loads(pickle.dumps(chain))
    np.testing.assert_array_equal(again.predict(X), chain.predict(X))
    # What was fitted predicts, not what is set since.
    np.testing.assert_array_equal(again.set_params(privateregressor__categories=None).predict(X), chain.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        chain.predict(X[["place", "age", "income"]])


@pytest.mark.parametrize("bounds", [(-5, 10), ([0, -5], [10, 5])])
def test_an_array_of_objects_declares_by_position(bounds) -> None:
    X, y = table()
    model = PrivateRegressor(**{**DECLARED, "bounds": bounds, "categories": {1: PLACES}})
    for rows in (X.to_numpy(), X.to_numpy().tolist()):
        model.fit(rows, y)
        assert model.coef_names_ == ["x0", "x1=town", "x1=country", "x1=sea", "x2"]
        np.testing.assert_array_equal(model.predict(rows[:9]), model.predict(X.to_numpy())[:9])


def test_every_library_of_tables_is_encoded_alike() -> None:
    X, _ = table(50)
    columns = Columns.declared({"place": PLACES}, list(X.columns), 3)
    for same in (X, X.astype({"place": "category"}), polars.from_pandas(X), polars.from_pandas(X).to_arrow()):
        np.testing.assert_array_equal(columns.encode(same), encoded(X))


def test_categories_alone_need_no_bounds() -> None:
    X, y = table()
    y = X["place"].map({"town": 4.0, "country": -3.0, "sea": 9.0}).to_numpy()
    model = PrivateRegressor(**{**DECLARED, "bounds": "auto"})
    with np.testing.assert_no_warnings():
        model.fit(X[["place"]], y)
    np.testing.assert_allclose(model.predict(X[["place"]]), y, atol=0.1)


CELLS = st.sampled_from(["1", "01", " 2", 2, 2.0, "x", 1, 1.0, "2.0", np.int8(1), np.float64(2)])


@given(st.lists(st.tuples(st.floats(-9, 9), CELLS), min_size=1, max_size=8), st.data())
def test_what_a_row_becomes_depends_on_no_other_row(rows, data) -> None:
    """Whatever the other rows are, and whatever type they give a column of a DataFrame or an array."""
    k = data.draw(st.integers(0, len(rows) - 1))
    columns = Columns.declared({1: ("1", "2", "x")}, None, 2)
    alone = columns.encode([list(rows[k])])
    assert alone.sum() == pytest.approx(rows[k][0] + 1.0)
    for whole in ([list(row) for row in rows], np.array(rows, dtype=object), pd.DataFrame(rows)):
        np.testing.assert_array_equal(columns.encode(whole)[[k]], alone)


@pytest.mark.parametrize("cell", ["secret", "Town", None, np.nan, "", ("town",), b"town", "town\ud800", 3])
@pytest.mark.parametrize("kind", [lambda X: X, lambda X: X.to_numpy()])
def test_a_value_that_is_not_declared_is_refused_unquoted(cell, kind) -> None:
    X, y = table(60)
    X["place"] = X["place"].astype(object)
    X.iat[7, 1] = cell
    names = isinstance(kind(X), pd.DataFrame)
    model = PrivateRegressor(
        **{**DECLARED, "bounds": (0, 10), "categories": {"place" if names else 1: PLACES}},
    )
    with pytest.raises(
        ValueError, match=r"^X: column '(place|x1)' has a value that is missing or is not one"
    ) as refused:
        model.fit(kind(X), y)
    assert model.shared_ledger.spent == 0
    assert not any(said in str(refused.value) for said in ("secret", "Town", "row", "b'"))


def test_a_missing_value_may_be_a_level_of_its_own_name() -> None:
    X, y = table(60)
    X.iat[7, 1] = "NA"
    model = PrivateRegressor(**{**DECLARED, "categories": {"place": (*PLACES, "NA")}}).fit(X, y)
    assert model.coef_names_[4] == "place=NA"


def test_texts_without_levels_are_refused_with_the_advice() -> None:
    X, y = table(60)
    model = PrivateRegressor(**{**DECLARED, "bounds": (0, 10), "categories": None})
    with pytest.raises(ValueError, match=r"declare the levels of a column of texts, such as categories=\{") as refused:
        model.fit(X, y)
    assert not any(place in str(refused.value).replace('("town", "country")', "") for place in PLACES)
    with pytest.raises(ValueError, match="declare the levels"):
        model.set_params(categories={"age": ("1", "2")}).fit(X[["place", "age"]].assign(age=1), y)


@pytest.mark.parametrize(
    ("categories", "says"),
    [
        (["place"], "must be a mapping"),
        ({"plaice": PLACES}, "X has no column plaice; give each column by its name"),
        ({1: PLACES}, "X has no column 1; give each column by its name"),
        ({"place": "town"}, "the levels of column 'place' must be a sequence"),
        ({"place": ("town",)}, "column place: declare two or more"),
        ({"place": ("town", "town")}, "column place: declare two or more"),
        ({"place": ("town", None)}, "a level of column 'place' is neither"),
    ],
)
def test_a_wrong_declaration_is_told(categories, says: str) -> None:
    X, y = table(60)
    with pytest.raises(InvalidInput, match=f"^categories: .*{says}"):
        PrivateRegressor(**{**DECLARED, "categories": categories}).fit(X, y)


def test_what_does_not_go_with_categories_is_told() -> None:
    X, y = table(60)
    model = PrivateRegressor(**{**DECLARED, "categories": {"place": PLACES}})
    with pytest.raises(InvalidInput, match="bounds: X has no place among its numbers"):
        model.set_params(bounds={**BOUNDS, "place": (0, 1)}).fit(X, y)
    model.set_params(bounds=(0, 1), categories={0: ("0", "1")})
    with pytest.raises(InvalidInput, match="categories: X is sparse"):
        model.fit(sp.csr_array(np.ones((60, 2))), y)
    with pytest.raises(InvalidInput, match="X has no column 5, True; give each column by its position"):
        model.set_params(categories={5: ("0", "1"), True: ("0", "1")}).fit(np.ones((60, 2)), y)


def test_a_row_has_one_level_and_the_terms_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels add one to ‖x‖₁ of a row, not their number, so they cost less noise than as many columns of numbers."""
    X, y = table()
    asked = []
    monkeypatch.setattr(
        linear,
        "without_data",
        lambda *given, **named: (asked.append(named["nonzero"]), without_data(*given, **named))[1],
    )
    model = PrivateRegressor(**{**DECLARED, "epsilon": 1.0}).fit(X, y)
    assert asked[0] == 3
    assert np.abs(model._columns.encode(X) @ [0, 1, 1, 1, 0]).max() == 1.0
    wanted = terms(
        columns=41, loss="squared", threshold=1.0, regularization=1e-5, intercept=True, feature_bound="auto",
        owners=[{"name": "owner", "records": 2000, "epsilon": 1.0, "delta": 0.0}],
    )  # fmt: skip
    assert without_data(wanted, nonzero=2).expected_gap < 0.8 * without_data(wanted).expected_gap
