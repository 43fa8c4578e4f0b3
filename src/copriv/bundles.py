"""Many owners as few that make the same noise together: what simulations of a thousand owners run in their place.

Owners of one kind (the same terms but for the name) are bundled. With w_i an owner's weight and b_i the scale of its noise, a
bundle answers as one owner of weight W = Σ w_i whose noise has the scale √(Σ w_i² b_i²)/W: mean and covariance of what
the learner adds up are those of all its owners, exactly, where all answer at one point (rounds), and the law is nearly the
same, being one of sums. Where owners talk in turns, time is counted in rounds: m answers of each of K bundles are
m answers of each of N owners, and a step is N/K times as long.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.mechanisms import GradientNoise, Guarantee
from copriv.terms import OwnerTerms
from copriv.types import Array

MOST = 32
"""Owners beyond which they are bundled, and about how many bundles there are."""


@dataclass(frozen=True, eq=False)
class Bundles:
    """Which bundle each owner is in."""

    of_owner: Int[np.ndarray, " owners"]
    alike: bool
    """Whether all owners of any bundle have the same terms."""

    @property
    def number(self) -> int:
        """K."""
        return int(self.of_owner.max()) + 1

    def total(self, values: Float[Array, " owners"]) -> Float[Array, " bundles"]:
        """Added up over each bundle."""
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
    places: dict[Any, int] = {}
    kind = np.array([places.setdefault(kind_of_owner(table), len(places)) for table in tables])
    of_each = np.repeat(kind, counts)
    if len(places) > MOST:
        noise = np.array([t.records * t.epsilon / t.overlap for t in tables]).repeat(counts)
        order = np.argsort(noise, kind="stable")
        of_owner = np.empty(N, dtype=np.int64)
        of_owner[order] = np.arange(N) * MOST // N
        return Bundles(of_owner, False)
    sizes = np.bincount(of_each)
    most = np.clip(np.round(MOST * sizes / N).astype(np.int64), 1, sizes)
    first = np.concatenate([[0], np.cumsum(most)[:-1]])
    of_owner = np.empty(N, dtype=np.int64)
    for k, size in enumerate(sizes):
        of_owner[np.flatnonzero(of_each == k)] = first[k] + np.arange(size) * most[k] // size
    return Bundles(of_owner, True)


def kind_of_owner(table: OwnerTerms) -> Any:
    """Owners for which this is the same are of one kind."""
    return (table.records, table.epsilon, table.delta, table.overlap, table.weight, table.rate, table.group)


@lru_cache(maxsize=16)
def as_few(agreement: Agreement) -> Agreement:
    """The agreement with a bundle in the place of its owners; the same one where they are few, or cannot be bundled.

    They cannot where owners are grouped, where a run ends before everybody has given all answers (it is short then
    anyway), and where owners of one bundle differ and talk in turns. For simulations only: nobody signs it.
    """
    mechanism, terms = agreement.mechanism, agreement.agreement
    if agreement.n_owners <= MOST or not isinstance(mechanism, GradientNoise):
        return agreement
    bundles, pure = bundles_of(agreement), mechanism.guarantee is Guarantee.PURE
    N, few = agreement.n_owners, bundles.number
    together = agreement.synchronous or (terms.window > 1 and terms.schedule == "rounds")
    whole = agreement.synchronous or agreement.answers * N <= terms.horizon
    if agreement.n_talkers < N or not whole or (not bundles.alike and not together):
        return agreement
    w, table_of = agreement.weights, np.repeat(np.arange(len(agreement.owner_tables)), agreement.counts)
    scale = agreement.by_owner([mechanism.scale(agreement, table) for table in agreement.owner_tables])
    weight = bundles.total(w)
    loud = np.sqrt(bundles.total((w * scale) ** 2)) / np.maximum(weight, 1e-300)
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
                **table.model_dump(exclude_none=True, exclude={"count"}),
                "name": f"{j}",
                "weight": float(weight[j]),
                "records": records,
                "overlap": 1,
                "epsilon": table.epsilon / κ * exactly,
                "delta": table.delta / κ,
            }
        )
    document = agreement.to_dict() | {"owner": owners}
    if not agreement.synchronous:
        document["agreement"] |= {
            "horizon": agreement.answers * few,
            "window": max(round(terms.window * few / N), 1) if terms.window > 1 else 1,
        }
        if terms.step != "auto":
            document["agreement"]["step"] = agreement.step * N / few
    return Agreement.of(document)
