"""Mean and variance of f(θ_k) for any rule that hands over its recursion: which file works them out."""

import numpy as np

from copriv.exact.asynchronous import in_turns
from copriv.exact.moments import Moments, OwnerKinds
from copriv.exact.reduced_runs import Order
from copriv.exact.synchronous import in_rounds
from copriv.model.fitness import Quadratic
from copriv.rules.recursion import InRounds, Recursion


def moments_of(
    recursion: Recursion,
    quadratic: Quadratic,
    owners: OwnerKinds,
    horizon: int,
    start: object,
    order: Order = "uniform",
    runs: int = 0,
    seed: int = 0,
    mean_only: bool = False,
) -> Moments:
    """`Moments` of the rule. runs: for what is out of reach of the exact recursion; 0: it is left out.

    mean_only: the variance is not asked for; in rounds it is most of the work.
    Raises InvalidInput for terms that the rule cannot be run with, or a start of another length.
    """
    if isinstance(recursion, InRounds):
        return in_rounds(quadratic, owners, recursion, start, mean_only)
    return in_turns(quadratic, owners, recursion, horizon, start, np.random.default_rng(seed), order, runs)
