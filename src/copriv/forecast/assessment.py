"""Assess one set of terms: mean, median and band of ψ, from the same runs in the same worlds.

Terms are run a few times in each of WORLDS worlds (`copriv.populations.law`), with the owners' noise and, where owners are
few, each with records of its own. Where nothing is clipped and the loss is squared, the mean over the noise is that of the
exact recursion in every world (`copriv.exact`), and is called exact; the worlds are still a sample.

Terms are compared in the same worlds: differences are taken world by world, and their error is the bootstrap's, over worlds.

The band is of prediction quantiles of a run in a new world, from a few runs in each of a few worlds. Where the outcome of a
run depends on its world and not on the noise, W worlds are W draws, whatever the number of runs in each. A new draw is below
the i-th smallest of W with probability i/(W + 1), not i/W.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.errors import CoprivError
from copriv.exact import Order, OwnerKinds, OwnersOnGraph, expected_cost, on_graph
from copriv.formatting.cards import Columns, Framed, Shown
from copriv.mechanisms import GradientNoise, Guarantee
from copriv.model.fitness import one_thread
from copriv.model.objective import Quadratic
from copriv.plan import Choice
from copriv.plan.aggregated_runs import DEALT_OWNERS, runs_in
from copriv.populations.public_sample import PublicSample
from copriv.populations.world import World
from copriv.privacy.noise import Law
from copriv.problem import Problem
from copriv.rules import named
from copriv.rules.graph import MOST_NOISE, Graph
from copriv.rules.rule import InRounds
from copriv.simulation.result import from_noise, share_of
from copriv.types import Array

WORLDS = 32
"""Worlds of a forecast: with fewer, the 5 % quantile would be the smallest draw."""
RUNS = 128
AS_AGREED = "as agreed"
"""Description of agreed terms that leave nothing to be planned."""
ERRORS = 2.0
"""Bootstrap standard errors, over worlds, within which two costs count as equal."""


@dataclass(frozen=True, eq=False)
class Band(Shown, Framed):
    """ψ expected after k queries (or in round k): mean, median, and the range of 90 % of runs.

    >>> band = outlook.agreed.relative_fitness
    >>> bool((band.low <= band.mean).all()), bool((band.mean <= band.high).all())
    (True, True)
    """

    _teller: ClassVar[str] = "copriv.display.forecast:band_card"

    k: Int[np.ndarray, " recorded"]
    mean: Float[Array, " recorded"]
    median: Float[Array, " recorded"]
    low: Float[Array, " recorded"]
    """5 % quantile of runs; at most the mean."""
    high: Float[Array, " recorded"]
    """95 % quantile of runs; at least the mean, which can exceed it where runs have a long tail."""

    @property
    def end(self) -> dict[str, float]:
        """Mean, low, high and median after the last query."""
        return {name: float(getattr(self, name)[-1]) for name in ("mean", "low", "high", "median")}

    @property
    def columns(self) -> dict[str, Any]:
        """The curves by name, with k."""
        return vars(self)

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        return {"curve": lambda: self.columns}


@dataclass(frozen=True, eq=False)
class Assessment(Shown, Framed):
    """One set of terms and its expected cost.

    >>> outlook.agreed.private, outlook.agreed.agreement.answers
    (True, 3)
    >>> outlook.agreed.draws.shape[0], outlook.agreed.models.shape[-1]
    (32, 3)
    """

    _teller: ClassVar[str] = "copriv.display.forecast:assessment_card"

    agreement: Agreement
    kind: Literal["exact", "simulated"]
    relative_fitness: Band
    private: bool
    words: str
    draws: Float[Array, "worlds runs"]
    """ψ at the end of every run, by world."""
    models: Float[Array, "worlds runs p"]
    """θ at the end of every run, by world."""
    outliers: float = 0.0
    """E ψ that records add which are too rare for the public rows (`copriv.plan.outliers`)."""
    from_noise: float | None = None
    """Part of E ψ that is due to noise; the rest is left by bounds, step and answers. None for one run in each world, and on a
    graph."""

    @property
    def noise_share(self) -> float | None:
        """Share of E ψ that is due to noise; None where that is not known."""
        return share_of(self.from_noise, self.relative_fitness.end["mean"])

    @property
    def insured_cost(self) -> float:
        """E ψ with outliers counted, by which terms are compared."""
        return self.relative_fitness.end["mean"] + self.outliers

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        return self.relative_fitness._frames()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON contract, and the curve."""
        ψ, terms = self.relative_fitness, self.agreement.agreement
        return {
            "rule": terms.rule,
            "answers": self.agreement.answers,
            "step": self.agreement.step,
            "kind": self.kind,
            "relative_fitness": ψ.end,
            "insured_cost": self.insured_cost,
            "horizon": terms.horizon,
            "gradient_bound": self.agreement.gradient_bound,
            "feature_bound": self.agreement.data.feature_bound,
            "private": self.private,
            "words": self.words,
            "curve": {name: curve.tolist() for name, curve in ψ.columns.items()},
        }


@dataclass(frozen=True, eq=False)
class Run:
    """A choice of the plan and its cost in the forecast's worlds."""

    choice: Choice
    assessment: Assessment

    @property
    def cost(self) -> float:
        """E ψ."""
        return self.assessment.relative_fitness.end["mean"]

    @property
    def insured_cost(self) -> float:
        """E ψ with outliers counted, by which terms are compared."""
        return self.assessment.insured_cost

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON contract."""
        return {
            "words": self.choice.describe(),
            "relative_fitness": self.cost,
            "insured_cost": self.insured_cost,
            "median": self.assessment.relative_fitness.end["median"],
        }


@dataclass(frozen=True)
class Comparison:
    """Agreed terms against recommended ones."""

    same: bool
    """Whether the agreed terms are the recommended ones."""
    times: float
    """E ψ, outliers counted, of the agreed terms over that of the recommended ones; never below 1."""
    within_error: bool
    """Whether the difference of the means is within its error."""
    typical_within_error: bool
    """Whether the difference of the medians is within its error."""

    @classmethod
    def of(cls, agreed: Assessment, recommended: Assessment) -> "Comparison":
        """Compare two assessments made in the same worlds."""
        if agreed is recommended:
            return cls(True, 1.0, True, True)
        now, best = agreed.insured_cost, recommended.insured_cost
        equal = (_equal(agreed, recommended, statistic) for statistic in (np.mean, np.median))
        return cls(False, now / best if best > 0 else 1.0, *equal)


@dataclass(frozen=True)
class Robustness:
    """Cost of an aggregation that is robust against lying owners (`agreement.robust`), where no owner lies."""

    liars: int
    """f."""
    relative_fitness: float
    """E ψ of the agreed terms."""
    averaged: float
    """E ψ of the same terms with answers averaged, in the same worlds."""
    floor: float
    """Lower bound on ψ with f liars, for owners as unlike as assumed: u f/(2(N − f)²), whatever the learner does."""

    @classmethod
    def of(cls, agreed: Assessment, averaged: Assessment, liars: int, heterogeneity: float) -> "Robustness":
        """Compare terms that bear `liars` owners that lie with the same terms whose answers are averaged.

        The floor: two disjoint sets of f owners, each said to lie by the other, leave the learner with the same answers. It
        cannot be nearer to both of the best models without either set than half of their distance, whose square, in ψ, is
        2u f/(N − f)² on average over sets that are drawn from owners of heterogeneity u.
        """
        f, N = liars, agreed.agreement.n_owners
        ψ, plain = (one.relative_fitness.end["mean"] for one in (agreed, averaged))
        return cls(f, ψ, plain, heterogeneity * f / (2.0 * (N - f) ** 2))

    @property
    def times(self) -> float:
        """ψ over that of averaged answers."""
        return self.relative_fitness / max(self.averaged, 1e-300)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of a forecast's JSON contract."""
        return {**vars(self), "times": self.times}


@dataclass(frozen=True)
class CostOfGraph:
    """Cost of a run in which owners exchange vectors with their neighbours on a graph only (`agreement.graph`)."""

    spectral_gap: float
    """The least share of the owners' disagreement that the exchanges of a round remove."""
    relative_fitness: float
    """E ψ of the agreed terms, a mean over the owners' models."""
    central: float
    """E ψ of the same terms with one learner that all owners answer, in the same worlds."""
    exchanges: int
    """Exchanges between neighbours in each round, as agreed."""
    enough: int | None
    """The fewest of 1, 2, 4 … 64 exchanges in each round at which E ψ is at most MOST_NOISE times that of one learner."""

    @classmethod
    def of(cls, agreed: Assessment, assessed: Callable[[Agreement], Assessment]) -> "CostOfGraph":
        """Compare agreed terms with those of one learner, and with more exchanges.

        assessed: returns the assessment of other terms in the same worlds.
        """
        terms = agreed.agreement
        ψ, central = (one.relative_fitness.end["mean"] for one in (agreed, assessed(terms.central())))
        enough = None
        for exchanges in (1, 2, 4, 8, 16, 32, 64):
            more = terms.replace(agreement={"mixing": exchanges})
            if assessed(more).relative_fitness.end["mean"] <= MOST_NOISE * central:
                enough = exchanges
                break
        graph = Graph.of(terms)
        return cls(graph.spectral_gap, ψ, central, graph.exchanges, enough)

    @property
    def times(self) -> float:
        """ψ over that of one learner."""
        return self.relative_fitness / max(self.central, 1e-300)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of a forecast's JSON contract."""
        return {**vars(self), "times": self.times}


@dataclass(frozen=True, eq=False)
class WithSum:
    """Cost if the learner saw only the sum of the owners' answers (`aggregation = "sum"`)."""

    assessment: Assessment
    """Assessment of the best terms found, in the worlds of the forecast."""
    break_even_epsilon: float | None
    """The least ε, the same for all owners, at which joining typically pays for one of them; None where no ε is enough."""
    break_even_epsilon_each: float | None
    """The same where each answer is seen."""

    @property
    def together(self) -> float:
        """Median ψ over runs and worlds."""
        return self.assessment.relative_fitness.end["median"]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of a forecast's JSON contract."""
        terms = self.assessment.agreement
        return {
            "colluding": terms.colluding,
            "relative_fitness": self.assessment.relative_fitness.end,
            "words": self.assessment.words,
            "noise_share": self.assessment.noise_share,
            "break_even_epsilon": self.break_even_epsilon,
            "break_even_epsilon_each": self.break_even_epsilon_each,
        }


def relative_error(one: Assessment) -> float:
    """Bootstrap standard error of the median of ψ, relative to that median."""
    median = float(np.median(one.draws))
    if median == 0:
        return 0.0
    return float(np.std(_bootstrapped(one.draws, np.median))) / median


def _equal(one: Assessment, other: Assessment, statistic: Any) -> bool:
    """Whether a statistic of ψ differs by no more than its error."""
    if one.draws.shape != other.draws.shape:
        return False
    error = np.std(_bootstrapped(one.draws, statistic) - _bootstrapped(other.draws, statistic))
    return bool(abs(statistic(one.draws) - statistic(other.draws)) <= ERRORS * error)


def _bootstrapped(draws: Any, statistic: Any) -> Any:
    """The statistic of 400 bootstrap samples of the worlds, the same samples in every call."""
    rng = np.random.default_rng([400, len(draws)])
    return np.array([statistic(draws[rng.integers(0, len(draws), len(draws))]) for _ in range(400)])


@one_thread()
def assess(
    problem: Problem,
    words: str,
    runs: int = RUNS,
    seed: int = 0,
    worlds: Sequence[World] | None = None,
    then: Sequence[Agreement] | None = None,
) -> Assessment:
    """Run terms without "auto" on public rows alone, equally often in each world.

    worlds: from `copriv.populations.dealt.draw_worlds`; None for WORLDS worlds in which owners are alike.
    then: the terms that are run in each world, where a pilot chooses them; None: the problem's in all.
    """
    if worlds is None:
        worlds = PublicSample.of(problem).drawn(WORLDS, seed)
    agreement, alike = problem.agreement, worlds[0].apart is None
    # Where all owners answer at one point, only the sum of the answers counts, and that is the pool's. With 20 records per
    # parameter, the answers of a single owner are taken to be the pool's too.
    graph = agreement.agreement.graph is not None
    pooled = (agreement.synchronous and not graph) or agreement.records.min() >= 20 * problem.n_parameters
    dealt = alike and agreement.n_owners <= DEALT_OWNERS and (agreement.one_answer or not pooled)
    if dealt:
        worlds = [world.dealt() for world in worlds]
    problems = [world.problem for world in worlds]
    each = -(-runs // len(worlds))
    simulated = runs_in(problems, problem.terms if then is None else then, each, seed, record_at=None)
    k, by_world = simulated.k, simulated.relative_fitness
    ψ = by_world.reshape(-1, len(k))
    kind: Literal["exact", "simulated"] = "simulated"
    mean = ψ.mean(axis=0)
    by_pool = not dealt and (alike or agreement.synchronous)
    if simulated.clipped == 0 and (graph or by_pool):
        means = list(takewhile(lambda one: one is not None, (_exact_mean(at(problem.terms)) for at in problems)))
        if len(means) == len(worlds):
            kind, mean = "exact", np.mean(np.array(means), axis=0)[k - k[0]]
    low, high = quantiles(by_world)
    band = Band(k, mean, np.median(ψ, axis=0), np.minimum(low, mean), np.maximum(high, mean))
    private = not agreement.model.gradient_bound_assumed
    noisy, draws = None, by_world[:, :, -1]
    if not graph:
        of_mean = [world.on_all(θ.mean(axis=0)[None])[0] for world, θ in zip(worlds, simulated.theta, strict=True)]
        noisy = from_noise(draws, np.array(of_mean))
    return Assessment(agreement, kind, band, private, words, draws, simulated.theta, from_noise=noisy)


def _as_participants(agreement: Agreement) -> Float[Array, "participants 3"]:
    """Records, noise scale and rate of each participant; rates are 1 where the schedule does not go by them.

    A group is one owner of all its records (A, Remark 2). Its noise Σ (w_i/w_G) b_i z_i has the variance of Laplace noise of
    scale √Σ (w_i b_i/w_G)², and the mean of f depends on the variance only.
    """
    records, scales = agreement.records, agreement.noise_scales()
    rates = agreement.by_owner(
        [table.rate if agreement.agreement.by_clocks else 1.0 for table in agreement.owner_tables]
    )
    if agreement.synchronous or agreement.n_participants == agreement.n_owners:
        return np.column_stack([records, scales, rates])
    w, groups = agreement.weights, [list(group) for group in Participants.of(agreement).members]
    scale = [np.sqrt(np.sum((w[group] * scales[group]) ** 2)) / w[group].sum() for group in groups]
    return np.column_stack(
        [[records[group].sum() for group in groups], scale, [rates[group].mean() for group in groups]]
    )


def _exact_mean(problem: Problem) -> Array | None:
    """E ψ after every query, over noise and schedule, in one world; None where no exact recursion applies."""
    quadratic, agreement = problem.fitness.quadratic, problem.agreement
    terms, mechanism = agreement.agreement, agreement.mechanism
    if quadratic is None or problem.preconditioner is not None or agreement.queries > 20_000:
        return None
    # The recursions assume Laplace noise of the same scale in every answer.
    pure = isinstance(mechanism, GradientNoise) and mechanism.guarantee is Guarantee.PURE
    pure = pure and mechanism.law(agreement) is Law.LAPLACE
    if not pure or terms.robust is not None or terms.schedule == "rounds":
        return None  # before `recursion` is called: where owners answer once, the step may still be "auto"
    recursion = named(terms.rule).recursion(agreement)
    if terms.graph is not None and isinstance(recursion, InRounds):
        made = {id(one): Quadratic.of(one, problem.regularizer) for one in problem.owners}
        own, scales = tuple(made[id(one)] for one in problem.owners), agreement.noise_scales()
        on = OwnersOnGraph(Graph.of(agreement), bool(terms.tracking), agreement.weights, scales, own)
        exact = partial(on_graph, quadratic, on, recursion, problem.start)
    elif recursion is None or not np.allclose(agreement.records / agreement.records.sum(), agreement.weights):
        return None
    else:
        kinds, counts = np.unique(_as_participants(agreement), axis=0, return_counts=True)
        answers = agreement.answers - agreement.attempts
        caps = float(answers) if answers < terms.horizon else None
        owners = OwnerKinds.of(kinds[:, 0], kinds[:, 1], counts, caps, kinds[:, 2])
        order: Order = "random order" if terms.schedule == "random-order" else "uniform"
        exact = partial(expected_cost, recursion, quadratic, owners, terms.horizon, problem.start, order)
    try:
        return np.asarray(exact() / problem.optimum.value)
    except CoprivError:
        return None  # the exact recursion takes too long for these owners


BAND = (0.05, 0.95)
"""Probabilities of a band, which contains 90 % of runs."""


def quantiles(
    draws: Float[Array, "worlds runs *rest"], probabilities: Sequence[float] = BAND
) -> Float[Array, "probabilities *rest"]:
    """Prediction quantiles of a run in a new world, within the range of the runs drawn.

    With n independent draws (`independent`), probability p is at the fraction (p (n + 1) − ½)/n of the runs drawn: 5 % is at
    3.6 % for n = 32. A draw is the mean of the neighbouring runs that it represents.
    """
    worlds, runs, *rest = draws.shape
    p = np.asarray(probabilities, dtype=np.float64)
    columns, each = draws.reshape(worlds * runs, -1), np.atleast_1d(independent(draws)).ravel()
    near = np.linspace(-0.5, 0.5, runs)
    found = []
    for column, n in zip(columns.T, each, strict=True):
        at = (p[:, None] * (n + 1.0) - 0.5) / n + near * (1.0 / n - 1.0 / len(column))
        found.append(np.quantile(column, np.clip(at, 0.0, 1.0), method="hazen").mean(axis=1))
    return np.array(found).T.reshape(len(p), *rest)


def independent(draws: Float[Array, "worlds runs *rest"]) -> Float[Array, " *rest"]:
    """The effective number of independent draws, between the number of worlds and that of all runs.

    It follows from the intraclass correlation of ranks (one-way analysis of variance), which is invariant to units and
    robust to long tails.
    """
    worlds, runs, *rest = draws.shape
    columns = draws.reshape(worlds * runs, -1).T
    rank = np.empty((worlds * runs, len(columns)))
    for j, (column, ordered) in enumerate(zip(columns, np.sort(columns, axis=1), strict=True)):
        # Ties get their mean rank.
        rank[:, j] = 0.5 * (np.searchsorted(ordered, column, "left") + np.searchsorted(ordered, column, "right"))
    rank = rank.reshape(worlds, runs, -1)
    means = rank.mean(axis=1)
    between = runs * means.var(axis=0, ddof=1)
    within = ((rank - means[:, None]) ** 2).sum(axis=(0, 1)) / max(worlds * (runs - 1), 1)
    every = between + (runs - 1) * within
    alike = np.divide(between - within, every, out=np.zeros_like(every), where=every > 0)
    n = worlds * runs / (1.0 + (runs - 1) * np.clip(alike, 0.0, 1.0))
    return np.asarray(n.reshape(rest))
