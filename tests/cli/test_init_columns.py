"""`copriv init` reads columns from a table: proposals of public rows, names of private ones; what it writes can be used."""

import io
import re
import tomllib

import numpy as np
import pandas as pd
import pytest

from copriv.agreement import Agreement
from copriv.cli import run, wizard
from copriv.cli.wizard import read_column, said_of
from copriv.data.proposal import Proposal
from copriv.errors import AgreementError, DataError, InvalidInput
from copriv.forecast import forecast
from copriv.problem import Problem


def answers(*given):
    """Scripted answers; an empty one takes the default."""
    left, heard = list(given), []

    def ask(question, default):
        heard.append((question, default))
        answer = left.pop(0) if left else ""
        assert answer or default is not None, f"{question} has no default"
        return answer or default

    return ask, heard


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    n = 240
    table = pd.DataFrame({
        "age": rng.integers(18, 88, n), "income": rng.lognormal(10, 0.5, n).round(),
        "stage": rng.choice(["I", "II", "III"], n), "smoker": rng.choice(["yes", "no"], n),
        "opened": pd.date_range("2015-03-01", periods=n, freq="9D").strftime("%Y-%m-%d"),
        "region": rng.choice(["east; west", "north, or so", "south < all"], n),
        "member": [f"m{k // 3}" for k in range(n)], "union": rng.choice(["Valley", "Harbour"], n),
    })  # fmt: skip
    table["rate"] = (5 + table.age / 20 + rng.normal(size=n)).round(2)
    for column in ("income", "stage", "smoker", "opened"):
        table[column] = table[column].astype(object).where(rng.uniform(size=n) > 0.1, "NA")
    table.to_csv("public.csv", index=False)
    table.drop(columns=["rate"]).assign(ill=rng.choice(["ill", "well"], n)).to_csv("classes.csv", index=False)
    return tmp_path


def test_without_a_terminal_all_that_is_proposed_is_taken_and_the_next_commands_go_on(copriv, folder):
    done = copriv("init", "mine.toml", "--columns", "public.csv", "--is-public")
    assert done.code == 0, done.err
    assert "ranges rounded outward" in done.err
    assert "member: left out, for it has 80 different texts" in done.err
    assert "copriv forecast mine.toml --out planned" in done.out  # which writes what the next command takes
    assert "copriv init --network planned/recommended.toml consortium" in done.out
    agreement = Agreement.load("mine.toml")
    assert agreement.data.bounds["age"] == (10.0, 90.0)
    assert agreement.data.dates == {"opened": ("2015-01-01", "2021-12-31")}
    assert agreement.data.ordered == ("stage",)
    assert agreement.data.booleans == ("smoker",)
    assert set(agreement.data.missing) == {"income", "stage", "smoker", "opened"}
    assert (agreement.data.public, agreement.data.target) == ("public.csv", "rate")
    checked = copriv("data", "check", "mine.toml")
    assert (checked.code, "No problems." in checked.out) == (0, True), checked.out
    assert copriv("simulate", "mine.toml", "--runs", 2, "--json").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("table", ["public.csv", "classes.csv"])
def test_what_is_written_can_be_forecast_and_what_is_recommended_simulated(copriv, folder, table):
    assert copriv("init", "mine.toml", "--columns", table, "--is-public").code == 0
    done = copriv("forecast", "mine.toml", "--runs", 20, "--out", "plan")
    assert done.code == 0, done.err
    assert copriv("simulate", "plan/recommended.toml", "--runs", 5).code == 0


@pytest.mark.parametrize("target", ["rate", "age", "union"])
def test_every_target_that_is_offered_gives_an_agreement_with_public_rows(folder, target):
    ask, _ = answers("", "", target)
    agreement = wizard.asked(ask, lambda _: None, folder / "public.csv", True)
    assert agreement.model.loss == ("logistic" if target == "union" else "squared")
    assert Problem.load_public(Agreement.of(tomllib.loads(wizard.written(agreement)))).public.units == 240


@pytest.mark.parametrize("clamp", ["", "yes"])
def test_of_a_private_table_only_names_are_read(folder, monkeypatch, clamp):
    monkeypatch.setattr(wizard, "read_table", lambda *_: pytest.fail("its rows are private"))
    monkeypatch.setattr(wizard, "proposals", lambda *_: pytest.fail("its rows are private"))
    said = []
    ask, heard = answers(
        "", "table", "public.csv", "no", "rate", "age, stage, smoker, opened",
        "0..110; missing 200", "0..110; missing 40", "I < II < III", "yes/no; missing no", "2000-01-01..2030-12-31",
        "0..40", clamp, "", "4", "member",
    )  # fmt: skip
    agreement = wizard.asked(ask, said.append)
    assert any("private, also when they are rounded" in line for line in said)
    assert any("missing counts as 200" in line for line in said), "and it is asked again"
    data = agreement.data
    assert data.features == ("age", "stage", "smoker", "opened")
    assert (data.bounds, data.ordered) == ({"age": (0.0, 110.0), "rate": (0.0, 40.0)}, ("stage",))
    assert data.dates == {"opened": ("2000-01-01", "2030-12-31")}
    assert data.missing == {"age": 40.0, "smoker": "no"}
    assert data.clamp == (("age", "opened", "rate") if clamp else None)
    assert {(owner.unit, owner.unit_records) for owner in agreement.owner} == {("member", 4)}
    assert not any(re.search(r"\d{3}", str(default)) for question, default in heard if "records" not in question)
    assert Agreement.of(tomllib.loads(wizard.written(agreement))).fingerprint == agreement.fingerprint


def test_who_has_no_public_rows_gets_a_pilot(folder):
    ask, _ = answers("", "own", "age, smoker", "rate", "0..110", "yes/no", "0..40", "", "none", "1", "2", "", "900")
    written = wizard.written(wizard.asked(ask, lambda _: None))
    assert "# there are no rows that anybody may read" in written
    assert "planned from public rows" not in written
    agreement = Agreement.of(tomllib.loads(written))
    assert (agreement.data.declared_only, agreement.data.public, agreement.agreement.pilot) == (True, None, "auto")
    (folder / "mine.toml").write_text(written)
    outlook = forecast(folder / "mine.toml", runs=32)
    assert "The pilot, 10 % of every epsilon, first measures" in outlook.pilot_in_words


def test_without_a_terminal_the_column_that_names_owners_is_an_option_and_no_sentence_is_cut(copriv, folder):
    done = copriv("init", "mine.toml", "--columns", "public.csv", "--is-public", "--strata", "union")
    assert done.code == 0, done.err
    agreement = Agreement.load("mine.toml")
    assert (agreement.data.strata, agreement.owner_names) == ("union", ("Harbour", "Valley"))
    assert "union" not in agreement.data.features
    assert "--strata" not in done.err
    done = copriv("init", "other.toml", "--columns", "public.csv", "--is-public")
    assert "if one does, name it: --strata COLUMN" in done.err
    for said in (line.strip() for line in done.err.splitlines()):
        assert re.match(r"Proposed from|\w+: |no column was taken|records and budgets of the owners are", said), (
            "the end of a sentence whose begin is not said"
        )
    assert (
        "is a column of public rows"
        in copriv("init", "--strata", "union", "--columns", "public.csv", "--is-private").err
    )
    assert "--strata: goes with --columns" in copriv("init", "new.toml", "--strata", "union").err


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_names_in_a_table_move_no_cursor_and_begin_no_line(tmp_path, monkeypatch, answer):
    monkeypatch.chdir(tmp_path)
    hostile = {
        "a\x1b[2J": ["x\x1b]0;p\x07", "y\nerror: none"] * 20,
        "b\nerror: none": range(0, 80, 2),
        "\u202ec": range(40, 80),
    }
    pd.DataFrame(hostile).to_parquet("hostile.parquet")
    shown, given = Terminal(), ["", "none", "\u202ec", "", "one by one"]
    if answer == "no":
        given = ["", "\u202ec", "", "x, y", "0..9", "0..9"]
    monkeypatch.setattr("sys.stdin", Terminal("\n".join(given) + "\n" * 90))
    monkeypatch.setattr("sys.stdout", shown)
    public = {"yes": "--is-public", "no": "--is-private"}[answer]
    assert run(["init", "mine.toml", "--columns", "hostile.parquet", public]) == 0
    text = shown.getvalue()
    assert "Wrote mine.toml" in text
    assert not {one for one in text if one != "\n" and not one.isprintable()}
    assert not [line for line in text.splitlines() if line.startswith("error")]
    assert "a\\x1b[2J" in text


def test_of_a_private_table_names_are_listed_and_an_empty_answer_is_told_what_is_missing(folder, monkeypatch):
    """It asked again without a word, for names that stood nowhere; and its steps were numbered 1, 3 and 4."""
    given = ["", "", "rate", "age", "", "0..120", "", "0..20", "no"]
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal("\n".join(given) + "\n" * 90))
    monkeypatch.setattr("sys.stdout", shown)
    assert run(["init", "mine.toml", "--columns", "public.csv", "--is-private"]) == 0
    text = shown.getvalue()
    assert "Its columns: age, income, stage" in text.split("Column to predict")[0]
    assert "say one of: age, income, stage" in text.split("Column to predict")[1]
    assert text.count("say what may stand in it: ") == 2
    assert re.findall(r"^(\d)\. ", text, flags=re.MULTILINE) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("order", [("--is-public", "--is-private"), ("--is-private", "--is-public")])
def test_a_table_is_public_or_private(copriv, folder, order):
    """The last one won, so that ranges of a private table were read."""
    done = copriv("init", "mine.toml", "--columns", "public.csv", *order)
    assert (done.code, "--is-public: does not go with --is-private" in done.err) == (2, True)


def test_public_rows_that_name_owners_name_them_in_the_agreement(folder):
    ask, heard = answers("", "union", "rate")
    agreement = wizard.asked(ask, lambda _: None, folder / "public.csv", True)
    assert agreement.owner_names == ("Harbour", "Valley")
    assert agreement.data.strata == "union"
    assert "union" not in agreement.data.features
    assert not any(question.startswith("Alike") for question, _ in heard), "the public rows say it"
    problem = Problem.load_public(agreement)
    assert problem.strata_names == ("Harbour", "Valley")


def test_a_person_with_several_rows_and_no_column_is_told_what_epsilon_means(folder):
    said = []
    ask, _ = answers("", "", "rate", "", "", "4")
    agreement = wizard.asked(ask, said.append, folder / "public.csv", True)
    assert any("somebody with 4 rows has 4 times the epsilon" in line for line in said)
    assert agreement.owner[0].unit is None


def test_one_row_a_person_is_agreed_only_where_somebody_says_so(folder):
    """Enter stated nothing, and neither did a 1 that was typed: the report took two rows as an example."""
    for typed, agreed in (("", None), ("unknown", None), ("1", 1)):
        ask, _ = answers("", "", "rate", "", "", typed)
        agreement = wizard.asked(ask, lambda _: None, folder / "public.csv", True)
        assert {(owner.unit, owner.unit_records) for owner in agreement.owner} == {(None, agreed)}


def test_each_comment_stands_at_the_line_that_it_is_about(folder):
    ask, _ = answers("", "", "rate", "", "", "4", "member")
    lines = wizard.written(wizard.asked(ask, lambda _: None, folder / "public.csv", True)).splitlines()
    about = {line.split(" = ")[0]: line.split("  # ")[1] for line in lines if "  # " in line}
    assert about == {key: wizard._NOTES[key] for key in about}
    assert {"rule", "public", "bounds", "clamp", "missing", "epsilon", "unit", "unit_records"} <= set(about)
    assert not any(line.startswith("horizon") for line in lines), "it is planned with the rule"


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("0..120", Proposal("x", "bounds", (0.0, 120.0))),
        ("-1.5..2e3; missing 7", Proposal("x", "bounds", (-1.5, 2000.0), missing=7.0)),
        ("2015-01-01..2016-12-31; missing 2015-06-01",
         Proposal("x", "dates", ("2015-01-01", "2016-12-31"), missing="2015-06-01")),
        ("yes/no; missing no", Proposal("x", "booleans", missing="no")),
        ("a, b; missing a", Proposal("x", "categories", ("a", "b"), missing="a")),
        ("I < II < III", Proposal("x", "categories", ("I", "II", "III"), ordered=True)),
    ],
)  # fmt: skip
def test_a_line_declares_a_column_and_a_column_is_said_as_such_a_line(text, declared):
    made = read_column(text, Proposal("x"), target=False)
    assert made == declared
    assert read_column(said_of(made), Proposal("x"), target=False) == made


@pytest.mark.parametrize(
    "text",
    ["", ";", "5", "a", "a, a", "1..0", "nan..inf", "2015-01-01..2014-01-01", "2015-02-30..2016-01-01", "a, b; missing c",
     "0..1; missing 2", "0..1; absent 1", "yes/no; missing perhaps", "0..1; missing"],
)  # fmt: skip
def test_a_line_that_declares_nothing_is_refused(text):
    with pytest.raises((InvalidInput, AgreementError, ValueError)):
        read_column(text, Proposal("x"), target=False)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--columns", "public.csv"), 2, "say --is-public"),
        (("--columns", "public.csv", "--is-private"), 2, "say --is-public"),
        (("--is-public",), 2, "go with --columns"),
        (("--columns", "public.csv", "--is-public", "--strata", "age"), 3, "public.csv has no column 'age' of names"),
        (("--columns", "public.csv", "--is-public", "--template"), 2, "does not go with --template"),
        (("--columns", "nowhere.csv", "--is-public"), 3, "nowhere.csv: there is no such file"),
        (("--columns", "names.csv", "--is-public"), 3, "names.csv: needs a number or two classes to predict"),
    ],
)
def test_what_cannot_be_is_one_line_and_writes_nothing(copriv, folder, arguments, code, says):
    pd.DataFrame({"name": [f"a{k}" for k in range(99)], "x": range(99)}).to_csv("names.csv", index=False)
    done = copriv("init", "mine.toml", *arguments)
    assert (done.code, says in done.err) == (code, True), done.err
    assert "--strata" not in arguments or "Proposed" not in done.err, "what is wrong is said first"
    assert not (folder / "mine.toml").exists()


def test_a_table_that_cannot_be_read_is_asked_for_again(folder):
    said = []
    ask, _ = answers("", "table", "nowhere.csv", "public.csv", "yes", "", "rate")
    assert wizard.asked(ask, said.append).data.target == "rate"
    assert any("there is no such file" in line for line in said)
    with pytest.raises(DataError, match="there is no such file"):
        wizard.asked(ask, said.append, folder / "nowhere.csv", True)
