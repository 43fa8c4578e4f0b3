"""Sparse tables: the same rows as dense ones, and none that memory cannot hold."""

import numpy as np
import pytest
import scipy.sparse as sp

from copriv import InvalidInput
from copriv.estimators import PrivateClassifier, PrivateRegressor, inputs

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, (600, 3)) * (RNG.random((600, 3)) < 0.4)
Y = X @ [0.2, -0.1, 0.05] + 1.0
DECLARED = {"epsilon": 1e5, "bounds": (0, 10), "target_bounds": (-1, 4)}


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_array])
def test_a_sparse_table_is_fitted_as_the_dense_one(kind) -> None:
    model = PrivateRegressor(**DECLARED).fit(kind(X), Y)
    np.testing.assert_allclose(model.coef_, [0.2, -0.1, 0.05], atol=2e-3)
    np.testing.assert_allclose(model.predict(kind(X)), model.predict(X), atol=1e-12)


def test_classes_are_fitted_from_sparse_tables_too() -> None:
    model = PrivateClassifier(epsilon=1e5, bounds=(0, 10), classes=(0, 1)).fit(sp.csr_array(X), (Y > 1.5).astype(int))
    np.testing.assert_allclose(model.predict_proba(sp.csr_array(X)), model.predict_proba(X), atol=1e-12)


def test_a_table_that_is_too_large_is_refused_before_it_is_made() -> None:
    model = PrivateRegressor(**DECLARED)
    wide = sp.csr_array((100_000, 2_000))  # 1.49 GiB
    with pytest.raises(InvalidInput, match=r"X: a sparse table of 100,000 rows and 2,000 columns takes 1\.49 GiB"):
        model.fit(wide, np.zeros(100_000))
    assert model.shared_ledger.spent == 0


def test_what_is_just_small_enough_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "DENSE", 8 * 600 * 3)
    assert inputs.dense(sp.csr_array(X)).shape == X.shape
    monkeypatch.setattr(inputs, "DENSE", 8 * 600 * 3 - 1)
    with pytest.raises(InvalidInput, match="Give fewer columns"):
        inputs.dense(sp.csr_array(X))


def test_no_message_quotes_a_cell_of_a_sparse_table() -> None:
    wrong = sp.csr_array(X)
    wrong.data[:2] = 424242.0, np.nan
    with pytest.raises(ValueError, match="NaN") as refused:
        PrivateRegressor(**DECLARED).fit(wrong, Y)
    assert "4242" not in str(refused.value)
