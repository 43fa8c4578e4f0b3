"""θ* of a large hinge problem from the few records that matter, with a certificate.

With a weak regulariser most records lie beyond the margin, where their loss is 0. Leaving records out of the sum lowers
f everywhere, so the least value over the records kept is a proved lower bound on f(θ*); where the ones left out have no
loss at its minimiser, the bound is attained. Records with a loss are added until it is, to 1e-8 of f. On 90,000 card
transactions: 7,000 records and seconds, where the whole takes minutes.
"""

import numpy as np

from copriv.fitness import ACCURACY, Fitness, Optimum, Regularizer, _hinge_minimum
from copriv.records import Records

_FIRST = 4000


def optimum_of(fitness: Fitness) -> Optimum:
    """θ*, certified. Raises NotCertified as `Fitness.minimum` does."""
    records, c = fitness.records, fitness.regularizer.strength
    if fitness.loss.name != "hinge" or c >= 1e-2 or len(records) < 2 * _FIRST:
        return fitness.minimum()
    rare = records.target == (1.0 if np.mean(records.target) < 0 else -1.0)
    kept = rare | (np.arange(len(records)) % (len(records) // _FIRST) == 0)
    n = records.weight.sum()
    while kept.mean() < 0.5:
        some = Records(records.features[kept], records.target[kept], records.weight[kept])
        share = float(some.weight.sum() / n)
        # f over the kept ones, (c/2)θᵀθ + Σ w ℓ/n, is `share` times a fitness with a regulariser of c/share.
        part = _hinge_minimum(Fitness(fitness.loss, Regularizer(c / share), fitness.box, some))
        value = float(fitness.value(part.theta))
        gap = value - share * (part.value - part.gap)
        if gap <= ACCURACY * value:
            return Optimum(part.theta, value, max(gap, 0.0))
        margin = records.target * (records.features @ part.theta)
        margin[kept] = np.inf
        # Records just beyond the margin would be the next to be missed, but they may be most of the table.
        nearest = np.argsort(margin, kind="stable")[:_FIRST]
        kept[nearest[margin[nearest] < 1 + 1e-3]] = True
    return fitness.minimum()
