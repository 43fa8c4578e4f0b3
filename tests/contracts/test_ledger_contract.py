"""What every ledger must keep, whatever it is made of. A new one joins by adding a factory to FACTORIES."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from copriv.errors import BudgetRefused, QueryRefused
from copriv.privacy.ledger import Ledger, MemoryLedger, PhaseBudget
from copriv.privacy.ledger.file import RunLedger
from copriv.privacy.ledger.phase import PhaseLedger
from ledger_files import opened

Make = Callable[..., Ledger]
"""A new, empty ledger of the owner "bank" with this budget, at most so many answers, and a δ (0 when not given)."""
NONE = Fraction(0)


def in_memory(_directory: Path, _open: ExitStack) -> Make:
    return lambda epsilon, answers, delta=NONE: MemoryLedger("bank", epsilon, answers, delta)


def in_a_file(directory: Path, open_files: ExitStack, ahead: int = 0) -> Make:
    def make(epsilon: Fraction, answers: int, delta: Fraction = NONE) -> Ledger:
        path = directory / f"{len(list(directory.iterdir()))}.ledger"
        # The lifetime is wide: the run's own budget is what must hold.
        file = open_files.enter_context(opened(path, "bank", 100 * epsilon, min(100 * delta, Fraction(99, 100)), ahead))
        return file.run("f", "r", epsilon, answers, delta)

    return make


def in_a_file_paid_ahead(directory: Path, open_files: ExitStack) -> Make:
    return in_a_file(directory, open_files, ahead=2)


FACTORIES = [in_memory, in_a_file, in_a_file_paid_ahead]


@pytest.fixture(params=FACTORIES, ids=lambda factory: factory.__name__)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as open_files:
        yield request.param(tmp_path, open_files)


THETA = np.array([0.5, -0.0, 1e-300])
THIRD = Fraction(1, 3)


def test_it_is_a_ledger_and_begins_with_nothing_spent(make: Make) -> None:
    ledger = make(Fraction(1), 3)
    assert isinstance(ledger, Ledger)
    assert (ledger.answers, ledger.spent, ledger.released("a", THETA)) == (0, 0, None)


def test_what_delta_pays_for_is_one_agreements(make: Make) -> None:
    """The answers of an (ε, δ) run are private together: the first charge pays for those of its own agreement alone."""
    ledger, delta = make(Fraction(1), 3, Fraction(1, 1000)), Fraction(1, 1000)
    ledger.open_for("f", delta)
    ledger.charge("a", THETA, Fraction(1), delta)
    ledger.open_for("f", delta)  # an owner that comes back
    for other, with_delta in (("g", delta), ("g", NONE)):
        with pytest.raises(BudgetRefused, match="another agreement"):
            ledger.open_for(other, with_delta)


def test_charged_recorded_and_given_back_to_the_bit(make: Make) -> None:
    ledger, answer = make(Fraction(1), 3), np.array([1 / 3, -0.0, 5e-324])
    ledger.charge("a", THETA, THIRD)
    assert (ledger.answers, ledger.spent) == (1, THIRD)
    ledger.record("a", answer)
    for _ in range(2):
        stored = ledger.released("a", THETA.copy())
        assert stored is not None
        assert (stored.tobytes(), stored.dtype, stored.shape) == (answer.tobytes(), np.float64, (3,))
    assert (ledger.answers, ledger.spent) == (1, THIRD)
    assert ledger.released("another", THETA) is None


def test_charges_add_up_exactly_to_the_whole_budget(make: Make) -> None:
    # 1/10 is not a float: ten of them in floats are not 1, and an eleventh of nearly nothing would slip in.
    ledger = make(Fraction(1), 100)
    for k in range(10):
        ledger.charge(f"{k}", THETA, Fraction(1, 10))
    assert ledger.spent == 1
    with pytest.raises(BudgetRefused):
        ledger.charge("more", THETA, Fraction(1, 10**30))
    assert (ledger.answers, ledger.spent, ledger.released("more", THETA)) == (10, 1, None)


def test_answer_m_plus_1_is_refused_though_budget_is_left(make: Make) -> None:
    ledger = make(Fraction(1), 2)
    ledger.charge("a", THETA, Fraction(1, 100))
    ledger.charge("b", THETA, Fraction(1, 100))
    with pytest.raises(BudgetRefused, match="at most 0 more answers"):
        ledger.charge("c", THETA, Fraction(1, 100))
    assert (ledger.answers, ledger.spent, ledger.released("c", THETA)) == (2, Fraction(1, 50), None)


def test_a_charge_too_large_writes_nothing_and_a_smaller_one_still_fits(make: Make) -> None:
    ledger = make(Fraction(1), 5)
    ledger.charge("a", THETA, Fraction(3, 4))
    with pytest.raises(BudgetRefused, match=r"bank refused: asked for 0\.500, spent 0\.750 of 1\.000, 0\.250 left"):
        ledger.charge("b", THETA, Fraction(1, 2))
    assert (ledger.answers, ledger.spent) == (1, Fraction(3, 4))
    ledger.charge("b", THETA, Fraction(1, 4))
    assert ledger.spent == 1


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1, 2)])
def test_a_charge_costs_something(make: Make, epsilon: Fraction) -> None:
    ledger = make(Fraction(1), 5)
    with pytest.raises(BudgetRefused, match="above 0"):
        ledger.charge("a", THETA, epsilon)
    assert (ledger.answers, ledger.spent) == (0, 0)


@pytest.mark.parametrize("other", [THETA + 1e-16, THETA[:2], np.append(THETA, 0.0), np.full(3, np.nan)])
def test_a_known_identity_with_another_theta_is_refused(make: Make, other: np.ndarray) -> None:
    ledger = make(Fraction(1), 3)
    ledger.charge("a", THETA, THIRD)
    ledger.record("a", THETA)
    with pytest.raises(QueryRefused, match="another theta"):
        ledger.released("a", other)
    assert ledger.answers == 1


def test_charged_and_never_answered_is_never_answered_and_stays_charged(make: Make) -> None:
    ledger = make(Fraction(1), 3)
    ledger.charge("a", THETA, THIRD)
    with pytest.raises(QueryRefused, match="charged and never answered"):
        ledger.released("a", THETA)
    with pytest.raises(QueryRefused, match="already charged"):
        ledger.charge("a", THETA, THIRD)
    assert (ledger.answers, ledger.spent) == (1, THIRD)


def test_an_identity_is_charged_once_also_after_its_answer(make: Make) -> None:
    ledger = make(Fraction(1), 3)
    ledger.charge("a", THETA, THIRD)
    ledger.record("a", THETA)
    with pytest.raises(QueryRefused):
        ledger.charge("a", THETA, THIRD)
    assert (ledger.answers, ledger.spent) == (1, THIRD)


def test_an_answer_needs_a_charge_and_is_recorded_once(make: Make) -> None:
    ledger = make(Fraction(1), 3)
    with pytest.raises(QueryRefused, match="no charge"):
        ledger.record("a", THETA)
    ledger.charge("a", THETA, THIRD)
    ledger.record("a", THETA)
    with pytest.raises(QueryRefused, match="no charge"):
        ledger.record("a", THETA + 1)
    stored = ledger.released("a", THETA)
    assert stored is not None
    assert stored.tobytes() == THETA.tobytes()


def test_what_is_stored_changes_with_no_array_outside(make: Make) -> None:
    ledger, theta, answer = make(Fraction(1), 3), THETA.copy(), THETA + 7
    ledger.charge("a", theta, THIRD)
    theta[:] = 99
    ledger.record("a", answer)
    answer[:] = 99
    first = ledger.released("a", THETA)
    assert first is not None
    first[:] = 99
    again = ledger.released("a", THETA)
    assert again is not None
    assert again.tobytes() == (THETA + 7).tobytes()


def test_the_head_is_a_text_and_asking_does_not_move_it(make: Make) -> None:
    ledger = make(Fraction(1), 3)
    ledger.charge("a", THETA, THIRD)
    ledger.record("a", THETA)
    head = ledger.head
    ledger.released("a", THETA)
    with pytest.raises(BudgetRefused):
        ledger.charge("b", THETA, Fraction(2))
    assert isinstance(head, str)
    assert ledger.head == head


def test_callers_at_the_same_time_cannot_overspend_together(make: Make) -> None:
    ledger, threads = make(Fraction(1), 5), 8
    start, given_to = threading.Barrier(threads), []

    def ask(caller: int) -> None:
        start.wait()
        for k in range(5):
            try:
                # Every other identity is one that all callers want.
                identity = f"{k}" if k % 2 else f"{caller}-{k}"
                ledger.charge(identity, THETA, Fraction(1, 5))
                given_to.append(identity)
            except (BudgetRefused, QueryRefused):
                pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        callers = [threading.Thread(target=ask, args=(caller,)) for caller in range(threads)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(given_to) == len(set(given_to)) == ledger.answers == 5
    assert ledger.spent == 1


MILLIONTH = Fraction(1, 10**6)


def test_answers_that_are_private_together_are_paid_for_by_the_first(make: Make) -> None:
    ledger = make(Fraction(1), 3, MILLIONTH)
    for k in range(3):
        assert (ledger.spent, ledger.spent_delta) == ((1, MILLIONTH) if k else (0, 0))
        ledger.charge(f"{k}", THETA, Fraction(1), MILLIONTH)
        ledger.record(f"{k}", THETA + k)
        assert ledger.answers == k + 1
    with pytest.raises(BudgetRefused, match="at most 0 more answers"):
        ledger.charge("more", THETA, Fraction(1), MILLIONTH)
    stored = ledger.released("1", THETA)
    assert stored is not None
    assert stored.tobytes() == (THETA + 1).tobytes()
    assert (ledger.answers, ledger.spent, ledger.spent_delta) == (3, 1, MILLIONTH)
    with pytest.raises(QueryRefused, match="another theta"):
        ledger.released("1", THETA + 1)


@pytest.mark.parametrize("delta", [2 * MILLIONTH, Fraction(1, 2), -MILLIONTH])
def test_delta_is_a_budget_too(make: Make, delta: Fraction) -> None:
    ledger = make(Fraction(1), 3, MILLIONTH)
    with pytest.raises(BudgetRefused):
        ledger.charge("a", THETA, Fraction(1, 2), delta)
    assert (ledger.answers, ledger.spent, ledger.spent_delta, ledger.released("a", THETA)) == (0, 0, 0, None)


def test_a_run_of_pure_epsilon_has_no_delta(make: Make) -> None:
    ledger = make(Fraction(1), 3)
    with pytest.raises(BudgetRefused, match="asked for delta 1e-06, spent 0 of 0"):
        ledger.charge("a", THETA, Fraction(1, 2), MILLIONTH)
    ledger.charge("a", THETA, Fraction(1, 2))
    with pytest.raises(BudgetRefused, match="pure epsilon"):
        ledger.charge("b", THETA, Fraction(1, 2), MILLIONTH)
    assert (ledger.answers, ledger.spent, ledger.spent_delta) == (1, Fraction(1, 2), 0)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, NONE), (1, MILLIONTH / 2), (Fraction(1, 2), MILLIONTH)])
def test_what_was_paid_for_together_is_not_extended(make: Make, epsilon: Fraction, delta: Fraction) -> None:
    """Whoever asks for other terms within a run that is paid for gets nothing: not even the free answers."""
    ledger = make(Fraction(10), 3, Fraction(1, 2))
    ledger.charge("a", THETA, Fraction(1), MILLIONTH)
    with pytest.raises(BudgetRefused, match="paid for with epsilon 1 and delta 1e-06"):
        ledger.charge("b", THETA, Fraction(epsilon), delta)
    assert (ledger.answers, ledger.spent, ledger.spent_delta) == (1, 1, MILLIONTH)


HALF = Fraction(1, 2)
TOGETHER, TOGETHER_AGAIN = (PhaseBudget(number, HALF, 2, MILLIONTH) for number in (1, 2))


def test_two_phases_of_one_price_cost_twice(make: Make) -> None:
    """By run, the second would be charged (0, 0): its answers are private together, and not with those of the first."""
    ledger = make(Fraction(1), 4, 2 * MILLIONTH)
    for k, phase in enumerate((TOGETHER, TOGETHER, TOGETHER_AGAIN, TOGETHER_AGAIN)):
        ledger.charge(f"{k}", THETA, HALF, MILLIONTH, phase)
        ledger.record(f"{k}", THETA)
        assert (ledger.spent, ledger.spent_delta) == (HALF * phase.number, MILLIONTH * phase.number)
    assert ledger.answers == 4


def test_a_phase_of_pure_epsilon_after_one_with_delta_and_before_one(make: Make) -> None:
    ledger = make(Fraction(2), 6, 2 * MILLIONTH)
    pure = PhaseBudget(2, HALF, 2)
    prices = ((TOGETHER, MILLIONTH), (pure, NONE), (PhaseBudget(3, HALF, 2, MILLIONTH), MILLIONTH))
    for phase, delta in prices:
        for k in range(2):
            ledger.charge(f"{phase.number} {k}", THETA, HALF if delta else HALF / 2, delta, phase)
    assert (ledger.answers, ledger.spent, ledger.spent_delta) == (6, Fraction(3, 2), 2 * MILLIONTH)


@pytest.mark.parametrize("other", [None, TOGETHER, PhaseBudget(2, HALF, 3, MILLIONTH)], ids=["none", "before", "wider"])
def test_a_phase_that_ended_or_has_other_terms_is_not_charged(make: Make, other: PhaseBudget | None) -> None:
    ledger = make(Fraction(1), 4, 2 * MILLIONTH)
    ledger.charge("a", THETA, HALF, MILLIONTH, TOGETHER)
    ledger.charge("b", THETA, HALF, MILLIONTH, TOGETHER_AGAIN)
    with pytest.raises(BudgetRefused, match="phases follow each other"):
        ledger.charge("c", THETA, HALF, MILLIONTH, other)
    assert (ledger.answers, ledger.spent, ledger.spent_delta) == (2, 1, 2 * MILLIONTH)
    ledger.record("a", THETA)  # what was charged may still be answered
    assert ledger.released("a", THETA) is not None


@pytest.mark.parametrize("may_miss", [False, True])
def test_a_phase_without_an_answer_of_the_one_before_is_for_runs_that_owners_may_miss(
    make: Make, may_miss: bool
) -> None:
    """The one that was missed is over for this owner: what it would have spent there, nothing spends."""
    ledger = make(Fraction(1), 4, 2 * MILLIONTH)
    first, second = (PhaseLedger(ledger, phase, "f", 2 * MILLIONTH, may_miss) for phase in (TOGETHER, TOGETHER_AGAIN))
    if not may_miss:
        with pytest.raises(BudgetRefused, match="phase 2 was asked for before an answer of phase 1"):
            second.charge("a", THETA, HALF, MILLIONTH)
        assert (ledger.answers, ledger.spent) == (0, 0)
        return
    second.charge("a", THETA, HALF, MILLIONTH)
    with pytest.raises(BudgetRefused, match="phase 1 was asked for in phase 2"):
        first.charge("b", THETA, HALF, MILLIONTH)
    assert (ledger.answers, ledger.spent, ledger.spent_delta) == (1, HALF, MILLIONTH)


def test_a_run_of_one_phase_does_not_become_one_of_several(make: Make) -> None:
    ledger = make(Fraction(1), 4)
    ledger.charge("a", THETA, THIRD)
    with pytest.raises(BudgetRefused, match="phase 1 was asked for in a run of one phase"):
        ledger.charge("b", THETA, THIRD, phase=PhaseBudget(1, HALF, 2))


def test_a_phase_has_a_budget_and_a_number_of_answers_of_its_own(make: Make) -> None:
    ledger, quarter = make(Fraction(1), 5), Fraction(1, 4)
    first, second = PhaseBudget(1, HALF, 2), PhaseBudget(2, HALF, 3)
    ledger.charge("a", THETA, quarter, phase=first)
    ledger.charge("b", THETA, quarter, phase=first)
    for cost in (quarter, Fraction(1, 10**30)):
        with pytest.raises(BudgetRefused, match=r"at most 0 more answers.*budget of phase 1"):
            ledger.charge("c", THETA, cost, phase=first)
    with pytest.raises(BudgetRefused, match=r"asked for 0.750, spent 0.000 of 0.500.*budget of phase 2"):
        ledger.charge("d", THETA, 3 * quarter, phase=second)
    with pytest.raises(BudgetRefused, match="budget of phase 2"):
        ledger.charge("d", THETA, quarter, MILLIONTH, phase=second)
    ledger.charge("d", THETA, HALF, phase=second)
    assert (ledger.answers, ledger.spent) == (3, 1)


def test_what_a_phase_left_is_not_the_next_ones_and_the_run_has_its_budget_too(make: Make) -> None:
    ledger = make(Fraction(1), 2)
    ledger.charge("a", THETA, Fraction(1, 4), phase=PhaseBudget(1, HALF, 2))
    second = PhaseBudget(2, Fraction(2), 9)
    with pytest.raises(BudgetRefused, match=r"spent 0.\d+ of 1.000"):
        ledger.charge("b", THETA, Fraction(1), phase=second)
    ledger.charge("b", THETA, HALF, phase=second)
    with pytest.raises(BudgetRefused, match="at most 0 more answers"):
        ledger.charge("c", THETA, Fraction(1, 100), phase=second)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    budget=st.fractions(Fraction(1, 10), 4, max_denominator=30),
    cap=st.integers(1, 6),
    steps=st.lists(
        st.tuples(st.integers(0, 5), st.fractions(Fraction(-1, 5), 2, max_denominator=20), st.booleans()), max_size=20
    ),
)
def test_it_agrees_with_a_model_whatever_is_asked(
    make: Make, budget: Fraction, cap: int, steps: list[tuple[int, Fraction, bool]]
) -> None:
    """Any series of charges and records against a plain dictionary that is written from the docstrings alone."""
    ledger, charged, answered = make(budget, cap), dict[str, Fraction](), set[str]()
    if isinstance(ledger, RunLedger) and ledger.file.ahead > 0:
        # Paying ahead counts on answers that cost the same all through a run, as an owner's do.
        each = next((epsilon for _, epsilon, _ in steps if epsilon > 0), budget)
        steps = [(name, min(epsilon, each) if epsilon <= 0 else each, then) for name, epsilon, then in steps]
    for name, epsilon, then_record in steps:
        identity = f"q{name}"
        affordable = epsilon > 0 and len(charged) < cap and sum(charged.values(), epsilon) <= budget
        if identity not in charged and affordable:
            ledger.charge(identity, THETA, epsilon)
            charged[identity] = epsilon
        else:
            with pytest.raises((QueryRefused, BudgetRefused)):
                ledger.charge(identity, THETA, epsilon)
        if then_record and identity in charged and identity not in answered:
            ledger.record(identity, THETA)
            answered.add(identity)
        elif then_record:
            with pytest.raises(QueryRefused):
                ledger.record(identity, THETA)
        assert (ledger.answers, ledger.spent) == (len(charged), sum(charged.values(), Fraction(0)))
        assert ledger.spent <= budget
