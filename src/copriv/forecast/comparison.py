"""Compare terms that were run in the same worlds: which costs least, and whether by more than chance.

The terms of least cost are recommended, the agreed ones among them. Differences are taken world by world; their error is
the bootstrap's, over draws of worlds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from copriv.forecast.assessment import Assessment
from copriv.plan import Choice

DRAWS = 400
"""Bootstrap draws of worlds."""
ERRORS = 2.0
"""Standard errors within which two costs are not told apart."""


@dataclass(frozen=True, eq=False)
class Run:
    """A choice of the plan, and what it costs in the forecast's worlds."""

    choice: Choice
    assessment: Assessment

    @property
    def cost(self) -> float:
        """E ψ, what terms are compared by."""
        return self.assessment.relative_fitness.end["mean"]

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract."""
        return {
            "words": self.choice.describe(),
            "relative_fitness": self.cost,
            "median": self.assessment.relative_fitness.end["median"],
        }


@dataclass(frozen=True)
class Comparison:
    """Agreed terms against recommended ones."""

    same: bool
    """The agreed terms are the recommended ones."""
    times: float
    """E ψ of the agreed terms over that of the recommended ones; never below 1."""
    within_error: bool
    """The difference of the means is within its error."""
    typical_within_error: bool
    """The difference of the medians is."""

    @classmethod
    def of(cls, agreed: Assessment, recommended: Assessment) -> "Comparison":
        """Both run in the same worlds."""
        if agreed is recommended:
            return cls(True, 1.0, True, True)
        before, after = (one.relative_fitness.end["mean"] for one in (agreed, recommended))
        mean, median = (_apart(agreed, recommended, statistic) for statistic in (np.mean, np.median))
        return cls(False, before / after if after > 0 else 1.0, not mean, not median)


def relative_error(one: Assessment) -> float:
    """The bootstrap's standard error of the median of ψ, over that median."""
    median = float(np.median(one.draws))
    return float(np.std(_redrawn(one.draws, np.median))) / median if median > 0 else 0.0


def _apart(one: Assessment, other: Assessment, statistic: Any) -> bool:
    """Whether a statistic of ψ differs by more than chance."""
    if one.draws.shape != other.draws.shape:
        return True
    moved = _redrawn(one.draws, statistic) - _redrawn(other.draws, statistic)
    difference = float(statistic(one.draws) - statistic(other.draws))
    return abs(difference) > ERRORS * float(np.std(moved))


def _redrawn(draws: Any, statistic: Any) -> Any:
    """The statistic under other draws of as many worlds: the same draws for everybody."""
    rng = np.random.default_rng([DRAWS, len(draws)])
    return np.array([statistic(draws[rng.integers(0, len(draws), len(draws))]) for _ in range(DRAWS)])
