"""One answer that looks for the scale of a table: noisy shares of its rows by length, and of its targets by size.

Formal guarantee. A row is in one bin of lengths, ‖x‖₂ in (r/2, r], (r/4, r/2], … without its intercept, and in one of sizes,
|y| in (½, 1], (¼, ½], …; the first bins have all that is longer, the last ones all that is shorter. J = 2 histograms, and J = 1
for classes, whose targets have one size. The J·K shares of n units, each over J, are a mean of vectors of L1 norm at most 1. So
replacing a unit moves them by at most 2/n in L1, and with Laplace noise of scale 2/(nε) on each they are ε-differentially
private. Undone, the noise has scale 2J/(nε) on each share. A person's rows have weights that add up to 1.

No model follows from this answer: it says in which unit the next one is to be asked (`copriv.estimators.declared`).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError
from copriv.losses import OfMargin, named
from copriv.mechanisms.mechanism import Guarantee, noise_in_words
from copriv.mechanisms.one_answer import Common, Draft, OneAnswer, in_memory
from copriv.model.records import InBlocks, Records
from copriv.privacy.clipping import ROUNDING, exact_sum
from copriv.privacy.noise import Law, Noise, Order, Releases
from copriv.rules.one_answer import Unmoved
from copriv.rules.rule import Descent, UpdateRule
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss
from copriv.validation import count, positive

BINS = 9
"""K: lengths down to 2⁻⁸ of the longest are told apart."""


@dataclass(frozen=True)
class Histograms:
    """What is released: shares of rows by length (K), then of targets by size (K, unless they are classes)."""

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

    def of(self, records: Records) -> Float[Array, " answer"]:
        """The shares themselves. Private."""
        sums = []
        for rows in records.blocks():
            x = rows.features
            sizes = [np.hypot.reduce(x[:, :-1] if self.intercept else x, axis=1) / self.reach]
            sizes += [np.abs(rows.target)] * self.of_targets
            # Bin 0 is of sizes above ½, 1 of those above ¼, …
            bins = [BINS - 1 - np.searchsorted(0.5 ** np.arange(BINS - 1, 0, -1), one) for one in sizes]
            sums.append(np.concatenate([np.bincount(one, rows.weight, BINS) for one in bins]))
        return np.asarray(exact_sum(sums) / records.weight.sum())


@dataclass(frozen=True)
class LengthsAnswer:
    """The whole ε of a run in one answer. Raises InvalidInput where the noise cannot be certified."""

    histograms: Histograms
    epsilon: Fraction
    units: int

    ahead = None

    def __post_init__(self) -> None:
        positive("reach", self.histograms.reach)
        count("records", self.units)
        _ = self._noise.scale

    @property
    def scale(self) -> float:
        """Scale of the noise on each share."""
        return float(self._noise.scale * self.histograms.number)

    @cached_property
    def _noise(self) -> Releases:
        from copriv.privacy.laplace import LaplaceAnswer  # imports OpenDP, which a simulation never needs

        return LaplaceAnswer(2.0 / self.units + 2.0 * ROUNDING, self.epsilon, BINS * self.histograms.number)

    def answer(self, loss: Loss, records: Records | InBlocks, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The noisy shares."""
        exact, J = self.histograms.of(in_memory(records)), self.histograms.number
        return self._noise.release(exact / J) * J


class Lengths(OneAnswer):
    """Pure ε, one answer: how long rows are and how large targets; the model stays at the start."""

    name = "lengths"
    guarantee = Guarantee.PURE
    terms = ("reach",)
    label = "lengths"
    phrase = "noisy lengths of rows"
    sums_records = True
    gives_model = False

    def check(self, agreed: AgreedTerms) -> None:
        super().check(agreed)
        Histograms.agreed(agreed)

    def law(self, agreed: AgreedTerms) -> Law:
        return Law.LAPLACE

    def order(self, agreed: AgreedTerms) -> Order:
        return 1

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        """Of the noise on each share."""
        self.check_delta(agreed)
        return 2.0 * Histograms.agreed(agreed).number / (owner.records * owner.budget[0])

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return BINS * Histograms.agreed(agreed).number

    def in_earnest(self, agreed: AgreedTerms, owner: OwnerTerms, n_parameters: int, loss: Loss) -> LengthsAnswer:
        return LengthsAnswer(Histograms.agreed(agreed), self.cost(agreed, owner)[0], owner.records)

    def draft(self, agreed: AgreedTerms, owner: OwnerTerms, records: Records, common: Common) -> Draft:
        exact = Histograms.agreed(agreed).of(records)
        noise = Noise(Law.LAPLACE, np.full(len(exact), self.scale(agreed, owner)))
        return Draft((noise,), lambda drawn: exact + drawn)

    def rule(
        self, agreed: AgreedTerms, descent: Descent, weights: Float[Array, " owners"], n_parameters: int,
        feature_bound: float | None = None,
    ) -> UpdateRule:  # fmt: skip
        return Unmoved(descent, weights, self.length(agreed, n_parameters))

    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        units = f"{owner.records} {'persons' if owner.unit else 'records'}"
        targets = " and of their targets by size" if Histograms.agreed(agreed).of_targets else ""
        noise = noise_in_words(Law.LAPLACE, self.scale(agreed, owner))
        return f"one answer: shares of {units} by length{targets}, in bins that halve", f"{noise} on each share"


def shares(noisy: Float[Array, " bins"]) -> Float[Array, " bins"]:
    """The nearest shares that are not negative and add up to 1, from a noisy histogram."""
    falling = np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - 1.0) / np.arange(1.0, len(noisy) + 1.0)
    return np.asarray(np.maximum(noisy - over[falling > over][-1], 0.0))
