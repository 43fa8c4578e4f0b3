"""The picture of what unlike owners change: terms were owners alike, as unlike as they are taken to be, or twice that."""

import matplotlib as mpl
from matplotlib.figure import Figure

from copriv.cli.show import words
from copriv.cli.show.forecast_pictures import sources, title
from copriv.cli.show.pictures import FAINT, FLOOR, INK, PSI, STYLE, TOGETHER, percent_axis, png
from copriv.forecast import Forecast

_WHEN = ("alike", "as unlike as\nthey are taken to be", "twice as unlike")


def by_unlikeness(outlook: Forecast, made_by: str) -> bytes:
    """A PNG: median ψ and where 90 % of runs are, at each unlikeness. Needs a forecast for owners that may differ."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.4, 5.6), dpi=160, facecolor="white")
        axes = figure.add_axes((0.115, 0.235, 0.84, 0.58))
        title(figure, "What it costs if owners differ", outlook)
        for i, one in enumerate(outlook.at_unlikeness):
            low, middle, high = (max(ψ, FLOOR) for ψ in (one.low, one.median, one.high))
            axes.plot([i, i], [low, high], color=TOGETHER, alpha=0.25, linewidth=22, solid_capstyle="butt")
            axes.plot([i - 0.1, i + 0.1], [middle, middle], color=TOGETHER, linewidth=2.4)
            said = f"{words.percent(one.median)}\n{words.percent(one.low)} to {words.percent(one.high)}"
            axes.annotate(said, (i, middle), (26, 0), textcoords="offset points", va="center", fontsize=9.2, color=INK)
        percent_axis(axes)
        marks = [
            f"{when}\n(u = {words.percent(one.unlikeness)})"
            for when, one in zip(_WHEN, outlook.at_unlikeness, strict=True)
        ]
        axes.set_xticks(range(len(marks)), marks)
        axes.set_xlim(-0.5, len(marks) - 0.35)
        axes.set_ylabel(PSI, labelpad=7)
        meaning = "u: how much worse for everybody a perfect model of one owner's own population is"
        axes.text(0.0, 1.028, meaning, transform=axes.transAxes, color=FAINT, fontsize=9.2)
        sources(figure, outlook)
        return png(figure, made_by)
