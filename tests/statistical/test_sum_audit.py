"""Empirical lower bounds on ε from sums of real shares, of which t owners know their own; wrong versions exceed their claim.

The two neighbours differ by the rounded answer of one owner, which is known, so one set of noise serves both: each confidence
limit holds by itself. A bound exceeds the true ε with probability 4·ALPHA at most.
"""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from copriv.privacy import shared_noise
from copriv.privacy.noise import Law
from copriv.privacy.shared_noise import Part, SharedNoise
from copriv.types import Array
from statistical.privacy_audit import epsilon_lower_bound

ALPHA = 1e-8
EPSILON, FLOOR = 2.0, 3.0


@pytest.fixture(autouse=True)
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scale of hundreds of cells, which is drawn in half the time of millions; rounding is half a hundredth of it."""
    monkeypatch.setattr(shared_noise, "CELLS", 2.0**8)
    monkeypatch.setattr(shared_noise, "FINE", 2.0**6)


def sum_of(
    owners: int,
    colluding: int,
    floor: float | None = None,
    law: Law = Law.LAPLACE,
    dropouts: int = 0,
    epsilon: float = EPSILON,
) -> SharedNoise:
    floors = None if floor is None else Fraction(1 / floor)
    part = Part(Fraction(1, owners), 0.02, Fraction(1 / epsilon), floors)
    return SharedNoise(law, (part,) * owners, colluding, 1, 1.0, dropouts=dropouts)


def seen(noise: SharedNoise, honest: int, draws: int, monkeypatch: pytest.MonkeyPatch, answer_at: float = 0.3) -> float:
    """Lower bound on ε from sums of which all but `honest` owners' parts are known, the first of whom has two neighbours."""
    one, other = np.array([answer_at]), np.array([answer_at + noise.parts[0].sensitivity])

    def cells(owner: int, answer: Array) -> int:
        given = int(noise.share(owner, answer)[0])
        return given - noise.modulus * (given > noise.modulus // 2)

    sums = np.array([sum(cells(i, one) for i in range(honest)) for _ in range(draws)])
    with monkeypatch.context() as silent:
        silent.setattr(SharedNoise, "_draws", lambda *_: [0])
        here, there = (cells(0, answer) for answer in (one, other))
    sums = sums - honest * here
    best = []
    for score in (lambda z: z, lambda z: -np.abs(z)):  # by the side, and by the peak
        pair: list[Array] = [score(sums.astype(np.float64)), score((sums + there - here).astype(np.float64))]
        chosen = draws // 5
        train, test = ((pair[0][part], pair[1][part]) for part in (slice(chosen), slice(chosen, None)))
        best.append(epsilon_lower_bound(train, test, ALPHA))
    return max(best)


@pytest.mark.slow
@pytest.mark.parametrize(("owners", "dropouts"), [(4, 0), (5, 1)])
def test_a_sum_spends_its_epsilon_and_the_audit_sees_it(
    owners: int, dropouts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two owners collude, and one of five is missing: the others are two."""
    noise = sum_of(owners, 2, dropouts=dropouts)
    assert 0.85 * EPSILON < seen(noise, 2, 60_000, monkeypatch) <= EPSILON


@pytest.mark.slow
def test_a_floor_keeps_its_epsilon_where_all_others_collude(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.3 * FLOOR < seen(sum_of(10, 1, FLOOR), 1, 4_000, monkeypatch) <= FLOOR


def share_too_small(monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """As if all N owners were honest."""
    monkeypatch.setattr(SharedNoise, "shape", property(lambda self: Fraction(1, len(self.parts))))
    return seen(sum_of(4, 2), 2, 8_000, monkeypatch), EPSILON


def missing_owners_forgotten(monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """As if all that do not collude were there: shares of 1/(N − t)."""
    return seen(sum_of(6, 2), 2, 8_000, monkeypatch), EPSILON


def floor_left_out(monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    return seen(sum_of(10, 1), 1, 6_000, monkeypatch), FLOOR


def rounding_left_out(monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """On a grid of which a unit replaced moves the answer by a third of a cell, and the rounded one by a whole cell."""
    claimed = 0.25
    monkeypatch.setattr(shared_noise, "CELLS", 1.0)
    monkeypatch.setattr(shared_noise, "FINE", 2.0**-2)
    monkeypatch.setattr(
        SharedNoise,
        "_scale",
        lambda self, multiplier, part: math.ceil(float(multiplier) * part.moves / 2.0**self.exponent),
    )
    noise = sum_of(4, 2, epsilon=claimed)
    just_below = 5.4 * 2.0**noise.exponent / float(noise.parts[0].weight)  # of the edge at 5.5 cells
    return seen(noise, 2, 12_000, monkeypatch, just_below), claimed


def same_seed_twice(monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """The difference of two sums is then that of two answers: nothing is left of the noise."""
    noise, answer, words = sum_of(4, 1), np.zeros(1), []
    assert any(noise.share(0, answer) != noise.share(0, answer) for _ in range(40)), "it is fresh each time"
    for _ in range(2):
        monkeypatch.setattr(shared_noise, "randbelow", random.Random(1).randrange)
        words.append([int(noise.share(0, answer)[0]) for _ in range(40)])
    return np.inf if words[0] == words[1] else 0.0, EPSILON


@pytest.mark.parametrize(
    "wrong", [share_too_small, missing_owners_forgotten, rounding_left_out, floor_left_out, same_seed_twice]
)
def test_wrong_sums_are_caught(wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    found, claimed = wrong(monkeypatch)  # type: ignore[operator]
    assert found > claimed
