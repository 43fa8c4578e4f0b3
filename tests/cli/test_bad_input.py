"""Bad input: one line that says what, where, why and what to do; exit code 3; no traceback; nothing written."""

import os
import subprocess
import sys

import pytest

TABLE = """
[agreement]
rule = "S2"
horizon = 5
step = 1.0
[model]
loss = "{loss}"
gradient_bound = 1.0
theta_max = 10.0
[data]
dataset = "table"
path = "people.csv"
components = 0
feature_bound = 1.0
public_rows = 2
features = ["age", "kind"]
target = "{target}"
bounds = {{ age = [0, 120]{income} }}
categories = {{ kind = ["x", "y"]{ill} }}
[[owner]]
name = "a"
records = {records}
epsilon = 1.0
"""
INCOME, ILL = {"income": ", income = [0, 10]", "ill": ""}, {"income": "", "ill": ', ill = ["no", "yes"]'}


def table(target="income", **terms):
    declared = INCOME if target == "income" else ILL
    return TABLE.format(**{"loss": "squared", "target": target, "records": 4} | declared | terms)


ROWS = ["age,kind,income,ill", "20,x,1,no", "30,y,2,yes", "40,x,3,no", "50,y,4,yes", "60,x,5,no", "70,y,6,yes"]


def one_line(done, code=3):
    assert done.code == code
    assert done.out == ""
    first, *more = done.err.splitlines()
    assert first.startswith("error: ")
    assert all(line.startswith("  ") for line in more)  # one line, or one for each thing that is wrong
    assert not more or "things in the agreement" in first
    assert "Traceback" not in done.err
    return done.err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epsilon = 1.0", "epsilon = 0.0", ("owner.0.epsilon", "greater than 0")),
        ("epsilon = 1.0", "epsilon = -1.0", ("owner.0.epsilon", "greater than 0")),
        ("epsilon = 1.0", "epsilon = nan", ("owner.0.epsilon",)),
        ("epsilon = 1.0", 'epsilon = "one"', ("owner.0.epsilon", "one")),
        ("seed = 7", "seed = -1", ("agreement.seed",)),
        ("horizon = 100", "horizon = 0", ("agreement.horizon", "at least 1")),
        ("gradient_bound = 3.0", "gradient_bound = 0.0", ("model.gradient_bound",)),
        ("gradient_bound = 3.0", "gradient_bound = -1", ("model.gradient_bound",)),
        ('rule = "A2"', 'rule = "A9"', ("agreement.rule", "A9")),
        ("records = 1000", "records = 0", ("owner.0.records",)),
        ("records = 1000", "recrods = 1000", ("owner.0", "records")),
        ('loss = "squared"', 'loss = "logistic"', ("logistic",)),
        ('loss = "squared"', 'loss = "absolute"', ("model.loss",)),
        ('dataset = "lending-embedded"', 'dataset = "lendign"', ("data.dataset", "lendign")),
        ('dataset = "lending-embedded"', 'dataset = "lending"\npath = "gone.csv"', ("gone.csv", "no such file")),
        ("public_rows = 500", "public_rows = 9857", ("data.public_rows",)),
        ("components = 5", "components = 500", ("data.components",)),
        ("[model]", "[modle]", ("model",)),
        ("[agreement]", "[agreement", ("not valid TOML",)),
    ],
)
def test_a_bad_agreement(copriv, agreement, tmp_path, old, new, said):
    text = agreement.read_text()
    assert old in text
    agreement.write_text(text.replace(old, new, 1))
    error = one_line(copriv("simulate", agreement, "--runs", 2, "--out", tmp_path / "out", "--json"))
    for words in said:
        assert words in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b""])
def test_an_unreadable_agreement(copriv, tmp_path, content):
    path = tmp_path / "a.toml"
    if content is not None:
        path.write_bytes(content)
    one_line(copriv("simulate", path))


def test_a_directory_is_not_an_agreement(copriv, tmp_path):
    one_line(copriv("simulate", tmp_path))


def test_n_that_does_not_match_the_data_and_every_other_fault_of_a_table(copriv, tmp_path):
    """Through `data check`, which lists them all."""
    for name, rows, options, said in (
        ("missing column", [row.rsplit(",", 3)[0] + "," + ",".join(row.split(",")[2:]) for row in ROWS], {}, "kind"),
        ("not a number", [*ROWS[:3], "forty,x,3,no", *ROWS[4:]], {}, "age, row 3"),
        ("NaN", [*ROWS[:3], "nan,x,3,no", *ROWS[4:]], {}, "age, row 3: is missing"),
        ("category", [*ROWS[:3], "40,z,3,no", *ROWS[4:]], {}, "kind, row 3: is 'z', not one of x, y"),
        ("bounds", [*ROWS[:3], "400,x,3,no", *ROWS[4:]], {}, "age, row 3: is 400, above its declared bound 120"),
        ("n", ROWS, {"records": 7}, "owner.records: a is agreed to hold 7 records, the table has 6"),
        ("loss", ROWS, {"loss": "logistic"}, "logistic"),
        ("empty", ROWS[:1], {}, "has no rows"),
    ):
        (tmp_path / "people.csv").write_text("\n".join(rows) + "\n")
        (tmp_path / "a.toml").write_text(table(**{"records": 6} | options))
        done = copriv("data", "check", "people.csv", "--agreement", "a.toml", "--owner", "a")
        assert done.code == 3, name
        assert said in done.out, name
        assert "1 problem." in done.out, name
        assert done.err == "", name


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("nan,x,3,no", "age, row 3: is missing"),
        ("40,z,3,no", "kind, row 3"),
        ("400,x,3,no", "above its declared bound"),
    ],
)
def test_a_run_on_a_bad_table_is_refused_in_one_line(copriv, tmp_path, row, said):
    (tmp_path / "people.csv").write_text("\n".join([*ROWS[:3], row, *ROWS[4:]]) + "\n")
    (tmp_path / "a.toml").write_text(table())
    assert said in one_line(copriv("simulate", "a.toml", "--out", "out"))
    assert not (tmp_path / "out").exists()


def test_a_good_table_runs(copriv, tmp_path):
    (tmp_path / "people.csv").write_text("\n".join(ROWS) + "\n")
    # Six people of whom two features tell the class: without a regulariser no model is the best.
    terms = table("ill", loss="logistic").replace('dataset = "table"\n', "")
    (tmp_path / "a.toml").write_text(terms.replace("[data]", "regularization = 0.01\n[data]"))
    done = copriv("simulate", "a.toml", "--runs", "2")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("simulate",), ("simulate", "a.toml", "--runs", "0"), ("simulate", "a.toml", "--runs", "many"),
        ("simulate", "a.toml", "--nothing"), ("nothing",), ("data", "nothing"), ("data", "check"),
        ("data", "check", "people.csv"), ("init", "."), ("simulate", "a.toml", "extra"), ("--nothing",),
    ],
)  # fmt: skip
def test_calls_that_make_no_sense_exit_with_2(copriv, arguments):
    done = copriv(*arguments)
    assert done.code == 2
    assert "Traceback" not in done.err
    if arguments:
        one_line(done, 2)
        assert done.out == ""


def test_an_out_that_is_a_file_is_refused_before_the_run(copriv, agreement, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr("copriv.cli.commands.simulate.simulate", lambda *_, **__: pytest.fail("ran"))
    one_line(copriv("simulate", agreement, "--out", tmp_path / "file"), 2)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_disk_that_refuses_leaves_no_half_of_a_file(copriv, agreement, tmp_path, monkeypatch):
    def refuse(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", refuse)
    error = one_line(copriv("simulate", agreement, "--runs", 1, "--out", tmp_path / "out"), 1)
    assert "No space left" in error
    assert list((tmp_path / "out").iterdir()) == []


def test_a_process_says_one_line_and_nothing_else(agreement):
    agreement.write_text(agreement.read_text().replace("horizon = 100", "horizon = 0"))
    done = subprocess.run(
        [sys.executable, "-c", "from copriv.cli import main; main()", "simulate", str(agreement), "--json"],
        capture_output=True, text=True, env={**os.environ, "COLUMNS": "40"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "agreement.horizon" in done.stderr


@pytest.mark.parametrize("group", [(), ("data",), ("ledger",)])
def test_a_group_without_a_command_shows_what_there_is(copriv, group):
    done = copriv(*group)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: copriv")
    assert "\nCommands:\n" in done.err
