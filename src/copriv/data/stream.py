"""Records that are read from their table again for every pass, a block at a time: for tables larger than memory.

    chunks = lambda: table_chunks("loans.parquet", schema)      # or sql.stream_sql(address, query, columns)
    records = StreamedRecords(chunks, lambda table: prepare_owner(table, schema, ...), units=1_000_000, n_parameters=10)

Each block is prepared by the same schema, dictionary and bound as a table in memory, row by row, so an answer is the same to
the last bit. It costs a pass over the table for each answer, and one before the first.

Rows are counted in every pass, since the noise depends on their number: a table that has grown or shrunk gives no answer.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from copriv.data.schema import Schema
from copriv.data.tables import column_names, pieces
from copriv.errors import DataError
from copriv.model.records import BLOCK, Records


@dataclass(frozen=True, eq=False)
class StreamedRecords:
    """Records whose table is read block by block; an `InBlocks`. Each row is a unit of its own."""

    read: Callable[[], Iterable[pa.Table]]
    """Start a pass over the table, in pieces of any size."""
    prepare: Callable[[pa.Table], Records]
    units: int
    """n, as agreed."""
    n_parameters: int

    def blocks(self) -> Iterator[Records]:
        """Yield the records, BLOCK rows at a time. Raises DataError for invalid rows, or another number of rows."""
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
    """Return a function that reads the schema's columns of a .csv or .parquet file in pieces. Raises as `read_table`."""
    path = Path(path)
    chosen = [name for name in column_names(path) if name in schema.names]
    return lambda: pieces(path, chosen)


def _cut(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Cut tables into pieces of `rows` rows; the last piece is the rest."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        while count >= rows:
            # The type of a column differs where a piece has no values in it.
            whole = pa.concat_tables(held, promote_options="permissive")
            yield whole.slice(0, rows)
            held, count = [whole.slice(rows)], count - rows
    if count > 0:
        yield pa.concat_tables(held, promote_options="permissive")
