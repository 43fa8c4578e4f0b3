"""What a pilot tells: `python -m benchmarks.pilot [--data DIR] [--only TEXT] [--limit SECONDS] [--page]`.

Tables of `benchmarks.unlike` and of groups of R packages, before and after a pilot, with 1,000 public rows and nothing else
known; loans of large owners; and owners that are alike and say so. Rows are kept in build/pilot.jsonl, and a run that is
started again goes on where it stopped. With `--page` the report is written to docs/reference/pilot.md.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.pilot import releases
from benchmarks.pilot.cells import alike, lending, measure
from benchmarks.pilot.page import PAGE, page
from benchmarks.pilot.tables import HELD_BACK, MADE, OPEN
from benchmarks.unlike.tables import SPLITS, Split, owners

SHARE, OF_LARGE = 0.2, 0.1
"""Share of ε for the pilot: of owners that differ, and of loans and owners that are alike."""
LOANS = ((10, 250_000, 1.0), (10, 250_000, 10.0), (86, 250_000, 1.0), (10, 10_000, 10.0))
ALIKE = ("diabetes_130_hospitals by payer_code", "lending_10k by state", "unlike/diamonds by _owner")


def cells(data: Path) -> Iterator[tuple[dict[str, Any], Callable[[], Any]]]:
    """Facts of each cell, and what measures it."""
    for N, n, epsilon in LOANS:
        facts = {"kind": "lending", "cell": f"loans, {N} owners of {n}, eps {epsilon:g}", "owners": N, "records": n}
        yield facts | {"epsilon": epsilon, "share": OF_LARGE}, partial(lending, data, N, n, epsilon, OF_LARGE)
    for seed, name in enumerate(ALIKE):
        split = next(one for one in SPLITS if one.name == name)
        facts = {"kind": "alike", "cell": f"{name}, shuffled", "epsilon": 1.0, "share": OF_LARGE}
        yield facts, partial(_measured, alike, data, split, True, seed, 1.0, OF_LARGE)
    for N, epsilon, share in product((10, 30), (0.3, 1.0, 3.0), (OF_LARGE, SHARE)):
        for seed, split in enumerate(SPLITS):
            facts = {
                "kind": "releases",
                "cell": f"releases: {split.name}, {N} owners, eps {epsilon:g}, pilot {share:g}",
            }
            facts |= {"epsilon": epsilon, "share": share, "owners_asked": N}
            how = partial(releases.measure, seed=seed)
            yield facts, partial(_measured, how, data, split, False, seed, epsilon, share, number=N)
    groups = [("unlike", data, list(SPLITS)), ("open", MADE, OPEN), ("held back", MADE, HELD_BACK)]
    for epsilon in (1.0, 0.3, 3.0):
        for group, folder, some in groups:
            for seed, one in enumerate(some):
                split = one if isinstance(one, Split) else one.split
                if not isinstance(one, Split):
                    one.write(MADE)
                facts = {"kind": "table", "group": group, "cell": f"{group}: {split.name}, eps {epsilon:g}"}
                facts |= {"epsilon": epsilon, "share": SHARE}
                yield facts, partial(_measured, measure, folder, split, False, seed, epsilon, SHARE, seed)


def _measured(
    how: Callable[..., Any], folder: Path, split: Split, shuffled: bool, seed: int, *more: Any, number: int = 10
) -> Any:
    cut = owners(folder, split, number, shuffled, seed)
    return None if cut is None else how(cut, split.loss, *more)


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", default="", help="cells whose name has this text")
    parser.add_argument("--limit", type=float, default=float("inf"), help="begin no cell after so many seconds")
    parser.add_argument("--out", type=Path, default=Path("build/pilot.jsonl"))
    parser.add_argument("--page", action="store_true", help=f"write {PAGE}")
    parser.add_argument("--note", default="", help="what a reader must know of these measurements")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    had, begun = {row["cell"] for row in rows}, time.monotonic()
    for facts, measured in cells(given.data):
        if facts["cell"] in had or given.only not in facts["cell"] or time.monotonic() - begun > given.limit:
            continue
        if (found := measured()) is None:
            continue
        rows.append({**facts, **found})
        with given.out.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print(facts["cell"], flush=True)
    text = page(rows, given.note)
    if given.page:
        PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
