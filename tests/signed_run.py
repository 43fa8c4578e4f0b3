"""A finished, signed run in one file, as a learner leaves it: three honest owners, in memory, in a fraction of a second."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

from copriv.losses import Squared
from copriv.network.agent import respond
from copriv.network.messages import Closing, closing_content, signed_answer
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.owner import Owner
from copriv.privacy.ledger import MemoryLedger
from copriv.protocol import Query
from network_parties import NAMES, agreement, keys, records


def signed_run(folder, agreed=None, names=NAMES, held=None):
    """(path of the run's file, agreement, the parties' keys, made here unless they are given)."""
    agreed, held = agreed or agreement("A1", horizon=8, answers=4), held or keys(folder, names)
    owners = {
        name: Owner(agreed, name, records(i), Squared(), MemoryLedger(name, Fraction(1), agreed.answers))
        for i, name in enumerate(names)
    }
    path = folder / "run.db"
    store = RunStore.create(path, agreed, 3)
    conductor = Conductor(store, None, 0.0, held["learner"])
    for name in names:
        conductor.joined(name, 0.0, held[name].certificate.decode())
    while queries := [message for _, message in conductor.take_outbox() if isinstance(message, Query)]:
        for query in queries:
            answer, _ = respond(owners[query.owner], query)
            conductor.answered(signed_answer(held[query.owner], store.run, query, answer), 1.0)
    for name in names:
        count = Closing(conductor.closing.head, owners[name].ledger.answers)
        content = closing_content(store.run, name, agreed.fingerprint, count)
        conductor.closed(name, replace(count, signature=held[name].sign(content)))
    store.close()
    return path, agreed, held


def damaged(path, statement="UPDATE events SET data = replace(data, '\"answered\": 2', '\"answered\": 3')"):
    """Change a run's file behind everybody's back; its bytes."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    return path.read_bytes()
