"""Choose the setting of least maximal regret over the owners' heterogeneity.

A plan for equal owners can cost a hundred times too much where owners differ: the average of models that each owner fitted is
far from the best common one, however large the budget. Gradients at a common point do not have this error. Therefore the best
settings of every kind are run in worlds with a few levels u of heterogeneity (`copriv.populations.dealt`), from the range that
is stated or that real tables show. The plan is the setting of least

    regret  =  max over u of  ψ(setting, u) / least ψ(any, u).

Where owners are known to be alike, the plan is not changed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.plan.aggregated_runs import mean_cost
from copriv.plan.plan_result import Choice, Plan
from copriv.populations.dealt import heterogeneous_worlds, laws_of
from copriv.populations.public_sample import PublicSample
from copriv.populations.world import World
from copriv.terms.heterogeneity import Heterogeneity
from copriv.types import Array

LEVELS = (0.05, 0.5, 0.95)
"""Quantiles of heterogeneity at which settings are run."""
REGRET_WORLDS, REGRET_RUNS = 3, 8
"""Worlds at each level, and runs in each world."""


@dataclass(frozen=True, eq=False)
class Caution:
    """The settings that were run, and the cost of each at each level of heterogeneity."""

    heterogeneity: Heterogeneity
    levels: tuple[float, ...]
    choices: tuple[Choice, ...]
    relative_fitness: Float[Array, "choices levels"]
    """E ψ of each choice at each level."""
    chosen: int
    if_alike: Choice
    """The choice for equal owners."""

    @property
    def regret(self) -> Float[Array, "choices levels"]:
        """ψ over the least ψ at that level; 1 is best."""
        return _regret(self.relative_fitness)

    @property
    def holds_to(self) -> float:
        """The largest level up to which the choice costs at most twice the best; 0 if there is none."""
        reached = 0.0
        for level, regret in zip(self.levels, self.regret[self.chosen], strict=True):
            if not regret <= 2.0:
                break
            reached = level
        return reached

    @property
    def price(self) -> float:
        """ψ of the choice over ψ of `if_alike` for equal owners."""
        return self.choices[self.chosen].relative_fitness / max(self.if_alike.relative_fitness, 1e-300)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of a forecast's JSON contract."""
        return {"holds_to": self.holds_to, "price": self.price, "if_alike": self.if_alike.describe()}


def cautious(sample: PublicSample, found: Plan, heterogeneity: Heterogeneity, seed: int = 0) -> Plan:
    """The plan with the choice of least maximal regret; the same plan for a single owner or for equal ones."""
    if heterogeneity.alike or sample.problem.terms.n_owners == 1:
        return found
    begun = time.perf_counter()
    # The best setting of each mechanism and rule, then the best of each other kind; at most eight.
    best: dict[object, Choice] = {}
    for choice in found.measured:
        terms = choice.agreement.agreement
        best.setdefault((terms.mechanism, terms.rule, terms.window > 1), choice)
    first = list(best.values())
    for choice in found.measured:
        if choice not in first:
            best.setdefault(choice.kind, choice)
    short = tuple(best.values())[:8]
    levels = tuple(_worlds(sample, heterogeneity, seed))
    cost = np.array([_cost_at_levels(sample, heterogeneity, seed, choice) for choice in short])
    chosen = int(np.argmin(_regret(cost).max(axis=1)))
    caution = Caution(heterogeneity, levels, short, cost, chosen, found.choice)
    seconds = found.seconds + time.perf_counter() - begun
    return replace(found, choice=short[chosen], caution=caution, seconds=seconds)


def _regret(cost: Float[Array, "choices levels"]) -> Float[Array, "choices levels"]:
    """Cost over the least one. Costs below 1e-12 are rounding errors and count as equal."""
    return np.asarray(np.maximum(cost, 1e-12) / np.maximum(cost.min(axis=0), 1e-12))


@lru_cache(maxsize=16)
def _cost_at_levels(sample: PublicSample, heterogeneity: Heterogeneity, seed: int, choice: Choice) -> list[float]:
    """E ψ of a choice at each level; a forecast plans twice among some of the same choices."""
    worlds = _worlds(sample, heterogeneity, seed).values()
    return [mean_cost(one, choice.agreement, REGRET_RUNS, seed) for one in worlds]


@lru_cache(maxsize=1)
def _worlds(sample: PublicSample, heterogeneity: Heterogeneity, seed: int) -> dict[float, Sequence[World]]:
    """Worlds at each level of heterogeneity."""
    laws = laws_of(sample)
    if laws is not None:
        drawn = sorted(laws.drawn(len(LEVELS) * REGRET_WORLDS, seed), key=lambda world: world.heterogeneity)
        parts = [drawn[i * REGRET_WORLDS : (i + 1) * REGRET_WORLDS] for i in range(len(LEVELS))]
        return {float(np.mean([world.heterogeneity for world in part])): part for part in parts}
    levels = [heterogeneity.value]
    if heterogeneity.high > heterogeneity.low:
        levels = [heterogeneity.quantile(q) for q in LEVELS]
    return {u: heterogeneous_worlds(sample, sample.problem.terms, [u] * REGRET_WORLDS, seed) for u in levels}
