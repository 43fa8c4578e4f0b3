"""A run beside what was forecast for it: what the learner can know without any private record.

The learner knows what was answered and spent. With public rows of its own it also knows the fitness of its model on them,
and can say what the same agreement was expected to come to.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.forecast.assessment import assess, worlds_unlike
from copriv.model.fitness import relative_fitness
from copriv.model.records import Records
from copriv.network.record import counted
from copriv.populations.dealt import heterogeneity_of
from copriv.populations.diagnosis import diagnose
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.types import Array

if TYPE_CHECKING:
    from copriv.network.run_state import Conductor

SURE = 1.645
"""Standard errors, to either side, that hold with 90 %."""


def said_by(conductor: "Conductor", public: Records, strata: Sequence[str] | None = None) -> dict[str, Any]:
    """What the learner's public rows say of the run: ψ of its model by them alone, and what its answers say beside.

    strata: whose each public row is, where somebody knows: what was assumed of the owners is then what these rows said.
    """
    of_model = on_public_rows(conductor.agreement, conductor.model, public)
    return {**of_model, "heterogeneity_diagnosis": _diagnosis(conductor, public, strata)}


def _diagnosis(conductor: "Conductor", public: Records, strata: Sequence[str] | None) -> dict[str, Any] | None:
    """What the answers say of the owners and of the public rows, beside what was assumed (`copriv.populations.diagnosis`)."""
    agreement, store = conductor.agreement, conductor.store
    problem = Problem.forecasting(agreement, public, strata=strata)
    sample = PublicSample.of(problem)
    asked = {query.identity: query.theta for _, _, query in store.queries()}
    answers = ((answer.owner, asked[answer.identity], answer.gradient) for answer in store.answers())
    found = diagnose(agreement, sample, heterogeneity_of(problem), conductor.model, answers)
    return None if found is None else found.to_dict()


def expected(
    agreement: Agreement, public: Records, runs: int, seed: int = 0, strata: Sequence[str] | None = None
) -> dict[str, Any]:
    """What the agreement was expected to come to, with every answer given: the forecast from the public rows.

    In the worlds of a forecast: of owners as unlike as is stated, as the public rows' strata say, or as is usual.
    Raises CoprivError where the agreement cannot be forecast.
    """
    problem = Problem.forecasting(agreement, public, strata=strata)
    sample = PublicSample.of(problem)
    unlike = worlds_unlike(sample, agreement, heterogeneity_of(problem), seed)
    made = assess(problem, "as agreed", runs, seed, sample, unlike)
    ψ, asked = made.relative_fitness, agreement.queries
    each = min(round(asked / len(Participants.of(agreement).members)), agreement.answers)
    return {
        **counted(agreement, [each] * len(agreement.owner), asked),
        "kind": made.kind,
        "runs": runs,
        "relative_fitness": {key: float(getattr(ψ, key)[-1]) for key in ("mean", "median", "low", "high")},
    }


def on_public_rows(agreement: Agreement, theta: Float[Array, " p"], public: Records) -> dict[str, Any]:
    """f and ψ of a model on the public rows, and ψ as it may be on the owners' records.

    The best model of the owners' records is not the best one of the public rows: by κ(1/n₀ + 1/n) on average, with
    n₀ public rows (`public_sample`). That is taken off. What remains errs by how far the two samples differ, and may
    be below 0. How far it errs: with e = θ − θ*, and θ* off by N(0, C) between the samples, ½(e + c)ᵀA(e + c) has the
    variance ½tr(AC)² + eᵀACAe; 90 % of estimates are between "low" and "high" of what they estimate.
    """
    problem = Problem.forecasting(agreement, public)
    sample = PublicSample.of(problem)
    of_best = sample.public_only(float(agreement.records.sum()))
    f = float(problem.fitness.value(theta))
    ψ = float(relative_fitness(np.array(f), sample.optimum))
    share = 1.0 / public.units + 1.0 / float(agreement.records.sum())
    AC, p = sample.hessian @ sample.spread * share, problem.n_parameters
    across = 2.0 * max(ψ - of_best, 0.0) * float(np.trace(AC)) / p / sample.optimum.value
    error = float(np.sqrt(0.5 * float(np.sum(AC * AC.T)) / sample.optimum.value**2 + across))
    return {
        "rows": public.units,
        "fitness": f,
        "least_fitness": sample.optimum.value,
        "relative_fitness": ψ,
        "of_the_best_model": of_best,
        "estimate": ψ - of_best,
        "low": max(ψ - of_best - SURE * error, 0.0),
        "high": max(ψ - of_best + SURE * error, 0.0),
    }
