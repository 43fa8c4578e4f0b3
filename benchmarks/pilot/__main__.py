"""What a pilot tells: `python -m benchmarks.pilot [--data DIR] [--only TEXT] [--owners 10] [--share 0.1] [--epsilon 1 ...]`.

Real tables cut into owners that differ (`benchmarks.unlike`), with 1,000 public rows and nothing else known. Each cell is
forecast before and after a pilot of this share of every ε. Both recommended agreements are simulated on the owners, and both
forecasts are judged alike: own verdicts as a forced choice against held-out rows, `alone` within three times, and the band.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import copriv
from benchmarks.unlike import judged
from benchmarks.unlike.cells import RUNS, agreement, simulated, verdicts
from benchmarks.unlike.judged import Told
from benchmarks.unlike.tables import SPLITS, Owners, owners

SURE = 1.645
"""Standard errors of held-out rows by which a gain is sure."""
LEAST = 0.1
"""Relative change of the loss above which a verdict is judged."""


def measure(cut: Owners, loss: str, epsilon: float, share: float, seed: int) -> dict[str, dict[str, Any]]:
    """The forecast before the pilot and the one after it, each beside what came of its recommended agreement."""
    terms, rows = agreement(cut, loss, epsilon, None), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = copriv.forecast(terms, public=cut.public)
        piloted = terms.replace(agreement={"pilot": share})
        after = copriv.pilot(piloted, cut.train, public=cut.public, seed=seed)
    for when, told in (("before", before), ("after", after)):
        found = simulated(told.recommended.agreement, cut, RUNS, alone=True)
        ψ, measured = told.recommended.relative_fitness.end, float(found.relative_fitness.final["median"])
        rows[when] = {
            "owners": verdicts(told, found, cut, loss), "median": ψ["median"], "measured": measured,
            "in_band": ψ["low"] <= measured <= ψ["high"], "width": float(np.log(ψ["high"] / ψ["low"])),
        }  # fmt: skip
    return rows


def line(epsilon: float, when: str, rows: list[dict[str, Any]]) -> str:
    """A row of the table: all cells of an ε."""
    sure, every = (Told.together([judged.own(row, LEAST, errors) for row in rows]) for errors in (SURE, 0.0))
    alone = Told.together([judged.alone(row) for row in rows])
    cells = (
        f"{epsilon:g}", when, sure.words, every.words, alone.words,
        f"{np.mean([row['in_band'] for row in rows]):.0%} of {len(rows)}",
        f"{np.median([row['width'] for row in rows]):.2f}", f"{np.exp(np.mean([np.log(row['measured']) for row in rows])):.3g}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure the cells, and print a table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", default="", help="splits whose name has this text")
    parser.add_argument("--owners", type=int, default=10)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    given = parser.parse_args()
    for epsilon in given.epsilon:
        cells = []
        for turn, split in enumerate(one for one in SPLITS if given.only in one.name):
            cut = owners(given.data, split, given.owners, False, turn)
            if cut is None:
                continue
            cells.append(measure(cut, split.loss, epsilon, given.share, turn))
            for when in ("before", "after"):
                print(split.name, line(epsilon, when, [cells[-1][when]]), flush=True)
        if not cells:
            continue
        print(
            "| ε | pilot | own verdict, sure | above 10 % | alone within 3 times | in the band | its width, log | ψ |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for when in ("before", "after"):
            print(line(epsilon, when, [cell[when] for cell in cells]), flush=True)


if __name__ == "__main__":
    main()
