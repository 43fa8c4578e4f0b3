"""Pictures of a forecast: what terms cost after each answer, and at which ε joining pays."""

import textwrap
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from copriv.cli.show import words
from copriv.cli.show.pictures import (
    ALONE,
    FAINT,
    FLOOR,
    INK,
    PSI,
    STYLE,
    TOGETHER,
    k_axis,
    percent_axis,
    png,
    spread_out,
)
from copriv.forecast import Assessment, Forecast
from copriv.rules import named
from copriv.types import Array

_AGREED, _PUBLIC = "#D55E00", "#7a7a7a"
_DASHED: Any = (0, (5, 2))
_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.88}
"""Behind words that lines would cross."""


def curves(outlook: Forecast, made_by: str) -> bytes:
    """A PNG: expected ψ against k with the band of 90 % of runs, agreed terms beside recommended ones."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.2, 5.6), dpi=160, facecolor="white")
        left = figure.add_axes((0.105, 0.215, 0.32, 0.57))
        right = figure.add_axes((0.47, 0.215, 0.32, 0.57), sharey=left)
        title(figure, "What the collaboration will cost", outlook)
        best = min(outlook.owners, key=lambda owner: owner.alone)
        who = "best owner alone" if outlook.n_owners > 1 else "alone"
        levels = [
            (outlook.public_only, f"public rows alone: {words.percent(outlook.public_only)}", _PUBLIC),
            (best.alone, f"{who}: {words.percent(best.alone)}", ALONE[1]),
        ]
        panels = (("agreed", left, outlook.agreed, _AGREED), ("recommended", right, outlook.recommended, TOGETHER))
        for name, axes, one, colour in panels:
            _curve(axes, one, colour, f"{name}: {_short(one)}")
        percent_axis(left)
        drawn = [one.relative_fitness for one in (outlook.agreed, outlook.recommended)]
        levels = [line for line in levels if line[0] > FLOOR]
        seen = np.concatenate([*(np.concatenate([ψ.low, ψ.high]) for ψ in drawn), [line[0] for line in levels]])
        left.set_ylim(seen[seen > FLOOR].min() / 1.6, seen.max() * 1.6)
        for axes in (left, right):
            for level, _, colour in levels:
                axes.axhline(level, color=colour, linewidth=1.4, linestyle=_DASHED, zorder=2)
            axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
            axes.set_axisbelow(True)
        spread_out(right, levels)
        right.tick_params(labelleft=False, length=3)
        left.set_ylabel(PSI, labelpad=7)
        sources(figure, outlook)
        return png(figure, made_by)


def _curve(axes: Axes, one: Assessment, colour: str, title: str) -> None:
    ψ = one.relative_fitness
    low, mean, high = (np.maximum(line, FLOOR) for line in (ψ.low, ψ.mean, ψ.high))
    axes.fill_between(ψ.k, low, high, color=colour, alpha=0.17, linewidth=0)
    marker = "o" if len(ψ.k) <= 30 else None
    axes.plot(ψ.k, mean, color=colour, linewidth=2.2, zorder=3, marker=marker, markersize=4.2)
    k_axis(axes, ψ.k)
    axes.set_xlabel(named(one.agreement.agreement.rule).axis, labelpad=7)
    axes.set_title(title, loc="left", color=colour, fontweight="bold", fontsize=10.5, pad=22)
    ends = f"ends at {words.percent(float(ψ.mean[-1]))}, 90 % of runs {_to(ψ.low[-1], ψ.high[-1])}"
    axes.text(0.0, 1.028, ends, transform=axes.transAxes, color=FAINT, fontsize=9.2)


def break_even(outlook: Forecast, made_by: str, points: int = 400) -> bytes:
    """A PNG: ψ of all owners together against an ε that they all have, with each alone, public rows only and pooled."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.4, 5.6), dpi=160, facecolor="white")
        axes = figure.add_axes((0.115, 0.215, 0.605, 0.60))
        title(figure, "At which epsilon joining pays", outlook)
        ε = _epsilons(outlook, points)
        ψ = np.maximum(_together_at(outlook, ε), FLOOR)
        axes.plot(ε, ψ, color=TOGETHER, linewidth=2.4, zorder=4)
        alone = sorted({owner.alone for owner in outlook.owners})
        best = min(outlook.public_only, alone[0])
        labels = [(float(ψ[-1]), "together, with privacy,\nat the best terms for each ε", TOGETHER)]
        labels += _alone_lines(axes, outlook)
        if outlook.public_only > FLOOR:
            axes.axhline(outlook.public_only, color=_PUBLIC, linewidth=1.5, linestyle=_DASHED, zorder=2)
            labels.append((outlook.public_only, f"public rows alone: {words.percent(outlook.public_only)}", _PUBLIC))
        axes.fill_between(ε, ψ, max(best, FLOOR), where=ψ < best, color=TOGETHER, alpha=0.13, linewidth=0, zorder=1)
        axes.set_xscale("log")
        percent_axis(axes)
        axes.set_xlim(ε[0], ε[-1])
        levels = np.array([*ψ, *(level for level, _, _ in labels)])
        axes.set_ylim(levels[levels > FLOOR].min() / 2.6, levels.max() * 1.5)
        axes.xaxis.set_major_locator(LogLocator(base=10.0, numticks=12))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("ε of every owner", labelpad=7)
        axes.set_ylabel(PSI, labelpad=7)
        _mark_break_even(axes, outlook)
        _mark_agreed(axes, outlook)
        pooled = "↓ pooled, without privacy: 0 %"
        axes.text(0.012, 0.02, pooled, transform=axes.transAxes, color=FAINT, fontsize=9.2, bbox=_PAPER, zorder=6)
        spread_out(axes, labels)
        sources(figure, outlook)
        return png(figure, made_by)


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


def _alone_lines(axes: Axes, outlook: Forecast) -> list[tuple[float, str, str]]:
    """A line for each different level of `alone`, or the range over many; labels to put beside them."""
    by_level: dict[float, list[str]] = {}
    for owner in outlook.owners:
        by_level.setdefault(float(f"{owner.alone:.2g}"), []).append(owner.called)
    levels = {level: names for level, names in by_level.items() if level > FLOOR}
    if len(levels) > 4:
        low, high = min(levels), max(levels)
        axes.axhspan(low, high, color=ALONE[0], alpha=0.10, linewidth=0, zorder=1)
        middle = float(
            np.median(np.repeat([owner.alone for owner in outlook.owners], [owner.count for owner in outlook.owners]))
        )
        axes.axhline(middle, color=ALONE[0], linewidth=1.5, linestyle=_DASHED, zorder=2)
        return [(middle, f"alone: {words.percent(low)} to {words.percent(high)},\nmedian owner dashed", ALONE[0])]
    made = []
    for (level, names), colour in zip(sorted(levels.items()), ALONE, strict=False):
        axes.axhline(level, color=colour, linewidth=1.5, linestyle=_DASHED, zorder=2)
        who = "each owner" if len(names) == len(outlook.owners) and outlook.n_owners > 1 else words.listed(names)
        made.append((level, f"{textwrap.fill(who, 26)} alone: {words.percent(level)}", colour))
    return made


def _mark_break_even(axes: Axes, outlook: Forecast) -> None:
    """A ring where joining begins to pay, for each different ε at which it does."""
    low, high = axes.get_xlim()
    for_whom: dict[float, list[str]] = {}
    for owner in outlook.owners:
        if (ε := owner.break_even_epsilon_for_all) is not None and low < ε < high:
            for_whom.setdefault(float(f"{ε:.2g}"), []).append(owner.called)
    if not any(owner.break_even_epsilon_for_all for owner in outlook.owners):
        text = "joining does not pay at any ε"
        axes.text(0.5, 0.965, text, transform=axes.transAxes, ha="center", va="top", color=INK, fontsize=9.6)
    if len(for_whom) > 4:
        for_whom = {ε: names for ε, names in for_whom.items() if ε in (min(for_whom), max(for_whom))}
    heard = 0
    for at, names in sorted(for_whom.items()):
        heard += len(names)
        who = (
            "everybody"
            if at == max(for_whom) and heard == len(outlook.owners) and outlook.n_owners > 1
            else words.listed(names)
        )
        level = float(_together_at(outlook, np.array([at]))[0])
        axes.plot([at, at], [axes.get_ylim()[0], level], color=INK, linewidth=0.9, linestyle=(0, (1, 2)), zorder=3)
        axes.plot([at], [level], marker="o", markersize=6, color="white", markeredgecolor=INK, zorder=7)
        axes.annotate(
            f"pays for {who}:\nε ≥ {at:g}", (at, level), xytext=(7, 7), textcoords="offset points", va="bottom",
            color=INK, fontsize=9.2, linespacing=1.2, bbox=_PAPER, zorder=6,
        )  # fmt: skip


def _mark_agreed(axes: Axes, outlook: Forecast) -> None:
    """Where owners share one ε, the simulated cost of the recommended terms there."""
    ε = {owner.epsilon for owner in outlook.owners}
    ψ = outlook.recommended.relative_fitness
    if len(ε) > 1 or not ψ.mean[-1] > FLOOR:
        return
    at = ε.pop()
    axes.plot([at, at], [ψ.low[-1], ψ.high[-1]], color=TOGETHER, linewidth=1.4, zorder=5)
    axes.plot([at], [ψ.mean[-1]], marker="o", markersize=6.5, color=TOGETHER, zorder=6)
    axes.annotate(
        f"agreed: ε = {at:g}", (at, ψ.low[-1]), xytext=(-7, -4), textcoords="offset points", color=TOGETHER,
        fontsize=9.6, va="top", ha="right",
    )  # fmt: skip


def title(figure: Figure, text: str, outlook: Forecast) -> None:
    """What the picture is of, and what its numbers are."""
    figure.text(0.03, 0.945, text, fontsize=15, fontweight="bold", va="center")
    n = outlook.n_owners
    lead = f"forecast for {n:,} owner{'s' if n > 1 else ''}; lower is better, 0 is the model without privacy"
    figure.text(0.03, 0.893, lead, color=FAINT, va="center")


def sources(figure: Figure, outlook: Forecast) -> None:
    """What it was made from, and the verdict."""
    source = textwrap.fill(f"Public information only: {outlook.description}. {outlook.verdict}", 150)
    figure.text(0.03, 0.085, source, color=FAINT, fontsize=8.2, va="center", linespacing=1.35)


def _short(one: Assessment) -> str:
    m = one.agreement.answers
    return f"{words.rule(one.agreement)}, {m:,} answer{'s' if m > 1 else ''} of each"


def _to(low: float, high: float) -> str:
    return f"{words.percent(float(low))} to {words.percent(float(high))}"
