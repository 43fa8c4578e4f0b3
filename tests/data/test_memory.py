"""The most memory that a process takes with an owner's table, against what was allowed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what was taken")

FEATURES = [f"x{j}" for j in range(20)]
BOUNDS = ", ".join(f"{name} = [-1, 1]" for name in (*FEATURES, "y"))
AGREEMENT = """
agreement = {{ rule = "A2", horizon = 4, answers = 2, step = 0.1 }}
model = {{ loss = "squared", gradient_bound = 2.0 }}
data = {{ components = 0, feature_bound = 20.0, features = {features}, target = "y", bounds = {{ {bounds} }} }}
owner = [{{ name = "a", records = {records}, epsilon = 1.0 }}]
"""
SERVED = """
from copriv import Agreement, Owner, Query
from copriv.cli.commands.owner import _own_records
from copriv.data.stream import most_memory
from copriv.losses import Squared
from copriv.network.setup import memory_needed
import numpy as np, sys
agreed = Agreement.load(sys.argv[2])
needed = memory_needed(agreed, "a", 20)
records, _ = _own_records(agreed, "a", sys.argv[1], "", None, float(sys.argv[3]))
owner = Owner(agreed, "a", records, Squared())
owner.answer(Query("q", agreed.fingerprint, "a", np.zeros(20)))
print(needed / 1e6, most_memory() / 1e6, type(records).__name__)
"""
CHECKED = """
from copriv.cli import run
from copriv.data.stream import most_memory
import sys
code = run(["data", "check", sys.argv[1], "--agreement", sys.argv[2], "--owner", "a", "--json"])
print(code, most_memory() / 1e6)
"""


def files(folder: Path, kind: str, n: int) -> tuple[Path, Path]:
    """A table of n rows and its agreement."""
    rng = np.random.default_rng(0)
    columns = {name: rng.uniform(-1, 1, n).round(3) for name in (*FEATURES, "y")}
    table = pa.table(columns)
    path = folder / f"{n}.{kind}"
    if kind == "csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path, row_group_size=100_000)
    agreed = folder / f"{n}.toml"
    agreed.write_text(AGREEMENT.format(features=FEATURES, bounds=BOUNDS, records=n))
    return path, agreed


def said(script: str, *arguments: object) -> list[str]:
    """What a new process prints last, word by word."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=True, env=os.environ
    )
    return done.stdout.splitlines()[-1].split()


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [350.0, 1000.0])
def test_an_owner_takes_no_more_than_it_was_allowed(tmp_path: Path, allowed: float) -> None:
    """Half a million rows take 84 MB as a table, and as records; several copies of either would show."""
    needed, taken, kind = said(SERVED, *files(tmp_path, "parquet", 500_000), allowed)
    assert kind == ("Records" if allowed == 1000.0 else "StreamedRecords")
    assert float(taken) <= 1.2 * min(float(needed), allowed)
    if kind == "Records":
        assert float(needed) <= 1.5 * float(taken), "an estimate that is far too high reads anew for no reason"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "more"), [("parquet", 40), ("csv", 50)])
def test_a_check_takes_as_much_for_a_large_table_as_for_a_small_one(tmp_path: Path, kind: str, more: float) -> None:
    """Blocks of a csv file are read ahead, more or fewer of them as the machine is busy: 20 to 30 MB."""
    (code, few), (same, many) = (said(CHECKED, *files(tmp_path, kind, n)) for n in (120_000, 480_000))
    assert (code, same) == ("0", "0")
    assert float(many) - float(few) < more, "the text and the numbers of 360,000 rows are more than 110"
