"""Pictures of a simulation: ψ after each answer with the owners' own models, and the picture of the demonstration."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from copriv.forecast import Forecast
from copriv.formatting.numbers import counted, percent, times
from copriv.pictures import style
from copriv.pictures.style import ALARM, FLOOR, INK, TOGETHER, Label, drawn
from copriv.rules import named
from copriv.simulation import Simulation

NOTICE = "Simulated, from the records themselves: not private, not for release outside those who may see the records."
"""Under every picture of a simulation."""


@drawn
def psi_against_k(simulation: Simulation) -> Figure:
    """Plot median ψ and its 25-75 % band against k, and ψ of each owner's own model as a level line."""
    figure, ψ = style.sheet(9.0, 4.9), simulation.relative_fitness
    axes = style.panel(figure, 1.15, 0.75, 5.25, 3.3)
    low, median, high = (ψ.quantile(q) for q in (0.25, 0.5, 0.75))
    style.curve(axes, ψ.k, low, median, high, TOGETHER)
    who = "together, with privacy" if simulation.bound_enforced else "together, not private"
    runs = "1 run"
    if simulation.runs > 1:
        runs = f"median of {simulation.runs:,} runs, half of them in the band"
    labels = [Label(max(float(median[-1]), FLOOR), f"{who}: {percent(ψ.final['median'])}\n{runs}", TOGETHER)]
    labels += style.alone(
        axes, [(owner.name, owner.alone, 1) for owner in simulation.owners if owner.alone is not None]
    )
    style.percent_axis(axes, np.array([*low, *high, *(label.level for label in labels)]), 1.7)
    axes.set_xlabel(named(simulation.rule).axis, labelpad=7)
    style.beside(axes, labels)
    title = "What privacy costs the model, on everybody's records"
    if simulation.bound_enforced:
        owners = counted(len(simulation.owners), "owner")
        style.head(figure, title, f"rule {simulation.rule}, {owners}; lower is better, 0 is the best model")
    else:
        lead = "NOT PRIVATE: the gradient bound is assumed, nothing enforces it"
        style.head(figure, title, lead, colour=ALARM, weight="bold")
    style.foot(figure, (simulation.description, style.FAINT), (simulation.verdict, style.FAINT), (NOTICE, ALARM))
    return figure


@drawn
def alone_and_together(simulation: Simulation, outlook: Forecast, needed: Sequence[tuple[str, float | None]]) -> Figure:
    """Plot ψ against a budget that all banks have, for the demonstration.

    The curve is forecast from public loans. The dot and its bar are the simulated runs at the agreed budget, and the level
    lines the banks' own models. needed: (name, budget from which the curve is below the bank's line) of each bank.
    """
    ψ, ε, members = simulation.relative_fitness.final, simulation.owners[0].epsilon, outlook.consortium
    marks = [ε, *(at for _, at in needed if at is not None and at < 1e3)]
    budgets = np.geomspace(min(marks) / 8, max(marks) * 8, 300)
    curve = np.maximum(members.with_all_at(budgets), FLOOR)
    figure = style.sheet(9.4, 5.1)
    axes = style.panel(figure, 1.1, 0.75, 5.2, 3.45)
    axes.plot(budgets, curve, color=TOGETHER, linewidth=2.2, zorder=3)
    labels = [Label(float(curve[-1]), "together, by the forecast", TOGETHER)]
    for owner, colour in zip(simulation.owners, style.ALONE, strict=False):
        level, at = max(owner.alone or FLOOR, FLOOR), dict(needed)[owner.name]
        style.level(axes, level, colour)
        says = "together is better at no budget" if at is None else f"together is better from a budget of {times(at)}"
        labels.append(Label(level, f" alone: {percent(level)}\n{says}", colour, owner.name))
        if at is not None and budgets[0] < at < budgets[-1]:
            style.ring(axes, at, level)
    low, middle, high = (max(ψ[name], FLOOR) for name in ("p25", "median", "p75"))
    axes.plot([ε, ε], [low, high], color=INK, linewidth=2.0, zorder=5)
    axes.plot([ε], [middle], marker="o", markersize=7, color=INK, zorder=6)
    labels.append(Label(middle, f"together at {ε:g}: {percent(ψ['median'])}\nmedian of {simulation.runs:,} runs", INK))
    style.epsilon_axis(axes, "budget (epsilon) of every bank")
    axes.set_xlim(budgets[0], budgets[-1])
    style.percent_axis(
        axes, np.array([*curve, *(label.level for label in labels)]), 1.8, "above the best possible model"
    )
    style.beside(axes, labels)
    lead = "lower is better; a ring is where together begins to be better for everybody's loans; the dot is where the banks are"
    style.head(figure, "Alone, together, and what it would take", lead)
    style.foot(figure, (NOTICE, ALARM))
    return figure
