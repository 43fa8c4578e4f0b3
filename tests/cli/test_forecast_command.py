"""`copriv forecast`, and planning before `copriv simulate`: one forecast, looked at from every side."""

import csv
import dataclasses
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import copriv as library
from copriv.cli import console
from copriv.cli.commands import forecast as command
from copriv.cli.commands import forecast as forecast_answer
from copriv.cli.output import forecast_csv, forecast_files
from copriv.display import forecast as words
from copriv.display.verdict import about_without
from copriv.forecast import what_if as what_if_asked
from copriv.forecast.coalition_value import LEAST_EPSILON
from copriv.forecast.rare_records import Unseen
from copriv.forecast.what_if import reach, without
from copriv.formatting.numbers import percent
from copriv.pictures import forecast as pictures
from copriv.pictures.style import png
from copriv.rules.bounds import Bound
from docs_blocks import blocks

# Two owners who differ tenfold in records.
TWO = {
    "agreement": {
        "name": "two",
        "rule": "A2",
        "horizon": 100,
        "answers": 3,
        "step": 4000.0,
        "seed": 7,
        "communication": "synchronous",
    },
    "model": {"loss": "squared", "regularization": 1e-5, "gradient_bound": 3.0},
    "data": {"dataset": "lending-embedded", "components": 3, "public_rows": 300},
    "owner": [{"name": "small", "records": 300, "epsilon": 1.0}, {"name": "large", "records": 3000, "epsilon": 2.0}],
}
AUTO = {"rule": "auto", "communication": "synchronous"}


@pytest.fixture(scope="module")
def outlook():
    return library.forecast(library.Agreement.of(TWO), runs=20)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(library.Agreement.of(TWO).to_toml())
    return path


@pytest.fixture
def prepared(monkeypatch, outlook):
    """The command with the forecast already made, and what it was asked for."""
    asked = {}

    def made(agreement, **options):
        asked.update(options, agreement=agreement)
        return outlook

    monkeypatch.setattr(command, "forecast", made)
    return asked


def test_agreements_survive_as_toml(tmp_path, outlook):
    owner = {"name": 'a "quoted" name ψ', "group": 'a "quoted"\ngroup \x7f ψ', "records": 5, "epsilon": 1e-12}
    odd = library.Agreement.of({**TWO, "owner": [owner]})
    for agreement in (odd, outlook.recommended.agreement):
        path = tmp_path / "a.toml"
        path.write_text(agreement.to_toml())
        assert library.Agreement.load(path).fingerprint == agreement.fingerprint


def test_people_read_a_table_and_a_verdict(copriv, file, prepared, outlook):
    done = copriv("forecast", file, "--details")
    assert (done.code, done.err) == (0, "")
    assert prepared["agreement"] == library.Agreement.of(TWO)
    for said in (
        "two: 2 owners, 3,300 records. No private record was read.",
        "the learner's own 300 public records",
        "Agreed: as agreed (simulated).",
        f"Recommended: {outlook.recommended.words} ({outlook.recommended.kind}).",
        words.better(outlook),
        "Runner-up:",
        "The optimum",
        "the public rows alone",
        "pooled, not private",
        outlook.verdict,
    ):
        assert said in done.out, said
    assert max(map(len, done.out.split("Agreed:")[0].splitlines())) <= 130
    table = done.out.split("if all alike")[1].splitlines()
    assert table[1].split()[:3] == ["small", "300", "1"]
    assert "…" not in done.out


@pytest.mark.slow
def test_a_consortium_where_joining_does_not_pay_is_told_so_in_words(copriv, tmp_path):
    agreement = library.Agreement.of({**TWO, "owner": [{**owner, "epsilon": 0.001} for owner in TWO["owner"]]})
    path = tmp_path / "hopeless.toml"
    path.write_text(agreement.to_toml())
    done = copriv("forecast", path, "--runs", 10, "--details")
    assert done.code == 0
    assert "Joining does not pay for anybody" in done.out
    assert "do not train together" in done.out
    assert done.out.split("if all alike")[1].split()[:8].count("no") == 1


def test_without_details_the_answer_is_short_and_has_every_sentence(copriv, file, prepared, outlook):
    done = copriv("forecast", file)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert " ".join(done.out.split()).count(outlook.verdict) == 1
    assert "--details" in lines[-1]


@pytest.mark.parametrize("more", [[], ["--details"], ["--target", "2%"]])
def test_a_stratum_of_which_no_public_row_is_known_to_be_is_said_to_be_unused(
    copriv, file, prepared, monkeypatch, outlook, more
):
    said = "owner.stratum is not used: data.strata names no column of the public rows."
    assert said not in copriv("forecast", str(file), *more).out
    named = outlook.agreed.agreement.replace(owner={"stratum": "hills"})
    told = replace(outlook, agreed=replace(outlook.agreed, agreement=named))
    monkeypatch.setattr(command, "forecast", lambda agreement, **options: told)
    shown = copriv("forecast", str(file), *more).out
    assert said in " ".join(shown.split())


def test_what_it_takes_and_what_if_are_answered(copriv, file, prepared, outlook):
    done = copriv("forecast", file, "--target", "2%", "--without", "large", "--json")
    document = json.loads(done.out)
    assert document["target"]["value"] == 0.02
    assert document["target"] == json.loads(json.dumps(reach(outlook, 0.02).to_dict()))
    assert document["without"]["names"] == ["large"]
    assert {"target", "without"} & set(json.loads(outlook.to_json())) == set()
    done = copriv("forecast", file, "--target", "50 %")
    assert "already reached by the public rows alone" in done.out
    done = copriv("forecast", file, "--target", "0.000001", "--without", "small", "--details")
    assert "not reached" in done.out
    assert "Without small one owner would be left" in done.out


def test_without_somebody_everything_is_of_the_others(copriv, file, monkeypatch, outlook, tmp_path):
    """The JSON's verdict and owners, the table and the pictures were those of all owners."""
    found = what_if_asked.Without(("gone",), 0.4, 0.1, 0.3, 100.0, 2.0, {"small": False}, 0.2, 0.9, outlook)
    monkeypatch.setattr(command, "without_owners", lambda outlook, names: found)
    everybody = replace(outlook, owners=tuple(replace(one, probability=0.123) for one in outlook.owners))
    monkeypatch.setattr(command, "forecast", lambda agreement, **options: everybody)
    arguments = ("forecast", file, "--without", "large", "--out", tmp_path / "o")
    shown = " ".join(copriv(*arguments).out.split())
    headline = " ".join(about_without(found))
    assert headline in shown
    document = json.loads((tmp_path / "o" / "forecast.json").read_text())
    assert document["verdict"] == document["without"]["verdict"] == what_if_asked.of_others(outlook, found).verdict
    assert document["verdict"].startswith(headline)
    assert [one["probability"] for one in document["owners"]] == [one.probability for one in outlook.owners]
    with (tmp_path / "o" / "forecast.csv").open() as read:
        assert not any(row["probability"] == "0.123" for row in csv.DictReader(read))
    drawn = what_if_asked.of_others(outlook, found).plot("curves")
    assert headline[:100] in " ".join(" ".join(text.get_text() for text in drawn.texts).split())
    assert headline in " ".join(copriv(*arguments[:4], "--details").out.split())


def test_where_one_owner_is_left_it_has_nobody_to_train_with_and_nobody_else_is_told_of(
    copriv, file, prepared, outlook, tmp_path
):
    arguments = ("forecast", file, "--without", "small")
    said = "Without small one owner would be left: nobody to train with."
    for more in ((), ("--details",)):
        shown = copriv(*arguments, *more).out
        assert said in shown
        assert "better by" not in shown
    document = json.loads(copriv(*arguments, "--json", "--out", tmp_path / "o").out)
    assert document["verdict"] == document["without"]["verdict"] == said
    assert [(one["name"], one["verdict"], one["on_own"]["answer"]) for one in document["owners"]] == [
        ("large", "no", "no")
    ]
    assert (document["joining_pays"], document["probability"], document["advice"]) == (False, 1.0, "alone")
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["forecast.json"]
    assert said in repr(what_if_asked.of_others(outlook, without(outlook, ["small"])))


@pytest.mark.parametrize("value", ["", "%", "0", "-1%", "nan", "inf", "two", "2%%", "1e400"])
def test_a_target_that_is_none_is_refused_before_anything_is_computed(copriv, file, prepared, value):
    done = copriv("forecast", file, f"--target={value}")
    assert (done.code, done.out) == (2, "")
    assert "write it as 2% or 0.02" in done.err
    assert prepared == {}


def test_without_whom(copriv, file, prepared):
    done = copriv("forecast", file, "--without", "tiny")
    assert (done.code, "they are small, large" in done.err) == (2, True)
    done = copriv("forecast", file, "--without", "small", "--without", "large")
    assert (done.code, "nobody would be left" in done.err) == (2, True)


def test_json_is_the_result_and_nothing_else(copriv, file, prepared, outlook):
    done = copriv("forecast", file, "--json", "--runs", 30, "--seed", 4, "--no-public-start", "--no-preconditioner")
    assert done.err == ""
    assert json.loads(done.out) == json.loads(outlook.to_json())
    said = {key: prepared[key] for key in ("runs", "seed", "public_start", "preconditioner")}
    assert said == {"runs": 30, "seed": 4, "public_start": False, "preconditioner": False}


def test_out_writes_every_file(copriv, file, prepared, outlook, tmp_path):
    done = copriv("forecast", file, "--out", tmp_path / "o")
    files = {path.name for path in (tmp_path / "o").iterdir()}
    assert files == {
        "forecast.json", "forecast.csv", "forecast-curve.png", "break-even.png", "own-records.png", "agreed.toml",
        "recommended.toml",
    }  # fmt: skip
    assert done.err.count("wrote") == len(files)
    assert json.loads((tmp_path / "o" / "forecast.json").read_text()) == json.loads(outlook.to_json())
    with (tmp_path / "o" / "forecast.csv").open() as read:
        rows = list(csv.DictReader(read))
    assert list(rows[0]) == ["terms", "k", "mean", "median", "low", "high", "owner", "verdict", "probability", "goal"]
    for name, one in (("agreed", outlook.agreed), ("recommended", outlook.recommended)):
        mine = [row for row in rows if row["terms"] == name]
        np.testing.assert_array_equal([float(row["mean"]) for row in mine], one.relative_fitness.mean)
        np.testing.assert_array_equal([float(row["high"]) for row in mine], one.relative_fitness.high)
    for owner in outlook.owners:
        mine = {row["terms"]: row for row in rows if row["owner"] == owner.name}
        assert list(mine) == ["alone", "public, personalized", "common", "personalized"]
        for row, name in zip(mine.values(), MODELS, strict=True):
            numbers = [float(row[key]) for key in ("median", "low", "high")]
            assert numbers == [getattr(owner.own, name), *getattr(owner.own, f"{name}_band")]
            assert numbers[1] <= numbers[0] <= numbers[2]
            assert (row["verdict"], float(row["probability"])) == (owner.on_own.answer, owner.on_own.probability)
    recommended = library.Agreement.load(tmp_path / "o" / "recommended.toml")
    assert recommended == outlook.recommended.agreement


MODELS = ("alone", "public_personalized", "together", "personalized")


def test_the_files_say_the_verdict_of_the_goal(outlook):
    """Of a goal "common" the CSV and the picture told of each owner's own records, below "Joining pays for everybody"."""
    terms = outlook.agreed.agreement.replace(agreement={"goal": "common"})
    owners = tuple(
        replace(
            one, verdict="yes", probability=0.9, on_all=replace(one.on_all, answer="yes", probability=0.9),
            on_own=replace(one.on_own, answer="no", probability=0.1),
        )
        for one in outlook.owners
    )  # fmt: skip
    common = replace(outlook, agreed=replace(outlook.agreed, agreement=terms), owners=owners)
    assert "Joining pays for everybody" in common.verdict
    rows = [row for row in csv.DictReader(forecast_csv(common).splitlines()) if row["owner"]]
    assert {(row["verdict"], row["probability"], row["goal"]) for row in rows} == {("yes", "0.9", "common")}
    figure = common.plot("own-records")
    assert [text.get_text() for text in figure.axes[0].texts] == ["pays", "pays"]
    said = " ".join(" ".join(text.get_text() for text in figure.texts).split())
    assert "“pays” is about everybody's records, the agreed goal" in said


def test_the_same_forecast_gives_the_same_bytes(outlook):
    unlike = tuple(replace(one, median=(k + 1) * one.median) for k, one in enumerate(outlook.at_heterogeneity))
    changed = replace(outlook, at_heterogeneity=unlike)
    one, other = (forecast_files(changed, outlook.to_json(), "copriv forecast two.toml") for _ in range(2))
    assert one == other
    assert one["break-even.png"].startswith(b"\x89PNG")
    assert one["unlike-owners.png"].startswith(b"\x89PNG")
    alike = forecast_files(replace(outlook, at_heterogeneity=()), outlook.to_json(), "copriv forecast two.toml")
    assert set(one) - set(alike) == {"unlike-owners.png"}
    hardly = forecast_files(outlook, outlook.to_json(), "copriv forecast two.toml")
    assert set(hardly) == set(alike)  # three equal bars say nothing


def test_the_picture_of_own_records_draws_every_owners_models_with_their_bands(outlook):
    (axes,) = outlook.plot("own-records").axes
    points = {line.get_label(): np.asarray(line.get_xdata()) for line in axes.lines}
    bands = [np.array(each.get_segments())[:, :, 0] for each in axes.collections]
    named = zip(
        ("its own model", "the public one, personalized", "the common one", "that, personalized"), bands, strict=True
    )
    for (label, band), name in zip(named, MODELS, strict=True):
        np.testing.assert_array_equal(points[label], [getattr(owner.own, name) for owner in outlook.owners])
        np.testing.assert_array_equal(band, [getattr(owner.own, f"{name}_band") for owner in outlook.owners])
    words = {"yes": "pays", "no": "does not pay", "open": "open"}
    said = [(text.get_text(), round(text.xy[1])) for text in axes.texts]
    assert said == [(words[o.on_own.answer], i) for i, o in enumerate(reversed(outlook.owners))]


def test_the_break_even_picture_draws_the_consortiums_own_numbers(outlook):
    ε, drawn = pictures.break_even(outlook).axes[0].lines[0].get_data()
    for at, ψ in zip(ε[::57], drawn[::57], strict=True):
        alike = dataclasses.replace(outlook.consortium, epsilon=np.full_like(outlook.consortium.epsilon, at))
        assert ψ == pytest.approx(alike.together(), rel=1e-12)
    # Where any ε is enough, or only an enormous one, the table says so, and there is no place to draw.
    at = dataclasses.replace(outlook, owners=tuple(places(outlook.owners[0], [LEAST_EPSILON, 0.004, 250.0, None])))
    for one in (outlook, at):
        ε = pictures.break_even(one).axes[0].lines[0].get_xdata()
        for owner in one.owners:
            pays_from = owner.break_even_epsilon_for_all
            if pays_from is not None and 1e-3 < pays_from < 1e3:
                assert ε[0] < pays_from < ε[-1]


def places(owner, pays_from):
    """The owner, were joining to pay from each of these ε of all."""
    return (dataclasses.replace(owner, name=f"{ε}", break_even_epsilon_for_all=ε) for ε in pays_from)


@pytest.mark.parametrize("change", ["many levels", "nobody gains", "one owner", "zero alone"])
def test_pictures_of_unusual_consortia(outlook, change):
    owner = outlook.owners[0]
    owners = {
        "many levels": tuple(
            dataclasses.replace(owner, name=f"o{i}", alone=0.01 * (i + 1), break_even_epsilon_for_all=0.1 * (i + 1))
            for i in range(12)
        ),
        "nobody gains": tuple(dataclasses.replace(o, break_even_epsilon_for_all=None) for o in outlook.owners),
        "one owner": (dataclasses.replace(owner, alone=0.0),),
        "zero alone": (dataclasses.replace(owner, alone=0.0), owner),
    }[change]
    unusual = dataclasses.replace(outlook, owners=owners)
    assert png(pictures.break_even(unusual), "x").startswith(b"\x89PNG")
    assert png(pictures.curves(unusual), "x").startswith(b"\x89PNG")


def test_words_about_coalitions(outlook):
    kept = dataclasses.replace(outlook.owners[0], in_best_subset=True)
    left_out = dataclasses.replace(
        outlook.owners[1], name="west", in_best_subset=False, number_in_best_subset=0, welcome_epsilon=7.0
    )
    unwanted = dataclasses.replace(
        outlook, owners=(kept, left_out), best_subset=outlook.together / 2, best_weights=outlook.together / 3
    )
    said = words.about_coalitions(unwanted)
    assert said[0].startswith("Without west the others would reach")
    assert "noise of its answers" in said[0]
    assert said[1] == "west would cost the others nothing with an epsilon of 7."
    assert said[2].startswith("Weights other than n_i/n")
    happy = dataclasses.replace(outlook, owners=(kept,), best_subset=outlook.together, best_weights=outlook.together)
    assert len(words.about_coalitions(happy)) == 1
    assert words.about_coalitions(happy)[0].startswith("Everybody belongs in")


def test_runs_that_are_not_private_are_said_to_be_so(outlook, capfd):
    trusting = dataclasses.replace(outlook, agreed=dataclasses.replace(outlook.agreed, private=False))
    for told in (words.details(trusting), forecast_answer.lines(trusting)):
        console.tell(*told)
        assert "Note: the agreed terms are not private" in capfd.readouterr().out
    assert "warning" in trusting.to_dict()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_names_of_models_are_not_cut(outlook, width):
    said = forecast_answer.lines(outlook, asked=["What would it take?"], width=width)
    assert any(line.startswith("the public rows alone ") for line in said)
    assert not [line for line in said if "…" in line or len(line) > width]


def test_simulate_plans_what_is_auto_and_says_so(copriv, tmp_path):
    open_terms = {**TWO, "agreement": {**AUTO, "horizon": 50, "answers": 2}}
    open_terms["model"] = {"loss": "squared", "regularization": 1e-5}
    path = tmp_path / "open.toml"
    path.write_text(library.Agreement.of(open_terms).to_toml())
    done = copriv("simulate", path, "--runs", 3, "--json")
    assert done.code == 0
    assert 'still "auto": planning on the public rows' in done.err
    document = json.loads(done.out)
    assert document["planned"] in done.err
    assert document["rule"] in ("S1", "S2")
    assert document["planned"].startswith(document["rule"])
    assert {owner["answers"] for owner in document["owners"]} == {2}


def test_simulate_plans_nothing_where_nothing_is_open(copriv, file):
    done = copriv("simulate", file, "--runs", 2, "--json")
    assert done.err == ""
    assert "planned" not in json.loads(done.out)


def test_what_cannot_be_planned_is_one_line(copriv, tmp_path):
    path = tmp_path / "a1.toml"
    path.write_text(library.Agreement.of({**TWO, "agreement": {"rule": "A1", "horizon": 50}}).to_toml())
    done = copriv("simulate", path, "--runs", 2)
    assert done.code == 3
    assert "A1 cannot be planned" in done.err


# Documentation

DOCS = Path(__file__).parents[2] / "docs"


def test_the_how_to_works_as_it_is_written(copriv, tmp_path):
    found = blocks(DOCS / "how-to" / "plan-an-agreement.md")
    text = next(block.body for block in found if "agreement.toml" in block.said.get("file", []))
    assert library.Agreement.of(tomllib.loads(text)).agreement.communication == "any"
    (tmp_path / "agreement.toml").write_text(text.replace('"any"', '"synchronous"'))  # fewer candidates
    commands = [command_line for block in found if block.is_commands for command_line, _ in block.commands][:2]
    assert commands == [
        "copriv forecast agreement.toml --out plan",
        "copriv simulate plan/recommended.toml --runs 100",
    ]
    for command_line in commands:
        fewer = command_line.replace("--runs 100", "--runs 5").split()[1:]
        assert copriv(*fewer).code == 0, command_line


def test_every_key_of_the_json_is_documented(outlook):
    page = (DOCS / "reference" / "forecast-json.md").read_text(encoding="utf-8")
    parts = {part.split("\n")[0]: part for part in page.split("\n## ")}

    def documented(heading):
        first_cells = re.findall(r"^\| (`[^|]*) \|", parts[heading], flags=re.MULTILINE)
        return {key for cell in first_cells for key in re.findall(r"`(\w+)`", cell)}

    document = json.loads(outlook.to_json())
    assert documented("The document") == set(document) | {
        "warning", "target", "without", "simulated", "for_release", "duration",
    }  # fmt: skip
    assert documented("`agreed` and `recommended`") == set(document["agreed"])
    assert documented("`owners`") == set(document["owners"][0])
    outlook_target, left = reach(outlook, 0.01).to_dict(), without(outlook, ["small"]).to_dict()
    assert documented("`target`") == set(outlook_target)
    assert documented("`without`") == set(left)
    with_bounds = dataclasses.replace(outlook, bounds=(Bound("S", "cost", 1.0, "", False),)).to_dict()
    assert documented("`bounds`") == set(with_bounds["bounds"][0])


def test_the_short_answer_says_that_owners_are_taken_to_differ_where_nobody_has_said_so(outlook):
    """It decides what each is said to reach alone, so it stands where people decide."""
    said = "Owners are taken to differ as those of real tables do; alike: heterogeneity = 0."
    assert outlook.heterogeneity.source == "not stated"
    told = " ".join(forecast_answer.lines(outlook))
    assert said in told or "if they differ as in real tables" in told
    stated = replace(outlook, heterogeneity=replace(outlook.heterogeneity, source="stated"))
    assert said not in forecast_answer.lines(stated)
    assert forecast_answer.lines(outlook)[1].startswith("Made from 300 public rows: records of the owners' kind that")


def test_a_screen_gives_a_number_the_same_digits_wherever_it_stands(outlook):
    """0.0815 % in a sentence above 0.081 % in a table made readers look for the difference."""
    said = " ".join(forecast_answer.lines(outlook))
    for number in (outlook.together, outlook.public_only):
        assert percent(number) in said
    assert all(len(shown.replace(".", "").lstrip("0")) <= 2 for shown in re.findall(r"(\d\.\d+) %", said))


def test_no_sentence_is_left_out_of_a_long_answer_and_no_name_is_cut_in_one(outlook):
    """A terminal of 24 lines, and a pipe, had no caution where names were long; `print` ended with an ellipsis."""
    unseen = replace(outlook.unseen or Unseen(1000, 3.0, 9.0), relative_fitness=9.0)
    long = "Fern Valley Federal Employees Credit Union of the Northern Counties"
    owners = tuple(
        replace(one, name=f"{long} {i}", verdict=answer, on_own=replace(one.on_own, answer=answer, probability=0.9))
        for i, (one, answer) in enumerate(zip(outlook.owners, ("yes", "no"), strict=True))
    )
    ψ = outlook.agreed.relative_fitness
    bad = replace(outlook.agreed, relative_fitness=replace(ψ, median=np.full_like(ψ.median, 9.0)))
    told = replace(outlook, owners=owners, agreed=bad, unseen=unseen)
    for said in ("is an outlier", "Not as it is agreed", "On everybody's records", f"{long} 0"):
        assert said in told.verdict
    for shown in (*("\n".join(forecast_answer.lines(told, width=width)) for width in (60, 80, 120)), repr(told)):
        assert told.verdict in " ".join(shown.split())


def test_no_number_is_parted_from_its_sign(outlook):
    for runs in (0.1234, 0.0123, 0.00123):
        told = replace(outlook, public_only=runs)
        assert not any(line.startswith("%") for line in forecast_answer.lines(told))


def test_terms_that_are_worse_than_none_are_not_praised_with_better_ones(outlook):
    """Joining may pay under the best terms found, and not as it is agreed: the first screen says both."""
    ψ = outlook.agreed.relative_fitness
    bad = replace(outlook.agreed, relative_fitness=replace(ψ, median=np.full_like(ψ.median, 9.0)))
    paying = replace(outlook.owners[0], verdict="yes", on_own=replace(outlook.owners[0].on_own, answer="yes"))
    worse = replace(outlook, agreed=bad, owners=(paying, *outlook.owners[1:]), public_only=0.5)
    lines = forecast_answer.lines(worse)
    assert "Not as it is agreed: those terms reach 900 %" in " ".join(lines)
    assert "Not as it is agreed" not in " ".join(forecast_answer.lines(replace(worse, public_only=10.0)))


@pytest.mark.parametrize(
    ("probability", "said"),
    [
        (
            0.9,
            "20 % worse on their records, with a probability of 90 % (40 % above the best possible there, 10 % with large; ",
        ),
        (0.5, "better or worse on their records is open: worse with a probability of 50 % (40 % above"),
        (0.1, "-20 % better on their records, with a probability of 90 % (40 % above"),
    ],
)
def test_what_if_says_whether_the_others_do_better_and_how_sure_that_is(outlook, probability, said):
    found = what_if_asked.Without(
        ("large",), 0.4, 0.1, 0.3, 100.0, 2.0, {"small": False}, 0.2, probability, replace(outlook, public_only=0.2)
    )
    told = " ".join(about_without(found))
    assert said in told
    assert told.startswith("Without large, ")
    assert ("the public rows alone would be better: 20 %" in told) is (probability == 0.9)
    assert "to make up for it" not in told
    rich = replace(found, others=replace(outlook, public_only=0.9))
    assert "public rows alone would be better" not in " ".join(about_without(rich))
