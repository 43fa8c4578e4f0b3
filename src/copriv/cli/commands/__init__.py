"""The commands: one file per command or group, named as it is typed and imported when it is called.

`copriv simulate` is the function `command` of `simulate.py`, `copriv ledger show` the function `show` of `ledger.py`.
`options` has the options of several commands, `service` how long work is shown, stopped and resumed, and what systemd and a
monitor are told of a party's process.
"""

import sys
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "demo": "Three banks, real loans, epsilon = 1: what privacy costs, and who should join.",
    "init": "Write an agreement, asked for step by step on a terminal; with --network, the files of every party of a "
    "consortium.",
    "forecast": "What an agreement will cost, what the best terms would, and for whom joining pays: no private record "
    "is read.",
    "own-learners": "Without a central model: each owner answers once, and learns from everybody's answers. For whom does "
    "it pay?",
    "market": "A data market: by what owners state, who joins, at which epsilon, and who pays whom.",
    "simulate": "Run an agreement many times with simulated noise: what the collaboration would give.",
    "reproduce": "Regenerate figures of the two papers. A finished figure is not computed again unless its settings "
    "change.",
    "ui": "Should we join? Write the agreement, read ledgers: pages on this machine, offline, for people who decide.",
    "learner": "Wait for owners, conduct the run, write the model. A run that was stopped or killed goes on with "
    "--resume.",
    "predict": "Predict the target of each row of a table, in the table's order.",
    "export": "Write a run's model for scikit-learn (skops) or ONNX, or log the run with MLflow.",
    "verify": "Replay a run from agreement, queries and answers to its model; says which line is wrong, if one is.",
    "report": "Write a report for a data-protection officer: what left, what is spent, who asked, what is not covered.",
    "data": "Look at tables: do they keep to what was agreed?",
    "data fetch": "Download a data set of the papers, or take it from a file; it is then found by `copriv reproduce`.",
    "data check": "Check an agreement's data, or one owner's table (.csv, .parquet): one line for each problem.",
    "owner": "A data owner's own process.",
    "owner keys": "Make an owner's own secret key, and the request by which the coordinator certifies it.",
    "owner serve": "Answer the learner's queries on this owner's table, until the agreement is fulfilled or the budget "
    "is spent.",
    "owner personalize": "Fit an own model at home with the common one as a prior. It costs no budget, because it is not "
    "released.",
    "owner verdict": "Does joining pay on this owner's own records? Asked at home, of them and of what is released; not for "
    "release.",
    "owner learn": "Learn an own model from everybody's answers in a run's file. It costs no budget, because it is not "
    "released.",
    "ledger": "What an owner has spent.",
    "ledger create": "Make an owner's ledger, once. What is spent of it never comes back, whatever runs and tables follow.",
    "ledger show": "Every line of a ledger, and what is left. Reads only; an owner may be writing.",
    "ledger verify": "Check every line of a ledger and the sums; with --keys or --head, also that no older copy was put "
    "back.",
    "ledger adopt": "Begin a new witness for a whole ledger: its keys were renewed, or their folder is lost.",
}
"""The commands as they are typed, in the order of `copriv --help`, with the first lines of their docstrings."""


def commands_below(group: str = "") -> type[TyperGroup]:
    """Class of a group of commands, which imports a command when it is called and not when `--help` lists it."""
    below = {name.removeprefix(group).strip(): name for name in COMMANDS if name.startswith(group) and name != group}
    here = {short: name for short, name in below.items() if " " not in short}

    @cache
    def loaded(short: str) -> Any:
        name = here[short]
        if any(other.startswith(f"{name} ") for other in COMMANDS):
            made = typer.Typer(
                help=COMMANDS[name], cls=commands_below(f"{name} "), no_args_is_help=True, add_completion=False,
                rich_markup_mode=None,
            )  # fmt: skip
            made.callback()(lambda: None)
        else:
            made = typer.Typer(add_completion=False, rich_markup_mode=None)
            file, _, function = name.replace("-", "_").partition(" ")
            made.command(short)(getattr(import_module(f"copriv.cli.commands.{file}"), function or "command"))
        command = typer.main.get_command(made)
        command.name = short
        return command

    class LoadedOnUse(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(here)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in here:
                return None
            if ctx is None or ctx.resilient_parsing:  # a shell asks what could be typed next
                return loaded(cmd_name)
            # The command is named on a terminal while it is imported, which takes a second or two on a busy machine.
            line, on_terminal = f"copriv {here[cmd_name]}: loading", sys.stderr is not None and sys.stderr.isatty()
            if on_terminal:
                print(line, end="", file=sys.stderr, flush=True)
            try:
                return loaded(cmd_name)
            finally:
                if on_terminal:
                    print("\r" + " " * len(line), end="\r", file=sys.stderr, flush=True)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(short, COMMANDS[name]) for short, name in here.items()])

    return LoadedOnUse
