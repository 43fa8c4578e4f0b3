"""The picture of `copriv own-learners --out`: for each owner, alone, with the common model, and learning for itself."""

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from copriv.cli.show import words
from copriv.cli.show.pictures import ALONE, FAINT, FLOOR, INK, STYLE, TOGETHER, png
from copriv.forecast.own_learners import OwnLearnersForecast


def owners_apart(outlook: OwnLearnersForecast, made_by: str) -> bytes:
    """A PNG with a line for each owner (the first 20): how far from the best model of everybody's records it would be.

    Shapes differ as well as colours. made_by: the command that draws it again; it stands under the picture.
    """
    shown = outlook.learners[: words.MOST_ROWS]
    height = 2.6 + 0.34 * len(shown)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, height), dpi=160, facecolor="white")
        axes = figure.add_axes((0.2, 1.15 / height, 0.77, 0.34 * len(shown) / height))
        y = np.arange(len(shown))[::-1]
        for what, marker, colour, label in (
            ("alone", "s", ALONE[0], "its own records alone"),
            ("together", "D", ALONE[3], "the one common model"),
            ("learning", "o", TOGETHER, "its own model, from shared answers"),
        ):
            ψ = [max(getattr(one, what), FLOOR) for one in shown]
            axes.plot(ψ, y, marker, color=colour, markersize=6.5, label=label, zorder=3)
        low, high = (np.maximum([getattr(one, f"learning_{end}") for one in shown], FLOOR) for end in ("low", "high"))
        axes.hlines(y, low, high, color=TOGETHER, linewidth=2.0, alpha=0.45, label="90 % of runs", zorder=2)
        public = max(outlook.public_only, FLOOR)
        axes.axvline(public, color=FAINT, linewidth=1.2, linestyle="--", label="the public rows alone", zorder=1)
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ψ, _: words.axis_percent(ψ)))
        axes.set_yticks(y, [_short(one.name) for one in shown], color=INK)
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.set_xlabel("worse than the best possible model of everybody's records", labelpad=7)
        title = "Every owner its own learner, from one shared answer each"
        figure.text(0.03, 1 - 0.3 / height, title, fontsize=15, fontweight="bold", va="center")
        figure.legend(
            loc="upper left", bbox_to_anchor=(0.02, 1 - 0.5 / height), frameon=False, ncol=3, columnspacing=1.4,
            handletextpad=0.6, fontsize=9.5,
        )  # fmt: skip
        return png(figure, made_by)


def _short(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:19]}…"
