"""Diagnose a run from its answers: the owners' heterogeneity, and how far the public rows are from their records.

Answers are public once given, so this spends no budget. A gradient answered at θ_k is moved to a common θ by the public
curvature, Q_i(θ) ≈ Q̄_ik − A(θ_k − θ), and an owner's answers are averaged there, which reduces the noise. Then

* the variance of owners' gradients beyond noise and beyond the sampling error of n_i records gives their heterogeneity
  (`heterogeneity.from_answers`);
* with D the mean over owners less the public rows' own gradient, ½DᵀA⁻¹D/f(θ*) less the noise in it is the ψ of the public
  rows' best model. It is compared with ½tr(A⁻¹S)(1/n₀ + 1/n)/f(θ*), that of rows drawn at random, S the covariance of
  gradients at θ.

Answers from further away get less weight, because A is known with an error (`PublicSample.wobble`). Both assume that the
owners have curvature A and that gradients were hardly clipped. Mechanisms whose answers are no gradients are not diagnosed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri, chndtr, chndtrinc

from copriv.agreement import Agreement
from copriv.mechanisms import GradientNoise
from copriv.populations.public_sample import PublicSample
from copriv.terms.heterogeneity import LEAST, Heterogeneity, from_answers
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
    """Of public rows drawn at random from the owners' population."""
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

    @property
    def wrong(self) -> str:
        """Assumptions that the answers contradict, and what to do; "" where there are none."""
        u, before, said = self.heterogeneity, self.assumed, []
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
        """As in a model's record."""
        return {
            "heterogeneity": vars(self.heterogeneity),
            "assumed_heterogeneity": vars(self.assumed),
            "public_distance": {**vars(self.distance), "as_assumed": self.distance.as_assumed},
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
    """From (owner, where it was asked, what it answered) of a run. theta: the model that came out.

    None where answers are no gradients, or fewer than two owners gave any.
    """
    mechanism = agreement.mechanism
    if not isinstance(mechanism, GradientNoise):
        return None
    A, f = sample.hessian, sample.optimum.value
    inverse: Array = np.asarray(np.linalg.pinv(A, rcond=1e-10, hermitian=True), dtype=np.float64)
    plain = A - sample.problem.terms.model.regularization * np.eye(len(A))  # answers are of the loss alone
    place = {name: i for i, name in enumerate(agreement.owner_names)}
    law, N = mechanism.law(agreement), len(place)
    noise = law.variance * np.square([mechanism.scale(agreement, owner) for owner in agreement.owner])
    total, weight, squares, moved = np.zeros((N, len(A))), np.zeros(N), np.zeros(N), np.zeros(N)
    many = 0
    for owner, asked, answer in answers:
        i, d = place[owner], asked - theta
        # The curvature has the relative error `wobble`, so answers from further away get less weight.
        off = sample.wobble**2 * float(d @ A @ d)
        one = 1.0 / (float(np.trace(inverse)) * noise[i] + off + 1e-300)
        total[i] += one * (answer - plain @ d)
        weight[i] += one
        squares[i] += one**2
        moved[i] += one * off**0.5
        many += 1
    given = weight > 0
    w = np.where(given, agreement.weights, 0.0)
    if given.sum() < 2 or w.sum() <= 0:
        return None
    w = (w / w.sum())[given]
    means, left = total[given] / weight[given][:, None], noise[given] * squares[given] / weight[given] ** 2
    away_by = moved[given] / weight[given]
    r, n = sample.problem.owners[0], agreement.records[given]
    g, share = sample.problem.loss.gradients(theta, r.features, r.target), r.weight / r.total
    here = share @ g
    spread = float(share @ np.sum(((g - here) @ inverse) * (g - here), axis=1))  # tr A⁻¹S, at this θ
    found = from_answers(means, w, left, A, f, sampling=spread / n)
    away = w @ means - here
    raw = 0.5 * float(away @ inverse @ away) / f
    made = 0.5 * (float(np.trace(inverse)) * float(np.sum(w**2 * left)) + float(w @ away_by) ** 2) / f
    chance = 0.5 * spread * (1.0 / r.units + 1.0 / float(n.sum())) / f
    return HeterogeneityDiagnosis(found, assumed, _distance(raw, made, chance, len(A), sample.wobble), many)


def _distance(raw: float, noise: float, chance: float, p: int, wobble: float = 0.0) -> Distance:
    """raw: ½DᵀA⁻¹D/f, a sum of p squares whose noise has E = `noise` in all.

    wobble: relative error of A, and so of every distance in its metric.
    """
    wide = float(np.exp(1.645 * wobble))  # 90 % of a normal number lie within 1.645 standard errors
    expected_high = chance * float(chdtri(p, SURE)) / p
    if noise <= 0:
        return Distance(raw, raw / wide, raw * wide, chance, expected_high)
    low, high = distances(raw, noise, p, np.array([1.0 - SURE, SURE]))
    return Distance(min(max(raw - noise, low / wide), high * wide), float(low) / wide, float(high) * wide, chance, expected_high)


def distances(
    raw: Float[Array, "*draws"] | float, noise: float, p: int, probability: Float[Array, " draws"]
) -> Float[Array, " draws"]:
    """The distances at which a sum of p squares, up to the one seen, has these probabilities; 0 where none is so unlikely.

    raw: what was seen, the squares of the distance and of noise with E = `noise` together: p·raw/noise is noncentral χ².
    """
    seen = p * np.asarray(raw) / max(noise, 1e-300)
    inverse = chndtrinc(np.minimum(seen, 1e8), p, probability) * noise / p
    # Beyond 1e8 noise is nothing beside what was seen, and the inverse is not found.
    return np.asarray(np.where(seen >= 1e8, raw, np.where(chndtr(seen, p, 0.0) <= probability, 0.0, inverse)))
