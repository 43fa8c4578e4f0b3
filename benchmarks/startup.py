"""How long the first touch takes: `python -m benchmarks.startup [--pairs N] [--page]`.

Each pair starts two fresh interpreters, one after the other, so that a busy moment hits both; the median ratio counts.
Bounds, beside numpy's own import: `copriv --help` at most 4 times, `import copriv; copriv.Agreement` at most 5 times.
Exit code 1 where one does not hold. `--page` also runs every command once in its shortest form, beside
`python -c "import sklearn"`, and writes docs/reference/startup.md.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from copriv.agreement import Agreement

NUMPY, SKLEARN = "import numpy", "import sklearn"
MEASURED = {
    "copriv --help": ("from copriv.cli import main; main(['--help'])", 4.0),
    "import copriv; copriv.Agreement": ("import copriv; copriv.Agreement", 5.0),
    "copriv simulate --help": ("from copriv.cli import main; main(['simulate', '--help'])", None),
    "import copriv; copriv.simulate": ("import copriv; copriv.simulate", None),
    "import copriv; copriv.Owner": ("import copriv; copriv.Owner", None),
}
FIRST = (
    "--version",
    "--help",
    "init agreement.toml --force",
    "data fetch",
    "data check agreement.toml",
    "reproduce --list",
    "simulate agreement.toml --runs 10",
    "demo --runs 10",
    "forecast small.toml --runs 10",
    "init --network small.toml consortium-{n}",
    "ledger create {n}.ledger --keys consortium-{n}/north",
    "ledger show first.ledger",
    "ledger verify first.ledger --keys keys/north",
)
"""What somebody types first, in its shortest useful form; {n} is another number each time, for an owner has one ledger."""

SMALL = {
    "agreement": {"rule": "S2", "horizon": 3, "answers": 3, "step": 500.0},
    "model": {"loss": "squared", "regularization": 1e-5, "gradient_bound": 3.0},
    "data": {"dataset": "lending-embedded", "components": 5, "public_rows": 500},
    "owner": [{"name": "north", "records": 4000, "epsilon": 1.0}],
}

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "startup.md"


def seconds(code: str, folder: Path | None = None) -> float:
    """Wall-clock time of a fresh interpreter that runs this."""
    begun = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder, **quiet)
    return time.perf_counter() - begun


def typed(command: str, n: int = 0) -> str:
    """A command of copriv as code for a fresh interpreter; it must end with 0."""
    words = command.format(n=n).split()
    return f"import sys; from copriv.cli import run; sys.exit(run({words!r}))"


def ratio(code: str, beside: str, pairs: int) -> tuple[float, float, float]:
    """The median ratio, and both medians in seconds."""
    both = [(seconds(code), seconds(beside)) for _ in range(pairs)]
    ours, theirs = (statistics.median(one) for one in zip(*both, strict=True))
    return statistics.median(a / b for a, b in both), ours, theirs


def first_commands(pairs: int) -> list[tuple[str, float, float, float]]:
    """Each first command: median ratio to `import sklearn`, least and most of the pairs."""
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "small.toml").write_text(Agreement.of(SMALL).to_toml(), encoding="utf-8")
        for prepared in ("init agreement.toml", "init --network small.toml keys"):
            seconds(typed(prepared), folder)
        seconds(typed("ledger create first.ledger --keys keys/north"), folder)
        seconds(SKLEARN)
        for command in FIRST:
            ratios = [seconds(typed(command, n), folder) / seconds(SKLEARN) for n in range(1, pairs + 1)]
            rows.append((command, statistics.median(ratios), min(ratios), max(ratios)))
            print(f"copriv {command}: {rows[-1][1]:.2f} ({rows[-1][2]:.2f} to {rows[-1][3]:.2f})", flush=True)
    return rows


def page(rows: list[tuple[str, float, float, float]], pairs: int, sklearn: float) -> str:
    """The page, which says how it was made."""
    load = os.getloadavg()[0]
    table = "\n".join(
        f"| `copriv {name.format(n='NAME')}` | {a:.2g} | {low:.2g} to {high:.2g} |" for name, a, low, high in rows
    )
    return f"""# How long the first commands take

Each command in its shortest form, in a fresh process, beside `python -c "import sklearn"` in another one right after it:
the median of the ratios of {pairs} pairs, and the least and the most. An import of scikit-learn took {sklearn:.2g} s here.
The machine had {os.cpu_count()} processors and a load of {load:.0f} at the end of the measurement; ratios bear that better than
seconds do, and above a load of {os.cpu_count()} only their order should be believed.

| command | times `import sklearn` | least to most |
| --- | --- | --- |
{table}

Written by `python -m benchmarks.startup --page`, which also holds two bounds: `copriv --help` within 4 times, and
`import copriv; copriv.Agreement` within 5 times of `import numpy`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15, help="how many pairs of each")
    parser.add_argument("--page", action="store_true", help="every first command, and docs/reference/startup.md")
    asked, too_slow = parser.parse_args(), []
    if asked.page:
        rows = first_commands(asked.pairs)
        PAGE.write_text(page(rows, asked.pairs, seconds(SKLEARN)), encoding="utf-8")
        return 0
    for code in (NUMPY, *(code for code, _ in MEASURED.values())):
        seconds(code)  # compiles what has to be compiled
    for name, (code, most) in MEASURED.items():
        found, ours, numpy = ratio(code, NUMPY, asked.pairs)
        bound = "" if most is None else f", at most {most:g}"
        print(f"{name}: {ours:.2f} s, {found:.1f} times numpy's {numpy:.2f} s{bound}")
        if most is not None and found > most:
            too_slow.append(name)
    return 1 if too_slow else 0


if __name__ == "__main__" and main():
    sys.exit(1)
