"""What "Should we join?" shows, as numbers: the one place that turns forecasts into what pages draw.

Two ways to the same view. `exact` reads a full forecast of exactly these terms. `quick` takes the curves of a forecast
that was made for other owners, in milliseconds: the cost of any coalition is a point on the curve, which the forecast
has moved to go through what its runs typically cost, the median. What a full forecast says of an owner (the verdict, its
probability, break-even budgets and their range, fair shares) stands in the full view as the command line says it.
Numbers are ψ, on all owners' records, unless a name says otherwise; texts are the pages' business.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.forecast import Forecast, forecast
from copriv.forecast.assessment import assess, worlds_unlike
from copriv.forecast.coalition_value import Consortium
from copriv.forecast.shapley import shapley_values
from copriv.populations.dealt import heterogeneity_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.types import Array

FRONTIER = 28
"""Numbers of owners at which the frontier is worked out."""
MANY = 40
"""Owners beyond which a view leaves out fair shares and break-even budgets, which take too long."""
EPSILONS = np.geomspace(1e-3, 1e3, 601)
"""Where the frontier is looked for."""
DROWNED = 1e12
"""Noise a million times as large as answers; far beyond, settings that learn from nothing at all would be the best."""
ALIKE = 1e-3
"""A model that is better by less than what is left when noise drowns every answer has learnt nothing from them."""
SAID = {
    "alone": "alone", "alone_low": "alone_low", "alone_high": "alone_high", "together": "together",
    "joining_pays": "joining_pays", "close": "close_call", "break_even": "break_even_epsilon",
    "break_even_low": "break_even_epsilon_low", "break_even_high": "break_even_epsilon_high", "worth": "shapley",
    "worth_error": "shapley_error", "loss_to_others": "loss_to_others", "best_weight": "best_weight",
}  # fmt: skip
"""Of an owner: what a view calls it, and what the forecast's JSON does."""
_CERTAIN = {"low": 1.0, "median": 1.0, "high": 1.0}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A forecast, with what quick answers need of it; small, for it goes from process to process."""

    agreement: Agreement
    consortium: Consortium
    public_only: float
    median: float
    low: float
    high: float
    """Of the recommended terms: half of the runs are below `median`, 5 % below `low`, 5 % above `high`."""
    document: dict[str, Any]
    """The forecast's JSON."""
    recommended: Agreement
    agreed: Agreement

    def alone(self, members: Consortium) -> Array:
        """ψ of these owners' own models: the consortium's formula, held to what the forecast says at its own sizes."""
        found = {owner["name"]: owner["alone"] for owner in self.document["owners"]}
        said = np.array([found[table.name] for table in self.agreement.owner_tables])
        return members.alone() * self._by_size(members, said / np.maximum(self.consortium.alone(), 1e-300))

    def without(self, members: Consortium, public_only: float) -> Array:
        """ψ of the better of the two that need nobody, held likewise: in a world the better one is better than both medians."""
        usual = np.minimum(self.alone(members), public_only)
        if self.consortium.without is None:
            return usual
        own = np.minimum(self.alone(self.consortium), self.public_only)
        return usual * self._by_size(members, self.consortium.without / np.maximum(own, 1e-300))

    def _by_size(self, members: Consortium, ratio: Array) -> Array:
        """What is known of this forecast's owners, for owners of other sizes."""
        sizes, first = np.unique(np.log(self.consortium.records), return_index=True)
        return np.asarray(np.interp(np.log(members.records), sizes, ratio[first]))

    def fits(self, agreement: Agreement) -> bool:
        """Whether its curves are of the same data and fitness, and of the same promises (ε, or ε and δ)."""
        return same_curves(self.agreement, agreement)


@dataclass(frozen=True)
class Seat:
    """An owner as the page has it: in the consortium or not, and like the others or not."""

    terms: dict[str, Any]
    joined: bool
    unlike: bool


@dataclass(frozen=True)
class Question:
    """What the page asks: everybody at the table, the other terms, and the error that people can live with."""

    tables: dict[str, Any]
    """The agreement's tables without its owners."""
    seats: tuple[Seat, ...]
    target: float

    @classmethod
    def of(cls, document: Any) -> "Question":
        """From the page's JSON. Raises AgreementError, starting with the field's path."""
        if not isinstance(document, dict) or not isinstance(document.get("owners"), list):
            raise AgreementError("owner: the page's state cannot be read; open the page again")
        seats = tuple(
            Seat(dict(o.get("terms") or {}), o.get("joined") is True, o.get("unlike") is True)
            for o in document["owners"]
            if isinstance(o, dict)
        )
        target = document.get("target")
        if isinstance(target, bool) or not isinstance(target, int | float) or not 0 < target < np.inf:
            raise AgreementError(f"target: must be a number above 0, not {target!r}")
        tables = {
            name: document[name] for name in ("agreement", "model", "data") if isinstance(document.get(name), dict)
        }
        return cls(tables, seats, float(target))

    @property
    def agreement(self) -> Agreement:
        """The terms of those who are in. Raises AgreementError with fewer than two."""
        joined = [seat.terms for seat in self.seats if seat.joined]
        if len(joined) < 2:
            raise AgreementError("owner: at least two organisations must be in")
        return Agreement.of({**self.tables, "owner": joined})

    @property
    def everybody(self) -> Agreement:
        """The terms with all at the table, those who are out too."""
        return Agreement.of({**self.tables, "owner": [seat.terms for seat in self.seats]})


def prepare(agreement: Agreement) -> Prepared:
    """Forecast these terms. Raises what `copriv.forecast` raises."""
    found = forecast(agreement)
    ψ = found.recommended.relative_fitness
    return Prepared(
        agreement, found.consortium, found.public_only, float(ψ.median[-1]), float(ψ.low[-1]), float(ψ.high[-1]),
        _document(found), found.recommended.agreement, found.agreed.agreement,
    )  # fmt: skip


def _of_being_right(found: dict[str, Any]) -> float | None:
    """The probability of the verdict, whichever it is; None where the forecast says none."""
    pays = found.get("joining_pays_probability")
    return None if pays is None else float(pays) if found["joining_pays"] else 1.0 - float(pays)


def expected_band(agreement: Agreement, public: Any, strata: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Where a run's ψ is expected after each query, from the learner's public rows: k, low, median, high.

    In the worlds of a forecast: of owners as unlike as is stated, as the public rows' strata say, or as is usual.
    Raises CoprivError where the agreement cannot be forecast.
    """
    problem = Problem.forecasting(agreement, public, strata=strata)
    sample = PublicSample.of(problem)
    unlike = worlds_unlike(sample, agreement, heterogeneity_of(problem), 0)
    ψ = assess(problem, "as agreed", 50, 0, sample, unlike).relative_fitness
    return {name: getattr(ψ, name).tolist() for name in ("k", "low", "median", "high")}


def exact(question: Question, made: Prepared) -> dict[str, Any]:
    """The view of a forecast of exactly these terms: all that the command line says of an owner is what it says."""
    document = made.document
    known = {owner["name"]: owner for owner in document["owners"]}
    view = _view(question, made, made.consortium)
    for row in view["owners"]:
        found = known.get(row["name"])
        if row["joined"] and found is not None:
            row |= {ours: found[theirs] for ours, theirs in SAID.items()}
            row |= {"own": found.get("own"), "probability": _of_being_right(found)}
    inside = [owner["name"] for owner in document["owners"] if owner["in_best_subset"]]
    return view | {
        "best_subset": {"names": inside, "value": document["best_subset"]}, "best_weights": document["best_weights"],
        "public_only_band": document["public_only_band"], "warning": document.get("warning"),
        "kind": "exact", "together": {"median": made.median, "low": made.low, "high": made.high},
        "heterogeneity": document.get("heterogeneity"), "runner_up": document.get("runner_up"),
        "agreed": document["agreed"], "recommended": document["recommended"], "trades": document.get("trades", {}),
        "caution": document.get("caution"),
        "description": document.get("description"),
        "fingerprint": made.recommended.fingerprint, "toml": made.recommended.to_toml(),
    }  # fmt: skip


def quick(question: Question, made: Prepared) -> dict[str, Any]:
    """The view from another forecast's curves, in milliseconds."""
    members = Consortium.of(question.agreement, made.consortium.information, made.consortium.curve)
    members = replace(members, spread=made.consortium.spread)
    return _view(question, made, members) | {"kind": "quick", "heterogeneity": made.document.get("heterogeneity")}


def _view(question: Question, made: Prepared, members: Consortium) -> dict[str, Any]:
    n, before = members.total, made.consortium.total
    public_only = made.public_only + members.information * (1.0 / n - 1.0 / before)
    if members.without is None:
        members = replace(members, without=made.without(members, public_only))
    median, spread = members.together(), _CERTAIN
    if made.median > 0:
        spread = {"low": made.low / made.median, "median": 1.0, "high": made.high / made.median}
    subset, numbers = members.best_subset(), members.best_numbers()
    names = [seat.terms["name"] for seat in question.seats if seat.joined]
    return {
        "together": {name: median * factor for name, factor in spread.items()},
        "public_only": public_only,
        "owners": _rows(question, made, members, public_only),
        "best_subset": {
            "names": [name for name, inside in zip(names, subset, strict=True) if inside],
            "value": float(members.cost(numbers)),
        },
        "best_weights": members.weighted(members.best_weights()),
        "frontier": _frontier(made, members, public_only, spread),
        "target": {
            "value": question.target,
            "epsilon": {name: members.epsilon_for(question.target / factor) for name, factor in spread.items()},
        },
        "public_rows": question.agreement.data.public_count,
        "unlike": [seat.terms["name"] for seat in question.seats if seat.joined and seat.unlike],
    }


def _rows(question: Question, made: Prepared, members: Consortium, public_only: float) -> list[dict[str, Any]]:
    """One for each seat, whether in or out."""
    together = members.together()
    alone, without = made.alone(members), members.loss_without()
    N = len(alone)
    shares, errors = shapley_values(members, samples=400) if N <= MANY else (np.full(N, np.nan), np.zeros(N))
    weights, rivals = members.best_weights(), np.minimum(alone, _without_answers(members, public_only))
    rows, i = [], -1
    for seat in question.seats:
        row: dict[str, Any] = {"name": seat.terms.get("name"), "joined": seat.joined, "unlike": seat.unlike}
        if not seat.joined:
            rows.append(row | _if_it_came(seat, made, members, together))
            continue
        i += 1
        rows.append(
            row
            | {
                "alone": float(alone[i]), "together": together,
                "joining_pays": bool(together < rivals[i]),
                "break_even": members.break_even(i, float(rivals[i])) if N <= MANY else None,
                "worth": None if np.isnan(shares[i]) else float(shares[i]), "worth_error": float(errors[i]),
                "loss_to_others": float(without[i]), "weight": float(members.records[i] / members.total),
                "best_weight": float(weights[i]), "own": None, "probability": None,
            }
        )  # fmt: skip
    return rows


def _if_it_came(seat: Seat, made: Prepared, members: Consortium, together: float) -> dict[str, Any]:
    """What the others would have of an owner who is out: its model and theirs, with it in."""
    try:
        wider = Agreement.of({"agreement": {"rule": "auto", "horizon": 1}, "model": {"loss": "squared"},
                              "owner": [seat.terms]}).owner_tables[0]  # fmt: skip
    except AgreementError:
        return {"if_it_came": None}
    more = replace(
        members,
        records=np.append(members.records, float(wider.records)),
        epsilon=np.append(members.epsilon, wider.epsilon),
        overlap=np.append(members.overlap, float(wider.overlap)),
        counts=np.append(members.number, float(wider.number)),
        without=None,
    )
    alone, with_it = float(made.alone(more)[-1]), more.together()
    return {"if_it_came": {"together": with_it, "alone": alone, "joining_pays": with_it < alone,
                           "gain_to_others": together - with_it}}  # fmt: skip


def _frontier(made: Prepared, members: Consortium, public_only: float, spread: dict[str, float]) -> dict[str, Any]:
    """For N owners of the typical size, the least ε of all at which joining pays for one; and where these owners are.

    "median" is where it typically does; "low" and "high" where it would, were the cost at an end of the forecast's band.
    """
    each = members.number.astype(np.int64)
    size, N = float(np.median(np.repeat(members.records, each))), int(each.sum())
    ν = members.together_noise
    counts = np.unique(np.round(np.geomspace(2, max(30, 3 * N), FRONTIER)).astype(int))
    lines: dict[str, list[float | None]] = {name: [] for name in spread}
    for owners in counts.tolist():
        total = owners * size
        public = public_only + members.information * (1.0 / total - 1.0 / members.total)
        ones = np.ones(owners)
        alike = replace(members, records=size * ones, epsilon=ones, overlap=ones, counts=None, without=None)
        alone = float(made.alone(alike)[0])
        expected = members.curve.at(owners / (total * EPSILONS) ** 2)
        rival = _without_answers(members, public)
        for name, factor in spread.items():
            # Luck does not make the public model better than itself: what is optimistic must beat it on average.
            pays = (expected * factor < alone) & (expected * max(factor, 1.0) < rival)
            lines[name].append(float(EPSILONS[np.argmax(pays)]) if pays.any() else None)
    here = {"owners": N, "epsilon": float(np.sqrt(N / ν) / members.total), "records": size}
    return {"owners": counts.tolist(), "lines": lines, "here": here, "records": size}


def _without_answers(members: Consortium, public_only: float) -> float:
    """What a common model must beat to be worth its answers: the public one, and what it is when noise drowns them."""
    return min(public_only, float(members.curve.at(DROWNED)) * (1.0 - ALIKE))


def _document(found: Forecast) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(found.to_json())
    return document


def same_curves(one: Agreement, other: Agreement) -> bool:
    """Whether curves of one serve for the other: the same data and fitness, and the same promises (ε, or ε and δ)."""
    promises, others = ({table.delta > 0 for table in agreement.owner_tables} for agreement in (one, other))
    return (one.data, one.model, promises) == (other.data, other.model, others)
