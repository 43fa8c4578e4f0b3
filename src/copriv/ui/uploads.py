"""Public rows that a person gives as a file: kept in a private folder while the server runs, and what its columns are.

Only rows that are public belong here; the page says so. What is told of a column are the bounds or levels that a schema
would declare, taken from these rows, for the person to correct.
"""

import math
import re
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw

from copriv.data.cells import absent, days, distinct, numbers
from copriv.data.tables import read_table
from copriv.errors import DataError

MOST_LEVELS = 40
"""A column of text with more different values than this names things rather than kinds of things."""


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
        columns = [_column(table[column]) for column in table.columns]
        self._given[called] = path
        return {"path": called, "rows": len(table), "columns": [column for column in columns if column is not None]}

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


def _column(values: Any) -> dict[str, Any] | None:
    """Name and kind with bounds or levels; None for what no schema can declare."""
    if any(absent(cell) for cell in distinct(values)[0]):
        return None  # what a missing value counts as is for people to say, in the agreement
    found, wrong = numbers(values)
    if wrong is None:
        low, high = float(found.min()), float(found.max())
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            return None
        return {"name": values.name, "kind": "number", "low": low, "high": high}
    if values.dtype in (nw.String, nw.Categorical, nw.Boolean) and days(values)[1] is not None:
        levels = sorted(str(level) for level in values.cast(nw.String).unique().to_list())
        if 2 <= len(levels) <= MOST_LEVELS:
            return {"name": values.name, "kind": "category", "levels": levels}
    return None
