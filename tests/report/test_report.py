"""The report says what the ledger says, shows what does not fit, and takes no number from records."""

import json
import math
import re
import shutil
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copriv.agreement import Agreement
from copriv.cli import run as copriv
from copriv.errors import InvalidInput, UsageError
from copriv.forecast.result import terms_told
from copriv.network.store import RunStore
from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.file import LedgerFile
from copriv.privacy.ledger.read import verify
from copriv.report import RunFile, document, page
from copriv.report.evidence import not_covered, read_ledger
from network_parties import agreement
from report_parties import OWNER, Left, run_left_behind, with_record

PUBLIC = {"rows": 500, "estimate": 0.0123, "low": 0.0011, "high": 0.0234}
FORECAST = {
    "queries": 9, "answers": {OWNER: 3}, "epsilon": {OWNER: 1.0},
    "relative_fitness": {"mean": 0.0456, "median": 0.04, "low": 0.011, "high": 0.0991},
}  # fmt: skip


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return run_left_behind(
        tmp_path_factory.mktemp("left"), agreement(horizon=9, answers=3), remark="the loans of Lund",
        public=PUBLIC, forecast=FORECAST,
    )  # fmt: skip


@pytest.fixture
def left(honest: Left, tmp_path: Path) -> Left:
    """A copy that may be spoiled."""
    folder = tmp_path / "copy"
    shutil.copytree(honest.folder, folder)
    return Left(folder, honest.agreed, honest.keys)


def told(left: Left, **given: Any) -> dict[str, Any]:
    authority = left.keys["learner"].authority
    made = document(left.ledger, [RunFile.at(left.run)], [left.agreed], authority=authority, **given)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    return made


def test_it_says_whether_joining_pays_in_the_forecasts_words(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    said = f"Whether joining pays is open for {OWNER}: it does with a probability of 45 %."
    mine = {"name": OWNER, "verdict": "open", "probability": 0.45}
    forecast = {
        "schema": "copriv.forecast/1", "goal": "own", "verdict": said, "owners": [mine],
        "terms": {"agreed": terms_told(left.agreed)},
    }  # fmt: skip
    assert told(left)["joining"] is None
    made = told(left, forecast=forecast)
    assert made["joining"] == {"goal": "own", "verdict": said, "owner": {"verdict": "open", "probability": 0.45}}
    text = Read(page(made)).text
    assert f"Does joining pay? {said} For {OWNER}: open; joining pays with a probability of 45 %." in text
    assert "Does joining pay?" not in Read(page(told(left))).text
    other = {**forecast, "terms": {"agreed": terms_told(left.agreed.replace(model={"loss": "huber"}))}}
    with pytest.raises(InvalidInput, match=r"another agreement, by model\.loss"):
        told(left, forecast=other)
    with pytest.raises(UsageError, match="--agreement"):
        document(left.ledger, forecast=forecast)
    without = {key: value for key, value in forecast.items() if key != "terms"}
    for unknown in ({}, without):  # whatever it says would stand in the report
        with pytest.raises(InvalidInput, match="not the JSON of a forecast"):
            told(left, forecast=unknown)
    asked = ["report", str(left.ledger), "--agreement", str(left.folder / "agreement.toml"), "--json", "--forecast"]
    (left.folder / "agreement.toml").write_text(left.agreed.to_toml())
    for text, why in ((json.dumps(forecast), None), ("x,y", "is no JSON"), ("[1, 2]", "not the JSON of a forecast")):
        (left.folder / "forecast.json").write_text(text)
        assert copriv([*asked, str(left.folder / "forecast.json")]) == (0 if why is None else 3)
        heard = capsys.readouterr()
        assert said in heard.out if why is None else why in heard.err


class Read(HTMLParser):
    """What a page shows as text, and which tags and links it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.said: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] != ["style"]:
            self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())


def test_an_honest_run_is_in_order_and_everything_is_said(honest: Left) -> None:
    made = told(honest, witness=honest.own_keys)
    totals = verify(honest.ledger)
    assert (made["ok"], made["problems"], made["owner"]) == (True, [], OWNER)
    assert Fraction(made["budget"]["epsilon"]["exactly"]["spent"]) == totals.spent
    assert Fraction(made["budget"]["epsilon"]["exactly"]["left"]) == 2 - totals.spent
    (run,) = made["runs"]
    assert run["answers"] == {"most": 3, "paid": 3, "released": 3, "lost": 0}
    assert run["compared"] == {
        "alike": 3, "different": 0, "only_ledger": 0, "only_run": 0, "other_point": 0, "other_head": 0,
    }  # fmt: skip
    (learner,) = run["file"]["asked_by"]
    assert (learner["name"], learner["sha256"]) == ("learner", honest.keys["learner"].party.fingerprint)
    text = Read(page(made)).text
    for said in (
        "What left bank-1",
        "answered 3 times in 1 run",
        "50 % is left",
        "at most 3 mean gradients of the squared loss over 200 records, each clipped to 2 in L1",
        "Laplace noise of scale 0.06",
        "one record, replaced by any other; there are 200",
        "holds always",
        honest.keys["learner"].party.fingerprint,
        "its witness beside the keys",
        totals.head,
        "the loans of Lund",
        "The model beside it is the run's.",
        "4.0 % (1.1 % to 9.9 %)",
        "0.11 % to 2.3 %, by 500 public rows",
        "with 2, for example, that is 2,",
        "What this does not cover",
        "docs/proofs/laplace.md",
        "docs/explanation/security.md",
    ):
        assert said in text, said


def test_words_come_before_numbers_and_symbols_last(honest: Left) -> None:
    text = Read(page(told(honest))).text
    places = [text.index(said) for said in ("In words", "The budget", "What left", "The ledger", "In symbols")]
    first = text[: text.index("The budget")]
    assert not set("εδθψΞ") & set(first)
    assert places[0] < places[1] < text.index("Run ") < places[3] < places[4]
    assert "P(M(D) ∈ S) ≤ e^ε" in text[places[4] :]


def test_what_epsilon_means_in_guesses() -> None:
    """Against the best of all tests on two tables: pure noise that reaches the bound (randomised response)."""
    from copriv.report import meaning

    for ε in (0.1, 1.0, 3.0):
        honest = math.exp(ε) / (1 + math.exp(ε))  # randomised response is ε-private, and guesses right so often
        assert meaning(Fraction(ε), Fraction(0))["guess"] == pytest.approx(honest, rel=1e-12)
        δ = 0.01  # with probability δ everything is shown, else randomised response: (ε, δ)-private
        assert meaning(Fraction(ε), Fraction(δ))["guess"] >= δ + (1 - δ) * honest - 1e-12
    assert meaning(Fraction(1), Fraction(0))["factor"] == pytest.approx(math.e)
    nothing = {"epsilon": 0.0, "factor": 1.0, "guess": 0.5, "rare": pytest.approx(0.01), "fails": 0.0}
    assert meaning(Fraction(0), Fraction(0)) == nothing
    assert meaning(Fraction(1000), Fraction(0))["factor"] is None


def test_what_epsilon_means_for_several_records() -> None:
    """Against randomised response that reaches the bound on every one of k records, and Bayes' rule."""
    from copriv.report import meaning

    for ε in (0.1, 1.0, 3.0):
        for k in (1, 2, 5):
            p = math.exp(ε) / (1 + math.exp(ε))
            told, untold = p**k, (1 - p) ** k  # all of k answers say "yes", of somebody of whom all or none are so
            said = meaning(Fraction(ε), Fraction(0), k)
            assert said["epsilon"] == pytest.approx(k * ε)
            assert said["factor"] == pytest.approx(told / untold)
            assert said["guess"] == pytest.approx(told / (told + untold))
            assert said["rare"] == pytest.approx(0.01 * told / (0.01 * told + 0.99 * untold))
    # δ goes along: one record after the other, each step e^ε times what failed before and δ more.
    failed, ε, δ = 0.0, 0.5, 1e-6
    for _ in range(4):
        failed = failed * math.exp(ε) + δ
    assert meaning(Fraction(ε), Fraction(δ), 4)["fails"] == pytest.approx(failed)
    assert meaning(Fraction(900), Fraction(1, 10**6), 3)["fails"] == 1.0


@pytest.mark.parametrize(
    ("terms", "there", "not_there"),
    [
        (
            {"epsilon": 10.0},
            ("by at most 22,000.", "in at most 99.9955 % of cases", "1 in 100 can hold it for 99.56 %", "protects little",
             "with 2, for example, that is 20,", "multiplied or divided by a factor that can be more than a million, and"),
            ("nearly the same", "one person may have 2", "at most more"),
        ),
        (
            {"epsilon": 10.0, "unit_records": 3},
            ("The agreement says that one person may have 3: that is 30,",), ("for example", "nearly the same"),
        ),
        ({"epsilon": 0.1}, ("by at most 1.11.", "in at most 52.5 % of cases"), ("protects little", "nearly the same")),
    ],
)  # fmt: skip
def test_the_odds_are_said_for_one_record_and_for_several(
    tmp_path: Path, terms: dict[str, Any], there: tuple[str, ...], not_there: tuple[str, ...]
) -> None:
    agreed = agreement(horizon=9, answers=3).replace(owner=terms)
    text = Read(page(told(run_left_behind(tmp_path, agreed, lifetime=Fraction(30))))).text
    for said in there:
        assert said in text, said
    for said in not_there:
        assert said not in text, said


def test_of_a_person_all_records_count_together(honest: Left) -> None:
    """Where the unit is a person, there is no k."""
    from copriv.report import _of_several

    totals = verify(honest.ledger)
    record, person = ({"agreement": {"unit": unit, "unit_records": 4}} for unit in ("record", "person"))
    assert _of_several(totals, [person, {"agreement": None}]) is None
    assert _of_several(totals, [person, record])["epsilon"] == 4.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.5, "50 %"),
        (0.7310585, "73.2 %"),
        (0.99995460, "99.9955 %"),
        (1.0, "100 %"),
        (1 - 1e-12, "100 %"),
        (0.9, "90 %"),
    ],
)
def test_a_share_is_rounded_up_and_never_to_all_of_them_too_early(share: float, said: str) -> None:
    from copriv.report import _sure

    assert _sure(share) == said


def test_an_owners_part_of_a_run_is_verified_by_its_ledger(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["verify", str(left.run), "--keys", str(left.own_keys), "--ledger", str(left.ledger)]
    assert copriv(asked) == 0
    assert f"{OWNER}'s ledger: 3 answers in the run with the same numbers, and 0 that" in capsys.readouterr().out
    assert copriv([*asked, "--json"]) == 0
    part = json.loads(capsys.readouterr().out)["own_part"]
    assert part == {"owner": OWNER, **told(left)["runs"][0]["compared"]}
    lines = left.ledger.read_bytes().splitlines(keepends=True)
    left.ledger.write_bytes(b"".join(lines[:-2]))
    assert copriv([*asked, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"]
    assert (found["own_part"]["alike"], found["own_part"]["only_run"]) == (2, 1)
    assert "signed as this owner's, are not in the ledger" in found["problems"][0]["what"]
    other = left.folder / "other.ledger"
    create_ledger(other, OWNER, left.own_keys, another="nobody's")
    assert copriv([*asked[:-1], str(other)]) == 3
    assert "the ledger knows nothing of it" in capsys.readouterr().out


def test_an_answer_that_was_lost_stays_paid_for_and_is_said(tmp_path: Path) -> None:
    """The last of three answers does not arrive."""
    left = run_left_behind(
        tmp_path, agreement(horizon=9, answers=3), arrives=lambda name, k: (name, k) != (OWNER, 3)
    )  # fmt: skip
    made = told(left, unfinished=True)
    (run,) = made["runs"]
    assert made["ok"]
    assert run["compared"]["only_ledger"] == 1
    assert made["budget"]["epsilon"]["spent"] == 1.0
    assert "1 left this owner and are not in the run's file" in Read(page(made)).text


def test_delta_and_persons_are_said(tmp_path: Path) -> None:
    agreed = agreement(horizon=9, answers=3, delta=1e-6).replace(agreement={"mechanism": "gaussian"})
    left = run_left_behind(tmp_path, agreed)
    made = told(left)
    assert made["ok"]
    assert (made["budget"]["delta"]["spent"], made["budget"]["delta"]["left"]) == (1e-6, 1e-6)
    text = Read(page(made)).text
    assert "may fail with the small probability that is given" in text
    assert "normal noise of standard deviation" in text
    assert "docs/proofs/gaussian.md" in text


# What does not fit ------------------------------------------------------------------------------------------------


def test_a_changed_line_is_said_first_and_ends_with_4(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    lines = left.ledger.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"kind":"charge"', b'"kind":"answer"')
    left.ledger.write_bytes(b"".join(lines))
    made = told(left)
    assert not made["ok"]
    assert not made["ledger"]["whole"]
    assert "line 4" in made["problems"][0]["what"]
    text = Read(page(made)).text
    assert text.index("Not in order") < text.index("In words")
    assert copriv(["report", str(left.ledger), str(left.run), "--out", str(left.folder / "r.html")]) == 4
    assert "NOT in order" in capsys.readouterr().out


def test_an_older_copy_is_noticed_with_the_keys_and_by_the_run(left: Left) -> None:
    lines = left.ledger.read_bytes().splitlines(keepends=True)
    left.ledger.write_bytes(b"".join(lines[:-2]))
    with_keys = told(left, witness=left.own_keys)
    assert "older copy" in with_keys["problems"][0]["what"]
    (run,) = told(left)["runs"]  # without them, the run's file has an answer that the ledger has not
    assert run["compared"]["only_run"] == 1
    assert not told(left)["ok"]


def test_a_run_that_the_ledger_does_not_know_is_a_problem(left: Left) -> None:
    create_ledger(left.folder / "empty.ledger", OWNER, left.folder / "elsewhere")
    made = document(left.folder / "empty.ledger", [RunFile.at(left.run)])
    assert [one["where"] for one in made["problems"]] == ["run"]
    assert "knows nothing of it" in made["problems"][0]["what"]


def test_a_run_file_that_was_changed_ends_with_3(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    import sqlite3

    with sqlite3.connect(left.run) as file:
        file.execute("UPDATE events SET numbers = zeroblob(24) WHERE kind = 'asked' AND data LIKE '%\"turn\": 4,%'")
    file.close()
    made = told(left)
    assert {one["where"] for one in made["problems"]} == {"file"}
    assert not made["runs"][0]["file"]["ok"]
    assert copriv(["report", str(left.ledger), str(left.run), "--out", str(left.folder / "r.html")]) == 3


def test_a_ledger_charged_otherwise_than_agreed_is_a_problem(tmp_path: Path) -> None:
    """One answer cost half of what the agreement takes: the ledger alone cannot tell, the report can."""
    agreed = agreement(horizon=8, answers=4)
    create_ledger(tmp_path / "l", OWNER)
    with LedgerFile.open(tmp_path / "l", OWNER, Fraction(1)) as file:
        file.run(agreed.fingerprint, "r" * 32, Fraction(1), 4).charge("q", np.zeros(3), Fraction(1, 8))
    made = document(tmp_path / "l", [], [agreed])
    assert ["not what the agreement takes" in one["what"] for one in made["problems"]] == [True]


def test_another_learners_authority_is_a_problem(left: Left, tmp_path: Path) -> None:
    from network_parties import keys

    foreign = keys(tmp_path / "foreign")["learner"].authority
    made = document(left.ledger, [RunFile.at(left.run)], authority=foreign)
    assert not made["ok"]
    assert made["runs"][0]["file"]["asked_by"] == []


# What may not be in it --------------------------------------------------------------------------------------------


def numbers(value: Any) -> set[float]:
    if isinstance(value, dict):
        return set().union(*map(numbers, value.values()), set())
    if isinstance(value, list):
        return set().union(*map(numbers, value), set())
    if isinstance(value, str):
        return {float(found) for found in re.findall(r"\d+\.\d+(?:e-?\d+)?", value)}
    return {float(value)} if isinstance(value, int | float) and not isinstance(value, bool) else set()


def test_numbers_of_records_that_stand_in_the_learners_file_are_not_taken(tmp_path: Path) -> None:
    """A learner may sign anything: only the expected and the public numbers are looked at, by their names."""
    public, forecast = PUBLIC | {"private_mean": 0.777123}, FORECAST | {"alone": {OWNER: 0.777123}}
    made = told(run_left_behind(tmp_path, agreement(horizon=9, answers=3), public=public, forecast=forecast))
    assert made["ok"]
    assert 0.777123 not in numbers(made)
    assert "0.777123" not in page(made)


@pytest.mark.parametrize(
    "said",
    [
        {"realised": {"queries": 8, "public": {"estimate": 1e-9}}},
        {"forecast": {**FORECAST, "relative_fitness": {"median": 0.777123}}},
        {"owners": [{"name": OWNER, "spent": 0.777123}]},
        {"personalized_at_home": {"rows": 777, "common_share": 0.777123, "private": False}},
    ],
)
def test_a_number_that_was_not_checked_is_not_repeated(left: Left, said: dict[str, Any]) -> None:
    with_record(left, **said)
    made = told(left)
    assert {one["where"] for one in made["problems"]} == {"file"}
    rows = {row["what"]: row for row in made["runs"][0]["beside"]}
    assert (rows["error"]["forecast"], rows["error"]["realised"], rows["queries"]["forecast"]) == (None, None, None)
    assert not made["runs"][0]["file"]["model"]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "0.5", [1], {}, True, 10**400, None])
def test_what_is_no_number_in_the_learners_file_is_none(tmp_path: Path, bad: Any) -> None:
    forecast = {"queries": bad, "relative_fitness": bad, "epsilon": {OWNER: bad}}
    left = run_left_behind(tmp_path, agreement(horizon=9, answers=3), public=bad, forecast=forecast)
    rows = {row["what"]: row for row in told(left)["runs"][0]["beside"]}
    assert (rows["queries"]["forecast"], rows["epsilon"]["forecast"], rows["error"]["realised"]) == (None, None, None)


def test_no_table_is_opened_and_no_record_is_made(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    import copriv.data.tables
    import copriv.model.records

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a report reads records")

    monkeypatch.setattr(copriv.model.records.Records, "__init__", forbidden)
    monkeypatch.setattr(copriv.data.tables, "read_table", forbidden)
    assert told(left)["ok"]


HOSTILE = "</style></title><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x1b[31m\u202e"


def test_names_of_others_stay_text(tmp_path: Path) -> None:
    agreed = agreement(horizon=9, answers=3).replace(agreement={"name": HOSTILE})
    left = run_left_behind(tmp_path, agreed, remark=HOSTILE)
    store = RunStore.read(left.run)
    store.close()
    for text in (page(told(left)), page(document(left.ledger, [], [], docs="./docs"))):
        read = Read(text)
        assert not {"script", "img", "iframe", "object"} & set(read.tags)
        assert not [name for name, _ in read.attributes if name.startswith("on")]
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "<script" not in text
    assert "alert(1)" in Read(page(told(left))).text


@pytest.mark.parametrize("name", [HOSTILE, "<b>bank</b>", "bank\nNOT a line of its own"])
def test_an_owner_with_a_hostile_name(tmp_path: Path, name: str) -> None:
    create_ledger(tmp_path / "l", name)
    with LedgerFile.open(tmp_path / "l", name, Fraction(2)) as file:
        run = file.run("f" * 64, "r" * 32, Fraction(1), answers=4)
        run.charge("0" * 64, np.zeros(2), Fraction(1, 4))
        run.record("0" * 64, np.zeros(2))
    made = document(tmp_path / "l")
    assert made["ok"]
    read = Read(page(made))
    assert {"b", "script", "img"} & set(read.tags) == set()
    assert read.tags.count("title") == 1
    assert "no agreement was given" in read.text


@pytest.mark.parametrize(
    "docs", ["javascript:alert(1)", "data:text/html,x", "JavaScript:1", " javascript:1", "vbscript:x"]
)
def test_links_lead_nowhere_but_to_documentation(left: Left, docs: str) -> None:
    with pytest.raises(UsageError, match="--docs"):
        document(left.ledger, docs=docs)


def test_the_page_needs_nothing_else(honest: Left) -> None:
    text = page(told(honest, docs="https://copriv.example/docs/"))
    read = Read(text)
    assert not {"script", "link", "img", "iframe"} & set(read.tags)
    assert {value for name, value in read.attributes if name in ("href", "src")} == {
        f"https://copriv.example/docs/{page}" for page in (
            "proofs/laplace.html", "proofs/composition.html", "proofs/index.html", "explanation/security.html",
        )
    }  # fmt: skip
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text


# The command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_a_page_or_json(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "report",
        str(left.ledger),
        str(left.run),
        "--agreement",
        str(left.agreement),
        "--keys",
        str(left.own_keys),
    ]
    assert copriv(given) == 0
    written = left.ledger.with_name("data.ledger.report.html")
    assert f"{written}: all that was checked is in order" in capsys.readouterr().out
    assert "What left bank-1" in Read(written.read_text(encoding="utf-8")).text
    written.unlink()
    assert copriv([*given, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["schema"], made["ok"], written.exists()) == ("copriv.report/1", True, False)
    assert copriv([*given, "--json", "--out", str(written)]) == 0
    assert written.exists()


@pytest.mark.parametrize("read", ["ledger", "run", "agreement"])
@pytest.mark.parametrize("by", ["its name", "a link"])
def test_a_page_is_not_written_over_what_it_is_about(
    left: Left, read: str, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip in --out replaced the ledger, which is the only one."""
    file = out = getattr(left, read)
    before = file.read_bytes()
    if by == "a link":
        out = file.with_name("report.html")
        out.symlink_to(file)
    given = [str(left.ledger), str(left.run), "--agreement", str(left.agreement), "--out", str(out)]
    assert copriv(["report", *given]) == 2
    assert "is read by this command and would be overwritten" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_page_is_for_the_account_that_has_the_ledger(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    assert copriv(["report", str(left.ledger)]) == 0
    assert left.ledger.with_name("data.ledger.report.html").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nothing.ledger"], 1), (["{ledger}", "nothing.db"], 1), (["{ledger}", "--head", "x"], 2),
        (["{ledger}", "--out", "no-such-folder/r.html"], 2), (["{ledger}", "--keys", "no-such-folder"], 3),
        (["{ledger}", "--agreement", "nothing.toml"], 3), (["{ledger}", "--head", "0" * 64], 4), (["{run}"], 4),
        (["{ledger}", "{ledger}"], 1),
    ],
)  # fmt: skip
def test_exit_codes(left: Left, words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    given = [word.format(ledger=left.ledger, run=left.run) for word in words]
    assert copriv(["report", *given]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_an_agreement_of_others_is_said(left: Left) -> None:
    other = Agreement.of(left.agreed.to_dict() | {"owner": [{"name": "else", "records": 5, "epsilon": 1.0}]})
    made = document(left.ledger, [], [other])
    assert made["runs"][0]["agreement"] is None
    assert any(one["title"] == "What was promised" for one in made["not_covered"])


def test_keys_that_the_agreement_does_not_name_are_said(left: Left) -> None:
    def titles(agreed: Agreement) -> list[str]:
        made = document(left.ledger, [RunFile.at(left.run)], [agreed])
        return [one["title"] for one in made["not_covered"]]

    assert "Who the other owners are" in titles(left.agreed)
    held = read_ledger(left.ledger, None, None)
    named = {"run": "r", "file": {}, "agreement": {"own_copy": True, "keys_named": True}}
    assert "Who the other owners are" not in [one["title"] for one in not_covered(held, [named])]


def test_a_run_of_sums_says_that_the_other_owners_have_to_add_their_shares(left: Left) -> None:
    def titles(colluding: int | None) -> list[str]:
        run = {"run": "r", "file": {}, "agreement": {"own_copy": True, "keys_named": True, "colluding": colluding}}
        return [one["title"] for one in not_covered(read_ledger(left.ledger, None, None), [run])]

    assert "Owners that work together" in titles(0)
    assert "Owners that work together" not in titles(None)


def test_a_person_at_several_owners_loses_what_all_of_them_spend(tmp_path):
    """Two owners of ε = 1 that may hold the same people: each spends a half, together they cost such a person 1."""
    left = run_left_behind(tmp_path, agreement(horizon=9, answers=3, overlap=2))
    text = " ".join(Read(page(told(left))).text.split())
    assert (
        "this one spends 1/2 of its budget only; the answers of all of them together may cost such a person ε = 1"
        in text
    )
