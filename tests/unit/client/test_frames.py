"""Split bytes into frames, however they arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isthmus_client.errors import ProtocolBroken
from isthmus_client.frames import FrameReader
from isthmus_client.limits import RECEIVE_BUFFER
from isthmus_wire.headers import FRAME_LENGTH

SIZES = st.one_of(st.integers(4, 40), st.integers(RECEIVE_BUFFER - 8, RECEIVE_BUFFER + 8), st.just(3 * RECEIVE_BUFFER))


def feed(reader: FrameReader, data: bytes, pieces: list[int]) -> list[bytes]:
    found: list[bytes] = []
    at = turn = 0
    while at < len(data):
        room = reader.room()
        count = min(pieces[turn % len(pieces)], len(room), len(data) - at)
        room[:count] = data[at : at + count]
        found += [bytes(frame) for frame in reader.received(count)]
        at += count
        turn += 1
    return found


@given(st.lists(SIZES, min_size=1, max_size=6), st.lists(st.integers(1, 2 * RECEIVE_BUFFER), min_size=1, max_size=5))
def test_frames_come_out_whole_and_in_order(sizes: list[int], pieces: list[int]) -> None:
    frames = [bytes([index]) * size for index, size in enumerate(sizes)]
    data = b"".join(FRAME_LENGTH.pack(len(frame)) + frame for frame in frames)
    assert feed(FrameReader(), data, [max(piece, 64) for piece in pieces]) == frames


def test_frames_arrive_byte_by_byte() -> None:
    data = FRAME_LENGTH.pack(5) + b"first" + FRAME_LENGTH.pack(6) + b"second"
    assert feed(FrameReader(), data, [1]) == [b"first", b"second"]


@pytest.mark.parametrize("size", [-1, 0, 3, 101])
def test_an_impossible_length_is_refused(size: int) -> None:
    with pytest.raises(ProtocolBroken, match=f"impossible frame length {size};"):
        feed(FrameReader(frame_max=100), FRAME_LENGTH.pack(size), [4])


def test_a_large_frame_is_received_into_its_own_buffer() -> None:
    reader = FrameReader()
    data = FRAME_LENGTH.pack(RECEIVE_BUFFER * 2) + b"x" * 10
    assert feed(reader, data, [len(data)]) == []
    assert len(reader.room()) == RECEIVE_BUFFER * 2 - 10
