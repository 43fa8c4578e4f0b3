"""The twenty figures, in the papers' order, and five beyond them: one file a family, one value a figure."""

from copriv_papers.figure import Figure
from copriv_papers.figures.graphs import GRAPH
from copriv_papers.figures.grids import GRIDS
from copriv_papers.figures.hospitals import HOSPITALS
from copriv_papers.figures.liars import LIARS
from copriv_papers.figures.promises import PROMISES
from copriv_papers.figures.region import FRONTIER, REGIONS
from copriv_papers.figures.scenarios import SCENARIOS
from copriv_papers.figures.talking import TALKING
from copriv_papers.figures.timing import TIMINGS
from copriv_papers.figures.transients import TRANSIENTS


def _place(figure: Figure) -> tuple[str, int]:
    paper, number = figure.identity.split("-fig")
    return ("" if paper == "sync" else paper), int(number)


FIGURES: tuple[Figure, ...] = tuple(
    sorted((*TRANSIENTS, *GRIDS, *SCENARIOS, *TIMINGS, *REGIONS, *HOSPITALS), key=_place)
)
BEYOND: tuple[Figure, ...] = (FRONTIER, PROMISES, GRAPH, LIARS, TALKING)
"""Figures of questions that the papers leave open; "all" does not make them."""
