"""E ψ over a grid of n_i and ε: as a surface, against ε, against n_i (S, Figs. 3–5, 8–10; A, Figs. 4, 5, 9, 11).

One file, longer than others: the same cells are drawn three ways, and each figure is a table of what its paper says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure as Picture

from copriv.experiments import drawing
from copriv.experiments.consortia import (
    A_CARDS,
    A_HOSPITAL,
    A_LENDING,
    A_SIMULATED_HOSPITAL,
    NOT_PRIVATE,
    S_CARDS,
    S_LENDING,
    Mechanism,
    Setting,
    hospital_records,
)
from copriv.experiments.runner import Cell, Comparison, Effort, Figure, Judgement, Row
from copriv.experiments.trials import Outcome, Trial
from copriv.types import Array

Axis = Literal["epsilon", "records"]
LABEL = {"epsilon": "$\\epsilon_i$, every owner", "records": "$n_i$, every owner"}
EXPECTED = "$\\mathrm{E}\\,\\psi$"


@dataclass(frozen=True)
class Grid:
    """Three equal owners over a grid: what the figures below share, so that they share its trials."""

    setting: Setting
    mechanisms: tuple[Mechanism, ...]
    records: tuple[float, float, int]
    """From, to, how many: evenly on a log axis."""
    epsilons: tuple[float, float, int] = (0.1, 10.0, 10)

    def axes(self, effort: Effort, mechanism: Mechanism) -> tuple[Array, Array]:
        """n_i and ε along the axes; every other point where A1 clips, which costs a pass over records an answer."""
        low, high, points = self.records
        budgets = self.epsilons[2]
        if self._slow(mechanism):
            points, budgets = (points + 1) // 2, (budgets + 1) // 2
        if effort.quick:
            high = min(high, 20 * low, 30_000 if self.setting.dataset == "creditcard" else high)
        n = np.geomspace(low, high, effort.grid(points))
        return np.round(n), np.geomspace(self.epsilons[0], self.epsilons[1], effort.grid(budgets))

    def plan(self, effort: Effort) -> list[Cell]:
        """Every mechanism at every point."""
        setting = self.setting.on(effort.paths)
        cards = setting.dataset == "creditcard"
        return [
            Cell(
                {"mechanism": mechanism, "records": int(records), "epsilon": float(budget)},
                Trial(
                    setting.agreement([int(records)] * 3, [float(budget)] * 3, mechanism, effort.paths),
                    mechanism,
                    effort.few_runs if cards or self._slow(mechanism) else effort.runs,
                    setting.held_out,
                ),
            )
            for mechanism in self.mechanisms
            for n, ε in (self.axes(effort, mechanism),)
            for records in n
            for budget in ε
        ]

    def _slow(self, mechanism: Mechanism) -> bool:
        return mechanism == "sound" and self.setting.rule == "A1"


def final_rows(cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
    """One row a cell: ψ at the end."""
    return [
        {
            **cell.at,
            "mean": o.mean[-1],
            "p25": o.p25[-1],
            "median": o.median[-1],
            "p75": o.p75[-1],
            "held_out": o.held_out,
            **({} if o.precision_recall is None else {"precision_recall_area": o.precision_recall}),
            "clipped": o.clipped,
        }
        for cell, o in zip(cells, outcomes, strict=True)
    ]


def slope(x: Any, y: Any) -> float:
    """Least-squares slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def table(rows: Sequence[Row], x: str = "records", y: str = "epsilon") -> tuple[Array, Array, Array]:
    """The two axes and E ψ, a row an x and a column a y."""
    xs, ys = sorted({r[x] for r in rows}), sorted({r[y] for r in rows})
    z = np.array([[next(r["mean"] for r in rows if r[x] == a and r[y] == b) for b in ys] for a in xs])
    return np.array(xs, dtype=np.float64), np.array(ys, dtype=np.float64), z


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
                one.plot_wireframe(X, Y, mesh, color=drawing.MUTED, linewidth=0.6, alpha=0.8)
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
        found = [Comparison("share of neighbouring points where more records or budget help", "1", falls, falls > 0.9)]
        if self.mesh is not None:
            law, ratios = _exact_law(mine), [r["mean"] * (r["records"] * r["epsilon"]) ** 2 / self.mesh for r in mine]
            found += [
                Comparison("fitted c of c/(n²ε²)", f"{self.mesh:.2g}", law, self.mesh / 5 <= law <= 5 * self.mesh),
                Comparison("least E ψ over the paper's mesh", "within 5", min(ratios), min(ratios) >= 1 / 5),
                Comparison("largest E ψ over the paper's mesh", "within 5", max(ratios), max(ratios) <= 5),
            ]
        return Judgement.of(found, falls > 0.6, self.why, "every number compared holds.")


@dataclass(frozen=True)
class Slopes:
    """Slices of a grid on log-log axes: markers are runs, lines of slope −2 are fitted to them."""

    identity: str
    source: str
    title: str
    claim: str
    grid: Grid
    along: tuple[Axis, ...]
    why: str = "ψ falls, with other slopes."
    """What to say where slopes are not −2."""

    def plan(self, effort: Effort) -> list[Cell]:
        return self.grid.plan(effort)

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        return final_rows(cells, outcomes)

    def draw(self, rows: Sequence[Row]) -> Picture:
        figure, axes = drawing.picture(len(self.grid.mechanisms), len(self.along), sharey=True)
        for line, axis in enumerate(self.along):
            for column, mechanism in enumerate(self.grid.mechanisms):
                one = axes[line, column]
                _slices(one, [r for r in rows if r["mechanism"] == mechanism], axis)
                drawing.log_axes(one, LABEL[axis], EXPECTED if column == 0 else "")
                drawing.title(one, self.title.split(":")[0] if line == 0 else "", mechanism)
                one.legend(loc="upper right", fontsize=7)
        # Slopes fall from the top left and no corner is free for sure: the legends get room of their own above the data.
        low, high = one.get_ylim()
        one.set_ylim(low, high * (high / low) ** 0.45)
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """Every panel: the paper's own settings, and those that keep what they promise."""
        found: list[Comparison] = []
        shape, outside, clipped = [], {}, {}
        for mechanism in self.grid.mechanisms:
            mine = [r for r in rows if r["mechanism"] == mechanism]
            slopes = []
            for axis in self.along:
                for other, points in _cuts(mine, axis):
                    x, y = [r[axis] for r in points], [r["mean"] for r in points]
                    slopes.append(slope(x, y))
                    held = "n_i" if axis == "epsilon" else "ε"
                    what = f"{mechanism}: slope against {axis} at {held} = {other:g} ({_clipped(points):.0%} clipped)"
                    found.append(Comparison(what, "−2", slopes[-1], abs(slopes[-1] + 2) <= 0.15))
                    shape.append(y[-1] < y[0])
            if max(abs(s + 2) for s in slopes) > 0.15:
                outside[mechanism] = slopes
            clipped[mechanism] = _clipped(mine)
        why = self.why
        private = [m for m in outside if m not in NOT_PRIVATE]
        for mechanism in private:
            s = outside[mechanism]
            why += (
                f" Panels that are private ({mechanism}) have slopes from {min(s):.2f} to {max(s):.2f}: there "
                f"{clipped[mechanism]:.0%} of all gradients are clipped, the more the farther noise has carried θ, and a "
                "clipped gradient no longer grows with the distance, so that ψ is not of the law of the squared loss."
            )
        if not outside:
            why = "every slope of every panel is −2 within 0.15."
        elif list(outside) == private:
            own = "every slope of the paper's own settings is −2 within 0.15, and those of private panels are not."
            why = own + why.removeprefix(self.why)
        return Judgement.of(found, all(shape), why)


def _clipped(rows: Sequence[Row]) -> float:
    """The mean share of gradients that were clipped; 0 where nobody counted."""
    return float(np.mean([r.get("clipped", 0.0) for r in rows]))


def _cuts(rows: Sequence[Row], axis: Axis) -> list[tuple[float, list[Row]]]:
    """The first, middle and last value of the other axis, each with its points along `axis`."""
    other = "records" if axis == "epsilon" else "epsilon"
    values = sorted({r[other] for r in rows})
    chosen = sorted({values[0], values[len(values) // 2], values[-1]})
    return [(v, sorted((r for r in rows if r[other] == v), key=lambda r: float(r[axis]))) for v in chosen]


def _slices(axes: Any, rows: Sequence[Row], axis: Axis) -> None:
    held = "$n_i$" if axis == "epsilon" else "$\\epsilon_i$"
    for (other, points), colour, marker in zip(
        _cuts(rows, axis), drawing.EPSILON_COLOURS, drawing.MARKERS, strict=False
    ):
        x, y = np.array([r[axis] for r in points], dtype=float), np.array([r["mean"] for r in points])
        _line(axes, x, y, colour)
        label = f"{held} = {other:,.0f}" if axis == "epsilon" else f"{held} = {other:.2g}"
        clipped = _clipped(points)
        share = f", {clipped:.0%} clipped" if clipped > 0 else ""
        axes.plot(x, y, marker, color=colour, ms=4.5, label=f"{label}: slope {slope(x, y):.2f}{share}")
    axes.plot([], [], color=drawing.MUTED, linewidth=1.1, label="fitted line of slope −2")


def _line(axes: Any, x: Array, y: Array, colour: str) -> None:
    """A line of slope −2, fitted where noise is most of ψ: above four times the least of it."""
    noisy = (y > 4 * y.min()) | (y == y.max())
    level = np.exp(np.mean(np.log(y[noisy]) + 2 * np.log(x[noisy])))
    axes.plot(x, level / x**2, color=colour, linewidth=1.1)


@dataclass(frozen=True)
class Hospitals:
    """A, Fig. 9: E ψ of 86 hospitals against ε, with a fitted line of slope −2."""

    identity: str = "async-fig9"
    source: str = "A, Fig. 9"
    title: str = "A1 on length of stay, 86 hospitals: E ψ against ε"
    claim: str = "ψ falls rapidly as ε grows, as 1/ε²."
    settings: tuple[Setting, ...] = (A_HOSPITAL, A_SIMULATED_HOSPITAL)
    mechanisms: tuple[Mechanism, ...] = ("as published", "sound")

    def plan(self, effort: Effort) -> list[Cell]:
        return [
            Cell(
                {"dataset": setting.dataset, "mechanism": mechanism, "epsilon": float(ε)},
                Trial(
                    setting.agreement(records, [float(ε)] * len(records), mechanism, effort.paths),
                    mechanism,
                    effort.few_runs if mechanism == "sound" else effort.runs,
                    setting.held_out,
                ),
            )
            for setting in (one.on(effort.paths) for one in self.settings)
            for records in (hospital_records(setting, effort.paths),)
            for mechanism in self.mechanisms
            for ε in np.geomspace(0.1, 10, effort.grid(10))
        ]

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        return final_rows(cells, outcomes)

    def draw(self, rows: Sequence[Row]) -> Picture:
        figure, axes = drawing.picture(2, sharey=True)
        names = {"hospital": "real stays", "hospital-simulated": "simulated discharges"}
        for one, mechanism in zip(axes.flat, self.mechanisms, strict=True):
            for setting, colour, marker in zip(
                self.settings, drawing.EPSILON_COLOURS[::2], drawing.MARKERS, strict=False
            ):
                points = [r for r in rows if r["mechanism"] == mechanism and r["dataset"] == setting.dataset]
                x, y = np.array([r["epsilon"] for r in points]), np.array([r["mean"] for r in points])
                _line(one, x, y, colour)
                one.plot(x, y, marker, color=colour, ms=4.5, label=f"{names[setting.dataset]}: slope {slope(x, y):.2f}")
            one.plot([], [], color=drawing.MUTED, linewidth=1.1, label="fitted line of slope −2")
            drawing.log_axes(one, LABEL["epsilon"], EXPECTED)
            one.label_outer()
            drawing.title(one, "86 hospitals, 10,000 to 60,000 records", mechanism)
            one.legend(loc="upper right")
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        found = []
        for setting in self.settings:
            points = [r for r in rows if r["mechanism"] == "as published" and r["dataset"] == setting.dataset]
            s = slope([r["epsilon"] for r in points], [r["mean"] for r in points])
            found.append(Comparison(f"slope against ε, {setting.dataset}", "−2", s, abs(s + 2) <= 0.15))
        why = "the slope is −2 within 0.15 on both data sets."
        return Judgement.of(found, True, "ψ falls with ε, with another slope.", why)


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
    ),
)
