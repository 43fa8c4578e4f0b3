"""The demo's picture: each bank alone, all together, and the budget that joining would have needed."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from copriv.cli.show import words
from copriv.cli.show.pictures import ALONE, FAINT, FLOOR, INK, NOTICE, STYLE, TOGETHER, percent_axis, png, spread_out
from copriv.forecast import Forecast
from copriv.simulation import Simulation

_DASHED: Any = (0, (5, 2))


def alone_and_together(
    simulation: Simulation, outlook: Forecast, needed: Sequence[tuple[str, float | None]], made_by: str
) -> bytes:
    """A PNG: cost against a budget that all banks have.

    The curve is forecast from public loans; the dot and its bar are the simulated runs at the agreed budget, and the level
    lines what each bank has alone. needed: for each bank the budget from which the curve is below its line.
    """
    ψ, ε = simulation.relative_fitness.final, simulation.owners[0].epsilon
    members = outlook.consortium
    marks = [at for _, at in needed if at is not None and at < 1e3]
    budgets = np.geomspace(min([ε, *marks]) / 8, max([ε, *marks]) * 8, 300)
    curve = np.maximum(members.curve.at(np.sum(members.overlap**2) / (members.total * budgets) ** 2), FLOOR)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.4, 5.6), dpi=160, facecolor="white")
        axes = figure.add_axes((0.115, 0.215, 0.555, 0.61))
        axes.plot(budgets, curve, color=TOGETHER, linewidth=2.2, zorder=3)
        labels = [(float(curve[-1]), "together, by the forecast", TOGETHER)]
        for owner, colour in zip(simulation.owners, ALONE, strict=False):
            level = max(owner.alone or FLOOR, FLOOR)
            axes.axhline(level, color=colour, linewidth=1.5, linestyle=_DASHED, zorder=2)
            at = dict(needed)[owner.name]
            says = "pays at no budget" if at is None else f"pays from a budget of {at:.2g}"
            labels.append((level, f"{owner.name} alone: {words.percent(level)}\n{says}", colour))
            if at is not None and budgets[0] < at < budgets[-1]:
                axes.plot([at], [level], marker="o", markersize=6, color="white", markeredgecolor=INK, zorder=7)
        axes.plot([ε, ε], [ψ["p25"], ψ["p75"]], color=INK, linewidth=2.0, zorder=5)
        axes.plot([ε], [ψ["median"]], marker="o", markersize=7, color=INK, zorder=6)
        reached = f"together at {ε:g}: {words.percent(ψ['median'])}\nmedian of {simulation.runs:,} runs"
        labels.append((ψ["median"], reached, INK))
        axes.set_xscale("log")
        percent_axis(axes)
        axes.set_xlim(budgets[0], budgets[-1])
        levels = np.array([*curve, *(level for level, _, _ in labels)])
        axes.set_ylim(levels.min() / 1.8, levels.max() * 1.8)
        axes.xaxis.set_major_locator(LogLocator(base=10.0, numticks=8))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("budget (epsilon) of every bank", labelpad=7)
        axes.set_ylabel("above the best possible model", labelpad=7)
        spread_out(axes, labels)
        figure.text(0.03, 0.945, "Alone, together, and what it would take", fontsize=15, fontweight="bold", va="center")
        lead = "lower is better; a ring is where joining begins to pay, the dot is where the banks are"
        figure.text(0.03, 0.893, lead, color=FAINT, va="center")
        figure.text(0.03, 0.075, NOTICE, color="#B00020", fontsize=8.2, va="center")
        return png(figure, made_by)
