"""Connections beyond the bound are refused, and the node goes on serving those that it has."""

import socket
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.node import Node, running_node
from tests.system.ledger import wait_until

MOST = 20


def test_connections_beyond_the_most_are_closed(tmp_path: Path) -> None:
    with running_node(tmp_path, {"max.connections": str(MOST)}) as node:
        held = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(MOST + 10)]
        try:
            wait_until(lambda: sum(map(is_closed, held)) == 10, "ten connections to be closed")
        finally:
            for one in held:
                one.close()
        wait_until(lambda: answers(node), "an answer to a new client")


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def answers(node: Node) -> bool:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 2})
    return 1 in admin.list_topics(timeout=30).brokers
