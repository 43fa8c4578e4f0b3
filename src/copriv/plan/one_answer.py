"""Settings for mechanisms by which each owner answers once, from public information only.

Every candidate is run with the owners' real noise on bootstrap worlds of the public rows (`PublicSample.worlds`): on
its own rows the public model would look too good a start. All are tried in one world, the best few in all of them.
Candidates for bounds are quantiles of what the public rows show; for the anchor, what spends a given share of ε on
curvature. What the agreement fixes stays: a start, a preconditioner, a step, Ξ; and, with its mechanism, the hinge's smoothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.answering import feature_bound_of, perturbation, sensitivity_norm
from copriv.errors import AgreementError
from copriv.losses import SmoothedHinge
from copriv.privacy.clipping import clipped_mean_gradient, row_norms
from copriv.privacy.objective import LARGEST_SPEND, Perturbation
from copriv.privacy.statistics import best_share, bound_on_moments, mean_moments, statistics_noise
from copriv.problem import Problem
from copriv.public_sample import PublicSample
from copriv.rules import Descent, SolveStatistics
from copriv.types import Array, is_linear

Worlds = tuple[Problem, ...]

WORLDS, RUNS = 5, 8
FIRST_RUNS = 4
"""Of every candidate, in one world."""
KEPT = 8
"""Candidates that are tried in all worlds."""
BOUNDS = (0.5, 0.9, 0.98, 0.996, 1.0)
PARTS = (1.5, 0.6, 0.4, 0.25, 0.15, 0.1, 0.06)
"""Candidates for Ξ: quantiles of the public rows' gradient norms at the start, and parts of the largest. At a zero start
all classification gradients are alike, and quantiles say nothing of how few will matter at the optimum."""
APART = 1.15
"""Candidates for Ξ that differ by less than this factor are one."""
STEPS = (1.0, 0.6, 0.3)
"""How far to go from the start to what the answers say: a public model knows something, and noise does not."""
SMOOTHINGS = (0.1, 0.3)
"""Candidates for the width that the hinge's kink is rounded over: narrow fits the hinge, wide costs less curvature."""
SPENT = (0.4, 0.15, 0.05, 0.01)
"""Candidates for the share of ε that the anchor spends on curvature."""


@dataclass(frozen=True, eq=False)
class _Setting:
    """What a candidate changes in an agreement; its cost is known for several steps at once."""

    bound: float
    steps: tuple[float, ...]
    terms: dict[str, Any]
    """Of [agreement]."""
    smoothing: float | None = None
    """The hinge's; None: as agreed."""


def plan_one_answer(
    problem: Problem,
    mechanism: str,
    *,
    public_start: bool = True,
    seed: int = 0,
    sample: PublicSample | None = None,
    unseen: Callable[[float], float] | None = None,
) -> Agreement:
    """The agreement with `mechanism` ("statistics" or "objective") and every setting of it chosen on the public rows.

    sample: the public sample of `problem`, where it is at hand: its worlds are then made only once.
    unseen: what a Ξ costs beyond what the public rows show, in the unit of ψ.
    Raises DataError without a public sample, AgreementError where no candidate can be kept.
    """
    sample = PublicSample.of(problem) if sample is None else sample
    start = problem.start
    if public_start and problem.terms.agreement.start is None:
        start = problem.box.project(sample.optimum.theta)
    B = problem.feature_bound
    base = problem.terms.replace(
        agreement={
            "mechanism": mechanism, "rule": "A2", "answers": 1, "horizon": problem.terms.n_owners,
            "start": start.tolist(),
        },
        model={"gradient_bound": 1.0},
        data={} if B is None else {"feature_bound": B},
    )  # fmt: skip
    made = _statistics if mechanism == "statistics" else _objective
    more = unseen or (lambda bound: 0.0)
    worlds = sample.worlds(WORLDS, seed)
    first: list[tuple[float, int, _Setting]] = []
    for setting in made(problem, base, sample, worlds):
        try:
            cost = _costs(worlds[:1], base, setting, FIRST_RUNS, seed) + more(setting.bound)
        except AgreementError:
            continue  # this anchor leaves no budget for noise
        first.append((float(cost.min()), len(first), setting))
    best, cheapest = None, np.inf
    for _, _, setting in sorted(first)[:KEPT]:
        cost = _costs(worlds, base, setting, RUNS, seed) + more(setting.bound)
        if cost.min() < cheapest:
            best, cheapest = _signed(base, setting, setting.steps[int(np.argmin(cost))]), float(cost.min())
    if best is None:
        raise AgreementError(f'agreement.mechanism: no setting of "{mechanism}" can be kept with these budgets')
    return best


def expected_psi(worlds: Worlds, agreement: Agreement, runs: int, seed: int) -> float:
    """E ψ of an agreement by `plan_one_answer`, over worlds and noise: `runs` in each world."""
    terms = agreement.agreement
    kept = {key: getattr(terms, key) for key in ("preconditioner", "moments_share", "anchor", "reach")}
    setting = _Setting(agreement.gradient_bound, (agreement.step,), kept)
    return float(_costs(worlds, agreement, setting, runs, seed)[0])


def _signed(base: Agreement, setting: _Setting, step: float) -> Agreement:
    given = {key: value for key, value in setting.terms.items() if value is not None}
    smoothing = {} if setting.smoothing is None else {"smoothing": setting.smoothing}
    return base.replace(agreement={**given, "step": step}, model={"gradient_bound": setting.bound, **smoothing})


def _statistics(problem: Problem, base: Agreement, sample: PublicSample, worlds: Worlds) -> Iterator[_Setting]:
    A, start = sample.hessian, np.array(base.agreement.start)
    P = _public_inverse(problem, sample)
    away = start - np.array([world.optimum.theta for world in worlds])
    M = bound_on_moments(float(problem.feature_bound or 1.0), problem.terms.model.intercept)
    for Ξ in _bounds(problem, worlds, start, 1):
        for share in {0.0, round(best_share(A, away.T @ away / len(away), Ξ, M), 3)}:
            yield _Setting(Ξ, _steps(problem, STEPS), {"moments_share": share, "preconditioner": _rows(P)})


def _objective(problem: Problem, base: Agreement, sample: PublicSample, worlds: Worlds) -> Iterator[_Setting]:
    start = np.array(base.agreement.start)
    plain = perturbation(base, len(start), problem.feature_bound, problem.loss)
    given = problem.preconditioner
    metrics = (None, _public_inverse(problem, sample)) if given is None else (given,)
    hardest = min(base.owner, key=lambda o: o.records * o.epsilon / o.overlap)
    n, ε = hardest.records, hardest.epsilon / hardest.overlap
    free = problem.loss.name == "hinge" and problem.terms.agreement.mechanism != "objective"
    bounds = _bounds(problem, worlds, start, sensitivity_norm(base))
    for Ξ, smoothing in product(bounds, SMOOTHINGS if free else (None,)):
        rounded = plain if smoothing is None else replace(plain, surface=SmoothedHinge(smoothing))
        for metric in metrics:
            x = sample.records.features
            length = row_norms(x, 2) if metric is None else np.sqrt(((x @ metric) * x).sum(axis=1))
            reach = float(np.quantile(length, 0.99))
            shape = {"reach": reach, "preconditioner": None if metric is None else _rows(metric)}
            for share in SPENT:
                λ = _anchor(replace(rounded, bound=Ξ, metric=metric, reach=reach), n, share * ε)
                if λ <= 0:
                    if share == SPENT[0]:
                        # The regulariser is enough of an anchor.
                        yield _Setting(Ξ, _steps(problem, STEPS), shape, smoothing)
                    continue
                steps = STEPS if metric is None else (1.0 + λ, *STEPS)
                yield _Setting(Ξ, _steps(problem, steps), {**shape, "anchor": λ}, smoothing)


def _public_inverse(problem: Problem, sample: PublicSample) -> Array:
    given = problem.preconditioner
    return np.asarray(np.linalg.inv(sample.hessian)) if given is None else given


def _steps(problem: Problem, candidates: tuple[float, ...]) -> tuple[float, ...]:
    given = problem.terms.agreement.step
    return candidates if given == "auto" else (given,)


def _anchor(agreed: Perturbation, records: int, spent: float) -> float:
    s = spent if agreed.many_rows else np.expm1(min(spent, LARGEST_SPEND))
    floor = agreed.regularization * float(np.linalg.eigvalsh(agreed.matrix)[0])
    return float(agreed.surface.curvature * agreed.farthest**2 / (records * s)) - floor


def _bounds(problem: Problem, worlds: Worlds, start: Array, order: Literal[1, 2]) -> list[float]:
    given = problem.agreement.model.gradient_bound
    if isinstance(given, float):
        return [given]
    seen = []
    for world in worlds:
        r, loss = world.owners[0], world.loss
        assert is_linear(loss)
        seen.append(np.abs(loss.slope(r.features @ start, r.target)) * row_norms(r.features, order))
    norms = np.concatenate(seen)
    candidates = np.sort(np.concatenate([np.quantile(norms, BOUNDS), norms.max() * np.array(PARTS)]))[::-1]
    kept: list[float] = []
    for Ξ in candidates[candidates > 0]:
        if not kept or kept[-1] > APART * Ξ:
            kept.append(float(Ξ))
    return kept


def _costs(worlds: Worlds, base: Agreement, setting: _Setting, runs: int, seed: int) -> Float[Array, " steps"]:
    """E ψ at each of the setting's steps, over worlds and noise."""
    start, costs = np.array(base.agreement.start), np.zeros(len(setting.steps))
    made = _solved if base.agreement.mechanism == "statistics" else _fitted
    for k, world in enumerate(worlds):
        models, share = made(world, base, setting, runs, np.random.default_rng([seed, k]))
        f, best = world.fitness, world.optimum.value
        for j, step in enumerate(setting.steps):
            moved = world.box.project(start + step * (models - start))
            centre = moved.mean(axis=0)
            middle = float(f.value(centre))
            costs[j] += (middle + share * (float(f.value(moved).mean()) - middle)) / best - 1.0
    return costs / len(worlds)


def _solved(
    world: Problem, base: Agreement, setting: _Setting, runs: int, rng: np.random.Generator
) -> tuple[Float[Array, "runs p"], float]:
    """What the learner solves for from noisy statistics; all owners' noise as that of one."""
    p, Ξ, τ = world.n_parameters, setting.bound, float(setting.terms["moments_share"])
    B, intercept = feature_bound_of(base, world.feature_bound), base.model.intercept
    records, start = world.owners[0], np.array(base.agreement.start)
    exact = clipped_mean_gradient(world.loss, records, start, Ξ)
    if τ > 0:
        exact = np.concatenate([exact, mean_moments(records, B, intercept)])
    unit = statistics_noise(Ξ, bound_on_moments(B, intercept), τ, p, 1, 1.0)
    each = base.weights * np.array([o.overlap / (o.records * o.epsilon) for o in base.owner])
    noise = np.tensordot(rng.laplace(size=(runs, len(each), len(unit))), each, axes=(1, 0)) * unit
    together = None if τ == 0 else np.array([float(np.sqrt(np.square(each).sum())) * unit[p]])
    descent = Descent(world.regularizer, world.box, np.array(setting.terms["preconditioner"]))
    rule = SolveStatistics(descent, np.ones(1), together, base.data.public_rows)
    state = rule.step(rule.start(np.tile(start, (runs, 1))), np.zeros(runs, dtype=np.intp), exact + noise)
    return rule.model(state), 1.0


def _fitted(
    world: Problem, base: Agreement, setting: _Setting, runs: int, rng: np.random.Generator
) -> tuple[Float[Array, "runs p"], float]:
    """Private models of one owner, and what averaging over all leaves of their spread.

    A run solves for one model, not for N: θ̄ of N is m + (spread of one)/√N, m the mean over noise, and f is taken as
    quadratic over that spread.
    """
    plain = perturbation(base, world.n_parameters, world.feature_bound, world.loss)
    P = setting.terms["preconditioner"]
    agreed = replace(
        plain, surface=plain.surface if setting.smoothing is None else SmoothedHinge(setting.smoothing),
        bound=setting.bound, metric=None if P is None else np.array(P), reach=setting.terms["reach"],
        anchor=setting.terms.get("anchor"),
    )  # fmt: skip
    w, owner = base.weights, base.owner[int(np.argmax(base.weights))]
    n, ε = owner.records, owner.epsilon / owner.overlap
    alike = {(o.records, o.epsilon / o.overlap, o.delta / o.overlap) for o in base.owner}
    of = {terms: agreed.noise_scale(*terms) for terms in alike}
    scales = np.array([of[o.records, o.epsilon / o.overlap, o.delta / o.overlap] for o in base.owner])
    typical, effective = float(np.average(scales, weights=w)), float(np.sqrt(np.sum((w * scales) ** 2)))
    solver = agreed.tied(n, ε).prepared(world.owners[0])
    near = solver.minimum(np.zeros(world.n_parameters))
    draw = rng.normal if owner.delta > 0 else rng.laplace
    models, rest = [], agreed.remainder_scale(n, ε)
    for _ in range(runs // 2):
        tilt, v = typical * draw(size=world.n_parameters), rest * rng.laplace(size=world.n_parameters)
        models += [solver.minimum(tilt, near) + v, solver.minimum(-tilt, near) - v]
    return np.array(models), (effective / typical) ** 2


def _rows(matrix: Array) -> list[list[float]]:
    return (0.5 * (matrix + matrix.T)).tolist()  # type: ignore[no-any-return]
