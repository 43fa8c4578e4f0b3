"""Every mechanism with the worst two neighbours that we know for it, and what a real owner's answers must then be like.

Scales, means and likelihoods are written here a second time, from the proofs (docs/proofs), for p = 2, squared loss and a
record that two owners may hold (κ = 2). Nothing here calls the code under test but to make owners and ask them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
from scipy.optimize import brentq

import copriv.owner
from copriv.agreement import Agreement
from copriv.losses import Squared
from copriv.model.records import Records
from copriv.privacy.ledger import MemoryLedger
from copriv.protocol import Query
from copriv.types import Array
from statistical.composition_oracle import delta_of_laplace, delta_of_normal

N, P, BOUND, KAPPA = 20, 2, 0.8, 2
ANCHOR, SHARE = 0.1, 0.4
LENGTHS = 9
"""Bins of "lengths", which halve."""
ENDS = [-3 / 4, -1 / 2, -1 / 4, -1 / 8, -1 / 16, -1 / 32, -1 / 64, -1 / 256]
ENDS += [-end for end in reversed(ENDS)]
"""Between the intervals of targets in "lengths"."""
INTERVALS = 241
"""Of each column in "histograms"."""


@dataclass(frozen=True, eq=False)
class Case:
    """One mechanism. `epsilon` and `delta` are this owner's part, the agreement's over κ."""

    mechanism: str
    epsilon: float
    delta: float
    answers: int
    order: int
    terms: dict[str, float]
    persons: bool = False
    data: dict[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        told = " with delta" * bool(self.mechanism == "objective" and self.delta)
        return f"{self.mechanism}{told}{' of targets' * (self.mechanism == 'lengths' and not self.of_rows)}"

    @property
    def of_rows(self) -> bool:
        """Of "lengths": whether these are asked for, and not targets alone."""
        return "reach" in self.terms

    @property
    def normal(self) -> bool:
        return self.order == 2

    @cached_property
    def agreement(self) -> Agreement:
        owner = {"records": N, "epsilon": KAPPA * self.epsilon, "delta": KAPPA * self.delta, "overlap": KAPPA}
        unit = {"unit": "person"} if self.persons else {}
        return Agreement.of(
            {
                "agreement": {
                    "rule": "A2", "horizon": self.answers, "answers": self.answers, "step": 1.0,
                    "mechanism": self.mechanism, **self.terms,
                },
                "model": {"loss": "squared", "gradient_bound": BOUND, "theta_max": 50.0},
                "data": {"feature_bound": 1.0, **self.data},
                "owner": [{"name": name, **owner, **unit} for name in ("bank", "other")],
            }
        )  # fmt: skip

    @property
    def length(self) -> int:
        if self.mechanism == "lengths":
            return LENGTHS * self.of_rows + len(ENDS) + 1
        if self.mechanism == "histograms":
            return P * INTERVALS
        if self.mechanism == "pilot":
            return P + 2 * 7
        return P + P * (P + 1) // 2 if self.mechanism in ("statistics", "moments") else P

    @property
    def unit(self) -> Array:
        """What each number of an answer is divided by, so that one unit replaced moves all by 2/n at most."""
        if self.mechanism == "moments":  # of weight ½, entries off the diagonal twice in xxᵀ
            return np.array([BOUND] * P + [math.sqrt(2.0), 1.0, math.sqrt(2.0)])
        if self.mechanism == "lengths":
            return np.full(self.length, 1.0 + self.of_rows)  # a row stands in two histograms, or in one
        if self.mechanism == "histograms":
            return np.full(self.length, float(P))  # and here in one for each column
        if self.mechanism == "pilot":  # 7 parts of 9 for the gradient, one for each row of bins
            return np.array([BOUND * 9 / 7] * P + [9.0] * 14)
        if self.mechanism != "statistics":
            return np.full(P, BOUND)
        off_diagonal = 2.0  # written twice in xxᵀ, and released undoubled
        return np.array([BOUND / (1 - SHARE)] * P + [1 / SHARE, 1 / SHARE / off_diagonal, 1 / SHARE])

    @cache  # noqa: B019 (there are a dozen cases)
    def scales(self) -> Array:
        """Of the noise on each number; for "objective", of the tilt."""
        Δ, ε, δ, m = 2.0 / N, self.epsilon, self.delta, self.answers
        match self.mechanism:
            case "laplace" | "statistics" | "lengths" | "histograms" | "pilot":
                return Δ * m / ε * self.unit
            case "gaussian" | "moments":
                return Δ * math.sqrt(m) * _normal_multiplier(ε, δ) * self.unit
            case "laplace-composed":
                return Δ * _laplace_multiplier(m, ε, δ) * self.unit
        ε1 = self.for_noise
        if δ == 0:
            return np.full(P, Δ * BOUND / ε1)
        return np.full(P, Δ * BOUND * _normal_multiplier(ε1, δ / 2))

    @property
    def for_noise(self) -> float:
        """ε₁ of "objective": what is left for the tilt once the curvature, and what the solver leaves, are paid for."""
        s = 2.0 / (N * self.terms["anchor"])  # c = 2, r = 1
        return 0.99 * self.epsilon - math.log1p(s)

    @property
    def shift(self) -> float:
        """How far neighbours whose slopes are at their limits move the tilt of "objective", in its scales: 2Ξ/n over it.

        Of Laplace noise that is ε₁; of normal noise it is the μ of Gaussian privacy (Dong, Roth and Su 2022).
        """
        return 2.0 / N * BOUND / float(self.scales()[0])

    def noise(self, answers: Array, records: Records) -> Array:
        """What is left of answers (…, length) of an owner with these records once all else is taken away, at scale 1."""
        if self.mechanism == "objective":
            return np.apply_along_axis(lambda θ: tilt(self, records, θ), -1, answers) / self.scales()
        return (answers - mean(self, records)) / self.scales()

    def likelihood(self, answers: Array, records: Records) -> Array:
        """The log-density of transcripts (runs, answers, length), up to a constant."""
        noise = self.noise(answers, records)
        size = -0.5 * np.square(noise) if self.normal else -np.abs(noise)
        total = size.sum(axis=(1, 2))
        if self.mechanism == "objective":
            total = total + np.array([log_jacobian(self, records, θ) for θ in answers[:, 0]])
        return np.asarray(total)


CASES = {
    case.name: case
    for case in (
        Case("laplace", 1.5, 0.0, 2, 1, {}),
        Case("gaussian", 1.0, 0.1, 2, 2, {}),
        Case("laplace-composed", 1.0, 0.1, 2, 1, {}),
        Case("statistics", 1.5, 0.0, 1, 1, {"moments_share": SHARE}),
        Case("moments", 1.0, 0.1, 1, 2, {}),
        Case("lengths", 1.5, 0.0, 1, 1, {"reach": 1.0}),
        Case("lengths", 1.5, 0.0, 1, 1, {}),
        Case("histograms", 1.5, 0.0, 1, 1, {}, data={"features": ["one", "two"], "components": 0}),
        Case("pilot", 1.5, 0.0, 1, 1, {}),
        Case("objective", 1.5, 0.0, 1, 1, {"anchor": ANCHOR}),
        Case("objective", 1.5, 0.02, 1, 2, {"anchor": ANCHOR}),
    )
}


FIRM = {
    case.name: case
    for case in (
        Case("objective", 1.5, 0.0, 1, 1, {"anchor": 5.0}),
        Case("objective", 4.0, 0.01, 1, 2, {"anchor": 5.0}),
    )
}
"""Models whose anchor leaves nearly all of ε for noise: an audit of the tilt alone comes near to the whole."""


@cache
def _normal_multiplier(ε: float, δ: float) -> float:
    return float(brentq(lambda s: delta_of_normal(s, ε) - δ, 1e-2, 1e3, xtol=1e-10))


@cache
def _laplace_multiplier(m: int, ε: float, δ: float) -> float:
    return float(brentq(lambda b: delta_of_laplace(b, ε, m) - δ, 0.05 * m / ε, m / ε, xtol=1e-3))


def mean(case: Case, records: Records, theta: Array | None = None) -> Array:
    """The noise-free answer at θ (0): gradients 2(xᵀθ − y)x clipped, and second moments of rows of L1 length at most 1."""
    predicted = 0.0 if theta is None else records.features @ theta
    if case.mechanism == "lengths":
        found = np.zeros(case.length)
        for x, y, w in zip(records.features, records.target, records.weight, strict=True):
            if case.of_rows:
                found[sum(math.sqrt(sum(x * x)) <= 2.0**-k for k in range(1, LENGTHS))] += w / N
            found[LENGTHS * case.of_rows + sum(y > end for end in ENDS)] += w / N
        return found
    if case.mechanism == "histograms":
        found = np.zeros(case.length)
        for x, w in zip(records.features, records.weight, strict=True):
            for j in range(P):
                place = math.ceil((x[j] + 1.0) / 2.0 * INTERVALS) - 1  # the upper end belongs to an interval
                found[j * INTERVALS + min(max(place, 0), INTERVALS - 1)] += w / N
        return found
    if case.mechanism == "moments":
        ω = _factor(records.features, 1.0, 2)
        x, slope = ω * records.features, np.clip(ω[:, 0] * 2.0 * (predicted - records.target), -BOUND, BOUND)
        second = (records.weight[:, None] * x).T @ x / N
        return np.concatenate([(records.weight * slope) @ x / N, second[np.triu_indices(P)]])
    rows = 2.0 * (predicted - records.target)[:, None] * records.features
    gradient = records.weight @ (rows * _factor(rows, BOUND, case.order)) / N
    if case.mechanism == "pilot":
        lengths = np.linalg.norm(rows, ord=1, axis=1) / BOUND, np.linalg.norm(records.features, ord=1, axis=1)
        least, most = [0, 1.05, 1.5, 2.1, 3, 4.2, 6], [1.05, 1.5, 2.1, 3, 4.2, 6, np.inf]
        shares = [
            (records.weight @ ((x >= a) & (x < b))) / N for x in lengths for a, b in zip(least, most, strict=True)
        ]
        return np.array([*gradient, *shares])
    if case.mechanism != "statistics":
        return np.asarray(gradient)
    x = records.features * _factor(records.features, 1.0, 1)
    second = (records.weight[:, None] * x).T @ x / N
    return np.concatenate([gradient, second[np.triu_indices(P)]])


def _factor(rows: Array, bound: float, order: int) -> Array:
    return np.minimum(1.0, bound / np.maximum(np.linalg.norm(rows, ord=order, axis=1), 1e-300))[:, None]


def _damped(records: Records) -> Array:
    return np.minimum(1.0, 1.0 / np.maximum(np.abs(records.features).sum(axis=1), 1e-100) ** 2)


def tilt(case: Case, records: Records, theta: Array) -> Array:
    """The b for which θ is the minimum: −∇(clipped mean loss) − λθ."""
    x, y = records.features, records.target
    rows = (_damped(records) * 2.0 * (x @ theta - y))[:, None] * x
    return np.asarray(-(records.weight @ (rows * _factor(rows, BOUND, case.order))) / N - case.terms["anchor"] * theta)


def log_jacobian(case: Case, records: Records, theta: Array) -> float:
    """log |det ∂b/∂θ|: rows whose slope is clipped have no curvature."""
    x, y = records.features, records.target
    rows = (_damped(records) * 2.0 * (x @ theta - y))[:, None] * x
    free = np.linalg.norm(rows, ord=case.order, axis=1) < BOUND
    curved = records.weight * _damped(records) * 2.0 * free / N
    return float(np.linalg.slogdet((curved[:, None] * x).T @ x + case.terms["anchor"] * np.eye(P))[1])


@cache
def neighbours(kind: str) -> tuple[Records, Records]:
    """Two sets of n records that differ in the last one: as far as we know how to move an answer of this kind."""
    x = np.random.default_rng(5).normal(size=(N - 1, P))
    last = {
        "gradient": ((100.0, 0.0), 1.0, (100.0, 0.0), -1.0),
        "statistics": ((100.0, 0.0), 1.0, (0.0, 100.0), -1.0),
        "objective": ((1.0, 0.0), 3.0, (1.0, 0.0), -3.0),
        "lengths": ((100.0, 0.0), 1.0, (0.1, 0.0), 0.3),
        "histograms": ((100.0, 0.0), 1.0, (0.1, -0.5), 1.0),
        "pilot": ((100.0, 0.0), 1.0, (1.0, 0.0), -1.0),
    }[kind]
    one = Records.of(np.vstack([x, last[0]]), np.append(np.ones(N - 1), last[1]))
    return one, Records.of(np.vstack([x, last[2]]), np.append(np.ones(N - 1), last[3]))


def pair_of(case: Case) -> tuple[Records, Records]:
    kinds = {
        "statistics": "statistics",
        "pilot": "pilot",
        "objective": "objective",
        "moments": "objective",
        "lengths": "lengths",
        "histograms": "histograms",
    }
    return neighbours(kinds.get(case.mechanism, "gradient"))


def owner_of(case: Case, records: Records) -> copriv.owner.Owner:
    """An owner as the package makes it now, mutated or not."""
    return copriv.owner.Owner(case.agreement, "bank", records, Squared())


def restarted(owner: copriv.owner.Owner, case: Case) -> copriv.owner.Owner:
    """The same owner for another run, with a ledger that has spent nothing."""
    terms = case.agreement.owner[0]
    owner.ledger = MemoryLedger("bank", Fraction(terms.epsilon), case.answers, Fraction(terms.delta))
    return owner


def transcripts(
    case: Case, records: Records, runs: int, theta: Callable[[int], Array] = lambda k: np.zeros(P)
) -> Array:
    """All answers of each run: (runs, answers, length). Owners are made anew now and then, as after a restart."""
    agreement, answers = case.agreement, np.empty((runs, case.answers, case.length))
    queries = [Query(f"{k}", agreement.fingerprint, "bank", theta(k)) for k in range(case.answers)]
    for run in range(runs):
        owner = owner_of(case, records) if run % 100 == 0 else restarted(owner, case)
        for k, query in enumerate(queries):
            answers[run, k] = owner.answer(query).gradient
    return answers


def of_persons(case: Case) -> Case:
    return replace(case, persons=True)
