"""E ψ over a grid of n_i and ε as a surface (S, Figs. 3, 8; A, Fig. 4), and the list of all figures of such grids."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure as Picture

from copriv.pictures import style
from copriv_papers import drawing
from copriv_papers.consortia import A_CARDS, A_LENDING, A_LENDING_PRINTED, S_CARDS, S_LENDING
from copriv_papers.figure import Cell, Comparison, Effort, Figure, Judgement, Row
from copriv_papers.figures.grid import EXPECTED, Grid, final_rows, slope, table
from copriv_papers.figures.slopes import Hospitals, Slopes
from copriv_papers.trials import Outcome
from copriv_papers.verdict import MOST, PRINTED, READ_OFF, within

__all__ = ["GRIDS", "Grid", "final_rows", "slope", "table"]


def _exact_law(rows: Sequence[Row]) -> float:
    """c of c/(n²ε²), fitted on a log scale."""
    return float(np.exp(np.mean([np.log(r["mean"] * r["records"] ** 2 * r["epsilon"] ** 2) for r in rows])))


@dataclass(frozen=True)
class Surface:
    """E ψ(n_i, ε) as a surface, or as points over a fitted mesh c/(n²ε²)."""

    identity: str
    source: str
    title: str
    claim: str
    grid: Grid
    mesh: float | None = None
    """The paper's c: then points and the paper's mesh are drawn, as in A."""
    why: str = "the surface falls as it should; its level differs."

    def plan(self, effort: Effort) -> list[Cell]:
        return self.grid.plan(effort)

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        return final_rows(cells, outcomes)

    def draw(self, rows: Sequence[Row]) -> Picture:
        figure, axes = drawing.solid(len(self.grid.mechanisms), height=3.6, width=4.1)
        limits = drawing.limits_of([r["mean"] for r in rows])
        labels = ("$n_i$", "$\\epsilon_i$", EXPECTED)
        for mechanism, one in zip(self.grid.mechanisms, axes.flat, strict=True):
            n, ε, z = table([r for r in rows if r["mechanism"] == mechanism])
            X, Y = np.meshgrid(np.log10(n), np.log10(ε), indexing="ij")
            if self.mesh is None:
                drawing.surface(one, n, ε, z, labels, limits)
                drawing.title(one, self.title.split(":")[0], mechanism)
            else:
                mesh = np.log10(self.mesh) - 2 * X - 2 * Y
                one.plot_wireframe(X, Y, mesh, color=style.FAINT, linewidth=0.6, alpha=0.8)
                logs = np.log10(z)
                one.scatter(X, Y, logs, c=logs, cmap=drawing.SURFACE, s=16, depthshade=False, edgecolor="none")
                drawing.exponents(one, X, Y, labels, (min(limits[0], float(np.floor(mesh.min()))), limits[1]))
                drawing.title(one, "Points: runs. Mesh: the paper's $2.1\\cdot10^9/(n^2\\epsilon^2)$", mechanism)
            one.view_init(24, 42)
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        mine = [r for r in rows if r["mechanism"] == self.grid.mechanisms[0]]
        _, _, z = table(mine)
        falls = float(np.mean(np.concatenate([(np.diff(z, axis=0) < 0).ravel(), (np.diff(z, axis=1) < 0).ravel()])))
        found = [
            Comparison("share of neighbouring points where more records or budget help", "1", falls, falls >= MOST)
        ]
        if self.mesh is not None:
            law, ratios = _exact_law(mine), [r["mean"] * (r["records"] * r["epsilon"]) ** 2 / self.mesh for r in mine]
            found += [
                Comparison("fitted c of c/(n²ε²)", f"{self.mesh:.2g}", law, within(law, self.mesh, PRINTED)),
                Comparison("least E ψ over the paper's mesh", "within 5", min(ratios), min(ratios) >= 1 / READ_OFF),
                Comparison("largest E ψ over the paper's mesh", "within 5", max(ratios), max(ratios) <= READ_OFF),
            ]
        return Judgement.of(found, self.why, "every number that the paper gives is met.")


LENDING = Grid(S_LENDING, ("as written", "sound"), (1e3, 1e5, 10))
CARDS = Grid(S_CARDS, ("as written", "sound"), (1e3, 8e4, 5), (0.1, 10.0, 5))
ASYNC_LENDING = Grid(A_LENDING, ("as published", "sound"), (1e3, 1e5, 10))
ASYNC_CARDS = Grid(A_CARDS, ("as published", "sound"), (1e4, 8e4, 5), (0.1, 10.0, 5))

_KINK = (
    "ψ falls with both, and more slowly than −2 where the noise is small: there the transient of T = 100 rounds on a "
    "loss with a kink is left, which neither ε nor n_i changes; where the noise is large the hinge grows like |θ|, not "
    "θ²."
)

GRIDS: tuple[Figure, ...] = (
    Surface(
        "sync-fig3",
        "S, Fig. 3",
        "S2 on lending: E ψ after T = 100 rounds",
        "The fitness improves with the size of the data sets and with the budgets.",
        LENDING,
    ),
    Slopes(
        "sync-fig4",
        "S, Fig. 4",
        "S2 on lending: E ψ against ε",
        "On log-log axes ψ falls with ε along lines of slope −2.",
        LENDING,
        ("epsilon",),
    ),
    Slopes(
        "sync-fig5",
        "S, Fig. 5",
        "S2 on lending: E ψ against n_i",
        "On log-log axes ψ falls with n_i along lines of slope −2.",
        LENDING,
        ("records",),
    ),
    Surface(
        "sync-fig8",
        "S, Fig. 8",
        "S2 on card fraud: E ψ after T = 100 rounds",
        "The fitness improves with the size of the data sets and with the budgets.",
        CARDS,
        why=_KINK,
    ),
    Slopes(
        "sync-fig9",
        "S, Fig. 9",
        "S2 on card fraud: E ψ against ε",
        "On log-log axes ψ falls with ε along lines of slope −2.",
        CARDS,
        ("epsilon",),
        _KINK,
    ),
    Slopes(
        "sync-fig10",
        "S, Fig. 10",
        "S2 on card fraud: E ψ against n_i",
        "On log-log axes ψ falls with n_i along lines of slope −2.",
        CARDS,
        ("records",),
        _KINK,
    ),
    Surface(
        "async-fig4",
        "A, Fig. 4",
        "A1 on lending: E ψ after T = 1,000 iterations",
        "ψ lies on the mesh 2.1e9/(n_i² ε²).",
        ASYNC_LENDING,
        2.1e9,
    ),
    Slopes(
        "async-fig5",
        "A, Fig. 5",
        "A1 on lending: E ψ after T = 1,000",
        "On log-log axes ψ falls with ε, and with n_i, along lines of slope −2.",
        ASYNC_LENDING,
        ("epsilon", "records"),
        "not every slope is −2: those that are drawn have half of the g that A prints, as A's code has; with the g as printed, "
        "which the table has and the picture has not, the flattest slopes are those where noise is least.",
        printed=A_LENDING_PRINTED,
    ),
    Hospitals(),
    Slopes(
        "async-fig11",
        "A, Fig. 11",
        "A1 on card fraud: E ψ after T = 100",
        "ψ improves with ε and with n_i; the bound of slope −2 is less tight as n_i grows.",
        ASYNC_CARDS,
        ("epsilon", "records"),
        _KINK,
        says=False,
        tenfold=True,
    ),
)
