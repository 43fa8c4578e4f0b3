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

An error of copriv becomes one line on standard error and its exit code. `commands` has one file per command or group,
`console`, `following` and `output` their common output. All commands are in docs/reference/command-line.md, which a test
checks.
"""

import errno
import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from copriv import __version__
from copriv.cli.commands import commands_below
from copriv.errors import AgreementError, CoprivError
from copriv.formatting.sanitize import printable

# Typer brings its own copy of click, or uses click itself, depending on its version: this is UsageError in both.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

_INTERRUPTED = 128 + signal.SIGINT
"""Exit code of an interrupted command, as shells use it."""

app = typer.Typer(
    name="copriv",
    help="Train one model across organisations, and know the cost of privacy before you start.",
    cls=commands_below(),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    """Run one command and exit with its code; `arguments` are those of the process when None."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors that copriv does not raise are bugs and keep their traceback."""
    sys.unraisablehook = _raise_interrupt_again
    logging.getLogger("copriv").handlers.clear()  # an earlier command's, where several run in one process
    if not sys.warnoptions:  # an overflow is shown as "unbounded"
        warnings.simplefilter("ignore", RuntimeWarning)
    try:
        code = app(args=arguments, prog_name="copriv", standalone_mode=False)
        if sys.stdout is not None:  # None where standard output is closed
            sys.stdout.flush()  # raises where the disk is full
        code = code if isinstance(code, int) else 0
    except CoprivError as error:
        if isinstance(error, AgreementError) and len(error.problems) > 1:
            _complain("several things in the agreement cannot stand as they are:", *error.problems)
        else:
            _complain(str(error))
        return error.exit_code
    except _UsageError as error:
        said: str = error.format_message()  # type: ignore[attr-defined]
        context = getattr(error, "ctx", None)
        if context is not None and said == context.get_help():  # a group without a command
            typer.echo(said, err=True)
        else:
            _complain(f"{_in_words(said)} See `{getattr(context, 'command_path', 'copriv')} --help`.")
        return 2
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except BrokenPipeError:
        _silence()  # the reader of the result has closed the pipe
        return 1
    except OSError as error:
        what = ""
        if error.filename:
            what = f"{printable(str(error.filename), 200)}: "
        elif error.errno == errno.ENOSPC:
            what = "standard output: "
        _silence()
        _complain(f"{what}{error.strerror or error}; nothing more was written. Give a path that can be written to")
        return 1
    except MemoryError:
        _complain("this needs more memory than there is; ask for fewer runs, or for less at once")
        return 1
    if code == _INTERRUPTED:
        if sys.stderr is not None and sys.stderr.isatty():
            typer.echo(err=True)  # after the line of an unanswered question
        _complain("interrupted")
    return code


def _raise_interrupt_again(unraisable: Any) -> None:
    """Send SIGINT again after a library in another language received a KeyboardInterrupt and dropped it."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()  # a real signal also ends a wait for a key
    else:
        sys.__unraisablehook__(unraisable)


def _silence() -> None:
    """Discard the buffer of standard output, so that it is not written again when the process ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return


def _in_words(said: str) -> str:
    """A message of the parser of options, as a sentence about the option."""
    said = re.sub(r"Input should be (a valid )?", "it must be ", said)
    said = re.sub(r", unable to (parse|interpret)[^.]*", "", said)
    said = said.replace("it must be integer", "it must be a whole number")
    if not said.endswith((".", "?")):
        said += "."
    return said


def _complain(message: str, *more: str) -> None:
    from copriv.cli.console import complain  # imports rich, which a successful command may not need

    complain(message, *more)
