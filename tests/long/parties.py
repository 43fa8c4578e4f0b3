"""The parties of the long runs: keys, terms and records, made once; and folders on the fastest disk there is."""

import asyncio
import os
import selectors
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from copriv.agreement import Agreement
from copriv.network.keys import Keys
from network_parties import NAMES, agreement, keys, records

__all__ = ["NAMES", "Finding", "agreed", "certified", "fast_folder", "loop", "records"]


class Finding(AssertionError):
    """Something that must not happen happened."""


def fast_folder() -> str | None:
    """In memory where the system has such a place: what is tested there is not the disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@cache
def certified() -> dict[str, Keys]:
    """Keys of the learner and the owners, the same for the whole process."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        return keys(Path(folder))


@cache
def agreed(rule: str = "A2", horizon: int = 12, answers: int = 6) -> Agreement:
    """Terms with three owners of 60 records."""
    return agreement(rule, horizon=horizon, answers=answers, records=60)


class Inside(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Looks for what comes from outside only where the loop would wait for it, and now and then: in memory nothing does.

    That question to the system was a sixth of a message's time.
    """

    asked = 0

    def select(self, timeout: float | None = None) -> Any:
        self.asked += 1
        return [] if timeout is not None and timeout <= 0 and self.asked % 64 else super().select(timeout)


def loop(kind: str) -> asyncio.AbstractEventLoop:
    """For parties on a transport of this kind."""
    return asyncio.SelectorEventLoop(Inside()) if kind == "memory" else asyncio.new_event_loop()
