"""The least E ψ for owners of any noise: the lower envelope of all settings that were priced."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.types import Array


@dataclass(frozen=True, eq=False)
class NoiseCurve:
    """The least E ψ for owners of noise ν, each ν with its own best setting: what owners are valued by."""

    fixed: Float[Array, " settings"]
    slope: Float[Array, " settings"]

    @classmethod
    def of(cls, fixed: Float[Array, " settings"], slope: Float[Array, " settings"]) -> "NoiseCurve":
        """Only settings that are best for some ν ≥ 0 are kept: the lower envelope of lines fixed + slope·ν.

        Those are the corners of the lower left hull of the points (slope, fixed).
        """
        # Where no line of a smaller slope begins lower: all others are above one of these everywhere.
        order = np.lexsort((fixed, slope))
        lowest = np.minimum.accumulate(fixed[order])
        front = order[np.concatenate([[True], fixed[order][1:] < lowest[:-1]])]
        hull: list[tuple[float, float, int]] = []
        for s, f, i in zip(slope[front].tolist(), fixed[front].tolist(), front.tolist(), strict=True):
            while len(hull) > 1 and _above(hull[-2], hull[-1], (s, f)):
                hull.pop()
            hull.append((s, f, i))
        index = [i for _, _, i in hull]
        return cls(fixed[index], slope[index])

    def at(self, noise: float | Array) -> Any:
        """E ψ at ν (a number or an array of them)."""
        ν = np.asarray(noise, dtype=np.float64)
        return (self.fixed + self.slope * ν[..., None]).min(axis=-1)

    def derivative(self, noise: float) -> float:
        """dψ/dν at ν."""
        return float(self.slope[np.argmin(self.fixed + self.slope * noise)])


def _above(left: tuple[float, float, int], middle: tuple[float, float, int], right: tuple[float, float]) -> bool:
    """Whether the middle one of three points, in order of slope, is not below the line between the others."""
    return (middle[1] - left[1]) * (right[0] - left[0]) >= (right[1] - left[1]) * (middle[0] - left[0])
