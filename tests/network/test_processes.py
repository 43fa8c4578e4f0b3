"""Three owners and a learner as four processes, by the commands that docs/how-to/run-a-consortium.md gives."""

import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from copriv.agreement import Agreement
from copriv.cli.commands.demo import demo_network
from copriv.forecast import forecast
from copriv.forecast.phases import to_sign
from copriv.network.model import Model
from copriv.network.setup import load_dictionary, make_consortium, owner_records, share_out
from copriv.network.store import RunStore
from copriv.plan import plan
from copriv.privacy.ledger import LedgerFailed
from copriv.privacy.ledger.read import verify
from copriv.problem import Problem
from copriv.simulation import simulate
from network_processes import Command
from network_replay import assert_same_model, replayed

pytestmark = pytest.mark.network

TERMS = {
    "A1": {"rule": "A1", "horizon": 12, "answers": 4, "step": 3.0},
    "A2": {"rule": "A2", "horizon": 12, "answers": 4, "step": 10000.0},
    "gaussian": {"rule": "A2", "horizon": 12, "answers": 4, "step": 10000.0, "mechanism": "gaussian"},
    "graph": {
        "rule": "S2",
        "horizon": 4,
        "step": 2000.0,
        "iterate": "last",
        "mixing": "auto",
        "tracking": True,
        "graph": [["bank-1", "bank-2"], ["bank-2", "bank-3"]],
    },
    "statistics": {"rule": "A2", "horizon": 3, "answers": 1, "mechanism": "statistics", "moments_share": 0.2},
}
DELTA = {"gaussian": 1e-6}


def lending(rule: str) -> Agreement:
    return Agreement.of(
        {
            "agreement": TERMS[rule],
            "model": {"loss": "squared", "regularization": 1e-5, "theta_max": 1e5, "gradient_bound": 2.0},
            "data": {"dataset": "lending-embedded", "components": 5, "public_rows": 1000},
            "owner": [
                {"name": f"bank-{i}", "records": 2900, "epsilon": 1.0, "delta": DELTA.get(rule, 0.0)} for i in (1, 2, 3)
            ],
        }
    )


class Site:
    """A consortium's folder, and its parties as processes that are always ended."""

    def __init__(self, folder: Path, agreed: Agreement, public: pa.Table | None = None) -> None:
        self.folder = folder / "consortium"
        make_consortium(agreed, self.folder, public)
        if public is None and not agreed.data.declared_only:
            share_out(agreed, self.folder)
        self.agreed = Agreement.load(self.folder / "agreement.toml")
        self.commands: list[Command] = []
        self.address = "127.0.0.1:0"

    def copriv(self, *arguments: object, **settings: str) -> Command:
        self.commands.append(Command(self.folder, self.folder / f"command-{len(self.commands)}", arguments, **settings))
        return self.commands[-1]

    def learner(self, *options: object) -> Command:
        learner = self.copriv(
            "learner", "agreement.toml", "--store", "run.db", "--keys", "learner", "--patience", "40",
            "--listen", self.address, *options,
        )  # fmt: skip
        until = time.monotonic() + 30
        while "; run" not in learner.errors:
            assert learner.running, learner.errors
            assert time.monotonic() < until
            time.sleep(0.01)
        self.address = learner.errors.split("listening at ")[1].split(";")[0]
        return learner

    def owner(self, name: str, *options: object, **settings: str) -> Command:
        return self.copriv(
            "owner", "serve", "--agreement", "agreement.toml", "--data", f"{name}/data.parquet",
            "--keys", name, "--ledger", f"{name}/data.ledger", "--new-ledger", "--learner", self.address, *options,
            **settings,
        )  # fmt: skip

    def end(self) -> None:
        for command in self.commands:
            command.kill()


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(tmp_path, lending(getattr(request, "param", "A2")))
    try:
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("site", ["A1", "A2"], indirect=True)
def test_four_commands_train_what_a_simulation_with_the_same_noise_trains(site: Site) -> None:
    rule = site.agreed.agreement.rule
    talk = {"A1": "broadcast", "A2": "choose"}[rule]
    learner = site.learner(
        "--talk", talk, "--pace", "0.01", "--json", "--skops", "model.skops", "--events", "events", "--forecast-runs", 50,
    )  # fmt: skip
    owners = [site.owner(f"bank-{i}") for i in (1, 2, 3)]
    assert learner.wait(60) == 0, learner.errors
    for owner in owners:
        assert owner.wait(20) == 0, owner.errors
        assert "the run is over" in owner.said
        assert "answers to 'learner'" in owner.errors, "an owner says what it will answer and to whom"
    model = Model.load(site.folder / "run.json")
    assert json.loads(learner.said)["theta"] == model.theta.tolist()
    assert model.record["status"] == "finished"
    assert model.record["queries"] == 12
    beside(model.record)

    problem = Problem.load(lending(rule))
    _, schedule, noise = replayed(site.agreed, site.folder / "run.db", problem.owners)
    same = simulate(problem, runs=1, schedule=schedule, noise=noise, alone=False)
    assert_same_model(model.theta, same.theta[0])

    for i, terms in enumerate(model.record["owners"]):
        totals = verify(site.folder / terms["name"] / "data.ledger")
        assert float(totals.spent) == pytest.approx(terms["spent"])
        assert totals.runs[model.record["run"]].charged == terms["answers"] <= 4
        features = model.features(site.folder / terms["name"] / "data.parquet")
        np.testing.assert_allclose(features, problem.owners[i].features, rtol=1e-12)
    lines = (site.folder / "events").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines].count("stepped") == 12

    import skops.io

    estimator = skops.io.load(site.folder / "model.skops")
    rows = problem.owners[0].features[:50]
    np.testing.assert_allclose(estimator.predict(rows), rows @ model.theta)


@pytest.mark.slow
@pytest.mark.parametrize("site", ["graph"], indirect=True)
def test_owners_on_a_graph_run_as_processes_with_a_relay(site: Site) -> None:
    """The learner relays; each owner's model is that of plain loops over signed answers; a line has planned weights of 1/2."""
    learner = site.learner("--json", "--forecast-runs", 50)
    owners = [site.owner(f"bank-{i}") for i in (1, 2, 3)]
    assert learner.wait(120) == 0, learner.errors
    assert [owner.wait(20) for owner in owners] == [0, 0, 0]
    model = Model.load(site.folder / "run.json")
    models = [owner["model"] for owner in model.record["owners"]]
    assert_same_model(np.mean(models, axis=0), model.theta, within=1e-13)
    assert site.copriv("verify", "run.db", "--model", "run.json").wait(60) == 0
    store = RunStore.resume(site.folder / "run.db", site.agreed)
    given = [(line.data["owner"], line.numbers) for line in store.events("answer")]
    store.close()
    W = np.linalg.matrix_power(np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]]) / 2, 3)
    θ, u = np.zeros((3, len(model.theta))), np.zeros((3, len(model.theta)))
    for k in range(3):
        answers = dict(given[3 * k : 3 * k + 3])
        d = 1e-5 * θ + np.array([answers[f"bank-{i}"] for i in (1, 2, 3)])
        θ, u = W @ (θ - 2000.0 / np.sqrt(k + 1) * (d + u)), W @ (d + u) - d
    assert_same_model(models, θ)


def beside(record: dict[str, Any]) -> None:
    """What was realised, and what was forecast, say the same things about the same agreement."""
    realised, forecast = record["realised"], record["forecast"]
    shared = ("queries", "answers", "epsilon", "delta", "noise_scale")
    assert {key: realised[key] for key in shared} == {key: forecast[key] for key in shared}
    assert forecast["relative_fitness"]["low"] < forecast["relative_fitness"]["high"]
    public = realised["public"]
    assert public["rows"] == 1000
    assert public["relative_fitness"] == pytest.approx(public["fitness"] / public["least_fitness"] - 1)
    assert public["estimate"] < public["relative_fitness"]


@pytest.mark.slow
def test_tables_above_the_memory_limit_are_streamed(tmp_path: Path) -> None:
    """Three commands, on declared columns; bank-1's table is in a data base, and takes more memory than it is allowed.

    Its settings are variables only, as those of `deploy/copriv-owner@.service`.
    """
    duckdb = pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
    n, rng = 5000, np.random.default_rng(0)
    agreed = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 6, "answers": 3, "step": 0.5},
            "model": {"loss": "squared", "regularization": 1e-3, "theta_max": 10.0, "gradient_bound": 2.0},
            "data": {
                "components": 0,
                "feature_bound": 1.5,
                "features": ["a", "b"],
                "target": "y",
                "bounds": {"a": [-1, 1], "b": [0, 10], "y": [-5, 5]},
            },
            "owner": [{"name": f"bank-{i}", "records": n, "epsilon": 1.0} for i in (1, 2)],
        }
    )

    def rows(count: int) -> pa.Table:
        a, b = rng.uniform(-1, 1, count), rng.uniform(0, 10, count)
        return pa.table({"a": a, "b": b, "y": a - 0.2 * b + rng.uniform(-1, 1, count)})

    site = Site(tmp_path, agreed, rows(500))
    for i in (1, 2):
        pa.parquet.write_table(rows(n), site.folder / f"bank-{i}" / "data.parquet")
    try:
        learner = site.learner("--json")
        owners = [site.owner("bank-2", "--memory", "1000")]
        with duckdb.connect(str(site.folder / "bank-1" / "loans.duckdb")) as base:
            base.sql(f"CREATE TABLE loans AS FROM '{site.folder / 'bank-1' / 'data.parquet'}'")
        settings = {
            "AGREEMENT": "agreement.toml", "DATA": "duckdb:bank-1/loans.duckdb", "QUERY": "SELECT y, b, a FROM loans",
            "LEDGER": "bank-1/data.ledger", "KEYS": "bank-1", "LEARNER": site.address, "MEMORY": "0.1", "AHEAD": "2",
        }  # fmt: skip
        assert site.copriv("ledger", "create", **settings).wait(20) == 0
        owners.insert(0, site.copriv("owner", "serve", **settings))
        assert learner.wait(60) == 0, learner.errors
        assert [owner.wait(20) for owner in owners] == [0, 0]
        assert ["read in blocks" in owner.errors for owner in owners] == [True, False]
        model = Model.load(site.folder / "run.json")
        assert model.record["queries"] == 6
        assert model.record["realised"]["public"]["rows"] == 500
        assert model.record["forecast"] is None, "nobody asked for one"
        held = [owner_records(agreed, f"bank-{i}", site.folder / f"bank-{i}" / "data.parquet", None)[0] for i in (1, 2)]
        data, schedule, noise = replayed(site.agreed, site.folder / "run.db", held)
        same = simulate(site.agreed.replace(data={"feature_bound": 0.0}), data, runs=1, schedule=schedule, noise=noise)
        assert_same_model(model.theta, same.theta[0])
    finally:
        site.end()


def test_an_owners_own_file_becomes_the_records_of_the_simulation(site: Site) -> None:
    dictionary = load_dictionary(site.agreed, site.folder / "agreement.toml")
    problem = Problem.load(lending("A2"))
    for i, name in enumerate(site.agreed.owner_names):
        mine, _ = owner_records(site.agreed, name, site.folder / name / "data.parquet", dictionary)
        np.testing.assert_allclose(mine.features, problem.owners[i].features, rtol=1e-12)
        np.testing.assert_array_equal(mine.target, problem.owners[i].target)


def test_a_learner_that_is_killed_goes_on_where_it_was(site: Site) -> None:
    first = site.learner("--talk", "broadcast", "--pace", "0.3")
    owners = [site.owner(f"bank-{i}") for i in (1, 2, 3)]
    until = time.monotonic() + 40
    ledger = site.folder / "bank-1" / "data.ledger"
    while time.monotonic() < until and not (ledger.exists() and ledger.stat().st_size and answered(ledger)):
        time.sleep(0.05)
    first.kill()
    second = site.learner("--resume")
    assert second.wait(60) == 0, second.errors
    assert "finished: all 12 queries are answered" in second.said
    for owner in owners:
        assert owner.wait(20) == 0, owner.errors
    spent = [verify(site.folder / name / "data.ledger") for name in site.agreed.owner_names]
    assert sum(run.charged for totals in spent for run in totals.runs.values()) == 12, "nothing was asked twice"


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ("gaussian", "with normal noise of standard deviation"),
        ("statistics", "one answer at the agreed start: a mean gradient of the squared loss and second moments"),
    ],
    indirect=["site"],
)
def test_other_mechanisms_by_the_same_four_commands(site: Site, said: str) -> None:
    learner = site.learner("--json", "--forecast-runs", 50)
    owners = [site.owner(f"bank-{i}") for i in (1, 2, 3)]
    assert learner.wait(60) == 0, learner.errors
    δ = site.agreed.owner[0].delta
    for owner in owners:
        assert owner.wait(20) == 0, owner.errors
        assert said in owner.errors
        assert (f"delta {δ:g}" in owner.errors) == (δ > 0)
    record = json.loads(learner.said)["record"]
    assert record["forecast"] is not None, learner.errors
    beside(record)
    assert (record["status"], record["mechanism"]) == ("finished", site.agreed.agreement.mechanism)
    for terms in record["owners"]:
        totals = verify(site.folder / terms["name"] / "data.ledger")
        assert (float(totals.spent), float(totals.spent_delta)) == (terms["spent"], terms["spent_delta"]) == (1, δ)
    shown = site.copriv("ledger", "show", "bank-1/data.ledger")
    assert shown.wait(20) == 0, shown.errors
    assert ("delta" in shown.said) == (δ > 0)


@pytest.mark.parametrize("pilot", [0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_owners_without_public_rows_run_what_a_forecast_plans_for_them(tmp_path: Path, pilot: float) -> None:
    """From declared columns alone: plan, pilot, files, run and model; `verify` computes plan and model again from answers."""
    columns = {"features": ["a", "b"], "target": "y", "bounds": {"a": [0, 10], "b": [-1, 1], "y": [0, 100]}}
    wanted = Agreement.of({
        "agreement": {"rule": "auto", "horizon": 100, "pilot": pilot, "goal": "common"},
        "model": {"loss": "squared", "intercept": True},
        "data": {"public_rows": 0, **columns},
        "owner": [{"name": f"bank-{i}", "records": 500, "epsilon": 8.0, "delta": 1e-6} for i in (1, 2)],
    })  # fmt: skip
    planned = to_sign(wanted, forecast(wanted, runs=32)) if pilot else plan(wanted).agreement
    site = Site(tmp_path, planned)
    try:
        assert not (site.folder / "learner" / "public.parquet").exists()
        rng = np.random.default_rng(3)
        for name in planned.owner_names:
            a, b = rng.uniform(0, 10, 500), rng.uniform(-1, 1, 500)
            y = np.clip(40 + 3 * a + 10 * b + rng.normal(0, 30, 500), 0, 100)
            pa.parquet.write_table(pa.table({"a": a, "b": b, "y": y}), site.folder / name / "data.parquet")
        learner = site.learner("--json")
        owners = [site.owner(name) for name in planned.owner_names]
        assert learner.wait(60) == 0, learner.errors
        assert [owner.wait(20) for owner in owners] == [0, 0], owners[0].errors
        record = json.loads(learner.said)["record"]
        assert (record["status"], record["realised"]["public"]) == ("finished", None)
        # By what the noise of a pilot happens to say joining may pay for nobody, so that the run rightly stops after it.
        stopped = bool(pilot and record.get("kept"))
        assert (learner.errors.count("Now we know"), len(record.get("phases", []))) == (
            (1, 2 - stopped) if pilot else (0, 0)
        )
        for name in planned.owner_names:
            spent = verify(site.folder / name / "data.ledger").spent
            assert 0 < spent < 1 if stopped else 8 - 1e-12 < spent <= 8
        checked = site.copriv("verify", "run.db", "--model", "run.json")
        assert checked.wait(60) == 0, checked.said
        assert stopped or ("What followed the pilot was planned again" in checked.said) == bool(pilot)
        at_home = ("owner", "verdict", "agreement.toml", "--name", "bank-1", "--data", "bank-1/data.parquet")
        for released in ((),) if stopped else ((), ("--model", "run.json")):
            asked = site.copriv(*at_home, *released)
            assert asked.wait(60) == 0, asked.errors
            assert "bank-1" in asked.said
    finally:
        site.end()


def answered(ledger: Path) -> int:
    try:
        return sum(run.answered for run in verify(ledger).runs.values())
    except LedgerFailed:
        return 0


def test_refusals_have_their_exit_codes_and_one_line(site: Site) -> None:
    learner = site.learner()
    foreign = site.copriv("owner", "serve", "--agreement", "agreement.toml", "--data", "bank-1/data.parquet",
                          "--ledger", "x.ledger", "--keys", "learner")  # fmt: skip
    other = site.owner("bank-1", "--data", "bank-2/data.parquet", "--name", "bank-2")
    unkeyed = site.copriv("learner", "agreement.toml", "--store", "y.db")
    second = site.copriv("learner", "agreement.toml", "--store", "z.db", "--keys", "learner", "--listen", site.address)
    nowhere = site.copriv("learner", "agreement.toml", "--store", "z.db", "--keys", "learner", "--model", "no/m.json")
    portless = site.copriv("learner", "agreement.toml", "--store", "z.db", "--keys", "learner", "--listen", "127.0.0.1")
    astray = site.owner("bank-1", "--learner", "127.0.0.1:99999")
    headless = site.copriv("ledger", "verify", "x.ledger", "--head", "abc")
    for process, code, said in (
        (foreign, 3, "the certificate is for learners"),
        (other, 3, "the certificate in bank-1 is that of 'bank-1'"),
        (unkeyed, 3, "speaks with its keys only"),
        (second, 5, "the port is taken"),
        (nowhere, 2, "there is no folder no"),
        (portless, 2, "must be HOST:PORT"),
        (astray, 2, "must be HOST:PORT"),
        (headless, 2, "64 hexadecimal digits"),
    ):
        assert (process.wait(30), said in process.errors) == (code, True), process.errors
        assert "Traceback" not in process.errors
    assert not (site.folder / "z.db").exists(), "a run that did not begin leaves no store"
    (site.folder / "mine.db").touch()
    there = site.copriv(
        "learner", "agreement.toml", "--store", "mine.db", "--keys", "learner", "--listen", site.address
    )
    assert there.wait(30) == 5
    assert (site.folder / "mine.db").exists(), "what was there before stays"
    os.kill(learner.pid, signal.SIGINT)
    assert learner.wait(10) == 130


@pytest.mark.slow
def test_the_demonstration_starts_real_commands_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = demo_network(lending("A2"), tmp_path / "consortium", as_json=True)
    assert record["status"] == "finished"
    shown = capsys.readouterr()
    assert json.loads(shown.out)["queries"] == 12
    assert shown.err.count("copriv owner serve") == 3


def until(holds: Callable[[], bool], *commands: Command) -> None:
    """Wait for a state."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, [command.errors for command in commands]
        time.sleep(0.02)


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=20) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


@pytest.mark.slow
def test_services_take_the_next_agreement_without_a_restart(site: Site) -> None:
    """Their logs are JSON lines of one schema; a monitor sees what the ledger says was spent; SIGTERM ends them."""
    pytest.importorskip("opentelemetry.exporter.prometheus", reason="the extra [metrics] is not installed")
    names, settings = site.agreed.owner_names, {"JSON_LOGS": "1", "STAY": "1", "METRICS": "0"}
    site.address = f"127.0.0.1:{port_that_no_other_test_is_given()}"
    second = site.agreed.replace(agreement={"horizon": 6, "answers": 2})
    for name in names:
        policy = site.folder / name / "policy.toml"
        kept = [line for line in policy.read_text().splitlines() if not line.startswith(("agreements", "lifetime_e"))]
        policy.write_text("\n".join([*kept, "lifetime_epsilon = 2.0"]))
    said = ("--listen", site.address, "--patience", "40")
    learner = site.copriv("learner", "agreement.toml", "--store", "run.db", "--keys", "learner", *said, **settings)
    owners = [site.owner(name, **settings) for name in names]
    parties, agreed = [learner, *owners], [site.agreed, second]
    models = [site.folder / f"run-{one.fingerprint[:12]}.json" for one in agreed]
    for i, one in enumerate(agreed):
        until(lambda i=i: all(p.errors.count("waiting for the next") == i + 1 for p in parties), *parties)
        record = Model.load(models[i]).record
        assert (record["status"], record["queries"]) == ("finished", one.queries)
        if i == 0:
            (site.folder / "agreement.toml").write_text("[agreement]\nrule = 3\n")  # not yet whole
            until(lambda: all("is not taken" in p.errors for p in parties), *parties)
            (site.folder / "agreement.toml").write_text(second.to_toml())
    for owner in owners:
        place = re.findall(r"http://127\.0\.0\.1:\d+", owner.errors)[0]
        assert get(f"{place}/health")[0] == 200
        assert get(f"{place}/ready")[0] == 503, "no run goes on"
        figures = dict(re.findall(r"^copriv_(\w+?)(?:\{.*\})? (\S+)$", get(f"{place}/metrics")[1], re.M))
        assert float(figures["epsilon_spent"]) == pytest.approx(2.0)
        assert float(figures["answers_total"]) == second.agreement.answers
    for party in parties:
        os.kill(party.pid, signal.SIGTERM)
        assert party.wait(60) == 130, party.errors
        # gRPC's core may write lines of its own, past Python's logging.
        lines = [json.loads(line) for line in party.errors.splitlines() if line.startswith("{")]
        assert {line["schema"] for line in lines} == {"copriv.log/1"}
        assert {line["level"] for line in lines} == {"info", "warning", "error"}
        assert lines[-1]["message"] == "interrupted"
        assert {line.get("agreement") for line in lines} >= {one.fingerprint for one in agreed}
        assert {line["party"] for line in lines if "party" in line} == {(["learner", *names])[parties.index(party)]}


def port_that_no_other_test_is_given() -> int:
    """A free port below those that systems give to whoever asks for any."""
    for port in range(20_000 + os.getpid() % 5000, 30_000):
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
