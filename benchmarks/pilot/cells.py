"""One cell: what was forecast before and after a pilot, beside what came of both plans."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import copriv
from benchmarks.unlike.cells import RUNS, agreement, simulated, verdicts
from benchmarks.unlike.tables import Owners
from copriv.forecast.after_pilot import after_pilot, before_pilot
from copriv.plan import plan
from copriv.problem import Problem

LENDING_RUNS = 10


def measure(cut: Owners, loss: str, epsilon: float, share: float, seed: int) -> dict[str, Any]:
    """The forecast before the pilot and the one after it, each beside what came of its recommended agreement."""
    terms, rows = agreement(cut, loss, epsilon, None), dict[str, Any]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = copriv.forecast(terms, public=cut.public)
        after = copriv.pilot(terms.replace(agreement={"pilot": share}), cut.train, public=cut.public, seed=seed)
    for when, told in (("before", before), ("after", after)):
        found = simulated(told.recommended.agreement, cut, RUNS, alone=True)
        ψ, measured = told.recommended.relative_fitness.end, float(found.relative_fitness.final["median"])
        rows[when] = {
            "owners": verdicts(told, found, cut, loss), "median": ψ["median"], "measured": measured,
            "in_band": bool(ψ["low"] <= measured <= ψ["high"]), "width": float(np.log(ψ["high"] / ψ["low"])),
        }  # fmt: skip
    return rows | {"outlook": before.pilot and before.pilot.to_dict()}


def lending(folder: Path, owners: int, records: int, epsilon: float, share: float) -> dict[str, float]:
    """ψ of the plan without a pilot and of the one after it, on loans drawn again; and of the best owner's own model."""
    document = {
        "agreement": {"rule": "auto", "horizon": 1000},
        "model": {"loss": "squared", "regularization": 1e-5},
        "data": {
            "dataset": "lending", "components": 10, "public_rows": 2000, "path": str(folder / "lending_10k.parquet"),
        },
        "owner": [{"name": f"owner-{i}", "records": records, "epsilon": epsilon} for i in range(owners)],
    }  # fmt: skip
    terms = copriv.Agreement.of(document)
    problem = Problem.load(terms)
    few = [problem.fitness_of(one).minimum().theta for one in problem.owners[:5]]
    alone = min(float(problem.fitness.value(theta)) / problem.optimum.value - 1.0 for theta in few)
    return _both(problem, share, LENDING_RUNS) | {"alone": alone}


def alike(cut: Owners, loss: str, epsilon: float, share: float) -> dict[str, float]:
    """ψ without a pilot and after one, where owners are alike and the agreement says so. cut: shuffled."""
    return _both(Problem.of(agreement(cut, loss, epsilon, 0.0), cut.train, cut.public), share, RUNS)


def _both(problem: Problem, share: float, runs: int) -> dict[str, float]:
    piloted = problem.under(problem.terms.replace(agreement={"pilot": share}))
    after = after_pilot(before_pilot(piloted), piloted)
    plans = {"before": plan(problem), "after": plan(after.problem, sample=after)}
    ends = {}
    for when, found in plans.items():
        run = copriv.simulate(problem.under(found.agreement), runs=runs, seed=1, alone=False)
        ends[when] = float(run.relative_fitness.final["median"])
    return ends
