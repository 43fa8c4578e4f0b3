"""How long forecasts of many owners take, against few: `python -m benchmarks.forecasts [--whole]`.

The exact recursions: p = 10, T = 1,000 (S1, S2: rounds; A1, A2: queries), the mean at every k. The target is a second for a
million identical owners, and for a thousand of ten kinds (A2 with ten kinds is out of reach).

With `--whole`, what `copriv forecast` does, plans and all, for owners of ten kinds on the embedded lending table, in seconds
of one processor. The targets are twice the time of ten owners for a thousand, and 20 s for a hundred thousand.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from copriv import Agreement, forecast
from copriv.errors import InvalidInput
from copriv.exact import OwnerKinds, expected_cost
from copriv.model.fitness import Quadratic, Regularizer
from copriv.model.records import Records
from copriv.rules.rule import InRounds, Recursion, WithCopies, WithMemory
from copriv.rules.synchronous import s1_steps, s2_average, s2_steps

OWNERS = {
    "3 identical": OwnerKinds.of([1e4], [1e-3], counts=[3]),
    "1,000,000 identical": OwnerKinds.of([1e4], [1e-3], counts=[10**6]),
    "1,000 of ten kinds": OwnerKinds.of(1000.0 * np.arange(1, 11), np.linspace(0.01, 0.1, 10), counts=[100] * 10),
}
T, P = 1000, 10


RECURSIONS: dict[str, Recursion] = {
    "S1": InRounds(s1_steps(1e5, T)),
    "S2": InRounds(s2_steps(0.01, T), s2_average(T)),
    "A1": WithCopies(10.0 / T**2, 0.5),
    "A2": WithMemory(0.05),
}


def run(rule: str, quadratic: Quadratic, owners: OwnerKinds) -> tuple[float, str]:
    """Seconds, and whether it was within reach."""
    begun = time.perf_counter()
    try:
        expected_cost(RECURSIONS[rule], quadratic, owners, T, np.zeros(P))
    except InvalidInput:
        return time.perf_counter() - begun, "out of reach"
    return time.perf_counter() - begun, "exact"


def of_ten_kinds(owners: int) -> Agreement:
    """So many owners of ten kinds, a table with a `count` each, and everything left to plan."""
    return Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 1000},
            "model": {"loss": "squared", "regularization": 1e-4},
            "data": {"dataset": "lending-embedded"},
            "owner": [
                {"name": f"kind {k}", "records": 200 * k, "epsilon": 0.2 * k, "count": owners // 10}
                for k in range(1, 11)
            ],
        }
    )


def whole() -> None:
    """Forecasts from the agreement to the verdicts."""
    print(f"{'owners':>8} {'seconds':>8} {'of ten':>7}  recommended, its band")
    least = 0.0
    for owners in (10, 100, 1000, 10_000, 100_000):
        begun = time.process_time()
        with threadpool_limits(limits=1):
            found = forecast(of_ten_kinds(owners))
        seconds = time.process_time() - begun
        least, ψ = least or seconds, found.recommended.relative_fitness
        words = f"{found.recommended.words.split(',')[0]}, {ψ.low[-1]:.2g} to {ψ.high[-1]:.2g}"
        print(f"{owners:8,} {seconds:8.1f} {seconds / least:7.2f}  {words}", flush=True)


def main() -> None:
    """The exact recursions, or whole forecasts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="whole forecasts in place of the exact recursions")
    if parser.parse_args().whole:
        whole()
        return
    rng = np.random.default_rng(0)
    records = Records.of(rng.normal(size=(30, P)), rng.normal(size=30))
    quadratic = Quadratic.of(records, Regularizer(0.1))
    print(f"{'rule':5} {'owners':20} {'seconds':>8} {'of three':>9}")
    with threadpool_limits(limits=1):
        for rule in RECURSIONS:
            least = 0.0
            for name, owners in OWNERS.items():
                seconds, found = min(run(rule, quadratic, owners) for _ in range(3))
                least = least or seconds
                print(f"{rule:5} {name:20} {seconds:8.3f} {seconds / least:9.2f}  {found}", flush=True)


if __name__ == "__main__":
    main()
