"""A pilot in numbers: the terms that it is asked at, from public rows only, and what its answers tell.

Let z_i be owner i's answer: the mean at the start, which is to be the public model θ₀, of W∇ℓ, clipped to Ξ in L1, with Laplace
noise of known scale b_i, and W the root of the public metric P. In the coordinates of `PilotAnswers`, and where records are
clipped as public rows are,

    VᵀW⁻¹(z_i − z⁰)/a  =  −d_i + noise,      of variance  2b_i²s/a² + φ/n_i,

with z⁰ the clipped mean of the public rows there, a the share of the curvature that clipping leaves, s the diagonal of VᵀP⁻¹V,
and φ = 2κ/p the variance of one record's gradient. Owners' records are taken to have the public curvature.

A mean of residuals is what owners differ in most, and one number among p: W is the root of P + (p − 2)eeᵀ, with e the
common shift of all predictions, at unit cost. Its noise is then about √(p − 1) times smaller, that of the others 1/√(p − 1)
larger.

Records' lengths are counted in multiples of the longest public row: records that are longer are evidence of the outliers
that plans are insured against (`copriv.plan.outliers`).

The weighted mean tells d, that of the common model: its prior is the sampling error of the public model, C/n₀, and noise
averages out in its likelihood. What is left of each owner is evidence of its heterogeneity
(`copriv.populations.owner_posterior`). Where only the sum of answers is seen, it tells the weighted mean and no owner from
another.
"""

import numpy as np
import scipy.linalg
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.mechanisms.pilot import EDGES, PilotNumbers, root_of
from copriv.plan.outliers import outliers_of
from copriv.populations.owner_posterior import common_shift
from copriv.populations.public_sample import SURELY, Lengths, PilotAnswers, PublicSample, beyond
from copriv.privacy.clipping import clip_rows, row_norms
from copriv.types import Array

SHARES_OF_LENGTHS = (0.02, 0.05, 0.1, 0.2)
"""Shares of the pilot's ε that a plan may give to the lengths of records."""
WATCH = 0.1
"""Share of all records that are longer than any public row which a pilot is to show for the least of these shares."""
SEEN = 3.0
"""Standard deviations of a count's noise at which outliers are seen."""


def pilot_terms(sample: PublicSample, agreement: Agreement, times: float = 1.0) -> Agreement:
    """The pilot with a number for every term: at the public model, in the public metric, from public rows only.

    One whose terms were signed (`pilot_terms` of the agreement) stays as it is. times: factor of the answers' noise.
    """
    if isinstance(agreement.model.gradient_bound, float):
        return agreement
    problem, r = sample.problem, sample.records
    start = problem.feasible_set.project(sample.optimum.theta)
    a, U = np.linalg.eigh(sample.hessian)
    inverse = (U / np.maximum(a, 1e-6 * a[-1])) @ U.T
    shift, p = common_shift(r.features, sample.hessian), problem.n_parameters
    metric = 0.5 * (inverse + inverse.T) + max(p - 2, 0) * np.outer(shift, shift)
    lengths = row_norms(problem.loss.gradients(start, r.features, r.target) @ root_of(metric))
    # A pilot clips half of the public gradients: `alone` is then within three times for more owners than if it clips 10 %.
    Ξ, B = (max(float(each), 1e-12) for each in (np.quantile(lengths, 0.5), sample.longest_row))
    asked = agreement.replace(
        agreement={"start": start.tolist(), "preconditioner": metric.tolist()},
        model={"gradient_bound": Ξ},
        data={"feature_bound": B},
    )
    return asked.replace(agreement={"pilot_parts": parts_weighed(sample, asked, times)})


def parts_weighed(sample: PublicSample, asked: Agreement, times: float = 1.0) -> dict[str, float]:
    """Share of the pilot's ε for each part of the answer: lengths of records get as little as shows outliers, if there are any.

    That is the least that shows nine tenths of the kinds, by probability, that the largest share would. Where that shows less
    than half of them it is the least of all, if it shows whether public rows are like the owners' (WATCH); nothing otherwise.
    Lengths of gradients and the mean loss are not asked (decision 0027). times: factor of the answers' noise.
    """
    numbers, kinds = PilotNumbers.agreed(asked, sample.problem.n_parameters), outliers_of(sample)
    noise = times * count_noise(numbers, asked.noise_scales(), asked.weights)
    shown = [0.0] * len(SHARES_OF_LENGTHS)
    if kinds is not None:
        signal = kinds.share * beyond(*kinds.lengths(numbers)) / noise
        shown = [
            float(kinds.likely @ (share * signal >= SEEN)) / float(kinds.likely.sum()) for share in SHARES_OF_LENGTHS
        ]
    share, allowed = SHARES_OF_LENGTHS[0], sample.allowed_longer
    if shown[-1] >= 0.5:
        share = next(share for share, found in zip(SHARES_OF_LENGTHS, shown, strict=True) if found >= 0.9 * shown[-1])
    elif allowed is None or share * (WATCH - allowed) < SURELY * np.sqrt(len(EDGES)) * noise:
        return {"gradient": 1.0}
    return {"gradient": 1.0 - share, "record_lengths": share}


def told_by(
    sample: PublicSample,
    agreed: Agreement,
    answers: Float[Array, "seen answer"],
    weights: Float[Array, " owners"] | None = None,
) -> PilotAnswers:
    """Estimate the common model, and each owner's deviation from it where single answers are seen, from a pilot's answers.

    answers: of all owners to a pilot (`pilot_terms`), or their weighted mean where only the sum is seen.
    weights: the owners' in the mean, which add up to 1, 0 for those whose answers a sum is without; None: the agreement's.
    """
    w = agreed.weights if weights is None else weights
    problem, r, p = sample.problem, sample.records, sample.problem.n_parameters
    numbers = PilotNumbers.agreed(agreed, p)
    start, Ξ, share = np.array(agreed.agreement.start), numbers.bound, r.weight / r.total
    s, V = scipy.linalg.eigh(np.linalg.inv(numbers.root @ numbers.root), sample.hessian)
    to = np.linalg.solve(numbers.root, V)  # W⁻¹V

    def clipped(theta: Float[Array, " p"]) -> tuple[Array, Array]:
        rows = problem.loss.gradients(theta, r.features, r.target) @ numbers.root
        return rows @ to, clip_rows(rows, Ξ) @ to

    whole, cut = clipped(start)
    h = 0.1 * np.sqrt(2.0 * sample.optimum.value / p)
    a = np.array([share @ (clipped(start + h * e)[1] - clipped(start - h * e)[1])[:, j] for j, e in enumerate(V.T)])
    a = np.clip(a / (2.0 * h), 0.1, 1.0)
    parts = numbers.parts(answers)
    seen = weights_of_seen(agreed, w)
    pull = (parts["gradient"] @ to - share @ cut) / a
    scale = agreed.noise_scales()
    own = 2.0 * np.square(scale)[:, None] * s / a**2
    # What the public rows do not tell of the clipped part, and an error of the curvature, are the same for all owners.
    rest = cut / a - whole
    mean = seen @ pull
    public = share @ np.square(rest - share @ rest) / r.units + sample.wobble**2 * float(mean @ mean) / p
    prior = V.T @ sample.hessian @ sample.spread @ sample.hessian @ V / problem.unbounded[0].units
    told = 1.0 / (w**2 @ own + public)
    # (prior⁻¹ + diag(told))⁻¹ without the inverse of a prior that is nearly singular where columns hardly vary.
    covariance = prior - prior @ np.linalg.solve(prior + np.diag(1.0 / told), prior)
    root = root_of(covariance)
    φ = 2.0 * sample.information / p
    noise = own * (1.0 - 2.0 * w)[:, None] + w**2 @ own + (φ / agreed.records)[:, None]
    lengths = None
    if (counted := parts.get("record_lengths")) is not None:
        lengths = Lengths(seen @ counted, (count_noise(numbers, scale, w) / numbers.shares["record_lengths"]) ** 2)
    each = np.zeros((0, p)) if agreed.summed else pull - mean
    return PilotAnswers(
        sample.optimum.theta, V, -covariance @ (told * mean), root, each, np.maximum(noise, 1e-300)[: len(each)],
        numbers, lengths,
    )  # fmt: skip


def count_noise(numbers: PilotNumbers, scale: Float[Array, " owners"], weights: Float[Array, " owners"]) -> float:
    """Standard deviation of the noise in all owners' share of records in a bin, were lengths the only part."""
    return float(np.sqrt(2.0 * np.sum(np.square(weights * scale)))) / float(numbers.unit[0])


def weights_of_seen(agreed: Agreement, weights: Float[Array, " owners"]) -> Float[Array, " seen"]:
    """The weights, in the owners' mean, of what is seen of a pilot: of each answer, or 1 for a sum, which is their mean."""
    if agreed.summed:
        return np.ones(1)
    return weights


def noise_foreseen(sample: PublicSample, agreed: Agreement, times: float = 1.0) -> Float[Array, " tables"]:
    """Noise variance of a pilot's estimate of an owner's deviation, for an owner of each table.

    It is the harmonic mean over the coordinates. agreed: of `pilot_terms`. times: factor of the answers' noise.
    """
    numbers, tables = PilotNumbers.agreed(agreed, sample.problem.n_parameters), agreed.owner_tables
    s = scipy.linalg.eigvalsh(np.linalg.inv(numbers.root @ numbers.root), sample.hessian)
    # Clipping is expected to leave half of the curvature: the other gradients are clipped and no longer follow θ.
    answer = 2.0 * np.square([times * agreed.mechanism.scale(agreed, table) / 0.5 for table in tables])
    records = 2.0 * sample.information / len(s) / np.array([table.records for table in tables])
    return np.asarray(1.0 / np.mean(1.0 / (answer[:, None] * s + records[:, None]), axis=1))
