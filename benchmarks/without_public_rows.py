"""Consortia without public rows: `python -m benchmarks.without_public_rows [--held-back] [--only NAME] [--page]`.

Rows are kept in build/without_public_rows.jsonl: a cell that is there is not measured again, and `--page` writes them all to
docs/reference/consortia-without-public-rows.md. `--held-back` measures those that are kept for the end, and no other.

Each table (`benchmarks.published.tables`) is dealt to five owners, who declare the ranges of its columns, exactly or ten
times too wide. It is forecast from that alone, and what it plans is then simulated on the table itself: without a pilot, with
one where enough of it would be heard, and, of large tables, with 1,000 of its rows public in place of the pilot.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import copriv
from benchmarks.published.tables import Table, tables
from copriv.errors import CoprivError
from copriv.model.records import Records
from copriv.problem import Problem

OWNERS, RUNS, COLUMNS = 5, 40, 60
PILOTS = 2
"""Simulated pilots, after each of which an equal part of the runs is made."""
PUBLIC, LARGE = 1000, 5000
"""Public rows, of tables of at least so many."""
EPSILONS, WIDER = (0.1, 1.0, 10.0), (1.0, 10.0)
PAGE, KEPT = Path("docs/reference/consortia-without-public-rows.md"), Path("build/without_public_rows.jsonl")


def agreement(table: Table, epsilon: float, wider: float, path: Path) -> copriv.Agreement:
    """Five owners with all rows of a table, which is written to `path`; ranges about the middle of each column."""
    names = [f"x{j}" for j in range(table.x.shape[1])]
    columns: dict[str, Any] = dict(zip(names, table.x.T, strict=True))
    y = np.where(table.y > 0, "yes", "no") if table.classes else table.y
    some = np.random.default_rng(5).permutation(len(y))
    rows = {name: np.asarray(column)[some] for name, column in (columns | {"y": y}).items()}
    pa.parquet.write_table(pa.table(rows), path)
    numbers = columns if table.classes else columns | {"y": table.y}
    ends = {name: (float(c.min()), float(c.max())) for name, c in numbers.items()}
    bounds = {
        name: [(low + high - wider * (high - low)) / 2 - 1e-12, (low + high + wider * (high - low)) / 2 + 1e-12]
        for name, (low, high) in ends.items()
    }
    data: dict[str, Any] = {
        "path": str(path), "public_rows": 0, "features": names, "target": "y", "bounds": bounds,
        "scales": dict.fromkeys(names, "centred"),
    }  # fmt: skip
    if table.classes:
        data["categories"] = {"y": ["no", "yes"]}
    each = (len(y) - PUBLIC * (len(y) >= LARGE)) // OWNERS
    return copriv.Agreement.of({
        "agreement": {"rule": "auto", "horizon": 1000, "goal": "common"},
        "model": {"loss": "logistic" if table.classes else "squared", "regularization": 1e-5, "intercept": True},
        "data": data,
        "owner": [{"name": "owner", "count": OWNERS, "records": each, "epsilon": epsilon, "delta": 1.0 / each**2}],
    })  # fmt: skip


def measured(table: Table, epsilon: float, wider: float) -> dict[str, Any]:
    """ψ as it is forecast, and as it is."""
    with tempfile.TemporaryDirectory() as folder:
        terms = agreement(table, epsilon, wider, Path(folder, "table.parquet"))
        begun = time.perf_counter()
        outlook = copriv.forecast(terms)
        seconds = time.perf_counter() - begun
        problem = Problem.load(terms).under(outlook.agreed.agreement)
        ψ = ended(problem, RUNS)
        more = piloted(terms) | with_public_rows(terms, len(table.y))
    r = Records.concatenate(problem.unbounded)
    constant = problem.fitness_of(Records(np.ones((len(r), 1)), r.target, r.weight)).minimum(np.zeros(1), 1e-5).value
    # Of the owners' means, by records; of classes none.
    low, high = (terms.data.bounds or {}).get("y", (0.0, 0.0))
    noise = 2.0 * OWNERS * ((high - low) / (float(r.total) * epsilon)) ** 2
    end = outlook.agreed.relative_fitness.end
    return {
        "mechanism": outlook.agreed.agreement.mechanism.name, "low": end["low"], "median": end["median"],
        "high": end["high"], "runs": ψ.tolist(), "constant": constant / problem.optimum.value - 1.0,
        "private_constant": (constant + noise) / problem.optimum.value - 1.0, "seconds": seconds, **more,
    }  # fmt: skip


def ended(problem: Problem, runs: int) -> Any:
    """ψ at the end of runs."""
    return copriv.simulate(problem, runs=runs, seed=1, alone=False, own_records=False).relative_fitness.runs[:, -1]


def piloted(terms: copriv.Agreement) -> dict[str, Any]:
    """The forecast before a pilot, those after it, and ψ of the runs that it leads to; nothing where it would not be heard."""
    terms = terms.replace(agreement={"pilot": "auto"})
    if not terms.has_pilot:
        return {}
    before, found = copriv.forecast(terms).recommended.relative_fitness.end, []
    for seed in range(PILOTS):
        after = copriv.pilot(terms, seed=seed).recommended
        end, ψ = after.relative_fitness.end, ended(Problem.load(after.agreement), RUNS // PILOTS)
        found.append({"low": end["low"], "median": end["median"], "high": end["high"], "runs": ψ.tolist()})
    return {"share": terms.pilot_share, "before": {key: before[key] for key in ("low", "high")}, "pilots": found}


def with_public_rows(terms: copriv.Agreement, rows: int) -> dict[str, Any]:
    """ψ of what is planned on public rows, with the same columns."""
    if rows < LARGE:
        return {}
    terms = terms.replace(data={"public_rows": PUBLIC, "components": 0, "feature_bound": "auto"})
    problem = Problem.load(terms)
    planned = copriv.forecast(problem).recommended.agreement
    return {"public": ended(problem.under(planned), RUNS).tolist()}


def cells(folder: Path, held_back: bool) -> Iterator[tuple[str, Table, float, float]]:
    """Every cell of the tables that are at hand."""
    for name, table in tables(folder, held_back):
        if table is not None and table.x.shape[1] <= COLUMNS and len(table.y) >= 20 * OWNERS:
            for epsilon, wider in product(EPSILONS, WIDER):
                yield name, table, epsilon, wider


def page(rows: list[dict[str, Any]]) -> str:
    """The page, of all rows."""
    lines = [
        "# Consortia without public rows",
        "",
        "Five owners of a table declare the ranges of its columns and nothing else (`data.public_rows = 0`). What the "
        f"forecast says, over tables that these ranges allow, is held against {RUNS} runs of its plan on the table: without a "
        f'pilot, and with `pilot = "auto"` after {PILOTS} simulated ones, where enough of a pilot is heard. Tables of at least '
        f"{LARGE:,} rows are also planned with {PUBLIC:,} of them public, for {RUNS} runs with the same records. "
        "`python -m benchmarks.without_public_rows --page` writes this page.",
        "",
        "*In the band*: the median of the runs. *Worse*: the median is over 1 % above a private mean of the target. "
        "*Narrower*: how many times, as a ratio of its ends, the band after a pilot is narrower than that before it, in the "
        "median. *To public*: ψ with a pilot over ψ with public rows, the median and the largest.",
        "",
    ]  # fmt: skip
    for kept, what in ((False, "Tables that the method was made on"), (True, "Tables that were kept for the end")):
        mine = [row for row in rows if row["held_back"] is kept]
        if not mine:
            continue
        lines += [
            f"## {what}", "",
            "| ε | ranges | tables | in the band | worse | ψ | pilots | in the band | worse | ψ, of ψ without | narrower | "
            "to public |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        ]  # fmt: skip
        for epsilon, wider in product(EPSILONS, WIDER):
            some = [row for row in mine if (row["epsilon"], row["wider"]) == (epsilon, wider)]
            if some:
                lines.append(_line(some, f"{epsilon:g} | {'exact' if wider == 1 else 'ten times too wide'}"))
        lines += [_line(mine, "all | "), ""]
    lines += [
        "## Every cell", "",
        "| table | ε | ranges | plan | forecast | band | is | with a pilot | with public rows | private mean |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for row in sorted(rows, key=lambda row: (row["held_back"], row["table"], row["epsilon"], row["wider"])):
        ranges = "exact" if row["wider"] == 1 else "wide"
        is_, band = np.median(row["runs"]), f"{row['low']:.2g} to {row['high']:.2g}"
        piloted = f"{np.median(_with_pilot(row)):.2g}" if "pilots" in row else ""
        public = f"{np.median(row['public']):.2g}" if "public" in row else ""
        lines.append(
            f"| {row['table']} | {row['epsilon']:g} | {ranges} | {row['mechanism']} | {row['median']:.2g} | {band} | "
            f"{is_:.2g} | {piloted} | {public} | {row['private_constant']:.2g} |"
        )
    return "\n".join([*lines, "", "Costs are ψ: how much the fitness is above the best model's.", ""])


def _with_pilot(row: dict[str, Any]) -> list[float]:
    """ψ of all runs after pilots."""
    return [ψ for pilot in row["pilots"] for ψ in pilot["runs"]]


def _within(found: dict[str, Any]) -> bool:
    return bool(found["low"] <= np.median(found["runs"]) <= found["high"])


def _line(rows: list[dict[str, Any]], head: str) -> str:
    def worse(ψ: list[float], row: dict[str, Any]) -> bool:
        return bool(np.median(ψ) > 1.01 * row["private_constant"])

    typical = np.median([np.median(row["runs"]) for row in rows])
    cells = [head, str(len(rows)), f"{np.mean([_within(row) for row in rows]):.0%}"]
    cells += [str(sum(worse(row["runs"], row) for row in rows)), f"{typical:.2g}"]
    piloted = [row for row in rows if "pilots" in row]
    if not piloted:
        return f"| {' | '.join([*cells, '0', *[''] * 5])} |"
    pilots = [(row, pilot) for row in piloted for pilot in row["pilots"]]
    ratio = np.median([np.median(_with_pilot(row)) / np.median(row["runs"]) for row in piloted])
    ends = [(one["high"] / one["low"], row["before"]["high"] / row["before"]["low"]) for row, one in pilots]
    public = [np.median(_with_pilot(row)) / np.median(row["public"]) for row in piloted if "public" in row]
    cells += [str(len(pilots)), f"{np.mean([_within(pilot) for _, pilot in pilots]):.0%}"]
    cells += [str(sum(worse(_with_pilot(row), row) for row in piloted)), f"{ratio:.2g}"]
    cells += [f"{np.median([before / after for after, before in ends]):.2g}"]
    cells += [f"{np.median(public):.2g}, {max(public):.2g}" if public else ""]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--held-back", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    KEPT.parent.mkdir(exist_ok=True)
    rows = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []
    done = {(row["table"], row["epsilon"], row["wider"]) for row in rows}
    open_names = {name for name, _ in tables(options.data)}
    for name, table, epsilon, wider in cells(options.data, options.held_back):
        if (name, epsilon, wider) in done or options.only not in name or options.held_back == (name in open_names):
            continue
        row = {"table": name, "epsilon": epsilon, "wider": wider, "held_back": name not in open_names}
        try:
            row |= measured(table, epsilon, wider)
        except CoprivError as error:
            print(name, epsilon, wider, error, flush=True)
            continue
        rows.append(row)
        with KEPT.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{name} {epsilon:g} {wider:g}: {row['median']:.2g} ({row['low']:.2g} to {row['high']:.2g}), is "
              f"{np.median(row['runs']):.2g}, a constant {row['constant']:.2g}, {row['mechanism']}, {row['seconds']:.1f} s",
              flush=True)  # fmt: skip
    if options.page:
        PAGE.write_text(page(rows))


if __name__ == "__main__":
    main()
