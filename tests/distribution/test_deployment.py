"""The files that an owner's machine runs: linted by their own tools where those are here, and line by line everywhere."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from copriv.cli import app

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

CONTAINER = ROOT / "deploy" / "owner.Containerfile"
UNIT = ROOT / "deploy" / "copriv-owner@.service"
ENVIRONMENT = ROOT / "deploy" / "owner.env"
PAGE = ROOT / "docs" / "how-to" / "run-as-a-service.md"
HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")


SERVE = typer.main.get_command(app).get_command(None, "owner").get_command(None, "serve").params
BY_HAND = {"--new-ledger", "--help"}
"""Options without a variable: a service that is started again must not make another ledger."""


def variables_of_serve():
    return {parameter.envvar for parameter in SERVE} - {None}


def test_every_option_of_a_service_can_be_set_without_changing_its_unit():
    """Each has a variable; the environment file and the table of the page have all of them and no other."""
    assert {parameter.opts[0] for parameter in SERVE if parameter.envvar is None} <= BY_HAND
    written = re.findall(r"^#?([A-Z_]+)=", ENVIRONMENT.read_text("utf-8"), re.M)
    table = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `COPRIV_")]
    told = [name for line in table for name in re.findall(r"`(COPRIV_\w+)`", line.split("|")[1])]
    assert set(written) == set(told) == variables_of_serve()
    assert len(told) == len(set(told))
    assert "EnvironmentFile=/etc/copriv/%i/owner.env" in UNIT.read_text("utf-8").splitlines()


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not for this machine")
def test_hadolint_has_nothing_to_say():
    done = subprocess.run([HADOLINT, str(CONTAINER)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_container_is_rootless_and_ends_when_told():
    stages = CONTAINER.read_text(encoding="utf-8").split("\nFROM ")
    last = stages[-1]
    assert len(stages) == 3, "what builds is not what runs"
    assert re.search(r"^USER (?!0\b|root\b)\d+:\d+$", last, re.M)
    assert last.index("USER ") < last.index("ENTRYPOINT")
    assert 'ENTRYPOINT ["copriv"]' in last
    assert re.search(r'^VOLUME \["/ledger", "/witness"\]$', last, re.M)
    assert not re.search(r"--privileged|sudo|chmod 777", last)


def test_container_and_unit_name_variables_that_the_command_reads():
    known = variables_of_serve()
    for path in (CONTAINER, UNIT, PAGE):
        assert set(re.findall(r"COPRIV_[A-Z_]+", path.read_text("utf-8"))) <= known, path.name


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_systemd_takes_the_unit(tmp_path):
    program = shutil.which("true")
    there = UNIT.read_text("utf-8").replace("/opt/copriv/bin/copriv", program)
    (tmp_path / UNIT.name).write_text(there, encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(tmp_path / UNIT.name)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if UNIT.name in line]


@pytest.mark.parametrize(
    "line",
    [
        "ProtectSystem=strict",
        "ProtectHome=true",
        "NoNewPrivileges=true",
        "CapabilityBoundingSet=",
        "User=copriv",
        "UMask=0077",
        "RestartPreventExitStatus=2 3 4",
        "SuccessExitStatus=130",
        "StateDirectory=copriv/%i",
    ],
)
def test_the_unit_writes_only_its_ledger_and_never_retries_a_refusal(line):
    assert line in UNIT.read_text("utf-8").splitlines()


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == PROJECT["version"]
    assert cited["license"] == PROJECT["license"]
    assert cited["title"] == PROJECT["name"]
    assert [paper["year"] for paper in cited["references"]] == [2020, 2021]


def test_issue_templates_are_templates():
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert len(templates) >= 4
    for path in templates:
        _, head, body = path.read_text("utf-8").split("---\n", 2)
        assert {"name", "about", "labels"} == set(yaml.safe_load(head)), path.name
        assert body.strip()


def test_the_release_checklist_names_targets_that_are_there():
    checklist, makefile = (ROOT / "RELEASING.md").read_text("utf-8"), (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"`make ([a-z-]+)`", checklist))
    assert {"test", "test-slow", "dist", "test-oldest"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target
