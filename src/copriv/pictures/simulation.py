"""The picture of a simulation: ψ after each answer, and what each owner has alone."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from copriv.formatting.numbers import percent
from copriv.pictures.style import (
    ALARM,
    ALONE,
    DASHED,
    FAINT,
    FLOOR,
    PSI,
    TOGETHER,
    Label,
    beside,
    drawn,
    foot,
    head,
    k_axis,
    panel,
    percent_axis,
    sheet,
)
from copriv.rules import named
from copriv.simulation import Simulation

NOTICE = "Simulated, from the records themselves: not private, not for release outside those who may see the records."
"""Under every picture of a simulation."""


@drawn
def psi_against_k(simulation: Simulation) -> Figure:
    """Median ψ and its 25-75 % band against k, and each owner's own model as a level line."""
    figure = sheet(9.0, 4.9)
    axes = panel(figure, 1.15, 0.75, 5.25, 3.3)
    _draw(axes, simulation)
    title = "What privacy costs the model"
    if simulation.bound_enforced:
        owners = f"{len(simulation.owners):,} owner{'s' if len(simulation.owners) > 1 else ''}"
        head(figure, title, f"rule {simulation.rule}, {owners}; lower is better, 0 is the best model")
    else:
        lead = "NOT PRIVATE: the gradient bound is assumed, nothing enforces it"
        head(figure, title, lead, colour=ALARM, weight="bold")
    foot(figure, (simulation.description, FAINT), (NOTICE, ALARM))
    return figure


def _draw(axes: Axes, simulation: Simulation) -> None:
    ψ = simulation.relative_fitness
    low, median, high = (np.maximum(ψ.quantile(q), FLOOR) for q in (0.25, 0.5, 0.75))
    axes.fill_between(ψ.k, low, high, color=TOGETHER, alpha=0.2, linewidth=0)
    marker = "o" if len(ψ.k) <= 30 else None
    axes.plot(ψ.k, median, color=TOGETHER, linewidth=2.2, zorder=3, marker=marker, markersize=4.2)
    who = "together, with privacy" if simulation.bound_enforced else "together, not private"
    runs = f"median of {simulation.runs:,} runs, half of them in the band" if simulation.runs > 1 else "1 run"
    labels = [Label(float(median[-1]), f"{who}: {percent(ψ.final['median'])}\n{runs}", TOGETHER)]
    labels += _alone(axes, simulation)

    k_axis(axes, ψ.k)
    percent_axis(axes)
    levels = [label.level for label in labels]
    axes.set_ylim(min([*low, *levels]) / 1.7, max([*high, *levels]) * 1.7)
    axes.set_xlabel(named(simulation.rule).axis, labelpad=7)
    axes.set_ylabel(PSI, labelpad=7)
    beside(axes, labels)


def _alone(axes: Axes, simulation: Simulation) -> list[Label]:
    """A line for each owner, or the range over many owners; their labels."""
    alone = [(owner.name, max(owner.alone, FLOOR)) for owner in simulation.owners if owner.alone is not None]
    if len(alone) > len(ALONE):
        levels = [level for _, level in alone]
        middle, low, high = float(np.median(levels)), min(levels), max(levels)
        axes.axhspan(low, high, color=ALONE[0], alpha=0.12, linewidth=0)
        axes.axhline(middle, color=ALONE[0], linewidth=1.5, linestyle=DASHED)
        said = f"alone: {percent(low)} to {percent(high)},\nmedian owner dashed"
        return [Label(middle, said, ALONE[0])]
    for (_, level), colour in zip(alone, ALONE, strict=False):
        axes.axhline(level, color=colour, linewidth=1.5, linestyle=DASHED)
    return [
        Label(level, f" alone: {percent(level)}", colour, name)
        for (name, level), colour in zip(alone, ALONE, strict=False)
    ]
