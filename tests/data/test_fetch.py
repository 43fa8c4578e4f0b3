"""Fetching: from addresses and files at hand, once, with a record that later calls hold the file to."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from copriv.data import fetch as module
from copriv.data.fetch import REMOTES, fetch, found
from copriv.errors import DataError, Unreachable

CARDS = [f"V{k}" for k in range(1, 29)] + ["Amount", "Class"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPRIV_DATA_FOLDER", str(tmp_path / "kept"))
    for name in ("creditcard", "hospital"):
        monkeypatch.setitem(REMOTES, name, replace(REMOTES[name], rows=3))


def cards_csv(folder: Path) -> Path:
    path = folder / "creditcard.csv"
    lines = [",".join(["0.5"] * 28 + [str(amount), f'"{label}"']) for amount, label in ((1, 0), (2, 1), (3, 0))]
    path.write_text("\n".join([",".join(CARDS), *lines]) + "\n")
    return path


def cards_arff(folder: Path) -> Path:
    path = folder / "creditcard.arff"
    header = ["% a comment", "@RELATION creditcard", *(f"@ATTRIBUTE {name} REAL" for name in CARDS[:-1])]
    header += ["@ATTRIBUTE Class {0,1}", "@DATA"]
    lines = [",".join(["0.5"] * 28 + [str(amount), f"'{label}'"]) for amount, label in ((1, 0), (2, 1), (3, 0))]
    path.write_text("\n".join([*header, *lines]) + "\n")
    return path


def test_a_download_is_kept_with_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = cards_csv(tmp_path).as_uri()
    monkeypatch.setitem(REMOTES, "creditcard", replace(REMOTES["creditcard"], address=address))
    seen: list[tuple[int, int]] = []
    assert found("creditcard") is None
    path = fetch("creditcard", progress=lambda done, total: seen.append((done, total)))
    assert found("creditcard") == path
    record = json.loads(path.with_name(f"{path.name}.json").read_text())
    assert record["address"] == address
    assert record["sha256"] == module.sha256(path)
    assert seen[-1][0] == cards_csv(tmp_path).stat().st_size
    monkeypatch.setattr(module, "_download", lambda *_: pytest.fail("downloaded again"))
    assert fetch("creditcard") == path


@pytest.mark.parametrize("make", [cards_csv, cards_arff])
def test_cards_from_files_at_hand(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    table = pyarrow.parquet.read_table(fetch("creditcard", make(tmp_path)))
    assert table.column("Class").to_pylist() == [0, 1, 0]
    assert table.column("Amount").to_pylist() == [1, 2, 3]


def test_hospital_stays_from_the_archives_zip_file(tmp_path: Path) -> None:
    text = "patient_nbr,time_in_hospital,payer_code,medical_specialty,race\n1,3,?,Cardiology,?\n2,4,MC,?,Asian\n3,1,?,?,?\n"
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr("dataset_diabetes/diabetic_data.csv", text)
        archive.writestr("dataset_diabetes/IDs_mapping.csv", "a,b\n")
    table = pyarrow.parquet.read_table(fetch("hospital", tmp_path / "d.zip"))
    assert table.column("race").to_pylist() == [None, "Asian", None]
    assert table.column("payer_code").to_pylist() == [None, "MC", None]


def test_loans_whose_texts_hold_line_breaks(tmp_path: Path) -> None:
    (tmp_path / "loan.csv").write_text('int_rate,desc,loan_amnt,grade\n10.5,"two\nlines",9,A\n11,"x, y",8,B\n')
    table = pyarrow.parquet.read_table(fetch("lending", tmp_path / "loan.csv"))
    assert table.column("desc").to_pylist() == ["two\nlines", "x, y"]


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path = fetch("creditcard", cards_csv(tmp_path))
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(DataError, match="has changed since it was fetched"):
        fetch("creditcard")


def test_offline_names_the_file_to_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("creditcard", "hospital", "sparcs"):
        monkeypatch.setitem(REMOTES, name, replace(REMOTES[name], address="http://127.0.0.1:9/nothing"))
        with pytest.raises(Unreachable, match=rf"bring .*copriv data fetch {name} --from"):
            fetch(name)
        assert found(name) is None


def test_lending_cannot_be_downloaded() -> None:
    with pytest.raises(DataError, match=r"bring loan\.csv .*--from loan\.csv"):
        fetch("lending")


def test_another_table_is_not_kept(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,Class\n1,0\n")
    with pytest.raises(DataError, match="it lacks V1"):
        fetch("creditcard", wrong)
    short = cards_csv(tmp_path)
    short.write_text("\n".join(short.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(DataError, match="it has 2 rows, not 3"):
        fetch("creditcard", short)
    (tmp_path / "no.zip").write_text("not a table")
    with pytest.raises(DataError, match="is not the stays"):
        fetch("hospital", tmp_path / "no.zip")
    with pytest.raises(DataError, match="no such file"):
        fetch("hospital", tmp_path / "absent.csv")
    assert found("creditcard") is None
    assert found("hospital") is None


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(DataError, match="creditcard, hospital, sparcs, lending"):
        fetch("iris")
