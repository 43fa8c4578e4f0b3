"""E f(θ_k) of A1 and A2, exactly over the noise and over the order of owners.

**A1 without caps** (`_copies_sums`). Owners of equal weight are exchangeable and the choice is uniform, so the recursion
closes on the first and second moments of θ_L and of X = Σ x_i over each kind, and on B = E Σ x_i²: an owner drawn from
a kind has E x_i = E X/N and E x_i² = B/N. One kind costs the same for 3 owners and for a million.

**A2, caps, and clocks of different rates** (`by_counts`). A step depends on how many owners of each kind have answered how
often. The recursion is over all such counts, which is feasible for few kinds without caps, and for few owners with caps.

Noise scales may differ within a kind: new noise is independent of the past and of the order, so only the mean of 2b_i²
enters. Source: A, Alg. 1 and erratum 2; algorithms "A2, our own asynchronous rule".
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from copriv.errors import InvalidInput
from copriv.exact.by_counts import CopiesEvent, Counts, MemoryEvent, by_counts
from copriv.exact.linear_system import Directions, Order, OwnerKinds
from copriv.model.fitness import Quadratic
from copriv.rules.rule import WithCopies, WithMemory
from copriv.types import Array
from copriv.validation import count


def in_turns(
    quadratic: Quadratic,
    owners: OwnerKinds,
    recursion: WithCopies | WithMemory,
    horizon: int,
    start: object,
    order: Order = "uniform",
) -> Float[Array, " k"]:
    """E f(θ_k) − f(θ*) of any rule by which one owner answers at a time. T + 1 entries, the start first.

    Raises InvalidInput for terms that the rule cannot be run with, and for what is out of reach.
    """
    if isinstance(recursion, WithCopies):
        recursion.require(quadratic.regularizer.strength)
    T, d, caps = count("horizon", horizon), Directions.of(quadratic, start), owners.caps(horizon, order)
    kinds, caps = owners.merged(caps)
    if isinstance(recursion, WithCopies) and kinds.rates is None and caps is None and len(kinds.records) <= 400:
        return _copies_sums(d, kinds, recursion, T)  # time goes with the square of their number
    if isinstance(recursion, WithCopies) and kinds.rates is not None and caps is not None:
        raise InvalidInput(
            "owners: those with fast clocks run out of answers first, and this rule then corrects by realised shares, which no "
            "exact recursion follows; simulate these terms instead"
        )
    counts = Counts.of(kinds, caps, T, order, isinstance(recursion, WithMemory))
    most = 4e9  # nanoseconds, as estimated
    if counts.work(len(d.curvature), most) > most:
        raise InvalidInput(
            f"owners: {owners.number:,} of {len(kinds.records):,} kinds can answer in more ways than an exact recursion can "
            "follow; simulate these terms instead"
        )
    if isinstance(recursion, WithMemory):
        cost = by_counts(d, counts, MemoryEvent(d, counts, recursion.step))
    else:
        cost = by_counts(d, counts, CopiesEvent(d, counts, recursion.step, recursion.learner_step))
    return np.pad(cost, (0, T + 1 - len(cost)), mode="edge")


def _copies_sums(d: Directions, owners: OwnerKinds, recursion: WithCopies, horizon: int) -> Float[Array, " k"]:
    """E f(θ_L,k) − f(θ*) for one owner chosen uniformly at each of `horizon` events; arrays are directions × kinds.

    With m = (θ_L + x_i)/2 an event is x_i ← βm + τ − noise of variance V, θ_L ← δm − η.
    """
    α, c_L = recursion.step, recursion.learner_step
    N, n, σ = owners.number, owners.counts.astype(np.float64), d.sigma
    t, h = d.optimum[:, None], d.slope[:, None]
    ω = owners.weights
    β = 1.0 - α / 2.0 - (N * α / σ) * h * ω
    τ = (N * α * ω - α / 2.0) * t
    V = (N * α / σ * ω) ** 2 * 2.0 * owners.noise_scale**2
    δ, η = 1.0 - c_L * α, c_L * α * t
    u, r = β / 2.0, β / 2.0 - 1.0  # new − x_i = uL + r·x_i + τ − noise

    diagonal = np.arange(len(n))

    def event(l: Array, x: Array, LL: Array, LX: Array, B: Array, XX: Array, one: Array) -> tuple[Array, ...]:
        """The moments after an event; linear in those before it and in `one`, which is 1."""
        mean_x = x.sum(axis=1, keepdims=True) / N
        mean_LX = LX.sum(axis=1, keepdims=True) / N
        mean_B = B.sum(axis=1, keepdims=True) / N
        m1 = 0.5 * (l + mean_x)
        m2 = 0.25 * (LL + 2.0 * mean_LX + mean_B)
        # E ΔX_κ X_κ' and E (ΔX_κ)², of the one owner that talks
        cross = (
            r[:, :, None] * XX + u[:, :, None] * n[:, None] * LX[:, None, :] + (n * τ)[:, :, None] * x[:, None, :]
        ) / N
        change = (
            n * (u**2 * LL + (τ**2 + V) * one + 2.0 * u * τ * l) + r**2 * B + 2.0 * u * r * LX + 2.0 * r * τ * x
        ) / N  # fmt: skip
        new_B = B + (β**2 * 0.25 * (n * LL + 2.0 * LX + B) + β * τ * (n * l + x) + n * (τ**2 + V) * one - B) / N
        # E θ_L' X_κ and E θ_L' ΔX_κ
        new_LX = 0.5 * δ * (LX + XX.sum(axis=1) / N) - η * x
        new_LX = (
            new_LX
            + (
                0.5 * δ * (n * u * LL + r * LX + n * τ * l + u * LX + r * B + τ * x)
                - η * (n * u * l + r * x + n * τ * one)
            )
            / N
        )
        new_XX = XX + cross + cross.transpose(0, 2, 1)
        new_XX[:, diagonal, diagonal] += change
        new_x = x + (n * u * l + r * x + n * τ * one) / N
        return δ * m1 - η * one, new_x, δ**2 * m2 - 2.0 * δ * η * m1 + η**2 * one, new_LX, new_B, new_XX, one

    l = d.start[:, None].copy()
    x, one = n * l, np.ones_like(l)
    moments: tuple[Array, ...] = (l, x, l**2, n * l**2, n * l**2, x[:, :, None] * x[:, None, :], one)
    if len(n) == 1:
        return 0.5 * _repeated(event, moments, horizon)[:, :, 2] @ d.curvature
    squares = [moments[2][:, 0]]
    for _ in range(horizon):
        moments = event(*moments)
        squares.append(moments[2][:, 0])
    return 0.5 * np.array(squares) @ d.curvature


def _repeated(
    event: Callable[..., tuple[Array, ...]], moments: tuple[Array, ...], times: int
) -> Float[Array, "k directions moments"]:
    """The moments of one kind after 0 … `times` events, by powers of the matrix of one event."""
    p, size = len(moments[0]), len(moments)
    columns = []
    for j in range(size):
        unit = tuple(np.full_like(moment, float(i == j)) for i, moment in enumerate(moments))
        columns.append(np.stack([after.reshape(p) for after in event(*unit)], axis=1))
    matrix = np.stack(columns, axis=2)
    made = np.empty((times + 1, p, size))
    made[0] = np.stack([moment.reshape(p) for moment in moments], axis=1)
    for k in range(times):
        np.matmul(matrix, made[k][:, :, None], out=made[k + 1][:, :, None])
    return made
