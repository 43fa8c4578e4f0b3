"""The effect of a step that a paper does not print: the gain of ten times the budget over every c₁, by exact recursion.

S says that ψ falls about 100 times from ε = 1 to ε = 10, and prints no c₁. With a small c₁ the error of the start remains,
whatever the budget; with a large one runs diverge. Between them the first rounds overshoot, and forget the start soonest.
"""

from dataclasses import dataclass, replace

import numpy as np

from copriv.agreement import Agreement
from copriv.exact import OwnerKinds, expected_cost
from copriv.rules import named
from copriv.types import Array
from copriv_papers.trials import Trial, loaded

STEPS = np.geomspace(0.1, 12.0, 40)
"""c₁, over one by the pool's largest curvature."""
_LOST = 1e6
"""Times its start that E f − f* may be on the way; beyond it too few digits are left of what a run ends at."""


@dataclass(frozen=True)
class Gain:
    """E ψ at one ε over that at ten times ε, with the c₁ that makes it largest."""

    gain: float
    step: float
    calm: float
    """The largest where no run is ever farther from the optimum than it began: no round overshoots by so much."""


def largest_gain(trial: Trial, less: float = 1.0, more: float = 10.0) -> Gain:
    """Over every c₁, nothing clipped; NaN for a loss that is not squared, and where no run ends nearer than it began."""
    problem = loaded(trial.data).under(trial.agreement)
    q = problem.fitness.quadratic
    if q is None:
        return Gain(float("nan"), float("nan"), float("nan"))
    began = float(q.value(problem.start)) - problem.optimum.value
    found, calm = [], []
    for step in STEPS / float(np.linalg.eigvalsh(q.hessian)[-1]):
        a, b = (_costs(replace(trial, agreement=_with(trial, float(step), ε))) for ε in (less, more))
        peak = max(float(a.max()), float(b.max()))
        if peak < _LOST * began and a[-1] < began:
            found.append((float(a[-1] / b[-1]), float(step)))
        if peak <= began * (1 + 1e-9):
            calm.append(float(a[-1] / b[-1]))
    none = float("nan")
    return Gain(*max(found, default=(none, none)), max(calm, default=none))


def _with(trial: Trial, step: float, epsilon: float) -> Agreement:
    return trial.agreement.replace(agreement={"step": step}, owner={"epsilon": epsilon})


def _costs(trial: Trial) -> Array:
    """E f − f* after each round."""
    agreement, problem = trial.agreement, loaded(trial.data).under(trial.agreement)
    q, recursion = problem.fitness.quadratic, named(agreement.agreement.rule).recursion(agreement)
    assert q is not None
    assert recursion is not None
    owners = OwnerKinds.of(agreement.records, agreement.noise_scales())
    return expected_cost(recursion, q, owners, agreement.agreement.horizon, problem.start)
