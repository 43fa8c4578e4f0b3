"""Judge at home, on an owner's own records, whether joining pays.

Only the owner may read its records. It evaluates on them, without noise, what has been released:

* its own model, by cross-validation: with R the loss of rows held out and r that of rows seen, fitted to a share s of its n
  records, the least possible loss is about (R + r)/2, and fitting to all n costs a = s(R − r)/2 more, times χ²_p/p;
* the public model, where the owner has the public rows. Its loss is known with an error of a, and its cost is estimated as a
  distance in noise (a noncentral χ², `populations.diagnosis`);
* after a run the released θ, in the same way. It was fitted to these records too, and its loss on them is below that on new
  records by 2a times the owner's share of all records;
* before a run, the forecast of the common model. Its cost on own records is modelled as u + ψ + 2z√(uψ/p), with ψ its cost on
  everybody's records and z standard normal: the squared length of two steps at a random angle. u is this owner's
  heterogeneity: the cost here of the public model (of rows weighted by the owners' records, where strata are known), less its
  sampling error. Without public rows u is drawn from the
  forecast's heterogeneity;
* the common model personalized at home, and the public one, for which nobody has to join, by the formula of a forecast
  (`personalized_cost`), with and without the owner's own intercept.

All of these are drawn repeatedly: the records by a Bayesian bootstrap widened to Student's t, forecasts from their bands.
The verdict follows as in any forecast (`verdict_of`). It has no privacy guarantee and stays at home.

Cross-validation fits to fewer than n records; this is corrected to first order in 1/n (Davison and Hinkley, Bootstrap Methods
and their Application, 1997, §6.4.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import CoprivError, InvalidInput
from copriv.forecast.result import Forecast, check_is_of
from copriv.forecast.standalone_models import personalized_cost
from copriv.formatting.cards import Shown, Written
from copriv.formatting.numbers import mapping
from copriv.model.fitness import one_thread
from copriv.model.records import Records
from copriv.populations.diagnosis import distances
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.problem.personalization import DRAWS, CrossValidated, Home, by_unit, home_of
from copriv.problem.verdict import Answer, Asked, Goal, Model, OwnerVerdict, verdict_of
from copriv.terms.heterogeneity import Heterogeneity
from copriv.types import Array
from copriv.validation import count

NOT_FOR_RELEASE = (
    "Not for release: exact numbers about your records. To leave, decline or report because of them tells something about your "
    "records too."
)


@dataclass(frozen=True)
class VerdictAtHome(Shown, Written):
    """Whether joining pays for one owner, by its own records. Not for release.

    >>> home = copriv.owner_verdict(agreement, "north", data[0], outlook, public=public)
    >>> home.verdict, home.to_dict()["release"]
    ('no', False)
    """

    _teller: ClassVar[str] = "copriv.display.verdict:card_at_home"

    name: str
    records: int
    """Number of records, or of persons where they are the units."""
    after_run: bool
    """Whether a released model was judged, and not a forecast one."""
    worthwhile: float
    on_own: OwnerVerdict | None
    """None where the records do not decide."""
    reason: str
    """Why the records do not decide; "" where they do."""
    errors: Mapping[str, float]
    """Median prediction error (mean loss) on new records of this owner: of its "own" model, the "public" one, that one
    personalized ("public_personalized"), the "common" one and that one personalized ("personalized")."""
    measured_in: str = "mean loss"
    """Name of the error, with its unit."""
    goal: Goal = "own"
    """The agreement's goal: where it is everybody's records, this verdict is not of that."""

    @property
    def verdict(self) -> Answer:
        """Whether joining pays by at least what is worthwhile."""
        if self.on_own is None:
            return "open"
        return self.on_own.answer

    @property
    def probability(self) -> float | None:
        """Probability that joining pays; None where the records do not decide."""
        if self.on_own is None:
            return None
        return self.on_own.probability

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract `copriv.owner-verdict/1`, with the keys that an owner has in a forecast."""
        found = mapping(self.on_own) or {}
        return {
            "schema": "copriv.owner-verdict/1",
            "release": False,
            "note": NOT_FOR_RELEASE,
            "name": self.name,
            "verdict": self.verdict,
            "probability": self.probability,
            **{key: found.get(key) for key in ("gain", "gain_low", "gain_high", "by")},
            **{key: mapping(found.get(key)) for key in ("if_alike", "if_unlike")},
            "worthwhile": self.worthwhile,
            "records": self.records,
            "after_run": self.after_run,
            "errors": dict(self.errors),
            "reason": self.reason or None,
        }


@one_thread()
def owner_verdict(
    agreement: Agreement,
    name: str,
    data: Any,
    released: Forecast | Mapping[str, Any] | Float[Array, " p"],
    *,
    public: Any = None,
    strata: Any = None,
    seed: int = 0,
) -> VerdictAtHome:
    """Whether joining pays for owner `name` on its own records, from these records and what has been released.

    data: the owner's own (X, y) or Records. released: before a run a Forecast or its JSON document; after it the common model,
    p numbers. public: the public (X, y), for the loss of the public model and, before a run, this owner's heterogeneity.
    strata: whose each public row is, where it is known: the common model is then expected near the public rows in the mix of
    the owners' records. seed: of folds and draws.

    Guarantee: none. The result is computed from the records and must stay with the owner.
    Raises AgreementError where nobody is called that, InvalidInput for a document that is no forecast, and DataError or
    InvalidInput as `copriv.personalize` does.

    >>> copriv.owner_verdict(agreement, "north", data[0], result.theta[0], public=public).after_run
    True
    """
    rng, agreement = np.random.default_rng(count("seed", seed, 0)), agreement.phases[-1]
    of_all = agreement.terms_of(name).records / float(agreement.records.sum())
    if isinstance(released, Forecast):
        released = released.to_dict()
    public_model, forecast, centre = None, None, None
    if public is not None:
        problem = Problem.forecasting(agreement, public, strata=strata)
        sample, everybody = PublicSample.of(problem), PublicSample.of_everybody(problem)
        public_model, centre = (problem.feasible_set.project(one.optimum.theta) for one in (sample, everybody))
    if isinstance(released, Mapping):
        forecast = _released(agreement, name, released)
        if public is not None and problem.strata_name_owners:  # else both samples are one
            by_mix = everybody.public_only(float(agreement.records.sum()))
            forecast = replace(forecast, optimum=everybody.optimum.value, public_only=by_mix)
    else:
        centre = np.asarray(released)
    home, own = home_of(agreement, centre, data, public)
    units, reason = own.units, ""
    after, worthwhile = forecast is None, agreement.worthwhile
    if units < 2:
        reason = "one record says nothing of how a model that was fitted to it does on others"
    elif np.ptp(own.target) == 0:
        reason = "all its records have the same target, and say nothing of how models do on others"
    if reason:
        return VerdictAtHome(name, units, after, worthwhile, None, reason, {}, goal=agreement.goal)
    most = 20_000  # rows that models are fitted to; the effect of more rows is computed
    if len(own) > most:
        own = own.taken(rng.choice(len(own), most, replace=False))
    tried = (home.candidates[0], home.candidates[-1])
    held_out = home.cross_validated(own, tried, rng)
    here = _OwnLosses(home, own, held_out, held_out.share * own.units / units, centre is not None, rng)
    losses, levels = {"own": here.own}, None
    if public_model is not None:
        losses["public"] = here.drawn(here.losses(public_model))
    if forecast is None:
        losses |= here.with_common(*here.released(of_all))
        if public_model is not None:
            beside = here.about(replace(home, centre=public_model))
            losses["public_personalized"] = here.least + beside.personalizing(
                beside.cost_of_centre(), beside.cost_with_own_intercept()
            )
    elif public_model is None:
        u = np.array([forecast.heterogeneity.quantile(q) for q in rng.uniform(size=DRAWS)])
        best: Any = forecast.optimum
        if best is None:  # without public rows there is no public model either
            best = here.least
        else:
            public_cost = best * here.added(u, np.full(DRAWS, forecast.public_only))
            losses |= {
                "public": here.least + public_cost,
                "public_personalized": here.least + here.personalizing(public_cost),
            }
        losses |= here.with_common(best * here.added(u, forecast.together(rng)))
        if forecast.heterogeneity.source == "not stated":
            levels = u
    else:
        losses |= here.with_common(*forecast.costs(here))
        losses["public_personalized"] = here.least + here.personalizing(
            here.cost_of_centre(), here.cost_with_own_intercept()
        )
    alternatives = ("own", "public", "public_personalized")
    without = min((losses[model] for model in alternatives if model in losses), key=np.median)
    # ψ is relative to a loss of 1 here, which drops out of the gain.
    joined: dict[Model, Array] = {"common": losses["common"] - 1.0, "personalized": losses["personalized"] - 1.0}
    found = verdict_of(without - 1.0, joined, Asked.of("own", worthwhile, levels))
    errors = {model: float(np.median(loss)) for model, loss in losses.items()}
    return VerdictAtHome(name, units, after, worthwhile, found, "", errors, agreement.error_in_words, agreement.goal)


def _released(agreement: Agreement, name: str, document: Mapping[str, Any]) -> "_ForecastModel":
    """The common model as a forecast's JSON has it. Raises InvalidInput for one of another agreement, or none."""
    try:
        mine, owners = agreement.terms_of(name), document.get("owners", ())
        said = {one["name"]: (one["records"], one["epsilon"]) for one in owners}
        # Owners with a count have one entry in a forecast, under a common name.
        told = name in said or (said and not any((one.get("count") or 1) > 1 for one in owners))
        if told and said.get(name) != (mine.records, mine.epsilon):
            raise InvalidInput(
                f"forecast: is of another agreement, in which {name} does not have {mine.records:,} records and epsilon "
                f"{mine.epsilon:g}; give the forecast of this one"
            )
        if "terms" in document:  # else owner, records and ε are all that can be compared
            check_is_of(agreement, document)
        return _ForecastModel.of(document)
    except CoprivError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidInput(
            "forecast: not the JSON of a forecast, for a part of it is missing or of another kind; give what copriv forecast "
            "--json or --out wrote"
        ) from None


@dataclass(frozen=True, eq=False)
class _OwnLosses:
    """Draws of the losses of models on new records of an owner, from its records and its cross-validated models."""

    home: Home
    records: Records
    held_out: CrossValidated
    """Cross-validation of the owner's own model, and of the centre with the owner's own intercept where there is one."""
    fold_share: float
    """Share of all the owner's records that a fold's model was fitted to."""
    has_centre: bool
    """Whether the centre is a model, released or public."""
    rng: np.random.Generator

    def losses(self, theta: Float[Array, " p"]) -> Float[Array, " units"]:
        """Loss of a model on each unit."""
        r = self.records
        return by_unit(r, self.home.loss.values(theta, r.features, r.target)[:, None])[:, 0]

    @cached_property
    def _shares(self) -> tuple[Float[Array, "draws units"], Float[Array, " draws"]]:
        """Weights of a Bayesian bootstrap of the units, and the factors that widen its draws to Student's t."""
        n = len(self.held_out.out)
        return self.rng.dirichlet(np.ones(n), size=DRAWS), np.sqrt((n + 1) / self.rng.chisquare(n - 1, size=DRAWS))

    def drawn(self, losses: Float[Array, " units"]) -> Float[Array, " draws"]:
        """Draws of a mean loss, on a log scale so that none is negative."""
        (shares, wide), tiny = self._shares, np.finfo(float).tiny
        middle = np.log(max(float(losses.mean()), tiny))
        off = np.log(np.maximum(shares @ losses, tiny)) - middle
        # With two units Student's t has no finite mean; a factor of e³⁰ stands for infinity.
        return np.asarray(np.exp(middle + np.clip(wide * off, -30.0, 30.0)) * len(losses) / self.records.total)

    @cached_property
    def _means(self) -> tuple[Float[Array, " tried"], float]:
        """Estimated least possible loss of each candidate, and the cost of fitting the owner's own model to its records."""
        out, seen = (losses.sum(axis=0) / self.records.total for losses in (self.held_out.out, self.held_out.seen))
        return 0.5 * (out + seen), max(0.5 * self.fold_share * float(out[0] - seen[0]), 0.0)

    @cached_property
    def _halves(self) -> tuple[Float[Array, " draws"], Float[Array, " draws"]]:
        out, seen = (self.drawn(losses[:, 0]) for losses in (self.held_out.out, self.held_out.seen))
        return out, np.minimum(out, seen)

    @cached_property
    def least(self) -> Float[Array, " draws"]:
        """Draws of the least possible loss: the centre's loss less its cost, or the mean of held-out and training loss.

        The first has the smaller variance, unless the cost of the centre exceeds the second. Models of fewer records than
        parameters may interpolate, and their training loss tells nothing.
        """
        halfway, few = np.asarray(0.5 * sum(self._halves)), len(self.held_out.out) <= len(self.home.centre)
        if not self.has_centre or (np.median(self.cost_of_centre()) > np.median(halfway) and not few):
            return halfway
        centre = self.drawn(self.losses(self.home.centre))
        return np.asarray(np.maximum(centre - self.cost_of_centre(), 1e-9 * centre))

    @cached_property
    def fitting(self) -> Float[Array, " draws"]:
        """Draws of the cost of fitting the owner's own model to its records: the mean cost times χ²_p/p."""
        p = len(self.home.centre)
        out, seen = self._halves
        return np.asarray(0.5 * self.fold_share * (out - seen) * self.rng.chisquare(p, size=DRAWS) / p)

    @property
    def own(self) -> Float[Array, " draws"]:
        """Draws of the loss of the owner's own model."""
        return self.least + self.fitting

    @cached_property
    def _chance(self) -> Float[Array, " draws"]:
        return self.rng.uniform(size=DRAWS)

    def cost_of_centre(self, error: float = 0.0) -> Float[Array, " draws"]:
        """Draws of the centre's loss above the least possible one, from its mean loss on the records.

        error: expected cost of the centre's sampling error, which is subtracted.
        """
        (least, _), cost = self._means
        loss = float(self.losses(self.home.centre).sum()) / self.records.total
        return distances(max(loss - least + cost, 0.0), cost + error, len(self.home.centre), self._chance)

    def cost_with_own_intercept(self, error: float = 0.0) -> Float[Array, " draws"] | None:
        """Draws of the cost of the centre with the best intercept for this owner; None without an intercept."""
        if not self.home.candidates[-1][1]:
            return None
        ((least, with_level), cost), p = self._means, len(self.home.centre)
        rest = (p - 1) / p
        seen = max(with_level - least + rest * cost, 0.0)
        return distances(seen, rest * (cost + error), p - 1, self._chance)

    def added(self, u: Float[Array, " draws"], psi: Float[Array, " draws"], without: int = 0) -> Float[Array, " draws"]:
        """Draws of u + ψ + 2z√(uψ/p): cost here of a model of cost psi on all records. without: parameters left out of p."""
        across = 2.0 * np.sqrt(u * psi / (len(self.home.centre) - without)) * self.rng.normal(size=DRAWS)
        return np.asarray(np.maximum(u + psi + across, 0.0))

    def released(self, of_all: float) -> tuple[Float[Array, " draws"], Float[Array, " draws"] | None]:
        """Draws of the cost of a released model, the centre: as it is, and with the owner's own intercept.

        of_all: the owner's share of the records that the model was fitted to.
        """
        overfitting = 2.0 * self._means[1] * of_all
        rest = self.cost_with_own_intercept()
        if rest is not None:
            rest = rest + overfitting
        return self.cost_of_centre() + overfitting, rest

    def with_common(
        self, common: Float[Array, " draws"], rest: Float[Array, " draws"] | None = None
    ) -> dict[str, Float[Array, " draws"]]:
        """Draws of the losses of the common model and of the personalized one, from the cost of the common one.

        rest: as in `personalizing`.
        """
        return {"common": self.least + common, "personalized": self.least + self.personalizing(common, rest)}

    def personalizing(
        self, common: Float[Array, " draws"], rest: Float[Array, " draws"] | None = None
    ) -> Float[Array, " draws"]:
        """Draws of the cost of a model personalized at home, from its cost as it is.

        rest: its cost with the best intercept for this owner. Personalizing may leave the intercept to the owner, whose
        estimate costs as much as that of one of p parameters.
        """
        own, p = self.fitting, len(self.home.centre)
        cost = personalized_cost(own, common)
        if rest is None:
            return cost
        return min(cost, own / p + personalized_cost(own * (p - 1) / p, rest), key=np.median)

    def about(self, home: Home) -> "_OwnLosses":
        """The same records and draws about another centre."""
        tried = (home.candidates[0], home.candidates[-1])
        beside = replace(self, home=home, held_out=home.cross_validated(self.records, tried, self.rng))
        shared = {name: getattr(self, name) for name in ("_shares", "fitting")}  # its distance is another one
        vars(beside).update(shared)
        return beside


@dataclass(frozen=True)
class _ForecastModel:
    """Forecast of the common model: medians and bands of its cost."""

    optimum: float | None
    """None without public rows."""
    public_only: float
    median: float
    low: float
    high: float
    heterogeneity: Heterogeneity

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "_ForecastModel":
        ψ = document["recommended"]["relative_fitness"]
        given = ("public_only",) if document["optimum"] is None else ("optimum", "public_only")
        numbers: dict[str, Any] = {key: float(document[key]) for key in given}
        numbers |= {key: float(ψ[key]) for key in ("median", "low", "high")}
        if not all(0 < one < np.inf for one in numbers.values()):
            raise ValueError("a cost of 0 or less")
        return cls(heterogeneity=Heterogeneity(**document["heterogeneity"]), **{"optimum": None, **numbers})

    def together(self, rng: np.random.Generator) -> Float[Array, " draws"]:
        """Draws of ψ of the common model, log-normal on either side of its median."""
        z = rng.normal(size=DRAWS)
        sides = np.where(z > 0, self.high / self.median, self.median / self.low)
        return np.asarray(self.median * np.maximum(sides, 1.0) ** (z / 1.645))  # 5 % and 95 % are 1.645 from the middle

    def costs(self, here: _OwnLosses) -> tuple[Float[Array, " draws"], Float[Array, " draws"] | None]:
        """Draws of the common model's cost, as it is and with the owner's own intercept. The centre is a public model."""
        assert self.optimum is not None
        ψ, f, p = self.together(here.rng), self.optimum, len(here.home.centre)
        rest = here.cost_with_own_intercept(f * self.public_only)
        common = here.added(here.cost_of_centre(f * self.public_only), f * ψ)
        if rest is not None:
            rest = here.added(rest, f * ψ * (p - 1) / p, without=1)
        return common, rest
