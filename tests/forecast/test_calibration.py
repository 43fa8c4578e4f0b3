"""A small sample of `python -m benchmarks.calibration`: forecasts of random problems hold what was measured."""

import numpy as np
import pytest
from benchmarks.calibration.measure import measure
from benchmarks.calibration.page import page
from benchmarks.calibration.problems import KINDS, problem


def test_problems_are_their_number_and_every_kind_comes():
    again = [problem(5, 3), problem(5, 3)]
    np.testing.assert_array_equal(again[0].public[0], again[1].public[0])
    assert {problem(5, k).kind for k in range(len(KINDS))} == set(KINDS)


@pytest.mark.slow
def test_most_of_a_dozen_forecasts_hold():
    """With a coverage of 0.85 fewer than eight of twelve hold once in a hundred seeds; these are fixed."""
    rows = [measure(problem(1, number), 1) for number in range(12)]
    assert not [row for row in rows if "crashed" in row or row["warnings"]]
    ran = [row for row in rows if "runs" in row]
    assert len(ran) >= 11
    assert all(row["low"] <= row["mean"] <= row["high"] and row["low"] <= row["median"] <= row["high"] for row in ran)
    assert sum(row["low"] <= np.median(row["runs"]) <= row["high"] for row in ran) >= 8
    assert "Coverage of the 90 % band" in page(rows, 1)
