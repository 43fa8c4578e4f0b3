"""Owners that are wrong in one way each, and the check that must see it. The right owner passes every check.

A mutation is a function that patches the package's own code and the names of the checks that must fail; add one by
writing those few lines. A check that no mutation needs, or a mutation that no check sees, fails this file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import copriv.owner
from copriv.errors import QueryRefused
from copriv.losses import Loss
from copriv.mechanisms import gradients, mechanism
from copriv.model.records import Records
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.privacy.laplace import DrawnAhead, LaplaceAnswer
from copriv.privacy.ledger import MemoryLedger
from copriv.types import Array
from statistical.owner_battery import CHECKS, failing

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutation:
    make: Callable[[Patch], None]
    seen_by: tuple[str, ...]
    ahead: bool


MUTATIONS: dict[str, Mutation] = {}


def mutation(*seen_by: str, ahead: bool = False) -> Callable[[Callable[[Patch], None]], None]:
    """Register a mutation under its own name, with the checks that must fail on it (with noise that is drawn ahead)."""

    def register(make: Callable[[Patch], None]) -> None:
        MUTATIONS[make.__name__.replace("_", " ")] = Mutation(make, seen_by, ahead)

    return register


def _noise_of(mechanism: LaplaceAnswer) -> Array:
    return _release(mechanism, np.zeros(mechanism.length))


_release = LaplaceAnswer.release


# Noise


@mutation("scale", "epsilon, spread")
def half_the_noise(patch: Patch) -> None:
    patch.setattr(LaplaceAnswer, "release", lambda self, value: value + _noise_of(self) / 2)


@mutation("scale")
def noise_a_fifth_too_small(patch: Patch) -> None:
    patch.setattr(LaplaceAnswer, "release", lambda self, value: value + _noise_of(self) * 0.8)


@mutation("scale")
def a_fifth_too_much_noise(patch: Patch) -> None:
    patch.setattr(LaplaceAnswer, "release", lambda self, value: value + _noise_of(self) * 1.2)


@mutation("scale")
def normal_noise_of_the_same_size(patch: Patch) -> None:
    def release(self: LaplaceAnswer, value: Array) -> Array:
        # E|w| = σ√(2/π), so the mean size is the Laplace one: only the shape tells.
        return value + np.random.default_rng().normal(size=self.length) * self.scale * np.sqrt(np.pi / 2)

    patch.setattr(LaplaceAnswer, "release", release)


@mutation("scale")
def noise_proportional_to_the_gradient(patch: Patch) -> None:
    def release(self: LaplaceAnswer, value: Array) -> Array:
        return value + _noise_of(self) * np.abs(value).sum() / (2 * self.sensitivity)

    patch.setattr(LaplaceAnswer, "release", release)


@mutation("coordinates", "epsilon, one coordinate")
def the_same_draw_for_all_coordinates(patch: Patch) -> None:
    patch.setattr(LaplaceAnswer, "release", lambda self, value: value + _noise_of(self)[0])


@mutation("coordinates")
def the_same_size_of_noise_with_random_signs(patch: Patch) -> None:
    def release(self: LaplaceAnswer, value: Array) -> Array:
        return value + np.abs(_noise_of(self)[0]) * np.sign(_noise_of(self))

    patch.setattr(LaplaceAnswer, "release", release)


@mutation("answers")
def a_reused_draw(patch: Patch) -> None:
    def release(self: LaplaceAnswer, value: Array) -> Array:
        if "used" not in self.__dict__ or self.__dict__["left"] == 0:
            self.__dict__.update(used=_noise_of(self), left=2)
        self.__dict__["left"] -= 1
        return value + self.__dict__["used"]

    patch.setattr(LaplaceAnswer, "release", release)


@mutation("answers")
def a_reused_draw_with_the_sign_turned(patch: Patch) -> None:
    def release(self: LaplaceAnswer, value: Array) -> Array:
        last = self.__dict__.pop("last", None)
        noise = _noise_of(self) if last is None else -last
        if last is None:
            self.__dict__["last"] = noise
        return value + noise

    patch.setattr(LaplaceAnswer, "release", release)


@mutation("answers")
def noise_drawn_once_for_the_whole_run(patch: Patch) -> None:
    patch.setattr(
        LaplaceAnswer, "release", lambda self, value: value + self.__dict__.setdefault("once", _noise_of(self))
    )


@mutation("answers")
def noise_that_follows_from_the_query(patch: Patch) -> None:
    def release(self: LaplaceAnswer, value: Array) -> Array:
        rng = np.random.default_rng(np.frombuffer(value.tobytes(), dtype=np.uint32))
        return value + rng.laplace(size=self.length, scale=self.scale)

    patch.setattr(LaplaceAnswer, "release", release)


@mutation("answers")
def noise_with_a_seed(patch: Patch) -> None:
    def release(self: LaplaceAnswer, value: Array) -> Array:
        rng = self.__dict__.setdefault("rng", np.random.default_rng(0))  # every restarted owner draws the same again
        return value + rng.laplace(size=self.length, scale=self.scale)

    patch.setattr(LaplaceAnswer, "release", release)


@mutation("answers", ahead=True)
def noise_drawn_ahead_that_serves_two_answers(patch: Patch) -> None:
    release = DrawnAhead.release

    def release_and_keep(self: DrawnAhead, value: Array) -> Array:
        kept = list(self._waiting)
        answer = release(self, value)
        if kept and not self.__dict__.pop("kept", False):
            self._waiting[:], self.__dict__["kept"] = kept, True
        return answer

    patch.setattr(DrawnAhead, "release", release_and_keep)


@mutation("scale", ahead=True)
def noise_drawn_ahead_on_top_of_a_fresh_one(patch: Patch) -> None:
    release = DrawnAhead.release
    patch.setattr(DrawnAhead, "release", lambda self, value: release(self, self._mechanism.release(value)))


# What leaves is bounded


def _patch_mean(patch: Patch, mean: Callable[[Loss, Records, Array, float], Array]) -> None:
    # Owners pass the order of the norm, which these wrong versions do not heed.
    patch.setattr(
        gradients, "clipped_mean_gradient", lambda loss, r, theta, bound, order=1: mean(loss, r, theta, bound)
    )


@mutation("sensitivity, records", "sensitivity, persons")
def an_L2_bound_in_place_of_L1(patch: Patch) -> None:
    def mean(loss: Loss, records: Records, theta: Array, bound: float) -> Array:
        rows = loss.gradients(theta, records.features, records.target)
        rows = rows * np.minimum(1, bound / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None]
        return records.weight @ rows / records.weight.sum()

    _patch_mean(patch, mean)


@mutation("sensitivity, records")
def each_coordinate_clipped_by_itself(patch: Patch) -> None:
    def mean(loss: Loss, records: Records, theta: Array, bound: float) -> Array:
        rows = np.nan_to_num(loss.gradients(theta, records.features, records.target))
        return records.weight @ np.clip(rows, -bound, bound) / records.weight.sum()

    _patch_mean(patch, mean)


@mutation("sensitivity, records", "scale")
def no_clipping(patch: Patch) -> None:
    _patch_mean(patch, lambda loss, records, theta, bound: clipped_mean_gradient(loss, records, theta, 1e9 * bound))


@mutation("sensitivity, records", "scale")
def the_mean_clipped_in_place_of_its_records(patch: Patch) -> None:
    def mean(loss: Loss, records: Records, theta: Array, bound: float) -> Array:
        whole = records.weight @ loss.gradients(theta, records.features, records.target) / records.weight.sum()
        return whole * min(1.0, bound / max(np.abs(whole).sum(), 1e-300))

    _patch_mean(patch, mean)


@mutation("sensitivity, records")
def a_record_that_is_not_a_number_makes_all_of_it_so(patch: Patch) -> None:
    def mean(loss: Loss, records: Records, theta: Array, bound: float) -> Array:
        rows = loss.gradients(theta, records.features, records.target)
        rows = rows * np.minimum(1, bound / np.maximum(np.abs(rows).sum(axis=1), 1e-300))[:, None]
        return records.weight @ rows / records.weight.sum()

    _patch_mean(patch, mean)


@mutation("sensitivity, persons")
def a_person_with_five_rows_counts_five_times(patch: Patch) -> None:
    def mean(loss: Loss, records: Records, theta: Array, bound: float) -> Array:
        alike = Records(records.features, records.target, np.ones(len(records)))
        return clipped_mean_gradient(loss, alike, theta, bound) * len(records) / records.units

    _patch_mean(patch, mean)


@mutation("sensitivity, persons")
def a_mean_over_rows_in_place_of_persons(patch: Patch) -> None:
    def mean(loss: Loss, records: Records, theta: Array, bound: float) -> Array:
        return clipped_mean_gradient(
            loss, Records(records.features, records.target, np.ones(len(records))), theta, bound
        )

    _patch_mean(patch, mean)


# What is spent


@mutation("cap")
def m_plus_1_answers(patch: Patch) -> None:
    class Lenient(MemoryLedger):
        """Forgets its first answer, by which the owner goes; the ledger's own cap is one higher."""

        @property
        def answers(self) -> int:
            return max(super().answers - 1, 0)

    patch.setattr(copriv.owner, "MemoryLedger", lambda owner, ε, m, δ=Fraction(0): Lenient(owner, 2 * ε, m + 1, δ))


@mutation("cap")
def nothing_is_charged(patch: Patch) -> None:
    patch.setattr(MemoryLedger, "charge", lambda self, identity, theta, epsilon, delta: None)
    patch.setattr(MemoryLedger, "record", lambda self, identity, gradient: None)


@mutation("scale", "cap")
def overlap_ignored(patch: Patch) -> None:
    patch.setattr(
        mechanism, "epsilon_per_answer", lambda epsilon, answers, overlap: Fraction(epsilon) / Fraction(answers)
    )


@mutation("scale")
def the_whole_budget_for_each_answer(patch: Patch) -> None:
    patch.setattr(mechanism, "epsilon_per_answer", lambda epsilon, answers, overlap: Fraction(epsilon))
    patch.setattr(
        copriv.owner,
        "MemoryLedger",
        lambda owner, epsilon, answers, delta: MemoryLedger(owner, answers * epsilon, answers),
    )


@mutation("scale")
def sensitivity_of_a_record_added_not_replaced(patch: Patch) -> None:
    patch.setattr(gradients, "mean_sensitivity", lambda bound, units: bound / units)


@mutation("order")
def charged_after_the_release(patch: Patch) -> None:
    charge, record = MemoryLedger.charge, MemoryLedger.record

    def charge_then_record(self: MemoryLedger, identity: str, gradient: Array) -> None:
        charge(self, *self.__dict__.pop("later"))
        record(self, identity, gradient)

    patch.setattr(MemoryLedger, "charge", lambda self, *what: self.__dict__.update(later=what))
    patch.setattr(MemoryLedger, "record", charge_then_record)


@mutation("replay")
def fresh_noise_when_asked_again(patch: Patch) -> None:
    original = MemoryLedger.charge

    def charge(self: MemoryLedger, identity: str, theta: Array, epsilon: Fraction, delta: Fraction) -> None:
        try:
            original(self, identity, theta, epsilon, delta)
        except QueryRefused:
            self._answers.pop(identity, None)

    patch.setattr(MemoryLedger, "released", lambda self, identity, theta: None)
    patch.setattr(MemoryLedger, "charge", charge)


@pytest.mark.parametrize("check", CHECKS)
def test_the_right_owner_passes(check: str) -> None:
    assert failing((check,)) == {}


@pytest.mark.parametrize("check", ["scale", "coordinates", "answers", "epsilon, one coordinate", "epsilon, spread"])
def test_the_right_owner_passes_with_noise_that_is_drawn_ahead(check: str) -> None:
    assert failing((check,), ahead=True) == {}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_owner_is_seen(name: str, monkeypatch: Patch) -> None:
    wrong = MUTATIONS[name]
    wrong.make(monkeypatch)
    assert set(failing(wrong.seen_by, wrong.ahead)) == set(wrong.seen_by)


def test_every_check_is_needed() -> None:
    assert {check for wrong in MUTATIONS.values() for check in wrong.seen_by} == set(CHECKS)
