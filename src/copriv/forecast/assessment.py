"""What one set of terms will cost: mean, median and band of ψ, from the same runs in the same worlds.

Terms are run a few times in each of WORLDS worlds (`copriv.populations.law`), with the owners' noise and, where owners are
few, each with records of its own. Where nothing is clipped and the loss is squared, the mean over the noise is that of the
exact recursion in every world (`copriv.exact`), and is called exact; the worlds are still a sample.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.errors import CoprivError
from copriv.exact import Order, OwnerKinds, expected_cost
from copriv.forecast.quantiles import quantiles
from copriv.formatting.cards import Card, Shown
from copriv.formatting.frames_and_plots import Columns, Framed
from copriv.formatting.numbers import percent, percent_range
from copriv.mechanisms import GradientNoise, Guarantee
from copriv.model.threads import on_one_thread
from copriv.plan.aggregated_runs import DEALT_OWNERS, runs_in
from copriv.populations.by_owner import OwnerWorld
from copriv.populations.dealt import HeterogeneousWorld, draw_worlds
from copriv.populations.public_sample import PublicSample
from copriv.privacy.noise import Law
from copriv.problem import Problem
from copriv.rules import named
from copriv.simulation.engine import noise_scales
from copriv.terms.heterogeneity import Heterogeneity
from copriv.types import Array

WORLDS = 32
"""With fewer, the 5 % quantile would be the smallest draw."""
RUNS = 128


@dataclass(frozen=True, eq=False)
class Band(Shown, Framed):
    """ψ expected after k queries (or in round k): mean, median, and where 90 % of runs are.

    >>> band = outlook.agreed.relative_fitness
    >>> bool((band.low <= band.mean).all()), bool((band.mean <= band.high).all())
    (True, True)
    """

    k: Int[np.ndarray, " recorded"]
    mean: Float[Array, " recorded"]
    median: Float[Array, " recorded"]
    low: Float[Array, " recorded"]
    """5 % of runs are below; never above the mean."""
    high: Float[Array, " recorded"]
    """5 % of runs are above; never below the mean, which in a long tail can pass 95 % of runs."""

    @property
    def end(self) -> dict[str, float]:
        """Mean, low, high and median after the last query."""
        return {name: float(getattr(self, name)[-1]) for name in ("mean", "low", "high", "median")}

    @property
    def in_words(self) -> str:
        """Mean, median and band at the end."""
        ψ = self.end
        band = percent_range(ψ["low"], ψ["high"])
        return f"{percent(ψ['mean'])} in the mean, typically {percent(ψ['median'])}, 90 % of runs {band}"

    def _card(self) -> Card:
        return Card(
            f"Band: {len(self.k):,} iterations up to {int(self.k[-1]):,}", (f"Above the best: {self.in_words}.",)
        )

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        return {"curve": lambda: {name: getattr(self, name) for name in ("k", "mean", "median", "low", "high")}}


@dataclass(frozen=True, eq=False)
class Assessment(Shown, Framed):
    """One set of terms and what it is expected to cost.

    >>> outlook.agreed.private, outlook.agreed.agreement.answers
    (True, 3)
    >>> outlook.agreed.draws.shape[0], outlook.agreed.models.shape[-1]
    (32, 3)
    """

    agreement: Agreement
    kind: Literal["exact", "simulated"]
    relative_fitness: Band
    private: bool
    words: str
    draws: Float[Array, "worlds runs"]
    """ψ at the end of every run, by world: what mean, median and band are taken from."""
    models: Float[Array, "worlds runs p"]
    """θ at the end of every run, by world."""

    def _card(self) -> Card:
        worlds, runs = self.draws.shape
        return Card(
            f"Assessment: {self.words or self.agreement.rule_in_words}",
            (
                f"Above the best: {self.relative_fitness.in_words}.",
                f"{self.kind.capitalize()}, from {runs:,} run{'s' if runs > 1 else ''} in each of {worlds:,} worlds.",
            ),
        )

    def _frames(self) -> Mapping[str, Callable[[], Columns]]:
        return self.relative_fitness._frames()

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON contract, with the curve added."""
        ψ, terms = self.relative_fitness, self.agreement.agreement
        return {
            "rule": terms.rule,
            "answers": self.agreement.answers,
            "step": self.agreement.step,
            "kind": self.kind,
            "relative_fitness": ψ.end,
            "horizon": terms.horizon,
            "gradient_bound": self.agreement.gradient_bound,
            "feature_bound": self.agreement.data.feature_bound,
            "private": self.private,
            "words": self.words,
            "curve": {name: getattr(ψ, name).tolist() for name in ("k", "mean", "median", "low", "high")},
        }


@on_one_thread
def assess(
    problem: Problem,
    words: str,
    runs: int = RUNS,
    seed: int = 0,
    sample: PublicSample | None = None,
    unlike: Sequence[HeterogeneousWorld | OwnerWorld] | None = None,
) -> Assessment:
    """Terms without "auto", on public rows alone: `runs` runs in all, in WORLDS worlds.

    sample: the public sample of `problem`, where it is at hand: its worlds are then made only once.
    unlike: the worlds, where owners differ in them; None: owners are alike.
    """
    sample = PublicSample.of(problem) if sample is None else sample
    agreement = problem.agreement
    # Where all answer at one point only the sum of answers counts, which is the pool's; and with 20 records a parameter
    # an owner's answers are taken to be the pool's too.
    pooled = agreement.synchronous or agreement.records.min() >= 20 * problem.n_parameters
    dealt = agreement.n_owners <= DEALT_OWNERS and (agreement.one_answer or not pooled)
    if unlike is not None:
        worlds = [world.problem for world in unlike]
    elif dealt:
        worlds = [world.dealt().under for world in sample.drawn(WORLDS, seed)]
    else:
        worlds = [world.pool.under for world in sample.drawn(WORLDS, seed)]
    each = -(-runs // len(worlds))
    simulated = [runs_in(world, problem.terms, each, seed, i * each, record_at=None) for i, world in enumerate(worlds)]
    k = simulated[0].k
    by_world = np.stack([one.relative_fitness for one in simulated])
    ψ = by_world.reshape(-1, len(k))
    exact = None
    if all(one.clipped == 0 for one in simulated) and not dealt and (unlike is None or agreement.synchronous):
        exact = _exact_mean_over(world(problem.terms) for world in worlds)
    kind: Literal["exact", "simulated"] = "simulated" if exact is None else "exact"
    mean = ψ.mean(axis=0) if exact is None else exact[k - k[0]]
    low, high = quantiles(by_world)
    band = Band(k, mean, np.median(ψ, axis=0), np.minimum(low, mean), np.maximum(high, mean))
    private = not agreement.model.gradient_bound_assumed
    models = np.stack([one.theta for one in simulated])
    return Assessment(agreement, kind, band, private, words, by_world[:, :, -1], models)


def worlds_unlike(
    sample: PublicSample, terms: Agreement, heterogeneity: Heterogeneity, seed: int
) -> tuple[HeterogeneousWorld | OwnerWorld, ...] | None:
    """The forecast's worlds with owners that differ, by levels spread over what heterogeneity may be; None: alike."""
    if heterogeneity.alike or terms.n_owners == 1:
        return None
    return draw_worlds(sample, terms, heterogeneity, WORLDS, seed)


def _as_participants(agreement: Agreement) -> Float[Array, "participants 2"]:
    """Records and scale of the noise of each that answers by itself.

    A group is one owner of all its records (A, Remark 2), whose noise Σ (w_i/w_G) b_i z_i has the variance of Laplace noise of
    scale √Σ (w_i b_i/w_G)²: the mean of f needs no more of it.
    """
    records, scales = agreement.records, noise_scales(agreement)
    if agreement.synchronous or agreement.n_participants == agreement.n_owners:
        return np.column_stack([records, scales])
    w, groups = agreement.weights, [list(group) for group in Participants.of(agreement).members]
    loud = [np.sqrt(np.sum((w[group] * scales[group]) ** 2)) / w[group].sum() for group in groups]
    return np.column_stack([[records[group].sum() for group in groups], loud])


def _exact_mean_over(worlds: Iterable[Problem]) -> Array | None:
    """E ψ after every query, over worlds too; None where it is out of reach."""
    found = []
    for world in worlds:
        mean = _exact_mean(world)
        if mean is None:
            return None
        found.append(mean)
    return np.asarray(np.mean(found, axis=0))


def _exact_mean(problem: Problem) -> Array | None:
    """E ψ after every query, over noise and schedule, in one world; None where it is out of reach."""
    quadratic, terms = problem.fitness.quadratic, problem.agreement.agreement
    if quadratic is None or problem.preconditioner is not None or problem.agreement.queries > 20_000:
        return None
    if terms.schedule in ("poisson", "rounds"):
        return None
    agreement, mechanism = problem.agreement, problem.agreement.mechanism
    # The recursions are those of Laplace noise, as much of it in every answer.
    pure = isinstance(mechanism, GradientNoise) and mechanism.guarantee is Guarantee.PURE
    if not pure or mechanism.law(agreement) is not Law.LAPLACE:
        return None  # before the rule is asked: where owners answer once it may have no step yet
    recursion = named(terms.rule).recursion(agreement)
    if recursion is None:
        return None
    capped = None if agreement.answers >= terms.horizon else float(agreement.answers)
    if not np.allclose(agreement.records / agreement.records.sum(), agreement.weights):
        return None
    each = _as_participants(agreement)
    kinds, counts = np.unique(each, axis=0, return_counts=True)
    owners = OwnerKinds.of(kinds[:, 0], kinds[:, 1], counts, capped)
    order: Order = "random order" if terms.schedule == "random-order" else "uniform"
    try:
        cost = expected_cost(recursion, quadratic, owners, terms.horizon, problem.start, order)
    except CoprivError:
        return None  # the exact recursion is out of reach here, and says so
    return np.asarray(cost / problem.optimum.value)
