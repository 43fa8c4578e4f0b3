"""One answer that tells where columns lie: noisy shares of the rows in each interval of every column.

Formal guarantee. Of each of J columns a row is in one of `BINS` equal intervals of [−1, 1]; the first and last have all that is
beyond. The shares of n units, each over J, are a mean of vectors of L1 norm 1. So replacing a unit moves them by at most 2/n
in L1, and with Laplace noise of scale 2/(nε) on each they are ε-differentially private. Undone, the noise on each share has
scale 2J/(nε). A person's rows have weights that add up to 1 (docs/proofs/histograms.md).

No model follows from this answer. Whoever knows no range asks it first, of columns on a scale of logarithms.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError
from copriv.mechanisms.statistics import OfShares
from copriv.model.records import Records
from copriv.privacy.clipping import exact_sum
from copriv.terms import AgreedTerms
from copriv.types import Array, Loss

BINS = 241
"""Intervals of a column; an odd number, so that one of them is about 0."""
_BETWEEN = np.linspace(-1.0, 1.0, BINS + 1)[1:-1]


@dataclass(frozen=True)
class ColumnHistograms:
    """What is released: the share of rows in each interval of the first column, then of the second, and so on."""

    columns: int
    """J, without an intercept, which stands last."""

    @property
    def bounds(self) -> dict[str, float]:
        return {}

    @property
    def unit(self) -> Float[Array, " answer"]:
        return np.full(BINS * self.columns, float(self.columns))

    def of(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The shares themselves, which depend on neither loss nor θ. Private."""
        sums = []
        for rows in records.blocks():
            own = rows.features[:, : self.columns].T
            counted = [np.bincount(np.searchsorted(_BETWEEN, column), rows.weight, BINS) for column in own]
            sums.append(np.concatenate(counted).astype(float))
        return np.asarray(exact_sum(sums) / records.weight.sum())


class Histograms(OfShares):
    """Pure ε, one answer: where columns lie; the model stays at the start."""

    name = "histograms"
    label = "histograms"
    phrase = "noisy histograms of columns"

    def check(self, agreed: AgreedTerms) -> None:
        super().check(agreed)
        if not _columns(agreed) or agreed.data.categories:
            raise AgreementError(
                'data.features: mechanism "histograms" is of columns of numbers; name them, without categories'
            )

    def numbers(self, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> ColumnHistograms:
        """Raises AgreementError where rows have other columns than those that are agreed."""
        columns = _columns(agreed)
        if n_parameters != columns + agreed.model.intercept:
            raise AgreementError(f"data.features: {columns} are agreed, and rows have {n_parameters} numbers")
        return ColumnHistograms(columns)

    def histograms(self, agreed: AgreedTerms) -> int:
        return _columns(agreed)

    def bins(self, agreed: AgreedTerms) -> str:
        return f"in {BINS} intervals of each of {_columns(agreed)} columns"

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return BINS * _columns(agreed)


def _columns(agreed: AgreedTerms) -> int:
    """J."""
    return len(agreed.data.features or ())
