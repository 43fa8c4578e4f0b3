"""Where joining pays: N banks of 10,000 records against owner 1 on its own (A, Fig. 6), and with planned settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import NullLocator

from copriv.pictures import style
from copriv.types import Array
from copriv_papers import drawing
from copriv_papers.consortia import A_LENDING, Mechanism
from copriv_papers.figure import Cell, Comparison, Effort, Figure, Judgement, Row
from copriv_papers.figures.grid import final_rows, table
from copriv_papers.trials import Outcome, Trial
from copriv_papers.verdict import BEYOND_THEM

MECHANISMS: tuple[Mechanism, ...] = ("as published", "sound", "planned")
OWNERS = (2, 4, 8, 16, 32, 64, 128)
"""The paper draws to 64, and speaks of more than 100."""
CLAIMED = {8: 10.0, 128: 2.5}
"""N → from which ε joining pays: more than 5 owners at ε ≥ 10, more than 100 at ε ≥ 2.5."""
QUICK_OWNERS = (2, 8)
"""The paper speaks of more than 5."""
RECORDS = 10_000


def frontier(epsilons: Array, together: Array, alone: float) -> float:
    """The least ε from which joining pays, between points that were run; nothing is drawn out beyond them.

    Infinite where joining does not pay at the largest ε that was run; the smallest ε that was run where it pays at all of
    them, and then the frontier is at most that.
    """
    logs, gain = np.log(epsilons), np.log(together / alone)
    if gain[-1] >= 0:
        return float("inf")
    crossing = np.flatnonzero(gain >= 0)
    if len(crossing) == 0:
        return float(epsilons[0])
    j = int(crossing[-1])
    share = gain[j] / (gain[j] - gain[j + 1])
    return float(np.exp(logs[j] + share * (logs[j + 1] - logs[j])))


@dataclass(frozen=True)
class Region:
    """E ψ over N and ε, and the plane of ψ(θ₁*)."""

    identity: str = "async-fig6"
    source: str = "A, Fig. 6"
    title: str = "A1 on lending: where joining pays for a bank of 10,000 records"
    claim: str = "Joining pays with more than 5 owners at ε ≥ 10, or more than 100 owners at ε ≥ 2.5."

    def plan(self, effort: Effort) -> list[Cell]:
        """Every mechanism, N and ε."""
        setting = A_LENDING.on(effort.paths)
        return [
            Cell(
                {"mechanism": mechanism, "owners": N, "epsilon": float(ε)},
                Trial(
                    setting.agreement([RECORDS] * N, [float(ε)] * N, mechanism, effort.paths),
                    mechanism,
                    effort.runs if mechanism == "as published" else effort.few_runs,
                    setting.held_out,
                    alone=1,
                    planned_on=effort.planned_on,
                ),
            )
            for mechanism in MECHANISMS
            for N in (QUICK_OWNERS if effort.quick else OWNERS)
            for ε in np.geomspace(0.1, 10, (2 if effort.quick else 5) if mechanism == "planned" else effort.grid(10))
        ]

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        """E ψ, ψ(θ₁*) and whether joining pays."""
        return [
            {
                **row,
                "alone": o.alone[0],
                "public_only": o.public_only,
                "joining_pays": int(o.mean[-1] < o.alone[0]),
                "alone_held_out": o.alone_held_out[0] if o.alone_held_out else float("nan"),
                **_terms(o),
            }
            for row, o in zip(final_rows(cells, outcomes), outcomes, strict=True)
        ]

    def draw(self, rows: Sequence[Row]) -> Picture:
        """The paper's surfaces above, the same from above below, with the frontier."""
        figure, solid, flat = drawing.solid_over_flat(len(MECHANISMS))
        limits = drawing.limits_of([r["mean"] for r in rows] + [r["alone"] for r in rows])
        for mechanism, one, two in zip(MECHANISMS, solid, flat, strict=True):
            mine = [r for r in rows if r["mechanism"] == mechanism]
            N, ε, z = table(mine, "owners", "epsilon")
            alone = np.array([next(r["alone"] for r in mine if r["owners"] == n) for n in N])
            labels = ("N", "$\\epsilon_i$", "$\\mathrm{E}\\,\\psi$ and $\\psi(\\theta_1^*)$")
            drawing.surface(one, N, ε, z, labels, limits, base=2)
            drawing.plane(one, N, ε, np.repeat(alone[:, None], len(ε), axis=1), base=2)
            one.view_init(20, 40)
            drawing.title(one, "Surface: together. Plane: owner 1 alone", mechanism)
            _from_above(two, N, ε, z, alone, limits)
            pays = float(np.mean([r["joining_pays"] for r in mine]))
            drawing.title(two, f"Joining pays at {pays:.0%} of these points", mechanism)
        drawing.scale(figure, flat[-1], limits, "$\\mathrm{E}\\,\\psi$ together")
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """Frontiers: from which ε joining pays, at each N."""
        found = []
        for n, budget in CLAIMED.items():
            met = [r for r in rows if r["mechanism"] == "as published" and r["owners"] == n and r["epsilon"] >= budget]
            for r in met[:1]:
                what = f"as published: ψ together over ψ alone at N = {n}, ε = {r['epsilon']:.2g}"
                times = float(r["mean"] / r["alone"])
                found.append(Comparison(what, "below 1", times, times < 1))
        for mechanism in MECHANISMS:
            for n, least in _frontiers(rows, mechanism).items():
                what = f"{mechanism}: joining pays from ε (N = {n}; none: not at any ε that was run)"
                found.append(Comparison(what, "", least, None))
        paper, planned = _frontiers(rows, "as published"), _frontiers(rows, "planned")
        low, high = min(r["epsilon"] for r in rows), max(r["epsilon"] for r in rows)
        own, public = max(r["alone"] for r in rows), float(np.median([r["public_only"] for r in rows]))
        seen = {n: ε for n, ε in paper.items() if np.isfinite(ε)}
        if seen:
            ours = ", ".join(f"ε = {ε:.2g} at N = {n}" for n, ε in seen.items())
            ours = f"with its settings joining pays here from {ours}, and for no other N that was run"
        else:
            mine = [r for r in rows if r["mechanism"] == "as published"]
            best = min(mine, key=lambda r: float(r["mean"] / r["alone"]))
            ours = (
                f"with its settings joining pays here at none of the points that were run, ε from {low:g} to {high:g}: at "
                f"best (N = {best['owners']}, ε = {best['epsilon']:g}) ψ together is "
                f"{best['mean'] / best['alone']:.3g} times ψ alone. A larger ε is no way out where ψ has stopped falling: "
                "T = 1,000 queries leave a transient that no ε removes"
            )
        gains = _gains(paper, planned, low)
        ratio = (
            ". Planned settings move the frontier "
            + ", ".join(
                f"{'at least ' if open_below else ''}{g:,.0f} times lower at N = {n}"
                for n, (g, open_below) in gains.items()
            )
            if gains
            else ". How much lower planned settings move the frontier has no number, since it is not there without them"
        )
        theirs = ", ".join(
            f"{'at most ' if ε <= low else ''}{ε:.2g} at N = {n}" for n, ε in planned.items() if np.isfinite(ε)
        )
        why = (
            "the paper says that joining pays with more than 5 owners at ε ≥ 10, or more than 100 at ε ≥ 2.5; "
            f"{ours}. Our banks are drawn from one table and so are alike: a bank of 10,000 records alone is within "
            f"ψ = {own:.2g} of the pooled optimum, which the paper's first 10,000 rows cannot have been{ratio}. "
            f"{_with_plans(rows, theirs)} (The learner's public rows alone give ψ = {public:.2g}, and plans may start there.)"
        )
        found += [
            Comparison(f"{mechanism}: share of points where joining pays on new records", "", share, None)
            for mechanism in MECHANISMS
            for share in (_on_new_records(rows, mechanism),)
            if np.isfinite(share)
        ]
        return Judgement.of(found, why)


def _with_plans(rows: Sequence[Row], where: str) -> str:
    """Where joining pays with planned settings, or how far it is from paying."""
    if where:
        return f"With planned settings joining pays from ε = {where}."
    mine = [r for r in rows if r["mechanism"] == "planned"]
    if not mine:
        return "Planned settings were not run on this table."
    best = min(mine, key=lambda r: float(r["mean"] / r["alone"]))
    share = _on_new_records(rows, "planned")
    new = f" On new records it pays at {share:.0%} of the points." if np.isfinite(share) else ""
    return (
        f"With planned settings it pays at none that was run either: at best (N = {best['owners']}, ε = {best['epsilon']:g}) ψ "
        f"together is {best['mean'] / best['alone']:.2g} times ψ alone. What is left there is mostly what clipping a few long "
        f"records does, which no budget removes and which a bank alone need not do.{new}"
    )


def _on_new_records(rows: Sequence[Row], mechanism: Mechanism) -> float:
    """Share of points at which the common model is better on new records than owner 1's own; NaN where nobody looked."""
    mine = [r for r in rows if r["mechanism"] == mechanism and np.isfinite(r.get("alone_held_out", np.nan))]
    return float(np.mean([r["held_out"] < r["alone_held_out"] for r in mine])) if mine else float("nan")


def _gains(paper: dict[int, float], planned: dict[int, float], low: float) -> dict[int, tuple[float, bool]]:
    """N → how many times lower the planned frontier is, and whether that is only a least; where both were measured."""
    return {
        n: (paper[n] / planned[n], planned[n] <= low)
        for n in paper
        if np.isfinite(paper[n]) and np.isfinite(planned[n]) and paper[n] > low
    }


def _terms(o: Outcome) -> Row:
    p = o.planned or {}
    return {f"planned_{k}": p.get(k, "") for k in ("rule", "answers", "step", "gradient_bound", "feature_bound")}


def _from_above(axes: Any, N: Array, ε: Array, z: Array, alone: Array, limits: tuple[float, float]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    axes.pcolormesh(ε, N, np.log10(z), cmap=drawing.SURFACE, vmin=limits[0], vmax=limits[1], shading="nearest")
    edge = np.array([frontier(ε, line, own) for line, own in zip(z, alone, strict=True)])
    low, high = ε[0] ** 1.06 / ε[1] ** 0.06, ε[-1] ** 1.06 / ε[-2] ** 0.06
    inside = np.clip(edge, low, high)
    axes.fill_betweenx(N, inside, high, facecolor="none", edgecolor="white", hatch="///", linewidth=0)
    axes.plot(np.where(edge > high, np.nan, inside), N, color="white", linewidth=2.2)
    axes.set_xlim(low, high)
    axes.set_yticks(N, [f"{int(n)}" for n in N])
    axes.set_xlabel("$\\epsilon_i$, every owner (hatched: joining pays)")
    axes.set_ylabel("owners N")
    axes.grid(False)


@dataclass(frozen=True)
class Frontier(Region):
    """The least ε at which joining pays for owner 1, against N: one line for each way of setting up."""

    identity: str = "frontier"
    source: str = "Beyond A"
    title: str = "Lending: ψ together over ψ alone against N, and from which ε joining pays"
    claim: str = "None: how far better settings move the frontier of A, Fig. 6, at the same ε is a question of ours."

    def draw(self, rows: Sequence[Row]) -> Picture:
        """How far from paying joining is at the largest ε, and where there is a frontier, the frontier."""
        edges = {mechanism: _frontiers(rows, mechanism) for mechanism in MECHANISMS}
        there = any(np.isfinite(ε) for edge in edges.values() for ε in edge.values())
        figure, axes = drawing.picture(1 + there, 1, 6.2 + 5.0 * there, 3.6)
        if there:
            _edges(axes[0, 1], rows, edges)
        one, high = axes[0, 0], max(r["epsilon"] for r in rows)
        for mechanism, colour, marker in zip(MECHANISMS, drawing.EPSILON_COLOURS, drawing.MARKERS, strict=False):
            mine = [r for r in rows if r["mechanism"] == mechanism and r["epsilon"] == high]
            ratio = [float(r["mean"] / r["alone"]) for r in mine]
            one.plot(
                [r["owners"] for r in mine], ratio, f"-{marker}", color=colour, ms=5, label=drawing.MECHANISM[mechanism]
            )
        one.axhline(1.0, color=style.INK, linewidth=1, linestyle="--", label="below this joining pays")
        drawing.log_axes(one, "owners N", "$\\mathrm{E}\\,\\psi$ together over $\\psi$ alone")
        _doublings(one, sorted({r["owners"] for r in rows}))
        drawing.legend_below(one)
        where = "" if there else "; joining pays at no ε that was run"
        one.set_title(f"At the largest ε that was run, {high:g}{where}", loc="left")
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """The frontier of each mechanism at each N, and what planning gains."""
        edges = {mechanism: _frontiers(rows, mechanism) for mechanism in MECHANISMS}
        found = [
            Comparison(f"{mechanism}: joining pays from ε (N = {N})", "", least, None)
            for mechanism, edge in edges.items()
            for N, least in edge.items()
        ]
        low = min(r["epsilon"] for r in rows)
        gains = _gains(edges["as published"], edges["planned"], low)
        found += [
            Comparison(f"paper's frontier over the planned one (N = {N}{'; at least' if least else ''})", "", g, None)
            for N, (g, least) in gains.items()
        ]
        never = [str(N) for N, ε in edges["as published"].items() if np.isinf(ε)]
        if gains:
            known = [g for g, _ in gains.values()]
            why = (
                f"where both frontiers were measured (N = {', '.join(map(str, gains))}), planned settings let a bank gain at "
                f"budgets {min(known):,.0f} to {max(known):,.0f} times smaller than the paper's settings do, with the same "
                "records and the same ε for every owner"
            )
        else:
            why = "nowhere were both frontiers measured, so there is no ratio"
        if never:
            why += f"; with {' or '.join(never)} owners the paper's settings never do at an ε that was run"
        return Judgement(BEYOND_THEM, f"{why}.", tuple(found))


def _edges(axes: Any, rows: Sequence[Row], edges: dict[Mechanism, dict[int, float]]) -> None:
    """Lines on log axes between what was run; an arrow down: joining pays at every ε that was run."""
    low, high = min(r["epsilon"] for r in rows), max(r["epsilon"] for r in rows)
    axes.axhspan(low, high, color=style.FAINT, alpha=0.08, linewidth=0)
    for (mechanism, edge), colour, marker in zip(edges.items(), drawing.EPSILON_COLOURS, drawing.MARKERS, strict=False):
        N, ε = np.array(list(edge)), np.array(list(edge.values()))
        seen, everywhere = np.isfinite(ε), ε <= low
        never = "" if seen.any() else " (at none that was run)"
        axes.plot(N, np.where(seen, ε, np.nan), color=colour)
        axes.plot([], [], f"-{marker}", color=colour, ms=5, label=f"{drawing.SHORT[mechanism]}{never}")
        axes.plot(N[seen & ~everywhere], ε[seen & ~everywhere], marker, color=colour, ms=5)
        axes.plot(N[everywhere], ε[everywhere], "v", color=colour, ms=6, mfc="white")
    drawing.log_axes(axes, "owners N", "least $\\epsilon$ at which joining pays")
    _doublings(axes, sorted({r["owners"] for r in rows}))
    axes.set_ylim(0.7 * low, high * (high / low) ** 0.35)
    axes.legend(loc="upper left", fontsize=7.5)
    axes.set_title("Shaded: what was run; hollow: it pays at all of it", loc="left")


def _doublings(axes: Any, owners: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(owners, [f"{int(n)}" for n in owners])
    axes.xaxis.set_minor_locator(NullLocator())


def _frontiers(rows: Sequence[Row], mechanism: Mechanism) -> dict[int, float]:
    """N → the least ε at which joining pays."""
    mine = [r for r in rows if r["mechanism"] == mechanism]
    if not mine:
        return {}
    N, ε, z = table(mine, "owners", "epsilon")
    alone = {int(r["owners"]): float(r["alone"]) for r in mine}
    return {int(n): frontier(ε, line, alone[int(n)]) for n, line in zip(N, z, strict=True)}


REGIONS: tuple[Figure, ...] = (Region(),)
FRONTIER: Figure = Frontier()
