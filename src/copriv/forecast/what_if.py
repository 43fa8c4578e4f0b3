"""Questions to a forecast: what it would take to reach a target (`reach`), and what if some owners stay away (`without`).

The first is answered from the forecast's own curve, so that it agrees with the rest of it; the second by a forecast for
those that stay, and by judging both common models on what they hold in the same worlds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from copriv.errors import UsageError
from copriv.forecast.assessment import assess
from copriv.forecast.coalition_value import least, least_number
from copriv.forecast.forecaster import forecast
from copriv.forecast.quantiles import quantiles
from copriv.forecast.result import Forecast
from copriv.formatting.cards import Shown
from copriv.populations.world import HOPELESS, World
from copriv.types import Array

MOST_MORE_OWNERS = 10_000


@dataclass(frozen=True)
class Target(Shown):
    """What it takes to reach ψ ≤ value. Each of the ways changes one thing, and leaves the rest as agreed."""

    value: float
    reached_by: Literal["public", "together", "nobody"]
    """The public rows alone; the recommended terms; nothing as it is agreed now."""
    epsilon: float | None
    """The least ε, the same for every owner, with which it is typically reached; None: no ε is enough."""
    epsilon_surely: float | None
    """With which it is reached in 95 % of worlds and runs."""
    records: float | None
    """By how much everybody's records would have to be multiplied; None: no number is enough."""
    more_owners: int | None
    """How many more owners like the typical one of these (`like`); None: not even MOST_MORE_OWNERS."""
    like: tuple[int, float]
    """Records and ε of that owner: the medians."""

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract."""
        return {**vars(self), "like": {"records": self.like[0], "epsilon": self.like[1]}}


@dataclass(frozen=True)
class Without(Shown):
    """The consortium without some of its owners. ψ is on the others' records, above the best model of these."""

    names: tuple[str, ...]
    together: float
    """ψ that the others would typically reach, under the terms that are best for them."""
    together_with_all: float
    """ψ there of the common model of all."""
    loss: float
    """How much ψ rises for the others, in the same world: the median; below 0 they are better off."""
    worth_in_records: float
    """The loss in pooled records without privacy."""
    times_epsilon: float | None
    """How many times the others' ε would have to be to make up for it; None: no ε is enough."""
    joining_pays: dict[str, bool | None]
    """For each that stays, whether it then still does; None where that is open."""
    worse: float
    """Median relative rise of the prediction error of the common model on the others' records; below 0 it falls."""
    probability: float
    """That the common model becomes worse for the others, over worlds and runs."""
    others: Forecast | None
    """The forecast for those that stay; None where only one does."""

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract: of the forecast for the others, its verdicts."""
        told = {key: value for key, value in vars(self).items() if key != "others"}
        owners = () if self.others is None else self.others.owners
        verdicts = [
            {"name": one.name, "verdict": one.verdict, "probability": one.probability, "own": vars(one.own)}
            for one in owners
        ]
        sentence = None if self.others is None else self.others.verdict
        return {**told, "names": list(self.names), "verdict": sentence, "owners": verdicts}


def reach(outlook: Forecast, value: float) -> Target:
    """What it takes to reach ψ ≤ value. Raises UsageError unless value is above 0."""
    if not (np.isfinite(value) and value > 0):
        raise UsageError("target: how far above the best possible the model may be, above 0; such as 2% or 0.02")
    members = outlook.consortium
    spread = float(quantiles(outlook.recommended.draws, [0.95])[0]) / max(outlook.together, 1e-300)
    each = members.one_by_one()
    like = int(np.median(each.records)), float(np.median(each.epsilon))

    def enough(more: int) -> bool:
        # As many owners of one kind, as one: (κ/ε)² adds up.
        return members.joined_by(more * like[0], like[1] / np.sqrt(more)).together() <= value

    by: Literal["public", "together", "nobody"] = "nobody"
    if outlook.public_only <= value:
        by = "public"
    elif outlook.together <= value:
        by = "together"
    return Target(
        value,
        by,
        members.epsilon_for(value),
        members.epsilon_for(value / max(spread, 1.0)),
        least(lambda t: replace(members, records=t * members.records).together() <= value, 1e-6, 1e6),
        0 if members.together() <= value else least_number(enough, MOST_MORE_OWNERS),
        like,
    )


def without(outlook: Forecast, names: Sequence[str]) -> Without:
    """The others, if these stay away: their own forecast, and what becomes of their common model, world by world.

    Both common models, of all and of those that stay, are judged on what those that stay hold, in the same worlds.
    Raises UsageError for names that no owner has, and where nobody would be left.
    """
    members, known = outlook.consortium, [owner.name for owner in outlook.owners]
    for name in names:
        if name not in known:
            raise UsageError(f"without: no owner is called {name!r}; they are {', '.join(known[:12])}")
    tables = outlook.problem.terms.owner_tables
    stay = [table for table in tables if table.name not in names]
    if not stay:
        raise UsageError("without: nobody would be left; leave at least one owner in")
    gone = tuple(name for name in known if name in names)
    if sum(table.number for table in stay) == 1:
        cost, together = float(members.cost(np.array([name not in gone for name in known]))), members.together()
        loss = cost - together
        lost = members.as_records(together) - members.as_records(cost)
        worse = loss / (1.0 + together)
        return Without(gone, cost, together, loss, lost, None, {stay[0].name: False}, worse, float(loss > 0), None)
    terms = outlook.problem.terms.replace(owner=[table.model_dump(exclude_none=True, by_alias=True) for table in stay])
    others = forecast(outlook.problem.under(terms), **outlook.options)
    index = np.flatnonzero(np.repeat([table.name not in gone for table in tables], [table.number for table in tables]))
    both = [(w, world.without_others(terms, index)) for w, world in enumerate(outlook.worlds)]
    worlds = [(w, world) for w, world in both if world is not None]
    runs, seed = outlook.options["runs"], outlook.options["seed"]
    theirs = assess(outlook.problem.under(others.recommended.agreement), "", runs, seed, [world for _, world in worlds])
    before = np.array([_psi(world, outlook.recommended.models[w]) for w, world in worlds])
    after = np.array([_psi(world, models) for (_, world), models in zip(worlds, theirs.models, strict=True)])
    rise = after - before[:, np.arange(after.shape[1]) % before.shape[1]]
    # Held to the forecast for the others, so that its model has one cost wherever it is told.
    then, loss, price = others.together, float(np.median(rise)), others.consortium
    now = max(then - loss, 0.0)
    return Without(
        gone,
        then,
        now,
        loss,
        price.as_records(now) - price.as_records(then),
        least(lambda t: replace(price, epsilon=t * price.epsilon).together() <= now, 1e-4, 1e4),
        {owner.name: owner.joining_pays for owner in others.owners},
        float(np.median(rise / (1.0 + before))),
        float(np.mean(rise > 0)),
        others,
    )


def _psi(world: World, models: Float[Array, "runs p"]) -> Float[Array, " runs"]:
    """ψ of models on the records of a world's owners."""
    return np.asarray(np.clip(world.pool.fitness.value(models) / world.pool.optimum.value - 1.0, 0.0, HOPELESS))
