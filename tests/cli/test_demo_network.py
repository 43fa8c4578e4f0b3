"""`copriv demo --network --out DIR` leaves a folder in which the commands that it shows work."""

import subprocess
import sys

import pytest

from copriv.cli import run
from copriv.cli.commands import demo
from docs_blocks import blocks, run_page


def test_the_page_of_commands_names_each_owner_and_runs_only_what_asks_nobody(tmp_path):
    tables = tuple(tmp_path / name / "data.parquet" for name in ("bank-1", "bank-2"))
    (tmp_path / "COMMANDS.md").write_text(demo.commands_page(tables))
    found = blocks(tmp_path / "COMMANDS.md")
    commands = [command for block in found if block.is_commands for command, _ in block.commands]
    assert len(commands) == 5
    assert not [command for command in commands if "owner serve" in command]
    shown = "".join(block.body for block in found if not block.is_commands)
    assert shown.count("copriv owner serve") == shown.count("copriv data check") == 2


@pytest.mark.slow
@pytest.mark.network
def test_the_folder_that_the_demonstration_leaves_works(tmp_path, capsys):
    folder = tmp_path / "consortium"
    assert run(["demo", "--network", "--out", str(folder)]) == 0
    assert str(folder / "COMMANDS.md") in " ".join(capsys.readouterr().out.split())
    model = (folder / "run.json").read_bytes()
    assert run_page(folder / "COMMANDS.md", folder, slow=True) == 5
    assert (folder / "run.json").read_bytes() == model, "a run that is over is not written anew"
    assert len((folder / "predictions.csv").read_text().splitlines()) == 6001


def test_a_demonstration_that_takes_too_long_says_so(monkeypatch):
    """It was a traceback on a machine with much else to do."""
    monkeypatch.setattr(demo, "PATIENCE", 0.2)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        assert demo._failure(process) == "was not over after 0 seconds"
        process.kill()
    assert demo._failure(process) == "failed"
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        monkeypatch.setattr(demo, "PATIENCE", 60.0)
        assert demo._failure(process) is None
