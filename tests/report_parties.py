"""A run that left a ledger, a run's file, a model and keys behind, as `copriv report` finds them; all in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from copriv.agreement import Agreement
from copriv.losses import Squared
from copriv.network.agent import respond
from copriv.network.keys import Keys
from copriv.network.messages import signed_answer
from copriv.network.run_state import Conductor
from copriv.network.store import RunStore
from copriv.network.turns import Conduct
from copriv.owner import Owner
from copriv.privacy.ledger import MemoryLedger
from copriv.privacy.ledger.create import create_ledger
from copriv.privacy.ledger.file import LedgerFile
from copriv.protocol import Answer, Query
from network_parties import NAMES, keys, records

OWNER = "bank-1"


@dataclass(frozen=True)
class Left:
    """What a run left behind, in one folder."""

    folder: Path
    agreed: Agreement
    keys: dict[str, Keys]

    @property
    def ledger(self) -> Path:
        return self.folder / "data.ledger"

    @property
    def run(self) -> Path:
        return self.folder / "run.db"

    @property
    def model(self) -> Path:
        return self.folder / "run.json"

    @property
    def own_keys(self) -> Path:
        return self.folder / OWNER

    @property
    def agreement(self) -> Path:
        path = self.folder / "agreement.toml"
        path.write_text(self.agreed.to_toml(), encoding="utf-8")
        return path


def run_left_behind(
    folder: Path, agreed: Agreement, *, remark: str = "", lifetime: Fraction = Fraction(2),
    arrives: Callable[[str, int], bool] = lambda name, k: True, public: Any = None, forecast: Any = None,
) -> Left:  # fmt: skip
    """An honest run of signing owners; `arrives` says of an owner's k-th answer whether the learner gets it.

    public, forecast: what the learner's model file says of the run from public rows.
    """
    left = Left(folder, agreed, keys(folder))
    create_ledger(left.ledger, OWNER, left.own_keys, another=remark)
    store = RunStore.create(left.run, agreed, 3)
    δ = Fraction(agreed.owner[0].delta)
    with LedgerFile.open(left.ledger, OWNER, lifetime, 2 * δ, witness=left.own_keys) as file:
        owners = {}
        for i, name in enumerate(NAMES):
            terms = agreed.owner[i]
            held = (agreed.fingerprint, store.run, Fraction(terms.epsilon), agreed.answers, Fraction(terms.delta))
            ledger = file.run(*held) if name == OWNER else MemoryLedger(name, *held[2:])
            owners[name] = Owner(agreed, name, records(i), Squared(), ledger)
        conductor = Conductor(store, Conduct(), 0.0, left.keys["learner"])
        for name in NAMES:
            conductor.joined(name, 0.0, left.keys[name].certificate.decode())
        given = dict.fromkeys(NAMES, 0)
        while queries := [message for _, message in conductor.take_outbox() if isinstance(message, Query)]:
            for query in queries:
                answer, _ = respond(owners[query.owner], query)
                given[query.owner] += 1
                if isinstance(answer, Answer) and arrives(query.owner, given[query.owner]):
                    conductor.answered(signed_answer(left.keys[query.owner], store.run, query, answer), 1.0)
                elif not isinstance(answer, Answer):
                    conductor.refused(query.owner, answer, 1.0)
        left.model.write_text(conductor.signed_model(None, public, forecast).to_json(), encoding="utf-8")
    store.close()
    return left


def with_record(left: Left, **said: Any) -> None:
    """Write other things into the learner's model file."""
    document = json.loads(left.model.read_text(encoding="utf-8"))
    document["record"] |= said
    left.model.write_text(json.dumps(document), encoding="utf-8")
