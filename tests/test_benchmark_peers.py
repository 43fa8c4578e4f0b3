"""The peers of the utility benchmark are run as private as they claim to be: their sensitivities, searched, and noise."""

import sys
from pathlib import Path

import numpy as np
import pytest

from copriv import Agreement, Problem, Records

pytest.importorskip("dp_accounting")
sys.path.insert(0, str(Path(__file__).parents[1]))
peers = pytest.importorskip("benchmarks.utility.peers")


def problem(records: Records) -> Problem:
    agreement = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 1, "step": 1.0},
            "model": {"loss": "logistic", "regularization": 1e-5, "gradient_bound": 1.0},
            "data": {"feature_bound": 1.0},
            "owner": [{"name": "bank", "records": records.units, "epsilon": 1.0}],
        }
    )
    return Problem.of(agreement, [records])


def test_output_perturbation_moves_by_its_sensitivity_at_most() -> None:
    rng, n, made = np.random.default_rng(0), 6, peers.OutputPerturbation(0.05, 0.6)
    x, y = rng.normal(size=(n, 2)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    one = Records.of(x, y)
    start = made.minimiser(problem(one), one)
    worst = 0.0
    for row in (*np.eye(2), *-np.eye(2), *rng.normal(size=(20, 2))):
        for label in (-1.0, 1.0):
            for length in (1, 3, 9):
                other = Records.of(np.vstack([x[:-1], length * row]), np.append(y[:-1], label))
                worst = max(worst, float(np.linalg.norm(made.minimiser(problem(other), other) - start)))
    assert 0.2 * made.sensitivity(n) < worst <= made.sensitivity(n)


def test_output_perturbation_has_noise_of_the_right_length() -> None:
    made, rng = peers.OutputPerturbation(0.05, 0.6), np.random.default_rng(1)
    records = Records.of(rng.normal(size=(50, 3)), np.where(rng.random(50) < 0.5, 1.0, -1.0))
    exact = made.minimiser(problem(records), records)
    models = made.fit(problem(records), records, peers.Terms(50, 2.0, 300), rng)
    lengths = np.linalg.norm(models - exact, axis=1)
    assert np.mean(lengths) == pytest.approx(3 * made.sensitivity(50) / 2.0, rel=0.15)


def test_dp_sgd_adds_the_noise_that_its_steps_cost() -> None:
    """One step from 0 on records without a gradient leaves noise alone."""
    from copriv.privacy.approximate import gaussian_multiplier

    records, rng = Records.of(np.zeros((40, 4)), np.ones(40)), np.random.default_rng(2)
    made = peers.DPSGD(1, 0.5, 2.0)
    moves = made.fit(problem(records), records, peers.Terms(40, 1.0, 500), rng)
    scale = 2.0 * (2 * 0.5 / 40) * gaussian_multiplier(1, 1.0, peers.DELTA)
    assert moves.std() == pytest.approx(scale, rel=0.08)
    steps = peers.DPSGD(100, 0.5, 2.0)
    longer = steps.fit(problem(records), records, peers.Terms(40, 1.0, 50), rng)
    assert longer.std() > 5 * scale  # a walk of 100 steps, each with 10 times the noise


def test_a_peer_that_gives_every_owner_a_model_of_its_own_does_what_its_paper_says() -> None:
    """Without noise to speak of: λ = 0 is each by itself, a large λ draws all together, averaging gives all one model."""
    from benchmarks.unlike.peer import RUNS, SETTINGS, descended

    from copriv.losses import Squared

    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 400, 2))
    truth = np.array([[1.0, 0.0], [-1.0, 1.0]])
    train = [Records.of(x[i], x[i] @ truth[i]) for i in range(2)]
    models = descended(Squared(), 0.0, train, np.zeros(2), 1e6, 1e3, 60, 2.0, 0)
    at = {(one.gain, one.pull, one.together): RUNS * j for j, one in enumerate(SETTINGS)}
    by_itself, drawn, one = models[:, at[0.3, 0.0, 0.0]], models[:, at[0.3, 3.0, 0.0]], models[:, at[0.3, 0.0, 1.0]]
    assert np.abs(by_itself - truth).max() < 0.02
    apart = [float(np.abs(each[0] - each[1]).max()) for each in (by_itself, drawn, one)]
    assert apart[0] > 1.9
    assert 0.05 < apart[1] < 1.0
    assert apart[2] < 1e-12
    assert np.abs(one[0] - truth.mean(axis=0)).max() < 0.15
    tuned = models[:, at[1.0, 0.0, 0.5]]
    assert np.abs(tuned - truth).max() < 0.1


def test_the_same_peer_adds_the_noise_that_its_steps_cost() -> None:
    from benchmarks.unlike.peer import RUNS, SETTINGS, descended

    from copriv.losses import Logistic
    from copriv.privacy.approximate import gaussian_multiplier

    still = [Records.of(np.zeros((n, 500)), np.ones(n)) for n in (40, 80)]
    moved = descended(Logistic(), 0.0, still, np.zeros(500), 1.0, 0.5, 1, 1.0, 1)
    j = RUNS * next(j for j, one in enumerate(SETTINGS) if (one.gain, one.pull, one.together) == (1.0, 0.0, 0.0))
    for i, n in enumerate((40, 80)):
        scale = 2.0 * 0.5 / n * gaussian_multiplier(1, 1.0, peers.DELTA)
        assert moved[i, j : j + RUNS].std() == pytest.approx(scale, rel=0.1)


def test_settings_chosen_by_other_rows_are_not_chosen_by_those_that_judge_them() -> None:
    """Held-out halves that want opposite models: in hindsight a compromise, by other rows the wrong one for each half."""
    from benchmarks.unlike.peer import tuned

    from copriv.losses import Squared

    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 1))
    train = [Records.of(x[:300], x[:300, 0])]
    public = Records.of(rng.normal(size=(50, 1)), rng.normal(size=50))
    halves = np.where(np.arange(100) % 2 == 0, 1.0, 0.0)  # slope 1 where rows are even, 0 where they are odd
    torn = tuned(Squared(), 0.0, train, [Records.of(x[300:], x[300:, 0] * halves)], public, np.zeros(1), 1e6)
    assert torn.by_other_rows[0] > 1.5 * torn.in_hindsight[0]
    # Where halves want the same, both ways choose much the same.
    same = tuned(Squared(), 0.0, train, [Records.of(x[300:], x[300:, 0] + 0.1)], public, np.zeros(1), 1e6)
    assert same.in_hindsight[0] <= same.by_other_rows[0] <= 1.05 * same.in_hindsight[0]
