"""Four scenarios: owner 1 chooses n₁ and ε₁, owners 2 and 3 are small or large, reluctant or eager (S, Figs. 6, 11)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure as Picture

from copriv.types import Array
from copriv_papers import drawing
from copriv_papers.consortia import S_CARDS, S_LENDING, Mechanism, Setting
from copriv_papers.figure import Cell, Comparison, Effort, Figure, Judgement, Row
from copriv_papers.figures.grid import final_rows, slope, table
from copriv_papers.trials import Outcome, Trial
from copriv_papers.verdict import steep

MECHANISMS: tuple[Mechanism, ...] = ("as written", "sound", "planned")
RELUCTANT, EAGER = 0.1, 10.0
AS_GOOD_AS_0 = 0.01
"""ψ at which two performances are identical for a paper that prints no number."""
SCENARIOS_OF = {
    "i: small, reluctant": ("small", RELUCTANT),
    "ii: small, eager": ("small", EAGER),
    "iii: large, reluctant": ("large", RELUCTANT),
    "iv: large, eager": ("large", EAGER),
}


@dataclass(frozen=True)
class Scenarios:
    """Four surfaces E ψ(n₁, ε₁) a mechanism."""

    identity: str
    source: str
    title: str
    setting: Setting
    small: int
    large: int
    points: int
    foreseen: bool = False
    """Whether the paper says which power of √(200 + 1/ε₁²)/(2000 + n₁) ψ follows in (i)."""
    identical: bool = False
    """Whether the paper says that (iv) is as good as without privacy where n₁ is large or ε₁ is not too small."""
    claim: str = (
        "With small reluctant partners ψ stays large whatever owner 1 brings and hardly depends on ε₁ (i); eager "
        "partners make ε₁ and n₁ count (ii); large reluctant partners are like (i), only better (iii); large eager "
        "ones give the best results whatever owner 1 does (iv)."
    )

    def plan(self, effort: Effort) -> list[Cell]:
        """Every mechanism and scenario over owner 1's choices."""
        cards = self.setting.dataset == "creditcard"
        points, planned = (2, 1) if effort.quick else (self.points, 3)
        large = min(self.large, 5000) if effort.quick and cards else self.large
        setting = self.setting.on(effort.paths)
        if effort.quick and cards:
            # A plan for a loss with a kink takes a second and more for every 1,000 public rows.
            setting = replace(setting, public_rows=500)
        partners = {"small": self.small, "large": large}
        return [
            Cell(
                {"mechanism": mechanism, "scenario": name, "records": int(n), "epsilon": float(ε)},
                Trial(
                    setting.agreement(
                        [int(n), partners[size], partners[size]], [float(ε), budget, budget], mechanism, effort.paths
                    ),
                    mechanism,
                    effort.few_runs,
                    setting.held_out,
                    alone=1,
                    planned_on=min(effort.planned_on, 500) if cards else effort.planned_on,
                    gradients_only=cards and effort.quick and mechanism == "planned",
                ),
            )
            for mechanism in MECHANISMS
            for name, (size, budget) in SCENARIOS_OF.items()
            for side in (min(points, planned) if mechanism == "planned" else points,)
            for n in _axis(self.small, large, side).round()
            for ε in _axis(RELUCTANT, EAGER, side)
        ]

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        """E ψ, ψ of owner 1 alone, and whether joining pays for it."""
        return [
            {
                **row,
                "alone": o.alone[0],
                "public_only": o.public_only,
                "joining_pays": int(o.mean[-1] < o.alone[0]),
            }
            for row, o in zip(final_rows(cells, outcomes), outcomes, strict=True)
        ]

    def draw(self, rows: Sequence[Row]) -> Picture:
        figure, axes = drawing.solid(4, len(MECHANISMS), height=2.7, width=2.8)
        limits = drawing.limits_of([r["mean"] for r in rows])
        span = tuple(np.array(sorted({r[axis] for r in rows})) for axis in ("records", "epsilon"))
        for line, mechanism in enumerate(MECHANISMS):
            for column, name in enumerate(SCENARIOS_OF):
                one = axes[line, column]
                mine = [r for r in rows if r["mechanism"] == mechanism and r["scenario"] == name]
                n, ε, z = table(mine)
                labels = ("$n_1$", "$\\epsilon_1$", "")
                if z.size > 1:
                    drawing.surface(one, n, ε, z, labels, limits)
                else:
                    drawing.point(one, n[0], ε[0], z[0, 0], labels, limits, span)
                one.view_init(22, 42)
                if line == 0:
                    one.set_title(f"Partners {name}", pad=28)
                pays = float(np.mean([r["joining_pays"] for r in mine]))
                # A label of the third axis would be cut off at the picture's edge.
                height = "height: $\\mathrm{E}\\,\\psi$; " if column == 0 else ""
                said = f"{height}owner 1 gains at {pays:.0%} of points"
                one.text2D(0.0, 0.93, said, transform=one.transAxes, fontsize=7.5)
                drawing.title(one, "", mechanism, short=column > 0)
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        """The statements of S, §IV, each as a number."""
        run = [m for m in MECHANISMS if any(r["mechanism"] == m for r in rows)]
        ψ = {
            (m, s): table([r for r in rows if r["mechanism"] == m and r["scenario"] == s])[2]
            for m in run
            for s in SCENARIOS_OF
        }
        one, two, three, four = (ψ["as written", s] for s in SCENARIOS_OF)
        # ε₁ from reluctant to eager, for the largest n₁; then n₁ from small to large, for the largest ε₁.
        effect = [float(z[-1, 0] / z[-1, -1]) for z in (one, two, three, four)]
        best, worst = float(one.min()), float(four.max() / two.max())
        better, best_of_all = _ratio(three, one), _ratio(four, three)
        found = [
            Comparison("(i) least E ψ that owner 1 can reach", "stays large", best, best > 10 * float(four.min())),
            Comparison("(i) E ψ at ε₁ = 0.1 over ε₁ = 10, largest n₁", "hardly changes", effect[0], effect[0] < 3),
            Comparison("(ii) the same ratio", "more pronounced than in (i)", effect[1], effect[1] > 2 * effect[0]),
            Comparison("(iii) geometric mean of E ψ over that of (i)", "below 1", better, better < 1),
            Comparison("(iv) largest E ψ over the largest of (ii)", "below 1", worst, worst < 1),
            Comparison("(iv) geometric mean of E ψ over that of (iii)", "below 1", best_of_all, best_of_all < 1),
        ]
        written = [r for r in rows if r["mechanism"] == "as written"]
        if self.foreseen:
            found.append(_foreseen([r for r in written if r["scenario"].startswith("i:")]))
        if self.identical:
            found += _identical([r for r in written if r["scenario"].startswith("iv:")])
        held, judged = sum(bool(c.holds) for c in found), len(found)
        gains = {
            (m, s): float(np.mean([r["joining_pays"] for r in rows if r["mechanism"] == m and r["scenario"] == s]))
            for m in run
            for s in SCENARIOS_OF
        }
        found += [
            Comparison(f"{m}, {s}: share of owner 1's choices at which it gains by joining", "", gains[m, s], None)
            for m, s in gains
        ]
        as_written, planned = (
            ", ".join(f"{gains[m, s]:.0%}" for s in SCENARIOS_OF if (m, s) in gains) for m in ("as written", "planned")
        )
        public = float(np.median([r["public_only"] for r in rows]))
        why = (
            f"{held} of {judged} numbers are as the paper says. Owner 1 gains by joining at {as_written} of its choices in "
            f"scenarios i to iv with the paper's settings, at {planned} with planned ones. (The learner's public rows alone "
            f"give ψ = {public:.2g}, and plans may start there.)"
        )
        return Judgement.of(found, why)


def _foreseen(rows: Sequence[Row]) -> Comparison:
    """S, §IV-A: with two partners of 1,000 records at ε = 0.1 its Theorem 3 foresees the first power."""
    expected = [np.sqrt(200 + r["epsilon"] ** -2) / (2000 + r["records"]) for r in rows]
    power = slope(expected, [r["mean"] for r in rows])
    return Comparison("(i) power of √(200 + 1/ε₁²)/(2000 + n₁) that E ψ follows", "1", power, steep(power, 1.0))


def _identical(rows: Sequence[Row]) -> list[Comparison]:
    """S, §IV-B: no difference to the model without privacy where n₁ is large or ε₁ is not too small."""
    largest = max(r["records"] for r in rows)
    return [
        Comparison(
            f"(iv) as without privacy: E ψ at n₁ = {r['records']:,}, ε₁ = {r['epsilon']:.2g}",
            f"0 (at most {AS_GOOD_AS_0:g})",
            r["mean"],
            r["mean"] <= AS_GOOD_AS_0,
        )
        for r in rows
        if r["records"] == largest or r["epsilon"] >= 1
    ]


def _axis(low: float, high: float, points: int) -> Array:
    """Evenly on a log axis; one point is that at which owner 1 brings most."""
    return np.geomspace(low, high, points) if points > 1 else np.array([float(high)])


def _ratio(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.exp(np.mean(np.log(a)) - np.mean(np.log(b))))


SCENARIOS: tuple[Figure, ...] = (
    Scenarios(
        "sync-fig6",
        "S, Fig. 6",
        "S2 on lending: E ψ against n₁ and ε₁ in four scenarios",
        S_LENDING,
        1000,
        100_000,
        5,
        foreseen=True,
    ),
    Scenarios(
        "sync-fig11",
        "S, Fig. 11",
        "S2 on card fraud: E ψ against n₁ and ε₁ in four scenarios",
        S_CARDS,
        1000,
        30_000,
        4,
        identical=True,
    ),
)
