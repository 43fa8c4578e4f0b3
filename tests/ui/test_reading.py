"""A ledger that is whole is said to be, one that was touched is not, and what is no ledger is refused in words."""

import inspect
import json
import re
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from copriv import network
from copriv.errors import InvalidInput
from copriv.network.verify import verify_run
from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.ledger.lines import START, Entry, Totals
from copriv.report import document, page
from copriv.ui.gallery import VERDICTS, Gallery
from copriv.ui.reading import opened, report
from copriv.ui.shell import as_json, texts
from copriv_papers import BEYOND, FIGURES
from network_parties import agreement, keys
from report_parties import OWNER, run_left_behind, with_record
from signed_run import damaged, signed_run


def test_a_whole_ledger(ledger):
    found = opened([ledger])
    assert (found["kind"], found["problems"], found["owner"]) == ("ledger", [], "<b>bank</b>")
    assert (found["lifetime"], found["spent"]) == (2.0, 0.75)
    assert [run["answers"] for run in found["runs"]] == [3]
    assert [line["kind"] for line in found["lines"]].count("charge") == 3
    assert not any("content" in line for line in found["lines"])


def test_a_ledger_that_was_touched(ledger):
    lines = ledger.split(b"\n")
    without = b"\n".join(lines[:3] + lines[4:])
    assert [one["line"] for one in opened([without])["problems"]] == [5]
    charge = next(i for i, line in enumerate(lines) if b'"charge"' in line)
    changed = b"\n".join([*lines[:charge], lines[charge].replace(b"1/4", b"1/8"), *lines[charge + 1 :]])
    found = opened([changed])
    assert [one["line"] for one in found["problems"]] == [charge + 1]
    assert "does not continue" in found["problems"][0]["what"]
    assert len(found["lines"]) == len(lines) - 1  # what follows is shown all the same
    unreadable = opened([b"\n".join([*lines[:4], b"{", *lines[5:]])])
    assert [one["line"] for one in unreadable["problems"]] == [5]


def test_an_older_copy_of_a_ledger_is_noticed_by_a_head_that_was_written_down(ledger):
    head = opened([ledger])["head"]
    assert opened([ledger], head)["problems"] == []
    older = b"".join(line + b"\n" for line in ledger.split(b"\n")[:-3])
    assert opened([older])["problems"] == []
    assert "older copy" in opened([older], head)["problems"][0]["what"]


def test_what_is_paid_ahead_or_was_spent_before_is_told(tmp_path):
    path = tmp_path / "a.ledger"
    create_ledger(path, "a")
    with LedgerFile.open(path, "a", Fraction(2), ahead=3) as file:
        run = file.run("f" * 64, "r" * 32, Fraction(1), answers=4)
        for i in range(2):
            run.charge(f"{i:064x}", np.zeros(2), Fraction(1, 4))
            run.record(f"{i:064x}", np.zeros(2))
        found, totals = opened([path.read_bytes()]), file.totals
    assert found["ahead"] == float(totals.ahead) > 0
    assert found["runs"][0]["spent"] == found["timeline"][-1][1] == float(totals.committed) > found["spent"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path, agreed, held = signed_run(tmp_path_factory.mktemp("run"))
    return path, agreed, held["learner"].authority


def test_a_run_is_verified_as_by_the_command_line(finished):
    path, agreed, authority = finished
    alone = opened([path.read_bytes()])
    assert (alone["kind"], alone["problems"], alone["status"]) == ("run", [], "finished")
    assert (alone["rounding"], alone["queries"]) == (0, 8)
    assert not any(alone["from_elsewhere"].values())
    verdict = verify_run(path)
    assert (alone["head"], alone["run"]) == (verdict.head, verdict.run)
    assert {one["name"]: one["answers"] for one in alone["runs"]} == verdict.answers
    held = opened([agreed.to_toml().encode(), path.read_bytes(), authority], alone["head"])
    assert held["problems"] == []
    assert held["from_elsewhere"] == {"agreement": True, "authority": True, "model": False, "head": True}


def test_a_run_that_did_not_finish_is_shown_and_gets_no_report_with_its_model(tmp_path):
    left = run_left_behind(tmp_path, agreement(horizon=9, answers=3), arrives=lambda name, k: (name, k) != (OWNER, 3))
    with_record(left, owners=[])
    files = [left.ledger.read_bytes(), left.run.read_bytes(), left.model.read_bytes()]
    assert opened(files)["kind"] == "ledger"
    with pytest.raises(InvalidInput, match="did not finish"):
        report(files)
    assert "What left" in report(files[:2])


def test_lines_of_a_run_show_no_signature_and_no_certificate(finished):
    path, _, _ = finished
    found = opened([path.read_bytes()])
    text = json.dumps(found["lines"])
    assert "CERTIFICATE" not in text
    assert not any("signature" in line or "gradient" in line for line in found["lines"])
    assert next(line for line in found["lines"] if line["kind"] == "asked")["owners"]


def test_a_run_that_was_touched_is_said_to_be_wrong_with_its_line(finished, tmp_path):
    path = tmp_path / "run.db"
    path.write_bytes(finished[0].read_bytes())
    found = opened([damaged(path)])
    expected = verify_run(path).problems
    assert [(one["line"], one["what"]) for one in found["problems"]] == [(one.line, one.what) for one in expected]
    assert found["problems"][0]["line"] > 1


def test_a_run_of_another_agreement_or_authority_is_noticed(finished, tmp_path):
    path, agreed, _ = finished
    other = agreed.replace(agreement={"step": 1.0})
    assert "fingerprints differ" in opened([path.read_bytes(), other.to_toml().encode()])["problems"][0]["what"]
    stranger = keys(tmp_path)["learner"].authority
    assert any("authority" in one["what"] for one in opened([stranger, path.read_bytes()])["problems"])
    assert opened([path.read_bytes()], "1" * 64)["problems"]


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 0.0, '', '', '' FROM n"


def test_a_file_that_holds_a_program_is_refused_before_it_runs(finished, tmp_path):
    path = tmp_path / "run.db"
    path.write_bytes(finished[0].read_bytes())
    damaged(path, "DROP TABLE events")
    with pytest.raises(InvalidInput, match="no learner writes"):
        opened([damaged(path, f"CREATE VIEW events (number, time, kind, data, hash) AS {ENDLESS}")])


STRANGE = [
    {"kind": "stepped", "k": "x"}, {"kind": "stepped", "k": 10**400}, {"kind": "asked", "participant": 0.0},
    {"kind": "asked", "participant": [1]}, {"kind": "stepped", "owners": "abc", "dropped": {"a": 1}},
    {"kind": "refused", "owner": {"<b>": 1}, "reason": "\ud800"}, {"kind": "\ud800<b>"}, [], 3, None,
]  # fmt: skip


@pytest.mark.parametrize("said", STRANGE)
def test_a_line_that_says_anything_is_shown_as_text_or_not_at_all(finished, tmp_path, said):
    path = tmp_path / "run.db"
    path.write_bytes(finished[0].read_bytes())
    kind = said.get("kind", "stepped") if isinstance(said, dict) else "stepped"
    with closing(sqlite3.connect(path)) as file:
        line = (json.dumps(said), kind.encode("ascii", "replace").decode())
        file.execute("UPDATE events SET data = ?, kind = ? WHERE number = 20", line)
        file.commit()
    found = opened([path.read_bytes()])
    assert found["problems"][0]["line"] == 20
    as_json(found)
    for line in found["lines"]:
        assert all(isinstance(value, int | float | str | list) for value in line.values())
        assert all(isinstance(name, str) for key in ("owners", "dropped") for name in line.get(key, []))


@pytest.mark.parametrize("time", [1e300, -1e300, float("inf")])
def test_a_time_beyond_all_is_drawn_nowhere(finished, tmp_path, time):
    path = tmp_path / "run.db"
    path.write_bytes(finished[0].read_bytes())
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE events SET time = ?", (time,))
        file.commit()
    found = opened([path.read_bytes()])
    assert found["problems"]
    assert found["timeline"] == []
    as_json(found)


def test_a_ledger_with_a_number_beyond_all_is_read_up_to_it():
    first = Entry("ledger", identity="a").after(0, START)
    budget = Entry("lifetime", identity="a", epsilon=Fraction(10**400)).after(1, first.hash)
    ledger = first.to_bytes() + budget.to_bytes()
    found = opened([ledger])
    assert [one["line"] for one in found["problems"]] == [2]
    assert "beyond all numbers" in found["problems"][0]["what"]
    as_json(found)
    assert "Not in order" in report([ledger])


def test_files_that_do_not_belong_together_are_refused_in_words(finished, ledger):
    run = finished[0].read_bytes()
    for contents, said in (
        ([run, run], "two files"),
        ([ledger, ledger, run], "two files"),
        ([run, b"-----BEGIN PRIVATE KEY-----\nabc"], "private key"),
        ([run, b"[agreement]\nrule = 3"], "agreement that was given"),
        ([], "no ledger"),
    ):
        with pytest.raises(InvalidInput, match=said):
            opened(contents)


def test_the_report_is_that_of_the_command_line(ledger, tmp_path):
    path = tmp_path / "bank.ledger"
    path.write_bytes(ledger)
    made, expected = report([ledger], names=["bank.ledger"]), page(document(path))
    minute = r"\d\d:\d\d(:\d\d)?"
    assert re.sub(minute, "", made) == re.sub(minute, "", expected)
    assert "<b>bank</b>" not in made
    assert "bank.ledger" in made
    for name in ("../../etc/passwd", "", ".", "..", "x" * 500, "a\0b", "<b>.ledger"):
        assert "What left" in report([ledger], names=[name])
    with pytest.raises(InvalidInput, match="choose it too"):
        report([])


def test_a_run_that_the_ledger_did_not_pay_for_is_a_problem_of_the_ledger(ledger, finished):
    found = opened([ledger, finished[0].read_bytes()], names=["bank.ledger", "run.db"])
    assert (found["kind"], found["beside"]) == ("ledger", 1)
    assert found["problems"]
    assert all("/" not in one["what"].split(" ")[0] for one in found["problems"])


def test_every_kind_of_line_has_a_text():
    source = "".join(path.read_text() for path in Path(network.__file__).parent.glob("*.py"))
    kinds = set(re.findall(r"""\.event\(\s*"(\w+)\"""", source)) | {"finished", "stopped", "paused", "resumed"}
    assert len(kinds) >= 15
    assert {f"event.{kind}" for kind in kinds} <= texts("en").keys()
    ledger_kinds = re.findall(r'case "(\w+)"', inspect.getsource(Totals._count))
    assert len(ledger_kinds) >= 7
    assert {f"read.line.{kind}" for kind in ledger_kinds} <= texts("en").keys()


NOTHING = [b"", b"\x00" * 100, b"{}", b'{"record": {"owners": 3}}', b"SQLite format 3\x00" * 9, b"a,b\n1,2\n"]


@pytest.mark.parametrize("content", [*NOTHING, b"[" * 100_000, b'{"a":' * 50_000])
def test_what_is_no_ledger_is_refused_in_words(content):
    with pytest.raises(InvalidInput, match=r"no ledger|no run"):
        opened([content])


def test_a_model_file_shows_its_run():
    content = b'{"record": {"run": "abc", "status": "finished", "owners": [{"name": "a", "answers": 2, "spent": 1.0}]}}'
    assert opened([content])["runs"][0]["name"] == "a"


def test_the_gallery_shows_every_figure_and_only_pictures_of_figures():
    gallery = Gallery()
    shown = [(one["id"], one["source"], one["title"], one["claim"]) for one in gallery.figures()["figures"]]
    assert shown == [(one.identity, one.source, one.title, one.claim) for one in (*FIGURES, *BEYOND)]
    assert gallery.picture("sync-fig2").name == "sync-fig2.png"
    assert gallery.picture("../../../README") is None


def test_the_gallery_says_what_the_documentation_says():
    """Of every figure that was made: the verdict and each number, from the file that the page's command writes.

    A figure that waits for its first making is on neither; each figure of the papers was made.
    """
    gallery = Gallery().figures()
    page = (Path(__file__).parents[2] / "docs" / "gallery.md").read_text(encoding="utf-8")
    if gallery["note"]:
        assert gallery["note"] in page
    sections = dict(re.findall(r'<a id="([\w-]+)"></a>(.*?)(?=<a id="|\Z)', page, flags=re.DOTALL))
    made = [figure for figure in gallery["figures"] if figure["verdict"]]
    assert {one.identity for one in FIGURES} <= sections.keys() == {figure["id"] for figure in made}
    for figure in made:
        assert figure["picture"]
        section = sections[figure["id"]]
        assert f"- **Verdict**: {figure['verdict']}. {figure['why']}\n" in section
        assert f"`{figure['command']}`" in section
        assert figure["compared"]
        for row in figure["compared"]:
            assert all(str(cell) in section for cell in row.values()), row
        assert section.count("\n| ") == len(figure["compared"]) + 2


@pytest.mark.parametrize(
    "content", ["", "[" * 10_000, "[]", "null", "{}", '{"figures": [{"id": [], "verdict": ["<b>"]}]}']
)
def test_what_is_not_at_hand_is_said_to_be_absent(content, tmp_path):
    (tmp_path / VERDICTS).write_text(content)
    figures = Gallery(tmp_path).figures()
    assert len(figures["figures"]) == len((*FIGURES, *BEYOND))
    assert not any(figure["picture"] or figure["verdict"] for figure in figures["figures"])
