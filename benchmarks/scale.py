"""How forecasts grow with the number of owners: `python -m benchmarks.scale [--limit SECONDS] [--page]`.

Each row is a fresh process, in seconds of its processor without its imports, beside the same with ten owners: owners that all
differ in their records and ε, and owners of ten kinds. The last row is `copriv forecast` of what `copriv init` writes, beside
`import copriv.forecast`. A row that needs more than the limit is said to. `--page` writes docs/reference/scale.md.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from copriv.agreement import Agreement

DIFFERENT, OF_TEN_KINDS = (10, 100, 1000, 5000), (10, 1000, 100_000)
GOALS = {("different", 1000): 2.0, ("different", 5000): 5.0, ("ten kinds", 1000): 2.0}
"""Most times that owners may take what ten take."""
TEMPLATE_GOAL = 3.0
"""Most seconds of processor of the default template's forecast, imports included."""
NOT_YET = ("rows up to 10⁷", "features up to 300", "backends", "network")
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "scale.md"
FORECAST = """
import sys, time
import copriv
from copriv.forecast import forecast
from benchmarks.scale import agreement, public
asked, rows = agreement(int(sys.argv[1]), sys.argv[2]), public()
begun = time.process_time()
forecast(asked, rows)
print(time.process_time() - begun)
"""
IMPORT = "import time, copriv.forecast.forecaster; print(time.process_time())"
TEMPLATE = """
import sys, time
from copriv.cli import run
code = run(["forecast", "agreement.toml", "--json"])
print()
print(time.process_time())
sys.exit(code)
"""


@dataclass(frozen=True)
class Row:
    """One measurement: seconds of processor, those that it is held against, and the goal."""

    what: str
    seconds: float | None
    """None where the limit ended it, or a smaller one of its kind."""
    beside: float
    goal: str
    begun: bool = True

    def line(self, limit: float) -> str:
        """The row of the page's table."""
        if not self.begun:
            return f"| {self.what} | not begun | | {self.goal} |"
        if self.seconds is None:
            return f"| {self.what} | more than {limit:g} s | more than {limit / self.beside:.2g} | {self.goal} |"
        return f"| {self.what} | {self.seconds:.2g} s | {self.seconds / self.beside:.2g} | {self.goal} |"


def agreement(owners: int, kind: str) -> Agreement:
    """So many owners, all different or of ten kinds, and everything left to plan."""
    rng = np.random.default_rng(0)
    tables, count = (owners, None) if kind == "different" else (10, owners // 10)
    sizes, budgets = rng.integers(500, 5000, tables).tolist(), (10 ** rng.uniform(-1, 1, tables)).tolist()
    each = {} if count is None else {"count": count}
    return Agreement.of(
        {
            "agreement": {"rule": "auto", "horizon": 1000},
            "model": {"loss": "squared", "regularization": 1e-5, "intercept": True},
            "owner": [
                {"name": f"o{i}", "records": n, "epsilon": ε, **each}
                for i, (n, ε) in enumerate(zip(sizes, budgets, strict=True))
            ],
        }
    )


def public() -> tuple[np.ndarray, np.ndarray]:
    """2,000 public rows of ten features."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (2000, 10))
    return x, x @ rng.normal(size=10) + rng.normal(size=2000)


def seconds(code: str, limit: float, *arguments: str, folder: Path | None = None) -> float | None:
    """The last line that a fresh interpreter prints, as a number; None where it needs more processor than the limit."""

    def held() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))

    here, one = str(Path(__file__).parents[1]), {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], preexec_fn=held, capture_output=True, text=True, cwd=folder,
        env={**os.environ, **one, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    if done.returncode < 0:  # ended by the limit's signal
        return None
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout.split()[-1])


def of_owners(limit: float) -> list[Row]:
    """Owners that differ, and owners of ten kinds."""
    rows = []
    for kind, numbers in (("different", DIFFERENT), ("ten kinds", OF_TEN_KINDS)):
        least, ended = 0.0, True
        for owners in numbers:
            begun = ended
            found = seconds(FORECAST, limit, str(owners), kind) if begun else None
            ended, least = found is not None, least or found or limit
            goal = f"{GOALS[kind, owners]:g}" if (kind, owners) in GOALS else ""
            what = f"{owners:,} {kind} owners" if kind == "different" else f"{owners:,} owners of {kind}"
            rows.append(Row(what, found, least, goal, begun))
            print(rows[-1].line(limit), flush=True)
    return rows


def template(limit: float) -> Row:
    """The forecast of the default template, imports included: the median of five."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        seconds("from copriv.cli import run; run(['init', 'agreement.toml']); print(0)", limit, folder=folder)
        imports = np.median([seconds(IMPORT, limit) or limit for _ in range(5)])
        found = np.median([seconds(TEMPLATE, limit, folder=folder) or limit for _ in range(5)])
    row = Row("the default template, over its imports", float(found), float(imports), f"{TEMPLATE_GOAL:g} s")
    print(row.line(limit), flush=True)
    return row


def page(rows: list[Row], limit: float) -> str:
    """The page, which says how it was made and what is not on it."""
    lines = "\n".join(row.line(limit) for row in rows)
    return f"""# Forecasts of many owners

Each row is a forecast in a fresh process, in seconds of one processor and beside the first row of its kind. Owners have 500 to
5,000 records, and ε of 0.1 to 10; the loss is squared, with ten features, 2,000 public rows and every term left to the plan.
*Different* owners have terms of their own; those of ten kinds are told with a `count` each. The default template is the file
that `copriv init` writes, beside an import of `copriv.forecast`. The machine had {os.cpu_count()} processors and a load of
{os.getloadavg()[0]:.0f} at the end of the measurement; above a load of {os.cpu_count()} seconds are too many, and only their
order should be believed.

| what | processor | times | goal |
| --- | --- | --- | --- |
{lines}

Not yet measured: {", ".join(NOT_YET)}. A row that needs more than {limit:g} s is ended there, and larger ones of its
kind are not begun.

Written by `python -m benchmarks.scale --page --limit {limit:g}`.
"""


def main() -> None:
    """Print the rows, and write the page where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=200.0, help="seconds of processor of one row")
    parser.add_argument("--page", action="store_true", help="write docs/reference/scale.md")
    asked = parser.parse_args()
    rows = [*of_owners(asked.limit), template(asked.limit)]
    if asked.page:
        PAGE.write_text(page(rows, asked.limit), encoding="utf-8")


if __name__ == "__main__":
    main()
