"""Evaluate the papers' bounds for an agreement; the theorems are with their rules (`copriv.rules`)."""

import numpy as np

from copriv.agreement.participants import Participants
from copriv.problem import Problem
from copriv.rules import named
from copriv.rules.bounds import Bound, Setting


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
            *([] if terms.robust is None else [(False, "answers averaged by records")]),
            *([] if terms.graph is None else [(False, "one learner that all owners answer")]),
        ),
    )
