"""Objective perturbation: an owner fits its own model once, to a fitness tilted by noise, and releases the model.

How its noise is made, and why it is private, stands in `objective_noise`; how its model is found, in `objective_solver`.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from jaxtyping import Float

from copriv.losses import Hinge, SmoothedHinge, by_name
from copriv.mechanisms.mechanism import Guarantee, measured_over, noise_in_words
from copriv.mechanisms.objective_noise import LARGEST_SPEND, ObjectiveAnswer, Perturbation
from copriv.mechanisms.objective_solver import SMOOTH, surface_of
from copriv.mechanisms.one_answer import (
    Choosing,
    Common,
    Draft,
    Draw,
    OneAnswer,
    Setting,
    feature_bound_of,
    public_inverse,
    rows,
)
from copriv.model.records import Records
from copriv.privacy.clipping import row_norms
from copriv.privacy.noise import Law, Noise, Order
from copriv.rules.average_models import AverageModels
from copriv.rules.descent import Descent, UpdateRule
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss

STEPS = (1.0, 0.6, 0.3)
"""Candidate step sizes from the start to the average; short ones keep more of a public start and less noise."""
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
    return Perturbation(
        surface=surface_of(loss or by_name(model.loss, model.threshold), model.smoothing),
        bound=agreed.gradient_bound,
        order=1 if agreed.owner_tables[0].delta == 0 else 2,
        feature_bound=feature_bound_of(agreed, feature_bound),
        intercept=model.intercept,
        start=np.zeros(p) if terms.start is None else np.array(terms.start),
        regularization=model.regularization,
        anchor=terms.anchor,
        metric=None if terms.preconditioner is None else np.array(terms.preconditioner),
        reach=terms.reach,
        many_rows=agreed.owner_tables[0].unit is not None,
    )


class Objective(OneAnswer):
    """Pure ε, or (ε, δ) where owners state a δ; one answer, which is a model."""

    name = "objective"
    guarantee = Guarantee.EITHER
    terms = ("anchor", "reach")
    label = "own models"
    phrase = "privately fitted models"
    planned = True
    divisible = False

    def suits(self, loss: Loss) -> bool:
        return isinstance(loss, SMOOTH | Hinge)

    def law(self, agreed: AgreedTerms) -> Law:
        return Law.NORMAL if agreed.owner_tables[0].delta > 0 else Law.LAPLACE

    def order(self, agreed: AgreedTerms) -> Order:
        return 2 if agreed.owner_tables[0].delta > 0 else 1

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        """Scale of the noise on each coordinate of the tilt."""
        κ = owner.overlap
        return perturbation(agreed, None, feature_bound).noise_scale(owner.records, owner.epsilon / κ, owner.delta / κ)

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return n_parameters

    def in_earnest(self, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int, loss: Loss) -> ObjectiveAnswer:
        ε = self.cost(agreed, owner)[0]
        return ObjectiveAnswer(
            perturbation(agreed, n_parameters, None, loss), ε, owner.delta / owner.overlap, owner.records
        )

    def draft(self, agreed: AgreedTerms, owner: OwnerTerms, records: Records, common: Common) -> Draft:
        made = perturbation(agreed, common.n_parameters, common.feature_bound, common.loss)
        n, ε, p = owner.records, owner.epsilon / owner.overlap, common.n_parameters
        solver = made.tied(n, ε).prepared(records)
        centre = solver.minimum(np.zeros(p))
        tilt = Noise(self.law(agreed), np.full(p, self.scale(agreed, owner, common.feature_bound)))
        rest = Noise(Law.LAPLACE, np.full(p, made.remainder_scale(n, ε)))
        return Draft((tilt, rest), lambda b, v: solver.minimum(b, centre) + v)

    def rule(
        self, agreed: AgreedTerms, descent: Descent, weights: Float[Array, " owners"], n_parameters: int,
        feature_bound: float | None = None,
    ) -> UpdateRule:  # fmt: skip
        step = agreed.agreement.step
        return AverageModels(descent, weights, step if isinstance(step, float) else 1.0)

    def settings(self, choosing: Choosing) -> Iterator[Setting]:
        base, common = choosing.base, choosing.common
        plain = perturbation(base, common.n_parameters, common.feature_bound, common.loss)
        given = common.preconditioner
        metrics = (None, public_inverse(choosing)) if given is None else (given,)
        hardest = min(base.owner_tables, key=lambda o: o.records * o.epsilon / o.overlap)
        n, ε = hardest.records, hardest.epsilon / hardest.overlap
        free = isinstance(common.loss, Hinge) and choosing.smoothing_free
        x = choosing.records.features
        for Ξ, smoothing in product(choosing.bounds(self.order(base)), SMOOTHINGS if free else (None,)):
            rounded = plain if smoothing is None else replace(plain, surface=SmoothedHinge(smoothing))
            for metric in metrics:
                length = row_norms(x, 2) if metric is None else np.sqrt(((x @ metric) * x).sum(axis=1))
                reaches = {float(np.quantile(length, 0.99)), 1.2 * float(length.max())} - {0.0}
                for reach, share in product(sorted(reaches), SPENT):
                    shape = {"reach": reach, "preconditioner": None if metric is None else rows(metric)}
                    λ = _anchor(replace(rounded, bound=Ξ, metric=metric, reach=reach), n, share * ε)
                    if λ <= 0:
                        if share == SPENT[0]:
                            # The regulariser is enough of an anchor.
                            yield Setting(Ξ, choosing.steps(STEPS), shape, smoothing)
                        continue
                    steps = STEPS if metric is None else (1.0 + λ, *STEPS)
                    yield Setting(Ξ, choosing.steps(steps), {**shape, "anchor": λ}, smoothing)

    def tried(
        self, common: Common, records: Records, base: AgreedTerms, setting: Setting, runs: int, draw: Draw
    ) -> tuple[Float[Array, "runs p"], float]:
        """Private models of one owner, and what averaging over all leaves of their spread.

        A run solves for one model, not for N: θ̄ of N is m + (spread of one)/√N, m the mean over noise, and f is taken as
        quadratic over that spread.
        """
        plain, p = perturbation(base, common.n_parameters, common.feature_bound, common.loss), common.n_parameters
        P = setting.terms["preconditioner"]
        agreed = replace(
            plain, surface=plain.surface if setting.smoothing is None else SmoothedHinge(setting.smoothing),
            bound=setting.bound, metric=None if P is None else np.array(P), reach=setting.terms["reach"],
            anchor=setting.terms.get("anchor"),
        )  # fmt: skip
        w = base.weights
        owner = base.owner_tables[int(np.repeat(np.arange(len(base.owner_tables)), base.counts)[np.argmax(w)])]
        n, ε = owner.records, owner.epsilon / owner.overlap
        terms = [(o.records, o.epsilon / o.overlap, o.delta / o.overlap) for o in base.owner_tables]
        of = {alike: agreed.noise_scale(*alike) for alike in set(terms)}
        scales = base.by_owner([of[one] for one in terms])
        typical, effective = float(np.average(scales, weights=w)), float(np.sqrt(np.sum((w * scales) ** 2)))
        solver = agreed.tied(n, ε).prepared(records)
        near = solver.minimum(np.zeros(p), patient=setting.patient)
        law = Law.NORMAL if owner.delta > 0 else Law.LAPLACE
        models, rest = [], agreed.remainder_scale(n, ε)
        for _ in range(runs // 2):
            tilt, v = typical * draw(law, p), rest * draw(Law.LAPLACE, p)
            models += [sign * v + solver.minimum(sign * tilt, near, setting.patient) for sign in (1.0, -1.0)]
        return np.array(models), (effective / typical) ** 2

    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        units, clipped = measured_over(agreed, owner, self.order(agreed))
        what = f"one model, fitted to the {agreed.model.loss} loss over {units}, gradients {clipped}"
        return what, f"its fitness tilted by {noise_in_words(self.law(agreed), self.scale(agreed, owner))}"


def _anchor(agreed: Perturbation, records: int, spent: float) -> float:
    s = spent if agreed.many_rows else np.expm1(min(spent, LARGEST_SPEND))
    floor = agreed.regularization * float(np.linalg.eigvalsh(agreed.matrix)[0])
    return float(agreed.surface.curvature * agreed.farthest**2 / (records * s)) - floor
