"""The gallery: every figure with the paper's claim, its picture where one was made, and transients at any ε."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from copriv.errors import InvalidInput
from copriv.experiments.consortia import NOT_PRIVATE
from copriv.experiments.figures import BEYOND, FIGURES
from copriv.experiments.runner import Cell, Effort
from copriv.problem import Problem
from copriv.simulation import simulate

SHOWN = Path(__file__).parents[3] / "docs" / "gallery"
"""Where a checkout of the repository keeps its pictures."""
LIVE = ("sync-fig2", "async-fig2")
"""Transients that are quick enough to be run while somebody waits: on loans, not on cards or hospitals."""
RUNS = 20


class Gallery:
    """The figures, with what `copriv reproduce` left in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or SHOWN

    def figures(self) -> dict[str, Any]:
        """All figures, in the papers' order."""
        return {"figures": [self._told(figure) for figure in (*FIGURES, *BEYOND)], "live": list(LIVE)}

    def _told(self, figure: Any) -> dict[str, Any]:
        made = self._read(figure.identity)
        return {
            "id": figure.identity, "source": figure.source, "title": figure.title, "claim": figure.claim,
            "picture": self.picture(figure.identity) is not None, "verdict": made.get("verdict"), "why": made.get("why"),
            "data": [one.get("description") for one in made.get("data", []) if isinstance(one, dict)],
        }  # fmt: skip

    def _read(self, identity: str) -> dict[str, Any]:
        try:
            found = json.loads((self._folder / f"{identity}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def picture(self, identity: str) -> Path | None:
        """A figure's picture; only figures' own names are looked for."""
        known = {figure.identity for figure in (*FIGURES, *BEYOND)}
        path = self._folder / f"{identity}.png"
        return path if identity in known and path.is_file() else None


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
        runs=RUNS, seed=0, alone=False, workers=1,
    )  # fmt: skip
    ψ = result.relative_fitness
    kept = [i for i, k in enumerate(ψ.k.tolist()) if k > 0]
    return {
        "epsilon": float(epsilon), "runs": RUNS, "panel": cell.at["panel"], "description": result.description,
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
