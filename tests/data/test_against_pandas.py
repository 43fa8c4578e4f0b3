"""Columns of real tables encoded by the schema and, independently, by pandas and scikit-learn: the same numbers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder

from copriv.agreement.data_terms import declared_schema

SHARED = Path(__file__).parents[3] / "shared" / "data"


def frame(name: str, columns: list[str]) -> pd.DataFrame:
    path = SHARED / name
    if not path.exists():
        pytest.skip("the tables of ../shared are not here")
    return pd.read_parquet(path, columns=columns).sample(2000, random_state=0).reset_index(drop=True)


@pytest.mark.parametrize("read", ["pandas", "csv"])
def test_diamonds_are_encoded_as_pandas_and_scikit_learn_encode_them(read, tmp_path):
    """Numbers, a nominal category, an ordered one and clamping, with and without a CSV file in between."""
    table = frame("unlike/diamonds.parquet", ["carat", "depth", "cut", "color", "_target"])
    table["cut"], table["color"] = table["cut"].astype(str), table["color"].astype(str)
    cuts, colors = ["Fair", "Good", "Very Good", "Premium", "Ideal"], sorted(table["color"].unique())
    schema = declared_schema({
        "features": ["carat", "depth", "cut", "color"], "target": "_target",
        "bounds": {"carat": [0.2, 2.0], "depth": [40, 80], "_target": [0, 20_000]},
        "categories": {"cut": cuts, "color": colors}, "ordered": ["cut"],
        "scales": {"carat": "log", "depth": "centred"}, "clamp": ["carat"],
    })  # fmt: skip
    source: object = table
    if read == "csv":
        source = tmp_path / "diamonds.csv"
        table.to_csv(source, index=False)
    found = schema.encode(source)
    carat = np.log1p(table["carat"].clip(0.2, 2.0) - 0.2) / np.log(1 + 1.8)
    depth = MinMaxScaler((-1, 1)).fit([[40.0], [80.0]]).transform(table[["depth"]].to_numpy())[:, 0]
    cut = (OrdinalEncoder(categories=[cuts]).fit_transform(table[["cut"]])[:, 0] + 1) / 5
    color = OneHotEncoder(categories=[colors], sparse_output=False).fit_transform(table[["color"]])
    np.testing.assert_allclose(found.features, np.column_stack([carat, depth, cut, color]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.target, table["_target"], rtol=0, atol=0)
    assert found.moved == {"carat": int(((table["carat"] > 2.0) | (table["carat"] < 0.2)).sum())}


def test_stays_of_diabetics_are_encoded_as_pandas_encodes_them(tmp_path):
    """Booleans, missing values that are declared, and codes that a CSV reader takes for numbers; two classes."""
    table = frame("diabetes_130_hospitals.parquet", ["race", "gender", "num_medications", "change", "time_in_hospital"])
    table["code"] = [f"0{n % 7 + 1}" for n in table["num_medications"]]
    table["admitted"] = pd.Timestamp("1999-01-01") + pd.to_timedelta(table["num_medications"] * 20, unit="D")
    table["treated"] = table["change"].eq("Ch")
    table["race"] = table["race"].replace("?", None)
    races = ["AfricanAmerican", "Asian", "Caucasian", "Hispanic", "Other"]
    codes = [f"0{n}" for n in range(1, 8)]
    schema = declared_schema({
        "features": ["race", "treated", "code", "admitted", "num_medications"], "target": "gender",
        "bounds": {"num_medications": [0, 40]}, "booleans": ["treated"],
        "dates": {"admitted": ["1999-01-01", "2002-01-01"]}, "clamp": ["num_medications", "admitted"],
        "categories": {"race": races, "code": codes, "gender": ["Male", "Female"]}, "missing": {"race": "Other"},
    })  # fmt: skip
    table = table[table["gender"].isin(["Male", "Female"])].reset_index(drop=True)
    path = tmp_path / "stays.csv"
    table.to_csv(path, index=False)
    days = (table["admitted"] - pd.Timestamp("1999-01-01")).dt.days
    expected = np.column_stack([
        pd.get_dummies(pd.Categorical(table["race"].fillna("Other"), races)).to_numpy(float),
        table["treated"].to_numpy(float),
        pd.get_dummies(pd.Categorical(table["code"], codes)).to_numpy(float),
        days.clip(0, 1096) / 1096,
        table["num_medications"].clip(0, 40) / 40,
    ])  # fmt: skip
    for source in (table, path):
        found = schema.encode(source)
        np.testing.assert_allclose(found.features, expected, rtol=0, atol=1e-12)
        assert found.target.tolist() == np.where(table["gender"] == "Female", 1.0, -1.0).tolist()
