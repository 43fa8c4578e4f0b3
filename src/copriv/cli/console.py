"""Where words go: results to standard output, logs, errors and progress to standard error.

Words are shown as they are: nothing in them is markup or an emoji, and what others wrote
(`copriv.formatting.sanitize`) moves no cursor.
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
    """Columns of the terminal; 80 where nobody looks."""
    console = Console()
    return console.width if console.is_terminal else 80


def aside(soft_wrap: bool = True) -> Console:
    """What goes on beside the result: standard error. soft_wrap: long lines are left to the terminal, tables are not."""
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
        """The line of a record: when, how grave, of which process, what."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"schema": LOG_SCHEMA, "time": when, "level": record.levelname.lower(), **self.about}
        return json.dumps({**line, "message": printable(record.getMessage(), _LONGEST)}, ensure_ascii=False)


def json_logs() -> None:
    """From now on in this command, each line of its log is JSON, and so are warnings of the libraries that it uses."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("copriv", "asyncio", "grpc", "py.warnings"):
        logging.getLogger(name).handlers[:] = [handler]
        logging.getLogger(name).propagate = False
    _LOGGER.setLevel(logging.INFO)
    logging.captureWarnings(True)


def log_about(**about: str) -> None:
    """Fields of every line from now on, where lines are JSON: of whose process it is, and under which agreement."""
    for handler in _LOGGER.handlers:
        if isinstance(handler.formatter, JsonLines):
            handler.formatter.about.update(about)


def log(message: str, level: int = logging.INFO) -> None:
    """A line about what is going on: standard error."""
    if _LOGGER.handlers:
        _LOGGER.log(level, "%s", message)
        return
    aside().print(Text(printable(message, _LONGEST), style="dim"))


def complain(message: str, *more: str) -> None:
    """An error, on one line of standard error; `more`: where there are several, one below the other."""
    if _LOGGER.handlers:
        _LOGGER.error("%s", " ".join((message, *more)))
        return
    console = aside()
    console.print(Text.assemble(("error: ", "bold red"), printable(" ".join(message.split()), _LONGEST)))
    for one in more:
        console.print(Text(f"  {printable(' '.join(one.split()), _LONGEST)}"))


def plain_table(*columns: str, left: int = 1) -> Table:
    """A table without lines; the first `left` columns are text, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for j, name in enumerate(columns):
        table.add_column(name, justify="left" if j < left else "right", overflow="fold")
    return table


def tell(*parts: RenderableType | cards.Table) -> None:
    """Print sentences and tables of `copriv.display` in order, a table apart from what is around it.

    An empty sentence is an empty line. Of a long table 20 rows are shown, and how many more there are is said.
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
    """The result of a command: its document, or its sentences and tables, which are made only where they are shown."""
    if as_json:
        typer.echo(document if isinstance(document, str) else json.dumps(document, indent=2))
    else:
        tell(*told)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """A line that lives while something goes on of which nobody knows how long it takes: on a terminal, and only there."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    line = Progress(*columns, console=aside(soft_wrap=False), transient=True)
    line.add_task(title, total=None)
    with line if line.console.is_terminal else nullcontext():
        yield


@contextmanager
def progress(title: str, patience: float = 0.5) -> Iterator[Callable[..., None]]:
    """Reports (done, in all) on a bar, on a terminal, and only once `patience`, in seconds, has passed.

    A third argument is what the bar is called from then on, where several things are done one after another.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    bar = Progress(*columns, TimeRemainingColumn(), console=aside(soft_wrap=False), transient=True)
    task = bar.add_task(title, total=None)
    if not bar.console.is_terminal:
        yield lambda done, total, title="": None
        return
    # The first report may be long in coming, so a timer and not a report puts up the bar.
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
