"""`copriv data check`: what is there, and every problem."""

import json

import pytest

from copriv.agreement import Agreement
from copriv.agreement.data_terms import data_specification

KEYS = {"name", "agreed", "records", "features", "feature_bound", "target_bound"}


def test_a_good_agreement(copriv, agreement):
    done = copriv("data", "check", agreement)
    assert (done.code, done.err) == (0, "")
    assert "No problems." in done.out
    document = json.loads(copriv("data", "check", agreement, "--json").out)
    assert (document["schema"], document["ok"], document["problems"]) == ("copriv.data-check/1", True, [])
    assert [set(owner) for owner in document["owners"]] == [KEYS, KEYS]
    assert [owner["records"] for owner in document["owners"]] == [1000, 2000]
    assert {owner["features"] for owner in document["owners"]} == {5}


def test_every_problem_has_its_own_line(copriv, agreement, tmp_path):
    (tmp_path / "t.csv").write_text("age,kind,income\n400,x,1\n20,z,2\nnan,x,99\n")
    agreement.write_text(
        agreement.read_text().replace(
            'dataset = "lending-embedded"\ncomponents = 5\npublic_rows = 500',
            'dataset = "table"\npath = "t.csv"\ncomponents = 0\npublic_rows = 1\nfeatures = ["age", "kind", "size"]\n'
            'target = "income"\nbounds = { age = [0, 120], income = [0, 10], size = [0, 1] }\n'
            'categories = { kind = ["x", "y"] }',
        )
    )
    done = copriv("data", "check", agreement)
    assert done.code == 3
    lines = done.out.splitlines()
    for start in ("size: ", "age, row 3: is missing", "age, row 1: is 400", "kind, row 2", "income, row 3"):
        assert sum(line.startswith(start) for line in lines) == 1, start
    assert lines[-1] == "5 problems."
    document = json.loads(copriv("data", "check", agreement, "--json").out)
    assert (document["ok"], len(document["problems"])) == (False, 5)


def test_names_that_a_coordinator_chose_move_no_cursor(copriv, agreement, tmp_path):
    rows = "\n".join(["200,1"] * 3000)
    (tmp_path / "\x1b[2Jt.csv").write_text(f"age\x1b[2K,income\n{rows}\n")
    agreement.write_text(
        agreement.read_text().replace(
            'dataset = "lending-embedded"\ncomponents = 5\npublic_rows = 500',
            'dataset = "table"\npath = "\\u001b[2Jt.csv"\ncomponents = 0\npublic_rows = 1\nfeatures = ["age\\u001b[2K"]\n'
            'target = "income"\nbounds = { "age\\u001b[2K" = [0, 120], income = [0, 10] }\nclamp = ["age\\u001b[2K"]',
        )
    )
    said = copriv("data", "check", agreement)
    assert "\x1b" not in said.out + said.err
    assert "age\\x1b[2K: " in said.out
    source = data_specification(Agreement.load(agreement)).open(1)
    assert source.words.startswith("Records in \\x1b[2Jt.csv")


def test_records_that_leave_no_room_are_a_problem(copriv, agreement):
    agreement.write_text(agreement.read_text().replace("public_rows = 500", "public_rows = 9857"))
    done = copriv("data", "check", agreement)
    assert done.code == 3
    assert "data.public_rows" in done.out


@pytest.mark.parametrize("address", ["postgresql://agent:SECRET@db/loans", "https://agent:SECRET@db/loans.csv"])
@pytest.mark.parametrize("command", [("data", "check"), ("data", "fetch", "creditcard", "--from"), ("init",)])
def test_no_command_repeats_the_password_of_an_address(copriv, address, command):
    done = copriv(*command, address)
    assert done.code != 0
    assert "SECRET" not in done.out + done.err
    assert done.err.count("\n") < 3


def test_a_table_needs_to_know_whose_it_is(copriv, agreement):
    table = ("t.csv", "--agreement", agreement)
    for arguments in (table, (*table, "--owner", "zed"), (agreement, "--owner", "zed")):
        done = copriv("data", "check", *arguments)
        assert done.code == 2
        assert "a, b" in done.err


def test_a_file_that_is_not_there(copriv, agreement):
    agreement.write_text(agreement.read_text().replace("lending-embedded", "lending"))
    done = copriv("data", "check", "gone.csv", "--agreement", agreement, "--owner", "a")
    assert done.code == 3
    assert "gone.csv: there is no such file" in done.out


@pytest.fixture
def consortium(agreement, tmp_path):
    """Every party's files, with tables: what `owner serve` would read."""
    from copriv.agreement import Agreement
    from copriv.network.setup import make_consortium, share_out

    folder = tmp_path / "consortium"
    agreed = make_consortium(Agreement.load(agreement), folder).agreement
    share_out(agreed, folder)
    return folder


def serving(folder, *more):
    own = folder / "a"
    named = ("--agreement", folder / "agreement.toml", "--owner", "a", "--keys", own)
    return ("data", "check", own / "data.parquet", *named, "--ledger", own / "data.ledger", *more)


def test_all_that_an_owner_would_serve_with_is_looked_at(copriv, consortium):
    missing = copriv(*serving(consortium))
    assert missing.code == 3
    assert "there is no such ledger" in missing.out
    assert copriv("ledger", "create", consortium / "a" / "data.ledger", "--keys", consortium / "a").code == 0
    done = copriv(*serving(consortium))
    assert done.code == 0, done.out + done.err
    for said in ("dictionary ", "keys ", "policy ", "ledger: 0 of 1 spent, enough for a run", "No problems."):
        assert said in done.out, said
    document = json.loads(copriv(*serving(consortium, "--json")).out)
    assert len(document["looked_at"]) == 4
    assert document["owners"][0]["feature_bound"] > 0, "the agreed bound, as owners are held to it"


def test_keys_policy_and_ledger_of_another_are_each_a_problem(copriv, consortium, tmp_path):
    (tmp_path / "strict.toml").write_text('[policy]\nrules = ["S1"]\nhighest_epsilon = 0.1\n')
    copriv("ledger", "create", consortium / "b" / "b.ledger", "--keys", consortium / "b")
    table, agreed = consortium / "a" / "data.parquet", consortium / "agreement.toml"
    named = ("data", "check", table, "--agreement", agreed, "--owner", "a", "--keys", consortium / "b")
    done = copriv(*named, "--policy", tmp_path / "strict.toml", "--ledger", consortium / "b" / "b.ledger")
    assert done.code == 3
    for said in ("that of 'b'", "policy.rules", "is the ledger of b, not of a"):
        assert said in done.out, done.out


def test_a_dictionary_that_is_not_there_is_a_problem(copriv, consortium, tmp_path):
    (tmp_path / "alone.toml").write_text((consortium / "agreement.toml").read_text())
    named = ("--agreement", tmp_path / "alone.toml", "--owner", "a")
    done = copriv("data", "check", consortium / "a" / "data.parquet", *named)
    assert done.code == 3
    assert "data.dictionary" in done.out


TABLE = """
[agreement]
rule = "A2"
horizon = 4
answers = 2
step = 0.1
[model]
loss = "squared"
gradient_bound = 2.0
[data]
dataset = "table"
components = 0
feature_bound = 2.0
features = ["a", "b"]
target = "y"
bounds = { a = [-1, 1], b = [-1, 1], y = [-4, 4] }
[[owner]]
name = "a"
records = 40
epsilon = 1.0
"""


def test_a_table_in_a_data_base_is_checked_as_it_would_be_served(copriv, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "table.toml").write_text(TABLE)
    with duckdb.connect(str(tmp_path / "t.duckdb")) as base:
        base.execute("create table t as select i / 50 as a, -i / 50 as b, i / 20 as y, i as n from range(50) r(i)")
    named = ("--agreement", tmp_path / "table.toml", "--owner", "a")
    address = f"duckdb:{tmp_path / 't.duckdb'}"
    done = copriv("data", "check", address, *named, "--query", "select * from t where n < 40")
    assert (done.code, "No problems." in done.out) == (0, True), done.out + done.err
    fewer = copriv("data", "check", address, *named, "--query", "select * from t where n < 7")
    assert fewer.code == 3
    assert "the table has 7" in fewer.out
    outside = copriv("data", "check", address, *named, "--query", "select a, b, y + 3 as y from t where n < 40")
    assert (outside.code, "y, row" in outside.out) == (3, True)
    assert copriv("data", "check", address, *named).code == 3, "a data base needs a query"


def test_a_fault_is_told_once_and_counted_wherever_its_rows_are(copriv, tmp_path):
    """A table is read in pieces: rows count from its first one, and kinds of faults are told in one line each."""
    import pyarrow as pa
    import pyarrow.parquet

    n = 800_000
    cells = {name: [0.0] * n for name in ("a", "b", "y")}
    for row in (5, 399_999, 799_999):
        cells["a"][row], cells["b"][row] = 3.0 + row, None
    pa.parquet.write_table(pa.table(cells), tmp_path / "t.parquet")
    (tmp_path / "table.toml").write_text(TABLE.replace("bounds = {", "clamp = ['y']\nbounds = {").replace("40", f"{n}"))
    done = copriv("data", "check", tmp_path / "t.parquet", "--agreement", tmp_path / "table.toml", "--owner", "a")
    assert done.code == 3
    told = done.out.splitlines()
    assert told[-3].startswith("a, row 6 (and 2 more rows): is 8, above its declared bound 1"), done.out
    assert told[-2].startswith("b, row 6 (and 2 more rows): is missing"), done.out
    assert told[-1] == "2 problems."


def test_what_an_owner_may_take_is_checked_as_serve_decides_it(copriv, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y,who\n" + "0.5,0.5,1,x\n" * 40)
    (tmp_path / "table.toml").write_text(TABLE)
    checked = ("data", "check", tmp_path / "t.csv", "--agreement", tmp_path / "table.toml", "--owner", "a", "--memory")
    for allowed, how in (("1", "does not hold"), ("100000", "holds")):
        done = copriv(*checked, allowed)
        assert done.code == 0, done.out
        assert f"{how} them under {allowed} MB" in " ".join(done.out.split())
    (tmp_path / "table.toml").write_text(TABLE + 'unit = "who"\nunit_records = 40\n')
    refused = copriv(*checked, "1")
    assert refused.code == 3
    assert "raise the memory limit (--memory)" in refused.out
