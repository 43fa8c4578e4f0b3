"""The protocol of a figure: the trials that it plans, the rows made of them, its picture, and the verdict on the paper's claim.

A figure plans cells (where in the picture, which trial) for an effort; `runner` does the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from matplotlib.figure import Figure as Picture

from copriv_papers.consortia import INSIDE
from copriv_papers.trials import Outcome, Trial
from copriv_papers.verdict import BEYOND_THEM, Verdict, verdict

Row: TypeAlias = dict[str, Any]
"""One line of ID.csv: the cell's coordinates and its results."""


@dataclass(frozen=True)
class Effort:
    """Size of a figure: the whole, or a smaller one with fewer points and runs (`quick`)."""

    quick: bool = False
    paths: Mapping[str, str] = field(default_factory=dict)
    """Data set → the papers' own file, where the user has it."""

    @property
    def runs(self) -> int:
        """Runs a point: the papers' 100."""
        return 25 if self.quick else 100

    @property
    def few_runs(self) -> int:
        """Runs a point of surfaces on card data and of the four scenarios: every run passes over all records."""
        return 5 if self.quick else 20

    @property
    def planned_on(self) -> int:
        """Public rows that a plan is made on, at most."""
        return 500 if self.quick else 2000

    @property
    def inside(self) -> "Effort":
        """The same with the loans inside the package, which everybody has, in place of a table at hand."""
        return replace(self, paths={**self.paths, "lending": INSIDE})

    def grid(self, points: int) -> int:
        """Points along an axis."""
        return min(points, 3) if self.quick else points


@dataclass(frozen=True)
class Cell:
    """One trial of a figure, and its coordinates there."""

    at: Mapping[str, Any]
    trial: Trial


@dataclass(frozen=True)
class Comparison:
    """One number (or statement) of the paper beside ours."""

    what: str
    paper: str
    """What the paper says; empty for a number of ours that it has no counterpart for."""
    ours: float
    """Infinite (null in JSON) where there is no such number."""
    holds: bool | None
    """None where there is nothing to compare with."""


@dataclass(frozen=True)
class Judgement:
    """What a figure says of its paper's claim."""

    verdict: Verdict
    why: str
    comparisons: tuple[Comparison, ...]
    why_not_all: str = ""
    """What to say in place of `why` where another table does not meet every number."""

    @classmethod
    def of(cls, comparisons: Sequence[Comparison], why: str, why_all: str = "") -> "Judgement":
        """By the scale of `verdict`. why_all: what to say in place of `why` where every number that is compared is met."""
        found = verdict(one.holds for one in comparisons)
        return cls(found, why_all if found == "reproduced" and why_all else why, tuple(comparisons), why)

    def on_all_tables(self, elsewhere: Sequence[bool | None]) -> "Judgement":
        """This judgement, with a verdict that also counts what holds on other tables, one value a comparison there."""
        if self.verdict == BEYOND_THEM:
            return self
        found = verdict([*(one.holds for one in self.comparisons), *elsewhere])
        return self if found == self.verdict else replace(self, verdict=found, why=self.why_not_all or self.why)


@runtime_checkable
class Figure(Protocol):
    """One figure of a paper: what to run, what to write, how to draw it, how to judge it."""

    @property
    def identity(self) -> str:
        """Such as "async-fig4"."""
        ...

    @property
    def source(self) -> str:
        """Paper and number: "A, Fig. 4"."""
        ...

    @property
    def title(self) -> str:
        """What is drawn, in a line."""
        ...

    @property
    def claim(self) -> str:
        """What the paper says it shows."""
        ...

    def plan(self, effort: Effort) -> list[Cell]:
        """The trials."""
        ...

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        """What is drawn."""
        ...

    def draw(self, rows: Sequence[Row]) -> Picture:
        """The picture, without its caption line."""
        ...

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """The paper's claim against the rows."""
        ...
