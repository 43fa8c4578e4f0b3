"""The expected cost of a run, exactly and at a finite T, where the loss is squared and nothing is clipped.

Every update rule is then linear in its state, and the noise does not depend on the state, so that the mean μ_k and the
covariance Σ_k of θ_k obey a linear recursion and

    E f(θ_k) − f(θ*) = ½ (μ_k − θ*)ᵀ A (μ_k − θ*) + ½ tr(A Σ_k),     A = 2H + σI.

| rule                       | within reach                                                        |
| -------------------------- | ------------------------------------------------------------------- |
| S1, S2                     | any owners, in O(Tp)                                                |
| S1, S2 on a graph (`on_graph`) | some tens of owners, or fewer whose records differ              |
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

    The learner's weighted sum of the owners' noise has the variance V = Σ ω_i²·2b_i² in every direction. Source: S,
    Algorithms 1 and 2.
    """
    d = Directions.of(quadratic, start)
    V = 2.0 * float(owners.counts @ (owners.weights * owners.noise_scale) ** 2)
    squares = [(mean * d.start) ** 2 + V * variance for mean, variance in recursion.moments(d.curvature)]
    return 0.5 * np.array(squares) @ d.curvature
