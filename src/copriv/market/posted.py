"""A market in which lying does not pay: prices that are posted by owners who have no part in the trade.

Owners are put into three groups by their place in the agreement. In each of three trades one group sells, the next one buys,
and the third one's statements set the terms; so every owner sells in one, buys in another, and sets the terms of the third.

- **A lot** is a private answer from L records at ε. L is posted before anybody states anything: so many records every owner is
  publicly known to have. Every lot is as good as every other, whoever gives it, and each owner sells one at most.
- **The terms**, ε and the price P of a lot, are those that would save most if sellers and buyers were like the third group.
- **Sellers** take part whose stated cost c_j(κ_j ε) is at most P.
- **Buyers** combine the k lots with their own exact records, at home. All of them pay the same, kP/r, where r is the largest
  number of buyers who would each pay that (Moulin and Shenker 2001). Where there is no such r nothing is traded.

With own records of weight w and lots of weight (1 − w)/k, a buyer's ψ is, up to a constant,
(κ/n_i + U)w² + (κ/(kL) + U/k + slope/(k(Lε)²))(1 − w)² + fixed, least over w and over the lines of the noise curve.
docs/proofs/market.md has the proofs.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from copriv.formatting.cards import Shown
from copriv.market.allocation import Statements
from copriv.market.sharing import Outcome
from copriv.types import Array

GROUPS = 3
LEVELS = 24
"""Levels of ε that a third group chooses among."""


@dataclass(frozen=True, eq=False)
class Trade(Shown):
    """What one group sells to another, on the terms of the third."""

    epsilon: float
    price: float
    """P, what each seller is paid for its lot, in money."""
    sellers: Int[np.ndarray, " sellers"]
    """Indices of the owners who sell; none where nothing is traded."""
    buyers: Int[np.ndarray, " buyers"]

    @property
    def fee(self) -> float:
        """What each buyer pays, in money."""
        return self.price * len(self.sellers) / max(len(self.buyers), 1)


def posted(stated: Statements, lot: float) -> tuple[Outcome, tuple[Trade, ...]]:
    """The three trades, and what they do for each owner. lot: L, records that every owner has at least."""
    N, without = stated.number, stated.members.without_joining
    group, trades = np.arange(N) % GROUPS, []
    ε, gain, paid, fitness = np.zeros(N), np.zeros(N), np.zeros(N), without.copy()
    for g in range(GROUPS if N >= GROUPS else 0):
        sides = [np.flatnonzero(group == (g + step) % GROUPS) for step in range(GROUPS)]
        trades.append(trade := _trade(stated, lot, *sides))
        k = len(trade.sellers)
        ε[trade.sellers] = trade.epsilon * stated.members.overlap[trade.sellers]
        paid[trade.sellers] += trade.price
        if k:
            better = better_by(stated, trade.buyers, np.array([k]), trade.epsilon, lot)[0]
            gain[trade.buyers] = stated.worth[trade.buyers] * better
            fitness[trade.buyers] -= better
            paid[trade.buyers] -= trade.fee
    return Outcome("posted", ε, fitness, gain, stated.costs.at(ε), paid, np.zeros(N)), tuple(trades)


def better_by(
    stated: Statements, buyers: Int[np.ndarray, " buyers"], lots: Int[np.ndarray, " many"], epsilon: float, lot: float
) -> Float[Array, "many buyers"]:
    """Fall of ψ of each buyer by so many lots (1 or more), combined with its own records at home."""
    m, k = stated.members, lots[:, None, None]
    own = m.information / m.records[buyers][:, None] + m.spread
    bought = (m.information / lot + m.spread + m.curve.slope / (lot * epsilon) ** 2) / k
    mixed = (own * bought / (own + bought) + m.curve.fixed).min(axis=-1)
    # ψ without, on the same scale: without the parts that others' records decide, or with each other's n at L.
    v = m.records / m.total
    most = m.records / (m.records + (stated.number - 1) * lot)
    outside = (m.without_joining + m.information / m.total - m.spread * (float(v @ v) + 2.0 * (most - v)))[buyers]
    return np.asarray(np.maximum(outside - mixed, 0.0))


def payers(values: Float[Array, " buyers"], outlay: float) -> Bool[np.ndarray, " buyers"]:
    """The largest set of buyers each of whom pays its equal part of the outlay at most for its value."""
    order = np.argsort(-values, kind="stable")
    enough = np.flatnonzero(values[order] * np.arange(1, len(values) + 1) >= outlay)
    chosen = np.zeros(len(values), dtype=bool)
    if len(enough):
        chosen[order[: enough[-1] + 1]] = True
    return chosen & (values > 0)


def _trade(
    stated: Statements,
    lot: float,
    sellers: Int[np.ndarray, " sellers"],
    buyers: Int[np.ndarray, " buyers"],
    third: Int[np.ndarray, " third"],
) -> Trade:
    """What these sellers give these buyers, on the terms of the third group."""
    terms = _terms(stated, lot, third, len(sellers), len(buyers))
    if terms is not None:
        ε, price = terms
        selling = sellers[_lot_costs(stated, sellers, ε) <= price]
        if k := len(selling):
            values = stated.worth[buyers] * better_by(stated, buyers, np.array([k]), ε, lot)[0]
            paying = payers(values, k * price)
            if paying.any():
                return Trade(ε, price, selling, buyers[paying])
    nobody = np.zeros(0, dtype=np.int64)
    return Trade(0.0, 0.0, nobody, nobody)


def _lot_costs(stated: Statements, owners: Int[np.ndarray, " owners"], epsilon: float) -> Float[Array, " owners"]:
    return np.asarray(stated.costs.at(epsilon * stated.members.overlap)[owners])


def _terms(
    stated: Statements, lot: float, third: Int[np.ndarray, " third"], sellers: int, buyers: int
) -> tuple[float, float] | None:
    """ε and P that would save most if so many sellers and buyers were like the third group; None where nothing would.

    Each owner of the third group stands for a part of the sellers and of the buyers. P is halfway between the least price at
    which the sellers would sell and the most that the buyers would pay.
    """
    each, most = buyers / len(third), float(stated.members.epsilon[third].max())
    best, found = 0.0, None
    for ε in np.geomspace(most / 1e3, most, LEVELS).tolist():
        costs = np.sort(_lot_costs(stated, third, ε))
        number = np.arange(1, len(third) + 1)
        lots = np.maximum(np.round(number * sellers / len(third)), 1).astype(np.int64)
        values = -np.sort(-stated.worth[third] * better_by(stated, third, lots, ε, lot), axis=1)
        for asked, k, willing, of_all in zip(costs, lots, values, np.cumsum(costs) / number, strict=True):
            offered = float((willing * number).max()) * each / k
            paying = willing[: int(np.argmax(willing * number)) + 1].sum() * each
            if np.isfinite(asked) and offered >= asked and paying - k * of_all > best:
                best, found = float(paying - k * of_all), (ε, 0.5 * (float(asked) + offered))
    return found
