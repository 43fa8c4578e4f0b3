"""`forecast`: what the agreed terms will cost, what the best terms would, and for whom joining pays.

What private data could tell is replaced by the public sample and by how wrong it may be: everything is a mean, a quantile
or a share over worlds (`copriv.populations.law`), so that what is said of terms (`assessment`), of going without them
(`judgement`) and of both together hangs together.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import UsageError
from copriv.forecast.assessment import RUNS, WORLDS, Assessment, assess
from copriv.forecast.bounds import setting_of
from copriv.forecast.coalition_value import Consortium
from copriv.forecast.comparison import ERRORS, Comparison, Run, mentioned, relative_error, runner_up, trades
from copriv.forecast.generalisation import Generalisation, generalisation_of
from copriv.forecast.overlap import split_of
from copriv.forecast.owner_forecast import OwnerForecast as OwnerForecast
from copriv.forecast.owner_forecast import owners_of
from copriv.forecast.quantiles import quantiles
from copriv.forecast.rare_records import Unseen
from copriv.forecast.standalone_models import OwnRecords as OwnRecords
from copriv.forecast.standalone_models import judged
from copriv.formatting.cards import Card, Shown, Table
from copriv.formatting.frames_and_plots import Columns, Drawn, Framed, columns_of
from copriv.formatting.numbers import percent
from copriv.formatting.sanitize import printable
from copriv.plan import Plan, leaves_open, plan
from copriv.plan.minimax_regret import Caution
from copriv.populations.by_owner import OwnerWorld, psi
from copriv.populations.dealt import UnlikeWorld, heterogeneity_of, unlike_worlds, worlds_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.rules import named
from copriv.rules.bounds import Bound
from copriv.simulation.result import NOT_PRIVATE
from copriv.terms.heterogeneity import Heterogeneity
from copriv.types import Loss
from copriv.validation import count

LEVEL_WORLDS = 8
"""Worlds at each level of heterogeneity."""
NOTICEABLE = 0.05
"""What leaving owners out must save the others at least, as a part of the cost: a forecast is no better than that."""
WIDE = 100.0
"""A band whose ends are further apart than this says more of what is not known than of the cost."""


@dataclass(frozen=True)
class AtHeterogeneity(Shown):
    """ψ of the recommended terms at one heterogeneity."""

    heterogeneity: float
    mean: float
    median: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Forecast(Shown, Framed, Drawn):
    """All that can be said before any private record is touched.

    >>> outlook.together < outlook.public_only
    True
    >>> outlook.recommended.agreement.owner_names
    ('north', 'south', 'west')
    >>> outlook.to_frame()[["name", "joining_pays"]].shape
    (3, 2)
    >>> figure = outlook.plot("curves")
    """

    _pictures: ClassVar[Mapping[str, str]] = {
        "break-even": "copriv.pictures.forecast:break_even",
        "curves": "copriv.pictures.forecast:curves",
        "heterogeneity": "copriv.pictures.heterogeneity:by_heterogeneity",
    }

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
    heterogeneity: Heterogeneity
    """How unlike the owners are taken to be, and who says so."""
    at_heterogeneity: tuple[AtHeterogeneity, ...]
    """The recommended terms, were owners alike, as unlike as they are taken to be, and twice as unlike."""
    runs: tuple[Run, ...]
    """What the plan chose, its runner-up and the sides of its promises, run in the same worlds as the agreed terms."""
    comparison: Comparison
    """Agreed terms against recommended ones."""
    squared: bool
    """The fitness is a mean squared error, which has a root that people know."""
    generalisation: Generalisation
    """What all this is on new records of the owners."""
    unseen: Unseen | None
    """What records could cost that are too rare for public rows to show; None where owners have too few to hold any."""

    def error(self, psi: float) -> float | None:
        """The typical error of a model of this ψ, in the target's unit: √f; None where the loss is not squared."""
        return float(np.sqrt(self.optimum * (1.0 + psi))) if self.squared and np.isfinite(psi) else None

    def as_records(self, psi: float) -> float:
        """How many pooled records, without privacy, give as good a model."""
        return self.consortium.as_records(psi)

    @property
    def together(self) -> float:
        """ψ that the recommended terms typically reach: the median over runs and worlds."""
        return float(self.recommended.relative_fitness.median[-1])

    @property
    def runner_up(self) -> Run | None:
        """The next best of another kind, in the same worlds."""
        return runner_up(self.runs, self.recommended)

    @property
    def trades(self) -> dict[str, tuple[Run, Run]]:
        """What each promise costs, in the same worlds: the best that keeps it, and the best that does not."""
        return trades(self.runs)

    @property
    def caution_of_plan(self) -> Caution | None:
        """What the plan weighed because owners may differ, where its choice is what is recommended."""
        chosen = self.recommended.agreement == self.plan.agreement
        return self.plan.caution if chosen else None

    @property
    def left_out(self) -> tuple[OwnerForecast, ...]:
        """Owners without whom the others would do noticeably better."""
        return tuple(owner for owner in self.owners if not owner.in_best_subset)

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
        """ "join"; "close": it could be either way; "public": the public rows' model is better; "alone": an owner's own is."""
        return self.plan.advice

    @property
    def caution(self) -> str | None:
        """Where the public rows know too little for a number: what they do say, and what they cannot."""
        ψ = self.recommended.relative_fitness
        low, high, said = float(ψ.low[-1]), float(ψ.high[-1]), []
        if high > WIDE * low or self.public_rows < 3 * self.n_parameters:
            said.append(
                f"{self.public_rows:,} public rows for {self.n_parameters} parameters: the cost lies between "
                f"{_percent(low)} and {_percent(high)}."
            )
        rare = None if self.unseen is None else self.unseen.words(high)
        return " ".join([*said, *([] if rare is None else [rare])]) or None

    @property
    def verdict(self) -> str:
        """One sentence for the people who decide."""
        return self._verdict(_percent)

    @property
    def verdict_on_screen(self) -> str:
        """The same with as many digits as the tables beside it have."""
        return self._verdict(percent)

    def _verdict(self, shown: Callable[[float], str]) -> str:
        ψ = self.together
        gain = [owner.called for owner in self.owners if owner.joining_pays and not owner.close_call]
        even = [owner.called for owner in self.owners if owner.close_call]
        open_to = f"; for {_list(even)} it could be either way" if gain and even else ""
        if even and not gain:
            others = [owner.called for owner in self.owners if not owner.close_call]
            return (
                f"For {_list(even)} joining is a close call{f', and it does not pay for {_list(others)}' if others else ''}: "
                f"together the model would be {shown(ψ)} worse than the best possible without privacy; the public rows "
                f"alone reach {shown(self.public_only)}. {self._cautioned('It could as well be either way.')}"
            )
        if not gain:
            alone = min(owner.alone for owner in self.owners)
            better = "the public model alone" if self.public_only <= alone else "the best owner's own model"
            return (
                f"Joining does not pay for anybody: together the model would be {shown(ψ)} worse than the best "
                f"possible, {better} only {shown(min(alone, self.public_only))}. "
                f"Raise epsilon, bring more records, or do not train together. "
                f"{self._cautioned(f'That is right with a probability of {100 * self.probability:.0f} %.')}"
            )
        who = "everybody" if len(gain) == len(self.owners) else _list(gain)
        sure = min(owner.joining_pays_probability for owner in self.owners if owner.called in gain)
        each = "That" if len(gain) == 1 else "For each of them that"
        return (
            f"Joining pays for {who}{open_to}: together the model would be {shown(ψ)} worse than the best possible without "
            f"privacy; the public rows alone reach {shown(self.public_only)}. {self._at_whose_expense(shown)}"
            f"{self._cautioned(f'{each} is right with a probability of {100 * sure:.0f} %.')}"
        )

    def _at_whose_expense(self, shown: Callable[[float], str]) -> str:
        """Joining can pay for an owner and cost the others: both are said at once."""
        cost = [owner.name for owner in self.left_out]
        if not cost:
            return ""
        rest = [owner.name for owner in self.owners if owner.in_best_subset]
        how = "alone, with the same privacy," if len(rest) == 1 else "without them"
        return (
            f"But {_list(cost)} would cost the others more than they gain by it: {_list(rest)} {how} would reach "
            f"{shown(self.best_subset)}. "
        )

    def _cautioned(self, words: str) -> str:
        return words if self.caution is None else f"{words} {self.caution}"

    def shown(self, bound: Bound) -> float:
        """A bound on the cost as one on ψ; a bound on the parameters in their own unit."""
        return bound.value / self.optimum if bound.quantity == "cost" else bound.value

    def _card(self) -> Card:
        n, terms = self.n_owners, (("agreed", self.agreed), ("recommended", self.recommended))
        return Card(
            f"Forecast: {n:,} owner{'s' if n > 1 else ''}, {self.public_rows:,} public rows",
            (
                self.verdict_on_screen,
                Table.of(("terms", "mean", "median", "5 % of runs below", "5 % above"), terms, _assessed, "terms"),
                Table.of(
                    ("owner", "records", "epsilon", "alone", "together", "joining pays"),
                    self.owners,
                    _joining,
                    "owners",
                ),
            ),
        )

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        return {"owners": self._owners_columns, "curves": self._curves_columns}

    def _owners_columns(self) -> Columns:
        return columns_of(self.owners, [field.name for field in fields(OwnerForecast) if field.name != "own"])

    def _curves_columns(self) -> Columns:
        both = [
            (name, one.relative_fitness) for name, one in (("agreed", self.agreed), ("recommended", self.recommended))
        ]
        columns: dict[str, Any] = {"terms": [name for name, ψ in both for _ in ψ.k]}
        return columns | {
            name: np.concatenate([getattr(ψ, name) for _, ψ in both]) for name in ("k", "mean", "median", "low", "high")
        }

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
            "heterogeneity": vars(self.heterogeneity),
            "typical_error": None if not self.squared else {
                "best": self.error(0.0),
                "together": self.error(self.together),
                "agreed": self.error(float(self.agreed.relative_fitness.median[-1])),
                "public_only": self.error(self.public_only),
            },
            "worth_of_records": self.as_records(self.together),
            "on_new_records": self.generalisation.told(
                self.together, float(self.agreed.relative_fitness.median[-1]), self.public_only,
                [owner.alone for owner in self.owners],
            ),
            "at_heterogeneity": [vars(one) for one in self.at_heterogeneity],
            "unseen": None if self.unseen is None else vars(self.unseen),
            "plan_caution": None if self.caution_of_plan is None else {
                "holds_to": self.caution_of_plan.holds_to,
                "price": self.caution_of_plan.price,
                "if_alike": self.caution_of_plan.if_alike.describe(),
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
            "comparison": vars(self.comparison),
            "runner_up": None if self.runner_up is None else self.runner_up.to_dict(),
            "trades": {name: [run.to_dict() for run in sides] for name, sides in self.trades.items()},
            "flatness": self.plan.flatness,
            "overlap_split": split_of(self.agreed.agreement, self.consortium.curve),
            "description": self.description,
        }  # fmt: skip
        if not self.agreed.private:
            document["warning"] = NOT_PRIVATE
        return document

    def to_json(self, **added: Any) -> str:
        """`to_dict` as JSON text, and what is added to it; infinite bounds as null."""
        return json.dumps(_finite({**self.to_dict(), **added}), indent=2)


@on_one_thread
def forecast(
    agreement: Agreement | Problem | str | Path | Mapping[str, Any],
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

    agreement: an Agreement, the path of its file, a mapping of the file's shape, or a Problem, of which only the public
        sample is used.
    public: the learner's own (X, y); None takes the public rows of the pipeline that [data] names.
    loss: a user's own, in place of the named one (with `public`).
    runs: simulated runs on the public rows for each assessment.
    public_start, preconditioner: what a recommendation may use.
    progress: called with (stages done, stages in all).
    strata: which owner or stratum each row of `public` is of (labels), where that is known: heterogeneity is estimated from
        it, unless the agreement states it, and each owner that a label names (or whose `owner.stratum` it is) is told
        about from its own rows. For the public rows of the pipeline, data.strata names the column.

    Raises DataError without a public sample, AgreementError for terms that contradict each other.

    >>> outlook.joining_pays  # it was made by copriv.forecast(agreement, public, runs=32)
    True
    """
    report = progress or (lambda done, total: None)
    count("runs", runs)
    count("seed", seed, least=0)
    if isinstance(agreement, Problem):
        if public is not None:
            raise UsageError(
                "forecast: a Problem already has its public sample; give an Agreement with public = (X, y)"
            )
        if strata is not None:
            raise UsageError(
                "forecast: a Problem already says whose its public rows are: Problem.forecasting(…, strata=…)"
            )
        problem = agreement.on_public()
    elif public is None:
        if strata is not None:
            raise UsageError("forecast: strata are of the rows of `public`; give both, or the column data.strata alone")
        problem = Problem.load_public(Agreement.given(agreement))
    else:
        problem = Problem.forecasting(Agreement.given(agreement), public, loss, strata)

    if not leaves_open(problem.terms):
        problem.terms.mechanism.check_delta(problem.terms)  # before minutes of planning, not after
    sample = PublicSample(problem)

    def planned(keep: bool) -> Plan:
        return plan(
            problem, keep=keep, public_start=public_start, preconditioner=preconditioner, seed=seed, sample=sample
        )

    best = planned(keep=False)
    report(1, 4)
    settled, words = problem.terms, ""
    if leaves_open(problem.terms):
        kept = planned(keep=True)
        settled, words = kept.agreement, kept.choice.describe()
    report(2, 4)
    heterogeneity = heterogeneity_of(problem)
    unlike = worlds_unlike(sample, problem.terms, heterogeneity, seed)
    agreed = assess(problem.under(settled), words or "as agreed", runs, seed, sample, unlike)
    report(3, 4)
    found = tuple(
        Run(choice, assess(problem.under(choice.agreement), choice.describe(), runs, seed, sample, unlike))
        for choice in mentioned(best)
    )
    recommended = min(found, key=lambda run: run.cost).assessment
    if agreed.private and agreed.relative_fitness.mean[-1] <= recommended.relative_fitness.mean[-1]:
        recommended = agreed
    report(4, 4)

    differ = 0.0 if unlike is None else heterogeneity.value
    records = [table.records for table in problem.terms.owner_tables]
    seen = judged(sample, records, sample.drawn(WORLDS, seed), unlike)
    # What owners are worth is asked of the curve, and what joining means of the runs: held to them, both say the same.
    members = Consortium.of(problem.terms, sample.information / sample.optimum.value, best.curve, differ)
    pools = [world.pool for world in unlike or sample.drawn(WORLDS, seed)]
    starts = _starts(pools, problem, seen.public, public_start)
    members = members.held_to(
        float(recommended.relative_fitness.median[-1]),
        np.array([float(np.median(seen.without_joining(i))) for i in range(len(records))]),
        float(np.median(starts)),
    )
    subset = members.best_numbers()
    enough = max(NOTICEABLE, ERRORS * relative_error(recommended))
    if members.cost(subset) > (1.0 - enough) * members.together():
        subset = members.number
    low, high = quantiles(seen.public[:, None])
    owners, public_only = (
        owners_of(problem.terms, members, recommended, seen, subset, starts),
        float(np.median(seen.public)),
    )
    best = best.advised(
        public_only,
        min(o.alone for o in owners),
        any(o.joining_pays and not o.close_call for o in owners),
        any(o.close_call for o in owners),
    )
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
        squared=problem.fitness.quadratic is not None,
        generalisation=generalisation_of(sample),
        unseen=Unseen.of(problem.unbounded[0], pools, recommended.models, int(problem.terms.records.sum())),
        best_subset=float(members.cost(subset)),
        best_weights=members.weighted(members.best_weights()),
        description=problem.description,
        heterogeneity=heterogeneity,
        at_heterogeneity=()
        if unlike is None
        else _at_heterogeneity(problem, recommended.agreement, sample, heterogeneity, seed),
        runs=found,
        comparison=Comparison.of(agreed, recommended),
    )


def worlds_unlike(
    sample: PublicSample, terms: Agreement, heterogeneity: Heterogeneity, seed: int
) -> tuple[UnlikeWorld | OwnerWorld, ...] | None:
    """The forecast's worlds with owners that differ, by levels spread over what heterogeneity may be; None: alike."""
    if heterogeneity.alike or terms.n_owners == 1:
        return None
    return worlds_of(sample, terms, heterogeneity, WORLDS, seed)


def _at_heterogeneity(
    problem: Problem, recommended: Agreement, sample: PublicSample, heterogeneity: Heterogeneity, seed: int
) -> tuple[AtHeterogeneity, ...]:
    """What the recommended terms cost at 0, at the value and at twice that: a few worlds and runs each."""
    found = []
    for level in (0.0, heterogeneity.value, 2.0 * heterogeneity.value):
        worlds = unlike_worlds(sample, problem.terms, level, LEVEL_WORLDS, seed)
        ψ = assess(problem.under(recommended), "", 4 * LEVEL_WORLDS, seed, sample, worlds).relative_fitness
        found.append(AtHeterogeneity(level, *(float(each[-1]) for each in (ψ.mean, ψ.median, ψ.low, ψ.high))))
    return tuple(found)


def _starts(
    pools: Sequence[Problem], problem: Problem, public: Float[np.ndarray, " worlds"], public_start: bool
) -> Float[np.ndarray, " worlds"]:
    """ψ in each world of what terms begin with, the better of all that they may: where they end if answers say nothing."""
    given = np.array([psi(pool, problem.start) for pool in pools])
    free = public_start and problem.terms.agreement.start is None
    return public if free and np.median(public) <= np.median(given) else given


def _bounds(problem: Problem) -> tuple[Bound, ...]:
    """The papers' theorems for the agreed rule; none where a mechanism of one answer is agreed."""
    if problem.agreement.one_answer:
        return ()
    return named(problem.agreement.agreement.rule).bounds(setting_of(problem))


def _assessed(terms: tuple[str, Assessment]) -> tuple[str, ...]:
    name, ψ = terms[0], terms[1].relative_fitness
    return name, *(percent(float(one[-1])) for one in (ψ.mean, ψ.median, ψ.low, ψ.high))


def _joining(owner: OwnerForecast) -> tuple[str, ...]:
    pays = "close call" if owner.close_call else "yes" if owner.joining_pays else "no"
    return owner.called, f"{owner.records:,}", f"{owner.epsilon:g}", percent(owner.alone), percent(owner.together), pays


def _percent(ψ: float) -> str:
    return f"{100 * ψ:.3g} %" if ψ < 10 else f"{ψ:,.0f} times"


def _list(names: Sequence[str]) -> str:
    more = [f"{len(names) - 5} others"] if len(names) > 5 else []
    shown = [printable(name, 60) for name in names[:5]] + more
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _finite(value: Any) -> Any:
    """JSON has no infinity: null in its place."""
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
