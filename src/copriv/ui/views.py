"""Forecasts for the pages "Should we join?" and "A data market": made in a process of their own, and as numbers.

A view is computed in two ways. `exact` reads a full forecast of the same terms. `quick` takes milliseconds: it uses the
curves of a forecast for other owners, on which the cost of any coalition is a point; the forecast has shifted them to
pass through the median cost of its runs. An owner's verdict, its probability, break-even budgets with their range and
fair shares are those of the full forecast, as the command line shows them.
Numbers are ψ on all owners' records unless their name says otherwise. Texts are made by the pages; the verdict of a full
forecast is sent as its sentences (`display.sentences`).

A full forecast takes seconds of arithmetic in one thread, and minutes for a thousand owners, which would block the server.
Only the newest request waits for one. A forecast that takes long and that no client waits for is cancelled for the next; but
not the first one of its data, whose curves the quick answers need.
"""

import asyncio
import multiprocessing
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.display.market import told
from copriv.display.sentences import Said
from copriv.display.verdict import pilots, sentences, sums
from copriv.errors import AgreementError, CoprivError
from copriv.forecast import Forecast, forecast
from copriv.forecast.coalition_value import Consortium, shapley_values
from copriv.forecast.forecaster import NOTICEABLE
from copriv.forecast.standalone_models import enough, personalized_cost
from copriv.formatting.numbers import json_ready, yes_or_no
from copriv.market import MECHANISMS, Market, lots, unstated
from copriv.problem.verdict import just_worthwhile
from copriv.report.public_rows import PublicRows
from copriv.terms import OwnerTerms
from copriv.types import Array

EPSILONS = np.geomspace(1e-3, 1e3, 601)
"""Budgets among which the frontier is searched."""
DROWNED = 1e12
"""Noise a million times as large as answers, at which they carry no information; beyond it the curve has no meaning."""
ALIKE = 1e-3
"""Relative gain over the model at `DROWNED` noise below which a model has learned nothing from the answers."""
FORECAST_KEYS = {
    "alone": "alone", "alone_low": "alone_low", "alone_high": "alone_high", "together": "together",
    "joining_pays": "joining_pays", "verdict": "verdict", "probability": "probability", "own": "own",
    "break_even": "pays_epsilon",
    "worth": "shapley", "worth_error": "shapley_error", "loss_to_others": "loss_to_others", "best_weight": "best_weight",
}  # fmt: skip
"""Keys of an owner in a view, and the corresponding keys in the forecast's JSON."""
SURE = 0.9
"""Probability below which a verdict is shown with "probably"."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """The parts of a forecast that views need, which are sent between processes."""

    agreement: Agreement
    consortium: Consortium
    recommended: Agreement
    document: dict[str, Any]
    """The forecast's JSON."""
    said: dict[str, list[Said]]
    """Sentences of the forecast: "said" of its verdict, "said_of_pilot" and "said_of_sum" of what these would change."""

    @classmethod
    def of(cls, agreement: Agreement, found: Forecast) -> "Prepared":
        """Take the parts of the forecast of these terms."""
        document = json_ready(found.to_dict())
        said = {"said": sentences(found), "said_of_pilot": pilots(found), "said_of_sum": sums(found)}
        return cls(agreement, found.consortium, found.recommended.agreement, document, said)

    @property
    def band(self) -> dict[str, float]:
        """ψ of the recommended terms: the median over runs, and the 5 % and 95 % quantiles "low" and "high"."""
        ψ = self.document["recommended"]["relative_fitness"]
        return {name: ψ[name] for name in ("low", "median", "high")}

    def alone(self, members: Consortium) -> Array:
        """ψ of these owners' own models: the consortium's formula, corrected to agree with the forecast at its sizes."""
        found = {owner["name"]: owner["alone"] for owner in self.document["owners"]}
        said = np.array([found[table.name] for table in self.agreement.owner_tables])
        return members.alone() * self._by_size(members, said / np.maximum(self.consortium.alone(), 1e-300))

    def without(self, members: Consortium, public_only: float) -> Array:
        """ψ of the better of own and public model, corrected likewise: its median is below the smaller of both medians."""
        usual = np.minimum(self.alone(members), public_only)
        if self.consortium.without is None:
            return usual
        own = np.minimum(self.alone(self.consortium), self.document["public_only"])
        return usual * self._by_size(members, self.consortium.without / np.maximum(own, 1e-300))

    def _by_size(self, members: Consortium, ratio: Array) -> Array:
        """A ratio at this forecast's owners, interpolated in the logarithm of the number of records."""
        sizes, first = np.unique(np.log(self.consortium.records), return_index=True)
        return np.asarray(np.interp(np.log(members.records), sizes, ratio[first]))


@dataclass(frozen=True)
class Seat:
    """State of an owner in the page: whether it is in the consortium, and whether its records differ from the others'."""

    terms: dict[str, Any]
    joined: bool
    unlike: bool


@dataclass(frozen=True)
class Question:
    """Input of a view: all owners in the page, the other terms, and the target ψ."""

    tables: dict[str, Any]
    """The agreement's tables without its owners."""
    seats: tuple[Seat, ...]
    target: float

    @classmethod
    def of(cls, document: Any) -> "Question":
        """The question in the page's JSON. Raises AgreementError, whose message begins with the field's path."""
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
        """The agreement of the owners that are in the consortium. Raises AgreementError with fewer than two."""
        joined = [seat.terms for seat in self.seats if seat.joined]
        if len(joined) < 2:
            raise AgreementError("owner: at least two organisations must be in")
        return Agreement.of({**self.tables, "owner": joined})


def prepare(agreement: Agreement) -> Prepared:
    """Forecast these terms. Raises what `copriv.forecast` raises."""
    return Prepared.of(agreement, forecast(agreement))


def expected_band(agreement: Agreement, public: Any, strata: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Expected ψ of a run after each query, from the learner's public rows: k, low, median, high.

    The owners' heterogeneity is as in a forecast: as agreed, as in the public rows' strata, or the usual one.
    Raises CoprivError where the agreement cannot be forecast.
    """
    ψ = PublicRows(agreement, public, strata).forecast(50).relative_fitness
    return {name: getattr(ψ, name).tolist() for name in ("k", "low", "median", "high")}


def exact(question: Question, made: Prepared) -> dict[str, Any]:
    """The view of a forecast of the same terms, with the forecast's results for each owner."""
    document = made.document
    known = {owner["name"]: owner for owner in document["owners"]}
    left = 1.0 - (document["pilot_outlook"] or {"share": 0.0})["share"]  # of what is agreed, for the run after a pilot
    view = _view(question, made, made.consortium)
    for row in view["owners"]:
        if row["joined"] and (found := known.get(row["name"])) is not None:
            public = row["own"]["public"]
            row |= {key: found[of_forecast] for key, of_forecast in FORECAST_KEYS.items()}
            own = found["own"]
            row["own_without"] = min(own["alone"], own["public_personalized"], public)
            if found["verdict"] == "no":
                row["probability"] = 1.0 - found["probability"]
            row["break_even"] = row["break_even"] and row["break_even"] / left
    view["target"]["epsilon"] = {name: ε and ε / left for name, ε in view["target"]["epsilon"].items()}
    kept = (
        "public_only_band", "heterogeneity", "runner_up", "agreed", "recommended", "trades", "description", "public_mix",
        "strata_unused", "without_stratum", "sampled_by_owner", "with_sum", "pilot_outlook",
    )  # fmt: skip
    inside = [owner["name"] for owner in document["owners"] if owner["in_best_subset"]]
    view |= {name: document[name] for name in kept} | {
        "kind": "exact", **{key: [one.to_dict() for one in said] for key, said in made.said.items()},
        "together": made.band, "warning": document.get("warning"),
        "best_subset": {"names": inside, "value": document["best_subset"]}, "best_weights": document["best_weights"],
        "fingerprint": made.recommended.fingerprint, "toml": made.recommended.to_toml(),
    }  # fmt: skip
    return _with_shares(view)


def quick(question: Question, made: Prepared) -> dict[str, Any]:
    """The view from the curves of another forecast."""
    view = _with_shares(_view(question, made, _members(question.agreement, made)))
    return view | {"kind": "quick", "heterogeneity": made.document["heterogeneity"]}


def market(question: Question, mechanism: str, made: Prepared, of_lots: Prepared) -> dict[str, Any]:
    """The view of a data market, from forecasts of the owners and of their lots, or from the curves of others."""
    if mechanism not in MECHANISMS:
        raise AgreementError(f"mechanism: must be one of {', '.join(MECHANISMS)}, not {mechanism!r}")
    terms = question.agreement
    same, weighed = True, []
    for agreement, found in ((unstated(terms), made), (lots(terms), of_lots)):
        known = agreement.fingerprint == found.agreement.fingerprint
        same &= known
        weighed.append(_held(found.consortium if known else _members(agreement, found), found))
    (members, _), (alike, public_only) = weighed
    offer = Market.of(terms, members, alike, public_only)
    said = [
        part if isinstance(part, str) else {"head": part.head, "rows": part.rows} for part in told(offer, mechanism)
    ]
    proposed = offer.proposed(mechanism)
    return {
        **offer.to_dict(), "kind": "exact" if same else "quick", "mechanism": mechanism, "said": said,
        "toml": proposed and proposed.to_toml(),
    }  # fmt: skip


def _members(agreement: Agreement, made: Prepared) -> Consortium:
    """The owners of an agreement, by the curves of the forecast of another one."""
    members = Consortium.of(agreement, made.consortium.information, made.consortium.curve)
    return replace(members, spread=made.consortium.spread)


def _held(members: Consortium, made: Prepared) -> tuple[Consortium, float]:
    """The owners with the ψ that each has without joining, and ψ of the public model on their records."""
    public_only = made.document["public_only"] + members.information * (
        1.0 / members.total - 1.0 / made.consortium.total
    )
    if members.without is None:
        members = replace(members, without=made.without(members, public_only))
    return members, public_only


def _with_shares(view: dict[str, Any]) -> dict[str, Any]:
    """The view, with whether each owner's verdict is sure, its best alternative to joining, and its share of the gain."""
    saved = sum((row["worth"] or 0.0) * row["count"] for row in view["owners"] if row["joined"])
    for row in view["owners"]:
        if not row["joined"]:
            continue
        without, row["rival"] = min((row["alone"], "alone"), (view["public_only"], "public"))
        if row["probability"] is None:
            row["sure"] = not view["together"]["low"] <= without <= view["together"]["high"]
        else:
            row["sure"] = row["probability"] >= SURE
        if row["worth"] is not None and saved > 0:
            row |= {"share": row["worth"] / saved, "share_error": row["worth_error"] / saved}
    least = min(view["together"]["median"], view["best_subset"]["value"])
    return view | {"weights_help": view["best_weights"] < (1.0 - NOTICEABLE) * least}


def _view(question: Question, made: Prepared, members: Consortium) -> dict[str, Any]:
    band, (members, public_only) = made.band, _held(members, made)
    median = members.together()
    spread = dict.fromkeys(band, 1.0)
    if band["median"] > 0:
        spread = {name: ψ / band["median"] for name, ψ in band.items()}
    subset, joined = members.best_subset(), [seat for seat in question.seats if seat.joined]
    return {
        "goal": question.agreement.goal,
        "worthwhile": question.agreement.worthwhile,
        "together": {name: median * factor for name, factor in spread.items()},
        "public_only": public_only,
        "owners": _rows(question, made, members, public_only),
        "best_subset": {
            "names": [seat.terms["name"] for seat, inside in zip(joined, subset, strict=True) if inside],
            "value": float(members.cost(members.best_numbers())),
        },
        "best_weights": members.weighted(members.best_weights()),
        "frontier": _frontier(made, members, public_only, spread, question.agreement.worthwhile),
        "target": {
            "value": question.target,
            "epsilon": {name: members.epsilon_for(question.target / factor) for name, factor in spread.items()},
        },
        "public_rows": made.document["public_rows"],
        "unlike": [seat.terms["name"] for seat in joined if seat.unlike],
    }


def _rows(question: Question, made: Prepared, members: Consortium, public_only: float) -> list[dict[str, Any]]:
    """One row for each owner in the page."""
    together, alone, lost = members.together(), made.alone(members), members.loss_without()
    N, few = len(alone), len(alone) <= 40  # fair shares and break-even budgets of more take too long
    shares, errors = np.full(N, np.nan), np.zeros(N)
    if few:
        shares, errors = shapley_values(members, samples=400)
    weights, without = members.best_weights(), np.minimum(alone, _without_answers(members, public_only))
    agreed = question.agreement
    own, enough_for = _on_own(agreed.owner_tables, made, together, public_only, agreed.worthwhile)
    enough_for = enough_for if agreed.goal == "own" else just_worthwhile(without, agreed.worthwhile)
    break_even = members.break_evens(np.asarray(enough_for, dtype=np.float64)) if few else []
    rows: list[dict[str, Any]] = []
    i = -1
    for seat in question.seats:
        row: dict[str, Any] = {"name": seat.terms.get("name"), "joined": seat.joined, "unlike": seat.unlike}
        row["count"] = seat.terms.get("count", 1)
        if not seat.joined:
            rows.append(row | {"if_it_came": _if_it_came(seat, agreed, made, members, public_only)})
            continue
        i += 1
        row |= {
            "alone": float(alone[i]), "together": together, "joining_pays": bool(together < enough_for[i]),
            "verdict": yes_or_no(together < enough_for[i]), "own": own[i], "own_without": own[i]["without"],
            "break_even": None, "worth": None, "worth_error": float(errors[i]),
            "loss_to_others": float(lost[i]), "weight": float(members.records[i] / members.total),
            "best_weight": float(weights[i]), "probability": None,
        }  # fmt: skip
        if few:
            row |= {"break_even": break_even[i], "worth": float(shares[i])}
        rows.append(row)
    return rows


def _on_own(
    tables: Sequence[OwnerTerms], made: Prepared, together: float, public_only: float, worthwhile: float
) -> tuple[list[dict[str, float]], Array]:
    """Costs on each owner's own records, and the ψ on all owners' records below which joining pays on these.

    An owner's excess cost on its own records is that of the forecast's owner of the same name, or else of the nearest
    number of records.
    """
    known, usual = made.document["owners"], made.document["recommended"]["relative_fitness"]["median"]
    like = [
        min(
            [one for one in known if one["name"] == table.name] or known,
            key=lambda one: abs(np.log(one["records"] / table.records)),
        )
        for table in tables
    ]
    alone = np.array(
        [one["own"]["alone"] * one["records"] / table.records for one, table in zip(like, tables, strict=True)]
    )
    excess = np.maximum(np.array([one["own"]["together"] for one in like]) - usual, 0.0)
    common, public, p = excess + together, excess + public_only, made.document["n_parameters"]
    with_intercept = public_with_intercept = None
    left: list[float | None] = [None] * len(like)
    if known[0]["own"]["together_with_intercept"] is not None:
        left = [one["own"]["together_with_intercept"] - usual * (p - 1) / p for one in like]
        with_intercept, public_with_intercept = (
            np.maximum(np.array(left), 0.0) + model * (p - 1) / p for model in (together, public_only)
        )
    finished = personalized_cost(alone, public, public_with_intercept, p)  # for which nobody has to join
    without = np.minimum(np.minimum(alone, public), finished).tolist()
    owners = zip(alone.tolist(), without, excess.tolist(), left, strict=True)
    most = [enough(a, best, worthwhile, e, rest, p) for a, best, e, rest in owners]
    costs = {"alone": alone, "together": common, "personalized": personalized_cost(alone, common, with_intercept, p)}
    costs |= {"public": public, "public_personalized": finished, "without": np.array(without)}
    own = [dict(zip(costs, map(float, each), strict=True)) for each in zip(*costs.values(), strict=True)]
    return own, np.array(most)


def _if_it_came(
    seat: Seat, agreed: Agreement, made: Prepared, members: Consortium, public_only: float
) -> dict[str, Any] | None:
    """The gain of an owner outside the consortium, and of the others, if it joined. None where its terms are not valid.

    agreed: what the page asks for, where `made` may be a forecast for another goal. "alone" in the result: the best that it
    has without joining.
    """
    terms = {"agreement": {"rule": "auto"}, "model": {"loss": "squared"}, "owner": [seat.terms]}
    try:
        wider = Agreement.of(terms).owner_tables[0]
    except AgreementError:
        return None
    more = members.joined_by(wider.records, wider.epsilon, wider.overlap, wider.number)
    public = public_only + members.information * (1.0 / more.total - 1.0 / members.total)
    alone, with_it = min(float(made.alone(more)[-1]), _without_answers(more, public)), more.together()
    gain, pays = members.together() - with_it, bool(with_it < just_worthwhile(alone, agreed.worthwhile))
    if agreed.goal == "own":
        (own,), (most,) = _on_own([wider], made, with_it, public_only, agreed.worthwhile)
        alone, pays, with_it = own["without"], bool(with_it < most), min(own["together"], own["personalized"])
    return {"together": with_it, "alone": alone, "joining_pays": pays, "gain_to_others": gain}


def _frontier(
    made: Prepared, members: Consortium, public_only: float, spread: dict[str, float], worthwhile: float
) -> dict[str, Any]:
    """For N owners of the median size, the least common ε at which joining pays for one; and the position of these owners.

    "median" is for the median cost of runs; "low" and "high" are for a cost at the ends of the forecast's band.
    """
    each = members.number.astype(np.int64)
    size, N = float(np.median(np.repeat(members.records, each))), int(each.sum())
    ν = members.together_noise
    counts = np.unique(np.round(np.geomspace(2, max(30, 3 * N), 28)).astype(int))
    lines: dict[str, list[float | None]] = {name: [] for name in spread}
    for owners in counts.tolist():
        total = owners * size
        public = public_only + members.information * (1.0 / total - 1.0 / members.total)
        ones = np.ones(owners)
        alike = replace(members, records=size * ones, epsilon=ones, overlap=ones, counts=None, without=None)
        alone = float(made.alone(alike)[0])
        expected = members.curve.at(owners / (total * EPSILONS) ** 2)
        of_own, of_public = (just_worthwhile(ψ, worthwhile) for ψ in (alone, _without_answers(members, public)))
        for name, factor in spread.items():
            # A lucky run does not improve the public model: the optimistic line must beat it on average.
            pays = (expected * factor < of_own) & (expected * max(factor, 1.0) < of_public)
            lines[name].append(next(iter(EPSILONS[pays].tolist()), None))
    here = {"owners": N, "epsilon": float(np.sqrt(N / ν) / members.total), "records": size}
    return {"owners": counts.tolist(), "lines": lines, "here": here, "records": size}


def _without_answers(members: Consortium, public_only: float) -> float:
    """ψ that a common model must beat to have learned from answers: the public model's, and that at `DROWNED` noise."""
    return min(public_only, float(members.curve.at(DROWNED)) * (1.0 - ALIKE))


def same_curves(one: Agreement, other: Agreement) -> bool:
    """Whether two agreements have the same curves: the same data, fitness, and kinds of guarantee (ε, or ε and δ)."""
    promises, others = ({table.delta > 0 for table in agreement.owner_tables} for agreement in (one, other))
    return (one.data, one.model, promises) == (other.data, other.model, others)


LONG = 5.0
"""Seconds after which a forecast that no client waits for is cancelled for another one."""

Gone = Callable[[], Awaitable[bool]]
"""Whether the client that asked has disconnected."""


class Superseded(CoprivError):
    """A newer request arrived before this forecast was begun."""


class Forecaster:
    """Makes forecasts in another process, and keeps the newest ones."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._made: OrderedDict[str, Prepared] = OrderedDict()
        self._busy = asyncio.Lock()
        self._newest = 0
        self._current: tuple[Agreement, Gone, float] | None = None
        """The agreement that is being forecast, whether its client is gone, and the time at which it began."""

    def known(self, agreement: Agreement) -> Prepared | None:
        """The forecast of exactly these terms, if it has been made."""
        return self._made.get(agreement.fingerprint)

    def near(self, agreement: Agreement) -> Prepared | None:
        """The newest forecast of the same data and fitness, for any owners, from which quick answers are computed."""
        return next((made for made in reversed(self._made.values()) if same_curves(made.agreement, agreement)), None)

    async def forecast(self, agreement: Agreement, gone: Gone) -> Prepared:
        """The forecast of these terms. Raises what `copriv.forecast` raises, and Superseded."""
        self._newest += 1
        mine = self._newest
        while self._busy.locked() and mine == self._newest:
            await asyncio.sleep(0.2)
            await self._make_room(agreement)
        async with self._busy:
            if (made := self.known(agreement)) is not None:
                return made
            if mine != self._newest:
                raise Superseded("a newer question came first")
            self._current = agreement, gone, time.monotonic()
            try:
                made = await self._run(agreement)
            finally:
                self._current = None
        self._made[agreement.fingerprint] = made
        while len(self._made) > 64:
            self._made.popitem(last=False)
        return made

    async def _make_room(self, agreement: Agreement) -> None:
        """Cancel the forecast that is being made, if no client waits for it (`LONG`)."""
        if self._current is None:
            return
        current, gone, begun = self._current
        needed = self.near(agreement) is None and same_curves(current, agreement)
        if needed or current.fingerprint == agreement.fingerprint or time.monotonic() - begun < LONG:
            return
        if await gone():
            self.close()

    async def _run(self, agreement: Agreement) -> Prepared:
        if self._pool is None:
            # Spawned, because a fork would copy the server's sockets and threads.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, _set_up_process, (os.getpid(),))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, prepare, agreement)
        except BrokenProcessPool:
            self._pool = None
            raise CoprivError("the forecast's process ended; change something to try again") from None

    def close(self) -> None:
        """End the process, and with it the forecast that it is making."""
        if self._pool is not None:
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _set_up_process(parent: int) -> None:
    """In the new process: lower its priority, and end it when the server ends, in whatever way."""
    if hasattr(os, "nice"):
        os.nice(5)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
