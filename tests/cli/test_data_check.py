"""`copriv data check`: what is there, and every problem."""

import json

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


def test_records_that_leave_no_room_are_a_problem(copriv, agreement):
    agreement.write_text(agreement.read_text().replace("public_rows = 500", "public_rows = 9857"))
    done = copriv("data", "check", agreement)
    assert done.code == 3
    assert "data.public_rows" in done.out


def test_a_table_needs_to_know_whose_it_is(copriv, agreement):
    for arguments in (("t.csv", "--agreement", agreement), ("t.csv", "--agreement", agreement, "--owner", "zed")):
        done = copriv("data", "check", *arguments)
        assert done.code == 2
        assert "a, b" in done.err


def test_a_file_that_is_not_there(copriv, agreement):
    agreement.write_text(agreement.read_text().replace("lending-embedded", "lending"))
    done = copriv("data", "check", "gone.csv", "--agreement", agreement, "--owner", "a")
    assert done.code == 3
    assert "gone.csv: there is no such file" in done.out
