"""Answers a second, one owner and one learner, over mutual TLS on loopback, against a bare gRPC echo in the same run.

    python -m benchmarks.throughput [--records 10000] [--answers 600] [--repeats 5] [--json]

Two processes, one query at a time, 10 parameters, records of the embedded lending table (drawn again and again where it
has fewer). These are measured in turn, `repeats` times; shown are the best of each, and the median of its ratios
to the echoes just before and after it: a machine that is busy with other things is so for both.

- `echo`: frames of the same sizes as queries and answers go to and fro on the same kind of stream, and nothing is done
  with them;
- `ledger off`: owner, noise, rule and messages as in a run; ledger and store in memory;
- `noise ahead`: the same, with the noise of an answer drawn while the owner waits for its query;
- `ledger on`: the ledger on the disk, two flushes an answer (charge, answer); the store in memory;
- `ahead`: the same with `copriv owner serve --ahead 8`: eight answers paid for ahead, one flush an answer, and noise ahead;
- `all durable`: as `ledger on`, and the learner's store on the disk as well, one more flush an answer. This is
  what `copriv` runs.

`owner alone` is how many answers a second the owner computes with nothing in between (its clipped gradient and its
noise), and `noise alone` how many draws of the noise: what no network can beat. `flush alone` is how often a second this
disk takes a flush of 4 KiB. `learner, N owners`: answers a second that the learner takes and follows by a query, with N
owners at work at once, its store in memory and no network.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections import deque
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from copriv.agreement import Agreement
from copriv.data.consortium import load_consortium
from copriv.errors import Unreachable
from copriv.losses import Squared
from copriv.network.agent import OwnerAgent
from copriv.network.conductor import Conductor
from copriv.network.grpc_transport import GrpcDialer, GrpcListener
from copriv.network.keys import Keys, issue, make_authority
from copriv.network.learner import Learner
from copriv.network.messages import encode
from copriv.network.store import RunStore
from copriv.network.transport import Link
from copriv.network.turns import Conduct
from copriv.owner import Owner
from copriv.privacy.laplace import LaplaceAnswer
from copriv.privacy.ledger import Ledger, MemoryLedger
from copriv.privacy.ledger_file import LedgerFile
from copriv.privacy.ledger_making import create_ledger
from copriv.protocol import Answer, Query
from copriv.records import Records

PARAMETERS = 10


def agreed(answers: int, n: int) -> Agreement:
    return Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": answers, "answers": answers, "step": 0.01},
            "model": {"loss": "squared", "regularization": 1e-5, "theta_max": 100.0, "gradient_bound": 2.0},
            "data": {"components": PARAMETERS, "feature_bound": 0.0},
            "owner": [{"name": "bank", "records": n, "epsilon": 1000.0}],
        }
    )


def records(n: int) -> Records:
    drawn = load_consortium("lending-embedded", [n], components=PARAMETERS, public_rows=1000).owners[0]
    times = drawn.weight.astype(int)  # an owner's own table has a row for each record
    return Records.of(np.repeat(drawn.features, times, axis=0), np.repeat(drawn.target, times))


class InMemory:
    """Ledgers that forget: what the flush costs is the difference."""

    def run(self, fingerprint: str, run: str, epsilon: Fraction, answers: int, delta: Fraction = Fraction(0)) -> Ledger:
        return MemoryLedger("bank", epsilon, answers, delta)

    def holds(self, head: str) -> bool:
        return True


def owner_process(folder: str, address: str, answers: int, n: int, ledger: bool, ahead: int) -> None:
    """The owner's side of a run; `ahead`: answers paid for ahead, and noise drawn ahead if above 0."""
    keys = Keys.load(Path(folder) / "bank")
    path = Path(folder) / f"{time.time_ns()}.ledger"
    file = None
    if ledger:
        create_ledger(path, "bank", another="a benchmark's")
        file = LedgerFile.open(path, "bank", Fraction(1000), ahead=ahead)
    agent = OwnerAgent(
        agreed(answers, n), "bank", records(n), Squared(), file or InMemory(), GrpcDialer(address, keys), keys=keys,
        noise_ahead=ahead > 0,
    )  # fmt: skip
    asyncio.run(agent.serve())


def echo_process(folder: str, address: str, answer: bytes) -> None:
    """The other side of the echo: answers every frame with one of an answer's size."""

    async def echo() -> None:
        link = await GrpcDialer(address, Keys.load(Path(folder) / "bank")).dial()
        try:
            while True:
                await link.receive()
                await link.send(answer)
        except Unreachable:
            return

    asyncio.run(echo())


def frames() -> tuple[bytes, bytes]:
    θ, name = np.zeros(PARAMETERS), "f" * 64
    return encode(Query(name, name, "bank", θ)), encode(Answer(name, name, "bank", θ, 1, name))


async def echoed(folder: Path, answers: int) -> float:
    query, answer = frames()
    done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def serve(link: Link) -> None:
        for k in range(answers + 100):
            if k == 100:
                begun = time.perf_counter()
            await link.send(query)
            await link.receive()
        done.set_result(answers / (time.perf_counter() - begun))

    keys = Keys.load(folder / "learner")
    async with GrpcListener("127.0.0.1:0", keys).listening(serve) as address:
        process = _started(echo_process, str(folder), address, answer)
        try:
            return await asyncio.wait_for(done, 120)
        finally:
            _ended(process)


async def conducted(folder: Path, answers: int, n: int, ledger: bool, store: bool, ahead: int) -> float:
    keys, terms = Keys.load(folder / "learner"), agreed(answers, n)
    path: Any = folder / f"{time.time_ns()}.db" if store else ":memory:"
    run = RunStore.create(path, terms, PARAMETERS)
    processes: list[Any] = []
    try:
        conductor = Conductor(run, Conduct(patience=60.0), time.monotonic())
        learner = Learner(
            conductor,
            GrpcListener("127.0.0.1:0", keys),
            keys=keys,
            on_listening=lambda at: processes.append(
                _started(owner_process, str(folder), at, answers, n, ledger, ahead)
            ),
        )
        await learner.run()
        times = [event.time for event in run.events("stepped")]
        return (len(times) - 100) / (times[-1] - times[99])
    finally:
        run.close()
        for process in processes:
            _ended(process)


def alone(answers: int, n: int) -> tuple[float, float]:
    """Answers, and draws of noise, a second, in this process and without a network."""
    terms, θ = agreed(answers + 10, n), np.zeros(PARAMETERS)
    owner = Owner(terms, "bank", records(n), Squared())
    queries = [Query(str(k), terms.fingerprint, "bank", θ) for k in range(answers + 10)]
    for query in queries[:10]:
        owner.answer(query)
    begun = time.perf_counter()
    for query in queries[10:]:
        owner.answer(query)
    computed = answers / (time.perf_counter() - begun)
    noise = LaplaceAnswer(2 * 2.0 / n, Fraction(1000) / answers, PARAMETERS)
    noise.release(θ)
    begun = time.perf_counter()
    for _ in range(answers):
        noise.release(θ)
    return computed, answers / (time.perf_counter() - begun)


def conducting(owners: int, answers: int) -> float:
    """Answers a second that the learner's side takes by itself."""
    terms = Agreement.of(
        {
            "agreement": {"rule": "A2", "horizon": 20 * owners, "answers": 20, "step": 0.01},
            "model": {"loss": "squared", "regularization": 1e-5, "theta_max": 100.0, "gradient_bound": 2.0},
            "data": {"components": PARAMETERS, "feature_bound": 1.0},
            "owner": [{"name": f"bank-{i}", "records": 1000, "epsilon": 1.0} for i in range(owners)],
        }
    )
    store = RunStore.create(":memory:", terms, PARAMETERS)
    conductor = Conductor(store, Conduct(), 0.0)
    for name in terms.owner_names:
        conductor.joined(name, 0.0)
    asked = deque(message for _, message in conductor.take_outbox())
    answers, unused = min(answers, 15 * owners), 20
    for k in range(unused + answers):
        if k == unused:
            begun = time.perf_counter()
        query = asked.popleft()
        assert isinstance(query, Query)
        conductor.answered(Answer(query.identity, query.fingerprint, query.owner, np.zeros(PARAMETERS), 1, ""), 0.0)
        asked += [message for _, message in conductor.take_outbox()]
    store.close()
    return answers / (time.perf_counter() - begun)


def flushed(folder: Path, times: int = 200) -> float:
    """Flushes a second."""
    with (folder / "flushed").open("wb", buffering=0) as file:
        begun = time.perf_counter()
        for _ in range(times):
            file.write(b"0" * 4096)
            os.fsync(file.fileno())
        return times / (time.perf_counter() - begun)


def measure(answers: int, n: int, repeats: int) -> dict[str, dict[str, float]]:
    """For each thing, the best number a second and the median ratio to the echo."""
    found: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_authority(folder / "authority", "benchmark")
        issue(folder / "authority", folder / "learner", "learner", "learner")
        issue(folder / "authority", folder / "bank", "bank", "owner")
        run = partial(conducted, folder, answers, n)
        before = asyncio.run(echoed(folder, answers))
        for _ in range(repeats):
            for key, ledger, store, ahead in (
                ("ledger off", False, False, 0), ("noise ahead", False, False, 1), ("ledger on", True, False, 0),
                ("ahead", True, False, 8), ("all durable", True, True, 0),
            ):  # fmt: skip
                rate = asyncio.run(run(ledger=ledger, store=store, ahead=ahead))
                after = asyncio.run(echoed(folder, answers))
                found.setdefault("echo", []).append(after)
                found.setdefault(key, []).append(rate)
                ratios.setdefault(key, []).append(2 * rate / (before + after))
                before = after
            computed, noise = alone(answers, n)
            for key, rate in (
                ("owner alone", computed), ("noise alone", noise), ("flush alone", flushed(folder)),
                *((f"learner, {N:,} owners", conducting(N, answers)) for N in (10, 100, 1000)),
            ):  # fmt: skip
                found.setdefault(key, []).append(rate)
    best = {key: max(rates) for key, rates in found.items()}
    return {
        key: {"a second": rate, "of the echo": median(ratios[key]) if key in ratios else rate / best["echo"]}
        for key, rate in best.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--answers", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    measured = measure(given.answers, given.records, given.repeats)
    if given.json:
        print(json.dumps(measured))
        return
    for key, value in measured.items():
        print(f"{key:21}  {value['a second']:8.0f} a second   {value['of the echo']:.2f} of the echo")


def _started(target: Any, *arguments: Any) -> Any:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    return process


def _ended(process: Any) -> None:
    process.join(3)
    if process.is_alive():
        process.kill()
        process.join()


if __name__ == "__main__":
    main()
