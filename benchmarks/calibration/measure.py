"""One problem, forecast and then measured: what a row of the report is made of."""

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.calibration.problems import Drawn
from copriv import Problem, forecast, simulate
from copriv.errors import CoprivError
from copriv.forecast.assessment import quantiles
from copriv.model.fitness import relative_fitness
from copriv.populations.public_sample import PublicSample
from copriv.types import Array

RUNS = 20
LEVELS = (0.5, 0.8, 0.9, 0.95)


def measure(drawn: Drawn, seed: int) -> dict[str, Any]:
    """Facts, forecast, and what 20 runs on the owners' tables give; `refused` or `crashed` says why there is less."""
    found: dict[str, Any] = dict(drawn.facts)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        begun = time.process_time()  # one process, one thread: what a machine that does nothing else would take
        try:
            found |= _both(drawn, seed)
        except CoprivError as error:
            found["refused"] = str(error)
        except Exception as error:  # a crash is what is looked for
            found["crashed"] = f"{type(error).__name__}: {error}"
        found["total_seconds"] = time.process_time() - begun
    found["warnings"] = sorted({str(w.message) for w in warned})
    return found


def _both(drawn: Drawn, seed: int) -> dict[str, Any]:
    begun = time.process_time()
    said = forecast(drawn.agreement, public=drawn.public, seed=seed)
    seconds = time.process_time() - begun
    band, plan = said.recommended.relative_fitness, said.recommended
    problem = Problem.of(plan.agreement, list(drawn.owners), drawn.public)
    seen = simulate(problem, runs=RUNS, seed=seed + 1, record_at=(), workers=1)
    runs = seen.relative_fitness.runs[:, -1]
    quiet = _quiet(problem, seed)
    public = float(relative_fitness(problem.fitness.value(_public_model(problem)), problem.optimum))
    alone = [np.inf if o.alone is None else float(o.alone) for o in seen.owners]
    return {
        "seconds": seconds, "plan": plan.words, "mechanism": plan.agreement.agreement.mechanism,
        "mean": float(band.mean[-1]), "median": float(band.median[-1]), "low": float(band.low[-1]),
        "high": float(band.high[-1]), "runs": runs.tolist(), "quiet": quiet, "public_only": public,
        "public_said": said.public_only, "alone": alone, "alone_said": [o.alone for o in said.owners],
        "optimum": problem.optimum.value, "optimum_said": said.optimum, "kind_of_forecast": plan.kind,
        "pays": [o.on_all.probability > 0.5 for o in said.owners],
        "probability": [o.on_all.probability for o in said.owners],
        "paid": [bool(_gain(np.median(runs), min(a, public)) >= said.agreed.agreement.worthwhile) for a in alone],
        "paid_share": [
            float(np.mean(_gain(runs, min(a, public)) >= said.agreed.agreement.worthwhile)) for a in alone
        ],
        "levels": _levels(plan),
    }  # fmt: skip


def _gain(together: Any, without: float) -> Any:
    """Relative fall of the prediction error."""
    return (without - together) / (1.0 + without)


def _public_model(problem: Problem) -> Array:
    return problem.feasible_set.project(PublicSample.of(problem).optimum.theta)


def _quiet(problem: Problem, seed: int) -> float | None:
    """ψ of a run without noise: what is not privacy's."""
    if problem.agreement.one_answer:
        return None
    shape = (1, problem.agreement.n_owners if problem.agreement.synchronous else 1, problem.n_parameters)
    silent = simulate(problem, runs=1, seed=seed, record_at=(), alone=False, workers=1, noise=lambda k: np.zeros(shape))
    return float(silent.relative_fitness.runs[0, -1])


def _levels(plan: Any) -> list[list[float]] | None:
    """[level, low, high] of central intervals, where the forecast has its draws."""
    draws = getattr(plan, "draws", None)
    if draws is None:
        return None
    return [[q, *quantiles(draws, [0.5 - q / 2, 0.5 + q / 2]).tolist()] for q in LEVELS]
