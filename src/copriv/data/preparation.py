"""From encoded rows to records, as agreed: through the public dictionary, with or without an intercept.

The dictionary and the bound on features come from the learner's public rows and from nothing else. Each row is then
prepared from itself alone, so simulations, owners and the learner get the same numbers for the same row. The bound
changes no record: what is fitted is the fitness of the records as they are. It is a public number that some mechanisms
need, and under which a record that is longer counts for less (docs/decisions/0005-long-records-count-less.md).
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from copriv.data.dictionary import MEAN_SQUARE, PublicDictionary
from copriv.data.extreme_values import Tail
from copriv.data.schema import EncodedTable
from copriv.data.specification import DataSpecification
from copriv.model.records import Records
from copriv.types import Array
from copriv.validation import non_negative

BEYOND = 1e-4
"""feature_bound = "auto": the length ‖x‖₁ that this share of records is expected to pass."""


def public_bound(
    features: Float[Array, "records p"], agreed: float | Literal["auto"], longest: float = np.inf
) -> float | None:
    """B, the L1 bound on a record's features: as agreed, or for "auto" from the public rows' features; None for 0.

    longest: a bound that follows from how features are made; "auto" is at most this.
    "auto" extrapolates the tail of the public rows' lengths, with a shape one standard error above its estimate, because
    the private rows are more and their largest is longer.
    """
    if agreed != "auto":
        return non_negative("data.feature_bound", agreed) or None
    lengths = np.abs(features).sum(axis=1)
    return min(max(Tail.of(lengths).longer().level(BEYOND), float(lengths.max())), longest) or 1.0


@dataclass(frozen=True)
class Preparation:
    """The public parameters that turn encoded rows into records."""

    dictionary: PublicDictionary | None
    feature_bound: float | None
    """B; None: no mechanism is told one."""
    intercept: bool = False
    unit_records: int | None = None
    """How many rows of a person count at most."""

    @classmethod
    def from_public(cls, public: EncodedTable, agreed: DataSpecification) -> "Preparation":
        """Fit the dictionary, unless it is given, and the bound on features to the public rows.

        Raises DataError where the public rows are too few for the components.
        """
        dictionary, rows = agreed.dictionary, public.features
        if dictionary is None and agreed.components > 0:
            mean_square = agreed.mean_square or MEAN_SQUARE
            dictionary = PublicDictionary.fit(rows, agreed.components, mean_square=mean_square)
        if agreed.fourier_features is not None and (dictionary is None or dictionary.waves is None):
            plain = dictionary or PublicDictionary.identity(rows.shape[1])
            dictionary = plain.with_waves(rows, agreed.fourier_features, agreed.fourier_width, agreed.seed)
        made = cls(dictionary, None, agreed.intercept, agreed.unit_records)
        longest = np.inf if dictionary is None else dictionary.longest
        return replace(made, feature_bound=public_bound(made.mapped(public).features, agreed.feature_bound, longest))

    def mapped(self, encoded: EncodedTable) -> EncodedTable:
        """Map the rows by the dictionary."""
        if self.dictionary is None:
            return encoded
        return replace(encoded, features=self.dictionary.apply(encoded.features))

    def records(self, mapped: EncodedTable) -> Records:
        """Make records of mapped rows; rows of one person share a weight."""
        x, y, unit = mapped.features, mapped.target, mapped.unit
        made = Records.of(x, y) if unit is None else Records.of_persons(x, y, unit, self.unit_records)
        return made.with_intercept() if self.intercept else made
