"""What a pilot would tell, before it: more with more epsilon, nothing where nothing is open, and the same words everywhere."""

import numpy as np
import pytest

import copriv
from copriv.agreement import Agreement
from copriv.display.forecast import notes
from copriv.display.verdict import about_target
from copriv.forecast.pilot_outlook import settled
from copriv.forecast.what_if import reach
from copriv.formatting.numbers import plain_number


def terms(records: int, **data: object) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "S1", "answers": 1, "horizon": 20, "pilot": 0.1},
            "model": {"loss": "squared", "regularization": 1e-5, "intercept": True},
            "data": data,
            "owner": [{"name": f"bank-{i}", "records": records, "epsilon": 1.0} for i in range(4)],
        }
    )


@pytest.fixture(scope="module")
def public() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 3))
    return x, x @ [0.6, -0.4, 0.2] + 0.5 * rng.normal(size=300)


def test_what_settles_a_verdict_is_evidence_and_not_the_prior():
    """Half of the owners differ by λ: the power of a noncentral χ², from none at 0 to all where the two laws do not overlap."""
    pays = np.repeat([0.9, 0.1], 200).round()

    def power(signal: float) -> float:
        return settled([(np.repeat([0.0, signal], 200), 3)], pays, np.random.default_rng(1))

    assert power(0.0) == 0.0
    assert power(1e4) == 1.0
    assert 0.2 < power(4.0) < power(12.0) < 1.0
    # Three of four draws on one side are a prior of "no" at 0.75, and not evidence.
    assert settled([(np.zeros(400), 3)], np.repeat([1.0, 0.0, 0.0, 0.0], 100), np.random.default_rng(1)) == 0.0
    assert settled([(np.zeros(4), 3)], np.zeros(4), np.random.default_rng(1)) == 1.0  # the same in every draw


def test_settled_agrees_with_the_exact_laws():
    """An oracle: likelihood ratios of scipy's noncentral χ² between two hypotheses."""
    from scipy.stats import chi2, ncx2

    p, λ, rng = 5, 15.0, np.random.default_rng(2)
    drawn = np.concatenate([chi2.rvs(p, size=20_000, random_state=rng), ncx2.rvs(p, λ, size=20_000, random_state=rng)])
    ratio = ncx2.pdf(drawn, p, λ) / chi2.pdf(drawn, p)
    exact = np.mean((ratio >= 4.0) | (ratio <= 0.25))
    pays = np.repeat([1.0, 0.0], 1000)
    found = settled([(np.repeat([0.0, λ], 1000), p)], pays, rng)
    assert abs(found - exact) < 0.05
    assert abs(settled([(np.repeat([0.0, λ / 4], 1000), p)], pays, rng) - exact) > 0.05


@pytest.mark.slow
def test_a_pilot_tells_more_of_larger_owners_and_costs_what_it_takes(public):
    small, large = (copriv.forecast(terms(n), public, runs=32).pilot for n in (200, 200_000))
    for one in (small, large):
        costs = [at.cost for at in one.shares]
        assert costs == sorted(costs)
        assert costs[0] >= 1.0
        assert [at.epsilon[0] for at in one.shares] == pytest.approx([at.share for at in one.shares])
    assert np.mean(large.at(0.1).settles) > np.mean(small.at(0.1).settles)
    assert large.share == 0.1


def test_where_owners_are_alike_an_agreed_pilot_is_said_and_none_is_recommended(public):
    alike = copriv.forecast(terms(2000, heterogeneity=0.0), public, runs=32)
    assert alike.pilot is not None
    assert (alike.pilot.share, alike.pilot.recommended, alike.pilot.shares) == (0.1, 0.0, ())
    assert "it says nothing of how they differ" in (alike.pilot_in_words or "")
    without = terms(2000, heterogeneity=0.0).replace(agreement={"pilot": None})
    assert copriv.forecast(without, public, runs=32).to_dict()["pilot_outlook"] is None


def test_budgets_in_sentences_are_those_to_agree_on(public):
    """They were the run's, and called agreed: of 1 with a pilot of a tenth, "agreed: 0.9"."""
    outlook = copriv.forecast(terms(2000), public, runs=32)
    assert [owner.epsilon for owner in outlook.owners] == pytest.approx([0.9] * 4)
    found = reach(outlook, 0.7 * outlook.together)
    assert found.epsilon is not None
    said = " ".join(about_target(outlook, found))
    assert f"a budget of {plain_number(found.epsilon / 0.9)} of every owner" in said
    assert "(agreed: 1)" in said
    assert plain_number(found.epsilon) not in said


def test_json_and_notes_have_the_same_words(public):
    outlook = copriv.forecast(terms(2000), public, runs=32)
    document = outlook.to_dict()["pilot_outlook"]
    assert document["in_words"] == outlook.pilot_in_words
    assert document["in_words"] in notes(outlook)
    assert {"share", "recommended", "open", "shares"} <= document.keys()
    assert {"share", "cost", "settles", "epsilon", "expected"} == document["shares"][0].keys()
