"""Noise that owners share in a sum: its law, its grid, and what remains of it where others work together."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare, nbinom

from agreement.test_sums import summed
from copriv.errors import InvalidInput
from copriv.privacy import shared_noise
from copriv.privacy.noise import Law
from copriv.privacy.shared_noise import Part, SharedNoise, polya_difference

RARE = 1e-9
"""A right version fails a test of a law with this probability."""


def negative_binomial(r: float, q: float, length: int) -> np.ndarray:
    return np.asarray(nbinom.pmf(np.arange(length), r, 1.0 - q))


def difference(r: float, s: float, most: int) -> np.ndarray:
    """P(z), −most ≤ z ≤ most, of NB(r, e^(−1/s)) − NB(r, e^(−1/s)), by brute force."""
    one = negative_binomial(r, math.exp(-1.0 / s), 4 * most + 40 * math.ceil(s))
    return np.array([one[abs(z) :] @ one[: len(one) - abs(z)] for z in range(-most, most + 1)])


def sum_of_shares(owners: int, **given: object) -> SharedNoise:
    terms = {"law": Law.LAPLACE, "colluding": 1, "length": 2, "bound": 1.0} | given
    part = Part(Fraction(1, owners), 2.0 / 100, Fraction(3, 2), terms.pop("floor", None))
    return SharedNoise(parts=(part,) * owners, **terms)  # type: ignore[arg-type]


@pytest.mark.parametrize(("r", "s"), [(1 / 3, 6.0), (0.5, 9.5), (1.0, 4.0)])
def test_a_halved_rate_adds_a_compound_of_geometric_numbers(r: float, s: float) -> None:
    """The identity by which numbers are drawn, on their laws: NB(r, √q) = NB(r, q) + Σ_(j ≤ J) (1 + G)."""
    q, length = math.exp(-1.0 / s), 60
    a = math.sqrt(q) / (1.0 + math.sqrt(q))
    pieces = np.concatenate([[0.0], (1.0 - q) * q ** np.arange(length - 1)])
    power, compound = np.eye(1, length)[0], np.zeros(length)
    for k in range(length):
        compound += nbinom.pmf(k, r, 1.0 - a) * power
        power = np.convolve(power, pieces)[:length]
    whole = np.convolve(negative_binomial(r, q, length), compound)[:length]
    np.testing.assert_allclose(whole, negative_binomial(r, math.sqrt(q), length), rtol=1e-10)


@pytest.mark.parametrize(("n", "s"), [(1, 1), (1, 5), (2, 6), (3, 2)])
def test_shares_add_up_to_discrete_laplace_noise(n: int, s: int) -> None:
    drawn = np.array([sum(polya_difference(Fraction(1, n), s) for _ in range(n)) for _ in range(4000)])
    most = 3 * s
    law = np.exp(-np.abs(np.arange(-most, most + 1)) / s) * math.tanh(0.5 / s)
    inside = np.bincount(drawn[np.abs(drawn) <= most] + most, minlength=2 * most + 1)
    expected = np.append(law, 1.0 - law.sum()) * len(drawn)
    assert chisquare(np.append(inside, len(drawn) - inside.sum()), expected).pvalue > RARE


def test_a_share_has_its_own_law() -> None:
    drawn, most = np.array([polya_difference(Fraction(1, 4), 7) for _ in range(6000)]), 12
    law = difference(0.25, 7.0, most)
    inside = np.bincount(drawn[np.abs(drawn) <= most] + most, minlength=2 * most + 1)
    expected = np.append(law, 1.0 - law.sum()) * len(drawn)
    assert chisquare(np.append(inside, len(drawn) - inside.sum()), expected).pvalue > RARE


def silent(noise: SharedNoise, monkeypatch: pytest.MonkeyPatch) -> SharedNoise:
    monkeypatch.setattr(SharedNoise, "_draws", lambda self, shape, scale: [0] * self.length)
    return noise


def test_without_noise_the_sum_is_the_mean_to_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = silent(sum_of_shares(4, length=3), monkeypatch)
    answers = np.random.default_rng(0).uniform(-0.3, 0.3, (4, 3))
    words = np.zeros(3, dtype=np.uint64)
    for i, answer in enumerate(answers):
        words += noise.share(i, answer)
    assert words.dtype == np.uint64
    np.testing.assert_allclose(noise.vector(words), answers.mean(axis=0), rtol=0, atol=2.0 * 2.0**noise.exponent)


def test_a_unit_replaced_moves_the_rounded_answer_no_further_than_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a grid so coarse that rounding is most of it: left out, the noise would be too small."""
    monkeypatch.setattr(shared_noise, "CELLS", 1.0)
    monkeypatch.setattr(shared_noise, "FINE", 0.25)
    rng, furthest = np.random.default_rng(1), {Law.LAPLACE: 0.0, Law.NORMAL: 0.0}
    for law, order in ((Law.LAPLACE, 1), (Law.NORMAL, 2)):
        noise = silent(sum_of_shares(4, length=8, law=law), monkeypatch)
        part = noise.parts[0]
        for _ in range(2000):
            one, move = rng.uniform(-0.01, 0.01, 8), rng.laplace(size=8)
            other = one + move * part.sensitivity / np.linalg.norm(move, order)
            apart = noise.share(0, one).view(np.int64) - noise.share(0, other).view(np.int64)
            furthest[law] = max(furthest[law], float(np.linalg.norm(apart, order)))
        assert furthest[law] <= noise._moves(part)
        assert furthest[law] > part.moves / 2.0**noise.exponent, "rounding is seen"
        assert noise.scale >= float(part.multiplier) * furthest[law]


@pytest.mark.parametrize("law", [Law.LAPLACE, Law.NORMAL])
def test_the_noise_of_a_sum_is_what_its_strictest_owner_needs(law: Law) -> None:
    parts = [Part(Fraction(1, 4), 0.01, Fraction(m), None) for m in (1, 5, 2, 2)]
    noise = SharedNoise(law, parts, 1, 10, 1.0)
    needed = max(float(part.multiplier * part.weight) * part.sensitivity for part in parts)
    assert needed <= noise.scale * 2.0**noise.exponent <= 1.002 * needed
    assert noise.shape == Fraction(1, 3)


def test_a_normal_share_has_its_part_of_the_variance() -> None:
    noise = sum_of_shares(5, law=Law.NORMAL, length=4000, colluding=2)
    drawn = np.array(noise._draws(noise.shape, noise.scale)) / noise.scale
    assert abs(drawn.var() * 3.0 - 1.0) < 6.0 * math.sqrt(2.0 / 4000)


@pytest.mark.parametrize(("owners", "t", "length", "scale"), [(3, 1, 1, 8.0), (6, 1, 2, 4.0), (12, 4, 1, 16.0)])
def test_what_remains_of_one_share_is_a_bound_and_not_far_off(
    owners: int, t: int, length: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_noise, "CELLS", scale)
    monkeypatch.setattr(shared_noise, "FINE", 1.0)
    noise = sum_of_shares(owners, colluding=t, length=length)
    D = int(noise._moves(noise.parts[0]))
    law = np.log(difference(float(noise.shape), noise.scale, 4 * D))
    each = -(-D // length)
    seen = max(float((law[: len(law) - d] - law[d:]).max()) for d in range(1, each + 1))
    assert seen == pytest.approx(float(law[4 * D] - law[4 * D + each])), "seen best at 0"
    assert length * seen <= noise.alone(0) <= 1.3 * length * seen + 1.0


def test_a_floor_is_all_of_the_noise_that_an_owner_needs_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Fraction, float]] = []

    def draws(self: SharedNoise, shape: Fraction, scale: float) -> list[int]:
        asked.append((shape, scale))
        return [0] * self.length

    monkeypatch.setattr(SharedNoise, "_draws", draws)
    noise = sum_of_shares(5, floor=Fraction(1, 2))
    noise.share(0, np.zeros(2))
    (shared, s), (own, floor) = asked
    assert (shared, own) == (Fraction(1, 4), 1)
    assert s == noise.scale
    assert 0.5 * noise._moves(noise.parts[0]) <= floor < noise.scale
    assert noise.alone(0) == 2.0


def test_a_sum_that_might_not_fit_is_refused_before_anything_is_drawn() -> None:
    part = Part(Fraction(1, 3), 1e-12, Fraction(1), None)
    with pytest.raises(InvalidInput, match="more than 64 bits"):
        SharedNoise(Law.LAPLACE, (part,) * 3, 1, 1, 1e4)


def test_every_mechanism_of_many_answers_says_what_its_owners_share() -> None:
    for given in (
        {},
        {"mechanism": "gaussian", "owner": {"delta": 1e-6}},
        {"mechanism": "laplace-composed", "owner": {"delta": 1e-6}},
    ):
        agreement = summed(6, colluding=2, **given)
        noise = agreement.mechanism.in_sum(agreement, agreement.members[0], 4)
        alone = float(agreement.scales_alone()[0]) / 6
        assert noise.scale * 2.0**noise.exponent == pytest.approx(alone, rel=1e-3)
        assert noise.scale * 2.0**noise.exponent >= alone * (1 - 1e-12)
