"""Data sets, the table and schema that each opens, and files that are identified by their SHA-256."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from copriv.data.schema import EncodedTable, Schema
from copriv.data.tables import Table
from copriv.errors import DataError


@dataclass(frozen=True, eq=False)
class Source:
    """A table, its schema, and the public rules by which its rows are dealt, which use a row's position and group only."""

    table: Table
    schema: Schema
    title: str
    """Name of the table, as the start of a sentence."""
    file: Path | None = None
    """The file that the table was read from; None: it was drawn from a seed."""
    kind: Literal["real", "simulated"] = "real"
    shuffled: bool = False
    """Whether rows are first permuted, by a fixed seed, because the file is sorted; the order depends on their number only."""
    group: Int[np.ndarray, " rows"] | None = None
    """Which organisation a row belongs to: owners are cut from rows sorted by it, so that owners differ."""
    least_group: int = 0
    """Private rows of groups with fewer rows than this are left out."""

    @cached_property
    def encoded(self) -> EncodedTable:
        """The table as numbers. Raises DataError, naming column and row."""
        return self.schema.encode(self.table)

    @cached_property
    def words(self) -> str:
        """Title and SHA-256 of the table."""
        return self.title if self.file is None else f"{self.title}, SHA-256 {sha256(self.file)[:16]}"


@runtime_checkable
class Wanted(Protocol):
    """The part of a `DataSpecification` that a data set needs to open its table."""

    @property
    def file(self) -> Path | None: ...
    @property
    def schema(self) -> Schema | None: ...
    @property
    def unit(self) -> str | None: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class DataSet:
    """Where a table comes from and what its columns are: one value, on the list in `copriv.data.datasets`."""

    name: str
    """As agreements write it in data.dataset."""
    open: Callable[[Wanted, int], Source]
    """Open the table for a specification. The number is the rows of a simulated table. Raises DataError where there is none."""
    published: tuple[tuple[str, int], ...] = ()
    """Published files of the data set, all rows of which are public: SHA-256 and size in bytes."""
    own_columns: bool = False
    """Whether the agreement declares the columns; otherwise the data set has a schema."""
    like: str = ""
    """Name of the data set that reads a party's own file of these columns, where this one reads no file."""

    @property
    def read_from(self) -> str:
        """Name of the data set that reads a party's own file of these columns."""
        return self.like or self.name


def embedded(name: str) -> Path:
    """The path of a table that is shipped inside the package."""
    return Path(str(files("copriv.data") / "embedded" / name))


def is_published(dataset: DataSet, path: Path) -> bool:
    """Whether a file is public: one that the data set publishes, or one that `copriv data fetch` downloaded.

    Files are opened only where their size is that of a published one. Raises DataError where a fetched file has changed.
    """
    try:
        there = path.is_file()
    except OSError:  # not a valid file name; reading it raises the error
        return False
    if there and any(path.stat().st_size == size for _, size in dataset.published):
        return any(sha256(path) == known for known, _ in dataset.published)
    if path.absolute().parent != data_folder().absolute() or not record_of(path).is_file():
        return False
    check_record(path)
    return True


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def data_folder() -> Path:
    """Folder of downloaded files: COPRIV_DATA_FOLDER, or `copriv` in the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("COPRIV_DATA_FOLDER") or cache / "copriv")


def record_of(path: Path) -> Path:
    """Path of the record of a fetched file: its address, size and SHA-256."""
    return path.with_name(f"{path.name}.json")


def check_record(path: Path) -> None:
    """Check a fetched file against its record. Raises DataError where it has changed."""
    record: dict[str, Any] = json.loads(record_of(path).read_text(encoding="utf-8"))
    if path.stat().st_size != record["bytes"] or sha256(path) != record["sha256"]:
        raise DataError(
            f"{path}: has changed since it was fetched on {record['fetched']} (its SHA-256 is not the recorded one); "
            "fetch it again"
        )
