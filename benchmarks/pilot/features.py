"""How far owners' features lie apart: `python -m benchmarks.pilot.features [--data DIR]`.

Of each table of `benchmarks.unlike` and each open table of groups: the squared distance of an owner's mean features from
everybody's, in standard deviations of whitened features and less what chance makes of it, in the median over ten owners.
Worlds after a pilot draw it (`copriv.populations.dealt`), as its answers do not tell.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.pilot.tables import MADE, OPEN
from benchmarks.unlike.tables import SPLITS, Owners, owners


def apart(cut: Owners) -> float:
    """The median over owners."""
    each = [x for x, _ in cut.train]
    x = np.concatenate(each)
    a, U = np.linalg.eigh(np.cov(x.T).reshape(x.shape[1], -1))
    some = a > 1e-9 * a[-1]
    whitened = [((one - x.mean(axis=0)) @ U[:, some] / np.sqrt(a[some])) for one in each]
    return float(np.median([max(np.square(one.mean(axis=0)).sum() - some.sum() / len(one), 0.0) for one in whitened]))


def main() -> None:
    """Print a line for each table, and the law of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    folder, found = parser.parse_args().data, []
    for table in OPEN:
        table.write(MADE)
    for where, splits in ((folder, SPLITS), (MADE, [table.split for table in OPEN])):
        for seed, split in enumerate(splits):
            if (cut := owners(where, split, 10, False, seed)) is not None:
                found.append(apart(cut))
                print(f"{split.name}: {found[-1]:.3g}")
    logs = np.log(found)
    print(
        f"{len(found)} tables: median {np.median(found):.3g}, standard deviation of the logarithm {logs.std(ddof=1):.2g}"
    )


if __name__ == "__main__":
    main()
