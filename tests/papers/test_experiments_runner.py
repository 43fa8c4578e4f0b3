"""The runner: three files a figure, resuming, and the same digits whoever carries the batches."""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure as Picture
from PIL import Image

from copriv.errors import DataError, UsageError
from copriv.problem import Problem
from copriv.simulation import simulate
from copriv_papers import Effort, consortia, drawing, reproduce, runner, trials
from copriv_papers.consortia import A_LENDING, S_LENDING, Mechanism
from copriv_papers.document import caption_of, document_of, other_tables_of
from copriv_papers.figure import Cell, Comparison, Judgement, Row
from copriv_papers.figures.grids import final_rows
from copriv_papers.trials import Outcome, Trial

EMBEDDED = replace(A_LENDING, dataset="lending-embedded", horizon=20)


def trial(mechanism: Mechanism = "sound", runs: int = 6, epsilon: float = 1.0, **changes: object) -> Trial:
    agreement = EMBEDDED.agreement([500, 700], [epsilon, epsilon], mechanism, {})
    return replace(Trial(agreement, mechanism, runs, held_out=200), **changes)


@dataclass(frozen=True)
class Tiny:
    identity: str = "tiny"
    source: str = "none"
    title: str = "Tiny"
    claim: str = "It runs."
    runs: int = 6

    def plan(self, effort: Effort) -> list[Cell]:
        return [
            Cell({"mechanism": m, "epsilon": ε}, trial(m, self.runs, ε))
            for m in ("as published", "sound")
            for ε in (1.0, 10.0)
        ]

    def rows(self, cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Row]:
        return final_rows(cells, outcomes)

    def draw(self, rows: Sequence[Row]) -> Picture:
        figure, axes = drawing.picture(1)
        drawing.log_axes(axes[0, 0], "ε", "ψ")
        drawing.title(axes[0, 0], "Tiny", "as published")
        axes[0, 0].plot([r["epsilon"] for r in rows], [r["mean"] for r in rows])
        return figure

    def judge(self, rows: Sequence[Row]) -> Judgement:
        return Judgement.of([Comparison("rows", "4", len(rows), len(rows) == 4)], "no", "yes")


def run(out: Path, figure: Tiny | None = None, **options: object) -> runner.Report:
    (report,) = reproduce([figure or Tiny()], out, Effort(True), **{"backend": "threading", "workers": 1} | options)
    return report


def test_writes_rows_picture_and_what_they_are(tmp_path: Path) -> None:
    report = run(tmp_path)
    document = json.loads((tmp_path / "tiny.json").read_text())
    assert document == json.loads(json.dumps(report.document))
    assert document["verdict"] == "reproduced"
    assert document["not_private"] == ["as published"]
    assert document["settings"]["sound"]["model"]["gradient_bound_assumed"] is False
    assert document["settings"]["as published"]["model"]["gradient_bound_assumed"] is True
    assert "lending_club_9857" in document["data"][0]["description"]
    assert document["held_out"]["sound"] is not None
    assert len((tmp_path / "tiny.csv").read_text().splitlines()) == 5
    assert Image.open(tmp_path / "tiny.png").width > 300


def test_a_quick_figure_says_that_it_is_one(tmp_path: Path) -> None:
    quick, (whole,) = run(tmp_path / "quick"), reproduce([Tiny()], tmp_path / "whole", Effort(), workers=1)
    assert "a quick run" in quick.document["why"]
    assert caption_of(Tiny(), quick.document).startswith("QUICK RUN")
    assert "quick" not in whole.document["why"] + caption_of(Tiny(), whole.document)


def test_where_nothing_is_compared_nothing_is_reproduced() -> None:
    """async-fig6 was "reproduced" with --quick: none of its points was one that the paper speaks of."""
    ours = Comparison("share", "", 0.3, None)
    assert Judgement.of([ours], "why").verdict == "not testable"
    assert Judgement.of([ours, Comparison("slope", "−2", -2.0, True)], "why").verdict == "reproduced"


def test_a_figure_that_cannot_be_made_is_told_of_and_the_others_come_in_order(tmp_path: Path) -> None:
    class Without(Tiny):
        def plan(self, effort: Effort) -> list[Cell]:
            raise DataError("no table")

    figures = [Tiny("one"), Without("two"), Tiny("three"), Tiny("one")]
    told: list[str] = []
    how = {"backend": "threading", "workers": 1}
    made = list(
        reproduce(figures, tmp_path, Effort(True), failed=lambda name, error: told.append(f"{name}: {error}"), **how)
    )
    assert [one.identity for one in made] == ["one", "three", "one"]
    assert told == ["two: no table"]
    assert (tmp_path / "one.png").is_file()
    with pytest.raises(DataError, match="no table"):
        list(reproduce(figures, tmp_path, Effort(True), **how))


def test_a_figure_is_drawn_while_the_next_one_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a processor waits for every picture. The first is held until a trial of the second is at work."""
    at_work, real = threading.Event(), runner.batch

    @dataclass(frozen=True)
    class Held(Tiny):
        def draw(self, rows: Sequence[Row]) -> Picture:
            assert at_work.wait(60)
            return super().draw(rows)

    def batch(one: Trial, *rest: object) -> object:
        if one.seed == 1:
            at_work.set()
        return real(one, *rest)

    @dataclass(frozen=True)
    class Next(Tiny):
        def plan(self, effort: Effort) -> list[Cell]:
            return [replace(cell, trial=replace(cell.trial, seed=1)) for cell in super().plan(effort)]

    monkeypatch.setattr(runner, "batch", batch)
    made = reproduce([Held("held"), Next("next")], tmp_path, Effort(True), backend="threading", workers=1)
    assert [one.identity for one in made] == ["held", "next"]


def test_a_figure_of_other_loans_is_compared_on_those_that_everybody_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other table stands in the document with its numbers; where the figure is of that table already, there is none."""
    assert run(tmp_path / "same").document["other_tables"] == []

    @dataclass(frozen=True)
    class OfOthers(Tiny):
        def plan(self, effort: Effort) -> list[Cell]:
            cells = super().plan(effort)
            if effort.paths.get("lending") == consortia.INSIDE:
                return cells
            named = [c.trial.agreement.replace(data={"dataset": "lending", "path": "x"}) for c in cells]
            return [replace(c, trial=replace(c.trial, agreement=a)) for c, a in zip(cells, named, strict=True)]

    figure = OfOthers()
    cells = figure.plan(Effort(True))
    others = runner._on_the_other_table(figure, cells, Effort())
    assert {c.trial.mechanism for c in others} == {"as published"}
    assert runner._on_the_other_table(figure, cells, Effort(True, {"lending": "loan.csv"})) == []
    assert runner._on_the_other_table(figure, cells, Effort(True)) == []  # a quick run has enough to do
    outcomes = runner.outcomes_of(others, tmp_path / "other", "other", workers=1, backend="threading")
    (told,) = other_tables_of(figure, others, outcomes)
    assert "lending_club_9857" in told["data"][0]["description"]
    assert told["comparison"] == [{"what": "rows", "paper": "4", "ours": 2.0, "holds": False}]
    same = Tiny().plan(Effort(True))
    here = runner.outcomes_of(same, tmp_path / "other", "other", workers=1, backend="threading")
    document = document_of(figure, same, here, figure.rows(same, here), Effort(), (others, outcomes))
    assert document["other_tables"] == [told]
    assert (document["verdict_here"], told["verdict"]) == ("reproduced", "not reproduced")
    assert (document["verdict"], document["why"]) == ("reproduced in part", "no")  # both tables count


def test_a_plan_sees_no_more_public_rows_than_it_is_given() -> None:
    one = trial("planned")
    problem = trials.loaded(one.data)
    seen = trials._seen(problem, 300)
    assert problem.unbounded_public is not None
    assert seen.unbounded_public is not None
    assert len(problem.unbounded_public) == 2000
    np.testing.assert_array_equal(seen.unbounded_public.features, problem.unbounded_public.features[-300:])
    assert one.key != replace(one, planned_on=300).key
    assert trial("sound").key == replace(trial("sound"), planned_on=300).key


def test_a_finished_figure_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not run(tmp_path).resumed
    monkeypatch.setattr(runner, "batch", lambda *_: pytest.fail("ran again"))
    assert run(tmp_path).resumed


def test_other_settings_are_run(tmp_path: Path) -> None:
    first = run(tmp_path)
    other = run(tmp_path, Tiny(runs=7))
    assert not other.resumed
    assert other.document["settings_hash"] != first.document["settings_hash"]


def test_a_stopped_run_goes_on_with_the_trials_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(tmp_path / "whole")
    real, done = runner.outcome, []

    def stops(*arguments: object) -> Outcome:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        return real(*arguments)

    monkeypatch.setattr(runner, "outcome", stops)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "part")
    assert not (tmp_path / "part" / "tiny.json").exists()
    monkeypatch.setattr(runner, "outcome", real)
    computed = []
    monkeypatch.setattr(runner, "outcome", lambda *a: computed.append(1) or real(*a))
    again = run(tmp_path / "part")
    assert len(computed) == 2
    assert again.document["settings_hash"] == whole.document["settings_hash"]
    assert (tmp_path / "part" / "tiny.csv").read_bytes() == (tmp_path / "whole" / "tiny.csv").read_bytes()


def test_a_damaged_trial_file_is_computed_again(tmp_path: Path) -> None:
    run(tmp_path)
    before = (tmp_path / "tiny.csv").read_bytes()
    next((tmp_path / ".trials").iterdir()).write_text('{"k": [1')
    run(tmp_path, force=True)
    assert (tmp_path / "tiny.csv").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "workers"), [("threading", 3), ("loky", 2)])
def test_workers_and_backend_change_no_digit(tmp_path: Path, backend: str, workers: int) -> None:
    run(tmp_path / "one")
    run(tmp_path / "other", backend=backend, workers=workers)
    assert (tmp_path / "one" / "tiny.csv").read_bytes() == (tmp_path / "other" / "tiny.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["ray", "dask"])
def test_ray_and_dask_change_no_digit(tmp_path: Path, backend: str) -> None:
    pytest.importorskip({"ray": "ray", "dask": "dask.distributed"}[backend])
    run(tmp_path / "one")
    run(tmp_path / "other", backend=backend, workers=2)
    assert (tmp_path / "one" / "tiny.csv").read_bytes() == (tmp_path / "other" / "tiny.csv").read_bytes()


@pytest.mark.parametrize(("backend", "module"), [("ray", "ray"), ("dask", "dask.distributed")])
def test_a_backend_that_is_not_installed_is_named(
    tmp_path: Path, backend: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(UsageError, match=rf"copriv-papers\[{backend}\]"):
        run(tmp_path, backend=backend)


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    run(tmp_path, progress=lambda _, done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == len(seen)


def test_batches_cover_every_run_once() -> None:
    for runs in (1, 49, 50, 51, 100, 120):
        covered = [first + r for first, many in trials.batches(runs) for r in range(many)]
        assert covered == list(range(runs))


@pytest.mark.parametrize("mechanism", ["as published", "sound"])
def test_runs_do_not_depend_on_their_batch(mechanism: Mechanism) -> None:
    one = trial(mechanism)
    shared = trials.reference(one)
    whole, _ = trials.batch(one, shared, 0, 6)
    first, _ = trials.batch(one, shared, 0, 2)
    rest, _ = trials.batch(one, shared, 2, 4)
    np.testing.assert_allclose(np.concatenate([first.theta, rest.theta]), whole.theta, rtol=1e-9)


def test_keys_differ_where_outcomes_could() -> None:
    one = trial()
    others = [
        trial(epsilon=2.0),
        trial(runs=7),
        replace(one, mechanism="as written"),
        replace(one, held_out=100),
        replace(one, record_at=None),
        replace(one, seed=1),
        replace(one, alone=1),
    ]
    assert len({t.key for t in (one, *others)}) == 8


def test_trials_on_the_same_data_share_their_reference() -> None:
    assert trial().shared_by == trial(epsilon=2.0).shared_by
    assert trial().shared_by != trial(held_out=100).shared_by
    # Bounds on features are the mechanism's business: fitness and θ* are of the records as they are (decision 0005).
    bounded, unbounded = trial(), trial("as published")
    assert bounded.agreement.data.feature_bound != unbounded.agreement.data.feature_bound
    assert bounded.shared_by == unbounded.shared_by
    for one in (bounded, unbounded):
        own = Problem.load(one.agreement, held_out=one.held_out).optimum
        np.testing.assert_array_equal(trials.reference(one).optimum.theta, own.theta)


@pytest.mark.slow
def test_a_planned_trial_is_private_and_remembers_its_plan() -> None:
    one = trial("planned", runs=2)
    shared = trials.reference(one)
    found = trials.outcome(one, shared, [trials.batch(one, shared, 0, 2)])
    assert found.private
    assert found.planned is not None
    assert found.planned["gradient_bound"] > 0
    assert shared.planned is not None
    assert not shared.planned.model.gradient_bound_assumed


def test_a_planned_trial_runs_under_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    one = trial("planned", runs=3)
    chosen = one.agreement.replace(
        agreement={"rule": "A2", "answers": 2, "step": 10.0}, model={"gradient_bound": 2.0}, data={"feature_bound": 0.1}
    )
    monkeypatch.setattr(trials, "plan", lambda problem, **_: SimpleNamespace(agreement=chosen))
    shared = trials.reference(one)
    done, _ = trials.batch(one, shared, 0, 3)
    expected = simulate(Problem.load(chosen, held_out=200), runs=3, seed=0, workers=1, alone=False)
    np.testing.assert_allclose(done.theta, expected.theta, rtol=1e-10)
    assert done.relative_fitness.runs[0, -1] == pytest.approx(expected.relative_fitness.runs[0, -1])


def test_a_trial_is_the_simulation_of_its_agreement() -> None:
    one = trial("sound", runs=3)
    done, _ = trials.batch(one, trials.reference(one), 0, 3)
    expected = simulate(Problem.load(one.agreement, held_out=200), runs=3, seed=0, workers=1, alone=False)
    np.testing.assert_allclose(done.theta, expected.theta, rtol=1e-10)
    np.testing.assert_allclose(done.held_out, expected.held_out, rtol=1e-8)


def test_synchronous_settings_start_at_the_public_optimum() -> None:
    setting = replace(S_LENDING, dataset="lending-embedded")
    agreement = setting.agreement([500] * 3, [1.0] * 3, "as written", {})
    assert agreement.agreement.start is not None
    assert any(agreement.agreement.start)
    assert agreement.answers == 100
    assert setting.agreement([500] * 3, [1.0] * 3, "sound", {}, start="zero").agreement.start == (0.0,) * 10
