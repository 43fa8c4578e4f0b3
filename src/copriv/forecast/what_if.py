"""What-if analyses of a forecast: what a target takes (`reach`), and the effect of owners that do not join (`without`).

`reach` uses the noise curve of the forecast and agrees with it. `without` forecasts the remaining owners and compares both
common models on their records in the same worlds; `of_others` is the forecast of these owners, with that comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from copriv.errors import UsageError
from copriv.forecast.assessment import assess, quantiles
from copriv.forecast.coalition_value import smallest, smallest_number
from copriv.forecast.forecaster import forecast
from copriv.forecast.result import Forecast, Without
from copriv.formatting.cards import Shown


@dataclass(frozen=True)
class Target(Shown):
    """Changes with which ψ ≤ value is reached: each field changes one quantity and leaves the others as agreed."""

    value: float
    reached_by: Literal["public", "together", "nobody"]
    """Whether the public rows alone reach it, else the recommended terms, else neither."""
    epsilon: float | None
    """The smallest common ε with which it is typically reached; None where no ε is enough."""
    epsilon_surely: float | None
    """The smallest common ε with which it is reached in 95 % of worlds and runs; None where no ε is enough."""
    records: float | None
    """The smallest factor on everybody's records; None where no factor is enough."""
    more_owners: int | None
    """Number of additional owners (`like`); None where 10,000 are too few."""
    like: tuple[int, float]
    """Records and ε of an additional owner: the medians."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON contract."""
        return {**vars(self), "like": {"records": self.like[0], "epsilon": self.like[1]}}


def reach(outlook: Forecast, value: float) -> Target:
    """Find what ψ ≤ value takes. Raises UsageError unless value is above 0."""
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
    more: int | None = 0
    if members.together() > value:
        more = smallest_number(enough, 10_000)
    return Target(
        value,
        by,
        members.epsilon_for(value),
        members.epsilon_for(value / max(spread, 1.0)),
        smallest(lambda t: replace(members, records=t * members.records).together() <= value, 1e-6, 1e6),
        more,
        like,
    )


def without(outlook: Forecast, names: Sequence[str]) -> Without:
    """Forecast the consortium without these owners, and the change of the common model in each world.

    Both common models, of all owners and of the remaining ones, are evaluated on the remaining owners' records.
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
    graph = outlook.problem.terms.agreement.graph
    if isinstance(graph, tuple):
        left = {name for table in stay for name in table.names()} | {*(outlook.problem.terms.agreement.relays or ())}
        graph = tuple(edge for edge in graph if left >= {*edge})
    kept = [table.model_dump(exclude_none=True, by_alias=True) for table in stay]
    terms = outlook.problem.terms.replace(agreement={"graph": graph}, owner=kept)
    others = forecast(outlook.problem.under(terms), **outlook.options)
    index = np.flatnonzero(np.repeat([table.name not in gone for table in tables], [table.number for table in tables]))
    both = [(w, world.without_others(terms, index)) for w, world in enumerate(outlook.worlds)]
    worlds = [(w, world) for w, world in both if world is not None]
    runs, seed = outlook.options["runs"], outlook.options["seed"]
    theirs = assess(outlook.problem.under(others.recommended.agreement), "", runs, seed, [world for _, world in worlds])
    before = np.array([world.on_all(outlook.recommended.models[w]) for w, world in worlds])
    after = np.array([world.on_all(models) for (_, world), models in zip(worlds, theirs.models, strict=True)])
    rise = after - before[:, np.arange(after.shape[1]) % before.shape[1]]
    # ψ without them is that of their own forecast; ψ with them is less by the loss.
    then, loss, price = others.together, float(np.median(rise)), others.consortium
    now = max(then - loss, 0.0)
    return Without(
        gone,
        then,
        now,
        loss,
        price.as_records(now) - price.as_records(then),
        smallest(lambda t: replace(price, epsilon=t * price.epsilon).together() <= now, 1e-4, 1e4),
        {owner.name: owner.joining_pays for owner in others.owners},
        float(np.median(rise / (1.0 + before))),
        float(np.mean(rise > 0)),
        others,
    )


def of_others(outlook: Forecast, found: Without) -> Forecast:
    """The forecast of the owners that stay, whose verdict says too what changes for them.

    Of a single one, which has nobody to train with, only the owner and the verdict are told; the rest is that of `outlook`.
    """
    if found.others is not None:
        return replace(found.others, absent=found)
    owners = tuple(
        replace(
            one, verdict="no", probability=0.0, joining_pays=False, close_call=False, joining_pays_probability=0.0,
            on_own=replace(one.on_own, answer="no", probability=0.0),
            on_all=replace(one.on_all, answer="no", probability=0.0),
        )
        for one in outlook.owners
        if one.name not in found.names
    )  # fmt: skip
    plan = replace(outlook.plan, advice="alone", advised_on="own")
    return replace(outlook, owners=owners, plan=plan, absent=found)
