"""Simulations of sums: the noise has the law of the shares that owners draw in earnest, whoever they are."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest

import copriv
from agreement.test_sums import summed
from copriv.agreement import Agreement
from copriv.errors import UsageError
from copriv.privacy.noise import Law
from copriv.privacy.simulated_noise import SimulatedNoise, draws
from copriv.simulation.result import from_noise
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
    w, lacking, N = agreement.weights, agreement.colluding + agreement.dropouts, agreement.n_owners
    m = agreement.answers
    needed = max(w[i] * 2.0 * m / (one.records * one.epsilon) for i, one in enumerate(agreement.owner))
    total = np.zeros((RUNS, P))
    for i, one in enumerate(agreement.owner):
        r = 1.0 / (N - lacking)
        total += needed * (rng.gamma(r, size=(RUNS, P)) - rng.gamma(r, size=(RUNS, P)))
        if one.floor is not None:
            total += rng.laplace(scale=w[i] * 2.0 * m / (one.records * one.floor), size=(RUNS, P))
    return total


def unlike(floor: float | None = None, **terms: int) -> Agreement:
    document = summed(4, **({"colluding": 2} | terms), horizon=2, answers=1).to_dict()
    for i, owner in enumerate(document["owner"]):
        owner |= {"records": 100 * (i + 1), "epsilon": 0.5 + i} | ({"floor": 2.0 + i} if floor and i < 2 else {})
    return Agreement.of(document)


@pytest.mark.parametrize(
    "agreement",
    [unlike(), unlike(floor=1.0), unlike(colluding=1, dropouts=1)],
    ids=["shared", "with floors", "with one that may be missing"],
)
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


@pytest.mark.parametrize("mechanism", ["laplace", "statistics"])
def test_owners_that_may_be_missing_raise_the_noise_of_all(mechanism: str) -> None:
    """N/(N − t − d) in place of N/(N − t): in what is simulated, and in the noise that owners draw in earnest."""
    terms = {"mechanism": mechanism, "answers": 1} | ({"moments_share": 0.4} if mechanism == "statistics" else {})
    made = [Agreement.of(summed(10, dropouts=d, **terms).to_dict() | {"data": {"feature_bound": 1.0}}) for d in (0, 2)]
    whole, missing = (one.mechanism.in_sum(one, range(10), P) for one in made)
    assert (whole.shape, missing.shape, whole.scale) == (Fraction(1, 9), Fraction(1, 7), missing.scale)
    groups = [one.aggregation(range(10)) for one in made]
    assert [one.shapes[0] for one in groups] == [10 / 9, 10 / 7]
    if mechanism == "laplace":
        scales = [one.noise(agreed.scales_alone())[0] ** 2 for one, agreed in zip(groups, made, strict=True)]
        assert scales[1] / scales[0] == pytest.approx(9 / 7)
    assert variance_of(made[1]) == pytest.approx(variance_of(made[0]) * 9 / 7)


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


def test_how_much_of_the_cost_is_noise_and_what_bounds_leave() -> None:
    """Against runs without noise, on records of which a few are far longer than the bound."""
    rng, shares = np.random.default_rng(5), []
    X = rng.normal(size=(400, P)) * (1.0 + 9.0 * (rng.random((400, 1)) < 0.05))
    records = [(half, half @ np.array([1.0, -2.0]) + rng.normal(size=200)) for half in np.split(X, 2)] * 2
    terms = summed(4, horizon=40, answers=39, attempts=0, iterate="last", step=0.2)
    for bound in (20.0, 50.0, 100.0):
        owner = {"epsilon": 40.0, "records": 200}
        terms = terms.replace(model={"gradient_bound": bound, "regularization": 0.0}, owner=owner)
        noisy, silent = (
            copriv.simulate(one, records, runs=400, seed=1, alone=False, own_records=False)
            for one in (terms, terms.replace(owner={"epsilon": 1e9}))
        )
        assert noisy.from_noise is not None
        mean = noisy.relative_fitness.final["mean"]
        added = mean - silent.relative_fitness.final["mean"]
        assert abs(noisy.from_noise - added) < 0.1 * mean
        shares.append(noisy.noise_share)
    assert shares[0] < 0.1
    assert 0.3 < shares[1] < 0.5
    assert shares[2] > 0.9


def test_two_runs_in_each_world_tell_the_part_of_noise_without_bias() -> None:
    θ = np.random.default_rng(0).normal(size=(20_000, 2))  # ψ = 3 + θ², so that noise adds 1
    found = from_noise(3.0 + θ**2, 3.0 + θ.mean(axis=1) ** 2)
    assert found == pytest.approx(1.0, abs=0.06)  # six standard errors; without the factor it would be 0.5
    assert from_noise(θ[:, :1] ** 2, θ[:, 0] ** 2) is None
