"""Runs in which every owner answers once, at the agreed start, with simulated noise.

Owners compute with the code of a deployment (`copriv.mechanisms`): an answer without noise is computed once per owner, and
noise is drawn and added for each run.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from copriv.mechanisms import OneAnswer
from copriv.mechanisms.one_answer import Common
from copriv.privacy.simulated_noise import draws
from copriv.problem import Problem
from copriv.types import Array

Answers = Callable[[int], Float[Array, "runs answer"]]
"""Returns the private answers of an owner, one per run."""


def common_of(problem: Problem) -> Common:
    """The parts of a problem that a mechanism uses besides records."""
    p, B, P = problem.n_parameters, problem.feature_bound, problem.preconditioner
    return Common(problem.loss, p, B, P, problem.regularizer, problem.feasible_set)


def one_answers(problem: Problem, streams: Sequence[np.random.SeedSequence], scales: Array) -> Answers:
    """Each owner's answers. Run r's noise depends on `streams[r]` and the owner alone."""
    agreement, mechanism = problem.agreement, problem.agreement.mechanism
    assert isinstance(mechanism, OneAnswer)
    children = [stream.spawn(agreement.n_owners) for stream in streams]

    def answers(i: int) -> Array:
        owner = agreement.owner[i]
        draft = mechanism.draft(agreement, owner, problem.owners[i], common_of(problem))
        # "own learners" change an owner's noise, all of it alike.
        factor = float(scales[i]) / mechanism.scale(agreement, owner, problem.feature_bound)
        drawn = []
        for rng in (np.random.default_rng(owners[i]) for owners in children):
            noise = [factor * made.scale * draws(rng, made.law, made.scale.shape) for made in draft.noises]
            drawn.append(draft.answer(*noise))
        return np.stack(drawn)

    return answers
