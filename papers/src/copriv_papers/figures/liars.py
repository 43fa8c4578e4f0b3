"""Owners that lie, which A, §VI, leaves open: E ψ of robust rules over that of averaging honest answers, against f."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure as Picture

from copriv.pictures.style import ALONE, FAINT, TOGETHER
from copriv_papers import drawing
from copriv_papers.consortia import S_LENDING
from copriv_papers.figure import Cell, Comparison, Effort, Figure, Judgement, Row
from copriv_papers.trials import Outcome, Trial
from copriv_papers.verdict import BEYOND_THEM

RULES = {"filter": TOGETHER, "trimmed-mean": ALONE[0], "geometric-median": FAINT, "caf": ALONE[1]}
MOST = (1, 2, 4, 6)
OWNERS, RECORDS, EPSILON, HORIZON = 20, 2_000, 1.0, 100


@dataclass(frozen=True)
class Liars:
    """One line a rule, against the number f of owners that it bears; nobody lies, or f owners answer with the other sign."""

    identity: str = "liars"
    source: str = "Beyond A"
    title: str = "Lending: E ψ of robust rules over that of averaging honest answers, against how many liars they bear"
    claim: str = "Adversaries that are more general than curious-but-honest owners are left open (S, §V; A, §VI)."

    def plan(self, effort: Effort) -> list[Cell]:
        """Every rule at every f, with honest owners and with f that lie; S2, and averaging for comparison."""
        setting = replace(S_LENDING.on(effort.paths), horizon=HORIZON)
        averaged = setting.agreement([RECORDS] * OWNERS, [EPSILON] * OWNERS, "sound", effort.paths)
        averaged = averaged.replace(data={"heterogeneity": 0.0})
        cells = [Cell({"rule": "mean", "f": 0, "lie": 0}, Trial(averaged, "sound", effort.runs, setting.held_out))]
        for rule in RULES:
            for f in MOST[1:3] if effort.quick else MOST:
                robust = averaged.replace(agreement={"robust": f, "robust_by": rule})
                for lie in (0, f):
                    trial = Trial(robust, "sound", effort.runs, setting.held_out, flipped=lie)
                    cells.append(Cell({"rule": rule, "f": f, "lie": lie}, trial))
        return cells

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        """E ψ at the end, and how many times that of averaging it is."""
        honest = outcomes[0].mean[-1]
        return [
            {**cell.at, "mean": o.mean[-1], "times": o.mean[-1] / honest, "held_out": o.held_out}
            for cell, o in zip(cells, outcomes, strict=True)
        ]

    def draw(self, rows: Sequence[Row]) -> Picture:
        figure, axes = drawing.picture(2, 1, 0.0, 3.4, sharey=True)
        for one, lying in zip(axes[0], (False, True), strict=True):
            for (rule, colour), mark in zip(RULES.items(), (*drawing.MARKERS, "^"), strict=True):
                mine = [r for r in rows if r["rule"] == rule and (r["lie"] > 0) == lying]
                one.plot([r["f"] for r in mine], [r["times"] for r in mine], f"-{mark}", color=colour, ms=5, label=rule)
            one.set_yscale("log")
            one.set_yticks((1, 2, 3, 5, 10), ("1", "2", "3", "5", "10"))
            one.minorticks_off()
            one.set_xlabel(f"f, of {OWNERS} owners")
            one.set_ylabel("" if lying else "$\\mathrm{E}\\,\\psi$ over that of honest averaging")
            one.set_xticks(sorted({r["f"] for r in rows if r["f"]}))
            drawing.title(one, "f owners answer with the other sign" if lying else "Nobody lies", "sound", short=lying)
        axes[0, 0].legend(loc="upper left")
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """What each rule costs where nobody lies, and what is left where f owners do."""
        at = {(r["rule"], r["f"], r["lie"] > 0): r["times"] for r in rows}
        f = 4 if any(key[1] == 4 for key in at) else max(key[1] for key in at)
        found = []
        for rule in RULES:
            for lying in (False, True):
                words = f"{rule}, f = {f}, {f'{f} lie' if lying else 'nobody lies'}"
                found.append(Comparison(f"{words}: times honest averaging", "", at[rule, f, lying], None))
        why = (
            f"of {OWNERS} owners that are alike, the filter that knows the noise costs {at['filter', f, False]:.3g} times "
            f"averaging where it bears {f} liars and nobody lies, and {at['filter', f, True]:.3g} times where {f} answer with "
            f"the other sign; a trimmed mean {at['trimmed-mean', f, False]:.3g} and {at['trimmed-mean', f, True]:.3g} times."
        )
        return Judgement(BEYOND_THEM, why, tuple(found))


LIARS: Figure = Liars()
