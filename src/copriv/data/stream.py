"""Records that are read anew, a block at a time, whenever they are passed over: for tables larger than an owner's memory.

    chunks = lambda: table_chunks("loans.parquet", schema)      # or sql.stream_sql(address, query, columns)
    records = StreamedRecords(chunks, lambda table: prepare_owner(table, schema, ...), units=1_000_000, n_parameters=10)

Each block goes through the very schema, dictionary and bound that a table in memory does, row by row, so an answer is the
same to the last bit. What it costs is reading: a pass over the table for each answer, and one before the first.

The number of rows is counted in every pass, since the noise depends on it: a table that has grown or shrunk gives no answer.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from copriv.data.schema import Number, Schema
from copriv.data.tables import MISSING, column_names
from copriv.errors import DataError
from copriv.model.records import BLOCK, Records

_PARSE = pa.csv.ParseOptions(newlines_in_values=True)


@dataclass(frozen=True, eq=False)
class StreamedRecords:
    """Records whose table is read block by block; an `InBlocks`. Each row is a unit of its own."""

    read: Callable[[], Iterable[pa.Table]]
    """A new pass over the table, in pieces of any size."""
    prepare: Callable[[pa.Table], Records]
    units: int
    """n, as agreed."""
    n_parameters: int

    def blocks(self) -> Iterator[Records]:
        """Raises DataError, naming the rows, for rows that do not keep to the schema, and for another number of them."""
        seen = 0
        for table in _cut(self.read(), BLOCK):
            rows = f"rows {seen + 1} to {seen + table.num_rows}"
            try:
                block = self.prepare(table)
            except DataError as error:
                raise DataError(f"{rows}, counted from {seen + 1}: {error}") from None
            if block.n_parameters != self.n_parameters:
                raise DataError(f"{rows}: give {block.n_parameters} parameters, {self.n_parameters} were agreed")
            if len(block) != table.num_rows:
                raise DataError(
                    f"{rows}: {len(block)} of them became records; the noise depends on how many do: keep all"
                )
            seen += table.num_rows
            yield block
        if seen != self.units:
            raise DataError(
                f"records: {self.units} were agreed, the table holds {seen}; the noise depends on the number: "
                "give the table that was agreed on, or correct the agreement"
            )


def table_chunks(path: str | Path, schema: Schema) -> Callable[[], Iterator[pa.Table]]:
    """Passes over a .csv or .parquet file, of which the schema's columns are read. Raises DataError as `read_table`."""
    path = Path(path)
    chosen = [name for name in column_names(path) if name in schema.names]
    if path.suffix.lower() == ".parquet":
        return lambda: _guarded(path, _parquet(path, chosen))
    types = {column.name: pa.float64() for column in (*schema.columns, schema.target) if isinstance(column, Number)}
    known: dict[str, pa.DataType] = {name: kind for name, kind in types.items() if name in chosen}
    text = _with_text(path, chosen, known)
    return lambda: _guarded(path, _csv(path, chosen, text))


def _parquet(path: Path, columns: list[str]) -> Iterator[pa.Table]:
    # Neither reader may read far ahead: a fast disk would bring in the whole file.
    with pa.parquet.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=BLOCK, columns=columns):
            yield pa.Table.from_batches([batch])


def _csv(path: Path, columns: list[str], types: dict[str, pa.DataType]) -> Iterator[pa.Table]:
    convert = pa.csv.ConvertOptions(
        include_columns=columns, column_types=types, null_values=sorted(MISSING), strings_can_be_null=False
    )
    pieces = pa.csv.ReadOptions(use_threads=False, block_size=1 << 16)
    with pa.csv.open_csv(path, read_options=pieces, parse_options=_PARSE, convert_options=convert) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _with_text(path: Path, columns: list[str], types: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The types by which the whole file can be read: a column that turns to text somewhere is text from the start."""
    names = column_names(path)
    while True:
        try:
            for _ in _csv(path, columns, types):
                pass
            return types
        except pa.ArrowInvalid as error:
            column = re.search(r"In CSV column #(\d+):.* CSV conversion error", str(error))
            if column is None or types.get(names[int(column[1])]) == pa.string():
                raise _unreadable(path, error) from None
            types = types | {names[int(column[1])]: pa.string()}


def _guarded(path: Path, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    try:
        yield from tables
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: cannot be read ({' '.join(str(error).split())[:200]}); export it again")


def _cut(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in pieces of `rows`, and a rest."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        while count >= rows:
            # Pieces of one pass may differ in type where a column is empty in one of them.
            whole = pa.concat_tables(held, promote_options="permissive")
            yield whole.slice(0, rows)
            held, count = [whole.slice(rows)], count - rows
    if count > 0:
        yield pa.concat_tables(held, promote_options="permissive")
