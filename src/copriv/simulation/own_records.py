"""Loss on an owner's held-out records of three models: its own, the common one, and the common one personalized.

A fifth of an owner's records (of its persons, where they are the units) is held out of its own fit and of personalizing. The
common model was trained on them, so its loss there is too low by about κ/n: n_i/n of the error of the owner's own model.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from copriv.model.records import Records
from copriv.problem import Problem
from copriv.problem.personalization import Home, personalize
from copriv.types import Array


@dataclass(frozen=True)
class OwnOutcome:
    """Mean loss on the owner's held-out records."""

    alone: float
    together: float
    """Loss of the common model, averaged over runs."""
    personalized: float
    """Loss of the personalized model (`copriv.personalize`), averaged over the first 3 runs: each takes a cross-validation."""
    held_out: int
    """Rows."""


def on_own_records(problem: Problem, i: int, models: Float[Array, "runs p"], seed: int = 0) -> OwnOutcome | None:
    """Compare the three models on owner i's records; None where it has too few to hold any out. models: last θ of each run."""
    raw, rng = problem.unbounded[i], np.random.default_rng([seed, i, 17])
    if min(len(raw), raw.units) < 5:
        return None
    out = _held_out(raw, rng)
    test, rest = problem.owners[i], raw.taken(~out)
    share = test.weight[out] / test.weight[out].sum()
    loss, agreement = problem.loss, problem.agreement
    x, y = test.features[out], test.target[out]

    def lost(theta: Float[Array, " p"]) -> float:
        return float(share @ loss.values(theta, x, y))

    home = Home(loss, problem.regularizer.strength, models[0], np.eye(len(models[0])))
    seen = problem.unbounded_public
    public = None if seen is None else (seen.features, seen.target)
    made = [personalize(agreement, theta, rest, public=public, seed=seed) for theta in models[:3]]
    return OwnOutcome(
        lost(home.fitted(problem.as_agreed(rest), 0.0, models[0])),
        float(np.mean([lost(theta) for theta in models])),
        float(np.mean([lost(theta) for theta in made])),
        int(out.sum()),
    )


def _held_out(raw: Records, rng: np.random.Generator) -> Bool[np.ndarray, " rows"]:
    """Choose one row or person in five, at least one."""
    unit = np.arange(len(raw)) if raw.person is None else raw.person
    number = int(unit.max()) + 1
    chosen = np.zeros(number, dtype=bool)
    chosen[rng.permutation(number)[: max(round(0.2 * number), 1)]] = True
    return np.asarray(chosen[unit])
