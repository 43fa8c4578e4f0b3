"""Forecast owners that each train a model of their own, from one private answer of every owner.

Each owner replaces its own private answer by the exact one (`copriv.simulation`). The terms are the best with
one answer per owner, the worlds are those of `forecast`, and ψ is on everybody's records.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from copriv import mechanisms
from copriv.agreement import Agreement
from copriv.agreement.participants import numbered
from copriv.errors import AgreementError, DataError, NotCertified
from copriv.forecast.assessment import RUNS, WORLDS, assess, quantiles
from copriv.forecast.forecaster import public_problem
from copriv.forecast.standalone_models import WithoutJoining
from copriv.formatting.cards import Columns, Drawn, Framed, Shown, columns_of, in_words
from copriv.mechanisms import Guarantee, OneAnswer
from copriv.plan.one_answer import plan_one_answer
from copriv.populations.dealt import draw_worlds, heterogeneity_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.simulation import own_learners


@dataclass(frozen=True)
class LearnerForecast(Shown):
    """One owner that trains its own model. Values are medians of ψ on all owners' records over worlds; lower is better."""

    name: str
    records: int
    epsilon: float
    alone: float
    """Its own model, from its own records only."""
    together: float
    """The common model, from everybody's private answers."""
    learning: float
    """Its own model, from its exact answer and the others' private answers."""
    learning_low: float
    learning_high: float
    """90 % of runs and worlds are between `learning_low` and `learning_high`."""
    joining_pays: bool
    """Whether learning from the shared answers beats `alone` and the public model with probability above one half."""
    joining_pays_probability: float


@dataclass(frozen=True, eq=False)
class OwnLearnersForecast(Shown, Framed, Drawn):
    """Every owner as its own learner: its model from the shared answers, and whether that pays."""

    _teller: ClassVar[str] = "copriv.display.forecast:own_learners_card"
    _pictures: ClassVar[Mapping[str, str]] = {"owners": "copriv.pictures.forecast:owners_apart"}

    agreement: Agreement
    """The terms: each owner answers once and spends its whole ε."""
    public_only: float
    learners: tuple[LearnerForecast, ...]

    verdict = in_words("copriv.display.verdict:of_own_learners", "One sentence for the people who decide.")

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        return {"owners": lambda: columns_of(self.learners, [field.name for field in fields(LearnerForecast)])}

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract `copriv.own-learners/1`."""
        return {
            "schema": "copriv.own-learners/1",
            "mechanism": self.agreement.agreement.mechanism,
            "public_only": self.public_only,
            "verdict": self.verdict,
            "learners": [vars(one) for one in self.learners],
        }


def forecast_own_learners(
    agreement: Agreement | Problem, public: Any = None, *, runs: int = RUNS, seed: int = 0
) -> OwnLearnersForecast:
    """Forecast N learners, one for each owner, from public information only.

    agreement, public, runs, seed: as in `forecast`. An agreed mechanism of one answer is kept; otherwise the best one for
        the loss is planned. Owners of the same size and budget are forecast once.
    Raises AgreementError where no mechanism of one answer supports the loss, DataError without public rows.
    """
    problem = public_problem(agreement, public)
    problem.terms.check_one_phase()
    if problem.terms.data.declared_only:
        raise DataError("data.public_rows: 0: a forecast of own learners needs public rows; simulate them instead")
    sample = PublicSample(problem)
    worlds = draw_worlds(sample, problem.terms, heterogeneity_of(sample), WORLDS, seed)
    found = [assess(problem.under(terms), "", runs, seed, worlds) for terms in _candidates(problem, sample, seed)]
    common = min(found, key=lambda one: one.relative_fitness.end["median"])
    owners = problem.terms.owner
    kind = numbered([(owner.records, owner.epsilon, owner.delta, owner.overlap) for owner in owners])
    first, each, drawn = np.unique(kind, return_index=True)[1].tolist(), -(-runs // WORLDS), []
    for i, world in enumerate(worlds):
        if world.apart is None:
            world = world.dealt()
        problem_there = world.problem(common.agreement)
        options: dict[str, Any] = {"runs": each, "seed": seed, "first_run": i * each, "alone": False, "workers": 1}
        learned = own_learners(problem_there, budget="shared", owners=first, **options)
        drawn.append([one.relative_fitness.runs[:, -1] for one in learned])
    without = WithoutJoining.of(sample, [owner.records for owner in owners], worlds)
    made = []
    for i, owner in enumerate(owners):
        ψ = np.array([world[kind[i]] for world in drawn])
        low, high = quantiles(ψ)
        pays = float(np.mean(ψ[:, :, None] < (1.0 - 1e-9) * without.without_joining(i)[:, None, :]))
        made.append(
            LearnerForecast(
                owner.name, owner.records, owner.epsilon, float(np.median(without.alone(i))),
                common.relative_fitness.end["median"], float(np.median(ψ)), float(low), float(high), pays > 0.5, pays,
            )
        )  # fmt: skip
    return OwnLearnersForecast(common.agreement, float(np.median(without.public)), tuple(made))


def _candidates(problem: Problem, sample: PublicSample, seed: int) -> list[Agreement]:
    """Terms with one answer per owner: the agreed ones, or the best of each mechanism that supports the loss."""
    terms = problem.terms
    if terms.one_answer and isinstance(terms.model.gradient_bound, float):
        return [terms]
    suited = [one for one in mechanisms.ALL if isinstance(one, OneAnswer) and one.planned and one.suits(problem.loss)]
    pure = all(owner.delta == 0 for owner in terms.owner)
    names = [one.name for one in suited if pure or one.guarantee is not Guarantee.PURE]
    if terms.one_answer:
        names = [terms.agreement.mechanism]
    # The same owners and fitness, without the terms of rules of many answers.
    document = terms.to_dict()
    kept = {key: value for key, value in document["agreement"].items() if key in ("name", "seed", "start")}
    document["agreement"] = {**kept, "rule": "auto", "horizon": max(terms.n_owners, 2)}
    document["model"]["gradient_bound"] = "auto"
    free, found = problem.under(Agreement.of(document)), []
    for name in names:
        with suppress(AgreementError, NotCertified):  # no setting is within these budgets
            found.append(plan_one_answer(free, name, seed=seed, sample=sample))
    if not found:
        raise AgreementError(
            f'own learners: no mechanism by which owners answer once can be kept with the loss "{problem.loss.name}" and '
            "these budgets; raise epsilon, or choose the squared, logistic, hinge or huber loss"
        )
    return found
