"""The command line in this process: its exit code, standard output and standard error."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from copriv.cli import run
from loans import LOANS


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variables of whoever runs the tests, and an empty directory to work in."""
    for name in ("RUNS", "SEED", "JSON", "OUT", "WORKERS", "AGREEMENT", "OWNER", "QUERY", "POLICY"):
        monkeypatch.delenv(f"COPRIV_{name}", raising=False)
    for name in ("FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def copriv(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def call(*arguments: object) -> Outcome:
        code = run([str(a) for a in arguments])
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def agreement(tmp_path: Path) -> Path:
    """A small agreement on real loans."""
    path = tmp_path / "small.toml"
    path.write_text(LOANS)
    return path
