"""One sentence of a paper, what we found, and where the number comes from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from copriv_papers.figure import Row
from copriv_papers.trials import Outcome
from copriv_papers.verdict import Verdict, verdict


@dataclass(frozen=True)
class Found:
    """What claims are answered from."""

    figures: Mapping[str, Mapping[str, Any]]
    """Finished figures by their names, as their JSON files say."""
    rows: Mapping[str, Sequence[Row]]
    """What is drawn in them, with numbers as numbers; of "claims", how the claims' own trials end."""
    outcomes: Mapping[str, Outcome]
    """The claims' own trials by their names."""

    def of(self, identity: str, **at: Any) -> list[Row]:
        """A figure's rows at these coordinates."""
        return [row for row in self.rows[identity] if all(row.get(k) == v for k, v in at.items())]

    def compared(self, identity: str, *starts: str) -> tuple[list[Any], list[Any]]:
        """A figure's comparisons whose text begins so: on its own table, and on everybody's loans where it was run on them."""
        document = self.figures[identity]
        tables = [document["comparison"], *(one["comparison"] for one in document.get("other_tables", []))]
        here, *others = [[one for one in lines if one["what"].startswith(starts)] for lines in tables]
        if not here:
            raise LookupError(f"{identity}: nothing compared begins with {starts!r}")
        return here, [one for lines in others for one in lines]

    def psi(self, name: str) -> float:
        """E ψ at the end of one of the claims' own trials."""
        return float(self.outcomes[name].mean[-1])

    def alone(self, name: str) -> float:
        """ψ of its first owner's own model."""
        return float(self.outcomes[name].alone[0])


@dataclass(frozen=True)
class Answer:
    """Our numbers, and how many of them are as the sentence says."""

    numbers: tuple[float, ...]
    held: tuple[bool, ...]
    """One for each thing that was compared, on either table."""
    remark: str = ""
    elsewhere: tuple[float, ...] = ()
    """The numbers on everybody's loans, where the figure was also run on them."""

    @classmethod
    def of(cls, numbers: Sequence[float] | float, holds: Callable[[float], bool], remark: str = "") -> "Answer":
        """Each number held to the same."""
        every = (numbers,) if isinstance(numbers, int | float) else tuple(float(one) for one in numbers)
        return cls(every, tuple(bool(holds(one)) for one in every), remark)

    @property
    def verdict(self) -> Verdict:
        """By the one scale."""
        return verdict(self.held)


@dataclass(frozen=True)
class Claim:
    """A sentence, and how it is held against what was found."""

    place: str
    sentence: str
    """In the paper's words, shortened."""
    paper: str
    """What it says as a number."""
    answer: Callable[[Found], Answer]
    source: str = "claims"
    """The figure that the number is read from; "claims": from trials or formulas of this table's own."""
    needs: tuple[str, ...] = field(default=())
    """Other figures that it reads."""
    beyond: bool = False
    """Whether the question is ours: no sentence of the papers asks it."""

    @property
    def command(self) -> str:
        """What makes the number."""
        return f"copriv reproduce {self.source}"
