"""The blocks of code on a Markdown page, and a runner for the commands among them.

What a block is stands in its fence; what a test needs to know stands in comments above it, which no reader sees:

    <!-- no-run: why it cannot be run here -->      the reason is not optional
    <!-- slow -->                                   from here on, the page's commands take too long for every day
    <!-- before: COMMAND -->                        prepares what a reader has, and the test's folder has not
    <!-- exit: 3 -->                                the commands end with this code
    <!-- file: agreement.toml -->                   the block is that file, for the commands below it
    <!-- together -->                               commands that are started at the same time, on several machines
    <!-- until: WORDS -->                           the same, of commands that serve: Ctrl-C ends each, once all have said WORDS

`sh` is commands whose output is not shown; in `console` they follow a `$`, and what is below is compared with what they
print as their result, or as an error where they fail (spaces count as one, `...` stands for anything). `python` blocks are
doctests, which pytest collects by itself.
"""

import doctest
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)^(?P=indent)```\s*$", re.M | re.S)
_COMMENT = re.compile(r"<!-- *(no-run|slow|before|exit|file|together|until)(?:: *(.*?))? *-->\s*$")
_SAME = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
_PATIENCE = 240.0


@dataclass(frozen=True)
class Block:
    """A fence of a page, and the comments right above it."""

    page: Path
    line: int
    language: str
    body: str
    said: dict[str, list[str]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    @property
    def is_commands(self) -> bool:
        return self.language in ("sh", "console", "bash", "shell")

    @property
    def commands(self) -> list[tuple[str, str | None]]:
        """Each command with the output that is shown for it; None where none is."""
        if self.language != "console":
            joined = re.sub(r"\\\n\s*", "", self.body)
            return [(line, None) for line in joined.splitlines() if line.strip() and not line.startswith("#")]
        parts = re.split(r"^\$ ", self.body, flags=re.M)
        assert not parts[0].strip(), f"{self.place}: output before the first command"
        split = [part.partition("\n") for part in parts[1:]]
        return [(command, output if output.strip() else None) for command, _, output in split]


def blocks(page: Path) -> list[Block]:
    """Every fence of a page, in order."""
    text, found = page.read_text(encoding="utf-8"), []
    for match in _FENCE.finditer(text):
        said: dict[str, list[str]] = {}
        for line in reversed(text[: match.start()].splitlines()):
            comment = _COMMENT.match(line.strip())
            if comment is None:
                break
            said.setdefault(comment[1], []).insert(0, comment[2] or "")
        indent = len(match["indent"])
        body = "".join(line[indent:] if line.strip() else line for line in match["body"].splitlines(keepends=True))
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, match["language"], body, said))
    return found


def run_page(page: Path, folder: Path, slow: bool) -> int:
    """Runs a page's commands in an empty folder, as a reader would, and compares what they print; how many ran.

    With slow=False up to the page's first slow block, else all of them. Raises AssertionError.
    """
    ran, addresses = 0, _address()
    for block in blocks(page):
        if "slow" in block.said and not slow:
            break
        if "file" in block.said:
            (folder / block.said["file"][0]).write_text(block.body, encoding="utf-8")
        if not block.is_commands or "no-run" in block.said:
            continue
        for command in block.said.get("before", []):
            _one(command, folder, block, addresses, 0)
        wanted = int(block.said["exit"][0]) if "exit" in block.said else 0
        if "together" in block.said:
            _together([command for command, _ in block.commands], folder, block, addresses)
            ran += len(block.commands)
            continue
        if "until" in block.said:
            _until(block.said["until"][0], [command for command, _ in block.commands], folder, block, addresses)
            ran += len(block.commands)
            continue
        for command, output in block.commands:
            printed = _one(command, folder, block, addresses, wanted)
            ran += 1
            if output is not None and not doctest.OutputChecker().check_output(output, printed, _SAME):
                raise AssertionError(f"{block.place}: `{command}` prints\n{printed}\nand the page says\n{output}")
    return ran


def is_slow(page: Path) -> bool:
    """Whether some of a page's commands are not for every day."""
    return any("slow" in block.said for block in blocks(page))


def _address() -> dict[str, str]:
    """The addresses of pages, and one of this machine that is free."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        here = f"127.0.0.1:{one.getsockname()[1]}"
    return {"0.0.0.0:7443": here, "learner.example:7443": here, "127.0.0.1:7443": here}


def _environment() -> dict[str, str]:
    beside = str(Path(sys.executable).parent)
    shown = {
        "NO_COLOR": "1",
        "COLUMNS": "120",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "src"),
        "BROWSER": "true",
        "DEPLOY": str(ROOT / "deploy"),
    }
    return {**os.environ, **shown, "PATH": beside + os.pathsep + os.environ.get("PATH", "")}


def _start(command: str, folder: Path, addresses: dict[str, str]) -> "subprocess.Popen[str]":
    for there, here in addresses.items():
        command = command.replace(there, here)
    shell = ["bash", "-euo", "pipefail", "-c", command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(shell, cwd=folder, env=_environment(), text=True, **pipes)  # type: ignore[call-overload,no-any-return]


def _one(command: str, folder: Path, block: Block, addresses: dict[str, str], wanted: int) -> str:
    process = _start(command, folder, addresses)
    try:
        printed, said = process.communicate(timeout=_PATIENCE)
    finally:
        process.kill()
    assert process.returncode == wanted, f"{block.place}: `{command}` ends with {process.returncode}:\n{printed}{said}"
    return said if wanted != 0 else printed


def _together(commands: list[str], folder: Path, block: Block, addresses: dict[str, str]) -> None:
    processes = [_start(command, folder, addresses) for command in commands]
    until = time.monotonic() + _PATIENCE
    try:
        for command, process in zip(commands, processes, strict=True):
            said = "\n".join(process.communicate(timeout=max(1.0, until - time.monotonic())))
            assert process.returncode == 0, f"{block.place}: `{command}` ends with {process.returncode}:\n{said}"
    finally:
        for process in processes:
            process.kill()


def _until(words: str, commands: list[str], folder: Path, block: Block, addresses: dict[str, str]) -> None:
    logs = [folder / f".log-{block.line}-{i}" for i in range(len(commands))]
    # `exec`: the signal is for the command, not for the shell that it was typed into.
    quiet = [f"exec {command} >{log} 2>&1" for command, log in zip(commands, logs, strict=True)]
    processes = [_start(command, folder, addresses) for command in quiet]
    until = time.monotonic() + _PATIENCE
    try:
        for command, process, log in zip(commands, processes, logs, strict=True):
            while not log.is_file() or words not in log.read_text(encoding="utf-8"):
                ended = process.poll() is not None or time.monotonic() > until
                assert not ended, f"{block.place}: `{command}` does not say {words!r}:\n{log.read_text('utf-8')}"
                time.sleep(0.05)
        for command, process, log in zip(commands, processes, logs, strict=True):
            process.send_signal(signal.SIGINT)
            code = process.wait(60)
            assert code in (0, 130), f"{block.place}: `{command}` ends with {code}:\n{log.read_text('utf-8')}"
    finally:
        for process in processes:
            process.kill()
