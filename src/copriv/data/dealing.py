"""Divide the rows of a table into public, held-out and owners' rows, by their place and person only, never by their values.

The last `public_rows` rows of a table are the learner's own sample (in the papers: the last 10,000 or 50,000 rows), unless
it has a table of its own; they are never among an owner's records. Of the other rows the last `held_out` are kept for
testing, and owners get consecutive disjoint slices of the rest, as in the papers. Where there are fewer rows than the
owners' records together, each owner's are drawn with replacement instead, from a seed and its place in the list.

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
    """The rows of one table, dealt out."""

    public: Rows
    held_out: Rows
    hands: tuple[tuple[Rows, Rows | None], ...]
    """For each owner its rows, and how often each of them counts; None: once."""
    resampled: bool
    units: int
    """How many private records, or persons, there were to deal."""


def public_rows_of(source: Source, public_rows: int) -> Rows:
    """The learner's own rows."""
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
    """Public rows, rows held out, and each owner's `sizes[i]` units.

    unit: which person a row belongs to, if persons count. known: rows of persons of whom the learner has rows elsewhere.
    Raises DataError where nothing is left for owners.
    """
    public, private, tested = _cut(source, unit, public_rows, held_out, known)
    # The place of each row's unit among the units, in the order of their first rows: units are dealt, not rows.
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
    """Rows in the order in which they are dealt: files that come sorted are shuffled by one seed, whatever the run's seed."""
    rows = len(source.table)
    if source.shuffled:
        return np.random.default_rng(20_151_231).permutation(rows)
    return np.arange(rows)


def _cut(
    source: Source, unit: Rows | None, public_rows: int, held_out: int, known: Bool[np.ndarray, "_"] | None
) -> tuple[Rows, Rows, Rows]:
    """Positions of the public rows, of the owners' rows in the order in which they are dealt, and of the held-out rows."""
    order = _order(source)
    first = max(len(order) - public_rows, 0)
    public, private = order[first:], order[:first]
    if unit is not None:
        # A person whom the learner knows is nobody's private record.
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
    """The half-open range of units, [from, to), that each owner's are taken from."""
    ends = np.cumsum([0, *sizes])
    if not grouped and ends[-1] > units:
        return [(0, units)] * len(sizes)
    if not grouped:
        return list(pairwise(ends.tolist()))
    # Rows sorted by group: shares in proportion to the owners' sizes, so that owners cover all groups and differ.
    if ends[-1] <= units:
        return list(pairwise((ends * units // ends[-1]).tolist()))
    if units < len(sizes):
        raise DataError(f"records: {len(sizes)} owners cannot differ with {units} private units; name fewer owners")
    return list(pairwise((ends * (units - len(sizes)) // ends[-1] + np.arange(len(ends))).tolist()))
