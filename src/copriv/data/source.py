"""What a data set's own file hands to `load_consortium`: a table, its schema and how its rows are dealt out."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from copriv.data.schema import OnViolation, Schema
from copriv.data.tables import Table

SHARED = Path("..") / "shared" / "data"
"""Where larger public tables are looked for, from the current directory."""


@dataclass(frozen=True, eq=False)
class Source:
    """A table and the public rules for cutting it up; no rule looks at a value, except `group`."""

    table: Table
    schema: Schema
    title: str
    """Which table, as the start of a sentence."""
    kind: Literal["real", "simulated"] = "real"
    shuffled: bool = False
    """The file is sorted: its rows are first permuted by a fixed seed, which depends on their number only."""
    group: str | None = None
    """A column that says which organisation a row belongs to: owners are cut from rows sorted by it, so they differ."""
    least_group: int = 0
    """Private rows of groups with fewer rows than this are left out."""
    on_violation: OnViolation = "refuse"


def embedded(name: str) -> Path:
    """The path of a table that is shipped inside the package."""
    return Path(str(files("copriv.data") / "embedded" / name))
