"""Many runs of an agreement at once, on records at hand, with simulated noise: what a collaboration would give.

The rule, the schedule and the clipping are the very ones of a deployment; only the noise comes from a seeded numpy
generator, which is fast and repeatable and must never leave a simulation.

    result = simulate(agreement, runs=100, seed=0)
    result.relative_fitness.median[-1]

Run r depends on (seed, r) alone: batches of runs, in any order and on any machine, give the same numbers.

`own_learners` has every owner as its own learner (S, §V): in the paper, N learners query every owner, so that a budget ε is
divided among the N − 1 others, or spent by each of them. Where owners answer once, at a public start, neither is needed, as a
private answer may be reused without limit (post-processing). Each owner answers once and spends its whole ε, all learners get
that answer, and learner j replaces its own private answer by the exact one. The variance of the noise in its model's input is

    Σ_{i≠j} w_i²·b_i²,        b_i the scale of the noise at the whole ε_i,

smaller than the common model's by its own term, and smaller by (N − 1)² than with budgets that are split. The model of learner
j contains j's exact answer and must stay with j.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import UsageError
from copriv.mechanisms import OneAnswer
from copriv.model.fitness import Optimum, one_thread, relative_fitness
from copriv.model.objective import ACCURACY
from copriv.problem import Problem
from copriv.rules.graph import Graph
from copriv.schedules import Schedule
from copriv.simulation.own_records import on_own_records
from copriv.simulation.result import (
    NOT_FOR_RELEASE,
    NOT_PRIVATE,
    GraphOutcome,
    OwnerOutcome,
    RelativeFitness,
    Simulation,
    from_noise,
)
from copriv.simulation.runs import Lies, NoiseSource, Options, one_answers, play
from copriv.simulation.worlds import psi
from copriv.types import Array

__all__ = [
    "NOT_FOR_RELEASE",
    "NOT_PRIVATE",
    "NoiseSource",
    "OwnerOutcome",
    "RelativeFitness",
    "Simulation",
    "own_learners",
    "simulate",
]


def simulate(
    agreement: Agreement | Problem | str | Path | Mapping[str, Any],
    data: Sequence[Any] | None = None,
    *,
    public: Any = None,
    runs: int = 100,
    seed: int | None = None,
    record_at: Sequence[int] | None = None,
    schedule: Schedule | None = None,
    noise: NoiseSource | None = None,
    first_run: int = 0,
    workers: int | None = None,
    alone: bool = True,
    starts: Float[Array, "runs p"] | None = None,
    progress: Callable[[int, int], None] | None = None,
    own_records: bool | None = None,
    lies: Lies | None = None,
) -> Simulation:
    """Run an agreement `runs` times on records at hand, with simulated noise.

    agreement: an Agreement, the path of its file, a mapping of the file's shape, or a Problem, which has its data.
    data: one (X, y) an owner, in the agreement's order; None runs the pipeline that the agreement's [data] names.
    public: the learner's own (X, y), which "auto" bounds need when `data` is given.
    seed: of schedules and noise; the agreement's when None. Runs `first_run` … `first_run + runs − 1` are made.
    record_at: iterations at which ψ is recorded; about 60, evenly on a log axis, when None. The last one always is.
    schedule, noise: replace the agreement's schedule, and the noise (both for tests and for replaying a run).
    workers: threads for passes over records; all processors when None. The result depends on it by rounding only.
    alone: whether to fit every owner's own model, which is an optimisation an owner.
    starts: where each run begins, in place of the agreement's start.
    progress: called with (iterations done, iterations in all).
    own_records: judge own, public, common and personalized models on each owner's own records, held out in turn. None: where
        that is what the agreement's goal asks about, owners' models are fitted (`alone`) and owners are at most 20.
    lies: what owners answer in place of their private answers, to see how an agreement that is `robust` bears it; called with
        round, θ and the agreed answers (runs × owners × p).

    Raises AgreementError for terms that are still "auto" or that this engine cannot keep, DataError for data that does
    not match the agreement.

    >>> result = copriv.simulate(agreement, data, runs=5, seed=1)
    >>> result.theta.shape
    (5, 3)
    """
    problem = problem_of(agreement, data, public)
    options = Options(
        runs, seed, record_at, schedule, noise, first_run, workers, alone, starts, progress, own_records, lies
    )  # fmt: skip
    return run_problem(problem, problem.agreement.noise_scales(problem.feature_bound), options)


def problem_of(
    agreement: Agreement | Problem | str | Path | Mapping[str, Any], data: Sequence[Any] | None, public: Any
) -> Problem:
    """The problem that `simulate` runs, from its first arguments."""
    terms = agreement.terms if isinstance(agreement, Problem) else Agreement.given(agreement)
    terms.check_one_phase()
    if isinstance(agreement, Problem):
        if data is not None:
            raise UsageError(
                "simulate: a Problem already has its data; give an Agreement with data, or the Problem alone"
            )
        return agreement
    return Problem.load(terms) if data is None else Problem.of(terms, data, public)


@one_thread()  # products of a block are too small for several BLAS threads, which wait for each other by spinning
def run_problem(problem: Problem, scales: Float[Array, " owners"], options: Options) -> Simulation:
    """Run `simulate` with these noise scales in place of the agreed ones."""
    begun = time.perf_counter()
    agreement, terms = problem.agreement, problem.agreement.agreement
    seed, known = options.seed_of(agreement), not problem.stand_in
    played = play([problem], scales, options, options.streams(agreement))
    ψ, last, graph, noise = psi(problem, played.kept, options.threads), played.kept[-1], None, None
    if terms.graph is None:
        noise = from_noise(ψ[-1:], psi(problem, last.mean(axis=0)[None], 1))
    else:
        models, last = last, last.mean(axis=1)
        graph = GraphOutcome(
            models, ψ[-1], psi(problem, last[None], options.threads)[0], Graph.of(agreement).spectral_gap
        )
        ψ = ψ.mean(axis=2)
    answered = np.zeros(agreement.n_owners, dtype=int)
    for j, group in enumerate(played.members):
        answered[list(group)] = int((played.participant == j).sum(axis=0).max(initial=0))
    judged, stand_ins = options.own_records, problem.source == "public"
    if judged and stand_ins:
        raise UsageError(
            "own_records: the owners' own tables are not here, and the public model was fitted to the rows that stand in for "
            "them; give the tables (data.path)"
        )
    if judged is None:
        # By default at most 20 owners, as many as a terminal's table shows: each takes a cross-validation in five parts.
        judged = options.alone and agreement.goal == "own" and agreement.n_owners <= 20 and not stand_ins
    public, public_model, owners = None, None, []
    if known and problem.unbounded_public is not None and (options.alone or judged):
        public = problem.optimum_of(problem.unbounded_public, problem.optimum.theta, ACCURACY)
    if public is not None:
        public_model = public.theta
    for i, (owner, answers, scale) in enumerate(zip(agreement.owner, answered, scales, strict=True)):
        alone = own = None
        if options.alone and known:
            alone = _psi_of(problem, problem.optimum_of(problem.unbounded[i], problem.optimum.theta, ACCURACY))
        if judged and known:
            own = on_own_records(problem, i, last if graph is None else graph.models[:, i], seed, public_model)
        owners.append(OwnerOutcome(owner.name, owner.records, owner.epsilon, int(answers), float(scale), alone, own))
    held_out: Array | None = None
    if problem.held_out is not None:  # f there, relative to the same θ* that ψ is relative to
        fitness = problem.fitness_of(problem.held_out)
        relative = fitness.value(played.kept[-1]) / float(fitness.value(problem.optimum.theta)) - 1.0
        held_out = relative.reshape(options.runs, -1).mean(axis=1)
    return Simulation(
        rule=terms.rule,
        horizon=terms.horizon,
        seed=seed,
        dataset="given" if problem.source == "given" else agreement.data.dataset or "given",
        source=problem.source,
        description=problem.description,
        relative_fitness=RelativeFitness(played.recorded, ψ.T),
        theta=last,
        owners=tuple(owners),
        bound_enforced=not agreement.model.gradient_bound_assumed,
        clipped=played.clipped,
        durations=played.durations if terms.by_clocks and not agreement.one_answer else None,
        schedule=tuple(zip(played.first.time.tolist(), played.first.owner.tolist(), strict=True)),
        held_out=held_out,
        seconds=time.perf_counter() - begun,
        goal=agreement.goal,
        worthwhile=agreement.worthwhile,
        measured_in=agreement.error_in_words,
        public_only=_psi_of(problem, public),
        from_noise=noise,
        graph=graph,
    )


def _psi_of(problem: Problem, best: Optimum | None) -> float | None:
    """ψ of a model that was fitted to some of the records; None where there is none."""
    if best is None:
        return None
    return float(relative_fitness(problem.fitness.value(best.theta), problem.optimum))


def own_learners(
    agreement: Agreement | Problem,
    data: Sequence[Any] | None = None,
    *,
    public: Any = None,
    budget: str = "split",
    owners: Sequence[int] | None = None,
    **options: Any,
) -> tuple[Simulation, ...]:
    """Every owner as its own learner: one simulation each, with no noise on the learner's own answers.

    budget: "split": each owner's ε is divided over the N − 1 learners that are not itself; "multiplied": each learner
        gets the whole ε, so that the owner spends N − 1 times as much; "shared": owners answer once under the whole ε, and
        all learners use the same answers. That needs a mechanism of one answer ("statistics", "objective").
    owners: the indices of those who learn; all when None.
    `options` are those of `simulate`. Simulation j is relative to the same θ* of all records together as any other.

    Raises UsageError for a budget that is none of these, or that the agreed mechanism does not allow.

    >>> mine = copriv.own_learners(agreement, data, budget="split", runs=5)
    >>> len(mine), mine[0].theta.shape
    (3, (5, 3))
    """
    if budget not in ("split", "multiplied", "shared"):
        raise UsageError(f"budget: must be one of 'split', 'multiplied', 'shared', not {budget!r}")
    problem, chosen = problem_of(agreement, data, public), Options(**options)
    if problem.agreement.summed:
        raise UsageError(
            "own learners: each replaces its own answer, which nobody can where only the sum is seen; choose "
            'aggregation = "each"'
        )
    if problem.agreement.agreement.graph is not None:
        raise UsageError(
            "own learners: what an owner on a graph tells its neighbours is made of its own answers, which need their noise; "
            "leave graph out"
        )
    agreed, mechanism, N = problem.agreement, problem.agreement.mechanism, problem.agreement.n_owners
    scales, answers = agreed.noise_scales(problem.feature_bound), None
    if budget == "shared":
        if not isinstance(mechanism, OneAnswer):
            raise UsageError(
                f'own learners: answers can be shared where each owner gives one, at a public start; "{mechanism.name}" has '
                'many, at points that depend on them. Agree on mechanism = "statistics" (squared loss) or "objective"'
            )
        answers = one_answers(problem, [stream[1] for stream in chosen.streams(agreed)], scales)
    elif isinstance(mechanism, OneAnswer) and not mechanism.divisible:
        raise UsageError(f'own learners: a budget for "{mechanism.name}" cannot be split by scaling its noise')
    elif budget == "split":
        scales = scales * max(N - 1, 1)
    made = []
    if owners is None:
        owners = range(N)
    for j in owners:
        if answers is not None and isinstance(mechanism, OneAnswer):
            exact = mechanism.exact(agreed, agreed.owner[j], problem.owners[j], problem.common)
            mine = np.tile(exact, (chosen.runs, 1))
            chosen = replace(chosen, given=[mine if i == j else theirs for i, theirs in enumerate(answers)])
        made.append(run_problem(problem, np.where(np.arange(N) == j, 0.0, scales), chosen))
    return tuple(made)
