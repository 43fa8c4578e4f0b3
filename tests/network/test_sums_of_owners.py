"""Owners in earnest in sums: their clipped gradients, shared noise, masks and ledgers, and the model that rounds lead to."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.errors import BudgetRefused, QueryRefused
from copriv.losses import Squared
from copriv.model.records import Records
from copriv.network import sum_attempt
from copriv.network.masked_sum import MaskedAnswers
from copriv.owner import Owner
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.privacy.masks import Attempt, point_digest
from copriv.privacy.shared_noise import SharedNoise, as_words
from copriv.protocol import Query
from ledger_files import opened
from network_parties import NAMES, agreement, records
from signing_parties import Party, Signs

HELD = {name: records(i) for i, name in enumerate(NAMES)}


def summed(rule: str = "S2", *, delta: float = 0.0, floor: float | None = None) -> Agreement:
    agreed = agreement(rule, horizon=6, answers=4, delta=delta)
    given = agreed.agreement.model_dump(exclude_none=True) | {"aggregation": "sum", "attempts": 1}
    owners = [
        one.model_dump(exclude_none=True) | ({"floor": floor} if floor is not None else {}) for one in agreed.owner
    ]
    return agreed.replace(agreement=given | ({"mechanism": "gaussian"} if delta else {}), owner=owners)


ONE_ANSWER = {
    "statistics": {"moments_share": 0.4},
    "moments": {},
    "pilot": {"loss_bound": 4.0},
    "lengths": {"reach": 2.0},
    "histograms": {},
}


def summed_once(mechanism: str, attempts: int = 1, **owner: float) -> Agreement:
    """Owners that answer once, with answers for further attempts."""
    agreed = summed(delta=1e-6 * (mechanism == "moments"))
    terms = {
        "rule": "A2",
        "mechanism": mechanism,
        "answers": 1 + attempts,
        "attempts": attempts,
        "step": 1.0,
    } | ONE_ANSWER[mechanism]
    owners = [one.model_dump(exclude_none=True) | owner for one in agreed.owner]
    return Agreement.of(
        agreed.to_dict()
        | {
            "agreement": agreed.to_dict()["agreement"] | terms,
            "owner": owners,
            "data": {"feature_bound": 1.0, "features": ["a", "b", "c"], "components": 0},
        }
    )


def sides(agreed: Agreement, ledgers: Any = None) -> dict[str, MaskedAnswers]:
    """The owners' sides of a run, with owners in earnest."""
    parties = {name: Party(name) for name in NAMES}
    owners = {name: Owner(agreed, name, HELD[name], Squared(), (ledgers or {}).get(name)) for name in NAMES}
    return {
        name: MaskedAnswers(agreed.fingerprint, "run", Signs(name), parties, owner) for name, owner in owners.items()
    }


def attempt_of(agreed: Agreement, theta: Any, round_: int = 1, attempt: int = 1) -> Attempt:
    return Attempt(agreed.fingerprint, "run", 1, round_, attempt, point_digest(theta))


def added_up(attempt: Attempt, theta: Any, asked: dict[str, MaskedAnswers]) -> Any:
    """The words' sum in one attempt of honest parties."""
    learner = sum_attempt.SumAttempt(attempt, {name: Party(name) for name in NAMES})
    for side in asked.values():
        learner.take(side.key(attempt, theta))  # type: ignore[arg-type]
    for side in asked.values():
        learner.take(side.sign(attempt, learner.said(sum_attempt.KEY)))
    signatures = learner.said(sum_attempt.SET)
    words = [as_words(side.masked(attempt, signatures).gradient) for side in asked.values()]
    return np.sum(words, axis=0, dtype=np.uint64)


def noise_of(agreed: Agreement) -> SharedNoise:
    made: SharedNoise = agreed.mechanism.in_sum(agreed, range(3), 3)  # type: ignore[attr-defined]
    return made


def clean(agreed: Agreement, theta: Any) -> Any:
    order = agreed.mechanism.order(agreed)
    gradients = [clipped_mean_gradient(Squared(), HELD[name], theta, agreed.gradient_bound, order) for name in NAMES]
    return sum(w * q for w, q in zip(agreed.weights, gradients, strict=True))


@pytest.fixture(params=[{}, {"delta": 1e-6}, {"floor": 8.0}], ids=["pure", "with delta", "with a floor"])
def agreed(request: Any) -> Agreement:
    return summed(**request.param)


def test_without_noise_the_sum_is_the_weighted_mean_up_to_the_grid(
    agreed: Agreement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SharedNoise, "_draws", lambda self, *_: [0] * self.length)
    theta, noise = np.array([0.5, -1.0, 2.0]), noise_of(agreed)
    words = added_up(attempt_of(agreed, theta), theta, sides(agreed))
    assert np.abs(noise.vector(words) - clean(agreed, theta)).max() <= 1.5 * 2.0**noise.exponent + 1e-15


def test_with_noise_the_sum_is_within_its_law(agreed: Agreement) -> None:
    """Each number beyond 40 scales has a probability below 1e-15, with a floor's noise too."""
    theta, noise = np.zeros(3), noise_of(agreed)
    own = [noise._scale(part.floor, part) for part in noise.parts if part.floor is not None]
    widest = (noise.scale + sum(own)) * 2.0**noise.exponent
    off = noise.vector(added_up(attempt_of(agreed, theta), theta, sides(agreed))) - clean(agreed, theta)
    assert 0 < np.abs(off).max() < 60 * widest


def test_a_run_of_rounds_charges_each_owner_and_reserves_its_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise, rounds over sums lead where rounds over answers lead; the fourth answer is there for another attempt."""
    monkeypatch.setattr(SharedNoise, "_draws", lambda self, *_: [0] * self.length)
    agreed = summed()
    assert (agreed.answers, agreed.queries) == (4, 3)
    asked, theta, plain, noise = sides(agreed), np.zeros(3), np.zeros(3), noise_of(agreed)
    for k in range(1, agreed.queries + 1):
        vector = noise.vector(added_up(attempt_of(agreed, theta, k), theta, asked))
        theta = theta - 0.1 * vector
        plain = plain - 0.1 * clean(agreed, plain)
    assert theta == pytest.approx(plain, abs=1e-5)
    assert not np.allclose(theta, 0)
    for side in asked.values():
        assert (side.summand.ledger.answers, side.summand.ledger.spent) == (3, Fraction(3, 4))
    assert added_up(attempt_of(agreed, theta, 3, 2), theta, asked) is not None
    with pytest.raises(BudgetRefused):
        added_up(attempt_of(agreed, theta, 3, 3), theta, asked)


def test_after_a_restart_an_owner_gives_the_words_that_its_file_holds(tmp_path: Any) -> None:
    agreed, theta, given = summed(), np.zeros(3), []
    for _ in range(2):
        files = {name: opened(tmp_path / f"{name}.ledger", name, Fraction(1)) for name in NAMES}
        try:
            ledgers = {n: file.run(agreed.fingerprint, "run", Fraction(1), 4) for n, file in files.items()}
            asked, attempt = sides(agreed, ledgers), attempt_of(agreed, theta)
            if not given:
                added_up(attempt, theta, asked)
            words = [asked[name].key(attempt, theta).gradient for name in NAMES]  # type: ignore[union-attr]
            given.append(np.array(words).tolist())
            assert [ledger.answers for ledger in ledgers.values()] == [1, 1, 1]
        finally:
            for file in files.values():
                file.close()
    assert given[0] == given[1]


def test_two_attempts_at_a_round_have_different_noise() -> None:
    agreed, theta, noisy = summed(), np.zeros(3), list[Any]()
    owner = Owner(agreed, "bank-1", HELD["bank-1"], Squared())
    for identity in ("one", "two"):
        owner.answer(Query(identity, agreed.fingerprint, "bank-1", theta), lambda x: noisy.append(as_words(x)) or x)
    assert not np.array_equal(*noisy)


def test_answers_that_are_seen_are_not_masked_and_others_are() -> None:
    theta = np.zeros(3)
    for agreed, hide, why in (
        (summed(), None, "under masks, which are missing"),
        (agreement("S2"), lambda x: x, "each by itself, and not under masks"),
    ):
        owner = Owner(agreed, "bank-1", HELD["bank-1"], Squared())
        with pytest.raises(QueryRefused, match=why):
            owner.answer(Query("one", agreed.fingerprint, "bank-1", theta), hide)
        assert owner.ledger.answers == 0


# Owners that answer once ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ONE_ANSWER)
def test_of_numbers_that_owners_give_once_only_the_sum_is_seen(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agreed, θ = summed_once(mechanism), np.zeros(3)
    assert agreed.members == ((0, 1, 2),)
    assert agreed.queries == 1
    noise, numbers = noise_of(agreed), agreed.mechanism.numbers(agreed, 3)  # type: ignore[attr-defined]
    assert noise.length == agreed.mechanism.length(agreed, 3)
    clean = sum(w * numbers.of(Squared(), HELD[n], θ) for w, n in zip(agreed.weights, NAMES, strict=True))
    words, cell = added_up(attempt_of(agreed, θ), θ, sides(agreed)), 2.0**noise.exponent
    off = (noise.vector(words) - clean) / numbers.unit
    assert 0 < np.abs(off).max() < 60 * noise.scale * cell
    monkeypatch.setattr(SharedNoise, "_draws", lambda self, *_: [0] * self.length)
    words = added_up(attempt_of(agreed, θ), θ, sides(agreed))
    assert np.abs((noise.vector(words) - clean) / numbers.unit).max() <= 1.5 * cell + 1e-14


@pytest.mark.parametrize("mechanism", ONE_ANSWER)
def test_one_answer_and_each_further_attempt_are_charged(mechanism: str) -> None:
    agreed, θ = summed_once(mechanism, 1), np.zeros(3)
    asked = sides(agreed)
    for attempt in (1, 2):
        added_up(attempt_of(agreed, θ, 1, attempt), θ, asked)
        spent = {side.summand.ledger.spent for side in asked.values()}
        # With δ all is charged at the first answer, whose noise is that of two.
        assert spent == {Fraction(1) if mechanism == "moments" else Fraction(attempt, 2)}
    with pytest.raises(BudgetRefused):
        added_up(attempt_of(agreed, θ, 1, 3), θ, asked)


@pytest.mark.parametrize("mechanism", ONE_ANSWER)
def test_shared_noise_is_that_of_the_strictest_owners_numbers(mechanism: str) -> None:
    """The scale of N − t shares, in the unit of each number, is at least w_i times what owner i's answer needs by itself."""
    agreed = summed_once(mechanism, 0, floor=8.0)
    noise, cell = noise_of(agreed), 2.0 ** noise_of(agreed).exponent
    needed = [w * agreed.mechanism.deviation(agreed, one) for w, one in zip(agreed.weights, agreed.owner, strict=True)]  # type: ignore[attr-defined]
    assert max(needed) <= noise.scale * cell <= 1.002 * max(needed)
    own = [noise._scale(part.floor, part) * cell for part in noise.parts if part.floor is not None]
    assert len(own) == 3
    if mechanism != "moments":
        assert own == pytest.approx([one / 8.0 for one in needed], rel=2e-3)


@pytest.mark.parametrize("mechanism", ONE_ANSWER)
def test_a_unit_replaced_moves_the_rounded_numbers_no_further_than_was_counted(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows at opposite corners, which move most; a share of what is counted is reached, so that half of it would fail."""
    monkeypatch.setattr(SharedNoise, "_draws", lambda self, *_: [0] * self.length)
    agreed, θ = summed_once(mechanism, 0), np.zeros(3)
    noise, order = noise_of(agreed), agreed.mechanism.order(agreed)
    numbers, x, y = agreed.mechanism.numbers(agreed, 3), HELD["bank-1"].features, HELD["bank-1"].target  # type: ignore[attr-defined]
    far, counted = [], noise._moves(noise.parts[0])
    for row, target in (([1.0, 0, 0], 50.0), ([-1.0, 0, 0], 50.0), ([0, 0, 1.0], -50.0), ([0, 0, 0.0], 0.0)):
        features, targets = x.copy(), y.copy()
        features[0], targets[0] = row, target
        value = numbers.of(Squared(), Records.of(features, targets), θ)
        far.append(noise.share(0, value).view(np.int64).astype(np.float64))
    moved = max(np.linalg.norm(a - b, ord=order) for a in far for b in far)
    assert 0.5 * counted < moved <= counted
