"""Empty environments, made by uv: what somebody else has who installs something for the first time."""

import os
import subprocess
import sys

import pytest

UV = [sys.executable, "-m", "uv"]
UNREACHED = ("error sending request", "dns error")
"""What uv says where no package index is reached."""


def run(command, folder, **options):
    """A process that sees nothing of this checkout: neither its source nor its virtual environment."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")} | {"OMP_NUM_THREADS": "1"}
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, **options)


def environment(where, packages, python=sys.executable):
    """An environment at `where` with nothing but these packages; its Python. Skips the test where there is no index."""
    made = run([*UV, "venv", "--quiet", "--no-python-downloads", "--python", python, where], where.parent)
    assert made.returncode == 0, made.stderr
    python = where / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = run([*UV, "pip", "install", "--quiet", "--python", python, *packages], where.parent)
    if done.returncode != 0 and any(said in done.stderr for said in UNREACHED):
        pytest.skip(f"no package index is reached: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return python
