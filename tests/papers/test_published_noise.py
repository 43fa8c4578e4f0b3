"""The published code's noise: one number an answer. These tests say what makes it not private."""

import numpy as np

from copriv_papers.published import OneNumberAnAnswer


def test_all_coordinates_get_the_same_number() -> None:
    draws = OneNumberAnAnswer(0, 0, runs=4, members=2, n_parameters=5)
    for k in range(3):
        noise = draws(k)
        assert noise.shape == (4, 2, 5)
        assert (noise == noise[..., :1]).all()
        assert len(np.unique(noise)) == 8


def test_differences_of_coordinates_come_out_exact() -> None:
    gradient = np.array([0.25, -1.5, 3.0])
    answer = gradient + 100.0 * OneNumberAnAnswer(1, 0, 1, 1, 3)(0)[0, 0]
    np.testing.assert_allclose(np.diff(answer), np.diff(gradient), rtol=1e-12)


def test_it_is_standard_laplace() -> None:
    draws = OneNumberAnAnswer(3, 0, runs=40, members=1, n_parameters=1)
    sample = np.concatenate([draws(k).ravel() for k in range(500)])
    assert abs(np.mean(np.abs(sample)) - 1) < 0.03  # of scale 2/3 or 3/2 it would be off by a third
    assert abs(sample.mean()) < 0.03


def test_a_run_depends_on_seed_and_run_only() -> None:
    whole, part = OneNumberAnAnswer(5, 0, 6, 1, 2), OneNumberAnAnswer(5, 4, 2, 1, 2)
    for k in range(130):
        np.testing.assert_array_equal(whole(k)[4:], part(k))
    assert not np.array_equal(OneNumberAnAnswer(6, 0, 6, 1, 2)(0), OneNumberAnAnswer(5, 0, 6, 1, 2)(0))
