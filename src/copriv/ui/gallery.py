"""The gallery: every figure of the papers with its claim, and its verdict and picture where `copriv reproduce` made them.

Figures and claims come with copriv, in the file that `copriv reproduce --gallery` writes; the plug-in copriv-papers, which
made them, need not be installed. It is needed for transients at any ε, which are run while somebody waits.
"""

import json
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

from copriv.errors import InvalidInput

VERDICTS = "verdicts.json"
"""What `copriv reproduce` leaves for these pages, beside the pictures."""
SCHEMA = "copriv.gallery/1"
_CHECKOUT = Path(__file__).parents[3] / "docs" / "gallery"
_SHIPPED = Path(str(files("copriv.ui"))) / "figures"
SHOWN = _SHIPPED if (_SHIPPED / VERDICTS).is_file() else _CHECKOUT
"""Pictures and verdicts that come with the package; in a checkout of the repository, those of its documentation."""
_FIGURE = ("id", "source", "title", "claim")
_SAID = ("verdict", "why", "command", "data", "runs", "compared")


class Gallery:
    """The figures, with what `copriv reproduce` left in a folder; without a folder, with what came with copriv."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or SHOWN

    def figures(self) -> dict[str, Any]:
        """All figures, in the papers' order; `note` is about all of their numbers, `live` names the transients."""
        kept = _read(self._folder)
        known = {one["id"]: one for one in kept.get("figures", [])}
        told = [
            {
                **{key: figure[key] for key in _FIGURE},
                "picture": self.picture(figure["id"]) is not None,
                **{key: known.get(figure["id"], {}).get(key) for key in _SAID},
            }
            for figure in _read(SHOWN).get("figures", [])
        ]
        return {"figures": told, "live": list(getattr(_plug_in(), "LIVE", ())), "note": str(kept.get("note", ""))}

    def picture(self, identity: str) -> Path | None:
        """A figure's picture; only figures' own names are looked for."""
        known = {figure["id"] for figure in _read(SHOWN).get("figures", [])}
        path = self._folder / f"{identity}.png"
        return path if identity in known and path.is_file() else None


def _read(folder: Path) -> dict[str, Any]:
    """The folder's verdicts; empty where there are none, or a file that `copriv reproduce` did not write."""
    try:
        found: dict[str, Any] = json.loads((folder / VERDICTS).read_text(encoding="utf-8"))
        return found if found["schema"] == SCHEMA else {}
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return {}


def transient(identity: str, epsilon: Any) -> dict[str, Any]:
    """ψ against k of a figure's first private panel, with this ε for every owner: quartiles and median of some runs.

    Raises InvalidInput for a figure that is not run here, an ε that is none, and where the plug-in is not installed.
    """
    experiments = _plug_in()
    if experiments is None:
        raise InvalidInput(
            "runs at any epsilon need the papers' experiments, which are not installed here: pip install copriv-papers"
        )
    run: dict[str, Any] = experiments.transient(identity, epsilon)
    return run


def _plug_in() -> Any | None:
    """What copriv-papers runs for these pages; None where it is not installed."""
    return next((brought.load() for brought in entry_points(group="copriv.reproduce", name="live")), None)
