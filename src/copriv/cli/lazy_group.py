"""Commands whose modules are imported when they are called: `copriv --help` does not wait for what it only names."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


def loaded_on_use(commands: Mapping[str, str], within: str = "") -> type[TyperGroup]:
    """The class of the group of commands below `within`.

    commands: what each command does in a line, by its full name as typed; a name that others begin with is a group.
    """
    below = {name.removeprefix(within).strip(): name for name in commands if name.startswith(within) and name != within}
    here = {short: name for short, name in below.items() if " " not in short}

    @cache
    def loaded(short: str) -> Any:
        name = here[short]
        if any(other.startswith(f"{name} ") for other in commands):
            made = typer.Typer(
                help=commands[name], cls=loaded_on_use(commands, f"{name} "), no_args_is_help=True, add_completion=False,
                rich_markup_mode=None,
            )  # fmt: skip
            made.callback()(lambda: None)
        else:
            made = typer.Typer(add_completion=False, rich_markup_mode=None)
            made.command(short)(
                import_module(f"copriv.cli.commands.{name.replace(' ', '_').replace('-', '_')}").command
            )
        command = typer.main.get_command(made)
        command.name = short
        return command

    class LoadedOnUse(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(here)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return loaded(cmd_name) if cmd_name in here else None

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(short, commands[name]) for short, name in here.items()])

    return LoadedOnUse
