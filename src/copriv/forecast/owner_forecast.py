"""Forecast what joining means for each owner: on everybody's records, on its own records, and for the other owners.

It combines the runs of the recommended terms (`assessment`), the models that owners have without joining
(`standalone_models`) and the value of coalitions (`coalition_value`). `best_split` divides budgets where owners share records.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.forecast.assessment import Assessment, quantiles
from copriv.forecast.coalition_value import Consortium, shapley_values
from copriv.forecast.standalone_models import OwnRecords, WithoutJoining
from copriv.formatting.cards import Shown
from copriv.plan.plan_result import NoiseCurve
from copriv.problem.verdict import Answer, Asked, OwnerVerdict, just_worthwhile
from copriv.types import Array, Whole


@dataclass(frozen=True)
class OwnerForecast(Shown):
    """Forecast of one owner: its models, the verdict, and its value to the others. Costs are ψ on all owners' records.

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
    """ψ of the common model on everybody's records below which joining typically pays, on the records that the goal names; 0
    where none is enough."""
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
    pays_epsilon: float | None
    """The smallest ε of this owner at which joining typically pays, on the records that the goal names; None where no ε is
    enough. It is better there by what is worthwhile, which a break-even ε does not ask for on everybody's records."""
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
    tables = agreement.owner_tables
    first = judged.assessed_as([owner.records for owner in tables])
    models = {i: _Models.of(judged, recommended, i, asked) for i in dict.fromkeys(first)}
    of = [models[i] for i in first]
    usual = np.array([one.usual for one in of])
    break_even = members.break_evens(usual)
    # Where the alternatives to joining cost more, a smaller ε is enough, although the start of the terms costs more as well.
    now, without_joining = members.together(), members.without_joining
    easy, hard = (
        members.held_to(now, without_joining, float(np.quantile(starts, q))).break_evens(
            np.array([one.target[end] for one in of])
        )
        for q, end in ((0.95, 1), (0.05, 0))
    )
    on_own = members.break_evens(np.array([one.enough for one in of]))
    for_all = members.break_evens_for_all(usual)
    pays = members.break_evens(np.array([one.fields["pays_below"] for one in of]))
    welcome, in_place = members.welcomes(), members.epsilons_in_place()
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
            worth_in_records=members.as_records(now) - members.as_records(now + float(without[i])),
            worth_in_epsilon=in_place[i],
            break_even_epsilon=break_even[i],
            break_even_epsilon_low=min(filter(None, (easy[i], break_even[i])), default=None),
            break_even_epsilon_high=None
            if None in (hard[i], break_even[i])
            else max(filter(None, (hard[i], break_even[i]))),
            pays_epsilon=pays[i],
            break_even_epsilon_own=on_own[i],
            break_even_epsilon_for_all=for_all[i],
            **of[i].fields,
        )
        for i, owner in enumerate(tables)
    )


@dataclass(frozen=True)
class _Models:
    """Part of an owner's forecast that does not depend on its ε: its models, and their costs."""

    usual: float
    """ψ of the better of its own model and the public one, typically."""
    target: tuple[float, float]
    """5 % and 95 % quantiles of it over worlds."""
    enough: float
    """The largest ψ of the common model with which joining typically pays on its own records."""
    fields: dict[str, Any]
    """Fields of `OwnerForecast`."""

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
            "pays_below": {"own": enough, "common": max(float(just_worthwhile(usual, asked.worthwhile)), 0.0)}[
                asked.goal
            ],
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


def best_split(
    price: Float[Array, " owners"], epsilon: Float[Array, " owners"], overlap: Int[Whole, " owners"]
) -> tuple[Float[Array, " owners"], float]:
    """The best split of a record's budget among the owners that hold it, in place of ε_i/κ_i each.

    Returns each owner's budget ε′_i for a record, and the noise Σ a_i/ε′_i² relative to that of ε_i/κ_i, at most 1.
    price: a_i = (w_i/n_i)²; epsilon: ε_i; overlap: κ_i, the most holders of a record. A record that κ owners hold is answered
    for by all of them, and what they spend on it adds up (S, after Assumption 1). With ε_i/κ each, a person whose record stands
    with owners S loses at most (1/κ) Σ_S ε_i ≤ max_S ε_i: the largest promise among those who hold it. Any ε′ keeps the same
    promise where, for every set S of owners that may hold one record, |S| ≤ min_S κ_i,

        Σ_S ε′_i ≤ max_S ε_i,    with one κ, for every i:  ε′_i + (the κ−1 largest ε′_j of others with ε_j ≤ ε_i) ≤ ε_i,

    so the split is chosen that makes the noise least: min Σ_i a_i/ε′_i². Equal budgets and weights n_i/n leave nothing to gain;
    an owner with a small ε among owners with large ones hardly has to divide. The minimum is a convex program. Constraints that
    a solution violates are added until it violates none, and the last solution is scaled to satisfy all of them exactly.
    """
    from scipy.optimize import minimize  # slow to import, and needed for shared records only

    a, ε, κ = price, epsilon, overlap
    plain = ε / κ
    best = float(np.sum(a / plain**2))
    if (κ <= 1).all():
        return plain, 1.0
    A, b, x = np.eye(len(ε)), ε, plain
    for _ in range(50):
        # In units of ε_i/κ_i and of its noise: the solver needs numbers near 1.
        found = minimize(
            lambda u: float(np.sum(a / (plain * u) ** 2)) / best,
            x / plain,
            jac=lambda u: -2.0 * a / plain**2 / u**3 / best,
            bounds=[(1e-3, None)] * len(ε),
            constraints={
                "type": "ineq",
                "fun": lambda u, A=A, b=b: b - A @ (plain * u),
                "jac": lambda u, A=A: -A * plain,
            },
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-14},
        )
        x = np.maximum(plain * found.x, 1e-3 * plain)
        sets = np.array([_holders(x, ε, κ, i) for i in range(len(ε))])
        broken = sets @ x > ε * (1.0 + 1e-9)
        if not broken.any():
            break
        A, b = np.vstack([A, sets[broken]]), np.append(b, ε[broken])
    x = x / max(1.0, max(float(_holders(x, ε, κ, i) @ x / ε[i]) for i in range(len(ε))))
    noise = float(np.sum(a / x**2)) / best
    return (plain, 1.0) if noise >= 1.0 else (x, noise)


def split_of(agreement: Agreement, curve: NoiseCurve) -> dict[str, Any] | None:
    """The best split and its noise and ψ, for the JSON; None where no record has two holders, or owners are too many."""
    κ = agreement.overlaps.astype(np.int64)
    if (κ <= 1).all() or len(κ) > 100 or agreement.summed:
        return None
    price = (agreement.weights / agreement.records) ** 2
    (ε, noise), ν = best_split(price, agreement.epsilons, κ), float(np.sum(price * (κ / agreement.epsilons) ** 2))
    return {
        "epsilon": ε.tolist(),
        "noise": noise,
        "relative_fitness": float(curve.at(ν * noise)),
        "relative_fitness_as_agreed": float(curve.at(ν)),
    }


def _holders(
    x: Float[Array, " owners"], ε: Float[Array, " owners"], κ: Int[Whole, " owners"], i: int
) -> Float[Array, " owners"]:
    """Indicator of the set that spends most among those in which owner i has the largest ε."""
    below = sorted((j for j in range(len(ε)) if (ε[j], j) < (ε[i], i)), key=lambda j: -x[j])
    # An owner is in no set larger than the number of holders that its records may have.
    sets = [[i, *[j for j in below if κ[j] >= size][: size - 1]] for size in range(1, int(κ[i]) + 1)]
    return np.isin(np.arange(len(ε)), max(sets, key=lambda one: float(np.sum(x[one])))).astype(np.float64)
