"""The plan: its tables against other writings of the rules, what it honours, and that it reads nothing private."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.agreement import Agreement
from copriv.agreement.participants import as_few
from copriv.errors import AgreementError, DataError
from copriv.exact import OwnerKinds, expected_cost
from copriv.mechanisms import GradientNoise
from copriv.model.fitness import Quadratic, Regularizer
from copriv.model.records import Records
from copriv.plan import NoiseCurve, candidates, noise_of, plan, planner
from copriv.plan.planner import of_many_answers
from copriv.plan.prices import GAINS, MOST_PARTICIPANTS
from copriv.plan.prices import response as response_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.rules import ALL
from copriv.simulation import simulate
from recursions import recursion_of

# f(θ) = θ², so a = 2, from θ = 3.
LINE = Quadratic(np.eye(1), np.zeros(1), 1.0, Regularizer(0.0))
START, CURVATURE = np.array([3.0]), 2.0
OWNERS = OwnerKinds.of([10.0, 10.0, 10.0], [0.4, 0.4, 0.4])
W = float(np.sum(OWNERS.weights**2 * 2.0 * OWNERS.noise_scale**2))

WAYS = {way.name: way for rule in ALL for way in rule.ways}


def response(way, answers, participants):
    return response_of(WAYS[way], answers, participants)


def cost_by_table(way, answers, gain, participants=3):
    """E f − f* = ½a(R z² + step² V W) at the first step that has this gain."""
    R, V = response(way, answers, participants).at(np.array([gain]))
    step = gain / CURVATURE
    return float(0.5 * CURVATURE * (R * START**2 + step**2 * V * W)[0])


@pytest.mark.parametrize("answers", [1, 2, 5, 12])
@pytest.mark.parametrize("way", ["S1", "S2", "S2 last"])
def test_synchronous_tables_are_the_exact_moments(way, answers):
    table, T = response(way, answers, 3), answers + 1
    for gain in GAINS[[0, 20, 40, 50, 55]]:
        step = gain / CURVATURE / table.unit
        exact = expected_cost(recursion_of(way, step, T), LINE, OWNERS, T, START)
        assert cost_by_table(way, answers, gain) == pytest.approx(exact[-1], rel=1e-6)


def test_between_tabled_gains_tables_are_interpolated_closely():
    for gain in np.sqrt(GAINS[1:40:5] * GAINS[2:41:5]):
        exact = expected_cost(recursion_of("S2 last", gain / CURVATURE, 4), LINE, OWNERS, 4, START)
        assert cost_by_table("S2 last", 3, gain) == pytest.approx(exact[-1], rel=0.02)


def test_outside_the_table_nothing_moves_or_everything_diverges():
    R, _ = response("S2 last", 4, 3).at(np.array([1e-9, 1e3]))
    assert R[0] == pytest.approx(1.0, abs=1e-6)
    assert R[1] > 1e20


def test_an_uncertain_curvature_makes_the_exactly_right_step_worth_less():
    sharp, blurred = (response("S2 last", 1, 3).at(np.array([GAINS[48]]), wobble)[0][0] for wobble in (0.0, 0.2))
    assert GAINS[48] == pytest.approx(1.0, abs=0.15)
    assert blurred > sharp + 0.02  # E (1 − g)² over g gains the variance of g


@pytest.mark.parametrize("answers", [2, 4])
def test_the_table_of_a2_is_its_exact_mean_within_the_draws_of_its_orders(answers):
    """R and V apart: the mean without noise, and the mean from θ* itself."""

    def exact(noise, start, gain):
        owners = OwnerKinds.of([10.0] * 3, [noise] * 3, answers=answers)
        recursion = recursion_of("A2", gain / CURVATURE, 3 * answers)
        found = expected_cost(recursion, LINE, owners, 3 * answers, np.array([start]), "random order")
        return found[-1] / (0.5 * CURVATURE)

    for gain in GAINS[[30, 33, 36]]:
        R, V = (float(x[0]) for x in response("A2", answers, 3).at(np.array([gain])))
        assert exact(0.0, 1.0, gain) == pytest.approx(R, rel=0.05)
        expected = exact(1.0, 0.0, gain) / ((gain / CURVATURE) ** 2 * 2.0 / 3.0)
        assert expected == pytest.approx(V, rel=0.3)
        other_R, other_V = (float(x[0]) for x in response("A2 rounds", answers, 3).at(np.array([gain])))
        assert other_R > 1.25 * R, "the table of another rule is farther off than that"
        assert other_V < 0.5 * V


def one_dimension(**terms):
    """ℓ = (θ − y)², so that f has a = 2 for any records; noise far too small to see."""
    agreement = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 12, "answers": 4, "start": [3.0], **terms},
            "model": {"loss": "squared", "gradient_bound": 1e3},
            "data": {"feature_bound": 0.0},
            "owner": [{"name": f"o{i}", "records": 2, "epsilon": 1e12} for i in range(3)],
        }
    )
    return Problem.of(agreement, [(np.ones((2, 1)), np.array([-1.0, 1.0]))] * 3)


@pytest.mark.parametrize("gain", GAINS[[20, 30, 40]])
def test_a2_in_rounds_is_the_rule_that_the_engine_runs(gain):
    """With no noise f − f* is ½a·R·z², for the agreement that a plan would write."""
    table = response("A2 rounds", 4, 3)
    # The table's first step is unit·(Nα).
    α = gain / CURVATURE / table.unit / 3
    problem = one_dimension(step=α, window=3, schedule="rounds")
    found = simulate(problem, runs=2, alone=False)
    gap = problem.fitness.value(found.theta) - problem.optimum.value
    R, _ = table.at(np.array([gain]))
    np.testing.assert_allclose(gap, 0.5 * CURVATURE * R[0] * START[0] ** 2, rtol=1e-6)


# Noise


def agreed(terms=None, model=None, data=None, owners=3, **owner):
    return Agreement.of(
        {
            "agreement": {"rule": "auto", "communication": "synchronous", "horizon": 20, **(terms or {})},
            "model": {"loss": "squared", "regularization": 0.01, **(model or {})},
            "data": data or {},
            "owner": [{"name": f"o{i}", "records": 400 + 10 * i, "epsilon": 1.0, **owner} for i in range(owners)],
        }
    )


def test_noise_is_what_the_learners_average_carries():
    """8Ξ²m²ν is the variance of Σ w_i w_i's noise a coordinate: 2 Σ (w_i b_i)²."""
    agreement = agreed(terms={"rule": "S2", "step": 1.0, "answers": 4}, model={"gradient_bound": 3.0}, overlap=2)
    b = np.array([2 * 3.0 * 4 * 2 / (n * 1.0) for n in agreement.records])
    variance = 2 * np.sum((agreement.weights * b) ** 2)
    assert 8 * 3.0**2 * 4**2 * noise_of(agreement) == pytest.approx(variance)
    weighted = agreed(weight=1.0)
    assert noise_of(weighted) == pytest.approx(np.mean(1 / weighted.records**2) / 3)
    assert noise_of(weighted, np.array([1.0, 0.0, 0.0])) == pytest.approx(1 / 400**2)


@given(st.integers(0, 1000))
def test_the_noise_curve_is_the_lower_envelope_of_all_settings(seed):
    rng = np.random.default_rng(seed)
    fixed, slope = 10.0 ** rng.uniform(-6, 0, 200), 10.0 ** rng.uniform(-3, 6, 200)
    curve = NoiseCurve.of(fixed, slope)
    assert set(zip(curve.fixed, curve.slope, strict=True)) <= set(zip(fixed, slope, strict=True))
    assert len(curve.fixed) < 100
    ν = 10.0 ** rng.uniform(-14, 3, 50)
    least = (fixed + slope * ν[:, None]).min(axis=1)
    found = curve.at(ν)
    assert (found >= least * (1 - 1e-12)).all()
    np.testing.assert_allclose(found, least, rtol=0.01)
    for v, ψ in zip(ν, found, strict=True):
        h = 1e-6 * v
        assert curve.derivative(v) == pytest.approx(
            (curve.at(v + h) - curve.at(v - h)) / (2 * h), rel=1e-2, abs=1e-6 * ψ / v
        )


# The plan


def rows(seed=0, n=300, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 0.3]
    return scale * X, X @ [1.0, -2.0] + 0.5 * rng.normal(size=n)


def problem_of(agreement, seed=1):
    private = [rows(seed + i, owner.records) for i, owner in enumerate(agreement.owner)]
    return Problem.of(agreement, private, public=rows())


@pytest.fixture(autouse=True)
def _few_candidates(monkeypatch):
    """The same plan from fewer candidates: a fifth of the time."""
    monkeypatch.setattr(candidates, "ANSWERS", (1, 2, 4, 8))
    monkeypatch.setattr(candidates, "GRADIENT_BOUNDS", 8)
    monkeypatch.setattr(planner, "FINALISTS", 3)
    monkeypatch.setattr(planner, "FINALIST_WORLDS", 2)


QUICK = {"runs": 5, "public_start": False, "preconditioner": False}


@pytest.mark.parametrize(
    ("table", "fixed"),
    [
        ("agreement", {"rule": "S1"}),
        ("agreement", {"rule": "S2", "iterate": "last"}),
        ("agreement", {"answers": 3}),
        ("agreement", {"step": 0.4, "rule": "S2"}),
        ("agreement", {"start": (0.5, -0.5)}),
        ("model", {"gradient_bound": 2.5}),
        ("data", {"feature_bound": 1.5}),
    ],
)
def test_keep_honours_what_is_fixed_and_frees_nothing(table, fixed):
    open_terms = {"agreement": "terms", "model": "model", "data": "data"}
    agreement = agreed(**{open_terms[table]: fixed})
    planned = plan(problem_of(agreement), keep=True, **QUICK).agreement
    for key, wanted in fixed.items():
        assert getattr(getattr(planned, table), key) == wanted, key
    assert isinstance(planned.step, float)
    assert isinstance(planned.gradient_bound, float)
    assert isinstance(planned.data.feature_bound, float)
    assert planned.agreement.rule in ("S1", "S2")
    assert planned.owner == agreement.owner
    simulate(problem_of(planned), runs=1, alone=False)  # nothing is left open


def test_without_keep_only_communication_fitness_and_owners_stay():
    terms = {"rule": "S1", "answers": 20, "step": 1e-9, "start": (9.0, 9.0)}
    poor = agreed(terms=terms, model={"gradient_bound": 100.0}, data={"feature_bound": 1e-3})
    kept = plan(problem_of(poor).on_public(), keep=True, **QUICK)
    freed = plan(problem_of(poor).on_public(), keep=False, one_answer=False, **QUICK)
    assert kept.agreement.agreement.start == (9.0, 9.0)
    assert (kept.agreement.step, kept.agreement.gradient_bound) == (1e-9, 100.0)
    assert freed.agreement.agreement.start is None
    assert freed.agreement.answers < 20
    assert freed.agreement.data.feature_bound > 0.1
    assert freed.agreement.synchronous
    assert freed.choice.fitness < kept.choice.fitness
    assert freed.agreement.owner == poor.owner
    assert freed.agreement.model.regularization == poor.model.regularization


def test_where_nothing_is_fixed_the_kept_plan_is_the_free_ones_among_many_answers():
    problem = problem_of(agreed(terms={"communication": "any"}, data={"feature_bound": "auto"}))
    sample = PublicSample.of(problem)
    free, kept = (plan(problem, keep=keep, sample=sample, **QUICK) for keep in (False, True))
    again = of_many_answers(free, sample)
    assert any(choice.agreement.one_answer for choice in free.measured)
    assert [one.fitness for one in again.measured] == [one.fitness for one in kept.measured]
    assert again.agreement == kept.agreement
    assert again.choice.describe() == kept.choice.describe()
    assert again.caution.to_dict() == kept.caution.to_dict()


def test_options_are_used_only_where_they_are_allowed():
    problem = problem_of(agreed())
    bare = plan(problem, **QUICK)
    assert bare.agreement.agreement.start is None
    assert bare.agreement.agreement.preconditioner is None
    public = plan(problem, runs=5, preconditioner=False)
    assert public.choice.start == "public"  # 300 public rows are worth starting from
    np.testing.assert_allclose(public.agreement.agreement.start, PUBLIC_OPTIMUM(public), rtol=1e-6)
    assert "from the public model" in public.choice.describe()


def PUBLIC_OPTIMUM(found):
    return problem_of(agreed()).on_public().under(found.agreement).optimum.theta


def test_the_plan_says_what_it_weighed():
    found = plan(problem_of(agreed()), **QUICK)
    assert set(found.flatness) == {"step", "gradient_bound", "answers"}
    assert all(ratio > 0.5 for pair in found.flatness.values() for ratio in pair)
    assert found.runner_up is not None
    assert found.runner_up.fitness >= found.choice.fitness
    assert found.runner_up.kind != found.choice.kind
    assert found.considered > 5000
    again = plan(problem_of(agreed()), **QUICK)
    assert again.agreement == found.agreement


def test_less_noise_never_costs_more():
    ψ = [plan(problem_of(agreed(epsilon=ε)), **QUICK).choice.relative_fitness for ε in (0.05, 5.0)]
    assert ψ[0] > ψ[1]


# (ε, δ)


def variance_of(agreement, answers):
    assert isinstance(agreement.mechanism, GradientNoise)
    return agreement.mechanism.variance(agreement, answers)


def opted(**owner):
    return agreed(terms={"communication": "any"}, delta=1e-5, **owner)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "laplace-composed"])
@pytest.mark.parametrize("answers", [1, 19])
def test_the_variance_of_noise_is_that_of_the_owners_own_scales(mechanism, answers):
    pytest.importorskip("dp_accounting")
    terms = {"rule": "S2", "step": 1.0, "answers": answers, "mechanism": mechanism}
    made = agreed(terms=terms, model={"gradient_bound": 3.0}, overlap=2, delta=0.0 if mechanism == "laplace" else 1e-5)
    scale = np.array([made.mechanism.scale(made, owner) for owner in made.owner])
    each = 1.0 if mechanism == "gaussian" else 2.0
    variance = each * np.sum((made.weights * scale) ** 2)
    assert 9.0 * variance_of(made, answers) == pytest.approx(variance, rel=1e-9)


def test_without_a_delta_a_plan_is_pure_whatever_it_weighs():
    found = plan(problem_of(agreed(terms={"communication": "any"})), keep=False, **QUICK)
    assert all(choice.pure for choice in found.measured)
    assert "pure" not in found.trades()


def test_a_delta_of_some_owners_is_no_opt_in():
    owners = [{**owner, "delta": 1e-5 * i} for i, owner in enumerate(agreed().to_dict()["owner"])]
    found = plan(problem_of(agreed().replace(owner=owners)), keep=False, one_answer=False, **QUICK)
    assert all(choice.pure for choice in found.measured)


@pytest.mark.slow
def test_where_all_owners_state_a_delta_both_promises_are_weighed_and_the_agreement_says_which():
    pytest.importorskip("dp_accounting")
    problem = problem_of(opted(epsilon=4.0))
    found = plan(problem, keep=False, **QUICK)
    pure, approximate = found.trades()["pure"]
    assert pure.pure
    assert not approximate.pure
    assert found.choice.fitness <= min(pure.fitness, approximate.fitness)
    for choice in (pure, approximate):
        terms = choice.agreement
        assert {owner.delta for owner in terms.owner} == ({0.0} if choice.pure else {1e-5})
        assert ("(ε, δ)" in choice.describe()) is not choice.pure
        simulate(problem.under(terms), runs=1, alone=False)  # its mechanism can be kept
    strict = plan(problem.under(agreed(terms={"communication": "any"}, epsilon=4.0)), keep=False, **QUICK)
    assert found.choice.fitness <= strict.choice.fitness * 1.02  # more to choose from


def test_many_answers_are_cheaper_with_a_delta():
    """Pure noise grows with m, normal noise with its root."""
    pytest.importorskip("dp_accounting")
    fixed = {"communication": "synchronous", "answers": 19}
    both = plan(problem_of(agreed(terms=fixed, delta=1e-5)), **QUICK)
    assert both.choice.agreement.agreement.mechanism in ("gaussian", "laplace-composed")
    pure, approximate = both.trades()["pure"]
    assert approximate.relative_fitness < 0.9 * pure.relative_fitness


def test_trades_name_the_best_of_either_side():
    found = plan(problem_of(agreed(terms={"communication": "any"})), keep=False, **QUICK)
    trades = found.trades()
    assert set(trades) == {"one_answer", "asynchronous"}
    once, many = trades["one_answer"]
    assert once.agreement.answers == 1 < many.agreement.answers
    assert once.fitness == min(c.fitness for c in found.measured if c.agreement.answers == 1)
    alone, together = trades["asynchronous"]
    assert not alone.agreement.synchronous
    assert together.agreement.synchronous


def test_where_the_fitness_is_no_quadratic_several_numbers_of_answers_are_run():
    X, y = rows()
    labels = (X, np.where(y > 0, 1.0, -1.0))
    made = agreed(model={"loss": "logistic"})
    private = [(X[: owner.records], labels[1][: owner.records]) for owner in agreed(records=300).owner]
    problem = Problem.of(made.replace(owner={"records": 300}), private, public=labels)
    found = plan(problem, **QUICK)
    assert {4, 8} <= {choice.agreement.answers for choice in found.measured}
    assert found.choice.fitness == min(choice.fitness for choice in found.measured)


def test_composed_answers_are_left_out_where_budgets_are_many():
    def names(agreement):
        return tuple(noise.name for noise in candidates.noises_of(agreement))

    assert names(opted(owners=3)) == ("laplace", "gaussian", "laplace-composed")
    owners = [{**owner, "epsilon": 1.0 + i} for i, owner in enumerate(opted(owners=6).to_dict()["owner"])]
    assert names(opted(owners=6).replace(owner=owners)) == ("laplace", "gaussian")


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace-composed", "objective"])
def test_a_mechanism_that_is_agreed_is_kept(mechanism):
    pytest.importorskip("dp_accounting")
    answers = {"answers": 1} if mechanism == "objective" else {}
    terms = {"communication": "any", "mechanism": mechanism, **answers}
    found = plan(problem_of(agreed(terms=terms, data={"feature_bound": 2.0}, delta=1e-5)), keep=True, **QUICK)
    assert {choice.agreement.agreement.mechanism for choice in found.measured} == {mechanism}
    assert {owner.delta for owner in found.agreement.owner} == {1e-5}
    assert isinstance(found.agreement.step, float)


def test_one_answer_is_weighed_beside_what_is_kept_where_it_is_asked_for():
    problem = problem_of(agreed(terms={"communication": "any"}, data={"feature_bound": 1.5}))
    for asked in (True, False):
        found = plan(problem, keep=True, one_answer=asked, **QUICK)
        once = [choice for choice in found.measured if choice.agreement.one_answer]
        assert bool(once) is asked
        assert all(choice.agreement.data.feature_bound == 1.5 for choice in found.measured)


# Nothing private


class Untouchable:
    def __getattribute__(self, name):
        raise AssertionError(f"a private record was touched: {name}")


@pytest.mark.parametrize("keep", [True, False])
def test_no_private_record_is_touched(keep):
    problem = problem_of(agreed())
    expected = plan(problem, keep=keep, one_answer=False, **QUICK)
    object.__setattr__(problem, "unbounded", (Untouchable(),) * 3)
    with pytest.raises((AssertionError, TypeError)):
        problem.fitness.value(problem.start)
    assert plan(problem, keep=keep, one_answer=False, **QUICK).agreement == expected.agreement


def test_other_private_records_give_the_same_plan():
    one, other = (plan(problem_of(agreed(), seed), keep=False, one_answer=False, **QUICK) for seed in (1, 50))
    assert one.agreement == other.agreement
    assert one.choice.relative_fitness == other.choice.relative_fitness
    np.testing.assert_array_equal(one.curve.fixed, other.curve.fixed)


def test_an_optimum_that_somebody_knows_is_not_taken_for_the_public_one():
    problem = problem_of(agreed(data={"feature_bound": 1.5}))
    told = replace(problem, known_optimum=problem.optimum)
    assert told.on_public().optimum.value == problem.on_public().optimum.value != problem.optimum.value


def test_the_public_sample_decides_the_plan():
    problem = problem_of(agreed())
    x, y = rows()
    wide = replace(problem, unbounded_public=Records.of(0.1 * x, y))
    assert plan(wide, **QUICK).agreement != plan(problem, **QUICK).agreement


# What is refused


def test_no_public_sample_no_plan():
    agreement = agreed()
    problem = Problem.of(agreement, [rows(i, owner.records) for i, owner in enumerate(agreement.owner)])
    with pytest.raises(DataError, match="public"):
        plan(problem, **QUICK)


def test_a1_cannot_be_planned():
    with pytest.raises(AgreementError, match="erratum 5"):
        plan(problem_of(agreed(terms={"rule": "A1"})), **QUICK)


# Many owners


def test_many_equal_owners_are_run_as_fewer_of_the_same_noise():
    many = agreed(
        terms={"rule": "A2", "answers": 3, "horizon": 300, "step": 0.1, "window": 100, "schedule": "rounds"},
        model={"gradient_bound": 2.0}, owners=100, records=500,
    )  # fmt: skip
    few = as_few(many)
    assert few.n_owners == MOST_PARTICIPANTS < 100
    assert noise_of(few) == pytest.approx(noise_of(many), rel=1e-9)
    assert few.queries == 3 * MOST_PARTICIPANTS
    # A round moves the model as far: N·α is the same.
    assert few.step * few.n_owners == pytest.approx(many.step * 100)
    short = agreed(terms={"rule": "A2", "answers": 3, "step": 0.1}, model={"gradient_bound": 2.0}, owners=100)
    assert as_few(short) == short  # ends before everybody has talked


@pytest.mark.slow
def test_owners_in_turns_whose_run_takes_minutes_are_no_finalists(monkeypatch):
    """A hundred thousand owners of ten kinds took over 200 s: a run of theirs in turns has tens of thousands of steps."""

    def in_turns(rule):
        terms = agreed(terms={"rule": rule, "communication": "any", "horizon": 1000}, count=20)
        ran = [one.agreement for one in plan(Problem.forecasting(terms, rows()), **QUICK).measured]
        return {not one.synchronous and one.agreement.window == 1 for one in ran if not one.one_answer}

    assert in_turns("auto") == {True, False}, "sixty owners in turns are run"
    monkeypatch.setattr(planner, "MOST_TURNS", 30)
    assert in_turns("auto") == {False}
    monkeypatch.setattr(planner, "MOST_TURNS", -1)
    assert in_turns("S1") == {False}, "where nothing is left, all are finalists"


@pytest.mark.parametrize(("mechanism", "delta"), [("laplace", 0.0), ("gaussian", 1e-6)])
def test_unequal_owners_in_rounds_are_run_as_fewer_equal_ones_of_the_same_noise(mechanism, delta):
    terms = {"rule": "A2", "answers": 3, "horizon": 300, "step": 0.1, "window": 100, "schedule": "rounds"}
    many = agreed(terms={**terms, "mechanism": mechanism}, model={"gradient_bound": 2.0}, owners=100, delta=delta)
    owners = [{**owner, "epsilon": 0.5 + 0.01 * i} for i, owner in enumerate(many.to_dict()["owner"])]
    many = many.replace(owner=owners)
    few = as_few(many)
    assert few.n_owners == MOST_PARTICIPANTS
    expected = variance_of(many, 3)
    assert variance_of(few, 3) == pytest.approx(expected, rel=1e-9 if delta == 0 else 5e-3)


@pytest.mark.parametrize(
    ("records", "epsilon", "public", "advice", "words"),
    [
        ((60,) * 20, 100.0, 60, "join", None),
        ((60,) * 20, 1e-3, 3000, "public", "public rows alone are the better choice"),
        ((40, 20_000), 1e-3, 60, "alone", "Nobody should start"),
    ],
)
def test_a_plan_says_when_nobody_should_start(records, epsilon, public, advice, words):
    """A budget that buys something; hardly any beside many public rows; hardly any beside an owner of nearly everything."""
    agreement = agreed(data={"heterogeneity": 0.0}, epsilon=epsilon, owners=len(records))
    agreement = agreement.replace(
        owner=[{**o, "records": n} for o, n in zip(agreement.to_dict()["owner"], records, strict=True)]
    )
    made = plan(Problem.forecasting(agreement, rows(n=public)), runs=5)
    assert made.advice == advice
    together, n = made.choice.relative_fitness, float(sum(records))
    assert (together < (1.0 - 1e-9) * min(made.public_only, made.alone)) is (advice == "join")
    # By the classical theory of least squares p/n, p = 2; of the public model in two worlds, so within a factor of six.
    assert 1 / 6 < made.public_only / (2.0 * (1.0 / public + 1.0 / n)) < 6.0
    assert made.alone == pytest.approx(2.0 * (1.0 / max(records) - 1.0 / n), rel=0.4)
    if words is None:
        assert made.advice_in_words is None
    else:
        assert words in made.advice_in_words


def test_a_column_that_no_public_row_shows_does_not_make_the_plan_slow():
    """Its curvature is the regulariser's alone; along its inverse a plan stepped so little that ψ was 57 times as high."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)) * np.array([1.0, 0.2, 0.05])
    y = x @ np.array([1.0, -5.0, 20.0]) + rng.normal(size=400)
    owner = [{"name": name, "records": 4000, "epsilon": 10.0} for name in "abc"]
    terms = Agreement.of(
        {
            "agreement": {"rule": "S2", "horizon": 1000, "iterate": "last"},
            "model": {"loss": "squared", "regularization": 1e-5},
            "owner": owner,
        }
    )
    plain, with_column = (
        plan(Problem.forecasting(terms, (features, y)), runs=5).choice.relative_fitness
        for features in (x, np.column_stack([x, np.zeros(400)]))
    )
    assert with_column < 2.0 * plain
