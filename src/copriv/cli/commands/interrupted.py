"""Ctrl-C says how to go on: what is safe, and the command that goes on from there."""

from collections.abc import Iterator
from contextlib import contextmanager

from copriv.cli.show.console import log


@contextmanager
def going_on(how: str) -> Iterator[None]:
    """Says `how` where the work inside is interrupted, which ends the command as always."""
    try:
        yield
    except KeyboardInterrupt:
        log(how)
        raise
