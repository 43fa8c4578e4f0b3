"""Noisy sufficient statistics: the proved sensitivity, met by search; the noise that leaves; the learner's solve."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import copriv.mechanisms.statistics as module
import copriv.privacy.clipping as moments
from copriv.agreement import Agreement
from copriv.agreement.participants import Participants, agreed_rule
from copriv.errors import AgreementError, BudgetRefused, InvalidInput, QueryRefused
from copriv.losses import Squared
from copriv.mechanisms.statistics import Moments, StatisticsAnswer, best_share
from copriv.model.fitness import FeasibleSet, Fitness, Regularizer
from copriv.model.records import Records
from copriv.owner import Owner
from copriv.privacy.clipping import mean_moments, unpack
from copriv.protocol import Query
from copriv.rules import Descent, SolveStatistics
from copriv.simulation import simulate
from copriv.types import Array
from statistical.privacy_audit import audit_epsilon, learned, likelihood_ratio, scale_test

BOUND, REACH = 0.7, 0.5


def mechanism(n: int = 6, p: int = 3, share: float = 0.4, epsilon: float = 1.0, intercept: bool = False):
    return StatisticsAnswer(Moments(BOUND, REACH, intercept, share, p), Fraction(epsilon), n)


def candidates(p: int, intercept: bool) -> list[tuple[Array, float]]:
    """Rows at and far outside the corners of the ball, spread ones, and targets from none to huge."""
    rng = np.random.default_rng(0)
    rows = [s * size * e for e in np.eye(p) for s in (-1, 1) for size in (REACH, 1e6)]
    rows += [size * np.ones(p) for size in (REACH / p, 1e3)] + list(rng.normal(size=(6, p))) + [np.zeros(p)]
    if intercept:
        rows = [np.append(row[:-1], 1.0) for row in rows]
    return [(row, y) for row in rows for y in (-1e6, 0.0, 0.3, 1e6)]


def spread(made: StatisticsAnswer, p: int, intercept: bool = False) -> float:
    """The farthest that one replaced record moves the scaled statistics in L1, over what the noise is made for."""
    rng, theta = np.random.default_rng(1), np.full(p, 0.2)
    stay, y = rng.normal(size=(made.units - 1, p)), rng.normal(size=made.units - 1)
    means = np.array(
        [
            made.moments.of(Squared(), Records.of(np.vstack([stay, row]), np.append(y, target)), theta)
            / made.moments.unit
            for row, target in candidates(p, intercept)
        ]
    )
    apart = np.abs(means[:, None] - means[None]).sum(axis=2).max()
    return float(apart / (2.0 / made.units))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_the_sensitivity_is_reached_and_never_passed(share: float, intercept: bool) -> None:
    assert 0.99 <= spread(mechanism(share=share, intercept=intercept), 3, intercept) <= 1 + 1e-9


def test_wrong_versions_pass_the_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    unscaled = moments.scaled_rows
    monkeypatch.setattr(moments, "scaled_rows", lambda x, bound, intercept: x)
    assert spread(mechanism(), 3) > 10
    monkeypatch.setattr(moments, "scaled_rows", unscaled)
    real = module.clipped_mean_gradient
    monkeypatch.setattr(module, "clipped_mean_gradient", lambda loss, r, theta, bound: real(loss, r, theta, 1e9))
    assert spread(mechanism(), 3) > 10  # a target that nobody clipped


def test_half_of_the_bound_on_moments_would_not_be_private(monkeypatch: pytest.MonkeyPatch) -> None:
    made = mechanism(share=0.8)
    half = np.where(np.arange(len(made.moments.unit)) < 3, 1.0, 0.5)
    made.moments.__dict__["unit"] = made.moments.unit * half
    assert spread(made, 3) > 1.5


@given(p=st.integers(1, 6), seed=st.integers(0, 100))
def test_moments_of_a_record_have_the_l1_norm_that_is_claimed(p: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_cauchy((1, p))
    norm = min(np.abs(x).sum(), REACH)
    m = mean_moments(Records.of(x, np.zeros(1)), REACH, False) * module.multiplicity(p)
    assert np.abs(m).sum() == pytest.approx(norm**2, rel=1e-9)


def test_moments_are_those_of_numpy() -> None:
    x, w = np.random.default_rng(2).normal(size=(9000, 3)) * 0.05, np.random.default_rng(3).uniform(0.5, 2, 9000)
    r = Records.of(x, np.zeros(9000), w)
    np.testing.assert_allclose(unpack(mean_moments(r, REACH, False), 3), (x * w[:, None]).T @ x / w.sum(), rtol=1e-12)


def test_the_noise_has_the_promised_scale() -> None:
    made, theta = mechanism(share=0.4, epsilon=2.0), np.zeros(3)
    records = Records.of(0.1 * np.random.default_rng(4).normal(size=(6, 3)), np.zeros(6))
    exact = made.moments.of(Squared(), records, theta)
    scales = 2.0 / (6 * 2.0) * made.moments.unit
    assert made.scale == pytest.approx(scales[0])
    draws = np.array([made.answer(Squared(), records, theta) for _ in range(400)]) - exact
    assert scale_test(draws / scales, 1.0)
    assert not scale_test(draws / scales / 2, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["as made", "half the noise"])
def test_what_is_spent_by_audit(kind: str) -> None:
    """One coordinate takes all that a replaced record may change: the event that tells most is then a common one.

    The draws cannot be seeded. With 7,000 of them the bound was 0.72 ± 0.03 as made and 1.55 ± 0.05 with half the
    noise (mean and standard deviation of 40 simulated audits), so either assertion fails by chance less than once in a
    million times.
    """
    n, p, ε, draws = 5, 1, 1.0, 7000
    made = mechanism(n, p, 0.01, ε)
    x = np.append(np.zeros((n - 1, p)), [[REACH]], axis=0)
    pair = [Records.of(x, np.append(np.zeros(n - 1), y)) for y in (-1e3, 1e3)]
    means = [made.moments.of(Squared(), r, np.zeros(p)) / made.moments.unit for r in pair]
    half = 0.5 if kind == "half the noise" else 1.0
    samples = [m + half * (np.array([made._noise.release(m) for _ in range(draws)]) - m) for m in means]
    rng = np.random.default_rng(5)
    ratio = likelihood_ratio(means[0], means[1], half * made._noise.scale)
    found = max(audit_epsilon(samples[0], samples[1], fit, rng) for fit in (ratio, learned))
    assert (found > ε) if kind == "half the noise" else (0.5 * ε < found <= ε)


def agreement(share: float = 0.3, **terms: object) -> Agreement:
    return Agreement.of(
        {
            "agreement": {
                "rule": "A2", "horizon": 2, "answers": 1, "mechanism": "statistics", "moments_share": share, **terms,
            },
            "model": {"loss": "squared", "gradient_bound": 2.0, "regularization": 1e-3},
            "data": {"feature_bound": 1.0, "public_rows": 500},
            "owner": [{"name": f"bank-{i}", "records": 4000, "epsilon": 5.0} for i in range(2)],
        }
    )  # fmt: skip


def data(n: int = 4000) -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(6)
    x = rng.uniform(-1, 1, size=(2, n, 3)) / 3
    return [(part, part @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=n)) for part in x]


def test_an_owner_answers_once_at_the_start_and_is_charged_all() -> None:
    terms = agreement()
    owner = Owner(terms, "bank-0", Records.of(*data()[0]), Squared())
    with pytest.raises(QueryRefused, match="agreed start"):
        owner.answer(Query("a", terms.fingerprint, "bank-0", np.ones(3)))
    assert owner.ledger.spent == 0
    answer = owner.answer(Query("a", terms.fingerprint, "bank-0", np.zeros(3)))
    assert answer.gradient.shape == (3 + 6,)
    assert owner.ledger.spent == 5
    with pytest.raises(BudgetRefused):
        owner.answer(Query("b", terms.fingerprint, "bank-0", np.zeros(3)))
    again = owner.answer(Query("a", terms.fingerprint, "bank-0", np.zeros(3)))
    assert again.gradient.tobytes() == answer.gradient.tobytes()


def test_without_noise_the_solution_is_the_optimum() -> None:
    xs = data()
    pool = Records.concatenate([Records.of(*part) for part in xs])
    fitness = Fitness(Squared(), Regularizer(1e-3), FeasibleSet(), pool)
    rule = SolveStatistics(Descent(Regularizer(1e-3), FeasibleSet()), np.array([0.5, 0.5]), np.zeros(2), 500)
    state = rule.start(np.zeros((1, 3)))
    made = Moments(1e3, 10.0, False, 0.5, 3)
    for i, part in enumerate(xs):
        answer = made.of(Squared(), Records.of(*part), np.zeros(3))
        state = rule.step(state, np.array([i]), answer[None])
    np.testing.assert_allclose(rule.model(state)[0], fitness.minimum().theta, rtol=1e-8)


@pytest.mark.parametrize("preconditioned", [False, True])
def test_curvature_is_repaired_whatever_the_noise(preconditioned: bool) -> None:
    rng, runs, p = np.random.default_rng(7), 50, 4
    descent = Descent(Regularizer(0.0), FeasibleSet(10.0), 5.0 * np.eye(p) if preconditioned else None)
    rule = SolveStatistics(descent, np.ones(1), np.array([3.0]), 500)
    state = rule.start(np.zeros((runs, p)))
    state = rule.step(state, np.zeros(runs, dtype=np.intp), rng.laplace(size=(runs, p + 10)) * 3)
    A = rule._repaired(2 * unpack(rng.laplace(size=(runs, 10)) * 3, p), state.noise)
    assert (np.linalg.eigvalsh(A) > 0.04).all()
    assert np.isfinite(rule.model(state)).all()


def test_simulated_runs_have_the_noise_of_real_owners() -> None:
    """Real noise cannot be seeded. With so many runs a right ratio has a logarithm of 0 ± 0.081 at most."""
    terms, tables = agreement(), data()
    simulated = simulate(terms, tables, runs=600, alone=False).theta
    rule_args = {"fingerprint": terms.fingerprint}
    rule = agreed_rule(terms, Participants.of(terms), 3)
    real = []
    for run in range(150):
        state = rule.start(np.zeros((1, 3)))
        for i, part in enumerate(tables):
            owner = Owner(terms, f"bank-{i}", Records.of(*part), Squared())
            query = Query(f"{run}", rule_args["fingerprint"], f"bank-{i}", np.zeros(3))
            state = rule.step(state, np.array([i]), owner.answer(query).gradient[None])
        real.append(rule.model(state)[0])
    ratio = np.std(real, axis=0) / simulated.std(axis=0)
    assert (ratio > 0.6).all()
    assert (ratio < 1 / 0.6).all()


def test_the_best_share_is_the_least_of_a_scan() -> None:
    rng = np.random.default_rng(8)
    p = 3
    B = rng.normal(size=(p, p))
    A, d = B @ B.T + np.eye(p), rng.normal(size=p)
    found = best_share(A, np.outer(d, d), 0.7, 1.7)
    inverse = np.linalg.inv(A)

    def cost(τ: float) -> float:
        """By simulation of the noise itself, common random numbers."""
        draws = np.random.default_rng(9).laplace(size=(4000, p + p * (p + 1) // 2))
        noise = draws * 2.0 * Moments(0.7, np.sqrt(1.7), False, τ, p).unit
        v = noise[:, :p] + 2 * unpack(noise[:, p:], p) @ d
        return float(np.einsum("rj,jk,rk->r", v, inverse, v).mean())

    scan = np.linspace(0.05, 0.95, 46)
    assert abs(found - scan[np.argmin([cost(τ) for τ in scan])]) <= 0.04


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agreement": {"answers": 2}}, "answers"),
        ({"model": {"loss": "logistic"}}, "squared"),
        ({"data": {"feature_bound": 0.0}}, "feature_bound"),
    ],
)
def test_agreements_that_cannot_be_kept(change: dict[str, dict[str, object]], message: str) -> None:
    with pytest.raises(AgreementError, match=message):
        agreement().replace(**change)


def test_refusals() -> None:
    with pytest.raises(InvalidInput, match="moments_share"):
        mechanism(share=1.0)
    with pytest.raises(AgreementError, match="moments_share"):
        simulate(agreement(share=0.0), data(), runs=2)
    with pytest.raises(AgreementError, match="delta"):
        simulate(agreement().replace(owner={"delta": 1e-6}), data(), runs=2)


def test_the_gradient_keeps_a_part_of_epsilon_whatever_the_features_are_measured_in() -> None:
    """Loans as they stand, without a dictionary: sums of dollars beside shares once took all of it, and divided by 0."""
    share = best_share(np.diag([1e-9, 1e12]), np.diag([1e24, 1e-3]), 1e-6, 1e12)
    assert 0 < share < 1
    assert np.isfinite(Moments(1.0, 1.0, False, round(share, 3), 2).unit).all()
