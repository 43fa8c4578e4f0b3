"""A pilot's answer: what it holds, how far a unit can move it, what is spent, and what the learner makes of it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import expit

import copriv
from copriv.errors import AgreementError, InvalidInput
from copriv.losses import Logistic, Squared
from copriv.mechanisms import pilot
from copriv.mechanisms.pilot import EDGES, PilotNumbers
from copriv.mechanisms.statistics import StatisticsAnswer
from copriv.model.records import Records
from copriv.problem import Problem
from copriv.protocol import Query
from copriv.types import Array
from statistical.privacy_audit import audit_epsilon, learned, likelihood_ratio, scale_test

BINS = len(EDGES) + 1
METRIC = np.array([[2.0, 0.3], [0.3, 0.5]])
NUMBERS = PilotNumbers(0.8, 1.0, 0.5, False, 2, METRIC)


def oracle(n: PilotNumbers, records: Records, θ: Array, slope, value) -> Array:
    """Record by record, from the docstring alone."""
    values, vectors = np.linalg.eigh(np.eye(n.n_parameters) if n.metric is None else n.metric)
    W = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    total, asked = np.zeros(n.n_parameters + 2 * BINS + 1), n.shares
    for x, y, w in zip(records.features, records.target, records.weight, strict=True):
        z = W @ x * slope(x @ θ, y)
        length, size = np.abs(z).sum() / n.bound, np.abs(x[:-1] if n.intercept else x).sum() / n.feature_bound
        one = np.zeros(len(total))
        one[: len(z)] = z / max(1.0, length)
        one[len(z) + sum(length >= edge for edge in EDGES)] = 1.0
        one[len(z) + BINS + sum(size >= edge for edge in EDGES)] = 1.0
        if n.loss_bound is not None:
            one[-1] = min(value(x @ θ, y), n.loss_bound)
        total += w * one
    parts = np.split(total / records.weight.sum(), [len(z), len(z) + BINS, len(z) + 2 * BINS])
    names = ("gradient", "gradient_lengths", "record_lengths", "loss")
    return np.concatenate([part for name, part in zip(names, parts, strict=True) if name in asked])


SQUARED = (lambda z, y: 2 * (z - y), lambda z, y: (z - y) ** 2)
LOGISTIC = (lambda z, y: -y * expit(-y * z), lambda z, y: np.logaddexp(0.0, -y * z))


@pytest.mark.parametrize(
    ("numbers", "loss", "by_hand"),
    [
        (NUMBERS, Squared(), SQUARED),
        (replace(NUMBERS, metric=None, loss_bound=None), Squared(), SQUARED),
        (replace(NUMBERS, bound=0.1, feature_bound=3.0), Logistic(), LOGISTIC),
        (replace(NUMBERS, n_parameters=3, metric=None, intercept=True), Squared(), SQUARED),
        (replace(NUMBERS, agreed_shares={"record_lengths": 0.2, "gradient": 0.5, "loss": 0.3}), Squared(), SQUARED),
        (replace(NUMBERS, loss_bound=None, agreed_shares={"gradient": 1.0}), Logistic(), LOGISTIC),
    ],
)
def test_it_holds_what_it_says(numbers: PilotNumbers, loss: object, by_hand: tuple) -> None:
    rng, p = np.random.default_rng(3), numbers.n_parameters
    x = rng.standard_cauchy((5000, p)) * 0.7
    if numbers.intercept:
        x[:, -1] = 1.0
    records = Records.of_persons(x, np.sign(rng.normal(size=5000)), rng.integers(0, 900, size=5000))
    θ = rng.normal(size=p) * 0.1
    found = numbers.of(loss, records, θ)
    np.testing.assert_allclose(found, oracle(numbers, records, θ, *by_hand), rtol=1e-9, atol=1e-12)
    parts = numbers.parts(found)
    assert {part: len(one) for part, one in parts.items()} == {
        part: {"gradient": p, "loss": 1}.get(part, BINS) for part in numbers.shares
    }
    for part in ("gradient_lengths", "record_lengths"):
        assert part not in parts or parts[part].sum() == pytest.approx(1)
    assert len(numbers.unit) == len(found)


def test_a_number_of_a_row_depends_on_that_row_alone() -> None:
    """A person with one row more moves all rows after it, and no last bit of theirs may change: it could be a whole count."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(4096, 33)), rng.normal(size=4096)
    numbers, θ = PilotNumbers(1.0, 1.0, 2.0, False, 33, np.diag(np.arange(1.0, 34.0)) + 0.1), rng.normal(size=33)
    seen: list[Array] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pilot, "_ones", lambda lengths: seen.append(lengths) or np.zeros((len(lengths), BINS)))
        for first in range(8):
            numbers.of(Squared(), Records.of(x[first:], y[first:]), θ)
    for first in range(1, 8):
        for part in (0, 1):
            assert seen[2 * first + part].tobytes() == seen[part][first:].tobytes()


def spread(numbers: PilotNumbers, n: int = 6) -> float:
    """The farthest that a unit replaced moves u, in 2/n, over records at every extreme."""
    rng = np.random.default_rng(1)
    others, answers = rng.normal(size=(n - 1, 2)), []
    for direction in (np.eye(2)[0], np.eye(2)[1], np.ones(2), np.array([1.0, -1.0])):
        for size in (0.0, 1e-3, 0.3, 1.0, 30.0, 1e6, 1e200):
            for y in (-1e3, -1.0, -1e-4, 0.0, 1e-4, 1.0, 1e3):
                records = Records.of(np.vstack([others, size * direction]), np.append(np.zeros(n - 1), y))
                answers.append(numbers.of(Squared(), records, np.zeros(2)) / numbers.unit)
    return float(cdist(np.array(answers), np.array(answers), "cityblock").max()) * n / 2


SOME = {"gradient": 0.6, "record_lengths": 0.3, "loss": 0.1}
FEWER = replace(NUMBERS, loss_bound=None, agreed_shares={"gradient": 0.9, "gradient_lengths": 0.1})


@pytest.mark.parametrize(
    "numbers",
    [
        NUMBERS,
        replace(NUMBERS, metric=None),
        replace(NUMBERS, loss_bound=None),
        replace(NUMBERS, agreed_shares=SOME),
        FEWER,
        replace(FEWER, agreed_shares={"gradient": 1.0}),
    ],
)
def test_the_sensitivity_is_reached_and_never_passed(numbers: PilotNumbers) -> None:
    assert 0.99 <= spread(numbers) <= 1 + 1e-9


def test_a_wrong_version_passes_the_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    half = replace(NUMBERS)
    half.__dict__["unit"] = NUMBERS.unit * np.append(np.ones(2 + 2 * BINS), 0.5)
    assert spread(half) > 1.05
    monkeypatch.setattr(np, "clip", lambda values, low, high: values)  # of losses alone: rows are clipped elsewhere
    assert spread(NUMBERS) > 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["as made", "half the noise"])
def test_what_is_spent_by_audit(kind: str) -> None:
    """Two records that move every part by all that they can.

    The draws cannot be seeded. An assertion fails by chance less than once in a million times: 20,000 simulated draws bound ε
    from below by 1.34 with half the noise (standard deviation .056), six deviations above 1, and by .58 (.029) as made.
    """
    n, ε, draws = 5, 1.0, 20_000
    numbers = PilotNumbers(0.8, 1.0, 0.5, False, 1)
    made = StatisticsAnswer(numbers, Fraction(ε), n)
    x = np.zeros((n, 1))
    pair = []
    for last, y in ((1e4, 1e-3), (1.0, -1.0)):
        x = np.append(np.zeros((n - 1, 1)), [[last]], axis=0)
        pair.append(Records.of(x, np.append(np.zeros(n - 1), y)))
    means = [numbers.of(Squared(), r, np.zeros(1)) / numbers.unit for r in pair]
    assert np.abs(means[0] - means[1]).sum() == pytest.approx(2 / n, rel=0.01)
    factor = 0.5 if kind == "half the noise" else 1.0
    samples = [m + factor * (np.array([made._noise.release(m) for _ in range(draws)]) - m) for m in means]
    ratio = likelihood_ratio(means[0], means[1], factor * made._noise.scale)
    found = max(audit_epsilon(samples[0], samples[1], fit, np.random.default_rng(5)) for fit in (ratio, learned))
    assert (found > ε) if kind == "half the noise" else (0.3 * ε < found <= ε)


def agreement(**terms: object) -> copriv.Agreement:
    return copriv.Agreement.of(
        {
            "agreement": {
                "rule": "A2", "horizon": 2, "answers": 1, "step": 1.0, "mechanism": "pilot", "loss_bound": 4.0,
                "preconditioner": METRIC.tolist(), **terms,
            },
            "model": {"loss": "squared", "gradient_bound": 2.0, "regularization": 1e-3},
            "data": {"feature_bound": 2.0},
            "owner": [{"name": f"bank-{i}", "records": 300, "epsilon": 2.0} for i in range(2)],
        }
    )  # fmt: skip


def data(seed: int = 0) -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(seed)
    return [(x, x @ [0.5, -0.2] + 0.1 * rng.normal(size=300)) for x in (rng.normal(size=(300, 2)) for _ in range(2))]


def test_owners_and_simulations_release_the_same_with_the_agreed_noise() -> None:
    terms = agreement()
    problem = Problem.of(terms, data())
    exact = PilotNumbers.agreed(terms, 2).of(Squared(), problem.owners[0], np.zeros(2))
    draft = terms.mechanism.draft(terms, terms.owner[0], problem.owners[0], problem.common)
    assert draft.answer(np.zeros(len(exact))) == pytest.approx(exact)
    answers = []
    for _ in range(300):
        owner = copriv.Owner(terms, "bank-0", problem.owners[0], problem.loss)
        answers.append(owner.answer(Query("q", terms.fingerprint, "bank-0", np.zeros(2))).gradient)
    scales = draft.noises[0].scale
    assert scales[0] == pytest.approx(terms.mechanism.scale(terms, terms.owner[0]))
    assert scales == pytest.approx(2 / (300 * 2.0) * np.array([2 / 0.7] * 2 + [10.0] * 2 * BINS + [4 / 0.2]))
    assert scale_test((np.array(answers) - exact) / scales, 1.0)
    assert not scale_test((np.array(answers) - exact) / scales / 2, 1.0)


def test_the_model_is_one_step_along_the_mean_gradient() -> None:
    terms = agreement(step=0.5)
    found = copriv.simulate(terms, data(), runs=400, seed=1)
    problem = Problem.of(terms, data())
    W = pilot.root_of(METRIC)
    g = np.mean([PilotNumbers.agreed(terms, 2).of(Squared(), r, np.zeros(2))[:2] for r in problem.owners], axis=0)
    np.testing.assert_allclose(found.theta.mean(axis=0), -0.5 * W @ g, atol=4e-3)
    np.testing.assert_allclose(W @ W, METRIC)
    told = terms.mechanism.promise(terms, terms.owner[0])
    assert "how many gradients and records are how long, and the mean loss" in told
    # 2/(300 · 2) over a share of a tenth; of the mean loss, up to 4, half as much a unit.
    assert "of 0.0333 on each share of records, of 0.0667 on the mean loss" in told


def test_what_cannot_be_kept_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(AgreementError, match="answers once"):
        agreement(answers=2)
    with pytest.raises(AgreementError, match="loss_bound"):
        agreement(loss_bound=0.0)
    with pytest.raises(AgreementError, match="both or neither"):
        agreement(pilot_parts={"gradient": 1.0})
    with pytest.raises(AgreementError, match="both or neither"):
        agreement(loss_bound=None, pilot_parts={"gradient": 0.9, "loss": 0.1})
    changed = agreement(pilot_parts={"gradient": 0.6, "record_lengths": 0.3, "loss": 0.1})
    changed.agreement.pilot_parts["record_lengths"] = 1.0
    with pytest.raises(ValueError, match="over 1"):
        changed.mechanism.length(changed, 2)
    for parts, said in [
        ({"gradient": 0.9, "record_lengths": 0.1000001, "loss": 1e-9}, "over 1"),
        ({"loss": 0.9}, "gradient: is missing"),
        ({"gradient": 0.5, "losses": 0.1}, "losses: is no part"),
        ({"gradient": 0.5, "loss": 0.0}, "greater than 0"),
    ]:
        with pytest.raises(AgreementError, match=said):
            agreement(pilot_parts=parts)
    with pytest.raises(InvalidInput, match="gradient_bound"):
        StatisticsAnswer(replace(NUMBERS, bound=0.0), Fraction(1), 5)
