"""What a hostile party may say: every valid message, and what grows from them.

An input is a byte of flags and a frame. Names that differ from run to run stand in it as placeholders (`@query`), so that
what was found in one run is of use in the next: `Speaker` in owner_side and learner_side puts in what they stand for,
and signs where the flags say so, since a hostile party has its own key.
"""

import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from copriv.network.messages import (
    Busy,
    Closing,
    Finished,
    Hello,
    Malformed,
    Message,
    Offer,
    Ready,
    Refusal,
    Welcome,
    decode,
    encode,
)
from copriv.protocol import Answer, Query

WHO, SIGNED, FIRST, LATER = 0b11, 0b100, 0b1000, 0b10000
"""Flags: which owner speaks, whether it is signed, whether it is said before anything else, whether time passes first."""
PARAMETERS = 3

_TEXTS = (
    "", "@query", "@older", "@fingerprint", "@name", "@other", "@head", "@run", "@certificate", "@learner", "@signature",
    "x", "x" * 64, "0" * 64, "f" * 64, "x" * 200, "x" * 201, "x" * 4000, "é" * 2000, "\0", "\x1b[2K\x1b[1A0 of 1 spent\n",
    "[/nothing]", "[bold", "%s{}", "'; DROP TABLE answers; --", "../../etc", "‮", "\U0001f600" * 50, "bank-1", "learner",
    "lost", "budget", "ledger", "query", "policy", "choose", "broadcast", "request", "-1", "1e400", "NaN",
)  # fmt: skip
_WHOLE = (0, 1, 2, 3, 4, 5, 19, 20, 21, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1)
_REAL = (0.0, -0.0, 1e-300, 5e-324, 0.02, 1.0, -1.0, 86_400.0, 86_401.0, 1e308, -1e308)
_NUMBERS = (
    0.0, -0.0, 0.1, -0.3, 10.0, -10.0, 10.0 + 1e-9, 1e-320, 1e99, 1e100, 1.1e100, 1e308, -1e308,
    float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
_LENGTHS = (0, 1, 2, 3, 3, 3, 4, 40, 4000)


def valid() -> list[bytes]:
    """Every message that one of the parties may say to the other, as an input."""
    θ = np.array([0.1, -0.2, 0.3])
    said: list[Message] = [
        Hello("@name", "@fingerprint", "", PARAMETERS, "0" * 32, "@certificate"),
        Welcome("@run", "choose", 0.0, 0, "", "@learner", "@signature"),
        Welcome("@run", "broadcast", 0.02, 3, "@head", "@learner", "@signature"),
        Welcome("another-run", "request", 1.0, 0, "", "@learner", "@signature"),
        Query("@query", "@fingerprint", "@name", θ, "@head"),
        Query("@older", "@fingerprint", "@name", θ, "@head"),
        Answer("@query", "@fingerprint", "@name", θ, 1, "0" * 64),
        Answer("@query", "@fingerprint", "@name", -θ, 4, ""),
        *(Refusal("@query", code, "no") for code in ("lost", "budget", "query")),
        *(Refusal("", code, "no") for code in ("malformed", "ledger", "policy", "connection")),
        Offer(1), Ready(0), Ready(1), Busy(0), Finished("all 8 queries are answered"), Closing("@head", 0), Closing("@head", 4),
    ]  # fmt: skip
    return [
        bytes([flags]) + encode(one)
        for one in said
        for flags in (0, 1, 2, SIGNED, SIGNED | 1, SIGNED | 2, SIGNED | FIRST)
    ]


def spoken(data: bytes, stands_for: Mapping[str, str], sign: Callable[[Message], Message]) -> bytes:
    """The frame of an input, with what its placeholders stand for; signed where it says so and is a message."""
    try:
        message = decode(data[1:])
    except Malformed:
        return data[1:]
    texts = {f.name: stands_for.get(v, v) for f in fields(message) if isinstance(v := getattr(message, f.name), str)}
    message = replace(message, **texts)
    try:
        return encode(sign(message) if data[0] & SIGNED else message)
    except Malformed:  # a placeholder that stands for more than a message takes
        return data[1:]


def grown(data: bytes, chance: random.Random, by_bytes: Callable[[bytes], bytes] | None = None) -> bytes:
    """Another input that begins from this one: other fields of a valid message, or other bytes."""
    if not data:
        data = chance.choice(_VALID)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        how = chance.random()
        if how < 0.15:
            data = (
                bytes([data[0] ^ chance.choice((1, 2, 3, SIGNED, SIGNED, LATER, chance.choice((FIRST, 1, 2))))])
                + data[1:]
            )
        elif how < 0.65:
            data = data[:1] + _other_field(data[1:], chance)
        elif how < 0.72:
            data = data[:1] + chance.choice(_VALID)[1:]
        else:
            data = data[:1] + (by_bytes or (lambda frame: _other_bytes(frame, chance)))(data[1:])
        data = data or b"\0"
    return data


def _other_field(frame: bytes, chance: random.Random) -> bytes:
    try:
        message = decode(frame)
    except Malformed:
        message = decode(chance.choice(_VALID)[1:])
    field = chance.choice(fields(message)).name
    value: Any = getattr(message, field)
    if isinstance(value, str):
        value = chance.choice(_TEXTS) if chance.random() < 0.8 else value[: chance.randint(0, len(value))] + "~"
    elif isinstance(value, int):
        value = chance.choice(_WHOLE) if chance.random() < 0.8 else chance.randrange(2**64)
    elif isinstance(value, float):
        value = chance.choice(_REAL)
    else:
        n = chance.choice(_LENGTHS)
        value = np.resize(value, n) if len(value) and chance.random() < 0.5 else np.full(n, 0.1)
        if n and chance.random() < 0.7:
            value[chance.randrange(n)] = chance.choice(_NUMBERS)
    try:
        return encode(replace(message, **{field: value}))
    except Malformed:
        return frame


def _other_bytes(frame: bytes, chance: random.Random) -> bytes:
    changed, at = bytearray(frame or b"\0"), chance.randrange(len(frame) or 1)
    match chance.randrange(6):
        case 0:
            changed[at] = chance.randrange(256)
        case 1:
            changed[at] ^= 1 << chance.randrange(8)
        case 2:
            del changed[at:]
        case 3:
            changed[at:at] = chance.randbytes(chance.randint(1, 20))
        case 4:
            del changed[at : at + chance.randint(1, 8)]
        case _:
            number = struct.pack(chance.choice(("<H", "<I", "<Q")), chance.choice((0, 1, 255, 4000, 4001, 65535)))
            changed[at : at + len(number)] = number
    return bytes(changed)


_VALID = valid()
