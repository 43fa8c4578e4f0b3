"""The dictionary is the papers' PCA on a fixed scale, a row-local map, and survives its journey as JSON bit by bit."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from copriv.data import PublicDictionary
from copriv.errors import DataError, InvalidInput


def public(rows=300, columns=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 1.0, (rows, columns)) @ np.diag(0.5 ** np.arange(columns))


@pytest.mark.parametrize("rows", [50, 2000, 10_000])
def test_features_are_white_with_mean_square_1e_4_whatever_the_number_of_rows(rows):
    z = public(rows)
    x = PublicDictionary.fit(z, 4).apply(z)
    np.testing.assert_allclose(x.T @ x / rows, 1e-4 * np.eye(4), atol=1e-12)


def test_on_10000_rows_it_is_the_papers_dictionary():
    z = public(10_000)
    _, singular, transposed = np.linalg.svd(z, full_matrices=False)  # Z'Z = V D V', D = singular values squared
    papers = z @ transposed[:3].T / singular[:3]
    ours = PublicDictionary.fit(z, 3).apply(z)
    signs = np.sign((papers * ours).sum(axis=0))
    np.testing.assert_allclose(ours, papers * signs, atol=1e-10)


def test_centred_it_is_the_usual_pca():
    z = public()
    ours = PublicDictionary.fit(z, 3, centred=True).apply(z)
    usual = PCA(3, whiten=True).fit_transform(z) / 100 * np.sqrt(len(z) / (len(z) - 1))  # divides by n − 1
    np.testing.assert_allclose(np.abs(ours), np.abs(usual), atol=1e-10)
    np.testing.assert_allclose(ours.mean(axis=0), 0, atol=1e-12)


def test_uncentred_it_keeps_the_mean():
    z = public()
    assert np.abs(PublicDictionary.fit(z, 3).apply(z).mean(axis=0)).max() > 1e-3


@given(st.integers(0, 299), st.integers(0, 100))
def test_a_row_is_mapped_from_itself_alone(row, seed):
    z = public(seed=seed)
    dictionary = PublicDictionary.fit(z, 4)
    np.testing.assert_array_equal(dictionary.apply(z)[row], dictionary.apply(z[row : row + 1])[0])


def test_order_of_equal_public_rows_decides_no_sign():
    z = public()
    a, b = PublicDictionary.fit(z, 4), PublicDictionary.fit(z[::-1], 4)
    np.testing.assert_allclose(a.matrix, b.matrix, rtol=1e-8, atol=1e-12)


def test_json_keeps_every_bit():
    dictionary = PublicDictionary.fit(public(), 4, centred=True)
    again = PublicDictionary.from_json(dictionary.to_json())
    np.testing.assert_array_equal(again.matrix, dictionary.matrix)
    np.testing.assert_array_equal(again.mean, dictionary.mean)
    assert again.fingerprint == dictionary.fingerprint
    assert PublicDictionary.fit(public(seed=1), 4).fingerprint != dictionary.fingerprint
    assert again.names == ("pc1", "pc2", "pc3", "pc4")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a dictionary file"),
        ("[1]", "not a dictionary file"),
        ('{"schema": "copriv.dictionary/1"}', "not a dictionary file"),
        ('{"schema": "other/1", "mean": [], "matrix": []}', "this version reads"),
        ('{"schema": "copriv.dictionary/1", "mean": [0.0], "matrix": [[1.0], [2.0]]}', "damaged"),
        ('{"schema": "copriv.dictionary/1", "mean": [0.0], "matrix": [[NaN]]}', "finite"),
        ('{"schema": "copriv.dictionary/1", "mean": [0.0], "matrix": [["x"]]}', "numbers"),
    ],
)
def test_a_damaged_dictionary_is_refused(text, says):
    with pytest.raises(InvalidInput, match=says):
        PublicDictionary.from_json(text)


def test_too_many_components_for_the_public_rows():
    with pytest.raises(DataError, match=r"data.components: 7 asked for, but the 300 public rows have 6"):
        PublicDictionary.fit(public(), 7)
    z = public()
    z[:, 3] = z[:, 2]
    with pytest.raises(DataError, match=r"5 independent directions in 6 columns; lower data.components"):
        PublicDictionary.fit(z, 6)
    with pytest.raises(DataError, match="3 independent"):
        PublicDictionary.fit(z[:3], 4)


def test_a_table_of_another_schema_is_refused():
    with pytest.raises(DataError, match="made for 6 columns, the table has 5"):
        PublicDictionary.fit(public(), 2).apply(public(columns=5))


def test_json_is_plain_numbers():
    assert set(json.loads(PublicDictionary.fit(public(), 2).to_json())) == {"schema", "mean", "matrix"}
