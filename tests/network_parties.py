"""A small consortium for the network's tests: three owners, their records, and ways to bring them together."""

import asyncio
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

# The noise sampler takes seconds to load, which no run against a clock should wait for.
import copriv.privacy.laplace  # noqa: F401
from copriv import losses
from copriv.agreement import Agreement
from copriv.model.records import Records
from copriv.network.agent import OwnerAgent, Patience
from copriv.network.grpc_transport import GrpcDialer, GrpcListener
from copriv.network.keys import Keys, issue, make_authority
from copriv.network.learner import Learner
from copriv.network.messages import Hello, Welcome, welcome_content
from copriv.network.run_state import Conductor, Outcome
from copriv.network.store import RunStore
from copriv.network.turns import Conduct
from copriv.privacy.ledger import Ledger, MemoryLedger
from copriv.privacy.release_time import ReleaseTime
from ledger_files import opened
from memory_network import MemoryNetwork
from unsigned import unsigned

NAMES = ("bank-1", "bank-2", "bank-3")
QUICK = Patience(first=0.01, longest=0.1, give_up=20.0)


def agreement(rule: str = "A2", *, horizon: int = 12, answers: int = 4, records: int = 200, **owner: Any) -> Agreement:
    step = {"A1": 5.0, "A2": 0.3, "S1": 50.0, "S2": 0.3}[rule]
    return Agreement.of(
        {
            "agreement": {"rule": rule, "horizon": horizon, "answers": answers, "step": step},
            "model": {"loss": "squared", "regularization": 0.1, "theta_max": 10.0, "gradient_bound": 2.0},
            "data": {"components": 3, "feature_bound": 0.0},
            "owner": [{"name": name, "records": records, "epsilon": 1.0, **owner} for name in NAMES],
        }
    )


def records(owner: int, n: int = 200, p: int = 3) -> Records:
    rng = np.random.default_rng(owner)
    x = rng.uniform(-1, 1, (n, p)) / p
    return Records.of(x, x @ np.array([1.0, -2.0, 0.5])[:p] + 0.1 * rng.normal(size=n))


class MemoryLedgers:
    """An owner's ledgers that last as long as the process."""

    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, fingerprint: str, run: str, epsilon: Fraction, answers: int, delta: Fraction = Fraction(0)) -> Ledger:
        return MemoryLedger(self._name, epsilon, answers, delta)

    def holds(self, head: str) -> bool:
        return True


def keys(folder: Path, names: Sequence[str] = NAMES) -> dict[str, Keys]:
    """A new authority's certificates for the learner and these owners."""
    make_authority(folder / "authority", "test")
    for name in ("learner", *names):
        issue(folder / "authority", folder / name, name, "learner" if name == "learner" else "owner")
    return {name: Keys.load(folder / name) for name in ("learner", *names)}


class Consortium:
    """Owners with ledgers in `folder`, a learner, and a network of either kind; `held`: the keys of all, if not made here."""

    def __init__(
        self, folder: Path, agreed: Agreement, kind: str = "memory", held: dict[str, Keys] | None = None
    ) -> None:
        self.folder, self.agreed, self.kind = folder, agreed, kind
        names = agreed.owner_names
        self.keys = held or (keys(folder, names) if kind == "grpc" else {n: unsigned(n) for n in ("learner", *names)})
        self.memory = MemoryNetwork()
        self.address = ""

    def listener(self) -> Any:
        if self.kind == "memory":
            return self.memory
        return GrpcListener(self.address or "127.0.0.1:0", self.keys["learner"])

    def dialer(self, name: str) -> Any:
        return self.memory.dialer(name) if self.kind == "memory" else GrpcDialer(self.address, self.keys[name])

    async def learn(self, conduct: Conduct | None = None, resume: bool = False, **options: Any) -> Conductor:
        path = self.folder / "run.db"
        store = (
            RunStore.resume(path, self.agreed)
            if resume
            else RunStore.create(path, self.agreed, options.pop("parameters", 3))
        )
        try:
            loop = asyncio.get_running_loop()
            conduct = conduct or Conduct(deadline=2.0, patience=5.0)
            conductor = Conductor(store, conduct, loop.time(), self.keys["learner"])
            learner = Learner(
                conductor, self.listener(), keys=self.keys["learner"], on_listening=self._listening, **options
            )
            await learner.run()
            return conductor
        finally:
            store.close()

    async def own(self, index: int, **options: Any) -> str:
        name = self.agreed.owner_names[index]
        while not self.address:
            await asyncio.sleep(0.005)
        δ = Fraction(self.agreed.owner[index].delta)
        with opened(self.folder / f"{name}.ledger", name, Fraction(options.pop("lifetime", 1)), δ) as file:
            agent = OwnerAgent(
                self.agreed,
                name,
                options.pop("records", None) or records(index),
                losses.named(self.agreed.model.loss, self.agreed.model.threshold),
                options.pop("ledgers", file),
                self.dialer(name),
                keys=self.keys[name],
                patience=QUICK,
                times=options.pop("times", None) or ReleaseTime(1e-3),  # late where that is too short, as models may be
                **options,
            )
            return await agent.serve()

    async def run(self, conduct: Conduct | None = None, **options: Any) -> Conductor:
        """All of them together."""
        owners = [asyncio.ensure_future(self.own(i)) for i in range(self.agreed.n_owners)]
        try:
            return await asyncio.wait_for(self.learn(conduct, **options), 100)
        finally:
            await asyncio.wait(owners, timeout=3)
            for owner in owners:
                owner.cancel()
            await asyncio.gather(*owners, return_exceptions=True)

    def _listening(self, address: str) -> None:
        self.address = address


def welcome(learner: Keys, hello: Hello, run: str = "run") -> Welcome:
    """What an honest learner says first."""
    signature = learner.sign(welcome_content(hello, run))
    return Welcome(run, "choose", 0.0, 0, "", learner.certificate.decode(), signature)


def finished(conductor: Conductor) -> bool:
    return conductor.outcome is not None and conductor.outcome.status == "finished"


__all__ = [
    "NAMES",
    "QUICK",
    "Consortium",
    "MemoryLedgers",
    "Outcome",
    "agreement",
    "finished",
    "keys",
    "records",
    "welcome",
]
