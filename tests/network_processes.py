"""Real processes that start in milliseconds: forked from a server that has imported everything and started nothing."""

import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

_FORKS = multiprocessing.get_context("forkserver")
# Names of installed modules only: the server does not have this folder on its path.
_FORKS.set_forkserver_preload(
    [
        "copriv.cli.commands.learner",
        "copriv.cli.commands.owner",
        "copriv.report.public_rows",
        "copriv.data.consortium",
        "copriv.network.agent",
        "copriv.network.grpc_transport",
        "copriv.network.learner",
        "copriv.network.model",
        "copriv.network.setup",
        "copriv.privacy.laplace",
        "copriv.privacy.laplace",
    ]
)


class Command:
    """`copriv ARGUMENTS` in a process of its own, with its output in files; `settings`: its COPRIV_* variables."""

    def __init__(self, folder: Path, log: Path, arguments: tuple[object, ...], **settings: str) -> None:
        self.out, self.err = log.with_suffix(".out"), log.with_suffix(".err")
        words = [str(argument) for argument in arguments]
        given = (str(folder), str(self.out), str(self.err), words, settings)
        self.process: Any = _FORKS.Process(target=run_command, args=given)
        self.process.start()

    @property
    def pid(self) -> int:
        pid: int = self.process.pid
        return pid

    @property
    def running(self) -> bool:
        alive: bool = self.process.is_alive()
        return alive

    def wait(self, seconds: float) -> int | None:
        """The exit code, negative for a signal; None if it still runs."""
        self.process.join(seconds)
        code: int | None = self.process.exitcode
        return code

    def kill(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join(10)

    @property
    def said(self) -> str:
        return self.out.read_text() if self.out.exists() else ""

    @property
    def errors(self) -> str:
        return self.err.read_text() if self.err.exists() else ""


def run_command(folder: str, out: str, err: str, words: list[str], settings: dict[str, str]) -> None:
    """In the child: what the `copriv` script does."""
    os.chdir(folder)
    os.environ.update({f"COPRIV_{name}": value for name, value in settings.items()})
    os.environ["OMP_NUM_THREADS"] = "1"
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    from copriv.cli import run

    code = run(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
