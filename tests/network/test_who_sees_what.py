"""What lies in the files of each party after a run, and that nobody comes in under another's name or terms."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import copriv.network
from copriv.losses import Squared
from copriv.network.learner import Learner
from copriv.network.messages import Hello, Refusal, decode, encode
from copriv.network.store import RunStore
from copriv.privacy.clipping import clipped_mean_gradient
from copriv.privacy.ledger.read import read_lines
from network_parties import NAMES, Consortium, agreement, finished, records
from unsigned import unsigned

AGREED = agreement()


def traces(numbers: np.ndarray) -> Iterator[bytes]:
    """How a number may stand in a file: as it is in memory, in hexadecimal digits, in decimal ones."""
    for number in np.asarray(numbers, dtype=np.float64).ravel():
        if abs(number) > 1e-6:
            yield number.tobytes()
            yield number.tobytes().hex().encode()
            yield f"{number:.12g}"[:12].encode()


def test_no_file_of_a_run_has_a_record_or_an_exact_gradient_and_no_ledger_has_a_point(tmp_path: Path) -> None:
    conductor = asyncio.run(Consortium(tmp_path, AGREED).run())
    assert finished(conductor)
    store = RunStore.resume(tmp_path / "run.db", AGREED)
    turns = {line.data["turn"]: line.numbers for line in store.events("asked")}
    points = {
        said["identity"]: (said["owner"], turns[said["turn"]]) for said in (e.data for e in store.events("query"))
    }
    answers = {line.data["identity"]: line.numbers for line in store.events("answer")}
    store.close()
    stored = (tmp_path / "run.db").read_bytes()
    assert all(any(trace in stored for trace in traces(gradient)) for gradient in answers.values()), "the test sees"
    for index, name in enumerate(NAMES):
        own, ledger = records(index), (tmp_path / f"{name}.ledger").read_bytes()
        asked = [θ for owner, θ in points.values() if owner == name]
        exact = [clipped_mean_gradient(Squared(), own, θ, AGREED.gradient_bound) for θ in asked]
        for trace in traces(np.concatenate([own.features.ravel(), own.target, *exact])):
            assert trace not in stored
            assert trace not in ledger
        assert not any(trace in ledger for θ in asked for trace in traces(θ))
        for line in read_lines(tmp_path / f"{name}.ledger"):
            if line.kind == "answer":
                assert bytes.fromhex(line.content) == answers[line.identity].tobytes()


def said_to(hello: Hello, peer: str, dictionary: str = "") -> str:
    """Why a learner does not let in whoever says this hello by a link that is certified for `peer`."""

    async def said(consortium: Consortium, folder: Path) -> str:
        from copriv.network.run_state import Conductor

        store = RunStore.create(":memory:", AGREED, 3)
        listening = asyncio.Event()
        learner = asyncio.ensure_future(
            Learner(
                Conductor(store, None, asyncio.get_running_loop().time(), unsigned(), dictionary), consortium.memory,
                keys=unsigned(),
                on_listening=lambda _: listening.set(),
            ).run()
        )  # fmt: skip
        await listening.wait()
        link = await consortium.dialer(peer).dial()
        await link.send(encode(hello))
        reply = decode(await link.receive())
        learner.cancel()
        await asyncio.gather(learner, return_exceptions=True)
        store.close()
        return reply.reason if isinstance(reply, Refusal) else ""

    return asyncio.run(said(Consortium(Path(), AGREED), Path()))


def hello(name: str = NAMES[0], fingerprint: str = AGREED.fingerprint, dictionary: str = "", p: int = 3) -> Hello:
    return Hello(name, fingerprint, dictionary, p, "0" * 32, name)


@pytest.mark.parametrize(
    ("said", "peer", "why"),
    [
        (hello(NAMES[1]), NAMES[0], "the certificate is that of 'bank-1', not of 'bank-2'"),
        (hello("somebody"), "somebody", "is not an owner in the agreement"),
        (hello(), "learner", "the certificate is that of 'learner'"),
        (hello(fingerprint="0" * 64), NAMES[0], "the agreements differ"),
        (hello(dictionary="another"), NAMES[0], "the public dictionaries differ"),
        (hello(p=4), NAMES[0], "its records give 4 parameters"),
    ],
    ids=[
        "another's name",
        "no owner",
        "the learner's certificate",
        "other terms",
        "another dictionary",
        "other records",
    ],
)
def test_nobody_comes_in_under_another_name_or_other_terms(said: Hello, peer: str, why: str) -> None:
    assert why in said_to(said, peer)
    assert said_to(hello(), NAMES[0]) == "", "an honest one does"


def test_nothing_that_comes_by_the_network_is_unpickled_imported_or_run() -> None:
    never = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "eval", "exec", "compile", "__import__"}
    wire = (
        "messages",
        "agent",
        "learner",
        "run_state",
        "run",
        "transport",
        "grpc_transport",
        "store",
        "turns",
    )
    for name in wire:
        tree = ast.parse((Path(copriv.network.__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        imports = {
            part
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
            for part in (*(getattr(node, "module", None) or "").split("."), *alias.name.split("."))
        }
        assert not never & (names | imports), name
