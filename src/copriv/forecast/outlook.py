"""`forecast`: what the agreed terms will cost, what the best terms would, and for whom joining pays.

What private data could tell is replaced by the public sample and by how wrong it may be: everything is a mean, a quantile
or a share over worlds (`copriv.worlds`), so that what is said of terms (`assessment`), of going without them
(`judgement`) and of both together hangs together.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.errors import UsageError
from copriv.forecast.assessment import RUNS, WORLDS, Assessment, assess
from copriv.forecast.bounds import setting_of
from copriv.forecast.judgement import OwnRecords as OwnRecords
from copriv.forecast.judgement import judged
from copriv.forecast.owners import OwnerForecast as OwnerForecast
from copriv.forecast.owners import owners_of
from copriv.forecast.value import Consortium
from copriv.owner_worlds import OwnerWorld
from copriv.plan import Plan, plan
from copriv.problem import Problem
from copriv.public_sample import PublicSample
from copriv.rules import named
from copriv.rules.bounds import Bound
from copriv.simulation.result import NOT_PRIVATE
from copriv.threads import on_one_thread
from copriv.types import Loss
from copriv.unlike_worlds import UnlikeWorld, unlike_worlds, unlikeness_of, worlds_of
from copriv.unlikeness import Unlikeness

LEVEL_WORLDS = 8
"""Worlds at each level of unlikeness."""
WIDE = 100.0
"""A band whose ends are further apart than this says more of what is not known than of the cost."""


@dataclass(frozen=True)
class AtUnlikeness:
    """ψ of the recommended terms at one unlikeness."""

    unlikeness: float
    mean: float
    median: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Forecast:
    """All that can be said before any private record is touched."""

    agreed: Assessment
    recommended: Assessment
    plan: Plan
    public_only: float
    """ψ of the model fitted on the public sample alone."""
    public_only_band: tuple[float, float]
    """Where that is in 90 % of worlds."""
    public_rows: int
    n_parameters: int
    bounds: tuple[Bound, ...]
    optimum: float
    """f(θ*) on the public rows: bounds are on the cost, ψ·f(θ*)."""
    owners: tuple[OwnerForecast, ...]
    consortium: Consortium
    best_subset: float
    """ψ of the best subset of owners."""
    best_weights: float
    """ψ under the best weights."""
    description: str
    unlikeness: Unlikeness
    """How unlike the owners are taken to be, and who says so."""
    at_unlikeness: tuple[AtUnlikeness, ...]
    """The recommended terms, were owners alike, as unlike as they are taken to be, and twice as unlike."""

    @property
    def joining_pays(self) -> bool:
        """For at least one owner."""
        return any(owner.joining_pays for owner in self.owners)

    @property
    def n_owners(self) -> int:
        """All of them; `owners` has those of one table once."""
        return sum(owner.count for owner in self.owners)

    @property
    def probability(self) -> float:
        """That the verdict is right: of "joining pays" for somebody, or for nobody, whichever it says."""
        somebody = max(owner.joining_pays_probability for owner in self.owners)
        return somebody if self.joining_pays else 1.0 - somebody

    @property
    def advice(self) -> str:
        """ "join"; "public": the model of the public rows is better; "alone": an owner's own is, and nobody should start."""
        return self.plan.advice

    @property
    def caution(self) -> str | None:
        """Where the public rows know too little for a number: what they do say."""
        ψ = self.recommended.relative_fitness
        low, high = float(ψ.low[-1]), float(ψ.high[-1])
        if high <= WIDE * low and self.public_rows >= 3 * self.n_parameters:
            return None
        return (
            f"{self.public_rows:,} public rows for {self.n_parameters} parameters: the cost lies between "
            f"{_percent(low)} and {_percent(high)}."
        )

    @property
    def verdict(self) -> str:
        """One sentence for the people who decide."""
        ψ = float(self.recommended.relative_fitness.mean[-1])
        gain = [owner.called for owner in self.owners if owner.joining_pays]
        if not gain:
            alone = min(owner.alone for owner in self.owners)
            better = "the public model alone" if self.public_only <= alone else "the best owner's own model"
            return (
                f"Joining does not pay for anybody: together the model would be {_percent(ψ)} worse than the best "
                f"possible, {better} only {_percent(min(alone, self.public_only))}. "
                f"Raise epsilon, bring more records, or do not train together. {self._sure}"
            )
        who = "everybody" if len(gain) == len(self.owners) else _list(gain)
        return (
            f"Joining pays for {who}: together the model would be {_percent(ψ)} worse than the best possible without "
            f"privacy; the public rows alone reach {_percent(self.public_only)}. {self._sure}"
        )

    @property
    def _sure(self) -> str:
        words = f"That is right with a probability of {100 * self.probability:.0f} %."
        return words if self.caution is None else f"{words} {self.caution}"

    def shown(self, bound: Bound) -> float:
        """A bound on the cost as one on ψ; a bound on the parameters in their own unit."""
        return bound.value / self.optimum if bound.quantity == "cost" else bound.value

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract `copriv.forecast/1`, with additions."""
        document = {
            "schema": "copriv.forecast/1",
            "agreed": self.agreed.to_dict(),
            "recommended": self.recommended.to_dict(),
            "public_only": self.public_only,
            "bounds": [
                {
                    "source": bound.source, "value": self.shown(bound), "holds_for": bound.holds_for,
                    "quantity": bound.quantity, "conditions_met": bound.conditions_met,
                }
                for bound in self.bounds
            ],
            "owners": [{**vars(owner), "own": vars(owner.own)} for owner in self.owners],
            "unlikeness": vars(self.unlikeness),
            "at_unlikeness": [vars(one) for one in self.at_unlikeness],
            "plan_caution": None if self.plan.caution is None else {
                "holds_to": self.plan.caution.holds_to,
                "price": self.plan.caution.price,
                "if_alike": self.plan.caution.if_alike.describe(),
            },
            "joining_pays": self.joining_pays,
            "probability": self.probability,
            "advice": self.advice,
            "advice_in_words": self.plan.advice_in_words,
            "caution": self.caution,
            "public_only_band": {"low": self.public_only_band[0], "high": self.public_only_band[1]},
            "verdict": self.verdict,
            "best_subset": self.best_subset,
            "best_weights": self.best_weights,
            "runner_up": None if self.plan.runner_up is None else {
                "words": self.plan.runner_up.describe(), "relative_fitness": self.plan.runner_up.relative_fitness,
            },
            "trades": {
                name: [{"words": c.describe(), "relative_fitness": c.relative_fitness} for c in sides]
                for name, sides in self.plan.trades().items()
            },
            "flatness": self.plan.flatness,
            "description": self.description,
        }  # fmt: skip
        if not self.agreed.private:
            document["warning"] = NOT_PRIVATE
        return document

    def to_json(self) -> str:
        """`to_dict` as JSON text; infinite bounds as null."""
        return json.dumps(_finite(self.to_dict()), indent=2)


@on_one_thread
def forecast(
    agreement: Agreement | Problem,
    public: Any = None,
    *,
    loss: Loss | None = None,
    runs: int = RUNS,
    seed: int = 0,
    public_start: bool = True,
    preconditioner: bool = True,
    progress: Callable[[int, int], None] | None = None,
    strata: Any = None,
) -> Forecast:
    """Forecast an agreement from public information only.

    agreement: an Agreement, or a Problem, of which only the public sample is used.
    public: the learner's own (X, y); None takes the public rows of the pipeline that [data] names.
    loss: a user's own, in place of the named one (with `public`).
    runs: simulated runs on the public rows for each assessment.
    public_start, preconditioner: what a recommendation may use.
    progress: called with (stages done, stages in all).
    strata: which owner or stratum each row of `public` is of (labels), where that is known: unlikeness is estimated from
        it, unless the agreement states it, and each owner that a label names (or whose `owner.stratum` it is) is told
        about from its own rows. For the public rows of the pipeline, data.strata names the column.

    Raises DataError without a public sample, AgreementError for terms that contradict each other.
    """
    report = progress or (lambda done, total: None)
    if isinstance(agreement, Problem):
        if public is not None:
            raise UsageError(
                "forecast: a Problem already has its public sample; give an Agreement with public = (X, y)"
            )
        problem = agreement.on_public()
    elif public is None:
        if strata is not None:
            raise UsageError("forecast: strata are of the rows of `public`; give both, or the column data.strata alone")
        problem = Problem.load_public(agreement)
    else:
        problem = Problem.forecasting(agreement, public, loss, strata)

    sample = PublicSample(problem)

    def planned(keep: bool) -> Plan:
        return plan(
            problem, keep=keep, public_start=public_start, preconditioner=preconditioner, seed=seed, sample=sample
        )

    best = planned(keep=False)
    report(1, 4)
    settled, words = problem.terms, ""
    if _open(problem.terms):
        kept = planned(keep=True)
        settled, words = kept.agreement, kept.choice.describe()
    report(2, 4)
    unlikeness = unlikeness_of(problem)
    unlike = worlds_unlike(sample, problem.terms, unlikeness, seed)
    agreed = assess(problem.under(settled), words or "as agreed", runs, seed, sample, unlike)
    report(3, 4)
    recommended = assess(problem.under(best.agreement), best.choice.describe(), runs, seed, sample, unlike)
    report(4, 4)

    differ = 0.0 if unlike is None else unlikeness.value
    members = Consortium.of(problem.terms, sample.information / sample.optimum.value, best.curve, differ)
    records = [table.records for table in problem.terms.owner_tables]
    found = judged(sample, records, sample.drawn(WORLDS, seed), unlike)
    low, high = np.quantile(found.public, [0.05, 0.95])
    owners, public_only = owners_of(problem.terms, members, recommended, found), float(np.median(found.public))
    best = best.advised(public_only, min(o.alone for o in owners), any(o.joining_pays for o in owners))
    return Forecast(
        agreed=agreed,
        recommended=recommended,
        plan=best,
        public_only=public_only,
        public_only_band=(float(low), float(high)),
        public_rows=problem.unbounded[0].units,
        n_parameters=problem.n_parameters,
        bounds=_bounds(problem.under(settled)),
        optimum=sample.optimum.value,
        owners=owners,
        consortium=members,
        best_subset=float(members.cost(members.best_numbers())),
        best_weights=members.weighted(members.best_weights()),
        description=problem.description,
        unlikeness=unlikeness,
        at_unlikeness=() if unlike is None else _at_unlikeness(problem, best, sample, unlikeness, seed),
    )


def worlds_unlike(
    sample: PublicSample, terms: Agreement, unlikeness: Unlikeness, seed: int
) -> tuple[UnlikeWorld | OwnerWorld, ...] | None:
    """The forecast's worlds with owners that differ, by levels spread over what unlikeness may be; None: alike."""
    if unlikeness.alike or terms.n_owners == 1:
        return None
    return worlds_of(sample, terms, unlikeness, WORLDS, seed)


def _at_unlikeness(
    problem: Problem, best: Plan, sample: PublicSample, unlikeness: Unlikeness, seed: int
) -> tuple[AtUnlikeness, ...]:
    """What the recommended terms cost at 0, at the value and at twice that: a few worlds and runs each."""
    found = []
    for level in (0.0, unlikeness.value, 2.0 * unlikeness.value):
        worlds = unlike_worlds(sample, problem.terms, level, LEVEL_WORLDS, seed)
        ψ = assess(problem.under(best.agreement), "", 4 * LEVEL_WORLDS, seed, sample, worlds).relative_fitness
        found.append(AtUnlikeness(level, *(float(each[-1]) for each in (ψ.mean, ψ.median, ψ.low, ψ.high))))
    return tuple(found)


def _open(agreement: Agreement) -> bool:
    """Whether the agreement leaves anything to plan."""
    return (
        agreement.agreement.rule == "auto"
        or agreement.agreement.step == "auto"
        or agreement.model.gradient_bound == "auto"
    )


def _bounds(problem: Problem) -> tuple[Bound, ...]:
    """The papers' theorems for the agreed rule; none where a mechanism of one answer is agreed."""
    if problem.agreement.one_answer:
        return ()
    return named(problem.agreement.agreement.rule).bounds(setting_of(problem))


def _percent(ψ: float) -> str:
    return f"{100 * ψ:.3g} %" if ψ < 10 else f"{ψ:.3g} times"


def _list(names: Sequence[str]) -> str:
    shown = list(names[:5]) + ([f"{len(names) - 5} others"] if len(names) > 5 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _finite(value: Any) -> Any:
    """JSON has no infinity: null in its place."""
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
