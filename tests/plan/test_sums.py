"""Plans and forecasts of sums: what noise costs when nobody sees a single answer."""

import json
from dataclasses import replace

import numpy as np
import pytest

import copriv
from agreement.test_sums import summed
from copriv.agreement.participants import as_few
from copriv.errors import AgreementError
from copriv.forecast.assessment import assess
from copriv.forecast.coalition_value import Consortium
from copriv.mechanisms.gradients import noise_of
from copriv.plan import NoiseCurve, plan
from copriv.types import Array

LINE = NoiseCurve(np.array([0.0]), np.array([1.0]))
"""ψ = ν."""


def public(rows: int = 400) -> tuple[Array, Array]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(rows, 2)) / 3.0
    return X, X @ np.array([0.5, -0.3]) + 0.3 * rng.normal(size=rows)


def planned(**terms: object) -> copriv.Agreement:
    document = summed(6, **{"rule": "auto", "step": "auto", **terms}).to_dict()
    document["model"] = {"loss": "squared", "regularization": 1e-3, "gradient_bound": "auto"}
    document["data"] = {"heterogeneity": 0.0}
    return copriv.Agreement.of(document)


def cost(agreement: copriv.Agreement, **options: object) -> tuple[copriv.Agreement, float]:
    found = plan(copriv.Problem.forecasting(agreement, public()), runs=12, preconditioner=False, **options)
    return found.agreement, found.choice.fitness


def test_a_plan_with_the_sum_costs_less_and_keeps_its_terms() -> None:
    seen, fitness = cost(planned(aggregation="each"))
    agreement, with_sum = cost(planned(colluding=2))
    assert with_sum < fitness
    assert agreement.summed
    assert agreement.colluding == 2
    assert agreement.synchronous
    assert not seen.summed


def test_a_plan_weighs_owners_that_answer_once_in_a_sum_but_no_fitted_models() -> None:
    terms = planned(attempts=1).replace(data={"feature_bound": 2.0})
    problem = copriv.Problem.forecasting(terms, public())
    found = plan(problem, keep=False, runs=12, preconditioner=False)
    once = [choice for choice in found.measured if choice.agreement.one_answer]
    assert [choice.agreement.agreement.mechanism for choice in once] == ["statistics"]
    (agreement,) = (choice.agreement for choice in once)
    assert (agreement.answers, agreement.queries, agreement.members) == (2, 1, (tuple(range(6)),))
    # Seen one by one, the same owners' statistics cost more, and what they would with the sum is found beside them.
    seen = plan(problem.under(terms.each_seen()), keep=False, runs=12, preconditioner=False)
    apart = min(choice.fitness for choice in seen.measured if choice.agreement.agreement.mechanism == "statistics")
    assert once[0].fitness < apart
    assert seen.with_sum is not None
    assert seen.with_sum.fitness <= min(choice.fitness for choice in seen.measured)


def test_a_plan_of_groups_has_sums_of_more_than_the_colluding() -> None:
    terms = planned(colluding=1, group_size="auto", communication="asynchronous", horizon=60)
    agreement, _ = cost(terms)
    assert min(map(len, agreement.members)) >= 3
    with pytest.raises(AgreementError, match="sums of so few owners"):
        cost(planned(communication="asynchronous"))


def test_answers_for_further_attempts_are_paid_for_and_not_used() -> None:
    agreement, _ = cost(planned(attempts=3))
    assert agreement.answers == agreement.queries + 3
    assert agreement.mechanism.variance(agreement, 7, agreement.members) / agreement.mechanism.variance(
        agreement, 1, agreement.members
    ) == pytest.approx(49.0)


@pytest.mark.parametrize("attempts", [0, 2])
def test_many_owners_are_simulated_as_few_with_the_noise_of_their_sum(attempts: int) -> None:
    document = summed(12, colluding=10, attempts=attempts).to_dict() | {
        "owner": [
            {"name": "small", "count": 60, "records": 100, "epsilon": 1.0},
            {"name": "large", "count": 40, "records": 400, "epsilon": 2.0, "floor": 5.0},
        ]
    }
    agreement = copriv.Agreement.of(document)
    few = as_few(agreement)
    assert few.n_owners < 40
    assert not few.summed
    assert few.queries == agreement.queries

    def variance(terms: copriv.Agreement) -> float:
        return float(np.sum((terms.weights * terms.noise_scales()) ** 2))

    n, m = float(agreement.records.sum()), agreement.answers
    by_hand = (2.0 * m / n) ** 2 * (100 / 90 + 40 / 25.0)
    assert variance(agreement) == pytest.approx(by_hand)
    assert variance(few) == pytest.approx(by_hand, rel=1e-2)


def members_of(agreement: copriv.Agreement) -> Consortium:
    return Consortium.of(agreement, 0.0, LINE)


def test_coalitions_have_the_noise_of_their_own_sum() -> None:
    document = summed(5, colluding=2).to_dict()
    for i, owner in enumerate(document["owner"]):
        owner |= {"records": 100 * (i + 1), "epsilon": 0.5 + i}
    document["owner"][1]["floor"] = 4.0
    agreement = copriv.Agreement.of(document)
    members = members_of(agreement)
    assert members.together() == pytest.approx(noise_of(agreement))
    assert members.together_noise == pytest.approx(noise_of(agreement))
    others = replace(members, floors=0.0).cost(np.array([False, True, True, True, True]))
    assert float(others) == pytest.approx(4 / 2 * (1 / 1.5) ** 2 / 1400**2), "without the strictest owner"
    assert float(members.cost(np.array([True, True, False, False, False]))) > 1e20, "all of them could collude"
    by_epsilon, by_records = members.marginal_values()
    step = replace(members, epsilon=members.epsilon + np.array([1e-6, 0, 0, 0, 0]))
    assert by_epsilon[0] == pytest.approx((members.together() - step.together()) / 1e-6, rel=1e-3)
    assert (by_epsilon[1:] == 0).all()
    more = replace(members, records=members.records + np.array([0, 1e-3, 0, 0, 0]))
    assert by_records[1] == pytest.approx((members.together() - more.together()) / 1e-3, rel=1e-3)


def test_equal_owners_value_is_that_of_a_sum() -> None:
    members = members_of(summed(20, colluding=3))
    assert members.together() == pytest.approx(20 / 17 / 2000**2)
    assert members.weighted(members.best_weights()) == pytest.approx(members.together())
    assert members.owners_for(members.together() * (1 + 1e-9), 100, 1.0) == 20
    assert members.epsilon_for(members.together()) == pytest.approx(1.0, rel=2e-3)


def test_a_forecast_of_a_sum_is_exact_where_it_is_without() -> None:
    """Its mean over the noise is that of the recursion with the variance of the sum."""
    found = {}
    for how in ("sum", "each"):
        agreement = planned(rule="S2", iterate="last", step=0.5, horizon=6, aggregation=how)
        agreement = agreement.replace(model={"gradient_bound": 60.0}, owner={"epsilon": 20.0})
        found[how] = assess(copriv.Problem.forecasting(agreement, public()), "", runs=200)
    assert {one.kind for one in found.values()} == {"exact"}
    silent = agreement.replace(owner={"epsilon": 1e9})
    floor = assess(copriv.Problem.forecasting(silent, public()), "", runs=20).relative_fitness.mean[-1]
    seen, with_sum = (float(found[how].relative_fitness.mean[-1] - floor) for how in ("each", "sum"))
    assert with_sum == pytest.approx(seen / 5.0, rel=1e-4), "N - t times less"
    for how, noise in (("each", seen), ("sum", with_sum)):
        assert found[how].from_noise == pytest.approx(noise, rel=0.25)  # of 168 degrees of freedom
        assert found[how].noise_share == pytest.approx(noise / (noise + floor), abs=0.1)


def test_a_forecast_of_single_answers_says_what_their_sum_would_cost() -> None:
    """As the forecast of the same terms with the sum finds, and at a budget as much smaller as the noise allows."""
    seen = planned(aggregation="each", communication="synchronous", goal="common", worthwhile=0.0)
    found = copriv.forecast(seen, public=public(), runs=32, preconditioner=False)
    summed_terms = seen.replace(agreement={"aggregation": "sum"})
    itself = copriv.forecast(summed_terms, public=public(), runs=32, preconditioner=False)
    assert itself.with_sum is None
    with_sum = found.with_sum
    assert with_sum is not None
    assert with_sum.assessment.agreement.summed
    assert with_sum.assessment.agreement.colluding == 1
    assert with_sum.together < found.together
    assert with_sum.together == pytest.approx(itself.together)
    assert with_sum.break_even_epsilon is not None
    assert with_sum.break_even_epsilon_each is not None
    ratio = with_sum.break_even_epsilon_each / with_sum.break_even_epsilon
    assert ratio == pytest.approx(5**0.5, rel=0.01), "N - t times less of the noise's variance"


@pytest.mark.slow
def test_a_sum_that_costs_more_is_not_said_to_pay_sooner() -> None:
    """Statistics are no sum, and may cost less than gradients whose sum is seen."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2))
    data = (X, X @ np.array([2.0, -1.0]) + 0.05 * rng.normal(size=300))
    terms = planned(aggregation="each", goal="common", worthwhile=0.0).replace(owner={"epsilon": 3.0, "records": 2000})
    found = copriv.forecast(terms, public=data, runs=32, preconditioner=False, public_start=False)
    assert found.with_sum is not None
    assert found.recommended.agreement.one_answer
    assert found.with_sum.together > found.together
    least, each = found.with_sum.break_even_epsilon, found.with_sum.break_even_epsilon_each
    assert each is not None
    assert least is not None
    assert least > each


@pytest.mark.parametrize("terms", [{"communication": "asynchronous"}, {"robust": 1, "communication": "synchronous"}])
def test_terms_that_allow_no_sum_are_not_compared_with_one(terms: dict) -> None:
    seen = planned(aggregation="each", **terms)
    found = plan(copriv.Problem.forecasting(seen, public()), runs=6, preconditioner=False, public_start=False)
    assert found.with_sum is None


def test_a_whole_forecast_of_a_sum_has_a_number_for_every_owner() -> None:
    """Also for coalitions of as few owners as may collude; the papers' bounds are for single answers."""
    agreement = planned(rule="S2", iterate="last", step=0.5, horizon=4).replace(model={"gradient_bound": 2.0})
    found = copriv.forecast(agreement, public=public(), runs=8)
    document = json.loads(found.to_json())
    for owner in document["owners"]:
        numbers = [owner[key] for key in ("together", "shapley", "marginal_value", "loss_to_others", "best_weight")]
        assert np.isfinite(numbers).all()
    assert document["bounds"] == []
    assert document["overlap_split"] is None
