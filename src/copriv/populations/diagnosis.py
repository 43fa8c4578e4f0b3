"""What do the answers of a run say of the owners? How unlike they are, and how far the public rows are from all of them.

Answers are public once given, so nothing is spent on this. A gradient answered at θ_k tells one at any other point, as far
as curvature is the public rows': Q_i(θ) ≈ Q̄_ik − A(θ_k − θ). Moved to one θ, an owner's answers are averaged, and noise falls
by their number. Then

* the spread of owners' gradients beyond noise and beyond what n_i records leave open is their heterogeneity
  (`heterogeneity.from_answers`);
* the mean of all of them less the public rows' own, D, is how far the public rows' best model is from everybody's:
  ½DᵀA⁻¹D/f(θ*), less what noise makes of it. It is held against ½tr(A⁻¹S)(1/n₀ + 1/n)/f(θ*), that of rows drawn at random, S
  the covariance of gradients where they are compared.

An answer counts the less the further it was asked from there, as A is known to a part only (`PublicSample.wobble`). Both rest
on A being the owners' curvature too, and on gradients that were hardly clipped; mechanisms that answer with something
else than gradients say nothing here.
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
"""Of each tail: ranges hold with 90 %."""


@dataclass(frozen=True)
class Distance:
    """How far the public rows are from everybody's records: the ψ there of the public rows' best model."""

    value: float
    low: float
    high: float
    expected: float
    """Were they drawn at random from what the owners' records are drawn from."""
    expected_high: float
    """One such sample in twenty is further off."""

    @property
    def as_assumed(self) -> bool:
        """Whether they may be a random sample, by what was heard."""
        return self.low <= self.expected_high


@dataclass(frozen=True)
class HeterogeneityDiagnosis:
    """Beside what was assumed before the run."""

    heterogeneity: Heterogeneity
    assumed: Heterogeneity
    distance: Distance
    answers: int

    @property
    def wrong(self) -> str:
        """What was assumed and is not so, and what to do; "" where nothing speaks against it."""
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
        # Moved by a curvature that is off by a part `wobble` of itself: answers from afar count for less.
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
    """raw: ½DᵀA⁻¹D/f, a sum of p squares whose noise has E = `noise` in all: p·raw/noise is noncentral χ².

    wobble: by which part of itself A is off, and with it all that is measured by it.
    """
    wide = float(np.exp(1.645 * wobble))  # 90 % of a normal number lie within 1.645 standard errors
    expected_high = chance * float(chdtri(p, SURE)) / p
    if noise <= 0:
        return Distance(raw, raw / wide, raw * wide, chance, expected_high)
    seen = p * raw / noise

    def holding(probability: float) -> float:
        """The distance at which as little, or as much, is seen with this probability."""
        if chndtr(seen, p, 0.0) <= probability:
            return 0.0
        return float(chndtrinc(seen, p, probability)) * noise / p

    low, high = holding(1.0 - SURE) / wide, holding(SURE) * wide
    return Distance(min(max(raw - noise, low), high), low, high, chance, expected_high)
