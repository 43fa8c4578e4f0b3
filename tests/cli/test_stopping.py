"""Ctrl-C ends a party's work and leaves nothing behind that speaks up later."""

import asyncio
import gc
import logging
import os
import signal

import pytest

from copriv.cli.commands.party import run_stoppably


async def _interrupted(closed: list[str]) -> None:
    try:
        asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    finally:
        closed.append("files")


def test_an_interrupt_closes_what_is_open_and_no_task_is_reported_as_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Raised within the loop, a KeyboardInterrupt left a task that logged itself whenever it was collected."""
    closed: list[str] = []
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        with pytest.raises(KeyboardInterrupt):
            run_stoppably(_interrupted(closed))
        gc.collect()
    assert closed == ["files"]
    assert "never retrieved" not in caplog.text


def test_work_that_is_left_alone_gives_its_outcome() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert run_stoppably(work()) == "done"
