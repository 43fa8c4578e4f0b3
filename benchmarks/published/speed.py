"""How long the fits take that were too slow: 28,000 rows of 290 columns, and a million of 50.

Seconds are of processor time, on one thread (OMP_NUM_THREADS=1), so that a busy machine measures the same.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from copriv.estimators import PrivateClassifier, PrivateRegressor
from copriv.losses import Squared
from copriv.mechanisms.moments import BoundedMoments, MomentsAnswer
from copriv.model.records import Records
from copriv.types import Array

ROWS, COLUMNS, PUBLIC = 28_000, 290, 200
LEVELS = 29
"""Of each of ten variables; columns are these, one-hot, as tables so wide mostly are."""
DECLARED, PLANNED, PASS = 3.0, 60.0, 1.5
"""Seconds of a fit by declared ranges, and by public rows; times one pass over a million rows."""


def measured() -> Iterator[dict[str, Any]]:
    """One row a fit: its name, seconds (or times one pass), and what is aimed at."""
    x, numbers, labels = table()
    rows = (x[PUBLIC:], numbers[PUBLIC:], labels[PUBLIC:])
    public = (x[:PUBLIC], numbers[:PUBLIC], labels[:PUBLIC])
    for δ in (0.0, 1.0 / ROWS**2):
        for what in ("squared", "logistic"):
            model: Any = PrivateRegressor(delta=δ, bounds=(0.0, 1.0), target_bounds=(-1.0, 1.0))
            if what == "logistic":
                model = PrivateClassifier(delta=δ, bounds=(0.0, 1.0), classes=(-1.0, 1.0))
            y = 1 if what == "squared" else 2
            for how, given, aimed in (
                ("declared only", None, DECLARED),
                (f"{PUBLIC} public rows", (public[0], public[y]), PLANNED),
            ):
                name = f"{ROWS:,} × {COLUMNS}, {what}, delta {'1/n²' if δ else '0'}, {how}"
                yield {"cell": f"speed: {name}", "speed": _seconds(model, rows[0], rows[y], given), "aimed": aimed}
    fit, moments = _over_one_pass()
    yield {"cell": "speed: 1,000,000 × 50, moments over one pass of XᵀX", "speed": moments, "aimed": PASS}
    yield {"cell": "speed: 1,000,000 × 50, fit over one pass of XᵀX", "speed": fit, "aimed": PASS}


def table() -> tuple[Array, Array, Array]:
    """Ten variables of unequal levels, one-hot; numbers in [−1, 1] and labels that follow from them."""
    rng, n = np.random.default_rng(27), ROWS + PUBLIC
    levels = np.minimum(rng.geometric(0.25, size=(n, COLUMNS // LEVELS)) - 1, LEVELS - 1)
    x = (levels[:, :, None] == np.arange(LEVELS)).reshape(n, COLUMNS).astype(float)
    score = x @ rng.normal(size=COLUMNS)
    score = (score - score.mean()) / score.std()
    labels = np.where(score + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0)
    return x, np.clip(score + 0.3 * rng.normal(size=n), -3.0, 3.0) / 3.0, labels


def _seconds(model: Any, x: Array, y: Array, public: Any) -> float:
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y, public=public)
    return time.process_time() - begun


def _over_one_pass() -> tuple[float, float]:
    """Of a whole fit from declared ranges, and of the noisy moments alone."""
    rng = np.random.default_rng(27)
    x = rng.uniform(-1.0, 1.0, size=(1_000_000, 50))
    y = x[:, 0] / 2.0

    def seconds(work: Callable[[], object]) -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    records, answer = Records.of(x, y), MomentsAnswer(BoundedMoments(1.0, np.sqrt(50.0), False, 50), 5.0, len(y))
    passes = [seconds(lambda: x.T @ x) for _ in range(5)]
    moments = seconds(lambda: answer.answer(Squared(), records, np.zeros(50)))
    model = PrivateRegressor(delta=1e-12, bounds=(-1.0, 1.0), target_bounds=(-1.0, 1.0))
    one_pass = float(np.median(passes))
    return _seconds(model, x, y, None) / one_pass, moments / one_pass
