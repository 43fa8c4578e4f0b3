"""Download the public data sets, once each, and keep them with a checksum. Importing downloads nothing.

    path = fetch("creditcard")            # downloads, or finds what an earlier call downloaded
    found("creditcard")                   # the path, or None; never touches the network

Files are kept in `data_folder()`: COPRIV_DATA_FOLDER, or the user's cache folder. Beside each file is NAME.json with its
address, its size, its SHA-256 and that of the download; a file that does not match its record is refused. The publishers
give no checksums, so the first download is checked by its rows and columns, and later reads by the record.
"""

import json
import os
import shutil
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from copriv.data.source import check_record, record_of, sha256
from copriv.data.source import data_folder as data_folder
from copriv.data.tables import read_table
from copriv.errors import CoprivError, DataError, Unreachable
from copriv.formatting.sanitize import without_user

Progress = Callable[[int, int], None]
"""Called with (bytes so far, bytes in all; 0 where the server does not say)."""


@dataclass(frozen=True)
class Remote:
    """Address and expected contents of a public data set."""

    name: str
    title: str
    address: str | None
    """None: it needs an account, so the user gives a file."""
    file: str
    """File name under which it is kept."""
    convert: Callable[[Path, Path], object]
    """Convert the download (first path) to the file that is kept (second path)."""
    columns: tuple[str, ...]
    """Required columns."""
    rows: int
    """Required number of rows; 0: any number."""
    advice: str
    """How to get the file by other means."""


def found(name: str) -> Path | None:
    """Return the path of a data set that `fetch` has kept, or None. Does not read the file."""
    path = data_folder() / _known(name).file
    return path if path.is_file() and record_of(path).is_file() else None


def fetch(name: str, source: str | Path | None = None, progress: Progress | None = None, again: bool = False) -> Path:
    """Return the path of a data set. The first call downloads it; later calls check it against its record.

    source: a file that was downloaded by other means, or another address, in place of the publisher's.
    again: download anew.

    Raises Unreachable offline, naming the file to bring; DataError where the contents are not the data set's, or have
    changed since they were fetched.
    """
    remote = _known(name)
    kept = data_folder() / remote.file
    if source is None and not again and found(name) is not None:
        check_record(kept)
        return kept
    address = str(source or remote.address or "")
    if not address:
        raise DataError(f"{name}: cannot be downloaded without an account; {remote.advice}")
    if (shown := without_user(address)) != address:
        raise DataError(f"{shown}: copriv cannot log in; download the file by other means, and give its path")
    with tempfile.TemporaryDirectory(prefix="copriv-") as folder:
        raw, made = Path(address), Path(folder) / remote.file
        if address.startswith(("http://", "https://", "file://")):
            raw = Path(folder) / "downloaded"
            _download(remote, address, raw, progress)
        elif not raw.is_file():
            wrong = "is a folder" if raw.is_dir() else "there is no such file"
            raise DataError(f"{raw}: {wrong}; give the path of {remote.title}")
        try:
            remote.convert(raw, made)
        except (pa.ArrowException, zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:160]
            raise DataError(f"{address}: is not {remote.title} ({reason}); {remote.advice}") from None
        _check_contents(remote, made, address)
        _keep(made, raw, kept, address)
    return kept


def _known(name: str) -> Remote:
    if name not in REMOTES:
        raise DataError(f"data set: {name!r} is not known; use one of {', '.join(REMOTES)}")
    return REMOTES[name]


def _download(remote: Remote, address: str, to: Path, progress: Progress | None) -> None:
    request = urllib.request.Request(address, headers={"User-Agent": "copriv"})
    try:
        # The timeout is for a minute without a byte.
        with urllib.request.urlopen(request, timeout=60.0) as answer, to.open("wb") as file:
            total, so_far = int(answer.headers.get("Content-Length") or 0), 0
            while block := answer.read(1 << 20):
                so_far += file.write(block)
                if progress is not None:
                    progress(so_far, total)
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise Unreachable(f"{address}: cannot be reached ({reason}); {remote.advice}") from None
    if total and so_far != total:
        raise Unreachable(f"{address}: the download stopped after {so_far:,} of {total:,} bytes; try again")


def _check_contents(remote: Remote, path: Path, address: str) -> None:
    """Raise DataError unless the file has the required columns and rows."""
    table = read_table(path, remote.columns)
    problem = ""
    if lacking := [name for name in remote.columns if name not in table.columns]:
        problem = f"it lacks {', '.join(lacking)}"
    elif remote.rows not in (0, len(table)):
        problem = f"it has {len(table):,} rows, not {remote.rows:,}"
    if problem:
        raise DataError(f"{address}: is not {remote.title}: {problem}; {remote.advice}")


def _keep(made: Path, raw: Path, kept: Path, address: str) -> None:
    """Copy the file to the folder, whole or not at all, and write its record last."""
    record = {
        "address": address,
        "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
        "bytes": made.stat().st_size,
        "sha256": sha256(made),
        "sha256_downloaded": sha256(raw),
    }
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_name(f".{kept.name}.{os.getpid()}")
        shutil.copyfile(made, draft)
        draft.replace(kept)
        record_of(kept).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CoprivError(
            f"{kept.parent}: cannot write here ({error}); set COPRIV_DATA_FOLDER to another folder"
        ) from None


def _loan_table(raw: Path, made: Path) -> None:
    """Convert loan.csv. Its texts contain line breaks, which `read_table` refuses; all its rows are public."""
    table = pa.csv.read_csv(raw, parse_options=pa.csv.ParseOptions(newlines_in_values=True))
    pa.parquet.write_table(table, made)


def _card_table(raw: Path, made: Path) -> None:
    """Convert Parquet or ARFF, as OpenML has it, or CSV; ARFF is CSV after a header of its own."""
    with raw.open("rb") as file:
        if file.read(4) == b"PAR1":
            table = pa.parquet.read_table(raw)
        else:
            file.seek(0)
            names, header = [], 0
            for line in iter(file.readline, b""):
                header += 1
                words = line.decode("utf-8").split()
                if words and words[0].lower() == "@attribute":
                    names.append(words[1].strip("'\""))
                if words and words[0].lower() == "@data":
                    break
            read, parse = pa.csv.ReadOptions(), pa.csv.ParseOptions()
            if names:
                read = pa.csv.ReadOptions(column_names=names, skip_rows=header)
                parse = pa.csv.ParseOptions(quote_char="'")
            table = pa.csv.read_csv(raw, read, parse)
    column = table.column("Class")
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        text = pa.compute.utf8_trim(column.cast(pa.string()), "'\" ")
        table = table.set_column(table.schema.get_field_index("Class"), "Class", text.cast(pa.int64()))
    pa.parquet.write_table(table, made)


def _hospital_table(raw: Path, made: Path) -> None:
    """Convert the archive's ZIP file, or the CSV in it, in which a question mark is a missing value."""
    options = pa.csv.ConvertOptions(null_values=["?"], strings_can_be_null=True)
    if zipfile.is_zipfile(raw):
        with zipfile.ZipFile(raw) as archive:
            (inside,) = (n for n in archive.namelist() if n.endswith("diabetic_data.csv"))
            with archive.open(inside) as file:
                table = pa.csv.read_csv(file, convert_options=options)
    else:
        table = pa.csv.read_csv(raw, convert_options=options)
    pa.parquet.write_table(table, made)


REMOTES: dict[str, Remote] = {
    remote.name: remote
    for remote in (
        Remote(
            "creditcard",
            "the card transactions of September 2013",
            "https://data.openml.org/datasets/0000/1597/dataset_1597.pq",
            "creditcard.parquet",
            _card_table,
            (*(f"V{k}" for k in range(1, 29)), "Amount", "Class"),
            284_807,
            "bring creditcard.csv (Kaggle, mlg-ulb/creditcardfraud; OpenML, data set 1597) and fetch it from its path: "
            "copriv data fetch creditcard --from creditcard.csv",
        ),
        Remote(
            "hospital",
            "the stays of diabetics in 130 US hospitals",
            "https://archive.ics.uci.edu/static/public/296/diabetes+130-us+hospitals+for+years+1999-2008.zip",
            "diabetic_data.parquet",
            _hospital_table,
            ("patient_nbr", "time_in_hospital", "payer_code", "medical_specialty"),
            101_766,
            "bring diabetic_data.csv (UCI Machine Learning Repository, data set 296) and fetch it from its path: "
            "copriv data fetch hospital --from diabetic_data.csv",
        ),
        Remote(
            "sparcs",
            "New York's hospital discharges of 2015 (SPARCS)",
            "https://health.data.ny.gov/api/views/82xm-y6g8/rows.csv?accessType=DOWNLOAD",
            "sparcs_2015.csv",
            shutil.copyfile,
            ("Length of Stay", "Gender", "Age Group"),
            0,
            "bring the CSV file (health.data.ny.gov, data set 82xm-y6g8) and fetch it from its path: "
            "copriv data fetch sparcs --from FILE.csv",
        ),
        Remote(
            "lending",
            "Lending Club's loans of 2007 to 2015",
            None,
            "loan.parquet",
            _loan_table,
            ("int_rate", "loan_amnt", "grade"),
            0,
            "bring loan.csv (Kaggle, Lending Club Loan Data) and fetch it from its path: "
            "copriv data fetch lending --from loan.csv. Without it the 9,857 loans inside the package are used",
        ),
    )
}
"""By name, in the order in which `copriv data fetch` lists them."""
