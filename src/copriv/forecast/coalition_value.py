"""Value of coalitions: what an owner gains and contributes, from the noise curve and the public sample alone.

A coalition C with weights w trains, at its own best setting, a model whose expected fitness on all owners' records exceeds
the least one by (in ψ)

    cost(C, w)  =  κ(Σ w_i²/n_i − 1/n)   sampling error
                +  curve(ν(w))           cost of privacy at its best setting, ν = Σ w_i² κ_i²/(n_i ε_i)²

κ from the public sample (`sample.information`), the curve from the plan. Alone, an owner without noise has
κ(1/n_i − 1/n). Where owners differ, each one's population has an optimum of its own, off the common mean by a draw of
variance U in the metric of ψ (`spread`): a coalition's optimum is the weighted mean of its members', and costs, on
everybody's records with v_i = n_i/n,

    U(Σ_C w_i² − 2 Σ_C w_i v_i + Σ v_i²),      0 for everybody together, U(1 − 2v_i + Σ v²) for one alone.

All results are differences, derivatives or minima of these two functions, and take no runs. All of them ignore the
direction in which a given owner's optimum lies.

Noise enters only through Σ (w_i/(n_i ε_i))²: an owner with few records and a small ε hurts, since its noise does not
shrink with its weight n_i/n as fast as its information (S, §I-A: "small conservative datasets"). The best weights trade
the two: w_i ∝ 1/(κ/n_i + s·κ_i²/(n_i ε_i)²), s the slope of the curve.

Where the learner sees only the sum of a coalition of N_C owners, by records, ν = N_C/(N_C − t − d)·max_C (κ_i/ε_i)²/n_C²:
the noise that the strictest of them asks for. Owners' floors count at their mean, (κ_i/ε_max)²/n_C² for each owner.

**Shapley values** are a fair division of what joining is worth. The worth of a coalition is what its members save, v(C) = Σ_{i
in C} max(0, without_i − cost(C)): an owner does not use a model that is worse than what it has without joining. Single owners
are worth 0. The values add up to the savings of all owners for whom joining pays, and all of them are 0 only where it pays for
none.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb

import numpy as np
from jaxtyping import Bool, Float, Int

from copriv.agreement import Agreement
from copriv.formatting.cards import Shown
from copriv.plan.plan_result import NoiseCurve
from copriv.types import Array

EXACT_OWNERS = 12
"""Most owners for whom Shapley values and best subsets are exact, from all 4,096 coalitions."""
LEAST_EPSILON, MOST_EPSILON = 1e-4, 1e4
"""Range in which a break-even ε is searched for; where the lower end is enough, so is any ε."""


@dataclass(frozen=True, eq=False)
class Consortium(Shown):
    """Records, budgets and overlaps of the owners, with the two functions that give the cost of any coalition."""

    records: Float[Array, " owners"]
    epsilon: Float[Array, " owners"]
    overlap: Float[Array, " owners"]
    information: float
    """κ as ψ: κ/n is the relative cost of knowing n records only."""
    curve: NoiseCurve
    spread: float = 0.0
    """U, as ψ: variance of the owners' optima about their mean; 0 where owners are alike."""
    counts: Float[Array, " owners"] | None = None
    """Number of equal owners of each entry, whose other values are those of one owner; None for one owner each."""
    uncounted: int | None = None
    """t + d where only the sum is seen; None where each answer is."""
    floors: float = 0.0
    """Mean of (κ_i/ε_max)² over all owners; 0 without floors."""
    without: Float[Array, " owners"] | None = None
    """ψ of the better of each owner's own model and the public one; None for that of `alone`."""

    @classmethod
    def of(
        cls, agreement: Agreement, information: float, curve: NoiseCurve, heterogeneity: float = 0.0
    ) -> "Consortium":
        """The agreement's owners. heterogeneity: u = Σ v_i·U(1 − 2v_i + Σ v²), so that U = u/(1 − Σ v²)."""
        tables, v = agreement.owner_tables, agreement.records / agreement.records.sum()
        spread = heterogeneity / (1.0 - float(v @ v)) if len(v) > 1 else 0.0
        parts = {
            key: np.array([getattr(table, key) for table in tables], dtype=np.float64)
            for key in ("records", "epsilon", "overlap")
        }
        counts = None if all(table.count is None for table in tables) else agreement.counts.astype(np.float64)
        floors = [0.0 if table.floor is None else (table.overlap / table.floor) ** 2 for table in tables]
        return cls(
            **parts, information=information, curve=curve, spread=spread, counts=counts,
            uncounted=agreement.uncounted_in_sums, floors=float(np.mean(agreement.by_owner(floors))),
        )  # fmt: skip

    @property
    def number(self) -> Float[Array, " owners"]:
        """Number of owners of each entry."""
        if self.counts is None:
            return np.ones(len(self.records))
        return self.counts

    def held_to(self, together: float, without: Float[Array, " owners"], start: float) -> "Consortium":
        """The same owners with the cost of all together set to that of their runs, and `without` to the given values.

        start: ψ of the terms' start, the cost in the limit of infinite noise.
        """
        return replace(self, curve=self.curve.through(self.together_noise, together, start), without=without)

    @property
    def without_joining(self) -> Float[Array, " owners"]:
        """ψ of each owner's best model without joining."""
        if self.without is None:
            return self.alone()
        return self.without

    @property
    def total(self) -> float:
        """n."""
        return float(self.number @ self.records)

    @property
    def noise(self) -> Float[Array, " owners"]:
        """κ_i²/(n_i ε_i)², the noise of each owner at weight 1."""
        return np.asarray((self.overlap / (self.records * self.epsilon)) ** 2)

    @property
    def _asked(self) -> Float[Array, " owners"]:
        """(κ_i/ε_i)², the noise that each owner asks for."""
        return np.asarray((self.overlap / self.epsilon) ** 2)

    @property
    def sums(self) -> tuple[Array, Array, Array]:
        """Records, (κ/ε)² and records² of each owner; the sums of these over a coalition determine its cost.

        Where only the sum is seen, the second is an owner's part in the noise of all owners together, and `cost` is exact.
        """
        asked = self._asked
        if self.uncounted is not None:
            asked = np.full(len(asked), float(self._summed(self.number)) / self.number.sum())
        return self.records, asked, self.records**2

    def _summed(self, members: Float[Array, "*many owners"]) -> Float[Array, "*many"]:
        """ν n_C² of coalitions of which only the sum is seen; very large where all of them could collude."""
        strictest = np.asarray(np.where(members > 0, self._asked, 0.0).max(axis=-1))
        return self._noise_of(strictest, np.asarray(members.sum(axis=-1)))

    def _noise_of(self, asked: Float[Array, "*many"], members: float | Array) -> Float[Array, "*many"]:
        """ν n_C² of coalitions, from Σ (κ_i/ε_i)²; where only the sum is seen, from the largest of these and the members."""
        if self.uncounted is None:
            return asked
        return np.asarray(members * (asked / np.maximum(members - self.uncounted, 1e-30) + self.floors))

    @property
    def _joined(self) -> np.ufunc:
        """Ufunc that combines (κ_i/ε_i)² over a coalition: the sum, or the maximum where only the sum of answers is seen."""
        return np.add if self.uncounted is None else np.maximum

    @cached_property
    def _asked_of_others(self) -> Float[Array, " owners"]:
        """(κ_i/ε_i)² of all owners but one of each entry, joined."""
        asked, N, join = self._asked, self.number, self._joined
        several, but_one = (N, N - 1) if self.uncounted is None else (N > 0, N > 1)
        whole = np.concatenate([[0.0], several * asked, [0.0]])
        before, after = join.accumulate(whole)[:-2], join.accumulate(whole[::-1])[-3::-1]
        return np.asarray(join(join(before, after), but_one * asked))

    @property
    def together_noise(self) -> float:
        """ν of all owners, weighted by records: Σ (κ_i/ε_i)²/n²."""
        return float(self.number @ self.sums[1]) / self.total**2

    @property
    def _squares(self) -> float:
        """Σ v_i²."""
        return float(self.number @ self.records**2) / self.total**2

    def alone(self) -> Float[Array, " owners"]:
        """ψ of each owner's own model, without noise."""
        v = self.records / self.total
        heterogeneity = self.spread * (1.0 - 2.0 * v + self._squares)  # 0 for a single owner
        return np.asarray(self.information * (1.0 / self.records - 1.0 / self.total) + heterogeneity)

    def cost(self, members: Bool[np.ndarray, "*many owners"] | Float[Array, "*many owners"]) -> Float[Array, "*many"]:
        """ψ of coalitions whose members are weighted by records; infinite for the empty coalition.

        members: whether each owner is a member, or the number of members of each entry.
        """
        n, share, squares = (np.asarray(members @ sums) for sums in self.sums)
        if self.uncounted is not None:
            share = self._summed(np.asarray(members, dtype=np.float64))
        return self.priced(n, share, squares)

    def priced(
        self, n: Float[Array, "*many"], share: Float[Array, "*many"], squares: Float[Array, "*many"]
    ) -> Float[Array, "*many"]:
        """ψ of coalitions from their sums of records n_C, of (κ_i/ε_i)² and of n_i²."""
        with np.errstate(divide="ignore", invalid="ignore"):
            # w_i² noise_i = (n_i/n_C)² κ_i²/(n_i ε_i)² = (κ_i/ε_i)²/n_C²
            ν = share / n**2
            known = self.information * (1.0 / n - 1.0 / self.total)
            distance = squares / n**2 - 2.0 * squares / (n * self.total) + self._squares
            priced = known + self.spread * np.maximum(distance, 0.0) + self.curve.at(np.where(n > 0, ν, 0.0))
        return np.asarray(np.where(n > 0, priced, np.inf))

    def together(self) -> float:
        """ψ of all owners together."""
        return float(self.cost(self.number))

    def weighted(self, weights: Float[Array, " owners"]) -> float:
        """ψ of all owners under weights (each of one owner) that add up to 1."""
        N = self.number
        known = self.information * (float(np.sum(N * weights**2 / self.records)) - 1.0 / self.total)
        known += self.spread * float(np.sum(N * (weights - self.records / self.total) ** 2))
        ν = float(np.sum(N * weights**2 * self.noise))
        if self.uncounted is not None:
            asked, all_owners = weights**2 * self.noise, float(N.sum())
            ν = all_owners * (float(asked.max()) / (all_owners - self.uncounted) + self.floors / self.total**2)
        return known + float(self.curve.at(ν))

    def best_weights(self) -> Float[Array, " owners"]:
        """The weights of least cost: the closed form for each slope s of the curve, then the best of these.

        Where only the sum is seen, those by records: of equal ε and overlap no others have less noise or know more.
        """
        if self.uncounted is not None:
            return np.asarray(self.records / self.total)
        known, pull, tried = self.information / self.records, self.spread * self.records / self.total, []
        for slope in self.curve.slope:
            # Least Σ w_i²(κ/n_i + s·noise_i) + U Σ (w_i − v_i)² with Σ w = 1: w_i = (μ + U v_i)/(κ/n_i + s·noise_i + U).
            price = np.maximum(known + slope * self.noise + self.spread, 1e-300)
            μ = (1.0 - float(np.sum(self.number * pull / price))) / float(np.sum(self.number / price))
            tried.append((μ + pull) / price)
        # The curve is a minimum of lines, so the least over lines of the least over weights is the least over both.
        return np.asarray(min(tried, key=self.weighted))

    def best_subset(self) -> Bool[np.ndarray, " owners"]:
        """Whether all owners of each entry are in the coalition of least cost."""
        return np.asarray(self.best_numbers() == self.number)

    def best_numbers(self) -> Float[Array, " owners"]:
        """Number of owners of each entry in the coalition of least cost: exact up to EXACT_OWNERS, else by local search.

        To first order an owner lowers the cost when its noise per record, (κ_i/ε_i)²/n_i, is small. The search starts from
        the best set of owners in that order, and adds, removes or swaps one owner, or all of an entry, while that lowers
        the cost.
        """
        if self.number.sum() <= EXACT_OWNERS:
            every = coalitions(int(self.number.sum()))[1:]
            members = every[int(np.argmin(self.one_by_one().cost(every)))]
            return np.bincount(self.entries, weights=members, minlength=len(self.records)).astype(np.float64)
        order = np.argsort(self.sums[1] / self.records)
        first = int(np.argmin(self.priced(*(np.cumsum((self.number * sums)[order]) for sums in self.sums))))
        members = np.zeros(len(self.records))
        members[order[: first + 1]] = self.number[order[: first + 1]]
        while (better := self._improvement(members)) is not None:
            members = better
        return np.asarray(members)

    @property
    def entries(self) -> Int[np.ndarray, " owners"]:
        """Index of the entry of every single owner."""
        return np.arange(len(self.records), dtype=np.int64).repeat(self.number.astype(np.int64))

    def one_by_one(self) -> "Consortium":
        """The same owners, each with an entry of its own."""
        keys = [key for key in ("records", "epsilon", "overlap", "without") if getattr(self, key) is not None]
        return replace(self, **{key: getattr(self, key)[self.entries] for key in keys}, counts=None)

    def _improvement(self, members: Float[Array, " owners"]) -> Float[Array, " owners"] | None:
        """The best coalition that differs in one owner or in a whole entry; else one with two owners swapped; else None."""
        sums = self.sums
        now = [members @ each for each in sums]
        enough = float(self.priced(*map(np.asarray, now))) * (1 - 1e-12)
        steps = [np.where(members < self.number, 1.0, 0.0), np.where(members > 0, -1.0, 0.0)]
        if self.counts is not None:
            steps += [self.number - members, -members]
        change = np.stack(steps)
        moved = self.priced(*(total + change * each for total, each in zip(now, sums, strict=True)))
        if moved.min() < enough:
            k, i = np.unravel_index(int(np.argmin(moved)), moved.shape)
            return np.asarray(members + change[k] * (np.arange(len(members)) == i))
        outside = np.flatnonzero(members < self.number)
        inside = np.flatnonzero(members > 0)
        if not len(outside):
            return None
        for i in inside[: 1_000_000 // len(outside)]:  # a million pairs at most
            swapped = self.priced(*(total - each[i] + each[outside] for total, each in zip(now, sums, strict=True)))
            if swapped.min() < enough:
                members = members.copy()
                members[i] -= 1.0
                members[outside[np.argmin(swapped)]] += 1.0
                return members
        return None

    def loss_without(self) -> Float[Array, " owners"]:
        """Rise of ψ for the others when each owner leaves; negative where they are better off, infinite for a single owner."""
        return self._without_one() - self.together()

    def _without_one(self, factor: float | Array = 1.0) -> Float[Array, " owners"]:
        """ψ of the others when one owner of each entry leaves, with their ε multiplied by `factor`."""
        n, squares = (self.number @ each - each for each in (self.records, self.records**2))
        return self.priced(n, self._noise_of(self._asked_of_others / factor**2, self.number.sum() - 1.0), squares)

    def _with_one_at(self, epsilon: Float[Array, " owners"]) -> Float[Array, " owners"]:
        """ψ of all owners when one owner of each entry has this ε and all others their own."""
        asked = self._joined(self._asked_of_others, (self.overlap / epsilon) ** 2)
        return self._everybody(asked)

    def with_all_at(self, epsilon: Float[Array, "*many"]) -> Float[Array, "*many"]:
        """ψ of all owners when each of them has this ε."""
        several = self.number if self.uncounted is None else 1.0
        return self._everybody(self._joined.reduce(several * self.overlap**2) / epsilon**2)

    def _everybody(self, asked: Float[Array, "*many"]) -> Float[Array, "*many"]:
        squares = np.full(np.shape(asked), float(self.number @ self.records**2))
        return self.priced(np.full(np.shape(asked), self.total), self._noise_of(asked, self.number.sum()), squares)

    def marginal_values(self) -> tuple[Float[Array, " owners"], Float[Array, " owners"]]:
        """−∂ψ/∂ε_i and −∂ψ/∂n_i: fall of ψ per unit of each owner's ε and per record."""
        n, ν = self.total, self.together_noise
        slope = self.curve.derivative(ν)
        by_epsilon = slope * 2.0 * self.sums[1] / self.epsilon / n**2
        if self.uncounted is not None:  # only the strictest owner's ε matters, and only if it is the only one
            asked, N = self._asked, float(self.number.sum())
            strictest = asked == asked.max()
            alone = strictest & (float(self.number @ strictest) == 1)
            by_epsilon = slope * alone * 2.0 * N / (N - self.uncounted) * asked / self.epsilon / n**2
        # One more record adds to the total too: κ(1/n − 1/n) stays 0, and only the noise falls.
        return np.asarray(by_epsilon), np.full(len(self.records), slope * 2.0 * ν / n)

    def break_evens(self, targets: Float[Array, " owners"]) -> list[float | None]:
        """The smallest ε of each owner, the others' as agreed, at which ψ is below its target; None where there is none."""
        return smallest_of_each(lambda ε: self._with_one_at(ε) < targets, len(self.records))

    def break_even_for_all(self, owner: int, target: float) -> float | None:
        """The smallest ε of all owners at which ψ is below `target` (A, fig. 6)."""
        return self.break_evens_for_all(np.full(len(self.records), target))[owner]

    def break_evens_for_all(self, targets: Float[Array, " owners"]) -> list[float | None]:
        """`break_even_for_all` for each owner's target."""
        return smallest_of_each(lambda ε: self.with_all_at(ε) < targets, len(self.records))

    def epsilon_for(self, target: float) -> float | None:
        """The smallest ε of all owners at which ψ ≤ target; None where there is none."""
        return smallest(lambda ε: bool(self.with_all_at(np.array([ε]))[0] <= target), 1e-6, 1e6)

    def owners_for(self, target: float, records: float, epsilon: float, most: int = 10**6) -> int | None:
        """The smallest number of equal owners of these records and ε with ψ ≤ target; None where `most` are too few."""

        def noise(N: int) -> float:
            if self.uncounted is None:
                return 1.0 / (N * (records * epsilon) ** 2)
            return 1.0 / (N * max(N - self.uncounted, 1e-30) * (records * epsilon) ** 2)

        return smallest_number(lambda N: bool(self.curve.at(noise(N)) <= target), most)

    def as_records(self, cost: float) -> float:
        """Number n' of pooled, non-private records whose model costs as much: κ/n' = ψ + κ/n; at most n."""
        return min(self.information / max(cost + self.information / self.total, 1e-300), self.total)

    def welcomes(self) -> list[float | None]:
        """The smallest ε of each owner, the others' as agreed, at which the others do not lose by its joining."""
        without = self._without_one()  # infinite for a single owner
        return smallest_of_each(lambda ε: self._with_one_at(ε) <= without, len(self.records))

    def epsilons_in_place(self) -> list[float | None]:
        """For each owner the smallest factor on the others' ε with which they reach ψ of all owners without it."""
        wanted = self.together()
        return smallest_of_each(lambda t: self._without_one(t) <= wanted, len(self.records))

    def joined_by(self, records: float, epsilon: float, overlap: float = 1.0, number: float = 1.0) -> "Consortium":
        """The owners with another entry: `number` owners of these terms."""
        return replace(
            self, records=np.append(self.records, float(records)), epsilon=np.append(self.epsilon, epsilon),
            overlap=np.append(self.overlap, float(overlap)), counts=np.append(self.number, float(number)), without=None,
        )  # fmt: skip


def coalitions(N: int) -> Bool[np.ndarray, "many owners"]:
    """All 2^N coalitions, the empty one first: row k has the binary digits of k."""
    return np.asarray((np.arange(1 << N)[:, None] >> np.arange(N)) & 1, dtype=bool)


def smallest(holds: Callable[[float], bool], lowest: float, highest: float) -> float | None:
    """The smallest number in a range that meets a monotone condition, within 0.1 %; None where none does."""
    return smallest_of_each(lambda at: np.array([holds(float(at[0]))]), 1, lowest, highest)[0]


def smallest_of_each(
    holds: Callable[[Array], Bool[np.ndarray, " each"]],
    number: int,
    lowest: float = LEAST_EPSILON,
    highest: float = MOST_EPSILON,
) -> list[float | None]:
    """`smallest` of so many conditions at once; `holds` is given a number for each."""
    low, high = (np.full(number, np.log(end)) for end in (lowest, highest))
    some, every = (holds(np.full(number, end)) for end in (highest, lowest))
    while (high - low).max() > 1e-3:
        middle = 0.5 * (low + high)
        met = holds(np.exp(middle))
        low, high = np.where(met, low, middle), np.where(met, middle, high)
    found = np.where(every, lowest, np.exp(high))
    return [float(one) if any_at_all else None for one, any_at_all in zip(found, some, strict=True)]


def smallest_number(holds: Callable[[int], bool], most: int) -> int | None:
    """The smallest number from 1 to `most` that meets a monotone condition; None where none does."""
    number = 1 + bisect_left(range(1, most + 1), True, key=holds)
    return number if number <= most else None


def shapley_values(
    members: Consortium, samples: int = 2000, seed: int = 0
) -> tuple[Float[Array, " owners"], Float[Array, " owners"]]:
    """Shapley values of one owner of each entry, and their standard errors.

    They are exact up to EXACT_OWNERS, and else estimated from `samples` random coalitions or orders of the owners.
    """
    N, kinds = int(members.number.sum()), len(members.records)
    if N <= EXACT_OWNERS:
        worth = np.append(0.0, _worth(members.one_by_one(), coalitions(N)[1:]))
        values = np.bincount(members.entries, weights=exact_shapley(worth), minlength=kinds)
        return values / members.number, np.zeros(kinds)
    if 2 * kinds <= N and kinds <= 64:
        return _by_kind(members, samples, seed)
    return _by_orders(members, samples, seed)


def exact_shapley(worth: Float[Array, " coalitions"]) -> Float[Array, " owners"]:
    """Shapley values from the worth of all 2^N coalitions, in the order of `coalitions`."""
    N = len(worth).bit_length() - 1
    every, values = coalitions(N), np.empty(N)
    share = np.array([1.0 / (N * comb(N - 1, int(size))) for size in every.sum(axis=1)[:-1]] + [0.0])
    for i in range(N):
        without = np.flatnonzero(~every[:, i])
        values[i] = float(share[without] @ (worth[without + (1 << i)] - worth[without]))
    return values


def _by_kind(members: Consortium, samples: int, seed: int) -> tuple[Array, Array]:
    """Estimate from the owners present when one more joins at a uniform time t in [0, 1] (Owen 1972).

    Each other owner is present with probability t, so that the number of each kind is binomial. The values add up to the
    worth of all owners; the difference is distributed in proportion to the variances, as in a regression.
    """
    rng, kinds = np.random.default_rng(seed), len(members.records)
    samples = max(samples, 1_000_000 // kinds**2)
    t = (np.arange(samples) + rng.random(samples)) / samples
    found = np.empty((samples, kinds))
    for j in range(kinds):
        one = np.arange(kinds) == j
        there = rng.binomial((members.number - one).astype(np.int64), t[:, None]).astype(np.float64)
        found[:, j] = _worth(members, there + one) - _worth(members, there)
    mean, variance = found.mean(axis=0), found.var(axis=0, ddof=1) / samples
    lacking = float(_worth(members, members.number[None])[0]) - float(members.number @ mean)
    pull = variance * members.number / max(float(members.number**2 @ variance), 1e-300)
    left = np.maximum(variance * (1.0 - members.number * pull), 0.0)
    return mean + pull * lacking, np.sqrt(left)


def _by_orders(members: Consortium, samples: int, seed: int) -> tuple[Array, Array]:
    """Estimate from random orders in which owners join."""
    N, kinds, of, rng = int(members.number.sum()), len(members.records), members.entries, np.random.default_rng(seed)
    has, sums = members.without_joining, members.sums
    if len(np.unique(has)) > 64:  # rounded to 64 levels
        span = np.log(np.maximum(has, 1e-12))
        step = max(float(np.ptp(span)) / 64, 1e-9)
        has = np.exp(np.round(span / step) * step)
    levels, which = np.unique(has, return_inverse=True)
    gains, every = np.empty((max(min(samples, 2_000_000 // N), 100), kinds)), np.arange(len(levels))
    for row in gains:
        order = of[rng.permutation(N)]
        joined, whose = members.priced(*(np.cumsum(each[order]) for each in sums)), which[order]
        # What all who have joined save; the levels are gone through only while some of them save nothing.
        worth = np.cumsum(levels[whose]) - np.arange(1, N + 1) * joined
        some = np.flatnonzero(joined > levels[0])
        worth[some] = 0.0
        if len(some := some[joined[some] < levels[-1]]):
            first, last = some[0], some[-1] + 1
            there = np.bincount(whose[:first], minlength=len(levels)) + np.cumsum(
                whose[first:last, None] == every, axis=0
            )
            worth[some] = (there[some - first] * np.maximum(levels - joined[some, None], 0.0)).sum(axis=1)
        worth[0] = 0.0
        row[:] = np.bincount(order, np.diff(worth, prepend=0.0), kinds) / members.number
    return gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(len(gains))


def _worth(
    members: Consortium, coalition: Bool[np.ndarray, "many owners"] | Float[Array, "many owners"]
) -> Float[Array, " many"]:
    several = coalition.sum(axis=-1) >= 2
    cost = np.where(several, members.cost(coalition), np.inf)
    each = np.maximum(members.without_joining - cost[:, None], 0.0)
    saved = np.where(coalition > 0, coalition * each, 0.0).sum(axis=-1)
    return np.asarray(np.where(several, saved, 0.0))
