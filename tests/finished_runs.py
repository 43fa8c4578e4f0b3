"""A finished run's model, without a run: for what is done with one afterwards."""

from dataclasses import replace

import numpy as np
import pandas as pd

from copriv.agreement import Agreement
from copriv.agreement.data_terms import schema_of
from copriv.data.dictionary import PublicDictionary
from copriv.network.model import Model

ROWS = np.random.default_rng(0).uniform(-1, 1, (40, 2))
THETA = np.array([1.5, -0.75])


def model(loss="squared"):
    two_classes = loss in ("logistic", "hinge")
    target = {"classes": {"y": ["no", "yes"]}} if two_classes else {}
    bounds = {"a": [-1, 1], "b": [-1, 1]} | ({} if two_classes else {"y": [-4, 4]})
    agreed = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 4, "answers": 2, "step": 0.3},
            "model": {"loss": loss, "regularization": 0.1, "theta_max": 10.0, "gradient_bound": 2.0},
            "data": {"dataset": "table", "components": 0, "feature_bound": 2.0, "features": ["a", "b"], "target": "y"}
            | {"bounds": bounds}
            | ({"categories": target["classes"]} if two_classes else {}),
            "owner": [{"name": name, "records": 60, "epsilon": 1.0} for name in ("a", "b")],
        }
    )
    owner = {"name": "a", "records": 60, "answers": 2, "most_answers": 2, "lost": 0, "spent": 1.0, "spent_delta": 0.0}
    record = {
        "run": "0123456789",
        "status": "finished",
        "queries": 4,
        "seconds": 1.5,
        "owners": [owner | {"noise_scale": 0.1, "epsilon": 1.0, "delta": 0.0}] * 2,
        "realised": {"public": {"estimate": 0.02, "fitness": 0.3}},
        "forecast": {"relative_fitness": {"mean": 0.03, "low": 0.01, "high": 0.09}},
    }
    return Model(agreed, THETA, None, record)


COLUMNS = {
    "features": ["age", "income", "amount", "ratio", "region", "grade", "code", "opened", "seen", "ok"],
    "target": "y",
    "bounds": {"age": [18, 90], "income": [0, 400000], "amount": [500, 40000], "ratio": [-0.3, 0.7], "y": [-5, 40]},
    "scales": {"income": "log", "amount": "centred"},
    "dates": {"opened": ["2015-01-01", "2024-12-31"], "seen": ["2020-02-01", "2020-03-31"]},
    "missing": {"income": 45000, "ratio": 0.3, "region": "other", "seen": "2020-02-15", "ok": True},
    "clamp": ["age", "amount"],
    "booleans": ["ok"],
    "categories": {"region": ["east", "west", "other"], "grade": ["A", "B", "C"], "code": ["01", "02", "x y"]},
    "ordered": ["grade"],
}
"""Of every kind: clamped and refused, missing and not, on every scale."""


def of_every_kind(loss="squared", components=0, waves=None, scaling="declared", clamp=()):
    """A model of a table with columns of every kind; its coefficients are drawn. clamp: columns beside those that do."""
    data = COLUMNS | {"components": components, "fourier_features": waves, "scaling": scaling}
    data |= {"clamp": [*COLUMNS["clamp"], *clamp]}
    if loss != "squared":
        classes = {"y": ["=no", "yes"]}
        bounds = {name: ends for name, ends in COLUMNS["bounds"].items() if name != "y"}
        data |= {"bounds": bounds, "categories": COLUMNS["categories"] | classes}
    simple = model(loss)
    agreed = simple.agreement.to_dict() | {"data": {key: value for key, value in data.items() if value is not None}}
    agreed["model"]["intercept"] = True
    terms, rng = Agreement.of(agreed), np.random.default_rng(1)
    sample = rng.uniform(size=(60, len(schema_of(terms, None).feature_names)))
    dictionary = PublicDictionary.fit(sample, components) if components else None
    if waves:
        dictionary = dictionary.with_waves(sample, waves)
    p = waves or components or sample.shape[1]
    return replace(simple, agreement=terms, theta=rng.normal(size=p + 1), dictionary=dictionary)


def rows_of_every_kind(number=200, opened=("2015-01-01", 3653)):
    """Rows of that table as text: every spelling that is read, missing cells, and values at and beyond the bounds."""
    rng = np.random.default_rng(2)

    def days(first, many):
        return (pd.Timestamp(first) + pd.to_timedelta(rng.integers(0, many, number), "D")).strftime("%Y-%m-%d")

    def with_holes(values):
        texts = np.array([str(value) for value in values], dtype=object)
        return np.where(rng.uniform(size=number) < 0.1, rng.choice(["", "NA", "nan", "NULL"], number), texts)

    rows = pd.DataFrame({
        "age": rng.integers(10, 100, number), "income": with_holes(rng.uniform(0, 4e5, number).round(2)),
        "amount": rng.uniform(0, 6e4, number).round(3), "ratio": with_holes(rng.uniform(-0.3, 0.7, number)),
        "region": with_holes(rng.choice(["east", "west", "other"], number)), "grade": rng.choice(list("ABC"), number),
        "code": rng.choice(["01", "1", "1.0", "2", "x y"], number), "opened": days(*opened),
        "seen": with_holes(days("2020-02-01", 60)), "ok": with_holes(rng.choice(["Yes", "no", "TRUE", "0", "t"], number)),
        "another": "column",
    })  # fmt: skip
    rows.loc[0, ["ratio", "income"]] = ["-0.3", "0"]
    rows.loc[1, ["ratio", "income"]] = ["0.7", "400000"]
    return rows
