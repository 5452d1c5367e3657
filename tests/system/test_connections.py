"""Connections beyond the limits wait or are refused, existing ones continue, and the limits can change while the node runs."""

import socket
import struct
from contextlib import ExitStack
from pathlib import Path

from isthmus_wire.apis import ApiKey
from isthmus_wire.headers import encode_request_header

from tests.conformance.clients.kafka_python import ConfigResource, ConfigResourceType, KafkaAdminClient
from tests.node import Node, running_node
from tests.ports import free_ports
from tests.system.ledger import wait_until

MOST = 20
_PAYLOAD = encode_request_header(ApiKey.API_VERSIONS, 0, 7, "client")
REQUEST = struct.pack(">i", len(_PAYLOAD)) + _PAYLOAD


def test_who_comes_beyond_the_most_connections_waits_for_room(tmp_path: Path) -> None:
    with running_node(tmp_path, {"max.connections": str(MOST)}) as node, ExitStack() as closing:
        held = connect(closing, node.port, MOST)
        assert all(map(responded, held))
        late = connect(closing, node.port, 3)
        assert all(map(responded, held))
        assert not any(map(has_data, late))
        for one in held[:3]:
            one.close()
        assert all(map(responded, late))


def test_an_address_with_too_many_connections_is_refused_until_more_are_allowed(tmp_path: Path) -> None:
    with running_node(tmp_path, {"max.connections.per.ip": str(MOST)}) as node, ExitStack() as closing:
        held = connect(closing, node.port, MOST - 5)
        assert all(map(responded, held))
        admin = KafkaAdminClient(bootstrap_servers=node.bootstrap)
        closing.callback(admin.close)
        rest = connect(closing, node.port, MOST)
        wait_until(lambda: any(map(is_closed, rest)), "connections to be refused")
        assert all(map(responded, held))
        for one in rest:
            one.close()
        alter(admin, {"max.connections.per.ip": "1000"})
        wait_until(lambda: can_hold(node, MOST), "room for more")
        alter(admin, {"max.connections.per.ip": "1000", "max.connections.per.ip.overrides": "127.0.0.1:5"})
        wait_until(lambda: not can_hold(node, 6), "the override to hold")


def test_fewer_connections_are_allowed_and_idle_ones_are_closed(tmp_path: Path) -> None:
    """The brokers' own listener is let in, whatever clients hold."""
    (brokers,) = free_ports(1)
    node = Node(tmp_path)
    node.settings |= {
        "listeners": f"{node.settings['listeners']},INTERNAL://127.0.0.1:{brokers}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    node.start()
    try:
        with ExitStack() as closing:
            held = connect(closing, node.port, MOST)
            assert all(map(responded, held))
            admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{brokers}")
            closing.callback(admin.close)
            alter(admin, {"max.connections": "10"})
            wait_until(lambda: sum(map(is_closed, held)) >= MOST - 10, "connections to give way")
            inside = connect(closing, brokers, 5)
            assert all(map(responded, inside))
            wait_until(lambda: sum(map(is_closed, held)) >= MOST - 5, "more of them to give way")
    finally:
        node.stop()


def connect(closing: ExitStack, port: int, count: int) -> list[socket.socket]:
    """Connections that have sent a request each."""
    made = []
    for _ in range(count):
        one = closing.enter_context(socket.create_connection(("127.0.0.1", port)))
        one.sendall(REQUEST)
        made.append(one)
    return made


def responded(connection: socket.socket) -> bool:
    """Whether the last request got a response; sends another one for the next call."""
    connection.settimeout(60)
    try:
        size = connection.recv(4, socket.MSG_WAITALL)
        body = connection.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
        connection.sendall(REQUEST)
    except (ConnectionResetError, BrokenPipeError, struct.error):
        return False
    return body[:4] == struct.pack(">i", 7)


def has_data(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except (BlockingIOError, ConnectionResetError):
        return False


def is_closed(connection: socket.socket) -> bool:
    """Responses that were not read do not count."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            continue
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return True


def can_hold(node: Node, count: int) -> bool:
    """Whether so many connections at once are all served."""
    with ExitStack() as closing:
        try:
            return all(map(responded, connect(closing, node.port, count)))
        except (ConnectionResetError, BrokenPipeError):
            return False


def alter(admin: KafkaAdminClient, settings: dict[str, str]) -> None:
    """Set the settings of this broker, which replace the former ones."""
    admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, "1", settings)])
