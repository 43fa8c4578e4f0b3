"""Runs of the rules written in θ itself from the algorithms: no eigenvectors, no kinds of owners, many runs at once."""

import numpy as np


def costs_of_runs(rule, quadratic, n, b, step, T, start, runs, rng):
    """f(θ_k) − f(θ*) of `runs` runs, k after k updates, straight from the algorithms."""
    H, c, σ = quadratic.H, quadratic.c, quadratic.regularizer.strength
    N, p, ω = len(n), len(start), n / n.sum()
    least = quadratic.value(quadratic.free_minimum())
    θ = np.tile(start, (runs, 1))
    costs = [quadratic.value(θ) - least]
    every = np.arange(runs)

    def Q(at):
        return 2 * (at @ H - c)

    if rule in ("S1", "S2", "S2 last"):
        average = θ.copy()
        for k in range(1, T):
            noise = sum(ω[i] * rng.laplace(scale=b[i], size=(runs, p)) for i in range(N))
            average = (k - 1) / (1 / np.sqrt(T) + k) * average + (1 / np.sqrt(T) + 1) / (1 / np.sqrt(T) + k) * θ
            γ = step / (T**2 * k) if rule == "S1" else step / np.sqrt(k)
            θ = θ - γ * (σ * θ + Q(θ) + noise)
            costs.append(quadratic.value(average if rule == "S2" else θ) - least)
        return np.array(costs).T
    who = rng.integers(N, size=(T, runs))
    if rule == "A1":
        copies = np.tile(start, (runs, N, 1))
        for i in who:
            middle = (θ + copies[every, i]) / 2
            answer = Q(middle) + rng.laplace(size=(runs, p)) * b[i, None]
            pull = σ * middle
            copies[every, i] = middle - N * step / (T**2 * σ) * (pull / (2 * N) + ω[i, None] * answer)
            θ = middle - 0.5 * step / (T**2 * σ) * pull
            costs.append(quadratic.value(θ) - least)
        return np.array(costs).T
    memory, heard = np.zeros((runs, N, p)), np.zeros((runs, N))
    for k, i in enumerate(who, start=1):
        memory[every, i] = Q(θ) + rng.laplace(size=(runs, p)) * b[i, None]
        heard[every, i] = n[i]
        G = np.einsum("ri,rip->rp", heard / heard.sum(axis=1, keepdims=True), memory)
        θ = θ - step / (1 + k / N) * (σ * θ + G)
        costs.append(quadratic.value(θ) - least)
    return np.array(costs).T
