"""Objective perturbation: an owner fits its own model once, to a fitness tilted by noise, and releases the model.

How its noise is made, and why it is private, stands in `objective_noise`; how its model is found, in `objective_solver`.
"""

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import product
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from copriv.losses import Hinge, by_name
from copriv.mechanisms.expected import FIRMNESSES, ROUNDED, Declared
from copriv.mechanisms.mechanism import (
    Guarantee,
    column_factors,
    measured_over,
    noise_in_words,
    scaled_told,
    start_of,
    step_of,
)
from copriv.mechanisms.objective_noise import REMAINDER, ObjectiveAnswer, Perturbation
from copriv.mechanisms.objective_solver import SMOOTH, surface_of
from copriv.mechanisms.one_answer import STEPS, Choosing, Common, Draft, Draw, OneAnswer, Setting, feature_bound_of
from copriv.model.records import Records
from copriv.privacy.clipping import row_norms
from copriv.privacy.noise import Law, Noise
from copriv.rules.one_answer import AverageModels
from copriv.rules.rule import Descent, UpdateRule
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss

SMOOTHINGS = (0.1, 0.3)
"""Candidates for the width that the hinge's kink is rounded over: narrow fits the hinge, wide costs less curvature."""
SPENT = (0.4, 0.15, 0.05, 0.01)
"""Candidates for the share of ε that the anchor spends on curvature."""


def perturbation(
    agreed: AgreedTerms, n_parameters: int | None = None, feature_bound: float | None = None, loss: Loss | None = None
) -> Perturbation:
    """The public parts of an owner's tilted fitness."""
    terms, model = agreed.agreement, agreed.model
    given = terms.start or terms.preconditioner
    p = n_parameters or (len(given) if given is not None else 1 + int(model.intercept))
    factors = column_factors(agreed, p)
    return Perturbation(
        surface=surface_of(loss or by_name(model.loss, model.threshold), model.smoothing),
        bound=agreed.gradient_bound,
        order=_law(agreed.owner_tables[0].delta).order,
        feature_bound=feature_bound_of(agreed, feature_bound),
        intercept=model.intercept,
        start=start_of(agreed, p) / factors,
        regularization=model.regularization,
        anchor=terms.anchor,
        metric=agreed.preconditioner,
        reach=terms.reach,
        factors=factors,
        many_rows=agreed.owner_tables[0].unit is not None,
    )


def _law(delta: float) -> Law:
    """The law of the tilt: with δ, which all owners have or none, normal noise."""
    if delta > 0:
        return Law.NORMAL
    return Law.LAPLACE


class Objective(OneAnswer):
    """Pure ε, or (ε, δ) where owners state a δ; one answer, which is a model."""

    name = "objective"
    guarantee = Guarantee.EITHER
    terms = ("anchor", "reach", "column_scale")
    label = "own models"
    phrase = "privately fitted models"
    planned = True
    divisible = False

    def suits(self, loss: Loss) -> bool:
        return isinstance(loss, SMOOTH | Hinge)

    def law(self, agreed: AgreedTerms) -> Law:
        return _law(agreed.owner_tables[0].delta)

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        """Scale of the noise on each coordinate of the tilt."""
        return perturbation(agreed, None, feature_bound).noise_scale(owner.records, *owner.budget)

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return n_parameters

    def in_earnest(self, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int, loss: Loss) -> ObjectiveAnswer:
        (ε, _), made = self.cost(agreed, owner), perturbation(agreed, n_parameters, None, loss)
        return ObjectiveAnswer(made, ε, owner.budget[1], owner.records)

    def draft(self, agreed: AgreedTerms, owner: OwnerTerms, records: Records, common: Common) -> Draft:
        made = perturbation(agreed, common.n_parameters, common.feature_bound, common.loss)
        n, (ε, _), p = owner.records, owner.budget, common.n_parameters
        solver = made.tied(n, ε).prepared(records)
        centre = solver.minimum(np.zeros(p))
        tilt = Noise(self.law(agreed), np.full(p, self.scale(agreed, owner, common.feature_bound)))
        rest = Noise(Law.LAPLACE, np.full(p, made.remainder_scale(n, ε)))
        return Draft((tilt, rest), lambda b, v: made.factors * (solver.minima(b, centre) + v))

    def rule(
        self, agreed: AgreedTerms, descent: Descent, weights: Float[Array, " owners"], n_parameters: int,
        feature_bound: float | None = None,
    ) -> UpdateRule:  # fmt: skip
        return AverageModels(descent, weights, step_of(agreed))

    def settings(self, choosing: Choosing) -> Iterator[Setting]:
        base, common = choosing.base, choosing.common
        plain = perturbation(base, common.n_parameters, common.feature_bound, common.loss)
        metrics = (None, choosing.inverse) if common.preconditioner is None else (choosing.inverse,)
        hardest = min(base.owner_tables, key=lambda o: o.records * o.epsilon / o.overlap)
        n, (ε, _) = hardest.records, hardest.budget
        smoothings = SMOOTHINGS if isinstance(common.loss, Hinge) and choosing.smoothing_free else (None,)
        x = choosing.records.features
        for Ξ, smoothing in product(choosing.bounds(self.order(base)), smoothings):
            for metric in metrics:
                length, P = row_norms(x, 2), None
                if metric is not None:
                    length, P = np.sqrt(((x @ metric) * x).sum(axis=1)), metric.tolist()
                reaches = {float(np.quantile(length, 0.99)), 1.2 * float(length.max())} - {0.0}
                for reach, share in product(sorted(reaches), SPENT):
                    shape = {"reach": reach, "preconditioner": P}
                    tried = plain.smoothed(smoothing, bound=Ξ, metric=metric, reach=reach)
                    λ = tried.anchor_that_spends(n, share * ε)
                    if λ > 0:
                        steps = STEPS if metric is None else (1.0 + λ, *STEPS)
                        yield Setting(Ξ, choosing.steps(steps), {**shape, "anchor": λ}, smoothing)
                    elif share == SPENT[0]:  # the regulariser is enough of an anchor
                        yield Setting(Ξ, choosing.steps(STEPS), shape, smoothing)

    def expected(self, declared: Declared) -> Iterator[tuple[float, Setting]]:
        """Anchor and bound on slopes of the least expected gap, among those under which an owner certainly has an answer."""
        surface, law = surface_of(declared.loss, declared.smoothing), _law(declared.owners[0][2])
        plain = Perturbation(
            surface=surface, bound=declared.gradient_bound, order=declared.order, intercept=declared.intercept,
            feature_bound=declared.feature_bound * ROUNDED, start=np.zeros(declared.n_parameters),
            regularization=declared.regularization, reach=declared.longest,
        )  # fmt: skip
        # Where nothing else is certain, as of owners with two rows each, the firmest: a constant.
        tables, best = declared.tables(surface.curvature), (1.0, float(FIRMNESSES[-1]), 1.0)
        owners, (bounds, curved, missed, squares) = set(declared.owners), np.array(declared.slopes()).T
        # Of every slope and table.
        missing = missed[:, None] + squares[:, None] * declared.whole * declared.counted / tables.gain
        for λ in FIRMNESSES[::-1].tolist():
            tried = replace(plain, anchor=λ)
            if any(tried.curvature_cost(n, ε) >= (1 - REMAINDER) * ε for n, ε, _ in owners):
                break  # what is less firm costs more
            variance = law.variance * declared.averaged(tried.noise_scale)
            # Where slopes are bounded rows are less curved: it is as if the model were tied more firmly, and with more noise.
            off, noise = tables.tied((λ + declared.regularization) / curved)
            noise = np.square(bounds / curved)[:, None] * variance * noise
            # Of many columns far from 0 the noise v, which hides rounding, may be the larger one; it moves a prediction by ‖x‖.
            rest = {owner: tried.remainder_scale(*owner[:2]) for owner in owners}
            hiding = Law.LAPLACE.variance * declared.averaged(lambda *owner, of=rest: of[owner])
            hidden = hiding * surface.curvature * declared.longest**2 / (2.0 * tables.gain)
            if np.average(noise, axis=1, weights=tables.weight).min() > best[0]:
                break  # what is less firm has more noise
            gaps = tables.expected(off + hidden + noise + missing)
            gap, slope = float(gaps.min()), float(bounds[np.argmin(gaps)])
            if gap < best[0]:
                bounded = replace(tried, bound=slope * tried.bound)
                if all(bounded.certain(*owner, declared.whole) for owner in owners):
                    best = gap, λ, slope
        gap, λ, slope = best
        yield gap, Setting(slope * declared.gradient_bound, (1.0,), {"anchor": λ, "reach": declared.longest})

    def tried(
        self, common: Common, records: Records, base: AgreedTerms, setting: Setting, runs: int, draw: Draw
    ) -> tuple[Float[Array, "runs p"], float]:
        """Private models of one owner, and what averaging over all leaves of their spread.

        A run solves for one model, not for N: θ̄ of N is m + (spread of one)/√N, m the mean over noise, and f is taken as
        quadratic over that spread.
        """
        p, loss = common.n_parameters, cast(Hashable, common.loss)  # of those that it suits, which are frozen
        agreed, typical, effective = _tried_by_all(base, setting, p, common.feature_bound, loss)
        start = agreed.start
        owner = base.owner_tables[
            int(np.repeat(np.arange(len(base.owner_tables)), base.counts)[np.argmax(base.weights)])
        ]
        n, (ε, _) = owner.records, owner.budget
        if agreed.of_rows not in records.kept:
            records.kept[agreed.of_rows] = agreed.sized(records)
        solver = agreed.tied(n, ε).prepared(records, records.kept[agreed.of_rows])
        near = solver.minimum(np.zeros(p), start, setting.patient, solver.factored(start))
        drawn = [(draw(self.law(base), p), draw(Law.LAPLACE, p)) for _ in range(runs // 2)]
        tilts, rest = (np.concatenate([np.array(one), -np.array(one)]) for one in zip(*drawn, strict=True))
        models = solver.minima(typical * tilts, near, setting.patient) + agreed.remainder_scale(n, ε) * rest
        return models, (effective / typical) ** 2

    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        units, clipped = measured_over(agreed, owner, self.order(agreed))
        what = (
            f"one model, fitted to the {agreed.model.loss} loss over {units}, gradients {clipped}{scaled_told(agreed)}"
        )
        return what, f"its fitness tilted by {noise_in_words(self.law(agreed), self.scale(agreed, owner))}"


@lru_cache(maxsize=64)
def _tried_by_all(
    base: AgreedTerms, setting: Setting, n_parameters: int, feature_bound: float | None, loss: Any
) -> tuple[Perturbation, float, float]:
    """A setting's perturbation, the mean scale of all owners' noise, and that of their average: once for all worlds.

    Both the terms and the setting are frozen, so nothing has to be forgotten.
    """
    terms = setting.terms
    agreed = perturbation(base, n_parameters, feature_bound, loss).smoothed(
        setting.smoothing, bound=setting.bound, metric=setting.preconditioner, reach=terms["reach"],
        anchor=terms.get("anchor"),
    )  # fmt: skip
    w, noise_scale = base.weights, cache(agreed.noise_scale)
    scales = base.by_owner([noise_scale(one.records, *one.budget) for one in base.owner_tables])
    return agreed, float(np.average(scales, weights=w)), float(np.sqrt(np.sum((w * scales) ** 2)))
