"""Read tables (CSV and Parquet files; pandas, polars and pyarrow frames) as narwhals frames.

Contents are checked elsewhere, by the schema. Every cell of a CSV file is read as text, since a type inferred for a column
would make a cell depend on other rows. A row of a CSV file must be one line, since a quote that is not closed would take the
following rows into its cell.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.csv
from jaxtyping import Int

from copriv.errors import DataError
from copriv.formatting.numbers import counted
from copriv.formatting.sanitize import printable
from copriv.model.records import BLOCK

Table: TypeAlias = nw.DataFrame[Any]
"""A table in memory, whatever library made it."""


def read_table(source: object, columns: Sequence[str] | None = None) -> Table:
    """Read a `.csv` file, all of it as text, or a `.parquet` file, or wrap a pandas, polars or pyarrow frame.

    `columns`: read no others from a file (a name that the file does not have is left for the schema to report).
    Raises DataError for a file that is not there or cannot be read, and for anything that is not a table.

    >>> import pandas
    >>> from copriv.data import read_table
    >>> read_table(pandas.DataFrame({"age": [20, 50]})).columns
    ['age']
    """
    if not isinstance(source, str | Path):
        try:
            return nw.from_native(source, eager_only=True)
        except nw.exceptions.DuplicateError as error:
            raise DataError(f"table: {str(error).splitlines()[-1].strip('- ')}; name each column once") from None
        except TypeError:
            raise DataError(
                f"table: cannot read a {type(source).__name__}; give a path to a .csv or .parquet file, or "
                "a pandas, polars or pyarrow frame"
            ) from None
    with _readable(Path(source)) as path:
        chosen = [name for name in _names(path) if columns is None or name in set(columns)]
        if _is_csv(path):
            table = pa.concat_tables(_csv_pieces(path, chosen, pa.csv.ReadOptions()))
        else:
            with open_parquet(path) as file:
                table = file.read(columns=chosen)
    if table.num_rows == 0:
        raise DataError(f"{path}: has no rows; give a file with a header and at least one record")
    return nw.from_native(table, eager_only=True)


def rows_of(table: Table, rows: Int[np.ndarray, "_"]) -> Table:
    """Select rows of a table, in this order. Consecutive rows are sliced, since selecting by index would import pandas."""
    index: Any = rows.tolist()
    if len(rows) and (np.diff(rows) == 1).all():
        index = slice(index[0], index[-1] + 1)
    selected: Table = table[index]
    return selected


def column_names(source: object) -> list[str]:
    """Return the column names of a file or frame, without reading a file's rows. Raises DataError as `read_table` does."""
    if not isinstance(source, str | Path):
        return read_table(source).columns
    with _readable(Path(source)) as path:
        return _names(path)


def pieces(path: Path, columns: Sequence[str], rows: int = BLOCK) -> Iterator[pa.Table]:
    """Read a file about `rows` rows at a time.

    Nothing is read ahead, which on a fast disk would hold the whole file in memory.
    """
    with _readable(path):
        if _is_csv(path):
            size = rows * max(16, len(columns))  # bytes: no row may be longer
            yield from _csv_pieces(path, columns, pa.csv.ReadOptions(use_threads=False, block_size=size))
        else:
            with open_parquet(path, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
                    yield pa.Table.from_batches([batch])


def open_parquet(path: Path, **how: Any) -> Any:
    """`pyarrow.parquet.ParquetFile`, whose module loads pyarrow's cloud stores as well: 4 MB that a CSV file does without."""
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path, **how)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table as a Parquet file."""
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path)


def refuse_address(source: str) -> None:
    """Raise DataError for an address in place of a path; it may hold a password, so only its scheme is repeated."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]+(?=:/)", source)
    if scheme is not None:
        raise DataError(
            f"{printable(scheme[0], 40)}://: is no file's path (an owner reads duckdb:FILE and postgresql://… with a query); "
            "save the rows as a .csv or .parquet file, and give its path"
        )


@contextmanager
def _readable(path: Path) -> Iterator[Path]:
    """Check a path, and raise every fault in reading its file as a DataError of one line."""
    try:
        folder, file = path.is_dir(), path.is_file()
    except OSError as error:
        shown = printable(str(path), 200)
        raise DataError(f"{shown}: {error.strerror}; give the path of a .csv or .parquet file") from None
    if folder:
        raise DataError(f"{path}: is a folder; give the path of a .csv or .parquet file in it")
    if not file:
        refuse_address(str(path))
        raise DataError(
            f"{path}: there is no such file; give the path of a .csv or .parquet file, from the folder you are in"
        )
    suffix = path.suffix.lower()
    if suffix in (".tsv", ".txt"):
        raise DataError(f"{path}: cannot read a {suffix}; save it with commas, as .csv, or as Parquet")
    if suffix not in (".csv", ".parquet"):
        raise DataError(f"{path}: cannot read a {suffix or 'file without an ending'}; give a .csv or .parquet file")
    try:
        if suffix == ".csv":
            _is_text(path)
        yield path
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: is not UTF-8 text (byte {error.object[error.start]:#x}); save it again as CSV UTF-8, or as Parquet"
        ) from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.strerror is not None:
            raise DataError(f"{path}: cannot be read ({error.strerror}); ask for the right to read it") from None
        raise DataError(f"{path}: {_why(path, str(error), suffix[1:])}; export it again") from None


def _is_text(path: Path) -> None:
    """Raise DataError where the first bytes of a file show that it is not text."""
    with path.open("rb") as file:
        begin = file.read(4096)
    kinds = {
        b"\xff\xfe": "is UTF-16 text",
        b"\xfe\xff": "is UTF-16 text",
        b"\x1f\x8b": "is compressed",
        b"PK\x03\x04": "is a zip archive or a spreadsheet",
        b"PAR1": "is a Parquet file, which .parquet says",
        b"\x89PNG": "is a picture",
        b"%PDF": "is a PDF",
    }
    what = next((what for mark, what in kinds.items() if begin.startswith(mark)), None)
    if what is None and begin.count(0) > len(begin) // 8:
        what = "holds zeros between its letters: it is UTF-16 text, or none"
    if what is not None:
        raise DataError(f"{path}: {what}; save it as CSV UTF-8, or as Parquet")


def _why(path: Path, said: str, kind: str) -> str:
    """Explain an error of pyarrow's: the usual causes in plain words, others as pyarrow says them."""
    if re.search(r"Expected \d+ columns, got \d+|invalid UTF8|straddling", said) and (found := _odd_row(path)):
        return found
    if "Empty CSV" in said:
        return "is empty, or a header alone"
    if "magic bytes" in said or "file size is 0" in said:
        return f"is no {kind} file, or a part of one"
    return f"not a readable {kind} file ({printable(' '.join(said.split()), 200)})"


def _odd_row(path: Path) -> str:
    """Describe the first row of a CSV file that is not one line, not UTF-8, or has another number of cells than the header."""
    line = 0
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file)
        rows = ((line, row) for line, row in enumerate(reader, 1) if row)
        try:
            _, header = next(rows, (0, []))
            for number, (line, row) in enumerate(rows, 1):
                if reader.line_num > line:
                    return _not_one_line(line)
                if len(row) != len(header):
                    return f"line {line} has {counted(len(row), 'cell')}, and the header {len(header)}"
                for name, cell in zip(header, row, strict=True):
                    if broken := re.search("[\udc80-\udcff]", cell):
                        return f"{name}, row {number}: is not UTF-8 text (byte {ord(broken[0]) - 0xDC00:#x})"
        except csv.Error:  # a cell longer than csv's limit, which an open quote made
            return _not_one_line(line + 1)
    return ""


def _not_one_line(line: int) -> str:
    return f"line {line}: a cell holds a line break, or a quote that is not closed; write it without, or give Parquet"


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


_OPEN = re.compile(r'(?:(?:"(?:[^"]|"")*+"[^,]*+|[^",][^,]*+)?,)*+"(?:[^"]|"")*+')
"""A line whose last cell begins with a quote that is not closed."""
# Without this option, arrow splits blocks inside a cell that contains a line break, with undefined results.
_PARSE = pa.csv.ParseOptions(newlines_in_values=True)


def _csv_pieces(path: Path, columns: Sequence[str], options: pa.csv.ReadOptions) -> Iterator[pa.Table]:
    """Read the rows of a CSV file. Raises DataError after the last one if one of them was not one line."""
    text = dict.fromkeys(columns, pa.string())
    convert = pa.csv.ConvertOptions(include_columns=list(columns), column_types=text, strings_can_be_null=False)
    rows = 0
    with pa.csv.open_csv(path, options, _PARSE, convert) as reader:
        yield pa.Table.from_batches([], reader.schema)  # `empty_table` would import pandas
        for batch in reader:
            rows += batch.num_rows
            yield pa.Table.from_batches([batch])
    lines, last = _lines(path)
    if lines != rows + 1:
        raise DataError(f"{path}: {_odd_row(path) or f'has {lines - 1} lines and {rows} rows'}; export it again")
    if _OPEN.fullmatch(last):  # in the last line an open quote takes in no other row
        with path.open(encoding="latin-1") as file:
            number = max(number for number, line in enumerate(file, 1) if line != "\n")
        raise DataError(f"{path}: {_not_one_line(number)}; export it again")


def _lines(path: Path, piece_size: int = 2**20) -> tuple[int, str]:
    """Count the lines of a file that are not empty, and return the last of them."""
    lines, last, ended = 0, b"", True
    with path.open("rb") as file:
        while piece := file.read(piece_size):
            if b"\r" in piece or b"\n\n" in piece:
                piece = re.sub(rb"[\r\n]+", b"\n", piece)
            begins = ended and not piece.startswith(b"\n")
            cut = piece.rfind(b"\n", 0, -1)
            if text := piece[cut + 1 :].rstrip(b"\n"):
                last = text if cut >= 0 or ended else last + text
            ended = piece.endswith(b"\n")
            lines += begins + piece.count(b"\n") - ended
    return lines, last.decode("latin-1")


def _names(path: Path) -> list[str]:
    """Read the column names of a file. Raises DataError for a name that occurs twice, and a separator other than a comma."""
    if _is_csv(path):
        try:
            with pa.csv.open_csv(path, parse_options=_PARSE) as reader:
                names = list(reader.schema.names)
        except pa.ArrowInvalid:
            # Arrow refuses a row with commas in its numbers before it returns the header.
            with path.open(encoding="utf-8-sig") as file:
                _check_separator(path, [file.readline(100_000)])
            raise
        _check_separator(path, names)
    else:
        with open_parquet(path) as file:
            names = list(file.schema_arrow.names)
    check_names(path, names)
    return names


def check_names(source: object, names: Sequence[str]) -> None:
    """Raise DataError for a column name that occurs twice."""
    for name, times in Counter(names).items():
        if times > 1:
            raise DataError(f"{source}: the column {name!r} stands twice; name each column once")


def _check_separator(path: Path, names: list[str]) -> None:
    """Raise DataError where the header is a single name that contains another separator than commas."""
    for mark, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(names) == 1 and mark in names[0] and "," not in names[0]:
            raise DataError(f"{path}: its columns are parted by {word}; save it with commas, or as Parquet")
