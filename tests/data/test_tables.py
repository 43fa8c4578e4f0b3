"""Files and frames of every kind end up as the same narwhals frame; what cannot be read is one line."""

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.data.tables import _lines, pieces, read_table
from copriv.errors import DataError

CELLS = {"age": [31, 45], "state": ["CA", "NY"]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_of_every_library_read_alike(make):
    table = read_table(make(CELLS))
    assert table.columns == ["age", "state"]
    assert table["age"].to_list() == [31, 45]
    assert table["state"].to_list() == ["CA", "NY"]


def test_files_of_both_kinds_read_alike(tmp_path: Path):
    pa.csv.write_csv(pa.table(CELLS), tmp_path / "t.csv")
    pa.parquet.write_table(pa.table(CELLS), tmp_path / "t.PARQUET")
    for name, ages in (("t.csv", ["31", "45"]), ("t.PARQUET", [31, 45])):
        assert read_table(tmp_path / name)["age"].to_list() == ages
        assert read_table(str(tmp_path / name), ["state", "absent"]).columns == ["state"]


def test_cells_of_a_csv_file_are_the_text_that_they_are(tmp_path: Path):
    """A byte order mark, line ends of every kind, quotes, and a row far down that no reader of the first ones foresees."""
    rows = "\r\n".join(f"{i},{'x' * 200}" for i in range(8_000))
    (tmp_path / "t.csv").write_bytes(f'\ufeffage,"state"\n,NA\r\nNA,""\n"01", C\n{rows}\nabc,2020-01-01\n'.encode())
    table = read_table(tmp_path / "t.csv")
    assert table["age"].to_list() == ["", "NA", "01", *map(str, range(8_000)), "abc"]
    assert [*table["state"].to_list()[:3], table["state"].to_list()[-1]] == ["NA", "", " C", "2020-01-01"]


@pytest.mark.parametrize(
    ("name", "contents", "says"),
    [
        ("absent.csv", None, "there is no such file"),
        ("t.xlsx", b"PK", "cannot read a .xlsx"),
        ("t", b"a,b", "cannot read a file without an ending"),
        ("t.csv", b"", "is empty, or a header alone"),
        ("t.csv", b"a,b\n1,2\n3\n", "line 3 has 1 cell, and the header 2"),
        ("t.csv", b"a,b\n", "has no rows"),
        ("t.parquet", b"this is not parquet", "is no parquet file, or a part of one"),
    ],
)
def test_an_unreadable_file_is_one_line_that_says_what_to_do(tmp_path: Path, name, contents, says):
    if contents is not None:
        (tmp_path / name).write_bytes(contents)
    with pytest.raises(DataError, match=says) as refused:
        read_table(tmp_path / name)
    message = str(refused.value)
    assert message.startswith(str(tmp_path / name))
    assert "\n" not in message
    assert "give" in message or "export it again" in message
    assert sorted(p.name for p in tmp_path.iterdir()) == ([name] if contents is not None else [])


@pytest.mark.parametrize(
    "frame",
    [pd.DataFrame([[1, 1, 2]], columns=["k", "k", "y"]), pa.table([[1], [1], [2]], names=["k", "k", "y"])],
    ids=["pandas", "arrow"],
)
def test_a_frame_whose_columns_have_one_name_is_no_table(frame: object) -> None:
    with pytest.raises(DataError, match="table: 'k' 2 times; name each column once"):
        read_table(frame)


def test_a_folder_and_an_object_are_no_tables(tmp_path: Path):
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(DataError, match="cannot read a dict; give a path"):
        read_table(CELLS)


@given(st.text("ab\r\n", max_size=40), st.integers(1, 50))
def test_lines_are_counted_as_python_counts_them(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int
) -> None:
    """In pieces that end anywhere; the last line may be cut by several."""
    file = tmp_path_factory.getbasetemp() / "lines"
    file.write_bytes(text.encode())
    lines = [line for line in text.replace("\r", "\n").split("\n") if line]
    assert _lines(file, size) == (len(lines), lines[-1] if lines else "")


def test_a_long_cell_in_another_column_is_no_hindrance(tmp_path: Path) -> None:
    """A row must be within a block, however few columns are read."""
    file = tmp_path / "t.csv"
    file.write_text(f"age,note\n31,{'x' * 50_000}\n45,y\n", encoding="utf-8")
    assert pa.concat_tables(pieces(file, ["age"]))["age"].to_pylist() == ["31", "45"]
