"""Pure ε against (ε, δ), which A's conclusion asks for: E ψ against T, from the exact recursion, with runs beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure as Picture

from copriv import mechanisms
from copriv.exact import OwnerKinds, expected_cost
from copriv.mechanisms.gradients import Gaussian, Laplace, LaplaceComposed
from copriv.mechanisms.mechanism import Guarantee
from copriv.rules import named
from copriv_papers import drawing
from copriv_papers.consortia import S_LENDING
from copriv_papers.figure import Cell, Comparison, Effort, Figure, Judgement, Row
from copriv_papers.trials import Outcome, Trial, loaded
from copriv_papers.verdict import BEYOND_THEM

DELTA = 1e-6
HORIZONS = (2, 5, 10, 20, 50, 100, 200, 500, 1000)
RECORDS, EPSILON = 30_000, 1.0
PURE, COMPOSED, NORMAL = Laplace.name, LaplaceComposed.name, Gaussian.name
NOISES = {
    PURE: "Laplace, pure ε = 1",
    COMPOSED: "Laplace, composed, δ = 10⁻⁶",
    NORMAL: "normal, δ = 10⁻⁶",
}


def exact(trial: Trial) -> tuple[float, float]:
    """E ψ at the end by the exact recursion, nothing clipped, and the variance of one owner's noise in one coordinate.

    The mean needs of the noise its variance alone, so a law of variance v is a Laplace one of scale √(v/2) to it.
    """
    agreement, problem = trial.agreement, loaded(trial.data).under(trial.agreement)
    q, rule = problem.fitness.quadratic, named(agreement.agreement.rule)
    recursion = rule.recursion(agreement)
    assert q is not None
    assert recursion is not None
    variance = agreement.mechanism.law(agreement).variance * agreement.noise_scales() ** 2
    owners = OwnerKinds.of(agreement.records, np.sqrt(variance / 2.0))
    found = expected_cost(recursion, q, owners, agreement.agreement.horizon, problem.start)
    return float(found[-1] / problem.optimum.value), float(variance[0])


@dataclass(frozen=True)
class Promises:
    """One line a kind of noise; marks are runs."""

    identity: str = "delta"
    source: str = "Beyond A"
    title: str = "Lending: E ψ against T for pure ε and for (ε, δ)"
    claim: str = (
        "(ε, δ) changes a constant at best, and ε is used for simplicity (A, Remark 3); its trade-off is left open."
    )

    def plan(self, effort: Effort) -> list[Cell]:
        """Every noise at every horizon; S2 on three banks, as S writes it."""
        setting = S_LENDING.on(effort.paths)
        cells = []
        for name in NOISES:
            for T in HORIZONS[::4] if effort.quick else HORIZONS:
                agreement = replace(setting, horizon=T).agreement(
                    [RECORDS] * 3, [EPSILON] * 3, "as written", effort.paths
                )
                pure = mechanisms.named(name).guarantee is Guarantee.PURE
                delta = {} if pure else {"owner": {"delta": DELTA}}
                agreement = agreement.replace(agreement={"mechanism": name}, **delta)
                trial = Trial(agreement, "as written", effort.runs, setting.held_out)
                cells.append(Cell({"noise": name, "horizon": T}, trial))
        return cells

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        """E ψ of runs and by the recursion, and the variance of one owner's noise in one coordinate."""
        made = []
        for cell, o in zip(cells, outcomes, strict=True):
            ψ, variance = exact(cell.trial)
            made.append({**cell.at, "mean": o.mean[-1], "exact": ψ, "variance": variance, "held_out": o.held_out})
        return made

    def draw(self, rows: Sequence[Row]) -> Picture:
        figure, axes = drawing.picture(1, 1, 6.2, 3.6)
        one = axes[0, 0]
        for (name, words), colour, mark in zip(NOISES.items(), drawing.EPSILON_COLOURS, drawing.MARKERS, strict=True):
            mine = [r for r in rows if r["noise"] == name]
            T = [r["horizon"] for r in mine]
            one.plot(T, [r["exact"] for r in mine], color=colour)
            one.plot([], [], f"-{mark}", color=colour, ms=5, label=words)
            one.plot(T, [r["mean"] for r in mine], mark, color=colour, ms=5)
        drawing.log_axes(one, "horizon T: every owner answers T − 1 times", "$\\mathrm{E}\\,\\psi$")
        drawing.title(one, "Lines: exact recursion. Marks: runs", "as written")
        one.legend(loc="upper left")
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """The best T of each noise, how much less variance normal noise has, and whether runs agree."""
        found, best = [], {}
        last = max(r["horizon"] for r in rows)
        for name, words in NOISES.items():
            mine = [r for r in rows if r["noise"] == name]
            least = best[name] = min(mine, key=lambda r: float(r["exact"]))
            found += [
                Comparison(f"{words}: least E ψ over T", "", least["exact"], None),
                Comparison(f"{words}: the T that reaches it", "", least["horizon"], None),
            ]
        at = {(r["noise"], r["horizon"]): float(r["variance"]) for r in rows}
        for T in sorted({r["horizon"] for r in rows}):
            ratio = at[PURE, T] / at[NORMAL, T]
            found.append(Comparison(f"variance of Laplace over normal noise, T = {T:,}", "a constant", ratio, None))
        off = [r["mean"] / r["exact"] for r in rows]
        found += [
            Comparison("runs over exact, least", "1", min(off), min(off) > 0.8),
            Comparison("runs over exact, largest", "1", max(off), max(off) < 1.25),
        ]
        ratio = at[PURE, last] / at[NORMAL, last]
        why = (
            f"the variance of Laplace noise is {ratio:.0f} times that of normal noise at T = {last:,}, ε = 1 and δ = 10⁻⁶, and "
            "the ratio grows with T and falls with ε (the table of claims has both), so it is a constant in neither. (ε, δ) "
            "pays where many answers are given and budgets are small; with "
            f"the best T of each, {best[PURE]['horizon']} and {best[NORMAL]['horizon']}, the least E ψ is "
            f"{best[PURE]['exact']:.2g} pure and {best[NORMAL]['exact']:.2g} with δ."
        )
        return Judgement(BEYOND_THEM, why, tuple(found))


PROMISES: Figure = Promises()
