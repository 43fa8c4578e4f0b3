"""The command: cells × methods into one table. Each finished entry is a line of the CSV, and is not run again."""

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.utility.cells import Cell, grid, quick
from benchmarks.utility.methods import ours
from benchmarks.utility.page import page
from benchmarks.utility.peers import peers
from copriv import CoprivError, Problem

NOTE = Path(__file__).with_name("note.md")
"""What a reader of the page must know: which rows are of which version, and what is worse than before."""
FIELDS = ("cell", "method", "p25", "median", "p75", "runs", "seconds", "settings")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.utility")
    parser.add_argument("--quick", action="store_true", help="one cell a data set, into utility-quick.*")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--methods", default="", help="methods whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("docs/reference"))
    parser.add_argument("--page", action="store_true", help="write the page from the table as it is, and run nothing")
    options = parser.parse_args()
    name = "utility-quick" if options.quick else "utility"
    table = options.out / f"{name}.csv"
    done = {(row["cell"], row["method"]): row for row in _rows(table)}
    loaded: dict[Cell, Problem] = {}
    for cell in () if options.page else quick() if options.quick else grid():
        wanted = [m for m in (*ours(cell), *peers(cell)) if options.methods in m[0]]
        missing = [m for m in wanted if (cell.name, m[0]) not in done]
        if options.only not in cell.name or not missing:
            continue
        if cell.data not in loaded:
            loaded.clear()  # one at a time: the largest has millions of records
            whole = Problem.load(cell.agreement())
            whole = whole.under(whole.terms.replace(data={"feature_bound": whole.feature_bound}))  # the same for all
            loaded[cell.data] = replace(whole, known_optimum=whole.optimum)
        bound = {"feature_bound": loaded[cell.data].feature_bound}
        problem = loaded[cell.data].under(cell.agreement().replace(data=bound))
        for method, run in missing:
            row = _entry(cell, method, run, problem, options.runs)
            done[cell.name, method] = row
            print(f"{cell.name:40} {method:36} {row['median']:>10}  {row['settings']}", flush=True)
            _write(table, list(done.values()))
        _publish(options, name, done)
    _publish(options, name, done)


def _publish(options: argparse.Namespace, name: str, done: dict[tuple[str, str], dict[str, str]]) -> None:
    """The page, in the order of the grid, whatever order entries were made in."""
    cells = {cell.name: i for i, cell in enumerate(quick() if options.quick else grid())}
    order = {
        (cell.name, method): i
        for cell in (quick() if options.quick else grid())
        for i, (method, _) in enumerate((*ours(cell), *peers(cell)))
    }
    known = sorted((key for key in done if key in order), key=lambda key: (cells[key[0]], order[key]))
    made_by = f"python -m benchmarks.utility{' --quick' if options.quick else ''}"
    note = "" if options.quick else NOTE.read_text(encoding="utf-8")
    (options.out / f"{name}.md").write_text(page([done[key] for key in known], made_by, note), encoding="utf-8")


def _entry(cell: Cell, method: str, run: object, problem: Problem, runs: int) -> dict[str, str]:
    begun = time.perf_counter()
    try:
        ψ, settings = run(cell, problem, runs)  # type: ignore[operator]
        p25, median, p75 = (f"{q:.3g}" for q in np.quantile(ψ, (0.25, 0.5, 0.75)))
    except CoprivError as error:
        ψ, settings, p25, median, p75 = np.array([]), f"cannot: {error}", "", "", ""
    seconds = f"{time.perf_counter() - begun:.1f}"
    values = (cell.name, method, p25, median, p75, str(len(ψ)), seconds, settings)
    return dict(zip(FIELDS, values, strict=True))


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
