"""The learner's record of a run, in one SQLite file: what was asked, what came back, and what was made of it.

Nothing leaves before it is in here: the query that is about to be sent and the events that led to it are flushed to the
disk together. So a learner that dies can go on where it stopped, and never asks for the same thing twice under two
names. Queries have the identities that follow from (fingerprint, run, owner, sequence number), and those are kept.

| table   | one row for                                                                                            |
| ------- | ------------------------------------------------------------------------------------------------------ |
| run     | the run: its name, agreement and number of parameters                                                  |
| turns   | a point θ and the participant that was asked there                                                          |
| queries | a query to one owner, with the learner's signature                                                     |
| answers | its answer, with the count and the ledger's head that came with it, and the owner's signature          |
| events  | everything that happened, in order; `asked`, `stepped` and `abandoned` replay to the rule's state      |

The events are a chain: each line's hash is over the line and the hash before it, and the lines of points, queries and
answers hold what the other tables have (of θ and of an answer, their SHA-256). A query carries the hash of the line
before it to its owner, which signs it with its answer: so the learner itself cannot tell the run in another way later.
At the end owners sign how many answers they gave, and last the learner signs the file of its model, each in a line of its
own. `verify` checks all of it. It holds no private data: only what owners chose to release.
"""

import hashlib
import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from copriv.agreement import Agreement
from copriv.errors import CoprivError, InvalidInput
from copriv.privacy.ledger.lock import OneWriter
from copriv.protocol import Answer, Query
from copriv.types import Array

VERSION = 3
_SCHEMA = """
CREATE TABLE run (
    name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, agreement TEXT NOT NULL, parameters INTEGER NOT NULL
) STRICT;
CREATE TABLE turns (number INTEGER PRIMARY KEY, participant INTEGER NOT NULL, theta BLOB NOT NULL) STRICT;
CREATE TABLE queries (
    identity TEXT PRIMARY KEY, turn INTEGER NOT NULL REFERENCES turns, owner TEXT NOT NULL, sequence INTEGER NOT NULL,
    head TEXT NOT NULL, signature TEXT NOT NULL, UNIQUE (owner, sequence)
) STRICT;
CREATE TABLE answers (
    identity TEXT PRIMARY KEY REFERENCES queries, gradient BLOB NOT NULL, answered INTEGER NOT NULL,
    chain_head TEXT NOT NULL, signature TEXT NOT NULL
) STRICT;
CREATE TABLE events (
    number INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL, hash TEXT NOT NULL
) STRICT;
PRAGMA user_version = 3;
"""
_DEFINITIONS = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master"
MOST_OWNERS = 100_000
"""Of a run or a model: each has a certificate of its own, and what somebody else wrote says `count = 10**15` as easily."""
START = "0" * 64
"""The hash before the first line."""


class StoreFailed(CoprivError):
    """The run's file cannot be read, written or understood."""


@dataclass(frozen=True)
class Event:
    """Something that happened in a run; `time` is seconds since 1970."""

    number: int
    time: float
    kind: str
    data: dict[str, Any]
    hash: str = ""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps({"event": self.number, "time": round(self.time, 3), "kind": self.kind, **self.data})


def refuse_too_many_owners(agreement: Agreement) -> None:
    """Raises InvalidInput for an agreement in somebody else's file that no run can have been under."""
    if agreement.n_owners > MOST_OWNERS:
        raise InvalidInput(f"it names {agreement.n_owners:,} owners; a run has at most {MOST_OWNERS:,}")


def line_hash(before: str, number: int, at: float, kind: str, data: str) -> str:
    """The hash of a line, after the line with the hash `before`."""
    return hashlib.sha256(f"{before}\n{number} {at!r} {kind} {data}".encode()).hexdigest()


def digest(numbers: Float[Array, " n"]) -> str:
    """SHA-256 of the bytes of θ or of an answer, as it stands in a line."""
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).hexdigest()


class RunStore:
    """The file of one run, open for writing by this process alone.

    Writes collect in a transaction until `commit`, which returns when they are on the disk.
    """

    def __init__(
        self, connection: sqlite3.Connection, writer: OneWriter | None, run: str, agreement: Agreement
    ) -> None:
        self.run, self.agreement = run, agreement
        self.take: Callable[[str, float, dict[str, Any], Any], None] | None = None
        """Whoever follows the run (`copriv.network.run.Run.take`): it is given every line that is written."""
        self.on_event: Callable[[Event], None] | None = None
        self._connection, self._writer, self._failure = connection, writer, ""
        self._cursor = connection.cursor()
        self._events, self.head = _last_line(connection)

    @classmethod
    def create(cls, path: str | Path, agreement: Agreement, n_parameters: int) -> "RunStore":
        """A new run. Raises InvalidInput where the file already holds one. ":memory:" keeps it in memory."""
        connection, writer = _open(path)
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] != 0:
                raise InvalidInput(f"{path}: already holds a run; continue it with --resume, or give a new file")
            # One transaction: a crash leaves a run or none.
            connection.executescript(f"BEGIN; {_SCHEMA}")
            run, document = uuid.uuid4().hex, json.dumps(agreement.to_dict())
            values = (run, agreement.fingerprint, document, n_parameters)
            connection.execute("INSERT INTO run VALUES (?, ?, ?, ?)", values)
            connection.execute("COMMIT")
            return cls(connection, writer, run, agreement)
        except sqlite3.Error as error:
            _close(connection, writer)
            raise StoreFailed(f"{path}: no run can be begun there ({error}); give another file") from None
        except BaseException:
            _close(connection, writer)
            raise

    @classmethod
    def resume(cls, path: str | Path, agreement: Agreement) -> "RunStore":
        """The run that a file holds. Raises InvalidInput if it is not there, or under another agreement."""
        if not Path(path).is_file():
            raise InvalidInput(f"{path}: there is no run to resume; begin one without --resume")
        connection, writer = _open(path)
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                raise InvalidInput(f"{path}: holds no run; begin one without --resume")
            _check_version(connection, path)
            row = connection.execute("SELECT name, fingerprint FROM run").fetchone()
            if row[1] != agreement.fingerprint:
                raise InvalidInput(f"{path}: its run is under another agreement; give the agreement that it began with")
            return cls(connection, writer, row[0], agreement)
        except (sqlite3.Error, TypeError) as error:
            _close(connection, writer)
            raise StoreFailed(f"{path}: its run cannot be read ({error}); restore the newest copy") from None
        except BaseException:
            _close(connection, writer)
            raise

    @classmethod
    def read(cls, path: str | Path) -> "RunStore":
        """The run that a file holds, with the agreement in it, for reading only. Raises StoreFailed."""
        if not Path(path).is_file():
            raise StoreFailed(f"{path}: there is no such file; give the file of `copriv learner --store`")
        connection = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            _check_version(connection, path)
            _refuse_programs(connection)
            run, fingerprint, document = connection.execute("SELECT name, fingerprint, agreement FROM run").fetchone()
            agreement = Agreement.of(json.loads(document))
            if agreement.fingerprint != fingerprint:
                raise StoreFailed(f"{path}: the agreement in it was changed; its fingerprint does not match")
            refuse_too_many_owners(agreement)
            return cls(connection, None, run, agreement)
        except (sqlite3.Error, TypeError, ValueError, RecursionError) as error:
            connection.close()
            raise StoreFailed(f"{path}: is not the whole file of a run ({error}); ask for it again") from None
        except BaseException:
            connection.close()
            raise

    @property
    def n_parameters(self) -> int:
        """p."""
        return int(self._connection.execute("SELECT parameters FROM run").fetchone()[0])

    @property
    def signed_model(self) -> str:
        """The digest of the model that the last line signs; "" where it signs none."""
        last = self._connection.execute("SELECT kind, data FROM events ORDER BY number DESC LIMIT 1").fetchone()
        return str(json.loads(last[1])["sha256"]) if last is not None and last[0] == "model" else ""

    def event(self, kind: str, what: Any = None, **data: Any) -> None:
        """Note that something happened; what: the θ, query or answer that the line speaks of."""
        now, text = time.time(), json.dumps(data)
        head = line_hash(self.head, self._events + 1, now, kind, text)
        self._write("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (self._events + 1, now, kind, text, head))
        self._events, self.head = self._events + 1, head
        if self.take is not None:
            self.take(kind, now, data, what)
        if self.on_event is not None:
            try:
                self.on_event(Event(self._events, now, kind, data, head))
            except Exception:  # whoever looks on does not end the run
                self.on_event = None

    def turn(self, number: int, participant: int, theta: Float[Array, " p"]) -> None:
        """A point at which a participant is to be asked."""
        self._write("INSERT INTO turns VALUES (?, ?, ?)", (number, participant, theta.tobytes()))
        self.event("asked", theta, turn=number, participant=participant, theta=digest(theta))

    def query(self, query: Query, turn: int, sequence: int) -> None:
        """A query that is about to be sent. Its head is that of the line before this one."""
        values = (query.identity, turn, query.owner, sequence, query.head, query.signature)
        self._write("INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?)", values)
        said = {"turn": turn, "owner": query.owner, "sequence": sequence, "identity": query.identity}
        self.event("query", query, **said, signature=query.signature)

    def answer(self, answer: Answer) -> None:
        """An answer that came."""
        values = (answer.identity, answer.gradient.tobytes(), answer.answered, answer.chain_head, answer.signature)
        self._write("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", values)
        said = {"owner": answer.owner, "identity": answer.identity, "gradient": digest(answer.gradient)}
        counted = {"answered": answer.answered, "chain_head": answer.chain_head}
        self.event("answer", answer, **said, **counted, signature=answer.signature)

    def commit(self) -> None:
        """Wait until everything so far is on the disk."""
        self._check_sound()
        if self._connection.in_transaction:
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._failed(error) from None

    def roll_back(self) -> None:
        """Forget what was written since the last `commit`."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._events, self.head = _last_line(self._connection)

    def events(self, *kinds: str) -> Iterator[Event]:
        """What happened, in order; of these kinds only, where some are given."""
        chosen = f"WHERE kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        for number, at, kind, data, head in self._connection.execute(
            f"SELECT * FROM events {chosen} ORDER BY number", kinds
        ):
            yield Event(number, at, kind, json.loads(data), head)

    def lines(self) -> Iterator[tuple[int, float, str, str, str]]:
        """(number, time, kind, data as it is written, hash) of every event, as they stand in the file."""
        yield from self._connection.execute("SELECT * FROM events ORDER BY number")

    def turns(self) -> dict[int, tuple[int, Array]]:
        """Every turn's participant and θ, which nobody can write to."""
        return {n: (j, np.frombuffer(θ)) for n, j, θ in self._connection.execute("SELECT * FROM turns")}

    def queries(self) -> Iterator[tuple[int, int, Query]]:
        """(turn, sequence number, query) of every query."""
        turns, fingerprint = self.turns(), self.agreement.fingerprint
        for identity, turn, owner, sequence, head, signature in self._connection.execute(
            "SELECT * FROM queries ORDER BY rowid"
        ):
            # Shared, not copied: a file of a few megabytes may have a long θ and a hundred thousand queries there.
            yield turn, sequence, Query(identity, fingerprint, owner, turns[turn][1], head, signature)

    def answers(self) -> Iterator[Answer]:
        """Every answer, in the order in which they came."""
        rows = self._connection.execute(
            "SELECT identity, owner, gradient, answered, chain_head, answers.signature FROM answers "
            "JOIN queries USING (identity) ORDER BY answers.rowid"
        )
        fingerprint = self.agreement.fingerprint
        for identity, owner, gradient, answered, head, signature in rows:
            numbers = np.array(np.frombuffer(gradient))
            yield Answer(identity, fingerprint, owner, numbers, answered, head, signature)

    def close(self) -> None:
        """Commit, and let go of the file. After a failure what was not committed is not: a part of it would be no run."""
        if self._failure:
            with suppress(sqlite3.Error):
                self.roll_back()
        else:
            self.commit()
        if self._writer is not None:
            with suppress(sqlite3.Error):  # then the one file is all of it, for whoever is given a copy
                self._connection.execute("PRAGMA journal_mode = DELETE")
        _close(self._connection, self._writer)

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        # One cursor for all: making one costs as much as an insertion.
        self._check_sound()
        try:
            if not self._connection.in_transaction:
                self._cursor.execute("BEGIN IMMEDIATE")
            self._cursor.execute(statement, values)
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def _failed(self, error: sqlite3.Error) -> StoreFailed:
        """From here on nothing is written: SQLite may have taken back what this side believes to be there."""
        self._failure = f"the run's file cannot be written ({error}); nothing more is asked"
        return StoreFailed(self._failure)

    def _check_sound(self) -> None:
        if self._failure:
            raise StoreFailed(self._failure)


def _last_line(connection: sqlite3.Connection) -> tuple[int, str]:
    row = connection.execute("SELECT number, hash FROM events ORDER BY number DESC LIMIT 1").fetchone()
    return (0, START) if row is None else (int(row[0]), str(row[1]))


def _open(path: str | Path) -> tuple[sqlite3.Connection, OneWriter | None]:
    memory = str(path) == ":memory:"
    writer = None if memory else OneWriter.claim(Path(path).resolve(), "run")
    try:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        if writer is not None:
            writer.release()
        raise StoreFailed(f"{path}: cannot be used as a run's file ({error}); give the path of a new file") from None
    return connection, writer


def _refuse_programs(connection: sqlite3.Connection) -> None:
    """A file may hold what a learner makes, to the letter, and nothing else.

    Views, triggers, virtual tables and columns that are worked out are programs, which can run, and grow, for ever when they
    are read; there are too many ways to write one for telling them apart.
    """
    if set(connection.execute(_DEFINITIONS)) != _made_by_a_learner():
        raise ValueError("it holds a table, or another definition, that no learner writes")


@cache
def _made_by_a_learner() -> frozenset[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_SCHEMA)
        return frozenset(connection.execute(_DEFINITIONS))


def _check_version(connection: sqlite3.Connection, path: str | Path) -> None:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version != VERSION:
        what = "no run" if version == 0 else "a run of another version of copriv"
        raise StoreFailed(f"{path}: holds {what}; begin a new one, or use the version that it began with")


def _close(connection: sqlite3.Connection, writer: OneWriter | None) -> None:
    connection.close()
    if writer is not None:
        writer.release()
