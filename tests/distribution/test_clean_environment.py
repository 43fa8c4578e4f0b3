"""The wheel in an empty environment: the quickstart of the README runs there, and each extra alone does what it is for.

Environments are made by uv, from the package index; where none is reached, the tests say so and are skipped.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from empty_environments import UNREACHED, UV, environment, run
from finished_runs import model

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")

COMMANDS = {
    "approximate": "import dp_accounting; from copriv.privacy import approximate",
    "network": "from copriv.cli import main; main(['demo', '--network', '--json'])",
    "flower": "import copriv.network.flower_app as app; app.server_app, app.client_app",
    "sql": "import duckdb; from copriv.data.sql import read_sql;"
    "duckdb.connect('t.duckdb').execute('create table t as select 1 as a, 2 as b').close();"
    "assert len(read_sql('duckdb:t.duckdb', 'select * from t', ('a', 'b'))) == 1",
    "ui": "import copriv.ui.server, copriv.ui.app; from copriv.cli import main; main(['ui', '--help'])",
    "metrics": "from contextlib import ExitStack; from copriv.cli.commands.service import Service, operated;"
    "served = ExitStack(); served.enter_context(operated(Service(None, print), '0')); served.close()",
    "onnx": "from copriv.cli import main; main(['export', 'run.json', '--onnx', 'model.onnx'])",
    "mlflow": "import os; os.environ['MLFLOW_ALLOW_FILE_STORE'] = 'true';"  # a folder is enough here
    "from copriv.cli import main; main(['export', 'run.json', '--mlflow', 'file:runs'])",
    "model": "from copriv.cli import main; main(['export', 'run.json', '--skops', 'model.skops'])",
}
"""Extra → Python that uses what it brings, and nothing that another extra brings."""

OF_THE_PAPERS = {
    "ray": "import ray; from copriv.cli import main; main(['reproduce', '--list', '--backend', 'ray'])",
    "dask": "import dask.distributed; from copriv.cli import main; main(['reproduce', '--list', '--backend', 'dask'])",
}
"""The same of the papers' plug-in."""


def interpreters():
    """Every supported version that is on this machine: by its name, or among those of pyenv and of uv."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    home = Path.home()
    for version in SUPPORTED:
        kept = [*home.glob(f".pyenv/versions/{version}.*/bin/python"), *home.glob(f".local/bin/python{version}")]
        for candidate in [shutil.which(f"python{version}"), *kept]:
            if candidate is not None and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
                found.setdefault(version, candidate)  # pyenv's own names are there for versions that do not run
    return found


INTERPRETERS = interpreters()


@pytest.fixture
def empty(tmp_path, distributions):
    """Makes an empty environment, installs the wheel with some extras and what else is named, and gives its Python."""

    def make(extras="", python=sys.executable, also=()):
        packages = [f"copriv{extras} @ {distributions.wheel.as_uri()}", *also]
        return environment(tmp_path / "environment", packages, python)

    return make


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_quickstart_runs_on_every_python(version, empty, tmp_path):
    if version not in INTERPRETERS:
        pytest.skip(f"Python {version} is not on this machine")
    python = empty(python=INTERPRETERS[version])
    readme = tmp_path / "README.md"
    readme.write_bytes((ROOT / "README.md").read_bytes())
    flags = "doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS"
    tried = f"import doctest; r = doctest.testfile('README.md', module_relative=False, optionflags={flags}); print(r)"
    done = run([python, "-c", tried + "; assert r.attempted and not r.failed"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run([python.parent / "copriv", "demo", "--runs", "5", "--out", "demo"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "demo.png").stat().st_size > 10_000
    assert "together, with privacy" in done.stdout
    done = run([python.parent / "copriv", "reproduce", "--list"], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install copriv-papers" in done.stderr


def test_dependencies_have_wheels_for_every_python(tmp_path):
    """What a version of Python that is not on this machine needs at least."""
    for version in SUPPORTED:
        resolve = [*UV, "pip", "compile", "--quiet", "--python-version", version, "--only-binary", ":all:"]
        done = run([*resolve, "--all-extras", ROOT / "pyproject.toml"], tmp_path)
        if any(said in done.stderr for said in UNREACHED):
            pytest.skip("no package index is reached")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", COMMANDS)
def test_each_extra_alone(extra, empty, tmp_path):
    (tmp_path / "run.json").write_text(model().to_json(), encoding="utf-8")  # for those who export it
    done = run([empty(f"[{extra}]"), "-c", COMMANDS[extra]], tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("extra", OF_THE_PAPERS)
def test_each_extra_of_the_papers_alone(extra, empty, papers, tmp_path):
    python = empty(also=[f"copriv-papers[{extra}] @ {papers.wheel.as_uri()}"])
    done = run([python, "-c", OF_THE_PAPERS[extra]], tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "async-fig11" in done.stdout


def test_the_papers_plug_in_brings_its_command(empty, papers, tmp_path):
    python = empty("[ui]", also=[f"copriv-papers @ {papers.wheel.as_uri()}"])
    arguments = ["async-fig3", "--quick", "--data", "lending=inside", "--out", "figures", "--backend", "threading"]
    done = run([python.parent / "copriv", "reproduce", *arguments], tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "figures").glob("*.*")} >= {"async-fig3.png", "verdicts.json"}
    shown = "from copriv.ui.gallery import Gallery; assert len(Gallery().figures()['live']) == 4"
    assert run([python, "-c", shown], tmp_path).returncode == 0


def test_every_extra_is_tried():
    for tried, folder in ((COMMANDS, ROOT), (OF_THE_PAPERS, ROOT / "papers")):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert set(tried) == set(project["optional-dependencies"])


def test_the_citation_is_valid(tmp_path):
    done = run([*UV, "tool", "run", "cffconvert", "--validate", "-i", ROOT / "CITATION.cff"], tmp_path)
    if any(said in done.stderr for said in UNREACHED):
        pytest.skip("no package index is reached")
    assert done.returncode == 0, done.stderr + done.stdout
