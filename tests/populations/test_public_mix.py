"""Public rows are held against what is known of the owners' records, and another mix is said wherever a forecast is."""

import json

import numpy as np
import pandas as pd
import pytest

import copriv
from copriv.cli.commands import forecast as screen
from copriv.errors import AgreementError, DataError
from copriv.formatting.numbers import percent
from copriv.populations.public_sample import PublicMix, public_mixes
from copriv.problem import Problem

TERMS = {
    "agreement": {"rule": "S1", "horizon": 3, "step": 0.1},
    "model": {"loss": "squared", "regularization": 1e-3, "gradient_bound": 2.0},
    "data": {
        "features": ["x"], "target": "y", "bounds": {"x": [-9, 9], "y": [-9, 9]}, "components": 0,
        "public": "public.csv", "heterogeneity": 0.0,
    },
    "owner": [{"name": "a", "records": 3000, "epsilon": 1.0}, {"name": "b", "records": 1000, "epsilon": 1.0}],
}  # fmt: skip


def terms(**data):
    return copriv.Agreement.of({**TERMS, "data": {**TERMS["data"], **data}})


@pytest.fixture
def public(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.normal(size=200).clip(-9, 9).round(3)})
    rows["y"] = (rows.x + rng.normal(size=200)).clip(-9, 9).round(3)
    rows["region"] = ["east"] * 120 + ["west"] * 80
    rows["whose"] = ["a"] * 100 + ["b"] * 100
    rows.to_csv("public.csv", index=False)


def test_the_distance_is_the_share_of_rows_that_would_have_to_change():
    mix = PublicMix("region", {"east": 120, "west": 70, "south": 10}, {"east": 0.2, "west": 0.8})
    assert mix.levels == ("west", "east", "south")
    assert mix.distance == pytest.approx(0.5 * (0.4 + 0.45 + 0.05))
    assert mix.differs
    assert not PublicMix("region", {"east": 41, "west": 159}, {"east": 0.2, "west": 0.8}).differs
    assert not PublicMix("region", {"east": 40, "west": 160, "south": 1}, {"east": 0.2, "west": 0.8}).differs, "one row"
    assert PublicMix("region", {"west": 200}, {"east": 0.2, "west": 0.8}).differs, "a level that is not there at all"


def test_a_random_sample_is_hardly_ever_said_to_be_none_and_another_one_nearly_always():
    rng, stated = np.random.default_rng(0), {"a": 0.5, "b": 0.3, "c": 0.2}
    other = (0.5, 0.15, 0.35)
    said = {
        shares: np.mean([
            PublicMix("x", dict(zip(stated, rng.multinomial(300, shares).tolist(), strict=True)), stated).differs
            for _ in range(2000)
        ])
        for shares in (tuple(stated.values()), other)
    }  # fmt: skip
    assert said[tuple(stated.values())] < 0.005
    assert said[other] > 0.99


def test_a_stated_mix_is_counted_in_the_public_file(public):
    problem = Problem.load_public(terms(mix={"region": {"east": 0.2, "west": 0.8}}))
    (mix,) = public_mixes(problem, by_owner=True)
    assert (mix.column, mix.rows) == ("region", {"east": 120, "west": 80})
    assert mix.differs
    (mix,) = public_mixes(Problem.load_public(terms(mix={"region": {"east": 0.6, "west": 0.4}})), by_owner=False)
    assert not mix.differs


def test_strata_are_held_against_the_owners_sizes_unless_worlds_are_drawn_by_them(public):
    problem = Problem.load_public(terms(strata="whose"))
    (mix,) = public_mixes(problem, by_owner=False)
    assert mix.records == {"a": 0.75, "b": 0.25}
    assert mix.differs
    assert public_mixes(problem, by_owner=True) == ()
    some = terms(strata="whose").replace(owner=[*TERMS["owner"], {"name": "c", "records": 10, "epsilon": 1.0}])
    assert public_mixes(Problem.load_public(some), by_owner=False) == (), "what c holds is in no stratum"


def test_every_forecast_says_what_it_rests_on_and_another_mix_is_a_warning(public):
    plain = copriv.forecast(terms(), runs=32)
    sentence = "This holds if the public rows are a random sample of all owners' records."
    assert plain.assumption == sentence
    assert sentence in screen.lines(plain)
    other = copriv.forecast(terms(mix={"region": {"east": 0.2, "west": 0.8}}), runs=32)
    warning = "another mix: 60 % of them are of region east, and 20 % of the records; take a random sample"
    document = json.loads(other.to_json())
    assert warning in document["assumption"] == other.assumption
    assert warning in " ".join(screen.lines(other))
    assert document["public_mix"] == [{
        "column": "region", "distance": pytest.approx(0.4), "differs": True,
        "levels": {"east": {"public": 0.6, "records": 0.2}, "west": {"public": 0.4, "records": 0.8}},
    }]  # fmt: skip


def test_a_mix_that_cannot_be_is_one_line(public):
    with pytest.raises(AgreementError, match=r"mix.*region: shares add up to 1, not to 0.5"):
        terms(mix={"region": {"east": 0.2, "west": 0.3}})
    with pytest.raises(DataError, match=r"data.mix: the public table has no column 'country'"):
        Problem.load_public(terms(mix={"country": {"dk": 1.0}}))


@pytest.mark.parametrize(("east", "differs"), [(0.2, False), (0.7, True)])
def test_what_another_mix_of_regions_costs_is_not_forecast_and_therefore_said(tmp_path, monkeypatch, east, differs):
    """Owners in two regions of other slopes, a fifth of whose records are of the east.

    From a random sample the measured cost is in the forecast's band. From a sample of 70 % it is many times as high, and
    nothing in the rows themselves shows that: only the stated mix does.
    """
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)

    def rows(n, share):
        of_east = rng.uniform(size=n) < share
        table = pd.DataFrame({"x": rng.uniform(-1, 1, n), "z": rng.uniform(-1, 1, n)})
        table["y"] = np.where(of_east, 1.6 * table.x + 0.2, 0.4 * table.x - 0.2) - table.z + rng.normal(size=n)
        return table.clip(-9, 9).assign(region=np.where(of_east, "east", "west"))

    owners = [rows(2000, 0.2) for _ in range(3)]
    rows(600, east).to_csv("public.csv", index=False)
    agreement = copriv.Agreement.of({
        "agreement": {"rule": "S1", "horizon": 2, "answers": 2},
        "model": {"loss": "squared", "regularization": 1e-5, "theta_max": 10.0, "intercept": True},
        "data": {
            **TERMS["data"], "features": ["x", "z"], "bounds": {key: [-9, 9] for key in "xzy"},
            "mix": {"region": {"east": 0.2, "west": 0.8}},
        },
        "owner": [{"name": f"owner {i}", "records": 2000, "epsilon": 0.1} for i in range(3)],
    })  # fmt: skip
    outlook = copriv.forecast(agreement, runs=32)
    # Columns are declared from −9 to 9, and so a ninth of what they were as numbers.
    tables = (*owners, pd.read_csv("public.csv"))
    data = [(table[["x", "z"]].to_numpy() / 9, table.y.to_numpy()) for table in tables]
    result = copriv.simulate(outlook.recommended.agreement, data[:3], public=data[3], runs=50, seed=1, alone=False)
    band, measured = outlook.recommended.relative_fitness.end, result.relative_fitness.final["median"]
    assert (measured > 3.0 * band["high"]) is differs
    assert (measured < band["high"]) is not differs
    said = f"of them are of region east, and {percent(0.2)} of the records; take a random sample"
    assert (said in outlook.assumption) is differs
    assert (said in " ".join(screen.lines(outlook))) is differs
