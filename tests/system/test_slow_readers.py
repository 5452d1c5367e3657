"""Consumers that fetch much and do not read the responses: the node's memory stays bounded, others are served, and memory is freed."""

import socket
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from isthmus_broker.edge.transport.limits import PIECE_SIZE, RECEIVE_BUFFER_MIN, WRITE_HIGH_WATER
from isthmus_wire.apis import ApiKey
from isthmus_wire.fetch import FetchPartition, FetchRequest, encode_fetch_request
from isthmus_wire.headers import encode_request_header

from bench.process import resident_mb
from tests.node import Node
from tests.system.filled import fill
from tests.system.ledger import wait_until

READERS: Final = 200
FETCHES_EACH: Final = 5
LOG_BYTES: Final = 50 << 20
SEGMENT_BYTES: Final = 64 << 20
IDLE_MS: Final = 5000
A_READER_MAX: Final = WRITE_HIGH_WATER + 2 * PIECE_SIZE + RECEIVE_BUFFER_MIN
"""Bytes that a connection whose client does not read may cost: what is handed to the socket, and the piece that filled it."""
ORDINARY_MB: Final = 30
"""What serving another client may cost on the way."""
_VERSION: Final = 12


def test_readers_that_never_drain_use_bounded_memory_and_delay_no_others(tmp_path: Path) -> None:
    node = Node(tmp_path, {"connections.max.idle.ms": str(IDLE_MS)})
    node.start()
    node.stop()
    fill(node, "large", 1, LOG_BYTES, SEGMENT_BYTES)
    node.start()
    try:
        assert read(node, 100) == 100
        before = resident_mb(node.pid)
        with ExitStack() as closing:
            readers = [closing.enter_context(stuck_reader(node)) for _ in range(READERS)]
            wait_until(lambda: all(map(has_begun, readers)), "a response to every reader")
            assert read(node, 1000) == 1000
            assert resident_mb(node.pid) - before < READERS * A_READER_MAX / 1e6 + ORDINARY_MB
            wait_until(lambda: node.log().count("it was idle for connections.max.idle.ms") >= READERS, "them to go")
        assert read(node, 100) == 100
        wait_until(lambda: resident_mb(node.pid) - before < 2 * ORDINARY_MB, "their memory to come back")
    finally:
        node.stop()


def stuck_reader(node: Node) -> socket.socket:
    """A connection that has fetched the whole log several times, and reads nothing."""
    wanted = FetchPartition(0, 0, LOG_BYTES)
    body = bytes(encode_fetch_request(_VERSION, FetchRequest(0, 1, LOG_BYTES, [("large", [wanted])])))
    frames = bytearray()
    for number in range(FETCHES_EACH):
        payload = encode_request_header(ApiKey.FETCH, _VERSION, number, "slow") + body
        frames += struct.pack(">i", len(payload)) + payload
    reader = socket.create_connection(("127.0.0.1", node.port))
    reader.sendall(frames)
    return reader


def has_begun(reader: socket.socket) -> bool:
    """Whether the response is being sent; reads none of it."""
    reader.setblocking(False)
    try:
        return bool(reader.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def read(node: Node, count: int) -> int:
    """An ordinary consumer; how many records it got."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "ordinary", "log_level": 2})
    try:
        consumer.assign([TopicPartition("large", 0, 0)])
        return len(consumer.consume(count, 60))
    finally:
        consumer.close()
