"""Two nodes in this process whose wall clock is set forward and back by an hour under load."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import NodeConfig, resolve_node, with_embedded_defaults
from isthmus_broker.edge.assembly.format import format_directories, new_cluster_id
from isthmus_broker.edge.assembly.node import Node
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_client.clock import monotonic_ms, wall_ms
from isthmus_model.clocks import Clocks, WallMs

from tests.ports import free_ports

HOUR_MS: Final = 3_600_000
DEADLINE_SECONDS: Final = 120
RECORDS: Final = 100


class WallClock:
    """The machine's clock plus an offset."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def __call__(self) -> WallMs:
        return WallMs(wall_ms() + self.offset_ms)


class Assignments(ConsumerRebalanceListener):  # type: ignore[misc]
    """Counts the assignments of a consumer: one more than the first is a rebalance."""

    def __init__(self) -> None:
        self.count = 0

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        pass

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.count += 1


def configs(directory: Path, others: Mapping[str, str] | None = None) -> list[NodeConfig]:
    """A combined node and a broker, with these settings beside those of the tests."""
    first, second, controller = free_ports(3)
    cluster_id, made = new_cluster_id(), []
    for node_id, port in ((1, first), (2, second)):
        own = f",CONTROLLER://127.0.0.1:{controller}" if node_id == 1 else ""
        data = directory / str(node_id)
        format_directories(SYSTEM, [data], node_id, cluster_id)
        settings = {
            "node.id": str(node_id),
            "process.roles": "broker,controller" if node_id == 1 else "broker",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}{own}",
            "log.dirs": str(data),
            "replica.lag.time.max.ms": "30000",
            "offsets.topic.replication.factor": "2",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(others or {}),
        }
        made.append(resolve_node(BrokerLayers(with_embedded_defaults(settings, str(data)))))
    return made


async def produced_and_consumed(bootstrap: str, consumer: Any) -> None:
    """Records acknowledged by both replicas reach the member of the group, which sends heartbeats meanwhile."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for number in range(RECORDS):
            await producer.send_and_wait("t", b"%d" % number)
    values = [(await consumer.getone()).value for _ in range(RECORDS)]
    assert values == [b"%d" % number for number in range(RECORDS)]
    await consumer.commit()


def services_of(node: Node) -> Services:
    assert node._broker is not None
    return node._broker.services


async def check_isr(nodes: list[Node]) -> None:
    """Look for replicas that fell behind in every turn of the loop: also between an append and the fetch of it."""
    while True:
        for node in nodes:
            services_of(node).replicas.check_isr()
        await asyncio.sleep(0)


async def live(directory: Path) -> None:
    wall = WallClock()
    clocks = Clocks(wall, monotonic_ms)
    nodes = [Node(config, clocks) for config in configs(directory)]
    await asyncio.gather(*(node.start() for node in nodes))
    bootstrap = nodes[0].addresses.split(",")[0].removeprefix("PLAINTEXT://")
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("t", 1, 2)])
    await admin.close()
    assignments = Assignments()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=30_000,
        heartbeat_interval_ms=50,
    )
    consumer.subscribe(["t"], listener=assignments)
    await consumer.start()
    services = services_of(nodes[0])
    await produced_and_consumed(bootstrap, consumer)
    first = services.image
    checking = asyncio.create_task(check_isr(nodes))
    for step_ms in (HOUR_MS, -2 * HOUR_MS, HOUR_MS):
        wall.offset_ms += step_ms
        await produced_and_consumed(bootstrap, consumer)
    assert assignments.count == 1, "the member was evicted or had to join again"
    partition, before = services.image.topics.named("t"), first.topics.named("t")
    assert partition is not None
    assert before is not None
    assert partition.partitions == before.partitions, "a replica left the in-sync set, or the leader changed"
    assert services.image.brokers == first.brokers, "a broker was fenced"
    checking.cancel()
    await consumer.stop()
    for node in reversed(nodes):
        await node.stop()


def test_steps_of_the_wall_clock_evict_no_member_and_drop_no_replica(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(live(tmp_path), DEADLINE_SECONDS))
