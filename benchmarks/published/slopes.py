"""What bounds on slopes miss without noise: `python -m benchmarks.published.slopes`.

For each open regression and each bound, over half of the target's range: the share of the gap between least squares and nothing
that the Huber loss leaves, with exact ranges and with the norm stated. `copriv.mechanisms.expected.MISSED` was set by it.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.published.tables import Table, tables
from copriv.mechanisms.expected import SLOPES_OF_NUMBERS
from copriv.types import Array


def missed(x: Array, y: Array, least: float, nothing: float) -> list[float]:
    """For each bound, by reweighted least squares."""
    shares = []
    for bound in SLOPES_OF_NUMBERS:
        theta = np.linalg.lstsq(x, y, rcond=None)[0]
        for _ in range(60):
            root = np.sqrt(np.minimum(1.0, bound / np.maximum(np.abs(y - x @ theta), 1e-12)))
            theta = np.linalg.lstsq(root[:, None] * x, root * y, rcond=None)[0]
        shares.append((float(np.mean((y - x @ theta) ** 2)) - least) / (nothing - least))
    return shares


def of(table: Table, norm: bool) -> list[float]:
    """Of a table, with its norm stated or its ranges."""
    x, y = table.x, table.y
    if not norm:
        low, high = x.min(axis=0), x.max(axis=0)
        x = np.column_stack([(2.0 * x - low - high) / np.maximum(high - low, 1e-300), np.ones(len(y))])
        y = (2.0 * y - y.min() - y.max()) / (y.max() - y.min())
    least = float(np.mean((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2))
    return missed(x, y, least, float(np.mean(y**2)) if norm else float(y.var()))


def main() -> None:
    """Print medians and means over tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    given = parser.parse_args()
    found = [one for _, one in tables(given.data) if one is not None and not one.classes and not one.large]
    print("bounds", *SLOPES_OF_NUMBERS)
    for norm in (False, True):
        shares = np.array([of(table, norm) for table in found])
        print(f"{'norm' if norm else 'ranges'}, {len(found)} tables: median {np.round(np.median(shares, axis=0), 4)}")
        print(f"  mean {np.round(shares.mean(axis=0), 3)}, largest {np.round(shares.max(axis=0), 2)}")


if __name__ == "__main__":
    main()
