"""`python -m benchmarks.published [--quick] [--runs N] [--only TEXT] [--held-back] [--page]`.

Every table by every ε, with δ and without, by what is stated and by the number of owners: what a fit leaves of the gap,
beside peers and beside nothing. Rows are kept in build/published.jsonl, and a run that is started again goes on where it
stopped. With `--page` the report is written to docs/reference/published.md.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is loaded

from benchmarks.published.cells import cells, ends, measure
from benchmarks.published.page import PAGE, page, peers_of
from benchmarks.published.speed import measured as speeds
from benchmarks.published.tables import tables

FEW = 5
"""Runs of a cell where they are few: `--quick`, and tables on which a fit takes long."""


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.published", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--quick", action="store_true", help=f"one owner, three ε, {FEW} runs")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--only", default="", help="cells whose name has this text")
    parser.add_argument("--held-back", action="store_true", help="the tables that are kept for the end, too")
    parser.add_argument("--speed", action="store_true", help="measure the fits that were too slow, too")
    parser.add_argument("--limit", type=float, default=float("inf"), help="begin no cell after so many seconds")
    parser.add_argument("--out", type=Path, default=Path("build/published.jsonl"))
    parser.add_argument("--page", action="store_true", help=f"write {PAGE}")
    parser.add_argument("--note", default="", help="what a reader must know of these measurements")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    had, begun, missing = {row["cell"] for row in rows}, time.monotonic(), []

    def keep(row: dict[str, object]) -> None:
        rows.append(row)
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")

    for name, table in tables(given.data, given.held_back):
        if table is None:
            missing.append(name)
            print(f"{name}: skipped, its rows are not in {given.data}")
            continue
        for cell in cells(given.quick or table.large):
            named = cell.name(name)
            if named in had or given.only not in named or time.monotonic() - begun > given.limit:
                continue
            end = ends(table, cell.stated != "norm" or table.classes)
            facts = {
                "cell": named, "table": name, "stated": cell.stated, "owners": cell.owners, "epsilon": cell.epsilon,
                "delta": cell.with_delta, "classes": table.classes, "rows": len(table.y), "columns": table.x.shape[1],
                "least": end.least, "constant": end.nothing, "least_auc": end.least_auc,
            }  # fmt: skip
            keep(facts | measure(table, cell, min(given.runs, FEW) if given.quick or table.large else given.runs, end))
            print(named, f"{rows[-1]['seconds']} s a fit", flush=True)
    if given.speed:
        for row in speeds():
            keep(row)
    text = page(rows, peers_of(given.data), missing, given.note)
    if given.page:
        PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
