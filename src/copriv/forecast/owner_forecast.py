"""What joining means for each owner: on everybody's records, on its own, and for the others.

From the runs of the recommended terms (`assessment`), what each could have without joining (`standalone_models`), and what
owners are worth to one another (`coalition_value`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.forecast.assessment import Assessment
from copriv.forecast.coalition_value import Consortium
from copriv.forecast.quantiles import quantiles
from copriv.forecast.shapley import shapley_values
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
    """`alone` is below this in one world of twenty."""
    alone_high: float
    """`alone` is above this in one world of twenty."""
    break_even_epsilon: float | None
    """The least ε of its own at which the common model is better on everybody's records; None: there is none."""
    break_even_epsilon_low: float | None
    """In one world of twenty even less is enough; None: no ε is, even there."""
    break_even_epsilon_high: float | None
    """In nineteen worlds of twenty this is enough; None: no ε is."""
    break_even_epsilon_own: float | None
    """The least ε of its own at which joining typically pays on its own records; None: there is none."""
    break_even_epsilon_for_all: float | None
    """The least on everybody's records, with one ε for all owners."""
    marginal_value: float
    """How much ψ falls for a unit more of its ε."""
    marginal_value_of_a_record: float
    loss_to_others: float
    """How much ψ rises for the others if it leaves; negative: they are better off."""
    welcome_epsilon: float | None
    """The least ε of its own at which the others lose nothing by its coming; None: there is none."""
    worth_in_records: float
    """The value of its taking part, in pooled records without privacy; negative: the others are better off without it."""
    worth_in_epsilon: float | None
    """Factor on the others' ε that makes up for its absence; None: no ε is enough."""
    in_best_subset: bool
    """False: the others would do noticeably better without it."""
    best_weight: float
    """Its weight in place of n_i/n, in the mix of least cost."""
    shapley: float
    shapley_error: float
    own: OwnRecords
    """What each model costs on the owner's own records."""
    on_own: OwnerVerdict
    """Whether joining pays on the owner's own records."""
    on_all: OwnerVerdict
    """Whether it does on everybody's."""
    count: int = 1
    """So many owners of these terms; what is said is of one of them."""
    number_in_best_subset: int = 1
    """Of these, how many are in the best coalition."""

    @property
    def called(self) -> str:
        """The name; of several owners, with their number."""
        return self.name if self.count == 1 else f"{self.name} (each of {self.count:,})"


def owners_of(
    agreement: Agreement,
    members: Consortium,
    recommended: Assessment,
    judged: WithoutJoining,
    subset: Float[np.ndarray, " owners"],
    starts: Float[np.ndarray, " worlds"],
    asked: Asked,
) -> tuple[OwnerForecast, ...]:
    """One for each table of the agreement, in its order; what owners of one size and budget share is worked out once.

    subset: how many of each belong in. starts: ψ in each world of what terms begin with.
    """
    together = recommended.relative_fitness.end["median"]
    by_epsilon, by_record = members.marginal_values()
    without = members.loss_without()
    weights = members.best_weights()
    shapley, error = shapley_values(members)
    made, alike = [], {}
    for i, owner in enumerate(agreement.owner_tables):
        kind = i if judged.known else None, owner.records, owner.epsilon, owner.overlap
        if kind not in alike:
            alike[kind] = _of_kind(i, members, recommended, judged, float(without[i]), starts, asked)
        made.append(
            OwnerForecast(
                name=owner.name,
                records=owner.records,
                epsilon=owner.epsilon,
                together=together,
                marginal_value=float(by_epsilon[i]),
                marginal_value_of_a_record=float(by_record[i]),
                loss_to_others=float(without[i]),
                in_best_subset=bool(subset[i] == owner.number),
                best_weight=float(weights[i]),
                shapley=float(shapley[i]),
                shapley_error=float(error[i]),
                count=owner.number,
                number_in_best_subset=round(float(subset[i])),
                **alike[kind],
            )
        )
    return tuple(made)


def _of_kind(
    i: int,
    members: Consortium,
    recommended: Assessment,
    judged: WithoutJoining,
    lost: float,
    starts: Float[np.ndarray, " worlds"],
    asked: Asked,
) -> dict[str, Any]:
    """The values that owners of one size and budget share."""
    alone, target = judged.alone(i), judged.without_joining(i)
    usual = float(np.median(target))
    least = members.break_even(i, usual)
    low, high = quantiles(alone)
    together = members.together()
    on_own, on_all = (judge(recommended, i, asked) for judge in (judged.verdict_on_own, judged.verdict_on_all))
    asked_for = on_own if asked.goal == "own" else on_all
    # The curve forecasts what the terms cost at another ε; in a world where the rest costs more, less ε is enough, though
    # there what terms begin with costs more too.
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
        "worth_in_records": members.as_records(together) - members.as_records(together + lost),
        "worth_in_epsilon": members.epsilon_in_place_of(i),
        "alone": float(np.median(alone)),
        "alone_low": float(low),
        "alone_high": float(high),
        "own": judged.on_own_records(recommended, i),
        "break_even_epsilon": least,
        "break_even_epsilon_low": min((ε for ε in (easy, least) if ε is not None), default=None),
        "break_even_epsilon_high": None if hard is None or least is None else max(hard, least),
        "break_even_epsilon_own": members.break_even(i, judged.enough_on_own(recommended, i, asked.worthwhile)),
        "break_even_epsilon_for_all": members.break_even_for_all(i, usual),
    }
