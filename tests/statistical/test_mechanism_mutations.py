"""Every mechanism's owner passes its checks, and owners that are wrong in one way each do not.

The default mechanism has many more wrong versions in `test_privacy_mutations.py`. A mutation that no check sees, or a
mechanism with fewer than four, fails this file. By chance it fails less than once in a million times.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import copriv.mechanisms as mechanisms
import copriv.owner
import copriv.privacy.approximate as approximate
from copriv.mechanisms import gradients, mechanism, moments, objective_noise, objective_solver, pilot, statistics
from copriv.mechanisms.histograms import BINS as BINS_OF_COLUMNS
from copriv.mechanisms.histograms import ColumnHistograms
from copriv.mechanisms.lengths import BINS, Histograms
from copriv.mechanisms.moments import BoundedMoments, MomentsAnswer, MomentsInL2
from copriv.mechanisms.objective_noise import ObjectiveAnswer, Perturbation
from copriv.mechanisms.pilot import PilotNumbers
from copriv.mechanisms.statistics import Moments, StatisticsAnswer
from copriv.model.records import Records
from copriv.privacy.approximate import GaussianAnswer
from copriv.privacy.clipping import clip_rows, clipped_mean_gradient
from copriv.privacy.laplace import LaplaceAnswer
from copriv.privacy.ledger import MemoryLedger
from statistical.mechanism_battery import CHECKS, checks_of
from statistical.mechanism_cases import CASES

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
pytest.importorskip("dp_accounting")
Patch = pytest.MonkeyPatch
COMPOSED = ("gaussian", "laplace-composed")
MANY = ("laplace", *COMPOSED)
LENGTHS = ("lengths", "lengths of targets")
ONCE = ("statistics", "moments", *LENGTHS, "histograms", "objective", "objective with delta", "pilot")
EVERY = (*MANY, *ONCE)


@dataclass(frozen=True)
class Mutation:
    make: Callable[[Patch], None]
    of: tuple[str, ...]
    seen_by: str


MUTATIONS: dict[str, Mutation] = {}


def mutation(of: tuple[str, ...], seen_by: str) -> Callable[[Callable[[Patch], None]], None]:
    """Register a wrong version under its own name: of which mechanisms, and which check must fail on it."""

    def register(make: Callable[[Patch], None]) -> None:
        MUTATIONS[make.__name__.replace("_", " ")] = Mutation(make, of, seen_by)

    return register


_released = {kind: kind.release for kind in (LaplaceAnswer, GaussianAnswer)}


def _noise_times(patch: Patch, factor: float) -> None:
    for kind, release in _released.items():
        patch.setattr(
            kind, "release",
            lambda self, value, release=release: value + factor * release(self, np.zeros(self.length)),
        )  # fmt: skip


# Noise


@mutation(EVERY, "noise")
def half_the_noise(patch: Patch) -> None:
    _noise_times(patch, 0.5)


@mutation(("gaussian",), "epsilon")
def a_third_of_the_noise_by_whole_transcripts(patch: Patch) -> None:
    _noise_times(patch, 1 / 3)


@mutation(EVERY, "fresh")
def a_seed_that_is_the_same_after_a_restart(patch: Patch) -> None:
    def release(self, value):
        rng = self.__dict__.setdefault("rng", np.random.default_rng(0))
        return value + np.rint(rng.laplace(size=self.length, scale=self.scale) * 2.0**40) / 2.0**40

    for kind in _released:
        patch.setattr(kind, "release", release)


@mutation(EVERY, "grid")
def noise_of_floating_point(patch: Patch) -> None:
    """Its low-order bits give away what it was added to."""
    for kind in _released:
        patch.setattr(
            kind, "release", lambda self, value: value + np.random.default_rng().normal(size=self.length) * self.scale
        )


@mutation(("objective", "objective with delta"), "grid")
def a_model_without_the_noise_that_hides_the_solver(patch: Patch) -> None:
    def answer(self, loss, records, theta):
        return self._tilted.prepared(records).minimum(self._tilt.release(np.zeros(len(theta))))

    patch.setattr(ObjectiveAnswer, "answer", answer)


# Scale: sensitivity, composition, shares


@mutation(MANY, "noise")
def sensitivity_of_a_record_added_not_replaced(patch: Patch) -> None:
    patch.setattr(gradients, "mean_sensitivity", lambda bound, units: bound / units)


@mutation(("statistics", "pilot", *LENGTHS, "histograms"), "noise")
def statistics_of_a_record_added_not_replaced(patch: Patch) -> None:
    patch.setattr(
        StatisticsAnswer,
        "_noise",
        property(lambda self: LaplaceAnswer(1.0 / self.units, self.epsilon, len(self.moments.unit))),
    )


@mutation(("pilot",), "noise")
def each_part_of_a_pilot_has_the_whole_budget(patch: Patch) -> None:
    patch.setattr(PilotNumbers, "unit", property(lambda self: np.array([self.bound] * 2 + [1.0] * 14)))


@mutation(("objective", "objective with delta"), "noise")
def a_tilt_for_a_record_added_not_replaced(patch: Patch) -> None:
    right = Perturbation.noise_scale
    patch.setattr(
        Perturbation, "noise_scale", lambda self, n, ε, δ=0.0: right(replace(self, bound=self.bound / 2), n, ε, δ)
    )
    patch.setattr(
        ObjectiveAnswer, "_tilt",
        property(lambda self: _tilt_of_scale(self, self.agreed.noise_scale(self.units, float(self.epsilon), self.delta))),
    )  # fmt: skip


def _tilt_of_scale(answer: ObjectiveAnswer, scale: float):
    p = len(answer.agreed.start)
    return GaussianAnswer(scale, 1.0, p) if answer.delta else LaplaceAnswer(scale, Fraction(1), p)


@mutation(COMPOSED, "noise")
def composition_counts_one_answer_less(patch: Patch) -> None:
    for name in ("gaussian_multiplier", "laplace_multiplier"):
        right = getattr(approximate, name)
        patch.setattr(approximate, name, lambda m, ε, δ, right=right: right(m - 1, ε, δ))


@mutation(("laplace",), "noise")
def shares_of_one_answer_less(patch: Patch) -> None:
    right = mechanism.epsilon_per_answer
    patch.setattr(mechanism, "epsilon_per_answer", lambda ε, m, κ=1: right(ε, m - 1, κ))
    patch.setattr(copriv.owner, "MemoryLedger", lambda owner, ε, m, δ: MemoryLedger(owner, 2 * ε, m, δ))


@mutation(COMPOSED, "noise")
def overlap_not_counted_in_the_noise(patch: Patch) -> None:
    for name in ("gaussian_multiplier", "laplace_multiplier"):
        right = getattr(approximate, name)
        patch.setattr(approximate, name, lambda m, ε, δ, right=right: right(m, 2 * ε, 2 * δ))


@mutation(("objective",), "noise")
def the_curvature_is_not_paid_for(patch: Patch) -> None:
    patch.setattr(Perturbation, "curvature_cost", lambda self, n, ε: 0.0)


@mutation(("objective with delta",), "noise")
def delta_a_hundred_times_as_large(patch: Patch) -> None:
    right = objective_noise.objective_deviation
    patch.setattr(objective_noise, "LARGEST_DELTA", 1.0)
    patch.setattr(objective_noise, "objective_deviation", lambda Δ, ε, δ, many: right(Δ, ε, min(30 * δ, 0.9), many))


@mutation(("statistics",), "noise")
def the_budget_split_without_the_share(patch: Patch) -> None:
    """Gradient and moments each get the noise of the whole budget."""
    right = Moments.unit.func
    patch.setattr(Moments, "unit", property(lambda self: right(self) * np.array([0.6, 0.6, 0.4, 0.4, 0.4])))


# What leaves is bounded


def _means(patch: Patch, mean) -> None:
    for module in (gradients, statistics):
        patch.setattr(module, "clipped_mean_gradient", mean)


@mutation((*MANY, "statistics"), "sensitivity")
def clipping_forgotten(patch: Patch) -> None:
    _means(patch, lambda loss, r, θ, bound, order=1: clipped_mean_gradient(loss, r, θ, 1e9 * bound, order))


@mutation(("laplace", "laplace-composed", "statistics"), "sensitivity")
def clipped_in_L2_where_the_proof_has_L1(patch: Patch) -> None:
    _means(patch, lambda loss, r, θ, bound, order=1: clipped_mean_gradient(loss, r, θ, bound, 2))


@mutation(("gaussian",), "sensitivity")
def each_coordinate_clipped_by_itself(patch: Patch) -> None:
    def mean(loss, records, theta, bound, order=1):
        rows = np.nan_to_num(loss.gradients(theta, records.features, records.target))
        return records.weight @ np.clip(rows, -bound, bound) / records.weight.sum()

    _means(patch, mean)


@mutation((*MANY, "statistics"), "sensitivity, persons")
def rows_count_where_persons_should(patch: Patch) -> None:
    def mean(loss, records, theta, bound, order=1):
        alike = Records(records.features, records.target, np.ones(len(records)))
        return clipped_mean_gradient(loss, alike, theta, bound, order) * len(records) / records.units

    _means(patch, mean)


@mutation(("statistics",), "sensitivity")
def moments_of_rows_of_any_length(patch: Patch) -> None:
    right = statistics.mean_moments
    patch.setattr(statistics, "mean_moments", lambda records, bound, intercept: right(records, 1e9, intercept))


@mutation(("objective", "objective with delta"), "minimum")
def slopes_not_clipped(patch: Patch) -> None:
    right = objective_solver.Tilted.prepared
    patch.setattr(
        objective_solver.Tilted, "prepared", lambda self, r: replace(right(self, r), limit=np.full(len(r), np.inf))
    )


@mutation(("objective", "objective with delta"), "minimum")
def long_records_count_in_full(patch: Patch) -> None:
    patch.setattr(objective_solver, "counted_for", lambda lengths, bound: np.ones_like(lengths))


@mutation(("pilot",), "sensitivity")
def gradients_of_a_pilot_not_clipped(patch: Patch) -> None:
    patch.setattr(pilot, "clip_rows", lambda rows, bound: np.clip(np.nan_to_num(rows), -1e9, 1e9))


@mutation(("pilot",), "sensitivity")
def gradients_of_a_pilot_clipped_in_L2(patch: Patch) -> None:
    patch.setattr(pilot, "clip_rows", lambda rows, bound: clip_rows(rows, bound, 2))


@mutation(("pilot",), "sensitivity")
def a_record_in_every_bin_below_its_length(patch: Patch) -> None:
    patch.setattr(pilot, "_ones", lambda lengths: (lengths[:, None] >= np.array([0.0, *pilot.EDGES])).astype(float))


@mutation(("pilot",), "sensitivity, persons")
def rows_count_where_persons_should_in_a_pilot(patch: Patch) -> None:
    right = PilotNumbers._sum
    patch.setattr(
        PilotNumbers, "_sum",
        lambda self, loss, r, θ: right(self, loss, Records(r.features, r.target, np.ones(len(r))), θ),
    )  # fmt: skip


@mutation(("moments",), "noise")
def moments_of_a_record_added_not_replaced(patch: Patch) -> None:
    patch.setattr(
        MomentsAnswer, "_noise",
        property(lambda self: GaussianAnswer(1.0 / self.units, self.multiplier, len(self.moments.unit))),
    )  # fmt: skip


@mutation(("moments",), "noise")
def second_moments_weigh_as_much_as_the_gradient(patch: Patch) -> None:
    patch.setattr(moments, "WEIGHT", 1.0)


@mutation(("moments",), "noise")
def overlap_not_counted_in_the_moments(patch: Patch) -> None:
    right = MomentsInL2.multiplier
    patch.setattr(MomentsInL2, "multiplier", lambda self, answers, ε, δ: right(self, answers, 2 * ε, 2 * δ))


_moments_of = BoundedMoments.of


@mutation(("moments",), "sensitivity")
def slopes_of_moments_not_clipped(patch: Patch) -> None:
    patch.setattr(
        BoundedMoments, "of", lambda self, loss, r, θ: _moments_of(replace(self, bound=1e9 * self.bound), loss, r, θ)
    )


@mutation(("moments",), "sensitivity")
def rows_of_moments_of_any_length(patch: Patch) -> None:
    patch.setattr(BoundedMoments, "shares", lambda self, features: np.ones(len(features)))


@mutation(("moments",), "sensitivity, persons")
def rows_count_where_persons_should_in_moments(patch: Patch) -> None:
    def of(self, loss, records, theta):
        alike = Records(records.features, records.target, np.ones(len(records)))
        return _moments_of(self, loss, alike, theta) * len(records) / records.units

    patch.setattr(BoundedMoments, "of", of)


@mutation(("lengths",), "noise")
def two_histograms_for_the_price_of_one(patch: Patch) -> None:
    patch.setattr(Histograms, "unit", property(lambda self: np.ones(self.length)))


@mutation(LENGTHS, "sensitivity")
def a_long_row_stands_in_every_bin_that_it_reaches(patch: Patch) -> None:
    right = Histograms.of

    def of(self, loss, records, theta):
        found = np.split(right(self, loss, records, theta), [BINS] if self.reach else [])
        return np.concatenate([np.cumsum(one[::-1])[::-1] for one in found])

    patch.setattr(Histograms, "of", of)


@mutation(LENGTHS, "sensitivity, persons")
def rows_count_where_persons_should_in_lengths(patch: Patch) -> None:
    right = Histograms.of

    def of(self, loss, records, theta):
        alike = Records(records.features, records.target, np.ones(len(records)))
        return right(self, loss, alike, theta) * len(records) / records.units

    patch.setattr(Histograms, "of", of)


@mutation(("histograms",), "noise")
def all_columns_for_the_price_of_one(patch: Patch) -> None:
    patch.setattr(ColumnHistograms, "unit", property(lambda self: np.ones(BINS_OF_COLUMNS * self.columns)))


@mutation(("histograms",), "sensitivity")
def a_value_stands_in_every_interval_below_it(patch: Patch) -> None:
    right = ColumnHistograms.of

    def of(self, loss, records, theta):
        found = np.split(right(self, loss, records, theta), self.columns)
        return np.concatenate([np.cumsum(one[::-1])[::-1] for one in found])

    patch.setattr(ColumnHistograms, "of", of)


@mutation(("histograms",), "sensitivity, persons")
def rows_count_where_persons_should_in_histograms(patch: Patch) -> None:
    right = ColumnHistograms.of

    def of(self, loss, records, theta):
        alike = Records(records.features, records.target, np.ones(len(records)))
        return right(self, loss, alike, theta) * len(records) / records.units

    patch.setattr(ColumnHistograms, "of", of)


# What is spent


@mutation(EVERY, "spent")
def nothing_is_charged(patch: Patch) -> None:
    patch.setattr(MemoryLedger, "charge", lambda self, identity, theta, epsilon, delta: None)
    patch.setattr(MemoryLedger, "record", lambda self, identity, gradient: None)


@mutation(EVERY, "spent")
def one_answer_more(patch: Patch) -> None:
    class Lenient(MemoryLedger):
        @property
        def answers(self) -> int:
            return max(super().answers - 1, 0)

    patch.setattr(copriv.owner, "MemoryLedger", lambda owner, ε, m, δ: Lenient(owner, 2 * ε, m + 1, 2 * δ))


@mutation(COMPOSED, "spent")
def answers_that_are_private_together_charged_by_shares(patch: Patch) -> None:
    """Then a run that stops half way is charged half, and its answers are not private for that."""
    right = mechanism.Mechanism.cost

    def cost(self, agreed, owner):
        ε, _ = right(self, agreed, owner)
        return ε / agreed.answers, Fraction(0)

    patch.setattr(mechanism.Mechanism, "cost", cost)


@mutation(EVERY, "count")
def n_is_that_of_the_records_at_hand(patch: Patch) -> None:
    """The noise then tells how many there are."""
    right = copriv.owner.Owner.__init__

    def init(self, agreement, name, records, loss, ledger=None, **given):
        owners = [{**o, "records": records.units} for o in agreement.to_dict()["owner"]]
        right(self, type(agreement).of({**agreement.to_dict(), "owner": owners}), name, records, loss, ledger, **given)

    patch.setattr(copriv.owner.Owner, "__init__", init)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        # Those of the other mechanisms are in `test_transcripts.py`, with more draws.
        (name, check)
        for name, case in CASES.items()
        for check in checks_of(case)
        if check != "epsilon" or name in COMPOSED
    ],
)
def test_the_right_owner_passes(name: str, check: str) -> None:
    verdict = CHECKS[check](CASES[name])
    assert verdict, verdict.detail


@pytest.mark.parametrize(("name", "of"), [(name, of) for name, wrong in MUTATIONS.items() for of in wrong.of])
def test_a_wrong_owner_is_seen(name: str, of: str, monkeypatch: Patch) -> None:
    MUTATIONS[name].make(monkeypatch)
    verdict = CHECKS[MUTATIONS[name].seen_by](CASES[of])
    assert not verdict, verdict.detail


def test_every_mechanism_has_a_case_and_at_least_four_wrong_versions() -> None:
    assert {case.mechanism for case in CASES.values()} == {one.name for one in mechanisms.ALL}
    for name in CASES:
        assert sum(name in wrong.of for wrong in MUTATIONS.values()) >= 4, name


def test_every_check_is_needed() -> None:
    for name, case in CASES.items():
        seen = {wrong.seen_by for wrong in MUTATIONS.values() if name in wrong.of}
        assert set(checks_of(case)) - seen <= {"epsilon"}, name
