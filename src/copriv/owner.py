"""A data owner: the only reader of private records.

Guarantee: over a whole run, whatever is asked and in whatever order, the answers are ε-differentially private for one
record (or one person's records) replaced. It rests on four things, all enforced here and none on the learner:

1. each unit contributes at most Ξ in L1: by clipping, or by a bound proved from the owner's own checked data bounds;
2. each answer carries fresh noise of scale b = 2Ξmκ/(nε) from a vetted sampler (or that of another mechanism that
   the agreement names, with δ where it says so: docs/explanation/mechanisms.md);
3. the ledger is charged before a record is read;
4. answer m + 1 is refused.

Source: A, Thm 1; S, Thm 1; errata 1, 7 and 8.
"""

import math
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import AgreementError, BudgetRefused, QueryRefused
from copriv.formatting.cards import Card, Shown
from copriv.formatting.numbers import counted
from copriv.mechanisms.mechanism import Phase, start_of
from copriv.model.records import InBlocks, Records
from copriv.privacy.ledger import Ledger, MemoryLedger, overspent
from copriv.privacy.release_time import (
    KeepsOfRecords,
    ManyPasses,
    ReleaseTime,
    coarse_slot,
    measured_seconds,
    rounded_slot,
    timed,
)
from copriv.protocol import Answer, Query
from copriv.types import Array, Loss, is_linear
from copriv.validation import finite_array


class Owner(Shown):
    """Answers typed gradient queries on its own records, under one agreement.

    Raises AgreementError when the agreement cannot be kept (a bound that nothing enforces, a wrong number of records),
    DataError when the loss cannot take the targets, and InvalidInput when the bound is so small that no noise can be
    certified: all before anything is spent.

    times: the slots at whose ends answers are released and draws ahead end (`copriv.privacy.release_time`). Without them
    the time that an answer takes depends on the records and the noise, for whoever can measure it; over a network
    `OwnerAgent` always passes them.

    Records that are not in memory (`InBlocks`) are read once here, to be checked, and once for each answer.

    >>> problem = copriv.Problem.of(agreement, data)
    >>> north = copriv.Owner(agreement, "north", problem.owners[0], problem.loss)
    >>> query = copriv.Query("first", agreement.fingerprint, "north", np.zeros(3))
    >>> north.answer(query).gradient.shape
    (3,)
    >>> north.ledger.answers, float(north.ledger.spent) == agreement.owner[0].epsilon / 3
    (1, True)
    """

    def __init__(
        self,
        agreement: Agreement,
        name: str,
        records: Records | InBlocks,
        loss: Loss,
        ledger: Ledger | None = None,
        *,
        times: ReleaseTime | None = None,
    ) -> None:
        agreement.check_one_phase()
        self._terms = agreement.terms_of(name)
        if agreement.model.gradient_bound_assumed:
            raise AgreementError(
                "model.gradient_bound_assumed: a bound that nothing enforces is not private; an owner answers only "
                "with gradient_bound_assumed = false, where each record's gradient is clipped"
            )
        agreement.mechanism.check_delta(agreement)
        if records.units != self._terms.records:
            raise AgreementError(
                f"owner.records: {name} agreed to {self._terms.records} {self._terms.counted}, its data has {records.units}; "
                "the noise depends on it: correct the agreement"
            )
        self._seconds_to_read = 0.0
        self._check_records(agreement, name, records, loss)
        self._times = times
        self._draws: ReleaseTime | None = None
        """Slots of the draws ahead, whose length depends neither on the records nor on noise that is used."""
        self.name, self._records, self._loss = name, records, loss
        # The cap is checked and the charge made in one step: a ledger's own cap may be higher, and with δ answers after the
        # first cost nothing.
        self._one_at_a_time = threading.Lock()
        self._agree(agreement)
        δ = Fraction(self._terms.delta)
        if ledger is None:  # not `or`: a ledger without a line yet may count as false
            ledger = MemoryLedger(name, Fraction(self._terms.epsilon), agreement.answers, δ)
        ledger.open_for(self._fingerprint, δ)
        self.ledger: Ledger = ledger

    def _agree(self, agreement: Agreement) -> None:
        """Answer under these terms from here on. Raises as `Mechanism.phase` does."""
        p, self._agreement, self._fingerprint = self._records.n_parameters, agreement, agreement.fingerprint
        self._terms, self._start = agreement.terms_of(self.name), start_of(agreement, p)
        group = agreement.answers_with(self.name) if agreement.summed else ()
        self._phase: Phase = agreement.mechanism.phase(agreement, self._terms, p, self._loss, group)

    def charging(self, ledger: Ledger, times: ReleaseTime, agreement: Agreement | None = None) -> "Owner":
        """This owner with another run's ledger, and the same records; with another phase's terms where they are given.

        Slots of `times` become as long as an answer under those terms may take, measured on made-up rows.

        Records in memory were checked before and are not read again, so that the learner, who names the run, cannot measure
        how long that takes. Others are read again, within a slot of `times`. Raises as the class does.
        """
        owner = copy(self)  # with the same mechanism, so that noise drawn ahead is used once over all runs
        owner._one_at_a_time, owner._times, owner.ledger = threading.Lock(), times, ledger
        if agreement is not None:
            owner._draws = None
            owner._agree(agreement)
            if isinstance(owner._phase.private, ManyPasses):  # the terms decide how many
                times.at_least(owner.release_time().slot)
        ledger.open_for(owner._fingerprint, Fraction(owner._terms.delta))
        if not isinstance(self._records, Records):
            with times.held():
                self._check_records(owner._agreement, self.name, self._records, self._loss)
        return owner

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the terms that it answers under."""
        return self._fingerprint

    def _card(self) -> Card:
        m, ε = self._agreement.answers, self._terms.epsilon
        return Card(
            f"Owner {self.name!r}: {self._terms.records:,} {self._terms.counted}",
            (
                f"{self.ledger.answers:,} of {counted(m, 'answer')} given; "
                f"epsilon {float(self.ledger.spent):.6g} of {ε:g} spent.",
                f"Agreement {self._agreement.agreement.name!r}, {self._fingerprint[:16]}…",
            ),
        )

    def answer(self, query: Query, hide: Callable[[Array], Array] | None = None) -> Answer:
        """One private answer; the same query asked again gets the same answer and costs nothing.

        hide: puts an answer, with fresh noise in it, under masks. It is needed where only sums are agreed to be seen
        (`copriv.network.masked_sum`), since one owner's share of the noise protects nobody. The answer is then the masked
        words, as numbers (`copriv.privacy.masks`).
        Raises QueryRefused (not a query of this agreement; nothing charged) or BudgetRefused (answer m + 1).
        """
        self._check(query)
        if self._agreement.summed != (hide is not None):
            how = "under masks, which are missing" if hide is None else "each by itself, and not under masks"
            raise self._refused(query, f"answers of this agreement leave {how}")
        stored = self.ledger.released(query.identity, query.theta)
        if stored is None:
            with self._one_at_a_time:
                if self.ledger.answers >= self._phase.answers:
                    budget, spent = Fraction(self._terms.epsilon), self.ledger.spent
                    raise BudgetRefused(overspent(self.name, self._phase.charge[0], budget, spent, answers_left=0))
                self.ledger.charge(query.identity, query.theta, *self._phase.charge)
            stored = self._private(query.theta)
            if hide is not None:
                stored = hide(stored)
            self.ledger.record(query.identity, stored)
        return Answer(query.identity, query.fingerprint, self.name, stored, self.ledger.answers, self.ledger.head)

    def release_time(self) -> ReleaseTime:
        """Slots that are long enough for an answer on any records of this shape, measured on made-up ones.

        Where reading the owner's own table takes longer than that, or nothing can be made up of its source, slots follow from
        the time that reading took, in coarse steps.
        """
        rows, private = self._records.units, self._phase.private
        if self._terms.unit is not None:
            rows *= self._terms.unit_records or 1
            if self._terms.unit_records is None and isinstance(self._records, Records):
                # The number of rows per person is not public: it is rounded up to a power of 2.
                rows *= 2 ** math.ceil(math.log2(max(len(self._records) / rows, 1.0)))
        if isinstance(self._records, Records) and isinstance(private, KeepsOfRecords):
            private.keep(self._loss, self._records)
        made_up = getattr(self._records, "made_up", None)
        seconds = measured_seconds(private, self._loss, rows, self._start, made_up)
        slot = rounded_slot(seconds)
        if not isinstance(self._records, Records) and (made_up is None or self._seconds_to_read > slot):
            self._check_records(self._agreement, self.name, self._records, self._loss)  # the first pass filled caches
            if made_up is None or self._seconds_to_read > slot:
                slot = coarse_slot(self._seconds_to_read + seconds)
        return ReleaseTime(slot)

    def draw_ahead(self) -> None:
        """Draw the noise of the next answer while no query waits for it, where the mechanism allows it.

        The noise is used for at most one answer, within `copriv.privacy.laplace.LASTS` seconds; call `drop_noise` when a
        connection ends. `copriv.privacy.laplace` states the guarantee and its limits.
        """
        ahead = self._phase.private.ahead
        if ahead is None or self.ledger.answers >= self._phase.answers:
            return
        if self._times is None:
            ahead.draw()
            return
        if self._draws is None:

            def rehearse() -> None:
                ahead.drop()
                ahead.draw()

            self._draws = ReleaseTime(rounded_slot(max(timed(rehearse))))
            ahead.drop()
        # A message that arrives meanwhile is handled when the draw ends, which would reveal how long it took.
        with self._draws.held():
            ahead.draw()

    def drop_noise(self) -> None:
        """Discard the noise that `draw_ahead` drew."""
        if self._phase.private.ahead is not None:
            self._phase.private.ahead.drop()

    def _private(self, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        """A private answer, computed and held within a slot."""
        # A floating-point warning, and more so an error made of one, would tell of single records.
        with self._times.held() if self._times is not None else nullcontext(), np.errstate(all="ignore"):
            return self._phase.private.answer(self._loss, self._records, theta)

    def _check_records(self, agreement: Agreement, name: str, records: Records | InBlocks, loss: Loss) -> None:
        if isinstance(records, Records):
            with np.errstate(all="ignore"):
                for what in ("features", "target", "weight"):
                    finite_array(f"{name}'s {what}", getattr(records, what), 2 if what == "features" else 1)
                loss.check_target(records.target)
            persons = self._terms.unit is not None
            # Rows of zeros stay so only without an intercept, and have no gradient only where that is φ′·x.
            shares = not persons and not agreement.model.intercept and is_linear(loss) and records.are_shares
            if not shares and not records.weights_of_a_unit_are_1(persons):
                rule = "every record weighs 1: make them with Records.of, without weights"
                if persons:
                    rule = "a person's rows share 1 equally: make them with Records.of_persons"
                raise AgreementError(f"owner.records: {name}'s rows have weights that no unit proves; {rule}")
            return
        if agreement.one_answer or self._terms.unit is not None:
            what = "a unit of several records"
            if agreement.one_answer:
                what = f'mechanism "{agreement.agreement.mechanism}"'
            raise AgreementError(f"owner: {what} needs {name}'s records in memory; raise the limit (--memory)")
        begun = time.perf_counter()
        for block in records.blocks():
            loss.check_target(block.target)
            if not (block.weight == 1).all():
                raise AgreementError("owner.records: records that are not in memory weigh 1 each")
        self._seconds_to_read = time.perf_counter() - begun

    def _check(self, query: Query) -> None:
        if query.owner != self.name:
            raise self._refused(query, f"it is for {query.owner!r}")
        if query.fingerprint != self._fingerprint:
            raise self._refused(
                query, "it belongs to another agreement (the fingerprints differ); exchange the agreement again"
            )
        if query.theta.shape != (self._records.n_parameters,) or query.theta.dtype != np.float64:
            raise self._refused(
                query, f"theta must be {self._records.n_parameters} float64 numbers, not shape {query.theta.shape}"
            )
        if not (np.abs(query.theta) <= self._agreement.model.theta_max).all():
            raise self._refused(
                query, f"theta must be finite and inside the box of theta_max {self._agreement.model.theta_max:g}"
            )
        if self._phase.at is not None and not np.array_equal(query.theta, self._phase.at):
            raise self._refused(query, "its mechanism answers once, at the agreed start, and theta is not that")
        if not query.identity or len(query.identity) > 200:
            raise self._refused(query, "an identity has 1 to 200 characters")

    def _refused(self, query: Query, why: str) -> QueryRefused:
        return QueryRefused(f"{self.name} refused query {query.identity!r}: {why}")
