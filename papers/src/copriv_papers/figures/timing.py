"""Who talks: i_k against k of one run, every owner on a Poisson clock (A, Figs. 3 and 8)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure as Picture
from scipy.stats import chisquare, kstest

from copriv.pictures import style
from copriv_papers import drawing
from copriv_papers.consortia import A_HOSPITAL, A_LENDING, Setting, hospital_records
from copriv_papers.figure import Cell, Comparison, Effort, Figure, Judgement, Row
from copriv_papers.trials import Outcome, Trial


@dataclass(frozen=True)
class Timing:
    """A strip of one run's events."""

    identity: str
    source: str
    title: str
    claim: str
    setting: Setting
    records: tuple[int, ...]
    """n_i; empty: the hospitals'."""

    def plan(self, effort: Effort) -> list[Cell]:
        """One run."""
        setting = self.setting.on(effort.paths)
        records = self.records or hospital_records(setting, effort.paths)
        agreement = setting.agreement(records, [1.0] * len(records), "sound", effort.paths, schedule="poisson")
        return [Cell({"mechanism": "sound"}, Trial(agreement, "sound", 1, setting.held_out))]

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        """One row an event; owners count from 1."""
        N = cells[0].trial.agreement.n_owners
        return [
            {"k": k, "owners": N, "owner": int(i) + 1, "time": t}
            for k, (t, i) in enumerate(outcomes[0].events, start=1)
        ]

    def draw(self, rows: Sequence[Row]) -> Picture:
        N = rows[0]["owners"]
        k, i = np.array([r["k"] for r in rows]), np.array([r["owner"] for r in rows])
        figure, (axes,) = drawing.picture(2, width=9.4, height=2.2 if N < 10 else 3.4, width_ratios=(2, 1))
        whole, start = axes
        whole.plot(k, i, "|" if N < 10 else ".", color=style.TOGETHER, ms=9 if N < 10 else 3.2, mew=0.5)
        whole.set_title(f"One run: the owner that talks at iteration k, N = {N}")
        first = k <= 60
        start.step(k[first], i[first], where="mid", color=style.GRID, linewidth=1)
        start.plot(k[first], i[first], "o", color=drawing.EPSILON_COLOURS[0], ms=3)
        start.set_title("The first 60")
        for one in axes:
            one.set_xlabel("iteration k")
            one.set_ylabel("$i_k$")
            one.set_ylim(0.5 if N < 10 else 0, N + (0.5 if N < 10 else 1))
            if N < 10:
                one.set_yticks(range(1, N + 1))
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """Uniform choices, exponential waits of rate N."""
        N = rows[0]["owners"]
        counts = np.bincount([r["owner"] - 1 for r in rows], minlength=N)
        waits = np.diff([0.0, *(r["time"] for r in rows)])
        wait = float(waits.mean() * N)
        uniform, exponential = float(chisquare(counts).pvalue), float(kstest(waits, "expon", args=(0, 1 / N)).pvalue)
        found = (
            Comparison("p-value of owners being chosen uniformly (χ²)", "above 0.01", uniform, uniform > 0.01),
            Comparison("p-value of waits being exponential of rate N", "above 0.01", exponential, exponential > 0.01),
            Comparison("mean wait times N", "1", wait, abs(wait - 1) < 0.15),
        )
        return Judgement.of(
            found,
            "the clocks are not those of the paper.",
            "one owner at a time, uniformly at random, after exponential waits.",
        )


TIMINGS: tuple[Figure, ...] = (
    Timing(
        "async-fig3",
        "A, Fig. 3",
        "A1 on lending: who talks",
        "At each iteration one of the three owners talks, chosen by Poisson clocks of equal rate.",
        A_LENDING,
        (250_000,) * 3,
    ),
    Timing(
        "async-fig8",
        "A, Fig. 8",
        "A1 on length of stay: who talks",
        "At each iteration only one of the 86 hospitals talks.",
        A_HOSPITAL,
        (),
    ),
)
