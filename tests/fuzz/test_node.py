"""A node that receives hostile frames: it responds or closes the connection, still serves others, and does not grow."""

import random
import socket
import struct
from pathlib import Path
from typing import Final

from isthmus_wire.records import NewRecord, build_batch

from tests.fuzz.kept import entries
from tests.fuzz.mutate import damaged
from tests.fuzz.requests import drawn_request, every_version
from tests.node import Node, running_node

SEED: Final = 20_430_002
ROUNDS_PER_VERSION: Final = 8
ANSWER_SECONDS: Final = 20.0
GROWTH_MAX: Final = 64 * 1024 * 1024
_CHECK_EVERY: Final = 50
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 77, -1)


class Bystander:
    """A well-behaved client that keeps one connection."""

    def __init__(self, node: Node) -> None:
        self._socket = socket.create_connection(("127.0.0.1", node.port), ANSWER_SECONDS)

    def is_served(self) -> bool:
        """Whether the node still responds."""
        self._socket.sendall(_API_VERSIONS)
        (size,) = struct.unpack(">i", self._socket.recv(4, socket.MSG_WAITALL))
        return self._socket.recv(size, socket.MSG_WAITALL)[:4] == struct.pack(">i", 77)

    def close(self) -> None:
        """Leave."""
        self._socket.close()


def _resident(node: Node) -> int:
    """Bytes of memory that the node's process uses."""
    for line in Path(f"/proc/{node.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the process has ended")


def _throw(node: Node, data: bytes) -> None:
    """Send bytes and half-close; whatever its response, the node must then close the connection."""
    with socket.create_connection(("127.0.0.1", node.port), ANSWER_SECONDS) as peer:
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass
        except TimeoutError as error:
            raise AssertionError(f"neither a response nor a closed connection: {data.hex()}") from error
        except OSError:  # closed while we were still sending
            return


def _framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def _frames(draw: random.Random) -> list[bytes]:
    """Whole frames with damaged payloads, damaged frames, random bytes, and the kept frames."""
    batch = build_batch([NewRecord(b"k", b"v", 1)])
    frames = [_framed(payload) for payload in entries("requests")]
    for key, version in every_version():
        for _ in range(ROUNDS_PER_VERSION):
            payload = drawn_request(key, version, draw, batch)
            frames += [_framed(payload), _framed(damaged(payload, draw))]
        frames += [damaged(_framed(payload), draw), draw.randbytes(draw.randint(1, 200))]
    draw.shuffle(frames)
    return frames


def test_a_node_survives_hostile_frames(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    frames = _frames(random.Random(SEED))
    with running_node(tmp_path) as node:
        bystander = Bystander(node)
        for frame in frames[: len(frames) // 4]:
            _throw(node, frame)
        settled = _resident(node)
        for number, frame in enumerate(frames):
            _throw(node, frame)
            assert number % _CHECK_EVERY or bystander.is_served()
        assert bystander.is_served()
        grown = _resident(node) - settled
        bystander.close()
        assert node.stop() == 0
    assert grown < GROWTH_MAX, f"{grown} bytes more after {len(frames)} frames"
    log = node.log()
    assert "Traceback" not in log, log[log.index("Traceback") - 300 :][:4000]
