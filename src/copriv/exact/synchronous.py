"""Rules in rounds (S1, S2): exact mean and variance of f(θ_k), whatever the owners, in O(T p²).

In direction j the state (z, and z̄ for the average) is driven by v_j = Σ_i U_ij w_i, with w = Σ ω_i w_i the learner's
weighted sum of the owners' noise: independent coordinates of variance V = Σ ω_i²·2b_i² and fourth cumulant
κ = Σ ω_i⁴·12b_i⁴. The covariance of v is V·I in any basis, so the directions are uncorrelated; but they are not
independent, since a rotated Laplace vector is not Laplace. With ξ = z − E z and D = diag(a),

    Var ½zᵀDz = μᵀDΣDμ + ½ tr(DΣDΣ) + ¼ Σ_jj' a_j a_j' G_jj' K_jj',   G_jj' = Σ_l U_lj² U_lj'²,

where the noise's odd moments are 0 and K_jj' = κ Σ_t r_tj² r_tj'², r_tj the response of z_j to the noise of round t.
Source: S, Algorithms 1 and 2.
"""

import numpy as np

from copriv.exact.moments import Directions, Moments, OwnerKinds
from copriv.model.fitness import Quadratic
from copriv.rules.recursion import InRounds
from copriv.rules.sync_averaged import s2_average, s2_steps
from copriv.rules.sync_decay import s1_steps
from copriv.types import Array


def s1(quadratic: Quadratic, owners: OwnerKinds, step: float, horizon: int, start: object) -> Moments:
    """S1 with ρ = `step`: θ[k+1] = θ[k] − ρ/(T²k)(∇g + Σ ω_i Q̄_i). T entries, θ[1] first."""
    return in_rounds(quadratic, owners, InRounds(s1_steps(step, horizon)), start)


def s2(
    quadratic: Quadratic, owners: OwnerKinds, step: float, horizon: int, start: object, averaged: bool = True
) -> Moments:
    """S2 with c₁ = `step`: the average θ̄[k], which is the rule's answer, or the iterate θ[k]. T entries, θ[1] first."""
    average = s2_average(horizon) if averaged else None
    return in_rounds(quadratic, owners, InRounds(s2_steps(step, horizon), average), start)


def in_rounds(
    quadratic: Quadratic, owners: OwnerKinds, recursion: InRounds, start: object, mean_only: bool = False
) -> Moments:
    """Any rule by which all owners answer in each round. One entry more than steps, the start first."""
    return _moments(Directions.of(quadratic, owners, start), owners, recursion.steps, recursion.average, mean_only)


def _moments(d: Directions, owners: OwnerKinds, steps: Array, average: Array | None, mean_only: bool) -> Moments:
    a, p = d.curvature, len(d.curvature)
    scale = owners.weights * owners.noise_scale
    V = 2.0 * float(owners.counts @ scale**2)
    κ = 12.0 * float(owners.counts @ scale**4)
    squares = np.square(d.rotation)
    mixing = np.outer(a, a) * (squares.T @ squares)
    # One state, z, or two, z and z̄; `out` is the one whose fitness is forecast.
    states, out = (1, 0) if average is None else (2, 1)
    square = out * states + out
    μ = np.repeat(d.start[:, None], states, axis=1)
    Σ = np.zeros((p, states, states))
    K = np.zeros((p, states**2, p, states**2))
    mean, variance = np.empty(len(steps) + 1), np.empty(len(steps) + 1)
    F, g = np.zeros((p, states, states)), np.zeros(states)
    for k in range(len(steps) + 1):
        m, s = μ[:, out], Σ[:, out, out]
        mean[k] = 0.5 * float(a @ (m**2 + s))
        if not mean_only:
            gaussian = float((a**2) @ (m**2 * s + 0.5 * s**2))
            variance[k] = gaussian + 0.25 * float((mixing * K[:, square, :, square]).sum())
        if k == len(steps):
            break
        F[:, 0, 0], g[0] = 1.0 - steps[k] * a, -steps[k]
        if average is not None:
            F[:, 1, 0], F[:, 1, 1] = average[k], 1.0 - average[k]
        μ = np.einsum("jab,jb->ja", F, μ)
        Σ = F @ Σ @ F.transpose(0, 2, 1) + V * np.outer(g, g)
        if mean_only:
            continue
        FF = np.einsum("jab,jcd->jacbd", F, F).reshape(p, states**2, states**2)
        gg = np.outer(g, g).reshape(-1)
        K = (FF @ K.reshape(p, states**2, -1)).reshape(p * states**2, p, states**2)
        K = np.einsum("rjb,jab->rja", K, FF).reshape(p, states**2, p, states**2)
        K += κ * gg[:, None, None] * gg
    none = np.zeros(len(mean))
    if mean_only:
        return Moments("exact", mean, none, "none", np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    return Moments("exact", mean, none, "exact", variance, none)
