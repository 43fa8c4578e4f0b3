"""The files that a release uploads, a wheel and a source of each package, built once from this folder, without the network."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Distributions:
    """Where the wheel and the source are."""

    wheel: Path
    source: Path


def built(project, folder):
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(project)]
    made = subprocess.run(build, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr + made.stdout
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Distributions(wheel, source)


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    """Of copriv."""
    return built(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def papers(tmp_path_factory):
    """Of the papers' plug-in."""
    return built(ROOT / "papers", tmp_path_factory.mktemp("papers"))
