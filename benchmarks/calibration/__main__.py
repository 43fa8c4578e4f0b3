"""`python -m benchmarks.calibration [--problems 300] [--seed S] [--workers W] [--limit 120] [--out FILE] [--page]`.

Rows are kept in a file, one JSON a line, and a run that is started again goes on where it stopped. With `--page` the
report is written to docs/reference/calibration.md.
"""

import argparse
import os
from pathlib import Path

from benchmarks.calibration.page import PAGE, page
from benchmarks.calibration.runs import run


def main() -> None:
    """Run, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="number of the first problem")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a problem may take")
    parser.add_argument("--out", type=Path, default=None, help="rows; build/calibration-SEED.jsonl by default")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE}")
    parser.add_argument("--note", default="", help="what a reader must know of these measurements")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    out = given.out or Path("build") / f"calibration-{given.seed}.jsonl"
    rows = run(given.seed, given.problems, given.workers, given.limit, out, given.first)
    text = page(rows, given.seed, given.note)
    if given.page:
        PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
