"""Read an owner's table from a data base, a DuckDB file or a PostgreSQL server, by the owner's own query.

    read_sql("duckdb:loans.duckdb", "SELECT * FROM loans")
    read_sql("postgresql://agent@db.bank.example/loans", "SELECT * FROM loans WHERE year = 2024")
    stream_sql(address, query)()     # the same rows in pieces, for copriv.data.stream

The rows are read through the declared schema, as a file's are, and only its columns are kept. Both data bases are opened for
reading only. A password belongs in the environment (PGPASSWORD) or ~/.pgpass, not in an address that a shell keeps in its
history; messages never quote an address.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from copriv.errors import CoprivError, DataError
from copriv.formatting.sanitize import printable

SCHEMES = ("duckdb:", "postgresql:", "postgres:")


def is_sql(source: str) -> bool:
    """Whether an owner's `--data` is a data base's address rather than a file's path.

    Raises DataError for the address of anything else; it may hold a password, so only its scheme is repeated.
    """
    scheme, address, _ = source.partition("://")
    if address and scheme.isalnum() and not source.startswith(SCHEMES):
        raise DataError(
            f"{printable(scheme, 40)}://: copriv reads duckdb:FILE and postgresql://… with a query, and files; save the rows "
            "as a .csv or .parquet file, and give its path"
        )
    return source.startswith(SCHEMES)


def read_sql(address: str, query: str, columns: Sequence[str] | None = None, own_order: bool = False) -> pa.Table:
    """Read the rows of a query as an Arrow table, and of its columns those in `columns` (None: all).

    own_order: put rows in the order of a hash of their own cells. A data base promises no order, and which rows come first may
    depend on other rows; where only the first rows of a person are kept, one row would decide about the rows of others.

    Raises DataError when the data base cannot be reached or the query fails, CoprivError without the extra [sql].
    """
    if not query.strip():
        raise DataError("query: a data base needs a query; give one with --query 'SELECT ... FROM ...'")
    pieces = list(stream_sql(address, query, columns, None)())
    if sum(piece.num_rows for piece in pieces) == 0:
        raise DataError("query: gave no rows; an owner needs at least one record")
    table = pa.concat_tables(pieces, promote_options="permissive")
    if own_order:
        # Days and times as whole numbers: a data base has days that Python does not.
        columns_of_cells = [_whole(column).to_pylist() for column in table.columns]
        hashes = [blake2b(repr(row).encode(), digest_size=16).digest() for row in zip(*columns_of_cells, strict=True)]
        table = table.take(np.argsort(np.array(hashes), kind="stable"))
    return table


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of days, times or durations as whole numbers; any other as it is."""
    if not pa.types.is_temporal(column.type) or pa.types.is_interval(column.type):
        return column
    return column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())


def stream_sql(
    address: str, query: str, columns: Sequence[str] | None = None, rows: int | None = 65_536
) -> Callable[[], Iterator[pa.Table]]:
    """Return a function that runs the query anew and yields its rows, `rows` at a time (None: all). Raises as `read_sql`."""
    read = _postgresql
    if address.startswith("duckdb:"):
        read = _duckdb

    def one_pass() -> Iterator[pa.Table]:
        for table in read(address, query, rows):
            chosen = [name for name in table.column_names if columns is None or name in set(columns)]
            yield table.select(chosen)

    return one_pass


def _duckdb(address: str, query: str, rows: int | None) -> Iterator[pa.Table]:
    try:
        import duckdb
    except ImportError:
        raise CoprivError("DuckDB is not installed; pip install 'copriv[sql]'") from None
    path = Path(address.removeprefix("duckdb:").removeprefix("//"))
    if not path.is_file():
        raise DataError(f"{path}: there is no such DuckDB file; give duckdb:PATH")
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")  # a day that is cast to a time with a zone stays that day
            for batch in connection.sql(query).to_arrow_reader(rows or 1_000_000):
                yield pa.Table.from_batches([batch])
    except duckdb.Error as error:
        raise DataError(f"{path.name}: {_first_line(error)}; correct the query, or the file") from None


def _postgresql(address: str, query: str, rows: int | None) -> Iterator[pa.Table]:
    try:
        import psycopg
        from psycopg.postgres import types
    except ImportError:
        raise CoprivError("the PostgreSQL driver is not installed; pip install 'copriv[sql]'") from None
    try:
        with psycopg.connect(address, connect_timeout=10, application_name="copriv owner") as connection:
            connection.read_only = True
            connection.execute("SET TIME ZONE 'UTC'")
            cursor = connection.cursor()
            other = {types[name].oid for name in _NOT_TEXT}
            # `stream` yields rows as the server sends them; `execute` would first hold all of them. A stream that is not
            # read to its end must be closed before its connection, which would wait for it.
            with closing(cast(Any, cursor.stream(query.encode()))) as answer:
                while values := list(islice(answer, rows)):
                    names = [column.name for column in cursor.description or ()]
                    if len(set(names)) < len(names) or not names:
                        raise DataError("query: needs columns with different names; name them with AS")
                    yield pa.table({
                        name: _column([row[j] for row in values], column.type_code not in other)
                        for j, (name, column) in enumerate(zip(names, cursor.description or (), strict=True))
                    })  # fmt: skip
    except psycopg.Error as error:
        said = _first_line(error)
        if (
            isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None
        ):  # libpq on the address, which it quotes
            said = "the address cannot be read; write % as %25 in it, and @, / and : in a name as %40, %2F and %3A"
        raise DataError(f"PostgreSQL: {said}; correct the address or the query") from None


_NOT_TEXT = ("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "date", "timestamp", "timestamptz")
"""Types of PostgreSQL whose values keep their type; values of other types become text."""


def _column(values: list[Any], text: bool) -> pa.Array:
    """Convert a column, each value by itself: decimals to floats; to text where `text` is set, even if all are missing."""
    if text:
        return pa.array([None if v is None else str(v) for v in values], pa.string())
    return pa.array([float(v) if isinstance(v, Decimal) else v for v in values])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
