"""How long forecasts of many owners take, against one of three owners: `python -m benchmarks.forecasts`.

p = 10, T = 1,000 (S1, S2: rounds; A1, A2: queries); mean and variance at every k. The target is a second for a million
identical owners, and for a thousand of ten kinds.
"""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from copriv.fitness import Quadratic, Regularizer
from copriv.forecast.exact.asynchronous import a1, a2
from copriv.forecast.exact.moments import Moments, OwnerKinds
from copriv.forecast.exact.synchronous import s1, s2
from copriv.records import Records

OWNERS = {
    "3 identical": OwnerKinds.of([1e4], [1e-3], counts=[3]),
    "1,000,000 identical": OwnerKinds.of([1e4], [1e-3], counts=[10**6]),
    "1,000 of ten kinds": OwnerKinds.of(1000.0 * np.arange(1, 11), np.linspace(0.01, 0.1, 10), counts=[100] * 10),
}
T, P = 1000, 10


def run(rule: str, quadratic: Quadratic, owners: OwnerKinds) -> tuple[float, Moments]:
    """Seconds, and what was found."""
    begun, start, rng = time.perf_counter(), np.zeros(P), np.random.default_rng(0)
    match rule:
        case "S1":
            found = s1(quadratic, owners, 1e5, T, start)
        case "S2":
            found = s2(quadratic, owners, 0.01, T, start)
        case "A1":
            found = a1(quadratic, owners, 10.0, T, start, rng)
        case _:
            found = a2(quadratic, owners, 0.05, T, start, rng)
    return time.perf_counter() - begun, found


def main() -> None:
    rng = np.random.default_rng(0)
    records = Records.of(rng.normal(size=(30, P)), rng.normal(size=30))
    quadratic = Quadratic.of(records, Regularizer(0.1))
    print(f"{'rule':5} {'owners':20} {'seconds':>8} {'of three':>9}  mean, variance")
    with threadpool_limits(limits=1):
        for rule in ("S1", "S2", "A1", "A2"):
            least = 0.0
            for name, owners in OWNERS.items():
                seconds, found = min((run(rule, quadratic, owners) for _ in range(3)), key=lambda pair: pair[0])
                least = least or seconds
                kinds = f"{found.kind}, {found.variance_kind}"
                print(f"{rule:5} {name:20} {seconds:8.3f} {seconds / least:9.2f}  {kinds}", flush=True)


if __name__ == "__main__":
    main()
