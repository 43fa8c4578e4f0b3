"""Plan the rule, answers, step, bounds and start of least cost, from public information only.

Every setting is priced by a table (`prices`), which ignores clipping during a run. Therefore the best few settings and their
neighbours are run in bootstrap worlds of the public rows, with clipping and the owners' n_i and ε_i, and the cheapest of those
runs is the plan. Mechanisms of one answer (`one_answer`) are run in the same worlds.

A plan has pure ε unless every owner states a δ above 0. With such a δ, normal noise (Ξ in L2), composed Laplace noise and
models fitted with δ are compared with the pure mechanisms; if a pure one is chosen, its agreement has δ = 0. `Plan.trades`
has the cost of each promise.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from copriv import mechanisms
from copriv.agreement import Agreement
from copriv.errors import AgreementError, InvalidInput, NotCertified
from copriv.mechanisms import GradientNoise, Guarantee, OneAnswer
from copriv.mechanisms.gradients import noise_of
from copriv.model.fitness import one_thread
from copriv.plan.aggregated_runs import DEALT_OWNERS, mean_cost
from copriv.plan.candidates import (
    PRECONDITIONERS,
    Bounded,
    answers_of,
    bounded,
    freed,
    noises_of,
    opted_for_delta,
    participants_of,
    sizes_of,
    starts_of,
    sums_of,
    variances_of,
    ways_of,
)
from copriv.plan.minimax_regret import cautious
from copriv.plan.one_answer import plan_one_answer
from copriv.plan.outliers import PREMIUM, Setting, outliers_of
from copriv.plan.plan_result import Choice, Plan
from copriv.plan.prices import Candidate, Priced, Table, flatness_of, response
from copriv.plan.without_public_rows import plan_declared
from copriv.populations.dealt import heterogeneity_of
from copriv.populations.declared_sample import sample_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.simulation import simulate
from copriv.terms.heterogeneity import Heterogeneity


@one_thread()
def plan(
    problem: Problem | Agreement | str | Path | Mapping[str, Any],
    *,
    keep: bool = True,
    public_start: bool = True,
    preconditioner: bool = True,
    one_answer: bool | None = None,
    runs: int = 40,
    seed: int = 0,
    heterogeneity: Heterogeneity | None = None,
    sample: PublicSample | None = None,
) -> Plan:
    """Find the best setting for these owners, from the agreement and the public sample alone.

    problem: a Problem; or an Agreement, the path of its file or a mapping of the file's shape, with the public rows that its
        [data] names.
    keep: what the agreement fixes stays (a named rule, `answers`, numbers for step, Ξ and B, a start); otherwise only
        `communication`, the fitness and the owners are taken from it.
    public_start, preconditioner: whether the plan may begin at the public model, and descend along a public matrix.
    one_answer: whether it may choose a mechanism of one answer: noisy statistics (squared loss) or a privately fitted model.
        None for `not keep`. With `keep` it needs a rule that is "auto".
    runs: simulated runs on the public rows for each finalist.
    heterogeneity: that of the owners; None for the one that the agreement states, else the estimate from the public rows'
        strata, else that of real tables. Settings that are much worse at any of its levels are not chosen (`caution`).
    sample: the public sample of `problem`, if it exists already, so that its worlds are drawn only once.

    With a pilot, the run after it is planned.
    (ε, δ) is considered where every owner states a δ above 0 and the agreement names no mechanism.
    Raises DataError without a public sample, AgreementError where no setting satisfies the agreement.

    >>> from copriv.plan import plan
    >>> found = plan(copriv.Problem.forecasting(agreement, public), runs=16)  # what is agreed stays
    >>> found.agreement.agreement.rule, found.agreement.answers
    ('A2', 3)
    """
    begun = time.perf_counter()
    if not isinstance(problem, Problem):
        problem = Problem.load_public(Agreement.given(problem))
    public = problem.on_public()  # from here on there are no private records
    public = public.under(public.terms.phases[-1])
    if not keep:
        public = public.under(freed(public.terms))
    terms, noises = public.terms, noises_of(public.terms)
    sample = sample or sample_of(public)
    if sample.declared:
        return plan_declared(sample, runs, seed)
    found, powers = bounded(public, sample, noises), PRECONDITIONERS
    if not preconditioner or terms.agreement.preconditioner is not None:
        powers = PRECONDITIONERS[:1]  # none
    tables = [Table(found, start, γ) for start in starts_of(terms, public_start) for γ in powers]
    priced = priced_of(terms, noises, tables)
    if not priced and terms.agreement.group_size == "auto":
        raise AgreementError(
            "agreement.horizon: no rule, answers and size of groups end within it; lengthen it, or fix fewer of them"
        )
    if not priced:
        why = " and the sums of so few owners" * terms.summed
        raise AgreementError(f"agreement.rule: no rule fits the agreed communication{why}; name another, or allow any")
    finalists = finalists_of(priced, public)
    first = finalists[0]
    measured: dict[Any, Choice] = {}
    if not terms.one_answer:
        first, of_many = run_finalists(public, finalists, runs, seed)
        measured |= of_many
    if one_answer is None:
        one_answer = not keep
    measured |= measured_once(found, one_answer, public_start, runs, seed)
    ranked = tuple(sorted(measured.values(), key=lambda choice: choice.fitness))
    best, ν = sample.optimum.value, noise_of(terms)
    fixed = np.concatenate([(p.fixed + best).ravel() / best - 1.0 for p in priced])
    # For noise with δ too, whose scale is approximately proportional to 1/(nε).
    slope = np.concatenate([p.noise.ravel() / (best * ν) for p in priced])
    with_sum, in_sums = None, dict[Any, Choice]()
    if (summed := terms.in_sums()) is not None:
        hidden_problem = public.under(summed)
        if not terms.one_answer and (hiding := finalists_of(priced_of(summed, noises, tables), hidden_problem)):
            _, in_sums = run_finalists(hidden_problem, hiding, runs, seed)
        in_sums |= measured_once(replace(found, problem=hidden_problem), one_answer, public_start, runs, seed)
        with_sum = min(in_sums.values(), key=lambda choice: choice.fitness, default=None)
    seconds = time.perf_counter() - begun
    made = Plan(ranked[0], ranked, flatness_of(first), (fixed, slope), seconds, with_sum)
    unlike = heterogeneity or heterogeneity_of(sample)
    with suppress(NotCertified, InvalidInput):  # so few records that an unequal allocation can be fitted exactly
        made = cautious(sample, made, unlike, seed)
    made = insured(public, made, measured, runs, seed)
    return made.advised(*without_joining(public, sample, (not unlike.alike) * unlike.value, seed))


def priced_of(terms: Agreement, noises: Sequence[GradientNoise], tables: Sequence[Table]) -> list[Priced]:
    """All settings that these terms allow, with their prices."""
    priced: list[Priced] = []
    for way in ways_of(terms):
        for m, size in product(answers_of(terms, way), sizes_of(terms, way)):
            participants = participants_of(terms, size)
            groups = sums_of(terms, way, size)
            if size is not None and m * participants > terms.agreement.horizon:
                continue  # groups whose size the plan chooses must end within the agreed horizon
            if any(len(group) < terms.fewest_in_sum for group in groups):
                continue
            variance = variances_of(terms, noises, m, groups)
            for table in tables:
                priced += table.price(response(way, m - terms.attempts, participants), variance, size)
    return priced


def of_many_answers(found: Plan, sample: PublicSample, seed: int = 0) -> Plan:
    """The plan that `plan` finds with `keep` for terms that fix nothing: the best of its own settings of many answers."""
    many = tuple(choice for choice in found.measured if not choice.agreement.one_answer)
    made = replace(found, choice=many[0], measured=many, caution=None)
    with suppress(NotCertified, InvalidInput):
        made = cautious(sample, made, heterogeneity_of(sample), seed)
    return made


FINALISTS = 5
"""Finalists, besides those of each promise. With 2, one of the 18 plans of `benchmarks.plan_regret` costs 1.7 times as much;
the others are the same."""
MOST_TURNS = 1_000
"""Most queries one after another in the simulated run of a finalist, which then takes seconds."""
LOOKED_AT = (4, 8, 16, 48)
"""Numbers of answers whose best setting is always a finalist where the fitness is not quadratic."""
WIDER, SHORTER = (1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 16.0), (1.0, 0.7, 0.5, 0.35, 0.25)
"""Factors of Ξ and of the step that insurance against outliers is sought among."""
FINALIST_WORLDS = 6
"""Worlds in which a finalist is run. With 3, the same plans cost 0.66 to 1.5 times as much."""


def finalists_of(priced: list[Priced], public: Problem) -> list[Candidate]:
    """The cheapest few settings, at most one for each rule, number of answers, start and noise, and the best of each promise.

    The table assumes a quadratic fitness; for others, the best setting of each of LOOKED_AT is a finalist too. Settings in
    which so many owners take turns that running them takes minutes are left out where there are others.
    """
    chosen: dict[tuple[Any, ...], Candidate] = {}
    had: set[Any] = set()
    ranked = sorted(priced, key=lambda p: p.cost + p.table.sample.optimum.value)
    for p in [p for p in ranked if p.turns <= MOST_TURNS] or ranked:
        news: set[Any] = {p.promises}
        if public.fitness.quadratic is None:
            news |= {p.response.answers} & set(LOOKED_AT)
        if p.kind not in chosen and (len(chosen) < FINALISTS or not news <= had):
            chosen[p.kind] = p.candidate()
            had |= news
    return list(chosen.values())


def run_finalists(
    public: Problem, finalists: list[Candidate], runs: int, seed: int
) -> tuple[Candidate, dict[Candidate, Choice]]:
    """Run the finalists and the neighbours of the best one. Returns the best, and the cost of all that were run.

    The table is exact for a quadratic fitness and approximate for others, which get more passes over neighbours.
    """
    measured: dict[Candidate, Choice] = {}

    def best_of(candidates: list[Candidate]) -> Candidate:
        for one in candidates:
            if one not in measured:
                measured[one] = run_candidate(public, one, runs, seed)
        return min(candidates, key=lambda one: measured[one].fitness)

    best = best_of(finalists)
    for _ in range(3 if public.fitness.quadratic is None else 1):
        near = []
        if public.terms.agreement.step == "auto":
            near += [replace(best, step=best.step * factor) for factor in (0.65, 1.5)]
        if public.terms.model.gradient_bound == "auto":
            near += [replace(best, gradient_bound=best.gradient_bound * factor) for factor in (0.75, 1.35)]
        before, best = best, best_of([best, *(one for one in near if one not in measured)])
        if best is before:
            break
    return best, measured


def run_candidate(public: Problem, one: Candidate, runs: int, seed: int) -> Choice:
    """Run one setting in worlds drawn from the public rows."""
    table, agreement = one.priced.table, one.agreement(public.terms)
    worlds = table.sample.drawn(FINALIST_WORLDS, seed)
    mean = mean_cost(worlds, agreement, -(-runs // FINALIST_WORLDS), seed)
    return Choice(agreement, table.start, table.γ, mean, (1.0 + mean) * table.sample.optimum.value)


def insured(public: Problem, found: Plan, measured: Mapping[Any, Choice], runs: int, seed: int) -> Plan:
    """The plan with a wider Ξ, for outliers, and a shorter step, for their curvature, where the premium is at most PREMIUM.

    That is a share of E ψ, or of what the best owner's own model costs where that is more: what is less decides nothing. After
    a pilot the plan may also cost what it cost before; where its lengths show outliers, the premium has no limit.
    """
    best, now = next(one for one in measured.items() if one[1] is found.choice)
    if not isinstance(best, Candidate) or public.terms.model.gradient_bound != "auto":
        return found
    sample, records = best.priced.table.sample, public.terms.records
    if (rare := outliers_of(sample)) is None:
        return found
    alone = sample.alone(float(records.max()), float(records.sum()))
    limit = max(now.relative_fitness + PREMIUM * max(now.relative_fitness, alone), sample.planned)
    if rare.shown:
        limit = np.inf
    unit = max(sample.optimum.value, best.cost / now.relative_fitness)
    least, chosen = now.relative_fitness + rare.cost(Setting.of(now.agreement, best.priced.table.begins)), now
    kin = []
    for tried, run in [(one, run) for one, run in measured.items() if isinstance(one, Candidate)]:
        setting = Setting.of(run.agreement, tried.priced.table.begins)
        for shorter, wider in product(SHORTER if public.terms.agreement.step == "auto" else (1.0,), WIDER):
            one = replace(tried, step=shorter * tried.step, gradient_bound=wider * tried.gradient_bound)
            if (price := one.cost / unit) <= min(1.5 * limit, least):  # prices are approximate
                cost = rare.cost(replace(setting, step=shorter * setting.step, bound=wider * setting.bound))
                kin.append((price + cost, cost, one))
    for _, cost, one in sorted(kin, key=lambda each: each[0])[:4]:  # no more of them are run
        choice = run_candidate(public, one, runs, seed)
        if choice.relative_fitness <= limit and choice.relative_fitness + cost < least:
            least, chosen = choice.relative_fitness + cost, choice
    if chosen is now:
        return found
    choice = replace(chosen, fitness=now.fitness)
    every = tuple(choice if each is now else each for each in found.measured)
    return replace(found, choice=choice, measured=every)


def one_answer_mechanisms(public: Problem, wanted: bool) -> list[tuple[OneAnswer, bool]]:
    """Mechanisms of one answer to run, and whether each has pure ε."""
    terms, owners, agreed = public.terms.agreement, public.terms.owner_tables, public.terms.mechanism
    opted = opted_for_delta(public.terms)
    if isinstance(agreed, OneAnswer):
        return [(agreed, agreed.guarantee is Guarantee.PURE or not opted)]
    fixed = any(getattr(terms, key) is not None for key in ("robust", "graph", "answers", "group_size"))
    fixed = fixed or (terms.rule, terms.step) != ("auto", "auto") or terms.communication == "synchronous"
    if not wanted or fixed or agreed is not mechanisms.ALL[0]:
        return []
    if public.feature_bound is None or any(owner.group or owner.unit for owner in owners):
        return []
    weighed = [one for one in mechanisms.ALL if isinstance(one, OneAnswer) and one.planned and one.suits(public.loss)]
    if public.terms.summed:
        weighed = [one for one in weighed if not one.why_not_summed]
    unwanted = {True: Guarantee.APPROXIMATE, False: Guarantee.PURE}
    choices = (True, False)[: 1 + opted]
    return [(one, pure) for one in weighed for pure in choices if one.guarantee is not unwanted[pure]]


def measured_once(
    bounded: Bounded, wanted: bool, public_start: bool, runs: int, seed: int
) -> dict[tuple[Any, ...], Choice]:
    """The cost of the best setting of each mechanism of one answer. Raises AgreementError or NotCertified of an agreed one."""
    measured: dict[tuple[Any, ...], Choice] = {}
    without_setting: tuple[type[Exception], ...] = (AgreementError, NotCertified)  # in budget
    if bounded.problem.terms.one_answer:
        without_setting = ()
    for mechanism, pure in one_answer_mechanisms(bounded.problem, wanted):
        with suppress(*without_setting):
            measured[mechanism, pure] = measure_one_answer(bounded, mechanism, pure, public_start, runs, seed)
    return measured


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
    return Choice(agreement, start, preconditioned, mean, (1.0 + mean) * sample.optimum.value)


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
