"""Choose the settings of a mechanism of one answer, from public information only.

Every candidate is run with the owners' noise on bootstrap worlds of the public rows (`PublicSample.worlds`), because the
public model overfits its own rows. All candidates are run in one world, the best few in all worlds. Candidates for bounds are
quantiles of the public rows; those for the anchor spend given shares of ε on curvature. Terms that the agreement fixes are
kept: a start, a preconditioner, a step, Ξ, and, with its mechanism, the hinge's smoothing.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import AgreementError, NotCertified
from copriv.mechanisms import OneAnswer
from copriv.mechanisms.one_answer import Choosing, Setting, feature_bound_of
from copriv.populations.public_sample import PublicSample
from copriv.privacy.clipping import row_norms
from copriv.privacy.noise import Order
from copriv.privacy.simulated_noise import draws
from copriv.problem import Problem
from copriv.rules import WITHOUT_WAITING
from copriv.types import Array, is_linear

SETTING_WORLDS, SETTING_RUNS = 5, 8
"""Worlds and runs for the best few candidates; all candidates are first tried in one world, with half as many runs."""


def plan_one_answer(
    problem: Problem, mechanism: str, *, public_start: bool = True, seed: int = 0, sample: PublicSample | None = None
) -> Agreement:
    """The agreement with a mechanism of one answer, whose settings are chosen on the public rows.

    sample: the public sample of `problem`, if it exists already, so that its worlds are drawn only once.
    Raises DataError without a public sample, AgreementError where no candidate is within the budgets.
    """
    sample = sample or PublicSample.of(problem)
    start = problem.start
    if public_start and problem.terms.agreement.start is None:
        start = problem.feasible_set.project(sample.optimum.theta)
    B = problem.feature_bound
    base = problem.terms.replace(
        agreement={
            "mechanism": mechanism, "rule": WITHOUT_WAITING.name, "answers": 1 + problem.terms.attempts,
            "horizon": max(problem.terms.n_owners, 1 + problem.terms.attempts), "start": start.tolist(),
        },
        model={"gradient_bound": 1.0},
        data={} if B is None else {"feature_bound": B},
    )  # fmt: skip
    worlds = sample.worlds(SETTING_WORLDS, seed)
    chosen, step = base.mechanism, problem.terms.agreement.step
    if not isinstance(chosen, OneAnswer):
        raise AgreementError(f'agreement.mechanism: "{mechanism}" is not one by which owners answer once')
    if chosen.bound_quantile is not None and problem.terms.data.feature_bound == "auto":
        lengths = np.abs(problem.unbounded[0].features).sum(axis=1)
        B = float(np.quantile(lengths, chosen.bound_quantile)) or B
        base = base.replace(data={"feature_bound": B})
    choosing = Choosing(
        base, replace(problem.common, feature_bound=B), sample.records, sample.hessian,
        start - np.array([world.optimum.theta for world in worlds]),
        lambda order: _bounds(problem, worlds, start, order), None if step == "auto" else step,
        problem.terms.mechanism is not chosen,
    )  # fmt: skip
    # The relative error of a cost from one antithetic pair of runs is about √(2/p): for many parameters fewer are enough.
    runs = SETTING_RUNS // (1 + (problem.n_parameters >= 64))
    tried: list[tuple[float, Setting]] = []
    for candidate in chosen.settings(choosing):
        setting = replace(candidate, patient=False)
        with suppress(AgreementError, NotCertified):  # an anchor without budget for noise, or too flat a fitness
            tried.append((float(_costs(worlds[:1], base, setting, runs // 2, seed).min()), setting))
    best, cheapest = None, np.inf
    for _, setting in sorted(tried, key=lambda one: one[0])[:8]:
        with suppress(NotCertified):
            cost = _costs(worlds, base, setting, runs, seed)
            if cost.min() < cheapest:
                cheapest, best = float(cost.min()), (setting, setting.steps[int(np.argmin(cost))])
    if best is None:
        raise AgreementError(f'agreement.mechanism: no setting of "{mechanism}" can be kept with these budgets')
    setting, step = best
    given = {key: value for key, value in setting.terms.items() if value is not None}
    model = {"gradient_bound": setting.bound}
    if setting.smoothing is not None:
        model["smoothing"] = setting.smoothing
    return base.replace(agreement={**given, "step": step}, model=model)


def _bounds(problem: Problem, worlds: Sequence[Problem], start: Array, order: Order) -> list[float]:
    given = problem.agreement.model.gradient_bound
    if isinstance(given, float):
        return [given]
    seen = []
    for world in worlds:
        r, loss = world.owners[0], world.loss
        assert is_linear(loss)
        seen.append(np.abs(loss.slope(r.features @ start, r.target)) * row_norms(r.features, order))
    norms = np.concatenate(seen)
    quantiles = np.quantile(norms, [0.5, 0.9, 0.98, 0.996, 1.0])
    # At a zero start all gradients of a classifier have similar lengths, unlike at the optimum.
    parts = norms.max() * np.array([1.5, 0.6, 0.4, 0.25, 0.15, 0.1, 0.06])
    candidates = np.sort(np.concatenate([quantiles, parts]))[::-1]
    kept: list[float] = []
    for Ξ in candidates[candidates > 0]:
        if not kept or kept[-1] > 1.15 * Ξ:
            kept.append(float(Ξ))
    return kept


def _costs(
    worlds: Sequence[Problem], base: Agreement, setting: Setting, runs: int, seed: int
) -> Float[Array, " steps"]:
    """E ψ at each of the setting's steps, over worlds and noise."""
    start, costs = np.array(base.agreement.start), np.zeros(len(setting.steps))
    steps = np.array(setting.steps)[:, None, None]
    mechanism = base.mechanism
    assert isinstance(mechanism, OneAnswer)
    for k, world in enumerate(worlds):
        common = replace(world.common, feature_bound=feature_bound_of(base))
        draw = partial(draws, np.random.default_rng([seed, k]))
        models, share = mechanism.tried(common, world.owners[0], base, setting, runs, draw)
        f, best = world.fitness, world.optimum.value
        moved = world.feasible_set.project(start + steps * (models - start))
        middle = f.value(moved.mean(axis=1))
        costs += (middle + share * (f.value(moved).mean(axis=1) - middle)) / best - 1.0
    return costs / len(worlds)
