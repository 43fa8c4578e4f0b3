"""What commands make of a model's file: hostile names, damaged files, owners' own models, runs that did not finish."""

import csv
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from copriv.cli import app, run
from copriv.data.dictionary import PublicDictionary
from copriv.errors import CoprivError
from copriv.network.exports import metrics, parameters
from copriv.network.model import Model
from finished_runs import ROWS, model
from network_parties import agreement
from report_parties import OWNER, Left, run_left_behind


def with_classes(*names: str) -> Model:
    made = model("logistic")
    return replace(made, agreement=made.agreement.replace(data={"categories": {"y": list(names)}}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savetxt(tmp_path / "rows.csv", ROWS, delimiter=",", header="a,b", comments="")
    return tmp_path


def predict(folder: Path, made: Model, *more: str) -> int:
    (folder / "model.json").write_text(made.to_json(), encoding="utf-8")
    return run(["predict", str(folder / "model.json"), str(folder / "rows.csv"), *more])


def column(text: str) -> set[str]:
    return {row["prediction"] for row in csv.DictReader(StringIO(text))}


@pytest.mark.parametrize("command", ["predict --out", "export --skops", "export --onnx"])
def test_what_a_command_reads_is_not_written_over(
    folder: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, option = command.split()
    (folder / "model.json").write_text(model().to_json(), encoding="utf-8")
    tables = [folder / "rows.csv"] if name == "predict" else []
    for read in (folder / "model.json", *tables):
        before = read.read_bytes()
        assert run([name, str(folder / "model.json"), *map(str, tables), option, str(read)]) == 2
        assert "would be overwritten" in capsys.readouterr().err
        assert read.read_bytes() == before


# Names of classes -------------------------------------------------------------------------------------------------

HOSTILE = {
    "=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0",
    "+1+1": "'+1+1",
    "-2+3": "'-2+3",
    "@SUM(A1)": "'@SUM(A1)",
    " =1": "' =1",
    "＝1+1": "'＝1+1",
    "\t=1": "\\x09=1",
    "a;=1": "a;'=1",
    "\x1b[2J": "\\x1b[2J",
    "a\r\n=1": "a\\x0d\\x0a=1",
    "\u202eevil": "\\u202eevil",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_class_name_moves_no_cursor_and_is_no_formula(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = with_classes("ordinary", name)
    assert predict(folder, made) == 0
    shown = capsys.readouterr().out
    assert column(shown) == {"ordinary", HOSTILE[name]}
    assert predict(folder, made, "--out", str(folder / "out.csv")) == 0
    assert (folder / "out.csv").read_text(encoding="utf-8") == shown
    capsys.readouterr()
    assert predict(folder, made, "--json") == 0
    assert name in json.loads(capsys.readouterr().out)["predictions"], "JSON has the name as it is"


@pytest.mark.parametrize("name", ["-1", "+1", "-1.5e-3", "1=2", "a-b", "yes, very", 'say "no"', "ja", "-.5", "n" * 900])
def test_an_ordinary_class_name_is_as_it_was(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(folder, with_classes("other", name)) == 0
    assert column(capsys.readouterr().out) == {"other", name}


def test_numbers_are_as_they_were(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(folder, model()) == 0
    expected = model().predict(str(folder / "rows.csv"))
    assert [float(row["prediction"]) for row in csv.DictReader(StringIO(capsys.readouterr().out))] == expected
    assert min(expected) < 0


# Damaged files ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return run_left_behind(tmp_path_factory.mktemp("left"), agreement(horizon=9, answers=3))


GONE = object()
INSTEAD = {"gone or a word": [GONE, "x"], "all else": [None, -1, 10**400, [[]], {}, float("nan")]}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key of a document, and the first of each list."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*at, key)
        yield from places(inner, (*at, key))


def damaged(whole: str, instead: Sequence[Any]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """The file with one part gone, or with something else there; and which."""
    for at in places(json.loads(whole)):
        for value in instead:
            document = inside = json.loads(whole)
            for key in at[:-1]:
                inside = inside[key]
            if value is GONE:
                del inside[at[-1]]
            else:
                inside[at[-1]] = value
            yield at, json.dumps(document)


@pytest.mark.parametrize("instead", ["gone or a word", pytest.param("all else", marks=pytest.mark.slow)])
def test_a_model_file_with_any_part_gone_or_other_is_told_in_words(
    folder: Path, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exception that is not copriv's own would leave `run`, and fail the test."""
    pytest.importorskip("skops")
    dictionary = PublicDictionary.identity(2).with_waves(ROWS, 3)
    whole = replace(model(), dictionary=dictionary, theta=np.ones(3)).to_json()
    path, table, codes = folder / "model.json", str(folder / "rows.csv"), []
    for at, text in damaged(whole, INSTEAD[instead]):
        path.write_text(text, encoding="utf-8")
        said = [run(["predict", str(path), table])]
        if said == [0] and at[0] != "agreement":
            said.append(run(["export", str(path), "--skops", str(folder / "m.skops")]))
        assert set(said) <= {0, 3}, at
        if at[0] in ("schema", "fingerprint"):
            assert said == [3], at
        assert (3 in said) == ("error:" in capsys.readouterr().err)
        with suppress(CoprivError):
            made = Model.from_json(text)
            assert all(isinstance(number, float) for number in metrics(made).values())
            parameters(made)
        codes += said
    assert codes.count(3) > 50 < codes.count(0)


@pytest.mark.slow
def test_verify_and_report_tell_of_a_damaged_model_file_in_words(
    left: Left, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, codes = left.model.read_text(encoding="utf-8"), []
    report = ["report", str(left.ledger), str(left.run), "--out", str(folder / "r.html")]
    assert run(["verify", str(left.run)]) == run(report) == 0
    try:
        for at, text in damaged(whole, [GONE, {}, 10**400]):
            left.model.write_text(text, encoding="utf-8")
            codes += [run(["verify", str(left.run)]), run(report)]
            assert set(codes[-2:]) <= {0, 3}, at
    finally:
        left.model.write_text(whole, encoding="utf-8")
    assert codes.count(3) > 50


# An owner's own model ---------------------------------------------------------------------------------------------

WRITING = {
    "predict": [["{own}", "{rows}", "--out", "{to}"], ["{own}", "{rows}", "--json", "--out", "{to}"]],
    "export": [["{own}", "--skops", "{to}"], ["{own}", "--onnx", "{to}"]],
    "owner personalize": [["{common}", "--data", "{rows}", "--out", "{to}"]],
}
"""Every command that is given a model, with all that it writes of one."""


def test_every_command_that_is_given_a_model_is_looked_at() -> None:
    def given_a_model(command: Any, name: str = "") -> Iterator[str]:
        for short in command.list_commands(None) if hasattr(command, "list_commands") else ():
            yield from given_a_model(command.get_command(None, short), f"{name} {short}".strip())
        if any(one.param_type_name == "argument" and one.metavar == "MODEL" for one in command.params):
            yield name

    assert set(given_a_model(typer.main.get_command(app))) == set(WRITING)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("words", [f"{name} {' '.join(call)}" for name, calls in WRITING.items() for call in calls])
def test_what_is_made_of_an_owners_own_model_is_this_accounts_alone(folder: Path, words: str, there: bool) -> None:
    pytest.importorskip("skops")
    pytest.importorskip("onnx")
    files = {name: folder / name for name in ("own", "common", "rows.csv", "to")}
    np.savetxt(files["rows.csv"], np.column_stack([ROWS, ROWS[:, 0]]), delimiter=",", header="a,b,y", comments="")
    files["common"].write_text(model().to_json())
    own = replace(model(), record={**model().record, "personalized_at_home": {"private": False}})
    files["own"].write_text(own.to_json())
    before = os.umask(0)
    try:
        if there:
            files["to"].write_text("an older one, for everybody")
        call = words.format(**{name.removesuffix(".csv"): path for name, path in files.items()}).split()
        assert run(call) == 0
    finally:
        os.umask(before)
    assert files["to"].stat().st_mode & 0o777 == 0o600


# Runs that did not finish -----------------------------------------------------------------------------------------

UNFINISHED = [
    {"status": "stopped", "outcome": "no answer for 5 s: waiting for a, b; resume when they are back"},
    {"status": None, "outcome": None},
    {},
    {"status": "finished\n"},
    {"status": True},
]


@pytest.mark.parametrize("said", UNFINISHED)
@pytest.mark.parametrize("words", ["predict {model} {rows} --out {to}", "export {model} --skops {to}"])
def test_a_model_whose_run_did_not_finish_is_used_by_that_name_only(
    folder: Path, said: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("skops")
    record = {key: value for key, value in model().record.items() if key != "status"} | said
    path, to = folder / "model.json", folder / "to"
    path.write_text(replace(model(), record=record).to_json())
    call = words.format(model=path, rows=folder / "rows.csv", to=to).split()
    assert run(call) == 3
    shown = " ".join(capsys.readouterr().err.split())
    assert "did not finish" in shown
    assert "--unfinished" in shown
    assert str(said.get("outcome") or "") in shown
    assert not to.exists()
    assert run([*call, "--unfinished"]) == 0
    assert to.exists()


@pytest.mark.parametrize("words", ["predict {model} {rows} --out {to}", "export {model} --skops {to}"])
def test_a_mechanism_that_gives_no_model_leaves_none_to_use(
    folder: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of "lengths" ends finished, at the agreed start, which predicts the same for everybody."""
    pytest.importorskip("skops")
    asked = model().agreement.replace(agreement={"mechanism": "lengths", "reach": 1.5, "answers": 1, "step": 1.0})
    path, to = folder / "lengths.json", folder / "to"
    path.write_text(replace(model(), agreement=asked).to_json())
    call = words.format(model=path, rows=folder / "rows.csv", to=to).split()
    assert run(call) == 3
    assert 'no model follows from mechanism "lengths"' in " ".join(capsys.readouterr().err.split())
    assert run([*call, "--unfinished"]) == 0


@pytest.mark.parametrize("words", ["predict {model} {rows} --out {to}", "export {model} --skops {to}"])
@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ({}, "The model is of the pilot's answers alone"),
        (
            {"mechanism": "lengths", "reach": 1.5, "answers": 1, "step": 1.0},
            "No model follows from the pilot's answers",
        ),
    ],
)
def test_a_model_of_a_pilot_alone_is_said_to_be_that(
    folder: Path, words: str, terms: dict[str, Any], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("skops")
    made, path = model(), folder / "model.json"
    call = [*words.format(model=path, rows=folder / "rows.csv", to=folder / "to").split(), "--unfinished"]
    for kept in ("joining pays for nobody", ""):
        record, agreed = made.record | {"kept": kept}, made.agreement.replace(agreement=terms)
        path.write_text(replace(made, agreement=agreed, record=record).to_json())
        assert run(call) == 0
        assert (sentence in " ".join(capsys.readouterr().err.split())) == bool(kept)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"phases": [{}]}, "the run did not go beyond its pilot. The model is of the pilot's answers alone."),
        ({"phases": [{}, {}]}, ""),
        (
            {"kept": "joining pays for nobody", "personalized_at_home": {}},
            "stopped after its pilot. The model, but for the owner's own records, is of the pilot's answers alone.",
        ),
    ],
)
def test_it_is_said_what_of_a_model_is_of_the_pilot(
    folder: Path, record: dict[str, Any], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a run that was killed in its pilot nothing was said, and of an owner's own model that it is the pilot's alone."""
    made = model()
    assert predict(folder, replace(made, record=made.record | record), "--unfinished") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert sentence in said
    assert ("pilot" in said) == bool(sentence)


def test_a_report_beside_a_model_whose_run_did_not_finish(tmp_path: Path) -> None:
    """The last answer of an owner never comes."""
    left = run_left_behind(tmp_path, agreement(horizon=9, answers=3), arrives=lambda name, k: (name, k) != (OWNER, 3))
    call = ["report", str(left.ledger), str(left.run), "--out", str(tmp_path / "r.html")]
    assert run(call) == 3
    assert not (tmp_path / "r.html").exists()
    assert run([*call, "--unfinished"]) == 0
    left.model.unlink()
    assert run(call) == 0


def test_a_model_that_is_not_there_is_named_once(copriv):
    """The line began with nowhere.json: nowhere.json."""
    done = copriv("export", "nowhere.json", "--skops", "out.skops")
    assert (done.code, done.err.count("nowhere.json")) == (3, 1), done.err
