"""The command line: parse, one call, show.

The result goes to standard output, and with `--json` nothing but JSON does; logs and progress go to standard error.
An option beats its COPRIV_* variable, which beats the file, which beats the default. NO_COLOR is honoured.

| exit code | meaning                        |
| --------- | ------------------------------ |
| 0         | done                           |
| 1         | failed                         |
| 2         | the call makes no sense        |
| 3         | bad agreement or data          |
| 4         | budget refused                 |
| 5         | owner or learner unreachable   |
| 130       | interrupted                    |

Whatever copriv raises on purpose becomes one line on standard error and its exit code. One file a command in `commands`,
what they show in `show`; all are in docs/reference/command-line.md, and a test fails where one is not.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from copriv import __version__
from copriv.cli.commands import (
    data_check,
    data_fetch,
    demo,
    forecast,
    init,
    learner,
    ledger_show,
    ledger_verify,
    owner_serve,
    predict,
    reproduce,
    simulate,
)
from copriv.cli.show.console import complain
from copriv.errors import CoprivError

# Typer brings its own copy of click, or uses click itself, depending on its version: this is UsageError in both.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

_INTERRUPTED = 130

app = typer.Typer(
    name="copriv",
    help="Train one model across organisations, and know the cost of privacy before you start.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.command)
app.command("init")(init.command)
app.command("forecast")(forecast.command)
app.command("simulate")(simulate.command)
app.command("reproduce")(reproduce.command)


def _group(name: str, what: str) -> typer.Typer:
    """Commands of two words."""
    group = typer.Typer(help=what, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group, name=name)
    return group


_data = _group("data", "Look at tables: do they keep to what was agreed?")
_data.command("fetch")(data_fetch.command)
_data.command("check")(data_check.command)
_group("owner", "A data owner's own process.").command("serve")(owner_serve.command)
_ledger = _group("ledger", "What an owner has spent.")
_ledger.command("show")(ledger_show.command)
_ledger.command("verify")(ledger_verify.command)
app.command("learner")(learner.command)
app.command("predict")(predict.command)


def _show_version(asked: bool) -> bool:
    if asked:
        typer.echo(__version__)
        raise typer.Exit()
    return asked


@app.callback()
def _copriv(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code; `arguments` are those of the process when None."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """One command, from its arguments to its exit code. Errors that are not ours are bugs and keep their traceback."""
    try:
        code = app(args=None if arguments is None else list(arguments), prog_name="copriv", standalone_mode=False)
        code = code if isinstance(code, int) else 0
    except CoprivError as error:
        complain(str(error))
        return error.exit_code
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        name = context.command_path if context is not None else "copriv"
        complain(f"{error.format_message()} See `{name} --help`.")  # type: ignore[attr-defined]
        return 2
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        complain("interrupted")
    return code
