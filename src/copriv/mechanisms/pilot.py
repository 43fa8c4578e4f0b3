"""One answer that tells how to plan: a gradient at the start, how long gradients and records are, and the mean loss.

Formal guarantee. Let W be the symmetric root of the agreed preconditioner P (the identity without one). A record adds

- z, its gradient at θ₀ in the public metric, W∇ℓ, clipped to ‖z‖₁ ≤ Ξ;
- two ones: in the bin of ‖W∇ℓ‖₁/Ξ before clipping, and in the bin of ‖x‖₁/B, both among EDGES;
- with an agreed bound L on losses, min(ℓ, L).

With shares s that add up to 1 (`SHARES`), a unit adds to n·u the vector (s₁z/Ξ, s₂·ones, s₃·ones, 2s₄·ℓ/L). Replacing a unit
moves z by at most 2Ξ, each pair of ones by 2 and ℓ/L by 1, so u by at most 2(s₁ + s₂ + s₃ + s₄)/n = 2/n in L1; rows of a person
have weights that add up to 1, and convex combinations are no further apart. u with independent Laplace noise of scale 2/(nε)
on each number is ε-differentially private (docs/proofs/pilot.md).

Undone, the noise is 2Ξ/(nεs₁) on each coordinate of the gradient, 2/(nεs) on each share of records in a bin, L/(nεs₄) on the
mean loss. Every number is computed for each row by itself, without matrix products: where the last bits of a length depended on
the rows beside it, a person with one row more could move another's record to the next bin.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from copriv.errors import AgreementError
from copriv.mechanisms.mechanism import Guarantee, measured_over, step_of
from copriv.mechanisms.one_answer import feature_bound_of
from copriv.mechanisms.statistics import OfNumbers, answers_told
from copriv.model.records import Records
from copriv.privacy.clipping import clip_rows, exact_sum, of_shape, row_norms
from copriv.rules.one_answer import FirstStep
from copriv.rules.rule import Descent, UpdateRule
from copriv.terms import AgreedTerms, OwnerTerms
from copriv.types import Array, Loss, is_linear

EDGES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Lengths between bins, over Ξ or B. The last bin is open; what is not finite is in it."""
SHARES = np.array([0.7, 0.1, 0.1, 0.1])
"""Shares of ε: gradient, lengths of gradients, lengths of records, mean loss. Set by hand, not by a benchmark."""


@dataclass(frozen=True)
class PilotNumbers:
    """What is released of an owner's records, in this order: gradient (p), two rows of bins, mean loss."""

    bound: float
    """Ξ, in L1, of a gradient in the public metric."""
    feature_bound: float
    """B, in L1, of a record's features without the intercept."""
    loss_bound: float | None
    """L; None where no mean loss is released."""
    intercept: bool
    n_parameters: int
    metric: Float[Array, "p p"] | None = None
    """P; None for the identity."""

    @classmethod
    def agreed(cls, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> "PilotNumbers":
        """Those of an agreement; `feature_bound` is B as a number, where that is planned."""
        terms, B = agreed.agreement, feature_bound_of(agreed, feature_bound)
        intercept, P = agreed.model.intercept, agreed.preconditioner
        return cls(agreed.gradient_bound, B, terms.loss_bound, intercept, n_parameters, P)

    def __post_init__(self) -> None:
        p = self.n_parameters
        if self.metric is not None and self.metric.shape != (p, p):
            raise AgreementError(f"agreement.preconditioner: is {self.metric.shape[0]} numbers wide, and theta has {p}")

    @property
    def bounds(self) -> dict[str, float]:
        return {"gradient_bound": self.bound, "feature_bound": self.feature_bound}

    @cached_property
    def root(self) -> Float[Array, "p p"]:
        """W, with WW = P."""
        return np.eye(self.n_parameters) if self.metric is None else root_of(self.metric)

    @cached_property
    def unit(self) -> Float[Array, " answer"]:
        """Divisor of each number before noise, by which a unit replaced moves the mean by at most 2/n in L1."""
        parts = 3 if self.loss_bound is None else 4
        gradient, lengths, records, loss = SHARES / SHARES[:parts].sum()
        bins = len(EDGES) + 1
        units = [
            np.full(self.n_parameters, self.bound / gradient),
            np.full(bins, 1 / lengths),
            np.full(bins, 1 / records),
        ]
        return np.concatenate([*units, [] if self.loss_bound is None else [0.5 * self.loss_bound / loss]])

    def parts(self, answer: Float[Array, "*batch answer"]) -> tuple[Array, Array, Array, Array]:
        """Gradient W∇f, shares of records by the length of their gradient and by their own, and mean loss, of an answer."""
        p, bins = self.n_parameters, len(EDGES) + 1
        gradient, lengths, records, loss = np.split(answer, [p, p + bins, p + 2 * bins], axis=-1)
        return gradient, lengths, records, loss

    def of(self, loss: Loss, records: Records, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """The numbers themselves. Private."""
        sums = [self._sum(loss, block, theta) for block in records.blocks()]
        return np.asarray(exact_sum(sums) / records.weight.sum())

    def _sum(self, loss: Loss, block: Records, theta: Float[Array, " p"]) -> Array:
        x, y, w = block.features, block.target, block.weight
        with np.errstate(all="ignore"):
            if is_linear(loss):
                predictions = np.einsum("ij,j->i", x, theta)
                slopes = of_shape(loss, loss.slope(predictions, y), y.shape)
                rows, losses = slopes[:, None] * x, loss.value(predictions, y)
            else:
                rows, losses = of_shape(loss, loss.gradients(theta, x, y), x.shape), loss.values(theta, x, y)
            rows = np.einsum("ij,kj->ik", rows, self.root)
            lengths = np.abs(x[:, : x.shape[1] - self.intercept]).sum(axis=1)
            parts = [
                clip_rows(rows, self.bound),
                _ones(row_norms(rows) / self.bound),
                _ones(lengths / self.feature_bound),
            ]
            if self.loss_bound is not None:
                losses = np.nan_to_num(of_shape(loss, losses, y.shape), nan=self.loss_bound)
                parts.append(np.clip(losses, 0.0, self.loss_bound)[:, None])
        return np.asarray(w @ np.hstack(parts))


def _ones(lengths: Float[Array, " rows"]) -> Float[Array, "rows bins"]:
    """A one in the bin of each length."""
    return np.asarray(np.eye(len(EDGES) + 1)[np.searchsorted(EDGES, lengths, side="right")])


def root_of(matrix: Float[Array, "p p"]) -> Float[Array, "p p"]:
    """Symmetric root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


class Pilot(OfNumbers):
    """Pure ε, one answer, for any loss: what terms are best planned from. Its model is one step along the gradient."""

    name = "pilot"
    guarantee = Guarantee.PURE
    terms = ("loss_bound",)
    label = "pilot"
    phrase = "a pilot"

    def numbers(self, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> PilotNumbers:
        return PilotNumbers.agreed(agreed, n_parameters, feature_bound)

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        self.check_delta(agreed)
        numbers = PilotNumbers(agreed.gradient_bound, 1.0, agreed.agreement.loss_bound, False, 1)
        return float(self.deviation(agreed, owner) * numbers.unit[0])

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return n_parameters + 2 * (len(EDGES) + 1) + (agreed.agreement.loss_bound is not None)

    def rule(
        self, agreed: AgreedTerms, descent: Descent, weights: Float[Array, " owners"], n_parameters: int,
        feature_bound: float | None = None,
    ) -> UpdateRule:  # fmt: skip
        root = np.eye(n_parameters)
        if descent.preconditioner is not None:
            root = root_of(descent.preconditioner)
        return FirstStep(descent, weights, root, step_of(agreed))

    def leaves(self, agreed: AgreedTerms, owner: OwnerTerms) -> tuple[str, str]:
        units, clipped = measured_over(agreed, owner, 1)
        mean = "" if agreed.agreement.loss_bound is None else ", and the mean loss"
        what = (
            f"{answers_told(agreed)}: a mean gradient of the {agreed.model.loss} loss over {units}, {clipped}, how many "
            f"gradients and records are how long{mean}"
        )
        return what, f"{self.noise_told(agreed, owner)} on the gradient"
