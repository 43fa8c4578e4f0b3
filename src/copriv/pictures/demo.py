"""The demo's picture: each bank alone, all together, and the budget that joining would have needed."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from copriv.forecast import Forecast
from copriv.formatting.numbers import percent, times
from copriv.pictures.simulation import NOTICE
from copriv.pictures.style import (
    ALARM,
    ALONE,
    DASHED,
    FLOOR,
    INK,
    TOGETHER,
    Label,
    beside,
    drawn,
    epsilon_axis,
    foot,
    head,
    panel,
    percent_axis,
    sheet,
)
from copriv.simulation import Simulation


@drawn
def alone_and_together(simulation: Simulation, outlook: Forecast, needed: Sequence[tuple[str, float | None]]) -> Figure:
    """Cost against a budget that all banks have.

    The curve is forecast from public loans; the dot and its bar are the simulated runs at the agreed budget, and the level
    lines what each bank has alone. needed: for each bank the budget from which the curve is below its line.
    """
    ψ, ε = simulation.relative_fitness.final, simulation.owners[0].epsilon
    members = outlook.consortium
    marks = [at for _, at in needed if at is not None and at < 1e3]
    budgets = np.geomspace(min([ε, *marks]) / 8, max([ε, *marks]) * 8, 300)
    curve = np.maximum(members.curve.at(np.sum(members.overlap**2) / (members.total * budgets) ** 2), FLOOR)
    figure = sheet(9.4, 5.1)
    axes = panel(figure, 1.1, 0.75, 5.2, 3.45)
    axes.plot(budgets, curve, color=TOGETHER, linewidth=2.2, zorder=3)
    labels = [Label(float(curve[-1]), "together, by the forecast", TOGETHER)]
    for owner, colour in zip(simulation.owners, ALONE, strict=False):
        level = max(owner.alone or FLOOR, FLOOR)
        axes.axhline(level, color=colour, linewidth=1.5, linestyle=DASHED, zorder=2)
        at = dict(needed)[owner.name]
        says = "pays at no budget" if at is None else f"pays from a budget of {times(at)}"
        labels.append(Label(level, f" alone: {percent(level)}\n{says}", colour, owner.name))
        if at is not None and budgets[0] < at < budgets[-1]:
            axes.plot([at], [level], marker="o", markersize=6, color="white", markeredgecolor=INK, zorder=7)
    axes.plot([ε, ε], [max(ψ["p25"], FLOOR), max(ψ["p75"], FLOOR)], color=INK, linewidth=2.0, zorder=5)
    axes.plot([ε], [max(ψ["median"], FLOOR)], marker="o", markersize=7, color=INK, zorder=6)
    reached = f"together at {ε:g}: {percent(ψ['median'])}\nmedian of {simulation.runs:,} runs"
    labels.append(Label(max(ψ["median"], FLOOR), reached, INK))
    epsilon_axis(axes, "budget (epsilon) of every bank")
    percent_axis(axes)
    axes.set_xlim(budgets[0], budgets[-1])
    levels = np.array([*curve, *(label.level for label in labels)])
    axes.set_ylim(levels.min() / 1.8, levels.max() * 1.8)
    axes.set_ylabel("above the best possible model", labelpad=7)
    beside(axes, labels)
    lead = "lower is better; a ring is where joining begins to pay, the dot is where the banks are"
    head(figure, "Alone, together, and what it would take", lead)
    foot(figure, (NOTICE, ALARM))
    return figure
