"""The expected cost of a run, exactly and at a finite T, where the loss is squared and nothing is clipped.

Every update rule is then linear in its state, and the noise does not depend on the state, so that the mean μ_k and the
covariance Σ_k of θ_k obey a linear recursion and

    E f(θ_k) − f(θ*) = ½ (μ_k − θ*)ᵀ A (μ_k − θ*) + ½ tr(A Σ_k),     A = 2H + σI.

| rule                       | within reach                                                        |
| -------------------------- | ------------------------------------------------------------------- |
| S1, S2                     | any owners, in O(Tp)                                                |
| A1                         | any number of owners of up to 400 different weights                 |
| A2, and A1 and A2 with caps | a few kinds of owners, or a few owners with few answers each        |

What is within reach takes about 4 s at most; else InvalidInput is raised.
Source: algorithms "What can be computed exactly instead".
"""

import numpy as np
from jaxtyping import Float

from copriv.exact.asynchronous import in_turns
from copriv.exact.linear_system import Directions, Order, OwnerKinds
from copriv.model.objective import Quadratic
from copriv.rules.rule import InRounds, Recursion
from copriv.types import Array

__all__ = ["Order", "OwnerKinds", "expected_cost", "in_rounds", "in_turns"]


def expected_cost(
    recursion: Recursion,
    quadratic: Quadratic,
    owners: OwnerKinds,
    horizon: int,
    start: object,
    order: Order = "uniform",
) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*) after k updates, k = 0, 1, …, over the noise and over who talks. The unit is that of f.

    order: of an asynchronous run, see `Order`.
    Raises InvalidInput for terms that the rule cannot be run with, and for what is out of reach.
    """
    if isinstance(recursion, InRounds):
        return in_rounds(quadratic, owners, recursion, start)
    return in_turns(quadratic, owners, recursion, horizon, start, order)


def in_rounds(quadratic: Quadratic, owners: OwnerKinds, recursion: InRounds, start: object) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*) of any rule by which all owners answer in each round. One entry more than steps, the start first.

    In each eigenvector of A the state is z, or (z, z̄) where the answer is an average, and is driven by the learner's weighted
    sum of the owners' noise, whose variance V = Σ ω_i²·2b_i² is the same in every direction. Source: S, Algorithms 1 and 2.
    """
    d = Directions.of(quadratic, start)
    a, steps, average = d.curvature, recursion.steps, recursion.average
    V = 2.0 * float(owners.counts @ (owners.weights * owners.noise_scale) ** 2)
    # The state is z, or z and z̄; the last of it is what the fitness is of.
    states = 1 + (average is not None)
    μ = np.repeat(d.start[:, None], states, axis=1)
    Σ = np.zeros((len(a), states, states))
    F, g = np.zeros((len(a), states, states)), np.zeros(states)
    squares = [μ[:, -1] ** 2]
    for k, step in enumerate(steps):
        F[:, 0, 0], g[0] = 1.0 - step * a, -step
        if average is not None:
            F[:, 1, 0], F[:, 1, 1] = average[k], 1.0 - average[k]
        μ = np.einsum("jab,jb->ja", F, μ)
        Σ = F @ Σ @ F.transpose(0, 2, 1) + V * np.outer(g, g)
        squares.append(μ[:, -1] ** 2 + Σ[:, -1, -1])
    return 0.5 * np.array(squares) @ a
