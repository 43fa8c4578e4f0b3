"""The claims' own trials: settings that the papers speak of and draw no figure of."""

from copriv_papers.consortia import A_LENDING, S_LENDING, Mechanism, Setting, Start
from copriv_papers.figure import Cell, Effort
from copriv_papers.trials import Trial

LARGE, SMALL = 100_000, 1000
EAGER, RELUCTANT = 10.0, 0.1


def cells(effort: Effort) -> list[Cell]:
    """Each under its name."""
    s, a = S_LENDING.on(effort.paths), A_LENDING.on(effort.paths)

    def one(
        name: str, setting: Setting, mechanism: Mechanism, n: list[int], ε: list[float], start: Start | None = None
    ) -> Cell:
        agreement = setting.agreement(n, ε, mechanism, effort.paths, start=start)
        runs = effort.few_runs if mechanism == "planned" else effort.runs
        trial = Trial(agreement, mechanism, runs, setting.held_out, alone=1, planned_on=effort.planned_on)
        return Cell({"name": name}, trial)

    written: Mechanism = "as written"
    published: Mechanism = "as published"
    return [
        one("350,000 records", s, written, [350_000] * 3, [10.0] * 3),
        one("350,000 records, start at 0", s, written, [350_000] * 3, [10.0] * 3, "zero"),
        one("large and eager by itself", s, written, [LARGE], [EAGER]),
        one("large and eager with small conservative ones", s, written, [LARGE, SMALL, SMALL], [EAGER] + [RELUCTANT] * 2),
        one("small and eager by itself", s, written, [SMALL], [EAGER]),
        one("small and eager with large conservative ones", s, written, [SMALL, LARGE, LARGE], [EAGER] + [RELUCTANT] * 2),
        one("11 banks", a, published, [10_000] * 11, [1.0] * 11),
        one("11 banks, planned", a, "planned", [10_000] * 11, [1.0] * 11),
        one("6 banks", a, published, [10_000] * 6, [10.0] * 6),
        one("101 banks", a, published, [10_000] * 101, [2.5] * 101),
        one("101 banks, planned", a, "planned", [10_000] * 101, [2.5] * 101),
    ]  # fmt: skip
