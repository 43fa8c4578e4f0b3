"""Ctrl-C ends a party's work and leaves nothing behind that speaks up later."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable

import pytest

from copriv.cli.commands.service import run_stoppably


def _by_the_system() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _within_the_loop() -> None:
    raise KeyboardInterrupt  # as Python's own handler does, before ours is there


@pytest.mark.parametrize("interrupt", [_by_the_system, _within_the_loop])
def test_an_interrupt_closes_what_is_open_and_no_task_is_reported_as_forgotten(
    interrupt: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    """A loop that was left by an interrupt was interrupted once more by ours while it closed; a task logged itself later."""
    closed: list[str] = []

    async def work() -> None:
        try:
            asyncio.get_running_loop().call_later(0.01, interrupt)
            await asyncio.sleep(60)
        finally:
            closed.append("files")

    with caplog.at_level(logging.ERROR, logger="asyncio"):
        with pytest.raises(KeyboardInterrupt):
            run_stoppably(work())
        gc.collect()
    assert closed == ["files"]
    assert "never retrieved" not in caplog.text


def test_work_that_is_left_alone_gives_its_outcome() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert run_stoppably(work()) == "done"
