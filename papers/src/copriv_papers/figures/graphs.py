"""Every owner a learner on a graph, which S, §V and A, §VI leave open: E ψ over that of one learner, against the graph."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure as Picture

from copriv.pictures.style import ALONE, FAINT, TOGETHER
from copriv.rules.graph import Graph
from copriv_papers import drawing
from copriv_papers.consortia import S_LENDING
from copriv_papers.figure import Cell, Comparison, Effort, Figure, Judgement, Row
from copriv_papers.trials import Outcome, Trial
from copriv_papers.verdict import BEYOND_THEM

CENTRAL = "one learner"
GRAPHS = {"complete": FAINT, "random": TOGETHER, "grid": ALONE[3], "ring": ALONE[0]}
OWNERS = (4, 9, 16, 36, 64)
RECORDS, EPSILON, HORIZON = 2_500, 10.0, 100


@dataclass(frozen=True)
class Graphs:
    """One line a graph, against the number of owners; a panel without and one with tracking."""

    identity: str = "graph"
    source: str = "Beyond A"
    title: str = "Lending: E ψ on a graph over that of one learner, against the number of owners"
    claim: str = "Multiple learners over an arbitrary connected graph are left open (S, §V; A, §VI)."

    def plan(self, effort: Effort) -> list[Cell]:
        """Every graph at every number of owners of as many records each, with and without tracking; S2."""
        setting = replace(S_LENDING.on(effort.paths), horizon=HORIZON)
        cells = []
        for N in OWNERS[::2] if effort.quick else OWNERS:
            central = setting.agreement([RECORDS] * N, [EPSILON] * N, "sound", effort.paths)
            for graph in (CENTRAL, *GRAPHS):
                for tracking in (False,) if graph == CENTRAL else (False, True):
                    agreement, gap = central, 1.0
                    if graph != CENTRAL:
                        agreement = central.replace(agreement={"graph": graph, "tracking": tracking or None})
                        gap = Graph.of(agreement).spectral_gap
                    trial = Trial(agreement, "sound", effort.runs, setting.held_out)
                    cells.append(Cell({"graph": graph, "owners": N, "tracking": tracking, "gap": gap}, trial))
        return cells

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        """E ψ at the end, a mean over the owners' models, and how many times that of one learner it is."""
        pairs = list(zip(cells, outcomes, strict=True))
        one = {cell.at["owners"]: o.mean[-1] for cell, o in pairs if cell.at["graph"] == CENTRAL}
        return [
            {**cell.at, "mean": o.mean[-1], "times": o.mean[-1] / one[cell.at["owners"]], "held_out": o.held_out}
            for cell, o in pairs
        ]

    def draw(self, rows: Sequence[Row]) -> Picture:
        figure, axes = drawing.picture(2, 1, 0.0, 3.4, sharey=True)
        for one, tracking in zip(axes[0], (False, True), strict=True):
            for (graph, colour), mark in zip(GRAPHS.items(), (*drawing.MARKERS, "o"), strict=True):
                mine = [r for r in rows if r["graph"] == graph and r["tracking"] == tracking]
                one.plot(
                    [r["owners"] for r in mine], [r["times"] for r in mine], f"-{mark}", color=colour, ms=5, label=graph
                )
            one.set_xscale("log")
            one.set_xlabel("owners")
            one.set_ylabel("" if tracking else "$\\mathrm{E}\\,\\psi$ over that of one learner")
            owners = sorted({r["owners"] for r in rows})
            one.set_xticks(owners, [str(N) for N in owners])
            one.minorticks_off()
            drawing.title(one, "With tracking" if tracking else "Without tracking", "sound", short=tracking)
        axes[0, 0].legend(loc="upper left")
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """What each graph costs, and whether the complete one is the central learner."""
        most = max(r["owners"] for r in rows)
        at = {(r["graph"], r["tracking"]): r for r in rows if r["owners"] == most}
        off = max(abs(r["times"] - 1.0) for r in rows if r["graph"] == "complete")
        found = [Comparison("complete graph over one learner, largest distance from 1", "0", off, off < 1e-9)]
        for (graph, tracking), r in at.items():
            if graph != CENTRAL:
                words = f"{graph}, {most} owners, spectral gap {r['gap']:.2g}{', tracking' * tracking}"
                found.append(Comparison(f"{words}: times one learner", "", r["times"], None))
        ring, tracked = at["ring", False]["times"], at["ring", True]["times"]
        why = (
            f"the complete graph is the central learner. With {most} owners a ring costs {ring:.2g} times as much as one "
            f"learner, a grid {at['grid', False]['times']:.2g} times and a random graph of at most four neighbours "
            f"{at['random', False]['times']:.2g} times; with tracking a ring costs {tracked:.2g} times. On a sparse graph an "
            "owner hears of far owners late: its model keeps more of the noise of its neighbourhood, and drifts to its records."
        )
        return Judgement(BEYOND_THEM, why, tuple(found))


GRAPH: Figure = Graphs()
