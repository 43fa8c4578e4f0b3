"""What "Should we join?" shows, as numbers: the one place that turns forecasts into what pages draw.

Two ways to the same view. `exact` reads a full forecast of exactly these terms. `quick` takes the curves of a forecast
that was made for other owners, in milliseconds: the cost of any coalition is a point on the curve, moved by the factor
that takes the curve through the full forecast it came with (a curve is priced with more caution than runs are). Numbers
are ψ, on all owners' records, unless a name says otherwise; texts are the pages' business.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.cli.output import agreement_toml
from copriv.errors import AgreementError
from copriv.forecast import Forecast, forecast
from copriv.forecast.value import Consortium

FRONTIER = 28
"""Numbers of owners at which the frontier is worked out."""
MANY = 40
"""Owners beyond which a quick view leaves out fair shares, which take too long."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A forecast, with what quick answers need of it; small, for it goes from process to process."""

    agreement: Agreement
    consortium: Consortium
    public_only: float
    mean: float
    low: float
    high: float
    """Of the recommended terms: 5 % of runs are below `low`, 5 % above `high`."""
    document: dict[str, Any]
    """The forecast's JSON."""
    recommended: Agreement
    agreed: Agreement

    def fits(self, agreement: Agreement) -> bool:
        """Whether its curves are of the same data and fitness, and of the same promises (ε, or ε and δ)."""
        return _asked_of(self.agreement) == _asked_of(agreement)


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
        tables = {name: document[name] for name in ("agreement", "model", "data") if isinstance(document.get(name), dict)}
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
        agreement, found.consortium, found.public_only, float(ψ.mean[-1]), float(ψ.low[-1]), float(ψ.high[-1]),
        _document(found), found.recommended.agreement, found.agreed.agreement,
    )  # fmt: skip


def exact(question: Question, made: Prepared) -> dict[str, Any]:
    """The view of a forecast of exactly these terms."""
    known = {owner["name"]: owner for owner in made.document["owners"]}
    view = _view(question, made, made.consortium)
    for row in view["owners"]:
        # The verdict and the numbers beside it are those of the command line.
        found = known.get(row["name"])
        if row["joined"] and found is not None:
            row |= {
                "alone": found["alone"], "together": found["together"], "joining_pays": found["joining_pays"],
                "break_even": found["break_even_epsilon"], "worth": found["shapley"],
                "worth_error": found["shapley_error"], "loss_to_others": found["loss_to_others"],
                "best_weight": found["best_weight"], "own": found.get("own"),
                "probability": found.get("joining_pays_probability"),
            }  # fmt: skip
    document = made.document
    return view | {
        "kind": "exact", "unlikeness": document.get("unlikeness"), "runner_up": document.get("runner_up"),
        "agreed": document["agreed"], "recommended": document["recommended"], "trades": document.get("trades", {}),
        "verdict": document.get("verdict"), "description": document.get("description"),
        "fingerprint": made.recommended.fingerprint, "toml": agreement_toml(made.recommended),
    }  # fmt: skip


def quick(question: Question, made: Prepared) -> dict[str, Any]:
    """The view from another forecast's curves, in milliseconds."""
    members = Consortium.of(question.agreement, made.consortium.information, made.consortium.curve)
    return _view(question, made, members) | {"kind": "quick", "unlikeness": None}


def _view(question: Question, made: Prepared, members: Consortium) -> dict[str, Any]:
    n, before = members.total, made.consortium.total
    public_only = made.public_only + members.information * (1.0 / n - 1.0 / before)
    scale = made.consortium.together()
    ratio = {name: max(getattr(made, name), 0.0) / scale if scale > 0 else 1.0 for name in ("mean", "low", "high")}
    anchored = {name: _scaled(members, factor) for name, factor in ratio.items()}
    together = {name: curve.together() for name, curve in anchored.items()}
    subset = anchored["mean"].best_subset()
    names = [seat.terms["name"] for seat in question.seats if seat.joined]
    return {
        "together": together,
        "public_only": public_only,
        "owners": _rows(question, anchored["mean"], public_only),
        "best_subset": {
            "names": [name for name, inside in zip(names, subset, strict=True) if inside],
            "value": float(anchored["mean"].cost(subset)),
        },
        "best_weights": anchored["mean"].weighted(anchored["mean"].best_weights()),
        "frontier": _frontier(anchored, public_only),
        "target": {
            "value": question.target,
            "epsilon": {name: curve.epsilon_for(question.target) for name, curve in anchored.items()},
            "without_noise": float(anchored["mean"].curve.at(0.0)),
        },
        "public_rows": question.agreement.data.public_rows,
        "unlike": [seat.terms["name"] for seat in question.seats if seat.joined and seat.unlike],
    }


def _rows(question: Question, members: Consortium, public_only: float) -> list[dict[str, Any]]:
    """One for each seat, whether in or out."""
    together = members.together()
    alone, without = members.alone(), members.loss_without()
    N = len(alone)
    shares, errors = members.shapley(samples=400) if N <= MANY else (np.full(N, np.nan), np.zeros(N))
    weights = members.best_weights()
    rows, i = [], -1
    for seat in question.seats:
        row: dict[str, Any] = {"name": seat.terms.get("name"), "joined": seat.joined, "unlike": seat.unlike}
        if not seat.joined:
            rows.append(row | _if_it_came(seat, members, together))
            continue
        i += 1
        rows.append(
            row
            | {
                "alone": float(alone[i]), "together": together,
                "joining_pays": bool(together < min(float(alone[i]), public_only)),
                "break_even": members.break_even(i, public_only) if N <= MANY else None,
                "worth": None if np.isnan(shares[i]) else float(shares[i]), "worth_error": float(errors[i]),
                "loss_to_others": float(without[i]), "weight": float(members.records[i] / members.total),
                "best_weight": float(weights[i]), "own": None, "probability": None,
            }
        )  # fmt: skip
    return rows


def _if_it_came(seat: Seat, members: Consortium, together: float) -> dict[str, Any]:
    """What the others would have of an owner who is out: its model and theirs, with it in."""
    try:
        wider = Agreement.of({"agreement": {"rule": "auto", "horizon": 1}, "model": {"loss": "squared"},
                              "owner": [seat.terms]}).owner[0]  # fmt: skip
    except AgreementError:
        return {"if_it_came": None}
    more = replace(
        members,
        records=np.append(members.records, float(wider.records)),
        epsilon=np.append(members.epsilon, wider.epsilon),
        overlap=np.append(members.overlap, float(wider.overlap)),
    )
    alone, with_it = float(more.alone()[-1]), more.together()
    return {"if_it_came": {"together": with_it, "alone": alone, "joining_pays": with_it < alone,
                           "gain_to_others": together - with_it}}  # fmt: skip


def _frontier(anchored: dict[str, Consortium], public_only: float) -> dict[str, Any]:
    """For N owners of the typical size, the least ε of all at which joining pays for one; and where these owners are.

    Worked out thrice: where the full forecast's mean is, and at both ends of its band.
    """
    members = anchored["mean"]
    size, N = float(np.median(members.records)), len(members.records)
    ν = float(np.sum((members.overlap / members.epsilon) ** 2)) / members.total**2
    most = max(30, 3 * N)
    counts = np.unique(np.round(np.geomspace(2, most, FRONTIER)).astype(int))
    lines = {name: [_least_epsilon(curve, size, int(k), public_only) for k in counts] for name, curve in anchored.items()}
    here = {"owners": N, "epsilon": float(np.sqrt(N / ν) / members.total), "records": size}
    return {"owners": counts.tolist(), "lines": lines, "here": here, "records": size}


def _least_epsilon(members: Consortium, size: float, owners: int, public_only: float) -> float | None:
    equal = np.full(owners, size)
    few = replace(members, records=equal, epsilon=np.ones(owners), overlap=np.ones(owners))
    public = public_only + members.information * (1.0 / few.total - 1.0 / members.total)
    return few.break_even_for_all(0, public)


def _scaled(members: Consortium, factor: float) -> Consortium:
    """The same owners on a curve that is `factor` times as high."""
    curve = replace(members.curve, fixed=members.curve.fixed * factor, slope=members.curve.slope * factor)
    return replace(members, curve=curve)


def _document(found: Forecast) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(found.to_json())
    return document


def _asked_of(agreement: Agreement) -> tuple[Any, ...]:
    """What a curve depends on, besides the owners."""
    return agreement.data, agreement.model, tuple(sorted({owner.delta > 0 for owner in agreement.owner}))


