"""Ways to share what a market saves: fair or equal parts of the efficient allocation, and one ε that all may join at."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from copriv.forecast.coalition_value import coalitions
from copriv.formatting.cards import Shown
from copriv.market.allocation import EXACT_OWNERS, Statements, shapley_shares
from copriv.types import Array

LEVELS = 40
"""Common ε that are tried, beside the most of every owner."""


@dataclass(frozen=True, eq=False)
class Outcome(Shown):
    """What a market does: who answers at which ε, who uses a model, and what everybody gets or pays."""

    mechanism: str
    """"shapley", "equal", "common" or "posted"."""
    epsilon: Float[Array, " owners"]
    """ε of each owner's answers; 0 for those who do not answer."""
    fitness: Float[Array, " owners"]
    """ψ of the model that each owner uses; `without` for those who use what they have."""
    gain: Float[Array, " owners"]
    """What using it is worth to the owner, in money."""
    privacy_cost: Float[Array, " owners"]
    """What answering costs it, in money."""
    payment: Float[Array, " owners"]
    """What it is paid, in money; negative where it pays. They add up to 0."""
    error: Float[Array, " owners"]
    """Standard error of its payment; above 0 only for Shapley values of more than EXACT_OWNERS owners."""

    @property
    def net(self) -> Float[Array, " owners"]:
        """What each owner is better off by than without the market."""
        return np.asarray(self.gain - self.privacy_cost + self.payment)

    @property
    def surplus(self) -> float:
        """What all owners together are better off by."""
        return float((self.gain - self.privacy_cost).sum())

    @property
    def uses(self) -> Bool[np.ndarray, " owners"]:
        """Whether each owner uses the model that it is given."""
        return np.asarray(self.gain > 0)

    def transfers(self) -> list[tuple[int, int, float]]:
        """Who pays whom how much: few payments between owners that give these balances."""
        left, found = self.payment.astype(np.float64).copy(), []
        least = 1e-9 * max(float(np.abs(left).max()), 1e-300)
        while (owed := min(-float(left.min()), float(left.max()))) > least:
            payer, payee = int(np.argmin(left)), int(np.argmax(left))
            found.append((payer, payee, owed))
            left[payer] += owed
            left[payee] -= owed
        return found


def of_one_model(
    mechanism: str, stated: Statements, epsilon: Array, net: Array | None = None, error: Array | None = None
) -> Outcome:
    """The outcome where all use one model; net: what each owner is to be better off by (None: nobody pays)."""
    N, without = stated.number, stated.members.without_joining
    ψ = float(stated.fitness(epsilon))
    gain, cost = stated.gains(ψ), stated.costs.at(epsilon)
    if net is None:
        gain = np.where(epsilon > 0, gain, 0.0)
    paid = np.zeros(N) if net is None else net - (gain - cost)
    fitness = np.where(gain > 0, ψ, without)
    return Outcome(mechanism, epsilon, fitness, gain, cost, paid, np.zeros(N) if error is None else error)


def shapley(stated: Statements, seed: int = 0) -> Outcome:
    """The efficient allocation, where each owner is better off by its Shapley value of what coalitions save."""
    ε, shares, error = shapley_shares(stated, seed)
    saved = float(stated.saved(ε)) if (ε > 0).any() else 0.0
    # Equal up to rounding for few owners; for many, both are searched for, and the allocation is what is carried out.
    return of_one_model("shapley", stated, ε, shares * (saved / max(float(shares.sum()), 1e-300)), error)


def equal(stated: Statements, found: Outcome) -> Outcome:
    """The same allocation, where all who answer or use the model are better off by the same sum."""
    part = (found.epsilon > 0) | found.uses
    return of_one_model("equal", stated, found.epsilon, part * found.surplus / max(int(part.sum()), 1))


def common(stated: Statements) -> Outcome:
    """One ε for all, chosen so that most is saved, at which every owner may join; nobody pays (Bassily et al. 2026).

    Who joins answers and gets the model. The joiners are an equilibrium: none of them would leave, and nobody else would join.
    """
    N, most = stated.number, stated.members.epsilon
    levels = np.unique(np.append(np.geomspace(most.max() / 1e3, most.max(), LEVELS), most))
    if N <= EXACT_OWNERS:
        joined = np.broadcast_to(coalitions(N), (len(levels), 1 << N, N))
        nets = _nets(stated, joined, levels[:, None, None])
        with_each = np.arange(1 << N)[:, None] | (1 << np.arange(N))
        stable = np.where(joined, nets >= 0, nets[:, with_each, np.arange(N)] <= 0).all(axis=-1)
    else:
        joined = np.stack([_settled(stated, float(ε)) for ε in levels])[:, None]
        nets, stable = _nets(stated, joined, levels[:, None, None]), np.ones((len(levels), 1), dtype=bool)
    # That nobody joins is an equilibrium, too, unless somebody would at once.
    saved = np.where(stable, nets.sum(axis=-1), -np.inf)
    at, which = np.unravel_index(np.argmax(saved), saved.shape)
    return of_one_model("common", stated, levels[at] * joined[at, which])


def _nets(
    stated: Statements, joined: Bool[np.ndarray, "*many owners"], epsilon: float | Array
) -> Float[Array, "*many owners"]:
    """What joining at this ε gives each member of each set, 0 for others; minus infinity for who may not spend it."""
    ε = joined * epsilon
    with np.errstate(invalid="ignore"):
        gains = np.where(joined.sum(axis=-1) > 1, 1.0, 0.0)[..., None] * stated.gains(stated.fitness(ε))
    return np.asarray(np.where(joined, gains - stated.costs.at(ε), 0.0))


def _settled(stated: Statements, epsilon: float) -> Bool[np.ndarray, " owners"]:
    """Who joins: from all on, the one who loses most leaves, until nobody would; then whoever would gain by joining does.

    Nobody where that comes to no end, which sets of owners who drive each other out could make of it.
    """
    N, joined = stated.number, np.ones(stated.number, dtype=bool)
    for _ in range(4 * N):
        nets = _nets(stated, joined[None], epsilon)[0]
        if nets.min() < 0:
            joined = joined & (np.arange(N) != np.argmin(nets))
            continue
        more = joined | np.eye(N, dtype=bool)
        gains = np.where(joined, 0.0, np.diagonal(_nets(stated, more, epsilon)))
        if gains.max() <= 0:
            return joined
        joined = joined | (np.arange(N) == np.argmax(gains))
    return np.zeros(N, dtype=bool)
