"""Terms of a run in phases: those that are signed before its pilot, and those that the pilot's answers choose.

Before it: rule, mechanism and numbers of answers as they are planned on public rows, what the pilot is asked at, and a range
for each term that stays open. After it: the forecast by the owners' answers (`after_pilot`), from released numbers and public
rows alone, so that whoever has both can compute it again. The run goes on by its plan, or stops (`stops`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.forecast.after_pilot import before_pilot, settled, told
from copriv.forecast.assessment import AS_AGREED, RUNS, assess
from copriv.forecast.forecaster import forecast_of
from copriv.forecast.pilot_answers import pilot_terms
from copriv.forecast.result import Forecast
from copriv.formatting.numbers import json_ready, percent
from copriv.mechanisms import Pilot
from copriv.model.fitness import one_thread
from copriv.plan import leaves_open
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.terms.learning import RANGED, ModelTerms, Terms
from copriv.types import Array

_UNPLANNED = (ModelTerms.model_fields["smoothing"].default, Terms.model_fields["moments_share"].default)
"""Defaults of terms that a plan may choose although they are not "auto"."""


def to_sign(agreement: Agreement, outlook: Forecast) -> Agreement:
    """The agreement with a pilot as all parties sign it, by the forecast that was made of it before the pilot."""
    planned = outlook.recommended.agreement
    run = settled(agreement.phases[-1], planned)
    asked, document = agreement.phases[0], run.to_dict()
    if not agreement.data.declared_only:
        asked = pilot_terms(PublicSample(outlook.problem.under(run)), asked)
    document["agreement"] = {**agreement.to_dict()["agreement"], **document["agreement"]}  # with the share of the pilot
    own = {key: getattr(asked.agreement, key) for key in ("start", "preconditioner", "reach", *Pilot.terms)}
    own["start"] = own["start"] or [0.0] * outlook.n_parameters
    own |= {"gradient_bound": asked.gradient_bound, "feature_bound": asked.data.feature_bound}
    document["agreement"] |= {
        "rule": planned.agreement.rule,
        "pilot_terms": {key: value for key, value in own.items() if value is not None},
        "ranges": _ranges(run, planned, asked),
        **dict[str, Any](pilot=agreement.pilot_share),  # a number, which is the same on every machine
    }
    document["data"]["feature_bound"] = planned.data.feature_bound
    owners = zip(document["owner"], agreement.owner_tables, strict=True)
    # ε and the floor are those of both phases, and a run has its part of them.
    document["owner"] = [
        {**owner, "epsilon": table.epsilon} | ({} if table.floor is None else {"floor": table.floor})
        for owner, table in owners
    ]
    return Agreement.of(document)


def _ranges(run: Agreement, planned: Agreement, asked: Agreement) -> dict[str, tuple[float, float]]:
    """The terms that a run leaves open, each with the numbers that it may be given after the pilot.

    They are within a factor of 1,000 of the planned ones. Set by hand: it limits errors, and no guarantee rests on it.
    """
    if not leaves_open(run):
        return {}
    wide = 1000.0
    θ, largest = run.model.theta_max, float(np.abs(np.array(asked.agreement.preconditioner or 1.0)).max())
    ranges = {"start": (-θ, θ), "preconditioner": (-wide * largest, wide * largest), "moments_share": (0.0, 0.99)}
    for key in RANGED:
        left, value = (getattr(getattr(one, RANGED[key]), key) for one in (run, planned))
        settled_by_now = left == value and key not in ("start", "preconditioner")
        if settled_by_now or left not in (None, "auto", *_UNPLANNED):
            ranges.pop(key, None)
        elif key not in ranges:
            ranges[key] = (rounded(value / wide), rounded(value * wide))
    return ranges


def stops(after: Forecast) -> bool:
    """Whether a run stops after its pilot, by the forecast after it: joining pays for nobody, or public rows are not like the
    owners' records, so that no plan by them holds."""
    return after.longer is not None or all(owner.verdict == "no" for owner in after.owners)


def rounded(number: float) -> float:
    """The number to two digits."""
    return float(f"{number:.2g}")


@dataclass(frozen=True)
class AfterPilot:
    """Forecast and decision after a pilot, from the owners' answers to it."""

    before: PublicSample
    """Public sample before the pilot."""
    after: Forecast
    chosen: Mapping[str, Any] | None
    """The terms of the run, by key (`Agreement.chosen_run`); None: it stops, and the rest of the budget is kept."""
    reason: str

    @classmethod
    @one_thread()
    def of(
        cls,
        agreement: Agreement,
        public: Any,
        answers: Float[Array, "seen answer"],
        given: Sequence[str] | None = None,
        *,
        strata: Sequence[str] | None = None,
        runs: int = RUNS,
    ) -> "AfterPilot":
        """The forecast after the pilot in earnest, by the owners' answers in the agreement's order, or by their mean.

        agreement: as it was signed, with the pilot. given: the owners whose answers a sum is of; None: all.
        public, strata: as in `copriv.forecast`; None where no rows are public.
        The seed is the agreement's.
        Raises AgreementError where the plan after the pilot is not within what was signed.
        """
        seed = agreement.agreement.seed
        if agreement.data.declared_only:
            problem = Problem.declared(agreement)
        else:
            problem = Problem.forecasting(agreement, public, strata=strata)
        before = before_pilot(problem, seed, strata)
        after = forecast_of(told(before, agreement.phases[0], answers, given), "after the pilot", runs, seed)
        return cls.decided(agreement, before, after)

    @classmethod
    def decided(cls, agreement: Agreement, before: PublicSample, after: Forecast) -> "AfterPilot":
        """Decide by a forecast after the pilot: the terms of the run, or that it stops.

        Raises AgreementError where the plan differs from the agreement in a term that was fixed.
        """
        if stops(after):
            kept = "by the pilot's answers joining pays for nobody, and the rest of the budget is kept"
            if after.longer is not None:
                kept = (
                    f"by the pilot's answers {percent(after.longer)} of all records are longer than any public row, no plan "
                    "by these rows would hold, and the rest of the budget is kept"
                )
            return cls(before, after, None, kept)
        # Terms are signed as single numbers to two digits and within their ranges, and arrays as they are.
        chosen, planned = dict[str, Any](), after.recommended.agreement
        for key, (low, high) in (agreement.agreement.ranges or {}).items():
            value = getattr(getattr(planned, RANGED[key]), key)
            if isinstance(value, float):
                chosen[key] = min(max(rounded(value), low), high)
            elif value is not None and value != "auto":
                chosen[key] = np.array(value).tolist()
        fixed, found = agreement.chosen_run(chosen).to_dict(), planned.to_dict()
        for table in ("agreement", "model", "data"):
            for key in {*fixed[table], *found[table]} - chosen.keys():
                if fixed[table].get(key) != found[table].get(key):
                    raise AgreementError(
                        f"{table}.{key}: the plan after the pilot changes it, and it was fixed before it"
                    )
        return cls(before, after, chosen, "by the pilot's answers joining pays, or it is open for whom")

    @one_thread()
    def said(self) -> dict[str, Any]:
        """Summarise what the pilot changed: ψ of the run and each owner's verdict, before it and after."""

        def short(found: Forecast) -> dict[str, Any]:
            owners = {
                one.name: {"verdict": one.verdict, "probability": one.probability, "count": one.count}
                for one in found.owners
            }
            ψ = found.recommended.relative_fitness
            band = {name: getattr(ψ, name).tolist() for name in ("k", "low", "median", "high")}
            return {"relative_fitness": ψ.end, "band": band, "owners": owners}

        options = self.after.options
        before = forecast_of(self.before, "before the pilot", options["runs"], options["seed"])
        return {"before": json_ready(short(before)), "after": json_ready(short(self.after))}

    def cost_of(self, agreement: Agreement, chosen: Mapping[str, Any]) -> float:
        """Relative excess of E ψ of the chosen terms over that of the plan that is computed here, over the same runs."""
        sample, options = self.after.problem, self.after.options
        found = assess(
            sample.under(agreement.chosen_run(chosen)), AS_AGREED, options["runs"], options["seed"], self.after.worlds
        )
        best = self.after.recommended.relative_fitness.end["mean"]
        return float(found.relative_fitness.end["mean"] / best - 1.0)
