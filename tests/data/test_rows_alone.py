"""What a row becomes follows from the row and from what was declared: replace, add or reorder other rows, by any way in.

Each way makes a table of the same cells as its library would, types of columns and all. Two tables that have some rows in
common are encoded, and these rows have the same bits and the same persons in both, or one of the tables is refused.
"""

import random
import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from copriv.data import Category, Number, Schema, TwoClasses
from copriv.data.cells import numbers
from copriv.data.columns import Boolean, Date
from copriv.data.consortium import as_records
from copriv.data.sql import read_sql, stream_sql
from copriv.data.stream import _cut
from copriv.data.tables import column_names, pieces, read_table
from copriv.errors import CoprivError
from copriv.estimators import PrivateRegressor, linear
from copriv.estimators.inputs import whose_rows
from copriv.model.records import Records

Columns: TypeAlias = dict[str, list[Any]]
WEST, EAST = timezone(timedelta(hours=-5)), timezone(timedelta(hours=9))

# For each declared column cells of text, and cells of other types that libraries hand over; some of them are refused.
WRITTEN = {
    "number": ["1", "1.0", "01", "+1", "-0", "0.1", "1e-400", "3e2", " 2 ", "9007199254740993", "NA", "", "nan", "NaT"],
    "boolean": ["yes", "no", "1", "0", "1.0", "TRUE", "false", "t", "NA", "", "n/a"],
    "date": ["2015-06-30", "2015-06-30T23:30:00-05:00", "2015-06-30 12:00:00", "20150630", "2015-06-30T00:00:00+09:00",
             "2015-06-30T01:02:03Z", "2015-06-30 23:59:59.123456", "NA", ""],
    "person": ["1", "01", "1.0", "A7", "9007199254740993", "9007199254740992", "1.5", "true", "é"],
    "NA": ["1", "2", "NA", "none yet", "", "null", "1.0"],
    "01": ["1", "01", "A", "1.0"],
    "truth": ["1", "0", "true", "x", "True", ""],
    "fraction": ["0.1", "0.10", "0.5", "nan", "b", "1e-1", ""],
    "zeros": ["01", "02", "1", "2.0", "x"],
    "days": ["2015-06-30", "2015-07-01", "x", "7"],
    "fraud": ["0", "1", "1.0", "true", "FALSE"],
}  # fmt: skip
TYPED: dict[str, list[Any]] = {
    "number": [1, 1.0, 0.1, -0.0, Decimal("0.1"), Decimal("0.0000000001"), Decimal("1.25"), 2**53 + 1, 10**19, None,
               float("nan"), "1", "0.1", "NA"],
    "boolean": [True, False, 1, 0, 1.0, None, "yes", "1", "no", float("nan")],
    "date": [date(2015, 6, 30), datetime(2015, 6, 30, 23, 30, tzinfo=WEST), datetime(2015, 6, 30, 3, tzinfo=EAST),
             datetime(2015, 6, 30, 12), datetime(2015, 6, 30, 23, 59, 59, 999999), datetime(2015, 6, 30, 1, tzinfo=UTC),
             None, "2015-06-30", "2015-06-30T23:30:00-05:00", "NA", 20150630, 20150630.0],
    "person": [1, 1.0, 1.5, 2**53, 2**53 + 1, True, "1", "01", "A7", Decimal("1"), 2, "x"],
    "NA": [1, 2, 1.0, None, float("nan"), "1", "NA", "none yet", Decimal("1.00")],
    "01": [1, 1.0, "1", "01", "A"],
    "truth": [True, False, 1, 0, None, "1", "true", "x"],
    "fraction": [0.1, 0.5, Decimal("0.1"), None, float("nan"), "0.1", "b", "nan"],
    "zeros": [1, 2, 1.0, "01", "1", "x"],
    "days": [date(2015, 6, 30), datetime(2015, 6, 30), "2015-06-30", "2015-07-01", 7],
    "fraud": [0, 1, True, False, 0.0, "1", "true"],
}  # fmt: skip
ODD = {
    "text": ["x", "nan(1)", "-nan", "0x10", "1,5", "1_0", "inf", "1 000", "1,000", "30/06/2015", "soon", 'a "quote"',
             "two\nlines", "NULL", "none yet"],
    "typed": ["x", True, 2**70, float("inf"), b"A", date(2015, 6, 30), "none yet", 2.5, None, Decimal("2.125"), []],
}  # fmt: skip
COLUMNS: dict[str, list[Any]] = {
    "number": [Number("number", -1e30, 1e30, 7), Number("number", -9, 9, 1, clamp=True, by="centred")],
    "boolean": [Boolean("boolean", missing=True)],
    "date": [Date("date", date(2015, 6, 1), date(2015, 7, 30), date(2015, 6, 15))],
    "person": ["person"],
    "NA": [Category("NA", ("1", "2", "NA", "none yet"), "1"), Category("NA", ("1", "2", "NA", "none yet"), "NA")],
    "01": [Category("01", ("1", "01", "A")), Category("01", ("01", "A"), ordered=True)],
    "truth": [Category("truth", ("1", "0", "true", "x"), "x"), Category("truth", ("false", "true", "x"), "x")],
    "fraction": [Category("fraction", ("0.1", "0.5", "nan", "b"), "b", ordered=True)],
    "zeros": [Category("zeros", ("01", "02", "x"))],
    "days": [Category("days", ("2015-06-30", "2015-07-01", "x", "7"))],
    "fraud": [TwoClasses("fraud", "0", "1"), TwoClasses("fraud", "false", "true")],
}


def csv_file(table: Columns, folder: Path, ends: tuple[str, ...] = ("\n", "\r\n", "\r")) -> Path:
    """Quotes and line ends vary from row to row; the byte order mark is everybody's."""
    lines = [",".join(table) + "\n"]
    for row in zip(*table.values(), strict=True):
        cells = ['"' + c.replace('"', '""') + '"' if not c.isalnum() or len(c) % 2 else c for c in row]
        lines.append(",".join(cells) + ends[len(lines[-1]) % len(ends)])
    path = folder / "t.csv"
    path.write_bytes(("\ufeff" if len(lines) % 2 else "").encode() + "".join(lines).encode())
    return path


def sql_literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int() | Decimal():
            return str(value)
        case float() | np.floating():
            return f"CAST('{float(value)}' AS double precision)"
        case datetime():
            return f"{'TIMESTAMP' if value.tzinfo is None else 'TIMESTAMPTZ'} '{value.isoformat()}'"
        case date():
            return f"DATE '{value}'"
        case str():
            return f"'{value}'"
    raise TypeError


def fitting(make: Any, table: Columns) -> dict[str, Any]:
    """The columns that a library makes of these cells, without those that do not go together for it."""
    made = {}
    for name, cells in table.items():
        with suppress(Exception):
            made[name] = make(cells)
    return made


def arrow(table: Columns) -> pa.Table:
    return pa.table(fitting(pa.array, table))


def dictionary(cells: list[Any]) -> pa.DictionaryArray:
    made = pa.array(cells)
    assert made.null_count < len(made), "a dictionary of nothing cannot be written"
    return made.dictionary_encode()


def parquet(table: pa.Table, folder: Path) -> Path:
    pa.parquet.write_table(table, folder / "t.parquet", row_group_size=2)
    return folder / "t.parquet"


def stream(path: Path) -> pa.Table:
    """What an owner's pass over a file gives, in one piece."""
    (table,) = _cut(pieces(path, column_names(path)), 1_000_000)
    return table


def in_pieces(table: Columns) -> pa.Table:
    """Each row by itself, with the types that it has alone."""
    rows = range(len(table["x"]))
    made = {}
    for name, cells in table.items():
        with suppress(Exception):
            made[name] = next(_cut([pa.table({name: [cells[row]]}) for row in rows], len(rows)))[name]
    return pa.table(made)


def sql(address: str, table: Columns) -> pa.Table:
    """Each column by a query of its own: what a data base makes of values of several types."""

    def asked(cells: list[Any]) -> pa.ChunkedArray:
        values = ", ".join(f"({row}, {sql_literal(cell)})" for row, cell in enumerate(cells))
        return read_sql(address, f"SELECT c FROM (VALUES {values}) AS t(k, c) ORDER BY k")["c"]

    return pa.table(fitting(asked, table))


TEXT_WAYS: dict[str, Any] = {
    "csv": csv_file,
    "csv in blocks": lambda table, folder: stream(csv_file(table, folder)),
    "csv by pandas": lambda table, folder: pd.read_csv(csv_file(table, folder, ("\n", "\r\n"))),
    "csv by polars": lambda table, folder: pl.read_csv(csv_file(table, folder, ("\n",)), infer_schema_length=None),
    "csv by polars, days": lambda table, folder: pl.read_csv(
        csv_file(table, folder, ("\n",)), infer_schema_length=None, try_parse_dates=True
    ),
    "csv by pyarrow": lambda table, folder: pa.csv.read_csv(
        csv_file(table, folder), parse_options=pa.csv.ParseOptions(newlines_in_values=True)
    ),
}
TYPED_WAYS: dict[str, Any] = {
    "pandas": lambda table, folder: pd.DataFrame(fitting(pd.Series, table)),
    "pandas objects": lambda table, folder: pd.DataFrame(table, dtype=object),
    "pandas nullable": lambda table, folder: pd.DataFrame(fitting(pd.Series, table)).convert_dtypes(),
    "pandas category": lambda table, folder: pd.DataFrame(fitting(pd.Categorical, table)),
    "polars": lambda table, folder: pl.DataFrame(fitting(pl.Series, table)),
    "polars, made to fit": lambda table, folder: pl.DataFrame(
        fitting(lambda cells: pl.Series(cells, strict=False), table)
    ),
    "arrow": lambda table, folder: arrow(table),
    "arrow in pieces": lambda table, folder: in_pieces(table),
    "parquet in blocks": lambda table, folder: stream(parquet(arrow(table), folder)),
    "parquet of dictionaries": lambda table, folder: parquet(pa.table(fitting(dictionary, table)), folder),
    "parquet of pandas": lambda table, folder: parquet(
        pa.Table.from_pandas(pd.DataFrame(fitting(lambda cells: pd.Series(pa.array(cells).to_pandas()), table))), folder
    ),
}


def encoded(table: Any, column: Any) -> tuple[Any, Any]:
    """The numbers and the persons of a table's rows. Raises CoprivError where it is refused."""
    if isinstance(column, str):
        schema = Schema((Number("x", 0, 1),), Number("y", 0, 1), unit=column)
    elif isinstance(column, TwoClasses):
        schema = Schema((Number("x", 0, 1),), column)
    else:
        schema = Schema((column,), Number("y", 0, 1))
    found = schema.encode(table)
    return np.column_stack([found.features, found.target]), found.unit


def two_tables(rng: random.Random, pools: dict[str, list[Any]], odd: list[Any]) -> tuple[Columns, Columns, Any, Any]:
    """Two tables, and where in each the rows stand that they have in common."""
    shared, others = rng.randint(1, 2), (rng.randint(0, 1), rng.randint(1, 2))
    orders = [rng.sample(range(shared + more), shared + more) for more in others]
    tables: list[Columns] = [{"x": [0.25] * len(order), "y": [0.5] * len(order)} for order in orders]
    for name, pool in pools.items():
        common = rng.choices(pool, k=shared)
        for table, order, more in zip(tables, orders, others, strict=True):
            rest = [rng.choice(odd if rng.random() < 0.1 else pool) for _ in range(more)]
            table[name] = [[*common, *rest][row] for row in order]
    return *tables, *([order.index(row) for row in range(shared)] for order in orders)


def compared(way: Any, pools: dict[str, list[Any]], odd: list[Any], examples: int) -> dict[str, int]:
    """For each column, in how many pairs of tables its rows were compared; in the others one was refused."""
    counts = dict.fromkeys(pools, 0)

    @settings(max_examples=examples, phases=[Phase.generate])
    @given(st.integers(0, 2**32))
    def compare(seed: int) -> None:
        *tables, first, second = two_tables(random.Random(seed), pools, odd)
        try:
            made = [read_table(way(table)) for table in tables]
        except CoprivError:
            return
        for name in pools:
            for column in COLUMNS[name]:
                with suppress(CoprivError):
                    (x, persons), (z, others) = (encoded(table, column) for table in made)
                    assert x[first].tobytes() == z[second].tobytes(), (column, [table[name] for table in tables])
                    if persons is not None:
                        p, q = persons[first], others[second]
                        assert np.array_equal(p[:, None] == p, q[:, None] == q), [table[name] for table in tables]
                    counts[name] += 1

    compare()
    return counts


def as_text(table: Columns) -> Columns:
    return {name: [str(cell) for cell in cells] for name, cells in table.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_text_is_read_row_by_row(way: str, folder: Path) -> None:
    counts = compared(lambda table: TEXT_WAYS[way](as_text(table), folder), WRITTEN, ODD["text"], 45)
    assert sum(counts.values()) > 50, counts


@pytest.mark.parametrize("way", TYPED_WAYS)
def test_values_are_read_row_by_row(way: str, folder: Path) -> None:
    counts = compared(lambda table: TYPED_WAYS[way](table, folder), TYPED, ODD["typed"], 25)
    assert sum(counts.values()) > 20, counts


@pytest.mark.parametrize(
    ("name", "cell", "others"),
    [
        ("NA", "NA", ("1", "none yet")),
        ("01", "01", ("1", "A")),
        ("date", "2015-06-30T23:30:00-05:00", ("2015-06-30T12:00:00-05:00", "2015-06-30 12:00:00")),
        ("boolean", "1.0", ("0", "yes")),
        ("fraud", "true", ("false", "1")),
        ("fraction", "0.10", ("0.5", "b")),
    ],
)
@pytest.mark.parametrize("way", ["csv", "csv in blocks"])
def test_one_other_row_does_not_change_what_999_are(
    way: str, name: str, cell: str, others: tuple[str, str], folder: Path
) -> None:
    found = []
    for other in others:
        table = {"x": ["0.25"] * 1000, "y": ["0.5"] * 1000, name: [cell] * 999 + [other]}
        found.append(encoded(read_table(TEXT_WAYS[way](table, folder)), COLUMNS[name][0])[0][:999])
    assert found[0].tobytes() == found[1].tobytes()


FULL_DAY = datetime(2015, 6, 30, 23, tzinfo=WEST)


@pytest.mark.parametrize("other", [date(2015, 6, 1), datetime(2015, 6, 2, tzinfo=EAST), "2015-06-01", None])
def test_cells_after_a_hundred_missing_ones_are_read_each_by_itself(other: Any, folder: Path) -> None:
    """By the first hundred objects of a column the kind of it is guessed."""
    found = []
    for cell in (FULL_DAY, other):
        table = {"x": [0.25] * 200, "y": [0.5] * 200, "date": [None] * 100 + [cell] + [FULL_DAY] * 99}
        found.append(encoded(read_table(pd.DataFrame(table, dtype=object)), COLUMNS["date"][0])[0][101:])
    assert found[0].tobytes() == found[1].tobytes()


STRAY = ['"b', 'b"', 'b"c,"d', '"b"c,"', '"', '"""', 'x"y"z"', '"two\nlines"', '"two\r\rlines"', '"b\n\n\n', "'b"]


@pytest.mark.parametrize("stray", STRAY)
@pytest.mark.parametrize("later", ["b", '"b"', 'b"', '"', '"b', 'b","', '"quo""ted"', "", "\n"])
@pytest.mark.parametrize("more", [0, 5000])
def test_a_quote_of_one_row_takes_no_other_row_in(stray: str, later: str, more: int, folder: Path) -> None:
    """Also one of a column that nobody declared. Rows of many blocks, at whose ends a reader could begin anew."""
    rows = [f"{k},ok" for k in range(2 * more + 4)]
    rows[1], rows[more + 2] = f"1,{stray}", f"{more + 2},{later}"
    path = folder / "stray.csv"
    path.write_text("x,note\n" + "\n".join(rows) + "\n", newline="")
    found = []
    for read in (lambda: read_table(path)["x"].to_list(), lambda: stream(path)["x"].to_pylist()):
        try:
            found.append(read())
        except CoprivError as error:
            found.append(str(error))
    assert found[0] == found[1]
    if isinstance(found[0], str):
        assert re.search(f"line (3|{more + 4})(:.* a quote that is not closed| has . cells, and the header)", found[0])
    else:
        assert found[0] == [str(k) for k in range(len(rows))]


@pytest.mark.parametrize("way", [read_table, lambda path: stream(path)])
def test_a_quote_that_is_never_closed_is_refused_by_its_line(way: Any, folder: Path) -> None:
    path = folder / "open.csv"
    for cell in ("open", '"shut"', '"op en'):
        path.write_text("x,note\n" + "1,a\n" * 7 + f"1,{cell}\n" + "2,b\n" * 90_000)
        if cell.startswith('"op'):
            with pytest.raises(
                CoprivError, match=r"open\.csv: line 9: a cell holds a line break, or a quote that is not"
            ):
                way(path)
        else:
            assert len(way(path)) == 90_008


@pytest.mark.parametrize("way", [read_table, lambda path: stream(path)])
@pytest.mark.parametrize("end", ["", "\n", "\n\n\r\n"])
@pytest.mark.parametrize("cell", STRAY)
def test_a_row_that_is_taken_as_the_last_one_is_taken_anywhere(way: Any, cell: str, end: str, folder: Path) -> None:
    """Arrow closes a quote where the file ends, so that such a row was refused unless it was the last."""
    path, said, begun = folder / "last.csv", list[int | str](), f"x,note\n1,a\n1,{cell}"
    for text in (begun + end, f"{begun}\n2,b\n"):
        path.write_text(text, newline="")
        try:
            said.append(len(way(path)))
        except CoprivError as error:
            said.append(re.split("line ", str(error))[1][0])
    assert said in ([2, 3], ["3", "3"])


def test_persons_are_told_apart_whoever_else_is_there(folder: Path) -> None:
    persons = []
    for other in ("7", "A7"):
        table = {"x": ["0"] * 4, "y": ["0"] * 4, "person": ["01", "1", "2", other]}
        persons.append(encoded(csv_file(table, folder), "person")[1].tolist())
    assert persons == [[0, 0, 1, 2]] * 2


@given(st.text(alphabet="0123456789+-.eE_ infaNx\u0665\u00a0\x1c", max_size=8))
def test_a_number_is_the_same_whether_its_column_is_read_at_once_or_cell_by_cell(text: str) -> None:
    """Where one cell is no number for arrow all are read by Python: what both take must be the same to the last bit."""

    def read(cells: list[str]) -> Any:
        values, wrong = numbers(nw.from_native(pa.chunked_array([cells], pa.string()), series_only=True))
        return None if wrong is not None else values[0].tobytes()

    alone, beside = read([text]), read([text, " \x1c1"])  # Arrow does not read the second
    assert alone == beside


@pytest.mark.parametrize("other", ["a", 0.5, "\u00e9", True])
def test_the_label_of_a_row_is_its_own_whoever_else_is_there(other: Any) -> None:
    """One text made "1" and "1.0" of one person or owner; one float made one of 2^53 and 2^53 + 1."""
    labels = [2**53, 2**53 + 1, 7, 7.0, "7"]
    for more in ([], [other]):
        n = len(labels) + len(more)
        person = Records.of_persons(np.zeros((n, 1)), np.zeros(n), labels + more).person
        assert person is not None
        assert [person[:5].tolist().index(one) for one in person[:5]] == [0, 1, 2, 2, 4]
        whose = whose_rows(labels + more, n)
        assert [next(name for name, rows in whose.items() if row in rows) for row in range(5)] == [
            str(2**53), str(2**53 + 1), "7", "7", "7"
        ]  # fmt: skip


@pytest.mark.parametrize("nobody", [None, np.nan, pd.NA, pd.NaT, 2.0**53])
def test_a_row_that_is_nobodys_in_particular_is_refused(nobody: Any) -> None:
    for labels in ([1, nobody], pd.Series([1, nobody], dtype=object)):
        with pytest.raises(CoprivError, match=r"unit: a (row has no label|label is a float beyond 2\^53)"):
            Records.of_persons([[0.0], [0.0]], [0.0, 0.0], labels)


def test_objects_that_arrow_dies_of_are_not_given_to_it() -> None:
    """A day and a whole number of NumPy in one column ended the process, where a hundred missing cells came before."""
    series = pd.Series([None] * 120 + [np.datetime64("2020-01-01"), np.int64(1)], dtype=object)
    values, wrong = numbers(nw.from_native(series, series_only=True))
    assert values[-1] == 1.0
    assert wrong is not None
    assert wrong[0] == 120


@pytest.mark.parametrize("other", [10**30, "\ud800"])
def test_an_object_that_arrow_has_no_place_for_is_read_by_itself(other: Any) -> None:
    """They ended in a traceback."""
    series = pd.Series([None] * 120 + ["1" if isinstance(other, str) else 1, other], dtype=object)
    values, wrong = numbers(nw.from_native(series, series_only=True))
    assert values[-2] == 1.0
    assert wrong == ((121, other) if isinstance(other, str) else None)


def test_a_duckdb_query_is_read_row_by_row(folder: Path) -> None:
    pytest.importorskip("duckdb").connect(str(folder / "empty.duckdb")).close()
    counts = compared(lambda table: sql(f"duckdb:{folder / 'empty.duckdb'}", table), TYPED, ODD["typed"], 6)
    assert sum(counts.values()) > 10, counts


def test_a_postgresql_query_is_read_row_by_row(postgresql_server: str) -> None:
    counts = compared(lambda table: sql(postgresql_server, table), TYPED, ODD["typed"], 6)
    assert sum(counts.values()) > 10, counts


OTHERS = (1, 0.5, True, 2**53 + 1, np.float32(0.25), Decimal("0.25"))
MAKES: dict[str, Any] = {
    "lists": list,
    "arrays": np.array,
    "pandas": pd.DataFrame,
    "polars": lambda rows: pl.DataFrame(rows, orient="row", strict=False),
    "named": lambda rows: pd.DataFrame(rows, columns=["a", "b"]).convert_dtypes(),
}


@pytest.mark.parametrize("make", MAKES)
def test_arrays_and_estimators_take_each_row_by_itself(make: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes to the owners of one process: a budget is counted for these numbers."""
    taken: list[Any] = []

    def stop(problem: Any, *_: Any) -> Any:
        (owner,) = problem.owners
        taken.append(np.column_stack([owner.features, owner.target])[:3].tobytes())
        raise KeyboardInterrupt

    monkeypatch.setattr(linear, "train", stop)
    features = set()
    for other in OTHERS:
        rows, y = [[1, 2.5], [3, 0.1], [0, -1.0], [other, other]], [1, 2, 3, other]
        try:
            table = MAKES[make](rows)
        except TypeError:
            continue
        with suppress(CoprivError):
            features.add(as_records({"a": (table, y)}, None)["a"].features[:3].tobytes())
        with suppress(KeyboardInterrupt, CoprivError, TypeError):
            PrivateRegressor(bounds=(-10, 10), target_bounds=(0, 10)).fit(table, y)
    assert len(features) == 1
    assert len(taken) >= 3
    assert len(set(taken)) == 1


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_days_are_not_taken_for_numbers(unit: str) -> None:
    """One row with a time of day would make seconds of everybody's days."""
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype=f"M8[{unit}]")
    for cells in (days, days - days[0]):
        for X in (cells[:, None], pd.DataFrame({"a": cells})):
            with pytest.raises(CoprivError, match="days or durations"):
                Records.of(X, [1.0, 2.0, 3.0])
            with pytest.raises(TypeError, match="days or durations"):
                PrivateRegressor(bounds=(0, 1), target_bounds=(0, 1)).fit(X, [1.0, 2.0, 3.0])
        with pytest.raises(TypeError, match="days or durations"):
            PrivateRegressor(bounds=(0, 1), target_bounds=(0, 1)).fit([[1.0], [2.0], [3.0]], cells)


FAR = pa.array([5, 10**12], pa.timestamp("s"))
TOO_FAR: dict[str, Any] = {
    "arrow": FAR,
    "arrow with a zone": FAR.cast(pa.timestamp("s", "UTC")),
    "dictionary": FAR.dictionary_encode(),
    "before year 1": pa.array([5, -(10**12)], pa.timestamp("s")).dictionary_encode(),
    "milliseconds": pa.array([5, 10**17], pa.int64()).cast(pa.date64()),
    "durations": pa.array([5, 10**17], pa.duration("s")),
    "pandas": pd.Series(FAR.to_pandas()),
    "pandas objects": pd.Series(list(FAR.to_pandas()), dtype=object),
    "pandas category": pd.Series(FAR.to_pandas()).astype("category"),
}


@pytest.mark.parametrize("kind", TOO_FAR)
@pytest.mark.parametrize("column", ["person", *(made[0] for made in COLUMNS.values() if made[0] != "person")], ids=str)
def test_a_day_beyond_the_calendar_refuses_the_table(kind: str, column: Any) -> None:
    """In a column of any kind: a traceback of a library could quote the cell."""
    name = column if isinstance(column, str) else column.name
    make = pa.table if isinstance(TOO_FAR[kind], pa.Array) else pd.DataFrame
    with pytest.raises(CoprivError, match=name):
        encoded(make({name: TOO_FAR[kind], "x": [0.25] * 2, "y": [0.5] * 2}), column)


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_of_missing_values_are_those_cells_beside_a_text(rows: int, postgresql_server: str) -> None:
    """A frame or a block in which all cells of a column are missing; a query asks for the block by itself."""
    column = Category("c", ("1", "2", "NA"), "1")
    for cast in ("text", "varchar(9)", "json", "char(2)"):
        values = ", ".join(["(NULL)"] * rows)
        (block,) = _cut(stream_sql(postgresql_server, f"SELECT c::{cast}, 0.5 AS y FROM (VALUES {values}) t(c)")(), 9)
        assert encoded(block, column)[0].tolist() == [[1, 0, 0, 0.5]] * rows
    for text in (None, "2"):
        frame = pl.DataFrame({"c": [None] * rows + [text], "y": [0.5] * (rows + 1)})
        assert encoded(frame, column)[0].tolist()[:rows] == [[1, 0, 0, 0.5]] * rows


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_the_zone_of_a_session_moves_no_day(zone: str, postgresql_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day beside a time with a zone is made midnight in the session's zone, which is UTC whatever the machine's is."""
    monkeypatch.setenv("PGTZ", zone)
    cells = {"date": [date(2015, 6, 30), datetime(2015, 6, 30, 12, tzinfo=UTC)], "y": [0.5, 0.5]}
    asked, column = sql(postgresql_server, cells), COLUMNS["date"][0]
    assert pa.types.is_timestamp(asked["date"].type)
    same_day = arrow({"date": [date(2015, 6, 30)] * 2, "y": [0.5, 0.5]})
    assert encoded(asked, column)[0].tobytes() == encoded(same_day, column)[0].tobytes()
