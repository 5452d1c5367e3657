"""Brokers for the exchanges of a group: a node or a cluster of Isthmus, and the same of Apache Kafka."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Target
from tests.kafka import KafkaNode, running_kafka
from tests.node import Cluster, running_cluster, running_node

HOST = "127.0.0.1"
_PROTOCOLS = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}


@contextmanager
def isthmus(group: Group, directory: Path) -> Iterator[Target]:
    """What a group talks to in the test."""
    settings = group.settings_in(directory)
    if group.roles:
        with running_cluster(directory, group.roles, racks=group.racks, settings=settings) as cluster:
            yield _target(cluster, directory)
    else:
        with running_node(directory, settings) as node:
            yield Target(HOST, node.port, directory)


@contextmanager
def kafka(group: Group, directory: Path) -> Iterator[Target]:
    """What a group talks to when it is recorded."""
    settings = group.settings_in(directory)
    with ExitStack() as nodes:
        if group.roles:
            cluster = Cluster(directory, group.roles, racks=group.racks, settings=settings)
            for node in cluster.nodes.values():
                port = node.port if "broker" in node.settings["process.roles"] else node.controller_port
                peer = KafkaNode(node.directory, {**node.settings, **_PROTOCOLS}, port)
                nodes.callback(peer.kill)  # a last broker that is stopped waits for others to lead
                peer.start()
            yield _target(cluster, directory)
        else:
            yield Target(HOST, nodes.enter_context(running_kafka(directory, settings)).port, directory)


def _target(cluster: Cluster, directory: Path) -> Target:
    """The first broker, and all nodes."""
    ports = {
        number: node.port if number in cluster.brokers else node.controller_port
        for number, node in cluster.nodes.items()
    }
    return Target(HOST, ports[cluster.brokers[0]], directory, ports)
