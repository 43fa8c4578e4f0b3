"""Plan the rule, answers, step, bounds and start of least cost, from public information only.

Every setting is priced by a table (`prices`), which ignores clipping during a run. Therefore the best few settings and their
neighbours are run in worlds of the public rows (`simulated_refinement`), and the cheapest of those runs is the plan.

A plan has pure ε unless every owner states a δ above 0. With such a δ, normal noise (Ξ in L2), composed Laplace noise and
models fitted with δ are compared with the pure mechanisms; if a pure one is chosen, its agreement has δ = 0. `Plan.trades`
has the cost of each promise.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.errors import AgreementError, InvalidInput, NotCertified
from copriv.mechanisms.gradients import noise_of
from copriv.model.threads import one_thread
from copriv.plan.candidates import (
    PRECONDITIONERS,
    answers_of,
    freed,
    hidden,
    noises_of,
    participants_of,
    sizes_of,
    starts_of,
    sums_of,
    variances_of,
    ways_of,
)
from copriv.plan.clipping_bias import bounded
from copriv.plan.minimax_regret import cautious
from copriv.plan.plan_result import Choice, Plan
from copriv.plan.prices import Priced, Table, flatness_of
from copriv.plan.rule_response import response
from copriv.plan.simulated_refinement import (
    finalists_of,
    measure_one_answer,
    one_answer_mechanisms,
    run_finalists,
    without_joining,
)
from copriv.populations.dealt import heterogeneity_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
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
    sample = sample or PublicSample(public)
    found, powers = bounded(public, sample, noises), PRECONDITIONERS
    if not preconditioner or terms.agreement.preconditioner is not None:
        powers = PRECONDITIONERS[:1]  # none
    tables = [Table(found, start, γ) for start in starts_of(terms, public_start) for γ in powers]
    priced: list[Priced] = []
    for way in ways_of(terms):
        for m, size in product(answers_of(terms, way), sizes_of(terms, way)):
            participants = participants_of(terms, size)
            groups = sums_of(terms, way, size)
            if size is not None and m * participants > terms.agreement.horizon:
                continue  # groups whose size the plan chooses must end within the agreed horizon
            if not hidden(terms, groups):
                continue
            variance = variances_of(terms, noises, m, groups)
            for table in tables:
                priced += table.price(response(way, m - terms.attempts, participants), variance, size)
    if not priced and terms.agreement.group_size == "auto":
        raise AgreementError(
            "agreement.horizon: no rule, answers and size of groups end within it; lengthen it, or fix fewer of them"
        )
    if not priced:
        why = " and the sums of so few owners" * terms.summed
        raise AgreementError(f"agreement.rule: no rule fits the agreed communication{why}; name another, or allow any")
    quadratic = public.fitness.quadratic is not None
    finalists = finalists_of(priced, quadratic)
    first = finalists[0]
    measured: dict[tuple[Any, ...], Choice] = {}
    if not terms.one_answer:
        # The table is exact for a quadratic fitness and approximate for others, which get more passes over neighbours.
        first, measured = run_finalists(public, finalists, 3 - 2 * quadratic, runs, seed)
    if one_answer is None:
        one_answer = not keep
    for mechanism, pure in one_answer_mechanisms(public, one_answer):
        try:
            measured[mechanism, pure] = measure_one_answer(found, mechanism, pure, public_start, runs, seed)
        except (AgreementError, NotCertified):
            if terms.one_answer:
                raise
            continue  # no setting is within these budgets
    ranked = tuple(sorted(measured.values(), key=lambda choice: choice.fitness))
    runner_up = next((choice for choice in ranked if choice.kind != ranked[0].kind), None)
    best, ν = sample.optimum.value, noise_of(terms)
    fixed = np.concatenate([(p.fixed + best).ravel() / best - 1.0 for p in priced])
    # For noise with δ too, whose scale is approximately proportional to 1/(nε).
    slope = np.concatenate([p.noise.ravel() / (best * ν) for p in priced])
    made = Plan(ranked[0], runner_up, ranked, flatness_of(first), (fixed, slope), time.perf_counter() - begun)
    unlike = heterogeneity or heterogeneity_of(sample)
    with suppress(NotCertified, InvalidInput):  # so few records that an unequal allocation can be fitted exactly
        made = cautious(sample, made, unlike, seed)
    return made.advised(*without_joining(public, sample, (not unlike.alike) * unlike.value, seed))


def of_many_answers(found: Plan, sample: PublicSample, seed: int = 0) -> Plan:
    """What `plan` finds with `keep` for terms that fix nothing: the choice among the plan's own settings of many answers."""
    many = tuple(choice for choice in found.measured if not choice.agreement.one_answer)
    runner_up = next((choice for choice in many if choice.kind != many[0].kind), None)
    made = replace(found, choice=many[0], runner_up=runner_up, measured=many, caution=None)
    with suppress(NotCertified, InvalidInput):
        made = cautious(sample, made, heterogeneity_of(sample), seed)
    return made
