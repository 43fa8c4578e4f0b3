"""Public means public: what a forecast and a consortium's files are made from, and that nothing else is opened."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import copriv
from copriv.agreement.data_terms import declared_schema
from copriv.data import load_consortium, tables
from copriv.data.public import strata_of
from copriv.errors import AgreementError, DataError
from copriv.network import setup
from copriv.network.setup import make_consortium, public_records
from copriv.problem import Problem

TERMS = {
    "agreement": {"rule": "A2", "horizon": 6, "answers": 2, "step": 0.3},
    "model": {"loss": "squared", "regularization": 0.01, "gradient_bound": 1.0},
    "owner": [{"name": name, "records": 100, "epsilon": 1.0} for name in ("north", "south")],
}
COLUMNS = {
    "features": ["age", "home"],
    "target": "rate",
    "bounds": {"age": [0, 100], "rate": [0, 1]},
    "categories": {"home": ["RENT", "OWN"]},
    "components": 2,
}


def people(rows: int, seed: int, first: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    age, own = rng.uniform(0, 100, rows), rng.random(rows) < 0.5
    return pa.table(
        {
            "age": age,
            "home": np.where(own, "OWN", "RENT"),
            "rate": np.clip(0.2 + age / 200 + 0.2 * own + rng.normal(0, 0.05, rows), 0, 1),
            "person": np.arange(first, first + rows) // 2,
        }
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pa.csv.write_csv(people(80, 1, first=1000), "public.csv")
    pa.csv.write_csv(people(300, 2), "private.csv")
    return tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose tables are read, or whose columns, or bytes."""
    names: list[str] = []
    readable, hashed = tables._readable, copriv.data.source.sha256
    monkeypatch.setattr(tables, "_readable", lambda path: (names.append(path.name), readable(path))[1])
    monkeypatch.setattr(copriv.data.source, "sha256", lambda path: (names.append(path.name), hashed(path))[1])
    return names


def agreed(**data: object) -> copriv.Agreement:
    return copriv.Agreement.of({**TERMS, "data": {**COLUMNS, **data}})


def test_a_forecast_opens_the_public_file_and_no_other(folder: Path, opened: list[str]) -> None:
    agreement = agreed(path="private.csv", public="public.csv")
    said = Problem.load_public(agreement)
    assert set(opened) == {"public.csv"}
    assert said.public is not None
    assert said.public.units == 80
    assert "all 80 rows of Records in public.csv, SHA-256 " in said.description
    (folder / "private.csv").unlink()
    again = Problem.load_public(agreement)
    np.testing.assert_array_equal(again.owners[0].features, said.owners[0].features)
    outlook = copriv.forecast(agreement, runs=10, public_start=False, preconditioner=False)
    assert "public.csv, SHA-256" in outlook.to_dict()["description"]
    assert set(opened) == {"public.csv"}


@pytest.mark.parametrize("given", [{}, {"public_rows": 50}])
def test_without_public_rows_nothing_is_read(folder: Path, opened: list[str], given: dict[str, int]) -> None:
    agreement = agreed(path="private.csv", **given)
    for call in (lambda: copriv.forecast(agreement), lambda: make_consortium(agreement, folder / "net")):
        with pytest.raises(DataError, match=r"data\.public: which rows are public\? private\.csv .* was not read"):
            call()
    with pytest.raises(DataError, match=r"data\.public: a table of your own needs a file of public rows"):
        copriv.forecast(agreed())
    assert opened == []
    assert not (folder / "net").exists()


def test_the_learner_is_given_the_public_rows_and_no_others(folder: Path) -> None:
    made = make_consortium(agreed(path="private.csv", public="public.csv"), folder / "net")
    given = pa.parquet.read_table(folder / "net" / "learner" / "public.parquet")
    expected = people(80, 1).select(["age", "home", "rate"])
    assert given.select(["age", "home", "rate"]).cast(expected.schema).equals(expected)  # cells of a CSV file are text
    assert (made.agreement.data.path, made.agreement.data.public, made.agreement.data.public_rows) == (None, None, 80)
    by_option = make_consortium(agreed(path="private.csv"), folder / "net2", "public.csv")
    assert by_option.agreement.fingerprint == made.agreement.fingerprint
    again = public_records(made.agreement, folder / "net" / "learner" / "public.parquet", made.dictionary)
    np.testing.assert_array_equal(again.target, people(80, 1)["rate"])


def test_a_file_of_public_rows_that_changes_while_it_is_read_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash is signed with a pilot: it must be that of the rows that are planned by."""
    made = make_consortium(agreed(path="private.csv", public="public.csv"), folder / "net")
    path = folder / "net" / "learner" / "public.parquet"
    rows, strata, digest = setup.public_file(made.agreement, path, made.dictionary)
    assert (len(rows), strata, digest) == (80, None, setup.digest_of(path))
    monkeypatch.setattr(setup, "public_strata", lambda *_: path.write_bytes(b"other rows"))
    with pytest.raises(DataError, match=r"public\.parquet: was changed while it was read"):
        setup.public_file(made.agreement, path, made.dictionary)


def test_a_fault_among_private_rows_is_not_told_by_a_forecast(folder: Path) -> None:
    secret = people(300, 2).set_column(0, "age", pa.array([123456.0] * 300))
    pa.csv.write_csv(secret, "private.csv")
    Problem.load_public(agreed(path="private.csv", public="public.csv"))
    pa.csv.write_csv(secret, "public.csv")
    with pytest.raises(DataError, match=r"data\.public: age, row 1 \(and 299 more rows\): is 123456"):
        Problem.load_public(agreed(public="public.csv"))


def test_simulations_take_public_rows_from_the_file_too(folder: Path) -> None:
    problem = Problem.load(agreed(path="private.csv", public="public.csv"))
    assert problem.public is not None
    assert (problem.public.units, [o.units for o in problem.owners]) == (80, [100, 100])
    np.testing.assert_array_equal(problem.public.target, people(80, 1)["rate"])
    np.testing.assert_array_equal(problem.owners[0].target, people(300, 2)["rate"][:100])
    forecast = Problem.load_public(agreed(public="public.csv"))
    np.testing.assert_array_equal(forecast.owners[0].features, problem.public.features)
    fewer = Problem.load(agreed(path="private.csv", public="public.csv", public_rows=30))
    np.testing.assert_array_equal(fewer.unbounded_public.target, people(80, 1)["rate"][-30:])  # type: ignore[union-attr]
    with pytest.raises(DataError, match=r"data\.public: which rows are public\? give a file of them"):
        Problem.load(agreed(path="private.csv"))
    last = Problem.load(agreed(path="private.csv", public_rows=50))
    np.testing.assert_array_equal(last.unbounded_public.target, people(300, 2)["rate"][-50:])  # type: ignore[union-attr]


def test_whom_the_learner_knows_is_nobodys_private_record(folder: Path) -> None:
    pa.csv.write_csv(people(20, 3, first=90), "public.csv")  # persons 45 to 54
    schema = declared_schema(COLUMNS)
    made = load_consortium(
        "table",
        [60],
        path="private.csv",
        public="public.csv",
        schema=schema,
        unit="person",
        components=0,
        feature_bound=0,
    )
    ages = people(300, 2)["age"].to_numpy() / 100
    known = np.isin(np.arange(300) // 2, np.arange(45, 55))
    np.testing.assert_allclose(made.owners[0].features[:, 0], ages[~known][:120])
    assert made.owners[0].units == 60


def test_a_published_table_is_known_by_its_hash(tmp_path: Path, opened: list[str]) -> None:
    inside = copriv.data.source.embedded("lending_club_9857.parquet")
    agreement = copriv.Agreement.of({**TERMS, "data": {"dataset": "lending", "path": str(inside), "components": 3}})
    assert Problem.load_public(agreement).public.units == 2000  # type: ignore[union-attr]
    other = tmp_path / "ours.parquet"
    other.write_bytes(inside.read_bytes() + b"x")
    opened.clear()
    private = agreement.replace(data={"path": str(other)})
    with pytest.raises(DataError, match=r"data\.public: .*ours\.parquet"):
        Problem.load_public(private)
    assert opened == []
    other.write_bytes(inside.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=r"data\.public: .*ours\.parquet"):
        Problem.load_public(private)
    assert Problem.load_public(private.replace(data={"public": str(inside)})).public.units == 9857  # type: ignore[union-attr]


def test_no_data_is_an_error_and_not_lending_club() -> None:
    agreement = copriv.Agreement.of(TERMS)
    assert agreement.data.dataset is None
    for call in (copriv.simulate, copriv.forecast, lambda a: make_consortium(a, "nowhere")):
        with pytest.raises(AgreementError, match=r"data: the agreement names no data; add \[data\] with dataset"):
            call(agreement)
    rng = np.random.default_rng(0)
    given = [(x, x.sum(axis=1)) for x in rng.uniform(size=(2, 100, 3))]
    result = copriv.simulate(agreement, given, runs=2)
    assert (result.dataset, result.source) == ("given", "given")


def test_a_file_that_holds_whole_numbers_as_decimals_names_owners_all_the_same(tmp_path: Path) -> None:
    """An owner called "1" is the one of rows that say 1.0; 1.5 and text stay as they are."""
    path = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table({"whose": [1.0, 2.0, 1.5], "named": ["a", "1.0", "b"]}), path)
    assert strata_of(path, "whose") == ("1", "2", "1.5")
    assert strata_of(path, "named") == ("a", "1.0", "b")
