"""Read an owner's table from a data base, a DuckDB file or a PostgreSQL server, by the owner's own query.

    read_sql("duckdb:loans.duckdb", "SELECT * FROM loans")
    read_sql("postgresql://agent@db.bank.example/loans", "SELECT * FROM loans WHERE year = 2024")
    stream_sql(address, query)()     # the same rows in pieces, for copriv.data.stream

The rows are read through the declared schema, as a file's are, and only its columns are kept. Both data bases are opened for
reading only. A password belongs in the environment (PGPASSWORD) or ~/.pgpass, not in an address that a shell keeps in its
history; messages never quote an address.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from copriv.data.tables import check_names, refuse_address
from copriv.errors import CoprivError, DataError
from copriv.formatting.sanitize import printable

SCHEMES = ("duckdb:", "postgresql:", "postgres:")


def is_sql(source: str) -> bool:
    """Whether an owner's `--data` is a data base's address rather than a file's path.

    Raises DataError for the address of anything else; it may hold a password, so only its scheme is repeated.
    """
    if source.startswith(SCHEMES):
        return True
    refuse_address(source)
    return False


def read_sql(address: str, query: str, columns: Sequence[str] | None = None, own_order: bool = False) -> pa.Table:
    """Read the rows of a query as an Arrow table, and of its columns those in `columns` (None: all).

    own_order: put rows in the order of a hash of their own cells. A data base promises no order, and which rows come first may
    depend on other rows; where only the first rows of a person are kept, one row would decide about the rows of others.

    Raises DataError when the data base cannot be reached or the query fails, CoprivError without the extra [sql].
    """
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
    if not query.strip():
        raise DataError("query: a data base needs a query; give one with --query 'SELECT ... FROM ...'")
    read = _postgresql
    if address.startswith("duckdb:"):
        read = _duckdb

    def one_pass() -> Iterator[pa.Table]:
        for table in read(address, query, columns, rows):
            check_names("query", table.column_names)
            chosen = [name for name in table.column_names if columns is None or name in set(columns)]
            yield table.select(chosen)

    return one_pass


def _duckdb(address: str, query: str, columns: Sequence[str] | None, rows: int | None) -> Iterator[pa.Table]:
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


def _postgresql(address: str, query: str, columns: Sequence[str] | None, rows: int | None) -> Iterator[pa.Table]:
    try:
        import psycopg
    except ImportError:
        raise CoprivError("the PostgreSQL driver is not installed; pip install 'copriv[sql]'") from None
    try:
        with psycopg.connect(address, connect_timeout=10, application_name="copriv owner") as connection:
            connection.read_only = True
            settings = (
                "SET TIME ZONE 'UTC'; SET client_encoding = 'UTF8'; SET DateStyle = 'ISO'; SET extra_float_digits = 3"
            )
            connection.execute(settings)
            described = _described(connection, query)
            names = [(described.fname(j) or b"").decode() for j in range(described.nfields)]
            if not names:
                raise DataError("query: gives no columns; SELECT at least one")
            check_names("query", names)
            kinds, loads = dict[str, pa.DataType](), {}
            for j in [j for j, name in enumerate(names) if columns is None or name in columns] or [0]:
                known = connection.adapters.types.get(oid := described.ftype(j))
                kind = known.name if known and known.oid == oid else ""  # it also gives the type of an array's elements
                kinds[str(j)] = _KINDS.get(kind, pa.string())
                loader = connection.adapters.get_loader(oid, psycopg.pq.Format.TEXT)
                if kind not in (*_KINDS, *_TEXTS) and loader:
                    loads[str(j)] = loader(oid, connection).load
            # A line break ends a comment at the end of the query.
            copied = f"COPY ({query.strip().rstrip(';')}\n) TO STDOUT (FORMAT csv)"
            with connection.cursor().copy(copied.encode()) as answer:
                while piece := b"".join(_lines(answer, rows)):
                    table = _of_csv(piece, len(names), kinds)
                    for place, load in loads.items():
                        j = table.column_names.index(place)
                        # Each cell by itself, to the text of what the driver makes of it.
                        values = [None if cell is None else load(cell.encode()) for cell in table[j].to_pylist()]
                        texts = [None if value is None else str(value) for value in values]
                        table = table.set_column(j, place, pa.array(texts, pa.string()))
                    yield table.rename_columns([names[int(place)] for place in kinds])
    except pa.ArrowInvalid as error:  # a day outside the years 1 to 9999, or text that is not UTF-8
        raise DataError(f"query: gave a value that cannot be read ({printable(_first_line(error), 200)})") from None
    except psycopg.Error as error:
        said = _first_line(error)
        if (
            isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None
        ):  # libpq on the address, which it quotes
            said = "the address cannot be read; write % as %25 in it, and @, / and : in a name as %40, %2F and %3A"
        raise DataError(f"PostgreSQL: {said}; correct the address or the query") from None


_KINDS = {
    "bool": pa.bool_(),
    **dict.fromkeys(("int2", "int4", "int8", "oid"), pa.int64()),
    **dict.fromkeys(("float4", "float8", "numeric"), pa.float64()),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
"""Types of PostgreSQL whose values keep their type; values of other types become text."""
_TEXTS = ("text", "varchar", "bpchar", "name")
"""Types whose values are text as they are sent; others become the text of what psycopg makes of them."""

_PIECE = 2**29
"""Bytes after which a piece ends. Arrow reads less than 2 GiB at once, and a row of PostgreSQL has less than 1 GiB."""


def _lines(answer: Any, rows: int | None) -> Iterator[bytes]:
    """Yield the next rows of an answer, of which libpq gives one at a time: `rows` of them (None: all), or _PIECE bytes."""
    size = 0
    for line in islice(iter(answer.read, b""), rows):
        yield bytes(line)
        if (size := size + len(line)) >= _PIECE:
            return


def _described(connection: Any, query: str) -> Any:
    """Describe the columns of a query, which is not carried out. COPY does not say what it gives."""
    from psycopg import errors, pq

    for result in (connection.pgconn.prepare(b"", query.encode()), connection.pgconn.describe_prepared(b"")):
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise errors.error_from_result(result)
    return result


def _of_csv(text: bytes, columns: int, kinds: dict[str, pa.DataType]) -> pa.Table:
    """Read rows that PostgreSQL wrote, where only a missing value is empty without quotes.

    kinds: types of the columns to keep, by their place. No name is read of the text, and no type inferred. The line of places
    stands first, since the reader drops a byte order mark at the beginning.
    """
    text = ",".join(map(str, range(columns))).encode() + b"\n" + text
    return pa.csv.read_csv(
        pa.BufferReader(text),
        pa.csv.ReadOptions(use_threads=False, block_size=len(text) + 1),
        pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pa.csv.ConvertOptions(
            column_types=kinds, include_columns=list(kinds), null_values=[""], strings_can_be_null=True,
            quoted_strings_can_be_null=False, true_values=["t"], false_values=["f"],
        ),
    )  # fmt: skip


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
