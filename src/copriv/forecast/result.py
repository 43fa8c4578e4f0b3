"""The result of a forecast: both sets of terms, each owner, who should join, and the verdict in words."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from copriv.forecast.assessment import Assessment
from copriv.forecast.coalition_value import Consortium
from copriv.forecast.comparison import Comparison, Run
from copriv.forecast.generalisation import Generalisation
from copriv.forecast.overlap import split_of
from copriv.forecast.owner_forecast import OwnerForecast
from copriv.forecast.rare_records import Unseen
from copriv.formatting.cards import Card, Shown, Table
from copriv.formatting.frames_and_plots import Columns, Drawn, Framed, columns_of
from copriv.formatting.numbers import json_ready, listed, percent, short_percent
from copriv.formatting.sanitize import printable
from copriv.plan import Plan
from copriv.plan.minimax_regret import Caution
from copriv.plan.plan_result import best_by_promise, kind_of
from copriv.rules.bounds import Bound
from copriv.simulation.result import NOT_PRIVATE
from copriv.terms.heterogeneity import Heterogeneity

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
    """How much the owners are taken to differ, and the source of that number."""
    at_heterogeneity: tuple[AtHeterogeneity, ...]
    """The recommended terms, were owners alike, as unlike as they are taken to be, and twice as unlike."""
    runs: tuple[Run, ...]
    """The plan's choice, its runner-up and the sides of its promises, run in the same worlds as the agreed terms."""
    comparison: Comparison
    """Agreed terms against recommended ones."""
    squared: bool
    """The fitness is a mean squared error, which has a root that people know."""
    generalisation: Generalisation
    """The same costs on new records of the owners."""
    unseen: Unseen | None
    """The cost of outliers too rare for public rows to show; None where owners have too few records to hold any."""

    def error(self, psi: float) -> float | None:
        """The typical error of a model of this ψ, in the target's unit: √f; None where the loss is not squared."""
        return float(np.sqrt(self.optimum * (1.0 + psi))) if self.squared and np.isfinite(psi) else None

    def as_records(self, psi: float) -> float:
        """How many pooled records, without privacy, give as good a model."""
        return self.consortium.as_records(psi)

    @property
    def together(self) -> float:
        """ψ that the recommended terms typically reach: the median over runs and worlds."""
        return self.recommended.relative_fitness.end["median"]

    @property
    def runner_up(self) -> Run | None:
        """The next best of another kind, in the same worlds."""
        kind = kind_of(self.recommended.agreement)
        others = [run for run in self.runs if kind_of(run.assessment.agreement) != kind]
        return min(others, key=lambda run: run.cost, default=None)

    @property
    def trades(self) -> dict[str, tuple[Run, Run]]:
        """The price of each promise in the same worlds: the best run that keeps it, and the best that does not."""
        sides = best_by_promise([run.choice for run in self.runs], [run.cost for run in self.runs])
        return {promise: (self.runs[i], self.runs[j]) for promise, (i, j) in sides.items()}

    @property
    def caution_of_plan(self) -> Caution | None:
        """The plan's weighing of owners that may differ, where its choice is recommended."""
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
        """A caution where the band is wide, or outliers could cost more than it; else None."""
        ψ, said = self.recommended.relative_fitness.end, []
        low, high = ψ["low"], ψ["high"]
        if high > WIDE * low or self.public_rows < 3 * self.n_parameters:
            said.append(
                f"{self.public_rows:,} public rows for {self.n_parameters} parameters: the cost lies between "
                f"{short_percent(low)} and {short_percent(high)}."
            )
        rare = None if self.unseen is None else self.unseen.words(high)
        return " ".join([*said, *([] if rare is None else [rare])]) or None

    @property
    def verdict(self) -> str:
        """One sentence for the people who decide."""
        return self._verdict(short_percent)

    @property
    def verdict_on_screen(self) -> str:
        """The same with as many digits as the tables beside it have."""
        return self._verdict(percent)

    def _verdict(self, shown: Callable[[float], str]) -> str:
        ψ = self.together
        gain = [owner.called for owner in self.owners if owner.joining_pays and not owner.close_call]
        even = [owner.called for owner in self.owners if owner.close_call]
        open_to = f"; for {_names(even)} it could be either way" if gain and even else ""
        if even and not gain:
            others = [owner.called for owner in self.owners if not owner.close_call]
            return (
                f"For {_names(even)} joining is a close call{f', and it does not pay for {_names(others)}' if others else ''}: "
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
        who = "everybody" if len(gain) == len(self.owners) else _names(gain)
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
            f"But {_names(cost)} would cost the others more than they gain by it: {_names(rest)} {how} would reach "
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
        agreed = self.agreed.relative_fitness.end["median"]
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
                "agreed": self.error(agreed),
                "public_only": self.error(self.public_only),
            },
            "worth_of_records": self.as_records(self.together),
            "on_new_records": self.generalisation.told(
                self.together, agreed, self.public_only,
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
        return json.dumps(json_ready({**self.to_dict(), **added}), indent=2)


def _assessed(terms: tuple[str, Assessment]) -> tuple[str, ...]:
    name, ψ = terms[0], terms[1].relative_fitness.end
    return name, *(percent(ψ[key]) for key in ("mean", "median", "low", "high"))


def _joining(owner: OwnerForecast) -> tuple[str, ...]:
    pays = "close call" if owner.close_call else "yes" if owner.joining_pays else "no"
    return owner.called, f"{owner.records:,}", f"{owner.epsilon:g}", percent(owner.alone), percent(owner.together), pays


def _names(names: Sequence[str]) -> str:
    return listed([printable(name, 60) for name in names], 5)
