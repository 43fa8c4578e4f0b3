"""Files and calls that are broken on purpose: keys, ledgers, runs, models, policies, tables, addresses, exports.

One good copy of each is made once, and a row says what is broken of it and what is typed. Each is refused with a documented
exit code, within seconds, on one screen, and by words that say what to do; never a traceback.
"""

import json
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from copriv.cli import run
from finished_runs import model, of_every_kind, rows_of_every_kind
from network_parties import agreement, keys
from report_parties import run_left_behind

CODES = {1, 2, 3, 4, 5}
TO_DO = re.compile(
    r"\b(give|name|write|make|add|correct|choose|restore|ask|see|declare|fill|export|save|use|raise|leave|start|let|take|agree"
    r"|pip install|replace|lower|print|begin|clamp|must be|did you mean|goes with|check|set|rename|renew|reads)\b|--help",
    re.IGNORECASE,
)
"""What a message has that says what to do, or what would be right."""


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A run that was left behind, with keys; models, tables and policies."""
    folder = tmp_path_factory.mktemp("good")
    left = run_left_behind(folder, agreement(horizon=9, answers=3))
    (folder / "agreement.toml").write_text(left.agreed.to_toml())
    own = of_every_kind().agreement.replace(data={"feature_bound": 2.0})
    (folder / "own.toml").write_text(own.to_toml())
    keys(folder / "net", own.owner_names)
    (folder / "model.json").write_text(of_every_kind().to_json())
    (folder / "classes.json").write_text(of_every_kind("logistic").to_json())
    stopped = replace(model(), record={**model().record, "status": "stopped"})
    (folder / "stopped.json").write_text(stopped.to_json())
    home = replace(model(), record={**model().record, "personalized_at_home": {"private": False}})
    (folder / "home.json").write_text(home.to_json())
    rows_of_every_kind(5).to_csv(folder / "rows.csv", index=False)
    rows_of_every_kind(60).assign(y=1.0).to_csv(folder / "whole.csv", index=False)
    (folder / "policy.toml").write_text("[policy]\nhighest_epsilon = 1.0\n")
    (folder / "folder").mkdir()
    return folder


@pytest.fixture
def place(good, tmp_path, monkeypatch):
    folder = tmp_path / "here"
    shutil.copytree(good, folder)
    monkeypatch.chdir(folder)
    return folder


def swapped(old, new):
    """A file with one text in another's place."""

    def edit(path):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return edit


def with_value(*keys, value):
    """A JSON file with another value at a place; DROPPED: without it."""

    def edit(path):
        document = json.loads(path.read_text())
        inner = document
        for key in keys[:-1]:
            inner = inner[key]
        if value is DROPPED:
            del inner[keys[-1]]
        else:
            inner[keys[-1]] = value
        path.write_text(json.dumps(document))

    return edit


def holding(content):
    """A file that holds something else."""
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode())


def shortened(share):
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def cell(column, text):
    """The table with another text in a column's third row."""

    def edit(path):
        head, *rows = [line.split(",") for line in path.read_text().splitlines()]
        rows[2][head.index(column)] = text
        path.write_text("\n".join(",".join(row) for row in [head, *rows]) + "\n")

    return edit


DROPPED = object()
SERVE = (
    "owner serve --agreement own.toml --keys net/a --ledger a.ledger --new-ledger --data rows.csv --learner localhost:1"
)
REPORT = "report data.ledger run.db --agreement agreement.toml --out r.html"
POLICED = SERVE + " --policy policy.toml"
WHOLE = POLICED.replace("rows.csv", "whole.csv")
PREDICT = "predict model.json rows.csv"
LEARN = "learner own.toml --keys net/learner --store new.db --listen 127.0.0.1:0"
GARBAGE = bytes(range(256)) * 8

# The file, what is broken of it, what is typed, the exit code, and what must be said to do.
CASES = {
    "a ledger of any bytes": ("data.ledger", holding(GARBAGE), "ledger show data.ledger", 4, "give the path of an owner's"),
    "a ledger of text": ("data.ledger", holding("notes\n"), "ledger verify data.ledger", 4, "give the path of an owner's"),
    "a ledger that is a list": (
        "data.ledger", holding("[1, 2]\n"), "ledger show data.ledger", 4, "give the path of an owner's"
    ),
    "a ledger with a changed line": (
        "data.ledger", swapped('"kind":"charge"', '"kind":"answer"'), "ledger verify data.ledger", 4, "restore the newest copy"
    ),
    "a ledger that spent more than all": (
        "data.ledger", swapped('"epsilon":"1/3"', '"epsilon":"9/1"'), "ledger verify data.ledger", 4, "restore the newest copy"
    ),
    "a ledger with a fraction of nothing": (
        "data.ledger", swapped('"epsilon":"1/3"', '"epsilon":"1/0"'), "ledger show data.ledger", 4, "restore the newest copy"
    ),
    "a ledger of nothing": ("data.ledger", holding(""), "ledger show data.ledger", 4, "only if there never was one"),
    "a ledger cut short, with its keys": (
        "data.ledger", shortened(0.6), "ledger verify data.ledger --witness bank-1", 4, "restore the newest copy, and"
    ),
    "a ledger against other keys": (
        "data.ledger", None, "ledger verify data.ledger --witness bank-2", 4, "if they were renewed, see that it"
    ),
    "a ledger's head in words": (
        "data.ledger", None, "ledger verify data.ledger --head yesterday", 2, "`copriv ledger show` and `copriv"
    ),
    "a ledger with another head": (
        "data.ledger", None, "ledger verify data.ledger --head " + "0" * 64, 4, "restore the newest copy, and"
    ),
    "a ledger over a ledger": (
        "data.ledger", None, "ledger create data.ledger --keys bank-1", 4, "use it, or restore it. If it is"
    ),
    "a ledger for a learner": ("data.ledger", None, "ledger create new.ledger --keys learner", 3, "give the owner's own keys"),
    "a ledger in no folder": ("data.ledger", None, "ledger create no/new.ledger --keys bank-2", 1, "choose another place"),
    "a key of text": ("net/a/key.pem", holding("secret"), SERVE, 3, "ask the coordinator for it again"),
    "a key that is gone": ("net/a/key.pem", Path.unlink, SERVE, 3, "ask the coordinator for this"),
    "a certificate of text": ("net/a/certificate.pem", holding("me"), SERVE, 3, "ask the coordinator for it again"),
    "a certificate that is gone": ("net/a/certificate.pem", Path.unlink, SERVE, 3, "ask the coordinator for this"),
    "an authority of nothing": ("net/a/ca.pem", holding(""), SERVE, 3, "ask the coordinator for it again"),
    "an authority cut short": ("net/a/ca.pem", shortened(0.5), SERVE, 3, "ask the coordinator for it again"),
    "another owner's key": (
        "net/a/key.pem", lambda path: shutil.copy("net/b/key.pem", path), SERVE, 3, "give the two that were made"
    ),
    "the learner's keys for an owner": (
        "rows.csv", None, SERVE.replace("net/a", "net/learner"), 3, "give the owner's own keys"
    ),
    "an owner's keys for the learner": (
        "rows.csv", None, LEARN.replace("net/learner", "net/a"), 3, "give the learner's own keys"
    ),
    "keys in a file": ("rows.csv", None, SERVE.replace("net/a", "rows.csv"), 2, "dir 'rows.csv' is a file. See"),
    "keys in no folder": ("rows.csv", None, SERVE.replace("net/a", "nowhere"), 3, "ask the coordinator for this"),
    "another owner's name": ("rows.csv", None, SERVE + " --name b", 3, "give its own keys"),
    "the key of an authority for a witness": (
        "rows.csv", None, "ledger verify data.ledger --witness authority", 4, "if they were renewed, see that it"
    ),
    "a policy of nothing": ("policy.toml", holding(""), POLICED, 3, "write it above its keys"),
    "a policy of any bytes": ("policy.toml", holding(GARBAGE), POLICED, 3, "give a TOML file"),
    "a policy that is no TOML": ("policy.toml", holding("[policy"), POLICED, 3, "give a TOML file"),
    "a policy with a key misspelt": (
        "policy.toml", holding("[policy]\nlifetime_epsilom = 1"), POLICED, 3, "did you mean lifetime_epsilon?"
    ),
    "a policy of an hour": (
        "policy.toml", holding('[policy]\nhours = "8-18"'), POLICED, 3, "write two times of a day, such as"
    ),
    "a policy of hour 25": (
        "policy.toml", holding('[policy]\nhours = "08:00-25:00"'), POLICED, 3, "write two times of a day, such as"
    ),
    "a policy that allows nothing": ("policy.toml", holding("[policy]\nlosses = []"), POLICED, 3, "leave the key out to allow"),
    "a policy of less": ("policy.toml", holding("[policy]\nhighest_epsilon = 0.1"), WHOLE, 3, "agree on less, or ask the data"),
    "a policy of other rules": ("policy.toml", holding('[policy]\nrules = ["S1"]'), WHOLE, 3, "ask the data officer"),
    "a policy for more records": ("policy.toml", holding("[policy]\nleast_records = 100000"), WHOLE, 3, "ask the data officer"),
    "a policy that is a folder": ("policy.toml", None, SERVE + " --policy folder", 3, "give a TOML file"),
    "a policy that is not there": ("policy.toml", None, SERVE + " --policy nope.toml", 3, "give a TOML file"),
    "a data base that copriv does not read": (
        "rows.csv", None, SERVE.replace("rows.csv", "mysql://me@host/db") + " --query q", 3, "save the rows as a .csv or"
    ),
    "a table on the web": (
        "rows.csv", None, SERVE.replace("rows.csv", "https://host/rows.csv"), 3, "save the rows as a .csv or"
    ),
    "a data base without a query": (
        "rows.csv", None, SERVE.replace("rows.csv", "duckdb:no.db"), 3, "give one with --query 'SELECT ..."
    ),
    "a data base that is not there": (
        "rows.csv", None, SERVE.replace("rows.csv", "duckdb:no.db") + " --query q", 3, "give duckdb:PATH"
    ),
    "a server that is not there": (
        "rows.csv", None, SERVE.replace("rows.csv", "postgresql://127.0.0.1:1/db") + " --query q", 3, "correct the address"
    ),
    "a learner without a port": (
        "rows.csv", None, SERVE.replace("localhost:1", "localhost"), 2, "must be HOST:PORT with a port of"
    ),
    "a learner at port 0": (
        "rows.csv", None, SERVE.replace("localhost:1", "localhost:0"), 2, "must be HOST:PORT with a port of"
    ),
    "a learner at port 99999": (
        "rows.csv", None, SERVE.replace("localhost:1", "localhost:99999"), 2, "must be HOST:PORT with a port of"
    ),
    "a learner by http": (
        "rows.csv", None, SERVE.replace("localhost:1", "http://localhost"), 2, "must be HOST:PORT with a port of"
    ),
    "listening nowhere": ("rows.csv", None, LEARN.replace("127.0.0.1:0", "nowhere"), 2, "must be HOST:PORT with a port of"),
    "listening at no address of this machine": (
        "rows.csv", None, LEARN.replace("127.0.0.1:0", "256.1.1.1:80"), 5, "give another"
    ),
    "owners that talk at random": ("rows.csv", None, LEARN + " --talk sometimes", 2, "must be choose or broadcast or"),
    "a run that begins later": ("rows.csv", None, LEARN + " --begin later", 2, "must be all or any, not 'later'"),
    "stragglers that are sent home": ("rows.csv", None, LEARN + " --stragglers home", 2, "must be wait or drop, not 'home'"),
    "a deadline of no time": ("rows.csv", None, LEARN + " --deadline 0", 2, "it must be greater than or equal"),
    "going on with no run": ("rows.csv", None, LEARN + " --resume", 3, "begin one without --resume"),
    "a run over a run": ("rows.csv", None, LEARN.replace("new.db", "run.db"), 3, "continue it with --resume, or"),
    "a model that is a folder": ("rows.csv", None, LEARN + " --model folder", 2, "give the name of a file in it"),
    "a pipeline in no folder": ("rows.csv", None, LEARN + " --skops no/model.skops", 2, "make it, or give a path in one"),
    "a model over the agreement": ("rows.csv", None, LEARN + " --model own.toml", 2, "name another file"),
    "a run of any bytes": ("run.db", holding(GARBAGE), "verify run.db", 1, "ask for it again"),
    "a run of nothing": ("run.db", holding(""), "verify run.db", 1, "begin a new one, or use the"),
    "a run cut short": ("run.db", shortened(0.5), "verify run.db", 1, "ask for it again"),
    "a run under another agreement": (
        "agreement.toml", swapped("step = 0.3", "step = 0.4"), "verify run.db --agreement agreement.toml", 3, "Use nothing"
    ),
    "a run and another authority": (
        "rows.csv", None, "verify run.db --authority rows.csv", 3, "1 problem. Use nothing of it, and"
    ),
    "a run whose model was changed": (
        "run.json", with_value("theta", 0, value=9.5), "verify run.db", 3, "1 problem. Use nothing of it, and"
    ),
    "a run with a model beyond theta_max": (
        "run.json", with_value("theta", 0, value=99.0), "verify run.db", 3, "theta_max is 10: no run ends there; ask"
    ),
    "a report on a run": ("rows.csv", None, "report run.db", 4, "give the path of an owner's"),
    "a report with a ledger for a run": ("rows.csv", None, "report data.ledger data.ledger", 1, "ask for it again"),
    "a report with a table for an agreement": (
        "rows.csv", None, "report data.ledger --agreement rows.csv", 3, "correct it, or give another file"
    ),
    "a report with a changed model": ("run.json", holding("{}"), REPORT, 3, "give the file that copriv learner"),
    "a report in no folder": ("rows.csv", None, REPORT.replace("r.html", "no/r.html"), 2, "make it, or give a path in one"),
    "a report with links to scripts": (
        "rows.csv", None, REPORT + " --docs javascript:1", 2, "must be an address or a path that"
    ),
    "a model of nothing": ("model.json", holding(""), PREDICT, 3, "give the file that copriv learner"),
    "a model of any bytes": ("model.json", holding(GARBAGE), PREDICT, 3, "give the file of copriv learner"),
    "a model of a list": ("model.json", holding("[]"), PREDICT, 3, "give the file that copriv learner"),
    "a model of ten thousand brackets": ("model.json", holding("[" * 10_000), PREDICT, 3, "give the file that copriv learner"),
    "a model with a name twice": (
        "model.json", swapped('"schema"', '"schema": 1, "schema"'), PREDICT, 3, "copriv learner writes each once"
    ),
    "a model of another version": (
        "model.json", with_value("schema", value="copriv.model/9"), PREDICT, 3, "use the copriv that wrote it"
    ),
    "a model without parameters": (
        "model.json", with_value("theta", value=DROPPED), PREDICT, 3, "give the file that copriv learner"
    ),
    "a model of too few parameters": ("model.json", with_value("theta", value=[1.0]), PREDICT, 3, "ask for the file as copriv"),
    "a model without end": ("model.json", with_value("theta", value=[1.7e308] * 15), PREDICT, 3, "ask for the file as copriv"),
    "a model of words": ("model.json", with_value("theta", value=["a"]), PREDICT, 3, "model.theta: must be numbers"),
    "a model of nan": ("model.json", with_value("theta", 0, value=float("nan")), PREDICT, 3, "every entry must be finite"),
    "a model with another agreement": (
        "model.json", with_value("agreement", "owner", 0, "epsilon", value=9.0), PREDICT, 3, "ask for the file as copriv"
    ),
    "a model without a run": (
        "model.json", with_value("record", value=DROPPED), PREDICT, 3, "give the file that copriv learner"
    ),
    "a model whose run stopped": (
        "rows.csv", None, "export stopped.json --skops m.skops", 3, "let it finish by copriv learner"
    ),
    "a model with half of a dictionary": (
        "model.json", with_value("dictionary", value={"schema": "x"}), PREDICT, 3, "written as 'x', this version"
    ),
    "a model that is a table": ("rows.csv", None, "predict rows.csv rows.csv", 3, "give the file that copriv learner"),
    "an export to nowhere": ("rows.csv", None, "export model.json", 2, "--skops FILE, --onnx FILE, or"),
    "an export to a folder": ("rows.csv", None, "export model.json --skops folder", 2, "give the name of a file in it"),
    "an export in no folder": ("rows.csv", None, "export model.json --onnx no/m.onnx", 2, "make it, or give a path in one"),
    "an export that cannot be written": (
        "rows.csv", None, "export model.json --skops /proc/m.skops", 2, "ask for the right to, or name a"
    ),
    "an own model for everybody": ("rows.csv", None, "export home.json --mlflow runs", 2, "it is not private and must not"),
    "a report that goes nowhere": (
        "rows.csv", None, "export model.json --onnx m.onnx --report r.html", 2, "give --mlflow, and a file that is"
    ),
    "a table without a column": ("rows.csv", swapped("grade", "mark"), PREDICT, 3, "add it, or correct the schema or"),
    "a table with an unknown level": ("rows.csv", cell("grade", "Z"), PREDICT, 3, "declare the level: data.categories"),
    "a table out of bounds": ("rows.csv", cell("ratio", "9"), PREDICT, 3, "correct it, declare wider bounds"),
    "a table with a day of another country": ("rows.csv", cell("opened", "31.12.2019"), PREDICT, 3, "write it as 2015-12-31"),
    "a table with an empty cell": ("rows.csv", cell("age", ""), PREDICT, 3, "fill it in, leave the row out, or"),
    "a table of any bytes": ("rows.csv", holding(GARBAGE), PREDICT, 3, "save it again as CSV UTF-8, or as"),
    "a table of a header": ("rows.csv", shortened(0.12), PREDICT, 3, "export it again"),
    "a spreadsheet": ("rows.csv", None, "predict model.json rows.xlsx", 3, "give the path of a .csv or"),
    "predictions in no folder": (
        "rows.csv", None, "predict model.json rows.csv --out no/p.csv", 2, "make it, or give a path in one"
    ),
    "predictions over a folder": (
        "rows.csv", None, "predict model.json rows.csv --out folder", 2, "give the name of a file in it"
    ),
    "an own model of an own model": (
        "rows.csv", None, "owner personalize home.json --data rows.csv --out own.json", 3, "give the common model, as copriv"
    ),
    "a ledger adopted by another head": (
        "data.ledger", None, "ledger adopt data.ledger --keys bank-1 --head " + "0" * 64, 4, "restore the newest copy"
    ),
    "a ledger adopted by keys of another": (
        "data.ledger", None, "ledger adopt data.ledger --keys learner --head " + "0" * 64, 3, "give the owner's own keys"
    ),
    "any bytes adopted": (
        "data.ledger", holding(GARBAGE), "ledger adopt data.ledger --keys bank-1 --head " + "0" * 64, 4, "it is no JSON); give"
    ),
    "nothing adopted": ("data.ledger", None, "ledger adopt no.ledger --keys bank-1 --head " + "0" * 64, 1, "give the path of"),
    "a ledger carried over that was none": (
        "data.ledger", None, "ledger create new.ledger --keys bank-2 --carry zzz", 1, "Give the beginning of the identity"
    ),
    "an own model of no run": (
        "rows.csv", None, "owner learn no.db --data rows.csv --out own.json --name bank-1", 1, "no.db: there is no such file"
    ),
    "an own model of a table": (
        "rows.csv", None, "owner learn rows.csv --data rows.csv --out own.json --name bank-1", 1, "ask for it again"
    ),
    "an own model that cannot be written": (
        "rows.csv", None, "owner learn run.db --data rows.csv --out /proc/o.json --name bank-1", 2, "or name a file elsewhere"
    ),
    "an own model of a data base": (
        "rows.csv", None, "owner personalize model.json --data mysql://me:secret@host/db --out own.json", 3, "save the rows as"
    ),
    "an own model of a driver": (
        "rows.csv", None, "owner personalize model.json --data postgresql+psycopg://me:secret@h/d --out own.json", 3,
        "postgresql+psycopg://: is no file's path",
    ),
    "an owner of a driver": (
        "rows.csv", None, SERVE.replace("rows.csv", "postgresql+psycopg://me:secret@h/d") + " --query q", 3, "save the rows as"
    ),
    "predictions of a data base": (
        "rows.csv", None, "predict model.json mysql://me:secret@host/db", 3, "mysql://: is no file's path"
    ),
    "a policy of one rule without a list": ("policy.toml", holding('[policy]\nrules = "A2"'), WHOLE, 3, 'such as ["A2"]'),
    "a policy of a rule that is none": ("policy.toml", holding('[policy]\nrules = ["A9"]'), WHOLE, 3, "'A9' is not known"),
    "a policy of a loss that is none": ("policy.toml", holding('[policy]\nlosses = ["mse"]'), WHOLE, 3, "known are squared"),
    "a policy of a mechanism that is none": (
        "policy.toml", holding('[policy]\nmechanisms = ["magic"]'), WHOLE, 3, "known are laplace"
    ),
    "a policy of a certificate with colons": (
        "policy.toml", holding('[policy]\ncertificates = ["5F:2C"]'), WHOLE, 3, "in lower case and without colons"
    ),
    "a policy of half a fingerprint": ("policy.toml", holding('[policy]\nagreements = ["9b1d"]'), WHOLE, 3, "64 hexadecimal"),
    "a policy of nobody": ("policy.toml", holding('[policy]\nlearner = ""'), WHOLE, 3, "give the name on the learner's"),
    "a policy of the same hour": (
        "policy.toml", holding('[policy]\nhours = "08:00-08:00"'), WHOLE, 3, "leave the key out to answer always"
    ),
    "a verdict of nobody": (
        "rows.csv", None, "owner verdict own.toml --name c --data whole.csv --public whole.csv", 3, "which names a, b"
    ),
    "a verdict by a model for a forecast": (
        "rows.csv", None, "owner verdict own.toml --name a --data whole.csv --forecast model.json", 3, "give the forecast.json"
    ),
    "a verdict before a run, of nothing public": (
        "rows.csv", None, "owner verdict own.toml --name a --data whole.csv", 2, "give its JSON (--forecast), or the public"
    ),
    "a verdict over the table": (
        "rows.csv", None, "owner verdict own.toml --name a --data whole.csv --out whole.csv", 2, "name another file"
    ),
    "an own model from a run with many answers": (
        "rows.csv", None, "owner learn run.db --data rows.csv --out own.json --name bank-1", 3, "agree on one answer"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_broken_is_refused_with_what_to_do(case, place, capfd):
    file, edit, typed, code, said = CASES[case]
    if edit is not None:
        edit(Path(file))
    before = signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(30)
    try:
        found = run(typed.split())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    shown = capfd.readouterr()
    told = shown.out + shown.err
    assert found == code
    assert code in CODES
    assert said in " ".join(told.split())
    assert TO_DO.search(told)
    assert 1 <= len(told.strip().splitlines()) <= 24
    assert not re.search(r"Traceback|pydantic|Input should|E\d{4} |secret@|codec", told)
    assert not any(Path(name).exists() for name in ("m.skops", "m.onnx", "own.json", "r.html", "new.ledger"))


def _hangs(*_):
    raise TimeoutError("a bad input hangs")


def test_there_are_as_many_as_were_asked_for():
    assert len(CASES) >= 120
