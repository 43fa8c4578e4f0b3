"""`forecast`: the cost of the agreed terms and of the best ones, and the owners for whom joining pays.

The owners' records are replaced by posterior draws given the public sample ("worlds", `copriv.populations.law`). All results
are means, quantiles or shares over the same worlds: the cost of terms (`assessment`) and of not joining (`standalone_models`).
The papers' bounds are evaluated here too; the theorems are with their rules (`copriv.rules`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.errors import UsageError
from copriv.forecast.assessment import (
    AS_AGREED,
    ERRORS,
    RUNS,
    WORLDS,
    Assessment,
    Comparison,
    CostOfGraph,
    Robustness,
    Run,
    WithSum,
    assess,
    quantiles,
    relative_error,
)
from copriv.forecast.coalition_value import Consortium
from copriv.forecast.generalisation import generalisation_of
from copriv.forecast.owner_forecast import owners_of
from copriv.forecast.pilot_outlook import PilotOutlook, pilot_outlook
from copriv.forecast.rare_records import Unseen
from copriv.forecast.result import AtHeterogeneity, Forecast, Kind
from copriv.forecast.standalone_models import WithoutJoining
from copriv.mechanisms.lengths import share_heard
from copriv.model.fitness import one_thread
from copriv.plan import Plan, leaves_open, plan
from copriv.plan.candidates import freed
from copriv.plan.outliers import cost_of_outliers
from copriv.plan.planner import of_many_answers
from copriv.plan.without_public_rows import after_pilots
from copriv.populations.dealt import draw_worlds, heterogeneity_of, heterogeneous_worlds, laws_of
from copriv.populations.declared_sample import DeclaredSample, sample_of
from copriv.populations.public_sample import PublicSample, public_mixes
from copriv.populations.world import World
from copriv.problem import Problem
from copriv.problem.verdict import Asked, too_few
from copriv.rules import named
from copriv.rules.bounds import Bound, Setting
from copriv.types import Loss
from copriv.validation import count

NOTICEABLE = 0.05
"""Least relative saving for which an owner is left out of the best coalition: about the accuracy of a forecast."""


@one_thread()
def forecast(
    agreement: Agreement | Problem | str | Path | Mapping[str, Any],
    public: Any = None,
    *,
    loss: Loss | None = None,
    runs: int = RUNS,
    seed: int = 0,
    public_start: bool = True,
    preconditioner: bool = True,
    progress: Callable[[int, int], None] | None = None,
    strata: Any = None,
) -> Forecast:
    """Forecast an agreement from public information only.

    agreement: an Agreement, the path of its file, a mapping of the file's shape, or a Problem, of which only the public
        sample is used.
    public: the learner's own (X, y); None takes the public rows of the pipeline that [data] names.
    loss: a user's own, in place of the named one (with `public`).
    runs: simulated runs on the public rows for each assessment.
    public_start, preconditioner: whether the recommendation may start at the public model, and use a public preconditioner.
    progress: called with (stages done, stages in all).
    strata: label of the owner or stratum of each row of `public`, where known: heterogeneity is estimated from it, unless
        the agreement states it, and each owner that a label names (or whose `owner.stratum` it is) is forecast from its
        own rows. For the public rows of the pipeline, data.strata names the column.

    With a pilot, the run after it is forecast at what the pilot leaves of each ε. `copriv.pilot` gives the forecast after it.
    Raises DataError without a public sample, AgreementError for terms that contradict each other.

    >>> outlook.owners[0].verdict  # it was made by copriv.forecast(agreement, public, runs=32)
    'no'
    """
    problem = public_problem(agreement, public, loss, strata)
    kind: Kind = "before the pilot" if problem.terms.has_pilot else "before any private record"
    sample = sample_of(problem.under(problem.terms.phases[-1]), problem.terms.pilot_share)
    if sample.declared:
        kind = "without public rows"
    share = problem.terms.pilot_share
    asked = None if problem.terms.agreement.pilot_terms is None else problem.terms.phases[0]
    return forecast_of(sample, kind, runs, seed, public_start, preconditioner, progress, share, asked)


def forecast_of(
    sample: PublicSample,
    kind: Kind,
    runs: int,
    seed: int,
    public_start: bool = True,
    preconditioner: bool = True,
    progress: Callable[[int, int], None] | None = None,
    share: float = 0.0,
    asked_before: Agreement | None = None,
) -> Forecast:
    """Forecast the agreement of a public sample, and of what a pilot's answers tell where it has them.

    share: of every ε, of a pilot before it. asked_before: the pilot, where its terms are signed.
    """
    report, problem = progress or (lambda done, total: None), sample.problem
    count("runs", runs)
    count("seed", seed, least=0)
    still_open = leaves_open(problem.terms)
    if not still_open:
        problem.terms.mechanism.check_delta(problem.terms)  # before minutes of planning, not after

    def planned(keep: bool) -> Plan:
        return plan(
            problem, keep=keep, public_start=public_start, preconditioner=preconditioner, seed=seed, sample=sample
        )

    after = kind == "after the pilot"  # from here on the mechanism and the number of answers are fixed
    best = planned(keep=after)
    report(1, 4)
    settled, words = problem.terms, AS_AGREED
    if still_open:
        kept = best
        if not after and not sample.declared and freed(problem.terms).fingerprint == problem.terms.fingerprint:
            kept = of_many_answers(best, sample, seed)
        elif not after and not sample.declared:
            kept = planned(keep=True)
        settled, words = kept.agreement, kept.choice.describe()
    report(2, 4)
    heterogeneity = heterogeneity_of(sample)
    worlds = draw_worlds(sample, problem.terms, heterogeneity, WORLDS, seed)

    def assessed(terms: Agreement, words: str) -> Assessment:
        found = assess(problem.under(terms), words, runs, seed, worlds, then(worlds, terms))
        if sample.declared:
            return found
        return replace(found, outliers=cost_of_outliers(sample, terms))

    def then(worlds: Sequence[World], terms: Agreement) -> Sequence[Agreement] | None:
        """The terms that a pilot will lead to in each world, where it is all that tells of them."""
        if not (isinstance(sample, DeclaredSample) and sample.awaits_pilot and still_open):
            return None
        return after_pilots(sample, worlds, terms.mechanism, seed)

    agreed = assessed(settled, words)
    robustness = graph = None
    if settled.agreement.graph is not None:
        graph = CostOfGraph.of(agreed, lambda terms: assessed(terms, words))
    if (liars := settled.agreement.robust) is not None:
        averaged = assessed(settled.replace(agreement={"robust": None, "robust_by": None}), words)
        robustness = Robustness.of(agreed, averaged, liars, (not heterogeneity.alike) * heterogeneity.value)
    report(3, 4)
    # The plan's choice, the runner-up, and the best choices with and without every promise; each once, as the agreed terms are.
    reported = [best.choice, best.runner_up, *chain(*best.trades().values())]
    each = {choice.agreement.fingerprint: choice for choice in reversed(reported) if choice}
    known = {settled.fingerprint: agreed}
    found = tuple(
        Run(choice, known.get(name) or assessed(choice.agreement, choice.describe()))
        for name, choice in reversed(each.items())
    )
    recommended = min(found, key=lambda run: run.insured_cost).assessment
    if sample.declared:  # by the mean share of what a constant leaves, and not by a mean that few tables decide
        recommended = next(run.assessment for run in found if run.choice is best.choice)
    if agreed.private and agreed.insured_cost <= recommended.insured_cost:
        recommended = agreed
    hidden = []
    if best.with_sum is not None:
        hidden.append((best.with_sum.agreement, best.with_sum.describe()))
        if (same := recommended.agreement.in_sums()) is not None:
            hidden.append((same, recommended.words))
    in_sums = [assess(problem.under(terms), words, runs, seed, worlds) for terms, words in hidden]
    report(4, 4)

    records = [table.records for table in problem.terms.owner_tables]
    seen = WithoutJoining.of(sample, records, worlds)
    # The value of owners follows from the noise curve, which is scaled to agree with the runs.
    alike = worlds[0].apart is None
    pools = [world.pool for world in worlds]
    # ψ of the better possible start of the terms in each world: that of a run whose answers are noise only.
    starts = np.array([world.on_all(problem.start) for world in worlds])
    public_start = public_start and not sample.declared
    if public_start and problem.terms.agreement.start is None and np.median(seen.public) <= np.median(starts):
        starts = seen.public
    without = np.array([float(np.median(seen.without_joining(i))) for i in range(len(records))])
    members = Consortium.of(
        problem.terms, sample.information / sample.optimum.value, best.curve, (not alike) * heterogeneity.value
    ).held_to(recommended.relative_fitness.end["median"], without, float(np.median(starts)))
    subset = members.best_numbers()
    enough = max(NOTICEABLE, ERRORS * relative_error(recommended))
    if members.cost(subset) > (1.0 - enough) * members.together():
        subset = members.number
    levels = None
    if heterogeneity.source == "not stated" and not alike:
        levels = np.array([world.heterogeneity for world in worlds])
    undetermined = too_few(sample.problem.unbounded[0], problem.n_parameters) is not None
    asked = Asked.of(problem.terms.goal, problem.terms.worthwhile, levels, undetermined)
    owners = owners_of(problem.terms, members, recommended, seen, subset, starts, asked)
    pilot = None
    if sample.declared:
        if not after:
            pilot = PilotOutlook(share, share_heard(problem.terms, 1.0 - share), 0, ())
    elif problem.terms.summed or alike:
        if share:
            pilot = PilotOutlook(share, 0.0, 0, ())
    elif not after:
        first = seen.assessed_as(records)
        draws = {i: seen.heterogeneity_and_pays(recommended, i, asked, worlds) for i in dict.fromkeys(first)}
        pilot = pilot_outlook(
            sample,
            share,
            members,
            [draws[i] for i in first],
            [owner.verdict == "open" for owner in owners],
            asked_before,
        )
    with_sum = None
    if in_sums:
        least = min(in_sums, key=lambda one: one.relative_fitness.end["mean"])
        enough_for_one = max(owner.pays_below for owner in owners)
        hidden_members, ψ = replace(members, uncounted=least.agreement.uncounted), least.relative_fitness.end["median"]
        if ψ > members.together():  # what is seen may be an answer that no sum has, such as statistics
            hidden_members = hidden_members.held_to(ψ, without, float(np.median(starts)))
        both = (hidden_members, members)
        with_sum = WithSum(least, *(one.break_even_for_all(0, enough_for_one) for one in both))
    low, high = quantiles(seen.public[:, None])
    public_only = float(np.median(seen.public))
    best = best.advised(
        public_only,
        min(o.alone for o in owners),
        any(o.verdict == "yes" for o in owners),
        any(o.verdict == "open" for o in owners),
        None if asked.goal == "common" else seen.public_serves_all,
    )
    at_levels = []
    for level in () if alike else (0.0, heterogeneity.value, 2.0 * heterogeneity.value):
        there = heterogeneous_worlds(sample, problem.terms, [level] * 8, seed)
        cost = assess(problem.under(recommended.agreement), "", 32, seed, there, then(there, recommended.agreement))
        at_levels.append(AtHeterogeneity(level, **cost.relative_fitness.end))
    rows, optimum, everybody, unseen = 0, np.nan, None, None
    bounds: tuple[Bound, ...] = ()
    if not sample.declared:
        public = problem.unbounded[0]
        rows, optimum, everybody = public.units, sample.optimum.value, sample.optimum
        bounds = bounds_of(problem.under(settled))
        unseen = Unseen.of(public, pools, recommended.models, int(problem.terms.records.sum()))
    if problem.strata_name_owners:
        everybody = PublicSample.of_everybody(problem).optimum
    return Forecast(
        agreed=agreed,
        recommended=recommended,
        plan=best,
        public_only=public_only,
        public_only_band=(float(low), float(high)),
        public_rows=rows,
        n_parameters=problem.n_parameters,
        bounds=bounds,
        optimum=optimum,
        everybody=everybody,
        owners=owners,
        consortium=members,
        squared=problem.fitness.quadratic is not None,
        generalisation=generalisation_of(sample),
        unseen=unseen,
        longer=sample.longer,
        best_subset=float(members.cost(subset)),
        best_weights=members.weighted(members.best_weights()),
        description=problem.description,
        heterogeneity=heterogeneity,
        at_heterogeneity=tuple(at_levels),
        public_mix=public_mixes(problem, not heterogeneity.alike and laws_of(sample) is not None),
        runs=found,
        comparison=Comparison.of(agreed, recommended),
        robustness=robustness,
        graph=graph,
        with_sum=with_sum,
        pilot=pilot,
        problem=problem,
        worlds=worlds,
        kind=kind,
        options={"runs": runs, "seed": seed, "public_start": public_start, "preconditioner": preconditioner},
    )


def public_problem(
    agreement: Agreement | Problem | str | Path | Mapping[str, Any],
    public: Any,
    loss: Loss | None = None,
    strata: Any = None,
) -> Problem:
    """The problem on its public sample alone. Raises UsageError for arguments that say the same thing twice."""
    if isinstance(agreement, Problem):
        if public is not None:
            raise UsageError(
                "forecast: a Problem already has its public sample; give an Agreement with public = (X, y)"
            )
        if strata is not None:
            raise UsageError(
                "forecast: a Problem already says whose its public rows are: Problem.forecasting(…, strata=…)"
            )
        return agreement.on_public()
    if public is not None:
        return Problem.forecasting(Agreement.given(agreement), public, loss, strata)
    if strata is not None:
        raise UsageError("forecast: strata are of the rows of `public`; give both, or the column data.strata alone")
    return Problem.load_public(Agreement.given(agreement))


def bounds_of(problem: Problem) -> tuple[Bound, ...]:
    """The theorems' bounds for the agreed rule; none where owners answer once, or only their sum is seen."""
    if problem.agreement.one_answer or problem.agreement.summed:
        return ()
    return named(problem.agreement.agreement.rule).bounds(setting_of(problem))


def setting_of(problem: Problem) -> Setting:
    """The constants of an agreement that the theorems need, and whether the assumptions of their proofs hold.

    L and λ are those of the records in the problem; the noise is that of the agreed mechanism.
    """
    agreement, f, p = problem.agreement, problem.fitness, problem.n_parameters
    terms, participants, n = agreement.agreement, Participants.of(agreement), float(agreement.records.sum())
    scales = agreement.noise_scales(problem.feature_bound)
    moments = p * agreement.mechanism.law(agreement).variance * (agreement.weights * scales) ** 2
    # Owners of a record with κ holders add noise as if ε were ε/κ; a group is one participant, whose members' noise adds up.
    inverse = (agreement.overlaps / agreement.epsilons) ** 2
    members, moves = participants.members, None
    if agreement.synchronous:
        members, moves = tuple((i,) for i in range(agreement.n_owners)), agreement.queries
    scaling, plain, matrix = 1.0, True, problem.preconditioner
    if matrix is not None:
        c = float(matrix[0, 0])
        plain = c > 0 and np.array_equal(matrix, c * np.eye(p))
        if plain:
            scaling = c
    Ξ, proved = agreement.gradient_bound, problem.proved_gradient_bound
    others = {"answers averaged by records": terms.robust, "one learner that all owners answer": terms.graph}
    equally = agreement.synchronous or terms.schedule == "uniform" or len(set(participants.rates)) == 1
    return Setting(
        gradient_bound=Ξ,
        regularizer_bound=f.regularizer.bound(f.feasible_set.theta_max, p),
        n_parameters=p,
        total_records=n,
        epsilon=np.array([inverse[list(group)].sum() for group in members]) ** -0.5,
        horizon=terms.horizon,
        step=agreement.step * scaling,
        strong_convexity=f.strong_convexity(),
        smoothness=f.smoothness(),
        regularization=f.regularizer.strength,
        diameter=f.feasible_set.diameter(p),
        answers=agreement.answers,
        noise=np.array([moments[list(group)].sum() for group in members]),
        moves=moves,
        assumed=(
            (
                proved <= Ξ * (1.0 + 1e-9),
                f"no gradient ever clipped: Ξ = {Ξ:.4g} at least their proved bound {proved:.4g}",
            ),
            (bool(np.allclose(agreement.weights, agreement.records / n)), "owners weigh n_i/n"),
            (plain, "no preconditioner but a multiple of the identity"),
            (bool(np.all(np.abs(problem.start) <= f.feasible_set.theta_max)), "the start in Θ"),
            (equally, "owners answer equally often"),
            *((False, what) for what, otherwise in others.items() if otherwise is not None),
        ),
    )
