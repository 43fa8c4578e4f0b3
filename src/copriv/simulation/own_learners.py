"""Every owner as its own learner (S, §V): no central model, and no noise on the learner's own part.

In the paper, N learners query every owner, so that a budget ε is divided among the N − 1 others, or spent by each of them.
Where owners answer once, at a public start, neither is needed, as a private answer may be reused without limit
(post-processing). Each owner answers once and spends its whole ε, all learners get that answer, and learner j replaces its
own private answer by the exact one. The variance of the noise in its model's input is then

    Σ_{i≠j} w_i²·b_i²,        b_i the scale of the noise at the whole ε_i,

smaller than the common model's by its own term, and smaller by (N − 1)² than with budgets that are split. The model of learner
j contains j's exact answer and must stay with j.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.errors import UsageError
from copriv.mechanisms import OneAnswer
from copriv.problem import Problem
from copriv.simulation.engine import problem_of, run_problem
from copriv.simulation.result import Simulation
from copriv.simulation.runs import Options, one_answers


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
