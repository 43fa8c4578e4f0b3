"""Estimate the error of a run's model, and forecast the run, from the learner's public rows.

The learner knows the answers and the spent budgets. With public rows of its own it can also compute the fitness of its model on
them, and forecast the cost of the same agreement. Where every owner has a stratum of them, rows are weighted so that each owner
counts by its records: twenty times as many records of one owner are not as many public rows.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.forecast.assessment import AS_AGREED, WORLDS, Assessment, assess
from copriv.model.fitness import relative_fitness
from copriv.network.run import run_totals
from copriv.populations.dealt import draw_worlds, heterogeneity_of
from copriv.populations.diagnosis import diagnose, interval, interval_about
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.terms.heterogeneity import effective_directions
from copriv.types import Array

if TYPE_CHECKING:
    from copriv.network.run_state import Conductor


class PublicRows:
    """An agreement and the learner's public rows, prepared once for any number of models.

    public: the rows as records, or their features and targets. strata: the stratum of each row, where it is known; owners are
    then assumed to differ as the strata do, and models are judged on rows weighted by the owners' records.
    """

    def __init__(self, agreement: Agreement, public: Any, strata: Sequence[str] | None = None) -> None:
        self.agreement, self._problem = agreement, Problem.forecasting(agreement, public, strata=strata)
        self.rows = self._problem.owners[0].units
        self._sample = PublicSample.of(self._problem)
        self._everybody = PublicSample.of_everybody(self._problem)
        self._of_best = self._everybody.public_only(float(agreement.records.sum()))

    def estimate(self, theta: Float[Array, " p"]) -> float:
        """Estimate ψ of a model on the owners' records; see `judged`."""
        f = np.array(float(self._everybody.problem.fitness.value(theta)))
        return self._estimate(float(relative_fitness(f, self._everybody.optimum)))

    @property
    def _may_begin_here(self) -> bool:
        """Whether the run may begin at the optimum of these rows."""
        return self.agreement.agreement.start is not None

    def _estimate(self, ψ: float) -> float:
        return ψ + self._of_best if self._may_begin_here else ψ - self._of_best

    def judged(self, theta: Float[Array, " p"]) -> dict[str, Any]:
        """Compute f and ψ of a model on the public rows, and estimate ψ on the owners' records.

        On the public rows, ψ of the owners' best model is κ(1/n₀ + 1/n) on average, with n₀ public rows (`public_sample`). The
        estimate subtracts that, and can be below 0. "low" and "high" are its 90 % confidence interval: with e = θ − θ*, and θ*
        differing by c ~ N(0, C) between the two samples, ψ is ½(e + c)ᵀA(e + c)/f (`populations.diagnosis`).

        A run that begins at a given start may begin at the optimum of these rows. θ then keeps a part of c that depends on its
        steps and is not computed: the estimate is the larger of those without and with all of c; the interval has both.
        """
        sample, least_fitness, of_best = self._everybody, self._everybody.optimum.value, self._of_best
        f = float(sample.problem.fitness.value(theta))
        ψ = float(relative_fitness(np.array(f), sample.optimum))
        p = effective_directions(sample.hessian @ sample.spread)
        low, high = interval(ψ, of_best, p, sample.wobble)
        if self._may_begin_here:
            least, most = interval_about(ψ, of_best, p, sample.wobble)
            low, high = min(low, least), max(high, most)
        return {
            "rows": self.rows,
            "fitness": f,
            "least_fitness": least_fitness,
            "relative_fitness": ψ,
            "of_the_best_model": of_best,
            "estimate": self._estimate(ψ),
            "low": low,
            "high": high,
        }

    def said_of(self, conductor: "Conductor") -> dict[str, Any]:
        """Judge the model of a run, and diagnose the owners' heterogeneity by their answers."""
        found, asked = None, conductor.run.asked.values()
        if not self.agreement.summed:  # masked answers say nothing of their owners
            answers = (
                (one.query.owner, one.query.theta, one.answer.gradient) for one in asked if one.answer is not None
            )
            assumed = heterogeneity_of(self._sample)
            found = diagnose(self.agreement, self._everybody, assumed, conductor.model, answers)
        return {**self.judged(conductor.model), "heterogeneity_diagnosis": None if found is None else found.to_dict()}

    def forecast(self, runs: int, seed: int = 0) -> Assessment:
        """Forecast the agreement, with the heterogeneity that is stated, shown by strata, or usual.

        Raises CoprivError where the agreement cannot be forecast.
        """
        worlds = draw_worlds(self._sample, self.agreement, heterogeneity_of(self._sample), WORLDS, seed)
        return assess(self._problem, AS_AGREED, runs, seed, worlds)

    def expected(self, runs: int, seed: int = 0) -> dict[str, Any]:
        """Forecast the agreement with every answer given, as the fields of a model's record. Raises as `forecast`."""
        agreement, made = self.agreement, self.forecast(runs, seed)
        ψ, asked = made.relative_fitness, agreement.queries
        each = min(round(asked / len(Participants.of(agreement).members)), agreement.answers)
        return {
            **run_totals(agreement, [each] * len(agreement.owner), asked),
            "kind": made.kind,
            "runs": runs,
            "relative_fitness": {key: float(getattr(ψ, key)[-1]) for key in ("mean", "median", "low", "high")},
        }
