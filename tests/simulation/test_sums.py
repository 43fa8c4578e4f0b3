"""Simulations of sums: the noise has the law of the shares that owners draw in earnest, whoever they are."""

import numpy as np
import pytest
from scipy.stats import kstest

import copriv
from agreement.test_sums import summed
from copriv.agreement import Agreement
from copriv.errors import UsageError
from copriv.privacy.noise import Law
from copriv.privacy.simulated_noise import SimulatedNoise, draws
from copriv.types import Array

RUNS, P = 10_000, 2


def first_step(agreement: Agreement) -> Array:
    """θ after one round on records whose gradients are 0: a step times the noise."""
    agreement = agreement.replace(agreement={"rule": "S2", "horizon": 2, "iterate": "last", "step": 1e-3})
    records = [(np.zeros((owner.records, P)), np.ones(owner.records)) for owner in agreement.owner]
    return copriv.simulate(agreement, records, runs=RUNS, seed=3, alone=False, own_records=False).theta


def noise_of(agreement: Agreement) -> Array:
    """Noise of the vector that the rule gets; the step is that of a run whose owners' answers are all seen."""
    seen = summed(4, aggregation="each", horizon=2)
    return first_step(agreement) * np.sqrt(variance_of(seen)) / first_step(seen).std()


def variance_of(agreement: Agreement) -> float:
    law = agreement.mechanism.law(agreement)
    return law.variance * float(np.sum((agreement.weights * agreement.noise_scales()) ** 2))


def by_hand(agreement: Agreement, rng: np.random.Generator) -> Array:
    """The same, written a second time: each owner's gamma differences, of its share and of its floor."""
    w, t, N = agreement.weights, agreement.colluding, agreement.n_owners
    m = agreement.answers
    needed = max(w[i] * 2.0 * m / (one.records * one.epsilon) for i, one in enumerate(agreement.owner))
    total = np.zeros((RUNS, P))
    for i, one in enumerate(agreement.owner):
        r = 1.0 / (N - t)
        total += needed * (rng.gamma(r, size=(RUNS, P)) - rng.gamma(r, size=(RUNS, P)))
        if one.floor is not None:
            total += rng.laplace(scale=w[i] * 2.0 * m / (one.records * one.floor), size=(RUNS, P))
    return total


def unlike(floor: float | None = None) -> Agreement:
    document = summed(4, colluding=2, horizon=2, answers=1).to_dict()
    for i, owner in enumerate(document["owner"]):
        owner |= {"records": 100 * (i + 1), "epsilon": 0.5 + i} | ({"floor": 2.0 + i} if floor and i < 2 else {})
    return Agreement.of(document)


@pytest.mark.parametrize("agreement", [unlike(), unlike(floor=1.0)], ids=["shared", "with floors"])
def test_simulated_noise_has_the_law_of_the_shares(agreement: Agreement) -> None:
    theirs = by_hand(agreement, np.random.default_rng(5))
    assert theirs.var() == pytest.approx(variance_of(agreement), rel=0.1)
    ours = noise_of(agreement)
    assert ours.var() == pytest.approx(variance_of(agreement), rel=0.1)
    assert kstest(ours.ravel(), theirs.ravel()).pvalue > 1e-3
    laplace = np.random.default_rng(6).laplace(scale=np.sqrt(variance_of(agreement) / 2.0), size=theirs.size)
    assert kstest(laplace, theirs.ravel()).pvalue < 1e-6, "not a Laplace law: all shares are more than a whole"


@pytest.mark.parametrize("law", list(Law))
def test_a_hundred_owners_of_whom_ten_collude_make_a_ninth_more_than_a_central_curator(law: Law) -> None:
    given = {"mechanism": "gaussian", "owner": {"delta": 1e-6}} if law is Law.NORMAL else {}
    agreement = summed(100, colluding=10, **given)
    (scale,), (shape,) = agreement.aggregation(range(100)).noise(agreement.scales_alone()), [100 / 90]
    drawn = scale * draws(np.random.default_rng(2), law, (100_000, 1), np.array([shape]))
    central = law.variance * float(agreement.scales_alone()[0] / 100) ** 2
    assert drawn.var() <= 1.12 * central
    assert variance_of(agreement) == pytest.approx(100 / 90 * central)


def test_one_owner_alone_makes_as_much_noise_as_the_sum_of_its_kind_less_the_colluding() -> None:
    seen = summed(10, aggregation="each")
    assert variance_of(summed(10)) / variance_of(seen) == pytest.approx(1.0 / 9.0)


def test_groups_are_summed_each_by_itself() -> None:
    agreement = summed(7, rule="A2", group_size=4)
    noise, w = agreement.noise_scales() * agreement.weights, agreement.weights
    alone = float(agreement.scales_alone()[0] * w[0])
    assert np.sum(noise[:4] ** 2) == pytest.approx(4 / 3 * alone**2)
    assert np.sum(noise[4:] ** 2) == pytest.approx(3 / 2 * alone**2)
    records = [(np.ones((100, P)), np.random.default_rng(i).normal(size=100)) for i in range(7)]
    assert copriv.simulate(agreement, records, runs=3, alone=False, own_records=False).theta.shape == (3, P)


def test_a_sum_of_statistics_has_the_law_of_the_shares() -> None:
    """Of owners whose gradients are 0, the first number is the noise; here t = 2 of 4 collude, and two have floors."""
    document = unlike(floor=1.0).to_dict()
    document["agreement"] |= {"mechanism": "statistics", "rule": "A2", "horizon": 4}
    document["agreement"] |= {"step": 1e-3, "preconditioner": np.eye(P).tolist()}
    agreement = Agreement.of(document | {"data": {"feature_bound": 1.0}})
    records = [(np.zeros((owner.records, P)), np.ones(owner.records)) for owner in agreement.owner]
    ours = copriv.simulate(agreement, records, runs=RUNS, seed=3, alone=False, own_records=False).theta / 1e-3
    theirs = by_hand(agreement, np.random.default_rng(5))
    assert ours.var() == pytest.approx(variance_of(agreement), rel=0.1)
    assert kstest(ours.ravel(), theirs.ravel()).pvalue > 1e-3
    laplace = np.random.default_rng(6).laplace(scale=theirs.std() / np.sqrt(2.0), size=theirs.size)
    assert kstest(laplace, theirs.ravel()).pvalue < 1e-6


def test_an_owner_cannot_replace_its_own_answer_in_a_sum() -> None:
    records = [(np.ones((100, P)), np.random.default_rng(i).normal(size=100)) for i in range(5)]
    with pytest.raises(UsageError, match="only the sum is seen"):
        copriv.own_learners(summed(), records, runs=2)


@pytest.mark.parametrize("law", list(Law))
def test_how_many_draws_are_made_at_once_changes_none(law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn() -> list[list[float]]:
        noise = SimulatedNoise(law, np.random.SeedSequence(1).spawn(3), (2, 5), 7)
        return [noise(k).ravel().tolist() for k in range(7)]

    many = drawn()
    monkeypatch.setattr(SimulatedNoise, "CELLS", 2 * 3 * 2 * 5)
    assert drawn() == many
