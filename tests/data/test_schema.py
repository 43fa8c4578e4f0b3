"""The schema encodes row by row from declarations alone, and refuses everything else with column, row and advice."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.agreement.data_terms import declared_schema
from copriv.data import Category, Number, Schema, TwoClasses, check_table
from copriv.errors import AgreementError, DataError

SCHEMA = Schema(
    (
        Number("age", 0, 120),
        Number("debt", -50, 100, missing=0, cap=True),
        Category("state", ("CA", "NY", "n/a"), "n/a", ordered=True),
    ),
    Number("rate", 0, 40),
)
GOOD = {"age": [30, 60, 120], "debt": [-50.0, None, 400.0], "state": ["CA", " NY ", None], "rate": [5.0, 10.0, 40.0]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_encoding(make):
    encoded = SCHEMA.encode(make(GOOD))
    expected = [[0.25, -0.5, 1 / 3], [0.5, 0.0, 2 / 3], [1.0, 1.0, 1.0]]
    np.testing.assert_allclose(encoded.features, expected, rtol=1e-15)
    np.testing.assert_array_equal(encoded.target, [5.0, 10.0, 40.0])
    assert encoded.unit is None
    assert SCHEMA.target_bound == 40


def test_two_classes_and_levels_that_are_numbers_in_the_file():
    schema = Schema((Category("code", ("1", "2", "10"), ordered=True),), TwoClasses("fraud", "0", "1"))
    encoded = schema.encode(pd.DataFrame({"code": [10.0, 1.0], "fraud": [1, 0]}))
    np.testing.assert_allclose(encoded.features[:, 0], [1.0, 1 / 3])
    np.testing.assert_array_equal(encoded.target, [1.0, -1.0])
    assert schema.target_bound == 1


def test_pandas_categories_and_mixed_objects():
    schema = Schema((Category("s", ("a", "1"), ordered=True),), Number("y", 0, 1))
    for column in (pd.Categorical(["a", "1", "a"]), pd.Series(["a", 1, "a"], dtype=object)):
        encoded = schema.encode(pd.DataFrame({"s": column, "y": [0, 1, 0]}))
        np.testing.assert_allclose(encoded.features[:, 0], [0.5, 1.0, 0.5])


def test_persons_are_numbered_in_order_of_appearance():
    schema = Schema((Number("x", 0, 1),), Number("y", 0, 1), unit="patient")
    encoded = schema.encode(pa.table({"x": [0.0] * 4, "y": [0.0] * 4, "patient": [77, 5, 77, 6]}))
    np.testing.assert_array_equal(encoded.unit, [0, 1, 0, 2])


BAD = [
    ("age", [30, None, 40], r"age, row 2: is missing; fill it in"),
    ("age", [30, math.nan, math.nan], r"age, row 2 \(and 1 more row\): is missing; fill it in"),
    ("age", [30, 40, 121], r"age, row 3: is 121, above its declared bound 120; correct it"),
    ("age", [-1, 40, 121], r"age, row 1: is -1, below its declared bound 0; correct it"),
    ("age", [1.0, math.inf, 1.0], r"age, row 2: is inf, above its declared bound 120; correct it"),
    ("age", ["30", "forty", "50"], r"age, row 2: is 'forty', not a number; correct it"),
    ("age", [True, False, True], r"age, row 1: is True, not a number; correct it"),
    ("debt", [-51.0, 0.0, 0.0], r"debt, row 1: is -51, below its declared bound -50; correct it"),
    ("debt", [0.0, -math.inf, math.inf], r"debt, row 2: is -inf, below its declared bound -50; correct it"),
    ("state", ["CA", "TX", "TX"], r"state, row 2 \(and 1 more row\): is 'TX', not one of CA, NY, n/a; correct it"),
    ("rate", [None, 1.0, 2.0], r"rate, row 1: is missing; fill it in"),
    ("rate", [1.0, 1.0, 41.0], r"rate, row 3: is 41, above its declared bound 40; correct it"),
    ("age", None, r"age: the table has no such column \(of those declared it has debt, state, rate\); add it"),
]


@pytest.mark.parametrize(("column", "cells", "says"), BAD)
def test_bad_input_names_column_row_and_remedy(column, cells, says):
    table = pd.DataFrame(
        {**GOOD, column: cells} if cells is not None else {k: v for k, v in GOOD.items() if k != column}
    )
    with pytest.raises(DataError, match=says) as refused:
        SCHEMA.encode(table)
    assert "\n" not in str(refused.value)


def test_polars_nan_is_missing_too():
    with pytest.raises(DataError, match="age, row 1: is missing"):
        SCHEMA.encode(pl.DataFrame({**GOOD, "age": [math.nan, 1.0, 2.0]}))


def test_clamping_moves_a_number_to_its_bound_and_forgives_nothing_else():
    table = pd.DataFrame({**GOOD, "age": [-5.0, 500.0, 60.0], "rate": [41.0, -1.0, 1.0]})
    encoded = SCHEMA.encode(table, "clamp")
    np.testing.assert_allclose(encoded.features[:, 0], [0.0, 1.0, 0.5])
    np.testing.assert_allclose(encoded.target, [40.0, 0.0, 1.0])
    for cells, says in (([1, None, 2], "missing"), ([1.0, math.inf, 2.0], "inf"), (["x", "1", "2"], "not a number")):
        with pytest.raises(DataError, match=says):
            SCHEMA.encode(table.assign(age=cells), "clamp")


def test_check_table_lists_every_problem(tmp_path):
    table = pd.DataFrame({"age": [-1.0, 200.0], "debt": [0, 0], "state": ["TX", "CA"]})
    problems = check_table(table, SCHEMA)
    assert [p.split(":")[0] for p in problems] == ["rate", "age, row 1", "age, row 2", "state, row 1"]
    with pytest.raises(DataError, match="3 more: `copriv data check` lists them"):
        SCHEMA.encode(table)
    assert check_table(pd.DataFrame(GOOD), SCHEMA) == []
    assert len(check_table(tmp_path / "none.csv", SCHEMA)) == 1
    assert "no rows" in check_table(pd.DataFrame(GOOD).head(0), SCHEMA)[0]


@given(st.lists(st.tuples(st.floats(0, 120), st.sampled_from(["CA", "NY"])), min_size=2, max_size=8), st.data())
def test_a_row_is_encoded_from_itself_alone(rows, data):
    def encode(some):
        ages, states = zip(*some, strict=True)
        n = len(some)
        return SCHEMA.encode(pa.table({"age": ages, "debt": [0.0] * n, "state": states, "rate": [1.0] * n})).features

    whole = encode(rows)
    k = data.draw(st.integers(0, len(rows) - 1))
    np.testing.assert_array_equal(encode(rows[k : k + 1])[0], whole[k])
    assert (np.abs(whole) <= 1).all()


MAPPING = {
    "features": ["age", "state"],
    "target": "rate",
    "bounds": {"age": [0, 120], "rate": [0, 40]},
    "categories": {"state": ["CA", "NY"]},
}


def test_a_schema_from_the_agreement():
    schema = declared_schema(MAPPING)
    assert schema == Schema((Number("age", 0, 120), Category("state", ("CA", "NY"))), Number("rate", 0, 40))
    two = declared_schema(
        {**MAPPING, "bounds": {"age": [0, 120]}, "categories": {"state": ["CA", "NY"], "rate": ["no", "yes"]}}
    )
    assert two.target == TwoClasses("rate", "no", "yes")
    assert declared_schema({**MAPPING, "missing": {"age": 40}, "unit": "id"}).names == (
        "age",
        "state",
        "rate",
        "id",
    )


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"features": None}, "data.features"),
        ({"features": "age"}, "data.features"),
        ({"target": None}, "data.target"),
        ({"features": ["age", "state", "rate"]}, "data.features"),
        ({"bounds": {"rate": [0, 40]}}, "data.bounds.age"),
        ({"bounds": {"age": [0, 120]}}, "data.bounds.rate"),
        ({"bounds": {"age": [120, 0], "rate": [0, 40]}}, "data.bounds.age"),
        ({"bounds": {"age": [0], "rate": [0, 40]}}, "data.bounds.age"),
        ({"bounds": {"age": [0, math.nan], "rate": [0, 40]}}, "data.bounds.age"),
        ({"bounds": {"age": [0, 120], "rate": [0, 40], "agee": [0, 1]}}, "data.bounds.agee"),
        ({"categories": {"state": ["CA"]}}, "data.categories.state"),
        ({"categories": {"state": ["CA", "CA"]}}, "data.categories.state"),
        ({"categories": {"state": ["CA", "NY"], "age": ["old", "young"]}}, "data.bounds.age"),
        (
            {"bounds": {"age": [0, 120]}, "categories": {"state": ["CA", "NY"], "rate": ["a", "b", "c"]}},
            "data.categories.rate",
        ),
    ],
)
def test_a_bad_declaration_starts_with_its_field_path(change, path):
    with pytest.raises(AgreementError, match=rf"^{path.replace('.', '[.]')}: ") as refused:
        declared_schema({**MAPPING, **change})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Number("x", 0, 1, missing=2),
        lambda: Number("x", 0, 1, scale=0),
        lambda: Number("x", 0, math.inf),
        lambda: Category("x", ("a", "b"), missing="c"),
        lambda: TwoClasses("x", "a", "a"),
        lambda: Schema((), Number("y", 0, 1)),
        lambda: Schema((Number("y", 0, 1),), Number("y", 0, 1)),
    ],
)
def test_declarations_check_themselves(make):
    with pytest.raises(DataError):
        make()
