"""One answer that looks for the scale of a table: noisy shares of its rows by length, and of its targets by interval.

Formal guarantee. A row is in one bin of lengths, ‖x‖₂ in (r/2, r], (r/4, r/2], … without its intercept, and in one of targets,
between two neighbours of `EDGES`; the first and last bins have all that is beyond. J = 2 histograms, and J = 1 for classes,
whose targets have one size. The shares of n units, each over J, are a mean of vectors of L1 norm at most 1. So
replacing a unit moves them by at most 2/n in L1, and with Laplace noise of scale 2/(nε) on each they are ε-differentially
private. Undone, the noise has scale 2J/(nε) on each share. A person's rows have weights that add up to 1.

No model follows from this answer: it says in which unit the next one is to be asked (`copriv.estimators.declared`).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError
from copriv.losses import OfMargin, named
from copriv.mechanisms.mechanism import Guarantee
from copriv.mechanisms.statistics import OfNumbers, answers_told
from copriv.model.records import Records
from copriv.privacy.clipping import exact_sum
from copriv.rules.one_answer import Unmoved
from copriv.rules.rule import Descent, UpdateRule
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss

BINS = 9
"""K: lengths down to 2⁻⁸ of the longest are told apart."""
_ENDS = 2.0**-8, 2.0**-6, 2.0**-5, 2.0**-4, 2.0**-3, 0.25, 0.5, 0.75
EDGES = np.array([*(-end for end in reversed(_ENDS)), *_ENDS])
"""Between the bins of targets: close about the middle of a range that may be far too wide, even where it may be uneven."""
TARGETS = len(EDGES) + 1
"""Bins of targets."""


@dataclass(frozen=True)
class Histograms:
    """What is released: shares of rows by length (K), then of targets by interval (unless they are classes)."""

    reach: float
    """r: the upper end of the first bin of lengths."""
    intercept: bool
    of_targets: bool

    @classmethod
    def agreed(cls, agreed: AgreedTerms) -> "Histograms":
        if agreed.agreement.reach is None:
            raise AgreementError('agreement.reach: mechanism "lengths" needs the largest length of a row')
        of_classes = isinstance(named(agreed.model.loss, agreed.model.threshold), OfMargin)
        return cls(agreed.agreement.reach, agreed.model.intercept, not of_classes)

    @property
    def number(self) -> int:
        """J."""
        return 1 + self.of_targets

    @property
    def length(self) -> int:
        """Numbers of an answer."""
        return BINS + TARGETS * self.of_targets

    @property
    def bounds(self) -> dict[str, float]:
        return {"reach": self.reach}

    @property
    def unit(self) -> Float[Array, " answer"]:
        return np.full(self.length, float(self.number))

    def of(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The shares themselves, which depend on neither loss nor θ. Private."""
        sums = []
        for rows in records.blocks():
            x = rows.features
            length = np.hypot.reduce(x[:, : x.shape[1] - self.intercept], axis=1) / self.reach
            # Bin 0 is of lengths above ½, 1 of those above ¼, …
            found = [
                np.bincount(BINS - 1 - np.searchsorted(0.5 ** np.arange(BINS - 1, 0, -1), length), rows.weight, BINS)
            ]
            if self.of_targets:
                found.append(np.bincount(np.searchsorted(EDGES, rows.target), rows.weight, TARGETS))
            sums.append(np.concatenate(found).astype(float))
        return np.asarray(exact_sum(sums) / records.weight.sum())


class Lengths(OfNumbers):
    """Pure ε, one answer: how long rows are and where targets lie; the model stays at the start."""

    name = "lengths"
    guarantee = Guarantee.PURE
    terms = ("reach",)
    label = "lengths"
    phrase = "noisy lengths of rows"
    gives_model = False

    def check(self, agreed: AgreedTerms) -> None:
        super().check(agreed)
        Histograms.agreed(agreed)

    def numbers(self, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> Histograms:
        return Histograms.agreed(agreed)

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        """Of the noise on each share."""
        self.check_delta(agreed)
        return self.deviation(agreed, owner) * Histograms.agreed(agreed).number

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return Histograms.agreed(agreed).length

    def rule(
        self, agreed: AgreedTerms, descent: Descent, weights: Float[Array, " owners"], n_parameters: int,
        feature_bound: float | None = None,
    ) -> UpdateRule:  # fmt: skip
        return Unmoved(descent, weights, self.length(agreed, n_parameters))

    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        units = f"{owner.records} {owner.counted}"
        targets = ", and of their targets by interval" if Histograms.agreed(agreed).of_targets else ""
        what = f"shares of {units} by length, in bins that halve{targets}"
        return f"{answers_told(agreed)}: {what}", f"{self.noise_told(agreed, owner)} on each share"


def shares(noisy: Float[Array, " bins"]) -> Float[Array, " bins"]:
    """The nearest shares that are not negative and add up to 1, from a noisy histogram."""
    falling = np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - 1.0) / np.arange(1.0, len(noisy) + 1.0)
    return np.asarray(np.maximum(noisy - over[falling > over][-1], 0.0))
