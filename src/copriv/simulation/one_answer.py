"""Runs in which every owner answers once, at the agreed start ("statistics", "objective"), with simulated noise.

What owners compute is the very code of a deployment (`copriv.privacy.statistics`, `copriv.privacy.objective`);
statistics are computed once an owner and noise is added run by run, models are solved for once an owner and run.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from copriv.agreement import OwnerTerms
from copriv.answering import answer_noise, feature_bound_of, perturbation
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.privacy.statistics import mean_moments
from copriv.problem import Problem
from copriv.records import Records
from copriv.types import Array

Answers = Callable[[int], Float[Array, "runs answer"]]
"""The private answers of one owner, one a run."""


def one_answers(problem: Problem, streams: Sequence[np.random.SeedSequence], scales: Array) -> Answers:
    """Each owner's answers. Run r's noise depends on `streams[r]` and the owner alone."""
    terms = problem.agreement.agreement
    made = _models if terms.mechanism == "objective" else _statistics
    children = [stream.spawn(problem.agreement.n_owners) for stream in streams]

    def answers(i: int) -> Array:
        generators = [np.random.default_rng(owners[i]) for owners in children]
        owner = problem.agreement.owner[i]
        return made(problem, owner, problem.owners[i], float(scales[i]), generators)

    return answers


def _statistics(
    problem: Problem, owner: OwnerTerms, records: Records, scale: float, generators: list[np.random.Generator]
) -> Array:
    agreement, p = problem.agreement, problem.n_parameters
    B = feature_bound_of(agreement, problem.feature_bound)
    noise = answer_noise(agreement, owner, p, B)
    noise = noise * (scale / noise[0])  # "own learners" change an owner's noise, all of it alike
    exact = clipped_mean_gradient(problem.loss, records, problem.start, agreement.gradient_bound)
    if agreement.agreement.moments_share > 0:
        exact = np.concatenate([exact, mean_moments(records, B, agreement.model.intercept)])
    return np.stack([exact + noise * rng.laplace(size=len(noise)) for rng in generators])


def _models(
    problem: Problem, owner: OwnerTerms, records: Records, scale: float, generators: list[np.random.Generator]
) -> Array:
    agreed = perturbation(problem.agreement, problem.n_parameters, problem.feature_bound, problem.loss)
    n, ε, p = owner.records, owner.epsilon / owner.overlap, problem.n_parameters
    solver, rest = agreed.tied(n, ε).prepared(records), agreed.remainder_scale(n, ε)
    centre = solver.minimum(np.zeros(p))
    models = []
    for rng in generators:
        tilt = scale * (rng.normal(size=p) if owner.delta > 0 else rng.laplace(size=p))
        models.append(solver.minimum(tilt, centre) + rest * rng.laplace(size=p))
    return np.array(models)
