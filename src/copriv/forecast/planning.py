"""The plan: rule, answers, step, bounds and start that cost the least, chosen from public information only.

In the unit of f, a setting costs

    bias(B, Ξ)  +  ½ Σ a_j R(g_j) (z_j² + t_j)  +  ½ Σ a_j V(g_j) (step P_j)² · Ξ² v(m)

with v(m) the variance of noise in the owners' average for Ξ = 1 (`noise_variance`; for pure ε 8m²ν with
ν = Σ w_i² κ_i²/(n_i ε_i)²), a_j the curvature in direction j, R and V from `response`, z the start, t the spread of
what the public sample cannot know of θ* (`sample`), P_j a public preconditioner, and bias what clipping at Ξ does to
the optimum, found on the public rows. R and V are means over how uncertain the curvature is, and the bias is priced
with the caution that a few rare records deserve. Owners enter through v alone, so one table prices every consortium
and every mechanism of noise.

The table ignores what clipping does on the way. So the best few settings, and their neighbours, are run on the public
rows, in bootstrap worlds, with the real n_i and ε_i, clipping and all, and the cheapest of those runs is the plan. A
bound B on features changes what is fitted: settings are compared by the fitness reached on records bounded at their own
B, not by ψ. Mechanisms by which each owner answers once (`one_answer`) are measured in the same worlds.

Pure ε is what a plan keeps to, unless every owner states a δ above 0. That is the opt-in: normal noise (Ξ in L2),
composed Laplace noise and models fitted with δ are then weighed beside the pure ones, and where a pure one is chosen
its agreement has δ = 0. `Plan.trades` says what each promise costs.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from copriv.agreement import ONE_ANSWER, Agreement
from copriv.answering import sensitivity_norm
from copriv.errors import AgreementError
from copriv.forecast.one_answer import expected_psi, plan_one_answer
from copriv.forecast.response import GAINS, MOST_TALKERS, Response, Way, response
from copriv.forecast.sample import PublicSample
from copriv.privacy.clipping import row_norms
from copriv.problem import Problem
from copriv.simulation import simulate
from copriv.simulation.kernels import Pass
from copriv.types import Array, is_linear

ANSWERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48)
FEATURE_QUANTILES = (0.9, 0.95, 0.99, 1.0)
"""Candidates for B: quantiles of ‖x‖₁ in the public rows."""
GRADIENT_BOUNDS = 16
"""Candidates for Ξ: from a tenth of the median public gradient to the largest."""
CAUTION = 2.0
"""What the estimated bias is multiplied by when settings are priced: it rests on few records, noise is known."""
TAIL = 20
"""Public gradients that the tail of their sizes is estimated from."""
PRECONDITIONERS = (0.0, 0.5, 1.0)
"""Candidates for γ in P = (A/a_max)^−γ: none, half, Newton's."""
FINALISTS = 5
LOOKED_AT = (4, 8, 16, 48)
"""Numbers of answers that are run, whatever the table says of them, where the fitness is no quadratic."""
BUDGETS = 4
"""Composed Laplace answers are weighed for owners of at most so many different (ε, δ): accounting takes a second each."""
PASSES = 3
"""How often neighbours of the best are looked at where the table is only near the truth, for the fitness is no quadratic."""
RUNS = 40
WORLDS = 5


@dataclass(frozen=True, eq=False)
class Choice:
    """A setting, and what it reached on the public rows. `agreement` has a number wherever "auto" was."""

    agreement: Agreement
    start: str
    """"zero", "agreed" or "public"."""
    preconditioner: float
    """γ; 0 is none."""
    relative_fitness: float
    """E ψ."""
    fitness: float
    """E f, at this choice's own B: what choices are compared by."""

    @property
    def pure(self) -> bool:
        """Whether δ is 0 for every owner."""
        return all(owner.delta == 0 for owner in self.agreement.owner)

    def describe(self) -> str:
        """One line in words."""
        terms, model = self.agreement.agreement, self.agreement.model
        start = {"zero": "from zero", "agreed": "from the agreed start", "public": "from the public model"}[self.start]
        rule: str = "S2, last iterate" if terms.rule == "S2" and terms.iterate == "last" else terms.rule
        rule += " in rounds" if terms.window > 1 else ""
        if self.agreement.one_answer:
            rule = {"statistics": "noisy statistics", "objective": "privately fitted models"}[terms.mechanism]
        noise = {"gaussian": ", normal noise", "laplace-composed": ", composed Laplace noise"}.get(terms.mechanism, "")
        m = self.agreement.answers
        norm = " in L2" if sensitivity_norm(self.agreement) == 2 else ""
        bound = "" if self.agreement.data.feature_bound in ("auto", 0.0) else (
            f", features bounded at {self.agreement.data.feature_bound:.3g}"
        )  # fmt: skip
        return (
            f"{rule}, {m} answer{'s' if m > 1 else ''} of each owner{noise}, step {self.agreement.step:.4g}, "
            f"gradients bounded at {model.gradient_bound:.3g}{norm}{bound}, {start}"
            + (", publicly preconditioned" if self.preconditioner else "")
            + ("" if self.pure else ", (ε, δ)")
        )


@dataclass(frozen=True, eq=False)
class NoiseCurve:
    """The least E ψ for owners of noise ν, each ν with its own best setting: what owners are valued by."""

    fixed: Float[Array, " settings"]
    slope: Float[Array, " settings"]

    @classmethod
    def of(cls, fixed: Float[Array, " settings"], slope: Float[Array, " settings"]) -> "NoiseCurve":
        """Only settings that are best for some ν ≥ 0 are kept: the lower envelope of lines fixed + slope·ν.

        Those are the corners of the lower left hull of the points (slope, fixed).
        """
        # Where no line of a smaller slope begins lower: all others are above one of these everywhere.
        order = np.lexsort((fixed, slope))
        lowest = np.minimum.accumulate(fixed[order])
        front = order[np.concatenate([[True], fixed[order][1:] < lowest[:-1]])]
        hull: list[tuple[float, float, int]] = []
        for s, f, i in zip(slope[front].tolist(), fixed[front].tolist(), front.tolist(), strict=True):
            while len(hull) > 1 and _above(hull[-2], hull[-1], (s, f)):
                hull.pop()
            hull.append((s, f, i))
        index = [i for _, _, i in hull]
        return cls(fixed[index], slope[index])

    def at(self, noise: float | Array) -> Any:
        """E ψ at ν (a number or an array of them)."""
        ν = np.asarray(noise, dtype=np.float64)
        return (self.fixed + self.slope * ν[..., None]).min(axis=-1)

    def derivative(self, noise: float) -> float:
        """dψ/dν at ν."""
        return float(self.slope[np.argmin(self.fixed + self.slope * noise)])


def _above(left: tuple[float, float, int], middle: tuple[float, float, int], right: tuple[float, float]) -> bool:
    """Whether the middle one of three points, in order of slope, is not below the line between the others."""
    return (middle[1] - left[1]) * (right[0] - left[0]) >= (right[1] - left[1]) * (middle[0] - left[0])


@dataclass(frozen=True, eq=False)
class Plan:
    """The choice, the next best by another rule or number of answers, and how flat the optimum is."""

    choice: Choice
    runner_up: Choice | None
    measured: tuple[Choice, ...]
    """All that were run on the public rows, the best first."""
    flatness: dict[str, tuple[float, float]]
    """For "step", "gradient_bound" and "answers": ψ at half and at twice the chosen value, over ψ at it."""
    priced: tuple[Float[Array, " settings"], Float[Array, " settings"]]
    """ψ without noise of every setting that was priced, and how fast it grows with ν."""
    seconds: float

    @property
    def considered(self) -> int:
        """Settings priced."""
        return len(self.priced[0])

    @cached_property
    def curve(self) -> NoiseCurve:
        """What owners are valued by. It sorts all settings, a million and more."""
        fixed, slope = self.priced
        finite = np.isfinite(fixed) & np.isfinite(slope)
        return NoiseCurve.of(fixed[finite], slope[finite])

    @property
    def agreement(self) -> Agreement:
        """What all parties would sign."""
        return self.choice.agreement

    def trades(self) -> dict[str, tuple[Choice, Choice]]:
        """The best that keeps each promise and the best that does not, where both were run: what keeping it costs.

        Keys: "pure" (ε against (ε, δ)), "one_answer" (against many), "asynchronous" (against rounds of all owners).
        """
        kept: dict[str, Callable[[Choice], bool]] = {
            "pure": lambda choice: choice.pure,
            "one_answer": lambda choice: choice.agreement.answers == 1,
            "asynchronous": lambda choice: not choice.agreement.synchronous,
        }
        found = {}
        for name, keeps in kept.items():
            with_it = [choice for choice in self.measured if keeps(choice)]
            without = [choice for choice in self.measured if not keeps(choice)]
            if with_it and without:
                found[name] = (with_it[0], without[0])
        return found


def noise_of(agreement: Agreement, weights: Array | None = None) -> float:
    """ν = Σ w_i² κ_i²/(n_i ε_i)²."""
    w = agreement.weights if weights is None else weights
    κ = np.array([owner.overlap for owner in agreement.owner], dtype=np.float64)
    return float(np.sum((w * κ / (agreement.records * agreement.epsilons)) ** 2))


def noise_variance(agreement: Agreement, mechanism: str, answers: int) -> float:
    """v(m): the variance of noise in one coordinate of Σ w_i Q̄_i, for Ξ = 1 and m answers of each owner.

    mechanism: "laplace", "laplace-composed" or "gaussian"; the latter two take each owner's δ, and need dp-accounting.
    """
    if mechanism == "laplace":
        return 8.0 * answers**2 * noise_of(agreement)
    from copriv.privacy.approximate import gaussian_multiplier, laplace_multiplier

    multiplier, each = (gaussian_multiplier, 1.0) if mechanism == "gaussian" else (laplace_multiplier, 2.0)
    scales = [
        2.0 / o.records * multiplier(answers, o.epsilon / o.overlap, o.delta / o.overlap) for o in agreement.owner
    ]
    return each * float(np.sum((agreement.weights * np.array(scales)) ** 2))


def plan(
    problem: Problem,
    *,
    keep: bool = True,
    public_start: bool = True,
    preconditioner: bool = True,
    one_answer: bool | None = None,
    runs: int = RUNS,
    seed: int = 0,
) -> Plan:
    """The best setting for these owners, from the agreement and the public sample alone.

    keep: what the agreement fixes stays (a named rule, `answers`, numbers for step, Ξ and B, a start); otherwise only
        `communication`, the fitness and the owners are taken from it.
    public_start, preconditioner: whether the plan may begin at the public model, and descend along a public matrix.
    one_answer: whether it may choose a mechanism by which each owner answers once: noisy statistics (squared loss) or a
        privately fitted model. None: where nothing is kept. With `keep` it needs a rule that is "auto".
    runs: simulated runs on the public rows for each finalist.

    (ε, δ) is weighed where every owner states a δ above 0, and the agreement names no mechanism of its own.
    Raises DataError without a public sample, AgreementError where the agreement leaves nothing to choose from.
    """
    begun = time.perf_counter()
    public = problem.on_public()  # first of all: from here on no private record is at hand
    if not keep:
        public = public.under(_freed(public.terms))
    noises = _noises(public.terms)
    bounds = _candidate_bounds(public, noises)
    tables = [
        _Table(bounded, start, γ)
        for bounded in bounds
        for start in _starts(public.terms, public_start)
        for γ in (PRECONDITIONERS if preconditioner and public.terms.agreement.preconditioner is None else (0.0,))
    ]
    best = min(table.sample.optimum.value for table in tables)
    ν, N = noise_of(public.terms), _talkers(public.terms)
    priced: list[_Priced] = []
    for way in _ways(public.terms):
        for m in _answers(public.terms, way):
            variance = _variances(public.terms, noises, m)
            for table in tables:
                priced += table.price(response(way, m, N), variance)
    if not priced:
        raise AgreementError("agreement.rule: no rule fits the agreed communication; name another, or allow any")
    quadratic = public.fitness.quadratic is not None
    finalists = _finalists(priced, quadratic)
    first = finalists[0]
    measured: dict[tuple[Any, ...], Choice] = {}
    if not public.terms.one_answer:
        first, measured = _run(public, finalists, 1 if quadratic else PASSES, runs, seed)
    for mechanism, pure in _one_answer_mechanisms(public, one_answer if one_answer is not None else not keep):
        try:
            measured[mechanism, pure] = _once(first.priced.table.bounded, mechanism, pure, public_start, runs, seed)
        except AgreementError:
            if public.terms.one_answer:
                raise
            continue  # no setting of it can be kept with these budgets
    ranked = tuple(sorted(measured.values(), key=lambda choice: choice.fitness))
    others = [choice for choice in ranked if _kind(choice) != _kind(ranked[0])]
    fixed = np.concatenate([(p.fixed + p.table.sample.optimum.value).ravel() / best - 1.0 for p in priced])
    # Of noise with δ too: its scale is near enough to one over nε for owners to be valued by.
    slope = np.concatenate([p.noise.ravel() / (best * ν) for p in priced])
    return Plan(
        ranked[0], others[0] if others else None, ranked, _flatness(first, N), (fixed, slope),
        time.perf_counter() - begun,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Bounded:
    """The public problem at one B: its sample, and the bias of each candidate Ξ, in L1 or L2."""

    problem: Problem
    sample: PublicSample
    bounds: dict[int, Float[Array, " bounds"]]
    """By the order of the norm."""
    seen: dict[int, Float[Array, " bounds"]]
    """The bias on the public rows."""
    tail: dict[int, Float[Array, " bounds"]]
    """The same, where few public rows are so large: at least what the tail of their sizes says."""

    def bias(self, order: int) -> Float[Array, " bounds"]:
        """With caution: what each Ξ is priced at."""
        return np.maximum(CAUTION * self.seen[order], self.tail[order])

    def unseen(self, bound: float, order: int, caution: float) -> float:
        """In the unit of ψ: what public rows do not show, since they show their own bias only."""
        if not _heavy(self.problem):
            return 0.0  # worlds of the public rows show as much as there is to see
        more = np.maximum(np.maximum(caution * self.seen[order], self.tail[order]) - self.seen[order], 0.0)
        return float(np.interp(np.log(bound), np.log(self.bounds[order]), more)) / self.sample.optimum.value


@dataclass(frozen=True, eq=False)
class _Table:
    """One B, one start and one preconditioner: what does not depend on the rule."""

    bounded: _Bounded
    start: str
    γ: float

    @property
    def sample(self) -> PublicSample:
        return self.bounded.sample

    @cached_property
    def directions(self) -> tuple[Array, Array, Array, Array]:
        """Curvature a, preconditioner P, squared start z² and truth's spread t, by eigenvector."""
        a, U = np.linalg.eigh(self.sample.hessian)
        a = np.maximum(a, 1e-12 * a[-1])
        problem = self.bounded.problem
        begin = self.sample.optimum.theta if self.start == "public" else problem.start
        z = U.T @ (begin - self.sample.optimum.theta)
        n, n0 = float(problem.terms.records.sum()), self.sample.records.units
        t = np.diag(U.T @ self.sample.spread @ U) * (1.0 / n + 1.0 / n0)
        return a, (a / a[-1]) ** -self.γ, z**2, t

    def matrix(self) -> Array | None:
        """P as the agreement carries it."""
        if self.γ == 0:
            return None
        a, U = np.linalg.eigh(self.sample.hessian)
        a = np.maximum(a, 1e-12 * a[-1])
        return np.asarray((U * (a / a[-1]) ** -self.γ) @ U.T)

    def price(self, table: Response, variance: "dict[str, float]") -> "list[_Priced]":
        """One a mechanism of noise; `variance` is v(m) of each."""
        a, P, z2, t = self.directions
        given = self.bounded.problem.terms.agreement.step
        step = GAINS / a[-1] if given == "auto" else np.array([given * table.unit])
        R, V = table.at(step[:, None] * (P * a), self.sample.wobble)
        rest = 0.5 * (R * (a * (z2 + t))).sum(axis=1)
        loud = 0.5 * (V * a * (step[:, None] * P) ** 2).sum(axis=1)
        priced = []
        for mechanism, v in variance.items():
            order = _order(mechanism)
            fixed = rest[:, None] + self.bounded.bias(order)[None, :]
            noise = loud[:, None] * self.bounded.bounds[order][None, :] ** 2 * v
            cost = fixed + noise
            where = np.unravel_index(int(np.nanargmin(np.where(np.isfinite(cost), cost, np.nan))), cost.shape)
            place = (int(where[0]), int(where[1]))
            priced.append(_Priced(self, table, mechanism, step / table.unit, fixed, noise, float(cost[where]), place))
        return priced


@dataclass(frozen=True, eq=False)
class _Priced:
    """A rule, a number of answers and a noise under one table: cost of each step and Ξ, and the cheapest."""

    table: _Table
    response: Response
    mechanism: str
    step: Float[Array, " steps"]
    fixed: Float[Array, "steps bounds"]
    noise: Float[Array, "steps bounds"]
    """What noise costs."""
    cost: float
    where: tuple[int, int]

    @property
    def order(self) -> int:
        """Of the norm that Ξ is in."""
        return _order(self.mechanism)

    @property
    def bounds(self) -> Float[Array, " bounds"]:
        """Candidates for Ξ."""
        return self.table.bounded.bounds[self.order]

    @property
    def promises(self) -> tuple[bool, bool, bool]:
        """Pure ε, asynchronous, one answer."""
        return self.mechanism == "laplace", self.response.way.startswith("A2"), self.response.answers == 1

    def candidate(self) -> "_Candidate":
        return _Candidate(self, float(self.step[self.where[0]]), float(self.bounds[self.where[1]]))


@dataclass(frozen=True, eq=False)
class _Candidate:
    priced: _Priced
    step: float
    gradient_bound: float

    @property
    def key(self) -> tuple[Any, ...]:
        table, r = self.priced.table, self.priced.response
        noise = self.priced.mechanism
        return (id(table.bounded), table.start, table.γ, r.way, r.answers, noise, self.step, self.gradient_bound)

    def agreement(self, terms: Agreement) -> Agreement:
        """The agreement that says so. Answers and horizon are set so that every owner gives exactly m answers."""
        table, r = self.priced.table, self.priced.response
        m, synchronous = r.answers, not r.way.startswith("A2")
        matrix = table.matrix()
        begin = table.sample.optimum.theta.tolist() if table.start == "public" else None
        changes: dict[str, Any] = {
            "rule": r.way.split()[0],
            "iterate": "last" if r.way == "S2 last" else "averaged",
            "answers": m,
            "horizon": m + 1 if synchronous else m * _talkers(terms),
            "step": self.step,
            "mechanism": self.priced.mechanism,
        }
        if r.way == "A2 rounds":
            # The response counts a round's step Nα_k as one, and the agreement's step is α.
            changes |= {"window": _talkers(terms), "schedule": "rounds", "step": self.step / _talkers(terms)}
        elif terms.agreement.rule == "auto" and not synchronous:
            changes["schedule"] = "random-order"
        if begin is not None:
            changes["start"] = begin
        if matrix is not None:
            changes["preconditioner"] = matrix.tolist()
        bound = table.bounded.problem.feature_bound
        return terms.replace(
            agreement=changes,
            model={"gradient_bound": self.gradient_bound},
            data={"feature_bound": 0.0 if bound is None else bound},
            owner={"delta": 0.0} if self.priced.mechanism == "laplace" else {},
        )


def _order(mechanism: str) -> Literal[1, 2]:
    return 2 if mechanism == "gaussian" else 1


def _noises(agreement: Agreement) -> tuple[str, ...]:
    """The mechanisms of noise on gradients to weigh; under a mechanism of one answer, what the table stands for."""
    agreed = agreement.agreement.mechanism
    if agreed in ("gaussian", "laplace-composed"):
        return (agreed,)
    if agreed in ONE_ANSWER or not _opted(agreement):
        return ("laplace",)
    budgets = {(o.epsilon / o.overlap, o.delta / o.overlap) for o in agreement.owner}
    return ("laplace", "gaussian", *(("laplace-composed",) if len(budgets) <= BUDGETS else ()))


def _opted(agreement: Agreement) -> bool:
    """Whether every owner states a δ: the opt-in to (ε, δ)."""
    return all(owner.delta > 0 for owner in agreement.owner)


def _variances(agreement: Agreement, noises: Sequence[str], answers: int) -> dict[str, float]:
    """v(m) of each mechanism. Composed noise is left out where composing gains nothing, but for where it is agreed."""
    found = {noise: noise_variance(agreement, noise, answers) for noise in noises}
    if len(found) > 1 and found.get("laplace-composed", 0.0) > 0.99 * found["laplace"]:
        del found["laplace-composed"]
    return found


def _freed(agreement: Agreement) -> Agreement:
    """The agreement with nothing fixed that a plan may choose."""
    document = agreement.to_dict()
    for key in ("answers", "start", "preconditioner", "window", "moments_share", "anchor", "reach"):
        document["agreement"].pop(key, None)
    document["agreement"] |= {"rule": "auto", "step": "auto", "mechanism": "laplace"}
    document["model"] |= {"gradient_bound": "auto", "gradient_bound_assumed": False}
    document["data"] |= {"feature_bound": "auto"}
    return Agreement.of(document)


def _talkers(agreement: Agreement) -> int:
    return len({owner.group or ("", owner.name) for owner in agreement.owner})


def _ways(agreement: Agreement) -> tuple[Way, ...]:
    terms = agreement.agreement
    match terms.rule:
        case "auto":
            synchronous: tuple[Way, ...] = ("S1", "S2", "S2 last")
            asynchronous: tuple[Way, ...] = ("A2", "A2 rounds")
            allowed = {"synchronous": synchronous, "asynchronous": asynchronous, "any": synchronous + asynchronous}
            return allowed[terms.communication]
        case "S2":
            return ("S2 last",) if terms.iterate == "last" else ("S2",)
        case "S1":
            return ("S1",)
        case "A2":
            return ("A2",) if terms.window == 1 else ("A2 rounds",)
    raise AgreementError(
        'agreement.rule: A1 cannot be planned (its step shrinks with T, erratum 5); name "auto" or "A2", or fix its '
        "step, answers and gradient_bound"
    )


def _answers(agreement: Agreement, way: Way) -> Sequence[int]:
    terms = agreement.agreement
    if terms.answers is not None:
        return (agreement.answers,)
    if terms.step != "auto":
        return (agreement.answers if way.startswith("A2") else agreement.queries,)
    return [m for m in ANSWERS if m <= max(terms.horizon - (not way.startswith("A2")), 1)]


def _starts(agreement: Agreement, public_start: bool) -> tuple[str, ...]:
    if agreement.agreement.start is not None:
        return ("agreed",)
    return ("zero", "public") if public_start else ("zero",)


def _candidate_bounds(public: Problem, noises: Sequence[str]) -> list[_Bounded]:
    """The public problem at each candidate B."""
    orders = sorted({*(_order(noise) for noise in noises), sensitivity_norm(public.terms)})
    agreed = public.terms.data.feature_bound
    if agreed != "auto":
        return [_at_bound(public, orders)]
    norms = np.abs(public.unbounded[0].features).sum(axis=1)
    return [
        _at_bound(public.under(public.terms.replace(data={"feature_bound": float(np.quantile(norms, q))})), orders)
        for q in FEATURE_QUANTILES
    ]


def _at_bound(public: Problem, orders: Sequence[Literal[1, 2]]) -> _Bounded:
    sample = PublicSample(public)
    given = public.agreement.model.gradient_bound
    r, theta = sample.records, sample.optimum.theta
    gradients = public.loss.gradients(theta, r.features, r.target)
    candidates: dict[int, Array] = {}
    seen: dict[int, Array] = {}
    tail: dict[int, Array] = {}
    for order in orders:
        norms = row_norms(gradients, order)
        if isinstance(given, float):
            bounds = np.array([given])
        else:
            low, high = 0.2 * float(np.median(norms[norms > 0])), 1.5 * float(norms.max())
            bounds = np.geomspace(low, high, GRADIENT_BOUNDS)
        bias = np.array([_bias(public, sample, float(Ξ), order) for Ξ in bounds])
        candidates[order], seen[order] = bounds, bias
        tail[order] = _tail_bias(norms, bounds, bias) if _heavy(public) else bias
    return _Bounded(public, sample, candidates, seen, tail)


def _heavy(problem: Problem) -> bool:
    """Whether sizes of gradients may have a tail: not where slopes are bounded, as a classifier's are."""
    return not is_linear(problem.loss) or not np.isfinite(problem.loss.slope_bound(np.inf, 1.0))


def _tail_bias(norms: Array, bounds: Array, bias: Array) -> Array:
    """Bias where few public gradients are as large as Ξ: a power law from where there are TAIL of them.

    With a Pareto tail of index h the clipped mass falls as Ξ^(1−h) and its bias as the square; h is Hill's estimate.
    """
    largest = np.sort(norms)[::-1][: TAIL + 1]
    if len(largest) <= TAIL or not largest[-1] > 0:
        return bias
    h = 1.0 / max(float(np.mean(np.log(largest[:-1] / largest[-1]))), 0.05)
    known = float(np.interp(np.log(largest[-1]), np.log(bounds), bias)) if len(bounds) > 1 else float(bias[0])
    law = known * (bounds / largest[-1]) ** (-2.0 * max(h - 1.0, 0.5))
    return np.where(bounds > largest[-1], law, bias)


def _bias(public: Problem, sample: PublicSample, bound: float, order: Literal[1, 2]) -> float:
    """f(θ_Ξ) − f(θ*) on the public rows, θ_Ξ where the clipped gradients balance.

    Descent along the inverse Hessian: a clipped gradient is never steeper than the gradient, so a full step never
    overshoots. Twenty steps leave less of the bias unseen than the public sample leaves anyway.
    """
    one_pass = Pass(public.loss, sample.records, order=order)
    inverse = np.linalg.pinv(sample.hessian, rcond=1e-12, hermitian=True)
    theta, n = sample.optimum.theta, float(sample.records.weight.sum())
    for _ in range(20):
        clipped, _ = one_pass.gradients(theta[None], bound)
        theta = theta - inverse @ (clipped[0] / n + public.regularizer.gradient(theta))
    return max(float(public.fitness.value(theta)) - sample.optimum.value, 0.0)


def _finalists(priced: list[_Priced], quadratic: bool) -> list[_Candidate]:
    """The cheapest few, at most one for each rule, number of answers, start and noise; and the best of every promise.

    The table knows one curvature. Where the fitness has many, the best of several numbers of answers are looked at too.
    """
    chosen: dict[tuple[Any, ...], _Candidate] = {}
    had: set[Any] = set()
    for p in sorted(priced, key=lambda p: p.cost + p.table.sample.optimum.value):
        kind = (p.response.way, p.response.answers, p.table.start, p.mechanism)
        news = {p.promises} if quadratic or p.response.answers not in LOOKED_AT else {p.promises, p.response.answers}
        if kind not in chosen and (len(chosen) < FINALISTS or not news <= had):
            chosen[kind] = p.candidate()
            had |= news
    return list(chosen.values())


def _run(
    public: Problem, finalists: list[_Candidate], passes: int, runs: int, seed: int
) -> tuple[_Candidate, dict[tuple[Any, ...], Choice]]:
    """The best of the finalists and of what lies around it, and what each that was run reached."""
    measured = {candidate.key: _measure(public, candidate, runs, seed) for candidate in finalists}
    best = min(finalists, key=lambda c: measured[c.key].fitness)
    for _ in range(passes):
        near = [candidate for candidate in _neighbours(public.terms, best) if candidate.key not in measured]
        measured |= {candidate.key: _measure(public, candidate, runs, seed) for candidate in near}
        before, best = best, min([best, *near], key=lambda c: measured[c.key].fitness)
        if best is before:
            break
    return best, measured


def _neighbours(terms: Agreement, best: _Candidate) -> list[_Candidate]:
    """The winner with a longer or shorter step, and a tighter or looser Ξ, where those are free."""
    near = []
    if terms.agreement.step == "auto":
        near += [replace(best, step=best.step * factor) for factor in (0.65, 1.5)]
    if terms.model.gradient_bound == "auto":
        near += [replace(best, gradient_bound=best.gradient_bound * factor) for factor in (0.75, 1.35)]
    return near


def _measure(public: Problem, candidate: _Candidate, runs: int, seed: int) -> Choice:
    """The candidate run on the public rows, in worlds that are off as the public sample may be off."""
    bounded, sample = candidate.priced.table.bounded, candidate.priced.table.sample
    agreement = candidate.agreement(public.terms)
    mean = float(measured_psi(public.under(_fewer(agreement)), sample, runs, seed)[:, -1].mean())
    mean += bounded.unseen(candidate.gradient_bound, candidate.priced.order, CAUTION)
    return Choice(
        agreement, candidate.priced.table.start, candidate.priced.table.γ, mean,
        (1.0 + mean) * sample.optimum.value,
    )  # fmt: skip


def measured_psi(
    public: Problem, sample: PublicSample, runs: int, seed: int, record_at: Sequence[int] | None = ()
) -> Float[Array, "runs recorded"]:
    """ψ of `runs` runs, an equal number in each of WORLDS bootstrap worlds of the public sample."""
    each = -(-runs // WORLDS)
    return np.concatenate(
        [
            simulate(
                world.under(public.terms), runs=each, seed=seed, first_run=i * each, record_at=record_at, alone=False,
                workers=1,
            ).relative_fitness.runs
            for i, world in enumerate(sample.worlds(WORLDS, seed))
        ]
    )  # fmt: skip


def _one_answer_mechanisms(public: Problem, wanted: bool) -> list[tuple[str, bool]]:
    """Mechanisms of one answer to weigh, and whether each is to be pure ε."""
    terms, owners = public.terms.agreement, public.terms.owner
    if public.terms.one_answer:
        return [(terms.mechanism, terms.mechanism == "statistics" or not _opted(public.terms))]
    free = terms.rule == "auto" and terms.step == "auto" and terms.mechanism == "laplace"
    if not wanted or not free or terms.answers is not None or terms.communication == "synchronous":
        return []
    if not is_linear(public.loss) or (not np.isfinite(public.loss.curvature) and public.loss.name != "hinge"):
        return []
    if public.feature_bound is None or any(owner.group or owner.unit for owner in owners):
        return []
    found = [("statistics", True)] if public.loss.name == "squared" else []
    return [*found, ("objective", True), *([("objective", False)] if _opted(public.terms) else [])]


def _once(bounded: _Bounded, mechanism: str, pure: bool, public_start: bool, runs: int, seed: int) -> Choice:
    """The best setting of a mechanism of one answer, measured as the others are."""
    public, sample = bounded.problem, bounded.sample
    if pure:
        public = public.under(public.terms.replace(owner={"delta": 0.0}))
    order: Literal[1, 2] = 1 if pure else 2
    agreement = plan_one_answer(
        public,
        mechanism,
        public_start=public_start,
        seed=seed,
        sample=sample,
        unseen=lambda Ξ: bounded.unseen(Ξ, order, 1.0),
    )
    each = 2 * -(-runs // (2 * WORLDS))
    # Other noise than the setting was chosen by.
    mean = expected_psi(sample.worlds(WORLDS, seed), agreement, each, seed + 1)
    mean += bounded.unseen(agreement.gradient_bound, order, 1.0)
    start = "agreed" if public.terms.agreement.start is not None else "public" if public_start else "zero"
    preconditioned = float(agreement.agreement.preconditioner is not None)
    return Choice(agreement, start, preconditioned, mean, (1.0 + mean) * sample.optimum.value)


def _fewer(agreement: Agreement) -> Agreement:
    """Many talkers as MOST_TALKERS equal ones that make the same noise together: the same law, sooner.

    They must be alike, or move the model in rounds of all, where only the sum of their answers counts.
    """
    owners, terms = agreement.owner, agreement.agreement
    alike = len({(o.records, o.epsilon, o.delta, o.overlap, o.weight, o.rate) for o in owners}) == 1
    rounds = terms.window > 1 and terms.schedule == "rounds"
    if agreement.synchronous or len(owners) <= MOST_TALKERS or _talkers(agreement) < len(owners):
        return agreement
    if not alike and not rounds:
        return agreement
    few, first = MOST_TALKERS, {key: value for key, value in agreement.to_dict()["owner"][0].items() if key != "weight"}
    one = noise_variance(agreement.replace(owner=[{**first, "records": 1}]), terms.mechanism, agreement.answers)
    exactly = float(np.sqrt(one / (few * noise_variance(agreement, terms.mechanism, agreement.answers))))
    # What n cannot make up for, being whole, ε does; not with δ, where that would be accounted for anew.
    records = max(1, round(exactly))
    ε = first["epsilon"] * (exactly / records if terms.mechanism == "laplace" else 1.0)
    document = agreement.to_dict()
    document["owner"] = [{**first, "name": f"{i}", "records": records, "epsilon": ε} for i in range(few)]
    document["agreement"] |= {
        "horizon": agreement.answers * few, "window": few if agreement.agreement.window > 1 else 1,
    }  # fmt: skip
    if agreement.agreement.step != "auto":
        document["agreement"]["step"] = agreement.step * len(owners) / few
    return Agreement.of(document)


def _kind(choice: Choice) -> tuple[Any, ...]:
    terms = choice.agreement.agreement
    return terms.mechanism, terms.rule, terms.iterate, terms.window, choice.agreement.answers, choice.start


def _flatness(best: _Candidate, talkers: int) -> dict[str, tuple[float, float]]:
    """ψ at half and twice each setting over ψ at the best, by the table."""
    p, (i, j) = best.priced, best.priced.where
    cost = p.fixed + p.noise

    def at(axis: Array, here: float, factor: float, line: Array) -> float:
        return float(np.interp(np.log(here * factor), np.log(axis), line) / line.min())

    flat = {}
    if len(p.step) > 1:
        flat["step"] = (at(p.step, best.step, 0.5, cost[:, j]), at(p.step, best.step, 2.0, cost[:, j]))
    if len(p.bounds) > 1:
        Ξ = best.gradient_bound
        flat["gradient_bound"] = (at(p.bounds, Ξ, 0.5, cost[i]), at(p.bounds, Ξ, 2.0, cost[i]))
    ends = []
    for m in (max(p.response.answers // 2, 1), 2 * p.response.answers):
        variance = {p.mechanism: noise_variance(p.table.bounded.problem.terms, p.mechanism, m)}
        ends.append(p.table.price(response(p.response.way, m, talkers), variance)[0].cost)
    flat["answers"] = (ends[0] / p.cost, ends[1] / p.cost)
    return flat
