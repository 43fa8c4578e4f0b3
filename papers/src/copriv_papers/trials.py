"""Run trials, each an agreement that is simulated many times, in batches that any worker can take.

A batch is a fixed range of runs (`batches`), and run r depends on (seed, r) alone, so a trial's outcome depends neither on the
number of workers nor on the backend. The reference
(θ*, and each owner's own model) depends on the data only; it is solved once for all trials on the same data.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from copriv.agreement import Agreement
from copriv.data.source import Source
from copriv.data.specification import open_dataset
from copriv.forecast.after_pilot import after_pilot, before_pilot
from copriv.model.fitness import Optimum, relative_fitness
from copriv.model.records import Records
from copriv.plan import plan
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.simulation import Simulation, simulate
from copriv.types import Array
from copriv_papers.consortia import NOT_PRIVATE, Mechanism
from copriv_papers.published import OneNumberAnAnswer

BATCH = 50
"""Runs in a batch."""
RANKED = 10
"""The area under the precision–recall curve is the mean over this many runs at most."""


@dataclass(frozen=True)
class Trial:
    """An agreement and how to simulate it."""

    agreement: Agreement
    mechanism: Mechanism
    runs: int
    held_out: int
    record_at: tuple[int, ...] | None = ()
    """Iterations to record ψ at; None: about 60, evenly on a log axis; the last one always is."""
    alone: int = 0
    """How many owners' own models to fit, from the first."""
    seed: int = 0
    planned_on: int = 2000
    """A plan sees this many of the learner's public rows at most: its time grows with them."""
    gradients_only: bool = False
    """A plan weighs no mechanisms by which owners answer once, which are most of its time where the loss has a kink."""
    flipped: int = 0
    """So many owners, from the last, answer with the other sign; the agreement is robust against some."""

    @property
    def key(self) -> str:
        """A hash of all that the outcome depends on."""
        parts = [self.agreement.fingerprint, self.mechanism, self.runs, self.held_out, self.record_at, self.alone]
        seen: list[object] = [self.planned_on] if self.mechanism == "planned" else []
        seen += [False] if self.gradients_only else []
        seen += [f"{self.flipped} lie"] if self.flipped else []
        return sha256(json.dumps([*parts, self.seed, *seen]).encode()).hexdigest()[:20]

    @property
    def shared_by(self) -> str:
        """Trials of equal `shared_by` have one `Reference`."""
        plan = f"{self.agreement.fingerprint} {self.planned_on}" if self.mechanism == "planned" else ""
        plan += " gradients" if self.gradients_only else ""
        return f"{self.data} {self.alone} {plan}"

    @property
    def data(self) -> str:
        """The agreement without what records and fitness do not depend on, and how many rows are held out: as JSON."""
        terms, model = self.agreement.agreement, self.agreement.model
        kept = {k: getattr(model, k) for k in ("loss", "threshold", "regularization", "theta_max", "intercept")}
        document = {
            "agreement": {"rule": "S1", "horizon": 1, "step": 1.0, "seed": terms.seed},
            "model": {**kept, "gradient_bound": 1.0},
            # Records are dealt out before they are bounded, and θ* is of the records as they are.
            "data": self.agreement.data.model_dump(mode="json", exclude_none=True) | {"feature_bound": 0.0},
            "owner": [
                {k: v for k, v in owner.model_dump(exclude_none=True).items() if k != "epsilon"} | {"epsilon": 1.0}
                for owner in self.agreement.owner
            ],
        }
        return json.dumps([document, self.held_out], sort_keys=True)


@dataclass(frozen=True, eq=False)
class Reference:
    """Results that all trials on the same data share."""

    planned: Agreement | None
    """What the forecast chose in place of the trial's agreement, for the mechanism "planned"."""
    optimum: Optimum
    alone: tuple[float, ...]
    """ψ of the first owners' own non-private models."""
    alone_held_out: tuple[float, ...]
    """The same on records that no owner trained on; empty where none are held out."""
    alike: tuple[float, ...]
    """What theory says of both, from public rows alone, of owners that are alike: κ(1/n_i − 1/n)/f(θ*)."""
    public_only: float
    """ψ of the non-private model of the learner's public rows; NaN where no own models were asked for."""
    source: str
    description: str


@dataclass(frozen=True)
class Outcome:
    """Results of a trial, as plain numbers that JSON keeps unchanged."""

    k: list[int]
    p25: list[float]
    median: list[float]
    p75: list[float]
    mean: list[float]
    alone: list[float]
    alone_held_out: list[float]
    alike: list[float]
    public_only: float
    clipped: float
    """Share of the gradients that were clipped."""
    held_out: float
    """Mean ψ on records that no owner trained on, relative to θ* of the owners' records."""
    precision_recall: float | None
    """Area under the precision–recall curve on the same records, for classification."""
    planned: dict[str, Any] | None
    """The terms that the forecast chose, for the mechanism "planned"."""
    events: list[list[float]]
    """(time, owner) of the first run, where the trial is one run."""
    private: bool
    source: str
    description: str
    seconds: float
    noise_share: float | None = None
    """Share of the mean ψ at the end that is due to noise; None also where an earlier version kept the outcome."""
    duration: float | None = None
    """Mean time of a run by the owners' clocks; None where none are agreed."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def batches(runs: int) -> list[tuple[int, int]]:
    """(first run, how many) of each task."""
    return [(first, min(BATCH, runs - first)) for first in range(0, runs, BATCH)]


def reference(trial: Trial) -> Reference:
    """The plan, where there is one to make, θ* and the first `alone` owners' own models."""
    fitted = _fitted(trial.data, trial.alone)
    if trial.mechanism != "planned":
        return fitted
    problem = loaded(trial.data).under(trial.agreement)
    public, sample, one_answer = _seen(problem, trial.planned_on), None, False if trial.gradients_only else None
    if trial.agreement.has_pilot:
        sample = after_pilot(before_pilot(public, trial.seed), problem, trial.seed)
        public = sample.problem
    return replace(fitted, planned=plan(public, keep=False, one_answer=one_answer, sample=sample).agreement)


@lru_cache(maxsize=3)
def _fitted(data: str, alone: int) -> Reference:
    """What depends on the data only: plans for other budgets have it in common."""
    problem = loaded(data)
    optimum = problem.optimum
    own = list(problem.owners[:alone])
    if alone and problem.public is not None:
        own.append(problem.public)
    models = [problem.fitness_of(records).minimum().theta for records in own]
    ψ = [float(relative_fitness(problem.fitness.value(θ), optimum)) for θ in models]
    unseen: list[float] = []
    if problem.held_out is not None and models:
        f = problem.fitness_of(problem.held_out)
        best = float(f.value(optimum.theta))
        unseen = [float(f.value(θ)) / best - 1.0 for θ in models[:alone]]
    public_only = ψ[alone] if len(ψ) > alone else float("nan")
    return Reference(
        None,
        optimum,
        tuple(ψ[:alone]),
        tuple(unseen),
        _alike(problem, alone),
        public_only,
        problem.source,
        problem.description,
    )


def _seen(problem: Problem, rows: int) -> Problem:
    """The problem with the last `rows` of its public rows, without those of owners."""
    public = problem.unbounded_public
    if public is None or len(public) <= rows:
        return problem
    last = Records(public.features[-rows:], public.target[-rows:], public.weight[-rows:])
    return replace(problem, unbounded_public=last)


def _alike(problem: Problem, owners: int) -> tuple[float, ...]:
    """E ψ of the first owners' own models if all records are of one law, which the public rows tell."""
    if not owners or problem.unbounded_public is None or problem.loss.name != "squared":
        return ()
    sample, n = PublicSample.of(problem), problem.terms.records
    return tuple(sample.alone(float(one), float(n.sum())) for one in n[:owners])


def batch(trial: Trial, shared: Reference, first_run: int, runs: int) -> tuple[Simulation, Array]:
    """One task: these runs, and the area under the precision–recall curve of some of them."""
    base = loaded(trial.data)
    problem = base.under(shared.planned or trial.agreement)
    # Cached properties that depend on the data alone: made once, not once a trial.
    problem.__dict__.update(owners=base.owners, fitness=base.fitness)
    problem.__dict__["optimum"] = shared.optimum
    noise = None
    if trial.mechanism == "as published":
        members = trial.agreement.n_owners if trial.agreement.synchronous else 1
        noise = OneNumberAnAnswer(trial.seed, first_run, runs, members, problem.n_parameters)
    done = simulate(
        problem,
        runs=runs,
        seed=trial.seed,
        first_run=first_run,
        record_at=trial.record_at,
        noise=noise,
        workers=1,
        alone=False,
        lies=flipped(trial.flipped) if trial.flipped else None,
    )
    return done, _precision_recall(problem, done.theta[: max(RANKED - first_run, 0)])


def flipped(liars: int) -> Callable[[int, Array, Array], Array]:
    """Answers of which the last owners' have the other sign."""

    def lies(_k: int, _theta: Array, answers: Array) -> Array:
        return np.concatenate([answers[:, :-liars], -answers[:, -liars:]], axis=1)

    return lies


def outcome(trial: Trial, shared: Reference, parts: list[tuple[Simulation, Array]]) -> Outcome:
    """All batches of a trial, in order, made into one."""
    whole = parts[0][0].merge([part for part, _ in parts[1:]])
    areas = np.concatenate([area for _, area in parts])
    ψ = whole.relative_fitness
    return Outcome(
        k=ψ.k.tolist(),
        p25=ψ.quantile(0.25).tolist(),
        median=ψ.median.tolist(),
        p75=ψ.quantile(0.75).tolist(),
        mean=ψ.mean.tolist(),
        alone=list(shared.alone),
        alone_held_out=list(shared.alone_held_out),
        alike=list(shared.alike),
        public_only=shared.public_only,
        clipped=whole.clipped,
        held_out=float("nan") if whole.held_out is None else float(whole.held_out.mean()),
        precision_recall=float(areas.mean()) if len(areas) else None,
        planned=None if shared.planned is None else chosen_terms(shared.planned),
        events=[[float(t), int(i)] for t, i in whole.schedule] if trial.runs == 1 else [],
        private=trial.mechanism not in NOT_PRIVATE,
        source=shared.source,
        description=shared.description,
        seconds=whole.seconds,
        noise_share=whole.noise_share,
        duration=None if whole.durations is None else float(whole.durations.mean()),
    )


def chosen_terms(agreement: Agreement) -> dict[str, Any]:
    """What a plan chose, in the agreement's words, without vectors and matrices."""
    terms, model = agreement.agreement, agreement.model
    return {
        "rule": terms.rule,
        "answers": agreement.answers,
        "step": agreement.step,
        "gradient_bound": model.gradient_bound,
        "feature_bound": agreement.data.feature_bound,
        "start": "public" if terms.start and any(terms.start) else "zero",
        "preconditioned": terms.preconditioner is not None,
    }


@lru_cache(maxsize=3)
def loaded(data: str) -> Problem:
    """The records of trials with the same `data`; the last few are kept."""
    document, held_out = json.loads(data)
    agreement = Agreement.of(document)
    of, seed = agreement.data, agreement.agreement.seed
    # Only what is drawn from a seed is of so many rows.
    rows = of.public_count + held_out + int(agreement.records.sum()) if of.path is None else 0
    return Problem.load(agreement, held_out=held_out, opened=_source(of.named, of.path, seed, rows))


@lru_cache(maxsize=2)
def _source(dataset: str, path: str | None, seed: int, rows: int) -> Source:
    """The table of all trials on one data set, whoever holds which of its rows."""
    return open_dataset(dataset, path=path, seed=seed, rows=rows)


def _precision_recall(problem: Problem, theta: Array) -> Array:
    records = problem.held_out
    if records is None or problem.loss.name not in ("hinge", "logistic") or not len(theta):
        return np.empty(0)
    fraud = records.target > 0
    return np.array([average_precision_score(fraud, records.features @ one) for one in theta], dtype=np.float64)
