"""What the commands print and write when all is well, and the contracts that scripts rely on."""

import csv
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import copriv as library
from copriv.agreement import Agreement
from copriv.cli import console
from copriv.cli.commands import COMMANDS, demo, init
from copriv.cli.commands.options import packaged_text
from copriv.formatting import numbers as words

KEYS = {"schema", "rule", "horizon", "runs", "seed", "dataset", "records", "seconds", "relative_fitness", "owners"}
SERIES = {"k", "p25", "median", "p75", "mean", "final"}
OWNER = {
    "name",
    "records",
    "epsilon",
    "answers",
    "noise_scale",
    "alone",
    "own",
    "verdict",
    "probability",
    "on_own",
    "on_all",
}


def process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", "from copriv.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


# simulate


def test_the_json_is_the_contract_and_nothing_else(copriv, agreement):
    done = copriv("simulate", agreement, "--runs", 3, "--json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert set(document) >= KEYS
    assert document["schema"] == "copriv.simulation/1"
    assert (document["rule"], document["horizon"], document["runs"], document["seed"]) == ("A2", 100, 3, 7)
    assert (document["dataset"], document["records"]) == ("lending-embedded", 3000)
    ψ = document["relative_fitness"]
    assert set(ψ) == SERIES
    assert set(ψ["final"]) == {"p25", "median", "p75", "mean"}
    assert {len(ψ[name]) for name in SERIES - {"final"}} == {len(ψ["k"])}
    assert all(ψ["final"][name] == ψ[name][-1] for name in ψ["final"])
    assert [set(owner) for owner in document["owners"]] == [OWNER, OWNER]
    # b = 2 Ξ m/(n ε)
    assert [owner["noise_scale"] for owner in document["owners"]] == pytest.approx([0.018, 0.0045])


@pytest.mark.parametrize(
    ("given", "left_open"),
    [
        ('rule = "A2"', 'rule = "auto"'),
        ("step = 4000.0", 'step = "auto"'),
        ("step = 4000.0", 'step = "auto"\ngroup_size = "auto"'),
        ("horizon = 100", 'horizon = 100\ngroup_size = "auto"'),
        ("gradient_bound = 3.0", 'gradient_bound = "auto"'),
    ],
)
def test_whatever_is_left_open_is_planned_first(copriv, agreement, given, left_open):
    agreement.write_text(agreement.read_text().replace(given, left_open))
    done = copriv("simulate", agreement, "--runs", 1, "--json")
    assert done.code == 0, done.err
    assert "planned" in json.loads(done.out)


def test_the_same_call_from_python_gives_the_same_numbers(copriv, agreement):
    document = json.loads(copriv("simulate", agreement, "--runs", 4, "--json").out)
    result = library.simulate(library.Agreement.load(agreement), runs=4).to_dict()
    for key in KEYS - {"seconds"}:
        assert document[key] == result[key], key


def test_words_for_people(copriv, agreement):
    done = copriv("simulate", agreement, "--runs", 5)
    assert done.code == 0
    for said in (
        "test: rule A2, 6 queries, 5 runs, seed 7",
        "9,857 real rows",
        "not resampled",
        "together, with privacy",
    ):
        assert said in done.out
    assert 'Asked (goal = "own")' in done.out
    assert re.search("Joining pays for|oining pays is open for|Joining does not pay for", done.out)


def test_out_writes_the_three_files_and_says_so_on_standard_error(copriv, agreement, tmp_path):
    done = copriv("simulate", agreement, "--runs", 3, "--json", "--out", tmp_path / "new" / "dir")
    directory = tmp_path / "new" / "dir"
    assert sorted(path.name for path in directory.iterdir()) == ["simulation.csv", "simulation.json", "simulation.png"]
    # Computed from records at hand without an owner's noise: not for release, so not for other accounts either.
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    assert done.err.count("wrote") == 3
    assert json.loads((directory / "simulation.json").read_text()) == json.loads(done.out)
    with (directory / "simulation.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["k", "p25", "median", "p75", "mean", "release"]
    ψ = json.loads(done.out)["relative_fitness"]
    for name in ("k", "p25", "median", "p75", "mean"):
        assert [float(row[name]) for row in rows] == ψ[name]
    assert (directory / "simulation.png").read_bytes().startswith(b"\x89PNG")


def test_an_option_beats_the_variable_beats_the_file_beats_the_default(copriv, agreement, monkeypatch):
    def seen(*arguments):
        document = json.loads(copriv("simulate", agreement, "--json", *arguments).out)
        return document["runs"], document["seed"]

    assert seen("--runs", 2) == (2, 7)
    monkeypatch.setenv("COPRIV_RUNS", "3")
    monkeypatch.setenv("COPRIV_SEED", "5")
    assert seen() == (3, 5)
    assert seen("--runs", 2, "--seed", 1) == (2, 1)


def test_json_and_agreement_can_come_from_variables(copriv, agreement, monkeypatch):
    monkeypatch.setenv("COPRIV_JSON", "1")
    monkeypatch.setenv("COPRIV_AGREEMENT", str(agreement))
    assert json.loads(copriv("simulate", "--runs", 1).out)["runs"] == 1


def test_resampled_records_are_announced(copriv, agreement):
    agreement.write_text(agreement.read_text().replace("records = 2000", "records = 20000"))
    done = copriv("simulate", agreement, "--runs", 1)
    assert "the records are resampled" in done.out
    assert json.loads(copriv("simulate", agreement, "--runs", 1, "--json").out)["source"] == "resampled"


def test_runs_without_a_guarantee_say_so_everywhere(copriv, agreement):
    text = agreement.read_text().replace("gradient_bound = 3.0", "gradient_bound = 3.0\ngradient_bound_assumed = true")
    agreement.write_text(text)
    done = copriv("simulate", agreement, "--runs", 1)
    assert "not private" in done.out
    assert "with privacy" not in done.out
    assert json.loads(copriv("simulate", agreement, "--runs", 1, "--json").out)["private"] is False


def test_standard_output_stays_json_in_a_process_of_its_own(agreement, tmp_path):
    done = process("simulate", agreement, "--runs", 2, "--json", "--out", tmp_path / "o")
    assert done.returncode == 0
    assert json.loads(done.stdout)["runs"] == 2
    assert "wrote" in done.stderr


def test_a_reader_that_leaves_early_is_no_traceback(agreement):
    command = f'"{sys.executable}" -c "from copriv.cli import main; main()" simulate {agreement} --json --runs 2'
    done = subprocess.run(["bash", "-c", f"{command} | head -c 1"], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_python_runs_the_package():
    done = subprocess.run([sys.executable, "-m", "copriv", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, library.__version__)


# demo


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    directory = tmp_path_factory.mktemp("demo")
    return process("demo", "--out", directory, COPRIV_WORKERS="2"), directory


def test_the_demo_shows_every_model_and_says_what_it_means(shown):
    done, directory = shown
    assert (done.returncode, done.stderr) == (0, "")
    for model in ("bank-1 alone", "bank-2 alone", "bank-3 alone", "together, with privacy", "pooled, without privacy"):
        assert model in done.stdout
    assert "real rows" in done.stdout
    assert "not resampled" in done.stdout
    assert "epsilon = 1" in done.stdout
    assert sum(line.startswith("Joining pays") for line in done.stdout.splitlines()) == 1
    assert sorted(path.name for path in directory.iterdir()) == ["demo.csv", "demo.json", "demo.png", "demo.toml"]


def test_the_tutorial_shows_the_table_that_the_demo_prints(shown):
    tutorial = (Path(__file__).parents[2] / "docs" / "tutorial" / "first-agreement.md").read_text(encoding="utf-8")
    start = shown[0].stdout.index("model  ")
    table = shown[0].stdout[start : shown[0].stdout.index("Joining pays")].strip().splitlines()
    assert len(table) == 7
    for line in table:
        assert f"{line.rstrip()}\n" in tutorial


def test_the_demos_sentence_follows_from_its_numbers(shown):
    document = json.loads((shown[1] / "demo.json").read_text())
    assert set(document) >= KEYS | {"table", "conclusion"}
    assert [owner["epsilon"] for owner in document["owners"]] == [1.0, 1.0, 1.0]
    assert document["source"] == "real"
    # What it takes: some seconds, by what it computes and not by a clock.
    assert document["runs"] * document["horizon"] * document["records"] < 1e8
    together = document["relative_fitness"]["final"]["median"]
    paid = [owner["name"] for owner in document["owners"] if owner["verdict"] == "yes"]
    # The story that the demo is there to tell: smaller owners gain, the largest does not.
    assert 0 < len(paid) < 3
    assert "bank-1" not in paid
    assert document["conclusion"].startswith(f"Joining pays for {words.listed(paid)}: ")
    assert document["conclusion"] == document["verdict"]
    assert together < 0.01  # an order of magnitude below the 8.5 % of terms that nobody planned
    assert together == pytest.approx(document["forecast"]["together"], rel=1.0)
    for owner in document["owners"]:
        needed = document["needed_epsilon"][owner["name"]]
        by_forecast = document["forecast"]["together"] < owner["alone"]
        assert by_forecast == (needed is not None and needed <= owner["epsilon"] * 1.002)
    rows = {row["model"]: row for row in document["table"]}
    assert rows["pooled, without privacy"]["relative_fitness"] == pytest.approx(0, abs=1e-8)
    assert rows["together, with privacy"]["relative_fitness"] == together
    for owner in document["owners"]:
        assert rows[f"{owner['name']} alone"]["relative_fitness"] == pytest.approx(owner["alone"], rel=1e-6)


def test_the_demos_agreement_can_be_simulated(shown, copriv):
    document = json.loads((shown[1] / "demo.json").read_text())
    again = json.loads(copriv("simulate", shown[1] / "demo.toml", "--runs", 200, "--json").out)
    assert again["relative_fitness"]["median"] == pytest.approx(document["relative_fitness"]["median"], rel=1e-9)


def test_a_size_of_groups_that_is_left_to_the_plan_is_planned(copriv, tmp_path):
    """The size alone is "auto": everything else is agreed."""
    agreement = library.Agreement.of({
        "agreement": {"name": "groups", "rule": "S1", "horizon": 5, "step": 0.5, "group_size": "auto"},
        "model": {"loss": "squared", "regularization": 1e-3, "gradient_bound": 2.0},
        "data": {"dataset": "lending-embedded", "components": 3, "public_rows": 200},
        "owner": [{"name": f"bank-{i}", "records": 200, "epsilon": 1.0} for i in range(3)],
    })  # fmt: skip
    (tmp_path / "groups.toml").write_text(agreement.to_toml(), encoding="utf-8")
    assert "planned" in json.loads(copriv("simulate", tmp_path / "groups.toml", "--runs", 2, "--json").out)


def test_typical_error_is_the_root_mean_square_over_all_loans(shown):
    problem = library.Problem.load(library.Agreement.load(shown[1] / "demo.toml"))
    result = library.simulate(problem, runs=2)
    pooled = demo.table(problem, result)[-1]
    x = np.vstack([records.features for records in problem.owners])
    y = np.concatenate([records.target for records in problem.owners])
    residual = x @ problem.optimum.theta - y
    assert pooled["error"] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-9)


# init


def test_init_writes_the_documented_agreement(copriv, tmp_path):
    done = copriv("init")
    assert done.code == 0
    terms = library.Agreement.load(tmp_path / "agreement.toml")
    assert (terms.agreement.rule, terms.agreement.horizon, terms.agreement.answers) == ("auto", 1000, None)
    assert (terms.agreement.step, terms.model.gradient_bound, terms.data.dataset) == ("auto", "auto", "lending")
    assert (terms.goal, terms.worthwhile) == ("own", 0.005)
    assert terms.owner_names == ("bank-1", "bank-2", "bank-3")
    assert copriv("simulate", "agreement.toml", "--runs", 2, "--json").code == 0


@pytest.mark.slow
def test_the_first_forecast_of_the_template_says_what_was_planned(copriv):
    assert copriv("init").code == 0
    done = copriv("forecast", "agreement.toml")
    assert done.code == 0
    assert re.search(
        r"Terms that the agreement leaves open were chosen by the plan: .+, \d+ answers? of each owner\.",
        " ".join(done.out.split()),
    ), done.out
    assert len(done.out.splitlines()) <= 32, "hardly more than one screen, with every sentence"


@pytest.mark.slow
def test_the_template_is_a_consortium_that_somebody_gains_by(copriv, tmp_path):
    """It was one in which joining pays for nobody; what nobody has stated is open, and the records then say as much."""

    def verdicts(*command: object) -> list[str]:
        return [owner["verdict"] for owner in json.loads(copriv(*command, "--json").out)["owners"]]

    assert copriv("init").code == 0
    assert verdicts("forecast", "agreement.toml") == ["no", "no", "open"]
    said = json.loads(copriv("forecast", "agreement.toml", "--json").out)
    assert "The regularizer" not in said["verdict"]
    path = tmp_path / "agreement.toml"
    path.write_text(path.read_text().replace("# heterogeneity = 0 ", "heterogeneity = 0 "))
    assert verdicts("forecast", path) == ["no", "no", "yes"]
    found = verdicts("simulate", path, "--runs", 50)
    assert (found[0], found[2]) == ("no", "yes")
    assert found[1] != "yes"


def test_init_replaces_nothing_unasked(copriv, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    done = copriv("init", path)
    assert (done.code, path.read_text()) == (2, "mine")
    assert "--force" in done.err
    assert copriv("init", path, "--force").code == 0
    assert path.read_text() == packaged_text("agreement.toml")


# The program as a whole


def test_version_and_help(copriv):
    assert copriv("--version").out.strip() == library.__version__
    for arguments in (("--help",), ("simulate", "-h"), ("data", "--help")):
        done = copriv(*arguments)
        assert done.code == 0
        assert "Usage: copriv" in done.out


def test_no_color_is_honoured(agreement):
    colour = re.compile("\x1b\\[[0-9;]*3[0-9]m")
    assert colour.search(process("simulate", "nowhere.toml", FORCE_COLOR="1").stderr)
    assert not colour.search(process("simulate", "nowhere.toml", FORCE_COLOR="1", NO_COLOR="1").stderr)


def test_completion_scripts_are_made():
    done = process(_COPRIV_COMPLETE="source_bash")
    assert "_COPRIV_COMPLETE" in done.stdout


def test_interrupting_leaves_with_130(copriv, agreement, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("copriv.cli.commands.simulate.simulate", interrupted)
    done = copriv("simulate", agreement)
    assert done.code == 130
    assert "interrupted" in done.err
    assert "Traceback" not in done.err


def test_a_bug_keeps_its_traceback(copriv, agreement, monkeypatch):
    monkeypatch.setattr("copriv.cli.commands.simulate.simulate", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        copriv("simulate", agreement)


# Progress


@pytest.mark.parametrize(("seconds", "seen"), [(0.0, False), (0.5, True)])
def test_the_bar_appears_late_and_on_standard_error_only(capfd, monkeypatch, seconds, seen):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes rich take a pipe for a terminal
    with console.progress("working", patience=0.2) as report:
        report(1, 2)
        time.sleep(seconds)
        report(2, 2)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert ("working" in captured.err) == seen


def test_a_line_lives_while_one_waits_and_only_on_a_terminal(capfd, monkeypatch):
    with console.waiting("128 simulated runs"):
        pass
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with console.waiting("128 simulated runs"):
        time.sleep(0.2)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "128 simulated runs" in captured.err


def test_no_bar_where_nobody_looks(capfd):
    with console.progress("working", patience=0.0) as report:
        report(1, 2)
        time.sleep(0.05)
    assert capfd.readouterr().err == ""


# Words


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (0.0, "0 %"), (1e-10, "0 %"), (1.23e-8, "0.0000012 %"), (0.000281, "0.028 %"), (0.0123, "1.2 %"), (0.1, "10 %"),
        (2.5, "250 %"), (223.99, "22,000 %"), (float("inf"), "unbounded"),
    ],
)  # fmt: skip
def test_percent(ratio, said):
    assert words.percent(ratio) == said


@pytest.mark.parametrize(
    ("alone", "start"),
    [
        ([0.1, 0.2], "Joining pays for everybody: everybody's records would be predicted 4.5 % to 13 % better."),
        ([0.01, 0.02], "Joining does not pay for anybody: everybody's records would not be predicted 0.50 % better."),
        (
            [0.01, 0.2],
            "Joining pays for o1: everybody's records would be predicted 13 % better. For o0 it does not pay",
        ),
        ([0.01, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], "Joining pays for o1, o2, o3, o4, o5 and o6: "),
        ([None, None], "Whether joining pays was not judged. On everybody's records: 5.0 % above the best possible"),
    ],
)
def test_the_conclusion_follows_the_numbers(alone, start):
    owners = tuple(library.OwnerOutcome(f"o{i}", 10, 1.0, 1, 0.1, a) for i, a in enumerate(alone))
    ψ = library.RelativeFitness(np.array([0, 1]), np.array([[1.0, 0.05]]))
    result = library.Simulation(
        "A2", 1, 0, "given", "given", "", 0.0, ψ, np.zeros((1, 2)), owners, True, 0.0, goal="common"
    )  # fmt: skip
    assert result.verdict.startswith(start)
    paid = [name for name, owner in result.joining.owners.items() if owner.answer == "yes"]
    assert paid == result.better_together


def test_the_app_names_its_commands():
    assert {
        "demo",
        "init",
        "forecast",
        "simulate",
        "reproduce",
        "learner",
        "predict",
        "data",
        "owner",
        "ledger",
    } <= set(COMMANDS)
    assert {"data fetch", "data check", "owner serve", "owner personalize", "ledger show", "ledger verify"} <= set(
        COMMANDS
    )


# init, step by step


def steps(*answers):
    """Scripted answers; an empty one takes the default."""
    left, heard = list(answers), []

    def ask(question, default):
        heard.append(question)
        answer = left.pop(0) if left else ""
        return answer if answer or default is None else default

    return ask, heard


def test_init_asks_step_by_step_and_takes_defaults():
    ask, heard = steps()
    agreement = init.asked(ask, heard.append)
    assert [owner.epsilon for owner in agreement.owner] == [1.0] * 3
    assert (agreement.agreement.rule, agreement.data.dataset) == ("auto", "lending-embedded")
    assert agreement.data.heterogeneity is None
    again = Agreement.of(tomllib.loads(init.written(agreement)))
    assert again.fingerprint == agreement.fingerprint
    assert "# the owner's whole budget" in init.written(agreement)


def test_init_asks_again_where_an_answer_cannot_stand():
    said = []
    ask, _heard = steps(
        "hospitals", "mine", "own", "age, stage", "age", "days", "120..0", "0..120", "one", "I, II", "0..60", "", "", "",
        "0", "2", "north", "many", "2,000", "-1", "0.5", "north", "south", "", "", "unlike", "very unlike",
    )  # fmt: skip
    agreement = init.asked(ask, said.append)
    assert [(o.name, o.records, o.epsilon) for o in agreement.owner] == [("north", 2000, 0.5), ("south", 2000, 0.5)]
    assert agreement.data.features == ("age", "stage")
    assert agreement.data.bounds == {"age": (0.0, 120.0), "days": (0.0, 60.0)}
    assert agreement.data.categories == {"stage": ("I", "II")}
    assert (agreement.model.loss, agreement.data.heterogeneity) == ("squared", (0.05, 1.0))
    for complaint in ("say one of: example, own", "age is there already", "lower bound comes first",
                      "write bounds as 0..120", "from 1 to 200", "'many' is not a number", "above 0",
                      "north is there"):  # fmt: skip
        assert any(complaint in line for line in said), complaint


def test_init_takes_nothing_that_the_agreement_would_refuse_in_the_end():
    """Or all answers would be lost with the last one."""
    said = []
    ask, _ = steps(
        "hospitals", "own", "age", "days", "-inf..inf", "0..1e200", "0..120", "I, I", "0..60", "", "", "",
        "2", " \u200b", "a\x1b[2J", "n" * 300, "north", "20", "1e300", "1e-300", "1", "south", "", "", "unknown",
    )  # fmt: skip
    assert init.asked(ask, said.append).owner_names == ("north", "south")
    complaints = [line.strip() for line in said if line.startswith("   ")]
    assert sum("plain numbers" in line for line in complaints) == 2
    assert sum("cannot be seen" in line for line in complaints) == 2
    for complaint in ("each level once", "200 at most", "give a number above 0"):
        assert any(complaint in line for line in complaints), complaint


def test_init_of_two_classes_takes_a_loss_for_them():
    ask, _ = steps("ill", "own", "age", "ill", "0..120", "no, yes", "", "", "", "1")
    agreement = init.asked(ask, lambda _: None)
    assert agreement.model.loss == "logistic"
    assert agreement.n_owners == 1


def test_init_on_a_terminal_asks_and_with_template_does_not(tmp_path):
    """A real terminal: a pseudo one, in a process of its own."""
    pty = pytest.importorskip("pty")

    def typed(*arguments, keys, stop=False):
        master, slave = pty.openpty()
        command = [sys.executable, "-c", "from copriv.cli import main; main()", "init", *arguments]
        before = signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # which a shell's job in the background ignores
        try:
            process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path)
        finally:
            signal.signal(signal.SIGINT, before)
        os.close(slave)
        os.write(master, keys)
        said, interrupted = b"", False
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            if not select.select([master], [], [], 10)[0]:
                # A signal just before the wait for a key is told after the key: a person presses Ctrl-C again.
                if interrupted and b"interrupted" not in said:
                    process.send_signal(signal.SIGINT)
                continue
            try:
                read = os.read(master, 4096)
            except OSError:
                break
            if not read:
                break
            said += read
            if stop and not interrupted and b"[example]:" in said:
                process.send_signal(signal.SIGINT)
                interrupted = True
        os.close(master)
        process.kill() if process.poll() is None and not said else None
        return process.wait(60), said.decode()

    code, said = typed("asked.toml", keys=b"\n" * 13)
    assert (code, "Step by step" in said) == (0, True), said
    assert Agreement.load(tmp_path / "asked.toml").agreement.name == "our consortium"
    assert "copriv owner keys owner-1" in said, "both ways to keys: each owner's own,"
    assert said.rstrip().endswith("copriv init --network planned/recommended.toml consortium"), (
        "and everybody's at once"
    )
    code, said = typed("plain.toml", "--template", keys=b"")
    assert (code, "Step by step" in said) == (0, False), said
    assert (tmp_path / "plain.toml").read_text() == packaged_text("agreement.toml")
    code, said = typed("gone.toml", keys=b"\n", stop=True)
    assert code == 130, said
    assert said.splitlines()[-1].endswith("interrupted")
    assert "error" not in said.splitlines()[-2]  # a line of its own, below the question
    assert not (tmp_path / "gone.toml").exists()
