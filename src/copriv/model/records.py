"""Records as numbers: an owner's features, targets and weights, over which queries take means.

Each privacy unit has a weight of 1. With records as units each row weighs 1. With persons as units (`unit` in the agreement)
a person's rows share a weight of 1, so the mean over persons of the mean over a person's records is one weighted sum, and a
person whose records' gradients are each at most Ξ in L1 contributes at most Ξ in all.
Rows that occur several times in a resampled table are kept once, with their number as weight: equal sums at a lower cost.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Integer

from copriv.errors import DataError, InvalidInput
from copriv.formatting.cards import Shown
from copriv.types import Array, Whole
from copriv.validation import finite_array

BLOCK = 4096
"""Rows in a block: their predictions for one θ fit in the L1 cache."""


@runtime_checkable
class InBlocks(Protocol):
    """Records that are read a block at a time, for tables larger than memory."""

    @property
    def units(self) -> int:
        """n: number of records, or persons, in the rows."""
        ...

    @property
    def n_parameters(self) -> int:
        """p: the length of θ."""
        ...

    def blocks(self) -> "Iterable[Records]":
        """Yield all rows in order, BLOCK at a time. Raises DataError where they cannot be read, or have changed."""
        ...


def _sealed(array: Any, kind: type = np.float64) -> Any:
    """Return the array row by row in memory that nobody can write to: that of `bytes`, since a flag can be taken back.

    Norms, which clipping relies on, are sums of 64-bit floats that stand beside each other, in every block alike.
    """
    at: object = array
    while isinstance(at, np.ndarray):
        at = at.base
    if isinstance(at, bytes) and array.dtype == kind and array.flags.c_contiguous:
        return array
    return np.frombuffer(np.asarray(array, kind).tobytes(), kind).reshape(np.shape(array))


def _shares(person: Integer[Whole, " records"]) -> Float[Array, " records"]:
    """Weight of each row when a person's rows share a weight of 1."""
    return np.asarray(1.0 / np.bincount(person)[person])


def labels_of(what: str, given: object) -> list[Any]:
    """Return the label of each row, from its own cell: numpy would convert a whole list for one float or text in it.

    what: the argument's name, for messages. Raises DataError where a label is missing, or a float of 2⁵³ or more.
    """
    cells = np.asarray(given)
    if not hasattr(given, "dtype"):
        cells = np.asarray(given, dtype=object)
    if cells.ndim != 1:
        raise DataError(f"{what}: needs one label for each row, not the shape {cells.shape}")
    labels: list[Any] = cells.tolist()
    for one in labels:
        if not isinstance(one, str) and str(one) in ("None", "nan", "NaT", "<NA>"):
            raise DataError(f"{what}: a row has no label; say whose each row is, or leave the row out")
        if isinstance(one, float) and not abs(one) < 2**53:
            raise DataError(
                f"{what}: a label is a float beyond 2^53, which several integers round to; give texts or integers"
            )
    return labels


@dataclass(frozen=True, eq=False)
class Records(Shown):
    """Rows x, targets y and weights; `units` = Σ weights is the n of every formula.

    Raises InvalidInput on NaN, infinity, lengths that differ, no rows, or a weight that is not positive.

    >>> records = copriv.Records.of([[0.1, 0.2], [0.3, 0.4]], [1.0, 2.0])
    >>> records.units, records.n_parameters
    (2, 2)
    >>> copriv.Records.of_persons([[1.0], [2.0], [3.0]], [0, 1, 2], ["ann", "ann", "bo"]).weight.tolist()
    [0.5, 0.5, 1.0]
    """

    features: Float[Array, "records p"]
    target: Float[Array, " records"]
    weight: Float[Array, " records"]
    person: Integer[Whole, " records"] | None = None
    """Index of the person that each row belongs to, where persons are the units; the weights are checked against it."""

    def __post_init__(self) -> None:
        # Clipping relies on norms that are computed once: nobody may write to the rows afterwards.
        for name in ("features", "target", "weight"):
            object.__setattr__(self, name, _sealed(getattr(self, name)))
        if self.person is not None:
            object.__setattr__(self, "person", _sealed(self.person, np.intp))

    @classmethod
    def of(cls, features: object, target: object, weight: object = None) -> "Records":
        """Check and wrap arrays (anything that numpy reads); without weights every row weighs 1."""
        x = finite_array("features", features, 2)
        y = finite_array("target", target, 1)
        w = np.ones(len(y)) if weight is None else finite_array("weight", weight, 1)
        if not len(x) == len(y) == len(w):
            raise InvalidInput(
                f"records: {len(x)} rows of features, {len(y)} targets and {len(w)} weights; the three must be as many"
            )
        if len(y) == 0 or x.shape[1] == 0:
            raise InvalidInput(f"records: need at least one row and one feature, not shape {x.shape}")
        if not (w > 0).all():
            raise InvalidInput(
                f"weight: row {int(np.argmax(~(w > 0)))} weighs {w.min()}; weights must be above 0 (rows count from 0)"
            )
        return cls(x, y, w)

    @classmethod
    def of_persons(cls, features: object, target: object, person: object, most_records: int | None = None) -> "Records":
        """Rows of one person share a weight of 1; only a person's first `most_records` rows are kept.

        Raises DataError for another number of identifiers than rows, and where one is missing or not exact.
        """
        whole = cls.of(features, target)
        ids = labels_of("unit", person)
        if len(ids) != len(whole.target):
            raise DataError(f"unit: {len(ids)} identifiers for {len(whole.target)} rows; need one for each row")
        # Numbers are sorted first, then labels of each other type among themselves.
        ordered = sorted(set(ids), key=lambda one: (type(one).__name__ * (not isinstance(one, Real)), one))
        place = {one: k for k, one in enumerate(ordered)}
        index = np.array([place[one] for one in ids])
        if most_records is not None:
            order = np.argsort(index, kind="stable")
            starts = np.searchsorted(index[order], np.arange(index.max() + 1))
            rank = np.empty_like(index)
            rank[order] = np.arange(len(index)) - starts[index[order]]
            keep = rank < most_records
            whole = cls.of(whole.features[keep], whole.target[keep])
            index = index[keep]
        return cls(whole.features, whole.target, _shares(index), index)

    @classmethod
    def of_shares(cls, features: object, target: object, share: object) -> "Records":
        """Records that count for a share of one, from 0 to 1: each is a row of that weight, and a row of zeros for the rest.

        A row of zeros has no gradient under a loss of θᵀx, so the mean over n records is (1/n) Σ share·∇ℓ: n is their number,
        and nothing is divided by a sum of shares, which are private. There is a row of zeros for each, also of weight 0, so
        that shares move no other row.
        """
        whole, s = cls.of(features, target), finite_array("share", share, 1)
        if len(s) != len(whole):
            raise InvalidInput(f"share: {len(s)} shares for {len(whole)} records; give one each")
        if not ((s >= 0) & (s <= 1)).all():
            raise InvalidInput("share: must be from 0 to 1 for every record")
        x, y, whose = whole.features, whole.target, np.tile(np.arange(len(s)), 2)
        return cls(np.vstack([x, np.zeros_like(x)]), np.tile(y, 2), np.concatenate([s, 1.0 - s]), whose)

    @property
    def are_shares(self) -> bool:
        """Whether these are records as `of_shares` makes them: no gradient is above what a record of weight 1 may have."""
        n, odd = divmod(len(self), 2)
        if odd or self.person is None or not np.array_equal(self.person, np.tile(np.arange(n), 2)):
            return False
        s, rest = self.weight[:n], self.weight[n:]
        return bool(((s >= 0) & (s <= 1)).all() and np.array_equal(rest, 1.0 - s) and not self.features[n:].any())

    def weights_of_a_unit_are_1(self, persons: bool) -> bool:
        """Whether each unit's weights add up to 1: each row weighs 1, or a person's rows share 1 equally.

        Weights that only add up to n in total could include a row of weight 50, which changes the mean 50 times as much.
        """
        if not persons:
            return self.plain
        return (
            self.person is not None
            and len(np.unique(self.person)) == self.units
            and np.array_equal(self.weight, _shares(self.person))
        )

    @classmethod
    def concatenate(cls, parts: "list[Records] | tuple[Records, ...]", scale: Array | None = None) -> "Records":
        """Concatenate the rows of all parts; `scale` multiplies the weights of each part."""
        factors = np.ones(len(parts)) if scale is None else scale
        return cls(
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.target for part in parts]),
            np.concatenate([f * part.weight for f, part in zip(factors, parts, strict=True)]),
        )

    @classmethod
    def merged(cls, parts: "list[Records] | tuple[Records, ...]", scale: Array) -> "Records":
        """As `concatenate`, with rows that parts share kept once: equal weighted sums at a lower cost."""
        shared: dict[tuple[int, int], Records] = {}
        for part, factor in zip(parts, scale, strict=True):
            rows = (id(part.features), id(part.target))
            before = shared[rows].weight if rows in shared else 0.0
            shared[rows] = cls(part.features, part.target, before + factor * part.weight)
        if len(shared) == 1:
            return next(iter(shared.values()))
        return cls.concatenate(list(shared.values()))

    @property
    def units(self) -> int:
        """n: number of records, or persons, in these rows."""
        return round(self.total)

    @property
    def n_parameters(self) -> int:
        """p: the length of θ."""
        return int(self.features.shape[1])

    def __len__(self) -> int:
        return len(self.target)

    def taken(self, rows: Any) -> "Records":
        """Select rows, by index or mask, with their weights and persons; a person may lose its other rows."""
        whose = None if self.person is None else self.person[rows]
        return Records(self.features[rows], self.target[rows], self.weight[rows], whose)

    def blocks(self) -> "tuple[Records, ...]":
        """Return all rows, BLOCK at a time, as views."""
        return self._blocks

    @cached_property
    def _blocks(self) -> "tuple[Records, ...]":
        if len(self) <= BLOCK:
            return (self,)
        cuts = [slice(start, start + BLOCK) for start in range(0, len(self), BLOCK)]
        return tuple(Records(self.features[rows], self.target[rows], self.weight[rows]) for rows in cuts)

    @cached_property
    def lengths(self) -> Float[Array, " records"]:
        """‖x‖₁ of each row, computed once: it is the most expensive part of a clipped gradient."""
        lengths = np.asarray(np.abs(self.features).sum(axis=1))
        lengths.flags.writeable = False
        return lengths

    @cached_property
    def total(self) -> float:
        """Σ weights, not rounded to `units`."""
        return float(self.weight.sum())

    @cached_property
    def plain(self) -> bool:
        """Whether each row weighs 1."""
        return bool((self.weight == 1.0).all())

    @cached_property
    def moments(self) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
        """Weighted means of xxᵀ and of y·x, which determine the minimum of a squared loss."""
        weighted = self.features * (self.weight / self.total)[:, None]
        return np.asarray(weighted.T @ self.features), np.asarray(weighted.T @ self.target)

    @cached_property
    def clipping_limits(self) -> dict[tuple[float, int], Array]:
        """Largest |φ′| of each row, by bound and norm: a cache that `privacy.clipping` fills."""
        return {}

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """What plans compute of these rows for hundreds of settings: a cache that mechanisms fill, never of an owner's rows."""
        return {}

    def with_intercept(self) -> "Records":
        """Append a feature that is always 1."""
        ones = np.ones((len(self), 1))
        return Records(np.hstack([self.features, ones]), self.target, self.weight, self.person)

    def distinct(self) -> "Records":
        """Merge equal rows and add their weights: fewer rows with equal weighted sums."""
        rows = np.column_stack([self.features, self.target])
        unique, index = np.unique(rows, axis=0, return_inverse=True)
        weight: Array = np.bincount(index.reshape(-1), weights=self.weight).astype(np.float64)
        return Records(np.ascontiguousarray(unique[:, :-1]), unique[:, -1].copy(), weight)
