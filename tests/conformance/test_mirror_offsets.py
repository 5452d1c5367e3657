"""MirrorMaker's own class for applications that fail over, `RemoteClusterUtils`, reads our checkpoints, heartbeats and topic names."""

import subprocess
from pathlib import Path

from confluent_kafka import Producer
from isthmus_client.admin import group_offsets
from isthmus_client.admin.group_offsets import Committed
from isthmus_client.admin.topics import NewTopic, create, delete_records
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition

from bench.mirror_maker import fetch as fetch_mirror_maker
from tests.kafka import SHORT_LIVED_JVM, fetch, running_kafka
from tests.node import running_node
from tests.system.ledger import wait_until
from tests.system.mirrors import running_mirror
from tests.system.quorums import query, wait_for

SOURCE = Path(__file__).parent / "clients" / "RemoteOffsets.java"
SETTINGS = {
    "west->east.enabled": "true",
    "west->east.topics": "orders",
    "refresh.topics.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
}
COMMITTED = {TopicPartition("orders", 0): 60, TopicPartition("orders", 1): 125, TopicPartition("orders", 2): 20}


def remote_offsets(bootstrap: str, alias: str, group: str) -> set[str]:
    """What the Java class says."""
    command = ["java", *SHORT_LIVED_JVM, "-cp", f"{fetch_mirror_maker()}/*", str(SOURCE), bootstrap, alias, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


def test_offsets_are_those_of_the_records_that_the_group_has_not_read(tmp_path: Path) -> None:
    fetch()
    with running_kafka(tmp_path / "west") as west, running_node(tmp_path / "east") as east:
        query(west.bootstrap, lambda client: create(client, [NewTopic("orders", 3, 1)]))
        producer = Producer({"bootstrap.servers": west.bootstrap, "batch.num.messages": 10, "log_level": 2})
        for number in range(390):
            producer.produce("orders", f"v{number // 3}", partition=number % 3)
        assert producer.flush(60) == 0
        # A copy that begins late, within a batch: its offsets are not its source's.
        query(west.bootstrap, lambda client: delete_records(client, {TopicPartition("orders", 0): 17}))
        wanted = {partition: Committed(offset) for partition, offset in COMMITTED.items()}
        query(west.bootstrap, lambda client: group_offsets.commit(client, "readers", wanted))
        clusters = {"west": west.bootstrap, "east": east.bootstrap}
        with running_mirror(tmp_path / "mirror", clusters, SETTINGS):
            expected = {"west.orders-0 43", "west.orders-1 125", "west.orders-2 20"}
            _await_topics(east.bootstrap)
            found: set[str] = set()

            def translated() -> bool:
                found.clear()
                found.update(remote_offsets(east.bootstrap, "west", "readers"))
                return expected <= found

            wait_until(translated, "translated offsets")
            assert found == {*expected, "upstream west hops 1"}


def _await_topics(bootstrap: str) -> None:
    async def with_client(client: Client) -> set[str]:
        return set((await client.refresh(None)).topics)

    wait_for(bootstrap, with_client, lambda names: names >= {"west.checkpoints.internal", "west.heartbeats"})
