"""What can be said between an owner and the learner, its bytes, and what of it they sign.

A frame is `COPRIV`, a version byte, a byte for the kind, and the fields of that kind in order:

| field  | bytes                                                             |
| ------ | ----------------------------------------------------------------- |
| str    | length (2 bytes), UTF-8 text of at most 4,000 bytes               |
| int    | 8 bytes, 0 or more                                                |
| float  | 8 bytes, IEEE 754, finite                                         |
| vector | length (4 bytes), that many float64 numbers                       |

All little-endian. Numbers travel as their own bits: what was computed is what arrives. A frame that says less or more
than its kind does is refused whole, with a reason. NaN in a vector is well-formed here; owner and learner refuse it.

Both sides sign the very bytes that are sent, but for the signature, so that somebody who was not there can check who said
what. The learner signs each query, with the run's name, the public dictionary's fingerprint ("" without one) and what its
record of the run stood at (`store`). An owner signs each answer together with the query that it answers, so that no answer
can be moved to another query, point, run, dictionary or history. At the end an owner signs how many answers it gave,
together with what the learner's record then stood at, and the learner signs the model's file.
"""

import hashlib
import math
import struct
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from copriv.errors import InvalidInput
from copriv.network.keys import Keys
from copriv.protocol import Answer, Query

MAGIC, VERSION = b"COPRIV", 2
MAX_FRAME = 4 << 20
"""Bytes. A longer frame is refused unread; it leaves room for half a million parameters."""
MAX_TEXT = 4000


class Malformed(InvalidInput):
    """Bytes that are no message."""


@dataclass(frozen=True)
class Hello:
    """Owner → learner, first: who I am, what I signed up to."""

    owner: str
    fingerprint: str
    dictionary: str
    """Fingerprint of the public dictionary; "" without one."""
    parameters: int
    """p."""
    nonce: str
    """Fresh from this owner: the learner signs it."""
    certificate: str = ""
    """This owner's certificate, PEM, by which its answers' signatures are checked."""


@dataclass(frozen=True)
class Welcome:
    """Learner → owner, first: which run this is, and what I remember of you in it."""

    run: str
    talk: str
    """"choose": wait to be asked; "broadcast": answer offers; "request": ask for a query yourself."""
    pace: float
    """Seconds: the mean of the owner's waiting times, at rate 1 ("broadcast" and "request")."""
    answered: int
    """The newest `answered` that this owner sent in this run."""
    chain_head: str
    """The head of the owner's ledger that came with it; "" if there was none."""
    certificate: str
    """The learner's certificate, PEM."""
    signature: str
    """Over the owner's hello and the run, by the certificate's key; hex."""


@dataclass(frozen=True)
class Refusal:
    """Either way: no, and why. `identity` is that of the query, or "" where it is about the connection."""

    identity: str
    code: str
    """budget, lost (charged, never answered), query, malformed, ledger, policy or connection."""
    reason: str


@dataclass(frozen=True)
class Offer:
    """Learner → owner (broadcast): a query is to be had. It costs nothing to be offered one."""

    number: int


@dataclass(frozen=True)
class Ready:
    """Owner → learner: ask me now. `number` is that of the offer, 0 for a request of the owner's own."""

    number: int


@dataclass(frozen=True)
class Busy:
    """Learner → owner: another owner is being served; ask again when your clock ticks (A, §3)."""

    number: int


@dataclass(frozen=True)
class Finished:
    """Learner → owner: the run is over."""

    reason: str


@dataclass(frozen=True)
class Closing:
    """When a run ends. Learner → owner: how many answers did you give in it? Owner → learner: so many, signed."""

    head: str
    """The hash of the newest line of the learner's record, to which the owner's count belongs."""
    answered: int
    """By the owner's own count; 0 from the learner."""
    signature: str = ""


Message: TypeAlias = Hello | Welcome | Query | Answer | Refusal | Offer | Ready | Busy | Finished | Closing

_KINDS: dict[int, type[Any]] = {
    1: Hello, 2: Welcome, 3: Query, 4: Answer, 5: Refusal, 6: Offer, 7: Ready, 8: Busy, 9: Finished,
    10: Closing,
}  # fmt: skip
_NUMBER = {kind: number for number, kind in _KINDS.items()}
_FIELDS = {kind: [(field.name, field.type) for field in fields(kind)] for kind in _NUMBER}
_HEADER = struct.Struct("<6sBB")
_NUMBERS = {int: struct.Struct("<Q"), float: struct.Struct("<d")}
_TEXT_SIZE, _VECTOR_SIZE = struct.Struct("<H"), struct.Struct("<I")


def encode(message: Message) -> bytes:
    """The frame of a message. Raises Malformed for one that could not be read back."""
    parts = [_HEADER.pack(MAGIC, VERSION, _NUMBER[type(message)])]
    try:
        for name, kind in _FIELDS[type(message)]:
            parts.append(_written(kind, getattr(message, name)))
    except struct.error as error:
        raise Malformed(f"{type(message).__name__}.{name}: cannot be sent ({error})") from None
    frame = b"".join(parts)
    if len(frame) > MAX_FRAME:
        raise Malformed(f"{type(message).__name__}: {len(frame)} bytes; a message has at most {MAX_FRAME}")
    return frame


def decode(frame: bytes) -> Message:
    """The message in a frame. Raises Malformed, saying what is wrong; it never runs or builds anything else."""
    if len(frame) > MAX_FRAME:
        raise Malformed(f"message: {len(frame)} bytes; at most {MAX_FRAME} are read")
    if len(frame) < _HEADER.size:
        raise Malformed(f"message: {len(frame)} bytes are too few for any message")
    magic, version, number = _HEADER.unpack_from(frame)
    if magic != MAGIC:
        raise Malformed("message: does not begin as a copriv message does; is this the right port?")
    if version != VERSION:
        raise Malformed(f"message: of version {version}, this side speaks {VERSION}; install the same copriv on both")
    kind = _KINDS.get(number)
    if kind is None:
        raise Malformed(f"message: no message has the number {number}")
    at, values = _HEADER.size, []
    for name, of in _FIELDS[kind]:
        try:
            value, at = _read(of, frame, at)
        except ValueError as error:
            why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            raise Malformed(f"{kind.__name__}.{name}: {why}") from None
        values.append(value)
    if at != len(frame):
        raise Malformed(f"{kind.__name__}: {len(frame) - at} bytes too many")
    message: Message = kind(*values)
    return message


def _written(kind: Any, value: Any) -> bytes:
    """The bytes of a field; what is not str, int or float is a vector."""
    if kind in _NUMBERS:
        return _NUMBERS[kind].pack(value)
    if kind is str:
        raw: bytes = value.encode()
        if len(raw) > MAX_TEXT:
            raise struct.error(f"{len(raw)} bytes of text, at most {MAX_TEXT}")
        return _TEXT_SIZE.pack(len(raw)) + raw
    if value.ndim != 1:
        raise struct.error(f"a vector has one axis, not {value.ndim}")
    return _VECTOR_SIZE.pack(len(value)) + np.ascontiguousarray(value, dtype="<f8").tobytes()


def _read(kind: Any, frame: bytes, at: int) -> tuple[Any, int]:
    """The field that stands at a place in a frame, and the place after it. A ValueError says what is wrong."""
    if kind in _NUMBERS:
        value, at = _number(_NUMBERS[kind], frame, at)
        if not math.isfinite(value):
            raise ValueError(f"must be finite, not {value}")
        return value, at
    if kind is str:
        size, at = _number(_TEXT_SIZE, frame, at)
        if size > MAX_TEXT:
            raise ValueError(f"{size} bytes of text, at most {MAX_TEXT}")
        return _piece(frame, at, size).decode(), at + size
    size, at = _number(_VECTOR_SIZE, frame, at)
    return np.frombuffer(_piece(frame, at, 8 * size), dtype="<f8").astype(np.float64), at + 8 * size


def _number(code: struct.Struct, frame: bytes, at: int) -> tuple[Any, int]:
    return code.unpack(_piece(frame, at, code.size))[0], at + code.size


def _piece(frame: bytes, start: int, size: int) -> bytes:
    piece = frame[start : start + size]
    if len(piece) != size:
        raise ValueError(f"needs {size} bytes, {len(piece)} are left")
    return piece


# What is signed ---------------------------------------------------------------------------------------------------------


def welcome_content(hello: Hello, run: str) -> bytes:
    """What the learner signs of its welcome: this run, for this owner, under this agreement, now."""
    return "\0".join(("copriv welcome", hello.owner, hello.fingerprint, hello.nonce, run)).encode()


def query_content(run: str, query: Query, dictionary: str = "") -> bytes:
    """What the learner signs of a query."""
    return f"copriv query\0{run}\0{dictionary}\0".encode() + encode(replace(query, signature=""))


def answer_content(run: str, query: Query, answer: Answer, dictionary: str = "") -> bytes:
    """What an owner signs of an answer."""
    asked = hashlib.sha256(query_content(run, query, dictionary)).digest()
    return b"copriv answer\0" + asked + encode(replace(answer, signature=""))


def closing_content(run: str, owner: str, fingerprint: str, closing: Closing) -> bytes:
    """What an owner signs of its count at the end of a run."""
    whose = "\0".join(("copriv closing", run, owner, fingerprint, ""))
    return whose.encode() + encode(replace(closing, signature=""))


def model_content(run: str, head: str, model: str) -> bytes:
    """What the learner signs of a model's file: its digest (`Model.digest`), after the line with the hash `head`."""
    return f"copriv model\0{run}\0{head}\0{model}".encode()


def signed_query(keys: Keys, run: str, query: Query, dictionary: str = "") -> Query:
    """The query with the learner's signature."""
    return replace(query, signature=keys.sign(query_content(run, query, dictionary)))


def signed_answer(keys: Keys, run: str, query: Query, answer: Answer, dictionary: str = "") -> Answer:
    """The answer with the owner's signature."""
    return replace(answer, signature=keys.sign(answer_content(run, query, answer, dictionary)))
