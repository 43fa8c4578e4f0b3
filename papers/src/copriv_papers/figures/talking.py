"""How owners get their turns (A, §III): the time of a run and E ψ, by clocks, by offers and by requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture

from copriv.pictures.style import ALONE, FAINT, TOGETHER
from copriv_papers import drawing
from copriv_papers.consortia import A_LENDING
from copriv_papers.figure import Cell, Comparison, Effort, Figure, Judgement, Row
from copriv_papers.trials import Outcome, Trial
from copriv_papers.verdict import BEYOND_THEM

OWNERS, RECORDS, EPSILON = 3, 10_000, 10.0
WAITS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Of an interval between offers, or of a service, where a clock of rate 1 ticks once in a unit of time."""
KINDS = {"poisson": FAINT, "broadcast": TOGETHER, "request": ALONE[0]}


def terms(kind: str, wait: float) -> dict[str, Any]:
    """Keys of the agreement."""
    return {"schedule": kind, **{"broadcast": {"interval": wait}, "request": {"service": wait}}.get(kind, {})}


@dataclass(frozen=True)
class Talking:
    """One line a schedule, against how long it waits."""

    identity: str = "talk"
    source: str = "Beyond A"
    title: str = "Lending: time of a run and E ψ, by clocks, offers and requests"
    claim: str = (
        "The learner may broadcast offers, or owners may request a query (A, §III); what that costs is left open."
    )

    def plan(self, effort: Effort) -> list[Cell]:
        """Every schedule at every wait; A1 with private answers."""
        setting, cells = A_LENDING.on(effort.paths), []
        agreement = setting.agreement([RECORDS] * OWNERS, [EPSILON] * OWNERS, "sound", effort.paths)
        for kind in KINDS:
            for wait in WAITS[::2] if effort.quick else WAITS:
                trial = Trial(agreement.replace(agreement=terms(kind, wait)), "sound", effort.runs, setting.held_out)
                cells.append(Cell({"schedule": kind, "wait": wait}, trial))
        return cells

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        """Mean time of a run, and E ψ at its end."""
        pairs = zip(cells, outcomes, strict=True)
        return [{**cell.at, "answers": o.k[-1], "duration": o.duration, "mean": o.mean[-1]} for cell, o in pairs]

    def draw(self, rows: Sequence[Row]) -> Picture:
        figure, axes = drawing.picture(2, 1, 0.0, 3.4)
        for one, what, label in zip(
            axes[0], ("duration", "mean"), ("time of a run", "$\\mathrm{E}\\,\\psi$"), strict=True
        ):
            for (kind, colour), mark in zip(KINDS.items(), drawing.MARKERS, strict=False):
                mine = [r for r in rows if r["schedule"] == kind]
                one.plot([r["wait"] for r in mine], [r[what] for r in mine], f"-{mark}", color=colour, ms=5, label=kind)
            one.set_xscale("log")
            one.set_yscale("log")
            one.set_xlabel("interval of offers, or service")
            one.set_ylabel(label)
            drawing.title(one, "Time" if what == "duration" else "Cost", "sound", short=what == "mean")
        ends = [r["mean"] for r in rows]
        axes[0, 1].set_ylim(min(ends) / 3, 3 * max(ends))
        axes[0, 0].legend(loc="upper left")
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """Times beside those of rules.md: 1/R, I/(1 − e^(−RI)) and s + 1/R an answer; and whether ψ differs."""
        found, R = [], float(OWNERS)
        for r in rows:
            law = {
                "poisson": 1.0 / R,
                "broadcast": r["wait"] / -np.expm1(-R * r["wait"]),
                "request": r["wait"] + 1.0 / R,
            }[r["schedule"]]
            words = f"{r['schedule']}, {r['wait']:g}: time of an answer over that of its law"
            found.append(Comparison(words, "", r["duration"] / r["answers"] / law, None))
        slowest = max(r["duration"] for r in rows) / min(r["duration"] for r in rows)
        spread = max(r["mean"] for r in rows) / min(r["mean"] for r in rows) - 1.0
        why = (
            "offers and requests change when owners answer, and hardly how often each of them does: a run takes up to "
            f"{slowest:.2g} times as long, and E ψ differs by {spread:.1%} at most."
        )
        return Judgement(BEYOND_THEM, why, tuple(found))


TALKING: Figure = Talking()
