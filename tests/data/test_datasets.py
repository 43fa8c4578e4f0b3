"""The built-in data sets, in their published formats; the larger public tables only where they are at hand."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from copriv.data import (
    check_table,
    load_consortium,
    open_dataset,
    prepare_owner,
)
from copriv.data.datasets import creditcard, hospital, lending
from copriv.data.source import embedded
from copriv.errors import DataError

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def shared(name):
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is not at hand")
    return path


def variance_left(c):
    """Mean squared error of the best model over the variance of the target."""
    x = np.concatenate([o.features for o in c.owners])
    y = np.concatenate([o.target for o in c.owners])
    θ = np.linalg.lstsq(x, y)[0]
    return np.mean((x @ θ - y) ** 2) / y.var()


def test_the_shipped_table_is_real_licensed_and_complete():
    folder = embedded("lending_club_9857.parquet").parent
    assert "MIT License" in (folder / "LICENSE").read_text()
    assert "modeldata" in (folder / "README.md").read_text()
    digest = hashlib.sha256((folder / "lending_club_9857.parquet").read_bytes()).hexdigest()
    assert digest == "5f470275b5dc4835a7e9a3d653571b47fdda3d603c7f3ffa6abe94a536d2a74d"
    assert len(pd.read_parquet(folder / "lending_club_9857.parquet")) == 9857


def test_lending_needs_nothing_but_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("lending", "lending-embedded"):
        c = load_consortium(name, [2000] * 3, scaling="declared")
        assert (c.source, c.target_bound) == ("real", 36.0)
        assert "lending_club_9857, inside the package" in c.description
        assert [o.units for o in c.owners] == [2000] * 3
        assert c.owners[0].n_parameters == 10
        assert 0.2 < c.feature_bound < 20
        assert variance_left(c) < 0.06
    free = load_consortium("lending-embedded", [10], feature_bound=0)
    np.testing.assert_allclose(np.mean(free.public.features**2, axis=0), 1e-4)


def test_a_data_set_is_the_same_wherever_one_stands(tmp_path, monkeypatch):
    here = {name: load_consortium(name, [200], components=3) for name in ("lending", "lending-embedded")}
    beside = tmp_path / "shared" / "data"
    beside.mkdir(parents=True)
    for name in ("lending_10k", "creditcard", "diabetes_130_hospitals"):  # what was taken before, when it was there
        (beside / f"{name}.parquet").write_bytes(b"another table")
    (tmp_path / "main").mkdir()
    monkeypatch.chdir(tmp_path / "main")
    for name, c in here.items():
        again = load_consortium(name, [200], components=3)
        np.testing.assert_array_equal(again.owners[0].features, c.owners[0].features)
        assert again.description == c.description
        assert "lending_club_9857, inside the package), SHA-256 5f470275b5dc4835: 9,857" in c.description
    for name in ("creditcard", "hospital"):
        with pytest.raises(DataError, match=r"data\.path: .* not inside the package; get"):
            load_consortium(name, [10])


def test_the_larger_sample_is_named_by_its_path_and_hash():
    c = load_consortium("lending", [2000] * 3, path=shared("lending_10k.parquet"), scaling="declared")
    assert "Lending Club loans in lending_10k.parquet, SHA-256 2c8bc60f648435cd: 10,000" in c.description
    assert variance_left(c) < 0.08


def test_consequences_of_the_rate_are_no_features():
    later = {"installment", "balance", "paid_total", "paid_principal", "paid_interest", "paid_late_fees", "loan_status"}
    later |= {"Class", "total_pymnt", "total_rec_int", "out_prncp", "last_pymnt_amnt", "recoveries", "int_rate"}
    for schema in (lending.OPENINTRO, lending.MODELDATA, lending.PUBLISHED):
        assert not later & set(schema.feature_names)
        assert {"sub_grade"} <= set(schema.feature_names)


def published_loans(rows=300):
    """Loans in the format of the 2015 file: more columns than are read, text with line breaks, gaps, wild outliers."""
    rng = np.random.default_rng(0)
    grade = rng.integers(0, 35, rows)
    frame = pd.DataFrame(
        {
            "id": np.arange(rows),
            "loan_amnt": rng.integers(500, 35_000, rows).astype(float),
            "funded_amnt": rng.integers(500, 35_000, rows).astype(float),
            "term": rng.choice([" 36 months", " 60 months"], rows),
            "int_rate": 5.32 + 0.6 * grade,
            "installment": 100.0,
            "grade": [lending.SUB_GRADES[g][0] for g in grade],
            "sub_grade": [lending.SUB_GRADES[g] for g in grade],
            "emp_length": rng.choice(["10+ years", "< 1 year", "1 year", "3 years", "n/a"], rows),
            "home_ownership": rng.choice(["RENT", "OWN", "MORTGAGE", "NONE", "OTHER", "ANY"], rows),
            "annual_inc": rng.lognormal(11, 0.5, rows),
            "verification_status": rng.choice(["Verified", "Source Verified", "Not Verified"], rows),
            "desc": ['Borrower added:\n debts, and "more"'] * rows,
            "purpose": rng.choice(lending.PURPOSES, rows),
            "addr_state": rng.choice(lending.STATES, rows),
            "dti": rng.uniform(0, 40, rows),
            "initial_list_status": rng.choice(["w", "f"], rows),
            "application_type": rng.choice(["INDIVIDUAL", "JOINT"], rows),
            "revol_bal": rng.integers(0, 50_000, rows).astype(float),
            "revol_util": rng.uniform(0, 100, rows),
            "total_acc": rng.integers(1, 60, rows).astype(float),
        }
    )
    for name in ("delinq_2yrs", "inq_last_6mths", "open_acc", "pub_rec"):
        frame[name] = rng.integers(0, 5, rows).astype(float)
    frame.loc[3, ["annual_inc", "delinq_2yrs", "revol_util"]] = np.nan
    frame.loc[4, ["annual_inc", "dti", "revol_util"]] = [9.5e6, 9999.0, 892.3]
    return frame


def test_the_papers_lending_file(tmp_path):
    path = tmp_path / "loan.parquet"  # its texts hold line breaks, which no CSV file of an owner may
    published_loans().to_parquet(path)
    c = load_consortium("lending", [100, 50], path=path, public_rows=100, components=10)
    assert "loan.parquet" in c.description
    assert [o.units for o in c.owners] == [100, 50]
    plain = load_consortium(
        "lending", [200], path=path, public_rows=100, components=0, feature_bound=0, scaling="declared"
    )
    income = plain.feature_names.index("annual_inc")
    assert plain.owners[0].features[3, income] == 0.0  # declared
    assert plain.owners[0].features[4, income] == 1.0  # capped
    assert np.abs(plain.owners[0].features).max() <= 1


def test_a_lending_file_with_a_fault_names_it(tmp_path):
    path = tmp_path / "loan.parquet"
    frame = published_loans()
    frame.loc[8, "annual_inc"] = -1.0
    frame.to_parquet(path)
    with pytest.raises(DataError, match="annual_inc, row 9: is -1, below its declared bound 0"):
        load_consortium("lending", [100], path=path, public_rows=100)
    published_loans().drop(columns=["dti", "grade"]).to_parquet(path)
    with pytest.raises(DataError, match="not a Lending Club table that is known here: it lacks grade, dti; add them"):
        load_consortium("lending", [100], path=path, public_rows=100)


def test_the_papers_card_file(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 28)), columns=[f"V{k}" for k in range(1, 29)])
    frame.insert(0, "Time", np.arange(400.0))
    frame["Amount"] = rng.exponential(90, 400)
    frame["Class"] = [f"{k}" for k in (np.arange(400) >= 360).astype(int)]
    frame.to_csv(tmp_path / "creditcard.csv", index=False, quoting=2)
    c = load_consortium(
        "creditcard", [100, 100], path=tmp_path / "creditcard.csv", components=0, public_rows=100, intercept=True
    )
    assert c.target_bound == 1
    assert c.feature_names == (*creditcard.SCHEMA.feature_names, "intercept")
    for records in (*c.owners, c.public):
        assert set(records.target) == {-1.0, 1.0}  # the file is sorted by class: without a shuffle an owner sees one
    assert "shuffled once" in c.description
    again = load_consortium(
        "creditcard", [100, 100], path=tmp_path / "creditcard.csv", components=0, public_rows=100, seed=9
    )
    np.testing.assert_array_equal(again.owners[0].target, c.owners[0].target)  # whatever the seed


def test_the_complete_card_file():
    c = load_consortium("creditcard", [30_000] * 3, path=shared("creditcard.parquet"), components=0)
    assert [o.units for o in c.owners] == [30_000] * 3
    assert 0.001 < np.mean(np.concatenate([o.target for o in c.owners]) > 0) < 0.0025


@pytest.mark.parametrize("name", ["creditcard", "hospital"])
def test_a_table_that_is_not_here_says_where_to_get_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"not inside the package; .*give"):
        load_consortium(name, [10])


def test_diabetics_real_table_with_persons_as_units():
    path = shared("diabetes_130_hospitals.parquet")
    c = load_consortium("hospital", [1000] * 86, path=path, components=9)
    assert (c.source, c.target_bound, len(c.owners)) == ("real", 14, 86)
    assert variance_left(c) < 0.8
    means = [o.target.mean() for o in c.owners]
    mixed = load_consortium("hospital", [86_000], path=path, components=9).owners[0].target
    assert np.std(means) > 1.5 * mixed.std() / np.sqrt(1000)  # more unlike each other than chance would make them
    persons = load_consortium("hospital", [2000] * 4, path=path, components=9, unit="patient_nbr", unit_records=4)
    assert [o.units for o in persons.owners] == [2000] * 4
    assert min(o.weight.min() for o in persons.owners) >= 0.25


def sparcs(tmp_path, monkeypatch, least=40):
    monkeypatch.setattr(hospital, "LEAST_RECORDS", least)
    frame = hospital.simulate(3000, seed=1).to_pandas().sort_values("Facility Id", kind="stable")
    frame["Facility Id"] = frame["Facility Id"].astype(object)
    frame["Length of Stay"] = frame["Length of Stay"].astype(object)
    frame.iloc[2, frame.columns.get_loc("Length of Stay")] = "120 +"
    frame.iloc[5, frame.columns.get_loc("Facility Id")] = None
    frame["Total Charges"] = "$1,000.00"
    path = tmp_path / "Hospital_Inpatient_Discharges__SPARCS_De-Identified___2015.csv"
    frame.to_csv(path, index=False)
    return path, frame


def test_the_papers_hospital_file_gives_one_owner_a_hospital(tmp_path, monkeypatch):
    path, frame = sparcs(tmp_path, monkeypatch)
    sizes = hospital.sizes(path, public_rows=500)
    counts = frame["Facility Id"].iloc[:-500].value_counts()
    assert sorted(sizes) == sorted(counts[counts >= 40])
    c = load_consortium("hospital", sizes, path=path, public_rows=500, components=0, feature_bound=0)
    assert c.source == "real"
    kept = frame.iloc[:-500].dropna(subset="Facility Id")
    stays = kept["Length of Stay"].replace("120 +", 120).astype(float)
    expected = [stays[kept["Facility Id"] == k].tolist() for k in sorted(counts.index) if counts[k] >= 40]
    assert [o.target.tolist() for o in c.owners] == expected
    assert c.public.target.tolist() == frame["Length of Stay"].iloc[-500:].astype(float).tolist()


def test_an_owner_opens_checks_and_prepares_its_own_file(tmp_path, monkeypatch):
    path, frame = sparcs(tmp_path, monkeypatch)
    mine = open_dataset("hospital", path=path)
    assert check_table(mine.table, mine.schema) == []
    public = load_consortium("hospital-simulated", [1000], components=9)
    records = prepare_owner(mine.table, mine.schema, public.dictionary, public.feature_bound, records=len(frame))
    assert records.n_parameters == 9
    assert np.abs(records.features).sum(axis=1).max() <= public.feature_bound * (1 + 1e-12)


def test_a_hospital_file_that_is_none(tmp_path):
    (tmp_path / "t.csv").write_text("Gender,Race\nF,White\n")
    with pytest.raises(DataError, match="it lacks Age Group, Ethnicity,"):
        load_consortium("hospital", [10], path=tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("time_in_hospital,race\n3,Asian\n")
    with pytest.raises(DataError, match="lacks payer_code, which tells the owners apart"):
        load_consortium("hospital", [10], path=tmp_path / "t.csv")


def test_simulated_hospitals_are_a_function_of_the_seed_and_say_so():
    a, b, other = (load_consortium("hospital-simulated", [200] * 10, components=9, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.owners[3].features, b.owners[3].features)
    assert not np.array_equal(a.owners[3].target, other.owners[3].target)
    assert a.source == "simulated"
    assert "simulated" in a.description
    assert a.target_bound == 120
    assert variance_left(a) < 0.95
    large = load_consortium("hospital-simulated", [30_000] * 10, components=9)
    assert (large.source, large.owners[0].units) == ("simulated", 30_000)
    assert "resampled" in large.description
