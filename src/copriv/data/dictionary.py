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

Random waves (`copriv.data.random_features`), where they are agreed, are applied to its components and kept in the same file.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from copriv.data.random_features import RandomFeatures
from copriv.errors import DataError
from copriv.formatting.cards import Shown
from copriv.types import Array
from copriv.validation import count, finite_array, positive

MEAN_SQUARE = 1e-4
"""Mean square of each feature on the public rows: 1/10,000, from the papers' 10,000 public rows (A, §V-A)."""

_FORMAT, _WITH_WAVES = "copriv.dictionary/1", "copriv.dictionary/2"
"""Two schemas, so that a reader without waves refuses a file with them."""


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
        if features.shape[1] != len(self.mean):
            raise DataError(
                f"dictionary: made for {len(self.mean)} columns, the table has {features.shape[1]}; owners and learner "
                "must use one schema"
            )
        # Row by row in effect; einsum keeps a row's result independent of the rows beside it, which BLAS does not.
        mapped: Array = np.einsum("rc,cp->rp", features - self.mean, self.matrix)
        return mapped if self.waves is None else self.waves.apply(mapped)

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
