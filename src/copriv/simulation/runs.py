"""The loop of a run, for all runs of a batch together: schedule, query, clipped mean gradient, noise, rule.

Owners that answer once compute with the code of a deployment (`copriv.mechanisms`): an answer without noise is computed
once per owner, and noise is drawn and added for each run.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants, agreed_rule
from copriv.errors import UsageError
from copriv.mechanisms import OneAnswer
from copriv.model.records import Records
from copriv.privacy.simulated_noise import SimulatedNoise, draws
from copriv.problem import Problem
from copriv.rules import Aggregation
from copriv.rules.graph import OnGraph
from copriv.rules.robust import RobustAggregation
from copriv.schedules import (
    Broadcast,
    Events,
    PoissonClocks,
    RandomOrder,
    Request,
    Rounds,
    Schedule,
    Uniform,
    run_events,
    shares_of,
)
from copriv.simulation.gradients import batched_gradients
from copriv.types import Array
from copriv.validation import count

NoiseSource = Callable[[int], Float[Array, "runs members p"]]
"""Returns the draws of scale 1 for iteration k = 0, 1, …: one vector for each owner that answers in it."""
Lies = Callable[[int, Float[Array, "runs p"], Float[Array, "runs owners p"]], Float[Array, "runs owners p"]]
"""Returns what all owners answer in round k = 0, 1, … at these θ, from what they would answer as agreed."""
Answer = Callable[[int, Int[np.ndarray, " runs"], Float[Array, "runs p"]], Float[Array, "runs answer"]]
"""Returns the private answers to query k, of these participants, at these θ."""


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
    own_records: bool | None = False
    lies: Lies | None = None
    """Function that replaces owners' private answers, under `agreement.robust`."""
    given: Sequence[Float[Array, "runs answer"]] | None = None
    """Answers to use, one per owner and run, where each owner answers once; drawn when None."""

    def __post_init__(self) -> None:
        count("runs", self.runs)
        if self.seed is not None:
            count("seed", self.seed, least=0)
        if self.workers is not None:
            count("workers", self.workers)

    def seed_of(self, agreement: Agreement) -> int:
        """The seed, which is the agreement's where none is given."""
        if self.seed is None:
            return agreement.agreement.seed
        return self.seed

    def streams(self, agreement: Agreement) -> list[Any]:
        """Seed sequences of each run: of its schedule and of its noise."""
        seed = self.seed_of(agreement)
        return [np.random.SeedSequence(seed, spawn_key=(self.first_run + r,)).spawn(2) for r in range(self.runs)]

    @property
    def threads(self) -> int:
        """Threads for passes over records."""
        return self.workers or os.cpu_count() or 1


@dataclass(frozen=True, eq=False)
class Played:
    """Outcome of a batch of runs."""

    recorded: Int[np.ndarray, " recorded"]
    kept: Float[Array, "recorded runs p"] | Float[Array, "recorded runs owners p"]
    """Models after the recorded iterations: those of all owners on a graph, else the learner's."""
    participant: Int[np.ndarray, "queries runs"]
    """Index of the participant that answered."""
    members: tuple[tuple[int, ...], ...]
    first: Events
    """Events of the first run."""
    durations: Float[Array, " runs"]
    """Time of each run's last event."""
    clipped: float


def play(
    worlds: Sequence[Problem], scales: Float[Array, " owners"], options: Options, streams: Sequence[Any]
) -> Played:
    """Run a batch with these noise scales, the first of equally many runs in the first world.

    worlds: problems of the same terms. streams: `Options.streams`.
    """
    problem = worlds[0]
    agreement, participants = problem.agreement, Participants.of(problem.agreement)
    rule = agreed_rule(
        agreement,
        participants,
        problem.n_parameters,
        shares_by_rate=agreement.agreement.by_clocks,
        shares=None if options.schedule is None else shares_of(options.schedule, len(participants.members)),
        feature_bound=problem.feature_bound,
    )
    turns = {True: _one_answer_each, False: _many_answers}[agreement.one_answer]
    participant, events, durations, answer, share_clipped = turns(worlds, participants, scales, options, streams)
    first, queries = int(agreement.synchronous and not agreement.one_answer), len(participant)
    last = first + queries
    if options.record_at is not None:
        recorded = np.array(sorted({int(k) for k in options.record_at if first <= k <= last} | {last}))
    elif queries < 60:
        recorded = np.arange(first, last + 1)
    else:  # about 60, evenly spaced on a log axis
        inner = np.round(np.geomspace(max(first, 1), last, 60)).astype(int)
        recorded = np.unique(np.concatenate([[first], inner, [last]]))
    wanted, kept = set(recorded.tolist()), []
    model = rule.models if isinstance(rule, OnGraph) else rule.model
    state = rule.start(np.tile(problem.start, (options.runs, 1)) if options.starts is None else options.starts)
    if first in wanted:
        kept.append(np.array(model(state)))
    for k, who in enumerate(participant):
        state = rule.step(state, who, answer(k, who, rule.query(state, who)))
        if k + 1 + first in wanted:
            kept.append(np.array(model(state)))
        if options.progress is not None:
            options.progress(k + 1, queries)
    return Played(recorded, np.stack(kept), participant, participants.members, events, durations, share_clipped())


Turns = tuple[Int[np.ndarray, "queries runs"], Events, Float[Array, " runs"], Answer, Callable[[], float]]
"""Participant of each query of each run, events of the first run, durations, private answers, and share clipped."""


def _many_answers(
    worlds: Sequence[Problem], participants: Participants, scales: Array, options: Options, streams: Sequence[Any]
) -> Turns:
    problem, agreement, mechanism = worlds[0], worlds[0].agreement, worlds[0].agreement.mechanism
    bound = agreement.gradient_bound
    if agreement.model.gradient_bound_assumed:
        bound = np.inf
    robust, on_graph = agreement.agreement.robust is not None, agreement.agreement.graph is not None
    if options.lies is not None and not robust:
        raise UsageError("simulate: lies are simulated where the agreement is robust against some (agreement.robust)")
    # A robust mean and a graph need the answers of single owners, not only their sum.
    held = [one.owners if robust or on_graph else _records(one, participants) for one in worlds]
    first_held = np.repeat(len(held[0]) * np.arange(len(worlds)), options.runs // len(worlds))

    def asked(who: Int[np.ndarray, " answers"], theta: Float[Array, "answers p"]) -> Float[Array, "answers p"]:
        """Answers without noise, equally many of each run."""
        return gradients(np.repeat(first_held, len(who) // options.runs) + who, theta)

    aggregations = [agreement.aggregation(group) for group in participants.members]
    first = np.unique([one.shapes[0] for one in aggregations])  # sums of unlike groups have noise of unlike shapes
    shapes = np.concatenate([first, np.ones(max(len(one.shapes) for one in aggregations) - 1)])
    noise, alone = np.zeros((len(aggregations), len(shapes))), scales
    if agreement.summed:
        alone = agreement.scales_alone(problem.feature_bound)
    for j, (group, one) in enumerate(zip(participants.members, aggregations, strict=True)):
        noise[j, np.searchsorted(first, one.shapes[0])], *own = one.noise(alone[list(group)])
        noise[j, len(first) : len(first) + len(own)] = own
    events = [events_of(agreement, participants, options.schedule, np.random.default_rng(s[0])) for s in streams]
    queries, members = min(map(len, events)), noise.shape[1]
    models = queries * options.runs / (len(worlds) * (1 if robust or on_graph else len(held[0])))
    gradients = batched_gradients(
        problem.loss, sum(held, ()), bound, options.threads, mechanism.order(agreement), models
    )
    who, size = np.stack([e.owner[:queries] for e in events], axis=1), (members, problem.n_parameters)
    drawn = SimulatedNoise(mechanism.law(agreement), [s[1] for s in streams], size, queries, shapes)
    draw: NoiseSource = options.noise or drawn

    if robust:
        together = RobustAggregation(agreement.agreement, mechanism.law(agreement), scales)

        def answer(k: int, who: Int[np.ndarray, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
            owners = range(agreement.n_owners)
            answers = np.stack([asked(np.full(len(theta), i), theta) for i in owners], axis=1)
            answers = answers + scales[:, None] * draw(k)
            return together.vector(answers if options.lies is None else options.lies(k, theta, answers))
    elif on_graph:

        def answer(k: int, who: Int[np.ndarray, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
            noise, owners = scales[:, None] * draw(k), np.tile(np.arange(len(scales)), len(theta))
            return np.asarray(
                asked(owners, theta.reshape(len(owners), -1)).reshape(theta.shape) + noise.reshape(theta.shape)
            )
    else:
        ahead = _Ahead(asked, who, agreement.agreement.window)

        def answer(k: int, who: Int[np.ndarray, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
            scale, drawn = noise[who], draw(k)
            added = scale * drawn[:, 0] if members == 1 else (scale[:, None, :] @ drawn)[:, 0]
            return np.asarray(ahead(k, theta) + added)

    durations = np.array([e.time[queries - 1] if queries else 0.0 for e in events])
    return who, events[0], durations, answer, lambda: gradients.clipped / max(gradients.asked, 1.0)


class _Ahead:
    """Answers without noise, found together for queries at the same θ: those of a window, during which θ does not move.

    They are kept until θ is another.
    """

    CELLS = 1 << 20
    """Most numbers that are found at once: 8 MiB."""

    def __init__(self, asked: Callable[[Any, Any], Array], who: Int[np.ndarray, "queries runs"], window: int) -> None:
        self._asked, self._who, self._window = asked, who, window
        self._first, self._theta, self._answers = 0, np.empty((0, 0)), np.empty((0, 0, 0))

    def __call__(self, k: int, theta: Float[Array, "runs p"]) -> Float[Array, "runs p"]:
        """Answers of all runs to query k."""
        at = k - self._first
        if not (at < self._answers.shape[1] and np.array_equal(theta, self._theta)):
            number = min(self._window - k % self._window, max(self.CELLS // theta.size, 1))
            who = self._who[k : k + number]
            answers = self._asked(who.T.ravel(), np.repeat(theta, len(who), axis=0))
            self._first, self._theta, at = k, theta.copy(), 0
            self._answers = answers.reshape(len(theta), len(who), -1)
        return self._answers[:, at]


def _records(problem: Problem, participants: Participants) -> tuple[Records, ...]:
    """Each participant's records; a group's answer Σ (w_i/w_G) Q_i is the mean over its rows under these weights."""
    if problem.stand_in and problem.pooled is None:
        return (problem.owners[0],) * len(participants.members)
    together = []
    for group in participants.members:
        parts = [problem.owners[i] for i in group]
        if len(parts) > 1:
            n = np.array([part.total for part in parts])
            share = Aggregation(problem.agreement.weights[list(group)]).shares
            parts = [Records.merged(parts, share / n * n.sum())]
        together.append(parts[0])
    return tuple(together)


def events_of(
    agreement: Agreement, participants: Participants, schedule: Schedule | None, rng: np.random.Generator
) -> Events:
    """Draw the events of one run. schedule: in place of the agreed one."""
    if agreement.synchronous:
        return Events(np.zeros(agreement.queries, dtype=np.intp), np.arange(1.0, agreement.queries + 1))
    terms, rates, m = agreement.agreement, participants.rates, agreement.answers
    if schedule is None:
        match terms.schedule:
            case "broadcast" if terms.interval is not None:
                schedule = Broadcast(terms.interval, rates, m)
            case "request" if terms.service is not None:
                schedule = Request(terms.service, rates, m)
            case "poisson" | "broadcast" | "request":
                schedule = PoissonClocks(rates)
            case "random-order":
                schedule = RandomOrder(m)
            case "rounds":
                schedule = Rounds()
            case "uniform":
                schedule = Uniform()
    return run_events(schedule, rng, len(participants.members), terms.horizon, m)


def _one_answer_each(
    worlds: Sequence[Problem], participants: Participants, scales: Array, options: Options, streams: Sequence[Any]
) -> Turns:
    """Every owner answers once, in a random order; there is a model after any number of answers, or of the sum of all."""
    if options.noise is not None or options.starts is not None or options.schedule is not None:
        raise UsageError("simulate: noise, starts and schedule replace those of many answers; this mechanism has one")
    N, noise = len(participants.members), [s[1] for s in streams]
    given, each = options.given, options.runs // len(worlds)
    if given is None:
        parts = [noise[i * each : (i + 1) * each] for i in range(len(worlds))]
        summed = worlds[0].agreement.summed
        drawn = [
            [one_sum(world, part)] if summed else one_answers(world, part, scales)
            for world, part in zip(worlds, parts, strict=True)
        ]
        given = [np.concatenate(answers) for answers in zip(*drawn, strict=True)]

    def answer(k: int, who: Int[np.ndarray, " runs"], theta: Float[Array, "runs p"]) -> Float[Array, "runs answer"]:
        return np.stack([given[i][r] for r, i in enumerate(who)])

    who = np.stack([np.random.default_rng(s[0]).permutation(N) for s in streams], axis=1)
    return who, Events(who[:, 0], np.arange(1.0, N + 1) / N), np.ones(len(streams)), answer, lambda: 0.0


def one_answers(
    problem: Problem, streams: Sequence[np.random.SeedSequence], scales: Float[Array, " owners"]
) -> list[Float[Array, "runs answer"]]:
    """Each owner's private answers, one per run. Run r's noise depends on `streams[r]` and the owner alone."""
    agreement, mechanism = problem.agreement, problem.agreement.mechanism
    assert isinstance(mechanism, OneAnswer)
    children = [stream.spawn(agreement.n_owners) for stream in streams]
    answers = []
    for i, owner in enumerate(agreement.owner):
        draft = mechanism.draft(agreement, owner, problem.owners[i], problem.common)
        # "own learners" change an owner's noise, all of it alike.
        factor = float(scales[i]) / mechanism.scale(agreement, owner, problem.feature_bound)
        drawn = [
            [factor * made.scale * draws(rng, made.law, made.scale.shape) for made in draft.noises]
            for rng in (np.random.default_rng(owners[i]) for owners in children)
        ]
        answers.append(draft.answer(*map(np.stack, zip(*drawn, strict=True))))
    return answers


def one_sum(problem: Problem, streams: Sequence[np.random.SeedSequence]) -> Float[Array, "runs answer"]:
    """The weighted sum of all owners' answers with the noise that they share, one per run."""
    agreement, mechanism = problem.agreement, problem.agreement.mechanism
    assert isinstance(mechanism, OneAnswer)
    drafts = [
        mechanism.draft(agreement, owner, records, problem.common)
        for owner, records in zip(agreement.owner, problem.owners, strict=True)
    ]
    alone, together = agreement.scales_alone(problem.feature_bound), agreement.aggregation(range(agreement.n_owners))
    (noise,) = drafts[0].noises
    unit, scales = noise.scale / alone[0], together.noise(alone)
    size = (len(scales), len(unit))
    drawn = [scales @ draws(np.random.default_rng(one), noise.law, size, together.shapes) for one in streams]
    exact = np.concatenate([draft.answer(np.zeros((1, len(unit)))) for draft in drafts])
    return np.asarray(together.vector(exact) + unit * np.array(drawn))
