"""The table `market` of an owner: what privacy costs it, and what accuracy is worth to it, in money."""

from itertools import pairwise
from typing import Annotated

from pydantic import Field, model_validator

from copriv.terms.values import NonNegative, Positive, TermsTable

Point = tuple[Positive, NonNegative]
"""ε, and what it costs."""


class PrivacyCost(TermsTable):
    """What spending ε costs an owner: one of four shapes, 0 at ε = 0 and never falling."""

    linear: NonNegative | None = None
    """Money per unit of ε: c(ε) = linear·ε."""
    quadratic: NonNegative | None = None
    """Money per unit of ε²: c(ε) = quadratic·ε²."""
    threshold: Positive | None = None
    """ε up to which nothing is lost; beyond it c(ε) = above."""
    above: NonNegative | None = None
    """With `threshold`: what any ε beyond it costs."""
    table: Annotated[tuple[Point, ...], Field(min_length=1)] | None = None
    """Points (ε, money), with straight lines between them and to (0, 0); an ε beyond the last one is not for sale."""

    @model_validator(mode="after")
    def _one_shape(self) -> "PrivacyCost":
        shapes = ("linear", "quadratic", "threshold", "table")
        given = [shape for shape in shapes if getattr(self, shape) is not None]
        if len(given) != 1:
            raise ValueError(f"give one shape of linear, quadratic, threshold and table, not {len(given)}")
        if (self.above is None) != (self.threshold is None):
            raise ValueError("threshold and above belong together: free up to the one, then the other in money")
        points = self.table or ()
        if any(b[0] <= a[0] or b[1] < a[1] for a, b in pairwise(points)):
            raise ValueError("a table's points must rise in epsilon, and their money must not fall")
        return self


class MarketTerms(TermsTable):
    """What an owner states in a data market (`copriv market`). All parties read it."""

    privacy_cost: PrivacyCost
    worth: NonNegative
    """Money that a fall of ψ by 1 (of the cost, by its least value) is worth to the owner."""
