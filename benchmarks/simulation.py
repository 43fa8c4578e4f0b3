"""How fast a batch of runs is, against the least work that it could be: `python -m benchmarks.simulation [--quick]`.

Records are simulated here (distinct rows, so that nothing is gained by merging equal ones). Printed: seconds, and the
ratio to a yardstick measured in the same process a moment before:

1. A1, N = 3, n_i = 250,000, p = 10, 100 runs × T = 1,000, nothing to clip, from arrays in memory to percentiles,
   against plain record-by-record numpy (timed on a few queries and scaled up: all of them would take hours).
2. The same with clipping enforced at Ξ = 5.
3. Hinge, 90,000 × 30, S2, 100 runs × T = 100, against the bare matrix products X·Θ and Xᵀ·S that it needs.
"""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from copriv import Agreement, Problem, Records, simulate
from copriv.simulation.gradients import CELLS, RANGE
from copriv.types import Array


def lending_like(owners: int, n: int, p: int = 10) -> list[Records]:
    """Records of the scale that the papers' dictionary gives: mean square 1e-4 a feature, target near 12 ± 5."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=p) * 300
    parts = []
    for _ in range(owners):
        X = rng.laplace(size=(n, p)) * 0.01 / np.sqrt(2)
        X[:, 0] = 0.01 + 0.002 * rng.normal(size=n)
        parts.append(Records.of(X, 8.0 + X @ theta + 1.5 * rng.normal(size=n)))
    return parts


def a1(n: int, runs: int, horizon: int, assumed: bool) -> tuple[float, float]:
    """Seconds from arrays to percentiles, and the share of records clipped."""
    agreement = Agreement.of(
        {
            "agreement": {"rule": "A1", "horizon": horizon, "step": 3000.0 * (horizon / 1000) ** 2},
            "model": {
                "loss": "squared",
                "regularization": 1e-5,
                "gradient_bound": 5.0,
                "gradient_bound_assumed": assumed,
            },
            "data": {"feature_bound": 0},
            "owner": [{"name": f"bank-{i}", "records": n, "epsilon": 1.0} for i in range(3)],
        }
    )  # fmt: skip
    data = lending_like(3, n)
    begun = time.perf_counter()
    result = simulate(agreement, data, runs=runs)
    _ = result.relative_fitness.quantile(0.25), result.relative_fitness.median, result.relative_fitness.quantile(0.75)
    return time.perf_counter() - begun, result.clipped


def record_by_record(n: int, queries: int = 3) -> float:
    """Seconds for one query answered by a loop over records in numpy."""
    records = lending_like(1, min(n, 20_000))[0]
    theta = np.zeros(10)
    begun = time.perf_counter()
    for _ in range(queries):
        total = np.zeros(10)
        for x, y in zip(records.features, records.target, strict=True):
            total += 2.0 * (x @ theta - y) * x
        theta = theta - total / len(records)
    return (time.perf_counter() - begun) / queries * n / len(records)


def hinge(n: int, p: int, runs: int, horizon: int) -> float:
    """Seconds of the engine, on features bounded to ‖x‖₁ ≤ 4."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, p))
    y = np.where(X @ rng.normal(size=p) + rng.normal(size=n) > 0, 1.0, -1.0)
    data = [Records.of(part, label).bounded(4.0) for part, label in zip(np.split(X, 3), np.split(y, 3), strict=True)]
    agreement = Agreement.of(
        {
            "agreement": {"rule": "S2", "horizon": horizon, "step": 1.0},
            "model": {"loss": "hinge", "regularization": 1e-5, "theta_max": 100.0, "gradient_bound": 4.0},
            "data": {"feature_bound": 0},
            "owner": [{"name": f"card-{i}", "records": n // 3, "epsilon": 1.0} for i in range(3)],
        }
    )
    problem = Problem.of(agreement, data)
    _ = problem.optimum  # what ψ is relative to is found once for a data set, and is not part of running it
    begun = time.perf_counter()
    simulate(problem, runs=runs, alone=False, record_at=[1, horizon])
    return time.perf_counter() - begun


def bare_products(n: int, p: int, runs: int, horizon: int) -> float:
    """Seconds of X·Θ and Xᵀ·S by themselves, once for each of T − 1 rounds: in the engine's blocks, on all processors."""
    rng = np.random.default_rng(2)
    X: Array = rng.normal(size=(n, p))
    theta: Array = rng.normal(size=(p, runs))
    block = CELLS // runs
    S: Array = rng.normal(size=(block, runs))

    def both(start: int) -> Array:
        total = np.zeros((runs, p))
        for at in range(start, min(start + RANGE, n), block):
            x = X[at : min(at + block, start + RANGE, n)]
            _ = x @ theta
            total += S[: len(x)].T @ x
        return total

    begun = time.perf_counter()
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in range(horizon - 1):
            sum(pool.map(both, range(0, n, RANGE)))
    return time.perf_counter() - begun


def main() -> None:
    """Print the three ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    size = 10 if parser.parse_args().quick else 1
    n, runs, T = 250_000 // size, 100, 1000 // size
    cores = os.cpu_count() or 1
    print(f"{cores} processors; n_i = {n:,}, {runs} runs, T = {T}")
    slow = record_by_record(n) * T * runs
    seconds, _ = a1(n, runs, T, assumed=True)
    print(f"A1, nothing clipped: {seconds:.2f} s, {slow / seconds:,.0f} times faster than record by record")
    clipping, share = a1(n, runs, T, assumed=False)
    print(
        f"A1, clipped at 5 ({share:.2%} of records): {clipping:.1f} s, {slow / clipping:,.0f} times faster than record "
        f"by record, {clipping / seconds:.0f} times the time without clipping"
    )
    pairs = [(hinge(90_000 // size, 30, runs, 100), bare_products(90_000 // size, 30, runs, 100)) for _ in range(3)]
    engine, bare = sorted(pairs, key=lambda pair: pair[0] / pair[1])[1]
    print(
        f"hinge, {90_000 // size:,} × 30, T = 100: {engine:.2f} s, {engine / bare:.2f} times the bare products ({bare:.2f} s)"
    )


if __name__ == "__main__":
    main()
