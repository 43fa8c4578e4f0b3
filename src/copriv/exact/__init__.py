"""The expected cost of a run, exactly and at a finite T, where the loss is squared and nothing is clipped.

Every update rule is then linear in its state, and the noise does not depend on the state, so that the mean μ_k and the
covariance Σ_k of θ_k obey a linear recursion and

    E f(θ_k) − f(θ*) = ½ (μ_k − θ*)ᵀ A (μ_k − θ*) + ½ tr(A Σ_k),     A = 2H + σI.

| rule                       | within reach                                                        |
| -------------------------- | ------------------------------------------------------------------- |
| S1, S2                     | any owners, in O(Tp)                                                |
| S1, S2 on a graph (`on_graph`) | some tens of owners, or fewer whose records differ              |
| A1                         | any number of owners of up to 400 different weights                 |
| A2, and A1 and A2 with caps | a few kinds of owners, or a few owners with few answers each        |

What is within reach takes about 4 s at most; else InvalidInput is raised.
Source: algorithms "What can be computed exactly instead".

On a graph the owners' models z_i = θ_i − θ*, one after the other, and their corrections u (`copriv.rules.graph`) obey, with D
the second derivatives of their own fitness, r the gradients at θ* and ξ the noise,

    d = Dz + r + ξ,    z ← W(z − a_k (d + u)),    u ← W(d + u) − d,

where u stays 0 without tracking. Owners that hold the same records are independent in each eigenvector of the fitness. Else
all Np numbers are coupled.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.exact.asynchronous import in_turns
from copriv.exact.linear_system import Directions, Order, OwnerKinds
from copriv.model.objective import Quadratic
from copriv.rules.graph import Graph
from copriv.rules.rule import InRounds, Recursion
from copriv.types import Array
from copriv.validation import finite_array

__all__ = ["Order", "OwnerKinds", "OwnersOnGraph", "expected_cost", "in_rounds", "in_turns", "on_graph"]


def expected_cost(
    recursion: Recursion,
    quadratic: Quadratic,
    owners: OwnerKinds,
    horizon: int,
    start: object,
    order: Order = "uniform",
) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*) after k updates, k = 0, 1, …, over the noise and over who talks. The unit is that of f.

    order: of an asynchronous run, see `Order`.
    Raises InvalidInput for terms that the rule cannot be run with, and for what is out of reach.
    """
    if isinstance(recursion, InRounds):
        return in_rounds(quadratic, owners, recursion, start)
    return in_turns(quadratic, owners, recursion, horizon, start, order)


def in_rounds(quadratic: Quadratic, owners: OwnerKinds, recursion: InRounds, start: object) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*) of any rule by which all owners answer in each round. One entry more than steps, the start first.

    The learner's weighted sum of the owners' noise has the variance V = Σ ω_i²·2b_i² in every direction. Source: S,
    Algorithms 1 and 2.
    """
    d = Directions.of(quadratic, start)
    V = 2.0 * float(owners.counts @ (owners.weights * owners.noise_scale) ** 2)
    squares = [(mean * d.start) ** 2 + V * variance for mean, variance in recursion.moments(d.curvature)]
    return 0.5 * np.array(squares) @ d.curvature


@dataclass(frozen=True, eq=False)
class OwnersOnGraph:
    """The owners of a graph."""

    graph: Graph
    tracking: bool
    shares: Float[Array, " owners"]
    """w_i, which add up to 1."""
    noise_scale: Float[Array, " owners"]
    """b_i of the Laplace draw on each coordinate of an answer."""
    own: tuple[Quadratic, ...]
    """The fitness on each owner's records; one object where they are the same."""


def on_graph(quadratic: Quadratic, owners: OwnersOnGraph, recursion: InRounds, start: object) -> Float[Array, " k"]:
    """Mean over owners of E f(θ_i,k) − f(θ*) after k rounds, over the noise. One entry more than steps, the start first.

    Raises InvalidInput for what is out of reach.
    """
    N, p, σ = len(owners.shares), len(quadratic.c), quadratic.regularizer.strength
    gain, W = N * owners.shares, owners.graph.weights
    best, θ0 = quadratic.free_minimum(), finite_array("start", start, 1)
    alike = all(one is owners.own[0] for one in owners.own) and bool((owners.own[0].H == quadratic.H).all())
    size, blocks = (N, p) if alike else (N * p, 1)
    # A billion multiplications are half a second for each world.
    if (1 + owners.tracking) ** 3 * len(recursion.steps) * blocks * float(size) ** 3 > 1e9:
        raise InvalidInput(
            f"graph: an exact mean of {N} owners, {p} parameters and {len(recursion.steps)} rounds takes too long"
        )
    noise = 2.0 * (gain * owners.noise_scale) ** 2
    at_best = np.array(
        [w * (one.gradient(best) - σ * best) + σ * best for w, one in zip(gain, owners.own, strict=True)]
    )
    if alike:
        a, U = np.linalg.eigh(quadratic.hessian)
        own = np.linalg.eigvalsh(owners.own[0].hessian) - σ
        D = np.array([np.diag(σ + gain * h) for h in own])
        r, z = (at_best @ U).T, np.repeat((U.T @ (θ0 - best))[:, None], N, axis=1)
        A = a[:, None, None] * np.eye(N) / N
    else:
        D = np.zeros((1, N * p, N * p))
        for i, one in enumerate(owners.own):
            block = slice(i * p, (i + 1) * p)
            D[0, block, block] = gain[i] * (one.hessian - σ * np.eye(p)) + σ * np.eye(p)
        W, noise = np.asarray(np.kron(W, np.eye(p))), np.repeat(noise, p)
        r, z = at_best.reshape(1, -1), np.tile(θ0 - best, N)[None]
        A = np.kron(np.eye(N), quadratic.hessian)[None] / N
    # s ← (F0 + a F1)s + (G0 + a G1)(r + ξ), in blocks that are independent of each other; s is z, and u with tracking.
    W = np.broadcast_to(W, D.shape)
    F0, F1, G0, G1 = W, -W @ D, np.zeros_like(D), -W
    if owners.tracking:
        none, V = np.zeros_like(D), W - np.eye(D.shape[-1])
        F0, F1 = np.block([[W, none], [V @ D, W]]), np.block([[-W @ D, -W], [none, none]])
        G0, G1 = np.concatenate([none, V], axis=1), np.concatenate([-W, none], axis=1)
    size = z.shape[1]
    s, S = np.zeros(F0.shape[:2]), np.zeros_like(F0)
    s[:, :size] = z
    average, C, V = z, np.zeros((*S.shape[:2], size)), np.zeros_like(A)
    costs = []

    def note(mean: Array, covariance: Array) -> None:
        costs.append(0.5 * float(np.sum(A * (mean[:, :, None] * mean[:, None, :] + covariance))))

    note(z, V)
    for k, a in enumerate(recursion.steps):
        F, G = F0 + a * F1, G0 + a * G1
        if recursion.average is not None:
            w = recursion.average[k]
            now = C[:, :size]
            average = (1 - w) * average + w * s[:, :size]
            V = (1 - w) ** 2 * V + w * (1 - w) * (now + now.transpose(0, 2, 1)) + w**2 * S[:, :size, :size]
            C = F @ ((1 - w) * C + w * S[:, :, :size])
        s = (F @ s[:, :, None] + G @ r[:, :, None])[:, :, 0]
        S = F @ S @ F.transpose(0, 2, 1) + (G * noise) @ G.transpose(0, 2, 1)
        note(*((s[:, :size], S[:, :size, :size]) if recursion.average is None else (average, V)))
    return np.array(costs)
