"""Forecast what joining means for each owner: on everybody's records, on its own records, and for the other owners.

It combines the runs of the recommended terms (`assessment`), the models that owners have without joining
(`standalone_models`) and the value of coalitions (`coalition_value`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.forecast.assessment import Assessment, quantiles
from copriv.forecast.coalition_value import Consortium, shapley_values
from copriv.forecast.standalone_models import OwnRecords, WithoutJoining
from copriv.formatting.cards import Shown
from copriv.problem.verdict import Answer, Asked, OwnerVerdict


@dataclass(frozen=True)
class OwnerForecast(Shown):
    """What joining means for one owner. ψ throughout, on all owners' records; lower is better.

    >>> north = outlook.owners[0]
    >>> north.called, north.records, north.verdict
    ('north', 1000, 'no')
    """

    name: str
    records: int
    epsilon: float
    alone: float
    """Its own model, without noise."""
    together: float
    """The consortium's model under the recommended terms, typically: the median."""
    verdict: Answer
    """Whether joining pays, on the records that the agreement's goal names; "open" where that is not known."""
    probability: float
    """That it pays by at least what the agreement calls worthwhile."""
    joining_pays: bool | None
    """The verdict as a truth value; None where it is open."""
    close_call: bool
    """The verdict is open."""
    joining_pays_probability: float
    """The same as `probability`."""
    alone_low: float
    """5 % quantile of `alone` over worlds."""
    alone_high: float
    """95 % quantile of `alone` over worlds."""
    break_even_epsilon: float | None
    """The smallest ε of this owner at which the common model is better on everybody's records; None where no ε is enough."""
    break_even_epsilon_low: float | None
    """5 % quantile of it over worlds; None where no ε is enough even there."""
    break_even_epsilon_high: float | None
    """95 % quantile of it over worlds; None where no ε is enough."""
    break_even_epsilon_own: float | None
    """The smallest ε of this owner at which joining typically pays on its own records; None where no ε is enough."""
    break_even_epsilon_for_all: float | None
    """The same on everybody's records, with one ε for all owners."""
    marginal_value: float
    """Fall of ψ per unit of its ε."""
    marginal_value_of_a_record: float
    loss_to_others: float
    """Rise of ψ for the others if it leaves; negative where they are better off."""
    welcome_epsilon: float | None
    """The smallest ε of this owner at which the others do not lose by its joining; None where no ε is enough."""
    worth_in_records: float
    """Value of its participation in pooled, non-private records; negative where the others are better off without it."""
    worth_in_epsilon: float | None
    """Factor on the others' ε that compensates for its absence; None where no factor does."""
    in_best_subset: bool
    """Whether all owners of this table are in the best coalition; if not, the others do noticeably better without it."""
    best_weight: float
    """Its weight in the weighted mean of least cost, which replaces n_i/n."""
    shapley: float
    shapley_error: float
    own: OwnRecords
    """Cost of each model on the owner's own records."""
    on_own: OwnerVerdict
    """Whether joining pays on the owner's own records."""
    on_all: OwnerVerdict
    """Whether joining pays on everybody's records."""
    count: int = 1
    """Number of owners of these terms; the other fields describe one of them."""
    number_in_best_subset: int = 1
    """Number of these owners in the best coalition."""

    @property
    def called(self) -> str:
        """The name, with the number of owners where there are several."""
        return self.name + f" (each of {self.count:,})" * (self.count > 1)


def owners_of(
    agreement: Agreement,
    members: Consortium,
    recommended: Assessment,
    judged: WithoutJoining,
    subset: Float[np.ndarray, " owners"],
    starts: Float[np.ndarray, " worlds"],
    asked: Asked,
) -> tuple[OwnerForecast, ...]:
    """Forecast each owner table of the agreement, in its order.

    subset: number of owners of each table in the best coalition. starts: ψ of the terms' start in each world.
    """
    by_epsilon, by_record = members.marginal_values()
    without = members.loss_without()
    weights = members.best_weights()
    shapley, error = shapley_values(members)
    made, shared = [], {}
    for i, owner in enumerate(agreement.owner_tables):
        kind = judged.known and i, owner.records, owner.epsilon, owner.overlap
        if kind not in shared:  # owners of one size and budget get the same values
            shared[kind] = _of_kind(i, members, recommended, judged, float(without[i]), starts, asked)
        made.append(
            OwnerForecast(
                name=owner.name,
                records=owner.records,
                epsilon=owner.epsilon,
                together=recommended.relative_fitness.end["median"],
                marginal_value=float(by_epsilon[i]),
                marginal_value_of_a_record=float(by_record[i]),
                loss_to_others=float(without[i]),
                in_best_subset=bool(subset[i] == owner.number),
                best_weight=float(weights[i]),
                shapley=float(shapley[i]),
                shapley_error=float(error[i]),
                count=owner.number,
                number_in_best_subset=round(float(subset[i])),
                **shared[kind],
            )
        )
    return tuple(made)


def _of_kind(
    i: int,
    members: Consortium,
    recommended: Assessment,
    judged: WithoutJoining,
    loss_to_others: float,
    starts: Float[np.ndarray, " worlds"],
    asked: Asked,
) -> dict[str, Any]:
    """The fields of `OwnerForecast` that depend on an owner's size and budget only."""
    alone, target = judged.alone(i), judged.without_joining(i)
    usual = float(np.median(target))
    break_even = members.break_even(i, usual)
    low, high = quantiles(alone)
    together = members.together()
    costs, end = judged.on_own(recommended, i), recommended.relative_fitness.end["median"]
    on_own, on_all = costs.verdict(asked), judged.verdict_on_all(recommended, i, asked)
    asked_for = {"own": on_own, "common": on_all}[asked.goal]
    # Where the alternatives to joining cost more, a smaller ε is enough, although the start of the terms costs more as well.
    easy, hard = (
        members.beginning_at(float(np.quantile(starts, q))).break_even(i, float(np.quantile(target, q)))
        for q in (0.95, 0.05)
    )
    return {
        "verdict": asked_for.answer,
        "probability": asked_for.probability,
        "joining_pays": {"yes": True, "no": False, "open": None}[asked_for.answer],
        "close_call": asked_for.answer == "open",
        "joining_pays_probability": asked_for.probability,
        "on_own": on_own,
        "on_all": on_all,
        "welcome_epsilon": members.welcome(i),
        "worth_in_records": members.as_records(together) - members.as_records(together + loss_to_others),
        "worth_in_epsilon": members.epsilon_in_place_of(i),
        "alone": float(np.median(alone)),
        "alone_low": float(low),
        "alone_high": float(high),
        "own": costs.summary(),
        "break_even_epsilon": break_even,
        "break_even_epsilon_low": min(filter(None, (easy, break_even)), default=None),
        "break_even_epsilon_high": hard and break_even and max(hard, break_even),
        "break_even_epsilon_own": members.break_even(i, costs.enough(end, asked.worthwhile)),
        "break_even_epsilon_for_all": members.break_even_for_all(i, usual),
    }
