"""Public rows that a person gives as a file: kept in a private folder while the server runs, and what its columns are.

Only rows that are public belong here; the page says so, and takes no more than the names of columns of a private table. What
is told of a column are the bounds or levels that a schema would declare (`copriv.data.proposal`), for the person to correct.
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
    """The files that were given. Pages and agreements call one by its own name, as it lies beside the agreement later."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="copriv-rows-"))  # made for this user alone
        self._given: dict[str, Path] = {}
        """The newest file of each name."""

    def take(self, name: str, content: bytes) -> dict[str, Any]:
        """Keep a file, and say what is in it. Raises DataError for what is no table."""
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
        """Where the file that was given under this name is kept; None where none was."""
        return self._given.get(called)

    def called(self, said: Any) -> Any:
        """The same values, in whose texts files have their own names instead of the places where they are kept."""
        if isinstance(said, dict):
            return {key: self.called(value) for key, value in said.items()}
        if isinstance(said, list | tuple):
            return [self.called(value) for value in said]
        return (
            re.sub(re.escape(str(self._folder)) + r"[/\\]+[0-9a-f]{16}[/\\]+", "", said)
            if isinstance(said, str)
            else said
        )

    def close(self) -> None:
        """Remove them all."""
        shutil.rmtree(self._folder, ignore_errors=True)
