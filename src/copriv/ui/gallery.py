"""The gallery: the papers' figures with their claims, and the verdicts and pictures that `copriv reproduce` made.

Figures and claims are part of copriv, in the file that `copriv reproduce --gallery` writes. The plug-in copriv-papers is
needed only for transients at a given ε, which are simulated on request.
"""

import json
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

from copriv.errors import InvalidInput

VERDICTS = "verdicts.json"
"""Name of the file that `copriv reproduce` writes for these pages, beside the pictures."""
SCHEMA = "copriv.gallery/1"
SHOWN = Path(str(files("copriv.ui"))) / "figures"
"""Folder of the pictures and verdicts of the package; in a checkout of the repository, of its documentation."""
if not (SHOWN / VERDICTS).is_file():
    SHOWN = Path(__file__).parents[3] / "docs" / "gallery"
_FIGURE = ("id", "source", "title", "claim")
_VERDICT = ("verdict", "why", "command", "data", "runs", "compared")


class Gallery:
    """The figures, with the results of `copriv reproduce` in a folder, or those of the package without one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or SHOWN

    def figures(self) -> dict[str, Any]:
        """All figures, in the papers' order; `note` concerns all of their numbers, `live` names the transients."""
        results = _read(self._folder)
        by_id = {one["id"]: one for one in results.get("figures", [])}
        figures = [
            {
                **{key: figure[key] for key in _FIGURE},
                "picture": self.picture(figure["id"]) is not None,
                **{key: by_id.get(figure["id"], {}).get(key) for key in _VERDICT},
            }
            for figure in _read(SHOWN).get("figures", [])
        ]
        live = list(getattr(_plug_in(), "LIVE", ()))
        return {"figures": figures, "live": live, "note": str(results.get("note", ""))}

    def picture(self, identity: str) -> Path | None:
        """Path of a figure's picture; None for an unknown figure or one without a picture."""
        known = {figure["id"] for figure in _read(SHOWN).get("figures", [])}
        path = self._folder / f"{identity}.png"
        if identity in known and path.is_file():
            return path
        return None


def _read(folder: Path) -> dict[str, Any]:
    """The verdicts in a folder; empty where `copriv reproduce` wrote none there."""
    try:
        found: dict[str, Any] = json.loads((folder / VERDICTS).read_text(encoding="utf-8"))
        if found["schema"] == SCHEMA:
            return found
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        pass
    return {}


def transient(identity: str, epsilon: Any) -> dict[str, Any]:
    """ψ against k of a figure's first private panel, with this ε for every owner: quartiles and median over a few runs.

    Raises InvalidInput for another figure, an ε that is not valid, and where the plug-in is not installed.
    """
    experiments = _plug_in()
    if experiments is None:
        raise InvalidInput(
            "runs at any epsilon need the papers' experiments, which are not installed here: pip install copriv-papers"
        )
    run: dict[str, Any] = experiments.transient(identity, epsilon)
    return run


def _plug_in() -> Any | None:
    """The module of copriv-papers that simulates transients; None where it is not installed."""
    return next((brought.load() for brought in entry_points(group="copriv.reproduce", name="live")), None)
