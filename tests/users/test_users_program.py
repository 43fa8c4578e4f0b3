"""What a user of the package has: types that `mypy --strict` sees, and a program that runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "program.py"
CACHE = Path(__file__).parents[2] / ".mypy_cache" / "users"


def strict(*programs: Path) -> list[str]:
    """Errors, as a user gets them: no configuration of ours, copriv found where it is installed, by its py.typed."""
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary"]
    environment = {name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")}
    done = subprocess.run(
        [*mypy, f"--cache-dir={CACHE}", *map(str, programs)], capture_output=True, text=True, env=environment
    )
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_users_type_checker_sees_real_types(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        PROGRAM.read_text(encoding="utf-8")
        .replace("assert_type(agreement.answers, int)", "assert_type(agreement.answers, str)")
        .replace("runs=3)", 'runs="three")')
        .replace("outlook.plan.curve", "outlook.plan.curves"),
        encoding="utf-8",
    )
    errors = strict(PROGRAM, wrong)  # in one call, since reading the package takes the time
    assert [line for line in errors if "wrong.py" not in line] == []
    found = "\n".join(errors)
    assert "[assert-type]" in found
    assert 'Argument "runs" to "simulate" has incompatible type "str"; expected "int"' in found
    assert '"Plan" has no attribute "curves"' in found


def test_the_program_runs() -> None:
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=True)
    final, verdict = done.stdout.split(maxsplit=1)
    assert float(final) > 0
    # "Joining pays for …", "Joining does not pay …" or "For … joining is a close call".
    assert "joining" in verdict.split(":")[0].lower()
