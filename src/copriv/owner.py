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
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import AgreementError, BudgetRefused, QueryRefused
from copriv.formatting.cards import Card, Shown
from copriv.mechanisms.mechanism import Phase, start_of
from copriv.model.records import InBlocks, Records
from copriv.privacy.ledger import Ledger, MemoryLedger, overspent
from copriv.privacy.release_time import ReleaseTime, rehearsed, rounded_slot, timed
from copriv.protocol import Answer, Query
from copriv.types import Array, Loss, is_linear


class Owner(Shown):
    """Answers typed gradient queries on its own records, under one agreement.

    Raises AgreementError when the agreement cannot be kept (a bound that nothing enforces, a wrong number of records),
    DataError when the loss cannot take the targets, and InvalidInput when the bound is so small that no noise can be
    certified: all before anything is spent.

    times: when answers leave, and draws ahead end (`copriv.privacy.release_time`). Without, an answer takes as long as it
    takes, which tells who can measure it something of the records and the noise; over a network `OwnerAgent` always gives one.

    Records that are not in memory (`InBlocks`) are passed over once here, to be checked, and once for each answer.

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
        self._terms = agreement.terms_of(name)
        if agreement.model.gradient_bound_assumed:
            raise AgreementError(
                "model.gradient_bound_assumed: a bound that nothing enforces is not private; an owner answers only "
                "with gradient_bound_assumed = false, where each record's gradient is clipped"
            )
        mechanism = agreement.mechanism
        mechanism.check_delta(agreement)
        if records.units != self._terms.records:
            raise AgreementError(
                f"owner.records: {name} agreed to {self._terms.records} "
                f"{'persons' if self._terms.unit else 'records'}, "
                f"its data has {records.units}; the noise depends on it: correct the agreement"
            )
        begun = time.perf_counter()
        self._check_records(agreement, name, records, loss)
        self._seconds_to_read = 0.0 if isinstance(records, Records) else time.perf_counter() - begun
        self._times = times
        self._draws: ReleaseTime | None = None
        """When draws ahead end: slots of their own, which no record and no noise that is used has a part in."""
        self.name, self._agreement, self._records, self._loss = name, agreement, records, loss
        self._fingerprint = agreement.fingerprint
        # A ledger's own cap may be higher, and with δ answers after the first cost nothing: count and charge are one step.
        self._one_at_a_time = threading.Lock()
        self._start = start_of(agreement, records.n_parameters)
        self._phase: Phase = mechanism.phase(agreement, self._terms, records.n_parameters, loss)
        δ = Fraction(self._terms.delta)
        if ledger is None:  # not `or`: a ledger without a line yet may count as false
            ledger = MemoryLedger(name, Fraction(self._terms.epsilon), agreement.answers, δ)
        ledger.open_for(self._fingerprint, δ)
        self.ledger: Ledger = ledger

    def charging(self, ledger: Ledger, times: ReleaseTime) -> "Owner":
        """This owner for another run: the same records and terms, with that run's ledger.

        Records in memory were checked, and are not looked at again: whoever names a run cannot measure how long that
        takes. Others are read anew, in a slot of `times`. Raises as the class does.
        """
        owner = copy(self)  # with the same mechanism: noise in waiting is taken once, whatever the run
        owner._one_at_a_time, owner._times, owner.ledger = threading.Lock(), times, ledger
        ledger.open_for(self._fingerprint, Fraction(self._terms.delta))
        if not isinstance(self._records, Records):
            with times.held():
                self._check_records(self._agreement, self.name, self._records, self._loss)
        return owner

    def _card(self) -> Card:
        m, ε = self._agreement.answers, self._terms.epsilon
        return Card(
            f"Owner {self.name!r}: {self._terms.records:,} {'persons' if self._terms.unit else 'records'}",
            (
                f"{self.ledger.answers:,} of {m:,} answer{'s' if m > 1 else ''} given; "
                f"epsilon {float(self.ledger.spent):.6g} of {ε:g} spent.",
                f"Agreement {self._agreement.agreement.name!r}, {self._fingerprint[:16]}…",
            ),
        )

    def answer(self, query: Query) -> Answer:
        """One private answer; the same query asked again gets the same answer and costs nothing.

        Raises QueryRefused (not a query of this agreement; nothing charged) or BudgetRefused (answer m + 1).
        """
        self._check(query)
        stored = self.ledger.released(query.identity, query.theta)
        if stored is None:
            with self._one_at_a_time:
                if self.ledger.answers >= self._phase.answers:
                    budget, spent = Fraction(self._terms.epsilon), self.ledger.spent
                    raise BudgetRefused(overspent(self.name, self._phase.charge[0], budget, spent, answers_left=0))
                self.ledger.charge(query.identity, query.theta, *self._phase.charge)
            stored = self._private(query.theta)
            self.ledger.record(query.identity, stored)
        return Answer(query.identity, query.fingerprint, self.name, stored, self.ledger.answers, self.ledger.head)

    def release_time(self) -> ReleaseTime:
        """Times for this owner's answers, long enough for any records of this shape: measured on made-up ones.

        The time that it takes to read records that are not in memory is that of reading these.
        """
        n, most = self._records.units, self._terms.unit_records
        rows = n if self._terms.unit is None else n * (most or 1)
        if self._terms.unit is not None and most is None and isinstance(self._records, Records):
            rows = n * 2 ** math.ceil(
                math.log2(max(len(self._records) / n, 1.0))
            )  # how many a person has is not public
        seconds = rehearsed(self._phase.private, self._loss, rows, self._start)
        return ReleaseTime(rounded_slot(seconds + self._seconds_to_read))

    def draw_ahead(self) -> None:
        """Draw the noise of the next answer now, while nobody waits for it, where the mechanism allows it.

        It is used once, and soon, or not at all; call `drop_noise` when a connection ends. `copriv.privacy.laplace` says
        what it is safe against, and what not.
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
        # Whoever speaks meanwhile hears back when it ends, and would learn how long the draw took.
        with self._draws.held():
            ahead.draw()

    def drop_noise(self) -> None:
        """Forget what `draw_ahead` drew."""
        if self._phase.private.ahead is not None:
            self._phase.private.ahead.drop()

    def _private(self, theta: Float[Array, " p"]) -> Float[Array, " answer"]:
        with self._held():
            return self._phase.private.answer(self._loss, self._records, theta)

    def _held(self) -> AbstractContextManager[None]:
        return nullcontext() if self._times is None else self._times.held()

    def _check_records(self, agreement: Agreement, name: str, records: Records | InBlocks, loss: Loss) -> None:
        if isinstance(records, Records):
            loss.check_target(records.target)
            persons = self._terms.unit is not None
            # Rows of zeros stay so only without an intercept, and have no gradient only where that is φ′·x.
            shares = not persons and not agreement.model.intercept and is_linear(loss) and records.are_shares
            if not shares and not records.weights_of_a_unit_are_1(persons):
                raise AgreementError(
                    f"owner.records: {name}'s rows have weights that no unit proves; "
                    + (
                        "a person's rows share 1 equally: make them with Records.of_persons"
                        if persons
                        else "every record weighs 1: make them with Records.of, without weights"
                    )
                )
            return
        if agreement.one_answer or self._terms.unit is not None:
            what = (
                f'mechanism "{agreement.agreement.mechanism}"' if agreement.one_answer else "a unit of several records"
            )
            raise AgreementError(f"owner: {what} needs {name}'s records in memory; raise the limit (--memory)")
        for block in records.blocks():
            loss.check_target(block.target)
            if not (block.weight == 1).all():
                raise AgreementError("owner.records: records that are not in memory weigh 1 each")

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
