"""Diagnose a run from its answers: the owners' heterogeneity, and how far the public rows are from their records.

Answers are public, so this spends no budget. An answer at θ_k, less the gradient of the public rows there, clipped in the same
way, is A times the difference of the two optima, for every θ_k. Averaging over an owner's answers reduces the noise. Where a
share s of the public rows is clipped, the difference is multiplied by about 1 − s. Then

* the variance of owners' gradients beyond noise and beyond the sampling error of n_i records gives their heterogeneity
  (`heterogeneity.from_answers`);
* with D the mean over owners, ½DᵀA⁻¹D/f(θ*) less the noise in it is the ψ of the public
  rows' best model. It is compared with ½tr(A⁻¹S)(1/n₀ + 1/n)/f(θ*), that of rows drawn at random, S the covariance of
  gradients at θ.

Answers far from the public optimum get less weight, because A is estimated with an error (`PublicSample.wobble`). Both results
assume that the owners have curvature A. Directions in which the regulariser has more curvature than the records are left out,
as answers contain no information about them. Only mechanisms whose answers are gradients are diagnosed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri, chndtr, chndtrinc, chndtrix

from copriv.agreement import Agreement
from copriv.mechanisms import GradientNoise
from copriv.populations.public_sample import PublicSample
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.terms.heterogeneity import LEAST, Heterogeneity, effective_directions, from_answers, unknown
from copriv.types import Array

SURE = 0.05
"""Probability of each tail: intervals have 90 %."""


@dataclass(frozen=True)
class Distance:
    """Distance of the public rows from the owners' records: ψ there of the public rows' best model, with its 90 % interval."""

    value: float
    low: float
    high: float
    expected: float
    """Expected distance of public rows drawn at random from the owners' population."""
    expected_high: float
    """95 % quantile of the same."""

    @property
    def as_assumed(self) -> bool:
        """Whether the answers are consistent with public rows that are a random sample."""
        return self.low <= self.expected_high


@dataclass(frozen=True)
class HeterogeneityDiagnosis:
    """Heterogeneity and distance found from answers, and the heterogeneity assumed before the run."""

    heterogeneity: Heterogeneity
    assumed: Heterogeneity
    distance: Distance
    answers: int
    most: float = np.inf
    """Heterogeneity above that of any owners that are known."""
    clipped: float = 0.0
    """Share of the public rows that are clipped where the owners were asked."""

    def not_told(self, low: float, high: float) -> str | None:
        """Why the answers do not determine a value with this interval; None where they do."""
        if self.clipped > 0.5:
            return f"{100 * self.clipped:.0f} % of gradients are clipped"
        if low <= LEAST and high > self.most:
            return "their noise hides it"
        return None

    @property
    def wrong(self) -> str:
        """Assumptions that the answers contradict, and what to do; "" where there are none."""
        u, before, said = self.heterogeneity, self.assumed, list[str]()
        if self.clipped > 0.5:
            return ""
        if u.low > max(before.high, LEAST):
            said.append(
                f"The owners differ more than was assumed ({u.low:.2g} or more, where at most {before.high:.2g} "
                f"was): what was forecast for averages of fitted models does not hold. Plan the next run with heterogeneity = "
                f"[{u.low:.2g}, {u.high:.2g}]."
            )
        elif u.high < before.low:
            said.append(
                f"The owners differ less than was assumed (at most {u.high:.2g}, where {before.low:.2g} or more was): plan "
                f"the next run with heterogeneity = [{u.low:.2g}, {u.high:.2g}]."
            )
        if not self.distance.as_assumed:
            d = self.distance
            said.append(
                f"The public rows are not a random sample of everybody's: their best model is {100 * d.low:.2g} % or more "
                f"above the best one there, where a random sample would be within {100 * d.expected_high:.2g} %. What was "
                "forecast from them is of other records: draw public rows at random from all owners' kinds."
            )
        return " ".join(said)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of a model's record; undetermined values are None, with the reason beside them."""
        u, far = self.heterogeneity, self.distance
        hidden, far_hidden = (self.not_told(one.low, one.high) for one in (u, far))
        return {
            "heterogeneity": None if hidden else vars(u),
            "heterogeneity_reason": hidden,
            "assumed_heterogeneity": vars(self.assumed),
            "public_distance": None if far_hidden else {**vars(far), "as_assumed": far.as_assumed},
            "public_distance_reason": far_hidden,
            "public_distance_expected": {"value": far.expected, "high": far.expected_high},
            "answers": self.answers,
            "wrong": self.wrong,
        }


def diagnose(
    agreement: Agreement,
    sample: PublicSample,
    assumed: Heterogeneity,
    theta: Float[Array, " p"],
    answers: Iterable[tuple[str, Float[Array, " p"], Float[Array, " p"]]],
) -> HeterogeneityDiagnosis | None:
    """Diagnose a run from its answers: (owner, θ of the query, answer). theta: the final model.

    None where answers are not gradients, or fewer than two owners answered.
    """
    mechanism = agreement.mechanism
    if not isinstance(mechanism, GradientNoise):
        return None
    f, best, public = sample.optimum.value, sample.optimum.theta, sample.problem.owners[0]
    place = {name: i for i, name in enumerate(agreement.owner_names)}
    law, N, p = mechanism.law(agreement), len(place), len(theta)
    noise = law.variance * np.square([mechanism.scale(agreement, owner) for owner in agreement.owner])
    a, U = np.linalg.eigh(sample.hessian)
    c, A = sample.problem.terms.model.regularization, sample.hessian
    told = a - c > max(c, 1e-6 * a[-1])
    if told.any():  # else the intervals are wide
        A = np.asarray((U * np.where(told, a, 0.0)) @ U.T)
    bound, order, loss = agreement.gradient_bound, mechanism.order(agreement), sample.problem.loss
    inverse: Array = np.asarray(np.linalg.pinv(A, rcond=1e-10, hermitian=True), dtype=np.float64)
    total, weight, squares, off, many, cut = np.zeros((N, p)), np.zeros(N), np.zeros(N), np.zeros(N), 0, 0.0
    at: Float[Array, " p"] | None = None
    for owner, asked, answer in answers:
        if at is None or not np.array_equal(at, asked):
            at, expected = asked, clipped_mean_gradient(loss, public, asked, bound, order)
            lengths = np.linalg.norm(loss.gradients(asked, public.features, public.target), order, axis=1)
            share = float(public.weight @ (lengths > bound) / public.total)
            # The curvature has the relative error `wobble`, so answers from further away get less weight.
            far = sample.wobble**2 * float((asked - best) @ A @ (asked - best))
        i = place[owner]
        one = 1.0 / (float(np.trace(inverse)) * noise[i] + far + 1e-300)
        total[i] += one * (answer - expected)
        weight[i] += one
        squares[i] += one**2
        off[i] += one * far**0.5
        cut += share
        many += 1
    given = weight > 0
    w = np.where(given, agreement.weights, 0.0)
    if given.sum() < 2 or w.sum() <= 0:
        return None
    w = (w / w.sum())[given]
    cut /= many
    # The gradient of a clipped record hardly depends on θ, which reduces the curvature of the clipped fitness.
    A, inverse = A * (1.0 - cut) ** 2, inverse / max(1.0 - cut, 1e-3) ** 2
    means, left = total[given] / weight[given][:, None], noise[given] * squares[given] / weight[given] ** 2
    spread = 2.0 * sample.information
    found = from_answers(means, w, left, A, f, sampling=spread / agreement.records[given])
    away = w @ means
    raw = 0.5 * float(away @ inverse @ away) / f
    made = 0.5 * (float(np.trace(inverse)) * float(np.sum(w**2 * left)) + float(w @ (off / weight)[given]) ** 2) / f
    chance = 0.5 * spread * (1.0 / public.units + 1.0 / float(agreement.records[given].sum())) / f
    distance = _distance(raw, made, chance, effective_directions(inverse), sample.wobble)
    return HeterogeneityDiagnosis(found, assumed, distance, many, unknown(sample.unexplained).high, cut)


def _distance(raw: float, noise: float, chance: float, p: float, wobble: float = 0.0) -> Distance:
    """The distance from raw = ½DᵀA⁻¹D/f, a sum of p squares with expected noise `noise`; see `interval`."""
    low, high = interval(raw, noise, p, wobble)
    return Distance(min(max(raw - noise, low), high), low, high, chance, chance * float(chdtri(p, SURE)) / p)


def interval(raw: float, noise: float, p: float, wobble: float = 0.0) -> tuple[float, float]:
    """90 % interval of a distance observed with noise (`distances`), in a metric of relative error `wobble`."""
    wide = float(np.exp(1.645 * wobble))  # 90 % of a normal number lie within 1.645 standard errors
    low, high = distances(raw, noise, p, np.array([1.0 - SURE, SURE]))
    return float(low) / wide, float(high) * wide


def interval_about(raw: float, noise: float, p: float, wobble: float = 0.0) -> tuple[float, float]:
    """90 % interval of a distance from an origin that is known with noise; `raw`: the distance from where it is taken to be.

    So it is where a run begins at the optimum of the rows by which its end is judged: their error is in both.
    """
    wide, seen = float(np.exp(1.645 * wobble)), p * raw / max(noise, 1e-300)
    if seen >= 1e8:
        return raw / wide, raw * wide
    low, high = (float(chndtrix(q, p, seen)) * noise / p for q in (SURE, 1.0 - SURE))
    return low / wide, high * wide


def distances(
    raw: Float[Array, "*draws"] | float, noise: float, p: float, probability: Float[Array, " draws"]
) -> Float[Array, " draws"]:
    """Distances at which a sum of p squares is at most the observed one with these probabilities; 0 where no distance is.

    raw: the observed sum of squares of the distance and of noise of expectation `noise`; p·raw/noise is noncentral χ².
    """
    seen = p * np.asarray(raw) / max(noise, 1e-300)
    inverse = chndtrinc(np.minimum(seen, 1e8), p, probability) * noise / p
    # Beyond 1e8 the noise is negligible, and the inverse does not converge.
    return np.asarray(np.where(seen >= 1e8, raw, np.where(chndtr(seen, p, 0.0) <= probability, 0.0, inverse)))
