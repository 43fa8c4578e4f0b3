"""Tables: CSV and Parquet files, pandas, polars and pyarrow frames, all read as one narwhals frame.

Nothing is decided about the contents here: which columns, which types and which bounds is the schema's business.
In a CSV file an empty cell is missing; `NA`, `n/a`, `NaN` and `null` are missing in columns of numbers, and plain text
in columns of text (so that a schema may declare them as categories).
"""

import csv
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from copriv.errors import DataError
from copriv.formatting.sanitize import printable

Table: TypeAlias = nw.DataFrame[Any]
"""A table in memory, whatever library made it."""

MISSING = frozenset(("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null"))
"""What stands for a missing number in a text file."""


def read_table(source: object, columns: Sequence[str] | None = None) -> Table:
    """Read a `.csv` or `.parquet` file, or wrap a pandas, polars or pyarrow frame.

    `columns`: read no others from a file (a name that the file does not have is left for the schema to report).
    Raises DataError for a file that is not there or cannot be read, and for anything that is not a table.

    >>> import pandas
    >>> from copriv.data import read_table
    >>> read_table(pandas.DataFrame({"age": [20, 50]})).columns
    ['age']
    """
    if isinstance(source, str | Path):
        return nw.from_native(_read_file(Path(source), columns), eager_only=True)
    try:
        return nw.from_native(source, eager_only=True)
    except TypeError:
        raise DataError(
            f"table: cannot read a {type(source).__name__}; give a path to a .csv or .parquet file, or "
            "a pandas, polars or pyarrow frame"
        ) from None


def column_names(source: object) -> list[str]:
    """The columns of a file or frame, without reading the file's rows. Raises DataError as `read_table` does."""
    if not isinstance(source, str | Path):
        return read_table(source).columns
    names: list[str] = _guarded(Path(source), lambda path: _csv_names(path) if _is_csv(path) else _parquet_names(path))
    return names


def _read_file(path: Path, columns: Sequence[str] | None) -> pa.Table:
    table = _guarded(path, lambda path: _read_csv(path, columns) if _is_csv(path) else _read_parquet(path, columns))
    if table.num_rows == 0:
        raise DataError(f"{path}: has no rows; give a file with a header and at least one record")
    return table


def _guarded(path: Path, read: Callable[[Path], Any]) -> Any:
    """Read, with every reason not to as one line."""
    try:
        folder, file = path.is_dir(), path.is_file()
    except OSError as error:
        raise DataError(f"{_shown(path)}: {error.strerror}; give the path of a .csv or .parquet file") from None
    if folder:
        raise DataError(f"{path}: is a folder; give the path of a .csv or .parquet file in it")
    if not file:
        raise DataError(f"{path}: there is no such file; give the path of a .csv or .parquet file")
    suffix = path.suffix.lower()
    if suffix in (".tsv", ".txt"):
        raise DataError(f"{path}: cannot read a {suffix}; save it with commas, as .csv, or as Parquet")
    if suffix not in (".csv", ".parquet"):
        raise DataError(f"{path}: cannot read a {suffix or 'file without an ending'}; give a .csv or .parquet file")
    try:
        if suffix == ".csv":
            _is_text(path)
        return read(path)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: is not UTF-8 text (byte {error.object[error.start]:#x}); save it again as CSV UTF-8, or as Parquet"
        ) from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.strerror is not None:
            raise DataError(f"{path}: cannot be read ({error.strerror}); ask for the right to read it") from None
        raise DataError(f"{path}: {_why(path, str(error), suffix[1:])}; export it again") from None


_NO_TEXT = {
    b"\xff\xfe": "is UTF-16 text",
    b"\xfe\xff": "is UTF-16 text",
    b"\x1f\x8b": "is compressed",
    b"PK\x03\x04": "is a zip archive or a spreadsheet",
    b"PAR1": "is a Parquet file, which .parquet says",
    b"\x89PNG": "is a picture",
    b"%PDF": "is a PDF",
}
"""How files begin that people take for CSV."""


def _is_text(path: Path) -> None:
    """Raises DataError, in words, where a file's beginning shows that it is something else."""
    with path.open("rb") as file:
        begin = file.read(4096)
    what = next((what for mark, what in _NO_TEXT.items() if begin.startswith(mark)), None)
    if what is None and begin.count(0) > len(begin) // 8:
        what = "holds zeros between its letters: it is UTF-16 text, or none"
    if what is not None:
        raise DataError(f"{path}: {what}; save it as CSV UTF-8, or as Parquet")


def _why(path: Path, said: str, kind: str) -> str:
    """Why pyarrow could not read a file, in words where it is a common reason."""
    if re.search(r"Expected \d+ columns, got \d+", said):
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file, suppress(csv.Error):
            reader = csv.reader(file)
            header = next((row for row in reader if row), [])
            for row in reader:
                if row and len(row) != len(header):
                    cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                    return f"line {reader.line_num} has {cells}, and the header {len(header)}"
    if "Empty CSV" in said:
        return "is empty, or a header alone"
    if "magic bytes" in said or "file size is 0" in said:
        return f"is no {kind} file, or a part of one"
    return f"not a readable {kind} file ({printable(' '.join(said.split()), 200)})"


def _shown(path: Path) -> str:
    text = str(path)
    return text if len(text) <= 200 else f"{text[:80]}…{text[-80:]}"


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


# Free-text columns of the published files hold line breaks inside quotes.
_PARSE = pa.csv.ParseOptions(newlines_in_values=True)


def _read_csv(path: Path, columns: Sequence[str] | None) -> pa.Table:
    names = _csv_names(path)
    chosen = names if columns is None else [name for name in names if name in set(columns)]
    text: dict[str, pa.DataType] = {}
    while True:
        convert = pa.csv.ConvertOptions(
            include_columns=chosen, column_types=text, null_values=sorted(MISSING), strings_can_be_null=False
        )
        try:
            return _all_text(path, pa.csv.read_csv(path, parse_options=_PARSE, convert_options=convert))
        except pa.ArrowInvalid as error:
            # Types are inferred from the first rows. A column that turns to text later is read again as text, so
            # that the schema can name the row that is not a number.
            column = re.search(r"In CSV column #(\d+): CSV conversion error", str(error))
            if column is None or names[int(column[1])] in text:
                raise
            text[names[int(column[1])]] = pa.string()


def _all_text(path: Path, table: pa.Table) -> pa.Table:
    """The table, unless some of its text is none. Raises DataError that names the column and the row."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_binary(column.type):
            continue
        for row, cell in enumerate(column):
            try:
                cell.as_py().decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}: {name}, row {row + 1}: is not UTF-8 text (byte {error.object[error.start]:#x}); save it "
                    "again as CSV UTF-8, or as Parquet"
                ) from None
    return table


def _csv_names(path: Path) -> list[str]:
    try:
        with pa.csv.open_csv(path, parse_options=_PARSE) as reader:
            names = list(reader.schema.names)
    except pa.ArrowInvalid:
        # A row with commas in its numbers is refused before the header is looked at.
        with path.open(encoding="utf-8-sig") as file:
            _parted_by_commas(path, [file.readline(100_000)])
        raise
    _parted_by_commas(path, names)
    return _once(path, names)


def _parted_by_commas(path: Path, names: list[str]) -> None:
    """Raises DataError where a header is one name that something else than commas parts."""
    for mark, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(names) == 1 and mark in names[0] and "," not in names[0]:
            raise DataError(f"{path}: its columns are parted by {word}; save it with commas, or as Parquet")


def _once(path: Path, names: list[str]) -> list[str]:
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise DataError(f"{path}: the column {sorted(twice)[0]!r} stands twice; name each column once")
    return names


def _read_parquet(path: Path, columns: Sequence[str] | None) -> pa.Table:
    with pa.parquet.ParquetFile(path) as file:
        names = _once(path, list(file.schema_arrow.names))
        return file.read(columns=None if columns is None else [name for name in names if name in set(columns)])


def _parquet_names(path: Path) -> list[str]:
    with pa.parquet.ParquetFile(path) as file:
        return _once(path, list(file.schema_arrow.names))
