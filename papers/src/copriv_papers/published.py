"""The noise of A's published experiment code. It is NOT private, and it exists to meet published numbers only.

That code draws one Laplace number for an answer and adds it to every coordinate, so that differences of coordinates
come out exact (erratum 7). Simulation takes it through its `noise` argument; no owner that serves answers can reach it.
"""

import numpy as np
from jaxtyping import Float

from copriv.types import Array


class OneNumberAnAnswer:
    """Standard Laplace draws, one for an answer, repeated over its p coordinates.

    Run r's draws depend on (seed, r) alone, as those of `simulate` do.
    """

    CHUNK = 64

    def __init__(self, seed: int, first_run: int, runs: int, members: int, n_parameters: int) -> None:
        seeds = [np.random.SeedSequence(seed, spawn_key=(first_run + r, 7)) for r in range(runs)]
        self._streams = [np.random.default_rng(s) for s in seeds]
        self._members, self._p = members, n_parameters
        self._chunk: Array = np.empty((0, runs, members, 1))

    def __call__(self, k: int) -> Float[Array, "runs members p"]:
        """Iteration k's draws; iterations are asked for in order."""
        at = k % self.CHUNK
        if at == 0:
            size = (self.CHUNK, self._members, 1)
            self._chunk = np.stack([stream.laplace(size=size) for stream in self._streams], axis=1)
        return np.broadcast_to(self._chunk[at], (*self._chunk[at].shape[:2], self._p))
