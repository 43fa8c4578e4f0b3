"""An independent, slow second writing of the whole system, for tests to compare against.

Written from the algorithms alone and importing nothing from the package: Python loops over owners, records and
iterations, numpy only for vectors of length p. Every function takes plain values:

    records   one owner's data: a list of (x, y), x a vector of length p, y a number
    owners    a list of such lists
    loss      "squared", "logistic", "hinge", or ("huber", threshold)
    bound     the gradient bound Ξ in the L1 norm; None: nothing is clipped
    sigma     g(θ) = (σ/2) θᵀθ
    theta_max Θ = {‖θ‖_∞ ≤ theta_max}; None: no constraint
    noise     what each answer adds to its gradient, drawn by the caller

Every run returns the model after each round or event with the start as entry 0.
Sources: S is "The Value of Collaboration ...", A is "The Cost of Privacy in Asynchronous ...".
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]
Matrix = np.ndarray[Any, np.dtype[np.float64]]
Record = tuple[Vector, float]
LossName = str | tuple[str, float]


# One record


def loss_value(name: LossName, theta: Vector, x: Vector, y: float) -> float:
    """ℓ(θ; x, y) with the prediction z = xᵀθ; labels of logistic and hinge are −1 and +1."""
    z = float(np.dot(x, theta))
    if name == "squared":
        return (z - y) ** 2
    if name == "logistic":
        margin = y * z
        if margin < 0:  # log(1 + e^−m) = −m + log(1 + e^m), which cannot overflow
            return -margin + math.log1p(math.exp(margin))
        return math.log1p(math.exp(-margin))
    if name == "hinge":
        return max(0.0, 1 - y * z)
    threshold = huber_threshold(name)
    if abs(z - y) <= threshold:
        return (z - y) ** 2
    return 2 * threshold * abs(z - y) - threshold**2


def loss_gradient(name: LossName, theta: Vector, x: Vector, y: float) -> Vector:
    """∇_θ ℓ(θ; x, y); at the hinge's kink yz = 1 the subgradient 0."""
    x = np.asarray(x, dtype=float)
    z = float(np.dot(x, theta))
    if name == "squared":
        return 2 * (z - y) * x
    if name == "logistic":
        margin = y * z
        if margin < 0:
            return -y / (1 + math.exp(margin)) * x
        return -y * math.exp(-margin) / (1 + math.exp(-margin)) * x
    if name == "hinge":
        return -y * x if y * z < 1 else np.zeros(len(x))
    threshold = huber_threshold(name)
    if abs(z - y) <= threshold:
        return 2 * (z - y) * x
    return 2 * threshold * math.copysign(1.0, z - y) * x


def huber_threshold(name: LossName) -> float:
    """h of ("huber", h); any other name that gets here is a mistake in a test."""
    if isinstance(name, str) or name[0] != "huber":
        raise ValueError(f"unknown loss {name!r}: want squared, logistic, hinge or ('huber', threshold)")
    return name[1]


def clip_l1(gradient: Vector, bound: float | None) -> Vector:
    """The gradient, shrunk onto the L1 ball of radius `bound` if it is outside."""
    norm = sum(abs(float(coordinate)) for coordinate in gradient)
    if bound is None or norm <= bound:
        return np.array(gradient, dtype=float)
    return np.asarray(gradient, dtype=float) * (bound / norm)


# One owner


def private_answer(
    loss: LossName,
    records: Sequence[Record],
    theta: Vector,
    bound: float | None,
    noise: Vector,
    weights: Sequence[float] | None = None,
) -> Vector:
    """Q̄ = Σ_r w_r clip(∇ℓ_r) / Σ_r w_r + noise (S eq. 5-6, A eq. 3-4); without weights, the plain mean."""
    if weights is None:
        weights = [1.0] * len(records)
    total = np.zeros(len(theta))
    total_weight = 0.0
    for (x, y), weight in zip(records, weights, strict=True):
        total = total + weight * clip_l1(loss_gradient(loss, theta, x, y), bound)
        total_weight += weight
    return total / total_weight + noise


def noise_scale(bound: float, m: int, n: int, epsilon: float, kappa: int = 1) -> float:
    """b = 2 Ξ m κ / (n ε): the Laplace scale of every coordinate of every one of m answers."""
    return 2 * bound * m * kappa / (n * epsilon)


def group_answer(records_of_owners: Sequence[int], answers: Sequence[Vector], n: int) -> Vector:
    """Σ_i (n_i/n_G) Q̄_i, the answer of owners who always answer together (A, Remark 2); n is n_G = Σ n_i."""
    if sum(records_of_owners) != n:
        raise ValueError(f"a group of {records_of_owners} records has {sum(records_of_owners)}, not {n}")
    total = np.zeros(len(answers[0]))
    for records, answer in zip(records_of_owners, answers, strict=True):
        total = total + (records / n) * answer
    return total


# The whole problem


def fitness(loss: LossName, owners: Sequence[Sequence[Record]], theta: Vector, sigma: float) -> float:
    """f(θ) = (σ/2) θᵀθ + (1/n) Σ ℓ over all records of all owners; nothing is clipped in it."""
    total = 0.0
    for records in owners:
        for x, y in records:
            total += loss_value(loss, theta, x, y)
    return sigma / 2 * float(np.dot(theta, theta)) + total / total_records(owners)


def total_records(owners: Sequence[Sequence[Record]]) -> int:
    """n = Σ n_i."""
    return sum(len(records) for records in owners)


def project(theta: Vector, theta_max: float | None) -> Vector:
    """Π_Θ: each coordinate moved to the nearest point of [−theta_max, theta_max]."""
    if theta_max is None:
        return np.array(theta, dtype=float)
    return np.array([min(max(float(coordinate), -theta_max), theta_max) for coordinate in theta])


# The four rules


def pooled_private_gradient(
    loss: LossName,
    owners: Sequence[Sequence[Record]],
    bound: float | None,
    sigma: float,
    theta: Vector,
    noise_of_owner: Sequence[Vector],
) -> Vector:
    """∇g(θ) + Σ_i (n_i/n) Q̄_i(θ): the direction of both synchronous rules."""
    n = total_records(owners)
    direction = sigma * theta
    for i, records in enumerate(owners):
        answer = private_answer(loss, records, theta, bound, noise_of_owner[i])
        direction = direction + (len(records) / n) * answer
    return direction


def run_s1(
    loss: LossName,
    owners: Sequence[Sequence[Record]],
    bound: float | None,
    sigma: float,
    step: float,
    horizon: int,
    start: Vector,
    noise: Sequence[Sequence[Vector]],
) -> list[Vector]:
    """S Alg. 1: [θ[1], ..., θ[T]]; `step` is ρ, and noise[r][i] is in owner i's answer of round k = r + 1.

    T − 1 rounds of answers make T models. The rule has no projection.
    """
    T, ρ = horizon, step
    theta = np.array(start, dtype=float)
    models = [theta]
    for k in range(1, T):  # k = 1 … T−1
        direction = pooled_private_gradient(loss, owners, bound, sigma, theta, noise[k - 1])
        theta = theta - ρ / (T**2 * k) * direction
        models.append(theta)
    return models


def run_s2(
    loss: LossName,
    owners: Sequence[Sequence[Record]],
    bound: float | None,
    sigma: float,
    step: float,
    horizon: int,
    theta_max: float | None,
    start: Vector,
    noise: Sequence[Sequence[Vector]],
) -> tuple[list[Vector], list[Vector]]:
    """S Alg. 2: ([θ[1], ..., θ[T]], [θ̄[1], ..., θ̄[T]]); `step` is c₁, noise as in `run_s1`.

    θ̄[1] = θ[1], and θ̄[k+1] averages θ[k] in, not θ[k+1].
    """
    T, c1 = horizon, step
    theta = np.array(start, dtype=float)
    average = theta
    models, averages = [theta], [average]
    for k in range(1, T):  # k = 1 … T−1
        direction = pooled_private_gradient(loss, owners, bound, sigma, theta, noise[k - 1])
        denominator = 1 / math.sqrt(T) + k
        average = (k - 1) / denominator * average + (1 / math.sqrt(T) + 1) / denominator * theta
        theta = project(theta - c1 / math.sqrt(k) * direction, theta_max)
        models.append(theta)
        averages.append(average)
    return models, averages


def learner_coefficient(learner_step: str, N: int) -> float:
    """c_L of A1: 1/2 is what the proof needs, (N−1)/N is what A eq. (7) prints; equal at N = 2."""
    if learner_step == "corrected":
        return 1 / 2
    if learner_step == "printed":
        return (N - 1) / N
    raise ValueError(f"unknown learner step {learner_step!r}: want corrected or printed")


def run_a1(
    loss: LossName,
    owners: Sequence[Sequence[Record]],
    bound: float | None,
    sigma: float,
    step: float,
    horizon: int,
    theta_max: float | None,
    start: Vector,
    noise: Sequence[Vector],
    schedule: Sequence[int],
    learner_step: str = "corrected",
    shares: Sequence[float] | None = None,
) -> list[Vector]:
    """A Alg. 1: θ_L at the start and after each event k = 1 … T; `step` is ρ.

    noise[k−1] and schedule[k−1] belong to event k. The learner's model and every owner's copy begin at `start`
    (the paper: 0). `shares` are the owners' shares of the communications: owner i's gradient term is multiplied
    by 1/(N share_i) (A, Remark 4); None means 1/N each, no correction.
    """
    N, T, n, ρ, σ = len(owners), horizon, total_records(owners), step, sigma
    c_L = learner_coefficient(learner_step, N)
    learner = np.array(start, dtype=float)
    copies = [np.array(start, dtype=float) for _ in owners]
    models = [learner]
    for k in range(1, T + 1):
        i = schedule[k - 1]
        middle = (learner + copies[i]) / 2
        answer = private_answer(loss, owners[i], middle, bound, noise[k - 1])
        correction = 1.0 if shares is None else 1 / (N * shares[i])
        regularizer_gradient = σ * middle
        owner_direction = regularizer_gradient / (2 * N) + correction * (len(owners[i]) / n) * answer
        copies[i] = project(middle - N * ρ / (T**2 * σ) * owner_direction, theta_max)
        learner = project(middle - c_L * ρ / (T**2 * σ) * regularizer_gradient, theta_max)
        models.append(learner)
    return models


def run_a2(
    loss: LossName,
    owners: Sequence[Sequence[Record]],
    bound: float | None,
    sigma: float,
    step: float,
    horizon: int,
    theta_max: float | None,
    start: Vector,
    noise: Sequence[Vector],
    schedule: Sequence[int],
) -> list[Vector]:
    """Our rule with a memory: θ at the start and after each event k = 1 … T; `step` is α, α_k = α/(1 + k/N).

    noise[k−1] and schedule[k−1] belong to event k, so the first step is α/(1 + 1/N). An owner's weight in the
    memory does not depend on how often it answered, so there is nothing to correct for its share.
    """
    N, T, α = len(owners), horizon, step
    theta = np.array(start, dtype=float)
    newest: dict[int, Vector] = {}
    models = [theta]
    for k in range(1, T + 1):
        i = schedule[k - 1]
        newest[i] = private_answer(loss, owners[i], theta, bound, noise[k - 1])
        n_heard = sum(len(owners[j]) for j in newest)
        gradient = np.zeros(len(theta))
        for j in newest:
            gradient = gradient + (len(owners[j]) / n_heard) * newest[j]
        theta = project(theta - α / (1 + k / N) * (sigma * theta + gradient), theta_max)
        models.append(theta)
    return models


# Exact moments of the asynchronous rules: squared loss, no clipping, no projection, every schedule


def squared_answer(records: Sequence[Record], p: int) -> tuple[Matrix, Vector]:
    """(R, r) with Q(θ) = R θ − r for the squared loss: R = (2/n) Σ x xᵀ, r = (2/n) Σ y x."""
    R, r = np.zeros((p, p)), np.zeros(p)
    for x, y in records:
        R = R + 2 / len(records) * np.outer(x, x)
        r = r + 2 / len(records) * y * np.asarray(x, dtype=float)
    return R, r


def expected_squared_fitness(
    owners: Sequence[Sequence[Record]], mean: Vector, covariance: Matrix, sigma: float
) -> float:
    """E f(θ) for θ of this mean and covariance, record by record: E(xᵀθ − y)² = (xᵀμ − y)² + xᵀΣx."""
    total = 0.0
    for records in owners:
        for x, y in records:
            total += (float(np.dot(x, mean)) - y) ** 2 + float(np.dot(x, covariance @ x))
    regularizer = sigma / 2 * (float(np.dot(mean, mean)) + float(np.trace(covariance)))
    return regularizer + total / total_records(owners)


def all_schedules(N: int, T: int) -> list[tuple[float, tuple[int, ...]]]:
    """Every sequence of T independent uniform choices of an owner, with its probability N^−T."""
    return [(N**-T, schedule) for schedule in itertools.product(range(N), repeat=T)]


def moments_over_schedules(
    owners: Sequence[Sequence[Record]],
    sigma: float,
    horizon: int,
    state: Vector,
    p: int,
    maps_of_schedule: Any,
    schedules: Sequence[tuple[float, Sequence[int]]],
) -> tuple[list[float], list[Vector], list[Matrix]]:
    """(E f(θ_k), E θ_k, E θ_k θ_kᵀ) for k = 0 … T, where θ is the first p entries of the stacked state.

    maps_of_schedule(schedule) lists one (M, v, C) an event: state ← M state + v + noise of covariance C.
    """
    expected_fitness = [0.0] * (horizon + 1)
    first = [np.zeros(p) for _ in range(horizon + 1)]
    second = [np.zeros((p, p)) for _ in range(horizon + 1)]
    for probability, schedule in schedules:
        mean, covariance = np.array(state, dtype=float), np.zeros((len(state), len(state)))
        maps = maps_of_schedule(schedule)
        for k in range(horizon + 1):
            if k > 0:
                M, v, C = maps[k - 1]
                mean, covariance = M @ mean + v, M @ covariance @ M.T + C
            μ, Σ = mean[:p], covariance[:p, :p]
            expected_fitness[k] += probability * expected_squared_fitness(owners, μ, Σ, sigma)
            first[k] = first[k] + probability * μ
            second[k] = second[k] + probability * (Σ + np.outer(μ, μ))
    return expected_fitness, first, second


def enumerate_a1_mean_and_second_moment(
    owners: Sequence[Sequence[Record]],
    sigma: float,
    step: float,
    horizon: int,
    start: Vector,
    noise_scales: Sequence[float],
    learner_step: str = "corrected",
    shares: Sequence[float] | None = None,
    schedules: Sequence[tuple[float, Sequence[int]]] | None = None,
) -> tuple[list[float], list[Vector], list[Matrix]]:
    """Exact (E f(θ_L,k), E θ_L,k, E θ_L,k θ_L,kᵀ), k = 0 … T, of A1 with Laplace noise of scale noise_scales[i].

    Squared loss, nothing clipped or projected. `schedules` are (probability, schedule) pairs; None: all N^T,
    equally likely. `shares` only sets the correction of Remark 4; it does not change what is likely.
    """
    N, T, n, p, ρ, σ = len(owners), horizon, total_records(owners), len(start), step, sigma
    c_L = learner_coefficient(learner_step, N)
    size = (N + 1) * p  # state: θ_L, θ_1, …, θ_N

    def maps_of_schedule(schedule: Sequence[int]) -> list[tuple[Matrix, Vector, Matrix]]:
        maps = []
        for i in schedule:
            R, r = squared_answer(owners[i], p)
            gain = N * ρ / (T**2 * σ) * len(owners[i]) / n
            if shares is not None:
                gain = gain / (N * shares[i])
            rows = slice((i + 1) * p, (i + 2) * p)
            middle = np.zeros((p, size))
            middle[:, :p] = np.eye(p) / 2
            middle[:, rows] = np.eye(p) / 2
            M, v, C = np.eye(size), np.zeros(size), np.zeros((size, size))
            M[rows] = middle - ρ / (2 * T**2) * middle - gain * (R @ middle)
            v[rows] = gain * r
            C[rows, rows] = gain**2 * 2 * noise_scales[i] ** 2 * np.eye(p)
            M[:p] = middle - c_L * ρ / T**2 * middle
            maps.append((M, v, C))
        return maps

    state = np.concatenate([start] * (N + 1))
    chosen = all_schedules(N, T) if schedules is None else schedules
    return moments_over_schedules(owners, sigma, T, state, p, maps_of_schedule, chosen)


def enumerate_a2_mean_and_second_moment(
    owners: Sequence[Sequence[Record]],
    sigma: float,
    step: float,
    horizon: int,
    start: Vector,
    noise_scales: Sequence[float],
    schedules: Sequence[tuple[float, Sequence[int]]] | None = None,
) -> tuple[list[float], list[Vector], list[Matrix]]:
    """Exact (E f(θ_k), E θ_k, E θ_k θ_kᵀ), k = 0 … T, of A2; arguments as for A1."""
    N, T, p, α = len(owners), horizon, len(start), step
    size = (N + 1) * p  # state: θ, a_1, …, a_N

    def maps_of_schedule(schedule: Sequence[int]) -> list[tuple[Matrix, Vector, Matrix]]:
        maps = []
        heard: set[int] = set()
        for k, i in enumerate(schedule, start=1):
            heard.add(i)
            n_heard = sum(len(owners[j]) for j in heard)
            R, r = squared_answer(owners[i], p)
            rows = slice((i + 1) * p, (i + 2) * p)
            # First the owner's newest answer replaces its old one ...
            ask, v_ask, C_ask = np.eye(size), np.zeros(size), np.zeros((size, size))
            ask[rows] = 0
            ask[rows, :p] = R
            v_ask[rows] = -r
            C_ask[rows, rows] = 2 * noise_scales[i] ** 2 * np.eye(p)
            # ... then the model moves against all answers that the learner remembers.
            move = np.eye(size)
            α_k = α / (1 + k / N)
            move[:p, :p] = (1 - α_k * sigma) * np.eye(p)
            for j in heard:
                move[:p, (j + 1) * p : (j + 2) * p] = -α_k * len(owners[j]) / n_heard * np.eye(p)
            maps.append((move @ ask, move @ v_ask, move @ C_ask @ move.T))
        return maps

    state = np.concatenate([start] + [np.zeros(p)] * N)
    chosen = all_schedules(N, T) if schedules is None else schedules
    return moments_over_schedules(owners, sigma, T, state, p, maps_of_schedule, chosen)
