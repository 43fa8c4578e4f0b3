"""Which model serves an owner's own records: its own, the common one as it comes, or the common one personalized at home?

A fifth of an owner's records (of its persons, where they are the units) is held out of its own fit and of personalizing, and
all three are judged there. The common model has seen them, as some among everybody's: its loss there is too low by about
κ/n, which is a part n_i/n of what the owner's own model errs by.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from copriv.model.records import Records
from copriv.problem import Problem
from copriv.problem.personalization import Home, personalized
from copriv.types import Array

HELD_OUT = 0.2
PERSONALIZED = 3
"""Runs whose model is personalized at home: each is a cross-validation."""
LEAST = 5
"""Rows below which none can be held out."""


@dataclass(frozen=True)
class OwnOutcome:
    """Mean loss on the owner's held-out records."""

    alone: float
    together: float
    """Of the common model, a mean over runs."""
    personalized: float
    """Of the common model personalized at home (`copriv.personalize`): a mean over the first few runs."""
    held_out: int
    """Rows."""


def on_own_records(problem: Problem, i: int, models: Float[Array, "runs p"], seed: int = 0) -> OwnOutcome | None:
    """Of owner i, with the models that runs ended with; None where it has too few records to hold any out."""
    raw, rng = problem.unbounded[i], np.random.default_rng([seed, i, 17])
    if len(raw) < LEAST or raw.units < LEAST:
        return None
    out = _held_out(raw, rng)
    test, rest = problem.owners[i], raw.taken(~out)
    share = test.weight[out] / test.weight[out].sum()
    loss, agreement = problem.loss, problem.agreement
    x, y = test.features[out], test.target[out]

    def lost(theta: Float[Array, " p"]) -> float:
        return float(share @ loss.values(theta, x, y))

    home = Home(loss, problem.regularizer.strength, models[0], np.eye(len(models[0])))
    own = rest.with_intercept() if agreement.model.intercept else rest
    made = [_personalized(problem, theta, rest, seed) for theta in models[:PERSONALIZED]]
    return OwnOutcome(
        lost(home.fitted(own, 0.0, models[0])),
        float(np.mean([lost(theta) for theta in models])),
        float(np.mean([lost(theta) for theta in made])),
        int(out.sum()),
    )


def _personalized(problem: Problem, theta: Float[Array, " p"], rest: Records, seed: int) -> Any:
    public = problem.unbounded_public
    shown = None if public is None else (public.features, public.target)
    return personalized(problem.agreement, theta, rest, public=shown, seed=seed).theta


def _held_out(raw: Records, rng: np.random.Generator) -> Bool[np.ndarray, " rows"]:
    """One row or person in five, one at least."""
    unit = np.arange(len(raw)) if raw.person is None else raw.person
    number = int(unit.max()) + 1
    chosen = np.zeros(number, dtype=bool)
    chosen[rng.permutation(number)[: max(round(HELD_OUT * number), 1)]] = True
    return np.asarray(chosen[unit])
