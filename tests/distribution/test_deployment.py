"""The files that an owner's machine runs: linted by their own tools where those are here, and line by line everywhere."""

import json
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

DEPLOY = ROOT / "deploy"
CONTAINER = DEPLOY / "Containerfile"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
ROLES = {"owner": "owner serve", "learner": "learner"}
UNITS = {role: DEPLOY / f"copriv-{role}@.service" for role in ROLES}
ENVIRONMENTS = {role: DEPLOY / f"{role}.env" for role in ROLES}
PAGE = ROOT / "docs" / "how-to" / "run-as-a-service.md"
HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")


def options_of(role):
    command = typer.main.get_command(app)
    for name in ROLES[role].split():
        command = command.get_command(None, name)
    return command.params


BY_HAND = {"--new-ledger", "--resume", "--model", "--skops", "--help"}
"""Options without a variable: a service that is started again must not make another ledger, and one that stays names files."""


def variables(role):
    return {parameter.envvar for parameter in options_of(role)} - {None}


@pytest.mark.parametrize("role", ROLES)
def test_every_option_of_a_service_can_be_set_without_changing_its_unit(role):
    """Each has a variable; the environment file and the table of the page have all of them and no other."""
    assert {parameter.opts[0] for parameter in options_of(role) if parameter.envvar is None} <= BY_HAND
    written = re.findall(r"^#?([A-Z_]+)=", ENVIRONMENTS[role].read_text("utf-8"), re.M)
    section = PAGE.read_text("utf-8").split("\n## Settings of the learner\n")
    lines = section[role == "learner"].splitlines()
    table = [line for line in lines if line.startswith("| `COPRIV_")]
    told = [name for line in table for name in re.findall(r"`(COPRIV_\w+)`", line.split("|")[1])]
    assert set(written) == set(told) == variables(role)
    assert len(told) == len(set(told))
    assert f"EnvironmentFile=/etc/copriv/%i/{role}.env" in UNITS[role].read_text("utf-8").splitlines()


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not for this machine")
def test_hadolint_has_nothing_to_say():
    done = subprocess.run([HADOLINT, str(CONTAINER)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_container_is_rootless_and_ends_when_told():
    stages = dict(re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM |\Z)", CONTAINER.read_text("utf-8"), re.M | re.S))
    assert list(stages) == ["build", "party", "learner", "owner"], "what builds is not what runs; an owner unless said"
    party = stages["party"]
    assert re.search(r"^USER (?!0\b|root\b)\d+:\d+$", party, re.M)
    assert party.index("USER ") < party.index("ENTRYPOINT")
    assert 'ENTRYPOINT ["copriv"]' in party
    assert re.search(r'^VOLUME \["/ledger", "/witness"\]$', stages["owner"], re.M)
    for role, command in ROLES.items():
        assert "USER" not in stages[role]
        assert json.loads(re.findall(r"^CMD (.*)$", stages[role], re.M)[-1]) == command.split()
        assert set(re.findall(r"COPRIV_[A-Z_]+", party + stages[role])) <= variables(role)
    assert not re.search(r"--privileged|sudo|chmod 777", CONTAINER.read_text("utf-8"))


def test_units_and_page_name_variables_that_a_command_reads():
    known = variables("owner") | variables("learner")
    for path in (*UNITS.values(), PAGE):
        assert set(re.findall(r"COPRIV_[A-Z_]+", path.read_text("utf-8"))) <= known, path.name


def test_the_services_of_the_compose_file_are_whole():
    """Whoever has an engine starts them; here each is read as an engine reads it."""
    services, volumes = COMPOSE["services"], COMPOSE["volumes"]
    assert set(services) == {"learner", "bank-1", "bank-2", "bank-3", "loans"}
    for name, service in services.items():
        assert set(service.get("depends_on", [])) <= set(services)
        for volume in service["volumes"]:
            source, target, *_ = volume.split(":")
            assert target.startswith("/")
            if not source.startswith("./"):
                assert source in volumes
            elif not source.startswith(("./consortium/", "./tables/")):  # which commands of the page make
                assert (DEPLOY / source).is_file()
        if name == "loans":
            continue
        role = "learner" if name == "learner" else "owner"
        assert service["build"]["target"] == role
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == CONTAINER
        assert {key for key in service["environment"] if key.startswith("COPRIV_")} <= variables(role)
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        mounts = {volume.split(":")[1]: volume.split(":")[0] for volume in service["volumes"]}
        assert mounts["/keys"] == f"./consortium/{name}", "nobody is given another's keys"
    assert services["bank-3"]["environment"]["PGPASSWORD"] == services["loans"]["environment"]["POSTGRES_PASSWORD"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
@pytest.mark.parametrize("role", ROLES)
def test_systemd_takes_the_units(role, tmp_path):
    unit, program = UNITS[role], shutil.which("true")
    there = unit.read_text("utf-8").replace("/opt/copriv/bin/copriv", program)
    (tmp_path / unit.name).write_text(there, encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(tmp_path / unit.name)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if unit.name in line]


@pytest.mark.parametrize("role", ROLES)
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
        "Type=notify",
        "WatchdogSec=60",
    ],
)
def test_a_unit_writes_only_its_state_and_never_retries_a_refusal(role, line):
    assert line in UNITS[role].read_text("utf-8").splitlines()


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
