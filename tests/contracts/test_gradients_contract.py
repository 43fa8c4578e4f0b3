"""What every way of computing clipped mean gradients must keep: exact, counted, and the same whatever the blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from copriv import losses
from copriv.model.records import Records
from copriv.simulation.gradients import ClippedSquared, GramGradients, Pass, RecordGradients, batched_gradients

SIZES = (40, 7, 150)


def participants(seed: int, heavy: bool = True) -> tuple[Records, ...]:
    rng = np.random.default_rng(seed)
    made = []
    for n in SIZES:
        X = rng.standard_t(2, size=(n, 3)) if heavy else rng.normal(size=(n, 3))
        made.append(Records.of(X, X @ [1.0, -2.0, 0.5] + rng.normal(size=n), rng.integers(1, 4, size=n).astype(float)))
    return tuple(made)


def by_oracle(parts: tuple[Records, ...], participant: np.ndarray, theta: np.ndarray, bound: float) -> np.ndarray:
    answers = []
    for i, t in zip(participant, theta, strict=True):
        rows = list(zip(parts[i].features, map(float, parts[i].target), strict=True))
        clip = None if np.isinf(bound) else bound
        answers.append(oracle.private_answer("squared", rows, t, clip, np.zeros(3), parts[i].weight.tolist()))
    return np.array(answers)


WAYS = {
    "clipped squared": lambda parts, bound: ClippedSquared(losses.Squared(), parts, bound),
    "records": lambda parts, bound: RecordGradients(losses.Squared(), parts, bound),
    "chosen": lambda parts, bound: batched_gradients(losses.Squared(), parts, bound),
}


@pytest.mark.parametrize("way", WAYS)
@given(
    seed=st.integers(0, 10**6),
    bound=st.sampled_from([0.3, 3.0, 30.0, 300.0]),
    spread=st.sampled_from([0.01, 1.0, 50.0]),
)
def test_exact_along_a_path(way, seed, bound, spread):
    """Many queries in a row: near, far, and back, so that regions are left and found again."""
    parts, rng = participants(seed), np.random.default_rng(seed)
    gradients = WAYS[way](parts, bound)
    centre = np.zeros(3)
    for k in range(6):
        centre = centre + rng.normal(size=3) * spread
        theta = centre + rng.normal(size=(5, 3)) * spread * (10 if k == 3 else 1)
        participant = rng.integers(len(parts), size=5)
        expected = by_oracle(parts, participant, theta, bound)
        np.testing.assert_allclose(
            gradients(participant, theta), expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(theta).max())
        )


def test_exact_with_many_features():
    """Where matrices are large, they are not copied for each run."""
    rng, p = np.random.default_rng(0), 40
    X = rng.normal(size=(3, 60, p))
    parts = tuple(Records.of(x, x[:, 0] + rng.normal(size=60)) for x in X)
    gradients, clipping = WAYS["clipped squared"](parts, 30.0), WAYS["records"](parts, 30.0)
    for _ in range(4):
        who, theta = rng.integers(3, size=8), rng.normal(size=(8, p)) / 5
        np.testing.assert_allclose(gradients(who, theta), clipping(who, theta), rtol=1e-9, atol=1e-9)
    assert 0 < gradients.clipped == clipping.clipped < gradients.asked


@given(seed=st.integers(0, 10**6))
def test_gram_is_exact_without_clipping(seed):
    parts, rng = participants(seed), np.random.default_rng(seed)
    theta, participant = rng.normal(size=(5, 3)), rng.integers(len(parts), size=5)
    np.testing.assert_allclose(
        GramGradients(parts)(participant, theta), by_oracle(parts, participant, theta, np.inf), rtol=1e-9
    )


@pytest.mark.parametrize("way", ["clipped squared", "records"])
def test_clipped_records_are_counted(way):
    parts, theta = participants(3), np.zeros((2, 3))
    gradients = WAYS[way](parts, 2.0)
    gradients(np.array([0, 2]), theta)
    norms = [np.abs(losses.Squared().gradients(theta[0], part.features, part.target)).sum(axis=1) for part in parts]
    expected = sum(float(parts[i].weight[norms[i] > 2.0].sum()) for i in (0, 2))
    assert gradients.clipped == pytest.approx(expected)
    assert gradients.asked == pytest.approx(float(parts[0].weight.sum() + parts[2].weight.sum()))


@pytest.mark.parametrize("name", ["squared", "hinge", "logistic", "huber"])
@pytest.mark.parametrize("cells", [64, 1000, 1 << 16])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_blocks_and_threads_change_nothing_beyond_rounding(name, cells, workers):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 2))
    y = np.sign(X[:, 0] + rng.normal(size=40_000))
    records, theta = Records.of(X, y), rng.normal(size=(4, 2))
    loss = losses.by_name(name)
    total, clipped = Pass(loss, records, workers, cells).gradients(theta, 1.0)
    for run in range(4):
        gradients = loss.gradients(theta[run], X, y)
        norms = np.abs(gradients).sum(axis=1)
        expected = (gradients * np.minimum(1.0, 1.0 / np.maximum(norms, 1e-300))[:, None]).sum(axis=0)
        np.testing.assert_allclose(total[run], expected, rtol=1e-9, atol=1e-7)
    assert clipped == sum((np.abs(loss.gradients(t, X, y)).sum(axis=1) > 1.0).sum() for t in theta)


def test_participants_with_the_same_records_are_answered_together():
    part, rng = participants(1)[0], np.random.default_rng(1)
    theta, participant = rng.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    shared = batched_gradients(losses.Squared(), (part, part, part), 1.0)
    np.testing.assert_allclose(
        shared(participant, theta), by_oracle((part, part, part), participant, theta, 1.0), rtol=1e-9
    )
    assert shared.asked == 6 * part.weight.sum()


@pytest.mark.parametrize(
    ("way", "loss"),
    [(ClippedSquared, losses.Squared()), (RecordGradients, losses.Squared()), (RecordGradients, losses.Huber(1.0))],
)
def test_rows_that_participants_share_are_passed_once_whatever_their_weights(way, loss, monkeypatch):
    rows, rng = participants(1)[0], np.random.default_rng(1)
    parts = [Records(rows.features, rows.target, rng.uniform(0.1, 3.0, len(rows))) for _ in range(8)]
    apart = [Records(rows.features.copy(), rows.target, part.weight) for part in parts]
    theta, who, passes, real = rng.normal(size=(12, 3)), rng.integers(8, size=12), [], Pass.gradients
    monkeypatch.setattr(Pass, "gradients", lambda *args, **options: passes.append(1) or real(*args, **options))
    together, each = way(loss, tuple(parts), 1.0), way(loss, tuple(apart), 1.0)
    np.testing.assert_allclose(together(who, theta), each(who, theta), rtol=1e-9)
    assert len(passes) == 1 + len(np.unique(who))
    assert together.clipped == pytest.approx(each.clipped, rel=1e-12)
    assert together.clipped > 0


def test_merged_records_keep_shared_rows_once():
    (one, other, _), scale = participants(1), np.array([0.5, 2.0, 3.0])
    again = Records(one.features, one.target, 2.0 * one.weight)
    merged = Records.merged([one, other, again], scale)
    assert len(merged) == len(one) + len(other)
    np.testing.assert_allclose(
        merged.moments[0], Records.concatenate([one, other, again], scale).moments[0], rtol=1e-12
    )
