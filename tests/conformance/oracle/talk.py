"""One exchange with one broker: requests out, answers in, each recorded as a step."""

import json
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from isthmus_wire.apis import ALL_VERSIONS, ApiKey
from isthmus_wire.headers import decode_response_header, encode_request_header
from isthmus_wire.records import HEADER_SIZE, MAGIC, header_at

from tests.conformance.oracle.messages import decode_answer, encode_request, plain_batches
from tests.conformance.oracle.rules import MADE_UP_PRODUCERS, Rules

ANSWER_SECONDS: Final = 20.0
CLIENT: Final = "oracle"
MAIN: Final = "main"
MAGIC_AT: Final = 16
_UNSETTLED: Final = frozenset(
    {
        "unknown_topic_or_partition", "unknown_topic_id", "leader_not_available", "not_leader_or_follower",
        "coordinator_not_available", "coordinator_load_in_progress", "not_coordinator", "offset_not_available",
    }
)  # fmt: skip


class Target(NamedTuple):
    """A broker, and the nodes of its cluster if there are several."""

    host: str
    port: int
    directory: Path
    nodes: Mapping[int, int] = MappingProxyType({})
    """The ports of the nodes by id."""


def node(number: int) -> str:
    """The name of the connection to a node of a cluster."""
    return f"node {number}"


class Step(NamedTuple):
    """What was asked, with a checksum of the values, and what came back by rule."""

    asked: str
    answer: Any


class Unanswered(Exception):
    """The broker said nothing in time."""


class Connection:
    """A blocking connection; requests are framed by hand, so that they can be wrong."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), ANSWER_SECONDS)
        self._correlation = 0

    def send(self, api_key: int, version: int, body: bytes) -> int:
        """Send a request; returns its correlation id."""
        self._correlation += 1
        frame = encode_request_header(api_key, version, self._correlation, CLIENT) + body
        self.send_bytes(struct.pack(">i", len(frame)) + frame)
        return self._correlation

    def send_bytes(self, data: bytes) -> None:
        """Send anything; a peer that has gone already is noticed when its answer is read."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def read_frame(self) -> bytes | None:
        """The next frame, or None when the peer closes instead."""
        prefix = self._read(4)
        return None if prefix is None else self._read(struct.unpack(">i", prefix)[0])

    def finish_sending(self) -> None:
        """Close our half."""
        self._socket.shutdown(socket.SHUT_WR)

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        try:
            while len(data) < size:
                piece = self._socket.recv(size - len(data))
                if not piece:
                    return None
                data += piece
        except ConnectionResetError:
            return None
        except TimeoutError as error:
            raise Unanswered(f"no answer within {ANSWER_SECONDS:.0f} s") from error
        return bytes(data)

    def close(self) -> None:
        """Close both halves."""
        self._socket.close()


class Pending:
    """A request whose answer is awaited later, for requests that wait for other members."""

    def __init__(self, talk: "Talk", api: ApiKey, asked: str, read: Callable[[], Any]) -> None:
        self._talk = talk
        self._api = api
        self._asked = asked
        self._read = read

    def answer(self) -> Any:
        """Wait for it and record it."""
        return self._talk.note(self._api, self._asked, self._read())


class Talk:
    """What an exchange's script talks through. It uses real ids; what is recorded has gone through the rules."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.steps: list[Step] = []
        self._rules = Rules(target.port, target.directory, target.nodes)
        self._ports = {node(number): port for number, port in target.nodes.items()}
        self._connections: dict[str, Connection] = {}

    def close(self) -> None:
        """Drop all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- recorded steps ------------------------------------------------------------------------------------------------------

    def ask(self, api: ApiKey, version: int | None = None, on: str = MAIN, **values: Any) -> Any:
        """One request, by default in the highest version; its answer is recorded and returned as plain values."""
        return self.send(api, version, on, **values).answer()

    def ask_each(self, api: ApiKey, versions: Iterable[int] | None = None, **values: Any) -> Any:
        """The same request in every version that Kafka lists; returns the last answer."""
        lowest, highest = ALL_VERSIONS[api]
        answer = None
        for version in versions if versions is not None else range(lowest, highest + 1):
            answer = self.ask(api, version, **values)
        return answer

    def send(self, api: ApiKey, version: int | None = None, on: str = MAIN, **values: Any) -> Pending:
        """A request whose answer is read when the script asks for it."""
        number = ALL_VERSIONS[api][1] if version is None else version
        self._transmit(api, number, on, values)
        where = f" at {on}" if on in self._ports else ""
        asked = f"{api.name} v{number}{where} {self._checksum(api, values)}"
        return Pending(self, api, asked, lambda: self._receive(api, number, on))

    def send_only(self, api: ApiKey, version: int, on: str = MAIN, **values: Any) -> None:
        """A request that wants no answer (acks=0)."""
        self._transmit(api, version, on, values)

    def raw(self, label: str, data: bytes, *, end: bool = False) -> Any:
        """Bytes as they are on a connection of their own; recorded is the answer's frame, or that the connection was closed."""
        connection = Connection(self.target.host, self.target.port)
        try:
            connection.send_bytes(data)
            if end:
                connection.finish_sending()
            frame = connection.read_frame()
        finally:
            connection.close()
        return self.note(-1, f"{label} {zlib.crc32(data):08x}", "closed" if frame is None else _decoded(data, frame))

    def note(self, api_key: int, asked: str, answer: Any) -> Any:
        """Record a step."""
        self.steps.append(Step(asked, self._rules.apply(api_key, answer)))
        return answer

    def _checksum(self, api: int, values: Mapping[str, Any]) -> str:
        """Of the request by rule: a script that changed does not pass for the recorded one."""
        text = json.dumps(self._rules.apply(api, _listed(values)), sort_keys=True)
        return f"{zlib.crc32(text.encode()):08x}"

    # -- the wire ------------------------------------------------------------------------------------------------------------

    def quiet(self, api: ApiKey, version: int | None = None, on: str = MAIN, **values: Any) -> Any:
        """Ask without recording."""
        number = ALL_VERSIONS[api][1] if version is None else version
        self._transmit(api, number, on, values)
        return self._receive(api, number, on)

    def _transmit(self, api: ApiKey, version: int, on: str, values: Mapping[str, Any]) -> None:
        if on not in self._connections:
            self._connections[on] = Connection(self.target.host, self._ports.get(on, self.target.port))
        self._connections[on].send(api, version, encode_request(api, version, ALL_VERSIONS[api], values))

    def _receive(self, api: ApiKey, version: int, on: str) -> Any:
        frame = self._connections[on].read_frame()
        if frame is None:
            self._connections.pop(on).close()
            return "closed"
        _, at = decode_response_header(frame, api, version)
        return decode_answer(api, version, frame[at:])

    def drop(self, on: str) -> None:
        """Close one connection."""
        self._connections.pop(on).close()

    # -- setting a scene -----------------------------------------------------------------------------------------------------

    def settle(self, ask: Callable[[], Any], wanted: Callable[[Any], bool] | None = None) -> Any:
        """Ask without recording until the answer is wanted; by default until it holds no passing error."""
        accept = wanted or (lambda answer: not _UNSETTLED & set(_texts(answer)))
        pause = threading.Event()
        answer = None
        for _ in range(int(ANSWER_SECONDS / 0.02)):
            answer = ask()
            if accept(answer):
                return answer
            pause.wait(0.02)
        raise Unanswered(f"this never settled: {answer}")

    def topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Any:
        """A fresh topic that can be written and read; returns its id."""
        entries = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": (),
            "configs": entries,
        }
        created = self.quiet(ApiKey.CREATE_TOPICS, topics=[wanted], timeout=10_000, validate_only=False)
        assert created["topics"][0]["error_code"] == "none", created
        indexes = [{"partition_index": i, "current_leader_epoch": -1, "timestamp": -1} for i in range(partitions)]
        self.settle(
            lambda: self.quiet(
                ApiKey.LIST_OFFSETS,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": name, "partitions": indexes}],
                timeout=0,
            )
        )
        return created["topics"][0]["topic_id"]

    def group(self, name: str) -> str:
        """A group id whose coordinator answers."""
        self.settle(lambda: self.quiet(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=(name,)))
        groups = [{"group_id": name, "member_id": None, "member_epoch": -1, "topics": None}]
        self.settle(lambda: self.quiet(ApiKey.OFFSET_FETCH, groups=groups, require_stable=False))
        return name


def _decoded(request: bytes, frame: bytes) -> Any:
    """The answer to a raw request, read as the API and version that it names; versions nobody knows are answered in version 0."""
    api_key, version = struct.unpack_from(">hh", request, 4)
    lowest, highest = ALL_VERSIONS[ApiKey(api_key)]
    readable = version if lowest <= version <= highest else 0
    _, at = decode_response_header(frame, api_key, readable)
    return decode_answer(api_key, readable, frame[at:])


def _listed(value: Any) -> Any:
    """Bytes as text and tuples as lists, all the way down."""
    if isinstance(value, Mapping):
        return {name: _listed(inner) for name, inner in value.items()}
    if isinstance(value, bytes | bytearray):
        return plain_batches(bytes(value)) if _has_drawn_producer(value) else value.hex()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_listed(inner) for inner in value]
    return value


def _has_drawn_producer(value: bytes | bytearray) -> bool:
    """Whether these are batches with a producer id that the broker has drawn: another broker draws another one."""
    if len(value) < HEADER_SIZE or value[MAGIC_AT] != MAGIC:
        return False
    producer_id = header_at(value).producer_id
    return producer_id >= 0 and producer_id not in MADE_UP_PRODUCERS


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value
