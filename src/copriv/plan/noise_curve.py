"""The least E ψ for owners of any noise: the lower envelope of all settings that were priced."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.formatting.cards import Shown
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class NoiseCurve(Shown):
    """The least E ψ over settings as a function of the noise ν, by which owners are valued.

    >>> import numpy as np
    >>> from copriv.plan import NoiseCurve
    >>> curve = NoiseCurve.of(np.array([0.0, 1.0]), np.array([4.0, 0.5]))
    >>> curve.at(0.1), curve.at(10.0)
    (np.float64(0.4), np.float64(6.0))
    """

    fixed: Float[Array, " settings"]
    slope: Float[Array, " settings"]

    @classmethod
    def of(cls, fixed: Float[Array, " settings"], slope: Float[Array, " settings"]) -> "NoiseCurve":
        """Keep the settings that are best for some ν ≥ 0: the lower envelope of the lines fixed + slope·ν.

        They are the corners of the lower left hull of the points (slope, fixed).
        """
        # A line is above another one everywhere if its slope and its value at 0 are larger.
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

    def through(self, noise: float, value: float, start: float) -> "NoiseCurve":
        """The curve adjusted to be `value` at ν, and `start`, ψ of the model that runs begin with, for infinite noise.

        First the noise is multiplied by at most 4 (half the budget), which does not change the cost without noise. The
        remaining factor multiplies the cost: fully for the settings that are best at ν or with less noise, and interpolated
        (in the logarithm of the cost without noise) to `start` for flatter ones. The curve never exceeds `start`, unless
        `value` does: then the factor multiplies the whole curve.
        """
        if not (value > 0 and noise > 0 and np.isfinite(value)):
            return self
        with np.errstate(divide="ignore", invalid="ignore"):
            reaches = float(
                np.nanmax((value - self.fixed) / self.slope)
            )  # the ν at which the lowest line is at `value`
        fixed, slope = self.fixed, self.slope * min(max(reaches / noise, 0.25), 4.0)
        here = int(np.argmin(fixed + slope * noise))
        times = np.full(len(fixed), value / float(fixed[here] + slope[here] * noise))
        flattest = int(np.argmin(slope))
        if value >= start:
            return NoiseCurve(fixed * times, slope * times)
        flatter = slope < slope[here]
        if flatter.any() and (raised := start / (times[here] * fixed[flattest])) > 1.0:
            f = np.maximum(fixed, 1e-300)
            place = np.clip(np.log(f / f[here]) / np.log(f[flattest] / f[here]), 0.0, 1.0)
            times = np.where(flatter, times * raised**place, times)
        return NoiseCurve(np.append(start, fixed * times), np.append(0.0, slope * times))

    def derivative(self, noise: float) -> float:
        """dψ/dν at ν."""
        return float(self.slope[np.argmin(self.fixed + self.slope * noise)])


def _above(left: tuple[float, float, int], middle: tuple[float, float, int], right: tuple[float, float]) -> bool:
    """Whether the middle one of three points, in order of slope, is not below the line between the others."""
    return (middle[1] - left[1]) * (right[0] - left[0]) >= (right[1] - left[1]) * (middle[0] - left[0])
