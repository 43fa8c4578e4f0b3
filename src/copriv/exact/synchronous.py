"""Rules in rounds (S1, S2): E f(θ_k) exactly, whatever the owners.

In each eigenvector of A the state is z, or (z, z̄) where the answer is an average, and is driven by the learner's weighted
sum of the owners' noise, whose variance V = Σ ω_i²·2b_i² is the same in every direction. Source: S, Algorithms 1 and 2.
"""

import numpy as np
from jaxtyping import Float

from copriv.exact.linear_system import Directions, OwnerKinds
from copriv.model.fitness import Quadratic
from copriv.rules.recursion import InRounds
from copriv.rules.sync_averaged import s2_average, s2_steps
from copriv.rules.sync_decay import s1_steps
from copriv.types import Array


def s1(quadratic: Quadratic, owners: OwnerKinds, step: float, horizon: int, start: object) -> Float[Array, " k"]:
    """S1 with ρ = `step`: θ[k+1] = θ[k] − ρ/(T²k)(∇g + Σ ω_i Q̄_i). T entries, θ[1] first."""
    return in_rounds(quadratic, owners, InRounds(s1_steps(step, horizon)), start)


def s2(quadratic: Quadratic, owners: OwnerKinds, step: float, horizon: int, start: object) -> Float[Array, " k"]:
    """S2 with c₁ = `step`, of the average θ̄[k], which is the rule's answer. T entries, θ[1] first."""
    return in_rounds(quadratic, owners, InRounds(s2_steps(step, horizon), s2_average(horizon)), start)


def in_rounds(quadratic: Quadratic, owners: OwnerKinds, recursion: InRounds, start: object) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*) of any rule by which all owners answer in each round. One entry more than steps, the start first."""
    d = Directions.of(quadratic, start)
    a, steps, average = d.curvature, recursion.steps, recursion.average
    V = 2.0 * float(owners.counts @ (owners.weights * owners.noise_scale) ** 2)
    # The state is z, or z and z̄; the last of it is what the fitness is of.
    states = 1 if average is None else 2
    μ = np.repeat(d.start[:, None], states, axis=1)
    Σ = np.zeros((len(a), states, states))
    F, g = np.zeros((len(a), states, states)), np.zeros(states)
    cost = [d.cost(μ[:, -1], Σ[:, -1, -1])]
    for k, step in enumerate(steps):
        F[:, 0, 0], g[0] = 1.0 - step * a, -step
        if average is not None:
            F[:, 1, 0], F[:, 1, 1] = average[k], 1.0 - average[k]
        μ = np.einsum("jab,jb->ja", F, μ)
        Σ = F @ Σ @ F.transpose(0, 2, 1) + V * np.outer(g, g)
        cost.append(d.cost(μ[:, -1], Σ[:, -1, -1]))
    return np.array(cost)
