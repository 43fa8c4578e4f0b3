"""What the first touch of copriv loads. Counted in modules, which no busy machine changes; timed in benchmarks/startup.py."""

import subprocess
import sys

import pytest

HEAVY = {
    "clarabel", "cryptography", "dp_accounting", "grpc", "joblib", "matplotlib", "narwhals", "opendp", "pandas",
    "pyarrow", "scipy", "sklearn", "threadpoolctl",
}  # fmt: skip

FIRST_TOUCH = {
    "import copriv": ("import copriv", {"numpy", "pydantic", "jaxtyping", "rich", "typer"}),
    "a version": ("import copriv; copriv.__version__", {"numpy", "pydantic", "jaxtyping", "rich", "typer"}),
    "an error": ("import copriv; copriv.AgreementError", {"numpy", "pydantic", "rich", "typer"}),
    "an agreement": ("import copriv; copriv.Agreement", {"rich", "typer"}),
    "a query": ("import copriv; copriv.Query", {"pydantic", "rich", "typer"}),
    "records": ("import copriv; copriv.Records", {"pydantic", "rich", "typer"}),
    "copriv --help": ("from copriv.cli import run; run(['--help'])", {"numpy", "jaxtyping"}),
    "copriv --version": ("from copriv.cli import run; run(['--version'])", {"numpy", "jaxtyping"}),
    "copriv data --help": ("from copriv.cli import run; run(['data', '--help'])", {"numpy", "jaxtyping"}),
}
"""What is done, and what must not be loaded for it beside what is heavy. (Typer may bring pydantic of its own.)"""

USED = {
    "a simulation": ("import copriv; copriv.simulate", {"grpc", "matplotlib", "opendp", "rich", "typer"}),
    "a forecast": ("import copriv; copriv.forecast", {"grpc", "matplotlib", "opendp", "rich", "typer"}),
    "a ledger shown": (
        "from copriv.cli import run; run(['ledger', 'show', '--help'])",
        {"clarabel", "grpc", "matplotlib", "opendp", "scipy", "sklearn"},
    ),
    # Half of the memory of an owner's process was what it had no use for.
    "an owner's process": (
        "import copriv.cli.commands.owner, copriv.network.agent, copriv.network.setup, copriv.privacy.ledger.file\n"
        "import copriv.network.grpc_transport, copriv.privacy.laplace",
        {"clarabel", "joblib", "matplotlib", "pandas", "polars", "scipy", "sklearn"},
    ),
    # pyarrow imports pandas, 40 MB, wherever it is given a list, an array or a number of Python's.
    "an owner's table": (
        "import pathlib, tempfile\n"
        "from copriv.data import cells, tables\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    file = pathlib.Path(folder, 'table.csv')\n"
        "    file.write_text('age,sector\\n 1.5,a\\nNA,b\\n')\n"
        "    import pyarrow.csv\n"  # its types are those that a Parquet file has
        "    tables.write_parquet(pyarrow.csv.read_csv(file), pathlib.Path(folder, 'table.parquet'))\n"
        "    for kind in ('csv', 'parquet'):\n"
        "        table = tables.read_table(pathlib.Path(folder, f'table.{kind}'))\n"
        "        ages, wrong = cells.numbers(table['age'])\n"
        "        assert wrong is None and ages[0] == 1.5 and ages[1] != ages[1]\n"
        "        assert cells.distinct(table['sector'])[0] == ['a', 'b']\n",
        {"pandas", "polars", "scipy"},
    ),
}
"""Likewise, where the heavy parts are what is asked for."""


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after it ran this."""
    ask = f"{code}\nimport sys; print('loaded:', *{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return set(done.stdout.rsplit("loaded:", 1)[1].split())


@pytest.mark.parametrize("name", FIRST_TOUCH)
def test_the_first_touch_loads_nothing_heavy(name: str) -> None:
    code, more = FIRST_TOUCH[name]
    assert loaded_by(code) & (HEAVY | more) == set()


@pytest.mark.parametrize("name", USED)
def test_what_is_used_loads_its_own_parts_only(name: str) -> None:
    code, without = USED[name]
    assert loaded_by(code) & without == set()


def test_the_names_of_scipy_that_cost_half_a_second_are_left_alone() -> None:
    used = "import sys, copriv, copriv.network.learner; copriv.simulate, copriv.forecast"
    subprocess.run([sys.executable, "-c", f"{used}; sys.exit('scipy.stats' in sys.modules)"], check=True)


SHOWN = """
import io, sys
from copriv.cli import commands, run

class Terminal(io.StringIO):
    loaded = None
    def isatty(self):
        return True
    def write(self, text):
        self.loaded = self.loaded or (text, {name.split(".")[0] for name in sys.modules})
        return super().write(text)

sys.stderr = Terminal()
"""


def test_a_terminal_shows_the_command_before_it_is_imported() -> None:
    ask = f"{SHOWN}run(['forecast', 'no.toml']); print(sys.stderr.loaded[0], *sys.stderr.loaded[1], 'after:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    before, after = done.stdout.split("after:")
    assert before.startswith("copriv forecast: loading ")
    assert set(before.split()) & (HEAVY | {"numpy", "jaxtyping", "rich"}) == set()
    assert {"numpy", "scipy", "rich"} <= set(after.split()), "what was imported afterwards"


def test_every_command_is_shown_before_it_is_imported_and_on_a_terminal_only() -> None:
    ask = f"""{SHOWN}
def refused(module):
    raise RuntimeError(module)

commands.import_module = refused
leaves = [name for name in commands.COMMANDS if not any(other.startswith(name + " ") for other in commands.COMMANDS)]
for stream in (sys.stderr, io.StringIO()):
    sys.stderr = stream
    for name in leaves:
        try:
            run(name.split())
        except RuntimeError:
            print(name, "|", repr(stream.getvalue()))
        stream.seek(0), stream.truncate()
"""
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    told = [tuple(line.split(" | ")) for line in done.stdout.splitlines()]
    assert len(told) >= 2 * 20
    for name, written in told[: len(told) // 2]:
        assert f"copriv {name}: loading" in written, name
        assert written.endswith(" \\r'"), "and gone afterwards"
    assert {written for _, written in told[len(told) // 2 :]} == {"''"}
