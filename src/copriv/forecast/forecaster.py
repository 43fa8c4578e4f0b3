"""`forecast`: what the agreed terms will cost, what the best terms would, and for whom joining pays.

What private data could tell is replaced by the public sample and by how wrong it may be: everything is a mean, a quantile
or a share over worlds (`copriv.populations.law`), so that what is said of terms (`assessment`), of going without them
(`standalone_models`) and of both together is of the same worlds.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import UsageError
from copriv.forecast.assessment import RUNS, WORLDS, assess, worlds_unlike
from copriv.forecast.bounds import bounds_of
from copriv.forecast.coalition_value import Consortium
from copriv.forecast.comparison import ERRORS, Comparison, Run, relative_error
from copriv.forecast.generalisation import generalisation_of
from copriv.forecast.owner_forecast import owners_of
from copriv.forecast.quantiles import quantiles
from copriv.forecast.rare_records import Unseen
from copriv.forecast.result import AtHeterogeneity, Forecast
from copriv.forecast.standalone_models import judged
from copriv.model.threads import on_one_thread
from copriv.plan import Choice, Plan, leaves_open, plan
from copriv.populations.by_owner import psi
from copriv.populations.dealt import heterogeneity_of, heterogeneous_worlds
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.terms.heterogeneity import Heterogeneity
from copriv.types import Loss
from copriv.validation import count

LEVEL_WORLDS = 8
"""Worlds at each level of heterogeneity."""
NOTICEABLE = 0.05
"""Owners are left out only where that saves the others at least this part of the cost: about a forecast's accuracy."""


@on_one_thread
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
    public_start, preconditioner: what a recommendation may use.
    progress: called with (stages done, stages in all).
    strata: which owner or stratum each row of `public` is of (labels), where that is known: heterogeneity is estimated from
        it, unless the agreement states it, and each owner that a label names (or whose `owner.stratum` it is) is told
        about from its own rows. For the public rows of the pipeline, data.strata names the column.

    Raises DataError without a public sample, AgreementError for terms that contradict each other.

    >>> outlook.joining_pays  # it was made by copriv.forecast(agreement, public, runs=32)
    True
    """
    report = progress or (lambda done, total: None)
    count("runs", runs)
    count("seed", seed, least=0)
    problem = public_problem(agreement, public, loss, strata)
    still_open = leaves_open(problem.terms)
    if not still_open:
        problem.terms.mechanism.check_delta(problem.terms)  # before minutes of planning, not after
    sample = PublicSample(problem)

    def planned(keep: bool) -> Plan:
        return plan(
            problem, keep=keep, public_start=public_start, preconditioner=preconditioner, seed=seed, sample=sample
        )

    best = planned(keep=False)
    report(1, 4)
    settled, words = problem.terms, "as agreed"
    if still_open:
        kept = planned(keep=True)
        settled, words = kept.agreement, kept.choice.describe()
    report(2, 4)
    heterogeneity = heterogeneity_of(problem)
    unlike = worlds_unlike(sample, problem.terms, heterogeneity, seed)
    agreed = assess(problem.under(settled), words, runs, seed, sample, unlike)
    report(3, 4)
    found = tuple(
        Run(choice, assess(problem.under(choice.agreement), choice.describe(), runs, seed, sample, unlike))
        for choice in _mentioned(best)
    )
    recommended = min(found, key=lambda run: run.cost).assessment
    if agreed.private and agreed.relative_fitness.mean[-1] <= recommended.relative_fitness.mean[-1]:
        recommended = agreed
    report(4, 4)

    records = [table.records for table in problem.terms.owner_tables]
    seen = judged(sample, records, sample.drawn(WORLDS, seed), unlike)
    # What owners are worth is asked of the curve, and what joining means of the runs: held to them, both say the same.
    differ = 0.0 if unlike is None else heterogeneity.value
    members = Consortium.of(problem.terms, sample.information / sample.optimum.value, best.curve, differ)
    pools = [world.pool for world in unlike or sample.drawn(WORLDS, seed)]
    starts = _starts(pools, problem, seen.public, public_start)
    members = members.held_to(
        recommended.relative_fitness.end["median"],
        np.array([float(np.median(seen.without_joining(i))) for i in range(len(records))]),
        float(np.median(starts)),
    )
    subset = members.best_numbers()
    enough = max(NOTICEABLE, ERRORS * relative_error(recommended))
    if members.cost(subset) > (1.0 - enough) * members.together():
        subset = members.number
    owners = owners_of(problem.terms, members, recommended, seen, subset, starts)
    low, high = quantiles(seen.public[:, None])
    public_only = float(np.median(seen.public))
    best = best.advised(
        public_only,
        min(o.alone for o in owners),
        any(o.joining_pays and not o.close_call for o in owners),
        any(o.close_call for o in owners),
    )
    levels: tuple[AtHeterogeneity, ...] = ()
    if unlike is not None:
        levels = _at_heterogeneity(problem, recommended.agreement, sample, heterogeneity, seed)
    return Forecast(
        agreed=agreed,
        recommended=recommended,
        plan=best,
        public_only=public_only,
        public_only_band=(float(low), float(high)),
        public_rows=problem.unbounded[0].units,
        n_parameters=problem.n_parameters,
        bounds=bounds_of(problem.under(settled)),
        optimum=sample.optimum.value,
        owners=owners,
        consortium=members,
        squared=problem.fitness.quadratic is not None,
        generalisation=generalisation_of(sample),
        unseen=Unseen.of(problem.unbounded[0], pools, recommended.models, int(problem.terms.records.sum())),
        best_subset=float(members.cost(subset)),
        best_weights=members.weighted(members.best_weights()),
        description=problem.description,
        heterogeneity=heterogeneity,
        at_heterogeneity=levels,
        runs=found,
        comparison=Comparison.of(agreed, recommended),
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


def _mentioned(best: Plan) -> list[Choice]:
    """The choices that a forecast speaks of: the plan's, the runner-up, and both sides of every promise; each once."""
    mentioned = [best.choice, best.runner_up, *(choice for sides in best.trades().values() for choice in sides)]
    return list({choice.agreement.fingerprint: choice for choice in reversed(mentioned) if choice}.values())[::-1]


def _at_heterogeneity(
    problem: Problem, recommended: Agreement, sample: PublicSample, heterogeneity: Heterogeneity, seed: int
) -> tuple[AtHeterogeneity, ...]:
    """The cost of the recommended terms at 0, at the value and at twice that, from a few worlds and runs each."""
    found = []
    for level in (0.0, heterogeneity.value, 2.0 * heterogeneity.value):
        worlds = heterogeneous_worlds(sample, problem.terms, level, LEVEL_WORLDS, seed)
        found_there = assess(problem.under(recommended), "", 4 * LEVEL_WORLDS, seed, sample, worlds)
        found.append(AtHeterogeneity(level, **found_there.relative_fitness.end))
    return tuple(found)


def _starts(
    pools: Sequence[Problem], problem: Problem, public: Float[np.ndarray, " worlds"], public_start: bool
) -> Float[np.ndarray, " worlds"]:
    """ψ in each world of the better start that terms may have: where a run ends if its answers say nothing."""
    given = np.array([psi(pool, problem.start) for pool in pools])
    free = public_start and problem.terms.agreement.start is None
    return public if free and np.median(public) <= np.median(given) else given
