"""Terms without public rows: those of the least expected cost over tables that the declared columns allow.

Each owner answers once, from zero: with a model of its own, fitted to a tilted fitness, or with noisy moments. Which of them,
whether with δ, and how long a row may be before it counts for less is chosen by the mean cost over tables such as there are
(`copriv.mechanisms.expected`). Estimators choose among the same candidates, and among units of their columns, too.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from copriv import mechanisms
from copriv.agreement import Agreement
from copriv.agreement.data_terms import schema_of
from copriv.data.columns import Number
from copriv.errors import AgreementError
from copriv.losses import OfMargin, named
from copriv.mechanisms import Mechanism, OneAnswer
from copriv.mechanisms.expected import ROUNDED, SCALES, TIGHTER, Declared
from copriv.mechanisms.gradients import noise_of
from copriv.mechanisms.lengths import Measured, target_range
from copriv.mechanisms.mechanism import of_numbers
from copriv.mechanisms.one_answer import Setting
from copriv.mechanisms.pilot import Pilot
from copriv.plan.aggregated_runs import mean_cost
from copriv.plan.candidates import freed, leaves_open, opted_for_delta
from copriv.plan.plan_result import Choice, Plan
from copriv.populations.declared_sample import DeclaredSample
from copriv.populations.public_sample import PublicSample
from copriv.populations.world import World
from copriv.privacy.noise import Law
from copriv.rules import WITHOUT_WAITING
from copriv.terms import ModelTerms
from copriv.types import Array, LinearLoss, is_linear


@dataclass(frozen=True, eq=False)
class Candidate:
    """A mechanism and its setting."""

    gap: float
    """Expected fitness on a scale where the best model is 0 and the zero model is 1."""
    mechanism: OneAnswer
    setting: Setting
    declared: Declared
    owners: Sequence[Mapping[str, Any]]
    """Tables of the owners, with the δ that is used."""
    scale: float = 1.0
    """Factor on the unit of the columns."""


SCALES_AFTER = tuple(scale for scale in SCALES if scale <= 1.0)
"""Candidates for the unit of columns after a pilot: within the bound on rows that was signed before it."""
FAINT = 1e-5
"""Regularisation up to which columns may be asked for in another unit, in which it means another penalty."""
CAUTIONS = (0.3, 0.6, 1.0)
"""Factors on the noise scale when a pilot's answer is read: a smaller one leads to wider units and less clipping."""
LOOSE = TIGHTER[::2]
"""Candidates for bounds on rows when the terms after a pilot are predicted."""
FINALIST_WORLDS = 12
"""Worlds in which offers are run."""


def candidates(
    model: Mapping[str, Any],
    owners: Sequence[Mapping[str, Any]],
    ways: Sequence[tuple[LinearLoss, Sequence[OneAnswer]]],
    *,
    columns: int,
    feature_bound: float,
    row_norm: float,
    tighter: Sequence[float] = TIGHTER,
    scales: Sequence[float] = (1.0,),
    rows: tuple[float, ...] = (),
    size: tuple[float, float] | None = None,
    at_bounds: tuple[tuple[float, float], ...] = (),
    classes: bool = False,
    nothing: float = 0.0,
    counted: float = 1.0,
    answers: int = 1,
    uncounted: int | None = None,
) -> list[Candidate]:
    """All candidates, each with its expected cost.

    model, owners: the tables of the agreement; each owner's `times` is the number of owners like it, 1 without, and its `floor`
    the ε of its own noise in a sum, inf without. ways: losses
    that may be asked for, with their mechanisms. columns: p without the intercept. feature_bound, row_norm: the largest
    ‖x‖₁ and ‖x‖₂ of a row, scaled by each of `scales` and bounded by each of `tighter`. The rest is as in `Declared`. Pure ε
    is (ε, δ), so owners that state a δ may be asked with δ = 0. Raises AgreementError where only some state one.
    """
    approximate = {owner["delta"] > 0 for owner in owners}
    if len(approximate) > 1:
        raise AgreementError("delta: either every owner has one above 0, or none")
    found = []
    for kept, scale, tightness in product({0.0, float(approximate == {True})}, scales, tighter):
        asking = [{**owner, "delta": owner["delta"] * kept} for owner in owners]
        kinds = tuple(
            (owner["records"], owner["epsilon"], owner["delta"])
            for owner in asking
            for _ in range(owner.get("times", 1))
        )
        floors = tuple(owner.get("floor", np.inf) for owner in asking for _ in range(owner.get("times", 1)))
        for loss, suited in ways:
            declared = Declared(
                loss=loss, smoothing=ModelTerms.model_fields["smoothing"].default, regularization=model["regularization"],
                columns=columns, intercept=model["intercept"], feature_bound=float(feature_bound * scale * tightness),
                row_norm=float(min(feature_bound, row_norm) * scale * tightness), tightness=tightness, owners=kinds,
                measured=rows, size=size, at_bounds=at_bounds, classes=classes, nothing=nothing,
                counted=counted, answers=answers, uncounted=uncounted, floors=floors,
            )  # fmt: skip
            for mechanism in suited:
                found += [
                    Candidate(gap, mechanism, s, declared, asking, scale) for gap, s in mechanism.expected(declared)
                ]
    return found


def in_one_answer(owners: int, step: float = 1.0, attempts: int = 0) -> dict[str, Any]:
    """Keys of [agreement] with which each owner answers once, none waiting for another; `attempts` at a sum may follow."""
    answers = 1 + attempts
    return {"rule": WITHOUT_WAITING.name, "horizon": max(owners, answers), "answers": answers, "step": step}


def mechanisms_of_one_answer() -> list[OneAnswer]:
    """Return all mechanisms with which each owner answers once."""
    return [each for each in mechanisms.ALL if isinstance(each, OneAnswer)]


def offers(
    agreement: Agreement,
    tighter: Sequence[float] = TIGHTER,
    piloted: bool = False,
    known: Measured | None = None,
    only: Mechanism | None = None,
) -> list[tuple[float, Agreement]]:
    """Terms of each mechanism and bound on rows, with their expected fitness where the best model is 0 and the start is 1.

    agreement: with declared columns alone. The start is 0 but for an intercept, which begins in the middle of the target's
    range; Ξ is in the unit of half that range. piloted: of a run after a pilot, whose mechanism is fixed before it: of models
    only, as lengths make no constant better. known: what the pilot said; range and columns are then in the units that it
    found. only: the mechanism, where it is fixed.
    Raises AgreementError where no mechanism suits the loss, or none can be kept with these budgets.
    """
    terms = agreement.model
    B, schema = agreement.data.feature_bound, schema_of(agreement, None)
    assert isinstance(B, float)
    assert schema is not None
    target, columns, unit = schema.target, len(schema.feature_names), 1.0
    start, measured = np.zeros(columns + terms.intercept), known or Measured()
    if isinstance(target, Number):
        middle, half = target_range(agreement)
        unit = half * measured.width
        if terms.intercept:
            start[-1] = middle + half * measured.centre
    loss = named(terms.loss, terms.threshold / unit)
    suited = [one for one in mechanisms_of_one_answer() if one.suits(loss)]
    if only is not None:
        suited = [one for one in suited if one is only]
    if agreement.summed:
        suited = [one for one in suited if not one.why_not_summed]
    none = (
        f"data.public_rows: without public rows nothing can be planned for the {loss.name} loss{' in sums' * agreement.summed} "
        "with these budgets; raise epsilon, bring more records, choose another loss, or give every term a number"
    )
    if not suited or not is_linear(loss):
        raise AgreementError(none)
    owners = [
        {
            "records": table.records,
            "epsilon": ε,
            "delta": δ * opted_for_delta(agreement),
            "times": table.number,
            "floor": (table.floor or np.inf) / table.overlap,
        }
        for table in agreement.owner_tables
        for ε, δ in [table.budget]
    ]
    found = candidates(
        terms.model_dump(), owners, [(loss, suited)], columns=columns, feature_bound=B,
        row_norm=float(len(schema.columns)) ** 0.5, tighter=tighter, classes=isinstance(loss, OfMargin),
        # The lengths of numbers alone say little of rows that also have levels.
        rows=measured.rows if of_numbers(agreement, columns).all() else (), size=measured.size, at_bounds=measured.at_bounds,
        # A larger unit would weaken what is asked for, where that is more than by default.
        scales=SCALES_AFTER if piloted and terms.intercept and terms.regularization <= FAINT else (1.0,),
        answers=1 + agreement.attempts, uncounted=agreement.uncounted_in_sums,
    )  # fmt: skip
    best: dict[Any, Candidate] = {}
    for one in sorted(found, key=lambda one: one.gap):
        best.setdefault((one.mechanism, one.declared.order, one.declared.tightness), one)
    made = []
    for one in best.values():
        settled = _terms(agreement, one, start, {"gradient_bound": one.setting.bound * unit})
        if piloted:
            scale = one.scale * (2.0**measured.columns if terms.regularization <= FAINT else 1.0)
            settled = settled.replace(agreement={"column_scale": scale}, data={"feature_bound": B})
        made.append((one.gap, settled))
    if not piloted and terms.intercept and np.isfinite(loss.curvature) and found:
        made.append(_constant(agreement, found[0].declared, start, unit))
    if not made:
        raise AgreementError(none)
    return made


def after_pilots(sample: DeclaredSample, worlds: Sequence[World], mechanism: Mechanism, seed: int) -> list[Agreement]:
    """The terms of the run that a pilot leads to in each world: of the least expected gap, by what it says there."""
    free = freed(sample.problem.terms).replace(data={"feature_bound": sample.problem.terms.data.feature_bound})
    found = []
    for i, world in enumerate(worlds):
        known = sample.answered(world, np.random.default_rng([seed, 28, i]))
        found.append(min(offers(free, LOOSE, True, known, mechanism), key=lambda one: one[0])[1])
    return found


def _terms(agreement: Agreement, one: Candidate, start: Array, model: Mapping[str, Any]) -> Agreement:
    made = agreement.replace(
        agreement={
            **in_one_answer(agreement.n_owners, one.setting.steps[0], agreement.attempts),
            "mechanism": one.mechanism.name, "start": start.tolist(), **one.setting.terms,
        },
        model=model,
        data={"feature_bound": one.declared.feature_bound * ROUNDED},
    )  # fmt: skip
    if one.owners[0]["delta"] > 0:
        return made
    return made.replace(owner={"delta": 0.0})


def _constant(agreement: Agreement, declared: Declared, start: Array, unit: float) -> tuple[float, Agreement]:
    """The target's mean, or of classes a Newton step to it: a pilot whose metric P is 0 but for the intercept.

    The gradient of a record in that metric is its slope at the start, over √c of the loss's curvature c, which Ξ never clips.
    """
    loss, c = declared.loss, declared.loss.curvature + declared.regularization
    slope = loss.slope_bound(1.0, 0.0)
    if declared.classes:
        slope = float(abs(loss.slope(np.zeros(1), np.ones(1))[0]))
    variance = declared.averaged(lambda n, ε, _: 2.0 * slope * declared.answers / (c * n * ε))
    gap, step = declared.constant(Law.LAPLACE.variance * variance)
    P = np.zeros((len(start), len(start)))
    P[-1, -1] = 1.0 / c
    bound = slope * unit / np.sqrt(c) * ROUNDED
    setting = Setting(
        bound, (1.0 if declared.classes else step,), {"preconditioner": P.tolist(), "pilot_parts": {"gradient": 1.0}}
    )
    whole = replace(declared, feature_bound=declared.feature_bound / declared.tightness)
    one = Candidate(gap, Pilot(), setting, whole, [{"delta": 0.0}])
    return gap, _terms(agreement, one, start, {"gradient_bound": bound})


TIMES = 4.0 ** np.arange(-3, 5)
"""Budgets, over the agreed ones, at which the noise curve of owners is computed."""


def plan_declared(sample: PublicSample, runs: int = 40, seed: int = 0) -> Plan:
    """The plan without public rows. Raises AgreementError for terms that fix more than it may choose, and as `offers`.

    All offers are run in a few worlds; chosen is what leaves the least, in the mean, of what a constant leaves. The noise
    curve is by expected costs, at several budgets.
    """
    begun, problem = time.perf_counter(), sample.problem
    terms, chosen = problem.terms, problem.terms.agreement
    assert isinstance(sample, DeclaredSample)
    piloted, known = sample.share > 0, sample.measured
    mechanism, B = terms.mechanism, terms.data.feature_bound
    settled = piloted and isinstance(mechanism, OneAnswer)  # before a pilot, and not to be planned again
    fixes_more = (
        chosen.rule != "auto" or mechanism is not mechanisms.ALL[0] or chosen.answers not in (None, 1 + terms.attempts)
    )
    if leaves_open(terms) and not settled and (fixes_more or chosen.graph):
        raise AgreementError(
            'agreement.rule: without public rows the plan is one answer of each owner, so that rule = "auto" leaves mechanism, '
            "answers and graph to it; leave them out, or give every term a number"
        )
    assert isinstance(B, float)
    free, only = freed(terms).replace(data={"feature_bound": B}), mechanism if settled else None
    worlds = sample.drawn(FINALIST_WORLDS, seed)
    nothing = np.array([sample.for_nothing(world) for world in worlds])
    ranked, made = [], list[Agreement]()
    for one in [None] if known is None else [known.by_less(times, terms.model.intercept) for times in CAUTIONS]:
        made += [agreement for _, agreement in offers(free, TIGHTER, piloted, one, only)]
    if known is not None:  # the run that stays at the mean of targets that the pilot told, or at its start
        start = list(made[0].agreement.start or ())
        if terms.model.intercept and isinstance(sample.tables.schema.target, Number):
            start[-1] = sample.tables.mean
        made.append(made[0].replace(agreement={"start": start, "step": 1e-3}))
    tried = {agreement.fingerprint: agreement for agreement in made}
    if sample.awaits_pilot:  # of each mechanism, which alone is fixed before it, the terms of the least expected cost
        tried = {agreement.agreement.mechanism: agreement for agreement in reversed(made)}
    for agreement in tried.values():
        each = [agreement] * len(worlds)
        if sample.awaits_pilot:
            each = after_pilots(sample, worlds, agreement.mechanism, seed)
        pairs = zip(worlds, each, strict=True)
        ψ = np.array([mean_cost([world], then, -(-runs // FINALIST_WORLDS), seed) for world, then in pairs])
        mean = float(ψ.mean())
        choice = Choice(agreement, "agreed", 0.0, mean, (1.0 + mean) * sample.optimum.value)
        ranked.append((float(np.mean(ψ / np.maximum(nothing, 1e-12))), choice))
    ranked.sort(key=lambda one: one[0])
    ν, costs = noise_of(terms), []
    for times in TIMES.tolist():
        owners = [
            {**table, **{key: min(times * table[key], 1e6) for key in ("epsilon", "floor") if key in table}}
            for table in free.to_dict()["owner"]
        ]
        at = offers(free.replace(owner=owners), TIGHTER[:1], piloted, known, only)
        costs.append(float(np.median(nothing)) * min(1.0, *(gap for gap, _ in at)))
    noise, cost = np.array([ν / times**2 for times in TIMES]), np.array(costs)
    slope = np.append(np.diff(cost) / np.diff(noise), 0.0)
    fixed = np.append(cost[:-1] - slope[:-1] * noise[:-1], np.median(nothing))
    return Plan(ranked[0][1], tuple(choice for _, choice in ranked), {}, (fixed, slope), time.perf_counter() - begun)
