"""Compare models on an owner's own records, by cross-validation: its own, the public and the common one, and these two
personalized.

An owner's records (or persons, where they are the units) are divided into fifths, and each is held out in turn: own and
personalized models are fitted to the other four. With a fifth fewer records a model is slightly worse; of those that an owner
has without joining this is taken away, by what all its records would make better (Burman 1989).

The common model was trained on all records, so that what a fifth had to do with it is taken away, too: by a step of Newton's
method to the model without these records (their gradients clipped as in the run), with the noise that there was. Where few
answers do not reach the minimum, this takes too much, at most about p/n of the loss, against joining. A loss without second
derivatives keeps the model as it is.

A verdict is uncertain because of the records and of the runs: its probability is the share of draws of a Bayesian bootstrap of
the records, and of runs, in which joining pays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

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
    at_home = np.zeros(len(raw))
    without_joining = [lambda rows: home.fitted(problem.as_agreed(rows), 0.0, models[0])]
    if public_model is not None:
        without_joining.append(lambda rows: personalize(agreement, public_model, rows, public=public, seed=seed))
    alone, *from_public = (_cross_validated(problem, i, made, part) for made in without_joining)
    together, hessian = np.zeros((len(models), len(raw))), _hessian(problem, models.mean(axis=0))
    for k in range(FOLDS):
        out, rest = part == k, raw.taken(part != k)
        x, y = records.features[out], records.target[out]
        unseen = models if hessian is None else _without(problem, i, out, models, hessian)
        common = unseen[k % len(models)]
        together[:, out] = [loss.values(θ, x, y) for θ in unseen]
        at_home[out] = loss.values(personalize(agreement, common, rest, public=public, seed=seed), x, y)
    known = []
    if public_model is not None:
        known = [loss.values(public_model, records.features, records.target), *from_public]
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


def _cross_validated(
    problem: Problem, i: int, made: Callable[[Records], Float[Array, " p"]], part: Int[np.ndarray, " rows"]
) -> Float[Array, " rows"]:
    """Loss of each held-out row by a model that is made of the other rows, less what these lack of all rows."""
    raw, records = problem.unbounded[i], problem.owners[i]

    def losses(rows: Records) -> Float[Array, " rows"]:
        return problem.loss.values(made(rows), records.features, records.target)

    folds = np.array([losses(raw.taken(part != k)) for k in range(FOLDS)])
    return np.asarray(folds[part, np.arange(len(part))] + losses(raw) - folds.mean(axis=0))


def _hessian(problem: Problem, theta: Float[Array, " p"]) -> Float[Array, "p p"] | None:
    """∇²f of all owners' records at θ; None for a loss without second derivatives."""
    r = problem.fitness.records
    curved = _curved(problem, r, theta)
    if curved is None:
        return None
    return curved / r.total + problem.regularizer.strength * np.eye(len(theta))


def _curved(problem: Problem, rows: Records, theta: Float[Array, " p"]) -> Float[Array, "p p"] | None:
    """Σ weight ∇²ℓ of rows at θ."""
    bend = getattr(problem.loss, "bend", None)
    if bend is None:
        return None
    weights = rows.weight * bend(rows.features @ theta, rows.target)
    return np.asarray((rows.features * weights[:, None]).T @ rows.features)


def _without(
    problem: Problem,
    i: int,
    out: Bool[np.ndarray, " rows"],
    models: Float[Array, "runs p"],
    hessian: Float[Array, "p p"],
) -> Float[Array, "runs p"]:
    """Models of the runs as they would be without these rows of owner i. hessian: of all records."""
    agreement, own = problem.agreement, problem.owners[i]
    rows, share = own.taken(out), agreement.weights[i] / own.total
    curved = _curved(problem, rows, models.mean(axis=0))
    assert curved is not None
    rest, made = hessian - share * curved, []
    order = agreement.mechanism.order(agreement)
    for θ in models:
        each = problem.loss.gradients(θ, rows.features, rows.target)
        lengths = np.linalg.norm(each, order, axis=1)
        each *= np.minimum(1.0, agreement.gradient_bound / np.maximum(lengths, 1e-300))[:, None]
        made.append(θ + np.linalg.lstsq(rest, share * (rows.weight @ each), rcond=1e-12)[0])
    return np.array(made)


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
