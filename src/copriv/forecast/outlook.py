"""`forecast`: what the agreed terms will cost, what the best terms would, and for whom joining pays.

What private data could tell is replaced by the public sample and by how wrong it may be: runs are made in bootstrap
worlds of it (`PublicSample.worlds`), and the band covers both noise and worlds. Where nothing is clipped and the loss is
squared, the mean comes from the exact recursion instead, and is called exact.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.errors import CoprivError, UsageError
from copriv.forecast.bounds import Bound, Setting, a_theorem_2, s_theorem_2, s_theorem_3
from copriv.forecast.exact.asynchronous import a1, a2
from copriv.forecast.exact.moments import Moments, OwnerKinds
from copriv.forecast.exact.synchronous import s1, s2
from copriv.forecast.value import Consortium
from copriv.mechanisms import GradientNoise, Guarantee
from copriv.plan import Plan, plan
from copriv.privacy.noise import Law
from copriv.problem import Problem
from copriv.public_sample import PublicSample
from copriv.simulation import simulate
from copriv.simulation.engine import noise_scales
from copriv.simulation.result import NOT_PRIVATE
from copriv.types import Array, Loss

WORLDS = 10
RUNS = 100
EXACT_EVENTS = 20_000
"""Queries beyond which the exact recursion is not tried."""


@dataclass(frozen=True, eq=False)
class Band:
    """ψ expected after k queries (or in round k): mean, median, and where 90 % of runs are."""

    k: Int[np.ndarray, " recorded"]
    mean: Float[Array, " recorded"]
    median: Float[Array, " recorded"]
    low: Float[Array, " recorded"]
    """5 % of runs are below."""
    high: Float[Array, " recorded"]
    """5 % of runs are above."""


@dataclass(frozen=True, eq=False)
class Assessment:
    """One set of terms and what it is expected to cost."""

    agreement: Agreement
    kind: Literal["exact", "simulated"]
    relative_fitness: Band
    private: bool
    words: str

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract, with the curve added."""
        ψ, terms = self.relative_fitness, self.agreement.agreement
        return {
            "rule": terms.rule,
            "answers": self.agreement.answers,
            "step": self.agreement.step,
            "kind": self.kind,
            "relative_fitness": {
                "mean": float(ψ.mean[-1]),
                "low": float(ψ.low[-1]),
                "high": float(ψ.high[-1]),
                "median": float(ψ.median[-1]),
            },
            "horizon": terms.horizon,
            "gradient_bound": self.agreement.gradient_bound,
            "feature_bound": self.agreement.data.feature_bound,
            "private": self.private,
            "words": self.words,
            "curve": {name: getattr(ψ, name).tolist() for name in ("k", "mean", "median", "low", "high")},
        }


@dataclass(frozen=True)
class OwnerForecast:
    """What joining means for one owner. ψ throughout, on all owners' records; lower is better."""

    name: str
    records: int
    epsilon: float
    alone: float
    """Its own model, without noise."""
    together: float
    """The consortium's model under the recommended terms."""
    joining_pays: bool
    """`together` beats `alone` and the public model."""
    break_even_epsilon: float | None
    """The least ε of its own at which joining pays; None: there is none."""
    break_even_epsilon_for_all: float | None
    """The same with one ε for all owners."""
    marginal_value: float
    """How much ψ falls for a unit more of its ε."""
    marginal_value_of_a_record: float
    loss_to_others: float
    """How much ψ rises for the others if it leaves; negative: they are better off."""
    in_best_subset: bool
    best_weight: float
    """Its weight in place of n_i/n, in the mix of least cost."""
    shapley: float
    shapley_error: float


@dataclass(frozen=True, eq=False)
class Forecast:
    """All that can be said before any private record is touched."""

    agreed: Assessment
    recommended: Assessment
    plan: Plan
    public_only: float
    """ψ of the model fitted on the public sample alone."""
    bounds: tuple[Bound, ...]
    optimum: float
    """f(θ*) on the public rows: bounds are on the cost, ψ·f(θ*)."""
    owners: tuple[OwnerForecast, ...]
    consortium: Consortium
    best_subset: float
    """ψ of the best subset of owners."""
    best_weights: float
    """ψ under the best weights."""
    description: str

    @property
    def joining_pays(self) -> bool:
        """For at least one owner."""
        return any(owner.joining_pays for owner in self.owners)

    @property
    def verdict(self) -> str:
        """One sentence for the people who decide."""
        ψ = float(self.recommended.relative_fitness.mean[-1])
        gain = [owner.name for owner in self.owners if owner.joining_pays]
        if not gain:
            alone = min(owner.alone for owner in self.owners)
            better = "the public model alone" if self.public_only <= alone else "the best owner's own model"
            return (
                f"Joining does not pay for anybody: together the model would be {_percent(ψ)} worse than the best "
                f"possible, {better} only {_percent(min(alone, self.public_only))}. "
                "Raise epsilon, bring more records, or do not train together."
            )
        who = "everybody" if len(gain) == len(self.owners) else _list(gain)
        return (
            f"Joining pays for {who}: together the model would be {_percent(ψ)} worse than the best possible without "
            f"privacy; the public rows alone reach {_percent(self.public_only)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract `copriv.forecast/1`, with additions."""
        document = {
            "schema": "copriv.forecast/1",
            "agreed": self.agreed.to_dict(),
            "recommended": self.recommended.to_dict(),
            "public_only": self.public_only,
            "bounds": [
                {
                    "source": bound.source, "value": bound.value / self.optimum, "holds_for": bound.holds_for,
                    "quantity": bound.quantity, "conditions_met": bound.conditions_met,
                }
                for bound in self.bounds
            ],
            "owners": [vars(owner) for owner in self.owners],
            "joining_pays": self.joining_pays,
            "verdict": self.verdict,
            "best_subset": self.best_subset,
            "best_weights": self.best_weights,
            "runner_up": None if self.plan.runner_up is None else {
                "words": self.plan.runner_up.describe(), "relative_fitness": self.plan.runner_up.relative_fitness,
            },
            "trades": {
                name: [{"words": c.describe(), "relative_fitness": c.relative_fitness} for c in sides]
                for name, sides in self.plan.trades().items()
            },
            "flatness": self.plan.flatness,
            "description": self.description,
        }  # fmt: skip
        if not self.agreed.private:
            document["warning"] = NOT_PRIVATE
        return document

    def to_json(self) -> str:
        """`to_dict` as JSON text; infinite bounds as null."""
        return json.dumps(_finite(self.to_dict()), indent=2)


def forecast(
    agreement: Agreement | Problem,
    public: Any = None,
    *,
    loss: Loss | None = None,
    runs: int = RUNS,
    seed: int = 0,
    public_start: bool = True,
    preconditioner: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Forecast:
    """Forecast an agreement from public information only.

    agreement: an Agreement, or a Problem, of which only the public sample is used.
    public: the learner's own (X, y); None takes the public rows of the pipeline that [data] names.
    loss: a user's own, in place of the named one (with `public`).
    runs: simulated runs on the public rows for each assessment.
    public_start, preconditioner: what a recommendation may use.
    progress: called with (stages done, stages in all).

    Raises DataError without a public sample, AgreementError for terms that contradict each other.
    """
    report = progress or (lambda done, total: None)
    if isinstance(agreement, Problem):
        if public is not None:
            raise UsageError(
                "forecast: a Problem already has its public sample; give an Agreement with public = (X, y)"
            )
        problem = agreement.on_public()
    elif public is None:
        problem = Problem.load_public(agreement)
    else:
        problem = Problem.forecasting(agreement, public, loss)

    def planned(keep: bool) -> Plan:
        return plan(problem, keep=keep, public_start=public_start, preconditioner=preconditioner, seed=seed)

    best = planned(keep=False)
    report(1, 4)
    settled, words = problem.terms, ""
    if _open(problem.terms):
        kept = planned(keep=True)
        settled, words = kept.agreement, kept.choice.describe()
    report(2, 4)
    agreed = assess(problem.under(settled), words or "as agreed", runs, seed)
    report(3, 4)
    recommended = assess(problem.under(best.agreement), best.choice.describe(), runs, seed)
    report(4, 4)

    sample = PublicSample(problem.under(best.agreement))
    members = Consortium.of(problem.terms, sample.information / sample.optimum.value, best.curve)
    public_only = sample.public_only(members.total)
    return Forecast(
        agreed=agreed,
        recommended=recommended,
        plan=best,
        public_only=public_only,
        bounds=_bounds(problem.under(settled)),
        optimum=PublicSample(problem.under(settled)).optimum.value,
        owners=_owners(problem.terms, members, float(recommended.relative_fitness.mean[-1]), public_only),
        consortium=members,
        best_subset=float(members.cost(members.best_subset())),
        best_weights=members.weighted(members.best_weights()),
        description=problem.description,
    )


def assess(problem: Problem, words: str, runs: int = RUNS, seed: int = 0) -> Assessment:
    """Terms without "auto", on the public rows: exact where that can be, else simulated in bootstrap worlds."""
    sample = PublicSample.of(problem)
    each = -(-runs // WORLDS)
    simulated = [
        simulate(world, runs=each, seed=seed, first_run=i * each, alone=False, workers=1)
        for i, world in enumerate(sample.worlds(WORLDS, seed))
    ]
    k = simulated[0].relative_fitness.k
    ψ = np.concatenate([one.relative_fitness.runs for one in simulated])
    low, median, high = np.quantile(ψ, [0.05, 0.5, 0.95], axis=0)
    mean, kind = ψ.mean(axis=0), "simulated"
    if all(one.clipped == 0 for one in simulated):
        exact = _exact_mean(problem, sample)
        if exact is not None:
            mean, kind = exact[k - k[0]], "exact"
    private = not problem.agreement.model.gradient_bound_assumed
    return Assessment(problem.agreement, kind, Band(k, mean, median, low, high), private, words)  # type: ignore[arg-type]


def _exact_mean(problem: Problem, sample: PublicSample) -> Array | None:
    """E ψ after every query, over noise, schedule and what the public sample cannot know; None where out of reach.

    The owners' optimum is off the public one by d of known covariance; cost is quadratic in the start, so the mean over
    d is the mean over ±√(variance) in each eigenvector.
    """
    quadratic, terms = problem.fitness.quadratic, problem.agreement.agreement
    if quadratic is None or problem.preconditioner is not None or problem.agreement.queries > EXACT_EVENTS:
        return None
    if any(owner.group for owner in problem.agreement.owner) or terms.schedule in ("poisson", "rounds"):
        return None
    agreement, mechanism = problem.agreement, problem.agreement.mechanism
    # The recursions are those of Laplace noise, as much of it in every answer.
    pure = isinstance(mechanism, GradientNoise) and mechanism.guarantee is Guarantee.PURE
    if terms.window > 1 or not pure or mechanism.law(agreement) is not Law.LAPLACE:
        return None
    capped = None if agreement.answers >= terms.horizon else np.full(agreement.n_owners, float(agreement.answers))
    owners = OwnerKinds.of(agreement.records, noise_scales(agreement), answers=capped)
    if not np.allclose(owners.weights, agreement.weights):
        return None
    _, U = np.linalg.eigh(quadratic.hessian)
    n = 1.0 / float(agreement.records.sum()) + 1.0 / sample.records.units
    off = U @ np.sqrt(np.maximum(np.diag(U.T @ sample.spread @ U) * n, 0.0))
    rng = np.random.default_rng(0)

    def moments(start: Array) -> Moments:
        T, step = terms.horizon, agreement.step
        order: Any = "random order" if terms.schedule == "random-order" else "uniform"
        match terms.rule:
            case "S1":
                return s1(quadratic, owners, step, T, start)
            case "S2":
                return s2(quadratic, owners, step, T, start, averaged=terms.iterate == "averaged")
            case "A1":
                c = 0.5 if terms.learner_step == "corrected" else (agreement.n_owners - 1) / agreement.n_owners
                return a1(quadratic, owners, step, T, start, rng, learner_step=c, order=order, runs=0)
        return a2(quadratic, owners, step, T, start, rng, order=order, runs=0)

    try:
        both = [moments(problem.start + sign * off) for sign in (1.0, -1.0)]
    except CoprivError:
        return None  # the exact recursion is out of reach here, and says so
    if any(found.kind != "exact" for found in both):
        return None
    cost = 0.5 * (both[0].mean + both[1].mean)
    return np.asarray(cost / sample.optimum.value)


def _open(agreement: Agreement) -> bool:
    """Whether the agreement leaves anything to plan."""
    return (
        agreement.agreement.rule == "auto"
        or agreement.agreement.step == "auto"
        or agreement.model.gradient_bound == "auto"
    )


def _owners(
    agreement: Agreement, members: Consortium, together: float, public_only: float
) -> tuple[OwnerForecast, ...]:
    alone = members.alone()
    by_epsilon, by_record = members.marginal_values()
    without = members.loss_without()
    subset, weights = members.best_subset(), members.best_weights()
    shapley, error = members.shapley()
    return tuple(
        OwnerForecast(
            name=owner.name,
            records=owner.records,
            epsilon=owner.epsilon,
            alone=float(alone[i]),
            together=together,
            joining_pays=bool(together < min(float(alone[i]), public_only)),
            break_even_epsilon=members.break_even(i, public_only),
            break_even_epsilon_for_all=members.break_even_for_all(i, public_only),
            marginal_value=float(by_epsilon[i]),
            marginal_value_of_a_record=float(by_record[i]),
            loss_to_others=float(without[i]),
            in_best_subset=bool(subset[i]),
            best_weight=float(weights[i]),
            shapley=float(shapley[i]),
            shapley_error=float(error[i]),
        )
        for i, owner in enumerate(agreement.owner)
    )


def _bounds(problem: Problem) -> tuple[Bound, ...]:
    """The papers' theorems for the agreed rule; none where a mechanism of one answer is agreed."""
    agreement = problem.agreement
    f, p = problem.fitness, problem.n_parameters
    setting = Setting(
        gradient_bound=agreement.gradient_bound,
        regularizer_bound=f.regularizer.bound(f.box.theta_max, p),
        n_parameters=p,
        total_records=float(agreement.records.sum()),
        epsilon=agreement.epsilons,
        horizon=agreement.agreement.horizon,
        step=agreement.step,
        strong_convexity=f.strong_convexity(),
        smoothness=f.smoothness(),
        regularization=f.regularizer.strength,
        diameter=f.box.diameter(p),
        answers=agreement.answers,
    )
    match agreement.agreement.rule:
        case "S1":
            return s_theorem_2(setting)
        case "S2":
            return s_theorem_3(setting)
        case "A1":
            return a_theorem_2(setting, "cost")
    return ()


def _percent(ψ: float) -> str:
    return f"{100 * ψ:.3g} %" if ψ < 10 else f"{ψ:.3g} times"


def _list(names: Sequence[str]) -> str:
    shown = list(names[:5]) + ([f"{len(names) - 5} others"] if len(names) > 5 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _finite(value: Any) -> Any:
    """JSON has no infinity: null in its place."""
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
