"""Pictures of a forecast: what terms cost after each answer, and at which ε joining pays."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from copriv.forecast import Assessment, Forecast
from copriv.formatting.numbers import listed, percent, percent_range
from copriv.formatting.sanitize import printable
from copriv.pictures.style import (
    ALONE,
    DASHED,
    FAINT,
    FLOOR,
    GRID,
    INK,
    PAPER,
    PSI,
    TOGETHER,
    Label,
    beside,
    boxes_along,
    broken,
    drawn,
    epsilon_axis,
    foot,
    head,
    k_axis,
    note,
    panel,
    percent_axis,
    sheet,
    sheet_of,
)
from copriv.rules import named
from copriv.types import Array

_AGREED, _PUBLIC = "#D55E00", "#7a7a7a"
_NAME = 40
"""Letters of a name where several are listed."""


@drawn
def curves(outlook: Forecast) -> Figure:
    """Expected ψ against k with the band of 90 % of runs, agreed terms beside recommended ones."""
    figure = sheet(10.2, 5.1)
    left = panel(figure, 1.07, 0.75, 3.25, 2.95)
    right = panel(figure, 4.8, 0.75, 3.25, 2.95, sharey=left)
    head(figure, "What the collaboration will cost", lead(outlook))
    best = min(outlook.owners, key=lambda owner: owner.alone)
    who = "best owner alone" if outlook.n_owners > 1 else "alone"
    levels = [
        Label(outlook.public_only, f"public rows alone: {percent(outlook.public_only)}", _PUBLIC),
        Label(best.alone, f"{who}: {percent(best.alone)}", ALONE[1]),
    ]
    levels = [line for line in levels if line.level > FLOOR]
    panels = (("agreed", left, outlook.agreed, _AGREED), ("recommended", right, outlook.recommended, TOGETHER))
    for name, axes, one, colour in panels:
        _curve(axes, one, colour, f"{name}: {_short(one)}")
    percent_axis(left)
    ψ = [one.relative_fitness for one in (outlook.agreed, outlook.recommended)]
    seen = np.concatenate([*(np.concatenate([one.low, one.high]) for one in ψ), [line.level for line in levels]])
    seen = np.maximum(seen[np.isfinite(seen)], FLOOR)
    left.set_ylim(seen.min() / 1.6, seen.max() * 1.6)
    for axes in (left, right):
        for line in levels:
            axes.axhline(line.level, color=line.colour, linewidth=1.4, linestyle=DASHED, zorder=2)
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
    if levels:
        beside(right, levels)
    right.tick_params(labelleft=False, length=3)
    left.set_ylabel(PSI, labelpad=7)
    sources(figure, outlook)
    return figure


def _curve(axes: Axes, one: Assessment, colour: str, title: str) -> None:
    figure, ψ = sheet_of(axes), one.relative_fitness
    low, mean, high = (np.maximum(line, FLOOR) for line in (ψ.low, ψ.mean, ψ.high))
    axes.fill_between(ψ.k, low, high, color=colour, alpha=0.17, linewidth=0)
    marker = "o" if len(ψ.k) <= 30 else None
    axes.plot(ψ.k, mean, color=colour, linewidth=2.2, zorder=3, marker=marker, markersize=4.2)
    k_axis(axes, ψ.k)
    axes.set_xlabel(named(one.agreement.agreement.rule).axis, labelpad=7)
    ends = f"ends at {percent(float(ψ.mean[-1]))}, 90 % of runs {percent_range(float(ψ.low[-1]), float(ψ.high[-1]))}"
    said = "\n".join(broken(figure, ends, 3.45, 9.2))
    above = axes.text(0.0, 1.03, said, transform=axes.transAxes, color=FAINT, fontsize=9.2, linespacing=1.15)
    top = axes.transAxes.inverted().transform(above.get_window_extent().corners())[:, 1].max()
    named_as = "\n".join(broken(figure, title, 3.45, 10.5, weight="bold"))
    axes.text(
        0.0,
        top + 0.035,
        named_as,
        transform=axes.transAxes,
        color=colour,
        fontsize=10.5,
        fontweight="bold",
        va="bottom",
    )


@drawn
def break_even(outlook: Forecast, points: int = 400) -> Figure:
    """ψ of all owners together against an ε that they all have, with each alone, public rows only and pooled."""
    figure = sheet(9.4, 5.1)
    axes = panel(figure, 1.08, 0.75, 5.6, 3.4)
    head(figure, "At which epsilon joining pays", lead(outlook))
    ε = _epsilons(outlook, points)
    ψ = np.maximum(_together_at(outlook, ε), FLOOR)
    axes.plot(ε, ψ, color=TOGETHER, linewidth=2.4, zorder=4)
    alone = sorted({owner.alone for owner in outlook.owners})
    best = min(outlook.public_only, alone[0])
    labels = [Label(float(ψ[-1]), "together, with privacy,\nat the best terms for each ε", TOGETHER)]
    labels += _alone_lines(axes, outlook)
    if outlook.public_only > FLOOR:
        axes.axhline(outlook.public_only, color=_PUBLIC, linewidth=1.5, linestyle=DASHED, zorder=2)
        labels.append(Label(outlook.public_only, f"public rows alone: {percent(outlook.public_only)}", _PUBLIC))
    axes.fill_between(ε, ψ, max(best, FLOOR), where=ψ < best, color=TOGETHER, alpha=0.13, linewidth=0, zorder=1)
    epsilon_axis(axes, "ε of every owner")
    percent_axis(axes)
    axes.set_xlim(ε[0], ε[-1])
    levels = np.array([*ψ, *(label.level for label in labels)])
    axes.set_ylim(np.maximum(levels, FLOOR).min() / 2.6, levels.max() * 1.5)
    axes.set_ylabel(PSI, labelpad=7)
    pooled = axes.text(
        0.012, 0.02, "↓ pooled, without privacy: 0 %", transform=axes.transAxes, color=FAINT, fontsize=9.2, bbox=PAPER,
        zorder=6,
    )  # fmt: skip
    taken = [pooled.get_window_extent(), *boxes_along(axes, ε, ψ)]
    _mark_break_even(axes, outlook, taken)
    _mark_agreed(axes, outlook, taken)
    beside(axes, labels)
    sources(figure, outlook)
    return figure


def _epsilons(outlook: Forecast, points: int) -> Float[Array, " points"]:
    """From where noise drowns everything to where it does not matter, with the agreed and break-even ε inside."""
    inside = [owner.epsilon for owner in outlook.owners]
    inside += [ε for owner in outlook.owners if (ε := owner.break_even_epsilon_for_all) is not None and 1e-3 < ε < 1e3]
    low, high = min(inside) / 10.0, max(inside) * 30.0
    return np.geomspace(low, high, points)


def _together_at(outlook: Forecast, epsilon: Float[Array, " points"]) -> Float[Array, " points"]:
    """ψ of everybody, ε the same for all: ν = Σ κ_i²/(nε)²."""
    owners = outlook.consortium
    return np.asarray(owners.curve.at(np.sum(owners.number * owners.overlap**2) / (owners.total * epsilon) ** 2))


def _alone_lines(axes: Axes, outlook: Forecast) -> list[Label]:
    """A line for each different level of `alone`, or the range over many; labels to put beside them."""
    by_level: dict[float, list[str]] = {}
    for owner in outlook.owners:
        by_level.setdefault(float(f"{owner.alone:.2g}"), []).append(printable(owner.called, _NAME))
    levels = {level: names for level, names in by_level.items() if level > FLOOR}
    if len(levels) > 4:
        low, high = min(levels), max(levels)
        axes.axhspan(low, high, color=ALONE[0], alpha=0.10, linewidth=0, zorder=1)
        middle = float(
            np.median(np.repeat([owner.alone for owner in outlook.owners], [owner.count for owner in outlook.owners]))
        )
        axes.axhline(middle, color=ALONE[0], linewidth=1.5, linestyle=DASHED, zorder=2)
        return [Label(middle, f"alone: {percent_range(low, high)},\nmedian owner dashed", ALONE[0])]
    made = []
    for (level, names), colour in zip(sorted(levels.items()), ALONE, strict=False):
        axes.axhline(level, color=colour, linewidth=1.5, linestyle=DASHED, zorder=2)
        who = "each owner" if len(names) == len(outlook.owners) and outlook.n_owners > 1 else listed(names)
        made.append(Label(level, f" alone: {percent(level)}", colour, who))
    return made


def _mark_break_even(axes: Axes, outlook: Forecast, taken: list[Bbox]) -> None:
    """A ring where joining begins to pay, for each different ε at which it does."""
    low, high = axes.get_xlim()
    for_whom: dict[float, list[str]] = {}
    for owner in outlook.owners:
        if (ε := owner.break_even_epsilon_for_all) is not None and low < ε < high:
            for_whom.setdefault(float(f"{ε:.2g}"), []).append(printable(owner.called, _NAME))
    if not any(owner.break_even_epsilon_for_all for owner in outlook.owners):
        text = "joining does not pay at any ε"
        said = axes.text(0.5, 0.965, text, transform=axes.transAxes, ha="center", va="top", color=INK, fontsize=9.6)
        taken.append(said.get_window_extent())
    if len(for_whom) > 4:
        for_whom = {ε: names for ε, names in for_whom.items() if ε in (min(for_whom), max(for_whom))}
    heard = 0
    for at, names in sorted(for_whom.items()):
        heard += len(names)
        every = at == max(for_whom) and heard == len(outlook.owners) and outlook.n_owners > 1
        level = max(float(_together_at(outlook, np.array([at]))[0]), FLOOR)
        axes.plot([at, at], [axes.get_ylim()[0], level], color=INK, linewidth=0.9, linestyle=(0, (1, 2)), zorder=3)
        axes.plot([at], [level], marker="o", markersize=6, color="white", markeredgecolor=INK, zorder=7)
        note(axes, f"pays for {'everybody' if every else listed(names)}:\nε ≥ {at:g}", (at, level), INK, taken)


def _mark_agreed(axes: Axes, outlook: Forecast, taken: list[Bbox]) -> None:
    """Where owners share one ε, the simulated cost of the recommended terms there."""
    ε = {owner.epsilon for owner in outlook.owners}
    ψ = outlook.recommended.relative_fitness
    if len(ε) > 1 or not ψ.mean[-1] > FLOOR:
        return
    at = ε.pop()
    axes.plot([at, at], [max(ψ.low[-1], FLOOR), ψ.high[-1]], color=TOGETHER, linewidth=1.4, zorder=5)
    axes.plot([at], [ψ.mean[-1]], marker="o", markersize=6.5, color=TOGETHER, zorder=6)
    note(axes, f"agreed: ε = {at:g}", (at, float(max(ψ.low[-1], FLOOR))), TOGETHER, taken)


def lead(outlook: Forecast) -> str:
    """What a picture's numbers are."""
    n = outlook.n_owners
    return f"forecast for {n:,} owner{'s' if n > 1 else ''}; lower is better, 0 is the model without privacy"


def sources(figure: Figure, outlook: Forecast) -> None:
    """What it was made from, and the verdict, under it."""
    foot(figure, (f"Public information only: {outlook.description}. {outlook.verdict_on_screen}", FAINT))


def _short(one: Assessment) -> str:
    m = one.agreement.answers
    return f"{one.agreement.rule_in_words}, {m:,} answer{'s' if m > 1 else ''} of each"
