"""`python -m benchmarks.unlike [--data DIR] [--only TEXT] [--quick] [--limit SECONDS] [--page]`.

Owners that differ, on real tables: forecast against measured, the plan against the best of its own finalists, and both
verdicts against held-out rows. Rows are kept in build/unlike.jsonl, and a run that is started again goes on where it
stopped. With `--page` the report is written to docs/reference/unlike-owners.md; with `--verdicts` nothing but the verdicts
of owners is measured, kept in build/unlike-verdicts.jsonl, and written to that section of the page.
"""

import argparse
import json
import os
import time
from pathlib import Path

from benchmarks.unlike.cells import measure
from benchmarks.unlike.page import PAGE, page, verdicts_alone
from benchmarks.unlike.tables import cells, owners


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", default="", help="cells whose name has this text")
    parser.add_argument("--quick", action="store_true", help="3 and 10 owners only")
    parser.add_argument("--limit", type=float, default=float("inf"), help="begin no cell after so many seconds")
    parser.add_argument("--verdicts", action="store_true", help="nothing but the verdicts of owners")
    parser.add_argument("--out", type=Path, help="build/unlike.jsonl, or build/unlike-verdicts.jsonl, when not given")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE}")
    parser.add_argument("--note", default="", help="what a reader must know of these measurements")
    given = parser.parse_args()
    given.out = given.out or Path("build/unlike-verdicts.jsonl" if given.verdicts else "build/unlike.jsonl")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    had, begun = {row["cell"] for row in rows}, time.monotonic()
    for split, number, epsilon, shuffled, public, known, seed in cells(given.quick):
        cell = f"{split.name}, {number or 'all'} owners, eps {epsilon:g}, "
        cell += f"{'shuffled' if shuffled else 'as they are'}, public rows of {public}, {known} known"
        if cell in had or given.only not in cell or time.monotonic() - begun > given.limit:
            continue
        cut = owners(given.data, split, number, shuffled, seed, public)
        if cut is None:
            continue
        facts = {"cell": cell, "split": split.name, "owners_asked": number, "epsilon": epsilon, "seed": seed}
        facts |= {"shuffled": shuffled, "public": public, "known": known, "loss": split.loss}
        try:
            row = {**facts, **measure(cut, split.loss, epsilon, known, given.verdicts)}
        except Exception as error:  # a cell that fails is a result, and is counted as one
            row = {**facts, "failed": f"{type(error).__name__}: {error}"}
        rows.append(row)
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        short = {k: row.get(k) for k in ("measured", "low", "high", "in_band", "plan_over_best", "failed", "seconds")}
        print(cell, short, flush=True)
    text = verdicts_alone(PAGE.read_text(encoding="utf-8"), rows) if given.verdicts else page(rows, given.note)
    if given.page:
        PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
