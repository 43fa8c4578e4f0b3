"""Files of public rows that a user uploads: kept in a private folder while the server runs, with proposed columns.

The rows must be public, as the page says; of a private table it takes only the names of columns. Bounds or levels are
proposed for each column (`copriv.data.proposal`), for the user to correct.
"""

import re
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any

from copriv.data.proposal import proposals
from copriv.data.tables import read_table
from copriv.errors import DataError


class Rows:
    """The uploaded files, by their own names, under which the agreement refers to them."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="copriv-rows-"))  # readable by this account alone
        self._given: dict[str, Path] = {}
        """Path of the newest file of each name."""

    def take(self, name: str, content: bytes) -> dict[str, Any]:
        """Store a file; returns its rows and proposed columns. Raises DataError for a file that is no table."""
        ending = Path(name).suffix.lower()
        if ending not in (".csv", ".parquet"):
            raise DataError("data.path: give a .csv or .parquet file")
        called = re.sub(r"[^\w. ()-]", "_", Path(name).name)[-80:].lstrip(". ")
        path = self._folder / secrets.token_hex(8) / called
        path.parent.mkdir()
        path.write_bytes(content)
        try:
            table = read_table(path)
        except DataError as error:
            path.unlink()
            raise DataError(str(error).replace(str(path), "the file")) from None
        found = proposals(table)
        self._given[called] = path
        return {
            "path": called,
            "rows": len(table),
            "columns": [{**vars(one), "predictable": one.predictable} for one in found if one.kind is not None],
            "left_out": [{"name": one.name, "why": one.why_not} for one in found if one.kind is None],
        }

    def path(self, called: str) -> Path | None:
        """The path of the file of this name; None where there is none."""
        return self._given.get(called)

    def without_paths(self, value: Any) -> Any:
        """The same value, with the names of files in place of their paths in all its texts."""
        match value:
            case dict():
                return {key: self.without_paths(one) for key, one in value.items()}
            case list() | tuple():
                return [self.without_paths(one) for one in value]
            case str():
                return re.sub(re.escape(str(self._folder)) + r"[/\\]+[0-9a-f]{16}[/\\]+", "", value)
        return value

    def close(self) -> None:
        """Remove all files."""
        shutil.rmtree(self._folder, ignore_errors=True)
