"""Pictures of a simulation, drawn without a screen, and the look that all pictures share."""

import io
import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from copriv.cli.show import words
from copriv.rules import named
from copriv.simulation import Simulation

# Okabe and Ito's colours, which most readers can tell apart; blue is kept for the model trained together.
TOGETHER = "#0072B2"
ALONE = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INK, FAINT, ALARM = "#222222", "#6b6b6b", "#B00020"
FLOOR = 1e-9
"""ψ below this is rounding: nothing is drawn under it."""

NOTICE = "Simulated, from the records themselves: not private, not for release outside those who may see the records."
"""Under every picture of a simulation."""
PSI = "ψ, relative fitness: above the best"
"""The vertical axis, everywhere."""

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9a9a9a",
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "text.color": INK,
}


def psi_against_k(simulation: Simulation, made_by: str) -> bytes:
    """A PNG: median ψ and its 25-75 % band against k, and each owner's own model as a level line.

    made_by: the command that draws it again; it stands under the picture beside the source of the data.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 5.4), dpi=160, facecolor="white")
        axes = figure.add_axes((0.125, 0.225, 0.585, 0.615))
        _draw(axes, simulation)
        figure.text(0.03, 0.945, "What privacy costs the model", fontsize=15, fontweight="bold", va="center")
        if simulation.bound_enforced:
            lead = f"rule {simulation.rule}, {len(simulation.owners)} owners; lower is better, 0 is the best model"
            figure.text(0.03, 0.893, lead, color=FAINT, va="center")
        else:
            figure.text(0.03, 0.893, "NOT PRIVATE: the gradient bound is assumed, nothing enforces it", color=ALARM,
                        fontweight="bold", va="center")  # fmt: skip
        figure.legend(
            loc="upper left", bbox_to_anchor=(0.725, 0.855), frameon=False, handlelength=1.9, labelspacing=0.95
        )
        source = textwrap.fill(simulation.description, 140)
        figure.text(0.03, 0.105, source, color=FAINT, fontsize=8.2, va="center", linespacing=1.35)
        figure.text(0.03, 0.066, NOTICE, color=ALARM, fontsize=8.2, va="center")
        return png(figure, made_by)


def png(figure: Figure, made_by: str) -> bytes:
    """The figure, with the command that makes it again under it and inside it."""
    figure.text(0.03, 0.032, f"$ {made_by}", color=FAINT, fontsize=8.2, va="center", family="DejaVu Sans Mono")
    data = io.BytesIO()
    # Without the library's version in it, the same numbers give the same bytes.
    FigureCanvasAgg(figure)
    figure.savefig(data, format="png", metadata={"Software": None, "Description": made_by})
    return data.getvalue()


def _draw(axes: Axes, simulation: Simulation) -> None:
    ψ = simulation.relative_fitness
    low, median, high = (np.maximum(ψ.quantile(q), FLOOR) for q in (0.25, 0.5, 0.75))
    axes.fill_between(ψ.k, low, high, color=TOGETHER, alpha=0.2, linewidth=0, label="25-75 % of runs")
    who = "together, with privacy" if simulation.bound_enforced else "together, not private"
    label = f"{who}: {words.percent(ψ.final['median'])}\nmedian of {simulation.runs:,} runs"
    marker = "o" if len(ψ.k) <= 30 else None
    axes.plot(ψ.k, median, color=TOGETHER, linewidth=2.2, label=label, zorder=3, marker=marker, markersize=4.2)
    levels = _alone(axes, simulation)

    k_axis(axes, ψ.k)
    percent_axis(axes)
    lowest, highest = min([*low, *levels]), max([*high, *levels])
    axes.set_ylim(lowest / 1.7, highest * 1.7)
    axes.set_xlabel(named(simulation.rule).axis, labelpad=7)
    axes.set_ylabel(PSI, labelpad=7)


def k_axis(axes: Axes, k: Any) -> None:
    """Iterations on a log axis, few ticks."""
    # k = 0 is the start of an asynchronous run: it needs a place on a log axis.
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.35) if k[0] == 0 else axes.set_xscale("log")
    ticks = [t for t in (0, 1, 2, 5, *(d * 10**e for e in range(1, 9) for d in (1, 2, 5))) if k[0] <= t <= k[-1]]
    sparse = [t for t in ticks if str(t)[0] in "01"] if len(ticks) > 9 else ticks
    axes.xaxis.set_major_locator(FixedLocator(sparse))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t:,.0f}"))
    axes.set_xlim(k[0], k[-1] * 1.04 if k[-1] > 0 else 1.0)


def percent_axis(axes: Axes) -> None:
    """ψ on a log axis, in percent, with a quiet grid."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(base=10.0, numticks=9))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words.axis_percent(value)))
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3)


def _alone(axes: Axes, simulation: Simulation) -> list[float]:
    """A line for each owner, or the range over many owners; the levels that were drawn."""
    alone = [(owner.name, max(owner.alone, FLOOR)) for owner in simulation.owners if owner.alone is not None]
    if len(alone) > len(ALONE):
        levels = [level for _, level in alone]
        middle = float(np.median(levels))
        axes.axhspan(min(levels), max(levels), color=ALONE[0], alpha=0.12, linewidth=0, label="alone: all owners")
        axes.axhline(middle, color=ALONE[0], linewidth=1.5, linestyle=(0, (5, 2)), label="alone: median owner")
        return levels
    for (name, level), colour in zip(alone, ALONE, strict=False):
        label = f"{name} alone: {words.percent(level)}"
        axes.axhline(level, color=colour, linewidth=1.5, linestyle=(0, (5, 2)), label=label)
    return [level for _, level in alone]


def spread_out(axes: Axes, labels: Sequence[tuple[float, str, str]]) -> None:
    """Labels (height, text, colour) to the right of the axes, at the height of what they name, moved apart where they touch.

    What would leave at the top is pushed back down.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    low, high = np.log(axes.get_ylim())
    labels = sorted(labels)
    # Heights are of the axes; a line of words is this part of them.
    line = 13.5 / (axes.get_position().height * figure.get_figheight() * 72)
    rooms = [line * (1 + text.count("\n")) + 0.35 * line for _, text, _ in labels]
    place = [float((np.log(max(level, FLOOR)) - low) / (high - low)) for level, _, _ in labels]
    for i in range(1, len(place)):
        place[i] = max(place[i], place[i - 1] + 0.5 * (rooms[i - 1] + rooms[i]))
    ceiling = 1.06
    for i in reversed(range(len(place))):
        place[i] = min(place[i], ceiling - 0.5 * rooms[i])
        ceiling = place[i] - 0.5 * rooms[i]
    for height, (_, text, colour) in zip(place, labels, strict=True):
        axes.text(
            1.015, height, text, transform=axes.transAxes, color=colour, fontsize=9.6, va="center", linespacing=1.2
        )
