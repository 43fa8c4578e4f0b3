"""`copriv demo --network`: owners and learner as processes of their own on this machine, over mutual TLS."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import typer

from copriv.agreement import Agreement
from copriv.cli.show.console import log, out
from copriv.cli.show.output import replace_file
from copriv.cli.show.run import compared, owners_table
from copriv.errors import CoprivError, Unreachable

PAGE = "COMMANDS.md"
"""What can be typed in the folder that is left."""

PATIENCE = 600.0
"""Seconds for the whole run: ten of them are enough on a machine that has nothing else to do."""


def demo_network(
    agreement: Agreement, folder: Path | None = None, as_json: bool = False, talk: str = "choose", kept: bool = True
) -> dict[str, Any]:
    """`copriv demo --network`: owners and learner as processes of their own on this machine, over mutual TLS.

    Writes everything into `folder` (a temporary one when None) and shows the commands that it runs. Gives the run's
    record. Raises Unreachable where the run does not finish.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="copriv-") as made:
            return demo_network(agreement, Path(made) / "consortium", as_json, talk, kept=False)
    from copriv.network.model import Model
    from copriv.network.setup import make_consortium, share_out

    make_consortium(agreement, folder)
    tables = share_out(agreement, folder)
    copriv = [sys.executable, "-c", "from copriv.cli import main; main()"]
    file = str(folder / "agreement.toml")
    learner_log = folder / "learner.log"
    at_learner = ["learner", file, "--store", str(folder / "run.db"), "--keys", str(folder / "learner")]
    at_learner += ["--listen", "127.0.0.1:0", "--talk", talk, "--patience", f"{PATIENCE / 2:.0f}"]
    processes: list[subprocess.Popen[bytes]] = []

    def start(arguments: list[str], errors: Path) -> None:
        log("copriv " + " ".join(arguments))
        with errors.open("wb") as stream:
            processes.append(subprocess.Popen([*copriv, *arguments], stdout=subprocess.DEVNULL, stderr=stream))

    try:
        start(at_learner, learner_log)
        address = _address_in(learner_log, processes[0])
        for table in tables:
            own = table.parent
            at_owner = ["owner", "serve", "--agreement", file, "--data", str(table), "--keys", str(own)]
            at_owner += ["--ledger", str(own / "data.ledger"), "--new-ledger", "--learner", address]
            start(at_owner, own / "owner.log")
        for process in processes:
            if (how := _how_it_ended(process)) is not None:
                logs = " ".join(path.read_text().strip()[-300:] for path in sorted(folder.glob("**/*.log")))
                raise Unreachable(f"a process of the demonstration {how}: {logs}")
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
    replace_file(folder / PAGE, commands_page(tables).encode())
    model = Model.load(folder / "run.json")
    if as_json:
        typer.echo(json.dumps(model.record, indent=2))
    else:
        out().print(owners_table(model.record["owners"]))
        out().print(compared(model.record["realised"], model.record["forecast"]))
        out().print(f"{model.record['outcome']}, in {model.record['seconds']:.1f} s over mutual TLS on this machine.")
        if kept:
            out().print(f"What can be done with it: {folder / PAGE}")
    return model.record


def _how_it_ended(process: "subprocess.Popen[bytes]") -> str | None:
    """None: well."""
    try:
        return None if process.wait(PATIENCE) == 0 else "failed"
    except subprocess.TimeoutExpired:
        return f"was not over after {PATIENCE:.0f} seconds"


def commands_page(tables: tuple[Path, ...]) -> str:
    """What can be done in the folder that the demonstration leaves: a page of commands, each as it can be typed there."""
    own = [table.parent.name for table in tables]
    first = own[0]
    checks = "\n".join(
        f"copriv data check {name}/data.parquet --agreement agreement.toml --owner {name} --keys {name} "
        f"--ledger {name}/data.ledger"
        for name in own
    )
    serve = "\n".join(
        f"copriv owner serve --agreement agreement.toml --data {name}/data.parquet --ledger {name}/data.ledger --keys {name}"
        for name in own
    )
    return f"""# What is in this folder, and what can be done with it

A whole consortium and its run: `agreement.toml` and `dictionary.json` are everybody's; {", ".join(own)} and `learner` are
the parties' own; `run.db` is the run, `run.json` its model. Type these here.

Is the model what the agreed rule makes of the answers, and did nobody put words into anybody's mouth?

```sh
copriv verify run.db --agreement agreement.toml --keys {first} --model run.json
```

What did an owner spend, and is its ledger whole?

```sh
copriv ledger show {first}/data.ledger
copriv ledger verify {first}/data.ledger --keys {first}
```

The model, used:

```sh
copriv predict run.json {first}/data.parquet --out predictions.csv
```

The learner again: it finds the run finished, asks nobody and writes nothing anew.

```sh
copriv learner agreement.toml --store run.db --keys learner --resume
```

The four commands of the run. Their budget is spent now, so they are for a consortium of your own, made with
`copriv init --network agreement.toml FOLDER`; each in a terminal of its own:

```text
copriv learner agreement.toml --store run.db --keys learner
{serve}
```

Before a run, each owner sees whether everything that it will read is as agreed; here this says that the budget is spent:

```text
{checks}
```
"""


def _address_in(path: Path, process: "subprocess.Popen[bytes]") -> str:
    """The address that the learner says it listens at, in its log."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if "listening at " in text and ";" in text.split("listening at ")[1]:
            return text.split("listening at ")[1].split(";")[0]
        time.sleep(0.05)
    raise CoprivError(f"the learner did not start: {path.read_text(encoding='utf-8')[-300:]}")
