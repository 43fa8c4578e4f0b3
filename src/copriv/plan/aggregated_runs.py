"""Simulate an agreement in a world at a cost that does not grow with the number of owners.

Gradients of many owners are simulated for bundles of them (`copriv.agreement.participants`). Where more than
DEALT_OWNERS owners answer once, the average of all their answers is drawn from the answers of one owner of each kind
(`OneAnswer.tried`): from their mean m and deviations δ over the noise, the average is m + δ·√(Σ w_i² b_i²)/b. Noise is
antithetic, so that the error of m is of second order. With more kinds than can be drawn one by one, owners with similar noise
are drawn as one kind, whose noise has the variance of theirs in the average, and whose bias is the mean of theirs.

A model fitted to n_i records also has a bias b/n_i (Cox and Snell 1968), which averaging does not reduce; that of all n records
is b/n, and the difference is (1 − n_i/n)·b/n_i. It is estimated from K samples of n_i records: the mean of their models less
the model of all these records is (1 − 1/K)·b/n_i, since errors of first order cancel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.agreement.participants import (
    MOST,
    as_few,
    bundled_participants,
    bundles_of,
    enough_bundles,
    kind_of_owner,
    numbered,
)
from copriv.mechanisms import OneAnswer
from copriv.mechanisms.mechanism import step_of
from copriv.mechanisms.one_answer import Common, Setting, feature_bound_of
from copriv.model.fitness import relative_fitness
from copriv.model.records import Records
from copriv.populations.world import World, weighted
from copriv.privacy.simulated_noise import draws
from copriv.problem import Problem
from copriv.simulation.worlds import Runs, in_worlds
from copriv.types import Array

DEALT_OWNERS = 16
"""Most owners with records of their own in a world; for more, a few samples of records represent all owners."""


def runs_in(
    worlds: Sequence[Callable[[Agreement], Problem]], agreement: Agreement | Sequence[Agreement], runs: int, seed: int,
    record_at: Sequence[int] | None = (),
) -> Runs:  # fmt: skip
    """Simulate `runs` runs of an agreement without "auto" in each world.

    worlds: the problem of an agreement in each. agreement: the same in all, or one for each, of one
    mechanism. Where many owners answer once, only the start and the end are recorded.
    """
    if not isinstance(agreement, Agreement):
        return Runs.joined(
            [
                runs_in([world], own, runs, 1000 * seed + i, record_at)
                for i, (world, own) in enumerate(zip(worlds, agreement, strict=True))
            ]
        )
    mechanism = agreement.mechanism
    if isinstance(mechanism, OneAnswer) and mechanism.planned and agreement.n_owners > DEALT_OWNERS:
        streams = (np.random.default_rng([seed, 8, i * runs]) for i in range(len(worlds)))
        each = [_answered_once(world(agreement), runs, rng) for world, rng in zip(worlds, streams, strict=True)]
        ψ, theta = (np.stack(one) for one in zip(*each, strict=True))
        return Runs(np.array([0, agreement.queries]), ψ, theta, 0.0)
    few = as_few(agreement)
    if few.n_owners == agreement.n_owners:
        return in_worlds((world(few) for world in worlds), runs, seed, record_at)
    most = enough_bundles(agreement, max(world(few).fitness.smoothness(agreement.preconditioner) for world in worlds))
    if most > few.n_owners:
        few = as_few(agreement, most)
    return in_worlds((_mixed(world(few), world, agreement, most) for world in worlds), runs, seed, record_at)


def mean_cost(worlds: Sequence[World], agreement: Agreement, runs: int, seed: int) -> float:
    """E ψ at the end of an agreement's run, over `runs` runs in each world."""
    return float(np.mean(runs_in([world.problem for world in worlds], agreement, runs, seed).relative_fitness[..., -1]))


def _mixed(few: Problem, world: Callable[[Agreement], Problem], agreement: Agreement, most: int = MOST) -> Problem:
    """The problem of `few`, in which each bundle of groups holds the records of all its members, where members differ."""
    if agreement.synchronous or agreement.n_participants == agreement.n_owners or few.pooled is None:
        return few
    held, w, of = world(agreement).unbounded, agreement.weights, bundled_participants(agreement, most).of_owner
    bundles = []
    for j in range(few.terms.n_owners):
        mine = np.flatnonzero(of == j)
        parts = list({id(held[i]): held[i] for i in mine}.values())
        n = np.array([part.weight.sum() for part in parts])
        share = np.bincount(numbered([id(held[i]) for i in mine]), w[mine])
        if len(parts) > 1:
            parts = [Records.merged(parts, share / share.sum() * n.mean() / n)]
        bundles.append(parts[0])
    return replace(few, unbounded=tuple(bundles))


def _answered_once(world: Problem, runs: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """ψ and θ of runs in which the model takes one step along the average of all owners' answers."""
    agreement, mechanism, f = world.terms, world.terms.mechanism, world.fitness
    assert isinstance(mechanism, OneAnswer)
    common = replace(world.common, feature_bound=feature_bound_of(agreement, world.feature_bound))
    setting = Setting(
        agreement.gradient_bound, (1.0,),
        {key: getattr(agreement.agreement, key) for key in ("preconditioner", *mechanism.terms)},
    )  # fmt: skip
    groups, centre, deviation = _groups(world, mechanism), 0.0, 0.0
    drawn = 2 * -(-max(runs, 16 // len(groups)) // 2)
    for one in groups:
        models, share = mechanism.tried(common, one.records, one.terms, setting, drawn, partial(draws, rng))
        mean = models.mean(axis=0)
        centre = centre + one.weight * mean
        deviation = deviation + np.sqrt(share * one.squares) * (models - mean)[:runs]
        if not mechanism.sums_records:
            samples = max(16 // len(groups), 2)
            centre = centre + one.weight * _bias(mechanism, common, one, setting, samples, rng)
    start = world.start
    theta = world.feasible_set.project(start + step_of(agreement) * (np.asarray(centre + deviation) - start))
    ψ = np.column_stack([np.full(len(theta), float(f.value(start))), f.value(theta)])
    return relative_fitness(ψ, world.optimum), theta


def _bias(
    mechanism: OneAnswer, common: Common, one: "_Group", setting: Setting, samples: int, rng: np.random.Generator
) -> Float[Array, " p"]:
    """Bias of noise-free models fitted to the records of one owner, relative to the model of all records."""
    rows, n = one.records, int(one.terms.records.max())
    left = 1.0 - n / rows.total
    if left <= 0.0:
        return np.zeros(common.n_parameters)

    def fitted(counts: Int[np.ndarray, " rows"]) -> Array:
        models, _ = mechanism.tried(
            common, weighted(rows, counts), one.terms, setting, 2, lambda law, shape: np.zeros(shape)
        )
        return np.asarray(models.mean(axis=0))

    drawn = rng.multinomial(n, rows.weight / rows.total, size=samples)
    difference = np.mean([fitted(counts) for counts in drawn], axis=0) - fitted(drawn.sum(axis=0))
    return np.asarray(left / (1.0 - 1.0 / samples) * difference)


@dataclass(frozen=True, eq=False)
class _Group:
    """Owners of the same terms and records."""

    terms: Agreement
    """The agreement with one of the owners; with all of them, where the mechanism sums their records."""
    records: Records
    weight: float
    """Σ w_i."""
    squares: float
    """Σ w_i²: variance of their weighted sum over that of one answer."""


MOST_GROUPS = 16
"""Approximate number of groups of similar owners that represent more kinds than `copriv.agreement.participants.MOST`."""


def _groups(world: Problem, mechanism: OneAnswer) -> list[_Group]:
    agreement = world.terms
    if mechanism.sums_records:
        return [_Group(agreement, world.fitness.records, 1.0, 1.0)]
    table = np.repeat(np.arange(len(agreement.owner_tables)), agreement.counts)
    names = numbered(list(map(id, world.owners)))  # in the owners' order: addresses differ between processes
    bundles = bundles_of(agreement)
    if bundles.alike:
        kinds = numbered([kind_of_owner(one) for one in agreement.owner_tables])[table]
    else:
        kinds = bundles.of_owner * max(MOST_GROUPS // (int(names.max()) + 1), 1) // bundles.number
    _, first, of = np.unique(np.column_stack([names, kinds]), axis=0, return_index=True, return_inverse=True)
    of, weights = of.ravel(), agreement.weights
    sums, squares = np.bincount(of, weights), np.bincount(of, weights**2)
    terms = [_of_one(agreement, int(table[i])) for i in first]
    if not bundles.alike:
        # Each group is stood for by an owner of its mean bias, and of noise of its mean square in the average. The bias of one
        # is b/n_i, and noise is proportional to 1/(n_i ε_i). A group without weight keeps its first owner.
        n, ε = agreement.records, agreement.epsilons / agreement.overlaps
        inverse, noise = np.bincount(of, weights / n), np.bincount(of, (weights / (n * ε)) ** 2)
        for k in np.flatnonzero(sums > 0).tolist():
            records = max(round(sums[k] / inverse[k]), 1)
            typical = {"records": records, "epsilon": float(np.sqrt(squares[k] / noise[k])) / records}
            owner = terms[k].owner_tables[0].model_copy(update=typical)
            terms[k] = Agreement.model_construct(**{**dict(terms[k]), "owner_tables": (owner,), "owner": (owner,)})
    return [
        _Group(one, world.owners[i], float(w), float(w2))
        for one, i, w, w2 in zip(terms, first.tolist(), sums, squares, strict=True)
    ]


@lru_cache(maxsize=128)
def _of_one(agreement: Agreement, table: int) -> Agreement:
    """The agreement with one owner of this table. With κ holders of a record, its ε and δ are divided by κ."""
    one = agreement.owner_tables[table]
    ε, δ = one.budget
    alone = one.model_copy(update={"count": None, "weight": None, "overlap": 1, "epsilon": ε, "delta": δ})
    # Not by `replace`, which would write and check the terms of all owners once for each of them.
    return Agreement.model_construct(**{**dict(agreement), "owner": (alone,)})
