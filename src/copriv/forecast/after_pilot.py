"""`pilot`: the forecast after a pilot, a first private answer of every owner that costs a small part of its budget.

What the answers tell is in `copriv.forecast.pilot_answers`. Worlds are drawn from it, and the run is planned and forecast in
them as any other.

Only the pilot's noisy answers are read here: exact numbers of private records are inside the simulated owners alone. But their
noise is simulated, from a seed, so that a forecast made of them is not private, and says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.forecast.assessment import RUNS
from copriv.forecast.forecaster import forecast_of
from copriv.forecast.pilot_answers import pilot_terms, told_by, weights_of_seen
from copriv.forecast.result import Forecast
from copriv.mechanisms.lengths import Measured
from copriv.model.fitness import one_thread
from copriv.plan import leaves_open, plan
from copriv.populations.declared_sample import DeclaredSample, sample_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.simulation.runs import one_answers, one_sum
from copriv.types import Array


@one_thread()
def pilot(
    agreement: Agreement | Problem | str | Path | Mapping[str, Any],
    data: Any = None,
    *,
    public: Any = None,
    seed: int = 0,
    runs: int = RUNS,
    strata: Any = None,
) -> Forecast:
    """Forecast an agreement after a simulated pilot (`agreement.pilot`), which reads private records.

    agreement, data, public: as `copriv.simulate` takes them; the agreement names the pilot's share of each ε.
    seed: of the pilot's noise and of the forecast. runs, strata: as in `copriv.forecast`.

    Rule, mechanism and number of answers of the run are planned before the pilot, on public rows alone; step, bounds, start and
    preconditioner, where the agreement leaves them open, after it. `recommended.agreement` is the run after the pilot.

    Guarantee: none, since the noise is simulated, from `seed`: `private` is false, and the numbers and the start of the
    recommended terms are not for release outside those who may see the records. Of the owners' answers to a pilot in earnest:
    that of docs/proofs/pilot.md.
    Raises AgreementError without a pilot, DataError without a public sample.

    >>> after = copriv.pilot(agreement.replace(agreement={"pilot": 0.25}), data, public=public, runs=32)
    >>> after.kind, after.recommended.agreement.owner[0].epsilon
    ('after the pilot', 0.75)
    """
    problem = agreement
    if not isinstance(problem, Problem):
        terms = Agreement.given(problem)
        problem = Problem.load(terms) if data is None else Problem.of(terms, data, public)
    found = forecast_of(after_pilot(before_pilot(problem, seed, strata), problem, seed), "after the pilot", runs, seed)
    agreed, recommended = (replace(one, private=False) for one in (found.agreed, found.recommended))
    return replace(found, agreed=agreed, recommended=recommended)


def before_pilot(problem: Problem, seed: int = 0, strata: Any = None) -> PublicSample:
    """The public sample of the run after the pilot, whose rule, mechanism and number of answers are planned before it.

    Without public rows it is what the declared columns say. Raises AgreementError without a pilot.
    """
    terms = problem.terms
    if not terms.has_pilot:
        raise AgreementError('agreement.pilot: there is none; give it a share of every epsilon, such as 0.1, or "auto"')
    run = terms.phases[-1]
    public = problem.on_public()
    if strata is not None:
        public = Problem.forecasting(terms, problem.unbounded_public, problem.loss, strata)
    elif terms.data.strata is not None:
        public = Problem.load_public(terms)
    sample = sample_of(public.under(run), terms.pilot_share)
    if not leaves_open(run):
        return sample
    choice = plan(public.under(run), seed=seed, sample=sample, one_answer=True).choice
    then = public.under(settled(run, choice.agreement))
    return replace(sample, problem=then, planned=choice.relative_fitness, _made={})


def settled(run: Agreement, planned: Agreement) -> Agreement:
    """The run with the planned rule, mechanism and number of answers; its numbers stay as open as they were."""
    chosen, document = planned.to_dict(), run.to_dict()
    for key in ("rule", "mechanism", "answers", "horizon", "window", "schedule", "iterate", "group_size"):
        if key in chosen["agreement"]:
            document["agreement"][key] = chosen["agreement"][key]
    if planned.one_answer:
        document["agreement"]["rule"] = "auto"  # the mechanism has its own
    document["owner"] = chosen["owner"]
    return Agreement.of(document)


def after_pilot(before: PublicSample, problem: Problem, seed: int = 0) -> PublicSample:
    """The public sample with what a pilot tells that is simulated on the problem's records. before: of `before_pilot`."""
    asked = pilot_terms(before, problem.terms.phases[0])
    streams = [np.random.SeedSequence(seed, spawn_key=(28,))]
    return told(before, asked, pilots(problem.under(asked), streams))


def pilots(problem: Problem, streams: Sequence[np.random.SeedSequence]) -> Float[Array, "seen answer"]:
    """Simulate the answers that a learner sees in a pilot: of each owner or, where it sees sums only, their weighted mean."""
    if problem.terms.summed:
        return one_sum(problem, streams)
    return np.concatenate(one_answers(problem, streams, problem.terms.noise_scales()))


def told(
    before: PublicSample, asked: Agreement, answers: Float[Array, "seen answer"], given: Sequence[str] | None = None
) -> PublicSample:
    """The public sample with what is seen of a pilot (`pilot_terms`), and the run begun where that points.

    given: the owners whose answers a sum is of; None: all.
    """
    w = asked.weights * [given is None or name in given for name in asked.owner_names]
    w /= w.sum()
    if isinstance(before, DeclaredSample):
        noise, mean = float(np.sqrt(np.sum(np.square(w * asked.noise_scales())))), weights_of_seen(asked, w) @ answers
        return replace(before, measured=Measured.of(mean, noise, asked.model.intercept), _made={})
    sample = replace(before, pilot=told_by(before, asked, answers, w), _made={})
    run = before.problem.terms
    if run.agreement.start is None and leaves_open(run):
        start = tuple(sample.problem.feasible_set.project(sample.centre).tolist())
        sample = replace(sample, problem=sample.problem.under(run.replace(agreement={"start": start})))
    return sample
