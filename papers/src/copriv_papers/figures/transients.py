"""ψ against k: median and the band of 25 to 75 % over runs, for three budgets (S, Figs. 2, 7; A, Figs. 2, 7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure as Picture

from copriv.pictures import style
from copriv_papers import drawing
from copriv_papers.consortia import (
    A_HOSPITAL,
    A_HOSPITAL_PRINTED,
    A_LENDING,
    A_LENDING_PRINTED,
    A_SIMULATED_HOSPITAL,
    A_SIMULATED_HOSPITAL_PRINTED,
    NOT_PRIVATE,
    S_CARDS,
    S_LENDING,
    Mechanism,
    Setting,
    Start,
    hospital_records,
)
from copriv_papers.figure import Cell, Comparison, Effort, Figure, Judgement, Row
from copriv_papers.trials import Outcome, Trial
from copriv_papers.unprinted_step import largest_gain
from copriv_papers.verdict import PRINTED, READ_OFF, within

EPSILONS = (0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Panel:
    """One panel: a setting, a mechanism and where θ starts."""

    title: str
    setting: Setting
    mechanism: Mechanism
    start: Start | None = None


@dataclass(frozen=True)
class Transient:
    """Panels of bands; `judged` is the panel that the paper's numbers are compared with."""

    identity: str
    source: str
    title: str
    claim: str
    panels: tuple[Panel, ...]
    records: tuple[int, ...]
    """n_i; empty: the hospitals'."""
    paper: dict[float, float]
    """ε → median ψ at the end, read off the paper's plot; empty where the paper gives no numbers."""
    judged: int = 0
    below: float | None = None
    """S, abstract: at ε = 1 ψ ends below this."""
    hundredfold: bool = False
    """S, §IV-A: raising ε from 1 to 10 improves ψ about 100 times."""
    why: str = "the order of the budgets is the paper's, the numbers are not."
    """What to say where a number differs."""
    why_all: str = "every number that the paper gives is met."
    starts: float | None = None
    """The paper's median ψ at k = 1."""
    declines: tuple[float, ...] = ()
    """Budgets at which the paper says that the median declines."""
    varies: bool = False
    """Whether the paper says that smaller budgets make the model vary more."""
    many_runs: int = 0
    """More runs of the papers' own settings than their 100, where those are too few for a median."""

    def plan(self, effort: Effort) -> list[Cell]:
        """Every panel at every budget."""
        settings = [panel.setting.on(effort.paths) for panel in self.panels]
        cards = self.panels[0].setting.dataset == "creditcard"
        runs = 10 if cards and effort.quick else effort.runs
        many = self.many_runs if self.many_runs and not effort.quick else runs
        private = min(runs, 10) if effort.quick else runs  # they look for what is clipped, answer by answer
        quick = effort.quick and cards
        records = [
            tuple(min(n, 5000) for n in self.records) if quick else self.records or hospital_records(one, effort.paths)
            for one in settings
        ]
        return [
            Cell(
                {"panel": panel.title, "mechanism": panel.mechanism, "epsilon": ε},
                Trial(
                    setting.agreement(n, [ε] * len(n), panel.mechanism, effort.paths, start=panel.start),
                    panel.mechanism,
                    many if panel.mechanism in NOT_PRIVATE else private,
                    setting.held_out,
                    record_at=None,
                ),
            )
            for panel, setting, n in zip(self.panels, settings, records, strict=True)
            for ε in EPSILONS
        ]

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        """One row a recorded iteration; for S's 100-fold also what any c₁ would give."""
        return [
            {**cell.at, "k": k, "p25": low, "median": middle, "p75": high, "mean": mean, **gain}
            for cell, o in zip(cells, outcomes, strict=True)
            for gain in (_of_any_step(cell) if self.hundredfold else {},)
            for k, low, middle, high, mean in zip(o.k, o.p25, o.median, o.p75, o.mean, strict=True)
        ]

    def draw(self, rows: Sequence[Row]) -> Picture:
        """A panel each, on shared axes."""
        columns = min(len(self.panels), 3)
        figure, axes = drawing.picture(columns, -(-len(self.panels) // columns), sharex=True, sharey=True)
        bar = "\\bar{\\theta}[k]" if self.panels[0].setting.rule == "S2" else "\\theta_{L,k}"
        for panel, one in zip(self.panels, axes.flat, strict=False):
            for ε, colour, mark in zip(EPSILONS, drawing.EPSILON_COLOURS, drawing.MARKERS, strict=True):
                line = [r for r in _of(rows, panel) if r["epsilon"] == ε and r["k"] > 0]
                low, middle, high = ([r[q] for r in line] for q in ("p25", "median", "p75"))
                drawing.band(one, [r["k"] for r in line], low, middle, high, colour, f"ε = {ε:g}", mark)
            if self.paper and panel is self.panels[self.judged]:
                for (_, ψ), colour, mark in zip(
                    self.paper.items(), drawing.EPSILON_COLOURS, drawing.MARKERS, strict=True
                ):
                    one.plot(
                        max(r["k"] for r in rows), ψ, mark, mfc="white", color=colour, ms=7, clip_on=False, zorder=5
                    )
                hollow = "hollow: the paper's\nmedian at the end"  # short lines, which the bands leave room for
                one.plot([], [], "o", mfc="white", color=style.FAINT, ms=7, label=hollow)
            drawing.log_axes(one, "iteration k" if panel.setting.rule == "A1" else "round k", f"$\\psi({bar})$")
            one.label_outer()
            drawing.title(one, panel.title, panel.mechanism)
        axes.flat[self.judged].legend(loc="best")
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """Medians at the end; the smaller ε, the worse."""
        mine = _of(rows, self.panels[self.judged])
        end = {ε: next(r["median"] for r in reversed(mine) if r["epsilon"] == ε) for ε in EPSILONS}
        ordered = end[0.1] > end[1.0] > end[10.0]
        found = [Comparison("ψ at the end falls as ε grows (0.1, 1, 10): 1 if so", "yes", float(ordered), ordered)]
        for ε, ψ in self.paper.items():
            found.append(
                Comparison(f"median ψ at the end, ε = {ε:g}", f"about {ψ:g}", end[ε], within(end[ε], ψ, READ_OFF))
            )
        if self.paper:
            a, b, c = EPSILONS
            for more, less in ((a, b), (b, c)):
                theirs, ours = self.paper[more] / self.paper[less], end[more] / end[less]
                what = f"ψ at the end, ε = {more:g} over ε = {less:g}"
                found.append(Comparison(what, f"about {theirs:.2g}", ours, within(ours, theirs, READ_OFF)))
        if self.starts is not None:
            first = next(r["median"] for r in mine if r["k"] > 0)
            holds = within(first, self.starts, READ_OFF)
            found.append(Comparison("median ψ at the first iteration", f"about {self.starts:g}", first, holds))
        for ε in self.declines:
            line = [r["median"] for r in mine if r["epsilon"] == ε and r["k"] > 0]
            what, fall = f"median ψ at the end over that at the first iteration, ε = {ε:g}", line[-1] / line[0]
            found.append(Comparison(what, "below 1", fall, fall < 1))
        if self.varies:
            ends = [next(r for r in reversed(mine) if r["epsilon"] == ε) for ε in EPSILONS]
            bands = [r["p75"] - r["p25"] for r in ends]
            for (more, wide), (less, narrow) in pairwise(zip(EPSILONS, bands, strict=True)):
                what = f"width of the band of ψ at the end, ε = {more:g} less ε = {less:g}"
                found.append(Comparison(what, "above 0", wide - narrow, wide > narrow))
        if self.below is not None:
            found.append(
                Comparison("median ψ at the end, ε = 1", f"below {self.below}", end[1.0], end[1.0] < self.below)
            )
        if self.hundredfold:
            gain = end[1.0] / end[10.0]
            found.append(Comparison("ψ at ε = 1 over ψ at ε = 10", "about 100", gain, within(gain, 100.0, PRINTED)))
            for panel in self.panels:
                for row in [r for r in _of(rows, panel) if np.isfinite(r.get("gain_of_any_step", np.nan))][:1]:
                    what = f"{panel.title}: the same at the best of any c₁ (exact recursion)"
                    found += [
                        Comparison(f"{what}; it is c₁ = {row['best_step']:,.0f}", "", row["gain_of_any_step"], None),
                        Comparison(
                            f"{what} at which no run is ever farther than its start", "", row["calm_gain"], None
                        ),
                    ]
        found += self._other_panels(rows)
        return Judgement.of(found, self.why, self.why_all)

    def _other_panels(self, rows: Sequence[Row]) -> list[Comparison]:
        """Medians at the end of the other panels without privacy: what the paper's own settings leave open decides."""
        others = [p for i, p in enumerate(self.panels) if i != self.judged and p.mechanism in NOT_PRIVATE]
        return [
            Comparison(f"{panel.title}: median ψ at the end, ε = {ε:g}", "", end, None)
            for panel in others
            for ε in EPSILONS
            for end in [next(r["median"] for r in reversed(_of(rows, panel)) if r["epsilon"] == ε)]
        ]


def _of_any_step(cell: Cell) -> Row:
    """For one budget a panel is enough: it says nothing of the cell's own."""
    if cell.trial.mechanism not in NOT_PRIVATE or cell.at["epsilon"] != EPSILONS[0]:
        return {"gain_of_any_step": float("nan"), "best_step": float("nan"), "calm_gain": float("nan")}
    found = largest_gain(cell.trial)
    return {"gain_of_any_step": found.gain, "best_step": found.step, "calm_gain": found.calm}


def _of(rows: Sequence[Row], panel: Panel) -> list[Row]:
    return [r for r in rows if r["panel"] == panel.title and r["mechanism"] == panel.mechanism]


TRANSIENTS: tuple[Figure, ...] = (
    Transient(
        "sync-fig2",
        "S, Fig. 2",
        "S2 on lending: ψ against the round, T = 100",
        "Larger budgets end at better models; from ε = 1 to ε = 10 ψ improves about 100 times.",
        (
            Panel("θ[1] = the public rows' optimum", S_LENDING, "as written"),
            Panel("θ[1] = 0: the average remembers it", S_LENDING, "as written", "zero"),
            Panel("θ[1] = the public rows' optimum", S_LENDING, "sound"),
        ),
        (250_000,) * 3,
        {},
        hundredfold=True,
        why_all=(
            "every number that S gives is met. S prints neither c₁ nor where θ starts, which decide it: from 0 the average "
            "keeps the start, which no budget changes, and the gain is hardly any (the panel in the middle)."
        ),
        why=(
            "larger budgets end at better models, as in the paper; from ε = 1 to ε = 10 the gain is less than half of 100, "
            "as at ε = 10 a part of what is left is the start, which no budget changes (the panel in the middle). S prints "
            "neither c₁ nor θ[1], and they decide it: below is what the best of any c₁ would give. Near 100 it is only from a "
            "good start and with a c₁ whose first rounds overshoot before they come back; ours comes from public rows, which "
            "cannot know that the pool has one long record that makes its curvature seven times theirs."
        ),
    ),
    Transient(
        "sync-fig7",
        "S, Fig. 7",
        "S2 on card fraud: ψ against the round, T = 100",
        "At ε = 1 with 30,000 records a bank, the private fraud detector comes within 10 % of the non-private one.",
        (
            Panel("Three banks, 30,000 records each", S_CARDS, "as written", "zero"),
            Panel("Three banks, 30,000 records each", S_CARDS, "sound", "zero"),
        ),
        (30_000,) * 3,
        {},
        below=0.1,
    ),
    Transient(
        "async-fig2",
        "A, Fig. 2",
        "A1 on lending: ψ against the iteration, T = 1,000",
        "The median declines to a neighbourhood of the optimum; larger budgets end lower and vary less.",
        (
            Panel("As A prints: from 0, g = 10⁻⁵·θᵀθ", A_LENDING_PRINTED, "as published"),
            Panel("As A's code: from [0, 1]ᵖ, half of that g", A_LENDING, "as published", "random"),
            Panel("As A prints", A_LENDING_PRINTED, "sound"),
        ),
        (250_000,) * 3,
        {0.1: 0.45, 1.0: 0.04, 10.0: 0.008},
        declines=EPSILONS,
        varies=True,
        many_runs=1000,
        why=(
            "the order and the decline are the paper's. Of three ends not all are within a factor of 5: noise "
            "gives ψ ∝ 1/ε² here, so the three ends lie further apart "
            "than those read off the paper's plot; those do not agree with its own Fig. 4, whose 2.1e9/(n²ε²) would be "
            "3.4, 0.034 and 0.0003 at n = 250,000."
        ),
    ),
    Transient(
        "async-fig7",
        "A, Fig. 7",
        "A1 on length of stay, 86 hospitals: ψ against the iteration, T = 1,000",
        "For large budgets the median declines to a neighbourhood of the optimum; larger budgets end lower.",
        (
            Panel("Real stays, as A prints: from 0", A_HOSPITAL_PRINTED, "as published"),
            Panel("Real stays, as A's code: from [0, 1]ᵖ", A_HOSPITAL, "as published"),
            Panel("Real stays, as A prints", A_HOSPITAL_PRINTED, "sound"),
            Panel("Simulated discharges, as A prints", A_SIMULATED_HOSPITAL_PRINTED, "as published"),
            Panel("Simulated discharges, as A's code", A_SIMULATED_HOSPITAL, "as published"),
            Panel("Simulated discharges, as A prints", A_SIMULATED_HOSPITAL_PRINTED, "sound"),
        ),
        (),
        {0.1: 30.0, 1.0: 0.5, 10.0: 0.12},
        starts=0.5,
        declines=(10.0,),
        why=(
            "the data are others: 101,766 stays of diabetics cut into 86 owners by payer and specialty, or simulated "
            "discharges, in place of New York's 2.35 million."
        ),
    ),
)
