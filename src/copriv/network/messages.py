"""The messages between an owner and the learner, their encoding, and the contents that are signed.

A frame is `COPRIV`, a version byte, a byte for the kind, and the fields of that kind in order:

| field  | bytes                                                             |
| ------ | ----------------------------------------------------------------- |
| str    | length (2 bytes), UTF-8 text of at most 4,000 bytes               |
| int    | 8 bytes, 0 or more                                                |
| float  | 8 bytes, IEEE 754, finite                                         |
| vector | length (4 bytes), that many float64 numbers                       |
| texts  | length (4 bytes), that many str                                   |

All values are little-endian; floats are sent exactly. A frame with missing or additional bytes is refused as a whole, with
a reason. NaN in a vector is well-formed here; owner and learner refuse it.

Both sides sign the bytes that are sent, without the signature, so that a third party can verify them. The learner signs
each query with the run's name, the public dictionary's fingerprint ("" without one) and the head of its record of the run
(`store`). An owner signs each answer together with its query, so that an answer cannot be moved to another query, point,
run, dictionary or history. At the end an owner signs how many answers it gave, together with the head of the learner's
record at that time, and the learner signs the model's file.
"""

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from copriv.errors import InvalidInput
from copriv.network.keys import Keys
from copriv.protocol import Answer, Query
from copriv.types import Array

MAGIC, VERSION = b"COPRIV", 2
MAX_FRAME = 4 << 20
"""Bytes of a frame; longer ones are refused unread. It has room for half a million parameters."""
MAX_TEXT = 4000
"""Bytes of a text, such as a certificate in PEM (about 800) or a reason."""
STOPPED = "stopped: "
"""Prefix of the reason in `Finished` where the run was stopped and may be resumed."""


Texts: TypeAlias = tuple[str, ...]


class Malformed(InvalidInput):
    """Bytes that are no message."""


@dataclass(frozen=True)
class Hello:
    """Owner → learner, first message: the owner's name and agreement."""

    owner: str
    fingerprint: str
    dictionary: str
    """Fingerprint of the public dictionary; "" without one."""
    parameters: int
    """p."""
    nonce: str
    """Random, made by this owner for this connection; the learner signs it."""
    certificate: str = ""
    """This owner's certificate, PEM, by which its answers' signatures are checked."""
    slot: float = 0.0
    """Seconds after which its answers leave (`copriv.privacy.release_time`)."""


@dataclass(frozen=True)
class Welcome:
    """Learner → owner, first message: the run, and the learner's record of this owner in it."""

    run: str
    talk: str
    """"choose": the owner waits for queries; "broadcast": it replies to offers; "request": it requests queries."""
    pace: float
    """Mean waiting time of an owner of rate 1, in seconds ("broadcast" and "request")."""
    answered: int
    """The newest `answered` that this owner sent in this run."""
    chain_head: str
    """The head of the owner's ledger in the same answer; "" if there was none."""
    certificate: str
    """The learner's certificate, PEM."""
    signature: str
    """Over the owner's hello and the run, by the certificate's key; hex."""


@dataclass(frozen=True, eq=False)
class SumQuery(Query):
    """Learner → owner: a query for an answer that is seen in a sum only. It begins an attempt at one (`masked_sum`)."""

    round: int = 0
    """k, of the step that the sum is for."""
    attempt: int = 0
    """The number of the run's turn, so that no two attempts have the same."""


@dataclass(frozen=True)
class Members:
    """Learner → owner, once on a connection: the owners whose answers are added up with its own."""

    certificates: Texts
    """PEM, in the agreement's order."""


@dataclass(frozen=True)
class PublicKeys:
    """Owner → learner: its public key of an attempt. Learner → owner: those of all owners, in the agreement's order.

    Here and in the messages below, "" stands for a missing owner.
    """

    identity: str
    """Identity of the query that began the attempt."""
    keys: Texts
    """Hex."""
    signatures: Texts
    """Hex, each by the key's owner (`masked_sum`)."""


@dataclass(frozen=True)
class SetSigned:
    """Owner → learner: its signature of the keys of all owners. Learner → owner: everybody's, in the agreement's order."""

    identity: str
    signatures: Texts


@dataclass(frozen=True)
class Survivors:
    """Learner → owner: the owners in a sum from which some may be missing, first without signatures, then with all of them.

    Owner → learner: the same with its own signature.
    """

    identity: str
    owners: Texts
    """In the agreement's order."""
    signatures: Texts


@dataclass(frozen=True, eq=False)
class MaskOpened:
    """Owner → learner: its part of the mask of the survivors' sum (`masked_sum`)."""

    identity: str
    words: Array
    """Words as float64 numbers (`copriv.privacy.shared_noise.as_numbers`)."""
    signature: str


@dataclass(frozen=True)
class PhaseTerms:
    """Learner → owner: the terms that were chosen for a phase, at its beginning and at each connection during it."""

    phase: int
    """From 1."""
    chosen: Texts
    """JSON of the chosen terms by key (`Agreement.chosen_run`), in pieces; {} for the pilot."""
    signature: str
    """The learner's, over `phase_content`; hex."""

    @classmethod
    def of(cls, phase: int, chosen: Mapping[str, Any], signature: str) -> "PhaseTerms":
        """The message with these terms."""
        text = json.dumps(chosen, allow_nan=False)  # in ASCII
        return cls(phase, tuple(text[k : k + MAX_TEXT] for k in range(0, len(text), MAX_TEXT)), signature)

    @property
    def terms(self) -> dict[str, Any]:
        """The chosen terms. Raises Malformed."""
        try:
            found = json.loads("".join(self.chosen))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Malformed("PhaseTerms.chosen: is no JSON of terms")
        return found


@dataclass(frozen=True)
class Refusal:
    """Either direction: a refused query (its `identity`) or connection (""), with the reason."""

    identity: str
    code: str
    """budget, lost (charged, never answered), query, malformed, ledger, policy or connection."""
    reason: str


@dataclass(frozen=True)
class Offer:
    """Learner → owner ("broadcast"): offer of a query; an offer costs no budget."""

    number: int


@dataclass(frozen=True)
class Ready:
    """Owner → learner: request for a query. `number` is that of the offer, 0 for a request without one."""

    number: int


@dataclass(frozen=True)
class Busy:
    """Learner → owner: another owner is served; request again at the next tick of the clock (A, §3)."""

    number: int


@dataclass(frozen=True)
class Finished:
    """Learner → owner: the run is over."""

    reason: str


@dataclass(frozen=True)
class Closing:
    """At the end of a run. Learner → owner: request for the number of its answers. Owner → learner: that number, signed."""

    head: str
    """The hash of the newest line of the learner's record at the time of the count."""
    answered: int
    """The owner's count in the present phase; 0 in the learner's request."""
    signature: str = ""
    before: int = 0
    """The owner's count in the phases before it."""


Message: TypeAlias = (
    Hello
    | Welcome
    | Query
    | Answer
    | Refusal
    | Offer
    | Ready
    | Busy
    | Finished
    | Closing
    | Members
    | PublicKeys
    | SetSigned
    | Survivors
    | MaskOpened
    | PhaseTerms
)

_KINDS: dict[int, type[Any]] = {
    2: Welcome, 3: Query, 4: Answer, 5: Refusal, 6: Offer, 7: Ready, 8: Busy, 9: Finished,
    19: Closing, 11: SumQuery, 12: Members, 13: PublicKeys, 14: SetSigned, 15: Hello,
    16: PhaseTerms, 17: Survivors, 18: MaskOpened,
}  # fmt: skip
"""1 was a hello without a slot, 10 a count of one phase alone. VERSION is in what is signed, so a change of one message gives
it another number."""
_NUMBER = {kind: number for number, kind in _KINDS.items()}
_FIELDS = {kind: [(field.name, field.type) for field in fields(kind)] for kind in _NUMBER}
_HEADER = struct.Struct("<6sBB")
_NUMBERS = {int: struct.Struct("<Q"), float: struct.Struct("<d")}
_TEXT_SIZE, _LENGTH = struct.Struct("<H"), struct.Struct("<I")


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
    """The message in a frame. Raises Malformed with the reason; no other object is built, and no code is run."""
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
    for name, field_type in _FIELDS[kind]:
        try:
            value, at = _read(field_type, frame, at)
        except UnicodeDecodeError:
            raise Malformed(f"{kind.__name__}.{name}: not UTF-8") from None
        except ValueError as error:
            raise Malformed(f"{kind.__name__}.{name}: {error}") from None
        values.append(value)
    if at != len(frame):
        raise Malformed(f"{kind.__name__}: {len(frame) - at} bytes too many")
    message: Message = kind(*values)
    return message


def _written(kind: Any, value: Any) -> bytes:
    """The bytes of a field; types other than str, int and float are vectors."""
    if kind in _NUMBERS:
        return _NUMBERS[kind].pack(value)
    if kind is str:
        raw: bytes = value.encode()
        if len(raw) > MAX_TEXT:
            raise struct.error(f"{len(raw)} bytes of text, at most {MAX_TEXT}")
        return _TEXT_SIZE.pack(len(raw)) + raw
    if kind == Texts:
        return _LENGTH.pack(len(value)) + b"".join(_written(str, text) for text in value)
    if value.ndim != 1:
        raise struct.error(f"a vector has one axis, not {value.ndim}")
    return _LENGTH.pack(len(value)) + np.ascontiguousarray(value, dtype="<f8").tobytes()


def _read(kind: Any, frame: bytes, at: int) -> tuple[Any, int]:
    """The field at a position of a frame, and the position after it. Raises ValueError with the reason."""
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
    size, at = _number(_LENGTH, frame, at)
    if kind == Texts:
        texts = []
        for _ in range(size):
            text, at = _read(str, frame, at)
            texts.append(text)
        return tuple(texts), at
    return np.frombuffer(_piece(frame, at, 8 * size), dtype="<f8").astype(np.float64), at + 8 * size


def _number(code: struct.Struct, frame: bytes, at: int) -> tuple[Any, int]:
    return code.unpack(_piece(frame, at, code.size))[0], at + code.size


def _piece(frame: bytes, start: int, size: int) -> bytes:
    piece = frame[start : start + size]
    if len(piece) != size:
        raise ValueError(f"needs {size} bytes, {len(piece)} are left")
    return piece


# Signed contents --------------------------------------------------------------------------------------------------------


def welcome_content(hello: Hello, run: str) -> bytes:
    """Content that the learner signs for its welcome: run, owner, agreement, and the owner's nonce."""
    return "\0".join(("copriv welcome", hello.owner, hello.fingerprint, hello.nonce, run)).encode()


def phase_content(run: str, agreed: str, phase: int, terms: str) -> bytes:
    """Content that the learner signs for a phase of a run under the agreement `agreed`, on `terms`: both are fingerprints."""
    return "\0".join(("copriv phase", run, agreed, str(phase), terms)).encode()


def query_content(run: str, query: Query, dictionary: str = "") -> bytes:
    """Content that the learner signs for a query."""
    return f"copriv query\0{run}\0{dictionary}\0".encode() + encode(replace(query, signature=""))


def answer_content(run: str, query: Query, answer: Answer, dictionary: str = "") -> bytes:
    """Content that an owner signs for an answer."""
    asked = hashlib.sha256(query_content(run, query, dictionary)).digest()
    return b"copriv answer\0" + asked + encode(replace(answer, signature=""))


def closing_content(run: str, owner: str, fingerprint: str, closing: Closing) -> bytes:
    """Content that an owner signs for its count at the end of a run."""
    whose = "\0".join(("copriv closing", run, owner, fingerprint, ""))
    return whose.encode() + encode(replace(closing, signature=""))


def model_content(run: str, head: str, model: str) -> bytes:
    """Content that the learner signs for a model's file of this digest (`Model.digest`), after the line of hash `head`."""
    return f"copriv model\0{run}\0{head}\0{model}".encode()


def signed_query(keys: Keys, run: str, query: Query, dictionary: str = "") -> Query:
    """The query with the learner's signature."""
    return replace(query, signature=keys.sign(query_content(run, query, dictionary)))


def signed_answer(keys: Keys, run: str, query: Query, answer: Answer, dictionary: str = "") -> Answer:
    """The answer with the owner's signature."""
    return replace(answer, signature=keys.sign(answer_content(run, query, answer, dictionary)))
