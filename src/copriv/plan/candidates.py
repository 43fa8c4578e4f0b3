"""Candidates for the terms that an agreement leaves open: mechanisms of noise, rules, numbers of answers, starts, bounds Ξ.

Each gradient bound Ξ comes with the bias that clipping at it adds to the optimum of the public rows (`bounded`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv import mechanisms, rules
from copriv.agreement import Agreement
from copriv.data.extreme_values import Tail
from copriv.errors import AgreementError
from copriv.mechanisms import GradientNoise, Guarantee
from copriv.populations.public_sample import PublicSample
from copriv.privacy.clipping import row_norms
from copriv.problem import Problem
from copriv.rules import Way
from copriv.simulation.gradients import Pass
from copriv.types import Array, is_linear

ANSWERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48)
PRECONDITIONERS: tuple[float, ...] = (0.0, 0.5, 1.0)
"""Candidates for γ in P = (A/a_max)^−γ: none, half, Newton's."""
GRADIENT_BOUNDS = 16
"""Number of candidates: from a fifth of the median public gradient to 1.5 times the largest, or a tail's 1e-4 quantile.

With 8, the plans of `benchmarks.plan_regret` (18 cells) cost 0.88 to 1.25 times as much, and one of them 68 times.
"""
CAUTION = 2.0
"""Factor on the estimated bias when settings are priced: unlike the noise, it is estimated, from few records.

In 82 cells (those of `benchmarks.plan_regret`, and tables of `benchmarks.unlike` whose rows are dealt at random) plans without
it cost as much in the geometric mean: the same in 53 cells, 0.60 to 2.16 times in the others.
"""


def leaves_open(agreement: Agreement) -> bool:
    """Whether a term is "auto", so that the agreement must be planned before it can be run."""
    terms = agreement.agreement
    return "auto" in (terms.rule, terms.step, terms.group_size, agreement.model.gradient_bound)


def noises_of(agreement: Agreement) -> tuple[GradientNoise, ...]:
    """Mechanisms of noise on gradients to price: the agreed one, all of them where it is the default."""
    agreed, default = agreement.mechanism, mechanisms.ALL[0]
    if agreed is default:
        return tuple(one for one in mechanisms.ALL if isinstance(one, GradientNoise) and one.weighed(agreement))
    # Under a mechanism of one answer, the table is that of the default.
    return tuple(one for one in (agreed, default) if isinstance(one, GradientNoise))[:1]


def opted_for_delta(agreement: Agreement) -> bool:
    """Whether every owner states a δ above 0, which allows (ε, δ)."""
    return all(owner.delta > 0 for owner in agreement.owner_tables)


def sums_of(agreement: Agreement, way: Way, size: int | None) -> tuple[tuple[int, ...], ...]:
    """Groups of owners whose answers the learner sees as a sum only, by their size; none where it sees each answer."""
    if not agreement.summed:
        return ()
    return agreement.members_of(
        way.together or agreement.one_answer, agreement.agreement.group_size if size is None else size
    )


def variances_of(
    agreement: Agreement, noises: Sequence[GradientNoise], answers: int, groups: Sequence[tuple[int, ...]] = ()
) -> dict[GradientNoise, float]:
    """v(m) of each mechanism, without those whose δ gains less than 1 % over pure ε with Ξ in the same norm."""
    found = {noise: noise.variance(agreement, answers, groups) for noise in noises}
    pure = {noise.norm: v for noise, v in found.items() if noise.guarantee is Guarantee.PURE}
    return {
        noise: v
        for noise, v in found.items()
        if noise.guarantee is Guarantee.PURE or v <= 0.99 * pure.get(noise.norm, np.inf)
    }


def freed(agreement: Agreement) -> Agreement:
    """The agreement without the terms that a plan may choose."""
    document = agreement.with_owners()
    own = (key for mechanism in mechanisms.ALL for key in mechanism.terms)
    for key in ("answers", "start", "preconditioner", "window", "mechanism", *own):
        document["agreement"].pop(key, None)
    document["agreement"] |= {"rule": "auto", "step": "auto"}
    document["model"] |= {"gradient_bound": "auto", "gradient_bound_assumed": False}
    document["data"] |= {"feature_bound": "auto"}
    return Agreement.of(document)


def participants_of(agreement: Agreement, size: int | None = None) -> int:
    """Number of participants in groups of this size; None for the agreed groups."""
    if size is None:
        return agreement.n_participants
    return agreement.participants_in_groups_of(size)


def sizes_of(agreement: Agreement, way: Way) -> tuple[int | None, ...]:
    """Candidates for the size of groups: powers of two and all owners where it is "auto"; None for the agreed groups."""
    if agreement.agreement.group_size != "auto" or way.together:
        return (None,)
    most = agreement.participants_in_groups_of(None)
    return (*(2**j for j in range(most.bit_length()) if 2**j < most), most)


def ways_of(agreement: Agreement) -> tuple[Way, ...]:
    """Ways in which a plan may use the rules. Raises AgreementError for an agreed rule without one."""
    terms = agreement.agreement
    if terms.rule == "auto":
        unwanted = {"synchronous": False, "asynchronous": True}.get(terms.communication)
        every = [way for rule in rules.ALL for way in rule.ways if way.together is not unwanted]
        return tuple(way for way in every if way.together or (terms.robust is None and terms.graph is None))
    rule = rules.named(terms.rule)
    way = rule.way(terms)
    if way is None:
        why = rule.why_not_planned or (
            f'{rule.name} cannot be planned; name "auto", or fix its step, answers and gradient_bound'
        )
        raise AgreementError(f"agreement.rule: {why}")
    return (way,)


def answers_of(agreement: Agreement, way: Way) -> Sequence[int]:
    """Candidates for the number of answers of each owner."""
    terms = agreement.agreement
    if terms.answers is None and terms.step != "auto" and way.together:
        return (agreement.queries,)
    if terms.answers is not None or terms.step != "auto":
        return (agreement.answers,)
    return [m + agreement.attempts for m in ANSWERS if m <= max(terms.horizon - way.together - agreement.attempts, 1)]


def starts_of(agreement: Agreement, public_start: bool) -> tuple[str, ...]:
    """Candidates for the start, as in `Choice.start`."""
    if agreement.agreement.start is not None:
        return ("agreed",)
    return ("zero", "public")[: 1 + public_start]


@dataclass(frozen=True, eq=False)
class Bounded:
    """The public problem with the candidates for Ξ and their bias, by the order of the norm (L1, L2)."""

    problem: Problem
    sample: PublicSample
    bounds: dict[int, Float[Array, " bounds"]]
    bias: dict[int, Float[Array, " bounds"]]
    """Bias of each bound in the unit of f, times CAUTION; at least that of a power law where few public gradients reach Ξ."""


def bounded(public: Problem, sample: PublicSample, noises: Sequence[GradientNoise]) -> Bounded:
    """Candidates for Ξ in each norm that the mechanisms use, with their bias."""
    given, r, theta = public.agreement.model.gradient_bound, sample.records, sample.optimum.theta
    gradients = public.loss.gradients(theta, r.features, r.target)
    # Where slopes are bounded, as a classifier's are, no tail of gradients is heavy.
    heavy = not is_linear(public.loss) or not np.isfinite(public.loss.slope_bound(np.inf, 1.0))
    found = Bounded(public, sample, {}, {})
    for order in {*(noise.norm for noise in noises), public.terms.mechanism.order(public.terms)}:
        norms = row_norms(gradients, order)
        bounds = np.array([given])
        if not isinstance(given, float):
            bounds = _candidates(norms, heavy)
        bias = np.array([_bias(public, sample, float(Ξ), order) for Ξ in bounds])
        priced, largest = CAUTION * bias, np.sort(norms)[::-1][:21]
        if heavy and len(largest) > 20 and largest[-1] > 0:
            # A power law beyond the 21st largest gradient: with a Pareto tail of index h, by Hill's estimate, the clipped mass
            # falls as Ξ^(1−h), and the bias as its square. Without it the plan for 100 owners of the papers' loans at ε = 10
            # costs 1.5 times as much; 79 of the 82 cells of `CAUTION` are the same.
            h = 1.0 / max(float(np.mean(np.log(largest[:-1] / largest[-1]))), 0.05)
            known = float(np.interp(np.log(largest[-1]), np.log(bounds), bias))
            law = known * (bounds / largest[-1]) ** (-2.0 * max(h - 1.0, 0.5))
            priced = np.maximum(priced, np.where(bounds > largest[-1], law, bias))
        found.bounds[order], found.bias[order] = bounds, priced
    return found


def _candidates(norms: Float[Array, " rows"], heavy: bool) -> Float[Array, " bounds"]:
    felt = norms[norms > 0]
    if not len(felt):
        return np.geomspace(1e-3, 1.0, GRADIENT_BOUNDS)
    low, high = 0.2 * float(np.median(felt)), 1.5 * float(felt.max())
    if heavy:
        high = max(high, Tail.of(norms).level(1e-4))
    return np.geomspace(low, high, GRADIENT_BOUNDS)


def _bias(public: Problem, sample: PublicSample, bound: float, order: Literal[1, 2]) -> float:
    """f(θ_Ξ) − f(θ*) on the public rows, θ_Ξ where the clipped gradients balance.

    Descent along the inverse Hessian does not overshoot, since clipping only shortens gradients. After twenty steps the error
    is below the sampling error of the public rows.
    """
    one_pass = Pass(public.loss, sample.records, order=order)
    inverse = np.linalg.pinv(sample.hessian, rcond=1e-12, hermitian=True)
    theta, n = sample.optimum.theta, float(sample.records.weight.sum())
    for _ in range(20):
        clipped, _ = one_pass.gradients(theta[None], bound)
        theta = theta - inverse @ (clipped[0] / n + public.regularizer.gradient(theta))
    return max(float(sample.smooth.fitness.value(theta)) - sample.optimum.value, 0.0)
