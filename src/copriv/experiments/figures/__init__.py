"""The twenty figures, in the papers' order, and two beyond them: one file a family, one value a figure."""

from copriv.experiments.figures.grids import GRIDS
from copriv.experiments.figures.hospitals import HOSPITALS
from copriv.experiments.figures.promises import PROMISES
from copriv.experiments.figures.region import FRONTIER, REGIONS
from copriv.experiments.figures.scenarios import SCENARIOS
from copriv.experiments.figures.timing import TIMINGS
from copriv.experiments.figures.transients import TRANSIENTS
from copriv.experiments.runner import Figure


def _place(figure: Figure) -> tuple[str, int]:
    paper, number = figure.identity.split("-fig")
    return ("" if paper == "sync" else paper), int(number)


FIGURES: tuple[Figure, ...] = tuple(
    sorted((*TRANSIENTS, *GRIDS, *SCENARIOS, *TIMINGS, *REGIONS, *HOSPITALS), key=_place)
)
BEYOND: tuple[Figure, ...] = (FRONTIER, PROMISES)
"""Figures of questions that the papers leave open; "all" does not make them."""
