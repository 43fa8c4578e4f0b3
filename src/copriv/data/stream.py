"""Records that are read from their table again for every pass, a block at a time: for tables larger than memory.

    chunks = lambda: table_chunks("loans.parquet", schema)      # or sql.stream_sql(address, query, columns)
    records = StreamedRecords(chunks, lambda table: prepare_owner(table, schema, ...), units=1_000_000, n_parameters=10)

Each block is prepared by the same schema, dictionary and bound as a table in memory, row by row, so an answer is the same to
the last bit. It costs a pass over the table for each answer, and one before the first. A table that fits into memory is read
in the same way, once, and only its records are kept (`in_memory`).

Rows are counted in every pass, since the noise depends on their number: a table that has grown or shrunk gives no answer.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from copriv.data.schema import Number, Schema
from copriv.data.tables import column_names, open_parquet, pieces, write_parquet
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
    made_up: Callable[[int], AbstractContextManager["StreamedRecords"]] | None = None
    """So many records of a made-up table that are read at the same pace; None where nothing is known of the source."""

    def blocks(self) -> Iterator[Records]:
        """Yield the records, BLOCK rows at a time. Raises DataError for invalid rows, or another number of rows."""
        return self._prepared(_cut(self.read(), BLOCK))

    def in_memory(self) -> Records:
        """Read all rows once and keep their records. Raises as `blocks`."""
        features, target = BytesIO(), BytesIO()
        for block in self._prepared(table for table in self.read() if table.num_rows):
            if target.tell() <= 8 * self.units:  # further rows are counted, and then refused
                features.write(block.features.data)
                target.write(block.target.data)
        # `getvalue` copies nothing, and memory of bytes is what records keep.
        x, y = (np.frombuffer(held.getvalue(), np.float64) for held in (features, target))
        return Records(x.reshape(len(y), self.n_parameters), y, np.ones(len(y)))

    def _prepared(self, tables: Iterable[pa.Table]) -> Iterator[Records]:
        seen = 0
        for table in tables:
            rows = f"rows {seen + 1} to {seen + table.num_rows}"
            try:
                block = self.prepare(table)
            except DataError as error:
                if not seen:
                    raise
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


def table_chunks(path: str | Path, schema: Schema, rows: int = BLOCK) -> Callable[[], Iterator[pa.Table]]:
    """Return a function that reads the schema's columns of a .csv or .parquet file, about `rows` rows at a time.

    Raises as `read_table`.
    """
    path = Path(path)
    chosen = [name for name in column_names(path) if name in schema.names]
    return lambda: pieces(path, chosen, rows)


@contextmanager
def made_up(records: StreamedRecords, path: Path, schema: Schema, rows: int) -> Iterator[StreamedRecords]:
    """So many records of a made-up file during the block: of the columns of the file at `path`, with no cell of it.

    Cells are drawn from declared bounds and levels; numbers have nine digits.
    """
    kinds, rng = dict[str, Any](), np.random.default_rng(0)
    if path.suffix.lower() == ".parquet":
        with open_parquet(path) as like:
            kinds = {one.name: one.type for one in like.schema_arrow}
    declared = {column.name: column for column in (*schema.columns, schema.target)}
    cells = {}
    for name in column_names(path):
        drawn = (declared.get(name) or Number(name, 0.0, 1.0)).made_up(rng, rows)
        whole = pa.array(np.rint(drawn)) if pa.types.is_integer(kinds.get(name, pa.null())) else pa.array(drawn)
        try:
            cells[name] = whole.cast(kinds.get(name, whole.type))
        except pa.ArrowException:
            cells[name] = whole  # of a kind that its column cannot be read as
    with TemporaryDirectory(prefix="copriv-") as folder:
        file = Path(folder, f"made-up{path.suffix}")
        write = write_parquet if kinds else pa.csv.write_csv
        write(pa.table(cells), file)
        yield replace(records, read=table_chunks(file, schema), units=rows)


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


def most_memory() -> int:
    """Return the most memory that this process has taken so far, in bytes; 256 MB where the system does not say."""
    status = Path("/proc/self/status")  # `resource` counts what the parent had taken when it started this process
    if not status.is_file():
        return 2**28
    return 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])
