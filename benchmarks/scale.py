"""How the library grows: `python -m benchmarks.scale [--quick] [--limit SECONDS] [--owners N] [--rows N] [--page]`.

Each row is a fresh process, in seconds of its processor, beside the same of the smallest size or beside bare work, with the
peak of its memory:

- forecasts of owners that all differ in their records and ε, and of ten kinds, without imports, beside ten owners;
- `copriv forecast` of what `copriv init` writes, beside `import copriv.forecast`;
- `copriv data check` of Parquet and CSV tables of twenty columns, in at most 500 MB, beside DuckDB's scan of the same file;
- a pass over a table of a PostgreSQL server, beside a binary copy of it that nothing reads;
- simulations of 86 owners, of many features, beside the bare products of records and models;
- `copriv owner serve` in a run of a few answers, beside its imports;
- answers over a network, a second, beside a bare gRPC echo (`benchmarks.throughput`).

A row that needs more than the limit is ended and said to, and larger ones of its kind, and those above `--owners`, `--rows` or
`--features`, are not begun. `--page` writes docs/reference/scale.md.
"""

import argparse
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import postgresql, throughput
from copriv import Agreement, Problem, Records
from copriv.data.sql import stream_sql
from copriv.network.setup import make_consortium, share_out
from copriv.privacy.ledger.create import create_ledger

FEATURES = 10
COLUMNS = 20
RUNS = 100
OWNERS = 86
"""Of a simulation, with RECORDS records each."""
RECORDS = 1000
TEMPLATE_GOAL = 3.0
"""Most seconds of processor of the default template's forecast, imports included."""
NOT_YET = (
    "backends of sweeps (Ray, Dask)",
    "rules other than S1 and A2 in rounds of many features",
)
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "scale.md"
END = """
import time
# Not getrusage's, which is at least what the process that started this one had.
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time() - begun, peak / 1024)
"""
FORECAST = (
    """
import sys, time
from copriv.forecast import forecast
import copriv.forecast.forecaster
from benchmarks.scale import agreement, public
asked, rows = agreement(int(sys.argv[1]), sys.argv[2]), public()
begun = time.process_time()
forecast(asked, rows)
"""
    + END
)
IMPORT = "import copriv.forecast.forecaster\nbegun = 0.0" + END
OF_AN_OWNER = (
    "import copriv.cli.commands.owner, copriv.network.agent, copriv.network.grpc_transport, copriv.network.setup\n"
    "import copriv.privacy.laplace, copriv.privacy.ledger.file\nbegun = 0.0" + END
)
COMMAND = (
    """
import sys
from copriv.cli import run
if run(sys.argv[1:]):
    sys.exit("the command failed")
begun = 0.0
"""
    + END
)
SCAN = (
    """
import sys, time, duckdb
begun = time.process_time()
sums = ", ".join(f"sum(c{i})" for i in range(int(sys.argv[2])))
duckdb.execute("set threads = 1")
duckdb.sql(f"select {sums} from '{sys.argv[1]}'").fetchall()
"""
    + END
)
QUERY = "select * from t"
WAITED = """
import sys, time
from benchmarks.scale import QUERY, copied, read
waited = time.perf_counter()
{}(sys.argv[1])
begun = time.process_time() - (time.perf_counter() - waited)
"""
OF_POSTGRESQL, COPY = WAITED.format("read") + END, WAITED.format("copied") + END
SIMULATION = (
    """
import sys, time
from copriv import simulate
from benchmarks.scale import many_features
problem, rounds = many_features(int(sys.argv[1]), sys.argv[2])
_ = problem.optimum
begun = time.process_time()
simulate(problem, runs=100, alone=False, record_at=(), workers=1)
"""
    + END
)
PRODUCTS = (
    """
import sys, time
import numpy as np
from benchmarks.scale import RECORDS, RUNS, many_features
p, (problem, rounds) = int(sys.argv[1]), many_features(int(sys.argv[1]), sys.argv[2])
theta, slopes = np.ones((p, RUNS)), np.ones((RECORDS, RUNS))
begun = time.process_time()
for _ in range(rounds):
    for one in problem.owners:
        one.features @ theta, one.features.T @ slopes
"""
    + END
)


@dataclass(frozen=True)
class Used:
    """What a process needed."""

    seconds: float
    memory: float
    """Peak, in MB."""


@dataclass(frozen=True)
class Row:
    """One measurement, what it is held against, and the goal."""

    what: str
    used: Used | None
    """None where the limit ended it, or a smaller one of its kind."""
    beside: float
    """Seconds."""
    goal: str = ""

    def line(self, limit: float) -> str:
        """The row of the page's table."""
        if self.used is None:
            return f"| {self.what} | *more than {limit:g} s, or not begun* | | | {self.goal} |"
        ratio = f"{self.used.seconds / self.beside:.2g}"
        return f"| {self.what} | {self.used.seconds:.2g} s | {ratio} | {self.used.memory:,.0f} MB | {self.goal} |"


@dataclass(frozen=True)
class Sizes:
    """How large the largest of each kind is."""

    different: Sequence[int] = (10, 100, 1000, 5000)
    of_ten_kinds: Sequence[int] = (10, 1000, 100_000)
    rows: Sequence[int] = (100_000, 1_000_000, 10_000_000)
    of_postgresql: Sequence[int] = (100_000, 1_000_000)
    features: Sequence[int] = (10, 100, 300)
    repeats: int = 5
    answers: int = 400
    most: dict[str, float] = field(default_factory=dict)
    """Of owners, rows and features: larger ones are not begun."""

    def begun(self, what: str, size: int, before: Used | None) -> bool:
        """Whether a row is measured, after the `before` it of its kind."""
        return before is not None and size <= self.most.get(what, np.inf)


QUICK = Sizes((10,), (), (1000,), (1000,), (10,), 1, 0)
GOALS = {("different", 1000): "2", ("different", 5000): "5", ("ten kinds", 1000): "2"}


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


def many_features(p: int, rule: str) -> tuple[Problem, int]:
    """Owners with p features each, and the number of rounds of a run: S1, or A2 in rounds."""
    rng, rounds = np.random.default_rng(p), 20
    terms = {"rule": "S1", "horizon": rounds + 1, "answers": rounds + 1, "step": 1.0}
    if rule == "A2":
        terms = {"rule": "A2", "schedule": "rounds", "window": OWNERS, "horizon": rounds * OWNERS, "answers": rounds,
                 "step": 0.01 / OWNERS}  # fmt: skip
    asked = Agreement.of(
        {
            "agreement": terms,
            "model": {"loss": "squared", "regularization": 0.1, "theta_max": 100.0, "gradient_bound": 1e6},
            "data": {"feature_bound": 0},
            "owner": [{"name": f"o{i}", "records": RECORDS, "epsilon": 1.0} for i in range(OWNERS)],
        }
    )  # fmt: skip
    theta = rng.normal(size=p)
    x = rng.normal(size=(OWNERS, RECORDS, p)) / np.sqrt(p)
    return Problem.of(asked, [Records.of(one, one @ theta + rng.normal(size=RECORDS)) for one in x]), rounds


def used(code: str, limit: float, *arguments: str, folder: Path | None = None) -> Used | None:
    """What a fresh interpreter prints of itself; None where it needs more processor than the limit."""

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
    return Used(*map(float, done.stdout.split()[-2:]))


def of_owners(sizes: Sizes, limit: float) -> list[Row]:
    """Forecasts of owners that differ, and of owners of ten kinds, each beside the first of its kind."""
    rows = []
    found: Used | None
    for kind, numbers in (("different", sizes.different), ("ten kinds", sizes.of_ten_kinds)):
        least, found = limit, Used(0.0, 0.0)
        for i, owners in enumerate(numbers):
            found = used(FORECAST, limit, str(owners), kind) if sizes.begun("owners", owners, found) else None
            least = found.seconds if i == 0 and found else least
            what = f"{owners:,} different owners" if kind == "different" else f"{owners:,} owners of {kind}"
            rows.append(Row(f"forecast, {what}", found, least, GOALS.get((kind, owners), "")))
    return rows


def template(sizes: Sizes, limit: float) -> list[Row]:
    """The forecast of the default template, imports included: the median of all repeats."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        used(COMMAND, limit, "init", "agreement.toml", "--template", folder=folder)
        imports = [one for _ in range(sizes.repeats) if (one := used(IMPORT, limit))]
        found = [
            one
            for _ in range(sizes.repeats)
            if (one := used(COMMAND, limit, "forecast", "agreement.toml", folder=folder))
        ]
    middle = sorted(found, key=lambda one: one.seconds)[len(found) // 2] if found else None
    beside = float(np.median([one.seconds for one in imports]))
    return [Row("forecast, the default template, beside its imports", middle, beside,
                f"{TEMPLATE_GOAL:g} s")]  # fmt: skip


def of_rows(sizes: Sizes, limit: float) -> list[Row]:
    """`copriv data check` of tables, beside DuckDB's sum of every column."""
    import duckdb

    rows = []
    for kind in ("parquet", "csv"):
        found: Used | None = Used(0.0, 0.0)
        for n in sizes.rows:
            with tempfile.TemporaryDirectory() as made:
                folder = Path(made)
                scanned, what = None, f"check, {n:,} rows of {kind.capitalize() if kind == 'parquet' else 'CSV'}"
                if sizes.begun("rows", n, found):
                    columns = ", ".join(f"round(random(), 6) as c{i}" for i in range(COLUMNS))
                    table = folder / f"t.{kind}"
                    duckdb.execute(f"copy (select {columns} from range({n})) to '{table}'")
                    (folder / "table.toml").write_text(table_of(n).to_toml(), encoding="utf-8")
                    named = (
                        "data",
                        "check",
                        table.name,
                        "--agreement",
                        "table.toml",
                        "--owner",
                        "a",
                        "--memory",
                        "500",
                    )
                    found = used(COMMAND, limit, *named, folder=folder)
                    scanned = used(SCAN, limit, str(table), str(COLUMNS))
                else:
                    found = None
                rows.append(Row(what, found, scanned.seconds if scanned else limit, "3, in 600 MB"))
    return rows


def read(address: str) -> int:
    """Read all rows of QUERY as an owner does."""
    return sum(piece.num_rows for piece in stream_sql(address, QUERY)())


def copied(address: str) -> None:
    """Have all rows of QUERY sent in PostgreSQL's binary format."""
    import psycopg

    with psycopg.connect(address) as connection, connection.cursor().copy(f"copy ({QUERY}) to stdout binary") as sent:
        while sent.read():
            pass


def of_postgresql(sizes: Sizes, limit: float) -> list[Row]:
    """Passes over a PostgreSQL table, in seconds that the owner waits; none where no server is installed."""
    import psycopg

    rows, columns = [], ", ".join(f"round(random()::numeric, 6)::float8 as c{i}" for i in range(COLUMNS))
    try:
        with postgresql.server() as address:
            for n in sizes.of_postgresql:
                with psycopg.connect(address) as connection:
                    connection.execute("drop table if exists t")
                    connection.execute(f"create table t as select {columns} from generate_series(1, {n})")
                passes = [[used(code, limit, address) for _ in range(3)] for code in (COPY, OF_POSTGRESQL)]
                copied, read = (sorted(filter(None, one), key=lambda one: one.seconds) for one in passes)
                found, beside = (one[len(one) // 2] if one else None for one in (read, copied))
                rows.append(
                    Row(f"a pass over {n:,} rows of PostgreSQL", found, beside.seconds if beside else limit, "2")
                )
    except FileNotFoundError as missing:
        print(missing)
    return rows


def table_of(rows: int) -> Agreement:
    """One owner of a table of COLUMNS columns, the last of which is the target."""
    names = [f"c{i}" for i in range(COLUMNS)]
    return Agreement.of(
        {
            "agreement": {"rule": "S1", "horizon": 10, "answers": 10, "step": 1.0},
            "model": {"loss": "squared", "regularization": 0.1, "theta_max": 10.0, "gradient_bound": 1.0},
            "data": {"features": names[:-1], "target": names[-1], "bounds": {name: [0.0, 1.0] for name in names},
                     "components": 0, "feature_bound": float(COLUMNS)},
            "owner": [{"name": "a", "records": rows, "epsilon": 1.0}],
        }
    )  # fmt: skip


def of_features(sizes: Sizes, limit: float) -> list[Row]:
    """Simulations, beside the bare products XΘ and XᵀS of each owner's records and the models of all runs."""
    rows = []
    for rule, words in (("S1", "S1"), ("A2", "A2 in rounds")):
        found: Used | None = Used(0.0, 0.0)
        for p in sizes.features:
            bare = None
            if sizes.begun("features", p, found):
                bare = used(PRODUCTS, limit, str(p), rule)
                found = used(SIMULATION, limit, str(p), rule)
            else:
                found = None
            rows.append(Row(f"simulation, {words}, {p} features", found, bare.seconds if bare else limit, "2"))
    return rows


def of_an_owner(_: Sizes, limit: float) -> list[Row]:
    """`copriv owner serve` of a table of 1,000 rows, from its start to the end of a run of twenty answers."""
    terms = throughput.agreed(20, 1000).replace(data={"dataset": "lending-embedded", "public_rows": 1000})
    with tempfile.TemporaryDirectory() as made, socket.create_server(("127.0.0.1", 0)) as free:
        folder, (host, port) = Path(made), free.getsockname()
        agreed, keys = make_consortium(terms, folder / "all").agreement, folder / "all" / "bank"
        (table,) = share_out(terms, folder / "tables")
        create_ledger(folder / "bank.ledger", "bank", keys=keys)
        free.close()
        address, named = f"{host}:{port}", ["--agreement", str(folder / "all" / "agreement.toml")]
        of_learner = ["--store", "run.db", "--keys", str(folder / "all" / "learner"), "--listen", address]
        learner = subprocess.Popen(
            [sys.executable, "-m", "copriv", "learner", named[1], *of_learner],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            found = used(
                COMMAND, limit, "owner", "serve", *named, "--data", str(table), "--ledger", "bank.ledger", "--keys", str(keys),
                "--learner", address, folder=folder,
            )  # fmt: skip
            learner.wait(60)
        finally:
            learner.kill()
            learner.wait()
    beside = used(OF_AN_OWNER, limit)
    what = f"an owner's process, {agreed.answers} answers on 1,000 rows, beside its imports"
    return [Row(what, found, beside.seconds if beside else limit, "120 MB")]


def of_network(sizes: Sizes) -> str:
    """What `benchmarks.throughput` finds, in a sentence."""
    found = throughput.measure(sizes.answers, 1000, 1)
    ratio, best = found.ratio["whole"], found.best
    ahead, least = found.ratio["ledger ahead"], found.slot * best["echo"]
    return (
        f"Over a network an owner of 1,000 records gives {best['whole']:,.0f} answers a second, {ratio:.2g} of a bare gRPC "
        f"echo ({best['echo']:,.0f}); the goal is 0.3. Signed, with a ledger that is paid ahead, {ahead:.2g}; the goal is 0.5. "
        f"An answer leaves after a fixed time of {found.slot * 1e3:.2g} ms, in which there are {least:.2g} echoes: whatever "
        f"else is made faster, the whole stays below {1 / (1 + least):.2g}. Two signatures and two checks keep any signed "
        f"answer below {1 / (1 + best['echo'] / best['signatures alone']):.2g}."
    )


def page(rows: list[Row], network: str, limit: float, asked: str) -> str:
    """The page, which says how it was made and what is not on it."""
    lines = "\n".join(row.line(limit) for row in rows)
    return f"""# How the library grows

Each row is a fresh process, in seconds of one processor, beside what is named below, and the peak of its memory, imports
included.

- **Forecasts** are beside the first of their kind, without imports: owners have 500 to 5,000 records, and ε of 0.1 to 10; the
  loss is squared, with {FEATURES} features, 2,000 public rows and every term left to the plan. *Different* owners have terms
  of their own; those of ten kinds are told with a `count` each. The default template is the file that `copriv init` writes,
  imports included; its goal is in seconds, and those without a unit are in times.
- **Checks** are `copriv data check --memory 500` of {COLUMNS} columns, imports included, beside DuckDB's sum of every column.
- **Passes over PostgreSQL** are of tables of {COLUMNS} columns on the same machine, beside a binary copy that nothing reads:
  the median of three, in seconds that the owner waits, the server's work included.
- **Simulations** are of {OWNERS} owners with {RECORDS:,} records, {RUNS} runs and 20 rounds, beside the products XΘ and XᵀS
  that each owner's records would need in each round. The data are {8e-6 * OWNERS * RECORDS:.2g} MB for each feature, made
  in the same process, whose imports take about 130 MB.

The machine had {os.cpu_count()} processors and a load of {os.getloadavg()[0]:.0f} at the end of the measurement; above a
load of {os.cpu_count()} seconds are too many, and ratios are rough.

| what | processor | times | memory | goal |
| --- | --- | --- | --- | --- |
{lines}

{network}

Not measured: {", ".join(NOT_YET)}. A row that needs more than {limit:g} s is ended there, and larger ones of its
kind are not begun, nor those that the command below leaves out.

Written by `python -m benchmarks.scale {asked}`.
"""


def main() -> None:
    """Print the page, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=200.0, help="seconds of processor of one row")
    for what, of in (("owners", "an agreement"), ("rows", "a table"), ("features", "a simulation")):
        parser.add_argument(f"--{what}", type=int, help=f"most {what} of {of}")
    parser.add_argument("--repeats", type=int, default=5, help="of the default template's forecast")
    parser.add_argument("--quick", action="store_true", help="the smallest size of each kind, without the network")
    parser.add_argument("--page", action="store_true", help="write docs/reference/scale.md")
    asked = parser.parse_args()
    most = {what: n for what in ("owners", "rows", "features") if (n := getattr(asked, what)) is not None}
    sizes, rows = QUICK if asked.quick else Sizes(repeats=asked.repeats, most=most), list[Row]()
    for part in (of_an_owner, template, of_features, of_rows, of_postgresql, of_owners):
        for row in part(sizes, asked.limit):
            rows.append(row)
            print(row.line(asked.limit), flush=True)
    network = of_network(sizes) if sizes.answers else "The network was not measured."
    print(network)
    if asked.page:
        PAGE.write_text(page(rows, network, asked.limit, " ".join(sys.argv[1:])), encoding="utf-8")


if __name__ == "__main__":
    main()
