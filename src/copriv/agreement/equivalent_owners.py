"""Replace many owners by few bundles with the same total noise, for simulations of a thousand owners.

Owners of one kind (the same terms but for the name) are bundled. With w_i an owner's weight and b_i the scale of its noise, a
bundle answers as one owner of weight W = Σ w_i whose noise has the scale √(Σ w_i² b_i²)/W: mean and covariance of
the sum of answers are exactly those of all its owners where all answer at one θ (rounds); its law is nearly the same by
the central limit theorem. Where owners talk in turns, time is counted in rounds: m answers of each of K bundles are
m answers of each of N owners, and a step is N/K times as long. Groups of owners that answer together are bundled as
owners are: a group is one owner, whose noise is that of all its members.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.mechanisms import GradientNoise, Guarantee
from copriv.terms import OwnerTerms
from copriv.types import Array

MOST = 32
"""Owners are bundled where there are more than this; it is also about the number of bundles."""


@dataclass(frozen=True, eq=False)
class Bundles:
    """Assignment of owners to bundles."""

    of_owner: Int[np.ndarray, " owners"]
    alike: bool
    """Whether all owners of any bundle have the same terms."""

    @property
    def number(self) -> int:
        """K."""
        return int(self.of_owner.max()) + 1

    def total(self, values: Float[Array, " owners"]) -> Float[Array, " bundles"]:
        """Sum of an owner's values over each bundle."""
        return np.bincount(self.of_owner, weights=values, minlength=self.number).astype(np.float64)


def bundles_of(agreement: Agreement) -> Bundles:
    """Each owner by itself up to MOST; else as many bundles of each kind as its share of MOST is, but one at least.

    Of more kinds than MOST, those of like noise are bundled together.
    """
    return _bundled(agreement.owner_tables)


@lru_cache(maxsize=64)
def _bundled(tables: tuple[OwnerTerms, ...]) -> Bundles:
    counts = np.array([table.number for table in tables], dtype=np.int64)
    N = int(counts.sum())
    if N <= MOST:
        return Bundles(np.arange(N), True)
    kind = numbered([kind_of_owner(table) for table in tables])
    quiet: Array = np.array([t.records * t.epsilon / t.overlap for t in tables])
    return Bundles(*_shared_out(np.repeat(kind, counts), quiet.repeat(counts)))


def _shared_out(kind: Int[np.ndarray, " participants"], quiet: Float[Array, " participants"]) -> tuple[Any, bool]:
    """Assign participants to bundles by kind; by their noise, and with False, where there are more kinds than MOST."""
    N = len(kind)
    of = np.empty(N, dtype=np.int64)
    if kind.max() >= MOST:
        of[np.argsort(quiet, kind="stable")] = np.arange(N) * MOST // N
        return of, False
    sizes = np.bincount(kind)
    most = np.clip(np.round(MOST * sizes / N).astype(np.int64), 1, sizes)
    first = np.concatenate([[0], np.cumsum(most)[:-1]])
    for k, size in enumerate(sizes):
        of[np.flatnonzero(kind == k)] = first[k] + np.arange(size) * most[k] // size
    return of, True


@lru_cache(maxsize=16)
def bundled_participants(agreement: Agreement) -> Bundles:
    """Bundles of participants (owners, or groups that answer together), as `bundles_of` makes them of owners."""
    if agreement.synchronous or agreement.n_participants == agreement.n_owners:
        return bundles_of(agreement)
    members = Participants.of(agreement).members
    participant = np.empty(agreement.n_owners, dtype=np.int64)
    for j, group in enumerate(members):
        participant[list(group)] = j
    if len(members) <= MOST:
        return Bundles(participant, True)
    own = numbered([kind_of_owner(table)[:-1] for table in agreement.owner_tables])
    of_each = own[np.repeat(np.arange(len(own)), agreement.counts)]
    loud = np.bincount(participant, (agreement.weights * agreement.noise_scales()) ** 2).astype(np.float64)
    made = []
    for group in members:
        which, often = np.unique(of_each[list(group)], return_counts=True)
        made.append((*which.tolist(), *often.tolist()))
    of, alike = _shared_out(numbered(made), -loud)
    return Bundles(of[participant], alike)


def numbered(kinds: list[Any]) -> Int[np.ndarray, " kinds"]:
    """Index of each kind, in the order of first appearance."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(kind, len(known)) for kind in kinds])


def kind_of_owner(table: OwnerTerms) -> Any:
    """The terms that decide of which kind an owner is: all but its name."""
    return (table.records, table.epsilon, table.delta, table.overlap, table.weight, table.rate, table.group)


@lru_cache(maxsize=16)
def as_few(agreement: Agreement) -> Agreement:
    """The agreement with a bundle in the place of its owners; the same one where they are few, or cannot be bundled.

    They cannot where a run ends before everybody has given all answers (it is short then anyway), and where owners of one
    bundle differ and talk in turns. For simulations only: nobody signs it.
    """
    mechanism, terms = agreement.mechanism, agreement.agreement
    if agreement.n_owners <= MOST or not isinstance(mechanism, GradientNoise):
        return agreement
    bundles, pure = bundled_participants(agreement), mechanism.guarantee is Guarantee.PURE
    N, few = agreement.n_owners if agreement.synchronous else agreement.n_participants, bundles.number
    together = agreement.synchronous or (terms.window > 1 and terms.schedule == "rounds")
    whole = agreement.synchronous or agreement.answers * N <= terms.horizon
    if not whole or (not bundles.alike and not together):
        return agreement
    w, table_of = agreement.weights, np.repeat(np.arange(len(agreement.owner_tables)), agreement.counts)
    weight = bundles.total(w)
    loud = np.sqrt(bundles.total((w * agreement.noise_scales()) ** 2)) / np.maximum(weight, 1e-300)
    rate = agreement.by_owner([table.rate for table in agreement.owner_tables])
    rate = bundles.total(rate) / np.bincount(bundles.of_owner)
    member = np.empty(few, dtype=np.int64)
    member[bundles.of_owner] = table_of
    owners = []
    for j in range(few):
        table = agreement.owner_tables[member[j]]
        b, κ = mechanism.scale(agreement, table), table.overlap
        # b ∝ κ/(nε): what n cannot make up for, being whole, ε does; not with δ, where that would be accounted for anew.
        ratio = b / float(loud[j]) if loud[j] > 0 else 1.0
        records = max(round(table.records * ratio), 1)
        exactly = table.records * ratio / records if pure else 1.0
        owners.append(
            {
                **table.model_dump(exclude_none=True, exclude={"count", "group"}),
                "name": f"{j}",
                "rate": float(rate[j]),
                "weight": float(weight[j]),
                "records": records,
                "overlap": 1,
                "epsilon": table.epsilon / κ * exactly,
                "delta": table.delta / κ,
            }
        )
    document = agreement.to_dict() | {"owner": owners}
    document["agreement"].pop("group_size", None)
    if not agreement.synchronous:
        document["agreement"] |= {
            "horizon": agreement.answers * few,
            "window": max(round(terms.window * few / N), 1),
        }
        if terms.step != "auto":
            document["agreement"]["step"] = agreement.step * N / few
    return Agreement.of(document)
