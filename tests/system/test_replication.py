"""Three nodes with three replicas of everything: nodes killed, stopped and brought back under load; consumers that read nearby."""

import re
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conformance.clients.java import run
from tests.node import COMBINED, Cluster, running_cluster
from tests.system.ledger import PARTITIONS, Ledger, wait_until
from tests.system.near_reader import NearReader

RACKS = ("eu/a", "eu/b", "us/a")
RECORDS_A_ROUND = 400
LAG_MS = "1500"
SETTINGS = {
    "replica.lag.time.max.ms": LAG_MS,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "log.segment.bytes": "1048576",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
}
EVERYBODY = [1, 2, 3]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests; each leaves it whole."""
    directory = tmp_path_factory.mktemp("replication")
    with running_cluster(directory, [COMBINED] * 3, racks=RACKS, settings=SETTINGS) as made:
        yield made


def create(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(30)


def in_sync(cluster: Cluster, topic: str) -> list[list[int]] | None:
    """The in-sync replicas of each partition; None while they are unknown."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    try:
        found = admin.list_topics(topic, timeout=5).topics[topic].partitions
    except KafkaException:
        return None
    return [sorted(found[index].isrs) for index in sorted(found)]


def leader_of(cluster: Cluster, topic: str, partition: int = 0) -> int:
    """The leader, once a new topic has reached the broker that responds."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    leaders: dict[int, int] = {}

    def has_leader() -> bool:
        partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
        leaders.update({index: metadata.leader for index, metadata in partitions.items()})
        return partition in leaders

    wait_until(has_leader, f"a leader of {topic}-{partition}")
    return leaders[partition]


def stored(cluster: Cluster, topic: str, partition: int) -> list[bytes]:
    """The bytes of a partition's log on every node."""
    logs = []
    for number in cluster.brokers:
        folder = cluster.nodes[number].directory / "data" / f"{topic}-{partition}"
        logs.append(b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))))
    return logs


def under_replicated(cluster: Cluster) -> set[str]:
    """What kafka-topics says is not whole."""
    listed = run("kafka-topics", "--describe", "--under-replicated-partitions", "--bootstrap-server", cluster.bootstrap)
    return {name for line in listed for name in re.findall(r"Topic: (\S+)", line)}


def test_leaders_killed_under_load_lose_and_double_nothing(cluster: Cluster) -> None:
    create(cluster, "ledger", PARTITIONS)
    ledger = Ledger(cluster.bootstrap, "ledger")
    for round_number in range(3):
        ledger.wait_for(ledger.total() + RECORDS_A_ROUND)
        victim = leader_of(cluster, "ledger", round_number % PARTITIONS)
        cluster.nodes[victim].kill()
        ledger.wait_for(ledger.total() + RECORDS_A_ROUND)
        if round_number == 0:
            assert "ledger" in under_replicated(cluster)
        cluster.start(victim)
        wait_until(lambda: in_sync(cluster, "ledger") == [EVERYBODY] * PARTITIONS, "every replica in sync")
    ledger.finish()
    ledger.check()
    assert "ledger" not in under_replicated(cluster)
    for partition in range(PARTITIONS):
        first, *others = stored(cluster, "ledger", partition)
        assert first
        assert [other == first for other in others] == [True, True], f"the logs of partition {partition} differ"


def test_a_replica_that_stands_still_leaves_the_isr_and_comes_back(cluster: Cluster) -> None:
    create(cluster, "slow")
    leader = leader_of(cluster, "slow")
    follower = next(number for number in EVERYBODY if number not in (leader, 1))  # node 1 may lead the quorum
    cluster.nodes[follower].signal(signal.SIGSTOP)
    try:
        producer = Producer({"bootstrap.servers": cluster.nodes[leader].bootstrap, "acks": "all", "log_level": 2})
        failed: list[object] = []
        producer.produce("slow", b"v", partition=0, on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(60) == 0
        assert failed == [None]
        left = sorted(set(EVERYBODY) - {follower})
        wait_until(lambda: in_sync(cluster, "slow") == [left], "an ISR without the replica that stands still")
    finally:
        cluster.nodes[follower].signal(signal.SIGCONT)
    wait_until(lambda: in_sync(cluster, "slow") == [EVERYBODY], "every replica in sync")


def test_a_consumer_reads_from_the_replica_in_its_rack_and_goes_on_elsewhere_when_that_dies(cluster: Cluster) -> None:
    create(cluster, "near")
    leader = leader_of(cluster, "near")
    near = next(number for number in EVERYBODY if number != leader)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 2})
    sent = [str(number).encode() for number in range(600)]

    def produce(values: list[bytes]) -> None:
        for value in values:
            producer.produce("near", value, partition=0)
        assert producer.flush(60) == 0

    produce(sent[:200])
    reader = NearReader(cluster.bootstrap, "near", RACKS[near - 1])
    try:
        wait_until(lambda: reader.is_at(near) and reader.has(200), "records from the near replica")
        produce(sent[200:400])
        wait_until(lambda: reader.has(400), "new records from the near replica")
        assert reader.fetches_from == near
        cluster.nodes[near].kill()
        produce(sent[400:])
        wait_until(lambda: reader.has(600), "the rest from another replica")
        assert reader.values == sent
    finally:
        reader.close()
        cluster.start(near)
    wait_until(lambda: in_sync(cluster, "near") == [EVERYBODY], "every replica in sync")


def test_groups_go_on_where_they_were_when_their_coordinator_dies(cluster: Cluster) -> None:
    create(cluster, "grouped")
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "g",
        "log_level": 2,
        "reconnect.backoff.max.ms": 200,
    }
    consumer = Consumer({**settings, "enable.auto.commit": False})
    place = [TopicPartition("grouped", 0)]
    try:
        assert consumer.commit(offsets=[TopicPartition("grouped", 0, 7)], asynchronous=False)[0].error is None
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        coordinator = admin.describe_consumer_groups(["g"])["g"].result(30).coordinator
        assert coordinator is not None
        cluster.nodes[coordinator.id].kill()
        assert consumer.committed(place, timeout=60)[0].offset == 7
        assert consumer.commit(offsets=[TopicPartition("grouped", 0, 9)], asynchronous=False)[0].error is None
        assert consumer.committed(place, timeout=60)[0].offset == 9
    finally:
        consumer.close()
    cluster.start(coordinator.id)
    wait_until(lambda: in_sync(cluster, "grouped") == [EVERYBODY], "every replica in sync")
