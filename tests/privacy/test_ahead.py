"""Noise drawn ahead: one draw, one answer, and the same numbers as the mechanism it belongs to."""

import math
import multiprocessing
import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.errors import InvalidInput
from copriv.privacy import laplace as ahead
from copriv.privacy.laplace import DrawnAhead, LaplaceAnswer
from copriv.privacy.noise import GRID
from copriv.types import Array
from statistical.privacy_audit import scale_test

CELL = Fraction(2) ** GRID
MOST = Fraction(4096)


class Scripted(LaplaceAnswer):
    """A mechanism whose noise is known: what `DrawnAhead` makes of it is arithmetic."""

    noise: Array
    releases = 0

    def release(self, value: Array) -> Array:
        object.__setattr__(self, "releases", self.releases + 1)
        return value + self.noise


def script(mechanism: Scripted, *noise: float) -> None:
    object.__setattr__(mechanism, "noise", np.array(noise))


def drawn(*noise: float) -> tuple[DrawnAhead, Scripted]:
    mechanism = Scripted(0.01, Fraction(1), len(noise))
    script(mechanism, *noise)
    waiting = DrawnAhead(mechanism, 1.0)
    waiting.draw()
    return waiting, mechanism


cells = st.integers(-(2**70), 2**70)
values = st.floats(-1e300, 1e300)


@given(st.lists(st.tuples(values, cells | st.integers(-(2**54), 2**54)), min_size=1, max_size=4))
def test_the_sum_is_that_of_exact_arithmetic(pairs: list[tuple[float, int]]) -> None:
    # Whatever digits of a large Z a float cannot hold, the answer is the one that the exact Z gives.
    value = np.array([v for v, _ in pairs])
    noise = [float(z) * float(CELL) for _, z in pairs]
    answer = drawn(*noise)[0].release(value)
    for (v, z), got in zip(pairs, answer, strict=True):
        inside = min(max(Fraction(v), -MOST), MOST)
        nearest = round(inside / CELL)  # halves to the even one, as IEEE does
        exact = min(max((nearest + z) * CELL, -MOST), MOST)
        assert Fraction(float(got)) == exact
        assert math.copysign(1.0, got) == 1.0 or got < 0, "a zero with a sign"


@given(st.lists(st.tuples(values, values), min_size=1, max_size=5))
def test_two_values_come_no_further_apart_than_the_certificate_counts(pairs: list[tuple[float, float]]) -> None:
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    there, here = (drawn(*[0.0] * len(a))[0].release(v) for v in (a, b))
    moved = [Fraction(float(x)) - Fraction(float(y)) for x, y in zip(there, here, strict=True)]
    apart = [abs(Fraction(float(x)) - Fraction(float(y))) for x, y in zip(a, b, strict=True)]
    assert sum(map(abs, moved)) <= sum(apart) + len(a) * CELL


def test_one_draw_serves_one_answer() -> None:
    waiting, mechanism = drawn(1.0, 2.0)
    script(mechanism, 5.0, 5.0)
    assert waiting.release(np.zeros(2)).tolist() == [1.0, 2.0]
    assert waiting.release(np.zeros(2)).tolist() == [5.0, 5.0]
    assert mechanism.releases == 2


def test_a_refused_value_uses_no_noise() -> None:
    waiting, mechanism = drawn(1.0, 2.0)
    with pytest.raises(InvalidInput, match="finite"):
        waiting.release(np.array([0.0, math.nan]))
    assert mechanism.releases == 1
    assert waiting.release(np.zeros(2)).tolist() == [1.0, 2.0]


def test_noise_that_is_dropped_or_old_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, mechanism = drawn(1.0)
    script(mechanism, 2.0)
    waiting.drop()
    assert waiting.release(np.zeros(1)).tolist() == [2.0]
    waiting.draw()
    script(mechanism, 3.0)
    now = ahead.time.monotonic()
    monkeypatch.setattr(ahead.time, "monotonic", lambda: now + 1.5)
    assert waiting.release(np.zeros(1)).tolist() == [3.0]


def test_drawing_again_keeps_what_is_in_waiting_while_it_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, mechanism = drawn(1.0)
    script(mechanism, 2.0)
    waiting.draw()
    assert mechanism.releases == 1, "a learner that asks again and again does not make an owner draw"
    now = ahead.time.monotonic()
    monkeypatch.setattr(ahead.time, "monotonic", lambda: now + 1.5)
    waiting.draw()
    assert waiting.release(np.zeros(1)).tolist() == [2.0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_draws_its_own() -> None:
    waiting = DrawnAhead(LaplaceAnswer(0.01, Fraction(1, 3), 4), 1.0)
    waiting.draw()
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=lambda: there.send(waiting.release(np.zeros(4))))
    child.start()
    theirs = here.recv()
    child.join()
    assert not np.array_equal(theirs, waiting.release(np.zeros(4)))


def test_nothing_is_drawn_ahead_where_the_clamp_would_show() -> None:
    for sensitivity, epsilon, largest in ((0.01, Fraction(1, 10**4), 1.0), (0.01, Fraction(1), 4096.0)):
        waiting = DrawnAhead(LaplaceAnswer(sensitivity, epsilon, 2), largest)
        waiting.draw()
        far = np.array([5000.0, -5000.0])
        assert np.abs(waiting.release(far) - far).max() < 50 * waiting.scale + 1e-9


def test_the_noise_of_answers_is_the_mechanism_s() -> None:
    # 4,500 draws of OpenDP's, which cannot be seeded: a right one fails with a probability of 1e-8 for each p-value.
    waiting = DrawnAhead(LaplaceAnswer(0.01, Fraction(1, 3), 3), 1.0)
    value = np.array([0.1234567, -0.5, 0.0])
    noise = np.empty((1500, 3))
    for row in noise:
        waiting.draw()
        row[:] = waiting.release(value) - value
    verdict = scale_test(noise, waiting.scale)
    assert verdict, verdict.detail
