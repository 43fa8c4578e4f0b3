"""The mechanisms of a market: parts of the efficient allocation, one ε for all, posted prices, and an exchange of lots."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from copriv.forecast.coalition_value import coalitions
from copriv.formatting.cards import Shown
from copriv.market.allocation import EXACT_OWNERS, Statements, shapley_shares
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Outcome(Shown):
    """Outcome of a mechanism: each owner's ε, the model that it uses, and what it is paid."""

    mechanism: str
    """A name of `copriv.market.MECHANISMS`."""
    epsilon: Float[Array, " owners"]
    """ε of each owner's answers; 0 for those who do not answer."""
    fitness: Float[Array, " owners"]
    """ψ of the model that each owner uses; `without` for those who use what they have."""
    gain: Float[Array, " owners"]
    """Value of the model to the owner, in money."""
    privacy_cost: Float[Array, " owners"]
    """Cost of its privacy, in money."""
    payment: Float[Array, " owners"]
    """Payment to it, in money; negative where it pays. Payments add up to 0."""
    error: Float[Array, " owners"]
    """Standard error of its payment; above 0 only for Shapley values of more than EXACT_OWNERS owners."""

    @property
    def net(self) -> Float[Array, " owners"]:
        """Net gain of each owner over having no market, in money."""
        return np.asarray(self.gain - self.privacy_cost + self.payment)

    @property
    def surplus(self) -> float:
        """Net gain of all owners together, in money."""
        return float((self.gain - self.privacy_cost).sum())

    @property
    def uses(self) -> Bool[np.ndarray, " owners"]:
        """Whether each owner uses the model that it is given."""
        return np.asarray(self.gain > 0)

    def transfers(self) -> list[tuple[int, int, float]]:
        """Payments (payer, payee, amount) between owners with these balances; few of them."""
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
    gain, cost, paid = stated.gains(ψ), stated.costs.at(epsilon), np.zeros(N)
    if net is None:
        gain = np.where(epsilon > 0, gain, 0.0)
    else:
        paid = net - (gain - cost)
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
    levels = np.unique(np.append(np.geomspace(most.max() / 1e3, most.max(), 40), most))
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
    """Net gain of each member of each set by joining at this ε, 0 for others; −infinity for owners that may not spend it."""
    ε = joined * epsilon
    with np.errstate(invalid="ignore"):
        gains = np.where(joined.sum(axis=-1) > 1, 1.0, 0.0)[..., None] * stated.gains(stated.fitness(ε))
    return np.asarray(np.where(joined, gains - stated.costs.at(ε), 0.0))


def _settled(stated: Statements, epsilon: float) -> Bool[np.ndarray, " owners"]:
    """Find an equilibrium of joiners by best responses, from all owners on.

    The owner that loses most leaves, until none loses; then the one that would gain most joins. Returns nobody where this does
    not converge within 4N moves.
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


@dataclass(frozen=True, eq=False)
class Trade(Shown):
    """One trade between two groups of owners, on terms that follow from the statements of the third."""

    epsilon: float
    price: float
    """P, what each seller is paid for its lot, in money."""
    sellers: Int[np.ndarray, " sellers"]
    """Indices of the owners who sell; none where nothing is traded."""
    buyers: Int[np.ndarray, " buyers"]

    @property
    def fee(self) -> float:
        """Payment of each buyer, in money."""
        return self.price * len(self.sellers) / max(len(self.buyers), 1)


def posted(stated: Statements, lot: float) -> tuple[Outcome, tuple[Trade, ...]]:
    """The three trades of a market in which lying does not pay, and what they do for each owner.

    Owners are put into three groups by their place in the agreement. In each of three trades one group sells, the next one
    buys, and the third one's statements set the terms; so every owner sells in one, buys in another, and sets the terms of the
    third.

    - **A lot** is a private answer from L records at ε. lot: L, posted before anybody states anything: so many records every
      owner is publicly known to have. Every lot is as good as every other, and each owner sells one at most.
    - **The terms**, ε and the price P of a lot, are those that would save most if sellers and buyers were like the third group.
    - **Sellers** take part whose stated cost c_j(κ_j ε) is at most P.
    - **Buyers** combine the k lots with their own exact records, at home. All of them pay the same, kP/r, where r is the
      largest number of buyers who would each pay that (Moulin and Shenker 2001). Where there is no such r nothing is traded.

    docs/proofs/market.md has the proofs.
    """
    N, without = stated.number, stated.members.without_joining
    group, trades = np.arange(N) % 3, []
    ε, gain, paid, fitness = np.zeros(N), np.zeros(N), np.zeros(N), without.copy()
    for g in range(3 * (N >= 3)):
        sides = [np.flatnonzero(group == (g + step) % 3) for step in range(3)]
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
    m, N = stated.members, stated.number
    bought = lots[:, None, None] / (m.information / lot + m.spread + m.curve.slope / (lot * epsilon) ** 2)
    return _fall(stated, bought, np.full(N, (N - 1.0) * lot))[:, buyers]


def _fall(
    stated: Statements, others: Float[Array, "*some lines"], records: Float[Array, " owners"]
) -> Float[Array, "*many owners"]:
    """Fall of ψ of each owner that combines others' lots with its own exact records at home.

    others: inverse variance of the others' lots, at each line of the noise curve. records: of the others, all together; what
    an owner has without a market is on the scale of lots, without the parts that others' n decide.
    """
    m, v = stated.members, stated.members.records / stated.members.total
    own = 1.0 / (m.information / m.records[:, None] + m.spread)
    most = m.records / (m.records + records)
    without = m.without_joining + m.information / m.total - m.spread * (float(v @ v) + 2.0 * (most - v))
    return np.asarray(np.maximum(without - (1.0 / (own + others) + m.curve.fixed).min(axis=-1), 0.0))


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
    """Trade of these sellers and buyers, on the terms of the third group."""
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
    for ε in np.geomspace(most / 1e3, most, 24).tolist():
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


def exchange(stated: Statements, lots: Float[Array, " owners"], epsilon: float) -> Outcome:
    """Members of an exchange of lots at one ε, and each owner's gain and cost.

    Each member puts in one lot, a private answer from L_i records at ε, and gets the lots of all other members, which it
    combines with its own exact records at home. Nobody pays. Owners that would lose by it are left out until there are none,

        C ← {i in C: w_i·fall_i(C) ≥ c_i(κ_i ε)},    from all owners on,

    with fall_i(C) the fall of ψ by the lots of the others in C. It is larger for more members, so that this ends at the largest
    set of owners each of whom would rather be a member, and no statement does better for an owner than its true one
    (docs/proofs/market.md).

    lots: L_i, which owner i is publicly known to have. lots and epsilon are fixed before anybody states anything.
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
    return _fall(stated, certain.sum(axis=0) - certain, lots.sum() - lots)


def even_epsilon(stated: Statements, lots: Float[Array, " owners"]) -> float:
    """ε at which the noise of all lots costs as much as their sampling error; from public numbers alone."""
    m, all_lots = stated.members, float(lots.sum())
    levels = np.geomspace(1e-2, 1e2, 401)
    noise = m.curve.at(len(lots) / (all_lots * levels) ** 2)
    return float(levels[np.argmin(np.abs(np.log(np.maximum(noise, 1e-300) * all_lots / m.information)))])
