"""Settings for mechanisms by which each owner answers once, from public information only.

Every candidate is run with the owners' real noise on bootstrap worlds of the public rows (`PublicSample.worlds`): on
its own rows the public model would look too good a start. Candidates for bounds are quantiles of what the public rows
show; for the anchor, what spends a given share of ε on curvature.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from copriv.agreement import Agreement
from copriv.answering import noise_scale, perturbation, sensitivity_norm
from copriv.errors import AgreementError
from copriv.forecast.sample import PublicSample
from copriv.privacy.clipping import row_norms
from copriv.privacy.objective import Perturbation
from copriv.privacy.statistics import best_share, bound_on_moments
from copriv.problem import Problem
from copriv.simulation import simulate
from copriv.types import Array, is_linear

Worlds = tuple[Problem, ...]

WORLDS, RUNS = 4, 8
BOUNDS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.996, 1.0)
"""Candidates for Ξ: quantiles of the public rows' gradient norms at the start."""
STEPS = (1.0, 0.6, 0.3)
SPENT = (0.4, 0.15, 0.05, 0.01)
"""Candidates for the share of ε that the anchor spends on curvature."""


def plan_one_answer(problem: Problem, mechanism: str, *, public_start: bool = True, seed: int = 0) -> Agreement:
    """The agreement with `mechanism` ("statistics" or "objective") and every setting of it chosen on the public rows.

    Raises DataError without a public sample, AgreementError where no candidate can be kept.
    """
    sample = PublicSample.of(problem)
    agreed = problem.box.project(sample.optimum.theta) if public_start else np.zeros(problem.n_parameters)
    worlds = sample.worlds(WORLDS, seed)
    made = _statistics if mechanism == "statistics" else _objective
    best, cheapest = None, np.inf
    for agreement in made(problem, sample, worlds, agreed):
        try:
            cost = _cost(worlds, agreement, seed)
        except AgreementError:
            continue  # this anchor leaves no budget for noise
        if cost < cheapest:
            best, cheapest = agreement, cost
    if best is None:
        raise AgreementError(f'agreement.mechanism: no setting of "{mechanism}" can be kept with these budgets')
    return best


def _one_answer(problem: Problem, mechanism: str, bound: float, start: Array, **terms: object) -> Agreement:
    B = problem.feature_bound
    return problem.terms.replace(
        agreement={
            "mechanism": mechanism, "rule": "A2", "answers": 1, "horizon": problem.terms.n_owners,
            "start": start.tolist(), **terms,
        },
        model={"gradient_bound": bound},
        data={} if B is None else {"feature_bound": B},
    )  # fmt: skip


def _statistics(problem: Problem, sample: PublicSample, worlds: Worlds, agreed: Array) -> Iterator[Agreement]:
    A = sample.hessian
    P: Array = np.asarray(np.linalg.inv(A), dtype=np.float64)
    away = agreed - np.array([world.optimum.theta for world in worlds])
    M = bound_on_moments(float(problem.feature_bound or 1.0), problem.terms.model.intercept)
    for Ξ in _bounds(worlds, agreed, 1):
        for share in {0.0, round(best_share(A, away.T @ away / len(away), Ξ, M), 3)}:
            for step in STEPS:
                yield _one_answer(
                    problem, "statistics", Ξ, agreed, moments_share=share, step=step, preconditioner=_rows(P)
                )


def _objective(problem: Problem, sample: PublicSample, worlds: Worlds, agreed: Array) -> Iterator[Agreement]:
    plain = _one_answer(problem, "objective", 1.0, agreed)
    order = sensitivity_norm(plain)
    P: Array = np.asarray(np.linalg.inv(sample.hessian), dtype=np.float64)
    hardest = min(plain.owner, key=lambda o: o.records * o.epsilon / o.overlap)
    n, ε = hardest.records, hardest.epsilon / hardest.overlap
    for Ξ in _bounds(worlds, agreed, order):
        for metric in (None, P):
            x = sample.records.features
            length = row_norms(x, 2) if metric is None else np.sqrt(np.einsum("rj,jk,rk->r", x, metric, x))
            reach = float(np.quantile(length, 0.99))
            shape = {} if metric is None else {"preconditioner": _rows(metric)}
            for share in SPENT:
                trial = _one_answer(problem, "objective", Ξ, agreed, reach=reach, **shape)
                λ = _anchor(perturbation(trial, len(agreed), problem.feature_bound, problem.loss), n, share * ε)
                if λ <= 0:
                    if share == SPENT[0]:
                        yield trial.replace(agreement={"step": 1.0})  # the regulariser is enough of an anchor
                    continue
                for step in (1.0,) if metric is None else (1.0, 1.0 + λ):
                    yield trial.replace(agreement={"anchor": λ, "step": step})


def _anchor(agreed: Perturbation, records: int, spent: float) -> float:
    s = spent if agreed.many_rows else np.expm1(spent)
    floor = agreed.regularization * float(np.linalg.eigvalsh(agreed.matrix)[0])
    return float(agreed.surface.curvature * agreed.farthest**2 / (records * s)) - floor


def _bounds(worlds: Worlds, start: Array, order: Literal[1, 2]) -> list[float]:
    seen = []
    for world in worlds:
        r, loss = world.owners[0], world.loss
        assert is_linear(loss)
        seen.append(np.abs(loss.slope(r.features @ start, r.target)) * row_norms(r.features, order))
    return sorted({float(q) for q in np.quantile(np.concatenate(seen), BOUNDS) if q > 0})


def _cost(worlds: Worlds, agreement: Agreement, seed: int) -> float:
    """E f − f(θ*), over worlds and noise."""
    costs = []
    for k, world in enumerate(worlds):
        there = world.under(agreement)
        if agreement.agreement.mechanism == "objective":
            value = _cost_of_models(there, seed + k)
        else:
            found = simulate(there, runs=RUNS, seed=seed + k, alone=False, workers=1, record_at=())
            value = float(world.fitness.value(found.theta).mean())
        costs.append(value - world.optimum.value)
    return float(np.mean(costs))


def _cost_of_models(problem: Problem, seed: int) -> float:
    """As `simulate`, but RUNS models stand for those of all N owners: each would cost N times as long.

    θ̄ of N is m + (spread of one)/√N, m the mean over noise; f is taken as quadratic over that spread.
    """
    agreement = problem.agreement
    agreed = perturbation(agreement, problem.n_parameters, problem.feature_bound, problem.loss)
    rng, f, w = np.random.default_rng(seed), problem.fitness, agreement.weights
    owner = agreement.owner[int(np.argmax(w))]
    n, ε = owner.records, owner.epsilon / owner.overlap
    solver = agreed.tied(n, ε).prepared(problem.owners[0])
    scales = np.array([noise_scale(agreement, o, problem.feature_bound) for o in agreement.owner])
    effective = float(np.sqrt(np.sum((w * scales) ** 2)))  # of the average's noise
    draw = rng.normal if owner.delta > 0 else rng.laplace
    near = solver.minimum(np.zeros(problem.n_parameters))
    models = []
    for _ in range(RUNS // 2):
        tilt = float(np.average(scales, weights=w)) * draw(size=problem.n_parameters)
        models += [solver.minimum(tilt, near), solver.minimum(-tilt, near)]
    step = agreement.step
    moved = problem.start + step * (np.array(models) - problem.start)
    m = moved.mean(axis=0)
    one = float(f.value(moved).mean() - f.value(m))
    return float(f.value(m)) + one * (effective / float(np.average(scales, weights=w))) ** 2


def _rows(matrix: Array) -> list[list[float]]:
    return (0.5 * (matrix + matrix.T)).tolist()  # type: ignore[no-any-return]
