"""What each kind of declared column becomes, and that nominal levels are no longer put in an order that they do not have."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import copriv
from copriv.agreement.data_terms import declared_schema
from copriv.data import Schema
from copriv.data.columns import Category, Date, Number, TwoClasses
from copriv.data.datasets import lending
from copriv.errors import AgreementError, DataError
from copriv.network.model import Model
from copriv.network.setup import make_consortium, n_parameters, owner_records
from copriv.problem import Problem

COLUMNS = {
    "features": ["age", "stage", "county", "smoker", "admitted"],
    "target": "days",
    "bounds": {"age": [0, 100], "days": [0, 50]},
    "categories": {"stage": ["I", "II", "III", "IV"], "county": ["Kent", "Surrey", "Essex"]},
    "ordered": ["stage"],
    "booleans": ["smoker"],
    "dates": {"admitted": ["2020-01-01", "2020-12-31"]},
}
ROWS = {
    "age": [50, 25],
    "stage": ["II", "IV"],
    "county": ["Essex", "Kent"],
    "smoker": [True, False],
    "admitted": [date(2020, 1, 1), date(2020, 12, 31)],
    "days": [3, 7],
}
EXPECTED = [[0.5, 0.5, 0, 0, 1, 1, 0], [0.25, 1.0, 1, 0, 0, 0, 1]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_each_kind_of_column(make):
    schema = declared_schema(COLUMNS)
    encoded = schema.encode(make(ROWS))
    np.testing.assert_allclose(encoded.features, EXPECTED)
    assert schema.feature_names == (
        "age", "stage", "county=Kent", "county=Surrey", "county=Essex", "smoker", "admitted",
    )  # fmt: skip
    assert encoded.moved == {}


def test_the_same_from_text(tmp_path):
    lines = [
        "age,stage,county,smoker,admitted,days",
        "50,II,Essex,yes,2020-01-01,3",
        "25,IV,Kent,No,2020-12-31T08:00,7",
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    np.testing.assert_allclose(declared_schema(COLUMNS).encode(tmp_path / "t.csv").features, EXPECTED)
    moment = pd.DataFrame({**ROWS, "admitted": [datetime(2020, 1, 1, 5), pd.Timestamp("2020-12-31 23:59")]})
    np.testing.assert_allclose(declared_schema(COLUMNS).encode(moment).features, EXPECTED)


def test_in_the_papers_encoding_everything_is_one_number():
    from dataclasses import replace

    schema = replace(declared_schema(COLUMNS), scaling="none")
    day = (date(2020, 1, 1) - date(1970, 1, 1)).days
    np.testing.assert_allclose(schema.encode(pa.table(ROWS)).features, [[50, 1, 2, 1, day], [25, 3, 0, 0, day + 365]])
    # The built-in pipelines count as the papers do, in either scaling.
    for built_in in (lending.OPENINTRO, lending.MODELDATA, lending.PUBLISHED):
        assert len(built_in.feature_names) == len(built_in.columns)
        assert len(replace(built_in, scaling="declared").feature_names) == len(built_in.columns)


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_levels_are_told_apart_whatever_their_order(k, seed):
    """Any function of a nominal level is linear in its features: with k/K only one in the levels' order is."""
    rng = np.random.default_rng(seed)
    levels = tuple(f"level-{j}" for j in range(k))
    at = np.concatenate([np.arange(k), rng.integers(0, k, 20)])
    y = rng.normal(size=k)[at]
    series = pl.Series("c", [levels[j] for j in at])
    import narwhals.stable.v2 as nw

    def left(ordered):
        x = Category("c", levels, ordered=ordered).encode(nw.from_native(series, series_only=True), "declared").values
        return np.square(x @ np.linalg.lstsq(x, y)[0] - y).mean()

    assert left(ordered=False) < 1e-20
    assert k < 3 or left(ordered=True) > left(ordered=False)


def hospitals(rows, seed):
    """Stays that depend on a ward without an order: as the audit's table does."""
    rng = np.random.default_rng(seed)
    ward, age = rng.integers(0, 6, rows), rng.uniform(0, 100, rows)
    effect = np.array([9.0, 1.0, 7.0, 2.0, 8.0, 3.0])
    days = np.clip(effect[ward] + 0.03 * age + rng.normal(0, 1.5, rows), 0, 30)
    return pa.table({"age": age, "ward": [f"w{w}" for w in ward], "days": days})


def r_squared(problem):
    x = np.concatenate([o.features for o in problem.owners])
    y = np.concatenate([o.target for o in problem.owners])
    return 1 - np.square(x @ np.linalg.lstsq(x, y)[0] - y).sum() / np.square(y - y.mean()).sum()


def test_a_hospital_table_keeps_what_its_wards_tell(tmp_path):
    pa.parquet.write_table(hospitals(1200, 0), tmp_path / "t.parquet")
    document = {
        "agreement": {"rule": "A2", "horizon": 6, "answers": 2, "step": 0.3},
        "model": {"loss": "squared", "gradient_bound": "proved", "theta_max": 100.0},
        "data": {
            "path": str(tmp_path / "t.parquet"), "public_rows": 200, "components": 0, "features": ["age", "ward"],
            "target": "days", "bounds": {"age": [0, 100], "days": [0, 30]},
            "categories": {"ward": [f"w{k}" for k in range(6)]},
        },
        "owner": [{"name": "a", "records": 500, "epsilon": 1.0}, {"name": "b", "records": 500, "epsilon": 1.0}],
    }  # fmt: skip
    nominal = Problem.load(copriv.Agreement.of(document))
    document["data"]["ordered"] = ["ward"]
    ordered = Problem.load(copriv.Agreement.of(document))
    assert r_squared(nominal) > 0.75
    assert r_squared(ordered) < 0.3
    assert nominal.n_parameters == 7
    # A level adds 1 to a record's length, an age at most 1; B is beyond the longest public row, and Xi is proved from it.
    lengths = np.abs(nominal.unbounded_public.features).sum(axis=1)
    assert lengths.min() >= 1
    assert lengths.max() <= nominal.feature_bound < 3
    B = nominal.feature_bound
    assert nominal.agreement.gradient_bound == pytest.approx(2 * B * (B * 100 + 30))
    assert nominal.terms.fingerprint != ordered.terms.fingerprint


def test_levels_reach_owners_learner_and_model_alike(tmp_path):
    table = {**{name: values * 40 for name, values in ROWS.items()}}
    pa.parquet.write_table(pa.table(table), tmp_path / "mine.parquet")
    document = {
        "agreement": {"rule": "A2", "horizon": 6, "answers": 2, "step": 0.3},
        "model": {"loss": "squared", "gradient_bound": 1.0},
        "data": {**COLUMNS, "components": 0, "public": str(tmp_path / "mine.parquet"), "clamp": ["days"]},
        "owner": [{"name": "a", "records": 80, "epsilon": 1.0}],
    }
    made = make_consortium(copriv.Agreement.of(document), tmp_path / "net")
    assert n_parameters(made.agreement, None) == 7
    records, names = owner_records(made.agreement, "a", tmp_path / "mine.parquet", None)
    assert (records.n_parameters, names[:5]) == (7, tuple(COLUMNS["features"]))
    model = Model(made.agreement, np.arange(7.0), None, {})
    np.testing.assert_allclose(model.features(pa.table(ROWS)), records.features[:2])
    assert copriv.Agreement.load(tmp_path / "net" / "agreement.toml").fingerprint == made.agreement.fingerprint


def test_dates_may_be_tomls_own():
    import tomllib

    text = "dates = {admitted = [2020-01-01, 2020-12-31]}\nmissing = {admitted = 2020-06-01}"
    data = {**COLUMNS, **tomllib.loads(text)}
    terms = {"rule": "A2", "horizon": 1, "step": 1.0}
    owner = [{"name": "a", "records": 1, "epsilon": 1.0}]
    document = {"agreement": terms, "model": {"loss": "squared"}, "data": data, "owner": owner}
    agreement = copriv.Agreement.of(document)
    assert agreement.data.dates == {"admitted": ("2020-01-01", "2020-12-31")}
    assert copriv.Agreement.of(tomllib.loads(agreement.to_toml())).fingerprint == agreement.fingerprint
    encoded = declared_schema(agreement.data.model_dump()).encode(pa.table({**ROWS, "admitted": [None, "NaT"]}))
    np.testing.assert_allclose(encoded.features[:, -1], 152 / 365)


def number(cells, **declared):
    import narwhals.stable.v2 as nw

    series = nw.from_native(pl.Series("x", cells), series_only=True)
    return Number("x", 0.0, 100.0, **declared).encode(series, "declared")


def test_scales():
    assert number([0.0, 50.0, 100.0]).values[:, 0].tolist() == [0.0, 0.5, 1.0]
    assert number([0.0, 50.0, 100.0], by="centred").values[:, 0].tolist() == [-1.0, 0.0, 1.0]
    np.testing.assert_allclose(number([0.0, 9.0, 100.0], by="log").values[:, 0], np.log([1, 10, 101]) / np.log(101))
    for by in ("size", "centred", "log"):
        assert np.abs(number(np.linspace(0, 100, 50), by=by).values).max() <= 1


def test_what_is_clamped_is_counted():
    found = number([-5.0, 50.0, 101.0, None], clamp=True, missing=7.0)
    assert (found.values[:, 0].tolist(), found.problems, found.moved) == ([0.0, 0.5, 1.0, 0.07], [], 2)
    assert [str(one) for one in number([-5.0, 50.0], clamp=False).problems] == [
        "x, row 1: is -5, below its declared bound 0; correct it, declare wider bounds, or clamp"
    ]
    assert number([500.0], cap=True).moved == 1
    assert number([np.inf], clamp=True).problems  # no number, so it has no nearest bound
    table = pa.table({**ROWS, "age": [150, 20], "admitted": [date(2019, 1, 1), date(2020, 5, 5)]})
    encoded = declared_schema({**COLUMNS, "clamp": ["age", "admitted"]}).encode(table)
    assert encoded.moved == {"age": 1, "admitted": 1}
    np.testing.assert_allclose(encoded.features[0, [0, -1]], [1.0, 0.0])


@pytest.mark.parametrize(
    ("column", "cells", "says"),
    [
        ("smoker", ["perhaps", "no"], "smoker, row 1: is 'perhaps', not one of false, no"),
        ("smoker", [None, "no"], "smoker, row 1: is missing"),
        (
            "admitted",
            ["31.12.2020", "2020-01-01"],
            "admitted, row 1: is '31.12.2020', not a date; write it as 2015-12-31",
        ),
        (
            "admitted",
            ["2020-05-01", "2021-01-01"],
            "admitted, row 2: is 2021-01-01, above its declared bound 2020-12-31",
        ),
        ("county", ["Kent", "Wessex"], "county, row 2: is 'Wessex', not one of Kent, Surrey, Essex"),
        ("age", ["3,5", "4"], "age, row 1: is '3,5', not a number; write decimals with a point"),
    ],
)
def test_a_bad_cell_is_told_in_words(column, cells, says):
    with pytest.raises(DataError, match=says):
        declared_schema(COLUMNS).encode(pa.table({**ROWS, column: cells}))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ordered": ["age"]}, r"data\.ordered\.age: the column is declared by bounds; ordered goes with categories"),
        ({"ordered": ["height"]}, r"data\.ordered\.height: neither a feature nor the target"),
        ({"scales": {"stage": "log"}}, r"data\.scales\.stage: the column is declared by categories"),
        ({"scales": {"days": "log"}}, r"data\.scales\.days: the target is taken as it is"),
        ({"clamp": ["county"]}, r"data\.clamp\.county: the column is declared by categories"),
        ({"booleans": ["smoker", "age"]}, r"data\.bounds\.age: the column has both bounds and booleans"),
        ({"booleans": []}, r"data\.bounds\.smoker: the column has neither bounds nor categories"),
        ({"dates": {"admitted": ["2020-12-31", "2020-01-01"]}}, "the first day must be before the last"),
        (
            {"dates": {"admitted": ["soon", "2020-01-01"]}},
            r"data\.dates\.admitted: .*declare the first and the last day",
        ),
        (
            {"missing": {"smoker": "perhaps"}},
            r"data\.missing\.smoker: missing counts as 'perhaps', which is neither true nor false; give true or false",
        ),
        ({"missing": {"admitted": "1999-01-01"}}, r"data\.missing\.admitted: .*not between .*; give a day within"),
        (
            {"missing": {"stage": "xx"}},
            r"data\.missing\.stage: .*not one of its levels; give one of its levels, or declare",
        ),
        ({"missing": {"age": 999.0}}, r"data\.missing\.age: .*outside its own bounds .*; give a number within"),
        ({"missing": {"age": "old"}}, r"data\.missing\.age: .*which is no number; give a number within"),
        ({"target": "smoker", "features": ["age", "stage", "county", "admitted"]}, r"data\.bounds\.days: neither"),
    ],
)
def test_a_declaration_that_cannot_be(change, says):
    with pytest.raises(AgreementError, match=says):
        declared_schema({**COLUMNS, **change})


def test_a_column_of_days_has_a_first_and_a_last_one():
    with pytest.raises(DataError):
        Date("d", date(2020, 1, 2), date(2020, 1, 1))


@pytest.mark.parametrize("written", [("01", "02", "02"), ("1", "2", "2"), ("1.0", "2.0", "2.0")])
def test_levels_that_a_reader_takes_for_numbers_are_found(tmp_path, written):
    """A CSV file's 01 is read as the number 1; the declared level is what stands in the file."""
    path = tmp_path / "codes.csv"
    path.write_text("code,y\n" + "".join(f"{code},1\n" for code in written))
    schema = Schema((Category("code", ("01", "02")),), Number("y", 0, 1))
    assert schema.encode(path).features.tolist() == [[1, 0], [0, 1], [0, 1]]


def test_truth_values_are_found_under_the_levels_that_a_file_writes(tmp_path):
    path = tmp_path / "fraud.csv"
    path.write_text("x,fraud\n1,true\n0,false\n")
    schema = Schema((Number("x", 0, 1),), TwoClasses("fraud", "false", "true"))
    assert schema.encode(path).target.tolist() == [1.0, -1.0]


def test_levels_that_would_read_alike_are_kept_apart():
    import pandas

    schema = Schema((Category("code", ("1", "01")),), Number("y", 0, 1))
    frame = pandas.DataFrame({"code": ["01", "1"], "y": [0.0, 1.0]})
    assert schema.encode(frame).features.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("cell", ["2020-02-01junk", "2020-02-31", "0000-01-01", "20.02.2020"])
def test_what_only_begins_as_a_day_is_none(cell):
    import pandas

    schema = Schema((Date("day", date(2020, 1, 1), date(2021, 1, 1)),), Number("y", 0, 1))
    problems = schema.problems(pandas.DataFrame({"day": ["2020-01-05", cell], "y": [0.0, 1.0]}))
    assert problems == [f"day, row 2: is {cell!r}, not a date; write it as 2015-12-31"]
