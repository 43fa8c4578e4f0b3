"""Output of commands: results to standard output; logs, errors and progress to standard error.

Text is shown literally: it is not parsed as markup or emoji, and text of other parties contains no control characters
(`copriv.formatting.sanitize`).
Consoles are made when used, so that redirected streams are respected; rich drops colours for NO_COLOR and for pipes.
"""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from copriv.formatting import cards
from copriv.formatting.sanitize import printable

_LONGEST = 1600
"""Characters of a line: twenty of a terminal."""


def out() -> Console:
    """The result: standard output."""
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = max(console.width, 110)  # a pipe has no width of its own, and squeezes no table
    return console


def columns() -> int:
    """Columns of the terminal; 80 where there is none."""
    console = Console()
    return console.width if console.is_terminal else 80


def aside(soft_wrap: bool = True) -> Console:
    """Console of standard error. soft_wrap: whether long lines are left to the terminal to wrap, which breaks tables."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap)


_LOGGER = logging.getLogger("copriv")
"""Has a handler where lines are to be JSON."""

LOG_SCHEMA = "copriv.log/1"


class JsonLines(logging.Formatter):
    """Each record as one line of JSON, with the fields `about` the process."""

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, str] = {}

    def format(self, record: logging.LogRecord) -> str:
        """Format a record with its time, level, process and message."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"schema": LOG_SCHEMA, "time": when, "level": record.levelname.lower(), **self.about}
        return json.dumps({**line, "message": printable(record.getMessage(), _LONGEST)}, ensure_ascii=False)


def json_logs() -> None:
    """Log in JSON from now on, one object a line, including warnings of libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("copriv", "asyncio", "grpc", "py.warnings"):
        logging.getLogger(name).handlers[:] = [handler]
        logging.getLogger(name).propagate = False
    _LOGGER.setLevel(logging.INFO)
    logging.captureWarnings(True)


def log_about(**about: str) -> None:
    """Add fields to every further line of JSON, such as the party and its agreement."""
    for handler in _LOGGER.handlers:
        if isinstance(handler.formatter, JsonLines):
            handler.formatter.about.update(about)


def log(message: str, level: int = logging.INFO) -> None:
    """Log a line to standard error."""
    if _LOGGER.handlers:
        _LOGGER.log(level, "%s", message)
        return
    aside().print(Text(printable(message, _LONGEST), style="dim"))


def complain(message: str, *more: str) -> None:
    """Print an error on one line of standard error, and each of `more` on a line below it."""
    if _LOGGER.handlers:
        _LOGGER.error("%s", " ".join((message, *more)))
        return
    console = aside()
    console.print(Text.assemble(("error: ", "bold red"), printable(" ".join(message.split()), _LONGEST)))
    for one in more:
        console.print(Text(f"  {printable(' '.join(one.split()), _LONGEST)}"))


def plain_table(*columns: str, left: int = 1) -> Table:
    """A table without borders; the first `left` columns are text, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for j, name in enumerate(columns):
        table.add_column(name, justify="left" if j < left else "right", overflow="fold")
    return table


def tell(*parts: RenderableType | cards.Table) -> None:
    """Print sentences and tables of `copriv.display` in order, with an empty line before and after each table.

    An empty sentence gives an empty line. At most 20 rows of a table are shown, followed by the number of further ones.
    """
    console = out()
    last: RenderableType | cards.Table = ""
    for part in parts:
        if last and cards.Table in (type(part), type(last)):
            console.print()
        last = part
        if not isinstance(part, cards.Table):
            console.print(part)
            continue
        table, (rows, more) = plain_table(*part.head), part.first(20)
        for i, row in enumerate(rows):
            table.add_row(*(printable(cell, 100) for cell in row), style="bold" if i == part.strong else "")
        console.print(table)
        if more:
            console.print(f"{more}: --json lists them all")


def answer(as_json: bool, document: dict[str, Any] | str, told: Iterable[RenderableType | cards.Table]) -> None:
    """Print the result of a command: its document as JSON, or else its sentences and tables, which are then made."""
    if as_json:
        typer.echo(document if isinstance(document, str) else json.dumps(document, indent=2))
    else:
        tell(*told)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show a spinner on a terminal during work of unknown length."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    line = Progress(*columns, console=aside(soft_wrap=False), transient=True)
    line.add_task(title, total=None)
    with line if line.console.is_terminal else nullcontext():
        yield


@contextmanager
def progress(title: str, patience: float = 0.5) -> Iterator[Callable[..., None]]:
    """Yield a function that reports (done, total) on a progress bar, which is shown on a terminal after `patience` seconds.

    An optional third argument renames the bar, for work in several stages.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    bar = Progress(*columns, TimeRemainingColumn(), console=aside(soft_wrap=False), transient=True)
    task = bar.add_task(title, total=None)
    if not bar.console.is_terminal:
        yield lambda done, total, title="": None
        return
    # A timer shows the bar, because the first report may take long.
    show = threading.Timer(patience, bar.start)
    show.daemon = True
    last = 0.0

    def report(done: int, total: int, now_called: str = title) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > 0.1 or done == total:
            last = now
            bar.update(task, completed=done, total=total, description=now_called)

    show.start()
    try:
        yield report
    finally:
        show.cancel()
        show.join()
        bar.stop()
