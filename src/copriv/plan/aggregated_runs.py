"""Simulate an agreement in a world at a cost that does not grow with the number of owners.

Gradients of many owners are answered by bundles of them (`copriv.agreement.equivalent_owners`). Where more than
DEALT_OWNERS owners answer once, the average of all their answers is drawn from the answers of one owner of each kind
(`OneAnswer.tried`): with mean m over its noise and a spread, the average is m plus the spread times √(Σ w_i² b_i²)/b. Noise
is drawn with both signs, so that the error of m is of second order.

A model fitted to n_i records has a bias b/n_i as well (Cox and Snell 1968), which averaging keeps; the model of all n records
has b/n, so that (1 − n_i/n)·b/n_i is left. It is estimated from K hands of n_i records: the mean of their models less the
model of all these records together is (1 − 1/K)·b/n_i, since errors of first order cancel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.agreement.equivalent_owners import as_few, bundled_participants, kind_of_owner, numbered
from copriv.mechanisms import OneAnswer
from copriv.mechanisms.one_answer import Common, Setting, feature_bound_of
from copriv.model.fitness import relative_fitness
from copriv.model.records import Records
from copriv.populations.world import weighted
from copriv.privacy.simulated_noise import draws
from copriv.problem import Problem
from copriv.simulation import simulate
from copriv.types import Array

DEALT_OWNERS = 16
"""Up to so many owners each has records of its own in a world; for more, a few hands are dealt."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs in one world."""

    k: Int[np.ndarray, " recorded"]
    relative_fitness: Float[Array, "runs recorded"]
    theta: Float[Array, "runs p"]
    clipped: float
    """Share of the records asked that were clipped."""


def runs_in(
    world: Callable[[Agreement], Problem], agreement: Agreement, runs: int, seed: int, first_run: int = 0,
    record_at: Sequence[int] | None = (),
) -> Runs:  # fmt: skip
    """`runs` runs of `agreement`, without "auto".

    world: the problem of any agreement in a world, with stand-ins for the owners' records. Runs `first_run` … are made, so
    that several worlds have noise of their own. Of many owners that answer once only the start and the end are recorded.
    """
    if agreement.one_answer and agreement.n_owners > DEALT_OWNERS:
        return _answered_once(world(agreement), runs, seed, first_run)
    few = as_few(agreement)
    problem = world(few)
    if few.n_owners < agreement.n_owners:
        problem = _mixed(problem, world, agreement)
    found = simulate(problem, runs=runs, seed=seed, first_run=first_run, record_at=record_at, alone=False, workers=1)
    return Runs(found.relative_fitness.k, found.relative_fitness.runs, found.theta, found.clipped)


def _mixed(few: Problem, world: Callable[[Agreement], Problem], agreement: Agreement) -> Problem:
    """The problem of `few` with each bundle of groups holding all records of its members, where members differ."""
    if agreement.synchronous or agreement.n_participants == agreement.n_owners or few.pooled is None:
        return few
    held, w, of = world(agreement).unbounded, agreement.weights, bundled_participants(agreement).of_owner
    made = []
    for j in range(few.terms.n_owners):
        mine = np.flatnonzero(of == j)
        parts = list({id(held[i]): held[i] for i in mine}.values())
        n = np.array([part.weight.sum() for part in parts])
        share = np.bincount(numbered([id(held[i]) for i in mine]), w[mine])
        scale = share / share.sum() * n.mean() / n
        made.append(parts[0] if len(parts) == 1 else Records.concatenate(parts, scale=scale))
    return replace(few, unbounded=tuple(made))


def _answered_once(world: Problem, runs: int, seed: int, first_run: int) -> Runs:
    agreement, box, f = world.terms, world.feasible_set, world.fitness
    start, step = world.start, agreement.agreement.step
    moved = _average_answer(world, runs, np.random.default_rng([seed, 8, first_run]))
    theta = box.project(start + (step if isinstance(step, float) else 1.0) * (moved - start))
    ψ = np.column_stack([np.full(len(theta), float(f.value(start))), f.value(theta)])
    return Runs(np.array([0, agreement.n_owners]), relative_fitness(ψ, world.optimum), theta, 0.0)


def _average_answer(world: Problem, runs: int, rng: np.random.Generator) -> Float[Array, "runs p"]:
    """The model that a whole step leads to, of all owners' answers, in each run."""
    agreement, mechanism = world.terms, world.terms.mechanism
    assert isinstance(mechanism, OneAnswer)
    common = replace(world.common, feature_bound=feature_bound_of(agreement, world.feature_bound))
    setting = Setting(
        agreement.gradient_bound, (1.0,),
        {key: getattr(agreement.agreement, key) for key in ("preconditioner", *mechanism.terms)},
    )  # fmt: skip
    groups, centre, away = _groups(world, mechanism), 0.0, 0.0
    drawn = 2 * -(-max(runs, 16 // len(groups)) // 2)
    for one in groups:
        models, share = mechanism.tried(common, one.records, one.terms, setting, drawn, partial(draws, rng))
        mean = models.mean(axis=0)
        centre, away = centre + one.weight * mean, away + np.sqrt(share * one.squares) * (models - mean)[:runs]
        if not mechanism.sums_records:
            hands = max(16 // len(groups), 2)
            centre = centre + one.weight * _off_in_the_mean(mechanism, common, one, setting, hands, rng)
    return np.asarray(centre + away)


def _off_in_the_mean(
    mechanism: OneAnswer, common: Common, one: "_Group", setting: Setting, hands: int, rng: np.random.Generator
) -> Float[Array, " p"]:
    """The bias of models fitted to as few records as an owner has, against the model of all, without noise."""
    rows, n = one.records, int(one.terms.records.max())
    left = 1.0 - n / rows.total
    if left <= 0.0:
        return np.zeros(common.n_parameters)

    def fitted(counts: Int[np.ndarray, " rows"]) -> Array:
        models, _ = mechanism.tried(
            common, weighted(rows, counts), one.terms, setting, 2, lambda law, shape: np.zeros(shape)
        )
        return np.asarray(models.mean(axis=0))

    dealt = rng.multinomial(n, rows.weight / rows.total, size=hands)
    apart = np.mean([fitted(hand) for hand in dealt], axis=0) - fitted(dealt.sum(axis=0))
    return np.asarray(left / (1.0 - 1.0 / hands) * apart)


@dataclass(frozen=True, eq=False)
class _Group:
    """Owners of the same terms and records."""

    terms: Agreement
    """Those of one of them; of all, where the mechanism sums their records."""
    records: Records
    weight: float
    """Σ w_i."""
    squares: float
    """Σ w_i²: the variance of their average over that of one answer."""


def _groups(world: Problem, mechanism: OneAnswer) -> list[_Group]:
    agreement = world.terms
    if mechanism.sums_records:
        return [_Group(agreement, world.fitness.records, 1.0, 1.0)]
    table = np.repeat(np.arange(len(agreement.owner_tables)), agreement.counts)
    kinds = numbered([kind_of_owner(one) for one in agreement.owner_tables])
    names = numbered(list(map(id, world.owners)))  # in the owners' order: addresses differ between processes
    _, first, of = np.unique(np.column_stack([names, kinds[table]]), axis=0, return_index=True, return_inverse=True)
    weights = agreement.weights
    sums, squares = np.bincount(of.ravel(), weights), np.bincount(of.ravel(), weights**2)
    return [
        _Group(_of_one(agreement, int(table[i])), world.owners[i], float(w), float(w2))
        for i, w, w2 in zip(first.tolist(), sums, squares, strict=True)
    ]


@lru_cache(maxsize=128)
def _of_one(agreement: Agreement, table: int) -> Agreement:
    """The agreement with one owner of this table; κ holders of a record answer as if ε and δ were ε/κ and δ/κ."""
    kept = agreement.owner_tables[table].model_dump(exclude_none=True, exclude={"count", "weight"})
    κ = kept["overlap"]
    return agreement.replace(owner=[{**kept, "overlap": 1, "epsilon": kept["epsilon"] / κ, "delta": kept["delta"] / κ}])
