"""Run the cheapest few settings and their neighbours on the public rows, with clipping, which the table ignores.

Runs are in bootstrap worlds, with the owners' n_i and ε_i. Mechanisms of one answer (`one_answer`) are run in the same worlds.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from copriv import mechanisms
from copriv.agreement import Agreement
from copriv.mechanisms import Guarantee, OneAnswer
from copriv.plan.aggregated_runs import DEALT_OWNERS, mean_cost
from copriv.plan.candidates import opted_for_delta, starts_of
from copriv.plan.clipping_bias import Bounded
from copriv.plan.one_answer import plan_one_answer
from copriv.plan.plan_result import Choice
from copriv.plan.prices import Candidate, Priced
from copriv.populations.public_sample import PublicSample
from copriv.populations.rare_records import PROBABILITY, with_outliers
from copriv.populations.world import World
from copriv.problem import Problem
from copriv.simulation import simulate

FINALISTS = 5
"""Finalists, besides those of each promise. With 2, one of the 18 plans of `benchmarks.plan_regret` costs 1.7 times as much;
the others are the same."""
LOOKED_AT = (4, 8, 16, 48)
"""Numbers of answers whose best setting is always a finalist where the fitness is not quadratic."""
FINALIST_WORLDS = 6
"""Worlds in which a finalist is run. With 3, the same plans cost 0.66 to 1.5 times as much."""
OUTLIER_RUNS = 2
"""Runs in each world with outliers."""


def finalists_of(priced: list[Priced], quadratic: bool) -> list[Candidate]:
    """The cheapest few settings, at most one for each rule, number of answers, start and noise, and the best of each promise.

    The table assumes a quadratic fitness; for others, the best setting of each of LOOKED_AT is a finalist too.
    """
    chosen: dict[tuple[Any, ...], Candidate] = {}
    had: set[Any] = set()
    for p in sorted(priced, key=lambda p: p.cost + p.table.sample.optimum.value):
        news: set[Any] = {p.promises}
        if not quadratic:
            news |= {p.response.answers} & set(LOOKED_AT)
        if p.kind not in chosen and (len(chosen) < FINALISTS or not news <= had):
            chosen[p.kind] = p.candidate()
            had |= news
    return list(chosen.values())


def run_finalists(
    public: Problem, finalists: list[Candidate], passes: int, runs: int, seed: int
) -> tuple[Candidate, dict[tuple[Any, ...], Choice]]:
    """Run the finalists and the neighbours of the best one. Returns the best, and the cost of all that were run."""
    measured: dict[tuple[Any, ...], Choice] = {}

    def best_of(candidates: list[Candidate]) -> Candidate:
        for one in candidates:
            if one.key not in measured:
                table, agreement = one.priced.table, one.agreement(public.terms)
                worlds = table.sample.drawn(FINALIST_WORLDS, seed)
                mean = mean_cost(worlds, agreement, -(-runs // FINALIST_WORLDS), seed)
                rare = cost_of_outliers(table.sample, agreement, mean, seed)
                fitness = (1.0 + mean + rare) * table.sample.optimum.value
                measured[one.key] = Choice(agreement, table.start, table.γ, mean, fitness, rare)
        return min(candidates, key=lambda one: measured[one.key].fitness)

    best = best_of(finalists)
    shorter = (0.5,) * (public.terms.agreement.step == "auto")
    for _ in range(passes):
        near = []
        if public.terms.agreement.step == "auto":
            near += [replace(best, step=best.step * factor) for factor in (0.65, 1.5)]
        if public.terms.model.gradient_bound == "auto":
            near += [replace(best, gradient_bound=best.gradient_bound * factor) for factor in (0.75, 1.35)]
        before, best = best, best_of([best, *(one for one in near if one.key not in measured)])
        if best is before:
            break
    # Where noise is small, a wider Ξ counts outliers that public rows cannot show, and their curvature needs a shorter step.
    while measured[best.key].outliers and public.terms.model.gradient_bound == "auto":
        before = best
        wider = replace(best, gradient_bound=2.0 * best.gradient_bound)
        best = best_of([best, wider, *(replace(wider, step=best.step * factor) for factor in shorter)])
        if best is before:
            break
    return best, measured


def cost_of_outliers(sample: PublicSample, agreement: Agreement, without: float, seed: int) -> float:
    """E ψ that records add which are too rare for the public rows, over the probability and the size of such outliers.

    without: E ψ in worlds without them.
    """
    worlds = _with_outliers(sample, seed)
    if not worlds:
        return 0.0
    return PROBABILITY * (mean_cost(worlds, agreement, OUTLIER_RUNS, seed) - without)


@lru_cache(maxsize=1)
def _with_outliers(sample: PublicSample, seed: int) -> tuple[World, ...]:
    return with_outliers(sample, sample.drawn(FINALIST_WORLDS, seed))


def one_answer_mechanisms(public: Problem, wanted: bool) -> list[tuple[OneAnswer, bool]]:
    """Mechanisms of one answer to run, and whether each has pure ε."""
    terms, owners, agreed = public.terms.agreement, public.terms.owner_tables, public.terms.mechanism
    opted = opted_for_delta(public.terms)
    if isinstance(agreed, OneAnswer):
        return [(agreed, agreed.guarantee is Guarantee.PURE or not opted)]
    free = terms.rule == "auto" and terms.step == "auto" and agreed is mechanisms.ALL[0]
    free = (
        free
        and terms.robust is None
        and not public.terms.summed
        and terms.answers is None
        and terms.group_size is None
        and terms.communication != "synchronous"
    )
    if not wanted or not free or public.feature_bound is None or any(o.group or o.unit for o in owners):
        return []
    weighed = [one for one in mechanisms.ALL if isinstance(one, OneAnswer) and one.planned and one.suits(public.loss)]
    unwanted = {True: Guarantee.APPROXIMATE, False: Guarantee.PURE}
    choices = (True, False)[: 1 + opted]
    return [(one, pure) for one in weighed for pure in choices if one.guarantee is not unwanted[pure]]


def measure_one_answer(
    bounded: Bounded, mechanism: OneAnswer, pure: bool, public_start: bool, runs: int, seed: int
) -> Choice:
    """Plan and run the best setting of a mechanism of one answer."""
    public, sample = bounded.problem, bounded.sample
    if pure:
        public = public.under(public.terms.replace(owner={"delta": 0.0}))
    agreement = plan_one_answer(public, mechanism.name, public_start=public_start, seed=seed, sample=sample)
    worlds = sample.drawn(FINALIST_WORLDS, seed)
    # The noise differs from that of planning; where owners are few, each holds records of its own.
    if agreement.n_owners <= DEALT_OWNERS:
        each = max(-(-runs // (2 * FINALIST_WORLDS)), 1)
        ends = [
            simulate(world.dealt().problem(agreement), runs=each, seed=seed + 1, record_at=(), alone=False, workers=1)
            for world in worlds
        ]
        mean = float(np.mean([one.relative_fitness.runs[:, -1] for one in ends]))
    else:
        mean = mean_cost(worlds, agreement, -(-runs // FINALIST_WORLDS), seed)
    start = starts_of(public.terms, public_start)[-1]
    preconditioned = float(agreement.agreement.preconditioner is not None)
    rare = cost_of_outliers(sample, agreement, mean, seed)
    return Choice(agreement, start, preconditioned, mean, (1.0 + mean + rare) * sample.optimum.value, rare)


def without_joining(public: Problem, sample: PublicSample, heterogeneity: float, seed: int) -> tuple[float, float]:
    """ψ of the public model, averaged over the worlds of the finalists, and of the largest owner's own model."""
    model = public.feasible_set.project(sample.optimum.theta)
    worlds = sample.worlds(FINALIST_WORLDS, seed)
    ψ = [max(float(world.fitness.value(model)) / world.optimum.value - 1.0, 0.0) for world in worlds]
    records = public.terms.records
    largest, total = float(records.max()), float(records.sum())
    alone = sample.alone(largest, total)
    if len(records) > 1:
        v, squares = largest / total, float(np.sum((records / total) ** 2))
        alone += heterogeneity * (1.0 - 2.0 * v + squares) / (1.0 - squares)
    return float(np.mean(ψ)), alone
