"""The learner's record of a run, in one SQLite file: queries, answers, and the steps of the model.

A query and the events that led to it are flushed to the disk together before it is sent. A learner that was killed can
therefore resume the run, and never asks for the same answer under two identities.

| table  | one row for                                                                                                |
| ------ | ---------------------------------------------------------------------------------------------------------- |
| run    | the run: its name, agreement and number of parameters                                                      |
| events | a line: one event, in order, with θ where a participant is asked, and numbers that owners sent              |

The lines form a chain: the hash of a line is over the line and the hash before it, and the line states the SHA-256 of
its numbers. A query carries the hash of the line before it to its owner, which signs it with its answer, so that not even
the learner can change the history later. At the end owners sign how many answers they gave, and the learner signs the
file of its model, each in a line of its own. `verify` checks all of it. The file holds no private data: only answers that
owners released.
"""

import hashlib
import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.agreement.sums import check_keys_named
from copriv.errors import CoprivError, InvalidInput
from copriv.privacy.ledger.disk import OneWriter
from copriv.privacy.ledger.lines import digest as digest
from copriv.types import Array

VERSION = 4
_SCHEMA = f"""
CREATE TABLE run (
    name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, agreement TEXT NOT NULL, parameters INTEGER NOT NULL
) STRICT;
CREATE TABLE events (
    number INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL, hash TEXT NOT NULL,
    numbers BLOB NOT NULL
) STRICT;
PRAGMA user_version = {VERSION};
"""
MOST_OWNERS = 100_000
"""Largest number of owners of a run or a model: a file from elsewhere can name any number, and each takes memory."""
START = "0" * 64
"""The hash before the first line."""
_NO_NUMBERS = np.frombuffer(b"")


class StoreFailed(CoprivError):
    """The run's file cannot be read, written or understood."""


@dataclass(frozen=True)
class Event:
    """A line: one event of a run; `time` is in seconds since 1970."""

    number: int
    time: float
    kind: str
    data: dict[str, Any]
    hash: str = ""
    numbers: Array = field(default_factory=lambda: _NO_NUMBERS, compare=False)
    """θ where a participant is asked, the answer of an owner or its part of a mask; empty in lines of other kinds."""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps({"event": self.number, "time": round(self.time, 3), "kind": self.kind, **self.data})


def refuse_too_many_owners(agreement: Agreement) -> None:
    """Raise InvalidInput for an agreement with more than `MOST_OWNERS` owners, which no run can have."""
    if agreement.n_owners > MOST_OWNERS:
        raise InvalidInput(f"it names {agreement.n_owners:,} owners; a run has at most {MOST_OWNERS:,}")


def line_hash(before: str, number: int, at: float, kind: str, data: str) -> str:
    """The hash of a line, after the line with the hash `before`."""
    return hashlib.sha256(f"{before}\n{number} {at!r} {kind} {data}".encode()).hexdigest()


class RunStore:
    """The file of one run, open for writing by this process alone.

    Writes are collected in a transaction until `commit`, which returns when they are on the disk.
    """

    def __init__(self, connection: sqlite3.Connection, writer: OneWriter | None, agreement: Agreement) -> None:
        self.agreement = agreement
        self.take: Callable[[Event], None] | None = None
        """Called with every line that is written (`copriv.network.run.Run.take`)."""
        self.on_event: Callable[[Event], None] | None = None
        self._connection, self._writer, self._failure = connection, writer, ""
        self._cursor = connection.cursor()
        name, p = connection.execute("SELECT name, parameters FROM run").fetchone()
        self.run, self.n_parameters = str(name), int(p)
        self._lines, self.head = 0, START
        self._find_the_end()

    @classmethod
    def create(cls, path: str | Path, agreement: Agreement, n_parameters: int) -> "RunStore":
        """Begin a run in a new file; ":memory:" keeps it in memory.

        Raises InvalidInput where the file holds a run, AgreementError for sums of owners whose keys it does not name.
        """
        if agreement.summed:
            check_keys_named(agreement)
        connection, writer = _open(path)
        with _closed_if(connection, writer, sqlite3.Error, path, "no run can be begun there ({}); give another file"):
            if _version(connection) != 0:
                raise InvalidInput(f"{path}: already holds a run; continue it with --resume, or give a new file")
            # One transaction: after a crash the file holds a whole run or none.
            connection.executescript(f"BEGIN; {_SCHEMA}")
            values = (uuid.uuid4().hex, agreement.fingerprint, json.dumps(agreement.to_dict()), n_parameters)
            connection.execute("INSERT INTO run VALUES (?, ?, ?, ?)", values)
            connection.execute("COMMIT")
            return cls(connection, writer, agreement)

    @classmethod
    def resume(cls, path: str | Path, agreement: Agreement) -> "RunStore":
        """Open the run in a file to continue it. Raises InvalidInput where there is none, or one of another agreement."""
        if not Path(path).is_file():
            raise InvalidInput(f"{path}: there is no run to resume; begin one without --resume")
        connection, writer = _open(path)
        failure = "its run cannot be read ({}); restore the newest copy"
        with _closed_if(connection, writer, (sqlite3.Error, TypeError), path, failure):
            if _version(connection) == 0:
                raise InvalidInput(f"{path}: holds no run; begin one without --resume")
            _check_version(connection, path)
            if connection.execute("SELECT fingerprint FROM run").fetchone()[0] != agreement.fingerprint:
                raise InvalidInput(f"{path}: its run is under another agreement; give the agreement that it began with")
            return cls(connection, writer, agreement)

    @classmethod
    def read(cls, path: str | Path) -> "RunStore":
        """Open the run in a file, and the agreement in it, for reading only. Raises StoreFailed."""
        if not Path(path).is_file():
            found = "is a folder" if Path(path).is_dir() else "there is no such file"
            raise StoreFailed(f"{path}: {found}; give the file of `copriv learner --store`")
        connection = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
        failure = "is not the whole file of a run ({}); ask for it again"
        with _closed_if(connection, None, (sqlite3.Error, TypeError, ValueError, RecursionError), path, failure):
            _check_version(connection, path)
            # Views, triggers, virtual tables and generated columns are programs that reading runs, without a limit of time
            # or memory, and cannot be told apart reliably: the definitions must be exactly those that a learner makes.
            definitions = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master"
            with closing(sqlite3.connect(":memory:")) as expected:
                expected.executescript(_SCHEMA)
                if set(connection.execute(definitions)) != set(expected.execute(definitions)):
                    raise ValueError("it holds a table, or another definition, that no learner writes")
            runs = connection.execute("SELECT fingerprint, agreement FROM run LIMIT 2").fetchall()
            if len(runs) != 1:
                raise ValueError("it holds rows that are no part of its run")
            fingerprint, document = runs[0]
            agreement = Agreement.of(json.loads(document))
            if agreement.fingerprint != fingerprint:
                raise StoreFailed(f"{path}: the agreement in it was changed; its fingerprint does not match")
            refuse_too_many_owners(agreement)
            return cls(connection, None, agreement)

    @property
    def signed_model(self) -> str:
        """The digest of the model that the last line signs; "" where it signs none."""
        last = self._connection.execute("SELECT kind, data FROM events ORDER BY number DESC LIMIT 1").fetchone()
        if last is None or last[0] != "model":
            return ""
        return str(json.loads(last[1])["sha256"])

    def event(self, kind: str, numbers: Float[Array, " n"] = _NO_NUMBERS, **data: Any) -> None:
        """Write a line; numbers: θ or the answer, in lines that have one."""
        self._check_sound()
        number, now, text = self._lines + 1, time.time(), json.dumps(data)
        head = line_hash(self.head, number, now, kind, text)
        values = (number, now, kind, text, head, numbers.tobytes())
        try:
            if not self._connection.in_transaction:
                self._cursor.execute("BEGIN IMMEDIATE")
            # The same cursor for all lines: creating one takes as long as an insertion.
            self._cursor.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", values)
        except sqlite3.Error as error:
            raise self._failed(error) from None
        self._lines, self.head = number, head
        line = Event(number, now, kind, data, head, numbers)
        if self.take is not None:
            self.take(line)
        if self.on_event is not None:
            try:
                self.on_event(line)
            except Exception:  # a failure of the display does not end the run
                self.on_event = None

    def commit(self) -> None:
        """Write everything so far to the disk; returns when it is there."""
        self._check_sound()
        if self._connection.in_transaction:
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._failed(error) from None

    def roll_back(self) -> None:
        """Discard the lines since the last `commit`."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._find_the_end()

    def events(self, *kinds: str) -> Iterator[Event]:
        """The lines in order, of these kinds only where some are given."""
        for number, at, kind, data, head, raw in self.lines(*kinds):
            yield Event(number, at, kind, json.loads(data), head, np.frombuffer(raw))

    def lines(self, *kinds: str) -> Iterator[tuple[int, float, str, str, str, bytes]]:
        """Rows (number, time, kind, data as JSON, hash, numbers) of the lines, as they stand in the file."""
        chosen = ""
        if kinds:
            chosen = f"WHERE kind IN ({', '.join('?' * len(kinds))})"
        yield from self._connection.execute(f"SELECT * FROM events {chosen} ORDER BY number", kinds)

    def close(self) -> None:
        """Commit and close the file. After a failure roll back instead, since a part of a transaction would be no run."""
        if self._failure:
            with suppress(sqlite3.Error):
                self.roll_back()
        else:
            self.commit()
        if self._writer is not None:
            with suppress(sqlite3.Error):  # leaves no second file, so that a copy of this one is complete
                self._connection.execute("PRAGMA journal_mode = DELETE")
        _close(self._connection, self._writer)

    def _find_the_end(self) -> None:
        row = self._connection.execute("SELECT number, hash FROM events ORDER BY number DESC LIMIT 1").fetchone()
        self._lines, self.head = row or (0, START)

    def _failed(self, error: sqlite3.Error) -> StoreFailed:
        """Refuse all later writes: SQLite may have rolled back lines that this process takes for written."""
        self._failure = f"the run's file cannot be written ({error}); nothing more is asked"
        return StoreFailed(self._failure)

    def _check_sound(self) -> None:
        if self._failure:
            raise StoreFailed(self._failure)


def _open(path: str | Path) -> tuple[sqlite3.Connection, OneWriter | None]:
    writer = None if str(path) == ":memory:" else OneWriter.claim(Path(path).resolve(), "run")
    try:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        if writer is not None:
            writer.close()
        raise StoreFailed(f"{path}: cannot be used as a run's file ({error}); give the path of a new file") from None
    return connection, writer


def _close(connection: sqlite3.Connection, writer: OneWriter | None) -> None:
    connection.close()
    if writer is not None:
        writer.close()


@contextmanager
def _closed_if(
    connection: sqlite3.Connection, writer: OneWriter | None, errors: Any, path: str | Path, failure: str
) -> Iterator[None]:
    """Close the file where the block raises; `errors` become StoreFailed with the message `failure`."""
    try:
        yield
    except BaseException as error:
        _close(connection, writer)
        if isinstance(error, errors):
            raise StoreFailed(f"{path}: {failure.format(error)}") from None
        raise


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_version(connection: sqlite3.Connection, path: str | Path) -> None:
    version = _version(connection)
    if version != VERSION:
        what = "no run" if version == 0 else "a run of another version of copriv"
        raise StoreFailed(f"{path}: holds {what}; begin a new one, or use the version that it began with")
