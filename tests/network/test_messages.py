"""Every message arrives as it was sent, bit for bit; nothing else arrives at all."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copriv.network.messages import (
    MAX_FRAME,
    MAX_TEXT,
    Busy,
    Closing,
    Finished,
    Hello,
    Malformed,
    Offer,
    Ready,
    Refusal,
    Welcome,
    decode,
    encode,
)
from copriv.protocol import Answer, Query

text = st.text(max_size=60)
whole = st.integers(0, 2**64 - 1)
real = st.floats(allow_nan=False, allow_infinity=False)
vector = st.lists(st.floats(width=64), max_size=30).map(lambda v: np.array(v, dtype=np.float64))
messages = st.one_of(
    st.builds(Hello, text, text, text, whole, text, text),
    st.builds(Welcome, text, text, real, whole, text, text, text),
    st.builds(Query, text, text, text, vector, text, text),
    st.builds(Answer, text, text, text, vector, whole, text, text),
    st.builds(Refusal, text, text, text),
    st.builds(Offer, whole),
    st.builds(Ready, whole),
    st.builds(Busy, whole),
    st.builds(Finished, text),
    st.builds(Closing, text, whole, text),
)


@given(messages)
def test_what_is_sent_arrives(message: object) -> None:
    back = decode(encode(message))  # type: ignore[arg-type]
    assert type(back) is type(message)
    for name, value in vars(message).items():
        other = getattr(back, name)
        if isinstance(value, np.ndarray):
            assert (other.tobytes(), other.dtype) == (value.tobytes(), np.float64)
        else:
            assert other == value


@given(messages, st.data())
def test_no_part_of_a_frame_and_nothing_longer_is_a_message(message: object, data: st.DataObject) -> None:
    frame = encode(message)  # type: ignore[arg-type]
    for wrong in (frame[: data.draw(st.integers(0, len(frame) - 1))], frame + b"\0"):
        with pytest.raises(Malformed):
            decode(wrong)


@given(st.binary(max_size=200))
def test_bytes_are_refused_or_are_the_one_frame_of_a_message(noise: bytes) -> None:
    for frame in (noise, b"COPRIV\x02" + noise):
        try:
            message = decode(frame)
        except Malformed:
            continue
        assert encode(message) == frame


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b"", "too few"),
        (b"GET / HTTP/1.1\r\n", "does not begin as"),
        (b"COPRIV\x01\x06" + bytes(8), "version 1"),
        (b"COPRIV\x02\x63" + bytes(8), "no message has the number 99"),
        (b"COPRIV\x02\x06" + bytes(7), "Offer.number: needs 8 bytes, 7 are left"),
        (b"COPRIV\x02\x06" + bytes(9), "1 bytes too many"),
        (b"COPRIV\x02\x09\x02\x00\xff\xfe", "Finished.reason: not UTF-8"),
        (b"COPRIV\x02\x09\xff\xff", "65535 bytes of text"),
        (b"x" * (MAX_FRAME + 1), "at most"),
    ],
)
def test_a_refusal_says_what_is_wrong(frame: bytes, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        decode(frame)


def test_what_could_not_be_read_back_is_not_sent() -> None:
    for message in (Finished("x" * (MAX_TEXT + 1)), Offer(-1), Offer(2**64), Query("i", "f", "o", np.zeros(10**6))):
        with pytest.raises(Malformed):
            encode(message)
    with pytest.raises(Malformed, match="finite"):
        decode(encode(Welcome("", "", math.nan, 0, "", "", "")))
