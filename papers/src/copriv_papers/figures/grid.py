"""A grid of n_i and ε for three equal owners, and how its cells become rows: what surfaces and their slices share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from copriv.types import Array
from copriv_papers.consortia import Mechanism, Setting
from copriv_papers.figure import Cell, Effort, Row
from copriv_papers.trials import Outcome, Trial

Axis = Literal["epsilon", "records"]
LABEL = {"epsilon": "$\\epsilon_i$, every owner", "records": "$n_i$, every owner"}
EXPECTED = "$\\mathrm{E}\\,\\psi$"
LEAST = 5
"""Points that show how a line bends: fewer would show a slope and nothing else."""


@dataclass(frozen=True)
class Grid:
    """Three equal owners over a grid: what the figures below share, so that they share its trials."""

    setting: Setting
    mechanisms: tuple[Mechanism, ...]
    records: tuple[float, float, int]
    """From, to, how many: evenly on a log axis."""
    epsilons: tuple[float, float, int] = (0.1, 10.0, 10)

    def axes(self, effort: Effort, mechanism: Mechanism) -> tuple[Array, Array]:
        """n_i and ε along the axes; no more than LEAST where A1 clips, which costs a pass over records an answer."""
        low, high, points = self.records
        budgets = self.epsilons[2]
        if self._slow(mechanism):
            points, budgets = min(points, LEAST), min(budgets, LEAST)
        if effort.quick:
            high = min(high, 20 * low, 30_000 if self.setting.dataset == "creditcard" else high)
        n = np.geomspace(low, high, effort.grid(points))
        return np.round(n), np.geomspace(self.epsilons[0], self.epsilons[1], effort.grid(budgets))

    def plan(self, effort: Effort) -> list[Cell]:
        """Every mechanism at every point."""
        setting = self.setting.on(effort.paths)
        cards = setting.dataset == "creditcard"
        if effort.quick and cards:
            # θ[1] and A1's step come from public rows, one pass after another.
            setting = replace(setting, public_rows=1000)
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
