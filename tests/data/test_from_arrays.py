"""Data frames are aligned by the names of their columns, and tables that cannot be read are told in words."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import copriv
from copriv.data import read_table
from copriv.errors import DataError

AGREEMENT = copriv.Agreement.of(
    {
        "agreement": {"rule": "A2", "horizon": 4, "answers": 2, "step": 0.3},
        "model": {"loss": "squared", "regularization": 0.01, "gradient_bound": 2.0},
        "owner": [{"name": name, "records": 60, "epsilon": 1.0} for name in ("a", "b")],
    }
)


def tables(kind, swap=False):
    rng = np.random.default_rng(0)
    made = []
    for _ in range(3):
        X = rng.normal(size=(60, 2)) * (1.0, 10.0)
        y = X @ (1.0, -0.2)
        if kind is not None:
            X = kind({"small": X[:, 0], "large": X[:, 1]})
            if swap and made:
                X = X[["large", "small"]]
        made.append((X, y))
    return made


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_swapped_columns_change_nothing(kind):
    expected = copriv.Problem.of(AGREEMENT, tables(None)[:2], public=tables(None)[2])
    for swap in (False, True):
        *data, public = tables(kind, swap)
        for given in (data, {"b": data[1], "a": data[0]}):
            problem = copriv.Problem.of(AGREEMENT, given, public=public)
            for ours, theirs in zip(
                (*problem.owners, problem.public), (*expected.owners, expected.public), strict=True
            ):
                np.testing.assert_array_equal(ours.features, theirs.features)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda X: X.rename(columns={"large": "size"}), "data of b: lacks 'large', other than data of a"),
        (lambda X: X.assign(more=1.0), "data of b: has 'more', other than data of a"),
        (lambda X: X.to_numpy(), "data of b: has no column names, and data of a has"),
        (lambda X: X.assign(large="x"), "large: is not a column of numbers"),
    ],
)
def test_columns_that_differ_are_named(change, says):
    (a, b, _) = tables(pd.DataFrame)
    with pytest.raises(DataError, match=says):
        copriv.Problem.of(AGREEMENT, [a, (change(b[0]), b[1])])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("a.toml", "data: give a list with one"),
        ({"a": 1}, "data: the mapping lacks 'b'"),
        ({"a": 1, "b": 2, "c": 3}, "data: the mapping has 'c'; give one table for each owner of the agreement"),
        ([1, 2], "data of a: give .X, y."),
        ([1], "data: 1 tables for 2 owners"),
    ],
)
def test_what_is_no_data_is_told(data, says):
    with pytest.raises(DataError, match=says):
        copriv.Problem.of(AGREEMENT, data)


def test_what_is_no_data_is_not_quoted():
    """A table without its targets, whose cells stood in the message."""
    private = pd.DataFrame({"age": [51.257302, 3.0]})
    for data in ([private, private], private):
        with pytest.raises(DataError) as refused:
            copriv.Problem.of(AGREEMENT, data)
        assert "51.2" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a,a,b\n1,2,3\n", "the column 'a' stands twice"),
        ("a,ñ\n1,2\n".encode("latin-1"), "is not UTF-8 text .byte 0xf1.; save it again as CSV UTF-8"),
        (b"a;b\n1;2\n", "its columns are parted by semicolons; save it with commas"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_words(tmp_path, content, says):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=says):
        read_table(tmp_path / "t.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv: is a folder"):
        read_table(tmp_path / "folder.csv")
