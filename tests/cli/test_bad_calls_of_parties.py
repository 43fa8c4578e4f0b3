"""Bad calls of parties that have keys, a ledger, a model and a forecast: what is wrong is said, with what to do; no traceback.

As `test_bad_inputs_table`, for commands whose other arguments are right.
"""

import json
import os
import re
from pathlib import Path

import pytest

import finished_runs
from copriv.cli import run

TERMS = """[agreement]
rule = "S2"
horizon = 5
step = 1.0
[model]
loss = "squared"
gradient_bound = 1.0
[data]
public = "people.csv"
components = 0
feature_bound = 1.0
features = ["age"]
target = "income"
bounds = {age = [0, 120], income = [0, 10]}
""" + "".join(f'[[owner]]\nname = "{name}"\nrecords = 2\nepsilon = 1.0\n' for name in "ab")
SERVE = "owner serve --agreement net/agreement.toml --data two.csv --ledger a.ledger --keys net/a"
# What is typed, the exit code, and what must be said.
CALLS = {
    "a stranger's strata": ("init x.toml --columns people.csv --is-public --strata nobody", 3, "has no column 'nobody'"),
    "public and private": ("init x.toml --columns people.csv --is-public --is-private", 2, "does not go with --is-private"),
    "columns of nothing": ("init x.toml --columns empty.csv --is-public", 3, "is empty, or a header alone"),
    "columns of a folder": ("init x.toml --columns net --is-public", 3, "net: is a folder"),
    "columns of no table": ("init x.toml --columns file --is-public", 3, "a file without an ending"),
    "strata without columns": ("init x.toml --strata who", 2, "goes with --columns"),
    "a request that is not there": ("init --network own.toml n --request no.pem", 3, "give the owner's request.pem"),
    "a request that is an agreement": ("init --network own.toml n --request own.toml", 3, "is no signing request"),
    "renewing no consortium": ("init folder --renew", 3, "has no authority"),
    "a target below 0": ("forecast own.toml --target -5%", 2, "write it as 2% or 0.02"),
    "a target that is none": ("forecast own.toml --target nan", 2, "write it as 2% or 0.02"),
    "runs a half": ("simulate own.toml --runs 1.5", 2, "whole number"),
    "a market without statements": ("market own.toml", 3, "states neither what privacy costs it nor"),
    "a market of another kind": ("market own.toml --mechanism cheapest", 2, "must be one of shapley, equal, common, posted"),
    "a lot beyond the records": ("market lot.toml", 3, "give at most 2, or leave lot out"),
    "a market of no runs": ("market own.toml --runs 0", 2, "--runs"),
    "a market below a file": ("market own.toml --out file/x", 2, "file is a file"),
    "a page on no address": ("ui own.toml --host nonsense --no-browser", 2, "is no address that this machine alone"),
    "a page for others": ("ui own.toml --host 0.0.0.0 --no-browser", 2, "add --exposed if you mean it"),
    "a gallery that is not there": ("ui own.toml --figures nope --no-browser", 2, "nope"),
    "a port too high": ("ui own.toml --port 99999 --no-browser", 2, "65535"),
    "keys in a file": ("owner keys own.toml", 2, "is a file"),
    "a ledger that is not there": (f"{SERVE} --ledger no.ledger", 4, "copriv ledger create"),
    "data that are not there": (f"{SERVE} --data no.csv", 3, "no.csv: there is no such file"),
    "a table of another size": (f"{SERVE} --data people.csv", 3, "60"),
    "another owner's keys": (f"{SERVE} --keys net/b", 4, "b"),
    "no keys": (f"{SERVE} --keys folder", 3, "ask the coordinator for this party's files"),
    "a learner that is no address": (f"{SERVE} --learner nowhere", 2, "must be HOST:PORT"),
    "a policy of another kind": (f"{SERVE} --policy own.toml", 3, "a policy file has one table, [policy]"),
    "a data base of another kind": (f"{SERVE} --data mysql://x/y --query q", 3, "postgresql"),
    "a learner with an owner's keys": ("learner net/agreement.toml --store s --keys net/a", 3, "the learner's own keys"),
    "a store that is a table": ("learner net/agreement.toml --store people.csv --keys net/learner --resume", 1, "a new file"),
    "a verdict of nobody": ("owner verdict own.toml --name no --data two.csv", 3, "which names a, b"),
    "a verdict of another's table": ("owner verdict own.toml --name a --data people.csv", 3, "give its own table"),
    "a verdict by a list": ("owner verdict own.toml --name a --data two.csv --forecast list.json", 3, "not the JSON of a"),
    "a verdict by a model": ("owner verdict own.toml --name a --data two.csv --model model.json", 3, "another agreement"),
    "a table without the target": ("owner personalize model.json --data noy.csv --out p.json", 3, "has no such column"),
    "over the model that is read": ("owner personalize model.json --data ab.csv --out model.json", 2, "would be overwritten"),
    "a run that is an agreement": ("owner learn own.toml --name a --data two.csv --out l.json", 1, "not the whole file of"),
    "a second ledger": ("ledger create c.ledger --keys net/a", 4, "has a ledger already"),
    "a ledger that is cut": ("ledger verify cut.ledger", 4, "restore its newest copy"),
    "a head too short": ("ledger adopt a.ledger --keys net/b --head 00", 2, "64 hexadecimal digits"),
    "a report on a table": ("report people.csv", 4, "give the path of an owner's ledger"),
    "a report into nowhere": ("report a.ledger --out nowhere/x.html", 2, "there is no folder nowhere"),
    "a prediction into a folder": ("predict model.json ab.csv --out folder", 2, "give the name of a file in it"),
    "a prediction out of bounds": ("predict model.json out.csv", 3, "above its declared bound"),
    "a model that is cut": ("predict cut.json ab.csv", 3, "give the file that copriv learner wrote"),
    "an export of too many parameters": ("export long.json --skops x", 3, "has 3 parameters, the table gives 2 features"),
    "an export by another's dictionary": ("export strange.json --skops x", 3, "made for 3 columns, the table has 2"),
    "an export of no usable model": ("export huge.json --skops x", 3, "the agreed theta_max is 10"),
    "a prediction by no usable model": ("predict huge.json ab.csv", 3, "the agreed theta_max is 10"),
    "a model of words": ("export words.json --skops x", 3, "words.json: "),
    "an export to nowhere": ("export model.json", 2, "say where to"),
    "an export into no folder": ("export model.json --skops nowhere/x", 2, "there is no folder nowhere"),
    "a run that is a ledger": ("verify a.ledger", 1, "is not the whole file of a run"),
    "an authority that is not there": ("verify no.run --authority no.pem", 3, "give the authority's certificate"),
}  # fmt: skip


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """A consortium's files, a ledger, a finished model, and tables."""
    folder, before = tmp_path_factory.mktemp("parties"), Path.cwd()
    os.chdir(folder)
    Path("own.toml").write_text(TERMS)
    stated = "\nmarket = {worth = 1.0, privacy_cost = {linear = 1.0}}\nlot = 5"
    Path("lot.toml").write_text(TERMS.replace("epsilon = 1.0", f"epsilon = 1.0{stated}"))
    Path("people.csv").write_text("age,income,who\n" + "".join(f"{20 + i},{i % 7},{'ab'[i % 2]}\n" for i in range(60)))
    Path("two.csv").write_text("age,income\n20,1\n30,2\n")
    Path("ab.csv").write_text("a,b,y\n0.1,0.2,1\n0.3,0.5,2\n")
    Path("out.csv").write_text("a,b,y\n0.1,0.2,1\n0.3,5,2\n")
    Path("noy.csv").write_text("a,b\n0.1,0.2\n")
    Path("empty.csv").touch()
    Path("file").write_bytes(bytes(range(256)))
    Path("list.json").write_text("[]")
    Path("folder").mkdir()
    assert run(["init", "--network", "own.toml", "net"]) == 0
    assert run(["ledger", "create", "a.ledger", "--keys", "net/a"]) == 0
    Path("cut.ledger").write_bytes(Path("a.ledger").read_bytes()[:-5])
    text = finished_runs.model().to_json()
    Path("model.json").write_text(text)
    Path("cut.json").write_text(text[:200])
    dictionary = {"schema": "copriv.dictionary/1", "mean": [0.0] * 3, "matrix": [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]}
    for name, part in (
        ("long", {"theta": [0.1] * 3}),
        ("words", {"theta": ["a"]}),
        ("huge", {"theta": [1e308, 0.1]}),
        ("strange", {"dictionary": dictionary}),
    ):
        Path(f"{name}.json").write_text(json.dumps(json.loads(text) | part))
    os.chdir(before)
    return folder


@pytest.mark.parametrize("case", CALLS)
def test_bad_calls_of_parties(copriv, ground, monkeypatch, case):
    typed, code, said = CALLS[case]
    monkeypatch.chdir(ground)
    done = copriv(*typed.split())
    assert (done.code, said in done.err) == (code, True), done.err
    last = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(last) == 1
    assert len(done.err.splitlines()) <= 24
    assert not re.search(r"Traceback|Warning|Input should|pydantic|Errno", done.err)
