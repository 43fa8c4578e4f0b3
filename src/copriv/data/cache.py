"""Files and what tells them apart: their SHA-256, and the records of those that `copriv data fetch` has kept."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from copriv.errors import DataError


def sha256(path: Path) -> str:
    """Of a file's bytes, as hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def data_folder() -> Path:
    """COPRIV_DATA_FOLDER, or `copriv` in the user's cache folder."""
    given = os.environ.get("COPRIV_DATA_FOLDER")
    cache = os.environ.get("XDG_CACHE_HOME")
    return Path(given) if given else (Path(cache) if cache else Path.home() / ".cache") / "copriv"


def record_of(path: Path) -> Path:
    """Where the address, size and SHA-256 of a fetched file are written down."""
    return path.with_name(f"{path.name}.json")


def was_fetched(path: Path) -> bool:
    """Whether a file is one that was fetched, and is as it was then. Raises DataError where it has changed."""
    if path.absolute().parent != data_folder().absolute() or not record_of(path).is_file():
        return False
    check_record(path)
    return True


def check_record(path: Path) -> None:
    """Raises DataError where a file is not what its record says."""
    record: dict[str, Any] = json.loads(record_of(path).read_text(encoding="utf-8"))
    if path.stat().st_size != record["bytes"] or sha256(path) != record["sha256"]:
        raise DataError(
            f"{path}: has changed since it was fetched on {record['fetched']} (its SHA-256 is not the recorded one); "
            "fetch it again"
        )
