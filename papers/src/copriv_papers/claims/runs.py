"""The claims' own trials: settings that the papers speak of and draw no figure of."""

from itertools import product
from typing import Any

from copriv_papers.consortia import (
    A_HOSPITAL,
    A_LENDING,
    S_LENDING,
    Mechanism,
    Setting,
    Start,
    at_hand,
    hospital_records,
)
from copriv_papers.figure import Cell, Effort
from copriv_papers.trials import Trial

LARGE, SMALL = 100_000, 1000
EAGER, RELUCTANT = 10.0, 0.1
OWNERS = (3, 5, 10, 11, 30, 86)
"""Numbers of banks, of 10,000 records each and alike, whose plans are compared: each answer seen, and the sum alone."""
BUDGETS = (1.0, 2.5, 10.0)
SUM = {"rule": "S2", "aggregation": "sum"}
SEEN: dict[str, dict[str, Any]] = {
    "each answer": {},
    "the sum, t = 0": {**SUM, "colluding": 0},
    "the sum, t = 1": {**SUM, "colluding": 1},
}
"""What the learner sees, and how many owners may work together with it, in terms of the agreement."""
SEEN |= {f"{seen}, after a pilot": {**terms, "pilot": 0.1} for seen, terms in SEEN.items()}
BOTH = ("each answer", "the sum, t = 1")
TABLES = ("loans", "everybody's loans")


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
        *_planned(effort),
    ]  # fmt: skip


def bank(table: str, owners: int, epsilon: float, seen: str) -> str:
    """Name of a trial of `_planned`."""
    return f"{table}: {owners} banks at {epsilon:g}, {seen}"


def stays(seen: str) -> str:
    """Name of a trial of `_planned` on stays in hospitals."""
    return f"86 hospitals at 1, {seen}"


def _planned(effort: Effort) -> list[Cell]:
    """Owners that are alike and answer by terms that are planned from public rows, with each answer seen or the sum alone."""

    def cell(name: str, setting: Setting, on: Effort, records: tuple[int, ...], ε: float, seen: str, runs: int) -> Cell:
        agreement = setting.agreement(records, [ε] * len(records), "planned", on.paths)
        agreement = agreement.replace(agreement=SEEN[seen], data={"heterogeneity": 0.0})
        trial = Trial(agreement, "planned", runs, setting.held_out, alone=1, planned_on=on.planned_on)
        return Cell({"name": name}, trial)

    owners = OWNERS[2:4] if effort.quick else OWNERS
    found = []
    for (table, on), seen in product(zip(TABLES, (effort, effort.inside), strict=True), SEEN):
        setting = A_LENDING.on(on.paths)
        found += [
            cell(bank(table, N, ε, seen), setting, on, (10_000,) * N, ε, seen, effort.few_runs)
            for N, ε in product(owners, BUDGETS)
        ]
    if at_hand("hospital") is not None and not effort.quick:
        hospitals = A_HOSPITAL.on(effort.paths)
        sizes = hospital_records(hospitals, effort.paths)
        found += [cell(stays(seen), hospitals, effort, sizes, 1.0, seen, 5) for seen in BOTH]
    return found
