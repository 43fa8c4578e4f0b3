"""`pilot`: the forecast after a pilot, a first private answer of every owner that costs a small part of its budget.

Let z_i be owner i's answer: the mean at the public model θ₀ of W∇ℓ, clipped to Ξ in L1, with Laplace noise of known scale b_i,
and W the root of the public metric P. In the coordinates of `PilotAnswers`, and where records are clipped as public rows are,

    VᵀW⁻¹(z_i − z⁰)/a  =  −d_i + noise,      of variance  2b_i²s/a² + φ/n_i,

with z⁰ the clipped mean of the public rows, a the share of the curvature that clipping leaves, s the diagonal of VᵀP⁻¹V and
φ = 2κ/p the variance of one record's gradient. Owners' records are taken to have the public curvature.

A mean of residuals is what owners differ in most, and one number among p: W is the root of P + (p − 2)eeᵀ, with e the
common shift of all predictions, at unit cost. Its noise is then about √(p − 1) times smaller, that of the others 1/√(p − 1)
larger.

Records' lengths are counted in multiples of the longest public row: records beyond twice that are evidence of the outliers
that plans are insured against (`copriv.plan.outliers`).

The weighted mean tells d, that of the common model: its prior is the sampling error of the public model, C/n₀, and noise
averages out in its likelihood. What is left of each owner is evidence of its heterogeneity
(`copriv.populations.owner_posterior`). Worlds are drawn from both, and the run is planned and forecast in them as any other.

Only the pilot's noisy answers are read here: exact numbers of private records are inside the simulated owners alone. But their
noise is simulated, from a seed, so that a forecast made of them is not private, and says so.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.forecast.assessment import RUNS
from copriv.forecast.forecaster import forecast_of
from copriv.forecast.result import Forecast
from copriv.mechanisms.pilot import EDGES, PilotNumbers, root_of
from copriv.model.fitness import one_thread
from copriv.plan import leaves_open, plan
from copriv.populations.owner_posterior import common_shift
from copriv.populations.public_sample import Lengths, PilotAnswers, PublicSample
from copriv.privacy.clipping import clip_rows, row_norms
from copriv.problem import Problem
from copriv.simulation.runs import one_answers
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

    Raises AgreementError without a pilot.
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
    sample = PublicSample(public.under(run))
    if not leaves_open(run):
        return sample
    choice = plan(public.under(run), seed=seed, sample=sample, one_answer=True).choice
    return PublicSample(public.under(_settled(run, choice.agreement)), planned=choice.relative_fitness)


def _settled(run: Agreement, planned: Agreement) -> Agreement:
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
    answers = np.concatenate(one_answers(problem.under(asked), streams, asked.noise_scales()))
    sample = replace(before, pilot=told_by(before, asked, answers), _made={})
    run = before.problem.terms
    if run.agreement.start is None and leaves_open(run):
        start = tuple(sample.problem.feasible_set.project(sample.centre).tolist())
        sample = replace(sample, problem=sample.problem.under(run.replace(agreement={"start": start})))
    return sample


def pilot_terms(sample: PublicSample, agreement: Agreement) -> Agreement:
    """The pilot with a number for every term: at the public model, in the public metric, from public rows only."""
    problem, r = sample.problem, sample.records
    start = problem.feasible_set.project(sample.optimum.theta)
    a, U = np.linalg.eigh(sample.hessian)
    inverse = (U / np.maximum(a, 1e-6 * a[-1])) @ U.T
    shift, p = common_shift(r.features, sample.hessian), problem.n_parameters
    metric = 0.5 * (inverse + inverse.T) + max(p - 2, 0) * np.outer(shift, shift)
    lengths = row_norms(problem.loss.gradients(start, r.features, r.target) @ root_of(metric))
    sizes = np.abs(problem.unbounded[0].features).sum(axis=1)
    # A pilot clips half of the public gradients: `alone` is then within three times for more owners than if it clips 10 %.
    Ξ, B = (max(float(each), 1e-12) for each in (np.quantile(lengths, 0.5), sizes.max()))
    return agreement.replace(
        agreement={"start": start.tolist(), "preconditioner": metric.tolist()},
        model={"gradient_bound": Ξ},
        data={"feature_bound": B},
    )


def told_by(sample: PublicSample, agreed: Agreement, answers: Float[Array, "owners answer"]) -> PilotAnswers:
    """What the owners' answers to a pilot (`pilot_terms`) tell."""
    problem, r, p = sample.problem, sample.records, sample.problem.n_parameters
    numbers = PilotNumbers.agreed(agreed, p)
    start, Ξ, w, share = np.array(agreed.agreement.start), numbers.bound, agreed.weights, r.weight / r.total
    s, V = scipy.linalg.eigh(np.linalg.inv(numbers.root @ numbers.root), sample.hessian)
    to = np.linalg.solve(numbers.root, V)  # W⁻¹V

    def clipped(theta: Float[Array, " p"]) -> tuple[Array, Array]:
        rows = problem.loss.gradients(theta, r.features, r.target) @ numbers.root
        return rows @ to, clip_rows(rows, Ξ) @ to

    whole, cut = clipped(start)
    h = 0.1 * np.sqrt(2.0 * sample.optimum.value / p)
    a = np.array([share @ (clipped(start + h * e)[1] - clipped(start - h * e)[1])[:, j] for j, e in enumerate(V.T)])
    a = np.clip(a / (2.0 * h), 0.1, 1.0)
    pull = (numbers.parts(answers)[0] @ to - share @ cut) / a
    scale = agreed.noise_scales()
    own = 2.0 * np.square(scale)[:, None] * s / a**2
    # What the public rows do not tell of the clipped part, and an error of the curvature, are the same for all owners.
    rest = cut / a - whole
    mean = w @ pull
    public = share @ np.square(rest - share @ rest) / r.units + sample.wobble**2 * float(mean @ mean) / p
    prior = V.T @ sample.hessian @ sample.spread @ sample.hessian @ V / problem.unbounded[0].units
    told = 1.0 / (w**2 @ own + public)
    covariance = np.linalg.inv(np.linalg.inv(prior + 1e-12 * np.trace(prior) * np.eye(p)) + np.diag(told))
    root = np.asarray(np.linalg.cholesky(0.5 * (covariance + covariance.T)), dtype=np.float64)
    φ = 2.0 * sample.information / p
    noise = own * (1.0 - 2.0 * w)[:, None] + w**2 @ own + (φ / agreed.records)[:, None]
    counted = float(np.sum((w * scale * numbers.unit[p + len(EDGES) + 1] / numbers.unit[0]) ** 2))
    lengths = Lengths(numbers.feature_bound, w @ numbers.parts(answers)[2], 2.0 * counted)
    noise = np.asarray(np.maximum(noise, 1e-300))
    return PilotAnswers(start, V, -covariance @ (told * mean), root, pull - mean, noise, lengths)
