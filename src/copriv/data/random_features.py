"""Public random Fourier features: curves from a linear model, which keeps every loss convex (S, Remark 1).

    φ(x) = √(2/D) · (cos(w₁ᵀx + b₁), …, cos(w_Dᵀx + b_D)),      w_k ~ N(0, I/width²), b_k uniform on [0, 2π),

and E φ(x)ᵀφ(x′) = exp(−‖x − x′‖²/(2·width²)): a linear model over φ is nearly a kernel model with a Gaussian kernel
(Rahimi and Recht, 2007). Frequencies and phases are public, drawn from the agreement's seed, and each row is mapped from
itself alone.

A bound that needs no look at any record: |φ_k| ≤ √(2/D) for each of the D numbers, so

    ‖φ(x)‖₁ ≤ D·√(2/D) = √(2D)      and      ‖φ(x)‖₂ ≤ √2,      whatever x is.

The first is the B of every mechanism and of "proved" gradient bounds. Networks with hidden layers that are trained are
outside of both papers' assumptions, and of ours: their fitness is not convex.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from copriv.errors import DataError
from copriv.formatting.cards import Shown
from copriv.types import Array
from copriv.validation import count, finite_array, positive


@dataclass(frozen=True, eq=False)
class RandomFeatures(Shown):
    """The map φ: `RandomFeatures.draw(X_public, 200)` draws it, and `apply(X)` maps rows.

    >>> import numpy as np
    >>> from copriv.data import RandomFeatures
    >>> waves = RandomFeatures.draw(np.random.default_rng(0).normal(size=(50, 3)), 4)
    >>> waves.names
    ('wave1', 'wave2', 'wave3', 'wave4')
    """

    frequencies: Float[Array, "columns features"]
    phases: Float[Array, " features"]

    @classmethod
    def draw(
        cls,
        public_features: Float[Array, "records columns"],
        features: int,
        width: float | Literal["auto"] = "auto",
        seed: int = 0,
    ) -> "RandomFeatures":
        """Draw D = `features` waves for rows like the public ones.

        width: of the Gaussian kernel, in the unit of the columns; "auto": the median distance of two public rows.
        Raises DataError where the public rows are all alike, so that no width follows from them.

        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> RandomFeatures.draw(X, 200).apply(X).shape
        (50, 200)
        """
        z = finite_array("public_features", public_features, 2)
        count("data.fourier_features", features)
        h = _median_distance(z) if width == "auto" else positive("data.fourier_width", width)
        rng = np.random.default_rng([seed, 7])
        frequencies = rng.standard_normal((z.shape[1], features)) / h
        return cls(frequencies, rng.uniform(0.0, 2.0 * np.pi, features))

    @property
    def features(self) -> int:
        """D."""
        return len(self.phases)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features: wave1, wave2, …"""
        return tuple(f"wave{k + 1}" for k in range(self.features))

    @property
    def longest(self) -> float:
        """√(2D), the bound on ‖φ(x)‖₁."""
        return longest(self.features)

    def apply(self, features: Float[Array, "records columns"]) -> Float[Array, "records features"]:
        """Map each row, from itself alone. Raises DataError for another number of columns."""
        if features.shape[1] != len(self.frequencies):
            raise DataError(
                f"fourier_features: made for {len(self.frequencies)} columns, the rows have {features.shape[1]}; owners "
                "and learner must use one map"
            )
        # einsum keeps a row's result independent of the rows beside it, which BLAS does not.
        angles = np.einsum("rc,cf->rf", features, self.frequencies) + self.phases
        return np.asarray(np.sqrt(2.0 / self.features) * np.cos(angles))

    def to_dict(self) -> dict[str, Any]:
        """Return frequencies and phases as lists, which `from_dict` reads back to the same bits."""
        return {"frequencies": self.frequencies.tolist(), "phases": self.phases.tolist()}

    @classmethod
    def from_dict(cls, value: Any) -> "RandomFeatures":
        """Read what `to_dict` made. Raises DataError for anything else."""
        try:
            frequencies = finite_array("fourier.frequencies", value["frequencies"], 2)
            phases = finite_array("fourier.phases", value["phases"], 1)
        except (KeyError, TypeError):
            raise DataError("fourier: not a map of random features; it has frequencies and phases") from None
        if frequencies.shape[1] != len(phases):
            raise DataError(
                f"fourier: {frequencies.shape[1]} frequencies for {len(phases)} phases; the file is damaged"
            )
        return cls(frequencies, phases)


def longest(features: int) -> float:
    """√(2D), the bound on ‖φ(x)‖₁ for D features."""
    return float(np.sqrt(2.0 * features))


def _median_distance(rows: Float[Array, "records columns"]) -> float:
    """Median distance between two rows, over at most 1,000 evenly spaced rows."""
    some = rows[:: max(1, -(-len(rows) // 1_000))]
    squares = np.square(some).sum(axis=1)
    squared_distances = squares[:, None] + squares[None, :] - 2.0 * some @ some.T
    pairs = np.sqrt(np.maximum(squared_distances[np.triu_indices(len(some), 1)], 0.0))
    if not len(pairs) or not np.median(pairs) > 0:
        raise DataError(
            "data.fourier_width: most public rows are alike, so no width follows from them; give it as a number"
        )
    return float(np.median(pairs))
