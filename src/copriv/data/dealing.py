"""Divide the rows of a table into public, held-out and owners' rows, by their place and person only, never by their values.

The last `public_rows` rows of a table are the learner's own sample (in the papers: the last 10,000 or 50,000 rows), unless
it has a table of its own; they are never among an owner's records. The last `held_out` of the other rows are kept for
testing, and owners get consecutive disjoint slices of the rest, as in the papers. Where there are fewer rows than the
owners' records together, each owner's are drawn with replacement instead, from a seed and its index in the list.

Rows of one person stay together, and hospitals' rows are sorted by hospital.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Int

from copriv.data.source import Source
from copriv.errors import DataError

Rows: TypeAlias = Int[np.ndarray, "_"]


@dataclass(frozen=True, eq=False)
class Deal:
    """Indices of the rows of one table: public, held out, and of each owner."""

    public: Rows
    held_out: Rows
    hands: tuple[tuple[Rows, Rows | None], ...]
    """Rows of each owner, and how many times each counts; None: once."""
    resampled: bool
    units: int
    """Number of private records, or persons, in the table."""


def public_rows_of(source: Source, public_rows: int) -> Rows:
    """Indices of the last `public_rows` rows, in the order in which rows are dealt."""
    return _order(source)[max(len(source.table) - public_rows, 0) :]


def deal(
    source: Source,
    unit: Rows | None,
    sizes: Sequence[int],
    public_rows: int,
    held_out: int,
    seed: int,
    known: Bool[np.ndarray, "_"] | None = None,
) -> Deal:
    """Divide a table into public rows, rows held out, and `sizes[i]` units of each owner.

    unit: number of the person that a row belongs to, where persons are the units; None: rows are.
    known: mask of rows whose person has rows in the learner's own table.
    Raises DataError where nothing is left for owners.
    """
    public, private, tested = _cut(source, unit, public_rows, held_out, known)
    # Index of each row's unit, in the order of the units' first rows: units are dealt, not rows.
    place = np.arange(len(private))
    if unit is not None:
        _, first, index = np.unique(unit[private], return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(first))[index.reshape(-1)]
    units = int(place.max()) + 1
    resampled = sum(sizes) > units
    hands: list[tuple[Rows, Rows | None]] = []
    for owner, (n, (a, b)) in enumerate(zip(sizes, _shares(source.group is not None, units, sizes), strict=True)):
        if not resampled:
            hands.append((private[(place >= a) & (place < a + n)], None))
            continue
        # Units are drawn uniformly with replacement, by one multinomial draw: the cost does not grow with n.
        times = np.zeros(units, dtype=np.int64)
        times[a:b] = np.random.default_rng([seed, owner]).multinomial(n, np.full(b - a, 1 / (b - a)))
        drawn = times[place] > 0
        hands.append((private[drawn], times[place][drawn]))
    return Deal(public, tested, tuple(hands), resampled, units)


def _order(source: Source) -> Rows:
    """Order in which rows are dealt: that of the table, or for sorted files a permutation by a fixed seed."""
    rows = len(source.table)
    if source.shuffled:
        return np.random.default_rng(20_151_231).permutation(rows)
    return np.arange(rows)


def _cut(
    source: Source, unit: Rows | None, public_rows: int, held_out: int, known: Bool[np.ndarray, "_"] | None
) -> tuple[Rows, Rows, Rows]:
    """Indices of the public rows, of the owners' rows in the order in which they are dealt, and of the held-out rows."""
    order = _order(source)
    first = max(len(order) - public_rows, 0)
    public, private = order[first:], order[:first]
    if unit is not None:
        # A person with a public row has no private records.
        private = private[~np.isin(unit[private], unit[public])]
    if known is not None:
        private = private[~known[private]]
    if source.group is not None:
        group = source.group[private]
        private = private[np.bincount(group)[group] >= source.least_group]
    last = max(len(private) - held_out, 0)
    kept, tested = private[:last], private[last:]
    if unit is not None:
        kept = kept[~np.isin(unit[kept], unit[tested])]
    if source.group is not None:
        kept = kept[np.argsort(source.group[kept], kind="stable")]
    if len(kept) == 0:
        raise DataError(
            f"data.public_rows: {public_rows} public rows and {held_out} held out leave no records for owners in a "
            f"table of {len(order)} rows; lower data.public_rows"
        )
    return public, kept, tested


def _shares(grouped: bool, units: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Half-open range of units, [from, to), from which each owner's units are taken."""
    ends = np.cumsum([0, *sizes])
    if not grouped and ends[-1] > units:
        return [(0, units)] * len(sizes)
    if not grouped:
        return list(pairwise(ends.tolist()))
    # Rows are sorted by group: ranges in proportion to the owners' sizes cover all groups, and owners differ.
    if ends[-1] <= units:
        return list(pairwise((ends * units // ends[-1]).tolist()))
    if units < len(sizes):
        raise DataError(f"records: {len(sizes)} owners cannot differ with {units} private units; name fewer owners")
    return list(pairwise((ends * (units - len(sizes)) // ends[-1] + np.arange(len(ends))).tolist()))
