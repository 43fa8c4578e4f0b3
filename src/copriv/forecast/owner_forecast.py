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
    pays_below: float
    """ψ of the common model on everybody's records below which joining typically pays, on the records that the goal names."""
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
    tables, models = agreement.owner_tables, {}
    of, all_sizes = [], len(agreement.owner_tables) <= ALL_SIZES
    for i, owner in enumerate(tables):
        kind = i if judged.known else owner.records if all_sizes else round(100.0 * np.log(owner.records))
        if kind not in models:  # what an owner has without joining depends on its size alone
            models[kind] = _Models.of(judged, recommended, i, asked)
        of.append(models[kind])
    usual = np.array([one.usual for one in of])
    break_even = members.break_evens(usual)
    # Where the alternatives to joining cost more, a smaller ε is enough, although the start of the terms costs more as well.
    easy, hard = (
        members.beginning_at(float(np.quantile(starts, q))).break_evens(np.array([one.target[end] for one in of]))
        for q, end in ((0.95, 1), (0.05, 0))
    )
    on_own = members.break_evens(np.array([one.enough for one in of]))
    for_all = members.break_evens_for_all(usual)
    welcome, in_place, together = members.welcomes(), members.epsilons_in_place(), members.together()
    return tuple(
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
            welcome_epsilon=welcome[i],
            worth_in_records=members.as_records(together) - members.as_records(together + float(without[i])),
            worth_in_epsilon=in_place[i],
            break_even_epsilon=break_even[i],
            break_even_epsilon_low=min(filter(None, (easy[i], break_even[i])), default=None),
            break_even_epsilon_high=None
            if None in (hard[i], break_even[i])
            else max(filter(None, (hard[i], break_even[i]))),
            break_even_epsilon_own=on_own[i],
            break_even_epsilon_for_all=for_all[i],
            **of[i].fields,
        )
        for i, owner in enumerate(tables)
    )


ALL_SIZES = 256
"""Most tables whose owners' own models are all assessed; of more, those whose records differ by 1 % or less share one."""


@dataclass(frozen=True)
class _Models:
    """What joining means for an owner whatever its ε: the models that it has, and what they cost."""

    usual: float
    """ψ of the better of its own model and the public one, typically."""
    target: tuple[float, float]
    """5 % and 95 % quantiles of it over worlds."""
    enough: float
    """The largest ψ of the common model with which joining typically pays on its own records."""
    fields: dict[str, Any]
    """Of `OwnerForecast`."""

    @classmethod
    def of(cls, judged: WithoutJoining, recommended: Assessment, i: int, asked: Asked) -> "_Models":
        alone, target = judged.alone(i), judged.without_joining(i)
        low, high = quantiles(alone)
        costs, end = judged.on_own(recommended, i), recommended.relative_fitness.end["median"]
        on_own, on_all = costs.verdict(asked), judged.verdict_on_all(recommended, i, asked)
        asked_for = {"own": on_own, "common": on_all}[asked.goal]
        usual, enough = float(np.median(target)), costs.enough(end, asked.worthwhile)
        fields = {
            "verdict": asked_for.answer,
            "probability": asked_for.probability,
            "pays_below": {"own": enough, "common": usual}[asked.goal],
            "joining_pays": {"yes": True, "no": False, "open": None}[asked_for.answer],
            "close_call": asked_for.answer == "open",
            "joining_pays_probability": asked_for.probability,
            "on_own": on_own,
            "on_all": on_all,
            "alone": float(np.median(alone)),
            "alone_low": float(low),
            "alone_high": float(high),
            "own": costs.summary(),
        }
        ends = (float(np.quantile(target, 0.05)), float(np.quantile(target, 0.95)))
        return cls(usual, ends, enough, fields)
