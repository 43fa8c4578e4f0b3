"""Compare models on an owner's own records, by cross-validation: its own, the public and the common one, and these two
personalized.

An owner's records (or persons, where they are the units) are divided into fifths, and each is held out in turn: own and
personalized models are fitted to the other four. With a fifth fewer records both are slightly worse, which enlarges a gain by
at most a quarter. The common model was trained on all records, so that its loss is too low by about κ/n: n_i/n of the error
of the owner's own model.

A verdict is uncertain because of the records and of the runs: its probability is the share of draws of a Bayesian bootstrap of
the records, and of runs, in which joining pays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from copriv.model.records import Records
from copriv.problem import Problem
from copriv.problem.personalization import DRAWS, FOLDS, Home, personalize, units_of
from copriv.problem.verdict import Asked, OwnerVerdict, verdict_of
from copriv.types import Array


@dataclass(frozen=True)
class OwnOutcome:
    """Mean losses on the owner's held-out records, and whether joining pays on them."""

    alone: float
    together: float
    """Loss of the common model, averaged over runs."""
    personalized: float
    """Loss of the personalized model (`copriv.personalize`), from the common model of another run in each fold."""
    held_out: int
    """Number of held-out rows."""
    public: float | None
    """Loss of the public rows' model; None where there is none."""
    verdict: OwnerVerdict
    public_personalized: float | None = None
    """Loss of the public model personalized at home, for which nobody has to join; None where there is none."""


def on_own_records(
    problem: Problem,
    i: int,
    models: Float[Array, "runs p"],
    seed: int = 0,
    public_model: Float[Array, " p"] | None = None,
) -> OwnOutcome | None:
    """Compare the models on owner i's records; None where it has too few to hold any out.

    models: last θ of each run. public_model: that of the public rows, where there are any.
    """
    raw, records, rng = problem.unbounded[i], problem.owners[i], np.random.default_rng([seed, i, 17])
    if min(len(raw), raw.units) < FOLDS:
        return None
    loss, agreement, seen = problem.loss, problem.agreement, problem.unbounded_public
    public = None if seen is None else (seen.features, seen.target)
    home = Home(loss, problem.regularizer.strength, models[0], np.eye(len(models[0])))
    unit, units = units_of(raw)
    part = (rng.permutation(units) % FOLDS)[unit]
    alone, at_home, from_public = np.zeros((3, len(raw)))
    for k in range(FOLDS):
        out, rest = part == k, raw.taken(part != k)
        x, y, common = records.features[out], records.target[out], models[k % len(models)]
        alone[out] = loss.values(home.fitted(problem.as_agreed(rest), 0.0, models[0]), x, y)
        at_home[out] = loss.values(personalize(agreement, common, rest, public=public, seed=seed), x, y)
        if public_model is not None:
            from_public[out] = loss.values(personalize(agreement, public_model, rest, public=public, seed=seed), x, y)
    together = [loss.values(θ, records.features, records.target) for θ in models]
    known = []
    if public_model is not None:
        known = [loss.values(public_model, records.features, records.target), from_public]
    # At most a thousand blocks of records are drawn.
    mean, draws = _bootstrapped([alone, at_home, *together, *known], records, unit % 1_000, rng)
    runs = slice(2, 2 + len(models))
    of_public: list[float | None] = [None, None]
    if known:
        of_public = [float(one) for one in mean[runs.stop :]]
    without = min([0, *range(runs.stop, len(mean))], key=lambda model: mean[model])
    wanted = np.tile(draws[:, [without]], (1, len(models)))
    return OwnOutcome(
        float(mean[0]),
        float(mean[runs].mean()),
        float(mean[1]),
        len(raw),
        of_public[0],
        verdict_of(
            wanted,
            {"common": draws[:, runs], "personalized": np.tile(draws[:, [1]], (1, len(models)))},
            Asked.of("own", agreement.worthwhile),
        ),
        of_public[1],
    )


def _bootstrapped(
    losses: Sequence[Float[Array, " rows"]], records: Records, block: Int[np.ndarray, " rows"], rng: np.random.Generator
) -> tuple[Float[Array, " models"], Float[Array, "draws models"]]:
    """Mean loss of each model, and its relative excess over that of the first model in each draw of the records."""
    by_block = np.array([np.bincount(block, records.weight * each) for each in losses]).T
    units = np.bincount(block, records.weight)
    mean = by_block.sum(axis=0) / units.sum()
    drawn = rng.dirichlet(units, size=DRAWS) @ (by_block / units[:, None])
    one = max(float(mean[0]), 1e-12 * float(mean.max()), 1e-300)
    return mean, np.maximum(drawn, 1e-12 * one) / one - 1.0
