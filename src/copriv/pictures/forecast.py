"""Pictures of a forecast: the cost of terms, the ε from which joining pays, what each owner gains, and heterogeneity."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from matplotlib.transforms import Bbox

from copriv.display.forecast import ended, public_model
from copriv.display.verdict import for_nothing
from copriv.errors import UsageError
from copriv.forecast import Forecast
from copriv.forecast.own_learners import OwnLearnersForecast
from copriv.formatting.numbers import axis_percent, counted, listed, percent
from copriv.formatting.sanitize import printable
from copriv.pictures import style
from copriv.pictures.style import FLOOR, Label, drawn
from copriv.rules import named


@drawn
def curves(outlook: Forecast) -> Figure:
    """Plot expected ψ against k with the band of 90 % of runs, for the agreed and the recommended terms."""
    figure = style.sheet(10.2, 5.1)
    if outlook.comparison.same:
        terms = [(outlook.recommended, style.TOGETHER, "agreed and recommended")]
        left = style.panel(figure, 1.07, 0.75, 6.98, 2.75)
        panels = [left]
    else:
        terms = [(outlook.agreed, style.ALONE[0], "agreed"), (outlook.recommended, style.TOGETHER, "recommended")]
        left = style.panel(figure, 1.07, 0.75, 3.25, 2.75)
        panels = [left, style.panel(figure, 4.8, 0.75, 3.25, 2.75, sharey=left)]
    style.head(figure, "What the collaboration will cost", _lead(outlook))
    best = min(owner.alone for owner in outlook.owners)
    who = "best owner alone" if outlook.n_owners > 1 else "alone"
    labels = [_public(outlook), Label(best, f"{who}: {percent(best)}", style.ALONE[1])]
    labels = [label for label in labels if label.level > FLOOR]
    for axes, (one, colour, name) in zip(panels, terms, strict=True):
        band = one.relative_fitness
        style.curve(axes, band.k, band.low, band.mean, band.high, colour)
        axes.set_xlabel(named(one.agreement.agreement.rule).axis, labelpad=7)
        said = f"{name}: {one.agreement.rule_in_words}, {counted(one.agreement.answers, 'answer')} of each"
        top = style.above(axes, f"ends at {ended(band)}", 1.02, style.FAINT, 9.2)
        style.above(axes, said, top + 0.035, colour, 10.5, weight="bold")
    ψ = [one.relative_fitness for one, _, _ in terms]
    seen = np.concatenate([*(np.concatenate([one.low, one.high]) for one in ψ), [label.level for label in labels]])
    style.percent_axis(left, seen[np.isfinite(seen)], 1.6)
    for axes in panels:
        for label in labels:
            style.level(axes, label.level, label.colour)
    for axes in panels[1:]:
        axes.grid(axis="y", color=style.GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(labelleft=False, length=3)
    if labels:
        style.beside(panels[-1], labels)
    _sources(figure, outlook)
    return figure


@drawn
def break_even(outlook: Forecast) -> Figure:
    """Plot ψ of all owners together against an ε that they all have, with ψ of each alone, of public rows, and pooled."""
    figure = style.sheet(9.4, 5.1)
    axes = style.panel(figure, 1.08, 0.75, 5.6, 3.4)
    style.head(figure, "At which epsilon the common model is better, on everybody's records", _lead(outlook))
    # From where noise hides everything to where it is negligible, with the agreed and the break-even ε inside.
    inside = [owner.epsilon for owner in outlook.owners]
    inside += [even for owner in outlook.owners if 1e-3 < (even := owner.break_even_epsilon_for_all or 0.0) < 1e3]
    ε = np.geomspace(min(inside) / 10.0, max(inside) * 30.0, 400)
    ψ = np.maximum(outlook.consortium.with_all_at(ε), FLOOR)
    axes.plot(ε, ψ, color=style.TOGETHER, linewidth=2.4, zorder=4)
    best = min(outlook.public_only, *(owner.alone for owner in outlook.owners))
    labels = [Label(float(ψ[-1]), "together, with privacy,\nat the best terms for each ε", style.TOGETHER)]
    labels += style.alone(axes, [(owner.called, owner.alone, owner.count) for owner in outlook.owners])
    if outlook.public_only > FLOOR:
        style.level(axes, outlook.public_only, style.PUBLIC)
        labels.append(_public(outlook))
    axes.fill_between(ε, ψ, max(best, FLOOR), where=ψ < best, color=style.TOGETHER, alpha=0.13, linewidth=0, zorder=1)
    style.epsilon_axis(axes, "ε of every owner")
    axes.set_xlim(ε[0], ε[-1])
    style.percent_axis(axes, np.array([*ψ, *(label.level for label in labels)]), 2.0)
    pooled = axes.text(
        0.012, 0.02, "↓ pooled, without privacy: 0 %", transform=axes.transAxes, color=style.FAINT, fontsize=9.2,
        bbox=style.PAPER, zorder=6,
    )  # fmt: skip
    along = axes.transData.transform(np.column_stack([ε, ψ]))
    taken = [pooled.get_window_extent(), *(Bbox.from_bounds(x - 3, y - 3, 6, 6) for x, y in along)]
    _mark_break_even(axes, outlook, taken)
    budgets, end = {owner.epsilon for owner in outlook.owners}, outlook.recommended.relative_fitness.end
    if len(budgets) == 1 and end["mean"] > FLOOR:  # the simulated cost of the recommended terms
        at, low = budgets.pop(), max(end["low"], FLOOR)
        axes.plot([at, at], [low, end["high"]], color=style.TOGETHER, linewidth=1.4, zorder=5)
        axes.plot([at], [end["mean"]], marker="o", markersize=6.5, color=style.TOGETHER, zorder=6)
        style.note(axes, f"agreed: ε = {at:g}", (at, low), style.TOGETHER, taken)
    style.beside(axes, labels)
    _sources(figure, outlook)
    return figure


def _mark_break_even(axes: Axes, outlook: Forecast, taken: list[Bbox]) -> None:
    """Mark the break-even epsilons, to two digits, each with a ring and its owners."""
    low, high = axes.get_xlim()
    for_whom: dict[float, list[str]] = {}
    for owner in outlook.owners:
        if (ε := owner.break_even_epsilon_for_all) is not None and low < ε < high:
            for_whom.setdefault(float(f"{ε:.2g}"), []).append(printable(owner.called, 40))
    if not any(owner.break_even_epsilon_for_all for owner in outlook.owners):
        never = axes.text(
            0.5, 0.965, "it is better at no ε", transform=axes.transAxes, ha="center", va="top", fontsize=9.6
        )
        taken.append(never.get_window_extent())
    if len(for_whom) > 4:
        for_whom = {ε: names for ε, names in for_whom.items() if ε in (min(for_whom), max(for_whom))}
    marked = 0
    for at, names in sorted(for_whom.items()):
        marked += len(names)
        whom = listed(names)
        if at == max(for_whom) and marked == len(outlook.owners) and outlook.n_owners > 1:
            whom = "everybody"
        level = max(float(outlook.consortium.with_all_at(np.array([at]))[0]), FLOOR)
        axes.plot(
            [at, at], [axes.get_ylim()[0], level], color=style.INK, linewidth=0.9, linestyle=(0, (1, 2)), zorder=3
        )
        style.ring(axes, at, level)
        style.note(axes, f"better for {whom}:\nε ≥ {at:g}", (at, level), style.INK, taken)


@drawn
def by_heterogeneity(outlook: Forecast) -> Figure:
    """Plot median ψ and the range of 90 % of runs at each heterogeneity. Raises UsageError where owners are alike."""
    at = outlook.at_heterogeneity
    if not at:
        raise UsageError("plot: the owners of this forecast are alike, so that there is no picture of how they differ")
    figure = style.sheet(9.4, 5.2)
    axes = style.panel(figure, 1.15, 1.0, 7.9, 3.3)
    style.head(figure, "What it costs if owners differ", _lead(outlook))
    for i, one in enumerate(at):
        low, middle, high = (max(ψ, FLOOR) for ψ in (one.low, one.median, one.high))
        axes.plot([i, i], [low, high], color=style.TOGETHER, alpha=0.25, linewidth=22, solid_capstyle="butt")
        axes.plot([i - 0.1, i + 0.1], [middle, middle], color=style.TOGETHER, linewidth=2.4)
        words = f"{percent(one.median)}\n{percent(one.low)}\nto {percent(one.high)}"
        axes.annotate(words, (i, middle), (26, 0), textcoords="offset points", va="center", fontsize=9.2)
    style.percent_axis(axes)
    when = ("alike", "as unlike as\nthey are taken to be", "twice as unlike")
    marks = [f"{name}\n(u = {percent(one.heterogeneity)})" for name, one in zip(when, at, strict=True)]
    axes.set_xticks(range(len(marks)), marks)
    axes.set_xlim(-0.5, len(marks) - 0.35)
    meaning = "u: how much worse for everybody a perfect model of one owner's own population is"
    style.above(axes, meaning, 1.01, style.FAINT, 9.2, width=7.9)
    _sources(figure, outlook)
    return figure


@drawn
def on_own_records(outlook: Forecast) -> Figure:
    """Plot ψ on own records of the first 20 owners: of models that they have without joining, and by joining.

    With the band of 90 % of runs, and the verdict on the records that the goal names.
    """
    shown = outlook.owners[:20]
    models = (
        ("its own model", "s", style.ALONE[0], "alone"),
        (f"{public_model(outlook)}, personalized", "^", style.FAINT, "public_personalized"),
        ("the common one", "D", style.ALONE[3], "together"),
        ("that, personalized", "o", style.TOGETHER, "personalized"),
    )
    costs = [
        _Costs(
            label, marker, colour, [getattr(one.own, model) for one in shown],
            [getattr(one.own, f"{model}_band") for one in shown],
        )
        for label, marker, colour, model in models
    ]  # fmt: skip
    title = "What joining gives each owner, on its own records"
    first = f"the first {len(shown)} of " * (len(shown) < len(outlook.owners))
    lead = f"forecast for {first}{counted(outlook.n_owners, 'owner')}; further to the left is better"
    lead += "; the first two take no joining"
    if outlook.goal == "common":
        lead += "; “pays” is about everybody's records, the agreed goal"
    figure, axes = _by_owner(title, lead, [one.called for one in shown], costs, 0.8)
    axes.set_xlabel("worse than the best possible model of the owner's own records; lines: 90 % of runs", labelpad=7)
    words = {"yes": "pays", "no": "does not pay", "open": "open"}
    for at, one in enumerate(reversed(shown)):
        axes.annotate(
            words[one.verdict], (1.0, at), (8, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            va="center",
        )  # fmt: skip
    _sources(figure, outlook)
    return figure


@drawn
def owners_apart(outlook: OwnLearnersForecast) -> Figure:
    """Plot ψ of the first 20 owners that each learn their own model, over the best model of all records."""
    shown = outlook.learners[:20]
    costs = [
        _Costs("its own records alone", "s", style.ALONE[0], [one.alone for one in shown]),
        _Costs("the one common model", "D", style.ALONE[3], [one.together for one in shown]),
        _Costs(
            "its own model, from shared answers", "o", style.TOGETHER, [one.learning for one in shown],
            [(one.learning_low, one.learning_high) for one in shown],
        ),
    ]  # fmt: skip
    title = "Every owner its own learner, from one shared answer each"
    figure, axes = _by_owner(title, "", [one.name for one in shown], costs, 0.34, outlook.public_only)
    axes.set_xlabel("worse than the best possible model of everybody's records", labelpad=7)
    return figure


class _Costs(NamedTuple):
    """ψ of a kind of model for each owner, `at`, with its band, marker and colour."""

    label: str
    marker: str
    colour: str
    at: Sequence[float]
    bands: Sequence[tuple[float, float]] = ()


def _by_owner(
    title: str, lead: str, names: Sequence[str], costs: Sequence[_Costs], each: float, public: float | None = None
) -> tuple[Figure, Axes]:
    """Plot a line for each owner, `each` inches high, on an axis of ψ; models with bands are drawn below each other."""
    lines = each * len(names)
    figure = style.sheet(9.0, 2.25 + lines)
    axes = style.panel(figure, 1.8, 0.8, 5.9 if each > 0.5 else 6.9, lines)
    y, ends = np.arange(len(names))[::-1], list[float]()
    apart = 0.2 * all(one.bands for one in costs)
    for place, one in enumerate(costs):
        ψ, at = np.maximum(one.at, FLOOR), y + apart * ((len(costs) - 1) / 2 - place)
        axes.plot(ψ, at, one.marker, color=one.colour, markersize=6.5, label=one.label, zorder=3)
        ends += [value for value in ψ if value > FLOOR]
        if one.bands:
            low, high = np.maximum(one.bands, FLOOR).T
            label = "_" if apart else "90 % of runs"
            axes.hlines(at, low, high, color=one.colour, linewidth=2.0, alpha=0.45, label=label, zorder=2)
            ends += [*low[low > FLOOR], *high]
    if public is not None:
        ends.append(max(public, FLOOR))
        axes.axvline(
            ends[-1], color=style.FAINT, linewidth=1.2, linestyle="--", label="the public rows alone", zorder=1
        )
    axes.set_xscale("log")
    between = (1.0, 2.0, 5.0) if max(ends) < 100 * min(ends) else (1.0,)
    style.ticks(axes.xaxis, LogLocator(base=10.0, subs=between, numticks=7), axis_percent)
    axes.set_yticks(y, [style.cut(figure, name, 1.4, 10.5) for name in names], color=style.INK)
    for name in axes.get_yticklabels():
        name.set_parse_math(False)
    axes.set_ylim(-0.6, len(names) - 0.4)
    style.head(figure, title, lead)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-1.55 / 6.9, 1 + 0.15 / lines), frameon=False, ncol=3, columnspacing=1.4,
        handletextpad=0.6, fontsize=9.5, borderaxespad=0.0,
    )  # fmt: skip
    return figure, axes


def _lead(outlook: Forecast) -> str:
    return f"forecast for {counted(outlook.n_owners, 'owner')}; lower is better, 0 is the model without privacy"


def _public(outlook: Forecast) -> Label:
    name = for_nothing(outlook.agreed.agreement).removeprefix("the ")
    return Label(outlook.public_only, f"{name}: {percent(outlook.public_only)}", style.PUBLIC)


def _sources(figure: Figure, outlook: Forecast) -> None:
    """Write under the picture what it was made from, the verdict, and what a pilot would tell."""
    after = outlook.kind == "after the pilot"
    made = "Public rows and a simulated pilot" if after else "Public information only"
    warned = [(f"{warning.capitalize()}.", style.ALARM) for warning in outlook.warnings]
    said = f"{made}: {outlook.description}. {outlook.verdict}"
    asked = [(pilot, style.FAINT) for pilot in [outlook.pilot_in_words] if pilot is not None]
    style.foot(figure, (said, style.FAINT), *asked, *warned)
