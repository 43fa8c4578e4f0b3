"""Owners' tables from real data bases: DuckDB in a file, and a PostgreSQL server that the tests start and stop."""

import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml

from copriv.agreement import Agreement
from copriv.cli.commands.owner import _own_records
from copriv.data.sql import is_sql, read_sql, stream_sql
from copriv.errors import DataError
from copriv.model.records import Records
from copriv.network.setup import owner_records, streamed_records

duckdb = pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
psycopg = pytest.importorskip("psycopg", reason="the extra [sql] is not installed")

AGREED = Agreement.of(
    {
        "agreement": {"rule": "A2", "horizon": 4, "step": 1.0},
        "model": {"loss": "logistic", "gradient_bound": 2.0},
        "data": {
            "dataset": "table",
            "components": 0,
            "feature_bound": 0.0,
            "features": ["income", "grade"],
            "target": "repaid",
            "bounds": {"income": [0, 100]},
            "categories": {"grade": ["A", "B", "C"], "repaid": ["no", "yes"]},
            "ordered": ["grade"],
        },
        "owner": [{"name": "bank", "records": 3, "epsilon": 1.0}],
    }
)
ROWS = [(50.25, "A", "yes", "secret"), (100, "C", "no", "secret"), (0, "B", "yes", "secret")]
CREATE = "CREATE TABLE loans (income NUMERIC(8, 2), grade TEXT, repaid TEXT, name TEXT)"
QUERY = "SELECT * FROM loans"


@pytest.fixture
def duckdb_file(tmp_path: Path) -> str:
    with duckdb.connect(str(tmp_path / "loans.duckdb")) as connection:
        connection.execute(CREATE)
        connection.executemany("INSERT INTO loans VALUES (?, ?, ?, ?)", ROWS)
    return f"duckdb:{tmp_path / 'loans.duckdb'}"


@pytest.fixture(scope="module")
def postgresql(postgresql_server: str) -> str:
    with psycopg.connect(postgresql_server) as connection:
        connection.execute(CREATE)
        for row in ROWS:
            connection.execute("INSERT INTO loans VALUES (%s, %s, %s, %s)", row)
    return postgresql_server


def through_the_schema(table: pa.Table) -> None:
    records, columns = owner_records(AGREED, "bank", table, None)
    assert columns == ("income", "grade", "repaid")
    np.testing.assert_allclose(records.features, [[0.5025, 1 / 3], [1.0, 1.0], [0.0, 2 / 3]])
    np.testing.assert_array_equal(records.target, [1.0, -1.0, 1.0])


def test_a_duckdb_table_goes_through_the_schema(duckdb_file: str) -> None:
    table = read_sql(duckdb_file, QUERY, ("income", "grade", "repaid"))
    assert table.column_names == ["income", "grade", "repaid"], "columns that were not agreed are not kept"
    through_the_schema(table)


def test_a_postgresql_table_goes_through_the_schema(postgresql: str) -> None:
    through_the_schema(read_sql(postgresql, QUERY, ("income", "grade", "repaid")))


@pytest.mark.parametrize("columns", [None, ("k", "y")])
def test_a_column_of_both_sides_of_a_join_is_named_in_the_error(
    duckdb_file: str, postgresql: str, columns: tuple[str, ...] | None
) -> None:
    join = "SELECT * FROM (SELECT 1 AS k, 2 AS y) AS p JOIN (SELECT 1 AS k, 3 AS z) AS q ON p.k = q.k"
    for address in (duckdb_file, postgresql):
        for read in (read_sql, lambda *given: list(stream_sql(*given)())):
            with pytest.raises(DataError, match="'k' stands twice"):
                read(address, join, columns)


def test_both_come_in_pieces_that_make_the_whole(duckdb_file: str, postgresql: str) -> None:
    for address in (duckdb_file, postgresql):
        passes = stream_sql(address, QUERY + " ORDER BY income", ("income", "grade", "repaid"), 2)
        for _ in range(2):  # each pass asks anew
            pieces = list(passes())
            assert sum(piece.num_rows for piece in pieces) == 3
            assert pa.concat_tables(pieces, promote_options="permissive")["income"].to_pylist() == [0.0, 50.25, 100.0]
        assert next(iter(passes())).column_names == ["income", "grade", "repaid"]
        records, columns = streamed_records(AGREED, "bank", address, QUERY + " ORDER BY income", None)
        held, _ = owner_records(AGREED, "bank", read_sql(address, QUERY + " ORDER BY income", columns), None)
        (block,) = records.blocks()
        np.testing.assert_array_equal(block.features, held.features)
        np.testing.assert_array_equal(block.target, held.target)


def test_json_of_several_kinds_is_text_whatever_the_other_rows_hold(postgresql: str) -> None:
    cells = ("'1'", """'"A"'""", "'true'", "'null'", "'9007199254740993'", "'0.5'")
    table = read_sql(postgresql, f"SELECT c::jsonb FROM (VALUES ({'), ('.join(cells)})) AS t(c)")
    assert table["c"].to_pylist() == ["1", "A", "True", None, "9007199254740993", "0.5"]


CELLS = {
    "bool": (["t", "f"], [True, False]),
    "int2": (["-7", "32767"], [-7, 32767]),
    "int8": (["9007199254740993", "0"], [2**53 + 1, 0]),
    "float4": (["0.1", "-Infinity"], [0.1, float("-inf")]),
    "float8": (["0.1", "5e-324"], [0.1, 5e-324]),
    "numeric": (["0.10", "123456789.123456789"], [0.1, 123456789.123456789]),
    "date": (["2015-06-30", "0001-01-01"], [date(2015, 6, 30), date(1, 1, 1)]),
    "timestamp": (
        ["2015-06-30 23:59:59.5", "1969-12-31 00:00:00.000001"],
        [datetime(2015, 6, 30, 23, 59, 59, 500000), datetime(1969, 12, 31, 0, 0, 0, 1)],
    ),
    "timestamptz": (["2015-06-30 23:30:00-05"], [datetime(2015, 7, 1, 4, 30, tzinfo=UTC)]),
    "text": (["", '"', "a,b", "two\nlines\r", "\\.", "\\N", "NULL", "NaN", " x "],) * 2,
    "char(3)": (["a"], ["a  "]),
    "uuid": (["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"], ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "int4[]": (["{1,2}"], ["[1, 2]"]),
    "bytea": (["\\x41"], ["b'A'"]),
}


@pytest.mark.parametrize("kind", CELLS)
def test_cells_of_postgresql_are_its_values_and_missing_ones_are_missing(kind: str, postgresql: str) -> None:
    """Alone in their table, where a missing cell is an empty line, and beside another column."""
    given, values = CELLS[kind]
    cells = ", ".join(
        "(NULL::text)" if one is None else f"({psycopg.sql.quote(one)}::text)" for one in (None, *given, None)
    )
    for more in ("", ", 1.5::float8 AS other"):
        table = read_sql(postgresql, f'SELECT c::{kind} AS "a ""c"{more} FROM (VALUES {cells}) t(c)')
        assert table['a "c'].to_pylist() == [None, *values, None]
        assert table.num_rows == len(values) + 2


@pytest.mark.parametrize(
    "name", ["\ufeffstatus", "\ufeff\ufeff", '"quoted"', "a,b", "two\nlines", " ", "NULL", "1", "ß", "f0"]
)
@pytest.mark.parametrize("own_names", [False, True])
def test_a_column_has_its_declared_type_whatever_its_name_is(name: str, own_names: bool, postgresql: str) -> None:
    """A byte order mark was dropped from a name, so that its type was not found, and was inferred from the other rows."""
    quoted = '"' + name.replace('"', '""') + '"'
    for other in ("f", "2", "none yet", "2020-01-01"):
        query = f"SELECT c AS {quoted}, 7::int8 AS n FROM (VALUES ('t'), ('\ufeff1'), ('{other}')) AS v(c)"
        table = read_sql(postgresql, query, (name, "n") if own_names else None)
        assert table.column_names == [name, "n"]
        assert table.schema.types == [pa.string(), pa.int64()]
        assert table[name].to_pylist() == ["t", "\ufeff1", other]


def test_the_first_cell_keeps_its_byte_order_mark_in_every_piece(postgresql: str) -> None:
    pieces = stream_sql(postgresql, "SELECT '\ufeffA' AS a FROM generate_series(1, 5)", None, 2)()
    assert [piece["a"].to_pylist() for piece in pieces] == [["\ufeffA"] * 2, ["\ufeffA"] * 2, ["\ufeffA"]]


def test_columns_that_are_not_asked_for_are_not_converted(postgresql: str) -> None:
    query = "SELECT date 'infinity' AS seen, '{1,2}'::int4[] AS a, 3 AS n, timestamp 'infinity' AS till"
    table = read_sql(postgresql, query, ("n", "a"))
    assert table.to_pylist() == [{"a": "[1, 2]", "n": 3}]
    none_of_them = read_sql(postgresql, "SELECT 3 AS n, date 'infinity' AS seen", ("x",))
    assert none_of_them.column_names == []


def test_a_long_answer_comes_in_pieces(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow reads less than 2 GiB at once, and a table of persons is asked for as one piece."""
    monkeypatch.setattr("copriv.data.sql._PIECE", 100)
    query = "SELECT g AS n, repeat('x', 20) AS x FROM generate_series(1, 50) AS g"
    pieces = list(stream_sql(postgresql, query, None, None)())
    assert len(pieces) >= 10
    assert all(piece.num_rows < 10 for piece in pieces)
    for own_order in (False, True):
        table = read_sql(postgresql, query, own_order=own_order)
        assert sorted(table["n"].to_pylist()) == list(range(1, 51))


@pytest.mark.parametrize("value", ["date '0044-03-15 BC'", "timestamp 'infinity'", "timestamptz '20000-01-01'"])
def test_a_day_outside_the_calendar_is_refused_in_one_line(value: str, postgresql: str) -> None:
    with pytest.raises(DataError, match="a value that cannot be read") as refused:
        read_sql(postgresql, f"SELECT {value} AS day")
    assert "\n" not in str(refused.value)


def test_a_query_may_end_as_queries_end(postgresql: str) -> None:
    for end in ("", ";", " ;\n", " -- all"):
        assert read_sql(postgresql, f"SELECT 1 AS a{end}")["a"].to_pylist() == [1]


def test_a_postgresql_table_comes_a_few_rows_at_a_time(postgresql: str) -> None:
    """A million rows of 100 bytes are 100 MB; the first pieces come while the server still makes the others."""
    query = "SELECT g AS income, repeat('x', 100) AS grade FROM generate_series(1, 1000000) AS g"
    pieces = stream_sql(postgresql, query, None, 1000)()
    assert next(pieces).num_rows == 1000
    assert pa.total_allocated_bytes() < 20e6
    pieces.close()


def test_neither_is_written_to(duckdb_file: str, postgresql: str) -> None:
    for address in (duckdb_file, postgresql):
        with pytest.raises(DataError, match="read-only"):
            read_sql(address, "DELETE FROM loans RETURNING *")
        assert read_sql(address, QUERY).num_rows == 3


def test_what_goes_wrong_is_said_on_one_line(duckdb_file: str, postgresql: str) -> None:
    for address in (duckdb_file, postgresql):
        for query, said in (("SELECT * FROM other", "other"), ("", "needs a query"), (QUERY + " LIMIT 0", "no rows")):
            with pytest.raises(DataError, match=said) as caught:
                read_sql(address, query)
            assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="no such DuckDB file"):
        read_sql("duckdb:missing.duckdb", QUERY)
    with pytest.raises(DataError, match="correct the address"):
        read_sql("postgresql://owner:secret@127.0.0.1:9/none", QUERY)


def test_what_is_an_address_and_what_is_a_path() -> None:
    assert is_sql("postgresql://bank/loans")
    assert is_sql("duckdb:loans.duckdb")
    assert not is_sql("loans.parquet")


def test_which_rows_of_a_person_count_does_not_depend_on_their_order(tmp_path: Path) -> None:
    """A note of one person, longer by a word, had PostgreSQL give other persons' later visits first."""
    visits = [(f"p{k % 40}", k / 200, k) for k in range(200)]
    agreed = AGREED.replace(
        model={"loss": "squared"},
        data={
            "features": ["x"],
            "target": "y",
            "bounds": {"x": [0, 1], "y": [0, 200]},
            "categories": {},
            "ordered": (),
        },
        owner={"records": 40, "unit": "person", "unit_records": 2},
    )
    # Whatever the other owner says, and whichever of them is named first.
    other = {"name": "other", "records": 40, "epsilon": 1.0, "unit": "person"}
    several = [
        Agreement.of({**agreed.to_dict(), "owner": owners})
        for mine in agreed.to_dict()["owner"]
        for owners in ([mine], [other, mine], [mine, other], [{**other, "unit_records": 1}, mine])
    ]
    kept, by_the_command = [], []
    for number, rows in enumerate([visits, visits[::-1]]):
        file = tmp_path / f"{number}.duckdb"
        with duckdb.connect(str(file)) as connection:
            connection.execute("CREATE TABLE visits (person TEXT, x DOUBLE, y DOUBLE)")
            connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", rows)
        for own_order in (True, False):
            table = read_sql(f"duckdb:{file}", "SELECT * FROM visits", own_order=own_order)
            kept.append(sorted(owner_records(agreed, "bank", table, None)[0].target.tolist()))
        for one in several:
            served, _ = _own_records(one, "bank", f"duckdb:{file}", "SELECT * FROM visits", None, None)
            assert isinstance(served, Records)
            by_the_command.append(sorted(served.target.tolist()))
    own, first, own_again, last = kept
    assert own == own_again
    assert by_the_command == [own] * 8, "what copriv owner serve reads"
    assert first != last, "the order of the file decides where nothing else does"


@pytest.mark.parametrize(
    "value",
    ["DATE 'infinity'", "DATE '0044-03-15 (BC)'", "TIMESTAMP 'infinity'", "TIME '10:00:00'", "INTERVAL 3 MONTH"],
)
def test_rows_stand_in_their_own_order_whatever_their_days_are(tmp_path: Path, value: str) -> None:
    """Python has no day that is infinite, nor one before its year 1."""
    file = tmp_path / "x.duckdb"
    duckdb.connect(str(file)).close()
    query = f"SELECT n, {value} AS seen FROM (VALUES {{}}) AS t(n)"
    orders = [
        read_sql(f"duckdb:{file}", query.format(rows), own_order=True)["n"].to_pylist()
        for rows in ("(1), (2), (3)", "(3), (1), (2)")
    ]
    assert sorted(orders[0]) == [1, 2, 3]
    assert orders[0] == orders[1]


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://reader:S3cret%zz@db.bank.example/loans", "postgresql://reader@db/loans?S3cret",
        "postgresql://reader:S3cret@[db/loans", "postgresql:host=db password=S3cret",
    ],
)  # fmt: skip
def test_no_message_quotes_an_address(address: str) -> None:
    with pytest.raises(DataError, match="the address cannot be read") as refused:
        read_sql(address, "SELECT 1")
    assert "S3cret" not in str(refused.value)


def test_the_compose_files_loans_are_read_from_postgresql_as_from_their_file(
    postgresql_server: str, tmp_path: Path
) -> None:
    deploy = Path(__file__).parents[2] / "deploy"
    services = yaml.safe_load((deploy / "compose.yaml").read_text("utf-8"))["services"]
    query = services["bank-3"]["environment"]["COPRIV_QUERY"]
    subprocess.run([sys.executable, deploy / "tables.py", tmp_path], check=True)
    agreed = Agreement.load(deploy / "three-banks.toml")
    create, _, copy = (deploy / "loans.sql").read_text("utf-8").partition("COPY loans FROM '/tables/bank-3.csv'")
    assert copy.strip() == "CSV HEADER;"
    with psycopg.connect(postgresql_server) as connection:
        connection.execute("DROP TABLE IF EXISTS loans")
        connection.execute(create)
        with connection.cursor().copy("COPY loans FROM STDIN CSV HEADER") as into:
            into.write((tmp_path / "bank-3.csv").read_bytes())
    try:
        found, _ = owner_records(agreed, "bank-3", postgresql_server, None, query)
        same, _ = owner_records(agreed, "bank-3", str(tmp_path / "bank-3.csv"), None)
        np.testing.assert_array_equal(found.features, same.features)
        np.testing.assert_array_equal(found.target, same.target)
        assert len(found) == 600
    finally:
        with psycopg.connect(postgresql_server) as connection:
            connection.execute("DROP TABLE loans")
