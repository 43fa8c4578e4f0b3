"""Agreements in which the learner sees only sums: what is refused, in words, and what is derived."""

import numpy as np
import pytest
from scipy.special import ndtr

from copriv import Owner
from copriv.agreement import Agreement
from copriv.agreement.participants import Participants
from copriv.errors import AgreementError, QueryRefused
from copriv.losses import Squared
from copriv.model.records import Records
from copriv.protocol import Query


def summed(owners: int = 5, owner: dict | None = None, **terms: object) -> Agreement:
    table = {"records": 100, "epsilon": 1.0} | (owner or {})
    return Agreement.of(
        {
            "agreement": {"rule": "S2", "horizon": 11, "step": 1.0, "aggregation": "sum", **terms},
            "model": {"loss": "squared", "gradient_bound": 1.0},
            "owner": [{"name": f"bank {i}"} | table for i in range(owners)],
        }
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"dropouts": 3},
            r"dropouts: with 3 of 5 owners missing and 1 on its side.*dropouts to at most \(N - t - 1\)/2 = 1",
        ),
        ({"dropouts": 2, "colluding": 1}, r"more than t \+ 2d = 5 owners"),
        (
            {"rule": "A2", "group_size": 4, "dropouts": 1},
            "rule A2 has 2 owner.*but for 1 owner that may be missing.*least 4",
        ),
        ({"colluding": 4}, "colluding: with 4 of 5 owners on the learner's side.*at most N - 2 = 3"),
        ({"robust": 1}, "robust: lies cannot be told apart in a sum"),
        ({"rule": "A2"}, "aggregation: rule A2 has 1 owner.*at least 3 owners in each group"),
        ({"rule": "A2", "group_size": 2}, "aggregation: rule A2 has 1 owner"),
        ({"rule": "A1", "group_size": 3}, "aggregation: rule A1 has 2 owner"),
        ({"mechanism": "objective", "answers": 1}, 'with mechanism "objective" there is no sum'),
        (
            {"mechanism": "pilot", "answers": 1, "attempts": 1},
            "answers: .*answers once, and 1 for further attempts; set answers = 2",
        ),
        ({"attempts": 11}, "attempts: 11 of 11 answers"),
        ({"aggregation": "each", "attempts": 1}, "attempts: is for sums"),
        ({"aggregation": "each", "colluding": 0}, "colluding: is for sums"),
        ({"owner": {"weight": 0.0}}, "weight: "),
        ({"owner": {"floor": 0.5}}, "floor: bank 0 asks for 0.5"),
        ({"owner": {"floor": 2.0}, "aggregation": "each"}, "owner.floor: is for sums"),
        ({"mechanism": "gaussian", "owner": {"delta": 1e-6, "overlap": 2}}, "overlap: bank 0 shares records"),
    ],
)
def test_sums_that_cannot_be_kept_are_refused(given: dict, said: str) -> None:
    with pytest.raises(AgreementError, match=said):
        summed(**given)


def test_all_owners_of_a_group_are_summed() -> None:
    assert Participants.of(summed()).members == ((0, 1, 2, 3, 4),)
    assert Participants.of(summed(rule="A2", group_size=5)).members == ((0, 1, 2, 3, 4),)
    assert [len(group) for group in Participants.of(summed(7, rule="A2", group_size=4)).members] == [4, 3]


def test_attempts_are_answers_that_a_run_does_without() -> None:
    assert summed(answers=8, attempts=3).queries == 5
    assert summed(answers=8, attempts=3).answers == 8
    assert summed(rule="A2", group_size=5, answers=8, attempts=3).queries == 5


def test_an_agreement_without_sums_keeps_its_fingerprint() -> None:
    plain = {"rule": "S2", "horizon": 11, "step": 1.0}
    document = summed().to_dict() | {"agreement": plain}
    assert (
        set(Agreement.of(document).to_dict()["agreement"]) & {"aggregation", "colluding", "dropouts", "attempts"}
        == set()
    )
    assert Agreement.of(document).fingerprint != summed().fingerprint


def test_an_owner_answers_for_a_sum_under_masks_alone() -> None:
    records = Records.of(np.ones((100, 2)), np.zeros(100))
    agreed = summed()
    owner = Owner(agreed, "bank 0", records, Squared())
    with pytest.raises(QueryRefused, match="under masks, which are missing"):
        owner.answer(Query("first", agreed.fingerprint, "bank 0", np.zeros(2)))
    assert owner.ledger.answers == 0


def promised(**given: object) -> str:
    agreement = summed(**given)
    return agreement.mechanism.promise(agreement, agreement.owner[0])


def test_the_promise_says_against_whom_it_holds_and_what_remains() -> None:
    assert promised(colluding=2).endswith(
        "epsilon 1 over the run, against everybody outside and the learner with any 2 other owners, if the others add their "
        "shares; if all the others work together, a share hides little (an owner's floor prevents that)"
    )
    assert "and the learner, if the others" in promised(colluding=0)
    assert promised(owner={"floor": 4.0}).endswith("epsilon 4 if all the others work together, by noise of its own")
    assert (
        "seen in sums only, with a share of noise, of which a weighted sum of all owners has Laplace noise"
        in promised()
    )


def test_what_remains_of_normal_noise_is_that_of_one_share() -> None:
    """By the exact δ(ε) of one normal number, with N − t times less variance."""
    dp_accounting = pytest.importorskip("dp_accounting")
    agreement = summed(6, mechanism="gaussian", colluding=2, owner={"delta": 1e-6})
    found = agreement.mechanism.remaining(agreement, agreement.owner[0])
    σ = dp_accounting.get_sigma_gaussian(1.0, 1e-6) / 2.0

    def δ(ε: float) -> float:
        return float(ndtr(0.5 / σ - ε * σ) - np.exp(ε) * ndtr(-0.5 / σ - ε * σ))

    assert δ(found * 1.001) < 1e-6 < δ(found * 0.999)
    assert f"epsilon {found:.3g} at this delta if all" in agreement.mechanism.promise(agreement, agreement.owner[0])
