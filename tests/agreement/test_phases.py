"""Phases of an agreement: what each may spend, what is fixed before the first, and who refuses to be one of two."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import copriv
from copriv.agreement import Agreement
from copriv.errors import AgreementError
from copriv.mechanisms import Guarantee
from copriv.model.records import Records

DOCUMENT = {
    "agreement": {"name": "three banks", "rule": "auto", "horizon": 100, "seed": 5, "goal": "common"},
    "model": {"loss": "squared", "regularization": 1e-5, "gradient_bound": 7.0, "intercept": True},
    "owner": [{"name": f"bank-{i}", "records": 500 * i, "epsilon": 1.0, "overlap": 2, "group": "all"} for i in (1, 2)],
}


def agreed(pilot: object, delta: float = 0.0, epsilon: float = 1.0, **terms: object) -> Agreement:
    return Agreement.of(
        {
            **DOCUMENT,
            "agreement": {**DOCUMENT["agreement"], "pilot": pilot, **terms},
            "owner": [{**owner, "delta": delta, "epsilon": epsilon} for owner in DOCUMENT["owner"]],
        }
    )


def test_an_agreement_without_a_pilot_is_its_only_phase_and_keeps_its_fingerprint():
    without, same = Agreement.of(DOCUMENT), Agreement.of(DOCUMENT)
    assert without.fingerprint == "4359e0820fca2deee707197317f370cedc7752920616af9cff7a80522ef6d714"
    assert without.phases == same.phases == (without,)
    assert without == same  # also after its phases were asked for
    (only,) = agreed(0).phases
    assert only == without


def test_the_pilot_answers_once_and_purely_and_the_rest_has_what_is_left_and_all_of_delta():
    first, rest = agreed(0.25, delta=1e-6).phases
    assert (first.mechanism.one_answer, first.mechanism.guarantee, first.answers) == (True, Guarantee.PURE, 1)
    assert [(o.epsilon, o.delta, o.overlap, o.records) for o in first.owner] == [(0.25, 0, 2, 500), (0.25, 0, 2, 1000)]
    assert [(o.epsilon, o.delta) for o in rest.owner] == [(0.75, 1e-6)] * 2
    assert rest == Agreement.of(DOCUMENT).replace(owner={"epsilon": 0.75, "delta": 1e-6})
    assert first.model.gradient_bound == "auto"  # 7 bounds gradients as they are, the pilot's are in the public metric
    assert {first.fingerprint, rest.fingerprint}.isdisjoint({agreed(0.25, delta=1e-6).fingerprint})


def test_both_phases_are_seen_as_sums_with_the_same_promises_and_shares_of_every_floor():
    seen = {"aggregation": "sum", "colluding": 0, "attempts": 2, "rule": "S2", "answers": 12, "step": 1.0}
    whole = agreed(0.25, **seen).replace(owner={"floor": 4.0})
    first, rest = whole.phases
    assert (first.mechanism.one_answer, first.answers, first.attempts) == (True, 3, 2)
    assert (rest.answers, rest.attempts) == (12, 2)
    assert all(phase.summed and phase.colluding == phase.dropouts == 0 for phase in (first, rest))
    assert [o.floor for o in first.owner] == [1.0, 1.0]
    assert [o.floor for o in rest.owner] == [3.0, 3.0]
    assert first.members == rest.members == ((0, 1),)


@given(st.floats(1e-6, 100), st.floats(1e-6, 0.999))
def test_both_phases_never_spend_more_than_was_agreed(epsilon, share):
    phases = agreed(share, epsilon=epsilon).phases
    whole, each = Fraction(epsilon), [Fraction(phase.owner[0].epsilon) for phase in phases]
    assert sum(each) <= whole
    assert sum(each) >= whole * (1 - Fraction(1, 10**15))
    assert each[0] == Fraction(share * epsilon)


def test_the_card_shows_the_phases():
    said = str(agreed("auto"))
    assert "Phases: pilot at 10 % of every owner's epsilon, one answer; then the run at the rest" in said
    assert "Phases" not in str(Agreement.of(DOCUMENT))


@pytest.mark.parametrize(
    ("terms", "model", "said"),
    [
        ({"pilot": 1.0}, {}, "agreement.pilot: must be less than 1"),
        ({"pilot": -0.1}, {}, "agreement.pilot: must be at least 0"),
        (
            {"pilot": 1e-300},
            {},
            "agreement.pilot: a share of 1e-300 of an epsilon of 1 is too little for one of the phases",
        ),
        (
            {"pilot": 1 - 1e-13},
            {},
            "agreement.pilot: a share of 1 of an epsilon of 1 is too little for one of the phases",
        ),
        ({"pilot": "yes"}, {}, "agreement.pilot"),
        ({"pilot": 0.1, "mechanism": "pilot", "answers": 1, "rule": "A2"}, {}, "agreement.pilot: the run after it"),
        ({"pilot": 0.1, "aggregation": "sum"}, {}, "agreement.colluding: with 1 of 2 owners"),
        ({"pilot": 0.1}, {"gradient_bound": 1.0, "gradient_bound_assumed": True}, "agreement.pilot: clips"),
    ],
)
def test_terms_that_no_pilot_goes_with(terms, model, said):
    document = {**DOCUMENT, "agreement": {**DOCUMENT["agreement"], **terms}, "model": {**DOCUMENT["model"], **model}}
    with pytest.raises(AgreementError) as caught:
        Agreement.of(document)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_who_takes_one_phase_refuses_two_and_says_what_to_do():
    terms = agreed(0.1, rule="A2", answers=2, step=0.1)
    rng = np.random.default_rng(1)
    data = [(rng.uniform(-1, 1, (n, 2)), rng.normal(size=n)) for n in (500, 1000)]
    for refused in (
        lambda: copriv.simulate(terms, data),
        lambda: copriv.own_learners(terms, data),
        lambda: copriv.Owner(terms, "bank-1", Records.of(*data[0]).with_intercept(), terms.loss),
    ):
        with pytest.raises(AgreementError, match=r"agreement\.pilot: .*Agreement\.phases"):
            refused()
