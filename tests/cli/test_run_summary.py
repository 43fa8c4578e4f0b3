"""A run beside its forecast: what the public rows can tell about a model, and that nothing is made up without them."""

import multiprocessing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.cli.commands import service
from copriv.cli.commands.learner import _public_rows
from copriv.display.run import compared
from copriv.errors import DataError
from copriv.losses import Squared
from copriv.model.fitness import FeasibleSet, Fitness, Regularizer, relative_fitness
from copriv.model.records import Records
from copriv.network.run_state import Conductor
from copriv.network.setup import public_strata
from copriv.network.store import RunStore
from copriv.populations.dealt import heterogeneity_of
from copriv.populations.public_sample import PublicSample
from copriv.problem import Problem
from copriv.report.public_rows import PublicRows
from unsigned import unsigned

BEST = np.array([1.0, -0.5])
SIZES = {"a": 3800, "b": 200}


def agreement(**terms: Any) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 6, "answers": 3, "step": 0.5, **terms},
            "model": {"loss": "squared", "regularization": 0.01, "theta_max": 10.0, "gradient_bound": 20.0},
            "data": {"dataset": "lending-embedded", "components": 2, "feature_bound": 0.0},
            "owner": [{"name": name, "records": 2000, "epsilon": 1.0} for name in ("a", "b")],
        }
    )


def drawn(rng: np.random.Generator, n: int) -> Records:
    x = rng.uniform(-1, 1, (n, 2))
    return Records.of(x, x @ BEST + rng.normal(size=n))


@pytest.mark.slow
def test_the_estimate_is_right_on_average() -> None:
    """Owners' records and public rows drawn anew each time; the model is off the owners' optimum by the same step."""
    rng, agreed, off = np.random.default_rng(0), agreement(), np.array([0.1, -0.05])
    plain, taken_off, shift = [], [], 0.0
    for _ in range(300):
        fitness = Fitness(Squared(), Regularizer(0.01), FeasibleSet(10.0), drawn(rng, 4000))
        optimum = fitness.minimum()
        model = optimum.theta + off
        true = float(relative_fitness(np.array(fitness.value(model)), optimum))
        found = PublicRows(agreed, drawn(rng, 400)).judged(model)
        plain.append(found["relative_fitness"] - true)
        taken_off.append(found["estimate"] - true)
        shift += found["of_the_best_model"] / 300
    error = float(np.std(taken_off)) / np.sqrt(300)
    assert abs(np.mean(taken_off)) < 3 * error
    assert np.mean(plain) > 3 * error, "without what is taken off it is wrong, and seen to be"
    assert shift > 0


@pytest.mark.parametrize("known", [True, False])
def test_everybodys_records_are_in_the_owners_mix(known: bool) -> None:
    """Owners of 3,800 and 200 records with other slopes, as many public rows of each: without strata they judge another mix."""
    rng, agreed, slopes = np.random.default_rng(26), agreement(), np.array([0.8, -0.8])
    agreed = Agreement.of(
        {**agreed.to_dict(), "owner": [{"name": n, "records": k, "epsilon": 1.0} for n, k in SIZES.items()]}
    )

    def mixed(sizes: tuple[int, int]) -> Records:
        rows = drawn(rng, sum(sizes))
        return Records.of(rows.features, rows.target + np.repeat(slopes, sizes) * rows.features[:, 0])

    held = 0
    for _ in range(100):
        fitness = Fitness(Squared(), Regularizer(0.01), FeasibleSet(10.0), mixed((3800, 200)))
        optimum = fitness.minimum()
        model = optimum.theta + np.array([0.1, -0.05])
        true = float(relative_fitness(np.array(fitness.value(model)), optimum))
        found = PublicRows(agreed, mixed((200, 200)), ["a"] * 200 + ["b"] * 200 if known else None).judged(model)
        held += found["low"] <= true <= found["high"]
    assert (held >= 82) == known, f"{held} of 100 in a 90 % interval"


def test_the_best_model_of_the_public_rows_has_nothing_above_it() -> None:
    rows = drawn(np.random.default_rng(1), 300)
    best = Fitness(Squared(), Regularizer(0.01), FeasibleSet(10.0), rows).minimum()
    found = PublicRows(agreement(), rows).judged(best.theta)
    assert abs(found["relative_fitness"]) < 1e-9
    assert found["fitness"] == found["least_fitness"] or abs(found["fitness"] / found["least_fitness"] - 1) < 1e-9
    assert found["estimate"] < 0 < found["of_the_best_model"]


def test_without_public_rows_only_what_was_counted_is_said() -> None:
    said = (
        Conductor(RunStore.create(":memory:", agreement(), 2), None, 0.0, unsigned())
        .signed_model(None)
        .record["realised"]
    )
    assert said["public"] is None
    assert (said["queries"], said["answers"], said["epsilon"]) == (0, {"a": 0, "b": 0}, {"a": 0, "b": 0})
    assert "public rows" not in shown(said, None)


def test_a_forecast_has_the_same_keys_and_the_agreed_numbers() -> None:
    rows, agreed = drawn(np.random.default_rng(2), 200), agreement()
    conductor, seen = Conductor(RunStore.create(":memory:", agreed, 2), None, 0.0, unsigned()), PublicRows(agreed, rows)
    record = conductor.signed_model(None, seen.said_of(conductor), seen.expected(20)).record
    before, after = record["forecast"], record["realised"]
    assert set(after) - {"seconds", "public"} == set(before) - {"kind", "runs", "relative_fitness"}
    assert (before["queries"], before["answers"], before["epsilon"]) == (6, {"a": 3, "b": 3}, {"a": 1.0, "b": 1.0})
    assert before["noise_scale"]["a"] == 2 * 20.0 * 3 / 2000
    text = shown(after, before)
    assert "above the best model" in text
    assert before["kind"] in text
    assert "by 200 public rows" in text
    assert "fitness on the public rows: mean squared error in rate², with the regularizer" in text


def test_what_was_assumed_is_what_strata_of_the_public_rows_say() -> None:
    """Two owners whose own slopes differ, and public rows that say whose they are."""
    rng, agreed = np.random.default_rng(5), agreement()
    rows, whose = drawn(rng, 400), ["a", "b"] * 200
    shift = np.where(np.arange(400) % 2 == 0, 0.8, -0.8)
    unlike = Records.of(rows.features, rows.target + shift * rows.features[:, 0])
    queries = [SimpleNamespace(owner=name, theta=np.zeros(2)) for name in ("a", "b")]
    asked = {q.owner: SimpleNamespace(query=q, answer=SimpleNamespace(gradient=rng.normal(size=2))) for q in queries}
    run: Any = SimpleNamespace(agreement=agreed, model=BEST, run=SimpleNamespace(asked=asked))
    known, unknown = (
        PublicRows(agreed, unlike, strata).said_of(run)["heterogeneity_diagnosis"] for strata in (whose, None)
    )
    assert known is not None
    assert unknown is not None
    assert known["assumed_heterogeneity"]["source"] == "strata"
    assert unknown["assumed_heterogeneity"]["source"] == "not stated"
    by_hand = heterogeneity_of(PublicSample(Problem.forecasting(agreed, unlike, strata=whose)))
    assert known["assumed_heterogeneity"] == vars(by_hand)
    # What was to be expected is of the same worlds as a forecast's.
    sure = PublicRows(agreed.replace(data={"heterogeneity": 0.0}), unlike).expected(64)
    assert PublicRows(agreed, unlike, whose).expected(64)["relative_fitness"] != sure["relative_fitness"]


def test_strata_are_read_from_the_learners_own_table(tmp_path: Path) -> None:
    table = tmp_path / "public.csv"
    table.write_text("x,bank\n1,a\n2,b\n3,a\n")
    assert public_strata(agreement(), table) is None, "the agreement names no column"
    assert public_strata(agreement().replace(data={"strata": "bank"}), table) == ("a", "b", "a")
    assert public_strata(agreement().replace(data={"strata": "region"}), table) is None
    table.write_text("x,bank\n1,a\n2,\n")
    with pytest.raises(DataError, match="public row 2 has no bank"):
        public_strata(agreement().replace(data={"strata": "bank"}), table)


class AtOnce:
    """A pool of no processes."""

    def __init__(self, processes: int) -> None:
        assert processes == 1

    def __enter__(self) -> "AtOnce":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def apply(self, function: Any, given: Any) -> Any:
        return function(*given)


def test_the_page_of_a_run_is_told_whose_public_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setattr("copriv.ui.views.expected_band", lambda *given: heard.append(given) or {"k": [0.0]})

    monkeypatch.setattr(multiprocessing, "get_context", lambda how: SimpleNamespace(Pool=AtOnce))
    watch: Any = SimpleNamespace(band=None)
    agreed, rows = agreement(), drawn(np.random.default_rng(2), 3)
    service._forecast(agreed, rows, ("a", "b", "a"), watch)
    assert heard == [(agreed, rows, ("a", "b", "a"))]
    assert watch.band == {"k": [0.0]}


def test_rounds_and_single_answers_are_counted_as_they_are_asked() -> None:
    rows = drawn(np.random.default_rng(3), 200)
    assert PublicRows(agreement(rule="S2"), rows).expected(10)["answers"] == {"a": 3, "b": 3}
    assert PublicRows(agreement(rule="S2"), rows).expected(10)["queries"] == 3
    once = agreement(answers=1).replace(
        agreement={"mechanism": "statistics", "moments_share": 0.2}, data={"feature_bound": 2.0}
    )
    counted = PublicRows(once, rows).expected(10)
    assert (counted["queries"], counted["answers"]) == (2, {"a": 1, "b": 1})


def shown(after: dict[str, Any], before: dict[str, Any] | None) -> str:
    record = {"realised": after, "forecast": before}
    return "\n".join("  ".join(row) for row in compared(record, "mean squared error in rate²").rows)


def test_rows_beside_the_keys_may_be_unreadable_and_rows_that_were_named_may_not(tmp_path: Path) -> None:
    assert _public_rows(agreement(), None, None, None) == (None, None, None)
    assert _public_rows(agreement(), None, tmp_path, None) == (None, None, None)
    (tmp_path / "public.parquet").write_text("no table")
    assert _public_rows(agreement(), None, tmp_path, None) == (None, None, None)
    with pytest.raises(DataError):
        _public_rows(agreement(), tmp_path / "public.parquet", tmp_path, None)
