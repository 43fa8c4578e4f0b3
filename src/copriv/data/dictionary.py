"""The public dictionary: a linear map from the encoded columns to a few features, on which the parties train.

It is fitted on public rows only and then sent to every owner, who applies it to each row by itself (A, §V-A and V-B; S,
§IV-A). As in the papers it is an uncentred PCA with whitening: with Z the public rows, Z'Z = V D V', a row z becomes
x = z V D^{-1/2} over the largest eigenvalues. There is no intercept column; the components carry the mean.

Two choices differ from the papers, both public:

- It sees numbers over their declared sizes (docs/decisions/0001-features-as-the-papers-or-scaled.md), where the papers took
  raw ones, whose leading directions are those of the columns counted in dollars, whatever the target.
- Steps and bounds depend on the scale of x, and the papers' scale comes from their 10,000 public rows: the mean
  square of each feature there is 1/10,000. It is kept whatever the number of public rows, by the factor
  √(public rows/10,000). Another scale is agreed on as `data.mean_square`; 1/50,000 is that of A's hospitals, whose PCA is
  of 50,000 rows.

`centred` subtracts the public means first (the usual PCA); a model then needs an intercept.

Random waves, where they are agreed, are applied to its components and kept in the same file. They are public random Fourier
features: curves from a linear model, which keeps every loss convex (S, Remark 1).

    φ(x) = √(2/D) · (cos(w₁ᵀx + b₁), …, cos(w_Dᵀx + b_D)),      w_k ~ N(0, I/width²), b_k uniform on [0, 2π),

and E φ(x)ᵀφ(x′) = exp(−‖x − x′‖²/(2·width²)): a linear model over φ is nearly a kernel model with a Gaussian kernel
(Rahimi and Recht, 2007). Frequencies and phases are public, drawn from the agreement's seed, and each row is mapped from
itself alone. A bound that needs no look at any record: |φ_k| ≤ √(2/D) for each of the D numbers, so

    ‖φ(x)‖₁ ≤ D·√(2/D) = √(2D)      and      ‖φ(x)‖₂ ≤ √2,      whatever x is.

The first is the B of every mechanism and of "proved" gradient bounds. Networks with hidden layers that are trained are
outside of both papers' assumptions, and of ours: their fitness is not convex.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from copriv.errors import DataError
from copriv.formatting.cards import Shown
from copriv.types import Array
from copriv.validation import count, finite_array, positive

MEAN_SQUARE = 1e-4
"""Mean square of each feature on the public rows: 1/10,000, from the papers' 10,000 public rows (A, §V-A)."""

_FORMAT, _WITH_WAVES = "copriv.dictionary/1", "copriv.dictionary/2"
"""Two schemas, so that a reader without waves refuses a file with them."""


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


@dataclass(frozen=True, eq=False)
class PublicDictionary(Shown):
    """A row-local map x = φ((z − mean) · matrix) from encoded columns to features. Made from public rows only.

    >>> import numpy as np
    >>> from copriv.data import PublicDictionary
    >>> Z = np.random.default_rng(0).uniform(size=(50, 6))
    >>> dictionary = PublicDictionary.fit(Z, 2)
    >>> dictionary.apply(Z).shape, dictionary.names
    ((50, 2), ('pc1', 'pc2'))
    >>> PublicDictionary.from_json(dictionary.to_json()).matrix.tolist() == dictionary.matrix.tolist()
    True
    """

    mean: Float[Array, " columns"]
    """Public means that are subtracted; zeros where the PCA is uncentred."""
    matrix: Float[Array, "columns components"]
    waves: RandomFeatures | None = None
    """φ; None: the components are the features."""

    @classmethod
    def identity(cls, columns: int) -> "PublicDictionary":
        """The map that leaves every column as it is."""
        return cls(np.zeros(columns), np.eye(columns))

    @classmethod
    def fit(
        cls,
        public_features: Float[Array, "records columns"],
        components: int,
        centred: bool = False,
        mean_square: float = MEAN_SQUARE,
    ) -> "PublicDictionary":
        """Fit the leading `components` directions of the public rows, whitened to this mean square.

        Raises DataError where the public rows do not have that many directions: too few rows, or constant columns.
        """
        z = finite_array("public_features", public_features, 2)
        count("components", components)
        positive("mean_square", mean_square)
        rows, columns = z.shape
        mean = np.zeros(columns)
        if centred:
            mean = z.mean(axis=0)
        z = z - mean
        eigenvalues, vectors = np.linalg.eigh(z.T @ z / rows)
        largest = np.argsort(-eigenvalues, kind="stable")[:components]
        # eigh returns rounding errors of either sign as eigenvalues of directions in which no row differs.
        present = int((eigenvalues > eigenvalues[-1] * columns * 1e-13).sum())
        if present < components:
            raise DataError(
                f"data.components: {components} asked for, but the {rows} public rows have {present} independent "
                f"directions in {columns} columns; lower data.components or raise data.public_rows"
            )
        directions = vectors[:, largest]
        # The sign of an eigenvector is arbitrary: fixed, so that equal rows give equal dictionaries everywhere.
        signs = np.sign(directions[np.argmax(np.abs(directions), axis=0), np.arange(components)])
        whitened = directions * signs * np.sqrt(mean_square / eigenvalues[largest])
        return cls(mean, np.ascontiguousarray(whitened))

    def with_waves(
        self,
        public_features: Float[Array, "records columns"],
        features: int,
        width: float | Literal["auto"] = "auto",
        seed: int = 0,
    ) -> "PublicDictionary":
        """Append random waves of the components to the map; see `RandomFeatures.draw`."""
        plain = replace(self, waves=None)
        return replace(self, waves=RandomFeatures.draw(plain.apply(public_features), features, width, seed))

    @property
    def components(self) -> int:
        """Number of features."""
        return int(self.matrix.shape[1]) if self.waves is None else self.waves.features

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features: pc1, pc2, …, or wave1, wave2, …"""
        return tuple(f"pc{k + 1}" for k in range(self.components)) if self.waves is None else self.waves.names

    @property
    def longest(self) -> float:
        """Bound on ‖x‖₁ of any row; infinite without waves."""
        return np.inf if self.waves is None else self.waves.longest

    def apply(self, features: Float[Array, "records columns"]) -> Float[Array, "records components"]:
        """Map each row, from itself alone. Raises DataError for another number of columns."""
        self.check_columns(features.shape[1])
        # Row by row in effect; einsum keeps a row's result independent of the rows beside it, which BLAS does not.
        mapped: Array = np.einsum("rc,cp->rp", features - self.mean, self.matrix)
        return mapped if self.waves is None else self.waves.apply(mapped)

    def check_columns(self, columns: int) -> None:
        """Raise DataError for a table of another number of encoded columns."""
        if columns != len(self.mean):
            raise DataError(
                f"dictionary: made for {len(self.mean)} columns, the table has {columns}; owners and learner must use one "
                "schema"
            )

    def to_json(self) -> str:
        """Write the map, which is public, as JSON that `from_json` reads back to the same bits."""
        value: dict[str, Any] = {"schema": _FORMAT, "mean": self.mean.tolist(), "matrix": self.matrix.tolist()}
        if self.waves is not None:
            value |= {"schema": _WITH_WAVES, "fourier": self.waves.to_dict()}
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "PublicDictionary":
        """Read what `to_json` wrote. Raises DataError for anything else."""
        try:
            value: Any = json.loads(text)
            if value["schema"] not in (_FORMAT, _WITH_WAVES):
                raise DataError(f"dictionary: written as {value['schema']!r}, this version reads {_WITH_WAVES!r}")
            mean = finite_array("dictionary.mean", value["mean"], 1)
            matrix = finite_array("dictionary.matrix", value["matrix"], 2)
            waves = RandomFeatures.from_dict(value["fourier"]) if value["schema"] == _WITH_WAVES else None
        except (KeyError, TypeError, json.JSONDecodeError):
            raise DataError("dictionary: not a dictionary file; write one with PublicDictionary.to_json") from None
        if len(mean) != len(matrix):
            raise DataError(f"dictionary: {len(mean)} means for {len(matrix)} rows of the matrix; the file is damaged")
        if waves is not None and len(waves.frequencies) != matrix.shape[1]:
            raise DataError("dictionary: its waves are made for another number of components; the file is damaged")
        return cls(mean, matrix, waves)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the JSON text: equal exactly where the map is equal, bit by bit."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()
