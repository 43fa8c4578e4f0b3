"""One answer that tells how to plan: a gradient at the start, perhaps how long records and gradients are, and the mean loss.

Formal guarantee. Let W be the symmetric root of the agreed preconditioner P (the identity without one). A record adds

- z, its gradient at θ₀ in the public metric, W∇ℓ, clipped to ‖z‖₁ ≤ Ξ;
- two ones: in the bin of ‖W∇ℓ‖₁/Ξ before clipping, and in the bin of ‖x‖₁/B, both among EDGES;
- with an agreed bound L on losses, min(ℓ, L).

With agreed shares s that add up to at most 1, a unit adds to n·u the vector (s₁z/Ξ, s₂·ones, s₃·ones, 2s₄·ℓ/L), without the
parts that have no share. Replacing a unit moves z by at most 2Ξ, each pair of ones by 2 and ℓ/L by 1, so u by at most
2(s₁ + s₂ + s₃ + s₄)/n ≤ 2/n in L1; rows of a person have weights that add up to 1, and convex combinations are no further
apart. u with independent Laplace noise of scale 2/(nε) on each number is ε-differentially private (docs/proofs/pilot.md).

Undone, the noise is 2Ξ/(nεs₁) on each coordinate of the gradient, 2/(nεs) on each share of records in a bin, L/(nεs₄) on the
mean loss. Every number is computed for each row by itself, without matrix products: where the last bits of a length depended on
the rows beside it, a person with one row more could move another's record to the next bin.
"""

from collections.abc import Iterable, Mapping
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
from copriv.terms.learning import PILOT_PARTS, check_loss, check_parts
from copriv.types import Array, Loss, is_linear

EDGES = (1.05, 1.5, 2.1, 3.0, 4.2, 6.0)
"""Lengths between bins, over Ξ or B; records that are clamped to declared ranges may all be as long as B. The last bin is open;
what is not finite is in it."""
SHARES = dict(zip(PILOT_PARTS, (0.7, 0.1, 0.1, 0.1), strict=True))
"""Shares of ε where none are agreed, without "loss" in proportion where no mean loss is released. Set by hand."""


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
    agreed_shares: Mapping[str, float] | None = None
    """Share of ε of each part, which is not asked without one; None for `SHARES`."""

    @classmethod
    def agreed(cls, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> "PilotNumbers":
        """Those of an agreement; `feature_bound` is B as a number, where that is planned."""
        terms, B = agreed.agreement, feature_bound_of(agreed, feature_bound)
        intercept, P = agreed.model.intercept, agreed.preconditioner
        return cls(agreed.gradient_bound, B, terms.loss_bound, intercept, n_parameters, P, terms.pilot_parts)

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
        whole = {"gradient": self.bound, "loss": 0.5 * (self.loss_bound or 0.0)}
        return np.repeat([whole.get(part, 1.0) / share for part, share in self.shares.items()], self._sizes)

    @property
    def shares(self) -> dict[str, float]:
        """Share of ε of each part that is released, in the order of `SHARES`."""
        return shares_of(self.agreed_shares, self.loss_bound)

    @property
    def _sizes(self) -> list[int]:
        return sizes_of(self.shares, self.n_parameters)

    def parts(self, answer: Float[Array, "*batch answer"]) -> dict[str, Array]:
        """The parts of an answer, by their names in `SHARES`: W∇f, shares of records by the length of their gradient and
        by their own, and the mean loss."""
        return dict(zip(self.shares, np.split(answer, np.cumsum(self._sizes)[:-1], axis=-1), strict=True))

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
            parts = {
                "gradient": clip_rows(rows, self.bound),
                "gradient_lengths": _ones(row_norms(rows) / self.bound),
                "record_lengths": _ones(self.lengths(x)),
            }
            if self.loss_bound is not None:
                losses = np.nan_to_num(of_shape(loss, losses, y.shape), nan=self.loss_bound)
                parts["loss"] = np.clip(losses, 0.0, self.loss_bound)[:, None]
        return np.asarray(w @ np.hstack([parts[part] for part in self.shares]))

    def lengths(self, features: Float[Array, "rows p"]) -> Float[Array, " rows"]:
        """Length of each record, in the unit of its bins. As private as the records."""
        return np.asarray(np.abs(features[:, : features.shape[1] - self.intercept]).sum(axis=1) / self.feature_bound)


def shares_of(agreed: Mapping[str, float] | None, loss_bound: float | None) -> dict[str, float]:
    """Share of ε of each part that is released, in the order of `SHARES`."""
    if agreed is not None:
        check_parts(agreed)  # again: a mapping may have been changed since it was agreed on
        return {part: agreed[part] for part in SHARES if part in agreed}
    of = {part: share for part, share in SHARES.items() if part != "loss" or loss_bound is not None}
    return {part: share / sum(of.values()) for part, share in of.items()}


def sizes_of(parts: Iterable[str], n_parameters: int) -> list[int]:
    """Number of numbers of each part."""
    return [{"gradient": n_parameters, "loss": 1}.get(part, len(EDGES) + 1) for part in parts]


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
    terms = ("loss_bound", "pilot_parts")
    label = "pilot"
    phrase = "a pilot"

    def check(self, agreed: AgreedTerms) -> None:
        super().check(agreed)
        try:
            check_loss(agreed.agreement.pilot_parts, agreed.agreement.loss_bound)
        except ValueError as error:
            raise AgreementError(f"agreement.{error}") from None

    def numbers(self, agreed: AgreedTerms, n_parameters: int, feature_bound: float | None = None) -> PilotNumbers:
        return PilotNumbers.agreed(agreed, n_parameters, feature_bound)

    def scale(self, agreed: AgreedTerms, owner: OwnerTerms, feature_bound: float | None = None) -> float:
        self.check_delta(agreed)
        return self.deviation(agreed, owner) * agreed.gradient_bound / _shares(agreed)["gradient"]

    def length(self, agreed: AgreedTerms, n_parameters: int) -> int:
        return sum(sizes_of(_shares(agreed), n_parameters))

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
        asked = _shares(agreed)
        mean = f"{answers_told(agreed)}: a mean gradient of the {agreed.model.loss} loss over {units}, {clipped}"
        counted = [f"{part.partition('_')[0]}s" for part in ("gradient_lengths", "record_lengths") if part in asked]
        lengths = [f"how many {' and '.join(counted)} are how long"] * bool(counted)
        what = ", ".join([mean, *lengths, *["and the mean loss"] * ("loss" in asked)])
        noises, unit = [f"{self.noise_told(agreed, owner)} on the gradient"], self.deviation(agreed, owner)
        if counted and not agreed.summed:
            least = min(share for part, share in asked.items() if part.endswith("lengths"))
            noises.append(f"of {unit / least:.3g} on each share of records")
        if "loss" in asked and not agreed.summed:
            noises.append(
                f"of {0.5 * (agreed.agreement.loss_bound or 0.0) * unit / asked['loss']:.3g} on the mean loss"
            )
        return what, ", ".join(noises)


def _shares(agreed: AgreedTerms) -> dict[str, float]:
    return shares_of(agreed.agreement.pilot_parts, agreed.agreement.loss_bound)
