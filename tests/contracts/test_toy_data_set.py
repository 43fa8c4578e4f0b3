"""A data set that nobody has heard of: one value on the list, and everything else takes it."""

import tomllib

import numpy as np
import pyarrow as pa
import pytest

import copriv
from copriv import losses
from copriv.data import DataSpecification, Number, Schema, datasets, prepare_owner, read_table
from copriv.data.source import DataSet, Source
from copriv.network.setup import make_consortium, n_parameters, owner_records

AGREED = """
agreement = {rule = "A2", horizon = 12, answers = 4, step = 0.3}
model = {loss = "squared", regularization = 1e-3, gradient_bound = 1.0}
data = {dataset = "tides", components = 2, public_rows = 100}
owner = [{name = "north", records = 300, epsilon = 1.0}, {name = "south", records = 300, epsilon = 1.0}]
"""


SCHEMA = Schema((Number("moon", -1, 1), Number("sun", -1, 1)), Number("height", -3, 3))


def sea(agreed, rows):
    """The height of the sea from the places of moon and sun."""
    rng = np.random.default_rng(7)
    moon, sun = rng.uniform(-1, 1, (2, 800))
    made = pa.table({"moon": moon, "sun": sun, "height": 1.5 * moon + 0.7 * sun + rng.normal(0, 0.1, 800)})
    return Source(read_table(agreed.path or made), SCHEMA, "Tides of nowhere", kind="simulated")


TIDES = DataSet("tides", sea)


def test_a_new_data_set_is_agreed_simulated_forecast_and_answered_from(monkeypatch, tmp_path):
    agreement = copriv.Agreement.of(tomllib.loads(AGREED))
    with pytest.raises(copriv.DataError, match=r"data\.dataset: 'tides' is not known; use one of lending,"):
        copriv.simulate(agreement, runs=3)
    monkeypatch.setattr(datasets, "ALL", (*datasets.ALL, TIDES))
    simulated = copriv.simulate(agreement, runs=3)
    assert (simulated.dataset, simulated.source) == ("tides", "simulated")
    assert copriv.forecast(agreement, runs=10, public_start=False, preconditioner=False).public_only > 0
    made = make_consortium(agreement, tmp_path / "all")
    mine = TIDES.open(DataSpecification("tides"), 300).table[:300]
    records = prepare_owner(mine, SCHEMA, made.dictionary, made.agreement.data.feature_bound, records=300)
    owner = copriv.Owner(made.agreement, "north", records, losses.named("squared"))
    query = copriv.Query(
        "q1", made.agreement.fingerprint, "north", np.zeros(n_parameters(made.agreement, made.dictionary))
    )
    assert owner.answer(query).answered == 1
    mine.write_parquet(tmp_path / "mine.parquet")
    served, columns = owner_records(made.agreement, "north", tmp_path / "mine.parquet", made.dictionary)
    assert (served.units, columns) == (300, ("moon", "sun", "height"))
