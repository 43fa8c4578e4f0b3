"""Who should join: what an owner gains and gives, from the noise curve and the public sample alone.

A coalition C with weights w trains, at its own best setting, a model whose expected fitness on all owners' records is
off the best by (in ψ)

    cost(C, w)  =  κ(Σ w_i²/n_i − 1/n)   what too few records leave unknown
                +  curve(ν(w))           what privacy costs at its best setting, ν = Σ w_i² κ_i²/(n_i ε_i)²

κ from the public sample (`sample.information`), the curve from the plan. Alone, an owner without noise has
κ(1/n_i − 1/n). Where owners differ, each one's population has an optimum of its own, off the common mean by a draw of
variance U in the metric of ψ (`spread`): a coalition's optimum is the weighted mean of its members', and costs, on
everybody's records with v_i = n_i/n,

    U(Σ_C w_i² − 2 Σ_C w_i v_i + Σ v_i²),      0 for everybody together, U(1 − 2v_i + Σ v²) for one alone.
 Everything here is a difference, derivative or minimum of these two functions: that is why asking a
thousand questions costs nothing. It inherits their simplification: how owners differ is not known of each.

Noise enters only through Σ (w_i/(n_i ε_i))²: an owner with few records and a small ε hurts, since its noise does not
shrink with its weight n_i/n as fast as its information (S, §I-A: "small conservative datasets"). The best weights trade
the two: w_i ∝ 1/(κ/n_i + s·κ_i²/(n_i ε_i)²), s the slope of the curve.
"""

from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from copriv.agreement import Agreement
from copriv.plan.noise_curve import NoiseCurve
from copriv.types import Array

EXACT_OWNERS = 12
"""Shapley values and best subsets are exact up to here: 4,096 coalitions."""


@dataclass(frozen=True, eq=False)
class Consortium:
    """The owners in numbers, with the two functions that price any coalition of them."""

    records: Float[Array, " owners"]
    epsilon: Float[Array, " owners"]
    overlap: Float[Array, " owners"]
    information: float
    """κ as ψ: κ/n is the relative cost of knowing n records only."""
    curve: NoiseCurve
    spread: float = 0.0
    """U, as ψ: how far owners' own optima lie from their mean; 0 where they are alike."""

    @classmethod
    def of(cls, agreement: Agreement, information: float, curve: NoiseCurve, unlikeness: float = 0.0) -> "Consortium":
        """The agreement's owners. unlikeness: u = Σ v_i·U(1 − 2v_i + Σ v²), so that U = u/(1 − Σ v²)."""
        overlap = np.array([owner.overlap for owner in agreement.owner], dtype=np.float64)
        v = agreement.records / agreement.records.sum()
        spread = unlikeness / (1.0 - float(v @ v)) if len(v) > 1 else 0.0
        return cls(agreement.records, agreement.epsilons, overlap, information, curve, spread)

    @property
    def total(self) -> float:
        """n."""
        return float(self.records.sum())

    @property
    def noise(self) -> Float[Array, " owners"]:
        """κ_i²/(n_i ε_i)²: an owner's noise at weight 1."""
        return np.asarray((self.overlap / (self.records * self.epsilon)) ** 2)

    def alone(self) -> Float[Array, " owners"]:
        """ψ of each owner's own model, without noise."""
        v = self.records / self.total
        unlike = self.spread * (1.0 - 2.0 * v + float(v @ v)) if len(v) > 1 else 0.0
        return np.asarray(self.information * (1.0 / self.records - 1.0 / self.total) + unlike)

    @property
    def _share(self) -> Float[Array, " owners"]:
        """(κ_i/ε_i)²: what an owner adds to n_C²·ν of any coalition that weighs by records."""
        return np.asarray((self.overlap / self.epsilon) ** 2)

    def cost(self, members: Bool[np.ndarray, "*many owners"]) -> Float[Array, "*many"]:
        """ψ of coalitions that weigh their members by records; without members, infinite."""
        return self._priced(*(np.asarray(members @ sums) for sums in self._sums))

    @property
    def _sums(self) -> tuple[Array, Array, Array]:
        """What is added up over a coalition: records, (κ/ε)², records². These three sums are all that matters of one."""
        return self.records, self._share, self.records**2

    def _priced(
        self, n: Float[Array, "*many"], share: Float[Array, "*many"], squares: Float[Array, "*many"]
    ) -> Float[Array, "*many"]:
        """ψ of coalitions of n_C records in all, Σ (κ_i/ε_i)² and Σ n_i²."""
        with np.errstate(divide="ignore", invalid="ignore"):
            # w_i² noise_i = (n_i/n_C)² κ_i²/(n_i ε_i)² = (κ_i/ε_i)²/n_C²
            ν = share / n**2
            known = self.information * (1.0 / n - 1.0 / self.total)
            apart = squares / n**2 - 2.0 * squares / (n * self.total) + float(np.sum(self.records**2)) / self.total**2
            priced = known + self.spread * np.maximum(apart, 0.0) + self.curve.at(np.where(n > 0, ν, 0.0))
        return np.asarray(np.where(n > 0, priced, np.inf))

    def together(self) -> float:
        """ψ of all owners."""
        return float(self.cost(np.ones(len(self.records), dtype=bool)))

    def weighted(self, weights: Float[Array, " owners"]) -> float:
        """ψ under any weights that add up to 1."""
        known = self.information * (float(np.sum(weights**2 / self.records)) - 1.0 / self.total)
        known += self.spread * float(np.sum((weights - self.records / self.total) ** 2))
        return known + float(self.curve.at(float(np.sum(weights**2 * self.noise))))

    def best_weights(self) -> Float[Array, " owners"]:
        """The weights of least cost: closed-form for each slope s of the curve, and the best of those."""
        tried = [self._weights_at(float(s)) for s in self.curve.slope]
        # The curve is a minimum of lines, so the least over lines of the least over weights is the least over both.
        return min(tried, key=self.weighted)

    def _weights_at(self, slope: float) -> Array:
        # Least Σ w_i²(κ/n_i + s·noise_i) + U Σ (w_i − v_i)² with Σ w = 1: w_i = (μ + U v_i)/(κ/n_i + s·noise_i + U).
        price = self.information / self.records + slope * self.noise + self.spread
        pull = self.spread * self.records / self.total
        μ = (1.0 - float(np.sum(pull / price))) / float(np.sum(1.0 / price))
        return np.asarray((μ + pull) / price)

    def best_subset(self) -> Bool[np.ndarray, " owners"]:
        """The coalition of least cost, members weighed by records: exact up to EXACT_OWNERS, else by local search.

        To first order an owner belongs in when its noise a record, (κ_i/ε_i)²/n_i, is small. The search starts from the
        best set of those for which it is smallest, and takes in, throws out or swaps one owner for as long as that
        helps.
        """
        N = len(self.records)
        if N <= EXACT_OWNERS:
            every = _coalitions(N)[1:]
            return np.asarray(every[int(np.argmin(self.cost(every)))])
        order = np.argsort(self._share / self.records)
        first = int(np.argmin(self._priced(*(np.cumsum(sums[order]) for sums in self._sums))))
        members = np.zeros(N, dtype=bool)
        members[order[: first + 1]] = True
        while (change := self._improvement(members)) is not None:
            members[change] ^= True
        return np.asarray(members)

    def _improvement(self, members: Bool[np.ndarray, " owners"]) -> Any:
        """The owner whose change of side helps most; else two to swap; None where neither helps."""
        sums = self._sums
        now = [members @ each for each in sums]
        enough = float(self._priced(*map(np.asarray, now))) * (1 - 1e-12)
        side = np.where(members, -1.0, 1.0)
        flipped = self._priced(*(total + side * each for total, each in zip(now, sums, strict=True)))
        if flipped.min() < enough:
            return [int(np.argmin(flipped))]
        outside = np.flatnonzero(~members)
        for i in np.flatnonzero(members) if len(outside) else ():
            swapped = self._priced(*(total - each[i] + each[outside] for total, each in zip(now, sums, strict=True)))
            if swapped.min() < enough:
                return [int(i), int(outside[np.argmin(swapped)])]
        return None

    def loss_without(self) -> Float[Array, " owners"]:
        """How much ψ rises for the others when each owner leaves; negative: they are better off."""
        N = len(self.records)
        if N == 1:
            return np.full(1, np.inf)
        return np.asarray(self.cost(~np.eye(N, dtype=bool)) - self.together())

    def marginal_values(self) -> tuple[Float[Array, " owners"], Float[Array, " owners"]]:
        """How much ψ falls for a unit more of each owner's ε, and for one more of its records: −∂ψ/∂ε_i, −∂ψ/∂n_i."""
        n = self.total
        share = self._share
        ν = float(share.sum()) / n**2
        slope = self.curve.derivative(ν)
        by_epsilon = slope * 2.0 * share / self.epsilon / n**2
        # A record more also moves the total that ψ is about; κ(1/n − 1/n) stays 0, so only the noise falls.
        by_record = np.full(len(self.records), slope * 2.0 * ν / n)
        return np.asarray(by_epsilon), by_record

    def break_even(self, owner: int, target: float, lowest: float = 1e-4, highest: float = 1e4) -> float | None:
        """The least ε of this owner, the others' as agreed, at which the whole reaches less than `target`.

        None where no ε does it: the others' noise or the owner's own model decides.
        """
        return _least(lambda ε: self._with(owner, ε).together() < target, lowest, highest)

    def break_even_for_all(self, owner: int, target: float) -> float | None:
        """The same with one ε for every owner, as in A, fig. 6."""
        return _least(lambda ε: self._equal(ε).together() < target, 1e-4, 1e4)

    def epsilon_for(self, target: float) -> float | None:
        """The ε that every owner needs for ψ ≤ target; None where none is enough."""
        return _least(lambda ε: self._equal(ε).together() <= target, 1e-6, 1e6)

    def owners_for(self, target: float, records: float, epsilon: float, most: int = 10**6) -> int | None:
        """How many equal owners of these records and ε reach ψ ≤ target; None where `most` do not."""
        N = np.unique(np.round(np.geomspace(1, most, 4000)).astype(int))
        enough = self.curve.at(np.asarray(1.0 / (N * (records * epsilon) ** 2), dtype=np.float64)) <= target
        if not enough.any():
            return None
        last = int(np.argmax(enough))
        low = int(N[last - 1]) + 1 if last else 1
        span = np.arange(low, int(N[last]) + 1)
        return int(span[int(np.argmax(self.curve.at(np.asarray(1.0 / (span * (records * epsilon) ** 2))) <= target))])

    def shapley(self, samples: int = 2000, seed: int = 0) -> tuple[Float[Array, " owners"], Float[Array, " owners"]]:
        """Shapley values and their standard errors (0 where exact): a fair division of what joining is worth.

        A coalition is worth what it saves its members against the best of them alone,
        v(C) = max(0, min_{i in C} alone_i − cost(C)); the empty one and single owners are worth 0: nobody joins at a
        loss. Exact up to EXACT_OWNERS, beyond that from random orders of the owners.
        """
        N = len(self.records)
        if N <= EXACT_OWNERS:
            return self._exact_shapley(N), np.zeros(N)
        rng = np.random.default_rng(seed)
        gains = np.empty((samples, N))
        for row in gains:
            order = rng.permutation(N)
            joined = self._priced(*(np.cumsum(sums[order]) for sums in self._sums))
            saved = np.minimum.accumulate(self.alone()[order]) - joined
            saved[0] = 0.0
            row[order] = np.diff(np.maximum(saved, 0.0), prepend=0.0)
        return gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(samples)

    def _worth(self, members: Bool[np.ndarray, "many owners"]) -> Float[Array, " many"]:
        best_alone = np.where(members, self.alone(), np.inf).min(axis=-1)
        saved = np.where(members.sum(axis=-1) >= 2, best_alone - self.cost(members), 0.0)
        return np.asarray(np.maximum(saved, 0.0))

    def _exact_shapley(self, N: int) -> Array:
        every = _coalitions(N)
        worth = np.concatenate([[0.0], self._worth(every[1:])])
        size = every.sum(axis=1)
        values = np.empty(N)
        for i in range(N):
            without = np.flatnonzero(~every[:, i])
            share = np.array([1.0 / (N * comb(N - 1, int(s))) for s in size[without]])
            values[i] = float(share @ (worth[without + (1 << i)] - worth[without]))
        return values

    def _with(self, owner: int, epsilon: float) -> "Consortium":
        changed = self.epsilon.copy()
        changed[owner] = epsilon
        return replace(self, epsilon=changed)

    def _equal(self, epsilon: float) -> "Consortium":
        return replace(self, epsilon=np.full_like(self.epsilon, epsilon))


def _coalitions(N: int) -> Bool[np.ndarray, "many owners"]:
    """All 2^N of them, row number in binary; the empty one first."""
    return np.asarray((np.arange(1 << N)[:, None] >> np.arange(N)) & 1, dtype=bool)


def _least(holds: Any, lowest: float, highest: float) -> float | None:
    """The least argument for which a condition that stays true once true holds, to a thousandth, on a log axis."""
    if not holds(highest):
        return None
    if holds(lowest):
        return lowest
    low, high = np.log(lowest), np.log(highest)
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(float(np.exp(middle))) else (middle, high)
    return float(np.exp(high))
