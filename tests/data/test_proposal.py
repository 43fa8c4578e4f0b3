"""What is proposed of public rows holds for these rows, is rounded outward, and never rests on a private value."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.agreement.data_terms import declared_schema
from copriv.data import check_table, read_table
from copriv.data.proposal import as_declared, outward, proposals

ROWS = 60
CELLS = {
    "age": [str(20 + k % 50) for k in range(ROWS)],
    "income": ["NA" if k % 7 == 0 else str(1234.5 * (k + 1)) for k in range(ROWS)],
    "stage": [("I", "II", "III")[k % 3] for k in range(ROWS)],
    "county": [("Kent", "Surrey", "other", "")[k % 4] for k in range(ROWS)],
    "smoker": [("yes", "no", "No")[k % 3] for k in range(ROWS)],
    "ill": [("ill", "well")[k % 2] for k in range(ROWS)],
    "coin": [("0", "1")[k % 2] for k in range(ROWS)],
    "seen": ["null" if k == 3 else f"201{k % 5}-0{1 + k % 9}-1{k % 9}" for k in range(ROWS)],
    "code": [f"0{k % 3}7" for k in range(ROWS)],
    "row": [str(k + 1) for k in range(ROWS)],
    "name": [f"person {k}" for k in range(ROWS)],
    "same": ["1", "1.0"] * (ROWS // 2),
    "empty": ["", "NA"] * (ROWS // 2),
    "days": [str(k % 11) for k in range(ROWS)],
}


@pytest.fixture
def table(tmp_path):
    def written(cells) -> Path:
        pd.DataFrame(cells).to_csv(tmp_path / "public.csv", index=False)
        return tmp_path / "public.csv"

    return written


def found(path):
    return {one.name: one for one in proposals(read_table(path))}


def test_a_column_without_a_name_is_left_out(table):
    said = found(table({"": ["x", "y"] * 30, "age": CELLS["age"]}))
    assert (said[""].kind, said[""].why_not) == (None, "has no name")


def test_each_kind_of_column(table):
    said = found(table(CELLS))
    kinds = {name: (one.kind, one.value, one.ordered, one.missing) for name, one in said.items() if one.kind}
    assert kinds == {
        "age": ("bounds", (20.0, 70.0), False, None),
        "income": ("bounds", (0.0, 80000.0), False, pytest.approx(np.median(
            [1234.5 * (k + 1) for k in range(ROWS) if k % 7]), rel=5e-3)),
        "stage": ("categories", ("I", "II", "III"), True, None),
        "county": ("categories", ("Kent", "Surrey", "other"), False, "other"),
        "smoker": ("booleans", (), False, None),
        "ill": ("categories", ("ill", "well"), False, None),
        "coin": ("bounds", (0.0, 1.0), False, None),
        "seen": ("dates", ("2010-01-01", "2014-12-31"), False, said["seen"].missing),
        "code": ("categories", ("007", "017", "027"), False, None),
        "days": ("bounds", (0.0, 10.0), False, None),
    }  # fmt: skip
    assert "2010-01-01" <= said["seen"].missing <= "2014-12-31"
    assert {name for name, one in said.items() if one.predictable} == {"age", "ill", "coin", "days"}
    assert {name: one.why_not for name, one in said.items() if not one.kind} == {
        "row": "numbers its rows",
        "name": "has 60 different texts: it names things, not kinds of things",
        "same": "is the same in every row",
        "empty": "holds nothing",
    }


@pytest.mark.parametrize("target", ["days", "age", "ill", "coin"])
def test_rows_keep_to_what_is_proposed_of_them(table, target):
    path = table(CELLS)
    columns = [one for one in proposals(read_table(path)) if one.kind]
    declared = as_declared(columns, target)
    schema = declared_schema(declared)
    assert check_table(path, schema) == []
    assert schema.encode(path).moved == {}, "no row of the public table is out of bounds"
    ranged = {"age", "income", "coin", "seen", "days"} - ({"coin"} if target == "coin" else set())
    assert set(declared["clamp"]) == ranged, "a private row may be"


@given(st.lists(st.floats(-1e25, 1e25), min_size=2, max_size=2, unique=True).map(sorted))
def test_ranges_are_rounded_outward_by_less_than_twice_their_length(ends):
    low, high = ends
    least, most = outward(low, high)
    assert least <= low < high <= most
    assert most - least <= 4 * (high - low) * (1 + 1e-9)
    assert math.copysign(1.0, most) == 1.0 or most < 0, "no -0"


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters='\r\n"\x00', exclude_categories=["Cs"]), max_size=6),
        min_size=12, max_size=12,
    )
)  # fmt: skip
def test_whatever_texts_a_column_holds_its_rows_keep_to_what_is_proposed(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("texts") / "public.parquet"
    pd.DataFrame({"x": texts, "y": np.arange(12) % 5}).to_parquet(path)
    x, y = proposals(read_table(path))
    if x.kind is None:
        return
    assert check_table(path, declared_schema(as_declared((x, y), "y"))) == []
    if x.predictable:
        assert check_table(path, declared_schema(as_declared((y, x), "x"))) == []


@pytest.mark.parametrize("dtype", ["float", "int", "bool", "datetime", "category"])
def test_typed_columns_too(tmp_path, dtype):
    made = {
        "float": np.linspace(-3.7, 12.2, ROWS),
        "int": np.arange(ROWS) % 9,
        "bool": np.arange(ROWS) % 3 == 0,
        "datetime": pd.date_range("2001-05-01", periods=ROWS, freq="31D"),
        "category": pd.Categorical([("a", "b", "c")[k % 3] for k in range(ROWS)]),
    }
    path = tmp_path / "public.parquet"
    pd.DataFrame({"x": made[dtype], "y": np.arange(ROWS) % 5}).to_parquet(path)
    x, y = proposals(read_table(path))
    assert x.kind is not None
    assert check_table(path, declared_schema(as_declared((x, y), "y"))) == []
