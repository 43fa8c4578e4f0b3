"""Runs of one agreement in several worlds at once: problems of the same terms that differ in their records.

A batch of all worlds' runs costs little more than the runs of one world, as most of a small batch's time is numpy's overhead.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from copriv.model.fitness import one_thread, relative_fitness
from copriv.problem import Problem
from copriv.simulation.runs import Options, play
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Runs:
    """Trajectories of ψ and last models of the runs in each world."""

    k: Int[np.ndarray, " recorded"]
    relative_fitness: Float[Array, "worlds runs recorded"]
    theta: Float[Array, "worlds runs p"]
    """The common model; on a graph that of one owner, which differs between runs."""
    clipped: float
    """Share of the records asked that were clipped, at most over batches."""

    @classmethod
    def joined(cls, parts: "Sequence[Runs]") -> "Runs":
        """The runs of all parts, each in worlds of its own, with the iterations of the first."""
        ψ, theta = (np.concatenate([getattr(one, name) for one in parts]) for name in ("relative_fitness", "theta"))
        return cls(parts[0].k, ψ, theta, max(one.clipped for one in parts))


CELLS = 1 << 22
"""Most numbers in the records of a batch, but for one world: 32 MiB, so that many worlds of a large sample are never held."""


@one_thread()
def in_worlds(worlds: Iterable[Problem], runs: int, seed: int, record_at: Sequence[int] | None = ()) -> Runs:
    """Simulate an agreement without "auto", `runs` times in each world.

    Run r of world i has the noise and the schedule of run i·runs + r of `simulate` with the same seed.
    """
    made: list[Runs] = []
    batch: list[Problem] = []
    first = size = 0
    for world in worlds:
        cells = sum(one.features.size for one in {id(one): one for one in world.unbounded}.values())
        if batch and size + cells > CELLS:
            made.append(_batch(batch, runs, seed, record_at, first))
            first, size, batch = first + len(batch) * runs, 0, []
        batch.append(world)
        size += cells
    made.append(_batch(batch, runs, seed, record_at, first))
    return Runs.joined(made)


def _batch(worlds: Sequence[Problem], runs: int, seed: int, record_at: Sequence[int] | None, first_run: int) -> Runs:
    agreement, W = worlds[0].agreement, len(worlds)
    options = Options(W * runs, seed, record_at, first_run=first_run, workers=1)
    scales = agreement.noise_scales(worlds[0].feature_bound)
    played = play(worlds, scales, options, options.streams(agreement))
    kept = np.stack(np.split(played.kept, W, axis=1))
    ψ, theta = np.stack([psi(*one, options.threads) for one in zip(worlds, kept, strict=True)]), kept[:, -1]
    if agreement.agreement.graph is not None:  # one owner's model of each run, in turn: nobody has their mean
        owner = (first_run + np.arange(W * runs)).reshape(W, runs, 1, 1) % agreement.n_owners
        ψ, theta = ψ.mean(axis=3), np.take_along_axis(theta, owner, axis=2)[:, :, 0]
    return Runs(played.recorded, ψ.swapaxes(1, 2), theta, played.clipped)


def psi(problem: Problem, theta: Float[Array, "recorded *models p"], threads: int) -> Float[Array, "recorded *models"]:
    """ψ of every model; a thread takes about 100 of them at a time."""
    fitness, flat = problem.fitness, theta.reshape(-1, theta.shape[-1])
    parts = [flat] if fitness.quadratic is not None else np.array_split(flat, max(1, len(flat) // 100))
    if threads == 1 or len(parts) == 1:  # a thread takes longer to begin than a small problem's models do
        values = np.concatenate([*map(fitness.value, parts)])
    else:
        with ThreadPoolExecutor(threads) as pool:
            values = np.concatenate([*pool.map(fitness.value, parts)])
    return np.asarray(relative_fitness(values, problem.optimum).reshape(theta.shape[:-1]))
