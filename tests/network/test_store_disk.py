"""A run's file on a disk that fails: said in words, and nothing half made is taken for a run."""

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from copriv.errors import InvalidInput
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore, StoreFailed
from copriv.protocol import Answer, Query
from network_parties import NAMES, agreement
from unsigned import unsigned

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


def begun(path: Path) -> tuple[RunStore, Conductor]:
    """A run in which all three owners were asked."""
    store = RunStore.create(path, AGREED, 3)
    conductor = Conductor(store, None, 0.0, unsigned())
    for name in NAMES:
        conductor.joined(name, 0.0)
    conductor.take_outbox()
    return store, conductor


def full(store: RunStore) -> None:
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")


def fill(store: RunStore) -> None:
    for _ in range(2000):  # until a page is used up
        store.event("noted", text="x" * 200)


def room_again(store: RunStore) -> None:
    store._connection.execute("PRAGMA max_page_count = 1000000")


def test_after_a_write_that_failed_nothing_leaves_or_is_taken_though_there_is_room_again(tmp_path: Path) -> None:
    store, conductor = begun(tmp_path / "run.db")
    asked = [(turn.participant, *turn.waiting.items()) for turn in conductor.run.open.values()]
    full(store)
    with pytest.raises(StoreFailed):
        fill(store)
    room_again(store)
    for use in (
        store.commit,
        conductor.take_outbox,
        lambda: store.event("noted"),
        lambda: conductor.answered(
            Answer(asked[0][1][1].identity, AGREED.fingerprint, NAMES[asked[0][0]], np.zeros(3), 1), 0.0
        ),
    ):
        with pytest.raises(StoreFailed):
            use()
    store.close()
    again = RunStore.resume(tmp_path / "run.db", AGREED)
    assert list(again.events("noted")) == [], "what was not flushed before the failure is not there"
    assert list(again.events("answer")) == []
    assert len(list(again.events("query"))) == 3
    resumed = Conductor(again, None, 0.0, unsigned())
    for name in NAMES:
        resumed.joined(name, 0.0)
    queries = [message for _, message in resumed.take_outbox()]
    for query in queries:
        assert isinstance(query, Query)
        assert resumed.answered(Answer(query.identity, query.fingerprint, query.owner, np.zeros(3), 1), 0.0)
    again.close()
