"""A run's file on a disk that fails: said in words, and nothing half made is taken for a run."""

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from copriv.errors import InvalidInput
from copriv.network.store import RunStore, StoreFailed
from network_parties import agreement

AGREED = agreement()


def on_a_full_disk(most: int, work: Callable[[], object]) -> str:
    """The name of the error that `work` raises in a process whose files may have so many bytes."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        try:
            work()
            said = "nothing"
        except BaseException as error:
            said = type(error).__name__
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    said = os.read(read, 1000).decode()
    os.close(read)
    os.waitpid(pid, 0)
    return said


@pytest.mark.parametrize("most", [0, 1000, 4096, 8192, 20_000])
def test_a_run_that_cannot_be_begun_is_none_and_its_file_can_be_used_later(tmp_path: Path, most: int) -> None:
    path = tmp_path / "run.db"
    assert on_a_full_disk(most, lambda: RunStore.create(path, AGREED, 3)) == "StoreFailed"
    with pytest.raises((InvalidInput, StoreFailed)):
        RunStore.resume(path, AGREED)
    RunStore.create(path, AGREED, 3).close()


def test_a_run_s_file_whose_tables_are_damaged_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    RunStore.create(path, AGREED, 3).close()
    raw = bytearray(path.read_bytes())
    raw[4096:] = bytes(len(raw) - 4096)
    path.write_bytes(raw)
    with pytest.raises(StoreFailed, match="cannot be read"):
        RunStore.resume(path, AGREED)
