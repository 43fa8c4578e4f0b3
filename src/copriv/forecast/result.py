"""The result of a forecast: the agreed and the recommended terms, each owner, who should join; its JSON, and of whose terms.

The parties may sign what was asked about, the same with what it leaves open planned ("agreed"), or what is recommended. A
forecast's JSON has the terms of all three. They are compared with an agreement term by term, but for where files are, keys and
seeds.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.data import datasets
from copriv.errors import InvalidInput
from copriv.forecast.assessment import Assessment, Comparison, CostOfGraph, Robustness, Run, WithSum
from copriv.forecast.coalition_value import Consortium
from copriv.forecast.generalisation import Generalisation
from copriv.forecast.owner_forecast import OwnerForecast, split_of
from copriv.forecast.pilot_outlook import PilotOutlook
from copriv.forecast.rare_records import Unseen
from copriv.formatting.cards import Columns, Drawn, Framed, Shown, Written, columns_of, in_words
from copriv.formatting.numbers import mapping
from copriv.formatting.sanitize import reason
from copriv.model.objective import Optimum, Regularizer
from copriv.plan import Plan
from copriv.plan.plan_result import best_by_promise, kind_of
from copriv.populations.public_sample import PublicMix
from copriv.populations.world import World
from copriv.problem import Problem
from copriv.problem.verdict import Goal, Verdict, too_few
from copriv.rules.bounds import Bound
from copriv.simulation.result import NOT_PRIVATE
from copriv.simulation.runs import events_of
from copriv.terms.heterogeneity import Heterogeneity

SCHEMA = "copriv.forecast/1"
_APART = ("agreement.name", "agreement.seed", "agreement.learner_key", "data.path", "data.public", "data.dictionary")
_MEASURED: Mapping[str, tuple[Any, ...]] = {
    "data.feature_bound": ("auto",), "data.public_rows": (None,), "model.gradient_bound": ("proved",),
}  # fmt: skip
"""Terms that `copriv init --network` gives a number where they leave it to the public rows."""
Kind = Literal["before any private record", "before the pilot", "after the pilot", "without public rows"]
PILOT_SIMULATED = (
    "simulated: private records were read by a pilot whose noise comes from a seed that can be drawn again. These numbers, "
    "and the start of the recommended terms, are not private, and not for release outside those who may see the records"
)
"""Warning of a forecast after `copriv.pilot`."""


@dataclass(frozen=True)
class AtHeterogeneity(Shown):
    """ψ of the recommended terms at one heterogeneity."""

    heterogeneity: float
    mean: float
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Without(Shown):
    """The consortium without some of its owners. ψ is on the remaining owners' records, above the best model there."""

    names: tuple[str, ...]
    together: float
    """Median ψ of the remaining owners, under the terms that are best for them."""
    together_with_all: float
    """Median ψ there of the common model of all owners."""
    loss: float
    """Median rise of ψ for the remaining owners in the same world; negative where they are better off."""
    worth_in_records: float
    """The loss in pooled, non-private records."""
    times_epsilon: float | None
    """The smallest factor on the remaining owners' ε that compensates for it; None where no factor does."""
    joining_pays: dict[str, bool | None]
    """Whether joining pays for each remaining owner; None where that is open."""
    worse: float
    """Median relative rise of the prediction error of the common model on the remaining owners' records."""
    probability: float
    """Share of worlds and runs in which the common model becomes worse for the remaining owners."""
    others: "Forecast | None"
    """The forecast for the remaining owners; None for a single one."""

    verdict = in_words(
        "copriv.display.verdict:of_without",
        "Whether joining pays for those that stay, what changes for them, and what else their forecast says.",
    )

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract, with the verdicts of the forecast for the remaining owners."""
        document: dict[str, Any] = {**vars(self), "names": list(self.names), "verdict": self.verdict, "owners": []}
        del document["others"]
        if self.others is not None:
            document["owners"] = [
                {"name": one.name, "verdict": one.verdict, "probability": one.probability, "own": vars(one.own)}
                for one in self.others.owners
            ]
        return document


@dataclass(frozen=True, eq=False)
class Forecast(Shown, Framed, Drawn, Written):
    """Everything that is known before any private record is read.

    >>> outlook.together < outlook.public_only
    True
    >>> outlook.recommended.agreement.owner_names
    ('north', 'south', 'west')
    >>> outlook.to_frame()[["name", "joining_pays"]].shape
    (3, 2)
    >>> figure = outlook.plot("curves")
    """

    _teller: ClassVar[str] = "copriv.display.forecast:card"
    _pictures: ClassVar[Mapping[str, str]] = {
        "break-even": "copriv.pictures.forecast:break_even",
        "curves": "copriv.pictures.forecast:curves",
        "heterogeneity": "copriv.pictures.forecast:by_heterogeneity",
        "own-records": "copriv.pictures.forecast:on_own_records",
    }

    agreed: Assessment
    recommended: Assessment
    plan: Plan
    public_only: float
    """ψ of the model fitted on the public sample alone."""
    public_only_band: tuple[float, float]
    """Range of `public_only` in 90 % of worlds."""
    public_rows: int
    n_parameters: int
    bounds: tuple[Bound, ...]
    optimum: float
    """f(θ*) on the public rows; ψ times it is the cost, which bounds are on. NaN without public rows."""
    everybody: Optimum | None
    """Optimum on public rows, weighted by their owners' numbers of records where strata name these; None without rows."""
    owners: tuple[OwnerForecast, ...]
    consortium: Consortium
    best_subset: float
    """ψ of the best subset of owners."""
    best_weights: float
    """ψ under the best weights."""
    description: str
    heterogeneity: Heterogeneity
    """Heterogeneity of the owners that was assumed, and its source."""
    at_heterogeneity: tuple[AtHeterogeneity, ...]
    """ψ of the recommended terms at zero, one and two times that heterogeneity."""
    runs: tuple[Run, ...]
    """The plan's choice, its runner-up, and the best terms with and without each promise, in the same worlds."""
    comparison: Comparison
    """Agreed terms against recommended ones."""
    robustness: Robustness | None
    """Price of bearing owners that lie; None where answers are averaged."""
    graph: CostOfGraph | None
    """Price of a graph; None where one learner asks all owners."""
    with_sum: WithSum | None
    """Cost if the learner saw only the sum of answers; None where it does, or there can be no such sum."""
    pilot: PilotOutlook | None
    """Expected benefit and cost of a pilot; None after one, and without one where owners are alike or the terms allow none."""
    squared: bool
    """Whether the fitness is a mean squared error, whose root is in the target's unit."""
    generalisation: Generalisation
    """The same costs on new records of the owners."""
    public_mix: tuple[PublicMix, ...]
    """Columns whose levels in the public rows can be compared with those of the owners' records."""
    unseen: Unseen | None
    longer: float | None
    """Share of all records that a pilot counted as longer than any public row; None where public rows allow for it."""
    """Cost of outliers too rare to be among the public rows; None where the owners' records are most likely too few for one."""
    problem: Problem
    """The agreement as it was given, on the public rows."""
    worlds: tuple[World, ...]
    """The draws of the owners' records in which all runs were made."""
    kind: Kind
    """Source: public rows, declared columns alone, or also a pilot's noisy answers. "before the pilot": a forecast of the run
    after the pilot, made before it."""
    options: Mapping[str, Any]
    """The options of `forecast`."""
    absent: Without | None = None
    """What changes by the owners that stay away, where it is the forecast without them."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the numbers, or the agreed terms, are not private; empty where both are."""
        private, found = self.agreed.private, []
        if self.kind == "after the pilot":
            private = not self.agreed.agreement.model.gradient_bound_assumed
            found.append(PILOT_SIMULATED)
        if not private:
            found.append(f"the agreed terms are {NOT_PRIVATE}")
        return tuple(found)

    def error(self, psi: float) -> float | None:
        """The typical error of predictions on everybody's records, of a model of this ψ: √(f − g(θ*)), in the target's unit.

        None where the loss is not squared.
        """
        best = self.everybody
        if best is None or not (self.squared and np.isfinite(best.value * psi)):
            return None
        return float(np.sqrt(best.value * (1.0 + psi) - self.problem.regularizer.value(best.theta)))

    @cached_property
    def shrinkage(self) -> float:
        """Relative rise of the mean squared error on public rows that the regularizer causes; 0 for other losses."""
        return self._shrinkage(self.problem.regularizer.strength)

    def _shrinkage(self, strength: float) -> float:
        f = self.problem.fitness.quadratic
        if f is None or not np.isfinite(self.optimum):
            return 0.0
        free = replace(f, regularizer=Regularizer(0.0))
        shrunk, least = (
            float(free.value(replace(f, regularizer=Regularizer(c)).free_minimum())) for c in (strength, 0.0)
        )
        return shrunk / max(least, 1e-12 * f.s) - 1.0

    @property
    def weaker_regularization(self) -> float | None:
        """A strength at which the regularizer costs predictions little; None where the agreed one does.

        Little: what is worthwhile, and p/n, by which the least error on n rows is below that on new ones.
        """
        strength, little = self.problem.regularizer.strength, self.agreed.agreement.worthwhile
        little += self.n_parameters / max(self.public_rows, 1)
        if self.shrinkage <= little:
            return None
        weaker = (strength / 10.0**k for k in range(1, 16))
        return next((c for c in weaker if self._shrinkage(c) <= little), 0.0)

    def as_records(self, psi: float) -> float:
        """Number of pooled, non-private records whose model has this ψ."""
        return self.consortium.as_records(psi)

    @property
    def together(self) -> float:
        """Median ψ of the recommended terms over runs and worlds."""
        return self.recommended.relative_fitness.end["median"]

    @property
    def runner_up(self) -> Run | None:
        """The best run of another kind than the recommended one."""
        kind = kind_of(self.recommended.agreement)
        others = [run for run in self.runs if kind_of(run.assessment.agreement) != kind]
        return min(others, key=lambda run: run.insured_cost, default=None)

    @property
    def trades(self) -> dict[str, tuple[Run, Run]]:
        """For each promise the best run that keeps it and the best that does not."""
        return best_by_promise(self.runs, lambda run: run.choice, lambda run: run.insured_cost)

    @property
    def insurance_premium(self) -> float:
        """Cost of the recommended terms over that of the cheapest that were run, less 1, where there are no outliers."""
        if self.agreed.agreement.data.declared_only:
            return 0.0
        agreed, mean = [self.agreed] * self.agreed.private, self.recommended.relative_fitness.end["mean"]
        least = min(one.relative_fitness.end["mean"] for one in (*agreed, *(run.assessment for run in self.runs)))
        return mean / least - 1.0 if least > 0 else 0.0

    @property
    def caution_of_plan(self) -> Any:
        """The plan's choice under unknown heterogeneity (a `Caution`), where that choice is recommended; else None."""
        return self.plan.caution if self.recommended.agreement == self.plan.agreement else None

    @property
    def left_out(self) -> tuple[OwnerForecast, ...]:
        """Owners without whom the others do noticeably better."""
        return tuple(owner for owner in self.owners if not owner.in_best_subset)

    @property
    def goal(self) -> Goal:
        """Records that the verdict is about: each owner's "own", or everybody's, "common"."""
        return self.agreed.agreement.goal

    def in_agreement(self, epsilon: float) -> float:
        """The ε to agree on for this ε of the run, where a pilot takes its share before it.

        >>> outlook.in_agreement(0.75)  # without a pilot
        0.75
        """
        return epsilon / (1.0 - (self.pilot.share if self.pilot else 0.0))

    @property
    def joining_pays(self) -> bool | None:
        """For at least one owner; None where that is open."""
        return {"yes": True, "no": False, "open": None}[self.joining.answer]

    @property
    def nobody_else(self) -> bool:
        """Whether one owner is left, which has nobody to train with."""
        return self.absent is not None and self.absent.others is None

    @property
    def n_owners(self) -> int:
        """Number of owners; `owners` has one entry for all owners of a table."""
        return sum(owner.count for owner in self.owners)

    @property
    def probability(self) -> float:
        """Probability that the verdict is right: that joining pays for somebody, or for nobody."""
        if self.joining.answer == "no":
            return 1.0 - self.joining.probability
        return self.joining.probability

    @property
    def advice(self) -> str:
        """ "join"; "close": it could be either way; "public": the public rows' model is better; "alone": an owner's own is."""
        return self.plan.advice

    @property
    def joining(self) -> Verdict:
        """For whom joining pays, on the records that the goal names."""
        on = {owner.called: {"own": owner.on_own, "common": owner.on_all}[self.goal] for owner in self.owners}
        agreed = self.agreed.relative_fitness.end["median"]
        cost_others = tuple(owner.name for owner in self.left_out)
        lacking = too_few(self.problem.unbounded[0], self.n_parameters)
        return Verdict(self.goal, on, cost_others, agreed > self.public_only, lacking)

    @property
    def sampled_by_owner(self) -> bool:
        """Whether public rows stand for the records of their own owner, whatever share of all rows they are."""
        return self.problem.strata_name_owners and bool(self.worlds[0].owners)

    @property
    def strata_unused(self) -> str | None:
        """The column of the public rows' strata where these are not owners, and tell nothing of the owners' heterogeneity."""
        if self.problem.strata is None or self.problem.strata_name_owners or self.n_owners == 1:
            return None
        return self.problem.terms.data.strata or "strata"

    @property
    def without_stratum(self) -> tuple[str, ...]:
        """Owners without public rows of their own, where other owners have some."""
        if not self.problem.strata_name_owners:
            return ()
        owners = zip(self.problem.terms.owner, self.problem.stratum_of_owner, strict=True)
        return tuple(owner.name for owner, place in owners if place is None)

    assumption = in_words(
        "copriv.display.verdict:assumption", "The assumption about the public rows, and the evidence against it."
    )
    caution = in_words(
        "copriv.display.verdict:caution",
        "A warning where the band is wide, or where outliers could cost more; else None.",
    )
    pilot_in_words = in_words(
        "copriv.display.verdict:pilot",
        "A sentence on what a pilot would tell and cost; None where no verdict is open and no pilot is agreed.",
    )
    verdict = in_words("copriv.display.verdict:of_forecast", "A few sentences for the people who decide.")
    with_sum_in_words = in_words(
        "copriv.display.verdict:with_sum", "A sentence on what the sum alone would cost; None where `with_sum` is."
    )

    @cached_property
    def duration(self) -> float | None:
        """Time that a run of the agreed terms takes on average, where a clock of rate 1 ticks once in a unit of time.

        None where no clocks are agreed, or each owner answers once. Of 200 drawn schedules.
        """
        terms = self.agreed.agreement
        if not terms.agreement.by_clocks or terms.one_answer or terms.synchronous or terms.agreement.rule == "auto":
            return None
        participants, streams = Participants.of(terms), np.random.SeedSequence(terms.agreement.seed).spawn(200)
        drawn = (events_of(terms, participants, None, np.random.default_rng(one)) for one in streams)
        return float(np.mean([one.time[-1] for one in drawn]))

    def shown(self, bound: Bound) -> float:
        """A bound on the cost as one on ψ; a bound on the parameters in their own unit."""
        if bound.quantity == "cost":
            return bound.value / self.optimum
        return bound.value

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        nested = ("own", "on_own", "on_all")
        names = [field.name for field in fields(OwnerForecast) if field.name not in nested]
        both = [
            ("agreed", self.agreed.relative_fitness.columns),
            ("recommended", self.recommended.relative_fitness.columns),
        ]
        return {
            "owners": lambda: columns_of(self.owners, names),
            "curves": lambda: {
                "terms": [name for name, curve in both for _ in curve["k"]],
                **{key: np.concatenate([curve[key] for _, curve in both]) for key in both[0][1]},
            },
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract `copriv.forecast/1`, with additions."""
        agreed, typical_error = self.agreed.relative_fitness.end["median"], None
        if self.error(0.0) is not None:
            costs = {"best": 0.0, "together": self.together, "agreed": agreed, "public_only": self.public_only}
            typical_error = {name: self.error(psi) for name, psi in costs.items()}
        document = {
            "schema": SCHEMA,
            "kind": self.kind,
            "agreed": self.agreed.to_dict(),
            "recommended": self.recommended.to_dict(),
            "public_only": self.public_only,
            "public_rows": self.public_rows,
            "n_parameters": self.n_parameters,
            "optimum": self.optimum if np.isfinite(self.optimum) else None,
            "bounds": [
                {
                    "source": bound.source, "value": self.shown(bound), "holds_for": bound.holds_for,
                    "quantity": bound.quantity, "conditions_met": bound.conditions_met,
                }
                for bound in self.bounds
            ],
            "owners": [
                {**vars(one), "own": vars(one.own), "on_own": one.on_own.to_dict(), "on_all": one.on_all.to_dict()}
                for one in self.owners
            ],
            "assumption": self.assumption,
            "public_mix": [one.to_dict() for one in self.public_mix],
            "heterogeneity": vars(self.heterogeneity),
            "sampled_by_owner": self.sampled_by_owner,
            "strata_unused": self.strata_unused,
            "without_stratum": list(self.without_stratum),
            "typical_error": typical_error,
            "worth_of_records": self.as_records(self.together),
            "on_new_records": self.generalisation.told(
                self.together, agreed, self.public_only,
                [owner.alone for owner in self.owners],
            ),
            "at_heterogeneity": [vars(one) for one in self.at_heterogeneity],
            "unseen": mapping(self.unseen),
            "longer_than_public": self.longer,
            "insurance_premium": self.insurance_premium,
            "plan_caution": self.caution_of_plan and self.caution_of_plan.to_dict(),
            "joining_pays": self.joining_pays,
            "probability": self.probability,
            "advice": self.advice,
            "advice_in_words": self.plan.advice_in_words,
            "caution": self.caution,
            "public_only_band": {"low": self.public_only_band[0], "high": self.public_only_band[1]},
            "terms": {
                "asked": terms_told(self.problem.terms),
                "agreed": terms_told(self.agreed.agreement),
                "recommended": terms_told(self.recommended.agreement),
            },
            "goal": self.goal,
            "too_few": self.joining.too_few,
            "worthwhile": self.agreed.agreement.worthwhile,
            "verdict": self.verdict,
            "best_subset": self.best_subset,
            "best_weights": self.best_weights,
            "comparison": vars(self.comparison),
            "robustness": self.robustness and self.robustness.to_dict(),
            "graph": self.graph and self.graph.to_dict(),
            "with_sum": self.with_sum and {**self.with_sum.to_dict(), "in_words": self.with_sum_in_words},
            "pilot_outlook": self.pilot and {**self.pilot.to_dict(), "in_words": self.pilot_in_words},
            "runner_up": self.runner_up and self.runner_up.to_dict(),
            "trades": {name: [run.to_dict() for run in sides] for name, sides in self.trades.items()},
            "flatness": self.plan.flatness,
            "overlap_split": split_of(self.agreed.agreement, self.consortium.curve),
            "description": self.description,
        }  # fmt: skip
        if self.absent is not None:
            document["without"] = self.absent.to_dict()
        if self.duration is not None:
            document["duration"] = self.duration
        if self.kind == "after the pilot":
            document |= {"simulated": True, "for_release": False}
        if self.warnings:
            document["warning"] = "; ".join(self.warnings)
        return document


def read_forecast(path: Path) -> Mapping[str, Any]:
    """The document of `copriv forecast --json` or `--out`. Raises InvalidInput for a file that is none."""
    give = "give the forecast.json of copriv forecast --out, or what --json printed"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"--forecast: {path} cannot be read ({reason(error)}); {give}") from None
    except (ValueError, RecursionError):
        raise InvalidInput(f"--forecast: {path} is no forecast, for it is no JSON; {give}") from None
    if not isinstance(document, Mapping) or document.get("schema", SCHEMA) != SCHEMA:
        raise InvalidInput(f"--forecast: {path} is not the JSON of a forecast; {give}")
    return document


def terms_told(agreement: Agreement) -> dict[str, Any]:
    """Each term under its path, in short."""
    document, told = agreement.to_dict(), dict[str, Any]()
    for table in ("agreement", "model", "data"):
        told |= {f"{table}.{key}": _short(value) for key, value in document[table].items()}
    if agreement.data.dataset is not None:
        told["data.dataset"] = datasets.named(agreement.data.dataset).read_from
    alike = groupby(
        agreement.owner_tables, lambda one: one.model_dump(exclude={"name", "count", "key"}, exclude_none=True)
    )
    told["owner"] = _short([[terms, [name for one in tables for name in one.names()]] for terms, tables in alike])
    return {path: value for path, value in told.items() if path not in _APART}


def check_is_of(agreement: Agreement, document: Mapping[str, Any]) -> None:
    """Raise InvalidInput for the JSON of a forecast of other terms, naming those of the nearest that it has.

    A document without terms says nothing of its agreement, and is refused.
    """
    mine, found = terms_told(agreement), []
    for told in document.get("terms", {}).values():
        paths = {path for path in {*mine, *told} if mine.get(path) != told.get(path)}
        found.append(sorted(path for path in paths if told.get(path) not in _MEASURED.get(path, ())))
    if not found:
        raise InvalidInput(
            "forecast: is not the JSON of a forecast that has terms; make it anew with copriv forecast --out"
        )
    if all(found):
        differ = ", ".join(min(found, key=len)[:5])
        raise InvalidInput(f"forecast: is of another agreement, by {differ}; give the forecast of this one")


def _short(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    if len(text) > 100:  # of a longer value the SHA-256 is kept
        return hashlib.sha256(text.encode()).hexdigest()
    return json.loads(text)
