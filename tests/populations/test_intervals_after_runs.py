"""Intervals of a run's report hold what they are of, over 300 simulated runs with noise, clipping and few public rows."""

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.display.run import compared
from copriv.model.fitness import one_thread
from copriv.model.records import Records
from copriv.populations.diagnosis import HeterogeneityDiagnosis, diagnose
from copriv.populations.public_sample import PublicSample
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.problem import Problem
from copriv.report.public_rows import PublicRows
from copriv.terms.heterogeneity import Heterogeneity

P, OWNERS, RECORDS = 3, 5, 1000
TRUTH = np.array([1.0, -1.0, 0.5])
ASSUMED = Heterogeneity.stated((0.0, 0.05))
SCENES = [
    (apart, epsilon, rows, bound)
    for apart in (0.0, 0.1, 0.5)
    for epsilon, rows, bound in ((20.0, 80, 40.0), (1.0, 80, 40.0), (1.0, 10, 40.0), (0.1, 10, 40.0), (20.0, 80, 6.0))
]
"""How far owners are apart, ε, public rows of each and the gradient bound; with 6, a fifth of all gradients are clipped."""


def _rows(rng: np.random.Generator, n: int, away: np.ndarray) -> Records:
    X = rng.normal(size=(n, P))
    return Records.of(X, X @ (TRUTH + away) + rng.normal(size=n))


def _terms(epsilon: float, bound: float) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "S1", "horizon": 4, "step": 0.2},
            "model": {"loss": "squared", "regularization": 1e-3, "gradient_bound": bound},
            "data": {"feature_bound": 0},
            "owner": [{"name": f"o{i}", "records": RECORDS, "epsilon": epsilon} for i in range(OWNERS)],
        }
    )


def _run(
    seed: int, apart: float, epsilon: float, rows: int, bound: float, flat: bool = False
) -> tuple[HeterogeneityDiagnosis, dict[str, float], np.ndarray]:
    """A run of descent by noisy clipped answers; what is said of it, and the truth: u, the public model's ψ, and its own.

    flat: two more features that are the same in all rows, so that nothing tells how they share their coefficient.
    """
    rng, agreed = np.random.default_rng([seed, 26]), _terms(epsilon, bound)
    away = apart * rng.normal(size=(OWNERS, P))
    owners = [_rows(rng, RECORDS, one) for one in away]
    public = Records.concatenate([_rows(rng, rows, one) for one in away])
    if flat:
        owners, public = [_with_flat(one) for one in owners], _with_flat(public)
    sample, pool = PublicSample.of(Problem.forecasting(agreed, public)), Problem.of(agreed, owners, public)
    θ, told = np.zeros(public.n_parameters), []
    for _ in range(3):
        answers = []
        for owner, records in zip(agreed.owner, owners, strict=True):
            noise = rng.laplace(scale=agreed.mechanism.scale(agreed, owner), size=len(θ))
            answers.append(clipped_mean_gradient(pool.loss, records, θ, bound) + noise)
            told.append((owner.name, θ, answers[-1]))
        θ = θ - 0.3 * np.mean(answers, axis=0)
    found = diagnose(agreed, sample, ASSUMED, θ, told)
    assert found is not None
    # By definition, on the populations themselves: f(θ) = ‖θ − own‖² + 1.
    spread = float(np.mean(np.sum((away - away.mean(axis=0)) ** 2, axis=1)))
    far, reached = (float(pool.fitness.value(x)) / pool.optimum.value - 1.0 for x in (sample.optimum.theta, θ))
    judged = PublicRows(agreed, public).judged(θ)
    return found, judged, np.array([spread / (1.0 + spread), far, reached])


def _with_flat(records: Records) -> Records:
    return Records.of(np.column_stack([records.features, np.ones((len(records), 2))]), records.target)


@pytest.mark.slow
def test_90_percent_intervals_hold_in_300_runs() -> None:
    held, widths = [], []
    with one_thread():
        for scene in SCENES:
            for seed in range(20):
                found, judged, (u, far, reached) = _run(seed, *scene)
                h, d = found.heterogeneity, found.distance
                held.append((h.low <= u <= h.high, d.low <= far <= d.high, judged["low"] <= reached <= judged["high"]))
                if scene[1] == 20.0 and scene[3] == 40.0:
                    widths.append(d.high / max(far, 1e-3))
    # Of 300 at 90 %, 26 more than 30 outside would have a chance of 4e-6; the seeds are fixed.
    assert (np.mean(held, axis=0) >= 0.9 - 26 / 300).all(), np.mean(held, axis=0)
    assert np.median(widths) < 5.0  # and they say something where noise is small


@pytest.mark.slow
def test_an_interval_holds_where_the_run_begins_at_the_public_model() -> None:
    """The end of such a run has an error in common with the rows that judge it: it said "at most 0 %" of 3 %."""
    held, said_nothing = [], 0
    with one_thread():
        for step in (0.0, 0.03, 0.3):  # the start keeps all, most and hardly any of its own error
            for epsilon, rows in ((20.0, 80), (1.0, 80), (1.0, 10), (0.1, 10)):
                for seed in range(25):
                    judged, reached = _run_from_public(seed, epsilon, rows, step)
                    held.append(judged["low"] <= reached <= judged["high"])
                    said_nothing += judged["high"] == 0
    assert np.mean(held) >= 0.9 - 26 / 300
    assert said_nothing == 0


def _run_from_public(seed: int, epsilon: float, rows: int, step: float) -> tuple[dict[str, float], float]:
    """What is said of a run from the optimum of the public rows, and its ψ."""
    rng, agreed = np.random.default_rng([seed, 27]), _terms(epsilon, 40.0)
    alike = np.zeros(P)
    owners = [_rows(rng, RECORDS, alike) for _ in range(OWNERS)]
    public = _rows(rng, rows * OWNERS, alike)
    start = PublicSample.of(Problem.forecasting(agreed, public)).optimum.theta
    agreed = agreed.replace(agreement={"start": start.tolist()})
    pool, θ = Problem.of(agreed, owners, public), start
    for _ in range(3):
        answers = [
            clipped_mean_gradient(pool.loss, records, θ, 40.0)
            + rng.laplace(scale=agreed.mechanism.scale(agreed, owner), size=P)
            for owner, records in zip(agreed.owner, owners, strict=True)
        ]
        θ = θ - step * np.mean(answers, axis=0)
    return PublicRows(agreed, public).judged(θ), float(pool.fitness.value(θ)) / pool.optimum.value - 1.0


def test_where_noise_decides_the_row_says_so_and_json_is_null_with_a_reason() -> None:
    found, judged, _ = _run(0, 0.0, 0.02, 80, 40.0)
    said = found.to_dict()
    assert said["heterogeneity"] is None
    assert said["public_distance"] is None
    assert said["heterogeneity_reason"] == said["public_distance_reason"] == "their noise hides it"
    assert said["wrong"] == ""
    nothing: dict[str, float] = {}
    realised = {"queries": 4, "answers": nothing, "epsilon": nothing, "delta": nothing}
    public = {**judged, "heterogeneity_diagnosis": said}
    table = compared({"realised": {**realised, "public": public}, "forecast": None}, "mean squared error")
    assert [row[-1] for row in table.rows[-2:]] == ["not told by these answers: their noise hides it"] * 2
    clear = _run(0, 0.5, 20.0, 80, 40.0)[0].to_dict()
    assert clear["heterogeneity_reason"] is clear["public_distance_reason"] is None
    assert 0 < clear["heterogeneity"]["low"] < clear["heterogeneity"]["high"] < 1.5


def test_where_most_gradients_are_clipped_nothing_is_said() -> None:
    said = _run(0, 0.5, 20.0, 80, 1.0)[0].to_dict()
    assert said["heterogeneity"] is None
    assert "of gradients are clipped" in said["heterogeneity_reason"]
    assert said["wrong"] == ""


def test_clipping_of_owners_like_the_public_rows_is_not_taken_for_a_distance() -> None:
    """Gradients of the public rows were not clipped as the owners' are: their mean then is far from the answers'."""
    for seed in range(6):
        found, _, (_, far, _) = _run(seed, 0.0, 200.0, 80, 5.0)
        assert 0.1 < found.clipped < 0.5
        assert found.distance.low <= far
        assert found.distance.high < 0.1


def test_directions_that_no_record_tells_of_do_not_blow_up_noise() -> None:
    """Two columns that are always the same: the regulariser alone says how they share their coefficient."""
    for seed in range(3):
        with_flat, plain = (_run(seed, 0.5, 20.0, 80, 40.0, flat)[0] for flat in (True, False))
        assert with_flat.heterogeneity.high < 1.5 * plain.heterogeneity.high
        assert with_flat.distance.high < 3.0 * plain.distance.high
