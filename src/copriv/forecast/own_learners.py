"""What if every owner learned for itself, from answers that all of them share? Without a central model, for whom does it pay?

Every owner answers once, and puts its own exact part where its private answer stood (`copriv.simulation.own_learners`).
Everything is computed on public rows, in the worlds of `forecast`: the terms are the best of those by which owners answer
once, and ψ is on everybody's records.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from copriv import mechanisms
from copriv.agreement import Agreement
from copriv.errors import AgreementError, NotCertified
from copriv.forecast.assessment import RUNS, WORLDS, assess, worlds_unlike
from copriv.forecast.quantiles import quantiles
from copriv.forecast.standalone_models import judged
from copriv.formatting.cards import Card, Shown, Table
from copriv.formatting.frames_and_plots import Columns, Drawn, Framed, columns_of
from copriv.formatting.numbers import percent
from copriv.mechanisms import Guarantee, OneAnswer
from copriv.plan.one_answer import plan_one_answer
from copriv.populations.dealt import heterogeneity_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.simulation import own_learners
from copriv.types import Array


@dataclass(frozen=True)
class LearnerForecast(Shown):
    """One owner that learns for itself. ψ throughout, on all owners' records; lower is better (medians over worlds)."""

    name: str
    records: int
    epsilon: float
    alone: float
    """Its own model, from its own records only."""
    together: float
    """The one common model of everybody's private answers."""
    learning: float
    """Its own model, from its exact part and the others' private answers."""
    learning_low: float
    learning_high: float
    """90 % of runs and worlds are between the two."""
    joining_pays: bool
    """Learning from the shared answers beats `alone` and the public model, more likely than not."""
    joining_pays_probability: float


@dataclass(frozen=True, eq=False)
class OwnLearnersForecast(Shown, Framed, Drawn):
    """Every owner as its own learner: what the shared answers cost, and for whom they pay."""

    _pictures: ClassVar[Mapping[str, str]] = {"owners": "copriv.pictures.own_learners:owners_apart"}

    agreement: Agreement
    """The terms: each owner answers once, under its whole ε."""
    public_only: float
    learners: tuple[LearnerForecast, ...]

    @property
    def verdict(self) -> str:
        """One sentence for the people who decide."""
        paid = [one.name for one in self.learners if one.joining_pays]
        if not paid:
            return "Sharing answers pays for nobody: no owner's own model gets better by them."
        who = "everybody" if len(paid) == len(self.learners) else f"{len(paid)} of {len(self.learners)} owners"
        return f"Sharing answers pays for {who}: each learns a model of its own, and each owner answers only once."

    def _card(self) -> Card:
        n = len(self.learners)
        head = ("owner", "own records alone", "one common model", "own model from shared answers")
        return Card(
            f"OwnLearnersForecast: {n:,} owner{'s' if n > 1 else ''}, {self.agreement.rule_in_words}",
            (
                self.verdict,
                f"Above the best model of everybody's records; the public rows alone: {percent(self.public_only)}.",
                Table.of(
                    head,
                    self.learners,
                    lambda one: (one.name, *(percent(ψ) for ψ in (one.alone, one.together, one.learning))),
                    "owners",
                ),
            ),
        )

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
    """Forecast N learners, one an owner, from public information only.

    agreement, public, runs, seed: as `forecast` takes them. A mechanism of one answer that is agreed is kept; else the
        best of those that suit the loss is planned. Owners of the same size and budget are forecast once.
    Raises AgreementError where no mechanism of one answer suits the loss, DataError without public rows.
    """
    if isinstance(agreement, Problem):
        problem = agreement.on_public()
    else:
        problem = Problem.load_public(agreement) if public is None else Problem.forecasting(agreement, public)
    sample = PublicSample(problem)
    unlike = worlds_unlike(sample, problem.terms, heterogeneity_of(problem), seed)
    found = [
        assess(problem.under(terms), "", runs, seed, sample, unlike) for terms in _candidates(problem, sample, seed)
    ]
    common = min(found, key=lambda one: one.relative_fitness.end["median"])
    worlds = [
        world.dealt().under(common.agreement) if unlike is None else unlike[i].problem(common.agreement)
        for i, world in enumerate(sample.drawn(WORLDS, seed))
    ]
    each, kinds = -(-runs // WORLDS), _kinds(problem.terms)
    drawn = np.stack([_in(world, list(kinds.values()), each, seed, i * each) for i, world in enumerate(worlds)])
    without = judged(sample, [owner.records for owner in problem.terms.owner], sample.drawn(WORLDS, seed), unlike)
    made = []
    for i, owner in enumerate(problem.terms.owner):
        ψ = drawn[:, list(kinds).index((owner.records, owner.epsilon, owner.delta, owner.overlap))]
        low, high = quantiles(ψ)
        pays = without.pays(ψ, i)
        made.append(
            LearnerForecast(
                owner.name, owner.records, owner.epsilon, float(np.median(without.alone(i))),
                common.relative_fitness.end["median"], float(np.median(ψ)), float(low), float(high), pays > 0.5, pays,
            )
        )  # fmt: skip
    return OwnLearnersForecast(common.agreement, float(np.median(without.public)), tuple(made))


def _candidates(problem: Problem, sample: PublicSample, seed: int) -> list[Agreement]:
    """Terms by which every owner answers once: the agreed ones, or the best of each mechanism that suits the loss."""
    terms = problem.terms
    if terms.one_answer and isinstance(terms.model.gradient_bound, float):
        return [terms]
    suited = [one for one in mechanisms.ALL if isinstance(one, OneAnswer) and one.planned and one.suits(problem.loss)]
    pure = all(owner.delta == 0 for owner in terms.owner)
    names = [one.name for one in suited if pure or one.guarantee is not Guarantee.PURE]
    if terms.one_answer:
        names = [terms.agreement.mechanism]
    found = []
    for name in names:
        with suppress(AgreementError, NotCertified):  # no setting of it can be kept with these budgets
            found.append(plan_one_answer(problem.under(_free(terms)), name, seed=seed, sample=sample))
    if not found:
        raise AgreementError(
            f'own learners: no mechanism by which owners answer once can be kept with the loss "{problem.loss.name}" and '
            "these budgets; raise epsilon, or choose the squared, logistic, hinge or huber loss"
        )
    return found


def _free(terms: Agreement) -> Agreement:
    """The same owners and fitness, with nothing agreed that belongs to rules of many answers."""
    document = terms.to_dict()
    kept = {key: value for key, value in document["agreement"].items() if key in ("name", "seed", "start")}
    document["agreement"] = {**kept, "rule": "auto", "horizon": max(terms.n_owners, 2)}
    document["model"]["gradient_bound"] = "auto"
    return Agreement.of(document)


def _kinds(terms: Agreement) -> dict[tuple[int, float, float, int], int]:
    """One owner of each size and budget."""
    found: dict[tuple[int, float, float, int], int] = {}
    for i, owner in enumerate(terms.owner):
        found.setdefault((owner.records, owner.epsilon, owner.delta, owner.overlap), i)
    return found


def _in(world: Problem, owners: list[int], runs: int, seed: int, first: int) -> Array:
    """ψ of these owners' own models in one world: one row an owner, one column a run."""
    made = own_learners(
        world, budget="shared", owners=owners, runs=runs, seed=seed, first_run=first, alone=False, workers=1
    )
    return np.array([one.relative_fitness.runs[:, -1] for one in made])
