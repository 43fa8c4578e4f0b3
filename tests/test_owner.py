"""The owner: what it answers, what it refuses, and that a refusal costs nothing."""

import os
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.agreement import Agreement
from copriv.errors import AgreementError, BudgetRefused, DataError, InvalidInput, QueryRefused
from copriv.losses import Custom, Hinge, Logistic, Squared
from copriv.model.records import Records
from copriv.owner import Owner
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.privacy.ledger import MemoryLedger
from copriv.protocol import Query
from copriv.types import Array, Loss

P, N, M = 3, 20, 4


def agreement(owner: dict[str, Any] | None = None, **model: Any) -> Agreement:
    terms = {"name": "bank-1", "records": N, "epsilon": 1.0} | (owner or {})
    units = {key: terms[key] for key in ("unit", "unit_records") if key in terms}  # the same for all owners
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 100, "answers": M, "step": 1.0},
            "model": {"loss": "squared", "gradient_bound": 1.0, "theta_max": 5.0} | model,
            "owner": [terms, {"name": "bank-2", "records": 7, "epsilon": 2.0} | units],
        }
    )


def records(n: int = N) -> Records:
    rng = np.random.default_rng(0)
    return Records.of(rng.normal(size=(n, P)), rng.choice([-1.0, 1.0], size=n))


TERMS = agreement()


def owner(terms: Agreement = TERMS, loss: Loss | None = None, ledger: Any = None) -> Owner:
    return Owner(terms, "bank-1", records(), loss or Squared(), ledger)


def query(identity: str = "q", theta: Any = None, **changes: Any) -> Query:
    fields = {"identity": identity, "fingerprint": TERMS.fingerprint, "owner": "bank-1"} | changes
    built = object.__new__(Query)  # past the shape checks of the tests: the owner must do without them
    for name, value in (fields | {"theta": np.zeros(P) if theta is None else theta}).items():
        object.__setattr__(built, name, value)
    return built


def test_an_answer_carries_names_and_count() -> None:
    bank = owner()
    for k in range(2):
        answer = bank.answer(query(f"q{k}"))
        assert (answer.identity, answer.owner, answer.fingerprint) == (f"q{k}", "bank-1", TERMS.fingerprint)
        assert (answer.answered, answer.gradient.shape, answer.gradient.dtype) == (k + 1, (P,), np.float64)
        assert bank.ledger.spent == Fraction(k + 1, M)


def test_answer_m_plus_1_is_refused_and_the_budget_is_spent_exactly() -> None:
    bank = owner()
    for k in range(M):
        bank.answer(query(f"q{k}", np.full(P, 0.1 * k)))
    for k in range(3):
        with pytest.raises(BudgetRefused, match=r"spent 1\.000 of 1\.000"):
            bank.answer(query(f"more-{k}"))
    assert (bank.ledger.answers, bank.ledger.spent) == (M, 1)
    assert bank.answer(query("q0")).answered == M  # what was released stays available


def test_the_same_query_again_is_the_same_answer_and_free() -> None:
    bank = owner()
    first = bank.answer(query())
    kept = first.gradient.copy()
    first.gradient[:] = 7  # what a learner does to its copy is its own affair
    for _ in range(2):
        again = bank.answer(query())
        assert again.gradient.tobytes() == kept.tobytes()
        again.gradient[:] = 8
    assert bank.ledger.answers == 1


def test_the_same_identity_at_another_theta_is_refused() -> None:
    bank = owner()
    bank.answer(query())
    with pytest.raises(QueryRefused, match="another theta"):
        bank.answer(query(theta=np.full(P, 1e-9)))
    assert bank.ledger.answers == 1


def test_every_draw_is_fresh() -> None:
    """The same θ under new names, and in restarted owners: all noise differs, in every coordinate."""
    draws = np.array([owner().answer(query()).gradient for _ in range(20)])
    bank = owner()
    draws = np.vstack([draws, [bank.answer(query(f"q{k}")).gradient for k in range(M)]])
    assert len(np.unique(draws)) == draws.size


def test_rows_are_a_copy_whose_memory_nobody_can_write_to() -> None:
    """A row that grew after its clipping limit was worked out counted for more than its bound."""
    x = np.full((10, 1), 0.1)
    x.flags.writeable = False
    held = Records.of(x, np.ones(10))
    x.flags.writeable = True
    x[0] = 1e4
    assert held.features[0, 0] == 0.1
    for array in (held.features, held.target, held.weight, held.taken(slice(3)).features):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_rows_are_64_bit_floats_row_by_row_and_finite() -> None:
    """Lengths of 16 bits let a row pass its bound, and rows by columns are added up in an order that other rows decide."""
    held = Records(np.ones((N, P), dtype=np.float16), np.ones(N, dtype=np.float32), np.ones(N))
    assert (held.features.dtype, held.target.dtype) == (np.float64, np.float64)
    by_columns = np.frombuffer(np.ones((P, N)).tobytes()).reshape(P, N).T
    assert Records(by_columns, np.ones(N), np.ones(N)).features.flags.c_contiguous
    with pytest.raises(InvalidInput, match="must be finite"):
        Owner(agreement(), "bank-1", Records(np.full((N, P), np.nan), np.ones(N), np.ones(N)), Squared())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_forked_processes_draw_other_noise() -> None:
    """OpenDP's generator has its state in the process: copies of it that went on alike would blur two answers alike."""
    bank = owner()
    bank.answer(query())  # from here on the generator has a state to copy
    drawn = []
    for k in range(3):
        heard, says = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(says, bank.answer(query(f"child {k}")).gradient.tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        drawn.append(np.frombuffer(os.read(heard, 8 * P)))
        os.close(heard)
        os.close(says)
    drawn.append(bank.answer(query("parent")).gradient)
    assert len(np.unique(drawn)) == np.size(drawn)


REFUSED = {
    "NaN": query(theta=np.array([0.0, np.nan, 0.0])),
    "inf": query(theta=np.array([0.0, 0.0, np.inf])),
    "-inf": query(theta=np.array([-np.inf, 0.0, 0.0])),
    "too short": query(theta=np.zeros(P - 1)),
    "too long": query(theta=np.zeros(P + 1)),
    "empty": query(theta=np.zeros(0)),
    "a matrix": query(theta=np.zeros((1, P))),
    "a column": query(theta=np.zeros((P, 1))),
    "a number": query(theta=np.array(0.0)),
    "32 bits": query(theta=np.zeros(P, dtype=np.float32)),
    "whole numbers": query(theta=np.zeros(P, dtype=np.int64)),
    "complex": query(theta=np.zeros(P, dtype=np.complex128)),
    "objects": query(theta=np.array([0.0] * P, dtype=object)),
    "other byte order": query(theta=np.zeros(P, dtype=">f8")),
    "outside the box": query(theta=np.array([0.0, -5.0000000000000009, 0.0])),
    "another agreement": query(fingerprint="0" * 64),
    "an agreement that differs in one term": query(fingerprint=agreement(theta_max=6.0).fingerprint),
    "for another owner": query(owner="bank-2"),
    "no identity": query(identity=""),
    "an endless identity": query(identity="q" * 201),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_was_not_agreed_is_refused_and_free(what: str) -> None:
    bank = owner()
    with pytest.raises(QueryRefused, match="bank-1 refused query"):
        bank.answer(REFUSED[what])
    assert (bank.ledger.answers, bank.ledger.spent) == (0, 0)
    bank.answer(query())  # and it goes on answering


def test_the_box_itself_is_inside() -> None:
    assert owner().answer(query(theta=np.array([5.0, -5.0, 0.0]))).answered == 1


@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from([0.0, 1.0, 9.0])), max_size=25))
def test_whatever_is_asked_in_whatever_order_the_budget_holds(asked: list[tuple[int, float]]) -> None:
    bank, answered = owner(), dict[tuple[int, float], bytes]()
    for name, coordinate in asked:
        try:
            gradient = bank.answer(query(f"q{name}", np.full(P, coordinate))).gradient.tobytes()
        except (QueryRefused, BudgetRefused):
            continue
        assert answered.setdefault((name, coordinate), gradient) == gradient
    assert len({name for name, _ in answered}) == len(answered) == bank.ledger.answers <= M
    assert bank.ledger.spent == Fraction(len(answered), M) <= 1


# Failures


class Breaks(MemoryLedger):
    """A ledger whose disk fills up between the charge and the record."""

    def record(self, identity: str, gradient: Array) -> None:
        raise OSError("no space left on the device")


def _raises(theta: Array, x: Array, y: Array) -> Array:
    raise ArithmeticError("the computation breaks")


def test_a_failure_before_the_record_leaves_the_budget_spent_and_the_query_unanswered() -> None:
    broken = {
        "the ledger": (OSError, owner(ledger=Breaks("bank-1", Fraction(1), M))),
        "the loss": (ArithmeticError, owner(loss=Custom("breaks", lambda theta, x, y: y, _raises))),
    }
    for what, (error, bank) in broken.items():
        with pytest.raises(error):
            bank.answer(query())
        assert (bank.ledger.answers, bank.ledger.spent) == (1, Fraction(1, M)), what
        with pytest.raises(QueryRefused, match="charged and never answered"):
            bank.answer(query())
        assert bank.ledger.answers == 1, what


def test_failures_cannot_be_used_for_more_than_m_tries() -> None:
    bank = owner(loss=Custom("breaks", lambda theta, x, y: y, _raises))
    for k in range(M):
        with pytest.raises(ArithmeticError):
            bank.answer(query(f"q{k}"))
    with pytest.raises(BudgetRefused):
        bank.answer(query("one more"))


def test_a_refused_charge_reads_no_record() -> None:
    reads: list[int] = []

    def counted(theta: Array, x: Array, y: Array) -> Array:
        reads.append(len(y))
        return np.zeros_like(x)

    bank = owner(loss=Custom("counted", lambda theta, x, y: y, counted))
    for k in range(M):
        bank.answer(query(f"q{k}"))
    with pytest.raises(BudgetRefused):
        bank.answer(query("one more"))
    assert len(reads) == M


# Agreements that cannot be kept


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (agreement(gradient_bound_assumed=True), "gradient_bound_assumed.*not private"),
        (agreement({"delta": 1e-6}), "delta"),
        (agreement({"records": N + 1}), f"agreed to {N + 1} records, its data has {N}"),
        (agreement({"records": N - 1}), f"agreed to {N - 1} records, its data has {N}"),
        (agreement(gradient_bound="auto"), 'gradient_bound: still "auto"'),
        (agreement(gradient_bound="proved"), 'gradient_bound: still "proved"'),
    ],
)
def test_an_agreement_that_cannot_be_kept_is_refused(terms: Agreement, message: str) -> None:
    with pytest.raises(AgreementError, match=message):
        owner(terms)


def test_an_owner_that_is_not_in_the_agreement_is_refused() -> None:
    with pytest.raises(AgreementError, match="'bank-9' is not in the agreement, which names bank-1, bank-2"):
        Owner(TERMS, "bank-9", records(), Squared())


@pytest.mark.parametrize("loss", [Logistic(), Hinge()])
def test_labels_that_the_loss_cannot_take_are_refused(loss: Loss) -> None:
    wrong = Records.of(np.ones((N, P)), np.append(np.ones(N - 1), 0.0))
    with pytest.raises(DataError, match=f"record {N}, counted from 1, is 0; the {loss.name} loss needs labels"):
        Owner(TERMS, "bank-1", wrong, loss)


def test_weights_that_are_not_whole_units_are_refused() -> None:
    # 19.6 would count as 20 units: noise for 20, and a mean over 19.6.
    x = np.ones((N, P))
    with pytest.raises(AgreementError, match="weights"):
        Owner(TERMS, "bank-1", Records.of(x, np.ones(N), np.full(N, 0.98)), Squared())


def test_one_row_of_weight_50_in_a_hundred_is_refused() -> None:
    """Weights that add up to n in all, of which one moves the mean 50 times as far: it made epsilon 1 an epsilon of 50.5."""
    weights = np.full(N, 0.5)
    weights[0] = N - 0.5 * (N - 1)
    with pytest.raises(AgreementError, match="weights that no unit proves; every record weighs 1"):
        Owner(TERMS, "bank-1", Records.of(np.ones((N, P)), np.ones(N), weights), Squared())


def of_persons(whose: np.ndarray, **changes: np.ndarray) -> Records:
    rows = np.random.default_rng(1).normal(size=(len(whose), P + 1))
    return replace(Records.of_persons(rows[:, :P], rows[:, P], whose), **changes)


PERSONS = np.repeat(np.arange(N), 3)


@pytest.mark.parametrize(
    "rows",
    [
        Records.of(np.ones((N, P)), np.ones(N)),
        Records.of(np.ones((2 * N, P)), np.ones(2 * N), np.full(2 * N, 0.5)),
        of_persons(PERSONS, weight=np.tile([0.5, 0.3, 0.2], N)),
        of_persons(PERSONS, weight=np.tile([1 / 3, 1 / 3, np.nextafter(1 / 3, 1)], N)),
        of_persons(PERSONS, person=np.zeros(3 * N, dtype=np.int64)),
        Records.concatenate([of_persons(PERSONS[: N * 3 // 2]), of_persons(PERSONS[N * 3 // 2 :])]),
    ],
)
def test_where_persons_are_units_only_shares_of_a_person_are_taken(rows: Records) -> None:
    terms = agreement({"unit": "patient", "unit_records": 3})
    assert (
        Owner(terms, "bank-1", of_persons(PERSONS), Squared()).answer(query(fingerprint=terms.fingerprint)).answered
        == 1
    )
    with pytest.raises(AgreementError, match="weights that no unit proves; a person's rows share 1 equally"):
        Owner(terms, "bank-1", rows, Squared())


def test_whose_rows_they_are_cannot_be_changed_afterwards() -> None:
    person = PERSONS.copy()
    rows = of_persons(person)
    assert rows.person is not None
    with pytest.raises(ValueError, match="read-only"):
        rows.person[0] = 5


def test_a_bound_that_no_noise_can_be_certified_for_is_refused_before_any_charge() -> None:
    ledger = MemoryLedger("bank-1", Fraction(1), M)
    with pytest.raises(InvalidInput, match="too close to the grid"):
        owner(agreement(gradient_bound=1e-11), ledger=ledger)
    assert ledger.answers == 0


def test_persons_are_counted_once() -> None:
    """Sixty rows of twenty persons are n = 20, and 60 in an agreement is wrong."""
    rng = np.random.default_rng(1)
    rows = Records.of_persons(rng.normal(size=(60, P)), rng.normal(size=60), np.repeat(np.arange(20), 3))
    terms = agreement({"unit": "patient", "unit_records": 3})
    assert Owner(terms, "bank-1", rows, Squared()).answer(query(fingerprint=terms.fingerprint)).answered == 1
    with pytest.raises(AgreementError, match="has 20"):
        Owner(agreement({"records": 60}), "bank-1", rows, Squared())
    with pytest.raises(AgreementError, match="every record weighs 1"):
        Owner(TERMS, "bank-1", rows, Squared())


def test_a_ledger_that_counts_as_false_is_used_all_the_same() -> None:
    class Empty(MemoryLedger):
        def __len__(self) -> int:
            return self.answers

    ledger = Empty("bank-1", Fraction(1), M)
    bank = owner(ledger=ledger)
    bank.answer(query())
    assert bank.ledger is ledger
    assert ledger.answers == 1


def with_delta(answers: int) -> Agreement:
    return TERMS.replace(agreement={"mechanism": "gaussian", "answers": answers}, owner={"delta": 1e-6})


def test_a_ledger_with_a_higher_cap_gives_no_more_answers() -> None:
    """With δ the first charge pays for all: nothing but the agreement's own m stands between it and a 31st answer."""
    terms = with_delta(1)
    bank = owner(terms, ledger=MemoryLedger("bank-1", Fraction(1), 30, Fraction(terms.owner[0].delta)))
    bank.answer(query("q0", fingerprint=terms.fingerprint))
    with pytest.raises(BudgetRefused, match="at most 0 more"):
        bank.answer(query("q1", fingerprint=terms.fingerprint))


class Slow(MemoryLedger):
    """Takes its time over a charge, so that several callers are between count and charge at once."""

    def charge(self, *what: Any) -> None:
        time.sleep(0.05)
        super().charge(*what)


@pytest.mark.parametrize("locked", [True, False])
def test_callers_at_the_same_time_get_m_answers_together(locked: bool) -> None:
    """Else the second answer of a δ run for one would be free: the ledger's own cap is higher."""
    terms = with_delta(1)
    bank = owner(terms, ledger=Slow("bank-1", Fraction(1), 30, Fraction(terms.owner[0].delta)))
    if not locked:
        bank._one_at_a_time = nullcontext()  # type: ignore[assignment]
    given: list[str] = []

    def call(identity: str) -> None:
        with suppress(BudgetRefused):
            bank.answer(query(identity, fingerprint=terms.fingerprint))
            given.append(identity)

    callers = [threading.Thread(target=call, args=(f"q{k}",)) for k in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert (len(given) == 1) is locked


def test_what_delta_paid_for_is_not_there_for_another_agreement() -> None:
    one, other = with_delta(1), with_delta(2)
    ledger = MemoryLedger("bank-1", Fraction(1), 30, Fraction(one.owner[0].delta))
    owner(one, ledger=ledger).answer(query("q0", fingerprint=one.fingerprint))
    with pytest.raises(BudgetRefused, match="ledger of its own"):
        owner(other, ledger=ledger)


def test_rows_cannot_be_changed_behind_an_owner() -> None:
    """What is clipped with norms that were worked out before must be what they are the norms of."""
    x, y = np.full((N, P), 0.1), np.full(N, 100.0)
    held = Records.of(x, y)
    before = clipped_mean_gradient(Squared(), held, np.zeros(P), 1.0)
    x *= 1000.0
    y *= -1.0
    after = clipped_mean_gradient(Squared(), held, np.zeros(P), 1.0)
    assert np.abs(after).sum() <= 1.0 + 1e-12
    assert after.tobytes() == before.tobytes()
    shared = np.full((N, P), 0.1)
    for kept in (Records(shared, y, np.ones(N)), Records(shared[:], y, np.ones(N)), held.with_intercept()):
        with pytest.raises(ValueError, match="read-only"):
            kept.features[0, 0] = 1e6
        shared[0, 0] = 5.0
        assert kept.features[0, 0] == 0.1
        shared[0, 0] = 0.1


def test_overlap_is_charged_as_a_share_of_the_budget() -> None:
    terms = agreement({"overlap": 2})
    bank = owner(terms)
    for k in range(M):
        bank.answer(query(f"q{k}", fingerprint=terms.fingerprint))
    assert bank.ledger.spent == Fraction(1, 2)  # the other half is what the second owner's answers may spend
    with pytest.raises(BudgetRefused):
        bank.answer(query("more", fingerprint=terms.fingerprint))


def test_simulated_noise_is_nowhere_behind_an_owner() -> None:
    """An owner answers where simulated noise cannot even be imported; only what it needs itself is loaded.

    The package's own __init__ gathers the whole public interface, simulations too, so it is left out here.
    """
    code = """
import importlib.machinery, importlib.util, sys
spec = importlib.util.find_spec("copriv")
package = importlib.util.module_from_spec(importlib.machinery.ModuleSpec("copriv", None, is_package=True))
package.__path__ = list(spec.submodule_search_locations)
sys.modules["copriv"] = package
sys.modules["copriv.privacy.simulated_noise"] = None
import numpy as np
from copriv.agreement import Agreement
from copriv.losses import Squared
from copriv.owner import Owner
from copriv.protocol import Query
from copriv.model.records import Records
terms = Agreement.of({
    "agreement": {"rule": "A2", "horizon": 2},
    "model": {"loss": "squared", "gradient_bound": 1.0},
    "owner": [{"name": "a", "records": 3, "epsilon": 1.0}],
})
owner = Owner(terms, "a", Records.of(np.ones((3, 2)), np.ones(3)), Squared())
assert owner.answer(Query("q", terms.fingerprint, "a", np.zeros(2))).gradient.shape == (2,)
loaded = {name for name, module in sys.modules.items() if name.startswith("copriv") and module is not None}
assert "copriv.privacy.laplace" in loaded
assert not {name for name in loaded if "simulat" in name}, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
