"""What the time of an answer tells of its noise, and of its records: without a fixed time of release, and with one.

    python -m benchmarks.release_time [--answers 4000]

`noise`: Spearman's rank correlation between how long an owner took for an answer and the size of the noise in it, on records
of zeros (so that the answer is the noise). `objective`: the most and the fewest passes of the solver over records that
differ in one, and the passes that its slot pays for.
"""

import argparse
import time
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from copriv.agreement import Agreement
from copriv.losses import Squared
from copriv.mechanisms.objective_noise import ObjectiveAnswer
from copriv.mechanisms.objective_solver import Prepared
from copriv.model.records import Records
from copriv.owner import Owner
from copriv.privacy.release_time import ReleaseTime
from copriv.protocol import Query


def agreed(mechanism: str, answers: int, records: int, epsilon: float) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": answers, "answers": answers, "step": 1.0, "mechanism": mechanism},
            "model": {"loss": "squared", "gradient_bound": 1.0, "theta_max": 1e6},
            "data": {"feature_bound": 1.0, "components": 0},
            "owner": [{"name": "bank", "records": records, "epsilon": epsilon}],
        }
    )


def one_record(n: int, p: int, x: float, y: float) -> Records:
    features, target = np.zeros((n, p)), np.zeros(n)
    features[0, 0], target[0] = x, y
    return Records.of(features, target)


def told_by_time(answers: int, p: int, times: ReleaseTime | None) -> tuple[float, float]:
    """Spearman's correlation of time and noise, and the median time."""
    terms = agreed("laplace", answers, 1000, float(answers))
    owner = Owner(terms, "bank", one_record(1000, p, 0.0, 0.0), Squared(), times=times)
    took, noise = [], []
    for k in range(answers):
        query = Query(f"{k}", terms.fingerprint, "bank", np.zeros(p))
        begun = time.perf_counter()
        answer = owner.answer(query)
        took.append(time.perf_counter() - begun)
        noise.append(float(np.abs(answer.gradient).sum()))
    return float(spearmanr(took, noise).statistic), float(np.median(took))


def passes(epsilon: float, times: int = 100) -> dict[str, tuple[int, int]]:
    """The fewest and the most passes of the solver on neighbours, and those of the slot."""
    terms, count = agreed("objective", 1, 1000, epsilon), [0]
    gradient = Prepared.gradient

    def counted(self: Prepared, *given: Any) -> Any:
        count[0] += 1
        return gradient(self, *given)

    found = {}
    Prepared.gradient = counted  # type: ignore[method-assign]
    try:
        for name, x, y in (("D", 0.0, 0.0), ("D', x = 1, y = 0", 1.0, 0.0), ("D', x = 1, y = 0.6", 1.0, 0.6)):
            of = []
            for k in range(times):
                owner = Owner(terms, "bank", one_record(1000, 3, x, y), Squared())
                count[0] = 0
                owner.answer(Query(f"{k}", terms.fingerprint, "bank", np.zeros(3)))
                of.append(count[0])
            found[name] = min(of), max(of)
        assert isinstance(owner._mechanism, ObjectiveAnswer)
        found["the slot"] = (owner._mechanism.most_passes,) * 2
    finally:
        Prepared.gradient = gradient  # type: ignore[method-assign]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=4000)
    answers = parser.parse_args().answers
    for p in (1, 10):
        for words, times in (("as long as it takes", None), ("at a fixed time", ReleaseTime(5e-3))):
            correlation, median = told_by_time(answers, p, times)
            print(f"noise, {p:2} numbers, {words:20} correlation {correlation:+.3f}, median {1e3 * median:.2f} ms")
    for epsilon in (1.0, 3.0):
        for name, (fewest, most) in passes(epsilon).items():
            print(f"objective, epsilon {epsilon:g}, {name:20} {fewest} to {most} passes")


if __name__ == "__main__":
    main()
