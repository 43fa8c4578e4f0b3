"""Whether joining pays for an owner, asked at home of its own records.

An owner holds what nobody else may see: its records. It holds against them, exactly, what has been released:

* its own model, by cross-validation: with R the loss of rows held out and r that of rows seen, fitted to a share s of its n
  records, the least possible loss is about (R + r)/2, and fitting to all n costs a = s(R − r)/2 more, times χ²_p/p;
* the public model, where it has the public rows: its loss is seen with an error of a, so that its cost is found as a distance
  in noise is (a noncentral χ², `populations.diagnosis`);
* after a run the released θ, in the same way. It has learned from these records too, by which it looks better on them than on
  new ones by 2a times the owner's share of all records;
* before a run, what a forecast says of the model to come. Its cost on own records is taken to be u + ψ + 2z√(uψ/p), with ψ
  that on everybody's and z normal: the square of two steps at a random angle. u is how far this owner is from everybody: what
  the public model costs here, less its own error. Without public rows u is drawn from the forecast's heterogeneity;
* that model personalized at home costs what a forecast says (`personalized_cost`), or that with a level of the owner's own.

All of it is drawn many times: the records by a Bayesian bootstrap as wide as Student's t, what is forecast from its band.
The answer follows as in any forecast (`verdict_of`). It is exact about private records and has no guarantee: it stays at home.

That cross-validation fits to fewer records is made up for to first order in 1/n (Davison and Hinkley, Bootstrap Methods and
their Application, 1997, §6.4.1).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import InvalidInput
from copriv.forecast.document import check_is_of
from copriv.forecast.result import Forecast
from copriv.forecast.standalone_models import personalized_cost
from copriv.formatting.cards import Shown
from copriv.formatting.numbers import json_ready
from copriv.model.records import Records
from copriv.model.threads import one_thread
from copriv.populations.diagnosis import distances
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.problem.personalization import DRAWS, CrossValidated, Home, by_unit, home_of
from copriv.problem.verdict import Answer, Asked, Model, OwnerVerdict, verdict_of
from copriv.terms.heterogeneity import Heterogeneity
from copriv.types import Array
from copriv.validation import count

ROWS = 20_000
"""Most rows that models are fitted to; what more of them would change is worked out."""
NOT_FOR_RELEASE = (
    "Not for release: exact numbers about your records. To leave, decline or report because of them tells something about your "
    "records too."
)


@dataclass(frozen=True)
class VerdictAtHome(Shown):
    """Whether joining pays for one owner, by its own records. Not for release.

    >>> home = copriv.owner_verdict(agreement, "north", data[0], outlook, public=public)
    >>> home.verdict, home.to_dict()["release"]
    ('no', False)
    """

    _teller: ClassVar[str] = "copriv.display.at_home:card"

    name: str
    records: int
    """Or persons, where they are the units."""
    after_run: bool
    """Whether a released model was judged; else one that is forecast."""
    worthwhile: float
    on_own: OwnerVerdict | None
    """None where the records cannot say it."""
    reason: str
    """Why they cannot; "" where they can."""
    errors: Mapping[str, float]
    """Prediction error (mean loss) on new records of the owner's kind: of its "own" model, the "public" one, the "common" one
    and that "personalized". Medians of what was drawn."""

    @property
    def verdict(self) -> Answer:
        """Whether joining pays by at least what is worthwhile."""
        return "open" if self.on_own is None else self.on_own.answer

    @property
    def probability(self) -> float | None:
        """That it does; None where the records cannot say it."""
        return None if self.on_own is None else self.on_own.probability

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract `copriv.owner-verdict/1`, with the keys that an owner has in a forecast."""
        found = {} if self.on_own is None else vars(self.on_own)
        outcomes = {key: found.get(key) for key in ("if_alike", "if_unlike")}
        return {
            "schema": "copriv.owner-verdict/1",
            "release": False,
            "note": NOT_FOR_RELEASE,
            "name": self.name,
            "verdict": self.verdict,
            "probability": self.probability,
            **{key: found.get(key) for key in ("gain", "gain_low", "gain_high", "by")},
            **{key: None if one is None else vars(one) for key, one in outcomes.items()},
            "worthwhile": self.worthwhile,
            "records": self.records,
            "after_run": self.after_run,
            "errors": dict(self.errors),
            "reason": self.reason or None,
        }

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(json_ready(self.to_dict()), indent=2)


@one_thread()
def owner_verdict(
    agreement: Agreement,
    name: str,
    data: Any,
    released: Forecast | Mapping[str, Any] | Float[Array, " p"],
    *,
    public: Any = None,
    seed: int = 0,
) -> VerdictAtHome:
    """Whether joining pays for owner `name` on its own records, by these records and by what has been released.

    data: the owner's own (X, y) or Records. released: before a run a Forecast or its JSON document; after it the common model,
    p numbers. public: the public (X, y), by which the public model is judged too and, before a run, how far this owner is from
    everybody. seed: of folds and draws.

    Guarantee: none. The result is computed from the records and must stay with the owner.
    Raises AgreementError where nobody is called that, InvalidInput for a document that is no forecast, and DataError or
    InvalidInput as `copriv.personalize` does.

    >>> copriv.owner_verdict(agreement, "north", data[0], result.theta[0], public=public).after_run
    True
    """
    rng = np.random.default_rng(count("seed", seed, 0))
    of_all = agreement.terms_of(name).records / float(agreement.records.sum())
    document = released.to_dict() if isinstance(released, Forecast) else released
    if isinstance(document, Mapping):
        _check_is_in(agreement, name, document)
        check_is_of(agreement, document)
    ahead = _Ahead.of(document) if isinstance(document, Mapping) else None
    sample = None if public is None else PublicSample.of(Problem.forecasting(agreement, public))
    shown = None if sample is None else sample.problem.feasible_set.project(sample.optimum.theta)
    home, own = home_of(agreement, shown if ahead is not None else np.asarray(document), data, public)
    units, reason = own.units, _silent(own)
    after, least = ahead is None, agreement.worthwhile
    if reason:
        return VerdictAtHome(name, units, after, least, None, reason, {})
    if len(own) > ROWS:
        own = own.taken(rng.choice(len(own), ROWS, replace=False))
    tried = (home.candidates[0], home.candidates[-1])
    held_out = home.cross_validated(own, tried, rng)
    here = _AtHand(home, own, held_out, held_out.share * own.units / units, after or shown is not None, rng)
    losses, levels = {"own": here.own}, None
    if shown is not None:
        losses["public"] = here.drawn(here.losses(shown))
    if ahead is None:
        losses |= here.with_common(*here.released(of_all))
    elif shown is None:
        levels = np.array([ahead.heterogeneity.quantile(q) for q in rng.uniform(size=DRAWS)])
        losses["public"] = here.least + ahead.optimum * here.further(levels, np.full(DRAWS, ahead.public_only))
        losses |= here.with_common(ahead.optimum * here.further(levels, ahead.together(rng)))
    else:
        losses |= here.with_common(*ahead.costs(here))
    known = ahead is None or shown is not None or ahead.heterogeneity.source != "not stated"
    without = min((losses[model] for model in ("own", "public") if model in losses), key=np.median)
    # ψ is relative to a loss of 1 here, which drops out of the gain.
    joined: dict[Model, Array] = {"common": losses["common"] - 1.0, "personalized": losses["personalized"] - 1.0}
    found = verdict_of(without - 1.0, joined, Asked.of("own", least, None if known else levels))
    errors = {model: float(np.median(loss)) for model, loss in losses.items()}
    return VerdictAtHome(name, units, after, least, found, "", errors)


def _check_is_in(agreement: Agreement, name: str, document: Mapping[str, Any]) -> None:
    """Raise InvalidInput for a forecast in which this owner is not, or has other records or another budget.

    Owners written with a count stand in it as one, under the name of all.
    """
    mine, owners = agreement.terms_of(name), document.get("owners", ())
    said = {one["name"]: (one["records"], one["epsilon"]) for one in owners}
    if name not in said and (not said or any((one.get("count") or 1) > 1 for one in owners)):
        return
    if said.get(name) != (mine.records, mine.epsilon):
        raise InvalidInput(
            f"forecast: is of another agreement, in which {name} does not have {mine.records:,} records and epsilon "
            f"{mine.epsilon:g}; give the forecast of this one"
        )


def _silent(own: Records) -> str:
    """Why records cannot judge models; "" where they can."""
    if own.units < 2:
        return "one record says nothing of how a model that was fitted to it does on others"
    if np.ptp(own.target) == 0:
        return "all its records have the same target, and say nothing of how models do on others"
    return ""


@dataclass(frozen=True, eq=False)
class _AtHand:
    """An owner's records and the losses of its own models on them: what models cost there, drawn again and again."""

    home: Home
    records: Records
    held_out: CrossValidated
    """Of the owner's own model, and of the centre with a level of its own where the model has an intercept."""
    part: float
    """How many of the owner's records a fold's model was fitted to, over all of them."""
    judged: bool
    """Whether the centre is a model, released or public."""
    rng: np.random.Generator

    def losses(self, theta: Float[Array, " p"]) -> Float[Array, " units"]:
        """Of a model on each unit."""
        r = self.records
        return by_unit(r, self.home.loss.values(theta, r.features, r.target)[:, None])[:, 0]

    @cached_property
    def _shares(self) -> tuple[Float[Array, "draws units"], Float[Array, " draws"]]:
        """A Bayesian bootstrap of the units, and by how much its draws are too near where units are few (Student's t)."""
        n = len(self.held_out.out)
        return self.rng.dirichlet(np.ones(n), size=DRAWS), np.sqrt((n + 1) / self.rng.chisquare(n - 1, size=DRAWS))

    def drawn(self, losses: Float[Array, " units"]) -> Float[Array, " draws"]:
        """Mean losses; on a log scale, so that none is below 0."""
        (shares, wide), tiny = self._shares, np.finfo(float).tiny
        middle = np.log(max(float(losses.mean()), tiny))
        off = np.log(np.maximum(shares @ losses, tiny)) - middle
        # Of two units Student's t has no end; e³⁰ times as much is as good as that.
        return np.asarray(np.exp(middle + np.clip(wide * off, -30.0, 30.0)) * len(losses) / self.records.total)

    @cached_property
    def _means(self) -> tuple[Float[Array, " tried"], float]:
        """The least possible loss of each that was tried, and what fitting the owner's own model to its records costs."""
        out, seen = (losses.sum(axis=0) / self.records.total for losses in (self.held_out.out, self.held_out.seen))
        return 0.5 * (out + seen), max(0.5 * self.part * float(out[0] - seen[0]), 0.0)

    @cached_property
    def _halves(self) -> tuple[Float[Array, " draws"], Float[Array, " draws"]]:
        out, seen = (self.drawn(losses[:, 0]) for losses in (self.held_out.out, self.held_out.seen))
        return out, np.minimum(out, seen)

    @cached_property
    def least(self) -> Float[Array, " draws"]:
        """The least possible loss: that of the centre less what it costs, or half way between what is held out and seen.

        The first is the surer one, unless the centre costs more than that itself: how much more it does is then what is drawn.
        Models of fewer records than parameters may fit all that they saw, and half way says nothing.
        """
        halfway, few = np.asarray(0.5 * sum(self._halves)), len(self.held_out.out) <= len(self.home.centre)
        if not self.judged or (np.median(self.apart()) > np.median(halfway) and not few):
            return halfway
        centre = self.drawn(self.losses(self.home.centre))
        return np.asarray(np.maximum(centre - self.apart(), 1e-9 * centre))

    @cached_property
    def fitting(self) -> Float[Array, " draws"]:
        """What fitting the owner's own model to these very records costs: its mean by a χ² over its degrees of freedom."""
        p = len(self.home.centre)
        out, seen = self._halves
        return np.asarray(0.5 * self.part * (out - seen) * self.rng.chisquare(p, size=DRAWS) / p)

    @property
    def own(self) -> Float[Array, " draws"]:
        """The loss of the owner's own model."""
        return self.least + self.fitting

    @cached_property
    def _chance(self) -> Float[Array, " draws"]:
        return self.rng.uniform(size=DRAWS)

    def apart(self, error: float = 0.0) -> Float[Array, " draws"]:
        """What the centre costs here above the least possible loss, from its mean loss on the records.

        error: E of the centre's own error, which is taken off too: what remains is the cost of what it estimates.
        """
        (least, _), cost = self._means
        loss = float(self.losses(self.home.centre).sum()) / self.records.total
        return distances(max(loss - least + cost, 0.0), cost + error, len(self.home.centre), self._chance)

    def apart_but_for_level(self, error: float = 0.0) -> Float[Array, " draws"] | None:
        """The same of the centre with the owner's own level, but for what that level costs; None without an intercept."""
        if not self.home.candidates[-1][1]:
            return None
        ((least, with_level), cost), p = self._means, len(self.home.centre)
        rest = (p - 1) / p
        seen = max(with_level - least + rest * cost, 0.0)
        return distances(seen, rest * (cost + error), p - 1, self._chance)

    def further(self, u: Float[Array, " draws"], psi: Float[Array, " draws"], but: int = 0) -> Float[Array, " draws"]:
        """The cost here of a model that costs psi on all records, u from them; in all parameters `but` so many."""
        across = 2.0 * np.sqrt(u * psi / (len(self.home.centre) - but)) * self.rng.normal(size=DRAWS)
        return np.asarray(np.maximum(u + psi + across, 0.0))

    def released(self, of_all: float) -> tuple[Float[Array, " draws"], Float[Array, " draws"] | None]:
        """What the centre costs, a released model, and but for its level.

        of_all: the owner's share of the records that it was made of, by which it fits these better than others.
        """
        better = 2.0 * self._means[1] * of_all
        rest = self.apart_but_for_level()
        return self.apart() + better, None if rest is None else rest + better

    def with_common(
        self, common: Float[Array, " draws"], rest: Float[Array, " draws"] | None = None
    ) -> dict[str, Float[Array, " draws"]]:
        """The losses of the common model, from what it costs here, and of that personalized.

        rest: what it costs but for its level. Owners differ in their level before they differ in anything else, and
        personalizing may leave it to the owner: it then costs what one of p parameters does.
        """
        own, p = self.fitting, len(self.home.centre)
        cost = personalized_cost(own, common)
        if rest is not None:
            cost = min(cost, own / p + personalized_cost(own * (p - 1) / p, rest), key=np.median)
        return {"common": self.least + common, "personalized": self.least + cost}


@dataclass(frozen=True)
class _Ahead:
    """What a forecast says of a model to come: medians and bands."""

    optimum: float
    public_only: float
    median: float
    low: float
    high: float
    heterogeneity: Heterogeneity

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "_Ahead":
        """Raises InvalidInput for what is no forecast's JSON."""
        try:
            ψ = document["recommended"]["relative_fitness"]
            numbers = {key: float(document[key]) for key in ("optimum", "public_only")}
            numbers |= {key: float(ψ[key]) for key in ("median", "low", "high")}
            if not all(0 < one < np.inf for one in numbers.values()):
                raise ValueError("a cost in it is not above 0")
            return cls(heterogeneity=Heterogeneity(**document["heterogeneity"]), **numbers)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"forecast: not the JSON of a forecast ({error}); give what copriv forecast --json or --out wrote"
            ) from None

    def together(self, rng: np.random.Generator) -> Float[Array, " draws"]:
        """ψ of the common model: log-normal to either side of its median."""
        z = rng.normal(size=DRAWS)
        sides = np.where(z > 0, self.high / self.median, self.median / self.low)
        return np.asarray(self.median * np.maximum(sides, 1.0) ** (z / 1.645))  # 5 % and 95 % are 1.645 from the middle

    def costs(self, here: _AtHand) -> tuple[Float[Array, " draws"], Float[Array, " draws"] | None]:
        """What the common model costs here, and but for its level; by how far the public model, the centre, is from here."""
        ψ, f, p = self.together(here.rng), self.optimum, len(here.home.centre)
        rest = here.apart_but_for_level(f * self.public_only)
        common = here.further(here.apart(f * self.public_only), f * ψ)
        return common, None if rest is None else here.further(rest, f * ψ * (p - 1) / p, but=1)
