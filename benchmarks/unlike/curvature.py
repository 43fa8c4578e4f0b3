"""`python -m benchmarks.unlike.curvature [--data DIR]`: does it pay to combine owners' models by curvature, not by size alone?

ψ, on everybody's records and without any noise, of owners' own least-squares models combined three ways: by size, by the
curvature of each owner's stratum of 1,000 public rows (with everybody's in part, where rows are few), and by each
owner's exact curvature, which is what noisy statistics with `moments_share` pay for.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.unlike.tables import SPLITS, owners
from copriv.types import Array


def main() -> None:
    """A line for each table of groups and split of the grid whose loss is squared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    folder = parser.parse_args().data
    print("| split | by size | by public curvature | by exact curvature |\n| --- | --- | --- | --- |")
    for split in SPLITS:
        if split.loss != "squared":
            continue
        cut = owners(folder, split, 0 if split.table.startswith("unlike/") else 10, shuffled=False)
        if cut is not None:
            x = [np.column_stack([a, np.ones(len(b))]) for a, b in cut.train]
            public = np.column_stack([cut.public[0], np.ones(len(cut.public[1]))])
            rows = [public[cut.strata.astype(str) == name] for name in cut.names]
            print(
                f"| {split.name} | {' | '.join(f'{ψ:.2g}' for ψ in _three(x, [b for _, b in cut.train], rows, public))} |"
            )


def _three(x: list[Array], y: list[Array], rows: list[Array], public: Array) -> list[float]:
    """ψ of the three combinations."""
    every, target = np.vstack(x), np.concatenate(y)
    p = every.shape[1]
    ridge = 1e-5 * np.eye(p)
    n = np.array([len(b) for b in y], dtype=np.float64)
    A = [a.T @ a / len(a) + ridge for a in x]
    θ = [np.linalg.solve(H, a.T @ b / len(b)) for H, a, b in zip(A, x, y, strict=True)]
    best = np.linalg.solve(every.T @ every / n.sum() + ridge, every.T @ target / n.sum())
    common = public.T @ public / len(public) + ridge
    near = [(r.T @ r + 3 * p * common) / (len(r) + 3 * p) for r in rows]  # 3p rows of everybody's beside its own
    f = float(np.mean((every @ best - target) ** 2))
    found = []
    for metric in ([np.eye(p)] * len(n), near, A):
        whole = sum(k * M for k, M in zip(n, metric, strict=True))
        model = np.linalg.solve(whole, sum(k * M @ t for k, M, t in zip(n, metric, θ, strict=True)))
        found.append(max(float(np.mean((every @ model - target) ** 2)) / f - 1.0, 0.0))
    return found


if __name__ == "__main__":
    main()
