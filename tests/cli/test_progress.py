"""Whoever waits for a second is told what for: real work on a real terminal."""

import os
import subprocess
import sys
import time

import pytest

from loans import LOANS

pty = pytest.importorskip("pty")

TERMINAL = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
PROGRAM = """
import sys
import numpy, copriv.forecast, copriv.plan, copriv.problem, copriv.simulation, copriv.cli.console, copriv.data.fetch
from copriv.cli import main
print("begun", flush=True)
main(sys.argv[1:])
"""


def waited(folder, words, *arguments):
    """Seconds from the beginning of the work to the first words of its progress; None where they never come."""
    master, slave = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=TERMINAL)
    os.close(slave)
    said, begun = b"", None
    try:
        while True:
            try:
                said += os.read(master, 4096)
            except OSError:  # its end is closed
                return None
            if begun is None and b"begun" in said:
                begun = time.monotonic()
            if begun is not None and words in said:
                return time.monotonic() - begun
    finally:
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (b"planning the best terms", ("forecast", "loans.toml")),
        (b"planning", ("simulate", "loans.toml")),
        (b"simulating", ("simulate", "planned.toml", "--runs", "40000", "--workers", "1")),
    ],
)
def test_progress_shows_within_a_second(tmp_path, words, arguments):
    slow = LOANS.replace("components = 5", "components = 19")
    (tmp_path / "planned.toml").write_text(slow.replace("horizon = 100", "horizon = 4000"))
    (tmp_path / "loans.toml").write_text(slow.replace('rule = "A2"', 'rule = "auto"').replace("step = 4000.0", ""))
    found = []
    while len(found) < 3:  # another program may have the processor for a moment, not three times
        found.append(waited(tmp_path, words, *arguments))
        if found[-1] is not None and found[-1] < 1.0:
            return
    pytest.fail(f"the first progress line came after {found} seconds")
