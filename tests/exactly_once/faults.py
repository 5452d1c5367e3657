"""The faults of a workload: brokers and applications that are killed, and started again; or paused until others have replaced them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from random import Random
from typing import Final, Protocol

from isthmus_client.admin.groups import Group
from isthmus_client.admin.groups import describe as describe_groups
from isthmus_client.admin.topics import describe as describe_topics
from isthmus_client.admin.topics import list_topics
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import Broker

from tests.conformance.clients.kafka_python import KafkaAdminClient
from tests.exactly_once.load import Load
from tests.kafka import KafkaNode
from tests.node import Node
from tests.process import Process
from tests.system.quorums import await_fenced, wait_for

CLUSTER_SETTINGS: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "3000",
    "default.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "replica.lag.time.max.ms": "1500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
}
"""Three nodes; faults are noticed soon."""


class Cluster(Protocol):
    """Of either system."""

    @property
    def nodes(self) -> Mapping[int, Node | KafkaNode]: ...

    @property
    def bootstrap(self) -> str: ...

    def start(self, *numbers: int) -> None: ...


def leader(load: Load) -> int:
    """The leader of an output partition."""
    topic = load.workload.output
    found = wait_for(
        load.workload.bootstrap,
        lambda client: describe_topics(client, [topic]),
        lambda found: found[topic].partitions[0].leader > 0,
    )
    return found[topic].partitions[0].leader


def group_coordinator(load: Load) -> int:
    """The coordinator of the applications' group."""
    group = load.workload.name

    async def find(client: Client) -> Broker | None:
        found = (await client.coordinators([group]))[group]
        return found if isinstance(found, Broker) else None

    found = wait_for(load.workload.bootstrap, find, lambda broker: broker is not None)
    assert found is not None
    return found.node_id


def transaction_coordinator(load: Load) -> int:
    """The coordinator of one of the applications' transactional ids."""
    with closing(KafkaAdminClient(bootstrap_servers=load.workload.bootstrap.split(","))) as admin:
        listings: Mapping[int, list[object]] = admin.list_transactions()
    return max(listings, key=lambda broker: len(listings[broker]))


BROKERS: Final[Mapping[str, Callable[[Load], int]]] = {
    "leader": leader,
    "group-coordinator": group_coordinator,
    "transaction-coordinator": transaction_coordinator,
}
APPLICATION: Final = "application"
FAULTS: Final = tuple(f"{how}-{victim}" for victim in (*BROKERS, APPLICATION) for how in ("kill", "pause"))


def one_round(load: Load, cluster: Cluster, fault: str, random: Random) -> None:
    """Strike, wait until the applications get on without the victim, and repair."""
    how, _, victim = fault.partition("-")
    if victim == APPLICATION:
        application = random.choice(load.applications)
        if how == "pause":
            await_members(load, len(load.applications))  # none is still starting, or not yet gone
            with paused(application):
                await_members(load, len(load.applications) - 1)
                load.go_on()
        else:
            application.kill()
            load.go_on()
            application.start()
    else:
        number = BROKERS[victim](load)
        if how == "pause":
            with paused(cluster.nodes[number]):
                others = [node.bootstrap for other, node in cluster.nodes.items() if other != number]
                await_fenced(",".join(others), number)
                load.go_on()
            await_fenced(load.workload.bootstrap, number, fenced=False)
        else:
            cluster.nodes[number].kill()
            load.go_on()
            cluster.start(number)
        await_all_in_sync(load.workload.bootstrap)
    load.go_on()


def await_members(load: Load, count: int) -> None:
    """Until the group has so many members: the session of one that is paused has ended."""
    group = load.workload.name

    def done(found: Mapping[str, Group | ClientError]) -> bool:
        described = found[group]
        return isinstance(described, Group) and len(described.members) == count

    wait_for(load.workload.bootstrap, lambda client: describe_groups(client, [group]), done)


def await_all_in_sync(bootstrap: str) -> None:
    """Until every replica is in sync, also those of internal topics: the next fault must not leave fewer than the minimum."""
    wait_for(
        bootstrap,
        list_topics,
        lambda found: all(
            set(partition.in_sync) == set(partition.replicas)
            for topic in found.values()
            for partition in topic.partitions.values()
        ),
    )


@contextmanager
def paused(process: Process) -> Iterator[None]:
    """SIGSTOP for the block."""
    process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.signal(signal.SIGCONT)
