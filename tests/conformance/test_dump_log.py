"""Apache Kafka's kafka-dump-log reads every file that a node writes, and finds nothing wrong in it."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conformance.clients.java import run
from tests.conformance.clients.waiting import DEADLINE_SECONDS, wait_until
from tests.conformance.oracle.exchanges.streams_groups import beat, configure, internal_topic, join, part, topology_of
from tests.conformance.oracle.talk import Talk, Target
from tests.node import Node, running_node

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 400
# Random, so that every compression leaves more than one segment of the smallest size.
PAYLOAD = 2_800
SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.index.interval.bytes": "500",
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a node left after a clean stop."""
    directory = tmp_path_factory.mktemp("dumped")
    with running_node(directory, SETTINGS) as node:
        for compression in COMPRESSIONS:
            _fill(node, compression)
        for protocol in ("classic", "consumer"):
            _commit(node, protocol)
        _join_streams_group(node)
    return directory / "data"


def _fill(node: Node, compression: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    topic = f"dump-{compression}"
    admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1"})])[topic].result(DEADLINE_SECONDS)

    def delivered(error: KafkaError | None, _message: Message) -> None:
        assert error is None, error

    config = {"enable.idempotence": True, "compression.type": compression, "batch.num.messages": 7, "linger.ms": 5}
    producer = Producer({"bootstrap.servers": node.bootstrap, **config})
    for number in range(RECORDS):
        value = random.Random(number).randbytes(PAYLOAD).hex()
        producer.produce(topic, value, f"k{number}", partition=0, headers=[("h", b"1")], on_delivery=delivered)
    assert producer.flush(DEADLINE_SECONDS) == 0


def _commit(node: Node, protocol: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": f"dump-{protocol}", "group.protocol": protocol}
    )
    consumer.subscribe(["dump-none"])
    wait_until(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == 1, "an assignment")
    consumer.commit(offsets=[TopicPartition("dump-none", 0, 17, "a note")], asynchronous=False)
    consumer.close()


def _join_streams_group(node: Node) -> None:
    """Two members, one of which must revoke tasks, and one that has left."""
    talk = Talk(Target("127.0.0.1", node.port, node.directory))
    talk.topic("streams-changelog")
    group = talk.group("dump-streams")
    configure(talk, group, initial_rebalance_delay_ms="0", assignment_interval_ms="0", num_standby_replicas="1")
    topology = topology_of(
        part("0", "dump-none", state_changelog_topics=[internal_topic("streams-changelog", cleanup_policy="compact")]),
        part("1", "dump-zstd"),
    )
    first = join(talk, group, "a", topology, "p", user_endpoint={"host": "h", "port": 1}, rack_id="r")
    join(talk, group, "b", topology, "q")
    beat(talk, group, "a", first["member_epoch"])
    join(talk, group, "c", topology, "r")
    beat(talk, group, "c", -1)
    talk.close()


def dump(files: list[Path], *options: str) -> list[str]:
    """What it says of the files; on a mismatch it says so in its own words."""
    assert files
    lines = run("kafka-dump-log", "--files", ",".join(map(str, files)), *options)
    assert [line for line in lines if line.startswith("Dumping ")] == [f"Dumping {file}" for file in files]
    words = ("mismatch", "invalid", "isvalid: false", "not found", "corrupt", "exception", "sanity check failed")
    assert [line for line in lines if any(word in line.lower() for word in words)] == []
    return lines


def records(lines: list[str]) -> Iterator[str]:
    return (line.removeprefix("| ") for line in lines if line.startswith("| offset: "))


def test_segments_of_every_compression(data: Path) -> None:
    files = [file for name in COMPRESSIONS for file in sorted((data / f"dump-{name}-0").glob("*.log"))]
    assert len(files) >= 2 * len(COMPRESSIONS)
    lines = dump(files, "--deep-iteration", "--print-data-log")
    found = [(line.split(" ")[1], line.partition(" key: ")[2].split(" ")[0]) for line in records(lines)]
    assert found == [(str(number), f"k{number}") for _ in COMPRESSIONS for number in range(RECORDS)]
    batches = [line for line in lines if line.startswith("baseOffset: ")]
    assert {line.partition(" compresscodec: ")[2].split(" ")[0] for line in batches} == set(COMPRESSIONS)
    assert all(" isvalid: true" in line and " producerId: -1 " not in line for line in batches)


def test_indexes(data: Path) -> None:
    indexes = sorted(data.glob("*-*/*.index"))
    times = sorted(data.glob("*-*/*.timeindex"))
    assert sum(file.stat().st_size for file in indexes if file.parent.name == "dump-none-0") > 0
    sane = dump([*indexes, *times], "--index-sanity-check")
    filled = [file for file in [*indexes, *times] if file.stat().st_size > 0]
    empty = [line.removesuffix(" is empty.") for line in sane if line.endswith(" is empty.")]
    assert all(Path(file).stat().st_size == 0 for file in empty)
    assert sum("passed sanity check" in line for line in sane) == len(indexes) + len(times) - len(empty)
    dump(filled, "--verify-index-only")
    dump(filled)


def test_producer_snapshots(data: Path) -> None:
    files = sorted(data.glob("dump-*/*.snapshot"))
    lines = [line for line in dump(files) if line.startswith("producerId: ")]
    assert len(lines) == len(files)  # one producer wrote each log
    last = f"{RECORDS:020}.snapshot"
    assert [" lastOffset: 399 " in line for line, file in zip(lines, files, strict=True) if file.name == last] == [
        True for _ in COMPRESSIONS
    ]


def test_the_metadata_log_and_its_snapshots(data: Path) -> None:
    directory = data / "__cluster_metadata-0"
    logs = sorted(directory.glob("*.log"))
    snapshots = sorted(directory.glob("*.checkpoint"))
    assert snapshots
    said = "\n".join(dump(logs + snapshots, "--cluster-metadata-decoder"))
    for kind in ("TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD"):
        assert f'"type":"{kind}"' in said
    assert said.count("SnapshotHeader") == len(snapshots)
    assert '"name":"dump-zstd"' in said


def test_group_offsets_and_members(data: Path) -> None:
    files = [file for file in sorted(data.glob("__consumer_offsets-*/*.log")) if file.stat().st_size > 0]
    said = "\n".join(dump(files, "--offsets-decoder"))
    for protocol in ("classic", "consumer"):
        assert f'"group":"dump-{protocol}","topic":"dump-none","partition":0' in said
    # confluent-kafka ends the metadata with the NUL of its C string.
    assert said.count('"offset":17,"leaderEpoch":-1,"metadata":"a note\\u0000"') == 2
    assert '"protocolType":"consumer"' in said


def test_streams_groups(data: Path) -> None:
    files = [file for file in sorted(data.glob("__consumer_offsets-*/*.log")) if file.stat().st_size > 0]
    of_group = [line for line in records(dump(files, "--offsets-decoder")) if '"groupId":"dump-streams"' in line]
    kinds = [re.findall(r'key: {"type":"(\d+)"', line) for line in of_group]
    assert {kind for (kind,) in kinds} == {"17", "19", "20", "21", "22", "23"}
    assert kinds[:6] == [["19"], ["23"], ["17"], ["21"], ["20"], ["22"]]  # what the first heartbeat has to say
    said = "\n".join(of_group)
    for field in (
        '"userEndpoint":{"host":"h","port":1}',
        '"lastAssignmentConfigs":[{"key":"num.standby.replicas","value":"1"}]',
        '"stateChangelogTopics":[{"name":"streams-changelog","partitions":0',
        '"activeTasks":[{"subtopologyId":"0","partitions":[0],"assignmentEpochs":[2]}]',
        '"activeTasksPendingRevocation":[{"subtopologyId":"1","partitions":[0],"assignmentEpochs":[2]}]',
    ):
        assert field in said
    assert said.count("payload: <DELETE>") == 3
