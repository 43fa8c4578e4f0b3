"""Tables of a rule's response to its start and to noise, as functions of one variable, the gain.

Without clipping a rule is linear, and in an eigenvector of ∇²f with eigenvalue a it sees only the product g = step·a,
its gain. After a whole run of m answers an owner, in z = Uᵀ(θ − θ*),

    E z² = R_m(g) · E z(0)² + step² · V_m(g) · W,      W the variance that noise has in Σ (n_i/n) Q̄_i.

R and V depend on the rule only, not on data, budgets or the step. They are computed once on a grid of gains, and priced by
interpolation for every consortium (`prices`).

For a way in rounds they follow from its exact recursion. For a way in turns the rule itself is run, with equal owners who each
answer m times in random order, averaged over draws of the order; a regulariser counts as part of the gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from jaxtyping import Float

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
