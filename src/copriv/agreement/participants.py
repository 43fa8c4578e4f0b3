"""The participants of an agreement and its update rule, and few bundles in place of many owners, for simulations.

Owners of one kind (the same terms except for the name) are bundled. With w_i an owner's weight and b_i the scale of its noise,
a bundle answers as one owner of weight W = Σ w_i whose noise has the scale √(Σ w_i² b_i²)/W. Where all answer at one θ
(rounds), mean and covariance of the sum of answers are exactly those of its owners, and its distribution is nearly the same
by the central limit theorem. Where owners answer in turns, m answers of each of K bundles stand for m answers of each of N
owners, and a step is N/K times as long: K follows from how long it may be (`enough_bundles`). A group of owners that answer
together is bundled as one owner with the noise of all its members. Noise that owners share in a sum becomes independent noise
of the same variance.
"""

from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.mechanisms import GradientNoise, Guarantee, OneAnswer
from copriv.model.fitness import FeasibleSet, Regularizer
from copriv.rules import SyncDecay, named
from copriv.rules.graph import Graph, OnGraph
from copriv.rules.rule import Descent, UpdateRule
from copriv.terms import OwnerTerms
from copriv.types import Array


@dataclass(frozen=True, eq=False)
class Participants:
    """Owners grouped as they answer: all together (synchronous), by agreed group, or one by one."""

    members: tuple[tuple[int, ...], ...]
    """Owners of each participant, by their indices in the agreement."""
    weights: Float[Array, " participants"]
    rates: tuple[float, ...]
    """Mean rate of each participant's Poisson clocks."""

    @classmethod
    def of(cls, agreement: Agreement) -> "Participants":
        """Group the owners of an agreement (`Agreement.members`).

        Raises AgreementError where the size of groups is still "auto".
        """
        if agreement.agreement.group_size == "auto":
            raise AgreementError(
                'agreement.group_size: still "auto"; plan it first (copriv forecast --out DIR) or give a number'
            )
        w, members = agreement.weights, agreement.members
        rates = tuple(float(np.mean([agreement.owner[i].rate for i in group])) for group in members)
        return cls(members, np.array([w[list(group)].sum() for group in members]), rates)


def agreed_rule(
    agreement: Agreement,
    participants: Participants,
    n_parameters: int,
    *,
    shares_by_rate: bool = False,
    shares: Float[Array, " participants"] | None = None,
    feature_bound: float | None = None,
) -> UpdateRule:
    """Make the update rule of an agreement.

    shares_by_rate: whether participants answer in proportion to their clocks' rates, which a rule may correct (A, Remark 4).
    shares: share of all answers that each participant gives; None: by the agreement.
    n_parameters, feature_bound: p, and B where the agreement gives no number; used where owners answer once.
    Raises AgreementError for terms that are still "auto", InvalidInput for a rule that cannot be run with these terms.
    """
    terms, model = agreement.agreement, agreement.model
    descent = Descent(Regularizer(model.regularization), FeasibleSet(model.theta_max), agreement.preconditioner)
    mechanism = agreement.mechanism
    if isinstance(mechanism, OneAnswer):
        return mechanism.rule(agreement, descent, participants.weights, n_parameters, feature_bound)
    if shares is None and shares_by_rate:
        rates = np.array(participants.rates)
        shares = rates / rates.sum()
    rule = named(terms.rule).update(agreement, descent, participants.weights, shares)
    if terms.graph is not None and isinstance(rule, SyncDecay):
        return OnGraph(rule, Graph.of(agreement), agreement.weights, bool(terms.tracking))
    return rule


MOST = 32
"""Largest number of owners that are simulated one by one; more owners are bundled, into about this many bundles."""


MANY = 256
"""Number of bundles of owners that answer in turns and are of many kinds; with only MOST, steps would be too long."""


@dataclass(frozen=True, eq=False)
class Bundles:
    """An assignment of owners to bundles."""

    of_owner: Int[np.ndarray, " owners"]
    alike: bool
    """Whether all owners of any bundle have the same terms."""

    @property
    def number(self) -> int:
        """K."""
        return int(self.of_owner.max()) + 1

    def total(self, values: Float[Array, " owners"]) -> Float[Array, " bundles"]:
        """Sum values of owners over each bundle."""
        return np.bincount(self.of_owner, weights=values, minlength=self.number).astype(np.float64)


def enough_bundles(agreement: Agreement, smoothness: float) -> int:
    """Number of bundles K, at most N, for which the step of one answer changes the gradient by a small part.

    smoothness: λ of the fitness, in the agreed metric.
    """
    terms, N = agreement.agreement, agreement.n_participants
    if agreement.synchronous or terms.window * MOST >= N:  # a window of bundles moves θ as far as one of owners
        return MOST
    return bundles_in_turns(N, agreement.step * smoothness)


def bundles_in_turns(participants: int, gain: float) -> int:
    """The same for owners in turns: K such that (N/K)·gain is at most 0.1, for N participants. gain: step·λ.

    Measured on 300 owners, ψ of bundles is 1.07 times that of all owners at .2, 1.5 times at .6 and 4.6 times at 6.
    """
    return int(np.ceil(np.clip(participants * gain / 0.1, MOST, participants)))


def bundles_of(agreement: Agreement, most: int = MOST) -> Bundles:
    """Assign owners to bundles: each to its own up to `most` owners, otherwise `most` in proportion to the kinds' sizes.

    Every kind has at least one bundle. With more kinds than `most`, owners with similar noise are bundled together.
    """
    return _bundled(agreement.owner_tables, most)


@lru_cache(maxsize=64)
def _bundled(tables: tuple[OwnerTerms, ...], most: int) -> Bundles:
    counts = np.array([table.number for table in tables], dtype=np.int64)
    N = int(counts.sum())
    if most >= N:
        return Bundles(np.arange(N), True)
    kind = numbered([kind_of_owner(table) for table in tables])
    precision: Array = np.array([t.records * t.epsilon / t.overlap for t in tables])
    return Bundles(*_assigned(np.repeat(kind, counts), precision.repeat(counts), most))


def _assigned(
    kind: Int[np.ndarray, " participants"], precision: Float[Array, " participants"], most: int
) -> tuple[Any, bool]:
    """Assign participants to bundles: by kind (True), or by noise where there are more kinds than `most` (False)."""
    N = len(kind)
    bundle = np.empty(N, dtype=np.int64)
    if kind.max() >= most:
        bundle[np.argsort(precision, kind="stable")] = np.arange(N) * most // N
        return bundle, False
    sizes = np.bincount(kind)
    number = np.clip(np.round(most * sizes / N).astype(np.int64), 1, sizes)
    first = np.concatenate([[0], np.cumsum(number)[:-1]])
    for k, size in enumerate(sizes):
        bundle[np.flatnonzero(kind == k)] = first[k] + np.arange(size) * number[k] // size
    return bundle, True


@lru_cache(maxsize=16)
def bundled_participants(agreement: Agreement, most: int = MOST) -> Bundles:
    """Bundles of participants (owners, or groups that answer together), as `bundles_of` makes them of owners."""
    if agreement.synchronous or agreement.n_participants == agreement.n_owners:
        return bundles_of(agreement, most)
    members = Participants.of(agreement).members
    participant = np.empty(agreement.n_owners, dtype=np.int64)
    for j, group in enumerate(members):
        participant[list(group)] = j
    if len(members) <= most:
        return Bundles(participant, True)
    kinds = numbered([kind_of_owner(table)[:-1] for table in agreement.owner_tables])
    kind_of_each = np.repeat(kinds, agreement.counts)
    noise = np.bincount(participant, (agreement.weights * agreement.noise_scales()) ** 2).astype(np.float64)
    kinds_of_groups = []
    for group in members:
        which, counts = np.unique(kind_of_each[list(group)], return_counts=True)
        kinds_of_groups.append((*which.tolist(), *counts.tolist()))
    bundle, alike = _assigned(numbered(kinds_of_groups), -noise, most)
    return Bundles(bundle[participant], alike)


def numbered(kinds: list[Any]) -> Int[np.ndarray, " kinds"]:
    """Number kinds in the order of their first appearance."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(kind, len(known)) for kind in kinds])


kind_of_owner = attrgetter("records", "epsilon", "delta", "overlap", "weight", "rate", "floor", "group")
"""Terms that define an owner's kind: those that a simulation depends on."""


@lru_cache(maxsize=16)
def as_few(agreement: Agreement, most: int = MOST) -> Agreement:
    """Replace the owners of an agreement by about `most` bundles; returns it unchanged where they are few or cannot be bundled.

    Owners cannot be bundled under a rule that is not `bundled`, where a run ends before all answers are given (it is then
    short), and where at most MANY owners, or groups, answer in turns and those of one bundle differ. For simulations only:
    nobody signs the result.
    """
    mechanism, terms = agreement.mechanism, agreement.agreement
    if agreement.n_owners <= MOST or not isinstance(mechanism, GradientNoise):
        return agreement
    if terms.robust is not None or terms.graph is not None or not named(terms.rule).bundled:
        return agreement
    bundles, pure = bundled_participants(agreement, most), mechanism.guarantee is Guarantee.PURE
    N, few = agreement.n_owners if agreement.synchronous else agreement.n_participants, bundles.number
    together = agreement.synchronous or (terms.window > 1 and terms.schedule == "rounds")
    whole = agreement.synchronous or agreement.answers * N <= terms.horizon
    if not (bundles.alike or together) and agreement.n_owners == N:
        bundles = _bundled(agreement.owner_tables, max(MANY, most))
        few = bundles.number
    if not whole or few == agreement.n_owners or not (bundles.alike or together or few >= MANY):
        return agreement
    w = agreement.weights
    weight = bundles.total(w)
    noise = np.sqrt(bundles.total((w * agreement.noise_scales()) ** 2)) / np.maximum(weight, 1e-300)
    rate = agreement.by_owner([table.rate for table in agreement.owner_tables])
    rate = bundles.total(rate) / np.bincount(bundles.of_owner)
    member = np.empty(few, dtype=np.int64)
    member[bundles.of_owner] = np.repeat(np.arange(len(agreement.owner_tables)), agreement.counts)
    owners, seen = [], agreement.each_seen()
    for j in range(few):
        table = agreement.owner_tables[member[j]]
        b, κ = mechanism.scale(seen, table), table.overlap
        # b ∝ κ/(nε): n is scaled and rounded, and ε corrects the rounding, but not with δ, where the noise is not ∝ 1/ε.
        ratio, rounding = 1.0, 1.0
        if noise[j] > 0:
            ratio = b / float(noise[j])
        records = max(round(table.records * ratio), 1)
        if pure:
            rounding = table.records * ratio / records
        owners.append(
            {
                **table.model_dump(exclude_none=True, exclude={"count", "group", "floor"}),
                "name": f"{j}",
                "rate": float(rate[j]),
                "weight": float(weight[j]),
                "records": records,
                "overlap": 1,
                "epsilon": table.epsilon / κ * rounding,
                "delta": table.delta / κ,
            }
        )
    document = seen.with_owners() | {"owner": owners}
    document["agreement"].pop("group_size", None)
    if not agreement.synchronous:
        document["agreement"] |= {
            "horizon": seen.answers * few,
            "window": max(round(terms.window * few / N), 1),
        }
        if terms.step != "auto":
            document["agreement"]["step"] = agreement.step * N / few
    return Agreement.of(document)
