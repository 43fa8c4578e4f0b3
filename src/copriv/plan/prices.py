"""Price settings by a formula, without a run: hundreds of thousands of them in a second.

In the unit of f, a setting costs

    bias(Ξ)  +  ½ Σ a_j R(g_j) (z_j² + t_j)  +  ½ Σ a_j V(g_j) (step P_j)² · Ξ² v(m)

with v(m) the variance of noise in the owners' average for Ξ = 1 (`GradientNoise.variance`; for pure ε 8m²ν with
ν = Σ w_i² κ_i²/(n_i ε_i)²), a_j the curvature in direction j, R and V of the rule (`Response`), z the start, t the spread of
what the public sample cannot know of θ* (`PublicSample`), P_j a public preconditioner, and bias what clipping at Ξ does
to the optimum, estimated on the public rows. R and V are averaged over the uncertainty of the curvature, and the bias is
multiplied by a factor of caution, as it depends on a few rare records. Owners enter through v alone, so one table prices every
consortium and every mechanism of noise.

Without clipping a rule is linear, and in an eigenvector of ∇²f with eigenvalue a it sees only the product g = step·a, its
gain. After a whole run of m answers an owner, in z = Uᵀ(θ − θ*),

    E z² = R_m(g) · E z(0)² + step² · V_m(g) · W,      W the variance that noise has in Σ (n_i/n) Q̄_i.

R and V depend on the rule only, not on data, budgets or the step. They are computed once on a grid of gains and interpolated.
For a way in rounds they follow from its exact recursion. For a way in turns the rule itself is run, with equal owners who each
answer m times in random order, averaged over draws of the order; a regulariser counts as part of the gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.participants import bundles_in_turns
from copriv.mechanisms import GradientNoise, Guarantee
from copriv.plan.candidates import Bounded, participants_of, sums_of
from copriv.populations.public_sample import PublicSample
from copriv.rules import UpdateRule, Way
from copriv.schedules import RandomOrder
from copriv.types import Array

GAINS = np.geomspace(0.002, 8.0, 64)
"""Grid of gains, first step times curvature; plain descent diverges at 2."""
FINE = np.geomspace(GAINS[0], GAINS[-1], 8 * 63 + 1)
"""Finer grid for averages over the uncertainty of the gain."""
MOST_PARTICIPANTS = 32
"""Most owners simulated in turns; for more, the response per round of all owners is about the same."""
DRAWS = 32
"""Random orders simulated in turns, for the start and for the noise."""


@dataclass(frozen=True, eq=False)
class Response:
    """R and V at each of GAINS; `unit` is the first step over the agreement's step."""

    way: Way
    answers: int
    unit: float
    start: Float[Array, " gains"]
    noise: Float[Array, " gains"]

    def at(self, gain: Float[Array, "..."], wobble: float = 0.0) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """R and V averaged over a gain with relative standard error `wobble`.

        The owners' curvature differs from the public one; without averaging, R would be too small for the best steps.
        """
        return _interpolated(gain, FINE, *_blurred(self, wobble))


@lru_cache(maxsize=4096)
def _blurred(response: Response, wobble: float) -> tuple[Float[Array, " fine"], Float[Array, " fine"]]:
    """R and V at each of FINE, averaged over the uncertainty of the gain."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)
    share = weights / weights.sum()
    seen = FINE * np.maximum(1.0 + wobble * nodes, 0.0)[:, None]
    R, V = _interpolated(seen, GAINS, response.start, response.noise)
    return np.asarray(share @ R), np.asarray(share @ V)


def _interpolated(
    gain: Float[Array, "*batch"], known: Float[Array, " known"], R: Float[Array, " known"], V: Float[Array, " known"]
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
    """Interpolate on log axes; beyond the largest known gain both are 1e30, as the run diverges."""
    x, at = np.log(np.clip(gain, known[0], known[-1])), np.log(known)
    r = np.exp(np.interp(x, at, np.log(np.maximum(R, 1e-30))))
    v = np.exp(np.interp(x, at, np.log(np.maximum(V, 1e-30))))
    # Below the grid R tends to 1 as (1 − cg)².
    r = np.where(gain < known[0], r ** np.minimum(gain / known[0], 1.0), r)
    too_far = gain > known[-1]
    return np.asarray(np.where(too_far, 1e30, r)), np.asarray(np.where(too_far, 1e30, v))


@lru_cache(maxsize=256)
def response(way: Way, answers: int, participants: int) -> Response:
    """The table of one rule for m = `answers` of each of `participants` owners."""
    if way.turns is not None:
        return _in_turns(way, way.turns, answers, min(participants, MOST_PARTICIPANTS))
    assert way.rounds is not None, "a way says how it is priced"
    recursion = way.rounds(answers)
    unit = float(recursion.steps[0])
    *_, (mean, variance) = replace(recursion, steps=recursion.steps / unit).moments(GAINS)
    return Response(way, answers, unit, mean**2, variance)


def _in_turns(way: Way, made: Callable[[Array], UpdateRule], answers: int, participants: int) -> Response:
    N, rng = participants, np.random.default_rng(0)
    runs = 2 * DRAWS
    order = np.stack([RandomOrder(answers).draw(rng, N, 0).owner for _ in range(DRAWS)], axis=1)
    quiet = np.arange(runs) < DRAWS
    # One parameter for each gain, which differ in their slope only.
    rule = made(np.full(N, 1.0 / N))
    state = rule.start(np.where(quiet, 1.0, 0.0)[:, None] * np.ones(len(GAINS)))
    loud = np.sqrt(float(N)) * (~quiet)[:, None]
    for participant in np.hstack([order, order]):
        draws = loud * rng.normal(size=(runs, len(GAINS)))
        # In units of step·noise: z ← z − (g z + w) has W = 1.
        state = rule.step(state, participant, GAINS * rule.query(state, participant) + draws)
    z = np.square(rule.model(state))
    # First step α/(1 + 1/N) is counted as α, the agreement's own.
    # Neighbouring gains respond alike: a running mean over five of them smooths the draws.
    noise = np.pad(np.log(z[DRAWS:].mean(axis=0)), 2, mode="edge")
    noise = np.exp(np.convolve(noise, np.full(5, 0.2), mode="valid"))
    return Response(way, answers, 1.0, z[:DRAWS].mean(axis=0), noise)


@dataclass(frozen=True, eq=False)
class Table:
    """The factors of a price that depend on the start and the preconditioner, and not on the rule."""

    bounded: Bounded
    start: str
    γ: float

    @property
    def sample(self) -> PublicSample:
        return self.bounded.sample

    @property
    def begins(self) -> Array:
        """θ at the start."""
        return self.sample.optimum.theta if self.start == "public" else self.bounded.problem.start

    @cached_property
    def directions(self) -> tuple[Array, Array, Array, Array]:
        """Curvature a, preconditioner P, squared start z² and variance t of θ*, by eigenvector."""
        (a, U), sample = self._eigen, self.sample
        z, t = U.T @ (self.begins - sample.centre), sample.variance_along(U)
        gained = a * (z**2 + t)
        # Only directions that contribute a thousandth are preconditioned: in others the inverse of a tiny curvature, such as
        # the regulariser's in a column that is constant in the public rows, would multiply noise a million times.
        P = np.where(gained > 1e-3 * gained.max(), (a / a[-1]) ** -self.γ, 1.0)
        return a, P, z**2, t

    @cached_property
    def _eigen(self) -> tuple[Array, Array]:
        a, U = np.linalg.eigh(self.sample.hessian)
        return np.maximum(a, 1e-12 * a[-1]), U

    def matrix(self) -> Array | None:
        """P as a matrix; None where it is the identity."""
        if self.γ == 0:
            return None
        _, U = self._eigen
        return np.asarray((U * self.directions[1]) @ U.T)

    def price(
        self, table: Response, variance: dict[GradientNoise, float], group_size: int | None = None
    ) -> "list[Priced]":
        """Price each mechanism of noise, from its variance v(m). group_size: of the groups that the plan chooses."""
        a, P, z2, t = self.directions
        given = self.bounded.problem.terms.agreement.step
        step = GAINS / a[-1]
        if given != "auto":
            step = np.array([given * table.unit])
        R, V = table.at(step[:, None] * (P * a), self.sample.wobble)
        rest = 0.5 * (R * (a * (z2 + t))).sum(axis=1)
        loud = 0.5 * (V * a * (step[:, None] * P) ** 2).sum(axis=1)
        priced = []
        for mechanism, v in variance.items():
            fixed = rest[:, None] + self.bounded.bias[mechanism.norm]
            noise = loud[:, None] * self.bounded.bounds[mechanism.norm] ** 2 * v
            priced.append(Priced(self, table, mechanism, step / table.unit, fixed, noise, group_size))
        return priced


@dataclass(frozen=True, eq=False)
class Priced:
    """Cost of each step and Ξ, for a rule, a number of answers and a mechanism of noise."""

    table: Table
    response: Response
    mechanism: GradientNoise
    step: Float[Array, " steps"]
    fixed: Float[Array, "steps bounds"]
    noise: Float[Array, "steps bounds"]
    """Cost of the noise."""
    group_size: int | None = None
    """Size of the groups that the plan chooses; None for the agreed groups."""

    @cached_property
    def where(self) -> tuple[int, int]:
        """Indices of the cheapest step and Ξ."""
        cost = self.fixed + self.noise
        best = np.unravel_index(int(np.nanargmin(np.where(np.isfinite(cost), cost, np.nan))), cost.shape)
        return int(best[0]), int(best[1])

    @property
    def cost(self) -> float:
        """Cost of the cheapest step and Ξ."""
        return float(self.fixed[self.where] + self.noise[self.where])

    @property
    def bounds(self) -> Float[Array, " bounds"]:
        """Candidates for Ξ."""
        return self.table.bounded.bounds[self.mechanism.norm]

    @property
    def pure(self) -> bool:
        return self.mechanism.guarantee is Guarantee.PURE

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key of the kind of setting; settings of one kind differ in numbers only."""
        return self.response.way, self.response.answers, self.group_size, self.table.start, self.mechanism

    @property
    def promises(self) -> tuple[bool, bool, bool]:
        """Pure ε, asynchronous, one answer."""
        return self.pure, not self.response.way.together, self.response.answers == 1

    @property
    def turns(self) -> int:
        """Number of queries, one after another, of a simulated run; 0 where owners answer together."""
        if self.response.way.turns is None:
            return 0
        a, P, *_ = self.table.directions
        N = participants_of(self.table.bounded.problem.terms, self.group_size)
        return self.response.answers * bundles_in_turns(N, float(self.step[self.where[0]] * (P * a).max()))

    def candidate(self) -> "Candidate":
        """The setting with the cheapest step and Ξ."""
        i, j = self.where
        return Candidate(self, float(self.step[i]), float(self.bounds[j]))


@dataclass(frozen=True)
class Candidate:
    """One setting: a priced rule with a step and a gradient bound."""

    priced: Priced
    step: float
    gradient_bound: float

    @property
    def cost(self) -> float:
        """Cost at this step and Ξ, interpolated; beyond the widest candidate for Ξ the bias is that of the widest."""
        p, Ξ = self.priced, self.gradient_bound
        j = int(np.abs(np.log(p.bounds / Ξ)).argmin())
        fixed, noise = (float(np.interp(np.log(self.step), np.log(p.step), one[:, j])) for one in (p.fixed, p.noise))
        return float(fixed + noise * (Ξ / p.bounds[j]) ** 2)

    def agreement(self, terms: Agreement) -> Agreement:
        """The agreement with this setting, in which every owner gives exactly m answers."""
        table, way = self.priced.table, self.priced.response.way
        m = self.priced.response.answers + terms.attempts
        N, matrix = participants_of(terms, self.priced.group_size), table.matrix()
        changes: dict[str, Any] = {
            "rule": way.rule,
            "iterate": "averaged",
            **dict(way.terms),
            "answers": m,
            "horizon": m + 1,
            "step": self.step,
            "mechanism": self.priced.mechanism.name,
        }
        if way.one_by_one:
            # The response counts a round's step Nα_k as one, and the agreement's step is α.
            changes |= {"window": N, "schedule": "rounds", "step": self.step / N}
        elif terms.agreement.rule == "auto" and not way.together:
            changes["schedule"] = "random-order"
        if "schedule" in changes:
            changes |= {"interval": None, "service": None}
        if terms.agreement.group_size == "auto":
            changes["group_size"] = self.priced.group_size
        if not way.together:
            changes["horizon"] = m * N
        if table.start == "public":
            changes["start"] = table.sample.optimum.theta.tolist()
        if matrix is not None:
            changes["preconditioner"] = matrix.tolist()
        return terms.replace(
            agreement=changes,
            model={"gradient_bound": self.gradient_bound},
            data={"feature_bound": table.bounded.problem.feature_bound or 0.0},
            owner={"delta": 0.0} if self.priced.pure else {},
        )


def flatness_of(best: Candidate) -> dict[str, tuple[float, float]]:
    """ψ at half and twice each setting over ψ at the best, by the table."""
    p, (i, j) = best.priced, best.priced.where
    cost, terms = p.fixed + p.noise, p.table.bounded.problem.terms
    flat = {}
    lines = {"step": (p.step, best.step, cost[:, j]), "gradient_bound": (p.bounds, best.gradient_bound, cost[i])}
    for name, (axis, here, line) in lines.items():
        if len(axis) > 1:
            at = np.interp(np.log([here * 0.5, here * 2.0]), np.log(axis), line) / line.min()
            flat[name] = (float(at[0]), float(at[1]))
    participants, m = participants_of(terms, p.group_size), p.response.answers
    groups = sums_of(terms, p.response.way, p.group_size)
    fewer, more = (
        p.table.price(
            response(p.response.way, n, participants),
            {p.mechanism: p.mechanism.variance(terms, n + terms.attempts, groups)},
        )[0].cost
        for n in (max(m // 2, 1), 2 * m)
    )
    return flat | {"answers": (fewer / p.cost, more / p.cost)}
