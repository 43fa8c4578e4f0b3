"""Transients at any ε, while somebody waits: what the gallery of `copriv ui` asks this plug-in for."""

from functools import lru_cache
from typing import Any

from copriv.errors import InvalidInput
from copriv.problem import Problem
from copriv.simulation import simulate
from copriv_papers.consortia import NOT_PRIVATE
from copriv_papers.figure import Cell, Effort
from copriv_papers.figures import FIGURES

LIVE = {"sync-fig2": 20, "sync-fig7": 20, "async-fig2": 20, "async-fig7": 5}
"""The papers' transients, and how many runs of each are made while somebody waits."""


def transient(identity: str, epsilon: Any) -> dict[str, Any]:
    """ψ against k of a figure's first private panel, with this ε for every owner: 25 %, median and 75 % of runs.

    Raises InvalidInput for a figure that is not one of LIVE, or an ε that is none.
    """
    if identity not in LIVE:
        raise InvalidInput(f"figure: {identity!r} is not run here; use copriv reproduce {identity}")
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon <= 1e6:
        raise InvalidInput(f"epsilon: must be a number above 0, not {epsilon!r}")
    cell, problem = _loaded(identity)
    result = simulate(
        problem.under(cell.trial.agreement.replace(owner={"epsilon": float(epsilon)})),
        runs=LIVE[identity], seed=0, alone=False, workers=1,
    )  # fmt: skip
    ψ = result.relative_fitness
    kept = [i for i, k in enumerate(ψ.k.tolist()) if k > 0]
    return {
        "epsilon": float(epsilon), "runs": LIVE[identity], "panel": cell.at["panel"], "description": result.description,
        "k": [int(ψ.k[i]) for i in kept],
        **{name: [float(ψ.quantile(q)[i]) for i in kept] for name, q in (("low", 0.25), ("mean", 0.5), ("high", 0.75))},
    }  # fmt: skip


@lru_cache(maxsize=len(LIVE))
def _loaded(identity: str) -> tuple[Cell, Problem]:
    figure = next(one for one in FIGURES if one.identity == identity)
    cell = next(
        one
        for one in figure.plan(Effort(quick=True))
        if one.trial.mechanism not in (*NOT_PRIVATE, "planned") and not one.trial.agreement.model.gradient_bound_assumed
    )
    return cell, Problem.load(cell.trial.agreement)
