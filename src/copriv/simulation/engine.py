"""The loop of a run, for all runs of a batch together: schedule, query, clipped mean gradient, noise, rule."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants, agreed_rule
from copriv.errors import NotCertified, UsageError
from copriv.model.fitness import relative_fitness
from copriv.model.records import Records
from copriv.model.threads import one_thread
from copriv.privacy.simulated_noise import SIMULATED
from copriv.problem import Problem
from copriv.schedules import Events, PoissonClocks, RandomOrder, Rounds, Schedule, Uniform, run_events, shares_of
from copriv.simulation.gradients import batched_gradients
from copriv.simulation.kernels import Pass
from copriv.simulation.one_answer import one_answers
from copriv.simulation.own_records import on_own_records
from copriv.simulation.result import OwnerOutcome, RelativeFitness, Simulation, log_spaced
from copriv.types import Array
from copriv.validation import count

NoiseSource = Callable[[int], Float[Array, "runs members p"]]
"""Returns the draws of scale 1 for iteration k = 0, 1, …: one vector for each owner that answers in it."""


@dataclass(frozen=True, eq=False)
class _Participants:
    """The agreement's participants, with all members' noise scales and records, which only a simulation has."""

    agreed: Participants
    noise: Float[Array, "participants members"]
    """Scale of each member's noise in its participant's answer."""

    @classmethod
    def of(cls, agreement: Agreement, scales: Float[Array, " owners"]) -> "_Participants":
        agreed, w = Participants.of(agreement), agreement.weights
        noise = np.zeros((len(agreed.members), max(len(g) for g in agreed.members)))
        for j, group in enumerate(map(list, agreed.members)):
            share = w[group] / w[group].sum() if w[group].sum() > 0 else np.zeros(len(group))
            noise[j, : len(group)] = share * scales[group]
        return cls(agreed, noise)

    def records(self, problem: Problem) -> tuple[Records, ...]:
        """Each participant's records; a group's answer Σ (w_i/w_G) Q_i is the mean over its rows under these weights."""
        w = problem.agreement.weights
        if problem.stand_in and problem.pooled is None:
            return (problem.owners[0],) * len(self.agreed.members)
        together = []
        for group in self.agreed.members:
            if len(group) == 1:
                together.append(problem.owners[group[0]])
                continue
            parts = [problem.owners[i] for i in group]
            n = np.array([part.weight.sum() for part in parts])
            share = w[list(group)] / w[list(group)].sum()
            together.append(Records.concatenate(parts, scale=share / n * n.sum()))
        return tuple(together)


def noise_scales(agreement: Agreement, feature_bound: float | None = None) -> Float[Array, " owners"]:
    """Scale of every owner's noise; feature_bound: B, where the agreement has no number for it yet."""
    mechanism = agreement.mechanism
    return agreement.by_owner([mechanism.scale(agreement, owner, feature_bound) for owner in agreement.owner_tables])


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
    own_records: bool = False,
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
    own_records: also judge own, common and personalized models on each owner's own held-out records.

    Raises AgreementError for terms that are still "auto" or that this engine cannot keep, DataError for data that does
    not match the agreement.

    >>> result = copriv.simulate(agreement, data, runs=5, seed=1)
    >>> result.theta.shape
    (5, 3)
    """
    problem = problem_of(agreement, data, public)
    options = Options(
        count("runs", runs), None if seed is None else count("seed", seed, least=0), record_at, schedule, noise, first_run,
        None if workers is None else count("workers", workers), alone, starts, progress,
        own_records=own_records,
    )  # fmt: skip
    return run_problem(problem, noise_scales(problem.agreement, problem.feature_bound), options)


def problem_of(
    agreement: Agreement | Problem | str | Path | Mapping[str, Any], data: Sequence[Any] | None, public: Any
) -> Problem:
    """The problem that `simulate` runs, from its first arguments."""
    if isinstance(agreement, Problem):
        if data is not None:
            raise UsageError(
                "simulate: a Problem already has its data; give an Agreement with data, or the Problem alone"
            )
        return agreement
    terms = Agreement.given(agreement)
    return Problem.load(terms) if data is None else Problem.of(terms, data, public)


@dataclass(frozen=True, eq=False)
class Options:
    """Options of `simulate`, and `given`."""

    runs: int = 100
    seed: int | None = None
    record_at: Sequence[int] | None = None
    schedule: Schedule | None = None
    noise: NoiseSource | None = None
    first_run: int = 0
    workers: int | None = None
    alone: bool = True
    starts: Float[Array, "runs p"] | None = None
    progress: Callable[[int, int], None] | None = None
    given: Sequence[Float[Array, "runs answer"]] | None = None
    """Answers to use, one per owner and run, where each owner answers once; drawn when None."""
    own_records: bool = False

    def streams(self, problem: Problem) -> list[Any]:
        """Seed sequences of each run: of its schedule and of its noise."""
        seed = problem.agreement.agreement.seed if self.seed is None else self.seed
        return [np.random.SeedSequence(seed, spawn_key=(self.first_run + r,)).spawn(2) for r in range(self.runs)]


def run_problem(problem: Problem, scales: Float[Array, " owners"], options: Options) -> Simulation:
    """Run `simulate` with these noise scales in place of the agreed ones."""
    # Products of a block are too small for several BLAS threads, which wait for each other by spinning.
    with one_thread():
        return _run_here(problem, scales, options)


def _run_here(problem: Problem, scales: Array, options: Options) -> Simulation:
    begun = time.perf_counter()
    agreement = problem.agreement
    terms = agreement.agreement
    seed = terms.seed if options.seed is None else options.seed
    workers = options.workers or os.cpu_count() or 1
    seeds = options.streams(problem)
    played = (_play_one_answer if agreement.one_answer else _play)(problem, scales, options, seeds, workers)
    kept, owner_of = played.kept, played.participant

    answered = np.zeros(agreement.n_owners, dtype=int)
    for j, group in enumerate(played.members):
        answered[list(group)] = int((owner_of == j).sum(axis=0).max(initial=0))
    return Simulation(
        rule=terms.rule,
        horizon=terms.horizon,
        seed=seed,
        dataset=agreement.data.dataset or "given" if problem.source != "given" else "given",
        source=problem.source,
        description=problem.description,
        relative_fitness=RelativeFitness(played.recorded, _psi(problem, kept, workers).T),
        theta=kept[-1],
        owners=tuple(
            OwnerOutcome(
                o.name,
                o.records,
                o.epsilon,
                int(m),
                float(b),
                _alone(problem, i) if options.alone and not problem.stand_in else None,
                on_own_records(problem, i, kept[-1], seed) if options.own_records and not problem.stand_in else None,
            )
            for i, (o, m, b) in enumerate(zip(agreement.owner, answered, scales, strict=True))
        ),
        bound_enforced=not agreement.model.gradient_bound_assumed,
        clipped=played.clipped,
        schedule=tuple(zip(played.first.time.tolist(), played.first.owner.tolist(), strict=True)),
        held_out=_held_out(problem, kept[-1]),
        seconds=time.perf_counter() - begun,
    )


@dataclass(frozen=True, eq=False)
class _Played:
    """Outcome of a batch of runs."""

    recorded: Any
    kept: Float[Array, "recorded runs p"]
    participant: Any
    """Index of the participant that answered, by query and run."""
    members: tuple[tuple[int, ...], ...]
    first: Events
    """Events of the first run."""
    clipped: float


def _play(problem: Problem, scales: Array, options: Options, seeds: Sequence[Any], workers: int) -> _Played:
    agreement, runs, p = problem.agreement, options.runs, problem.n_parameters
    participants = _Participants.of(agreement, scales)
    # Owners with Poisson clocks answer in proportion to their rates.
    rule = agreed_rule(
        agreement,
        participants.agreed,
        p,
        shares_by_rate=agreement.agreement.schedule == "poisson",
        shares=None if options.schedule is None else shares_of(options.schedule, len(participants.agreed.members)),
    )
    bound = np.inf if agreement.model.gradient_bound_assumed else agreement.gradient_bound
    mechanism = agreement.mechanism
    gradients = batched_gradients(
        problem.loss, participants.records(problem), bound, workers, mechanism.order(agreement)
    )

    events = [_events(agreement, participants, options.schedule, np.random.default_rng(s[0])) for s in seeds]
    queries = min(len(e) for e in events)
    owner_of = np.stack([e.owner[:queries] for e in events], axis=1)
    members = participants.noise.shape[1]
    drawn = SIMULATED[mechanism.law(agreement)]
    draw: NoiseSource = options.noise or drawn([s[1] for s in seeds], (members, p), queries)

    first = 1 if agreement.synchronous else 0
    recorded = _recorded(options.record_at, first, first + queries)
    slot = {int(k): j for j, k in enumerate(recorded)}
    kept = np.empty((len(recorded), runs, p))
    state = rule.start(np.tile(problem.start, (runs, 1)) if options.starts is None else options.starts)
    if first in slot:
        kept[slot[first]] = rule.model(state)
    for k in range(queries):
        participant = owner_of[k]
        answer = gradients(participant, rule.query(state, participant))
        draws = draw(k)
        scale = participants.noise[participant]
        answer = answer + (scale * draws[:, 0] if members == 1 else (scale[:, None, :] @ draws)[:, 0])
        state = rule.step(state, participant, answer)
        if k + 1 + first in slot:
            kept[slot[k + 1 + first]] = rule.model(state)
        if options.progress is not None:
            options.progress(k + 1, queries)
    clipped = gradients.clipped / max(gradients.asked, 1.0)
    return _Played(recorded, kept, owner_of, participants.agreed.members, events[0], clipped)


def _play_one_answer(problem: Problem, scales: Array, options: Options, seeds: Sequence[Any], workers: int) -> _Played:
    """Every owner answers once, in a random order; there is a model after any number of answers."""
    if options.noise is not None or options.starts is not None or options.schedule is not None:
        raise UsageError("simulate: noise, starts and schedule replace those of many answers; this mechanism has one")
    N, runs = problem.agreement.n_owners, options.runs
    answers = one_answers(problem, [s[1] for s in seeds], scales)
    given = [answers(i) for i in range(N)] if options.given is None else options.given
    owner_of = np.stack([np.random.default_rng(s[0]).permutation(N) for s in seeds], axis=1)
    participants = Participants.of(problem.agreement)
    rule = agreed_rule(problem.agreement, participants, problem.n_parameters, feature_bound=problem.feature_bound)
    recorded = _recorded(options.record_at, 0, N)
    slot = {int(k): j for j, k in enumerate(recorded)}
    kept = np.empty((len(recorded), runs, problem.n_parameters))
    state = rule.start(np.tile(problem.start, (runs, 1)))
    if 0 in slot:
        kept[slot[0]] = rule.model(state)
    for k, participant in enumerate(owner_of):
        state = rule.step(state, participant, np.stack([given[i][r] for r, i in enumerate(participant)]))
        if k + 1 in slot:
            kept[slot[k + 1]] = rule.model(state)
        if options.progress is not None:
            options.progress(k + 1, N)
    first = Events(owner_of[:, 0], np.arange(1.0, N + 1) / N)
    return _Played(recorded, kept, owner_of, participants.members, first, 0.0)


def _events(
    agreement: Agreement, participants: _Participants, schedule: Schedule | None, rng: np.random.Generator
) -> Events:
    if agreement.synchronous:
        return Events(np.zeros(agreement.queries, dtype=np.intp), np.arange(1.0, agreement.queries + 1))
    if schedule is None:
        match agreement.agreement.schedule:
            case "poisson":
                schedule = PoissonClocks(participants.agreed.rates)
            case "random-order":
                schedule = RandomOrder(agreement.answers)
            case "rounds":
                schedule = Rounds()
            case _:
                schedule = Uniform()
    return run_events(schedule, rng, len(participants.agreed.members), agreement.agreement.horizon, agreement.answers)


def _recorded(record_at: Sequence[int] | None, first: int, last: int) -> Any:
    if record_at is None:
        return log_spaced(first, last)
    return np.array(sorted({int(k) for k in record_at if first <= k <= last} | {last}))


def _psi(problem: Problem, theta: Float[Array, "recorded runs p"], workers: int) -> Float[Array, "recorded runs"]:
    flat = theta.reshape(-1, theta.shape[-1])
    if problem.fitness.quadratic is not None:
        values = problem.fitness.quadratic.value(flat)
    else:
        records = problem.fitness.records
        one_pass = Pass(problem.loss, records, workers)
        values = np.concatenate(
            [one_pass.values(part) for part in np.array_split(flat, max(1, len(flat) // 100))]
        ) / records.weight.sum() + problem.regularizer.value(flat)
    psi: Array = relative_fitness(values, problem.optimum).reshape(theta.shape[:-1])
    return psi


def _alone(problem: Problem, i: int) -> float | None:
    """ψ of owner i's own model; None where its records alone have no finite optimum."""
    try:
        own = problem.fitness_of(problem.owners[i]).minimum(problem.optimum.theta)
    except NotCertified:
        return None
    return float(relative_fitness(problem.fitness.value(own.theta), problem.optimum))


def _held_out(problem: Problem, theta: Float[Array, "runs p"]) -> Float[Array, " runs"] | None:
    """f on held-out records, relative to the same θ* that ψ is relative to."""
    if problem.held_out is None:
        return None
    fitness = problem.fitness_of(problem.held_out)
    relative: Array = fitness.value(theta) / float(fitness.value(problem.optimum.theta)) - 1.0
    return relative
