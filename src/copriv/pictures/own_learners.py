"""The picture of owners that learn for themselves: each one alone, with the common model, and from shared answers."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from copriv.forecast.own_learners import OwnLearnersForecast
from copriv.formatting.numbers import axis_percent
from copriv.pictures.style import ALONE, FAINT, FLOOR, INK, TOGETHER, cut, drawn, panel, sheet

_MOST = 20
"""Owners drawn."""


@drawn
def owners_apart(outlook: OwnLearnersForecast) -> Figure:
    """A line for each owner (the first 20): how far from the best model of everybody's records it would be.

    Shapes differ as well as colours.
    """
    shown = outlook.learners[:_MOST]
    lines = 0.34 * len(shown)
    figure = sheet(9.0, 2.25 + lines)
    axes = panel(figure, 1.8, 0.8, 6.9, lines)
    y = np.arange(len(shown))[::-1]
    for what, marker, colour, label in (
        ("alone", "s", ALONE[0], "its own records alone"),
        ("together", "D", ALONE[3], "the one common model"),
        ("learning", "o", TOGETHER, "its own model, from shared answers"),
    ):
        ψ = [max(getattr(one, what), FLOOR) for one in shown]
        axes.plot(ψ, y, marker, color=colour, markersize=6.5, label=label, zorder=3)
    low, high = (np.maximum([getattr(one, f"learning_{end}") for one in shown], FLOOR) for end in ("low", "high"))
    axes.hlines(y, low, high, color=TOGETHER, linewidth=2.0, alpha=0.45, label="90 % of runs", zorder=2)
    public = max(outlook.public_only, FLOOR)
    axes.axvline(public, color=FAINT, linewidth=1.2, linestyle="--", label="the public rows alone", zorder=1)
    axes.set_xscale("log")
    ends = [*low, *high, public, *(ψ for one in shown for ψ in (one.alone, one.together) if ψ > FLOOR)]
    between = (1.0, 2.0, 5.0) if max(ends) < 100 * min(ends) else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(base=10.0, subs=between, numticks=7))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ψ, _: axis_percent(ψ)))
    axes.set_yticks(y, [cut(figure, one.name, 1.4, 10.5) for one in shown], color=INK)
    for name in axes.get_yticklabels():
        name.set_parse_math(False)
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel("worse than the best possible model of everybody's records", labelpad=7)
    title = "Every owner its own learner, from one shared answer each"
    height = float(figure.get_figheight())
    figure.text(0.03, 1 - 0.3 / height, title, fontsize=15, fontweight="bold", va="center")
    axes.legend(
        loc="lower left", bbox_to_anchor=(-1.55 / 6.9, 1 + 0.15 / lines), frameon=False, ncol=3, columnspacing=1.4,
        handletextpad=0.6, fontsize=9.5, borderaxespad=0.0,
    )  # fmt: skip
    return figure
