"""What a data set's own file hands to `load_consortium`: a table, its schema and how its rows are dealt out."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Int

from copriv.data.schema import Schema
from copriv.data.tables import Table

SHARED = Path("..") / "shared" / "data"
"""Where larger public tables are looked for, from the current directory."""


@dataclass(frozen=True, eq=False)
class Source:
    """A table and the public rules for cutting it up; they see where a row stands and whose it is, nothing else."""

    table: Table
    schema: Schema
    title: str
    """Which table, as the start of a sentence."""
    kind: Literal["real", "simulated"] = "real"
    shuffled: bool = False
    """The file is sorted: its rows are first permuted by a fixed seed, which depends on their number only."""
    group: Int[np.ndarray, " rows"] | None = None
    """Which organisation a row belongs to: owners are cut from rows sorted by it, so that owners differ."""
    least_group: int = 0
    """Private rows of groups with fewer rows than this are left out."""


def embedded(name: str) -> Path:
    """The path of a table that is shipped inside the package."""
    return Path(str(files("copriv.data") / "embedded" / name))
