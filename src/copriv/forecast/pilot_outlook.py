"""What a pilot would tell, and what it would cost, before it is asked: a preposterior analysis of each owner's verdict.

In each world of a forecast an owner's heterogeneity u is known, and so is whether joining pays. Of its answer to a pilot, in p
coordinates with noise of variance v (`copriv.forecast.pilot_answers`), the sum of squares S tells u, with f = f(θ*):

    S/v  ~  noncentral χ² with p degrees of freedom and noncentrality λ = 2uf/v,
    √(S/v)  ≈  N(√(μ − τ²), τ²),      μ = p + λ,   τ² = (p + 2λ)/2μ.

The sum of S/v over the other owners tells how much owners of these differ, in the same way: with their numbers of coordinates
together, and their mean heterogeneity in that world.

For each world as the truth an S is drawn. It settles the verdict where it is evidence enough by itself: where worlds in which
joining pays and those in which it does not, taken to be as likely before, then have the odds of a "yes" or of a "no". A prior
that is already on one side but rests on a guess of how much owners differ is not settled by an answer that is all noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.forecast.coalition_value import Consortium
from copriv.forecast.pilot_answers import noise_foreseen, pilot_terms
from copriv.formatting.cards import Shown
from copriv.populations.public_sample import PublicSample
from copriv.problem.verdict import NO, YES
from copriv.types import Array

SHARES = (0.02, 0.05, 0.1, 0.2, 0.3)
"""Shares of ε that are compared."""


@dataclass(frozen=True)
class PilotAt(Shown):
    """A pilot of one share of every ε."""

    share: float
    cost: float
    """ψ of the run at the remaining ε over ψ without a pilot; the better start of the run is not counted."""
    settles: tuple[float, ...]
    """Probability that it settles the verdict of an owner, for each table."""
    epsilon: tuple[float, ...]
    """ε that it costs an owner, for each table."""
    expected: float
    """Expected number of open verdicts that it settles."""


@dataclass(frozen=True)
class PilotOutlook(Shown):
    """Expected benefit and cost of a pilot, for several shares of ε."""

    share: float
    """The agreed one; 0 where there is no pilot."""
    recommended: float
    """0 where no verdict is open or a pilot would settle few of them; without public rows, where its noise is too large."""
    open: int
    """Number of owners whose verdict is open; 0 where a pilot does not distinguish owners (no public rows, a sum, or
    owners that are alike)."""
    shares: tuple[PilotAt, ...]
    """By increasing share, with the agreed one; empty where a pilot does not distinguish owners."""

    def at(self, share: float) -> PilotAt | None:
        """The pilot of this share; None for one that is not among them, such as 0."""
        return next((one for one in self.shares if one.share == share), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON contract."""
        return {**vars(self), "shares": [vars(one) for one in self.shares]}


def settled(
    signals: Sequence[tuple[Float[Array, " draws"], int]], pays: Float[Array, " draws"], rng: np.random.Generator
) -> float:
    """Probability that a pilot settles a verdict.

    signals: noncentrality λ in each draw of the prior, and degrees of freedom, of each sum of squares that tells of it.
    pays: probability that joining pays, in each draw.
    """
    on_average, seen_as, told_by = float(np.mean(pays)), list[Array](), list[Array]()
    if not 0 < on_average < 1:
        return 1.0
    for λ, p in signals:
        spread = (p + 2.0 * λ) / (2.0 * (p + λ))
        middle = np.sqrt(np.maximum(p + λ - spread, 0.0))
        seen, r = middle + np.sqrt(spread) * rng.normal(size=len(pays)), 0.5 / spread
        seen, middle = seen - middle.mean(), middle - middle.mean()
        # −r (seen − middle)² − ½ log spread of each pair, as a product of matrices.
        seen_as += [seen**2, seen, np.ones(len(seen))]
        told_by += [-r, 2.0 * r * middle, -r * middle**2 - 0.5 * np.log(spread)]
    log = np.stack(seen_as, axis=1) @ np.stack(told_by)
    log -= log.max(axis=1, keepdims=True)
    weight = np.exp(np.maximum(log, -700.0, out=log), out=log)  # an underflow takes ten times as long
    yes, no = weight @ pays / on_average, weight @ (1.0 - pays) / (1.0 - on_average)
    probability = yes / (yes + no)
    return float(np.mean((probability >= YES) | (probability <= NO)))


def pilot_outlook(
    sample: PublicSample,
    share: float,
    members: Consortium,
    draws: Sequence[tuple[Array, Array, Array]],
    is_open: Sequence[bool],
    asked: Agreement | None = None,
) -> PilotOutlook | None:
    """Evaluate pilots of several shares for the run's agreement; None where its terms allow no pilot.

    share: the agreed one, which the run's ε is without. draws: u of an owner of each table, the mean u of all owners, and the
    probability that joining pays, in draws of the prior. is_open: whether its verdict is open. asked: the pilot, where its
    terms are signed.
    """
    problem, f, p, N = sample.problem, sample.optimum.value, sample.problem.n_parameters, sample.problem.terms.n_owners
    whole = members.epsilon / (1.0 - share)
    counts = np.array([table.number for table in problem.terms.owner_tables])
    still = counts * np.array(is_open)
    try:
        pilot = asked or problem.terms.replace(agreement=dict[str, Any](pilot=SHARES[0])).phases[0]
    except AgreementError:
        return None
    found, without = [], replace(members, epsilon=whole).together()
    for one in sorted({*SHARES, share} - {0.0}):
        times = (share if asked else SHARES[0] * (1.0 - share)) / one
        noise = noise_foreseen(sample, pilot_terms(sample, pilot, times), times)
        others = float(counts @ (1.0 / noise)) - 1.0 / noise
        settles = [
            settled(
                [(2.0 * u * f / v, p), (2.0 * mean * f * o, p * (N - 1))][: min(N, 2)],
                pays,
                np.random.default_rng([p, 28]),
            )
            for (u, mean, pays), v, o in zip(draws, noise.tolist(), others.tolist(), strict=True)
        ]
        cost = replace(members, epsilon=(1.0 - one) * whole).together() / max(without, 1e-300)
        taken = tuple(float(one * ε) for ε in whole)
        found.append(PilotAt(one, cost, tuple(settles), taken, float(still @ settles)))
    gains = {one.share: one.expected for one in found if one.share in SHARES}
    most, recommended = max(gains.values()), 0.0
    # The smallest share that settles nine tenths of what the best one does, if that is a tenth of the open verdicts.
    if still.sum() and most >= 0.1 * still.sum():
        recommended = min(one for one, gain in gains.items() if gain >= 0.9 * most)
    return PilotOutlook(share, recommended, int(still.sum()), tuple(found))
