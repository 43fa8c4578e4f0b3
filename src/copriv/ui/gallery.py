"""The gallery: every figure with the paper's claim, its picture where one was made, and transients at any ε."""

import json
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from copriv.errors import InvalidInput
from copriv.experiments.consortia import NOT_PRIVATE
from copriv.experiments.figures import BEYOND, FIGURES
from copriv.experiments.gallery import VERDICTS, brief
from copriv.experiments.runner import Cell, Effort
from copriv.problem import Problem
from copriv.simulation import simulate

_CHECKOUT = Path(__file__).parents[3] / "docs" / "gallery"
_SHIPPED = Path(str(files("copriv.ui"))) / "figures"
SHOWN = _SHIPPED if (_SHIPPED / VERDICTS).is_file() else _CHECKOUT
"""Pictures and verdicts that come with the package; in a checkout of the repository, those of its documentation."""
LIVE = {"sync-fig2": 20, "sync-fig7": 20, "async-fig2": 20, "async-fig7": 5}
"""The papers' transients, and how many runs of each are made while somebody waits."""
_SAID = ("verdict", "why", "command", "data", "runs", "compared")


class Gallery:
    """The figures, with what `copriv reproduce` left in a folder; without a folder, with what came with copriv."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or SHOWN

    def figures(self) -> dict[str, Any]:
        """All figures, in the papers' order; `note` is about all of their numbers."""
        kept = self._read(VERDICTS)
        known = {one["id"]: one for one in kept.get("figures", []) if isinstance(one, dict) and "id" in one}
        told = [self._told(figure, known.get(figure.identity, {})) for figure in (*FIGURES, *BEYOND)]
        return {"figures": told, "live": list(LIVE), "note": str(kept.get("note", ""))}

    def _told(self, figure: Any, known: dict[str, Any]) -> dict[str, Any]:
        document = self._read(f"{figure.identity}.json")
        try:
            said = brief(document) if document else known
        except (KeyError, TypeError, AttributeError):
            said = {}  # a file that `copriv reproduce` did not write
        return {
            "id": figure.identity, "source": figure.source, "title": figure.title, "claim": figure.claim,
            "picture": self.picture(figure.identity) is not None, **{key: said.get(key) for key in _SAID},
        }  # fmt: skip

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads((self._folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
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
