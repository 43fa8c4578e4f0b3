"""Slices of a grid on log-log axes (S, Figs. 4, 5, 9, 10; A, Figs. 5, 9, 11): points are runs, lines are laws.

Where every slope of a slice is −2 a line of that slope is fitted to it, as in the papers. Where it is not, such a line
would leave the points by decades: drawn is then the law that holds there. For the squared loss that is `clipping_law`,
from the records and not fitted; for the hinge it is a + b/(nε) + c/(nε)², fitted to all points of the panel: a is the
transient that no budget removes, b is far from the optimum, where the hinge grows like |θ|.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import NullLocator
from scipy.optimize import nnls

from copriv.pictures import style
from copriv.types import Array
from copriv_papers import drawing
from copriv_papers.clipping_law import with_clipping
from copriv_papers.consortia import (
    A_HOSPITAL,
    A_SIMULATED_HOSPITAL,
    NOT_PRIVATE,
    Mechanism,
    Setting,
    hospital_records,
)
from copriv_papers.figure import Cell, Comparison, Effort, Judgement, Row
from copriv_papers.figures.grid import EXPECTED, LABEL, Axis, Grid, final_rows, slope
from copriv_papers.trials import Outcome, Trial
from copriv_papers.verdict import MOST, PRINTED, SLOPE, steep, within

AS_PRINTED = "g as printed"
"""Name, in place of a mechanism, of trials with the regulariser that A's text prints."""


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
    says: bool = True
    """Whether the paper prints that slopes are −2."""
    printed: Setting | None = None
    """What the paper prints where the grid has what its code has: judged as well, and not drawn."""
    tenfold: bool = False
    """Whether the paper says what ten times the budget, or the data, are worth, and that large n_i miss −2 by more."""

    def plan(self, effort: Effort) -> list[Cell]:
        if self.printed is None:
            return self.grid.plan(effort)
        as_printed = replace(self.grid, setting=self.printed, mechanisms=self.grid.mechanisms[:1]).plan(effort)
        named = [Cell({**cell.at, "mechanism": AS_PRINTED}, cell.trial) for cell in as_printed]
        return [*self.grid.plan(effort), *named]

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        """One a cell; `law` is what the law with clipping says, where a private panel draws it, and else empty."""
        made = final_rows(cells, outcomes)
        drawn = {id(r) for axis in self.along for m in self.grid.mechanisms for r in _drawn(made, m, axis)}
        for row, cell in zip(made, cells, strict=True):
            clipped = id(row) in drawn and cell.trial.mechanism not in NOT_PRIVATE
            row["law"] = with_clipping(cell.trial) if clipped and self.grid.setting.loss == "squared" else float("nan")
        return made

    def draw(self, rows: Sequence[Row]) -> Picture:
        figure, axes = drawing.picture(len(self.grid.mechanisms), len(self.along), sharey=True, height=3.9)
        for line, axis in enumerate(self.along):
            for column, mechanism in enumerate(self.grid.mechanisms):
                one = axes[line, column]
                hinge = self.grid.setting.loss == "hinge"
                _slices(one, [r for r in rows if r["mechanism"] == mechanism], axis, hinge)
                drawing.log_axes(one, LABEL[axis], EXPECTED if column == 0 else "")
                if axis == "records":
                    _sizes(one, [r["records"] for r in rows])
                drawing.title(one, self.title.split(":")[0] if line == 0 else "", mechanism)
                drawing.legend_below(one)
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """The paper's sentences against its own settings; of private panels, which it has not, what is found."""
        found: list[Comparison] = []
        slopes: dict[Mechanism, list[float]] = {}
        for mechanism in self.grid.mechanisms:
            for axis in self.along:
                for other, points in _cuts([r for r in rows if r["mechanism"] == mechanism], axis):
                    one = slope([r[axis] for r in points], [r["mean"] for r in points])
                    slopes.setdefault(mechanism, []).append(one)
                    held = "n_i" if axis == "epsilon" else "ε"
                    what = f"{mechanism}: slope against {axis} at {held} = {other:g} ({_clipped(points):.0%} clipped)"
                    judged = self.says and mechanism in NOT_PRIVATE
                    found.append(Comparison(what, "−2" if judged else "", one, steep(one) if judged else None))
        found += self._without_a_number(rows)
        printed = [
            Comparison(f"{AS_PRINTED}: slope against {axis} at {held}", "−2", one, steep(one))
            for axis in self.along
            for other, points in _lines([r for r in rows if r["mechanism"] == AS_PRINTED], axis)
            for held in (f"n_i = {other:.0f}" if axis == "epsilon" else f"ε = {other:.2g}",)
            for one in (slope([r[axis] for r in points], [r["mean"] for r in points]),)
        ]
        law = self._own_law(rows)
        why = " ".join(
            self._why_private(rows, mechanism, slopes[mechanism], law)
            for mechanism in slopes
            if mechanism not in NOT_PRIVATE
        )
        if self.grid.setting.loss == "hinge":
            why += (
                " Dashed is a + b/(nε) + c/(nε)², fitted to each panel's points: n and ε count only as their product."
            )
        own = f"every slope {next(one for one in slopes if one in NOT_PRIVATE)} is −2 within {SLOPE}."
        return Judgement.of((*found, *law, *printed), f"{self.why} {why}", f"{own if self.says else self.why} {why}")

    def _why_private(
        self, rows: Sequence[Row], mechanism: Mechanism, slopes: Sequence[float], law: Sequence[Comparison]
    ) -> str:
        """What is found where gradients are clipped."""
        clipped = _clipped([r for r in rows if r["mechanism"] == mechanism])
        said = (
            f"Private panels ({mechanism}) have slopes from {min(slopes):.2f} to {max(slopes):.2f}, with {clipped:.0%} of all "
            "gradients clipped: a clipped gradient does not grow with the distance."
        )
        ends = [one.ours for one in law if one.what.startswith(mechanism)]
        if not ends or self.grid.setting.loss == "hinge":
            return said
        return (
            f"{said} The dashed law, of which nothing is fitted, has one spread of θ for the whole run: points are "
            f"{ends[0]:.2g} to {ends[1]:.2g} times it where fewer than {MOSTLY:.0%} of the gradients are clipped. Where noise "
            "is small it ends at what clipping the longest records leaves, which neither n nor ε removes."
        )

    def _without_a_number(self, rows: Sequence[Row]) -> list[Comparison]:
        """A, §I and §V-C, of support vector machines: that ψ falls, where −2 is missed, and what ten times more is worth."""
        if not self.tenfold:
            return []
        mine = [r for r in rows if r["mechanism"] == self.grid.mechanisms[0]]
        every = {axis: _lines(mine, axis) for axis in self.along}
        falls = [np.diff([r["mean"] for r in line]) < 0 for lines in every.values() for _, line in lines]
        share = float(np.mean(np.concatenate(falls)))
        found = [
            Comparison("share of neighbouring points where more records or budget help", "1", share, share >= MOST)
        ]
        off = [abs(slope([r["epsilon"] for r in line], [r["mean"] for r in line]) + 2) for _, line in every["epsilon"]]
        what = "how much farther from −2 the slope against ε is at the largest n_i than at the smallest"
        found.append(Comparison(what, "above 0", off[-1] - off[0], off[-1] > off[0]))
        for axis, paper in (("epsilon", "10"), ("records", "above 100")):
            for other, line in every[axis]:  # type: ignore[index]
                gain = 10.0 ** -slope([r[axis] for r in line], [r["mean"] for r in line])
                held = "n_i" if axis == "epsilon" else "ε"
                holds = within(gain, 10.0, PRINTED) if axis == "epsilon" else gain > 100
                found.append(Comparison(f"ψ over ψ at ten times {axis}, {held} = {other:g}", paper, gain, holds))
        return found

    def _own_law(self, rows: Sequence[Row]) -> list[Comparison]:
        """How far points are from the law that is drawn where slopes are not −2."""
        found = []
        for mechanism in self.grid.mechanisms:
            mine = [r for r in rows if r["mechanism"] == mechanism]
            if self.grid.setting.loss == "hinge" and mine:
                a, b, c = kink_law(mine)
                ratios = [r["mean"] / (a + b / x + c / x**2) for r in mine for x in (r["records"] * r["epsilon"],)]
                words = f"{mechanism}: E ψ over a + b/(nε) + c/(nε)²"
                found += [Comparison(f"{words}, {end}", "", one, None) for end, one in _ends(ratios)]
                words = f"{mechanism}: exponent of the power law in ε and n_i that is fitted to all points"
                powers = zip(("ε", "n_i"), _powers(mine), strict=True)
                found += [Comparison(f"{words}, {of}", "", power, None) for of, power in powers]
            known = [r for r in mine if np.isfinite(r.get("law", np.nan)) and r["clipped"] < MOSTLY]
            if known:
                words = f"{mechanism}: E ψ over the law with clipping, where under {MOSTLY:.0%} are clipped"
                ratios = [r["mean"] / r["law"] for r in known]
                found += [Comparison(f"{words}, {end}", "", one, None) for end, one in _ends(ratios)]
        return found


MOSTLY = 0.9
"""Where more gradients than this are clipped θ goes as far as Θ lets it, which the law does not know."""


def _ends(ratios: Sequence[float]) -> tuple[tuple[str, float], tuple[str, float]]:
    return ("least", min(ratios)), ("largest", max(ratios))


def _powers(rows: Sequence[Row]) -> tuple[float, float]:
    """α and β of ψ = C·ε^α·n^β, by least squares on a log scale."""
    # np.e is the constant: its logarithm is 1.
    logs = np.log([[np.e, r["epsilon"], r["records"]] for r in rows])
    (_, α, β), *_ = np.linalg.lstsq(logs, np.log([r["mean"] for r in rows]), rcond=None)
    return float(α), float(β)


def kink_law(rows: Sequence[Row]) -> tuple[float, float, float]:
    """a, b, c ≥ 0 of ψ = a + b/(nε) + c/(nε)², by least squares of relative errors."""
    x = np.array([r["records"] * r["epsilon"] for r in rows])
    ψ = np.array([r["mean"] for r in rows])
    found, _ = nnls(np.column_stack([np.ones(len(x)), 1 / x, 1 / x**2]) / ψ[:, None], np.ones(len(x)))
    return float(found[0]), float(found[1]), float(found[2])


def _drawn(rows: Sequence[Row], mechanism: str, axis: Axis) -> list[Row]:
    """The rows of a panel that it draws."""
    return [r for _, points in _cuts([r for r in rows if r["mechanism"] == mechanism], axis) for r in points]


def _clipped(rows: Sequence[Row]) -> float:
    """The mean share of gradients that were clipped; 0 where nobody counted."""
    return float(np.mean([r.get("clipped", 0.0) for r in rows]))


def _lines(rows: Sequence[Row], axis: Axis) -> list[tuple[float, list[Row]]]:
    """Every value of the other axis, each with its points along `axis`."""
    other = "records" if axis == "epsilon" else "epsilon"
    values = sorted({r[other] for r in rows})
    return [(v, sorted((r for r in rows if r[other] == v), key=lambda r: float(r[axis]))) for v in values]


def _cuts(rows: Sequence[Row], axis: Axis) -> list[tuple[float, list[Row]]]:
    """The first, middle and last of them, which are drawn."""
    lines = _lines(rows, axis)
    return [lines[i] for i in sorted({0, len(lines) // 2, len(lines) - 1})] if lines else []


def _sizes(axes: Any, records: Sequence[float]) -> None:
    """Plain numbers where an axis is too short for powers of ten: halves of the largest, which do not touch."""
    low, high = min(records), max(records)
    if high > 20 * low:
        return
    places = [high / 2.0**j for j in range(5) if high / 2.0**j >= 0.99 * low]
    axes.set_xticks(places, [f"{place:,.0f}" for place in places])
    axes.xaxis.set_minor_locator(NullLocator())


def _slices(axes: Any, rows: Sequence[Row], axis: Axis, hinge: bool) -> None:
    held = "$n_i$" if axis == "epsilon" else "$\\epsilon_i$"
    law = kink_law(rows) if hinge else None
    drawn: dict[str, str] = {}
    for (other, points), colour, marker in zip(
        _cuts(rows, axis), drawing.EPSILON_COLOURS, drawing.MARKERS, strict=False
    ):
        x, y = np.array([r[axis] for r in points], dtype=float), np.array([r["mean"] for r in points])
        steep = slope(x, y)
        with_clips = np.array([r.get("law", np.nan) for r in points], dtype=float)
        if law is not None:
            nε = x * other
            axes.plot(x, law[0] + law[1] / nε + law[2] / nε**2, "--", color=colour, linewidth=1.1)
            drawn["--"] = "$a + b/(n\\epsilon) + c/(n\\epsilon)^2$, fitted to the panel"
        elif np.isfinite(with_clips).all():
            axes.plot(x, with_clips, "--", color=colour, linewidth=1.1)
            drawn["--"] = "law with clipping, not fitted"
        elif abs(steep + 2) <= 0.15:
            _line(axes, x, y, colour)
            drawn["-"] = "slope −2, fitted where ψ > 4 times its least"
        label = f"{held} = {other:,.0f}" if axis == "epsilon" else f"{held} = {other:.2g}"
        clipped = _clipped(points)
        share = f", {clipped:.0%} clipped" if clipped > 0 else ""
        axes.plot(x, y, marker, color=colour, ms=4.5, label=f"{label}: slope {steep:.2f}{share}")
    for line, words in drawn.items():
        axes.plot([], [], line, color=style.FAINT, linewidth=1.1, label=words)


def _line(axes: Any, x: Array, y: Array, colour: str) -> None:
    """A line of slope −2, fitted and drawn where noise is most of ψ: above four times the least of it."""
    noisy = _noisy(y)
    level = np.exp(np.mean(np.log(y[noisy]) + 2 * np.log(x[noisy])))
    axes.plot(x[noisy], level / x[noisy] ** 2, color=colour, linewidth=1.1)


def _noisy(y: Array) -> Any:
    return (y > 4 * y.min()) | (y == y.max())


@dataclass(frozen=True)
class Hospitals:
    """A, Fig. 9: E ψ of 86 hospitals against ε, with a fitted line of slope −2."""

    identity: str = "async-fig9"
    source: str = "A, Fig. 9"
    title: str = "A1 on length of stay, 86 hospitals: E ψ against ε"
    claim: str = "ψ falls rapidly as ε grows; the line is the bound (11) with slope −2."
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
            one.plot([], [], color=style.FAINT, linewidth=1.1, label="slope −2, fitted where ψ > 4 times its least")
            drawing.log_axes(one, LABEL["epsilon"], EXPECTED)
            one.label_outer()
            drawing.title(one, "86 hospitals, 10,000 to 60,000 records", mechanism)
            drawing.legend_below(one)
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """Whether ψ falls with ε; and slopes, of which the text says nothing: where noise is most of ψ, and over all."""
        found = []
        for setting in self.settings:
            points = [r for r in rows if r["mechanism"] == "as published" and r["dataset"] == setting.dataset]
            x, y = np.array([r["epsilon"] for r in points]), np.array([r["mean"] for r in points])
            noisy, falls = _noisy(y), float(np.mean(np.diff(y) < 0))
            found += [
                Comparison(
                    f"share of neighbouring ε at which a larger one helps, {setting.dataset}", "1", falls, falls >= MOST
                ),
                Comparison(
                    f"slope where ψ is above 4 times its least, {setting.dataset}", "", slope(x[noisy], y[noisy]), None
                ),
                Comparison(f"slope from ε = 0.1 to 10, {setting.dataset}", "", slope(x, y), None),
            ]
        law = (
            "where noise is most of ψ it falls nearly as 1/ε², the line that is drawn; for large ε the transient is left, "
            "which no ε removes."
        )
        return Judgement.of(found, f"ψ does not fall with every ε: {law}", f"ψ falls with ε: {law}")
