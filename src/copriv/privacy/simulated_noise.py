"""Noise for simulation ONLY: numpy's Laplace and normal generators, seeded. It is NOT safe to release.

Its floating-point draws leak the value in their low-order bits. No module that serves real answers may import this
one; a linter contract and a test enforce it.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from copriv.privacy.noise import Law
from copriv.types import Array


def draws(rng: np.random.Generator, law: Law, shape: int | tuple[int, ...], shapes: Array | None = None) -> Array:
    """Draws of scale 1 from a generator.

    shapes: R of each draw along the axis before the last, for Laplace noise that owners share: differences of two gamma
    numbers of shape R, divided by √R. None: 1.
    """
    if law is Law.LAPLACE and shapes is not None and (shapes != 1).any():
        R = shapes[:, None]
        return np.asarray((rng.standard_gamma(R, size=shape) - rng.standard_gamma(R, size=shape)) / np.sqrt(R))
    return {Law.LAPLACE: rng.laplace, Law.NORMAL: rng.normal}[law](size=shape)


class SimulatedNoise:
    """Draws of scale 1 for many runs, each run from a stream of its own.

    Run r's draws depend on (seed, r) alone, not on the other runs of a batch or on the process that computes them.
    """

    CHUNK = 64
    """Largest number of iterations that are drawn at once."""
    CELLS = 1 << 21
    """Largest number of draws at once (16 MiB), but for one iteration; of sums of shares CHUNK alone decides."""

    def __init__(
        self, law: Law, seeds: Sequence[np.random.SeedSequence], shape: tuple[int, ...], length: int,
        shapes: Array | None = None,
    ) -> None:  # fmt: skip
        self._law, self._shapes, self._streams = law, shapes, [np.random.default_rng(seed) for seed in seeds]
        self._shape, self._left, self._chunk, self._at = shape, length, np.empty((0,)), 0

    def __call__(self, k: int) -> Float[Array, "runs *shape"]:
        """The next iteration's draws for every run."""
        if self._at == len(self._chunk):
            size = min(self.CHUNK, self._left)
            if self._shapes is None or (self._shapes == 1).all():  # each draw is taken from the stream by itself
                size = min(size, max(1, self.CELLS // (len(self._streams) * math.prod(self._shape))))
            self._left -= size
            self._chunk = np.stack(
                [draws(s, self._law, (size, *self._shape), self._shapes) for s in self._streams], axis=1
            )
            self._at = 0
        self._at += 1
        drawn: Array = self._chunk[self._at - 1]
        return drawn
