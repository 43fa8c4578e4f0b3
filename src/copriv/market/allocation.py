"""The efficient allocation: who answers, at which ε, and who uses the model; and what every coalition could save.

Owner i states c_i(ε), what privacy costs it, and w_i, money for each unit of ψ. A coalition C in which the owners S answer at ε
and the owners U use the model saves

    Σ_U w_i (without_i − ψ(S, ε)) − Σ_S c_i(ε_i),    S ⊆ C, U ⊆ C,

with ψ and `without` of `copriv.forecast.coalition_value`. ψ is a minimum over lines of the noise curve, fixed + slope·ν with
ν = Σ_S (κ_i/ε_i)²/n_S². So for given S and U the most that is saved is a maximum over lines, and on each line the ε_i are
apart: each minimises (Σ_U w)·slope·(κ_i/ε)²/n_S² + c_i(ε), which has a closed form (`PrivacyCosts.least`).

v(C) is the most over S and U: nobody needs to answer in order to use the model, or to use it in order to answer. A
coalition can do what a part of it does, so that v is superadditive and Shapley values leave nobody worse off.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from copriv.forecast.coalition_value import Consortium, coalitions, exact_shapley
from copriv.formatting.cards import Shown
from copriv.market.costs import PrivacyCosts
from copriv.plan import NoiseCurve
from copriv.types import Array

EXACT_OWNERS = 8
"""Most owners for whom all S and U are searched; beyond, S is found by local search, and Shapley values from random orders."""


@dataclass(frozen=True, eq=False)
class Statements(Shown):
    """The owners' statements, with the closed forms of the forecast that value them."""

    members: Consortium
    """Records, overlaps and the *most* ε of each owner, with the cost of any coalition; one entry an owner."""
    costs: PrivacyCosts
    worth: Float[Array, " owners"]
    """w_i, in money: what a fall of ψ by 1 is worth."""

    @classmethod
    def of(cls, members: Consortium, costs: PrivacyCosts, worth: Sequence[float] | Array) -> "Statements":
        """Keep at most 32 lines of the curve, those that are lowest at equidistant levels of log ψ."""
        hull = NoiseCurve.of(members.curve.fixed, members.curve.slope)
        # The noise at which the next line is lowest.
        corners = np.append(0.0, (np.diff(hull.fixed) / -np.diff(hull.slope))[::-1])
        heights = np.log(np.maximum(hull.at(corners), 1e-300))
        ν = np.append(np.interp(np.linspace(heights[0], heights[-1], 31), heights, corners), 2.0 * corners[-1])
        best = np.unique(np.argmin(hull.fixed + hull.slope * ν[:, None], axis=1))
        curve = NoiseCurve(hull.fixed[best], hull.slope[best])
        return cls(replace(members, curve=curve), costs, np.asarray(worth, dtype=np.float64))

    @property
    def number(self) -> int:
        """N."""
        return len(self.worth)

    def fitness(self, epsilon: Float[Array, "*many owners"]) -> Float[Array, "*many"]:
        """ψ of the model of the owners with ε above 0; infinite where nobody answers."""
        answers = np.asarray(epsilon) > 0
        with np.errstate(divide="ignore"):
            asked = np.where(answers, (self.members.overlap / epsilon) ** 2, 0.0).sum(axis=-1)
        n = self.members.records
        return self.members.priced(*map(np.asarray, (answers @ n, asked, answers @ n**2)))

    def gains(self, fitness: float | Float[Array, "*many"]) -> Float[Array, "*many owners"]:
        """w_i (without_i − ψ) of each owner, in money; 0 for those who are better off with what they have."""
        better = self.members.without_joining - np.asarray(fitness)[..., None]
        return np.asarray(self.worth * np.maximum(better, 0.0))

    def saved(self, epsilon: Float[Array, "*many owners"]) -> Float[Array, "*many"]:
        """Savings of all owners with the model of these ε, in money."""
        return np.asarray((self.gains(self.fitness(epsilon)) - self.costs.at(epsilon)).sum(axis=-1))

    def spent(
        self, answers: Bool[np.ndarray, "many owners"], worth: Float[Array, " several"]
    ) -> tuple[Float[Array, "many several"], Float[Array, "many several owners"]]:
        """The least of worth·ψ + Σ c_i over ε for owners that answer, and the ε; worth: Σ_U w_i."""
        m, n = self.members, self.members.records
        n_S, squares = answers @ n, answers @ n**2
        floor = m.priced(n_S, np.zeros(len(n_S)), squares) - float(m.curve.at(0.0))  # all of ψ but the curve
        W = worth[:, None]
        pull = W * m.curve.slope / n_S[:, None, None] ** 2  # many, several, lines
        least, ε = self.costs.least(pull[..., None] * m.overlap**2)
        total = W * (floor[:, None, None] + m.curve.fixed) + (least @ answers[:, None, :, None])[..., 0]
        line = np.argmin(total, axis=-1)[..., None]
        chosen = np.take_along_axis(ε, line[..., None], axis=2)[:, :, 0]
        return np.take_along_axis(total, line, -1)[..., 0], chosen * answers[:, None]


def coalition_values(stated: Statements) -> tuple[Float[Array, " coalitions"], Float[Array, " owners"]]:
    """v(C) of all 2^N coalitions, in the order of `coalitions`, and the ε of all together; exact."""
    N, every = stated.number, coalitions(stated.number)
    saved, most, ε = np.zeros((len(every), len(every))), 0.0, np.zeros(N)  # of S and U; nobody answers in row 0
    has, worth = every @ (stated.worth * stated.members.without_joining), every @ stated.worth
    for k in range(1, len(every)):
        spent, there = stated.spent(every[k : k + 1], worth)
        # Where only one owner takes part nothing is saved: nobody needs a market for its own records.
        saved[k] = np.where((every[k] | every).sum(axis=1) > 1, has - spent[0], 0.0)
        if saved[k].max() > most:
            most, ε = float(saved[k].max()), there[0, np.argmax(saved[k])]
    for i in range(N):  # the most over all parts of S, then of U
        for axis in (0, 1):
            parts = np.moveaxis(saved, axis, 0).reshape(-1, 2, 1 << i, len(every))
            parts[:, 1] = np.maximum(parts[:, 1], parts[:, 0])
            saved = np.moveaxis(parts.reshape(len(every), -1), 0, axis).copy()
    return np.diagonal(saved).copy(), ε


def shapley_shares(
    stated: Statements, seed: int = 0
) -> tuple[Float[Array, " owners"], Float[Array, " owners"], Float[Array, " owners"]]:
    """The ε of the efficient allocation (0: does not answer), the Shapley values of v, in money, and their standard errors.

    Exact up to EXACT_OWNERS owners.
    """
    if stated.number > EXACT_OWNERS:
        return _by_orders(stated, seed)
    v, ε = coalition_values(stated)
    return ε, exact_shapley(v), np.zeros(stated.number)


def _searched(
    stated: Statements, inside: Bool[np.ndarray, " owners"], begin: Bool[np.ndarray, " owners"] | None = None
) -> tuple[float, Float[Array, " owners"]]:
    """Savings of a coalition and its ε, by local search that adds or removes one owner; users follow the model."""
    N, best = stated.number, (0.0, np.zeros(stated.number))
    if inside.sum() < 2:
        return best
    singles = np.eye(N, dtype=bool)[inside]
    cheapest = singles[np.argmin(stated.spent(singles, np.array([stated.worth[inside].sum()]))[0])]
    for start in (inside, cheapest) if begin is None else (begin,):
        answers, users = start, inside
        for _ in range(10 * N):
            moved = np.concatenate([answers[None], answers ^ singles])
            moved = moved[moved.any(axis=1)]
            spent, ε = stated.spent(moved, np.array([stated.worth[users].sum()]))
            k = int(np.argmin(spent[:, 0]))
            gains = stated.gains(stated.fitness(ε[k, 0])) * inside
            saved, before = float(gains.sum() - stated.costs.at(ε[k, 0]).sum()), users
            stays, answers, users = bool((moved[k] == answers).all()), moved[k], gains > 0
            if saved > best[0] * (1.0 + 1e-12):
                best = saved, ε[k, 0]
            elif not users.any() or (stays and (users == before).all()):
                break
    return best


def _by_orders(stated: Statements, seed: int) -> tuple[Array, Array, Array]:
    N, rng = stated.number, np.random.default_rng(seed)
    whole, best = _searched(stated, np.ones(N, dtype=bool))
    found = np.zeros((60, N))  # random orders
    for row in found:
        inside, answers, before = np.zeros(N, dtype=bool), np.zeros(N, dtype=bool), 0.0
        for place, i in enumerate(rng.permutation(N)):
            inside[i] = True
            saved, ε = _searched(stated, inside.copy(), answers | (np.arange(N) == i))
            saved = min(max(saved, before), whole) if place < N - 1 else whole
            answers = ε > 0
            row[i], before = saved - before, saved
    return best, found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
