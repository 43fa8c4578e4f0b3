"""Plans and forecasts where no rows are public: from declared columns alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import copriv
from copriv.agreement import Agreement
from copriv.agreement.data_terms import schema_of
from copriv.data.declared_tables import DeclaredTables
from copriv.display.forecast import made_from
from copriv.errors import AgreementError, CoprivError, DataError
from copriv.forecast.after_pilot import before_pilot, told
from copriv.forecast.phases import AfterPilot, to_sign
from copriv.mechanisms.expected import Declared
from copriv.mechanisms.lengths import BINS, EDGES, TARGETS, noise_on_mean
from copriv.plan import plan
from copriv.plan.without_public_rows import offers
from copriv.problem import Problem
from copriv.simulation.runs import one_answers

COLUMNS = {
    "features": ["age", "stage", "smoker"], "target": "days", "bounds": {"age": [0, 110], "days": [0, 120]},
    "categories": {"stage": ["I", "II", "III"]}, "booleans": ["smoker"],
}  # fmt: skip


def agreed(epsilon: float = 1.0, delta: float = 0.0, loss: str = "squared", **data: Any) -> Agreement:
    return Agreement.of({
        "agreement": {"rule": "auto", "horizon": 100},
        "model": {"loss": loss, "regularization": 1e-5, "intercept": True},
        "data": {"public_rows": 0, **COLUMNS, **data},
        "owner": [{"name": f"clinic {i}", "records": 800, "epsilon": epsilon, "delta": delta} for i in (1, 2, 3)],
    })  # fmt: skip


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_tables_keep_to_what_is_declared(seed: int) -> None:
    table = DeclaredTables(schema_of(agreed(), None)).draw(np.random.default_rng(seed), 200)
    age, stage, smoker = table.features[:, :1], table.features[:, 1:4], table.features[:, 4:]
    assert (age >= 0).all()
    assert (age <= 1).all()
    assert (np.sort(stage, axis=1) == [0, 0, 1]).all(), "a row has one level"
    assert np.isin(smoker, [0, 1]).all()
    assert (table.target >= 0).all()
    assert (table.target <= 120).all()


def test_tables_differ_as_much_as_they_may() -> None:
    law, rng = DeclaredTables(schema_of(agreed(), None)), np.random.default_rng(0)
    spread = [law.draw(rng, 400).features[:, 0].std() for _ in range(60)]
    assert min(spread) < 0.05
    assert max(spread) > 0.2


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_neither_more_epsilon_nor_a_delta_is_expected_to_hurt(loss: str) -> None:
    pure, stated = ([min(gap for gap, _ in offers(agreed(ε, δ, loss))) for ε in (0.1, 1.0, 10.0)] for δ in (0.0, 1e-6))
    assert pure == sorted(pure, reverse=True)
    assert all(better <= plain for better, plain in zip(stated, pure, strict=True))


def test_units_of_the_target_change_nothing_but_its_numbers() -> None:
    inches, metres = (agreed(bounds={"age": [0, 110], "days": [0, high]}) for high in (1.0, 1000.0))
    for (gap, one), (same, other) in zip(offers(inches), offers(metres), strict=True):
        assert same == pytest.approx(gap)
        assert other.gradient_bound == pytest.approx(1000.0 * one.gradient_bound)
        assert other.agreement.start == pytest.approx(np.array(one.agreement.start) * 1000.0)


def table(folder: Path, rows: int) -> Path:
    rng, path = np.random.default_rng(4), folder / "all.csv"
    age, smoker = rng.uniform(20, 90, rows).round(1), rng.random(rows) < 0.3
    stage = rng.choice(["I", "II", "III"], rows)
    days = np.clip(5 + 0.3 * age + 12 * (stage == "III") + 6 * smoker + rng.normal(0, 4, rows), 0, 120).round(2)
    pd.DataFrame({"age": age, "stage": stage, "smoker": smoker, "days": days}).to_csv(path, index=False)
    return path


def test_a_constant_is_the_targets_mean(tmp_path: Path) -> None:
    """Among the offers is one that leaves features out, with the noise of a mean of numbers of that range."""
    terms, mean = agreed(0.5, path=str(table(tmp_path, 2400))), pd.read_csv(tmp_path / "all.csv")["days"].mean()
    (constant,) = [one for _, one in offers(terms) if one.agreement.mechanism == "pilot"]
    θ = copriv.simulate(Problem.load(constant), runs=4000, seed=0, alone=False).theta
    assert np.abs(θ[:, :-1]).max() == 0.0
    step = constant.step
    scale = step * 120.0 / (800 * 0.5) * np.sqrt(2.0) / np.sqrt(3.0)  # of each owner's Laplace noise, three averaged
    assert θ[:, -1].std() == pytest.approx(scale, rel=0.1)
    assert θ[:, -1].mean() == pytest.approx(60.0 + step * (mean - 60.0), abs=6 * scale / np.sqrt(4000))


def test_a_run_is_where_the_forecast_says(tmp_path: Path) -> None:
    terms = agreed(10.0, 1e-6, path=str(table(tmp_path, 2400)))
    outlook = copriv.forecast(terms, runs=32)
    assert (outlook.kind, outlook.public_rows, outlook.unseen) == ("without public rows", 0, None)
    assert "With pilot = 0.1 a first answer would measure how long rows are" in outlook.pilot_in_words
    problem = Problem.load(terms)
    assert problem.public is None
    ψ = copriv.simulate(problem.under(outlook.agreed.agreement), runs=20, seed=1, alone=False).relative_fitness.runs[
        :, -1
    ]
    band = outlook.agreed.relative_fitness.end
    assert band["low"] < np.median(ψ) < band["high"]
    assert np.median(ψ) < outlook.public_only
    document = json.loads(outlook.to_json())
    assert (document["optimum"], document["kind"]) == (None, "without public rows")
    assert "typical error" not in str(outlook), "in the target's unit nothing is known"
    words = outlook.verdict
    assert "Without public rows the cost lies between" in words
    assert "public one" not in words
    assert "a constant" in words
    assert plan(terms).agreement == outlook.plan.agreement


def test_an_owner_asks_its_own_records_with_such_a_forecast(tmp_path: Path) -> None:
    terms = agreed(10.0, 1e-6)
    outlook = copriv.forecast(terms, runs=32)
    rows = pd.read_csv(table(tmp_path, 800))
    encoded = schema_of(terms, None).encode(rows)
    found = copriv.owner_verdict(outlook.agreed.agreement, "clinic 1", (encoded.features, encoded.target), outlook)
    assert found.verdict == "no"
    assert "public" not in found.errors
    assert found.errors["own"] == pytest.approx(16.0, rel=0.3), "the variance of the noise"
    assert found.errors["common"] > found.errors["own"]


def test_the_classes_of_a_target_are_planned_for_too() -> None:
    classes = {"features": ["age"], "target": "ill", "bounds": {"age": [0, 110]}, "categories": {"ill": ["no", "yes"]}}
    terms = agreed(1.0, loss="logistic").replace(data={"booleans": [], **classes})
    assert plan(terms).agreement.agreement.mechanism == "objective"
    with pytest.raises(CoprivError, match="labels"):
        plan(terms.replace(data={"target": "age", "features": ["ill"], "booleans": ["ill"], "categories": {}}))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"data": {"components": 3}}, "public_rows: 0 says that no rows are public, and components is of such rows"),
        ({"data": {"public": "rows.csv"}}, "and public is of such rows"),
        ({"data": {"strata": "clinic"}}, "and strata is of such rows"),
        ({"data": {"scaling": "none", "feature_bound": "auto"}}, "columns are in units of their own; give a number"),
    ],
)
def test_what_needs_public_rows_is_refused_without_them(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(AgreementError, match=said):
        agreed().replace(**changed)


def test_terms_that_only_a_plan_on_public_rows_could_complete_are_refused() -> None:
    with pytest.raises(AgreementError, match="without public rows the plan is one answer of each owner"):
        plan(agreed().replace(agreement={"rule": "S1"}))
    with pytest.raises(AgreementError, match="without public rows nothing can be planned for the squared loss in sums"):
        plan(agreed().replace(agreement={"aggregation": "sum", "colluding": 1}))
    with pytest.raises(DataError, match=r"data.public_rows = 0 says that no rows are public"):
        copriv.forecast(agreed(), public=(np.zeros((5, 5)), np.zeros(5)))


def wide(epsilon: float, path: Path | None = None, pilot: float | str = "auto") -> Agreement:
    """Ranges that are ten times too wide, and a pilot."""
    named = {} if path is None else {"path": str(path)}
    terms = agreed(
        epsilon,
        1e-6,
        features=["age"],
        categories={},
        booleans=[],
        bounds={"age": [0, 1100], "days": [-550, 650]},
        **named,
    )
    return terms.replace(agreement={"pilot": pilot, "goal": "common"})


def test_a_pilot_is_as_large_as_it_must_be_to_be_heard() -> None:
    loud, quiet = wide(0.05), wide(4.0)
    assert (loud.has_pilot, quiet.pilot_share) == (False, 0.1)
    assert [wide(ε).pilot_share for ε in (0.2, 0.6)] == [0.2, 0.1]
    first, run = quiet.phases
    assert (first.agreement.mechanism, first.agreement.reach, first.owner[0].epsilon) == ("lengths", 1.0, 0.4)
    assert first.owner[0].epsilon + run.owner[0].epsilon <= 4.0


def test_a_sum_needs_a_smaller_pilot_to_be_heard() -> None:
    """Ten owners of one size and ε share the noise of one, of which one owner's share is not counted on (10/9)."""
    owners = [{"name": f"{k}", "records": 100, "epsilon": 1.0} for k in range(10)]
    terms = Agreement.of({**wide(1.0).to_dict(), "owner": owners})
    seen = terms.replace(agreement={"aggregation": "sum"})
    each, together = (noise_on_mean(one, 1.0) for one in (terms, seen))
    assert each == pytest.approx(2 * 2 / 100 / np.sqrt(10))
    assert together == pytest.approx(2 * 2 / 1000 * np.sqrt(10 / 9))
    assert (terms.pilot_share, seen.pilot_share) == (0.2, 0.1)
    first = seen.phases[0]
    assert first.mechanism.deviations(first)[0] * 2 == pytest.approx(together / 0.1)


@pytest.mark.parametrize(
    "sums",
    [{}, {"aggregation": "sum", "colluding": 2}, {"aggregation": "sum", "dropouts": 1, "attempts": 2}],
    ids=["each", "sum", "attempts"],
)
@pytest.mark.parametrize("floor", [None, 3.0])
def test_a_plan_counts_on_the_noise_that_owners_will_add(
    monkeypatch: pytest.MonkeyPatch, sums: dict[str, Any], floor: float | None
) -> None:
    """Of owners that differ, by the gradient's noise of moments, and by that of the target's mean."""
    owners = [{"name": f"{k}", "records": 100 * (k + 1), "epsilon": 1.0 + k / 5, "delta": 1e-6} for k in range(5)]
    owners[2] |= {"floor": floor} if floor and sums else {}
    document = wide(1.0, pilot=0).to_dict()
    terms = Agreement.of({**document, "agreement": {**document["agreement"], **sums}, "owner": owners})
    averaged, seen = Declared.averaged, list[float]()

    def counted(declared: Declared, scale: Any) -> float:
        seen.append(averaged(declared, scale))
        return seen[-1]

    monkeypatch.setattr(Declared, "averaged", counted)
    made = [one for _, one in offers(terms)]
    by_moments = next(one for one in made if one.agreement.mechanism == "moments")
    each = by_moments.mechanism.deviations(by_moments)
    weights = np.ones(1) if sums else by_moments.weights
    variance = float(np.square(weights * each).sum())
    assert any(one == pytest.approx(variance, rel=1e-9) for one in seen)
    constant = next(one for one in made if one.agreement.mechanism == "pilot")
    numbers = constant.mechanism.numbers(constant, 2)
    noise = np.square(weights * constant.mechanism.deviations(constant)).sum() * numbers.unit[1] ** 2
    of_mean = noise * constant.agreement.preconditioner[1][1] / 600**2  # in units of half of the target's range
    assert any(one == pytest.approx(of_mean, rel=1e-9) for one in seen)


def test_a_floor_does_not_stop_a_plan() -> None:
    terms = wide(1.0).replace(agreement={"aggregation": "sum", "pilot": None}, owner={"floor": 2.0})
    assert plan(terms).agreement.owner[0].floor == 2.0


@pytest.mark.parametrize("attempts", [1, 3])
def test_answers_that_are_kept_for_further_attempts_at_a_sum_are_set_by_the_plan(attempts: int) -> None:
    terms = wide(4.0).replace(agreement={"aggregation": "sum", "attempts": attempts})
    bare = terms.replace(agreement={"pilot": None})
    planned = plan(bare).agreement
    assert (planned.answers, planned.queries) == (1 + attempts, 1)
    assert plan(bare.replace(agreement={"answers": 1 + attempts})).agreement.fingerprint == planned.fingerprint
    signed = to_sign(terms, copriv.forecast(terms, runs=8))
    assert [(phase.answers, phase.queries) for phase in signed.phases] == [(1 + attempts, 1)] * 2


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_a_pilot_finds_the_units_that_ranges_hide(tmp_path: Path, seed: int) -> None:
    terms = wide(4.0, table(tmp_path, 2400))
    before, after = copriv.forecast(terms, runs=32), copriv.pilot(terms, seed=seed, runs=32)
    assert (before.kind, after.kind) == ("without public rows", "after the pilot")
    assert not after.recommended.private
    assert after.insurance_premium == 0
    assert made_from(after).endswith("and a pilot's answers.")
    assert "as far as a pilot did not measure them" in after.assumption
    assert "a pilot" not in made_from(before) + before.assumption
    assert "The pilot, 10 % of every epsilon, first measures how long rows are" in before.pilot_in_words
    planned = after.recommended.agreement
    assert planned.agreement.column_scale >= 2
    assert 10 < planned.agreement.start[-1] < 60, "targets are about 35, and the middle of their range is 50"
    assert planned.gradient_bound < 0.3 * plan(terms.replace(agreement={"pilot": None})).agreement.gradient_bound

    def cost(run: Agreement) -> float:
        problem = Problem.load(run)
        return float(np.median(copriv.simulate(problem, runs=20, seed=1, alone=False).relative_fitness.runs[:, -1]))

    with_pilot, band = cost(planned), after.recommended.relative_fitness.end
    assert with_pilot < 0.5 * cost(plan(terms.replace(agreement={"pilot": None})).agreement)
    assert band["low"] < with_pilot < band["high"]
    width = band["high"] / band["low"]
    assert (
        width < 0.5 * before.recommended.relative_fitness.end["high"] / before.recommended.relative_fitness.end["low"]
    )


def test_what_is_signed_before_a_pilot_is_open_only_within_ranges(tmp_path: Path) -> None:
    terms = wide(4.0, table(tmp_path, 2400))
    signed = to_sign(terms, copriv.forecast(terms, runs=32))
    assert signed.agreement.pilot_terms.reach == 1.0
    assert (terms.agreement.pilot, signed.agreement.pilot) == ("auto", 0.1)
    after = AfterPilot.of(signed, None, answers_of(signed), runs=32)
    assert {"start", "reach", "column_scale", "gradient_bound", "step"} <= after.chosen.keys()
    run = signed.chosen_run(after.chosen)
    assert run.agreement.mechanism == signed.agreement.mechanism
    assert after.cost_of(signed, after.chosen) < 0.2


def answers_of(signed: Agreement) -> np.ndarray:
    """Simulated answers to a pilot, one for each owner."""
    problem = Problem.load(signed)
    asked = signed.phases[0]
    streams = [np.random.SeedSequence(5)]
    return np.concatenate(one_answers(problem.under(asked), streams, asked.noise_scales()))


def test_tables_after_a_pilot_have_rows_as_long_and_targets_where_they_were_seen(tmp_path: Path) -> None:
    terms, rng = wide(4.0), np.random.default_rng(0)
    before = before_pilot(Problem.declared(terms))
    known = told(before, terms.phases[0], np.tile(np.eye(BINS + TARGETS)[[3, 20]].sum(axis=0), (3, 1)))
    drawn = [known.tables.draw(rng, 400) for _ in range(20)]
    lengths = [np.median(np.linalg.norm(each.features, axis=1)) for each in drawn]
    assert min(lengths) > 1 / 16
    assert max(lengths) <= 1 / 8 * 1.5
    low, high = (50 + 600 * EDGES[20 - BINS - 1 : 20 - BINS + 1]).tolist()
    assert all(low < np.median(each.target) < high for each in drawn)
