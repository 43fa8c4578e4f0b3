"""An exchange: every owner may put in one lot at an ε agreed before, gets everybody else's, and nobody pays.

A lot is a private answer from L_i records, which owner i is publicly known to have. A member combines the others' lots with its
own exact records, at home. Who joins is found by leaving out, until nobody is left who would lose by it:

    C ← {i in C: w_i·fall_i(C) ≥ c_i(κ_i ε)},    from all owners on,

with fall_i(C) the fall of ψ by the lots of the others in C. The more members, the more it falls, so that this ends at the
largest set of owners each of whom would rather be a member, and no statement can do better for an owner than its true one
(docs/proofs/market.md).
"""

import numpy as np
from jaxtyping import Bool, Float

from copriv.market.allocation import Statements
from copriv.market.mechanisms import Outcome, without_others
from copriv.types import Array


def exchange(stated: Statements, lots: Float[Array, " owners"], epsilon: float) -> Outcome:
    """The members of an exchange, and what it does for each owner.

    lots: L_i, and epsilon: ε, both fixed before anybody states anything.
    """
    ε, joined = epsilon * stated.members.overlap, np.ones(stated.number, dtype=bool)
    while True:
        fall = falls(stated, lots, joined, epsilon)
        stays = joined & (fall > 0) & (stated.worth * fall >= stated.costs.at(ε))
        if (stays == joined).all():
            break
        joined = stays
    spent, without = np.where(joined, ε, 0.0), stated.members.without_joining
    gain, fitness = np.where(joined, stated.worth * fall, 0.0), np.where(joined, without - fall, without)
    nothing = np.zeros(stated.number)
    return Outcome("exchange", spent, fitness, gain, stated.costs.at(spent), nothing, nothing)


def falls(
    stated: Statements, lots: Float[Array, " owners"], joined: Bool[np.ndarray, " owners"], epsilon: float
) -> Float[Array, " owners"]:
    """Fall of ψ of each owner by the lots of the other members, combined with its own records at home."""
    m, L = stated.members, lots[:, None]
    certain = joined[:, None] / (m.information / L + m.spread + m.curve.slope / (L * epsilon) ** 2)  # owners, lines
    own = 1.0 / (m.information / m.records[:, None] + m.spread)
    mixed = (1.0 / (own + certain.sum(axis=0) - certain) + m.curve.fixed).min(axis=-1)
    return np.asarray(np.maximum(without_others(stated, lots.sum() - lots) - mixed, 0.0))


def even_epsilon(stated: Statements, lots: Float[Array, " owners"]) -> float:
    """The ε at which the noise of all lots costs as much as that there are no more records: of public numbers alone."""
    m, all_lots = stated.members, float(lots.sum())
    levels = np.geomspace(1e-2, 1e2, 401)
    noise = m.curve.at(len(lots) / (all_lots * levels) ** 2)
    return float(levels[np.argmin(np.abs(np.log(np.maximum(noise, 1e-300) * all_lots / m.information)))])
