"""The picture of what unlike owners change: terms were owners alike, as unlike as they are taken to be, or twice that."""

from matplotlib.figure import Figure

from copriv.errors import UsageError
from copriv.forecast import Forecast
from copriv.formatting.numbers import percent
from copriv.pictures.forecast import lead, sources
from copriv.pictures.style import FAINT, FLOOR, INK, PSI, TOGETHER, drawn, head, panel, percent_axis, sheet

_WHEN = ("alike", "as unlike as\nthey are taken to be", "twice as unlike")


@drawn
def by_heterogeneity(outlook: Forecast) -> Figure:
    """Median ψ and where 90 % of runs are, at each heterogeneity. Raises UsageError where owners cannot differ."""
    if not outlook.at_heterogeneity:
        raise UsageError("plot: the owners of this forecast are alike, so that there is no picture of how they differ")
    figure = sheet(9.4, 5.2)
    axes = panel(figure, 1.15, 1.0, 7.9, 3.3)
    head(figure, "What it costs if owners differ", lead(outlook))
    for i, one in enumerate(outlook.at_heterogeneity):
        low, middle, high = (max(ψ, FLOOR) for ψ in (one.low, one.median, one.high))
        axes.plot([i, i], [low, high], color=TOGETHER, alpha=0.25, linewidth=22, solid_capstyle="butt")
        axes.plot([i - 0.1, i + 0.1], [middle, middle], color=TOGETHER, linewidth=2.4)
        said = f"{percent(one.median)}\n{percent(one.low)}\nto {percent(one.high)}"
        axes.annotate(said, (i, middle), (26, 0), textcoords="offset points", va="center", fontsize=9.2, color=INK)
    percent_axis(axes)
    marks = [
        f"{when}\n(u = {percent(one.heterogeneity)})" for when, one in zip(_WHEN, outlook.at_heterogeneity, strict=True)
    ]
    axes.set_xticks(range(len(marks)), marks)
    axes.set_xlim(-0.5, len(marks) - 0.35)
    axes.set_ylabel(PSI, labelpad=7)
    meaning = "u: how much worse for everybody a perfect model of one owner's own population is"
    axes.text(0.0, 1.028, meaning, transform=axes.transAxes, color=FAINT, fontsize=9.2)
    sources(figure, outlook)
    return figure
